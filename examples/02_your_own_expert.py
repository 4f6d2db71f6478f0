"""An expert of your own: any object with `query(X, t)`, which two policies query.

The reward has two hills, of which one grows while the other falls. A policy without an expert has to
explore now and then. In each step, SparQ-GP-UCB queries about 3 log t of the points that it has played,
which it chooses far apart. The frugal policy queries two points whose answers could change its next
choice, and learns how fast answers age.
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
    """Return the height of two hills, of which one grows while the other falls."""
    x = X[:, 0]
    left_hill = np.exp(-((x - 2) ** 2)) * (1 + np.sin(t / 20))
    return left_hill + np.exp(-((x - 7) ** 2)) * (1 - np.sin(t / 20))


class Station:
    """An expert that answers for most of the domain, and states a variance that is large enough."""

    def query(self, X: np.ndarray, t: float) -> Answers:
        values = np.where(X[:, 0] < 9, reward(X, t), np.nan)  # NaN: no answer for this point
        return Answers(values, np.full(len(X), 0.04), cost=float(len(X)))


def make_bandits(domain: Candidates) -> dict[str, Bandit]:
    """Return a bandit without an expert, and two with one."""
    plan = KDPP(LogSchedule(3.0))
    return {
        "no expert": policies.adaptive_gp_ucb(domain, kernel=RBF(0.8), noise_variance=0.01),
        "sparq, 3 log t queries a step": policies.sparq_gp_ucb(
            domain, kernel=RBF(0.8), noise_variance=0.01, expert=Station(), queries_per_step=plan
        ),
        "frugal, 2 queries a step": policies.frugal_gp_ucb(
            domain, noise_variance=0.01, expert=Station(), queries_per_step=2
        ),
    }


def main(folder: Path = HERE) -> float:
    domain = Candidates(np.linspace(0, 10, 101)[:, None])
    print(check_expert(Station(), domain.X[:5], 1.0, deterministic=True))
    rng = np.random.default_rng(0)
    curves = {}
    for name, bandit in make_bandits(domain).items():
        regret = []
        for t in range(1, 201):
            X = bandit.ask(t)
            bandit.tell(X, reward(X, t) + 0.1 * rng.standard_normal(1), t)
            regret.append(reward(domain.X, t).max() - reward(X, t)[0])
        curves[name] = np.cumsum(regret) / np.arange(1, 201)
        info = bandit.info
        print(
            f"{name}: average regret {curves[name][-1]:.3f}, "
            f"{info.queries.total_asked} queries, {info.queries.total_answered} answers, "
            f"cost {info.queries.total_cost:.0f}"
        )
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for (name, curve), dashes in zip(curves.items(), ("--", ":", "-"), strict=True):
        axes.plot(range(1, 201), curve, "k", linestyle=dashes, label=name)
    axes.set(xlabel="step t", ylabel="average regret $R_t / t$", ylim=(0, None))
    axes.legend()
    figure.savefig(folder / "02_your_own_expert.png", dpi=120)
    return float(curves["frugal, 2 queries a step"][-1])


if __name__ == "__main__":
    main()
