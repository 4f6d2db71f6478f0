"""`Campaign`: a bandit in a database, which several processes share and none of them can lose.

Every call that changes something is checked, done in one's turn and written to the journal; it is on
the disk before the call returns. What is believed is a replay of the journal: a process that opens the
campaign takes the latest snapshot, plays the rows after it again, and is where the others are, to the
last bit. What may ask the expert is written down before it begins, and every answer before it is used:
if the process dies in between, the next one ends what was begun, and pays for no answer on record.
"""

from __future__ import annotations

import getpass
import os
import platform
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.campaign import verbs
from tvbandits.campaign.clock import Clock
from tvbandits.campaign.names import Names
from tvbandits.campaign.records import columns_of
from tvbandits.campaign.shared import Numbered, Refused, SharedBandit, check_names, skip_refused
from tvbandits.campaign.status import PointOut, Status, VerifiedCampaign, summary_of
from tvbandits.campaign.store.errors import reading
from tvbandits.campaign.store.journal import points
from tvbandits.campaign.store.store import Row, Store, check_name, opened
from tvbandits.campaign.times import length_of, number_of, numbers_of
from tvbandits.counts import Counted
from tvbandits.domains.availability import Availability
from tvbandits.domains.candidates import candidates_of
from tvbandits.domains.domain import Context, Domain
from tvbandits.domains.parameters import Named
from tvbandits.experts.protocol import Expert, state_of
from tvbandits.validation import (
    Array,
    as_time,
    check_part,
    file_path,
    flag,
    not_negative,
    of_kind,
    whole_number,
)

if TYPE_CHECKING:
    import pandas as pd

    from tvbandits.bandit.bandit import Bandit
    from tvbandits.bandit.info import Info
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import State

Place = str | os.PathLike[str]

# What else was read, by name.
Outcomes = Mapping[str, ArrayLike] | None


