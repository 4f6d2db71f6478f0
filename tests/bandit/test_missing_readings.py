"""Failed readings: the play counts, but the model learns nothing."""

import math
from typing import Any

import numpy as np
import pytest

from tests.helpers.players import (
    KINDS,
    KINDS_AND_DOMAINS,
    LINE,
    WITH_MODEL,
    RecordingWaveExpert,
    make_player,
    noisy_wave,
    step,
    warm_up,
)
from tests.helpers.refusals import assert_refused
from tests.oracles.states import fingerprint
from tvbandits import Answers, Bandit, policies
from tvbandits.bandit.state import is_same_value

NAN = math.nan


@pytest.mark.parametrize("variant", KINDS)
def test_tell_of_nan_counts_the_play_and_ends_its_pending_point(variant: str) -> None:
    player = warm_up(make_player(variant))
    X = player.ask(10.0, n=3)
    info = player.tell(X[[0, 2]], [NAN, NAN], 10.0)
    assert (info.readings, info.failed) == (9, 2)
    np.testing.assert_array_equal(player.pending, X[[1]])
    table = player.history
    failed = table[table["kind"] == "failed"]
    np.testing.assert_array_equal(failed[["time", "x0"]], [[10.0, X[0, 0]], [10.0, X[2, 0]]])
    assert failed["reward"].isna().all()
    assert failed["variance"].isna().all()


@pytest.mark.parametrize("variant", [kind for kind in KINDS if kind in WITH_MODEL])
def test_tell_of_nan_leaves_predictions_unchanged(variant: str) -> None:
    """Predictions and the learned model are bitwise the same."""
    # The expert answers nothing, as queries must not matter here.
    bandit, twin = (warm_up(make_player(variant, expert=RefusingExpert())) for _ in range(2))
    for each in (bandit, twin):
        each.drop(each.ask(10.0, n=1))
    bandit.tell(LINE.X[[7]], [NAN], 10.0)
    for t in (11.0, 12.0, 15.5):
        np.testing.assert_array_equal(bandit.predict(LINE.X, t), twin.predict(LINE.X, t))
    parts = ["rewards", "answers", "model"]
    if variant != "frugal-gp-ucb":  # its plan has looked one step ahead
        parts.append("posterior")
    for part in parts:
        assert is_same_value(getattr(bandit.state, part), getattr(twin.state, part)), part


class RefusingExpert:
    """An expert that refuses all queries."""

    def query(self, X: Any, t: float) -> Answers:  # noqa: ARG002
        return Answers.none(len(X))


@pytest.mark.parametrize("variant", ["uniform", "eps-greedy", "evolution"])
def test_tell_of_nan_leaves_baselines_unchanged(variant: str) -> None:
    player, twin = (warm_up(make_player(variant)) for _ in range(2))
    player.tell(LINE.X[[7]], [NAN], 5.0)
    np.testing.assert_array_equal(step(player, 10.0, 3), step(twin, 10.0, 3))


def test_tell_of_nan_advances_the_time() -> None:
    bandit = make_player("gp-ucb")
    bandit.tell(LINE.X[[7]], [NAN], 4.0)
    assert bandit.state.time == 4.0
    assert_refused(
        ValueError, r"cannot ask for t = 3: there is a later reading, at t = 4", bandit.ask, 3.0
    )
    bandit.ask()
    assert bandit.state.record.pending_time == 5.0


def test_tell_of_nan_adds_the_point_to_the_visited_ones() -> None:
    """An expert may therefore be queried about it."""
    bandit = policies.sparq_gp_ucb(
        LINE, kernel=make_player("gp-ucb").recipe.kernel, noise_variance=0.01, expert=None
    )
    bandit.tell(LINE.X[[7]], [NAN], 1.0)
    bandit.tell(LINE.X[[7, 9]], [0.1, NAN], 2.0)
    np.testing.assert_array_equal(bandit.state.visited, LINE.X[[7, 9]])
    assert set(LINE.index(bandit.questions(2.0))) == {7, 9} or len(bandit.questions(2.0)) == 0


def test_tell_of_nan_still_queries_the_expert() -> None:
    expert = RecordingWaveExpert()
    bandit = make_player("frugal-gp-ucb", expert=expert)
    for t in map(float, range(1, 8)):
        bandit.tell(bandit.ask(t), [NAN], t)
    assert (bandit.info.readings, bandit.info.failed) == (0, 7)
    assert [time for _, time in expert.queries] == list(map(float, range(1, 8)))
    assert len(bandit.state.answers) == bandit.info.queries.total_answered > 7
    mean, _ = bandit.predict(LINE.X, 8.0)
    truth = np.sin(LINE.X[:, 0] + 0.8)
    assert np.corrcoef(mean, truth)[0, 1] > 0.8  # learned from answers alone


@pytest.mark.parametrize(("variant", "domain"), KINDS_AND_DOMAINS)
def test_tell_of_a_batch_with_nan_equals_telling_the_other_rewards(
    variant: str, domain: Any
) -> None:
    """In a batch with failures, the other rewards count as if told alone."""
    mixed, others_alone = (
        warm_up(make_player(variant, domain, RefusingExpert()), domain) for _ in range(2)
    )
    for t in (10.0, 11.0):
        X = mixed.ask(t, n=3)
        np.testing.assert_array_equal(X, others_alone.ask(t, n=3))
        y = noisy_wave(X, t)
        y[1] = NAN
        mixed.tell(X, y, t)
        others_alone.tell(X[[0, 2]], y[[0, 2]], t)
        others_alone.drop(X[[1]])
        assert mixed.info.failed == t - 9.0
    np.testing.assert_array_equal(mixed.ask(12.0), others_alone.ask(12.0))
    if isinstance(mixed, Bandit):
        assert fingerprint(mixed.state.rewards) == fingerprint(others_alone.state.rewards)
