"""The names that people use for points, sites and coordinates, and the changes of sites in a campaign.

A place is written as the name of a site, as parameters or as coordinates. Every place that is printed
can be given back in the same form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tvbandits.campaign.store.errors import report_damage
from tvbandits.campaign.store.store import to_points
from tvbandits.clock import Clock
from tvbandits.domains.availability import (
    Availability,
    NothingAvailableError,
    check_availability,
    get_decision_domain,
)
from tvbandits.domains.candidates import (
    Candidates,
    CandidatesInContext,
    get_candidates,
    replace_candidates,
)
from tvbandits.domains.domain import Context, Domain
from tvbandits.domains.parameters import Category, Parameter, as_texts, format_exactly
from tvbandits.domains.space import Arms, Space
from tvbandits.text import first_few, format_number
from tvbandits.validation import Array, as_points, as_rows, describe, refuse, require, whole_number

# Columns of a history besides the coordinates. If a coordinate has one of these names, or that of an
# outcome, all coordinates are called x0, x1, ...
HISTORY_COLUMNS = {"time", "t", "site", "reward", "value", "variance", "source", "kind"}

# What the journal says of sites where none is added or retired (`Names.change`).
NO_CHANGE: Mapping[str, Any] = {"names": [], "X": [], "table": {}, "retire": [], "restore": []}


def check_sites(name: str, sites: Sequence[str]) -> None:
    """Raise a `ValueError` unless names of sites differ, and each is a text as a table has it."""
    for site in sites:
        require(site == site.strip() != "", name, "texts without spaces around them", site)
    if len({*sites}) < len(sites):
        twice = next(site for site in sites if list(sites).count(site) > 1)
        raise ValueError(f"{name} must differ, got {describe(twice)} twice")


class Names:
    """The names of the points of a domain.

    Parameters
    ----------
    domain : Domain
    about : mapping of str to str
        Texts of a campaign: `names` of the sites, names of `coordinates`, and `table`: the columns of
        the table of sites, if latitude and longitude in it were converted to kilometres.
    location : str
        The location of the campaign, for error messages.
    changes : sequence of dict
        What each change of the sites has added and retired since the start.

    Raises
    ------
    DamagedCampaignError
        If these texts cannot be used.
    """

    def __init__(
        self,
        domain: Domain,
        about: Mapping[str, str],
        location: str = "",
        changes: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.domain = domain

        def read_list(name: str, *lengths: int) -> list[str]:
            with report_damage(f"{location}: the field '{name}'"):
                values: list[str] = json.loads(about.get(name, "[]"))
                valid = isinstance(values, list) and all(isinstance(each, str) for each in values)
                if not valid or (lengths and len(values) not in lengths):
                    raise ValueError(f"it should be a list of {max(lengths, default=0)} texts")
                return values

        candidates = get_candidates(domain)
        count = 0 if candidates is None else len(candidates)
        first = count - sum(len(change["names"]) for change in changes)
        self.sites = read_list("names", 0, first)
        with report_damage(f"{location}: the field 'table'"):
            self.table: dict[str, list[float]] = json.loads(about.get("table", "{}"))
            for change in changes if self.sites else ():
                self.sites += change["names"]
                for column, values in change["table"].items():
                    self.table[column] += values
        if isinstance(domain, Space):
            coordinates: Sequence[str] = domain.names
        elif isinstance(domain, Arms):
            coordinates = self.sites = list(domain.names)
        else:
            coordinates = read_list("coordinates", 0, len(domain.coordinate_names))
        self.coordinates: list[str] = list(coordinates) or domain.coordinate_names

    @property
    def columns(self) -> list[str]:
        """Return the columns that locate a reading: those of the table of sites, or coordinates."""
        return list(self.table) or self.coordinates

    @property
    def context_names(self) -> list[str]:
        """Return the names of the context."""
        return list(self.domain.context_parameters)

    @cached_property
    def index(self) -> dict[str, int]:
        """Return the row of each site by its name."""
        return {name: row for row, name in enumerate(self.sites)}

    def row(self, name: str) -> int:
        """Return the row of a site; upper and lower case are the same unless that is ambiguous.

        Raises
        ------
        ValueError
            If there is no such site; the message names some that there are.
        """
        if name in self.index:
            return self.index[name]
        rows = [row for row, each in enumerate(self.sites) if each.casefold() == name.casefold()]
        if len(rows) == 1:
            return rows[0]
        sites = first_few(self.sites, 8) or f"coordinates {', '.join(self.coordinates)}"
        # What nobody sees, such as a space of no width, is escaped.
        text = json.dumps(name, ensure_ascii=not name.isprintable())
        raise ValueError(f"unknown site {text}; there are: {sites}")

    def point(self, text: str) -> Array:
        """Return the point that a text stands for, shape (1, d)."""
        domain = self.domain
        if isinstance(domain, Space) and "=" in text:
            parameters = dict(zip(domain.names, domain.parameters, strict=True))
            values = _parse_parameters(parameters, text)
            with_context = set(domain.context) & set(values)
            return (domain if with_context else domain.action_domain).encode(values)
        candidates = get_candidates(domain)
        numbers = _parse_numbers(text)
        if candidates is not None and (text in self.index or not numbers):
            return candidates.X[[self.row(text)]]
        if candidates is not None and self.table and len(numbers) == len(self.table):
            table = np.column_stack(list(self.table.values()))
            equal = np.isclose(table, numbers, rtol=0.0, atol=1e-9).all(axis=1)
            if equal.any():
                return candidates.X[[int(equal.argmax())]]
        every = len(domain.coordinate_names)
        count = every - len(domain.context_parameters)
        if not numbers or (self.sites and len(numbers) not in (count, every)):
            self.row(text)  # raises the error: no site has this name
        # Numbers without a context are a point of the domain of actions.
        return (domain.action_domain if len(numbers) == count else domain).from_values(numbers)

    def context(self, text: str | None) -> dict[str, object] | None:
        """Return the values in "outside=3.2, tariff=day" by name."""
        if text is None:
            return None
        if not self.domain.context_parameters:
            raise ValueError(f'this campaign has no context, got "{text}"')
        return _parse_parameters(self.domain.context_parameters, text)

    def points(self, X: Any) -> Any:
        """Return points for one text or several; anything else is returned as it is."""
        places = as_texts(X)
        if places is None:
            return X
        return np.concatenate(
            [self.point(x) if isinstance(x, str) else self.domain.check([x]) for x in places]
        )

    def rows(self, sites: Any, argument: str = "available") -> Any:
        """Return row numbers for names of sites; anything else is returned as it is.

        Raises
        ------
        ValueError
            If there is no such site; it names the argument that the sites are of.
        """
        names = as_texts(sites)
        if names is None:
            return sites
        try:
            return [self.row(each) if isinstance(each, str) else each for each in names]
        except ValueError as error:
            raise ValueError(f"{argument}: {error}") from error

    def available(
        self,
        available: Availability,
        context: Context,
        without: Sequence[str | int] = (),
        *,
        any_context: bool = False,
    ) -> list[int] | dict[str, list[float | str]] | None:
        """Return what is available as plain values: row numbers, or ranges of coordinates."""
        rows = self.rows(available)
        if any_context:
            part = check_availability(self.domain, rows, None, any_context=True)
        else:
            _, part = get_decision_domain(self.domain, rows, context)
        mask = None if part is None else part.mask
        if len(without):
            candidates = get_candidates(self.domain)
            require(candidates is not None, "without", "for sites or arms only", without)
            mask = np.ones(len(candidates), dtype=bool) if mask is None else mask.copy()  # type: ignore[arg-type]
            mask[as_rows(np.asarray(self.rows(without, "without")), len(mask), "without")] = False
            if not mask.any():
                raise NothingAvailableError(f"no site is left without {describe(without)}")
        if mask is None and isinstance(rows, Mapping):
            return {name: [*values] for name, values in rows.items()}
        return None if mask is None else [int(row) for row in np.flatnonzero(mask)]

    def place_text(self, cells: Sequence[str]) -> str:
        """Return the text for `point` from the cells of a table in its `columns`."""
        if isinstance(self.domain, Space):
            pairs = zip(self.coordinates, cells, strict=True)
            return ", ".join(f"{name}={cell}" for name, cell in pairs)
        return ",".join(cells)

    def name(self, x: Sequence[float] | Array, digits: int | None = None) -> str:
        """Return the name of a point (d,).

        Parameters
        ----------
        x : array of shape (d,)
            It may be shorter: arms that were added later are more coordinates, which are 0.
        digits : int, optional
            Significant digits of the numbers of a point without a name of its own; by default as many
            as it takes to read the same point again.
        """
        domain = self.domain
        X = np.zeros((1, domain.dimension))
        X[0, : len(x)] = x

        def number(value: float) -> str:
            return format_exactly(value) if digits is None else f"{value:.{digits}g}"

        if isinstance(domain, Space):
            (row,) = domain.decode(X).to_dict("records")
            cells = {
                key: number(value) if digits is not None and isinstance(value, float) else value
                for key, value in row.items()
            }
            return ", ".join(f"{key}={value}" for key, value in cells.items())
        candidates = get_candidates(domain)
        if candidates is not None and self.sites:
            return self.sites[int(candidates.index(X[:, : candidates.dimension])[0])]
        values = domain.values_by_name(X).values()
        return ",".join(number(float(each[0])) for each in values)

    def history(self, columns: Mapping[str, Any], clock: Clock | None) -> dict[str, Any]:
        """Return a bandit's history with names of sites and coordinates, and dates beside `t`."""
        domain, new_names = self.domain, dict[str, str]()
        table = {"time": columns["time"]}
        if clock is not None:
            table = {"time": [clock.text(t) for t in columns["time"]], "t": columns["time"]}
        if not isinstance(domain, Space):
            numbered = domain.coordinate_names
            if isinstance(domain, Arms):
                new_names = {"arm": "site"}
            elif self.sites:
                candidates = get_candidates(domain)
                assert candidates is not None  # nothing else has sites
                X = np.column_stack([columns[name] for name in numbered[: candidates.dimension]])
                table["site"] = [self.sites[row] for row in candidates.index(X)]
            others = HISTORY_COLUMNS | columns.keys() - {*numbered}
            if others.isdisjoint(self.coordinates) and not new_names:
                new_names = dict(zip(numbered, self.coordinates, strict=True))
        rest = {name: column for name, column in columns.items() if name != "time"}
        return table | {new_names.get(name, name): column for name, column in rest.items()}

    # --- changes of the sites ---------------------------------------------------------------------

    def change(self, add: Mapping[str, Any], retire: Sequence[Any]) -> dict[str, Any]:
        """Return what the journal says of sites that are added, with coordinates, and of retired ones.

        New degrees are converted to kilometres like those of the sites before.

        Raises
        ------
        ValueError
            If a site exists already, one to retire does not, or coordinates have another number.
        """
        domain = get_candidates(self.domain)
        if domain is None or not (isinstance(domain, Arms) or type(domain) is Candidates):
            raise ValueError(
                f"sites can be added and retired on sites or arms, got {self.domain!r}"
            )
        last = len(domain) - 1
        retire = [
            whole_number("each of retire", row, 0, last) for row in self.rows(retire, "retire")
        ]
        if again := {*retire} & {*domain.retired}:
            raise ValueError(f"{self.name(domain.X[min(again)])} is already retired")
        restore = [self.index[name] for name in add if name in self.index]
        if active := [row for row in restore if row not in domain.retired]:
            raise ValueError(f'there is already a site "{self.sites[active[0]]}"')
        new = {name: x for name, x in add.items() if name not in self.index}
        table: dict[str, list[float]] = {}
        X: list[list[float]] = []
        d = len({*self.columns} - {*self.context_names})
        if isinstance(domain, Arms):
            if placed := [name for name, x in add.items() if x is not None]:
                raise ValueError(f'arms have no coordinates, got some for "{placed[0]}"')
        else:
            self._check_places(add, domain, d)
        if new and not isinstance(domain, Arms):
            rows = np.vstack([as_points([x], d, f'add: "{name}"') for name, x in new.items()])
            if self.table:
                table = dict(zip(self.table, rows.T.tolist(), strict=True))
                rows = self._to_kilometres(rows, domain)
            X = rows.tolist()
        return {"names": [*new], "X": X, "table": table, "retire": retire, "restore": restore}

    def _check_places(self, add: Mapping[str, Any], domain: Candidates, d: int) -> None:
        """Raise an error for a new site without coordinates, or other ones of one that comes back."""
        for name, x in add.items():
            if name not in self.index:
                count = 0 if x is None else as_points([x], name=f'add: "{name}"').shape[1]
                if count != d:
                    raise ValueError(
                        f'add: "{name}" is a new site, which needs its {d} coordinates '
                        f"({', '.join(self.columns[:d])}), got {count}"
                    )
            if x is None or name not in self.index:
                continue
            row, point = self.index[name], as_points([x], d, f'add: "{name}"')[0]
            own = np.array([each[row] for each in self.table.values()] or domain.X[row])
            if not np.allclose(point, own, rtol=1e-9, atol=0.0):
                raise ValueError(
                    f'add: "{name}" comes back to {own.tolist()}, got {point.tolist()}: leave its '
                    "coordinates out, or give the other place a name of its own"
                )

    def _to_kilometres(self, table: Array, domain: Candidates, far: float = 3.0) -> Array:
        """Return points (n, d) for rows of the table of sites, by the slopes of the sites before.

        A point farther away than `far` times the extent of all sites is refused if it would be near
        with latitude and longitude exchanged.
        """
        from tvbandits.datasets.sensor_field import find_degrees

        degrees = find_degrees(self.table)
        assert degrees is not None  # only such tables are converted
        latitude, longitude = degrees
        columns = list(self.table)
        for name, most in ((latitude, 90), (longitude, 360)):
            column = table[:, columns.index(name)]
            refuse(
                np.abs(column) > most, column, f"{name} must be degrees of at most {most} in size"
            )
        order = [longitude, latitude, *(each for each in columns if each not in degrees)]
        X, sites = domain.X, np.column_stack([self.table[name] for name in order])
        extent = np.ptp(sites, axis=0)
        slopes = np.where(extent > 0, np.ptp(X, axis=0) / np.where(extent > 0, extent, 1.0), 1.0)

        def convert(rows: Array) -> Array:
            return np.asarray(X[0] + (rows - sites[0]) * slopes)

        rows = table[:, [columns.index(name) for name in order]]
        swapped = rows.copy()
        swapped[:, :2] = swapped[:, 1::-1]
        points = convert(rows)
        away, other = (_distances(X[:, :2], each[:, :2]) for each in (points, convert(swapped)))
        exchanged = (away > far * np.hypot(*np.ptp(X[:, :2], axis=0))) & (other < away / 10)
        if exchanged.any():
            i = int(exchanged.argmax())
            right = ",".join(
                map(format_exactly, table[i, ::-1] if len(columns) == 2 else swapped[i])
            )
            raise ValueError(
                f"{','.join(map(format_exactly, table[i]))} is {format_number(away[i])} km from the "
                f"nearest site: the order is {', '.join(columns)}; {right} would be "
                f"{format_number(other[i])} km away"
            )
        return points

    def doubts_about(self, add: Mapping[str, Any], far: float = 3.0) -> list[str]:
        """Return a sentence for each new site farther from all others than `far` times their extent."""
        domain, change = get_candidates(self.domain), self.change(add, ())
        X = np.asarray(change["X"], dtype=np.float64)
        if domain is None or not X.size:
            return []
        width = 2 if self.table else X.shape[1]
        sites = domain.X[:, :width]
        extent, unit = float(np.linalg.norm(np.ptp(sites, axis=0))), " km" if self.table else ""
        return [
            f'"{name}" is {format_number(away)}{unit} from the nearest site, and all others lie within '
            f"{format_number(extent)}{unit} of each other"
            for name, away in zip(change["names"], _distances(sites, X[:, :width]), strict=True)
            if away > far * extent > 0
        ]


