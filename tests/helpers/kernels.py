"""Runs tests under each of OpenBLAS's kernels that this processor can run, with 1 and with 2 threads.

    python -m tests.helpers.kernels [ARGUMENTS OF PYTEST]

Kernels differ in the order in which they add, so in the last bits of every product. No result that a
test speaks of may depend on that. Without arguments it is the tests of the numerics that run.
"""

import json
import os
import subprocess
import sys

from tests.places import ROOT

KERNELS = ("Prescott", "Haswell", "Zen", "SkylakeX")
NUMERICS = [
    f"tests/{folder}"
    for folder in ("core", "gp", "forgetting", "acquisition", "queries", "bandit", "policies")
]
PROBE = """
import json, numpy, scipy.linalg, threadpoolctl
A = numpy.random.default_rng(0).standard_normal((300, 300))
scipy.linalg.cholesky(A @ A.T + numpy.eye(300))
found = threadpoolctl.threadpool_info()
print(json.dumps([each["architecture"] for each in found if each["internal_api"] == "openblas"]))
"""


def architecture(kernel: str) -> str | None:
    """What OpenBLAS says it runs where it is asked for a kernel; None if this processor cannot."""
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernel}
    ran = subprocess.run(
        [sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=False
    )
    found = set(json.loads(ran.stdout)) if ran.returncode == 0 else set()
    return ", ".join(sorted(found)) or None


def main(arguments: list[str]) -> int:
    """Exit status: how many of the runs failed."""
    failed: list[str] = []
    seen: dict[str, str] = {}
    for kernel in KERNELS:
        runs = architecture(kernel)
        if runs is None or runs in seen:
            why = "not on this processor" if runs is None else f"here the same as {seen[runs]}"
            print(f"{kernel}: {why}", flush=True)
            continue
        seen[runs] = kernel
        for threads in ("1", "2"):
            print(f"{kernel} ({runs}), {threads} BLAS thread{'s' * (threads != '1')}", flush=True)
            environment = {**os.environ, "OPENBLAS_CORETYPE": kernel, "BLAS_THREADS": threads}
            command = [sys.executable, "-m", "pytest", "-q", *(arguments or NUMERICS)]
            if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
                failed.append(f"{kernel} with {threads}")
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
