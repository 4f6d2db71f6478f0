"""Thompson sampling, against plain dense formulas and plain draws."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2_contingency
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from tests.oracles.dense import Dense
from tests.oracles.sparse import Sparse
from tvbandits import Bandit, Box, Candidates
from tvbandits.acquisition.rules import samples as drawn_for
from tvbandits.bandit.deciding import decision_of
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.posteriors.cholesky import ExactPosterior
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.sparse import NystromPosterior
from tvbandits.policies import adaptive_gp_ucb, gp_ucb, thompson
from tvbandits.policies.ruled import PolicyAdapter

Array = NDArray[np.float64]

LINE = Candidates(np.linspace(0.0, 6.0, 13)[:, None])
KERNEL = RBF(1.0)
NOISE = 0.04
X = LINE.X[[0, 1, 3, 3, 7]]
Y = np.array([0.5, 0.7, -0.4, -0.1, 1.1])

each_posterior = pytest.mark.parametrize("posterior", [Exact(), Nystrom()], ids=["exact", "sparse"])


def player(posterior: Any, told: int = 5, **options: Any) -> Bandit:
    options = {"mean": 0.3, "seed": 1, **options}
    made = thompson(LINE, KERNEL, NOISE, posterior=posterior, **options)
    if told:
        made.tell(X[:told], Y[:told], t=1.0)
    return made


def samples(made: Bandit, count: int) -> Array:
    """Samples of the reward at all candidates, as an ask draws them."""
    made.ask(2.0)
    decision = decision_of(made.recipe, made._model, made.state, 2.0, made.info.beta)
    return drawn_for(decision, count, np.random.default_rng(5))


def dense(dictionary: Array | None) -> tuple[Array, Array]:
    """Mean and covariance (A, A) of the posterior at all candidates.

    Samples of a sparse one leave out what the residual of one point says about another.
    """
    data = (X, (Y - 0.3)[:, None], np.full(5, NOISE))
    oracle = Dense(KERNEL, *data) if dictionary is None else Sparse(KERNEL, dictionary, *data)
    mean, covariance = 0.3 + oracle.mean(LINE.X)[:, 0], oracle.covariance(LINE.X, LINE.X)
    if isinstance(oracle, Sparse):
        z = oracle.z(LINE.X)
        residual = KERNEL(LINE.X) - z @ z.T
        covariance -= residual - np.diag(np.diagonal(residual))
    return mean, covariance


def furthest(drawn: Array, mean: Array, covariance: Array) -> float:
    """The largest deviation of the moments of samples, in standard errors."""
    n, variance = len(drawn), np.diagonal(covariance)
    means = (drawn.mean(axis=0) - mean) / np.sqrt(variance / n)
    centred = drawn - mean
    errors = np.sqrt((np.outer(variance, variance) + covariance**2) / n)
    return float(max(abs(means).max(), abs((centred.T @ centred / n - covariance) / errors).max()))


@pytest.mark.parametrize("width", [1.0, 2.5])
def test_samples_of_the_exact_posterior_have_its_moments(width: float) -> None:
    made = player(Exact(), confidence=width)
    drawn = samples(made, 20_000)
    assert isinstance(made.state.posterior, ExactPosterior)
    mean, covariance = dense(None)
    assert furthest(drawn, mean, width**2 * covariance) < 4.5
    assert furthest(drawn, mean, 1.1 * width**2 * covariance) > 6.0


@pytest.mark.parametrize("width", [1.0, 2.5])
def test_samples_of_the_sparse_posterior_have_its_moments(width: float) -> None:
    # Few inducing points, so that there is something left of the prior to be drawn.
    made = player(Nystrom(oversampling=0.02), confidence=width)
    drawn = samples(made, 20_000)
    assert isinstance(made.state.posterior, NystromPosterior)
    dictionary = made.state.posterior.dictionary.rows.Z
    assert 1 <= len(dictionary) < 4
    mean, covariance = dense(dictionary)
    assert furthest(drawn, mean, width**2 * covariance) < 4.5
    # Without the residual the samples would be others; each variance is the posterior's.
    _, deviation = made.predict(LINE.X, 2.0)
    np.testing.assert_allclose(deviation**2, np.diagonal(covariance), rtol=1e-8)


def test_samples_are_in_the_unit_of_the_reward() -> None:
    made = thompson(LINE, KERNEL, NOISE, posterior=Exact(), seed=1)
    made.tell(X, 50.0 + 4.0 * Y, t=1.0)
    drawn = samples(made, 20_000)
    mean, deviation = made.predict(LINE.X, 2.0)
    assert made.info.model.scale != 1.0
    assert (abs(drawn.mean(axis=0) - mean) < 4.5 * deviation / math.sqrt(20_000)).all()
    np.testing.assert_allclose(drawn.std(axis=0), deviation, rtol=0.03)


@each_posterior
def test_the_batch_is_the_best_of_as_many_samples(posterior: Exact | Nystrom) -> None:
    batch = player(posterior, batch=4000).ask()
    found = np.bincount(LINE.index(batch), minlength=13)
    made = player(posterior)
    made.ask()
    state = made.state.posterior
    mean, covariance = dense(
        state.dictionary.rows.Z if isinstance(state, NystromPosterior) else None
    )
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    drawn = mean + np.random.default_rng(9).standard_normal((40_000, 13)) @ root.T
    expected = np.bincount(drawn.argmax(axis=1), minlength=13)
    likely = expected > 100
    assert likely.sum() > 3
    table = np.array([found[likely], expected[likely]])
    assert chi2_contingency(table).pvalue > 1e-3
    # Twice the width is another law.
    wide = np.bincount(
        LINE.index(player(posterior, batch=4000, confidence=2.0).ask()), minlength=13
    )
    assert chi2_contingency(np.array([wide[likely], expected[likely]])).pvalue < 1e-6


@each_posterior
def test_a_batch_is_told_at_its_end_or_in_parts(posterior: Exact | Nystrom) -> None:
    made = player(posterior, told=0, batch=7)
    batch = made.ask(3.0)
    assert batch.shape == (7, 1)
    assert made.info.batch_size == 7
    assert made.info.beta == 1.0
    made.tell(batch[:2], [0.1, 0.2])
    made.tell(batch[2:], np.arange(5.0))
    assert made.info.told == 7
    assert made.state.time == 3.0  # all of them were asked for one time
    assert len(made.pending) == 0
    assert made.ask().shape == (7, 1)
    assert made.recommend().shape == (1,)
    assert thompson(LINE, KERNEL, NOISE).ask().shape == (30, 1)
    assert thompson(LINE, KERNEL, NOISE, batch=1).ask().shape == (1, 1)


def test_samples_speak_about_the_time_of_the_decision() -> None:
    drifting = OnSpace(ConstantKernel(4.0) * RBF(1.0)) * Drift(0.4, "fixed")
    for posterior in (Exact(), Nystrom()):
        made = thompson(LINE, drifting, NOISE, posterior=posterior, mean=0.0, batch=400, seed=1)
        made.tell(LINE.X, np.where(np.arange(13) == 4, 3.0, 0.0), t=1.0)
        assert (made.ask(1.0) == LINE.X[4]).mean() > 0.95
        later = made.ask(40.0)
        assert (later == LINE.X[4]).mean() < 0.3
        assert len(np.unique(later)) == 13


@pytest.mark.parametrize("posterior", [Exact(), Nystrom(oversampling=1e9)], ids=["exact", "sparse"])
@pytest.mark.parametrize("in_time", [Drift(0.4, "fixed"), OnTime(RBF(2.0))], ids=["drift", "rbf"])
def test_samples_of_a_drifting_reward_have_its_moments(
    posterior: Exact | Nystrom, in_time: Any
) -> None:
    made = thompson(LINE, OnSpace(KERNEL) * in_time, NOISE, posterior=posterior, mean=0.3)
    times = np.array([1.0, 2.0, 2.0, 3.0, 3.5])
    for x, y, t in zip(X, Y, times, strict=True):
        made.tell(x[None, :], [y], t)
    made.ask(4.0)
    decision = decision_of(made.recipe, made._model, made.state, 4.0, 1.0)
    drawn = drawn_for(decision, 20_000, np.random.default_rng(2))
    K = KERNEL(X) * in_time(np.column_stack([X, times]))
    here, there = np.column_stack([X, times]), np.column_stack([LINE.X, np.full(13, 4.0)])
    k = KERNEL(X, LINE.X) * in_time(here, there)
    solved = np.linalg.solve(K + NOISE * np.eye(5), np.column_stack([k, Y - 0.3]))
    covariance = KERNEL(LINE.X) - k.T @ solved[:, :-1]
    if not isinstance(made.state.posterior, NystromPosterior):  # a filter spans all candidates
        assert furthest(drawn, 0.3 + k.T @ solved[:, -1], covariance) < 4.5
        return
    # On a dictionary of the points played, what is beyond it is drawn for each candidate alone.
    dictionary = made.state.posterior.dictionary
    cross = dictionary.kernel(dictionary.rows.Z, there)
    beyond = KERNEL(LINE.X) - cross.T @ np.linalg.solve(dictionary.kernel(dictionary.rows.Z), cross)
    assert (
        furthest(
            drawn,
            0.3 + k.T @ solved[:, -1],
            covariance - beyond + np.diag(np.maximum(np.diagonal(beyond), 0.0)),
        )
        < 4.5
    )


def run(made: Bandit | PolicyAdapter, steps: int, start: float = 0.0) -> Array:
    points = []
    for step in range(steps):
        batch = made.ask(start + step)
        made.tell(batch, np.cos(batch[:, 0] - 4.0) + 0.1 * math.sin(7.0 * step), start + step)
        points.append(batch)
    return np.array(points)


def test_a_failing_draw_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made, twin = (player(Nystrom(), batch=3) for _ in range(2))

    def fail(*_: object) -> Array:
        raise RuntimeError("out of luck")

    before = made.state
    with monkeypatch.context() as patch:
        patch.setattr(NystromPosterior, "samples", fail)
        with pytest.raises(RuntimeError, match="out of luck"):
            made.ask()
    assert made.state is before
    np.testing.assert_array_equal(run(made, 5, 2.0), run(twin, 5, 2.0))


MANY = Candidates(np.arange(2001.0)[:, None])


@pytest.mark.parametrize(
    ("domain", "options", "match"),
    [
        (Box([[0.0, 1.0]]), {}, r"needs a finite domain: give Candidates, got Box\("),
        (MANY, {"posterior": Exact()}, "no more than 2000 candidates, got 2001: give posterior=N"),
        (LINE, {"batch": 0}, "batch must be a whole number of at least 1, got 0"),
        (LINE, {"batch": 2.0}, "batch must be a whole number of at least 1, got 2.0"),
        (LINE, {"confidence": -1.0}, r"confidence must lie in \[0, 1e\+50\], got -1\.0"),
        (LINE, {"mean": "offline"}, 'mean must be "online" or a finite number'),
    ],
)
def test_wrong_parts_are_refused(domain: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        thompson(domain, KERNEL, NOISE, **options)


def test_many_candidates_are_for_the_sparse_posterior() -> None:
    made = thompson(MANY, RBF(50.0), NOISE, batch=5, seed=1)
    made.tell(MANY.X[::200], np.arange(11.0))
    assert made.ask().shape == (5, 1)
    at_the_limit = Candidates(MANY.X[:2000])
    assert thompson(at_the_limit, RBF(50.0), NOISE, posterior=Exact()).recipe.domain is at_the_limit


@pytest.mark.parametrize("make", [gp_ucb, functools.partial(thompson, posterior=Exact())])
def test_more_visits_than_points_are_shared_by_who_is_likely_the_best(make: Any) -> None:
    """Against plain draws from the dense posterior, among what is available."""
    bandit = make(LINE, KERNEL, NOISE, mean=0.3, seed=3)
    bandit.tell(X, Y, t=1.0)
    there = np.arange(13) != 6
    shares = LINE.index(bandit.ask(2.0, n=4000, among=there))
    mean, covariance = dense(None)
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(mean[there], covariance[there][:, there], 4000, method="eigh")
    expected = np.bincount(np.flatnonzero(there)[draws.argmax(axis=1)], minlength=13)
    counts = np.bincount(shares, minlength=13)
    assert counts[6] == 0
    often = counts + expected >= 10
    assert chi2_contingency(np.array([counts, expected])[:, often]).pvalue > 1e-3
    assert len(bandit.pending) == 4000


def test_a_banner_that_converts_gets_most_of_the_traffic() -> None:
    """Visits that bought something are told as True; a hundred visits follow what they showed."""
    banners = Candidates(np.eye(8))
    rates, rng = np.array([0.02] * 7 + [0.3]), np.random.default_rng(2)
    bandit = adaptive_gp_ucb(banners, None, 0.1, seed=1)
    for t in range(1, 9):
        X = bandit.ask(t, n=100)
        assert len(X) == 100
        bought = rng.random(100) < rates[banners.index(X)]
        bandit.tell(X, bought if t % 2 else bought.tolist(), t)
    assert (banners.index(X) == 7).sum() > 60


@pytest.mark.parametrize(
    "told",
    [
        [True, False, math.nan],
        (1, np.False_, math.nan),
        pd.Series([True, False, None], dtype="boolean"),
    ],
)
def test_what_converted_is_one(told: Any) -> None:
    bandit = gp_ucb(LINE, KERNEL, NOISE)
    bandit.tell(LINE.X[:3], told, 1.0)
    bandit.tell(LINE.X[3], True, 1.0)
    bandit.tell(LINE.X[4:5], np.array([True]), 1.0)
    assert bandit.state.rewards.y.tolist() == [1.0, 0.0, 1.0, 1.0]
