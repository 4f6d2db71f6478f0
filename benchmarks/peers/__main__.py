"""Peers against ours: the same problems, noise and number of plays; one table.

    make peers                                   # their environment, .venv-peers
    python -m benchmarks.peers --problem exoskeleton:candidates=0 --seeds 3

Each peer runs in a process of its own environment and is asked and told over a pipe; only its own time
counts, processor time of one thread. A peer that fails is asked no more, and the failure stands in the
table; so does the gap of one that is not installed, or cannot be. Every run is a line of runs.jsonl in
`--out` as soon as it is done, and is not played again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.peers.adapters import GAPS, PEERS
from tvbandits._version import __version__
from tvbandits.cli.problems import make_problem
from tvbandits.comparison.board import Made
from tvbandits.comparison.compare import Comparison
from tvbandits.comparison.playing import play_one
from tvbandits.comparison.setup import REWARD_NOISE, Prepared, begun, played, prepare
from tvbandits.core.box import Box

HERE = Path(__file__).parent
OURS = ("time-gp-ucb", "w-dbo:first=15", "adaptive-gp-ucb", "gp-ucb", "uniform")


class Served:
    """A peer in its own process."""

    def __init__(self, python: str, name: str, bounds: Any, horizon: int, seed: int) -> None:
        self.process = subprocess.Popen(
            [python, str(HERE / "serve.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        order = {"make": name, "bounds": bounds, "horizon": horizon, "seed": seed}
        self.version = self.call(order)["ok"]

    def call(self, order: dict[str, Any]) -> dict[str, Any]:
        """Its answer; a `RuntimeError` says what went wrong."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "its process ended"}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self) -> None:
        """End its process."""
        self.process.kill()
        self.process.wait()


def one_run(python: str, name: str, prepared: Any, minutes: float) -> dict[str, Any]:
    """Regrets, seconds a step, and what went wrong, of one peer and seed in at most so many minutes."""
    prepared = begun(prepared)
    problem, seed = prepared.problem, prepared.known.seed
    domain, peer = problem.domain, None
    bounds = (
        domain.bounds
        if isinstance(domain, Box)
        else np.column_stack([domain.X.min(axis=0), domain.X.max(axis=0)])
    )
    regrets: list[float] = []
    seconds: list[float] = []
    failure, version = "", ""
    try:
        peer = Served(python, name, bounds.tolist(), prepared.known.horizon, seed)
        version = peer.version
        for t in range(1, prepared.known.horizon + 1):
            asked = peer.call({"ask": float(t)})
            X = np.array([asked["x"]])
            # On a finite domain the nearest candidate is played, and told.
            X = X if isinstance(domain, Box) else nearest(domain.X, X)
            best = problem.best(float(t))
            reward, told = played(problem, X, float(t), seed, REWARD_NOISE)
            regrets.append(best - reward)
            order = {"tell": [X[0].tolist(), told, float(t)]}
            seconds.append(asked["worked"] + peer.call(order)["worked"])
            if sum(seconds) > 60 * minutes:
                raise TimeoutError(f"stopped after {minutes:g} minutes")
    except (RuntimeError, OSError) as error:
        failure = f"step {len(regrets) + 1}: {error}"
    finally:
        if peer is not None:
            peer.close()
    return {
        "policy": name,
        "version": version,
        "seed": seed,
        "regrets": regrets,
        "seconds": seconds,
        "failure": failure,
    }


def nearest(candidates: Any, X: Any) -> Any:
    """The candidate next to each point."""
    return candidates[((candidates[None] - X[:, None]) ** 2).sum(axis=2).argmin(axis=1)]


def our_run(text: str, problem: Any, prepared: Prepared, name: str) -> dict[str, Any]:
    """The same of ours, in this process."""
    plan = Comparison({text: problem}, [name], [prepared.known.seed], prepared.known.horizon)
    begun = time.process_time()
    run = play_one(prepared, name, plan.policies[name], plan.conditions)
    worked = (time.process_time() - begun) / len(run.rows)
    return {
        "policy": name,
        "version": f"tvbandits {__version__}",
        "seed": run.seed,
        "regrets": [row["regret"] for row in run.rows],
        "seconds": [worked] * len(run.rows),
        "failure": "",
    }


