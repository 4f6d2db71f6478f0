"""Rules that `python -m benchmarks.decisions` holds side by side, against dense Gaussian processes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import bank as played
from benchmarks import decisions, predictive
from tvbandits.datasets import TableProblem
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.queries.plans import questions

POINTS = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 0.9], [0.8, 0.7], [0.1, 0.5]])


def banked(steps: int = 12) -> FilterEnsemble:
    rng, bank = np.random.default_rng(5), FilterEnsemble.of(POINTS, 0.1)
    for t in range(steps):
        rows = rng.choice(len(POINTS), 3, replace=False)
        bank = bank.observe(rows, rng.normal(size=3) + rows, None, float(t))
    return bank


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


@pytest.mark.parametrize("rule", [*decisions.DECISIONS, *decisions.QUESTIONS])
def test_every_rule_plays(rule: str) -> None:
    values = np.random.default_rng(2).normal(size=(12, len(POINTS)))
    problem = TableProblem(values, POINTS, "made", "1", 0.1)
    found = decisions.regret(problem, rule, answers=2, seeds=2)
    assert found.shape == (2,)
    assert (found > 0).all()
    np.testing.assert_array_equal(found, decisions.regret(problem, rule, answers=2, seeds=2))
