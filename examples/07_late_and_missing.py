"""Late and missing readings: they arrive a day late or never, and stations are in maintenance.

Each day the bandit chooses three of 28 ozone stations to read, after querying four in the morning. A
reading arrives the day after, and one in ten never arrives. Each station is in maintenance for five days
out of forty. The script reports each reading when it arrives, and drops points without a reading after
three days.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tvbandits import Answers, Options, policies
from tvbandits.datasets import ozone_network
from tvbandits.experts.keyed_noise import keyed_normal

HERE = Path(__file__).resolve().parent
DAYS, NOISE, READINGS_A_DAY = 120, 1.0, 3
NETWORK = ozone_network(days=DAYS)
SITES = NETWORK.domain.X


def is_working(day: int) -> np.ndarray:
    """Return a mask of the stations that are not in maintenance."""
    return (day + 11 * np.arange(len(SITES))) % 40 >= 5


def read(seed: int, X: np.ndarray, day: int) -> np.ndarray:
    """Return noisy readings of stations."""
    return NETWORK.value(X, day) + NOISE**0.5 * keyed_normal(seed, 1, X, day)


class Stations:
    """An expert that answers for stations that are not in maintenance."""

    def query(self, X: np.ndarray, t: float) -> Answers:
        works = is_working(int(t))[NETWORK.domain.index(X)]
        return Answers(np.where(works, read(1, X, int(t)), np.nan), NOISE)


def main(folder: Path = HERE) -> float:
    rng = np.random.default_rng(0)
    bandit = policies.frugal_gp_ucb(
        NETWORK.domain,
        noise_variance=NOISE,
        expert=Stations(),
        queries_per_step=4,
        options=Options(consult="before ask"),
    )
    late: list[tuple[np.ndarray, np.ndarray, int]] = []
    regret, fixed_regret = [], []
    for day in range(1, DAYS + 1):
        X = bandit.ask(day, n=READINGS_A_DAY, available=is_working(day))
        for points, values, time in late:
            arrives = rng.random(len(points)) > 0.1
            bandit.tell(points[arrives], values[arrives], time)
        bandit.drop(bandit.pending[: max(len(bandit.pending) - 3 * READINGS_A_DAY, 0)])
        late = [(X, read(0, X, day), day)]
        levels = NETWORK.value(SITES[is_working(day)], day)
        regret.append(levels.max() - NETWORK.value(X, day).max())
        fixed_regret.append(levels.max() - NETWORK.value(SITES, day)[find_best_fixed(day)])
    history = bandit.history
    print(history["kind"].value_counts().to_string())
    print(f"average regret of the best of the three stations: {np.mean(regret):.2f} ppb")
    print(f"average regret of the best fixed station: {np.mean(fixed_regret):.2f} ppb")

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    days = np.arange(1, DAYS + 1)
    for values, dashes, name in (
        (regret, "-", "best of the three stations chosen"),
        (fixed_regret, ":", "best fixed station, in hindsight"),
    ):
        axes.plot(days, np.cumsum(values) / days, "k", linestyle=dashes, label=name)
    axes.set(xlabel="day t", ylabel="average regret $R_t / t$ (ppb)", ylim=(0, None))
    axes.legend()
    figure.savefig(folder / "07_late_and_missing.png", dpi=120)
    return float(np.mean(regret))


MEANS = np.mean([NETWORK.value(SITES, day) for day in range(1, DAYS + 1)], axis=0)


def find_best_fixed(day: int) -> int:
    """Return the working station with the largest mean over all days."""
    return int(np.argmax(np.where(is_working(day), MEANS, -np.inf)))


if __name__ == "__main__":
    main()
