"""What is taken for a number, everywhere: arrays, and each number that a public part is made with.

Parts and good values of what they need are those of `tests.attack`, which attacks everything else, too.
"""

import decimal
import fractions
import inspect
import math
import re
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest

from tests.attack.calls import Call, calls
from tests.helpers.refusals import assert_refused
from tvbandits import Answers, Box, Candidates, Dataset
from tvbandits.datasets import TableProblem
from tvbandits.forgetting.aging import check_effective
from tvbandits.validation import (
    LARGEST_TIME,
    LARGEST_VALUE,
    LARGEST_VARIANCE,
    SMALLEST_VARIANCE,
    as_floats,
    as_generator,
    as_time,
    as_values,
    as_variances,
)

NAN, INF = math.nan, math.inf

# --- arrays ---------------------------------------------------------------------------------------

NO_NUMBERS: dict[str, tuple[Any, str]] = {
    "a text": ("1", "texts are no numbers"),
    "a text among numbers": ([1.0, "2"], "texts are no numbers"),
    "bytes": ([b"1"], "bytes are no numbers"),
    "complex": ([1.0 + 0j], "complex numbers are not ordered"),
    "a truth value": (True, "truth values are no numbers"),
    "a truth value among numbers": ([1.0, True], "truth values are no numbers"),
    "dates": (np.array(["2020-01-01"], dtype="datetime64[D]"), "as a Clock does"),
    "spans of time": (np.array([3], dtype="timedelta64[s]"), "as a Clock does"),
    "a Timestamp": (pd.Timestamp("2020-01-01"), "as a Clock does"),
    "a Series of dates": (pd.Series(pd.date_range("2020", periods=2, tz="UTC")), "as a Clock does"),
    "records": (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "records are no numbers"),
    "masked": (np.ma.masked_array([1.0, 1e6], [False, True]), "values are masked"),
    "masked in a list": ([1.0, np.ma.masked], "values are masked"),
    "too large": ([10**400], "a number is too large for a float"),
    "nothing": (None, "None is no number"),
    "nothing among numbers": ([1.0, None], "None is no number"),
    "an iterator": (iter([1.0]), "is no number"),
    "a Series of texts": (pd.Series(["1"]), "'1' is no number"),
    "ragged": ([[1.0], [1.0, 2.0]], "values must be numeric"),
}


@pytest.mark.parametrize("case", NO_NUMBERS)
def test_as_floats_refuses_all_but_numbers_with_a_reason(case: str) -> None:
    given, why = NO_NUMBERS[case]
    with pytest.raises(ValueError, match=re.escape("values must be numeric, got ")) as caught:
        as_floats(given, "values")
    assert why in str(caught.value)
    assert len(str(caught.value)) < 500


WELCOME: dict[str, tuple[Any, list[float]]] = {
    "ints": ([1, 2], [1.0, 2.0]),
    "float32": (np.array([1, 2], dtype=np.float32), [1.0, 2.0]),
    "arrays in a list": ([np.array(1.0), np.float32(2)], [1.0, 2.0]),
    "a Series": (pd.Series([1, 2]), [1.0, 2.0]),
    "a Series with a gap": (pd.Series([1, None], dtype="Float64"), [1.0, NAN]),
    "nothing masked": (np.ma.masked_array([1.0, 2.0], [False, False]), [1.0, 2.0]),
    "fractions": ([fractions.Fraction(1, 2), decimal.Decimal("1.5")], [0.5, 1.5]),
    "none at all": ([], []),
}


@pytest.mark.parametrize("case", WELCOME)
def test_as_floats_accepts_every_form_of_numbers(case: str) -> None:
    given, expected = WELCOME[case]
    made = as_floats(given, "values")
    assert made.dtype == np.float64
    np.testing.assert_array_equal(made, expected)


# --- the range of usable numbers ------------------------------------------------------------------


@pytest.mark.parametrize("value", [1e200, -1e308, -1.797693134862315e308, 1.01 * LARGEST_VALUE])
def test_dataset_answers_and_tables_refuse_values_above_their_limit(value: float) -> None:
    match = re.escape(f"must be at most 1e+50 in size, got {value}")
    assert_refused(ValueError, "y " + match, Dataset, [[0.0]], 1.0, [value], 1.0)
    assert_refused(ValueError, "values " + match, Answers, [0.0, value], 1.0)
    assert_refused(
        ValueError, "values " + match, TableProblem, [[value]], [[0.0]], "table", "", 1.0
    )
    assert as_values([NAN, LARGEST_VALUE], 2, missing=True)[1] == LARGEST_VALUE


