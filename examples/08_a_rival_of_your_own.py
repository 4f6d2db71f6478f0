"""A rival of your own: a policy in a few lines, compared on the same problems and noise as all others.

The rival combines two ways of forgetting, noise injection that grows with age and an event trigger, so
that it can explore less, with a confidence width of 1. The script compares it with each of the two ways
alone, on a reward that switches, for which it is designed, and on one that drifts. Its parameters were
tuned on other seeds than those shown here.
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
    "noise injection": {"aging": Linear(0.1)},
    "event trigger": {"reset": EventTrigger()},
    "both, width 1": {"aging": Linear(0.1), "reset": EventTrigger(), "beta": 1.0},
}


def make_maker(parts):
    """Return a function that a comparison calls for each problem and seed."""

    def make(setting: Setting) -> Bandit:
        recipe = Recipe(setting.domain, setting.kernel, setting.noise_variance, **parts)
        return Bandit(recipe, seed=setting.seed)

    return make


def main(folder: Path = HERE) -> float:
    problems = [Switching(horizon=150), DriftingBump(horizon=150, candidates=101)]
    makers = {name: make_maker(parts) for name, parts in POLICIES.items()}
    rows = compare(problems, makers, seeds=SEEDS)
    means = rows.pivot_table(index="problem", columns="policy", values="regret")[list(POLICIES)]
    means = means.loc[[problem.name for problem in problems]]
    print(means.round(3).to_string())
    rival, parent = means["both, width 1"], means.drop(columns="both, width 1").min(axis=1)
    for name in means.index:
        print(f"{name}: {rival[name] / parent[name]:.2f} times the regret of the better single way")

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    x = np.arange(len(means))
    for i, (name, grey) in enumerate(zip(POLICIES, ("0.85", "0.6", "0.2"), strict=True)):
        axes.bar(x + 0.27 * (i - 1), means[name], 0.25, color=grey, edgecolor="k", label=name)
    axes.set_xticks(x, means.index)
    axes.set(ylabel="average regret a step", ylim=(0, None))
    figure.legend(loc="outside upper right", ncols=3, frameon=False)
    figure.savefig(folder / "08_a_rival_of_your_own.png", dpi=120)
    return float(rival["switching"])


if __name__ == "__main__":
    main()
