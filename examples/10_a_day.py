"""A daily cycle: the same bandit with the period given, with a search for it, and without a season.

Sixteen places in a hall warm up at different hours, with random weather on top. Every hour, a bandit
plays the place that it expects to be the warmest, and queries two more. `Options(season=24)`, in the
unit of the bandit's times, adds models with a periodic part to the models without one. The weights of
the models follow from how well they predict, so a season that does not exist costs little. By default
the bandit searches its readings for a season, which takes some days; `season=None` leaves seasons out.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tvbandits import Answers, Options, policies
from tvbandits.datasets import TableProblem
from tvbandits.experts.keyed_noise import keyed_normal

HERE = Path(__file__).resolve().parent
DAYS, NOISE = 8, 0.01


def make_hall(seed: int) -> TableProblem:
    """Return hourly degrees at 16 places: offsets, a daily cycle, and weather that lasts ten hours."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 40, (16, 2))
    hours = np.arange(24 * DAYS)[:, None]
    distances = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    root = np.linalg.cholesky(np.exp(-distances / 15))
    cycle = rng.uniform(1.0, 2.5, 16) * np.cos(2 * np.pi * (hours - rng.uniform(8, 20, 16)) / 24)
    decay, weather = np.exp(-1 / 10), [root @ rng.standard_normal(16)]
    for _ in hours[1:]:
        innovation = np.sqrt(1 - decay**2) * root @ rng.standard_normal(16)
        weather.append(decay * weather[-1] + innovation)
    level = 20 + 0.5 * rng.standard_normal(16) + cycle + 0.6 * np.array(weather)
    return TableProblem(level, places, name="hall", unit="degrees", noise_variance=NOISE)


def play(problem: TableProblem, season: Any, seed: int) -> np.ndarray:
    """Return the regret of each hour."""

    class Sensors:
        def query(self, X: np.ndarray, t: float) -> Answers:
            return Answers(problem.value(X, t) + NOISE**0.5 * keyed_normal(seed, 2, X, t), NOISE)

    bandit = policies.frugal_gp_ucb(
        problem.domain,
        noise_variance=NOISE,
        expert=Sensors(),
        queries_per_step=2,
        seed=seed,
        options=Options(season=season),
    )
    regret = []
    for hour in range(1, problem.horizon + 1):
        x = bandit.ask(hour)
        level = problem.value(x, hour)
        bandit.tell(x, level + NOISE**0.5 * keyed_normal(seed, 1, x, hour), hour)
        regret.append(problem.best(hour) - level[0])
    return np.array(regret)


def main(folder: Path = HERE) -> float:
    seasons = {"season=24": 24.0, 'season="find"': "find", "season=None": None}
    curves = {name: [] for name in seasons}
    for seed in range(2):
        problem = make_hall(seed)
        for name, runs in curves.items():
            runs.append(play(problem, seasons[name], seed).reshape(DAYS, 24).mean(axis=1))
            print(f"{name}, seed {seed}: {runs[-1].mean():.3f} degrees an hour")
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes, days = figure.subplots(), np.arange(1, DAYS + 1)
    for (name, runs), style in zip(curves.items(), ("ko-", "kD-.", "ks--"), strict=True):
        axes.plot(days, np.mean(runs, axis=0), style, fillstyle="none", label=name)
    axes.set(xlabel="day", ylabel="regret of an hour (degrees)", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(folder / "10_a_day.png", dpi=120)
    return float(np.mean(curves["season=24"]))


if __name__ == "__main__":
    main()
