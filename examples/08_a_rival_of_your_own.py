"""A rival of your own: a policy in a few lines, on the same problems and noise as all others.

The rival lets readings fade and starts afresh when a reward is a surprise, so it can explore less, at a
width of 1. The script compares it with each of its two parents on a reward that switches, which it is
meant for, and on one that drifts. We chose its numbers on other seeds than those shown here.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tvbandits import Bandit, Recipe, compare
from tvbandits.datasets import DriftingBump, Switching
from tvbandits.forgetting.aging import Linear
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.policies import Setting

HERE = Path(__file__).resolve().parent
SEEDS = (2, 3, 4)
POLICIES = {
    "fading": {"aging": Linear(0.1)},
    "fresh after events": {"reset": EventTrigger()},
    "both, and narrow": {"aging": Linear(0.1), "reset": EventTrigger(), "beta": 1.0},
}


def maker(parts):
    """A comparison calls it for each problem and seed."""

    def make(setting: Setting) -> Bandit:
        recipe = Recipe(setting.domain, setting.kernel, setting.noise_variance, **parts)
        return Bandit(recipe, seed=setting.seed)

    return make


def main(out: Path = HERE) -> float:
    problems = [Switching(horizon=150), DriftingBump(horizon=150, candidates=101)]
    makers = {name: maker(parts) for name, parts in POLICIES.items()}
    rows = compare(problems, makers, seeds=SEEDS)
    means = rows.pivot_table(index="problem", columns="policy", values="regret")[list(POLICIES)]
    means = means.loc[[problem.name for problem in problems]]
    print(means.round(3).to_string())
    rival, parents = means["both, and narrow"], means.drop(columns="both, and narrow").min(axis=1)
    for name in means.index:
        print(f"{name}: {rival[name] / parents[name]:.2f} of what the better parent loses")

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    x = np.arange(len(means))
    for i, (name, grey) in enumerate(zip(POLICIES, ("0.85", "0.6", "0.2"), strict=True)):
        axes.bar(x + 0.27 * (i - 1), means[name], 0.25, color=grey, edgecolor="k", label=name)
    axes.set_xticks(x, means.index)
    axes.set(ylabel="average regret a step", ylim=(0, None))
    figure.legend(loc="outside upper right", ncols=3, frameon=False)
    figure.savefig(out / "08_a_rival_of_your_own.png", dpi=120)
    return float(rival["switching"])


if __name__ == "__main__":
    main()
