"""k-DPPs against the enumeration of all subsets and of all transitions."""

import functools
import math
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from tests.helpers.refusals import assert_refused
from tests.oracles import plain, subsets as enumerated
from tests.oracles.subsets import Sampler, p_value_of
from tvbandits import Candidates, Options, policies
from tvbandits.experts import CallableExpert
from tvbandits.queries import KDPP, LogSchedule, OnAverage, Pool, k_dpp
from tvbandits.queries.k_dpp import SwapChain
from tvbandits.validation import Array


@pytest.fixture(autouse=True, scope="module")
def limit_to_one_thread() -> Iterator[None]:
    """Limit BLAS to one thread, as the matrices are small."""
    with threadpool_limits(limits=1):
        yield


JITTER = 1e-8


def rbf(X: Array, length: float) -> Array:
    X = X.reshape(len(X), -1)
    return np.asarray(np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1) / (2 * length**2)))


def add_jitter(K: Array, jitter: float = JITTER) -> Array:
    return K + jitter * np.mean(np.diagonal(K)) * np.eye(len(K))


def line(n: int, seed: int, length: float = 3.5) -> Array:
    return rbf(np.random.default_rng(seed).uniform(-50, 50, n), length)


KERNEL = rbf(np.array([0.0, 0.3, 0.5, 1.1, 1.3, 2.0, 2.9, 3.0]), 0.8) * 2.5
SUBSETS: list[tuple[int, ...]] = enumerated.subsets(8, 3)


def law(K: Array, k: int) -> Array:
    """Return the probability of each subset of size k, in the order of `subsets`."""
    return enumerated.law(add_jitter(K), k)


def mcmc(K: Array, k: int, steps: int, **options: Any) -> Sampler:
    return lambda rng: tuple(
        k_dpp.sample_mcmc(K, k, steps=steps, rng=rng, **options).indices.tolist()
    )


def exact(K: Array, k: int) -> Sampler:
    return lambda rng: tuple(k_dpp.sample_exact(K, k, rng=rng).tolist())


def transition_matrix(K: Array, k: int) -> tuple[Array, list[tuple[int, ...]]]:
    """Return the matrix of the lazy swap chain, and the subsets of its rows and columns."""
    return enumerated.transition_matrix(add_jitter(K), k), enumerated.subsets(len(K), k)


# ------------------------------------------------------------------------------------- the laws


MIXED = 85  # steps, after which the distance to the limit is far too small for 2500 draws


@pytest.mark.parametrize(
    "sampler",
    [
        pytest.param(mcmc(KERNEL, 3, MIXED), marks=pytest.mark.slow, id="mcmc"),
        pytest.param(exact(KERNEL, 3), id="exact"),
    ],
)
def test_samplers_have_the_law_of_the_k_dpp(sampler: Sampler) -> None:
    assert p_value_of(sampler, law(KERNEL, 3), SUBSETS, 2500) > 0.01


@pytest.mark.parametrize("steps", [1, 3, 7])
@pytest.mark.parametrize("start", [(0, 1), (1, 4)])
def test_sample_mcmc_after_few_steps_has_the_law_of_the_transition_matrix(
    steps: int, start: tuple[int, ...]
) -> None:
    K = KERNEL[:6, :6]
    P, subsets = transition_matrix(K, 2)
    after = np.linalg.matrix_power(P, steps)[subsets.index(start)]
    reachable = [Z for Z, p in zip(subsets, after, strict=True) if p > 0]
    assert p_value_of(mcmc(K, 2, steps, start=start), after[after > 0], reachable, 2000) > 0.005


# ------------------------------------------------------------------------------------- numerics


def long_cholesky(A: Array) -> Array:
    """Return the logs of the squared pivots, in extended precision."""
    A = A.astype(np.longdouble)
    pivots = np.empty(len(A), dtype=np.longdouble)
    for i in range(len(A)):
        pivots[i] = A[i, i]
        A[i + 1 :, i + 1 :] -= np.outer(A[i + 1 :, i], A[i, i + 1 :]) / A[i, i]
    return np.log(pivots)


