"""Predictions in the unit of the reward, their slopes, and the effect of expert answers on them."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tests.oracles.dense import Dense
from tvbandits import Answers, Bandit, Box, Candidates, Exact, Nystrom, Recipe
from tvbandits.domains.space_kernel import PerParameter
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.forgetting.aging import Linear
from tvbandits.gp.additive import box_kernel
from tvbandits.gp.cholesky import ExactPosterior
from tvbandits.gp.kernels.matern import Coordinates
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.lookahead import JointPosterior
from tvbandits.gp.posterior import CandidateGrid, Conditioning, Data
from tvbandits.gp.predictions import (
    Bound,
    ScaledPosterior,
    SmoothPosterior,
    excess_error,
    independent_readings,
)
from tvbandits.queries import Pool, QueryPlan
from tvbandits.queries.plans import QueryConfig
from tvbandits.validation import Array, Index

KERNEL = Matern(0.4, nu=2.5)
RNG = np.random.default_rng(0)
POINTS, X = RNG.random((25, 2)), RNG.random((18, 2))
Y, NOISE = 1e3 + 7 * RNG.standard_normal(18), RNG.uniform(0.5, 3.0, 18)
ORIGIN, CENTRE, SCALE = float(Y[0]), 995.0, 6.0


def view(part: Any, grid: CandidateGrid | None) -> ScaledPosterior:
    values = np.stack([Y - ORIGIN, np.ones(18)], axis=1)
    posterior = part.condition(Conditioning(KERNEL, Data(X, values, NOISE / SCALE**2), grid))
    prior = part.prior(posterior)
    return ScaledPosterior(posterior, prior, grid, lambda points, _: points, CENTRE, SCALE, ORIGIN)


def expected(at: Array) -> tuple[Array, Array]:
    """Return dense predictions of the rewards, with a kernel in their squared unit."""
    posterior = Dense(SCALE**2 * KERNEL, X, (Y - CENTRE)[:, None], NOISE)
    return CENTRE + posterior.mean(at)[:, 0], np.sqrt(posterior.variance(at))


@pytest.mark.parametrize("part", [Exact(), Nystrom(1e6)], ids=["exact", "sparse"])
@pytest.mark.parametrize("finite", [True, False])
def test_scaled_posterior_has_the_unit_and_prior_mean_of_the_rewards(
    part: Any, finite: bool
) -> None:
    posterior = view(part, CandidateGrid(KERNEL, POINTS) if finite else None)
    # The points are the candidates, a copy of these, and others.
    for at in (POINTS, POINTS.copy(), POINTS[3:5] + 0.01):
        mean, deviation = posterior.predict(at)
        np.testing.assert_allclose(mean, expected(at)[0], rtol=1e-9)
        np.testing.assert_allclose(deviation, expected(at)[1], rtol=1e-7)
        np.testing.assert_allclose(posterior.mean(at), expected(at)[0], rtol=1e-9)
        bound = expected(at)[0] + 1.7 * expected(at)[1]
        np.testing.assert_allclose(posterior.upper_bound(at, 1.7), bound, rtol=1e-9)


def test_independent_readings_counts_correlated_readings_for_fewer() -> None:
    assert independent_readings(np.eye(7)) == pytest.approx(6.0)
    assert independent_readings(5.0 * np.eye(1)) == 0.0
    # Three places are read four times each; a level that all share has no effect on their variance.
    thrice = np.kron(np.eye(3), np.ones((4, 4)))
    assert independent_readings(thrice) == pytest.approx(2.0)
    assert independent_readings(thrice + 9.0) == pytest.approx(2.0)
    assert independent_readings(np.ones((6, 6))) == 0.0


def test_independent_readings_are_the_degrees_of_freedom_of_the_sample_variance() -> None:
    K = KERNEL(X)
    samples = np.random.default_rng(1).multivariate_normal(np.zeros(18), K, size=20_000)
    squares = samples.var(axis=1)
    # A chi-square law of n degrees of freedom has the variance 2 mean^2 / n.
    degrees = 2.0 * squares.mean() ** 2 / squares.var()
    assert independent_readings(K) == pytest.approx(degrees, rel=0.05)


def test_predict_reward_with_a_learned_prior_widens_by_a_t_quantile() -> None:
    posterior = view(Exact(), None)
    learned, far = replace(posterior, prior_is_learned=True), np.array([[90.0, 90.0]])
    factor = stats.t.ppf(0.975, independent_readings(KERNEL(X)) + 1.0) / stats.norm.ppf(0.975)
    mean, deviation = learned.predict_reward(far)
    np.testing.assert_array_equal(mean, posterior.predict_reward(far)[0])
    np.testing.assert_allclose(deviation, factor * SCALE, rtol=1e-9)
    ratios = learned.predict_reward(X)[1] / posterior.predict_reward(X)[1]
    np.testing.assert_allclose(
        ratios, 1.0 + (factor - 1.0) * (posterior.predict_reward(X)[1] ** 2 / SCALE**2)
    )
    np.testing.assert_array_equal(learned.predict(far), posterior.predict(far))


def test_predict_reward_widens_by_the_excess_of_leave_one_out_errors() -> None:
    learned, tests = replace(view(Exact(), None), prior_is_learned=True, dimension=2), []
    values, noise, kernel = (Y - Y.mean()) / SCALE, NOISE / SCALE**2, KERNEL + ConstantKernel(100.0)
    for i, others in enumerate(~np.eye(18, dtype=bool)):
        others_posterior = Dense(kernel, X[others], values[others, None], noise[others])
        error, remaining_variance = (
            values[i] - others_posterior.mean(X[[i]]).item(),
            others_posterior.variance(X[[i]]).item(),
        )
        tests.append((remaining_variance, min(error**2 / (remaining_variance + noise[i]), 25.0)))
    share, squares = np.array(tests).T
    excess = math.sqrt(share @ squares / (share.sum() + math.sqrt(share.sum() / 2.0)))
    assert excess > 1.05
    widened, deviation = (
        learned.predict_reward(POINTS, test=True)[1],
        learned.predict_reward(POINTS)[1],
    )
    np.testing.assert_allclose(widened, excess * deviation, rtol=1e-6)
    assert excess_error(KERNEL(X), noise, 0.1 * values) == 1.0


# --- slopes

BOX = Box(np.array([[-1.0, 1.0], [0.0, 10.0], [5.0, 6.0]]))


def posterior(kernel: Any, n: int = 30, noise: float = 0.05) -> ExactPosterior:
    rng = np.random.default_rng(1)
    Z = np.column_stack([BOX.sample(n, rng), np.arange(float(n))])
    Y = np.column_stack([rng.standard_normal(n), np.ones(n)])
    exact = Exact().condition(Conditioning(kernel, Data(Z, Y, np.full(n, noise)), now=float(n)))
    assert isinstance(exact, ExactPosterior)
    return exact


def at(X: np.ndarray, t: float) -> np.ndarray:
    return np.column_stack([X, np.full(len(X), t)])


def assert_matches(field: SmoothPosterior, means: Array, variance: Array, X: Array) -> None:
    """Check means and variances against the posterior's, and slopes against differences."""
    results = field.predict_with_slopes(X)
    for predictions in (field.predict(X), results[:2]):
        np.testing.assert_allclose(predictions[0], means, atol=1e-9)
        np.testing.assert_allclose(predictions[1], variance, atol=1e-9)
    for j in range(3):
        h = 1e-5 * np.eye(3)[j]
        (m1, v1), (m0, v0) = field.predict(X + h), field.predict(X - h)
        np.testing.assert_allclose(results[2][:, j], (m1 - m0) / 2e-5, atol=1e-6)
        np.testing.assert_allclose(results[3][:, j], (v1 - v0) / 2e-5, atol=1e-6)


