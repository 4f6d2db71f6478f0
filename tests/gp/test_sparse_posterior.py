"""The sparse posterior of BKB and BBKB against dense formulas with a pseudo-inverse."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Kernel, Matern

from tests.oracles.dense import Dense, assert_alike
from tests.oracles.sparse import Sparse
from tests.oracles.states import fingerprint
from tvbandits import Dataset, Exact, Nystrom, NystromFilter
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import Ages, Aging
from tvbandits.gp.cholesky import condition_by_cholesky
from tvbandits.gp.kernel_matrix import inputs
from tvbandits.gp.kernels.space_time import Drift, OnSpace
from tvbandits.gp.posterior import CandidateGrid, Conditioning, Data
from tvbandits.gp.sparse import SparsePosterior
from tvbandits.validation import Array

ROUGH = Matern([0.3, 0.6], nu=1.5)
KERNELS: dict[str, Kernel] = {
    "matern": 2.0 * ROUGH,
    "drift sum": OnSpace(ROUGH) * Drift(0.1) + ConstantKernel(0.5) * Drift(0.1),
}


class Selection:
    """Uniform numbers that select the marked inputs, and others only with probability one."""

    def __init__(self, marks: Any) -> None:
        self.marks = np.asarray(marks)

    def random(self, n: int) -> Array:
        assert n == len(self.marks)
        return np.where(self.marks, 0.0, 1.0 - 1e-16)


def sparse_posterior(
    kernel: Kernel, data: Data, marks: Any, *, keep: bool = False, **more: Any
) -> SparsePosterior:
    """Return the sparse posterior whose dictionary is the marked inputs."""
    # The oversampling is so small that no input is certain to be selected.
    return Nystrom(1e-6, keep=keep).condition(
        Conditioning(kernel, data, rng=Selection(marks), **more)
    )  # type: ignore[arg-type]


def dense(p: SparsePosterior, data: Data | None = None) -> Sparse:
    return Sparse(p.kernel, p.dictionary.rows.Z, *(p.data if data is None else data))


def scattered_data(rng: np.random.Generator, kernel: Kernel, n: int, repeats: int = 0) -> Data:
    """Return heteroscedastic observations at scattered points, some of them repeated."""
    X = rng.random((n, 2))
    t = np.sort(rng.uniform(0, 10, n))
    Z = inputs(kernel, X, t)
    if repeats:
        Z = np.concatenate([Z, Z[rng.integers(n, size=repeats)]])
    Y = np.stack([rng.standard_normal(len(Z)), np.ones(len(Z))], axis=1)
    return Data(Z, Y, 10 ** rng.uniform(-2, 1, len(Z)))


def assert_matches(p: SparsePosterior, plainly: Sparse, at: Array) -> None:
    """Check all results of a sparse posterior against dense algebra."""
    close = {"rtol": 1e-6, "atol": 1e-7}
    assert_alike(p.predict(at), (plainly.mean(at), plainly.variance(at)), **close)
    np.testing.assert_allclose(p.covariance(at[:3], at), plainly.covariance(at[:3], at), **close)
    np.testing.assert_allclose(p.summary.products, dense(p, p.rows).products(), **close)
    assert p.summary.log_det_ratio == pytest.approx(plainly.log_det_ratio(), rel=1e-6, abs=1e-7)
    shares = plainly.variance(plainly.X) / plainly.v
    assert p.summary.effective_dimension() == pytest.approx(shares.sum(), rel=1e-6)


# --- one posterior --------------------------------------------------------------------------------


def test_dictionary_leaves_out_duplicates_and_dependent_points() -> None:
    """A linear kernel in the plane has rank 3 for any dictionary; repeated inputs count once."""
    rng = np.random.default_rng(4)
    kernel = DotProduct(1.0)
    data = scattered_data(rng, kernel, 15, repeats=15)
    p = sparse_posterior(kernel, data, np.ones(15, dtype=bool))
    assert p.summary.dictionary_size == 3
    at = rng.random((20, 2))
    exact = Dense(kernel, *data)
    assert_alike(p.predict(at), (exact.mean(at), exact.variance(at)), atol=1e-8)
    # Of points that a smooth kernel cannot tell apart, one stays.
    Z = np.array([[0.1, 0.1], [0.1, 0.1 + 1e-7], [0.9, 0.5]])
    close = Data(Z, np.ones((3, 1)), np.full(3, 0.1))
    assert sparse_posterior(RBF(0.3), close, np.ones(3, dtype=bool)).dictionary.size == 2


def test_growing_dictionary_leaves_out_dependent_points() -> None:
    """New points may depend on each other, or on points of the dictionary."""
    gap = 1e-7
    Z = np.array([[0.1, 0.1], [0.9, 0.5], [0.9, 0.5 + gap], [0.1, 0.1 + gap], [0.5, 0.9]])
    data = Data(Z, np.ones((5, 1)), np.full(5, 0.1))
    first = sparse_posterior(RBF(0.3), data.rows(0).row(0), [True], keep=True)
    p = sparse_posterior(RBF(0.3), data, np.ones(5, dtype=bool), keep=True, previous=first)
    np.testing.assert_allclose(p.dictionary.rows.Z, Z[[0, 1, 4]], atol=2 * gap)
    linear = sparse_posterior(DotProduct(1.0), data.row(0), [True], keep=True)
    p = sparse_posterior(DotProduct(1.0), data, np.ones(5, dtype=bool), keep=True, previous=linear)
    assert p.summary.dictionary_size == 3


def test_dictionary_compares_a_residual_with_the_prior_variance_of_its_point() -> None:
    """The threshold is relative to a point's own prior variance, which is small near the origin here."""
    kernel = DotProduct(0.0)
    Z = np.array([[1e6, 0.0], [0.0, 1e-3], [0.0, 0.0]])
    p = sparse_posterior(kernel, Data(Z, np.ones((3, 1)), np.full(3, 1e-8)), [True, True, True])
    np.testing.assert_array_equal(p.dictionary.rows.Z, Z[:2])
    exact = Dense(kernel, Z, np.ones((3, 1)), np.full(3, 1e-8))
    assert p.predict(Z[1:2])[0][0, 0] == pytest.approx(exact.mean(Z[1:2])[0, 0], rel=1e-6)


