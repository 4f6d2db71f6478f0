"""The ozone benchmark: choose, day by day, the monitoring site with the highest ozone level.

The levels come from files of the US EPA's Air Quality System, free to download from
https://aqs.epa.gov/aqsweb/airdata/download_files.html (daily summary files, ozone 44201) or
https://www.epa.gov/outdoor-air-quality-data/download-daily-data. No file comes with the package.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from tvbandits.datasets.epa_ozone.aqs import is_in_state, read_files
from tvbandits.datasets.sensor_field import (
    check_places,
    describe_gaps,
    find_complete_columns,
    kilometres,
)
from tvbandits.datasets.table_problem import TableProblem
from tvbandits.datasets.tables.readings import average_steps, quote_few, select_times
from tvbandits.datasets.tables.spreadsheets import File
from tvbandits.domains.problem import NamedProblem
from tvbandits.validation import (
    check_optional,
    check_text,
    finite_number,
    noise_variance_number,
    whole_number,
)


def ozone(
    files: File | Iterable[File],
    *,
    sites: int | None = None,
    state: str | None = None,
    start: str | None = None,
    end: str | None = None,
    noise_variance: float = 1.0,
    minimum_completeness: float = 0.75,
) -> TableProblem:
    """Choose, day by day, the site with the highest ozone level: points in km, rewards in ppb.

    A site's level on a day is the mean over its instruments. An instrument's level is the mean of its
    rows, since several files or standards may contain the same day. Gaps are interpolated linearly in
    time, and filled at the ends with the nearest reading. The problem recommends no kernel.

    Parameters
    ----------
    files : path, or several
        EPA daily ozone files in any of the formats of `tvbandits.datasets.epa_ozone.aqs`.
    sites : int, optional
        Keep only so many of the most complete sites; of equally complete ones, those with the lower
        ids. None: all.
    state : str, optional
        Keep only one state: its name in any case, or its FIPS code ("36").
    start, end : str, optional
        First and last day: 2008-01-31, or 2008 for the whole year. None: the first and the last day with
        rows.
    noise_variance : float
        Noise variance of a reward (ppb^2): readings are rounded to 1 ppb, and the precision of the
        monitors at these levels is about as large.
    minimum_completeness : float
        Keep only sites with readings on at least this fraction of the days.

    Raises
    ------
    ValueError
        If a file cannot be used, no row is of that state or time, or too few sites are complete.
    """
    check_optional(whole_number, "sites", sites)
    finite_number("minimum_completeness", minimum_completeness, low=0.0, high=1.0)
    noise_variance_number("noise_variance", noise_variance)
    for name, value in (("state", state), ("start", start), ("end", end)):
        check_optional(check_text, name, value)
    rows = read_files(files)
    if state is not None:
        states = (rows["state"] + " (" + rows["state_code"] + ")").str.strip()
        rows = rows[is_in_state(state, rows["state"], rows["state_code"])]
        if rows.empty:
            raise ValueError(
                f"state={state} has no rows; the files contain the states {quote_few(states)}"
            )
    table = average_steps(select_times(average_instruments(rows), start, end), "1D").dropna(
        axis=1, how="all"
    )
    # A stable sort of sorted ids: of equally complete sites the lower id comes first.
    completeness = find_complete_columns(
        table, minimum_completeness, sites or 1, "sites"
    ).sort_index()
    ranking = completeness.sort_values(ascending=False, kind="stable").index
    ids = sorted(str(site) for site in ranking[:sites])
    table = table[ids]
    places = rows.groupby("site")[["latitude", "longitude"]].first().loc[ids]
    check_places(places.reset_index()["site"], places.reset_index(drop=True))
    return TableProblem(
        table.interpolate("linear", limit_direction="both").to_numpy(float),
        kilometres(places["latitude"].to_numpy(float), places["longitude"].to_numpy(float)),
        name="ozone",
        unit="ppb",
        noise_variance=noise_variance,
        labels=tuple(ids),
        summary=f"{len(ids)} sites, {table.index[0]:%Y-%m-%d} to {table.index[-1]:%Y-%m-%d} "
        f"({len(table)} days), {describe_gaps(table)}",
    )


def average_instruments(rows: pd.DataFrame) -> pd.DataFrame:
    """Return levels (days x sites), averaged over each instrument's rows, then over instruments."""
    instruments = rows.groupby(["date", "site", "poc"])["ppb"].mean()
    return instruments.groupby(["date", "site"]).mean().unstack("site")


PROBLEMS = (
    NamedProblem(
        "ozone", ozone, "daily ozone at EPA sites, from files given by --data", files=None
    ),
)
