"""Downloading the EPA's annual files of daily ozone, once, into a folder that is checked at each use.

The files are those of https://aqs.epa.gov/aqsweb/airdata/download_files.html, "daily summary data",
ozone (44201). A folder of downloads holds, for each year, `daily_44201_2008.zip`, and `registry.txt`
with the SHA-256 each file had when it was downloaded.
"""

from __future__ import annotations

import contextlib
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pandas as pd
import requests

from tvbandits.core.arrays import whole_number
from tvbandits.core.coercion import (
    cleaned,
    file_path,
    function,
    several,
    text,
)
from tvbandits.core.files.reading import File, limit_of
from tvbandits.core.files.saving import locked, put_in_place
from tvbandits.datasets.epa_ozone.files import AIRDATA, OZONE
from tvbandits.datasets.tables.columns import few

with warnings.catch_warnings():
    # In a notebook without widgets: of a progress bar that nobody here uses.
    warnings.filterwarnings("ignore", message="IProgress not found")
    import pooch


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
    if state is not None:
        text("state", state)
    if progress is not None:
        function("progress", progress, "a function of a name and two numbers, or None")
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
    zips = [_fetched(store, f"daily_{OZONE}_{year}.zip", progress) for year in chosen]
    return zips if state is None else [_of_state(path, state) for path in zips]


def _checked_years(years: int | Iterable[int]) -> list[int]:
    needs = "a year, or several"
    given = several("years", years, needs) if isinstance(years, Iterable) else [years]
    chosen = [
        whole_number("each of years", year, at_least=FIRST_YEAR, at_most=9999) for year in given
    ]
    if not chosen:
        raise ValueError("years must name at least one year, got none")
    return list(dict.fromkeys(chosen))


def _fetched(store: pooch.Pooch, name: str, progress: Progress | None) -> Path:
    """The file of that name, as it was when it was downloaded."""
    path = Path(store.path) / name
    # One process at a time: who waits for a download finds it done.
    with locked(path.parent):
        known = _registry(path.parent)
        if path.exists() and name in known:
            _verify(path, known[name])
            return path
        # Of a file that was put there by hand nothing is known yet.
        store.registry[name] = None
        if path.exists():
            _check_opens(path)
        with _quiet():
            store.fetch(name, downloader=partial(_download, progress=progress))
        _register(path.parent, name, str(pooch.file_hash(str(path))))
    return path


def _download(url: str, output: str, store: pooch.Pooch, *, progress: Progress | None) -> None:
    """Put what `url` serves in the file `output`, which pooch then moves to its place."""
    del store
    target = Path(output)
    # Bytes as they are: a packed answer has another length.
    headers = {"Accept-Encoding": "identity"}
    try:
        with requests.get(url, headers=headers, stream=True, timeout=PATIENCE) as response:
            if response.status_code != HTTPStatus.OK:
                said = f"HTTP status {response.status_code} {response.reason or ''}".strip()
                raise OSError(f"{url}: {cleaned(said, 200)}")
            _write(response, url, target, progress)
    except requests.RequestException as error:
        if isinstance(error, requests.Timeout) or "timed out" in str(error):
            raise TimeoutError(f"{url}: no answer within {PATIENCE:g} seconds") from None
        raise OSError(f"{url}: {_reason(error)}") from None
    try:
        _check_opens(target)
    except ValueError as error:
        reason = str(error).partition(": ")[2]
        raise OSError(f"{url}: what was downloaded is {reason}; it has been removed") from None


def _write(response: requests.Response, url: str, target: Path, progress: Progress | None) -> None:
    """Write what comes; `requests` says if it is less than the server has promised."""
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isdigit() else None
    size = 0
    with target.open("wb") as file:
        for chunk in response.iter_content(CHUNK):
            size += len(chunk)
            if max(size, total or 0) > LARGEST:
                raise OSError(f"{url}: more bytes than {LARGEST}")
            file.write(chunk)
            if progress is not None:
                progress(url.rsplit("/", 1)[-1], size, total)


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


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep pooch from announcing downloads: that is up to `progress`."""
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")
    try:
        yield
    finally:
        logger.setLevel(level)


def _registry(folder: Path) -> dict[str, str]:
    """SHA-256 of each file that was downloaded."""
    path = folder / REGISTRY
    if not path.exists():
        return {}
    known = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, sha256 = line.partition(" ")
        if not re.fullmatch("[0-9a-f]{64}", sha256.strip()):
            raise ValueError(f'{path}: expected "FILE SHA-256" in each line, got "{line[:80]}"')
        known[name] = sha256.strip()
    return known


def _register(folder: Path, name: str, sha256: str) -> None:
    known = {**_registry(folder), name: sha256}
    text = "".join(f"{each} {known[each]}\n" for each in sorted(known))
    put_in_place(folder / REGISTRY, lambda draft: draft.write_text(text, encoding="utf-8"))


def _of_state(path: Path, state: str) -> Path:
    """A csv beside the zip with the rows of one state."""
    wanted = state.strip().casefold()
    kept, known = list[pd.DataFrame](), set[str]()
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if name.lower().endswith(".csv")]
        if len(members) != 1:
            raise ValueError(
                f"{path}: expected one csv in the zip, got {few(archive.namelist()) or 'nothing'}"
            )
        form: Any = {"dtype": str, "keep_default_na": False, "encoding_errors": "replace"}
        with (
            archive.open(members[0]) as file,
            pd.read_csv(file, chunksize=ROWS_AT_ONCE, on_bad_lines="skip", **form) as chunks,
        ):
            for rows in chunks:
                columns = AIRDATA.match([str(name) for name in rows])
                if not {"state", "state_code"} <= set(columns):
                    raise ValueError(f"{path}: the csv has no columns State Code and State Name")
                names, codes = rows[columns["state"]], rows[columns["state_code"]]
                known |= set(names + " (" + codes + ")")
                named = names.str.strip().str.casefold() == wanted
                kept.append(rows[codes == wanted.zfill(2) if wanted.isdigit() else named])
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
