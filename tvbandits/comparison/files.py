"""The folder of a comparison: its rows, tables, picture and record, and single runs until it is over.

Every file is written beside its name, then put in place, so that none is half-written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pandas as pd
from matplotlib.figure import Figure

from tvbandits._version import __version__
from tvbandits.comparison.sources import sources_of, versions
from tvbandits.comparison.summary import RUN_COLUMNS, Key, Run, summarise
from tvbandits.datasets.tables.references import References
from tvbandits.io import replace_file
from tvbandits.policies.names import parse_spec, path_of
from tvbandits.policies.registry import POLICIES

ROWS, SUMMARY, PICTURE, RUN = "rows.csv.gz", "summary.csv", "regret.png", "run.json"

# The folder of finished runs, while a comparison goes on.
RUNS = "runs"

# The argument with checksums of the files that a problem or policy depends on, by label and module.
SOURCES = "sources"

# Arguments that change no row, and those that a later call may add to.
WITHOUT_EFFECT = ("jobs", "interrupted")
GROWING = ("problems", "policies", "seeds", "steps", SOURCES)

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
    """Write rows, summary and the record of the run into the folder `out`.

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
    shutil.rmtree(out / RUNS, ignore_errors=True)


def draw(out: Path, figure: Figure) -> None:
    """Write the picture alone."""
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
            numbers = all(each is None or type(each) in (float, int) for each in values.values())
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


class Removed(NamedTuple):
    """Runs that were removed from a folder because their code has changed."""

    modules: list[str]
    keys: list[Key]


