"""Hostile files: refused by an error that names them, in little time and memory, whoever reads them.

Every file here is made in a temporary folder: bombs of gzip, zip, bzip2, xz and Parquet, tables that are
too wide, too long or too deep, dates of the year 9999, devices, pipes, links in circles, binary under
every name, texts with escapes. Each is given to everything public that reads a file (found by its
parameters), in a process of its own with a limit of memory; the most it took, and how long, is measured.
"""

import bz2
import gzip
import lzma
import os
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from tests.attack.calls import Call, calls
from tests.attack.children import Ended, in_a_child
from tests.attack.good_values import ozone
from tests.attack.report import CRASHED, SILENT, Count, Found, Trial, in_the_loop, some

# Of a process: seconds, bytes that it may ask for, and megabytes that it may hold.
SECONDS, MEMORY, MOST = 60, 4 << 30, 2500.0

# Parameters that a file may be given to.
READERS = ("file", "files", "path", "rows", "values", "sites", "connection")

UNPACKED = 2_400_000_000

Make = Callable[[Path, np.random.Generator], object]


def _gzip_bomb(path: Path, _: object) -> None:
    line = b"1,2,3\n" * 200_000
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"time,a,b\n")
        for _ in range(UNPACKED // len(line)):
            file.write(line)


def _packed(opener: Callable[[Path], Any], size: int) -> Make:
    def make(path: Path, _: object) -> None:
        with opener(path) as file:
            for _ in range(size // (1 << 20)):
                file.write(bytes(1 << 20))

    return make


def _zip_bomb(path: Path, _: object) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.csv", "w", force_zip64=True) as file,
    ):
        for _ in range(1 << 10):
            file.write(b"0,0\n" * (1 << 18))


def _parquet_bomb(path: Path, _: object) -> None:
    column = pyarrow.array(np.zeros(5_000_000))
    table = pyarrow.table(dict.fromkeys([f"x{i}" for i in range(60)], column))
    pyarrow.parquet.write_table(table, path, compression="zstd", use_dictionary=True)


def _text(text: str) -> Make:
    return lambda path, _: path.write_text(text)


def _noise(start: bytes = b"") -> Make:
    return lambda path, rng: path.write_bytes(start + rng.bytes(int(rng.integers(1, 20_000))))


def _link(target: str) -> Make:
    return lambda path, _: path.symlink_to(target)


WIDE = (
    ",".join(f"x{i}" for i in range(4000)) + ",t,value,variance\n" + ",".join(["1"] * 4003) + "\n"
)

# Files by name, and how they are made.
FILES: dict[str, Make] = {
    "gzip bomb.csv.gz": _gzip_bomb,
    "bzip2 bomb.csv.bz2": _packed(partial(bz2.open, mode="wb"), 1 << 30),
    "xz bomb.csv.xz": _packed(partial(lzma.open, mode="wb"), 1 << 30),
    "zip bomb.zip": _zip_bomb,
    "parquet bomb.parquet": _parquet_bomb,
    "four thousand columns.csv": _text(WIDE),
    "a million columns.csv": _text("a," * 1_000_000 + "\n"),
    "one line.csv": _packed(lambda path: path.open("wb"), 20 << 20),
    "year 9999 ozone.csv": lambda path, _: (
        ozone().replace("2008-01-29", "9999-12-31").to_csv(path, index=False)
    ),
    "year 9999.csv": _text("time,a,b\n2024-01-01,1,2\n2024-01-02,1,2\n9999-12-31,3,4\n"),
    "laughs.csv": _text("x0,t,value,variance\n" + "1e308,1e308,1e308,5e-324\n" * 1000),
    "escapes.csv": _text("\x1b]0;title\x07id,\x1b[2Jx,y\n\x1b[31m,1,2\n"),
    "empty.csv": _text(""),
    "noise.csv": _noise(),
    "noise.gz": _noise(b"\x1f\x8b\x08"),
    "noise.zip": _noise(b"PK\x03\x04"),
    "noise.parquet": _noise(b"PAR1"),
    "noise.db": _noise(b"SQLite format 3\0"),
    "circle.csv": _link("circle.csv"),
    "to a device.csv": _link("/dev/zero"),
    "to nowhere.csv": _link("nowhere"),
    "pipe.csv": lambda path, _: os.mkfifo(path),
    "folder.csv": lambda path, _: path.mkdir(),
}

DEVICES = ("/dev/zero", "/dev/random", "/dev/stdin", "/proc/self/mem", "/proc/kmsg")


def readers() -> Iterator[tuple[Call, str]]:
    """Everything public that reads a file, and the parameter that names it."""
    for call in calls():
        for name in call.parameters:
            places = any(word in call.name for word in ("datasets.", "from_", "record", "verify"))
            if name in READERS and places and call.name != "datasets.TableProblem":
                yield call, name


def read(call: Call, name: str, path: Path) -> Ended:
    """One reading, in a process of its own."""

    def child() -> int:
        try:
            call(**{name: path})
        except (ValueError, OSError) as error:
            print(error)
            return 2
        return 0

    return in_a_child(child, seconds=SECONDS, memory=MEMORY)


def reading(call: Call, name: str, path: Path, kind: str) -> str:
    """Read it, and judge."""
    ended = read(call, name, path)
    said = ended.out.strip()
    if ended.too_long:
        raise Found("without end", f"no end after {SECONDS} s")
    if ended.status not in (0, 2):
        raise Found(CRASHED, ended.err.strip()[-200:])
    if ended.megabytes > MOST:
        raise Found("memory", f"{ended.megabytes:.0f} MB")
    if ended.status == 2 and path.name not in said and str(path) not in said:
        raise Found("not named", said[:200])
    if len(said) > 3000 or any(each < " " and each != "\n" for each in said):
        raise Found("terminal escapes", repr(said[:200]))
    if "bomb" in kind and ended.status == 0:
        raise Found(SILENT, "a bomb is read")
    if "bomb" in kind and "limit" in said and "TVBANDITS_READ" not in said:
        raise Found("no remedy", said[:200])
    return "read" if ended.status == 0 else "refused by name"


@in_the_loop(10**9, 25)
def attack(_: Count, count: int, seed: int) -> Iterator[Trial]:
    """So many pairs of a file and who reads it; all, if there are not as many."""
    rng = np.random.default_rng(seed)
    every = [(*reader, kind) for reader in readers() for kind in (*FILES, *DEVICES)]
    with TemporaryDirectory(prefix="attack") as folder:
        for call, name, kind in some(every, count, seed):
            path = Path(folder, kind)  # of a device, its own
            if kind in FILES and not os.path.lexists(path):
                FILES[kind](path, rng)
            yield f"{call.name}({name}={kind!r})", partial(reading, call, name, path, kind)
