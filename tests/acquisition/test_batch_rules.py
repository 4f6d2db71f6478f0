"""Batch rules against brute force, whole batches of bandits, and Thompson sampling."""

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import chi2_contingency
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tests.helpers.recipes import build
from tests.helpers.refusals import assert_refused
from tests.oracles.dense import Dense
from tests.oracles.plain_budgeted import uncertainty_sampling
from tests.oracles.sparse import Sparse
from tvbandits import Bandit, Box, Candidates, Exact, Nystrom, Options, Recipe, policies
from tvbandits.acquisition.batches import (
    Batching,
    BatchLimitWarning,
    BatchRule,
    BatchStep,
    GlobalRatio,
    LocalRatio,
    One,
    ProductRatio,
    count_to,
)
from tvbandits.acquisition.rules import samples as draw_samples
from tvbandits.acquisition.widths import BBKBWidth, Fixed
from tvbandits.bandit.state import restore_generator
from tvbandits.gp.kernels.space_time import Drift, OnSpace
from tvbandits.gp.sparse import SparsePosterior
from tvbandits.policies import gp_ucb, thompson
from tvbandits.validation import Array

SHARES = st.lists(st.floats(0.0, 1.5), min_size=30, max_size=30)
BOUNDS = st.floats(1.0, 6.0)


def length(rule: BatchRule, steps: list[BatchStep]) -> int:
    monitor = rule.monitor()
    return next((n for n, step in enumerate(steps, 1) if monitor(step)), len(steps) + 1)


def first_above(values: list[float], bound: float) -> int:
    return next((n for n, value in enumerate(values, 1) if value > bound), len(values) + 1)


def nothing(*_: Any) -> Array:
    raise AssertionError("not needed")


def clear_of_rounding(values: list[float], bound: float) -> bool:
    return all(abs(value - bound) > 1e-9 for value in values)


@settings(deadline=None)
@given(SHARES, BOUNDS)
def test_global_ratio_ends_by_a_sum_and_product_ratio_by_a_product(
    shares: list[float], bound: float
) -> None:
    sums = [1 + sum(shares[:n]) for n in range(1, 31)]
    products = [math.prod(1 + share for share in shares[:n]) for n in range(1, 31)]
    for rule, values, steps in (
        (GlobalRatio(bound), sums, [BatchStep(share, 0.0, nothing, nothing) for share in shares]),
        (
            ProductRatio(bound),
            products,
            [BatchStep(9.0, share, nothing, nothing) for share in shares],
        ),
    ):
        if clear_of_rounding(values, bound):
            assert length(rule, steps) == first_above(values, bound)


def batch_of(points: list[int], covariance: Array, evaluated: list[int]) -> list[BatchStep]:
    """Return the steps of a batch of points, given their covariance divided by the noise."""

    def step(n: int) -> BatchStep:
        def shares(Z: Array) -> Array:
            rows = Z[:, 0].astype(int)
            evaluated.extend(rows.tolist())
            return np.asarray(covariance[rows] ** 2 / np.diagonal(covariance))

        def covariances(Z: Array) -> Array:
            return np.asarray(covariance[Z[:, 0].astype(int), n])

        return BatchStep(float(covariance[n, n]), 0.0, covariances, shares, np.array([[float(n)]]))

    return [step(n) for n in points]


@settings(deadline=None)
@given(st.integers(0, 10**6), BOUNDS, st.floats(0.05, 0.5), st.integers(1, 8))
def test_local_ratio_ends_by_the_largest_sum_over_all_candidates(
    seed: int, bound: float, size: float, rank: int
) -> None:
    """It ends no earlier than the global rule, and evaluates all candidates only when needed."""
    rng, evaluated = np.random.default_rng(seed), list[int]()
    features = size * rng.standard_normal((12, rank))
    covariance, points = features @ features.T + 1e-6 * np.eye(12), rng.integers(0, 8, 30).tolist()
    shares = covariance[points] ** 2 / np.diagonal(covariance)
    everywhere = [1 + shares[:n].sum(axis=0).max() for n in range(1, 31)]
    largest = [
        1 + np.linalg.eigvalsh(covariance[np.ix_(points[:n], points[:n])])[-1] for n in range(1, 31)
    ]
    if clear_of_rounding([*everywhere, *largest], bound):
        end = length(LocalRatio(bound), batch_of(points, covariance, evaluated))
        assert end == first_above(everywhere, bound)
        assert end >= length(GlobalRatio(bound), batch_of(points, covariance, evaluated))
        assert not evaluated or first_above(largest, bound) <= 30
        assert len(evaluated) == len(set(evaluated))  # no point is computed twice


