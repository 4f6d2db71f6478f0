"""Arms that have a name and nothing else, told and decoded by their names."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Arms, load, policies

ARMS = Arms(["red", "green", "blue"])


@pytest.mark.parametrize(
    "given", [["blue", "red"], ("blue", "red"), pd.DataFrame({"arm": ["blue", "red"]}),
              [{"arm": "blue"}, {"arm": "red"}], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]
)  # fmt: skip
def test_a_name_is_a_one_in_a_column_of_its_own(given: Any) -> None:
    np.testing.assert_array_equal(ARMS.check(given), [[0, 0, 1], [1, 0, 0]])
    assert ARMS.decode(ARMS.check(given))["arm"].tolist() == ["blue", "red"]


def test_arms_are_alike_where_their_names_are(tmp_path: Path) -> None:
    assert ARMS == Arms(("red", "green", "blue")) == pickle.loads(pickle.dumps(ARMS))
    assert Arms(["green", "red", "blue"]) != ARMS
    assert repr(ARMS) == "Arms(['red', 'green', 'blue'])"
    assert ARMS.names == ("red", "green", "blue")
    bandit = policies.gp_ucb(ARMS, RBF(0.3), 0.01)
    bandit.tell(["red"], [0.5], 1)
    bandit.save(tmp_path / "kept")
    again: Any = load(tmp_path / "kept")
    assert again.recipe.domain == ARMS
    np.testing.assert_array_equal(again.ask(2), bandit.ask(2))


@pytest.mark.parametrize(
    "make",
    [
        lambda: policies.gp_ucb(ARMS, RBF(0.3), 0.01),
        lambda: policies.adaptive_gp_ucb(ARMS, None, 0.01),
        lambda: policies.discounted_thompson(ARMS),
    ],
)
def test_a_bandit_is_told_names(make: Any) -> None:
    bandit, twin = make(), make()
    for t in range(1, 8):
        X = bandit.ask(t)
        np.testing.assert_array_equal(X, twin.ask(t))
        name = ARMS.decode(X)["arm"].tolist()
        bandit.tell(name, [float(name == ["green"])], t)
        twin.tell(X, [float(X[0, 1])], t)
    if hasattr(bandit, "predict"):
        by_name, by_point = bandit.predict(["green", "red"]), twin.predict(ARMS.X[[1, 0]])
        np.testing.assert_array_equal(by_name, by_point)


def test_what_is_wrong_is_named() -> None:
    for names, said in (
        (["a", "a"], "categories must differ, got 'a' twice"),
        (["a"], "names must be at least two different texts"),
        (["a", 1], "names must be at least two different texts"),
        ("ab", "arms must be names"),
    ):
        with pytest.raises(ValueError, match=said):
            Arms(names)  # type: ignore[arg-type]
    bandit = policies.gp_ucb(ARMS, RBF(0.3), 0.01)
    for X in (["pink"], ["red", 1], [{"leg": "red"}]):
        with pytest.raises(ValueError, match=r"arm|leg"):
            bandit.tell(X, [1.0] * len(X), 1)
    assert bandit.info.told == 0
