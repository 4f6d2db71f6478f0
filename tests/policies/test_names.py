"""Names of policies with parameters, as on the command line."""

import re
import string
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st

from tests.helpers.refusals import assert_refused
from tvbandits.__main__ import repeat_options
from tvbandits.policies.names import parameters_of, parse_call, parse_spec


def example_recipe(
    setting: object,  # noqa: ARG001
    whole: int = 1,
    real: float | None = None,
    flag: bool = False,
    word: str | None = None,
    free=None,  # type: ignore[no-untyped-def]  # noqa: ANN001, ARG001, RUF100
) -> tuple[Any, ...]:
    return whole, real, flag, word


OPTIONS = parameters_of(example_recipe, skip=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", ("a", {})),
        ("a:b=-1,c=1e-3,d=.5", ("a", {"b": -1, "c": 1e-3, "d": 0.5})),
        ("a:b=true,c=False,d=truely", ("a", {"b": True, "c": False, "d": "truely"})),
        (" a : b = 1 , c = New York ", ("a", {"b": 1, "c": "New York"})),
        ("a:b=x=y", ("a", {"b": "x=y"})),
        ("a:b=12:30", ("a", {"b": "12:30"})),
    ],
)
def test_parse_spec_reads_name_and_parameters(
    text: str, expected: tuple[str, dict[str, Any]]
) -> None:
    name, parameters = parse_spec(text)
    assert (name, parameters) == expected
    assert [type(v) for v in parameters.values()] == [type(v) for v in expected[1].values()]


@pytest.mark.parametrize("part", ["", " ", "b c", "b=", "=1", " = ", "b=1,", ",b=1", "b=1,,c=2"])
def test_parse_spec_refuses_malformed_parameters(part: str) -> None:
    message = f'"a:{part}": expected key=value after the colon'
    assert_refused(ValueError, re.escape(message), parse_spec, f"a:{part}")


def test_parse_spec_refuses_a_parameter_given_twice() -> None:
    assert_refused(ValueError, re.escape('"a:b=1,b=2": b is given twice'), parse_spec, "a:b=1,b=2")


words = st.text(string.ascii_lowercase + "_-", min_size=1).filter(
    lambda word: word not in ("true", "false", "inf", "nan", "infinity", "-inf", "-nan")
)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(words, st.dictionaries(words, st.integers() | numbers | st.booleans() | words))
def test_parse_spec_reads_back_any_written_parameters(
    name: str, parameters: dict[str, Any]
) -> None:
    pairs = ",".join(f"{key}={value}" for key, value in parameters.items())
    parsed = parse_spec(f"{name}:{pairs}" if parameters else name)
    assert parsed == (name, parameters)
    assert [type(v) for v in parsed[1].values()] == [type(v) for v in parameters.values()]


def test_parse_call_converts_values_to_the_declared_type() -> None:
    values = parse_call(OPTIONS, "m:whole=4e1,real=2,flag=True,word=06,free=7")
    assert values == {"whole": 40, "real": 2.0, "flag": True, "word": "06", "free": 7}
    assert [type(v) for v in values.values()] == [int, float, bool, str, int]


def test_parse_call_reads_none_where_no_other_text_is_allowed() -> None:
    def recipe(
        season: float | Literal["find"] | None = "find", title: str | None = None
    ) -> None: ...

    parameters = parameters_of(recipe)
    assert parse_call(parameters, "m:season=none,title=none") == {"season": None, "title": "none"}
    assert parse_call(parameters, "m:season=find") == {"season": "find"}
    with pytest.raises(ValueError, match='season must be a number or "find" or "none", got odd'):
        parse_call(parameters, "m:season=odd")


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("whole=abc", "whole must .*abc"),
        ("whole=1.5", "whole must .*1.5"),
        ("real=abc", "real must .*abc"),
        ("flag=1", "flag must .*1"),
    ],
)
def test_parse_call_refuses_values_of_another_type(part: str, message: str) -> None:
    assert_refused(ValueError, f'"m:{part}": {message}', parse_call, OPTIONS, f"m:{part}")


def test_parse_call_names_the_parameters_for_an_unknown_one() -> None:
    message = 'unknown parameter "x"; its parameters: whole, real, flag, word, free'
    assert_refused(ValueError, re.escape(message), parse_call, OPTIONS, "m:x=1")
    with pytest.raises(ValueError, match=r'"m:setting=1": .*"setting"'):
        parse_call(OPTIONS, "m:setting=1")
    assert_refused(ValueError, r'"m:x=1": .*: none', parse_call, {}, "m:x=1")


# --- options that take several values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("--n 1 2 4", "--n 1 --n 2 --n 4"),
        ("a --n 1 2 b 3", "a --n 1 --n 2 b 3"),
        ("--n a 1 b", "--n a --n 1 b"),
        ("--n -1 -2 .5 1e3 2.", "--n -1 --n -2 --n .5 --n 1e3 --n 2."),
        ("--n 1 2.csv 3", "--n 1 2.csv 3"),
        ("--n 1 -- 2 3", "--n 1 -- 2 3"),
        ("--k 1 2 --n 3 4", "--k 1 --k 2 --n 3 --n 4"),
    ],
)
def test_repeat_options_repeats_an_option_before_each_number(text: str, expected: str) -> None:
    arguments = text.split()
    assert repeat_options(arguments, {"--n", "--k"}) == expected.split()
    assert arguments == text.split()
