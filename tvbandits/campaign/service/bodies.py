"""The contents of requests and replies of the service, as JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from tvbandits.counts import count, rate
from tvbandits.validation import describe

# Whole numbers up to here can be represented as floats.
EXACT = 2**53

# Points in a request, and points that one request may ask for.
MOST, MOST_ASKED = 10_000, 1000

Whole = Annotated[StrictInt, Field(ge=-EXACT, le=EXACT)]
Number = Whole | StrictFloat
Name = Annotated[StrictStr, Field(min_length=1, max_length=1000)]
Point = Annotated[list[Number], Field(min_length=1, max_length=1000, fail_fast=True)]
Points = Annotated[
    list[Point | Name],
    Field(
        min_length=1, max_length=MOST, fail_fast=True, description="Coordinates or a name for each."
    ),
]
Time = Annotated[
    Number | StrictStr | None, Field(description="A number, or a date if there is a clock.")
]
Availability = Annotated[
    Annotated[list[Whole | Name], Field(max_length=MOST, fail_fast=True)] | None,
    Field(description="Row numbers or names of the available sites."),
]
Context = Annotated[
    dict[str, Number | StrictStr] | None,
    Field(max_length=100, description="The context, which you measure and do not choose, by name."),
]
Variance = Annotated[list[Number], Field(max_length=MOST, fail_fast=True)] | Number | None
Sure = Annotated[
    StrictBool, Field(description="Record what is beyond belief all the same: it was checked.")
]
Key = Annotated[
    StrictStr | None,
    Field(
        min_length=1,
        max_length=200,
        description="A repeated request with the same key counts once.",
    ),
]


def _with_nan(values: list[float | None]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in values]


Values = Annotated[
    list[Number | None],
    Field(max_length=MOST, fail_fast=True, description="One for each point; null for none."),
    AfterValidator(_with_nan),
]
Outcomes = Annotated[
    dict[Name, Values] | None,
    Field(max_length=100, description="Readings of outcomes under limits, by name."),
]


class Body(BaseModel):
    """The content of a request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for the campaign's method."""
        fields = self.model_dump(exclude_unset=True)
        return {"X" if name == "points" else name: value for name, value in fields.items()}


def _check_lengths(points: list[Any], columns: Mapping[str, list[Any]]) -> None:
    """Raise a `ValueError` unless each column that is there has a value for each point."""
    for name, column in columns.items():
        if len(column) != len(points):
            raise ValueError(
                f"{name} must have a value for each of the points, {len(points)}, got {len(column)}: "
                "null for none, and decimals with a point, 12.5"
            )


class AskBody(Body):
    """The content of /ask."""

    t: Time = None
    n: Annotated[StrictInt | None, Field(ge=1, le=MOST_ASKED)] = None
    available: Availability = None
    context: Context = None
    near: Annotated[Number | None, Field(gt=0)] = None
    key: Key = None


class QuestionsBody(Body):
    """The content of /questions."""

    t: Time = None
    available: Availability = None
    key: Key = None


class RewardsBody(Body):
    """Rewards, or counts for them: successes and trials, or events and exposure."""

    points: Points
    rewards: Values | None = None
    successes: Values | None = None
    trials: Values | None = None
    events: Values | None = None
    exposure: Values | None = None
    t: Time = None
    noise_variance: Variance = None
    outcomes: Outcomes = None
    sure: Sure = False
    key: Key = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for the campaign's method, with `y` if there are rewards or counts."""
        arguments = super().arguments()
        names = ("rewards", *COUNTS)
        columns = {name: each for name in names if (each := arguments.pop(name, None)) is not None}
        _check_lengths(self.points, {**(self.outcomes or {}), **columns})
        match sorted(columns):
            case []:
                return arguments
            case ["rewards"]:
                return {**arguments, "y": columns["rewards"]}
            case ["successes", "trials"]:
                return {**arguments, "y": rate(columns["successes"], columns["trials"])}
            case ["events", "exposure"]:
                return {**arguments, "y": count(columns["events"], columns["exposure"])}
        raise ValueError(
            "give rewards, or successes and trials, or events and exposure, "
            f"got {', '.join(sorted(columns))}"
        )


class TellBody(RewardsBody):
    """The content of /tell."""

    context: Context = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for `Campaign.tell`."""
        arguments = super().arguments()
        if "y" not in arguments:
            raise ValueError("give rewards, or successes and trials, or events and exposure")
        return arguments


class CorrectBody(RewardsBody):
    """The content of /correct."""

    to: Time = None


class RetractBody(Body):
    """The content of /retract."""

    points: Points
    t: Time = None
    key: Key = None


class DropBody(Body):
    """The content of /drop."""

    points: Points
    key: Key = None


class AnswersBody(Body):
    """The content of /answer and /correct_answers."""

    points: Points
    values: Values
    t: Time = None
    noise_variance: Variance = None
    sure: Sure = False
    key: Key = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments for the campaign's method."""
        _check_lengths(self.points, {"values": self.values})
        return super().arguments()


class SitesBody(Body):
    """The content of /sites: coordinates by name; null for an arm or a retired site that comes back.

    `confirm` has sites that stand out and are right all the same.
    """

    add: Annotated[dict[Name, Point | None], Field(max_length=1000)] = {}
    retire: Annotated[list[Name], Field(max_length=1000)] = []
    confirm: Annotated[list[Name], Field(max_length=1000)] = []
    key: Key = None


