"""Calls in any order, some of them interrupted: a bandit and its twin stay the same to the last bit."""

from __future__ import annotations

from hypothesis.stateful import run_state_machine_as_test

from tests.attack.machine import Machine, quick


def test_a_bandit_and_its_twin_stay_the_same() -> None:
    run_state_machine_as_test(Machine, settings=quick(6))
