"""BKB and BBKB: GP-UCB on a dictionary of inducing points, for large domains and long runs.

A step of [BB] Algorithm 1 and where it is: the dictionary, lines 11 to 16, and the posterior on it,
lines 17 and 18, are `gp.sparse.Nystrom.condition`; the batch, lines 3 to 10, is
`acquisition.rules.UpperConfidenceBound`, which ends it by `GlobalRatio` (Lemma 1) or `LocalRatio`
(Lemma 3). BKB ([B] Algorithm 1) is the same with batches of one point.

References
----------
D. Calandriello, L. Carratino, A. Lazaric, M. Valko and L. Rosasco. Gaussian process optimization with
    adaptive sketching: scalable and no regret. COLT 2019. ([B]; BKB)
D. Calandriello, L. Carratino, A. Lazaric, M. Valko and L. Rosasco. Near-linear time Gaussian process
    optimization with adaptive batching and resparsification. ICML 2020. ([BB]; BBKB)
I. Bogunovic, J. Scarlett, V. Cevher. Time-varying Gaussian process bandit optimization. AISTATS 2016.
    (the kernel over time of `tv_bbkb`)
"""

from __future__ import annotations

import math
from typing import Any, Literal

from tvbandits.acquisition.batches import GlobalRatio, LocalRatio
from tvbandits.acquisition.widths import DEFAULT_WIDTH, BBKBProgramWidth, BBKBWidth, BKBWidth
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.domains.domain import Domain
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.sparse import Nystrom
from tvbandits.gp.sparse_filter import NystromFilter
from tvbandits.policies.common import (
    Rate,
    Seed,
    Width,
    Widths,
    learning_rule,
    make_bandit,
    prior_kernel,
    width_of,
)
from tvbandits.policies.forgetting import forgetting_kernel
from tvbandits.validation import choice

# The widths of [BB] Theorem 2, and of its authors' program.
BBKB_WIDTHS: Widths = {"theory": BBKBWidth, "bbkb-program": BBKBProgramWidth}

# What ends a batch: [BB] Lemma 1, or Lemma 1 and then Lemma 3.
RATIOS: dict[str, type[GlobalRatio | LocalRatio]] = {"global": GlobalRatio, "local": LocalRatio}


def bkb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    oversampling: float = 2.0,
    keep: bool = True,
    beta: Width = DEFAULT_WIDTH,
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
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    oversampling : float
        q, by which leverage scores are multiplied.
    keep : bool
        Keep inducing points while they are few; False draws every dictionary afresh, as the paper does.
    beta : Confidence, float or "theory"
        The width beta of mu + beta sigma; "theory" is that of [B] Theorem 2.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        How the reward is modelled, and what applies to any bandit: limits, a control, moves, outliers.
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
    >>> print(info.readings, bandit.recommend())
    10 [2.]
    """
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        posterior=Nystrom(oversampling, keep),  # Algorithm 1, in `condition`
        beta=width_of(beta, {"theory": BKBWidth}),  # Theorem 2
        minimize=minimize,
        options=options,
        seed=seed,
    )


def bbkb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    ratio_bound: float = 2.0,
    rule: Literal["global", "local"] = "global",
    oversampling: float = 2.0,
    beta: Width = DEFAULT_WIDTH,
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
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    ratio_bound : float
        C, the bound on the ratio of deviations at a batch's start to those in it.
    rule : "global" or "local"
        [BB] Lemma 1, or Lemma 1 and then Lemma 3.
    oversampling : float
        q, by which leverage scores are multiplied.
    beta : Confidence, float or "theory"
        The width beta of mu + beta sigma; "theory" is that of [BB] Theorem 2, "bbkb-program" the smaller
        one of its authors' program.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        How the reward is modelled, and what applies to any bandit: limits, a control, moves, outliers.
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
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        batch_rule=RATIOS[choice("rule", rule, RATIOS)](ratio_bound),
        beta=width_of(beta, BBKB_WIDTHS),
        posterior=Nystrom(oversampling),
        minimize=minimize,
        options=options,
        seed=seed,
    )


def tv_bbkb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    forgetting_rate: Rate = None,
    ratio_bound: float = 2.0,
    rule: Literal["global", "local"] = "global",
    beta: Width = 1.0,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """BBKB under the kernel of TV-GP-UCB: k(x, x') (1 - rate)^(abs(t - t') / 2), for large domains.

    Dictionary, batches and top candidates are those of [BB]; the weights of the dictionary fade, and
    places that nobody has visited for long leave it. With a rate of 0 it is `bbkb`. No paper has it.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    forgetting_rate : float, Every or "learn", optional
        epsilon, for a unit of time. By default it is learned by log evidence while it plays, or when a
        rule says.
    ratio_bound : float
        C, the bound on the ratio of deviations at a batch's start to those in it.
    rule : "global" or "local"
        [BB] Lemma 1, or Lemma 1 and then Lemma 3.
    beta : Confidence, float or "theory"
        The width, which C multiplies: 1 plays with 2. "theory" is that of [BB] Theorem 2.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        How the reward is modelled, and what applies to any bandit: limits, a control, moves, outliers.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.tv_bbkb(sites, kernel=RBF(1.0), noise_variance=0.01, forgetting_rate=0.05)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(bandit.recommend())
    [2.]
    """
    number, rule_of_rate = learning_rule(forgetting_rate, Every(spread=math.inf, in_steps=True))
    return make_bandit(
        domain,
        forgetting_kernel(prior_kernel(domain, kernel), number),
        noise_variance,
        batch_rule=RATIOS[choice("rule", rule, RATIOS)](ratio_bound),
        learn=rule_of_rate,
        beta=width_of(beta, BBKB_WIDTHS),
        posterior=NystromFilter(),
        minimize=minimize,
        options=options,
        seed=seed,
    )
