"""What a bandit has learned (`State`), and what it tells people (`Info`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.bandit.history import as_html, as_text
from tvbandits.data import Dataset, Outliers, Record
from tvbandits.domains.availability import Available
from tvbandits.domains.domain import Domain
from tvbandits.forgetting.aging import Aging
from tvbandits.gp.ensemble.models import ModelSpec
from tvbandits.gp.fitting.calibration import IntervalCalibration
from tvbandits.gp.fitting.noise import NoiseEstimate
from tvbandits.gp.fitting.online import Learned
from tvbandits.gp.fitting.standardisation import Scaling
from tvbandits.gp.posterior import Posterior
from tvbandits.gp.rows import AppendBuffer, CandidateGrid
from tvbandits.queries.plans import CandidatePool
from tvbandits.validation import Array


@dataclass(frozen=True)
class PosteriorInfo:
    """The posterior of the last decision.

    Attributes
    ----------
    in_use, forgotten : int
        Observations that the posterior uses, and those that aging has forgotten.
    jitter : float
        What the factorisation needed on its diagonal, 0 in good health; `state.posterior` estimates its
        condition number.
    dictionary_size : int or None
        Inducing points of a sparse posterior; None for the exact one.
    """

    in_use: int = 0
    forgotten: int = 0
    jitter: float = 0.0
    dictionary_size: int | None = None


@dataclass(frozen=True)
class ModelInfo:
    """What was learned about the reward.

    Attributes
    ----------
    centre, scale : float
        Prior mean and prior scale of the reward, in its unit.
    fits : int
        How many times something was learned.
    pace : float
        The pace of the aging map, where it was learned; NaN elsewhere.
    resets : int
        How many times everything older was forgotten at an event.
    nugget : float
        Deviation of what an ensemble has found to be new at every place at every time; 0 elsewhere.
    members : tuple of pairs (weight, ModelSpec)
        The models of an ensemble that count most; empty elsewhere.
    widening : float
        Factor on the deviations shown, above 1 where a learned kernel or an ensemble was over-confident.
    coverage : float
        Share of the latest 95% intervals that held the reading, where they are watched; NaN elsewhere.
    noise : NoiseEstimate or None
        The noise variance of a reward, where it is learned.
    """

    centre: float = 0.0
    scale: float = 1.0
    fits: int = 0
    pace: float = math.nan
    resets: int = 0
    nugget: float = 0.0
    members: tuple[tuple[float, ModelSpec], ...] = ()
    widening: float = 1.0
    coverage: float = math.nan
    noise: NoiseEstimate | None = None


@dataclass(frozen=True)
class QueryInfo:
    """The expert's last query, and all of them.

    Attributes
    ----------
    asked, answered, refused : int
        Of the last query.
    total_asked, total_answered, total_refused : int
        Of all queries.
    failures : int
        Queries that the expert failed on as a whole.
    notes : tuple of str
        What the expert said about the last query besides its answers.
    cost, total_cost : float
        As the expert states it.
    """

    asked: int = 0
    answered: int = 0
    refused: int = 0
    total_asked: int = 0
    total_answered: int = 0
    total_refused: int = 0
    failures: int = 0
    notes: tuple[str, ...] = ()
    cost: float = 0.0
    total_cost: float = 0.0


@dataclass(frozen=True, repr=False)
class Info:
    """What happened last, for people: nothing that a bandit does depends on it.

    Attributes
    ----------
    told, failed : int
        Rewards told so far, and points that were played without a reading.
    outliers : int
        Rewards of those told that stand aside.
    beta : float
        Confidence width of the last decision, in posterior deviations.
    posterior : PosteriorInfo
    model : ModelInfo
    queries : QueryInfo

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    >>> info = bandit.tell([[0.0], [1.0]], [0.2, float("nan")], 1)
    >>> print(info.told, info.failed)
    1 1
    """

    told: int = 0
    failed: int = 0
    outliers: int = 0
    beta: float = math.nan
    posterior: PosteriorInfo = field(default_factory=PosteriorInfo)
    model: ModelInfo = field(default_factory=ModelInfo)
    queries: QueryInfo = field(default_factory=QueryInfo)

    @property
    def summary(self) -> list[tuple[str, object]]:
        """What people want to see first: names and values."""
        asked = self.queries.total_asked
        return [
            ("told", self.told),
            *([("failed", self.failed)] if self.failed else []),
            *([("outliers", self.outliers)] if self.outliers else []),
            ("width", self.beta),
            ("in use", self.posterior.in_use),
            ("centre", self.model.centre),
            ("scale", self.model.scale),
            *([] if math.isnan(self.model.coverage) else [("coverage", self.model.coverage)]),
            *([("noise variance", str(self.model.noise))] if self.model.noise else []),
            *([("asked", asked), ("answered", self.queries.total_answered)] if asked else []),
            *([("cost", self.queries.total_cost)] if self.queries.total_cost else []),
        ]

    def __repr__(self) -> str:
        return as_text("Info", self.summary)

    def _repr_html_(self) -> str:
        return as_html("Info", self.summary)


class Player(Protocol):
    """What a comparison can play: a bandit, or anything with its ask and tell."""

    @property
    def info(self) -> Info:
        """What happened in the last ask and tell."""

    def ask(self, t: float | None = None) -> Array:
        """Where to play at time `t`, shape (b, d)."""

    def tell(self, X: ArrayLike, y: ArrayLike, t: ArrayLike | None = None) -> Info:
        """Learn rewards (b,) of points (b, d)."""


@dataclass(frozen=True)
class Questions:
    """What was asked so far, as far as it decides what is asked next.

    Attributes
    ----------
    pool : CandidatePool
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
    informed : bool
        Whether a question was answered since the last decision.
    variance : float or None
        Noise variance that the expert stated last, in the middle of its answers.
    available : Available or None
        The points that were available in the last decision, where that was said.
    """

    pool: CandidatePool
    asked: int = 0
    decisions: int = 0
    due: bool = False
    latest: float | None = None
    down: bool = False
    informed: bool = False
    variance: float | None = None
    available: Available | None = None


@dataclass(frozen=True)
class ModelState:
    """What was learned about the reward.

    Attributes
    ----------
    scaling : Scaling
        Where rewards are centred, and the unit of the kernel.
    kernel : scikit-learn kernel
    aging : Aging
    learned : Learned or None
        What fits of the kernel have come to.
    noise : NoiseEstimate or None
        The noise of a reward; None, where the recipe says it.
    """

    scaling: Scaling
    kernel: Any
    aging: Aging
    learned: Learned | None = None
    noise: NoiseEstimate | None = None


@dataclass(frozen=True, eq=False, repr=False)
class State(Record):
    """Everything a bandit has learned; can be pickled, and resumed by `Bandit.from_state`.

    Two states are equal if a bandit goes on from both in the same way, to the last bit.

    Attributes
    ----------
    rewards, answers, failed, pending, time, asked_for, gone
        As of `Record`; without the outliers.
    visited : array of shape (N, d)
        Distinct points played, in the order of their first play.
    model : ModelState
    posterior : Posterior or None
        The latest, from which the next one is made.
    questions : Questions
    random : mapping
        State of the random generator.
    domain : Domain
        The recipe's; the posterior belongs to it.
    spent : float
        Sum of log(1 + 3 variance / noise variance) of the rewards told, for the width of BBKB. Of an
        outcome: the risk taken (`bandit.deciding.OutcomeBeliefs`).
    since : pair of int
        How many of the first rewards and of the first answers an event has made forgotten.
    calibration : IntervalCalibration
        How well the deviations of a learned kernel have held.
    expert : mapping or None
        What the expert knows by itself, where it says: the rest of a budget, pairs of a calibration.
    outcomes : mapping of str to State
        What was learned about each outcome that has a limit: its readings stand there as rewards.
    outliers : Outliers or None
        Readings that a robust bandit has set aside, if any; they are not among the rewards.
    coming : ModelState or None
        The model soon, with another noise variance (`inference.SOON`).
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

    visited: Array
    model: ModelState
    posterior: Posterior | None
    questions: Questions
    random: Mapping[str, Any]
    domain: Domain
    spent: float = 0.0
    since: tuple[int, int] = (0, 0)
    calibration: IntervalCalibration = field(default_factory=IntervalCalibration)
    expert: Mapping[str, Any] | None = None
    outcomes: Mapping[str, State] = field(default_factory=dict)
    outliers: Outliers | None = None
    coming: ModelState | None = None
    info: Info = field(default_factory=Info, compare=False)

    @property
    def told(self) -> int:
        """How many rewards were told, with those that have left the history."""
        return self.gone.rewards + len(self.rewards.t)

    @property
    def readings(self) -> Dataset:
        """All rewards in the order they were told, with the outliers among them."""
        return self.rewards if self.outliers is None else self.outliers.among(self.rewards)

    def with_model(self, *, about: Mapping[str, Any] | None = None, **parts: Any) -> State:
        """With other parts of the model, and in `about` what people are told of them."""
        info = self.info
        if about is not None:
            info = replace(info, model=replace(info.model, **about))
        coming = self.coming and replace(self.coming, **parts)
        return replace(self, model=replace(self.model, **parts), coming=coming, info=info)

    def with_outliers(self, told: Dataset, out: NDArray[np.bool_]) -> State:
        """The state that knows all of these readings but the outliers; what is forgotten stays so.

        Parameters
        ----------
        told : Dataset
            All readings in the order they were told, and perhaps further ones.
        out : boolean array of shape (n,)
        """
        rewards, answers = self.since
        if rewards:
            known = np.arange(len(self.readings))
            known = known if self.outliers is None else np.delete(known, self.outliers.rows)
            rewards = int((~out[: known[rewards - 1] + 1]).sum())
        return replace(
            self,
            rewards=told.take(~out),
            outliers=Outliers.of(told, out) if out.any() else None,
            since=(rewards, answers),
            time=max(float(told.t.max()), -math.inf if self.time is None else self.time),
        )

    def since_time(self, until: float, posterior: Posterior | None) -> State:
        """Without rewards, answers and failed plays from before a time; outliers stay."""
        rewards, answers = self.rewards.t >= until, self.answers.t >= until
        model, outliers = self.model, self.outliers

        def kept(first: tuple[int, int]) -> tuple[int, int]:
            return int(rewards[: first[0]].sum()), int(answers[: first[1]].sum())

        if model.learned is not None:
            model = replace(model, learned=replace(model.learned, at=kept(model.learned.at)))
        if outliers is not None:
            readings, out = self.readings, np.zeros(len(rewards) + len(outliers), dtype=bool)
            out[outliers.rows] = True
            stays = out | (readings.t >= until)
            outliers = Outliers.of(readings.take(stays), out[stays])
        return replace(
            self,
            model=model,
            posterior=posterior,
            since=kept(self.since),
            outliers=outliers,
            **self.left_from(until),
        )

    @property
    def summary(self) -> list[tuple[str, object]]:
        """What people want to see first: names and values."""
        return [
            ("rewards", self.told),
            *([("outliers", len(self.outliers))] if self.outliers else []),
            ("answers", len(self.answers)),
            ("pending", len(self.pending)),
            ("time", "none told" if self.time is None else self.time),
            ("questions", self.questions.asked),
        ]

    def widened(self, columns: int) -> State:
        """With so many more coordinates of points, all 0; what is computed from them is left out."""
        model, aside = self.coming or self.model, self.outliers
        learned = model.learned and model.learned.widened(columns)
        return replace(
            self,
            **self.with_coordinates(columns),
            model=replace(model, learned=learned),
            coming=None,
            outliers=aside and replace(aside, seen=aside.seen.widened(columns)),
            visited=np.pad(self.visited, ((0, 0), (0, columns))),
            posterior=None,
            questions=replace(self.questions, pool=CandidatePool.none(), available=None),
            outcomes={name: each.widened(columns) for name, each in self.outcomes.items()},
        )

    def __repr__(self) -> str:
        return as_text("State", self.summary)

    def _repr_html_(self) -> str:
        return as_html("State", self.summary)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return all(
            same_value(getattr(self, each.name), getattr(other, each.name))
            for each in fields(self)
            if each.compare
        )

    __hash__ = None  # type: ignore[assignment]


def same_value(one: Any, other: Any) -> bool:
    """Whether two values are the same to the last bit: arrays by numbers, parts by their fields."""
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
        return one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, AppendBuffer):
        return one.square == other.square and same_value(one.array, other.array)
    if isinstance(one, CandidateGrid):
        return bool(one.kernel == other.kernel) and same_value(one.points, other.points)
    # Classes that say themselves when they are equal are asked.
    if is_dataclass(one) and getattr(type(one), "__dataclass_params__").eq:  # noqa: B009
        names = [each.name for each in fields(one) if each.compare]
        return all(same_value(getattr(one, name), getattr(other, name)) for name in names)
    return bool(one == other)


def generator_of(random: Mapping[str, Any]) -> np.random.Generator:
    """A generator that continues from a stored state."""
    bits = getattr(np.random, random["bit_generator"])()
    bits.state = random
    return np.random.Generator(bits)
