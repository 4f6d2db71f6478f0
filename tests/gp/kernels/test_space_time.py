import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Kernel,
    Matern,
    RationalQuadratic,
    StationaryKernelMixin,
    WhiteKernel,
)

from tests.gp.test_evidence import slopes
from tests.helpers.refusals import assert_refused
from tvbandits import Box, Candidates, Dataset, Options, policies
from tvbandits.experts import CallableExpert
from tvbandits.gp import evidence, kernel_matrix
from tvbandits.gp.additive import anchors_of, ends_of, space_kernels, structured_kernel
from tvbandits.gp.features import terms_of
from tvbandits.gp.kernel_matrix import check_kernel, inputs
from tvbandits.gp.kernels import space_time
from tvbandits.gp.kernels.matern import Coordinates
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime, leaves_of
from tvbandits.validation import Array

SPACE_TIME = {
    "drift": Drift(0.1),
    "drift fixed": Drift(0.1, "fixed"),
    "no drift": Drift(0.0, "fixed"),
    "coordinates": OnSpace(Coordinates([0.4, 0.7], 0.8)),
    "coordinates, part fixed": OnSpace(Coordinates([0.4, 0.7], 0.8, additive_bounds="fixed")),
    "circle": OnSpace(Coordinates([0.4], 0.8, widths=(2,))),
    "space": OnSpace(RBF(0.4)),
    "space anisotropic": OnSpace(RBF([0.4, 0.7])),
    "space fixed": OnSpace(Matern(0.4, "fixed", nu=1.5)),
    "time": OnTime(Matern(2.0, nu=0.5)),
    "time periodic": OnTime(ExpSineSquared(1.0, 3.0)),
    "product": OnSpace(Matern([0.3, 0.5], nu=2.5)) * Drift(0.05),
    "scaled": ConstantKernel(2.0) * OnSpace(RBF(0.4)) * OnTime(RBF(3.0)),
    "part fixed": ConstantKernel(2.0, "fixed") * OnSpace(RBF([0.4, 0.2], "fixed")) * Drift(0.2),
    "sum": OnSpace(RBF(0.4)) * Drift(0.2) + 0.5 * OnTime(Matern(2.0, nu=1.5)),
    "power": (OnSpace(RationalQuadratic(0.4, 2.0)) * Drift(0.2)) ** 2,
    "joint": RBF([0.3, 0.4, 2.0]) + Drift(0.2),
    "not stationary": OnSpace(DotProduct(0.5)) * Drift(0.3),
}
every_kernel = pytest.mark.parametrize("kernel", SPACE_TIME.values(), ids=SPACE_TIME.keys())


def rows(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.random((n, 2)), 8.0 * rng.random(n)])


# --- scikit-learn's contract ---------------------------------------------------------------------


@every_kernel
def test_space_time_kernels_are_symmetric_definite_and_match_their_diagonal(kernel: Kernel) -> None:
    Z, other = rows(12), rows(5, seed=1)
    K = kernel(Z)
    np.testing.assert_allclose(K, kernel(Z, Z), rtol=1e-12)
    np.testing.assert_allclose(K, K.T, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(Z), np.diagonal(K), rtol=1e-12)
    np.testing.assert_allclose(kernel(Z, other), kernel(np.vstack([Z, other]))[:12, 12:])
    assert np.linalg.eigvalsh(K).min() > -1e-10 * K.max()
    check_kernel(kernel, Z)


@every_kernel
def test_space_time_kernels_can_be_cloned_pickled_and_set(kernel: Kernel) -> None:
    Z = rows(6)
    assert clone(kernel) == kernel
    assert clone(kernel) is not kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert kernel.bounds.shape[:1] == kernel.theta.shape
    if kernel.n_dims:
        other = kernel.clone_with_theta(kernel.theta - 0.1)
        np.testing.assert_allclose(other.theta, kernel.theta - 0.1)
        np.testing.assert_allclose(other.clone_with_theta(kernel.theta)(Z), kernel(Z))
        assert other != kernel
    names = [part.name for part in kernel.hyperparameters]
    assert set(names) <= set(kernel.get_params())
    assert isinstance(kernel.is_stationary(), bool | np.bool_)
    assert type(kernel).__name__ in repr(kernel) or " " in repr(kernel)


