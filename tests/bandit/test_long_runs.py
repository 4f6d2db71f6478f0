"""Long runs: continuing from a pickle, bounded histories, and warnings of expensive steps."""

import pickle
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.attack.dense import ExactAbove
from tests.helpers.refusals import assert_refused
from tvbandits import (
    Answers,
    Bandit,
    Box,
    Candidates,
    Every,
    ExpensiveWarning,
    Options,
    StateSpace,
    policies,
)
from tvbandits.bandit import inference, options
from tvbandits.gp import predictions
from tvbandits.gp.ensemble.posterior import ModelEnsemble
from tvbandits.validation import Array

LINE = Candidates(np.linspace(-10.0, 10.0, 21)[:, None])
KERNEL = RBF(3.0)


class ExactExpert:
    """An expert that answers with the true reward."""

    def query(self, X: Any, t: float) -> Answers:
        return Answers(np.sin(X[:, 0] + t / 30), np.full(len(X), 0.01))


SHORT = Every(steps=10, observations=40, iterations=2, remembered=60)

MAKERS: dict[str, Any] = {
    "window": partial(policies.sw_gp_ucb, LINE, kernel=KERNEL, noise_variance=0.01, window=12),
    "weights": partial(policies.w_gp_ucb, LINE, kernel=KERNEL, noise_variance=0.01, discount=0.4),
    "resets": partial(policies.r_gp_ucb, LINE, kernel=KERNEL, noise_variance=0.01, reset_every=13),
    "filter": partial(
        policies.tv_gp_ucb,
        LINE,
        kernel=KERNEL,
        noise_variance=0.01,
        forgetting_rate=0.03,
        options=Options(posterior=StateSpace()),
    ),
    "exact filter": partial(
        policies.tv_gp_ucb, LINE, kernel=RBF(9.0), noise_variance=0.01, forgetting_rate=0.03
    ),
    "sparq": partial(
        policies.sparq_gp_ucb,
        LINE,
        kernel=KERNEL,
        noise_variance=0.01,
        expert=ExactExpert(),
        queries_per_step=1.0,
    ),
    "learned": lambda: policies.adaptive_gp_ucb(
        LINE, noise_variance=0.01, options=Options(refit=SHORT)
    ),
    "frugal": lambda: policies.frugal_gp_ucb(
        LINE, noise_variance=0.01, expert=ExactExpert(), options=Options(refit=SHORT)
    ),
    "merged": lambda: policies.gp_ucb(LINE, kernel=KERNEL, noise_variance=0.01),
}


def play(bandit: Bandit, start: int, end: int, with_predictions: bool = False) -> list[Any]:
    """Return points and predictions of some steps with late rewards; `predict` may also run between."""
    rows = []
    for step in range(start, end):
        t = float(step)
        X = bandit.ask(t)
        y = np.sin(X[:, 0] + t / 30)
        if with_predictions and step % 3 == 0:
            bandit.predict(LINE.X[:2], t + 1)
            bandit.recommend(t + 2)
        bandit.tell(X, y, t - 2.5 if step % 20 == 0 else t)
        rows.append((X.tobytes(), *(part.tobytes() for part in bandit.predict(LINE.X[::5], t + 1))))
    return rows


@pytest.mark.parametrize("name", MAKERS)
def test_bandit_from_a_pickled_state_plays_the_same(name: str) -> None:
    steps = 60 if name == "frugal" else 110
    bandit = MAKERS[name]()
    play(bandit, 1, steps)
    pickled_state = pickle.dumps(bandit.state)
    expected = play(bandit, steps, steps + 25)
    continued = Bandit.from_state(MAKERS[name]().recipe, pickle.loads(pickled_state))
    assert play(continued, steps, steps + 25, with_predictions=True) == expected


def test_refit_with_bounded_memory_bounds_the_rows_of_the_posterior() -> None:
    bandit = MAKERS["learned"]()
    most = 0
    for step in range(1, 150):
        bandit.tell(bandit.ask(float(step)), [np.sin(step)], float(step))
        most = max(most, bandit.info.posterior.in_use)
        bandit.ask(float(step) + 1)
        bandit.drop(bandit.pending)
        assert bandit.info.posterior.in_use + bandit.info.posterior.forgotten == step
    assert most <= SHORT.remembered + 2 * SHORT.steps


