"""A bandit around a rule: a small object that chooses points from past plays and rewards alone.

The adapter checks arguments and handles pending points, contexts, availability, units and saving.
"""

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
from tvbandits.domains.availability import Availability, Available, ChoiceSet, check_availability
from tvbandits.domains.candidates import Candidates, as_finite
from tvbandits.domains.domain import Context, Domain, add_context, append_context, check_domain
from tvbandits.domains.parameters import Named
from tvbandits.gp.noise import CONFIG as NOISE_CONFIG, NoiseEstimate, infer_noise, is_noise_due
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

# The number of draws of a rule before a point is drawn uniformly from those available.
TRIES = 20


class Rule(Protocol):
    """A rule that chooses the next point. Larger rewards are better, and times do not decrease.

    A rule is a dataclass, of which the fields are saved. The adapter passes rewards and their variances
    in a unit that it chooses.
    """

    def choose(
        self, now: float, allowed: ChoiceSet, pending: Plays, rng: np.random.Generator
    ) -> Array:
        """Return the next point (d,) among those allowed, while some plays are pending.

        A rule takes pending plays into account: a model treats the posterior mean of each as observed,
        which lowers the variance around it; a schedule continues after them.
        """

    def learn(self, rewards: Dataset, rng: np.random.Generator) -> None:
        """Update the rule with new rewards."""


@runtime_checkable
class SizedRule(Protocol):
    """A rule that stores only some of the rewards."""

    @property
    def size(self) -> int:
        """Return the number of rewards that the rule stores."""


@runtime_checkable
class NoiseAwareRule(Protocol):
    """A rule that uses the noise variance of rewards, which the adapter sets whenever it changes."""

    noise: float


@runtime_checkable
class CheckingRule(Protocol):
    """A rule that can only use some rewards."""

    def check(self, rewards: Dataset) -> None:
        """Raise a `ValueError` for rewards (in the user's unit) that the rule cannot use."""


@runtime_checkable
class CountingRule(Protocol):
    """A rule that weighs a proportion of successes by its number of trials.

    Its choices are random draws. If more plays are requested than there are points, each play is drawn
    independently, so that a point's expected fraction is its probability of being the best.
    """

    def learn_shares(self, rewards: Dataset, trials: Array) -> None:
        """Update the rule with proportions (n,) of numbers of trials (n,)."""


