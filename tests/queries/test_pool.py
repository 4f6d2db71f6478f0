"""The pool of a query plan: everything while it is small, then only what adds to it."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits.queries.pool import DETERMINED, NOISE, CandidatePool


def same(X):
    return X


def test_all_points_belong_to_a_small_pool():
    X = np.random.default_rng(0).random((30, 2))
    pool = CandidatePool.none()
    for n in (3, 10, 30):
        pool = pool.grown(X[:n], RBF(1.0), same, None)
    assert pool.rows.tolist() == list(range(30))
    assert CandidatePool.none().grown(X, RBF(1.0), same, 30).rows.tolist() == list(range(30))


@pytest.mark.parametrize("step", [1, 7])
def test_a_full_pool_takes_what_it_does_not_determine(step):
    X = np.random.default_rng(1).random((120, 1)) * 20
    pool = CandidatePool.none()
    for n in range(step, 121, step):
        pool = pool.grown(X[:n], RBF(1.0), same, 10)
    rows = list(range(10))
    seen = len(X) - len(X) % step
    for row in range(10, seen):
        K = RBF(1.0)(X[rows]) + NOISE * np.eye(len(rows))
        k = RBF(1.0)(X[rows], X[row : row + 1])[:, 0]
        if 1 - k @ np.linalg.solve(K, k) > DETERMINED:
            rows.append(row)
    assert pool.rows.tolist() == rows
    assert 10 < len(rows) < 60
