"""Candidates with columns that the world decides about."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tvbandits.core.candidates import Candidates

X = np.array([[0.0, 10.0, 1.0], [5.0, 10.0, 1.0], [0.0, 20.0, 1.0], [5.0, 20.0, 2.0]])
WEATHER = Candidates(X, context=[1, 2])


def test_rounding_is_forgiven_and_no_more() -> None:
    np.testing.assert_array_equal(WEATHER.rows_of([10.0 + 9e-9, 1.0]), [0, 1])
    with pytest.raises(ValueError, match=r"nearest context is \[10.0, 1.0\]"):
        WEATHER.rows_of([10.0 + 2e-8, 1.0])


def test_a_context_that_no_candidate_has() -> None:
    said = r"context \[19.0, 1.0\] in columns \[1, 2\]; the nearest context is \[20.0, 1.0\]"
    with pytest.raises(ValueError, match=said):
        WEATHER.rows_of([19.0, 1.0])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([10.0], r"context must have shape \(2,\), got \(1,\)"),
        ([[10.0, 1.0], [20.0, 1.0]], r"context must have shape \(2,\), got \(2, 2\)"),
        ([10.0, np.nan], r"context must be finite, got \[10.0, nan\]"),
        ("hot", "context must be numeric, got 'hot'"),
    ],
)
def test_values_of_the_wrong_kind(values: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        WEATHER.rows_of(values)


def test_no_context_columns() -> None:
    with pytest.raises(ValueError, match=r"without context columns have no context, got \[10"):
        Candidates(X).rows_of([10.0])


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ([3], "column numbers from 0 to 2, got 3"),
        ([True], "column numbers from 0 to 2, got True"),
        ("1", "column numbers from 0 to 2, got '1'"),
        (np.ma.masked, "column numbers from 0 to 2, got masked"),
        ([1, 1], r"must be different columns, got \[1, 1\]"),
        ([0, 1, 2], "must leave a column to choose, got all 3 of them"),
    ],
)
def test_columns_of_the_wrong_kind(context: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Candidates(X, context=context)


def test_it_counts_in_equality_hash_and_pickle() -> None:
    assert Candidates(X, context=np.array([1, 2])) == WEATHER
    assert hash(Candidates(X, context=(1, 2))) == hash(WEATHER)
    assert Candidates(X) != WEATHER
    assert Candidates(X, context=[1]) != WEATHER
    again = pickle.loads(pickle.dumps(WEATHER))
    assert again == WEATHER
    assert again.context == (1, 2)
    assert repr(WEATHER) == "Candidates(4 points, d=3, context=[1, 2])"
    assert repr(Candidates(X)) == "Candidates(4 points, d=3)"
    assert Candidates(X).context == ()


@given(
    st.lists(
        st.tuples(*[st.integers(0, 3)] * 3).map(lambda row: tuple(map(float, row))),
        min_size=1,
        max_size=20,
        unique=True,
    ),
    st.sampled_from([(0,), (2,), (1, 2), (2, 0)]),
)
def test_contexts_split_the_candidates(
    points: list[tuple[float, ...]], context: tuple[int, ...]
) -> None:
    candidates = Candidates(np.array(points), context=context)
    contexts = {tuple(point[column] for column in context) for point in points}
    rows = np.concatenate([candidates.rows_of(values) for values in contexts])
    assert sorted(rows) == list(range(len(points)))
    for values in contexts:
        expected = [i for i, p in enumerate(points) if tuple(p[c] for c in context) == values]
        assert list(candidates.rows_of(values)) == expected
