"""The named algorithms, one recipe each: which parts, which defaults, from which paper.

Every recipe returns a `Bandit` and takes, besides its own parameters:

confidence : Confidence, float or "theory"
    The width beta; a number is a constant width.
posterior : Exact or Nystrom
    How the posterior is computed: exactly, or on a dictionary of inducing points ("budgeted").
mean : float or "online"
    Fixed prior mean of the reward, or centre and scale learned from the rewards seen.
seed : int or numpy.random.Generator
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from tvbandits import aging
from tvbandits.aging import Aging, LogThreshold
from tvbandits.bandit import Bandit
from tvbandits.batching import GlobalRatio, LocalRatio, ProductRatio
from tvbandits.budgets import OnAverage
from tvbandits.confidence import BBKBWidth, BKBWidth, Confidence, as_confidence
from tvbandits.domains import Candidates
from tvbandits.exact import Exact
from tvbandits.kernels import Drift, is_space_time, space_time
from tvbandits.learning import Every, as_every
from tvbandits.nystrom import Nystrom
from tvbandits.protocols import Domain, Expert
from tvbandits.queries import KDPP, PlausibleMaximisers, QueryPlan
from tvbandits.recipe import Recipe, is_finite_number
from tvbandits.statespace import StateSpace
from tvbandits.structured import anchors_of, space_kernels, structured_kernel
from tvbandits.terms import terms_of
from tvbandits.triggers import EventTrigger

INFORMED_WIDTH = 1.0
"""Width of a frugal decision after an answered question, at most: what is played then is plausible under
any larger width, and costs at most 2 beta deviations while the bounds hold."""


ALONE = 2.0
"""Who asks nobody sees little but the places it plays: a prior on length scales as narrow as that of a
bandit with an expert could keep it from ever finding out that they are short."""


class Common(TypedDict, total=False):
    """Keywords that every recipe takes."""

    confidence: Confidence | float | str
    posterior: Exact | Nystrom | StateSpace
    mean: float | Literal["online"]
    seed: int | np.random.Generator


def _bandit(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    common: Common,
    learn: Every | None = None,
    **parts: Any,
) -> Bandit:
    known = Common.__annotations__
    unknown = [name for name in common if name not in known]
    if unknown:
        raise TypeError(
            f"unexpected keyword argument {unknown[0]!r}; there are: {', '.join(known)}"
        )
    recipe = Recipe(
        domain,
        kernel,
        noise_variance,
        confidence=as_confidence(common.get("confidence", "theory")),
        posterior=common.get("posterior", Exact()),
        mean=common.get("mean", "online"),
        learn=learn,
        **parts,
    )
    return Bandit(recipe, seed=common.get("seed", 0))


def gp_ucb(domain: Domain, kernel: Any, noise_variance: float, **common: Unpack[Common]) -> Bandit:
    """GP-UCB (Srinivas 2010): nothing is ever forgotten."""
    return _bandit(domain, kernel, noise_variance, common)


def r_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    reset_every: int,
    **common: Unpack[Common],
) -> Bandit:
    """R-GP-UCB (Bogunovic 2016; Zhou & Shroff 2021): start afresh after `reset_every` rewards."""
    return _bandit(domain, kernel, noise_variance, common, aging=aging.ResetEvery(reset_every))


def sw_gp_ucb(
    domain: Domain, kernel: Any, noise_variance: float, *, window: int, **common: Unpack[Common]
) -> Bandit:
    """SW-GP-UCB (Zhou & Shroff 2021): only the last `window` rewards."""
    return _bandit(domain, kernel, noise_variance, common, aging=aging.Window(last=window))


def w_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    discount: float | None = None,
    learn: Every | int | None = None,
    **common: Unpack[Common],
) -> Bandit:
    """W-GP-UCB (Deng 2022): weights discount^age, that is noise variance s^2 discount^(-age).

    Without a discount it is learned while the bandit plays; `learn` says when.
    """
    every = _every("discount", discount, learn)
    aged = aging.Exponential(0.95 if discount is None else discount)
    return _bandit(domain, kernel, noise_variance, common, every, aging=aged)


def _every(name: str, given: float | None, learn: Every | int | None) -> Every | None:
    """When to learn a number: never, if it is given."""
    if given is None:
        return Every() if learn is None else as_every(learn)
    if learn is not None:
        raise ValueError(f"learn is for a {name} that is not given, got {name} = {given}")
    return None


def tv_gp_ucb(
    domain: Domain,
    kernel: Any | None,
    noise_variance: float,
    *,
    epsilon: float | None = None,
    learn: Every | int | None = None,
    **common: Unpack[Common],
) -> Bandit:
    """TV-GP-UCB (Bogunovic 2016): the kernel k(x, x') (1 - epsilon)^(abs(t - t') / 2).

    Parameters
    ----------
    kernel : scikit-learn kernel, optional
        Over points. None only without epsilon: one that suits any problem.
    epsilon : float, optional
        Rate of forgetting. Without it the drift is learned: the kernel becomes a sum of a shared level,
        a static field and two drifting fields, whose amplitudes, length and time scales are fitted by
        log evidence while the bandit plays.
    learn : Every, optional
        When to learn; only without epsilon.
    """
    if epsilon is None:
        every = Every(space_spread=ALONE) if learn is None else as_every(learn)
        return _bandit(domain, *_learning(domain, kernel, noise_variance, every, common))
    _every("epsilon", epsilon, learn)
    if kernel is None:
        raise ValueError(
            f"kernel is None, which is for an epsilon that is not given; got {epsilon}"
        )
    drifting = space_time(kernel) * Drift(epsilon, "fixed")  # so that epsilon may also be 0
    return _bandit(domain, drifting, noise_variance, common)


def ui_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    rate: float | None = None,
    growth: Literal["wiener", "linear"] = "wiener",
    learn: Every | int | None = None,
    **common: Unpack[Common],
) -> Bandit:
    """Uncertainty injection: noise variance s^2 + rate age (Brunzema 2022, "wiener").

    With growth="linear" it is s^2 (1 + (rate age)^2), the injection of SparQ-GP-UCB without queries.
    Without a rate it is learned while the bandit plays; `learn` says when.
    """
    if growth not in ("wiener", "linear"):
        raise ValueError(f'growth must be "wiener" or "linear", got {growth!r}')
    every = _every("rate", rate, learn)
    if growth == "linear":
        injected: Aging = aging.Linear(1.0 if rate is None else rate)
    else:
        injected = aging.Wiener(noise_variance if rate is None else rate)
    return _bandit(domain, kernel, noise_variance, common, every, aging=injected)


def et_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    delta: float = 0.1,
    **common: Unpack[Common],
) -> Bandit:
    """ET-GP-UCB (Brunzema 2022/2025): forget everything when a reward leaves its confidence interval.

    `delta` is the probability of a reset without a cause; no rate of change is needed.
    """
    return _bandit(domain, kernel, noise_variance, common, reset=EventTrigger(delta))


def sparq_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    expert: Expert,
    queries: QueryPlan | None = None,
    rate: float | None = None,
    threshold: Callable[[int], float] | None = None,
    pool_size: int | None = None,
    learn: Every | int | None = None,
    **common: Unpack[Common],
) -> Bandit:
    """SparQ-GP-UCB (Mauduit, Berthier & Simonetto), Algorithm 1.

    Parameters
    ----------
    expert : Expert
        Asked after every reward about the reward at that time.
    queries : QueryPlan, optional
        The paper's by default: an approximate k-DPP of ceil(6 log t) of the points played.
    rate : float
        Of the linear injection s^2 (1 + (rate age)^2); 1, as in eq. 15, unless it is learned.
    threshold : callable, optional
        g(t): observations above it are discarded; noise_variance log t by default.
    pool_size : int, optional
        Size up to which all points played may be asked about; then only those that add to them. All by
        default, and 256 with a sparse posterior.
    learn : Every, optional
        Learn the rate while the bandit plays.
    """
    if pool_size is None and isinstance(common.get("posterior"), Nystrom):
        pool_size = 256
    discarded = aging.DiscardAbove(threshold or LogThreshold(noise_variance))
    return _bandit(
        domain,
        kernel,
        noise_variance,
        common,
        None if learn is None else _every("rate", rate, learn),
        aging=aging.compose(aging.Linear(1.0 if rate is None else rate), discarded),
        expert=expert,
        queries=queries or KDPP(),
        pool_size=pool_size,
        lead=1.0,
    )


def frugal_gp_ucb(
    domain: Domain,
    kernel: Any | None,
    noise_variance: float,
    *,
    expert: Expert,
    budget: float = 3.0,
    learn: Every | int | None = None,
    queries: QueryPlan | None = None,
    **common: Unpack[Common],
) -> Bandit:
    """Learn the drift, keep every answer, and ask only about what could change the next decision.

    The kernel is a sum of a shared level, a static field and two drifting fields whose amplitudes and
    scales are learned by log evidence; answers are observations like any other, and age by what was
    learned. The expert is asked about plausible maximisers anywhere in the domain. As the questions
    explore, a decision after an answer takes a width of at most `INFORMED_WIDTH`.

    Parameters
    ----------
    kernel : scikit-learn kernel, optional
        Over points, to start from; or a sum of space-time terms. None suits any problem: a smooth and a
        rough one compete.
    expert : Expert
    budget : float
        Answers a step, on average; what a step saves is spent later.
    learn : Every, optional
        When to learn; every 30 rewards, and at some early ones.
    queries : QueryPlan, optional
        Instead of `PlausibleMaximisers(OnAverage(budget))`.
    """
    if not (is_finite_number(budget) and budget >= 0):
        raise ValueError(f"budget must be finite and not negative, got {budget!r}")
    every = Every() if learn is None else as_every(learn)
    learning = _learning(domain, kernel, noise_variance, every, common)
    return _bandit(
        domain,
        *learning,
        expert=expert,
        queries=queries or PlausibleMaximisers(OnAverage(budget)),
        ask_about="domain",
        reuse_answers=True,
        informed_width=INFORMED_WIDTH,
    )


def _learning(
    domain: Domain, kernel: Any | None, noise_variance: float, every: Every, common: Common
) -> tuple[Any, float, Common, Every]:
    """Kernel to start from, noise, keywords and rule of a bandit that learns its kernel."""
    if kernel is not None and not isinstance(kernel, Kernel):
        raise ValueError(f"kernel must be a scikit-learn kernel, or None; got {kernel!r}")
    if kernel is not None and is_space_time(kernel):
        kernels: tuple[Any, ...] = (kernel,)
    else:
        smooth, rough = (kernel, None) if kernel else space_kernels(domain)
        kernels = tuple(
            structured_kernel(smooth, other) for other in (smooth, rough) if other is not None
        )
    posterior = StateSpace(None if isinstance(domain, Candidates) else anchors_of(domain))
    made: Common = {"posterior": posterior, **common}
    if terms_of(kernels[0]) is None and isinstance(made["posterior"], StateSpace):
        raise ValueError(f"the kernel must be a sum of space-time terms, got {kernels[0]}")
    rivals = (*every.rivals, *kernels[1:])
    own = kernel is not None and is_space_time(kernel)
    return kernels[0], noise_variance, made, replace(every, rivals=rivals, in_steps=not own)


def bkb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    oversampling: float = 2.0,
    keep: bool = True,
    **common: Unpack[Common],
) -> Bandit:
    """BKB (Calandriello 2019), Algorithm 1: a dictionary by leverage scores, drawn at every step.

    Parameters
    ----------
    oversampling : float
        q, by which leverage scores are multiplied.
    keep : bool
        Keep inducing points while they are few; False draws every dictionary afresh, as the paper does.
    """
    sparse = Nystrom(oversampling, keep)
    return _bandit(domain, kernel, noise_variance, _budgeted(common, sparse, BKBWidth()))


def bbkb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    ratio_bound: float = 2.0,
    rule: Literal["global", "local"] = "global",
    oversampling: float = 2.0,
    keep: bool = True,
    minimum_batch: int = 1,
    **common: Unpack[Common],
) -> Bandit:
    """BBKB (Calandriello 2020), Algorithm 1: batches that end before deviations halve.

    Parameters
    ----------
    ratio_bound : float
        C, the bound on the ratio of deviations at a batch's start to those in it.
    rule : "global" or "local"
        Lemma 1, or Lemma 1 and then Lemma 3.
    oversampling, keep
        As for `bkb`.
    minimum_batch : int
        P: start by uncertainty sampling until no batch can be smaller.
    """
    if rule not in ("global", "local"):
        raise ValueError(f'rule must be "global" or "local", got {rule!r}')
    batch = GlobalRatio(ratio_bound) if rule == "global" else LocalRatio(ratio_bound)
    sparse = Nystrom(oversampling, keep)
    budgeted = _budgeted(common, sparse, BBKBWidth())
    return _bandit(
        domain, kernel, noise_variance, budgeted, batch=batch, minimum_batch=minimum_batch
    )


def gp_bucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    ratio_bound: float = 2.0,
    minimum_batch: int = 1,
    **common: Unpack[Common],
) -> Bandit:
    """GP-BUCB (Desautels 2014): GP-UCB in batches, on the exact posterior."""
    return _bandit(
        domain,
        kernel,
        noise_variance,
        common,
        batch=ProductRatio(ratio_bound),
        minimum_batch=minimum_batch,
    )


def _budgeted(common: Common, posterior: Nystrom, theory: Confidence) -> Common:
    """The keywords with the sparse posterior, and the paper's own width for "theory"."""
    width = common.get("confidence", "theory")
    made: Common = {"posterior": posterior, **common}
    made["confidence"] = theory if width == "theory" else width
    return made
