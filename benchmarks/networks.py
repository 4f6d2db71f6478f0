"""A bank of models on networks of sensors: regret, coverage and time, beside players without a model.

    python -m benchmarks.networks VALUES SITES --noise-variance V [--answers B] [--seeds N]

VALUES and SITES are tables as `tvbandits.datasets.sensor_field` reads them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tvbandits.core.arrays import Array, Index
from tvbandits.datasets import TableProblem, sensor_field
from tvbandits.gp.ensemble.ensemble import CAPACITY, FilterEnsemble
from tvbandits.gp.ensemble.rule import started
from tvbandits.queries.plans import questions


class Played(NamedTuple):
    """Regret of each step, whether 95% intervals one step ahead held, and seconds of each step."""

    regret: Array
    covered: Array
    seconds: Array


Ask = Callable[[FilterEnsemble, float, int, int, np.random.Generator], Index]
"""Places to ask about, of a bank, for a decision at a time: how many, and how many were asked before."""

Decide = Callable[[FilterEnsemble, float, np.random.Generator], int]
"""The place to play at a time, of a bank."""


def ask_next(
    bank: FilterEnsemble,
    t: float,
    answers: int,
    asked: int,
    rng: np.random.Generator,  # noqa: ARG001 - one face
) -> Index:
    """The plan `next`."""
    return questions(bank.beliefs(t), answers, asked)


def best_mean(bank: FilterEnsemble, t: float, rng: np.random.Generator) -> int:  # noqa: ARG001 - one face
    """Greedy on the mean over the bank."""
    return int(bank.predict(t).mean.argmax())


def play(
    problem: TableProblem,
    answers: int,
    seed: int,
    ask: Ask = ask_next,
    decide: Decide = best_mean,
) -> Played:
    """Play what is decided; after each reward ask about so many places, or read all of them."""
    rng, chance = np.random.default_rng([seed, 7]), np.random.default_rng([seed, 8])
    noise = np.sqrt(problem.noise_variance)
    values, sites = problem.values, len(problem.points)
    bank = started(problem.points, problem.noise_variance, "both", CAPACITY, None)
    asked, row = 0, int(rng.integers(sites))
    regret, covered, seconds = [], [], []
    for step, truth in enumerate(values):
        regret.append(truth.max() - truth[row])
        begun = time.perf_counter()
        bank = bank.observe([row], truth[[row]] + noise * rng.standard_normal(1), None, step)
        if answers:
            rows = ask(bank, step + 1.0, answers, asked, chance)
            asked += len(rows)
            told = truth[rows] + noise * rng.standard_normal(len(rows))
            bank = bank.observe(rows, told, None, step)
        forecast = bank.predict(step + 1.0)
        row = decide(bank, step + 1.0, chance)
        seconds.append(time.perf_counter() - begun)
        if step + 1 < len(values):
            off = np.abs(values[step + 1] - forecast.mean)
            covered.append((off < 1.96 * forecast.deviation).mean())
    return Played(np.array(regret), np.array(covered), np.array(seconds))


def arguments(description: str | None, seeds: int) -> argparse.ArgumentParser:
    """What a network is, how many answers a step, and how many seeds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("values")
    parser.add_argument("sites")
    parser.add_argument("--noise-variance", type=float, required=True)
    parser.add_argument("--answers", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=seeds)
    return parser


def main() -> None:
    given = arguments(__doc__, seeds=10).parse_args()
    problem = sensor_field(given.values, given.sites, noise_variance=given.noise_variance)
    known = problem.references()
    print(problem)
    print(f"uniform {known.uniform:.3f}, best fixed {known.best_fixed:.3f}")
    print(f"last step's best {known.last_best:.3f}, forecast with all read {known.all_read:.3f}")
    for answers, seeds in ((given.answers, given.seeds), (len(problem.points), 1)):
        runs = [play(problem, answers, seed) for seed in range(seeds)]
        means = np.array([run.regret.mean() for run in runs])
        half = 1.96 * means.std(ddof=1) / np.sqrt(seeds) if seeds > 1 else 0.0
        coverage = np.mean([run.covered.mean() for run in runs])
        slow = 1e3 * np.median(np.concatenate([run.seconds for run in runs]))
        print(
            f"bank, {answers} answers a step: {means.mean():.3f} +- {half:.3f}, "
            f"coverage {coverage:.3f}, {slow:.1f} ms a step"
        )


if __name__ == "__main__":
    main()
