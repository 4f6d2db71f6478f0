"""What gross errors among the rewards cost, with `Options(robust=True)` and without.

    python -m benchmarks.gross_errors [--seeds 10]

Of 600 readings one in twenty is wrong by 10 to 50 prior deviations of the problem, up or down; four
times of ten a burst of two to five steps is. Printed are average regret without errors, and how many
times as much there is with them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import arguments, heading, line
from tvbandits import Options, compare, policies
from tvbandits.datasets import DriftingBump, Field, NewPeak, ozone_network
from tvbandits.policies import Setting
from tvbandits.validation import Array

STEPS = 600
# Nothing was chosen on the fields and the new peak.
PROBLEMS: tuple[Any, ...] = (
    ozone_network(days=STEPS),
    Field("tide", horizon=STEPS),
    Field("jumps", horizon=STEPS),
    NewPeak(horizon=STEPS),
    DriftingBump(candidates=201, horizon=STEPS),
)
# Robust, and with errors.
WAYS = {"no errors": (False, False), "errors": (False, True), "robust, errors": (True, True)}


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


class Erring:
    """A bandit that is told rewards with errors, or without."""

    def __init__(self, policy: Any, robust: bool, wrong: bool, setting: Setting) -> None:
        learns = policy is policies.adaptive_gp_ucb
        parts: Any = setting.parts | ({"kernel": None} if learns else {})
        self.bandit = policy(**parts, seed=setting.seed, options=Options(robust=robust))
        self.errors = gross_errors(setting.seed, setting.horizon, setting.scale * wrong)

    def ask(self, t: float) -> Array:
        """As the bandit does."""
        return np.asarray(self.bandit.ask(t))

    def tell(self, X: Array, y: Array, t: float) -> Any:
        """With the error of the step."""
        return self.bandit.tell(X, y + self.errors[int(t)], t)


def main() -> None:
    """Play and print a row for each problem and policy."""
    options = arguments(__doc__, seeds=10).parse_args()
    heading("problem", "policy", *WAYS)
    for problem in PROBLEMS:
        for policy in (policies.adaptive_gp_ucb, policies.tv_gp_ucb):
            makers: Any = {label: partial(Erring, policy, *way) for label, way in WAYS.items()}
            rows = compare([problem], makers, seeds=options.seeds)
            regret = rows.groupby("policy", sort=False)["regret"].mean()
            times = (f"{regret[way] / regret['no errors']:.2f}" for way in list(WAYS)[1:])
            line(problem.name, policy.__name__, f"{regret['no errors']:.3g}", *times)


if __name__ == "__main__":
    main()
