"""Rows of some eighty runs as digests, to show that a change of the code changes no behaviour.

    python -m benchmarks.fingerprint before.json
    python -m benchmarks.fingerprint after.json --against before.json

The runs cover every policy, posterior, query plan, problem and wrapper. Digests are of all columns but
the time, to the last bit; they hold for one machine and one set of installed versions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Matern
from threadpoolctl import threadpool_limits

from benchmarks.harness import DATA
from tvbandits import Bandit, Box, Candidates, experts, policies
from tvbandits.cli.problems import make_problem
from tvbandits.comparison.compare import Comparison, iterate
from tvbandits.comparison.playing import Run
from tvbandits.core.arrays import Array
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.policies.expert import PLANS

BUMP = "drifting-bump:candidates=101"
# Of all rows, how many there are, and a sum that shows how far apart two runs are.
Digest = tuple[str, int, float]

Case = tuple[str, Callable[[], Digest]]
WIDTH: Any = {"confidence": 2.0}
BOX, SQUARE = Box(np.array([[0.0, 1.0]])), Box(np.array([[0.0, 1.0], [0.0, 1.0]]))
LINE = Candidates(np.linspace(0, 1, 80)[:, None])
SHORT, ROUGH = RBF(0.2), Matern([0.3, 0.4], nu=2.5)


def of_rows(runs: Iterable[Run]) -> Digest:
    """Of the rows of a comparison."""
    digest, count, total = hashlib.sha256(), 0, 0.0
    for run in runs:
        for row in run.rows:
            digest.update(repr([(k, v) for k, v in row.items() if k != "seconds"]).encode())
            count += 1
        total += run.rows[-1]["average_regret"]
    return digest.hexdigest()[:16], count, total


def compared(
    problem: str,
    policies: str | list[str],
    horizon: int = 60,
    files: Iterable[Path] = (),
    confidence: float | str = 2.0,
    equal_information: bool = False,
) -> Callable[[], Digest]:
    """A comparison of one seed."""

    def go() -> Digest:
        made = {problem: make_problem(problem, list(files), horizon)}
        names = [policies] if isinstance(policies, str) else policies
        return of_rows(
            iterate(
                Comparison(
                    made,
                    names,
                    1,
                    horizon,
                    confidence=confidence,
                    equal_information=equal_information,
                )
            )
        )

    return go


def truth(X: Array, t: float | Array) -> Array:
    """A wave that drifts."""
    return np.asarray(np.sin(5 * X[:, 0] + 0.05 * t))


def wave_expert(variance: float = 0.01) -> experts.CallableExpert:
    """Knows it."""
    return experts.CallableExpert(truth, variance)


def loop(make: Callable[[], Bandit], steps: int = 40, late: bool = False) -> Callable[[], Digest]:
    """Ask, tell, predict and recommend; at times a reward comes late."""

    def go() -> Digest:
        bandit, rng = make(), np.random.default_rng(3)
        digest, total = hashlib.sha256(), 0.0
        line = np.linspace(0, 1, 5)[:, None]
        for t in range(1, steps + 1):
            X = bandit.ask(float(t))
            y = truth(X, t) + 0.1 * rng.standard_normal(len(X))
            bandit.tell(X, y, float(t) - 2.5 if late and t % 7 == 0 else float(t))
            mean, deviation = bandit.predict(line * np.ones((1, X.shape[1])), float(t) + 1)
            for part in (X, y, mean, deviation, bandit.recommend(float(t) + 2)):
                digest.update(np.asarray(part).tobytes())
            total += float(y.mean())
        return digest.hexdigest()[:16], steps, total

    return go


def on_the_bump() -> Iterator[Case]:
    """Every policy and its options on the drifting bump."""
    for name in policies.POLICIES:
        yield f"bump {name}", compared(BUMP, name)
    sparse = ("gp", "r-gp", "sw-gp", "w-gp", "ui-gp", "sparq-gp", "et-gp")
    options = [
        *(f"{name}-ucb:posterior=nystrom" for name in sparse),
        "tv-gp-ucb:epsilon=0.03,posterior=nystrom",
        "w-gp-ucb:learn=true",
        "ui-gp-ucb:learn=true",
        "ui-gp-ucb:growth=linear",
        "sparq-gp-ucb:learn=true",
        "bbkb:rule=local",
        "bbkb:minimum_batch=4",
        "bkb:keep=false",
        "gp-bucb:minimum_batch=3",
    ]
    for name in options:
        yield f"bump {name}", compared(BUMP, name)
    for name in ("sparq-gp-ucb", "sw-gp-ucb"):
        yield f"bump theory {name}", compared(BUMP, name, confidence="theory")
    for plan in PLANS:
        yield f"bump plan {plan}", compared(BUMP, f"frugal-gp-ucb:budget=2,plan={plan}", 40)
    long = ("w-gp-ucb", "sparq-gp-ucb", "bkb", "gp-ucb", "ui-gp-ucb:learn=true")
    for name in (*long, "tv-gp-ucb:epsilon=0.03,posterior=nystrom"):
        yield f"bump long {name}", compared(BUMP, name, 200)
    yield "bump long frugal", compared(BUMP, "frugal-gp-ucb:budget=2", 130)


def on_other_problems() -> Iterator[Case]:
    """Other problems, those from files where they are there."""
    yield "gp-drift tv", compared("gp-drift", "adaptive-gp-ucb", 40)
    yield "gp-drift frugal", compared("gp-drift", "frugal-gp-ucb", 30)
    yield "gp-drift sparq", compared("gp-drift", "sparq-gp-ucb", 40)
    yield "switching et", compared("switching", "et-gp-ucb", 80)
    yield "switching r", compared("switching", "r-gp-ucb", 80)
    yield "network frugal", compared("ozone-network", "frugal-gp-ucb", 40)
    yield "network sparq", compared("ozone-network", "sparq-gp-ucb", 60)
    names = ["sparq-gp-ucb", "sw-gp-ucb", "adaptive-gp-ucb", "thompson"]
    yield "equal information", compared(BUMP, names, 40, equal_information=True)
    if not DATA.exists():
        return
    ozone = [DATA / "ozone" / "daily_ozone_2008.csv"]
    yield "ozone sw", compared("ozone:sites=12", "sw-gp-ucb", 60, ozone)
    yield "ozone frugal", compared("ozone:sites=12", "frugal-gp-ucb", 40, ozone)
    table = [DATA / "tables" / "abalone.csv"]
    for name, steps in (("bbkb", 200), ("bkb", 60), ("thompson", 90)):
        yield f"abalone {name}", compared("abalone", name, steps, table)
    wind = [DATA / "networks" / f"ireland_wind_{kind}.csv" for kind in ("daily", "sites")]
    yield "wind tv", compared("sensor-field", "adaptive-gp-ucb", 50, wind)
    yield "wind frugal", compared("sensor-field", "frugal-gp-ucb", 40, wind)


def by_hand() -> Iterator[Case]:
    """Boxes, late rewards and wrapped experts, through ask and tell."""
    p = policies
    yield "box gp", loop(lambda: p.gp_ucb(BOX, SHORT, 0.01, **WIDTH))
    yield "box sw", loop(lambda: p.sw_gp_ucb(SQUARE, ROUGH, 0.01, window=15, **WIDTH), 25)
    yield (
        "box tv late",
        loop(lambda: p.tv_gp_ucb(BOX, SHORT, 0.01, epsilon=0.02, **WIDTH), 30, True),
    )
    yield "box tv learned", loop(lambda: p.adaptive_gp_ucb(BOX, None, 0.01, **WIDTH), 30)
    yield "box bbkb", loop(lambda: p.bbkb(SQUARE, ROUGH, 0.01, **WIDTH), 20)
    sparse: Any = {**WIDTH, "posterior": Nystrom()}
    yield "box tv nystrom", loop(lambda: p.tv_gp_ucb(BOX, SHORT, 0.01, epsilon=0.02, **sparse), 30)
    yield (
        "box sparq",
        loop(lambda: p.sparq_gp_ucb(BOX, SHORT, 0.01, expert=wave_expert(), **WIDTH), 30),
    )
    yield (
        "box frugal",
        loop(
            lambda: p.frugal_gp_ucb(SQUARE, None, 0.01, expert=wave_expert(), budget=2, **WIDTH), 20
        ),
    )
    yield "box gp_bucb", loop(lambda: p.gp_bucb(BOX, SHORT, 0.01, **WIDTH), 20)
    yield (
        "line w late",
        loop(lambda: p.w_gp_ucb(LINE, SHORT, 0.01, discount=0.95, **WIDTH), 40, True),
    )
    yield "line gp mean 0", loop(lambda: p.gp_ucb(LINE, SHORT, 0.01, mean=0.0, **WIDTH), 90)
    yield (
        "line sw nystrom late",
        loop(lambda: p.sw_gp_ucb(LINE, SHORT, 0.01, window=20, **sparse), 60, True),
    )
    times = np.arange(60.0)
    levels = np.array([truth(LINE.X, t) for t in times])
    ids = [str(i) for i in range(len(LINE))]
    stations = experts.stations_at(LINE.X, ids, noise_variance=0.01)
    wrapped: dict[str, Callable[[], Any]] = {
        "budgeted": lambda: experts.Budgeted(wave_expert(), total=60),
        "retrying": lambda: experts.Retrying(wave_expert()),
        "calibrated": lambda: experts.Calibrated(wave_expert()),
        "stub": lambda: experts.SensorExpert(
            stations, experts.StubTransport(levels, ids, noise_variance=0.01, seed=3)
        ),
    }
    for name, make in wrapped.items():
        yield (
            name,
            loop(lambda make=make: p.sparq_gp_ucb(LINE, SHORT, 0.01, expert=make(), **WIDTH), 15),  # type: ignore[misc]
        )


def main() -> None:
    """Write the digests; with --against, name the runs that differ, and fail if there are any."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fingerprint")
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path)
    given = parser.parse_args()
    found: dict[str, Digest] = {}
    for cases in (on_the_bump(), on_other_problems(), by_hand()):
        for name, go in cases:
            with threadpool_limits(1), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = go()
            print(name, *found[name], flush=True)
    given.out.write_text(json.dumps(found, indent=1))
    if given.against is not None:
        before = json.loads(given.against.read_text())
        differing = [
            name
            for name in sorted(before.keys() | found.keys())
            if list(found.get(name, ())) != before.get(name)
        ]
        print(f"{len(found)} runs, {len(differing)} differ: {', '.join(differing) or 'none'}")
        sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
