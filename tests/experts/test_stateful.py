"""What wrappers know survives a resume; they are found by looking, not from a list."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.discovery import classes_with, is_wrapper
from tvbandits.core.arrays import Array
from tvbandits.core.observations import Observations
from tvbandits.core.protocols import Answers, Stateful, restored, state_of
from tvbandits.experts import Budgeted, Calibrated, Ensemble, Recording, Retrying

X = np.array([[0.0], [0.5], [1.0]])

Wrap = Callable[[Any, Path], Any]
MAKERS: dict[str, Wrap] = {
    "Budgeted": lambda inside, _: Budgeted(inside, per_step=4, total=9, cost=40.0),
    "Calibrated": lambda inside, _: Calibrated(inside, within=0.5),
    "Ensemble": lambda inside, _: Ensemble([inside, inside.another()]),
    "Recording": lambda inside, path: Recording(inside, path / "answers.db", reuse=False),
    "Retrying": lambda inside, _: Retrying(inside),
}


EXPERTS = classes_with("query", "X", "t")


class Tiring:
    """An expert that knows how often it was asked, and answers accordingly."""

    def __init__(self) -> None:
        self.asked = 0

    def another(self) -> Tiring:
        return Tiring()

    def query(self, X: Array, t: float) -> Answers:
        self.asked += len(X)
        return Answers(X[:, 0] + t + 0.1 * self.asked, 0.25, 0.5 * len(X))

    def state(self) -> dict[str, Any]:
        return {"asked": self.asked}

    def restore(self, state: Any) -> None:
        self.asked = state["asked"]


def wrappers() -> Iterator[str]:
    """Experts of the package that are made around another one."""
    for name, part in EXPERTS.items():
        if part.__module__.startswith("tvbandits.experts.") and is_wrapper(part):
            yield name


def maker(name: str) -> Wrap:
    """As in the list, or around an expert and nothing more."""
    return MAKERS.get(name, lambda inside, _: EXPERTS[name](inside))


def play(expert: Any, first: int, last: int) -> list[tuple[bytes, bytes, float]]:
    said = []
    for t in range(first, last):
        answers = expert.query(X, float(t))
        said.append((answers.values.tobytes(), answers.variance.tobytes(), answers.cost))
        expert.observe(
            Observations(X, [t] * 3, X[:, 0] + t, [0.1] * 3)  # type: ignore[arg-type]
        )
    return said


@pytest.mark.parametrize("name", list(wrappers()))
def test_a_resumed_wrapper_goes_on_where_it_was(name: str, tmp_path: Path) -> None:
    for folder in ("whole", "first"):
        (tmp_path / folder).mkdir()
    make = maker(name)
    whole = make(Tiring(), tmp_path / "whole")
    wanted = play(whole, 0, 8)
    first = make(Tiring(), tmp_path / "first")
    assert isinstance(first, Stateful)
    got = play(first, 0, 4)
    kept = json.loads(json.dumps(state_of(first)))
    second = make(Tiring(), tmp_path / "first")
    restored(second, kept)
    assert state_of(second) == state_of(first)
    assert got + play(second, 4, 8) == wanted
    # Once more around all of it: a wrapper's state holds that of what is inside.
    assert json.loads(json.dumps(state_of(Retrying(second))))["expert"]["kind"] == name


@pytest.mark.parametrize("name", list(wrappers()))
@pytest.mark.parametrize("wrong", [{}, {"expert": {"kind": "Other"}}, {"experts": [None]}])
def test_another_state_is_refused_and_changes_nothing(
    name: str, wrong: dict[str, Any], tmp_path: Path
) -> None:
    expert = maker(name)(Tiring(), tmp_path)
    play(expert, 0, 3)
    before = state_of(expert)
    with pytest.raises(ValueError, match=r"not the state of|the state is of"):
        restored(expert, {"kind": name, **wrong})
    with pytest.raises(ValueError, match=f"the state is of Somebody, and is given to {name}"):
        restored(expert, {"kind": "Somebody"})
    with pytest.raises(ValueError, match="the state is of an expert that keeps nothing"):
        restored(expert, None)
    assert state_of(expert) == before


def test_the_budget_of_a_resumed_run_is_one_budget() -> None:
    first = Budgeted(Tiring(), total=20)
    play(first, 0, 5)
    second = Budgeted(Tiring(), total=20)
    restored(second, state_of(first))
    play(second, 5, 10)
    assert second.spent.asked == 20
    assert second.spent.refused == 10


def test_who_keeps_nothing_says_so() -> None:
    assert state_of(object()) is None
    restored(object(), None)
    with pytest.raises(ValueError, match="given to object, which keeps nothing"):
        restored(object(), {"kind": "Budgeted"})
