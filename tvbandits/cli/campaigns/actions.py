"""What the `campaign` sub-commands do: one line out, or JSON."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tvbandits.core.arrays import Array
from tvbandits.core.display.page import without_nan
from tvbandits.core.domains import Candidates
from tvbandits.policies.names import load

try:
    from tvbandits.campaign.campaign import Campaign
    from tvbandits.campaign.exporting import without_formulas
    from tvbandits.campaign.store.rows import Row
    from tvbandits.cli.campaigns.config import made_expert, read_config
except ImportError as error:
    if "SQLAlchemy" not in str(error):
        raise
    raise ValueError(str(error)) from error


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
    who, key : str or None
    """

    file: str
    shape: str = "text"
    expert: str | None = None
    who: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if self.shape not in ("text", "json"):
            raise ValueError(f'--format must be text or json, got "{self.shape}"')

    @contextmanager
    def opened(self) -> Iterator[Sites]:
        """The campaign; its own expert is imported only if it was named here."""
        with Campaign.open(self.file, who=self.who) as campaign:
            wanted = campaign.about.get("expert", "")
            if self.expert is None:
                yield Sites(campaign)
                return
            check_expert(self.expert, wanted)
            expert = made_expert(load(wanted), campaign.budget)
        with Campaign.open(self.file, expert=expert, who=self.who) as campaign:
            yield Sites(campaign)

    def say(self, text: str, about: Mapping[str, Any]) -> None:
        """One line, or JSON."""
        print(json.dumps(without_nan(about)) if self.shape == "json" else text)