def apply_change(
    domain: Candidates | CandidatesInContext, change: Mapping[str, Any]
) -> Candidates | CandidatesInContext:
    """Return the domain after a change of its sites; no site gets another row."""
    candidates = get_candidates(domain)
    assert candidates is not None
    retired = sorted({*candidates.retired, *change["retire"]} - {*change["restore"]})
    if isinstance(candidates, Arms):
        return Arms((*candidates.names, *change["names"]), retired)
    X = np.concatenate([candidates.X, to_points(change["X"], candidates.dimension)])
    return replace_candidates(domain, Candidates(X, candidates.context, retired))


def _distances(sites: Array, X: Array) -> Array:
    """Return the distance of each point (n, d) to the nearest of the sites (m, d), shape (n,)."""
    return np.array([np.linalg.norm(sites - x, axis=1).min() for x in X])


def _parse_parameters(parts: Mapping[str, Parameter], text: str) -> dict[str, object]:
    """Return the values in "name=value, name=value"; the value of a category may contain commas."""
    names = "|".join(map(re.escape, sorted(parts, key=len, reverse=True)))
    pieces = re.split(rf"(?:^|,)\s*({names})\s*=", text.strip())
    hint = f'in "{text}"; there are: {", ".join(parts)}'
    if pieces[0].strip():
        unknown = pieces[0].partition("=")[0].strip(" ,")
        if unknown in parts:
            raise ValueError(f'write {unknown}=..., got "{text}"')
        raise ValueError(f'unknown parameter "{unknown}" {hint}')
    values: dict[str, object] = {}
    for name, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        value, part = piece.strip(), parts[name]
        if name in values:
            raise ValueError(f'"{text}": {name} appears twice')
        if isinstance(part, Category):
            values[name] = value
        elif unknown_name := re.search(r",\s*([^,=]+?)\s*=", value):
            raise ValueError(f'unknown parameter "{unknown_name[1]}" {hint}')
        elif len(number := _parse_numbers(value)) != 1:
            raise ValueError(f'"{text}": {name} must be a number, got "{value}"')
        else:
            values[name] = int(number[0]) if number[0].is_integer() else number[0]
    return values


def _parse_numbers(text: str) -> list[float]:
    """Return the numbers of "3.2,4.5", or an empty list if that is something else."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return []
