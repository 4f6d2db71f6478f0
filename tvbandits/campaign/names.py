"""Points as people write them: by the name of a site, by parameters, or by coordinates.

Whatever is printed as a place can be given back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from tvbandits.acquisition.availability import Availability, NothingAvailableError, decision_domain
from tvbandits.campaign.store.errors import reading
from tvbandits.campaign.store.store import check_name
from tvbandits.core.candidates import Candidates, CandidatesInContext, candidates_of, with_others
from tvbandits.core.clock import Clock
from tvbandits.core.context import Context, coordinate_names, measured
from tvbandits.core.files.journal import points
from tvbandits.core.parameters import Category, Parameter, exactly, texts
from tvbandits.core.protocols import Domain
from tvbandits.core.space import Arms, Space
from tvbandits.validation import (
    Array,
    as_floats,
    as_points,
    as_rows,
    as_time,
    not_negative,
    of_kind,
    positive_number,
    refuse,
    require,
    shown,
    whole_number,
)

# Of a history besides the coordinates: if one is called so, or as an outcome, all keep their numbers.
COLUMNS = {"time", "t", "site", "reward", "value", "variance", "source", "kind"}

# A site is far away from the nearest other by so many times the extent of all others.
FAR = 3.0

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
        self.coordinates: list[str] = list(named) or coordinate_names(domain)

    @property
    def columns(self) -> list[str]:
        """By what a table may say where a reading was made: degrees, where there were such, or names."""
        return list(self.given) or self.coordinates

    @property
    def context_names(self) -> list[str]:
        """What the world gives, and a table says beside a site."""
        return list(measured(self.domain))

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.sites)}

    def row(self, name: str) -> int:
        """The number of a site; its name in any case, if that is clear.

        Raises
        ------
        ValueError
            If there is no such site.
        """
        if name in self._rows:
            return self._rows[name]
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
            return (domain if set(domain.context) & set(values) else domain.chosen).encode(values)
        sites = candidates_of(domain)
        if sites is not None and (text in self._rows or not _numbers(text)):
            return sites.X[[self.row(text)]]
        given = _numbers(text)
        if self.given:
            known = np.column_stack(list(self.given.values()))
            if len(given) == known.shape[1]:
                same = np.flatnonzero(np.isclose(known, given, rtol=0.0, atol=1e-9).all(axis=1))
                if len(same):
                    assert sites is not None  # they have the columns
                    return sites.X[same[:1]]
        chosen = domain.dimension - sum(part.width for part in measured(domain).values())
        short = len(given) == chosen < domain.dimension  # its context is said apart
        if not given or (self.sites and len(given) not in (chosen, domain.dimension)):
            self.row(text)  # these are no coordinates, and no site is called so: it says so
        of: Any = domain.chosen if short else domain  # type: ignore[attr-defined]
        return np.asarray(of.check([given]))

    def context(self, text: str | None) -> dict[str, object] | None:
        """The values in "outside=3.2, tariff=day", by name."""
        if text is None:
            return None
        if not measured(self.domain):
            raise ValueError(f'there is no context to give, got "{text}"')
        return _parameters(measured(self.domain), text)

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
            found = available(self.domain, rows, None, any_context=True)
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
                raise NothingAvailableError(f"no site is left without {shown(without)}")
        if mask is None and isinstance(rows, Mapping):
            return {name: [*given] for name, given in rows.items()}
        return None if mask is None else [int(row) for row in np.flatnonzero(mask)]

    def written(self, cells: Sequence[str]) -> str:
        """What stands in the `columns` of a table, as `point` takes it."""
        if isinstance(self.domain, Space):
            pairs = zip(self.coordinates, cells, strict=True)
            return ", ".join(f"{name}={cell}" for name, cell in pairs)
        return ",".join(cells)

    def change(self, add: Mapping[str, Any], retire: Sequence[Any]) -> dict[str, Any]:
        """What the journal says of sites that are added, with their coordinates, and of retired ones.

        Of degrees, the kilometres are those of the sites before: by the same slopes.

        Raises
        ------
        ValueError
            If there is such a site already, none such to retire, or coordinates have another number.
        """
        domain = candidates_of(self.domain)
        if domain is None or not (isinstance(domain, Arms) or type(domain) is Candidates):
            raise ValueError(f"sites come and go among sites or arms, got {self.domain!r}")
        last = len(domain) - 1
        gone = [whole_number("each of retire", row, 0, last) for row in self.rows(retire)]
        if again := {*gone} & {*domain.retired}:
            raise ValueError(f"{self.name(domain.X[min(again)])} is retired already")
        back = [self._rows[name] for name in add if name in self._rows]
        if there := [row for row in back if row not in domain.retired]:
            raise ValueError(f'there is a site "{self.sites[there[0]]}" already')
        fresh = {name: x for name, x in add.items() if name not in self._rows}
        given: dict[str, list[float]] = {}
        X: list[list[float]] = []
        if isinstance(domain, Arms):
            if placed := [name for name, x in fresh.items() if x is not None]:
                raise ValueError(f'arms have no coordinates, got some of "{placed[0]}"')
        elif fresh:
            d = len({*self.columns} - {*self.context_names})
            table = np.vstack([as_points([x], d, f'add: "{name}"') for name, x in fresh.items()])
            if self.given:
                given = dict(zip(self.given, table.T.tolist(), strict=True))
            X = self._located(table).tolist()
        return {"names": [*fresh], "X": X, "given": given, "retire": gone, "back": back}

    def _located(self, table: Array) -> Array:
        """Points (n, d) inside from coordinates as people give them."""
        if not self.given:
            return table
        domain = candidates_of(self.domain)
        assert domain is not None
        from tvbandits.datasets.tables.sensor_field import degrees_in

        degrees = degrees_in(self.given)
        assert degrees is not None  # what else would have been turned
        latitude, longitude = degrees
        names = list(self.given)
        for name, most in ((latitude, 90), (longitude, 360)):
            column = table[:, names.index(name)]
            refuse(
                np.abs(column) > most, column, f"{name} must be degrees of at most {most} in size"
            )
        order = [longitude, latitude, *(each for each in names if each not in degrees)]
        columns = [names.index(each) for each in order]
        X, known = domain.X, np.column_stack([self.given[each] for each in order])
        extent = np.ptp(known, axis=0)
        slopes = np.where(extent > 0, np.ptp(X, axis=0) / np.where(extent > 0, extent, 1.0), 1.0)

        def placed(degrees: Array) -> Array:
            return np.asarray(X[0] + (degrees - known[0]) * slopes)

        found, swapped = placed(table[:, columns]), table[:, columns].copy()
        swapped[:, :2] = swapped[:, 1::-1]
        far, other = nearest(X[:, :2], found[:, :2]), nearest(X[:, :2], placed(swapped)[:, :2])
        exchanged = (far > FAR * np.hypot(*np.ptp(X[:, :2], axis=0))) & (other < far / 10)
        if exchanged.any():
            row = int(exchanged.argmax())
            wanted = ",".join(map(exactly, table[row, ::-1] if len(names) == 2 else swapped[row]))
            raise ValueError(
                f"{','.join(map(exactly, table[row]))} is {far[row]:.0f} km from the nearest site: the "
                f"order is {', '.join(names)}; {wanted} would be {other[row]:.0f} km away"
            )
        return found

    def remote(self, add: Mapping[str, Any]) -> list[str]:
        """What is odd about sites that are to be added: they are far from all that are there."""
        domain, body = candidates_of(self.domain), self.change(add, ())
        X = np.asarray(body["X"], dtype=np.float64)
        if domain is None or not X.size:
            return []
        width = 2 if self.given else X.shape[1]
        there, extent = domain.X[:, :width], np.linalg.norm(np.ptp(domain.X[:, :width], axis=0))
        unit = " km" if self.given else ""
        return [
            f'"{name}" is {away:.4g}{unit} from the nearest site, and all others lie within '
            f"{extent:.4g}{unit} of each other"
            for name, away in zip(body["names"], nearest(there, X[:, :width]), strict=True)
            if away > FAR * extent > 0
        ]

    def name(self, x: Array) -> str:
        """What people call a point (d,)."""
        domain = self.domain
        if isinstance(domain, Space):
            (row,) = domain.decode(np.atleast_2d(x)).to_dict("records")
            return ", ".join(f"{key}={value}" for key, value in row.items())
        sites = candidates_of(domain)
        if sites is not None and self.sites:
            at = points([x], domain.dimension)[:, : sites.dimension]
            return self.sites[int(sites.index(at)[0])]
        return ",".join(exactly(float(each)) for each in x)

    def history(self, columns: Mapping[str, Any], clock: Clock | None) -> dict[str, Any]:
        """A bandit's history with the names of sites and coordinates, and with dates beside `t`."""
        domain, said, renamed = self.domain, self.coordinates, dict[str, str]()
        found = {"time": columns["time"]}
        if clock is not None:
            found = {"time": [clock.text(t) for t in columns["time"]], "t": columns["time"]}
        if not isinstance(domain, Space):
            numbered = coordinate_names(domain)
            if isinstance(domain, Arms):
                renamed = {"arm": "site"}
            elif self.sites:
                X = np.column_stack([columns[name] for name in numbered])
                found["site"] = [self.name(x) for x in X]
            if (COLUMNS | columns.keys() - {*numbered}).isdisjoint(said) and not renamed:
                renamed = dict(zip(numbered, said, strict=True))
        rest = {name: column for name, column in columns.items() if name != "time"}
        return found | {renamed.get(name, name): column for name, column in rest.items()}