def test_space_time_kernel_sets_nested_parameters_by_name() -> None:
    kernel = OnSpace(RBF(0.4)) * Drift(0.1)
    kernel.set_params(k1__kernel__length_scale=0.7, k2__epsilon=0.2)
    assert kernel == OnSpace(RBF(0.7)) * Drift(0.2)
    assert repr(kernel) == "OnSpace(RBF(length_scale=0.7)) * Drift(epsilon=0.2)"
    assert [p.name for p in kernel.hyperparameters] == ["k1__kernel__length_scale", "k2__epsilon"]
    kernel.k1.theta = [0.0]
    assert kernel.k1.kernel.length_scale == 1.0


# --- formulas ------------------------------------------------------------------------------------


def test_space_time_kernels_match_their_formulas() -> None:
    Z = rows(7)
    age = np.abs(Z[:, None, 2] - Z[None, :, 2])
    squared = ((Z[:, None, :2] - Z[None, :, :2]) ** 2).sum(axis=-1)
    space, drift = np.exp(-squared / (2 * 0.4**2)), 0.9 ** (age / 2)
    np.testing.assert_allclose(Drift(0.1)(Z), drift)
    np.testing.assert_allclose(OnSpace(RBF(0.4))(Z), space)
    np.testing.assert_allclose(OnTime(Matern(2.0, nu=0.5))(Z), np.exp(-age / 2))
    both = 3.0 * OnSpace(RBF(0.4)) * Drift(0.1) + OnTime(RBF(2.0))
    np.testing.assert_allclose(both(Z), 3 * space * drift + np.exp(-(age**2) / 8))


@pytest.mark.parametrize("epsilon", [-0.1, 1.0, np.nan, 2.0])
def test_drift_refuses_a_rate_out_of_range(epsilon: float) -> None:
    assert_refused(ValueError, "epsilon must", Drift, epsilon)
    set_later = Drift(0.1).set_params(epsilon=epsilon)
    assert_refused(ValueError, "epsilon must", set_later, rows(3))


def test_space_time_kernels_refuse_invalid_arguments() -> None:
    assert_refused(ValueError, 'epsilon_bounds="fixed"', Drift, 0.0)
    with pytest.raises(ValueError, match="Y is None"):
        Drift(0.1)(rows(3), rows(3), eval_gradient=True)
    with pytest.raises(ValueError, match=r"\(n, d \+ 1\), .*\(3, 1\)"):
        OnSpace(RBF())(np.zeros((3, 1)))


# --- inputs and structure ------------------------------------------------------------------------


def test_inputs_append_times_for_a_space_time_kernel_only() -> None:
    X, t = np.arange(6.0).reshape(3, 2), np.array([1.0, 2.0, 5.0])
    assert inputs(RBF(), X, t) is X
    np.testing.assert_array_equal(inputs(Drift(), X, t), np.column_stack([X, t]))
    np.testing.assert_array_equal(inputs(Drift(), X, 4.0)[:, 2], [4.0, 4.0, 4.0])
    with pytest.raises(ValueError, match=r"t must be a number or have shape \(3,\), got \(2,\)"):
        inputs(Drift(), X, [1.0, 2.0])


def test_space_time_wraps_kernels_over_points_only() -> None:
    plain, drifting = 2.0 * RBF(), RBF() + 2.0 * OnTime(RBF()) ** 2
    assert not space_time.is_space_time(plain)
    assert space_time.is_space_time(drifting)
    assert space_time.is_space_time(CompoundKernel([RBF(), Drift()]))
    assert space_time.space_time(drifting) is drifting
    assert space_time.space_time(plain) == OnSpace(plain)


ADVANCING = [
    OnSpace(RBF(0.4)),
    Drift(0.1),
    Drift(0.0, "fixed"),
    OnTime(Matern(2.0, nu=0.5)),
    OnTime(Matern([2.0], nu=0.5) * 2.0),
    2.0 * OnSpace(Matern(0.3)) * Drift(0.1) * OnTime(Matern(2.0, nu=0.5)),
    OnSpace(RBF(0.4)) * Drift(0.1) + 0.5 * OnSpace(Matern(0.1)) * Drift(0.1),
    OnSpace(RBF(0.4)) + 2.0,
]


