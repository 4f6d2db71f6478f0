"""A heat pump that is set every ten minutes for three days, beside 25 lines with scikit-learn.

    python -m benchmarks.heat_pump [--seeds 3] [--first-seed 0] [--steps 432] [--players NAME ...]

Three numbers (supply temperature, water flow, hysteresis) and a mode are chosen; the outside
temperature is measured before each decision: a day, and weather that comes and goes. The best setting
depends on it and drifts as the pump ages. What counts is the cost of a step beyond that of the best
setting, on average over all steps and over each third of them; time is the processor's.

`25 lines` is a Gaussian process of scikit-learn over the numbers, the modes as columns of 0 and 1, the
outside temperature and the time, its hyperparameters refitted every 20 steps; it plays the lowest bound
(UCB) or the largest expected improvement (EI) of 2,000 settings drawn. Optuna's samplers have no
place for what is measured: they are told nothing of it. GPSampler needs PyTorch and is left out without.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from benchmarks.harness import arguments, cell, clock, heading, line
from tvbandits import Space, policies
from tvbandits.validation import Array

DAY, STEPS = 144, 432
OUTSIDE = (-15.0, 20.0)
NUMBERS = {"supply": (25.0, 55.0), "flow": (5.0, 25.0), "hysteresis": (1.0, 8.0)}
MODES = ["eco", "comfort", "boost"]
SPACE = Space(**NUMBERS, mode=MODES, context={"outside": OUTSIDE})
LOW, HIGH = np.array(list(NUMBERS.values())).T
# Deviation of a reading of the cost.
NOISE = 0.08


class Pump:
    """What a setting costs, by seed: electricity, rooms too cold or too warm, starts of the pump."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 51])
        self.house, self.fouling, self.wear = rng.uniform([0.13, 0.1, 0.2], [0.17, 0.3, 0.6])
        self.factor = np.array([0.8, 1.0, 1.2]) + rng.uniform(-0.02, 0.02, 3)
        self.draw = np.array([0.93, 1.0, 1.08]) + rng.uniform(-0.03, 0.03, 3)
        slow, steps = np.zeros(STEPS), rng.standard_normal(STEPS)
        for t in range(1, STEPS):
            slow[t] = 0.99 * slow[t - 1] + 0.4 * steps[t]
        hours = np.arange(STEPS) / DAY + rng.uniform()
        mean = rng.uniform(0.0, 6.0)
        self.outside = np.clip(mean + 5.0 * np.sin(2.0 * np.pi * hours) + slow, *OUTSIDE)
        self.noise = NOISE * rng.standard_normal(STEPS)
        self._drawn = rng.uniform(LOW, HIGH, (4096, 3))

    def cost(self, X: Array, mode: Array, t: int) -> Array:
        """Of settings (n, 3) in modes (n,) at a step."""
        (supply, flow, hysteresis), outside, age = X.T, self.outside[t], t / STEPS
        given = 0.019 * flow**0.7 * (supply - 21.0) * self.factor[mode] * (1.0 - self.fouling * age)
        needed = self.house * (21.0 - outside)
        lift = 1.6 * supply - outside + 6.0 * age * flow / 25.0
        power = self.draw[mode] * given * lift / (0.45 * (supply + 273.0)) + (flow / 30.0) ** 3
        off = given - needed
        comfort = (
            1.5 * np.logaddexp(0.0, -3.0 * off) / 3.0 + 0.35 * np.logaddexp(0.0, 3.0 * off) / 3.0
        )
        ideal = 3.0 + 0.12 * (outside + 10.0) + 1.5 * self.wear * age
        starts = 0.06 * (self.wear + 1.0) * (hysteresis - ideal) ** 2 / 4.0
        return np.asarray(3.0 * power + 2.0 * comfort + starts)

    def best(self, t: int) -> float:
        """The lowest cost at a step, by random settings and a descent from the best of each mode."""
        lowest = np.inf
        for mode in range(len(MODES)):
            X, reach = self._drawn, (HIGH - LOW) / 8.0
            for _ in range(6):
                values = self.cost(X, np.full(len(X), mode), t)
                x, lowest = X[values.argmin()], min(lowest, float(values.min()))
                about = x + reach * (self._drawn[:512] - LOW - (HIGH - LOW) / 2.0) / (HIGH - LOW)
                X, reach = np.clip(about, LOW, HIGH), reach / 2.5
        return lowest


# Three numbers, and which mode.
Setting = tuple[Array, int]


class Ours:
    """A policy of the package on the space with the context."""

    def __init__(self, bandit: Any) -> None:
        self.bandit = bandit

    def ask(self, outside: float, t: int) -> Setting:
        """Its decision at the temperature."""
        self.t, self.X = t, self.bandit.ask(t, context={"outside": outside})
        return self.X[0, :3], int(self.X[0, 3:6].argmax())

    def tell(self, cost: float) -> None:
        """The cost of it."""
        self.bandit.tell(self.X, [cost], self.t)


