"""Tables of readings for a campaign, read line by line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tvbandits.bandit.recipe import Recipe
from tvbandits.campaign.names import Names
from tvbandits.campaign.shared import Errors, collect_errors
from tvbandits.cli.output import plural
from tvbandits.counts import Counted, count, rate
from tvbandits.datasets.tables.readings import quote_few
from tvbandits.domains.space import Arms
from tvbandits.io import name_file_in_errors
from tvbandits.option_text import format_option

if TYPE_CHECKING:
    import pandas as pd

    from tvbandits.datasets.tables.layout import FileOptions, Layout

# Other names of columns.
SYNONYMS = {"value": "reward", "reading": "reward", "t": "time", "arm": "site"}

# Columns in the place of a reward, and the function that computes a rate from them.
COUNTS: dict[tuple[str, ...], Callable[..., Counted]] = {
    ("successes", "trials"): rate,
    ("events", "exposure"): count,
}


@dataclass(frozen=True)
class Reading:
    """A reading as a user writes it.

    Attributes
    ----------
    site, at : str or None
        The place and the time.
    value, variance : float or None
    key : str or None
    outcomes : mapping of str to list of float
        Readings of further outcomes.
    context, who : str or None
    counts : tuple of float, optional
        The counts that the value was computed from.
    trials : float or None
        How many trials the value is the share of; infinite: events of an exposure; None: neither.
    line : int
        The line in the table; the first line has the names of the columns.
    """

    site: str | None = None
    value: float | None = None
    at: str | None = None
    variance: float | None = None
    key: str | None = None
    outcomes: Mapping[str, list[float]] = field(default_factory=dict)
    context: str | None = None
    who: str | None = None
    counts: tuple[float, ...] = ()
    trials: float | None = None
    line: int = 1

    @property
    def y(self) -> list[float | None] | Counted:
        """Return the value for `Campaign.tell`, with its trials if it is a count."""
        if self.value is None or self.trials is None:
            return [self.value]
        columns = self.value, self.variance, self.trials
        return Counted(*(np.array([each], dtype=np.float64) for each in columns))


@dataclass(frozen=True)
class TableReadings:
    """The readings of a table, and notes on its other rows.

    Attributes
    ----------
    readings : list of Reading
    omissions : list of str
        What is left out, in words.
    averaged : str
        How many rows are averaged with others of the same site and time, in words.
    """

    readings: list[Reading]
    omissions: list[str] = field(default_factory=list)
    averaged: str = ""

    @property
    def notes(self) -> dict[str, str]:
        """Return notes on rows that were left out or averaged: "left_out" and "averaged"."""
        notes = {"left_out": ", ".join(self.omissions), "averaged": self.averaged}
        return {name: text for name, text in notes.items() if text}


def read_table(
    path: Path,
    names: Names,
    recipe: Recipe,
    errors: Errors | None,
    tables: Mapping[str, Any] = MappingProxyType({}),
    *,
    yes: bool = False,
    is_alone: bool = True,
) -> TableReadings:
    """Return the readings of a CSV, and notes on the rows that are left out.

    It is not alone if its options are those of a table of sites, too, which may have other columns.

    A table with columns site or coordinates, context, time, reward, variance, key, who may have
    successes and trials, or events and exposure, instead of a reward. Any other table of readings is
    one that `data info` understands. The error of a row goes to `errors` with its line.
    """
    from tvbandits.datasets.tables.layout import FileOptions, find_columns
    from tvbandits.datasets.tables.sheets import read_sheet

    options = FileOptions(**tables)
    with name_file_in_errors(path):
        sheet = read_sheet(path, options, may_be_empty=True)
        cells = sheet.cells.astype(str)
        layout, header = find_columns(cells, options), _plain_header(cells, options)
        if is_alone and options.degrees not in (None, "none") and len(layout.places) != 2:
            raise ValueError(
                f"{format_option('degrees', options.degrees)} must name two columns of a long table, "
                f"LAT+LON; there are: {', '.join(map(str, cells.columns))}"
            )
        has_place = "site" in header or {each.lower() for each in names.columns} <= {*header}
        is_own = has_place and bool({"reward", *sum(COUNTS, ())} & {*header})
        if cells.empty and not is_own:
            raise ValueError("the table has column names but no rows")
        has_counts = has_place and any({*pair} <= {*header} for pair in COUNTS)
        has_choice = bool(layout.parameter or options.value or (options.station and not has_counts))
        has_sites = layout.is_long or bool({*cells.columns} & {*names.sites})
        if has_sites and (has_choice or not is_own):
            foreign = _foreign_readings(cells, layout, options, names, errors, yes=yes)
            notes = [*sheet.omissions, *([sheet.flags] if sheet.flags else []), *foreign.omissions]
            return replace(foreign, omissions=notes)
        if options.time or len(layout.time) > 1 or (layout.is_long and "time" not in header):
            cells, header = _with_time(cells, header, layout, options)
        readings = _own_readings(
            cells.set_axis(header, axis=1), names, recipe, options, errors, yes
        )
        # A row of counts without trials or exposure is no play that failed: there was none.
        played = [each for each in readings if not (each.counts and each.counts[1] == 0)]
        unplayed = len(readings) - len(played)
        unplayed_text = [f"{plural(unplayed, 'row')} without trials"] if unplayed else []
        return TableReadings(played, [*sheet.omissions, *unplayed_text])


def _plain_header(cells: pd.DataFrame, options: FileOptions) -> list[str]:
    """Return the names of columns in small letters, with ours for the usual ones of others."""
    header = [str(name).strip().lower() for name in cells.columns]
    ours = SYNONYMS if options.station is None else {**SYNONYMS, options.station.lower(): "site"}
    return [each if ours.get(each, each) in header else ours[each] for each in header]


def _with_time(
    cells: pd.DataFrame, header: list[str], layout: Layout, options: FileOptions
) -> tuple[pd.DataFrame, list[str]]:
    """Return a table with the column `time` that the layout says, in the place of its own columns."""
    from tvbandits.datasets.tables.layout import read_times

    places = [
        i for i, name in enumerate(cells.columns) if name in layout.time or header[i] == "time"
    ]
    rest = cells.drop(columns=[cells.columns[i] for i in places])
    times = read_times(cells, layout, options)
    return rest.assign(time=times), [h for i, h in enumerate(header) if i not in places] + ["time"]


def _own_readings(
    cells: pd.DataFrame,
    names: Names,
    recipe: Recipe,
    options: FileOptions,
    errors: Errors | None,
    yes: bool,
) -> list[Reading]:
    """Return the readings of a table with columns site, time and reward, or their counts."""
    import pandas as pd

    from tvbandits.datasets.tables.layout import is_gap, stations_mask
    from tvbandits.datasets.tables.other_rows import GAPS
    from tvbandits.datasets.tables.sentinels import code_text, describe_sentinel, find_sentinels
    from tvbandits.datasets.tables.times import to_iso_times

    limits = [limit.name for limit in recipe.options.limits]
    # Nobody writes the coordinates of arms.
    header, arms = [*cells.columns], isinstance(recipe.domain, Arms)
    count_columns = _check_header(header, names, limits, arms)
    if "site" in header:
        cells = cells[stations_mask(cells["site"].str.strip(), options)]
    if "time" in header:
        stations = cells["site"] if "site" in header else None
        cells["time"] = to_iso_times(cells["time"], options.dates, options.zone, stations)
    codes: dict[str, int] = {}
    if "reward" in header:
        column = cells["reward"].str.strip()
        failed = is_gap(column, options) & ~column.str.casefold().isin(GAPS)
        cells["reward"] = column.mask(failed, "")
        values = pd.to_numeric(cells["reward"], errors="coerce")
        codes = {} if yes else find_sentinels(values.to_frame(), options)
    readings = []
    for line, *texts in cells.itertuples(name=None):
        row = {name: str(text).strip() for name, text in zip(header, texts, strict=True)}
        with collect_errors(errors, line):
            reading = _parse_row(row, names, limits, count_columns, line)
            if reading.value is not None and codes and code_text(reading.value) in codes:
                raise ValueError(describe_sentinel(code_text(reading.value)))
            readings.append(reading)
    return with_rates(readings, COUNTS[count_columns]) if count_columns else readings


def _foreign_readings(
    cells: pd.DataFrame,
    layout: Layout,
    options: FileOptions,
    names: Names,
    errors: Errors | None,
    *,
    yes: bool,
) -> TableReadings:
    """Return the readings of a table of others, means where there are several of a station and time.

    Stations and columns that are no site, and gaps, are left out.
    """
    from tvbandits.datasets.tables.layout import check_units, tidy
    from tvbandits.datasets.tables.readings import describe_averages, describe_flags
    from tvbandits.datasets.tables.sentinels import code_text, describe_sentinel, find_sentinels

    cells, omissions = _columns_of_sites(cells, layout, options, names)
    check_units(cells, layout, options, names.sites)
    rows, more = _rows_of_sites(tidy(cells, layout, options), names)
    omissions += more + ([flags] if (flags := describe_flags(cells, layout)) else [])
    codes = {} if yes else find_sentinels(rows[["value"]], options)
    is_code = rows["value"].isin([float(code) for code in codes])
    for line, row in rows[is_code].iterrows():
        with collect_errors(errors, int(str(line))):
            raise ValueError(describe_sentinel(f"{code_text(row['value'])} of {row['station']}"))
    rows = rows[~is_code].rename_axis(index="line").reset_index()
    grouped = rows.groupby(["time", "station"], sort=False, as_index=False)
    means = grouped.agg({"value": "mean", "line": "first"})
    readings = [
        Reading(site=site, at=str(time), value=float(value), line=int(line))
        for time, site, value, line in means.itertuples(index=False)
    ]
    averaged = describe_averages(rows.set_index("line"), cells, layout)
    return TableReadings(readings, omissions, averaged)


def _columns_of_sites(
    cells: pd.DataFrame, layout: Layout, options: FileOptions, names: Names
) -> tuple[pd.DataFrame, list[str]]:
    """Return the columns of times and of sites in a wide table, and in words what else it has.

    Columns that the options leave out stay, for `tidy` to find them.
    """
    from tvbandits.datasets.tables.headings import as_id

    if layout.is_long:
        return cells, []
    used = {*layout.time, *names.sites, *options.without}
    others = [each for each in cells.columns if each not in used and as_id(each) not in used]
    text = [f"columns that are not sites ({quote_few(others)})"] if others else []
    return cells.drop(columns=others), text


def _rows_of_sites(rows: pd.DataFrame, names: Names) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of sites that have a value, and in words which others there are.

    Raises
    ------
    ValueError
        If no station of the table is a site.
    """
    omissions, is_site = list[str](), rows["station"].isin(names.sites)
    if not is_site.any():
        raise ValueError(
            f"no station of the table is a site: the table has {quote_few(rows['station'])}, the "
            f"campaign {quote_few(names.sites)}; use --station for another column"
        )
    if not is_site.all():
        omissions.append(f"stations that are not sites ({quote_few(rows['station'][~is_site])})")
    gap = rows["value"].isna() & is_site
    if gap.any():
        omissions.append(plural(int(gap.sum()), "gap"))
    return rows[is_site & ~gap], omissions


