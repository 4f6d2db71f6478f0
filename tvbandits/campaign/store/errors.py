"""The errors of a campaign."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# What a remedy is called where somebody writes Python.
PYTHON = {
    "key": "key=",
    "sure": "sure=True",
    "expert": "expert=",
    "correct": "`correct`",
    "correct_answers": "`correct_answers`",
}


class CampaignError(ValueError):
    """Something is wrong with a campaign, or with what it was asked to do.

    Parameters
    ----------
    reason : str
        What is wrong.
    remedy : str
        What to do about it, with the names of arguments and methods in braces: "give {key}".

    Attributes
    ----------
    words : mapping of str to str
        What `str` calls these: as in Python, unless another door says its own words.
    """

    words: Mapping[str, str] = PYTHON

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason, remedy)
        self.reason, self.remedy = reason, remedy

    def __str__(self) -> str:
        return self.message(self.words)

    def message(self, words: Mapping[str, str], reason: str | None = None) -> str:
        """Return the message in the words of a door; `reason` replaces what is wrong."""
        text = self.reason if reason is None else reason
        return f"{text}; {self.remedy.format_map(words)}" if self.remedy else text


class NoCampaignError(CampaignError):
    """There is no campaign at that location, or there is something else."""


class ClosedCampaignError(CampaignError):
    """The campaign was closed in this process and must be opened again first."""


class StorageError(CampaignError):
    """The campaign cannot be read or written now: a full or read-only disk, a server that is down.

    Every call that has returned is safe. A call that is repeated under the same key counts once.
    """


class BusyError(CampaignError):
    """Other processes were writing for longer than the timeout."""


class ConflictError(CampaignError):
    """The journal has another entry under the same key, or for the same place and time.

    Parameters
    ----------
    reason, remedy : str
    same : bool
        Whether the entry in the journal is equal to the new one.
    key : str, optional
        The key of the entry, if it was found by its key.
    withdrawn : bool
        Whether the entry is a reading that was retracted or moved.
    """

    def __init__(
        self,
        reason: str,
        remedy: str = "",
        *,
        same: bool = False,
        key: str | None = None,
        withdrawn: bool = False,
    ) -> None:
        super().__init__(reason, remedy)
        self.same, self.key, self.withdrawn = same, key, withdrawn


class DoubtfulReadingError(CampaignError):
    """A reading or an answer is beyond belief, and nobody has said that it is right.

    Nothing of the call has happened. It is recorded if the call says `sure=True`.

    Parameters
    ----------
    reason : str
        What is unusual about it, in words.
    row : int
        Its row in the call, from 0.
    site : str
        The name of its place.
    value : float
        NaN for a failed reading whose time is unusual.
    usual : tuple of float, or None
        The lowest and the highest of the readings that it is far from; None if its time is unusual.
    more : int
        How many further readings of the call are unusual.
    """

    def __init__(
        self,
        reason: str,
        *,
        row: int,
        site: str,
        value: float,
        usual: tuple[float, float] | None = None,
        more: int = 0,
    ) -> None:
        super().__init__(reason, "nothing was recorded: if it is right, add {sure}")
        self.row, self.site, self.value = row, site, value
        self.usual, self.more = usual, more

    def __reduce__(self) -> tuple[Any, ...]:
        names = ("row", "site", "value", "usual", "more")
        return _restore, (self.reason, {name: getattr(self, name) for name in names})

    def message(self, words: Mapping[str, str], reason: str | None = None) -> str:
        """Return the message with its row; `reason` replaces what is unusual."""
        more = f" (and {self.more} more like it)" if self.more else ""
        text = self.reason if reason is None else reason
        return super().message(words, f"row {self.row}: {text}{more}")


class DamagedCampaignError(CampaignError):
    """A row or a field is not as it was written."""


class ReplayError(CampaignError):
    """Replaying the journal gives another result than the journal has."""


class ExpertNeededError(CampaignError):
    """The operation needs the campaign's expert, and the campaign was opened without it."""


@contextmanager
def report_damage(what: str) -> Iterator[None]:
    """Turn errors that come from malformed content into a `DamagedCampaignError` about `what`."""
    try:
        yield
    except CampaignError:
        raise
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as e:
        raise DamagedCampaignError(f"{what} is not as it was written: {e}") from e


def _restore(reason: str, values: Mapping[str, Any]) -> DoubtfulReadingError:
    return DoubtfulReadingError(reason, **values)
