"""The files of a comparison: written beside their names, then put in place, so none is half-written."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from tvbandits._version import __version__
from tvbandits.comparison.playing import Run
from tvbandits.comparison.regret_plot import regret_figure
from tvbandits.comparison.summary import Key, Row, summarise
from tvbandits.datasets.tables.references import References
from tvbandits.io import put_in_place

ROWS, SUMMARY, PICTURE, RUN = "rows.csv.gz", "summary.csv", "regret.png", "run.json"

# The argument with checksums of the files of plug-ins, by module.
SOURCES = "sources"

# Folder of the finished runs of a comparison that is not done yet.
RUNS = "runs"

PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "joblib", "matplotlib")


# What comes of files that somebody has changed.
BROKEN = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError)


def versions() -> dict[str, str]:
    """Of this package, of Python, and of the packages that rows may depend on."""
    found = {"tvbandits": __version__, "python": platform.python_version()}
    return found | {name: importlib.metadata.version(name) for name in PACKAGES}


class Stored(NamedTuple):
    """What the picture is drawn from again."""

    rows: pd.DataFrame
    references: dict[str, References]
    units: dict[str, str]
    interrupted: bool


def writable_folder(path: Path) -> Path:
    """Try whether the folder can be made and written to; a `ValueError` says why not.

    Nothing is left behind: `write` makes the folder when there is something to put in it.
    """
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ValueError(f'cannot write to the folder "{path}": {reason}') from error
    finally:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
    return path


def write(
    out: Path,
    rows: pd.DataFrame,
    references: Mapping[str, References],
    units: Mapping[str, str],
    arguments: Mapping[str, Any],
) -> None:
    """Write rows, summary, picture and the record of the run into the folder `out`.

    Files of single runs are not needed any more.
    """
    record = {
        "tvbandits": __version__,
        "versions": versions(),
        "arguments": dict(arguments),
        "seeds": sorted(int(seed) for seed in rows["seed"].unique()),
        "units": dict(units),
        "references": as_plain(references),
    }
    out.mkdir(parents=True, exist_ok=True)
    said = json.dumps(record, indent=2) + "\n"
    # The record first: rows without one are nobody's. Both are on the disk before single runs go.
    put_in_place(out / RUN, lambda path: path.write_text(said), durable=True)
    put_in_place(out / ROWS, lambda path: _write_rows(rows, path), durable=True)
    put_in_place(out / SUMMARY, lambda path: summarise(rows).to_csv(path, index=False))
    draw(out, rows, references, units)
    shutil.rmtree(out / RUNS, ignore_errors=True)


def draw(
    out: Path, rows: pd.DataFrame, references: Mapping[str, References], units: Mapping[str, str]
) -> None:
    """Write the picture alone."""
    figure = regret_figure(rows, references, units)
    put_in_place(out / PICTURE, lambda path: figure.savefig(path, dpi=130))


def read(out: Path) -> Stored:
    """What the picture was drawn from, from a folder that `write` made.

    Raises
    ------
    ValueError
        If the folder does not hold a comparison.
    """
    for name in (ROWS, RUN):
        if not (out / name).is_file():
            raise ValueError(f'no comparison in "{out}": {name} is missing')
    try:
        record = json.loads((out / RUN).read_text())
        rows = _rows(out / ROWS)
        rows[_NUMBERS] = rows[_NUMBERS].astype(float)
        references = {
            name: References(**found) for name, found in _checked(record, "references").items()
        }
        for name, found in references.items():
            if not all(type(each) in (float, int) for each in found):
                raise ValueError(f"references of {name} in {RUN} must be numbers")
        units = _checked(record, "units")
        for name, unit in units.items():
            if not isinstance(unit, str):
                raise ValueError(f"the unit of {name} in {RUN} must be a text, got {unit!r}")
        interrupted = bool(_checked(record, "arguments").get("interrupted", False))
        return Stored(rows, references, units, interrupted)
    except BROKEN as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f'the comparison in "{out}" cannot be read: {reason}') from error


def _checked(record: Any, name: str) -> dict[str, Any]:
    """The mapping of a name in the record of a run; a `ValueError` that names it if it is none."""
    found = record[name]
    if not isinstance(found, dict):
        raise ValueError(f"{name} in {RUN} must be a mapping, got {found!r}")
    return found


def _records(run: pd.DataFrame) -> list[Row]:
    """The rows of a run, each by the names of its columns."""
    # A problem of few dimensions has no value for the coordinates of another one's.
    others = [name for name in run if re.fullmatch(r"x\d+|violations|move_cost", str(name))]
    frame = run.drop(columns=[name for name in others if run[name].isna().all()])
    return [dict(zip(map(str, row), row.values(), strict=True)) for row in frame.to_dict("records")]


def _write_rows(rows: pd.DataFrame, path: Path) -> None:
    rows.to_csv(path, index=False, compression={"method": "gzip", "mtime": 0})


def _rows(path: Path) -> pd.DataFrame:
    """The rows in a file, to the last bit."""
    rows = pd.read_csv(path, dtype=str, keep_default_na=False, compression="gzip")
    if rows.empty:
        raise ValueError(f"{path.name} holds no rows")
    for name in rows.columns.difference([*_TEXTS]):
        # An empty field: a policy without a width or a dictionary, a problem of fewer coordinates.
        rows[name] = rows[name].map(int if name in _WHOLE else lambda text: float(text or "nan"))
    return rows


def as_plain(references: Mapping[str, References]) -> dict[str, dict[str, float]]:
    """References as plain dictionaries."""
    return {name: found._asdict() for name, found in references.items()}


# Columns that are taken as they are: no label is a number, or a missing value.
_TEXTS = ("problem", "policy", "confidence")


# Columns of whole numbers.
_WHOLE = ("seed", "t", "queries", "answered", "batch_size")


# What the picture is drawn from.
_NUMBERS = ["t", "seed", "regret", "average_regret", "queries"]


# Arguments that change no row.
_OF_NO_CONSEQUENCE = ("jobs", "interrupted")


class RunStore:
    """The finished runs of one comparison in its folder: those of its tables, and one file for each.

    Parameters
    ----------
    folder : Path
        Of the comparison; made when the first run is kept.
    arguments : mapping
        Of the comparison, as `write` is given them: a folder with others is refused. `sources` are
        checksums of plug-ins by module: a folder may hold runs of others, but of none that was changed.
    steps : mapping of problem to int
        Length of a whole run.

    Raises
    ------
    ValueError
        If the folder holds another comparison, or one that cannot be read.
    """

    def __init__(
        self, folder: Path, arguments: Mapping[str, Any], steps: Mapping[str, int]
    ) -> None:
        self._folder, self._steps = folder, steps
        self._arguments = {**arguments, "interrupted": True}
        self._sources: dict[str, int] = dict(self._arguments.pop(SOURCES, {}))
        self._sources_on_disk: dict[str, int] = {}
        if (folder / ROWS).exists():
            read(folder)  # or it says why not
        if (folder / RUN).exists():
            self._check_same()

    def _check_same(self) -> None:
        path = self._folder / RUN
        try:
            record = json.loads(path.read_text())
            before = {**_checked(record, "arguments"), "version": record["tvbandits"]}
            self._sources_on_disk = dict(before.get(SOURCES, {}))
        except BROKEN as error:
            raise ValueError(f'"{path}" cannot be read: {error}') from error
        now = json.loads(json.dumps({**self._arguments, "version": __version__}))
        for name, value in now.items():
            if name not in _OF_NO_CONSEQUENCE and before.get(name) != value:
                raise ValueError(
                    f'"{self._folder}" holds another comparison: its {name} is '
                    f"{json.dumps(before.get(name))}, not {json.dumps(value)}; give another folder, "
                    "or remove it"
                )
        changed = [
            name
            for name, source in self._sources.items()
            if self._sources_on_disk.get(name, source) != source
        ]
        if changed:
            raise ValueError(
                f'"{self._folder}" holds runs of another {", ".join(changed)}, whose source was changed '
                "since; give another folder, or remove it"
            )

    def finished(self) -> dict[Key, list[Row]]:
        """The rows of the whole runs that are there; a file that is damaged counts as missing."""
        found: dict[Key, list[Row]] = {}
        for path in (self._folder / ROWS, *sorted((self._folder / RUNS).glob("[!.]*"))):
            with contextlib.suppress(Exception):
                runs = _rows(path).groupby(["problem", "policy", "seed"], sort=False)
                for (problem, policy, seed), group in runs:
                    if len(group) == self._steps.get(str(problem)):
                        found[str(problem), str(policy), int(str(seed))] = _records(group)
        return found

    def keeping(self, runs: Iterable[Run]) -> Iterator[Run]:
        """The same runs, each on disk before it is yielded."""
        for run in runs:
            self.keep(run)
            yield run

    def keep(self, run: Run) -> None:
        """Write a run; it is there wholly or not at all."""
        runs = self._folder / RUNS
        runs.mkdir(parents=True, exist_ok=True)
        if (
            not (self._folder / RUN).is_file()
            or self._sources.items() - self._sources_on_disk.items()
        ):
            self._write_record()
        frame = pd.DataFrame(run.rows)
        place = runs / file_name(run.key)
        put_in_place(place, lambda draft: _write_rows(frame, draft), durable=True)

    def _write_record(self) -> None:
        """What is played, with the sources of all plug-ins that were."""
        path = self._folder / RUN
        record: dict[str, Any] = {"tvbandits": __version__, "arguments": self._arguments}
        if path.is_file():
            record = json.loads(path.read_text())
        self._sources_on_disk |= self._sources
        if self._sources_on_disk:
            record["arguments"][SOURCES] = self._sources_on_disk
        said = json.dumps(record, indent=2)
        put_in_place(path, lambda draft: draft.write_text(said), durable=True)


def file_name(key: Key) -> str:
    """The name of a run's file: readable, and different for every run."""
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
    words = re.sub(r"[^\w.=-]+", "_", "--".join(map(str, key)))[:80]
    return f"{words}--{digest}.csv.gz"
