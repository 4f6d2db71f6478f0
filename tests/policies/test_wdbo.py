"""W-DBO: relevances, removals and bounds against plain loops and the authors' program."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.oracles.plain_rivals import matern32, matern52, relevances_by_leaving_out
from tvbandits import Box, Candidates, policies
from tvbandits.data import Plays
from tvbandits.policies.rivals.wdbo import Relevant, over_future, over_space, precision, relevance


def example(n: int = 10, d: int = 2) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return rng.random((n, d)), rng.standard_normal(n), np.sort(rng.random(n)), 1.05


def kernel_of(X: Any, t: Any) -> Any:
    r = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    return 1.3 * matern52(r / 0.3) * matern32((t[:, None] - t) / 0.4)


# wdbo_criterion 2.2.1 on `example()`: variance 1.3, noise 0.05, lengths 0.3 and 0.4, nu 5/2 and
# 3/2.
AUTHORS = [
    0.02136116645358912,
    0.12410084218601129,
    0.09362368201645284,
    0.06803801334132499,
    0.18536651609908314,
    0.12608068696252234,
    0.2423720161001363,
    0.18714463668211095,
    0.4968327743683658,
    0.5896859896443206,
]


def test_relevance_matches_the_authors_program() -> None:
    X, y, t, now = example()
    C = over_space(X, 0.3, 2.5) * over_future(t, now, 0.4, 1.5)
    result = relevance(precision(kernel_of(X, t), 0.05), y, C)
    np.testing.assert_allclose(result, AUTHORS, atol=1e-8)


def remove_plainly(rule: Relevant, before: Any, budget: float, now: float) -> Any:
    """Return the rows that remain after removals one by one, and the remaining budget."""
    hyperparameters, X, t = rule.hyperparameters, before.X, before.t
    y = (before.y - before.y.mean()) / before.y.std()
    r = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2)) / hyperparameters.space
    K = hyperparameters.variance * matern52(r) * matern32((t[:, None] - t) / hyperparameters.time)
    C = over_space(X, hyperparameters.space, 2.5) * over_future(t, now, hyperparameters.time, 1.5)
    remaining = list(range(len(y)))
    while len(remaining) > 2:
        part = np.ix_(remaining, remaining)
        scores = relevances_by_leaving_out(K[part], hyperparameters.noise, y[remaining], C[part])
        least = int(np.argmin(scores))
        if scores[least] + 1 >= budget:
            break
        budget /= scores[least] + 1
        del remaining[least]
    return remaining, budget


def test_w_dbo_keeps_the_data_of_its_pseudo_code() -> None:
    player = policies.w_dbo(Box([[0, 1], [0, 2]]), noise_variance=0.01, alpha=0.5, initial_points=4)
    rule: Any = player.rule
    budget, last, removed = 1.0, None, 0
    for t in range(1, 31):
        before = rule.data
        x = player.ask(float(t))
        y = float(np.sin(3 * x[0, 0] + 0.4 * t) + x[0, 1])
        player.tell(x, [y], float(t))
        if t < 4:
            continue
        extended = before.append(type(before)(x / np.array([1.0, 2.0]), [t], [y], [0.01]))
        budget *= 1.5 ** ((t - (t if last is None else last)) / rule.hyperparameters.time)
        last = t
        remaining, budget = remove_plainly(rule, extended, budget, t)
        removed += len(extended) - len(remaining)
        np.testing.assert_array_equal(rule.data.t, extended.t[remaining])
        assert rule.size == player.info.posterior.dictionary_size == len(remaining)
    assert removed > 3


def test_w_dbo_plays_the_point_of_the_largest_bound() -> None:
    domain = Candidates(np.linspace(0, 1, 40)[:, None])
    player = policies.w_dbo(domain, noise_variance=0.01, initial_points=5)
    rng = np.random.default_rng(1)
    for t in range(1, 25):
        rule: Any = player.rule
        x = player.ask(float(t))
        if t > 5:
            # The next point while x is pending is chosen as if its mean had been observed.
            later = player.ask(t + 0.5)
            player.drop(later)
            data, hyperparameters = rule.data, rule.hyperparameters
            y = (data.y - data.y.mean()) / data.y.std()
            X, times, width = data.X[:, 0], data.t, np.sqrt(0.2 * np.log(2 * len(y)))
            for point, now in ((x, t), (later, t + 0.5)):
                r = np.abs(X[:, None] - X) / hyperparameters.space
                K = (
                    hyperparameters.variance
                    * matern52(r)
                    * matern32((times[:, None] - times) / hyperparameters.time)
                )
                A = np.linalg.inv(K + hyperparameters.noise * np.eye(len(y)))
                r = np.abs(domain.X - X) / hyperparameters.space
                cross = (
                    hyperparameters.variance
                    * matern52(r)
                    * matern32((now - times) / hyperparameters.time)
                )
                variance = (
                    hyperparameters.variance - np.diag(cross @ A @ cross.T) + hyperparameters.noise
                )
                mean, row = cross @ A @ y, domain.index(point)[0]
                bound = mean + width * np.sqrt(variance)
                assert bound[row] == pytest.approx(bound.max(), rel=1e-6)
                X, times, y = np.append(X, x), np.append(times, t), np.append(y, mean[row])
        player.tell(x, np.sin(5 * x[:, 0] + 0.1 * t) + 0.1 * rng.standard_normal(1), float(t))


def test_w_dbo_bounds_the_time_scale_from_below() -> None:
    """After rewards without memory, a slow reward fills the data again, at any unit of time."""
    for unit in (1.0, 1e-3):
        player: Any = policies.w_dbo(Box([[0, 1]]), noise_variance=0.01, initial_points=3)
        rng, sizes = np.random.default_rng(2), []
        for step in range(1, 61):
            t = unit * step
            X = player.ask(t)
            y = rng.standard_normal(1) if step < 25 else np.sin(3 * X[:, 0] + 0.02 * step)
            player.tell(X, y, t)
            if step > 3:
                assert player.rule.hyperparameters.time >= 5 * unit * (1 - 1e-9)
            sizes.append(player.rule.size)
        assert max(sizes[40:]) > 10


def test_w_dbo_bound_has_the_slopes_of_differences() -> None:
    player: Any = policies.w_dbo(Box([[0, 1], [-2, 3]]), noise_variance=0.01, initial_points=5)
    rng = np.random.default_rng(3)
    bounds: list[Any] = []
    for t in range(1, 13):
        player.tell(rng.uniform([0, -2], [1, 3], (1, 2)), rng.standard_normal(1), float(t))

    class RecordingSearch:
        def find_best(self, bound: Any, _: Any) -> Any:
            bounds.append(bound)
            return np.zeros(2)

    player.rule.choose(13.5, RecordingSearch(), Plays.empty(2), rng)
    [bound] = bounds
    X = rng.uniform([0, -2], [1, 3], (7, 2))
    slopes = bound.values_and_slopes(X)[1]
    for j, step in enumerate(1e-6 * np.eye(2)):
        numeric = (bound(X + step) - bound(X - step)) / 2e-6
        np.testing.assert_allclose(slopes[:, j], numeric, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(bound.near, player.rule.data.X * [1, 5] - [0, 2])


@pytest.mark.parametrize("pause", [3e2, 1e3, 1e9])
def test_w_dbo_after_a_long_pause_keeps_the_fewest_points(pause: float) -> None:
    """(1 + alpha)^(pause / time scale) is 1e290 after 300 steps, and overflows after 1000."""
    domain = Candidates(np.linspace(0.0, 10.0, 21)[:, None])
    bandit: Any = policies.w_dbo(domain, noise_variance=0.01, initial_points=3)
    for t in range(1, 9):
        x = bandit.ask(t)
        bandit.tell(x, np.sin(x[:, 0] + t), t)
    rule = bandit.rule
    assert rule.size > 2
    rule.hyperparameters = replace(rule.hyperparameters, time=0.1)
    rule._remove(8.0 + pause, np.random.default_rng(0))
    assert rule.size == 2
    assert rule.budget > 1e60
    for t in (9.0 + pause, 10.0 + pause):
        x = bandit.ask(t)
        bandit.tell(x, np.sin(x[:, 0]), t)
        assert rule.size == 2
