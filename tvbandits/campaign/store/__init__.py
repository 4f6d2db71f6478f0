"""Where a campaign lies: tables, a lock that writers take in turns, and rows with chained checksums."""

try:
    import sqlalchemy as sqlalchemy
except ImportError as error:
    raise ImportError(
        'a campaign needs the package sqlalchemy: pip install "tvbandits[campaign]"'
    ) from error
