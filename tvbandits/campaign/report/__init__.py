"""A campaign as a page: where to go next and why, what is believed, asked, paid and out of order."""

from tvbandits.campaign.report.page import campaign_page

__all__ = ["campaign_page"]
