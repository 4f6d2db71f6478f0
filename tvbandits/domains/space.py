"""Domains whose points have names: spaces, tables of points of a space, and arms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.domains.candidates import Candidates, get_candidates
from tvbandits.domains.domain import Acquisition, Domain, as_context_parameters, encode_context
from tvbandits.domains.parameters import (
    Category,
    Named,
    Parameter,
    as_parameter,
    as_texts,
    check_names,
    has_names,
    rows_by_name,
)
from tvbandits.domains.sampled import SampledDomain
from tvbandits.domains.search import find_maximum
from tvbandits.ties import acquisition_argmax
from tvbandits.validation import (
    Array,
    Index,
    as_list,
    as_points,
    check_choice,
    describe,
    finite_number,
    is_infinite,
    set_fields,
)

if TYPE_CHECKING:
    import pandas as pd

    from tvbandits.domains.space_kernel import PerParameter


# The largest number of points of a finite space that is searched exactly.
ENUMERATED = 20_000

# The largest finite smoothness of a Matern kernel. With a smoothness near 20, the matrix is not finite
# for points that are close to each other.
SMOOTHEST = 10.0


@dataclass(frozen=True, init=False, repr=False)
class Space(Domain):
    """A space: a product of named parameters.

    ==================== =========================================== ==================================
    parameter            argument                                    columns of a point
    ==================== =========================================== ==================================
    an interval          `temperature=(10, 80)`, a tuple             the number
    a log scale          `rate=Log(1e-6, 0.1)`                       the logarithm to base 10
    a circle             `direction=Periodic(0, 360)`, `Periodic(7)` two, the position on the circle
    whole numbers        `count=Integer(1, 5)`                       the number
    a choice of numbers  `batch=[16, 32, 64]`, a list                the rank
    categories           `mode=["a", "b"]`, a list                   one for each, 1 for it, else 0
    ==================== =========================================== ==================================

    A model uses points as arrays of these columns; for the user, a point is a row of a DataFrame or a
    dictionary. `encode` and `decode` convert them.

    Parameters
    ----------
    context : mapping of str to parameters, optional
        Measurements that are made before a choice, such as `{"outside": (-15, 20)}`: the last columns
        of a point, which are not chosen.
    **parameters
        The parameters as in the table, in the order of the columns. Ranges include their ends.

    Attributes
    ----------
    names : tuple of str
        The names of all parameters, those of the context last.
    parameters : tuple of Real, Log, Periodic, Integer, Choice or Category
    context : tuple of str
        The names of the parameters of the context.

    Raises
    ------
    ValueError
        If there are no parameters, or one is invalid; the message names it.

    Notes
    -----
    `maximize` evaluates all points of a finite space of at most 20,000. Spaces without discrete
    parameters are searched like a `Box`. Other spaces are searched by evolution, gradient ascent in
    continuous parameters and moves to neighbouring values of discrete ones, in 40 to 80 calls of the
    acquisition.

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
            raise ValueError(
                f"{both[0]!r} is a parameter and in the context: leave it out of one of them"
            )
        values = (*actions.values(), *contexts.values())
        set_fields(self, names=(*actions, *contexts), parameters=values, context=tuple(contexts))

    def __repr__(self) -> str:
        arguments = [f"{name}={value}" for name, value in self._action_parameters.items()]
        if self.context:
            contexts = [f"{name!r}: {value}" for name, value in self.context_parameters.items()]
            arguments.append(f"context={{{', '.join(contexts)}}}")
        return f"Space({', '.join(arguments)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Space.__restored__, tuple(self.__saved__().values())

    def __saved__(self) -> dict[str, Any]:
        return {"names": self.names, "parameters": self.parameters, "context": self.context}

    @classmethod
    def __restored__(
        cls, names: Sequence[str], parameters: Sequence[Parameter], context: Sequence[str]
    ) -> Space:
        values: dict[str, Any] = dict(zip(names, parameters, strict=True))
        contexts = {name: values.pop(name) for name in context}
        return cls(context=contexts, **values)

    @property
    def context_parameters(self) -> Mapping[str, Parameter]:
        """Return the parameters of the measured context, by name."""
        return {name: self.parameters[self.names.index(name)] for name in self.context}

    @property
    def _action_parameters(self) -> dict[str, Parameter]:
        """Return the parameters without those of the context, by name."""
        count = len(self.names) - len(self.context)
        return dict(zip(self.names[:count], self.parameters[:count], strict=True))

    @cached_property
    def action_domain(self) -> Space:
        """Return the space without the parameters of the context."""
        parameters: dict[str, Any] = self._action_parameters
        return Space(**parameters) if self.context else self

    @cached_property
    def columns(self) -> Mapping[str, slice]:
        """Return the columns of each parameter in a point."""
        ends = np.cumsum([0, *(parameter.width for parameter in self.parameters)]).tolist()
        return {name: slice(ends[i], ends[i + 1]) for i, name in enumerate(self.names)}

    @property
    def coordinate_names(self) -> list[str]:
        """Return the names of the parameters, which are the columns of `decode`."""
        return list(self.names)

    @property
    def is_named(self) -> bool:
        """Return True: `decode` returns points as a frame."""
        return True

    @property
    def distance_weights(self) -> Array:
        """Return the weights (d,) of the coordinates in a distance; two categories are 1 apart."""
        return self.weigh_categories(super().distance_weights)

    def weigh_categories(self, weights: Array) -> Array:
        """Return weights (d,) with which two categories are at distance 1."""
        weights = weights.copy()
        for parameter, columns in zip(self.parameters, self.columns.values(), strict=True):
            if isinstance(parameter, Category):
                weights[columns] *= np.sqrt(0.5)
        return weights

    @property
    def dimension(self) -> int:
        """Return the number of columns of a point."""
        return sum(parameter.width for parameter in self.parameters)

    @property
    def size(self) -> float:
        """Return the number of points; infinity if a parameter is continuous."""
        sizes = [parameter.size for parameter in self.parameters]
        return math.prod(sizes) if all(sizes) else math.inf

    # --- conversion of points --------------------------------------------------------------------

    def encode(self, points: Named) -> Array:
        """Return points with names as points (n, d).

        Parameters
        ----------
        points : DataFrame, dict, or sequence of dicts
            A row or a dictionary for each point, with a value for each parameter and no others. Values
            of numeric parameters must be numbers, those of categories texts; they are not rounded.

        Raises
        ------
        ValueError
            If a name is missing or unknown, or a value is invalid; the message shows the parameter, the
            value and the row.
        """
        rows = rows_by_name(points)
        for i, row in enumerate(rows):
            check_names("parameter", row, self.names, f" in row {i}")
        codes = np.empty((len(rows), len(self.names)))
        for j, (name, parameter) in enumerate(zip(self.names, self.parameters, strict=True)):
            codes[:, j] = [parameter.code_of(row[name], name, i) for i, row in enumerate(rows)]
        return self.check(self._to_points(codes))

    def from_values(self, values: Any) -> Array:
        """Return the point (1, d) with a value for each parameter, in their order."""
        items = as_list("values", values, f"a value for each of {', '.join(self.names)}")
        if len(items) != len(self.names):
            needs = f"values must be one for each of {', '.join(self.names)}"
            raise ValueError(f"{needs}, got {describe(values)}")
        return self.encode(dict(zip(self.names, items, strict=True)))

    def decode(self, X: ArrayLike) -> pd.DataFrame:
        """Return points `X` (n, d) as a frame: a column for each parameter, a row for each point."""
        import pandas as pd

        codes = self._to_codes(as_points(X, self.dimension))
        columns = zip(self.names, self.parameters, codes.T, strict=True)
        return pd.DataFrame({name: parameter.values(column) for name, parameter, column in columns})

    def check(self, X: ArrayLike | Named, name: str = "X") -> Array:
        """Return points, given as arrays (n, d) or with names, as points (n, d) without rounding errors.

        Raises
        ------
        ValueError
            If a value is invalid; the message shows the parameter and the value.
        """
        if has_names(X):
            return self.encode(X)  # type: ignore[arg-type]
        return self._to_points(self._to_codes(as_points(X, self.dimension, name)))  # type: ignore[arg-type]

    def _to_codes(self, X: Array) -> Array:
        """Return the checked codes (n, p) of points (n, d)."""
        pairs = zip(self.parameters, self.columns.items(), strict=True)
        return np.column_stack(
            [parameter.codes(X[:, columns], name) for parameter, (name, columns) in pairs]
        )

    def _to_points(self, codes: Array) -> Array:
        """Return the points (n, d) of codes (n, p)."""
        pairs = zip(self.parameters, codes.T, strict=True)
        return np.hstack([parameter.columns(column) for parameter, column in pairs])

    def from_unit(self, U: Array) -> Array:
        """Return points (n, d) for points (n, p) of a unit cube with an axis for each parameter."""
        pairs = zip(self.parameters, U.T, strict=True)
        codes = [parameter.from_unit(column) for parameter, column in pairs]
        return self._to_points(np.column_stack(codes))

    def to_unit(self, X: Array) -> Array:
        """Return points (n, p) of the unit cube for points (n, d)."""
        pairs = zip(self.parameters, self._to_codes(X).T, strict=True)
        return np.column_stack([parameter.to_unit(column) for parameter, column in pairs])

    def convert_slopes(self, X: Array, slopes: Array) -> Array:
        """Return slopes (n, p) on the unit cube for slopes (n, d) at points (n, d).

        They are 0 along discrete parameters.
        """
        pairs = zip(self.parameters, self.columns.values(), strict=True)
        return np.column_stack(
            [
                parameter.convert_slopes(X[:, columns], slopes[:, columns])
                for parameter, columns in pairs
            ]
        )

    # --- methods of a domain ---------------------------------------------------------------------

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Return `n` uniform random points (n, d), with replacement."""
        return self.check(self.from_unit(rng.random((n, len(self.names)))))

    def maximize(self, acquisition: Acquisition, rng: np.random.Generator) -> tuple[Array, float]:
        """Return the point (d,) of largest acquisition, and that value; `rng` breaks ties."""
        points = self.all_points
        if points is not None:
            values = acquisition(points)
            best = acquisition_argmax(values, points, rng)
            return points[best].copy(), float(values[best])
        kinds = [(each.size, not isinstance(each, Category)) for each in self.parameters]
        samples = 256 if any(size for size, _ in kinds) else 512
        x, value = find_maximum(acquisition, self, kinds, samples, rng)
        return self.check(x)[0], value

    def by_sample(self, centres: Array) -> Domain:
        """Return the space as a domain that is searched by a random sample and neighbours of points."""
        points = self.check(centres, "centres")
        if self.all_points is not None:
            return self
        sizes = np.array([parameter.size for parameter in self.parameters])
        return SampledDomain(self, points, sizes)

    def near(self, x: Array, distance: float) -> Space:
        """Return the part of the space within a distance of `x` (d,) along each number.

        Circles, choices and categories are not restricted, nor whole numbers if the distance is below 1.
        """
        pairs = zip(self.parameters, self.columns.items(), strict=True)
        parameters: dict[str, Any] = {
            name: parameter.near(x[columns], distance) for parameter, (name, columns) in pairs
        }
        return Space(**parameters)

    @property
    def bounds(self) -> Array:
        """Return the lowest and highest value of each column, (d, 2)."""
        return np.array([row for parameter in self.parameters for row in parameter.bounds])

    @cached_property
    def all_points(self) -> Array | None:
        """Return all points (A, d) of a small finite space; the last parameter varies fastest."""
        if self.size > ENUMERATED:
            return None
        axes = [
            parameter.from_unit((np.arange(parameter.size) + 0.5) / parameter.size)
            for parameter in self.parameters
        ]
        codes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        points = self._to_points(codes)
        points.setflags(write=False)
        return points

    def anchors(self, count: int, rng: np.random.Generator) -> Array:
        """Return all points (A, d) if at most `count`; otherwise `count` random points and two ends."""
        if self.all_points is not None and len(self.all_points) <= count:
            return self.all_points
        ends = np.repeat([[0.0], [1.0]], len(self.names), axis=1)
        return np.concatenate([self.from_unit(ends), self.sample(count, rng)])

    # --- kernel and candidates ------------------------------------------------------------------

    def kernel(self, nu: float = 2.5, *, share: float = 0.25) -> PerParameter:
        """Return a kernel of variance 1 with a length scale for each parameter, as a start for fits.

        Parameters
        ----------
        nu : float
            Smoothness: 2.5 (Matern-5/2), 1.5, 0.5, or infinity for the squared exponential (RBF).
        share : float
            Length scales as a fraction of the range of a number, from 0.01 to 10. These are the bounds
            of a fit, too, but length scales stay above 0.2 for whole numbers. Two categories are at a
            distance of 1.4 initial length scales (a correlation of 0.37 under RBF); within the bounds
            they may become nearly equal or unrelated.

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
        for parameter in self.parameters:
            if isinstance(parameter, Category):
                scale, low, high = 1.0, 0.2, 20.0
            else:
                extent = parameter.extent
                scale, low, high = share * extent, 0.01 * extent, 10 * extent
                low = max(low, 0.2) if parameter.size else low
            scales.append(min(max(scale, low), high))
            bounds.append((low, high))
        parts = tuple(
            (name, each.width) for name, each in zip(self.names, self.parameters, strict=True)
        )
        return PerParameter(np.array(scales), np.array(bounds), parts, float(nu))

    def candidates(self, *, context: Sequence[str] = ()) -> Table:
        """Return all points of a finite space of at most 20,000 points, as candidates.

        Parameters
        ----------
        context : sequence of str, optional
            The names of parameters whose values are given for each decision instead of chosen.

        Raises
        ------
        ValueError
            If the space has more points, or infinitely many.
        """
        context = self.context_names(context)
        if self.all_points is None:
            count = f"{self.size:g} points are more than {ENUMERATED}"
            raise ValueError(f"{count}: give some of them to `table`")
        return self.table(self.all_points, context=context)

    def table(self, points: ArrayLike | Named, *, context: Sequence[str] = ()) -> Table:
        """Return distinct points, by name or as arrays (A, d), as candidates.

        Parameters
        ----------
        points : DataFrame, sequence of dicts, or array of shape (A, d)
        context : sequence of str, optional
            The names of parameters whose values are given for each decision instead of chosen.

        Raises
        ------
        ValueError
            As `check`; or if two points are equal, there are none, or `context` does not consist of
            names of parameters.
        """
        return Table(self, points, context)

    def context_names(self, context: str | Sequence[str]) -> tuple[str, ...]:
        """Return checked names of parameters of the context, which may be a single text.

        Raises
        ------
        ValueError
            If a name is not that of a parameter.
        """
        needs = "names of parameters"
        names = [context] if isinstance(context, str) else as_list("context", context, needs)
        for name in names:
            check_choice("context", name, self.names)
        return tuple(names)


