"""A bandit that outlives its process: `Campaign`, on a journal in a database."""

from tvbandits.campaign.campaign import Campaign, Choice
from tvbandits.campaign.status import Status, Verification
from tvbandits.campaign.store.errors import (
    BusyError,
    CampaignError,
    ClosedCampaignError,
    ConflictError,
    DamagedCampaignError,
    DoubtfulReadingError,
    ExpertNeededError,
    NoCampaignError,
    ReplayError,
    StorageError,
)

__all__ = [
    "BusyError",
    "Campaign",
    "CampaignError",
    "Choice",
    "ClosedCampaignError",
    "ConflictError",
    "DamagedCampaignError",
    "DoubtfulReadingError",
    "ExpertNeededError",
    "NoCampaignError",
    "ReplayError",
    "Status",
    "StorageError",
    "Verification",
]
