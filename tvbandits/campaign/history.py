"""What a bandit remembers, and what stands in the journal alone: what was told wrong, or is too old."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tvbandits.bandit.told import told_again, usual_variance
from tvbandits.campaign.ledger import Ledger
from tvbandits.campaign.naming import Names
from tvbandits.campaign.store.errors import ConflictError
from tvbandits.campaign.store.store import Row, optional, points
from tvbandits.core.files.journal import numbers
from tvbandits.core.observations import Observations, Plays
from tvbandits.core.tables import history_columns, in_time


def columns_of(known: Ledger, put_right: Iterable[Row]) -> dict[str, Any]:
    """The columns of a history, with what was told wrong as rows of "corrected" and "retracted"."""
    domain = known.domain
    said = known.rewards, known.answers, known.failed, known.pending
    parts = [history_columns(domain, *said, known.outcomes, known.control, known.move_cost)]
    none, no_plays = Observations.empty(domain.dimension), Plays.none(domain.dimension)
    unread = dict.fromkeys(known.outcomes, none)
    for row in put_right:
        was, X = numbers(row.body["got"]), points(row.body["X"], domain.dimension)
        old = Observations(X, was[:, 0], np.zeros(len(X)), np.ones(len(X)))
        part = history_columns(domain, old, none, no_plays, no_plays, unread, known.control)
        order = np.argsort(was[:, 0], kind="stable")
        gone = np.full(len(X), np.nan)
        kind = np.full(len(X), row.kind, dtype=object)
        of_old = {"reward": was[order, 1], "variance": gone, "kind": kind, "move_cost": gone}
        parts.append({**part, **of_old})
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return in_time(columns)


def check_not_told(
    known: Ledger,
    given: Mapping[str, Any],
    rows_of: Callable[[str], Iterable[Row]],
    names: Names,
    when: Callable[[float], str],
) -> None:
    """Raise a `ConflictError` if a reading of the same place and time is on record."""
    X, y, t = points(given["X"], known.domain.dimension), numbers(given["y"]), given["t"]
    if t is not None and (numbers(t) < known.gone.until).any():
        known = _with_gone(known, rows_of("told"))
    again = told_again(known, known, X, y, t, given["variance"])
    if again is None:
        return
    before, rows, same = again
    first = rows[0]
    raise ConflictError(
        f"{names.name(before.X[first])} at {when(float(before.t[first]))} was told "
        f"already, as {before.y[first]:g}: give a key (--key) if another reading is to count "
        "beside it, or let `campaign correct` replace it",
        same=same,
    )


def _with_gone(known: Ledger, told: Iterable[Row]) -> Ledger:
    """With readings that have left the history, as they were told."""
    d, until = known.domain.dimension, known.gone.until
    found = Observations.empty(d)
    for row in told:
        X, t = points(row.body["X"], d), numbers(row.body["got"])
        y, said = numbers(row.body["y"]).reshape(-1), optional(row.body["variance"])
        variance = usual_variance(len(t), known.noise_variance)
        variance = variance if said is None else np.broadcast_to(said, len(t))
        old = (t < until) & ~np.isnan(y)
        found = found.append(Observations.checked(X[old], t[old], y[old], variance[old]))
    return replace(known, rewards=found.append(known.rewards))
