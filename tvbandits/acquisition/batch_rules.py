"""Batches: several points to play before any of their rewards is known.

Within a batch the posterior mean stands still and the variances shrink as if the points chosen so far
had been observed (their rewards are not needed for that). The width is inflated by a bound C on the
ratio of the deviations at the batch's start to those now, and the batch ends when it could be exceeded:

==============  ==========================================================  ========================
rule            ends when                                                   used by
==============  ==========================================================  ========================
`One`           one point is chosen                                         sequential policies
`GlobalRatio`   1 + sum_s var_start(x_s) / v > C                            BBKB, Lemma 1
`LocalRatio`    so, and max_x 1 + sum_s cov_start(x, x_s)^2 /
                (var_start(x) v) > C                                        BBKB, Lemma 3
`ProductRatio`  prod_s (1 + var_{s-1}(x_s) / v) > C                         GP-BUCB (Desautels 2014)
==============  ==========================================================  ========================

The point that exceeds the bound is the last of its batch ([BB] Algorithm 1, L4-L9). While the scale of
the reward is to be learned and nothing is told, no variance has a unit: a batch is one point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

from tvbandits.core.arrays import Array, finite_number, whole_number
from tvbandits.core.coercion import shown

# Of a batch's bounds to those of its start.
MOST_RATIO = 1e6


@dataclass(frozen=True)
class BatchStep:
    """A point that was added to a batch.

    Attributes
    ----------
    start, now : float
        Its variance over its noise variance, at the batch's start and just before it was added.
    local : callable
        `local()` returns cov_start(x, x_s)^2 / (var_start(x) v) at all fixed points x, shape (A,).
    """

    start: float
    now: float
    local: LocalShares


class BatchLimitWarning(UserWarning):
    """A batch ended at its largest size, and its rule would have gone on; the message says why."""


class LocalShares(Protocol):
    """Computes the local rule's shares when they are needed."""

    def __call__(self) -> Array:
        """Return an array of shape (A,)."""


class Monitor(Protocol):
    """Watches one batch."""

    def full(self, step: BatchStep) -> bool:
        """Whether the batch ends with this point."""


class BatchRule(Protocol):
    """When a batch ends."""

    @property
    def ratio_bound(self) -> float:
        """C, which the width is multiplied by."""

    def monitor(self) -> Monitor:
        """A new watch for a new batch."""


# Most points of a batch, however it is asked for.
LARGEST_BATCH = 100_000


# A batch rule alone gives no more points, unless it is said.
USUAL_LARGEST = 1_000


@dataclass(frozen=True)
class One:
    """A batch of one."""

    @property
    def ratio_bound(self) -> float:
        """1."""
        return 1.0

    def monitor(self) -> Monitor:
        """Ends at once."""
        return _Always()


class _Always:
    def full(self, step: BatchStep) -> bool:  # noqa: ARG002 - one face for all
        return True


class FixedSize:
    """Watches a batch of a given size."""

    def __init__(self, size: int) -> None:
        self.left = size

    def full(self, step: BatchStep) -> bool:  # noqa: ARG002 - one face for all
        """Count down."""
        self.left -= 1
        return self.left <= 0


@dataclass(frozen=True)
class GlobalRatio:
    """Lemma 1 of BBKB: a sum over the batch, O(1) a point.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.batch_rules import Batching, GlobalRatio
    >>> sites = Candidates([[float(x)] for x in range(20)])
    >>> batching = Batching(GlobalRatio(2.0))
    >>> bandit = Bandit(Recipe(sites, RBF(2.0), 1.0, mean=0.0, batching=batching))
    >>> print(len(bandit.ask(1)), "points at once")
    2 points at once
    """

    ratio_bound: float = 2.0

    def __post_init__(self) -> None:
        _check_bound(self.ratio_bound)

    def monitor(self) -> Monitor:
        """A running sum."""
        return _Sum(self.ratio_bound)


