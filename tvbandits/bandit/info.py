"""Information for the user about the last `ask` and `tell`; no decision of a bandit depends on it."""

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
    """Information about the posterior of the last decision.

    Attributes
    ----------
    in_use, forgotten : int
        The numbers of observations that the posterior uses, and that are forgotten by their age.
    jitter : float
        The value added to the diagonal of the covariance matrix so that it could be factored, usually 0;
        `state.posterior` estimates the condition number.
    dictionary_size : int or None
        The number of inducing points of a sparse posterior; None for the exact one.
    """

    in_use: int = 0
    forgotten: int = 0
    jitter: float = 0.0
    dictionary_size: int | None = None


@dataclass(frozen=True)
class ModelInfo:
    """Information about the learned model of the reward.

    Attributes
    ----------
    mean, scale : float
        Prior mean and prior standard deviation of the reward, in its unit.
    fits : int
        The number of fits of the kernel or the forgetting rate.
    forgetting_rate : float
        The rate of the aging map if it is learned; otherwise NaN.
    resets : int
        The number of events at which everything older was forgotten.
    nugget : float
        Standard deviation of the part of the reward that is independent at every point and time,
        learned by an ensemble; otherwise 0.
    models : tuple of pairs (weight, ModelSpec)
        The models of an ensemble with the largest weights; otherwise empty.
    deviation_factor : float
        A factor on all standard deviations, above 1 if a learned kernel or an ensemble was
        over-confident.
    coverage : float
        The fraction of the latest 95% intervals that covered the reading; NaN if it is not computed.
    noise : NoiseEstimate or None
        The noise variance of a reward if it is learned.
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
    """Information about the last expert query, and about all of them.

    Attributes
    ----------
    asked, answered, refused : int
        The numbers of points in the last query, of answers, and of points without an answer.
    total_asked, total_answered, total_refused : int
        The sums over all queries.
    failures : int
        The number of queries during which the expert was down.
    notes : tuple of str
        Notes of the expert about the last query.
    cost, total_cost : float
        The cost of the last query and of all, as the expert states it.
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
    """Information for the user about the last `ask` and `tell`; no decision depends on it.

    Attributes
    ----------
    readings, failed : int
        The numbers of rewards so far, and of plays whose reading failed.
    outliers : int
        The number of rewards that a robust bandit ignores; they count among the readings.
    beta : float
        Confidence width of the last decision, in posterior standard deviations.
    posterior : PosteriorInfo
    model : ModelInfo
    queries : QueryInfo
    health : tuple of str
        Signs of trouble, in words; usually empty.

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
        """Return names and values for a short text."""
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
            *(("health", sign) for sign in self.health),
        ]

    def __repr__(self) -> str:
        return as_text("Info", self.summary)


class Player(Protocol):
    """A player in a comparison: a bandit, or any object with its `info`, `ask` and `tell`."""

    @property
    def info(self) -> Info:
        """Return information about the last `ask` and `tell`."""

    def ask(self, t: float | None = None) -> Array:
        """Return the points (b, d) to play at time `t`."""

    def tell(self, X: ArrayLike, y: ArrayLike, t: ArrayLike | None = None) -> Info:
        """Learn the rewards (b,) of points (b, d)."""
