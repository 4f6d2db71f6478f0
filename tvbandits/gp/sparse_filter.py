"""A sparse posterior that forgets: a filter on a dictionary by ridge leverage scores.

Under a kernel space * time whose correlation r in time is Markov, such as that of TV-GP-UCB, the weights
of a dictionary's embedding z (`tvbandits.gp.sparse`) move in time, each on its own:

    f(x, t) = z(x)^T w_t + what the dictionary leaves out
    after a time h:    w -> r w,    P -> r^2 P + (1 - r^2) I       (`state_space`)

With V = P^-1 of now it is a sparse posterior as that of BBKB, with the same bounds, batches and top
candidates; where nothing moves it is BBKB's. A dictionary is made of points that count now: in the
leverage score of a point each reading has its noise as a statement about now, (k (1 - r^2) + v) / r^2,
so that places which nobody has visited for long leave the dictionary. What it leaves out of such a place
is noise of the readings there, where that is more than their own.

As long as the dictionary stays, a reward costs O(m^2), and nothing is approximated anew. For another one
all rewards that still count are filtered again: nothing is lost but those whose noise about now exceeds
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
from tvbandits.gp.posterior import Conditioning, Data, Groups, as_of_now, without_negligible
from tvbandits.gp.sparse import (
    Nystrom,
    SparsePosterior,
    markov,
    noise_with_residual,
    with_lowest_noise,
)
from tvbandits.gp.state_space import FeatureRows, Filter, recall
from tvbandits.validation import Array


@dataclass(frozen=True)
class NystromFilter(Nystrom):
    """The sparse posterior under a kernel that forgets, as a part of a recipe.

    Parameters
    ----------
    oversampling, keep, tolerance
        As those of `Nystrom`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, NystromFilter, Recipe
    >>> from tvbandits.gp.kernels.space_time import Drift, OnSpace
    >>> kernel = OnSpace(RBF(1.0)) * Drift(0.1)
    >>> recipe = Recipe(Candidates([[0.0], [1.0]]), kernel, 0.01, posterior=NystromFilter(), mean=0.0)
    >>> bandit = Bandit(recipe)
    >>> info = bandit.tell([[0.0]], [1.0], 1)
    >>> print(bandit.predict([[0.0]], t=11)[0].round(3))  # what has faded since
    [0.585]
    """

    in_rows: ClassVar[bool] = False

    largest_noise: ClassVar[float] = 1e4
    """A reading counts as long as its noise about now is at most so many prior variances."""

    def on_dictionary(self, kernel: Any) -> bool:  # noqa: ARG002
        """Return True: it always is on a dictionary."""
        return True

    def condition(self, conditioning: Conditioning) -> SparsePosterior:
        """Condition on data, in any order, from a previous posterior where that is cheaper.

        Raises
        ------
        ValueError
            If the kernel is not one term space * time whose state in time is a single number.
        """
        kernel, data, grid, _, previous, *_ = conditioning
        term = markov(kernel)
        if term is None:
            needs = "a kernel over points times one over time, OnTime(Matern(nu=0.5)) or Drift"
            raise ValueError(f"a filter on a dictionary needs {needs}; got {kernel}")
        data = without_negligible(kernel, data).in_time()
        lowest = self.tolerance * np.asarray(kernel.diag(data.Z))
        raised = float((lowest - data.variance).max(initial=0.0))
        noise = np.maximum(data.variance, lowest)  # as `tvbandits.gp.sparse.assemble` has it
        conditioning = conditioning._replace(data=Data(data.Z, data.Y, noise))
        start = previous if isinstance(previous, SparsePosterior) and previous.filter else None
        dictionary = self._dictionary(conditioning, term, start)
        posterior = replace(_filter(conditioning, term, dictionary, start), raised=raised)
        return posterior if grid is None else posterior.at_candidates(grid)

    def _dictionary(
        self, conditioning: Conditioning, term: Term, previous: SparsePosterior | None
    ) -> ExactPosterior:
        """Return inducing points at the time `now`: those of before, if nothing is new, or others."""
        data, now, before = conditioning.data, conditioning.now, None
        if previous is not None:
            rows = previous.dictionary.rows
            rows = replace(rows, Z=inputs_of_now(rows, now))  # all of one time: their root stays
            start = replace(previous.dictionary, data=rows, rows=rows, on_grid=None)
            if np.array_equal(data.Z, previous.data.Z):
                return start
            before = _filter(conditioning._replace(data=previous.data), term, start, previous)
        recent, _ = fade(conditioning.kernel, term, with_lowest_noise(data, previous), now)
        here = conditioning._replace(grid=None, previous=before)
        return self.draw(here, recent, Groups.of(recent.Z))


def _filter(
    conditioning: Conditioning,
    term: Term,
    dictionary: ExactPosterior,
    previous: SparsePosterior | None,
) -> SparsePosterior:
    """Return the posterior about the time `now` on a dictionary of that time.

    Data are in order of time.
    """
    kernel, data, _, now, *_ = conditioning
    recent, counts = fade(kernel, term, data, now)
    groups = Groups.of(recent.Z)
    rows = groups.merge(recent)
    m, here = dictionary.size, inputs_of_now(data, now)
    weights = SpaceFeatures((term,), (), (0,), np.ones(m))
    prior, first = Filter.prior(weights, data.Y.shape[1]), int(counts.argmax()) if len(data) else 0

    def rows_from(n: int) -> FeatureRows:
        """Return the observations from row n on, on the dictionary."""
        Z, Y, variance = data.rows(n)
        H = embed(dictionary, here[n:])
        noise = noise_with_residual(kernel, here[n:], H, variance)
        return FeatureRows(Z[:, -1], H, Y, noise, noise, together=True)

    if previous is not None and previous.filter and _continues(previous, data, dictionary):
        latest = previous.filter.update(rows_from(len(previous.data)))
    else:
        latest = prior.update(rows_from(first))
    if now >= latest.time:
        present = latest.predict(now)
        mean, P = present.mean, present.covariance
    else:
        mean, P = recall(prior, rows_from(first), np.full(m, now), np.eye(m))
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


def inputs_of_now(data: Data, now: float) -> Array:
    """Return the inputs (n, p) of observations as if they were of the time `now`."""
    return append_times(data.Z[:, :-1], now)


def fade(kernel: Any, term: Term, data: Data, now: float) -> tuple[Data, NDArray[np.bool_]]:
    """Return the observations that count, as statements about the time `now`, and which they are."""
    here = inputs_of_now(data, now)
    r2 = np.exp(-2.0 * np.abs(now - data.Z[:, -1]) / term.time_scale)
    counts = r2 * (1.0 + NystromFilter.largest_noise) >= 1.0
    here, r2 = here[counts], r2[counts]
    noise = as_of_now(data.variance[counts], np.asarray(kernel.diag(here)), r2)
    return Data(here, data.Y[counts], noise), counts


def _continues(previous: SparsePosterior, data: Data, dictionary: ExactPosterior) -> bool:
    """Return whether a filter on the same dictionary lacks nothing but the last of the data."""
    assert previous.filter is not None
    same = np.array_equal(previous.dictionary.rows.Z[:, :-1], dictionary.rows.Z[:, :-1])
    rest = data.Z[len(previous.data) :, -1]
    later = len(rest) == 0 or bool(rest[0] >= previous.filter.time)
    return same and later and data.starts_with(previous.data)
