"""`predict` widens deviations of a learned kernel by the errors of earlier predictions."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.players import NOISE, SITES, decision_deviation
from tests.helpers.recipes import build
from tvbandits import Bandit, Box, Candidates, Options, StateSpace, policies
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.gp.calibration import IntervalCalibration
from tvbandits.validation import Array

INTERVAL = Box([(0.0, 3.0), (0.0, 3.0)])


def reward(X: Array, t: float) -> Array:
    """Return a reward that changes faster and faster, so that an early fit is over-confident."""
    level = np.sin(2.0 * X[:, 0] + (t / 12.0) ** 2) + 0.3 * np.cos(X.sum(axis=1) + t / 3.0)
    return np.asarray(5.0 + level + 0.1 * keyed_normal(0, 1, X, t))


def learning_bandit(domain: Any = SITES, **more: Any) -> Bandit:
    options = {} if isinstance(domain, Box) else {"posterior": StateSpace()}
    values = {"noise_variance": NOISE, **options, **more}
    bandit: Bandit = build(policies.adaptive_gp_ucb, domain, **values)
    return bandit


def play(bandit: Bandit, times: range, sign: float = 1.0) -> Bandit:
    for t in times:
        X = bandit.ask(t)
        bandit.tell(X, sign * reward(X, t), t)
    return bandit


def deviation_factor(bandit: Bandit) -> float:
    return bandit.state.model.calibration.deviation_factor


@pytest.mark.parametrize("domain", [SITES, INTERVAL], ids=["candidates", "box"])
def test_calibration_compares_rewards_at_new_places_with_earlier_predictions(domain: Any) -> None:
    bandit, plain, last, count = learning_bandit(domain), IntervalCalibration(), None, 0
    for t in range(1, 46):
        x = bandit.ask(t)
        y = reward(x, t)
        mean, deviation = bandit.predict(x, t)[0], float(decision_deviation(bandit, x, t)[0])
        if bandit.info.model.fits and last is not None and (x != last).any():
            # `predict` widens deviations; the calibration uses those before.
            plain, count = plain.update(float(y[0] - mean[0]), deviation**2 + NOISE), count + 1
        bandit.tell(x, y, t)
        last = x
    assert count > 8
    assert deviation_factor(bandit) == pytest.approx(plain.deviation_factor, rel=1e-9)
    assert deviation_factor(bandit) > 1.0


@pytest.mark.parametrize("late", [False, True])
def test_calibration_ignores_how_rewards_are_grouped_into_tells(late: bool) -> None:
    X = SITES.X[[0, 3, 3, 7, 1, 1]]
    t = np.array([31.0, 33.0, 32.0, 35.0, 34.0, 36.0] if late else [31.0, 32, 32, 33, 34, 35])
    y = np.concatenate([reward(X[[i]], t[i]) for i in range(len(t))])
    together, one_by_one = (play(learning_bandit(), range(1, 31)) for _ in range(2))
    before = together.state.model.calibration
    together.tell(X, y, t)
    for i in range(len(t)):
        one_by_one.tell(X[[i]], y[[i]], t[i])
    assert together.state.model.calibration == one_by_one.state.model.calibration != before


def test_calibration_ignores_many_late_rewards() -> None:
    bandit = play(learning_bandit(), range(1, 46))
    before = bandit.state.model.calibration
    bandit.tell(SITES.X[:8], np.ones(8), 20.5 + np.arange(8.0))
    assert bandit.state.model.calibration == before


def test_calibration_is_empty_without_a_learned_kernel() -> None:
    kernel = RBF(1.0)
    for bandit in (
        policies.gp_ucb(SITES, kernel=kernel, noise_variance=NOISE),
        policies.w_gp_ucb(SITES, kernel=kernel, noise_variance=NOISE, discount=0.95),
        policies.adaptive_gp_ucb(
            SITES, noise_variance=NOISE, options=Options(posterior="ensemble")
        ),
    ):
        assert play(bandit, range(1, 21)).state.model.calibration == IntervalCalibration()
    few = play(learning_bandit(), range(1, 4))
    assert few.info.model.fits == 0
    assert few.state.model.calibration == IntervalCalibration()


def test_calibration_widens_predict_but_not_ask() -> None:
    bandit, uncalibrated = play(learning_bandit(), range(1, 41)), learning_bandit()
    factor = deviation_factor(bandit)
    state = pickle.loads(pickle.dumps(bandit.state))
    state = state.with_model(calibration=IntervalCalibration())
    uncalibrated = Bandit.from_state(bandit.recipe, state)
    (mean, widened), (plain_mean, plain_deviation) = (
        each.predict(SITES.X, 42.0) for each in (bandit, uncalibrated)
    )
    np.testing.assert_array_equal(mean, plain_mean)
    np.testing.assert_allclose(widened, factor * plain_deviation, rtol=1e-12)
    np.testing.assert_array_equal(bandit.ask(), uncalibrated.ask())
    assert bandit.info.model.deviation_factor == factor


def test_from_state_with_another_kernel_resets_the_calibration() -> None:
    bandit = play(learning_bandit(), range(1, 41))
    assert deviation_factor(bandit) > 1.0
    same = Bandit.from_state(bandit.recipe, bandit.state)
    assert same.state.model.calibration == bandit.state.model.calibration
    other = policies.gp_ucb(SITES, kernel=RBF(1.0), noise_variance=NOISE).recipe
    assert Bandit.from_state(other, bandit.state).state.model.calibration == IntervalCalibration()


@pytest.mark.parametrize("posterior", ["ensemble", StateSpace()], ids=["ensemble", "fit"])
def test_predict_far_from_all_readings_is_wider_than_for_decisions(posterior: Any) -> None:
    line = Candidates(np.linspace(0.0, 30.0, 100)[:, None])
    bandit = policies.adaptive_gp_ucb(
        line, noise_variance=NOISE, options=Options(posterior=posterior)
    )
    for t in range(1, 21):
        X = line.X[[t % 5]]
        bandit.tell(X, np.sin(2.0 * X[:, 0] + t / 9.0), t)
    ratio = bandit.predict(line.X, 21.0)[1] / decision_deviation(bandit, line.X, 21.0)
    assert ratio[-1] > 1.1
    assert ratio[-1] >= ratio[2]
    bandit.ask(21.0)
    assert 0.5 <= bandit.info.model.coverage <= 1.0
