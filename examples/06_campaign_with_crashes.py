"""A campaign with crashes: for three weeks, its process is killed every day, and no data are lost."""

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
CRASHES = ("before ask", "after ask", "while the expert answers", "after tell")


def reward(X: np.ndarray, day: float) -> np.ndarray:
    """Return readings of a hill that wanders over [0, 10], with noise that depends on the day."""
    noise = 0.05 * np.random.default_rng(int(day)).standard_normal(len(X))
    return np.exp(-(((X[:, 0] - 5 - 3 * np.sin(day / 6)) / 2) ** 2)) + noise


class Model:
    """A simulation that answers, or that crashes its process."""

    def __init__(self, crashes: bool = False) -> None:
        self.crashes = crashes

    def query(self, X: np.ndarray, t: float) -> Answers:
        if self.crashes:
            os._exit(9)
        return Answers(0.9 * reward(X, t), 0.04, cost=len(X))


def make_bandit() -> Bandit:
    return policies.frugal_gp_ucb(
        SITES, kernel=RBF(2.0), noise_variance=0.0025, expert=Model(), queries_per_step=2
    )


def play(path: Path, day: int, crash: str) -> None:
    """Do the job of a day, with keys that name the day, and crash the process at a given moment."""
    with Campaign.open(path, expert=Model(crashes=crash == CRASHES[2])) as campaign:
        if crash == CRASHES[0]:
            os._exit(9)
        X = campaign.ask(day, key=f"ask {day}")
        if crash == CRASHES[1]:
            os._exit(9)
        campaign.tell(X, reward(X, day), day, key=f"tell {day}")
        if crash == CRASHES[3]:
            os._exit(9)


def run_day(path: Path, day: int) -> int:
    """Repeat the job of a day after a crash, and return the number of crashes."""
    crashes = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # on forks of a process with threads
        for crash in (CRASHES[day % 4], ""):
            job = multiprocessing.get_context("fork").Process(target=play, args=(path, day, crash))
            job.start()
            job.join()
            crashes += job.exitcode != 0
    return crashes


def main(folder: Path = HERE) -> float:
    """Play the three weeks, and compare with a bandit without crashes."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "campaign.db"
        Campaign.create(path, make_bandit(), snapshot_every=20).close()
        crashes = sum(run_day(path, day) for day in range(1, DAYS + 1))
        with Campaign.open(path) as campaign:
            status, verification, history = campaign.status, campaign.verify(), campaign.history
            state = campaign.state
    twin = make_bandit()
    for day in range(1, DAYS + 1):
        X = twin.ask(day)
        twin.tell(X, reward(X, day), day)
    is_equal = state == twin.state
    print(f"{DAYS} days, {crashes} crashes, {status.readings} readings, {status.questions} answers")
    print(f"the journal is consistent: {verification.consistent}")
    print(f"the state equals that of a bandit without crashes: {is_equal}")
    draw(history, folder)
    return float(status.readings) if is_equal and verification.consistent else float("nan")


def draw(history, folder: Path) -> None:
    """Draw the sites day by day over the reward, with the moments of the crashes."""
    rewards = history[history["source"] == "bandit"]
    rewards = rewards[rewards["kind"] == "reward"]
    figure = Figure((8, 4), layout="constrained")
    axes = figure.subplots()
    days, X = np.arange(1, DAYS + 1), SITES.X
    truth = np.exp(-(((X - 5 - 3 * np.sin(days / 6)) / 2) ** 2))
    image = axes.pcolormesh(days, X[:, 0], truth, cmap="Greys", shading="nearest", alpha=0.6)
    figure.colorbar(image, label="reward")
    for number, (crash, marker) in enumerate(zip(CRASHES, "ov^s", strict=True)):
        rows = rewards[rewards["time"].astype(int) % 4 == number]
        axes.scatter(rows["time"], rows["x0"], marker=marker, color="k", label=f"crash {crash}")
    axes.set(xlabel="day", ylabel="site (km)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    figure.savefig(folder / "06_campaign_with_crashes.png", dpi=150)


if __name__ == "__main__":
    main()