def test_dictionary_of_points_without_prior_variance_is_empty() -> None:
    p = sparse_posterior(
        DotProduct(0.0), Data(np.zeros((1, 2)), np.ones((1, 1)), np.ones(1)), [True]
    )
    assert p.summary.dictionary_size == 0
    np.testing.assert_array_equal(p.predict(np.array([[0.0, 0.0], [1.0, 2.0]]))[1], [0.0, 5.0])


# --- from posterior to posterior ------------------------------------------------------------------

AGING: dict[str, Aging] = {
    "constant": aging.Constant(),
    "reset": aging.ResetEvery(9),
    "window": aging.Window(last=12),
    "time window": aging.Window(within=8.0),
    "exponential": aging.Exponential(0.8),
    "linear": aging.Linear(0.4),
    "wiener": aging.Wiener(0.2),
    "discard": aging.compose(aging.Linear(0.5), aging.DiscardAbove(lambda _: 3.0)),
}


class Stream:
    """A seeded stream of observations, mostly at fixed points, and the times of decisions."""

    def __init__(self, kernel: Kernel, seed: int, map_: Aging, *, elsewhere: float = 0.2) -> None:
        self.kernel, self.rng, self.map = kernel, np.random.default_rng(seed), map_
        self.grid = CandidateGrid(kernel, self.rng.random((15, 2)))
        self.elsewhere = elsewhere
        self.observations = Dataset.empty(2)

    def step(self) -> tuple[Data, float]:
        """Add one to three observations, and return the data of a decision a little later."""
        rng, n = self.rng, int(self.rng.integers(1, 4))
        X = self.grid.points[rng.integers(15, size=n)].copy()
        away = rng.random(n) < self.elsewhere
        X[away] = rng.random((int(away.sum()), 2))
        start = float(self.observations.t[-1]) if len(self.observations) else 0.0
        # Sometimes a gap is so long that all earlier observations are forgotten.
        gap = 400.0 if rng.random() < 0.04 else rng.exponential()
        times = np.full(n, start + gap)
        self.observations = self.observations.append(
            Dataset(X, times, rng.standard_normal(n), 10 ** rng.uniform(-2, 0, n))
        )
        return self.at(times[0] + rng.random())

    def at(self, now: float) -> tuple[Data, float]:
        data = self.observations
        variance = self.map(data.variance, Ages.of(data, now))
        used = np.isfinite(variance)
        Z = inputs(self.kernel, data.X[used], data.t[used])
        return Data(Z, np.stack([data.y[used], np.ones(used.sum())], axis=1), variance[used]), now


