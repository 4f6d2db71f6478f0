"""An object that is interrupted at any line has the state before or after the call."""

import ctypes
import signal
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.attack import interruptions
from tests.attack.interruptions import Lines
from tvbandits import Answers, Bandit, Candidates, Dataset, policies, threads
from tvbandits.experts import Budgeted, Calibrated
from tvbandits.experts.protocol import restore_state, state_of
from tvbandits.threads import CallLock, limit_blas_threads, lock_calls
from tvbandits.validation import Array

POINTS = np.linspace(0.0, 1.0, 5)[:, None]


def interrupt_at_every_line(
    make: Callable[[], Any], call: Callable[[Any], Any]
) -> list[tuple[int, Any, str]]:
    """Return new objects, interrupted at one line each, with its number and place."""
    call(make())  # fill the caches of the process
    plain, first = Lines(), make()
    plain.run(lambda: call(first))
    results = []
    for at in range(1, len(plain.seen) + 1):
        subject, lines = make(), Lines(at)
        with pytest.raises(KeyboardInterrupt, match="thrown at"):
            lines.run(lambda subject=subject: call(subject))
        results.append((at, subject, interruptions.where(lines.thrown)))
    assert len(results) > 3
    return results


def test_attack_of_interruptions_finds_no_fault() -> None:
    tally = interruptions.attack(20, seed=4)
    assert tally.tried >= 20
    assert tally.faults == {}, tally.examples


def test_tell_after_an_interrupt_has_counts_that_match_its_state() -> None:
    """An interrupt may come between the last assignment and the return, as the documentation says."""
    twin = policies.gp_ucb(Candidates(POINTS), kernel=RBF(0.3), noise_variance=0.1)
    before = twin.state
    twin.tell(POINTS[:2], [0.5, np.nan])
    outcomes = [
        (bandit.info.readings, bandit.info.failed, interruptions.same_state(bandit.state, expected))
        for _, bandit, _ in interrupt_at_every_line(
            lambda: policies.gp_ucb(Candidates(POINTS), kernel=RBF(0.3), noise_variance=0.1),
            lambda bandit: bandit.tell(POINTS[:2], [0.5, np.nan]),
        )
        for expected in [before if bandit.info.readings == 0 else twin.state]
    ]
    assert set(outcomes) == {(0, 0, True), (1, 1, True)}
    for player in (Bandit, policies.uniform(Candidates(POINTS))):
        assert "an interrupt (Ctrl-C)" in " ".join(str(player.tell.__doc__).split())


class Worker:
    """An object with a locked method."""

    _size = 1

    def __init__(self) -> None:
        self._call_lock = CallLock()

    @lock_calls
    def work(self) -> str:
        with limit_blas_threads():
            return "done"


def test_lock_calls_releases_the_lock_after_an_interrupt_at_any_line() -> None:
    for _, worker, where in interrupt_at_every_line(Worker, Worker.work):
        assert worker.work() == "done", where
        results: list[str] = []
        other = threading.Thread(
            target=lambda worker=worker, results=results: results.append(worker.work()), daemon=True
        )
        other.start()
        other.join(20)
        assert results == ["done"], where
        assert not threads._blocks, where
        assert threads._former_counts == [], where


class CountingExpert:
    """An expert that counts its queries."""

    def __init__(self) -> None:
        self.asked = 0

    def query(self, X: Array, t: float) -> Answers:
        self.asked += len(X)
        return Answers(X[:, 0] + 0.1 * t, 0.25, 0.5 * len(X))


REWARDS = Dataset(POINTS[:3], np.ones(3), np.array([0.2, 0.4, 0.6]), np.full(3, 0.1))


@pytest.mark.parametrize("limits", [{"total": 9}, {"cost": 4.0}, {"per_step": 2, "total": 9}])
def test_budgeted_counts_right_after_an_interrupt_at_any_line(limits: dict[str, Any]) -> None:
    def make() -> Budgeted:
        return Budgeted(CountingExpert(), **limits)

    for _, budget, where in interrupt_at_every_line(make, lambda budget: budget.query(POINTS, 1.0)):
        assert budget.spending.asked >= budget.expert.asked, where
        twin = make()
        restore_state(twin, state_of(budget))
        for t in (1.0, 2.0, 3.0):
            answers, expected = budget.query(POINTS, t), twin.query(POINTS, t)
            np.testing.assert_array_equal(answers.values, expected.values, err_msg=where)
        assert state_of(budget) == state_of(twin), where


def test_calibrated_counts_each_pair_once_after_an_interrupt_at_any_line() -> None:
    def make() -> Calibrated:
        return Calibrated(CountingExpert())

    def call(expert: Calibrated) -> None:
        expert.observe(REWARDS)
        expert.query(POINTS, 1.0)
        expert.report()

    expected = make()
    call(expected)
    for _, expert, where in interrupt_at_every_line(make, call):
        call(expert)  # the same rewards and answers once more
        assert expert.report().pairs == expected.report().pairs, where
        assert state_of(expert) == state_of(expected), where


def test_limit_blas_threads_passes_on_an_interrupt_during_the_search_for_libraries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A C function calls back to find the libraries, and would swallow the interrupt."""

    class RaisingController:
        def __init__(self) -> None:
            self.lib_controllers: list[Any] = []
            ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))()

    monkeypatch.setattr("tvbandits.threads.ThreadpoolController", RaisingController)
    monkeypatch.setattr(
        "tvbandits.threads._find_libraries", cache(threads._find_libraries.__wrapped__)
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), limit_blas_threads():
            pass
    finally:
        signal.signal(signal.SIGINT, before)
