"""What was learned, and Info."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tvbandits.core.arrays import Array
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import Domain
from tvbandits.forgetting.aging import Aging
from tvbandits.gp.fitting.online import Learned
from tvbandits.gp.fitting.standardisation import Scaling
from tvbandits.gp.kernels.terms import Component
from tvbandits.gp.posteriors.protocol import Posterior
from tvbandits.queries.consultation import Consultation
from tvbandits.queries.pool import Choice, Members


def with_queries(
    info: Info, choice: Choice, asked: Consultation, seconds: Mapping[str, float]
) -> Info:
    """`info` after a query: counts of this one, and of all."""
    said = asked.said
    points, answered = len(choice.rows), int(said.answered.sum())
    return replace(
        info,
        queries_asked=points,
        queries_answered=answered,
        queries_refused=points - answered,
        total_asked=info.total_asked + points,
        total_answered=info.total_answered + answered,
        total_refused=info.total_refused + points - answered,
        expert_failures=info.expert_failures + (asked.failure is not None),
        cost=said.cost,
        total_cost=info.total_cost + said.cost,
        notes=said.notes,
        acceptance=choice.acceptance,
        seconds=seconds,
    )


@dataclass(frozen=True)
class Info:
    """What happened in the last `ask` and `tell`, for people.

    Decision fields speak about the last `ask` (or `predict`), query fields about the last `tell`.

    Attributes
    ----------
    told : int
        Rewards told so far.
    beta : float
        Confidence width, in posterior deviations.
    jitter, condition : float
        What the factorisation needed on its diagonal (0 in good health), and a lower estimate of the
        condition number.
    in_use, forgotten : int
        Observations that the posterior uses, and those that aging has forgotten.
    effective_sample_size : float
        Sum over the observations in use of made-with variance over effective variance.
    information_gain : float
        1/2 log det(I + Sigma^-1 K), in nats.
    dictionary_size : int or None
        Inducing points of a sparse posterior; None for the exact one.
    batch_size : int
        Points returned by the last ask.
    batch_looks : int
        Variances that had to be computed for them.
    centre, scale : float
        Prior mean and prior scale of the reward, in its unit.
    fits : int
        How many times something was learned.
    pace : float
        The pace of the aging map, where it was learned; NaN elsewhere.
    learned : tuple of Component
        The terms of the kernel, with their deviations and scales; empty where it is not a sum of terms.
    resets : int
        How many times everything older was forgotten at an event.
    queries_asked, queries_answered, queries_refused : int
        Of the last tell.
    total_asked, total_answered, total_refused : int
        Of all tells.
    expert_failures : int
        Queries that the expert failed on as a whole.
    notes : tuple of str
        What the expert said about the last query besides its answers.
    cost, total_cost : float
        As the expert states it.
    acceptance : float
        Share of the k-DPP chain's steps that moved; NaN where no chain ran.
    seconds : mapping of str to float
        Time of each part: posterior, acquisition, queries, expert.
    """

    told: int = 0
    beta: float = math.nan
    jitter: float = 0.0
    condition: float = 1.0
    in_use: int = 0
    forgotten: int = 0
    effective_sample_size: float = 0.0
    information_gain: float = 0.0
    dictionary_size: int | None = None
    batch_size: int = 0
    batch_looks: int = 0
    centre: float = 0.0
    scale: float = 1.0
    fits: int = 0
    pace: float = math.nan
    learned: tuple[Component, ...] = ()
    resets: int = 0
    queries_asked: int = 0
    queries_answered: int = 0
    queries_refused: int = 0
    total_asked: int = 0
    total_answered: int = 0
    total_refused: int = 0
    expert_failures: int = 0
    notes: tuple[str, ...] = ()
    cost: float = 0.0
    total_cost: float = 0.0
    acceptance: float = math.nan
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """Everything a bandit has learned; can be pickled, and resumed by `Bandit.from_state`.

    `since` counts the first rewards and the first answers that an event has made forgotten; `informed`
    says whether a question was answered since the last decision.
    """

    rewards: Observations
    answers: Observations
    visited: Array
    pool: Members
    time: float | None
    asked_for: float | None
    scaling: Scaling
    kernel: Any
    aging: Aging
    posterior: Posterior | None
    random: Mapping[str, Any]
    domain: Domain
    spent: float = 0.0
    expert_down: bool = False
    since: tuple[int, int] = (0, 0)
    learned: Learned | None = None
    informed: bool = False
    info: Info = field(default_factory=Info, compare=False)