@pytest.mark.parametrize(("k", "tolerance"), [(12, 1e-8), (37, 1e-6), (60, 1e-3), (90, 1e-2)])
def test_swap_chain_ratios_match_determinants_after_a_long_run(k: int, tolerance: float) -> None:
    K, rng = line(300, seed=5), np.random.default_rng(6)
    L = add_jitter(K)
    chain = SwapChain(L, k_dpp.greedy(K, k), JITTER)
    chain.run(4000, rng)
    assert sorted([*chain.members, *chain.others]) == list(range(300))
    removed, added = rng.integers(k, size=40), rng.integers(300 - k, size=40)
    ratios = chain.ratios(removed, added)
    assert (ratios >= 0).all()
    now = long_cholesky(L[np.ix_(chain.members, chain.members)]).sum()
    for ratio, p, q in zip(ratios, removed, added, strict=True):
        Z = chain.members.copy()
        Z[p] = chain.others[q]
        expected = np.exp(long_cholesky(L[np.ix_(Z, Z)]).sum() - now)
        assert ratio == pytest.approx(float(expected), rel=tolerance)


def table_error(chain: SwapChain) -> float:
    """Return the error of A A^T as the inverse of L_Z."""
    L_Z = chain.L[np.ix_(chain.members, chain.members)]
    return float(np.abs(chain.table @ chain.table.T @ L_Z - np.eye(len(L_Z))).max())


def test_swap_chain_refreshes_its_table_at_the_largest_age() -> None:
    """Both computations of each ratio may agree for any length of the chain."""
    ages: list[int] = []

    class Watched(SwapChain):
        def refresh(self) -> None:
            ages.append(self.accepted)
            super().refresh()

    chain = Watched(np.diag(np.linspace(1.0, 2.0, 40)) + 0.1, np.arange(8), JITTER)
    chain.run(4 * k_dpp.CONFIG.refresh, np.random.default_rng(0))
    assert np.diff([*ages, chain.accepted]).max() <= k_dpp.CONFIG.refresh < chain.accepted
    assert table_error(chain) < 1e-12


def test_swap_chain_refreshes_its_table_if_ratios_differ() -> None:
    L = np.diag(np.linspace(1.0, 2.0, 40)) + 0.1
    chain = SwapChain(L, np.arange(8), JITTER)
    chain.table *= 1.01
    (ratio,) = chain.ratios(np.array([3]), np.array([5]))
    chain.swap(3, 5, ratio)
    assert table_error(chain) > 0.01
    chain.swap(2, 7, 1.001 * chain.ratios(np.array([2]), np.array([7]))[0])
    assert table_error(chain) < 1e-12


def test_sample_mcmc_handles_matrices_whose_determinant_overflows() -> None:
    rng = np.random.default_rng(10)
    for K in (np.eye(400) * 1e200, np.diag(np.logspace(0, -300, 400)), line(200, 1, length=1e4)):
        assert len(set(k_dpp.sample_mcmc(K, 150, steps=50, rng=rng).indices.tolist())) == 150


@pytest.mark.slow
def test_samplers_of_a_rank_deficient_kernel_have_the_law_with_jitter() -> None:
    F = np.random.default_rng(11).standard_normal((8, 2))
    K = F @ F.T
    probabilities = law(K, 3)
    assert p_value_of(exact(K, 3), probabilities, SUBSETS, 2000) > 0.01
    assert p_value_of(mcmc(K, 3, MIXED), probabilities, SUBSETS, 2000) > 0.01


@pytest.mark.parametrize("scale", [1e6, 1e-6, 2.0**40])
def test_greedy_and_sample_mcmc_ignore_the_scale_of_the_kernel(scale: float) -> None:
    K = line(60, seed=12, length=10.0 / 3)
    for k in (7, 20):
        assert k_dpp.greedy(K, k).tolist() == k_dpp.greedy(K * scale, k).tolist()
        draws = [
            k_dpp.sample_mcmc(A, k, steps=3000, rng=np.random.default_rng(13))
            for A in (K, scale * K)
        ]
        assert draws[0].indices.tolist() == draws[1].indices.tolist()


