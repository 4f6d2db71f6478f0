"""Availability: the part of a domain from which one decision may choose."""

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
from tvbandits.domains.parameters import as_texts
from tvbandits.errors import PlayError
from tvbandits.ties import acquisition_argmax, first_argmax
from tvbandits.validation import Array, as_list, as_rows, describe, is_finite_number, require

# A mask (A,) or row numbers of the candidates, ranges of coordinates by name (`Ranges`), or a function
# from points (m, d) to a mask (m,).
Availability = ArrayLike | Mapping[str, Sequence[float | str]] | Callable[[Array], ArrayLike] | None


class NothingAvailableError(PlayError):
    """An error for a decision without any available point."""


class Ranges:
    """A rule by which points are available if some coordinates lie within ranges.

    Unlike a function, it can be written to a file.

    Parameters
    ----------
    domain : Domain
    ranges : mapping of str to (float, float) or to sequence of str
        For the name of a coordinate, the lowest and the highest available value, or the available
        categories. Coordinates without a range are not restricted.

    Raises
    ------
    ValueError
        If a name is unknown, or a range is neither two increasing numbers nor texts.
    """

    def __init__(self, domain: Domain, ranges: Mapping[str, Sequence[float | str]]) -> None:
        self._names = domain.coordinate_names
        self._ranges = dict[str, list[float | str]]()
        for name, limits in ranges.items():
            if name not in self._names:
                names = ", ".join(self._names)
                raise ValueError(
                    f"available: unknown coordinate {describe(name)}; there are: {names}"
                )
            argument = f"available: the range of {name}"
            needs = "a lowest and a highest number, or texts"
            ends = [limits] if isinstance(limits, str) else as_list(argument, limits, needs)
            are_numbers = len(ends) == 2 and all(map(is_finite_number, ends))
            is_range = are_numbers and ends[0] <= ends[1]
            require(is_range or self._are_texts(ends), argument, needs, ends)
            self._ranges[name] = ends

    @staticmethod
    def _are_texts(ends: list[float | str]) -> bool:
        return bool(ends) and all(isinstance(end, str) for end in ends)

    def __call__(self, X: Any) -> NDArray[np.bool_]:
        """Return a mask (m,) of the points in the ranges; `X` is an array (m, d) or a frame."""
        is_inside = np.ones(len(X), dtype=bool)
        for name, ends in self._ranges.items():
            column = X[:, self._names.index(name)] if isinstance(X, np.ndarray) else X[name]
            values = np.asarray(column)
            if self._are_texts(ends):
                is_inside &= np.isin(values.astype(str), ends)
            else:
                is_inside &= (values >= ends[0]) & (values <= ends[1])
        return is_inside


@dataclass(frozen=True, eq=False)
class Available:
    """The available points of a domain, as a mask of candidates, functions, or a list of points.

    Attributes
    ----------
    domain : Domain
    mask : boolean array of shape (A,), or None
        The mask of candidates; None for other domains.
    test : callable or None
        For other domains: a function from points (m, d), or a frame of them on a space, to a mask (m,).
    within : callable or None
        For other domains: a further function from points (m, d) to a mask (m,), which must hold, too.
    points : array of shape (k, d), or None
        For other domains: all available points, instead of functions, which cannot be saved.
    """

    domain: Domain
    mask: NDArray[np.bool_] | None
    test: Callable[[Array], ArrayLike] | None
    within: Callable[[Array], NDArray[np.bool_]] | None = None
    points: Array | None = None

    def __call__(self, X: Array) -> NDArray[np.bool_]:
        """Return a mask (m,) of the available ones among points `X` (m, d) of the domain."""
        if self.points is not None:
            points = set(map(tuple, self.points.tolist()))
            return np.array([tuple(x) in points for x in X.tolist()], dtype=bool)
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
            parts = other.mask, other.test, other.within
            return all(map(is_, (self.mask, self.test, self.within), parts))
        return np.array_equal(self.mask, other.mask)

    __hash__ = None  # type: ignore[assignment]