class Table(Candidates):
    """A finite set of points of a space, with the names of the space.

    Attributes
    ----------
    space : Space
    context_names : tuple of str
        The names of the parameters whose values are given for each decision.
    X, context, retired
        The points, their context columns and retired rows, as for `Candidates`.

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
        columns = [column for name in names for column in np.r_[space.columns[name]]]
        set_fields(self, space=space, context_names=names)
        super().__init__(space.check(points), columns, retired)

    def __repr__(self) -> str:
        context = f", context={list(self.context_names)}" if self.context_names else ""
        return f"Table({len(self)} points of {self.space!r}{context})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Candidates):
            return NotImplemented
        # Candidates without names are a different domain, even with equal points.
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
        """Return the names of the parameters, which are the columns of `decode`."""
        return self.space.coordinate_names

    @property
    def is_named(self) -> bool:
        """Return True: `decode` returns points as a frame."""
        return True

    @property
    def distance_weights(self) -> Array:
        """Return the weights (d,) of the coordinates in a distance; two categories are 1 apart."""
        return self.space.weigh_categories(super().distance_weights)

    def encode(self, points: Named) -> Array:
        """Return points with names, which must be rows of the table, as points (n, d)."""
        return super().check(self.space.encode(points))

    def decode(self, X: ArrayLike) -> pd.DataFrame:
        """Return the candidates `X` (n, d) as a frame, as `Space.decode`."""
        return self.space.decode(self.check(X))

    def check(self, X: ArrayLike | Named, name: str = "X") -> Array:
        """Return points, given as arrays (n, d) or with names, as exact candidates (n, d)."""
        if has_names(X):
            return self.encode(X)  # type: ignore[arg-type]
        return super().check(X, name)  # type: ignore[arg-type]

    def find_context_rows(self, context: ArrayLike | Mapping[str, Any]) -> Index:
        """Return the rows (m,) of the candidates with a context: values by name, or columns (c,)."""
        if not isinstance(context, Mapping):
            return super().find_context_rows(context)
        parameters = dict(zip(self.space.names, self.space.parameters, strict=True))
        return super().find_context_rows(
            encode_context({name: parameters[name] for name in self.context_names}, context)
        )


class Arms(Table):
    """Arms with names and no other features, so that all arms are equally far from each other.

    A point has a 1 in the arm's own column and 0 in the others. `tell`, `predict` and `encode` take
    names instead: a single one, a list, an array or a column of a frame. `decode` returns a column
    `arm`.

    Parameters
    ----------
    names : sequence of str
        At least two different names.
    retired : sequence of int, optional
        The rows of arms that are not played any more.

    Raises
    ------
    ValueError
        If there are fewer than two names, or two are equal.

    Examples
    --------
    >>> from tvbandits import Arms
    >>> arms = Arms(["red", "green", "blue"])
    >>> print(arms.encode(["blue"]), arms.decode([[0.0, 1.0, 0.0]])["arm"].tolist())
    [[0. 0. 1.]] ['green']
    """

    def __init__(self, names: Sequence[str], retired: Sequence[int] = ()) -> None:
        levels = tuple(as_list("names", names, "at least two different texts"))
        are_texts = all(isinstance(level, str) for level in levels)
        if not are_texts or len(set(levels)) < max(len(levels), 2):
            raise ValueError(f"names must be at least two different texts, got {describe(names)}")
        arms = Category(levels)
        super().__init__(Space(arm=arms), np.eye(arms.size), retired=retired)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names, in the order of the rows."""
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
        """Return the arms with these names active; new names are appended, and others retired."""
        active = Arms(names).names
        all_names = (*self.names, *(name for name in active if name not in self.names))
        return Arms(all_names, [row for row, name in enumerate(all_names) if name not in active])

    def encode(self, points: Named | Sequence[str]) -> Array:
        """Return names, or arguments of `Space.encode`, as points (n, A)."""
        names = as_texts(points)
        return super().encode(points if names is None else [{"arm": name} for name in names])  # type: ignore[arg-type]


