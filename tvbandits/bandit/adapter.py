"""Ask and tell around a rule: what decides is a small object that knows rewards and plays alone."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tvbandits.acquisition.widths import Fixed
from tvbandits.bandit.history import make_history_columns
from tvbandits.bandit.info import Info, ModelInfo, PosteriorInfo
from tvbandits.bandit.observations import skip_unasked, validate_observations
from tvbandits.bandit.options import Mean, check_mean
from tvbandits.counts import Counted
from tvbandits.data import Dataset, Plays, Record
from tvbandits.domains.availability import Availability, Available, ChoiceSet, availability_of
from tvbandits.domains.candidates import Candidates, as_finite
from tvbandits.domains.domain import Context, Domain, add_context, append_context, check_domain
from tvbandits.domains.parameters import Named
from tvbandits.gp.noise import CONFIG as NOISE_CONFIG, NoiseEstimate, due, estimated_noise
from tvbandits.io import save_value
from tvbandits.validation import (
    LARGEST_VALUE,
    Array,
    Seed,
    as_bool,
    as_generator,
    as_time,
    check_optional,
    describe,
    finite_number,
    noise_variance_number,
    require,
    whole_number,
)

# So often a policy may name a point that is not available, before one that is is drawn for it.
TRIES = 20


class Rule(Protocol):
    """What decides. Larger rewards are better; times go up.

    It is a dataclass, and is saved as its fields. It knows rewards and their variances in a unit that
    is chosen for it.
    """

    def choose(self, now: float, allowed: ChoiceSet, out: Plays, rng: np.random.Generator) -> Array:
        """The next point (d,), of those that are allowed, while the plays `out` wait for rewards.

        They count: a model takes each as if its mean had been observed, which lowers the variance
        around it; a schedule of plays goes on behind them.
        """

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:
        """Take in rewards."""


@runtime_checkable
class SizedRule(Protocol):
    """A rule that holds fewer rewards than it was told."""

    @property
    def size(self) -> int:
        """How many rewards it holds."""


@runtime_checkable
class NoiseAwareRule(Protocol):
    """A rule that looks at the noise variance of rewards, which is set anew where it is learned."""

    noise: float


@runtime_checkable
class CheckingRule(Protocol):
    """A rule that takes some rewards alone."""

    def check(self, rewards: Dataset) -> None:
        """Raise a `ValueError` for rewards, as they are told, that it cannot use."""


@runtime_checkable
class CountingRule(Protocol):
    """A rule to which a share of many trials says more than one of few.

    Its choices are draws: of more plays than there are points, each is a draw of its own, so that the
    points share them by the probability of being the best.
    """

    def learn_shares(self, rewards: Dataset, trials: Array) -> None:
        """Take in shares (n,) of so many trials (n,)."""


@dataclass(eq=False, repr=False)
class PolicyAdapter:
    """A player whose choices are those of a rule: checks come before anything moves.

    Made by `adapt`. A reward told without a variance has `noise_variance`; where that is None, it is
    learned with `kernel`. The rule is told rewards divided by `unit`.
    """

    domain: Domain
    rule: Rule
    rng: np.random.Generator
    sign: float
    record: Record
    kernel: Any = None
    noise_variance: float | None = 1.0
    unit: float = 1.0
    noise: NoiseEstimate | None = None

    def __repr__(self) -> str:
        rewards, plays = len(self.record.rewards), len(self.record.pending)
        pending = f", {plays} pending" if plays else ""
        return f"<{type(self.rule).__name__} on {self.domain!r}, {rewards} rewards told{pending}>"

    @property
    def info(self) -> Info:
        """Numbers of rewards told and readings failed; the dictionary is what the rule holds."""
        posterior = PosteriorInfo(
            dictionary_size=self.rule.size if isinstance(self.rule, SizedRule) else None
        )
        model = ModelInfo(noise=self.noise)
        record = self.record
        return Info(len(record.rewards), len(record.failed), posterior=posterior, model=model)

    @property
    def pending(self) -> Array:
        """Points asked and not yet told, shape (k, d)."""
        return self.record.pending.X.copy()

    @property
    def history(self) -> pd.DataFrame:
        """What was told and asked: time, coordinates, reward, variance, source, kind."""
        record = self.record
        parts = record.rewards, record.answers, record.failed, record.pending
        return pd.DataFrame(make_history_columns(self.domain, *parts))

    def ask(
        self,
        t: float | None = None,
        n: int | None = None,
        available: Availability = None,
        context: Context = None,
    ) -> Array:
        """Where to play next, shape (n, d): one point by default.

        A call that fails leaves rule and generator as they were.

        Parameters
        ----------
        t : float, optional
        n : int, optional
            So many points, distinct where the domain has as many.
        available, context
            What is available, as for `Bandit.ask`.

        Raises
        ------
        ValueError
            If `t`, `n`, `available` or `context` cannot be used.
        NothingAvailableError
            If nothing is available.
        """
        out = self.record.pending
        now = self.record.decision_time if t is None else as_time(t)
        count = 1 if n is None else whole_number("n", n, at_most=100_000)
        same_time = out.X[out.t == now]
        values = np.empty(0)
        if self.domain.context_parameters:
            values, context = self.domain.context_values(context), None
        choices, d = self.domain.action_domain, self.domain.dimension - len(values)
        free = availability_of(choices, available, context)
        rule, rng = self.rule, deepcopy(self.rng)
        is_shared = isinstance(rule, CountingRule) and count > _count_points(choices, free)
        allowed = ChoiceSet(choices, free, same_time[: 0 if is_shared else None, :d])
        if free is not None and free.test is not None:
            # What a function leaves of a box, if anything, is known once the rule has looked for it.
            rule = deepcopy(rule)
        for _ in range(count):
            x = rule.choose(now, allowed, Plays(out.X[:, :d], out.t), rng)
            if not is_shared:
                allowed.exclude(x)
            out = out.append(append_context(x[None, :], values), np.array([now]))
        X = out.X[len(self.record.pending) :].copy()
        self.rule, self.rng, self.record = rule, rng, replace(self.record, pending=out)
        return X

    def tell(
        self,
        X: ArrayLike | Named,
        y: ArrayLike | Counted,
        t: ArrayLike | None = None,
        noise_variance: ArrayLike | None = None,
        context: Context = None,
    ) -> Info:
        """Learn rewards (n,) of points (n, d), asked for or not; NaN: played, and no reading.

        Whatever is wrong with what is told, nothing happens; an interrupt (Ctrl-C), unlike that of a
        `Bandit`, may come in the middle. Times and variances are checked and kept, and that is all.

        Raises
        ------
        ValueError
            If a shape is wrong, a value is infinite, a variance is not positive, or a point lies
            outside the domain.
        """
        points = add_context(self.domain, X, context, self.record.pending, t)
        new = validate_observations(self, self.record, points, y, t, noise_variance)
        rewards, record = new.rewards, replace(self.record, **self.record.compute_update(new))
        if isinstance(self.rule, CheckingRule):
            self.rule.check(rewards)
        trials = np.ones(len(new.X))
        if isinstance(self.rule, CountingRule) and isinstance(y, Counted):
            is_share = bool(np.isfinite(y.trials).all())
            require(is_share, "y", "shares of trials, as of rate(successes, trials)", y)
            trials = y.trials
        before, observations, noise = len(self.record.rewards), record.rewards, self.noise
        learns = self.noise_variance is None and (noise is None or due(before, len(observations)))
        if (
            learns
            and isinstance(self.rule, NoiseAwareRule)
            and np.isnan(observations.variance).any()
        ):
            # The rule and its kernel know nothing of a context.
            columns = observations.X[:, : self.domain.action_domain.dimension]
            readings = Dataset.from_columns(
                columns, observations.t, observations.y, observations.variance
            )
            noise = estimated_noise(self.kernel, readings)
        scaled = self._scaled(rewards if noise is None else rewards.with_noise(noise.variance))
        if isinstance(self.rule, NoiseAwareRule) and noise is not None and noise is not self.noise:
            self.rule.noise = noise.variance / self.unit**2
        old, self.record, self.noise = self.record, record, noise
        if len(rewards) and isinstance(self.rule, CountingRule):
            read = trials[~np.isnan(y.values)] if isinstance(y, Counted) else trials
            self.rule.learn_shares(scaled, read[: len(rewards)])
        elif len(rewards):
            self.rule.learn(scaled, self.rng)
        skip_unasked(self.rng, old, record, new)
        return self.info

    def _scaled(self, rewards: Dataset) -> Dataset:
        """Rewards as the rule is told them; a `ValueError` if they are beyond what can be computed."""
        X = rewards.X[:, : self.domain.action_domain.dimension]
        y, variance = self.sign * rewards.y / self.unit, rewards.variance / self.unit**2
        try:
            return Dataset(X, rewards.t, y, variance)
        except ValueError as error:
            raise ValueError(f"in the unit {self.unit:g} of rewards, {error}") from None

    def drop(self, X: ArrayLike | Named) -> None:
        """Give up on points that were asked and will not be told; `ValueError` if one is not out."""
        out = self.record.pending
        points = self.domain.check(add_context(self.domain, X, None, out))
        self.record = replace(self.record, pending=out.drop(points))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file that no code can be run from, as `Bandit.save`."""
        save_value(path, self)


