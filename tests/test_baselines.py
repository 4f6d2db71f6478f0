"""Baselines without a model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from tvbandits import Box, Candidates
from tvbandits.baselines import Uniform

SQUARE = Candidates.grid([(0.0, 1.0), (0.0, 2.0)], 3)
BOX = Box([[-1.0, 1.0], [0.0, 5.0]])


def played(player: Uniform, steps: int) -> np.ndarray:
    points = []
    for step in range(steps):
        x = player.ask(float(step))
        player.tell(x, [math.sin(step)], float(step))
        points.append(x[0])
    return np.array(points)


def test_every_candidate_is_equally_likely() -> None:
    rows = SQUARE.index(played(Uniform(SQUARE, seed=1), 1800))
    assert chisquare(np.bincount(rows, minlength=9)).pvalue > 1e-3
    # One draw says nothing about the next.
    pairs = np.bincount(9 * rows[:-1:2] + rows[1::2], minlength=81)
    assert chisquare(pairs).pvalue > 1e-3


def test_a_box_is_covered_evenly() -> None:
    points = played(Uniform(BOX, seed=1), 500)
    np.testing.assert_array_equal(BOX.check(points), points)
    for column, (low, high) in zip(points.T, BOX.bounds, strict=True):
        assert kstest((column - low) / (high - low), "uniform").pvalue > 1e-3


def test_rewards_do_not_matter() -> None:
    player = Uniform(SQUARE, seed=2)
    points = []
    for step in range(30):
        points.append(player.ask()[0])
        if step % 3:
            player.tell(SQUARE.X[[4, 4]], [1e9, -1e9])
    np.testing.assert_array_equal(points, played(Uniform(SQUARE, seed=2), 30))
    assert not np.array_equal(points, played(Uniform(SQUARE, seed=3), 30))


def test_a_generator_as_seed_is_not_advanced() -> None:
    shared = np.random.default_rng(7)
    before = shared.bit_generator.state
    first, second = (played(Uniform(SQUARE, seed=shared), 20) for _ in range(2))
    assert shared.bit_generator.state == before
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, played(Uniform(SQUARE, seed=np.random.default_rng(7)), 20))


def test_rewards_are_counted() -> None:
    player = Uniform(SQUARE)
    assert player.info.told == 0
    assert player.tell(SQUARE.X[:3], [1.0, 2.0, 3.0]).told == 3
    assert player.tell(SQUARE.X[0], 1.0).told == 4
    assert player.info.told == 4
    assert player.info.queries_asked == 0
    assert math.isnan(player.info.beta)


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        ([[0.0, 0.0]], [math.nan], "y must be finite, got nan"),
        ([[0.0, 0.0]], [1.0, 2.0], r"y must have shape \(1,\), got \(2,\)"),
        ([[0.0, 0.0], [0.5, 0.0]], 1.0, r"y must have shape \(2,\), got \(1,\)"),
        ([[0.0, 0.0]], [[1.0], [1.0, 2.0]], "y must be numeric"),
        ([[0.0]], [1.0], r"X must have shape \(n, 2\), got \(1, 1\)"),
        ([[0.0, 0.3]], [1.0], r"X must be candidates, but \[0\.0, 0\.3\] in row 0 is none"),
        ([["a", "b"]], [1.0], "X must be numeric"),
    ],
)
def test_wrong_input_changes_nothing(X: object, y: object, match: str) -> None:
    player, twin = Uniform(SQUARE, seed=5), Uniform(SQUARE, seed=5)
    for each in (player, twin):
        played(each, 3)
    with pytest.raises(ValueError, match=match):
        player.tell(X, y)  # type: ignore[arg-type]
    assert player.info.told == 3
    np.testing.assert_array_equal(played(player, 10), played(twin, 10))
