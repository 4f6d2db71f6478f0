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
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from tvbandits import aging, recommended
from tvbandits.aging import Aging, LogThreshold
from tvbandits.bandit import Bandit
from tvbandits.baselines import Uniform
from tvbandits.batching import GlobalRatio, LocalRatio, ProductRatio
from tvbandits.confidence import BBKBWidth, BKBWidth, Confidence, Theory, as_confidence
from tvbandits.exact import Exact
from tvbandits.kernels import Drift, space_time
from tvbandits.nystrom import Nystrom
from tvbandits.protocols import Domain, Expert
from tvbandits.queries import KDPP, LogSchedule, QueryPlan
from tvbandits.recipe import Recipe


class Common(TypedDict, total=False):
    """Keywords that every recipe takes."""

    confidence: Confidence | float | str
    posterior: Exact | Nystrom
    mean: float | Literal["online"]
    seed: int | np.random.Generator


def _bandit(
    domain: Domain, kernel: Any, noise_variance: float, common: Common, **parts: Any
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
    domain: Domain, kernel: Any, noise_variance: float, *, discount: float, **common: Unpack[Common]
) -> Bandit:
    """W-GP-UCB (Deng 2022): weights discount^age, that is noise variance s^2 discount^(-age)."""
    return _bandit(domain, kernel, noise_variance, common, aging=aging.Exponential(discount))


def tv_gp_ucb(
    domain: Domain, kernel: Any, noise_variance: float, *, epsilon: float, **common: Unpack[Common]
) -> Bandit:
    """TV-GP-UCB (Bogunovic 2016): the kernel k(x, x') (1 - epsilon)^(abs(t - t') / 2)."""
    drifting = space_time(kernel) * Drift(epsilon, "fixed")  # so that epsilon may also be 0
    return _bandit(domain, drifting, noise_variance, common)


def ui_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    rate: float,
    growth: Literal["wiener", "linear"] = "wiener",
    **common: Unpack[Common],
) -> Bandit:
    """Uncertainty injection: noise variance s^2 + rate age (Brunzema 2022, "wiener").

    With growth="linear" it is s^2 (1 + (rate age)^2), the injection of SparQ-GP-UCB without queries.
    """
    if growth not in ("wiener", "linear"):
        raise ValueError(f'growth must be "wiener" or "linear", got {growth!r}')
    injected: Aging = aging.Wiener(rate) if growth == "wiener" else aging.Linear(rate)
    return _bandit(domain, kernel, noise_variance, common, aging=injected)


def sparq_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    expert: Expert,
    queries: QueryPlan | None = None,
    rate: float = 1.0,
    threshold: Callable[[int], float] | None = None,
    pool_size: int | None = None,
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
        Of the linear injection s^2 (1 + (rate age)^2); 1 in eq. 15.
    threshold : callable, optional
        g(t): observations above it are discarded; noise_variance log t by default.
    pool_size : int, optional
        Size up to which all points played may be asked about; then only those that add to them. All by
        default, and 256 with a sparse posterior.
    """
    if pool_size is None and isinstance(common.get("posterior"), Nystrom):
        pool_size = 256
    discarded = aging.DiscardAbove(threshold or LogThreshold(noise_variance))
    return _bandit(
        domain,
        kernel,
        noise_variance,
        common,
        aging=aging.compose(aging.Linear(rate), discarded),
        expert=expert,
        queries=queries or KDPP(),
        pool_size=pool_size,
        lead=1.0,
    )


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


@dataclass(frozen=True)
class Setting:
    """What a comparison knows about a problem before the first step.

    Attributes
    ----------
    domain, kernel, noise_variance
        As for a recipe; the kernel describes the standardised reward.
    horizon : int
    variation : float
        Sup-norm change per unit of time, in prior deviations.
    scale : float
        The prior deviation, in the unit of reward.
    epsilon : float
        Forgetting rate of the TV-GP-UCB model.
    information_gain : float
        gamma_T, the largest information gain of `horizon` observations.
    confidence : Confidence
    expert : callable, optional
        Makes the expert, for the policies that ask one.
    seed : int
    """

    domain: Domain
    kernel: Any
    noise_variance: float
    horizon: int
    variation: float
    scale: float
    epsilon: float
    information_gain: float
    confidence: Confidence
    expert: Callable[[], Expert] | None
    seed: int

    @property
    def parts(self) -> tuple[Domain, Any, float]:
        """The first three arguments of every recipe."""
        return self.domain, self.kernel, self.noise_variance

    @property
    def common(self) -> Common:
        """The keywords of every recipe."""
        return {"confidence": self.confidence, "seed": self.seed}

    def with_posterior(self, name: str) -> Common:
        """The same with the posterior of that name, "exact" or "nystrom"."""
        if name not in ("exact", "nystrom"):
            raise ValueError(f'posterior must be "exact" or "nystrom", got {name!r}')
        return {**self.common, "posterior": Exact() if name == "exact" else Nystrom()}

    def with_width(self, theory: Confidence) -> Common:
        """The same with a paper's own width where the width of the theory is wanted."""
        wanted = theory if isinstance(self.confidence, Theory) else self.confidence
        return {"confidence": wanted, "seed": self.seed}

    @property
    def budgets(self) -> tuple[int, float, float]:
        """T, B_T and gamma_T, as the recommendations take them."""
        return self.horizon, self.variation * self.horizon, self.information_gain