@pytest.mark.parametrize("kernel", ADVANCING, ids=repr)
@pytest.mark.parametrize("h", [0.0, 0.7, 20.0])
def test_advance_matches_direct_evaluation(kernel: Kernel, h: float) -> None:
    past = rows(8)
    now = np.column_stack([rows(5, seed=2)[:, :2], np.linspace(8.0, 9.0, 5)])
    factor = space_time.advance(kernel, h)
    assert factor is not None
    later = now + np.array([0.0, 0.0, h])
    np.testing.assert_allclose(kernel(later, past), factor * kernel(now, past), rtol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [
        OnTime(RBF(2.0)),
        OnTime(Matern(2.0, nu=1.5)),
        OnTime(ExpSineSquared()),
        Drift(0.1) + Drift(0.2),
        Drift(0.1) + OnSpace(RBF()),
        RBF([0.3, 0.3, 2.0]) * Drift(0.1),
        Matern(0.3, nu=0.5) * Drift(0.1),
        OnTime(RBF(2.0)) ** 2,
        OnTime(DotProduct()) * Drift(0.1),
    ],
    ids=repr,
)
def test_advance_is_none_for_kernels_without_a_common_factor(kernel: Kernel) -> None:
    assert space_time.advance(kernel, 1.0) is None
    assert space_time.advance(RBF(), 1.0) == 1.0  # the kernel does not depend on time


# --- check_kernel --------------------------------------------------------------------------------


class Broken(StationaryKernelMixin, Kernel):  # type: ignore[misc]
    """A kernel that breaks one property."""

    def __init__(self, how: str = "") -> None:
        self.how = how

    def __call__(self, X: Any, Y: Any = None) -> Any:
        K = RBF()(X, Y)
        if self.how == "shape":
            return K[:-1]
        if self.how == "nan":
            K[1, 2] = np.nan
        elif self.how == "asymmetric":
            K[0, 1] += 0.25
        elif self.how == "zero":
            K[1, :] = K[:, 1] = 0.0
        elif self.how == "indefinite":
            return 1.0 + 0.5 * np.abs(X[:, :1] - X[:, 0])
        elif self.how == "raises":
            raise RuntimeError("no luck")
        return K

    def diag(self, X: Any) -> Any:
        return np.full(len(X), 2.0 if self.how == "diagonal" else 1.0)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("shape", r"prior must .*\(\(8, 9\)"),
        ("nan", "prior must .*nan"),
        ("asymmetric", "prior must .*0.25"),
        ("zero", r"prior must .*\(0.0, "),
        ("diagonal", r"diag\(X\) of prior must .* 1"),
        ("indefinite", "prior must .*-"),
        ("raises", r"prior .*\(9, 3\): no luck"),
    ],
)
def test_check_kernel_names_the_broken_property(how: str, message: str) -> None:
    assert_refused(ValueError, message, check_kernel, Broken(how), rows(9), "prior")


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda X: X, "kernel must .*<function"),
        (RBF, "kernel must .*<class"),
        (RBF() + WhiteKernel(), "noise_variance"),
        (OnSpace(RBF() + WhiteKernel()) * Drift(), "noise_variance"),
        (RBF([1.0, 1.0]), "2 .*3"),
        (2.0 * OnSpace(RBF([1.0] * 3)), "3 .*2"),
        (OnTime(RBF([1.0, 1.0])), "2 .*1"),
        (OnSpace(Drift()), "space-time"),
    ],
)
def test_check_kernel_refuses_invalid_structures(kernel: Any, message: str) -> None:
    assert_refused(ValueError, message, check_kernel, kernel, rows(9))


def test_check_kernel_handles_empty_large_and_many_points() -> None:
    with pytest.raises(ValueError, match=r"needs rows \[x, t\], got points of dimension 1"):
        check_kernel(OnTime(RBF()), [[1.0], [2.0]])
    check_kernel(Broken(), rows(9))
    check_kernel(RBF(), np.empty((0, 2)))
    check_kernel(1e12 * RBF(), np.zeros((5, 2)))
    sizes: list[int] = []

    class Counting(Broken):
        def diag(self, X: Any) -> Any:
            sizes.append(len(X))
            return np.ones(len(X))

    check_kernel(Counting(), rows(1000))
    assert sizes == [kernel_matrix.CHECKED_POINTS]


# --- evidence ------------------------------------------------------------------------------------


