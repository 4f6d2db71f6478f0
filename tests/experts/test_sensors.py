"""`SensorExpert` and `StubTransport`: stations that are asked, refused readings, simulated faults."""

import math
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom, kstest

from tests.helpers.refusals import assert_refused
from tvbandits import Answers, ExpertError
from tvbandits.experts.protocol import ExpertUnavailableError
from tvbandits.experts.sensors.expert import Reading, SensorExpert, Station, stations_at
from tvbandits.experts.sensors.stub import Faults, StubTransport
from tvbandits.forgetting.aging import Aging, Constant, Exponential, Linear, Wiener, Window
from tvbandits.validation import Array

PLACES = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]
STATIONS = stations_at(PLACES, ["A", "B", "C"], noise_variance=[0.1, 0.2, 0.3])


@dataclass
class Says:
    """A transport that returns given readings, and records its requests."""

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
    """Values, variances and the stations that are asked, point by point."""
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
@settings(deadline=None, max_examples=30)
def test_sensor_expert_answers_with_the_reading_of_the_nearest_station(
    seed: int, tolerance: float
) -> None:
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
    said = SensorExpert(stations, transport, tolerance=tolerance, cost=2.0).query(X, 5.0)
    np.testing.assert_array_equal(said.values, values)
    np.testing.assert_array_equal(said.variance, variances)
    assert said.cost == 2.0 * len(asked)
    (request,) = transport.asked
    assert (sorted(request[0]), request[1]) == (sorted(asked), 5.0)


def test_sensor_expert_sends_no_request_without_a_station_to_ask() -> None:
    transport = Says(OSError("down"))
    expert = SensorExpert(STATIONS, transport, tolerance=0.5)
    assert len(expert.query(np.empty((0, 2)), 5.0)) == 0
    assert not expert.query(np.array([[9.0, 9.0]]), 5.0).answered.any()
    assert transport.asked == []


# --- points and stations without an answer ----------------------------------------------------------


def test_sensor_expert_refuses_a_point_without_a_station_and_names_the_nearest() -> None:
    expert = SensorExpert(STATIONS, Says(ALL_GOOD[1:2]), tolerance=0.5)
    said = expert.query(np.array([[3.0, 4.0], [0.0, 0.0]]), 5.0)
    np.testing.assert_array_equal(said.answered, [False, True])
    assert said.notes == ("no station within 0.5 of [3.0, 4.0]: the nearest is 'C', 3.61 away",)
    exact = SensorExpert(STATIONS, Says(ALL_GOOD)).query(np.array([[1e-9, 0.0]]), 5.0)
    assert exact.notes == ("no station within 0 of [1e-09, 0.0]: the nearest is 'A', 1e-09 away",)


def test_sensor_expert_includes_its_tolerance_and_breaks_ties_by_order() -> None:
    expert = SensorExpert(STATIONS, Says(ALL_GOOD[1:2]), tolerance=0.5)
    assert expert.query(np.array([[0.5, 0.0]]), 5.0).values[0] == 1.0
    assert not expert.query(np.array([[-0.5000001, 0.0]]), 5.0).answered[0]


