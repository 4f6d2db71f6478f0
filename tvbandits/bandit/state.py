"""The state of a bandit: a frozen value of all that it has learned, from which it can continue."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvbandits.bandit.info import Info
from tvbandits.data import Dataset, Expired, Outliers, Plays, Record
from tvbandits.domains.availability import Available
from tvbandits.domains.domain import Domain
from tvbandits.errors import PlayError
from tvbandits.forgetting.aging import Aging
from tvbandits.gp.calibration import IntervalCalibration
from tvbandits.gp.noise import NoiseEstimate
from tvbandits.gp.online import Learned
from tvbandits.gp.posterior import AppendBuffer, CandidateGrid, Posterior
from tvbandits.gp.standardisation import Scaling
from tvbandits.queries.plans import PlayedPool
from tvbandits.text import as_text
from tvbandits.validation import Array


@dataclass(frozen=True)
class QueryState:
    """The part of the state that determines the next expert queries.

    Attributes
    ----------
    pool : PlayedPool
        The points that were played and about which the expert may be queried.
    asked : int
        The number of points that the expert was queried about.
    decisions : int
        The number of decisions for which the expert was queried.
    due : bool
        Whether a query is due: if the expert is queried after a tell, there was a decision since the
        last query; if it is queried before a decision, there was a tell.
    latest : float or None
        The time of the last query.
    down : bool
        Whether the expert was down at the last query.
    answered : bool
        Whether the expert has answered since the last decision.
    variance : float or None
        The median noise variance of the last answers for which the expert stated one.
    available : Available or None
        The points that were available in the last decision, if that was restricted.
    expert : mapping or None
        The memory of the expert, if it can be saved, such as the rest of a budget.
    """

    pool: PlayedPool
    asked: int = 0
    decisions: int = 0
    due: bool = False
    latest: float | None = None
    down: bool = False
    answered: bool = False
    variance: float | None = None
    available: Available | None = None
    expert: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ModelState:
    """The learned numbers of the model of the reward, without its posterior.

    Attributes
    ----------
    scaling : Scaling
        The mean and the scale with which rewards are standardised.
    kernel : scikit-learn kernel
    aging : Aging
    fit : Learned or None
        The result of the kernel fits so far.
    noise : NoiseEstimate or None
        The noise variance of a reward; None if the recipe states it.
    calibration : IntervalCalibration
        How often the intervals of a fitted kernel have covered the readings.
    bbkb_information : float
        The sum over the rewards of log(1 + 3 variance / noise variance), each with the variance at the
        start of its batch, if the width is that of [BB] Theorem 2; otherwise 0.
    risk : float
        For a limited outcome: the expected number of violations in the plays so far, minus the allowed
        number (`acquisition.constraints.OutcomePosterior`); otherwise 0.
    reset_index : pair of int
        The numbers of first rewards and of first answers that are forgotten because of an event.
    next_model : ModelState or None
        A model with a new noise variance that will soon replace this one (`inference.CONFIG`).
    """

    scaling: Scaling
    kernel: Any
    aging: Aging
    fit: Learned | None = None
    noise: NoiseEstimate | None = None
    calibration: IntervalCalibration = field(default_factory=IntervalCalibration)
    bbkb_information: float = 0.0
    risk: float = 0.0
    reset_index: tuple[int, int] = (0, 0)
    next_model: ModelState | None = None

    def has_prior_of(self, other: ModelState) -> bool:
        """Return whether the two models have the same prior, so that their posteriors are the same."""
        names = ("scaling", "kernel", "aging", "fit", "noise")
        return self is other or all(getattr(self, name) is getattr(other, name) for name in names)

    def with_prior_of(self, other: ModelState) -> ModelState:
        """Return this model with scaling, kernel, aging, fit and noise of another one."""
        return replace(
            self,
            scaling=other.scaling,
            kernel=other.kernel,
            aging=other.aging,
            fit=other.fit,
            noise=other.noise,
        )


@dataclass(frozen=True, eq=False, repr=False)
class State:
    """The state of a bandit: everything it has learned; `Bandit.from_state` continues from it.

    It can be pickled. Two states are equal if a bandit continues from both in the same way, bit for bit.

    Attributes
    ----------
    record : Record
        Observations and pending points; the rewards are without outliers.
    visited : array of shape (N, d)
        Distinct points that were played, in the order of their first play.
    outliers : Outliers or None
        The readings that a robust bandit ignores, if any.
    model : ModelState
    posterior : Posterior or None
        The latest posterior, from which the next one is computed.
    queries : QueryState
    random : mapping
        The state of the random generator.
    domain : Domain
        The domain of the posterior, which is the recipe's.
    outcomes : mapping of str to State
        The state of each limited outcome, with its readings as rewards.
    info : Info
        Information for the user, which is not compared.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, policies
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    >>> info = bandit.tell([[0.0]], [0.2], 1)
    >>> again = Bandit.from_state(bandit.recipe, bandit.state)
    >>> print(again.state == bandit.state, len(again.state.rewards))
    True 1
    """

    record: Record
    visited: Array
    outliers: Outliers | None
    model: ModelState
    posterior: Posterior | None
    queries: QueryState
    random: Mapping[str, Any]
    domain: Domain
    outcomes: Mapping[str, State] = field(default_factory=dict)
    info: Info = field(default_factory=Info, compare=False)

    # --- observations -----------------------------------------------------------------------------

    @property
    def rewards(self) -> Dataset:
        """Return the rewards without outliers, in the sign and unit of the user."""
        return self.record.rewards

    @property
    def answers(self) -> Dataset:
        """Return the answers of an expert that the model uses."""
        return self.record.answers

    @property
    def failed(self) -> Plays:
        """Return the plays whose reading failed."""
        return self.record.failed

    @property
    def pending(self) -> Plays:
        """Return the pending points, whose rewards have not arrived yet."""
        return self.record.pending

    @property
    def time(self) -> float | None:
        """Return the latest time of a reward or a failed play."""
        return self.record.time

    @property
    def expired(self) -> Expired:
        """Return a summary of the observations that are no longer stored."""
        return self.record.expired

    @property
    def count(self) -> int:
        """Return the number of rewards so far, including those that are no longer stored."""
        return self.record.expired.rewards + len(self.record.rewards.t)

    @property
    def readings(self) -> Dataset:
        """Return all rewards in the order of arrival, outliers included."""
        rewards = self.record.rewards
        return rewards if self.outliers is None else self.outliers.merge(rewards)

    # --- states with other parts ------------------------------------------------------------------

    def with_record(self, **parts: Any) -> State:
        """Return the state with some fields of its record replaced."""
        return replace(self, record=replace(self.record, **parts))

    def with_queries(self, **parts: Any) -> State:
        """Return the state with some fields of its query state replaced."""
        return replace(self, queries=replace(self.queries, **parts))

    def with_model(self, *, info: Mapping[str, Any] | None = None, **parts: Any) -> State:
        """Return the state with some fields of its model replaced.

        Parameters
        ----------
        info : mapping, optional
            New values of fields of `ModelInfo`.
        parts
            New values of fields of `ModelState`, also for the next model.
        """
        new_info, next_model = self.info, self.model.next_model
        if info is not None:
            new_info = replace(new_info, model=replace(new_info.model, **info))
        if next_model is not None and "next_model" not in parts:
            parts["next_model"] = replace(next_model, **parts)
        return replace(self, model=replace(self.model, **parts), info=new_info)

    def with_noise(self, estimate: NoiseEstimate | None) -> State:
        """Return the state with another estimate of the noise variance, without a posterior."""
        changed = self.with_model(noise=estimate, next_model=None, info={"noise": estimate})
        return replace(changed, posterior=None)

    def with_outliers(self, readings: Dataset, is_outlier: NDArray[np.bool_]) -> State:
        """Return the state with these readings, of which some are outliers.

        Readings that are forgotten because of an event stay forgotten.

        Parameters
        ----------
        readings : Dataset
            All readings of the state in the order of arrival, possibly followed by new ones.
        is_outlier : boolean array of shape (n,)
            The outliers among these readings.
        """
        rewards, answers = self.model.reset_index
        if rewards:
            rows = np.arange(len(self.readings))
            rows = rows if self.outliers is None else np.delete(rows, self.outliers.rows)
            rewards = int((~is_outlier[: rows[rewards - 1] + 1]).sum())
        latest = -math.inf if self.time is None else self.time
        return replace(
            self.with_record(
                rewards=readings.take(~is_outlier), time=max(float(readings.t.max()), latest)
            ),
            outliers=Outliers.from_mask(readings, is_outlier) if is_outlier.any() else None,
            model=replace(self.model, reset_index=(rewards, answers)),
        )

    def drop_before(self, until: float, posterior: Posterior | None) -> State:
        """Return the state without rewards, answers and failed plays before the time `until`.

        Outliers stay. `posterior` is the posterior of the remaining observations.
        """
        rewards, answers = self.rewards.t >= until, self.answers.t >= until
        model, outliers = self.model, self.outliers

        def count_remaining(first: tuple[int, int]) -> tuple[int, int]:
            return int(rewards[: first[0]].sum()), int(answers[: first[1]].sum())

        if model.fit is not None:
            model = replace(model, fit=replace(model.fit, at=count_remaining(model.fit.at)))
        if outliers is not None:
            readings, is_outlier = self.readings, np.zeros(len(rewards) + len(outliers), dtype=bool)
            is_outlier[outliers.rows] = True
            remains = is_outlier | (readings.t >= until)
            outliers = Outliers.from_mask(readings.take(remains), is_outlier[remains])
        return replace(
            self.with_record(**self.record.compute_expiry(until)),
            model=replace(model, reset_index=count_remaining(model.reset_index)),
            posterior=posterior,
            outliers=outliers,
        )

    def add_coordinates(self, count: int) -> State:
        """Return the state whose points have `count` more coordinates, all 0, without a posterior."""
        model, outliers = self.model, self.outliers
        if model.next_model is not None:
            model = replace(model.with_prior_of(model.next_model), next_model=None)
        if model.fit is not None:
            model = replace(model, fit=model.fit.add_arms(count))
        return replace(
            self.with_record(**self.record.compute_padding(count)),
            model=model,
            outliers=outliers
            and replace(outliers, observations=outliers.observations.add_coordinates(count)),
            visited=np.pad(self.visited, ((0, 0), (0, count))),
            posterior=None,
            queries=replace(self.queries, pool=PlayedPool.none(), available=None),
            outcomes={name: state.add_coordinates(count) for name, state in self.outcomes.items()},
        )

    # --- text for the user ------------------------------------------------------------------------

    @property
    def summary(self) -> list[tuple[str, object]]:
        """Return names and values for a short text."""
        return [
            ("rewards", self.count),
            *([("outliers", len(self.outliers))] if self.outliers else []),
            ("answers", len(self.answers)),
            ("pending", len(self.pending)),
            ("time", "none" if self.time is None else self.time),
            ("queries", self.queries.asked),
        ]

    def __repr__(self) -> str:
        return as_text("State", self.summary)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return all(
            is_same_value(getattr(self, item.name), getattr(other, item.name))
            for item in fields(self)
            if item.compare
        )

    __hash__ = None  # type: ignore[assignment]


def is_same_value(a: Any, b: Any) -> bool:
    """Return whether two values are equal, bit for bit: arrays by numbers, parts by their fields."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        is_float = a.dtype.kind == "f"
        return a.shape == b.shape and bool(np.array_equal(a, b, equal_nan=is_float))
    if isinstance(a, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(is_same_value(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(is_same_value, a, b))
    if isinstance(a, AppendBuffer):
        return a.square == b.square and is_same_value(a.array, b.array)
    if isinstance(a, CandidateGrid):
        return bool(a.kernel == b.kernel) and is_same_value(a.points, b.points)
    # Dataclasses with an `__eq__` of their own are compared by that instead, below.
    if is_dataclass(a) and getattr(type(a), "__dataclass_params__").eq:  # noqa: B009
        names = [item.name for item in fields(a) if item.compare]
        return all(is_same_value(getattr(a, name), getattr(b, name)) for name in names)
    return bool(a == b)


def check_after_first(state: State, t: float) -> None:
    """Raise a `PlayError` if there are observations, and all stored ones are later than `t`."""
    times = np.concatenate([state.rewards.t, state.answers.t])
    if len(times) and t < times.min():
        first = float(times.min())
        raise PlayError("there is no reading until {t}: the first is at {first}", t=t, first=first)


def restore_generator(random: Mapping[str, Any]) -> np.random.Generator:
    """Return a generator of random numbers in a stored state."""
    bits = getattr(np.random, random["bit_generator"])()
    bits.state = random
    return np.random.Generator(bits)
