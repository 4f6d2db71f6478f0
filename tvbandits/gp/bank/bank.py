"""A bank of space-time models instead of one fit: what is believed is what they say together.

Every model is a Kalman filter, so that a step costs the same however long history is; no model is ever
fitted again. Their weights follow from how well they have predicted lately: half from the density of
what was observed, half from the squared errors of *differences* between places seen at one time, since
a decision depends on which place is best and not on the level that all share. The gain over the density
alone was within noise on the networks it was tried on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tvbandits.core.arrays import Array, Index
from tvbandits.gp.bank.filters import Filters, Innovations, Mixture, filters_of
from tvbandits.gp.bank.settings import Setting, settings_for
from tvbandits.gp.lookahead import Beliefs

FORGETTING = 0.99
"""What the weights keep of the evidence at each step."""

NEGLIGIBLE = 1e-2
"""Members below this share of the largest weight are left out of what the bank says, not of the bank."""

CAPACITY = 300_000
"""Numbers in the covariances of all members, once a bank has been thinned."""

THINNED_AT = (16, 32, 64, 128)
"""After so many steps the lighter half of a bank above its capacity goes."""

WATCHED = 0.05
"""Weight of the latest step in the mean squared standardised innovation."""

LARGEST_SURPRISE = 25.0
"""A squared standardised innovation counts for at most this: one outlier is no bad model."""


@dataclass(frozen=True)
class Forecast:
    """What a bank says about all points at one time, in the unit of reward.

    Attributes
    ----------
    mean : array of shape (A,)
    deviation : array of shape (A,)
        Of the reward, with its white part, widened by what innovations have shown.
    learnable : array of shape (A,)
        The part of it that observations could remove: what a width is to be multiplied with.
    """

    mean: Array
    deviation: Array
    learnable: Array


@dataclass(frozen=True)
class _Step:
    """What was observed at the present time, until the next: the evidence of one step."""

    before: tuple[Array, ...]
    rows: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    log_density: Array | float = 0.0
    surprises: tuple[float, ...] = ()


@dataclass(frozen=True)
class Bank:
    """Weighted Kalman filters on fixed points. Made by `Bank.of`; every change makes a new one.

    Attributes
    ----------
    points : array of shape (A, d)
    settings : tuple of Setting
        As given; `members` are those that are left.
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
    """

    points: Array
    settings: tuple[Setting, ...]
    noise_variance: float
    step: float = float("nan")
    capacity: int = CAPACITY
    filters: tuple[Filters, ...] = ()
    origin: float = 0.0
    time: float = float("nan")
    steps: int = 0
    surprise: float = 1.0
    _score: Array = field(default_factory=lambda: np.zeros(0))
    _error_variance: float = 0.0
    _present: _Step = _Step(())

    @classmethod
    def of(
        cls,
        points: Array,
        noise_variance: float,
        settings: Sequence[Setting] | None = None,
        *,
        step: float | None = None,
        capacity: int = CAPACITY,
    ) -> Bank:
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
        """
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 2 or len(points) == 0:
            raise ValueError(f"points must have shape (A, d), A at least 1, got {points.shape}")
        for name, value in (("noise_variance", noise_variance), ("step", step)):
            if value is not None and not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive and finite, got {value}")
        chosen = settings_for(points) if settings is None else tuple(settings)
        if not chosen:
            raise ValueError("a bank needs at least one setting, got none")
        given = float("nan") if step is None else step
        return cls(points, chosen, float(noise_variance), given, capacity)

    @property
    def members(self) -> tuple[Setting, ...]:
        """The models that are left, in the order of `weights`."""
        return tuple(each for filters in self.filters for each in filters.settings)

    @property
    def weights(self) -> Array:
        """Weights of the members, of sum 1."""
        score = FORGETTING * self._score + self._evidence()[0]
        weights = np.exp(score - score.max())
        return np.asarray(weights / weights.sum())

    @property
    def widening(self) -> float:
        """Factor on deviations: above 1 where innovations have been larger than they should be."""
        return float(np.sqrt(max(self.surprise, 1.0)))

    def observe(
        self, rows: Sequence[int] | Index, values: Array, variance: Array | float | None, t: float
    ) -> Bank:
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
        index, y, noise = self._checked(rows, values, variance, t)
        if len(index) == 0:
            return self
        bank = self._started(y, noise) if not self.filters else self
        bank = bank._at(t)
        weights, filters, seen = bank.weights, [], []
        for each in bank.filters:
            after, innovations = each.observed(index, y - bank.origin, noise)
            filters.append(after)
            seen.append(innovations)
        present = bank._present
        grown = replace(
            present,
            rows=(*present.rows, *index.tolist()),
            values=(*present.values, *(y - bank.origin).tolist()),
            log_density=present.log_density + np.concatenate([s.log_density for s in seen]),
            surprises=(*present.surprises, *_surprises(weights, seen)),
        )
        return replace(bank, filters=tuple(filters), _present=grown)

    def predict(self, t: float) -> Forecast:
        """Of the reward at all points at a time, not before the latest observation."""
        if not self.filters:
            raise ValueError(
                "a bank that has observed nothing cannot predict: observe() comes first"
            )
        return self._forecast(self._mixtures(t))

    def _forecast(self, mixtures: Sequence[Mixture]) -> Forecast:
        mean = sum(m.weight * (m.basis @ m.ahead) for m in mixtures)
        variance = sum(
            m.weight * (_quadratic(m.basis, m.spread) + m.left + (m.basis @ m.ahead - mean) ** 2)
            for m in mixtures
        )
        learnable = np.maximum(variance, 0.0)
        white = sum(m.weight * m.white for m in mixtures)
        return Forecast(
            np.asarray(self.origin + mean),
            self.widening * np.sqrt(learnable + white),
            self.widening * np.sqrt(learnable),
        )

    def beliefs(self, t: float, beta: float = 2.0) -> Beliefs:
        """About the decision at the time t, and how readings now would change them.

        The noise of a reading is the sensor's and the white part: neither tells about the next step.
        """
        if not self.filters:
            raise ValueError(
                "a bank that has observed nothing has no beliefs: observe() comes first"
            )
        mixtures = self._mixtures(t)
        forecast = self._forecast(mixtures)
        now = sum(m.weight * (m.basis @ m.now) for m in mixtures)
        mean = forecast.mean - self.origin
        left = sum(m.weight * m.left for m in mixtures)
        white = sum(m.weight * m.white for m in mixtures)

        def reach(rows: Sequence[int]) -> Array:
            r = list(rows)
            out = np.zeros((len(r), len(self.points)))
            for m in mixtures:
                apart = np.outer((m.basis @ m.now - now)[r], m.basis @ m.ahead - mean)
                out += m.weight * (m.basis[r] @ m.across @ m.basis.T + apart)
            return out

        def among(rows: Sequence[int], others: Sequence[int]) -> Array:
            r, s = list(rows), list(others)
            out = np.where(np.equal.outer(r, s), np.asarray(left)[r][:, None], 0.0)
            for m in mixtures:
                away = m.basis @ m.now - now
                out += m.weight * (m.basis[r] @ m.known @ m.basis[s].T + np.outer(away[r], away[s]))
            return out

        noise = float(self.noise_variance + white)
        return Beliefs(forecast.mean, forecast.learnable, beta, noise, reach, among)

    def _checked(
        self, rows: Sequence[int] | Index, values: Array, variance: Array | float | None, t: float
    ) -> tuple[Index, Array, Array]:
        """Rows, values and noise variances of what was read."""
        index = np.asarray(rows, dtype=np.int64).reshape(-1)
        y = np.asarray(values, dtype=np.float64).reshape(-1)
        given = self.noise_variance if variance is None else variance
        noise = np.broadcast_to(np.asarray(given, dtype=np.float64), y.shape)
        if index.shape != y.shape:
            raise ValueError(f"expected a value for each of {len(index)} rows, got {len(y)}")
        if len(index) and (index.min() < 0 or index.max() >= len(self.points)):
            raise ValueError(f"rows must lie in 0 to {len(self.points) - 1}, got {index.tolist()}")
        if np.isinf(y).any() or not (np.isfinite(noise).all() and (noise > 0).all()):
            raise ValueError("values must not be infinite, and variances positive and finite")
        if not np.isfinite(t) or t < self.time:
            raise ValueError(f"a filter takes times from t = {self.time} on, got t = {t}")
        read = ~np.isnan(y)
        return index[read], y[read], noise[read]

    def _started(self, y: Array, noise: Array) -> Bank:
        """With filters at their prior, in a unit that the first readings suggest."""
        variance = max(float(y.var()), 4.0 * float(noise.mean()))
        filters = filters_of(self.settings, self.points, variance)
        bank = replace(self, filters=filters, origin=float(y.mean()))
        return replace(bank, _score=np.zeros(len(self.settings)), _present=bank._fresh())

    def _fresh(self) -> _Step:
        return _Step(tuple(filters.mean for filters in self.filters))

    def _at(self, t: float) -> Bank:
        """Moved to a time; what was observed before becomes evidence."""
        if t == self.time:
            return self
        if np.isnan(self.time):
            return replace(self, time=t)
        step = self.step if np.isfinite(self.step) else t - self.time
        evidence, error_variance = self._evidence()
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
            _present=_Step(()),
        )
        bank = bank._thinned()
        h = (t - self.time) / step
        bank = replace(bank, filters=tuple(each.moved(h) for each in bank.filters))
        return replace(bank, _present=bank._fresh())

    def _evidence(self) -> tuple[Array, float]:
        """What the present step says about each member, and the variance of errors that it shows.

        Half the log density, and half that of the differences between places (of the error itself
        where one place was read) were all members' errors of the same variance: that of the bank's.
        """
        present, n = self._present, len(self._present.rows)
        if n == 0:
            return np.zeros(len(self._score)), self._error_variance
        rows, y = np.array(present.rows), np.array(present.values)
        predicted = [
            before @ filters.layout.rows(rows).T
            for before, filters in zip(present.before, self.filters, strict=True)
        ]
        errors = y - np.concatenate(predicted)
        if n > 1:
            errors = errors - errors.mean(axis=1, keepdims=True)
        squares = (errors**2).sum(axis=1)
        weights = np.exp(self._score - self._score.max())
        latest = float(weights @ squares / weights.sum()) / max(n - 1, 1)
        share = max(0.02, 1.0 / (self.steps + 1))
        variance = self._error_variance + share * (latest - self._error_variance)
        evidence = present.log_density - squares / (2.0 * (variance + self.noise_variance))
        return np.asarray(0.5 * evidence), variance

    def _thinned(self) -> Bank:
        """Without its lighter half, if it is too large and the time has come."""
        numbers = np.concatenate([np.full(len(each), each.layout.size**2) for each in self.filters])
        if self.steps not in THINNED_AT or numbers.sum() <= self.capacity:
            return self
        order = np.argsort(-self._score, kind="stable")
        fits = np.cumsum(numbers[order]) <= self.capacity
        kept = np.zeros(len(order), dtype=bool)
        kept[order[: max((len(order) + 1) // 2, int(fits.sum()), 1)]] = True
        ends = np.cumsum([len(each) for each in self.filters])
        parts = np.split(kept, ends[:-1])
        pairs = [(each, part) for each, part in zip(self.filters, parts, strict=True) if part.any()]
        return replace(
            self, filters=tuple(each.take(part) for each, part in pairs), _score=self._score[kept]
        )

    def _mixtures(self, t: float) -> list[Mixture]:
        """The members that count, by their features, at the time t."""
        if t < self.time:
            raise ValueError(f"a filter speaks about times from t = {self.time} on, got t = {t}")
        # Before the second time nobody knows how long a step is.
        h = (t - self.time) / self.step if np.isfinite(self.step) else float(t > self.time)
        weights = self.weights
        weights = np.where(weights >= NEGLIGIBLE * weights.max(), weights, 0.0)
        weights /= weights.sum()
        ends = np.cumsum([len(each) for each in self.filters])
        parts = np.split(weights, ends[:-1])
        return [
            each.take(part > 0).mixture(part[part > 0], h)
            for each, part in zip(self.filters, parts, strict=True)
            if part.any()
        ]


def _quadratic(basis: Array, spread: Array) -> Array:
    """b^T spread b for each row b of the basis."""
    return np.asarray(np.einsum("ij,ij->i", basis @ spread, basis))


def _surprises(weights: Array, seen: Sequence[Innovations]) -> tuple[float, ...]:
    """Squared standardised innovations of the mixture."""
    errors = np.concatenate([each.errors for each in seen])
    variances = np.concatenate([each.variances for each in seen])
    mean = weights @ errors
    variance = weights @ (variances + (errors - mean) ** 2)
    return tuple(np.minimum(mean**2 / variance, LARGEST_SURPRISE).tolist())