class Sites:
    """A campaign, and its points and times as people write them.

    Parameters
    ----------
    campaign : Campaign
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.names, self.coordinates = campaign.names, campaign.coordinates

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.names)}

    @property
    def candidates(self) -> Candidates:
        """The sites of a campaign that has sites."""
        domain = self.campaign.recipe.domain
        if not isinstance(domain, Candidates):
            raise ValueError(f"the campaign plays on {domain!r}: it has no sites to name")
        return domain

    def point(self, text: str) -> Array:
        """A site by its name, or a point by its coordinates, shape (1, d)."""
        if text in self._rows:
            return self.candidates.X[[self._rows[text]]]
        try:
            numbers = [float(part) for part in text.split(",")]
        except ValueError:
            known = ", ".join(self.names[:8]) or f"coordinates {', '.join(self.coordinates)}"
            raise ValueError(f'unknown site "{text}"; there are: {known}') from None
        return self.campaign.recipe.domain.check([numbers])  # type: ignore[no-any-return]

    def rows(self, text: str | None) -> list[int] | None:
        """Row numbers of "name,name"."""
        if text is None:
            return None
        names = [part.strip() for part in text.split(",")]
        unknown = [name for name in names if name not in self._rows]
        if unknown:
            raise ValueError(f'unknown site "{unknown[0]}"; there are: {", ".join(self.names[:8])}')
        return [self._rows[name] for name in names]

    def name(self, x: Any) -> str:
        """What people call a point."""
        domain = self.campaign.recipe.domain
        if self.names and isinstance(domain, Candidates):
            return self.names[int(domain.index(np.atleast_2d(x))[0])]
        decode = getattr(domain, "decode", None)
        if decode is not None:
            row = decode(np.atleast_2d(x)).iloc[0]
            return ", ".join(f"{key}={value}" for key, value in row.items())
        # To the last digit: told with fewer, it would be another point than the one that is out.
        return ",".join(f"{each:g}" if float(f"{each:g}") == each else f"{each}" for each in x)

    def time(self, text: str | None) -> Any:
        """A number, or a date where there is a clock."""
        if text is None:
            return None
        try:
            return float(text)
        except ValueError:
            if self.campaign.clock is None:
                raise ValueError(
                    f'--at must be a number, got "{text}": there is no clock'
                ) from None
            return self.campaign.clock.number(text)

    def when(self, t: float | None) -> str:
        """A time as people write it."""
        if t is None:
            return "no time yet"
        clock = self.campaign.clock
        return f"t = {t:g}" if clock is None else str(clock.time(t))

    def shown(self, X: Array) -> list[dict[str, Any]]:
        """Points for JSON."""
        return [{"site": self.name(x), "x": x.tolist()} for x in X]


def check_expert(said: str, wanted: str) -> None:
    """Raise a `ValueError` unless --expert is the one of the configuration: nothing else is imported."""
    if said != wanted:
        known = (
            f"must be {wanted}, as in its" if wanted else "is for a campaign with a maker in its"
        )
        raise ValueError(f"--expert {known} configuration, got {said}")


# --- the commands ------------------------------------------------------------------------------------


def new(file: str, config: Path, expert: str | None, who: str | None) -> None:
    """Begin a campaign."""

    def handed_over(name: str) -> Any:
        if expert is None:
            raise ValueError(
                f"the expert {name} is your own code: say so by --expert {name}, and it is imported"
            )
        check_expert(expert, name)
        return load(name)

    planned = read_config(config, handed_over)
    if expert is not None:
        check_expert(expert, planned.about["expert"])
    more = {"clock": planned.clock, "about": planned.about, "who": who}
    with Campaign.create(file, planned.bandit, **more) as campaign:  # type: ignore[arg-type]
        print(f"{file}: a campaign on {campaign.recipe.domain!r}")


def ask(call: Call, at: str | None, n: int | None, among: str | None) -> None:
    """Where to go next."""
    with call.opened() as sites:
        t = sites.time(at)
        X = sites.campaign.ask(t, n, sites.rows(among), key=call.key)
        call.say("; ".join(sites.name(x) for x in X), {"points": sites.shown(X), "t": t})


def questions(call: Call, at: str | None, among: str | None) -> None:
    """What to ask somebody who knows."""
    with call.opened() as sites:
        t = sites.time(at)
        X = sites.campaign.questions(t, sites.rows(among), key=call.key)
        text = "; ".join(sites.name(x) for x in X) or "nothing to ask"
        call.say(text, {"questions": sites.shown(X), "t": t})


def drop(call: Call, site: str | None) -> None:
    """Give up on a point."""
    if site is None:
        raise ValueError("give --site")
    with call.opened() as sites:
        sites.campaign.drop(sites.point(site), key=call.key)
        left = sites.campaign.status.pending
        call.say(f"dropped; {left} out", {"pending": left})


def status(call: Call) -> None:
    """How things stand."""
    with call.opened() as sites:
        found = sites.campaign.status
        out = "; ".join(sites.name(x) for x in sites.campaign.pending) or "none"
        best = sites.name(sites.campaign.recommend()) if found.told else "not known yet"
        doubt = f", {found.in_doubt} questions in doubt" if found.in_doubt else ""
        text = (
            f"{found.told} told, out: {out}; {found.questions} asked for {found.cost:g}{doubt}; "
            f"last at {sites.when(found.time)}; best: {best}"
        )
        call.say(text, {**dict(found.summary), "out": out, "best": best})


def history(call: Call, last: int) -> None:
    """What was asked, told and answered."""
    if last < 0:
        raise ValueError(f"--last must be at least 0, got {last}")
    with call.opened() as sites:
        frame = sites.campaign.history.tail(last) if last else sites.campaign.history
        if call.shape == "json":
            print(frame.to_json(orient="records"))
        else:
            without_formulas(frame).to_csv(sys.stdout, index=False)


def forecast(call: Call, at: str | None, site: str | None) -> None:
    """What to expect."""
    with call.opened() as sites:
        X = sites.candidates.X if site is None else sites.point(site)
        t = sites.time(at)
        mean, deviation = sites.campaign.predict(X, t)
        sign = 1 if sites.campaign.recipe.minimise else -1
        rows = [
            {"site": sites.name(X[i]), "mean": float(mean[i]), "deviation": float(deviation[i])}
            for i in np.argsort(sign * mean, kind="stable")
        ]
        lines = [f"{row['site']}: {row['mean']:.4g} +- {row['deviation']:.2g}" for row in rows]
        call.say("\n".join(lines), {"t": t, "forecast": rows})


def watch(call: Call, seconds: float | None) -> None:
    """What happens, as it happens."""
    end = math.inf if seconds is None else time.monotonic() + seconds
    with call.opened() as sites:
        last = sites.campaign.status.rows
        while True:
            for row in sites.campaign.journal(last):
                last = row.seq
                call.say(_line(sites, row), {"row": row.seq, "kind": row.kind, "who": row.who,
                                             "at": row.at, **row.body})  # fmt: skip
                sys.stdout.flush()
            if time.monotonic() >= end:
                return
            time.sleep(min(0.5, max(0.0, end - time.monotonic())))


def _line(sites: Sites, row: Row) -> str:
    X = row.body.get("got") or row.body.get("X") or []
    names = "; ".join(sites.name(np.asarray(x)) for x in X)
    values = row.body.get("y") or row.body.get("values") or []
    said = f": {', '.join(f'{float(each):g}' for each in values)}" if values else ""
    return f"{row.at} {row.who} {row.kind} {names}{said}".rstrip()


def export(call: Call, out: Path) -> None:
    """Everything as a table."""
    with call.opened() as sites:
        sites.campaign.export(out)
        print(out)


def backup(call: Call, out: Path) -> None:
    """A copy."""
    with call.opened() as sites:
        sites.campaign.backup(out)
        print(out)


def verify(call: Call) -> bool:
    """Whether all is as it was written."""
    with call.opened() as sites:
        found = sites.campaign.verify()
    counted = f"{found.rows} rows, {found.operations} operations, {found.snapshots} snapshots"
    good = f"{counted}: all as written"
    text = good if found.fine else "; ".join(found.problems)
    call.say(text, {"fine": found.fine, **vars(found)})
    return found.fine
