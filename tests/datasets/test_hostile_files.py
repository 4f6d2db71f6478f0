"""Files and servers that mean no good: refused by name, in little memory and in finite time."""

from __future__ import annotations

import gzip
import os
import re
import resource
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.attack.servers import Script, redirect, serving
from tests.helpers.ozone_samples import airdata, field
from tvbandits.core.files.reading import ReadLimits, current_limits
from tvbandits.datasets import (
    DownloadLimits,
    abalone,
    describe,
    fetch_ozone,
    load_ozone,
    reading_limits,
    sensor_field,
    table,
)
from tvbandits.datasets.tables.readings import read_table
from tvbandits.experts import CachedLogExpert


def bomb_gz(folder: Path) -> Path:
    path = folder / "bomb.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"t,a,b\n")
        for _ in range(40):
            file.write(b"1,2,3\n" * 20_000)
    return path


def bomb_zip(folder: Path) -> Path:
    path = folder / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.csv", b"t,a,b\n" + b"1,2,3\n" * 800_000)
    return path


def many_rows(folder: Path) -> Path:
    path = folder / "rows.csv"
    path.write_text("t,a,b\n" + "1,2,3\n" * 2000)
    return path


def many_columns(folder: Path) -> Path:
    path = folder / "columns.csv"
    path.write_text(",".join(f"s{i}" for i in range(300)) + "\n" + ",".join("1" * 300) + "\n")
    return path


def one_line(folder: Path) -> Path:
    path = folder / "line.csv"
    path.write_bytes(b"1" * 5_000_000)
    return path


def parquet(folder: Path) -> Path:
    pytest.importorskip("pyarrow")
    path = folder / "small.parquet"
    pd.DataFrame({f"s{i}": np.zeros(30_000) for i in range(50)}).to_parquet(path)
    assert path.stat().st_size < 100_000
    return path


