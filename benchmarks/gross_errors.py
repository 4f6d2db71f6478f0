"""The cost of gross errors in rewards, with `Options(robust=True)` and without.

    python -m benchmarks.gross_errors [--seeds 10]

Of 600 readings one in twenty has an error of 10 to 50 prior deviations of the problem, up or down; four
of ten errors come in bursts of two to five steps. The table has the average regret without errors, and
the ratio to it of the regret with errors.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import heading, line, make_parser
from tvbandits import Options, compare, policies
from tvbandits.datasets import DriftingBump, Field, NewPeak, ozone_network
from tvbandits.policies import Setting
from tvbandits.validation import Array

STEPS = 600
# No choice was made on the fields and the new peak.
PROBLEMS: tuple[Any, ...] = (
    ozone_network(days=STEPS),
    Field("tide", horizon=STEPS),
    Field("jumps", horizon=STEPS),
    NewPeak(horizon=STEPS),
    DriftingBump(candidates=201, horizon=STEPS),
)
# Whether the policy is robust, and whether there are errors.
VARIANTS = {"no errors": (False, False), "errors": (False, True), "robust, errors": (True, True)}


def gross_errors(seed: int, steps: int, scale: float) -> Array:
    """Return the error of the reading of each step, shape (steps + 1,), which is 0 for most."""
    rng, errors, remaining = (
        np.random.default_rng([seed, 77]),
        np.zeros(steps + 1),
        round(steps / 20),
    )
    while remaining > 0:
        length = min(remaining, 1 if rng.random() < 0.6 else int(rng.integers(2, 6)))
        first = int(rng.integers(1, steps + 2 - length))
        if not errors[max(first - 1, 0) : first + length + 1].any():
            signs = rng.choice([-1.0, 1.0], length)
            errors[first : first + length] = signs * rng.uniform(10.0, 50.0, length) * scale
            remaining -= length
    return errors


class BanditWithErrors:
    """A bandit that gets rewards with errors, or without."""

    def __init__(self, policy: Any, robust: bool, has_errors: bool, setting: Setting) -> None:
        learns_kernel = policy is policies.adaptive_gp_ucb
        parts: Any = setting.parts | ({"kernel": None} if learns_kernel else {})
        self.bandit = policy(**parts, seed=setting.seed, options=Options(robust=robust))
        self.errors = gross_errors(setting.seed, setting.horizon, setting.scale * has_errors)

    def ask(self, t: float) -> Array:
        """Return the points of the bandit."""
        return np.asarray(self.bandit.ask(t))

    def tell(self, X: Array, y: Array, t: float) -> Any:
        """Report rewards with the error of the step."""
        return self.bandit.tell(X, y + self.errors[int(t)], t)


def main() -> None:
    """Play and print a row for each problem and policy."""
    options = make_parser(__doc__, seeds=10).parse_args()
    heading("problem", "policy", *VARIANTS)
    for problem in PROBLEMS:
        for policy in (policies.adaptive_gp_ucb, policies.tv_gp_ucb):
            makers: Any = {
                label: partial(BanditWithErrors, policy, *values)
                for label, values in VARIANTS.items()
            }
            rows = compare([problem], makers, seeds=options.seeds)
            regret = rows.groupby("policy", sort=False)["regret"].mean()
            times = (f"{regret[label] / regret['no errors']:.2f}" for label in list(VARIANTS)[1:])
            line(problem.name, policy.__name__, f"{regret['no errors']:.3g}", *times)


if __name__ == "__main__":
    main()