def test_local_ratio_ends_by_a_point_outside_of_the_batch() -> None:
    """The third point lies between the two of the batch, so that its terms add up."""
    features = np.array([[1.0, 0.75], [1.0, -0.75], [1.0, 0.0]])
    covariance = 0.55 * features @ features.T
    evaluated: list[int] = []
    assert length(LocalRatio(2.0), batch_of([0, 1], covariance, evaluated)) == 2
    assert evaluated == [0, 1]


def test_ratio_rules_do_not_end_at_exactly_the_bound() -> None:
    steps = batch_of([0] * 4, np.array([[0.5]]), [])
    assert length(GlobalRatio(2.0), steps) == 3
    assert length(LocalRatio(2.0), steps) == 3


def test_one_and_count_to_end_after_a_fixed_number_of_points() -> None:
    free = BatchStep(0.0, 0.0, nothing, nothing)
    assert length(One(), [free] * 3) == 1
    assert One().ratio_bound == 1.0
    for size in (1, 2, 5):
        monitor = count_to(size)
        assert [monitor(free) for _ in range(size)] == [False] * (size - 1) + [True]


# --- whole batches --------------------------------------------------------------------------------

DOMAIN = Candidates.grid([(0.0, 1.0), (0.0, 1.0)], [12, 12])
NOISE = 0.5


def bandit(batch: BatchRule, posterior: Exact | Nystrom, **more: Any) -> Bandit:
    sizes = {name: more.pop(name) for name in ("smallest", "largest") if name in more}
    usual = {"domain": DOMAIN, "kernel": Matern(0.35, nu=2.5), "noise_variance": NOISE}
    usual |= {"beta": Fixed(2.0), "mean": 0.0, **more}
    return Bandit(Recipe(**usual, posterior=posterior, batching=Batching(batch, **sizes)), seed=3)


def tell_rewards(b: Bandit) -> Bandit:
    """Tell enough rewards for batches of some length, and return the bandit."""
    X = b.recipe.domain.sample(60, np.random.default_rng(1))
    b.tell(X, np.sin(5 * X[:, 0]))
    return b


def dense_with(b: Bandit, X: Array, noise: float = NOISE) -> Dense | Sparse:
    """Return the posterior of the last ask, with the points `X` observed in addition."""
    p = b.state.posterior
    dense_posterior = Dense(
        p.kernel,
        np.concatenate([p.data.Z, X]),
        np.zeros((len(p.data) + len(X), 1)),
        np.append(p.data.variance, np.full(len(X), noise)),
    )
    if isinstance(p, SparsePosterior) and isinstance(b.recipe.posterior, Nystrom):
        return Sparse(
            p.kernel, p.dictionary.rows.Z, dense_posterior.X, dense_posterior.Y, dense_posterior.v
        )
    return dense_posterior


def exceeds_bound(rule: BatchRule, b: Bandit, batch: Array) -> bool:
    """Return whether the whole batch exceeds the bound of its rule."""
    start = dense_with(b, batch[:0])
    if isinstance(rule, ProductRatio):
        shares = [
            dense_with(b, batch[:n]).variance(batch[n : n + 1])[0] / NOISE
            for n in range(len(batch))
        ]
        return math.prod(1 + share for share in shares) > rule.ratio_bound
    total = 1 + start.variance(batch).sum() / NOISE
    if isinstance(rule, GlobalRatio) or total <= rule.ratio_bound:
        return bool(total > rule.ratio_bound)
    local = start.covariance(DOMAIN.X, batch) ** 2 / (start.variance(DOMAIN.X)[:, None] * NOISE)
    return bool((1 + local.sum(axis=1)).max() > rule.ratio_bound)


@pytest.mark.parametrize("posterior", [Exact(), Nystrom(2.0), Nystrom(2.0, keep=False)])
@pytest.mark.parametrize("C", [1.5, 2.5])
@pytest.mark.parametrize("rule", [GlobalRatio, LocalRatio, ProductRatio])
def test_ask_ends_a_batch_with_the_point_that_exceeds_the_bound(
    rule: Any, C: float, posterior: Exact | Nystrom
) -> None:
    """Before, variances have fallen by at most C at every point of the domain."""
    b, rng = tell_rewards(bandit(rule(C), posterior)), np.random.default_rng(0)
    sizes = []
    for _ in range(6):
        batch = b.ask()
        assert exceeds_bound(rule(C), b, batch)
        # No shorter batch exceeds it, as all terms are positive.
        assert not exceeds_bound(rule(C), b, batch[:-1])
        start, now = (dense_with(b, X).variance(DOMAIN.X) for X in (batch[:0], batch[:-1]))
        # Lemmas 1 and 3 hold for the ratio of variances, which is larger than that of deviations.
        assert (start / now).max() <= C * (1 + 1e-9)
        b.tell(batch, np.sin(5 * batch[:, 0]) + math.sqrt(NOISE) * rng.standard_normal(len(batch)))
        sizes.append(len(batch))
    assert max(sizes) > (1 if C < 2 else 3)


