"""Sites that come and go in a campaign: what the journal says of them, and the domain that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tvbandits.campaign.store.journal import points
from tvbandits.domains.candidates import (
    Candidates,
    CandidatesInContext,
    candidates_of,
    replace_candidates,
)
from tvbandits.domains.parameters import exactly
from tvbandits.domains.space import Arms
from tvbandits.validation import Array, as_points, refuse, whole_number

if TYPE_CHECKING:
    from tvbandits.campaign.names import Names

# A site is far away from the nearest other by so many times the extent of all others.
FAR = 3.0


def on_sites(
    domain: Candidates | CandidatesInContext, body: Mapping[str, Any]
) -> Candidates | CandidatesInContext:
    """The domain once sites were added and retired, as a row of the journal says; rows stay."""
    chosen = candidates_of(domain)
    assert chosen is not None  # there are no others
    retired = sorted({*chosen.retired, *body["retire"]} - {*body["back"]})
    if isinstance(chosen, Arms):
        return Arms((*chosen.names, *body["names"]), retired)
    X = np.concatenate([chosen.X, points(body["X"], chosen.dimension)])
    return replace_candidates(domain, Candidates(X, chosen.context, retired))


def change(names: Names, add: Mapping[str, Any], retire: Sequence[Any]) -> dict[str, Any]:
    """What the journal says of sites that are added, with their coordinates, and of retired ones.

    Of degrees, the kilometres are those of the sites before: by the same slopes.

    Raises
    ------
    ValueError
        If there is such a site already, none such to retire, or coordinates have another number.
    """
    domain = candidates_of(names.domain)
    if domain is None or not (isinstance(domain, Arms) or type(domain) is Candidates):
        raise ValueError(f"sites come and go among sites or arms, got {names.domain!r}")
    last = len(domain) - 1
    gone = [whole_number("each of retire", row, 0, last) for row in names.rows(retire)]
    if again := {*gone} & {*domain.retired}:
        raise ValueError(f"{names.name(domain.X[min(again)])} is retired already")
    back = [names.number[name] for name in add if name in names.number]
    if there := [row for row in back if row not in domain.retired]:
        raise ValueError(f'there is a site "{names.sites[there[0]]}" already')
    fresh = {name: x for name, x in add.items() if name not in names.number}
    given: dict[str, list[float]] = {}
    X: list[list[float]] = []
    if isinstance(domain, Arms):
        if placed := [name for name, x in fresh.items() if x is not None]:
            raise ValueError(f'arms have no coordinates, got some of "{placed[0]}"')
    elif fresh:
        d = len({*names.columns} - {*names.context_names})
        table = np.vstack([as_points([x], d, f'add: "{name}"') for name, x in fresh.items()])
        if names.given:
            given = dict(zip(names.given, table.T.tolist(), strict=True))
        X = _located(names, table).tolist()
    return {"names": [*fresh], "X": X, "given": given, "retire": gone, "back": back}


def _located(names: Names, table: Array) -> Array:
    """Points (n, d) inside from coordinates as people give them."""
    if not names.given:
        return table
    domain = candidates_of(names.domain)
    assert domain is not None
    from tvbandits.datasets.tables.sensor_field import find_degrees

    degrees = find_degrees(names.given)
    assert degrees is not None  # what else would have been turned
    latitude, longitude = degrees
    columns = list(names.given)
    for name, most in ((latitude, 90), (longitude, 360)):
        column = table[:, columns.index(name)]
        refuse(np.abs(column) > most, column, f"{name} must be degrees of at most {most} in size")
    order = [longitude, latitude, *(each for each in columns if each not in degrees)]
    rows = [columns.index(each) for each in order]
    X, known = domain.X, np.column_stack([names.given[each] for each in order])
    extent = np.ptp(known, axis=0)
    slopes = np.where(extent > 0, np.ptp(X, axis=0) / np.where(extent > 0, extent, 1.0), 1.0)

    def placed(degrees: Array) -> Array:
        return np.asarray(X[0] + (degrees - known[0]) * slopes)

    found, swapped = placed(table[:, rows]), table[:, rows].copy()
    swapped[:, :2] = swapped[:, 1::-1]
    far, other = nearest(X[:, :2], found[:, :2]), nearest(X[:, :2], placed(swapped)[:, :2])
    exchanged = (far > FAR * np.hypot(*np.ptp(X[:, :2], axis=0))) & (other < far / 10)
    if exchanged.any():
        row = int(exchanged.argmax())
        wanted = ",".join(map(exactly, table[row, ::-1] if len(columns) == 2 else swapped[row]))
        raise ValueError(
            f"{','.join(map(exactly, table[row]))} is {far[row]:.0f} km from the nearest site: the "
            f"order is {', '.join(columns)}; {wanted} would be {other[row]:.0f} km away"
        )
    return found


def remote(names: Names, add: Mapping[str, Any]) -> list[str]:
    """What is odd about sites that are to be added: they are far from all that are there."""
    domain, body = candidates_of(names.domain), change(names, add, ())
    X = np.asarray(body["X"], dtype=np.float64)
    if domain is None or not X.size:
        return []
    width = 2 if names.given else X.shape[1]
    there, extent = domain.X[:, :width], np.linalg.norm(np.ptp(domain.X[:, :width], axis=0))
    unit = " km" if names.given else ""
    return [
        f'"{name}" is {away:.4g}{unit} from the nearest site, and all others lie within '
        f"{extent:.4g}{unit} of each other"
        for name, away in zip(body["names"], nearest(there, X[:, :width]), strict=True)
        if away > FAR * extent > 0
    ]


def nearest(known: Array, X: Array) -> Array:
    """How far each of some points (n, d) is from the nearest of others (m, d), shape (n,)."""
    return np.array([np.linalg.norm(known - x, axis=1).min() for x in X])
