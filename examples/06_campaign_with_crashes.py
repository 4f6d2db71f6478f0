"""A campaign with crashes: for three weeks the process dies every day, and nothing is lost."""

import multiprocessing
import os
import tempfile
import warnings
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Answers, Bandit, Campaign, Candidates, policies

HERE = Path(__file__).resolve().parent
SITES = Candidates(np.linspace(0, 10, 21)[:, None])
DAYS = 21
DEATHS = ("before it asks", "after it has asked", "while the expert answers", "after it has told")


def reward(X: np.ndarray, day: float) -> np.ndarray:
    """Return readings of a hill that wanders over [0, 10], with noise that depends on the day."""
    noise = 0.05 * np.random.default_rng(int(day)).standard_normal(len(X))
    return np.exp(-(((X[:, 0] - 5 - 3 * np.sin(day / 6)) / 2) ** 2)) + noise


class Model:
    """A simulation that answers, unless its process dies."""

    def __init__(self, dies: bool = False) -> None:
        self.dies = dies

    def query(self, X: np.ndarray, t: float) -> Answers:
        if self.dies:
            os._exit(9)
        return Answers(0.9 * reward(X, t), 0.04, cost=len(X))


def bandit() -> Bandit:
    return policies.frugal_gp_ucb(
        SITES, kernel=RBF(2.0), noise_variance=0.0025, expert=Model(), queries_per_step=2
    )


def play(place: Path, day: int, death: str) -> None:
    """Do the job of a day, with keys that name the day; the process dies where `death` says."""
    with Campaign.open(place, expert=Model(dies=death == DEATHS[2])) as campaign:
        if death == DEATHS[0]:
            os._exit(9)
        X = campaign.ask(day, key=f"ask {day}")
        if death == DEATHS[1]:
            os._exit(9)
        campaign.tell(X, reward(X, day), day, key=f"tell {day}")
        if death == DEATHS[3]:
            os._exit(9)


def run_day(place: Path, day: int) -> int:
    """Repeat the job of a day until it survives; return how many times it died."""
    deaths = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # on forks of a process with threads
        for death in (DEATHS[day % 4], ""):
            job = multiprocessing.get_context("fork").Process(target=play, args=(place, day, death))
            job.start()
            job.join()
            deaths += job.exitcode != 0
    return deaths


def main(out: Path = HERE) -> float:
    """Play the three weeks, and compare with a bandit that nobody stopped."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "campaign.db"
        Campaign.create(place, bandit(), snapshot_every=20).close()
        deaths = sum(run_day(place, day) for day in range(1, DAYS + 1))
        with Campaign.open(place) as campaign:
            status, verification, history = campaign.status, campaign.verify(), campaign.history
            state = campaign.state
    twin = bandit()
    for day in range(1, DAYS + 1):
        X = twin.ask(day)
        twin.tell(X, reward(X, day), day)
    same = state == twin.state
    counts = f"{status.readings} readings, {status.questions} answers bought"
    print(f"{DAYS} days, died {deaths} times; {counts}")
    print(f"verified: {verification.consistent}; the same as a bandit that nobody stopped: {same}")
    draw(history, out)
    return float(status.readings) if same and verification.consistent else float("nan")


def draw(history, out: Path) -> None:
    """Draw the sites day by day over the reward, and where the process died."""
    rewards = history[history["source"] == "bandit"]
    rewards = rewards[rewards["kind"] == "reward"]
    figure = Figure((8, 4), layout="constrained")
    axes = figure.subplots()
    days, X = np.arange(1, DAYS + 1), SITES.X
    truth = np.exp(-(((X - 5 - 3 * np.sin(days / 6)) / 2) ** 2))
    image = axes.pcolormesh(days, X[:, 0], truth, cmap="Greys", shading="nearest", alpha=0.6)
    figure.colorbar(image, label="reward")
    for number, (death, marker) in enumerate(zip(DEATHS, "ov^s", strict=True)):
        rows = rewards[rewards["time"].astype(int) % 4 == number]
        axes.scatter(rows["time"], rows["x0"], marker=marker, color="k", label=f"died {death}")
    axes.set(xlabel="day", ylabel="site (km)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    figure.savefig(out / "06_campaign_with_crashes.png", dpi=150)


if __name__ == "__main__":
    main()
