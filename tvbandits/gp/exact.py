"""Compute the exact posterior by the cheapest exact route.

1. If the old observations are unchanged, or only the oldest ones were dropped, rows of the factor are
   appended or rotated out (`tvbandits.gp.cholesky`).
2. If noise variances changed, and the prior covariance of a finite domain has a low numerical rank r, as
   it has under smooth kernels, a dictionary of r of its points spans the domain. The sparse posterior on
   it is the exact one to rounding, and new noise variances cost O(u r^2 + r^2 A) for u distinct inputs.
3. If the reward drifts by a Markov process and few features span a finite domain, the Kalman filter on
   these features is the exact posterior to rounding. An observation costs the square of their number,
   however many came before.
4. In any other case the kernel matrix is factorised anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tvbandits.gp.cholesky import (
    CONFIG,
    ExactPosterior,
    extend,
    factor,
    find_cheaper_state,
    find_spanning_dictionary,
    reject_repetitive,
)
from tvbandits.gp.posterior import Conditioning, Groups, PosteriorRule, drop_negligible
from tvbandits.gp.sparse import SparsePosterior, assemble
from tvbandits.gp.state_space import StateSpacePosterior, condition_filter


@dataclass(frozen=True)
class Exact(PosteriorRule):
    """A posterior rule that computes the exact posterior.

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
    needs_all_rows: ClassVar[bool] = True

    def condition(
        self, conditioning: Conditioning
    ) -> ExactPosterior | SparsePosterior | StateSpacePosterior:
        """Return the exact posterior given the data, by the cheapest route."""
        kernel, data, grid, now, previous, *_ = conditioning
        if data.levels is not None:
            # The level of the latest time changes with each of its readings.
            data = drop_negligible(kernel, data)
            return _condition_with_levels(conditioning._replace(data=data))
        if grid is not None and grid.space_time:
            continues = isinstance(previous, StateSpacePosterior) and data.starts_with(
                previous.data
            )
            state = find_cheaper_state(len(data.Z), grid, continues)
            if state is not None:
                return condition_filter(conditioning, lambda: state)
        data = drop_negligible(kernel, data)
        if isinstance(previous, ExactPosterior):
            extended = extend(previous, data, grid, now)
            extended = None if extended is None else reject_repetitive(extended)
            if extended is not None:
                return extended
        # Where rows were appended until now, a new factor is better: later rows can be appended to it.
        appends = isinstance(previous, ExactPosterior) and previous.extended
        if grid is None or grid.space_time or appends or len(data.Z) < CONFIG.few:
            return factor(kernel, data, grid, now)
        sparse = previous if isinstance(previous, SparsePosterior) else None
        groups = Groups.of(data.Z, None if sparse is None else sparse.groups)
        if len(groups.first) < CONFIG.few or not grid.contains(groups.keys):
            return factor(kernel, data, grid, now)
        span: ExactPosterior | None = grid.remember(find_spanning_dictionary)
        if span is None or len(groups.first) < span.size:
            return factor(kernel, data, grid, now)
        conditioning = conditioning._replace(data=data)
        return assemble(conditioning, groups, span, lowest=CONFIG.span_tolerance, exact=True)


def _condition_with_levels(conditioning: Conditioning) -> ExactPosterior | SparsePosterior:
    """Condition on readings that share levels, on a spanning dictionary of the domain if it is small."""
    kernel, data, grid, now, *_ = conditioning
    span: ExactPosterior | None = None
    if grid is not None and not grid.space_time and len(data) > 0:
        span = grid.remember(find_spanning_dictionary)
    if span is None:
        return factor(kernel, data, grid, now)
    groups = Groups.of(data.inputs_with_levels)
    return assemble(conditioning, groups, span, lowest=CONFIG.span_tolerance, exact=True)
