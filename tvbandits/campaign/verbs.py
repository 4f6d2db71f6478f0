"""The verbs of a campaign: their arguments, checked, as they are written down in the journal.

A verb makes a `Request` of what the caller sends. In one's turn to write, the request is resolved:
names become points, what is available becomes row numbers, and a time that nobody gave is that of the
decision. The journal keeps both: by what was sent a call that is repeated under its key is known again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvbandits.acquisition.limits import as_outcomes
from tvbandits.bandit.observations import zero_or_one
from tvbandits.campaign import sites
from tvbandits.campaign.clock import Clock
from tvbandits.campaign.names import Names
from tvbandits.campaign.store.journal import as_text
from tvbandits.campaign.store.store import check_name
from tvbandits.campaign.times import number_of, numbers_of
from tvbandits.counts import with_variance
from tvbandits.domains.availability import Availability
from tvbandits.domains.domain import Context, add_context, plain_context
from tvbandits.domains.parameters import has_names, rows_by_name, texts
from tvbandits.validation import Array, as_floats, describe, positive_number, several, whole_number

if TYPE_CHECKING:
    from tvbandits.bandit.bandit import Bandit

# What else was read, by name.
Outcomes = Mapping[str, Any] | None

# What a bandit is given in the place of what was sent, or beside it.
Resolve = Callable[["Bandit", Names], dict[str, Any]]

# What a reading may say, by name.
READING = ("X", "y", "t", "noise_variance", "outcomes", "context", "counts")


@dataclass(frozen=True)
class Request:
    """What a caller wants to be done.

    Attributes
    ----------
    kind : str
        Of the row that will say so.
    sent : dict
        What the caller sends, of plain values.
    resolve : callable
        What the bandit is given in the place of some of it, or beside it.
    """

    kind: str
    sent: dict[str, Any]
    resolve: Resolve


def ask(
    clock: Clock | None,
    t: Any,
    n: int | None,
    available: Availability,
    context: Context,
    near: float | None,
    without: Sequence[str | int],
) -> Request:
    """Return the request to choose points."""
    excluded = [*several("without", without, "names of sites")]
    sent = _sent(
        t=number_of(clock, t),
        n=None if n is None else whole_number("n", n),
        near=None if near is None else positive_number("near", near),
        available=_check_available(available),
        without=excluded or None,
        context=plain_context(context),
    )

    def resolve(bandit: Bandit, names: Names) -> dict[str, Any]:
        return {
            "t": sent.get("t", bandit.state.record.decision_time),
            "available": names.available(available, context, excluded),
            "context": sent.get("context") if names.domain.context_parameters else None,
        }

    return Request("asked", sent, resolve)


def tell(
    clock: Clock | None,
    X: Any,
    y: Any,
    t: Any = None,
    noise_variance: Any = None,
    outcomes: Outcomes = None,
    context: Context = None,
    counts: Any = None,
) -> Request:
    """Return the request to take note of rewards; `counts` says what counted ones are made of."""
    times, read = numbers_of(clock, t), _readings("y", y, noise_variance, outcomes)
    made: dict[str, Any] = {}
    if counts is not None:
        # By these it is known again: its variance is another one when more is counted at its time.
        counts = as_floats(counts, "counts")
        if counts.ndim != 2 or counts.shape[1] != 2:
            raise ValueError(f"counts must be pairs, got {describe(counts)}")
        made = {name: read.pop(name) for name in ("y", "noise_variance")}
    sent = _sent(X=_places(X), t=times, counts=counts, context=plain_context(context), **read)
    return Request("told", sent, _at(X, context, times, **made))


def reading(clock: Clock | None, said: Mapping[str, Any]) -> Request:
    """Return the request to take note of a reading that says by name what `tell` takes."""
    if unknown := [*said.keys() - {*READING}]:
        there = ", ".join((*READING, "key", "who"))
        raise ValueError(f"unknown {describe(unknown[0])} in a reading; there are: {there}")
    if missing := [name for name in ("X", "y") if name not in said]:
        raise ValueError(f"a reading must say {missing[0]}, got {describe(dict(said))}")
    return tell(clock, **said)


def correct(
    clock: Clock | None, X: Any, y: Any, t: Any, noise_variance: Any, to: Any, outcomes: Outcomes
) -> Request:
    """Return the request to put other rewards in the place of some."""
    times, right_times = numbers_of(clock, t), numbers_of(clock, to, "to")
    read = _readings("y", [float("nan")] if y is None else y, noise_variance, outcomes)
    if y is None:
        del read["y"]
    sent = _sent(X=_places(X), t=times, to=right_times, **read)
    at = _at(X, None, times, played=True)

    def resolve(bandit: Bandit, names: Names) -> dict[str, Any]:
        made = at(bandit, names)  # what is wrong with what was sent is said first
        if not {*sent} - {"X", "t"}:
            raise ValueError(
                "correct needs what is right: reward, time, noise_variance or outcomes"
            )
        return made

    return Request("corrected", sent, resolve)


def retract(clock: Clock | None, X: Any, t: Any) -> Request:
    """Return the request to take rewards back."""
    times = numbers_of(clock, t)
    return Request("retracted", _sent(X=_places(X), t=times), _at(X, None, times, played=True))


def drop(X: Any) -> Request:
    """Return the request to give up on points."""
    return Request("dropped", _sent(X=_places(X)), _at(X))


def change_sites(add: Mapping[str, Any] | Sequence[str], retire: Sequence[str | int]) -> Request:
    """Return the request to add sites and to retire others."""
    names = list(add) if isinstance(add, Mapping) else several("add", add, "names")
    for name in names:
        check_name("each of add", name)
    places = add if isinstance(add, Mapping) else dict.fromkeys(names)
    points = {k: x if x is None else as_floats(x, f"add: {k}") for k, x in places.items()}
    gone = [*several("retire", retire, "names of sites")]

    def resolve(_: Bandit, names: Names) -> dict[str, Any]:
        return sites.change(names, points, gone)

    return Request("sites", _sent(add=points, retire=gone), resolve)


def questions(clock: Clock | None, t: Any, available: Availability) -> Request:
    """Return the request for what to ask somebody else."""

    def resolve(_: Bandit, names: Names) -> dict[str, Any]:
        return {"available": names.available(available, None, any_context=True)}

    sent = _sent(t=number_of(clock, t), available=_check_available(available))
    return Request("questions", sent, resolve)


def answer(clock: Clock | None, X: Any, values: Any, t: Any, noise_variance: Any) -> Request:
    """Return the request to take answers that somebody brought."""
    read = _readings("values", values, noise_variance)
    sent = _sent(X=_places(X), t=number_of(clock, t), **read)
    return Request("answers", sent, _at(X))  # in the context of what is out, whatever its time


def _at(
    X: Any, context: Context = None, t: Any = None, *, played: bool = False, **made: Any
) -> Resolve:
    """Return what resolves places to points, beside what else is made."""

    def resolve(bandit: Bandit, names: Names) -> dict[str, Any]:
        places = points_of(bandit, names, X, context, t, played=played)
        return {"X": places.tolist(), **made}

    return resolve


def points_of(
    bandit: Bandit,
    names: Names,
    X: Any,
    context: Context = None,
    t: Any = None,
    *,
    played: bool = False,
) -> Array:
    """Return points of the domain; without a context they have that of what is out, or was played."""
    domain, state = bandit.recipe.domain, bandit.state
    X = names.points(X)
    if domain.context_parameters or context is not None:
        X = add_context(domain, X, context, state.record.plays if played else state.pending, t)
    return domain.check(X)


def _readings(
    name: str, values: Any, noise_variance: Any, outcomes: Outcomes = None
) -> dict[str, Any]:
    """Return what was read, by name."""
    values, variance = with_variance(values, noise_variance)
    read = as_outcomes(outcomes).items()
    return {
        name: as_floats(zero_or_one(values), name),
        "noise_variance": None if variance is None else as_floats(variance, "noise_variance"),
        "outcomes": {each: as_floats(zero_or_one(y), each) for each, y in read} or None,
    }


def _check_available(available: Availability) -> Availability:
    if callable(available):
        raise ValueError(
            "available: a function of points cannot be written down in a campaign: give ranges by name, "
            'such as {"x0": (0, 5)}'
        )
    return available


def _places(X: Any) -> Any:
    """Return points as they are sent, by name where they are given so."""
    if (listed := texts(X)) is not None:
        return listed
    return rows_by_name(X) if has_names(X) else X


def _sent(**values: Any) -> dict[str, Any]:
    """Return the values that were given, as they come back from the disk."""
    given = {name: value for name, value in values.items() if value is not None}
    try:
        found: dict[str, Any] = json.loads(as_text(given))
    except TypeError as error:
        raise ValueError(
            f"{describe(given)} cannot be written down in a campaign: {error}"
        ) from error
    return found
