"""Inactive models: what is believed without them, and that they come back."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from tvbandits.bandit.state import same_value
from tvbandits.core.arrays import Array
from tvbandits.gp.ensemble import ensemble as module
from tvbandits.gp.ensemble.ensemble import TURN, FilterEnsemble

GRID = np.linspace(0.0, 1.0, 70)[:, None]
STEPS = 60


def wave(t: float) -> Array:
    return np.asarray(np.sin(7.0 * GRID[:, 0] + 0.05 * t))


def played(
    steps: int = STEPS,
    jump_at: int | None = None,
    ensemble: FilterEnsemble | None = None,
    begin: int = 1,
) -> FilterEnsemble:
    """Three readings of a wave a step; at a jump it turns over."""
    rng, ensemble = np.random.default_rng([4, begin]), ensemble or FilterEnsemble.of(GRID, 0.01)
    for t in range(begin, begin + steps):
        rows = rng.choice(len(GRID), 3, replace=False)
        sign = -1.0 if jump_at is not None and t >= jump_at else 1.0
        y = sign * wave(t)[rows] + 0.1 * rng.standard_normal(3)
        ensemble = ensemble.observe(rows[:1], y[:1], None, float(t))
        ensemble = ensemble.observe(rows[1:], y[1:], None, float(t))
    return ensemble


def inactive_in(ensemble: FilterEnsemble) -> int:
    return sum(len(each.filters) for each in ensemble._inactive.groups)


def test_what_is_believed_is_next_to_what_all_would_say(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble = played()
    assert inactive_in(ensemble) > len(ensemble.settings) / 2
    monkeypatch.setattr(module, "ACTIVE", 1e-300)
    everyone = played()
    assert inactive_in(everyone) == 0
    one, other = ensemble.predict(STEPS + 1.0), everyone.predict(STEPS + 1.0)
    np.testing.assert_allclose(one.mean, other.mean, atol=0.02)
    np.testing.assert_allclose(one.deviation, other.deviation, rtol=0.05)


def test_nobody_is_lost_and_who_is_inactive_is_never_far_behind() -> None:
    ensemble = played()
    for steps in range(STEPS, STEPS + TURN):
        ensemble = played(1, ensemble=ensemble, begin=steps + 1)
        inactive = [each for group in ensemble._inactive.groups for each in group.filters.settings]
        assert sorted(map(repr, (*ensemble.members, *inactive))) == sorted(
            map(repr, ensemble.settings)
        )
        assert len(ensemble._inactive.backlog) <= TURN
        for each in ensemble._inactive.groups:
            assert ensemble.time - each.time <= TURN + 1


def test_a_jump_brings_back_those_that_can_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    jump = 41
    ensemble = played(jump + 6, jump_at=jump)
    monkeypatch.setattr(module, "ACTIVE", 1e-300)
    everyone = played(jump + 6, jump_at=jump)
    truth = -wave(jump + 7.0)
    off, without = (
        float(np.abs(each.predict(jump + 7.0).mean - truth).mean()) for each in (ensemble, everyone)
    )
    assert off < 1.2 * without + 0.02


def x() -> None:
    ensemble = played()
    over = (ensemble.time + 1.0, *ensemble._inactive.backlog[-1][1:])
    _, score, _ = ensemble._inactive.turned(
        ensemble.filters, ensemble._score - 1e6, over, None, ensemble.step
    )
    assert score.max(axis=1).min() >= score.max() + math.log(module.ACTIVE)


def test_what_is_inactive_is_stored() -> None:
    ensemble = played()
    again = pickle.loads(pickle.dumps(ensemble))
    assert same_value(ensemble, again)
    for t in range(STEPS + 1, STEPS + 1 + TURN):
        y = wave(t)[[3]]
        ensemble, again = (each.observe([3], y, None, float(t)) for each in (ensemble, again))
    assert same_value(ensemble, again)
