"""Several threads, calls from within calls, and BLAS threads."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from tests.helpers.players import KERNEL, LINE, NOISE, made, noisy, step, warmed, wave
from tests.oracles.states import fingerprint
from tvbandits import Answers, Bandit, ExpertError, Options, Recipe, policies
from tvbandits.errors import CallWithinCallError
from tvbandits.queries.plans import QueryConfig, RandomPoints
from tvbandits.threads import limit_blas_threads
from tvbandits.validation import Array

TELLS = 200


def at_once(calls: list[Any]) -> list[Any]:
    """All calls in threads of their own, begun together."""
    ready = threading.Barrier(len(calls))

    def run(call: Any) -> Any:
        ready.wait(10)
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def test_four_threads_tell_and_nothing_is_lost() -> None:
    bandit = policies.gp_ucb(LINE, kernel=KERNEL, noise_variance=NOISE, options=Options(mean=0.0))

    def tell(which: int) -> None:
        for i in range(TELLS):
            bandit.tell(LINE.X[[(which + i) % 41]], [1000.0 * which + i], float(i))

    at_once([lambda which=which: tell(which) for which in range(4)])
    assert bandit.info.readings == 4 * TELLS
    for which in range(4):  # each thread's rewards in its own order
        mine = bandit.state.rewards.y[bandit.state.rewards.y // 1000 == which]
        np.testing.assert_array_equal(mine, 1000.0 * which + np.arange(TELLS))


def test_threads_that_ask_and_tell_play_different_points() -> None:
    """Workers of their own pace: what is out in one counts in the others."""
    bandit = made("gp-ucb")
    lock, out, twice = threading.Lock(), list[float](), list[float]()

    def work() -> None:
        for _ in range(15):
            X = bandit.ask(1.0)
            with lock:
                twice.extend(x for x in X[:, 0] if x in out)
                out.extend(X[:, 0])
            bandit.predict(LINE.X[:3], 2.0)
            with lock:
                for x in X[:, 0]:
                    out.remove(x)
                bandit.tell(X, noisy(X, 1.0), 1.0)

    at_once([work] * 4)
    assert bandit.info.readings == 60
    assert len(bandit.pending) == 0
    assert twice == []


def test_looking_meanwhile_sees_whole_states() -> None:
    bandit = made("sparq-gp-ucb")
    stop = threading.Event()

    def look() -> int:
        looks = 0
        while not stop.is_set() or looks == 0:
            state = bandit.state
            assert len(state.rewards) == state.info.readings
            assert len(bandit.history) >= len(state.rewards)
            looks += 1
        return looks

    def play() -> int:
        try:
            for t in range(1, 31):
                step(bandit, float(t))
        finally:
            stop.set()
        return 30

    assert min(at_once([look, look, play])) > 0
    twin = made("sparq-gp-ucb")
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


class Meddling:
    """An expert that calls the bandit that asks it."""

    def __init__(self, call: str) -> None:
        self.call = call
        self.bandit: Any = None

    def query(self, X: Array, t: float) -> Answers:
        if self.bandit is not None:
            CALLS[self.call](self.bandit, t)
        return Answers(wave(X, t), NOISE)


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_from_inside_of_a_call_is_refused(call: str, consult: Any) -> None:
    experts = Meddling(call), Meddling(call)
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
    # The mistake is named, and nothing is lost: the call that failed may be made again.
    experts[0].bandit = None
    if consult == "after tell":
        X = bandit.pending
        np.testing.assert_array_equal(X, twin.ask(4.0))
        for each in (bandit, twin):
            each.tell(X, noisy(X, 4.0), 4.0)
    for t in (5.0, 6.0):
        np.testing.assert_array_equal(step(bandit, t), step(twin, t))
    assert fingerprint(bandit.state) == fingerprint(twin.state)


# --- BLAS -------------------------------------------------------------------------------------------


def blas_threads() -> list[int]:
    libraries = ThreadpoolController().lib_controllers
    return [each.get_num_threads() for each in libraries if each.user_api == "blas"]


@pytest.fixture
def two_threads() -> Iterator[list[int]]:
    """Several BLAS threads, whatever the machine was told."""
    libraries = [e for e in ThreadpoolController().lib_controllers if e.user_api == "blas"]
    before = [each.get_num_threads() for each in libraries]
    for each in libraries:
        each.set_num_threads(2)
    if 2 not in blas_threads():
        pytest.skip("BLAS has one thread here, whatever it is told")
    yield blas_threads()
    for each, threads in zip(libraries, before, strict=True):
        each.set_num_threads(threads)


class Watching:
    """An expert that looks how many threads there are while it is asked."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    def query(self, X: Array, t: float) -> Answers:
        self.seen.append(blas_threads())
        return Answers(wave(X, t), NOISE)


