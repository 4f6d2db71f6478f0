"""The interface of a domain, and the context that is measured before a decision.

In a domain with a context, a point is (action, context): what is played, and under which conditions.
The columns of the context are the last ones. A model treats both alike and learns across contexts; a
decision chooses an action in one context.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.data import Plays
from tvbandits.domains.parameters import (
    Parameter,
    as_parameter,
    check_names,
    has_names,
    rows_by_name,
)
from tvbandits.errors import PlayError
from tvbandits.option_text import choose_words, format_context
from tvbandits.validation import (
    Array,
    as_column,
    as_floats,
    as_points,
    as_times,
    check_instance,
    check_part,
    describe,
)

# Values by name, such as {"outside": 3.2}, or numbers in the order of the names.
Context = Mapping[str, Any] | ArrayLike | None

# A remedy for messages: there are no distances between words that a kernel of numbers could use.
INSTEAD_OF_WORDS = "for words take a Space, or give each an interval (0, 1), and 1 if it applies"

# A function from points (m, d) to values (m,).
Acquisition = Callable[[Array], Array]


@runtime_checkable
class SmoothAcquisition(Protocol):
    """An acquisition with slopes, for gradient ascent from many points at once."""

    @property
    def near(self) -> Array:
        """Return points (n, d) near which there may be narrow maxima."""

    def __call__(self, X: Array) -> Array:
        """Return the values (m,) at points (m, d)."""

    def values_and_slopes(self, X: Array) -> tuple[Array, Array]:
        """Return the values (m,) and slopes (m, d) at points (m, d)."""


class Domain(ABC):
    """The set of points that a bandit may play.

    Your own domain inherits from it and defines `dimension`, `check`, `sample` and `maximize`. The other
    methods are those of a domain without names and without a context.
    """

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Return the number of coordinates of a point, including the context."""

    @abstractmethod
    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as points of the domain; a `ValueError` shows the first one outside."""

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` uniform random points (n, d), with replacement."""

    @abstractmethod
    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """Return the point (d,) of largest acquisition, and that value; `rng` breaks ties.

        `acquisition` maps points (m, d) to values (m,).
        """

    @property
    def intervals(self) -> Array | None:
        """Return the ranges (d, 2) of the coordinates without a context; None if there are none."""
        return None

    # --- names ------------------------------------------------------------------------------------

    @property
    def coordinate_names(self) -> list[str]:
        """Return the names of the coordinates for the user: x0, x1, ..., and those of the context."""
        parameters = self.context_parameters
        count = self.dimension - sum(parameter.width for parameter in parameters.values())
        return [*(f"x{i}" for i in range(count)), *parameters]

    @property
    def is_named(self) -> bool:
        """Return whether `decode` returns points as a frame."""
        return False

    def encode(self, points: Any) -> Array:
        """Return points from a user as an array (n, d); in most domains they are arrays already."""
        return as_points(points, self.dimension)

    def decode(self, X: ArrayLike) -> Any:
        """Return points (n, d) for the user: as a frame if the coordinates have names."""
        return as_points(X, self.dimension)

    def values_by_name(self, X: Array) -> dict[str, Any]:
        """Return points (n, d) for the user, as a column (n,) for each of `coordinate_names`."""
        if self.is_named:
            frame = self.decode(X)
            return {str(name): frame[name].to_numpy() for name in frame.columns}
        parameters, names = self.context_parameters, self.coordinate_names
        count = len(names) - len(parameters)
        widths = [parameter.width for parameter in parameters.values()]
        ends = count + np.cumsum(widths, dtype=np.int64)
        values = dict(zip(names[:count], X.T[:count], strict=True))
        for (name, parameter), end in zip(parameters.items(), ends.tolist(), strict=True):
            columns = X[:, end - parameter.width : end]
            values[name] = parameter.values(parameter.codes(columns, name))
        return values

    def from_values(self, values: Any) -> Array:
        """Return the point (1, d) with values (p,) in the order of `coordinate_names`."""
        numbers, parameters = as_floats(values, "values"), self.context_parameters
        count = len(self.coordinate_names) - len(parameters)
        if not parameters:
            return self.check(numbers[None])
        return self.check(
            append_context(numbers[None, :count], self.context_values(numbers[count:]))
        )

    # --- the context ------------------------------------------------------------------------------

    @property
    def context_parameters(self) -> Mapping[str, Parameter]:
        """Return the parameters of the context that is measured before a decision, by name."""
        return {}

    @property
    def context_columns(self) -> tuple[int, ...]:
        """Return the columns of a point that belong to the context, and are not chosen."""
        width = sum(parameter.width for parameter in self.context_parameters.values())
        return tuple(range(self.dimension - width, self.dimension))

    @property
    def action_domain(self) -> Domain:
        """Return the domain of the actions: without the measured context, if there is one."""
        return self

    def context_values(self, context: Context) -> Array:
        """Return the columns (c,) of one value of the measured context.

        Raises
        ------
        ValueError
            If a name is missing or unknown, or a value is not in its range (the message names it); if
            the domain has no context; or if `context` is None.
        """
        parameters = self.context_parameters
        if not parameters:
            raise ValueError(f"{self!r} has no measured context, got context={describe(context)}")
        if context is None:
            subject = choose_words(repr(self), "the campaign")
            raise ValueError(f"{subject} has a context: give it as {format_context(parameters)}")
        if not isinstance(context, Mapping):
            values = np.atleast_1d(as_floats(context, "context")).tolist()
            if np.ndim(context) > 1 or len(values) != len(parameters):
                needs = f"have a value for each of {', '.join(parameters)}"
                raise ValueError(f"context must {needs}, got {describe(context)}")
            context = dict(zip(parameters, values, strict=True))
        return encode_context(parameters, context)

    def at_context(self, values: Array) -> Domain:
        """Return the domain at one value of the measured context, given as columns (c,)."""
        return AtContext(self, check_context_values(values, len(self.context_columns)))

    @property
    def all_points(self) -> Array | None:
        """Return all points (A, d) of a small finite domain that is not one of candidates; else None."""
        return None

    # --- distances --------------------------------------------------------------------------------

    @property
    def distance_weights(self) -> Array:
        """Return the weights (d,) of the coordinates in the distance of two points; 0 for a context."""
        weights = np.ones(self.dimension)
        weights[list(self.context_columns)] = 0.0
        return weights

    @property
    def resolution(self) -> Array | float:
        """Return the distance along each coordinate, (d,), within which points count as equal."""
        return 0.0

    def near(self, x: Array, distance: float) -> Domain:
        """Return a part of the domain that contains all points within a distance of `x` (d,).

        It may be the whole domain, but a search of that could miss these points.
        """
        del x, distance
        return self

    def by_sample(self, centres: Array) -> Domain:
        """Return the domain with a faster search: a random sample and neighbours of `centres` (n, d).

        A domain that evaluates all of its points is returned unchanged.
        """
        as_points(centres, self.dimension, "centres")
        return self


