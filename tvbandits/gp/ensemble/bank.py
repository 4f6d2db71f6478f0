"""A bank of space-time models instead of one fit: what is believed is what they say together.

Every model is a Kalman filter, so that a step costs the same however long history is; no model is ever
fitted again. Their weights follow from how well they have predicted lately: half from the density of
what was observed, half from the squared errors of *differences* between places seen at one time, since
a decision depends on which place is best and not on the level that all share. The gain over the density
alone was within noise on the networks it was tried on. Members of next to no weight sleep (`sleeping`).

Rewards may be skewed: each member stands under several transforms, which the densities weigh. Origin and
unit of a transform, and the first guess of the scale, follow from the first steps, which are replayed.

Prior art: dynamic model averaging [Raf], ensembles of Gaussian processes on random features [IE], BONE
[BN]; that a Kalman filter is an exact Gaussian process in space and time is due to [Tod]
(`docs/references.md`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from tvbandits.core.arrays import Array, Index
from tvbandits.gp.ensemble.evidence import (
    FORGETTING,
    NEGLIGIBLE,
    EvidenceStep,
    checked,
    difference_errors,
    evidence_of,
    surprises,
)
from tvbandits.gp.ensemble.filters import Filters, filters_of
from tvbandits.gp.ensemble.settings import SMALL_NETWORK, ModelSpec, elapsed, in_steps, settings_for
from tvbandits.gp.ensemble.sleeping import STARTLING, TURN, Missed, Sleep, thinned
from tvbandits.gp.ensemble.views import Forecast, Heard, Mixture, mixtures_of
from tvbandits.gp.fitting.powers import Transform
from tvbandits.gp.posteriors.lookahead import JointPosterior

POWERS = (1.0, 0.5, 0.0)
"""Of the transforms that a network's rewards may need, for a longer upper tail; the first says what the
sensor's noise is. Powers of 3/2 and 2 did harm on ozone."""

UNIT_LEARNED_AT = (4, 16)
"""After so many steps a bank begins again, in the unit that the readings suggest."""

GUESS_OF_A_FUNCTION = 30.0
"""The unit of a smooth function counts for so many innovations: who plays near a peak alone sees little
of how far the function varies, and would soon take all of it for as flat as the peak."""

CAPACITY = 300_000
"""Numbers in the covariances of all members, once a bank has been thinned."""

THINNED_AT = (16, 32, 64, 128)
"""After so many steps the lighter half of a bank above its capacity goes."""

WATCHED = 0.05
"""Weight of the latest step in the mean squared standardised innovation."""


