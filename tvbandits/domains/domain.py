"""What a domain can do, and the context that is measured before a decision.

A point of a domain with a context is (action, context): what was played, and in what circumstances. The
columns of the context are the last ones. A model sees both alike and learns across contexts; a decision
is about one context.
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
from tvbandits.validation import (
    Array,
    as_column,
    as_floats,
    as_points,
    as_times,
    check_part,
    describe,
    of_kind,
)

# Values by name, such as {"outside": 3.2}, or numbers in the order of the names.
Context = Mapping[str, Any] | ArrayLike | None

# For messages: words have no distances that a kernel of numbers could see.
INSTEAD_OF_WORDS = "for words take a Space, or give each an interval (0, 1), and 1 where it holds"

# Maps points (m, d) to values (m,).
Acquisition = Callable[[Array], Array]


@runtime_checkable
class SmoothAcquisition(Protocol):
    """An acquisition that knows its slopes: it is climbed from many points at once."""

    @property
    def near(self) -> Array:
        """Points (n, d) about which its maxima may be narrow."""

    def __call__(self, X: Array) -> Array:
        """Return the values (m,) at points (m, d)."""

    def values_and_slopes(self, X: Array) -> tuple[Array, Array]:
        """Return the values (m,) and slopes (m, d) at points (m, d)."""


class Domain(ABC):
    """The set of points that a bandit may play.

    A domain of your own derives from it and has `dimension`, `check`, `sample` and `maximize`. All else
    has the answer of a domain without names and without a context.
    """

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of coordinates of a point, those of the context included."""

    @abstractmethod
    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as points of the domain; `ValueError` names the first one outside."""

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` points drawn uniformly, with replacement, shape (n, d)."""

    @abstractmethod
    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """Return the point (d,) of largest acquisition, and that value; `rng` breaks ties.

        `acquisition` maps points (m, d) to values (m,).
        """

    @property
    def intervals(self) -> Array | None:
        """The ranges (d, 2) of the coordinates that are chosen; None where they are no intervals."""
        return None

    # --- names ------------------------------------------------------------------------------------

    @property
    def coordinate_names(self) -> list[str]:
        """Names by which people see the coordinates: x0, x1, ..., and those of the context."""
        parts = self.context_parameters
        chosen = self.dimension - sum(part.width for part in parts.values())
        return [*(f"x{i}" for i in range(chosen)), *parts]

    @property
    def is_named(self) -> bool:
        """Whether people see points as rows of a frame, which `decode` returns."""
        return False

    def encode(self, points: Any) -> Array:
        """Return points with names as points (n, d); most domains have no names to read them by."""
        return as_points(points, self.dimension)

    def decode(self, X: ArrayLike) -> Any:
        """Return points (n, d) as people see them: a frame where the coordinates have names."""
        return as_points(X, self.dimension)

    def values_by_name(self, X: Array) -> dict[str, Any]:
        """Return points (n, d) as people see them: a column (n,) for each of `coordinate_names`."""
        if self.is_named:
            frame = self.decode(X)
            return {str(name): frame[name].to_numpy() for name in frame.columns}
        parts, names = self.context_parameters, self.coordinate_names
        chosen = len(names) - len(parts)
        ends = chosen + np.cumsum([part.width for part in parts.values()], dtype=np.int64)
        values = dict(zip(names[:chosen], X.T[:chosen], strict=True))
        for (name, part), end in zip(parts.items(), ends.tolist(), strict=True):
            values[name] = part.values(part.codes(X[:, end - part.width : end], name))
        return values

    def from_values(self, values: Any) -> Array:
        """Return the point (1, d) of values (p,) as people see them, in the order of the names."""
        numbers, parts = as_floats(values, "values"), self.context_parameters
        chosen = len(self.coordinate_names) - len(parts)
        if not parts:
            return self.check(numbers[None])
        return self.check(
            append_context(numbers[None, :chosen], self.context_values(numbers[chosen:]))
        )

    # --- the context ------------------------------------------------------------------------------

    @property
    def context_parameters(self) -> Mapping[str, Parameter]:
        """The parameters of the context that is measured before a decision, by name."""
        return {}

    @property
    def context_columns(self) -> tuple[int, ...]:
        """Columns of a point that the world gives, and nobody chooses."""
        width = sum(part.width for part in self.context_parameters.values())
        return tuple(range(self.dimension - width, self.dimension))

    @property
    def action_domain(self) -> Domain:
        """The domain of what is chosen: all of it where no context is measured."""
        return self

    def context_values(self, context: Context) -> Array:
        """Return the columns (c,) of one value of the measured context.

        Raises
        ------
        ValueError
            If a name is missing or unknown, or a value is not in its range: the message names it; or if
            there is no context, or none is given.
        """
        parts = self.context_parameters
        if not parts:
            raise ValueError(f"{self!r} has no measured context, got context={describe(context)}")
        if context is None:
            first = next(iter(parts))
            raise ValueError(f"{self!r} has a context, say context={{{first!r}: ...}}")
        if not isinstance(context, Mapping):
            values = np.atleast_1d(as_floats(context, "context")).tolist()
            if np.ndim(context) > 1 or len(values) != len(parts):
                needs = f"have a value for each of {', '.join(parts)}"
                raise ValueError(f"context must {needs}, got {describe(context)}")
            context = dict(zip(parts, values, strict=True))
        return columns_by_name(parts, context)

    def at_context(self, values: Array) -> Domain:
        """Return all points at one value of the measured context, given as columns (c,)."""
        return AtContext(self, context_row(values, len(self.context_columns)))

    @property
    def every_point(self) -> Array | None:
        """All points (A, d) of a small finite domain that is not one of candidates; else None."""
        return None

    # --- distances --------------------------------------------------------------------------------

    @property
    def distance_weights(self) -> Array:
        """Weights (d,) of the coordinates in the distance of two points; a context has none."""
        weights = np.ones(self.dimension)
        weights[list(self.context_columns)] = 0.0
        return weights

    @property
    def resolution(self) -> Array | float:
        """Points that are nearer to each other along all coordinates, (d,), count as one point."""
        return 0.0

    def near(self, x: Array, distance: float) -> Domain:
        """Return a part of the domain with all points within a distance of `x` (d,), or all of it.

        A search of the whole domain may miss them.
        """
        del x, distance
        return self

    def by_sample(self, centres: Array) -> Domain:
        """Return the domain, searched by a random sample and neighbours of some points (n, d).

        A domain that looks at all of its points is returned as it is.
        """
        as_points(centres, self.dimension, "centres")
        return self


