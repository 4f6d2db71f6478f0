"""Control of a heat pump in steps of ten minutes for three days, against 25 lines with scikit-learn.

    python -m benchmarks.heat_pump [--seeds 3] [--first-seed 0] [--steps 432] [--players NAME ...]

A decision sets three numbers (supply temperature, water flow, hysteresis) and a mode. The outside
temperature, which has a daily cycle and weather, is measured before. The best setting depends on it,
and drifts as the pump ages. The table has the average cost of a step beyond that of the best setting,
over all steps and over each third of them, and processor time.

`25 lines` is a Gaussian process of scikit-learn over the numbers, the modes as columns of 0 and 1, the
outside temperature and the time. It refits its hyperparameters every 20 steps, and plays the lowest
bound (UCB) or the largest expected improvement (EI) of 2,000 random settings. Optuna's samplers take no
context, and do not see the temperature. GPSampler is left out where PyTorch is not installed.
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

from benchmarks.harness import cell, clock, heading, line, make_parser
from tvbandits import Space, policies
from tvbandits.validation import Array

DAY, STEPS = 144, 432
OUTSIDE = (-15.0, 20.0)
NUMBERS = {"supply": (25.0, 55.0), "flow": (5.0, 25.0), "hysteresis": (1.0, 8.0)}
MODES = ["eco", "comfort", "boost"]
SPACE = Space(**NUMBERS, mode=MODES, context={"outside": OUTSIDE})
LOW, HIGH = np.array(list(NUMBERS.values())).T
# Deviation of the noise of a cost.
NOISE = 0.08


class Pump:
    """A pump of some seed, whose cost is electricity, rooms too cold or too warm, and starts."""

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
        self._settings = rng.uniform(LOW, HIGH, (4096, 3))

    def cost(self, X: Array, mode: Array, t: int) -> Array:
        """Return the costs (n,) of settings (n, 3) in modes (n,) at a step."""
        (supply, flow, hysteresis), outside, age = X.T, self.outside[t], t / STEPS
        heat = 0.019 * flow**0.7 * (supply - 21.0) * self.factor[mode] * (1.0 - self.fouling * age)
        demand = self.house * (21.0 - outside)
        lift = 1.6 * supply - outside + 6.0 * age * flow / 25.0
        power = self.draw[mode] * heat * lift / (0.45 * (supply + 273.0)) + (flow / 30.0) ** 3
        surplus = heat - demand
        comfort = (
            1.5 * np.logaddexp(0.0, -3.0 * surplus) / 3.0
            + 0.35 * np.logaddexp(0.0, 3.0 * surplus) / 3.0
        )
        ideal = 3.0 + 0.12 * (outside + 10.0) + 1.5 * self.wear * age
        starts = 0.06 * (self.wear + 1.0) * (hysteresis - ideal) ** 2 / 4.0
        return np.asarray(3.0 * power + 2.0 * comfort + starts)

    def best(self, t: int) -> float:
        """Return the lowest cost at a step, by random settings and a local search in each mode."""
        lowest = np.inf
        for mode in range(len(MODES)):
            X, radius = self._settings, (HIGH - LOW) / 8.0
            for _ in range(6):
                values = self.cost(X, np.full(len(X), mode), t)
                x, lowest = X[values.argmin()], min(lowest, float(values.min()))
                shifts = (self._settings[:512] - LOW - (HIGH - LOW) / 2.0) / (HIGH - LOW)
                X, radius = np.clip(x + radius * shifts, LOW, HIGH), radius / 2.5
        return lowest


# Three numbers, and the row of the mode.
Setting = tuple[Array, int]


class Ours:
    """A policy of the package on the space with the context."""

    def __init__(self, bandit: Any) -> None:
        self.bandit = bandit

    def ask(self, outside: float, t: int) -> Setting:
        """Return the setting of the bandit at a temperature."""
        self.t, self.X = t, self.bandit.ask(t, context={"outside": outside})
        return self.X[0, :3], int(self.X[0, 3:6].argmax())

    def tell(self, cost: float) -> None:
        """Report the cost."""
        self.bandit.tell(self.X, [cost], self.t)


class TwentyFiveLines:
    """A Gaussian process with scikit-learn, as a user writes it in an evening."""

    FIRST, SAMPLES, REFIT = 10, 2000, 20

    def __init__(self, seed: int, rule: Literal["UCB", "EI"]) -> None:
        self.rng, self.rule = np.random.default_rng([seed, 52]), rule
        self.Z, self.y = np.empty((0, 8)), np.empty(0)
        self.model: Any = None

    def ask(self, outside: float, t: int) -> Setting:
        """Return the best of random settings."""
        X, mode = (
            self.rng.uniform(LOW, HIGH, (self.SAMPLES, 3)),
            self.rng.integers(3, size=self.SAMPLES),
        )
        context = [(outside - OUTSIDE[0]) / (OUTSIDE[1] - OUTSIDE[0]), t / STEPS]
        Z = np.hstack([(X - LOW) / (HIGH - LOW), np.eye(3)[mode], np.tile(context, (len(X), 1))])
        best = 0
        if len(self.y) >= self.FIRST:
            self._fit()
            mean, deviation = self.model.predict(Z, return_std=True)
            u = (self.model.predict(self.Z).min() - mean) / deviation
            improvement = deviation * (u * norm.cdf(u) + norm.pdf(u))
            value = 2.0 * deviation - mean if self.rule == "UCB" else improvement
            best = int(value.argmax())
        self.z = Z[best]
        return X[best], int(mode[best])

    def _fit(self) -> None:
        optimizes = self.model is None or len(self.y) % self.REFIT == 0
        kernel = ConstantKernel() * Matern(np.full(8, 0.5), (0.05, 20.0), nu=2.5) + WhiteKernel(
            0.05
        )
        kernel = kernel if self.model is None else self.model.kernel_
        optimizer = "fmin_l_bfgs_b" if optimizes else None
        model = GaussianProcessRegressor(kernel, optimizer=optimizer, normalize_y=True)
        self.model = model.fit(self.Z, self.y)

    def tell(self, cost: float) -> None:
        """Add the cost to the data."""
        self.Z, self.y = np.vstack([self.Z, self.z]), np.append(self.y, cost)


class Sampler:
    """One of Optuna's samplers."""

    def __init__(self, name: str, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.study = optuna.create_study(sampler=getattr(optuna.samplers, name)(seed=seed))

    def ask(self, outside: float, t: int) -> Setting:  # noqa: ARG002 - Optuna has no context
        """Return the setting of the next trial."""
        self.trial = self.study.ask()
        numbers = [self.trial.suggest_float(name, *ends) for name, ends in NUMBERS.items()]
        return np.array(numbers), MODES.index(self.trial.suggest_categorical("mode", MODES))

    def tell(self, cost: float) -> None:
        """Report the cost."""
        self.study.tell(self.trial, cost)


PLAYERS: dict[str, Callable[[int], Any]] = {
    "adaptive_gp_ucb": lambda seed: Ours(policies.adaptive_gp_ucb(SPACE, minimize=True, seed=seed)),
    "25 lines, UCB": lambda seed: TwentyFiveLines(seed, "UCB"),
    "25 lines, EI": lambda seed: TwentyFiveLines(seed, "EI"),
    "tv_gp_ucb": lambda seed: Ours(
        policies.tv_gp_ucb(
            SPACE, kernel=SPACE.kernel(), noise_variance=None, minimize=True, seed=seed
        )
    ),
    "TPESampler": lambda seed: Sampler("TPESampler", seed),
    "GPSampler": lambda seed: Sampler("GPSampler", seed),
}


def play(make: Callable[[int], Any], seed: int, steps: int) -> tuple[Array, float]:
    """Return the extra cost of each step, and milliseconds of processor time a step."""
    pump, player, regrets, elapsed = Pump(seed), make(seed), [], 0.0
    for t in range(steps):
        start = clock()
        x, mode = player.ask(float(pump.outside[t]), t)
        elapsed += clock() - start
        cost = float(pump.cost(x[None], np.array([mode]), t)[0])
        start = clock()
        player.tell(cost + pump.noise[t])
        elapsed += clock() - start
        regrets.append(cost - pump.best(t))
    return np.array(regrets), 1e3 * elapsed / steps


def main() -> None:
    """Play and print the table."""
    parser = make_parser(__doc__, seeds=3, first_seed=0, steps=STEPS)
    parser.add_argument("--players", nargs="*", default=list(PLAYERS), choices=list(PLAYERS))
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    warnings.simplefilter("ignore")
    heading("player", "extra cost", "first third", "second", "last", "by seed", "ms a step")
    for name in options.players:
        if name == "GPSampler" and find_spec("torch") is None:
            continue
        runs = [play(PLAYERS[name], seed, options.steps) for seed in seeds]
        regrets = np.array([run for run, _ in runs])
        means = regrets.mean(axis=1)
        thirds = (f"{each.mean():.3f}" for each in np.array_split(regrets, 3, axis=1))
        by_seed = " ".join(f"{each:.3f}" for each in means)
        ms = np.mean([ms for _, ms in runs])
        line(name, cell(means), *thirds, by_seed, f"{ms:.0f}")


if __name__ == "__main__":
    main()