@pytest.mark.parametrize("name", ["window", "weights", "resets", "sparq"])
def test_condition_drops_expired_rewards_without_a_change_of_results(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has late rewards and predictions of later times."""
    plain, quick = MAKERS[name](), MAKERS[name]()
    expected = play(plain, 1, 150, with_predictions=True)
    monkeypatch.setattr(inference, "CONFIG", replace(inference.CONFIG, aged_rewards=0))
    assert play(quick, 1, 150, with_predictions=True) == expected
    assert quick._inference._expired_memo[1] > 90


KEEP = 40

BOUNDED: dict[str, Any] = {
    **{
        name: partial(MAKERS[name], options=Options(mean=0.0))
        for name in ("window", "weights", "resets", "exact filter")
    },
    "filter": partial(MAKERS["filter"], options=Options(mean=0.0, posterior=StateSpace())),
    "events": lambda: policies.et_gp_ucb(
        LINE, kernel=KERNEL, noise_variance=1e-4, options=Options(mean=0.0)
    ),
    "sparq": lambda: policies.sparq_gp_ucb(
        LINE, kernel=KERNEL, noise_variance=0.01, expert=ExactExpert(), options=Options(mean=0.0)
    ),
    "ensemble": lambda: policies.adaptive_gp_ucb(
        LINE, noise_variance=0.01, options=Options(posterior=ModelEnsemble(season=None))
    ),
    "frugal": lambda: policies.frugal_gp_ucb(
        LINE, noise_variance=0.01, expert=ExactExpert(), options=Options(season=None)
    ),
}


def play_in_order(bandit: Bandit, steps: int) -> tuple[Array, list[int]]:
    """Return the points of a run in which every seventh play fails, and row counts of the state."""
    X, kept_rows = [], []
    for step in range(1, steps + 1):
        X.append(bandit.ask(float(step)))
        y = np.sin(X[-1][:, 0] + step / 30)
        bandit.tell(X[-1], np.where(step % 7, y, np.nan), float(step))
        state = bandit.state
        rows = 0 if state.posterior is None else len(state.posterior.summary.data)
        kept_rows.append(max(len(state.rewards), len(state.failed) * 6, rows))
    return np.concatenate(X), kept_rows


@pytest.fixture
def short_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow short histories, and calibrate deviations on few rows."""
    monkeypatch.setattr(options, "SHORTEST_HISTORY", KEEP)
    monkeypatch.setattr(predictions, "CONFIG", replace(predictions.CONFIG, most_tests=KEEP))


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.usefixtures("short_histories")
def test_max_history_drops_old_rows_without_a_change_of_decisions(name: str) -> None:
    whole, bounded = BOUNDED[name](), BOUNDED[name]().with_options(max_history=KEEP)
    steps = 91 if name == "frugal" else 126
    expected, _ = play_in_order(whole, steps)
    X, kept_rows = play_in_order(bounded, steps)
    np.testing.assert_array_equal(X, expected)
    # With an expert, the posterior contains answers, too.
    assert max(kept_rows) <= 2 * KEEP * (5 if name == "frugal" else 1)
    failed = steps // 7
    for each in (bounded, whole):
        assert (each.info.readings, each.info.failed) == (steps - failed, failed)
    tail = whole.history.tail(KEEP).reset_index(drop=True)
    pd.testing.assert_frame_equal(bounded.history.tail(KEEP).reset_index(drop=True), tail)
    np.testing.assert_array_equal(bounded.predict(LINE.X), whole.predict(LINE.X))
    continued = Bandit.from_state(bounded.recipe, pickle.loads(pickle.dumps(bounded.state)))
    np.testing.assert_array_equal(continued.ask(steps + 1.0), whole.ask(steps + 1.0))


@pytest.mark.usefixtures("short_histories")
def test_max_history_drops_points_of_a_box_with_their_rewards() -> None:
    bandit = policies.sw_gp_ucb(
        Box([(0.0, 1.0)]), kernel=RBF(0.3), noise_variance=0.01, window=5
    ).with_options(max_history=KEEP)
    for t in range(1, 201):
        bandit.tell([[t / 200]], [1.0], float(t))
    assert len(bandit.state.visited) == len(bandit.state.rewards) <= 2 * KEEP
    assert bandit.recommend().shape == (1,)


@pytest.mark.usefixtures("short_histories")
def test_max_history_leaves_rows_for_fits_of_the_kernel() -> None:
    bandit = MAKERS["learned"]().with_options(max_history=KEEP)
    X, kept_rows = play_in_order(bandit, 150)
    assert max(kept_rows) <= 2 * KEEP
    assert np.isfinite(X).all()
    assert bandit.info.model.fits > 10


@pytest.mark.usefixtures("short_histories")
def test_max_history_keeps_rewards_that_the_filter_has_not_processed() -> None:
    bandit = BOUNDED["filter"]().with_options(max_history=KEEP)
    for t in range(1, 301):
        bandit.tell([[float(t % 3)]], [1.0], float(t))
    assert len(bandit.state.rewards) == 300
    for t in range(301, 402):
        bandit.tell(bandit.ask(float(t)), [1.0], float(t))
    assert len(bandit.state.rewards) <= 2 * KEEP


@pytest.mark.parametrize("name", ["window", "filter", "ensemble"])
@pytest.mark.usefixtures("short_histories")
def test_correct_with_max_history_names_readings_that_have_left(name: str) -> None:
    bandit = BOUNDED[name]().with_options(max_history=KEEP)
    play_in_order(bandit, 150)
    row_count, readings = len(bandit.state.rewards), bandit.info.readings
    x, t = bandit.state.rewards.X[-2:-1], bandit.state.rewards.t[-2]
    bandit.correct(x, [9.0], t)
    assert bandit.state.rewards.y[-2] == 9.0
    assert (len(bandit.state.rewards), bandit.info.readings) == (row_count, readings)
    with pytest.raises(ValueError, match=r"readings from before t = \d+ are no longer stored"):
        bandit.correct(x, [9.0], 3.0)
    bandit.retract(x, t)
    assert bandit.info.readings == readings - 1
    assert len(bandit.ask(151.0)) == 1


@pytest.mark.usefixtures("short_histories")
def test_tell_with_max_history_accepts_a_late_reward() -> None:
    for name in ("window", "filter", "ensemble", "sparq"):
        bandit = BOUNDED[name]().with_options(max_history=KEEP)
        play_in_order(bandit, 150)
        readings = bandit.info.readings
        bandit.tell(LINE.X[:1], [0.5], 2.0)
        assert bandit.info.readings == readings + 1
        assert np.isfinite(bandit.predict(LINE.X, 151.0)[1]).all()
        bandit.ask(151.0)


@pytest.mark.parametrize(
    "maker",
    [
        lambda: policies.gp_ucb(LINE, kernel=KERNEL, noise_variance=0.01),
        lambda: policies.gp_ucb(
            LINE, kernel=KERNEL, noise_variance=0.01, options=Options(posterior="nystrom")
        ),
        lambda: policies.gp_ucb(
            LINE, kernel=KERNEL, noise_variance=0.01, options=Options(posterior=ExactAbove())
        ),
        lambda: policies.tv_gp_ucb(
            Box([(0.0, 1.0)]), kernel=RBF(0.3), noise_variance=0.01, forgetting_rate=0.1
        ),
    ],
)
def test_max_history_is_refused_if_every_reward_counts(maker: Any) -> None:
    bandit = maker()
    assert_refused(ValueError, "history", bandit.with_options, max_history=1000)
    assert bandit.recipe.options.max_history is None


@pytest.mark.parametrize("wrong", [0, 499, 1.5, "all"])
def test_max_history_refuses_invalid_lengths(wrong: Any) -> None:
    with pytest.raises(ValueError, match="history must"):
        policies.sw_gp_ucb(LINE, kernel=KERNEL, noise_variance=0.01, window=12).with_options(
            max_history=wrong
        )


@pytest.mark.parametrize("rate", [None, 0.1])
def test_ask_warns_once_of_an_expensive_posterior(
    rate: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "CONFIG", replace(inference.CONFIG, expensive_rows=12))
    box, X = Box([(0.0, 1.0)]), np.linspace(0.0, 1.0, 12)[:, None]
    drifts = {} if rate is None else {"forgetting_rate": rate}
    recipe = policies.gp_ucb if rate is None else policies.tv_gp_ucb
    bandit = recipe(box, kernel=RBF(0.3), noise_variance=0.01, **drifts)
    bandit.tell(X, np.sin(X[:, 0]), 1)
    bandit.ask(2)
    bandit.drop(bandit.pending)
    bandit.tell([[0.5]], [0.5], 2)
    before = bandit.state
    match = "13 rows" if rate is None else "13 rows.*StateSpace"
    assert_refused(ExpensiveWarning, match, bandit.ask, 3)  # warnings are errors here
    assert bandit.state == before
    bandit.ask(3)
