"""The messages between transport and stations: JSON, whose errors are sentences for people.

`docs/mqtt.md` has every field.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from tvbandits.experts.sensors.expert import Reading
from tvbandits.io import refuse_constant
from tvbandits.validation import (
    check_instance,
    check_optional,
    describe,
    finite_number,
    is_finite_number,
    is_whole,
    positive_number,
    require,
)


def parse_question(payload: bytes | bytearray) -> tuple[int, str, float]:
    """Return number, client and time of a question; a `ValueError` names an invalid field."""
    content = parse_object(payload)
    client = _field(content, "client")
    valid = isinstance(client, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", client)
    require(valid, '"client"', "1 to 64 letters, digits, _ or -", client)
    return request_number(content), client, finite_number('"time"', _field(content, "time"))


def format_answer(request: int, station: str, reading: object) -> str:
    """Return the message of a station with its reading, or None; a `ValueError` for a bad number."""
    content: dict[str, object] = {"request": request, "station": station, "value": None}
    if reading is not None:
        if not isinstance(reading, Reading):
            raise TypeError(f"read must return a Reading or None, got {describe(reading)}")
        content |= {"note": str(reading.note)} if reading.note else {}
        if is_finite_number(reading.value) or not reading.note:
            numbers = {"time": reading.time, "value": reading.value, "variance": reading.variance}
            for name, number in numbers.items():
                if number is not None:
                    content[name] = finite_number(f"its {name}", number)
    return json.dumps(content)


def parse_object(payload: bytes | bytearray, longest: int = 65536) -> dict[str, Any]:
    """Return the object of a message of at most so many bytes; a `ValueError` if it is none."""
    if len(payload) > longest:
        raise ValueError(f"a message of {len(payload)} bytes, more than {longest}")
    try:
        content = json.loads(payload, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"malformed JSON: {error}") from error
    check_instance("a message", content, dict, "a JSON object")
    return dict(content)


def request_number(content: Mapping[str, Any]) -> int:
    """Return the number of the request that a message belongs to."""
    number = _field(content, "request")
    require(is_whole(number), '"request"', "a whole number", number)
    return int(number)


def parse_reading(content: Mapping[str, Any], station: str) -> Reading | None:
    """Return the reading of an answer; None if the station has none and gives no reason."""
    name, note = _field(content, "station"), content.get("note", "")
    require(name == station, '"station"', f"{station!r}, as in the topic", name)
    check_instance('"note"', note, str, "a text")
    if _field(content, "value") is None:
        return Reading(station, math.nan, math.nan, note=note) if note else None
    value, when = (finite_number(f'"{each}"', _field(content, each)) for each in ("value", "time"))
    variance = check_optional(positive_number, '"variance"', content.get("variance"))
    return Reading(station, when, value, variance, note)


def _field(content: Mapping[str, Any], name: str) -> Any:
    """Return a field; a `ValueError` if it is missing."""
    if name not in content:
        raise ValueError(f'the field "{name}" is missing')
    return content[name]
