"""The tables, and what tells that they are there."""

from __future__ import annotations

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
    sql.Column("made_by", sql.Text, nullable=False),
)
"""The bandit after so many rows, as a saved file; the first of them is the beginning."""


SCHEMA = 2
"""The version of the tables, which stands in them; one that is not known is refused."""


def version_in(connection: sql.Connection, place: str) -> int:
    """The version of the tables that are there; 0 where there are none.

    Raises
    ------
    NoCampaignError
        If they are none of a campaign, or of another version.
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
    if said != str(SCHEMA):
        raise NoCampaignError(f"{place}: its tables are of version {said}, and {SCHEMA} is known")
    return SCHEMA
