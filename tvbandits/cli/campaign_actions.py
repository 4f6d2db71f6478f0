"""What the `campaign` sub-commands do: one line out, or JSON."""

from __future__ import annotations

import csv
import difflib
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.naming import Names, number_of, time_in
from tvbandits.campaign.status import HALF_WIDTH as HALF_WIDTH, drop_command, since, without_formula
from tvbandits.campaign.store.errors import CampaignError, ConflictError
from tvbandits.cli.options import Call, Change, escaped
from tvbandits.comparison.html import generated_by
from tvbandits.core.arrays import Array
from tvbandits.core.candidates import candidates_of
from tvbandits.core.counts import Counted, count, rate
from tvbandits.core.files.journal import without_nan
from tvbandits.core.space import Arms
from tvbandits.datasets.tables.spreadsheets import read_spreadsheet
from tvbandits.io import naming
from tvbandits.validation import file_path

if TYPE_CHECKING:
    from tvbandits.gp.fitting.noise import NoiseEstimate


@contextmanager
def opened(call: Call, *, decides: bool = False) -> Iterator[Campaign]:
    """The campaign; its own expert is imported only if it was named here."""
    if decides:
        import_kernels()
    who, named = (call.who, call.expert) if isinstance(call, Change) else (None, None)
    with Campaign.open(call.file, who=who) as campaign:
        if named is None:
            yield campaign
            return
        from tvbandits.cli.campaign_config import check_expert, made_expert
        from tvbandits.policies.names import load

        check_expert(named, campaign.about.get("expert", ""))
        expert = made_expert(load(named), campaign.budget)
    with Campaign.open(call.file, expert=expert, who=who) as campaign:
        yield campaign


def say(call: Call, text: str | list[str], about: Mapping[str, Any]) -> None:
    """One line, or several, or JSON."""
    lines = [text] if isinstance(text, str) else text
    shown = "\n".join(map(escaped, lines))
    print(json.dumps(without_nan(about)) if call.shape == "json" else shown)


def time_of(campaign: Campaign, text: str | None, name: str = "--at") -> float | None:
    """A number, or a date where there is a clock."""
    return number_of(campaign.clock, time_in(text), name)


def joined(context: list[str] | None) -> str | None:
    """The values of a context that is given once or in several parts, as one text."""
    return None if context is None else ", ".join(context)


