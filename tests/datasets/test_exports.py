"""Files as instruments and services export them, read with the times and values of the instrument."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tvbandits.datasets import FileOptions
from tvbandits.datasets.tables.readings import parse_numbers, pivot_by_time, read_source

HOURS = pd.date_range("2024-01-30", periods=48, freq="1h")
NAMES = ["101", "102", "103"]
VALUES = pd.DataFrame(
    np.round(18 + 5 * np.sin(np.arange(48)[:, None] / 5 + np.arange(3)), 1), HOURS, NAMES
)


def long(header: str, row: Callable[[pd.Timestamp, str, float], str], end: str = "\n") -> str:
    rows = [row(t, name, VALUES.at[t, name]) for name in NAMES for t in HOURS]
    return end.join([header, *rows, ""])


def wide(times: Callable[[pd.Timestamp], str], header: str = "time") -> str:
    rows = [
        f"{times(t)};{';'.join(map(str, row))}" for t, row in zip(HOURS, VALUES.values, strict=True)
    ]
    return "\n".join([";".join([header, *NAMES]), *rows, ""])


def days(hours: list[str]) -> str:
    """A row for each station and day, and a column for each hour."""
    rows = [
        ";".join([name, f"{day:%d.%m.%Y}", *VALUES[name][day : day + pd.Timedelta("23h")].map(str)])
        for name in NAMES
        for day in HOURS[::24]
    ]
    return "\n".join([";".join(["Station", "Datum", *hours]), *rows, ""])


INFLUX = (
    "#group,false,false,true,false,false,true\n#datatype,string,long,dateTime:RFC3339,"
    "dateTime:RFC3339,double,string\n#default,mean,,,,,\n,result,table,_start,_time,_value,device\n"
)

# Text, options, and by how much the times of the file are later than `HOURS`.
FILES: dict[str, tuple[str, dict[str, Any], str]] = {
    "PurpleAir": (
        long(
            "time_stamp,sensor_index,humidity_a,pm2.5_atm_a",
            lambda t, n, v: f"{t:%Y-%m-%dT%H:%M:%SZ},{n},55,{v}",
        ),
        {"value": "pm2.5_atm_a"},
        "0h",
    ),
    "openSenseMap": (
        long("createdAt,value,height,sensorId", lambda t, n, v: f"{t.isoformat()}.000Z,{v},,{n}"),
        {},
        "0h",
    ),
    "LoRaWAN": (
        long("received_at,device_id,f_cnt,t", lambda t, n, v: f"{t.isoformat()}Z,{n},7,{v}"),
        {"value": "t", "time": "received_at"},
        "0h",
    ),
    "EEA": (
        long(
            "SamplingPoint,AveragingTime,Concentration,DatetimeBegin,DatetimeEnd,Validity",
            lambda t, n, v: (
                f"{n},hour,{v},{t} +01:00,{t + pd.Timedelta('1h')} +01:00,{1 + t.hour % 2}"
            ),
        ),
        {"time": "DatetimeBegin"},
        "-1h",
    ),
    "AirBase": (
        long(
            "station_code;datetime_begin;value;validity",
            lambda t, n, v: f"{n};{t:%d/%m/%Y %H:%M};{str(v).replace('.', ',')};{1 - t.hour % 2}",
        ),
        {},
        "0h",
    ),
    "KNMI": (
        long(
            "# T = temperature\n# STN,YYYYMMDD,   HH,    T\n",
            lambda t, n, v: f"  {n},{t:%Y%m%d},{t.hour + 1:5d},{v}",
        ),
        {},
        "1h",
    ),
    "Meteo-France": (
        long(
            "NUM_POSTE;LAT;LON;AAAAMMJJHH;T;QT",
            lambda t, n, v: f"{n};48.{n};2.1;{t:%Y%m%d%H};{v};1",
        ),
        {"value": "T"},
        "0h",
    ),
    "USGS": (
        long(
            "# USGS\nagency_cd\tsite_no\tdatetime\ttz_cd\t67890_00060\n5s\t15s\t20d\t6s\t14n",
            lambda t, n, v: f"USGS\t{n}\t{t:%Y-%m-%d %H:%M}\tEST\t{v}",
        ),
        {},
        "0h",
    ),
    "InfluxDB": (
        "\n".join(
            INFLUX + "".join(f",,{i},{HOURS[0]},{t},{VALUES.at[t, n]},{n}\n" for t in HOURS)
            for i, n in enumerate(NAMES)
        ),
        {},
        "0h",
    ),
    "Home Assistant": (
        long("entity_id,state,last_changed", lambda t, n, v: f"{n},{v},{t}.123Z")
        + "101,unavailable,2024-01-30T12:30:00.000Z\n",
        {"station": "entity_id", "missing": ["unavailable"]},
        "0.123s",
    ),
    "milliseconds": (
        long("ts,deviceId,temp", lambda t, n, v: f"{int(t.timestamp() * 1000)},{n},{v}"),
        {"dates": "ms", "station": "deviceId"},
        "0h",
    ),
    "seconds": (wide(lambda t: f"{int(t.timestamp())}"), {"dates": "s"}, "0h"),
    "short years": (wide(lambda t: f"{t:%m/%d/%y %I:%M %p}"), {"dates": "%m/%d/%y %I:%M %p"}, "0h"),
    "words of a zone": (
        wide(lambda t: f"{t:%a %b %d %H:%M:%S} CET {t:%Y}"),
        {"dates": "%a %b %d %H:%M:%S CET %Y"},
        "0h",
    ),
    "an offset": (wide(lambda t: f"{t:%y%m%d %H%M}+0100"), {"dates": "%y%m%d %H%M%z"}, "-1h"),
    "logging": (wide(lambda t: f"{t:%Y-%m-%d %H:%M:%S},000"), {}, "0h"),
    "Davis": (wide(lambda t: f"{t:%m/%d/%Y};{t:%I:%M %p}", "Date;Time"), {}, "0h"),
    "Davis, older": (
        wide(lambda t: f"{t:%d/%m/%Y};{t:%I:%M}{'ap'[t.hour > 11]}", "Date;Time"),
        {},
        "0h",
    ),
    "Excel, Spanish": (wide(lambda t: f"{t:%d/%m/%Y %I:%M:%S} {'ap'[t.hour > 11]}. m."), {}, "0h"),
    "SMHI": (wide(lambda t: f"{t:%Y-%m-%d};{t:%H:%M:%S}", "Datum;Tid (UTC)"), {}, "0h"),
    "hours of days": (days([f"{hour:02d}:00" for hour in range(24)]), {}, "0h"),
    "hours that end": (days([f"H{hour:02d}" for hour in range(1, 25)]), {}, "1h"),
}


def read(path: Path, content: str, options: dict[str, Any]) -> pd.DataFrame:
    path.write_text(content, encoding="utf-8")
    given = FileOptions(**options)
    table = pivot_by_time(read_source(path, "values", given).cells, NAMES, given).cells[NAMES]
    return parse_numbers(table, options=given)


@pytest.mark.parametrize("name", FILES)
def test_read_source_returns_times_and_values_of_each_export(name: str, tmp_path: Path) -> None:
    content, options, later = FILES[name]
    table = read(tmp_path / "r.csv", content, options).dropna(how="all")
    expected = VALUES.set_axis(HOURS + pd.Timedelta(later)).astype(float)
    np.testing.assert_array_equal(table.to_numpy(), expected.to_numpy())
    assert (table.index == expected.index).all()


def test_read_source_reads_a_logger_with_numbered_rows_and_own_names(tmp_path: Path) -> None:
    rows = [
        f"{i},{t:%m/%d/%y %I:%M:%S %p},{v},\n"
        for i, (t, v) in enumerate(zip(HOURS, VALUES["101"], strict=True), 1)
    ]
    header = '"Plot Title: 101"\n"#","Date Time, GMT+01:00","101","End Of File"\n'
    options = {"dates": "%m/%d/%y %I:%M:%S %p", "time": "Date Time, GMT+01:00"}
    path = tmp_path / "r.csv"
    path.write_text(header + "".join(rows))
    for given in (options, {"dates": options["dates"]}):
        asked = FileOptions(**given)
        table = pivot_by_time(read_source(path, "values", asked).cells, ["101"], asked).cells
        assert [*table.columns] == ["101", "End Of File"]
        assert (table.index == HOURS).all()


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "two dates": (FILES["EEA"][0], {}, "may be DatetimeBegin or DatetimeEnd: say which by"),
    "a station that no name shows": (
        long("time,mote_nr,pm", lambda t, n, v: f"{t},{n},{v}"),
        {},
        r"comes 3 times, with another mote_nr each: .*station='mote_nr'.*without=\['mote_nr'\]",
    ),
    "no names": (
        long("GHCN1,20240101,TMAX,7", lambda t, n, v: f"{n},{t:%Y%m%d},TMAX,{v}"),
        {},
        "line 1 should have the names of the columns and has '20240101'",
    ),
    "no names, seconds": ("1706569200,18.5,19\n1706572800,18.6,19\n", {}, "names .* '1706569200'"),
    "times as names": (
        f"site,{','.join(map(str, HOURS))}\n101{',1.5' * 48}\n",
        {},
        "names in line 1 are times, such as '2024-01-30 00:00:00': transpose the table",
    ),
    "JSON": ('{"time": 1, "101": 2}\n', {}, "JSON, HTML or XML, not a table"),
    "HTML": ("<!DOCTYPE html>\n<html></html>\n", {}, "JSON, HTML or XML, not a table"),
    "a zone": (wide(lambda t: f"{t} CEST"), {}, r"such as \+01:00, in place of CEST"),
    "a zone in brackets": (wide(lambda t: f"{t}+02:00[Europe/Berlin]"), {}, "remove .Europe/Ber"),
    "short years": (FILES["short years"][0], {}, "four digits, .*dates='%d.%m.%y %H:%M'"),
    "another format": (FILES["seconds"][0], {"dates": "%Y"}, "'1706572800' is written differently"),
    "NOAA": (
        long('station,time,"T"', lambda t, n, v: f'{n},{t},"{round(v * 10):+05d},1"'),
        {"value": "T", "decimal": "point"},
        "a value and a mark of quality stand in this cell",
    ),
    "flags in brackets": (
        wide(str).replace(f"{VALUES.iat[0, 0]};", f"{VALUES.iat[0, 0]} (V);"),
        {},
        r"if '\(V\)' is a flag",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_read_source_refuses_an_ambiguous_export_with_a_remedy(name: str, tmp_path: Path) -> None:
    content, options, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "r.csv", content, options)


def test_pivot_by_time_takes_no_discrete_column_for_a_station(tmp_path: Path) -> None:
    """Six rows a minute, of which one column has few values: means, as before."""
    rows = [f"2024-01-30 00:{i // 6:02d},{i % 2},{i}" for i in range(60)]
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["time,relay,101", *rows, ""]))
    table = pivot_by_time(read_source(path).cells, ["x"]).cells
    assert [*table.columns] == ["relay", "101"]
    assert len(table) == 60


@pytest.mark.parametrize("dates", ["days", "", 7, "2024"])
def test_file_options_refuse_an_invalid_format_of_dates(dates: Any) -> None:
    with pytest.raises(ValueError, match="dates"):
        FileOptions(dates=dates)


def test_read_source_accepts_numbers_as_names_of_stations(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("time,0.5,1.5\n1,4,5\n2,5,6\n")
    assert [*read_source(path).cells.columns] == ["time", "0.5", "1.5"]