@pytest.mark.parametrize("rule", [Exact(), Nystrom()], ids=["exact", "dictionary"])
@pytest.mark.parametrize(
    "kernel",
    [
        RBF([0.8, 3.0, 0.5]),
        ConstantKernel(2.0) * Matern(1.5, nu=1.5),
        Matern([0.8, 3.0, 0.5], nu=2.5),
        PerParameter([0.8, 3.0], parts=(("a", 1), ("b", 2)), nu=np.inf),
    ],
)
def test_smooth_posterior_of_a_kernel_over_points_has_its_values_and_slopes(
    kernel: Any, rule: Any
) -> None:
    rng = np.random.default_rng(1)
    Z, Y = BOX.sample(30, rng), np.column_stack([rng.standard_normal(30), np.ones(30)])
    posterior = rule.condition(Conditioning(kernel, Data(Z, Y, np.full(30, 0.05)), rng=rng))
    field, X = SmoothPosterior.of(posterior, 0.0), BOX.sample(40, rng)
    assert_matches(field, *posterior.predict(X), X)


def test_bound_takes_mean_and_variance_from_two_posteriors() -> None:
    kernel = box_kernel(BOX)
    few, more = (SmoothPosterior.of(posterior(kernel, n), 31.0) for n in (20, 30))
    X = BOX.sample(9, np.random.default_rng(3))
    bound = Bound(few, more, np.array([1.0, -0.5]), 3.0, 2.0)
    mean = few.predict(X)[0] @ np.array([1.0, -0.5]) + 3.0
    np.testing.assert_allclose(bound(X), mean + 2.0 * np.sqrt(more.predict(X)[1]), atol=1e-12)
    h = 1e-5 * np.eye(3)[1]
    np.testing.assert_allclose(
        bound.values_and_slopes(X)[1][:, 1], (bound(X + h) - bound(X - h)) / 2e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    "kernel",
    [
        OnSpace(Matern(1.0, nu=0.5)) * OnTime(Matern(9.0, nu=1.5)),
        OnSpace(Coordinates([1.0] * 3)) * OnSpace(Matern(2.0, nu=2.5)),
    ],
)
def test_smooth_posterior_of_other_kernels_is_none(kernel: Any) -> None:
    assert SmoothPosterior.of(posterior(kernel), 31.0) is None


