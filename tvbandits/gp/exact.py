"""The exact posterior by the cheapest exact route, as a part of a recipe.

1. Nothing older changed, or only the oldest observations were dropped: rows are appended or rotated
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

from tvbandits.gp.cholesky import (
    CONFIG,
    ExactPosterior,
    cheaper_state,
    extend,
    factor,
    spanning_dictionary,
    without_repeats,
)
from tvbandits.gp.posterior import Conditioning, Groups, PosteriorRule, without_negligible
from tvbandits.gp.sparse import SparsePosterior, assemble
from tvbandits.gp.state_space import StateSpacePosterior, condition_filter


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
        self, conditioning: Conditioning
    ) -> ExactPosterior | SparsePosterior | StateSpacePosterior:
        """Condition on data, by the cheapest of the routes."""
        kernel, data, grid, now, previous, *_ = conditioning
        if data.levels is not None:  # of a time that goes on, they change with every reading
            data = without_negligible(kernel, data)
            return _condition_with_levels(conditioning._replace(data=data))
        if grid is not None and grid.space_time:
            continues = isinstance(previous, StateSpacePosterior) and data.starts_with(
                previous.data
            )
            state = cheaper_state(len(data.Z), grid, continues)
            if state is not None:
                return condition_filter(conditioning, lambda: state)
        data = without_negligible(kernel, data)
        if isinstance(previous, ExactPosterior):
            extended = extend(previous, data, grid, now)
            extended = None if extended is None else without_repeats(extended)
            if extended is not None:
                return extended
        # A run of appended rows that ends, as when rewards get a new scale, goes on from a new factor.
        appending = isinstance(previous, ExactPosterior) and previous.extended
        if grid is None or grid.space_time or appending or len(data.Z) < CONFIG.few:
            return factor(kernel, data, grid, now)
        sparse = previous if isinstance(previous, SparsePosterior) else None
        groups = Groups.of(data.Z, None if sparse is None else sparse.groups)
        if len(groups.first) < CONFIG.few or not grid.contains(groups.keys):
            return factor(kernel, data, grid, now)
        span: ExactPosterior | None = grid.remember(spanning_dictionary)
        if span is None or len(groups.first) < span.size:
            return factor(kernel, data, grid, now)
        conditioning = conditioning._replace(data=data)
        return assemble(conditioning, groups, span, lowest=CONFIG.span_tolerance, exact=True)


def _condition_with_levels(conditioning: Conditioning) -> ExactPosterior | SparsePosterior:
    """Condition on readings that share levels: on a dictionary that spans the domain, if it is small."""
    kernel, data, grid, now, *_ = conditioning
    span: ExactPosterior | None = None
    if grid is not None and not grid.space_time and len(data) > 0:
        span = grid.remember(spanning_dictionary)
    if span is None:
        return factor(kernel, data, grid, now)
    groups = Groups.of(data.inputs_with_levels)
    return assemble(conditioning, groups, span, lowest=CONFIG.span_tolerance, exact=True)