@pytest.mark.parametrize("variance", [5e-324, 1e-300, 0.99e-75, 1e300])
def test_dataset_and_answers_refuse_variances_outside_their_limits(variance: float) -> None:
    match = rf"variance must be at (least 1e-75|most 1e\+100), got {variance}".replace("+3", r"\+3")
    assert_refused(ValueError, match, Dataset, [[0.0]], 1.0, [0.0], variance)
    assert_refused(ValueError, match, Answers, [0.0], variance)
    Answers([NAN], variance)  # type: ignore[arg-type]  # of no answer it is not looked at
    as_variances([SMALLEST_VARIANCE, LARGEST_VARIANCE], 2)


@pytest.mark.parametrize("t", [LARGEST_TIME, -LARGEST_TIME, 1e300])
def test_dataset_and_as_time_refuse_times_without_a_next_one(t: float) -> None:
    with pytest.raises(ValueError, match=r"t must be smaller than 2\^53 in size.*as a Clock does"):
        Dataset([[0.0]], t, [0.0], 1.0)  # type: ignore[arg-type]
    assert_refused(ValueError, r"t must be smaller than 2\^53 in size", as_time, t)
    assert as_time(LARGEST_TIME - 1) + 1.0 > LARGEST_TIME - 1


def test_candidates_and_box_refuse_coordinates_too_large_to_square() -> None:
    with pytest.raises(ValueError, match=r"candidates .*1e\+150"):
        Candidates([[0.0], [1e200]])  # type: ignore[arg-type]
    assert_refused(ValueError, "coordinates of bounds", Box, [[-1e308, 1e308]])


def test_check_effective_refuses_all_but_positive_variances() -> None:
    assert check_effective([1.0, INF], 2).tolist() == [1.0, INF]
    for bad in ([1.0, NAN], [0.0, 1.0], [1.0, -INF]):
        assert_refused(
            ValueError, "the aging map must return positive variances", check_effective, bad, 2
        )
    with pytest.raises(ValueError, match=r"what the aging map returns must have shape \(2,\)"):
        check_effective([1.0], 2)


@pytest.mark.parametrize("seed", [None, -1, 1.0, True, "1", np.random.RandomState(0)])
def test_as_generator_refuses_an_invalid_seed(seed: Any) -> None:
    assert_refused(ValueError, "seed must", as_generator, seed)


# --- every number that a public part is made with -------------------------------------------------

BAD_NUMBERS: list[Any] = [
    True, "9", b"9", 1j, NAN, 10**400, [1.0], np.datetime64("2020-01-01"), object(),
]  # fmt: skip
# Kernels follow scikit-learn; and a reading is judged by the expert.
CHECKED_AT_USE = ("Drift", "Reading")


def cases() -> Iterator[Any]:
    """Each number of a public class, and the types that it may have."""
    for call in calls():
        part = call.make()
        if not inspect.isclass(part) or part.__name__ in CHECKED_AT_USE:
            continue
        for name, hint in call.parameters.items():
            kinds = get_args(hint) or (hint,)
            if kinds == (bool,) or all(each in (int, float, type(None)) for each in kinds):
                yield pytest.param(call, name, kinds, id=f"{part.__name__}.{name}")


@pytest.mark.parametrize(("call", "name", "kinds"), list(cases()))
def test_public_classes_refuse_every_invalid_number(
    call: Call, name: str, kinds: tuple[type, ...]
) -> None:
    call()  # what it is made of is good
    bad: list[Any] = [*BAD_NUMBERS, *([] if type(None) in kinds else [None])]
    if kinds == (bool,):
        bad = ["yes", 1, 0.0, None, "False"]
    elif float not in kinds:
        bad += [2.0, 2.5, INF, *([] if call.name == "tvbandits.Integer" else [-1])]
    for value in bad:
        with pytest.raises(ValueError, match=name) as caught:
            call(**{name: value})
        assert len(str(caught.value)) < 500