def nearest(known: Array, X: Array) -> Array:
    """How far each of some points (n, d) is from the nearest of others (m, d), shape (n,)."""
    return np.array([np.linalg.norm(known - x, axis=1).min() for x in X])


def clock_of(unit: str, origin: str, zone: str = "") -> Clock:
    """The clock that is kept; a zone with summer time has a name such as Europe/Berlin."""
    start = datetime.fromisoformat(origin).astimezone(ZoneInfo(zone)) if "/" in zone else origin
    return Clock(unit, start)


def length_of(said: str) -> float | None:
    """`drop_after`, as it is kept."""
    return positive_number("drop_after", float(said)) if said else None


def time_in(text: str | None) -> float | str | None:
    """The time that a text means: a number, or else a date."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def number_of(clock: Clock | None, t: Any, name: str = "t") -> float | None:
    """A time as a number, given as one or, where there is a clock, as a date."""
    if t is None:
        return None
    if not isinstance(t, int | float | np.number):
        require(clock is not None, name, "a number, as the campaign has no clock", t)
        return float(clock.number(t))  # type: ignore[union-attr]
    number = as_time(t, name)
    if clock is not None:
        clock.text(number)  # or it says that no date is so far away: nobody could read the history
    return number


def numbers_of(clock: Clock | None, t: Any, name: str = "t") -> Any:
    """A time, or one for each point."""
    if t is None or (not isinstance(t, list | tuple) and np.ndim(t) == 0):
        return number_of(clock, t, name)
    return [number_of(clock, each, name) for each in t] if clock else as_floats(t, name).tolist()


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


def on_sites(
    domain: Candidates | CandidatesInContext, body: Mapping[str, Any]
) -> Candidates | CandidatesInContext:
    """The domain once sites were added and retired, as a row of the journal says; rows stay."""
    chosen = candidates_of(domain)
    assert chosen is not None  # there are no others
    retired = sorted({*chosen.retired, *body["retire"]} - {*body["back"]})
    if isinstance(chosen, Arms):
        return Arms((*chosen.names, *body["names"]), retired)
    X = np.concatenate([chosen.X, points(body["X"], chosen.dimension)])
    return with_others(domain, Candidates(X, chosen.context, retired))


def _numbers(text: str) -> list[float]:
    """The numbers of "3.2,4.5"; none if something else stands there."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return []


def check_options(trusted: object, who: object, patience: object, snapshot_every: object) -> None:
    """Raise a `ValueError` unless a campaign can be opened with these."""
    if trusted is not None:
        of_kind("trusted", trusted, Mapping, 'a mapping of "module:name" to parts, or None')
    if who is not None:
        check_name("who", who)
    not_negative("patience", patience)
    whole_number("snapshot_every", snapshot_every)
