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

from tvbandits.core.arrays import Array
from tvbandits.core.candidates import Candidates
from tvbandits.core.clock import Clock
from tvbandits.core.coercion import is_of
from tvbandits.core.parameters import Category
from tvbandits.core.protocols import Domain
from tvbandits.core.space import Arms, Space

_NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?"
_TIMES = re.compile(rf"t = ({_NUMBER}(?:, {_NUMBER})*)")
_POINT = re.compile(r"\[([-+.e\d]+(?:, [-+.e\d]+)*)\]")
"""As errors of a bandit write times, and points."""

COLUMNS = {"time", "t", "site", "reward", "value", "variance", "source", "kind"}
"""Of a history besides the coordinates, which cannot be called so."""

MOST = 8
"""Names of so many sites are shown where one is unknown."""


class Names:
    """What people call the points of a domain.

    Parameters
    ----------
    domain : Domain
    about : mapping of str to str
        What is kept with a campaign: `names` of its sites, `coordinates`, and `given`, the columns of
        the table of sites where latitude and longitude in it were turned into kilometres.
    """

    def __init__(self, domain: Domain, about: Mapping[str, str]) -> None:
        self._domain = domain
        self.sites: list[str] = json.loads(about.get("names", "[]"))
        self.given: dict[str, list[float]] = json.loads(about.get("given", "{}"))
        said = json.loads(about.get("coordinates", "[]"))
        self.coordinates: list[str] = (
            list(domain.names)
            if isinstance(domain, Space)
            else said or [f"x{i}" for i in range(domain.dimension)]
        )

    @property
    def columns(self) -> list[str]:
        """By what a table may say where a reading was made: degrees, where there were such, or names."""
        return list(self.given) or self.coordinates

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
        shown = ", ".join(self.sites[:MOST]) or f"coordinates {', '.join(self.coordinates)}"
        more = f" and {len(self.sites) - MOST} more" if len(self.sites) > MOST else ""
        raise ValueError(f'unknown site "{name}"; there are: {shown}{more}')

    def point(self, text: str) -> Array:
        """The point that a text means, shape (1, d)."""
        domain = self._domain
        if isinstance(domain, Space) and "=" in text:
            return domain.encode(self._parameters(domain, text))
        if isinstance(domain, Candidates) and (text in self._rows or not _numbers(text)):
            return domain.X[[self.row(text)]]
        given = _numbers(text)
        if not given:
            self.row(text)  # there are none: it says so
        if self.given:
            known = np.column_stack(list(self.given.values()))
            if len(given) == known.shape[1]:
                same = np.flatnonzero(np.isclose(known, given, rtol=0.0, atol=1e-9).all(axis=1))
                if len(same):
                    assert isinstance(domain, Candidates)
                    return domain.X[same[:1]]
        return domain.check([given])  # type: ignore[return-value, unused-ignore]

    def points(self, given: Any) -> Any:
        """Points out of one text or several; what is no text stays as it is."""
        found = texts(given)
        if found is None:
            return given
        return np.concatenate(
            [self.point(x) if isinstance(x, str) else self._domain.check([x]) for x in found]
        )

    def rows(self, among: Any) -> Any:
        """Row numbers out of the names of sites; what is no text stays as it is."""
        found = texts(among)
        if found is None:
            return among
        return [self.row(each) if isinstance(each, str) else each for each in found]

    def _parameters(self, space: Space, text: str) -> dict[str, object]:
        """The values in "name=value, name=value"; a word may hold commas."""
        names = "|".join(map(re.escape, sorted(space.names, key=len, reverse=True)))
        found = re.split(rf"(?:^|,)\s*({names})\s*=", text.strip())
        if found[0].strip():
            unknown = found[0].partition("=")[0].strip(" ,")
            raise ValueError(
                f'unknown parameter "{unknown}" in "{text}"; there are: {", ".join(space.names)}'
            )
        values: dict[str, object] = {}
        for name, value in zip(found[1::2], found[2::2], strict=True):
            said, part = value.strip(), space.parameters[space.names.index(name)]
            if name in values:
                raise ValueError(f'"{text}": {name} is given twice')
            if isinstance(part, Category):
                values[name] = said
            elif unknown := re.search(r",\s*([^,=]+?)\s*=", said):
                raise ValueError(
                    f'unknown parameter "{unknown[1]}" in "{text}"; there are: '
                    f"{', '.join(space.names)}"
                )
            elif not (number := _numbers(said)):
                raise ValueError(f'"{text}": {name} must be a number, got "{said}"')
            else:
                values[name] = int(number[0]) if number[0].is_integer() else number[0]
        return values

    def written(self, cells: Sequence[str]) -> str:
        """What stands in the `columns` of a table, as `point` takes it."""
        if isinstance(self._domain, Space):
            pairs = zip(self.coordinates, cells, strict=True)
            return ", ".join(f"{name}={cell}" for name, cell in pairs)
        return ",".join(cells)

    @property
    def words(self) -> list[str]:
        """The parameters whose values are words."""
        domain = self._domain
        if not isinstance(domain, Space):
            return []
        parts = zip(domain.names, domain.parameters, strict=True)
        return [name for name, part in parts if isinstance(part, Category)]

    def values(self, x: Array) -> list[Any]:
        """The cells of a point (d,) in a table, in the order of `coordinates`."""
        if isinstance(self._domain, Space):
            return list(self._domain.decode(np.atleast_2d(x)).iloc[0])
        return list(x)

    def name(self, x: Array) -> str:
        """What people call a point (d,)."""
        domain = self._domain
        if isinstance(domain, Space):
            row = domain.decode(np.atleast_2d(x)).iloc[0]
            return ", ".join(f"{key}={value}" for key, value in row.items())
        if isinstance(domain, Candidates) and self.sites:
            return self.sites[int(domain.index(np.atleast_2d(x))[0])]
        return ",".join(_exactly(float(each)) for each in x)

    def history(self, columns: Mapping[str, Any], clock: Clock | None) -> dict[str, Any]:
        """A bandit's history with the names of sites and coordinates, and with dates beside `t`."""
        domain, said, renamed = self._domain, self.coordinates, dict[str, str]()
        found = {"time": columns["time"]}
        if clock is not None:
            texts = [clock.text(t) for t in columns["time"].tolist()]
            found = {"time": texts, "t": columns["time"]}
        if not isinstance(domain, Space):
            numbered = [f"x{i}" for i in range(domain.dimension)]
            if isinstance(domain, Arms):
                renamed = {"arm": "site"}
            elif self.sites:
                X = np.column_stack([columns[name] for name in numbered])
                found["site"] = [self.name(x) for x in X]
            if COLUMNS.isdisjoint(said) and not renamed:
                renamed = dict(zip(numbered, said, strict=True))
        rest = {name: column for name, column in columns.items() if name != "time"}
        return found | {renamed.get(name, name): column for name, column in rest.items()}

    def in_words(self, text: str, clock: Clock | None) -> str:
        """A bandit's error, with the names of sites in the place of points, and dates of times."""

        def place(found: re.Match[str]) -> str:
            try:
                return self.name(np.array(_numbers(found[1])))
            except ValueError:
                return found[0]

        def times(found: re.Match[str]) -> str:
            try:
                return ", ".join(clock.text(t) for t in _numbers(found[1]))  # type: ignore[union-attr]
            except ValueError:
                return found[0]

        text = _POINT.sub(place, text) if self.sites else text
        return text if clock is None else _TIMES.sub(times, text)


def texts(given: Any) -> list[Any] | None:
    """Several things of which one at least is a text; None if that is something else."""
    if isinstance(given, str):
        return [given]
    several = isinstance(given, list | tuple | np.ndarray) or is_of(
        given, "pandas", "Series", "Index"
    )
    return list(given) if several and any(isinstance(each, str) for each in given) else None


def _numbers(text: str) -> list[float]:
    """The numbers of "3.2,4.5"; none if something else stands there."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        return []


def _exactly(value: float) -> str:
    """As short as it can be read back from."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
