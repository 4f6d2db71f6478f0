"""Policies for large domains and long runs: BKB and BBKB, and the batch policies beside them.

References
----------
D. Calandriello, L. Carratino, A. Lazaric, M. Valko and L. Rosasco. Gaussian process optimization with
    adaptive sketching: scalable and no regret. COLT 2019. ([B]; BKB)
D. Calandriello, L. Carratino, A. Lazaric, M. Valko and L. Rosasco. Near-linear time Gaussian process
    optimization with adaptive batching and resparsification. ICML 2020. ([BB]; BBKB)
I. Bogunovic, J. Scarlett, V. Cevher. Time-varying Gaussian process bandit optimization. AISTATS 2016.
    (the kernel over time of tv_bbkb)
T. Desautels, A. Krause and J. Burdick. Parallelizing exploration-exploitation tradeoffs in Gaussian
    process bandit optimization. JMLR 15, 2014. (GP-BUCB)
K. Kandasamy, A. Krishnamurthy, J. Schneider and B. Poczos. Parallelised Bayesian optimisation via
    Thompson sampling. AISTATS 2018.
D. Calandriello, L. Carratino, A. Lazaric, M. Valko and L. Rosasco. Scaling Gaussian process optimization
    by evaluating a few unique candidates multiple times. ICML 2022. ([Mini]; mini-GP-UCB)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack

import numpy as np

from tvbandits.acquisition.batches import (
    LARGEST_BATCH,
    MOST_RATIO,
    USUAL_LARGEST,
    Batching,
    BatchRule,
    GlobalRatio,
    LocalRatio,
    ProductRatio,
)
from tvbandits.acquisition.confidence import DEFAULT_WIDTH, BBKBProgramWidth, BBKBWidth, BKBWidth
from tvbandits.acquisition.rules import Decision, ThompsonSampling, UpperConfidenceBound
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import Array
from tvbandits.core.protocols import Domain
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.nystrom_filter import NystromFilter
from tvbandits.policies.forgetting import forgetting_kernel
from tvbandits.policies.setting import (
    Common,
    Learn,
    Modelled,
    Posterior,
    Width,
    assembled,
    learning_rule,
    listed,
)
from tvbandits.validation import choice, finite_number, whole_number


@listed(
    "a dictionary by leverage scores at every step",
    paper="Calandriello 2019",
    widths={"theory": BKBWidth},
)
def bkb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    oversampling: float = 2.0,
    keep: bool = True,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior | None = None,
    **common: Unpack[Modelled],
) -> Bandit:
    """BKB (Calandriello 2019), [B] Algorithm 1: a dictionary by leverage scores, drawn at every step.

    Parameters
    ----------
    oversampling : float
        q, by which leverage scores are multiplied.
    keep : bool
        Keep inducing points while they are few; False draws every dictionary afresh, as the paper does.
    confidence : Confidence, float or "theory"
        The width beta of mu + beta sigma; "theory" is that of [B] Theorem 2.
    posterior : Exact, Nystrom, StateSpace, "exact" or "nystrom", optional
        Instead of `Nystrom(oversampling, keep)`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.bkb(sites, RBF(1.0), 0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    sparse = Nystrom(oversampling, keep) if posterior is None else posterior
    return assembled(
        domain, kernel, noise_variance, confidence=confidence, posterior=sparse, **common
    )


# The widths of [BB] Theorem 2, and of its authors' program.
BBKB_WIDTHS = {"theory": BBKBWidth, "bbkb-program": BBKBProgramWidth}


@listed("the same in batches, rule=global|local", paper="Calandriello 2020", widths=BBKB_WIDTHS)
def bbkb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    ratio_bound: float = 2.0,
    rule: Literal["global", "local"] = "global",
    oversampling: float = 2.0,
    keep: bool = True,
    minimum_batch: int = 1,
    largest_batch: int = USUAL_LARGEST,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior | None = None,
    **common: Unpack[Modelled],
) -> Bandit:
    """BBKB (Calandriello 2020), [BB] Algorithm 1: batches that end before deviations halve.

    Parameters
    ----------
    ratio_bound : float
        C, the bound on the ratio of deviations at a batch's start to those in it.
    rule : "global" or "local"
        [BB] Lemma 1, or Lemma 1 and then Lemma 3.
    oversampling : float
        q, by which leverage scores are multiplied.
    keep : bool
        Keep inducing points while they are few; False draws every dictionary afresh, as the paper does.
    minimum_batch : int
        P: start by uncertainty sampling until no batch can be smaller.
    largest_batch : int
        A batch ends here at the latest, with a warning if the rule would go on.
    confidence : Confidence, float or "theory"
        The width beta of mu + beta sigma; "theory" is that of [BB] Theorem 2, "bbkb-program" the smaller
        one of its authors' program.
    posterior : Exact, Nystrom, StateSpace, "exact" or "nystrom", optional
        Instead of `Nystrom(oversampling, keep)`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.bbkb(sites, RBF(1.0), 0.01, rule="global")
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(bandit.recommend())
    [2.]
    """
    sparse = Nystrom(oversampling, keep) if posterior is None else posterior
    ends = RATIOS[choice("rule", rule, RATIOS)]
    return assembled(
        domain,
        kernel,
        noise_variance,
        confidence=confidence,
        posterior=sparse,
        batching=_batching(ends(ratio_bound), minimum_batch, largest_batch),
        **common,
    )


