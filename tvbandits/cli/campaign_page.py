"""What the command report does with a campaign."""

from __future__ import annotations

from tvbandits.campaign.service.page import campaign_page, generator_of
from tvbandits.campaign.store.places import check_name
from tvbandits.cli.campaign_actions import Call
from tvbandits.cli.terminal import write_page
from tvbandits.core.coercion import file_path
from tvbandits.core.files.page import generated_by


def report(place: str, out: str | None) -> None:
    """Write the page of a campaign, in place of an earlier one and of nothing else.

    Raises
    ------
    ValueError
        If there is none, or something else where the page goes, or nobody said where the page of a
        campaign on a server goes.
    """
    if out is None and "://" in place:
        raise ValueError("--out must say where to write the page of a campaign on a server")
    there = file_path("--out", out or f"{place}.html")
    check_name(there)
    with Call(place).opened() as sites:
        campaign = sites.campaign
        generator = generator_of(campaign)
        write_page(
            lambda: campaign_page(campaign), there, lambda path: generated_by(path, generator)
        )
