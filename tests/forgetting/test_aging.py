from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tvbandits.core.arrays import Array
from tvbandits.core.observations import Observations, Source
from tvbandits.forgetting.aging import (
    Ages,
    Aging,
    Constant,
    DiscardAbove,
    Exponential,
    Linear,
    LogThreshold,
    ResetEvery,
    Wiener,
    Window,
    compose,
)

modest = settings(deadline=None, max_examples=80)


def observed(t: list[float], source: list[int] | None = None) -> Observations:
    n = len(t)
    return Observations(np.zeros((n, 1)), t, np.zeros(n), np.full(n, 0.5), source)  # type: ignore[arg-type]


def ages(age: Array, told: int | None = None) -> Ages:
    """Of rewards told one after the other, the oldest first."""
    n = len(age)
    return Ages(age, np.arange(n)[::-1].copy(), n if told is None else told)


FORMULAS: list[tuple[Aging, Any]] = [
    (Constant(), lambda s, *_: s),
    (Exponential(0.9), lambda s, age, *_: s / 0.9**age),
    (Exponential(0.01), lambda s, age, *_: s / 0.01**age),
    (Linear(), lambda s, age, *_: s * (1 + age**2)),
    (Linear(0.3), lambda s, age, *_: s + s * (0.3 * age) ** 2),
    (Wiener(0.2), lambda s, age, *_: s + 0.2 * age),
    (Window(within=2.5), lambda s, age, *_: s if age < 2.5 else math.inf),
    (Window(last=2), lambda s, _age, newer, *_: s if newer < 2 else math.inf),
    (ResetEvery(4), lambda s, _age, newer, told: s if newer < told % 4 else math.inf),
]
"""Maps, and the effective variance by age, number of newer rewards and rewards told."""


@pytest.mark.parametrize(("aging", "formula"), FORMULAS, ids=lambda part: str(part)[:24])
def test_maps_are_their_formulas(aging: Aging, formula: Any) -> None:
    age = np.array([40.0, 7.25, 2.5, 2.0, 0.5, 0.0])
    variance = np.array([0.1, 2.0, 0.5, 1e-6, 3.0, 0.25])
    before = variance.copy()
    given = aging(variance, ages(age))
    told = len(age)
    expected = [formula(s, age[i], told - 1 - i, told) for i, s in enumerate(variance)]
    np.testing.assert_allclose(given, expected, rtol=1e-12)
    assert np.array_equal(variance, before)
    assert given[-1] == variance[-1]  # nothing has aged at age 0


# Who is newer, and how old.


@modest
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), max_size=15),
    st.integers(0, 9),
)
def test_ages_are_those_of_a_plain_count(rows: list[tuple[int, int]], now: int) -> None:
    t, source = [float(a) for a, _ in rows], [b for _, b in rows]
    made = Ages.of(observed(t, source), float(now))
    rewards = [i for i in range(len(t)) if source[i] == Source.REWARD]
    assert made.told == len(rewards)
    for i in range(len(t)):
        assert made.age[i] == max(now - t[i], 0.0)
        if source[i] == Source.REWARD:  # among equal times, the one told later is the newer
            newer = [j for j in rewards if (t[j], j) > (t[i], i)]
        else:  # an answer comes after the rewards of its own time
            newer = [j for j in rewards if t[j] > t[i]]
        assert made.newer[i] == len(newer)


def kept(aging: Aging, observations: Observations, now: float) -> list[int]:
    effective = aging(observations.variance, Ages.of(observations, now))
    return np.flatnonzero(np.isfinite(effective)).tolist()


@pytest.mark.parametrize("every", [1, 2, 5, 100])
def test_reset_over_a_run(every: int) -> None:
    """A plain loop that empties its memory after every `every` rewards."""
    rng, memory = np.random.default_rng(0), list[int]()
    t = np.cumsum(rng.exponential(size=23)).tolist()
    for n in range(1, 24):
        memory.append(n - 1)
        if n % every == 0:
            memory = []
        assert kept(ResetEvery(every), observed(t[:n]), t[n - 1] + 1.0) == memory


@pytest.mark.parametrize("last", [1, 2, 5, 100])
def test_window_over_a_run(last: int) -> None:
    """A plain queue, filled in the order of times, with late rewards among them."""
    rng = np.random.default_rng(1)
    t = (np.arange(40) - 6.0 * (rng.random(40) < 0.3)).tolist()
    for n in range(1, 41):
        queue = sorted(range(n), key=lambda i: (t[i], i))[-last:]
        assert kept(Window(last=last), observed(t[:n]), 60.0) == sorted(queue)


@pytest.mark.parametrize("within", [0.5, 1.0, 3.0])
def test_window_in_time_with_uneven_gaps(within: float) -> None:
    t = [0.0, 0.1, 2.0, 2.5, 3.5, 7.0]
    for now in (0.0, 1.0, 3.0, 3.5, 6.5, 7.0, 100.0):
        told = [time for time in t if time <= now]
        expected = [i for i, time in enumerate(told) if now - time < within]
        assert kept(Window(within=within), observed(told), now) == expected
    both = Window(last=2, within=3.0)
    assert kept(both, observed(t[:5]), 3.5) == [3, 4]
    assert kept(both, observed(t[:5]), 6.0) == [4]


