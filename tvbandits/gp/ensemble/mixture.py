"""What the models of an ensemble say together, in the unit of reward.

Models under one transform are a mixture of normal variables: their first two moments are taken together
there, and carried to the unit of reward by quadrature; covariances by the mean slopes at both ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvbandits.core.arrays import Array, Index
from tvbandits.gp.ensemble.filters import Filters
from tvbandits.gp.fitting.powers import Transform
from tvbandits.gp.posteriors.lookahead import JointPosterior


@dataclass(frozen=True)
class Mixture:
    """The first two moments of a mixture of models that share features and a transform.

    Attributes
    ----------
    transform : int
        Its number.
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
    white : float
        Variance of the white part.
    """

    transform: int
    weight: float
    basis: Array
    now: Array
    ahead: Array
    known: Array
    spread: Array
    across: Array
    left: Array
    white: float


def mixtures_of(filters: Filters, weights: Array, h: float, present: bool = True) -> list[Mixture]:
    """The models by their weights (M, K) in the ensemble, now and h steps ahead, for each transform.

    What a transform is not weighted with is left out. Without `present`, all that is not about the
    time ahead is left at 0.
    """
    layout, size, later = filters.layout, filters.layout.size, filters.moved(h)
    # What a state ahead (rows) shares with one now is the covariance moved on one side.
    covariances = [later.covariance] + [filters.covariance] * present
    if present:
        covariances.append(layout.moved(filters.covariance, h))
    found = []
    for k in np.flatnonzero(weights.any(axis=0)):
        share = weights[:, k] / weights[:, k].sum()
        unit = share * filters.variance[:, k]
        sums = [
            layout.folded(
                layout.folded((unit @ each.reshape(len(unit), -1)).reshape(size, size)).T
            ).T
            for each in covariances
        ]
        now, ahead = (layout.folded(each.mean[:, :, k].T).T for each in (filters, later))
        # What the models disagree about adds to what each of them does not know.
        from_now, from_ahead = now - share @ now, ahead - share @ ahead
        nothing = np.zeros(0)
        found.append(
            Mixture(
                transform=int(k),
                weight=float(weights[:, k].sum()),
                basis=layout.basis,
                now=share @ now,
                ahead=share @ ahead,
                spread=sums[0] + (from_ahead.T * share) @ from_ahead,
                known=sums[1] + (from_now.T * share) @ from_now if present else nothing,
                across=sums[2].T + (from_now.T * share) @ from_ahead if present else nothing,
                left=unit @ layout.left,
                white=float(unit @ filters.layout.white),
            )
        )
    return found


@dataclass(frozen=True)
class Forecast:
    """What an ensemble says about all points at one time, in the unit of reward.

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
class _Moments:
    """Of the rewards at all points at one time under one transform.

    `center`, `learnable` (A,) and `white` are those of the transformed rewards; `mean`, `variance` and
    `slope` (A,) those of the rewards less the origin.
    """

    center: Array
    learnable: Array
    white: float
    mean: Array
    variance: Array
    slope: Array


@dataclass(frozen=True)
class _Component:
    """All models under one transform: what they say of the time ahead, and of now if asked for."""

    weight: float
    mixtures: tuple[Mixture, ...]
    ahead: _Moments
    now: _Moments | None

    def apart(self) -> list[tuple[Array, Array]]:
        """How far each mixture is from all of them, now and ahead."""
        assert self.now is not None  # `beliefs` asks for the present
        return [
            (m.basis @ m.now - self.now.center, m.basis @ m.ahead - self.ahead.center)
            for m in self.mixtures
        ]


