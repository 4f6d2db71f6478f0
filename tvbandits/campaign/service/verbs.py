"""What is said over HTTP: the requests and their limits."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr

EXACT = 2**53
"""Whole numbers up to here are floats, too."""

Whole = Annotated[StrictInt, Field(ge=-EXACT, le=EXACT)]
Number = Whole | StrictFloat
Time = Annotated[
    Number | StrictStr | None, Field(description="A number, or a date where there is a clock.")
]
Point = Annotated[list[Number], Field(min_length=1, max_length=1000, fail_fast=True)]
Points = Annotated[list[Point], Field(min_length=1, fail_fast=True)]
Values = Annotated[list[Number | None], Field(fail_fast=True)]
Variance = Annotated[list[Number], Field(fail_fast=True)] | Number | None
Rows = Annotated[list[Whole], Field(fail_fast=True)]
Key = Annotated[
    StrictStr | None,
    Field(
        max_length=200, description="Said again, the request has the same result and counts once."
    ),
]


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Asked(_Said):
    """Where to go next."""

    t: Time = None
    n: Annotated[StrictInt | None, Field(ge=1, le=1000)] = None
    among: Rows | None = None
    key: Key = None


class Told(_Said):
    """What came back; null for a point that was played without a reading."""

    points: Points
    rewards: Values
    t: Time = None
    variance: Variance = None
    key: Key = None


class Dropped(_Said):
    """Points that nobody will go to."""

    points: Points
    key: Key = None


class Questioned(_Said):
    """What an expert should be asked."""

    t: Time = None
    among: Rows | None = None
    key: Key = None


class Answered(_Said):
    """What the expert said; null for no answer."""

    points: Points
    values: Values
    t: Time = None
    variance: Variance = None
    key: Key = None


class Foretold(_Said):
    """Mean and deviation at points."""

    points: Points
    t: Time = None
