"""The folder of a comparison with its rows, tables, picture and record, and with single finished runs.

Every file is written under another name and then renamed, so that none is half-written.
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

# The subfolder of finished runs, which exists until the comparison is complete.
RUNS = "runs"

# The argument with checksums of the files that a problem or policy depends on, by label and module.
SOURCES = "sources"

# Arguments that do not affect rows, and arguments that a later call may extend.
WITHOUT_EFFECT = ("jobs", "interrupted")
GROWING = ("problems", "policies", "seeds", "steps", SOURCES)

# Columns of texts, which are not parsed as numbers or missing values.
TEXTS = ("problem", "policy", "width")
# Columns of whole numbers, and other columns that are required.
WHOLE = ("seed", "t", "queries", "answered", "batch_size")
REGRETS = ("regret", "average_regret")

# Errors that reading a damaged or edited file may raise.
DAMAGE = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError)


class Content(NamedTuple):
    """The content of a folder, from which the picture and the report are made."""

    rows: pd.DataFrame
    references: dict[str, References]
    units: dict[str, str]
    record: dict[str, Any]


def writable_folder(path: Path) -> Path:
    """Return a path if it is, or could become, a folder to write to; otherwise raise a `ValueError`.

    A missing folder is not left behind: `write` makes it.
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
    folder: Path,
    rows: pd.DataFrame,
    references: Mapping[str, References],
    units: Mapping[str, str],
    arguments: Mapping[str, Any],
) -> None:
    """Write rows, summary and record of a comparison into a folder, and delete its single runs."""
    record = {
        "tvbandits": __version__,
        "versions": versions(),
        "arguments": dict(arguments),
        "seeds": sorted(int(seed) for seed in rows["seed"].unique()),
        "units": dict(units),
        "references": {name: values._asdict() for name, values in references.items()},
    }
    folder.mkdir(parents=True, exist_ok=True)
    # The record is written first, since rows without a record cannot be used. Both are on the disk
    # before single runs are deleted.
    _write_record(folder, record)
    replace_file(folder / ROWS, lambda path: _write_rows(rows, path), durable=True)
    replace_file(folder / SUMMARY, lambda path: summarise(rows).to_csv(path, index=False))
    shutil.rmtree(folder / RUNS, ignore_errors=True)


def write_picture(folder: Path, figure: Figure) -> None:
    """Write the picture of a comparison into a folder."""
    replace_file(folder / PICTURE, lambda path: figure.savefig(path, dpi=130))


def read(folder: Path) -> Content:
    """Return the content of a folder that `write` has written.

    Raises
    ------
    ValueError
        If the folder does not contain a valid comparison; the message names the invalid file or part.
    """
    for name in (ROWS, RUN):
        if not (folder / name).is_file():
            raise ValueError(f'no comparison in "{folder}": {name} is missing')
    try:
        record = json.loads((folder / RUN).read_text(encoding="utf-8"))
        for part in ("arguments", "versions", "units", "references"):
            _get_mapping(record, part)
        units, references = record["units"], {}
        for name, unit in units.items():
            _require(isinstance(unit, str), f"the unit of {name}", "a text", unit)
        for name, values in record["references"].items():
            are_numbers = all(
                value is None or type(value) in (float, int) for value in values.values()
            )
            _require(are_numbers, f"references of {name}", "numbers", values)
            references[name] = References(**values)
        return Content(_read_rows(folder / ROWS), references, units, record)
    except DAMAGE as error:
        reason = _describe_error(error)
        raise ValueError(f'the comparison in "{folder}" cannot be read: {reason}') from error


def _get_mapping(record: Any, name: str) -> dict[str, Any]:
    part: dict[str, Any] = record[name]
    _require(isinstance(part, dict), name, "a mapping", part)
    return part


def _require(is_valid: bool, name: str, requirement: str, value: object) -> None:
    """Raise a `ValueError` unless a part of the record is valid."""
    if not is_valid:
        raise ValueError(f"{name} in {RUN} must be {requirement}, got {value!r}")


def _describe_error(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)


