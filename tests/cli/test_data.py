"""`tvbandits data fetch` and `tvbandits data info`, mounted as the command line does it."""

from __future__ import annotations

import os
import pty
import select
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from tests.attack.recordings import make
from tests.datasets.test_fetch import BODY, NEWER, ZIP
from tests.helpers.file_server import Served, serving
from tests.helpers.ozone_samples import airdata, csv, field
from tvbandits.cli.data import SPREAD, app, years_of
from tvbandits.cli.main import spread
from tvbandits.datasets import ozone
from tvbandits.datasets.epa_ozone.fetch import DownloadLimits, fetch_ozone


class Said(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def served() -> Iterator[Served]:
    with serving({ZIP: BODY, "daily_44201_2009.zip": NEWER}) as server:
        yield server


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Said:
    """A command that ends well, or with a status of its own; other errors come through."""
    whole = typer.Typer()
    whole.add_typer(app, name="data")
    whole.callback()(lambda: None)
    words = spread(["data", *map(str, arguments)], SPREAD)
    status = whole(words, standalone_mode=False)
    return Said(status or 0, *capsys.readouterr())


# --- fetch


def test_fetch(served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = tmp_path / "our cache"
    options = ("--cache", cache, "--base-url", served.url, "--anywhere")
    said = run(capsys, "fetch", "ozone", "--years", "2008", "2009", "--state", "New York", *options)
    paths = [cache / f"daily_44201_{year}_new-york.csv" for year in (2008, 2009)]
    *lines, command = said.out.splitlines()
    assert lines == [str(path) for path in paths]
    assert said.err == ""
    words = shlex.split(command)
    assert words[:3] == ["tvbandits", "compare", "ozone"]
    assert words[3:] == ["--data", str(paths[0]), "--data", str(paths[1])]
    assert len(ozone(paths).labels) == 2
    said = run(capsys, "fetch", "ozone", "--years", "2008-2009", *options)
    assert said.out.splitlines()[:2] == [str(cache / ZIP), str(cache / "daily_44201_2009.zip")]
    assert "tvbandits compare ozone:sites=28 --data " in said.out
    assert len(served.asked) == 2


def test_fetch_into_the_folder_of_the_environment(
    served: Served,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TVBANDITS_CACHE", str(tmp_path / "there"))
    run(capsys, "fetch", "ozone", "--years", "2008", "--base-url", served.url, "--anywhere")
    assert (tmp_path / "there" / ZIP).read_bytes() == BODY


def test_what_cannot_be_fetched(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--cache", tmp_path, "--base-url", served.url, "--anywhere")
    with pytest.raises(ValueError, match='unknown data set "weather"; there is: ozone'):
        run(capsys, "fetch", "weather", "--years", "2008", *options)
    with pytest.raises(ValueError, match="--years must name at least one year"):
        run(capsys, "fetch", "ozone", *options)
    with pytest.raises(ValueError, match='--cache must name a folder, got " "'):
        run(capsys, "fetch", "ozone", "--years", "2008", "--cache", " ")
    with pytest.raises(OSError, match=rf"{served.url}/daily_44201_2035.zip: HTTP status 404 Not"):
        run(capsys, "fetch", "ozone", "--years", "2035", *options)
    with pytest.raises(ValueError, match="state=Atlantis has no rows"):
        run(capsys, "fetch", "ozone", "--years", "2008", "--state", "Atlantis", *options)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("texts", "years"),
    [
        (["2008"], [2008]),
        (["2008", "2005"], [2008, 2005]),
        (["2008-2010", "2012"], [2008, 2009, 2010, 2012]),
        (["2008-2008"], [2008]),
        ([], []),
    ],
)
def test_years(texts: list[str], years: list[int]) -> None:
    assert years_of(texts) == years


@pytest.mark.parametrize(
    "text", ["", "08", "2010-2008", "2008-", "2008-10", "2008.5", "all", "20081"]
)
def test_years_that_cannot_be(text: str) -> None:
    with pytest.raises(ValueError, match=rf'such as 2008 or 2008-2010, got "{text}"'):
        years_of(["2008", text])


SCRIPT = """
import sys
from tvbandits.cli.data import app
from tvbandits.datasets.epa_ozone import fetch
fetch.CHUNK = 100
app(sys.argv[1:], standalone_mode=False)
"""


@pytest.mark.slow
def test_a_bar_on_a_terminal_only(served: Served, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, "fetch", "ozone", "--years", "2008"]
    command += ["--base-url", served.url, "--anywhere", "--cache"]
    piped = subprocess.run(
        [*command, str(tmp_path / "a")], capture_output=True, check=True, timeout=60
    )
    assert piped.stderr == b""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    with subprocess.Popen(
        [*command, str(tmp_path / "b")], stdout=subprocess.PIPE, stderr=slave, env=environment
    ) as process:
        os.close(slave)
        shown = b""
        while select.select([master], [], [], 30)[0]:
            try:
                piece = os.read(master, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(master)
    assert process.returncode == 0
    assert ZIP.encode() in shown
    assert out.replace(b"/b/", b"/a/") == piped.stdout


# --- info


def test_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = csv(tmp_path / "a.csv", airdata(field())), tmp_path / "b.bin"
    said = run(capsys, "info", one)
    assert said.status == 0
    assert said.out.startswith(f"{one}: EPA daily ozone\n  rows ")
    assert said.err == ""
    other.write_bytes(b"\0\1\2")
    (tmp_path / "empty").write_bytes(b"")
    said = run(capsys, "info", other, one, tmp_path / "empty", tmp_path / "gone", tmp_path)
    assert said.status == 2
    assert said.out.count("EPA daily ozone") == 1
    assert said.err.splitlines() == [
        f"tvbandits: {other}: a binary file of a kind that is not known",
        f"tvbandits: {tmp_path / 'empty'}: the file is empty",
        f"tvbandits: {tmp_path / 'gone'}: No such file or directory",
        f"tvbandits: {tmp_path}: Is a directory",
    ]


def test_info_of_what_was_fetched(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = fetch_ozone(
        [2008], cache=tmp_path, base_url=served.url, limits=DownloadLimits(anywhere=True)
    )
    assert f"--data {path}" in run(capsys, "info", path).out


# --- verify


def test_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.db", tmp_path / "bad.db"
    make(good)
    make(bad)
    with closing(sqlite3.connect(bad)) as connection:
        connection.execute("UPDATE journal SET at = '' WHERE seq = 1")
        connection.commit()
    said = run(capsys, "verify", good)
    assert said.status == 0
    assert said.out == (
        f"{good}: 8 questions about 48 points, 48 answers: every row is as it was written\n"
    )
    said = run(capsys, "verify", bad, good, tmp_path / "gone.db")
    assert said.status == 2
    assert said.out.count("every row is as it was written") == 1
    damaged, gone = said.err.splitlines()
    assert damaged.endswith("is damaged: row 1 of the journal is not as it was written")
    assert "there is no SQLite file" in gone
