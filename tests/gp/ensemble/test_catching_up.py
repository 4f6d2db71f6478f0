"""Readings of several steps taken in at once, against the filter that takes them one after the other."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.models import DAY, MIXED, POINTS, ROUGH, SMOOTH
from tvbandits.gp.ensemble import ensemble
from tvbandits.gp.ensemble.catching_up import Read, Said, after
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.gp.ensemble.filters import Filters, filters_of
from tvbandits.gp.ensemble.models import SpatialSpec

TINY = 1e-13
"""Noise in units of the scale must not matter: a filter divides it by the scale of its time."""

GROUPS = {
    "rough": [ROUGH, replace(ROUGH, drift_space=SpatialSpec("matern12", 0.9), drift_scale=7.0)],
    "smooth": [SMOOTH, replace(SMOOTH, drift_scale=2.5, trend=0.4)],
    "mixed": [MIXED, replace(MIXED, nugget=0.4, static_scale=math.inf)],
    "seasonal": [
        replace(ROUGH, season=DAY),
        replace(ROUGH, season=replace(DAY, period=4.0, variance=0.2, lasts=9.0)),
    ],
    "smooth and seasonal": [
        replace(SMOOTH, season=DAY),
        replace(SMOOTH, season=replace(DAY, length=0.4)),
    ],
}


def reads(seed: int, start: float = 0.0) -> list[Read]:
    """Uneven times and numbers of places, some of them twice."""
    rng = np.random.default_rng(seed)
    times = start + np.cumsum(rng.choice([0.5, 1.0, 2.5], 6))
    return [
        Read(float(t), rng.integers(0, 9, n), rng.normal(0, 2, n), np.full(n, TINY))
        for t, n in zip(times, (1, 3, 4, 1, 2, 3), strict=True)
    ]


def one_by_one(filters: Filters, told: list[Read]) -> tuple[Filters, Said]:
    now, density, squares = 0.0, [], []
    for h, rows, values, noise in told:
        filters, seen = filters.moved(h - now).observed(rows, values, noise)
        density.append(seen.log_density)
        off = seen.errors - (seen.errors.mean(axis=1, keepdims=True) if len(rows) > 1 else 0.0)
        squares.append((off**2).sum(axis=1))
        now = h
    return filters, Said(np.array(density), np.array(squares))


@pytest.mark.parametrize("name", GROUPS)
def test_at_once_is_one_after_the_other(name: str) -> None:
    (filters,) = filters_of(GROUPS[name], POINTS, 3.0)
    filters, _ = one_by_one(filters, reads(1))
    one, said = after(filters, reads(2))
    other, expected = one_by_one(filters, reads(2))
    for field in ("mean", "covariance", "squares", "count"):
        found, right = getattr(one, field), getattr(other, field)
        np.testing.assert_allclose(found, right, rtol=1e-7, atol=1e-9, err_msg=field)
    np.testing.assert_allclose(said.log_density, expected.log_density, rtol=1e-7)
    np.testing.assert_allclose(said.squares, expected.squares, rtol=1e-7, atol=1e-9)
    assert one.settings == filters.settings


def never_afresh(filters: Filters) -> Filters:
    settings = tuple(replace(each, hazard=0.0) for each in filters.settings)
    return replace(filters, layout=replace(filters.layout, settings=settings))


@pytest.mark.parametrize(("jump", "hazard"), [(0.0, 0.01), (0.0, 0.2), (4.0, 0.1), (30.0, 0.01)])
def test_members_start_afresh_before_all_of_it_or_not_at_all(jump: float, hazard: float) -> None:
    """The soft reset written down for one member, beside a twin that never starts afresh."""
    lasting = replace(MIXED, static=0.95, drift=0.05, static_scale=math.inf, nugget=0.02)
    (filters,) = filters_of([lasting, replace(lasting, hazard=hazard)], POINTS, 3.0)
    filters, _ = one_by_one(never_afresh(filters), reads(1))
    told = [each._replace(values=jump + each.values) for each in reads(2)]
    stays, on = one_by_one(filters, told)
    _, off = one_by_one(fresh := never_afresh(filters.restarted()), told)
    going = (1.0 - hazard) ** len(told)
    mixed = np.logaddexp(
        math.log(going) + on.log_density.cumsum(axis=0)[:, 1],
        math.log(1.0 - going) + off.log_density.cumsum(axis=0)[:, 1],
    )
    chance = going * np.exp(on.log_density.sum(axis=0)[1] - mixed[-1])
    kept = 1.0 if chance >= 0.99 else chance if chance > 0.5 else 0.0
    expected = stays
    if kept < 1.0:
        mean = kept * filters.mean + (1.0 - kept) * fresh.mean
        covariance = kept**2 * filters.covariance + (1.0 - kept**2) * fresh.covariance
        expected, _ = one_by_one(replace(filters, mean=mean, covariance=covariance), told)
    settings = (lasting, replace(lasting, hazard=hazard))
    known = replace(filters, layout=replace(filters.layout, settings=settings))
    found, said = after(known, told)
    np.testing.assert_allclose(said.log_density[:, 0], on.log_density[:, 0], rtol=1e-7)
    np.testing.assert_allclose(said.log_density[:, 1].cumsum(axis=0), mixed, rtol=1e-7)
    np.testing.assert_allclose(found.mean[0], stays.mean[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.mean[1], expected.mean[1], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.covariance[1], expected.covariance[1], rtol=1e-6, atol=1e-8)
    assert found.settings == settings


def test_a_hundred_readings_a_step_are_taken_in_step_by_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is taken in at once costs the cube of its readings."""
    taken: list[int] = []

    def counted(filters: Filters, told: list[Read]) -> tuple[Filters, Said]:
        taken.append(sum(len(each.rows) for each in told))
        return after(filters, told)

    monkeypatch.setattr(ensemble, "after", counted)
    bank, rng = FilterEnsemble.of(POINTS, 0.1), np.random.default_rng(3)
    for t in range(40):
        rows = rng.integers(0, 9, 100)
        bank = bank.observe(rows, (rng.random(100) < 0.1 + 0.2 * (rows == 4)) * 1.0, None, float(t))
    assert taken
    assert max(taken) <= ensemble.MOST_TOGETHER
