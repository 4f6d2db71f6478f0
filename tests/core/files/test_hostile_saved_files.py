"""Saved files that are damaged or made to do harm are refused by name, and run nothing."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.attack.saved_files import attack, cases, good, members, with_structure
from tests.helpers.discovery import classes_with
from tests.helpers.forged import forged
from tests.helpers.players import INTERVAL, KERNEL, LINE, NOISE, made, noisy, step
from tests.helpers.refusals import refused
from tvbandits import Observations, SavedFileError, StateSpace, load, policies
from tvbandits.core.files import values as words
from tvbandits.core.files.reading import reading_limits
from tvbandits.core.files.values import KERNELS, UnknownPartError, UnknownVersionError, name_of
from tvbandits.experts import CallableExpert, StubTransport

GOOD = good()


@pytest.fixture(scope="module")
def hostile() -> dict[str, bytes]:
    return cases(GOOD)


def test_hostile_files_and_damage_at_random_are_refused(hostile: dict[str, bytes]) -> None:
    assert len(set(hostile.values())) == len(hostile)
    tally = attack(len(hostile) + 15, 5)
    assert tally.faults == {}, tally.examples
    assert tally.also == {"refused by name": len(hostile) + 15}


SAID = {
    "pickle": (SavedFileError, "it is a pickle, which could run any code, and is not opened"),
    "pickle inside": (SavedFileError, "its member 'state.pkl' does not belong there"),
    "array of objects": (SavedFileError, "array 0 holds objects, which are a pickle"),
    "pickle for an array": (SavedFileError, "array 0 is a pickle, which could run any code"),
    "version of tomorrow": (UnknownVersionError, "it is of version 3, and 2 is known here"),
    "half a file": (SavedFileError, "it is cut or changed"),
    "another checksum": (SavedFileError, "it is cut or changed"),
    "SQLite": (SavedFileError, "it is not a saved file: it begins with b'SQLite f'"),
    "name that leads up": (
        SavedFileError,
        r"its member '\.\./\.\./evil\.py' does not belong there",
    ),
    "packed members": (SavedFileError, "is packed, which none should be"),
    "entry of code": (UnknownPartError, "it uses 'os:system', which is not part of the package"),
    "array of a huge shape": (SavedFileError, r"array 0 should have .* and has 0 bytes"),
    "doublings": (SavedFileError, r"entry \d+ unfolds to a number of entries of 8191"),
    "kernel of doublings": (SavedFileError, r"entry \d+ is a kernel of as many parts as 1023"),
    "mapping of doublings": (SavedFileError, r"unfolds to a number of entries of 8191"),
    "chain": (SavedFileError, r"entry \d+ nests 101, and the limit is 100"),
    "set": (SavedFileError, "'set' is no kind of entry"),
    "keys of one hash": (SavedFileError, "'2305843009213693951' cannot be a key"),
    "number of many digits": (SavedFileError, "entry .* is no reference|'10+' is no reference"),
    "number that is true": (SavedFileError, "last of Window cannot be 'True'"),
    "class by its module": (SavedFileError, "'core.domains.box:Box' is no part that is known"),
    "structure too long": (SavedFileError, "has 8000001 bytes, at most 8000000 may be"),
    "structure too deep": (SavedFileError, r"structure\.json cannot be read"),
}


@pytest.mark.parametrize("name", SAID)
def test_messages_say_what_is_wrong(name: str, hostile: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "saved"
    path.write_bytes(hostile[name])
    kind, message = SAID[name]
    with pytest.raises(kind, match=message) as caught:
        load(path)
    assert type(caught.value) is kind


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "saved"
    path.write_bytes(GOOD)
    with (
        reading_limits(unpacked_bytes=1_000),
        pytest.raises(
            SavedFileError, match=r"bytes or more, and the limit is 1000; .*reading_limits"
        ),
    ):
        load(path)
    with path.open("r+b") as file:  # a hole, which takes no room on the disk
        file.truncate(10**12)
    refused(SavedFileError, "1000000000000 unpacked bytes or more", load, path)


PLAYED: dict[str, Any] = {
    "exact": lambda: made("et-gp-ucb"),
    "sparse": lambda: made("bbkb"),
    "sparse filter": lambda: made("tv-bbkb"),
    "state space": lambda: policies.tv_gp_ucb(
        LINE, KERNEL, NOISE, epsilon=0.05, posterior=StateSpace()
    ),
    "no model": lambda: made("evolution", INTERVAL),
    "rival": lambda: made("pe-gp-ucb"),
}


@pytest.mark.parametrize("name", PLAYED)
def test_a_forged_file_is_refused_or_plays_on(name: str, tmp_path: Path) -> None:
    player, path, refused = PLAYED[name](), tmp_path / "saved", 0
    for t in (1.0, 2.0, 3.0, 4.0, 5.0):
        step(player, t)
    player.save(path)
    good, rng = path.read_bytes(), np.random.default_rng(1)
    for _ in range(25):
        done, data = forged(good, rng)
        path.write_bytes(data)
        try:
            player = load(path)
        except SavedFileError:
            refused += 1
            continue
        for t in (6.0, 7.0):
            X = player.ask(t)
            player.tell(X, noisy(X, t), t)
            assert np.isfinite(player.history["reward"].dropna()).all(), done
        player.save(path)
    assert refused >= 10


def test_parts_that_do_not_fit_are_only_found_by_playing(tmp_path: Path) -> None:
    path = tmp_path / "saved"

    def no_mean(structure: dict[str, Any]) -> None:
        (posterior,) = [e for e in structure["entries"] if e.get("value") == "ExactPosterior"]
        posterior["with"]["weights"] = posterior["with"]["factor"]

    PLAYED["exact"]().save(path)
    player = load(path)
    step(player, 1.0)
    player.ask(2.0)
    player.save(path)
    path.write_bytes(with_structure(path.read_bytes(), no_mean))
    assert len(load(path, rehearse=False).state.rewards) == 1  # what was told can still be had
    refused(SavedFileError, "saved: it cannot play on: IndexError", load, path)


def test_every_single_changed_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "saved"
    step = max(1, len(GOOD) // 97)
    for where in [*range(0, len(GOOD), step), *range(len(GOOD) - 90, len(GOOD))]:
        changed = bytearray(GOOD)
        changed[where] ^= 1
        path.write_bytes(bytes(changed))
        refused(SavedFileError, "saved: it is ", load, path)


# --- parts have words of their own in files, which say nothing of modules

PARTS = [
    kind
    for house in words.HOUSES
    for module in words.sources_of(house)
    for kind in words.parts_in(module).values()
]


def test_every_part_has_a_word_of_its_own() -> None:
    assert len(PARTS) > 150
    words_found = Counter([*map(words.word_of, PARTS), *KERNELS])
    assert [word for word, times in words_found.items() if times > 1] == []


def test_words_lead_to_classes() -> None:
    assert [kind for kind in PARTS if words.part_by(words.word_of(kind)) is not kind] == []
    assert words.part_by("Observations") is Observations
    assert words.part_by("tvbandits.core.observations:Observations") is None


def test_two_parts_of_one_word_are_found(monkeypatch: Any) -> None:
    monkeypatch.setattr(Observations, "__word__", "Plays", raising=False)
    with pytest.raises(ValueError, match="observations has two parts 'Plays'"):
        words.parts_in.__wrapped__("tvbandits.core.observations")


def test_what_reaches_out_is_no_part() -> None:
    assert words.part_by("StubTransport") is None
    assert name_of(StubTransport) == "tvbandits:StubTransport"
    assert name_of(CallableExpert) == "CallableExpert"
    assert name_of(classes_with) == "tests.helpers.discovery:classes_with"


def test_a_file_names_no_module() -> None:
    inside = members(good())
    assert b"tvbandits." not in inside["structure.json"]
    named = [
        e.get("value", e.get("kernel")) for e in json.loads(inside["structure.json"])["entries"]
    ]
    assert {"Bandit", "Recipe", "State", "Candidates"} < set(named)
    assert not [each for each in named if each and (":" in each or "." in each)]
