"""What is found out about a problem before the first step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits.acquisition.confidence import Fixed
from tvbandits.comparison.setup import prepare
from tvbandits.datasets import DriftingBump, GPDrift, Switching


@dataclass(frozen=True)
class Unrecommended:
    """A problem that recommends no kernel and states no variation."""

    problem: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    kernel = None
    variation = None

    def realise(self, seed: int) -> Unrecommended:
        return Unrecommended(self.problem.realise(seed))


def test_a_recommended_kernel_is_returned_as_it_is() -> None:
    kernel = RBF(0.123, (0.1, 0.2))

    @dataclass(frozen=True)
    class Own(GPDrift):
        @property
        def kernel(self) -> Any:
            return kernel

    made = prepare("own", Own(points_per_axis=4, horizon=20), 0, 20)
    assert made.kernel is kernel
    assert made.kernel == RBF(0.123, (0.1, 0.2))
    assert made.label == "own"


@pytest.mark.parametrize("truth", [0.12, 0.2, 0.4])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_kernel_is_fitted_where_none_is_recommended(truth: float, seed: int) -> None:
    problem = Unrecommended(GPDrift(length_scale=truth, points_per_axis=10, horizon=200))
    made = prepare("p", problem, seed, 200)
    assert made.kernel.length_scale == pytest.approx(truth, rel=0.25)


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.2])
def test_epsilon_is_near_the_truth(epsilon: float) -> None:
    problem = GPDrift(epsilon=epsilon, points_per_axis=10, horizon=200)
    found = [prepare("p", problem, seed, 200).epsilon for seed in range(4)]
    assert all(epsilon / 2 < one < 2 * epsilon for one in found), found
    assert np.median(found) == pytest.approx(epsilon, rel=0.35)


def test_the_scale_is_near_the_deviation() -> None:
    still = GPDrift(epsilon=0.1, points_per_axis=8, length_scale=0.1, horizon=200)
    found = [prepare("p", still, seed, 200).scale for seed in range(4)]
    assert all(0.7 < one < 1.4 for one in found), found
    assert np.mean(found) == pytest.approx(1.0, abs=0.15)


def test_variation_is_the_problem_s_own_or_seen() -> None:
    problem = GPDrift(epsilon=0.05, points_per_axis=6, horizon=60)
    stated = prepare("p", problem, 2, 60)
    assert stated.variation == problem.realise(2).variation
    seen = prepare("p", Unrecommended(problem), 2, 60).variation
    path = problem.realise(2).path[:20]
    assert seen == pytest.approx(np.abs(np.diff(path, axis=0)).max(axis=1).mean(), rel=1e-12)


def test_same_seed_same_findings() -> None:
    problem = Switching(every=20, candidates=40, horizon=60)
    one, again, other = (prepare("p", problem, seed, 60) for seed in (4, 4, 5))
    for name in ("scale", "variation", "epsilon"):
        assert getattr(one, name) == getattr(again, name) != getattr(other, name)
    np.testing.assert_array_equal(one.gains, again.gains)
    assert one.problem.value(one.problem.domain.sample(1, np.random.default_rng(0)), 1.0) != (
        other.problem.value(other.problem.domain.sample(1, np.random.default_rng(0)), 1.0)
    )


def test_gains_and_horizons() -> None:
    problem = DriftingBump(candidates=51, horizon=30)
    made = prepare("p", problem, 0, 12)
    assert made.horizon == 12
    assert made.gains.shape == (12,)
    assert (np.diff(made.gains) > 0).all()
    assert prepare("p", problem, 0, 1).gains.shape == (1,)


def test_large_domains_and_boxes_are_represented_by_a_sample() -> None:
    for problem in (DriftingBump(candidates=1500, horizon=5), DriftingBump(0, horizon=5)):
        made = prepare("p", problem, 0, 5)
        assert np.isfinite(made.gains).all()
        assert made.setting(Fixed(1.0), None).expert is None
