"""Budgets: never more than allowed, and what is saved is not lost."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tvbandits.queries.budgets import Following, OnAverage, PerStep, Total, as_budget


@given(
    rate=st.floats(0, 20),
    most=st.none() | st.integers(0, 30),
    wishes=st.lists(st.integers(0, 60), max_size=60),
)
def test_on_average_is_an_average_at_every_time(
    rate: float, most: int | None, wishes: list[int]
) -> None:
    budget, asked = OnAverage(rate, most), 0
    for told, wish in enumerate(wishes, 1):
        allowed = budget(told, asked)
        assert allowed >= 0
        assert most is None or allowed <= most
        if most is None:
            assert allowed == math.floor(rate * told + 1e-9) - asked  # all that is left
        asked += min(allowed, wish)
        assert asked <= rate * told + 1e-9


@given(
    total=st.integers(0, 200),
    horizon=st.integers(1, 80),
    greed=st.lists(st.booleans(), max_size=120),
)
def test_a_total_is_never_exceeded(total: int, horizon: int, greed: list[bool]) -> None:
    budget, asked = Total(total, horizon), 0
    for told, greedy in enumerate(greed, 1):
        asked += budget(told, asked) if greedy else 0
        assert asked <= total
        assert asked <= math.ceil(total * min(told, horizon) / horizon)
    if greed and greed[-1] and len(greed) >= horizon:
        assert asked == total  # saved answers can be spent until the end, and after it


def test_a_number_is_a_number_per_step() -> None:
    assert as_budget(3) == PerStep(3)
    budget = OnAverage(2.0)
    assert as_budget(budget) is budget


@pytest.mark.parametrize("bad", [-1, 2.5, True, "3", None, OnAverage])
def test_bad_budgets(bad: Any) -> None:
    with pytest.raises(ValueError, match="must be a whole number"):
        as_budget(bad)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: OnAverage(-1.0), r"rate must be finite and not negative, got -1\.0"),
        (lambda: OnAverage(math.nan), "rate must be finite and not negative, got nan"),
        (lambda: OnAverage(1.0, most=-2), "most must be a whole number of at least 0, got -2"),
        (lambda: Total(-1, 10), "total must be a whole number of at least 0, got -1"),
        (lambda: Total(10, 0), "horizon must be a whole number of at least 1, got 0"),
        (lambda: Total(10, 5, most=1.5), r"most must be a whole number of at least 0, got 1\.5"),  # type: ignore[arg-type]
    ],
)
def test_bad_parameters(make: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make()


def test_following_somebody_else() -> None:
    budget = Following((0, 3, 2, 4))
    assert [budget(1, 0), budget(2, 0), budget(3, 3), budget(4, 5)] == [0, 3, 2, 4]
    assert budget(4, 3) == 6  # three rewards were told at once
    assert budget(9, 9) == 0
    assert budget(1, 5) == 0