def get_decision_domain(
    domain: Domain, available: Availability, context: Context
) -> tuple[Domain, Available | None]:
    """Return the domain of a decision, at the measured context if there is one, and its availability.

    Raises
    ------
    NothingAvailableError, ValueError
        As `check_availability`; or if a measured context is missing or incomplete.
    """
    if not domain.context_parameters:
        return domain, check_availability(domain, available, context)
    domain = domain.at_context(domain.context_values(context))
    return domain, check_availability(domain, available, None)


def check_availability(
    domain: Domain, available: Availability, context: Context, *, any_context: bool = False
) -> Available | None:
    """Return the checked availability of a decision; None: all points are available.

    Parameters
    ----------
    domain : Domain
    available : mask, row numbers, names of arms, ranges of coordinates by name, or function, optional
    context : array of shape (c,), optional
        The values of the context columns, to which the choice is restricted.
    any_context : bool
        Whether rows of several contexts may be available, as for queries instead of plays.

    Raises
    ------
    NothingAvailableError
        If no candidate is available.
    ValueError
        If `available` or `context` does not suit the domain; or if the domain has context columns, and
        neither determines the context.
    """
    if isinstance(available, ChoiceSet):  # from a rule that contains a bandit; it takes arrays
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
                f"context needs a domain that was created with context=, got {describe(domain)}"
            )
        if callable(available):
            return Available(domain, None, available)
        needs = f"ranges by name or a function from points (m, d) to a mask (m,) on {domain!r}"
        raise ValueError(f"available must be {needs}, got {describe(available)}")
    mask = np.ones(len(domain), dtype=bool) if available is None else _mask_of(domain, available)
    if context is not None:
        in_context = np.zeros(len(domain), dtype=bool)
        in_context[domain.find_context_rows(context)] = True
        mask = mask & in_context
    has_selection = bool(mask.any())
    mask[list(domain.retired)] = False
    if not mask.any():
        place = "" if context is None else f" in the context {np.asarray(context).tolist()}"
        reason = "; those that would be are retired" if has_selection else ""
        raise NothingAvailableError(
            f"none of the {len(domain)} candidates is available{place}{reason}"
        )
    if context is None and needs_context:
        contexts = domain.points_at(np.flatnonzero(mask))[:, list(domain.context)]
        if (contexts != contexts[0]).any():
            raise ValueError(
                f"{domain!r} has context columns, which are not chosen: give their present values "
                "as context="
            )
    mask.setflags(write=False)
    return Available(domain, mask, None)


def narrow(
    domain: Domain, available: Available | None, within: Callable[[Array], NDArray[np.bool_]]
) -> Available | None:
    """Return an availability without the points (m, d) that `within` maps to False; None: all."""
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
    if domain.is_named and as_texts(available) is not None:  # of arms
        available = domain.index(domain.check(available))
    if np.ma.is_masked(available):
        raise ValueError(f"available must have no masked values, got {describe(available)}")
    try:
        values = np.asarray(available)
    except ValueError:
        values = np.empty(0)  # sequences of different lengths
    if values.dtype == bool:
        return _as_mask(values, len(domain)).copy()
    mask = np.zeros(len(domain), dtype=bool)
    if values.ndim != 1 or (len(values) and values.dtype.kind not in "iu"):
        needs = "a mask or row numbers of the candidates"
        raise ValueError(f"available must be {needs}, got {describe(available)}")
    # Rows must be distinct, so that a mask of zeros and ones is not taken for row numbers.
    mask[as_rows(values, len(domain), "row numbers in available")] = True
    return mask


def _as_mask(values: ArrayLike, n: int) -> NDArray[np.bool_]:
    """Return a checked mask (n,)."""
    mask = np.asarray(values)
    if mask.dtype != bool or mask.shape != (n,):
        raise ValueError(
            f"available must be True or False for each of {n} points, got shape {mask.shape} of "
            f"{mask.dtype}"
        )
    return mask


