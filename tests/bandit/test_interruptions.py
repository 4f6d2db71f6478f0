"""What is interrupted at any line is as it was before the call, or as it is after it."""

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


def every_line(make: Callable[[], Any], call: Callable[[Any], Any]) -> list[tuple[int, Any, str]]:
    """New things, each interrupted at another line of a call, and where that was."""
    call(make())  # what is found out once in a process
    plain, first = Lines(), make()
    plain.run(lambda: call(first))
    found = []
    for at in range(1, len(plain.seen) + 1):
        thing, lines = make(), Lines(at)
        with pytest.raises(KeyboardInterrupt, match="thrown at"):
            lines.run(lambda thing=thing: call(thing))
        found.append((at, thing, interruptions.where(lines.thrown)))
    assert len(found) > 3
    return found


def test_no_call_is_half_done_and_no_twin_differs() -> None:
    tally = interruptions.attack(20, seed=4)
    assert tally.tried >= 20
    assert tally.faults == {}, tally.examples


def test_after_an_interrupt_the_counts_say_whether_it_was_told() -> None:
    """An interrupt may come between the last assignment and the return, and the promise says so."""
    twin = policies.gp_ucb(Candidates(POINTS), kernel=RBF(0.3), noise_variance=0.1)
    before = twin.state
    twin.tell(POINTS[:2], [0.5, np.nan])
    made = [
        (bandit.info.readings, bandit.info.failed, interruptions.same_state(bandit.state, right))
        for _, bandit, _ in every_line(
            lambda: policies.gp_ucb(Candidates(POINTS), kernel=RBF(0.3), noise_variance=0.1),
            lambda bandit: bandit.tell(POINTS[:2], [0.5, np.nan]),
        )
        for right in [before if bandit.info.readings == 0 else twin.state]
    ]
    assert set(made) == {(0, 0, True), (1, 1, True)}
    for player in (Bandit, policies.uniform(Candidates(POINTS))):
        assert "an interrupt (Ctrl-C)" in " ".join(str(player.tell.__doc__).split())


class Worker:
    """Works in turn."""

    _size = 1

    def __init__(self) -> None:
        self._call_lock = CallLock()

    @lock_calls
    def work(self) -> str:
        with limit_blas_threads():
            return "done"


def test_a_turn_ends_whatever_line_it_is_interrupted_at() -> None:
    for _, worker, where in every_line(Worker, Worker.work):
        assert worker.work() == "done", where
        done: list[str] = []
        other = threading.Thread(
            target=lambda worker=worker, done=done: done.append(worker.work()), daemon=True
        )
        other.start()
        other.join(20)
        assert done == ["done"], where
        assert not threads._blocks, where
        assert threads._former_counts == [], where


class Told:
    """An expert that counts what it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def query(self, X: Array, t: float) -> Answers:
        self.asked += len(X)
        return Answers(X[:, 0] + 0.1 * t, 0.25, 0.5 * len(X))


REWARDS = Dataset(POINTS[:3], np.ones(3), np.array([0.2, 0.4, 0.6]), np.full(3, 0.1))


@pytest.mark.parametrize("limits", [{"total": 9}, {"cost": 4.0}, {"per_step": 2, "total": 9}])
def test_a_budget_is_never_overdrawn_nor_stuck(limits: dict[str, Any]) -> None:
    def make() -> Budgeted:
        return Budgeted(Told(), **limits)

    for _, budget, where in every_line(make, lambda budget: budget.query(POINTS, 1.0)):
        assert budget.spending.asked >= budget.expert.asked, where
        twin = make()
        restore_state(twin, state_of(budget))
        for t in (1.0, 2.0, 3.0):
            ours, theirs = budget.query(POINTS, t), twin.query(POINTS, t)
            np.testing.assert_array_equal(ours.values, theirs.values, err_msg=where)
        assert state_of(budget) == state_of(twin), where


def test_a_calibration_counts_every_pair_once() -> None:
    def make() -> Calibrated:
        return Calibrated(Told())

    def call(expert: Calibrated) -> None:
        expert.observe(REWARDS)
        expert.query(POINTS, 1.0)
        expert.report()

    right = make()
    call(right)
    for _, expert, where in every_line(make, call):
        call(expert)  # the same rewards and answers once more
        assert expert.report().pairs == right.report().pairs, where
        assert state_of(expert) == state_of(right), where


def test_ctrl_c_while_libraries_are_looked_for_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found by a function that C calls back, and Python would go on."""

    class Looking:
        def __init__(self) -> None:
            self.lib_controllers: list[Any] = []
            ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))()

    monkeypatch.setattr("tvbandits.threads.ThreadpoolController", Looking)
    monkeypatch.setattr(
        "tvbandits.threads._find_libraries", cache(threads._find_libraries.__wrapped__)
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), limit_blas_threads():
            pass
    finally:
        signal.signal(signal.SIGINT, before)
