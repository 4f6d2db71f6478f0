from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

import tvbandits
from tvbandits import Bandit, Box, Candidates, Dataset, Options, policies
from tvbandits.experts import CallableExpert
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.gp.noise import infer_noise
from tvbandits.policies.rivals.multi_scale import Thresholds
from tvbandits.validation import Array

DOMAIN = Candidates(np.linspace(0.0, 10.0, 41)[:, None])
TRUE_NOISE = 0.04


def value(X: Array, t: float) -> Array:
    return np.asarray(5.0 + np.sin(X[:, 0] + t / 30.0))


EXPERT = CallableExpert(value, 0.01)

MAKERS: dict[str, Callable[[], Bandit]] = {
    "gp-ucb": lambda: policies.gp_ucb(DOMAIN, kernel=RBF(1.5), noise_variance=None),
    "fixed mean": lambda: policies.gp_ucb(
        DOMAIN, kernel=RBF(1.5), noise_variance=None, options=Options(mean=5.0)
    ),
    "r-gp-ucb": lambda: policies.r_gp_ucb(
        DOMAIN, kernel=RBF(1.5), noise_variance=None, reset_every=12
    ),
    "sw-gp-ucb": lambda: policies.sw_gp_ucb(
        DOMAIN, kernel=RBF(1.5), noise_variance=None, window=16
    ),
    "w-gp-ucb": lambda: policies.w_gp_ucb(DOMAIN, kernel=RBF(1.5), noise_variance=None),
    "tv-gp-ucb": lambda: policies.tv_gp_ucb(
        DOMAIN, kernel=RBF(1.5), noise_variance=None, initial_points=20
    ),
    "ui-gp-ucb": lambda: policies.ui_gp_ucb(DOMAIN, kernel=RBF(1.5), noise_variance=None),
    "et-gp-ucb": lambda: policies.et_gp_ucb(DOMAIN, kernel=RBF(1.5), noise_variance=None),
    "sparq-gp-ucb": lambda: policies.sparq_gp_ucb(
        DOMAIN, kernel=RBF(1.5), noise_variance=None, expert=EXPERT
    ),
    "bkb": lambda: policies.bkb(DOMAIN, kernel=RBF(1.5), noise_variance=None),
    "bbkb": lambda: policies.bbkb(DOMAIN, kernel=RBF(1.5), noise_variance=None),
    "thompson": lambda: policies.thompson(DOMAIN, kernel=RBF(1.5), noise_variance=None),
    "adaptive": lambda: policies.adaptive_gp_ucb(DOMAIN),
    "fitted": lambda: policies.adaptive_gp_ucb(DOMAIN, options=Options(refit=True)),
    "box": lambda: policies.adaptive_gp_ucb(Box([(0, 10), (0, 1)])),
    "frugal": lambda: policies.frugal_gp_ucb(DOMAIN, expert=EXPERT, queries_per_step=1),
    "minimize": lambda: policies.gp_ucb(
        DOMAIN, kernel=RBF(1.5), noise_variance=None, minimize=True
    ),
}


def play(bandit: Bandit, first: int, last: int) -> Array:
    """Return the points of the steps from the first to the last."""
    points = []
    for t in range(first, last + 1):
        X = bandit.ask(t)
        rng = np.random.default_rng([t, 5])
        bandit.tell(X, value(X, t) + TRUE_NOISE**0.5 * rng.standard_normal(len(X)), t)
        points.append(X)
    return np.concatenate(points)


@pytest.mark.parametrize("name", MAKERS)
def test_bandit_with_learned_noise_plays_as_with_that_noise_given(name: str) -> None:
    bandit = MAKERS[name]()
    play(bandit, 1, 18)
    recipe = replace(bandit.recipe, noise_variance=bandit.noise.variance)
    fixed = Bandit.from_state(recipe, bandit.state)
    assert not np.isnan(fixed.state.rewards.variance).any()
    for t in range(19, 27):
        np.testing.assert_array_equal(play(bandit, t, t), play(fixed, t, t))
        if bandit.noise.variance != fixed.noise.variance:
            break  # the noise was learned again
    assert t >= 20


