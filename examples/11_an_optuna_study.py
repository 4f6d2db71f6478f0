"""An Optuna study with drift: the best setting of a machine wanders from hour to hour.

Two samplers play the same study of 120 trials, one trial an hour: Optuna's own TPE, which weights all
trials equally, and `TVSampler`, which uses the time of each trial. It needs
`pip install '.[optuna]'`.
"""

from pathlib import Path

import numpy as np
import optuna
from matplotlib.figure import Figure

from tvbandits.integrations.optuna import TVSampler

HERE = Path(__file__).resolve().parent
HOURS = 120


def best_setting(hour):
    return 0.5 + 0.35 * np.sin(2 * np.pi * hour / 80)


def output(setting, gear, hour):
    """Return the noise-free output of the machine, which is at most 1, in third gear."""
    return np.exp(-(((setting - best_setting(hour)) / 0.15) ** 2)) - 0.1 * abs(gear - 3)


def run_study(sampler):
    """Return the settings that the sampler tried, and the regret of each."""
    rng, regret = np.random.default_rng(1), []

    def objective(trial):
        hour = trial.number
        trial.set_user_attr("hour", hour)
        setting, gear = trial.suggest_float("setting", 0, 1), trial.suggest_int("gear", 1, 5)
        value = output(setting, gear, hour)
        regret.append(1.0 - value)
        return value + 0.05 * rng.standard_normal()

    study = optuna.create_study(sampler=sampler, direction="maximize")
    study.optimize(objective, n_trials=HOURS)
    return [trial.params["setting"] for trial in study.trials], regret


def main(folder: Path = HERE) -> float:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    samplers = {"TPE": optuna.samplers.TPESampler(seed=0), "TVSampler": TVSampler(time="hour")}
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    hours = np.arange(HOURS)
    axes.plot(hours, best_setting(hours), "k", label="best setting")
    for (name, sampler), mark in zip(samplers.items(), ("x", "o"), strict=True):
        settings, regret = run_study(sampler)
        print(f"{name}: average regret {np.mean(regret):.3f}")
        axes.plot(settings, mark, color="0.3", ms=4, mfc="none", label=name)
    axes.set(xlabel="hour", ylabel="setting that was tried", ylim=(-0.05, 1.05))
    figure.legend(loc="outside upper right", ncols=3, frameon=False)
    figure.savefig(folder / "11_an_optuna_study.png", dpi=120)
    return float(np.mean(regret))


if __name__ == "__main__":
    main()