def test_smooth_posterior_of_an_ill_conditioned_matrix_is_none() -> None:
    assert SmoothPosterior.of(posterior(box_kernel(BOX), noise=1e-14), 31.0) is not None
    kernel = ConstantKernel(1.0) * OnSpace(Coordinates([50.0, 500.0, 50.0])) * OnTime(Matern(1e4))
    assert SmoothPosterior.of(posterior(kernel, noise=1e-12), 31.0) is None


@pytest.mark.parametrize("now", [29.0, 37.5])
@pytest.mark.parametrize(
    "kernel",
    [
        OnSpace(Coordinates([1.0] * 3)) * OnTime(Matern(9.0, nu=1.5))
        + 0.5 * OnSpace(RBF(2.0)) * OnTime(Matern(30.0, nu=0.5)),
        OnSpace(Coordinates([1.0, 2.0], 0.7, widths=(1, 2))) * OnTime(Matern(9.0, nu=1.5))
        + 0.5 * OnSpace(RBF(2.0)) * OnTime(Matern(30.0, nu=0.5)),
        # The independent part is known at points with an observation at the same time.
        box_kernel(BOX),
        box_kernel(BOX) + ConstantKernel(0.4) * OnTime(Matern(9.0, nu=1.5)),
    ],
)
def test_smooth_posterior_of_a_sum_of_terms_has_its_values_and_slopes(
    kernel: Any, now: float
) -> None:
    exact, X = posterior(kernel), BOX.sample(40, np.random.default_rng(4))
    field = SmoothPosterior.of(exact, now)
    assert len(field.parts) == 2 or now > 29.0
    assert_matches(field, *exact.predict(at(X, now)), X)


# --- the effect of answers on the next decision

POINTS_OF_BANDIT = np.random.default_rng(3).uniform(0, 6, (30, 2))
NOISE_OF_BANDIT = 0.05

