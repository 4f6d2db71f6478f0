"""Files: tables that may be broken, hostile or not meant; and values that are saved without code."""

from tvbandits.core.files.reading import (
    ENVIRONMENT,
    Counted,
    File,
    ReadLimits,
    bounded,
    check_regular,
    current_limits,
    is_parquet,
    limit_cells,
    naming,
    read_csv,
    read_parquet,
    reading_limits,
    unpacked,
)

__all__ = [
    "ENVIRONMENT",
    "Counted",
    "File",
    "ReadLimits",
    "bounded",
    "check_regular",
    "current_limits",
    "is_parquet",
    "limit_cells",
    "naming",
    "read_csv",
    "read_parquet",
    "reading_limits",
    "unpacked",
]