# --- the context ----------------------------------------------------------------------------------


def check_domain(domain: object) -> None:
    """Raise a `ValueError` unless this is a domain."""
    check_part("domain", domain, "a domain such as Candidates(X) or Box(bounds)", "sample")


def as_context_parameters(context: Mapping[str, Any] | None) -> dict[str, Parameter]:
    """Return the parameters that people write as a context: {"outside": (-15, 20)}.

    Raises
    ------
    ValueError
        If it is no mapping of names to ranges; the message names the one that is none.
    """
    context = {} if context is None else context
    of_kind("context", context, Mapping, 'a mapping such as {"outside": (-15, 20)}')
    for name in context:
        of_kind("a name of the context", name, str, "a text")
    return {name: as_parameter(each, f"context {name}") for name, each in context.items()}


def columns_by_name(parts: Mapping[str, Parameter], context: Mapping[str, Any]) -> Array:
    """Return the columns (c,) of a value of each of some parameters.

    Raises
    ------
    ValueError
        If a name is missing or unknown, or a value is not in its range; the message names it.
    """
    check_names("context", context, parts)
    columns = [np.empty(0)]
    for name, part in parts.items():
        try:
            code = np.array([part.code_of(context[name], name, 0)])
            columns.append(part.columns(part.codes(part.columns(code), name))[0])
        except ValueError as error:
            raise ValueError(f"context: {str(error).removesuffix(' in row 0')}") from None
    return np.concatenate(columns)


