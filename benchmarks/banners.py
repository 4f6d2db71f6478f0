"""Banners whose rates drift, beside discounted Thompson sampling: `python -m benchmarks.banners`.

Two tables. Visit by visit: 3,000 visits and 8 banners of which 0.5 to 5% convert, drifting, with results
that come 100 visits late; regret is in conversions per 1,000 visits. Hour by hour (`--hourly`): six
banners share 500 visits an hour for four weeks, under a daily cycle; regret is in clicks. There the
rival is Thompson sampling as people write it themselves (`PlainThompson`). Time is the processor's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import arguments, cell, clock, heading, line
from tvbandits import Arms, policies, rate
from tvbandits.validation import Array, Index

VISITS, LATE = 3000, 100
ARMS = Arms([f"banner {i}" for i in range(8)])
# What nobody knows better of a share of visits.
CONVERTING = 0.02

DISCOUNTS = (0.998, 0.999, 0.9995, 1.0)

# Hour by hour.
SIX = Arms([f"banner {i}" for i in range(6)])
HOURS, AN_HOUR = 28 * 24, 500
HOURLY_DISCOUNTS = (0.95, 0.97, 0.99, 0.999, 1.0)


def converting(seed: int) -> Array:
    """Chances (VISITS, banners), each a wave of the logarithm between 0.5% and 5%."""
    rng = np.random.default_rng([seed, 8])
    period, phase = rng.uniform(2000, 6000, len(ARMS)), rng.uniform(0, 2 * np.pi, len(ARMS))
    wave = np.sin(2 * np.pi * np.arange(VISITS)[:, None] / period + phase)
    return np.asarray(0.005 * 10.0 ** (0.5 + 0.5 * wave))


def played(bandit: Any, seed: int, *, as_rate: bool) -> tuple[float, float]:
    """Regret, and milliseconds of a visit; what came of it is told `LATE` visits later."""
    chances = converting(seed)
    converted = np.random.default_rng([seed, 9]).random(chances.shape) < chances
    shown, taken = np.empty(VISITS, dtype=np.int64), 0.0
    for visit in range(VISITS):
        begun = clock()
        shown[visit] = ARMS.index(bandit.ask(visit + 1.0))[0]
        taken += clock() - begun
        known = visit - LATE
        if known >= 0:
            row = shown[[known]]
            y = converted[known, row].astype(float)
            begun = clock()
            told = rate(y, 1, around=CONVERTING) if as_rate else y
            bandit.tell(ARMS.X[row], told, known + 1.0)
            taken += clock() - begun
    missed = chances.max(axis=1) - chances[np.arange(VISITS), shown]
    return 1e3 * float(missed.mean()), 1e3 * taken / VISITS


def hourly(seed: int, *, drifts: bool) -> Array:
    """Chances (HOURS, 6) around 3%, by day four times what they are at night.

    The logarithms of the banners deviate by 0.35. They stay, or go from one draw to another in a week.
    """
    rng = np.random.default_rng([seed, 10])
    effects = 0.35 * rng.standard_normal((5, len(SIX)))
    hours, weeks = np.arange(HOURS), np.arange(5) * 7 * 24
    if drifts:
        logarithm = np.column_stack([np.interp(hours, weeks, each) for each in effects.T])
    else:
        logarithm = np.repeat(effects[:1], HOURS, axis=0)
    day = 1.0 + 0.6 * np.cos(2 * np.pi * (hours - 14) / 24)
    return np.asarray(0.03 * day[:, None] * np.exp(logarithm))


class PlainThompson:
    """Thompson sampling with discounted counts, in a dozen lines as anybody writes it."""

    def __init__(self, arms: int, discount: float, seed: int) -> None:
        self.counts, self.discount = np.zeros((arms, 2)), discount
        self.rng = np.random.default_rng(seed)

    def share(self, visits: int, _: float) -> Index:
        """Return how many visits (A,) each arm gets."""
        a, b = self.counts.T
        draws = self.rng.beta(1.0 + a, 1.0 + b, (visits, len(a)))
        return np.bincount(draws.argmax(axis=1), minlength=len(a))

    def tell(self, clicks: Index, shown: Index, _: float) -> None:
        """Take in the counts (A,) of an hour."""
        self.counts *= self.discount
        self.counts += np.column_stack([clicks, shown - clicks])


class Shared:
    """A bandit that shares out visits, and is told the counts of an hour."""

    def __init__(self, bandit: Any) -> None:
        self.bandit = bandit

    def share(self, visits: int, hour: float) -> Index:
        """Return how many visits (A,) each arm gets."""
        X = self.bandit.ask(hour, n=visits)
        self.bandit.drop(self.bandit.pending)
        return np.bincount(SIX.index(X), minlength=len(SIX))

    def tell(self, clicks: Index, shown: Index, hour: float) -> None:
        """Take in the counts (A,) of an hour."""
        self.bandit.tell(SIX.X, rate(clicks, shown), hour)


def lost_clicks(player: Any, seed: int, *, drifts: bool) -> tuple[float, float]:
    """Clicks lost in all hours, and milliseconds of an hour."""
    rng, lost, taken = np.random.default_rng([seed, 11]), 0.0, 0.0
    for hour, chances in enumerate(hourly(seed, drifts=drifts), start=1):
        begun = clock()
        shown = player.share(AN_HOUR, float(hour))
        taken += clock() - begun
        lost += float(shown @ (chances.max() - chances))
        clicks = rng.binomial(shown, chances)
        begun = clock()
        player.tell(clicks, shown, float(hour))
        taken += clock() - begun
    return lost, 1e3 * taken / HOURS


def players(seed: int) -> dict[str, Any]:
    """Those that share out visits hour by hour, by name."""
    adaptive = policies.adaptive_gp_ucb(SIX, seed=seed)
    control = policies.adaptive_gp_ucb(SIX, seed=seed).with_options(control=SIX.X[0])
    own = {"adaptive_gp_ucb": adaptive, "with a control": control}
    plain = {f"plain, {each:g}": PlainThompson(len(SIX), each, seed) for each in HOURLY_DISCOUNTS}
    return {name: Shared(each) for name, each in own.items()} | plain


def visit_by_visit(seeds: int) -> None:
    """Print a row for each policy that shows one banner at a time."""
    heading("policy", "conversions lost per 1,000 visits", "by seed", "ms a visit")
    for discount in (None, *DISCOUNTS):
        name, runs = "adaptive_gp_ucb", []
        for seed in range(seeds):
            if discount is None:
                bandit: Any = policies.adaptive_gp_ucb(ARMS, seed=seed)
            else:
                name = f"discounted_thompson, {discount:g}"
                bandit = policies.discounted_thompson(ARMS, discount=discount, seed=seed)
            runs.append(played(bandit, seed, as_rate=discount is None))
        regret, ms = np.array(runs).T
        by_seed = " ".join(f"{each:.2f}" for each in regret)
        line(name, cell(regret, ".1f"), by_seed, f"{ms.mean():.2f}")


def hour_by_hour(seeds: int) -> None:
    """Print a row for each player that shares out the visits of an hour."""
    heading("player", "clicks lost, a winner that drifts", "a winner that stays", "ms an hour")
    equal = [
        [AN_HOUR / 6 * (each.max(axis=1)[:, None] - each).sum() for each in both]
        for both in (
            [hourly(seed, drifts=drifts) for seed in range(seeds)] for drifts in (True, False)
        )
    ]
    line("equal shares", *(cell(np.array(each), ".0f") for each in equal), "")
    for name in players(0):
        runs = np.array(
            [
                [lost_clicks(players(seed)[name], seed, drifts=drifts) for seed in range(seeds)]
                for drifts in (True, False)
            ]
        )
        lost = [cell(each, ".0f") for each in runs[:, :, 0]]
        line(name, *lost, f"{runs[0, :, 1].mean():.2f}")


def main() -> None:
    """Print one of the tables."""
    parser = arguments(__doc__, seeds=3)
    parser.add_argument(
        "--hourly", action="store_true", help="the visits of an hour are shared out"
    )
    given = parser.parse_args()
    (hour_by_hour if given.hourly else visit_by_visit)(given.seeds)


if __name__ == "__main__":
    main()
