"""Downloading the EPA's annual files of daily ozone, once, into a folder that is checked at each use.

The files are those of https://aqs.epa.gov/aqsweb/airdata/download_files.html, "daily summary data",
ozone (44201). A folder of downloads holds, for each year, `daily_44201_2008.zip`, and `registry.txt`
with the SHA-256 each file had when it was downloaded.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import threading
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pandas as pd
import requests
import urllib3

from tvbandits.core.arrays import flag, positive_number, whole_number
from tvbandits.core.coercion import (
    cleaned,
    file_path,
    function,
    has_controls,
    of_kind,
    several,
    text,
)
from tvbandits.core.files.reading import File, current_limits
from tvbandits.core.files.saving import locked, put_in_place
from tvbandits.datasets.epa_ozone.files import AIRDATA, OZONE
from tvbandits.datasets.tables.columns import few

# --- one file from a server that is not trusted ---------------------------------------------------

Progress = Callable[[str, int, int | None], None]
"""Called with the name of a file, its bytes so far, and its bytes in all, if known."""


PATIENCE = 30.0
"""Seconds without an answer, or without a byte, after which a server has failed."""


CHUNK = 1 << 14
"""Bytes read at once; when a connection is cut, fewer than these are lost."""


@dataclass(frozen=True)
class DownloadLimits:
    """How far a server is trusted.

    Attributes
    ----------
    largest : int
        Bytes of a file; a longer one is given up, and nothing of it is kept.
    seconds : float
        For a whole file, however slowly it comes.
    anywhere : bool
        Whether http, a server of this machine or network, and redirects to other hosts will do.
        Otherwise it is https, from the host that was named, and nowhere else.

    Examples
    --------
    >>> from tvbandits.datasets import DownloadLimits
    >>> print(DownloadLimits(seconds=600.0).seconds)
    600.0
    """

    largest: int = 500_000_000
    seconds: float = 3600.0
    anywhere: bool = False

    def __post_init__(self) -> None:
        whole_number("largest", self.largest)
        positive_number("seconds", self.seconds)
        flag("anywhere", self.anywhere)

    def check(self, url: str, origin: str) -> None:
        """Raise an `OSError` unless `url` is where a file of `origin` may come from."""
        found, named = urlsplit(url), urlsplit(origin)
        where = url if url == origin else f"{origin}: the server sends us to {url}"
        if found.scheme not in ("http", "https") or not found.hostname:
            raise OSError(f"{where}: neither http nor https")
        if self.anywhere:
            return
        if found.scheme != "https":
            raise OSError(
                f"{where}: not https; DownloadLimits(anywhere=True) takes it all the same"
            )
        if (found.hostname, found.port) != (named.hostname, named.port):
            raise OSError(
                f"{origin}: the server sends us to another host, {found.hostname}; "
                "DownloadLimits(anywhere=True) follows"
            )


MOST_REDIRECTS = 5


LONGEST_URL = 4000


ODD = (ValueError, http.client.HTTPException)
"""What else comes of headers that are none: ports, lengths and addresses that nobody can read."""


@dataclass(frozen=True)
class Transfer:
    """A download.

    Parameters
    ----------
    url : str
        What to download; http or https.
    target : Path
        Where to; after an error it may hold a part.
    name : str
        What `progress` calls the file.
    progress : callable, optional
        Called after each chunk.
    limits : DownloadLimits
    """

    url: str
    target: Path
    name: str
    progress: Progress | None = None
    limits: DownloadLimits = DownloadLimits()


def download(transfer: Transfer) -> None:
    """Download a file.

    Raises
    ------
    OSError
        If the server refuses, fails, or stops before the end: one line that names the URL.
        TimeoutError if it does not answer.
    """
    transfer.limits.check(transfer.url, transfer.url)
    deadline = time.monotonic() + transfer.limits.seconds
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with requests.Session() as session:
                _take(transfer, session, deadline)
        except BaseException as error:  # who waits raises it
            failed.append(error)

    # A time-out is of each byte: a server that sends a header, or a handshake, a byte a second, or says
    # "100 Continue" without end, would never be left. The thread ends with its server or the process.
    worker = threading.Thread(target=work, daemon=True, name=transfer.url)
    worker.start()
    worker.join(transfer.limits.seconds)
    if worker.is_alive():
        raise TimeoutError(_too_slow(transfer))
    try:
        for error in failed:
            raise error
    except (requests.RequestException, urllib3.exceptions.HTTPError, EOFError, *ODD) as error:
        if isinstance(error, OSError) and not isinstance(error, requests.RequestException):
            raise
        if time.monotonic() > deadline:
            raise TimeoutError(_too_slow(transfer)) from None
        if isinstance(error, requests.Timeout) or "timed out" in str(error):
            message = f"{transfer.url}: no answer within {PATIENCE:g} seconds"
            raise TimeoutError(message) from None
        raise OSError(f"{transfer.url}: {_reason(error)}") from None


def _take(transfer: Transfer, session: requests.Session, deadline: float) -> None:
    """Ask, and write what comes."""
    with _answer(transfer, session, deadline) as response:
        if response.status_code != HTTPStatus.OK:
            said = f"HTTP status {response.status_code} {response.reason or ''}".strip()
            raise OSError(f"{transfer.url}: {cleaned(said, 200)}")
        total = _length(response)
        _check_length(transfer, total or 0)
        size = 0
        with transfer.target.open("wb") as file:
            for chunk in _chunks(response):
                size += len(chunk)
                _check_length(transfer, size)
                file.write(chunk)
                if time.monotonic() > deadline:
                    raise TimeoutError(_too_slow(transfer))
                if transfer.progress is not None:
                    transfer.progress(transfer.name, size, total)
    if total is not None and size != total:
        raise EOFError(f"the connection ended after {size} of {total} bytes")


def _answer(transfer: Transfer, session: requests.Session, deadline: float) -> requests.Response:
    """The answer of the server, after redirects to where a file may come from."""
    url = transfer.url
    # Bytes as they are: a packed answer has another length.
    headers = {"Accept-Encoding": "identity"}
    for _ in range(MOST_REDIRECTS + 1):
        patience = max(min(PATIENCE, deadline - time.monotonic()), 0.001)
        response = session.get(
            url, headers=headers, stream=True, timeout=patience, allow_redirects=False
        )
        if not response.is_redirect:
            return response
        response.close()
        there = response.headers["Location"]
        if has_controls(there) or len(there) > LONGEST_URL:
            raise OSError(f"{transfer.url}: the server sends us to what is no address")
        url = urljoin(url, there)
        transfer.limits.check(url, transfer.url)
    raise OSError(f"{transfer.url}: more than {MOST_REDIRECTS} redirects")


def _too_slow(transfer: Transfer) -> str:
    return (
        f"{transfer.url}: not whole after {transfer.limits.seconds:g} seconds; "
        "DownloadLimits(seconds=...) waits longer"
    )


def _check_length(transfer: Transfer, size: int) -> None:
    if size > transfer.limits.largest:
        raise OSError(
            f"{transfer.url}: {size} bytes or more, and the limit is {transfer.limits.largest}; "
            "give DownloadLimits(largest=...) to take them"
        )


def _chunks(response: requests.Response) -> Iterator[bytes]:
    """What comes, as it comes: a server that sends a byte a second is not waited for."""
    try:
        while chunk := response.raw.read1(CHUNK, decode_content=True):
            yield chunk
    except urllib3.exceptions.ReadTimeoutError as error:
        raise requests.ReadTimeout(error) from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise requests.exceptions.ChunkedEncodingError(error) from error


def _length(response: requests.Response) -> int | None:
    """Bytes of the body, if that is what the server has said."""
    length = response.headers.get("Content-Length", "")
    packed = response.headers.get("Content-Encoding", "identity") != "identity"
    return int(length) if length.isdigit() and not packed else None


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return str(error)
    if isinstance(error, (*ODD, urllib3.exceptions.HTTPError)) and not isinstance(
        error, requests.RequestException
    ):
        return "the server answers with what is no answer"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection was cut"
    if isinstance(error, requests.ConnectionError):
        return "the server cannot be reached, or has cut the connection"
    return " ".join(str(error).split()) or type(error).__name__


# --------------------------------------------------------------------------------------------------


with warnings.catch_warnings():
    # In a notebook without widgets: of a progress bar that nobody here uses.
    warnings.filterwarnings("ignore", message="IProgress not found")
    import pooch


AIRDATA_URL = "https://aqs.epa.gov/aqsweb/airdata/"
"""Where the EPA serves its annual files."""


CACHE_VARIABLE = "TVBANDITS_CACHE"
"""Environment variable that names the folder of downloads."""


REGISTRY = "registry.txt"
"""Lines "file SHA-256", the form that pooch reads; in the folder of downloads."""


ROWS_AT_ONCE = 100_000
"""Of a year's file, while the rows of a state are looked for."""


