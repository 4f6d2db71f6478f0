"""Plays do not depend on the kernels of the linear algebra library, which each processor chooses."""

import os
import subprocess
import sys
from functools import cache

import pytest

from tests.places import ROOT

pytestmark = pytest.mark.slow

POLICIES = ["gp-ucb", "sw-gp-ucb", "w-gp-ucb", "r-gp-ucb", "tv-gp-ucb", "sparq-gp-ucb"]
# Of processors with AVX-512, with AVX2 (two names), with AVX, with SSE3, and with SSE2.
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


def under(kernel: str, program: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, since the variable is read when the library is loaded."""
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
    ran = under(kernel, PLAYS)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("kernel", [each for each in KERNELS if each != "Prescott"])
def test_plays_on_the_bump_are_those_of_the_plainest_kernel(kernel: str) -> None:
    if under(kernel, RUNS_HERE).returncode < 0:
        pytest.skip(f"this processor cannot run {kernel}")
    expected = plays("Prescott")
    assert len(expected.splitlines()) == 2 * len(POLICIES)
    assert plays(kernel) == expected
