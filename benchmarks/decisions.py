"""What to play after the answers, and what to ask about: rules side by side on a bank of models.

    python -m benchmarks.decisions VALUES SITES --noise-variance V [--answers B] [--steps T] [--seeds N]
        [--rules NAME ...]

VALUES and SITES are tables as `tvbandits.datasets.sensor_field` reads them. A rule of `DECISIONS` plays
with the plan `next`, one of `QUESTIONS` with the best mean. Regret is that of the first T steps.

Predictive sampling (Liu, Van Roy & Xu 2023) draws what all places will give on average at the next
decision if everything after it were known: E[R_t | readings so far, R_{t+1}, R_{t+2}, ...]. What is
forgotten at once is not drawn, so that it is not explored.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.bank import Ask, Decide, ask_next, best_mean, play
from tvbandits.core.arrays import Array, Index
from tvbandits.datasets import TableProblem, sensor_field
from tvbandits.gp.bank.bank import Bank
from tvbandits.gp.bank.filters import Filters
from tvbandits.gp.lookahead import Beliefs
from tvbandits.queries.next_decision import COMPARED, DISCOVER_EVERY, LOOKED_AT, PROMISE
from tvbandits.queries.plans import PlausibleMaximisers, QueryPlan, RandomPoints
from tvbandits.queries.pool import Pool

LATER = 32
"""So many steps after the decision count as its future."""

AHEAD = (1, 2, 4, 8)
"""Decisions, in steps from now, that a lifetime's gain adds up, each by 1 / sqrt(steps)."""


def told_by_later(later: Filters, noise: float, steps: int = LATER) -> Array:
    """What rewards of the steps after one tell about the state of a single model at it.

    As a precision (S, S), in units of the squared scale; all points are read, with noise of that
    variance. From the last step backwards: a reading adds H' H / noise to what is told about a state,
    and a step back with the transition F and fresh covariance Q makes F' (told^-1 + Q)^-1 F of it.
    """
    layout = later.layout
    S = layout.size
    H = layout.rows(np.arange(len(layout.basis)))
    F = layout.moved(np.eye(S)[None], 1.0)[0]
    fresh = layout.prior[0] - F @ layout.prior[0] @ F.T
    reading, told = H.T @ H / noise, np.zeros((S, S))
    for _ in range(steps):
        told = told + reading
        told = F.T @ np.linalg.solve(np.eye(S) + told @ fresh, told) @ F
        told = (told + told.T) / 2
    return np.asarray(told)


def predictable(covariance: Array, told: Array) -> Array:
    """How far (S, S) later rewards would move the expectation of a state: P - (P^-1 + told)^-1."""
    moved = covariance @ told @ np.linalg.inv(np.eye(len(told)) + covariance @ told) @ covariance
    return np.asarray((moved + moved.T) / 2)


def drawn(covariance: Array, rng: np.random.Generator) -> Array:
    """A normal vector of mean 0."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(
        vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(len(values)))
    )


class Sampling:
    """Plays the best place of a draw: of one model by its weight, then of what it says.

    Thompson sampling draws the reward without its white part, predictive sampling what is predictable
    of it. What is left to chance counts in the expectation under the model's transform.
    """

    def __init__(self, predictive: bool) -> None:
        self.predictive = predictive
        self._told: dict[object, Array] = {}

    def __call__(self, bank: Bank, t: float, rng: np.random.Generator) -> int:
        """The place to play at a time."""
        weights = bank._weights
        at = int(rng.choice(weights.size, p=weights.ravel()))
        member, power = divmod(at, weights.shape[1])
        for filters in bank.filters:
            if member < len(filters):
                break
            member -= len(filters)
        one = filters.take(np.array([member])).moved(t - bank.time)
        squared = float(one.variance[0, power])
        sampled = one.covariance[0]
        if self.predictive:
            sampled = predictable(sampled, self._told_by_later(one, bank.noise_variance))
        H = one.layout.rows(np.arange(len(bank.points)))
        spread = squared * (H @ sampled @ H.T)
        left = squared * np.einsum("ij,jk,ik->i", H, one.covariance[0] - sampled, H)
        left = np.maximum(left, 0.0) + squared * (float(one.white[0]) + one.layout.left[0])
        draw = H @ one.mean[0, :, power] + bank.widening * drawn(spread, rng)
        reach = max(bank.seen[1] - bank.seen[0], bank.unit)
        within = bank.seen[0] - reach, bank.seen[1] + reach
        return int(bank.transforms[power].moments(draw, left, within)[0].argmax())

    def _told_by_later(self, one: Filters, noise_variance: float) -> Array:
        """As `told_by_later`, with the noise to a tenth: the scale changes little from step to step."""
        noise = float(one.white[0]) + noise_variance / float(one.variance[0, 0])
        tenths = round(np.log(noise) / np.log(1.1))
        key = one.group, one.settings, tenths
        if key not in self._told:
            self._told[key] = told_by_later(one, 1.1**tenths)
        return self._told[key]


def wide(width: float) -> Decide:
    """The largest mean and so many deviations of what observations could remove."""

    def decide(bank: Bank, t: float, rng: np.random.Generator) -> int:  # noqa: ARG001 - one face
        forecast = bank.predict(t)
        return int((forecast.mean + width * forecast.learnable).argmax())

    return decide


def planned(make: Callable[[int], QueryPlan]) -> Ask:
    """A plan with the bank's beliefs and all of its points in the pool."""

    def ask(bank: Bank, t: float, answers: int, asked: int, rng: np.random.Generator) -> Index:
        pool = Pool(
            bank.points, bank.steps, lambda: np.eye(len(bank.points)), bank.beliefs(t), asked
        )
        return make(answers).choose(pool, rng).rows

    return ask


def lifetime(discover_every: int | None) -> Ask:
    """As `next`, with the gains of several decisions added up.

    What the field forgets, an answer does not say about a later decision: its gain there is smaller.
    """

    def ask(bank: Bank, t: float, answers: int, asked: int, rng: np.random.Generator) -> Index:  # noqa: ARG001
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


def _worth_most(ahead: list[Beliefs], asked: list[int]) -> int:
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
    "thompson": lambda: Sampling(predictive=False),
    "predictive": lambda: Sampling(predictive=True),
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("values")
    parser.add_argument("sites")
    parser.add_argument("--noise-variance", type=float, required=True)
    parser.add_argument("--answers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=3)
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
