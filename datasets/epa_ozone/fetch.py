"""Downloading the EPA's annual files of daily ozone, once, into a folder that is checked at each use.

The files are those of https://aqs.epa.gov/aqsweb/airdata/download_files.html, "daily summary data",
ozone (44201). A folder of downloads holds, for each year, `daily_44201_2008.zip`, and `registry.txt`
with the SHA-256 each file had when it was downloaded.
"""

from __future__ import annotations

import re
import warnings
import zipfile
import zlib
from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path

import requests

from tvbandits.core.arrays import whole_number
from tvbandits.core.coercion import cleaned, file_path, several, text
from tvbandits.core.files.reading import File, limit_of
from tvbandits.core.files.saving import locked, put_in_place
from tvbandits.datasets.epa_ozone.files import OZONE

with warnings.catch_warnings():
    # In a notebook without widgets: of a progress bar that nobody here uses.
    warnings.filterwarnings("ignore", message="IProgress not found")
    import pooch


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


# First year of the EPA's annual files.
FIRST_YEAR = 1980


def fetch_ozone(
    years: int | Iterable[int],
    *,
    cache: File | None = None,
    base_url: str = AIRDATA_URL,
) -> list[Path]:
    """Download the EPA's daily ozone of some years, unless it is there, for `ozone`.

    The SHA-256 of a file is written down when it is downloaded, and verified at each later use. A
    download that is cut short leaves nothing. To get a newer edition of a year, delete its zip. Several
    processes may share a folder.

    Parameters
    ----------
    years : int, or several
        From 1980 on; a year given twice counts once.
    cache : path, optional
        Folder of downloads, made if it is not there. None: the environment variable TVBANDITS_CACHE,
        or the user's cache folder.
    base_url : str
        Folder the zips are downloaded from: the EPA's, or a mirror of it.

    Returns
    -------
    list of Path
        The zip of each year, with all states; `ozone` has a parameter for one of them.

    Raises
    ------
    ValueError
        If a year cannot be, the cache is no folder, or a file has changed since it was downloaded.
    OSError
        If a download fails, or what comes is not a zip that opens; it names the URL. TimeoutError if
        the server does not answer.
    """
    chosen = _checked_years(years)
    if not re.match(r"https?://[^/]", text("base_url", base_url)):
        raise ValueError(f"base_url must begin with http:// or https://, got {base_url!r}")
    given = None if cache is None else file_path("cache", cache)
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
    return [_fetched(store, f"daily_{OZONE}_{year}.zip") for year in chosen]


def _checked_years(years: int | Iterable[int]) -> list[int]:
    needs = "a year, or several"
    given = several("years", years, needs) if isinstance(years, Iterable) else [years]
    chosen = [
        whole_number("each of years", year, at_least=FIRST_YEAR, at_most=9999) for year in given
    ]
    if not chosen:
        raise ValueError("years must name at least one year, got none")
    return list(dict.fromkeys(chosen))


def _fetched(store: pooch.Pooch, name: str) -> Path:
    """The file of that name, as it was when it was downloaded."""
    path = Path(store.path) / name
    # One process at a time: who waits for a download finds it done.
    with locked(path.parent):
        registry = path.parent / REGISTRY
        if registry.exists():
            store.load_registry(registry)
        if path.exists() and name in store.registry:
            _verify(path, store.registry[name])
            return path
        # Of a file that was put there by hand nothing is known yet.
        known = {**store.registry}
        store.registry[name] = None
        if path.exists():
            _check_opens(path)
        store.fetch(name, downloader=_download)
        known[name] = str(pooch.file_hash(str(path)))
        text = "".join(f"{each} {known[each]}\n" for each in sorted(known))
        put_in_place(registry, lambda draft: draft.write_text(text, encoding="utf-8"))
    return path


def _download(url: str, output: str, store: pooch.Pooch) -> None:
    """Put what `url` serves in the file `output`, which pooch then moves to its place."""
    del store
    target, size = Path(output), 0
    # Bytes as they are: a packed answer has another length.
    headers = {"Accept-Encoding": "identity"}
    try:
        with (
            requests.get(url, headers=headers, stream=True, timeout=PATIENCE) as response,
            target.open("wb") as file,
        ):
            if response.status_code != HTTPStatus.OK:
                said = f"HTTP status {response.status_code} {response.reason or ''}".strip()
                raise OSError(f"{url}: {cleaned(said, 200)}")
            # `requests` says if less comes than the server has promised.
            for chunk in response.iter_content(CHUNK):
                size += len(chunk)
                if size > LARGEST:
                    raise OSError(f"{url}: more bytes than {LARGEST}")
                file.write(chunk)
    except requests.RequestException as error:
        if isinstance(error, requests.Timeout) or "timed out" in str(error):
            raise TimeoutError(f"{url}: no answer within {PATIENCE:g} seconds") from None
        raise OSError(f"{url}: {_reason(error)}") from None
    try:
        _check_opens(target)
    except ValueError as error:
        reason = str(error).partition(": ")[2]
        raise OSError(f"{url}: what was downloaded is {reason}; it has been removed") from None


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection was cut"
    if isinstance(error, requests.ConnectionError):
        return "the server cannot be reached, or has cut the connection"
    return " ".join(str(error).split()) or type(error).__name__


def _verify(path: Path, known: str) -> None:
    found = str(pooch.file_hash(str(path)))
    if found != known:
        raise ValueError(
            f"{path}: the file has changed since it was downloaded (its SHA-256 is {found[:12]}..., "
            f"and was {known[:12]}...); delete it to download it again"
        )


def _check_opens(path: Path) -> None:
    """Raise a `ValueError` unless the file is a zip whose members are whole."""
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = sum(member.file_size for member in archive.infolist())
            if sizes > (most := limit_of("unpacked_bytes")):
                raise ValueError(
                    f"{path}: too large unpacked ({sizes} bytes, and the limit is {most}; "
                    "TVBANDITS_READ_UNPACKED_BYTES is another one)"
                )
            broken = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        raise ValueError(f"{path}: not a zip archive that opens") from None
    if broken is not None:
        raise ValueError(f"{path}: not a zip archive that opens ({broken} is broken)")
