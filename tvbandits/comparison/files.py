"""The folder of a comparison: its rows, tables, picture and record, and single runs until it is over.

Every file is written beside its name, then put in place, so that none is half-written.
"""

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
from tvbandits.comparison import plots
from tvbandits.comparison.summary import RUN_COLUMNS, Key, Run, summarise
from tvbandits.datasets.tables.references import References
from tvbandits.io import replace_file

ROWS, SUMMARY, PICTURE, RUN = "rows.csv.gz", "summary.csv", "regret.png", "run.json"

# The folder of finished runs, while a comparison goes on.
RUNS = "runs"

# The argument with checksums of the files of plug-ins, by module.
SOURCES = "sources"

# Arguments that change no row.
WITHOUT_EFFECT = ("jobs", "interrupted")

PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "joblib", "matplotlib")

# Columns that are taken as they are: no label is a number, or a missing value.
TEXTS = ("problem", "policy", "width")
# Columns of whole numbers, and others that must be there.
WHOLE = ("seed", "t", "queries", "answered", "batch_size")
REGRETS = ("regret", "average_regret")

# Errors of files that somebody has changed.
DAMAGE = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError)


class Content(NamedTuple):
    """The content of a folder, from which the picture and the page are made."""

    rows: pd.DataFrame
    references: dict[str, References]
    units: dict[str, str]
    record: dict[str, Any]


def versions() -> dict[str, str]:
    """Return the versions of this package, of Python, and of the packages that rows may depend on."""
    own = {"tvbandits": __version__, "python": platform.python_version()}
    return own | {name: importlib.metadata.version(name) for name in PACKAGES}