def assert_grid_matches(p: SparsePosterior, grid: CandidateGrid, now: float) -> None:
    at = grid.at(now)
    exact = dense(p).variance(at)
    mean, variance = p.predict(at)
    np.testing.assert_allclose(p.predict(grid)[0], mean, atol=1e-8)
    for result in (variance, p.predict(grid)[1]):
        np.testing.assert_allclose(result, exact, atol=1e-7)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("map_", AGING.values(), ids=AGING.keys())
@pytest.mark.parametrize("kernel", ["matern", "drift sum"])
def test_nystrom_from_previous_posterior_matches_dense_algebra(
    kernel: str, map_: Aging, keep: bool
) -> None:
    """Data are appended, aged and forgotten, and dictionaries grown or drawn again, as time passes."""
    stream = Stream(KERNELS[kernel], 5, map_)
    part, rng = Nystrom(1.0, keep=keep), np.random.default_rng(8)
    p: SparsePosterior | None = None
    for step in range(12):
        data, now = stream.step()
        for later in (0.0, 0.7):  # in the second round only the time of the decision is new
            data, now = stream.at(now + later)
            p = part.condition(Conditioning(stream.kernel, data, stream.grid, now, p, rng))
            assert_grid_matches(p, stream.grid, now)
        if step % 4 == 3 and len(data):
            assert_matches(p, dense(p), stream.grid.at(now))


def test_nystrom_ignores_a_previous_exact_posterior() -> None:
    data = scattered_data(np.random.default_rng(2), ROUGH, 10)
    exact = condition_by_cholesky(ROUGH, data)
    after, fresh = (
        Nystrom().condition(Conditioning(ROUGH, data, previous=q, rng=np.random.default_rng(5)))
        for q in (exact, None)
    )
    assert fingerprint(after) == fingerprint(fresh)


# --- noise far below the prior ----------------------------------------------------------------------

TINY: dict[str, Kernel] = {
    "smooth": RBF(0.3),
    "short": RBF(0.1),
    "matern": Matern(0.3, nu=1.5),
    "rough": Matern(0.2, nu=0.5),
}


@pytest.mark.parametrize("exponent", [4, 7, 11, 17])
@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("rule", [Nystrom(1e12), Exact()], ids=["nystrom", "spanning"])
def test_sparse_posterior_stays_close_to_the_exact_one_under_tiny_noise(
    rule: Any, name: str, exponent: int
) -> None:
    kernel, noise = TINY[name], 10.0**-exponent
    for seed in range(2):
        rng = np.random.default_rng(seed)
        points = rng.random((80, 1))
        X = points[np.r_[np.arange(80), rng.integers(0, 80, 40)]]
        y = np.sin(6.0 * X[:, 0]) + np.sqrt(noise) * rng.standard_normal(120)
        data = Data(X, np.column_stack([y, np.ones(120)]), np.full(120, noise))
        grid = CandidateGrid(kernel, points)
        sparse = rule.condition(Conditioning(kernel, data, grid))
        exact = condition_by_cholesky(kernel, data)
        means, variance = sparse.predict(grid)
        expected, exact_variance = exact.predict(points)
        # The error of the mean is within the predicted deviation.
        assert (2.0 * np.sqrt(variance) + 1e-9 >= np.abs(means - expected).T).all()
        assert (np.abs(np.sqrt(variance) - np.sqrt(exact_variance)) < 1e-3).all()
        # The products are sums of squares, not differences of numbers of order 1 / noise.
        assert np.linalg.eigvalsh(sparse.summary.products)[0] > 0
        centres = [
            p.summary.products[0, 1] / (5.0 + p.summary.products[1, 1]) for p in (sparse, exact)
        ]
        assert abs(centres[0] - centres[1]) < 0.3
        if exponent <= 7:
            np.testing.assert_allclose(
                sparse.summary.products, exact.summary.products, rtol=2e-2, atol=1e-3
            )


