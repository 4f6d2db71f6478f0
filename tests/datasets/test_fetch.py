"""Downloads: once, checked at each use, and never half in place."""

import fcntl
import gzip
import hashlib
import io
import os
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd
import pooch
import pytest

from tests.helpers.file_server import ServedFiles, serve_files
from tests.helpers.ozone_samples import airdata, assert_same_problem, field
from tests.helpers.refusals import assert_refused
from tvbandits.datasets import abalone, sensor_field
from tvbandits.datasets.epa_ozone import fetch
from tvbandits.datasets.epa_ozone.benchmark import ozone
from tvbandits.datasets.epa_ozone.fetch import fetch_ozone
from tvbandits.datasets.tables.readings import read_table

ZIP = "daily_44201_2008.zip"


def zipped(text: str | bytes, kind: int = zipfile.ZIP_STORED) -> bytes:
    """Stored, so that a byte changed anywhere is a byte changed in the csv."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("daily_44201_2008.csv"), text, kind)
    return buffer.getvalue()


# As the EPA writes it: texts in quotation marks, numbers without.
TEXT = airdata(field()).to_csv(index=False, quoting=2)
BODY = zipped(TEXT)
NEWER = zipped(TEXT.replace("LOUDON", "loudon"))
# A byte has changed on the way.
BROKEN = BODY.replace(b"LOUDON", b"LOUD0N", 1)
NOT_A_ZIP = b"<html>Not here</html>" * 40


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is left of a chunk when a connection is cut is lost.
    monkeypatch.setattr(fetch, "LIMITS", replace(fetch.LIMITS, chunk=100))


@pytest.fixture
def served() -> Iterator[ServedFiles]:
    with serve_files({ZIP: BODY, "daily_44201_2009.zip": NEWER}) as server:
        yield server


def get(
    served: ServedFiles, cache: Path, years: tuple[int, ...] = (2008,), **more: object
) -> list[Path]:
    return fetch_ozone(years, cache=cache, base_url=served.url, **more)  # type: ignore[arg-type]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# --- once, and checked


def test_fetch_ozone_downloads_a_file_once_and_records_its_hash(
    served: ServedFiles, tmp_path: Path
) -> None:
    cache = tmp_path / "new" / "cache"
    assert get(served, cache, (2008, 2009, 2008)) == [cache / ZIP, cache / "daily_44201_2009.zip"]
    assert (cache / ZIP).read_bytes() == BODY
    assert names(cache) == {ZIP, "daily_44201_2009.zip", "registry.txt"}
    assert (cache / "registry.txt").read_text() == "".join(
        f"{name} {hashlib.sha256(body).hexdigest()}\n"
        for name, body in ((ZIP, BODY), ("daily_44201_2009.zip", NEWER))
    )
    served.files.clear()
    assert len(get(served, cache, (2008, 2009))) == 2
    assert len(served.requests) == 2


def test_fetch_ozone_refuses_a_changed_file_by_its_path(
    served: ServedFiles, tmp_path: Path
) -> None:
    (path,) = get(served, tmp_path)
    path.write_bytes(NEWER)
    message = rf"{re.escape(str(path))}: the file has changed .* delete it to download it again"
    assert_refused(ValueError, message, get, served, tmp_path)
    assert path.read_bytes() == NEWER
    path.unlink()
    served.files[ZIP] = NEWER  # a newer edition is a new first download
    get(served, tmp_path)
    get(served, tmp_path)
    assert len(served.requests) == 2


def test_fetch_ozone_accepts_a_file_placed_by_hand_only_if_it_opens(
    served: ServedFiles, tmp_path: Path
) -> None:
    (tmp_path / ZIP).write_bytes(BODY[:-30])
    assert_refused(ValueError, rf"{ZIP}: File is not a zip file", get, served, tmp_path)
    (tmp_path / ZIP).write_bytes(BODY)
    get(served, tmp_path)
    assert served.requests == []
    assert names(tmp_path) == {ZIP, "registry.txt"}


def test_fetch_ozone_refuses_an_invalid_registry(served: ServedFiles, tmp_path: Path) -> None:
    (tmp_path / "registry.txt").write_text("daily\n")
    assert_refused(ValueError, r"registry\.txt: ", get, served, tmp_path)


def test_fetch_ozone_takes_the_folder_from_argument_variable_or_home(
    served: ServedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVBANDITS_CACHE", str(tmp_path / "variable"))
    assert get(served, tmp_path / "given") == [tmp_path / "given" / ZIP]
    assert fetch_ozone([2008], base_url=served.url) == [tmp_path / "variable" / ZIP]
    monkeypatch.delenv("TVBANDITS_CACHE")
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "home" / name)
    assert fetch_ozone([2008], base_url=served.url + "/") == [tmp_path / "home" / "tvbandits" / ZIP]


def test_fetch_ozone_reports_progress_in_small_steps(
    served: ServedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "LIMITS", replace(fetch.LIMITS, chunk=1000))
    told: list[tuple[str, int, int | None]] = []
    get(served, tmp_path, progress=lambda *args: told.append(args))
    assert {(name, total) for name, _, total in told} == {(ZIP, len(BODY))}
    sizes = [0, *(size for _, size, _ in told)]
    assert sizes[-1] == len(BODY)
    assert all(0 < step <= 1000 for step in np.diff(sizes))


# --- a cut download


def test_fetch_ozone_downloads_again_after_a_cut_connection(
    served: ServedFiles, tmp_path: Path
) -> None:
    served.cut = 700
    assert_refused(
        OSError, rf"{served.url}/{ZIP}: .* has cut the connection", get, served, tmp_path
    )
    assert names(tmp_path) == set()
    assert get(served, tmp_path)[0].read_bytes() == BODY
    assert names(tmp_path) == {ZIP, "registry.txt"}


def test_fetch_ozone_leaves_no_file_after_an_interruption(
    served: ServedFiles, tmp_path: Path
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(served, tmp_path, progress=stop)
    assert names(tmp_path) == set()


# --- what must never be put in place


@pytest.mark.parametrize("body", [BROKEN, NOT_A_ZIP, b""], ids=["broken", "html", "empty"])
def test_fetch_ozone_removes_a_download_that_does_not_open(
    served: ServedFiles, tmp_path: Path, body: bytes
) -> None:
    served.files[ZIP] = body
    assert_refused(
        OSError, rf"{served.url}/{ZIP}: the download does not open", get, served, tmp_path
    )
    assert names(tmp_path) == set()


@pytest.mark.parametrize("more", [-40, 40])
def test_fetch_ozone_refuses_a_download_of_the_wrong_length(
    served: ServedFiles, tmp_path: Path, more: int
) -> None:
    served.length = len(BODY) + more
    assert_refused(OSError, f"{served.url}/{ZIP}: ", get, served, tmp_path)
    assert ZIP not in names(tmp_path)
    served.length = None
    assert get(served, tmp_path)[0].read_bytes() == BODY


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_fetch_ozone_names_url_and_status_of_an_http_error(
    served: ServedFiles, tmp_path: Path, status: int
) -> None:
    served.status = status
    assert_refused(
        OSError, rf"^{served.url}/{ZIP}: HTTP status {status} \w+", get, served, tmp_path
    )
    assert names(tmp_path) == set()


def test_fetch_ozone_stops_if_the_server_does_not_answer(
    served: ServedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "LIMITS", replace(fetch.LIMITS, patience=0.05))
    served.silent = threading.Event()
    with pytest.raises(TimeoutError, match=rf"^{served.url}/{ZIP}: no answer within 0\.05 seconds"):
        get(served, tmp_path)


def test_fetch_ozone_stops_if_the_answer_stalls_and_can_be_repeated(
    served: ServedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "LIMITS", replace(fetch.LIMITS, patience=0.3))
    served.cut, served.stalled = 700, threading.Event()
    assert_refused(TimeoutError, rf"{ZIP}: no answer within 0\.3 seconds", get, served, tmp_path)
    served.stalled.set()
    monkeypatch.setattr(fetch, "LIMITS", replace(fetch.LIMITS, patience=30.0))
    assert get(served, tmp_path)[0].read_bytes() == BODY


def test_fetch_ozone_names_the_url_of_an_unreachable_server(tmp_path: Path) -> None:
    with serve_files({}) as gone:
        pass
    assert_refused(
        OSError, rf"^{gone.url}/{ZIP}: the server cannot be reached", get, gone, tmp_path
    )


def test_fetch_ozone_refuses_invalid_arguments(tmp_path: Path) -> None:
    for year in (1979, 2008.5, "2008", True):
        match = f"^years must be a whole number of at least 1980, got {year!r}"
        assert_refused(ValueError, match, fetch_ozone, [year], cache=tmp_path)
    assert_refused(ValueError, "at least one year, got none", fetch_ozone, [], cache=tmp_path)
    with pytest.raises(ValueError, match=r"base_url must begin with http:// .*, got 'ftp://x'"):
        fetch_ozone([2008], cache=tmp_path, base_url="ftp://x")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cache must be a folder, got .*file.: File exists"):
        fetch_ozone([2008], cache=tmp_path / "file", base_url="http://127.0.0.1:9")
    assert names(tmp_path) == {"file"}


# --- several at once


def test_fetch_ozone_locks_the_folder_during_a_download(
    served: ServedFiles, tmp_path: Path
) -> None:
    kept_out = []

    def try_to_enter(*_: object) -> None:
        handle = os.open(tmp_path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            kept_out.append(True)
        finally:
            os.close(handle)

    try_to_enter()
    assert not kept_out
    get(served, tmp_path, progress=try_to_enter)
    assert len(kept_out) == -(-len(BODY) // 100)
    kept_out.clear()
    try_to_enter()
    assert not kept_out


def test_fetch_ozone_downloads_whole_files_in_threads_without_locks(
    served: ServedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def assert_refused(*_: object) -> NoReturn:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", assert_refused)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(partial(get, served), [tmp_path] * 4))
    assert (tmp_path / ZIP).read_bytes() == BODY
    assert names(tmp_path) == {ZIP, "registry.txt"}


# --- the rows of one state


@pytest.mark.parametrize("state", ["New York", " new york", "36"])
def test_fetch_ozone_keeps_the_rows_of_one_state(
    served: ServedFiles, tmp_path: Path, state: str
) -> None:
    (path,) = get(served, tmp_path, state=state)
    assert path == tmp_path / "daily_44201_2008_new-york.csv"
    whole = pd.read_csv(io.StringIO(TEXT), dtype=str)
    expected = whole[whole["State Code"] == "36"].reset_index(drop=True)
    assert 0 < len(expected) < len(whole)
    pd.testing.assert_frame_equal(pd.read_csv(path, dtype=str), expected)
    assert_same_problem(ozone(path), ozone(tmp_path / ZIP, state="New York"))


def test_fetch_ozone_keeps_foreign_letters_and_line_ends(
    served: ServedFiles, tmp_path: Path
) -> None:
    odd = TEXT.replace("LOUDON", "LOU\nDON\xff").replace("\n", "\r\n").encode("latin-1")
    served.files[ZIP] = zipped(odd)
    (path,) = get(served, tmp_path, state="New York")
    assert_same_problem(ozone(path), ozone(tmp_path / ZIP, state="New York"))


def test_fetch_ozone_writes_a_damaged_csv_again_from_its_zip(
    served: ServedFiles, tmp_path: Path
) -> None:
    (path,) = get(served, tmp_path, state="Alabama")
    before = path.read_bytes()
    path.write_text("spoiled")
    assert get(served, tmp_path, state="1")[0].read_bytes() == before
    assert path.stat().st_mode & 0o444 == 0o444


def test_fetch_ozone_refuses_a_zip_without_states_or_with_two_files(
    served: ServedFiles, tmp_path: Path
) -> None:
    served.files[ZIP] = zipped("a,b\n1,2\n")
    match = rf"{ZIP}: the csv has no columns State Code and State Name"
    assert_refused(ValueError, match, get, served, tmp_path, state="New York")
    with zipfile.ZipFile(tmp_path / "daily_44201_2009.zip", "w") as archive:
        archive.writestr("a.csv", TEXT)
        archive.writestr("b.csv", TEXT)
    match = r"2009\.zip: .*Only one file per ZIP"
    assert_refused(ValueError, match, get, served, tmp_path, (2009,), state="New York")


# --- files and servers that mean no good: refused by name, in little memory and in finite time


def table(rows: int, columns: int = 3) -> str:
    return (
        ",".join(f"s{i}" for i in range(columns)) + "\n" + (",".join("1" * columns) + "\n") * rows
    )


def parquet() -> bytes:
    pytest.importorskip("pyarrow")
    made: bytes = pd.DataFrame({f"s{i}": np.zeros(30_000) for i in range(50)}).to_parquet()
    assert len(made) < 100_000
    return made


MB = {"unpacked_bytes": 10**6}
CASES: dict[str, tuple[Callable[[], bytes], dict[str, int], str]] = {
    "bomb.csv.gz": (lambda: gzip.compress(table(800_000).encode(), compresslevel=1), MB,
        "unpacked bytes, but the limit is 1000000"),
    "bomb.zip": (lambda: zipped(table(800_000), zipfile.ZIP_DEFLATED), MB,
        "unpacked bytes, but the limit is 1000000"),
    "rows.csv": (table(2000).encode, {"rows": 1000}, "at least 1001 rows, but the limit is 1000"),
    "columns.csv": (table(1, 300).encode, {"columns": 100},
        "at least 300 columns, but the limit is 100"),
    "line.csv": (lambda: b"1" * 5_000_000, {}, "the first line is longer than 4194304 bytes"),
    "small.parquet": (parquet, MB, "at least 12000000 unpacked bytes"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_read_table_refuses_a_file_above_a_limit_by_its_path(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, limits, match = CASES[case]
    path = tmp_path / case
    path.write_bytes(make())
    for name, most in limits.items():
        monkeypatch.setenv(f"TVBANDITS_READ_{name.upper()}", str(most))
    with pytest.raises(ValueError, match=match) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"{path}: ")
    if limits:
        assert f"set TVBANDITS_READ_{name.upper()} to" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_read_table_takes_its_limit_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(table(2000))
    assert len(read_table(path)) == 2000
    monkeypatch.setenv("TVBANDITS_READ_ROWS", "1500")
    assert_refused(ValueError, "the limit is 1500", read_table, path)
    monkeypatch.setenv("TVBANDITS_READ_ROWS", "3000")
    assert len(read_table(path)) == 2000
    monkeypatch.setenv("TVBANDITS_READ_ROWS", "many")
    assert_refused(ValueError, "TVBANDITS_READ_ROWS must be a whole number of", read_table, path)


# --- files of no kind, whoever reads them ---------------------------------------------------------

READERS: dict[str, Callable[[Path], object]] = {
    "sensor_field": lambda path: sensor_field(path, SITES, noise_variance=1.0),
    "abalone": abalone,
    "ozone": ozone,
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
def test_readers_name_an_unreadable_file_in_one_line(reader: str, tmp_path: Path) -> None:
    for name, content in UNREADABLE.items():
        (tmp_path / name).write_bytes(content)
    for name in (*UNREADABLE, "gone.csv", "."):
        path = tmp_path / name
        with pytest.raises((ValueError, FileNotFoundError), match=re.escape(str(path))) as caught:
            READERS[reader](path)
        assert "\n" not in str(caught.value), name


def test_fetch_ozone_refuses_a_download_above_the_largest_size(
    served: ServedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "LIMITS", replace(fetch.LIMITS, largest=300))
    assert_refused(
        OSError, rf"^{served.url}/{ZIP}: the file has more bytes than 300", get, served, tmp_path
    )
    assert ZIP not in names(tmp_path)
