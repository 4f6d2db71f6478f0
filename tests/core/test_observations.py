from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.core.observations import Observations, Source

COLUMNS = ("X", "t", "y", "variance", "source")


def some(n: int, d: int = 2, seed: int = 0) -> Observations:
    rng = np.random.default_rng(seed)
    return Observations(
        rng.standard_normal((n, d)),
        rng.standard_normal(n),
        rng.standard_normal(n),
        rng.random(n) + 0.1,
        rng.integers(0, 2, n),
    )


def test_columns_are_frozen_copies_of_the_right_kind() -> None:
    X, t = np.ones((2, 3)), np.array([1.0, 2.0])
    made = Observations(X, t, [1, 2], 0.5)  # type: ignore[arg-type]
    X[0, 0] = t[0] = 99.0
    assert made.X[0, 0] == 1.0
    assert made.t[0] == 1.0
    assert made.variance.tolist() == [0.5, 0.5]
    assert made.source.tolist() == [Source.REWARD, Source.REWARD]
    assert (len(made), made.dimension) == (2, 3)
    assert X.flags.writeable
    assert [getattr(made, name).dtype for name in COLUMNS] == [np.float64] * 4 + [np.uint8]
    for name in COLUMNS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(made, name)[0] = 1
    with pytest.raises(AttributeError, match="cannot assign"):
        made.X = X  # type: ignore[misc]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"X": [1.0, 2.0]}, r"X must have shape \(n, d\), got \(2,\)"),
    ({"X": [[1.0], [np.nan]]}, r"X must be finite, got \[nan\] in row 1"),
    ({"X": [["a"], ["b"]]}, r"X must be numeric, got \[\['a'\]"),
    ({"t": [1.0]}, r"t must have shape \(2,\), got \(1,\)"),
    ({"t": [1.0, np.inf]}, "t must be finite, got inf at position 1"),
    ({"y": [[1.0, 2.0]]}, r"y must have shape \(2,\), got \(1, 2\)"),
    ({"y": [np.nan, 2.0]}, "y must be finite, got nan at position 0"),
    ({"y": object()}, "y must be numeric"),
    ({"variance": [1.0, 0.0]}, r"variance must be positive, got 0\.0 at position 1"),
    ({"variance": np.inf}, "variance must be finite, got inf at position 0"),
    ({"source": [0]}, r"source must have shape \(2,\), got \(1,\)"),
    ({"source": [0, 2]}, "source must be one of .* got 2"),
    ({"source": ["expert", "reward"]}, "source must be numeric"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_what_is_wrong_is_named(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"X": [[1.0], [2.0]], "t": 1.0, "y": [1.0, 2.0], "variance": 1.0}
    with pytest.raises(ValueError, match=message):
        Observations(**{**good, **change})


def test_append_and_take_equal_plain_indexing() -> None:
    a, b = some(4, seed=1), some(3, seed=2)
    both = a.append(b)
    for name in COLUMNS:
        expected = np.concatenate([getattr(a, name), getattr(b, name)])
        assert np.array_equal(getattr(both, name), expected)
        for rows in (np.array([6, 0, 0]), np.arange(7) % 2 == 0, slice(2, 5), np.array([], int)):
            taken = getattr(both.take(rows), name)
            assert np.array_equal(taken, expected[rows])
            assert not taken.flags.writeable
    with pytest.raises(ValueError, match="of 2 coordinates cannot take points of 3"):
        a.append(some(1, d=3))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 6), st.integers(1, 3), st.integers(0, 1000))
def test_keyed_noise_depends_on_its_key_alone(n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, t = rng.standard_normal((n, d)), float(rng.standard_normal())
    noise = keyed_normal(seed, 1, X, t)
    assert noise.shape == (n,)
    order = rng.permutation(n)
    assert np.array_equal(keyed_normal(seed, 1, np.asfortranarray(X[order]), t), noise[order])
    for i in range(n):
        for other in (
            keyed_normal(seed + 1, 1, X[i : i + 1], t),
            keyed_normal(seed, 2, X[i : i + 1], t),
            keyed_normal(seed, 1, X[i : i + 1], np.nextafter(t, np.inf)),
            keyed_normal(seed, 1, np.nextafter(X[i : i + 1], np.inf), t),
        ):
            assert other[0] != noise[i]


def test_keyed_noise_is_standard_normal() -> None:
    noise = keyed_normal(3, 1, np.arange(4000.0)[:, None], 2.0)
    assert abs(noise.mean()) < 4 / np.sqrt(4000)
    assert abs(noise.var() - 1.0) < 4 * np.sqrt(2 / 4000)
    assert abs((noise > 1.96).mean() - 0.025) < 4 * np.sqrt(0.025 / 4000)
    assert abs(np.corrcoef(noise[:-1], noise[1:])[0, 1]) < 4 / np.sqrt(4000)


def test_what_grows_shares_storage_and_never_changes() -> None:
    first = Observations(np.zeros((3, 2)), np.arange(3.0), np.arange(3.0), np.ones(3))
    grown, seen = first, []
    for i in range(300):
        fresh = Observations(np.full((1, 2), i), np.array([i]), np.array([i]), np.ones(1))
        grown = grown.append(fresh)
        seen.append(grown)
    for i, each in enumerate(seen):
        assert len(each) == 4 + i
        np.testing.assert_array_equal(each.y[3:], np.arange(i + 1.0))
        assert not any(column.flags.writeable for column in (each.X, each.t, each.y))
    storages = {id(each.y.base) for each in seen}
    assert len(storages) < 12  # not one for each


def test_two_that_grow_from_one_do_not_see_each_other() -> None:
    def one(value: float) -> Observations:
        return Observations(np.zeros((1, 1)), np.zeros(1), np.array([value]), np.ones(1))

    start = one(0.0).append(one(1.0))
    left, right = start.append(one(2.0)), start.append(one(3.0))
    assert left.y.tolist() == [0.0, 1.0, 2.0]
    assert right.y.tolist() == [0.0, 1.0, 3.0]
    assert left.begins_with(start)
    assert not right.begins_with(left)
    assert not start.begins_with(left)
    assert start.begins_with(start)
