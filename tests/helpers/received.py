"""Files of the same readings in the formats of instruments, agencies and spreadsheets."""

from collections.abc import Callable
from itertools import count

import numpy as np
import pandas as pd

HOURS = pd.date_range("2024-01-30 01:00", periods=48, freq="1h")
STATIONS = {
    "Nord": (48.20, 11.50),
    "Ost": (48.15, 11.66),
    "Süd": (48.05, 11.52),
    "West": (48.13, 11.35),
}


def truth(scale: float = 1.0) -> pd.DataFrame:
    """Return readings by hour and station, to two decimals: a front that passes from west to east."""
    east = np.array([longitude for _, longitude in STATIONS.values()])
    hours = np.arange(len(HOURS))[:, None]
    front = 20 + 12 * np.exp(-(((east - 11.35) * 40 - hours / 3) ** 2) / 200) + np.sin(hours / 4)
    return pd.DataFrame((scale * front).round(2), HOURS, list(STATIONS))


def places(separator: str = ",", decimal: str = ".") -> str:
    rows = [
        separator.join([name, *(f"{x:.2f}".replace(".", decimal) for x in place)])
        for name, place in STATIONS.items()
    ]
    return "\n".join([separator.join(["station", "latitude", "longitude"]), *rows, ""])


def _rows() -> list[tuple[int, str, pd.Timestamp, float]]:
    """Return number and name of the station, hour and reading, hour by hour."""
    return [
        (101 + number, name, hour, row[name])
        for hour, row in truth().iterrows()
        for number, name in enumerate(STATIONS)
        if isinstance(hour, pd.Timestamp)
    ]


def openaq() -> str:
    """Return a file with two parameters, and times with an offset."""
    lines = ["location_id,sensors_id,location,datetime,lat,lon,parameter,units,value"]
    for number, name, hour, value in _rows():
        latitude, longitude = STATIONS[name]
        for parameter, other in (("pm25", value), ("no2", 50 - value)):
            time = f"{hour:%Y-%m-%dT%H:%M:%S}+01:00"
            lines.append(
                f"{number},7{number},{name},{time},{latitude},{longitude},{parameter},µg/m³,{other:.2f}"
            )
    return "\n".join([*lines, ""])


AQS = (
    '"State Code","County Code","Site Num","Parameter Code","POC","Latitude","Longitude","Datum",'
    '"Parameter Name"'
)


def _aqs(number: int, name: str) -> str:
    latitude, longitude = STATIONS[name]
    return f'"36","001","0{number}","44201",1,{latitude},{longitude},"WGS84","Ozone"'


def aqs_hourly() -> str:
    lines = [
        f'{AQS},"Date Local","Time Local","Date GMT","Time GMT",'
        '"Sample Measurement","Units of Measure","MDL"'
    ]
    for number, name, hour, value in _rows():
        local = hour - pd.Timedelta("5h")
        times = f'"{local:%Y-%m-%d}","{local:%H:%M}","{hour:%Y-%m-%d}","{hour:%H:%M}"'
        lines.append(f'{_aqs(number, name)},{times},{value:.2f},"Parts per billion",0.005')
    return "\n".join([*lines, ""])


def aqs_daily() -> str:
    """Return a file with one row a day, with as many days as there are hours elsewhere."""
    lines = [
        f'{AQS},"Date Local","Units of Measure","Arithmetic Mean","1st Max Value","1st Max Hour","AQI"'
    ]
    for number, name, hour, value in _rows():
        day = pd.Timestamp("2024-01-01") + (hour - HOURS[0]) * 24
        lines.append(
            f'{_aqs(number, name)},"{day:%Y-%m-%d}","Parts per billion",'
            f"{value:.2f},{value + 9:.2f},14,40"
        )
    return "\n".join([*lines, ""])


def sensor_community() -> str:
    """Return one file a sensor, joined, each with its header and its own times."""
    header = "sensor_id;sensor_type;location;lat;lon;timestamp;P1;durP1;ratioP1;P2;durP2;ratioP2"
    lines = list[str]()
    for number, name in zip(count(101), STATIONS, strict=False):
        latitude, longitude = STATIONS[name]
        lines.append(header)
        for _, _, hour, value in (row for row in _rows() if row[1] == name):
            for minute in (number % 7, 20 + number % 5, 41 + number % 3):
                time = hour + pd.Timedelta(minutes=minute, seconds=number % 50)
                lines.append(
                    f"{number};SDS011;5{number};{latitude:.3f};{longitude:.3f};"
                    f"{time:%Y-%m-%dT%H:%M:%S};{value + 5:.2f};;;{value:.2f};;"
                )
    return "\n".join([*lines, ""])


def spreadsheet() -> str:
    """Return a sheet with title, empty line, names and units; day first; "-" marks a missing reading."""
    lines = [
        "Messnetz Stadt;;;;",
        ";;;;",
        f"Datum;{';'.join(STATIONS)}",
        ";µg/m³;µg/m³;µg/m³;µg/m³",
    ]
    for number, (hour, row) in enumerate(truth().iterrows()):
        cells = [f"{value:.2f}".replace(".", ",") for value in row]
        cells[0] = "-" if number == 10 else cells[0]
        lines.append(f"{hour:%d.%m.%Y %H:%M};{';'.join(cells)}")
    return "\n".join([*lines, ""])