def _write_record(folder: Path, record: Mapping[str, Any]) -> None:
    text = json.dumps(record, indent=2) + "\n"
    replace_file(folder / RUN, lambda draft: draft.write_text(text), durable=True)


def _write_rows(rows: pd.DataFrame, path: Path) -> None:
    rows.to_csv(path, index=False, compression={"method": "gzip", "mtime": 0})


def _read_rows(path: Path) -> pd.DataFrame:
    """Return the rows in a file, with the same floats that were written."""
    rows = pd.read_csv(path, dtype=str, keep_default_na=False, compression="gzip")
    missing = [name for name in (*TEXTS, *WHOLE, *REGRETS) if name not in rows]
    if rows.empty or missing:
        raise ValueError(f"{path.name} lacks {', '.join(missing) or 'rows'}")
    for name in rows.columns.difference([*TEXTS]):
        # A field is empty for a policy without a width or dictionary, or a problem of lower dimension.
        values = rows[name] if name in WHOLE else rows[name].replace("", "nan")
        rows[name] = [int(value) if name in WHOLE else float(value) for value in values]
    return rows


class RemovedRuns(NamedTuple):
    """Runs that were removed from a folder because their code has changed, and its changed modules."""

    modules: list[str]
    keys: list[Key]


def label_sources(labels: Iterable[str], arguments: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the checksums of the files that each problem or policy depends on, if there are any.

    A policy may also depend on the texts `beta` and `expert` of the arguments; a problem, whose label is
    in the argument `problems`, does not.
    """
    sources = {label: sources_of([label, *_texts_used_by(label, arguments)]) for label in labels}
    return {label: checksums for label, checksums in sources.items() if checksums}


def _texts_used_by(label: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the texts of width and expert, with an empty text for one that a policy does not use."""
    if label in arguments.get("problems", ()):
        return []
    beta, expert = (str(arguments.get(name) or "") for name in ("beta", "expert"))
    name, values = ("", {}) if path_of(label) else parse_spec(label)
    policy = POLICIES.get(name)
    if policy is None:  # the user's own policy may use both
        return [beta, expert]
    has_width = "beta" in policy.parameters and "beta" not in values
    return [beta if has_width else "", expert if policy.asks else ""]


class RunStore:
    """A store of the finished runs of one comparison in its folder.

    Runs are in the table of rows of a complete comparison, and in files of single runs.

    Parameters
    ----------
    folder : Path
        The folder of the comparison, which is made when the first run is saved.
    arguments : mapping
        The arguments of the comparison, as for `write`. They must be those of the folder, except that
        problems, policies and seeds are added to the folder's. `sources` are checksums from
        `label_sources`.
    steps : mapping of problem to int
        Length of a complete run.

    Raises
    ------
    ValueError
        If the folder contains another comparison, or one that cannot be read.
    """

    def __init__(
        self, folder: Path, arguments: Mapping[str, Any], steps: Mapping[str, int]
    ) -> None:
        self._folder = folder
        self._new = {SOURCES: {}, **arguments, "steps": dict(steps), "interrupted": True}
        self._is_recorded = False
        if (folder / ROWS).exists():
            read(folder)  # which raises an error if the comparison is damaged
        self._check_same()

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments for all runs, of the folder and of this comparison."""
        old = _get_mapping(self._read_record(), "arguments")
        names = [name for name in GROWING if name in old or name in self._new]
        return {**self._new, **{name: _merge_argument(name, old, self._new) for name in names}}

    def _read_record(self) -> dict[str, Any]:
        """Return the record in the folder, or one without arguments."""
        path = self._folder / RUN
        if not path.exists():
            return {"tvbandits": __version__, "arguments": {}}
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return record

    def _check_same(self) -> None:
        """Raise a `ValueError` if the folder contains another comparison."""
        if not (self._folder / RUN).exists():
            return
        path = self._folder / RUN
        try:
            record = self._read_record()
            old = {**_get_mapping(record, "arguments"), "version": record["tvbandits"]}
            for label, checksums in old.get(SOURCES, {}).items():
                is_mapping = isinstance(checksums, dict)
                _require(is_mapping, f"the sources of {label}", "a mapping", checksums)
            _ = self.arguments  # which raises an error if arguments cannot be merged
        except DAMAGE as error:
            raise ValueError(f'"{path}" cannot be read: {_describe_error(error)}') from error
        new = json.loads(json.dumps({**self._new, "version": __version__}))
        for name, value in new.items():
            if name not in (*WITHOUT_EFFECT, *GROWING) and old.get(name) != value:
                self._refuse(name, old.get(name), value)
        if self._equal_information:
            # The answers of every policy depend on the policy with most answers.
            old_policies, new_policies = old.get("policies", []), new.get("policies", [])
            if set(old_policies) != set(new_policies):
                self._refuse("policies with equal information", old_policies, new_policies)

    def _refuse(self, name: str, old: object, new: object) -> NoReturn:
        raise ValueError(
            f'"{self._folder}" contains another comparison: its {name} is {json.dumps(old)}, not '
            f"{json.dumps(new)}; give another folder, or remove it"
        )

    @property
    def _equal_information(self) -> bool:
        return bool(self._new.get("equal_information", False))

    def remove_changed(self) -> RemovedRuns:
        """Remove the runs whose code has changed since they were played, and return their keys."""
        record = self._read_record()
        old = record["arguments"].get(SOURCES, {})
        new = label_sources(old, self.arguments) | self._new[SOURCES]
        changes = {
            label: modules
            for label, checksums in old.items()
            if (modules := _find_changes(checksums, new.get(label, {})))
        }
        if not changes:
            return RemovedRuns([], [])
        runs = self.load()
        outdated = [
            key
            for key in runs
            if not changes.keys().isdisjoint(old if self._equal_information else key[:2])
        ]
        valid = [rows for key, rows in runs.items() if key not in outdated]
        for path in self._run_files():
            with contextlib.suppress(Exception):
                row = _read_rows(path).iloc[0]
                if (row["problem"], row["policy"], int(row["seed"])) in outdated:
                    path.unlink()
        rows_path = self._folder / ROWS
        if rows_path.exists() and valid:
            rows = pd.concat(valid, ignore_index=True)
            replace_file(rows_path, lambda path: _write_rows(rows, path), durable=True)
        else:
            rows_path.unlink(missing_ok=True)
        # The record is written last: after an interrupt before, outdated rows are still recognized.
        for label in changes:
            del old[label]
        _write_record(self._folder, record)
        return RemovedRuns(sorted({name for names in changes.values() for name in names}), outdated)

    def _run_files(self) -> list[Path]:
        """Return the files of single runs."""
        return sorted((self._folder / RUNS).glob("[!.]*"))

    def load(self) -> dict[Key, pd.DataFrame]:
        """Return the rows of all finished runs in the folder, without damaged files."""
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
        """Save runs, and yield each after it is on the disk."""
        for run in runs:
            self.save(run)
            yield run

    def save(self, run: Run) -> None:
        """Write the file of a run, completely or not at all."""
        runs = self._folder / RUNS
        runs.mkdir(parents=True, exist_ok=True)
        if not self._is_recorded or not (self._folder / RUN).is_file():
            _write_record(self._folder, {**self._read_record(), "arguments": self.arguments})
            self._is_recorded = True
        path = runs / file_name(run.key)
        replace_file(path, lambda draft: _write_rows(run.rows, draft), durable=True)


def _merge_argument(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Any:
    """Return an argument of a folder, extended by that of a later call."""
    earlier, later = old.get(name), new.get(name)
    if earlier is None or later is None:
        return later if earlier is None else earlier
    if isinstance(later, dict):
        return earlier | later
    if isinstance(later, list):
        return list(dict.fromkeys([*earlier, *later]))
    return max(earlier, later)


def _find_changes(old: Mapping[str, int], new: Mapping[str, int]) -> list[str]:
    """Return the modules whose checksums differ; a module without a new one counts as unchanged."""
    return [name for name, checksum in old.items() if new.get(name, checksum) != checksum]


def file_name(key: Key) -> str:
    """Return the name of a run's file, which is readable and different for every run."""
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
    words = re.sub(r"[^\w.=-]+", "_", "--".join(map(str, key)))[:80]
    return f"{words}--{digest}.csv.gz"
