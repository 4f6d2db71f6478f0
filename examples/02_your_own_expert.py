"""An expert of your own: any object with `query(X, t)`, which two policies ask.

The reward has two hills that take turns. A policy without an expert has to go and look now and then.
SparQ-GP-UCB asks about 3 log t points a step, spread over those that it has played. The frugal policy
asks about two, where the answer could change its next choice, and learns how fast answers age.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Answers, Bandit, Candidates, policies
from tvbandits.experts import check_expert
from tvbandits.queries.plans import KDPP, LogSchedule

HERE = Path(__file__).resolve().parent


def reward(X: np.ndarray, t: float) -> np.ndarray:
    """Return the height of two hills that take turns."""
    x = X[:, 0]
    left = np.exp(-((x - 2) ** 2)) * (1 + np.sin(t / 20))
    return left + np.exp(-((x - 7) ** 2)) * (1 - np.sin(t / 20))


class Station:
    """An expert that answers about most of the domain, with an honest variance."""

    def query(self, X: np.ndarray, t: float) -> Answers:
        values = np.where(X[:, 0] < 9, reward(X, t), np.nan)  # NaN: no answer for this point
        return Answers(values, np.full(len(X), 0.04), cost=float(len(X)))


def bandits(domain: Candidates) -> dict[str, Bandit]:
    """Return a bandit without an expert, and two that ask."""
    plan = KDPP(LogSchedule(3.0))
    return {
        "nobody asked": policies.adaptive_gp_ucb(domain, kernel=RBF(0.8), noise_variance=0.01),
        "sparq, 3 log t a step": policies.sparq_gp_ucb(
            domain, kernel=RBF(0.8), noise_variance=0.01, expert=Station(), queries_per_step=plan
        ),
        "frugal, 2 a step": policies.frugal_gp_ucb(
            domain, noise_variance=0.01, expert=Station(), queries_per_step=2
        ),
    }


def main(out: Path = HERE) -> float:
    domain = Candidates(np.linspace(0, 10, 101)[:, None])
    print(check_expert(Station(), domain.X[:5], 1.0, deterministic=True))
    rng = np.random.default_rng(0)
    curves = {}
    for name, bandit in bandits(domain).items():
        regret = []
        for t in range(1, 201):
            X = bandit.ask(t)
            bandit.tell(X, reward(X, t) + 0.1 * rng.standard_normal(1), t)
            regret.append(reward(domain.X, t).max() - reward(X, t)[0])
        curves[name] = np.cumsum(regret) / np.arange(1, 201)
        info = bandit.info
        print(
            f"{name}: average regret {curves[name][-1]:.3f}, "
            f"asked {info.queries.total_asked}, answered {info.queries.total_answered}, "
            f"cost {info.queries.total_cost:.0f}"
        )
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for (name, curve), dashes in zip(curves.items(), ("--", ":", "-"), strict=True):
        axes.plot(range(1, 201), curve, "k", linestyle=dashes, label=name)
    axes.set(xlabel="step t", ylabel="average regret $R_t / t$", ylim=(0, None))
    axes.legend()
    figure.savefig(out / "02_your_own_expert.png", dpi=120)
    return float(curves["frugal, 2 a step"][-1])


if __name__ == "__main__":
    main()