# --- the context ----------------------------------------------------------------------------------


def check_domain(domain: object) -> None:
    """Raise a `ValueError` unless `domain` is a domain."""
    check_part("domain", domain, "a domain such as Candidates(X) or Box(bounds)", "sample")


def as_context_parameters(context: Mapping[str, Any] | None) -> dict[str, Parameter]:
    """Return the parameters of a context such as {"outside": (-15, 20)}.

    Raises
    ------
    ValueError
        If `context` is not a mapping of names to ranges; the message names the first invalid range.
    """
    context = {} if context is None else context
    check_instance("context", context, Mapping, 'a mapping such as {"outside": (-15, 20)}')
    for name in context:
        check_instance("a name of the context", name, str, "a text")
    return {name: as_parameter(value, f"context {name}") for name, value in context.items()}


def encode_context(parameters: Mapping[str, Parameter], context: Mapping[str, Any]) -> Array:
    """Return the columns (c,) of one value of each parameter.

    Raises
    ------
    ValueError
        If a name is missing or unknown, or a value is not in its range; the message names it.
    """
    check_names("context", context, parameters)
    columns = [np.empty(0)]
    for name, parameter in parameters.items():
        try:
            code = np.array([parameter.code_of(context[name], name, 0)])
            columns.append(parameter.columns(parameter.codes(parameter.columns(code), name))[0])
        except ValueError as error:
            raise ValueError(f"context: {str(error).removesuffix(' in row 0')}") from None
    return np.concatenate(columns)


