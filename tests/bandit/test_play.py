"""Batches of rewards, one after another and side by side."""

import math
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import refused
from tvbandits import Bandit, Candidates, EvaluationError, Played, evaluate, play, policies
from tvbandits.core.arrays import Array

X = np.array([[0.5, 1.0], [2.0, 3.0], [4.0, 0.0], [0.5, 1.0], [-1.0, 7.0]])
LINE = Candidates(np.linspace(0, 1, 60)[:, None])


def weighted(x: Array, t: float) -> float:
    """Tells order and time apart."""
    return float(x[0] + 10 * x[1] + 100 * t)


def slow_first(x: Array, t: float) -> float:
    """The first point takes the longest."""
    threading.Event().wait(0.05 if x[0] == 0.5 else 0.0)
    return weighted(x, t)


def bump(x: Array, t: float) -> float:
    """A drifting maximum, noisy in a way that depends on point and time alone."""
    noise = np.random.default_rng([int(1e6 * x[0]), int(t)]).normal(0.0, 0.1)
    return float(math.exp(-20 * (x[0] - 0.4 - 0.002 * t) ** 2) + noise)


def fails_at_four(x: Array, t: float) -> float:
    """One point raises."""
    if x[0] == 4.0:
        raise OSError("the valve is stuck")
    return weighted(x, t)


def nothing_at_four(x: Array, t: float) -> float:
    """One point has no reward."""
    return math.nan if x[0] == 4.0 else weighted(x, t)


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    # Forked workers of a process with threads may hang: these start afresh.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        yield executor


@pytest.fixture(params=["here", "threads", pytest.param("processes", marks=pytest.mark.slow)])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    if request.param == "here":
        yield None
    elif request.param == "threads":
        with ThreadPoolExecutor(3) as threads:
            yield threads
    else:
        yield request.getfixturevalue("processes")


# --- one batch ------------------------------------------------------------------------------------


def test_rewards_come_in_the_order_of_points(executor: Executor | None) -> None:
    rewards = evaluate(slow_first, X, 2.5, executor)
    np.testing.assert_array_equal(rewards, X[:, 0] + 10 * X[:, 1] + 250)
    assert rewards.dtype == np.float64
    assert evaluate(weighted, X[:0], 1.0, executor).shape == (0,)


def test_a_failing_function_and_a_missing_reward_name_the_point(executor: Executor | None) -> None:
    expected = r"failed at \[4\.0, 0\.0\], t = 2\.0: OSError: the valve is stuck"
    with pytest.raises(EvaluationError, match=expected) as caught:
        evaluate(fails_at_four, X, 2.0, executor)
    assert isinstance(caught.value.__cause__, OSError)
    expected = r"reward at \[4\.0, 0\.0\], t = 2\.0, must be a finite number, got nan"
    refused(EvaluationError, expected, evaluate, nothing_at_four, X, 2.0, executor)


@pytest.mark.parametrize("value", [None, "3", math.inf, [1.0], np.ones(1), 1j, np.array(math.nan)])
def test_rewards_must_be_numbers(value: Any) -> None:
    with pytest.raises(EvaluationError, match=r"at \[0\.5, 1\.0\], t = 0\.0, must be a finite num"):
        evaluate(lambda x, t: value, X, 0.0)  # noqa: ARG005


def test_points_are_the_functions_own() -> None:
    def careless(x: Array, t: float) -> float:  # noqa: ARG001
        x += 1.0
        return float(x[0])

    before = X.copy()
    with ThreadPoolExecutor(2) as threads:
        for executor in (None, threads):
            np.testing.assert_array_equal(evaluate(careless, X, 0.0, executor), X[:, 0] + 1)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("error", [OSError("stuck"), KeyboardInterrupt("stuck")])
def test_what_has_not_begun_is_cancelled(error: BaseException) -> None:
    seen: list[float] = []
    failed = threading.Event()

    def function(x: Array, t: float) -> float:  # noqa: ARG001
        seen.append(x[0])
        if x[0] == 0.0:
            failed.set()
            raise error
        failed.wait(5.0)
        # Long enough for the failure to be heard of, and far less than what is left would take.
        threading.Event().wait(0.1)
        return 0.0

    with ThreadPoolExecutor(2) as threads:
        expected = EvaluationError if isinstance(error, Exception) else KeyboardInterrupt
        refused(expected, "stuck", evaluate, function, np.arange(100.0)[:, None], 0.0, threads)
    assert len(seen) < 50


