"""Rules that `python -m benchmarks.decisions` holds side by side, against dense Gaussian processes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks import bank as played
from benchmarks import decisions, predictive
from tvbandits.core.arrays import Array, Index
from tvbandits.datasets import TableProblem
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.gp.ensemble.filters import CONSTANT, Filters, filters_of
from tvbandits.gp.ensemble.lasting import predictable, told_of
from tvbandits.gp.ensemble.models import ModelSpec, SpatialSpec
from tvbandits.gp.posteriors.lookahead import JointPosterior
from tvbandits.queries.plans import questions

POINTS = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 0.9], [0.8, 0.7], [0.1, 0.5]])
NEAR, ALONE = SpatialSpec("matern12", 0.5), SpatialSpec("identity")
NOISE, DECIDED, LATER = 0.3, 6.0, 12

MODELS = {
    "rough": ModelSpec(ALONE, NEAR, 0.3, 0.5, 0.4, 0.2, 40.0, 2.0, 5.0),
    "lasting": ModelSpec(NEAR, NEAR, 0.6, 0.2, 0.1, 0.1, math.inf, 10.0, 20.0),
    "smooth": ModelSpec(ALONE, NEAR, 0.3, 0.5, 0.4, 0.05, 40.0, 4.0, 5.0, smooth=True),
}


def dense(model: ModelSpec, rows: Array, times: Array) -> Array:
    """Prior covariance of the reward without its white part, term by term."""
    X, lag = POINTS[rows], np.abs(times[:, None] - times[None])
    distance = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    extent = float(np.ptp(POINTS, axis=0).max())
    rate = math.sqrt(3.0) * lag / model.drift_scale
    fades = (1.0 + rate) * np.exp(-rate) if model.smooth else np.exp(-lag / model.drift_scale)
    slow, drift = (s.correlation(distance, extent) for s in (model.slow_space, model.drift_space))
    return np.asarray(
        CONSTANT
        + model.level * np.exp(-lag / model.level_scale)
        + model.slow * slow * np.exp(-lag / model.slow_scale)
        + model.drift * drift * fades
    )


def read(model: ModelSpec) -> tuple[Filters, Index, Array]:
    """One model at the decision's time, after twelve readings, their rows and times."""
    rng = np.random.default_rng(3)
    rows, times = rng.integers(0, len(POINTS), 12), np.repeat(np.arange(6.0), 2)
    (filters,) = filters_of([model], POINTS, 1.0)
    for t in range(6):
        filters, _ = filters.observed(rows[times == t], rng.normal(size=(2, 1)), np.full(2, 1e-12))
        filters = filters.moved(1.0)
    return filters, rows, times


@pytest.mark.parametrize("name", MODELS)
def test_what_is_drawn_is_what_the_future_would_show(name: str) -> None:
    """The covariance of E[f at the decision | readings, all rewards of the steps after it]."""
    model = MODELS[name]
    filters, rows, times = read(model)
    every, after = np.arange(len(POINTS)), DECIDED + 1 + np.arange(LATER)
    K = dense(
        model,
        np.r_[rows, every, np.tile(every, LATER)],
        np.r_[times, np.full(len(every), DECIDED), np.repeat(after, len(every))],
    )
    n, m = len(rows), len(rows) + len(every)
    past = K[:n, :n] + model.white * np.eye(n)
    given = K[n:, n:] - K[n:, :n] @ np.linalg.solve(past, K[:n, n:])
    a = m - n
    future = given[a:, a:] + NOISE * np.eye(len(K) - m)
    expected = given[:a, a:] @ np.linalg.solve(future, given[a:, :a])
    H = filters.layout.rows(every)
    told = told_of(filters.layout, NOISE, LATER)
    found = H @ predictable(filters.covariance[0], told) @ H.T
    np.testing.assert_allclose(H @ filters.covariance[0] @ H.T, given[:a, :a], atol=1e-6)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0])
def test_an_arm_of_its_own_has_the_variance_in_closed_form(scale: float) -> None:
    """Liu, Van Roy & Xu 2023: gamma^2 v^2 / (gamma^2 v + x), x from a quadratic equation."""
    (filters,) = filters_of([ModelSpec(ALONE, ALONE, 0, 1, 0, 0, 1.0, scale, 1.0)], POINTS, 1.0)
    v, gamma, place = 0.7, math.exp(-1.0 / scale), filters.layout.drift
    covariance = np.zeros((filters.layout.size,) * 2)
    covariance[place, place] = v
    told = told_of(filters.layout, NOISE, 300)
    found = predictable(covariance, told)[place, place]
    fresh = 1.0 - gamma**2
    half = fresh + NOISE - gamma**2 * NOISE
    x = 0.5 * (half + math.sqrt(half**2 + 4 * gamma**2 * fresh * NOISE))
    # What has no variance, the constant among it, is known; the other arms tell nothing.
    assert found == pytest.approx(gamma**2 * v**2 / (gamma**2 * v + x), rel=1e-6)


