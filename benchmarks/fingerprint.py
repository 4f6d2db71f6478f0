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
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Matern
from threadpoolctl import threadpool_limits

from benchmarks.harness import DATA
from tvbandits import Bandit, Box, Candidates, experts, policies
from tvbandits.comparison.arguments import make_problem
from tvbandits.comparison.compare import Comparison, iterate
from tvbandits.comparison.summary import Run
from tvbandits.gp.sparse import Nystrom
from tvbandits.policies import Policy
from tvbandits.queries.plans import PLANS
from tvbandits.validation import Array

BUMP = "drifting-bump:candidates=101"
# Of all rows, how many there are, and a sum that shows how far apart two runs are.
Digest = tuple[str, int, float]

Case = tuple[str, Callable[[], Digest]]
WIDTH: Any = {"beta": 2.0}
BOX, SQUARE = Box(np.array([[0.0, 1.0]])), Box(np.array([[0.0, 1.0], [0.0, 1.0]]))
LINE = Candidates(np.linspace(0, 1, 80)[:, None])
SHORT, ROUGH = RBF(0.2), Matern([0.3, 0.4], nu=2.5)


def of_rows(runs: Iterable[Run]) -> Digest:
    """Of the rows of a comparison."""
    digest, count, total = hashlib.sha256(), 0, 0.0
    for run in runs:
        for row in run.rows.to_dict("records"):
            digest.update(repr([(k, v) for k, v in row.items() if k != "seconds"]).encode())
            count += 1
        total += float(run.rows["average_regret"].iloc[-1])
    return digest.hexdigest()[:16], count, total


def compared(
    problem: str,
    policies: str | list[str],
    horizon: int = 60,
    files: Iterable[Path] = (),
    beta: float | str = 2.0,
    equal_information: bool = False,
) -> Callable[[], Digest]:
    """A comparison of one seed."""

    def go() -> Digest:
        made = {problem: make_problem(problem, list(files), horizon)}
        names = [policies] if isinstance(policies, str) else policies
        options: Any = {"beta": beta, "equal_information": equal_information}
        return of_rows(iterate(Comparison(made, names, 1, horizon, **options)))

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


SPARSE = ("gp", "r-gp", "sw-gp", "w-gp", "ui-gp", "sparq-gp", "et-gp")
ON_BUMP = [
    *(f"{name}-ucb:posterior=nystrom" for name in SPARSE),
    "tv-gp-ucb:forgetting_rate=0.03,posterior=nystrom",
    "w-gp-ucb:discount=learn",
    "ui-gp-ucb:forgetting_rate=learn",
    "ui-gp-ucb:growth=linear",
    "sparq-gp-ucb:forgetting_rate=learn",
    "bbkb:rule=local",
    "bbkb:minimum_batch=4",
    "bkb:keep=false",
    "gp-bucb:minimum_batch=3",
]
LONG = ("w-gp-ucb", "sparq-gp-ucb", "bkb", "gp-ucb", "ui-gp-ucb:forgetting_rate=learn")
OZONE = [DATA / "ozone" / "daily_ozone_2008.csv"]
TABLE = [DATA / "tables" / "abalone.csv"]
WIND = [DATA / "networks" / f"ireland_wind_{kind}.csv" for kind in ("daily", "sites")]
# Name, problem, policy, steps, and files where it is read from any.
ELSEWHERE: tuple[tuple[str, str, str, int, list[Path]], ...] = (
    ("gp-drift tv", "gp-drift", "adaptive-gp-ucb", 40, []),
    ("gp-drift frugal", "gp-drift", "frugal-gp-ucb", 30, []),
    ("gp-drift sparq", "gp-drift", "sparq-gp-ucb", 40, []),
    ("switching et", "switching", "et-gp-ucb", 80, []),
    ("switching r", "switching", "r-gp-ucb", 80, []),
    ("network frugal", "ozone-network", "frugal-gp-ucb", 40, []),
    ("network sparq", "ozone-network", "sparq-gp-ucb", 60, []),
    ("ozone sw", "ozone:sites=12", "sw-gp-ucb", 60, OZONE),
    ("ozone frugal", "ozone:sites=12", "frugal-gp-ucb", 40, OZONE),
    ("abalone bbkb", "abalone", "bbkb", 200, TABLE),
    ("abalone bkb", "abalone", "bkb", 60, TABLE),
    ("abalone thompson", "abalone", "thompson", 90, TABLE),
    ("wind tv", "sensor-field", "adaptive-gp-ucb", 50, WIND),
    ("wind frugal", "sensor-field", "frugal-gp-ucb", 40, WIND),
)