def test_sensor_expert_limits_the_number_and_length_of_notes() -> None:
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
    "infinite": (good("B", -math.inf), "its value must be a finite number, got -inf"),
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
def test_sensor_expert_refuses_an_invalid_reading_and_keeps_the_others(bad: str) -> None:
    reading, note = BAD[bad]
    expert = SensorExpert(STATIONS, Says([reading, ALL_GOOD[0], ALL_GOOD[1]]))
    said = expert.query(np.array(PLACES), 5.0)
    np.testing.assert_array_equal(said.values, [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(said.variance, [0.1, np.nan, 0.3])
    (only,) = said.notes
    assert note in only


@pytest.mark.parametrize("who", ["Z", "", 3, None, ["A"], "A"])
def test_sensor_expert_omits_readings_of_unknown_stations_and_second_readings(who: Any) -> None:
    said = SensorExpert(STATIONS, Says([*ALL_GOOD, good(who, 9.0)])).query(np.array(PLACES), 5.0)
    np.testing.assert_array_equal(said.values, [1.0, 2.0, 3.0])
    stranger = f"a reading of {who!r}, which was not queried, is left out"
    assert said.notes == ("a second reading of 'A' is left out" if who == "A" else stranger,)


def test_sensor_expert_accepts_a_value_with_a_note() -> None:
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
def test_sensor_expert_ages_the_variance_up_to_its_staleness(
    aging: Aging, expected: float, side: float
) -> None:
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


def test_sensor_expert_refuses_a_reading_with_infinite_aged_variance() -> None:
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
def test_sensor_expert_is_unavailable_if_its_transport_fails(error: Exception) -> None:
    expert = SensorExpert(STATIONS, Says(error))
    match = f"3 stations cannot be reached: {type(error).__name__}: {error}"
    with pytest.raises(ExpertUnavailableError, match=match) as caught:
        expert.query(np.array(PLACES), 5.0)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [TypeError("wrong"), KeyError("wrong"), ExpertError("wrong")])
def test_sensor_expert_raises_programming_errors_of_its_transport_unchanged(
    error: Exception,
) -> None:
    with pytest.raises(type(error), match="wrong") as caught:
        SensorExpert(STATIONS, Says(error)).query(np.array(PLACES), 5.0)
    assert caught.value is error


@pytest.mark.parametrize("wrong", [[1.0, 2.0], ["A"], [good("A"), None]])
def test_sensor_expert_refuses_all_but_readings_from_its_transport(wrong: Any) -> None:
    with pytest.raises(TypeError, match="Readings"):
        SensorExpert(STATIONS, Says(wrong)).query(np.array(PLACES), 5.0)


# --- parameters -------------------------------------------------------------------------------------


def test_stations_at_makes_one_station_per_point() -> None:
    made = stations_at([[1.0], [2.0]], noise_variance=0.5)
    assert made == (Station("0", (1.0,), 0.5), Station("1", (2.0,), 0.5))
    assert stations_at([[1.0], [2.0]], (), noise_variance=0.5) == made
    with pytest.raises(ValueError, match="ids must name 2 points, got 1"):
        stations_at([[1.0], [2.0]], ["x"], noise_variance=0.5)
    with pytest.raises(ValueError, match=r"noise_variance must have shape \(2,\), got \(3,\)"):
        stations_at([[1.0], [2.0]], noise_variance=[1.0, 1.0, 1.0])


A = Station("A", (0.0,), 1.0)
NETWORKS: dict[str, tuple[Any, str]] = {
    "none": ([], "stations must .*none"),
    "no stations": (["A"], "stations must be Stations, got 'A'"),
    "dimensions": ([A, Station("B", (0.0, 1.0), 1.0)], "'B' .*2 .*'A' .*1"),
    "names": ([A, Station("A", (1.0,), 1.0)], "'A'"),
    "places": ([A, Station("B", (-0.0,), 1.0)], r"'A' .*'B' .*\[-?0\.0\]"),
}


@pytest.mark.parametrize("network", NETWORKS)
def test_sensor_expert_refuses_invalid_stations(network: str) -> None:
    stations, match = NETWORKS[network]
    assert_refused(ValueError, match, SensorExpert, stations, Says([]))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"tolerance": -1.0}, "tolerance must .*-1.0"),
        ({"staleness": 1.0}, r"staleness = 1\.0 needs aging="),
        ({"staleness": 1.0, "aging": 2.0}, r"aging must .*2\.0"),
    ],
)
def test_sensor_expert_refuses_invalid_options(options: Any, match: str) -> None:
    assert_refused(ValueError, match, SensorExpert, STATIONS, Says([]), **options)


