"""A daily cycle: the same bandit knows of it, finds it, or goes without.

Sixteen places of a hall warm up at hours of their own, and weather moves over them. A bandit plays
the warmest place every hour and asks about two more. `Options(season=24)`, in the unit of its
times, adds models with a part that returns after a day to those without. The weights of the models
follow from how well they predict, so a season that is not there costs little. By default the bandit
looks for a season in its readings, which takes some days; `season=None` leaves seasons out.
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


def hall(seed: int) -> TableProblem:
    """Return degrees at 16 places, hour by hour: offsets, a daily cycle, weather of ten hours."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0, 40, (16, 2))
    hours = np.arange(24 * DAYS)[:, None]
    near = np.exp(-np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1)) / 15)
    root = np.linalg.cholesky(near)
    day = rng.uniform(1.0, 2.5, 16) * np.cos(2 * np.pi * (hours - rng.uniform(8, 20, 16)) / 24)
    keep, weather = np.exp(-1 / 10), [root @ rng.standard_normal(16)]
    for _ in hours[1:]:
        fresh = np.sqrt(1 - keep**2) * root @ rng.standard_normal(16)
        weather.append(keep * weather[-1] + fresh)
    level = 20 + 0.5 * rng.standard_normal(16) + day + 0.6 * np.array(weather)
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


def main(out: Path = HERE) -> float:
    seasons = {"told of the day": 24.0, "finds it": "find", "without": None}
    curves = {name: [] for name in seasons}
    for seed in range(2):
        problem = hall(seed)
        for name, runs in curves.items():
            runs.append(play(problem, seasons[name], seed).reshape(DAYS, 24).mean(axis=1))
            print(f"{name}, seed {seed}: {runs[-1].mean():.3f} degrees an hour")
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes, days = figure.subplots(), np.arange(1, DAYS + 1)
    for (name, runs), style in zip(curves.items(), ("ko-", "kD-.", "ks--"), strict=True):
        axes.plot(days, np.mean(runs, axis=0), style, fillstyle="none", label=name)
    axes.set(xlabel="day", ylabel="regret of an hour (degrees)", ylim=(0, None))
    axes.legend(frameon=False)
    figure.savefig(out / "10_a_day.png", dpi=120)
    return float(np.mean(curves["told of the day"]))


if __name__ == "__main__":
    main()