@pytest.mark.parametrize("name", ["gp-ucb", "sw-gp-ucb", "adaptive"])
def test_learned_noise_ignores_a_constant_added_to_all_rewards(name: str) -> None:
    plain, shifted = MAKERS[name](), MAKERS[name]()
    for t, y in enumerate([5.25, 5.25, 4.5], start=1):
        plain.tell([[3.0 + t]], [y], t)
        shifted.tell([[3.0 + t]], [y + 2.0**20], t)
        assert shifted.noise.variance == pytest.approx(plain.noise.variance)
        mean, deviation = plain.predict(DOMAIN.X, t + 1)
        prediction = shifted.predict(DOMAIN.X, t + 1)
        np.testing.assert_allclose(prediction, (mean + 2.0**20, deviation), rtol=1e-6)


RIVALS: dict[str, dict[str, Any]] = {
    "predictive_sampling": {"forgetting_rate": 0.03},
    "ada_opkb": {},
    "lb_gp_ucb": {},
}


@pytest.mark.parametrize("name", [*RIVALS, "w_dbo"])
def test_rival_policies_learn_the_noise(name: str, tmp_path: Path) -> None:
    kernel: dict[str, Any] = {} if name == "w_dbo" else {"kernel": RBF(1.5)}
    options = RIVALS.get(name, {})
    bandit = getattr(policies, name)(DOMAIN, **kernel, noise_variance=None, **options)
    play(bandit, 1, 20)
    noise = bandit.info.model.noise
    assert noise == bandit.noise
    assert noise.readings == 16
    assert noise.low <= TRUE_NOISE <= noise.high
    bandit.save(tmp_path / "rival.saved")
    loaded = tvbandits.load(tmp_path / "rival.saved")
    np.testing.assert_array_equal(play(loaded, 21, 34), play(bandit, 21, 34))
    assert loaded.noise == bandit.noise
    assert loaded.noise.readings == 32


def test_master_starts_copies_with_the_learned_noise() -> None:
    bandit = policies.master(
        DOMAIN, kernel=RBF(1.5), noise_variance=None, thresholds=Thresholds(20)
    )
    play(bandit, 1, 20)
    assert bandit.rule.block.copies[-1].bandit.noise.variance == bandit.noise.variance


def test_master_tells_copies_the_given_noise() -> None:
    bandit = policies.master(
        DOMAIN, kernel=RBF(1.5), noise_variance=0.25, thresholds=Thresholds(20)
    )
    play(bandit, 1, 5)
    variances = [copy.bandit.state.rewards.variance for copy in bandit.rule.block.copies]
    assert {0.25} == {float(each) for each in np.concatenate(variances)}
    assert set(bandit.history["variance"].dropna()) == {0.25}


@pytest.mark.parametrize("name", ["gp-ucb", "sw-gp-ucb", "tv-gp-ucb", "adaptive", "fitted"])
def test_noise_interval_contains_the_true_noise(name: str) -> None:
    bandit = MAKERS[name]()
    play(bandit, 1, 64)
    noise = bandit.noise
    assert noise.low <= TRUE_NOISE <= noise.high
    assert noise.variance == pytest.approx(TRUE_NOISE, rel=0.9)
    assert bandit.info.model.noise == noise
    assert f"{noise.variance:.2g}" in repr(bandit.info)


def test_noise_is_estimated_from_all_rewards() -> None:
    bandit = MAKERS["gp-ucb"]()
    play(bandit, 1, 8)
    assert bandit.tell(np.tile([[2.0], [3.0]], (4, 1)), np.arange(8.0), 3.0).readings == 16
    assert bandit.noise == infer_noise(RBF(1.5), bandit.state.rewards)
    assert bandit.noise.readings == 16


