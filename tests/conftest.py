"""One BLAS thread: several thread pools on few cores only get in each other's way.

BLAS_THREADS=2 asks for another number, to see that results do not depend on it.
"""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # In the background of a shell Ctrl-C is ignored, also by every process that is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples of a property that says no number itself.
settings.register_profile("tests", max_examples=40)
settings.load_profile("tests")

THREADS = int(os.environ.get("BLAS_THREADS", "1"))
# For processes that tests start; here numpy may have been loaded long ago.
os.environ["OPENBLAS_NUM_THREADS"] = str(THREADS)


def pytest_collection_finish() -> None:
    """Leave modules and tests out of each collection of garbage: they stay until the end anyway."""
    gc.freeze()


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`tvbandits ...`, as in `tests.helpers.commands`."""
    from tests.helpers.commands import commands  # which imports numpy

    return commands(monkeypatch, capsys)


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a folder without files."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save one white dot for each figure: to draw it takes longer than to play a few steps."""
    from matplotlib.figure import Figure
    from PIL import Image

    def save(_: Figure, path: Any, **__: Any) -> None:
        Image.new("RGB", (1, 1), "white").save(path, "PNG")

    monkeypatch.setattr(Figure, "savefig", save)


@pytest.fixture(autouse=True, scope="session")
def _blas_threads() -> Iterator[None]:
    with threadpool_limits(limits=THREADS):
        yield
