"""What failing sensors cost SparQ-GP-UCB: `python -m benchmarks.faults [--seeds 20]`.

What gross errors among the rewards cost, with `Options(robust=True)` and without:
`python -m benchmarks.faults --rewards [--horizon 600] [--seeds 10] [--problems NAME ...]`. A reading of
twenty is wrong by 10 to 50 prior deviations of the problem, up or down; four times of ten a burst of two
to five steps is.

Every fault is played on the same realisations with the same noise. The stations of a problem are its
candidates; the transport replays its rewards with noise of the problem's own variance.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import arguments, heading, line
from tvbandits import Bandit, Expert, ExpertDownWarning, Options, compare, policies
from tvbandits.comparison.summary import summarise
from tvbandits.datasets import DriftingBump, Field, NewPeak, ozone_network
from tvbandits.domains.problem import Problem, noise_to_add
from tvbandits.experts.calibrated import Calibrated
from tvbandits.experts.sensors.expert import SensorExpert, stations_at
from tvbandits.experts.sensors.stub import Faults, StubTransport
from tvbandits.policies import Setting
from tvbandits.validation import Array

# Seconds; a delay beyond every time-out.
NEVER = 1e9


class Case(NamedTuple):
    """A row of the table: what goes wrong on a problem, what wraps the expert, and the true noise.

    The noise variance of a reading is `noise` times that of the problem.
    """

    name: str
    faults: Callable[[Problem], Faults]
    wrapped: Callable[[Expert], Expert] = lambda expert: expert
    noise: float = 1.0


def lost(share: float) -> Case:
    """Answers that get lost."""
    return Case(f"loss {share:.0%}" if share else "no fault", lambda _: Faults(loss=share))


def biased(problem: Problem) -> Faults:
    """Off by one deviation of the noise."""
    return Faults(bias=math.sqrt(noise_to_add(problem)))


def sure(_: Problem) -> Faults:
    """A tenth of the variance is stated."""
    return Faults(variance_factor=0.1)


def stuck(problem: Any) -> Faults:
    """Every tenth station, from mid-run."""
    stations = [str(i) for i in range(0, len(problem.domain), 10)]
    return Faults(stuck_from=problem.horizon // 2, stations=stations)


def down(problem: Problem) -> Faults:
    """For 50 steps around the middle of a run."""
    start = problem.horizon // 2 - 25
    return Faults(down=(float(start), float(start + 50)))


CASES = (
    *(lost(share) for share in (0.0, 0.1, 0.3, 0.5, 0.9)),
    Case("stuck from mid-run, all", lambda p: Faults(stuck_from=p.horizon // 2)),
    Case("stuck from mid-run, 1 in 10", stuck),
    Case("bias of 1 noise sd", biased),
    Case("bias of 1 noise sd, calibrated", biased, Calibrated),
    Case("variance stated / 10", sure, noise=10.0),
    Case("variance stated / 10, calibrated", sure, Calibrated, noise=10.0),
    Case("same noise, stated honestly", lambda _: Faults(), noise=10.0),
    Case("down for 50 steps", down),
    Case("down throughout", lambda _: Faults(down=(0.0, NEVER))),
)


def make(case: Case, problem: Any, setting: Setting) -> Bandit:
    """SparQ-GP-UCB with an expert that has the faults of a case."""
    warnings.simplefilter("ignore", ExpertDownWarning)  # here, since workers make their own bandits
    problem = problem.realise(setting.seed) if hasattr(problem, "realise") else problem
    points, noise = problem.domain.X, case.noise * noise_to_add(problem)
    levels = np.array([problem.value(points, float(t)) for t in range(1, problem.horizon + 1)])
    ids = [str(i) for i in range(len(points))]
    transport = StubTransport(
        levels, ids, noise_variance=noise, seed=setting.seed, faults=case.faults(problem)
    )
    expert = SensorExpert(stations_at(points, ids, noise_variance=noise), transport, cost=1.0)
    return policies.sparq_gp_ucb(
        **setting.parts, expert=case.wrapped(expert), beta=setting.beta or 2.0, seed=setting.seed
    )


def failing_sensors(options: argparse.Namespace) -> None:
    """Play and print every case on both problems."""
    bump, network = DriftingBump(), ozone_network()
    if options.horizon:
        bump, network = replace(bump, horizon=options.horizon), ozone_network(days=options.horizon)
    heading("problem", "fault", "regret", "answers a step")
    for problem in (bump, network):
        makers: Any = {case.name: partial(make, case, problem) for case in CASES}
        width = options.width
        played = compare(problem, makers, options.seeds, n_jobs=options.jobs, beta=width)
        for row in summarise(played).itertuples():
            regret = f"{row.average_regret:.3f} ± {row.average_regret_ci95:.3f}"
            line(problem.name, row.policy, regret, f"{row.answered_per_step:.1f}")


# --- gross errors among the rewards -----------------------------------------------------------------


def gross_errors(seed: int, steps: int, scale: float) -> Array:
    """By how much the reading of each step is wrong, shape (steps + 1,): 0 but for a twentieth."""
    rng, out, left = np.random.default_rng([seed, 77]), np.zeros(steps + 1), round(steps / 20)
    while left > 0:
        length = min(left, 1 if rng.random() < 0.6 else int(rng.integers(2, 6)))
        at = int(rng.integers(1, steps + 2 - length))
        if not out[max(at - 1, 0) : at + length + 1].any():
            signs = rng.choice([-1.0, 1.0], length)
            out[at : at + length] = signs * rng.uniform(10.0, 50.0, length) * scale
            left -= length
    return out


@dataclass
class Erring:
    """A bandit that is told rewards with errors."""

    bandit: Bandit
    errors: Array

    def ask(self, t: float) -> Array:
        """As the bandit does."""
        return self.bandit.ask(t)

    def tell(self, X: Array, y: Array, t: float) -> Any:
        """With the error of the step."""
        return self.bandit.tell(X, y + self.errors[int(t)], t)


def erring(policy: str, robust: bool, wrong: bool, setting: Setting) -> Erring:
    """A policy that learns, with errors or without."""
    steps = setting.horizon
    errors = gross_errors(setting.seed, steps, setting.scale) if wrong else np.zeros(steps + 1)
    common: Any = {"seed": setting.seed, "options": Options(robust=robust)}
    if policy == "adaptive":
        parts: Any = setting.parts | {"kernel": None}
        return Erring(policies.adaptive_gp_ucb(**parts, **common), errors)
    recipes: dict[str, Any] = {"tv": policies.tv_gp_ucb, "w": policies.w_gp_ucb}
    return Erring(recipes[policy](**setting.parts, **common), errors)


# By name; nothing was chosen on the fields and the new peak.
ERRING_PROBLEMS: dict[str, Callable[[int], Any]] = {
    "ozone-network": lambda steps: ozone_network(days=steps),
    "field-tide": lambda steps: Field("tide", horizon=steps),
    "field-jumps": lambda steps: Field("jumps", horizon=steps),
    "new-peak": lambda steps: NewPeak(horizon=steps),
    "drifting-bump": lambda steps: DriftingBump(candidates=201, horizon=steps),
}

# Robust, and with errors.
WAYS = {"no errors": (False, False), "errors": (False, True), "robust, errors": (True, True)}


def rewards_with_errors(options: argparse.Namespace) -> None:
    """Play and print: average regret without errors, and how many times as much there is with them."""
    heading("problem", "policy", *WAYS)
    for name in options.problems:
        problem = ERRING_PROBLEMS[name](options.horizon or 600)
        for policy in ("adaptive", "tv", "w"):
            makers: Any = {label: partial(erring, policy, *way) for label, way in WAYS.items()}
            rows = compare([problem], makers, seeds=options.seeds)
            regret = rows.groupby("policy", sort=False)["regret"].mean()
            times = (f"{regret[way] / regret['no errors']:.2f}" for way in list(WAYS)[1:])
            line(name, policy, f"{regret['no errors']:.3g}", *times)


def main() -> None:
    """Play either of the two."""
    parser = arguments(__doc__, seeds=20, jobs=-1, width=2.0)
    parser.add_argument("--horizon", type=int, help="steps; the problems' own by default")
    parser.add_argument("--rewards", action="store_true", help="gross errors among the rewards")
    parser.add_argument(
        "--problems", nargs="*", choices=list(ERRING_PROBLEMS), default=list(ERRING_PROBLEMS)
    )
    options = parser.parse_args()
    (rewards_with_errors if options.rewards else failing_sensors)(options)


if __name__ == "__main__":
    main()