@dataclass(frozen=True)
class Components:
    """The components of all transforms at one time."""

    parts: tuple[_Component, ...]
    origin: float
    widening: float

    @classmethod
    def of(
        cls,
        mixtures: Sequence[Mixture],
        transforms: Sequence[Transform],
        seen: tuple[float, float],
        origin: float,
        widening: float,
    ) -> Components:
        """Of mixtures; of rewards less the origin so much was seen (`Transform.moments`)."""
        groups: dict[int, list[Mixture]] = {}
        for each in mixtures:
            groups.setdefault(each.transform, []).append(each)
        parts = []
        for k, alike in groups.items():
            moments = [
                _moments(
                    alike,
                    [(m.ahead, m.spread) if ahead else (m.now, m.known) for m in alike],
                    transforms[k],
                    seen,
                )
                for ahead in (True, False)
                if ahead or alike[0].known.size
            ]
            now = moments[1] if len(moments) > 1 else None
            weight = sum(m.weight for m in alike)
            parts.append(_Component(weight, tuple(alike), moments[0], now))
        return cls(tuple(parts), origin, widening)

    def forecast(self) -> Forecast:
        """Of all points."""
        mean = sum(v.weight * v.ahead.mean for v in self.parts)
        apart = sum(v.weight * (v.ahead.mean - mean) ** 2 for v in self.parts)
        learnable = sum(v.weight * v.ahead.slope**2 * v.ahead.learnable for v in self.parts)
        variance = sum(v.weight * v.ahead.variance for v in self.parts)
        return Forecast(
            np.asarray(self.origin + mean),
            self.widening * np.sqrt(variance + apart),
            self.widening * np.sqrt(learnable + apart),
        )

    def beliefs(self, noise_variance: float, beta: float) -> JointPosterior:
        """About the time ahead, and what readings now, with the sensor's noise, would change."""
        forecast = self.forecast()
        mean = forecast.mean - self.origin
        every = [(v, v.now, v.apart()) for v in self.parts if v.now is not None]
        mean_now = sum(v.weight * now.mean for v, now, _ in every)
        noise = noise_variance + sum(v.weight * now.white * now.slope**2 for v, now, _ in every)
        present = sum(
            v.weight * (now.slope**2 * now.learnable + (now.mean - mean_now) ** 2)
            for v, now, _ in every
        )

        def covariance(r: Index, s: Index, later: bool) -> Array:
            """Of rewards now at some points with those at others, now or at the time ahead."""
            out, same = np.zeros((len(r), len(s))), np.equal.outer(r, s) * (not later)
            for part, now, apart in every:
                other, expected = (part.ahead, mean) if later else (now, mean_now)
                shared = np.zeros(out.shape)
                for m, (here, there) in zip(part.mixtures, apart, strict=True):
                    state, off = (m.across, there) if later else (m.known, here)
                    own = same * m.left[r][:, None]
                    shared += m.weight * (
                        m.basis[r] @ state @ m.basis[s].T + np.outer(here[r], off[s]) + own
                    )
                rival = np.outer((now.mean - mean_now)[r], (other.mean - expected)[s])
                out += np.outer(now.slope[r], other.slope[s]) * shared + part.weight * rival
            return out

        def reach(rows: Sequence[int]) -> Array:
            return covariance(np.array(rows, dtype=np.int64), np.arange(len(mean)), True)

        def among(rows: Sequence[int], others: Sequence[int]) -> Array:
            r, s = (np.array(each, dtype=np.int64) for each in (rows, others))
            return covariance(r, s, False)

        answers = np.asarray(noise), reach, among, np.asarray(present)
        return JointPosterior(forecast.mean, forecast.learnable, beta, *answers)


def _moments(
    mixtures: Sequence[Mixture],
    states: Sequence[tuple[Array, Array]],
    transform: Transform,
    seen: tuple[float, float],
) -> _Moments:
    """Of mixtures under one transform, whose folded states have these means and covariances."""
    shares = np.array([m.weight for m in mixtures])
    shares /= shares.sum()
    means = np.array([m.basis @ mean for m, (mean, _) in zip(mixtures, states, strict=True)])
    spreads = np.array(
        [
            np.einsum("ij,ij->i", m.basis @ spread, m.basis) + m.left
            for m, (_, spread) in zip(mixtures, states, strict=True)
        ]
    )
    center = shares @ means
    learnable = np.maximum(shares @ (spreads + (means - center) ** 2), 0.0)
    white = float(shares @ np.array([m.white for m in mixtures]))
    return _Moments(center, learnable, white, *transform.moments(center, learnable + white, seen))