def plain_context(context: Context) -> Any:
    """Return a context in the plain values of JSON: by name, or in their order."""
    if isinstance(context, Mapping):
        return {
            name: each if isinstance(each, str) else float(each) for name, each in context.items()
        }
    return context if context is None else as_floats(context, "context").tolist()


def context_row(values: ArrayLike, count: int) -> Array:
    """Return the values (count,) of a measured context; a number alone is one of one."""
    return as_column(np.atleast_1d(as_floats(values, "values")), count, "values")


def append_context(X: Array, values: Array) -> Array:
    """Return points (n, d) of actions (n, d - c) at one value of the context, columns (c,)."""
    return np.hstack([X, np.broadcast_to(values, (len(X), len(values)))])


def as_inputs(domain: Domain, X: Any, context: Context = None) -> Array:
    """Return any finite points (m, d), in the domain or not, with their context.

    They may have names where the domain has names; see `add_context`.
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
    """Return points with their context: as given, or else that of a play of the same action.

    It is the play at the time of the point, or the latest before it, or else the latest of all. Of
    several of one time, or where no times are given, each counts once, as long as there are others.

    Parameters
    ----------
    domain : Domain
    X : array of shape (n, d) or (n, d - c), or points with names
        Points that have their context are returned as they are.
    context : mapping or array, optional
        Of all of them.
    plays : Plays, optional
        Such as the pending ones, the latest last.
    t : float or array of shape (n,), optional
        Times of the points.

    Raises
    ------
    ValueError
        If a context is given to points that have one, or there is none for a point.
    """
    if not domain.context_parameters:
        if context is not None:
            domain.context_values(context)  # it says so
        return X
    X, complete = _check_with_or_without_context(domain, X)
    if complete:
        if context is not None:
            raise ValueError(f"the points have a context, got another: {describe(context)}")
        return X
    if context is not None:
        return append_context(X, domain.context_values(context))
    plays = Plays.empty(domain.dimension) if plays is None else plays
    return np.hstack([X, _contexts_of_plays(domain, X, plays, t)])


def _check_with_or_without_context(domain: Domain, X: Any) -> tuple[Any, bool]:
    """Return checked points, and whether they have a context."""
    if has_names(X):
        rows: Any = rows_by_name(X)
        complete = all(set(domain.context_parameters) & set(row) for row in rows)
        return (domain if complete else domain.action_domain).check(rows), complete
    X = as_points(X)
    complete = X.shape[1] == domain.dimension
    return (X if complete else domain.action_domain.check(X)), complete


def _contexts_of_plays(domain: Domain, X: Array, plays: Plays, t: ArrayLike | None) -> Array:
    """Return the contexts (n, c) at which actions (n, d - c) were played; see `add_context`."""
    count = domain.dimension - X.shape[1]
    times = np.full(len(X), np.inf) if t is None else as_times(t, len(X))
    contexts, used = np.empty((len(X), count)), set[int]()
    for i, x in reversed(list(enumerate(X))):
        there = np.flatnonzero((plays.X[:, :-count] == x).all(axis=1)).tolist()
        if not there:
            raise PlayError(
                "the context of {point} is not known: it was not asked for, without one: say "
                "context={context}",
                point=x,
                context=f"{{{next(iter(domain.context_parameters))!r}: ...}}",
            )
        ranks = [
            (row not in used and (t is None or at == times[i]), at <= times[i], at, row)
            for row, at in zip(there, plays.t[there].tolist(), strict=True)
        ]
        used.add(row := max(ranks)[-1])
        contexts[i] = plays.X[row, -count:]
    return contexts


@dataclass(frozen=True)
class AtContext(Domain):
    """A domain at one value of its context.

    Attributes
    ----------
    whole : Domain
        The domain at all values.
    values : array of shape (c,)
        The columns of the context.
    part : Domain, optional
        What is chosen from: all actions by default.
    """

    whole: Domain
    values: Array
    part: Domain | None = None

    def __repr__(self) -> str:
        return f"{self.whole!r} at {self.values.tolist()}"

    @property
    def actions(self) -> Domain:
        """The domain that is chosen from, without the context."""
        return self.whole.action_domain if self.part is None else self.part

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point, those of the context included."""
        return self.whole.dimension

    @property
    def coordinate_names(self) -> list[str]:
        """Names of the coordinates, as of the whole domain."""
        return self.whole.coordinate_names

    @property
    def is_named(self) -> bool:
        """Whether people see points as rows of a frame."""
        return self.whole.is_named

    @property
    def distance_weights(self) -> Array:
        """Weights (d,) of the coordinates in a distance, as of the whole domain."""
        return self.whole.distance_weights

    @property
    def resolution(self) -> Array | float:
        """Points that are nearer to each other count as one point, as in the whole domain."""
        return self.whole.resolution

    @property
    def every_point(self) -> Array | None:
        """All points (A, d) at this value, where few can be chosen; else None."""
        points = self.actions.every_point
        return None if points is None else append_context(points, self.values)

    def encode(self, points: Any) -> Array:
        """Return points with names as points (n, d) of the whole domain."""
        return self.whole.encode(points)

    def decode(self, X: ArrayLike) -> Any:
        """Return points as the whole domain shows them to people."""
        return self.whole.decode(X)

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as points of the whole domain."""
        return self.whole.check(X, name)

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` points drawn uniformly at this value, shape (n, d)."""
        return append_context(self.actions.sample(n, rng), self.values)

    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """Return the point (d,) of the largest acquisition at this value, and its value."""
        sliced: Acquisition = _Sliced(acquisition, self.values)
        if isinstance(acquisition, SmoothAcquisition):
            sliced = _SlicedSmooth(acquisition, self.values)
        x, value = self.actions.maximize(sliced, rng)
        return np.concatenate([x, self.values]), value

    def near(self, x: Array, distance: float) -> AtContext:
        """Return a part of the domain with all points within a distance of `x` (d,)."""
        return replace(self, part=self.actions.near(x[: -len(self.values)], distance))

    def by_sample(self, centres: Array) -> AtContext:
        """Return the domain, searched by a random sample.

        Neighbours of earlier plays, which other contexts called for, are no part of it: they made the
        decisions of a heat pump worse.
        """
        as_points(centres, self.dimension, "centres")
        actions = self.actions
        return replace(self, part=actions.by_sample(np.empty((0, actions.dimension))))