class ChoiceSet:
    """The points that may be chosen: available ones, and pending ones only if no others are left.

    On a box, points that differ by less than a thousandth of its sides count as one.

    Parameters
    ----------
    domain : Domain
    available : Available, optional
        All points by default.
    pending : array of shape (m, d)
        Points that may be chosen only if there are no others.
    move : Move, optional
        The move from the present position, whose price is subtracted from the value of a point.
    price : callable, optional
        A function from points (m, d) to further prices (m,), which are subtracted, too.
    """

    # The number of draws from an infinite domain before it counts as unavailable as a whole.
    draw_count: ClassVar[int] = 65_536
    # The largest number of available draws that are compared, for each point of a batch.
    comparison_count: ClassVar[int] = 4096

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
        # The remaining candidates, since a comparison with all pending points each time is quadratic.
        self._remaining: NDArray[np.bool_] = np.empty(0, dtype=bool)
        for x in pending:
            self.exclude(x)

    def __call__(self, X: Array) -> NDArray[np.bool_]:
        """Return a mask (m,) of the points `X` (m, d) of the domain that may be chosen."""
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
        """Return whether all points of the domain may be chosen, at no price."""
        has_price = self._move is not None or self._price is not None
        return self._available is None and len(self._pending) == 0 and not has_price

    def sample(self, rng: np.random.Generator) -> Array:
        """Return a random point (d,) among those that may be chosen.

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
        """Exclude `x` (d,) from the choice; if nothing remains, all points may be chosen again."""
        if isinstance(self._domain, Candidates):
            self._remaining = self(self._domain.X) & (x != self._domain.X).any(axis=1)
        self._pending = np.vstack([self._pending, x])
        if isinstance(self._domain, Candidates) and not self._remaining.any():
            self._pending = self._pending[:0]

    def restrict(self, function: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """Return `function` minus the price; it is minus infinity at points that may not be chosen."""

        def net_value(X: Array) -> Array:
            values = function(X)
            if self.is_everything:
                return values
            if self._move is not None:
                values = values - self._move.price(X)
            if self._price is not None:
                values = values - self._price(X)
            return np.where(self(X), values, -np.inf)

        return net_value

    def find_best(self, function: Callable[[Array], Array], rng: np.random.Generator) -> Array:
        """Return the point (d,) with the largest value among those that may be chosen.

        Raises
        ------
        NothingAvailableError
            If none is found.
        """
        if self.is_everything:  # the function itself, which may have slopes
            return self._domain.maximize(function, rng)[0].copy()
        net_value = self.restrict(function)
        return self.repair(self._domain.maximize(net_value, rng)[0], net_value, rng)

    def find_best_candidate(self, values: Array, rng: np.random.Generator) -> Array:
        """Return the candidate (d,) with the largest of `values` (A,) that may be chosen."""
        domain = self._domain
        assert isinstance(domain, Candidates)  # other domains have no rows
        return self.find_best(lambda X: values[domain.index(X)], rng)

    def repair(
        self, x: Array, function: Callable[[Array], Array], rng: np.random.Generator
    ) -> Array:
        """Return `x` (d,) if it may be chosen, or else the best point that may.

        It is the best of all points of a small finite domain, and of many random ones of another domain.

        A search among unavailable points finds no slope to climb. With a move cost, the present position
        is compared, too, since a search of a box would hardly ever find exactly that point.

        Raises
        ------
        NothingAvailableError
            If none of the random points may be chosen.
        """
        if not (self.is_everything or self(x[None, :])[0]):
            X = self._draw(rng)
            x = X[acquisition_argmax(function(X), X, rng)]
        if self._move is not None and not isinstance(self._domain, Candidates):
            both = np.stack([self._move.start.x, x])
            x = x if not self(both)[0] else both[first_argmax(function(both))]
        return x.copy()

    def _draw(self, rng: np.random.Generator) -> Array:
        """Return points (m, d) that may be chosen: all of a small finite domain, or some random ones."""
        points = self._domain.all_points
        X = self._domain.sample(self.draw_count, rng) if points is None else points
        mask = self(X)
        if not mask.any():
            self._pending = self._pending[:0]
            mask = self(X)
        if not mask.any():
            raise NothingAvailableError(
                f"none of {self.draw_count} random points of {self._domain!r} is available"
            )
        return X[mask] if points is not None else X[mask][: self.comparison_count]