@dataclass(frozen=True)
class FilterEnsemble:
    """Weighted Kalman filters on fixed points. `FilterEnsemble.of` makes it; changes make a new one.

    Attributes
    ----------
    points : array of shape (A, d)
    settings : tuple of Setting
        As given; `members` are those that are awake.
    noise_variance : float
        Of a reading that comes without its own: the sensor's, a lower end of what is learned.
    step : float
        Time that the settings count in: by default that between the first two times observed.
    capacity : int
        Above so many numbers in all covariances, the lighter half of the members goes.
    filters : tuple of Filters
    origin : float
        Values are kept relative to it, against cancellation.
    time : float
        Of the latest observation; NaN before the first.
    steps : int
        Times observed before the present one.
    surprise : float
        Mean squared standardised innovation; 1 for a model that knows what it does not know.
    powers : tuple of float
        Of the transforms that rewards may need.
    transforms : tuple of Transform
        The same, in the unit that is known so far.
    unit : float
        Of transforms: the deviation of the first readings.
    guess : float
        How many innovations the first guess of the scale is worth.
    seen : tuple of 2 float
        Lowest and highest reading, less the origin.
    """

    points: Array
    settings: tuple[ModelSpec, ...]
    noise_variance: float
    step: float = float("nan")
    capacity: int = CAPACITY
    filters: tuple[Filters, ...] = ()
    origin: float = 0.0
    time: float = float("nan")
    steps: int = 0
    surprise: float = 1.0
    powers: tuple[float, ...] = (1.0,)
    transforms: tuple[Transform, ...] = ()
    unit: float = 1.0
    guess: float = 1.0
    seen: tuple[float, float] = (0.0, 0.0)
    _score: Array = field(default_factory=lambda: np.zeros((0, 1)))
    _error_variance: Array = field(default_factory=lambda: np.zeros(1))
    _present: EvidenceStep = field(default_factory=lambda: EvidenceStep(()))
    _early: tuple[tuple[Index, Array, Array, float], ...] = ()
    _learned_at: int = 0
    _sleep: Sleep = field(default_factory=Sleep)

    def __getstate__(self) -> dict[str, Any]:
        """All but what can be computed again."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def of(
        cls,
        points: Array,
        noise_variance: float,
        settings: Sequence[ModelSpec] | None = None,
        *,
        step: float | None = None,
        capacity: int = CAPACITY,
        powers: Sequence[float] | None = None,
        season: float | None = None,
    ) -> FilterEnsemble:
        """Before any observation.

        Parameters
        ----------
        points : array of shape (A, d)
        noise_variance : float
        settings : sequence of Setting, optional
            None: `settings_for(points)`.
        step : float, optional
            Usual time between two decisions.
        capacity : int
            Numbers in the covariances of all members, once thinned: what a step costs.
        powers : sequence of float, optional
            Of the transforms that rewards may need (see `Transform`), tried side by side. None: `POWERS`
            for a network whose models are not given, else rewards are taken as they are.
        season : float, optional
            Time after which a part of the reward comes again, for `settings_for`.
        """
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 2 or len(points) == 0:
            raise ValueError(f"points must have shape (A, d), A at least 1, got {points.shape}")
        given = {"noise_variance": noise_variance, "step": step, "season": season}
        for name, value in given.items():
            if value is not None and not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive and finite, got {value}")
        chosen = settings_for(points, season) if settings is None else tuple(settings)
        if not chosen:
            raise ValueError("an ensemble needs at least one setting, got none")
        network = settings is None and len(points) <= SMALL_NETWORK
        tried = (POWERS if network else (1.0,)) if powers is None else tuple(powers)
        guess = 1.0 if network or settings is not None else GUESS_OF_A_FUNCTION
        unit = float("nan") if step is None else step
        return cls(points, chosen, float(noise_variance), unit, capacity, powers=tried, guess=guess)

    @property
    def members(self) -> tuple[ModelSpec, ...]:
        """The models that are awake, in the order of `weights`."""
        return tuple(each for filters in self.filters for each in filters.settings)

    @property
    def weights(self) -> Array:
        """Weights of the members, of sum 1."""
        return np.asarray(self._weights.sum(axis=1))

    @property
    def scales(self) -> Array:
        """Squared scales of the members, in units of reward at the origin, where slopes are 1."""
        variance = np.concatenate([each.variance for each in self.filters])
        weights = self._weights
        total = weights.sum(axis=1)
        mean = (weights * variance).sum(axis=1) / np.where(total > 0, total, 1.0)
        return np.asarray(np.where(total > 0, mean, variance[:, 0]))

    @cached_property
    def _weights(self) -> Array:
        """Of the members (rows) under each of the transforms, of sum 1."""
        score = FORGETTING * self._score + self._evidence[0]
        weights = np.exp(score - score.max())
        return np.asarray(weights / weights.sum())

    def _transformed(self, y: Array) -> Array:
        """Rewards less the origin (n,) under each transform, (n, K)."""
        return np.stack([each(y) for each in self.transforms], axis=1)

    def _log_slopes(self, y: Array) -> Array:
        """What the densities of readings gain by being in the unit of reward, (K,)."""
        return np.array([each.log_slope(y).sum() for each in self.transforms])

    @property
    def widening(self) -> float:
        """Factor on deviations: above 1 where innovations have been larger than they should be."""
        return float(np.sqrt(max(self.surprise, 1.0)))

    def observe(
        self, rows: Sequence[int] | Index, values: Array, variance: Array | float | None, t: float
    ) -> FilterEnsemble:
        """With readings of some points at a time, not before the latest; NaN is no reading.

        Parameters
        ----------
        rows : sequence of n int
            Numbers of the points.
        values : array of shape (n,)
        variance : array of shape (n,) or float, optional
            Noise variances of the readings. None: `noise_variance`.
        t : float
        """
        if not np.isfinite(t) or t < self.time:
            raise ValueError(f"a filter takes times from t = {self.time} on, got t = {t}")
        given = self.noise_variance if variance is None else variance
        index, y, noise = checked(rows, values, given, len(self.points))
        if len(index) == 0:
            return self
        first = max(float(y.var()), 4.0 * float(noise.mean()))
        bank = (self if self.filters else self._in_unit(float(y.mean()), first))._at(t)
        weights, filters, seen, z = bank._weights, [], [], bank._transformed(y - bank.origin)
        for each in bank.filters:
            after, innovations = each.observed(index, z, noise)
            filters.append(after)
            seen.append(innovations)
        present = bank._present
        grown = replace(
            present,
            rows=(*present.rows, *index.tolist()),
            values=(*present.values, *(y - bank.origin).tolist()),
            noise=(*present.noise, *noise.tolist()),
            log_density=present.log_density
            + np.concatenate([s.log_density for s in seen])
            + bank._log_slopes(y - bank.origin),
            surprises=(*present.surprises, *surprises(weights, seen)),
        )
        low, high = float((y - bank.origin).min()), float((y - bank.origin).max())
        return replace(
            bank,
            filters=tuple(filters),
            seen=(min(low, bank.seen[0]), max(high, bank.seen[1])),
            _present=grown,
            _early=(*bank._early, (index, y, noise, t)) if bank._is_early() else (),
        )

    def predict(self, t: float) -> Forecast:
        """Of the reward at all points at a time, not before the latest observation."""
        if not self.filters:
            raise ValueError(
                "a bank that has observed nothing cannot predict: observe() comes first"
            )
        return self._heard(t, present=False).forecast()

    def beliefs(self, t: float, beta: float = 2.0) -> JointPosterior:
        """About the decision at the time t, and how readings now would change them.

        The noise of a reading is the sensor's and the white part: neither tells about the next step.
        """
        if not self.filters:
            raise ValueError(
                "a bank that has observed nothing has no beliefs: observe() comes first"
            )
        return self._heard(t, present=True).beliefs(self.noise_variance, beta)

    def _heard(self, t: float, present: bool) -> Heard:
        mixtures = self._mixtures(t, present)
        return Heard.of(mixtures, self.transforms, self.seen, self.origin, self.widening)

    def _in_unit(self, origin: float, variance: float) -> FilterEnsemble:
        unit = math.sqrt(variance)
        transforms = tuple(Transform(power, unit) for power in self.powers)
        settings = in_steps(self.settings, self.step) if self.step > 0 else self.settings
        filters = filters_of(settings, self.points, variance, len(transforms), self.guess)
        score = np.zeros((len(self.settings), len(transforms)))
        bank = replace(self, filters=filters, origin=origin, unit=unit, transforms=transforms)
        bank = replace(bank, seen=(0.0, 0.0), _score=score, _error_variance=score.sum(axis=0))
        return replace(bank, _present=bank._fresh())

    def _is_early(self) -> bool:
        learns = len(self.powers) > 1 or self.guess > 1
        return learns and self.steps < UNIT_LEARNED_AT[-1]

    def _anew(self) -> FilterEnsemble:
        """Begun again in a unit and around an origin that all readings so far suggest."""
        y = np.concatenate([values for _, values, _, _ in self._early])
        noise = float(np.mean(np.concatenate([noise for _, _, noise, _ in self._early])))
        empty = replace(
            self,
            time=float("nan"),
            steps=0,
            surprise=1.0,
            _early=(),
            _present=EvidenceStep(()),
            _learned_at=self.steps + 1,
        )
        bank = empty._in_unit(float(np.median(y)), max(float(y.var()), 4.0 * noise))
        for index, values, variances, t in self._early:
            bank = bank.observe(index, values, variances, t)
        return bank

    def _fresh(self) -> EvidenceStep:
        return EvidenceStep(tuple(filters.mean for filters in self.filters))

    def _at(self, t: float) -> FilterEnsemble:
        """Moved to a time; what was observed before becomes evidence."""
        if t == self.time:
            return self
        if np.isnan(self.time):
            return replace(self, time=t)
        known_later = self._is_early() and self._learned_at <= self.steps
        if known_later and self.steps + 1 in UNIT_LEARNED_AT:
            return self._anew()._at(t)
        step = self.step if np.isfinite(self.step) else t - self.time
        evidence, error_variance = self._evidence
        surprise = self.surprise
        if self._present.surprises:
            surprise += WATCHED * (float(np.mean(self._present.surprises)) - surprise)
        bank = replace(
            self,
            step=step,
            time=t,
            steps=self.steps + 1,
            surprise=surprise,
            _score=FORGETTING * self._score + evidence,
            _error_variance=error_variance,
            _present=EvidenceStep(()),
        )
        bank = bank._thinned()._rested(self, error_variance)
        h = (t - self.time) / step
        if not np.isfinite(self.step):
            bank = replace(bank, filters=tuple(each.counted_in(step) for each in bank.filters))
        bank = replace(bank, filters=tuple(each.moved(h) for each in bank.filters))
        return replace(bank, _present=bank._fresh())

    @cached_property
    def _evidence(self) -> tuple[Array, Array]:
        """What the present step says about each member, and the variance of errors that it shows."""
        if not self._present.rows:
            return np.zeros_like(self._score), self._error_variance
        z = self._transformed(np.array(self._present.values))
        latest, squares = difference_errors(self._present, self.filters, z, self._score)
        share = max(0.02, 1.0 / (self.steps + 1))
        variance = self._error_variance + share * (latest - self._error_variance)
        density = np.broadcast_to(self._present.log_density, squares.shape)
        evidence = evidence_of(density, squares, variance + self.noise_variance)
        return evidence, np.asarray(variance)

    def _thinned(self) -> FilterEnsemble:
        """Without its lighter half, if it is too large and the time has come."""
        if self.steps not in THINNED_AT:
            return self
        filters, score = thinned(self.filters, self._score, self.capacity)
        return replace(self, filters=filters, _score=score)

    def _rested(self, before: FilterEnsemble, error_variance: Array) -> FilterEnsemble:
        """Who sleeps from now on; `before` is the bank at the end of the step that is over."""
        if self.steps < UNIT_LEARNED_AT[-1]:
            return self
        over, y = before._present, np.array(before._present.values)
        z, slopes = before._transformed(y), before._log_slopes(y)
        variance = error_variance + self.noise_variance
        told = Missed(before.time, np.array(over.rows), z, np.array(over.noise), slopes, variance)
        due = None if np.mean(over.surprises) > STARTLING else self.steps % TURN
        filters, score, sleep = self._sleep.turned(self.filters, self._score, told, due, self.step)
        return replace(self, filters=filters, _score=score, _sleep=sleep)

    def _mixtures(self, t: float, present: bool) -> list[Mixture]:
        """The members that count, by their features and transforms, at the time t."""
        if t < self.time:
            raise ValueError(f"a filter speaks about times from t = {self.time} on, got t = {t}")
        h = elapsed(self.time, t, self.step)
        weights = self._weights
        weights = np.where(weights >= NEGLIGIBLE * weights.max(), weights, 0.0)
        weights /= weights.sum()
        ends = np.cumsum([len(each) for each in self.filters])
        parts = np.split(weights, ends[:-1])
        return [
            mixture
            for each, part in zip(self.filters, parts, strict=True)
            if part.any()
            for mixture in mixtures_of(each, part, h, present)
        ]
