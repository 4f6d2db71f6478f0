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

from typing import Any, Literal, Unpack

from tvbandits.bandit.bandit import Bandit
from tvbandits.core.protocols import Domain
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import Aging
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.fitting.online import Every, as_every
from tvbandits.gp.kernels.space_time import Drift
from tvbandits.gp.kernels.structure import space_time
from tvbandits.policies import theory
from tvbandits.policies.setting import Common, Setting, assembled, learned_kernel, learning_rule

ALONE = 2.0
"""Who asks nobody sees little but the places it plays: a prior on length scales as narrow as that of a
bandit with an expert could keep it from ever finding out that they are short."""


def gp_ucb(domain: Domain, kernel: Any, noise_variance: float, **common: Unpack[Common]) -> Bandit:
    """GP-UCB (Srinivas 2010): nothing is ever forgotten."""
    return assembled(domain, kernel, noise_variance, common)


def r_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    reset_every: int,
    **common: Unpack[Common],
) -> Bandit:
    """R-GP-UCB (Bogunovic 2016; Zhou & Shroff 2021): start afresh after `reset_every` rewards."""
    return assembled(domain, kernel, noise_variance, common, aging=aging.ResetEvery(reset_every))


def sw_gp_ucb(
    domain: Domain, kernel: Any, noise_variance: float, *, window: int, **common: Unpack[Common]
) -> Bandit:
    """SW-GP-UCB (Zhou & Shroff 2021): only the last `window` rewards."""
    return assembled(domain, kernel, noise_variance, common, aging=aging.Window(last=window))


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
    every = learning_rule("discount", discount, learn)
    aged = aging.Exponential(0.95 if discount is None else discount)
    return assembled(domain, kernel, noise_variance, common, every, aging=aged)


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
        return assembled(domain, *learned_kernel(domain, kernel, noise_variance, every, common))
    learning_rule("epsilon", epsilon, learn)
    if kernel is None:
        raise ValueError(
            f"kernel is None, which is for an epsilon that is not given; got {epsilon}"
        )
    drifting = space_time(kernel) * Drift(epsilon, "fixed")  # so that epsilon may also be 0
    return assembled(domain, drifting, noise_variance, common)


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
    every = learning_rule("rate", rate, learn)
    if growth == "linear":
        injected: Aging = aging.Linear(1.0 if rate is None else rate)
    else:
        injected = aging.Wiener(noise_variance if rate is None else rate)
    return assembled(domain, kernel, noise_variance, common, every, aging=injected)


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
    return assembled(domain, kernel, noise_variance, common, reset=EventTrigger(delta))


def make_gp(setting: Setting, posterior: str = "exact") -> Bandit:
    return gp_ucb(*setting.parts, **setting.with_posterior(posterior))


def make_r(setting: Setting, reset_every: int | None = None, posterior: str = "exact") -> Bandit:
    if reset_every is None:
        reset_every = theory.reset_period(*setting.budgets)
    return r_gp_ucb(*setting.parts, reset_every=reset_every, **setting.with_posterior(posterior))


def make_sw(setting: Setting, window: int | None = None, posterior: str = "exact") -> Bandit:
    if window is None:
        window = theory.window_length(*setting.budgets)
    return sw_gp_ucb(*setting.parts, window=window, **setting.with_posterior(posterior))


def make_w(
    setting: Setting,
    discount: float | None = None,
    learn: bool = False,
    posterior: str = "exact",
) -> Bandit:
    common = setting.with_posterior(posterior)
    if learn:
        return w_gp_ucb(*setting.parts, discount=discount, learn=Every(), **common)
    weight = theory.discount(*setting.budgets) if discount is None else discount
    return w_gp_ucb(*setting.parts, discount=weight, **common)


def make_tv(
    setting: Setting,
    epsilon: float | None = None,
    fitted: bool = False,
    posterior: str = "exact",
) -> Bandit:
    if fitted and epsilon is not None:
        raise ValueError(f"fitted is for an epsilon that is not given, got epsilon = {epsilon}")
    if epsilon is None and not fitted:
        if posterior != "exact":
            raise ValueError(
                f'posterior="{posterior}" needs an epsilon: the learned one is a filter'
            )
        domain, _, noise_variance = setting.parts
        return tv_gp_ucb(domain, None, noise_variance, **setting.common)
    rate = setting.epsilon if epsilon is None else epsilon
    return tv_gp_ucb(*setting.parts, epsilon=rate, **setting.with_posterior(posterior))


def make_ui(
    setting: Setting,
    rate: float | None = None,
    growth: str = "wiener",
    learn: bool = False,
    posterior: str = "exact",
) -> Bandit:
    common = setting.with_posterior(posterior)
    if learn:
        return ui_gp_ucb(*setting.parts, rate=rate, growth=growth, learn=Every(), **common)  # type: ignore[arg-type]
    if rate is None:
        # Under the drift model a reward's increment has variance 2 (1 - sqrt(1 - eps)) scale^2.
        increment = 2 * (1 - (1 - setting.epsilon) ** 0.5)
        rate = max(increment * setting.scale**2, 1e-12) if growth == "wiener" else 1.0
    return ui_gp_ucb(*setting.parts, rate=rate, growth=growth, **common)  # type: ignore[arg-type]


def make_et(setting: Setting, delta: float = 0.1, posterior: str = "exact") -> Bandit:
    return et_gp_ucb(*setting.parts, delta=delta, **setting.with_posterior(posterior))
