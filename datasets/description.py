"""What a file is, and how it can be used, in a few lines for people."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.core.arrays import Array
from tvbandits.core.coercion import file_path
from tvbandits.core.files.reading import File, check_regular, naming
from tvbandits.datasets.epa_ozone.files import is_daily_ozone, read_files
from tvbandits.datasets.epa_ozone.problem import days_between, site_means
from tvbandits.datasets.regression import ABALONE, CALIFORNIA, abalone, california
from tvbandits.datasets.tables.columns import few, plain
from tvbandits.datasets.tables.readings import (
    IDS,
    as_ids,
    as_numbers,
    read_table,
    wide,
    with_index_as_column,
)
from tvbandits.datasets.tables.sensor_field import (
    check_places,
    in_words,
    named_coordinates,
    points_of,
    read_places,
)

ENOUGH = 0.75
"""Fraction of the days, or steps, that problems ask for by default."""


STILL = 24
"""So many identical readings in a row are worth a word."""


SQLITE = b"SQLite format 3\0"
"""How a SQLite file begins."""


TIMES = ("time", "timestamp", "datetime", "date_time", "date", "t", "epoch")
"""Names of a column of times in a long table."""


Facts = dict[str, str]
"""Lines of a description: what they are about, and what there is to say."""


def describe(file: File) -> str:
    r"""What a file is and whether it can be used, in a few lines.

    Known are the EPA's daily ozone files, tables of readings (time x sensor) and of sites, the
    regression tables, recordings of an expert's answers, and logs of them: a csv or Parquet file with
    columns x0, x1, ..., t, value, variance.

    Raises
    ------
    ValueError
        If the file cannot be read, or is none of these: one line that names it and why.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tvbandits.datasets import describe
    >>> written = Path("sites.csv").write_text("id,x,y\na,0,0\nb,1,2\nc,2,1\n")
    >>> print(describe("sites.csv"))
    sites.csv: a table of sites
      sites        3: 'a', 'b', 'c'
      coordinates  x, y; 2 x 2 in all
      use          tvbandits compare sensor-field --data READINGS --data sites.csv
    """
    path = file_path("file", file)
    with naming(path):
        check_regular(path)
        with path.open("rb") as opened:
            start = opened.read(len(SQLITE))
    if start == SQLITE:
        what, facts = "answers of an expert (SQLite)", _sqlite_facts(path)
    elif is_daily_ozone(path):
        what, facts = "EPA daily ozone", _ozone_facts(path)
    else:
        what, facts = _table_facts(path, with_index_as_column(read_table(path)))
    width = max(map(len, facts))
    lines = [f"  {about:<{width}}  {said}" for about, said in facts.items()]
    return "\n".join([f"{path}: {what}", *lines])


def _ozone_facts(path: Path) -> Facts:
    rows = read_files(path)
    first, last = rows["date"].min(), rows["date"].max()
    with naming(path):
        days = days_between(first, last, rows["site"].nunique())
    table = site_means(rows).reindex(days)
    completeness = table.notna().mean().sort_values(ascending=False, kind="stable")
    usable = completeness[completeness >= ENOUGH]
    places = rows.groupby("site")[["latitude", "longitude"]].first()
    states = (rows["state"] + " (" + rows["state_code"] + ")").str.strip()
    names = rows.groupby("site")["name"].first().to_dict()
    best = ", ".join(
        f"{site} {names[site][:30]}".strip() + f" {share:.1%}"
        for site, share in completeness.head(5).items()
    )
    facts = {
        "rows": f"{len(rows)} readings, {first:%Y-%m-%d} to {last:%Y-%m-%d} ({len(days)} days)",
        "states": few(states),
        "sites": f"{len(completeness)}, {len(usable)} of them with readings on at least "
        f"{ENOUGH:.0%} of the days",
        "most complete": best,
    }
    if len(usable) < 2:
        least = completeness.iloc[min(1, len(completeness) - 1)]
        wanted = np.floor(100 * least) / 100
        remedy = f"; try min_completeness={wanted:g}" if wanted > 0 else ""
        why = "not as it is: fewer than two sites are complete enough"
        return facts | {"use": why + remedy}
    missing = table[usable.index].isna().to_numpy()
    facts["gaps"] = (
        f"{missing.mean():.1%} of the days of those {len(usable)} sites; the longest "
        f"is {_longest_run(missing)} days"
    )
    try:
        chosen = places.loc[usable.index].reset_index()
        check_places(chosen["site"], chosen[["latitude", "longitude"]])
    except ValueError as error:
        facts["caution"] = f"{error}; a smaller choice (sites=, state=) may do without them"
    problem = "ozone" if len(usable) <= 28 else "ozone:sites=28"
    return facts | {"use": _command(problem, path)}


def _longest_run(missing: Array) -> int:
    """The longest run of True in a column."""
    run, longest = np.zeros(missing.shape[1], dtype=int), 0
    for row in missing:
        run = (run + 1) * row
        longest = max(longest, int(run.max()))
    return longest


def _command(problem: str, *paths: Path | str) -> str:
    data = " ".join(f"--data {shlex.quote(str(path))}" for path in paths)
    return f"tvbandits compare {shlex.quote(problem)} {data}"


def _table_facts(path: Path, table: pd.DataFrame) -> tuple[str, Facts]:
    """What a csv or Parquet file is; raises if that is not known."""
    names = [str(name) for name in table.columns]
    try:
        if {"x0", "t", "value", "variance"} <= set(names):
            return "answers of an expert", _answer_facts(table)
        for source, problem in ((ABALONE, abalone), (CALIFORNIA, california)):
            if not source.form.missing(names):
                facts = {"rows": problem(path).summary, "use": _command(source.name, path)}
                return f"the {source.name} table", facts
        if _is_long(table):
            return "a long table, with a row for each reading", _long_facts(path, table)
        if named_coordinates(names):
            return "a table of sites", _site_facts(path, table)
        if _is_wide(table):
            return "a table of readings, time x sensor", _wide_facts(path, table)
    except ValueError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise ValueError(f"{path}: {reason}") from None
    raise ValueError(
        f"{path}: not a file that is known here; its columns are {few(names) or 'none'}. Readings have "
        "times in the first column and a column of numbers for each sensor, or columns named time, "
        "sensor and value; sites have a column id, and latitude and longitude, or x and y"
    )


def _id_of(table: pd.DataFrame) -> str | None:
    known = {plain(name): str(name) for name in table.columns}
    return next((known[each] for each in IDS if each in known), None)


def _is_long(table: pd.DataFrame) -> bool:
    """Whether sensors come again and again, each time at another time."""
    name = _id_of(table)
    return (
        name is not None
        and bool(table[name].duplicated().any())
        and any(plain(each) in TIMES for each in table.columns)
    )


def _long_facts(path: Path, table: pd.DataFrame) -> Facts:
    sensor = _id_of(table)
    assert sensor is not None
    times = [str(name) for name in table.columns if plain(name) in TIMES and plain(name) != "epoch"]
    when: str | tuple[str, ...] = tuple(times) if len(times) > 1 else (times or ["epoch"])[0]
    rest = [str(name) for name in table.columns if str(name) not in {sensor, *times}]
    value = next((name for name in reversed(rest) if plain(name) == "value"), "...")
    ids = set(as_ids(table[sensor])) - {""}
    return {
        "rows": f"{len(table)} readings of {len(ids)} sensors ({sensor}): {few(ids)}",
        "columns": ", ".join(map(str, table.columns)),
        "use": f"make a wide table of it: tvbandits.datasets.from_long({str(path)!r}, "
        f"time={when!r}, sensor={sensor!r}, value={value!r})",
    }


def _site_facts(path: Path, table: pd.DataFrame) -> Facts:
    places = read_places(table)
    points = points_of(places)
    turned = in_words(places.columns)
    unit = " km" if turned else ""
    extent = " x ".join(f"{each:.4g}" for each in np.ptp(points, axis=0))
    facts = {
        "sites": f"{len(places)}: {few(places.index)}",
        "coordinates": f"{', '.join(map(str, places.columns))}; {extent}{unit} in all",
    }
    if turned:
        facts["unit"] = f"{turned}; a length scale is in km"
    if len(places) < len(table):
        facts["left out"] = f"{len(table) - len(places)} sites without coordinates"
    return facts | {"use": _command("sensor-field", "READINGS", path)}


def _is_wide(table: pd.DataFrame) -> bool:
    """Whether the first column holds times, and two or more others hold numbers."""
    if not len(table) or table.shape[1] < 3:
        return False
    try:
        times = wide(table, ()).index
    except ValueError:
        return False
    dates = isinstance(times, pd.DatetimeIndex)
    return (dates or bool(times.is_monotonic_increasing and times.is_unique)) and (
        len(_sensors(table)) >= 2
    )


def _sensors(table: pd.DataFrame) -> list[str]:
    """Columns after the first that hold numbers."""
    found = []
    for place in range(1, table.shape[1]):
        column = table.iloc[:, [place]]
        with contextlib.suppress(ValueError):
            if as_numbers(column).notna().to_numpy().any():
                found.append(as_ids(column.columns)[0])
    return found


def _step(step: float | pd.Timedelta) -> str:
    """As people say it: "1 day", "0:10:00", or a number."""
    if not hasattr(step, "to_pytimedelta"):
        return str(step)
    return str(step.to_pytimedelta()).removesuffix(", 0:00:00")


def _wide_facts(path: Path, table: pd.DataFrame) -> Facts:
    sensors = _sensors(table)
    readings = as_numbers(wide(table, sensors)[sensors]).groupby(level=0).mean()
    times, completeness = readings.index, readings.notna().mean()
    steps = pd.Series(times[1:] - times[:-1]) if len(times) > 1 else pd.Series(dtype=float)
    step = f", usual step {_step(steps.median())}" if len(steps) else ""
    enough = int((completeness >= ENOUGH).sum())
    others = [name for name in as_ids(table.columns[1:]) if name not in sensors]
    stuck = {str(name): _longest_still(column) for name, column in readings.items()}
    stuck = {name: run for name, run in stuck.items() if run >= STILL}
    facts = {
        "rows": f"{len(table)}, {times[0]} to {times[-1]}{step}",
        "sensors": f"{len(sensors)}: {few(sensors)}",
        "readings": f"{readings.notna().to_numpy().mean():.1%} are there; {enough} sensors have one "
        f"in at least {ENOUGH:.0%} of the rows",
    }
    if stuck:
        worst = sorted(stuck, key=lambda name: -stuck[name])
        runs = ", ".join(f"'{name}' {stuck[name]}" for name in worst[:5])
        more = f" and {len(worst) - 5} more" if len(worst) > 5 else ""
        said = f"identical readings in a row, as of a sensor that is stuck: {runs}{more}"
        facts["caution"] = said
    if others:
        facts["left out"] = f"columns that hold no numbers: {few(others)}"
    return facts | {"use": _command("sensor-field", path, "SITES")}


def _longest_still(column: pd.Series[float]) -> int:
    """The most readings in a row of one value, gaps left out; zeros, as of rain, are not looked at."""
    values = column[column != 0].dropna()
    starts = values.ne(values.shift()).cumsum()
    return int(starts.value_counts().max()) if len(values) else 0


def _sqlite_facts(path: Path) -> Facts:
    try:
        address = f"{path.resolve().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True)) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            tables = [str(name) for (name,) in found]
            if not {"journal", "head"} <= set(tables):
                raise ValueError(
                    f"{path}: a SQLite file that is no recording; it holds {few(tables) or 'nothing'}"
                )
            return _answer_facts(_recorded(connection))
    except (sqlite3.Error, LookupError, TypeError) as error:
        raise ValueError(f"{path}: a SQLite file that cannot be read ({error})") from None


def _recorded(connection: sqlite3.Connection) -> pd.DataFrame:
    """The answers of a recording, as its journal has them: `tvbandits.experts.Recording`."""
    asked: dict[int, tuple[str, Any]] = {}
    parts = [pd.DataFrame(columns=["question", "asked_at", "x0", "t", "value", "variance", "cost"])]
    rows = connection.execute("SELECT seq, kind, at, body FROM journal ORDER BY seq")
    for seq, kind, at, text in rows:
        body = json.loads(text)
        if kind == "asked":
            asked[seq] = at, body
        elif kind == "answered":
            when, question = asked[body["question"]]
            part = pd.DataFrame(question["X"]).add_prefix("x")
            parts.append(
                part.assign(
                    question=body["question"],
                    asked_at=when,
                    t=question["t"],
                    value=np.asarray(body["values"], dtype=float),
                    variance=np.asarray(body["variance"], dtype=float),
                    cost=body["cost"] / len(part),
                )
            )
    return pd.concat(parts[1:] or parts, ignore_index=True)


def _answer_facts(table: pd.DataFrame) -> Facts:
    coordinates = [str(name) for name in table.columns if re.fullmatch(r"x\d+", str(name))]
    if not len(table):
        return {"rows": f"no answers yet; points of {len(coordinates)} coordinates"}
    wanted = [*coordinates, "t", "value", "variance"]
    wanted += ["cost"] if "cost" in table.columns else []
    numbers = as_numbers(table[wanted], "column")
    refused = int(numbers["value"].isna().sum())
    answered = numbers.dropna(subset=["value"])
    asked = ""
    if "question" in table.columns:
        asked = f", to {table['question'].nunique()} questions"
    different = len(numbers[coordinates].drop_duplicates())
    facts = {
        "rows": f"{len(table)} answers{asked}; {refused} refused (without a value)",
        "points": f"{different} different ones of {len(coordinates)} coordinates",
        "time": f"t from {_span(numbers['t'])}" + _asked_at(table),
    }
    if len(answered):
        facts["values"] = f"{_span(answered['value'])}, variance {_span(answered['variance'])}"
    if "cost" in numbers:
        facts["cost"] = f"{numbers['cost'].sum():g} in all"
    return facts


def _asked_at(table: pd.DataFrame) -> str:
    if "asked_at" not in table.columns or not table["asked_at"].notna().any():
        return ""
    asked: Iterable[object] = table["asked_at"].dropna()
    return f", asked from {min(map(str, asked))} to {max(map(str, asked))}"


def _span(column: pd.Series[float]) -> str:
    return f"{column.min():g} to {column.max():g}"