def test_ask_ends_a_batch_at_the_largest_size_with_a_warning() -> None:
    for posterior in (Exact(), Nystrom(2.0)):
        b = bandit(GlobalRatio(1e6), posterior, largest=7)
        with pytest.warns(BatchLimitWarning, match="limit of 7 points"):
            assert len(b.ask()) == 7
    b = bandit(GlobalRatio(2.0), Exact(), largest=4, smallest=9)
    with pytest.warns(BatchLimitWarning, match="limit of 4 points"):
        assert len(b.ask()) == 4


def test_local_ratio_refuses_a_box() -> None:
    with pytest.raises(ValueError, match="Box"):
        bandit(LocalRatio(2.0), Exact(), domain=Box([(0.0, 1.0)]))


@pytest.mark.parametrize("posterior", [Exact(), Nystrom(2.0), Nystrom(2.0, keep=False)])
@pytest.mark.parametrize("P", [5])
def test_smallest_batch_starts_with_uncertainty_sampling_of_algorithm_3(
    P: int, posterior: Exact | Nystrom
) -> None:
    """The plays are as many, filled up to whole batches of P, and each is the most uncertain one."""
    b, rng = bandit(GlobalRatio(2.0), posterior, smallest=P), np.random.default_rng(0)
    rows: list[int] = []
    plays = len(uncertainty_sampling(DOMAIN.X, Matern(0.35, nu=2.5), NOISE, P))
    while len(rows) < plays:
        batch = b.ask()
        assert len(batch) == P
        for row in DOMAIN.index(batch).tolist():
            X = DOMAIN.X[rows]
            so_far = Dense(Matern(0.35, nu=2.5), X, np.zeros((len(X), 1)), np.full(len(X), NOISE))
            variance = so_far.variance(DOMAIN.X)
            assert variance[row] >= variance.max() - 1e-9
            rows.append(row)
        # Rewards have a maximum, which uncertainty sampling ignores.
        b.tell(batch, 5 * batch[:, 0] + math.sqrt(NOISE) * rng.standard_normal(len(batch)))
    for _ in range(6):
        batch = b.ask()
        assert exceeds_bound(GlobalRatio(2.0), b, batch)
        assert not exceeds_bound(GlobalRatio(2.0), b, batch[:-1])
        b.tell(batch, 5 * batch[:, 0] + math.sqrt(NOISE) * rng.standard_normal(len(batch)))


def test_uncertainty_sampling_continues_from_a_state() -> None:
    first = bandit(GlobalRatio(2.0), Nystrom(2.0), smallest=12)
    for _ in range(12):
        before = first.state
        batch = first.ask()
        loaded = Bandit.from_state(first.recipe, before)
        np.testing.assert_array_equal(loaded.ask(), batch)
        first.tell(batch, batch[:, 0])


@pytest.mark.parametrize("posterior", [Exact(), Nystrom(2.0)])
def test_ask_ends_a_batch_at_the_bound_in_a_learned_unit(posterior: Exact | Nystrom) -> None:
    """The mean is in the unit of the reward, noise and variances in that of the kernel."""
    unit = {"noise_variance": 20.0, "beta": Fixed(1.5), "mean": "online"}
    b, rng = bandit(GlobalRatio(2.0), posterior, **unit), np.random.default_rng(5)
    X = DOMAIN.sample(80, rng)
    b.tell(X, 300 + 9 * np.sin(5 * X[:, 0]) + math.sqrt(20) * rng.standard_normal(80))
    batch, scale = b.ask(), b.info.model.scale
    assert scale > 3
    assert len(batch) > 2
    mean, noise = b.predict(DOMAIN.X)[0], 20 / scale**2
    start = dense_with(b, batch[:0], noise).variance(DOMAIN.X)
    total = 1.0
    for n, row in enumerate(DOMAIN.index(batch)):
        now = dense_with(b, batch[:n], noise).variance(DOMAIN.X)
        ucb = mean + 2.0 * 1.5 * scale * np.sqrt(now)
        assert ucb[row] >= ucb.max() * (1 - 1e-9)
        total += start[row] / noise
        assert (total > 2.0) == (n == len(batch) - 1)


