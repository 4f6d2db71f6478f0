"""What to play after the answers, and what to ask about: rules side by side on a bank of models.

    python -m benchmarks.decisions VALUES SITES --noise-variance V [--answers B] [--steps T] [--seeds N]
        [--rules NAME ...]

VALUES and SITES are tables as `tvbandits.datasets.sensor_field` reads them. A rule of `DECISIONS` plays
with the plan `next`, one of `QUESTIONS` with the best mean. Regret is that of the first T steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.bank import Ask, Decide, arguments, ask_next, best_mean, play
from benchmarks.predictive import predictive_width, sampling
from tvbandits.core.arrays import Array, Index
from tvbandits.datasets import TableProblem, sensor_field
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.gp.posteriors.lookahead import JointPosterior
from tvbandits.queries.plans import (
    COMPARED,
    DISCOVER_EVERY,
    LOOKED_AT,
    PROMISE,
    PlausibleMaximisers,
    QueryPlan,
    RandomPoints,
)
from tvbandits.queries.pool import Pool

AHEAD = (1, 2, 4, 8)
"""Decisions, in steps from now, that a lifetime's gain adds up, each by 1 / sqrt(steps)."""


def wide(width: float) -> Decide:
    """The largest mean and so many deviations of what observations could remove."""

    def decide(bank: FilterEnsemble, t: float, rng: np.random.Generator) -> int:  # noqa: ARG001 - one face
        forecast = bank.predict(t)
        return int((forecast.mean + width * forecast.learnable).argmax())

    return decide


def planned(make: Callable[[int], QueryPlan]) -> Ask:
    """A plan with the bank's beliefs and all of its points in the pool."""

    def ask(
        bank: FilterEnsemble,
        t: float,
        answers: int,
        asked: int,
        rng: np.random.Generator,
    ) -> Index:
        pool = Pool(
            bank.points, bank.steps, lambda: np.eye(len(bank.points)), bank.beliefs(t), asked
        )
        return make(answers).choose(pool, rng).rows

    return ask


def lifetime(discover_every: int | None) -> Ask:
    """As `next`, with the gains of several decisions added up.

    What the field forgets, an answer does not say about a later decision: its gain there is smaller.
    """

    def ask(
        bank: FilterEnsemble,
        t: float,
        answers: int,
        asked: int,
        rng: np.random.Generator,  # noqa: ARG001
    ) -> Index:
        ahead = [bank.beliefs(t + h - 1.0) for h in AHEAD]
        rows: list[int] = []
        while len(rows) < min(answers, len(bank.points)):
            if discover_every is not None and (asked + len(rows) + 1) % discover_every == 0:
                deviation = ahead[0].deviation.copy()
                deviation[rows] = -np.inf
                rows.append(int(deviation.argmax()))
            else:
                rows.append(_worth_most(ahead, rows))
            ahead = [each.after(rows[-1]) for each in ahead]
        return np.array(rows, dtype=np.int64)

    return ask


def _worth_most(ahead: list[JointPosterior], asked: list[int]) -> int:
    """The point, not asked about yet, whose answer gains most over several decisions."""
    first = ahead[0]
    ranked = np.argsort(-(first.mean + PROMISE * first.deviation), kind="stable")
    candidates = ranked[~np.isin(ranked, asked)][:LOOKED_AT]
    gains = [each.gains(candidates.tolist(), ranked[:COMPARED]) for each in ahead]
    value = sum(gain / np.sqrt(h) for gain, h in zip(gains, AHEAD, strict=True))
    return int(candidates[np.argmax(value)])


DECISIONS: dict[str, Callable[[], Decide]] = {
    "mean": lambda: best_mean,
    "width-1": lambda: wide(1.0),
    "thompson": lambda: sampling(predictive=False),
    "predictive": lambda: sampling(predictive=True),
    "predictive-width": lambda: predictive_width(1.0),
}
QUESTIONS: dict[str, Ask] = {
    "plausible": planned(PlausibleMaximisers),
    "lifetime": lifetime(DISCOVER_EVERY),
    "lifetime-only": lifetime(None),
    "random": planned(RandomPoints),
}


def regret(problem: TableProblem, rule: str, answers: int, seeds: int) -> Array:
    """Average regret of each seed."""
    ask = QUESTIONS.get(rule, ask_next)
    decide = DECISIONS.get(rule, DECISIONS["mean"])
    runs = (play(problem, answers, seed, ask, decide()) for seed in range(seeds))
    return np.array([run.regret.mean() for run in runs])


def main() -> None:
    parser = arguments(__doc__, seeds=3)
    parser.add_argument("--steps", type=int, default=150)
    every = [*DECISIONS, *QUESTIONS]
    parser.add_argument("--rules", nargs="+", choices=every, default=every, metavar="NAME")
    given = parser.parse_args()
    problem = sensor_field(given.values, given.sites, noise_variance=given.noise_variance)
    problem = replace(problem, values=problem.values[: given.steps])
    print(f"last step's best {problem.references().last_best:.3f}")
    for rule in given.rules:
        found = regret(problem, rule, given.answers, given.seeds)
        print(f"{rule:14} {found.mean():.3f} ({found.min():.3f} to {found.max():.3f})")


if __name__ == "__main__":
    main()