def convert_context(context: Context) -> Any:
    """Return a context for JSON: values by name, or in the order of the names."""
    if isinstance(context, Mapping):
        return {
            name: value if isinstance(value, str) else float(value)
            for name, value in context.items()
        }
    return context if context is None else as_floats(context, "context").tolist()


def check_context_values(values: ArrayLike, count: int) -> Array:
    """Return the checked values (count,) of a measured context, which may be a number if count = 1."""
    return as_column(np.atleast_1d(as_floats(values, "values")), count, "values")


def append_context(X: Array, values: Array) -> Array:
    """Return the points (n, d) of actions (n, d - c) at one value (c,) of the context."""
    return np.hstack([X, np.broadcast_to(values, (len(X), len(values)))])


def as_inputs(domain: Domain, X: Any, context: Context = None) -> Array:
    """Return finite points (m, d), which may be outside of the domain, with their context.

    If the domain has names, the points may be given by name; see `add_context`.
    """
    points = add_context(domain, X, context)
    return as_points(domain.encode(points) if has_names(points) else points, domain.dimension)


def add_context(
    domain: Domain,
    X: Any,
    context: Context = None,
    plays: Plays | None = None,
    t: ArrayLike | None = None,
) -> Any:
    """Return points with their context: `context`, or else the context of a play of the same action.

    The play is that at the time of the point, or the latest one before, or else the latest of all. If
    there are several plays at that time, or `t` is None, no play is used twice while others are left.

    Parameters
    ----------
    domain : Domain
    X : array of shape (n, d) or (n, d - c), or points with names
        Points that contain their context are returned as they are.
    context : mapping or array, optional
        The context of all points.
    plays : Plays, optional
        Plays with their contexts, such as the pending ones, the latest last.
    t : float or array of shape (n,), optional
        The times of the points.

    Raises
    ------
    ValueError
        If a context is given for points that contain theirs, or a point has no context and no play.
    """
    if not domain.context_parameters:
        if context is not None:
            domain.context_values(context)  # raises the error about a domain without context
        return X
    X, is_complete = _check_with_or_without_context(domain, X)
    if is_complete:
        if context is not None:
            raise ValueError(f"the points have a context, got another: {describe(context)}")
        return X
    if context is not None:
        return append_context(X, domain.context_values(context))
    plays = Plays.empty(domain.dimension) if plays is None else plays
    return np.hstack([X, _find_contexts(domain, X, plays, t)])


def _check_with_or_without_context(domain: Domain, X: Any) -> tuple[Any, bool]:
    """Return checked points, and whether they contain their context."""
    if has_names(X):
        rows: Any = rows_by_name(X)
        is_complete = all(set(domain.context_parameters) & set(row) for row in rows)
        return (domain if is_complete else domain.action_domain).check(rows), is_complete
    X = as_points(X)
    is_complete = X.shape[1] == domain.dimension
    return (X if is_complete else domain.action_domain.check(X)), is_complete


def _find_contexts(domain: Domain, X: Array, plays: Plays, t: ArrayLike | None) -> Array:
    """Return the contexts (n, c) in which actions (n, d - c) were played; see `add_context`."""
    count = domain.dimension - X.shape[1]
    times = np.full(len(X), np.inf) if t is None else as_times(t, len(X))
    contexts, used_rows = np.empty((len(X), count)), set[int]()
    for i, x in reversed(list(enumerate(X))):
        rows = np.flatnonzero((plays.X[:, :-count] == x).all(axis=1)).tolist()
        if not rows:
            raise PlayError(
                "the context of {point} is not known, as the bandit did not choose it: give it as "
                "{context}",
                point=x,
                context=format_context(domain.context_parameters),
            )
        ranks = [
            (row not in used_rows and (t is None or time == times[i]), time <= times[i], time, row)
            for row, time in zip(rows, plays.t[rows].tolist(), strict=True)
        ]
        used_rows.add(row := max(ranks)[-1])
        contexts[i] = plays.X[row, -count:]
    return contexts


