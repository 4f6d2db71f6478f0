"""What can go wrong with a campaign, by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# What is raised where something has a form that it should not have.
MALFORMED = ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError


class CampaignError(ValueError):
    """Something is wrong with a campaign, or with what it was asked to do."""


class NoCampaignError(CampaignError):
    """There is no campaign at that place, or what is there is something else."""


class ClosedCampaignError(CampaignError):
    """The campaign was closed here, and is used again without being opened."""


class StorageError(CampaignError):
    """The campaign could not be written or read now: a full or read-only disk, a server that is away.

    Nothing is lost by it that was reported as done; whoever tries again under the same key is counted
    once.
    """


class BusyError(CampaignError):
    """Others were writing for longer than the time limit."""


class ConflictError(CampaignError):
    """Something is on record under the same key, or of the same place and time.

    Parameters
    ----------
    message : str
    same : bool
        What is on record is what was given.
    key : str, optional
        Under which it is on record.
    """

    def __init__(self, message: str, *, same: bool = False, key: str | None = None) -> None:
        super().__init__(message)
        self.same, self.key = same, key


class DamagedCampaignError(CampaignError):
    """A row or a field is not as it was written."""


class ReplayError(CampaignError):
    """Computed again, the journal gives something else than what is on record."""


class ExpertNeededError(CampaignError):
    """The campaign's expert is needed now and was not handed over."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Name what is read in any error of a form that it should not have."""
    try:
        yield
    except CampaignError:
        raise
    except MALFORMED as e:
        raise DamagedCampaignError(f"{what} is not as it was written: {e}") from e
