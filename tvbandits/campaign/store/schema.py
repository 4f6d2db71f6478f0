"""The tables, as they are today.

Tables that an older version has made, brought up to date when they are opened.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sql

from tvbandits.campaign.store.errors import NoCampaignError

METADATA = sql.MetaData()

ABOUT = sql.Table(
    "about",
    METADATA,
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("value", sql.Text, nullable=False),
)
"""What it is about: its id, the version of the tables, the clock, the expert, the names of sites."""

JOURNAL = sql.Table(
    "journal",
    METADATA,
    sql.Column("seq", sql.BigInteger, primary_key=True, autoincrement=False),
    sql.Column("kind", sql.Text, nullable=False),
    sql.Column("key", sql.Text, unique=True),
    sql.Column("who", sql.Text, nullable=False),
    sql.Column("at", sql.Text, nullable=False),
    sql.Column("body", sql.Text, nullable=False),
    sql.Column("digest", sql.Text, nullable=False),
)
"""What happened: rows are added and never changed (see `tvbandits.campaign.store.rows`)."""

SNAPSHOTS = sql.Table(
    "snapshots",
    METADATA,
    sql.Column("seq", sql.BigInteger, primary_key=True, autoincrement=False),
    sql.Column("head", sql.Text, nullable=False),
    sql.Column("at", sql.Text, nullable=False),
    sql.Column("data", sql.LargeBinary, nullable=False),
    sql.Column("checksum", sql.Text, nullable=False),
    sql.Column("made_by", sql.Text, nullable=False, server_default=""),
)
"""The bandit after so many rows, as a saved file; the first of them is the beginning."""


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
    """The version of the tables that are there; 0 where there are none.

    Raises
    ------
    NoCampaignError
        If they are none of a campaign, or of a version that is not known yet.
    """
    inspector = sql.inspect(connection)
    tables = inspector.get_table_names()
    if not tables:
        return 0
    ours = {"about", "journal", "snapshots"} <= set(tables)
    if not ours or {each["name"] for each in inspector.get_columns("about")} != {*ABOUT.c.keys()}:
        raise NoCampaignError(f"{place}: it is no campaign: it has the tables {sorted(tables)}")
    wanted = sql.select(ABOUT.c.value).where(ABOUT.c.name == "schema")
    said = connection.execute(wanted).scalar()
    known = {str(version): version for version in range(1, SCHEMA + 1)}
    if said not in known:
        raise NoCampaignError(f"{place}: its tables are of version {said}, and {SCHEMA} is known")
    return known[said]


def migrate(connection: sql.Connection, place: str) -> None:
    """Every step from the version that is there to the one of today."""
    for version in range(version_in(connection, place), SCHEMA):
        STEPS[version](connection)
        told = ABOUT.update().where(ABOUT.c.name == "schema").values(value=str(version + 1))
        connection.execute(told)