@listed(
    "bbkb whose dictionary forgets at rate epsilon",
    paper="Calandriello 2020 and Bogunovic 2016",
    widths=BBKB_WIDTHS,
)
def tv_bbkb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    epsilon: float | None = None,
    learn: Learn | None = None,
    ratio_bound: float = 2.0,
    rule: Literal["global", "local"] = "global",
    oversampling: float = 2.0,
    keep: bool = True,
    minimum_batch: int = 1,
    largest_batch: int = USUAL_LARGEST,
    confidence: Width = 1.0,
    **common: Unpack[Modelled],
) -> Bandit:
    """BBKB under the kernel of TV-GP-UCB: k(x, x') (1 - epsilon)^(abs(t - t') / 2), for large domains.

    Dictionary, batches and leaders are those of [BB]; the weights of the dictionary fade, and places
    that nobody has visited for long leave it. With epsilon = 0 it is `bbkb`. No paper has it.

    Parameters
    ----------
    epsilon : float, optional
        Rate of forgetting for a unit of time. Without it, it is learned by log evidence while it plays.
    learn : Every, int or bool, optional
        When to learn it: a rule, a number of rewards between two fits, or True for `Every()`.
    ratio_bound : float
        C, the bound on the ratio of deviations at a batch's start to those in it.
    rule : "global" or "local"
        [BB] Lemma 1, or Lemma 1 and then Lemma 3.
    oversampling : float
        q, by which leverage scores are multiplied.
    keep : bool
        Keep inducing points while they are few; False draws every dictionary afresh.
    minimum_batch : int
        P: start by uncertainty sampling until no batch can be smaller.
    largest_batch : int
        A batch ends here at the latest, with a warning if the rule would go on.
    confidence : Confidence, float or "theory"
        The width, which C multiplies: 1 plays with 2. "theory" is that of [BB] Theorem 2.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.tv_bbkb(sites, RBF(1.0), 0.01, epsilon=0.05)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(bandit.recommend())
    [2.]
    """
    learns = learning_rule("epsilon", epsilon, learn, Every(spread=math.inf, in_steps=True))
    ends = RATIOS[choice("rule", rule, RATIOS)]
    return assembled(
        domain,
        forgetting_kernel(kernel, epsilon),
        noise_variance,
        confidence=confidence,
        posterior=NystromFilter(oversampling, keep),
        batching=_batching(ends(ratio_bound), minimum_batch, largest_batch),
        learn=learns,
        **common,
    )


@listed("GP-UCB in batches", paper="Desautels 2014")
def gp_bucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    ratio_bound: float = 2.0,
    minimum_batch: int = 1,
    largest_batch: int = USUAL_LARGEST,
    **common: Unpack[Common],
) -> Bandit:
    """GP-BUCB (Desautels 2014): GP-UCB in batches, on the exact posterior.

    Parameters
    ----------
    ratio_bound : float
        C: a batch ends with the point that makes the product of 1 + variance / noise variance over its
        points exceed it.
    minimum_batch : int
        P: start by uncertainty sampling until no variance exceeds 1/P of the noise variance.
    largest_batch : int
        A batch ends here at the latest, with a warning if the rule would go on.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.gp_bucb(sites, RBF(1.0), 0.01, ratio_bound=2.0)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(bandit.recommend())
    [2.]
    """
    batching = _batching(ProductRatio(ratio_bound), minimum_batch, largest_batch)
    return assembled(domain, kernel, noise_variance, batching=batching, **common)


