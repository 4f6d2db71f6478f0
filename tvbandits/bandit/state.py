"""What a bandit has learned (`State`): a frozen value, from which a bandit goes on."""

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
    """What was asked of an expert so far, as far as it decides what is asked next.

    Attributes
    ----------
    pool : PlayedPool
        Which of the points played may be asked about.
    asked : int
        Questions asked.
    decisions : int
        Decisions that the expert was consulted for.
    due : bool
        Whether something happened since then that the expert is to be consulted about: a decision, where
        it is asked after a tell; a tell, where it is asked before a decision.
    latest : float or None
        The time of the last consultation.
    down : bool
        Whether the expert could not be reached then.
    answered : bool
        Whether a question was answered since the last decision.
    variance : float or None
        Noise variance that the expert stated last, in the middle of its answers.
    available : Available or None
        The points that were available in the last decision, where that was said.
    expert : mapping or None
        What the expert knows by itself, where it says: the rest of a budget, pairs of a calibration.
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
    """What was learned about the reward, apart from its posterior.

    Attributes
    ----------
    scaling : Scaling
        Where rewards are centred, and the unit of the kernel.
    kernel : scikit-learn kernel
    aging : Aging
    fit : Learned or None
        What fits of the kernel have come to.
    noise : NoiseEstimate or None
        The noise of a reward; None, where the recipe says it.
    calibration : IntervalCalibration
        How well the deviations of a kernel that is fitted have held.
    bbkb_information : float
        Sum over the rewards of log(1 + 3 variance / noise variance), each with the variance at the start
        of its batch, where the width is that of [BB] Theorem 2; 0 elsewhere.
    risk : float
        Of an outcome that has a limit: violations that are expected of the plays so far, less those
        allowed (`acquisition.constraints.OutcomePosterior`); 0 elsewhere.
    reset_index : pair of int
        How many of the first rewards and of the first answers an event has made forgotten.
    next_model : ModelState or None
        The model soon, with another noise variance (`inference.CONFIG`).
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
        """Tell whether a posterior of one is a posterior of the other: of the same parts."""
        names = ("scaling", "kernel", "aging", "fit", "noise")
        return self is other or all(getattr(self, each) is getattr(other, each) for each in names)

    def with_prior_of(self, other: ModelState) -> ModelState:
        """Return this state with scaling, kernel, aging, fit and noise of another one."""
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
    """Everything a bandit has learned; can be pickled, and resumed by `Bandit.from_state`.

    Two states are equal if a bandit goes on from both in the same way, to the last bit.

    Attributes
    ----------
    record : Record
        What was observed and asked; outliers are not among its rewards.
    visited : array of shape (N, d)
        Distinct points played, in the order of their first play.
    outliers : Outliers or None
        Readings that a robust bandit has set aside, if any.
    model : ModelState
    posterior : Posterior or None
        The latest, from which the next one is made.
    queries : QueryState
    random : mapping
        State of the random generator.
    domain : Domain
        The recipe's; the posterior belongs to it.
    outcomes : mapping of str to State
        What was learned about each outcome that has a limit: its readings stand there as rewards.
    info : Info
        For people; does not count in equality.

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

    # --- what was observed ------------------------------------------------------------------------

    @property
    def rewards(self) -> Dataset:
        """The rewards that count, in the sign and unit of the user."""
        return self.record.rewards

    @property
    def answers(self) -> Dataset:
        """The answers of an expert that count."""
        return self.record.answers

    @property
    def failed(self) -> Plays:
        """Points that were played without a reading."""
        return self.record.failed

    @property
    def pending(self) -> Plays:
        """Points asked and not yet told."""
        return self.record.pending

    @property
    def time(self) -> float | None:
        """The latest time told."""
        return self.record.time

    @property
    def expired(self) -> Expired:
        """What has left the history."""
        return self.record.expired

    @property
    def count(self) -> int:
        """How many rewards were told, with those that have left the history."""
        return self.record.expired.rewards + len(self.record.rewards.t)

    @property
    def readings(self) -> Dataset:
        """All rewards in the order they were told, with the outliers among them."""
        rewards = self.record.rewards
        return rewards if self.outliers is None else self.outliers.merge(rewards)

    # --- states with other parts ------------------------------------------------------------------

    def with_record(self, **parts: Any) -> State:
        """Return the state with other parts of its record."""
        return replace(self, record=replace(self.record, **parts))

    def with_queries(self, **parts: Any) -> State:
        """Return the state with other parts of what it knows of queries."""
        return replace(self, queries=replace(self.queries, **parts))

    def with_model(self, *, about: Mapping[str, Any] | None = None, **parts: Any) -> State:
        """Return the state with other parts of the model.

        Parameters
        ----------
        about : mapping, optional
            What people are told of them, as `ModelInfo` calls it.
        parts
            As `ModelState` calls them; the next model has them, too.
        """
        info, upcoming = self.info, self.model.next_model
        if about is not None:
            info = replace(info, model=replace(info.model, **about))
        if upcoming is not None and "next_model" not in parts:
            parts["next_model"] = replace(upcoming, **parts)
        return replace(self, model=replace(self.model, **parts), info=info)

    def with_noise(self, estimate: NoiseEstimate | None) -> State:
        """Return the state with an estimate of the noise variance, without a posterior."""
        changed = self.with_model(noise=estimate, next_model=None, about={"noise": estimate})
        return replace(changed, posterior=None)

    def with_outliers(self, readings: Dataset, is_outlier: NDArray[np.bool_]) -> State:
        """Return the state that knows all of these readings but the outliers.

        What an event has made forgotten stays so.

        Parameters
        ----------
        readings : Dataset
            All readings in the order they were told, and perhaps further ones.
        is_outlier : boolean array of shape (n,)
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
        """Return the state without rewards, answers and failed plays from before a time.

        Outliers stay.
        """
        rewards, answers = self.rewards.t >= until, self.answers.t >= until
        model, outliers = self.model, self.outliers

        def left_of(first: tuple[int, int]) -> tuple[int, int]:
            return int(rewards[: first[0]].sum()), int(answers[: first[1]].sum())

        if model.fit is not None:
            model = replace(model, fit=replace(model.fit, at=left_of(model.fit.at)))
        if outliers is not None:
            readings, aside = self.readings, np.zeros(len(rewards) + len(outliers), dtype=bool)
            aside[outliers.rows] = True
            stays = aside | (readings.t >= until)
            outliers = Outliers.from_mask(readings.take(stays), aside[stays])
        return replace(
            self.with_record(**self.record.compute_expiry(until)),
            model=replace(model, reset_index=left_of(model.reset_index)),
            posterior=posterior,
            outliers=outliers,
        )

    def add_coordinates(self, columns: int) -> State:
        """Return the state with so many more coordinates of points, all 0.

        What is computed from them is left out.
        """
        model, outliers = self.model, self.outliers
        if model.next_model is not None:
            model = replace(model.with_prior_of(model.next_model), next_model=None)
        if model.fit is not None:
            model = replace(model, fit=model.fit.widened(columns))
        return replace(
            self.with_record(**self.record.compute_padding(columns)),
            model=model,
            outliers=outliers
            and replace(outliers, observations=outliers.observations.add_coordinates(columns)),
            visited=np.pad(self.visited, ((0, 0), (0, columns))),
            posterior=None,
            queries=replace(self.queries, pool=PlayedPool.none(), available=None),
            outcomes={name: each.add_coordinates(columns) for name, each in self.outcomes.items()},
        )

    # --- for people -------------------------------------------------------------------------------

    @property
    def summary(self) -> list[tuple[str, object]]:
        """What people want to see first: names and values."""
        return [
            ("rewards", self.count),
            *([("outliers", len(self.outliers))] if self.outliers else []),
            ("answers", len(self.answers)),
            ("pending", len(self.pending)),
            ("time", "none told" if self.time is None else self.time),
            ("questions", self.queries.asked),
        ]

    def __repr__(self) -> str:
        return as_text("State", self.summary)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return all(
            is_same_value(getattr(self, each.name), getattr(other, each.name))
            for each in fields(self)
            if each.compare
        )

    __hash__ = None  # type: ignore[assignment]


def is_same_value(one: Any, other: Any) -> bool:
    """Tell whether two values are the same to the last bit: arrays by numbers, parts by their fields."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        nan = one.dtype.kind == "f"
        return one.shape == other.shape and bool(np.array_equal(one, other, equal_nan=nan))
    if isinstance(one, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(
            is_same_value(one[key], other[key]) for key in one
        )
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(is_same_value, one, other))
    if isinstance(one, AppendBuffer):
        return one.square == other.square and is_same_value(one.array, other.array)
    if isinstance(one, CandidateGrid):
        return bool(one.kernel == other.kernel) and is_same_value(one.points, other.points)
    # Classes that say themselves when they are equal are asked.
    if is_dataclass(one) and getattr(type(one), "__dataclass_params__").eq:  # noqa: B009
        names = [each.name for each in fields(one) if each.compare]
        return all(is_same_value(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)


def restore_generator(random: Mapping[str, Any]) -> np.random.Generator:
    """Return a generator that continues from a stored state."""
    bits = getattr(np.random, random["bit_generator"])()
    bits.state = random
    return np.random.Generator(bits)