def move_to_context(domain: Domain, whole: Domain, X: Array) -> Array:
    """Return the actions of points (n, d) of the whole, each once, at the one context of a domain.

    Parameters
    ----------
    domain : Domain
        The whole domain at a value of its context, or `whole` itself: then the points stay as they are.
    whole : Domain
    X : array of shape (n, d)
    """
    if domain is whole or not whole.context_parameters:
        return X
    count = len(whole.context_columns)
    (here,) = domain.sample(1, np.random.default_rng(0))
    actions = X[:, :-count]
    _, first = np.unique(actions, axis=0, return_index=True)
    return append_context(actions[np.sort(first)], here[-count:])


@dataclass(frozen=True)
class _Sliced:
    """An acquisition as a function of the action alone."""

    whole: Any
    values: Array

    def __call__(self, X: Array) -> Array:
        return np.asarray(self.whole(append_context(X, self.values)))


@dataclass(frozen=True)
class _SlicedSmooth(_Sliced):
    """An acquisition with slopes, as a function of the action alone."""

    @property
    def near(self) -> Array:
        return np.asarray(self.whole.near[:, : -len(self.values)])

    def values_and_slopes(self, X: Array) -> tuple[Array, Array]:
        values, slopes = self.whole.values_and_slopes(append_context(X, self.values))
        return values, slopes[:, : X.shape[1]]
