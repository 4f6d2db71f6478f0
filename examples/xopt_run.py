"""An Xopt run on a machine that drifts: the best setting wanders, as in Xopt's time-dependent example.

Xopt evaluates the points that a bandit of this package chooses. It needs `pip install '.[xopt]'`, which
installs PyTorch, too: `make integrations` sets up an environment with both and runs this file.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from xopt import VOCS, Evaluator, Xopt

from tvbandits.integrations.xopt import TVGenerator

HERE = Path(__file__).resolve().parent
STEP = 0.1
STEPS = 120
elapsed = [0.0]


def read_clock():
    """Return the time in seconds; for a real machine, use `time.time`."""
    return elapsed[0]


def best_setting(t):
    return 0.25 * np.sin(0.6 * t) + 0.001 * t


def machine(inputs):
    """Return a reading of the machine and its time, which is `STEP` seconds after the decision."""
    elapsed[0] += STEP
    return {"y": (inputs["x"] - best_setting(read_clock())) ** 2, "time": read_clock()}


def main(folder: Path = HERE) -> float:
    elapsed[0] = 0.0
    vocs = VOCS(variables={"x": [-1.0, 1.0]}, objectives={"y": "MINIMIZE"})
    generator = TVGenerator(vocs=vocs, clock=read_clock, added_time=STEP)
    run = Xopt(generator=generator, evaluator=Evaluator(function=machine))
    run.random_evaluate(2, seed=0)
    for _ in range(STEPS):
        run.step()
    regret = run.data["y"].iloc[-60:].mean()
    print(f"average regret of the last 60 readings: {regret:.4f}")

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(run.data["time"], best_setting(run.data["time"]), "k", label="best setting")
    axes.plot(run.data["time"], run.data["x"], "o", color="0.4", ms=4, mfc="none", label="played")
    axes.set(xlabel="seconds", ylabel="setting")
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    figure.savefig(folder / "xopt_run.png", dpi=120)
    return float(regret)


if __name__ == "__main__":
    main()