def _count_points(domain: Domain, available: Available | None) -> float:
    """Return how many points may be chosen: without end where the domain is not finite."""
    if not isinstance(domain, Candidates):
        return math.inf
    return len(domain) if available is None else int(available(domain.X).sum())


@dataclass(frozen=True)
class RunningMean:
    """The prior mean of rewards: a number, or the mean of those before.

    Attributes
    ----------
    prior : float or "online"
    total, count : float and int
        Of the rewards so far.
    """

    prior: Mean
    total: float = 0.0
    count: int = 0

    def update(self, y: float) -> RunningMean:
        """Return the mean with one more reward."""
        return replace(self, total=self.total + y, count=self.count + 1)

    @property
    def value(self) -> float:
        """The prior mean now."""
        if self.prior == "online":
            return self.total / self.count if self.count else 0.0
        return float(self.prior)

    def before(self, y: float) -> float:
        """Return the prior mean of a reward: the first one is as good as expected."""
        return y if self.prior == "online" and not self.count else self.value


def compute_initial_noise(noise_variance: float | None, unit: float) -> float:
    """Return the noise variance that a rule begins with, in units of the prior variance.

    Raises
    ------
    ValueError
        If one of them cannot be used.
    """
    finite_number("scale", unit, low=1 / LARGEST_VALUE, high=LARGEST_VALUE)
    check_optional(noise_variance_number, "noise_variance", noise_variance)
    return NOISE_CONFIG.prior_share if noise_variance is None else noise_variance / unit**2


