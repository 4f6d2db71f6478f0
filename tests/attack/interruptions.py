"""Calls that are interrupted at any line: made or not made, never half, and all goes on as if nothing.

A random bandit (every policy by name, and random recipes) plays beside
a twin that nothing happens to. Into its calls a KeyboardInterrupt, a MemoryError or an ordinary error
is thrown at an executed line of the package or of a kernel of scikit-learn, the error kept alive as an
interactive session keeps it. None is thrown between the block of a `with` and its exit, where tracing
could: Python looks for signals after calls and at jumps back, and allocates nothing there. Then

- its state is that from before the call, or that after it (the twin's), to the last bit;
- another thread can use it, and BLAS has as many threads as before;
- the call is made once more, or is not, and everything after is what the twin says, to the last bit.
"""

import ast
import dis
import gc
import inspect
import itertools
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sklearn_kernels

import tvbandits
from tests.attack import bandits
from tests.attack.bandits import Call, calls_of
from tests.attack.report import HALF_DONE, SILENT, WRONG, Count, Trial, in_the_loop
from tvbandits import Bandit, Candidates, threads
from tvbandits.bandit.state import State, is_same_value
from tvbandits.policies import POLICIES, Setting

STEPS = 7

HOME = Path(tvbandits.__file__).resolve().parent
# Where interruptions are thrown.
PLACES = (
    str(HOME),
    *(str((HOME / link).resolve()) for link in ("experts", "datasets")),
    str(Path(sklearn_kernels.__file__).resolve()),
)

# Seconds after which a bandit that another thread cannot use is locked.
PATIENCE = 20.0


class OrdinaryError(Exception):
    """An error that nobody expects."""


ERRORS = (KeyboardInterrupt, MemoryError, OrdinaryError)

Line = tuple[CodeType, int]


class Lines:
    """The executed lines of a call; at the n-th an error is thrown.

    Parameters
    ----------
    at : int, optional
        Which line, from 1 on.
    error : type of BaseException, optional
    """

    def __init__(self, at: int = 0, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.at, self.error = at, error
        self.seen: list[Line] = []
        self.thrown: Line | None = None
        self.asking = self.asked = False
        self._before: dict[int, int] = {}  # the line that a frame, by its id, was at

    def run(self, call: Callable[[], Any]) -> Any:
        """Make the call."""
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            return call()
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, event: str, arg: object) -> Any:  # noqa: ARG002
        if not ours(frame.f_code):
            return None
        if not frame.f_code.co_flags & inspect.CO_GENERATOR:  # one that may be going on
            self._before.pop(id(frame), None)
        return self._line

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:  # noqa: ARG002
        if event == "line":
            before = self._before.get(id(frame), 0)
            self._before[id(frame)] = frame.f_lineno
            if leaves_block(frame, before) or jumps_back(frame):
                return self._line
            self.asked = self.asked or frame.f_code.co_name in ("query", "observe")
            self.seen.append((frame.f_code, frame.f_lineno))
            if len(self.seen) == self.at:
                self.thrown, self.asking = self.seen[-1], asks(frame)
                raise self.error(f"thrown at {where(self.thrown)}")
        return self._line


def asks(frame: FrameType | None) -> bool:
    """Whether a frame belongs to a question to an expert."""
    while frame is not None and frame.f_code.co_name != "query":
        frame = frame.f_back
    return frame is not None


_OURS: dict[CodeType, bool] = {}


def ours(code: CodeType) -> bool:
    """Whether a function is of those that are interrupted."""
    if code not in _OURS:
        _OURS[code] = str(Path(code.co_filename).resolve()).startswith(PLACES)
    return _OURS[code]


@cache
def blocks_of(path: str) -> dict[int, tuple[int, int]]:
    """The first and last line of the block of each `with` of a file, by its own line."""
    found: dict[int, tuple[int, int]] = {}
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.With):
            starts = [item.context_expr.lineno for item in node.items] + [node.body[0].lineno]
            ends = node.body[-1].end_lineno or node.body[-1].lineno
            found.update((start, (inner, ends)) for start, inner in itertools.pairwise(starts))
    return found


