"""Digests of about eighty runs, to show that a change of the code changes no behaviour.

    python -m benchmarks.fingerprint before.json
    python -m benchmarks.fingerprint after.json --against before.json

The runs cover every policy, posterior, query plan, problem and wrapper. Digests are of all columns but
the time, to the last bit; they are valid for one machine and one set of installed versions.
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
# The digest of all rows, their number, and a sum that shows how much two runs differ.
Digest = tuple[str, int, float]

Case = tuple[str, Callable[[], Digest]]
WIDTH: Any = {"beta": 2.0}
BOX, SQUARE = Box(np.array([[0.0, 1.0]])), Box(np.array([[0.0, 1.0], [0.0, 1.0]]))
LINE = Candidates(np.linspace(0, 1, 80)[:, None])
SHORT, ROUGH = RBF(0.2), Matern([0.3, 0.4], nu=2.5)


def digest_runs(runs: Iterable[Run]) -> Digest:
    """Return the digest of the rows of a comparison."""
    digest, count, total = hashlib.sha256(), 0, 0.0
    for run in runs:
        for row in run.rows.to_dict("records"):
            digest.update(repr([(k, v) for k, v in row.items() if k != "seconds"]).encode())
            count += 1
        total += float(run.rows["average_regret"].iloc[-1])
    return digest.hexdigest()[:16], count, total


def comparison(
    problem: str,
    policies: str | list[str],
    horizon: int = 60,
    files: Iterable[Path] = (),
    beta: float | str = 2.0,
    equal_information: bool = False,
) -> Callable[[], Digest]:
    """Return the function that plays a comparison with one seed, and digests it."""

    def play() -> Digest:
        problems = {problem: make_problem(problem, list(files), horizon)}
        names = [policies] if isinstance(policies, str) else policies
        options: Any = {"beta": beta, "equal_information": equal_information}
        return digest_runs(iterate(Comparison(problems, names, 1, horizon, **options)))

    return play


def truth(X: Array, t: float | Array) -> Array:
    """Return the values (n,) of a wave that drifts."""
    return np.asarray(np.sin(5 * X[:, 0] + 0.05 * t))


def wave_expert(variance: float = 0.01) -> experts.CallableExpert:
    """Return the expert that knows the wave."""
    return experts.CallableExpert(truth, variance)


def loop(make: Callable[[], Bandit], steps: int = 40, late: bool = False) -> Callable[[], Digest]:
    """Return the function that plays a bandit, if `late` with some late rewards, and digests the run."""

    def play() -> Digest:
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

    return play


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
# Name, problem, policy, steps, and the files of the problem.
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
    """Yield the policies with their options on the drifting bump, and some on other problems."""
    for name in (*policies.POLICIES, *ON_BUMP):
        yield f"bump {name}", comparison(BUMP, name)
    for name in ("sparq-gp-ucb", "sw-gp-ucb"):
        yield f"bump theory {name}", comparison(BUMP, name, beta="theory")
    for plan in PLANS:
        yield (
            f"bump plan {plan}",
            comparison(BUMP, f"frugal-gp-ucb:queries_per_step=2,plan={plan}", 40),
        )
    for name in (*LONG, "tv-gp-ucb:forgetting_rate=0.03,posterior=nystrom"):
        yield f"bump long {name}", comparison(BUMP, name, 200)
    yield "bump long frugal", comparison(BUMP, "frugal-gp-ucb:queries_per_step=2", 130)
    names = ["sparq-gp-ucb", "sw-gp-ucb", "adaptive-gp-ucb", "thompson"]
    yield "equal information", comparison(BUMP, names, 40, equal_information=True)
    for label, problem, policy, steps, files in ELSEWHERE:
        if all(map(Path.exists, files)):
            yield label, comparison(problem, policy, steps, files)


def loops() -> Iterator[Case]:
    """Yield cases of boxes, late rewards and experts in wrappers, by ask and tell."""
    p, sparse = policies, {**WIDTH, "posterior": Nystrom()}
    box, square, line = (BOX, SHORT), (SQUARE, ROUGH), (LINE, SHORT)
    # Name, policy, its domain and kernel, its options, steps, and whether some rewards are late.
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

    def with_expert(policy: Any, parts: Any, expert: Callable[[], Any], **more: Any) -> Any:
        options = {"kernel": parts[1], "noise_variance": 0.01, **WIDTH, **more}
        return lambda: policy(parts[0], expert=expert(), **options)

    yield "box sparq", loop(with_expert(p.sparq_gp_ucb, box, wave_expert), 30)
    frugal = with_expert(p.frugal_gp_ucb, (SQUARE, None), wave_expert, queries_per_step=2)
    yield "box frugal", loop(frugal, 20)
    levels = np.array([truth(LINE.X, t) for t in np.arange(60.0)])
    ids = [str(i) for i in range(len(LINE))]
    stations = experts.stations_at(LINE.X, ids, noise_variance=0.01)
    wrappers: dict[str, Callable[[], Any]] = {
        "budgeted": lambda: experts.Budgeted(wave_expert(), total=60),
        "retrying": lambda: experts.Retrying(wave_expert()),
        "calibrated": lambda: experts.Calibrated(wave_expert()),
        "stub": lambda: experts.SensorExpert(
            stations, experts.StubTransport(levels, ids, noise_variance=0.01, seed=3)
        ),
    }
    for name, make_expert in wrappers.items():
        yield name, loop(with_expert(p.sparq_gp_ucb, line, make_expert), 15)


def main() -> None:
    """Write the digests; with --against, name the runs that differ, and fail if any does."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fingerprint")
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    digests: dict[str, Digest] = {}
    for name, play in chain(comparisons(), loops()):
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            digests[name] = play()
        print(name, *digests[name], flush=True)
    options.out.write_text(json.dumps(digests, indent=1))
    if options.against is not None:
        before = json.loads(options.against.read_text())
        differing = [
            name
            for name in sorted(before.keys() | digests.keys())
            if list(digests.get(name, ())) != before.get(name)
        ]
        print(f"{len(digests)} runs, {len(differing)} differ: {', '.join(differing) or 'none'}")
        sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