CASES: dict[str, tuple[Callable[[Path], Path], dict[str, int], str]] = {
    "gzip": (
        bomb_gz,
        {"unpacked_bytes": 10**6},
        "unpacked bytes or more, and the limit is 1000000",
    ),
    "zip": (
        bomb_zip,
        {"unpacked_bytes": 10**6},
        "unpacked bytes or more, and the limit is 1000000",
    ),
    "rows": (many_rows, {"rows": 1000}, "1001 rows or more, and the limit is 1000"),
    "columns": (many_columns, {"columns": 100}, "300 columns or more, and the limit is 100"),
    "one line": (one_line, {}, "the first line is longer than 4194304 bytes"),
    "parquet": (parquet, {"unpacked_bytes": 10**6}, "12000000 unpacked bytes or more"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("read", [describe, read_table, CachedLogExpert.from_csv])
def test_what_is_too_large_is_refused_by_name(
    case: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    make, limits, match = CASES[case]
    path = make(tmp_path)
    if case == "parquet" and read == CachedLogExpert.from_csv:
        read = CachedLogExpert.from_parquet
    with reading_limits(**limits), pytest.raises(ValueError, match=match) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    if limits:
        (name,) = limits
        assert f"reading_limits({name}=...)" in str(caught.value)
        assert f"TVBANDITS_READ_{name.upper()}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_limit_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = many_rows(tmp_path)
    with reading_limits(rows=1000):
        with pytest.raises(ValueError, match="the limit is 1000"):
            read_table(path)
        with reading_limits(rows=10_000):
            assert len(read_table(path)) == 2000
    monkeypatch.setenv("TVBANDITS_READ_ROWS", "1500")
    assert current_limits() == ReadLimits(rows=1500)
    with pytest.raises(ValueError, match="the limit is 1500"):
        read_table(path)
    monkeypatch.setenv("TVBANDITS_READ_ROWS", "many")
    with pytest.raises(ValueError, match="TVBANDITS_READ_ROWS must be a whole number, got 'many'"):
        read_table(path)
    with (
        pytest.raises(
            ValueError, match="there is no limit 'lines'; there are unpacked_bytes, rows"
        ),
        reading_limits(lines=3),
    ):
        pass


def test_a_date_of_9999_is_named(tmp_path: Path) -> None:
    rows = airdata(field())
    rows.loc[rows.index[-1], "Date Local"] = "9999-12-31"
    wide = pd.concat([rows.assign(**{"Site Num": f"{site:04d}"}) for site in range(40)])
    path = tmp_path / "ozone.csv"
    wide.to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"to 9999-12-31 at \d+ sites are more than 50000000"):
        load_ozone(path)
    with pytest.raises(ValueError, match=rf"{path}: .* to 9999-12-31 at .*one of the dates wrong"):
        describe(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes of that kind here")
def test_what_never_ends_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe"):
        for read in (describe, read_table, load_ozone, CachedLogExpert.from_csv):
            with pytest.raises(ValueError, match=f"{path}: not a regular file, but a device or a"):
                read(path)  # type: ignore[operator]


def test_a_log_of_many_columns_takes_a_moment() -> None:
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(3000)]
    frame = pd.DataFrame(rng.random((3, 3000)), columns=names)
    frame = frame.assign(t=1.0, value=2.0, variance=0.1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    expert = CachedLogExpert(frame)
    assert expert.query(frame[names].to_numpy(), 1.0).answered.all()
    # Quadratic, it was some ten seconds.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 5.0


# --- files of no kind, whoever reads them ---------------------------------------------------------

READERS: dict[str, Callable[[Path], object]] = {
    "describe": describe,
    "sensor_field": lambda path: sensor_field(path, SITES, noise_variance=1.0),
    "abalone": abalone,
    "load_ozone": load_ozone,
    "table": table,
    "from_csv": CachedLogExpert.from_csv,
    "from_parquet": CachedLogExpert.from_parquet,
}
SITES = pd.DataFrame({"id": ["7", "8"], "x": [0.0, 1.0], "y": [0.0, 0.0]})
UNREADABLE: dict[str, bytes] = {
    "empty.csv": b"",
    "lines.csv": b"\n\n",
    "elf.csv": b"\x7fELF\0\0\1",
    "name.csv": b"a\n",
    "letter.txt": b"Dear all,\nwe meet, at noon, or at one.\n",
    "binary.csv": bytes(range(128, 256)) * 4,
    "open.csv": b'a,"b\n1,2',
    "rough.csv": b"a,b\n1,2\n1,2,3\n",
    "bad.zip": b"PK\3\4 not a zip",
    "bad.csv.gz": b"not gzipped",
    "bad.parquet": b"PAR1" * 20,
    "short.parquet": b"PAR1",
    "half.db": b"SQLite format 3\0" + b"\1" * 200,
}


@pytest.mark.parametrize("reader", READERS)
def test_what_cannot_be_read_is_named_in_one_line(reader: str, tmp_path: Path) -> None:
    for name, content in UNREADABLE.items():
        (tmp_path / name).write_bytes(content)
    for name in (*UNREADABLE, "gone.csv", "."):
        path = tmp_path / name
        with pytest.raises((ValueError, FileNotFoundError), match=re.escape(str(path))) as caught:
            READERS[reader](path)
        assert "\n" not in str(caught.value), name


# --- servers --------------------------------------------------------------------------------------


OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
SERVERS: dict[str, tuple[Script, DownloadLimits, str]] = {
    "a body without an end": (
        (OK + b"\r\n", b"0" * 8192, 10**9, 0.0),
        DownloadLimits(largest=100_000, anywhere=True),
        r"bytes or more, and the limit is 100000; give DownloadLimits\(largest=...\)",
    ),
    "a byte now and then": (
        (OK + b'Content-Length: 1000000\r\nETag: "slow"\r\n\r\n', b"0", 10**9, 0.02),
        DownloadLimits(seconds=0.5, anywhere=True),
        r"not whole after 0\.5 seconds; DownloadLimits\(seconds=...\)",
    ),
    "a redirect to itself": (
        redirect(b"/daily_44201_2008.zip"),
        DownloadLimits(anywhere=True),
        "more than 5 redirects",
    ),
    "fewer bytes than promised": (
        (OK + b"Content-Length: 1000\r\n\r\n", b"0" * 100, 1, 0.0),
        DownloadLimits(anywhere=True),
        "the connection was cut",
    ),
}


@pytest.mark.parametrize("case", SERVERS)
def test_hostile_servers(case: str, tmp_path: Path) -> None:
    script, limits, match = SERVERS[case]
    with serving(lambda *_: script) as (url, _), pytest.raises(OSError, match=match):
        fetch_ozone(2008, cache=tmp_path, base_url=url, limits=limits)
    assert list(tmp_path.iterdir()) == []


def test_https_from_the_same_host_unless_told_otherwise(tmp_path: Path) -> None:
    here = "https://example.org/file"
    strict = DownloadLimits()
    strict.check("https://example.org/elsewhere", here)
    for url, match in (
        ("http://example.org/file", "not https"),
        ("https://169.254.169.254/latest", "sends us to another host, 169.254.169.254"),
        ("https://example.org:8443/file", "sends us to another host"),
        ("file:///etc/passwd", "neither http nor https"),
    ):
        with pytest.raises(OSError, match=match):
            strict.check(url, here)
    DownloadLimits(anywhere=True).check("http://10.0.0.1/file", here)
    with (
        serving(lambda *_: redirect(b"http://169.254.169.254/latest/meta-data")) as (url, _),
        pytest.raises(OSError, match=r"127\.0\.0\.1.*: not https"),
    ):
        fetch_ozone(2008, cache=tmp_path, base_url=url)
