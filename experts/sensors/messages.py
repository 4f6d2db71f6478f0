"""The messages that stations and those who ask them send: JSON that is checked by hand.

So people read what is wrong with a message. `docs/mqtt.md` has every field.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from tvbandits.experts.sensors.expert import Reading
from tvbandits.io import no_constant
from tvbandits.validation import (
    finite_number,
    is_finite_number,
    is_whole,
    of_kind,
    positive_number,
    shown,
)

# Bytes of a message; a longer one is not read.
LONGEST = 65536


def question_in(payload: bytes | bytearray) -> tuple[int, str, float]:
    """Number, client and time of a question; `ValueError` says what is wrong with it."""
    content = object_in(payload)
    client = _field(content, "client")
    if not (isinstance(client, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", client)):
        raise ValueError(f'"client" must be 1 to 64 letters, digits, _ or -, got {shown(client)}')
    return request_number(content), client, _number(content, "time")


def answer(request: int, station: str, reading: object) -> str:
    """The message of a station with its reading, or None; `ValueError` if a number of it is none."""
    content: dict[str, object] = {"request": request, "station": station, "value": None}
    if reading is not None:
        if not isinstance(reading, Reading):
            raise TypeError(f"read must return a Reading or None, got {shown(reading)}")
        if reading.note:
            content["note"] = str(reading.note)
        if is_finite_number(reading.value) or not reading.note:
            content["time"] = finite_number("its time", reading.time)
            content["value"] = finite_number("its value", reading.value)
            if reading.variance is not None:
                content["variance"] = finite_number("its variance", reading.variance)
    return json.dumps(content)


def object_in(payload: bytes | bytearray) -> dict[str, Any]:
    """The object of a message; `ValueError` says what is wrong with it."""
    if len(payload) > LONGEST:
        raise ValueError(f"a message of {len(payload)} bytes, more than {LONGEST}")
    try:
        content = json.loads(payload, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"malformed JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"a message must be a JSON object, got {type(content).__name__}")
    return content


def request_number(content: Mapping[str, Any]) -> int:
    """The number of the request that a message is about."""
    value = _field(content, "request")
    if not is_whole(value):
        raise ValueError(f'"request" must be a whole number, got {shown(value)}')
    return value


def reading_in(content: Mapping[str, Any], station: str) -> Reading | None:
    """The reading of an answer; None if the station has none and does not say why."""
    said = _field(content, "station")
    if said != station:
        raise ValueError(f'"station" must be {station!r}, as in the topic, got {shown(said)}')
    note = content.get("note", "")
    of_kind('"note"', note, str, "a text")
    if _field(content, "value") is None:
        return Reading(station, math.nan, math.nan, note=note) if note else None
    value, when = _number(content, "value"), _number(content, "time")
    variance = content.get("variance")
    if variance is not None:
        variance = positive_number('"variance"', variance)
    return Reading(station, when, value, variance, note)


def _field(content: Mapping[str, Any], name: str) -> Any:
    if name not in content:
        raise ValueError(f'the field "{name}" is missing')
    return content[name]


def _number(content: Mapping[str, Any], name: str) -> float:
    return finite_number(f'"{name}"', _field(content, name))
