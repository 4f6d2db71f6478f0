"""Domains whose points have names: spaces, tables of points of a space, and arms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.domains.candidates import Candidates, candidates_of
from tvbandits.domains.domain import Acquisition, Domain, as_context_parameters, columns_by_name
from tvbandits.domains.parameters import (
    Category,
    Named,
    Parameter,
    as_parameter,
    check_names,
    has_names,
    rows_by_name,
    texts,
)
from tvbandits.domains.sampled import SampledDomain
from tvbandits.domains.search import best_point
from tvbandits.ties import row_of_largest
from tvbandits.validation import (
    Array,
    Index,
    as_points,
    choice,
    describe,
    finite_number,
    is_infinite,
    settle,
    several,
)

if TYPE_CHECKING:
    import pandas as pd

    from tvbandits.domains.space_kernel import PerParameter


# A finite space of at most so many points is searched exactly.
ENUMERATED = 20_000

# The largest smoothness of a Matern kernel: of one near 20 the matrix is not finite at points that are
# next to each other, and infinity is the limit.
SMOOTHEST = 10.0


@dataclass(frozen=True, init=False, repr=False)
class Space(Domain):
    """A product of named parameters.

    ==================== =========================================== ==================================
    it is                you write                                   columns of a point
    ==================== =========================================== ==================================
    an interval          `temperature=(10, 80)`, a tuple             the number
    a log scale          `rate=Log(1e-6, 0.1)`                       the logarithm to base 10
    a circle             `direction=Periodic(0, 360)`, `Periodic(7)` two, the place on the circle
    whole numbers        `count=Integer(1, 5)`                       the number
    a choice of numbers  `batch=[16, 32, 64]`, a list                the rank
    categories           `mode=["a", "b"]`, a list                   one each, 1 in its own, else 0
    ==================== =========================================== ==================================

    Inside, a point is an array of these columns. Outside it is a row of a DataFrame, or a dictionary:
    `encode` and `decode` translate.

    Parameters
    ----------
    context : mapping of str to parameters, optional
        What is measured before a choice and not chosen, such as `{"outside": (-15, 20)}`: further
        columns of a point, the last ones.
    **parameters
        As in the table; all ends belong to a range. Their order is that of the columns.

    Attributes
    ----------
    names : tuple of str
        Of all parameters, those of the context last.
    parameters : tuple of Real, Log, Periodic, Integer, Choice or Category
    context : tuple of str
        Names of what is not chosen.

    Raises
    ------
    ValueError
        If there are no parameters, or one is malformed; the message names it.

    Notes
    -----
    `maximize` looks at every point of a finite space of at most 20,000. Spaces of ranges alone are
    searched like a `Box`, others by evolution, refinement of the ranges and moves to neighbours in
    the rest, in 40 to 80 calls of the acquisition.

    Examples
    --------
    >>> from tvbandits import Integer, Space
    >>> space = Space(temperature=(10, 80), count=Integer(1, 5), mode=["a", "b"])
    >>> print(space.encode({"temperature": 40, "count": 2, "mode": "b"}))
    [[40.  2.  0.  1.]]
    """

    names: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    context: tuple[str, ...]

    def __init__(self, /, *, context: Mapping[str, Any] | None = None, **parameters: Any) -> None:
        if not parameters:
            raise ValueError("a space must have a parameter, such as Space(temperature=(10, 80))")
        actions = {name: as_parameter(value, name) for name, value in parameters.items()}
        contexts = as_context_parameters(context)
        if both := [name for name in contexts if name in actions]:
            raise ValueError(f"{both[0]!r} is either chosen or of the context, and both are given")
        parts = (*actions.values(), *contexts.values())
        settle(self, names=(*actions, *contexts), parameters=parts, context=tuple(contexts))

    def __repr__(self) -> str:
        texts = [f"{name}={part}" for name, part in self._action_parameters.items()]
        context = ", ".join(f"{name!r}: {part}" for name, part in self.context_parameters.items())
        return f"Space({', '.join([*texts, f'context={{{context}}}'] if context else texts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Space.__restored__, tuple(self.__saved__().values())

    def __saved__(self) -> dict[str, Any]:
        return {"names": self.names, "parameters": self.parameters, "context": self.context}

    @classmethod
    def __restored__(
        cls, names: Sequence[str], parameters: Sequence[Parameter], context: Sequence[str]
    ) -> Space:
        parts: dict[str, Any] = dict(zip(names, parameters, strict=True))
        contexts = {name: parts.pop(name) for name in context}
        return cls(context=contexts, **parts)

    @property
    def context_parameters(self) -> Mapping[str, Parameter]:
        """The parameters of the measured context, by name."""
        return {name: self.parameters[self.names.index(name)] for name in self.context}

    @property
    def _action_parameters(self) -> dict[str, Parameter]:
        count = len(self.names) - len(self.context)
        return dict(zip(self.names[:count], self.parameters[:count], strict=True))

    @cached_property
    def action_domain(self) -> Space:
        """The space of the parameters that are chosen, without the context."""
        parts: dict[str, Any] = self._action_parameters
        return Space(**parts) if self.context else self

    @cached_property
    def columns(self) -> Mapping[str, slice]:
        """The columns of each parameter in a point."""
        ends = np.cumsum([0, *(part.width for part in self.parameters)]).tolist()
        return {name: slice(ends[i], ends[i + 1]) for i, name in enumerate(self.names)}

    @property
    def coordinate_names(self) -> list[str]:
        """Names of the parameters, which are the columns that people see."""
        return list(self.names)

    @property
    def is_named(self) -> bool:
        """Whether people see points as rows of a frame: they do."""
        return True

    @property
    def distance_weights(self) -> Array:
        """Weights (d,) of the coordinates in a distance: another category is at distance 1."""
        return self.weigh_categories(super().distance_weights)

    def weigh_categories(self, weights: Array) -> Array:
        """Return weights (d,) with which another category is at distance 1."""
        weights = weights.copy()
        for part, columns in zip(self.parameters, self.columns.values(), strict=True):
            if isinstance(part, Category):
                weights[columns] *= np.sqrt(0.5)
        return weights

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point inside."""
        return sum(part.width for part in self.parameters)

    @property
    def size(self) -> float:
        """Number of points; infinite where there is an interval."""
        sizes = [part.size for part in self.parameters]
        return math.prod(sizes) if all(sizes) else math.inf

    # --- points inside and outside --------------------------------------------------------------

    def encode(self, points: Named) -> Array:
        """Return points with names as points (n, d) inside.

        Parameters
        ----------
        points : DataFrame, dict, or sequence of dicts
            One row or dict a point, with a value for every parameter and for nothing else. A number for
            a number, a text for a category: nothing is converted or rounded.

        Raises
        ------
        ValueError
            If a name is missing or unknown, or a parameter does not have a value: the message names the
            parameter, the value and the row.
        """
        rows = rows_by_name(points)
        for i, row in enumerate(rows):
            check_names("parameter", row, self.names, f" in row {i}")
        codes = np.empty((len(rows), len(self.names)))
        for j, (name, part) in enumerate(zip(self.names, self.parameters, strict=True)):
            codes[:, j] = [part.code_of(row[name], name, i) for i, row in enumerate(rows)]
        return self.check(self._points(codes))

    def from_values(self, values: Any) -> Array:
        """Return the point (1, d) of a value for each parameter, in their order."""
        listed = several("values", values, f"a value for each of {', '.join(self.names)}")
        if len(listed) != len(self.names):
            needs = f"values must be one for each of {', '.join(self.names)}"
            raise ValueError(f"{needs}, got {describe(values)}")
        return self.encode(dict(zip(self.names, listed, strict=True)))

    def decode(self, X: ArrayLike) -> pd.DataFrame:
        """Return points `X` (n, d) as a frame: a column for each parameter, a row for each point."""
        import pandas as pd

        codes = self._codes(as_points(X, self.dimension))
        return pd.DataFrame(
            {
                name: part.values(codes[:, j])
                for j, (name, part) in enumerate(zip(self.names, self.parameters, strict=True))
            }
        )

    def check(self, X: ArrayLike | Named, name: str = "X") -> Array:
        """Return points, as arrays (n, d) or with names, as points inside, free of rounding.

        `ValueError` names the first parameter that does not have a value, and the value.
        """
        if has_names(X):
            return self.encode(X)  # type: ignore[arg-type]
        return self._points(self._codes(as_points(X, self.dimension, name)))  # type: ignore[arg-type]

    def _codes(self, X: Array) -> Array:
        """Return the codes (n, p) of points (n, d), checked."""
        parts = zip(self.parameters, self.columns.items(), strict=True)
        return np.column_stack([part.codes(X[:, where], name) for part, (name, where) in parts])

    def _points(self, codes: Array) -> Array:
        """Return the points (n, d) of codes (n, p)."""
        return np.hstack([part.columns(codes[:, j]) for j, part in enumerate(self.parameters)])

    def from_unit(self, U: Array) -> Array:
        """Return points (n, d) for points (n, p) of a unit cube with an axis for each parameter."""
        codes = zip(self.parameters, U.T, strict=True)
        return self._points(np.column_stack([part.from_unit(each) for part, each in codes]))

    def to_unit(self, X: Array) -> Array:
        """Return points (n, p) of the unit cube for points (n, d)."""
        codes = zip(self.parameters, self._codes(X).T, strict=True)
        return np.column_stack([part.to_unit(each) for part, each in codes])

    def along(self, X: Array, slopes: Array) -> Array:
        """Return slopes (n, p) along the ranges of the unit cube, and 0 along the rest.

        `slopes` (n, d) are those along the columns of points `X` (n, d).
        """
        parts = zip(self.parameters, self.columns.values(), strict=True)
        return np.column_stack([part.along(X[:, at], slopes[:, at]) for part, at in parts])

    # --- what a domain can do --------------------------------------------------------------------

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` points drawn uniformly, with replacement, shape (n, d)."""
        return self.check(self.from_unit(rng.random((n, len(self.names)))))

    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """Return the point (d,) of largest acquisition, and that value; `rng` breaks ties."""
        every = self.every_point
        if every is not None:
            values = acquisition(every)
            best = row_of_largest(values, every, rng)
            return every[best].copy(), float(values[best])
        kinds = [(part.size, not isinstance(part, Category)) for part in self.parameters]
        samples = 256 if any(size for size, _ in kinds) else 512
        x, value = best_point(acquisition, self, kinds, samples, rng)
        return self.check(x)[0], value

    def by_sample(self, centres: Array) -> Domain:
        """Return the space, searched by a random sample and neighbours of some points (n, d)."""
        points = self.check(centres, "centres")
        if self.every_point is not None:
            return self
        return SampledDomain(self, points, np.array([part.size for part in self.parameters]))

    def near(self, x: Array, distance: float) -> Space:
        """Return the part of the space within a distance of `x` (d,) along each number.

        Circles, choices and categories stay all, and so do whole numbers within less than a step.
        """
        parts = zip(self.parameters, self.columns.items(), strict=True)
        near: dict[str, Any] = {name: part.near(x[at], distance) for part, (name, at) in parts}
        return Space(**near)

    @property
    def bounds(self) -> Array:
        """Lowest and highest value of each column, (d, 2)."""
        return np.array([row for part in self.parameters for row in part.bounds])

    @cached_property
    def every_point(self) -> Array | None:
        """All points (A, d) of a small finite space, the last parameter fastest; else None."""
        if self.size > ENUMERATED:
            return None
        axes = [
            part.from_unit((np.arange(part.size) + 0.5) / part.size) for part in self.parameters
        ]
        codes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        points = self._points(codes)
        points.setflags(write=False)
        return points

    def anchors(self, count: int, rng: np.random.Generator) -> Array:
        """Return all points (A, d) if there are at most `count`, else so many drawn and the two ends."""
        if self.every_point is not None and len(self.every_point) <= count:
            return self.every_point
        ends = np.repeat([[0.0], [1.0]], len(self.names), axis=1)
        return np.concatenate([self.from_unit(ends), self.sample(count, rng)])

    # --- what goes with it ----------------------------------------------------------------------

    def kernel(self, nu: float = 2.5, *, share: float = 0.25) -> PerParameter:
        """Return a kernel of variance 1 with a length scale for each parameter, to start from.

        Parameters
        ----------
        nu : float
            Smoothness: 2.5 (Matern-5/2), 1.5, 0.5, or infinity for the squared exponential (RBF).
        share : float
            Length scales as a share of the range of a number, from 0.01 to 10, where a fit may look,
            though not far below a step of whole numbers. Two categories start at a distance of 1.4
            scales (a correlation of 0.37 under RBF) and may become all but equal or unrelated.

        Raises
        ------
        ValueError
            If a finite `nu` does not lie in (0, 10], or `share` does not lie in [0.01, 10].
        """
        from tvbandits.domains.space_kernel import PerParameter

        if not is_infinite(nu):
            nu = finite_number("nu, unless it is infinite,", nu, above=0.0, high=SMOOTHEST)
        share = finite_number("share", share, low=0.01, high=10.0)
        scales, bounds = [], []
        for part in self.parameters:
            if isinstance(part, Category):
                scale, low, high = 1.0, 0.2, 20.0
            else:
                scale, low, high = share * part.extent, 0.01 * part.extent, 10 * part.extent
                low = max(low, 0.2) if part.size else low
            scales.append(min(max(scale, low), high))
            bounds.append((low, high))
        parts = tuple(zip(self.names, (part.width for part in self.parameters), strict=True))
        return PerParameter(np.array(scales), np.array(bounds), parts, float(nu))

    def candidates(self, *, context: Sequence[str] = ()) -> Table:
        """Return all points of a finite space of at most 20,000, as candidates.

        Parameters
        ----------
        context : sequence of str, optional
            Names of parameters that are given by the world, not chosen.

        Raises
        ------
        ValueError
            If there are more, or infinitely many.
        """
        context = self.context_names(context)
        if self.every_point is None:
            most = f"{self.size:g} points are more than {ENUMERATED}"
            raise ValueError(f"{most}: give some of them to `table`")
        return self.table(self.every_point, context=context)

    def table(self, points: ArrayLike | Named, *, context: Sequence[str] = ()) -> Table:
        """Return points, by name or as arrays (A, d), as candidates; no two may be equal.

        Parameters
        ----------
        points : DataFrame, sequence of dicts, or array of shape (A, d)
        context : sequence of str, optional
            Names of parameters that are given by the world, not chosen.

        Raises
        ------
        ValueError
            As `check`, or if two points are equal, or there are none; or if `context` is not made of
            names of parameters.
        """
        return Table(self, points, context)

    def context_names(self, context: str | Sequence[str]) -> tuple[str, ...]:
        """Return the names of parameters that are given by the world; one may be a text alone.

        Raises
        ------
        ValueError
            If one is no parameter.
        """
        needs = "names of parameters"
        names = [context] if isinstance(context, str) else several("context", context, needs)
        for name in names:
            choice("context", name, self.names)
        return tuple(names)


class Table(Candidates):
    """A finite set of points of a space, which keep their names.

    Attributes
    ----------
    space : Space
    context_names : tuple of str
        Names of the parameters that the world gives.
    X, context, retired
        As of `Candidates`: the points inside, and their columns of context.

    Examples
    --------
    >>> from tvbandits import Space
    >>> space = Space(site=["mill", "weir"])
    >>> print(space.table([{"site": "weir"}]).decode([[0.0, 1.0]]))
       site
    0  weir
    """

    space: Space
    context_names: tuple[str, ...]

    def __init__(
        self,
        space: Space,
        points: ArrayLike | Named,
        context: Sequence[str] = (),
        retired: Sequence[int] = (),
    ) -> None:
        names = space.context_names(context)
        where = [column for name in names for column in np.r_[space.columns[name]]]
        settle(self, space=space, context_names=names)
        super().__init__(space.check(points), where, retired)

    def __repr__(self) -> str:
        context = f", context={list(self.context_names)}" if self.context_names else ""
        return f"Table({len(self)} points of {self.space!r}{context})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Candidates):
            return NotImplemented
        # Without names it is another set, equal points or not.
        return isinstance(other, Table) and self.space == other.space and super().__eq__(other)

    def __hash__(self) -> int:
        return hash((self.space, super().__hash__()))

    def __saved__(self) -> dict[str, Any]:
        names = self.context_names
        return {"space": self.space, "X": self.X, "context_names": names, "retired": self.retired}

    @classmethod
    def __restored__(  # type: ignore[override]
        cls, space: Space, X: Array, context_names: Sequence[str], retired: Sequence[int]
    ) -> Table:
        return cls(space, X, context_names, retired)

    @property
    def coordinate_names(self) -> list[str]:
        """Names of the parameters, which are the columns that people see."""
        return self.space.coordinate_names

    @property
    def is_named(self) -> bool:
        """Whether people see points as rows of a frame: they do."""
        return True

    @property
    def distance_weights(self) -> Array:
        """Weights (d,) of the coordinates in a distance: another category is at distance 1."""
        return self.space.weigh_categories(super().distance_weights)

    def encode(self, points: Named) -> Array:
        """Return points with names, which must be rows of the table, as points (n, d) inside."""
        return super().check(self.space.encode(points))

    def decode(self, X: ArrayLike) -> pd.DataFrame:
        """Return the candidates `X` (n, d) as a frame, as `Space.decode` does."""
        return self.space.decode(self.check(X))

    def check(self, X: ArrayLike | Named, name: str = "X") -> Array:
        """Return points, as arrays (n, d) or with names, as the candidates they name."""
        if has_names(X):
            return self.encode(X)  # type: ignore[arg-type]
        return super().check(X, name)  # type: ignore[arg-type]

    def rows_of(self, context: ArrayLike | Mapping[str, Any]) -> Index:
        """Return the rows of the candidates of a context, a dictionary by name or numbers inside."""
        if not isinstance(context, Mapping):
            return super().rows_of(context)
        parts = dict(zip(self.space.names, self.space.parameters, strict=True))
        return super().rows_of(
            columns_by_name({name: parts[name] for name in self.context_names}, context)
        )


class Arms(Table):
    """Arms that have a name and nothing else: no two of them resemble each other.

    Inside, a point is a 1 in the arm's own column and 0 in the others. Outside it is a name: `tell`,
    `predict` and `encode` take a name, or several in a list, an array or a column of a frame, and
    `decode` has a column `arm`.

    Parameters
    ----------
    names : sequence of str
        At least two, all different.
    retired : sequence of int, optional
        Numbers of those that are not played any more.

    Raises
    ------
    ValueError
        If they are not; the message shows which.

    Examples
    --------
    >>> from tvbandits import Arms
    >>> arms = Arms(["red", "green", "blue"])
    >>> print(arms.encode(["blue"]), arms.decode([[0.0, 1.0, 0.0]])["arm"].tolist())
    [[0. 0. 1.]] ['green']
    """

    def __init__(self, names: Sequence[str], retired: Sequence[int] = ()) -> None:
        levels = tuple(several("names", names, "at least two different texts"))
        are_texts = all(isinstance(each, str) for each in levels)
        if not are_texts or len(set(levels)) < max(len(levels), 2):
            raise ValueError(f"names must be at least two different texts, got {describe(names)}")
        arms = Category(levels)
        super().__init__(Space(arm=arms), np.eye(arms.size), retired=retired)

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the rows."""
        return self.space.parameters[0].levels  # type: ignore[union-attr, return-value]

    def __repr__(self) -> str:
        retired = f", {len(self.retired)} of them retired" if self.retired else ""
        return f"Arms({describe(list(self.names))}{retired})"

    def __saved__(self) -> dict[str, Any]:
        return {"names": self.names, "retired": self.retired}

    @classmethod
    def __restored__(cls, names: Sequence[str], retired: Sequence[int]) -> Arms:  # type: ignore[override]
        return cls(names, retired)

    def with_names(self, names: Sequence[str]) -> Arms:
        """Return arms with these names: new ones come last, and missing ones retire."""
        active = Arms(names).names
        every = (*self.names, *(name for name in active if name not in self.names))
        return Arms(every, [row for row, name in enumerate(every) if name not in active])

    def encode(self, points: Named | Sequence[str]) -> Array:
        """Return names, or what `Space.encode` takes, as points (n, A) inside."""
        names = texts(points)
        return super().encode(points if names is None else [{"arm": each} for each in names])  # type: ignore[arg-type]


def space_of(domain: Domain) -> Space | None:
    """Return the space in which the points of a domain have names, if there is one.

    Examples
    --------
    >>> from tvbandits import Candidates, Space
    >>> from tvbandits.domains.space import space_of
    >>> table = Space(dose=["low", "high"]).candidates()
    >>> print(space_of(table).names, space_of(Candidates([[0.0]])))
    ('dose',) None
    """
    if isinstance(domain, Space):
        return domain
    return domain.space if isinstance(domain, Table) else None


# --- points that are searched for ---------------------------------------------------------------------

# Most points of one ask; and most where each is searched for: up to about 20 s on one core. A point
# takes 0.04 s where bounds have slopes; elsewhere, with 50 readings, up to 0.1 s in 2 dimensions, 0.5 s
# in 4, 1.7 s in 6, and 1.9 s in 8.
MOST_POINTS, MOST_SEARCHED, FEWEST_SEARCHED = 100_000, 100, 10


def check_search(n: int, domain: Domain, obstacle: str = "") -> None:
    """Raise a `ValueError` if so many points would be searched for one by one for minutes.

    Parameters
    ----------
    n : int
    domain : Domain
    obstacle : str
        Why the search cannot climb along slopes and has to look at many points; empty if it can.
    """
    choices = domain.action_domain
    few = isinstance(choices, Space) and choices.size <= ENUMERATED  # which are all looked at
    if candidates_of(choices) is not None or few:
        return
    p = len(choices.names) if isinstance(choices, Space) else choices.dimension
    most = max(FEWEST_SEARCHED, min(MOST_SEARCHED, 240 >> p)) if obstacle else MOST_SEARCHED
    if n > most:
        points = "domain.sample(1000, rng)"
        drawn = f"domain.table({points})" if isinstance(choices, Space) else f"Candidates({points})"
        why = f" in {p} dimensions {obstacle}" if obstacle else ""
        raise ValueError(
            f"n must be at most {most} where each point is searched for{why}, got {n}: ask for "
            f"fewer, or play on points that are drawn from it, as {drawn}"
        )