def get_space(domain: Domain) -> Space | None:
    """Return the space with the names of a domain's coordinates, or None.

    Examples
    --------
    >>> from tvbandits import Candidates, Space
    >>> from tvbandits.domains.space import get_space
    >>> table = Space(dose=["low", "high"]).candidates()
    >>> print(get_space(table).names, get_space(Candidates([[0.0]])))
    ('dose',) None
    """
    if isinstance(domain, Space):
        return domain
    return domain.space if isinstance(domain, Table) else None


# --- limits on the number of points -------------------------------------------------------------------

# The largest number of points of an `ask`; and the largest and smallest limits if each point needs a
# search, so that an `ask` takes up to about 20 s on one core. A search takes 0.04 s if bounds have
# slopes; otherwise, with 50 readings, up to 0.1 s in 2 dimensions, 0.5 s in 4, 1.7 s in 6, 1.9 s in 8.
MOST_POINTS, MOST_SEARCHED, FEWEST_SEARCHED = 100_000, 100, 10


def check_search(n: int, domain: Domain, obstacle: str = "") -> None:
    """Raise a `ValueError` if the search for `n` points, one by one, would take minutes.

    Parameters
    ----------
    n : int
    domain : Domain
    obstacle : str
        The reason why gradient ascent is not possible; empty if it is.
    """
    choices = domain.action_domain
    is_small = isinstance(choices, Space) and choices.size <= ENUMERATED  # no search is needed
    if get_candidates(choices) is not None or is_small:
        return
    p = len(choices.names) if isinstance(choices, Space) else choices.dimension
    limit = max(FEWEST_SEARCHED, min(MOST_SEARCHED, 240 >> p)) if obstacle else MOST_SEARCHED
    if n > limit:
        points = "domain.sample(1000, rng)"
        table = f"domain.table({points})" if isinstance(choices, Space) else f"Candidates({points})"
        reason = f" in {p} dimensions {obstacle}" if obstacle else ""
        raise ValueError(
            f"n must be at most {limit} where each point is searched for{reason}, got {n}: ask for "
            f"fewer, or play on random points of the domain, as {table}"
        )