def test_answers_among_rewards() -> None:
    """Rewards at 1 .. 6, and answers asked right after those of 2 and 5, told at the end."""
    some = observed([1, 2, 3, 4, 5, 6, 2, 5], [0, 0, 0, 0, 0, 0, 1, 1])
    assert Ages.of(some, 6.0).newer.tolist() == [5, 4, 3, 2, 1, 0, 4, 1]
    assert kept(Window(last=2), some, 6.0) == [4, 5, 7]
    assert kept(Window(last=4), some, 6.0) == [2, 3, 4, 5, 7]
    assert kept(Window(last=5), some, 6.0) == [1, 2, 3, 4, 5, 6, 7]
    assert kept(ResetEvery(4), some, 6.0) == [4, 5, 7]
    assert kept(DiscardAbove(lambda _: 0.0), some, 6.0) == [5]
    assert kept(DiscardAbove(lambda _: 0.0), observed([1, 2, 2], [0, 0, 1]), 2.0) == [1, 2]


# Thresholds and compositions.


@modest
@given(
    st.lists(st.floats(0.01, 50.0), min_size=1, max_size=12),
    st.floats(0.0, 1e3),
    st.floats(0.0, 3.0),
)
def test_the_newest_reward_is_never_discarded(
    times: list[float], later: float, limit: float
) -> None:
    some = observed(times)
    aging = compose(Linear(), DiscardAbove(lambda _: limit))
    aged = Linear()(some.variance, Ages.of(some, 50.0 + later))
    newest = max(range(len(times)), key=lambda i: (times[i], i))
    expected = [i for i in range(len(times)) if i == newest or aged[i] <= limit]
    assert kept(aging, some, 50.0 + later) == expected


def test_the_threshold_sees_the_number_of_rewards_told() -> None:
    seen: list[int] = []

    def threshold(told: int) -> float:
        seen.append(told)
        return math.inf

    kept(DiscardAbove(threshold), observed([1, 2, 3, 3], [0, 0, 0, 1]), 4.0)
    assert seen == [3]
    with pytest.raises(ValueError, match=r"threshold\(2\) is NaN"):
        DiscardAbove(lambda _: math.nan)(np.ones(2), ages(np.zeros(2)))


def test_sparq_keeps_the_recent_past() -> None:
    """s^2 (1 + age^2) <= s^2 log t: at t = 500 ages up to 2, whatever the noise."""
    some = observed(list(range(1, 501)))
    aging = compose(Linear(), DiscardAbove(LogThreshold(0.5)))
    assert kept(aging, some, 500.0) == [497, 498, 499]


def test_composition_is_from_first_to_last() -> None:
    variance, some = np.array([1.0, 2.0]), ages(np.array([3.0, 0.0]))
    given = compose(Wiener(1.0), Linear(1.0))(variance, some)
    assert given.tolist() == [(1 + 3) * (1 + 9), 2.0]
    other = compose(Linear(1.0), Wiener(1.0))(variance, some)
    assert other.tolist() == [1 * (1 + 9) + 3, 2.0]
    assert compose(Linear(1.0), DiscardAbove(lambda _: 5.0))(variance, some)[0] == math.inf
    assert compose(DiscardAbove(lambda _: 5.0), Linear(1.0))(variance, some)[0] == 10.0
    with pytest.raises(ValueError, match="maps of a composition must be at least one, got none"):
        compose()


BAD: list[tuple[Any, str]] = [
    (lambda: ResetEvery(0), "every must be a whole number of at least 1, got 0"),
    (lambda: ResetEvery(2.5), "every must be a whole number of at least 1, got 2.5"),  # type: ignore[arg-type]
    (lambda: ResetEvery(math.inf), "every must be a whole number of at least 1, got inf"),  # type: ignore[arg-type]
    (lambda: Window(), "a window needs last= (a number of rewards) or within= (a time)"),
    (lambda: Window(last=0), "last must be a whole number of at least 1, got 0"),
    (lambda: Window(last=math.nan), "last must be a whole number of at least 1, got nan"),  # type: ignore[arg-type]
    (lambda: Window(within=0.0), "within must be positive and finite, got 0.0"),
    (lambda: Window(last=3, within=math.inf), "within must be positive and finite, got inf"),
    (lambda: Exponential(0.0), "discount must lie in (0, 1), got 0.0"),
    (lambda: Exponential(1.0), "discount must lie in (0, 1), got 1.0"),
    (lambda: Exponential(math.nan), "discount must lie in (0, 1), got nan"),
    (lambda: Linear(0.0), "rate must be positive and finite, got 0.0"),
    (lambda: Linear(-1.0), "rate must be positive and finite, got -1.0"),
    (lambda: Wiener(math.inf), "rate must be positive and finite, got inf"),
    (lambda: Wiener(math.nan), "rate must be positive and finite, got nan"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_parameters_are_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("aging", [Linear(1e308), Wiener(1e308), Exponential(1e-30)])
def test_what_grows_beyond_a_float_is_forgotten_without_a_warning(aging: Aging) -> None:
    found = aging(np.array([1.0, 1.0]), ages(np.array([20.0, 0.0])))
    assert found.tolist() == [math.inf, 1.0]
