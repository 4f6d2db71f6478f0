"""Comparing fairly: at the theorem's width, and at a constant one.

A width chosen for one policy can make any other look bad, so this comparison shows what the width does.
A policy that asks an expert knows more than one that does not: the first is no rival of the others.
"""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from tvbandits import compare
from tvbandits.datasets import DriftingBump

HERE = Path(__file__).resolve().parent
POLICIES = ["sw-gp-ucb", "w-gp-ucb", "ui-gp-ucb", "sparq-gp-ucb"]
CASES = {"theory": {"confidence": "theory"}, "width 2": {"confidence": 2.0}}
HATCHES = ("", "//")


def main(out: Path = HERE) -> float:
    problem = DriftingBump(candidates=201, horizon=150)
    regret = pd.DataFrame(
        {
            name: pd.DataFrame(compare(problem, POLICIES, seeds=3, **case))
            .groupby("policy")["regret"]
            .mean()
            for name, case in CASES.items()
        }
    ).loc[POLICIES]
    print(regret.round(3).to_string())
    asked = regret.loc["sparq-gp-ucb"]
    others = regret.drop("sparq-gp-ucb").min()
    for name in CASES:
        print(f"{name}: sparq-gp-ucb {asked[name]:.3f}, best of the others {others[name]:.3f}")

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for i, (name, hatch) in enumerate(zip(CASES, HATCHES, strict=True)):
        places = [row + 0.4 * (i - 0.5) for row in range(len(POLICIES))]
        shade = str(0.35 + 0.3 * i)
        axes.bar(
            places, regret[name], 0.38, label=name, color=shade, hatch=hatch, edgecolor="white"
        )
    axes.set_xticks(range(len(POLICIES)), POLICIES)
    axes.set(ylabel=f"average regret, {problem.horizon} steps, 3 seeds")
    axes.legend(frameon=False)
    figure.savefig(out / "04_fair_comparison.png", dpi=120)
    return float(asked["width 2"])


if __name__ == "__main__":
    main()
