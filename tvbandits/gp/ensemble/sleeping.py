"""Models that next to nothing speaks for are not asked: they sleep, and catch up every few steps.

A sleeping model keeps its state as it was, and the readings since are kept beside it. When the turn of
its group comes, it takes them in, step by step, and is judged by each of them like any other model;
then those wake that carry weight, and others of their group go to sleep. What is believed misses a
sleeping model for no more than `TURN` steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tvbandits.core.arrays import Array, Index
from tvbandits.gp.ensemble.evidence import FORGETTING, evidence_of, squares_of_differences
from tvbandits.gp.ensemble.filters import Filters

AWAKE = 1e-3
"""A member sleeps below this share of the largest weight."""

TURN = 16
"""A sleeping member catches up after so many steps."""

STARTLING = 4.0
"""A step with a larger mean squared standardised innovation wakes all who sleep."""


class Missed(NamedTuple):
    """One step of readings, and how it judges a model.

    Attributes
    ----------
    time : float
    rows : integer array of shape (n,)
    values : array of shape (n, K)
        Transformed rewards.
    noise : array of shape (n,)
    log_slopes : array of shape (K,)
        What the densities gain by being in the unit of reward.
    error_variance : array of shape (K,)
        Of readings of differences between places.
    """

    time: float
    rows: Index
    values: Array
    noise: Array
    log_slopes: Array
    error_variance: Array


@dataclass(frozen=True)
class Sleeper:
    """Models of one group at the time when they knew everything, and their scores (M, K) then."""

    filters: Filters
    score: Array
    time: float

    def caught_up(self, missed: Sequence[Missed], step: float) -> Sleeper:
        """Once they know all steps since, of which there may be none."""
        filters, score, time = self.filters, self.score, self.time
        for each in missed:
            if each.time <= time:
                continue
            filters = filters.moved((each.time - time) / step)
            expected = np.matmul(filters.layout.rows(each.rows), filters.mean)
            squares = squares_of_differences(each.values - expected)
            filters, seen = filters.observed(each.rows, each.values, each.noise)
            density = seen.log_density + each.log_slopes
            score = FORGETTING * score + evidence_of(density, squares, each.error_variance)
            time = each.time
        return Sleeper(filters, score, time)

    def carries(self, least: float) -> NDArray[np.bool_]:
        """Which of them have a score of at least so much."""
        return np.asarray(self.score.max(axis=1) >= least)

    def take(self, members: NDArray[np.bool_]) -> Sleeper:
        """Some of them."""
        return Sleeper(self.filters.take(members), self.score[members], self.time)

    def joined(self, other: Sleeper) -> Sleeper:
        """With others of the same group and time."""
        score = np.concatenate([self.score, other.score])
        return Sleeper(self.filters.joined(other.filters), score, self.time)


@dataclass(frozen=True)
class Sleep:
    """Who sleeps, at most one `Sleeper` a group, and what some of them have missed."""

    sleepers: tuple[Sleeper, ...] = ()
    missed: tuple[Missed, ...] = ()

    def turned(
        self, awake: Sequence[Filters], score: Array, over: Missed, due: int | None, step: float
    ) -> tuple[tuple[Filters, ...], Array, Sleep]:
        """Who is awake and who sleeps after a step.

        Parameters
        ----------
        awake : sequence of Filters
            At the end of the step.
        score : array of shape (members awake, K)
        over : Missed
            The step.
        due : int, or None
            The group whose turn it is to catch up; None: all.
        step : float
            Time that a step takes.
        """
        missed = (*self.missed, over) if self.sleepers else ()
        parts = np.split(score, np.cumsum([len(each) for each in awake])[:-1])
        pairs = zip(awake, parts, strict=True)
        up = {each.group: Sleeper(each, part, over.time) for each, part in pairs}
        down = {each.filters.group: each for each in self.sleepers}
        turns = sorted((up.keys() | down.keys()) & ({due} if due is not None else up.keys() | down))
        best = float(score.max())
        for group in turns:
            if group in down:
                down[group] = down[group].caught_up(missed, step)
                best = max(best, float(down[group].score.max()))
        for group in turns:
            _part(group, up, down, best + math.log(AWAKE))
        sleepers = tuple(down[group] for group in sorted(down))
        known = min((each.time for each in sleepers), default=math.inf)
        missed = tuple(each for each in missed if each.time > known)
        roused = [up[group] for group in sorted(up)]
        scores = np.concatenate([each.score for each in roused])
        return tuple(each.filters for each in roused), scores, Sleep(sleepers, missed)


def _part(group: int, up: dict[int, Sleeper], down: dict[int, Sleeper], least: float) -> None:
    """Put the models of a group where they belong by their scores."""
    here = [side[group] for side in (up, down) if group in side]
    stays = group not in up or up[group].carries(least).all()
    if stays and (group not in down or not down[group].carries(least).any()):
        return
    everyone = here[0] if len(here) == 1 else here[0].joined(here[1])
    wakes = everyone.carries(least)
    for side, mask in ((up, wakes), (down, ~wakes)):
        side.pop(group, None)
        if mask.any():
            side[group] = everyone.take(mask)


def thinned(
    filters: Sequence[Filters], score: Array, capacity: int
) -> tuple[tuple[Filters, ...], Array]:
    """Without the lighter half of the models, if their covariances hold more than so many numbers."""
    numbers = np.concatenate([np.full(len(each), each.layout.size**2) for each in filters])
    if numbers.sum() <= capacity:
        return tuple(filters), score
    order = np.argsort(-score.max(axis=1), kind="stable")
    fits = np.cumsum(numbers[order]) <= capacity
    kept = np.zeros(len(order), dtype=bool)
    kept[order[: max((len(order) + 1) // 2, int(fits.sum()), 1)]] = True
    parts = np.split(kept, np.cumsum([len(each) for each in filters])[:-1])
    pairs = [(each, part) for each, part in zip(filters, parts, strict=True) if part.any()]
    return tuple(each.take(part) for each, part in pairs), score[kept]
