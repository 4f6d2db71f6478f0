"""`Campaign`: a bandit in a database, which several processes share and which no crash can lose.

A call that changes something is checked, performed while the process holds the write lock, and written
to the journal; it is on the disk before the call returns. The state is a replay of the journal: a
process that opens the campaign reads the latest snapshot, replays the rows after it, and has the same
state as all others, to the last bit. An operation that may query the expert is announced in the journal,
and every answer is written before it is used: if the process dies in between, the next one completes the
operation, and pays for no answer twice.
"""

from __future__ import annotations

import getpass
import os
import platform
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tvbandits.campaign import verbs
from tvbandits.campaign.names import Names, check_sites
from tvbandits.campaign.records import history_with_changes
from tvbandits.campaign.shared import (
    Errors,
    NumberedRequest,
    SharedBandit,
    Withdrawn,
    check_key_and_name,
    collect_errors,
)
from tvbandits.campaign.status import PendingPoint, Status, Verification, bandit_summary
from tvbandits.campaign.store.errors import report_damage
from tvbandits.campaign.store.store import Row, Store, check_name, open_store, to_points
from tvbandits.clock import Clock, parse_duration, to_number, to_numbers
from tvbandits.counts import Counted
from tvbandits.domains.availability import Availability
from tvbandits.domains.candidates import get_candidates
from tvbandits.domains.domain import Context, Domain
from tvbandits.domains.parameters import Named
from tvbandits.validation import (
    Array,
    as_bool,
    as_floats,
    as_list,
    as_time,
    as_times,
    as_vector,
    check_instance,
    check_part,
    file_path,
    nonnegative_number,
    whole_number,
)

if TYPE_CHECKING:
    import pandas as pd

    from tvbandits.bandit.bandit import Bandit
    from tvbandits.bandit.info import Info
    from tvbandits.bandit.recipe import Recipe
    from tvbandits.bandit.state import State
    from tvbandits.campaign.doubts import Doubts
    from tvbandits.experts.protocol import Expert

Location = str | os.PathLike[str]

# Keys that are looked up at a time: a database takes so many values in a query.
MOST_KEYS = 5000

# Readings of further outcomes, by name.
Outcomes = Mapping[str, ArrayLike] | None


class Choice(NamedTuple):
    """The points (b, d) to play, and the silent sites that were left out, each with the reason."""

    points: Array
    left_out: dict[str, str]


