"""Campaigns: bandits whose state is a journal in a database, so that they outlive their process."""

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