def test_noise_is_learned_from_answers_without_a_variance() -> None:
    bandit = policies.sparq_gp_ucb(DOMAIN, kernel=RBF(1.5), noise_variance=None, expert=None)
    bandit.tell([[1.0]] * 3, [0.1, 0.3, 0.2], 1)
    bandit.questions()
    bandit.answer([[1.0], [2.0]], [0.2, 0.4])
    bandit.answer([[3.0]], [0.4], noise_variance=0.5)
    bandit.tell([[1.0]], [0.1], 2)
    assert bandit.noise.readings == 6
    history = bandit.history
    variances = history[history["kind"] == "answer"]["variance"].tolist()
    assert variances == [bandit.noise.variance, bandit.noise.variance, 0.5]


def test_tell_keeps_a_given_noise_variance() -> None:
    bandit = MAKERS["gp-ucb"]()
    bandit.tell([[1.0], [2.0]], [5.1, 5.3], 1, noise_variance=[0.3, 0.2])
    assert bandit.noise.readings == 0
    bandit.tell([[1.0], [2.0]], [5.1, 5.3], 2)
    assert bandit.history["variance"].tolist()[:2] == [0.3, 0.2]
    assert bandit.noise.readings == 2


@pytest.mark.parametrize("name", ["gp-ucb", "adaptive", "sparq-gp-ucb"])
def test_correct_updates_the_learned_noise(name: str) -> None:
    slip, right = MAKERS[name](), MAKERS[name]()
    for bandit, first in ((slip, 50.0), (right, 5.2)):
        for t, y in enumerate([5.0, first, 5.4, 4.9, 5.6], start=1):
            bandit.tell([[float(t)]], [y], t)
    slip.correct([[2.0]], [5.2], 2)
    assert slip.noise == right.noise
    np.testing.assert_array_equal(slip.state.rewards.y, right.state.rewards.y)
    assert np.isnan(slip.state.rewards.variance).all()


def test_given_noise_has_an_interval_of_width_zero() -> None:
    noise = policies.gp_ucb(DOMAIN, kernel=RBF(1.5), noise_variance=0.25).noise
    assert (noise.low, noise.variance, noise.high) == (0.25, 0.25, 0.25)
    assert str(noise) == "0.25"


def test_from_state_switches_from_a_given_to_a_learned_noise() -> None:
    bandit = policies.gp_ucb(DOMAIN, kernel=RBF(1.5), noise_variance=0.25)
    play(bandit, 1, 5)
    other = Bandit.from_state(replace(bandit.recipe, noise_variance=None), bandit.state)
    assert other.noise.readings == 0  # those rewards had a variance
    play(other, 6, 9)
    assert other.noise.readings == 3  # of the eight rewards at the doubling
    assert other.state.rewards.variance[:5].tolist() == [0.25] * 5


def test_tell_of_nan_leaves_the_noise_unchanged() -> None:
    bandit = MAKERS["gp-ucb"]()
    before = bandit.noise
    bandit.tell([[1.0], [2.0]], [float("nan")] * 2, 1)
    assert bandit.noise == before


@pytest.mark.parametrize("size", [1e-160, 1e-300])
def test_noise_of_tiny_rewards_is_positive(size: float) -> None:
    bandit = policies.gp_ucb(
        Candidates([[0.0], [1.0], [2.0]]), kernel=RBF(1.0), noise_variance=None
    )
    for t in range(1, 10):
        X = bandit.ask(t)
        bandit.tell(X, size * (1.0 + X[:, 0] + t % 3), t)
    assert bandit.noise.variance > 0


def moving_bump(X: Array, t: float) -> Array:
    """Return a bump that moves back and forth."""
    return np.asarray(np.exp(-((X[:, 0] - 5 - 3 * np.sin(t / 15)) ** 2)))


