"""What may be played now: a part of the domain, for one decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.domains.box import Box
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.context import AtContext, Context, coordinate_names, opened
from tvbandits.domains.domain import Domain
from tvbandits.domains.moving import Move
from tvbandits.domains.space import Space
from tvbandits.errors import PlayError
from tvbandits.validation import Array, as_rows, describe, is_finite_number

# A mask (A,) or row numbers of the candidates, ranges of coordinates by name (`Ranges`), or a function
# from points (m, d) to a mask (m,).
Availability = ArrayLike | Mapping[str, Sequence[float | str]] | Callable[[Array], ArrayLike] | None


class NothingAvailableError(PlayError):
    """No point of the domain is available."""


class Ranges:
    """Test which points lie within ranges of coordinates: a rule that can be written down.

    Parameters
    ----------
    domain : Domain
    ranges : mapping of str to (float, float) or to sequence of str
        By the name of a coordinate, the lowest and the highest value, both included; or the categories
        that are available. Coordinates without a range are free.

    Raises
    ------
    ValueError
        If a name is unknown, or a range is neither two numbers in their order nor texts.
    """

    def __init__(self, domain: Domain, ranges: Mapping[str, Sequence[float | str]]) -> None:
        whole = domain.whole if isinstance(domain, AtContext) else domain
        self._names = [*whole.names] if isinstance(whole, Space) else coordinate_names(whole)
        self._ranges = {name: [*given] for name, given in ranges.items()}
        for name, given in self._ranges.items():
            if name not in self._names:
                there = ", ".join(self._names)
                raise ValueError(
                    f"available: unknown coordinate {describe(name)}; there are: {there}"
                )
            numbers = len(given) == 2 and all(map(is_finite_number, given))
            if not (numbers and given[0] <= given[1]) and not self._texts(given):  # type: ignore[operator]
                needs = "a lowest and a highest number, or texts"
                raise ValueError(
                    f"available: the range of {name} must be {needs}, got {describe(given)}"
                )

    @staticmethod
    def _texts(given: list[float | str]) -> bool:
        return bool(given) and all(isinstance(each, str) for each in given)

    def __call__(self, X: Any) -> NDArray[np.bool_]:
        """Which of the points, an array (m, d) or a frame with a column for each name, lie within."""
        inside = np.ones(len(X), dtype=bool)
        for name, given in self._ranges.items():
            column = X[:, self._names.index(name)] if isinstance(X, np.ndarray) else X[name]
            values = np.asarray(column)
            if self._texts(given):
                inside &= np.isin(values.astype(str), given)
            else:
                inside &= (values >= given[0]) & (values <= given[1])
        return inside


@dataclass(frozen=True, eq=False)
class Available:
    """Which points may be played.

    Attributes
    ----------
    domain : Domain
    mask : boolean array of shape (A,), or None
        Of candidates.
    test : callable or None
        Of any other domain: points (m, d), or a frame of them on a space, to a mask (m,).
    within : callable or None
        Of any other domain, too: points (m, d) to a mask (m,) that narrows it down.
    points : array of shape (k, d), or None
        Of any other domain, in place of functions, which cannot be saved: these points alone.
    """

    domain: Domain
    mask: NDArray[np.bool_] | None
    test: Callable[[Array], ArrayLike] | None
    within: Callable[[Array], NDArray[np.bool_]] | None = None
    points: Array | None = None

    def __call__(self, X: Array) -> NDArray[np.bool_]:
        """Which of the points `X` (m, d) of the domain are available, shape (m,)."""
        if self.points is not None:
            listed = set(map(tuple, self.points.tolist()))
            return np.array([tuple(x) in listed for x in X.tolist()], dtype=bool)
        if self.mask is None:
            free = np.ones(len(X), dtype=bool)
            if self.test is not None:
                free = _as_mask(self.test(_named(self.domain, X)), len(X))
            return free if self.within is None else free & self.within(X)
        assert isinstance(self.domain, Candidates)
        return self.mask if X is self.domain.X else self.mask[self.domain.index(X)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Available):
            return NotImplemented
        if self.points is not None or other.points is not None:
            both = self.points is not None and other.points is not None
            return both and np.array_equal(self.points, other.points)  # type: ignore[arg-type]
        if self.mask is None or other.mask is None:
            theirs = other.mask, other.test, other.within
            return all(map(is_, (self.mask, self.test, self.within), theirs))
        return np.array_equal(self.mask, other.mask)

    __hash__ = None  # type: ignore[assignment]


def decision_domain(
    domain: Domain, available: Availability, context: Context
) -> tuple[Domain, Available | None]:
    """The domain of a decision, which is that at a context where one is measured, and what is available.

    Raises
    ------
    NothingAvailableError, ValueError
        As `availability_of`; or if a context that is measured is not given, or not all of it.
    """
    here = opened(domain, context)
    return here, availability_of(here, available, context if here is domain else None)


def availability_of(
    domain: Domain, available: Availability, context: Context, *, any_context: bool = False
) -> Available | None:
    """What a decision may choose from; None: everything.

    Parameters
    ----------
    domain : Domain
    available : mask, row numbers, ranges of coordinates by name, or function, optional
    context : array of shape (c,), optional
        Values of the context columns: the rows that have them are available.
    any_context : bool
        Rows of several contexts may be available: nobody is to play them now.

    Raises
    ------
    NothingAvailableError
        If no candidate is left.
    ValueError
        If `available` or `context` is not of a form that suits the domain; or it has context columns,
        and neither says what the context is.
    """
    if isinstance(available, Allowed):  # of a rule around a bandit: of arrays, on a space, too
        return narrowed(domain, None, available)
    if isinstance(available, Mapping):
        available = Ranges(domain, available)
    chooses = isinstance(domain, Candidates) and bool(domain.context) and not any_context
    retires = isinstance(domain, Candidates) and bool(domain.retired)
    if available is None and context is None and not chooses and not retires:
        return None
    if not isinstance(domain, Candidates):
        if context is not None:
            raise ValueError(
                f"context is for Candidates with context columns, got {describe(domain)}"
            )
        if callable(available):
            return Available(domain, None, available)
        needs = f"ranges by name or a function from points (m, d) to a mask (m,) on {domain!r}"
        raise ValueError(f"available must be {needs}, got {describe(available)}")
    mask = np.ones(len(domain), dtype=bool) if available is None else _mask_of(domain, available)
    if context is not None:
        in_context = np.zeros(len(domain), dtype=bool)
        in_context[domain.rows_of(context)] = True
        mask = mask & in_context
    mask[list(domain.retired)] = False
    if not mask.any():
        where = "" if context is None else f" in the context {np.asarray(context).tolist()}"
        raise NothingAvailableError(f"none of the {len(domain)} candidates is available{where}")
    if context is None and chooses:
        given = domain._points_at(np.flatnonzero(mask))[:, list(domain.context)]
        if (given != given[0]).any():
            raise ValueError(
                f"{domain!r} has a context, which the world gives and nobody chooses: "
                "say context=values"
            )
    mask.setflags(write=False)
    return Available(domain, mask, None)


def narrowed(
    domain: Domain, free: Available | None, within: Callable[[Array], NDArray[np.bool_]]
) -> Available | None:
    """What is available, less the points (m, d) that `within` maps to False; None: everything still."""
    if not isinstance(domain, Candidates):
        return Available(domain, None, None if free is None else free.test, within)
    mask = domain._of_all(within)
    if mask.all():
        return free
    return Available(domain, mask if free is None else mask & free(domain.X), None)


def _named(domain: Domain, X: Array) -> Any:
    """Points as people write them: a frame where the domain has names."""
    decode = getattr(domain, "decode", None)
    return X if decode is None else decode(X)


def _mask_of(domain: Candidates, available: Any) -> NDArray[np.bool_]:
    """A mask of the candidates, out of a mask, row numbers or a function."""
    if isinstance(available, type):
        raise ValueError(
            f"available must be a mask, row numbers or a function, got {describe(available)}"
        )
    if callable(available):
        return domain._of_all(lambda X: _as_mask(available(_named(domain, X)), len(X))).copy()
    if np.ma.is_masked(available):
        raise ValueError(f"available must have no masked values, got {describe(available)}")
    try:
        given = np.asarray(available)
    except ValueError:
        given = np.empty(0)  # ragged: it is no mask
    if given.dtype == bool:
        return _as_mask(given, len(domain)).copy()
    mask = np.zeros(len(domain), dtype=bool)
    if given.ndim != 1 or (len(given) and given.dtype.kind not in "iu"):
        what = "a mask or row numbers of the candidates"
        raise ValueError(f"available must be {what}, got {describe(available)}")
    # What is meant as a mask of zeros and ones would name the first two rows again and again.
    mask[as_rows(given, len(domain), "row numbers in available")] = True
    return mask


def _as_mask(said: ArrayLike, n: int) -> NDArray[np.bool_]:
    mask = np.asarray(said)
    if mask.dtype != bool or mask.shape != (n,):
        raise ValueError(
            f"available must say True or False for {n} points, got shape {mask.shape} of {mask.dtype}"
        )
    return mask


# Share of a box's side: points that are nearer to each other along all coordinates are one point.
APART = 1e-3

# So many points of a domain that is not finite are tried before none of them counts as available.
TRIED = 65_536


class Allowed:
    """What is left to choose from: available, and not chosen already where there is anything else.

    On a box, points that differ by less than a thousandth of its sides count as one.

    Parameters
    ----------
    domain : Domain
    available : Available, optional
        Everything by default.
    taken : array of shape (m, d)
        Points to choose only if there are no others.
    move : Move, optional
        What is chosen is worth less by the price of going there.
    price : callable, optional
        And by what else points (m, d) cost, shape (m,).
    """

    def __init__(
        self,
        domain: Domain,
        available: Available | None,
        taken: Array,
        move: Move | None = None,
        price: Callable[[Array], Array] | None = None,
    ) -> None:
        self._domain, self._available, self._move, self._price = domain, available, move, price
        box = domain.whole if isinstance(domain, AtContext) else domain
        self._apart = APART * np.ptp(box.bounds, axis=1) if isinstance(box, Box) else 0.0
        self._taken = taken[:0]
        self._left: NDArray[np.bool_] = np.empty(0, dtype=bool)
        for x in taken:
            self.exclude(x)

    def __call__(self, X: Array) -> NDArray[np.bool_]:
        """Which of the points `X` (m, d) of the domain may be chosen, shape (m,)."""
        if len(self._taken) and X is getattr(self._domain, "X", None):
            return np.array(self._left)
        mask = np.ones(len(X), dtype=bool) if self._available is None else self._available(X).copy()
        if len(X) < len(self._taken):
            gone = [(np.abs(self._taken - x) <= self._apart).all(axis=1).any() for x in X]
            mask[np.array(gone, dtype=bool)] = False
            return mask
        for x in self._taken:
            mask &= ~(np.abs(x - X) <= self._apart).all(axis=1)
        return mask

    @property
    def everything(self) -> bool:
        """Whether every point of the domain may be chosen, at no price."""
        free = self._move is None and self._price is None
        return self._available is None and len(self._taken) == 0 and free

    def sample(self, rng: np.random.Generator) -> Array:
        """A point (d,) at random, of those that may be chosen.

        Raises
        ------
        NothingAvailableError
            If none is found.
        """
        if isinstance(self._domain, Candidates):
            rows = np.flatnonzero(self(self._domain.X))
            return np.asarray(self._domain.X[rng.choice(rows)].copy())
        return np.asarray(self._tried(rng)[0].copy())

    def exclude(self, x: Array) -> None:
        """Take `x` (d,) out; once nothing is left, everything may be chosen again."""
        if isinstance(self._domain, Candidates):
            # What is left is kept: to look again for all that was taken would be quadratic in it.
            self._left = self(self._domain.X) & (x != self._domain.X).any(axis=1)
        self._taken = np.vstack([self._taken, x])
        if isinstance(self._domain, Candidates) and not self._left.any():
            self._taken = self._taken[:0]

    def only(self, function: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """`function`, less the price, where a point may be chosen, and minus infinity elsewhere."""

        def masked(X: Array) -> Array:
            values = function(X)
            if self.everything:
                return values
            if self._move is not None:
                values = values - self._move.price(X)
            if self._price is not None:
                values = values - self._price(X)
            return np.where(self(X), values, -np.inf)

        return masked

    def best(self, function: Callable[[Array], Array], rng: np.random.Generator) -> Array:
        """The point (d,) that may be chosen of the largest value.

        Raises
        ------
        NothingAvailableError
            If none is found.
        """
        if self.everything:  # with its slopes, where it has any
            return self._domain.maximize(function, rng)[0].copy()
        worth = self.only(function)
        return self.checked(self._domain.maximize(worth, rng)[0], worth, rng)

    def best_of(self, values: Array, rng: np.random.Generator) -> Array:
        """The available candidate of the largest of `values` (A,)."""
        rows: Any = self._domain
        return self.best(lambda X: values[rows.index(X)], rng)

    def checked(
        self, x: Array, function: Callable[[Array], Array], rng: np.random.Generator
    ) -> Array:
        """`x` (d,) if it may be chosen; else the best that may out of many points at random.

        A search that met no point that is available does not know where to climb; and it meets the very
        point that one is at by chance alone.

        Raises
        ------
        NothingAvailableError
            If none of them may be chosen.
        """
        if not (self.everything or self(x[None, :])[0]):
            X = self._tried(rng)
            x = X[int(np.argmax(function(X)))]
        if self._move is not None and not isinstance(self._domain, Candidates):
            both = np.stack([self._move.start.x, x])
            x = x if not self(both)[0] else both[int(np.argmax(function(both)))]
        return x.copy()

    def _tried(self, rng: np.random.Generator) -> Array:
        """Points (m, d) out of many at random that may be chosen."""
        X = self._domain.sample(TRIED, rng)
        free = self(X)
        if not free.any():
            self._taken = self._taken[:0]
            free = self(X)
        if not free.any():
            raise NothingAvailableError(
                f"available says that none of {TRIED} points of {self._domain!r} is available"
            )
        return X[free]