class _Sum:
    def __init__(self, bound: float) -> None:
        self.bound, self.total = bound, 1.0

    def full(self, step: BatchStep) -> bool:
        self.total += step.start
        return self.total > self.bound


@dataclass(frozen=True)
class LocalRatio:
    """Lemma 1 of BBKB while it suffices, then Lemma 3: a sum at every point of the domain, O(A m).

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.batch_rules import Batching, LocalRatio
    >>> sites = Candidates([[float(x)] for x in range(20)])
    >>> batching = Batching(LocalRatio(2.0))
    >>> bandit = Bandit(Recipe(sites, RBF(2.0), 1.0, mean=0.0, batching=batching))
    >>> print(len(bandit.ask(1)), "points at once")
    3 points at once
    """

    ratio_bound: float = 2.0

    def __post_init__(self) -> None:
        _check_bound(self.ratio_bound)

    def monitor(self) -> Monitor:
        """A running sum, then running sums."""
        return _LocalSum(self.ratio_bound)


class _LocalSum:
    def __init__(self, bound: float) -> None:
        self.bound, self.total = bound, 1.0
        self.waiting: list[LocalShares] = []
        self.sums: Array | None = None

    def full(self, step: BatchStep) -> bool:
        self.total += step.start
        self.waiting.append(step.local)
        if self.total <= self.bound:
            return False
        for local in self.waiting:
            shares = local()
            self.sums = shares if self.sums is None else self.sums + shares
        self.waiting = []
        assert self.sums is not None
        return 1.0 + float(self.sums.max()) > self.bound


@dataclass(frozen=True)
class ProductRatio:
    """The rule of GP-BUCB: a product of the variances as they shrink.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.batch_rules import Batching, ProductRatio
    >>> sites = Candidates([[float(x)] for x in range(20)])
    >>> batching = Batching(ProductRatio(2.0))
    >>> bandit = Bandit(Recipe(sites, RBF(2.0), 1.0, mean=0.0, batching=batching))
    >>> print(len(bandit.ask(1)), "points at once")
    2 points at once
    """

    ratio_bound: float = 2.0

    def __post_init__(self) -> None:
        _check_bound(self.ratio_bound)

    def monitor(self) -> Monitor:
        """A running product."""
        return _Product(self.ratio_bound)


class _Product:
    def __init__(self, bound: float) -> None:
        self.bound, self.log_total = math.log(bound), 0.0

    def full(self, step: BatchStep) -> bool:
        self.log_total += math.log1p(step.now)
        return self.log_total > self.bound


def _check_bound(bound: float) -> None:
    # A batch of n plays of one point shrinks its deviation by about the square root of n: a larger ratio
    # is that of a batch that nobody waits for.
    finite_number("ratio_bound", bound, low=1.0, high=MOST_RATIO)


@dataclass(frozen=True)
class Batching:
    """What ends a batch.

    Parameters
    ----------
    rule : BatchRule
        One point by default.
    smallest : int
        With P > 1, batches begin with P most uncertain points, until no variance exceeds 1/P of the
        noise variance: from then on no batch of BBKB is smaller than P (C - 1) ([BB], section 4).
    largest : int
        A batch ends here at the latest, with a warning if the rule would go on. A rule of variances
        goes on for long where the noise variance is large beside the prior variance.

    Raises
    ------
    ValueError
        If the rule is none, or a number is no whole number of at least 1.
    """

    rule: BatchRule = field(default_factory=One)
    smallest: int = 1
    largest: int = USUAL_LARGEST

    def __post_init__(self) -> None:
        rule: object = self.rule
        if isinstance(rule, type) or not callable(getattr(rule, "monitor", None)):
            raise ValueError(
                f"rule must be a batch rule such as One() or GlobalRatio(2.0); got {shown(rule)}"
            )
        for name in ("smallest", "largest"):
            whole_number(name, getattr(self, name), at_most=LARGEST_BATCH)