def test_bbkb_information_counts_each_reward_once_at_the_start_of_its_batch() -> None:
    b = bandit(GlobalRatio(2.0), Nystrom(2.0), kernel=RBF(0.3), beta=BBKBWidth())
    information = 0.0
    for _ in range(8):
        batch = b.ask()
        variance = dense_with(b, batch[:0]).variance(batch)
        information += float(np.log1p(3 * variance / NOISE).sum())
        b.tell(batch, batch[:, 0])
        assert b.state.model.bbkb_information == pytest.approx(information, rel=1e-6)


# --- noise that is larger than the variance of the posterior -----------------------------------------


@pytest.mark.parametrize("policy", [policies.bbkb, policies.gp_bucb])
def test_batch_policies_bound_batches_under_large_noise(policy: Any) -> None:
    with_learned_mean = policy(DOMAIN, kernel=RBF(0.3), noise_variance=1e6)
    assert len(with_learned_mean.ask(1)) == 1
    with_learned_mean.tell(with_learned_mean.ask(1), [0.5])
    assert len(with_learned_mean.ask(2)) <= 3
    options = Options(mean=0.0, largest_batch=20)  # the unit is given: 1
    with_fixed_mean = policy(DOMAIN, kernel=RBF(0.3), noise_variance=1e6, options=options)
    with pytest.warns(BatchLimitWarning, match=r"ended at its limit of 20 points, and \w+Ratio\("):
        assert len(with_fixed_mean.ask(1)) == 20
    assert len(with_fixed_mean.ask(2, n=30)) == 30
    assert policy(DOMAIN, kernel=RBF(0.3), noise_variance=1e6).recipe.batching.largest == 1_000


# --- thompson sampling, against plain dense formulas and plain draws

LINE = Candidates(np.linspace(0.0, 6.0, 13)[:, None])
KERNEL = RBF(1.0)
NOISE_THOMPSON = 0.04
PRIOR: dict[str, Any] = {"kernel": KERNEL, "noise_variance": NOISE_THOMPSON}
X = LINE.X[[0, 1, 3, 3, 7]]
Y = np.array([0.5, 0.7, -0.4, -0.1, 1.1])

each_posterior = pytest.mark.parametrize("posterior", [Exact(), Nystrom()], ids=["exact", "sparse"])


def thompson_player(posterior: Any, count: int = 5, **options: Any) -> Bandit:
    options = {"mean": 0.3, "seed": 1, "beta": 1.0, **options}
    bandit: Bandit = build(thompson, LINE, **PRIOR, **options, posterior=posterior)
    if count:
        bandit.tell(X[:count], Y[:count], t=1.0)
    return bandit


def samples(player: Bandit, count: int) -> Array:
    """Return samples of the reward at all candidates, as an ask draws them."""
    player.ask(2.0)
    decision = player._inference.make_decision(
        *player._inference.condition(player.state, 2.0, restore_generator(player.state.random)),
        player.info.beta,
    )
    return draw_samples(decision, count, np.random.default_rng(5))


def dense(dictionary: Array | None) -> tuple[Array, Array]:
    """Return mean (A,) and covariance (A, A) of the posterior at all candidates.

    Samples of a sparse posterior leave out the covariance of residuals between points.
    """
    data = (X, (Y - 0.3)[:, None], np.full(5, NOISE_THOMPSON))
    oracle = Dense(KERNEL, *data) if dictionary is None else Sparse(KERNEL, dictionary, *data)
    mean, covariance = 0.3 + oracle.mean(LINE.X)[:, 0], oracle.covariance(LINE.X, LINE.X)
    if isinstance(oracle, Sparse):
        z = oracle.z(LINE.X)
        residual = KERNEL(LINE.X) - z @ z.T
        covariance -= residual - np.diag(np.diagonal(residual))
    return mean, covariance


def test_thompson_samples_are_in_the_unit_of_the_reward() -> None:
    player = thompson(
        LINE,
        kernel=KERNEL,
        noise_variance=NOISE_THOMPSON,
        beta=1.0,
        seed=1,
        options=Options(posterior=Exact()),
    )
    player.tell(X, 50.0 + 4.0 * Y, t=1.0)
    draws = samples(player, 20_000)
    mean, deviation = player.predict(LINE.X, 2.0)
    assert player.info.model.scale != 1.0
    assert (abs(draws.mean(axis=0) - mean) < 4.5 * deviation / math.sqrt(20_000)).all()
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.03)


