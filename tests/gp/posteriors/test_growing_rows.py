from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tvbandits.gp.posteriors.candidate_cache import AppendBuffer


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.booleans(), st.integers(0, 20))
def test_any_tree_of_appends(parents: list[int], square: bool, first: int) -> None:
    """Each step appends to some earlier view: all views stay what they were."""
    start = np.tril(np.full((first, first if square else 3), -1.0))
    views, plains = [AppendBuffer.of(start, square=square)], [start]
    for number, parent in enumerate(parents):
        at = parent % len(views)
        n = len(plains[at])
        row = np.full(n + 1 if square else 3, float(number))
        views.append(views[at].append(row))
        wider = np.pad(plains[at], ((0, 0), (0, 1))) if square else plains[at]
        plains.append(np.vstack([wider, row]))
    for view, plain in zip(views, plains, strict=True):
        assert np.array_equal(view.array, plain)
        assert view.n == len(plain)


def test_appending_to_the_newest_view_copies_nothing() -> None:
    view = AppendBuffer.of(np.zeros((100, 2)))
    grown = view.append(np.ones(2))
    assert np.shares_memory(view.array, grown.array)
    assert not np.shares_memory(view.append(np.ones(2)).array, grown.array)


def test_the_source_is_copied() -> None:
    rows = np.zeros((2, 2))
    view = AppendBuffer.of(rows)
    rows[:] = 7.0
    assert not view.array.any()


@pytest.mark.parametrize("square", [False, True])
def test_only_the_rows_of_a_view_are_pickled(square: bool) -> None:
    old = AppendBuffer.of(np.tril(np.ones((5, 5))), square=square)
    old.append(np.full(6 if square else 5, 12345.678))
    stored = pickle.dumps(old)
    again = pickle.loads(stored)
    assert np.array_equal(again.array, old.array)
    assert again.square is square
    assert np.float64(12345.678).tobytes() not in stored
    longer = again.append(np.full(6 if square else 5, 2.0))
    assert np.array_equal(longer.array[:5, :5], old.array)
    assert (longer.array[5] == 2.0).all()
