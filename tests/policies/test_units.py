"""The unit of a coordinate, of time or of the reward changes no decision of a policy that learns it.

Factors are powers of two, so that nothing is rounded otherwise: decisions are equal, bit for bit.
"""

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Bandit, Box, Candidates, Options, Space, policies
from tvbandits.experts import CallableExpert
from tvbandits.gp.additive import space_kernels, structured_kernel
from tvbandits.gp.kernels.units import InUnits, column_units
from tvbandits.validation import Array

HIGH = np.array([1.0, 3.0])
POINTS = np.random.default_rng(3).uniform(0, 1, (30, 2)) * HIGH
NOISE = np.random.default_rng(1).normal(0, 0.1, 20)
BIG = 2.0**30

# Factors on both columns, on time and on the reward.
CHANGES: dict[str, tuple[float, float, float, float]] = {
    "first column up": (BIG, 1, 1, 1),
    "second column down": (1, 1 / BIG, 1, 1),
    "time up": (1, 1, BIG, 1),
    "time down": (1, 1, 1 / BIG, 1),
    "reward 1e30": (1, 1, 1, 2.0**100),
    "reward 1e-30": (1, 1, 1, 2.0**-100),
}
SAME = (1.0, 1.0, 1.0, 1.0)

# Policies that learn the growth of the noise with age, from the eighth reward on.
LEARNED_RATE: dict[str, Any] = {
    "w": policies.w_gp_ucb,
    "ui": partial(policies.ui_gp_ucb, noise_variance=0.01),
    "ui linear": partial(policies.ui_gp_ucb, growth="linear"),
    "sparq": partial(
        policies.sparq_gp_ucb,
        expert=CallableExpert(lambda X, t: X[:, 0], 0.01),  # noqa: ARG005
        forgetting_rate="learn",
    ),
}


def reward(X: Array, t: float) -> Array:
    return np.asarray(np.sin(4 * X[:, 0] + t / 5) + np.cos(2 * X[:, 1] - t / 9))


def domain_of(kind: str, columns: Array) -> Any:
    first, second = (HIGH * columns).tolist()
    return {
        "candidates": lambda: Candidates(POINTS * columns),
        "box": lambda: Box([[0.0, first], [0.0, second]]),
        "space": lambda: Space(a=(0.0, first), b=(0.0, second)),
    }[kind]()


def bandit_on(policy: str, kind: str, factors: tuple[float, ...]) -> Bandit:
    columns, unit, size = np.array(factors[:2]), factors[2], factors[3]
    domain: Any = domain_of(kind, columns)
    if policy == "frugal":
        expert = CallableExpert(lambda X, t: size * reward(X / columns, t / unit), 0.01 * size**2)
        return policies.frugal_gp_ucb(domain, expert=expert, queries_per_step=1)
    if policy == "w_dbo":
        return policies.w_dbo(domain, noise_variance=None, initial_points=3)
    if policy in LEARNED_RATE:
        return LEARNED_RATE[policy](domain)
    if policy == "fitted":
        return policies.adaptive_gp_ucb(domain, options=Options(refit=6))
    return policies.adaptive_gp_ucb(domain)


def decisions(policy: str, factors: tuple[float, ...], steps: int = 5) -> Array:
    """Return the points of a run (steps, 2), in units of the first domain."""
    columns, unit, size = np.array(factors[:2]), factors[2], factors[3]
    bandit, points = bandit_on(policy, "candidates", factors), []
    for t in range(1, steps + 1):
        X = bandit.ask(t * unit)
        points.append(X[0] / columns)
        bandit.tell(X, size * (reward(X / columns, t) + NOISE[t]), t * unit)
    return np.array(points)


_plays: dict[str, Array] = {}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("policy", ["adaptive", "frugal", "w_dbo"])
def test_policies_on_candidates_play_the_same_in_any_unit(policy: str, change: str) -> None:
    if policy not in _plays:
        _plays[policy] = decisions(policy, SAME)
    np.testing.assert_array_equal(decisions(policy, CHANGES[change]), _plays[policy])


@pytest.mark.parametrize("change", ["time up", "time down"])
@pytest.mark.parametrize("policy", LEARNED_RATE)
def test_policies_with_a_learned_rate_play_the_same_in_any_unit_of_time(
    policy: str, change: str
) -> None:
    np.testing.assert_array_equal(decisions(policy, CHANGES[change]), decisions(policy, SAME))


def predictions(policy: str, kind: str, factors: tuple[float, ...]) -> tuple[Array, Array]:
    """Return mean and deviation at some points after ten readings, in units of the first domain."""
    columns, unit, size = np.array(factors[:2]), factors[2], factors[3]
    bandit = bandit_on(policy, kind, factors)
    for t in range(1, 11):
        X = POINTS[t : t + 1]
        bandit.tell(X * columns, size * (reward(X, t) + NOISE[t]), t * unit)
    mean, deviation = bandit.predict(POINTS[11:16] * columns, 11 * unit)
    return mean / size, deviation / size


