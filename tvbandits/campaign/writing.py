"""Operations of a campaign: done in one's turn, written down, and ended by others where need be."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvbandits.campaign.store.errors import CampaignError, ConflictError, ExpertNeededError
from tvbandits.campaign.store.rows import DONE, Row
from tvbandits.campaign.store.store import Turn
from tvbandits.core.coercion import shown
from tvbandits.core.files.journal import as_text
from tvbandits.core.files.saving import to_bytes
from tvbandits.core.files.values import Encoder, name_of
from tvbandits.core.protocols import Expert

if TYPE_CHECKING:
    from tvbandits.campaign.following import Replayer

LONGEST = 500
"""Characters of a key, or of a name of who does something."""


def as_name(name: str, text: object) -> None:
    """Raise a `ValueError` unless this is a text that can be printed, and not too long."""
    if not (isinstance(text, str) and 0 < len(text) <= LONGEST and text.isprintable()):
        raise ValueError(
            f"{name} must be a text of 1 to {LONGEST} characters that can be printed, "
            f"got {shown(text)}"
        )


def as_given(
    given: Mapping[str, Any], key: str | None, who: str
) -> tuple[dict[str, Any], str | None, str]:
    """What an operation is given, as it comes back from the disk; its key and who does it, checked."""
    for name, text in (("key", key), ("who", who)):
        if text is not None:
            as_name(name, text)
    return json.loads(as_text(given)), key, who


def same_operation(there: Row, kind: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body of what is on record under a key, if it is what is to be done.

    Raises
    ------
    ConflictError
        If it is something else.
    """
    known = {name: value for name, value in there.body.items() if name != "got"}
    if there.kind != kind or _for_each_point(known) != _for_each_point(given):
        raise ConflictError(
            f"the key {there.key!r} is taken: on record is {there.kind} {as_text(known)} "
            f"(row {there.seq}, by {there.who} at {there.at}), and given is {kind} {as_text(given)}"
        )
    return there.body


def _for_each_point(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, with a value for each point where one stands for all of them."""
    repeated = ("t", "y", "values", "variance") if "X" in given else ()
    return {
        name: [value] * len(given["X"])
        if name in repeated and not isinstance(value, list | None)
        else value
        for name, value in given.items()
    }


def expert_on_record(expert: Expert | None) -> dict[str, str]:
    """What is kept of the expert itself: whether there is one, its name, and its parts if it can be."""
    if expert is None:
        return {"asks": "false", "expert": "", "expert_saved": ""}
    saved = ""
    try:
        encoder = Encoder()
        encoder.ref(expert)
        if not encoder.own:
            saved = base64.b64encode(to_bytes(expert)).decode()
    except ValueError:
        pass  # then it is handed over whenever it is needed
    return {"asks": "true", "expert": name_of(expert), "expert_saved": saved}


class Writer:
    """Does operations in one's turn, and writes them down."""

    def __init__(self, turn: Turn, follower: Replayer, who: str) -> None:
        self._turn, self._follower, self._by = turn, follower, who
        self.uncertain = False

    def operate(self, kind: str, given: Mapping[str, Any], key: str | None) -> Mapping[str, Any]:
        """Do it; what may ask the expert is written down before it begins."""
        expert = self._follower.expert
        if expert is not None and kind in ("asked", "told"):
            if not expert.present:
                raise ExpertNeededError(
                    "the campaign has an expert, and it is needed to ask and to tell"
                )
            self._write("meant", {"kind": kind, "given": given, "key": key})
        return self._end(kind, given, key)

    def recover(self) -> None:
        """End what a process has begun that is no more."""
        meant = self._follower.open[0]
        self._by = meant.who
        body = meant.body
        try:
            self._end(body["kind"], body["given"], body["key"])
        except CampaignError:
            raise
        except Exception:
            # It is on record as failed, as it would have been then.
            return

    def _end(self, kind: str, given: Mapping[str, Any], key: str | None) -> Mapping[str, Any]:
        follower = self._follower
        begun = bool(follower.open)
        write = self._write if begun else None
        self.uncertain = True
        try:
            got = follower.perform(kind, given, write)
        except CampaignError:
            raise
        except Exception as error:
            if begun:
                self._write("failed", {"error": f"{type(error).__name__}: {error}"})
                follower.open = []
            self.uncertain = False
            raise
        body = {**given, "got": None if got is None else got.tolist()}
        self._write(kind, body, key)
        follower.open = []
        self.uncertain = False
        return body

    def _write(self, kind: str, body: Mapping[str, Any], key: str | None = None) -> None:
        follower = self._follower
        (row,) = self._turn.append(follower.seq, follower.head, [(kind, key, self._by, body)])
        follower.passed(row)
        if kind not in (*DONE, "failed"):
            follower.open.append(row)
