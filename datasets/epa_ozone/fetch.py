"""A download of the EPA's annual files of daily ozone into a cache folder, verified at each use.

The files are those of https://aqs.epa.gov/aqsweb/airdata/download_files.html, "daily summary data",
ozone (44201). The cache contains one zip per year, such as `daily_44201_2008.zip`, and `registry.txt`
with the SHA-256 of each zip at the time of its download.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pandas as pd
import requests

from tvbandits.datasets.epa_ozone.aqs import AIRDATA, OZONE, is_in_state
from tvbandits.datasets.tables.readings import quote_few
from tvbandits.datasets.tables.spreadsheets import File
from tvbandits.io import check_size, name_file_in_errors, replace_file
from tvbandits.validation import (
    as_list,
    check_function,
    check_optional,
    check_text,
    clean,
    file_path,
    whole_number,
)

with warnings.catch_warnings():
    # In a notebook without widgets, pooch's import warns of a progress bar that is not used here.
    warnings.filterwarnings("ignore", message="IProgress not found")
    import pooch

try:
    import fcntl

    HAS_LOCKS = True
except ImportError:  # Windows, browsers
    HAS_LOCKS = False


# A function of a file's name, the bytes received so far, and the total number of bytes or None.
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class DownloadLimits:
    """Limits that stop a download, and the sizes of its steps.

    Attributes
    ----------
    patience : float
        Seconds without a byte from the server after which the download fails.
    chunk : int
        Bytes per read of the answer.
    largest : int
        Largest size of a file in bytes; a longer download is stopped and deleted.
    rows : int
        Rows per read of a year's file when the rows of a state are selected.
    first_year : int
        First year of the EPA's annual files.
    """

    patience: float = 30.0
    chunk: int = 1 << 14
    largest: int = 500_000_000
    rows: int = 100_000
    first_year: int = 1980


LIMITS = DownloadLimits()

# Where the EPA serves its annual files.
AIRDATA_URL = "https://aqs.epa.gov/aqsweb/airdata/"

# Environment variable with the path of the cache folder.
CACHE_VARIABLE = "TVBANDITS_CACHE"

# A file in the cache folder with lines "file SHA-256", which pooch reads.
REGISTRY = "registry.txt"


def fetch_ozone(
    years: int | Iterable[int],
    *,
    state: str | None = None,
    cache: File | None = None,
    base_url: str = AIRDATA_URL,
    progress: Progress | None = None,
) -> list[Path]:
    """Download the EPA's daily ozone files of some years that the cache lacks, for use by `ozone`.

    The SHA-256 of a file is recorded when it is downloaded, and verified at each later use. An
    interrupted download leaves no file behind. To get a newer edition of a year, delete its zip.
    Several processes may share a cache.

    Parameters
    ----------
    years : int, or several
        Years from 1980 on; duplicates are ignored.
    state : str, optional
        Write a csv with the rows of one state beside each zip: the state's name in any case, or its FIPS
        code ("36"). The csv is rewritten at each call.
    cache : path, optional
        Cache folder, created if missing. None: the environment variable TVBANDITS_CACHE, or the user's
        cache folder.
    base_url : str
        URL of the folder with the zips: the EPA's, or a mirror's.
    progress : callable, optional
        A function of the file name, the bytes received so far, and the total number of bytes (None if
        the server does not announce it).

    Returns
    -------
    list of Path
        The zip of each year, or, with `state`, the csv of each year.

    Raises
    ------
    ValueError
        If a year is out of range, the cache is no folder, the state has no rows, or a file has changed
        since its download.
    OSError
        If a download fails or is not a valid zip; the message contains the URL. A TimeoutError if the
        server does not answer.
    """
    numbers = _as_years(years)
    if not re.match(r"https?://[^/]", check_text("base_url", base_url)):
        raise ValueError(f"base_url must begin with http:// or https://, got {base_url!r}")
    check_optional(check_text, "state", state)
    check_optional(
        check_function, "progress", progress, "a function of a name and two numbers, or None"
    )
    folder = check_optional(file_path, "cache", cache)
    # pooch would prefer the environment variable to the argument.
    store = pooch.create(
        path=pooch.os_cache("tvbandits") if folder is None else folder,
        base_url=base_url,
        env=CACHE_VARIABLE if cache is None else None,
    )
    folder = Path(store.path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cache must be a folder, got '{folder}': {error.strerror}") from error
    zips = [_fetch(store, f"daily_{OZONE}_{year}.zip", progress) for year in numbers]
    return zips if state is None else [_write_state(path, state) for path in zips]


def _as_years(years: int | Iterable[int]) -> list[int]:
    """Return the years without duplicates; raise a `ValueError` for a year that cannot have a file."""
    items = as_list("years", years, "") if isinstance(years, Iterable) else [years]
    if not items:
        raise ValueError("years must name at least one year, got none")
    numbers = [
        whole_number("years", year, at_least=LIMITS.first_year, at_most=9999) for year in items
    ]
    return list(dict.fromkeys(numbers))


def _fetch(store: pooch.Pooch, name: str, progress: Progress | None) -> Path:
    """Return the path of a file, which is downloaded, or verified if the cache contains it."""
    path, registry = Path(store.path) / name, Path(store.path) / REGISTRY
    # One process at a time: a process that waits for the download of another uses its file.
    with _lock(path.parent):
        if registry.exists():
            with name_file_in_errors(registry):
                store.load_registry(registry)
        expected = store.registry.get(name) if path.exists() else None
        if not path.exists():
            replace_file(path, lambda draft: _download(store.base_url + name, draft, progress))
        elif expected is None:  # the user put the file there
            _check_opens(path)
        sha256 = str(pooch.file_hash(str(path)))
        if expected not in (None, sha256):
            raise ValueError(
                f"{path}: the file has changed since it was downloaded (its SHA-256 is "
                f"{sha256[:12]}..., and was {expected[:12]}...); delete it to download it again"
            )
        if expected is None:
            entries = {**store.registry, name: sha256}
            lines = sorted(f"{file} {checksum}\n" for file, checksum in entries.items())
            replace_file(registry, lambda draft: draft.write_text("".join(lines), encoding="utf-8"))
    return path


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes, after waiting until no other process has locked it.

    The operating system releases the lock if the process ends. On systems without such locks (Windows,
    browsers, some network disks), the folder is not locked.
    """
    if not HAS_LOCKS:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _download(url: str, target: Path, progress: Progress | None) -> None:
    """Download a URL into a file; `requests` raises if it is shorter than the server has announced."""
    # No compression on the way, which would change the announced length.
    headers = {"Accept-Encoding": "identity"}
    try:
        with requests.get(url, headers=headers, stream=True, timeout=LIMITS.patience) as response:
            if response.status_code != HTTPStatus.OK:
                status = f"HTTP status {response.status_code} {response.reason or ''}".strip()
                raise OSError(f"{url}: {clean(status, 200)}")
            length, size = response.headers.get("Content-Length", ""), 0
            total = int(length) if length.isdigit() else None
            with target.open("wb") as file:
                for chunk in response.iter_content(LIMITS.chunk):
                    size += len(chunk)
                    if max(size, total or 0) > LIMITS.largest:
                        raise OSError(f"{url}: the file has more bytes than {LIMITS.largest}")
                    file.write(chunk)
                    if progress is not None:
                        progress(target.name, size, total)
    except requests.RequestException as error:
        if isinstance(error, requests.Timeout) or "timed out" in str(error):
            raise TimeoutError(f"{url}: no answer within {LIMITS.patience:g} seconds") from None
        reason = clean(str(error), 200) or type(error).__name__
        if isinstance(error, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
            reason = "the server cannot be reached, or has cut the connection"
        raise OSError(f"{url}: {reason}") from None
    try:
        _check_opens(target)
    except ValueError as error:
        reason = str(error).partition(": ")[2]
        raise OSError(f"{url}: the download does not open ({reason})") from None


def _check_opens(path: Path) -> None:
    """Raise a `ValueError` unless the file is a zip whose members have the right checksums."""
    with name_file_in_errors(path), zipfile.ZipFile(path) as archive:
        check_size("unpacked_bytes", sum(info.file_size for info in archive.infolist()))
        if (member := archive.testzip()) is not None:
            raise ValueError(f"{member} in the zip is damaged")


def _write_state(path: Path, state: str) -> Path:
    """Write the rows of one state to a csv beside the zip, and return the path of the csv."""
    parts, states = list[pd.DataFrame](), set[str]()
    form: Any = {"dtype": str, "keep_default_na": False, "encoding_errors": "replace"}
    with (
        name_file_in_errors(path),
        pd.read_csv(path, chunksize=LIMITS.rows, on_bad_lines="skip", **form) as chunks,
    ):
        for rows in chunks:
            columns = AIRDATA.match(rows.columns)
            if not {"state", "state_code"} <= set(columns):
                raise ValueError("the csv has no columns State Code and State Name")
            names, codes = rows[columns["state"]], rows[columns["state_code"]]
            states |= set(names + " (" + codes + ")")
            parts.append(rows[is_in_state(state, names, codes)])
    table = pd.concat(parts)
    if not len(table):
        raise ValueError(
            f"state={state} has no rows in {path.name}, which contains the states "
            f"{quote_few(states, most=len(states))}"
        )
    name = str(table[columns["state"]].iloc[0])
    words = re.sub(r"[^0-9a-z]+", "-", name.casefold()).strip("-")
    target = path.with_name(f"{path.stem}_{words}.csv")
    replace_file(target, lambda draft: table.to_csv(draft, index=False))
    return target