_predictions: dict[tuple[str, str], tuple[Array, Array]] = {}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("policy", "kind"), [("adaptive", "box"), ("adaptive", "space"), ("fitted", "candidates")]
)
def test_adaptive_gp_ucb_predicts_the_same_in_any_unit(policy: str, kind: str, change: str) -> None:
    """A fit rounds, as its scales are logarithms."""
    if (policy, kind) not in _predictions:
        _predictions[policy, kind] = predictions(policy, kind, SAME)
    mean, deviation = predictions(policy, kind, CHANGES[change])
    off = np.abs(mean - _predictions[policy, kind][0]) / _predictions[policy, kind][1]
    assert off.max() < 0.02
    np.testing.assert_allclose(deviation, _predictions[policy, kind][1], rtol=0.02)


@pytest.mark.parametrize("kind", ["candidates", "box", "space"])
def test_default_kernels_are_the_same_in_any_unit(kind: str) -> None:
    columns = np.array([1e9, 1e-9])
    for plain, other in zip(
        space_kernels(domain_of(kind, np.ones(2))),
        space_kernels(domain_of(kind, columns)),
        strict=True,
    ):
        np.testing.assert_allclose(other(POINTS * columns), plain(POINTS), rtol=1e-9)


def test_adaptive_gp_ucb_ignores_the_value_of_a_constant_column() -> None:
    line = np.linspace(0, 1, 20)

    def points_with(column: Array) -> list[float]:
        bandit = policies.adaptive_gp_ucb(
            Candidates(np.column_stack([line, column])), noise_variance=0.01
        )
        points = []
        for t in range(1, 6):
            x = bandit.ask(t)
            points.append(float(x[0, 0]))
            bandit.tell(x, np.sin(6 * x[:, 0] + t / 5), t)
        return points

    expected = points_with(np.zeros(20))
    assert len(set(expected)) > 1
    assert points_with(np.full(20, 1e9)) == expected
    # A column that varies by rounding alone counts as constant.
    nearly_constant = 0.3 + np.arange(20) % 2 * 6e-17
    assert np.ptp(nearly_constant) > 0
    assert points_with(nearly_constant) == expected


def test_column_units_are_one_if_all_ranges_are_equal() -> None:
    """One coordinate, or several in the same unit, are not scaled."""
    assert column_units(np.zeros(2), np.full(2, 7.0)).tolist() == [1.0, 1.0]
    assert column_units(np.array([3.0]), np.array([5.0])).tolist() == [1.0]
    assert column_units(np.array([0.0, 2.0]), np.array([4.0, 2.0])).tolist() == [1.0, 1.0]
    assert column_units(np.zeros(3), np.array([4.0, 1.0, 0.0])).tolist() == [4.0, 1.0, 1.0]


def test_adaptive_gp_ucb_applies_a_given_kernel_to_unscaled_coordinates() -> None:
    X = POINTS * [1.0, 1000.0]
    recipe = policies.adaptive_gp_ucb(Candidates(X), kernel=RBF(2.0), noise_variance=0.01).recipe
    assert recipe.kernel == structured_kernel(RBF(2.0))


def test_with_candidates_updates_the_column_units_of_the_ensemble() -> None:
    """The range is that of all candidates, with the retired ones."""
    bandit = policies.adaptive_gp_ucb(Candidates(POINTS), noise_variance=0.01)
    bandit.tell(POINTS[:5], reward(POINTS[:5], 1.0), 1)
    points = np.concatenate([POINTS, [[0.5, 300.0]]])
    extended = bandit.with_candidates(points)
    fresh = policies.adaptive_gp_ucb(Candidates(points), noise_variance=0.01)
    fresh.tell(POINTS[:5], reward(POINTS[:5], 1.0), 1)
    for a, b in zip(extended.predict(points, 2), fresh.predict(points, 2), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_in_units_is_the_inner_kernel_of_scaled_points() -> None:
    kernel = InUnits(RBF(0.7), (1.0, 50.0))
    K, slopes = kernel(POINTS, eval_gradient=True)
    inner, inner_slopes = RBF(0.7)(POINTS / [1.0, 50.0], eval_gradient=True)
    np.testing.assert_array_equal(K, inner)
    np.testing.assert_array_equal(slopes, inner_slopes)
    np.testing.assert_array_equal(kernel.diag(POINTS), np.ones(30))
    assert kernel.clone_with_theta(np.log([2.0])) == InUnits(RBF(2.0), (1.0, 50.0))
