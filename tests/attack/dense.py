"""What a posterior says, by dense algebra alone: the oracle of random bandits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from tests.helpers.views import condition
from tvbandits import Bandit, Exact, Nystrom
from tvbandits.acquisition.rules import UpperConfidenceBound
from tvbandits.bandit.state import State
from tvbandits.gp.cholesky import CONFIG as EXACT_CONFIG
from tvbandits.gp.posterior import Conditioning, Data
from tvbandits.gp.sparse import SparsePosterior
from tvbandits.gp.sparse_filter import NystromFilter
from tvbandits.gp.state_space import CONFIG as FILTER_CONFIG, StateSpacePosterior
from tvbandits.validation import Array


@dataclass(frozen=True)
class Floor:
    """The least noise that a posterior takes for an input: below it, double precision says nothing.

    Attributes
    ----------
    share : float
        Of the prior variance there.
    merged : bool
        Whether readings of one input count as one, more precise than each.
    """

    share: float
    merged: bool = False

    @classmethod
    def of(cls, bandit: Bandit, posterior: Any) -> Floor:
        """That of a bandit's posterior; none of one without."""
        if isinstance(posterior, StateSpacePosterior):
            return cls(FILTER_CONFIG.smallest_noise)
        if not isinstance(posterior, SparsePosterior):
            return cls(0.0)
        rule = bandit.recipe.posterior
        share = rule.tolerance if isinstance(rule, Nystrom) else EXACT_CONFIG.span_tolerance
        return cls(share, merged=posterior.filter is None)

    def noise(self, kernel: Any, data: Data) -> Array:
        """Noise variances (n,) of observations, none of an input below the floor."""
        if len(data) == 0:
            return data.variance
        own = data.variance
        if self.merged:
            _, which = np.unique(data.inputs_with_levels, axis=0, return_inverse=True)
            own = 1.0 / np.bincount(which.ravel(), 1.0 / data.variance)[which.ravel()]
        return np.asarray(data.variance * np.maximum(1.0, self.share * kernel.diag(data.Z) / own))


@dataclass(frozen=True)
class ExactAbove(Exact):
    """The exact posterior of observations with a least noise."""

    floor: Floor = Floor(0.0)

    def condition(self, conditioning: Conditioning) -> Any:
        """Condition on them."""
        data, kernel = conditioning.data, conditioning.kernel
        noise = self.floor.noise(kernel, data)
        return super().condition(conditioning._replace(data=replace(data, variance=noise)))


def by_all(bandit: Bandit, X: Array, t: float) -> tuple[Array, Array, float]:
    """Mean and deviation at `X` of the exact posterior, and by how much the data defy the prior.

    The last is the root of the mean square of what the prior foretold of the data, in its own
    deviations: about 1 where the prior is honest. Where it is not, means are no more certain than that
    many deviations.
    """
    floor = Floor.of(bandit, condition(bandit, t)[0].posterior)
    recipe = replace(bandit.recipe, posterior=ExactAbove(floor), acquisition=UpperConfidenceBound())
    exact = Bandit.from_state(recipe, replace(bandit.state, posterior=None))
    mean, deviation = exact.predict(X, t)
    state, _ = condition(exact, t)
    assert state.posterior is not None
    products, origin = state.posterior.summary.products, exact._inference._get_origin(state)
    off = np.array([1.0, origin - state.model.scaling.mean(products, origin)])
    square = float(off @ products @ off) / max(state.posterior.summary.size, 1)
    return mean, deviation, math.sqrt(max(square, 0.0))


def by_dictionary(bandit: Bandit, X: Array, t: float) -> list[tuple[Array, Array]]:
    """Mean and deviation at `X` of the prior that a dictionary stands for: one of these is right.

    With the features phi(z) = L^-1 k(D, z) of the dictionary D, L L^T = k(D, D), the weights of the
    observations are the least squares of [phi / s; I] w = [y / s; 0], by an orthogonal factorisation: no
    normal equations, and nothing that is carried on from the step before.

    Where a filter moves the weights in time, each time has weights of its own: the features are phi(x)
    of its present times those of the correlation in time, and what the dictionary leaves out of a
    point is noise there. It may have forgotten the oldest observations that do not count any more, which
    still tell something of the prior mean: there is an answer for each that it may start with.
    """
    state, view = condition(bandit, t)
    posterior = state.posterior
    if not isinstance(posterior, SparsePosterior) or len(posterior.data) == 0:
        return []
    kernel, data, words = posterior.kernel, posterior.data, posterior.dictionary.data
    here = view.inputs(X)
    noise = Floor.of(bandit, posterior).noise(kernel, data)

    def still(Z: Array) -> Array:
        """Inputs of the filter's present, where there is one."""
        if posterior.filter is None:
            return Z
        return np.column_stack([Z[:, :-1], np.full(len(Z), posterior.now)])

    D, starts = still(words.Z), 1
    L = linalg.cholesky(kernel(D) + np.diag(words.variance), lower=True)

    def in_space(Z: Array) -> Array:
        return np.asarray(linalg.solve_triangular(L, kernel(D, still(Z)), lower=True).T)

    seen, asked = in_space(data.Z), in_space(here)
    rest = np.maximum(kernel.diag(here) - (asked**2).sum(axis=1), 0.0)
    if posterior.filter is not None:
        noise = np.maximum(noise, kernel.diag(data.Z) - (seen**2).sum(axis=1))
        every = np.concatenate([data.Z[:, -1], here[:, -1], [posterior.now]])
        times, which = np.unique(every, return_inverse=True)
        one = np.column_stack([np.repeat(here[:1, :-1], len(times), axis=0), times])
        correlation = kernel(one) / kernel.diag(one[:1])
        counts = (correlation**2)[which[-1], which[: len(data)]] * (
            1.0 + NystromFilter.largest_noise
        ) >= 1.0
        starts += int(counts.argmax())
        root = linalg.cholesky(correlation, lower=True)[which]
        seen, asked = (
            (phi[:, :, None] * at[:, None, :]).reshape(len(phi), -1)
            for phi, at in ((seen, root[: len(data)]), (asked, root[len(data) : -1]))
        )
    weight = 1.0 / np.sqrt(noise)[:, None]
    found = []
    for start in range(starts):
        mean, known = _least_squares(
            bandit, state, (seen * weight)[start:], (data.Y * weight)[start:], asked
        )
        found.append((mean, state.model.scaling.scale * np.sqrt(rest + known)))
    return found


def _least_squares(
    bandit: Bandit, state: State, seen: Array, Y: Array, asked: Array
) -> tuple[Array, Array]:
    """Means (q,), and variances (q,) in units of the prior, of features asked for (q, m).

    What was seen, and its values, are divided by the deviation of the noise.
    """
    m = seen.shape[1]
    A, b = np.vstack([seen, np.eye(m)]), np.vstack([Y, np.zeros((m, 2))])
    Q, R = linalg.qr(A, mode="economic")
    w = linalg.solve_triangular(R, Q.T @ b)
    left = b - A @ w
    origin = bandit._inference._get_origin(state)
    centre = state.model.scaling.mean(left.T @ left, origin)
    mean = centre + asked @ (w[:, 0] - (centre - origin) * w[:, 1])
    known = (linalg.solve_triangular(R, asked.T, trans="T") ** 2).sum(axis=0)
    return (-mean if bandit.recipe.minimize else mean), known
