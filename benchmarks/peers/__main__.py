"""Peers against ours: the same problems, noise and number of plays; one table.

    make peers                                   # their environment, .venv-peers
    python -m benchmarks.peers --problem exoskeleton:candidates=0 --seeds 3

Each peer runs in a process of its own environment and is asked and told over a pipe; only its own time
counts, processor time of one thread. A peer that fails, or is not installed, is asked no more, and the
failure is printed. Every run is a line of runs.jsonl in `--out` as soon as it is done, and is not played
again. The table has a line for each policy and a column for each problem: average regret of whole runs
with half of its 95% interval; the best mean rank over problems is on top.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.harness import arguments, half_interval, heading, kept, line
from benchmarks.peers.adapters import PEERS
from tvbandits._version import __version__
from tvbandits.comparison.arguments import make_problem
from tvbandits.comparison.compare import Comparison
from tvbandits.comparison.run import play_run
from tvbandits.comparison.setup import Realisation, prepare
from tvbandits.domains.box import Box

HERE = Path(__file__).parent
OURS = ("time-gp-ucb", "w-dbo:initial_points=15", "adaptive-gp-ucb", "gp-ucb", "uniform")


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


def one_run(python: str, name: str, realisation: Realisation, minutes: float) -> dict[str, Any]:
    """Regrets, seconds a step, and what went wrong, of one peer and seed in at most so many minutes."""
    realisation = realisation.begin()
    problem, seed, horizon = realisation.problem, realisation.seed, realisation.horizon
    domain: Any = problem.domain
    bounds = domain.bounds if isinstance(domain, Box) else np.quantile(domain.X, [0, 1], axis=0).T
    regrets: list[float] = []
    seconds: list[float] = []
    failure, version, peer = "", "", None
    try:
        peer = Served(python, name, bounds.tolist(), horizon, seed)
        version = peer.version
        for t in range(1, horizon + 1):
            asked = peer.call({"ask": float(t)})
            X = np.array([asked["x"]])
            if not isinstance(domain, Box):  # the nearest candidate is played, and told
                X = domain.X[[((domain.X - X) ** 2).sum(axis=1).argmin()]]
            best = problem.best(float(t))
            reward, reading = realisation.environment.play(X, float(t), seed)
            regrets.append(best - reward)
            answer = peer.call({"tell": [X[0].tolist(), reading, float(t)]})
            seconds.append(asked["worked"] + answer["worked"])
            if sum(seconds) > 60 * minutes:
                raise TimeoutError(f"stopped after {minutes:g} minutes")
    except (RuntimeError, OSError) as error:
        failure = f"step {len(regrets) + 1}: {error}"
        print(f"{name}, seed {seed}: {failure}", file=sys.stderr)
    finally:
        if peer is not None:
            peer.close()
    return {"version": version, "regrets": regrets, "seconds": seconds, "failure": failure}


def our_run(text: str, realisation: Realisation, name: str) -> dict[str, Any]:
    """The same of ours, in this process."""
    seed, horizon = realisation.seed, realisation.horizon
    plan = Comparison({text: realisation.problem}, [name], [seed], horizon)
    begun = time.process_time()
    run = play_run(realisation, name, plan.policies[name], plan.conditions)
    worked = (time.process_time() - begun) / len(run.rows)
    regrets = run.rows["regret"].to_list()
    seconds = [worked] * len(run.rows)
    version = f"tvbandits {__version__}"
    return {"version": version, "regrets": regrets, "seconds": seconds, "failure": ""}


def show(runs: pd.DataFrame) -> None:
    """Print the table of whole runs, with `problem`, `policy`, `version`, `regret` and `ms` of each."""
    by = runs.groupby(["policy", "problem"], sort=False)["regret"]
    means, counts = by.mean().unstack(), by.size().unstack().min(axis=1)
    halves = by.agg(lambda each: half_interval(each.to_numpy())).unstack()
    versions = runs.groupby("policy")["version"].last()
    times, ranks = runs.groupby("policy")["ms"].mean(), means.rank().mean(axis=1)
    heading("policy", "version", *means.columns, "runs", "mean rank", "ms a step")
    for name in ranks.sort_values().index:
        pairs = zip(means.loc[name], halves.loc[name], strict=True)
        cells = (f"{mean:.3g}" + (f" ± {half:.2g}" if half == half else "") for mean, half in pairs)
        line(name, versions[name], *cells, counts[name], ranks[name], f"{times[name]:.3g}")


def main() -> None:
    parser = arguments(__doc__, horizon=80, seeds=3, minutes=10.0)
    default = ["exoskeleton:candidates=0"]
    parser.add_argument("--problem", nargs="*", default=default, help=f"{default[0]} by default")
    parser.add_argument("--peer", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--policy", nargs="*", default=OURS)
    parser.add_argument("--python", default=".venv-peers/bin/python", help="of their environment")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    file = None
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        file = options.out / "runs.jsonl"
    rows = []
    for seed, text in itertools.product(range(options.seeds), options.problem):
        problem = make_problem(text, [], options.horizon)
        realisation = prepare(text, problem, seed, options.horizon)
        for name in [*options.policy, *options.peer]:
            peer = partial(one_run, options.python, name, realisation, options.minutes)
            play = peer if name in PEERS else partial(our_run, text, realisation, name)
            run = kept(file, (text, name, seed, options.horizon), play)
            row = {"problem": text, "policy": name, "version": run["version"]}
            whole = len(run["regrets"]) == options.horizon
            means = {"regret": np.mean(run["regrets"]), "ms": 1e3 * np.mean(run["seconds"])}
            rows += [{**row, **means}] if whole else []
    show(pd.DataFrame(rows))


if __name__ == "__main__":
    main()
