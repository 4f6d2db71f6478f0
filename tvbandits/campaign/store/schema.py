"""The tables, as they are today."""

from __future__ import annotations

import sqlalchemy as sql

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
