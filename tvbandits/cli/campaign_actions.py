"""What the `campaign` sub-commands do: one line out, or JSON."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import typer

from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.status import ago, drop_command, without_formula
from tvbandits.core.arrays import Array
from tvbandits.core.candidates import candidates_of
from tvbandits.core.coercion import file_path
from tvbandits.core.files.journal import without_nan
from tvbandits.core.files.page import generated_by

# --- what is odd about a time or a reading --------------------------------------------------------


# From so many readings there is something to compare with.
FEWEST = 3

# A time further ahead than so many usual steps, a value further out than so many ranges of values.
FAR_AHEAD, FAR_OUT = 100, 3


@dataclass
class Doubts:
    """What is usual in a campaign, grown by what is brought.

    Attributes
    ----------
    campaign : Campaign
    times, values : lists of float
        Of what was told or asked.
    noise : float
        Deviation of a reading.
    """

    campaign: Campaign
    times: list[float]
    values: list[float]
    noise: float

    @classmethod
    def of(cls, campaign: Campaign) -> Doubts:
        """Of a campaign as it is."""
        known = campaign.ledger
        times = [*known.rewards.t, *known.failed.t, *known.pending.t]
        noise = (known.noise_variance or 0.0) ** 0.5  # where it is learned, values alone must do
        return cls(campaign, times, known.rewards.y.tolist(), noise)

    def of_reading(self, X: Array, t: float | None, value: float | None) -> list[str]:
        """What is odd about it, in words."""
        found = []
        name, at = self.campaign.names.name(X[0]), self.campaign.when(t)
        if t is not None and self._ahead(t, of_now=1):
            found.append(f"{name} at {at} is far ahead of {self._latest}")
        if len(self.values) >= FEWEST and value is not None and not math.isnan(value):
            low, high = min(self.values), max(self.values)
            most = FAR_OUT * max(high - low, 3 * self.noise)
            # Of equal readings, where the noise is learned, nobody knows yet what is far.
            if most > 0 and not low - most <= value <= high + most:
                found.append(f"{name}: {value:g} is far from the {low:g} to {high:g} told so far")
        return found

    def of_decision(self, t: float) -> list[str]:
        """What is odd about a time to ask for, which may be planned ahead."""
        odd = self._ahead(t, of_now=FAR_AHEAD)
        return [f"{self.campaign.when(t)} is far ahead of {self._latest}"] if odd else []

    @property
    def _latest(self) -> str:
        return self.campaign.when(max(self.times)) if self.times else "now"

    def add(self, t: float | None, value: float | None) -> None:
        """It is brought."""
        self.times += [] if t is None else [t]
        self.values += [] if value is None or math.isnan(value) else [value]

    def _ahead(self, t: float, of_now: float) -> bool:
        """Whether it is far from the times so far, or by more units than that ahead of now."""
        known: Any = np.unique(self.times)
        steps = np.diff(known)
        if len(steps) and t - known[-1] > FAR_AHEAD * max(
            float(np.median(steps)), known[-1] - known[0]
        ):
            return True
        clock = self.campaign.clock
        return clock is not None and t > clock.now + of_now


def sure(doubts: list[str], yes: bool, done: str = "told") -> None:
    """Go on if there are none, or if a person says so.

    Raises
    ------
    ValueError
        If nobody does.
    """
    if not doubts or yes:
        return
    said = doubts[0] + (f" (and {len(doubts) - 1} more like it)" if len(doubts) > 1 else "")
    if not (sys.stdin.isatty() and typer.confirm(f"{said}; is that right?", err=True)):
        raise ValueError(f"{said}; nothing is {done}: say --yes if it is right")


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """What every command is given.

    Attributes
    ----------
    file : str
    shape : str
        "text" or "json".
    expert : str or None
        module:name of the campaign's own expert.
    who : str or None
    """

    file: str
    shape: str = "text"
    expert: str | None = None
    who: str | None = None

    @contextmanager
    def opened(self, *, decides: bool = False) -> Iterator[Campaign]:
        """The campaign; its own expert is imported only if it was named here."""
        if decides:
            import_kernels()
        with Campaign.open(self.file, who=self.who) as campaign:
            wanted = campaign.about.get("expert", "")
            if self.expert is None:
                yield campaign
                return
            from tvbandits.cli.campaign_config import check_expert, made_expert
            from tvbandits.policies.names import load

            check_expert(self.expert, wanted)
            expert = made_expert(load(wanted), campaign.budget)
        with Campaign.open(self.file, expert=expert, who=self.who) as campaign:
            yield campaign

    def say(self, text: str, about: Mapping[str, Any]) -> None:
        """One line, or JSON."""
        print(json.dumps(without_nan(about)) if self.shape == "json" else text)


def time_of(campaign: Campaign, text: str | None) -> Any:
    """A number, or a date where there is a clock."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        if campaign.clock is None:
            raise ValueError(f'--at must be a number, got "{text}": there is no clock') from None
        return campaign.clock.number(text)


def listed(campaign: Campaign, text: str | None) -> list[str] | None:
    """The names in "name,name", or in "name; name" as `ask` says it; a name may have a comma."""
    if text is None or text.strip() in campaign.names.sites:
        return None if text is None else [text.strip()]
    return [part.strip() for part in text.split(";" if ";" in text else ",")]


