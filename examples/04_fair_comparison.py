"""A fair comparison: at the theorem's width and at a constant one, with and without equal information.

A width that suits one policy can make any other look bad, and a policy with an expert has more
information than one without. So this comparison shows the effect of the width, and the effect of the
choice of queries when every policy gets equally many answers.
"""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from tvbandits import compare
from tvbandits.datasets import DriftingBump

HERE = Path(__file__).resolve().parent
POLICIES = ["sw-gp-ucb", "w-gp-ucb", "ui-gp-ucb", "sparq-gp-ucb"]
CASES = {
    "theory": {"beta": "theory"},
    "width 2": {"beta": 2.0},
    "width 2, equal information": {"beta": 2.0, "equal_information": True},
}
HATCHES = ("", "//", "..")


def main(folder: Path = HERE) -> float:
    problem = DriftingBump(candidates=201, horizon=150)
    regret = pd.DataFrame(
        {
            name: compare(problem, POLICIES, seeds=3, **case).groupby("policy")["regret"].mean()
            for name, case in CASES.items()
        }
    ).loc[POLICIES]
    print(regret.round(3).to_string())
    sparq = regret.loc["sparq-gp-ucb"]
    best_other = regret.drop("sparq-gp-ucb").min()
    for name in CASES:
        print(f"{name}: sparq-gp-ucb {sparq[name]:.3f}, best of the others {best_other[name]:.3f}")

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for i, (name, hatch) in enumerate(zip(CASES, HATCHES, strict=True)):
        positions = [row + 0.27 * (i - 1) for row in range(len(POLICIES))]
        grey = str(0.35 + 0.22 * i)
        axes.bar(
            positions, regret[name], 0.25, label=name, color=grey, hatch=hatch, edgecolor="white"
        )
    axes.set_xticks(range(len(POLICIES)), POLICIES)
    axes.set(ylabel=f"average regret, {problem.horizon} steps, 3 seeds")
    axes.legend(frameon=False)
    figure.savefig(folder / "04_fair_comparison.png", dpi=120)
    return float(sparq["width 2"])


if __name__ == "__main__":
    main()