class PredictBody(Body):
    """The content of /predict."""

    points: Points
    t: Time = None
    outcome: Name | None = None
    context: Context = None
    relative: Annotated[bool, Field(strict=True, description="Relative to the control.")] = False


class RecommendQuery(Body):
    """The query of /recommend; a context is written as "outside=3.2"."""

    t: str | None = None
    available: list[str] | None = None
    context: str | None = None


class HistoryQuery(Body):
    """The content of /history."""

    last: Annotated[int, Field(ge=1, le=10_000)] = 100


class NoQuery(Body):
    """The empty query."""


# --- what is wrong with a request

# Columns in the place of rewards.
COUNTS = ("successes", "trials", "events", "exposure")

# What must stand there, by the type of pydantic's error.
NEEDS = {
    "bool_type": "true or false",
    "dict_type": "an object",
    "finite_number": "a number",
    "float_type": "a number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_attributes_type": "a JSON object",
    "string_too_short": "a text that is not empty",
    "string_type": "a text",
    "too_short": "a list that is not empty",
}

# Names of the types of a value of several types, which pydantic puts into its place.
_TYPE = re.compile(r"float|int|str|constrained-.*|(list|dict|nullable|union|function.*)\[.*")


def invalid_text(errors: Sequence[Any]) -> str:
    """Return where a request is invalid, what must stand there, what does, and what to write.

    Of a value that may have several types, the deepest errors tell: they are of the type that was meant.
    """
    first = errors[0]
    places = [_place(each["loc"]) for each in errors]
    beside = [i for i, each in enumerate(errors) if each["loc"][:2] == first["loc"][:2]]
    place = max((places[i] for i in beside), key=len)
    deepest = [errors[i] for i in beside if places[i] == place]
    error, types = deepest[-1], [each["type"] for each in deepest]
    field = "".join(f"[{x}]" if isinstance(x, int) else f".{x}" for x in place)[1:] or "the body"
    if "json_invalid" in types:
        return f"the body is no JSON: {error['ctx']['error']}"
    if "missing" in types:
        return f"{field} is missing"
    if "extra_forbidden" in types:
        return f"{field} is no field of this request: /openapi.json lists those that are"
    needs = [*dict.fromkeys(NEEDS[each] for each in types if each in NEEDS)]
    if "a number" in needs and "a whole number" in needs:
        needs.remove("a whole number")
    value = error["input"]
    if isinstance(value, bytes):
        return "the body was not read as JSON: send the header Content-Type: application/json"
    is_plain = value is None or isinstance(value, bool | int | float)
    shown = json.dumps(value) if is_plain else describe(value)
    if not needs:
        return f"{field}: {error['msg']}, got {shown}"
    return f"{field} must be {' or '.join(needs)}, got {shown}{_remedy(place, needs, value)}"


def _place(location: Sequence[str | int]) -> tuple[str | int, ...]:
    """Return the place of an error in the body, without the names of types."""
    field, *rest = location[1:] or ("",)
    named = [each for each in rest if isinstance(each, int) or not _TYPE.fullmatch(each)]
    return (field, *named) if isinstance(field, str) and field else ()


def _remedy(place: Sequence[str | int], needs: Sequence[str], value: object) -> str:
    """Return what to write in the place of a value, if that can be told."""
    is_column = bool(place) and place[0] in {"rewards", "values", "outcomes", *COUNTS}
    number = _number(value)
    if needs == ["a list"] and isinstance(value, str | float | int):
        shown = json.dumps(value, ensure_ascii=False) if not is_column or number is None else number
        return f": write [{shown}]"
    if "a number" in needs and number is not None:
        return f": write {number}, without quotes"
    return ": write null if there is none" if is_column and needs == ["a number"] else ""


def _number(value: object) -> str | None:
    """Return the number in a text such as "12,5", with a decimal point; None if it has none."""
    text = str(value).strip().replace(",", ".")
    with suppress(ValueError):
        if isinstance(value, str) and math.isfinite(float(text)):
            return text
    return None


# --- replies


class Error(BaseModel):
    """The reply with any status from 400 on."""

    detail: str


class DoubtError(Error):
    """The reply to a reading or an answer beyond belief; `usual` only for who may read."""

    row: int
    site: str
    value: float | None
    usual: list[float] | None
    remedy: dict[str, bool]


class ChosenPoints(BaseModel):
    """Points (b, d) and their names."""

    points: list[list[float]]
    sites: list[str]
    dimension: int


class AskedPoints(ChosenPoints):
    """The points of /ask, the silent sites that were left out, and what to look at of the others.

    What is doubtful is as it is now, also if the request is repeated under its key.
    """

    left_out: dict[str, str]
    doubtful: dict[str, str]


class PendingPoints(ChosenPoints):
    """Pending points, with the time of each, who asked for it, and when."""

    t: list[float]
    asked: list[str | None]
    who: list[str | None]


class Recorded(BaseModel):
    """How many readings or answers of the request have a value, and how many have none."""

    recorded: int
    failed: int


class Changed(BaseModel):
    """How many points the request has changed."""

    changed: int


class Sites(BaseModel):
    """The names of the sites that are not retired."""

    sites: list[str]


class ChangedSites(BaseModel):
    """The names of the sites that the request has added, retired and confirmed."""

    added: list[str]
    retired: list[str]
    confirmed: list[str]


class Prediction(BaseModel):
    """The posterior mean and deviation at each point."""

    mean: list[float]
    deviation: list[float]


class Recommendation(BaseModel):
    """The point with the best mean."""

    point: list[float]
    site: str
    mean: float
    deviation: float