# --- the loop -------------------------------------------------------------------------------------


def budgeted(seed: int = 0) -> Bandit:
    return policies.bbkb(LINE, RBF(0.2), 0.01, ratio_bound=3.0, confidence=1.0, seed=seed)


def test_play_on_bbkb_is_the_same_with_and_without_an_executor(executor: Executor | None) -> None:
    runs = []
    for each in (None, executor):
        bandit, heard = budgeted(), list[Played]()
        played = play(bandit, bump, 120, executor=each, progress=heard.append)
        assert all(a is b for a, b in zip(played, heard, strict=True))
        runs.append((bandit, played))
    (first, played), (second, others) = runs
    assert [batch.done for batch in played] == [batch.done for batch in others]
    for mine, theirs in zip(others, played, strict=True):
        np.testing.assert_array_equal(mine.X, theirs.X)
        np.testing.assert_array_equal(mine.y, theirs.y)
        assert mine.t == theirs.t
    np.testing.assert_array_equal(first.state.rewards.y, second.state.rewards.y)
    assert len(first.state.rewards) == played[-1].done == 120
    assert [batch.t for batch in played] == [float(t) for t in range(1, len(played) + 1)]
    assert max(len(batch.y) for batch in played) > 4
    for batch in played:
        assert len(batch.X) == len(batch.y)
        np.testing.assert_array_equal(batch.y, [bump(x, batch.t) for x in batch.X])
    assert np.mean(np.concatenate([batch.y for batch in played])[-40:]) > 0.8


def test_play_is_ask_and_tell() -> None:
    bandit, plain = budgeted(3), budgeted(3)
    play(bandit, bump, 60)
    assert len(bandit.pending) == 0  # what was cut off the last batch is not out
    while (left := 60 - len(plain.state.rewards)) > 0:
        asked = plain.ask()[:left]
        t = plain.state.asked_for
        plain.tell(asked, [bump(x, t) for x in asked])
    for name in ("X", "y", "t"):
        expected = getattr(plain.state.rewards, name)
        np.testing.assert_array_equal(getattr(bandit.state.rewards, name), expected)


def test_play_goes_on_where_it_was() -> None:
    bandit = policies.gp_ucb(LINE, RBF(0.2), 0.01, confidence=2.0)
    first = play(bandit, bump, 3)
    second = play(bandit, bump, 2)
    third = play(bandit, bump, 2, t=40.0)
    assert [batch.t for batch in first + second + third] == [1, 2, 3, 4, 5, 40, 41]
    assert [batch.done for batch in first + second + third] == [1, 2, 3, 1, 2, 1, 2]
    assert play(bandit, bump, 0) == []
    with pytest.raises(ValueError, match=r"cannot ask for t = 7\.0: a reward at t = 41\.0 is told"):
        play(bandit, bump, 1, t=7.0)


@pytest.mark.parametrize("error", [OSError("stuck"), KeyboardInterrupt("stuck")])
@pytest.mark.parametrize("workers", [0, 2])
def test_whole_batches_stay_told(error: BaseException, workers: int) -> None:
    calls, whole = [0], play(budgeted(), bump, 200)
    before = next(batch for batch in whole if batch.done >= 30)
    lock = threading.Lock()

    def function(x: Array, t: float) -> float:
        with lock:
            calls[0] += 1
            if calls[0] > before.done + 2:
                raise error
        return bump(x, t)

    bandit, heard = budgeted(), list[Played]()
    expected = EvaluationError if isinstance(error, Exception) else KeyboardInterrupt
    threads = ThreadPoolExecutor(workers) if workers else None
    refused(expected, "stuck", play, bandit, function, 200, executor=threads, progress=heard.append)
    if threads is not None:
        threads.shutdown()
    told = bandit.state.rewards
    assert len(told) == heard[-1].done >= before.done
    np.testing.assert_array_equal(told.y, np.concatenate([batch.y for batch in heard]))
    assert len(bandit.pending) == 0
    # It goes on as if nothing had happened.
    rest = play(bandit, bump, 200 - len(told))
    np.testing.assert_array_equal(
        np.concatenate([batch.X for batch in heard + rest]),
        np.concatenate([batch.X for batch in whole]),
    )
