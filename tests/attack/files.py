"""Hostile files: refused by an error that names them, in little time and memory, whoever reads them.

    python -m tests.attack.files [--count N] [--seed 0]

Every file here is made in a temporary folder: bombs of gzip, zip, bzip2, xz and Parquet, tables that are
too wide, too long or too deep, dates of the year 9999, devices, pipes, links in circles, binary under
every name, texts with escapes. Each is given to everything public that reads a file (found by its
parameters), in a process of its own with a limit of memory; the most it took, and how long, is measured.
"""

from __future__ import annotations

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

from tests.attack.calls import Call, calls
from tests.attack.children import Ended, in_a_child
from tests.attack.report import CRASHED, SILENT, Count, Tally, run_one, steps

COUNT, QUICK = 10**9, 25

SECONDS, MEMORY, MOST = 60, 4 << 30, 2500.0
"""Of a process: seconds, bytes that it may ask for, and megabytes that it may hold."""

READERS = ("file", "files", "path", "rows", "values", "sites", "connection")
"""Parameters that a file may be given to."""

UNPACKED = 2_400_000_000

Make = Callable[[Path, np.random.Generator], None]


def _gzip_bomb(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001 - one face for all
    line = b"1,2,3\n" * 200_000
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b"time,a,b\n")
        for _ in range(UNPACKED // len(line)):
            file.write(line)


def _packed(opener: Callable[[Path], Any], size: int) -> Make:
    def make(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
        with opener(path) as file:
            for _ in range(size // (1 << 20)):
                file.write(bytes(1 << 20))

    return make


def _zip_bomb(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.csv", "w", force_zip64=True) as file,
    ):
        for _ in range(1 << 10):
            file.write(b"0,0\n" * (1 << 18))


def _parquet_bomb(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
    import pyarrow
    import pyarrow.parquet

    column = pyarrow.array(np.zeros(5_000_000))
    names = [f"x{i}" for i in range(60)]
    table = pyarrow.table(dict.fromkeys(names, column))
    pyarrow.parquet.write_table(table, path, compression="zstd", use_dictionary=True)


def _text(text: str) -> Make:
    def make(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
        path.write_text(text)

    return make


def _noise(start: bytes = b"") -> Make:
    def make(path: Path, rng: np.random.Generator) -> None:
        path.write_bytes(start + rng.bytes(int(rng.integers(1, 20_000))))

    return make


def _ozone_of_9999(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
    from tests.attack.good_values import ozone

    table = ozone()
    table.loc[0, "Date Local"] = "9999-12-31"
    table.to_csv(path, index=False)


def _readings_of_9999(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
    path.write_text("time,a,b\n2024-01-01,1,2\n2024-01-02,1,2\n9999-12-31,3,4\n")


def _link(target: str) -> Make:
    def make(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
        path.symlink_to(target)

    return make


WIDE = (
    ",".join(f"x{i}" for i in range(4000)) + ",t,value,variance\n" + ",".join(["1"] * 4003) + "\n"
)

FILES: dict[str, Make] = {
    "gzip bomb.csv.gz": _gzip_bomb,
    "bzip2 bomb.csv.bz2": _packed(partial(bz2.open, mode="wb"), 1 << 30),
    "xz bomb.csv.xz": _packed(partial(lzma.open, mode="wb"), 1 << 30),
    "zip bomb.zip": _zip_bomb,
    "parquet bomb.parquet": _parquet_bomb,
    "four thousand columns.csv": _text(WIDE),
    "a million columns.csv": _text("a," * 1_000_000 + "\n"),
    "one line.csv": _packed(lambda path: path.open("wb"), 20 << 20),
    "quotes.csv": _text('a,b\n"' + "x" * 3_000_000),
    "nuls.csv": _text("a,b\n" + "\0" * 100_000),
    "year 9999 ozone.csv": _ozone_of_9999,
    "year 9999.csv": _readings_of_9999,
    "long numbers.csv": _text("time,a\n" + "9" * 100_000 + "," + "1" * 100_000 + "\n"),
    "laughs.csv": _text("x0,t,value,variance\n" + "1e308,1e308,1e308,5e-324\n" * 1000),
    "escapes.csv": _text("\x1b]0;title\x07id,\x1b[2Jx,y\n\x1b[31m,1,2\n"),
    "empty.csv": _text(""),
    "heading.csv": _text("time,a,b\n"),
    "noise.csv": _noise(),
    "noise.gz": _noise(b"\x1f\x8b\x08"),
    "noise.zip": _noise(b"PK\x03\x04"),
    "noise.parquet": _noise(b"PAR1"),
    "noise.db": _noise(b"SQLite format 3\0"),
    "noise.xz": _noise(b"\xfd7zXZ\0"),
    "circle.csv": _link("circle.csv"),
    "to a device.csv": _link("/dev/zero"),
    "to nowhere.csv": _link("nowhere"),
    "pipe.csv": lambda path, _rng: os.mkfifo(path),
    "folder.csv": lambda path, _rng: path.mkdir(),
}
"""Files by name, and how they are made."""

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


def wrong_with(ended: Ended, path: Path, kind: str) -> tuple[str, str]:
    """The fault, and what shows it; empty if there is none."""
    if ended.too_long:
        return "without end", f"no end after {SECONDS} s"
    if ended.status not in (0, 2):
        return CRASHED, ended.err.strip()[-200:]
    if ended.megabytes > MOST:
        return "memory", f"{ended.megabytes:.0f} MB"
    said = ended.out.strip()
    if ended.status == 2 and path.name not in said and str(path) not in said:
        return "not named", said[:200]
    if len(said) > 3000 or any(each < " " and each != "\n" for each in said):
        return "terminal escapes", repr(said[:200])
    if "bomb" in kind and ended.status == 0:
        return SILENT, "a bomb is read"
    if "bomb" in kind and "limit" in said and "reading_limits" not in said:
        return "no remedy", said[:200]
    return "", ""


def attack(count: int, seed: int) -> Tally:
    """So many pairs of a file and who reads it; all, if there are not as many."""
    found = Count("hostile files")
    rng = np.random.default_rng(seed)
    every = [(*reader, kind) for reader in readers() for kind in (*FILES, *DEVICES)]
    if count < len(every):
        rows = rng.choice(len(every), count, replace=False)
        every = [every[row] for row in sorted(rows)]
    longest = largest = 0.0
    with TemporaryDirectory(prefix="attack") as folder:
        made: dict[str, Path] = {kind: Path(kind) for kind in DEVICES}
        for i in steps(range(len(every)), "hostile files"):
            call, name, kind = every[i]
            if kind not in made:
                made[kind] = Path(folder, kind)
                FILES[kind](made[kind], rng)
            found.tried()
            ended = read(call, name, made[kind])
            longest, largest = max(longest, ended.seconds), max(largest, ended.megabytes)
            fault, detail = wrong_with(ended, made[kind], kind)
            if fault:
                found.fault(fault, f"{call.name}({name}={kind!r}): {detail}")
            else:
                found.also("read" if ended.status == 0 else "refused by name")
    found.also("megabytes, at most", round(largest))
    found.also("seconds, at most", round(longest))
    return found.tally


if __name__ == "__main__":
    run_one(attack, "tests.attack.files", COUNT)