@dataclass(frozen=True)
class RepeatedUpperBound(UpperConfidenceBound):
    """Plays the point x of the largest upper bound B times, before it looks for another one ([Mini]).

        B = max(1, floor((C^2 - 1) v / var(x))),

    with v the noise variance. B plays divide var(x) by 1 + B var(x) / v, which is at most C^2 (but for
    B = 1): no deviation anywhere has shrunk by more than C when the next point is chosen, so that the
    bounds of the batch's start were good until its end. Before the first reward, when no variance has
    a unit, B = 1.
    """

    ratio_bound: float = 2.0

    def __post_init__(self) -> None:
        finite_number("ratio_bound", self.ratio_bound, low=1.0, high=MOST_RATIO)

    def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
        """One point B times, shape (B, d); of `n` points, each the next best one."""
        X = super().choose(replace(decision, batching=Batching()), rng)
        if decision.n is not None or decision.view.posterior.size == 0:
            return X
        (deviation,) = decision.deviation()(X)
        times = (self.ratio_bound**2 - 1.0) * decision.noise_variance / max(deviation**2, 1e-300)
        return np.repeat(X, int(np.clip(times, 1.0, decision.batching.largest)), axis=0)


@listed("few points, each many times", paper="Calandriello 2022")
def mini_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    ratio_bound: float = 2.0,
    largest_batch: int = USUAL_LARGEST,
    **common: Unpack[Common],
) -> Bandit:
    """mini-GP-UCB (Calandriello 2022): one point again and again, until its deviation has shrunk enough.

    An ask returns the point as often as it is to be played.

    Parameters
    ----------
    ratio_bound : float
        C, by which no deviation may have shrunk when the next point is chosen; 1 is GP-UCB.
    largest_batch : int
        So many plays of a point at the most, before the next decision.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.mini_gp_ucb(sites, RBF(1.0), 0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(bandit.recommend(), info.told > 10)
    [2.] True
    """
    most = whole_number("largest_batch", largest_batch, at_most=LARGEST_BATCH)
    rule, batching = RepeatedUpperBound(ratio_bound), Batching(largest=most)
    return assembled(domain, kernel, noise_variance, acquisition=rule, batching=batching, **common)


@listed("batches of posterior samples", paper="Kandasamy 2018", widths={"theory": BBKBWidth})
def thompson(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    batch: int = 30,
    confidence: Width = 1.0,
    posterior: Posterior | None = None,
    **common: Unpack[Modelled],
) -> Bandit:
    """Thompson sampling in batches (Kandasamy 2018): play the best points of posterior samples.

    Parameters
    ----------
    domain : Candidates
        For the exact posterior, of at most 2000 points.
    batch : int
        Points of an ask; 30 in the experiments of [BB].
    confidence : Confidence, float or "theory"
        Samples deviate from the posterior mean by this multiple: 1 draws from the posterior itself.
    posterior : Exact, Nystrom, "exact" or "nystrom", optional
        `Nystrom()` by default.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.thompson(sites, RBF(1.0), 0.01, batch=2)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    20 [2.]
    """
    return assembled(
        domain,
        kernel,
        noise_variance,
        confidence=confidence,
        posterior=Nystrom() if posterior is None else posterior,
        acquisition=ThompsonSampling(),
        batching=Batching(largest=whole_number("batch", batch, at_most=LARGEST_BATCH)),
        **common,
    )


# [BB] Lemma 1, or Lemma 1 and then Lemma 3.
RATIOS: dict[str, type[GlobalRatio | LocalRatio]] = {"global": GlobalRatio, "local": LocalRatio}


def _batching(rule: BatchRule, minimum_batch: int, largest_batch: int) -> Batching:
    least = whole_number("minimum_batch", minimum_batch, at_most=LARGEST_BATCH)
    most = whole_number("largest_batch", largest_batch, at_most=LARGEST_BATCH)
    return Batching(rule, least, most)