@pytest.mark.parametrize("count", [70, 12])
def test_ensemble_replays_readings_with_a_new_noise_a_few_at_a_time(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step replays all readings, and a bandit from the state predicts the same."""
    bandit = policies.adaptive_gp_ucb(Candidates(np.linspace(0, 10, count)[:, None]))
    rng, updates = np.random.default_rng(0), 0
    observe = FilterEnsemble.update

    def count_updates(self: FilterEnsemble, *arguments: Any) -> FilterEnsemble:
        nonlocal updates
        updates += 1
        return observe(self, *arguments)

    monkeypatch.setattr(FilterEnsemble, "update", count_updates)
    variances, most = [], 0
    for t in range(1, 83):
        updates = 0
        X = bandit.ask(t)
        bandit.tell(X, moving_bump(X, t) + 0.1 * rng.standard_normal(len(X)), t)
        most = max(most, updates) if t > 40 else 0
        variances.append(bandit.state.model.noise)
        if t in (63, 64, 71, 79, 80):
            other = Bandit.from_state(bandit.recipe, bandit.state)
            Xs = bandit.recipe.domain.sample(5, np.random.default_rng(1))
            for prediction, expected in zip(
                bandit.predict(Xs, t + 1), other.predict(Xs, t + 1), strict=True
            ):
                np.testing.assert_array_equal(prediction, expected)
    assert most < 30
    # A new noise is shown at once, and used 16 rewards later.
    assert variances[78] == variances[62] != variances[79] == bandit.noise


def test_late_reading_during_a_replay_counts_at_its_own_time() -> None:
    """The oracle is a bandit from the state, which observes all readings in order of time."""
    bandit = policies.adaptive_gp_ucb(Candidates(np.linspace(0, 10, 12)[:, None]))
    rng = np.random.default_rng(0)
    for t in range(1, 82):
        X = bandit.ask(t)
        bandit.tell(X, moving_bump(X, t) + 0.1 * rng.standard_normal(1), t)
        if t == 75:
            late = bandit.recipe.domain.X[:1]
            bandit.tell(late, moving_bump(late, 20) + 0.3, 20)
    other = Bandit.from_state(bandit.recipe, replace(bandit.state, posterior=None))
    for prediction, expected in zip(bandit.predict(late, 82), other.predict(late, 82), strict=True):
        np.testing.assert_array_equal(prediction, expected)


def test_from_state_with_a_given_noise_drops_a_pending_replay() -> None:
    bandit = policies.adaptive_gp_ucb(Candidates(np.linspace(0, 10, 12)[:, None]))
    rng = np.random.default_rng(0)
    for t in range(1, 131):
        bandit.tell(bandit.recipe.domain.X[rng.integers(0, 12, 1)], rng.standard_normal(1), t)
    assert bandit.state.model.next_model is not None
    continued = Bandit.from_state(replace(bandit.recipe, noise_variance=0.5), bandit.state)
    assert continued.state.model.next_model is None
    assert continued.noise.low == continued.noise.high == 0.5


@pytest.mark.parametrize("seed", range(4))
def test_infer_noise_of_many_places_uses_differences_in_time(seed: int) -> None:
    """Places differ at any one time, and these differences are no noise."""
    rng, places, times = np.random.default_rng(seed), 40, 60
    walk = np.cumsum(rng.standard_normal((times, places)), axis=0)
    readings = walk + 0.3 * rng.standard_normal(walk.shape)
    X = np.tile(rng.uniform(0.0, 1.0, (places, 2)), (times, 1))
    t = np.arange(float(times)).repeat(places)
    data = Dataset.from_columns(X, t, readings.ravel(), np.full(times * places, np.nan))
    estimate = infer_noise(RBF(1.0), data, rival=Matern(1.0, nu=0.5))
    assert estimate.readings == 128
    assert estimate.low < 0.3**2 < estimate.high < 0.02 * walk.var()
