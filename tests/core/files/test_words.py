"""Parts have words of their own in files, which say nothing of modules."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.attack.saved_files import good, members
from tests.helpers.discovery import classes_with
from tvbandits.core.files import values as words
from tvbandits.core.files.values import KERNELS, name_of
from tvbandits.core.observations import Observations
from tvbandits.experts import CallableExpert, Recording

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
    assert words.part_by("Recording") is None
    assert name_of(Recording) == "tvbandits:Recording"
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
