"""Figure 1 of the paper of SparQ-GP-UCB, with one assumption changed at a time.

    python -m benchmarks.figure_one --seeds 2

The paper prints, for R_T / T after 500 steps of the bump, about 1.18 (SW-GP-UCB), 1.3 (W), 1.34 (R) and
1.8 (TV); SparQ-GP-UCB tends to 0, and the average regret of GP-UCB "grows slowly". It does not state the
prior mean and variance, the length scale of the largest evidence, the bound on the norm, the rate of
TV-GP-UCB, and which of equal bounds is played. Each row has average regrets, for GP-UCB and SparQ-GP-UCB
also after a fifth of the steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from benchmarks.harness import heading, line, make_parser, play_course
from benchmarks.plain import PlainUCB
from tvbandits import compare, policies
from tvbandits.acquisition.widths import Theory
from tvbandits.bandit.info import Player
from tvbandits.data import Dataset
from tvbandits.datasets import DriftingBump
from tvbandits.gp.evidence import fit, information_gains
from tvbandits.policies import Setting

POLICIES = ("gp-ucb", "sparq-gp-ucb", "sw-gp-ucb", "w-gp-ucb", "r-gp-ucb", "tv-gp-ucb")
DELTA = 0.05

KERNEL = RBF(3.5)

# A setting, and the options of a policy.
Variant = tuple[Setting, dict[str, Any]]


def largest_change(setting: Setting) -> Variant:
    """Return the setting with the largest change of any point as variation, instead of eq. 20."""
    variation = DriftingBump(horizon=setting.horizon).variation / setting.scale
    return replace(setting, variation=variation), {"beta": Theory(DELTA)}


def in_reward_units(setting: Setting, kernel: Any, norm_bound: float) -> Variant:
    """Return the setting with a kernel of the reward itself, whose prior mean is 0."""
    noise = setting.noise_variance
    assert noise is not None
    gains = information_gains(kernel, setting.domain.X, noise, setting.horizon)  # type: ignore[attr-defined]
    amplitude = float(kernel.diag(np.zeros((1, 1)))[0])
    variant = replace(
        setting,
        kernel=kernel,
        scale=1.0,
        variation=setting.variation * setting.scale / amplitude**0.5,
        information_gain=float(gains[-1]),
    )
    return variant, {"beta": Theory(DELTA, norm_bound), "mean": 0.0}


def largest_norm(setting: Setting) -> float:
    """Return max_t |f_t|_k on the grid, by dense algebra with a jitter of 1e-8 of the variance."""
    X = setting.domain.X  # type: ignore[attr-defined]
    K = KERNEL(X) + 1e-8 * np.eye(len(X))
    values = np.array([DriftingBump().value(X, t) for t in range(1, setting.horizon + 1)])
    return float(np.sqrt(np.einsum("ti,it->t", values, np.linalg.solve(K, values.T)).max()))


def fit_kernel(setting: Setting) -> Any:
    """Return the kernel of the largest evidence of 200 rewards at random points."""
    rng, problem = np.random.default_rng([setting.seed, 9]), DriftingBump()
    X, times = setting.domain.sample(200, rng), np.arange(1.0, 201.0)
    y = np.array([problem.value(x[None], t)[0] for x, t in zip(X, times, strict=True)])
    y += rng.normal(0.0, problem.noise_variance**0.5, len(y))
    kernel = ConstantKernel(4.0, (1e-3, 1e4)) * RBF(3.5, (0.1, 100.0))
    sample = Dataset.from_columns(X, times, y, np.full(len(y), problem.noise_variance))
    return fit(kernel, sample, mean=0.0)


# By default the kernel is that of the standardised reward, whose mean and scale are learned, and B = 1.
VARIANTS: dict[str, Callable[[Setting], Variant]] = {
    "as the tables here": lambda setting: (setting, {"beta": Theory(DELTA)}),
    "largest change for V_T": largest_change,
    "width 2": lambda setting: (setting, {"beta": 2.0}),
    "prior mean 0, B = norm": lambda setting: in_reward_units(
        setting, KERNEL, largest_norm(setting)
    ),
    "prior mean 0, fitted kernel": lambda setting: in_reward_units(
        setting, fit_kernel(setting), 1.0
    ),
}


def maker(policy: str, vary: Callable[[Setting], Variant]) -> Callable[[Setting], Player]:
    """Return the maker of a policy in a variant of the setting."""

    def make(setting: Setting) -> Player:
        variant, options = vary(setting)
        return policies.POLICIES[policy].make(variant, **options)

    return make


class Bogunovic(PlainUCB):
    """TV-GP-UCB with the width sqrt(0.8 log(4 t)) of the experiments of Bogunovic 2016."""

    def width(self, t: float, log_det_ratio: float) -> float:  # noqa: ARG002 - as of `PlainUCB`
        """Return the width, which does not depend on the observations."""
        return math.sqrt(0.8 * math.log(4 * t))


def play_first_of_equals(plain: type[PlainUCB], rate: float, horizon: int) -> float:
    """Return the average regret of TV-GP-UCB with prior mean 0 that plays the first of equal bounds."""
    problem = DriftingBump(horizon=horizon)
    points = problem.domain.X  # type: ignore[union-attr]
    player = plain(points, 3.5, problem.noise_variance, 0.0, epsilon=rate)
    return float(play_course(player, problem, 0, horizon).regret.mean())


def main() -> None:
    """Print the tables."""
    options = make_parser(__doc__, seeds=2, horizon=500).parse_args()
    early = options.horizon // 5
    heading("variant", *POLICIES, f"gp-ucb, t = {early}", f"sparq-gp-ucb, t = {early}")
    for name, vary in VARIANTS.items():
        makers = {policy: maker(policy, vary) for policy in POLICIES}
        rows = compare(DriftingBump(horizon=options.horizon), makers, options.seeds)
        average = rows.groupby("policy")["regret"].mean()
        early_average = rows[rows["t"] <= early].groupby("policy")["regret"].mean()
        early_cells = (f"{early_average[policy]:.3f}" for policy in POLICIES[:2])
        line(name, *(f"{average[policy]:.3f}" for policy in POLICIES), *early_cells)
    for plain, width in ((PlainUCB, "the theorem's width"), (Bogunovic, "sqrt(0.8 log(4 t))")):
        for rate in (0.01, 0.1, 0.5, 0.9):
            regret = play_first_of_equals(plain, rate, options.horizon)
            print(f"tv, first of equal bounds, {width}, rate {rate:g}: {regret:.3f}")


if __name__ == "__main__":
    main()
