"""A bank and its recent past: late observations count at their own time, and what is kept is bounded."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tvbandits.bandit.state import same_value
from tvbandits.core.arrays import Array
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.gp.ensemble.models import ModelSpec, SpatialSpec
from tvbandits.gp.ensemble.recent import WINDOW, Readings, Recent, faded, moved

POINTS = np.random.default_rng(1).uniform(0, 4, (6, 2))
EVERYWHERE = SpatialSpec("matern12", 0.4)


def reading(rng: np.random.Generator, n: int = 2) -> Readings:
    rows = rng.permutation(len(POINTS))[:n]
    return Readings(rows, rng.standard_normal(n), rng.uniform(0.05, 0.2, n))


def history(steps: int, seed: int = 0) -> list[tuple[float, Readings]]:
    rng = np.random.default_rng(seed)
    return [(float(t), reading(rng)) for t in range(1, steps + 1)]


def told(seen: list[tuple[float, Readings]], start: Recent | None = None) -> Recent:
    recent = Recent(FilterEnsemble.of(POINTS, 0.1)) if start is None else start
    for t, each in seen:
        recent = recent.observed(t, each)
    return recent


def straight(seen: list[tuple[float, Readings]]) -> FilterEnsemble:
    bank = FilterEnsemble.of(POINTS, 0.1)
    for t, each in seen:
        bank = bank.observe(*each, t)
    return bank


def same(one: FilterEnsemble, other: FilterEnsemble) -> bool:
    return same_value(one, other)


def test_in_order_it_is_the_bank() -> None:
    seen = history(WINDOW + 5)
    assert same(told(seen).latest, straight(seen))


def test_late_readings_count_at_their_own_time() -> None:
    seen = history(WINDOW + 5)
    late = [*seen[:-4], *seen[-3:], seen[-4]]  # the fourth last comes at the end
    assert same(told(late).latest, straight(seen))
    # Also in the first steps, where the second time says how long a step is.
    assert same(told([seen[0], seen[2], seen[1]]).latest, straight(seen[:3]))
    # The earliest of all may come last.
    assert same(told([seen[1], seen[0]]).latest, straight(seen[:2]))


def test_two_readings_of_one_time_are_taken_one_after_the_other() -> None:
    seen, rng = history(5), np.random.default_rng(9)
    more = [(3.0, reading(rng)), (5.0, reading(rng))]
    expected = straight([*seen[:3], more[0], *seen[3:], more[1]])
    assert same(told([*seen, *more]).latest, expected)
    assert same(told([*seen, *more[::-1]]).latest, expected)


def test_what_was_known_before() -> None:
    seen = history(6)
    recent = told(seen)
    for t in (1.0, 3.0, 3.5, 6.0, 9.0):
        known = [each for each in seen if each[0] <= t]
        assert same(recent.at(t), straight(known))
    assert not recent.at(0.5).filters  # nothing was known


def test_what_is_kept_is_bounded() -> None:
    sizes = []
    for steps in (WINDOW + 5, WINDOW + 30, WINDOW + 60):
        recent = told(history(steps))
        assert len(recent.times) == WINDOW
        sizes.append(len(pickle.dumps(recent)))
    assert max(sizes) <= 1.1 * min(sizes)  # who sleeps is told later


def test_it_goes_on_bit_for_bit_in_another_process() -> None:
    seen = history(WINDOW + 9)
    half = pickle.loads(pickle.dumps(told(seen[:12])))
    late = [*seen[12:14], *seen[15:], seen[14]]
    assert same(told(late, half).latest, straight(seen))


def test_a_reading_from_long_ago_counts_as_a_noisier_one() -> None:
    recent = told(history(WINDOW + 9))
    begins = recent.before.time
    old = Readings(np.array([2]), np.array([3.0]), np.array([0.1]))
    after = recent.observed(begins - 1.5, old)
    noise = faded(recent.before, 1.5, old.variance)
    assert noise > 0.1
    expected = recent.before.observe(old.rows, old.values, noise, begins)
    assert same(after.before, expected)
    assert after.latest.predict(20.0).mean[2] > recent.latest.predict(20.0).mean[2]
    # So old that it says nothing: nothing changes.
    assert (
        recent.observed(begins - 1e9, old) is recent
        or not np.isfinite(faded(recent.before, 1e9, old.variance)).any()
    )


@pytest.mark.parametrize("smooth", [False, True])
def test_fading_is_the_conditional_variance(smooth: bool) -> None:
    one = ModelSpec(EVERYWHERE, EVERYWHERE, 0.0, 1.0, 0.0, 0.0, np.inf, 4.0, 3.0, smooth)
    bank = FilterEnsemble.of(POINTS, 0.1, (one,), step=1.0).observe([0], np.array([1.0]), None, 0.0)
    (unit,) = bank.filters[0].variance
    x = 3.0 / 4.0 * (np.sqrt(3.0) if smooth else 1.0)
    r = (1.0 + x if smooth else 1.0) * np.exp(-x)  # Matern-3/2 or -1/2 over three steps
    noise = faded(bank, 3.0, np.array([0.2]))
    # f_now given a reading of f_then, and given one of f_now with that noise.
    then = unit - (r * unit) ** 2 / (unit + 0.2)
    np.testing.assert_allclose(unit - unit**2 / (unit + noise), then, rtol=1e-12)


def test_moving_on_changes_no_forecast() -> None:
    bank = told(history(6)).latest
    later = moved(bank, 7.5)
    ahead, again = bank.predict(9.0), later.predict(9.0)
    for one, other in zip(
        (ahead.mean, ahead.deviation, ahead.learnable),
        (again.mean, again.deviation, again.learnable),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert moved(bank, bank.time) is bank
    none = FilterEnsemble.of(POINTS, 0.1)
    assert moved(none, 3.0) is none


def test_nothing_changes_the_one_before() -> None:
    seen = history(6)
    recent = told(seen)
    before: Array = recent.latest.predict(8.0).mean.copy()
    recent.observed(4.5, seen[0][1])
    recent.observed(6.0, seen[1][1])
    recent.observed(7.0, seen[2][1])
    np.testing.assert_array_equal(recent.latest.predict(8.0).mean, before)