# ------------------------------------------------------------------------- greedy and edge cases


def test_greedy_maximizes_the_determinant_at_each_step() -> None:
    K = np.diag([1.0, 3.0, 2.0, 1.5, 1.2, 1.1, 1.05, 1.01]) + KERNEL
    Z = k_dpp.greedy(K, 5).tolist()
    for m in range(1, 6):
        options = {
            j: np.linalg.det(K[np.ix_([*Z[: m - 1], j], [*Z[: m - 1], j])]) for j in range(8)
        }
        assert max(options, key=options.__getitem__) == Z[m - 1]


@settings(max_examples=25, deadline=None)
@given(
    points=arrays(float, st.integers(1, 12), elements=st.integers(-4, 4).map(float)),
    length=st.sampled_from([1e-3, 1.0, 30.0, 1e5]),
    variance=st.sampled_from([1e-12, 1.0, 1e12]),
    data=st.data(),
)
def test_samplers_return_k_distinct_items(
    points: Array, length: float, variance: float, data: st.DataObject
) -> None:
    K, N = variance * rbf(points, length), len(points)
    k = data.draw(st.integers(0, N))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    sets = [
        k_dpp.greedy(K, k),
        k_dpp.sample_mcmc(K, k, steps=30, rng=rng).indices,
        k_dpp.sample_exact(K, k, rng=rng),
    ]
    for Z in sets:
        assert Z.dtype == np.int64
        assert sorted(set(Z.tolist())) == sorted(Z.tolist())
        assert len(Z) == k
        assert set(Z.tolist()) <= set(range(N))
    for sample in sets[1:]:
        assert sample.tolist() == sorted(sample.tolist())


def test_sample_mcmc_is_reproducible_and_leaves_inputs_and_globals_unchanged(
    capfd: pytest.CaptureFixture[str],
) -> None:
    K, start = KERNEL.copy(), np.array([4, 1, 0])
    state = np.random.mtrand._rand  # the generator behind numpy's global functions
    before = state.get_state(legacy=False)["state"]["key"].tolist()
    draw = functools.partial(k_dpp.sample_mcmc, K, 3, steps=500, start=start)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = (draw(rng=np.random.default_rng(17)) for _ in range(2))
    assert first.indices.tolist() == second.indices.tolist()
    rng = np.random.default_rng(17)
    assert len({tuple(draw(rng=rng).indices.tolist()) for _ in range(30)}) > 5
    assert not first.indices.flags.writeable
    assert state.get_state(legacy=False)["state"]["key"].tolist() == before
    assert (K == KERNEL).all()
    assert start.tolist() == [4, 1, 0]
    assert capfd.readouterr() == ("", "")


# ---------------------------------------------------------------------------------------- errors


def _with(row: int, column: int, value: float) -> Array:
    K = KERNEL.copy()
    K[row, column] = value
    return K


@pytest.mark.parametrize(
    ("K", "message"),
    [
        (_with(1, 2, math.nan), r"K must .*nan at \(1, 2\)"),
        (_with(4, 5, 9.0), r"K must .* at \(4, 5\)"),
        (_with(3, 3, -0.5), r"K must .*-0.5 at \(3, 3\)"),
    ],
)
def test_samplers_refuse_invalid_kernels(K: Any, message: str) -> None:
    rng = np.random.default_rng(0)
    calls: list[Callable[[], object]] = [
        lambda: k_dpp.greedy(K, 1),
        lambda: k_dpp.sample_mcmc(K, 1, steps=1, rng=rng),
        lambda: k_dpp.sample_exact(K, 1, rng=rng),
    ]
    for call in calls:
        assert_refused(ValueError, message, call)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 9}, "k must .*9"),
        ({"start": [0, 1]}, "start must .*2"),
        ({"start": [0, 1, 1]}, "start must .*1 twice"),
        ({"start": [0, 1, 8]}, "start must .*8"),
        ({"start": [0.0, 1.0, 2.0]}, "start must"),
    ],
)
def test_samplers_refuse_invalid_options(options: dict[str, Any], message: str) -> None:
    arguments = {"k": 3, "steps": 1, "rng": np.random.default_rng(0), **options}
    k = arguments.pop("k")
    assert_refused(ValueError, message, k_dpp.sample_mcmc, KERNEL, k, **arguments)
    if "k" in options:
        assert_refused(ValueError, message, k_dpp.greedy, KERNEL, k)
        assert_refused(
            ValueError, message, k_dpp.sample_exact, KERNEL, k, rng=np.random.default_rng(0)
        )


