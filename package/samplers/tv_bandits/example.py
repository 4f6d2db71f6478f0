"""A machine whose best setting wanders, tuned by the sampler as OptunaHub loads it."""

import math

import optuna
import optunahub

TVSampler = optunahub.load_module("samplers/tv_bandits").TVSampler


def objective(trial: optuna.Trial) -> float:
    """Return the loss of a setting; the best one swings between 0.3 and 0.7."""
    best = 0.5 + 0.2 * math.sin(trial.number / 10)
    return (trial.suggest_float("setting", 0, 1) - best) ** 2


if __name__ == "__main__":
    study = optuna.create_study(sampler=TVSampler(time=lambda trial: trial.number))
    study.optimize(objective, n_trials=40)
    print("the best setting now:", study.sampler.recommend(study))
