"""The log evidence of kernels against dense algebra; noise estimates, calibration, standardisation."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import logsumexp
from scipy.stats import chi2, multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Kernel, Matern

from tvbandits.data import Dataset
from tvbandits.domains.space_kernel import PerParameter
from tvbandits.gp import noise, standardisation
from tvbandits.gp.additive import structured_kernel
from tvbandits.gp.calibration import CONFIG as CALIBRATION, IntervalCalibration
from tvbandits.gp.cholesky import condition_by_cholesky
from tvbandits.gp.evidence import CONFIG as EVIDENCE, Evidence
from tvbandits.gp.kernel_matrix import inputs
from tvbandits.gp.kernels.matern import Coordinates
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.noise import infer_noise, is_noise_due, select_readings
from tvbandits.gp.posterior import Data
from tvbandits.gp.standardisation import (
    Scaling,
    declustering_weights,
    learn_scaling,
    robust_moments,
)
from tvbandits.validation import Array

Constant = ConstantKernel


def level(amplitude: float = 0.4) -> Any:
    return Constant(amplitude) * OnTime(Matern(6.0, nu=0.5))


def drifting() -> Any:
    return Constant(1.3) * OnSpace(RBF(1.2)) * OnTime(Matern(8.0, nu=1.5))


SHARED = OnSpace(RBF(0.9))

# Kernels that `Evidence` evaluates on distinct points and times.
SUMS: dict[str, Any] = {
    "a constant": Constant(0.7),
    "space": OnSpace(RBF(1.0)),
    "time": OnTime(Matern(3.0, nu=1.5)),
    "drift": Drift(0.1),
    "a term": drifting(),
    "a term with a drift": Constant(0.5) * OnSpace(Matern(1.0, nu=0.5)) * Drift(0.1),
    "a time kernel of another kind": OnSpace(RBF(1.0)) * OnTime(RBF(3.0)),
    "two space kernels in a term": OnSpace(RBF(1.0)) * OnSpace(Matern(2.0, nu=1.5)) * Drift(0.2),
    "a sum": Constant(2.0) + level() + drifting(),
    "a product of sums": (Constant(0.5) + OnSpace(RBF(1.0))) * (level() + drifting()),
    "an amplitude of a sum": Constant(0.6) * (level() + SHARED * Drift(0.3) + SHARED),
    "fixed numbers": Constant(1.3, "fixed") * OnSpace(RBF(1.2)) * OnTime(Matern(4.0, "fixed"))
    + Constant(0.3) * OnSpace(RBF(0.5, "fixed")) * Drift(0.1, "fixed"),
    "nothing but fixed numbers": Constant(1.3, "fixed") * OnSpace(RBF(1.2, "fixed")),
    "anisotropic": Constant(1.1) * OnSpace(RBF([0.7, 2.5])) * OnTime(Matern(8.0, nu=0.5)),
    "anisotropic, rough": OnSpace(Matern([0.7, 2.5], nu=1.5)) * OnTime(Matern(8.0, nu=2.5)),
    "anisotropic, fixed": OnSpace(RBF([0.7, 2.5], "fixed")) * OnTime(Matern(8.0, nu=2.5)),
    "coordinates": Constant(1.1) * OnSpace(Coordinates([0.7, 2.5], 0.6)) * OnTime(Matern(8.0)),
    "a circle": OnSpace(Coordinates([0.9], 0.6, widths=(2,))) * OnTime(Matern(8.0)),
    "a word and a number": OnSpace(PerParameter([0.6, 2.0], parts=(("mode", 1), ("flow", 1)))),
    "a word of two columns": OnSpace(PerParameter([1.1], parts=(("mode", 2),))) * Drift(0.2),
    "an inner sum": OnSpace(RBF(1.0) + 0.2 * Matern(0.5, nu=0.5)) * OnTime(Matern(5.0) * RBF(9.0)),
    "structured": structured_kernel(Matern(1.0, nu=0.5)),
}

# Kernels that it evaluates on all rows.
OTHERS: dict[str, Any] = {
    "over points": Constant(0.8) * RBF(1.0),
    "over points, anisotropic": RBF([0.7, 2.5]) + Matern(0.4, nu=1.5),
    "over rows": RBF(2.0) * Drift(0.1) + OnSpace(RBF(1.0)),
    "a power": OnSpace(RBF(1.0)) * Drift(0.1) ** 2.0,
}

KERNELS = {**SUMS, **OTHERS}


def sample(n: int, seed: int) -> Dataset:
    """Return readings at few points and times, so that both repeat, alone and together, unsorted."""
    rng = np.random.default_rng(seed)
    X, t = rng.uniform(0, 4, (6, 2))[rng.integers(0, 6, n)], rng.integers(0, 8, n) * 1.5
    X[-1], t[-1] = X[0], t[0]
    return Dataset(X, t, rng.standard_normal(n) * 1.4 + 0.3, rng.uniform(0.05, 1.0, n))


def evidence_of(
    kernel: Kernel, data: Dataset, spread: Array | float = math.inf, **other: Any
) -> Evidence:
    parts: dict[str, Any] = {"values": data.y, "variance": data.variance, "prior": kernel.theta}
    parts |= other
    return Evidence(kernel, data, parts["values"], parts["variance"], parts["prior"], spread)


def dense_loss(kernel: Kernel, theta: Array, data: Dataset) -> float:
    """Return -log N(y; 0, K + constant + diag(variance)), by dense algebra on all rows."""
    Z = inputs(kernel, data.X, data.t)
    A = kernel.clone_with_theta(theta)(Z) + EVIDENCE.mean_variance + np.diag(data.variance)
    quadratic = data.y @ np.linalg.inv(A) @ data.y
    return float(0.5 * (quadratic + np.linalg.slogdet(A)[1] + len(data) * np.log(2 * np.pi)))


def slopes(loss: Any, theta: Array, h: float = 1e-5) -> Array:
    """Return central differences of a function of theta."""
    steps = h * np.eye(len(theta))
    return np.array([(loss(theta + step) - loss(theta - step)) / (2 * h) for step in steps])


def perturbed_theta(kernel: Kernel, seed: int) -> Array:
    """Return hyperparameters near those of the kernel."""
    rng = np.random.default_rng(seed)
    return np.asarray(kernel.theta + 0.2 * rng.standard_normal(len(kernel.theta)))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n", [1, 2, 25])
def test_evidence_matches_value_and_gradient_of_dense_algebra(name: str, n: int) -> None:
    kernel, data = KERNELS[name], sample(n, 1)
    theta = perturbed_theta(kernel, 2)
    value, gradient = evidence_of(kernel, data)(theta)
    assert value == pytest.approx(dense_loss(kernel, theta, data), rel=1e-9, abs=1e-9)
    assert gradient.shape == theta.shape
    expected = slopes(lambda at: dense_loss(kernel, at, data), theta)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gap", [1e-300, 1e-17, 1e-9])
def test_evidence_is_exact_at_points_that_hardly_differ(gap: float) -> None:
    kernel = OnSpace(RBF(1.0)) + level()
    X = np.array([[-1.0], [0.3], [0.3 + gap], [gap], [0.0]])
    data = Dataset(X, np.arange(5.0), np.arange(5.0), np.full(5, 0.1))
    expected = dense_loss(kernel, kernel.theta, data)
    assert evidence_of(kernel, data)(kernel.theta)[0] == pytest.approx(expected, rel=1e-9)


# --- the prior ------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", [False, True], ids=["one spread", "a spread for each"])
@pytest.mark.parametrize("name", ["structured", "over points", "fixed numbers"])
def test_evidence_adds_a_log_normal_prior(name: str, each: bool) -> None:
    kernel, data = KERNELS[name], sample(12, 6)
    theta, medians = perturbed_theta(kernel, 7), perturbed_theta(kernel, 8)
    spread = np.linspace(0.3, 2.0, len(theta)) if each else 0.7
    free, slope = evidence_of(kernel, data)(theta)
    value, gradient = evidence_of(kernel, data, spread, prior=medians)(theta)
    off = (theta - medians) / spread
    assert value - free == pytest.approx(0.5 * (off**2).sum())
    np.testing.assert_allclose(gradient - slope, off / spread, rtol=1e-6, atol=1e-9)
    at_medians, steep = evidence_of(kernel, data, spread, prior=medians)(medians)
    free, slope = evidence_of(kernel, data)(medians)
    assert at_medians == free
    np.testing.assert_array_equal(steep, slope)


# --- the wall -------------------------------------------------------------------------------------


class Indefinite(RBF):  # type: ignore[misc]
    """A kernel that is no covariance above some length scale."""

    def __call__(self, X: Array, Y: Any = None, eval_gradient: bool = False) -> Any:
        K = super().__call__(X, Y, eval_gradient)
        if self.length_scale < 2.0:
            return K
        return (-9.0 * K[0], -9.0 * K[1]) if eval_gradient else -9.0 * K


@pytest.mark.parametrize("kernel", [OnSpace(Indefinite(1.0)), Indefinite(1.0)], ids=["sum", "not"])
@pytest.mark.parametrize("spread", [math.inf, 0.5])
def test_evidence_without_a_factor_is_a_flat_wall(kernel: Any, spread: float) -> None:
    evidence = evidence_of(kernel, sample(10, 9), spread)
    good, gradient = evidence(np.log([1.5]))
    assert np.isfinite(good)
    assert gradient[0] != 0.0
    wall, flat = evidence(np.log([3.0]))
    assert np.isfinite(wall)
    assert wall > good + 1e3
    np.testing.assert_array_equal(flat, [0.0])


def test_evidence_wall_is_above_all_finite_values() -> None:
    # Two rewards at nearly the same point differ by far more than their noise.
    data = Dataset([[0.0, 0.0], [1e-5, 0.0]], [0.0] * 2, [-1.0, 1.0], [1e-12] * 2)
    evidence = evidence_of(OnSpace(Indefinite(1.0)), data)
    high, low = (evidence(np.log([scale]))[0] for scale in (1.5, 1e-6))
    assert low < 1e3 < 2e10 < high
    assert evidence(np.log([3.0]))[0] > 1.5 * high


# --- noise


def readings_without_noise(X: Array, t: Array, y: Array) -> Dataset:
    return Dataset.from_columns(X, t, y, np.full(len(y), np.nan))


def drifting_with_noise(n: int, seed: int, variance: float) -> Dataset:
    """Return noisy readings of a sample of the model, at random points."""
    rng = np.random.default_rng(seed)
    X, t = rng.uniform(0.0, 10.0, (n, 1)), np.arange(float(n))
    K = RBF(2.0)(X) * np.exp(-np.abs(t[:, None] - t) / 40.0)
    f = np.linalg.cholesky(K + 1e-10 * np.eye(n)) @ rng.standard_normal(n)
    return readings_without_noise(X, t, 7.0 + 3.0 * f + np.sqrt(variance) * rng.standard_normal(n))


def test_noise_from_repeats_follows_chi_square() -> None:
    n = 101
    y = np.random.default_rng(3).normal(20.0, 0.7, n)
    estimate = infer_noise(RBF(1.0), readings_without_noise(np.zeros((n, 2)), np.full(n, 4.0), y))
    squares = float(((y - y.mean()) ** 2).sum())
    expected = [squares / (n - 3), *(squares / chi2.ppf([0.975, 0.025], n - 1))]
    np.testing.assert_allclose(
        [estimate.variance, estimate.low, estimate.high], expected, rtol=0.03
    )
    assert estimate.readings == n


def test_noise_with_rough_rival_excludes_differences_between_neighbours() -> None:
    rng, smooth, rough = np.random.default_rng(5), RBF(2.0), Matern(2.0, nu=0.5)
    X, y, truth = rng.uniform(0.0, 10.0, (80, 1)), rng.standard_normal(80), 0.01
    data = readings_without_noise(
        X, np.arange(80.0), np.linalg.cholesky(rough(X) + truth * np.eye(80)) @ y
    )
    without_rival, with_rival, expected = (
        infer_noise(kernel, data, rival=rival).variance
        for kernel, rival in ((smooth, None), (smooth, rough), (rough, None))
    )
    assert without_rival > 5.0 * with_rival
    assert with_rival == pytest.approx(expected, rel=0.05)
    assert infer_noise(smooth, data, rival=smooth).variance == pytest.approx(without_rival)
    smooth_readings = drifting_with_noise(40, 2, 0.5)
    assert infer_noise(RBF(2.0), smooth_readings, rival=rough).variance == pytest.approx(
        infer_noise(RBF(2.0), smooth_readings).variance, rel=0.1
    )


@pytest.mark.parametrize(("mean", "count"), [(None, 0), (6.0, 0), (6.0, 5)])
def test_noise_posterior_matches_dense_densities(mean: float | None, count: int) -> None:
    """The readings are 12, or 8 and some of known noise from a biased instrument."""
    readings = drifting_with_noise(8 if count else 12, 1, 0.5)
    X, t, y = readings.X[:count], readings.t[:count] + 0.5, readings.y[:count] + 1.0
    data = Dataset(X, t, y, np.full(count, 0.3)).append(readings)
    values = data.y - (data.y.mean() if mean is None else mean)
    unit = float(np.mean(values**2)) if mean is None else 2.0
    sizes = unit * noise.CONFIG.size_grid if mean is None else np.array([2.0])
    grid = np.geomspace(1e-6 * unit, 30 * max(unit, float(np.mean(values**2))), 201)
    lags = np.abs(data.t[:, None] - data.t) / (0.5 if count else 1.0)
    has_noise, logs = np.arange(len(data)) < count, []
    means = np.outer(has_noise, has_noise) + (mean is None) * np.outer(~has_noise, ~has_noise)
    means = noise.CONFIG.mean_variance * means
    nuggets = noise.CONFIG.nuggets if count else (0.0,)
    for memory, new, size in product(noise.CONFIG.memories, nuggets, sizes):
        K = (1.0 - new) * RBF(2.0)(data.X) * np.exp(-lags / memory) + new * np.eye(len(data))
        laws = (
            multivariate_normal(cov=size * (K + means) + np.diag(noises), allow_singular=True)
            for noises in np.where(has_noise, 0.3, grid[:, None])
        )
        deviations = np.log(grid / size) - np.log(noise.CONFIG.prior_share)
        deviations = deviations / noise.CONFIG.prior_spread
        logs.append(np.array([law.logpdf(values) for law in laws]) - deviations**2 / 2)
    density = np.exp(logsumexp(logs, axis=0) - logsumexp(logs))
    estimate = infer_noise(2.0 * RBF(2.0), data, mean)
    assert estimate.variance == pytest.approx(density @ grid, rel=1e-5)
    assert estimate.low < estimate.variance < estimate.high


def test_noise_intervals_cover_the_truth_under_unknown_drift() -> None:
    estimates = [infer_noise(RBF(2.0), drifting_with_noise(100, seed, 0.5)) for seed in range(40)]
    assert np.mean([each.low <= 0.5 <= each.high for each in estimates]) >= 0.9
    assert np.exp(np.mean(np.log([each.variance for each in estimates]))) == pytest.approx(
        0.5, rel=0.4
    )


def test_noise_ignores_the_time_kernel() -> None:
    data = drifting_with_noise(20, 2, 0.1)
    plain = infer_noise(RBF(2.0), data)
    assert infer_noise(OnSpace(RBF(2.0)) * Drift(0.3), data) == plain


def test_noise_scales_with_the_square_of_the_unit() -> None:
    data = drifting_with_noise(30, 5, 0.2)
    small = infer_noise(RBF(2.0), data)
    large = infer_noise(RBF(2.0), readings_without_noise(data.X, data.t, 1e6 * data.y))
    assert large.variance == pytest.approx(1e12 * small.variance, rel=1e-6)


@pytest.mark.parametrize("y", [[0.0], [5.0], [5.0, 5.0, 5.0], [1e-200], [0.0, 1e40]])
def test_noise_of_few_or_equal_readings_is_positive(y: list[float]) -> None:
    n = len(y)
    estimate = infer_noise(
        RBF(2.0), readings_without_noise(np.zeros((n, 1)), np.arange(float(n)), np.array(y))
    )
    assert 0 < estimate.low < estimate.variance < estimate.high


@pytest.mark.parametrize("new", [0.0, 0.3])
def test_noise_is_separated_from_nugget_by_readings_with_known_noise(new: float) -> None:
    ratios = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        t, sites = np.repeat(np.arange(40.0), 3), np.tile(np.arange(3.0), 40)
        same_site = sites[:, None] == sites
        K = same_site * np.exp(-np.abs(t[:, None] - t) / 30.0) + new * np.eye(len(t))
        f = np.linalg.cholesky(K) @ rng.standard_normal(len(t))
        X, first = sites[:, None], sites == rng.integers(3, size=40)[t.astype(int)]
        rewards = readings_without_noise(
            X[first], t[first], (f + 0.4 * rng.standard_normal(len(t)))[first]
        )
        answers = f + 0.1 * rng.standard_normal(len(t)) + 9.0  # a biased instrument
        with_noise = Dataset(X, t, answers, np.full(len(t), 0.01))
        estimate = infer_noise(RBF(0.1), with_noise.append(rewards))
        assert estimate.readings == int(first.sum())
        ratios.append(estimate.variance / 0.16)
    assert np.exp(np.mean(np.log(ratios))) == pytest.approx(1.0, rel=0.25)


def test_noise_uses_repeats_and_latest_of_many_readings() -> None:
    t = np.concatenate([np.repeat(np.arange(40.0), 2), np.arange(40.0, 340.0)])
    data = readings_without_noise(np.zeros((len(t), 1)), t, np.arange(float(len(t))))
    half = noise.CONFIG.most_readings // 2
    rows_with_noise, rows = select_readings(data)
    assert not len(rows_with_noise)
    assert len(rows) == noise.CONFIG.most_readings
    assert set(rows) == {*range(80 - half, 80), *range(380 - half, 380)}
    answers = Dataset(np.zeros((300, 1)), np.arange(300.0), np.zeros(300), np.ones(300))
    rows_with_noise, rows = select_readings(answers.append(data))
    assert len(rows_with_noise) == len(rows) == half


def test_is_noise_due_at_every_doubling_up_to_256_readings() -> None:
    assert [n for n in range(1, 2000) if is_noise_due(n - 1, n)] == [
        1,
        2,
        4,
        8,
        16,
        32,
        64,
        128,
        256,
    ]
    assert is_noise_due(5, 9)
    assert is_noise_due(0, 100)
    assert not is_noise_due(9, 15)
    assert not is_noise_due(300, 600)


def test_noise_estimate_prints_interval() -> None:
    assert str(noise.NoiseEstimate(0.8, 0.5, 1.3, 64)) == "0.8 (0.5 to 1.3), from 64 readings"
    unread = "0.05 (0.001 to 2.5), a guess before the first reading"
    assert str(noise.NoiseEstimate(0.05, 0.001, 2.5)) == unread


# --- calibration

modest = settings(deadline=None, max_examples=25)
ERRORS = st.lists(st.tuples(st.floats(-20, 20), st.floats(0.01, 10)), max_size=30)


@modest
@given(ERRORS)
def test_calibration_is_discounted_mean_square_with_prior_count(
    errors: list[tuple[float, float]],
) -> None:
    calibration = IntervalCalibration()
    for error, variance in errors:
        calibration = calibration.update(error, variance)
    z = np.array([error / math.sqrt(variance) for error, variance in reversed(errors)])
    weights = (1 - CALIBRATION.forgetting_rate) ** np.arange(len(z))
    squares, n = np.minimum(z**2, CALIBRATION.largest_square), CALIBRATION.prior_count
    mean = (n + weights @ squares) / (n + weights.sum())
    assert calibration.deviation_factor == pytest.approx(math.sqrt(max(mean, 1.0)), rel=1e-12)


def test_calibration_survives_one_outlier() -> None:
    calibration = IntervalCalibration()
    for error in np.resize([1.0, -1.0], 60):
        calibration = calibration.update(error, 1.0)
    assert calibration.update(1e6, 1.0).deviation_factor < 1.35


def test_calibration_coverage_is_share_of_intervals() -> None:
    calibration, coverages = IntervalCalibration(), []
    assert math.isnan(calibration.coverage)
    for error in np.random.default_rng(0).standard_normal(3000):
        calibration = calibration.update(error, 1.0)
        coverages.append(calibration.coverage)
    # The factor is at least 1, so that coverage is slightly above 0.95.
    assert 0.94 < np.mean(coverages) < 0.99
    for _ in range(200):
        calibration = calibration.update(100.0, 1.0)
    assert calibration.coverage < 0.05


# --- standardisation

START = Scaling(0.0, 1.0)


def rewards(n: int, seed: int = 0, noise: float = 0.01) -> Dataset:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    y = 5.0 + 2.0 * np.sin(6 * X[:, 0]) + math.sqrt(noise) * rng.standard_normal(n)
    return Dataset(X, np.arange(float(n)), y, np.full(n, noise))


def scaling_of(data: Dataset, kernel: Kernel | None = None, noise: float = 0.01) -> Scaling:
    return learn_scaling(START, kernel or RBF(0.2), data, np.ones(len(data), dtype=bool), noise)


# Weights.


@modest
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_declustering_weights_count_copies_as_one(copies: list[int]) -> None:
    far = 100.0 * np.arange(len(copies))[:, None]
    weights = declustering_weights(RBF(1.0)(np.repeat(far, copies, axis=0)))
    ends = np.cumsum(copies)
    together = [part.sum() for part in np.split(weights, ends[:-1])]
    np.testing.assert_allclose(together, 1 / len(copies), rtol=1e-12)


# Moments.


def lower_median(values: list[float], weights: list[float]) -> float:
    """Return the smallest value with at least half of the weight at or below it."""
    return min(
        v
        for v in values
        if sum(w for u, w in zip(values, weights, strict=True) if u <= v) >= 0.5 * sum(weights)
    )


@modest
@given(st.integers(1, 40), st.integers(0, 1000))
def test_robust_moments_match_formulas(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, w = rng.standard_t(2, n), rng.random(n) + 0.5  # heavy tails: some values are clipped
    w /= w.sum()
    middle = lower_median(y.tolist(), w.tolist())
    reach = 3 * 1.4826 * lower_median(np.abs(y - middle).tolist(), w.tolist())
    low = min(middle - reach, np.quantile(y, 0.05, method="higher"))
    high = max(middle + reach, np.quantile(y, 0.95, method="lower"))
    clipped_values = [min(max(v, low), high) for v in y] if reach else y.tolist()
    mean = sum(a * b for a, b in zip(w, clipped_values, strict=True))
    variance = sum(a * (b - mean) ** 2 for a, b in zip(w, clipped_values, strict=True))
    np.testing.assert_allclose(robust_moments(y, w), (mean, variance), rtol=1e-9, atol=1e-12)


# When the scaling is estimated, and from which rewards.


def test_learn_estimates_again_once_readings_grow_by_half() -> None:
    data, current, at = rewards(200), START, []
    for n in range(1, 201):
        new = learn_scaling(current, RBF(0.2), data.take(slice(n)), np.ones(n, dtype=bool), 0.01)
        if new is not current:
            at.append(n)
            assert new.estimated_at == n
        current = new
    plain, last = [], 0
    for n in range(1, 201):
        if n >= 1.5 * last:
            plain.append(n)
            last = n
    assert at == plain == [1, 2, 3, 5, 8, 12, 18, 27, 41, 62, 93, 140]


def plain_scale(data: Dataset, C: Array) -> tuple[float, float]:
    """Return anchor and scale by loops: spread = scale^2 (1 - w C w) + sum_i w_i (1 - w_i) noise_i."""
    w = declustering_weights(C)
    mean, spread = robust_moments(data.y, w)
    noise = sum(a * (1 - a) * v for a, v in zip(w, data.variance, strict=True))
    shared = sum(w[i] * w[j] * C[i, j] for i in range(len(w)) for j in range(len(w)))
    return mean, math.sqrt((spread - noise) / (1 - shared))


@pytest.mark.parametrize("kernel", [RBF(0.2), 7.0 * OnSpace(RBF(0.2)) * Drift(0.5)], ids=str)
def test_learn_matches_plain_formulas(kernel: Kernel) -> None:
    """Under a space-time kernel, too, only distances in space count for the weights."""
    clean = rewards(60)
    data = Dataset(clean.X, clean.t, clean.y, np.linspace(0.01, 0.5, 60))
    scaling = scaling_of(data, kernel)
    assert (scaling.anchor, scaling.scale) == pytest.approx(plain_scale(data, RBF(0.2)(data.X)))


def test_learn_finds_no_shared_offset_in_opposite_values() -> None:
    """Under f(x) = a x the values at -1 and 1 differ by 2 a, though their correlation is -1."""
    X = np.array([[-1.0], [1.0]] * 20)
    data = Dataset(X, np.zeros(40), 3.0 * X[:, 0], np.full(40, 1e-6))
    assert scaling_of(data, DotProduct(1e-6), noise=1e-6).scale == pytest.approx(3.0, rel=1e-3)


def test_learn_bounds_the_scale_from_one_point() -> None:
    """Hardly any spread is expected at one point; the observed one is multiplied by ten at most."""
    X = np.full((20, 2), 0.5)
    data = Dataset(X, np.zeros(20), np.array([1.0, -1.0] * 10), np.full(20, 0.2))
    assert scaling_of(data).scale == pytest.approx(math.sqrt((1.0 - 0.2 * 0.95) / 0.1))


def test_learn_returns_at_least_the_noise_deviation_as_scale() -> None:
    data = rewards(30)
    scaling = scaling_of(Dataset(data.X, data.t, np.full(30, 2.0), np.full(30, 0.25)), noise=0.25)
    assert (scaling.anchor, scaling.scale) == (pytest.approx(2.0), 0.5)
    assert scaling_of(rewards(1)).scale == pytest.approx(0.1)


# The centre.


def centre_of(scaling: Scaling, data: Dataset, origin: float) -> float:
    values = np.column_stack([data.y - origin, np.ones(len(data))])
    posterior = condition_by_cholesky(
        RBF(0.2), Data(data.X, values, data.variance / scaling.scale**2)
    )
    return scaling.mean(posterior.summary.products, origin)


@pytest.mark.parametrize("origin", [0.0, 5.0, -40.0])
def test_scaling_mean_is_kriging_with_the_anchor_as_observation(origin: float) -> None:
    """The anchor joins as an independent value of variance 1 / anchor_weight, in dense algebra."""
    data, scaling = rewards(40), Scaling(3.0, 2.0, 40)
    A = np.zeros((41, 41))
    A[:40, :40] = RBF(0.2)(data.X) + np.diag(data.variance / scaling.scale**2)
    A[40, 40] = 1 / standardisation.CONFIG.anchor_weight
    ones, y = np.ones(41), np.append(data.y, scaling.anchor)
    expected = (ones @ np.linalg.solve(A, y)) / (ones @ np.linalg.solve(A, ones))
    assert centre_of(scaling, data, origin) == pytest.approx(expected, rel=1e-9)


def test_scaling_mean_without_observations_is_the_anchor() -> None:
    assert Scaling(3.0, 2.0, 5).mean(np.zeros((2, 2)), 1.0) == pytest.approx(3.0)


def test_scaling_mean_is_the_fixed_mean() -> None:
    assert centre_of(Scaling(3.0, 2.0), rewards(40), 5.0) == 3.0


def test_in_prior_units_bounds_noise() -> None:
    variances = standardisation.Scaling(0.0, 1e-40).in_prior_units(np.array([1.0, 1e250, np.inf]))
    assert variances.tolist() == [1.0 / 1e-40**2, standardisation.CONFIG.largest_noise, np.inf]