def test_nystrom_raises_and_reports_noise_below_its_tolerance() -> None:
    kernel, X = RBF(0.3), np.linspace(0.0, 1.0, 30)[:, None]
    part = Nystrom(1e12, tolerance=1e-6)
    posteriors = {
        noise: part.condition(Conditioning(kernel, Data(X, np.cos(9 * X), np.full(30, noise))))
        for noise in (1e-12, 1e-6, 2e-6)
    }
    assert posteriors[1e-12].summary.jitter == pytest.approx(1e-6 - 1e-12)
    assert posteriors[2e-6].summary.jitter == posteriors[1e-6].summary.jitter == 0.0
    assert_alike(posteriors[1e-12].predict(X), posteriors[1e-6].predict(X), rtol=0.0)


exactly = np.vectorize(Fraction, otypes=[object])  # exact arithmetic from here on


def solve_exactly(A: Any, B: Any) -> Any:
    """Return A^-1 B for a positive definite A, by elimination."""
    AB = np.hstack([A, B])
    for i in range(len(A)):
        AB[i] = AB[i] / AB[i, i]
        others = np.arange(len(A)) != i
        AB[others] -= np.outer(AB[others, i], AB[i])
    return AB[:, len(A) :]


@pytest.mark.parametrize("filters", [False, True], ids=["still", "filter"])
def test_sparse_posterior_of_implausible_readings_matches_exact_arithmetic(filters: bool) -> None:
    """Means are several prior deviations, and exact for the raised noise, however small that is."""
    rng = np.random.default_rng(2)
    n, q, kernel = 12, 5, OnSpace(RBF(0.5)) * Drift(0.1) if filters else RBF(0.5)
    X, t = rng.random((n + q, 1)), np.append(np.arange(n) // 3, np.full(q, n / 3))
    Z = np.column_stack([X, t]) if filters else X
    Y = rng.standard_normal((n, 2))
    part: Nystrom = NystromFilter(1e12) if filters else Nystrom(1e12)
    posterior = part.condition(Conditioning(kernel, Data(Z[:n], Y, np.full(n, 1e-12)), now=n / 3))
    assert posterior.summary.jitter == pytest.approx(part.tolerance - 1e-12)
    assert isinstance(posterior, SparsePosterior)
    D = posterior.dictionary.rows.Z[:, :1]
    within = RBF(0.5)(D) + np.diag(posterior.dictionary.data.variance)
    across, noise = RBF(0.5)(D, X), np.full(n, part.tolerance)
    Q = exactly(across[:, :n]).T @ solve_exactly(exactly(within), exactly(across))
    if filters:  # the residual variance of the dictionary counts as noise
        noise = np.maximum(noise, 1.0 - Q.diagonal().astype(float))
        Q = Q * exactly(kernel(np.column_stack([0 * t[:n], t[:n]]), np.column_stack([0 * t, t])))
    weights = solve_exactly(Q[:, :n] + exactly(np.diag(noise)), np.hstack([exactly(Y), Q[:, n:]]))
    predictions = (Q[:, n:].T @ weights).astype(float)
    means, explained = predictions[:, :2], predictions[:, 2:].diagonal()
    mean, variance = posterior.predict(Z[n:])
    assert np.abs(means).max() > 5.0
    np.testing.assert_allclose(mean, means, rtol=1e-5, atol=1e-5 * np.abs(means).max())
    np.testing.assert_allclose(variance, 1.0 - explained, rtol=1e-4, atol=1e-13)