def available(campaign: Campaign, given: list[str] | None) -> list[str] | dict[str, Any] | None:
    """Names of sites that are available; on a box or a space ranges, as in "x0=0..5; fuel=gas, oil"."""
    if given is None or candidates_of(campaign.domain) is not None:
        return listed(campaign, given)
    ranges: dict[str, Any] = {}
    for part in (part.strip() for text in given for part in text.split(";")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        low, dots, high = (piece.strip() for piece in value.partition(".."))
        if not (name and equals and value) or name in ranges:
            raise ValueError(
                f'--among on a box or a space takes a range for each name, "x0=0..5", got "{part}"'
            )
        try:
            ranges[name] = [float(low), float(high)] if dots else as_names(value)
        except ValueError as error:
            raise ValueError(f'--among: "{part}": {error}') from error
    return ranges


def as_names(text: str) -> list[str]:
    """Return the texts between commas."""
    return [piece.strip() for piece in text.split(",")]


def listed(campaign: Campaign, given: list[str] | None) -> list[str] | None:
    """The names in each of "name", "name,name" or "name; name", the form in which `ask` prints them."""
    if given is None:
        return None
    return [name for text in given for name in _names_in(campaign, text.strip())]


def _names_in(campaign: Campaign, text: str) -> list[str]:
    row = campaign.names.row
    with suppress(ValueError):
        return [campaign.names.sites[row(text)]]  # a name may have a comma
    names = [part.strip() for part in text.split(";" if ";" in text else ",")]
    try:
        return [campaign.names.sites[row(name)] for name in names]
    except ValueError as error:
        if len(names) == 1:
            raise
        form = 'a name with a comma is given alone, or with semicolons: "A, B; C"'
        raise ValueError(f"{error}; {form}") from error


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


def remote(campaign: Campaign, add: Mapping[str, Any]) -> list[str]:
    """What is odd about the places of new sites; what is wrong with them is said when they are added."""
    with suppress(ValueError):
        return campaign.names.remote(add)
    return []


# --- the commands ------------------------------------------------------------------------------------


def placed(texts: list[str]) -> dict[str, list[float] | None]:
    """Names, and coordinates where they are given."""
    found: dict[str, list[float] | None] = {}
    for text in texts:
        name, equals, said = text.rpartition("=")
        name = name if equals else text
        if name in found:
            raise ValueError(f'"{name}" is given twice')
        try:
            found[name] = [float(each) for each in said.split(",")] if equals else None
        except ValueError as error:
            raise ValueError(f'NAME=X,Y needs numbers behind "=", got "{text}"') from error
    return found


def status(call: Call, context: str | None = None, *, best: bool = False) -> None:
    """How things stand, as far as the journal says it; which point is best takes a bandit."""
    with opened(call, decides=best) as campaign:
        found = campaign.status
        points = campaign.outstanding
        ages = [since(each.asked) for each in points]
        asked = [f"{each.place} (asked {age})" for each, age in zip(points, ages, strict=True)]
        out, said = "; ".join(each.place for each in points) or "none", "; ".join(asked) or "none"
        overdue = [each.place for each in points if each.t < (found.time or -math.inf)]
        drop = drop_command(call.file, overdue[0]) if overdue else ""
        hint = f"; overdue, to tell or drop: {drop}" if overdue else ""
        doubt = f", {found.in_doubt} questions in doubt" if found.in_doubt else ""
        cost = f" at a cost of {found.cost:g}" if found.cost else ""
        broken = f", {found.violations} limits violated" if campaign.ledger.outcomes else ""
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
            if aside := campaign.info.outliers:
                shown["outliers"] = aside
                text += f"; set aside as outliers: {aside}"
            if (noise := campaign.info.model.noise) is not None:
                shown["noise_variance"] = asdict(noise)
                text += f"; noise variance: {_noise_text(noise)}"
        say(call, text, {**shown, "last": campaign.when(found.time), "ages": ages})


def _noise_text(noise: NoiseEstimate) -> str:
    if noise.low == noise.high:
        return f"{noise.variance:g}"
    interval = f"{noise.low:.2g} to {noise.high:.2g} (95%)"
    readings = "1 reading" if noise.readings == 1 else f"{noise.readings} readings"
    return f"{noise.variance:.2g}, {interval}, from {readings}"


def history(call: Call, last: int) -> None:
    """What was asked, told and answered."""
    if last < 0:
        raise ValueError(f"--last must be at least 0, got {last}")
    with opened(call) as campaign:
        columns = campaign.history_columns
        found = [np.asarray(column) for column in columns.values()]
        rows = list(zip(*(column[-last:].tolist() for column in found), strict=True))
        if call.shape == "json":
            print(json.dumps([without_nan(dict(zip(columns, row, strict=True))) for row in rows]))
            return
        if len(rows) < len(found[0]):
            print(f"{len(rows)} of {len(found[0])} rows; --last 0 for all", file=sys.stderr)
        table = csv.writer(sys.stdout, lineterminator="\n")
        for cells in (columns, *rows):
            table.writerow(["" if each != each else _cell(each) for each in cells])


def _cell(value: Any) -> Any:
    return escaped(without_formula(value)) if isinstance(value, str) else value


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
    with opened(Call(place)) as campaign:
        generator = generator_of(campaign)
        write_page(
            lambda: campaign_page(campaign), there, lambda path: generated_by(path, generator)
        )


# --- readings that people bring, one or a table -------------------------------------


@dataclass(frozen=True)
class Input:
    """A reading.

    Attributes
    ----------
    site, at : str or None
        Which, as people write it.
    value, variance : float or None
    key : str or None
    outcomes : mapping of str to list of float
        What else was read.
    context, who : str or None
    counts : tuple of float, optional
        Of what the value was made, if it was.
    line : int
        Of the table, whose first says what its columns are.
    """

    site: str | None = None
    value: float | None = None
    at: str | None = None
    variance: float | None = None
    key: str | None = None
    outcomes: Mapping[str, list[float]] = field(default_factory=dict)
    context: str | None = None
    who: str | None = None
    counts: tuple[float, ...] = ()
    line: int = 1


# A reading, where it was made (1, d), where that is known, and when.
Placed = tuple[Input, Array | None, float | None]

# What is wrong with lines of a table.
Wrong = dict[int, ValueError]

# Readings that are told in one transaction.
PART = 5000

# From so many readings there is something to compare with.
FEWEST = 3

# A time further ahead than so many spans of all times, a value further out than so many ranges.
FAR_AHEAD, FAR_OUT = 100, 3


class Doubts:
    """What is odd beside what was told so far, which grows by what is brought."""

    def __init__(self, campaign: Campaign) -> None:
        known = campaign.ledger
        self.campaign, self.count = campaign, len(known.rewards)
        self.noise_variance = known.noise_variance or 0.0  # learned: values alone must do
        self.times = _ends([*known.rewards.t, *known.failed.t, *known.pending.t])
        self.values = _ends(known.rewards.y)

    def of_time(self, t: float, of_now: float = FAR_AHEAD) -> str:
        """Whether it is far from the times so far, or by more units than that ahead of now."""
        first, last = self.times or (t, t)
        clock, when = self.campaign.clock, self.campaign.when
        if not (t - last > FAR_AHEAD * (last - first) > 0 or (clock and t > clock.now + of_now)):
            return ""
        return f"{when(t)} is far ahead of {when(last) if self.times else 'now'}"

    def of_reading(self, X: Array, t: float | None, reading: Input) -> list[str]:
        """What is odd about it; if nothing is, it is counted among the usual then."""
        value, name, found = reading.value, self.campaign.names.name(X[0]), list[str]()
        if t is not None and (odd := self.of_time(t, of_now=1)):
            found.append(f"{name} at {odd}")
        read = value is not None and not math.isnan(value)
        if read and self.count >= FEWEST:
            assert value is not None
            low, high = self.values
            # A share of few visits is uncertain by itself.
            noise = max(self.noise_variance, reading.variance or 0.0) ** 0.5
            most = FAR_OUT * max(high - low, 3 * noise)
            # Of equal readings, where the noise is learned, nobody knows yet what is far.
            if most > 0 and not low - most <= value <= high + most:
                found.append(f"{name}: {value:g} is far from the {low:g} to {high:g} told so far")
        if not found and t is not None:
            self.times = _ends([*self.times, t])
        if not found and read:
            self.values, self.count = _ends([*self.values, value]), self.count + 1
        return found


def _ends(numbers: Any) -> list[float]:
    """The lowest and the highest."""
    return [float(min(numbers)), float(max(numbers))] if len(numbers) else []


def sure(doubts: list[str], yes: bool, done: str = "told") -> None:
    """Go on if there are none, or if a person says so; else it is a `ValueError`."""
    if yes or not any(doubts):
        return
    said = doubts[0] + (f" (and {len(doubts) - 1} more like it)" if len(doubts) > 1 else "")
    question = f"{escaped(said)}; is that right?"
    if not (sys.stdin.isatty() and typer.confirm(question, err=True)):
        raise ValueError(f"{said}; nothing is {done}: say --yes if it is right")


def tell(
    call: Change, one: Input, path: Path | None, decimal: str | None = None, *, yes: bool
) -> None:
    """Tell a reading, or all of a table but the rows in which something is wrong, which are named."""
    if path is not None and one != Input():
        raise ValueError("tell --csv stands alone: a table has a column for everything else")
    if path is None and decimal is not None:
        raise ValueError("--decimal is for the table of --csv")
    if path is None and (one.site is None or one.value is None):
        raise ValueError("tell needs --site and --reward, or --csv")
    with opened(call) as campaign:
        wrong: Wrong = {}
        readings = [one] if path is None else readings_in(path, campaign, wrong, decimal)
        there, new = _placed(campaign, readings, path, yes, wrong), 0
        parts: Iterable[int] = range(0, len(there), PART)
        with ExitStack() as shown:
            if len(there) > PART:  # on a terminal there is a bar
                from tvbandits.cli.terminal import bars

                parts = shown.enter_context(bars()).track(parts, description="tell")
            for start in parts:
                new += _told(campaign, there[start : start + PART], path, wrong)
        lines = [f"{path}, line {line}: {wrong[line]}" for line in sorted(wrong)]
        count = len({reading.line for reading, *_ in there} - {*wrong})
        if wrong and not count:
            more = f" (and {len(lines) - 1} more rows are wrong)" if len(lines) > 1 else ""
            raise ValueError(lines[0] + more)
        refused = [{"line": line, "error": str(wrong[line])} for line in sorted(wrong)]
        _say_brought(call, campaign, count, new, {"refused": refused} if wrong else {})
    for line in lines:
        print(f"tvbandits: {escaped(line)}; it is not told", file=sys.stderr)
    if lines:
        raise typer.Exit(2)


def _own(error: ValueError) -> bool:
    """Whether something is wrong with one reading, and not with the campaign."""
    return not isinstance(error, CampaignError) or isinstance(error, ConflictError)


def _placed(
    campaign: Campaign, readings: list[Input], path: Path | None, yes: bool, wrong: Wrong
) -> list[Placed]:
    """The readings with their places and times; of a table without those in which something is wrong.

    Where nobody can be asked whether what is odd in a table is right, it counts as wrong.
    """
    known, names, usual = campaign.ledger, campaign.names, Doubts(campaign)

    @cache
    def placed(site: str, context: str | None, t: float | None) -> Array:
        return known.placed(names.points(site), names.context(context), t)

    there, doubts = list[Placed](), dict[int, list[str]]()
    for reading in readings:
        with _row(path, reading, wrong):
            t = time_of(campaign, reading.at)
            if path is not None and t is None and reading.key is None:
                raise ValueError("there must be a time, or a key: brought again, it counts once")
            try:
                X = placed(str(reading.site), reading.context, t)
            except ValueError:
                if reading.key is None:
                    raise
                there.append((reading, None, t))  # on record, it needs no place any more
                continue
            there.append((reading, X, t))
            if odd := usual.of_reading(X, t, reading):
                doubts[reading.line] = odd
    if path is None or sys.stdin.isatty():
        sure([each for odd in doubts.values() for each in odd], yes)
    elif not yes:
        for line, odd in doubts.items():
            wrong[line] = ValueError(f"{'; '.join(odd)}: say --yes if it is right")
    there = [each for each in there if each[0].line not in wrong]
    _check_once(campaign, there, path, wrong)
    return [each for each in there if each[0].line not in wrong]


def _check_once(campaign: Campaign, there: list[Placed], path: Path | None, wrong: Wrong) -> None:
    """Put down rows of a place and time that an earlier row has, too."""
    first: dict[tuple[bytes, float], int] = {}
    for reading, X, t in there:
        if X is None or t is None or reading.key is not None:
            continue
        with _row(path, reading, wrong):
            if (line := first.setdefault((X.tobytes(), t), reading.line)) != reading.line:
                raise ValueError(
                    f"{campaign.names.name(X[0])} at {campaign.when(t)} stands in line {line} "
                    "already: give each a key in a column key if both are to count, or leave one out"
                )


def _told(campaign: Campaign, rows: list[Placed], path: Path | None, wrong: Wrong) -> int:
    """Tell them; how many are new."""
    refused: list[tuple[int, ValueError]] | None = None if path is None else []
    new = campaign.record((_said(campaign, *row) for row in rows), refused)
    wrong |= {rows[number][0].line: error for number, error in refused or ()}
    return new


def _said(campaign: Campaign, reading: Input, X: Array | None, t: float | None) -> dict[str, Any]:
    counts = {"counts": [reading.counts]} if reading.counts else {}
    who = {"key": reading.key, "who": reading.who, "outcomes": reading.outcomes}
    variance = several(reading.variance)
    place: dict[str, Any] = {"X": X}
    if reading.key is not None:  # by what was written it is known again
        place = {"X": [reading.site], "context": campaign.names.context(reading.context)}
    return {**place, "y": [reading.value], "t": t, "variance": variance, **who, **counts}


def answer(call: Change, site: str, value: float, at: str | None, variance: float | None) -> None:
    """Bring an answer; without a time it is about what `Bandit.answer` takes it for."""
    with opened(call) as campaign:
        t, before = time_of(campaign, at), campaign.ledger.seq
        X = campaign.placed(site, t=t)
        if t is None:  # which takes a bandit
            from tvbandits.bandit.consulting import question_time

            t = question_time(campaign.recipe, campaign.state, campaign.state.questions.latest)
        # By its place and time it counts once; after one that failed another may follow.
        failed = ", failed" * math.isnan(value)
        key = call.key or f"answer {campaign.names.name(X[0])} at {t!r}{failed}"
        campaign.answer(X, [value], t, several(variance), key=key)
        _say_brought(call, campaign, 1, int(campaign.ledger.seq > before))


def _say_brought(
    call: Change, campaign: Campaign, count: int, fresh: int, more: Mapping[str, Any] | None = None
) -> None:
    status = campaign.status
    new = {0: "known already", count: "new"}.get(fresh, f"{fresh} of them new")
    text = f"{count} brought, {new}; {status.told} told, {status.pending} pending"
    say(call, text, {"brought": count, "new": fresh, "told": status.told, **(more or {})})


def several(number: float | None) -> list[float] | None:
    """A number as a column of one, where there is one."""
    return None if number is None else [number]


@contextmanager
def _row(path: Path | None, reading: Input, wrong: Wrong) -> Iterator[None]:
    """Put down what is wrong with a row of a table."""
    try:
        yield
    except ValueError as error:
        if path is None or not _own(error):
            raise
        wrong[reading.line] = error


# Columns of a table by other names.
ALIKE = {"value": "reward", "reading": "reward", "t": "time"}

# What may stand in the place of a reward, and what makes one of it.
COUNTS: dict[tuple[str, ...], Callable[..., Counted]] = {
    ("successes", "trials"): rate,
    ("events", "exposure"): count,
}


def readings_in(
    path: Path, campaign: Campaign, wrong: Wrong, decimal: str | None = None
) -> list[Input]:
    """The readings of a CSV: site or coordinates, context, time, reward, variance, key, who.

    Rows that cannot be read are put down in `wrong` by their lines.

    In the place of a reward: successes and trials, or events and exposure.
    """
    with naming(path):
        # Names as they stand there: of two that are the same pandas makes different ones.
        as_texts = {"dtype": str, "keep_default_na": False, "skip_blank_lines": False}
        frame = read_spreadsheet(path, decimal, header=None, **as_texts)
        there = [str(name).strip().lower() for name in frame.iloc[0]]
        there = [each if ALIKE.get(each, each) in there else ALIKE[each] for each in there]
        if twice := [name for name in there if name and there.count(name) > 1]:
            raise ValueError(f'there are two columns "{twice[0]}"')
        names, columns = campaign.names, set(there)
        pairs = [pair for pair in COUNTS if set(pair) <= columns]
        counted = pairs[0] if pairs else ()
        if pairs and (given := {"reward", "variance", *sum(pairs[1:], ())} & columns):
            raise ValueError(f"{' and '.join(counted)} replace {min(given)}: give two tables")
        placed = "site" in columns or {name.lower() for name in names.columns} <= columns
        arms = isinstance(campaign.domain, Arms)  # whose coordinates nobody writes
        places = "site" if arms else f"site (or {', '.join(names.columns)})"
        if not (counted or "reward" in columns) or not placed:
            raise ValueError(
                f"there must be columns {places}, and reward (or successes and trials, or events and "
                f"exposure); there are: {', '.join(there)}"
            )
        limits = [limit.name for limit in campaign.ledger.outcomes]
        told = {"site", "time", "reward", "variance", "key", "who", *counted}
        placing = {name.lower() for name in (*names.columns, *names.context_names)}
        for column in sorted(columns - told - placing):
            near = difflib.get_close_matches(column, limits, n=1)
            if near and column != near[0].lower():
                raise ValueError(f'there is no outcome {column!r}: did you mean "{near[0]}"?')
        readings = []
        for row, *said in frame[1:].itertuples(name=None):
            cells = {name: str(cell).strip() for name, cell in zip(there, said, strict=True)}
            try:
                readings.append(_reading(cells, names, limits, counted, row + 1))
            except ValueError as error:
                wrong[row + 1] = error
        return _with_variances(readings, COUNTS[counted]) if counted else readings


def _with_variances(readings: list[Input], made: Callable[..., Counted]) -> list[Input]:
    """With what is made of counts, of those of one time together."""
    together: dict[str | None, list[int]] = {}
    for number, reading in enumerate(readings):
        together.setdefault(reading.at, []).append(number)
    found = readings.copy()
    for rows in together.values():
        all_of = made(*np.transpose([readings[row].counts for row in rows]))
        for row, value, variance in zip(rows, all_of.values, all_of.variance, strict=True):
            found[row] = replace(found[row], value=float(value), variance=float(variance))
    return found


def read(said: list[str] | None) -> dict[str, list[float]]:
    """What else was read, out of texts name=value."""
    found: dict[str, list[float]] = {}
    for text in said or []:
        name, _, value = map(str.strip, text.partition("="))
        if name in found:
            raise ValueError(f'--outcome {name} is given twice, as "{text}" the second time')
        try:
            found[name] = [float(value)]
        except ValueError:
            raise ValueError(f'--outcome must be name=number, got "{text}"') from None
    return found


def _reading(
    cells: Mapping[str, str], names: Names, limits: list[str], counted: tuple[str, ...], line: int
) -> Input:
    context = {name: cells.get(name.lower()) for name in names.context_names}
    said = [f"{name}={cell}" for name, cell in context.items() if cell and "site" in cells]
    counts = tuple(float(cells[name] or "nan") for name in counted)
    if counts:
        COUNTS[counted](*counts)  # or it says what is wrong with them
    return Input(
        site=cells["site"]
        if "site" in cells
        else names.written([cells[each.lower()] for each in names.columns]),
        value=None if counts else float(cells["reward"] or "nan"),
        at=cells.get("time") or None,
        variance=float(cells["variance"]) if cells.get("variance") else None,
        key=cells.get("key") or None,
        who=cells.get("who") or None,
        counts=counts,
        outcomes={
            name: [float(cells[name.lower()] or "nan")] for name in limits if name.lower() in cells
        },
        context=", ".join(said) or None,
        line=line,
    )


def say_changed(call: Change, campaign: Campaign, what: str) -> None:
    """What was on record, and how things stand."""
    row = next(row for row in reversed(campaign.journal()) if row.kind == what)
    told = campaign.status.told
    ((at, value),) = np.asarray(row.body["got"], dtype=np.float64)
    name = campaign.names.name(np.asarray(row.body["X"][0]))
    text = f"{what}: {name} at {campaign.when(at)} was told as {value:g}; {told} told"
    say(call, text, {what: name, "t": at, "was": value, "told": told})
