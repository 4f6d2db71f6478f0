"""Confidence widths: rules for the beta of mu(x) + beta sigma(x)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from tvbandits.validation import (
    describe,
    finite_number,
    nonnegative_number,
    positive_number,
    require,
)

# A constant with little regret on problems that it was not chosen on. "theory", the width of the
# theorems, explores so much where the reward drifts that the choice is often almost uniform.
DEFAULT_WIDTH = 2.0


# Largest constant width, with which an upper bound does not overflow.
LARGEST_WIDTH = 1e50


@dataclass(frozen=True)
class Situation:
    """The quantities that a width may depend on.

    Attributes
    ----------
    log_det_ratio : float
        log det(Sigma + K) - log det Sigma of the observations in use: twice the information gain.
    count : int
        Number of rewards so far; the "t" of the schedules is `count + 1` (the next decision).
    candidates : int or None
        Size of a finite domain.
    bbkb_information : float
        Sum over all rewards of log(1 + 3 variance / noise variance), each with the variance at the start
        of its batch: the sum of [BB] Theorem 2.
    effective_dimension : callable
        Returns the sum over the observations in use of posterior variance over noise variance.
    at_a_time : callable
        Returns the average number of rewards at one time, of the latest; 0 before the first.
    """

    log_det_ratio: float
    count: int
    candidates: int | None
    bbkb_information: float = 0.0
    effective_dimension: Callable[[], float] = float
    at_a_time: Callable[[], float] = float


class Confidence(Protocol):
    """A rule for the width beta of the next decision."""

    def __call__(self, situation: Situation) -> float:
        """Return beta, which is not negative."""


@dataclass(frozen=True)
class WithProbability:
    """The parameters of the width of a theorem; see `Theory`."""

    delta: float = 0.05
    norm_bound: float = 1.0

    def __post_init__(self) -> None:
        finite_number("delta", self.delta, above=0.0, high=1.0)
        nonnegative_number("norm_bound", self.norm_bound)


@dataclass(frozen=True)
class Theory(WithProbability):
    """The width of SparQ-GP-UCB's Theorem 3.1, valid for heteroscedastic noise (Kirschner 2018).

    beta = sqrt(2 log(2/delta) + log det(Sigma + K) - log det Sigma) + norm_bound

    Parameters
    ----------
    delta : float
        Probability that the bounds fail, in (0, 1].
    norm_bound : float
        B >= ||f||_k, the bound on the norm of the (standardised) reward.

    Examples
    --------
    >>> from tvbandits.acquisition.widths import Theory, Situation
    >>> situation = Situation(log_det_ratio=6.0, count=20, candidates=100)
    >>> print(f"{Theory(delta=0.05)(situation):.3f}")
    4.658
    """

    def __call__(self, situation: Situation) -> float:
        """Return beta from the information gain of the observations in use."""
        return math.sqrt(2 * math.log(2 / self.delta) + situation.log_det_ratio) + self.norm_bound


@dataclass(frozen=True)
class Srinivas:
    """The width sqrt(2 log(|D| t^2 pi^2 / (6 delta))) of a finite domain D (Srinivas 2010, Theorem 1).

    Examples
    --------
    >>> from tvbandits.acquisition.widths import Srinivas, Situation
    >>> situation = Situation(log_det_ratio=6.0, count=20, candidates=100)
    >>> print(f"{Srinivas()(situation):.3f}")
    5.327
    """

    delta: float = 0.05

    def __post_init__(self) -> None:
        finite_number("delta", self.delta, above=0.0, high=1.0)

    def __call__(self, situation: Situation) -> float:
        """Return beta from the size of the domain."""
        if situation.candidates is None:
            raise ValueError("this width needs a finite domain: give Candidates, or another width")
        t = situation.count + 1
        size = situation.candidates * t**2 * math.pi**2 / (6 * self.delta)
        return math.sqrt(2 * math.log(size))


@dataclass(frozen=True)
class Logarithmic:
    """The width sqrt(c1 log(c2 t)), with the constants of Bogunovic (2016) for TV-GP-UCB.

    Examples
    --------
    >>> from tvbandits.acquisition.widths import Logarithmic, Situation
    >>> situation = Situation(log_det_ratio=6.0, count=20, candidates=100)
    >>> print(f"{Logarithmic()(situation):.3f}")
    1.883
    """

    c1: float = 0.8
    c2: float = 4.0

    def __post_init__(self) -> None:
        nonnegative_number("c1", self.c1)
        positive_number("c2", self.c2)

    def __call__(self, situation: Situation) -> float:
        """Return beta from the number of decisions, not below 0."""
        return math.sqrt(max(self.c1 * math.log(self.c2 * (situation.count + 1)), 0.0))


@dataclass(frozen=True)
class BKBWidth(WithProbability):
    """The width of BKB ([B] Theorem 2), with the regulariser lambda = noise variance.

    beta = 2 sqrt(a log(t) d + log(1/delta)) + (1 + 1/sqrt(1 - e)) norm_bound, with the effective
    dimension d, the accuracy e of the dictionary and a = (1 + e) / (1 - e). The paper scales deviations
    by 1/sqrt(lambda) and widths by sqrt(lambda); here both are in prior units, kappa = 1.

    Examples
    --------
    >>> from tvbandits.acquisition.widths import BKBWidth, Situation
    >>> situation = Situation(6.0, count=20, candidates=100, effective_dimension=lambda: 3.0)
    >>> print(f"{BKBWidth()(situation):.3f}")
    13.361
    """

    def __call__(self, situation: Situation) -> float:
        """Return beta from the effective dimension."""
        accuracy = 0.5  # of the dictionary
        ratio = (1 + accuracy) / (1 - accuracy)
        information = ratio * math.log(max(situation.count, 1)) * situation.effective_dimension()
        bias = (1 + 1 / math.sqrt(1 - accuracy)) * self.norm_bound
        return 2 * math.sqrt(information + math.log(1 / self.delta)) + bias


@dataclass(frozen=True)
class BBKBWidth(WithProbability):
    """The width of BBKB ([BB] Theorem 2), with the regulariser lambda = noise variance.

    beta = 2 sqrt(sum_s log(1 + 3 variance_s / noise variance) + log(1/delta)) + (1 + sqrt 2) norm_bound,
    with the variances at the start of each batch; scaled as in `BKBWidth`.

    Examples
    --------
    >>> from tvbandits.acquisition.widths import BBKBWidth, Situation
    >>> situation = Situation(log_det_ratio=6.0, count=20, candidates=100, bbkb_information=8.0)
    >>> print(f"{BBKBWidth()(situation):.3f}")
    9.046
    """

    def __call__(self, situation: Situation) -> float:
        """Return beta from the information of all batches."""
        root = math.sqrt(situation.bbkb_information + math.log(1 / self.delta))
        return 2 * root + (1 + math.sqrt(2)) * self.norm_bound


@dataclass(frozen=True)
class ThompsonWidth(BBKBWidth):
    """A tenth of the width of BBKB, for asynchronous Thompson sampling in [BB], appendix D.1.

    "To reduce overexploration we divide beta_t by a factor of 10 only for Async-TS."

    Examples
    --------
    >>> from tvbandits.acquisition.widths import Situation, ThompsonWidth
    >>> situation = Situation(log_det_ratio=6.0, count=20, candidates=100, bbkb_information=8.0)
    >>> print(f"{ThompsonWidth()(situation):.3f}")
    0.905
    """

    def __call__(self, situation: Situation) -> float:
        """Return beta from the information of all batches."""
        return super().__call__(situation) / 10


@dataclass(frozen=True)
class BBKBProgramWidth(WithProbability):
    """The width in the program of BBKB's authors, which is smaller than that of their theorem.

    beta = norm_bound + sqrt(log(t) d + log(1/delta)), with the sum d over the t plays of posterior
    variance over noise variance; in prior units, as in `BKBWidth`. Their program (batch-bkb,
    `_update_beta`) has delta = 1/T in the experiments of [BB].
    """

    def __call__(self, situation: Situation) -> float:
        """Return beta from the effective dimension."""
        information = math.log(max(situation.count, 1)) * situation.effective_dimension()
        return self.norm_bound + math.sqrt(information + math.log(1 / self.delta))


@dataclass(frozen=True)
class Fixed:
    """A constant width.

    Examples
    --------
    >>> from tvbandits.acquisition.widths import Fixed, Situation
    >>> print(Fixed(1.5)(Situation(log_det_ratio=6.0, count=20, candidates=100)))
    1.5
    """

    value: float = 2.0

    def __post_init__(self) -> None:
        finite_number("value", self.value, low=0.0, high=LARGEST_WIDTH)

    def __call__(self, situation: Situation) -> float:
        """Return the constant."""
        return self.value


@dataclass(frozen=True)
class PlaysAtATime:
    """A width that grows with the number n of plays at one time: width sqrt(n), at most `most`.

    A reward tells about all further plays at its time, so that exploration is worth more where there are
    many of them. Where the reward drifts from play to play, n is 1.

    Examples
    --------
    >>> from tvbandits.acquisition.widths import PlaysAtATime, Situation
    >>> situation = Situation(log_det_ratio=6.0, count=20, candidates=None, at_a_time=lambda: 4.0)
    >>> print(PlaysAtATime(0.5)(situation))
    1.0
    """

    width: float = 1.0
    most: float = DEFAULT_WIDTH

    def __post_init__(self) -> None:
        for name in ("width", "most"):
            finite_number(name, getattr(self, name), low=0.0, high=LARGEST_WIDTH)

    def __call__(self, situation: Situation) -> float:
        """Return beta from the average number of rewards at one time."""
        return min(self.width * math.sqrt(max(situation.at_a_time(), 1.0)), self.most)


# Widths by name.
WIDTHS: dict[str, Confidence] = {
    "theory": Theory(),
    "srinivas": Srinivas(),
    "logarithmic": Logarithmic(),
    "bkb": BKBWidth(),
    "bbkb": BBKBWidth(),
    "bbkb-program": BBKBProgramWidth(),
    "thompson": ThompsonWidth(),
}

# The widths of one paper, by these names.
Widths: TypeAlias = Mapping[str, Callable[..., Confidence]]


def as_confidence(width: Confidence | float | str) -> Confidence:
    """Return the width of a name in `WIDTHS`, such as "theory", or of a number; or a width unchanged."""
    if isinstance(width, str):
        if width.casefold() in WIDTHS:
            return WIDTHS[width.casefold()]
        try:
            width = float(width)
        except ValueError:
            raise ValueError(f'beta must be "theory" or a number, got {describe(width)}') from None
    if isinstance(width, bool | int | float | np.integer | np.floating):
        return Fixed(finite_number("beta", width, low=0.0, high=LARGEST_WIDTH))
    is_rule = callable(width) and not isinstance(width, type)
    require(is_rule, "beta", '"theory", a number or a Confidence', width)
    return width
