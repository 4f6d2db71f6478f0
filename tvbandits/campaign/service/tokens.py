"""Who may do what: tokens with roles, of which only hashes are kept."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvbandits.core.coercion import file_path
from tvbandits.core.files.reading import check_regular, naming
from tvbandits.core.files.saving import locked, write_whole

# To look; to tell rewards, answers and what was given up; to ask for points and questions.
ROLES = ("read", "tell", "ask")

PREFIX = "tvb_"
NAME = re.compile(r"[\w.@-]{1,64}")
# Bytes of a file of tokens.
LARGEST = 1_000_000

# Bytes of chance in a token: enough that a fast hash of it cannot be turned round.
_SIZE = 32


@dataclass(frozen=True)
class Holder:
    """Somebody with a token."""

    name: str
    roles: frozenset[str]
    digest: bytes


class Tokens:
    """A file of hashes of tokens. `Tokens.at(path)` reads it, or is empty where there is none.

    A token is 256 bits of chance, shown once, when it is made. The file holds its SHA-256: who reads the
    file cannot speak to the service with it.

    Examples
    --------
    >>> from tvbandits.campaign.service import Tokens
    >>> tokens = Tokens.at("tokens.json")
    >>> token = tokens.new("station.3", ["tell"])  # shown once; the file has its hash
    >>> print(tokens.names, tokens.holder(token).name, tokens.holder("another"))
    ('station.3',) station.3 None
    """

    def __init__(self, path: Path, holders: Iterable[Holder] = ()) -> None:
        self._path = path
        self._holders = tuple(holders)

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Tokens:
        """Read the tokens of a file.

        Raises
        ------
        ValueError
            If the file is not one of tokens, or `path` is no path.
        """
        place = file_path("tokens", path)
        if not place.exists():
            return cls(place)
        with naming(place):
            check_regular(place)
            with place.open("rb") as file:
                return cls(place, _read(file.read(LARGEST + 1)))

    @property
    def names(self) -> tuple[str, ...]:
        """Who has a token."""
        return tuple(each.name for each in self._holders)

    def new(self, name: str, roles: Iterable[str]) -> str:
        """Make a token, and write its hash to the file; the token itself, which is kept nowhere.

        Parameters
        ----------
        name : str
            Of who will have it: letters, digits, ".", "@", "-", "_"; it stands in the journal.
        roles : iterable of str
            Of "read", "tell" and "ask".

        Raises
        ------
        ValueError
            If the name is taken or not a name, or a role is unknown.
        """
        given = frozenset([roles] if isinstance(roles, str) else roles)
        if not NAME.fullmatch(name):
            raise ValueError(f"name must be letters, digits, . @ - or _ (at most 64), got {name!r}")
        if not given or not given <= set(ROLES):
            raise ValueError(f"roles must be of {', '.join(ROLES)}; got {sorted(given)}")
        token = PREFIX + secrets.token_urlsafe(_SIZE)
        with self._alone():
            if name in self.names:
                raise ValueError(f'"{name}" has a token already; take it back first')
            self._write([*self._holders, Holder(name, given, _digest(token))])
        return token

    def take_back(self, name: str) -> None:
        """Make a token worthless. A service that runs notices at once.

        Raises
        ------
        ValueError
            If nobody of that name has one.
        """
        with self._alone():
            if name not in self.names:
                raise ValueError(
                    f'"{name}" has no token; these have: {", ".join(self.names) or "nobody"}'
                )
            self._write([each for each in self._holders if each.name != name])

    def holder(self, token: str) -> Holder | None:
        """Whose token it is; takes as long for a wrong one as for a right one."""
        given = _digest(token[:200])
        # All of them are compared, whoever it is.
        found = [each for each in self._holders if hmac.compare_digest(each.digest, given)]
        return found[-1] if found else None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """While no other process writes to the folder of the file, with the list as it is there now."""
        if not self._path.parent.is_dir():
            raise ValueError(f"there is no folder {str(self._path.parent)!r}")
        with locked(self._path.parent):
            self._holders = Tokens.at(self._path)._holders
            yield

    def _write(self, holders: list[Holder]) -> None:
        said = [
            {"name": each.name, "roles": sorted(each.roles), "sha256": each.digest.hex()}
            for each in holders
        ]
        write_whole(self._path, (json.dumps({"tokens": said}, indent=2) + "\n").encode())
        self._holders = tuple(holders)


def holder_in(path: Path, token: str) -> Holder | None:
    """Whose token it is by a file as it is now; an unreadable one lets nobody in."""
    try:
        return Tokens.at(path).holder(token)
    except (OSError, ValueError):
        return None


def _read(data: bytes) -> list[Holder]:
    """The holders in a file, or a `ValueError`."""
    try:
        if len(data) > LARGEST:
            raise ValueError(f"it is larger than {LARGEST} bytes")
        return [_holder(each) for each in json.loads(data.decode())["tokens"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"it is not a file of tokens: {error}") from error


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _holder(said: Any) -> Holder:
    roles = frozenset(said["roles"])
    digest = bytes.fromhex(said["sha256"])
    if len(digest) != 32 or not roles <= set(ROLES) or not NAME.fullmatch(said["name"]):
        raise ValueError(f"an entry is damaged: {str(said)[:80]}")
    return Holder(said["name"], roles, digest)
