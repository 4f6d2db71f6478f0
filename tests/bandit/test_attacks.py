"""The attacks in a quick form; `python -m tests.attack` is the long one."""

import pytest

from tests.attack import bandits, worlds


@pytest.mark.slow
def test_random_bandits_neither_crash_nor_are_wrong() -> None:
    tally = bandits.attack(4, seed=0)
    assert tally.tried == 4
    assert tally.faults == {}, tally.examples


@pytest.mark.slow
def test_what_the_world_is_made_of_crashes_no_policy() -> None:
    tally = worlds.attack(4, seed=0)
    assert tally.tried == 4
    assert tally.faults == {}, tally.examples
