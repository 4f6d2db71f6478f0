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
from typing import Any, Literal

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
from tvbandits.bandit.options import Options
from tvbandits.domains.domain import Domain
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.sparse import Nystrom
from tvbandits.gp.sparse_filter import NystromFilter
from tvbandits.policies.common import (
    Learn,
    Mean,
    Posterior,
    Seed,
    Width,
    Widths,
    bandit_of,
    learning_rule,
    prior_kernel,
    width_of,
)
from tvbandits.policies.forgetting import forgetting_kernel
from tvbandits.validation import Array, choice, finite_number, whole_number


def bkb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    oversampling: float = 2.0,
    keep: bool = True,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior | None = None,
    mean: Mean = "online",
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """BKB (Calandriello 2019), [B] Algorithm 1: a dictionary by leverage scores, drawn at every step.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    oversampling : float
        q, by which leverage scores are multiplied.
    keep : bool
        Keep inducing points while they are few; False draws every dictionary afresh, as the paper does.
    confidence : Confidence, float or "theory"
        The width beta of mu + beta sigma; "theory" is that of [B] Theorem 2.
    posterior : Exact, Nystrom, StateSpace, "exact" or "nystrom", optional
        Instead of `Nystrom(oversampling, keep)`.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.bkb(sites, kernel=RBF(1.0), noise_variance=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """
    sparse = Nystrom(oversampling, keep) if posterior is None else posterior
    return bandit_of(
        domain,
        kernel,
        noise_variance,
        confidence=width_of(confidence, {"theory": BKBWidth}),
        posterior=sparse,
        mean=mean,
        minimize=minimize,
        options=options,
        seed=seed,
    )


# The widths of [BB] Theorem 2, and of its authors' program.
BBKB_WIDTHS: Widths = {"theory": BBKBWidth, "bbkb-program": BBKBProgramWidth}


def bbkb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    ratio_bound: float = 2.0,
    rule: Literal["global", "local"] = "global",
    oversampling: float = 2.0,
    keep: bool = True,
    minimum_batch: int = 1,
    largest_batch: int = USUAL_LARGEST,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior | None = None,
    mean: Mean = "online",
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """BBKB (Calandriello 2020), [BB] Algorithm 1: batches that end before deviations halve.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
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
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.bbkb(sites, kernel=RBF(1.0), noise_variance=0.01, rule="global")
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(bandit.recommend())
    [2.]
    """
    sparse = Nystrom(oversampling, keep) if posterior is None else posterior
    ends = RATIOS[choice("rule", rule, RATIOS)]
    return bandit_of(
        domain,
        kernel,
        noise_variance,
        batching=_batching(ends(ratio_bound), minimum_batch, largest_batch),
        confidence=width_of(confidence, BBKB_WIDTHS),
        posterior=sparse,
        mean=mean,
        minimize=minimize,
        options=options,
        seed=seed,
    )


def tv_bbkb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    epsilon: float | None = None,
    learn: Learn | None = None,
    ratio_bound: float = 2.0,
    rule: Literal["global", "local"] = "global",
    oversampling: float = 2.0,
    keep: bool = True,
    minimum_batch: int = 1,
    largest_batch: int = USUAL_LARGEST,
    confidence: Width = 1.0,
    mean: Mean = "online",
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """BBKB under the kernel of TV-GP-UCB: k(x, x') (1 - epsilon)^(abs(t - t') / 2), for large domains.

    Dictionary, batches and leaders are those of [BB]; the weights of the dictionary fade, and places
    that nobody has visited for long leave it. With epsilon = 0 it is `bbkb`. No paper has it.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
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
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.tv_bbkb(sites, kernel=RBF(1.0), noise_variance=0.01, epsilon=0.05)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(bandit.recommend())
    [2.]
    """
    learns = learning_rule("epsilon", epsilon, learn, Every(spread=math.inf, in_steps=True))
    ends = RATIOS[choice("rule", rule, RATIOS)]
    return bandit_of(
        domain,
        forgetting_kernel(prior_kernel(domain, kernel), epsilon),
        noise_variance,
        batching=_batching(ends(ratio_bound), minimum_batch, largest_batch),
        learn=learns,
        confidence=width_of(confidence, BBKB_WIDTHS),
        posterior=NystromFilter(oversampling, keep),
        mean=mean,
        minimize=minimize,
        options=options,
        seed=seed,
    )


