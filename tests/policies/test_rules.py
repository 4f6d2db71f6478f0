"""Rules of policies are saved by their fields; refused calls change nothing."""

from dataclasses import fields
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.players import RULES, make_player, step
from tests.helpers.refusals import assert_refused
from tvbandits import Box, Candidates, SavedFileError, load, policies
from tvbandits.domains.availability import NothingAvailableError
from tvbandits.io import check_types, from_bytes, to_bytes

LINE = Candidates(np.linspace(0, 1, 15)[:, None])


@pytest.mark.parametrize("name", RULES)
def test_rules_have_no_attributes_but_their_fields(name: str) -> None:
    player = make_player(name)
    for t in range(1, 20):
        step(player, float(t))
    names = {each.name for each in fields(player.rule)}
    assert names == {
        each for each in vars(player.rule) if each != "design"
    }  # computed from the fields
    check_types(type(player.rule), {each: getattr(player.rule, each) for each in names})


def test_from_bytes_refuses_an_invalid_rule() -> None:
    player = make_player("eps-greedy")
    player.rule.decay = "many"
    with pytest.raises(SavedFileError, match=r"decay of EpsilonGreedy .*'many'"):
        from_bytes(to_bytes(player))
    player.rule = "none"
    assert_refused(SavedFileError, "rule of PolicyAdapter .*'none'", from_bytes, to_bytes(player))


def test_master_saves_its_base_by_name(tmp_path: Path) -> None:
    def make(base: Any) -> Any:
        return policies.master(
            LINE, kernel=RBF(0.2), noise_variance=0.01, base=base, mean=0.0, seed=4
        )

    make(None).save(tmp_path / "saved")
    load(tmp_path / "saved")
    player = make(policies.gp_ucb)
    player.tell(player.ask(1.0), [0.5], 1.0)
    player.save(tmp_path / "saved")
    name = "tvbandits:gp_ucb"
    assert_refused(SavedFileError, f"it uses '{name}'", load, tmp_path / "saved")
    other = load(tmp_path / "saved", {name: policies.gp_ucb})
    for t in (2.0, 3.0, 4.0):
        X = player.ask(t)
        np.testing.assert_array_equal(X, other.ask(t))
        for each in (player, other):
            each.tell(X, [0.1 * t], t)


def test_uniform_on_candidates_with_context_is_saved_and_loaded(tmp_path: Path) -> None:
    player = policies.uniform(Candidates([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], context=[1]))
    player.tell(player.ask(1.0, context=[0.0]), [0.5], 1.0)
    player.save(tmp_path / "saved")
    other = load(tmp_path / "saved")
    np.testing.assert_array_equal(player.ask(2.0, context=[0.0]), other.ask(2.0, context=[0.0]))


@pytest.mark.parametrize(
    ("recipe", "scale", "y", "variance"),
    [(policies.ada_opkb, 1e-9, 1e49, 0.01), (policies.master, 1e9, 0.5, 1e-60)],
)
def test_rules_refuse_a_reward_too_large_for_their_unit_and_change_nothing(
    recipe: Any, scale: float, y: float, variance: float
) -> None:
    player = recipe(LINE, kernel=RBF(0.2), noise_variance=0.01, scale=scale)
    X = player.ask(1.0)
    before = to_bytes(player)
    with pytest.raises(ValueError, match=r"^in the unit .* of rewards, .* must be at "):
        player.tell(X, [y], 1.0, variance)
    assert to_bytes(player) == before


@pytest.mark.parametrize(
    "recipe_and_options",
    [(policies.uniform, {}), (policies.master, {"kernel": RBF(0.2), "noise_variance": 0.01})],
)
def test_ask_of_a_rule_changes_nothing_if_refused(recipe_and_options: Any) -> None:
    player = recipe_and_options[0](Box([[0.0, 1.0]] * 2), **recipe_and_options[1])
    before = to_bytes(player)
    flags = chain([True], repeat(False))  # after the first point, nothing is available
    with pytest.raises(NothingAvailableError, match="none of 65536 random points"):
        player.ask(1.0, 2, available=lambda X: np.full(len(X), next(flags)))
    assert to_bytes(player) == before


@pytest.mark.parametrize(
    ("player", "rewards"),
    [
        (policies.master(LINE, kernel=RBF(0.2), noise_variance=0.01), [1e50, 1e50, -1e50, -1e50]),
        (policies.w_dbo(LINE, noise_variance=1e100, initial_points=1), [1e-9, 2e-9, 3e-9, 1e-9]),
    ],
)
def test_rules_accept_rewards_at_the_limits_of_size(player: Any, rewards: list[float]) -> None:
    for t, y in enumerate(rewards):
        player.tell(player.ask(float(t)), [y], float(t))
    assert player.info.readings == len(rewards)
