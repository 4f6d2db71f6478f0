"""Workers of a comparison end after it is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import os, sys, time
from functools import partial
from joblib import Parallel, delayed
from tvbandits.comparison.compare import call_alone

def work(folder, number):
    open(os.path.join(folder, f"{number}-{os.getpid()}"), "w").close()
    while True:
        time.sleep(0.05)

alone = partial(call_alone, os.getpid())
Parallel(n_jobs=2)(delayed(alone)(work, sys.argv[1], number) for number in range(2))
"""


def alive(process: int) -> bool:
    """Whether a process runs; a zombie process does not."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc to look into")
def test_call_alone_ends_workers_after_their_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)])
    workers: list[int] = []
    try:
        limit = time.monotonic() + 120
        while len(workers) < 2 and time.monotonic() < limit:
            time.sleep(0.1)
            workers = [int(each.name.split("-")[1]) for each in tmp_path.iterdir()]
        assert len(workers) == 2
        assert parent.pid not in workers
        assert all(map(alive, workers))
        parent.kill()  # SIGKILL, on which the parent cannot end its workers
        parent.wait()
        limit = time.monotonic() + 60
        while any(map(alive, workers)) and time.monotonic() < limit:
            time.sleep(0.1)
        assert not any(map(alive, workers))
    finally:
        parent.kill()
        parent.wait()
        for worker in filter(alive, workers):
            os.kill(worker, signal.SIGKILL)