class Campaign:
    """A bandit that outlives its process. Made by `Campaign.create` or `Campaign.open`.

    It has the face of a `Bandit`: `ask`, `tell`, `drop`, `questions`, `answer`, `predict`, `recommend`,
    `pending`, `history`. What changes something takes a `key`, by which a client that lost the reply can
    try again and is counted once.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Campaign, Candidates, policies
    >>> sites = Candidates([[0.0], [1.0], [2.0]])
    >>> bandit = policies.adaptive_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01)
    >>> Campaign.create("campaign.db", bandit).close()
    >>> with Campaign.open("campaign.db") as campaign:  # any process, any number of times
    ...     X = campaign.ask(1, key="ask 1")
    ...     info = campaign.tell(X, [0.4], 1, key="tell 1")
    ...     print(campaign.status.told, campaign.verify().fine)
    1 True
    """

    def __init__(
        self,
        store: Store,
        expert: Expert | None,
        trusted: Mapping[str, Any],
        who: str | None,
        snapshot_every: int,
    ) -> None:
        self._store, self._trusted = store, trusted
        self._who = who or _user()
        self._shared = SharedBandit(store, expert, trusted, snapshot_every)

    def __repr__(self) -> str:
        return f"<Campaign at {self._store.place}>"

    @classmethod
    def create(
        cls,
        place: Place,
        bandit: Bandit,
        *,
        clock: Clock | None = None,
        about: Mapping[str, str] | None = None,
        trusted: Mapping[str, Any] | None = None,
        who: str | None = None,
        patience: float = 30.0,
        snapshot_every: int = 50,
    ) -> Campaign:
        """Begin a campaign.

        Parameters
        ----------
        place : path or URL
            A new file, or an empty database: `postgresql://user@host/database`.
        bandit : Bandit
            As it is now; it is not changed.
        clock : Clock, optional
            Then times may be given as dates, too.
        about : mapping of str to str, optional
            What to keep with it: `names` of the sites (a JSON list); a `title` and the `unit` of a
            reward, for people; `drop_after`, a number: the first `ask` that is so much later drops a
            pending point, and the journal records it.
        trusted, who, patience, snapshot_every
            As for `open`.

        Raises
        ------
        CampaignError
            If there is something at that place already, or it cannot be written.
        ValueError
            If a part of the bandit has no name by which it could be read back.
        """
        from tvbandits.bandit.bandit import Bandit
        from tvbandits.campaign.replay import JournaledExpert, snapshot_of

        of_kind("bandit", bandit, Bandit, "a Bandit, with which a campaign begins")
        if clock is not None:
            of_kind("clock", clock, Clock, "a Clock, or None")
        if about is not None:
            of_kind("about", about, Mapping, "a mapping of names to texts, or None")
        kept = {name: str(value) for name, value in (about or {}).items()}
        length_of(kept.get("drop_after", ""))
        Names(bandit.recipe.domain, kept, "about")
        _check_options(trusted, who, patience, snapshot_every)
        recipe, state = bandit.recipe, bandit.state
        expert = None if recipe.asking is None else recipe.asking.expert
        knowledge = None if expert is None else state_of(JournaledExpert(expert))
        parts = None if clock is None else [clock.unit, clock.origin, clock.origin.tz]
        body = {
            "about": kept,
            "asks": expert is not None,
            "clock": None if parts is None else [*map(str, parts)],
            "status": summary_of(recipe, state),
            "pending": [*zip(state.pending.X.tolist(), state.pending.t.tolist(), strict=True)],
        }
        first = snapshot_of(recipe, state.with_queries(expert=knowledge))
        with opened(place, patience) as store:
            store.create(body, first, who or _user())
            return cls(store, expert, trusted or {}, who, snapshot_every)

    @classmethod
    def open(
        cls,
        place: Place,
        *,
        expert: Expert | None = None,
        trusted: Mapping[str, Any] | None = None,
        who: str | None = None,
        patience: float = 30.0,
        snapshot_every: int = 50,
    ) -> Campaign:
        """Go on with a campaign, at any time, from any process.

        Parameters
        ----------
        place : path or URL
        expert : Expert, optional
            The campaign's expert, if it has one. Whoever only looks needs none.
        trusted : mapping of str to object, optional
            The user's own parts of the bandit, by "module:name".
        who : str, optional
            Who is said to have done what is done; user and host by default.
        patience : float
            Seconds to wait for one's turn to write.
        snapshot_every : int
            Operations from one snapshot to the next.

        Raises
        ------
        NoCampaignError
            If there is none.
        DamagedCampaignError
            If a row is not as it was written.
        """
        _check_options(trusted, who, patience, snapshot_every)
        if expert is not None:
            check_part("expert", expert, "an expert, or None", "query")
        with opened(place, patience) as store:
            store.open()
            campaign = cls(store, expert, trusted or {}, who, snapshot_every)
            campaign._shared.check_rows()
            return campaign

    def __enter__(self) -> Campaign:
        self._store.check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the campaign goes on where it is opened again.

        Whatever is called here afterwards is a `ClosedCampaignError`.
        """
        self._store.close()

    # --- what is looked at

    def predict(
        self,
        X: ArrayLike | Named,
        t: Any = None,
        outcome: str | None = None,
        context: Context = None,
        *,
        relative: bool = False,
    ) -> tuple[Array, Array]:
        """Posterior mean and deviation, as `Bandit.predict`; waits for nobody."""
        with self._shared.read() as replay:
            place, now = self.names.points(X), number_of(self.clock, t)
            return replay.bandit.predict(place, now, outcome, context, relative=relative)

    def recommend(
        self, t: Any = None, available: Availability = None, context: Context = None
    ) -> Array:
        """The point of the best posterior mean, as `Bandit.recommend`."""
        with self._shared.read() as replay:
            now, rows = number_of(self.clock, t), self.names.rows(available)
            return replay.bandit.recommend(now, rows, context)

    @property
    def pending(self) -> Array:
        """Points asked and not yet told, shape (k, d)."""
        X = [x for x, _ in self._shared.outstanding()]
        return np.array(X).reshape(-1, self.domain.dimension)

    @property
    def outstanding(self) -> list[PointOut]:
        """The points of `pending`: place, the time `t` that each is for, and who asked when."""
        return [each for _, each in self._shared.outstanding()]

    @property
    def history(self) -> pd.DataFrame:
        """What was told, answered and asked, as `Bandit.history`; and what was told wrong.

        Sites are named; with a clock `time` is a date, and `t` the number. A reading that was corrected
        or taken back stands there as it was, as "corrected" or "retracted".
        """
        import pandas as pd

        columns = self.history_columns
        if self.clock is not None:
            columns["time"] = self.clock.time(columns["t"])
        return pd.DataFrame(columns)

    @property
    def history_columns(self) -> dict[str, Any]:
        """The columns of `history`, by name; dates are texts."""
        with self._shared.read() as replay:
            changes = self._shared.rows_of("corrected", "retracted")
            columns = columns_of(replay.bandit.recipe, replay.bandit.state, changes)
        return self.names.history(columns, self.clock)

    @property
    def info(self) -> Info:
        """What happened last."""
        with self._shared.read() as replay:
            return replay.bandit.info

    @property
    def state(self) -> State:
        """Everything that is known, as of a bandit with the same expert that nobody stopped."""
        with self._shared.read() as replay:
            state = replay.bandit.state
        memory = state.queries.expert
        return state.with_queries(expert=None if memory is None else memory["inside"])

    @property
    def recipe(self) -> Recipe:
        """The parts of the policy; its expert is the one on record."""
        with self._shared.read() as replay:
            return replay.bandit.recipe

    @property
    def names(self) -> Names:
        """What people call its points."""
        return self._shared.names

    @property
    def domain(self) -> Domain:
        """Where it may play."""
        return self.names.domain

    @property
    def sites(self) -> list[str]:
        """The names of what may be played now; empty on a box or a space."""
        domain, names = candidates_of(self.domain), self.names
        if domain is None:
            return []
        rows = [row for row in range(len(domain)) if row not in domain.retired]
        return [names.name(domain.X[row]) for row in rows]

    @property
    def clock(self) -> Clock | None:
        """The clock by which times may be given as dates."""
        self._store.check_open()
        return self._shared.clock

    @property
    def about(self) -> dict[str, str]:
        """What is kept with it."""
        self._store.check_open()
        return {**self._shared.about}

    def when(self, t: float | None) -> str:
        """A time as people write it."""
        if t is None:
            return "no time yet"
        return self._shared.when(as_time(t))

    @property
    def drop_after(self) -> float | None:
        """In units of time: so long after its time a point is dropped that was asked and never told."""
        return self._shared.drop_after

    @property
    def id(self) -> str:
        """What no other campaign is called; its copies are."""
        return str(self._store.first.body["id"])

    @property
    def budget(self) -> int | None:
        """Questions in all, as the configuration that is kept with it says."""
        with reading(f"{self._store.place}: the field 'config'"):
            config = tomllib.loads(self.about.get("config", ""))
            total = config.get("expert", {}).get("budget")
            return None if total is None else whole_number("budget", total, at_least=0)

    @property
    def status(self) -> Status:
        """At a glance."""
        with self._shared.outline() as outline:
            return outline.status

    def journal(self, since: int = 0) -> list[Row]:
        """The rows after row `since`: what happened, who did it, and when."""
        return [*self._store.rows(whole_number("since", since, at_least=0))]

    def verify(self) -> VerifiedCampaign:
        """Play everything again from the beginning, and compare with what is on record."""
        from tvbandits.campaign.replay import verified

        return verified(self._store, self._shared.asks, self._trusted)

    def backup(self, path: Place) -> None:
        """Copy the campaign to a new file while others go on; an SQLite file only.

        Raises
        ------
        CampaignError
            If there is something at `path`, or beside it what SQLite would take for a part of it; if the
            campaign lies on a server, which has its own tools for that.
        StorageError
            If it cannot be written; nothing is left of it then.
        """
        self._store.backup(file_path("path", path))

    # --- what changes something ------------------------------------------------------------------

    def ask(
        self,
        t: Any = None,
        n: int | None = None,
        available: Availability = None,
        context: Context = None,
        near: float | None = None,
        *,
        without: Sequence[str | int] = (),
        key: str | None = None,
        who: str | None = None,
    ) -> Array:
        """Where to play at time `t`, as `Bandit.ask`; the same points again under the same `key`.

        Sites `without` which it is are not available, by name or row number.

        Raises
        ------
        ConflictError
            If something else was asked under the key.
        BusyError, StorageError
            If it cannot be written now; nothing has happened then, or it is found under the key.
        """
        request = verbs.ask(self.clock, t, n, available, context, near, without)
        return self._points(request, key, who)

    def tell(
        self,
        X: ArrayLike | Named,
        y: ArrayLike | Counted,
        t: Any = None,
        noise_variance: ArrayLike | None = None,
        outcomes: Outcomes = None,
        context: Context = None,
        *,
        key: str | None = None,
        who: str | None = None,
    ) -> Info:
        """Learn rewards, as `Bandit.tell`; the same rewards under the same `key` count once.

        Raises
        ------
        ConflictError
            If other rewards are on record under the key; the message shows both. Without a key, if a
            reading of the same place and time is on record.
        """
        request = verbs.tell(self.clock, X, y, t, noise_variance, outcomes, context)
        return self._info(request, key, who)

    def record(self, readings: Iterable[Mapping[str, Any]], refused: Refused | None = None) -> int:
        """Write rewards down as if `tell` told one after the other, all or none; how many are new.

        With a list as `refused`, readings that cannot be told are left out: their numbers, from 0, and
        what is wrong with each are put there, and the others are told.

        Each reading says by name what `tell` takes. It may also say `counts`: of what it was made, as
        [successes, trials] or [events, exposure]. By these it is known again, though its variance is
        another one once more is counted at its time. What is on record as it is given is passed over.

        All are one transaction, unless the campaign has an expert, which is asked reading by reading:
        what comes before a refused reading stays told then.
        """
        if refused is not None:
            of_kind("refused", refused, list, "a list, or None")
        requests, wrong = list[Numbered](), Refused()
        for number, each in enumerate(readings):
            with skip_refused(wrong, number, refused is not None):
                of_kind("readings", each, Mapping, "mappings by the names of tell")
                said = {**each}
                key, who = (said.pop(name, None) for name in ("key", "who"))
                check_names(key, who or self._who)
                request = verbs.reading(self.clock, said)
                requests.append((number, request, key, who or self._who))
        new = self._shared.do_all(requests, wrong, refused is not None)
        if refused is not None:
            refused += sorted(wrong, key=lambda each: each[0])
        return new

    def correct(
        self,
        X: ArrayLike | Named,
        y: ArrayLike | Counted | None = None,
        t: Any = None,
        noise_variance: ArrayLike | None = None,
        *,
        to: Any = None,
        outcomes: Outcomes = None,
        key: str | None = None,
        who: str | None = None,
    ) -> Info:
        """Put other rewards in the place of those that were told, as `Bandit.correct`.

        The journal keeps both; whoever opens the campaign next computes everything since the last
        snapshot again, and a snapshot is kept now.
        """
        request = verbs.correct(self.clock, X, y, t, noise_variance, to, outcomes)
        return self._info(request, key, who)

    def retract(
        self, X: ArrayLike | Named, t: Any = None, *, key: str | None = None, who: str | None = None
    ) -> Info:
        """Take back what was told, as `Bandit.retract`; the journal keeps both."""
        return self._info(verbs.retract(self.clock, X, t), key, who)

    def drop(self, X: ArrayLike | Named, *, key: str | None = None, who: str | None = None) -> None:
        """Give up on points, as `Bandit.drop`."""
        self._do(verbs.drop(X), key, who)

    def change_sites(
        self,
        add: Mapping[str, ArrayLike | None] | Sequence[str] = (),
        retire: Sequence[str | int] = (),
        *,
        key: str | None = None,
        who: str | None = None,
    ) -> None:
        """Add sites or arms, and retire others, as `Bandit.with_candidates`; rows stay as they are.

        Parameters
        ----------
        add : mapping of names to coordinates, or names
            Coordinates as in the table of sites, degrees where there were such; arms have none, and
            neither have those that come back.
        retire : sequence of names or row numbers

        Raises
        ------
        ValueError
            If there is such a site already, none such to retire, or none would be left.
        """
        self._do(verbs.change_sites(add, retire), key, who)

    def questions(
        self,
        t: Any = None,
        available: Availability = None,
        *,
        key: str | None = None,
        who: str | None = None,
    ) -> Array:
        """What to ask somebody else now, as `Bandit.questions`."""
        return self._points(verbs.questions(self.clock, t, available), key, who)

    def answer(
        self,
        X: ArrayLike | Named,
        values: ArrayLike,
        t: Any = None,
        noise_variance: ArrayLike | None = None,
        *,
        key: str | None = None,
        who: str | None = None,
    ) -> Info:
        """Take answers that somebody brought, as `Bandit.answer`; each `key` counts once."""
        return self._info(verbs.answer(self.clock, X, values, t, noise_variance), key, who)

    def snapshot(self) -> None:
        """Keep a snapshot now, so that opening takes less time."""
        self._shared.keep_snapshot()

    def placed(
        self, X: ArrayLike | Named, context: Context = None, t: Any = None, *, played: bool = False
    ) -> Array:
        """Points of the domain (n, d), given as they are or by name, with their context at a time."""
        flag("played", played)
        times = numbers_of(self.clock, t)
        with self._shared.read() as replay:
            return verbs.points_of(replay.bandit, self.names, X, context, times, played=played)

    def _do(
        self, request: verbs.Request, key: str | None, who: str | None
    ) -> tuple[Row, Info | None]:
        return self._shared.do(request, key, self._who if who is None else who)

    def _points(self, request: verbs.Request, key: str | None, who: str | None) -> Array:
        """Do something once, and return the points that it has got."""
        row, _ = self._do(request, key, who)
        return points(row.body["got"], self.domain.dimension)

    def _info(self, request: verbs.Request, key: str | None, who: str | None) -> Info:
        """Do something once, and return what was known after it, also when it is repeated."""
        row, info = self._do(request, key, who)
        return self._shared.info_after(row) if info is None else info


def _user() -> str:
    return f"{getpass.getuser()}@{platform.node()}"


def _check_options(trusted: object, who: object, patience: object, snapshot_every: object) -> None:
    """Raise a `ValueError` unless a campaign can be opened with these."""
    if trusted is not None:
        of_kind("trusted", trusted, Mapping, 'a mapping of "module:name" to parts, or None')
    if who is not None:
        check_name("who", who)
    not_negative("patience", patience)
    whole_number("snapshot_every", snapshot_every)
