"""The files of a comparison: written beside their names, then put in place, so none is half-written."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from tvbandits._version import __version__
from tvbandits.comparison.regret_plot import regret_figure, save_figure
from tvbandits.comparison.summary import summarise
from tvbandits.datasets.tables.references import References

ROWS, SUMMARY, PICTURE, RUN = "rows.csv.gz", "summary.csv", "regret.png", "run.json"


PACKAGES = ("numpy", "scipy", "scikit-learn", "pandas", "dppy", "joblib", "matplotlib")


class Comparison(NamedTuple):
    """What the picture is drawn from again."""

    rows: pd.DataFrame
    references: dict[str, References]
    units: dict[str, str]
    bound: bool
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
    *,
    bound: bool,
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
        "bound": bound,
        "references": as_plain(references),
    }
    out.mkdir(parents=True, exist_ok=True)
    _place(out / ROWS, lambda path: rows.to_csv(path, index=False, compression=_GZIP))
    _place(out / SUMMARY, lambda path: summarise(rows).to_csv(path, index=False))
    _place(out / RUN, lambda path: path.write_text(json.dumps(record, indent=2) + "\n"))
    interrupted = bool(arguments.get("interrupted", False))
    draw(out, Comparison(rows, dict(references), dict(units), bound, interrupted))


def draw(out: Path, found: Comparison) -> None:
    """Write the picture alone."""
    figure = regret_figure(
        found.rows,
        found.references,
        found.units,
        bound=found.bound,
        interrupted=found.interrupted,
    )
    _place(out / PICTURE, lambda path: save_figure(figure, path))


def read(out: Path) -> Comparison:
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
        rows = pd.read_csv(out / ROWS, dtype=_TEXTS, keep_default_na=False, na_values=_GAPS)
        if rows.empty:
            raise ValueError(f"{ROWS} holds no rows")
        rows[_NUMBERS] = rows[_NUMBERS].astype(float)
        references = {
            name: References(**found) for name, found in dict(record["references"]).items()
        }
        interrupted = bool(record.get("arguments", {}).get("interrupted", False))
        return Comparison(
            rows, references, dict(record["units"]), bool(record["bound"]), interrupted
        )
    except (
        OSError,
        EOFError,
        zlib.error,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise ValueError(f'the comparison in "{out}" cannot be read: {reason}') from error


def as_plain(references: Mapping[str, References]) -> dict[str, dict[str, float]]:
    """References as plain dictionaries."""
    return {name: found._asdict() for name, found in references.items()}


_TEXTS = dict.fromkeys(("problem", "policy", "confidence"), str)
"""Read as they are: no label is taken for a number, or for a missing value."""


_GAPS = {"beta": [""], "bound": [""], "dictionary_size": [""]}
"""Where a policy has no width, or no dictionary, the field is empty."""


_NUMBERS = ["t", "seed", "regret", "average_regret", "queries", "bound"]
"""What the picture is drawn from."""


_GZIP: dict[str, Any] = {"method": "gzip", "mtime": 0}


def _place(path: Path, write_to: Callable[[Path], object]) -> None:
    """Write to a neighbour of `path` and rename it, so that `path` is whole or absent."""
    stem, _, ending = path.name.partition(".")
    draft = path.with_name(f".{stem}-{os.getpid()}.{ending}")
    try:
        write_to(draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
