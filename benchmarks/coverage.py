"""Coverage of 95% intervals: `python -m benchmarks.coverage [--seeds 3] [--no-expert]`.

`frugal_gp_ucb` (three answers a step), or with `--no-expert` `adaptive_gp_ucb`, plays synthetic
problems of finite candidates and some networks. In every fourth step, from the twentieth on, it
predicts the *true value* at all candidates: for the present, before its reward, and two steps ahead.
The table has the share of intervals that contain it, and in brackets the smallest share of a seed.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness import DATA, heading, line, make_parser
from tvbandits import Bandit, policies
from tvbandits.comparison.arguments import make_problem
from tvbandits.domains.problem import get_added_noise, get_mean_noise
from tvbandits.validation import Array

OZONE = DATA / "ozone" / "daily_44201_2021.zip"
WIND = [DATA / "networks" / f"ireland_wind_{kind}.csv" for kind in ("daily", "sites")]
PROBLEMS = {
    "drifting-bump:candidates=101": [],
    **{name: [] for name in ("gp-drift", "switching", "mandl", "exoskeleton", "bogunovic")},
    **{name: [] for name in ("ozone-network", "ar-arms", "switching-arms")},
    **{
        f"ozone:state={state},start=2021-05-01,end=2021-09-30": [OZONE]
        for state in ("Colorado", "Virginia", "Kentucky")
    },
    "sensor-field:start=1965-01-01,end=1965-12-31,noise_variance=0.25": WIND,
}
STEPS, FIRST, EVERY, AHEAD = 60, 20, 4, (0, 2)


def make_bandit(problem: Any, seed: int, has_expert: bool) -> Bandit:
    """Return the policy for a problem."""
    noise = get_mean_noise(problem)
    if not has_expert:
        return policies.adaptive_gp_ucb(problem.domain, noise_variance=noise, seed=seed)
    return policies.frugal_gp_ucb(
        problem.domain, noise_variance=noise, expert=None, queries_per_step=3, seed=seed
    )


def coverage(bandit: Bandit, problem: Any, seed: int, has_expert: bool) -> Array:
    """Return the share of intervals that contain the value, shape (len(AHEAD),)."""
    rng, X = np.random.default_rng([seed, 12]), problem.domain.X
    deviation, shares = math.sqrt(get_added_noise(problem)), []

    def read(points: Array, t: float) -> Array:
        return np.asarray(problem.value(points, t) + deviation * rng.standard_normal(len(points)))

    for step in range(1, STEPS + 1):
        t = float(step)
        point = bandit.ask(t)
        if step >= FIRST and step % EVERY == 0:
            forecasts = [bandit.predict(X, t + h) for h in AHEAD]
            errors = [problem.value(X, t + h) - f[0] for h, f in zip(AHEAD, forecasts, strict=True)]
            half_widths = 1.96 * np.array([forecast[1] for forecast in forecasts])
            shares.append((np.abs(errors) < half_widths).mean(axis=1))
        bandit.tell(point, read(point, t), t)
        if has_expert and len(points := bandit.questions()):
            bandit.answer(points, read(points, t))
    return np.asarray(np.mean(shares, axis=0))


def main() -> None:
    """Print a row for each problem."""
    parser = make_parser(__doc__, seeds=3)
    parser.add_argument("--no-expert", action="store_true", help="a policy without an expert")
    options = parser.parse_args()
    heading("problem", "the present", "two steps ahead")
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for name, files in PROBLEMS.items():
            problem: Any = make_problem(name, files, STEPS + max(AHEAD))
            shares = []
            for seed in range(options.seeds):
                real = problem.realise(seed) if hasattr(problem, "realise") else problem
                bandit = make_bandit(real, seed, not options.no_expert)
                shares.append(coverage(bandit, real, seed, not options.no_expert))
            each = zip(np.mean(shares, axis=0), np.min(shares, axis=0), strict=True)
            line(name, *(f"{mean:.1%} ({lowest:.1%})" for mean, lowest in each))


if __name__ == "__main__":
    main()
