"""A bandit that outlives its process: `Campaign`, on a journal in a database."""

from typing import TYPE_CHECKING, Any

from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.status import Status
from tvbandits.campaign.store.errors import (
    BusyError,
    CampaignError,
    ClosedCampaignError,
    ConflictError,
    DamagedCampaignError,
    ExpertNeededError,
    NoCampaignError,
    ReplayError,
    StorageError,
)

if TYPE_CHECKING:
    from tvbandits.campaign.following import VerifiedCampaign

__all__ = [
    "BusyError",
    "Campaign",
    "CampaignError",
    "ClosedCampaignError",
    "ConflictError",
    "DamagedCampaignError",
    "ExpertNeededError",
    "NoCampaignError",
    "ReplayError",
    "Status",
    "StorageError",
    "VerifiedCampaign",
]


def __getattr__(name: str) -> Any:
    """The one name that needs the model."""
    if name != "VerifiedCampaign":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tvbandits.campaign.following import VerifiedCampaign

    return VerifiedCampaign