def _hour_ending(hour: pd.Timestamp) -> pd.Timestamp:
    return hour - pd.Timedelta("1min")  # the day of 24:00


def uk_air() -> str:
    """Return a file with a preamble, stations above column names, hours from 01:00 to 24:00."""
    lines = ["Data supplied by UK-AIR on 3/2/2024", "All Data GMT hour ending  ",
        "Status: R = Ratified / P = Provisional / P* = As supplied", "",
        f",,{',,'.join(STATIONS)},", "Date,Time" + ",Ozone,Status" * len(STATIONS)]  # fmt: skip
    for number, (hour, row) in enumerate(truth().iterrows()):
        assert isinstance(hour, pd.Timestamp)
        ends = f"{hour.hour or 24:02d}:00"
        cells = [f"{value:.2f},P µg/m³" for value in row]
        cells[0] = "No data," if number == 10 else cells[0]
        lines.append(f"{_hour_ending(hour):%d-%m-%Y},{ends},{','.join(cells)}")
    return "\n".join([*lines, "End", ""])


def campbell() -> str:
    """Return a TOA5 file: logger, names, units, processing; "NAN" marks a missing reading."""
    names = ",".join(f'"{name}"' for name in STATIONS)
    lines = ['"TOA5","CR1000","CR1000","12345","CR1000.Std.32","CPU:hall.CR1","9001","Hourly"',
        f'"TIMESTAMP","RECORD","BattV",{names}',
        '"TS","RN","Volts","Deg C","Deg C","Deg C","Deg C"',
        '"","","Min","Avg","Avg","Avg","Avg"']  # fmt: skip
    for number, (hour, row) in enumerate(truth().iterrows()):
        cells = [f"{value:.2f}" for value in row]
        cells[0] = '"NAN"' if number == 10 else cells[0]
        lines.append(f'"{hour:%Y-%m-%d %H:%M:%S}",{number},12.9,{",".join(cells)}')
    return "\n".join([*lines, ""])


def thousands() -> str:
    """Return a file with values about a thousand: 1.012 beside 998,5."""
    lines = [f"Zeit;{';'.join(STATIONS)}"]
    for hour, row in truth(40).iterrows():
        cells = [
            f"{value:,.10g}".replace(",", "X").replace(".", ",").replace("X", ".") for value in row
        ]
        lines.append(f"{hour:%d.%m.%Y %H:%M};{';'.join(cells)}")
    return "\n".join([*lines, ""])


def sentinel() -> str:
    """Return a file with -999 for a missing reading."""
    table = truth()
    table.iloc[10, 0] = table.iloc[20, 2] = -999
    return table.to_csv(index_label="time", lineterminator="\n")


def day_first() -> str:
    """Return a file with days as 30/01/2026, and hours up to 24:00."""
    lines = [f"time,{','.join(STATIONS)}"]
    for hour, row in truth().iterrows():
        assert isinstance(hour, pd.Timestamp)
        cells = ",".join(f"{value:.2f}" for value in row)
        lines.append(f"{_hour_ending(hour):%d/%m/%Y} {hour.hour or 24:02d}:00,{cells}")
    return "\n".join([*lines, ""])


def influx() -> str:
    """Return an export of InfluxDB as annotated CSV."""
    lines = ["#group,false,false,true,true,false,false,true,true",
        "#datatype,string,long,dateTime:RFC3339,dateTime:RFC3339,dateTime:RFC3339,double,string,string",
        "#default,mean,,,,,,,", ",result,table,_start,_stop,_time,_value,_field,device"]  # fmt: skip
    ends = "2024-01-30T00:00:00Z,2024-02-02T00:00:00Z"
    tables = [
        [
            f",,{i},{ends},{hour:%Y-%m-%dT%H:%M:%SZ},{value},level,{name}"
            for hour, value in zip(HOURS, column, strict=True)
        ]
        for i, (name, column) in enumerate(truth().items())
    ]
    return "\n".join("\n".join([*lines, *rows, ""]) for rows in tables)


def hours() -> str:
    """Return a file with a row for each station and day, and a column for the end of each hour."""
    lines = [f"Station;Datum;{';'.join(f'H{hour:02d}' for hour in range(1, 25))}"]
    for name, column in truth().items():
        for start in (0, 24):
            cells = [f"{value:.2f}".replace(".", ",") for value in column.iloc[start : start + 24]]
            lines.append(f"{name};{HOURS[start]:%d.%m.%Y};{';'.join(cells)}")
    return "\n".join([*lines, ""])


# The name of each file, and its text.
FILES: dict[str, Callable[[], str]] = {
    "openaq.csv": openaq,
    "aqs_hourly.csv": aqs_hourly,
    "aqs_daily.csv": aqs_daily,
    "sensor_community.csv": sensor_community,
    "spreadsheet.csv": spreadsheet,
    "uk_air.csv": uk_air,
    "campbell.dat": campbell,
    "influx.csv": influx,
    "hours.csv": hours,
    "thousands.csv": thousands,
    "sentinel.csv": sentinel,
    "day_first.csv": day_first,
    "sites.csv": places,
}