class Campaign:
    """A bandit that outlives its process. Use `Campaign.create` or `Campaign.open`.

    It has the methods of a `Bandit`: `ask`, `tell`, `drop`, `questions`, `answer`, `predict`,
    `recommend`, `pending`, `history`. A method that changes something takes a `key`: a client that has
    lost the reply can repeat the call, and it counts once.

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
    ...     print(campaign.status.readings, campaign.verify().consistent)
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
        return f"<Campaign at {self._store}>"

    @classmethod
    def create(
        cls,
        location: Location,
        bandit: Bandit,
        *,
        clock: Clock | None = None,
        about: Mapping[str, str] | None = None,
        trusted: Mapping[str, Any] | None = None,
        who: str | None = None,
        timeout: float = 30.0,
        snapshot_every: int = 50,
    ) -> Campaign:
        """Start a campaign.

        Parameters
        ----------
        location : path or URL
            A new file, or an empty database: `postgresql://user@host/database`.
        bandit : Bandit
            The bandit at the start; it is not changed.
        clock : Clock, optional
            With a clock, times may also be given as dates.
        about : mapping of str to str, optional
            Texts of the campaign: `names` of the sites (a JSON list); a `title` and the `unit`
            of a reward, for people; `drop_after`, a number: an `ask` drops points that have been pending
            for longer, and the journal records it.
        trusted, who, timeout, snapshot_every
            As for `open`.

        Raises
        ------
        CampaignError
            If that location is not empty, or the package cannot write there.
        ValueError
            If a part of the bandit has no name by which `open` could import it.
        """
        from tvbandits.bandit.bandit import Bandit
        from tvbandits.campaign.replay import JournaledExpert, snapshot_data
        from tvbandits.experts.protocol import state_of

        check_instance("bandit", bandit, Bandit, "a Bandit, with which a campaign starts")
        if clock is not None:
            check_instance("clock", clock, Clock, "a Clock, or None")
        if about is not None:
            check_instance("about", about, Mapping, "a mapping of names to texts, or None")
        about = {name: str(value) for name, value in (about or {}).items()}
        parse_duration(about.get("drop_after", ""))
        names = Names(bandit.recipe.domain, about, "about")
        if "names" in about:
            check_sites("names of sites", names.sites)
        _check_options(trusted, who, timeout, snapshot_every)
        recipe, state = bandit.recipe, bandit.state
        expert = None if recipe.query_config is None else recipe.query_config.expert
        expert_state = None if expert is None else state_of(JournaledExpert(expert))
        parts = None if clock is None else [clock.unit, clock.origin, clock.origin.tz]
        body = {
            "about": about,
            "has_expert": expert is not None,
            "clock": None if parts is None else [*map(str, parts)],
            "status": bandit_summary(recipe, state),
            "pending": [*zip(state.pending.X.tolist(), state.pending.t.tolist(), strict=True)],
        }
        state = state.with_queries(expert=expert_state)
        snapshot = snapshot_data(recipe, state)
        with open_store(location, timeout) as store:
            store.create(body, snapshot, who or _user())
            return cls(store, expert, trusted or {}, who, snapshot_every)

    @classmethod
    def open(
        cls,
        location: Location,
        *,
        expert: Expert | None = None,
        trusted: Mapping[str, Any] | None = None,
        who: str | None = None,
        timeout: float = 30.0,
        snapshot_every: int = 50,
    ) -> Campaign:
        """Open a campaign, at any time, from any process.

        Parameters
        ----------
        location : path or URL
        expert : Expert, optional
            The campaign's expert, if it has one; needed only to ask and to tell.
        trusted : mapping of str to object, optional
            The user's own parts of the bandit, by "module:name".
        who : str, optional
            Your name in the journal; user and host by default.
        timeout : float
            Seconds to wait for other writers.
        snapshot_every : int
            Rows from one snapshot to the next.

        Raises
        ------
        NoCampaignError
            If there is none.
        DamagedCampaignError
            If somebody has changed a row.
        """
        _check_options(trusted, who, timeout, snapshot_every)
        if expert is not None:
            check_part("expert", expert, "an expert, or None", "query")
        with open_store(location, timeout) as store:
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
        """Close the connections. Every later call on this object is a `ClosedCampaignError`."""
        self._store.close()

    # --- reading ---------------------------------------------------------------------------------

    def predict(
        self,
        X: ArrayLike | Named,
        t: Any = None,
        outcome: str | None = None,
        context: Context = None,
        *,
        relative: bool = False,
    ) -> tuple[Array, Array]:
        """Return the posterior mean and deviation, as `Bandit.predict`, without waiting for writers."""
        with self._shared.predictor() as bandit:
            points, now = self.names.points(X), to_number(self.clock, t)
            return bandit.predict(points, now, outcome, context, relative=relative)

    def recommend(
        self, t: Any = None, available: Availability = None, context: Context = None
    ) -> Array:
        """Return the point with the best posterior mean, as `Bandit.recommend`."""
        with self._shared.predictor() as bandit:
            now, rows = to_number(self.clock, t), self.names.rows(available)
            return bandit.recommend(now, rows, context)

    @property
    def pending(self) -> Array:
        """Return the pending points, shape (k, d)."""
        X = [x for x, _ in self._shared.pending()]
        return np.array(X).reshape(-1, self.domain.dimension)

    @property
    def pending_points(self) -> list[PendingPoint]:
        """Return the pending points with names, their times `t`, and who asked for them when."""
        return [point for _, point in self._shared.pending()]

    @property
    def history(self) -> pd.DataFrame:
        """Return all rewards, answers and pending points, as `Bandit.history`, and old readings.

        Sites have their names; with a clock `time` is a date, and `t` the number. A reading or answer
        that was corrected or retracted is also there as it was, of kind "corrected" or "retracted".
        """
        import pandas as pd

        columns = self.history_columns
        if self.clock is not None:
            columns["time"] = self.clock.time(columns["t"])
        return pd.DataFrame(columns)

    @property
    def history_columns(self) -> dict[str, Any]:
        """Return the columns of `history` by name, with dates as texts."""
        with self._shared.read() as replay:
            changes = self._shared.rows_of("correct", "correct_answers", "retract")
            columns = history_with_changes(replay.bandit.recipe, replay.bandit.state, changes)
        return self.names.history(columns, self.clock)

    @property
    def info(self) -> Info:
        """Return the bandit's info after the latest operation."""
        with self._shared.read() as replay:
            return replay.bandit.info

    @property
    def state(self) -> State:
        """Return the state of the bandit, as if it had never been stopped."""
        with self._shared.read() as replay:
            state = replay.bandit.state
        expert = state.queries.expert
        return state.with_queries(expert=None if expert is None else expert["inside"])

    @property
    def recipe(self) -> Recipe:
        """Return the recipe of the policy, whose expert answers from the journal."""
        with self._shared.read() as replay:
            return replay.bandit.recipe

    @property
    def doubtful_sites(self) -> dict[str, str]:
        """Return a text for each site that is silent, stuck or stands out, by its name.

        One that stands out is not named again once somebody confirms it (`change_sites`), until it is
        off by another amount. Sites are compared at the times at which at least half of all are read;
        where there are none, with the readings of other sites that are nearest in time
        (`tvbandits.campaign.gauges`).
        """
        from tvbandits.campaign.gauges import doubts_about_gauges

        if not self.sites:
            return {}
        with self._shared.outline() as outline:
            confirmed = {**outline.confirmed}
        readings, minimize = self.state.readings, self.recipe.minimize
        doubts = doubts_about_gauges(readings, minimize, self.names.name, confirmed)
        active = {*self.sites}
        doubts = doubts | self._shared.silent_sites
        return {name: text for name, text in doubts.items() if name in active}

    @property
    def names(self) -> Names:
        """Return the names of points and sites."""
        return self._shared.names

    @property
    def domain(self) -> Domain:
        """Return the domain of the bandit."""
        return self.names.domain

    @property
    def sites(self) -> list[str]:
        """Return the names of the sites that are not retired; none on a box or a space."""
        candidates, names = get_candidates(self.domain), self.names
        return [] if candidates is None else [names.name(x) for x in candidates.active]

    @property
    def clock(self) -> Clock | None:
        """Return the clock, by which times may be dates; None if times are numbers."""
        self._store.check_open()
        return self._shared.clock

    @property
    def about(self) -> dict[str, str]:
        """Return the texts that are stored with the campaign."""
        self._store.check_open()
        return {**self._shared.about}

    def format_time(self, t: float) -> str:
        """Return a time as text: a date if there is a clock."""
        return self._shared.format_time(as_time(t))

    @property
    def drop_after(self) -> float | None:
        """Return the time after which a pending point is dropped; None for never."""
        return self._shared.drop_after

    @property
    def id(self) -> str:
        """Return a text that identifies the campaign and its copies."""
        return str(self._store.first.body["id"])

    @property
    def budget(self) -> int | None:
        """Return the budget of expert queries in the stored configuration."""
        with report_damage(f"{self._store}: the field 'config'"):
            config = tomllib.loads(self.about.get("config", ""))
            total = config.get("expert", {}).get("budget")
            return None if total is None else whole_number("budget", total, at_least=0)

    @property
    def status(self) -> Status:
        """Return the status, which needs no bandit."""
        with self._shared.outline() as outline:
            return outline.status

    def journal(self, since: int = 0) -> list[Row]:
        """Return the rows after row `since`: what happened, who did it, and when."""
        return [*self._store.rows(whole_number("since", since, at_least=0))]

    def verify(self) -> Verification:
        """Replay the journal from its start, and compare every result and snapshot."""
        from tvbandits.campaign.replay import verify

        return verify(self._store, self._shared.has_expert, self._trusted)

    def backup(self, path: Location) -> None:
        """Copy an SQLite file to a new file, while other processes may use the campaign.

        Raises
        ------
        CampaignError
            If there is something at `path`, or beside it a file that SQLite would take for a part of it;
            if the campaign is on a server, which has its own tools for that.
        StorageError
            If the copy cannot be written; nothing of it remains then.
        """
        self._store.backup(file_path("path", path))

    # --- writing ---------------------------------------------------------------------------------

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
        """Return the points to play at time `t`, as `Bandit.ask`; the same `key` gives the same points.

        The sites in `without`, names or row numbers, are not available. A silent site is left out
        (`choose`), unless `available` names it, all are silent, or fewer than `n` would be left.

        Raises
        ------
        ConflictError
            If another request has the key.
        BusyError, StorageError
            If it cannot be written now. Then nothing has happened, or the key has its result.
        """
        return self.choose(t, n, available, context, near, without=without, key=key, who=who).points

    def choose(
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
    ) -> Choice:
        """Return the points to play, as `ask`, and the silent sites that were left out.

        A site is silent if the readings of the last four times that were asked for did not come. It
        comes back with its next reading: name it in `available` to ask for one.
        """
        request = verbs.ask(self.clock, t, n, available, context, near, without)
        row, _ = self._execute(request, key, who)
        points = to_points(row.body["result"], self.domain.dimension)
        return Choice(points, {**row.arguments.get("left_out", {})})

    def tell(
        self,
        X: ArrayLike | Named,
        y: ArrayLike | Counted,
        t: Any = None,
        noise_variance: ArrayLike | None = None,
        outcomes: Outcomes = None,
        context: Context = None,
        *,
        sure: bool = False,
        key: str | None = None,
        who: str | None = None,
    ) -> Info:
        """Report rewards, as `Bandit.tell`; the same rewards under the same `key` count once.

        A reading that is beyond belief, far from all others or from the past of its place and from the
        prediction, or far in the future, is refused with the whole call unless you are `sure` of it. A
        `robust` bandit takes the value, and sets it aside by itself.

        Raises
        ------
        DoubtfulReadingError
            If a reading is beyond belief: the error has its `row`, `site` and `value`, and what is
            `usual`.
        ConflictError
            If another request has the key; the message shows both. Without a key, if there is a reading
            of the same place and time, or the same one was retracted or moved.
        """
        request = verbs.tell(self.clock, X, y, t, noise_variance, outcomes, context, sure=sure)
        return self._info(request, key, who)

    def record(
        self,
        readings: Iterable[Mapping[str, Any]],
        errors: Errors | None = None,
        withdrawn: Withdrawn | None = None,
    ) -> int:
        """Write rewards as if `tell` told one after the other, all or none; return how many are new.

        With a list of `errors`, the method leaves out readings with an error, appends the number of
        each, from 0, and its error to the list, and tells the others. What is beyond belief is recorded,
        too: `doubts` finds it before.

        Each reading has the arguments of `tell` by name. It may also have `counts`, [successes, trials]
        or [events, exposure], from which its rate was computed; the counts then identify it, since its
        variance changes with other counts of its time.

        Readings that are in the journal are skipped, also those that were corrected, retracted or moved
        since: a list `withdrawn` gets the number of each that was retracted or moved, and what became of
        it. A `key` brings one back.

        All readings are one transaction. A campaign with an expert asks it after each reading; there the
        readings before one with an error stay in the journal.
        """
        check_instance("readings", readings, Iterable, "mappings by the names of tell")
        if errors is not None:
            check_instance("errors", errors, list, "a list, or None")
        if withdrawn is not None:
            check_instance("withdrawn", withdrawn, list, "a list, or None")
        requests = list[NumberedRequest]()
        new_errors: Errors | None = None if errors is None else []
        for number, reading in enumerate(readings):
            with collect_errors(new_errors, number):
                check_instance("readings", reading, Mapping, "mappings by the names of tell")
                arguments = {**reading}
                key, who = (arguments.pop(name, None) for name in ("key", "who"))
                check_key_and_name(key, who or self._who)
                request = verbs.tell_reading(self.clock, arguments)
                requests.append((number, request, key, who or self._who))
        count = self._shared.execute_all(requests, new_errors, withdrawn)
        if errors is not None:
            errors += sorted(new_errors or (), key=lambda each: each[0])
        return count

    def correct(
        self,
        X: ArrayLike | Named,
        y: ArrayLike | Counted | None = None,
        t: Any = None,
        noise_variance: ArrayLike | None = None,
        *,
        to: Any = None,
        outcomes: Outcomes = None,
        sure: bool = False,
        key: str | None = None,
        who: str | None = None,
    ) -> Info:
        """Replace rewards, as `Bandit.correct`.

        The journal keeps both. To replay a correction takes long, so that a snapshot is written now.

        Raises
        ------
        DoubtfulReadingError
            If a right reading or time is beyond belief, as for `tell`, unless you are `sure` of it.
        """
        request = verbs.correct(self.clock, X, y, t, noise_variance, to, outcomes, sure=sure)
        return self._info(request, key, who)

    def retract(
        self, X: ArrayLike | Named, t: Any = None, *, key: str | None = None, who: str | None = None
    ) -> Info:
        """Withdraw rewards, as `Bandit.retract`; the journal keeps them."""
        return self._info(verbs.retract(self.clock, X, t), key, who)

    def drop(self, X: ArrayLike | Named, *, key: str | None = None, who: str | None = None) -> None:
        """Drop pending points, as `Bandit.drop`."""
        self._execute(verbs.drop(X), key, who)

    def change_sites(
        self,
        add: Mapping[str, ArrayLike | None] | Sequence[str] = (),
        retire: Sequence[str | int] = (),
        confirm: Sequence[str | int] = (),
        *,
        key: str | None = None,
        who: str | None = None,
    ) -> None:
        """Add sites or arms, and retire others, as `Bandit.with_candidates`; rows stay as they are.

        Sites that stand out can be confirmed: `doubtful_sites` does not ask about them again until they
        are off by another amount.

        Parameters
        ----------
        add : mapping of names to coordinates, or names
            Coordinates as in the table of sites, degrees if it has degrees; arms have none, and
            retired sites that come back need none.
        retire, confirm : sequence of names or row numbers

        Raises
        ------
        ValueError
            If a site exists already, one to retire does not, none would be left, or one to confirm does
            not stand out.
        """
        self._execute(verbs.change_sites(add, retire, confirm), key, who)

    def questions(
        self,
        t: Any = None,
        available: Availability = None,
        *,
        key: str | None = None,
        who: str | None = None,
    ) -> Array:
        """Return the points to ask an expert about who answers later, as `Bandit.questions`."""
        return self._points(verbs.questions(self.clock, t, available), key, who)

    def time_of_questions(self, X: Array) -> float | None:
        """Return the latest time of questions about all of these points, of open ones if any are."""
        with self._shared.outline() as outline:
            return outline.questions.time_of(X.tolist())

    def answer(
        self,
        X: ArrayLike | Named,
        values: ArrayLike,
        t: Any = None,
        noise_variance: ArrayLike | None = None,
        *,
        sure: bool = False,
        key: str | None = None,
        who: str | None = None,
    ) -> Info:
        """Report answers of an expert to open questions; each `key` counts once.

        Without a time, it is the latest at which questions about all of the points are open. A campaign
        with an expert in a program also takes answers to questions that nobody has asked.

        Raises
        ------
        DoubtfulReadingError
            If an answer is beyond belief, as for `tell`, unless you are `sure` of it.
        ValueError
            If nobody has asked that; the message lists the open questions.
        ConflictError
            If another request has the key; without a key, if there is an answer already.
        """
        request = verbs.answer(self.clock, X, values, t, noise_variance, sure=sure)
        return self._info(request, key, who)

    def correct_answers(
        self,
        X: ArrayLike | Named,
        values: ArrayLike,
        t: Any = None,
        noise_variance: ArrayLike | None = None,
        *,
        sure: bool = False,
        key: str | None = None,
        who: str | None = None,
    ) -> Info:
        """Replace answers of an expert, or withdraw them (NaN), as `Bandit.correct_answers`.

        The journal keeps both.

        Raises
        ------
        DoubtfulReadingError
            If a right answer is beyond belief, as for `tell`, unless you are `sure` of it.
        """
        request = verbs.correct_answers(self.clock, X, values, t, noise_variance, sure=sure)
        return self._info(request, key, who)

    def snapshot(self) -> None:
        """Write a snapshot now: to open the campaign takes less time after it."""
        self._shared.write_snapshot()

    def doubts(self, table: Sequence[float] = ()) -> Doubts:
        """Return what finds readings beyond belief, by which `tell` refuses them.

        Parameters
        ----------
        table : sequence of float
            The values of a table that is to be recorded.
        """
        with self._shared.read() as replay:
            return self._shared.doubts(replay, table)

    def are_recorded(
        self,
        X: ArrayLike | Named,
        y: ArrayLike,
        t: ArrayLike,
        noise_variance: ArrayLike | None = None,
        counts: ArrayLike | None = None,
    ) -> NDArray[np.bool_]:
        """Return which readings (n,) the journal has: `record` skips those that have no key.

        Parameters
        ----------
        X : array of shape (n, d)
            Places, as for `tell`.
        y, t : arrays of shape (n,)
            NaN in `y`: no reading.
        noise_variance : array of shape (n,), optional
            NaN: the usual one.
        counts : array of shape (n, 2), optional
            The counts that the readings were computed from, as for `record`.

        Raises
        ------
        ValueError
            If a shape is wrong, or there is no such place.
        """
        points = self.resolve_points(X)
        n = len(points)
        values = as_vector(y, n, "y")
        times = as_times(to_numbers(self.clock, t), n)
        variance = as_vector(
            np.nan if noise_variance is None else noise_variance, n, "noise_variance"
        )
        pairs = None if counts is None else as_floats(counts, "counts")
        if pairs is not None and pairs.shape != (n, 2):
            raise ValueError(f"counts must have shape ({n}, 2), got {pairs.shape}")
        return self._shared.are_recorded(points, values, times, variance, pairs)

    def recorded_keys(self, keys: Sequence[str]) -> set[str]:
        """Return those of some keys under which the journal has a call."""
        keys = [*as_list("keys", keys, "texts")]
        for key in keys:
            check_name("each of keys", key)
        parts = (keys[i : i + MOST_KEYS] for i in range(0, len(keys), MOST_KEYS))
        return {key for part in parts for key in self._store.rows_by_key(part)}

    def resolve_points(
        self, X: ArrayLike | Named, context: Context = None, t: Any = None, *, played: bool = False
    ) -> Array:
        """Return points of the domain (n, d), given by name or as numbers, with their context."""
        as_bool("played", played)
        times = to_numbers(self.clock, t)
        with self._shared.read() as replay:
            return verbs.resolve_points(replay.bandit, self.names, X, context, times, played=played)

    def _execute(
        self, request: verbs.Request, key: str | None, who: str | None
    ) -> tuple[Row, Info | None]:
        return self._shared.execute(request, key, self._who if who is None else who)

    def _points(self, request: verbs.Request, key: str | None, who: str | None) -> Array:
        """Perform a request once, and return its points."""
        row, _ = self._execute(request, key, who)
        return to_points(row.body["result"], self.domain.dimension)

    def _info(self, request: verbs.Request, key: str | None, who: str | None) -> Info:
        """Perform a request once, and return the info after it, also if it is repeated."""
        row, info = self._execute(request, key, who)
        return self._shared.info_after(row) if info is None else info


def _user() -> str:
    return f"{getpass.getuser()}@{platform.node()}"


def _check_options(trusted: object, who: object, timeout: object, snapshot_every: object) -> None:
    """Raise a `ValueError` unless a campaign can be opened with these options."""
    if trusted is not None:
        check_instance("trusted", trusted, Mapping, 'a mapping of "module:name" to parts, or None')
    if who is not None:
        check_name("who", who)
    nonnegative_number("timeout", timeout)
    whole_number("snapshot_every", snapshot_every)
