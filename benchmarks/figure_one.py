"""Figure 1 of SparQ-GP-UCB once more, with one thing changed at a time.

    python -m benchmarks.figure_one --seeds 2

The paper prints, for R_T / T after 500 steps of the bump, about 1.18 (SW-GP-UCB), 1.3 (W), 1.34 (R) and
1.8 (TV); SparQ-GP-UCB tends to 0, and the average regret of GP-UCB "grows slowly". It does not say the
prior mean and variance, the length scale that evidence gave, the bound on the norm, the rate of
TV-GP-UCB, nor which of equal bounds is played. Each row is average regret, for GP-UCB and SparQ-GP-UCB
also after a fifth of the steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from benchmarks.harness import arguments, heading, line
from benchmarks.plain import PlainUCB
from tvbandits import compare, policies
from tvbandits.acquisition.widths import Theory
from tvbandits.bandit.info import Player
from tvbandits.data import Dataset
from tvbandits.datasets import DriftingBump
from tvbandits.gp.evidence import fit, information_gains
from tvbandits.policies import Setting
from tvbandits.validation import Array

POLICIES = ("gp-ucb", "sparq-gp-ucb", "sw-gp-ucb", "w-gp-ucb", "r-gp-ucb", "tv-gp-ucb")
DELTA = 0.05

# A setting and the options of a policy -> what they become.
Change = Callable[[Setting, dict[str, Any]], Setting]


def as_compared(setting: Setting, options: dict[str, Any]) -> Setting:
    """RBF(3.5) for the standardised reward, whose mean and scale are learned; B = 1."""
    options["beta"] = Theory(DELTA)
    return setting


def largest_change(setting: Setting, options: dict[str, Any]) -> Setting:
    """Windows and discounts from the largest change of any point instead of eq. 20."""
    variation = DriftingBump(horizon=setting.horizon).variation / setting.scale
    return as_compared(replace(setting, variation=variation), options)


def constant_width(setting: Setting, options: dict[str, Any]) -> Setting:
    """Of 2 deviations."""
    options["beta"] = 2.0
    return setting


def zero_mean(setting: Setting, options: dict[str, Any]) -> Setting:
    """Equations 11 and 12 to the letter: prior mean 0 and variance 1, in the unit of reward."""
    return in_reward_units(setting, options, RBF(3.5), 1.0)


def zero_mean_and_norm(setting: Setting, options: dict[str, Any]) -> Setting:
    """The same with B = max_t |f_t|_k, as the theorem asks."""
    return in_reward_units(setting, options, RBF(3.5), largest_norm(setting, RBF(3.5)))


def fitted(setting: Setting, options: dict[str, Any]) -> Setting:
    """Prior mean 0; variance and length scale by evidence on 200 uniform rewards, B = 1."""
    return in_reward_units(setting, options, fitted_kernel(setting), 1.0)


def fitted_and_narrow(setting: Setting, options: dict[str, Any]) -> Setting:
    """The same with a width of 2."""
    setting = fitted(setting, options)
    options["beta"] = 2.0
    return setting


def narrow(setting: Setting, options: dict[str, Any]) -> Setting:
    """Prior mean 0 and variance 1, with a width of 0.5."""
    setting = zero_mean(setting, options)
    options["beta"] = 0.5
    return setting


def in_reward_units(
    setting: Setting, options: dict[str, Any], kernel: Any, norm_bound: float
) -> Setting:
    """Return the setting with a kernel of the reward itself, whose prior mean is 0."""
    options |= {"beta": Theory(DELTA, norm_bound), "mean": 0.0}
    noise = setting.noise_variance
    assert noise is not None
    gains = information_gains(kernel, setting.domain.X, noise, setting.horizon)  # type: ignore[attr-defined]
    amplitude = float(kernel.diag(np.zeros((1, 1)))[0])
    return replace(
        setting,
        kernel=kernel,
        scale=1.0,
        variation=setting.variation * setting.scale / amplitude**0.5,
        information_gain=float(gains[-1]),
    )


def largest_norm(setting: Setting, kernel: Any) -> float:
    """max_t |f_t|_k on the grid, by dense algebra with 1e-8 of the variance on the diagonal."""
    X = setting.domain.X  # type: ignore[attr-defined]
    K = kernel(X) + 1e-8 * np.eye(len(X))
    values = np.array([DriftingBump().value(X, t) for t in range(1, setting.horizon + 1)])
    return float(np.sqrt(np.einsum("ti,it->t", values, np.linalg.solve(K, values.T)).max()))


def fitted_kernel(setting: Setting) -> Any:
    """The amplitude and length scale of the largest evidence on a uniform sample."""
    rng, problem = np.random.default_rng([setting.seed, 9]), DriftingBump()
    X, times = setting.domain.sample(200, rng), np.arange(1.0, 201.0)
    y = np.array([problem.value(x[None], t)[0] for x, t in zip(X, times, strict=True)])
    y += rng.normal(0.0, problem.noise_variance**0.5, len(y))
    kernel = ConstantKernel(4.0, (1e-3, 1e4)) * RBF(3.5, (0.1, 100.0))
    sample = Dataset.from_columns(X, times, y, np.full(len(y), problem.noise_variance))
    return fit(kernel, sample, mean=0.0)


CHANGES: Mapping[str, Change] = {
    "as the tables here": as_compared,
    "largest change for V_T": largest_change,
    "width 2": constant_width,
    "prior mean 0, variance 1": zero_mean,
    "prior mean 0, B = norm": zero_mean_and_norm,
    "prior mean 0, fitted kernel": fitted,
    "prior mean 0, fitted kernel, width 2": fitted_and_narrow,
    "prior mean 0, variance 1, width 0.5": narrow,
}


def maker(policy: str, change: Change) -> Callable[[Setting], Player]:
    """A named policy under a change."""

    def make(setting: Setting) -> Player:
        options: dict[str, Any] = {}
        setting = change(setting, options)
        return policies.POLICIES[policy].make(setting, **options)

    return make


class Bogunovic(PlainUCB):
    """TV-GP-UCB with the width sqrt(0.8 log(4 t)) of the experiments of Bogunovic 2016."""

    def width(self, t: float, log_det_ratio: float) -> float:  # noqa: ARG002 - one face
        """Whatever has been observed."""
        return math.sqrt(0.8 * math.log(4 * t))


def first_of_equals(plain: type[PlainUCB], rate: float, horizon: int) -> float:
    """Average regret of TV-GP-UCB with prior mean 0 that plays the first of equal bounds."""
    problem, rng = DriftingBump(horizon=horizon), np.random.default_rng(0)
    points = problem.domain.X  # type: ignore[union-attr]
    noise = problem.noise_variance
    player = plain(points, 3.5, noise, 0.0, lambda i, _: np.full(len(i), noise), rate)
    regrets = []
    for t in range(1, horizon + 1):
        x = player.ask(float(t))
        value = problem.value(x, t)
        regrets.append(problem.best(t) - value[0])
        player.tell(x, value + rng.normal(0.0, noise**0.5, 1), t)
    return float(np.mean(regrets))


def at_rest(horizon: int) -> dict[str, float]:
    """Average regret of playing one point for ever, at the end of the interval and in its middle."""
    problem = DriftingBump(horizon=horizon)
    times = range(1, horizon + 1)
    best = np.array([problem.best(t) for t in times])

    def of(x: float) -> float:
        values: Array = np.array([problem.value(np.array([[x]]), t)[0] for t in times])
        return float((best - values).mean())

    return {f"{x:g}": of(x) for x in (-50.0, 0.0)}


def main() -> None:
    """Print the tables."""
    options = arguments(__doc__, seeds=2, horizon=500).parse_args()
    early = options.horizon // 5
    fifths = f"gp, t = {early}", "gp", f"sparq, t = {early}", "sparq"
    heading("changed", *fifths, "sw", "w", "r", "tv", "order of those that forget")
    for name, change in CHANGES.items():
        makers = {policy: maker(policy, change) for policy in POLICIES}
        rows = compare(DriftingBump(horizon=options.horizon), makers, options.seeds)
        average = rows.groupby("policy")["regret"].mean()
        before = rows[rows["t"] <= early].groupby("policy")["regret"].mean()
        cells = []
        for policy in POLICIES:
            if policy in ("gp-ucb", "sparq-gp-ucb"):
                cells.append(f"{before[policy]:.3f}")
            cells.append(f"{average[policy]:.3f}")
        forgetting = average[list(POLICIES[2:])].sort_values()
        order = " < ".join(policy.removesuffix("-gp-ucb") for policy in forgetting.index)
        line(name, *cells, order)
    for x, regret in at_rest(options.horizon).items():
        print(f"always at {x}: {regret:.3f}")
    for plain, width in ((PlainUCB, "the theorem's width"), (Bogunovic, "sqrt(0.8 log(4 t))")):
        for rate in (0.01, 0.1, 0.5, 0.9):
            regret = first_of_equals(plain, rate, options.horizon)
            print(f"tv, first of equal bounds, {width}, rate {rate:g}: {regret:.3f}")


if __name__ == "__main__":
    main()