@dataclass(frozen=True)
class AtContext(Domain):
    """A domain at one value of its context.

    Attributes
    ----------
    whole : Domain
        The domain of all contexts.
    values : array of shape (c,)
        The columns of the context.
    part : Domain, optional
        The domain of the actions, if only some may be chosen.
    """

    whole: Domain
    values: Array
    part: Domain | None = None

    def __repr__(self) -> str:
        return f"{self.whole!r} at {self.values.tolist()}"

    @property
    def actions(self) -> Domain:
        """Return the domain of the actions, without the context."""
        return self.whole.action_domain if self.part is None else self.part

    @property
    def dimension(self) -> int:
        """Return the number of coordinates of a point, including the context."""
        return self.whole.dimension

    @property
    def coordinate_names(self) -> list[str]:
        """Return the names of the coordinates of the whole domain."""
        return self.whole.coordinate_names

    @property
    def is_named(self) -> bool:
        """Return whether `decode` returns points as a frame."""
        return self.whole.is_named

    @property
    def distance_weights(self) -> Array:
        """Return the weights (d,) of the coordinates in a distance in the whole domain."""
        return self.whole.distance_weights

    @property
    def resolution(self) -> Array | float:
        """Return the distance within which points of the whole domain count as equal."""
        return self.whole.resolution

    @property
    def all_points(self) -> Array | None:
        """Return all points (A, d) at this value, where few can be chosen; else None."""
        points = self.actions.all_points
        return None if points is None else append_context(points, self.values)

    def encode(self, points: Any) -> Array:
        """Return points from a user as points (n, d) of the whole domain."""
        return self.whole.encode(points)

    def decode(self, X: ArrayLike) -> Any:
        """Return points (n, d) of the whole domain for the user."""
        return self.whole.decode(X)

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as points of the whole domain."""
        return self.whole.check(X, name)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` uniform random points (n, d) in this context."""
        return append_context(self.actions.sample(n, rng), self.values)

    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """Return the point (d,) of the largest acquisition in this context, and its value."""
        restricted: Acquisition = _ActionAcquisition(acquisition, self.values)
        if isinstance(acquisition, SmoothAcquisition):
            restricted = _SmoothActionAcquisition(acquisition, self.values)
        x, value = self.actions.maximize(restricted, rng)
        return np.concatenate([x, self.values]), value

    def near(self, x: Array, distance: float) -> AtContext:
        """Return a part of the domain that contains all points within a distance of `x` (d,)."""
        return replace(self, part=self.actions.near(x[: -len(self.values)], distance))

    def by_sample(self, centres: Array) -> AtContext:
        """Return the domain, searched by a random sample without neighbours of `centres`.

        The earlier plays, chosen in other contexts, made the decisions about a heat pump worse.
        """
        as_points(centres, self.dimension, "centres")
        actions = self.actions
        return replace(self, part=actions.by_sample(np.empty((0, actions.dimension))))


def move_to_context(domain: Domain, whole: Domain, X: Array) -> Array:
    """Return the distinct actions of points (n, d), moved to the context of a domain.

    Parameters
    ----------
    domain : Domain
        `whole` at a value of its context; or `whole` itself: the points are then returned unchanged.
    whole : Domain
    X : array of shape (n, d)
    """
    if domain is whole or not whole.context_parameters:
        return X
    count = len(whole.context_columns)
    (point,) = domain.sample(1, np.random.default_rng(0))
    actions = X[:, :-count]
    _, first = np.unique(actions, axis=0, return_index=True)
    return append_context(actions[np.sort(first)], point[-count:])


@dataclass(frozen=True)
class _ActionAcquisition:
    """An acquisition as a function of the action, in one context."""

    whole: Any
    values: Array

    def __call__(self, X: Array) -> Array:
        return np.asarray(self.whole(append_context(X, self.values)))


@dataclass(frozen=True)
class _SmoothActionAcquisition(_ActionAcquisition):
    """An acquisition with slopes as a function of the action, in one context."""

    @property
    def near(self) -> Array:
        return np.asarray(self.whole.near[:, : -len(self.values)])

    def values_and_slopes(self, X: Array) -> tuple[Array, Array]:
        values, slopes = self.whole.values_and_slopes(append_context(X, self.values))
        return values, slopes[:, : X.shape[1]]
