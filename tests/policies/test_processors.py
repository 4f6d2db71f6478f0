"""Plays do not depend on the BLAS kernel, which the library selects by processor."""

import os
import subprocess
import sys
from functools import cache

import pytest

from tests.places import ROOT

pytestmark = pytest.mark.slow

POLICIES = ["gp-ucb", "sw-gp-ucb", "w-gp-ucb", "r-gp-ucb", "tv-gp-ucb", "sparq-gp-ucb"]
# BLAS kernels for AVX-512, AVX2 (two of them), AVX, SSE3 and SSE2.
KERNELS = ["SkylakeX", "Haswell", "Zen", "Sandybridge", "Nehalem", "Prescott"]
RUNS_HERE = "import numpy; numpy.linalg.cholesky(numpy.eye(300)); import scipy.linalg"
PLAYS = f"""
from tvbandits.comparison.compare import compare
from tvbandits.datasets import DriftingBump
for beta in (2.0, "theory"):
    rows = compare(DriftingBump(candidates=201), {POLICIES}, 1, 60, beta=beta)
    for policy, part in rows.groupby("policy"):
        print(beta, policy, *part["x0"].round(6), "asked", *part["queries"])
"""


def run_with_kernel(kernel: str, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a new process, as the variable is read when the library is loaded."""
    environment = os.environ | {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@cache
def plays(kernel: str) -> str:
    process = run_with_kernel(kernel, PLAYS)
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.parametrize("kernel", [each for each in KERNELS if each != "Prescott"])
def test_plays_are_the_same_under_every_blas_kernel(kernel: str) -> None:
    if run_with_kernel(kernel, RUNS_HERE).returncode < 0:
        pytest.skip(f"this processor cannot run {kernel}")
    expected = plays("Prescott")
    assert len(expected.splitlines()) == 2 * len(POLICIES)
    assert plays(kernel) == expected