@pytest.mark.parametrize("consult", ["after tell", "before ask"])
def test_one_thread_in_every_call_and_all_after_it(consult: Any, two_threads: list[int]) -> None:
    expert = Watching()
    recipe = Recipe(
        LINE, KERNEL, NOISE, query_config=QueryConfig(RandomPoints(2), expert), consult=consult
    )
    bandit = Bandit(recipe, seed=1)
    for t in (1.0, 2.0, 3.0):
        step(bandit, t)
        bandit.predict(LINE.X)
        bandit.recommend()
        assert blas_threads() == two_threads
    assert expert.seen
    assert all(set(seen) == {1} for seen in expert.seen)


def test_the_limit_is_lifted_by_the_last_of_two_bandits(two_threads: list[int]) -> None:
    """Blocks that overlap without being nested: the first to begin is the first to end."""
    inside, done = threading.Barrier(2), threading.Event()
    seen: dict[str, list[int]] = {}

    def first() -> None:
        with limit_blas_threads():
            inside.wait(10)
            seen["both"] = blas_threads()
        done.set()

    def second() -> None:
        with limit_blas_threads():
            inside.wait(10)
            assert done.wait(10)
            seen["one left"] = blas_threads()

    at_once([first, second])
    assert set(seen["both"]) == set(seen["one left"]) == {1}
    assert blas_threads() == two_threads


def test_an_error_inside_lifts_the_limit_too(two_threads: list[int]) -> None:
    with pytest.raises(RuntimeError, match="out of luck"), limit_blas_threads():
        raise RuntimeError("out of luck")
    assert blas_threads() == two_threads


def forks(test: Any) -> Any:
    """A test that forks, where a process can; Python 3.12 warns of forks: that is the point."""
    heedless = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
    return pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")(heedless(test))


def child(pipe: Any, bandit: Any) -> None:
    """In a forked process: the guard works, and lifts what it finds."""
    found = {"before": blas_threads()}
    with limit_blas_threads():
        found["inside"] = blas_threads()
    found["after"] = blas_threads()
    with limit_blas_threads():
        found["again"] = blas_threads()
    X = step(bandit, 10.0)
    pipe.send((found, X))
    pipe.close()


@pytest.mark.slow
@forks
@pytest.mark.parametrize("where", ["outside", "inside"])
def test_a_forked_child_plays(where: str, two_threads: list[int]) -> None:
    """Also where the fork happens while BLAS is limited, as by an expert that forks."""
    fork = multiprocessing.get_context("fork")
    bandit, twin = (warmed(made("gp-ucb")) for _ in range(2))
    expected = step(twin, 10.0)
    ours, theirs = fork.Pipe()
    process = fork.Process(target=child, args=(theirs, bandit))
    if where == "inside":
        with limit_blas_threads():
            process.start()
    else:
        process.start()
    assert ours.poll(60)
    found, X = ours.recv()
    process.join(60)
    assert process.exitcode == 0
    np.testing.assert_array_equal(X, expected)
    assert set(found["inside"]) == set(found["again"]) == {1}
    assert found["after"] == two_threads
    assert blas_threads() == two_threads
    np.testing.assert_array_equal(step(bandit, 10.0), expected)


@forks
def test_a_child_does_not_end_its_parent_s_block(two_threads: list[int]) -> None:
    reading, writing = os.pipe()
    with limit_blas_threads():
        process = os.fork()
    if process == 0:  # the child has left the block that its parent began
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
