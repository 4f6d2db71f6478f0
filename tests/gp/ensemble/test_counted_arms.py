"""Beta-Binomial models of arms with counts, against a plain restatement, and in bandits."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import betabinom

from tests.oracles.counted_arms import PlainArms
from tvbandits import Arms, Candidates, count, load, policies, rate
from tvbandits.gp.ensemble.arms import ArmFilters
from tvbandits.gp.ensemble.counted_arms import CountFilters

ARMS = Arms(["red", "green", "blue", "grey"])


def hours(seed: int, number: int = 12) -> list[dict[int, tuple[int, int]]]:
    """Return counts (k, n) of two to four arms an hour, and of one arm in some hours."""
    rng, rows = np.random.default_rng(seed), []
    for hour in range(number):
        size = 1 if hour % 4 == 3 else int(rng.integers(2, 5))
        arms = rng.choice(4, size, replace=False).tolist()
        trials = {a: int(rng.integers(1, 200)) for a in arms}
        rows.append({a: (int(rng.binomial(n, 0.02 + 0.03 * a)), n) for a, n in trials.items()})
    return rows


def read(filters: CountFilters, t: float, counts: dict[int, tuple[int, int]]) -> CountFilters:
    rows = np.array([*counts])
    k, n = np.array([*counts.values()], dtype=float).T
    return filters.update(t, rows, k / n, n)


@pytest.mark.parametrize("seed", range(3))
def test_count_filters_match_the_plain_restatement(seed: int) -> None:
    filters = CountFilters.of(4, 0.5)
    models = zip(filters.discount, filters.strength, filters.evidence, strict=True)
    plain, t = PlainArms(4, [*models]), 0.0
    for hour, counts in enumerate(hours(seed)):
        steps = 1.0 + hour % 3
        t += 0.5 * steps
        plain.step(counts, steps)
        filters = read(filters, t, counts)
        np.testing.assert_allclose(filters.weights, plain.weights(), atol=1e-9)
        np.testing.assert_allclose(filters.means, plain.means(), rtol=1e-9)
        one, other = np.random.default_rng(hour), np.random.default_rng(hour)
        samples = filters.sample(5, one) + filters.weights @ filters.means
        np.testing.assert_allclose(samples, plain.draw(5, other), rtol=1e-7)


def test_count_filters_covariance_matches_many_samples() -> None:
    filters = CountFilters.of(4, 1.0)
    for hour, counts in enumerate(hours(5)):
        filters = read(filters, float(hour), counts)
    samples = filters.sample(40_000, np.random.default_rng(0))
    np.testing.assert_allclose(samples.mean(axis=0), 0.0, atol=0.002)
    np.testing.assert_allclose(np.cov(samples.T), filters.covariance(), rtol=0.08, atol=3e-5)


def test_count_filters_without_discount_have_the_beta_posterior_of_counts() -> None:
    """At a known level it is Thompson sampling with the prior Beta(s, s / level - s)."""
    filters = CountFilters.of(1, 1.0)
    level, trials = np.full(len(filters.levels), 0.05), np.full(len(filters.levels), 1e15)
    filters = CountFilters(
        **{**vars(filters), "time": 0.0, "levels": level, "level_trials": trials}
    )
    undiscounted, strength = filters.discount == 1.0, filters.strength
    total = np.zeros(2)
    for hour, (k, n) in enumerate([(3, 40), (0, 17), (9, 150)], start=1):
        before = filters.evidence
        filters = read(filters, float(hour), {0: (k, n)})
        prior = strength + total[0], strength / 0.05 - strength + total[1] - total[0]
        differences = (filters.evidence - before - betabinom(n, *prior).logpmf(k))[undiscounted]
        np.testing.assert_allclose(
            differences, differences[0], atol=1e-8
        )  # equal up to a binomial coefficient
        total += [k, n]
    alpha, mean = filters.alpha[:, 0], filters.means[:, 0]
    beta = alpha * (1.0 - mean) / mean
    np.testing.assert_allclose(alpha[undiscounted], (strength + total[0])[undiscounted])
    expected_beta = strength / 0.05 - strength + total[1] - total[0]
    np.testing.assert_allclose(beta[undiscounted], expected_beta[undiscounted], rtol=1e-9)


def tell_counts(bandit: Any, seed: int, number: int = 12, *, late: bool = False) -> Any:
    """Tell a bandit counts hour by hour, with hours 4 and 8 exchanged if `late`, and return it."""
    rows = [*enumerate(hours(seed, number), start=1)]
    if late:
        rows[3], rows[7] = rows[7], rows[3]
    for hour, counts in rows:
        k, n = np.array([*counts.values()]).T
        bandit.tell(ARMS.X[[*counts]], rate(k, n), hour)
    return bandit


def posterior_of(bandit: Any, t: float = 13.0) -> Any:
    return bandit._inference.condition(bandit.state, t, np.random.default_rng(0))[1].posterior


def filters_of(bandit: Any, t: float = 13.0) -> Any:
    return posterior_of(bandit, t).filters


def test_bandit_with_counts_predicts_as_its_filters() -> None:
    bandit, filters = tell_counts(policies.adaptive_gp_ucb(ARMS), 1), CountFilters.of(4, 1.0)
    for hour, counts in enumerate(hours(1), start=1):
        filters = read(filters, float(hour), counts)
    filters = filters.predict(13.0)
    np.testing.assert_allclose(bandit.predict(ARMS.X, 13.0)[0], filters.weights @ filters.means)
    np.testing.assert_allclose(posterior_of(bandit).variance, np.diagonal(filters.covariance()))


def test_bandit_with_counts_predicts_the_same_if_late_or_loaded(tmp_path: Any) -> None:
    bandit = tell_counts(policies.adaptive_gp_ucb(ARMS), 2)
    late = tell_counts(policies.adaptive_gp_ucb(ARMS), 2, late=True)
    bandit.save(tmp_path / "bandit")
    mean, deviation = bandit.predict(ARMS.X, 13.0)
    for other in (late, load(tmp_path / "bandit")):
        np.testing.assert_allclose(other.predict(ARMS.X, 13.0), (mean, deviation))
    np.testing.assert_array_equal(load(tmp_path / "bandit").ask(13, n=20), bandit.ask(13, n=20))


def test_bandit_uses_count_filters_for_rates_and_arm_filters_for_counts() -> None:
    bandit = tell_counts(policies.adaptive_gp_ucb(ARMS), 3)
    assert type(filters_of(bandit)) is CountFilters
    events = policies.adaptive_gp_ucb(ARMS)
    events.tell(ARMS.X, count([1, 2, 0, 3], [2.0] * 4), 1)
    assert type(filters_of(events)) is ArmFilters


def test_correct_of_counts_equals_telling_the_right_ones() -> None:
    wrong, right = (policies.adaptive_gp_ucb(ARMS) for _ in range(2))
    for hour in (1, 2, 3):
        right.tell(ARMS.X, rate([3, 5, 1, hour], [90, 80, 70, 60]), hour)
        wrong.tell(ARMS.X, rate([3, 5, 1, hour], [90, 80, 70, 60 + 500 * (hour == 2)]), hour)
    wrong.correct(ARMS.X, rate([3, 5, 1, 2], [90, 80, 70, 60]), 2)
    np.testing.assert_allclose(wrong.predict(ARMS.X, 4), right.predict(ARMS.X, 4))


def test_bandit_with_counts_favours_no_arm_for_a_level_that_all_share() -> None:
    """The worse arm is shown mostly by day, and the better one mostly at night."""
    bandit, rng = policies.adaptive_gp_ucb(Arms(["worse", "better"])), np.random.default_rng(4)
    for hour in range(1, 97):
        day = hour % 24 >= 12
        shown = np.array([450, 50] if day else [50, 450])
        chances = (0.12 if day else 0.02) * np.array([1.0, 1.5])
        bandit.tell(["worse", "better"], rate(rng.binomial(shown, chances), shown), hour)
    worse, better = bandit.predict(["worse", "better"], 97)[0]
    assert 1.2 < better / worse < 1.8
    assert bandit.recommend(97).tolist() == Arms(["worse", "better"]).X[1].tolist()


def test_bandit_with_counts_minimizes_the_rate() -> None:
    bandit = policies.adaptive_gp_ucb(ARMS, minimize=True)
    for hour in range(1, 9):
        bandit.tell(ARMS.X, rate([4, 9, 0, 6], [100] * 4), hour)
    mean, _ = bandit.predict(ARMS.X, 9)
    assert mean == pytest.approx([0.04, 0.09, 0.0, 0.06], abs=0.01)
    assert ARMS.index(bandit.recommend(9)).tolist() == [2]
    assert np.bincount(ARMS.index(bandit.ask(9, n=100)), minlength=4).argmax() == 2


def test_bandit_with_counts_stays_finite_after_long_gaps_without_success() -> None:
    bandit = policies.adaptive_gp_ucb(ARMS)
    for t in (1.0, 2.0, 1e6, 1e12):
        bandit.tell(ARMS.X, rate([0] * 4, [1, 10_000, 1, 1]), t)
        bandit.tell(ARMS.X[:1], rate(1, 1), t + 0.5)
    mean, deviation = bandit.predict(ARMS.X, 2e12)
    assert np.isfinite(mean).all()
    assert (deviation > 0).all()
    assert ((mean >= 0) & (mean <= 1)).all()


@pytest.mark.parametrize("maker", [policies.adaptive_gp_ucb, policies.discounted_thompson])
def test_ask_of_many_plays_follows_the_probability_of_being_best(maker: Any) -> None:
    player, chances = maker(Arms(["a", "b", "c", "d"])), np.array([0.02, 0.03, 0.06, 0.02])
    rng = np.random.default_rng(6)
    for hour in range(1, 13):
        shown = np.bincount(ARMS.index(player.ask(hour, n=500)), minlength=4)
        player.drop(player.pending)
        player.tell(ARMS.X, rate(rng.binomial(shown, chances), shown), hour)
    shown = np.bincount(ARMS.index(player.ask(13, n=500)), minlength=4)
    assert shown[2] > 400
    alone = player.ask(14, n=500, available=[0, 1])
    assert set(ARMS.index(alone)) == {0, 1}


def test_ask_of_as_many_plays_as_candidates_returns_each_once() -> None:
    player = policies.discounted_thompson(Candidates(ARMS.X))
    assert len(np.unique(player.ask(1, n=4), axis=0)) == 4
