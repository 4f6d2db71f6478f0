"""Who may do what: tokens with roles, of which the campaign's database keeps hashes."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sql

from tvbandits.campaign.store.store import TOKENS, opened

# To look; to tell rewards, answers and what was given up; to ask for points and questions.
ROLES = ("read", "tell", "ask")

PREFIX = "tvb_"
NAME = re.compile(r"[\w.@-]{1,64}")

# Bytes of chance in a token: enough that a fast hash of it cannot be turned round.
SIZE = 32


@dataclass(frozen=True)
class Holder:
    """Somebody with a token."""

    name: str
    roles: frozenset[str]


class Tokens:
    """The tokens of a campaign: a table in its database, which every call reads again.

    A token is 256 bits of chance, shown once, when it is made. The table holds its SHA-256: who reads
    the database cannot speak to the service with it.

    Parameters
    ----------
    place : path or URL
        Of the campaign.

    Raises
    ------
    NoCampaignError
        If there is no campaign.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Campaign, Candidates, policies
    >>> from tvbandits.campaign.service import Tokens
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    >>> Campaign.create("campaign.db", bandit).close()
    >>> with Tokens("campaign.db") as tokens:
    ...     token = tokens.new("station.3", ["tell"])  # shown once; the database has its hash
    ...     print(tokens.names, tokens.holder(token).name, tokens.holder("another"))
    ('station.3',) station.3 None
    """

    def __init__(self, place: str | os.PathLike[str]) -> None:
        with opened(place, patience=30.0) as store:
            store.open()
        self._store = store

    def __enter__(self) -> Tokens:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._store.close()

    @property
    def names(self) -> tuple[str, ...]:
        """Who has a token."""
        return tuple(row.name for row in self._rows(sql.select(TOKENS).order_by(TOKENS.c.name)))

    def new(self, name: str, roles: Iterable[str]) -> str:
        """Make a token and keep its hash; the token itself is kept nowhere.

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
        wanted = {roles} if isinstance(roles, str) else {*roles}
        if not NAME.fullmatch(name):
            raise ValueError(f"name must be letters, digits, . @ - or _ (at most 64), got {name!r}")
        if not wanted or not wanted <= {*ROLES}:
            raise ValueError(f"roles must be of {', '.join(ROLES)}; got {sorted(wanted)}")
        token = PREFIX + secrets.token_urlsafe(SIZE)
        row = {"name": name, "roles": " ".join(sorted(wanted)), "sha256": _digest(token)}
        with self._connected(writes=True) as connection:
            TOKENS.create(connection, checkfirst=True)
            there = connection.execute(sql.select(TOKENS.c.name).where(TOKENS.c.name == name))
            if there.first() is not None:
                raise ValueError(f'"{name}" has a token already; revoke it first')
            connection.execute(TOKENS.insert(), [row])
        return token

    def revoke(self, name: str) -> None:
        """Make a token worthless: every service refuses it from the next request on.

        Raises
        ------
        ValueError
            If nobody of that name has one.
        """
        known = self.names
        if name not in known:
            raise ValueError(f'"{name}" has no token; these have: {", ".join(known) or "nobody"}')
        with self._connected(writes=True) as connection:
            connection.execute(TOKENS.delete().where(TOKENS.c.name == name))

    def holder(self, token: str) -> Holder | None:
        """Whose token it is now; None if it is nobody's."""
        wanted = sql.select(TOKENS).where(TOKENS.c.sha256 == _digest(token))
        for row in self._rows(wanted):
            return Holder(row.name, frozenset(row.roles.split()))
        return None

    def _rows(
        self, wanted: sql.Select[tuple[str, str, str]]
    ) -> list[sql.Row[tuple[str, str, str]]]:
        """What the table has; nothing where nobody has had a token yet."""
        with self._connected() as connection:
            there = sql.inspect(connection).has_table(TOKENS.name)
            return [*connection.execute(wanted)] if there else []

    @contextmanager
    def _connected(self, writes: bool = False) -> Iterator[sql.Connection]:
        """A connection in a transaction; errors of the database are those of a campaign."""
        self._store.check_open()
        engine = self._store.place.engine.execution_options(writes=writes)
        with self._store.naming(), engine.begin() as connection:
            yield connection


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
