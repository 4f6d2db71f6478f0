"""Compute a sparse posterior that forgets: a Kalman filter on a dictionary from leverage scores.

Under a kernel space * time whose correlation r in time is Markov, such as that of TV-GP-UCB, the weights
of a dictionary's embedding z (`tvbandits.gp.sparse`) change in time independently of each other:

    f(x, t) = z(x)^T w_t + residual of the dictionary
    after a time h:    w -> r w,    P -> r^2 P + (1 - r^2) I       (`state_space`)

With V = P^-1 at the current time it is a sparse posterior like that of BBKB, with the same bounds,
batches and top candidates; without drift it equals that of BBKB. In the leverage score of a point, each
reading has the noise variance of an equivalent current observation, (k (1 - r^2) + v) / r^2, so that
places without recent readings leave the dictionary. The noise variance of readings at such a place is
raised to the variance that the dictionary leaves out there.

As long as the dictionary stays, a reward costs O(m^2) and adds no approximation. When the dictionary
changes, all rewards are filtered again, except those whose equivalent noise variance exceeds
`NystromFilter.largest_noise` prior variances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tvbandits.data import append_times
from tvbandits.gp import linalg
from tvbandits.gp.cholesky import ExactPosterior, embed
from tvbandits.gp.features import SpaceFeatures, Term
from tvbandits.gp.posterior import Conditioning, Data, Groups, drop_negligible, equivalent_noise
from tvbandits.gp.sparse import (
    Nystrom,
    SparsePosterior,
    markov_term,
    raise_noise_to_residual,
    restore_lower_noise,
)
from tvbandits.gp.state_space import FeatureRows, Filter, smooth_values
from tvbandits.validation import Array


@dataclass(frozen=True)
class NystromFilter(Nystrom):
    """A posterior rule that computes the sparse posterior under a kernel that forgets.

    Parameters
    ----------
    oversampling, keep, tolerance
        The parameters of `Nystrom`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, NystromFilter, Recipe
    >>> from tvbandits.gp.kernels.space_time import Drift, OnSpace
    >>> kernel = OnSpace(RBF(1.0)) * Drift(0.1)
    >>> recipe = Recipe(Candidates([[0.0], [1.0]]), kernel, 0.01, posterior=NystromFilter(), mean=0.0)
    >>> bandit = Bandit(recipe)
    >>> info = bandit.tell([[0.0]], [1.0], 1)
    >>> print(bandit.predict([[0.0]], t=11)[0].round(3))  # faded towards the prior mean
    [0.585]
    """

    needs_all_rows: ClassVar[bool] = False

    largest_noise: ClassVar[float] = 1e4
    """The largest equivalent noise variance of a reading that is used, in prior variances."""

    def on_dictionary(self, kernel: Any) -> bool:  # noqa: ARG002
        """Return True, because the posterior is always on a dictionary."""
        return True

    def condition(self, conditioning: Conditioning) -> SparsePosterior:
        """Return the posterior given data in any order, from the previous one if that is cheaper.

        Raises
        ------
        ValueError
            If the kernel is not one term space * time whose state in time is a single number.
        """
        kernel, data, grid, _, previous, *_ = conditioning
        term = markov_term(kernel)
        if term is None:
            needs = "a kernel over points times one over time, OnTime(Matern(nu=0.5)) or Drift"
            raise ValueError(f"a filter on a dictionary needs {needs}; got {kernel}")
        data = drop_negligible(kernel, data).sort_by_time()
        lowest = self.tolerance * np.asarray(kernel.diag(data.Z))
        raised = float((lowest - data.variance).max(initial=0.0))
        noise = np.maximum(data.variance, lowest)  # for the same reason as in `sparse.assemble`
        conditioning = conditioning._replace(data=Data(data.Z, data.Y, noise))
        start = previous if isinstance(previous, SparsePosterior) and previous.filter else None
        dictionary = self._dictionary(conditioning, term, start)
        posterior = replace(
            condition_on_dictionary(conditioning, term, dictionary, start), raised=raised
        )
        return posterior if grid is None else posterior.add_candidates(grid)

    def _dictionary(
        self, conditioning: Conditioning, term: Term, previous: SparsePosterior | None
    ) -> ExactPosterior:
        """Return inducing points at the time `now`: the previous ones if the inputs are unchanged."""
        data, now, earlier = conditioning.data, conditioning.now, None
        if previous is not None:
            rows = previous.dictionary.rows
            # The root stays, because it depends on time differences only and all rows have one time.
            rows = replace(rows, Z=current_inputs(rows, now))
            start = replace(previous.dictionary, data=rows, rows=rows, on_grid=None)
            if np.array_equal(data.Z, previous.data.Z):
                return start
            old_data = conditioning._replace(data=previous.data)
            earlier = condition_on_dictionary(old_data, term, start, previous)
        recent, _ = fade(conditioning.kernel, term, restore_lower_noise(data, previous), now)
        conditioning = conditioning._replace(grid=None, previous=earlier)
        return self.draw(conditioning, recent, Groups.of(recent.Z))


def condition_on_dictionary(
    conditioning: Conditioning,
    term: Term,
    dictionary: ExactPosterior,
    previous: SparsePosterior | None,
) -> SparsePosterior:
    """Return the posterior for the time `now` on a dictionary of that time; data are sorted by time."""
    kernel, data, _, now, *_ = conditioning
    recent, relevant = fade(kernel, term, data, now)
    groups = Groups.of(recent.Z)
    rows = groups.merge(recent)
    m, inputs = dictionary.size, current_inputs(data, now)
    weights = SpaceFeatures((term,), (), (0,), np.ones(m))
    prior = Filter.prior(weights, data.Y.shape[1])
    first = int(relevant.argmax()) if len(data) else 0

    def rows_from(n: int) -> FeatureRows:
        """Return the observations from row n on as observations of the weights."""
        Z, Y, variance = data.rows(n)
        H = embed(dictionary, inputs[n:])
        noise = raise_noise_to_residual(kernel, inputs[n:], H, variance)
        return FeatureRows(Z[:, -1], H, Y, noise, noise, joint=True)

    if previous is not None and previous.filter and _continues(previous, data, dictionary):
        latest = previous.filter.update(rows_from(len(previous.data)))
    else:
        latest = prior.update(rows_from(first))
    if now >= latest.time:
        present = latest.predict(now)
        mean, P = present.mean, present.covariance
    else:
        mean, P = smooth_values(prior, rows_from(first), np.full(m, now), np.eye(m))
    V = linalg.inverse(linalg.cholesky(P, "weights of a dictionary").L)
    return SparsePosterior(
        kernel=kernel,
        data=data,
        groups=Groups.of(rows.Z),
        rows=rows,
        dictionary=dictionary,
        embedded=embed(dictionary, rows.Z),
        V=V,
        factor=linalg.cholesky(V, "sparse posterior's V").L,
        coefficients=mean,
        products=latest.products,
        log_det_ratio=latest.log_det_ratio,
        now=now,
        filter=latest,
    )


def current_inputs(data: Data, now: float) -> Array:
    """Return the inputs (n, p) of observations with the time `now` in place of their own times."""
    return append_times(data.Z[:, :-1], now)


def fade(kernel: Any, term: Term, data: Data, now: float) -> tuple[Data, NDArray[np.bool_]]:
    """Return equivalent observations of the time `now`, without the noisiest, and a mask of the others.

    The mask (n,) is True for the rows of `data` that are used (`NystromFilter.largest_noise`).
    """
    inputs = current_inputs(data, now)
    r2 = np.exp(-2.0 * np.abs(now - data.Z[:, -1]) / term.time_scale)
    relevant = r2 * (1.0 + NystromFilter.largest_noise) >= 1.0
    inputs, r2 = inputs[relevant], r2[relevant]
    noise = equivalent_noise(data.variance[relevant], np.asarray(kernel.diag(inputs)), r2)
    return Data(inputs, data.Y[relevant], noise), relevant


def _continues(previous: SparsePosterior, data: Data, dictionary: ExactPosterior) -> bool:
    """Return whether the previous filter has the same dictionary and lacks only the latest rows."""
    assert previous.filter is not None
    same = np.array_equal(previous.dictionary.rows.Z[:, :-1], dictionary.rows.Z[:, :-1])
    new_times = data.Z[len(previous.data) :, -1]
    later = len(new_times) == 0 or bool(new_times[0] >= previous.filter.time)
    return same and later and data.starts_with(previous.data)