@every_kernel
@pytest.mark.parametrize("seed", [0, 1])
def test_log_evidence_matches_scikit_learn(kernel: Kernel, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, y, variance = rows(20, seed), rng.standard_normal(20), rng.uniform(0.01, 2.0, 20)
    oracle = GaussianProcessRegressor(kernel, alpha=variance, optimizer=None).fit(Z, y)
    value, gradient = evidence.log_evidence(kernel, Z, y, variance)
    if kernel.n_dims == 0:
        assert value == pytest.approx(oracle.log_marginal_likelihood_value_, rel=1e-10)
        assert gradient.shape == (0,)
        return
    expected = oracle.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    assert value == pytest.approx(expected[0], rel=1e-10)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-7, atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 15), st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_log_evidence_profiles_the_best_constant_mean(n: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    Z = rows(n, seed)
    y, variance = scale * (3 + rng.standard_normal(n)), np.full(n, scale**2 * 0.1)
    kernel = ConstantKernel(scale**2, "fixed") * OnSpace(RBF(0.4, "fixed"))
    profile, _ = evidence.log_evidence(kernel, Z, y, variance, None)
    inverse = np.linalg.inv(kernel(Z) + np.diag(variance))
    mean = (inverse @ y).sum() / inverse.sum()
    assert profile == pytest.approx(evidence.log_evidence(kernel, Z, y, variance, mean)[0])
    for shift in (-0.1, 0.1):
        assert evidence.log_evidence(kernel, Z, y, variance, mean + shift * scale)[0] < profile


def sample_of(kernel: Kernel, n: int, mean: float, seed: int) -> Dataset:
    """Return observations of one path of the process, each with a noise variance of 0.01."""
    rng = np.random.default_rng(seed)
    X, t = rng.random((n, 2)), np.arange(n, dtype=float)
    K = kernel(inputs(kernel, X, t)) + 0.01 * np.eye(n)
    return Dataset(X, t, mean + np.linalg.cholesky(K) @ rng.standard_normal(n), 0.01)


def test_fit_recovers_the_parameters_of_a_space_time_process() -> None:
    data = sample_of(ConstantKernel(2.0) * OnSpace(RBF(0.3)) * Drift(0.02), 150, mean=5.0, seed=3)
    start = ConstantKernel(1.0) * OnSpace(RBF(1.0)) * Drift(0.2)
    before = start.theta.copy()
    kernel = evidence.fit(start, data)
    np.testing.assert_array_equal(start.theta, before)
    Z = inputs(start, data.X, data.t)
    better, worse = (
        evidence.log_evidence(each, Z, data.y, data.variance, None)[0] for each in (kernel, start)
    )
    assert better > worse + 10
    variance, length_scale, epsilon = np.exp(kernel.theta)
    assert 1.0 < variance < 4.0
    assert 0.22 < length_scale < 0.4
    assert 0.008 < epsilon < 0.05


def test_log_evidence_with_profiled_mean_has_the_gradient_of_differences() -> None:
    kernel = ConstantKernel(2.0) * OnSpace(RBF([0.3, 0.5])) * Drift(0.1)
    data = sample_of(kernel, 15, mean=4.0, seed=5)
    Z = inputs(kernel, data.X, data.t)

    def profiled(theta: np.ndarray) -> Any:
        moved = kernel.clone_with_theta(theta)
        return evidence.log_evidence(moved, Z, data.y, data.variance, None)

    expected = slopes(lambda theta: profiled(theta)[0], kernel.theta)
    np.testing.assert_allclose(profiled(kernel.theta)[1], expected, rtol=1e-5, atol=1e-7)


# --- the default kernel: valid everywhere, a sum of terms, with scales of the domain

RNG = np.random.default_rng(0)

DOMAINS: dict[str, tuple[Any, float]] = {
    "candidates": (Candidates([[0.0, 1.0], [3.0, 1.5], [1.0, 6.0]]), 5.0),
    "a grid": (Candidates.grid([[-2.0, 2.0]], 9), 4.0),
    "one point": (Candidates([[7.0, -3.0]]), 0.0),
    "a tiny set": (Candidates([[1.0], [1.0 + 1e-6]]), 1e-6),
    "a box": (Box([[0.0, 1.0], [-5.0, 25.0]]), 30.0),
    "a wide box": (Box([[0.0, 1e6]]), 1e6),
    "three dimensions": (Candidates(RNG.uniform(0, 2, (40, 3))), 2.0),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_ends_of_a_domain_span_its_extent(name: str) -> None:
    domain, extent = DOMAINS[name]
    assert np.ptp(ends_of(domain), axis=0).max() == pytest.approx(
        extent, rel=0.1 if "three" in name else 1e-9
    )


@pytest.mark.parametrize("name", DOMAINS)
def test_structured_kernel_is_a_covariance_on_every_domain(name: str) -> None:
    domain, _ = DOMAINS[name]
    points, times = anchors_of(domain, 60), RNG.integers(0, 40, 60)
    for space in space_kernels(domain):
        check_kernel(space, points)
        kernel = structured_kernel(space)
        check_kernel(kernel, inputs(kernel, points, np.resize(times, len(points))))
        assert terms_of(kernel) is not None
        assert leaves_of(kernel) is not None
        # The initial hyperparameters are inside of the bounds of a fit.
        assert (kernel.theta > kernel.bounds[:, 0]).all()
        assert (kernel.theta < kernel.bounds[:, 1]).all()


def test_structured_kernel_drifts_smoothly_with_rough_other_terms() -> None:
    terms = terms_of(structured_kernel(RBF(0.7), Matern(0.4, nu=0.5)))
    spaces = {(term.order, math.isinf(term.time_scale)): term.space for term in terms if term.space}
    assert spaces == {
        (1, True): Matern(0.4, nu=0.5),  # the constant term
        (2, False): RBF(0.7),  # the drift
        (1, False): Matern(0.4, nu=0.5),  # the fast term
    }


# On a box of several coordinates adaptive_gp_ucb has another kernel: tests/policies/test_boxes.py.
@pytest.mark.parametrize(
    ("policy", "name"), [("adaptive", "candidates"), ("frugal", "candidates"), ("frugal", "a box")]
)
def test_policies_without_a_kernel_compare_a_smooth_and_a_rough_one(policy: str, name: str) -> None:
    domain, _ = DOMAINS[name]
    if policy == "adaptive":
        recipe = policies.adaptive_gp_ucb(
            domain, noise_variance=0.01, options=Options(refit=True)
        ).recipe
    else:
        expert = CallableExpert(lambda X, _t: X[:, 0], 0.01)
        recipe = policies.frugal_gp_ucb(
            domain, noise_variance=0.01, expert=expert, options=Options(refit=True)
        ).recipe
    smooth, rough = space_kernels(domain)
    assert recipe.kernel == structured_kernel(smooth)
    assert recipe.learn is not None
    assert recipe.learn.rivals == (structured_kernel(smooth, rough),)
    assert recipe.learn.in_steps


@pytest.mark.parametrize("name", DOMAINS)
def test_anchors_of_a_domain_are_its_candidates_or_span_its_box(name: str) -> None:
    domain, _ = DOMAINS[name]
    anchors = anchors_of(domain, 64)
    np.testing.assert_array_equal(domain.check(anchors), anchors)
    np.testing.assert_array_equal(anchors_of(domain, 64), anchors)  # always the same
    if isinstance(domain, Candidates):
        np.testing.assert_array_equal(anchors, domain.X)
        return
    assert len(anchors) >= 64
    np.testing.assert_array_equal(anchors.min(axis=0), domain.bounds[:, 0])
    np.testing.assert_array_equal(anchors.max(axis=0), domain.bounds[:, 1])


class Disc:
    """A domain that a user has written."""

    dimension = 2

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        angle, radius = rng.uniform(0, 2 * np.pi, n), 3.0 * np.sqrt(rng.random(n))
        return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def test_anchors_and_ends_of_a_custom_domain_are_inside_of_it() -> None:
    disc: Any = Disc()
    assert 5.0 < np.ptp(ends_of(disc), axis=0).max() <= 6.0
    assert (np.linalg.norm(anchors_of(disc), axis=1) <= 3.0).all()


# --- the kernel over coordinates against scikit-learn's, and its gradient against differences

SCALES = np.array([0.3, 2.0, 0.7])


def points(n: int, d: int = 3) -> np.ndarray:
    return np.random.default_rng(n).uniform(-1, 1, (n, d))


def test_coordinates_kernel_shares_a_length_scale_among_columns_of_a_coordinate() -> None:
    X, Y = points(7), points(5)
    each = [Matern(0.4, nu=2.5)(X[:, :1], Y[:, :1]), Matern(0.7, nu=2.5)(X[:, 1:], Y[:, 1:])]
    joint = Matern([0.4, 0.7, 0.7], nu=2.5)(X, Y)
    kernel = Coordinates([0.4, 0.7], 0.5, widths=(1, 2))
    expected = (joint + 0.5 * np.mean(each, axis=0)) / 1.5
    np.testing.assert_allclose(kernel(X, Y), expected, atol=1e-14)
    check_kernel(kernel, X)


@pytest.mark.parametrize("additive", [1e-3, 0.5, 40.0])
def test_coordinates_kernel_is_joint_matern_plus_one_for_each_coordinate(additive: float) -> None:
    X, Y = points(7), points(5)
    joint = Matern(SCALES, nu=2.5)(X, Y)
    each = [Matern(SCALES[j], nu=2.5)(X[:, [j]], Y[:, [j]]) for j in range(3)]
    expected = (joint + additive * np.mean(each, axis=0)) / (1 + additive)
    kernel = Coordinates(SCALES, additive)
    np.testing.assert_allclose(kernel(X, Y), expected, atol=1e-14)
    np.testing.assert_allclose(np.diagonal(kernel(X)), kernel.diag(X), atol=1e-14)
    check_kernel(kernel, X)
