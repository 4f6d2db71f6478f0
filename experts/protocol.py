"""The protocol of experts: how one is asked, how it answers, and what it may raise."""

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
    """An expert failed, or answered in a form that cannot be used."""


class ExpertUnavailableError(ExpertError):
    """An expert cannot be reached now, and may be later: raised by experts, never by a bandit."""


class ExpertDownWarning(RuntimeWarning, ExpertError):  # noqa: N818 - a warning first
    """An expert cannot be reached; the bandit goes on without its answers.

    Who would rather stop turns it into an error, which is then an `ExpertError`:
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
"""Exceptions that tell of a mistake in a program, not of an expert that cannot be reached."""


def is_mistake(error: BaseException) -> bool:
    """Tell whether an exception of an expert is a mistake, and not a failure to reach it."""
    if isinstance(error, ExpertError):
        return not isinstance(error, ExpertUnavailableError)
    return isinstance(error, MISTAKES)


@dataclass(frozen=True)
class Answers:
    """What an expert says about q points.

    Parameters
    ----------
    values : array of shape (q,)
        The answers, in the unit of reward. NaN means "no answer for this point".
    variance : array of shape (q,) or a number, optional
        Noise variance of each answer (unit of reward squared), positive; not looked at where there
        is no answer. None: nobody knows it, and an answer is as noisy as a reward of the bandit.
    cost : float
        What the whole query cost, in the expert's own unit; finite and not negative.
    notes : tuple of str
        What people should know about this query, such as why a point was refused. Control characters
        become spaces, and a long note is cut.

    Raises
    ------
    ValueError
        If shapes disagree, a value is infinite, the variance of an answer is not a positive finite
        number, or a number is beyond the range that can be computed with (`tvbandits.validation`).

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

    if TYPE_CHECKING:  # what may be given is more than what is kept

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
        """Return no answer for any of q points."""
        # More points than this would fill the memory of most machines.
        count = whole_number("q", q, at_least=0, at_most=100_000_000)
        none = np.full(count, np.nan)
        return cls(none, none, cost, notes)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Which points have an answer, shape (q,)."""
        return ~np.isnan(self.values)


def check_answers(answers: object, q: int, name: str = "the expert") -> Answers:
    """Return the answers of an expert about `q` points, if they can be used.

    This is the one check of answers.

    Raises
    ------
    ExpertError
        If it is not `Answers`, not one for each point, or was changed into something that could not
        have been made.
    """
    if not isinstance(answers, Answers):
        raise ExpertError(f"{name} must return Answers, got {type(answers).__name__}")
    if len(answers) != q:
        raise ExpertError(f"{name} must answer {q} points, got {len(answers)} values")
    try:  # once more: what is frozen can be changed all the same
        return Answers(answers.values, answers.variance, answers.cost, answers.notes)
    except ValueError as error:
        raise ExpertError(f"{name} gave answers that cannot be used: {error}") from error


@runtime_checkable
class Expert(Protocol):
    """Anything that can be asked for the reward at some points at one time.

    The answers must be honest about their noise: unbiased, with the stated variance. They need not
    be exact, and need not come at all (NaN).
    """

    def query(self, X: Array, t: float) -> Answers:
        """Answer about the q points `X` (q, d) at time `t`: one row of `Answers` for each point.

        An exception means that the expert cannot be reached now: the bandit goes on without it, and
        warns once. Exceptions that Python raises for mistakes in a program (`TypeError`,
        `ValueError`, ...; see `MISTAKES`) stop the call instead.
        """


@runtime_checkable
class Observer(Protocol):
    """An expert that also has `observe`, by which it sees the rewards of the bandit."""

    def observe(self, rewards: Dataset) -> None:
        """See rewards. The same rewards may be shown again, and must then count once."""


@runtime_checkable
class Stateful(Protocol):
    """An expert that also has a state, which can be saved and restored.

    A run that is resumed in another process makes its expert anew and gives it back what it knew: a
    budget goes on where it was, and a calibration keeps its pairs. A wrapper's state holds that of the
    experts inside it.
    """

    def state(self) -> dict[str, Any]:
        """Return the state in plain values that JSON can hold: numbers, texts, lists, mappings."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over the `state` of another expert of this kind, wholly or not at all.

        Raises
        ------
        ValueError
            If the state is of an expert of another kind.
        """


def state_of(expert: object) -> dict[str, Any] | None:
    """Return the state of an expert, with its kind; None where it has none."""
    if not isinstance(expert, Stateful):
        return None
    return {"kind": type(expert).__name__, **expert.state()}


def restore_state(expert: object, state: Mapping[str, Any] | None) -> None:
    """Restore the state of an expert that `state_of` returned.

    Raises
    ------
    ValueError
        If it is the state of an expert of another kind.
    """
    kind = None if state is None else state.get("kind")
    own = type(expert).__name__ if isinstance(expert, Stateful) else None
    if kind != own:
        receiver = own or f"{type(expert).__name__}, which keeps nothing"
        raise ValueError(f"the state is of {kind or 'no expert'}, and is given to {receiver}")
    if state is not None and isinstance(expert, Stateful):
        expert.restore(state)


def inform(expert: object, rewards: Dataset) -> None:
    """Show rewards to an expert that observes them; wrappers hand them on by this."""
    if isinstance(expert, Observer):
        expert.observe(rewards)
