"""Messages of stations over MQTT: JSON that is checked by hand, so that people read what is wrong."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvbandits.core.arrays import is_finite_number
from tvbandits.core.coercion import shown
from tvbandits.experts.sensors.readings import Reading

LONGEST = 65536
"""Bytes of a message; a longer one is not read."""


@dataclass(frozen=True)
class Question:
    """What a station is asked.

    Attributes
    ----------
    request : int
        Number of the request, to be repeated in the answer.
    client : str
        Who asks; last part of the topic of the answer.
    time : float
        The time the reading must speak about.
    """

    request: int
    client: str
    time: float

    def written(self) -> str:
        """The message."""
        return json.dumps({"request": self.request, "client": self.client, "time": self.time})

    @classmethod
    def read(cls, payload: bytes | bytearray) -> Question:
        """The question in a message; `ValueError` says what is wrong with it."""
        content = object_in(payload)
        client = _field(content, "client")
        if not (isinstance(client, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", client)):
            raise ValueError(
                f'"client" must be 1 to 64 letters, digits, _ or -, got {shown(client)}'
            )
        return cls(request_number(content), client, _number(content, "time"))


def answer(request: int, station: str, reading: object) -> str:
    """The message of a station with its reading, or None; `ValueError` if a number of it is none."""
    content: dict[str, object] = {"request": request, "station": station, "value": None}
    if reading is not None:
        content |= _measured(reading)
    return json.dumps(content)


def refusal(request: int, station: str, note: str) -> str:
    """The message of a station that has no reading, and says why."""
    return json.dumps({"request": request, "station": station, "value": None, "note": note})


def object_in(payload: bytes | bytearray) -> dict[str, Any]:
    """The object of a message; `ValueError` says what is wrong with it."""
    if len(payload) > LONGEST:
        raise ValueError(f"a message of {len(payload)} bytes, more than {LONGEST}")
    try:
        content = json.loads(payload, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"malformed JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"a message must be a JSON object, got {type(content).__name__}")
    return content


def request_number(content: Mapping[str, Any]) -> int:
    """The number of the request that a message is about."""
    value = _field(content, "request")
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f'"request" must be a whole number, got {shown(value)}')
    return value


def reading_in(content: Mapping[str, Any], station: str) -> Reading | None:
    """The reading of an answer; None if the station has none and does not say why."""
    said = _field(content, "station")
    if said != station:
        raise ValueError(f'"station" must be {station!r}, as in the topic, got {shown(said)}')
    note = content.get("note", "")
    if not isinstance(note, str):
        raise ValueError(f'"note" must be a text, got {shown(note)}')
    if _field(content, "value") is None:
        return Reading(station, math.nan, math.nan, note=note) if note else None
    value, when = _number(content, "value"), _number(content, "time")
    variance = None if content.get("variance") is None else _number(content, "variance")
    if variance is not None and variance <= 0:
        raise ValueError(f'"variance" must be positive, got {variance}')
    return Reading(station, when, value, variance, note)


def _measured(reading: object) -> dict[str, object]:
    """The fields of an answer with a reading; `ValueError` if a number of it is none."""
    if not isinstance(reading, Reading):
        raise TypeError(f"read must return a Reading or None, got {shown(reading)}")
    fields: dict[str, object] = {"note": str(reading.note)} if reading.note else {}
    if reading.note and not is_finite_number(reading.value):
        return fields
    for name in ("time", "value", "variance"):
        number = getattr(reading, name)
        if not is_finite_number(number) and not (name == "variance" and number is None):
            raise ValueError(f"its {name} must be a finite number, got {shown(number)}")
        fields[name] = None if number is None else float(number)
    return fields


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _field(content: Mapping[str, Any], name: str) -> Any:
    if name not in content:
        raise ValueError(f'the field "{name}" is missing')
    return content[name]


def _number(content: Mapping[str, Any], name: str) -> float:
    value = _field(content, name)
    if not is_finite_number(value):
        raise ValueError(f'"{name}" must be a finite number, got {shown(value)}')
    return float(value)
