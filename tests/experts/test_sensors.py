"""An expert made of stations: who is asked, what is refused, and what never does harm."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Answers, Candidates, Expert, ExpertError, policies
from tvbandits.core.protocols import ExpertDownWarning, ExpertUnavailableError
from tvbandits.experts import check_expert
from tvbandits.experts.sensors.expert import Reading, SensorExpert, Station, Transport, stations_at
from tvbandits.experts.sensors.stub import StubTransport
from tvbandits.forgetting.aging import Aging, Constant, Exponential, Linear, Wiener, Window

PLACES = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]
STATIONS = stations_at(PLACES, ["A", "B", "C"], noise_variance=[0.1, 0.2, 0.3])


@dataclass
class Says:
    """A transport that returns what it is given, and remembers what it was asked."""

    readings: Any
    asked: list[tuple[list[str], float]] = field(default_factory=list)

    def request(self, stations: Sequence[str], t: float) -> Any:
        self.asked.append((list(stations), t))
        if isinstance(self.readings, Exception):
            raise self.readings
        return self.readings


def good(
    name: str, value: float = 1.0, time: float = 5.0, variance: float | None = None
) -> Reading:
    return Reading(name, time, value, variance)


ALL_GOOD = [good("C", 3.0), good("A", 1.0), good("B", 2.0, variance=0.7)]


# --- oracle ---------------------------------------------------------------------------------------


def plainly(
    stations: Sequence[Station], readings: dict[str, Reading], X: Any, tolerance: float
) -> tuple[list[float], list[float], set[str]]:
    """Values, variances, and who is asked: one point after the other."""
    values, variances, asked = [], [], set()
    for x in X:
        distances = [math.dist(x, s.coordinates) for s in stations]
        station = stations[distances.index(min(distances))]
        value = variance = math.nan
        if min(distances) <= tolerance:
            asked.add(station.id)
            if station.id in readings:
                value = readings[station.id].value
                stated = readings[station.id].variance
                variance = station.noise_variance if stated is None else stated
        values.append(value)
        variances.append(variance)
    return values, variances, asked


@given(seed=st.integers(0, 10_000), tolerance=st.sampled_from([0.0, 0.05, 0.2, 3.0]))
@settings(deadline=None, max_examples=60)
def test_answers_are_those_of_the_nearest_stations(seed: int, tolerance: float) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    places = rng.random((int(rng.integers(1, 12)), d))
    stations = stations_at(places, noise_variance=rng.random(len(places)) + 0.1)
    readings = {
        s.id: good(s.id, rng.normal(), variance=rng.choice([None, 0.5]))
        for s in stations
        if rng.random() < 0.7
    }
    X = np.concatenate([rng.random((5, d)), places[rng.integers(0, len(places), 5)]])
    values, variances, asked = plainly(stations, readings, X, tolerance)
    transport = Says([readings[name] for name in sorted(asked) if name in readings])
    expert = SensorExpert(stations, transport, tolerance=tolerance, cost=2.0)
    said = expert.query(X, 5.0)
    np.testing.assert_array_equal(said.values, values)
    np.testing.assert_array_equal(said.variance, variances)
    assert said.cost == 2.0 * len(asked)
    (request,) = transport.asked
    assert (sorted(request[0]), request[1]) == (sorted(asked), 5.0)


def test_a_station_is_asked_once() -> None:
    transport = Says(ALL_GOOD)
    expert = SensorExpert(STATIONS, transport, tolerance=0.5)
    said = expert.query(np.array([[0.0, 2.0], [0.1, 2.1], [0.0, 0.0], [0.0, 2.0]]), 5.0)
    assert transport.asked == [(["C", "A"], 5.0)]
    np.testing.assert_array_equal(said.values, [3.0, 3.0, 1.0, 3.0])
    np.testing.assert_array_equal(said.variance, [0.3, 0.3, 0.1, 0.3])
    assert said.notes == ("a reading of 'B', which was not asked, is left out",)


def test_nobody_is_asked_for_nothing() -> None:
    transport = Says(OSError("down"))
    expert = SensorExpert(STATIONS, transport, tolerance=0.5)
    assert len(expert.query(np.empty((0, 2)), 5.0)) == 0
    assert not expert.query(np.array([[9.0, 9.0]]), 5.0).answered.any()
    assert transport.asked == []


def test_it_is_an_expert() -> None:
    table = StubTransport(np.ones((9, 3)), ["A", "B", "C"], noise_variance=0.1)
    assert isinstance(table, Transport)
    expert = SensorExpert(STATIONS, table, tolerance=0.5)
    assert isinstance(expert, Expert)
    points = np.array([*PLACES, [0.2, 0.3], [7.0, 7.0]])
    assert check_expert(expert, points, 5.0, deterministic=True).passed
    again = pickle.loads(pickle.dumps(expert))
    np.testing.assert_array_equal(again.query(points, 4.0).values, expert.query(points, 4.0).values)
    assert repr(expert) == (
        "<SensorExpert: 3 stations through <StubTransport: 3 stations x 9 times, seed 0>>"
    )


# --- points and stations without an answer ----------------------------------------------------------


def test_a_point_without_a_station_is_refused_by_name() -> None:
    expert = SensorExpert(STATIONS, Says(ALL_GOOD[1:2]), tolerance=0.5)
    said = expert.query(np.array([[3.0, 4.0], [0.0, 0.0]]), 5.0)
    np.testing.assert_array_equal(said.answered, [False, True])
    assert said.notes == ("no station within 0.5 of [3.0, 4.0]: the nearest is 'C', 3.61 away",)
    exact = SensorExpert(STATIONS, Says(ALL_GOOD)).query(np.array([[1e-9, 0.0]]), 5.0)
    assert exact.notes == ("no station within 0 of [1e-09, 0.0]: the nearest is 'A', 1e-09 away",)


def test_the_border_belongs_to_the_station_and_ties_to_the_first() -> None:
    expert = SensorExpert(STATIONS, Says(ALL_GOOD[1:2]), tolerance=0.5)
    assert expert.query(np.array([[0.5, 0.0]]), 5.0).values[0] == 1.0
    assert not expert.query(np.array([[-0.5000001, 0.0]]), 5.0).answered[0]


def test_silent_stations_are_named() -> None:
    expert = SensorExpert(STATIONS, Says([]))
    said = expert.query(np.array(PLACES), 5.0)
    assert not said.answered.any()
    assert said.notes == ("no answer from 'A', 'B', 'C'",)


def test_notes_stay_short() -> None:
    places = np.arange(40.0)[:, None]
    expert = SensorExpert(stations_at(places, noise_variance=1.0), Says([]), tolerance=0.1)
    said = expert.query(np.concatenate([places[:17], places[:9] + 0.5]), 1.0)
    assert len(said.notes) == 7
    assert said.notes[5] == "and 4 more points without a station"
    assert said.notes[6] == "no answer from '0', '1', '2', '3', '4' and 12 more"
    bad = Says([good(str(i), math.nan) for i in range(17)])
    said = SensorExpert(stations_at(places, noise_variance=1.0), bad).query(places[:17], 5.0)
    assert len(said.notes) == 6
    assert said.notes[5] == "and 12 more readings refused or left out"
    endless = Says([Reading("A", 5.0, math.nan, note="x" * 10_000), good("y" * 10_000)])
    notes = SensorExpert(STATIONS, endless).query(np.array(PLACES[:1]), 5.0).notes
    assert all(len(note) < 150 for note in notes)


# --- bad readings -----------------------------------------------------------------------------------

TOO_LARGE: Any = 10**400
BAD: dict[str, tuple[Any, str]] = {
    "NaN": (good("B", math.nan), "'B' is refused: its value must be a finite number, got nan"),
    "infinite": (
        good("B", -math.inf),
        "'B' is refused: its value must be a finite number, got -inf",
    ),
    "a text": (good("B", "4"), "its value must be a finite number, got '4'"),  # type: ignore[arg-type]
    "a truth": (good("B", True), "its value must be a finite number, got True"),
    "nothing": (good("B", None), "its value must be a finite number, got None"),  # type: ignore[arg-type]
    "too large": (good("B", TOO_LARGE), "its value must be a finite number, got 1000"),
    "with a note": (Reading("B", 5.0, math.nan, note="frozen"), "of 'B' is refused: frozen"),
    "no time": (good("B", time=math.nan), "its time must be a finite number, got nan"),
    "no variance": (good("B", variance=0.0), "its variance must be positive and finite, got 0.0"),
    "negative": (good("B", variance=-1.0), "its variance must be positive and finite, got -1.0"),
    "NaN variance": (good("B", variance=math.nan), "must be positive and finite, got nan"),
    "old": (good("B", time=4.5), "'B' is refused: it is of t = 4.5, 0.5 older than t = 5"),
    "of the future": (good("B", time=6.0), "it is of t = 6, 1 newer than t = 5"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_reading_harms_nobody_else(bad: str) -> None:
    reading, note = BAD[bad]
    expert = SensorExpert(STATIONS, Says([reading, ALL_GOOD[0], ALL_GOOD[1]]))
    said = expert.query(np.array(PLACES), 5.0)
    np.testing.assert_array_equal(said.values, [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(said.variance, [0.1, np.nan, 0.3])
    (only,) = said.notes
    assert note in only


@pytest.mark.parametrize("stranger", ["Z", "", 3, None, ["A"]])
def test_readings_of_strangers_are_left_out(stranger: Any) -> None:
    expert = SensorExpert(STATIONS, Says([good(stranger), *ALL_GOOD]))
    said = expert.query(np.array(PLACES), 5.0)
    np.testing.assert_array_equal(said.values, [1.0, 2.0, 3.0])
    assert said.notes == (f"a reading of {stranger!r}, which was not asked, is left out",)


def test_the_first_of_two_readings_counts() -> None:
    expert = SensorExpert(STATIONS, Says([*ALL_GOOD, good("A", 9.0)]))
    said = expert.query(np.array(PLACES), 5.0)
    np.testing.assert_array_equal(said.values, [1.0, 2.0, 3.0])
    assert said.notes == ("a second reading of 'A' is left out",)


def test_a_note_beside_a_value_is_no_refusal() -> None:
    expert = SensorExpert(STATIONS, Says([Reading("A", 5.0, 2.5, note="battery low")]))
    said = expert.query(np.array(PLACES[:1]), 5.0)
    assert (said.values[0], said.notes) == (2.5, ())


# --- old readings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aging", "expected"),
    [
        (Constant(), 0.2),
        (Linear(0.5), 0.2 * (1 + (0.5 * 2.0) ** 2)),
        (Wiener(0.3), 0.2 + 0.3 * 2.0),
        (Exponential(0.5), 0.2 * 4.0),
    ],
)
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_variance_of_an_old_reading_grows(aging: Aging, expected: float, side: float) -> None:
    readings = [good("A"), good("B", time=5.0 + 2.0 * side), good("C", time=5.0 + 2.5 * side)]
    expert = SensorExpert(STATIONS, Says(readings), staleness=2.0, aging=aging)
    said = expert.query(np.array(PLACES), 5.0)
    np.testing.assert_array_equal(said.answered, [True, True, False])
    assert said.variance[0] == 0.1
    assert said.variance[1] == pytest.approx(expected, rel=1e-15)
    word = "older" if side < 0 else "newer"
    assert said.notes == (
        f"the reading of 'C' is refused: it is of t = {5 + 2.5 * side:g}, 2.5 {word} than t = 5",
    )


def test_a_forgotten_reading_is_refused() -> None:
    expert = SensorExpert(
        STATIONS, Says([good("A", time=3.0)]), staleness=9.0, aging=Window(within=1.0)
    )
    said = expert.query(np.array(PLACES[:1]), 5.0)
    assert not said.answered[0]
    assert said.notes == ("the reading of 'A' is refused: its variance is inf at the age of 2",)


# --- a transport that fails -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ConnectionError("no route"), TimeoutError("slow"), RuntimeError()]
)
def test_a_transport_that_raises_is_an_outage(error: Exception) -> None:
    expert = SensorExpert(STATIONS, Says(error))
    match = f"3 stations cannot be reached: {type(error).__name__}: {error}"
    with pytest.raises(ExpertUnavailableError, match=match) as caught:
        expert.query(np.array(PLACES), 5.0)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [TypeError("wrong"), KeyError("wrong"), ExpertError("wrong")])
def test_mistakes_stay_mistakes(error: Exception) -> None:
    with pytest.raises(type(error), match="wrong") as caught:
        SensorExpert(STATIONS, Says(error)).query(np.array(PLACES), 5.0)
    assert caught.value is error


@pytest.mark.parametrize("wrong", [[1.0, 2.0], ["A"], [good("A"), None]])
def test_a_transport_returns_readings(wrong: Any) -> None:
    with pytest.raises(TypeError, match="the transport must return Readings, got "):
        SensorExpert(STATIONS, Says(wrong)).query(np.array(PLACES), 5.0)


def test_a_bandit_goes_on_without_its_stations() -> None:
    transport = Says(ConnectionError("no route"))
    X = np.array(PLACES)
    bandit = policies.sparq_gp_ucb(
        Candidates(X), RBF(1.0), 0.1, expert=SensorExpert(STATIONS, transport), seed=1
    )
    bandit.tell(X[:1], [1.0], t=0.0)  # the schedule has no questions for the first decision
    with pytest.warns(ExpertDownWarning, match="3 stations cannot be reached: Connect"):
        bandit.tell(X, [1.0, 2.0, 3.0], t=1.0)
    assert "ConnectionError: no route" in bandit.info.queries.notes[0]
    transport.readings = [good("A", time=2.0), good("B", math.nan, time=2.0)]
    info = bandit.tell(X[:1], [1.0], t=2.0)
    assert (info.queries.asked, info.queries.answered, info.queries.failures) == (3, 1, 1)
    assert info.queries.notes[1] == "no answer from 'C'"


# --- parameters -------------------------------------------------------------------------------------


def test_stations_of_a_table() -> None:
    made = stations_at([[1.0], [2.0]], noise_variance=0.5)
    assert made == (Station("0", (1.0,), 0.5), Station("1", (2.0,), 0.5))
    assert stations_at([[1.0], [2.0]], (), noise_variance=0.5) == made
    with pytest.raises(ValueError, match="ids must name 2 points, got 1"):
        stations_at([[1.0], [2.0]], ["x"], noise_variance=0.5)
    with pytest.raises(ValueError, match=r"noise_variance must have shape \(2,\), got \(3,\)"):
        stations_at([[1.0], [2.0]], noise_variance=[1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("", (0.0,), 1.0), "id of a station must be a text that is not empty, got ''"),
        ((3, (0.0,), 1.0), "id of a station must be a text that is not empty, got 3"),
        (("A", (math.nan,), 1.0), "station 'A' must be finite, got"),
        (("A", (), 1.0), r"station 'A' must be one point, got \(\)"),
        (("A", ((0.0,), (1.0,)), 1.0), "station 'A' must be one point"),
        (("A", ("x",), 1.0), "station 'A' must be numeric"),
        (("A", (0.0,), 0.0), "noise_variance of station 'A' must be positive and finite, got 0.0"),
        (("A", (0.0,), math.inf), "noise_variance of station 'A' must be positive"),
    ],
)
def test_bad_stations(arguments: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Station(*arguments)


A = Station("A", (0.0,), 1.0)
NETWORKS: dict[str, tuple[Any, str]] = {
    "none": ([], "stations must have at least one station, got none"),
    "no stations": (["A"], "stations must be Stations, got 'A'"),
    "dimensions": ([A, Station("B", (0.0, 1.0), 1.0)], "'B' has 2 coordinates, station 'A' has 1"),
    "names": ([A, Station("A", (1.0,), 1.0)], "two stations are called 'A'"),
    "places": (
        [A, Station("B", (-0.0,), 1.0)],
        r"stations 'A' and 'B' stand at one place, \[-?0\.0\]",
    ),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_bad_networks(network: str) -> None:
    stations, match = NETWORKS[network]
    with pytest.raises(ValueError, match=match):
        SensorExpert(stations, Says([]))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"tolerance": -1.0}, "tolerance must be finite and not negative, got -1.0"),
        ({"staleness": math.nan}, "staleness must be finite and not negative, got nan"),
        ({"cost": "much"}, "cost must be finite and not negative, got 'much'"),
        ({"staleness": 1.0}, r"staleness = 1\.0 needs aging="),
        ({"staleness": 1.0, "aging": 2.0}, r"aging must be a map of tvbandits\.aging, got 2\.0"),
    ],
)
def test_bad_options(options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        SensorExpert(STATIONS, Says([]), **options)


def test_bad_questions() -> None:
    with pytest.raises(ValueError, match=r"transport must have a method request\(stations, t\)"):
        SensorExpert(STATIONS, object())  # type: ignore[arg-type]
    expert = SensorExpert(STATIONS, Says([]))
    with pytest.raises(ValueError, match=r"X must have shape \(n, 2\), got \(1, 3\)"):
        expert.query(np.zeros((1, 3)), 1.0)
    with pytest.raises(ValueError, match="t must be a finite number, got nan"):
        expert.query(np.zeros((1, 2)), math.nan)


@dataclass
class Saying:
    """A transport that hands on what a station says."""

    reading: Reading

    def request(self, stations: Sequence[str], t: float) -> list[Reading]:  # noqa: ARG002
        return [self.reading]


def test_notes_are_cleaned_and_cut() -> None:
    station = stations_at([[0.0]], ["A"], noise_variance=1.0)
    for note in ("\x1b[2J\x1b]0;owned\x07 gone", "\u202egone", "x\r\ny" * 10_000):
        said = SensorExpert(station, Saying(Reading("A", 1.0, math.nan, note=note))).query(
            np.zeros((1, 1)), 1.0
        )
        assert said.notes
        assert all(each.isprintable() and len(each) < 200 for each in said.notes)
    assert Answers([1.0], 1.0, notes=("\x1b[31mred",)).notes == (" [31mred",)  # type: ignore[arg-type]
    assert len(Answers([1.0], 1.0, notes=("x" * 9999,)).notes[0]) == 1000  # type: ignore[arg-type]


def test_stated_variances_have_the_floor_of_the_network() -> None:
    station = stations_at([[0.0]], ["A"], noise_variance=4.0)
    boast = Saying(Reading("A", 1.0, 2.0, variance=1e-30))
    said = SensorExpert(station, boast).query(np.zeros((1, 1)), 1.0)
    assert said.variance[0] == 0.004
    assert said.notes == ("variance raised to 0.004 for 'A'",)
    believed = SensorExpert(station, boast, least_variance=1e-40).query(np.zeros((1, 1)), 1.0)
    assert believed.variance[0] == 1e-30
    for variance in (5e-324, 1e200):
        poison = Saying(Reading("A", 1.0, 2.0, variance=variance))
        said = SensorExpert(station, poison).query(np.zeros((1, 1)), 1.0)
        assert not said.answered[0]
        assert "its variance must lie in [1e-50, 1e+100]" in said.notes[0]
    said = SensorExpert(station, Saying(Reading("A", 1.0, 1e308))).query(np.zeros((1, 1)), 1.0)
    assert "its value must be at most 1e+50 in size" in said.notes[0]
