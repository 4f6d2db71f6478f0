"""The requests that change a campaign, with checked arguments as plain values for the journal.

A `Request` has the payload of a call: what the caller has sent. While a process holds the write lock, it
resolves the request: names become points, availability becomes row numbers, and a missing time becomes
that of the decision. The journal has both; a call that is repeated under its key is recognised by its
payload.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tvbandits.acquisition.limits import as_outcomes
from tvbandits.bandit.observations import convert_booleans
from tvbandits.campaign.names import NO_CHANGE, Names, check_sites
from tvbandits.campaign.store.store import check_name, to_json
from tvbandits.clock import Clock, to_number, to_numbers
from tvbandits.counts import Counted, split_variance
from tvbandits.domains.availability import Availability
from tvbandits.domains.candidates import get_candidates
from tvbandits.domains.domain import Context, add_context, convert_context
from tvbandits.domains.parameters import as_texts, has_names, rows_by_name
from tvbandits.validation import (
    Array,
    as_bool,
    as_floats,
    as_list,
    as_rows,
    check_instance,
    describe,
    positive_number,
    require,
    whole_number,
)

if TYPE_CHECKING:
    from tvbandits.bandit.bandit import Bandit

# Readings of further outcomes, by name.
Outcomes = Mapping[str, Any] | None

# Returns the arguments that replace or complete the payload for a bandit.
Resolve = Callable[["Bandit", Names], dict[str, Any]]


@dataclass(frozen=True)
class Request:
    """A call that changes a campaign.

    Attributes
    ----------
    kind : str
        The kind of its row in the journal.
    payload : dict
        The arguments of the caller, as plain values.
    resolve : callable
        Returns the arguments that replace or complete the payload for a bandit.
    sure : bool
        Whether readings are recorded that are beyond belief. It is not in the journal: a call that is
        repeated under its key is the same call.
    """

    kind: str
    payload: dict[str, Any]
    resolve: Resolve
    sure: bool = True


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
    excluded = [*as_list("without", without, "names of sites")]
    payload = _plain(
        t=to_number(clock, t),
        n=None if n is None else whole_number("n", n),
        near=None if near is None else positive_number("near", near),
        available=_check_available(available),
        without=excluded or None,
        context=convert_context(context),
    )

    def resolve(bandit: Bandit, names: Names) -> dict[str, Any]:
        return {
            "t": payload.get("t", bandit.state.record.decision_time),
            "available": names.available(available, context, excluded),
            "context": payload.get("context") if names.domain.context_parameters else None,
        }

    return Request("ask", payload, resolve)


def tell(
    clock: Clock | None,
    X: Any,
    y: Any,
    t: Any = None,
    noise_variance: Any = None,
    outcomes: Outcomes = None,
    context: Context = None,
    counts: Any = None,
    *,
    sure: object = True,
) -> Request:
    """Return the request to record rewards; `counts` has the counts that rates were computed from."""
    is_sure = as_bool("sure", sure)
    times, values = to_numbers(clock, t), _values("y", y, noise_variance, outcomes)
    rates: dict[str, Any] = {}
    if counts is not None:
        # The variance of a rate changes if other counts are recorded at its time, so that a repeated
        # call is recognised by its counts alone.
        counts = as_floats(counts, "counts")
        if counts.ndim != 2 or counts.shape[1] != 2:
            raise ValueError(f"counts must be pairs, got {describe(counts)}")
        rates = _plain(**{name: values.pop(name) for name in ("y", "noise_variance", "trials")})
    payload = _plain(
        X=_places(X), t=times, counts=counts, context=convert_context(context), **values
    )
    return Request("tell", payload, _resolve_points(X, context, times, **rates), is_sure)


def tell_reading(clock: Clock | None, reading: Mapping[str, Any]) -> Request:
    """Return the request to record a reading, which has the arguments of `tell` by name."""
    names = ("X", "y", "t", "noise_variance", "outcomes", "context", "counts")
    if unknown := [*reading.keys() - {*names}]:
        options = ", ".join((*names, "key", "who"))
        raise ValueError(f"unknown {describe(unknown[0])} in a reading; there are: {options}")
    if missing := [name for name in ("X", "y") if name not in reading]:
        raise ValueError(f"a reading must have {missing[0]}, got {describe(dict(reading))}")
    return tell(clock, **{**reading, "t": to_numbers(clock, reading.get("t"), from_table=True)})


def correct(
    clock: Clock | None,
    X: Any,
    y: Any,
    t: Any,
    noise_variance: Any,
    to: Any,
    outcomes: Outcomes,
    *,
    sure: object = True,
) -> Request:
    """Return the request to replace rewards."""
    is_sure = as_bool("sure", sure)
    times, right_times = to_numbers(clock, t), to_numbers(clock, to, "to")
    values = _values("y", [float("nan")] if y is None else y, noise_variance, outcomes)
    if y is None:
        del values["y"]
    payload = _plain(X=_places(X), t=times, to=right_times, **values)
    return Request("correct", payload, _resolve_points(X, None, times, played=True), is_sure)


def retract(clock: Clock | None, X: Any, t: Any) -> Request:
    """Return the request to withdraw rewards."""
    times = to_numbers(clock, t)
    payload = _plain(X=_places(X), t=times)
    return Request("retract", payload, _resolve_points(X, None, times, played=True))


def drop(X: Any) -> Request:
    """Return the request to give up pending points."""
    return Request("drop", _plain(X=_places(X)), _resolve_points(X))


def change_sites(
    add: Mapping[str, Any] | Sequence[str],
    retire: Sequence[str | int],
    confirm: Sequence[str | int] = (),
) -> Request:
    """Return the request to add sites, to retire others, and to confirm some that stand out."""
    new = list(add) if isinstance(add, Mapping) else as_list("add", add, "names")
    for name in new:
        check_name("each of add", name)
    check_sites("names of sites to add", new)
    places = add if isinstance(add, Mapping) else dict.fromkeys(new)
    points = {k: x if x is None else as_floats(x, f"add: {k}") for k, x in places.items()}
    retire = [*as_list("retire", retire, "names of sites")]
    confirm = [*as_list("confirm", confirm, "names of sites")]
    for name, sites in (("retire", retire), ("confirm", confirm)):
        for site in sites:
            needs = "a whole number or the name of a site"
            check_instance(f"each of {name}", site, (str, int, np.integer), needs)

    def resolve(bandit: Bandit, names: Names) -> dict[str, Any]:
        confirmed = {"confirm": _offsets(bandit, names, confirm)} if confirm else {}
        if confirm and not (points or retire):
            return {**NO_CHANGE, **confirmed}
        return {**names.change(points, retire), **confirmed}

    payload = _plain(add=points, retire=retire, confirm=confirm or None)
    return Request("sites", payload, resolve)


def _offsets(bandit: Bandit, names: Names, sites: Sequence[str | int]) -> dict[str, float]:
    """Return by how much each of some sites stands out, by name.

    Raises
    ------
    ValueError
        If one does not.
    """
    # Not needed to read a status.
    from tvbandits.campaign.gauges import attractive_offsets
    from tvbandits.datasets.tables.rounds import Rounds

    candidates = get_candidates(names.domain)
    require(candidates is not None, "confirm", "for sites or arms only", sites)
    rows = np.asarray([*dict.fromkeys(names.rows(sites, "confirm"))])
    rows = as_rows(rows, len(candidates), "confirm")  # type: ignore[arg-type]
    readings, minimize = bandit.state.readings, bandit.recipe.minimize
    offsets = attractive_offsets(readings, Rounds.of(readings), minimize, names.name)
    confirmed = [names.name(candidates.X[row]) for row in rows]  # type: ignore[union-attr]
    if calm := [name for name in confirmed if name not in offsets]:
        which = f"those that do are {', '.join(offsets)}" if offsets else "none does"
        raise ValueError(f"{calm[0]} does not stand out from the other sites; {which}")
    return {name: offsets[name] for name in confirmed}


def questions(clock: Clock | None, t: Any, available: Availability) -> Request:
    """Return the request to choose questions for an expert who answers later."""
    payload = _plain(t=to_number(clock, t), available=_check_available(available))

    def resolve(bandit: Bandit, names: Names) -> dict[str, Any]:
        return {
            "t": _question_time(bandit, payload.get("t")),
            "available": names.available(available, None, any_context=True),
        }

    return Request("questions", payload, resolve)


def answer(
    clock: Clock | None, X: Any, values: Any, t: Any, noise_variance: Any, *, sure: object = True
) -> Request:
    """Return the request to record answers of an expert."""
    is_sure = as_bool("sure", sure)
    columns = _values("values", values, noise_variance)
    payload = _plain(X=_places(X), t=to_number(clock, t), **columns)
    resolve_points = _resolve_points(X)  # in the context of pending points, at any time

    def resolve(bandit: Bandit, names: Names) -> dict[str, Any]:
        about = payload.get("t", bandit.state.queries.latest)
        return {**resolve_points(bandit, names), "t": _question_time(bandit, about)}

    return Request("answer", payload, resolve, is_sure)


def correct_answers(
    clock: Clock | None, X: Any, values: Any, t: Any, noise_variance: Any, *, sure: object = True
) -> Request:
    """Return the request to replace answers of an expert, or to withdraw them."""
    is_sure = as_bool("sure", sure)
    payload = _plain(
        X=_places(X), t=to_number(clock, t), **_values("values", values, noise_variance)
    )
    resolve = _resolve_points(X, None, payload.get("t"), played=True)
    return Request("correct_answers", payload, resolve, is_sure)


def _question_time(bandit: Bandit, t: float | None) -> float:
    """Return the time that questions are about, as the bandit takes it."""
    from tvbandits.bandit.querying import find_query_time  # not needed to read a status

    return find_query_time(bandit.recipe, bandit.state, t)


def resolve_points(
    bandit: Bandit,
    names: Names,
    X: Any,
    context: Context = None,
    t: Any = None,
    *,
    played: bool = False,
) -> Array:
    """Return points of the domain, given by name or as numbers.

    A point without its context has that of a pending point at the same place or, if `played`, of an
    earlier play.
    """
    domain, state = bandit.recipe.domain, bandit.state
    X = names.points(X)
    if domain.context_parameters or context is not None:
        X = add_context(domain, X, context, state.record.plays if played else state.pending, t)
    return domain.check(X)


def _resolve_points(
    X: Any, context: Context = None, t: Any = None, *, played: bool = False, **others: Any
) -> Resolve:
    """Return a function that resolves places to points, and adds `others`."""

    def resolve(bandit: Bandit, names: Names) -> dict[str, Any]:
        points = resolve_points(bandit, names, X, context, t, played=played)
        return {"X": points.tolist(), **others}

    return resolve


def _values(
    name: str, values: Any, noise_variance: Any, outcomes: Outcomes = None
) -> dict[str, Any]:
    """Return values, their variance, trials and outcomes as arrays, by the name of the argument."""
    trials = values.trials if isinstance(values, Counted) else None
    values, variance = split_variance(values, noise_variance)
    columns = as_outcomes(outcomes).items()
    return {
        "trials": trials,
        name: as_floats(convert_booleans(values), name),
        "noise_variance": None if variance is None else as_floats(variance, "noise_variance"),
        "outcomes": {each: as_floats(convert_booleans(y), each) for each, y in columns} or None,
    }


def _check_available(available: Availability) -> Availability:
    if callable(available):
        raise ValueError(
            "available: a function cannot be written to the journal of a campaign: give ranges by "
            'name, such as {"x0": (0, 5)}'
        )
    return available


def _places(X: Any) -> Any:
    """Return points as the caller gives them: as texts, by name or as numbers."""
    if (places := as_texts(X)) is not None:
        return places
    return rows_by_name(X) if has_names(X) else X


def _plain(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that are not None, as JSON restores them."""
    stated = {name: value for name, value in arguments.items() if value is not None}
    try:
        plain: dict[str, Any] = json.loads(to_json(stated))
    except (TypeError, RecursionError):  # what holds itself has no end
        for name, value in stated.items():
            try:
                to_json({name: value})
            except (TypeError, RecursionError) as error:
                what = f"{name}={describe(value)} cannot be written to the journal of a campaign"
                raise ValueError(f"{what}: {error}") from error
        raise
    return plain
