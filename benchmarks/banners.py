"""Banners whose rates drift, beside discounted Thompson sampling: `python -m benchmarks.banners`.

3,000 visits and 8 banners of which 0.5 to 5% convert, drifting, with results that come 100 visits late.
Regret is in conversions per 1,000 visits; time is the processor's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import arguments, cell, clock, heading, line
from tvbandits import Arms, policies, rate
from tvbandits.validation import Array

VISITS, LATE = 3000, 100
ARMS = Arms([f"banner {i}" for i in range(8)])
# What nobody knows better of a share of visits.
CONVERTING = 0.02

DISCOUNTS = (0.998, 0.999, 0.9995, 1.0)


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


def main() -> None:
    """Print a row for each policy."""
    given = arguments(__doc__, seeds=3).parse_args()
    heading("policy", "conversions lost per 1,000 visits", "by seed", "ms a visit")
    for discount in (None, *DISCOUNTS):
        name, runs = "adaptive_gp_ucb", []
        for seed in range(given.seeds):
            if discount is None:
                bandit: Any = policies.adaptive_gp_ucb(ARMS, seed=seed)
            else:
                name = f"discounted_thompson, {discount:g}"
                bandit = policies.discounted_thompson(ARMS, discount=discount, seed=seed)
            runs.append(played(bandit, seed, as_rate=discount is None))
        regret, ms = np.array(runs).T
        by_seed = " ".join(f"{each:.2f}" for each in regret)
        line(name, cell(regret, ".1f"), by_seed, f"{ms.mean():.2f}")


if __name__ == "__main__":
    main()