FIRST_YEAR = 1980
"""First year of the EPA's annual files."""


def fetch_ozone(
    years: int | Iterable[int],
    *,
    state: str | None = None,
    cache: File | None = None,
    base_url: str = AIRDATA_URL,
    progress: Progress | None = None,
    limits: DownloadLimits = DownloadLimits(),
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
        Folder the zips are downloaded from: the EPA's, or a mirror of it; https, unless `limits` says
        otherwise.
    progress : callable, optional
        Called with file name, bytes so far, and bytes in all (None: not known).
    limits : DownloadLimits
        Size and time of a download, and whether a server other than the one named will do.

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
    of_kind("limits", limits, DownloadLimits, "DownloadLimits(...)")
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
    zips = [_fetched(store, f"daily_{OZONE}_{year}.zip", progress, limits) for year in chosen]
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


def _fetched(
    store: pooch.Pooch, name: str, progress: Progress | None, limits: DownloadLimits
) -> Path:
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
            store.fetch(name, downloader=partial(_download, progress=progress, limits=limits))
        _register(path.parent, name, str(pooch.file_hash(str(path))))
    return path


def _download(
    url: str, output: str, store: pooch.Pooch, *, progress: Progress | None, limits: DownloadLimits
) -> None:
    """Put what `url` serves in the file `output`, which pooch then moves to its place."""
    del store
    target = Path(output)
    download(Transfer(url, target, url.rsplit("/", 1)[-1], progress, limits))
    try:
        _check_opens(target)
    except ValueError as error:
        reason = str(error).partition(": ")[2]
        raise OSError(f"{url}: what was downloaded is {reason}; it has been removed") from None


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
            if sizes > (most := current_limits()).unpacked_bytes:
                raise ValueError(
                    f"{path}: too large unpacked ({sizes} bytes, and the limit is "
                    f"{most.unpacked_bytes}; see reading_limits)"
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
