"""What the command report does with a campaign."""

from __future__ import annotations

from pathlib import Path

from tvbandits.campaign.report.page import campaign_page
from tvbandits.cli.campaigns.actions import Call
from tvbandits.cli.terminal.pages import write_page


def report(place: str, out: str | None) -> None:
    """Write the page of a campaign.

    Raises
    ------
    ValueError
        If there is none, or nobody said where the page of a campaign on a server goes.
    """
    if out is None and "://" in place:
        raise ValueError("--out must say where to write the page of a campaign on a server")

    def made() -> str:
        with Call(place).opened() as sites:
            return campaign_page(sites.campaign)

    write_page(made, Path(out) if out else Path(f"{place}.html"))
