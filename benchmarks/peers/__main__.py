"""Other packages against our policies, with the same problems, noise and number of plays.

    make peers                                   # their environment, .venv-peers
    python -m benchmarks.peers --problem exoskeleton:candidates=0 --seeds 3

Each peer runs in a process of its own environment, with one thread, and communicates by a pipe; only
its own processor time counts. If a peer fails, or is not installed, the error is printed. `--out` has a
line of runs.jsonl for each run, and these runs are not played again. The table has a row for each
policy and a column for each problem with the average regret of complete runs and half of its 95%
interval, sorted by the mean rank over problems.
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

from benchmarks.harness import cache_result, half_interval, heading, line, make_parser
from benchmarks.peers.adapters import PEERS
from tvbandits._version import __version__
from tvbandits.comparison.arguments import make_problem
from tvbandits.comparison.compare import Comparison
from tvbandits.comparison.run import play_run
from tvbandits.comparison.setup import Realisation, prepare
from tvbandits.domains.box import Box

HERE = Path(__file__).parent
OURS = ("time-gp-ucb", "w-dbo:initial_points=15", "adaptive-gp-ucb", "gp-ucb", "uniform")


class PeerProcess:
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
        """Send an order, and return the reply; raise a `RuntimeError` if it is an error."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        reply: dict[str, Any] = json.loads(line) if line else {"error": "its process ended"}
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def play_peer(python: str, name: str, realisation: Realisation, minutes: float) -> dict[str, Any]:
    """Return version, regrets, seconds a step, and the error of a run of at most so many minutes."""
    realisation = realisation.begin()
    problem, seed, horizon = realisation.problem, realisation.seed, realisation.horizon
    domain: Any = problem.domain
    bounds = domain.bounds if isinstance(domain, Box) else np.quantile(domain.X, [0, 1], axis=0).T
    regrets: list[float] = []
    seconds: list[float] = []
    failure, version, peer = "", "", None
    try:
        peer = PeerProcess(python, name, bounds.tolist(), horizon, seed)
        version = peer.version
        for t in range(1, horizon + 1):
            reply = peer.call({"ask": float(t)})
            X = np.array([reply["x"]])
            if not isinstance(domain, Box):  # the nearest candidate is played and reported
                X = domain.X[[((domain.X - X) ** 2).sum(axis=1).argmin()]]
            best = problem.best(float(t))
            reward, reading = realisation.environment.play(X, float(t), seed)
            regrets.append(best - reward)
            told = peer.call({"tell": [X[0].tolist(), reading, float(t)]})
            seconds.append(reply["seconds"] + told["seconds"])
            if sum(seconds) > 60 * minutes:
                raise TimeoutError(f"stopped after {minutes:g} minutes")
    except (RuntimeError, OSError) as error:
        failure = f"step {len(regrets) + 1}: {error}"
        print(f"{name}, seed {seed}: {failure}", file=sys.stderr)
    finally:
        if peer is not None:
            peer.close()
    return {"version": version, "regrets": regrets, "seconds": seconds, "failure": failure}


def play_ours(text: str, realisation: Realisation, name: str) -> dict[str, Any]:
    """Return the same as `play_peer` for one of our policies, in this process."""
    seed, horizon = realisation.seed, realisation.horizon
    plan = Comparison({text: realisation.problem}, [name], [seed], horizon)
    start = time.process_time()
    run = play_run(realisation, name, plan.policies[name], plan.conditions)
    step_seconds = (time.process_time() - start) / len(run.rows)
    regrets = run.rows["regret"].to_list()
    seconds = [step_seconds] * len(run.rows)
    version = f"tvbandits {__version__}"
    return {"version": version, "regrets": regrets, "seconds": seconds, "failure": ""}


def show(runs: pd.DataFrame) -> None:
    """Print the table of complete runs, which have `problem`, `policy`, `version`, `regret` and `ms`."""
    groups = runs.groupby(["policy", "problem"], sort=False)["regret"]
    means, counts = groups.mean().unstack(), groups.size().unstack().min(axis=1)
    halves = groups.agg(lambda each: half_interval(each.to_numpy())).unstack()
    versions = runs.groupby("policy")["version"].last()
    times, ranks = runs.groupby("policy")["ms"].mean(), means.rank().mean(axis=1)
    heading("policy", "version", *means.columns, "runs", "mean rank", "ms a step")
    for name in ranks.sort_values().index:
        pairs = zip(means.loc[name], halves.loc[name], strict=True)
        cells = (f"{mean:.3g}" + (f" ± {half:.2g}" if half == half else "") for mean, half in pairs)
        line(name, versions[name], *cells, counts[name], ranks[name], f"{times[name]:.3g}")


def main() -> None:
    parser = make_parser(__doc__, horizon=80, seeds=3, minutes=10.0)
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
            peer = partial(play_peer, options.python, name, realisation, options.minutes)
            play = peer if name in PEERS else partial(play_ours, text, realisation, name)
            run = cache_result(file, (text, name, seed, options.horizon), play)
            row = {"problem": text, "policy": name, "version": run["version"]}
            is_complete = len(run["regrets"]) == options.horizon
            means = {"regret": np.mean(run["regrets"]), "ms": 1e3 * np.mean(run["seconds"])}
            rows += [{**row, **means}] if is_complete else []
    show(pd.DataFrame(rows))


if __name__ == "__main__":
    main()
