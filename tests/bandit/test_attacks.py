"""The attacks in a quick form; `python -m tests.attack` is the long one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.attack import bandits, worlds
from tests.attack.__main__ import attacks, run
from tests.attack.parts import KINDS, parts, wrappers
from tests.attack.report import CRASHED
from tvbandits.core import linalg


def test_attacks_are_found() -> None:
    found = attacks()
    assert {
        "bandits",
        "campaigns",
        "interruptions",
        "redirects",
        "saved_files",
        "worlds",
    } <= set(found)
    assert not {"parts", "report"} & set(found)


def test_an_attack_that_fails_itself_is_a_finding() -> None:
    class Broken:
        @staticmethod
        def attack(count: int, seed: int) -> None:
            raise ZeroDivisionError(count, seed)

    tally = run("broken", Broken, 3, 1, quick=True)  # type: ignore[arg-type]
    assert tally.faults == {CRASHED: 1}
    assert "ZeroDivisionError: (3, 1)" in tally.examples[0]


def test_parts_are_found() -> None:
    for kind in KINDS:
        assert len(parts(kind)) > 1, kind
    assert {"Budgeted", "Calibrated", "Retrying"} <= set(wrappers())


@pytest.mark.slow
def test_random_bandits_neither_crash_nor_are_wrong() -> None:
    tally = bandits.attack(4, seed=0)
    assert tally.tried == 4
    assert tally.faults == {}, tally.examples


@pytest.mark.slow
def test_what_the_world_is_made_of_crashes_no_policy() -> None:
    tally = worlds.attack(4, seed=0)
    assert tally.tried == 4
    assert tally.faults == {}, tally.examples


@pytest.mark.slow
def test_a_world_tells_crashes_and_what_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linalg, "square_root", lambda A: np.full_like(A, np.nan))
    assert sum(worlds.attack(6, seed=0).faults.values()) > 0
