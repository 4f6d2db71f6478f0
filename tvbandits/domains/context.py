"""The measured context: the last coordinates of a point, which nobody chooses.

A point of a domain with a context is (chosen coordinates, columns of the context): what was played, and
in what circumstances. A model sees both alike and learns across values; a decision is about one value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.data import Plays
from tvbandits.domains.box_search import Acquisition, Smooth
from tvbandits.domains.domain import Domain
from tvbandits.domains.parameters import (
    Parameter,
    as_parameter,
    check_names,
    has_names,
    rows_by_name,
)
from tvbandits.errors import PlayError
from tvbandits.validation import Array, as_floats, as_points, as_times, describe, of_kind

# Values by name, such as {"outside": 3.2}, or numbers in the order of the names.
Context = Mapping[str, Any] | ArrayLike | None

# For messages: words have no distances that a kernel of numbers could see.
INSTEAD_OF_WORDS = "for words take a Space, or give each an interval (0, 1), and 1 where it holds"


def as_measured(given: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return the parameters that people write as a context: {"outside": (-15, 20)}.

    Raises
    ------
    ValueError
        If it is no mapping of names to ranges; the message names the one that is none.
    """
    of_kind("context", given, Mapping, 'a mapping such as {"outside": (-15, 20)}')
    for name in given:
        of_kind("a name of the context", name, str, "a text")
    return {name: as_parameter(each, f"context {name}") for name, each in given.items()}


def measured(domain: object) -> Mapping[str, Parameter]:
    """Return the parameters of a domain's measured context by name; most domains have none.

    Examples
    --------
    >>> from tvbandits import Box
    >>> from tvbandits.domains.context import measured
    >>> print(list(measured(Box([(0, 1)], context={"outside": (-15, 20)}))))
    ['outside']
    """
    return getattr(domain, "measured", {})


def coordinate_names(domain: Domain) -> list[str]:
    """Return x0, x1, ... for coordinates without names, and the names of the context."""
    parts = measured(domain)
    return [*(f"x{i}" for i in range(domain.dimension - len(parts))), *parts]


def chosen_of(domain: Any) -> Any:
    """Return the part of a domain that is chosen: all of it where it measures no context."""
    return domain.chosen if measured(domain) else domain


def context_columns(domain: Domain, context: Context) -> Array:
    """Return the columns (c,) of one value of the context of a domain.

    Raises
    ------
    ValueError
        If a name is missing or unknown, or a value is not in its range: the message names it; or if
        there is no context, or none is given.
    """
    parts = measured(domain)
    if not parts:
        raise ValueError(f"{domain!r} has no measured context, got context={describe(context)}")
    if context is None:
        first = next(iter(parts))
        raise ValueError(f"{domain!r} has a context, say context={{{first!r}: ...}}")
    if not isinstance(context, Mapping):
        values = np.atleast_1d(as_floats(context, "context")).tolist()
        if np.ndim(context) > 1 or len(values) != len(parts):
            needs = f"have a value for each of {', '.join(parts)}"
            raise ValueError(f"context must {needs}, got {describe(context)}")
        context = dict(zip(parts, values, strict=True))
    return columns_by_name(parts, context)


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


def opened(domain: Domain, context: Context) -> Domain:
    """Return the domain that a decision chooses from: all points at the measured context, if any.

    Raises
    ------
    ValueError
        If it has a measured context and none is given, or not all of it.
    """
    if not measured(domain):
        return domain
    values = context_columns(domain, context)
    if hasattr(domain, "_at"):  # candidates stay candidates: searched one by one, by row or mask
        return domain._at(values)  # type: ignore[no-any-return]
    return AtContext(domain, chosen_of(domain), values)


def inputs_of(domain: Domain, X: Any, context: Context = None) -> Array:
    """Any finite points (m, d), in the domain or not, by name where it has names; see `completed`."""
    given = completed(domain, X, context)
    encode = getattr(domain, "encode", None)
    if encode is not None and has_names(given):
        given = encode(given)
    return as_points(given, domain.dimension)