def test_answers_and_sensor_expert_clean_and_shorten_notes() -> None:
    station = stations_at([[0.0]], ["A"], noise_variance=1.0)
    for note in ("\x1b[2J\x1b]0;owned\x07 gone", "\u202egone", "x\r\ny" * 10_000):
        expert = SensorExpert(station, Says([Reading("A", 1.0, math.nan, note=note)]))
        said = expert.query(np.zeros((1, 1)), 1.0)
        assert said.notes
        assert all(each.isprintable() and len(each) < 200 for each in said.notes)
    assert Answers([1.0], 1.0, notes=("\x1b[31mred",)).notes == (" [31mred",)  # type: ignore[arg-type]
    assert len(Answers([1.0], 1.0, notes=("x" * 9999,)).notes[0]) == 1000  # type: ignore[arg-type]


def test_sensor_expert_raises_a_stated_variance_to_its_least_variance() -> None:
    station = stations_at([[0.0]], ["A"], noise_variance=4.0)
    boast = Says([Reading("A", 1.0, 2.0, variance=1e-30)])
    said = SensorExpert(station, boast).query(np.zeros((1, 1)), 1.0)
    assert said.variance[0] == 0.004
    assert said.notes == ("variance raised to 0.004 for 'A'",)
    believed = SensorExpert(station, boast, least_variance=1e-40).query(np.zeros((1, 1)), 1.0)
    assert believed.variance[0] == 1e-30
    for variance in (5e-324, 1e200):
        poison = Says([Reading("A", 1.0, 2.0, variance=variance)])
        said = SensorExpert(station, poison).query(np.zeros((1, 1)), 1.0)
        assert not said.answered[0]
        assert "its variance must lie in [1e-75, 1e+100]" in said.notes[0]
    said = SensorExpert(station, Says([Reading("A", 1.0, 1e308)])).query(np.zeros((1, 1)), 1.0)
    assert "its value must be at most 1e+50 in size" in said.notes[0]


# --- stations in this process: replayed values, and every fault against a plain restatement

T, A_STUB = 30, 8
LEVELS = np.random.default_rng(0).normal(size=(T, A_STUB)) * 10.0
IDS = [f"s{i}" for i in range(A_STUB)]
VARIANCE = np.linspace(0.5, 2.0, A_STUB)
# A chance below which a test may fail.
NEVER = 1e-9


def stub(faults: Any = (), **options: Any) -> StubTransport:
    return StubTransport(LEVELS, IDS, noise_variance=VARIANCE, faults=faults, **options)


def by_name(readings: list[Reading]) -> dict[str, Reading]:
    assert len({reading.station for reading in readings}) == len(readings)
    return {reading.station: reading for reading in readings}


def noise(transport: StubTransport) -> Array:
    """The noise added to every level of the table, shape (T, A)."""
    values = [[transport.read(name, t).value for name in IDS] for t in range(1, T + 1)]  # type: ignore[union-attr]
    return np.array(values) - LEVELS


# The noise of seed 0, whose distribution is tested below.
NOISE = noise(stub())


# --- without faults ---------------------------------------------------------------------------------


@given(order=st.permutations(IDS), t=st.integers(1, T), seed=st.integers(0, 5))
@settings(deadline=None, max_examples=30)
def test_stub_transport_repeats_its_answer_to_the_same_request(
    order: list[str], t: int, seed: int
) -> None:
    transport = stub(Faults(loss=0.3), seed=seed)
    said = by_name(transport.request(IDS, float(t)))
    again = pickle.loads(pickle.dumps(transport))
    again.request(IDS[:3], 7.0)  # other questions in between do not matter
    assert by_name(again.request(order, float(t))) == said
    assert {n: r for n in order if (r := transport.read(n, float(t)))} == said
    assert by_name(again.request(order[:3], float(t))) == {
        n: said[n] for n in order[:3] if n in said
    }


def test_stub_transport_adds_independent_noise_of_the_stated_variance() -> None:
    levels = np.random.default_rng(1).normal(size=(400, 10))
    transport = StubTransport(levels, [str(i) for i in range(10)], noise_variance=0.25, seed=3)
    readings = [transport.request(transport.ids, float(t)) for t in range(1, 401)]
    assert all(r.variance == 0.25 and r.time == t for t, row in enumerate(readings, 1) for r in row)
    made = np.array([[r.value for r in row] for row in readings]) - levels
    assert kstest(made.ravel() / 0.5, "norm").pvalue > NEVER
    assert abs(made.var() / 0.25 - 1) < 6 * math.sqrt(2 / made.size)
    for first, second in ((made[:-1], made[1:]), (made[:, :-1], made[:, 1:])):
        assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 6 / math.sqrt(first.size)
    assert len(np.unique(made)) == made.size


