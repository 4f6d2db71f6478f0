"""`SampledBound`, the largest upper bound among random points of a box or a space."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tvbandits import Bandit, Box, Candidates, Options, Recipe, Space, policies
from tvbandits.acquisition.rules import RandomFirst, SampledBound, UpperConfidenceBound
from tvbandits.domains.domain import AtContext
from tvbandits.domains.sampled import SampledDomain
from tvbandits.validation import Array

SQUARE = Box([(0.0, 1.0), (10.0, 30.0)])
PUMP = Space(supply=(25.0, 55.0), mode=["eco", "boost"], context={"outside": (-15.0, 20.0)})
NO_CENTRES = np.empty((0, 2))


def evaluated_points(domain: SampledDomain) -> Array:
    """Return all points at which an acquisition is evaluated, except the centres."""
    evaluated: list[Array] = []

    def acquisition(X: Array) -> Array:
        if X is not domain.centres:
            evaluated.append(X)
        return np.asarray(-np.abs(X - 0.3).sum(axis=1))

    x, value = domain.maximize(acquisition, np.random.default_rng(0))
    X = np.concatenate(evaluated)
    assert value == acquisition(X).max()
    assert (x == X[acquisition(X).argmax()]).all()
    return X


def test_sampled_domain_returns_the_best_of_a_uniform_sample() -> None:
    X = evaluated_points(SQUARE.by_sample(NO_CENTRES))
    assert X.shape == (2000, 2)
    U = SQUARE.to_unit(X)
    assert np.histogram(U, bins=4, range=(0.0, 1.0))[0] == pytest.approx(np.full(4, 1000), rel=0.1)


def test_sampled_domain_adds_neighbours_of_the_best_centres() -> None:
    centres = np.random.default_rng(1).uniform((0.0, 10.0), (1.0, 30.0), (40, 2))
    centres[0] = 0.0, 10.0
    X = evaluated_points(SQUARE.by_sample(centres))[2000:]
    assert X.shape == (64, 2)
    order = np.argsort(np.abs(centres - 0.3).sum(axis=1))[:16]
    away = SQUARE.to_unit(X) - SQUARE.to_unit(centres[order]).repeat(4, axis=0)
    assert 0.02 < away[4:].std() < 0.04
    assert ((X >= (0.0, 10.0)) & (X <= (1.0, 30.0))).all()


def test_sampled_domain_at_a_context_has_that_context_and_no_neighbours() -> None:
    domain = PUMP.at_context(PUMP.context_values({"outside": 5.0})).by_sample(PUMP.sample(9, rng()))
    assert isinstance(domain, AtContext)
    evaluated: list[Array] = []
    domain.maximize(lambda X: (evaluated.append(X), X[:, 0])[1], rng())  # type: ignore[func-returns-value]
    (X,) = evaluated
    assert len(X) == 2000
    assert (PUMP.decode(X)["outside"] == 5.0).all()


def test_by_sample_of_a_finite_domain_is_the_domain() -> None:
    few = Space(rate=[1, 2, 4], mode=["a", "b"])
    assert few.by_sample(np.empty((0, 3))) is few
    line = Candidates([[0.0], [1.0]])
    assert line.by_sample(np.empty((0, 1))) is line


def test_sampled_domain_of_a_space_changes_one_category_of_a_neighbour() -> None:
    """Steps along an interval would never reach another category."""
    space = Space(rate=(0.0, 1.0), **{f"c{i}": ["a", "b", "c", "d"] for i in range(10)})
    centre = space.sample(1, rng())
    domain = space.by_sample(centre)
    assert isinstance(domain, SampledDomain)
    evaluated: list[Array] = []
    for seed in range(50):
        domain.maximize(
            lambda X: (evaluated.append(X), np.zeros(len(X)))[1],  # type: ignore[func-returns-value]
            np.random.default_rng(seed),
        )
    X = np.concatenate([each for each in evaluated if len(each) == 4])
    changes = (space.to_unit(X)[:, 1:] != space.to_unit(centre)[:, 1:]).sum(axis=1)
    # One category is drawn again, and equals the old one in a quarter of cases.
    assert 0.6 < changes.mean() < 0.9


def test_ask_near_on_a_space_works_with_readings_elsewhere() -> None:
    space = Space(speed=(10.0, 80.0), rate=(0.0, 1.0), mode=["a", "b"])
    bandit = policies.adaptive_gp_ucb(space, noise_variance=0.01)
    X = space.sample(20, rng())
    bandit.tell(X, np.sin(X[:, 0]), np.arange(20.0))
    near = bandit.ask(20, near=5.0)
    assert abs(near[0, 0] - X[-1, 0]) <= 5.0


def test_sampled_bound_names_the_original_domain_if_nothing_is_available() -> None:
    bandit = Bandit(Recipe(SQUARE, RBF(1.0), 0.01, acquisition=SampledBound()))
    bandit.tell([[0.5, 20.0]], [1.0], 1)
    assert_refused(
        ValueError,
        r"none of 65536 random points of Box\(\[\[0.0, 1.0\], \[10.0, 30.0\]\]\) is",
        lambda: bandit.ask(2, available=lambda X: X[:, 0] > 2.0),
    )


def test_sampled_bound_repeats_a_point_if_no_other_is_available() -> None:
    """A random sample never hits a slab of this width."""
    bandit = Bandit(Recipe(SQUARE, RBF(1.0), 0.01, acquisition=SampledBound()))
    bandit.tell([[0.5, 20.0], [0.9, 12.0]], [1.0, 0.0], 1)
    slab = bandit.ask(2, available=lambda X: np.abs(X[:, 0] - 0.5) < 1e-12)
    assert slab.tolist() == [[0.5, 20.0]]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_sampled_bound_plays_close_to_the_largest_upper_bound() -> None:
    parts = {"mean": 0.0, "beta": 1.0}
    X = SQUARE.sample(12, rng())
    y = np.sin(5.0 * X[:, 0]) + 0.1 * X[:, 1]
    kernel = RBF((0.3, 6.0))
    exact = Bandit(Recipe(SQUARE, kernel, 0.01, acquisition=UpperConfidenceBound(), **parts))
    sampled = Bandit(Recipe(SQUARE, kernel, 0.01, acquisition=SampledBound(), **parts))
    bounds = []
    for bandit in (exact, sampled):
        bandit.tell(X, y, np.arange(12.0))
        mean, deviation = exact.predict(bandit.ask(12), 12)
        bounds.append(float(mean[0] + deviation[0]))
    assert bounds[1] == pytest.approx(bounds[0], abs=0.02)
    assert bounds[1] <= bounds[0] + 1e-9


def test_random_first_hands_over_to_the_next_rule() -> None:
    parts = {"mean": 0.0, "beta": 1.0}
    first = RandomFirst(2, SampledBound())
    bandits = [
        Bandit(Recipe(SQUARE, RBF((0.3, 6.0)), 0.01, acquisition=rule, **parts), seed=4)
        for rule in (first, SampledBound(), UpperConfidenceBound())
    ]
    X = SQUARE.sample(3, rng())
    for bandit in bandits:
        bandit.tell(X, [0.0, 1.0, 0.5], [1, 1, 1])
    from_random_first, sampled, exact = (bandit.ask(2) for bandit in bandits)
    assert (from_random_first == sampled).all()
    assert (from_random_first != exact).any()


def test_random_first_refuses_an_invalid_rule() -> None:
    assert_refused(ValueError, "then must be an acquisition.*got 7", RandomFirst, 2, 7)


def test_ask_of_a_batch_on_a_box_returns_distinct_available_points() -> None:
    bandit = policies.adaptive_gp_ucb(SQUARE, noise_variance=0.01)
    X = SQUARE.sample(12, rng())
    bandit.tell(X, X[:, 0], np.arange(12.0))
    batch = bandit.ask(12, n=5, available=lambda X: X[:, 0] < 0.2)
    assert (batch[:, 0] < 0.2).all()
    assert len(np.unique(batch, axis=0)) == 5


def test_sampled_bound_draws_the_same_sample_after_loading(tmp_path: object) -> None:
    from tvbandits import load

    bandit = policies.adaptive_gp_ucb(SQUARE, noise_variance=0.01, options=Options())
    X = SQUARE.sample(12, rng())
    bandit.tell(X, X[:, 0], np.arange(12.0))
    path = f"{tmp_path}/bandit.tvb"
    bandit.save(path)
    assert (load(path).ask(12) == bandit.ask(12)).all()
