"""The files of a comparison: whole or absent, and read back as they were written."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from tvbandits.comparison import files
from tvbandits.comparison.compare import compare
from tvbandits.comparison.summary import SUMMARY, summarise
from tvbandits.datasets import DriftingBump
from tvbandits.datasets.tables.references import References

REFERENCES = {"1": References(1.25, 0.1 + 0.2, math.pi, 1 / 3)}
UNITS = {"1": "ppb"}
ARGUMENTS = {"problems": ["1"], "interrupted": False}
FILES = {files.ROWS, files.SUMMARY, files.PICTURE, files.RUN}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Labels are chosen to be taken for something else."""
    names = ["uniform", "sparq-gp-ucb"]
    made = pd.DataFrame(compare({"1": DriftingBump(51, horizon=6)}, names, [4, 2], confidence=2))
    return made.assign(policy=made["policy"].replace({"uniform": "NA"}))


def write(out: Path, rows: pd.DataFrame, bound: bool = False) -> None:
    files.write(out, rows, REFERENCES, UNITS, ARGUMENTS, bound=bound)


def test_what_is_written_is_read_again(rows: pd.DataFrame, tmp_path: Path) -> None:
    out = tmp_path / "new" / "deep"
    write(out, rows, bound=True)
    assert {path.name for path in out.iterdir()} == FILES
    found, references, units, bound, interrupted = files.read(out)
    assert interrupted is False
    numbers = ["t", "seed", "queries"]
    pd.testing.assert_frame_equal(
        found, rows.astype(dict.fromkeys(numbers, float)), rtol=1e-14, check_dtype=False
    )
    assert (references, units, bound) == (REFERENCES, UNITS, True)
    assert found["policy"].unique().tolist() == ["NA", "sparq-gp-ucb"]
    assert found["problem"].unique().tolist() == ["1"]
    assert found["confidence"].unique().tolist() == ["none", "2"]


def test_record_and_summary(rows: pd.DataFrame, tmp_path: Path) -> None:
    write(tmp_path, rows)
    record = json.loads((tmp_path / files.RUN).read_text())
    assert set(record) >= {"tvbandits", "python", "versions", "arguments", "seeds", "references"}
    assert record["seeds"] == [2, 4]
    assert record["arguments"] == ARGUMENTS
    assert record["versions"]["numpy"] == np.__version__
    assert record["references"]["1"] == REFERENCES["1"]._asdict()
    table = pd.read_csv(tmp_path / files.SUMMARY, keep_default_na=False)
    assert list(table.columns) == SUMMARY
    expected = summarise(rows)["average_regret"]
    np.testing.assert_allclose(table["average_regret"], expected, rtol=1e-14)


def test_the_picture_of_a_comparison_that_was_cut_short_says_so(
    rows: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles: list[str] = []

    def saving(figure: Figure, path: Path) -> None:
        path.touch()
        titles.append(figure.axes[-1].get_title("left"))

    monkeypatch.setattr(files, "save_figure", saving)
    left = rows[(rows["policy"] == "NA") | (rows["seed"] == 4)]
    arguments = {**ARGUMENTS, "interrupted": True}
    files.write(tmp_path, left, REFERENCES, UNITS, arguments, bound=False)
    found = files.read(tmp_path)
    assert found.interrupted
    files.draw(tmp_path, found)
    files.write(tmp_path, rows, REFERENCES, UNITS, ARGUMENTS, bound=False)
    cut = "1, width 2, 1-2 seeds, interrupted"
    assert titles == [cut, cut, "1, width 2, 2 seeds"]


def test_the_same_rows_make_the_same_files(rows: pd.DataFrame, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, rows)
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_a_reader_of_the_old_file_reads_all_of_it(rows: pd.DataFrame, tmp_path: Path) -> None:
    write(tmp_path, rows)
    old = (tmp_path / files.ROWS).read_bytes()
    with (tmp_path / files.ROWS).open("rb", buffering=0) as reader:
        start = reader.read(10)
        write(tmp_path, rows[rows["seed"] == 2])
        assert start + reader.read() == old
    assert (tmp_path / files.ROWS).read_bytes() != old


@pytest.mark.parametrize("failing", ["to_csv", "savefig", "write_text"])
@pytest.mark.parametrize("before", [True, False])
def test_a_failure_while_writing_leaves_whole_files(
    rows: pd.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
    before: bool,
) -> None:
    if before:
        write(tmp_path, rows[rows["seed"] == 2])
    old = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def half(written: Any, path: Any, *_: Any, **__: Any) -> None:
        Path(written if failing == "write_text" else path).write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    owner = {
        "to_csv": pd.DataFrame,
        "savefig": __import__("matplotlib.figure").figure.Figure,
        "write_text": Path,
    }[failing]
    monkeypatch.setattr(owner, failing, half)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, rows)
    monkeypatch.undo()
    left = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(left) <= FILES
    assert b"half of it" not in left.values()
    broken = {"to_csv": files.ROWS, "savefig": files.PICTURE, "write_text": files.RUN}[failing]
    assert left.get(broken) == old.get(broken)