def test_stub_transport_scales_noise_by_station_and_varies_it_with_the_seed() -> None:
    assert [r.variance for r in stub().request(IDS, 1.0)] == VARIANCE.tolist()
    assert not np.isin(noise(stub(seed=1)), NOISE).any()
    # The noise of a station goes with its deviation.
    unit = noise(StubTransport(LEVELS, IDS, noise_variance=1.0))
    np.testing.assert_allclose(NOISE, unit * np.sqrt(VARIANCE), atol=1e-12)


def test_stub_transport_repeats_the_last_measurement_between_two_times() -> None:
    for t in np.linspace(0.5, T + 5.0, 57):
        said = stub().request(IDS, float(t))
        assert said == stub().request(IDS, float(min(math.floor(t), T)))
        assert {r.time for r in said} == ({min(math.floor(t), T)} if t >= 1 else set())
    assert stub().read("s0", 0.5) is None


def test_stub_transport_omits_the_reading_for_nan_in_its_table() -> None:
    holes = np.where(np.eye(3, 4) > 0, np.nan, 1.0)
    transport = StubTransport(holes, list("abcd"), noise_variance=0.1)
    said = [[r.station for r in transport.request(list("abcd"), t)] for t in (1.0, 2.0, 3.0)]
    assert said == [list("bcd"), list("acd"), list("abd")]


# --- lost and late: exact counts --------------------------------------------------------------------

MANY = [str(i) for i in range(50)]


def answered(faults: Any, seed: int = 0) -> Array:
    """Which of 200 x 50 readings were returned."""
    levels = np.zeros((200, 50))
    transport = StubTransport(levels, MANY, noise_variance=1.0, seed=seed, faults=faults)
    came = np.zeros((200, 50), dtype=bool)
    for t in range(200):
        came[t, [int(r.station) for r in transport.request(MANY, t + 1.0)]] = True
    return came


def complaints(came: Array, chance: float) -> list[str]:
    """Deviations from readings that are returned independently with this probability."""
    found = []
    for what, each in (("all", came.ravel()), *((f"station {i}", came[:, i]) for i in range(50))):
        count, n = int(each.sum()), len(each)
        if min(binom.cdf(count, n, chance), binom.sf(count - 1, n, chance)) < NEVER:
            found.append(f"{what}: {count} of {n}")
    spread = math.sqrt(chance * (1 - chance))
    for what, first, second in (
        ("time", came[:-1], came[1:]),
        ("neighbour", came[:, :-1], came[:, 1:]),
    ):
        both = (first - chance) * (second - chance) / spread**2
        if abs(both.mean()) * math.sqrt(both.size) > 6:
            found.append(f"by {what}: {both.mean():.3f}")
    return found


@pytest.mark.parametrize(("loss", "seed"), [(0.05, 0), (0.3, 1), (0.9, 0)])
def test_stub_transport_loses_readings_independently_at_the_stated_rate(
    loss: float, seed: int
) -> None:
    assert complaints(answered(Faults(loss=loss), seed), 1 - loss) == []


def test_stub_transport_draws_the_losses_of_two_faults_independently() -> None:
    both = answered((Faults(loss=0.3), Faults(loss=0.3)))
    assert complaints(both, 0.7 * 0.7) == []


# --- wrong values -----------------------------------------------------------------------------------


def test_stub_transport_adds_bias_and_drift_to_values() -> None:
    made = noise(stub((Faults(bias=2.0, drift=0.25), Faults(bias=1.0, stations=["s3"]))))
    expected = NOISE + 2.0 + 0.25 * np.arange(T)[:, None]
    expected[:, 3] += 1.0
    np.testing.assert_allclose(made, expected, atol=1e-12)


