"""What the models of an ensemble say together, in the unit of reward.

They are a mixture of normal variables, of transformed rewards: its first two moments are carried to the
unit of reward by quadrature, covariances by the mean slopes at both ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import boxcox1p, inv_boxcox1p

from tvbandits.core.arrays import Array
from tvbandits.gp.ensemble.filters import Filters
from tvbandits.gp.posteriors.lookahead import EVERY, NODES, WEIGHTS, JointPosterior, Rows

# --- monotone transforms that bring skewed rewards closer to normal (Yeo and Johnson 2000) --------
# With u = (y - origin) / unit, power 1 leaves u as it is, 0 is log(1 + u) where u > 0, and 2 the
# same for the lower tail: many small rewards and few large ones ask for a power below 1. All are
# increasing, defined for every reward, and have slope 1 at the origin.


@dataclass(frozen=True)
class Transform:
    """A Yeo-Johnson transform of rewards; its values are in the unit of reward around the origin.

    Attributes
    ----------
    power : float
        From 0 to 2; 1 changes nothing.
    unit : float
    """

    power: float
    unit: float

    def __call__(self, y: Array) -> Array:
        """Of rewards less the origin."""
        return self._odd(boxcox1p, y)

    def log_slope(self, y: Array) -> Array:
        """Logarithm of the derivative, at rewards less the origin."""
        if self.power == 1:
            return np.zeros_like(y)
        return np.asarray((self.power - 1.0) * np.sign(y) * np.log1p(np.abs(y) / self.unit))

    def inverse(self, z: Array) -> Array:
        """Rewards less the origin."""
        return self._odd(inv_boxcox1p, z)

    def _odd(self, half: np.ufunc, values: Array) -> Array:
        """A function of sizes, in the unit, with the one power above the origin and the other below."""
        if self.power == 1:
            return values
        size = np.abs(values) / self.unit
        upper, lower = half(size, self.power), half(size, 2.0 - self.power)
        return np.asarray(self.unit * np.where(values >= 0, upper, -lower))

    def moments(
        self, mean: Array, variance: Array, seen: tuple[float, float]
    ) -> tuple[Array, Array, Array]:
        """Of the reward whose transform is normal: mean, variance, and mean slope, shapes (A,).

        By Gauss-Hermite quadrature; the slope is E[y e] / s for the standard normal e and the deviation
        s. The mean of a log-normal variable is moved by what no one has ever seen: rewards that are
        further beyond the lowest and the highest that were `seen` than these are apart count as there.
        For what is not known, unlike for the mean, these are a unit apart at least.
        """
        if self.power == 1:
            return mean, variance, np.ones_like(mean)
        deviation = np.sqrt(variance)
        y = self.inverse(mean[:, None] + deviation[:, None] * NODES)
        low, high = seen
        reach = max(high - low, self.unit)
        expected = np.clip(y, low - (high - low), high + (high - low)) @ WEIGHTS
        y = np.clip(y, low - reach, high + reach)
        first = y @ WEIGHTS
        slope = (y @ (WEIGHTS * NODES)) / np.maximum(deviation, 1e-12 * self.unit)
        return expected, np.maximum((y**2) @ WEIGHTS - first**2, 0.0), slope


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mixture:
    """The first two moments of a mixture of models that share features.

    Attributes
    ----------
    weight : float
        Of the models together, in the ensemble.
    basis : array of shape (A, c)
        What observes a folded state.
    now, ahead : arrays of shape (c,)
        Means of the folded state.
    known, spread : arrays of shape (c, c)
        Its covariances now and ahead.
    across : array of shape (c, c)
        Covariance of the folded state now (rows) with that ahead (columns).
    left : array of shape (A,)
        Variance that the features leave out.
    nugget : float
        Variance of the nugget.
    """

    weight: float
    basis: Array
    now: Array
    ahead: Array
    known: Array
    spread: Array
    across: Array
    left: Array
    nugget: float

    @classmethod
    def of(cls, parts: Sequence[tuple[Filters, Array]], h: float, present: bool) -> Mixture:
        """Of filters that share a basis, with the weights of their models, now and h steps ahead.

        Without `present`, all that is not about the time ahead is left empty.
        """
        total = float(sum(weights.sum() for _, weights in parts))
        share = np.concatenate([weights for _, weights in parts]) / total
        sums, left, nugget = np.zeros(1), np.zeros(1), 0.0
        states, states_ahead = [], []
        for filters, weights in parts:
            layout, size, later = filters.layout, filters.layout.size, filters.moved(h)
            # What a state ahead (rows) shares with one now is the covariance moved on one side.
            covariances = [later.covariance]
            if present:
                covariances += [filters.covariance, layout.moved(filters.covariance, h)]
                states.append(layout.folded(filters.mean))
            states_ahead.append(layout.folded(later.mean))
            unit = weights / total * filters.variance
            mixed = np.array([unit @ each.reshape(len(unit), -1) for each in covariances])
            # From the left; and, turned over, from the right.
            folded = layout.folded(mixed.reshape(-1, size, size).swapaxes(1, 2))
            sums = sums + layout.folded(folded.swapaxes(1, 2))
            left = left + unit @ layout.left
            nugget += float(unit @ layout.nugget)

        def parted(means: Sequence[Array]) -> tuple[Array, Array]:
            """The mean of all models, and how far each of them is from it."""
            each = np.concatenate(means)
            return share @ each, each - share @ each

        def apart(one: Array, other: Array) -> Array | float:
            """What the models disagree about, which adds to what each of them does not know."""
            return (one.T * share) @ other if len(share) > 1 else 0.0

        ahead, from_ahead = parted(states_ahead)
        now = known = across = np.zeros(0)
        if present:
            now, from_now = parted(states)
            known = sums[1] + apart(from_now, from_now)
            across = sums[2].T + apart(from_now, from_ahead)
        spread = sums[0] + apart(from_ahead, from_ahead)
        return cls(total, layout.basis, now, ahead, known, spread, across, left, nugget)


@dataclass(frozen=True)
class Forecast:
    """What an ensemble says about all points at one time, in the unit of reward.

    Attributes
    ----------
    mean : array of shape (A,)
    deviation : array of shape (A,)
        Of the reward, with its nugget, widened by what innovations have shown.
    learnable : array of shape (A,)
        The part of it that observations could remove: what a width is to be multiplied with.
    """

    mean: Array
    deviation: Array
    learnable: Array


class _Moments(NamedTuple):
    """Of the rewards at all points at one time.

    `apart` (mixtures, A) is how far the mean of each mixture is from that of all; `learnable` (A,) and
    `nugget` are those of the transformed rewards; `mean`, `variance` and `slope` (A,) those of the
    rewards less the origin.
    """

    apart: Array
    learnable: Array
    nugget: float
    mean: Array
    variance: Array
    slope: Array


@dataclass(frozen=True)
class Components:
    """All models at one time; of rewards less the origin so much was `seen` (`Transform.moments`)."""

    mixtures: Sequence[Mixture]
    transform: Transform
    seen: tuple[float, float]
    origin: float
    widening: float

    def _moments(self, states: Sequence[tuple[Array, Array]]) -> _Moments:
        """Where the folded states of the mixtures have these means and covariances."""
        pairs = list(zip(self.mixtures, states, strict=True))
        shares = np.array([m.weight for m in self.mixtures])
        shares /= shares.sum()
        means = np.array([m.basis @ mean for m, (mean, _) in pairs])
        spreads = [
            np.einsum("ij,ij->i", m.basis @ spread, m.basis) + m.left for m, (_, spread) in pairs
        ]
        center = shares @ means
        apart = means - center
        learnable = np.maximum(shares @ (np.array(spreads) + apart**2), 0.0)
        nugget = float(shares @ np.array([m.nugget for m in self.mixtures]))
        moments = self.transform.moments(center, learnable + nugget, self.seen)
        return _Moments(apart, learnable, nugget, *moments)

    @cached_property
    def _ahead(self) -> _Moments:
        """Of the time ahead."""
        return self._moments([(m.ahead, m.spread) for m in self.mixtures])

    def forecast(self) -> Forecast:
        """Of all points."""
        ahead = self._ahead
        return Forecast(
            self.origin + ahead.mean,
            self.widening * np.sqrt(ahead.variance),
            self.widening * ahead.slope * np.sqrt(ahead.learnable),
        )

    def beliefs(self, noise_variance: float, beta: float) -> JointPosterior:
        """About the time ahead, and what readings now, with the sensor's noise, would change."""
        forecast, mixtures, ahead = self.forecast(), self.mixtures, self._ahead
        now = self._moments([(m.now, m.known) for m in mixtures])

        def covariance(rows: Rows, others: Rows | slice, later: bool) -> Array:
            """Of rewards now at some points with those at others, now or at the time ahead."""
            r = np.asarray(rows, dtype=np.int64)
            s = others if isinstance(others, slice) else np.asarray(others, dtype=np.int64)
            then = ahead if later else now
            slopes = then.slope[s]
            shared = np.zeros((len(r), len(slopes)))
            for m, here, there in zip(mixtures, now.apart, then.apart, strict=True):
                state = m.across if later else m.known
                shared += (m.weight * m.basis[r] @ state) @ m.basis[s].T
                if len(mixtures) > 1:  # a single one is nowhere apart from the mean of all
                    shared += (m.weight * here[r])[:, None] * there[s]
                if not (later or isinstance(s, slice)):
                    shared += m.weight * (r[:, None] == s) * m.left[r][:, None]
            if self.transform.power != 1:  # else the slopes are 1
                shared *= now.slope[r][:, None]
                shared *= slopes
            return shared

        return JointPosterior(
            forecast.mean,
            forecast.learnable,
            beta,
            noise_variance + now.nugget * now.slope**2,
            lambda rows, others=EVERY: covariance(rows, others, later=True),
            lambda rows, others: covariance(rows, others, later=False),
            now.slope**2 * now.learnable,
        )
