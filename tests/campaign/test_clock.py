"""Dates and times as numbers, and back."""

import pickle
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tvbandits import Campaign, Candidates, policies
from tvbandits.clock import Clock, to_number, to_numbers

HOURS = Clock("1h", "2024-01-01")
BERLIN = Clock("15min", pd.Timestamp("2024-01-01", tz="Europe/Berlin"))


@pytest.mark.parametrize(
    "when",
    [
        "2024-01-02T12:30",
        "2024-01-02 12:30:00",
        "20240102T1230",
        datetime(2024, 1, 2, 12, 30),
        pd.Timestamp("2024-01-02 12:30"),
        np.datetime64("2024-01-02T12:30"),
        np.array("2024-01-02T12:30", dtype="datetime64[ns]"),
    ],
)
def test_clock_number_accepts_every_form_of_a_time(when: Any) -> None:
    number = HOURS.number(when)
    assert type(number) is float
    assert number == 36.5


@pytest.mark.parametrize(
    "when",
    [
        ["2024-01-02", "2024-01-01T06:00"],
        np.array(["2024-01-02T00", "2024-01-01T06"], dtype="datetime64[h]"),
        pd.DatetimeIndex(["2024-01-02", "2024-01-01T06:00"]),
        pd.Series(pd.DatetimeIndex(["2024-01-02", "2024-01-01T06:00"])),
        pd.Series(["2024-01-02", "2024-01-01T06:00"]),
        (date(2024, 1, 2), np.datetime64("2024-01-01T06:00")),
    ],
)
def test_clock_number_accepts_every_form_of_several_times(when: Any) -> None:
    numbers = HOURS.number(when)
    assert numbers.dtype == np.float64
    np.testing.assert_array_equal(numbers, [24.0, 6.0])


def test_clock_converts_times_with_zones_across_summer_time() -> None:
    assert BERLIN.number("2024-01-01T00:00Z") == 4.0  # one in the morning there
    assert BERLIN.number(datetime(2024, 1, 1, tzinfo=UTC)) == 4.0
    assert str(BERLIN.time(4.0)) == "2024-01-01 01:00:00+01:00"
    # An hour is left out on the last Sunday of March: a clock counts time that passes.
    assert BERLIN.number(pd.Timestamp("2024-04-01", tz="Europe/Berlin")) == 4 * (91 * 24 - 1)
    assert str(BERLIN.time([4.0 * (91 * 24 - 1)])[0]) == "2024-04-01 00:00:00+02:00"


@pytest.mark.parametrize(
    ("clock", "when", "said"),
    [
        (HOURS, "2024-01-01T00:00Z", "origin .*UTC"),
        (HOURS, pd.date_range("2024", periods=2, tz="Asia/Tokyo"), "position 0, .*Asia/Tokyo"),
        (BERLIN, "2024-01-01", "Europe/Berlin, .*none"),
        (BERLIN, np.array(["2024-01-01"], dtype="datetime64[D]"), "position 0, has none"),
    ],
)
def test_clock_number_refuses_a_time_whose_zone_does_not_fit_the_origin(
    clock: Clock, when: Any, said: str
) -> None:
    assert_refused(ValueError, said, clock.number, when)


@pytest.mark.parametrize(
    ("when", "said"),
    [
        (3, "when must .*3$"),
        (None, "when must .*None"),
        ([1, 2], "position 0, .* 1$"),
        ([["2024-01-01"]], r"\(n,\), .*\(1, 1\)"),
        (pd.NaT, "when must .*NaT"),
        (np.datetime64("NaT", "s"), "when must .*NaT"),
        (np.array(["2024", "NaT"], dtype="datetime64[D]"), "position 1, .*NaT"),
        ("now", "when must .*'now'"),
        ("2024-02-30", "when must .*'2024-02-30'"),
        ("02/03/2026", "when: 02/03/2026 may be .*: write 2026-03-02 or 2026-02-03$"),
        ("3000-01-01", "292 years .*'3000-01-01'"),
        (np.ma.array(["2024-01-01"] * 2, "datetime64[D]", mask=[0, 1]), "values are masked"),
    ],
)
def test_clock_number_refuses_an_invalid_time(when: Any, said: str) -> None:
    assert_refused(ValueError, said, HOURS.number, when)


