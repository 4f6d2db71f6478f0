"""BKB and BBKB: GP-UCB on a dictionary of inducing points, for large domains and long runs.

docs/papers.md names the function for each line of [BB] Algorithm 1. BKB ([B] Algorithm 1) is the same
with batches of one point. Algorithm 3 of [BB], uncertainty sampling before the first batch, is
`Options(minimum_batch=P)`.

What differs from the pseudo-code:

- A dictionary that is drawn empty holds the point of the largest probability.
- Inducing points stay as long as they are few (`Nystrom.keep`); `bkb(keep=False)` draws each dictionary
  anew.
- A drawn point that depends linearly on the others is left out (`Nystrom.tolerance`).
- Data from before the first step give a dictionary in the manner of BLESS, as [BB] section 4 proposes.
- q is 2 by default, as in the experiments of [BB]; `oversampling="theory"` is that of the theorems.
- beta is 2 by default, which `bbkb` multiplies by C = 2. `beta="theory"` is that of the theorems.
- Mean and scale of the reward are learned; the papers have the mean 0 and a kernel in its unit.

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
from typing import Any, Literal, TypeAlias

from tvbandits.acquisition.batches import GlobalRatio, LocalRatio
from tvbandits.acquisition.widths import (
    DEFAULT_WIDTH,
    BBKBProgramWidth,
    BBKBWidth,
    BKBWidth,
    Confidence,
    Widths,
    WithProbability,
    as_confidence,
)
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.bandit.policy import (
    Rate,
    Width,
    kernel_or_default,
    make_bandit,
    make_forgetting_kernel,
    parse_rate,
    resolve_width,
)
from tvbandits.domains.domain import Domain
from tvbandits.gp.online import Every
from tvbandits.gp.sparse import Nystrom, TheoryOversampling
from tvbandits.gp.sparse_filter import NystromFilter
from tvbandits.validation import Seed, check_choice

# q, the factor of the leverage scores: a number, or that of the theorems.
Oversampling: TypeAlias = float | Literal["theory"]

# The widths of [BB] Theorem 2, and of its authors' program.
BBKB_WIDTHS: Widths = {"theory": BBKBWidth, "bbkb-program": BBKBProgramWidth}

# The rule that ends a batch: [BB] Lemma 1, or Lemma 1 and then Lemma 3.
RATIOS: dict[str, type[GlobalRatio | LocalRatio]] = {"global": GlobalRatio, "local": LocalRatio}


def bkb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    oversampling: Oversampling = 2.0,
    keep: bool = True,
    beta: Width = DEFAULT_WIDTH,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """BKB (Calandriello 2019), [B] Algorithm 1: draw a dictionary by leverage scores in every step.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    oversampling : float or "theory"
        q, the factor of the leverage scores: 2 in the experiments of [BB]. "theory" is that of [B]
        Theorem 2 for e = 1/2, 72 log(4 t / delta) after t plays, delta that of the width or else 0.05.
    keep : bool
        Keep inducing points as long as they are few; False draws every dictionary anew, as the paper
        does.
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
    width = as_confidence(resolve_width(beta, {"theory": BKBWidth}))  # Theorem 2
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        posterior=Nystrom(oversampling_of(oversampling, width), keep),
        beta=width,
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
    oversampling: Oversampling = 2.0,
    beta: Width = DEFAULT_WIDTH,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """BBKB (Calandriello 2020), [BB] Algorithm 1: play batches that end before deviations halve.

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
        C, the bound on the ratio of the deviations at a batch's start to those within it.
    rule : "global" or "local"
        [BB] Lemma 1, or Lemma 1 and then Lemma 3.
    oversampling : float or "theory"
        q, the factor of the leverage scores: 2 in the experiments of [BB]. "theory" is that of
        [BB] Theorem 2, 72 C log(4 t / delta) after t plays, delta that of the width or else 0.05.
    beta : Confidence, float or "theory"
        The width beta of mu + beta sigma; "theory" is that of [BB] Theorem 2, "bbkb-program" the smaller
        one in the program of its authors.
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
    batch_rule = RATIOS[check_choice("rule", rule, RATIOS)](ratio_bound)
    width = as_confidence(resolve_width(beta, BBKB_WIDTHS))
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        batch_rule=batch_rule,
        beta=width,
        posterior=Nystrom(oversampling_of(oversampling, width, ratio_bound)),
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

    Dictionary and batches are those of [BB]. The weights of the dictionary decay with time, and points
    that were not played for long leave it. With a rate of 0 it is `bbkb`. No paper has it.

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
        epsilon, for a unit of time. By default it is learned by log evidence while it plays; `Every`
        says how often.
    ratio_bound : float
        C, the bound on the ratio of the deviations at a batch's start to those within it.
    rule : "global" or "local"
        [BB] Lemma 1, or Lemma 1 and then Lemma 3.
    beta : Confidence, float or "theory"
        The width, which is multiplied by C. "theory" is that of [BB] Theorem 2.
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
    number, rule_of_rate = parse_rate(
        "forgetting_rate", forgetting_rate, Every(spread=math.inf, in_steps=True)
    )
    return make_bandit(
        domain,
        make_forgetting_kernel(kernel_or_default(domain, kernel), number),
        noise_variance,
        batch_rule=RATIOS[check_choice("rule", rule, RATIOS)](ratio_bound),
        learn=rule_of_rate,
        beta=resolve_width(beta, BBKB_WIDTHS),
        posterior=NystromFilter(),
        minimize=minimize,
        options=options,
        seed=seed,
    )


def oversampling_of(
    value: Oversampling, width: Confidence, ratio_bound: float = 1.0
) -> float | TheoryOversampling:
    """Return a number unchanged, and for "theory" the q of [BB] Theorem 2, with the delta of a width.

    For a width without a delta, such as a constant, delta is the default of the theorems' widths.
    """
    if not isinstance(value, str):
        return value
    check_choice("oversampling that is no number", value, ("theory",))
    delta = width.delta if isinstance(width, WithProbability) else WithProbability.delta
    return TheoryOversampling(delta, 72.0 * ratio_bound)