@dataclass(frozen=True)
class Policy:
    """A named policy of a comparison: how to make it, and what it is.

    `make(setting, **parameters)` fills what is not given with the authors' recommendation.
    """

    make: Callable[..., Any]
    summary: str


def _gp(setting: Setting, posterior: str = "exact") -> Bandit:
    return gp_ucb(*setting.parts, **setting.with_posterior(posterior))


def _r(setting: Setting, reset_every: int | None = None, posterior: str = "exact") -> Bandit:
    if reset_every is None:
        reset_every = recommended.reset_period(*setting.budgets)
    return r_gp_ucb(*setting.parts, reset_every=reset_every, **setting.with_posterior(posterior))


def _sw(setting: Setting, window: int | None = None, posterior: str = "exact") -> Bandit:
    if window is None:
        window = recommended.window_length(*setting.budgets)
    return sw_gp_ucb(*setting.parts, window=window, **setting.with_posterior(posterior))


def _w(setting: Setting, discount: float | None = None, posterior: str = "exact") -> Bandit:
    weight = recommended.discount(*setting.budgets) if discount is None else discount
    return w_gp_ucb(*setting.parts, discount=weight, **setting.with_posterior(posterior))


def _tv(setting: Setting, epsilon: float | None = None, posterior: str = "exact") -> Bandit:
    rate = setting.epsilon if epsilon is None else epsilon
    return tv_gp_ucb(*setting.parts, epsilon=rate, **setting.with_posterior(posterior))


def _ui(
    setting: Setting,
    rate: float | None = None,
    growth: str = "wiener",
    posterior: str = "exact",
) -> Bandit:
    if rate is None:
        # Under the drift model a reward's increment has variance 2 (1 - sqrt(1 - eps)) scale^2.
        increment = 2 * (1 - (1 - setting.epsilon) ** 0.5)
        rate = max(increment * setting.scale**2, 1e-12) if growth == "wiener" else 1.0
    return ui_gp_ucb(*setting.parts, rate=rate, growth=growth, **setting.with_posterior(posterior))  # type: ignore[arg-type]


def _sparq(
    setting: Setting,
    queries: float = 6.0,
    rate: float = 1.0,
    sweeps: float | None = None,
    posterior: str = "exact",
) -> Bandit:
    if setting.expert is None:
        raise ValueError("sparq-gp-ucb asks an expert, and none is given")
    from_schedule = (
        KDPP(LogSchedule(queries)) if sweeps is None else KDPP(LogSchedule(queries), sweeps)
    )
    return sparq_gp_ucb(
        *setting.parts,
        expert=setting.expert(),
        queries=from_schedule,
        rate=rate,
        **setting.with_posterior(posterior),
    )


def _bkb(setting: Setting, oversampling: float = 2.0, keep: bool = True) -> Bandit:
    common = setting.with_width(BKBWidth(delta=1 / max(setting.horizon, 2)))
    return bkb(*setting.parts, oversampling=oversampling, keep=keep, **common)


def _bbkb(
    setting: Setting,
    ratio_bound: float = 2.0,
    rule: str = "global",
    oversampling: float = 2.0,
    keep: bool = True,
    minimum_batch: int = 1,
) -> Bandit:
    return bbkb(
        *setting.parts,
        ratio_bound=ratio_bound,
        rule=rule,  # type: ignore[arg-type]
        oversampling=oversampling,
        keep=keep,
        minimum_batch=minimum_batch,
        **setting.with_width(BBKBWidth(delta=1 / max(setting.horizon, 2))),
    )


def _gp_bucb(setting: Setting, ratio_bound: float = 2.0, minimum_batch: int = 1) -> Bandit:
    return gp_bucb(
        *setting.parts, ratio_bound=ratio_bound, minimum_batch=minimum_batch, **setting.common
    )


def _uniform(setting: Setting) -> Uniform:
    return Uniform(setting.domain, seed=setting.seed)


POLICIES: dict[str, Policy] = {
    "uniform": Policy(_uniform, "a point of the domain at random"),
    "gp-ucb": Policy(_gp, "never forgets (Srinivas 2010)"),
    "r-gp-ucb": Policy(_r, "starts afresh every reset_every rewards (Bogunovic 2016)"),
    "sw-gp-ucb": Policy(_sw, "the last window rewards (Zhou & Shroff 2021)"),
    "w-gp-ucb": Policy(_w, "weights discount^age (Deng 2022)"),
    "tv-gp-ucb": Policy(_tv, "a kernel that forgets at rate epsilon (Bogunovic 2016)"),
    "ui-gp-ucb": Policy(_ui, "injects noise at rate, growth=wiener|linear (Brunzema 2022)"),
    "sparq-gp-ucb": Policy(_sparq, "asks an expert about queries * log t points (Mauduit 2025)"),
    "bkb": Policy(_bkb, "a dictionary by leverage scores at every step (Calandriello 2019)"),
    "bbkb": Policy(_bbkb, "the same in batches, rule=global|local (Calandriello 2020)"),
    "gp-bucb": Policy(_gp_bucb, "GP-UCB in batches (Desautels 2014)"),
}
"""The policies by command-line name."""

FIRST_COMPARISON = tuple(POLICIES)[:8]
"""The policies of a comparison that names none."""
