"""The page of a campaign: what who is responsible wants to see in five seconds, then the rest."""

from __future__ import annotations

from html import escape

import numpy as np

from tvbandits._version import __version__
from tvbandits.campaign.report.charts import belief, costs, sites_map, story
from tvbandits.campaign.report.facts import Facts
from tvbandits.campaign.watching import Watching
from tvbandits.core.display.page import cards, page, scrolled, section, table

SHOWN_AHEAD = (1, 2, 3, 5)
"""Steps ahead of the forecast."""

FORECAST_PLACES = 5


def campaign_page(campaign: Watching, *, served: bool = False) -> str:
    """One page of HTML that opens anywhere and needs no network.

    Parameters
    ----------
    campaign : Campaign
        It is looked at only.
    served : bool
        It comes from a service, which it may ask again.

    Raises
    ------
    ImportError
        If plotly is not installed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Campaign, Candidates, policies
    >>> from tvbandits.campaign.report import campaign_page
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), RBF(1.0), 0.01)
    >>> with Campaign.create("campaign.db", bandit) as campaign:
    ...     written = Path("campaign.html").write_text(campaign_page(campaign), encoding="utf-8")
    >>> print(written > 1000)
    True
    """
    facts = Facts.of(campaign)
    title = campaign.about.get("title", "Campaign")
    parts = [_next(facts), _glance(facts)]
    seen = sites_map(facts)
    parts.append(section("What is believed", seen.html() if seen else "", belief(facts).html()))
    parts.append(section("What comes next", _forecast(facts)))
    asked = costs(facts)
    paid = cards(facts.spent)
    known = "".join(f"<p>{escape(each)}</p>" for each in facts.expert)
    parts.append(section("What was asked, and paid", paid, known, asked.html() if asked else ""))
    parts.append(section("Stations", _stations(facts)))
    parts.append(section("History", story(facts).html() if len(facts.history) else "<p>Empty.</p>"))
    return page(
        title,
        f"As of {facts.when(facts.now)}, {len(facts.history)} rows",
        "".join(parts),
        f"tvbandits {__version__}",
        served=served,
        generator=generator_of(campaign),
    )


def generator_of(campaign: Watching) -> str:
    """What a page of a campaign says that it was made by and of."""
    return f"tvbandits campaign {campaign.id}"


def _next(facts: Facts) -> str:
    """Where to go, and why."""
    mean, deviation = facts.belief
    best = facts.best
    guess = f"{facts.names[best]}: {mean[best]:.4g} ± {2 * deviation[best]:.2g}"
    if not len(facts.pending):
        said = "Nothing is out. The next point is chosen when it is asked for."
        return _box(f"Best guess: {guess}", said)
    names = [facts.name_of(point) for point in facts.pending]
    rows = [facts.row_of(point) for point in facts.pending]
    why = []
    for name, row in zip(names, rows, strict=True):
        hoped = mean[row] + (-1 if facts.minimises else 1) * facts.width * deviation[row]
        if row == best:
            why.append(f"{name} is the best guess: {mean[row]:.4g} ± {2 * deviation[row]:.2g}.")
        else:
            why.append(
                f"{name} could reach {hoped:.4g} ({mean[row]:.4g} ± {2 * deviation[row]:.2g}); "
                f"the best guess is {guess}."
            )
    return _box("Go to " + ", ".join(names[:5]) + (" …" if len(names) > 5 else ""), *why[:5])


def _box(first: str, *more: str) -> str:
    said = "".join(f"<p>{escape(each)}</p>" for each in more)
    return f'<div class="now"><strong>{escape(first)}</strong>{said}</div>'


def _glance(facts: Facts) -> str:
    status, unit = facts.campaign.status, facts.campaign.about.get("length_unit", "")
    troubled = sum(bool(each.troubles) for each in facts.stations)
    return cards(
        [
            ("readings", status.told),
            ("failed", status.failed),
            ("out", status.pending),
            ("answers", status.answers),
            ("cost", float(status.cost)),
            (f"left to lose at most, width {facts.width:g}", facts.most_regret),
            ("stations in trouble", troubled),
            *([("length scales in", unit)] if unit else []),
        ]
    )


def _forecast(facts: Facts) -> str:
    """The best places of now, at times ahead."""
    mean, _ = facts.belief
    order = np.argsort(mean if facts.minimises else -mean)[:FORECAST_PLACES]
    times = [facts.now, *(facts.now + facts.spacing * step for step in SHOWN_AHEAD)]
    columns = [facts.campaign.predict(facts.places[order], t) for t in times]
    rows = [
        [facts.names[row], *(f"{m[i]:.4g} ± {2 * s[i]:.2g}" for m, s in columns)]
        for i, row in enumerate(order)
    ]
    header = ["place", *(facts.when(t) for t in times)]
    said = "Mean and two deviations, if nothing more is read."
    return f'{scrolled(table(header, rows), said)}<p class="soft">{said}</p>'


def _stations(facts: Facts) -> str:
    troubled = [each for each in facts.stations if each.troubles]
    rows: list[list[object]] = [
        [
            each.name,
            "; ".join(each.troubles) or "in order",
            each.readings,
            each.failed,
            facts.when(each.last_time) if np.isfinite(each.last_time) else "–",
            each.last_value,
        ]
        for each in facts.stations
    ]
    header = ["place", "state", "readings", "failed", "last", "value"]
    shown = scrolled(table(header, rows), "All stations")
    if not rows:
        return "<p>None has been read yet.</p>"
    if not troubled:
        return f"<p>All in order.</p><details><summary>All {len(rows)}</summary>{shown}</details>"
    said = "".join(
        f"<li>{escape(each.name)}: {escape('; '.join(each.troubles))}</li>" for each in troubled
    )
    return (
        f'<div class="now warn"><strong>{len(troubled)} in trouble</strong><ul>{said}</ul></div>'
        f"<details><summary>All {len(rows)}</summary>{shown}</details>"
    )