def label_sources(labels: Iterable[str], arguments: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the sources of each problem or policy that has any, with what it takes of width and expert.

    `arguments` have the `problems`, which take none of them; `beta` and `expert` are texts.
    """
    sources = {label: sources_of([label, *_shared_texts(label, arguments)]) for label in labels}
    return {label: each for label, each in sources.items() if each}


def _shared_texts(label: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the width and expert of a comparison that its problem or policy may have."""
    if label in arguments.get("problems", ()):
        return []
    beta, expert = (str(arguments.get(name) or "") for name in ("beta", "expert"))
    name, values = ("", {}) if path_of(label) else parse_spec(label)
    policy = POLICIES.get(name)
    if policy is None:  # what a user's own takes, nobody knows
        return [beta, expert]
    has_width = "beta" in policy.parameters and "beta" not in values
    return [beta if has_width else "", expert if policy.asks else ""]


class RunStore:
    """The finished runs of one comparison in its folder: those of its tables, and one file for each.

    Parameters
    ----------
    folder : Path
        The folder of the comparison, made when the first run is saved.
    arguments : mapping
        Those of the comparison, as for `write`. A folder with other ones is refused, but for those that
        may grow: problems, policies and seeds are added to what is there. `sources` are checksums by
        problem or policy and module, as of `label_sources`.
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
        self._folder = folder
        self._own = {SOURCES: {}, **arguments, "steps": dict(steps), "interrupted": True}
        self._recorded = False
        if (folder / ROWS).exists():
            read(folder)  # or it says why not
        self._check_same()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of all runs in the folder, and of those to come."""
        before = _mapping(self._record(), "arguments")
        names = [name for name in GROWING if name in before or name in self._own]
        return {**self._own, **{name: _grown(name, before, self._own) for name in names}}

    def _record(self) -> dict[str, Any]:
        """Return the record in the folder, or an empty one."""
        path = self._folder / RUN
        if not path.exists():
            return {"tvbandits": __version__, "arguments": {}}
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return record

    def _check_same(self) -> None:
        """Raise a `ValueError` if the folder holds another comparison."""
        if not (self._folder / RUN).exists():
            return
        path = self._folder / RUN
        try:
            record = self._record()
            before = {**_mapping(record, "arguments"), "version": record["tvbandits"]}
            for label, sums in before.get(SOURCES, {}).items():
                _require(isinstance(sums, dict), f"the sources of {label}", "a mapping", sums)
            _ = self.arguments  # what cannot be added to is found here
        except DAMAGE as error:
            raise ValueError(f'"{path}" cannot be read: {_reason(error)}') from error
        now = json.loads(json.dumps({**self._own, "version": __version__}))
        for name, value in now.items():
            if name not in (*WITHOUT_EFFECT, *GROWING) and before.get(name) != value:
                self._refuse(name, before.get(name), value)
        if self._equal_information:
            # The answers of all depend on the policy that asks most.
            policies, new = before.get("policies", []), now.get("policies", [])
            if set(policies) != set(new):
                self._refuse("policies with equal information", policies, new)

    def _refuse(self, name: str, before: object, now: object) -> NoReturn:
        raise ValueError(
            f'"{self._folder}" holds another comparison: its {name} is {json.dumps(before)}, not '
            f"{json.dumps(now)}; give another folder, or remove it"
        )

    @property
    def _equal_information(self) -> bool:
        return bool(self._own.get("equal_information", False))

    def remove_changed(self) -> Removed:
        """Remove the runs whose code has changed since they were played, and return what they were."""
        record = self._record()
        saved = record["arguments"].get(SOURCES, {})
        now = label_sources(saved, self.arguments) | self._own[SOURCES]
        changed = {
            label: modules
            for label, sums in saved.items()
            if (modules := _changed(sums, now.get(label, {})))
        }
        if not changed:
            return Removed([], [])
        runs = self.load()
        affected = [
            key
            for key in runs
            if not changed.keys().isdisjoint(saved if self._equal_information else key[:2])
        ]
        kept = [rows for key, rows in runs.items() if key not in affected]
        for path in self._run_files():
            with contextlib.suppress(Exception):
                first = _read_rows(path).iloc[0]
                if (first["problem"], first["policy"], int(first["seed"])) in affected:
                    path.unlink()
        rows_path = self._folder / ROWS
        if rows_path.exists() and kept:
            rows = pd.concat(kept, ignore_index=True)
            replace_file(rows_path, lambda path: _write_rows(rows, path), durable=True)
        else:
            rows_path.unlink(missing_ok=True)
        # Last of all: until then the rows that are left are still those of the earlier code.
        for label in changed:
            del saved[label]
        _write_record(self._folder, record)
        return Removed(sorted({name for each in changed.values() for name in each}), affected)

    def _run_files(self) -> list[Path]:
        """Return the files of single runs."""
        return sorted((self._folder / RUNS).glob("[!.]*"))

    def load(self) -> dict[Key, pd.DataFrame]:
        """Return the rows of the finished runs in the folder; a damaged file counts as missing."""
        runs: dict[Key, pd.DataFrame] = {}
        steps = self.arguments["steps"]
        for path in (self._folder / ROWS, *self._run_files()):
            with contextlib.suppress(Exception):
                for _, rows in _read_rows(path).groupby(RUN_COLUMNS, sort=False):
                    problem, policy, seed = rows[RUN_COLUMNS].iloc[0]
                    if len(rows) == steps.get(problem):
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
        if not self._recorded or not (self._folder / RUN).is_file():
            _write_record(self._folder, {**self._record(), "arguments": self.arguments})
            self._recorded = True
        place = runs / file_name(run.key)
        replace_file(place, lambda draft: _write_rows(run.rows, draft), durable=True)


def _grown(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Any:
    """Return an argument of a folder with what a later call adds to it."""
    earlier, later = before.get(name), now.get(name)
    if earlier is None or later is None:
        return later if earlier is None else earlier
    if isinstance(later, dict):
        return earlier | later
    if isinstance(later, list):
        return list(dict.fromkeys([*earlier, *later]))
    return max(earlier, later)


def _changed(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """Return the modules of another checksum; one that cannot be found says nothing."""
    return [name for name, checksum in before.items() if now.get(name, checksum) != checksum]


def file_name(key: Key) -> str:
    """Return the name of a run's file: readable, and different for every run."""
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
    words = re.sub(r"[^\w.=-]+", "_", "--".join(map(str, key)))[:80]
    return f"{words}--{digest}.csv.gz"
