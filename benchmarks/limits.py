"""Regret and violations under limits that drift, against policies that know the limits and simple peers.

`python -m benchmarks.limits [--test] [--seeds 10] [--first-seed 0]` prints for each problem and policy
the mean regret against the best point that satisfies the limit at its time, over all steps and over
those after the first 20; the share of these plays that violate the limit in truth; and the mean and
largest excess of a violation, in the unit of the outcome. `--test` plays two problems that almost no
choice was made on.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.harness import heading, line, make_parser
from tvbandits import Bandit, Candidates, Limit, LimitWarning, compare, policies
from tvbandits.datasets import BumpAndWall, HeatPump, QuietNetwork
from tvbandits.datasets.limited import LimitedProblem
from tvbandits.gp.linalg import square_root
from tvbandits.policies import Setting
from tvbandits.validation import Array


@dataclass(frozen=True)
class DiscAndBump(LimitedProblem):
    """A bump that circles on a square, with a limit on a depth that a moving disc satisfies."""

    horizon: int = 100
    noise_variance: float = 0.02
    name: str = "disc-and-bump"
    limit: ClassVar[Limit] = Limit("depth", at_least=2.0, noise_variance=0.09)

    @cached_property
    def domain(self) -> Candidates:
        """Return 12 x 12 points."""
        side = np.linspace(0.0, 6.0, 12)
        return Candidates(np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2))

    @property
    def safe(self) -> Array:
        """Return six deep points at the start."""
        return self.domain.X[np.argsort(-self.outcome_at(1))[:36:6]]

    @cached_property
    def phases(self) -> Array:
        """Return the phases of the bump and of the disc."""
        return self.generator().uniform(0.0, 2 * np.pi, 2)

    def rewards_at(self, t: float) -> Array:
        """Return the rewards (n,) at a time: a bump and a slope."""
        turn = self.phases[0] + 0.05 * t
        centre = 3.0 + 2.2 * np.array([np.cos(turn), np.sin(turn)])
        distance = cdist(self.domain.X, centre[None])[:, 0]
        return np.asarray(2.0 * np.exp(-(distance**2) / 5.0) + 0.1 * self.domain.X[:, 1])

    def outcome_at(self, t: float) -> Array:
        """Return the depths (n,) at a time, those of a cone."""
        turn = self.phases[1] - 0.04 * t
        centre = 3.0 + 1.2 * np.array([np.sin(2.0 * turn), np.cos(turn)])
        return np.asarray(5.0 - cdist(self.domain.X, centre[None])[:, 0] * 1.2)


@dataclass(frozen=True)
class ShiftingNetwork(LimitedProblem):
    """Stations with rough rewards and loads over the map, and a part of the loads that all share."""

    horizon: int = 100
    noise_variance: float = 0.05
    name: str = "shifting-network"
    limit: ClassVar[Limit] = Limit("load", at_most=1.0, noise_variance=0.05)

    @cached_property
    def domain(self) -> Candidates:
        """Return 40 stations at random."""
        return Candidates(np.random.default_rng(40).random((40, 2)))

    @property
    def safe(self) -> Array:
        """Return the six stations of the lowest loads at the start."""
        return self.domain.X[np.argsort(self.paths[1][0])[:6]]

    @cached_property
    def paths(self) -> tuple[Array, Array]:
        """Return rewards and loads, shape (horizon, 40) each."""
        rng, X = self.generator(), self.domain.X
        root = square_root(np.exp(-cdist(X, X) / 0.4))
        static = rng.standard_normal((2, root.shape[1])) @ root.T
        walk = np.cumsum(0.08 * rng.standard_normal((2, self.horizon, root.shape[1])), axis=1)
        shared = 0.6 * np.sin(0.07 * np.arange(self.horizon) + rng.uniform(0.0, 2 * np.pi))
        rewards, loads = static[:, None] + walk @ root.T
        return rewards, loads + shared[:, None]

    def rewards_at(self, t: float) -> Array:
        """Return the rewards (n,) at a time."""
        return np.asarray(self.paths[0][int(t) - 1])

    def outcome_at(self, t: float) -> Array:
        """Return the loads (n,) at a time."""
        return np.asarray(self.paths[1][int(t) - 1])


PROBLEMS: tuple[Any, ...] = (BumpAndWall(), HeatPump(), QuietNetwork())

# The only choice on these was that of `far` in tvbandits/acquisition/constraints.py, on other seeds of
# the second.
TEST_PROBLEMS: tuple[Any, ...] = (DiscAndBump(), ShiftingNetwork())

# Steps whose violations are not counted.
FIRST = 20


@dataclass
class InformedBandit:
    """A bandit that knows which points satisfy the limit."""

    bandit: Bandit
    problem: LimitedProblem

    def ask(self, t: float) -> Array:
        """Return a point among those that satisfy the limit."""
        holds = self.problem.limit.holds(self.problem.outcome_at(t))
        return self.bandit.ask(t, available=holds)

    def tell(self, X: Array, y: Array, t: float) -> Any:
        """Report rewards."""
        return self.bandit.tell(X, y, t)


@dataclass
class SimplePeer:
    """A regressor of scikit-learn with time as an input, fitted every 10 steps.

    It plays the best upper bound among points that satisfy the limit with 95%. With `improves` it plays
    the constrained expected improvement (Gardner et al. 2014), over the best present mean of points
    that were played and satisfy the limit with 50%.
    """

    problem: Any
    improves: bool = False
    rows: list[list[float]] = field(default_factory=list)
    models: list[GaussianProcessRegressor] = field(default_factory=list)

    def ask(self, t: float) -> Array:
        """Return the next point."""
        X: Array = self.problem.domain.X
        start: Array = self.problem.safe
        if len(self.rows) < len(start):
            return start[[len(self.rows)]]
        table, d = np.array(self.rows), X.shape[1]
        if not self.models or len(table) % 10 == 0:
            scales = [*np.ptp(X, axis=0) / 4, 20.0]
            kernel = ConstantKernel(1.0) * RBF(scales) + WhiteKernel(0.1)
            self.models = [GaussianProcessRegressor(kernel, normalize_y=True) for _ in range(2)]
        else:
            for model in self.models:
                model.set_params(kernel=model.kernel_, optimizer=None)
        for model, y in zip(self.models, table.T[d + 1 :], strict=True):
            model.fit(table[:, : d + 1], y)
        now = np.column_stack([X, np.full(len(X), t)])
        (m, s), (level, deviation) = (model.predict(now, return_std=True) for model in self.models)
        low, high = self.problem.limit.bounds
        chance = norm.cdf((high - level) / deviation) - norm.cdf((low - level) / deviation)
        if self.improves:
            rows = self.problem.domain.index(np.unique(table[:, :d], axis=0))
            safe_rows = rows[chance[rows] >= 0.5] if (chance[rows] >= 0.5).any() else rows
            u = (m - m[safe_rows].max()) / s
            return X[[int((chance * s * (u * norm.cdf(u) + norm.pdf(u))).argmax())]]
        is_safe = chance >= 0.95 if (chance >= 0.95).any() else chance == chance.max()
        return X[[int(np.where(is_safe, m + 2 * s, -np.inf).argmax())]]

    def tell(self, X: Array, y: Array, t: float) -> None:
        """Store the reward and a reading of the outcome."""
        limit, rng = self.problem.limit, np.random.default_rng([self.problem.seed, int(t)])
        level = self.problem.outcomes(X, t)[limit.name][0]
        level += (limit.noise_variance or 0.0) ** 0.5 * rng.standard_normal()
        self.rows.append([*X[0].tolist(), float(t), float(y[0]), float(level)])


def adaptive(setting: Setting) -> Bandit:
    return policies.adaptive_gp_ucb(
        setting.domain, noise_variance=setting.noise_variance, seed=setting.seed
    )


# Policies that know which points satisfy the limit.
INFORMED: dict[str, Callable[[Setting], Bandit]] = {
    "adaptive": adaptive,
    "tv": lambda setting: policies.tv_gp_ucb(
        **setting.parts, forgetting_rate=setting.forgetting_rate, seed=setting.seed
    ),
    "w": lambda setting: policies.w_gp_ucb(**setting.parts, seed=setting.seed),
}


def makers(problem: Any) -> dict[str, Callable[[Setting], Any]]:
    """Return the makers of policies by name."""

    def each_play(setting: Setting) -> Bandit:
        limit, safe = replace(problem.limit, each=True), problem.realise(setting.seed).safe
        return adaptive(setting).with_options(limits=[limit], safe=safe)

    def informed(make: Callable[[Setting], Bandit], setting: Setting) -> InformedBandit:
        return InformedBandit(make(setting), problem.realise(setting.seed))

    return {
        "under the limit": adaptive,
        "under the limit, each play": each_play,
        "simple peer": lambda setting: SimplePeer(problem.realise(setting.seed)),
        "constrained EI": lambda setting: SimplePeer(problem.realise(setting.seed), improves=True),
        **{f"{name}, knows": partial(informed, make) for name, make in INFORMED.items()},
    }


def true_excess(problem: Any, rows: pd.DataFrame) -> Array:
    """Return the true excess over the limit of each row of a table, shape (n,)."""
    excess = np.zeros(len(rows))
    coordinates = [f"x{i}" for i in range(problem.domain.dimension)]
    seeds, X, times = rows["seed"].to_numpy(), rows[coordinates].to_numpy(), rows["t"].to_numpy()
    for seed in np.unique(seeds):
        realisation = problem.realise(int(seed))
        for i in np.flatnonzero(seeds == seed):
            outcome = realisation.outcomes(X[i][None], float(times[i]))[problem.limit.name]
            excess[i] = problem.limit.excess(outcome)[0]
    return excess


def main() -> None:
    """Play, and print the table."""
    parser = make_parser(__doc__, seeds=10, first_seed=0)
    parser.add_argument("--test", action="store_true", help="problems that no choice was made on")
    options = parser.parse_args()
    warnings.simplefilter("ignore", LimitWarning)
    warnings.simplefilter("ignore", UserWarning)  # of scikit-learn's fits
    columns = "regret", f"after {FIRST}", "violations", "mean excess", "worst excess"
    heading("problem", "policy", *columns)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for problem in TEST_PROBLEMS if options.test else PROBLEMS:
        rows = compare(problem, makers(problem), seeds=seeds)
        rows["excess"] = true_excess(problem, rows)
        for name, group in rows.groupby("policy", sort=False):
            late, excess = group[group["t"] > FIRST], group["excess"]
            means = (each.mean() for each in (group["regret"], late["regret"], late["violations"]))
            excesses = excess[excess > 0].mean(), excess.max()
            cells = [f"{each:.3f}" for each in means] + [f"{each:.3g}" for each in excesses]
            line(problem.name, name, *cells)


if __name__ == "__main__":
    main()
