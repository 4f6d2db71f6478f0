"""Points as people write them: by the name of a site, by parameters, or by coordinates.

Whatever is printed as a place can be given back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tvbandits.campaign.clock import Clock
from tvbandits.campaign.store.errors import reading
from tvbandits.campaign.store.journal import points
from tvbandits.domains.availability import (
    Availability,
    NothingAvailableError,
    availability_of,
    decision_domain,
)
from tvbandits.domains.candidates import candidates_of
from tvbandits.domains.domain import Context, Domain
from tvbandits.domains.parameters import Category, Parameter, exactly, texts
from tvbandits.domains.space import Arms, Space
from tvbandits.validation import Array, as_rows, describe, require

# Of a history besides the coordinates: if one is called so, or as an outcome, all keep their numbers.
COLUMNS = {"time", "t", "site", "reward", "value", "variance", "source", "kind"}

# Names of so many sites are shown where one is unknown.
MOST = 8


class Names:
    """What people call the points of a domain.

    Parameters
    ----------
    domain : Domain
    about : mapping of str to str
        What is kept with a campaign: `names` of its sites, `coordinates`, and `given`, the columns of
        the table of sites where latitude and longitude in it were turned into kilometres.
    place : str
        Of the campaign.
    changes : sequence of dict
        What each change of the sites has added and retired since.

    Raises
    ------
    DamagedCampaignError
        If what is kept cannot be used.
    """

    def __init__(
        self,
        domain: Domain,
        about: Mapping[str, str],
        place: str = "",
        changes: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.domain = domain

        def listed(name: str, *counts: int) -> list[str]:
            with reading(f"{place}: the field '{name}'"):
                found: list[str] = json.loads(about.get(name, "[]"))
                texts = isinstance(found, list) and all(isinstance(each, str) for each in found)
                if not texts or (counts and len(found) not in counts):
                    raise ValueError(f"it should be a list of {max(counts, default=0)} texts")
                return found

        sites = candidates_of(domain)
        count = 0 if sites is None else len(sites)
        first = count - sum(len(change["names"]) for change in changes)
        self.sites = listed("names", 0, first)
        with reading(f"{place}: the field 'given'"):
            self.given: dict[str, list[float]] = json.loads(about.get("given", "{}"))
            for change in changes if self.sites else ():
                self.sites += change["names"]
                for column, values in change["given"].items():
                    self.given[column] += values
        if isinstance(domain, Space):
            named: Sequence[str] = domain.names
        elif isinstance(domain, Arms):
            named = self.sites = list(domain.names)
        else:
            named = listed("coordinates", 0, domain.dimension)
        self.coordinates: list[str] = list(named) or domain.coordinate_names

    @property
    def columns(self) -> list[str]:
        """By what a table may say where a reading was made: degrees, where there were such, or names."""
        return list(self.given) or self.coordinates

    @property
    def context_names(self) -> list[str]:
        """What the world gives, and a table says beside a site."""
        return list(self.domain.context_parameters)

    @cached_property
    def number(self) -> dict[str, int]:
        """The rows of sites, by name."""
        return {name: row for row, name in enumerate(self.sites)}

    def row(self, name: str) -> int:
        """The number of a site; its name in any case, if that is clear.

        Raises
        ------
        ValueError
            If there is no such site.
        """
        if name in self.number:
            return self.number[name]
        alike = [row for row, each in enumerate(self.sites) if each.casefold() == name.casefold()]
        if len(alike) == 1:
            return alike[0]
        there = ", ".join(self.sites[:MOST]) or f"coordinates {', '.join(self.coordinates)}"
        more = f" and {len(self.sites) - MOST} more" if len(self.sites) > MOST else ""
        said = json.dumps(name, ensure_ascii=False)  # without what a terminal would obey
        raise ValueError(f"unknown site {said}; there are: {there}{more}")

    def point(self, text: str) -> Array:
        """The point that a text means, shape (1, d)."""
        domain = self.domain
        if isinstance(domain, Space) and "=" in text:
            values = _parameters(dict(zip(domain.names, domain.parameters, strict=True)), text)
            return (domain if set(domain.context) & set(values) else domain.action_domain).encode(
                values
            )
        sites = candidates_of(domain)
        if sites is not None and (text in self.number or not _numbers(text)):
            return sites.X[[self.row(text)]]
        given = _numbers(text)
        if self.given:
            known = np.column_stack(list(self.given.values()))
            if len(given) == known.shape[1]:
                same = np.flatnonzero(np.isclose(known, given, rtol=0.0, atol=1e-9).all(axis=1))
                if len(same):
                    assert sites is not None  # they have the columns
                    return sites.X[same[:1]]
        chosen = domain.dimension - sum(part.width for part in domain.context_parameters.values())
        short = len(given) == chosen < domain.dimension  # its context is said apart
        if not given or (self.sites and len(given) not in (chosen, domain.dimension)):
            self.row(text)  # these are no coordinates, and no site is called so: it says so
        of: Any = domain.action_domain if short else domain
        return np.asarray(of.check([given]))

    def context(self, text: str | None) -> dict[str, object] | None:
        """The values in "outside=3.2, tariff=day", by name."""
        if text is None:
            return None
        if not self.domain.context_parameters:
            raise ValueError(f'there is no context to give, got "{text}"')
        return _parameters(self.domain.context_parameters, text)

    def points(self, given: Any) -> Any:
        """Points out of one text or several; what is no text stays as it is."""
        found = texts(given)
        if found is None:
            return given
        return np.concatenate(
            [self.point(x) if isinstance(x, str) else self.domain.check([x]) for x in found]
        )

    def rows(self, available: Any) -> Any:
        """Row numbers out of the names of sites; what is no text stays as it is."""
        found = texts(available)
        if found is None:
            return available
        return [self.row(each) if isinstance(each, str) else each for each in found]

    def available(
        self,
        available: Availability,
        context: Context,
        without: Sequence[str | int] = (),
        *,
        any_context: bool = False,
    ) -> list[int] | dict[str, list[float | str]] | None:
        """What is available, as it can be written down: row numbers, or ranges of coordinates."""
        try:
            rows = self.rows(available)
        except ValueError as error:
            raise ValueError(f"available: {error}") from error
        if any_context:
            found = availability_of(self.domain, rows, None, any_context=True)
        else:
            _, found = decision_domain(self.domain, rows, context)
        mask = None if found is None else found.mask
        if len(without):
            sites = candidates_of(self.domain)
            require(sites is not None, "without", "given on sites or arms only", without)
            mask = np.ones(len(sites), dtype=bool) if mask is None else mask.copy()  # type: ignore[arg-type]
            out = as_rows(np.asarray(self.rows(without)), len(mask), "without")
            mask[out] = False
            if not mask.any():
                raise NothingAvailableError(f"no site is left without {describe(without)}")
        if mask is None and isinstance(rows, Mapping):
            return {name: [*given] for name, given in rows.items()}
        return None if mask is None else [int(row) for row in np.flatnonzero(mask)]

    def written(self, cells: Sequence[str]) -> str:
        """What stands in the `columns` of a table, as `point` takes it."""
        if isinstance(self.domain, Space):
            pairs = zip(self.coordinates, cells, strict=True)
            return ", ".join(f"{name}={cell}" for name, cell in pairs)
        return ",".join(cells)

    def name(self, x: Array, digits: int | None = None) -> str:
        """Return what people call a point (d,).

        Parameters
        ----------
        x : array of shape (d,)
        digits : int, optional
            Significant digits of its numbers, where it has no name of its own; without it, all that it
            takes to read the same point again.
        """
        domain = self.domain

        def number(value: float) -> str:
            return exactly(value) if digits is None else f"{value:.{digits}g}"

        if isinstance(domain, Space):
            (row,) = domain.decode(np.atleast_2d(x)).to_dict("records")
            cells = {
                key: number(value) if digits is not None and isinstance(value, float) else value
                for key, value in row.items()
            }
            return ", ".join(f"{key}={value}" for key, value in cells.items())
        sites = candidates_of(domain)
        if sites is not None and self.sites:
            at = points([x], domain.dimension)[:, : sites.dimension]
            return self.sites[int(sites.index(at)[0])]
        return ",".join(number(float(each)) for each in x)

    def history(self, columns: Mapping[str, Any], clock: Clock | None) -> dict[str, Any]:
        """A bandit's history with the names of sites and coordinates, and with dates beside `t`."""
        domain, said, renamed = self.domain, self.coordinates, dict[str, str]()
        found = {"time": columns["time"]}
        if clock is not None:
            found = {"time": [clock.text(t) for t in columns["time"]], "t": columns["time"]}
        if not isinstance(domain, Space):
            numbered = domain.coordinate_names
            if isinstance(domain, Arms):
                renamed = {"arm": "site"}
            elif self.sites:
                X = np.column_stack([columns[name] for name in numbered])
                found["site"] = [self.name(x) for x in X]
            if (COLUMNS | columns.keys() - {*numbered}).isdisjoint(said) and not renamed:
                renamed = dict(zip(numbered, said, strict=True))
        rest = {name: column for name, column in columns.items() if name != "time"}
        return found | {renamed.get(name, name): column for name, column in rest.items()}