def _check_header(
    header: list[str], names: Names, limits: list[str], arms: bool
) -> tuple[str, ...]:
    """Return the columns that a rate is computed from, if there are any.

    Raises
    ------
    ValueError
        If a column is there twice, or missing, or has almost the name of an outcome.
    """
    if twice := [name for name in header if name and header.count(name) > 1]:
        raise ValueError(f'there are two columns "{twice[0]}"')
    columns = set(header)
    pairs = [pair for pair in COUNTS if set(pair) <= columns]
    counts = pairs[0] if pairs else ()
    if pairs and (others := {"reward", "variance", *sum(pairs[1:], ())} & columns):
        raise ValueError(f"{' and '.join(counts)} replace {min(others)}: split the table in two")
    has_place = "site" in columns or {name.lower() for name in names.columns} <= columns
    if not (counts or "reward" in columns) or not has_place:
        coordinates = "" if arms else f", {', '.join(names.columns)}"
        raise ValueError(
            f"there must be columns site (or the column of --station{coordinates}), and reward (or "
            f"successes and trials, or events and exposure); there are: {', '.join(header)}. For other "
            "tables, name the columns by --time, --station and --value; `tvbandits data info` shows "
            "how it reads them"
        )
    expected = {"site", "time", "reward", "variance", "key", "who", *counts}
    expected |= {name.lower() for name in (*names.columns, *names.context_names)}
    for column in sorted(columns - expected):
        near = difflib.get_close_matches(column, limits, n=1)
        if near and column != near[0].lower():
            raise ValueError(f'there is no outcome {column!r}: did you mean "{near[0]}"?')
    return counts


