"""The journal and the snapshots of a campaign, in tables of SQLite or PostgreSQL."""

try:
    import sqlalchemy as sqlalchemy
except ImportError as error:
    raise ImportError(
        'a campaign needs the package sqlalchemy: pip install "tvbandits[campaign]"'
    ) from error
