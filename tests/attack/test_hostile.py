"""Short runs of the attacks, which must find no fault."""

from pathlib import Path

import pytest

from tests.attack import command_line, files, inputs, poison, recordings
from tests.attack.bad_values import BAD
from tests.attack.calls import calls
from tests.attack.report import Found
from tests.oracles import broken_by_attack


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attacker", "count"),
    [(inputs, 240), (poison, 27), (command_line, 10), (files, 8), (recordings, 40)],
    ids=lambda each: getattr(each, "__name__", str(each)).rpartition(".")[2],
)
def test_attack_finds_no_fault(
    attacker: object, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some values are taken as names of files to write
    tally = attacker.attack(count, 11)  # type: ignore[attr-defined]
    assert tally.tried == count
    assert tally.faults == {}, tally.examples


@pytest.mark.slow
def test_attack_of_stations_finds_no_fault() -> None:
    stations = pytest.importorskip("tests.attack.stations")
    if not stations.broker_there():
        pytest.skip("mosquitto is not installed")
    tally = stations.attack(12, 5)
    assert tally.tried == 12
    assert tally.faults == {}, tally.examples


def test_calls_cover_public_functions_and_have_good_values_for_their_parameters() -> None:
    names = {call.name for call in calls()}
    assert {"policies.sw_gp_ucb", "tvbandits.Bandit.tell", "experts.Budgeted"} <= names
    assert len(names) > 150
    assert not [call.name for call in calls() if call.unknown]


def test_tried_finds_silent_acceptance_and_uninformative_errors() -> None:
    # One function accepts any value, and the other raises the bare error of Python.
    for broken, fault in (
        (broken_by_attack.takes_all, "silent"),
        (broken_by_attack.bare, "crashed"),
    ):
        call = broken_by_attack.as_call(broken)
        found = set[str]()
        for bad in BAD:
            try:
                inputs.tried(call, "size", bad)
            except Found as met:
                found.add(met.kind)
        assert fault in found