def _parse_row(
    cells: Mapping[str, str], names: Names, limits: list[str], columns: tuple[str, ...], line: int
) -> Reading:
    """Return the reading of a row, of which `columns` have counts."""

    def number(name: str) -> float:
        try:
            return float(cells[name] or "nan")
        except ValueError:
            raise ValueError(f'{name} must be a number, got "{cells[name]}"') from None

    context = {name: cells.get(name.lower()) for name in names.context_names}
    context_texts = [f"{name}={cell}" for name, cell in context.items() if cell and "site" in cells]
    counts = tuple(map(number, columns))
    if counts:
        COUNTS[columns](*counts)  # raises an error if they are no counts
        if np.isnan(counts).sum() == 1:
            column, missing = columns if np.isnan(counts[1]) else columns[::-1]
            raise ValueError(f"{column} without {missing}: give both, or leave both empty")
    site = cells.get("site")
    if site is None:
        site = names.place_text([cells[each.lower()] for each in names.columns])
    return Reading(
        site=site,
        value=None if counts else number("reward"),
        at=cells.get("time") or None,
        variance=number("variance") if cells.get("variance") else None,
        key=cells.get("key") or None,
        who=cells.get("who") or None,
        counts=counts,
        outcomes={name: [number(name.lower())] for name in limits if name.lower() in cells},
        context=", ".join(context_texts) or None,
        line=line,
    )


def with_rates(readings: list[Reading], compute: Callable[..., Counted]) -> list[Reading]:
    """Return the readings with rates and variances, computed from all counts of the same time."""
    by_time: dict[str | None, list[int]] = {}
    for number, reading in enumerate(readings):
        by_time.setdefault(reading.at, []).append(number)
    result = readings.copy()
    for rows in by_time.values():
        rates = compute(*np.transpose([readings[row].counts for row in rows]))
        columns = rates.values.tolist(), rates.variance.tolist(), rates.trials.tolist()
        for row, value, variance, of in zip(rows, *columns, strict=True):
            result[row] = replace(result[row], value=value, variance=variance, trials=of)
    return result