def test_sample_mcmc_refuses_indefinite_kernels() -> None:
    K = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="positive definite"):
        k_dpp.sample_mcmc(K, 2, steps=100, rng=rng, start=[0, 1])
    with pytest.raises(ValueError, match="K must "):
        k_dpp.sample_mcmc(K, 2, steps=100, rng=rng, start=[0, 2])


# --- query plans: their number of points, and their choice

KERNEL_K_DPP_PLAN = RBF(0.6)


def fail_if_called() -> Array:
    raise AssertionError("the covariance was not needed")


def pool(n: int, count: int, seed: int = 0) -> Pool:
    points = np.random.default_rng(seed).uniform(0, 5, (n, 1))
    return Pool(points, count, lambda: np.asarray(KERNEL_K_DPP_PLAN(points)))


# --- schedules ------------------------------------------------------------------------------------


def test_log_schedule_matches_the_paper() -> None:
    assert [LogSchedule()(t) for t in (0, 1, 2, 3, 10, 500)] == [0, 0, 5, 7, 14, 38]
    assert LogSchedule(0.5)(10**9) == math.ceil(0.5 * math.log(10**9))


# --- k-DPP ----------------------------------------------------------------------------------------


@given(n=st.integers(1, 25), k=st.integers(0, 30), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=25)
def test_kdpp_plan_selects_as_many_distinct_rows_as_its_budget(n: int, k: int, seed: int) -> None:
    rows = KDPP(lambda count, _: k + count).choose(pool(n, 2, seed), np.random.default_rng(seed))
    assert len(rows) == len(set(rows.tolist())) == min(k + 2, n)
    assert set(rows.tolist()) <= set(range(n))
    assert rows.dtype.kind == "i"


@pytest.mark.parametrize("k", [5, 6, 10**9])
def test_kdpp_plan_selects_all_points_of_a_small_pool(k: int) -> None:
    rng = np.random.default_rng(1)
    before = rng.bit_generator.state
    rows = KDPP(lambda *_: k).choose(Pool(np.zeros((5, 2)), 9, fail_if_called), rng)
    np.testing.assert_array_equal(rows, np.arange(5))
    assert rng.bit_generator.state == before


def test_kdpp_plan_without_steps_selects_the_greedy_set() -> None:
    plan, small_pool = KDPP(lambda *_: 4, steps=0.0), pool(12, 3)
    rows = plan.choose(small_pool, np.random.default_rng(0))
    assert set(rows) == set(k_dpp.greedy(small_pool.covariance(), 4))


