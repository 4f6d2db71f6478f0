"""Answers of an expert that states no variance: how the bandit and the wrappers use them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tvbandits import Answers, Bandit, Candidates, ExpertError, load, policies
from tvbandits.experts import Budgeted, Calibrated, Retrying, check_expert
from tvbandits.validation import Array

SITES = Candidates(np.linspace(0.0, 6.0, 13)[:, None])


def level(X: Array, t: float) -> Array:
    return np.asarray(np.sin(X[:, 0] + 0.05 * t))


class Gauge:
    """An expert that states the given variance, or none."""

    def __init__(self, variance: float | None = None) -> None:
        self.variance = variance

    def query(self, X: Array, t: float) -> Answers:
        return Answers(level(X, t), self.variance, cost=float(len(X)))


def played(expert: Any, noise_variance: float | None, steps: int = 12) -> Bandit:
    kernel = RBF(1.0)
    bandit = policies.sparq_gp_ucb(
        SITES, kernel=kernel, noise_variance=noise_variance, expert=expert, queries_per_step=2
    )
    for t in range(1, steps + 1):
        X = bandit.ask(float(t))
        bandit.tell(X, level(X, t), float(t))
    return bandit


def test_bandit_gives_answers_without_a_variance_its_own_noise_variance() -> None:
    unstated, stated = played(Gauge(), 0.04), played(Gauge(0.04), 0.04)
    assert unstated.info.queries.total_answered > 0
    for one, other in zip(unstated.predict(SITES.X), stated.predict(SITES.X), strict=True):
        np.testing.assert_array_equal(one, other)


def test_bandit_gives_answers_without_a_variance_its_learned_noise_variance(tmp_path: Path) -> None:
    bandit = played(Gauge(), None)
    assert bandit.noise is not None
    assert bandit.noise.variance > 0
    assert np.isnan(bandit.state.answers.variance).all()
    bandit.save(tmp_path / "bandit.tvb")
    trusted = {f"{Gauge.__module__}:Gauge": Gauge()}
    again = load(tmp_path / "bandit.tvb", trusted)
    np.testing.assert_array_equal(again.predict(SITES.X), bandit.predict(SITES.X))


def test_answers_refuse_a_nan_variance_of_a_finite_value() -> None:
    assert Answers([1.0, np.nan]).variance is None
    assert Answers([1.0, np.nan], [0.1, np.nan]).answered.tolist() == [True, False]
    assert_refused(ValueError, "variance must be finite", Answers, [1.0], np.nan)
    assert_refused(ValueError, "variance must be finite", Answers, [1.0, 2.0], [0.1, np.nan])


@pytest.mark.parametrize("wrap", [Retrying, lambda expert: Budgeted(expert, per_step=2, cost=1.0)])
def test_retrying_and_budgeted_return_answers_without_a_variance(wrap: Any) -> None:
    answers = wrap(Gauge()).query(SITES.X[:3], 1.0)
    assert answers.variance is None
    assert answers.answered.sum() >= 1


def test_budgeted_refuses_an_expert_that_states_variances_for_only_some_answers() -> None:
    class Changing(Gauge):
        def query(self, X: Array, t: float) -> Answers:
            answers = super().query(X, t)
            self.variance = 0.1
            return answers

    expert = Budgeted(Changing(), total=10, cost=100.0)
    with pytest.raises(ExpertError, match="variances with all of its answers or with none"):
        expert.query(SITES.X[:3], 1.0)


def test_calibrated_refuses_an_expert_that_states_no_variance() -> None:
    with pytest.raises(ExpertError, match="variance="):
        Calibrated(Gauge()).query(SITES.X[:3], 1.0)


def test_check_expert_passes_an_expert_that_states_no_variance() -> None:
    assert check_expert(Gauge(), SITES.X[:3], t=1.0, outside=[[100.0]]).success
