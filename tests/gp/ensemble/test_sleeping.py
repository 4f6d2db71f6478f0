"""Members that sleep: what is believed without them, and that they come back."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from tvbandits.bandit.state import same_value
from tvbandits.core.arrays import Array
from tvbandits.gp.ensemble import sleeping
from tvbandits.gp.ensemble.bank import FilterEnsemble
from tvbandits.gp.ensemble.sleeping import TURN

GRID = np.linspace(0.0, 1.0, 70)[:, None]
STEPS = 60


def wave(t: float) -> Array:
    return np.asarray(np.sin(7.0 * GRID[:, 0] + 0.05 * t))


def played(
    steps: int = STEPS,
    jump_at: int | None = None,
    bank: FilterEnsemble | None = None,
    begin: int = 1,
) -> FilterEnsemble:
    """Three readings of a wave a step; at a jump it turns over."""
    rng, bank = np.random.default_rng([4, begin]), bank or FilterEnsemble.of(GRID, 0.01)
    for t in range(begin, begin + steps):
        rows = rng.choice(len(GRID), 3, replace=False)
        sign = -1.0 if jump_at is not None and t >= jump_at else 1.0
        y = sign * wave(t)[rows] + 0.1 * rng.standard_normal(3)
        bank = bank.observe(rows[:1], y[:1], None, float(t))
        bank = bank.observe(rows[1:], y[1:], None, float(t))
    return bank


def asleep(bank: FilterEnsemble) -> int:
    return sum(len(each.filters) for each in bank._sleep.sleepers)


def test_what_is_believed_is_next_to_what_all_would_say(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = played()
    assert asleep(bank) > len(bank.settings) / 2
    monkeypatch.setattr(sleeping, "AWAKE", 1e-300)
    everyone = played()
    assert asleep(everyone) == 0
    one, other = bank.predict(STEPS + 1.0), everyone.predict(STEPS + 1.0)
    np.testing.assert_allclose(one.mean, other.mean, atol=0.02)
    np.testing.assert_allclose(one.deviation, other.deviation, rtol=0.05)


def test_nobody_is_lost_and_who_sleeps_is_never_far_behind() -> None:
    bank = played()
    for steps in range(STEPS, STEPS + TURN):
        bank = played(1, bank=bank, begin=steps + 1)
        sleepers = [each for group in bank._sleep.sleepers for each in group.filters.settings]
        assert sorted(map(repr, (*bank.members, *sleepers))) == sorted(map(repr, bank.settings))
        assert len(bank._sleep.missed) <= TURN
        for each in bank._sleep.sleepers:
            assert bank.time - each.time <= TURN + 1


def test_a_surprise_wakes_those_who_can_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    jump = 41
    bank = played(jump + 6, jump_at=jump)
    monkeypatch.setattr(sleeping, "AWAKE", 1e-300)
    everyone = played(jump + 6, jump_at=jump)
    truth = -wave(jump + 7.0)
    off, without = (
        float(np.abs(each.predict(jump + 7.0).mean - truth).mean()) for each in (bank, everyone)
    )
    assert off < 1.2 * without + 0.02


def test_who_is_far_behind_one_that_wakes_falls_asleep() -> None:
    bank = played()
    over = bank._sleep.missed[-1]._replace(time=bank.time + 1.0)
    _, score, _ = bank._sleep.turned(bank.filters, bank._score - 1e6, over, None, bank.step)
    assert score.max(axis=1).min() >= score.max() + math.log(sleeping.AWAKE)


def test_what_sleeps_is_stored() -> None:
    bank = played()
    again = pickle.loads(pickle.dumps(bank))
    assert same_value(bank, again)
    for t in range(STEPS + 1, STEPS + 1 + TURN):
        y = wave(t)[[3]]
        bank, again = (each.observe([3], y, None, float(t)) for each in (bank, again))
    assert same_value(bank, again)
