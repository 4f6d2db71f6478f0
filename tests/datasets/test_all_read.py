"""The reference that reads every place at every step."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tvbandits.datasets.tables.references import AllRead, average_regret


def test_all_read_learns_what_persists() -> None:
    rng = np.random.default_rng(2)
    site, fast, errors, naive = rng.normal(0, 2, 12), np.zeros(12), [], []
    reference, last = AllRead(12), None
    for _ in range(300):
        fast = 0.7 * fast + rng.normal(0, 1, 12)
        y = 50 + site + fast + rng.normal(0, 1, 12)
        if last is not None:
            errors.append(((reference.forecast() - y) ** 2).mean())
            naive.append(((last - y) ** 2).mean())
        reference.read(y)
        last = y
    assert np.mean(errors[50:]) < 0.85 * np.mean(naive[50:])
    with pytest.raises(ValueError, match="12 finite numbers"):
        reference.read(np.ones(3))


def test_regret_is_that_of_the_largest_forecast() -> None:
    rng = np.random.default_rng(4)
    values = np.cumsum(rng.normal(0, 1, (40, 6)), axis=0)
    reference, regret = AllRead(6), []
    for before, now in pairwise(values):
        reference.read(before)
        regret.append(now.max() - now[np.argmax(reference.forecast())])
    assert average_regret(values) == pytest.approx(np.mean(regret))
    # The order of places does not matter.
    assert average_regret(values[:, ::-1]) == pytest.approx(np.mean(regret))


def test_places_that_are_alike_are_drawn() -> None:
    values = np.array([[1.0, 1.0, 0.0], [4.0, 2.0, 1.0]])
    assert average_regret(values) == 1.0  # none or 2, with the same chance


def test_one_step_says_nothing() -> None:
    with pytest.raises(ValueError, match="two steps at least, got 1"):
        average_regret(np.ones((1, 3)))
