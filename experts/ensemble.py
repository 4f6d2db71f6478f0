"""`Ensemble`: several experts asked as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtri

from tvbandits.core.arrays import Array, as_points, as_time, usable_variances
from tvbandits.core.coercion import shown
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import (
    Answers,
    Expert,
    ExpertUnavailableError,
    inform,
    is_mistake,
    restored,
    state_of,
)
from tvbandits.experts.asking import ask, checked_expert

DISAGREEMENT = 0.01
"""Honest experts differ by as much as to be called in disagreement about once in a hundred points."""


@dataclass(eq=False, repr=False)
class Ensemble:
    """Asks several experts and combines those that answer, point by point.

    The value is the mean weighted by 1 / variance, and its variance 1 / sum(1 / variance): right if
    the errors of the experts are independent of each other. Where they share an error (the same
    satellite behind both), the stated variance is too small. Costs add up.

    Where k answers scatter about their mean by more chi-square than honest ones do in 99% of the cases,
    the variance is multiplied by chi-square / (k - 1), the squared Birge ratio, as metrology does with
    laboratories that disagree; a note says at how many points.

    An expert that cannot be reached is left out, with a note; only if that is true of all of them the
    ensemble is unavailable. A mistake in one of them is raised.

    Parameters
    ----------
    experts : sequence of Expert
        At least one; they are asked one after the other, in this order.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import CallableExpert, Ensemble
    >>> sure = CallableExpert(lambda X, t: X[:, 0], variance=0.01)
    >>> unsure = CallableExpert(lambda X, t: X[:, 0] + 1.0, variance=1.0)
    >>> print(Ensemble([sure, unsure]).query(np.array([[2.0]]), 1.0).values.round(2))
    [2.01]
    """

    experts: Sequence[Expert]

    def __post_init__(self) -> None:
        if not isinstance(self.experts, Sequence) or len(self.experts) == 0:
            raise ValueError(
                f"experts must be a sequence of at least one expert, got {shown(self.experts)}"
            )
        self.experts = tuple(checked_expert(each, "each of experts") for each in self.experts)

    def __repr__(self) -> str:
        return f"Ensemble([{', '.join(map(repr, self.experts))}])"

    def observe(self, rewards: Observations) -> None:
        """Show rewards to every expert."""
        for expert in self.experts:
            inform(expert, rewards)

    def state(self) -> dict[str, Any]:
        """What each expert knows."""
        return {"experts": [state_of(expert) for expert in self.experts]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Give each expert back what it knew."""
        inside = state.get("experts")
        if not isinstance(inside, Sequence) or len(inside) != len(self.experts):
            raise ValueError(f"not the state of an ensemble of {len(self.experts)} experts")
        before = [state_of(expert) for expert in self.experts]
        try:
            for expert, each in zip(self.experts, inside, strict=True):
                restored(expert, each)
        except ValueError:
            for expert, each in zip(self.experts, before, strict=True):
                restored(expert, each)
            raise

    def query(self, X: Array, t: float) -> Answers:
        """Ask every expert about all the points.

        Raises
        ------
        ExpertUnavailableError
            If none can be reached; its cause is the last error.
        """
        points, when = as_points(X), as_time(t)
        said: list[Answers] = []
        notes: list[str] = []
        last: Exception | None = None
        for number, expert in enumerate(self.experts, start=1):
            try:
                answers = ask(expert, points, when)
            except Exception as error:
                if is_mistake(error):
                    raise
                last = error
                what = f"{type(error).__name__}: {error}"
                notes.append(f"expert {number} ({type(expert).__name__}) left out: {what}")
            else:
                said.append(answers)
                notes += answers.notes
        if last is not None and not said:
            count = len(self.experts)
            raise ExpertUnavailableError(
                f"none of {count} experts can be reached: {'; '.join(notes)}"
            ) from last
        values, variance, torn = self._combined(said)
        if torn:
            where = f"{torn} of {len(points)} points"
            notes.append(f"experts disagree on {where}: their variance is inflated")
        return Answers(values, variance, sum(each.cost for each in said), tuple(notes))

    def _combined(self, said: list[Answers]) -> tuple[Array, Array, int]:
        """Values and variances (q,), and the number of points on which answers disagree."""
        answers = np.array([each.values for each in said])
        has = ~np.isnan(answers)
        stated = np.where(has, np.array([each.variance for each in said]), np.inf)
        count = has.sum(axis=0)
        # Relative to the smallest variance, so that no inverse overflows.
        least = np.where(count > 0, stated.min(axis=0), np.nan)
        weights = np.where(has, least / stated, 0.0)
        total = np.where(count > 0, weights.sum(axis=0), np.nan)
        values = np.where(has, weights * answers, 0.0).sum(axis=0) / total
        variance = usable_variances(least / total)
        gap = np.where(has, answers - values, 0.0)
        scatter = (weights * gap**2).sum(axis=0)  # chi-square times the smallest variance
        free = np.maximum(count - 1, 1)
        torn = (count > 1) & (scatter > least * chdtri(free, DISAGREEMENT))
        variance = np.where(torn, usable_variances(scatter / free / total), variance)
        return values, variance, int(torn.sum())