@pytest.mark.parametrize("day", ["13/01/2026", "01/13/2026", "13.01.2026", "2026-1-13 00:00"])
def test_clock_number_reads_an_unambiguous_date_in_any_form(day: str) -> None:
    assert HOURS.number(day) == HOURS.number("2026-01-13")


@pytest.mark.parametrize(
    "unit",
    ["", "h", "1M", "0h", "-1h", 3, None, pd.NaT, np.timedelta64("NaT", "s"), timedelta(0), "1", " 1 ",
     "+1", "9999999999", "1 1h", "1,5h", "1h 1", "P1M", "P1", np.timedelta64(1, "Y"), np.ma.masked],
)  # fmt: skip
def test_clock_refuses_an_invalid_unit(unit: Any) -> None:
    assert_refused(ValueError, "unit must", Clock, unit)


@pytest.mark.parametrize("origin", ["today", 0, pd.NaT, None, "0000-01-01"])
def test_clock_refuses_an_invalid_origin(origin: Any) -> None:
    assert_refused(ValueError, "origin must", Clock, "1h", origin)


@pytest.mark.parametrize(
    ("unit", "hours"),
    [("1h30min", 1.5), ("2 hours, 30 minutes", 2.5), ("01:30:00", 1.5), ("1 days 01:00:00", 25.0),
     ("P1DT1H", 25.0), ("PT1M", 1 / 60), ("1.5h", 1.5), (np.timedelta64(90, "m"), 1.5)],
)  # fmt: skip
def test_clock_accepts_units_in_words(unit: Any, hours: float) -> None:
    assert Clock(unit, "2024-01-01").time(60.0) == HOURS.time(60.0 * hours)


def test_clocks_compare_hash_and_pickle_by_value() -> None:
    assert Clock("60min", datetime(2024, 1, 1)) == HOURS
    assert hash(Clock(timedelta(hours=1))) == hash(HOURS)
    assert Clock("1min") != HOURS
    assert Clock("1h", "2024-01-01T00:00Z") != HOURS
    assert repr(HOURS) == "Clock(unit='0 days 01:00:00', origin='2024-01-01 00:00:00')"
    assert eval(repr(HOURS), {"Clock": Clock}) == HOURS
    for clock in (HOURS, BERLIN):
        again = pickle.loads(pickle.dumps(clock))
        assert again == clock
        assert str(again.time(1.0)) == str(clock.time(1.0))
    assert "Europe/Berlin" in repr(BERLIN)


UNITS = st.sampled_from(["1ns", "7us", "1s", "15min", "1h", "1D", "365D"])
NANOSECONDS = st.integers(-9_000_000_000_000_000_000, 9_000_000_000_000_000_000)


@given(UNITS, NANOSECONDS, NANOSECONDS)
def test_clock_time_inverts_number_within_float_precision(
    unit: str, origin: int, when: int
) -> None:
    clock = Clock(unit, pd.Timestamp(origin, unit="ns"))
    number = clock.number(pd.Timestamp(when, unit="ns"))
    length = pd.Timedelta(unit).value
    assert number == (when - origin) / length  # of Python's exact integers
    off = abs(int(clock.time(number).value) - when)
    apart = np.spacing(abs(number)) * length
    assert off <= apart + 0.5  # both times have this number
    assert clock.number(clock.time(number)) == number
    if apart < 0.98:
        assert off == 0


@given(
    UNITS, st.integers(-2_000_000_000, 2_000_000_000), st.integers(-2_000_000_000, 2_000_000_000)
)
def test_clock_time_inverts_number_exactly_for_whole_seconds(
    unit: str, origin: int, when: int
) -> None:
    clock = Clock(unit, pd.Timestamp(origin, unit="s"))
    assert clock.time(clock.number(pd.Timestamp(when, unit="s"))) == pd.Timestamp(when, unit="s")


