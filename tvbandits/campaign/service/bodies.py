"""What requests and replies of the service hold, as JSON."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr

from tvbandits.counts import count, rate

# Whole numbers up to here are floats, too.
EXACT = 2**53
# Points in a request, and points asked for at once.
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
    Number | StrictStr | None, Field(description="A number, or a date where there is a clock.")
]
Availability = Annotated[
    Annotated[list[Whole | Name], Field(max_length=MOST, fail_fast=True)] | None,
    Field(description="Row numbers or names of what is available."),
]
Context = Annotated[
    dict[str, Number | StrictStr] | None,
    Field(max_length=100, description="What is measured and not chosen, by name."),
]
Variance = Annotated[list[Number], Field(max_length=MOST, fail_fast=True)] | Number | None
Key = Annotated[
    StrictStr | None,
    Field(
        min_length=1, max_length=200, description="The same request under the same key counts once."
    ),
]


def _with_nan(values: list[float | None]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in values]


Values = Annotated[
    list[Number | None],
    Field(max_length=MOST, fail_fast=True, description="One for each point; null for no reading."),
    AfterValidator(_with_nan),
]
Outcomes = Annotated[
    dict[Name, Values] | None, Field(max_length=100, description="Further readings, by name.")
]


class Body(BaseModel):
    """What a request says; a field that is not known is refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    def arguments(self) -> dict[str, Any]:
        """The arguments of the campaign's method: what was given."""
        found = self.model_dump(exclude_unset=True)
        return {"X" if name == "points" else name: value for name, value in found.items()}


class AskBody(Body):
    """Of /ask."""

    t: Time = None
    n: Annotated[StrictInt | None, Field(ge=1, le=MOST_ASKED)] = None
    available: Availability = None
    context: Context = None
    near: Annotated[Number | None, Field(gt=0)] = None
    key: Key = None


class QuestionsBody(Body):
    """Of /questions."""

    t: Time = None
    available: Availability = None
    key: Key = None


class RewardsBody(Body):
    """Rewards, or in their place successes of so many trials, or events in so much exposure."""

    points: Points
    rewards: Values | None = None
    successes: Values | None = None
    trials: Values | None = None
    events: Values | None = None
    exposure: Values | None = None
    t: Time = None
    noise_variance: Variance = None
    outcomes: Outcomes = None
    key: Key = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of the campaign's method, with `y` for rewards or counts, if there are any."""
        found = super().arguments()
        names = "rewards", "successes", "trials", "events", "exposure"
        given = {name: each for name in names if (each := found.pop(name, None)) is not None}
        match sorted(given):
            case []:
                return found
            case ["rewards"]:
                return {**found, "y": given["rewards"]}
            case ["successes", "trials"]:
                return {**found, "y": rate(given["successes"], given["trials"])}
            case ["events", "exposure"]:
                return {**found, "y": count(given["events"], given["exposure"])}
        raise ValueError(
            "give rewards, or successes and trials, or events and exposure, "
            f"got {', '.join(sorted(given))}"
        )


class TellBody(RewardsBody):
    """Of /tell."""

    context: Context = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of `Campaign.tell`."""
        found = super().arguments()
        if "y" not in found:
            raise ValueError("give rewards, or successes and trials, or events and exposure")
        return found


class CorrectBody(RewardsBody):
    """Of /correct."""

    to: Time = None


class RetractBody(Body):
    """Of /retract."""

    points: Points
    t: Time = None
    key: Key = None


class DropBody(Body):
    """Of /drop."""

    points: Points
    key: Key = None


class AnswerBody(Body):
    """Of /answer."""

    points: Points
    values: Values
    t: Time = None
    noise_variance: Variance = None
    key: Key = None


class SitesBody(Body):
    """Of /sites: coordinates by name; null of an arm, or of a retired site that comes back."""

    add: Annotated[dict[Name, Point | None], Field(max_length=1000)] = {}
    retire: Annotated[list[Name], Field(max_length=1000)] = []
    key: Key = None


class PredictBody(Body):
    """Of /predict."""

    points: Points
    t: Time = None
    outcome: Name | None = None
    context: Context = None
    relative: Annotated[bool, Field(strict=True, description="Beside the control.")] = False


class RecommendQuery(Body):
    """Of /recommend; a context is "outside=3.2"."""

    t: str | None = None
    available: list[str] | None = None
    context: str | None = None


class HistoryQuery(Body):
    """Of /history."""

    last: Annotated[int, Field(ge=1, le=10_000)] = 100


class NoQuery(Body):
    """Of what takes no query."""


# --- replies


class Error(BaseModel):
    """Of every reply with a status from 400 on."""

    detail: str


class ChosenPoints(BaseModel):
    """Points (b, d), and what they are called."""

    points: list[list[float]]
    sites: list[str]
    dimension: int


class PendingPoints(ChosenPoints):
    """For when each point is pending, who asked for it, and when."""

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
    """Names of what may be played."""

    sites: list[str]


class ChangedSites(BaseModel):
    """Names of what the request has added and retired."""

    added: list[str]
    retired: list[str]


class Prediction(BaseModel):
    """Posterior mean and deviation at each point."""

    mean: list[float]
    deviation: list[float]


class Recommendation(BaseModel):
    """The point of the best mean."""

    point: list[float]
    site: str
    mean: float
    deviation: float
