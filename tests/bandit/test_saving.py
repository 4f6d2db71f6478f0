"""A saved and loaded bandit continues bit for bit: every policy, posterior and wrapper."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.attack.bad_values import Odd
from tests.helpers.discovery import classes_with, is_wrapper
from tests.helpers.players import (
    INTERVAL,
    KERNEL,
    KINDS,
    LINE,
    NOISE,
    ON_INTERVAL,
    VARIANTS,
    RecordingWaveExpert,
    make_player,
    noisy_wave,
    step,
    wave,
)
from tests.helpers.refusals import assert_refused
from tvbandits import (
    Arms,
    Bandit,
    Box,
    Candidates,
    Integer,
    Limit,
    Options,
    SavedFileError,
    Space,
    StateSpace,
    experts,
    load,
    policies,
)
from tvbandits.bandit.state import is_same_value
from tvbandits.domains.space import Table
from tvbandits.io import is_registered

OWN = "tests.helpers.players:RecordingWaveExpert"


def assert_continues_after_loading(
    player: Any, path: Path, trusted: Any = None, steps: int = 5
) -> None:
    """Check that a player and its loaded copy play the same."""
    player.save(path)
    other = load(path, trusted)
    assert type(other) is type(player)
    if len(late := player.pending):
        for each in (player, other):
            each.tell(late[:1], [0.3])
    for t in np.arange(13.0, 13.0 + steps):
        X, same = player.ask(t), other.ask(t)
        assert np.array_equal(X, same)
        for each in (player, other):
            each.tell(X, noisy_wave(X, t), t)
    if isinstance(player, Bandit):
        assert player.state == other.state
        points = player.recipe.domain.sample(5, np.random.default_rng(0))
        np.testing.assert_array_equal(player.predict(points), other.predict(points))
    else:
        assert player.history.equals(other.history)


def play(player: Any, steps: int = 12) -> Any:
    for t in range(1, steps + 1):
        step(player, float(t))
    player.ask(12.5)  # one point is pending
    return player


@pytest.mark.parametrize("variant", VARIANTS)
def test_load_continues_every_policy_bit_for_bit(variant: str, tmp_path: Path) -> None:
    assert_continues_after_loading(
        play(make_player(variant), 7), tmp_path / "saved", {OWN: RecordingWaveExpert()}, steps=4
    )


@pytest.mark.parametrize("variant", [kind for kind in KINDS if kind in ON_INTERVAL])
def test_load_continues_policies_on_an_interval_bit_for_bit(variant: str, tmp_path: Path) -> None:
    player = play(make_player(variant, INTERVAL), 6)
    assert_continues_after_loading(
        player, tmp_path / "saved", {OWN: RecordingWaveExpert()}, steps=3
    )


def test_from_state_after_single_tells_of_a_batch_predicts_the_same() -> None:
    bandit = policies.adaptive_gp_ucb(Box([(0, 1)]), seed=1)
    for t in range(1, 13):
        for x in bandit.ask(t, n=3):
            bandit.tell(x, np.sin(3.0 * x + t), t)
        continued = Bandit.from_state(bandit.recipe, bandit.state)
        np.testing.assert_array_equal(
            continued.predict([[0.1], [0.7]]), bandit.predict([[0.1], [0.7]])
        )


ARMS, OUTSIDE = Arms(["a", "b", "c"]), {"outside": (-15, 20)}
FEATURES: dict[str, Callable[[], Bandit]] = {
    "filter": lambda: policies.tv_gp_ucb(
        LINE,
        kernel=KERNEL,
        noise_variance=NOISE,
        forgetting_rate=0.05,
        options=Options(posterior=StateSpace()),
    ),
    "kernel learned": lambda: policies.adaptive_gp_ucb(LINE, kernel=KERNEL, noise_variance=NOISE),
    "noise learned": lambda: policies.gp_ucb(LINE, kernel=KERNEL, noise_variance=None),
    "noise and weights learned": lambda: policies.adaptive_gp_ucb(LINE),
    "arms": lambda: policies.adaptive_gp_ucb(ARMS, noise_variance=NOISE),
    "control": lambda: policies.tv_gp_ucb(
        LINE, kernel=KERNEL, noise_variance=NOISE, forgetting_rate=0.05
    ).with_options(control=[0.0]),
    "control of arms": lambda: policies.adaptive_gp_ucb(ARMS).with_options(control="a"),
    "control of an ensemble": lambda: policies.adaptive_gp_ucb(
        LINE, noise_variance=NOISE
    ).with_options(control=[0]),
    "limits": lambda: policies.gp_ucb(LINE, kernel=KERNEL, noise_variance=NOISE).with_options(
        limits=[Limit("load", at_most=6.0)], safe=[[0.0], [1.0]]
    ),
    "moves": lambda: policies.gp_ucb(LINE, kernel=KERNEL, noise_variance=NOISE).with_options(
        move_cost=0.1
    ),
    "outliers": lambda: policies.tv_gp_ucb(
        LINE,
        kernel=KERNEL,
        noise_variance=NOISE,
        forgetting_rate=0.05,
        options=Options(robust=True),
    ),
    "retired": lambda: policies.gp_ucb(LINE, kernel=KERNEL, noise_variance=NOISE).with_candidates(
        LINE.X[:9]
    ),
    "learned from another": lambda: policies.adaptive_gp_ucb(LINE).learn_from(
        play(policies.adaptive_gp_ucb(LINE))
    ),
    "context of a space": lambda: policies.gp_ucb(
        Space(heat=(0.0, 1.0), mode=["eco", "loud"], context=OUTSIDE),
        kernel=RBF(3.0),
        noise_variance=NOISE,
    ),
    "context of a box": lambda: policies.gp_ucb(
        Box([(0, 1)], context=OUTSIDE), kernel=RBF(3.0), noise_variance=NOISE
    ),
    "context of candidates": lambda: policies.gp_ucb(
        Candidates(LINE.X, context=OUTSIDE), kernel=RBF(3.0), noise_variance=NOISE
    ),
}


@pytest.mark.parametrize("name", FEATURES)
def test_load_continues_bandits_with_every_feature_bit_for_bit(name: str, tmp_path: Path) -> None:
    """The bandit continues from a file, from a pickle and from its state."""
    bandit = FEATURES[name]()

    def step(each: Bandit, t: float) -> Any:
        X = each.ask(t, context={"outside": t / 2} if "context" in name else None)
        y = noisy_wave(X, t) + (40.0 if name == "outliers" and t == 11.0 else 0.0)
        outcomes = {limit.name: X[:, 0] for limit in each.recipe.options.limits}
        each.tell(X, y, t, outcomes=outcomes or None)
        return X

    for t in np.arange(1.0, 13.0):
        step(bandit, t)
    bandit.save(tmp_path / "saved")
    others = [
        load(tmp_path / "saved"),
        pickle.loads(pickle.dumps(bandit)),
        Bandit.from_state(bandit.recipe, bandit.state),
    ]
    assert all(each.state == bandit.state and each.noise == bandit.noise for each in others)
    assert (bandit.info.outliers == 1) == (name == "outliers")
    assert others[0].recipe == bandit.recipe
    for t in np.arange(13.0, 19.0):
        X = step(bandit, t)
        for each in others:
            assert np.array_equal(step(each, t), X)
    assert all(each.state == bandit.state for each in others)


WRAPPERS: dict[str, Any] = {
    "Budgeted": lambda inside: experts.Budgeted(inside, total=30, cost=9.0, price=0.1),
    "Retrying": lambda inside: experts.Retrying(inside, attempts=2, time_out=5.0),
    "Calibrated": lambda inside: experts.Calibrated(inside),
}


def test_wrappers_of_this_file_are_all_wrappers_of_the_package() -> None:
    classes = classes_with("query", "X", "t")
    wrappers = {name for name, kind in classes.items() if is_wrapper(kind) and is_registered(kind)}
    assert wrappers == set(WRAPPERS)


@pytest.mark.parametrize("name", WRAPPERS)
def test_load_continues_every_wrapper_bit_for_bit(name: str, tmp_path: Path) -> None:
    inside = experts.CallableExpert(wave, 0.02)
    player = policies.frugal_gp_ucb(
        LINE, kernel=KERNEL, noise_variance=NOISE, expert=WRAPPERS[name](inside), queries_per_step=2
    )
    trusted = {"tests.helpers.players:wave": wave}
    play(player).save(tmp_path / "saved")
    expert = player.state.queries.expert
    assert is_same_value(load(tmp_path / "saved", trusted).state.queries.expert, expert)
    assert_continues_after_loading(player, tmp_path / "saved", trusted)


def test_load_restores_spaces_and_tables(tmp_path: Path) -> None:
    space = Space(temperature=(10, 80), count=Integer(1, 5), mode=["a", "b"])
    frame = pd.DataFrame(
        {"temperature": [10.0, 20.0, 30.0], "count": [1, 2, 5], "mode": list("aba")}
    )
    for domain in (space, Table(space, frame, context=["mode"])):
        player = policies.gp_ucb(domain, kernel=space.kernel(), noise_variance=NOISE)
        available = [0, 2] if isinstance(domain, Table) else None  # in one context
        for t in (1.0, 2.0):
            player.tell(player.ask(t, available=available), [0.1 * t])
        player.save(tmp_path / "saved")
        other = load(tmp_path / "saved")
        assert other.recipe.domain == player.recipe.domain
        assert np.array_equal(
            player.ask(3.0, available=available), other.ask(3.0, available=available)
        )
        assert player.state == other.state


def test_load_needs_trusted_objects_from_outside_of_the_package(tmp_path: Path) -> None:
    player = make_player("sparq-gp-ucb")
    player.save(tmp_path / "saved")
    with pytest.raises(SavedFileError, match=f"saved: it uses '{OWN}', which it does not contain"):
        load(tmp_path / "saved")
    expert = RecordingWaveExpert()
    assert load(tmp_path / "saved", {OWN: expert}).recipe.query_config.expert is expert
    nameless = make_player(
        "sparq-gp-ucb", expert=experts.CallableExpert(lambda X, t: X[:, 0] * t, 0.1)
    )
    assert_refused(ValueError, "define it in a module", nameless.save, tmp_path / "saved")
    assert load(tmp_path / "saved", {OWN: expert}).state == player.state  # the old file is intact


@pytest.mark.slow
def test_load_imports_no_module_that_a_file_names(tmp_path: Path) -> None:
    make_player("sparq-gp-ucb").save(tmp_path / "saved")
    child = (
        "import sys, tvbandits\n"
        f"try: tvbandits.load({str(tmp_path / 'saved')!r})\n"
        "except tvbandits.SavedFileError: pass\n"
        "print([m for m in ('tests', 'tests.helpers.players') if m in sys.modules])\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", child], capture_output=True, text=True, check=True
    )
    assert process.stdout == "[]\n"


def test_load_refuses_a_file_that_is_missing_or_not_saved(tmp_path: Path) -> None:
    assert_refused(FileNotFoundError, "nowhere", load, tmp_path / "nowhere")
    assert_refused(SavedFileError, "not a saved file", load, __file__)


def test_load_needs_the_rows_of_candidates_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "points.npy"
    np.save(path, np.random.default_rng(0).random((50, 2)))
    player = policies.gp_ucb(
        Candidates(path), kernel=RBF(0.3), noise_variance=0.1, options=Options(posterior="nystrom")
    )
    player.tell(player.ask(1), [1.0], 1)
    player.save(tmp_path / "saved")
    message = (
        r"pass that object, as in trusted=\{'tvbandits:MappedRows': Candidates\(path\)\.rows\}"
    )
    assert_refused(SavedFileError, message, load, tmp_path / "saved")
    other = load(tmp_path / "saved", {"tvbandits:MappedRows": Candidates(path).rows})
    assert (other.ask(2) == player.ask(2)).all()


@pytest.mark.parametrize(("trusted", "message"), [([1], r"got \[1\]"), (Odd(), "Odd")])
def test_load_refuses_trusted_that_is_no_mapping(
    trusted: Any, message: str, tmp_path: Path
) -> None:
    policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01).save(
        tmp_path / "saved"
    )
    with pytest.raises(
        ValueError, match=f"trusted must be a mapping by 'module:name', .*{message}"
    ):
        load(tmp_path / "saved", trusted)
