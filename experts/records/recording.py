"""An expert whose answers are kept in a file: `Recording`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tvbandits.core.arrays import Array, Index, as_points, as_time, finite_number, flag
from tvbandits.core.coercion import file_path
from tvbandits.core.protocols import Answers, Expert, ExpertError, checked_answers
from tvbandits.experts.asking import SharedLock, Wrapper, checked_expert
from tvbandits.experts.records.recording_file import Doubt, RecordingFile, VerifiedRecording
from tvbandits.experts.records.tables import FilePath


class Recording(Wrapper):
    """Asks an expert and writes every answer down before anybody sees it.

    A question is written down before it is asked, and its answers are on the disk before `query`
    returns them, so nothing that was paid for is lost with a process. Where a process died between
    the payment and the writing, `in_doubt` tells which question that was.

    The file is a SQLite database; `tvbandits.experts.records.recording_file` describes it. Several
    processes may write to one file. It must lie on a disk of this machine: locks of network disks are
    not to be relied on.

    Parameters
    ----------
    expert : Expert
        Who is asked.
    path : str or path
        The file; made where there is none.
    reuse : bool
        Whether an answer in the file, to the very same point and time, is given again instead of asking
        again: a resumed run that repeats its last step pays for nothing twice. The last one written
        counts where there are several. What was refused is asked again. Threads of this process then
        ask one after the other; two processes that ask the same at the same moment both pay.
        With False every question is asked, and the answers to repeated ones are kept side by side,
        numbered by the column `repeat`.
    timeout : float
        How many seconds to wait for another process that is writing.

    Raises
    ------
    ValueError
        If the file is there, but is not a recording.
    DamagedRecordingError
        If it is one, and not as it was written.
    FileNotFoundError
        If its folder is not there.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import CallableExpert, Recording
    >>> recording = Recording(CallableExpert(lambda X, t: X[:, 0], 0.01), "answers.sqlite")
    >>> answers = recording.query(np.array([[1.0], [2.0]]), 1.0)
    >>> print(recording.verify())
    1 questions about 2 points, 2 answers: every row is as it was written
    >>> recording.close()
    """

    def __init__(
        self, expert: Expert, path: FilePath, *, reuse: bool = True, timeout: float = 30.0
    ) -> None:
        self.expert = checked_expert(expert)
        # Absolute, for a run that is resumed in another folder.
        self.path = file_path("path", path).absolute()
        self.reuse = flag("reuse", reuse)
        # SQLite counts it in milliseconds, in 32 bits.
        self.timeout = finite_number("timeout", timeout, low=0.0, high=1e6)
        self._asking = SharedLock(brief=False)
        self._file = RecordingFile(self.path, self.timeout)
        self._file.open()

    def __repr__(self) -> str:
        return f"Recording({self.expert!r}, {str(self.path)!r}, reuse={self.reuse})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; nothing can be asked afterwards. Closing twice is no error."""
        self._file.close()

    def verify(self) -> VerifiedRecording:
        """Go through the whole file, as is done when it is opened.

        Raises
        ------
        DamagedRecordingError
            If a row is not as it was written, is missing, or is there twice: the message names it.
        """
        with self._written("read"):
            return self._file.verify()

    @property
    def in_doubt(self) -> tuple[Doubt, ...]:
        """Questions that were asked and whose answers never arrived, the oldest first.

        Either the process died before it could write them down, or was interrupted: they may have been
        paid for. Or another process, or thread, is waiting for them at this moment.
        """
        with self._written("read"):
            return self._file.in_doubt()

    @property
    def cost(self) -> float:
        """Sum of the costs of all answered questions in the file."""
        with self._written("read"):
            return self._file.cost()

    def query(self, X: ArrayLike, t: float) -> Answers:
        """Answer from the file, ask the expert about the rest, and write down what it says.

        Raises
        ------
        ExpertError
            If the file cannot be written, or the expert answers in a form that cannot be used. Errors
            of the expert go through; the question is then marked as failed.
        """
        points = as_points(X) + 0.0  # -0.0 is the same point as 0.0
        now = as_time(t) + 0.0
        if len(points) == 0:
            return Answers.none(0)
        if not self.reuse:
            return self._asked(points, now)
        with self._asking.now:
            return self._completed(points, now)

    def _completed(self, points: Array, now: float) -> Answers:
        """Answers from the file, and those of the expert for points that it has none for."""
        with self._written("read"):
            values, variance = self._file.known(points, now)
        missing = np.isnan(values)
        if not missing.any():
            note = f"all {len(points)} answers were in the recording"
            return Answers(values, variance, notes=(note,))
        first, copies = _distinct(points[missing])
        said = self._asked(points[missing][first], now)
        values[missing], variance[missing] = said.values[copies], said.variance[copies]
        notes = said.notes
        if found := int((~missing).sum()):
            notes = (f"{found} of {len(points)} answers were in the recording", *notes)
        return Answers(values, variance, said.cost, notes)

    def _asked(self, points: Array, now: float) -> Answers:
        """Ask, with the question written down before and the answers after."""
        with self._written("write"):
            question = self._file.ask(points, now)
        # An interrupt is not caught: whether the expert has done its work is then in doubt.
        try:
            said = checked_answers(self.expert.query(points.copy(), now), len(points))
        except Exception as error:
            with self._written("write", during=error):
                self._file.fail(question, f"{type(error).__name__}: {error}")
            raise
        # What is returned now must be what the file gives later: it does not keep the sign of zero.
        said = Answers(said.values + 0.0, said.variance, said.cost, said.notes)
        with self._written("write", paid=f"the answers to question {question} arrived, but"):
            self._file.answer(question, said)
        return said

    @contextmanager
    def _written(
        self, verb: str, *, paid: str = "", during: Exception | None = None
    ) -> Iterator[None]:
        """Turn errors of the file into an `ExpertError`, which stops a run: it could not be resumed."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            message = f"cannot {verb} the recording {str(self.path)!r}: {error}"
            if during is None:
                raise ExpertError(f"{paid} {message}".strip()) from error
            during.add_note(message)


def recorded(path: FilePath) -> pd.DataFrame:
    """All answers in the file of a `Recording`, refusals included, in the order they were written.

    Columns: question, asked_at, x0, ..., t, value, variance, repeat; `value` is NaN for a refusal.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, it is not a recording, or nothing was ever asked.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import CallableExpert, Recording, recorded
    >>> recording = Recording(CallableExpert(lambda X, t: X[:, 0], 0.01), "answers.sqlite")
    >>> answers = recording.query(np.array([[1.0]]), 1.0)
    >>> recording.close()
    >>> print(recorded("answers.sqlite")[["question", "x0", "t", "value"]])
       question   x0    t  value
    0         1  1.0  1.0    1.0
    """
    file = RecordingFile(file_path("path", path).absolute(), make=False)
    try:
        return file.answers()
    finally:
        file.close()


def verify_recording(path: FilePath) -> VerifiedRecording:
    """Go through the file of a `Recording` without changing it.

    Raises
    ------
    DamagedRecordingError
        If a row is not as it was written, is missing, or is there twice: the message names it.
    FileNotFoundError, ValueError
        If there is no such file, or it is not a recording.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import CallableExpert, Recording, verify_recording
    >>> recording = Recording(CallableExpert(lambda X, t: X[:, 0], 0.01), "answers.sqlite")
    >>> answers = recording.query(np.array([[1.0]]), 1.0)
    >>> recording.close()
    >>> print(verify_recording("answers.sqlite").answers)
    1
    """
    file = RecordingFile(file_path("path", path).absolute(), make=False)
    try:
        return file.verify()
    finally:
        file.close()


def _distinct(points: Array) -> tuple[Index, Index]:
    """Rows of the distinct points, in their order, and for each point its number among them."""
    numbers: dict[bytes, int] = {}
    copies = [numbers.setdefault(point.tobytes(), len(numbers)) for point in points]
    number = np.array(copies, dtype=np.int64)
    first = np.array([copies.index(i) for i in range(len(numbers))], dtype=np.int64)
    return first, number