class ByHand:
    """What one would write in an evening."""

    FIRST, DRAWN, REFIT = 10, 2000, 20

    def __init__(self, seed: int, rule: Literal["UCB", "EI"]) -> None:
        self.rng, self.rule = np.random.default_rng([seed, 52]), rule
        self.Z, self.y = np.empty((0, 8)), np.empty(0)
        self.model: Any = None

    def ask(self, outside: float, t: int) -> Setting:
        """The best of random settings."""
        X, mode = (
            self.rng.uniform(LOW, HIGH, (self.DRAWN, 3)),
            self.rng.integers(3, size=self.DRAWN),
        )
        given = [(outside - OUTSIDE[0]) / (OUTSIDE[1] - OUTSIDE[0]), t / STEPS]
        Z = np.hstack([(X - LOW) / (HIGH - LOW), np.eye(3)[mode], np.tile(given, (len(X), 1))])
        best = 0
        if len(self.y) >= self.FIRST:
            self._fit()
            mean, deviation = self.model.predict(Z, return_std=True)
            off = (self.model.predict(self.Z).min() - mean) / deviation
            improvement = deviation * (off * norm.cdf(off) + norm.pdf(off))
            value = 2.0 * deviation - mean if self.rule == "UCB" else improvement
            best = int(value.argmax())
        self.z = Z[best]
        return X[best], int(mode[best])

    def _fit(self) -> None:
        afresh = self.model is None or len(self.y) % self.REFIT == 0
        kernel = ConstantKernel() * Matern(np.full(8, 0.5), (0.05, 20.0), nu=2.5) + WhiteKernel(
            0.05
        )
        kernel = kernel if self.model is None else self.model.kernel_
        optimizer = "fmin_l_bfgs_b" if afresh else None
        model = GaussianProcessRegressor(kernel, optimizer=optimizer, normalize_y=True)
        self.model = model.fit(self.Z, self.y)

    def tell(self, cost: float) -> None:
        """The cost of it."""
        self.Z, self.y = np.vstack([self.Z, self.z]), np.append(self.y, cost)


class Sampler:
    """One of Optuna's samplers."""

    def __init__(self, name: str, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.study = optuna.create_study(sampler=getattr(optuna.samplers, name)(seed=seed))

    def ask(self, outside: float, t: int) -> Setting:  # noqa: ARG002 - it has no place for them
        """Its next trial."""
        self.trial = self.study.ask()
        numbers = [self.trial.suggest_float(name, *ends) for name, ends in NUMBERS.items()]
        return np.array(numbers), MODES.index(self.trial.suggest_categorical("mode", MODES))

    def tell(self, cost: float) -> None:
        """Its cost."""
        self.study.tell(self.trial, cost)


PLAYERS: dict[str, Callable[[int], Any]] = {
    "adaptive_gp_ucb": lambda seed: Ours(policies.adaptive_gp_ucb(SPACE, minimize=True, seed=seed)),
    "25 lines, UCB": lambda seed: ByHand(seed, "UCB"),
    "25 lines, EI": lambda seed: ByHand(seed, "EI"),
    "tv_gp_ucb": lambda seed: Ours(
        policies.tv_gp_ucb(
            SPACE, kernel=SPACE.kernel(), noise_variance=None, minimize=True, seed=seed
        )
    ),
    "TPESampler": lambda seed: Sampler("TPESampler", seed),
    "GPSampler": lambda seed: Sampler("GPSampler", seed),
}


def played(make: Callable[[int], Any], seed: int, steps: int) -> tuple[Array, float]:
    """Extra cost of each step, and milliseconds of processor time a step."""
    pump, player, lost, taken = Pump(seed), make(seed), [], 0.0
    for t in range(steps):
        begun = clock()
        x, mode = player.ask(float(pump.outside[t]), t)
        taken += clock() - begun
        cost = float(pump.cost(x[None], np.array([mode]), t)[0])
        begun = clock()
        player.tell(cost + pump.noise[t])
        taken += clock() - begun
        lost.append(cost - pump.best(t))
    return np.array(lost), 1e3 * taken / steps


def main() -> None:
    """Play and print the table."""
    parser = arguments(__doc__, seeds=3, first_seed=0, steps=STEPS)
    parser.add_argument("--players", nargs="*", default=list(PLAYERS), choices=list(PLAYERS))
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    warnings.simplefilter("ignore")
    heading("player", "extra cost", "first third", "second", "last", "by seed", "ms a step")
    for name in given.players:
        if name == "GPSampler" and find_spec("torch") is None:
            continue
        runs = [played(PLAYERS[name], seed, given.steps) for seed in seeds]
        lost = np.array([run for run, _ in runs])
        means = lost.mean(axis=1)
        thirds = (f"{each.mean():.3f}" for each in np.array_split(lost, 3, axis=1))
        by_seed = " ".join(f"{each:.3f}" for each in means)
        ms = np.mean([ms for _, ms in runs])
        line(name, cell(means), *thirds, by_seed, f"{ms:.0f}")


if __name__ == "__main__":
    main()