def test_stub_transport_repeats_the_last_value_of_a_stuck_station() -> None:
    usual, drift = stub(Faults(drift=0.1)), Faults(drift=0.1)
    stuck = stub((Faults(stuck_from=12.5, stations=["s1", "s4"]), drift))
    for t in range(1, T + 1):
        said = stuck.request(IDS, float(t))
        assert {r.time for r in said} == {t}  # it claims to be new
        for name, reading in by_name(said).items():
            expected = usual.read(name, float(min(t, 12) if name in ("s1", "s4") else t))
            assert (reading.value, reading.variance) == (expected.value, expected.variance)
    early = stub(Faults(stuck_from=-3.0))
    assert {r.value for t in (1.0, 9.0) for r in early.request(["s0"], t)} == {
        stub().read("s0", 1.0).value  # type: ignore[union-attr]
    }
    twice = stub((Faults(stuck_from=20.0), Faults(stuck_from=5.0)))
    assert twice.read("s0", 30.0).value == stub().read("s0", 5.0).value  # type: ignore[union-attr]


def test_stub_transport_scales_only_the_reported_variance_by_variance_factor() -> None:
    faulty = stub((Faults(variance_factor=0.1), Faults(variance_factor=5.0, stations=("s2",))))
    np.testing.assert_array_equal(noise(faulty), NOISE)
    expected = VARIANCE * np.where(np.arange(A_STUB) == 2, 0.1 * 5.0, 0.1)
    reported = [r.variance for r in faulty.request(IDS, 4.0)]
    np.testing.assert_allclose(np.array(reported, dtype=float), expected, rtol=1e-15)


# --- outages, and the stations that faults apply to -----------------------------------------------


def test_stub_transport_raises_while_all_stations_are_down() -> None:
    transport = stub(Faults(down=(5.0, 8.0)))
    for t in range(1, T + 1):
        if 5 <= t < 8:
            with pytest.raises(ConnectionError, match=f"all stations are down at t = {t}"):
                transport.request(IDS, float(t))
            assert transport.read("s0", float(t)) is None
        else:
            assert len(transport.request(IDS, float(t))) == A_STUB


def test_stub_transport_omits_readings_of_stations_that_are_down() -> None:
    transport = stub(Faults(down=(5.0, 8.0), stations=("s1", "s6")))
    silent = [
        set(IDS) - {r.station for r in transport.request(IDS, float(t))} for t in (4, 5, 7, 8)
    ]
    assert silent == [set(), {"s1", "s6"}, {"s1", "s6"}, set()]
    assert transport.request(["s1"], 6.0) == []


def test_stub_transport_applies_faults_only_to_the_named_stations() -> None:
    came = answered(Faults(loss=1.0, stations=[str(i) for i in range(0, 50, 3)]))
    assert (came == (np.arange(50) % 3 > 0)).all()
    assert answered(Faults(loss=1.0, stations=())).all()


# --- parameters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"loss": 1.5}, r"loss must .*1\.5"),
        ({"variance_factor": -0.1}, "variance_factor must .*-0.1"),
        ({"down": 3.0}, "down must"),
        ({"down": (5.0, 5.0)}, r"from < until, got \(5\.0, 5\.0\)"),
        ({"stations": "s1"}, "stations must .*'s1'"),
    ],
)
def test_faults_refuse_invalid_options(options: Any, match: str) -> None:
    assert_refused(ValueError, match, Faults, **options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"ids": ["a"]}, r"ids must .* got \['a'\]"),
        ({"ids": ["a", "a"]}, r"ids must .* got \['a', 'a'\]"),
        ({"faults": Faults(stations=["c"])}, "fault must .* got 'c'"),
    ],
)
def test_stub_transport_refuses_invalid_ids_and_faults_of_unknown_stations(
    options: Any, match: str
) -> None:
    usual = {"values": np.zeros((3, 2)), "ids": ["a", "b"], "noise_variance": 1.0}
    assert_refused(ValueError, match, StubTransport, **{**usual, **options})
