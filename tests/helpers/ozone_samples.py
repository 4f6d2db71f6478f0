"""Small ozone files in the formats of the EPA, written from one list of readings."""

from pathlib import Path

import numpy as np
import pandas as pd

from tvbandits.datasets.table_problem import TableProblem

PLACES = {
    # site id: latitude, longitude, site name, state name, metropolitan area
    "36-001-0012": (42.68, -73.76, "LOUDON", "New York", "Albany, NY"),
    "36-005-0110": (40.82, -73.90, "IS 52", "New York", "New York-Newark, NY-NJ"),
    "34-003-0006": (40.87, -73.99, "LEONIA", "New Jersey", "New York-Newark, NY-NJ"),
    "01-073-0023": (33.55, -86.82, "NORTH", "Alabama", ""),
}

# Site id, instrument, day (ISO), level (ppb).
Reading = tuple[str, int, str, float]


def field(days: int = 6) -> list[Reading]:
    rng = np.random.default_rng(3)
    dates = pd.date_range("2008-01-29", periods=days).strftime("%Y-%m-%d")
    return [
        (site, instrument, day, float(rng.integers(10, 900)) / 10)
        for site in PLACES
        for instrument in (1, 2)
        for day in dates
    ]


def readings_at_site(site: str, levels: dict[str, float], instrument: int = 1) -> list[Reading]:
    return [(site, instrument, day, level) for day, level in levels.items()]


def airdata(readings: list[Reading], units: str = "Parts per million") -> pd.DataFrame:
    scale = 1e3 if "million" in units else 1.0
    return pd.DataFrame(
        {
            "State Code": site[:2],
            "County Code": site[3:6],
            "Site Num": site[7:],
            "Parameter Code": "44201",
            "POC": instrument,
            "Latitude": PLACES[site][0],
            "Longitude": PLACES[site][1],
            "Sample Duration": "8-HR RUN AVG BEGIN HOUR",
            "Pollutant Standard": "Ozone 8-hour 2015",
            "Date Local": day,
            "Units of Measure": units,
            "1st Max Value": round(level / scale, 6),
            "Local Site Name": PLACES[site][2],
            "Address": '1, "MAIN" STREET',
            "State Name": PLACES[site][3],
            "CBSA Name": PLACES[site][4],
        }
        for site, instrument, day, level in readings
    )


def snake(readings: list[Reading]) -> pd.DataFrame:
    frame = airdata(readings)
    names = [column.lower().replace(" ", "_") for column in frame.columns]
    return frame.set_axis([f"x{n}" if n[0].isdigit() else n for n in names], axis=1)


def download(readings: list[Reading], units: str = "ppm") -> pd.DataFrame:
    scale = 1e3 if units == "ppm" else 1.0
    return pd.DataFrame(
        {
            "Date": f"{int(day[5:7])}/{int(day[8:])}/{day[:4]}",
            "Source": "AQS",
            "Site ID": int(site.replace("-", "")),  # as served: Alabama's leading zero is lost
            "POC": instrument,
            "Daily Max 8-hour Ozone Concentration": round(level / scale, 6),
            "UNITS": units,
            "Site Name": PLACES[site][2],
            "CBSA_NAME": PLACES[site][4],
            "STATE": PLACES[site][3],
            "SITE_LATITUDE": PLACES[site][0],
            "SITE_LONGITUDE": PLACES[site][1],
        }
        for site, instrument, day, level in readings
    )


def csv(path: Path, frame: pd.DataFrame) -> Path:
    frame.to_csv(path, index=False)
    return path


def assert_same_problem(one: TableProblem, other: TableProblem) -> None:
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.points, other.points)
    assert (one.labels, one.summary) == (other.labels, other.summary)
