"""Banners whose rates drift, against discounted Thompson sampling: `python -m benchmarks.banners`.

The first table is visit by visit: 3,000 visits and 8 banners with drifting rates of 0.5 to 5%, and
results that come 100 visits late; regret is in conversions per 1,000 visits. The second (`--hourly`) is
hour by hour: six banners share 500 visits an hour for four weeks, with a daily cycle; regret is in
clicks. Its peer is Thompson sampling as users write it themselves (`PlainThompson`). Times are
processor times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import cell, clock, heading, line, make_parser
from tvbandits import Arms, policies, rate
from tvbandits.validation import Array, Index

VISITS, LATE = 3000, 100
ARMS = Arms([f"banner {i}" for i in range(8)])
# The usual rate, which sets the variance of a share of one visit.
USUAL_RATE = 0.02

DISCOUNTS = (0.998, 0.999, 0.9995, 1.0)

# Hour by hour.
SIX = Arms([f"banner {i}" for i in range(6)])
HOURS, VISITS_AN_HOUR = 28 * 24, 500
HOURLY_DISCOUNTS = (0.95, 0.97, 0.99, 0.999, 1.0)


def conversion_rates(seed: int) -> Array:
    """Return rates (VISITS, banners), the logarithms of which are waves between 0.5% and 5%."""
    rng = np.random.default_rng([seed, 8])
    period, phase = rng.uniform(2000, 6000, len(ARMS)), rng.uniform(0, 2 * np.pi, len(ARMS))
    wave = np.sin(2 * np.pi * np.arange(VISITS)[:, None] / period + phase)
    return np.asarray(0.005 * 10.0 ** (0.5 + 0.5 * wave))


def play_visits(bandit: Any, seed: int, *, as_rate: bool) -> tuple[float, float]:
    """Return regret and milliseconds a visit of a run whose rewards come `LATE` visits later."""
    rates = conversion_rates(seed)
    outcomes = np.random.default_rng([seed, 9]).random(rates.shape) < rates
    arms, elapsed = np.empty(VISITS, dtype=np.int64), 0.0
    for visit in range(VISITS):
        start = clock()
        arms[visit] = ARMS.index(bandit.ask(visit + 1.0))[0]
        elapsed += clock() - start
        late_visit = visit - LATE
        if late_visit >= 0:
            row = arms[[late_visit]]
            y = outcomes[late_visit, row].astype(float)
            start = clock()
            reward = rate(y, 1, around=USUAL_RATE) if as_rate else y
            bandit.tell(ARMS.X[row], reward, late_visit + 1.0)
            elapsed += clock() - start
    regret = rates.max(axis=1) - rates[np.arange(VISITS), arms]
    return 1e3 * float(regret.mean()), 1e3 * elapsed / VISITS


def hourly_rates(seed: int, *, drifts: bool) -> Array:
    """Return rates (HOURS, 6) of about 3%, which are four times as large by day as at night.

    The logarithms of the banners' rates deviate by 0.35. They are constant, or drift between two draws
    in a week.
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
    """Thompson sampling with discounted counts, in a dozen lines as users write it."""

    def __init__(self, arms: int, discount: float, seed: int) -> None:
        self.counts, self.discount = np.zeros((arms, 2)), discount
        self.rng = np.random.default_rng(seed)

    def split(self, visits: int, _: float) -> Index:
        """Return the number of visits (A,) of each arm."""
        a, b = self.counts.T
        draws = self.rng.beta(1.0 + a, 1.0 + b, (visits, len(a)))
        return np.bincount(draws.argmax(axis=1), minlength=len(a))

    def tell(self, clicks: Index, visits: Index, _: float) -> None:
        """Add the counts (A,) of an hour."""
        self.counts *= self.discount
        self.counts += np.column_stack([clicks, visits - clicks])


class SplittingBandit:
    """A bandit that splits the visits of an hour, and gets its counts."""

    def __init__(self, bandit: Any) -> None:
        self.bandit = bandit

    def split(self, visits: int, hour: float) -> Index:
        """Return the number of visits (A,) of each arm."""
        X = self.bandit.ask(hour, n=visits)
        self.bandit.drop(self.bandit.pending)
        return np.bincount(SIX.index(X), minlength=len(SIX))

    def tell(self, clicks: Index, visits: Index, hour: float) -> None:
        """Report the counts (A,) of an hour."""
        self.bandit.tell(SIX.X, rate(clicks, visits), hour)


def play_hours(player: Any, seed: int, *, drifts: bool) -> tuple[float, float]:
    """Return the regret of all hours in clicks, and milliseconds an hour."""
    rng, regret, elapsed = np.random.default_rng([seed, 11]), 0.0, 0.0
    for hour, rates in enumerate(hourly_rates(seed, drifts=drifts), start=1):
        start = clock()
        visits = player.split(VISITS_AN_HOUR, float(hour))
        elapsed += clock() - start
        regret += float(visits @ (rates.max() - rates))
        clicks = rng.binomial(visits, rates)
        start = clock()
        player.tell(clicks, visits, float(hour))
        elapsed += clock() - start
    return regret, 1e3 * elapsed / HOURS


def players(seed: int) -> dict[str, Any]:
    """Return the players of the second table by name."""
    adaptive = policies.adaptive_gp_ucb(SIX, seed=seed)
    control = policies.adaptive_gp_ucb(SIX, seed=seed).with_options(control=SIX.X[0])
    own = {"adaptive_gp_ucb": adaptive, "with a control": control}
    plain = {f"plain, {each:g}": PlainThompson(len(SIX), each, seed) for each in HOURLY_DISCOUNTS}
    return {name: SplittingBandit(each) for name, each in own.items()} | plain


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
            runs.append(play_visits(bandit, seed, as_rate=discount is None))
        regret, ms = np.array(runs).T
        by_seed = " ".join(f"{each:.2f}" for each in regret)
        line(name, cell(regret, ".1f"), by_seed, f"{ms.mean():.2f}")


def hour_by_hour(seeds: int) -> None:
    """Print a row for each player that splits the visits of an hour."""
    heading("player", "clicks lost, a winner that drifts", "a winner that stays", "ms an hour")
    equal = [
        [VISITS_AN_HOUR / 6 * (each.max(axis=1)[:, None] - each).sum() for each in both]
        for both in (
            [hourly_rates(seed, drifts=drifts) for seed in range(seeds)] for drifts in (True, False)
        )
    ]
    line("equal shares", *(cell(np.array(each), ".0f") for each in equal), "")
    for name in players(0):
        runs = np.array(
            [
                [play_hours(players(seed)[name], seed, drifts=drifts) for seed in range(seeds)]
                for drifts in (True, False)
            ]
        )
        regrets = [cell(each, ".0f") for each in runs[:, :, 0]]
        line(name, *regrets, f"{runs[0, :, 1].mean():.2f}")


def main() -> None:
    """Print one of the tables."""
    parser = make_parser(__doc__, seeds=3)
    parser.add_argument("--hourly", action="store_true", help="split the visits of each hour")
    options = parser.parse_args()
    (hour_by_hour if options.hourly else visit_by_visit)(options.seeds)


if __name__ == "__main__":
    main()
