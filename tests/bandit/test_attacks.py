"""Short runs of the attacks; `python -m tests.attack` runs them longer."""

import pytest

from tests.attack import bandits, worlds


@pytest.mark.slow
def test_attack_finds_no_fault_in_random_bandits() -> None:
    tally = bandits.attack(4, seed=0)
    assert tally.tried == 4
    assert tally.faults == {}, tally.examples


@pytest.mark.slow
def test_attack_finds_no_fault_in_random_problems() -> None:
    tally = worlds.attack(4, seed=0)
    assert tally.tried == 4
    assert tally.faults == {}, tally.examples