def leaves_block(frame: FrameType, before: int) -> bool:
    """Whether a frame is back at the line of a `with` from a line of its block, to leave it."""
    first, last = blocks_of(frame.f_code.co_filename).get(frame.f_lineno, (1, 0))
    return frame.f_lineno < first <= before <= last


def jumps_back(frame: FrameType) -> bool:
    """Whether a frame is at a jump back where tracing cannot throw as a signal does.

    From Python 3.12 on an error thrown there by a tracer passes by the `finally` and the `with` around a
    comprehension; a signal does not (but for 3.13.0, in loops with a condition: a fault of its own).
    """
    name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return sys.version_info >= (3, 12) and name in ("JUMP_BACKWARD", "FOR_ITER")


def where(line: Line) -> str:
    """File and line, for people."""
    code, number = line
    return f"{Path(code.co_filename).name}:{number} ({code.co_name})"


def drawn(seen: list[Line], rng: np.random.Generator) -> int:
    """An executed line, from 1 on: half of the time any place in the code is as likely as any other."""
    if rng.random() < 0.5:
        return int(rng.integers(len(seen))) + 1
    by_place: dict[Line, list[int]] = {}
    for i, line in enumerate(seen, start=1):
        by_place.setdefault(line, []).append(i)
    times = list(by_place.values())[int(rng.integers(len(by_place)))]
    return times[int(rng.integers(len(times)))]


