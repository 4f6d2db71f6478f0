"""Saved files that are damaged or made to do harm are refused by name, and run nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.attack.saved_files import Found, attempt, cases, good, saved_files
from tvbandits import SavedFileError, load
from tvbandits.core.files.archive import UnknownVersionError
from tvbandits.core.files.values import UnknownPartError

GOOD = good()
CASES = cases(GOOD)


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 60
    assert len(set(CASES.values())) == len(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_file_is_refused(name: str, tmp_path: Path) -> None:
    found = Found()
    attempt(name, CASES[name], tmp_path / "saved", found)
    assert (found.refused, found.faults) == (1, [])


def test_damage_at_random_is_found() -> None:
    found = saved_files(len(CASES) + 40, 5)
    assert (found.faults, found.refused) == ([], len(CASES) + 40)


SAID = {
    "pickle": (SavedFileError, "it is a pickle, which could run any code, and is not opened"),
    "pickle inside": (SavedFileError, "its member 'state.pkl' does not belong there"),
    "array of objects": (SavedFileError, "array 0 holds objects, which are a pickle"),
    "pickle for an array": (SavedFileError, "array 0 is a pickle, which could run any code"),
    "version of tomorrow": (UnknownVersionError, "it is of version 2, and 1 is known here"),
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
    "structure too deep": (SavedFileError, r"structure\.json cannot be read"),
}


@pytest.mark.parametrize("name", SAID)
def test_the_message_says_what_is_wrong(name: str, tmp_path: Path) -> None:
    path = tmp_path / "saved"
    path.write_bytes(CASES[name])
    kind, message = SAID[name]
    with pytest.raises(kind, match=message) as caught:
        load(path)
    assert type(caught.value) is kind


def test_every_single_changed_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "saved"
    step = max(1, len(GOOD) // 97)
    for where in [*range(0, len(GOOD), step), *range(len(GOOD) - 90, len(GOOD))]:
        changed = bytearray(GOOD)
        changed[where] ^= 1
        path.write_bytes(bytes(changed))
        with pytest.raises(SavedFileError, match="saved: it is "):
            load(path)