@dataclass(eq=False, repr=False)
class PolicyAdapter:
    """A bandit that plays by a rule; `adapt` creates it.

    A call checks all its arguments before it changes anything. A reward without a noise variance of its
    own has `noise_variance`; if that is None, the variance is learned with `kernel`. The rule receives
    the rewards divided by `unit`, and with the sign `sign`.
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
        return f"<{type(self.rule).__name__} on {self.domain!r}, {rewards} rewards{pending}>"

    @property
    def info(self) -> Info:
        """Return numbers about the bandit; `dictionary_size` is the number of rewards in the rule."""
        posterior = PosteriorInfo(
            dictionary_size=self.rule.size if isinstance(self.rule, SizedRule) else None
        )
        model = ModelInfo(noise=self.noise)
        record = self.record
        return Info(len(record.rewards), len(record.failed), posterior=posterior, model=model)

    @property
    def pending(self) -> Array:
        """Return the points (k, d) of `ask` whose rewards have not been told yet."""
        return self.record.pending.X.copy()

    @property
    def history(self) -> pd.DataFrame:
        """Return a table of all plays: time, coordinates, reward, variance, source, kind."""
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
        """Return the points (n, d) to play next, by default one.

        A call that fails changes nothing.

        Parameters
        ----------
        t : float, optional
            Time of the decision; by default one unit after the latest reward.
        n : int, optional
            Number of points, distinct if the domain has as many.
        available, context
            What is available, as for `Bandit.ask`.

        Raises
        ------
        ValueError
            If `t`, `n`, `available` or `context` cannot be used.
        NothingAvailableError
            If nothing is available.
        """
        pending = self.record.pending
        now = self.record.decision_time if t is None else as_time(t)
        count = 1 if n is None else whole_number("n", n, at_most=100_000)
        same_time = pending.X[pending.t == now]
        values = np.empty(0)
        if self.domain.context_parameters:
            values, context = self.domain.context_values(context), None
        choices, d = self.domain.action_domain, self.domain.dimension - len(values)
        availability = check_availability(choices, available, context)
        rule, rng = self.rule, deepcopy(self.rng)
        repeats = isinstance(rule, CountingRule) and count > _count_points(choices, availability)
        allowed = ChoiceSet(choices, availability, same_time[: 0 if repeats else None, :d])
        if availability is not None and availability.test is not None:
            # If the test admits no point, the rule fails only after it has started to search.
            rule = deepcopy(rule)
        for _ in range(count):
            x = rule.choose(now, allowed, Plays(pending.X[:, :d], pending.t), rng)
            if not repeats:
                allowed.exclude(x)
            pending = pending.append(append_context(x[None, :], values), np.array([now]))
        X = pending.X[len(self.record.pending) :].copy()
        self.rule, self.rng, self.record = rule, rng, replace(self.record, pending=pending)
        return X

    def tell(
        self,
        X: ArrayLike | Named,
        y: ArrayLike | Counted,
        t: ArrayLike | None = None,
        noise_variance: ArrayLike | None = None,
        context: Context = None,
    ) -> Info:
        """Learn the rewards (n,) of points (n, d), which need not be those of `ask`; NaN: no reading.

        A call with invalid arguments changes nothing. Unlike with a `Bandit`, an interrupt (Ctrl-C) may
        leave the update incomplete.

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
            is_proportion = bool(np.isfinite(y.trials).all())
            require(is_proportion, "y", "proportions of trials, as of rate(successes, trials)", y)
            trials = y.trials
        count_before, observations, noise = len(self.record.rewards), record.rewards, self.noise
        is_due = noise is None or is_noise_due(count_before, len(observations))
        learns_noise = self.noise_variance is None and isinstance(self.rule, NoiseAwareRule)
        if learns_noise and is_due and np.isnan(observations.variance).any():
            # The rule and its kernel have no context columns.
            actions = observations.X[:, : self.domain.action_domain.dimension]
            readings = Dataset.from_columns(
                actions, observations.t, observations.y, observations.variance
            )
            noise = infer_noise(self.kernel, readings)
        scaled = self._scale_rewards(
            rewards if noise is None else rewards.with_noise(noise.variance)
        )
        if isinstance(self.rule, NoiseAwareRule) and noise is not None and noise is not self.noise:
            self.rule.noise = noise.variance / self.unit**2
        record_before, self.record, self.noise = self.record, record, noise
        if len(rewards) and isinstance(self.rule, CountingRule):
            trials = trials[~np.isnan(y.values)] if isinstance(y, Counted) else trials
            self.rule.learn_shares(scaled, trials[: len(rewards)])
        elif len(rewards):
            self.rule.learn(scaled, self.rng)
        skip_unasked(self.rng, record_before, record, new)
        return self.info

    def _scale_rewards(self, rewards: Dataset) -> Dataset:
        """Return rewards in the rule's sign and unit; a `ValueError` if they are too large there."""
        X = rewards.X[:, : self.domain.action_domain.dimension]
        y, variance = self.sign * rewards.y / self.unit, rewards.variance / self.unit**2
        try:
            return Dataset(X, rewards.t, y, variance)
        except ValueError as error:
            raise ValueError(f"in the unit {self.unit:g} of rewards, {error}") from None

    def drop(self, X: ArrayLike | Named) -> None:
        """Remove pending points (n, d) that will not be played; a `ValueError` if one is not pending."""
        pending = self.record.pending
        points = self.domain.check(add_context(self.domain, X, None, pending))
        self.record = replace(self.record, pending=pending.drop(points))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the bandit to a file, as `Bandit.save`."""
        save_value(path, self)


def _count_points(domain: Domain, available: Available | None) -> float:
    """Return the number of available points; infinity if the domain is not finite."""
    if not isinstance(domain, Candidates):
        return math.inf
    return len(domain) if available is None else int(available(domain.X).sum())


@dataclass(frozen=True)
class RunningMean:
    """The prior mean of rewards: a number, or the mean of all earlier rewards.

    Attributes
    ----------
    prior : float or "online"
    total, count : float and int
        The sum and the number of the rewards so far.
    """

    prior: Mean
    total: float = 0.0
    count: int = 0

    def update(self, y: float) -> RunningMean:
        """Return the mean with one more reward."""
        return replace(self, total=self.total + y, count=self.count + 1)

    @property
    def value(self) -> float:
        """Return the present prior mean."""
        if self.prior == "online":
            return self.total / self.count if self.count else 0.0
        return float(self.prior)

    def before(self, y: float) -> float:
        """Return the prior mean for a reward `y`; online, it is `y` itself for the first reward."""
        return y if self.prior == "online" and not self.count else self.value


def compute_initial_noise(noise_variance: float | None, unit: float) -> float:
    """Return a rule's initial noise variance, divided by the square of the unit.

    Raises
    ------
    ValueError
        If the noise variance or the unit is invalid.
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
    """Return a new bandit that plays by a rule; if `seed` is a generator, a child is spawned from it.

    The rule does not see a measured context. It is for the domain of actions (`Domain.action_domain`),
    and what it learns holds for all contexts.

    Raises
    ------
    ValueError
        If `noise_variance` is None, so that it must be learned, but there is no kernel to learn it with,
        or the rule has no attribute `noise` to set.
    """
    if noise_variance is None and not isinstance(rule, NoiseAwareRule):
        raise ValueError(
            f"a learned noise variance is set as the attribute noise, which {describe(rule)} lacks: "
            "give noise_variance, or add that attribute to the rule"
        )
    if noise_variance is None and kernel is None:
        raise ValueError(
            "a noise variance is learned with a kernel, got kernel=None: give kernel or noise_variance"
        )
    rng, sign = as_generator(seed), -1.0 if as_bool("minimize", minimize) else 1.0
    record = Record.empty(domain.dimension)
    return PolicyAdapter(domain, rule, rng, sign, record, kernel, noise_variance, unit)


