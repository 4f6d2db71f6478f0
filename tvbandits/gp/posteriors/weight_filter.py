"""A Kalman filter of weights that all fade alike: w -> r w + sqrt(1 - r^2) w', with w' ~ N(0, I).

It is the state of a term space * time on features of the space kernel, whose correlation after a time h
is r = exp(-h / scale) ([HS] = Hartikainen & Sarkka 2010, docs/references.md); rewards of one time come
in together. Such weights look the same forwards and backwards in time, so what is known of a time in the
past comes from a filter of what was before, and one of what came after:

    V = V_before + V_after - I,      V w = V_before w_before + V_after w_after.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array


@dataclass(frozen=True)
class WeightFilter:
    """What rewards say about the weights at the time of the latest of them.

    Attributes
    ----------
    scale : float
        Time in which a correlation falls to 1/e; infinite: weights stay.
    mean : array of shape (m, c)
    covariance : array of shape (m, m)
    time : float
        Minus infinity before any reward.
    products : array of shape (c, c)
        Y^T (K + Sigma)^-1 Y of the value columns.
    log_det_ratio : float
        log det(K + Sigma) - log det Sigma.
    """

    scale: float
    mean: Array
    covariance: Array
    time: float
    products: Array
    log_det_ratio: float

    @classmethod
    def prior(cls, scale: float, size: int, columns: int) -> WeightFilter:
        """Of `size` weights, before any reward."""
        none, nothing = np.zeros((size, columns)), np.zeros((columns, columns))
        return cls(scale, none, np.eye(size), -math.inf, nothing, 0.0)

    def at(self, t: float) -> WeightFilter:
        """At a time that is not before its own."""
        if t == self.time or math.isinf(self.time):
            return self
        r = math.exp(-(t - self.time) / self.scale)
        P = r**2 * self.covariance
        P[np.diag_indices_from(P)] += 1.0 - r**2
        return WeightFilter(self.scale, r * self.mean, P, t, self.products, self.log_det_ratio)

    def told(self, times: Array, H: Array, Y: Array, variance: Array) -> WeightFilter:
        """With rewards Y (n, c) at rising times (n,), seen through H (n, m) with variances (n,)."""
        known = self
        for t in np.unique(times):
            rows = slice(*np.searchsorted(times, [t, np.nextafter(t, np.inf)]))
            known = known.at(float(t))._corrected(float(t), H[rows], Y[rows], variance[rows])
        return known

    def _corrected(self, t: float, H: Array, Y: Array, variance: Array) -> WeightFilter:
        """With rewards (n, c) of its own time."""
        reach = H @ self.covariance
        L = linalg.cholesky(reach @ H.T + np.diag(variance), "rewards of one time").L
        gain, error = linalg.solve_lower(L, reach), linalg.solve_lower(L, Y - H @ self.mean)
        return WeightFilter(
            self.scale,
            self.mean + gain.T @ error,
            self.covariance - gain.T @ gain,
            t,
            self.products + error.T @ error,
            self.log_det_ratio + linalg.log_determinant(L) - float(np.log(variance).sum()),
        )

    def about(
        self, now: float, times: Array, H: Array, Y: Array, variance: Array
    ) -> tuple[Array, Array]:
        """V (m, m) and V mean (m, c) of the weights at any time, V = P^-1.

        The rewards are those that it was told, at least all that count at that time.
        """
        if now >= self.time:
            return self.at(now)._information()
        before = times <= now
        rows, after = (each[before] for each in (times, H, Y, variance)), ~before
        later = (each[after][::-1] for each in (-times, H, Y, variance))
        first = WeightFilter.prior(self.scale, *self.mean.shape)
        V, moment = first.told(*rows).at(now)._information()
        others, of_them = first.told(*later).at(-now)._information()
        return V + others - np.eye(len(V)), moment + of_them

    def _information(self) -> tuple[Array, Array]:
        V = linalg.inverse(linalg.cholesky(self.covariance, "weights of a dictionary").L)
        return V, V @ self.mean
