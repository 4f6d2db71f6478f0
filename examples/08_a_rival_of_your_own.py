"""A rival of your own: a policy in a few lines, on the same problems and noise as all others.

The rival forgets like a sliding window, and lets what is in the window fade: two aging maps composed. It
is compared with each of its two parents on a reward that switches and on one that drifts.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tvbandits import Bandit, Recipe, compare
from tvbandits.datasets import DriftingBump, Switching
from tvbandits.forgetting.aging import Linear, Window, compose
from tvbandits.policies import Setting

HERE = Path(__file__).resolve().parent
AGINGS = {
    "window": Window(last=40),
    "fading": Linear(0.1),
    "fading window": compose(Linear(0.1), Window(last=40)),
}


def maker(aging):
    """What a comparison calls for each problem and seed."""

    def make(setting: Setting) -> Bandit:
        recipe = Recipe(setting.domain, setting.kernel, setting.noise_variance, aging=aging)
        return Bandit(recipe, seed=setting.seed)

    return make


def main(out: Path = HERE) -> float:
    problems = [Switching(horizon=150), DriftingBump(horizon=150, candidates=101)]
    rows = pd.DataFrame(
        compare(problems, {name: maker(aging) for name, aging in AGINGS.items()}, seeds=2)
    )
    means = rows.pivot_table(index="problem", columns="policy", values="regret")[list(AGINGS)]
    print(means.round(3).to_string())

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    x = np.arange(len(means))
    for i, (name, grey) in enumerate(zip(AGINGS, ("0.85", "0.6", "0.2"), strict=True)):
        axes.bar(x + 0.27 * (i - 1), means[name], 0.25, color=grey, edgecolor="k", label=name)
    axes.set_xticks(x, means.index)
    axes.set(ylabel="average regret a step", ylim=(0, None))
    figure.legend(loc="outside upper right", ncols=3, frameon=False)
    figure.savefig(out / "08_a_rival_of_your_own.png", dpi=120)
    return float(means["fading window"].min())


if __name__ == "__main__":
    main()