def comparisons() -> Iterator[Case]:
    """Every policy and its options on the drifting bump, and some on other problems."""
    for name in (*policies.POLICIES, *ON_BUMP):
        yield f"bump {name}", compared(BUMP, name)
    for name in ("sparq-gp-ucb", "sw-gp-ucb"):
        yield f"bump theory {name}", compared(BUMP, name, beta="theory")
    for plan in PLANS:
        yield (
            f"bump plan {plan}",
            compared(BUMP, f"frugal-gp-ucb:queries_per_step=2,plan={plan}", 40),
        )
    for name in (*LONG, "tv-gp-ucb:forgetting_rate=0.03,posterior=nystrom"):
        yield f"bump long {name}", compared(BUMP, name, 200)
    yield "bump long frugal", compared(BUMP, "frugal-gp-ucb:queries_per_step=2", 130)
    names = ["sparq-gp-ucb", "sw-gp-ucb", "adaptive-gp-ucb", "thompson"]
    yield "equal information", compared(BUMP, names, 40, equal_information=True)
    for label, problem, policy, steps, files in ELSEWHERE:
        if all(map(Path.exists, files)):
            yield label, compared(problem, policy, steps, files)


def by_hand() -> Iterator[Case]:
    """Boxes, late rewards and wrapped experts, through ask and tell."""
    p, sparse = policies, {**WIDTH, "posterior": Nystrom()}
    box, square, line = (BOX, SHORT), (SQUARE, ROUGH), (LINE, SHORT)
    # Name, policy, its domain and kernel, its options, steps, and whether a reward comes late at times.
    runs: list[tuple[str, Any, tuple[Any, Any], dict[str, Any], int, bool]] = [
        ("box gp", p.gp_ucb, box, WIDTH, 40, False),
        ("box sw", p.sw_gp_ucb, square, {"window": 15, **WIDTH}, 25, False),
        ("box tv late", p.tv_gp_ucb, box, {"forgetting_rate": 0.02, **WIDTH}, 30, True),
        ("box tv learned", p.adaptive_gp_ucb, (BOX, None), WIDTH, 30, False),
        ("box bbkb", p.bbkb, square, WIDTH, 20, False),
        ("box tv nystrom", p.tv_gp_ucb, box, {"forgetting_rate": 0.02, **sparse}, 30, False),
        ("box gp_bucb", p.gp_bucb, box, WIDTH, 20, False),
        ("line w late", p.w_gp_ucb, line, {"discount": 0.95, **WIDTH}, 40, True),
        ("line gp mean 0", p.gp_ucb, line, {"mean": 0.0, **WIDTH}, 90, False),
        ("line sw nystrom late", p.sw_gp_ucb, line, {"window": 20, **sparse}, 60, True),
    ]
    for name, policy, (domain, kernel), options, steps, late in runs:
        values = {"domain": domain, "kernel": kernel, "noise_variance": 0.01, **options}
        make: Any = partial(Policy(policy).bandit, **values)
        yield name, loop(make, steps, late)

    def asking(policy: Any, parts: Any, expert: Callable[[], Any], **more: Any) -> Any:
        options = {"kernel": parts[1], "noise_variance": 0.01, **WIDTH, **more}
        return lambda: policy(parts[0], expert=expert(), **options)

    yield "box sparq", loop(asking(p.sparq_gp_ucb, box, wave_expert), 30)
    frugal = asking(p.frugal_gp_ucb, (SQUARE, None), wave_expert, queries_per_step=2)
    yield "box frugal", loop(frugal, 20)
    levels = np.array([truth(LINE.X, t) for t in np.arange(60.0)])
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
    for name, wrapped_expert in wrapped.items():
        yield name, loop(asking(p.sparq_gp_ucb, line, wrapped_expert), 15)


def main() -> None:
    """Write the digests; with --against, name the runs that differ, and fail if there are any."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fingerprint")
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path)
    given = parser.parse_args()
    found: dict[str, Digest] = {}
    for name, go in chain(comparisons(), by_hand()):
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
