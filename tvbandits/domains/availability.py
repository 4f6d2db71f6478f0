"""What may be played now: a part of the domain, for one decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.domains.candidates import Candidates
from tvbandits.domains.domain import Context, Domain
from tvbandits.domains.moving import Move
from tvbandits.domains.parameters import texts
from tvbandits.errors import PlayError
from tvbandits.ties import acquisition_argmax, first_argmax
from tvbandits.validation import Array, as_list, as_rows, describe, is_finite_number, require

# A mask (A,) or row numbers of the candidates, ranges of coordinates by name (`Ranges`), or a function
# from points (m, d) to a mask (m,).
Availability = ArrayLike | Mapping[str, Sequence[float | str]] | Callable[[Array], ArrayLike] | None


class NothingAvailableError(PlayError):
    """No point of the domain is available."""


class Ranges:
    """A rule that can be written down: which points lie within ranges of coordinates.

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
        self._names = domain.coordinate_names
        self._ranges = dict[str, list[float | str]]()
        for name, given in ranges.items():
            if name not in self._names:
                there = ", ".join(self._names)
                raise ValueError(
                    f"available: unknown coordinate {describe(name)}; there are: {there}"
                )
            where, needs = (
                f"available: the range of {name}",
                "a lowest and a highest number, or texts",
            )
            ends = [given] if isinstance(given, str) else as_list(where, given, needs)
            numbers = len(ends) == 2 and all(map(is_finite_number, ends))
            is_range = numbers and ends[0] <= ends[1]
            require(is_range or self._are_texts(ends), where, needs, ends)
            self._ranges[name] = ends

    @staticmethod
    def _are_texts(ends: list[float | str]) -> bool:
        return bool(ends) and all(isinstance(each, str) for each in ends)

    def __call__(self, X: Any) -> NDArray[np.bool_]:
        """Return which points lie within, shape (m,): of an array (m, d), or a frame by name."""
        inside = np.ones(len(X), dtype=bool)
        for name, ends in self._ranges.items():
            column = X[:, self._names.index(name)] if isinstance(X, np.ndarray) else X[name]
            values = np.asarray(column)
            if self._are_texts(ends):
                inside &= np.isin(values.astype(str), ends)
            else:
                inside &= (values >= ends[0]) & (values <= ends[1])
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
        """Return which of the points `X` (m, d) of the domain are available, shape (m,)."""
        if self.points is not None:
            listed = set(map(tuple, self.points.tolist()))
            return np.array([tuple(x) in listed for x in X.tolist()], dtype=bool)
        if self.mask is None:
            mask = np.ones(len(X), dtype=bool)
            if self.test is not None:
                mask = _as_mask(self.test(self.domain.decode(X)), len(X))
            return mask if self.within is None else mask & self.within(X)
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
    """Return the domain of a decision, at the context if one is measured, and what is available.

    Raises
    ------
    NothingAvailableError, ValueError
        As `availability_of`; or if a context that is measured is not given, or not all of it.
    """
    if not domain.context_parameters:
        return domain, availability_of(domain, available, context)
    here = domain.at_context(domain.context_values(context))
    return here, availability_of(here, available, None)


