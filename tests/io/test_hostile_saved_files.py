"""Damaged or malicious saved files are refused by name, and execute nothing."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.attack.saved_files import attack, cases, good, members, with_structure
from tests.helpers.discovery import classes_with
from tests.helpers.forged import forge, tree_values
from tests.helpers.players import INTERVAL, KERNEL, LINE, NOISE, make_player, noisy_wave, step
from tests.helpers.refusals import assert_refused
from tvbandits import Options, SavedFileError, StateSpace, load, policies
from tvbandits.experts import CallableExpert, StubTransport
from tvbandits.io import CLASSES, VERSION, is_registered, qualified_name

GOOD = good()


@pytest.fixture(scope="module")
def hostile() -> dict[str, bytes]:
    return cases(GOOD)


def test_load_refuses_every_hostile_or_randomly_damaged_file(hostile: dict[str, bytes]) -> None:
    assert len(set(hostile.values())) == len(hostile)
    tally = attack(len(hostile) + 8, 5)
    assert tally.faults == {}, tally.examples
    assert tally.also == {"refused by name": len(hostile) + 8}


SAID = {
    "pickle": r"it is not a saved file: it begins with b'\\x80",
    "array of objects": "arrays/0.npy' is no array: .*it contains object",
    "pickle for an array": "arrays/0.npy' is no array: .*magic string",
    "version of tomorrow": f"it is of version {VERSION + 1}, but this tvbandits reads version {VERSION}",
    "SQLite": "it is not a saved file: it begins with b'SQLite f'",
    "name that leads up": "its members are not those of a saved file",
    "packed members": "its members are compressed or overlap",
    "entry of code": "it uses 'os:system', which it does not contain",
    "array of a huge shape": "is no array: .* are not 0 bytes",
    "kernel of doublings": "more than 2000 kernels",
    "chain": "its values nest deeper than the limit of 100",
    "one array many times": "bounds of Box cannot be",
    "keys of one hash": "'2305843009213693951' cannot be a key",
    "number that is true": "last of Window cannot be True",
    "class by its module": "'tvbandits.domains.box:Box' is no class of this version",
    "structure too long": "has 8000001 bytes, at most 8000000 may be",
}


@pytest.mark.parametrize("name", SAID)
def test_load_names_the_fault_of_a_hostile_file(
    name: str, hostile: dict[str, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "saved"
    path.write_bytes(hostile[name])
    assert_refused(SavedFileError, SAID[name], load, path)


def test_load_refuses_a_folder_by_its_path(tmp_path: Path) -> None:
    assert_refused(IsADirectoryError, str(tmp_path), load, tmp_path)


def test_load_refuses_a_large_file_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "saved"
    path.write_bytes(GOOD)
    with path.open("r+b") as file:  # a sparse file, which uses no space on the disk
        file.truncate(10**12)
    assert_refused(SavedFileError, "1000000000000 ", load, path)


PLAYED: dict[str, Any] = {
    "exact": lambda: make_player("et-gp-ucb"),
    "sparse": lambda: make_player("bbkb"),
    "sparse filter": lambda: make_player("tv-bbkb"),
    "state space": lambda: policies.tv_gp_ucb(
        LINE,
        kernel=KERNEL,
        noise_variance=NOISE,
        forgetting_rate=0.05,
        options=Options(posterior=StateSpace()),
    ),
    "no model": lambda: make_player("evolution", INTERVAL),
    "rival": lambda: make_player("ada-opkb"),
    "predictive sampling": lambda: make_player("predictive-sampling"),
}


@pytest.mark.parametrize("name", PLAYED)
def test_load_refuses_a_forged_file_or_returns_a_bandit_that_plays(
    name: str, tmp_path: Path
) -> None:
    player, path, refusals = PLAYED[name](), tmp_path / "saved", 0
    for t in (1.0, 2.0, 3.0, 4.0, 5.0):
        step(player, t)
    player.save(path)
    good, rng = path.read_bytes(), np.random.default_rng(1)
    for _ in range(12):
        path.write_bytes(forge(good, rng))
        try:
            player = load(path)
        except SavedFileError:
            refusals += 1
            continue
        for t in (6.0, 7.0):
            X = player.ask(t)
            player.tell(X, noisy_wave(X, t), t)
            assert np.isfinite(player.history["reward"].dropna()).all()
        player.save(path)
    assert refusals >= 4


def negative(array: Any) -> Any:
    return -array


def one_huge(array: Any) -> Any:
    changed = array.copy()
    changed.reshape(-1)[-1] = 1e300
    return changed


def one_nan(array: Any) -> Any:
    changed = array.copy()
    changed.reshape(-1)[-1] = np.nan
    return changed


DAMAGE: list[tuple[str, Any, str]] = [
    ("covariance", negative, "eigenvalues from 0 to 1 expected, got -"),
    ("covariance", one_huge, "1e\\+300"),
    ("covariance", np.triu, "not symmetric"),
    ("covariance", one_nan, "overflow, or are not finite"),
    ("features", one_huge, "overflow, or are not finite"),
    ("mean", one_huge, "overflow, or are not finite"),
    ("mean", np.transpose, "have shapes"),
    ("epsilon", 5.0, "epsilon must lie in"),
]


@pytest.mark.parametrize(("part", "change", "says"), DAMAGE)
def test_load_refuses_a_filter_with_invalid_values(
    part: str, change: Any, says: str, tmp_path: Path
) -> None:
    player, path = make_player("predictive-sampling"), tmp_path / "saved"
    for t in (1.0, 2.0, 3.0):
        step(player, t)
    rule = player.rule
    value = change(getattr(rule.filter, part)) if callable(change) else change
    rule.filter = replace(rule.filter, **{part: value})
    player.save(path)
    assert_refused(SavedFileError, says, load, path)


@pytest.mark.parametrize("length", [1e-300, 1e300, {"float": "nan"}, -1.0])
def test_load_refuses_a_forged_length_scale_or_returns_a_bandit_that_plays(
    length: Any, tmp_path: Path
) -> None:
    player, path = PLAYED["exact"](), tmp_path / "saved"
    step(player, 1.0)
    player.save(path)

    def other_kernel(structure: dict[str, Any]) -> None:
        kernels = [e for e in tree_values(structure["value"]) if e.get("class") == "RBF"]
        assert kernels
        for each in kernels:
            each["fields"]["length_scale"] = length

    path.write_bytes(with_structure(path.read_bytes(), other_kernel))
    try:
        player = load(path)
    except SavedFileError:
        return
    assert isinstance(length, float)
    for t in (2.0, 3.0, 4.0):
        step(player, t)
    assert np.isfinite(player.predict(LINE.X)[1]).all()


def test_load_refuses_parts_that_do_not_match_each_other(tmp_path: Path) -> None:
    path = tmp_path / "saved"

    def no_mean(structure: dict[str, Any]) -> None:
        values = tree_values(structure["value"])
        (posterior,) = [each for each in values if each.get("class") == "ExactPosterior"]
        posterior["fields"]["weights"] = posterior["fields"]["factor"]

    player = PLAYED["exact"]()
    step(player, 1.0)
    player.ask(2.0)
    player.save(path)
    path.write_bytes(with_structure(path.read_bytes(), no_mean))
    assert_refused(SavedFileError, "saved: .*IndexError", load, path)


def test_load_refuses_a_file_with_one_changed_byte(tmp_path: Path) -> None:
    path = tmp_path / "saved"
    step = max(1, len(GOOD) // 97)
    for where in [*range(0, len(GOOD), step), *range(len(GOOD) - 90, len(GOOD))]:
        changed = bytearray(GOOD)
        changed[where] ^= 1
        path.write_bytes(bytes(changed))
        assert_refused(SavedFileError, "saved: it is ", load, path)


# --- names of classes in saved files do not contain their modules


@pytest.mark.parametrize("module", CLASSES)
def test_classes_of_saved_files_are_registered_and_can_be_restored(module: str) -> None:
    for name in CLASSES[module].split():
        kind = getattr(import_module(module), name)
        assert is_registered(kind)
        assert (
            hasattr(kind, "__saved__")
            or hasattr(kind, "get_params")
            or hasattr(kind, "__dataclass_fields__")
            or hasattr(kind, "_fields")
        )


def test_classes_of_saved_files_have_different_names() -> None:
    names = " ".join(CLASSES.values()).split()
    assert len(names) == len(set(names))


def test_qualified_name_gives_the_path_of_an_object_that_is_not_registered() -> None:
    assert not is_registered(StubTransport)
    assert qualified_name(StubTransport) == "tvbandits:StubTransport"
    assert is_registered(CallableExpert)
    assert qualified_name(classes_with) == "tests.helpers.discovery:classes_with"


def test_saved_file_contains_class_names_without_modules() -> None:
    inside = members(good())
    assert b"tvbandits." not in inside["structure.json"]
    names = {
        each.get("class") for each in tree_values(json.loads(inside["structure.json"])["value"])
    }
    assert {"Bandit", "Recipe", "State", "Candidates"} < names
    assert not [each for each in names if each and (":" in each or "." in each)]
