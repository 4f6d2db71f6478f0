"""The commands that list policies and problems, describe a file, and download data."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from rich.progress import DownloadColumn, TaskID, TransferSpeedColumn

from tvbandits.cli.options import TableOptions
from tvbandits.cli.output import Format, plural, print_result
from tvbandits.cli.terminal import progress_bars
from tvbandits.clock import is_date_text
from tvbandits.comparison.arguments import PROBLEMS, settable_parameters
from tvbandits.datasets.epa_ozone.fetch import fetch_ozone
from tvbandits.datasets.sensor_field import (
    describe_conversions,
    describe_degrees_doubt,
    find_degrees,
    read_places,
    rename_degrees,
)
from tvbandits.datasets.tables.headings import as_id, describe_similar_names
from tvbandits.datasets.tables.layout import (
    FileOptions,
    Layout,
    check_units,
    find_columns,
    has_numbers,
    is_gap,
    options_of_sites,
    read_stations,
    read_times,
    select_parameter,
    tidy,
)
from tvbandits.datasets.tables.readings import (
    describe_averages,
    describe_flags,
    parse_times,
    quote_few,
)
from tvbandits.datasets.tables.rounds import doubts_about_stations, find_step
from tvbandits.datasets.tables.sentinels import (
    describe_isolated_values,
    describe_sentinel,
    describe_spikes,
    find_sentinels,
)
from tvbandits.datasets.tables.sheets import SEPARATORS, Sheet, read_sheet, select_rows
from tvbandits.datasets.tables.times import describe_doubtful_times, expand_years
from tvbandits.io import name_file_in_errors
from tvbandits.option_text import format_option
from tvbandits.policies import POLICIES
from tvbandits.policies.names import parameter_text, parameters_of
from tvbandits.policies.setting import text_options

# --- policies, problems and downloads ------------------------------------------------------------


def list_policies() -> None:
    """Print the name, the title and the parameters of each policy, and the options of most policies."""
    entries = []
    for each in POLICIES.values():
        options = ", options" if len(each.parameters) > len(each.own_parameters) else ""
        entries.append((each.name, each.title, parameter_text(each.own_parameters) + options))
    _print_list(entries)
    print(f"\noptions: {parameter_text(text_options())}")


def list_problems() -> None:
    """Print the name, the summary and the parameters of each problem."""
    entries: list[tuple[str, str, str]] = []
    for name, each in PROBLEMS.items():
        files = 1 if each.files is None or name == "table" else each.files
        entries.append(
            (
                name,
                each.summary,
                parameter_text(settable_parameters(parameters_of(each.make, skip=files))),
            )
        )
    _print_list(entries)


def _print_list(entries: list[tuple[str, str, str]]) -> None:
    """Print a line for each entry, in columns."""
    widths = [max(map(len, column)) for column in zip(*entries, strict=True)]
    for entry in entries:
        cells = (f"{cell:<{width}}" for cell, width in zip(entry, widths, strict=True))
        print("  ".join(cells).rstrip())


def fetch(years: Sequence[int], state: str | None) -> None:
    """Download ozone data, with a bar for each file, and print how to use them."""
    tasks: dict[str, TaskID] = {}
    with progress_bars(DownloadColumn(), TransferSpeedColumn()) as bars:

        def report(name: str, size: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total)
            bars.update(tasks[name], completed=size, total=total)

        paths = fetch_ozone(years, state=state, progress=report)
    for path in paths:
        print(path)
    data = " ".join(f"--data {shlex.quote(str(path))}" for path in paths)
    # The whole country has more than a thousand sites.
    print(f"tvbandits compare {'ozone:sites=28' if state is None else 'ozone'} {data}")


# --- data info -------------------------------------------------------------------------------------


def inspect(paths: Sequence[Path], tables: TableOptions, form: Format) -> None:
    """Print what is in each file, how it would be read, and which questions remain."""
    options = FileOptions(**tables.given)
    facts, unit_of = [], []
    for path in paths:
        with name_file_in_errors(path):
            sheet = read_sheet(path, options, has_flags=True)
            facts.append({"file": str(path), **_facts(sheet, options)})
            unit_of.append(sheet.unit_of)
    sites_of = [each.get("stations", ()) for each in facts if each["form"] == "sites"]
    for each, units in zip(facts, unit_of, strict=True):
        if each["form"] == "wide":
            stations = {*each.get("stations", ())} - {*options.without}
            if sites_of:
                stations &= {name for sites in sites_of for name in sites}
            each["questions"] += _questions_of_units(
                {name: unit for name, unit in units.items() if name in stations}
            )
    flags = "".join(
        f" --{name} {shlex.quote(str(value))}"
        for name, values in tables.given.items()
        for value in (values if isinstance(values, list) else [values])
    )
    tables_of_sites = [each["file"] for each in facts if each["form"] == "sites"]
    sites = shlex.quote(tables_of_sites[0]) if len(tables_of_sites) == 1 else "SITES"
    readings = [each["file"] for each in facts if each["form"] != "sites"]
    lines = [line for each in facts for line in _lines(each, flags, sites, readings)]
    print_result(form, lines, {"files": facts})


def _questions_of_units(unit_of: Mapping[str, str]) -> list[str]:
    """Return the question that columns of different units leave: whether all of them are stations."""
    columns: dict[str, list[str]] = {}
    for name, unit in unit_of.items():
        columns.setdefault(unit, []).append(name)
    if len(columns) < 2:
        return []
    listed = "; ".join(
        f"{unit or 'no unit'}: {', '.join(names)}" for unit, names in columns.items()
    )
    fewest = min(columns.values(), key=len)[0]
    return [
        f"columns have different units ({listed}): leave out columns that are not stations by "
        f"{format_option('without', fewest)} and so on, or name the table of sites, too"
    ]


@contextmanager
def _asking(questions: list[str]) -> Iterator[None]:
    """Collect the message of an error, which a person can answer by an option."""
    try:
        yield
    except ValueError as error:
        if str(error) not in questions:
            questions.append(str(error))


def _facts(sheet: Sheet, options: FileOptions) -> dict[str, Any]:
    """Return what is in a file, in plain values, and the questions that it leaves."""
    cells, questions = sheet.cells, list[str]()
    facts: dict[str, Any] = {
        "encoding": sheet.encoding,
        "separator": SEPARATORS.get(sheet.separator, ""),
        "decimal": options.decimal or sheet.decimal,
        "header": sheet.header,
        "left_out": list(sheet.titles),
        "units": list(sheet.units),
        "sums": list(sheet.sums),
        "repeated_headers": sheet.repeats,
        "rows": len(cells),
        "columns": [str(column) for column in cells.columns],
    }
    own = options_of_sites(options, cells)
    if _has_sites(cells, own) or _are_places(cells):
        with _asking(questions):
            places = read_places(cells, own)
            rest = [each for each in cells.columns[1:] if each not in places.columns]
            others = [str(each) for each in rest if has_numbers(cells[each])]
            facts |= {
                "stations": list(places.index),
                "coordinates": list(places.columns),
                "places": describe_conversions(places.columns),
                "others": others,
                "words": [str(each) for each in rest if str(each) not in others],
                "notes": [text] if (text := describe_degrees_doubt(places, own)) else [],
            }
        return {"form": "sites", **facts, "questions": questions}
    sheet = select_rows(sheet, options)
    cells, facts["unwanted"] = sheet.cells, list(sheet.unwanted)
    layout = find_columns(cells, options)
    facts |= {
        "form": "long" if layout.is_long else "wide",
        "time": list(layout.time),
        "station": list(layout.station),
        "parameter": layout.parameter,
        "value": list(layout.values),
        "places": list(layout.places),
    }
    facts |= _reading_facts(cells, layout, options, questions)
    facts["flags"] = "; ".join(filter(None, (sheet.flags, facts["flags"])))
    return facts | {"questions": questions}


def _has_sites(cells: pd.DataFrame, options: FileOptions) -> bool:
    """Tell whether a table has a row for each site, with latitude and longitude."""
    table = rename_degrees(cells, options)
    degrees = find_degrees(table.columns)
    if degrees is None or find_columns(cells, options).is_long:
        return False
    first = cells.iloc[:, 0].astype(str)
    return has_numbers(table[degrees[0]]) and not first.map(is_date_text).all()


def _are_places(cells: pd.DataFrame) -> bool:
    """Tell whether a table has a column of names, which are no dates, and 2 or 3 of numbers."""
    if len(cells.columns) not in (3, 4) or cells.empty:
        return False
    names = cells.iloc[:, 0].astype(str).str.strip()
    is_date = names.map(lambda name: is_date_text(name) or bool(expand_years(name)))
    is_name = pd.to_numeric(names, errors="coerce").isna() & ~is_date
    numbers = cells.iloc[:, 1:].apply(pd.to_numeric, errors="coerce")
    return bool(is_name.all() and names.is_unique and numbers.notna().all(axis=None))


def _reading_facts(
    cells: pd.DataFrame, layout: Layout, options: FileOptions, questions: list[str]
) -> dict[str, Any]:
    """Return the parameters, times and values of a table of readings."""
    facts, rows = dict[str, Any](flags=describe_flags(cells, layout)), cells
    with _asking(questions):
        if layout.parameter:
            counts = cells[layout.parameter].astype(str).str.strip().value_counts()
            facts["parameters"] = {str(name): int(count) for name, count in counts.items()}
        rows = select_parameter(cells, layout, options)
    with _asking(questions):
        check_units(rows, layout, options)
    with _asking(questions):
        facts |= _time_facts(rows, layout, options)
    with _asking(questions):
        facts |= _value_facts(rows, layout, options, questions)
    return facts


def _time_facts(rows: pd.DataFrame, layout: Layout, options: FileOptions) -> dict[str, Any]:
    """Return the form of the times, the first and the last, their step, and the stations."""
    times = parse_times(read_times(rows, layout, options), " ".join(layout.time), options.dates)
    written = rows[layout.time[0]].astype(str).str.strip().iloc[0]
    facts: dict[str, Any] = {
        "time_example": written,
        "from": str(times.min()),
        "to": str(times.max()),
    }
    stations = pd.Series("", index=rows.index)
    if layout.is_long:
        stations = read_stations(rows, layout)
        facts["stations"] = sorted({*stations} - {*options.without})
    if isinstance(times, pd.DatetimeIndex):
        grid = find_step(pd.Series(times, index=rows.index), stations)
        if grid is not None and grid.step:
            facts |= {"step": grid.step, "regular": grid.regular, "gaps": round(1 - grid.share, 4)}
    return facts


def _value_facts(
    rows: pd.DataFrame, layout: Layout, options: FileOptions, questions: list[str]
) -> dict[str, Any]:
    """Return the cells of no reading and their texts; ask about numbers that may be none."""
    facts: dict[str, Any] = {}
    block = rows[[layout.value]] if layout.is_long else rows.drop(columns=list(layout.time))
    cells = pd.Series(block.to_numpy(dtype=object).ravel())
    counts = cells[is_gap(cells, options)].astype(str).str.strip().value_counts()
    facts["cells"] = len(cells)
    facts["no_reading"] = {str(text) or "empty": int(count) for text, count in counts.items()}
    if not layout.is_long:
        names = [str(column) for column in block.columns]
        facts["stations"] = [name for name in names if as_id(name) not in options.without]
    readings = tidy(rows, layout, options)
    for code, count in find_sentinels(readings[["value"]], options).items():
        questions.append(describe_sentinel(code, f"comes {plural(count, 'time')}"))
    if not questions:
        facts["averaged"] = _averages_text(readings, rows, layout, options)
        table = _table_by_time(readings, options)
        times = parse_times(readings["time"], "time", options.dates)
        doubts = describe_doubtful_times(times) + describe_similar_names(table.columns)
        values = readings[["value"]]
        numbers = describe_spikes(values, options) + describe_isolated_values(values, options)
        facts["notes"] = doubts + doubts_about_stations(table) + numbers
    return facts


def _averages_text(
    readings: pd.DataFrame, cells: pd.DataFrame, layout: Layout, options: FileOptions
) -> str:
    """Return how many readings are averaged with others, in words."""
    rows = readings.dropna(subset="value")
    times = parse_times(rows["time"], "time", options.dates)
    return describe_averages(rows.assign(time=times), cells, layout)


def _table_by_time(readings: pd.DataFrame, options: FileOptions) -> pd.DataFrame:
    """Return means of readings by time, or by step where times are irregular, and station."""
    times: Any = parse_times(readings["time"], "time", options.dates)
    if isinstance(times, pd.DatetimeIndex):
        grid = find_step(pd.Series(times, index=readings.index), readings["station"])
        if grid is not None and not grid.regular:
            times = times.floor(grid.step)
    rows = readings.assign(time=times)
    return rows.pivot_table("value", "time", "station", dropna=False)


def _lines(facts: dict[str, Any], flags: str, sites: str, readings: Sequence[str]) -> list[str]:
    """Return the facts of a file in lines for people, and the commands with the options in `flags`.

    `readings` are the files of readings of one network, and `sites` is that of its sites.
    """
    file, mark = shlex.quote(facts["file"]), facts["decimal"]
    marks = [facts["encoding"], facts["separator"], mark and f"decimal {mark}"]
    lines = [
        f"{facts['file']}: {', '.join(each for each in marks if each)}; column names in line "
        f"{facts['header']} (or use --header)"
    ]
    if facts["left_out"]:
        numbers = ", ".join(map(str, facts["left_out"]))
        lines.append(f"  no readings in line {numbers} (titles or the end of the table)")
    rows = [(name, facts[name]) for name in ("units", "sums") if facts[name]]
    if rows:
        texts = [
            f"{plural(len(each), 'row')} of {name} (line {', '.join(map(str, each))})"
            for name, each in rows
        ]
        lines.append(f"  left out: {', '.join(texts)}")
    if facts["repeated_headers"]:
        lines.append(f"  {plural(facts['repeated_headers'], 'repeated header')} left out")
    if facts["form"] == "sites":
        stations = facts.get("stations", [])
        lines.append(f"  a table of {plural(len(stations), 'site')}: {quote_few(stations)}")
        if "coordinates" in facts:
            lines.append(f"  coordinates: {facts['places'] or quote_few(facts['coordinates'])}")
        if facts.get("words"):
            lines.append(f"  not read: {quote_few(facts['words'])}, which has no numbers")
        if facts.get("others"):
            lines.append(
                f"  not read: {quote_few(facts['others'])}; to use them in a campaign, add them to "
                "[domain] coordinates, scaled so that a difference of 1 counts like 1 km"
            )
    else:
        lines += _reading_lines(facts)
    lines += [f"  note: {note}" for note in facts.get("notes", ())]
    lines += [f"  unclear: {question}" for question in facts["questions"]]
    if facts["form"] != "sites" and not facts["questions"]:
        places = file if facts["places"] else sites
        every = "" if facts.get("regular", True) else f":every={facts['step']}"
        data = " ".join(f"--data {shlex.quote(each)}" for each in readings)
        lines += [
            f"  next: tvbandits compare sensor-field{every} {data} --data {places}{flags}",
            f"  or:   tvbandits campaign new CAMPAIGN --policy adaptive-gp-ucb --sites {places} "
            f"--history {file}{flags}",
            f"  or:   tvbandits campaign tell CAMPAIGN --csv {file}{flags}",
        ]
    return lines


def _reading_lines(facts: dict[str, Any]) -> list[str]:
    """Return what is in a table of readings: columns, times, stations, parameters and gaps."""
    lines = ["  wide: a column for each station"]
    if facts["form"] == "long":
        lines = [
            f"  long: a row for each reading; station in column {' + '.join(facts['station'])} (or use "
            f"--station), value in column {' or '.join(facts['value'])} (or use --value)"
        ]
    if "time_example" in facts:
        lines.append(
            f"  times in column {' and '.join(facts['time'])} (or use --time), such as "
            f"{facts['time_example']}: {facts['from']} to {facts['to']}"
        )
    if "step" in facts:
        kind = "a step of" if facts["regular"] else "irregular; a step of"
        lines.append(
            f"  {kind} {facts['step']}; {facts['gaps']:.1%} of all steps have no row "
            f"(every={facts['step']})"
        )
    if stations := facts.get("stations"):
        lines.append(f"  {plural(len(stations), 'station')}: {quote_few(stations)}")
    for name, count in facts.get("parameters", {}).items():
        lines.append(f"  parameter {name}: {plural(count, 'row')}")
    for text, count in facts.get("no_reading", {}).items():
        share = f", {count / facts['cells']:.1%} of the cells"
        lines.append(
            f"  no reading: {text!r} {plural(count, 'time')}{share} (add others by --missing)"
        )
    if facts.get("flags"):
        rest = "" if facts["unwanted"] else ": every row counts unless you choose"
        lines.append(f"  not read: {facts['flags']}{rest}")
    lines += [f"  left out: {text}" for text in facts["unwanted"]]
    if facts.get("averaged"):
        lines.append(f"  {facts['averaged']}")
    return lines
