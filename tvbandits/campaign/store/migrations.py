"""Tables that an older version has made, brought up to date when they are opened."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sql

from tvbandits.campaign.store.errors import NoCampaignError
from tvbandits.campaign.store.schema import ABOUT

SCHEMA = 2
"""The version of the tables that this version writes."""


def _who_made_snapshots(connection: sql.Connection) -> None:
    """Version 2 says of each snapshot which version of the package has made it."""
    connection.execute(
        sql.text("ALTER TABLE snapshots ADD COLUMN made_by TEXT NOT NULL DEFAULT ''")
    )


STEPS: dict[int, Callable[[sql.Connection], None]] = {1: _who_made_snapshots}
"""What makes version n + 1 out of version n."""


def version_in(connection: sql.Connection, place: str) -> int:
    """The version of the tables that are there.

    Raises
    ------
    NoCampaignError
        If they are none of a campaign, or of a version that is not known yet.
    """
    tables = set(sql.inspect(connection).get_table_names())
    if not {"about", "journal", "snapshots"} <= tables:
        raise NoCampaignError(f"{place}: it is no campaign: it has the tables {sorted(tables)}")
    wanted = sql.select(ABOUT.c.value).where(ABOUT.c.name == "schema")
    said = connection.execute(wanted).scalar()
    if said is None or not said.isdigit() or not 1 <= int(said) <= SCHEMA:
        raise NoCampaignError(f"{place}: its tables are of version {said}, and {SCHEMA} is known")
    return int(said)


def migrate(connection: sql.Connection, place: str) -> None:
    """Every step from the version that is there to the one of today."""
    for version in range(version_in(connection, place), SCHEMA):
        STEPS[version](connection)
        told = ABOUT.update().where(ABOUT.c.name == "schema").values(value=str(version + 1))
        connection.execute(told)