def writable_folder(path: Path) -> Path:
    """Return the folder if it can be made and written to; a `ValueError` says why not.

    Nothing is left behind: `write` makes the folder when there is something to put in it.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ValueError(f'cannot write to the folder "{path}": {reason}') from error
    finally:
        for folder in missing:
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
        "references": {name: each._asdict() for name, each in references.items()},
    }
    out.mkdir(parents=True, exist_ok=True)
    # The record first: rows without one are nobody's. Both are on the disk before single runs go.
    _write_record(out, record)
    replace_file(out / ROWS, lambda path: _write_rows(rows, path), durable=True)
    replace_file(out / SUMMARY, lambda path: summarise(rows).to_csv(path, index=False))
    draw(out, rows, references, units)
    shutil.rmtree(out / RUNS, ignore_errors=True)


def draw(
    out: Path, rows: pd.DataFrame, references: Mapping[str, References], units: Mapping[str, str]
) -> None:
    """Write the picture alone."""
    figure = plots.regret_figure(rows, references, units)
    replace_file(out / PICTURE, lambda path: figure.savefig(path, dpi=130))


def read(out: Path) -> Content:
    """Read what a folder holds that `write` made.

    Raises
    ------
    ValueError
        If the folder does not hold a comparison; the message names the file or the part that is wrong.
    """
    for name in (ROWS, RUN):
        if not (out / name).is_file():
            raise ValueError(f'no comparison in "{out}": {name} is missing')
    try:
        record = json.loads((out / RUN).read_text(encoding="utf-8"))
        for part in ("arguments", "versions", "units", "references"):
            _mapping(record, part)
        units, references = record["units"], {}
        for name, unit in units.items():
            _require(isinstance(unit, str), f"the unit of {name}", "a text", unit)
        for name, values in record["references"].items():
            numbers = all(type(each) in (float, int) for each in values.values())
            _require(numbers, f"references of {name}", "numbers", values)
            references[name] = References(**values)
        return Content(_read_rows(out / ROWS), references, units, record)
    except DAMAGE as error:
        raise ValueError(f'the comparison in "{out}" cannot be read: {_reason(error)}') from error


def _mapping(record: Any, name: str) -> dict[str, Any]:
    part: dict[str, Any] = record[name]
    _require(isinstance(part, dict), name, "a mapping", part)
    return part


def _require(good: bool, name: str, needs: str, value: object) -> None:
    """Raise a `ValueError` unless a part of the record is good."""
    if not good:
        raise ValueError(f"{name} in {RUN} must be {needs}, got {value!r}")


def _reason(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _write_record(folder: Path, record: Mapping[str, Any]) -> None:
    text = json.dumps(record, indent=2) + "\n"
    replace_file(folder / RUN, lambda draft: draft.write_text(text), durable=True)


def _write_rows(rows: pd.DataFrame, path: Path) -> None:
    rows.to_csv(path, index=False, compression={"method": "gzip", "mtime": 0})


def _read_rows(path: Path) -> pd.DataFrame:
    """Read the rows in a file, to the last bit."""
    rows = pd.read_csv(path, dtype=str, keep_default_na=False, compression="gzip")
    missing = [name for name in (*TEXTS, *WHOLE, *REGRETS) if name not in rows]
    if rows.empty or missing:
        raise ValueError(f"{path.name} lacks {', '.join(missing) or 'rows'}")
    for name in rows.columns.difference([*TEXTS]):
        # An empty field: a policy without a width or a dictionary, a problem of fewer coordinates.
        values = rows[name] if name in WHOLE else rows[name].replace("", "nan")
        rows[name] = [int(each) if name in WHOLE else float(each) for each in values]
    return rows


class RunStore:
    """The finished runs of one comparison in its folder: those of its tables, and one file for each.

    Parameters
    ----------
    folder : Path
        The folder of the comparison, made when the first run is saved.
    arguments : mapping
        Those of the comparison, as for `write`: a folder with other ones is refused. `sources` are
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
        self._saved_sources: dict[str, int] = {}
        if (folder / ROWS).exists():
            read(folder)  # or it says why not
        if (folder / RUN).exists():
            self._check_same()

    def _check_same(self) -> None:
        """Raise a `ValueError` if the folder holds another comparison."""
        path = self._folder / RUN
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            before = {**_mapping(record, "arguments"), "version": record["tvbandits"]}
            self._saved_sources = dict(before.get(SOURCES, {}))
        except DAMAGE as error:
            raise ValueError(f'"{path}" cannot be read: {_reason(error)}') from error
        now = json.loads(json.dumps({**self._arguments, "version": __version__}))
        for name, value in now.items():
            if name not in WITHOUT_EFFECT and before.get(name) != value:
                raise ValueError(
                    f'"{self._folder}" holds another comparison: its {name} is '
                    f"{json.dumps(before.get(name))}, not {json.dumps(value)}; give another folder, "
                    "or remove this one"
                )
        saved = self._saved_sources
        changed = [name for name, sum_ in self._sources.items() if saved.get(name, sum_) != sum_]
        if changed:
            raise ValueError(
                f'"{self._folder}" holds runs of another {", ".join(changed)}, whose source has changed '
                "since; give another folder, or remove this one"
            )

    def load(self) -> dict[Key, pd.DataFrame]:
        """Return the rows of the finished runs in the folder; a damaged file counts as missing."""
        runs: dict[Key, pd.DataFrame] = {}
        for path in (self._folder / ROWS, *sorted((self._folder / RUNS).glob("[!.]*"))):
            with contextlib.suppress(Exception):
                for _, rows in _read_rows(path).groupby(RUN_COLUMNS, sort=False):
                    problem, policy, seed = rows[RUN_COLUMNS].iloc[0]
                    if len(rows) == self._steps.get(problem):
                        runs[problem, policy, int(seed)] = rows.reset_index(drop=True)
        return runs

    def save_each(self, runs: Iterable[Run]) -> Iterator[Run]:
        """Yield the same runs, each once it is on disk."""
        for run in runs:
            self.save(run)
            yield run

    def save(self, run: Run) -> None:
        """Write a run, wholly or not at all."""
        runs = self._folder / RUNS
        runs.mkdir(parents=True, exist_ok=True)
        new = not self._sources.items() <= self._saved_sources.items()
        if new or not (self._folder / RUN).is_file():
            self._save_record()
        place = runs / file_name(run.key)
        replace_file(place, lambda draft: _write_rows(run.rows, draft), durable=True)

    def _save_record(self) -> None:
        """Write the record of the runs, with the sources of all their plug-ins."""
        path = self._folder / RUN
        record: dict[str, Any] = {"tvbandits": __version__, "arguments": self._arguments}
        if path.is_file():
            record = json.loads(path.read_text(encoding="utf-8"))
        self._saved_sources |= self._sources
        if self._saved_sources:
            record["arguments"][SOURCES] = self._saved_sources
        _write_record(self._folder, record)


def file_name(key: Key) -> str:
    """Return the name of a run's file: readable, and different for every run."""
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
    words = re.sub(r"[^\w.=-]+", "_", "--".join(map(str, key)))[:80]
    return f"{words}--{digest}.csv.gz"
