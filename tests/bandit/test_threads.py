"""Calls from several threads, calls from within calls, and BLAS threads."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from tests.helpers.players import KERNEL, LINE, NOISE, make_player, noisy_wave, step, warm_up, wave
from tests.oracles.states import fingerprint
from tvbandits import Answers, Bandit, ExpertError, Options, Recipe, policies
from tvbandits.errors import CallWithinCallError
from tvbandits.queries.plans import QueryConfig, RandomPoints
from tvbandits.threads import limit_blas_threads
from tvbandits.validation import Array

TELLS = 200


def run_at_once(calls: list[Any]) -> list[Any]:
    """Run all calls in their own threads, started together."""
    ready = threading.Barrier(len(calls))

    def run(call: Any) -> Any:
        ready.wait(10)
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def test_tell_from_four_threads_loses_no_reward() -> None:
    bandit = policies.gp_ucb(LINE, kernel=KERNEL, noise_variance=NOISE, options=Options(mean=0.0))

    def tell(number: int) -> None:
        for i in range(TELLS):
            bandit.tell(LINE.X[[(number + i) % 41]], [1000.0 * number + i], float(i))

    run_at_once([lambda number=number: tell(number) for number in range(4)])
    assert bandit.info.readings == 4 * TELLS
    for number in range(4):  # each thread's rewards in its own order
        rewards = bandit.state.rewards.y[bandit.state.rewards.y // 1000 == number]
        np.testing.assert_array_equal(rewards, 1000.0 * number + np.arange(TELLS))


def test_ask_from_four_threads_returns_different_pending_points() -> None:
    """Threads run at their own pace, and pending points of one count in the others."""
    bandit = make_player("gp-ucb")
    lock, pending, repeated = threading.Lock(), list[float](), list[float]()

    def work() -> None:
        for _ in range(15):
            X = bandit.ask(1.0)
            with lock:
                repeated.extend(x for x in X[:, 0] if x in pending)
                pending.extend(X[:, 0])
            bandit.predict(LINE.X[:3], 2.0)
            with lock:
                for x in X[:, 0]:
                    pending.remove(x)
                bandit.tell(X, noisy_wave(X, 1.0), 1.0)

    run_at_once([work] * 4)
    assert bandit.info.readings == 60
    assert len(bandit.pending) == 0
    assert repeated == []


def test_state_read_from_another_thread_is_consistent() -> None:
    bandit = make_player("sparq-gp-ucb")
    stop = threading.Event()

    def look() -> int:
        count = 0
        while not stop.is_set() or count == 0:
            state = bandit.state
            assert len(state.rewards) == state.info.readings
            assert len(bandit.history) >= len(state.rewards)
            count += 1
        return count

    def play() -> int:
        try:
            for t in range(1, 31):
                step(bandit, float(t))
        finally:
            stop.set()
        return 30

    assert min(run_at_once([look, look, play])) > 0
    twin = make_player("sparq-gp-ucb")
    for t in range(1, 31):
        step(twin, float(t))
    assert fingerprint(bandit.state) == fingerprint(twin.state)


# --- calls from within a call -----------------------------------------------------------------------


CALLS: dict[str, Callable[[Bandit, float], Any]] = {
    "ask": lambda b, t: b.ask(t + 1.0),
    "tell": lambda b, t: b.tell(LINE.X[[3]], [9.0], t),
    "predict": lambda b, _: b.predict(LINE.X),
    "recommend": lambda b, _: b.recommend(),
    "drop": lambda b, _: b.drop(LINE.X[[3]]),
    "questions": lambda b, t: b.questions(t),
    "answer": lambda b, t: b.answer(LINE.X[[3]], [9.0], t),
}


class CallingExpert:
    """An expert that calls the bandit that queries it."""

    def __init__(self, call: str) -> None:
        self.call = call
        self.bandit: Any = None

    def query(self, X: Array, t: float) -> Answers:
        if self.bandit is not None:
            CALLS[self.call](self.bandit, t)
        return Answers(wave(X, t), NOISE)


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
@pytest.mark.parametrize("call", CALLS)
def test_calls_from_inside_of_a_call_are_refused_without_a_change(call: str, consult: Any) -> None:
    experts = CallingExpert(call), CallingExpert(call)
    bandit, twin = (
        Bandit(
            Recipe(
                LINE,
                KERNEL,
                NOISE,
                query_config=QueryConfig(RandomPoints(2), each),
                consult=consult,
            ),
            seed=1,
        )
        for each in experts
    )
    for each in (bandit, twin):
        for t in (1.0, 2.0, 3.0):
            step(each, t)
    experts[0].bandit = bandit
    match = f"{call} was called from inside of a call of the same bandit"
    with pytest.raises(ExpertError, match=match) as caught:
        step(bandit, 4.0)
    assert isinstance(caught.value.__cause__, CallWithinCallError)
    # The error names the mistake, and the call that failed may be made again.
    experts[0].bandit = None
    if consult == "after tell":
        X = bandit.pending
        np.testing.assert_array_equal(X, twin.ask(4.0))
        for each in (bandit, twin):
            each.tell(X, noisy_wave(X, 4.0), 4.0)
    for t in (5.0, 6.0):
        np.testing.assert_array_equal(step(bandit, t), step(twin, t))
    assert fingerprint(bandit.state) == fingerprint(twin.state)


# --- BLAS -------------------------------------------------------------------------------------------


def blas_threads() -> list[int]:
    libraries = ThreadpoolController().lib_controllers
    return [each.get_num_threads() for each in libraries if each.user_api == "blas"]


@pytest.fixture
def two_threads() -> Iterator[list[int]]:
    """Set several BLAS threads, whatever the environment says."""
    libraries = [e for e in ThreadpoolController().lib_controllers if e.user_api == "blas"]
    before = [each.get_num_threads() for each in libraries]
    for each in libraries:
        each.set_num_threads(2)
    if 2 not in blas_threads():
        pytest.skip("BLAS has one thread here, which cannot be changed")
    yield blas_threads()
    for each, threads in zip(libraries, before, strict=True):
        each.set_num_threads(threads)


class ThreadCountingExpert:
    """An expert that records the number of BLAS threads during its queries."""

    def __init__(self) -> None:
        self.thread_counts: list[list[int]] = []

    def query(self, X: Array, t: float) -> Answers:
        self.thread_counts.append(blas_threads())
        return Answers(wave(X, t), NOISE)


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
def test_calls_limit_blas_to_one_thread_and_restore_it(
    consult: Any, two_threads: list[int]
) -> None:
    expert = ThreadCountingExpert()
    recipe = Recipe(
        LINE, KERNEL, NOISE, query_config=QueryConfig(RandomPoints(2), expert), consult=consult
    )
    bandit = Bandit(recipe, seed=1)
    for t in (1.0, 2.0, 3.0):
        step(bandit, t)
        bandit.predict(LINE.X)
        bandit.recommend()
        assert blas_threads() == two_threads
    assert expert.thread_counts
    assert all(set(counts) == {1} for counts in expert.thread_counts)


def test_limit_blas_threads_ends_with_the_last_overlapping_block(two_threads: list[int]) -> None:
    """The blocks overlap without being nested: the first to begin is the first to end."""
    inside, first_ended = threading.Barrier(2), threading.Event()
    thread_counts: dict[str, list[int]] = {}

    def first() -> None:
        with limit_blas_threads():
            inside.wait(10)
            thread_counts["both"] = blas_threads()
        first_ended.set()

    def second() -> None:
        with limit_blas_threads():
            inside.wait(10)
            assert first_ended.wait(10)
            thread_counts["one left"] = blas_threads()

    run_at_once([first, second])
    assert set(thread_counts["both"]) == set(thread_counts["one left"]) == {1}
    assert blas_threads() == two_threads


def test_limit_blas_threads_ends_after_an_error(two_threads: list[int]) -> None:
    with pytest.raises(RuntimeError, match="out of luck"), limit_blas_threads():
        raise RuntimeError("out of luck")
    assert blas_threads() == two_threads


def needs_fork(test: Any) -> Any:
    """Mark a test that forks, where a process can; the warning of Python 3.12 is expected."""
    heedless = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
    return pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")(heedless(test))


def play_in_child(pipe: Any, bandit: Any) -> None:
    """Limit threads and play a step in a forked process."""
    thread_counts = {"before": blas_threads()}
    with limit_blas_threads():
        thread_counts["inside"] = blas_threads()
    thread_counts["after"] = blas_threads()
    with limit_blas_threads():
        thread_counts["again"] = blas_threads()
    X = step(bandit, 10.0)
    pipe.send((thread_counts, X))
    pipe.close()


@pytest.mark.slow
@needs_fork
@pytest.mark.parametrize("where", ["outside", "inside"])
def test_forked_child_plays_with_limited_blas_threads(where: str, two_threads: list[int]) -> None:
    """The fork may also happen while BLAS is limited, as by an expert that forks."""
    fork = multiprocessing.get_context("fork")
    bandit, twin = (warm_up(make_player("gp-ucb")) for _ in range(2))
    expected = step(twin, 10.0)
    receiver, sender = fork.Pipe()
    process = fork.Process(target=play_in_child, args=(sender, bandit))
    if where == "inside":
        with limit_blas_threads():
            process.start()
    else:
        process.start()
    assert receiver.poll(60)
    thread_counts, X = receiver.recv()
    process.join(60)
    assert process.exitcode == 0
    np.testing.assert_array_equal(X, expected)
    assert set(thread_counts["inside"]) == set(thread_counts["again"]) == {1}
    assert thread_counts["after"] == two_threads
    assert blas_threads() == two_threads
    np.testing.assert_array_equal(step(bandit, 10.0), expected)


@needs_fork
def test_limit_blas_threads_in_a_forked_child_restores_all_threads(two_threads: list[int]) -> None:
    reading, writing = os.pipe()
    with limit_blas_threads():
        process = os.fork()
    if process == 0:  # the child has left the block that its parent entered
        try:
            with limit_blas_threads():
                inside = blas_threads()
            os.write(writing, repr((inside, blas_threads())).encode())
        finally:
            os._exit(0)
    os.waitpid(process, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read() == repr(([1] * len(two_threads), two_threads))
    assert blas_threads() == two_threads