def adapt(
    domain: Domain,
    rule: Rule,
    kernel: Any = None,
    noise_variance: float | None = 1.0,
    unit: float = 1.0,
    *,
    minimize: bool,
    seed: Seed,
) -> PolicyAdapter:
    """A player with a rule, before its first step; of a generator a child is spawned.

    A rule is told nothing of a measured context: what it learns holds for all values, and it is made
    for what is chosen on the domain (`Domain.action_domain`).

    Raises
    ------
    ValueError
        If the noise variance is to be learned (`noise_variance` is None), and there is no kernel to
        learn it with, or no attribute `noise` of the rule that it could be set on.
    """
    if noise_variance is None and not isinstance(rule, NoiseAwareRule):
        raise ValueError(
            f"{describe(rule)} has no attribute noise, on which a noise variance that is learned "
            "could be set: give noise_variance, or give the rule that attribute"
        )
    if noise_variance is None and kernel is None:
        raise ValueError(
            "a noise variance is learned with a kernel, got kernel=None: give it or noise_variance"
        )
    rng, sign = as_generator(seed), -1.0 if as_bool("minimize", minimize) else 1.0
    record = Record.empty(domain.dimension)
    return PolicyAdapter(domain, rule, rng, sign, record, kernel, noise_variance, unit)


def draw_available(
    draw: Callable[[], Array], allowed: ChoiceSet, rng: np.random.Generator
) -> Array:
    """What is drawn, if it is allowed before long; else one of those that are."""
    for _ in range(TRIES):
        x = draw()
        if allowed.is_everything or allowed(x[None, :])[0]:
            return x
    return allowed.sample(rng)


def get_action_domain(domain: Domain) -> Domain:
    """Return what is chosen on a domain: all of it, or what a measured context leaves."""
    check_domain(domain)
    choices: Domain = domain.action_domain
    return choices


def get_finite_action_domain(domain: Domain, name: str) -> Candidates:
    """What is chosen on a domain, if that is finite; a `ValueError` says who needs that."""
    return as_finite(get_action_domain(domain), name)


def check_width(beta: Any) -> float:
    """A width that is a number, or the value of a constant width."""
    width = beta.value if isinstance(beta, Fixed) else beta
    return finite_number("beta, a number for this policy,", width, low=0.0)


def choose_rule_unit(
    noise_variance: float | None, scale: float, *, mean: Mean, minimize: bool
) -> tuple[float, float, Mean]:
    """What a rule's rewards are divided by, and in that unit their noise variance and prior mean.

    That is their prior deviation, or 1 where their unit is the kernel's. Where less is better, a rule is
    told the negative of rewards.
    """
    check_mean(mean)
    if mean == "online":
        return scale, compute_initial_noise(noise_variance, scale), mean
    return (
        1.0,
        compute_initial_noise(noise_variance, 1.0),
        -mean if as_bool("minimize", minimize) else mean,
    )