def draw_available(
    draw: Callable[[], Array], allowed: ChoiceSet, rng: np.random.Generator
) -> Array:
    """Return a draw that is allowed, or a uniform allowed point if the first `TRIES` draws are not."""
    for _ in range(TRIES):
        x = draw()
        if allowed.is_everything or allowed(x[None, :])[0]:
            return x
    return allowed.sample(rng)


def get_action_domain(domain: Domain) -> Domain:
    """Return the domain of actions: the domain without the coordinates of a measured context."""
    check_domain(domain)
    choices: Domain = domain.action_domain
    return choices


def get_finite_action_domain(domain: Domain, name: str) -> Candidates:
    """Return the candidates of the domain of actions; a `ValueError` names who needs a finite one."""
    return as_finite(get_action_domain(domain), name)


def check_width(beta: Any) -> float:
    """Return a confidence width as a number; a `ValueError` if it is not a constant."""
    width = beta.value if isinstance(beta, Fixed) else beta
    return finite_number("beta, a number for this policy,", width, low=0.0)


def choose_rule_unit(
    noise_variance: float | None, scale: float, *, mean: Mean, minimize: bool
) -> tuple[float, float, Mean]:
    """Return the unit of a rule's rewards, and in that unit their noise variance and prior mean.

    The unit is the prior standard deviation `scale` if the mean is "online"; otherwise 1, as the kernel
    is in the unit of reward. If rewards are minimized, the rule receives their negatives.
    """
    check_mean(mean)
    if mean == "online":
        return scale, compute_initial_noise(noise_variance, scale), mean
    return (
        1.0,
        compute_initial_noise(noise_variance, 1.0),
        -mean if as_bool("minimize", minimize) else mean,
    )