KERNELS: dict[str, Any] = {
    "space": 2.0 * RBF(1.5),
    "drift": OnSpace(RBF(1.5)) * Drift(0.1),
    "structured": OnSpace(RBF(2.0))
    + ConstantKernel(0.5) * OnTime(Matern(5.0, nu=0.5))
    + OnSpace(RBF(1.0)) * OnTime(Matern(4.0, nu=1.5)),
}


class RecordingPlan(QueryPlan):
    """A query plan that records its pools and selects no point."""

    def __init__(self) -> None:
        self.pools: list[Pool] = []
        self.posteriors: list[JointPosterior] = []

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:  # noqa: ARG002
        self.pools.append(pool)
        self.posteriors.append(pool.require_posterior())
        return np.empty(0, dtype=np.int64)


class Silent:
    def query(self, X: Array, t: float) -> Answers:  # noqa: ARG002
        return Answers.none(len(X))


def bandit_with_observations(
    kernel: Any, plan: Any, steps: int = 12, pool: Any = "played", **parts: Any
) -> tuple[Bandit, Array]:
    """Return a bandit with observations at the times 1, 2, ..., and the rows of their points."""
    recipe = Recipe(
        **{"domain": Candidates(POINTS_OF_BANDIT), "mean": 0.0, "beta": 1.5, **parts},
        kernel=kernel,
        noise_variance=NOISE_OF_BANDIT,
        query_config=QueryConfig(plan, Silent(), pool=pool),
    )
    bandit = Bandit(recipe, seed=0)
    rows = np.random.default_rng(1).integers(0, 30, steps)
    for t, row in enumerate(rows, 1):
        bandit.tell(
            POINTS_OF_BANDIT[[row]], [float(keyed_normal(0, 0, POINTS_OF_BANDIT[[row]], t)[0])], t
        )
    return bandit, rows


def inputs(kernel: Any, X: Array, t: Array | float) -> Array:
    return X if kernel is KERNELS["space"] else np.column_stack([X, np.broadcast_to(t, len(X))])