def gp_bucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    ratio_bound: float = 2.0,
    minimum_batch: int = 1,
    largest_batch: int = USUAL_LARGEST,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """GP-BUCB (Desautels 2014): GP-UCB in batches, on the exact posterior.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    ratio_bound : float
        C: a batch ends with the point that makes the product of 1 + variance / noise variance over its
        points exceed it.
    minimum_batch : int
        P: start by uncertainty sampling until no variance exceeds 1/P of the noise variance.
    largest_batch : int
        A batch ends here at the latest, with a warning if the rule would go on.
    confidence : Confidence, float, "theory" or another name in `WIDTHS`
        The width beta of mean + beta deviations; a number is a constant width.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble"
        How the posterior is computed: exactly, on a dictionary of inducing points, by a Kalman filter,
        or by an ensemble of models.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.gp_bucb(sites, kernel=RBF(1.0), noise_variance=0.01, ratio_bound=2.0)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(bandit.recommend())
    [2.]
    """
    batching = _batching(ProductRatio(ratio_bound), minimum_batch, largest_batch)
    return bandit_of(
        domain,
        kernel,
        noise_variance,
        batching=batching,
        confidence=confidence,
        posterior=posterior,
        mean=mean,
        minimize=minimize,
        options=options,
        seed=seed,
    )


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


def mini_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    ratio_bound: float = 2.0,
    largest_batch: int = USUAL_LARGEST,
    confidence: Width = DEFAULT_WIDTH,
    posterior: Posterior = "exact",
    mean: Mean = "online",
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """mini-GP-UCB (Calandriello 2022): one point again and again, until its deviation has shrunk enough.

    An ask returns the point as often as it is to be played.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    ratio_bound : float
        C, by which no deviation may have shrunk when the next point is chosen; 1 is GP-UCB.
    largest_batch : int
        So many plays of a point at the most, before the next decision.
    confidence : Confidence, float, "theory" or another name in `WIDTHS`
        The width beta of mean + beta deviations; a number is a constant width.
    posterior : Exact, Nystrom, StateSpace, ModelEnsemble, "exact", "nystrom" or "ensemble"
        How the posterior is computed: exactly, on a dictionary of inducing points, by a Kalman filter,
        or by an ensemble of models.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.mini_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(bandit.recommend(), info.told > 10)
    [2.] True
    """
    most = whole_number("largest_batch", largest_batch, at_most=LARGEST_BATCH)
    rule, batching = RepeatedUpperBound(ratio_bound), Batching(largest=most)
    return bandit_of(
        domain,
        kernel,
        noise_variance,
        acquisition=rule,
        batching=batching,
        confidence=confidence,
        posterior=posterior,
        mean=mean,
        minimize=minimize,
        options=options,
        seed=seed,
    )


def thompson(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    batch: int = 30,
    confidence: Width = 1.0,
    posterior: Posterior | None = None,
    mean: Mean = "online",
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """Thompson sampling in batches (Kandasamy 2018): play the best points of posterior samples.

    Parameters
    ----------
    domain : Candidates
        For the exact posterior, of at most 2000 points.
    kernel : scikit-learn kernel, optional
        Prior covariance of the reward over points; see `mean` for its unit. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    batch : int
        Points of an ask; 30 in the experiments of [BB].
    confidence : Confidence, float or "theory"
        Samples deviate from the posterior mean by this multiple: 1 draws from the posterior itself.
    posterior : Exact, Nystrom, "exact" or "nystrom", optional
        `Nystrom()` by default.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns centre and scale from the rewards; the kernel describes the standardised reward.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        What applies to any bandit: limits, a control, the cost of moves, outliers, a bounded history.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.thompson(sites, kernel=RBF(1.0), noise_variance=0.01, batch=2)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    20 [2.]
    """
    return bandit_of(
        domain,
        kernel,
        noise_variance,
        acquisition=ThompsonSampling(),
        batching=Batching(largest=whole_number("batch", batch, at_most=LARGEST_BATCH)),
        confidence=width_of(confidence, {"theory": BBKBWidth}),
        posterior=Nystrom() if posterior is None else posterior,
        mean=mean,
        minimize=minimize,
        options=options,
        seed=seed,
    )


# [BB] Lemma 1, or Lemma 1 and then Lemma 3.
RATIOS: dict[str, type[GlobalRatio | LocalRatio]] = {"global": GlobalRatio, "local": LocalRatio}


def _batching(rule: BatchRule, minimum_batch: int, largest_batch: int) -> Batching:
    least = whole_number("minimum_batch", minimum_batch, at_most=LARGEST_BATCH)
    most = whole_number("largest_batch", largest_batch, at_most=LARGEST_BATCH)
    return Batching(rule, least, most)
