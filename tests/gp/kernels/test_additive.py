"""A kernel that suits any problem: valid everywhere, made of terms, in proportion to the domain."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from tvbandits import Box, Candidates, policies
from tvbandits.core.arrays import Array
from tvbandits.experts import CallableExpert
from tvbandits.gp.kernels.additive import anchors_of, extent_of, space_kernels, structured_kernel
from tvbandits.gp.kernels.structure import check_kernel, inputs
from tvbandits.gp.kernels.terms import leaves_of, terms_of

RNG = np.random.default_rng(0)

DOMAINS: dict[str, tuple[Any, float]] = {
    "candidates": (Candidates([[0.0, 1.0], [3.0, 1.5], [1.0, 6.0]]), 5.0),
    "a grid": (Candidates.grid([[-2.0, 2.0]], 9), 4.0),
    "one point": (Candidates([[7.0, -3.0]]), 1.0),
    "a tiny set": (Candidates([[1.0], [1.0 + 1e-6]]), 1e-6),
    "a box": (Box([[0.0, 1.0], [-5.0, 25.0]]), 30.0),
    "a wide box": (Box([[0.0, 1e6]]), 1e6),
    "three dimensions": (Candidates(RNG.uniform(0, 2, (40, 3))), 2.0),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_extent(name: str) -> None:
    domain, extent = DOMAINS[name]
    assert extent_of(domain) == pytest.approx(extent, rel=0.1 if "three" in name else 1e-9)


@pytest.mark.parametrize("step", [1.0, 3600.0])
@pytest.mark.parametrize("name", DOMAINS)
def test_it_is_a_covariance_on_every_domain(name: str, step: float) -> None:
    domain, _ = DOMAINS[name]
    points, times = anchors_of(domain, 60), step * RNG.integers(0, 40, 60)
    for space in space_kernels(domain):
        check_kernel(space, points)
        kernel = structured_kernel(space, step=step)
        check_kernel(kernel, inputs(kernel, points, np.resize(times, len(points))))
        terms = terms_of(kernel)
        assert terms is not None
        assert leaves_of(kernel) is not None
        # As they are given, all numbers are inside of the bounds of a fit.
        assert (kernel.theta > kernel.bounds[:, 0]).all()
        assert (kernel.theta < kernel.bounds[:, 1]).all()


def test_what_drifts_is_smooth_and_the_rest_rough() -> None:
    terms = terms_of(structured_kernel(RBF(0.7), Matern(0.4, nu=0.5)))
    assert terms is not None
    spaces = {(term.order, math.isinf(term.time_scale)): term.space for term in terms if term.space}
    assert spaces == {
        (1, True): Matern(0.4, nu=0.5),  # what stays
        (2, False): RBF(0.7),  # what drifts
        (1, False): Matern(0.4, nu=0.5),  # what is fast
    }


# On a box of several coordinates tv has a kernel of its own: tests/policies/test_boxes.py.
@pytest.mark.parametrize(
    ("recipe", "name"), [("tv", "candidates"), ("frugal", "candidates"), ("frugal", "a box")]
)
def test_without_a_kernel_two_compete(recipe: str, name: str) -> None:
    domain, _ = DOMAINS[name]
    if recipe == "tv":
        made = policies.adaptive_gp_ucb(domain, None, 0.01, learn=True).recipe
    else:
        expert = CallableExpert(lambda X, _t: X[:, 0], 0.01)
        made = policies.frugal_gp_ucb(domain, None, 0.01, expert=expert, learn=True).recipe
    smooth, rough = space_kernels(domain)
    assert made.kernel == structured_kernel(smooth)
    assert made.learn is not None
    assert made.learn.rivals == (structured_kernel(smooth, rough),)
    assert made.learn.in_steps


def test_time_scales_are_in_steps() -> None:
    def scales(step: float) -> list[float]:
        terms = terms_of(structured_kernel(RBF(1.0), step=step))
        assert terms is not None
        return [term.time_scale for term in terms]

    np.testing.assert_allclose(scales(60.0), 60.0 * np.array(scales(1.0)))


@pytest.mark.parametrize("step", [0.0, -1.0, math.inf, math.nan])
def test_a_step_that_is_none(step: float) -> None:
    with pytest.raises(ValueError, match=f"step must be positive and finite, got {step}"):
        structured_kernel(RBF(1.0), step=step)


@pytest.mark.parametrize("name", DOMAINS)
def test_anchors(name: str) -> None:
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
    """A domain of a user's own."""

    dimension = 2

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        angle, radius = rng.uniform(0, 2 * np.pi, n), 3.0 * np.sqrt(rng.random(n))
        return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def test_a_domain_of_another_kind() -> None:
    disc: Any = Disc()
    assert 5.0 < extent_of(disc) <= 6.0
    assert (np.linalg.norm(anchors_of(disc), axis=1) <= 3.0).all()
