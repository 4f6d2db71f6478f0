"""What a bandit tells people of its last ask and tell (`Info`); nothing that it does depends on it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

from numpy.typing import ArrayLike

from tvbandits.gp.ensemble.models import ModelSpec
from tvbandits.gp.noise import NoiseEstimate
from tvbandits.text import as_text
from tvbandits.validation import Array


@dataclass(frozen=True)
class PosteriorInfo:
    """The posterior of the last decision.

    Attributes
    ----------
    in_use, forgotten : int
        Observations that the posterior uses, and those that aging has forgotten.
    jitter : float
        What the factorisation needed on its diagonal, 0 in good health; `state.posterior` estimates its
        condition number.
    dictionary_size : int or None
        Inducing points of a sparse posterior; None for the exact one.
    """

    in_use: int = 0
    forgotten: int = 0
    jitter: float = 0.0
    dictionary_size: int | None = None


@dataclass(frozen=True)
class ModelInfo:
    """What was learned about the reward.

    Attributes
    ----------
    mean, scale : float
        Prior mean and prior scale of the reward, in its unit.
    fits : int
        How many times something was learned.
    forgetting_rate : float
        The rate of the aging map, where it was learned; NaN elsewhere.
    resets : int
        How many times everything older was forgotten at an event.
    nugget : float
        Deviation of what an ensemble has found to be new at every place at every time; 0 elsewhere.
    models : tuple of pairs (weight, ModelSpec)
        The models of an ensemble with the largest weights; empty elsewhere.
    deviation_factor : float
        Factor on all deviations, above 1 where a learned kernel or an ensemble was over-confident.
    coverage : float
        Share of the latest 95% intervals that held the reading, where they are watched; NaN elsewhere.
    noise : NoiseEstimate or None
        The noise variance of a reward, where it is learned.
    """

    mean: float = 0.0
    scale: float = 1.0
    fits: int = 0
    forgetting_rate: float = math.nan
    resets: int = 0
    nugget: float = 0.0
    models: tuple[tuple[float, ModelSpec], ...] = ()
    deviation_factor: float = 1.0
    coverage: float = math.nan
    noise: NoiseEstimate | None = None


@dataclass(frozen=True)
class QueryInfo:
    """The expert's last query, and all of them.

    Attributes
    ----------
    asked, answered, refused : int
        Of the last query.
    total_asked, total_answered, total_refused : int
        Of all queries.
    failures : int
        Queries that the expert failed on as a whole.
    notes : tuple of str
        What the expert said about the last query besides its answers.
    cost, total_cost : float
        As the expert states it.
    """

    asked: int = 0
    answered: int = 0
    refused: int = 0
    total_asked: int = 0
    total_answered: int = 0
    total_refused: int = 0
    failures: int = 0
    notes: tuple[str, ...] = ()
    cost: float = 0.0
    total_cost: float = 0.0


@dataclass(frozen=True, repr=False)
class Info:
    """What happened last, for people: nothing that a bandit does depends on it.

    Attributes
    ----------
    readings, failed : int
        Rewards so far, and points that were played without a reading.
    outliers : int
        Rewards that were set aside, which count among the readings.
    beta : float
        Confidence width of the last decision, in posterior deviations.
    posterior : PosteriorInfo
    model : ModelInfo
    queries : QueryInfo
    health : tuple of str
        Signs that the run is lost, in words; empty in good health.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    >>> info = bandit.tell([[0.0], [1.0]], [0.2, float("nan")], 1)
    >>> print(info.readings, info.failed)
    1 1
    """

    readings: int = 0
    failed: int = 0
    outliers: int = 0
    beta: float = math.nan
    posterior: PosteriorInfo = field(default_factory=PosteriorInfo)
    model: ModelInfo = field(default_factory=ModelInfo)
    queries: QueryInfo = field(default_factory=QueryInfo)
    health: tuple[str, ...] = ()

    @property
    def summary(self) -> list[tuple[str, object]]:
        """What people want to see first: names and values."""
        asked, noise = self.queries.total_asked, self.model.noise
        return [
            ("readings", self.readings),
            *([("failed", self.failed)] if self.failed else []),
            *([("outliers", self.outliers)] if self.outliers else []),
            ("width", self.beta),
            ("in use", self.posterior.in_use),
            ("mean", self.model.mean),
            ("scale", self.model.scale),
            *([] if math.isnan(self.model.coverage) else [("coverage", self.model.coverage)]),
            *([("noise variance", str(noise))] if noise is not None and noise.is_known else []),
            *([("asked", asked), ("answered", self.queries.total_answered)] if asked else []),
            *([("cost", self.queries.total_cost)] if self.queries.total_cost else []),
            *(("health", each) for each in self.health),
        ]

    def __repr__(self) -> str:
        return as_text("Info", self.summary)


class Player(Protocol):
    """What a comparison can play: a bandit, or anything with its ask and tell."""

    @property
    def info(self) -> Info:
        """What happened in the last ask and tell."""

    def ask(self, t: float | None = None) -> Array:
        """Where to play at time `t`, shape (b, d)."""

    def tell(self, X: ArrayLike, y: ArrayLike, t: ArrayLike | None = None) -> Info:
        """Learn rewards (b,) of points (b, d)."""