# --- folders


def test_a_writable_folder_is_left_as_it_is(tmp_path: Path) -> None:
    assert files.writable_folder(tmp_path) == tmp_path
    new = tmp_path / "a" / "b"
    assert files.writable_folder(new) == new
    assert list(tmp_path.iterdir()) == []


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    for path, reason in ((file, "File exists"), (file / "below", "Not a directory")):
        with pytest.raises(ValueError, match=f'cannot write to the folder "{path}": {reason}'):
            files.writable_folder(path)
    assert file.read_text() == "x"
    if Path("/proc/self").is_dir():
        with pytest.raises(ValueError, match='cannot write to the folder "/proc/self/x": '):
            files.writable_folder(Path("/proc/self/x"))


def test_a_folder_without_a_comparison(rows: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r'no comparison in ".*none": rows.csv.gz is missing'):
        files.read(tmp_path / "none")
    write(tmp_path, rows)
    (tmp_path / files.RUN).unlink()
    with pytest.raises(ValueError, match=r'no comparison in ".*": run.json is missing'):
        files.read(tmp_path)


def truncated(out: Path) -> None:
    path = out / files.ROWS
    path.write_bytes(path.read_bytes()[:-40])


def scrambled(out: Path) -> None:
    path = out / files.ROWS
    content = bytearray(path.read_bytes())
    content[60:120] = bytes(60)
    path.write_bytes(content)


def plain(text: str) -> Callable[[Path], None]:
    return lambda out: (out / files.ROWS).write_bytes(gzip.compress(text.encode())) and None


def record(text: str) -> Callable[[Path], None]:
    return lambda out: (out / files.RUN).write_text(text) and None


@pytest.mark.parametrize(
    "damage",
    [
        truncated,
        scrambled,
        plain(""),
        plain("a,b\n1,2\n"),
        plain("problem,policy,confidence,t,seed,regret,average_regret,queries,bound\n"),
        plain(
            "problem,policy,confidence,t,seed,regret,average_regret,queries,bound\na,b,c,x,1,1,1,1,1"
        ),
        lambda out: (out / files.ROWS).write_bytes(b"not gzip"),
        record(""),
        record("[]"),
        record("{}"),
        record('{"references": 3, "units": {}, "bound": false}'),
        record('{"references": {"1": {"odd": 1}}, "units": {}, "bound": false}'),
        record('{"references": {"1": [1, 2]}, "units": {}, "bound": false}'),
    ],
)
def test_a_damaged_comparison(
    rows: pd.DataFrame, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    write(tmp_path, rows)
    damage(tmp_path)
    with pytest.raises(ValueError, match=r'the comparison in ".*" cannot be read: .+'):
        files.read(tmp_path)