def player_of(seed: int) -> tuple[Bandit, Any, str]:
    """A bandit, the truth it plays on, and what it is; made anew each time."""
    # Other players have no state that could be compared.
    names = [
        name
        for name, policy in POLICIES.items()
        if inspect.signature(policy.recipe).return_annotation in (Bandit, Bandit.__name__)
    ]
    if seed % 2:
        recipe, truth, made_of = bandits.recipe_of(seed)
        return Bandit(recipe, seed=seed), truth, f"{made_of['posterior']}, {made_of['kernel']}"
    name = names[seed // 2 % len(names)]
    domain = Candidates(10.0 * np.random.default_rng([seed, 2]).random((30, 2)))
    wave, kernel = bandits.Truth(1.0, 0.0, 10.0, 0.0, 0.1), bandits.space_kernels_of(domain)[0]
    expert = bandits.Sometimes(wave, 0.01, seed)
    about = (60, 0.1, 1.0, 0.03, 10.0, None, lambda: expert, seed)
    return POLICIES[name].make(Setting(domain, kernel, 0.01, *about)), wave, name


def same_state(one: State, other: State) -> bool:
    """Whether two states are the same to the last bit, with what they tell people."""
    return one == other and is_same_value(one.info, other.info)


def free(bandit: Bandit) -> bool:
    """Whether another thread can use a bandit."""
    done = threading.Event()

    def look() -> None:
        _ = bandit.state
        done.set()

    threading.Thread(target=look, daemon=True).start()
    return done.wait(PATIENCE)


def blas_threads() -> list[int]:
    """How many threads each BLAS library takes."""
    return [library.get_num_threads() for library in threads._find_libraries()]


class Duel:
    """A bandit that is interrupted, and its twin.

    Parameters
    ----------
    seed : int
    count : Count
        Where attempts and faults are counted.
    """

    def __init__(self, seed: int, count: Count) -> None:
        self.seed, self.count = seed, count
        self.rng = np.random.default_rng([seed, 4])
        (self.bandit, self.truth, self.what), (self.twin, _, _) = player_of(seed), player_of(seed)
        self.over = False

    def play(self) -> None:
        """Some steps, or until a fault was found."""
        now = 0.0
        for _ in range(STEPS):
            now += float(self.rng.choice([0.5, 1.0, 3.0]))
            twin = self.twin
            for call in calls_of(twin, self.truth, now, self.rng):
                self.attack(call)
                if self.over:
                    return
                if self.twin is not twin:  # it goes on from where the expert had been asked
                    break

    def attack(self, call: Call) -> None:
        """Interrupt a call, up to three times, then make it or leave it."""
        before = self.bandit.state
        never = self.rng.random() < 0.1
        twin = pickle.loads(pickle.dumps(self.twin)) if never else self.twin
        plain = Lines()
        right = plain.run(lambda: call.make(twin))
        if not plain.seen:
            return
        for _ in range(int(self.rng.integers(1, 4))):
            at, error = drawn(plain.seen, self.rng), ERRORS[int(self.rng.integers(len(ERRORS)))]
            if self.interrupted(call, before, twin, right, Lines(at, error)):
                self.over = self.over or never  # the twin has not made it
                return
        if not never and not self.over:
            self.compare(call, call.make(self.bandit), right)

    def compare(self, call: Call, found: Any, right: Any) -> None:
        """What a call gave, and where it led."""
        if not is_same_value(found, right):
            self.fault(WRONG, f"{call.name} gives something else")
        elif not same_state(self.bandit.state, self.twin.state):
            self.fault(WRONG, f"{call.name} leads elsewhere")

    def interrupted(
        self, call: Call, before: State, twin: Bandit, right: Any, lines: Lines
    ) -> bool:
        """Interrupt a call once; whether it was made all the same."""
        blas = blas_threads()
        error: BaseException | None = None
        try:
            found = lines.run(lambda: call.make(self.bandit))
        except (*ERRORS, Exception) as caught:
            error = caught  # kept with its traceback, as a session keeps it
        if lines.thrown is None:
            if error is not None:
                raise error
            # What an attempt before had worked out was kept, so that there are fewer lines now.
            self.over = twin is not self.twin
            if not self.over:
                self.compare(call, found, right)
            return True
        self.count.tried += 1
        at = f"{lines.error.__name__} in {call.name} at {where(lines.thrown)}"
        if blas_threads() != blas:
            self.fault(HALF_DONE, f"{at}: BLAS is left with {blas_threads()} threads, not {blas}")
        if not free(self.bandit):
            self.fault(HALF_DONE, f"{at}: it is locked")
            return True
        after = self.bandit.state
        if error is None:
            self.absorbed(at, lines.asking)
            return True
        if same_state(after, before):
            return False
        queries = replace(after.queries, expert=before.queries.expert)
        if lines.asked and same_state(replace(after, queries=queries), before):
            # The expert was asked, and knows it: what it was paid for is not taken back. From here on
            # the twin is a bandit of new parts that was given this state.
            self.count.also["after the expert was asked"] += 1
            self.twin = Bandit.from_state(
                player_of(self.seed)[0].recipe, pickle.loads(pickle.dumps(after))
            )
            self.over = not same_state(self.twin.state, after)
            if self.over:
                self.fault(HALF_DONE, f"{at}: what the expert knows is half")
            return True
        if not same_state(after, twin.state):
            self.fault(HALF_DONE, at)
        return True

    def absorbed(self, at: str, asking: bool) -> None:
        """An error that the caller never saw: right only where the expert counts as down."""
        if asking:
            self.count.also["taken as an expert that is down"] += 1
        else:
            self.count.fault(SILENT, f"seed {self.seed}, {self.what}: {at}")
        self.over = True

    def fault(self, kind: str, what: str) -> None:
        """Count it, and end."""
        self.count.fault(kind, f"seed {self.seed}, {self.what}: {what}")
        self.over = True


@in_the_loop(5000, 60)
def attack(found: Count, count: int, seed: int) -> Iterator[Trial]:
    """Interrupt about so many calls: duels, one after the other, each of which counts its own."""
    for each in itertools.count(seed):
        if found.tried >= count:
            break
        found.tried -= 1  # a duel is no attempt
        yield f"seed {each}", partial(duel, each, found)
    gc.collect()


def duel(seed: int, found: Count) -> None:
    """Play one."""
    Duel(seed, found).play()
