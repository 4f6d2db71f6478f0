"""Parsers and writers of the JSON messages between transport and stations.

`docs/mqtt.md` describes every field.
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
    """Return number, client and time of a query; raise a `ValueError` that names an invalid field."""
    content = parse_object(payload)
    client = _field(content, "client")
    valid = isinstance(client, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", client)
    require(valid, '"client"', "1 to 64 letters, digits, _ or -", client)
    return parse_request_number(content), client, finite_number('"time"', _field(content, "time"))


def format_answer(request: int, station: str, reading: object) -> str:
    """Return a station's answer as JSON, with its reading (or None).

    Raises
    ------
    ValueError
        If a number of the reading is not finite.
    """
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
    """Return the JSON object in a message; raise a `ValueError` if it is too long or contains none."""
    if len(payload) > longest:
        raise ValueError(f"a message must have at most {longest} bytes, got {len(payload)}")
    try:
        content = json.loads(payload, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"malformed JSON: {error}") from error
    check_instance("a message", content, dict, "a JSON object")
    return dict(content)


def parse_request_number(content: Mapping[str, Any]) -> int:
    """Return the number of the request that a message belongs to."""
    number = _field(content, "request")
    require(is_whole(number), '"request"', "a whole number", number)
    return int(number)


def parse_reading(content: Mapping[str, Any], station: str) -> Reading | None:
    """Return the reading in an answer; None if the station has no reading and gives no reason."""
    name, note = _field(content, "station"), content.get("note", "")
    require(name == station, '"station"', f"{station!r}, as in the topic", name)
    check_instance('"note"', note, str, "a text")
    if _field(content, "value") is None:
        return Reading(station, math.nan, math.nan, note=note) if note else None
    value, time = (finite_number(f'"{key}"', _field(content, key)) for key in ("value", "time"))
    variance = check_optional(positive_number, '"variance"', content.get("variance"))
    return Reading(station, time, value, variance, note)


def _field(content: Mapping[str, Any], name: str) -> Any:
    """Return a field of a message; raise a `ValueError` if it is missing."""
    if name not in content:
        raise ValueError(f'the field "{name}" is missing')
    return content[name]
