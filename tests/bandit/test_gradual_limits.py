"""Under a limit a bandit moves in small steps, and weighs and reports the size of violations."""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tvbandits import (
    Arms,
    Bandit,
    Box,
    Candidates,
    Dataset,
    Limit,
    Options,
    Recipe,
    Space,
    policies,
)
from tvbandits.acquisition.constraints import (
    OutcomePosterior,
    count_violations,
    expected_violations,
)

PRICES = np.linspace(9.0, 13.0, 5)
COMPLAINTS = Limit("complaints", at_most=4.0)
BOX = Box([(1.0, 20.0)])
GRID = Candidates(np.linspace(1.0, 20.0, 39)[:, None])


def complaints_at(X: np.ndarray) -> np.ndarray:
    """Return complaints: at most 4 from 6.7 to 14.2, and 9 and 13 at the ends."""
    return 2.0 + 0.3 * (X[:, 0] - 11.0) + 0.1 * (X[:, 0] - 11.0) ** 2


def play_prices(domain: Any, safe: Any, seed: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the points and the excess of each over the limit; profits drift, best near 15."""
    rng = np.random.default_rng(seed)
    bandit = policies.adaptive_gp_ucb(domain, seed=seed)
    bandit = bandit.with_options(limits=[COMPLAINTS], safe=safe)
    rows = []
    for t in range(1, steps + 1):
        X = bandit.ask(t)
        best = 15.0 + 2.0 * np.sin(t / 15.0)
        profit = 10.0 * np.exp(-(((X[:, 0] - best) / 6.0) ** 2)) + 0.3 * rng.standard_normal(1)
        complaints = complaints_at(X) + 0.2 * rng.standard_normal(1)
        bandit.tell(X, profit, t, outcomes={"complaints": complaints})
        rows.append(X[0])
    X = np.array(rows)
    return X, COMPLAINTS.excess(complaints_at(X))


@pytest.mark.parametrize("seed", range(2))
def test_ask_under_a_limit_moves_in_small_steps_from_safe_prices_on_a_box(seed: int) -> None:
    X, excess = play_prices(BOX, PRICES[:, None], seed, 12)
    moves = [np.abs(X[:i] - X[i]).min() for i in range(5, len(X))]
    assert max(moves) <= 3.0  # the domain has length 19
    assert max(moves) > 0.3  # the plays do move
    assert excess.max() <= 4.0  # 5 and 9 at the ends


@pytest.mark.parametrize(
    ("domain", "safe"),
    [
        (GRID, GRID.X[16:25:2]),
        (Box([(1.0, 20.0), (-5.0, 5.0)]), np.column_stack([PRICES, [0.0, 1.0, -1.0, 0.5, 0.0]])),
        (Space(price=(1.0, 20.0)), PRICES[:, None]),
    ],
    ids=["candidates", "box of two", "space"],
)
def test_ask_under_a_limit_moves_in_small_steps_on_any_domain(
    domain: Any, safe: np.ndarray
) -> None:
    X, excess = play_prices(domain, safe, 1, 12)
    moves = [np.abs(X[:i] - X[i]).max(axis=1).min() for i in range(5, len(X))]
    assert max(moves) <= 3.0
    assert excess.max() <= 4.0


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("domain", [BOX, GRID], ids=["box", "candidates"])
def test_ask_under_a_limit_plays_few_safe_prices_first(domain: Any, count: int) -> None:
    safe = np.array([11.0, 10.0, 12.0])[:count, None]
    X, excess = play_prices(domain, safe, 1, 12)
    np.testing.assert_array_equal(np.sort(X[:count], axis=0), np.sort(safe, axis=0))
    moves = [np.abs(X[:i] - X[i]).min() for i in range(count, len(X))]
    assert max(moves) <= 4.0
    assert (excess > 0).sum() <= 2
    assert excess.max() <= 4.0  # 5 and 9 at the ends


def test_ask_under_a_limit_tries_new_arms_without_shared_information() -> None:
    arms = Arms([str(i) for i in range(12)])
    bandit = policies.adaptive_gp_ucb(arms, noise_variance=0.01, seed=0)
    bandit = bandit.with_options(limits=[Limit("load", at_most=3.0)], safe=arms.X[:5])
    bandit.tell(
        arms.X[:5], [0.0, 0.1, 0.2, 0.3, 0.4], 1, outcomes={"load": [-1.0, -0.5, 0, 0.5, 1]}
    )
    assert int(arms.index(bandit.ask(2))[0]) >= 5


def test_ask_under_a_limit_plays_new_points_of_at_least_half_the_best_knowledge() -> None:
    sites, kernel = Candidates(np.linspace(0.0, 10.0, 21)[:, None]), RBF(2.0)
    limit = Limit("load", at_most=100.0, noise_variance=0.01)
    recipe = Recipe(sites, kernel, 0.01, mean=0.0, options=Options([limit]))
    bandit = Bandit(recipe, seed=0)
    sites_with_readings = sites.X[:10:2]
    bandit.tell(
        sites_with_readings,
        sites_with_readings[:, 0],
        1,
        outcomes={"load": [0.0, 1.0, 0.5, 0.2, 0.4]},
    )
    (load,) = bandit._outcome_models.condition(bandit.state, 2.0)[1].outcomes
    noise = 0.01 / load.view.scale**2
    k, K = (
        kernel(sites_with_readings, sites.X),
        kernel(sites_with_readings) + noise * np.eye(len(sites_with_readings)),
    )
    variance = 1.0 - np.einsum("ij,ij->j", k, np.linalg.solve(K, k))
    share = 1.0 - variance / variance.max()
    assert load.knowledge(sites.X) == pytest.approx(share, abs=1e-6)
    new = ~np.isin(sites.X[:, 0], sites_with_readings[:, 0])
    near = sites.X[~new | (share >= 0.5 * share[new].max())]
    assert 4.0 < near.max() < 10.0
    X = bandit.ask(2, n=8)  # the limit of 100 is not active, and a batch is spread out
    assert set(X[:, 0]) <= set(near[:, 0])
    assert (X > 4.0).any()


@pytest.mark.parametrize(("low", "high"), [(None, 1.0), (-0.5, None), (-0.5, 1.0)])
@pytest.mark.parametrize("far", [0.4, 3.0])
def test_expected_violations_match_sampled_outcomes(
    low: float | None, high: float | None, far: float
) -> None:
    limit = Limit("load", at_most=high, at_least=low)
    mean, deviation = np.array([0.3, -2.0, 5.0]), np.array([0.5, 1.5, 1e-12])
    outcomes = mean + deviation * stats.t(7).ppf((np.arange(100_000)[:, None] + 0.5) / 100_000)
    expected = [count_violations(limit, column, far).mean() for column in outcomes.T]
    result = expected_violations(limit, mean, deviation, 7.0, far)
    assert result == pytest.approx(np.array(expected), abs=2e-3)


def test_count_violations_grows_with_the_excess() -> None:
    limit = Limit("load", at_most=1.0, at_least=-1.0)
    values = np.array([0.5, 1.1, 4.0, -2.5, np.nan])
    assert limit.excess(values) == pytest.approx([0.0, 0.1, 3.0, 1.5, 0.0])
    assert count_violations(limit, values, 0.5) == pytest.approx([0.0, 1.0, 6.0, 3.0, 0.0])


def test_outcome_posterior_has_a_larger_excess_after_larger_violations() -> None:
    excess = []
    for worst in (0.1, 6.0):
        y = np.append(np.full(18, 1.0), [4.0 + worst] * 2)
        readings = Dataset(GRID.X[:20], np.arange(20.0), y, np.ones(20))
        view = joint = None
        posterior = OutcomePosterior(COMPLAINTS, GRID, readings, view, joint, scale=0.75)  # type: ignore[arg-type]
        excess.append(posterior.excess)
    assert excess[1] - excess[0] >= 2 * 6.0 / 1.5 - 2.0


def test_ask_on_a_box_keeps_near_and_limits() -> None:
    limit = Limit("load", at_most=100.0, noise_variance=1.0)
    recipe = Recipe(Box([(0.0, 10.0)] * 2), RBF(3.0), 0.01, options=Options([limit]))
    bandit = Bandit(recipe, seed=0)
    rng, X = np.random.default_rng(0), np.array([[5.0, 5.0]])
    for t in range(1, 7):
        bandit.tell(X, [float(X.sum())], t, outcomes={"load": rng.standard_normal(1)})
        next_point = bandit.ask(t + 1, near=1.0)
        # A corner of the surrounding square is at 1.41.
        assert np.linalg.norm(next_point - X) <= 1.0 + 1e-9
        X = next_point


def test_history_has_the_excess_over_a_limit() -> None:
    bandit = policies.gp_ucb(GRID, kernel=RBF(2.0), noise_variance=0.01)
    bandit = bandit.with_options(limits=[COMPLAINTS])
    bandit.tell(GRID.X[:3], [0.1, 0.2, 0.3], 1, outcomes={"complaints": [3.0, 6.5, np.nan]})
    excess = bandit.history["complaints_excess"].to_numpy()
    assert excess[:2].tolist() == [0.0, 2.5]
    assert np.isnan(excess[2])
    named = [Limit("load", at_most=1.0), Limit("load_excess", at_most=1.0)]
    assert_refused(ValueError, "load_excess", bandit.with_options, limits=named)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("domain", "safe"),
    [
        (Box([(0.0, 10.0)]), [[0.5], [1.5], [2.5], [3.5], [4.5]]),
        (
            Space(heat=(0.0, 10.0), speed=(0.0, 10.0)),
            [[1.0, 1.0], [2.0, 3.0], [3.0, 1.0], [4.0, 4.0], [1.0, 4.0]],
        ),
    ],
    ids=["box", "space"],
)
@pytest.mark.filterwarnings("ignore::tvbandits.LimitWarning")  # sometimes no point is safe
def test_limit_on_success_avoids_failing_plays(domain: Any, safe: Any) -> None:
    """The reward rises up to an edge, beyond which plays fail."""
    failure_rates = {}
    for with_limit in (True, False):
        rng, bandit = np.random.default_rng(1), policies.adaptive_gp_ucb(domain, seed=1)
        if with_limit:
            bandit = bandit.with_options(limits=[Limit("works", at_least=0.5)], safe=safe)
        failures = []
        for t in range(1, 61):
            X = bandit.ask(t)
            height = float(X.mean()) / 10.0
            works = height < 0.6 + 0.03 * np.sin(t / 12.0)
            reward = height + 0.05 * rng.standard_normal() if works else np.nan
            outcomes = {"works": [float(works)]} if with_limit else None
            bandit.tell(X, [reward], t, outcomes=outcomes)
            failures.append(not works)
        failure_rates[with_limit] = float(np.mean(failures[20:]))
    assert failure_rates[True] <= 0.15
    assert failure_rates[False] >= 0.8


def test_ask_under_a_limit_does_not_depend_on_the_unit_of_the_outcome() -> None:
    prices = Candidates(np.linspace(5.0, 25.0, 41)[:, None])
    courses = []
    for unit in (1e-6, 1.0, 1e6):
        limit = Limit("load", at_most=10.0 * unit)
        bandit = policies.adaptive_gp_ucb(prices).with_options(limits=[limit], safe=[[9.0]])
        X = []
        for t in range(1, 9):
            X.append(bandit.ask(t)[0])
            bandit.tell(X[-1:], X[-1], t, outcomes={"load": (0.5 * X[-1] - 0.5) * unit})
        courses.append(np.array(X)[:, 0])
    np.testing.assert_array_equal(courses[0], courses[1])
    np.testing.assert_array_equal(courses[2], courses[1])
    assert courses[1].max() > 15.0
