"""Damaged and forged saved files are refused by name, within 20 seconds and 2 GB each."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.attack.saved_files import cases, damaged, good

# Loads one file after the other, and prints its error, time and memory.
CHILD = """
import json, resource, sys, time
from tvbandits import SavedFileError, load
for name in sys.argv[1:]:
    began, error = time.monotonic(), None
    try:
        load(name)
    except SavedFileError as refusal:
        error = str(refusal)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([name, error, time.monotonic() - began, peak]))
"""


@pytest.mark.slow
def test_load_refuses_damaged_and_forged_files_within_20_seconds_and_2_gb(tmp_path: Path) -> None:
    whole, rng = good(), np.random.default_rng(0)
    forged = list(cases(whole).values())
    assert len(forged) >= 50
    files = [*forged, *(damaged(whole, rng) for _ in range(200))]
    paths = [tmp_path / f"{number}.saved" for number in range(len(files))]
    for path, content in zip(paths, files, strict=True):
        path.write_bytes(content)
    (tmp_path / "whole.saved").write_bytes(whole)
    run = subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, paths), str(tmp_path / "whole.saved")],
        capture_output=True,
        text=True,
        check=True,
    )
    *refusals, last = map(json.loads, run.stdout.splitlines())
    assert last[1] is None  # the undamaged file
    assert len(refusals) == len(files)
    for name, error, seconds, kilobytes in refusals:
        assert error is not None, f"{name} was loaded"
        assert name in error
        assert seconds < 20
        assert kilobytes < 2_000_000