def banked(steps: int = 12) -> FilterEnsemble:
    rng, bank = np.random.default_rng(5), FilterEnsemble.of(POINTS, 0.1)
    for t in range(steps):
        rows = rng.choice(len(POINTS), 3, replace=False)
        bank = bank.observe(rows, rng.normal(size=3) + rows, None, float(t))
    return bank


def test_what_is_forgotten_at_once_is_not_explored() -> None:
    """The means of the places are known, and each differs from its mean for less than a step."""
    model = ModelSpec(ALONE, ALONE, 1.0, 0.7, 0.0, 0.01, math.inf, 0.05, 1.0)
    bank, rng = FilterEnsemble.of(POINTS, 0.01, [model]), np.random.default_rng(1)
    for t in range(40):
        values = 0.5 * np.arange(len(POINTS)) + 0.8 * rng.normal(size=len(POINTS))
        bank = bank.observe(np.arange(len(POINTS)), values, None, float(t))
    best = int(bank.predict(40.0).mean.argmax())
    rules = predictive.sampling(predictive=True), predictive.sampling(predictive=False)
    same = [np.mean([rule(bank, 40.0, rng) == best for _ in range(200)]) for rule in rules]
    assert same[0] > 0.9
    assert same[1] < 0.8


def test_a_width_of_what_is_predictable_is_a_share_of_it() -> None:
    """With one model and no transform it is the root of the predictable variance."""
    bank, rng = FilterEnsemble.of(POINTS, 0.1, [MODELS["rough"]]), np.random.default_rng(2)
    for t in range(20):
        rows = rng.choice(len(POINTS), 2, replace=False)
        bank = bank.observe(rows, rng.normal(size=2), None, float(t))
    (later,) = (each.moved(1.0) for each in bank.filters)
    squared, H = float(later.variance[0, 0]), later.layout.rows(np.arange(len(POINTS)))
    told = told_of(later.layout, 0.2 + 0.1 / squared)
    variance = squared * np.diag(H @ predictable(later.covariance[0], told) @ H.T)
    mean = bank.predict(20.0).mean
    for width in (0.5, 2.0, 20.0):
        expected = (mean + width * bank.widening * np.sqrt(variance)).argmax()
        assert predictive.predictive_width(width)(bank, 20.0, rng) == expected


def test_rules_see_the_bank() -> None:
    bank, rng = banked(), np.random.default_rng(0)
    forecast = bank.predict(12.0)
    upper = forecast.mean + 1.0 * forecast.learnable
    assert decisions.wide(1.0)(bank, 12.0, rng) == upper.argmax()
    best = played.best_mean(bank, 12.0, rng)
    assert decisions.wide(0.0)(bank, 12.0, rng) == best
    assert predictive.predictive_width(0.0)(bank, 12.0, rng) == best


def test_a_lifetime_of_one_decision_is_the_plan_next(monkeypatch: pytest.MonkeyPatch) -> None:
    bank, rng = banked(), np.random.default_rng(0)
    monkeypatch.setattr(decisions, "AHEAD", (1,))
    for asked in range(5):
        found = decisions.lifetime(4)(bank, 12.0, 3, asked, rng)
        np.testing.assert_array_equal(found, questions(bank.beliefs(12.0), 3, asked))


def test_a_lifetime_adds_the_gains_of_later_decisions() -> None:
    bank, rng = banked(), np.random.default_rng(0)
    ahead = [bank.beliefs(11.0 + h) for h in decisions.AHEAD]

    def value(beliefs: list[JointPosterior], row: int) -> float:
        every = np.arange(len(POINTS))
        gains = (
            each.gains([row], every)[0] / math.sqrt(h)
            for each, h in zip(beliefs, decisions.AHEAD, strict=True)
        )
        return float(sum(gains))

    first, *_ = decisions.lifetime(None)(bank, 12.0, 2, 0, rng)
    assert first == np.argmax([value(ahead, row) for row in range(len(POINTS))])


@pytest.mark.parametrize("rule", [*decisions.DECISIONS, *decisions.QUESTIONS])
def test_every_rule_plays(rule: str) -> None:
    values = np.random.default_rng(2).normal(size=(12, len(POINTS)))
    problem = TableProblem(values, POINTS, "made", "1", 0.1)
    found = decisions.regret(problem, rule, answers=2, seeds=2)
    assert found.shape == (2,)
    assert (found > 0).all()
    np.testing.assert_array_equal(found, decisions.regret(problem, rule, answers=2, seeds=2))
