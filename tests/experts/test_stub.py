"""Stations in this process: what they replay, and every fault against a plain restatement."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom, kstest

from tvbandits.core.arrays import Array
from tvbandits.experts.sensors.expert import Reading
from tvbandits.experts.sensors.stub import Faults, StubTransport

T, A = 30, 8
LEVELS = np.random.default_rng(0).normal(size=(T, A)) * 10.0
IDS = [f"s{i}" for i in range(A)]
VARIANCE = np.linspace(0.5, 2.0, A)
NEVER = 1e-9
"""A chance below which a test may fail."""


def stub(faults: Any = (), **options: Any) -> StubTransport:
    return StubTransport(LEVELS, IDS, noise_variance=VARIANCE, faults=faults, **options)


def by_name(readings: list[Reading]) -> dict[str, Reading]:
    assert len({reading.station for reading in readings}) == len(readings)
    return {reading.station: reading for reading in readings}


def noise(transport: StubTransport) -> Array:
    """What is added to every level of the table, shape (T, A)."""
    values = [[transport.read(name, t).value for name in IDS] for t in range(1, T + 1)]  # type: ignore[union-attr]
    return np.array(values) - LEVELS


NOISE = noise(stub())
"""Of the seed 0; that it is noise is tested below."""


# --- without faults ---------------------------------------------------------------------------------


@given(order=st.permutations(IDS), t=st.integers(1, T), seed=st.integers(0, 5))
@settings(deadline=None, max_examples=30)
def test_the_same_question_has_the_same_answer(order: list[str], t: int, seed: int) -> None:
    transport = stub(Faults(loss=0.3, delay=0.4), seed=seed)
    said = by_name(transport.request(IDS, float(t)))
    again = pickle.loads(pickle.dumps(transport))
    again.request(IDS[:3], 7.0)  # other questions in between do not matter
    assert by_name(again.request(order, float(t))) == said
    assert {n: r for n in order if (r := transport.read(n, float(t)))} == said
    assert by_name(again.request(order[:3], float(t))) == {
        n: said[n] for n in order[:3] if n in said
    }


def test_readings_are_levels_and_noise_of_the_stated_variance() -> None:
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


def test_variances_by_station_and_seeds() -> None:
    assert [r.variance for r in stub().request(IDS, 1.0)] == VARIANCE.tolist()
    assert not np.isin(noise(stub(seed=1)), NOISE).any()
    # The noise of a station goes with its deviation.
    unit = noise(StubTransport(LEVELS, IDS, noise_variance=1.0))
    np.testing.assert_allclose(NOISE, unit * np.sqrt(VARIANCE), atol=1e-12)


def test_between_two_times_the_last_measurement_is_repeated() -> None:
    times = np.cumsum(np.random.default_rng(2).random(T) + 0.1)
    transport = stub(times=times)
    for t in np.linspace(times[0] - 0.5, times[-1] + 5.0, 57):
        before = times[times <= t]
        said = transport.request(IDS, float(t))
        if len(before) == 0:
            assert said == []
        else:
            assert said == transport.request(IDS, float(before[-1]))
            assert {r.time for r in said} == {before[-1]}
    assert transport.read("s0", float(times[0] - 0.5)) is None


def test_a_gap_in_the_table_is_no_answer() -> None:
    holes = np.where(np.eye(3, 4) > 0, np.nan, 1.0)
    transport = StubTransport(holes, list("abcd"), noise_variance=0.1)
    said = [[r.station for r in transport.request(list("abcd"), t)] for t in (1.0, 2.0, 3.0)]
    assert said == [list("bcd"), list("acd"), list("abd")]


# --- lost and late: exact counts --------------------------------------------------------------------

MANY = StubTransport(np.zeros((200, 50)), [str(i) for i in range(50)], noise_variance=1.0)


def answered(faults: Any, seed: int = 0) -> Array:
    """Which of 200 x 50 answers came."""
    transport = StubTransport(
        np.zeros((200, 50)), MANY.ids, noise_variance=1.0, seed=seed, faults=faults
    )
    came = np.zeros((200, 50), dtype=bool)
    for t in range(200):
        came[t, [int(r.station) for r in transport.request(MANY.ids, t + 1.0)]] = True
    return came


def complaints(came: Array, chance: float) -> list[str]:
    """What speaks against answers that come independently with this chance."""
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


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("loss", [0.05, 0.3, 0.9])
def test_answers_are_lost_at_the_stated_rate(loss: float, seed: int) -> None:
    assert complaints(answered(Faults(loss=loss), seed), 1 - loss) == []


@pytest.mark.parametrize(("delay", "time_out"), [(0.5, 1.0), (2.0, 1.0), (1.0, 0.1)])
def test_answers_are_late_as_exponential_delays_are(delay: float, time_out: float) -> None:
    came = answered(Faults(delay=delay, time_out=time_out))
    assert complaints(came, 1 - math.exp(-time_out / delay)) == []
    # A longer time-out lets the same answers come, and more.
    assert (answered(Faults(delay=delay, time_out=2 * time_out)) >= came).all()


def test_faults_draw_on_their_own() -> None:
    both = answered((Faults(loss=0.3), Faults(loss=0.3), Faults(delay=1.0)))
    assert complaints(both, 0.7 * 0.7 * (1 - math.exp(-1))) == []


def test_nothing_and_everything() -> None:
    assert answered(Faults(loss=0.0)).all()
    assert not answered(Faults(loss=1.0)).any()


def test_the_test_of_rates_can_fail() -> None:
    rng = np.random.default_rng(0)
    fair = rng.random((200, 50)) < 0.7
    assert complaints(fair, 0.7) == []
    assert complaints(rng.random((200, 50)) < 0.74, 0.7)  # a little too many
    assert complaints(np.repeat(fair[::2], 2, axis=0), 0.7)  # the same fate twice in a row
    assert complaints(np.repeat(fair[:, ::2], 2, axis=1), 0.7)  # neighbours share a fate
    deaf = fair.copy()
    deaf[:, 7], deaf[:, 8] = True, rng.random(200) < 0.4
    assert complaints(deaf, 0.7)  # the right rate over all, but not by station


# --- wrong values -----------------------------------------------------------------------------------


def test_bias_and_drift() -> None:
    made = noise(stub((Faults(bias=2.0, drift=0.25), Faults(bias=1.0, stations=["s3"]))))
    expected = NOISE + 2.0 + 0.25 * np.arange(T)[:, None]
    expected[:, 3] += 1.0
    np.testing.assert_allclose(made, expected, atol=1e-12)


def test_drift_goes_by_time_and_not_by_rows() -> None:
    times = 100.0 + np.arange(T) ** 1.5
    drifting = noise_at(stub(Faults(drift=0.5), times=times), times)
    np.testing.assert_allclose(
        drifting - noise_at(stub(times=times), times),
        np.repeat(0.5 * (times - 100.0)[:, None], A, axis=1),
        atol=1e-12,
    )


def noise_at(transport: StubTransport, times: Array) -> Array:
    values = [[r.value for r in transport.request(IDS, float(t))] for t in times]
    return np.array(values) - LEVELS


def test_a_stuck_station_repeats_what_it_measured_then() -> None:
    usual, drift = stub(Faults(drift=0.1)), Faults(drift=0.1)
    stuck = stub((Faults(stuck_from=12.5, stations=["s1", "s4"]), drift))
    for t in range(1, T + 1):
        said = stuck.request(IDS, float(t))
        assert {r.time for r in said} == {t}  # it claims to be new
        for name, reading in by_name(said).items():
            then = min(t, 12) if name in ("s1", "s4") else t
            expected = usual.read(name, float(then))
            assert expected is not None
            assert (reading.value, reading.variance) == (expected.value, expected.variance)
    early = stub(Faults(stuck_from=-3.0))
    assert {r.value for t in (1.0, 9.0) for r in early.request(["s0"], t)} == {
        stub().read("s0", 1.0).value  # type: ignore[union-attr]
    }
    twice = stub((Faults(stuck_from=20.0), Faults(stuck_from=5.0)))
    assert twice.read("s0", 30.0).value == stub().read("s0", 5.0).value  # type: ignore[union-attr]


def test_only_the_reported_variance_is_wrong() -> None:
    faulty = stub((Faults(variance_factor=0.1), Faults(variance_factor=5.0, stations=("s2",))))
    np.testing.assert_array_equal(noise(faulty), NOISE)
    expected = VARIANCE * np.where(np.arange(A) == 2, 0.1 * 5.0, 0.1)
    reported = [r.variance for r in faulty.request(IDS, 4.0)]
    np.testing.assert_allclose(np.array(reported, dtype=float), expected, rtol=1e-15)


# --- outages, and whom faults apply to ----------------------------------------------------------------


def test_down() -> None:
    transport = stub(Faults(down=(5.0, 8.0)))
    for t in range(1, T + 1):
        if 5 <= t < 8:
            with pytest.raises(ConnectionError, match=f"all stations are down at t = {t}"):
                transport.request(IDS, float(t))
            assert transport.read("s0", float(t)) is None
        else:
            assert len(transport.request(IDS, float(t))) == A


def test_some_are_down() -> None:
    transport = stub(Faults(down=(5.0, 8.0), stations=("s1", "s6")))
    silent = [
        set(IDS) - {r.station for r in transport.request(IDS, float(t))} for t in (4, 5, 7, 8)
    ]
    assert silent == [set(), {"s1", "s6"}, {"s1", "s6"}, set()]
    assert transport.request(["s1"], 6.0) == []


def test_faults_hit_those_they_name() -> None:
    came = answered(Faults(loss=1.0, stations=[str(i) for i in range(0, 50, 3)]))
    assert (came == (np.arange(50) % 3 > 0)).all()
    assert answered(Faults(loss=1.0, stations=())).all()


# --- parameters -------------------------------------------------------------------------------------


def test_they_say_what_they_are() -> None:
    assert repr(Faults()) == "Faults()"
    transport = stub(Faults(loss=0.2, stations=["s1"]), seed=4)
    assert repr(transport) == (
        "<StubTransport: 8 stations x 30 times, seed 4, Faults(loss=0.2, stations=('s1',))>"
    )
    assert (transport.ids, transport.seed) == (tuple(IDS), 4)
    with pytest.raises(ValueError, match="read-only"):
        transport.values[0, 0] = 1.0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"loss": 1.5}, r"loss must lie in \[0, 1\], got 1\.5"),
        ({"delay": -1.0}, "delay must be finite and not negative, got -1.0"),
        ({"time_out": 0.0}, "time_out must be positive and finite, got 0.0"),
        ({"drift": math.inf}, "drift must be a finite number, got inf"),
        ({"bias": "2"}, "bias must be a finite number, got '2'"),
        ({"stuck_from": math.nan}, "stuck_from must be a finite number, got nan"),
        ({"variance_factor": -0.1}, "variance_factor must be positive and finite, got -0.1"),
        ({"down": 3.0}, "down must be a pair of times"),
        ({"down": (5.0, 5.0)}, r"from < until, got \(5\.0, 5\.0\)"),
        ({"stations": "s1"}, "stations must be a collection of ids, got 's1'"),
    ],
)
def test_bad_faults(options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Faults(**options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"values": [1.0]}, r"values must have shape \(T, A\), T and A >= 1, got \(1,\)"),
        ({"values": np.empty((0, 2))}, r"got \(0, 2\)"),
        ({"values": [[1.0, math.inf]]}, "values must be finite, or NaN where nothing was measured"),
        ({"ids": ["a"]}, r"ids must name 2 stations, one for each column of values, got \['a'\]"),
        ({"ids": "ab"}, "ids must be the names of 2 stations, got 'ab'"),
        ({"ids": ["a", "a"]}, "two stations are called 'a'"),
        ({"times": [1.0, 2.0]}, r"times must have shape \(3,\), got \(2,\)"),
        ({"times": [1.0, 3.0, 3.0]}, r"times must increase, got 3\.0 and then 3\.0"),
        ({"times": [1.0, math.nan, 3.0]}, "times must be finite, got nan"),
        ({"noise_variance": 0.0}, "noise_variance must be positive, got 0.0"),
        ({"noise_variance": [1.0]}, r"noise_variance must have shape \(2,\), got \(1,\)"),
        ({"seed": 0.5}, "seed must be a whole number of at least 0, got 0.5"),
        ({"faults": "loss"}, r"faults must be Faults\(...\), or a sequence of them, got 'loss'"),
        ({"faults": Faults(stations=["c"])}, "a fault names the station 'c', which the table does"),
    ],
)
def test_bad_tables(options: Any, match: str) -> None:
    usual = {"values": np.zeros((3, 2)), "ids": ["a", "b"], "noise_variance": 1.0}
    with pytest.raises(ValueError, match=match):
        StubTransport(**{**usual, **options})


def test_bad_questions() -> None:
    with pytest.raises(ValueError, match="the table has no station 'z'"):
        stub().request(["s0", "z"], 1.0)
    with pytest.raises(ValueError, match="the table has no station 'z'"):
        stub().read("z", 1.0)
    with pytest.raises(ValueError, match="t must be a finite number, got nan"):
        stub().request(["s0"], math.nan)
    assert stub().request([], 1.0) == []
