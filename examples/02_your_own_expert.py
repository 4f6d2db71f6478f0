"""An expert of your own: any object with `query(X, t)`, asked by SparQ-GP-UCB."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Answers, Candidates, policies
from tvbandits.experts import check_expert
from tvbandits.queries.plans import KDPP, LogSchedule

HERE = Path(__file__).resolve().parent


def reward(X: np.ndarray, t: float) -> np.ndarray:
    """Two hills that take turns."""
    x = X[:, 0]
    left = np.exp(-((x - 2) ** 2)) * (1 + np.sin(t / 20))
    return left + np.exp(-((x - 7) ** 2)) * (1 - np.sin(t / 20))


class Station:
    """Answers for most of the domain, with an honest variance."""

    def query(self, X: np.ndarray, t: float) -> Answers:
        values = np.where(X[:, 0] < 9, reward(X, t), np.nan)  # NaN: no answer for this point
        return Answers(values, np.full(len(X), 0.04), cost=float(len(X)))


def main(out: Path = HERE) -> float:
    domain = Candidates(np.linspace(0, 10, 101)[:, None])
    print(check_expert(Station(), domain.X[:5], 1.0, deterministic=True))
    rng = np.random.default_rng(0)
    curves = {}
    for name, factor in (("no queries", 0.0), ("3 log t queries", 3.0)):
        plan = KDPP(LogSchedule(factor))
        bandit = policies.sparq_gp_ucb(
            domain, RBF(0.8), 0.01, expert=Station(), queries=plan, confidence=2.0, seed=0
        )
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
    for (name, curve), dashes in zip(curves.items(), ("--", "-"), strict=True):
        axes.plot(range(1, 201), curve, "k", linestyle=dashes, label=name)
    axes.set(xlabel="step t", ylabel="average regret $R_t / t$", ylim=(0, None))
    axes.legend()
    figure.savefig(out / "02_your_own_expert.png", dpi=120)
    return float(curves["3 log t queries"][-1])


if __name__ == "__main__":
    main()
