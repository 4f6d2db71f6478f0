"""The errors of a campaign."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class CampaignError(ValueError):
    """Something is wrong with a campaign, or with what it was asked to do."""


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
    message : str
    same : bool
        Whether the entry in the journal is equal to the new one.
    key : str, optional
        The key of the entry, if it was found by its key.
    """

    def __init__(self, message: str, *, same: bool = False, key: str | None = None) -> None:
        super().__init__(message)
        self.same, self.key = same, key


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
