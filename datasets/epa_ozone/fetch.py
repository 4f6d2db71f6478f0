"""Downloading the EPA's annual files of daily ozone, once, into a folder that is checked at each use.

The files are those of https://aqs.epa.gov/aqsweb/airdata/download_files.html, "daily summary data",
ozone (44201). A folder of downloads holds, for each year, `daily_44201_2008.zip`, and `registry.txt`
with the SHA-256 each file had when it was downloaded.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pandas as pd
import requests

from tvbandits.datasets.epa_ozone.files import AIRDATA, OZONE, of_state
from tvbandits.datasets.tables.readings import few
from tvbandits.datasets.tables.spreadsheets import File
from tvbandits.io import check_size, naming, put_in_place
from tvbandits.validation import cleaned, file_path, function, optional, several, text, whole_number

with warnings.catch_warnings():
    # In a notebook without widgets: of a progress bar that nobody here uses.
    warnings.filterwarnings("ignore", message="IProgress not found")
    import pooch

try:
    import fcntl

    HAS_LOCKS = True
except ImportError:  # Windows, browsers
    HAS_LOCKS = False


# Called with the name of a file, its bytes so far, and its bytes in all, if known.
Progress = Callable[[str, int, int | None], None]


# Seconds without an answer, or without a byte, after which a server has failed.
PATIENCE = 30.0


# Bytes read at once.
CHUNK = 1 << 14


# Bytes of a file; a longer one is given up, and nothing of it is kept.
LARGEST = 500_000_000


# Where the EPA serves its annual files.
AIRDATA_URL = "https://aqs.epa.gov/aqsweb/airdata/"


# Environment variable that names the folder of downloads.
CACHE_VARIABLE = "TVBANDITS_CACHE"


# Lines "file SHA-256", the form that pooch reads; in the folder of downloads.
REGISTRY = "registry.txt"


# Of a year's file, while the rows of a state are looked for.
ROWS_AT_ONCE = 100_000


# First year of the EPA's annual files.
FIRST_YEAR = 1980


def fetch_ozone(
    years: int | Iterable[int],
    *,
    state: str | None = None,
    cache: File | None = None,
    base_url: str = AIRDATA_URL,
    progress: Progress | None = None,
) -> list[Path]:
    """Download the EPA's daily ozone of some years, unless it is there, for `ozone`.

    The SHA-256 of a file is written down when it is downloaded, and verified at each later use. A
    download that is cut short leaves nothing. To get a newer edition of a year, delete its zip. Several
    processes may share a folder.

    Parameters
    ----------
    years : int, or several
        From 1980 on; a year given twice counts once.
    state : str, optional
        Write, beside each zip, a csv with the rows of one state: its name in any case, or its FIPS
        code ("36"). The csv is written anew at each call.
    cache : path, optional
        Folder of downloads, made if it is not there. None: the environment variable TVBANDITS_CACHE,
        or the user's cache folder.
    base_url : str
        Folder the zips are downloaded from: the EPA's, or a mirror of it.
    progress : callable, optional
        Called with file name, bytes so far, and bytes in all (None: not known).

    Returns
    -------
    list of Path
        The zip of each year, or, if a state is asked for, its csv.

    Raises
    ------
    ValueError
        If a year cannot be, the cache is no folder, the state has no rows, or a file has changed since
        it was downloaded.
    OSError
        If a download fails, or what comes is not a zip that opens; it names the URL. TimeoutError if
        the server does not answer.
    """
    chosen = _checked_years(years)
    if not re.match(r"https?://[^/]", text("base_url", base_url)):
        raise ValueError(f"base_url must begin with http:// or https://, got {base_url!r}")
    optional(text, "state", state)
    optional(function, "progress", progress, "a function of a name and two numbers, or None")
    given = optional(file_path, "cache", cache)
    # A folder that is given goes before one of the environment, which pooch would prefer.
    store = pooch.create(
        path=pooch.os_cache("tvbandits") if given is None else given,
        base_url=base_url,
        env=CACHE_VARIABLE if cache is None else None,
    )
    folder = Path(store.path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cache must be a folder, got '{folder}': {error.strerror}") from error
    zips = [_fetched(store, f"daily_{OZONE}_{year}.zip", progress) for year in chosen]
    return zips if state is None else [_of_state(path, state) for path in zips]


def _checked_years(years: int | Iterable[int]) -> list[int]:
    given = several("years", years, "") if isinstance(years, Iterable) else [years]
    if not given:
        raise ValueError("years must name at least one year, got none")
    return [
        whole_number("years", year, at_least=FIRST_YEAR, at_most=9999)
        for year in dict.fromkeys(given)
    ]


def _fetched(store: pooch.Pooch, name: str, progress: Progress | None) -> Path:
    """The file of that name, as it was when it was downloaded."""
    path, registry = Path(store.path) / name, Path(store.path) / REGISTRY
    # One process at a time: who waits for a download finds it done.
    with _locked(path.parent):
        if registry.exists():
            with naming(registry):
                store.load_registry(registry)
        known = store.registry.get(name) if path.exists() else None
        if not path.exists():
            put_in_place(path, lambda draft: _download(store.base_url + name, draft, progress))
        elif known is None:  # it was put there by hand
            _check_opens(path)
        found = str(pooch.file_hash(str(path)))
        if known not in (None, found):
            raise ValueError(
                f"{path}: the file has changed since it was downloaded (its SHA-256 is "
                f"{found[:12]}..., and was {known[:12]}...); delete it to download it again"
            )
        if known is None:
            lines = sorted(
                f"{file} {sha256}\n" for file, sha256 in {**store.registry, name: found}.items()
            )
            put_in_place(registry, lambda draft: draft.write_text("".join(lines), encoding="utf-8"))
    return path


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder; waits for who is in it.

    The lock is the system's, and goes with the process that holds it. Where there is none (Windows,
    browsers, some network disks), nobody is kept out.
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
    """Put what `url` serves in a file; `requests` says if it is less than the server has promised."""
    # Bytes as they are: a packed answer has another length.
    headers = {"Accept-Encoding": "identity"}
    try:
        with requests.get(url, headers=headers, stream=True, timeout=PATIENCE) as response:
            if response.status_code != HTTPStatus.OK:
                said = f"HTTP status {response.status_code} {response.reason or ''}".strip()
                raise OSError(f"{url}: {cleaned(said, 200)}")
            length, size = response.headers.get("Content-Length", ""), 0
            total = int(length) if length.isdigit() else None
            with target.open("wb") as file:
                for chunk in response.iter_content(CHUNK):
                    size += len(chunk)
                    if max(size, total or 0) > LARGEST:
                        raise OSError(f"{url}: more bytes than {LARGEST}")
                    file.write(chunk)
                    if progress is not None:
                        progress(target.name, size, total)
    except requests.RequestException as error:
        if isinstance(error, requests.Timeout) or "timed out" in str(error):
            raise TimeoutError(f"{url}: no answer within {PATIENCE:g} seconds") from None
        reason = cleaned(str(error), 200) or type(error).__name__
        if isinstance(error, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
            reason = "the server cannot be reached, or has cut the connection"
        raise OSError(f"{url}: {reason}") from None
    try:
        _check_opens(target)
    except ValueError as error:
        reason = str(error).partition(": ")[2]
        raise OSError(f"{url}: what was downloaded does not open ({reason})") from None


def _check_opens(path: Path) -> None:
    """Raise a `ValueError` unless the file is a zip whose members are whole."""
    with naming(path), zipfile.ZipFile(path) as archive:
        check_size("unpacked_bytes", sum(member.file_size for member in archive.infolist()))
        if (broken := archive.testzip()) is not None:
            raise ValueError(f"{broken} is broken")


def _of_state(path: Path, state: str) -> Path:
    """A csv beside the zip with the rows of one state."""
    kept, known = list[pd.DataFrame](), set[str]()
    form: Any = {"dtype": str, "keep_default_na": False, "encoding_errors": "replace"}
    with (
        naming(path),
        pd.read_csv(path, chunksize=ROWS_AT_ONCE, on_bad_lines="skip", **form) as chunks,
    ):
        for rows in chunks:
            columns = AIRDATA.match(rows.columns)
            if not {"state", "state_code"} <= set(columns):
                raise ValueError("the csv has no columns State Code and State Name")
            names, codes = rows[columns["state"]], rows[columns["state_code"]]
            known |= set(names + " (" + codes + ")")
            kept.append(rows[of_state(state, names, codes)])
    found = pd.concat(kept)
    if not len(found):
        raise ValueError(
            f"state={state} has no rows in {path.name}, which holds {few(known, most=len(known))}"
        )
    own = str(found[columns["state"]].iloc[0])
    words = re.sub(r"[^0-9a-z]+", "-", own.casefold()).strip("-")
    there = path.with_name(f"{path.stem}_{words}.csv")
    put_in_place(there, lambda draft: found.to_csv(draft, index=False))
    return there
