"""The exact posterior by the cheapest exact route, as a part of a recipe.

1. Nothing older changed, or only the oldest observations were forgotten: rows are appended or rotated
   out (`tvbandits.gp.cholesky`).
2. Weights changed, and the prior covariance of a finite domain has a low numerical rank r, as smooth
   kernels have: a dictionary of r of its points spans all of them, the sparse form on it is the exact
   posterior to rounding, and new weights cost O(u r^2 + r^2 A) for u distinct inputs, however many.
3. Observations of a reward that drifts by a Markov law, at a finite domain whose features are few: the
   Kalman filter on features that span the domain is the exact posterior to rounding, and costs the
   square of their number for each observation, however many came before.
4. Anything else: a new factorisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tvbandits.gp.cholesky import ExactPosterior, extend, factor, without_repeats
from tvbandits.gp.features import FEW, LARGEST_SPAN, SPAN_TOLERANCE, cheaper_state
from tvbandits.gp.kernels.structure import spanned
from tvbandits.gp.posterior import Conditioning, PosteriorRule
from tvbandits.gp.rows import (
    AppendBuffer,
    CandidateGrid,
    Data,
    GridPosterior,
    Groups,
    without_negligible,
)
from tvbandits.gp.sparse import SparsePosterior, assemble
from tvbandits.gp.state_space import StateSpacePosterior, filtered


@dataclass(frozen=True)
class Exact(PosteriorRule):
    """The exact posterior.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Exact, Recipe
    >>> recipe = Recipe(Candidates([[0.0], [1.0]]), RBF(1.0), 0.01, posterior=Exact(), mean=0.0)
    >>> bandit = Bandit(recipe)
    >>> info = bandit.tell([[0.0]], [1.0], 1)
    >>> mean, deviation = bandit.predict([[0.0], [1.0]])
    >>> print(mean.round(3), deviation.round(3))
    [0.99  0.601] [0.1   0.797]
    """

    dense: ClassVar[bool] = True
    in_rows: ClassVar[bool] = True

    def condition(
        self, given: Conditioning
    ) -> ExactPosterior | SparsePosterior | StateSpacePosterior:
        """As `tvbandits.gp.posterior.PosteriorRule.condition`."""
        kernel, data, surface, now, previous, *_ = given
        if data.levels is not None:  # of a time that goes on, they change with every reading
            return _beside_levels(given._replace(data=without_negligible(kernel, data)))
        if surface is not None and surface.space_time:
            goes_on = isinstance(previous, StateSpacePosterior) and data.starts_with(previous.data)
            state = cheaper_state(len(data.Z), surface, goes_on)
            if state is not None:
                return filtered(given, lambda: state)
        data = without_negligible(kernel, data)
        if isinstance(previous, ExactPosterior):
            extended = extend(previous, data, surface, now)
            extended = None if extended is None else without_repeats(extended)
            if extended is not None:
                return extended
        # A run of appended rows that ends, as when rewards get a new scale, goes on from a new factor.
        appending = isinstance(previous, ExactPosterior) and previous.extended
        if surface is None or surface.space_time or appending or len(data.Z) < FEW:
            return factor(kernel, data, surface, now)
        sparse = previous if isinstance(previous, SparsePosterior) else None
        groups = Groups.of(data.Z, None if sparse is None else sparse.groups)
        if len(groups.first) < FEW or not surface.holds(groups.keys):
            return factor(kernel, data, surface, now)
        span: ExactPosterior | None = surface.remember(spanning)
        if span is None or len(groups.first) < span.size:
            return factor(kernel, data, surface, now)
        given = given._replace(data=data)
        return assemble(given, groups, span, lowest=SPAN_TOLERANCE, exact=True)


def _beside_levels(given: Conditioning) -> ExactPosterior | SparsePosterior:
    """Of readings that share levels: on a dictionary that spans the domain, if there is a small one."""
    kernel, data, surface, now, *_ = given
    plain = surface is not None and not surface.space_time and len(data) > 0
    span: ExactPosterior | None = surface.remember(spanning) if plain and surface else None
    if span is None:
        return factor(kernel, data, surface, now)
    groups = Groups.of(data.apart)
    return assemble(given, groups, span, lowest=SPAN_TOLERANCE, exact=True)


def spanning(surface: CandidateGrid) -> ExactPosterior | None:
    """A dictionary whose span holds all points of the surface to rounding, if a small one does.

    It is the pivoted Cholesky factor of the prior covariance: its pivots are the inducing points, its
    rows the embedding of the surface.
    """
    kernel, points, prior = surface.kernel, surface.points, surface.prior_variance(0.0)
    limit = SPAN_TOLERANCE * float(prior.max())
    made = spanned(kernel, points, LARGEST_SPAN, SPAN_TOLERANCE)
    if float(made.residual.max()) > limit:
        return None
    # Entries below rounding only slow arithmetic down, where their products underflow.
    G = np.where(np.abs(made.G) < 1e-18 * float(prior.max()) ** 0.5, 0.0, made.G)
    r = len(made.pivots)
    Z, nothing = points[made.pivots], np.empty((r, 0))
    data = Data(Z, nothing, np.full(r, limit))
    return ExactPosterior(
        kernel=kernel,
        data=data,
        rows=data,
        factor=AppendBuffer.of(np.tril(G[:, made.pivots].T), square=True),
        weights=AppendBuffer.of(nothing),
        log_det_ratio=0.0,
        jitter=0.0,
        surface=GridPosterior.of(G, nothing, prior, 0.0),
    )