def completed(
    domain: Domain,
    X: Any,
    context: Context = None,
    known: Plays | None = None,
    t: ArrayLike | None = None,
) -> Any:
    """Points that have their context: as given, else that of one of `known` at the same place.

    It is that of the time of the point, or the latest before it, or else the latest of all. Of several
    of one time, or where no times are given, each counts once, as long as there are others.

    Parameters
    ----------
    domain : Domain
    X : array of shape (n, d) or (n, d - c), or points with names
        What has its context already is taken as it is.
    context : mapping or array, optional
        Of all of them.
    known : Plays, optional
        Such as those that are out, the latest last.
    t : float or array of shape (n,), optional
        Of the points.

    Raises
    ------
    ValueError
        If a context is given to what has one, or there is none for a point.
    """
    parts = measured(domain)
    if not parts:
        if context is not None:
            context_columns(domain, context)  # it says so
        return X
    count = sum(part.width for part in parts.values())
    chosen: Any = domain.chosen  # type: ignore[attr-defined]
    if has_names(X):
        rows = rows_by_name(X)
        whole = all(set(parts) & set(row) for row in rows)
        given: Any = domain if whole else chosen
        X = given.check(rows)
    else:
        X = as_points(X)
        whole = X.shape[1] == domain.dimension
        X = X if whole else chosen.check(X)
    if whole:
        if context is not None:
            raise ValueError(f"the points have a context, got another: {describe(context)}")
        return X
    if context is not None:
        return joined(X, context_columns(domain, context))
    plays = Plays.none(domain.dimension) if known is None else known
    times = np.full(len(X), np.inf) if t is None else as_times(t, len(X))
    found, taken = np.empty((len(X), count)), set[int]()
    for i, x in reversed(list(enumerate(X))):
        there = np.flatnonzero((plays.X[:, :-count] == x).all(axis=1)).tolist()
        if not there:
            raise PlayError(
                "the context of {point} is not known: it was not asked for, without one: say "
                "context={context}",
                point=x,
                context=f"{{{next(iter(parts))!r}: ...}}",
            )
        ranks = [
            (row not in taken and (t is None or at == times[i]), at <= times[i], at, row)
            for row, at in zip(there, plays.t[there].tolist(), strict=True)
        ]
        taken.add(row := max(ranks)[-1])
        found[i] = plays.X[row, -count:]
    return np.hstack([X, found])


def joined(X: Array, values: Array) -> Array:
    """Join chosen coordinates (n, d - c) and columns (c,) of the context to points (n, d)."""
    return np.hstack([X, np.broadcast_to(values, (len(X), len(values)))])


@dataclass(frozen=True)
class AtContext:
    """A domain at one value of its context.

    Attributes
    ----------
    whole : Domain
        At all values.
    chosen : Domain
        What is chosen.
    values : array of shape (c,)
        Columns of the context, behind those of what is chosen.
    """

    whole: Any
    chosen: Any
    values: Array

    def __repr__(self) -> str:
        return f"{self.whole!r} at {self.values.tolist()}"

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point, those of the context included."""
        return int(self.whole.dimension)

    def decode(self, X: ArrayLike) -> Any:
        """Points as the whole domain shows them to people."""
        return self.whole.decode(X) if hasattr(self.whole, "decode") else X

    def check(self, X: ArrayLike, name: str = "X") -> Array:
        """Return `X` (n, d) as points of the whole domain."""
        return np.asarray(self.whole.check(X, name))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """`n` points drawn uniformly at this value, shape (n, d)."""
        return joined(self.chosen.sample(n, rng), self.values)

    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """The point (d,) of largest acquisition found at this value, and that value."""
        sliced: Acquisition = _Sliced(acquisition, self.values)
        if isinstance(acquisition, Smooth):
            sliced = _Sloped(acquisition, self.values)
        x, height = self.chosen.maximize(sliced, rng)
        return np.concatenate([x, self.values]), height


def at_values_of(domain: Any, whole: Any, X: Array) -> Array:
    """The places of points (n, d) of the whole, each once, at the one value of its context, if any.

    Parameters
    ----------
    domain : Domain
        What `whole` is at a value of its context (`opened`), or `whole` itself.
    whole : Domain
    X : array of shape (n, d)
    """
    if domain is whole or not measured(whole):
        return X
    count = whole.dimension - whole.chosen.dimension
    (here,) = domain.sample(1, np.random.default_rng(0))
    chosen = X[:, :-count]
    _, first = np.unique(chosen, axis=0, return_index=True)
    return joined(chosen[np.sort(first)], here[-count:])


@dataclass(frozen=True)
class _Sliced:
    """An acquisition as a function of what is chosen."""

    whole: Any
    values: Array

    def __call__(self, X: Array) -> Array:
        return np.asarray(self.whole(joined(X, self.values)))


@dataclass(frozen=True)
class _Sloped(_Sliced):
    """An acquisition with slopes, as a function of what is chosen."""

    @property
    def near(self) -> Array:
        return np.asarray(self.whole.near[:, : -len(self.values)])

    def sloped(self, X: Array) -> tuple[Array, Array]:
        values, slopes = self.whole.sloped(joined(X, self.values))
        return values, slopes[:, : X.shape[1]]


def written(context: Context) -> Any:
    """Return a context as a journal holds it: plain values by name, or in their order."""
    if isinstance(context, Mapping):
        return {
            name: each if isinstance(each, str) else float(each) for name, each in context.items()
        }
    return context if context is None else as_floats(context, "context").tolist()
