"""The protocol of experts: their queries, their answers, and the errors that they may raise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.data import Dataset
from tvbandits.errors import CallWithinCallError
from tvbandits.validation import (
    LARGEST_VALUE,
    LARGEST_VARIANCE,
    SMALLEST_VARIANCE,
    Array,
    as_floats,
    as_list,
    as_variances,
    as_vector,
    check_instance,
    check_sizes,
    clean,
    nonnegative_number,
    set_fields,
    whole_number,
)


class ExpertError(RuntimeError):
    """An error of an expert, which failed or returned answers that cannot be used."""


class ExpertUnavailableError(ExpertError):
    """An error that an expert raises while it cannot be reached; a bandit never raises it."""


class ExpertDownWarning(RuntimeWarning, ExpertError):  # noqa: N818 - foremost, it is a warning
    """A warning that an expert cannot be reached and the bandit continues without its answers.

    To stop instead, turn the warning into an error, which is then an `ExpertError`:
    `warnings.simplefilter("error", ExpertDownWarning)`.
    """


MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    CallWithinCallError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""Exceptions that mean a mistake in a program, not an expert that cannot be reached."""


def is_mistake(error: BaseException) -> bool:
    """Return whether an exception of an expert means a mistake, not a failure to reach the expert."""
    if isinstance(error, ExpertError):
        return not isinstance(error, ExpertUnavailableError)
    return isinstance(error, MISTAKES)


@dataclass(frozen=True)
class Answers:
    """An expert's answers to a query about q points.

    Parameters
    ----------
    values : array of shape (q,)
        The answers, in the unit of reward. NaN means "no answer for this point".
    variance : array of shape (q,) or a number, optional
        Noise variance of each answer (unit of reward squared), positive; ignored for points without an
        answer. None: the noise is unknown, and a bandit treats an answer like a reward of its own.
    cost : float
        Cost of the whole query, in the expert's own unit; finite and not negative.
    notes : tuple of str
        Remarks for people, such as why a point was refused. Control characters become spaces, and a
        long note is cut.

    Raises
    ------
    ValueError
        If shapes disagree, a value is infinite, the variance of an answer is not a positive finite
        number, or a number is too large or too small to compute with (`tvbandits.validation`).

    Examples
    --------
    >>> from tvbandits import Answers
    >>> answers = Answers([0.3, float("nan")], variance=0.01, cost=2.0)
    >>> print(answers.answered, answers.variance)
    [ True False] [0.01 0.01]
    """

    values: Array
    variance: Array | None = None
    cost: float = 0.0
    notes: tuple[str, ...] = ()

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(
            self,
            values: ArrayLike,
            variance: ArrayLike | None = None,
            cost: float = 0.0,
            notes: Sequence[str] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        values = as_floats(self.values, "values")
        if values.ndim != 1:
            raise ValueError(f"values must have shape (q,), got {values.shape}")
        if not (np.abs(values) <= LARGEST_VALUE).all():  # NaN among them
            check_sizes(values, "values")
        values.setflags(write=False)
        set_fields(self, values=values, cost=nonnegative_number("cost", self.cost))
        if self.variance is not None:
            variance = as_vector(self.variance, len(values), "variance")
            if not ((variance >= SMALLEST_VARIANCE) & (variance <= LARGEST_VARIANCE)).all():
                as_variances(np.where(np.isnan(values), 1.0, variance), len(values))
            variance.setflags(write=False)
            set_fields(self, variance=variance)
        if type(self.notes) is not tuple or self.notes:
            notes = as_list("notes", self.notes, "a tuple of texts")
            for note in notes:
                check_instance("each of notes", note, str, "a text")
            object.__setattr__(self, "notes", tuple(map(clean, notes)))

    @classmethod
    def none(cls, q: int, *, cost: float = 0.0, notes: tuple[str, ...] = ()) -> Answers:
        """Return answers that contain no answer to any of q points."""
        # More points than this would not fit into the memory of most machines.
        count = whole_number("q", q, at_least=0, at_most=100_000_000)
        missing = np.full(count, np.nan)
        return cls(missing, missing, cost, notes)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Return a mask of the points that have an answer, shape (q,)."""
        return ~np.isnan(self.values)


def check_answers(answers: object, q: int, name: str = "the expert") -> Answers:
    """Return the answers of an expert to a query about `q` points, if they are valid.

    Raises
    ------
    ExpertError
        If it is not an `Answers`, has another number of values, or was changed in place so that its
        values are no longer valid.
    """
    if not isinstance(answers, Answers):
        raise ExpertError(f"{name} must return Answers, got {type(answers).__name__}")
    if len(answers) != q:
        raise ExpertError(f"{name} must answer {q} points, got {len(answers)} values")
    try:  # the fields of a frozen dataclass may still be arrays that the expert changed in place
        return Answers(answers.values, answers.variance, answers.cost, answers.notes)
    except ValueError as error:
        raise ExpertError(f"{name} returned answers that cannot be used: {error}") from error


@runtime_checkable
class Expert(Protocol):
    """An object that answers queries about the reward at some points at one time.

    Answers may be noisy, but must be unbiased and have the stated variance. An expert need not answer
    for every point (NaN).
    """

    def query(self, X: Array, t: float) -> Answers:
        """Return one answer for each of the q points `X` (q, d) at time `t`.

        An exception means that the expert cannot be reached now: the bandit continues without it, and
        warns once. Exceptions that Python raises for mistakes in a program (`TypeError`,
        `ValueError`, ...; see `MISTAKES`) stop the bandit's call instead.
        """


@runtime_checkable
class Observer(Protocol):
    """An expert that also has `observe`, by which a bandit shows it rewards."""

    def observe(self, rewards: Dataset) -> None:
        """Take note of rewards; the same rewards may be shown repeatedly, and must count once."""


@runtime_checkable
class Stateful(Protocol):
    """An expert that also has a state, which can be saved and restored.

    A run that is resumed in another process constructs its expert again and restores its state, such as
    the spending of a budget or the pairs of a calibration. A wrapper's state contains the state of the
    expert that it wraps.
    """

    def state(self) -> dict[str, Any]:
        """Return the state as values that JSON can represent: numbers, texts, lists, mappings."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Replace the state by that of another expert of this kind, completely or not at all.

        Raises
        ------
        ValueError
            If the state is of an expert of another kind.
        """


def state_of(expert: object) -> dict[str, Any] | None:
    """Return the state of an expert, with its kind, or None for an expert without a state."""
    if not isinstance(expert, Stateful):
        return None
    return {"kind": type(expert).__name__, **expert.state()}


def restore_state(expert: object, state: Mapping[str, Any] | None) -> None:
    """Restore the state of an expert that `state_of` returned.

    Raises
    ------
    ValueError
        If the state is of an expert of another kind.
    """
    state_kind = None if state is None else state.get("kind")
    expert_kind = type(expert).__name__ if isinstance(expert, Stateful) else None
    if state_kind != expert_kind:
        receiver = expert_kind or f"{type(expert).__name__}, which has no state"
        raise ValueError(
            f"the state is of {state_kind or 'no expert'}, and cannot be restored in {receiver}"
        )
    if state is not None and isinstance(expert, Stateful):
        expert.restore(state)


def inform(expert: object, rewards: Dataset) -> None:
    """Show rewards to an expert if it is an `Observer`."""
    if isinstance(expert, Observer):
        expert.observe(rewards)
