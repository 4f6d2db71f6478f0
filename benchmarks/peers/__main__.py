"""Peers against ours: the same problem, noise and number of plays; one table.

    make peers                                   # their environment, .venv-peers
    python -m benchmarks.peers --problem exoskeleton:candidates=0 --seeds 3

Each peer runs in a process of its own environment and is asked and told over a pipe; only its own time
counts. A peer that fails is asked no more, and the failure stands in the table; so does the gap of one
that is not installed, or cannot be.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.peers.adapters import GAPS, PEERS
from tvbandits.cli.problems import make_problem
from tvbandits.comparison.compare import Comparison, iterate
from tvbandits.comparison.setup import REWARD_NOISE, begun, played, prepare
from tvbandits.comparison.studies.board import Made
from tvbandits.core.domains import Box

HERE = Path(__file__).parent
OURS = ("time-gp-ucb", "w-dbo", "tv-gp-ucb", "gp-ucb", "uniform")


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


def one_run(python: str, name: str, prepared: Any) -> dict[str, Any]:
    """Regrets, seconds a step, and what went wrong, of one peer and seed."""
    prepared = begun(prepared)
    problem, seed = prepared.problem, prepared.seed
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
        peer = Served(python, name, bounds.tolist(), prepared.horizon, seed)
        version = peer.version
        for t in range(1, prepared.horizon + 1):
            asked = peer.call({"ask": float(t)})
            X = np.array([asked["x"]])
            # On a finite domain the nearest candidate is played, and told.
            X = X if isinstance(domain, Box) else nearest(domain.X, X)
            best = problem.best(float(t))
            rewards, told = played(problem, X, np.array([float(t)]), seed, REWARD_NOISE)
            regrets.append(best - float(rewards[0]))
            order = {"tell": [X[0].tolist(), float(told[0]), float(t)]}
            seconds.append(asked["seconds"] + peer.call(order)["seconds"])
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


def ours(problem: Any, names: list[str], seeds: int, horizon: int) -> list[dict[str, Any]]:
    """The same of ours, in this process."""
    found = []
    for run in iterate(Comparison(problem, names, seeds, horizon)):
        regrets = [row["regret"] for row in run.rows]
        seconds = [row["seconds"] for row in run.rows]
        found.append(
            {
                "policy": run.policy,
                "version": "ours",
                "seed": run.seed,
                "regrets": regrets,
                "seconds": seconds,
                "failure": "",
            }
        )
    return found


def table_of(runs: list[dict[str, Any]], horizon: int) -> pd.DataFrame:
    """A line a policy: seeds, whole runs, regret of whole runs, median time a step, failures."""
    lines = []
    for name in dict.fromkeys(run["policy"] for run in runs):
        mine = [run for run in runs if run["policy"] == name]
        whole = [float(np.mean(run["regrets"])) for run in mine if len(run["regrets"]) == horizon]
        seconds = [second for run in mine for second in run["seconds"]]
        failures = [run["failure"] for run in mine if run["failure"]]
        lines.append(
            {
                "policy": name,
                "version": mine[0]["version"],
                "runs": len(mine),
                "whole runs": len(whole),
                "average regret": np.mean(whole) if whole else np.nan,
                "sd": np.std(whole, ddof=1) if len(whole) > 1 else np.nan,
                "median ms a step": 1e3 * float(np.median(seconds)) if seconds else np.nan,
                "failures": failures[0] if failures else "",
            }
        )
    return pd.DataFrame(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", default="exoskeleton:candidates=0")
    parser.add_argument("--peer", action="append", choices=list(PEERS))
    parser.add_argument("--policy", action="append")
    parser.add_argument("--horizon", type=int)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--python", default=".venv-peers/bin/python", help="of their environment")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    problem = make_problem(given.problem, [], given.horizon)
    horizon = given.horizon or problem.horizon
    runs = ours(problem, given.policy or list(OURS), given.seeds, horizon)
    for seed in range(given.seeds):
        prepared = prepare(given.problem, problem, seed, horizon)
        for name in given.peer or PEERS:
            runs.append(one_run(given.python, name, prepared))
            print(f"{name}, seed {seed}: {runs[-1]['failure'] or 'done'}", file=sys.stderr)
    table = table_of(runs, horizon)
    gaps = pd.DataFrame([{"policy": name, "failures": why} for name, why in GAPS.items()])
    table = pd.concat([table, gaps], ignore_index=True)
    print(table.to_string(index=False))
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        table.to_csv(given.out / "peers.csv", index=False)
        made = Made.now(
            f"peers on {given.problem}", " ".join(["python -m benchmarks.peers", *sys.argv[1:]])
        )
        (given.out / "made.json").write_text(json.dumps(vars(made), indent=2) + "\n")


if __name__ == "__main__":
    main()
