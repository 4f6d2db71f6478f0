"""The attackers of the benchmarks, in a quick form: whatever they try, they find nothing."""

from __future__ import annotations

import pytest

from benchmarks.attack import command_line, files, inputs, poison, servers
from benchmarks.attack.bad_values import BAD, fits
from benchmarks.attack.calls import calls
from tests.oracles import broken_by_attack


@pytest.mark.parametrize(
    ("attacker", "count"),
    [(inputs, 300), (poison, 24), (command_line, 12), (files, 10), (servers, 5)],
    ids=lambda each: getattr(each, "__name__", str(each)).rpartition(".")[2],
)
def test_nothing_is_found(attacker: object, count: int) -> None:
    tally = attacker.attack(count, 11)  # type: ignore[attr-defined]
    assert tally.tried == count
    assert tally.faults == {}, tally.examples


def test_hostile_stations_are_left_out() -> None:
    stations = pytest.importorskip("benchmarks.attack.stations")
    if not stations.broker_there():
        pytest.skip("mosquitto is not installed")
    tally = stations.attack(12, 5)
    assert tally.tried == 12
    assert tally.faults == {}, tally.examples


def test_everything_public_is_attacked() -> None:
    names = {call.name for call in calls()}
    assert {"policies.sw_gp_ucb", "tvbandits.Bandit.tell", "experts.Budgeted"} <= names
    assert len(names) > 150
    assert not [call.name for call in calls() if call.unknown]


def test_an_attacker_sees_what_is_broken() -> None:
    # A function that takes anything, and one whose error does not say what is wrong.
    for broken, fault in (
        (broken_by_attack.takes_all, "silent"),
        (broken_by_attack.bare, "crashed"),
    ):
        call = broken_by_attack.as_call(broken)
        verdicts = [inputs.tried(call, "size", bad) for bad in BAD]
        assert fault in {verdict.fault for verdict in verdicts}


@pytest.mark.parametrize(
    ("value", "annotation", "welcome"),
    [
        (True, int, False),
        (3, int, True),
        (3, float, True),
        ("9", float, False),
        (None, float, False),
    ],
)
def test_what_an_annotation_welcomes(value: object, annotation: object, welcome: bool) -> None:
    assert fits(value, annotation) is welcome
