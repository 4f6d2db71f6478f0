"""The table of rewards, answers and pending points; and the equality of states."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.helpers.players import (
    KERNEL,
    KINDS,
    LINE,
    NOISE,
    RecordingWaveExpert,
    make_player,
    step,
    warm_up,
)
from tvbandits import Bandit, Recipe, Space, policies
from tvbandits.queries.plans import QueryConfig, RandomPoints

COLUMNS = ["time", "x0", "reward", "variance", "source", "kind"]


@pytest.mark.parametrize("variant", KINDS)
def test_history_without_observations_is_an_empty_table_with_columns(variant: str) -> None:
    table = make_player(variant).history
    assert list(table.columns) == COLUMNS
    assert len(table) == 0


def test_history_has_a_row_of_every_kind() -> None:
    query_config = QueryConfig(RandomPoints(1), pool="domain", reuse_answers=True)
    bandit = Bandit(
        Recipe(LINE, KERNEL, NOISE, query_config=query_config, consult="before ask"), seed=1
    )
    bandit.tell(LINE.X[[4]], [0.5], 3.0, noise_variance=0.2)
    bandit.answer(LINE.X[[9, 8]], [0.25, np.nan], 2.5, noise_variance=0.3)
    bandit.tell(LINE.X[[7, 6]], [np.nan, -0.5], [1.0, 4.0])
    pending = bandit.ask(5.0)
    expected = pd.DataFrame(
        [
            (1.0, 1.75, np.nan, np.nan, "bandit", "failed"),
            (2.5, 2.25, 0.25, 0.3, "expert", "answer"),
            (3.0, 1.0, 0.5, 0.2, "bandit", "reward"),
            (4.0, 1.5, -0.5, NOISE, "bandit", "reward"),
            (5.0, pending[0, 0], np.nan, np.nan, "bandit", "pending"),
        ],
        columns=COLUMNS,
    )
    pd.testing.assert_frame_equal(bandit.history, expected)
    bandit.drop(pending)
    pd.testing.assert_frame_equal(bandit.history, expected.iloc[:-1])


def test_history_keeps_the_order_of_tell_at_equal_times() -> None:
    bandit = make_player("gp-ucb")
    for row, t in ((4, 2.0), (9, 1.0), (3, 2.0), (5, 1.0)):
        bandit.tell(LINE.X[[row]], [float(row)], t)
    assert bandit.history["reward"].tolist() == [9.0, 5.0, 4.0, 3.0]


def test_history_has_a_column_for_each_parameter() -> None:
    bandit = policies.gp_ucb(
        Space(temperature=(10.0, 80.0), mode=["a", "b"]), kernel=KERNEL, noise_variance=NOISE
    )
    bandit.tell([{"temperature": 20.0, "mode": "b"}], [1.0], 1.0)
    table = bandit.history
    columns = "time temperature mode reward variance source kind"
    assert list(table.columns) == columns.split()
    assert table.loc[0, ["temperature", "mode"]].tolist() == [20.0, "b"]


# --- equality ---------------------------------------------------------------------------------------


def bandit_with_queries(k: int, **more: Any) -> Bandit:
    recipe = Recipe(
        LINE, KERNEL, NOISE, mean=0.0, query_config=QueryConfig(RandomPoints(k), **more)
    )
    return Bandit(recipe, seed=1)


def test_state_equality_counts_the_number_of_queries() -> None:
    """Without answers, the states differ in the number of queries and in the random numbers alone."""
    two, eight = bandit_with_queries(2, pool="domain"), bandit_with_queries(8, pool="domain")
    for each in (two, eight):
        each.questions(1.0)
    same_draws = replace(eight.state, random=two.state.random)
    assert two.state != same_draws
    assert two.state == replace(same_draws, queries=replace(same_draws.queries, asked=2))


CHANGES: dict[str, Any] = {
    "a reward": lambda b: b.tell(LINE.X[[3]], [0.5], 10.0),
    "a failed reading": lambda b: b.tell(LINE.X[[3]], [np.nan], 10.0),
    "an ask": lambda b: b.ask(10.0),
    "a drop": lambda b: b.drop(b.pending[:1]),
    "questions": lambda b: b.questions(10.0),
    "an answer": lambda b: b.answer(LINE.X[[3]], [0.5], 9.0),
    "a refusal": lambda b: b.answer(LINE.X[[3]], [np.nan], 9.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_state_equality_counts_every_change_of_later_decisions(change: str) -> None:
    bandit, twin = (bandit_with_queries(2) for _ in range(2))
    for each in (bandit, twin):
        warm_up(each)
        each.ask(9.5)
    assert bandit.state == twin.state
    CHANGES[change](bandit)
    assert (bandit.state == twin.state) == (change == "a refusal")
    CHANGES[change](twin)
    assert bandit.state == twin.state


def test_state_equality_counts_a_single_bit() -> None:
    bandit, twin = (warm_up(make_player("gp-ucb")) for _ in range(2))
    bandit.tell(LINE.X[[3]], [0.5], 10.0)
    twin.tell(LINE.X[[3]], [np.nextafter(0.5, 1.0)], 10.0)
    assert bandit.state != twin.state
    assert bandit.state != "a state"
    with pytest.raises(TypeError, match="unhashable"):
        hash(bandit.state)


def test_state_equality_ignores_info() -> None:
    bandit = warm_up(make_player("sparq-gp-ucb", expert=RecordingWaveExpert()))
    info = replace(bandit.info, readings=99, beta=7.0)
    assert replace(bandit.state, info=info) == bandit.state
    other = Bandit.from_state(bandit.recipe, replace(bandit.state, info=info))
    for t in (10.0, 11.0):
        np.testing.assert_array_equal(step(other, t, 2), step(bandit, t, 2))
    assert other.state == bandit.state


def test_history_prefixes_a_parameter_with_the_name_of_a_column() -> None:
    bandit = policies.uniform(Space(kind=["a", "b"], context={"time": (0, 24)}))
    bandit.tell([{"kind": "b", "time": 13.0}], [0.5], 2)
    history = bandit.history[["time", "x_time", "kind", "x_kind"]]
    assert history.to_numpy().tolist() == [[2.0, 13.0, "reward", "b"]]