def availability_of(
    domain: Domain, available: Availability, context: Context, *, any_context: bool = False
) -> Available | None:
    """Return what a decision may choose from; None: everything.

    Parameters
    ----------
    domain : Domain
    available : mask, row numbers, names of arms, ranges of coordinates by name, or function, optional
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
    if isinstance(available, ChoiceSet):  # of a rule around a bandit: of arrays, on a space, too
        return narrow(domain, None, available)
    if isinstance(available, Mapping):
        available = Ranges(domain, available)
    needs_context = isinstance(domain, Candidates) and bool(domain.context) and not any_context
    has_retired = isinstance(domain, Candidates) and bool(domain.retired)
    if available is None and context is None and not needs_context and not has_retired:
        return None
    if not isinstance(domain, Candidates):
        if context is not None:
            raise ValueError(
                f"context is for a domain that was made with context=, got {describe(domain)}"
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
    any_chosen = bool(mask.any())
    mask[list(domain.retired)] = False
    if not mask.any():
        where = "" if context is None else f" in the context {np.asarray(context).tolist()}"
        why = "; those that would be are retired" if any_chosen else ""
        raise NothingAvailableError(
            f"none of the {len(domain)} candidates is available{where}{why}"
        )
    if context is None and needs_context:
        contexts = domain.points_at(np.flatnonzero(mask))[:, list(domain.context)]
        if (contexts != contexts[0]).any():
            raise ValueError(
                f"{domain!r} has a context, which the world gives and nobody chooses: "
                "say context=values"
            )
    mask.setflags(write=False)
    return Available(domain, mask, None)


def narrow(
    domain: Domain, available: Available | None, within: Callable[[Array], NDArray[np.bool_]]
) -> Available | None:
    """Return what is available, less the points (m, d) that `within` maps to False; None: everything."""
    if not isinstance(domain, Candidates):
        if available is None:
            return Available(domain, None, None, within)
        if available.within is None and available.points is None:
            return Available(domain, None, available.test, within)
        return Available(domain, None, None, lambda X: available(X) & within(X))
    mask = domain.evaluate(within)
    if mask.all():
        return available
    return Available(domain, mask if available is None else mask & available(domain.X), None)


def _mask_of(domain: Candidates, available: Any) -> NDArray[np.bool_]:
    """Return the mask of the candidates that a mask, row numbers or a function describes."""
    if isinstance(available, type):
        raise ValueError(
            f"available must be a mask, row numbers or a function, got {describe(available)}"
        )
    if callable(available):
        return domain.evaluate(lambda X: _as_mask(available(domain.decode(X)), len(X))).copy()
    if domain.is_named and texts(available) is not None:  # of arms
        available = domain.index(domain.check(available))
    if np.ma.is_masked(available):
        raise ValueError(f"available must have no masked values, got {describe(available)}")
    try:
        values = np.asarray(available)
    except ValueError:
        values = np.empty(0)  # ragged: it is no mask
    if values.dtype == bool:
        return _as_mask(values, len(domain)).copy()
    mask = np.zeros(len(domain), dtype=bool)
    if values.ndim != 1 or (len(values) and values.dtype.kind not in "iu"):
        what = "a mask or row numbers of the candidates"
        raise ValueError(f"available must be {what}, got {describe(available)}")
    # What is meant as a mask of zeros and ones would name the first two rows again and again.
    mask[as_rows(values, len(domain), "row numbers in available")] = True
    return mask


def _as_mask(values: ArrayLike, n: int) -> NDArray[np.bool_]:
    mask = np.asarray(values)
    if mask.dtype != bool or mask.shape != (n,):
        raise ValueError(
            f"available must say True or False for {n} points, got shape {mask.shape} of {mask.dtype}"
        )
    return mask


class ChoiceSet:
    """The points to choose from: available, and not pending where there is anything else.

    On a box, points that differ by less than a thousandth of its sides count as one.

    Parameters
    ----------
    domain : Domain
    available : Available, optional
        Everything by default.
    pending : array of shape (m, d)
        Points to choose only if there are no others.
    move : Move, optional
        What is chosen is worth less by the price of going there.
    price : callable, optional
        And by what else points (m, d) cost, shape (m,).
    """

    # So many points of a domain that is not finite are drawn before none of them counts as available.
    most_drawn: ClassVar[int] = 65_536
    # So many of those that are available are compared: a batch may need it for each of its points.
    most_compared: ClassVar[int] = 4096

    def __init__(
        self,
        domain: Domain,
        available: Available | None,
        pending: Array,
        move: Move | None = None,
        price: Callable[[Array], Array] | None = None,
    ) -> None:
        self._domain, self._available, self._move, self._price = domain, available, move, price
        self._resolution = domain.resolution
        self._pending = pending[:0]
        # Which candidates remain: to look again at all pending points would be quadratic in them.
        self._remaining: NDArray[np.bool_] = np.empty(0, dtype=bool)
        for x in pending:
            self.exclude(x)

    def __call__(self, X: Array) -> NDArray[np.bool_]:
        """Return which of the points `X` (m, d) of the domain may be chosen, shape (m,)."""
        domain = self._domain
        if len(self._pending) and isinstance(domain, Candidates) and X is domain.X:
            return np.array(self._remaining)
        mask = np.ones(len(X), dtype=bool) if self._available is None else self._available(X).copy()
        if len(X) < len(self._pending):
            is_pending = [
                (np.abs(self._pending - x) <= self._resolution).all(axis=1).any() for x in X
            ]
            mask[np.array(is_pending, dtype=bool)] = False
            return mask
        for x in self._pending:
            mask &= ~(np.abs(x - X) <= self._resolution).all(axis=1)
        return mask

    @property
    def is_everything(self) -> bool:
        """Whether every point of the domain may be chosen, at no price."""
        has_price = self._move is not None or self._price is not None
        return self._available is None and len(self._pending) == 0 and not has_price

    def sample(self, rng: np.random.Generator) -> Array:
        """Return a point (d,) at random, of those that may be chosen.

        Raises
        ------
        NothingAvailableError
            If none is found.
        """
        if isinstance(self._domain, Candidates):
            rows = np.flatnonzero(self(self._domain.X))
            return np.asarray(self._domain.X[rng.choice(rows)].copy())
        return np.asarray(self._draw(rng)[0].copy())

    def exclude(self, x: Array) -> None:
        """Exclude `x` (d,) from the choice; once nothing remains, everything may be chosen again."""
        if isinstance(self._domain, Candidates):
            self._remaining = self(self._domain.X) & (x != self._domain.X).any(axis=1)
        self._pending = np.vstack([self._pending, x])
        if isinstance(self._domain, Candidates) and not self._remaining.any():
            self._pending = self._pending[:0]

    def restrict(self, function: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """Return `function` less the price, and minus infinity where a point may not be chosen."""

        def worth(X: Array) -> Array:
            values = function(X)
            if self.is_everything:
                return values
            if self._move is not None:
                values = values - self._move.price(X)
            if self._price is not None:
                values = values - self._price(X)
            return np.where(self(X), values, -np.inf)

        return worth

    def best(self, function: Callable[[Array], Array], rng: np.random.Generator) -> Array:
        """Return the point (d,) of the largest value that may be chosen.

        Raises
        ------
        NothingAvailableError
            If none is found.
        """
        if self.is_everything:  # with its slopes, where it has any
            return self._domain.maximize(function, rng)[0].copy()
        worth = self.restrict(function)
        return self.repair(self._domain.maximize(worth, rng)[0], worth, rng)

    def best_of(self, values: Array, rng: np.random.Generator) -> Array:
        """Return the candidate (d,) of the largest of `values` (A,) that may be chosen."""
        domain = self._domain
        assert isinstance(domain, Candidates)  # nothing else has rows
        return self.best(lambda X: values[domain.index(X)], rng)

    def repair(
        self, x: Array, function: Callable[[Array], Array], rng: np.random.Generator
    ) -> Array:
        """Return `x` (d,) if it may be chosen, or else the best out of many random points that may.

        A search that met no point that is available does not know where to climb; and it meets the very
        point that one is at by chance alone.

        Raises
        ------
        NothingAvailableError
            If none of them may be chosen.
        """
        if not (self.is_everything or self(x[None, :])[0]):
            X = self._draw(rng)[: self.most_compared]
            x = X[acquisition_argmax(function(X), X, rng)]
        if self._move is not None and not isinstance(self._domain, Candidates):
            both = np.stack([self._move.start.x, x])
            x = x if not self(both)[0] else both[first_argmax(function(both))]
        return x.copy()

    def _draw(self, rng: np.random.Generator) -> Array:
        """Return those of many random points that may be chosen, shape (m, d)."""
        X = self._domain.sample(self.most_drawn, rng)
        mask = self(X)
        if not mask.any():
            self._pending = self._pending[:0]
            mask = self(X)
        if not mask.any():
            raise NothingAvailableError(
                f"available says that none of {self.most_drawn} points of {self._domain!r} is "
                "available"
            )
        return X[mask]
