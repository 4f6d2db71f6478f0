"""Ask and tell: follow a drifting maximum in a few lines, and plot what the bandit has learned."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Candidates, policies

HERE = Path(__file__).resolve().parent


def reward(x: np.ndarray, t: float) -> float:
    """Return the height of a hill that wanders over [0, 10]."""
    return float(np.exp(-((x[0] - 5 - 3 * np.sin(t / 30)) ** 2)))


def main(folder: Path = HERE) -> float:
    rng = np.random.default_rng(0)
    domain = Candidates(np.linspace(0, 10, 101)[:, None])
    # If no forgetting rate is given, the bandit learns how fast the reward drifts.
    bandit = policies.adaptive_gp_ucb(
        domain, kernel=RBF(1.0), noise_variance=0.01, beta=2.0, seed=0
    )
    points, regret = [], []
    for t in range(1, 201):
        X = bandit.ask(t)
        bandit.tell(X, [reward(X[0], t) + 0.1 * rng.standard_normal()], t)
        points.append(X[0, 0])
        regret.append(1.0 - reward(X[0], t))
    mean, deviation = bandit.predict(domain.X, 200)
    average = float(np.mean(regret))
    print(f"average regret over 200 steps: {average:.3f}")

    figure = Figure(figsize=(8, 5), layout="constrained")
    top, bottom = figure.subplots(2, 1)
    top.plot(range(1, 201), points, ".k", label="played")
    top.plot(5 + 3 * np.sin(np.arange(1, 201) / 30), "-", color="0.6", label="best point")
    top.set(xlabel="step t", ylabel="x")
    top.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    x = domain.X[:, 0]
    bottom.plot(x, mean, "k", label="posterior mean")
    bottom.fill_between(
        x, mean - 2 * deviation, mean + 2 * deviation, color="0.85", label="± 2 deviations"
    )
    bottom.plot(x, [reward(p, 200) for p in domain.X], "k--", linewidth=1, label="true reward")
    bottom.set(xlabel="x", ylabel="reward at t = 200")
    bottom.legend(loc="upper right")
    figure.savefig(folder / "01_ask_and_tell.png", dpi=120)
    return average


if __name__ == "__main__":
    main()