def test_clock_text_adds_no_fractions_of_a_second() -> None:
    clock = Clock("1h", "1970-01-01")
    assert clock.text(clock.number("2026-06-02 19:52:32")) == "2026-06-02 19:52:32"


@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "UTC"])
@given(
    st.sampled_from(["1h", "15min", "1us", "7ns"]),
    st.datetimes(datetime(1970, 1, 1), datetime(2199, 1, 1)),
    st.floats(-1e5, 1e5),
)
def test_clock_text_matches_pandas(
    zone: str | None, unit: str, origin: datetime, number: float
) -> None:
    stamp = pd.Timestamp(origin, tz="UTC").tz_convert(zone) if zone else pd.Timestamp(origin)
    clock = Clock(unit, stamp)
    text = clock.text(number)
    assert text == str(clock.time(number))
    assert clock.number(text) == clock.number(pd.Timestamp(text))
    kept = Clock(str(pd.Timedelta(unit)), str(stamp))  # as a campaign keeps it
    assert (kept.number(text), kept.unit) == (clock.number(text), clock.unit)
    assert kept.text(number)[:10] == str(kept.time(number))[:10]
    assert_refused(ValueError, "number must be .*finite.*, got nan", clock.text, float("nan"))


def test_clock_now_is_the_current_time() -> None:
    for clock in (HOURS, BERLIN):
        assert abs(clock.now - clock.number(pd.Timestamp.now(tz=clock.origin.tz))) < 0.5


def test_clock_time_refuses_nan() -> None:
    assert_refused(ValueError, "number must be finite, got nan", HOURS.time, float("nan"))


# --- times without a zone, where the clock has one

AUTUMN = Clock("1h", pd.Timestamp("2024-10-27", tz="Europe/Berlin"))
FIXED = Clock("1h", "2024-10-27T00:00+02:00")


@pytest.mark.parametrize(
    ("clock", "when", "number"),
    [
        (AUTUMN, "2024-10-27T01:30", 1.5),
        (AUTUMN, "2024-10-27 03:00", 4.0),
        (AUTUMN, "2024-10-27", 0.0),
        (AUTUMN, datetime(2024, 10, 28), 25.0),
        (AUTUMN, np.datetime64("2024-10-27T04:00"), 5.0),
        (AUTUMN, "2024-10-27 02:30+01:00", 3.5),
        (FIXED, "2024-10-27 02:30", 2.5),
        (HOURS, "2024-01-01 02:30", 2.5),
        (AUTUMN, 2.5, 2.5),
    ],
)
def test_to_number_reads_a_time_without_zone_in_the_zone_of_the_clock(
    clock: Clock, when: Any, number: float
) -> None:
    assert to_number(clock, when) == number


def test_to_number_refuses_an_ambiguous_or_absent_local_time_with_the_offsets() -> None:
    both = r"at.*02:30.*twice in Europe/Berlin.*02:30:00\+02:00 or 2024-10-27T02:30:00\+01:00$"
    assert_refused(ValueError, both, to_number, AUTUMN, "2024-10-27 02:30", "--at")
    never = r"--at must be a time of Europe/Berlin, .*'2024-03-31 02:30'.*put forward"
    assert_refused(ValueError, never, to_number, AUTUMN, "2024-03-31 02:30", "--at")


def test_to_numbers_and_record_require_an_offset_if_the_clock_has_a_zone(tmp_path: Any) -> None:
    assert_refused(ValueError, "has none.*add one", to_numbers, AUTUMN, ["2024-10-27 01:00"])
    bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    with Campaign.create(tmp_path / "c.db", bandit, clock=AUTUMN) as campaign:
        campaign.tell([[0.0]], [1.0], "2024-10-27 01:00")
        assert campaign.status.time == 1.0
        campaign.correct([[0.0]], t="2024-10-27 01:00", to="2024-10-27 01:30")
        assert campaign.format_time(1.5) == "2024-10-27 01:30:00+02:00"
        row = {"X": [[1.0]], "y": [1.0], "t": "2024-10-27 01:00"}
        assert_refused(ValueError, "has none.*add one", campaign.record, [row])