def test_exact_kdpp_plan_has_the_law_of_the_k_dpp() -> None:
    plan = KDPP(3, sampler="exact")
    pool_of_eight = Pool(np.arange(8.0)[:, None], 20, lambda: KERNEL)
    assert (
        p_value_of(
            lambda rng: tuple(plan.choose(pool_of_eight, rng).tolist()),
            law(KERNEL, 3),
            SUBSETS,
            2500,
        )
        > 0.01
    )
    first, second = (plan.choose(pool_of_eight, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(("n", "k"), [(300, 40), (300, 150), (500, 38), (200, 199)])
def test_sample_exact_returns_k_items_far_beyond_the_numerical_rank(n: int, k: int) -> None:
    sample = k_dpp.sample_exact(line(n, seed=3), k, rng=np.random.default_rng(1))
    assert len(set(sample.tolist())) == k


def test_sample_exact_beyond_floating_point_names_the_numbers() -> None:
    K = np.diag(np.logspace(0, -7, 1200))
    assert_refused(
        ValueError, "600 of 1200", k_dpp.sample_exact, K, 600, rng=np.random.default_rng(0)
    )


def test_exact_kdpp_plan_refuses_steps() -> None:
    assert_refused(ValueError, "steps .* 2.0", KDPP, 3, steps=2.0, sampler="exact")
    assert_refused(ValueError, "sampler .*'gibbs'", KDPP, 3, sampler="gibbs")


def test_sparq_gp_ucb_with_exact_draws_is_reproducible() -> None:
    domain = Candidates(np.linspace(0, 10, 30)[:, None])

    def truth(X: Array, t: float) -> Array:
        return np.sin(X[:, 0] + 0.1 * t)

    def points_of_run(seed: int) -> list[float]:
        bandit = policies.sparq_gp_ucb(
            domain,
            kernel=RBF(1.0),
            noise_variance=0.01,
            expert=CallableExpert(truth, 0.01),
            queries_per_step=KDPP(LogSchedule(2.0), sampler="exact"),
            seed=seed,
        )
        points = []
        for t in range(1, 41):
            X = bandit.ask(t)
            bandit.tell(X, truth(X, t), t)
            points += [float(X[0, 0]), *bandit.history["x0"].tail(2)]
        return points

    assert points_of_run(1) == points_of_run(1) != points_of_run(2)


@pytest.mark.slow
def test_sample_exact_alone_imports_dppy() -> None:
    code = (
        "import sys, numpy as np, tvbandits; from tvbandits import policies, queries; "
        "assert 'dppy' not in sys.modules; from tvbandits.queries import k_dpp; "
        "k_dpp.sample_exact(np.eye(4), 2, rng=np.random.default_rng(0)); assert 'dppy' in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", code], check=True
    )


def test_kdpp_plan_has_the_given_length_of_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    sample = k_dpp.sample_mcmc

    def record_steps(K: Any, k: int, **options: Any) -> k_dpp.Sample:
        lengths.append(options["steps"])
        return sample(K, k, **options)

    monkeypatch.setattr(k_dpp, "sample_mcmc", record_steps)
    KDPP(lambda *_: 4, steps=2.3).choose(pool(12, 3), np.random.default_rng(0))
    assert lengths == [10]


@pytest.mark.parametrize(("n", "k", "t"), [(5, 2, 1), (8, 3, 40), (9, 1, 500)])
def test_kdpp_plan_with_theory_steps_matches_equation_56(
    monkeypatch: pytest.MonkeyPatch, n: int, k: int, t: int
) -> None:
    lengths: list[int] = []

    def record_steps(_: Any, k: int, **options: Any) -> k_dpp.Sample:
        lengths.append(options["steps"])
        return k_dpp.Sample(np.arange(k), 0)

    monkeypatch.setattr(k_dpp, "sample_mcmc", record_steps)
    K = 2.5 * line(n, seed=n, length=20.0)
    pool_of_theory = Pool(np.zeros((n, 1)), t, lambda: K, noise_variance=0.03)
    KDPP(k, steps="theory").choose(pool_of_theory, np.random.default_rng(0))
    expected = plain.chain_steps(K, k, t, 0.03, eta=0.2)
    assert expected > 10
    assert lengths == [expected]


@pytest.mark.parametrize("epsilon", [0.3, 0.01, 1e-5])
def test_mixing_steps_bring_the_chain_near_its_limit(epsilon: float) -> None:
    K = KERNEL[:6, :6]
    P, subsets = transition_matrix(K, 3)
    start = subsets.index(tuple(sorted(k_dpp.greedy(K, 3).tolist())))
    after = np.linalg.matrix_power(P, k_dpp.mixing_steps(K, 3, epsilon))[start]
    assert 0.5 * np.abs(after - law(K, 3)).sum() <= epsilon


def test_mixing_steps_of_equal_sets_match_a_value_by_hand() -> None:
    # Each of 10 sets has probability 1 / 10: 2 * 2 * 3 * log(10 / 0.01) = 82.9.
    assert k_dpp.mixing_steps(np.eye(5), 2, 0.01) == 83
    assert k_dpp.mixing_steps(np.eye(5), 5, 0.01) == k_dpp.mixing_steps(np.eye(5), 0, 0.01) == 0
    assert_refused(ValueError, "accuracy .*0", k_dpp.mixing_steps, np.eye(5), 2, 0.0)


def test_mixing_steps_far_beyond_the_numerical_rank_grow_with_accuracy() -> None:
    K = line(200, seed=3)
    few, many = (k_dpp.mixing_steps(K, 38, epsilon) for epsilon in (1e-2, 1e-8))
    assert 0 < few < many < 10**7
    # The probability of the start cancels: 2 * 38 * 162 * log(1e6).
    assert many - few == pytest.approx(2 * 38 * 162 * math.log(1e6), abs=1)


def test_kdpp_plan_with_theory_steps_needs_a_noise_variance() -> None:
    pool_without_noise = Pool(np.arange(5.0)[:, None], 9, lambda: np.eye(5))
    assert_refused(
        ValueError,
        "noise variance",
        KDPP(2, steps="theory").choose,
        pool_without_noise,
        np.random.default_rng(0),
    )
    assert_refused(ValueError, "steps .*'paper'", KDPP, 2, steps="paper")
    assert_refused(ValueError, "steps .*'theory'", KDPP, 2, steps="theory", sampler="exact")


@pytest.mark.parametrize("mean", ["online", 0.0])
def test_sparq_gp_ucb_passes_the_noise_in_the_unit_of_the_kernel_to_its_plan(mean: Any) -> None:
    pools: list[Pool] = []

    class RecordingKDPP(KDPP):
        def choose(self, pool: Pool, rng: np.random.Generator) -> Any:
            pools.append(pool)
            return super().choose(pool, rng)

    bandit = policies.sparq_gp_ucb(
        Candidates(np.linspace(0, 10, 12)[:, None]),
        kernel=RBF(1.0),
        noise_variance=0.04,
        expert=CallableExpert(lambda X, _: 30 * np.sin(X[:, 0]), 0.04),
        queries_per_step=RecordingKDPP(LogSchedule(1.0), steps="theory"),
        options=Options(mean=mean),
    )
    for t in range(1, 8):
        X = bandit.ask(t)
        bandit.tell(X, 30 * np.sin(X[:, 0]), t)
    scale = bandit.info.model.scale
    assert pools[-1].noise_variance == pytest.approx(0.04 / scale**2)
    assert (scale == 1.0) == (mean == 0.0)


def test_kdpp_plan_reads_a_number_as_points_per_step() -> None:
    X = np.random.default_rng(0).random((12, 2))
    for count in (1, 400):
        pool = Pool(X, count, lambda: RBF(0.3)(X))
        assert len(KDPP(5).choose(pool, np.random.default_rng(0))) == 5
    message = "budget must be a whole number of at least 0, got"
    assert_refused(ValueError, message, KDPP, -1)


def test_kdpp_plan_with_an_average_budget_spends_the_unused_part() -> None:
    rng = np.random.default_rng(0)
    for count, asked, size in ((4, 0, 8), (4, 7, 1), (4, 8, 0)):
        pool_with_queries = pool(20, count)
        pool_with_queries = Pool(
            pool_with_queries.points, count, pool_with_queries.covariance, None, asked
        )
        assert len(KDPP(OnAverage(2.0)).choose(pool_with_queries, rng)) == size
    with pytest.raises(ValueError, match=r"budget must be a whole number per step, or a budget"):
        KDPP(OnAverage)  # type: ignore[arg-type]
