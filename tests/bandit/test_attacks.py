"""The attacks in a quick form; `python -m tests.attack` is the long one."""

import pytest

from tests.attack import bandits


@pytest.mark.slow
def test_random_bandits_neither_crash_nor_are_wrong() -> None:
    tally = bandits.attack(4, seed=0)
    assert tally.tried == 4
    assert tally.faults == {}, tally.examples