@each_posterior
def test_thompson_batch_has_the_best_point_of_each_sample(posterior: Exact | Nystrom) -> None:
    counts = np.bincount(
        LINE.index(thompson_player(posterior, batch_size=4000).ask()), minlength=13
    )
    player = thompson_player(posterior)
    player.ask()
    state = player.state.posterior
    mean, covariance = dense(
        state.dictionary.rows.Z if isinstance(state, SparsePosterior) else None
    )
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    draws = mean + np.random.default_rng(9).standard_normal((40_000, 13)) @ root.T
    expected = np.bincount(draws.argmax(axis=1), minlength=13)
    likely = expected > 100
    assert likely.sum() > 3
    assert chi2_contingency(np.array([counts[likely], expected[likely]])).pvalue > 1e-3
    # Twice the width has another distribution.
    wide = np.bincount(
        LINE.index(thompson_player(posterior, batch_size=4000, beta=2.0).ask()), minlength=13
    )
    assert chi2_contingency(np.array([wide[likely], expected[likely]])).pvalue < 1e-6


def test_thompson_samples_are_of_the_time_of_the_decision() -> None:
    drifting = OnSpace(ConstantKernel(4.0) * RBF(1.0)) * Drift(0.4, "fixed")
    for posterior in (Exact(), Nystrom()):
        player = thompson(
            LINE,
            kernel=drifting,
            noise_variance=NOISE_THOMPSON,
            batch_size=400,
            seed=1,
            options=Options(posterior=posterior, mean=0.0),
        )
        player.tell(LINE.X, np.where(np.arange(13) == 4, 3.0, 0.0), t=1.0)
        assert (player.ask(1.0) == LINE.X[4]).mean() > 0.95
        later = player.ask(40.0)
        assert (later == LINE.X[4]).mean() < 0.3
        assert len(np.unique(later)) == 13


MANY = Candidates(np.arange(2001.0)[:, None])


@pytest.mark.parametrize(
    ("domain", "options", "match"),
    [
        (Box([[0.0, 1.0]]), {}, r"Candidates, .*Box\("),
        (MANY, {"posterior": Exact()}, "2000 candidates, .*2001: .*posterior=N"),
    ],
)
def test_thompson_refuses_a_box_and_too_many_candidates(
    domain: Any, options: dict[str, Any], match: str
) -> None:
    assert_refused(ValueError, match, build, thompson, domain, **PRIOR, **options)


@pytest.mark.parametrize(
    "make", [partial(build, gp_ucb), partial(build, thompson, posterior=Exact())], ids=["ucb", "ts"]
)
def test_ask_of_more_plays_than_points_follows_the_probability_of_being_best(make: Any) -> None:
    """The oracle draws from the dense posterior at the available points."""
    bandit = make(LINE, **PRIOR, mean=0.3, seed=3)
    bandit.tell(X, Y, t=1.0)
    available = np.arange(13) != 6
    shares = LINE.index(bandit.ask(2.0, n=4000, available=available))
    mean, covariance = dense(None)
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(
        mean[available], covariance[available][:, available], 4000, method="eigh"
    )
    expected = np.bincount(np.flatnonzero(available)[draws.argmax(axis=1)], minlength=13)
    counts = np.bincount(shares, minlength=13)
    assert counts[6] == 0
    often = counts + expected >= 10
    assert chi2_contingency(np.array([counts, expected])[:, often]).pvalue > 1e-3
    assert len(bandit.pending) == 4000


@pytest.mark.parametrize(
    "rewards",
    [
        [True, False, math.nan],
        (1, np.False_, math.nan),
        pd.Series([True, False, None], dtype="boolean"),
    ],
)
def test_tell_reads_booleans_as_one_and_zero(rewards: Any) -> None:
    bandit = gp_ucb(LINE, kernel=KERNEL, noise_variance=NOISE_THOMPSON)
    bandit.tell(LINE.X[:3], rewards, 1.0)
    bandit.tell(LINE.X[3], True, 1.0)
    bandit.tell(LINE.X[4:5], [0.5], 1.0)
    bandit.correct(LINE.X[4:5], np.array([True]))
    assert bandit.state.rewards.y.tolist() == [1.0, 0.0, 1.0, 1.0]