def _parameters(parts: Mapping[str, Parameter], text: str) -> dict[str, object]:
    """The values in "name=value, name=value"; a word may hold commas."""
    names = "|".join(map(re.escape, sorted(parts, key=len, reverse=True)))
    found = re.split(rf"(?:^|,)\s*({names})\s*=", text.strip())
    known = f'in "{text}"; there are: {", ".join(parts)}'
    if found[0].strip():
        unknown = found[0].partition("=")[0].strip(" ,")
        if unknown in parts:
            raise ValueError(f'say {unknown}=..., got "{text}"')
        raise ValueError(f'unknown parameter "{unknown}" {known}')
    values: dict[str, object] = {}
    for name, value in zip(found[1::2], found[2::2], strict=True):
        said, part = value.strip(), parts[name]
        if name in values:
            raise ValueError(f'"{text}": {name} is given twice')
        if isinstance(part, Category):
            values[name] = said
        elif unknown := re.search(r",\s*([^,=]+?)\s*=", said):
            raise ValueError(f'unknown parameter "{unknown[1]}" {known}')
        elif len(number := _numbers(said)) != 1:
            raise ValueError(f'"{text}": {name} must be a number, got "{said}"')
        else:
            values[name] = int(number[0]) if number[0].is_integer() else number[0]
    return values


def _numbers(text: str) -> list[float]:
    """The numbers of "3.2,4.5"; none if something else stands there."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return []
