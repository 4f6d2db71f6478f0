"""How many first plays a function needs: mean regret, and in brackets that of the worst seed.

    python -m benchmarks.first_plays [--seeds 20] [--counts 5 8] [--problems NAME ...]

`adaptive_gp_ucb` plays so many points that tell most before it plays upper bounds (`SpreadFirst`). A run
is lost that settles beside the best for good: its regret over the last hundred steps is that of the hill
beside it, and nothing brings it back. Eight was chosen on the first ten seeds of `drifting-bump`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.harness import arguments, heading, line
from tvbandits import Bandit, compare, policies
from tvbandits.acquisition.rules import SpreadFirst
from tvbandits.policies import Setting

EARLY = 120
PROBLEMS = (
    "drifting-bump", "gp-drift:epsilon=0.01", "gp-drift:epsilon=0.03", "gp-drift:epsilon=0.1",
    "switching", "new-peak", "berkenkamp-toy", "exoskeleton", "xopt-drift", "field-bumps",
    "field-waves", "field-tide", "ar-arms:horizon=300", "bogunovic:horizon=120",
)  # fmt: skip


def with_first_plays(count: int) -> Callable[[Setting], Bandit]:
    """Return a maker of the policy with so many first plays."""

    def make(setting: Setting) -> Bandit:
        bandit = policies.adaptive_gp_ucb(setting.domain, noise_variance=setting.noise_variance)
        recipe = replace(bandit.recipe, acquisition=SpreadFirst(count))
        return Bandit(recipe, seed=setting.seed)

    return make


def main() -> None:
    """Play and print the table."""
    parser = arguments(__doc__, seeds=20)
    parser.add_argument("--counts", type=int, nargs="+", default=[5, 8], metavar="N")
    parser.add_argument("--problems", nargs="+", default=PROBLEMS, metavar="NAME")
    given = parser.parse_args()
    columns = [f"{n} first, {steps}" for steps in (f"{EARLY} steps", "all") for n in given.counts]
    heading("problem", *columns)
    for problem in given.problems:
        makers = {str(count): with_first_plays(count) for count in given.counts}
        rows = compare(problem, makers, seeds=given.seeds)
        early = rows[rows.groupby(["policy", "seed"]).cumcount() < EARLY]
        cells = []
        for part in (early, rows):
            regret = part.groupby(["policy", "seed"]).regret.mean().unstack()
            cells += [
                f"{np.mean(regret.loc[str(n)]):.3f} ({np.max(regret.loc[str(n)]):.3f})"
                for n in given.counts
            ]
        line(problem, *cells)


if __name__ == "__main__":
    main()