class Kept:
    """Runs in a file, a line each."""

    def __init__(self, out: Path | None) -> None:
        self.path = None if out is None else out / "runs.jsonl"
        self.runs: list[dict[str, Any]] = []
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.is_file():
                self.runs = [json.loads(line) for line in self.path.read_text().splitlines()]

    def add(self, run: dict[str, Any]) -> None:
        """Keep one more."""
        self.runs.append(run)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(run) + "\n")

    def has(self, problem: str, policy: str, seed: int) -> bool:
        """Whether it is there."""
        key = (problem, policy, seed)
        return any((run["problem"], run["policy"], run["seed"]) == key for run in self.runs)


def table_of(runs: list[dict[str, Any]], horizon: int) -> pd.DataFrame:
    """A line a problem and policy: runs, regret of whole ones, time a step, failures; gaps last."""
    lines = []
    for problem, name in dict.fromkeys((run["problem"], run["policy"]) for run in runs):
        mine = [run for run in runs if (run["problem"], run["policy"]) == (problem, name)]
        whole = [float(np.mean(run["regrets"])) for run in mine if len(run["regrets"]) == horizon]
        seconds = [second for run in mine for second in run["seconds"]]
        failures = [run["failure"] for run in mine if run["failure"]]
        lines.append(
            {
                "problem": problem,
                "policy": name,
                "version": mine[0]["version"],
                "runs": len(mine),
                "whole runs": len(whole),
                "average regret": np.mean(whole) if whole else np.nan,
                "smallest": min(whole, default=np.nan),
                "largest": max(whole, default=np.nan),
                "ms a step": 1e3 * float(np.mean(seconds)) if seconds else np.nan,
                "failures": failures[0] if failures else "",
            }
        )
    table = pd.DataFrame(lines)
    gaps = [{"policy": name, "failures": why} for name, why in GAPS.items()]
    order = list(dict.fromkeys(table["problem"]))
    table = table.sort_values(
        ["problem", "average regret"],
        key=lambda c: c.map(order.index) if c.name == "problem" else c,
    )
    return pd.concat([table, pd.DataFrame(gaps)], ignore_index=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--problem", action="append", help="exoskeleton:candidates=0 by default")
    parser.add_argument("--peer", action="append", choices=list(PEERS))
    parser.add_argument("--policy", action="append")
    parser.add_argument("--horizon", type=int, default=80)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=10.0, help="of a peer in one run")
    parser.add_argument("--python", default=".venv-peers/bin/python", help="of their environment")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    kept, horizon = Kept(given.out), given.horizon
    texts = given.problem or ["exoskeleton:candidates=0"]
    for seed in range(given.seeds):
        for text in texts:
            problem = make_problem(text, [], horizon)
            prepared = prepare(text, problem, seed, horizon)
            for name in [*(given.policy or OURS), *(given.peer or PEERS)]:
                if kept.has(text, name, seed):
                    continue
                peer = name in PEERS
                run = (
                    one_run(given.python, name, prepared, given.minutes)
                    if peer
                    else our_run(text, problem, prepared, name)
                )
                kept.add({"problem": text, **run})
                print(f"{text}, {name}, seed {seed}: {run['failure'] or 'done'}", file=sys.stderr)
    table = table_of(kept.runs, horizon)
    print(table.to_string(index=False, float_format=lambda value: f"{value:.3g}"))
    if given.out is not None:
        table.to_csv(given.out / "peers.csv", index=False, float_format="%.5g")
        made = Made.now("peers", " ".join(["python -m benchmarks.peers", *sys.argv[1:]]))
        (given.out / "made.json").write_text(json.dumps(vars(made), indent=2) + "\n")


if __name__ == "__main__":
    main()
