"""Tokens with roles, which say who may do what; the campaign's database keeps their hashes."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sql

from tvbandits.campaign.store.store import TOKENS, open_store

# To read; to tell rewards and answers, correct and drop; to ask for points and questions.
ROLES = ("read", "tell", "ask")


@dataclass(frozen=True)
class Holder:
    """The holder of a token."""

    name: str
    roles: frozenset[str]


class Tokens:
    """The tokens of a campaign: a table in its database, which every call reads again.

    A token is 256 random bits, shown once, when it is created. The table has its SHA-256: whoever reads
    the database cannot use the service with it.

    Parameters
    ----------
    location : path or URL
        The location of the campaign.

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

    def __init__(self, location: str | os.PathLike[str]) -> None:
        with open_store(location, timeout=30.0) as store:
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
        """Return the names of all holders."""
        return tuple(row.name for row in self._rows(sql.select(TOKENS).order_by(TOKENS.c.name)))

    def new(self, name: str, roles: Iterable[str]) -> str:
        """Create a token and write its hash; the token itself is stored nowhere.

        Parameters
        ----------
        name : str
            The name of the holder, which the journal will show: letters, digits, ".", "@", "-", "_".
        roles : iterable of str
            Of "read", "tell" and "ask".

        Raises
        ------
        ValueError
            If the name has a token already or is not a name, or a role is unknown.
        """
        roles = {roles} if isinstance(roles, str) else {*roles}
        if not re.fullmatch(r"[\w.@-]{1,64}", name):
            raise ValueError(f"name must be letters, digits, . @ - or _ (at most 64), got {name!r}")
        if not roles or not roles <= {*ROLES}:
            raise ValueError(f"roles must be of {', '.join(ROLES)}; got {sorted(roles)}")
        token = f"tvb_{secrets.token_urlsafe(32)}"
        row = {"name": name, "roles": " ".join(sorted(roles)), "sha256": _digest(token)}
        with self._store.connect(writes=True) as connection:
            TOKENS.create(connection, checkfirst=True)
            query = sql.select(TOKENS.c.name).where(TOKENS.c.name == name)
            if connection.execute(query).first() is not None:
                raise ValueError(f'"{name}" has a token already; revoke it first')
            connection.execute(TOKENS.insert(), [row])
        return token

    def revoke(self, name: str) -> None:
        """Revoke a token: every service refuses it from the next request on.

        Raises
        ------
        ValueError
            If nobody of that name has a token.
        """
        names = self.names
        if name not in names:
            raise ValueError(f'"{name}" has no token; these have: {", ".join(names) or "nobody"}')
        with self._store.connect(writes=True) as connection:
            connection.execute(TOKENS.delete().where(TOKENS.c.name == name))

    def holder(self, token: str) -> Holder | None:
        """Return the holder of a token, or None if there is none."""
        query = sql.select(TOKENS).where(TOKENS.c.sha256 == _digest(token))
        for row in self._rows(query):
            return Holder(row.name, frozenset(row.roles.split()))
        return None

    def _rows(self, query: sql.Select[tuple[str, str, str]]) -> list[sql.Row[tuple[str, str, str]]]:
        """Return rows of the table, which exists from the first token on."""
        with self._store.connect() as connection:
            exists = sql.inspect(connection).has_table(TOKENS.name)
            return [*connection.execute(query)] if exists else []


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
