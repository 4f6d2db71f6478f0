"""A network as it is: readings come a day late or not at all, and stations are in maintenance.

Each day the bandit chooses three of 28 ozone stations to read, and asks four more in the morning. A
reading arrives the day after, and one in ten never does. Each station is away for service for five days
out of forty. The script tells each reading when it comes, and drops what has not come after three days.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tvbandits import Answers, Options, policies
from tvbandits.datasets import ozone_network
from tvbandits.experts.keyed_noise import keyed_normal

HERE = Path(__file__).resolve().parent
DAYS, NOISE, A_DAY = 120, 1.0, 3
NETWORK = ozone_network(days=DAYS)
SITES = NETWORK.domain.X


def working(day: int) -> np.ndarray:
    """Return a mask of the stations that are not in maintenance."""
    return (day + 11 * np.arange(len(SITES))) % 40 >= 5


def read(seed: int, X: np.ndarray, day: int) -> np.ndarray:
    """Return the readings of the instruments."""
    return NETWORK.value(X, day) + NOISE**0.5 * keyed_normal(seed, 1, X, day)


class Stations:
    """An expert that answers about stations that work today."""

    def query(self, X: np.ndarray, t: float) -> Answers:
        away = ~working(int(t))[NETWORK.domain.index(X)]
        return Answers(np.where(away, np.nan, read(1, X, int(t))), NOISE)


def main(out: Path = HERE) -> float:
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
        X = bandit.ask(day, n=A_DAY, available=working(day))
        for points, values, then in late:
            arrives = rng.random(len(points)) > 0.1
            bandit.tell(points[arrives], values[arrives], then)
        bandit.drop(bandit.pending[: max(len(bandit.pending) - 3 * A_DAY, 0)])
        late = [(X, read(0, X, day), day)]
        levels = NETWORK.value(SITES[working(day)], day)
        regret.append(levels.max() - NETWORK.value(X, day).max())
        fixed_regret.append(levels.max() - NETWORK.value(SITES, day)[best_fixed_site(day)])
    history = bandit.history
    print(history["kind"].value_counts().to_string())
    print(f"the best of three loses {np.mean(regret):.2f} ppb a day against the best that works;")
    print(f"the best over all days, or its stand-in, loses {np.mean(fixed_regret):.2f}")

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    days = np.arange(1, DAYS + 1)
    for values, dashes, name in (
        (regret, "-", "the best of the three stations chosen"),
        (fixed_regret, ":", "best station of all days, known afterwards"),
    ):
        axes.plot(days, np.cumsum(values) / days, "k", linestyle=dashes, label=name)
    axes.set(xlabel="day t", ylabel="average regret $R_t / t$ (ppb)", ylim=(0, None))
    axes.legend()
    figure.savefig(out / "07_late_and_missing.png", dpi=120)
    return float(np.mean(regret))


ALL_DAYS = np.mean([NETWORK.value(SITES, day) for day in range(1, DAYS + 1)], axis=0)


def best_fixed_site(day: int) -> int:
    """Return the station that is best over all days, of those that work."""
    return int(np.argmax(np.where(working(day), ALL_DAYS, -np.inf)))


if __name__ == "__main__":
    main()
