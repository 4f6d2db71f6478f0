"""Finished runs on disk, a Parquet file for each, written beside its name and then put in place."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tvbandits._version import __version__
from tvbandits.comparison.playing import Run
from tvbandits.comparison.summary import Key, Row
from tvbandits.core.files.saving import put_in_place

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
            for name, now in self._arguments.items():
                if before.get(name) != now:
                    raise ValueError(
                        f'"{folder}" holds runs of another comparison: its {name} is '
                        f"{json.dumps(before.get(name))}, not {json.dumps(now)}; "
                        "give another folder, or remove it"
                    )

    @property
    def folder(self) -> Path:
        """Where the runs are."""
        return self._folder

    def finished(self) -> dict[Key, list[Row]]:
        """The rows of the whole runs that are there; a file that is damaged counts as missing."""
        found: dict[Key, list[Row]] = {}
        for path in sorted(self._folder.glob("*.parquet")):
            try:
                rows = pd.read_parquet(path).to_dict(orient="records")
                first = rows[0]
                key = (str(first["problem"]), str(first["policy"]), int(first["seed"]))
            except Exception:
                continue
            if len(rows) == self._steps.get(key[0]) and path.name == file_name(key):
                found[key] = [{str(name): value for name, value in row.items()} for row in rows]
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

    def clear(self) -> None:
        """Remove the folder: its runs are somewhere else by now."""
        shutil.rmtree(self._folder, ignore_errors=True)


def file_name(key: Key) -> str:
    """The name of a run's file: readable, and different for every run."""
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12]
    words = re.sub(r"[^\w.=-]+", "_", "--".join(map(str, key)))[:80]
    return f"{words}--{digest}.parquet"