@pytest.mark.parametrize("sparse", [False, True], ids=["exact", "nystrom"])
@pytest.mark.parametrize("name", KERNELS)
def test_joint_posterior_after_a_query_is_conditioned_on_its_point(name: str, sparse: bool) -> None:
    if sparse and name == "structured":
        pytest.skip("the sparse posterior filters separable kernels only")
    kernel, plan = KERNELS[name], RecordingPlan()
    # With this oversampling every point joins the dictionary, so that the sparse posterior is exact.
    parts = {"posterior": Nystrom(oversampling=1e9)} if sparse else {}
    bandit, rows = bandit_with_observations(kernel, plan, pool="domain", **parts)
    joint = plan.posteriors[-1]
    observed_inputs = inputs(kernel, POINTS_OF_BANDIT[rows], np.arange(1.0, 13.0))
    later = inputs(kernel, POINTS_OF_BANDIT, 13.0)
    mean, deviation = bandit.predict(POINTS_OF_BANDIT, 13)
    np.testing.assert_allclose(joint.mean, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(joint.deviation, deviation, rtol=1e-9)
    query_rows: list[int] = []
    for row in (4, 17, 4, 29):
        joint = joint.condition_on(row)
        query_rows.append(row)
        Z = np.vstack([observed_inputs, inputs(kernel, POINTS_OF_BANDIT[query_rows], 12.0)])
        expected_deviation = Dense(
            kernel, Z, np.zeros((len(Z), 1)), np.full(len(Z), NOISE_OF_BANDIT)
        ).deviation(later)
        np.testing.assert_allclose(joint.deviation, expected_deviation, rtol=1e-5)
        np.testing.assert_array_equal(joint.mean, plan.posteriors[-1].mean)


def test_joint_posterior_has_the_bounds_of_the_bandit() -> None:
    plan = RecordingPlan()
    bandit, _ = bandit_with_observations(KERNELS["structured"], plan, pool="domain")
    joint = plan.posteriors[-1]
    assert joint.beta == 1.5
    np.testing.assert_allclose(joint.upper - joint.lower, 3.0 * joint.deviation)
    x = bandit.ask()
    np.testing.assert_array_equal(x[0], POINTS_OF_BANDIT[int(np.argmax(joint.upper))])


def test_joint_posterior_is_in_the_unit_of_reward() -> None:
    # With a learned scale and aging, too, the joint posterior is what the bandit predicts.
    plan = RecordingPlan()
    bandit, _ = bandit_with_observations(2.0 * RBF(1.5), plan, 60, mean="online", aging=Linear(0.1))
    joint = plan.posteriors[-1]
    mean, deviation = bandit.predict(plan.pools[-1].points, 61)
    np.testing.assert_allclose(joint.mean, mean)
    np.testing.assert_allclose(joint.deviation, deviation)
    assert bandit.info.model.scale != 1.0
    after = joint.condition_on(3)
    scale = bandit.info.model.scale
    covariance = joint.cross_covariance([3])[0]
    expected_variance = deviation**2 - covariance**2 / (covariance[3] + NOISE_OF_BANDIT)
    np.testing.assert_allclose(after.deviation**2, expected_variance, rtol=1e-8)
    assert covariance[3] == pytest.approx(deviation[3] ** 2)
    assert scale**2 * 2.0 > deviation[3] ** 2


def test_query_pool_has_played_points_or_the_domain() -> None:
    played_plan, domain_plan = RecordingPlan(), RecordingPlan()
    _, rows = bandit_with_observations(KERNELS["space"], played_plan)
    bandit_with_observations(KERNELS["space"], domain_plan, pool="domain")
    _, first = np.unique(rows, return_index=True)
    np.testing.assert_array_equal(
        played_plan.pools[-1].points, POINTS_OF_BANDIT[rows[np.sort(first)]]
    )
    np.testing.assert_array_equal(domain_plan.pools[-1].points, POINTS_OF_BANDIT)
    assert [pool.rewards for pool in domain_plan.pools] == list(range(1, 13))


def test_query_pool_of_a_box_has_played_points_and_new_samples() -> None:
    plan = RecordingPlan()
    box = Box(np.array([[0.0, 6.0], [0.0, 6.0]]))
    _, rows = bandit_with_observations(KERNELS["drift"], plan, domain=box, pool="domain")
    points = plan.pools[-1].points
    count = len(np.unique(rows))
    assert len(points) == count + 256
    box.check(points)
    assert not np.array_equal(points[count:], plan.pools[-2].points[-256:])


def test_gains_are_the_mean_increase_of_the_best_mean() -> None:
    # The oracle is simulation: draw the answer, update the means, take the largest.
    plan = RecordingPlan()
    bandit_with_observations(KERNELS["drift"], plan, pool="domain")
    joint = plan.posteriors[-1].condition_on(11)  # one query is pending
    rows, everywhere = [2, 5, 19], np.arange(30)
    gains = joint.knowledge_gradient(rows, everywhere)
    draws = np.random.default_rng(0).standard_normal(200_000)
    for row, gain in zip(rows, gains, strict=True):
        before, after = joint.deviation, joint.condition_on(row).deviation
        moves = np.sqrt(np.maximum(before**2 - after**2, 0.0))
        signs = np.sign(joint.answer_effects([row])[0][0])
        best = (joint.mean + draws[:2000, None] * (signs * moves)).max(axis=1)
        for chunk in range(2000, 200_000, 2000):
            z = draws[chunk : chunk + 2000, None]
            best = np.append(best, (joint.mean + z * (signs * moves)).max(axis=1))
        error = best.std() / len(best) ** 0.5
        assert gain == pytest.approx(best.mean() - joint.mean.max(), abs=4 * error + 3e-3)
        assert gain >= 0.0
    np.testing.assert_array_equal(joint.knowledge_gradient(rows, np.array([4])), np.zeros(3))
