"""What a posterior says at one time, in the user's unit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tvbandits.core.arrays import Array
from tvbandits.gp.posteriors.candidate_cache import Surface
from tvbandits.gp.posteriors.protocol import Posterior
from tvbandits.gp.views.fields import Bound, Field

FAINT = 1e6
"""A point that is out says nothing worth counting if its noise exceeds the prior variance so far."""


def worth_of_pending(
    kernel: Any, here: Array, then: Array, noise: Array, space_time: bool
) -> Array:
    """With what noise values (n,) seen at inputs `then` speak about the inputs `here`, in prior units.

    A value of the time s says y = f_s + e. Where f_s and f_now have the correlation r, that is worth an
    observation of f_now with the noise variance (k (1 - r^2) + v) / r^2; infinite: not worth counting.
    """
    prior = np.asarray(kernel.diag(here))
    if space_time:
        across = np.array([kernel(a[None], b[None])[0, 0] for a, b in zip(here, then, strict=True)])
        r2 = np.minimum((across / prior) ** 2, 1.0)
        with np.errstate(divide="ignore"):
            noise = (prior * (1.0 - r2) + noise) / r2
    return np.asarray(np.where(noise <= FAINT * prior, noise, np.inf))


@dataclass(frozen=True)
class View:
    """A posterior of reward - origin and of the constant 1, read as one of the reward.

    The mean is linear in the values: conditioning reward - centre is conditioning reward - origin, less
    (centre - origin) times conditioning the constant.

    Attributes
    ----------
    posterior : Posterior
        With two value columns: reward - origin, and 1; or with the reward alone.
    surface : Surface or None
        The candidates of a finite domain, which the posterior answers for without a solve.
    inputs : callable
        Kernel inputs (n, p) of points (n, d) at the time of the view.
    centre, scale : float
        Prior mean and prior deviation of the reward.
    origin : float
    now : float
        The time of the view.
    white : float
        Variance of the reward beyond that of what can be learned, which a width leaves out: of what is
        new at every place at every time.
    widening : float
        Factor on the deviation of the reward, which a width leaves out too: what innovations have shown.
    """

    posterior: Posterior
    surface: Surface | None
    inputs: Callable[[Array], Array]
    centre: float
    scale: float
    origin: float
    now: float = math.nan
    white: float = 0.0
    widening: float = 1.0

    def reward(self, X: Array) -> tuple[Array, Array]:
        """Mean and deviation of the reward at points (n, d): widened, and with what nobody can learn."""
        mean, deviation = self.predict(X)
        deviation = self.widening * deviation
        return mean, np.sqrt(deviation**2 + self.white) if self.white else deviation

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean and deviation at points (n, d), each of shape (n,)."""
        if self._is_surface(X):
            columns, variance = self.posterior.on_surface()
        else:
            columns, variance = self.posterior.predict(self.inputs(X))
        return self._in_units(columns), self.scale * np.sqrt(variance)

    def mean(self, X: Array) -> Array:
        """Mean alone, which a sparse posterior has without its variances, shape (n,)."""
        if self._is_surface(X):
            return self._in_units(self.posterior.means_on_surface())
        return self.predict(X)[0]

    def upper_bound(self, X: Array, beta: float) -> Array:
        """Mean + beta deviation, shape (n,)."""
        mean, deviation = self.predict(X)
        return np.asarray(mean + beta * deviation)

    def bound(self, beta: float) -> Callable[[Array], Array]:
        """Mean + beta deviation as a function of points (n, d); with slopes where there are any."""
        field = self._field
        if field is None:
            return lambda X: self.upper_bound(X, beta)
        return self._bound_of(field, field, beta * self.scale)

    def mean_to_climb(self) -> Callable[[Array], Array]:
        """The mean as a function of points (n, d); with slopes where there are any."""
        field = self._field
        return self.mean if field is None else self._bound_of(field, field, 0.0)

    def smooth_bound(self, posterior: Posterior, times: float) -> Bound | None:
        """Mean + times * the deviation in prior units that another posterior has; None: no slopes."""
        own = self._field
        other = None if own is None else Field.of(posterior, self.now)
        return None if own is None or other is None else self._bound_of(own, other, times)

    @cached_property
    def _field(self) -> Field | None:
        if self.surface is not None or not math.isfinite(self.now):
            return None
        return Field.of(self.posterior, self.now)

    def _bound_of(self, mean: Field, variance: Field, times: float) -> Bound:
        columns = np.array([1.0, self.origin - self.centre])
        return Bound(mean, variance, columns, self.centre, times)

    def _is_surface(self, X: Array) -> bool:
        return self.surface is not None and X is self.surface.points

    def _in_units(self, columns: Array) -> Array:
        shift = self.centre - self.origin
        if columns.shape[1] == 1:
            return columns[:, 0]  # of a posterior with a centre of its own
        return np.asarray(self.centre + columns[:, 0] - shift * columns[:, 1])
