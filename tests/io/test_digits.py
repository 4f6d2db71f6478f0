"""Numbers in texts are readable in any unit."""

import math

import numpy as np
import pytest

from tvbandits.text import format_interval, format_number


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1.0, 1e3, 1e11])
def test_format_number_keeps_its_digits_in_any_unit(size: float) -> None:
    for share in (0.1234, 1.0, 7.654, -3.21):
        for digits in (3, 4):
            text = format_number(size * share, digits)
            assert float(text) == pytest.approx(size * share, rel=0.5 * 10 ** (1 - digits))
            assert len(text) <= digits + 7


def test_format_number_writes_whole_numbers_below_a_million_in_full() -> None:
    assert format_number(123456.7) == "123457"
    assert format_number(-99999.9, 2) == "-100000"
    assert format_number(1e6) == "1e+06"
    assert (format_number(math.nan), format_number(0.0)) == ("nan", "0")


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1.0, 1e3, 1e11])
def test_format_interval_rounds_both_numbers_to_two_digits_of_the_half_width(size: float) -> None:
    rng = np.random.default_rng(0)
    for mean, half in size * rng.lognormal(0.0, 2.0, (40, 2)):
        one, other = map(float, format_interval(mean, half).split(" ± "))
        assert other == pytest.approx(half, rel=0.051)
        assert abs(one - mean) <= 0.051 * half + 1e-12 * mean


def test_format_interval_accepts_zero_and_infinite_half_widths() -> None:
    assert format_interval(1.5, 0.0) == "1.5 ± 0"
    assert format_interval(1.5, math.inf, "+-") == "1.5 +- inf"