def available(campaign: Campaign, among: str | None, without: str | None) -> list[str] | None:
    """The sites that are named, and of these, or of all, those that are not ruled out."""
    chosen, out = listed(campaign, among), listed(campaign, without)
    if out is None:
        return chosen
    ruled_out = {campaign.names.row(name) for name in out}
    return [
        name
        for name in (campaign.sites if chosen is None else chosen)
        if campaign.names.row(name) not in ruled_out
    ]


def for_json(campaign: Campaign, X: Array) -> list[dict[str, Any]]:
    """Points with their names."""
    return [{"site": campaign.names.name(x), "x": x.tolist()} for x in X]


def everywhere(campaign: Campaign) -> Array:
    """The points of all sites."""
    sites = candidates_of(campaign.domain)
    if sites is None:
        raise ValueError(f"the campaign plays on {campaign.domain!r}, not on sites: give --site")
    return sites.X


def import_kernels() -> None:
    """Import scikit-learn's kernels without pandas, which it takes in where it is there.

    No decision needs pandas, and it takes a third of the time of a command that makes one. Whatever asks
    for it afterwards finds it.
    """
    if "pandas" not in sys.modules:
        sys.modules["pandas"] = None  # type: ignore[assignment]  # to an import: not there
        try:
            import sklearn.gaussian_process.kernels  # noqa: F401
        finally:
            del sys.modules["pandas"]


# --- the commands ------------------------------------------------------------------------------------


def placed(text: str) -> tuple[str, list[float] | None]:
    """A name, and coordinates where they are given."""
    name, equals, said = text.rpartition("=")
    try:
        return (name, [float(each) for each in said.split(",")]) if equals else (text, None)
    except ValueError as error:
        raise ValueError(f'NAME=X,Y needs numbers behind "=", got "{text}"') from error


def status(call: Call, context: str | None = None, *, best: bool = False) -> None:
    """How things stand, as far as the journal says it; which point is best takes a bandit."""
    with call.opened(decides=best) as campaign:
        found = campaign.status
        points = campaign.outstanding
        ages = [ago(each.asked) for each in points]
        places = [each.place for each in points]
        aged = [f"{x} (asked {age})" if age else x for x, age in zip(places, ages, strict=True)]
        out, said = "; ".join(places) or "none", "; ".join(aged) or "none"
        overdue = [each.place for each in points if each.t < (found.time or -math.inf)]
        hint = (
            f"; overdue, to tell or drop: {drop_command(call.file, overdue[0])}" if overdue else ""
        )
        cost = f" at a cost of {found.cost:g}" if found.cost else ""
        broken = f", {found.violations} limits violated" if campaign.ledger.outcomes else ""
        doubt = f", {found.in_doubt} questions in doubt" if found.in_doubt else ""
        text = (
            f"{found.told} told{broken}, pending: {said}; "
            f"{found.questions} questions asked{cost}{doubt}; "
            f"last at {campaign.when(found.time)}{hint}"
        )
        shown = {**dict(found.summary), "pending_sites": out}
        if best:
            shown["best"] = "not known yet"
            if found.told:
                given = campaign.names.context(context)
                shown["best"] = campaign.names.name(campaign.recommend(context=given))
            text += f"; best: {shown['best']}"
            noise = campaign.info.model.noise
            if noise is not None:
                shown["noise_variance"] = asdict(noise)
                text += f"; noise variance: {noise}"
        call.say(text, {**shown, "last": campaign.when(found.time), "ages": ages})


def history(call: Call, last: int) -> None:
    """What was asked, told and answered."""
    if last < 0:
        raise ValueError(f"--last must be at least 0, got {last}")
    with call.opened() as campaign:
        columns = campaign.history_columns
        found = [np.asarray(column) for column in columns.values()]
        every = len(found[0])
        rows = list(zip(*(column[-last:].tolist() for column in found), strict=True))
        if call.shape == "json":
            print(json.dumps([without_nan(dict(zip(columns, row, strict=True))) for row in rows]))
            return
        if len(rows) < every:
            print(f"{len(rows)} of {every} rows; --last 0 for all", file=sys.stderr)
        table = csv.writer(sys.stdout, lineterminator="\n")
        for cells in (columns, *rows):
            table.writerow(["" if each != each else without_formula(each) for each in cells])


def report(place: str, out: str | None) -> None:
    """Write the page of a campaign, in place of an earlier one and of nothing else.

    Raises
    ------
    ValueError
        If there is none, or something else where the page goes, or nobody said where the page of a
        campaign on a server goes.
    """
    from tvbandits.campaign.service.page import campaign_page, generator_of
    from tvbandits.campaign.store.places import check_name
    from tvbandits.cli.terminal import write_page

    if out is None and "://" in place:
        raise ValueError("--out must say where to write the page of a campaign on a server")
    there = file_path("--out", out or f"{place}.html")
    check_name(there)
    with Call(place).opened() as campaign:
        generator = generator_of(campaign)
        write_page(
            lambda: campaign_page(campaign), there, lambda path: generated_by(path, generator)
        )
