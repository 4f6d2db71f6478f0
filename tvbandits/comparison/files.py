"""The files of a comparison: written beside their names, then put in place, so none is half-written."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from tvbandits._version import __version__
from tvbandits.comparison.playing import Run
from tvbandits.comparison.regret_plot import regret_figure, save_figure
from tvbandits.comparison.summary import Key, Row, summarise
from tvbandits.core.files.saving import put_in_place
from tvbandits.datasets.tables.references import References

ROWS, SUMMARY, PICTURE, RUN = "rows.csv.gz", "summary.csv", "regret.png", "run.json"


PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "dppy", "joblib", "matplotlib")


# What comes of files that somebody has changed.
BROKEN = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError)


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

    The picture says that a comparison was cut short if `arguments` has a true "interrupted".
    """
    record = {
        "tvbandits": __version__,
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "arguments": dict(arguments),
        "seeds": sorted(int(seed) for seed in rows["seed"].unique()),
        "units": dict(units),
        "references": as_plain(references),
    }
    out.mkdir(parents=True, exist_ok=True)
    put_in_place(out / ROWS, lambda path: rows.to_csv(path, index=False, compression=_GZIP))
    put_in_place(out / SUMMARY, lambda path: summarise(rows).to_csv(path, index=False))
    put_in_place(out / RUN, lambda path: path.write_text(json.dumps(record, indent=2) + "\n"))
    interrupted = bool(arguments.get("interrupted", False))
    draw(out, Stored(rows, dict(references), dict(units), interrupted))


def draw(out: Path, found: Stored) -> None:
    """Write the picture alone."""
    figure = regret_figure(found.rows, found.references, found.units, interrupted=found.interrupted)
    put_in_place(out / PICTURE, lambda path: save_figure(figure, path))


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
        rows = _rows(out)
        rows[_NUMBERS] = rows[_NUMBERS].astype(float)
        references = {
            name: References(**found) for name, found in dict(record["references"]).items()
        }
        interrupted = bool(record.get("arguments", {}).get("interrupted", False))
        return Stored(rows, references, dict(record["units"]), interrupted)
    except BROKEN as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f'the comparison in "{out}" cannot be read: {reason}') from error


def finished_runs(
    out: Path, arguments: Mapping[str, Any], steps: Mapping[str, int]
) -> dict[Key, list[Row]]:
    """The rows of the whole runs that the same comparison has left in a folder, by run.

    Parameters
    ----------
    out : Path
        A folder, which need not be there.
    arguments : mapping
        Of the comparison, as `write` is given them.
    steps : mapping of problem to int
        Length of a whole run.

    Raises
    ------
    ValueError
        If the folder holds another comparison, or one that cannot be read.
    """
    if not any((out / name).exists() for name in (ROWS, RUN)):
        return {}
    read(out)  # or it says why not
    record = json.loads((out / RUN).read_text())
    before = {**record["arguments"], "version": record["tvbandits"]}
    now = json.loads(json.dumps({**arguments, "version": __version__}))
    known = {name: value for name, value in now.items() if name not in _OF_NO_CONSEQUENCE}
    _check_same(out, "another comparison", before, known)
    rows = _rows(out)
    found: dict[Key, list[Row]] = {}
    for (problem, policy, seed), group in rows.groupby(["problem", "policy", "seed"], sort=False):
        if len(group) == steps.get(str(problem)):
            # A problem of few dimensions has no value for the coordinates of another one's.
            missing = [
                name
                for name in group
                if re.fullmatch(r"x\d+|violations|move_cost", str(name))
                and bool(group[name].isna().all())
            ]
            key = (str(problem), str(policy), int(str(seed)))
            found[key] = _records(group.drop(columns=missing))
    return found


def _records(frame: pd.DataFrame) -> list[Row]:
    """The rows of a table, each by the names of its columns."""
    return [dict(zip(map(str, row), row.values(), strict=True)) for row in frame.to_dict("records")]


def _check_same(folder: Path, what: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise a `ValueError` that names the first argument that a folder was made with another one of."""
    for name, value in now.items():
        if before.get(name) != value:
            raise ValueError(
                f'"{folder}" holds {what}: its {name} is {json.dumps(before.get(name))}, not '
                f"{json.dumps(value)}; give another folder, or remove it"
            )


# Arguments that change no row.
_OF_NO_CONSEQUENCE = ("jobs", "interrupted")


def _rows(out: Path) -> pd.DataFrame:
    """The rows in a folder, to the last bit."""
    rows = pd.read_csv(out / ROWS, dtype=str, keep_default_na=False)
    if rows.empty:
        raise ValueError(f"{ROWS} holds no rows")
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


_GZIP: dict[str, Any] = {"method": "gzip", "mtime": 0}


ARGUMENTS = "arguments.json"


def can_keep() -> bool:
    """Whether Parquet files can be written: pyarrow is an extra."""
    return importlib.util.find_spec("pyarrow") is not None


class RunStore:
    """A folder of finished runs of one comparison.

    Parameters
    ----------
    folder : Path
        Made when the first run is kept.
    arguments : mapping
        What rows depend on: a folder with others is refused.
    steps : mapping of problem to int
        Length of a whole run.

    Raises
    ------
    ValueError
        If the folder holds runs of another comparison.
    """

    def __init__(
        self, folder: Path, arguments: Mapping[str, Any], steps: Mapping[str, int]
    ) -> None:
        self._folder, self._steps = folder, steps
        self._arguments = json.loads(json.dumps({**arguments, "version": __version__}))
        path = folder / ARGUMENTS
        if path.is_file():
            try:
                before = json.loads(path.read_text())
            except ValueError as error:
                raise ValueError(f'"{path}" cannot be read: {error}') from error
            _check_same(folder, "runs of another comparison", before, self._arguments)

    @property
    def folder(self) -> Path:
        """Where the runs are."""
        return self._folder

    def finished(self) -> dict[Key, list[Row]]:
        """The rows of the whole runs that are there; a file that is damaged counts as missing."""
        found: dict[Key, list[Row]] = {}
        for path in sorted(self._folder.glob("*.parquet")):
            try:
                rows = _records(pd.read_parquet(path))
                first = rows[0]
                key = (str(first["problem"]), str(first["policy"]), int(first["seed"]))
            except Exception:
                continue
            if len(rows) == self._steps.get(key[0]) and path.name == file_name(key):
                found[key] = rows
        return found

    def keeping(self, runs: Iterable[Run]) -> Iterator[Run]:
        """The same runs, each on disk before it is yielded."""
        for run in runs:
            self.keep(run)
            yield run

    def keep(self, run: Run) -> None:
        """Write a run; it is there wholly or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / ARGUMENTS
        if not path.is_file():
            said = json.dumps(self._arguments, indent=2)
            put_in_place(path, lambda draft: draft.write_text(said), durable=True)
        name = file_name((run.problem, run.policy, run.seed))
        frame = pd.DataFrame(run.rows)
        place = self._folder / name
        put_in_place(place, lambda draft: frame.to_parquet(draft, index=False), durable=True)


def file_name(key: Key) -> str:
    """The name of a run's file: readable, and different for every run."""
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
    words = re.sub(r"[^\w.=-]+", "_", "--".join(map(str, key)))[:80]
    return f"{words}--{digest}.parquet"
