"""What learning costs: whole runs of policies that learn how fast the reward changes.

A run with learning is timed against a run of the same bandit that learns nothing and starts with what
the first has come to: the kernel it ended with, or the pace of its aging map. Both meet the same noise.
The time is that of `ask` and `tell`, less what the simulated expert takes to answer.

Here "peer" is the run with learning and "ours" the one without, so that the ratio says how many times
as long a run takes with learning: small is good, and `MOST` is aimed at.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Row, alternate, clock, summary
from tvbandits import Answers, Bandit, Expert
from tvbandits.acquisition.confidence import as_confidence
from tvbandits.comparison.compare import simulated
from tvbandits.comparison.setup import REWARD_NOISE, Prepared, played, prepare
from tvbandits.core.arrays import Array
from tvbandits.core.protocols import Problem
from tvbandits.datasets import DriftingBump, ozone_network
from tvbandits.policies import POLICIES

MOST = 3.0
"""A run with learning is to take at most so many times as long as one without."""

WIDTH = 2.0

LEARNERS: dict[str, dict[str, Any]] = {
    "adaptive-gp-ucb": {},
    "frugal-gp-ucb": {},
    "ui-gp-ucb": {"learn": True},
    "w-gp-ucb": {"learn": True},
    "sparq-gp-ucb": {"learn": True},
}
"""The policies that learn, and the parameters that make them do so."""


@dataclass
class Watch:
    """Processor time of asking and telling so far; the expert's answers do not count."""

    seconds: float = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.seconds


@dataclass(frozen=True)
class Unclocked:
    """An expert whose answers take no time on a watch."""

    expert: Expert
    watch: Watch

    def query(self, X: Array, t: float) -> Answers:
        """Ask it."""
        begun = clock()
        said = self.expert.query(X, t)
        self.watch.seconds -= clock() - begun
        return said


@dataclass(frozen=True)
class Run:
    """A bandit after its last step, and its average regret."""

    bandit: Bandit
    regret: float


@dataclass(frozen=True)
class Contest:
    """A policy with learning and without, on one realisation of a problem for each seed.

    Attributes
    ----------
    policy : str
    prepared : sequence of Prepared
        For the seeds 0, 1, ...
    watch : Watch
    """

    policy: str
    prepared: Sequence[Prepared]
    watch: Watch = field(default_factory=Watch)

    def learner(self, seed: int) -> Bandit:
        """The bandit that learns."""
        known = self.prepared[seed]
        expert = Unclocked(simulated(known.problem, seed), self.watch)
        setting = known.setting(as_confidence(WIDTH), lambda *_: expert)
        made = POLICIES[self.policy].make(setting, **LEARNERS[self.policy])
        assert isinstance(made, Bandit)
        return made

    def knower(self, seed: int, ended: Bandit) -> Bandit:
        """The same without learning, from what the bandit `ended` has learned."""
        state = ended.state
        recipe = self.learner(seed).recipe
        fixed = replace(recipe, learn=None, kernel=state.model.kernel, aging=state.model.aging)
        return Bandit(fixed, seed=seed)

    def play(self, bandit: Bandit, seed: int) -> Run:
        """One run; only asking and telling are clocked."""
        known, watch, regret = self.prepared[seed], self.watch, 0.0
        for step in range(1, known.horizon + 1):
            t = float(step)
            begun = clock()
            X = bandit.ask(t)
            watch.seconds += clock() - begun
            rewards, told = played(known.problem, X, np.array([t]), seed, REWARD_NOISE)
            begun = clock()
            bandit.tell(X, told, t)
            watch.seconds += clock() - begun
            regret += known.problem.best(t) - float(rewards[0])
        return Run(bandit, regret / known.horizon)

    def row(self) -> Row:
        """The row of this contest, a repeat for each seed."""
        # What was learned must be known beforehand; this also warms up.
        learned = [self.play(self.learner(seed), seed) for seed in range(len(self.prepared))]
        fixed: dict[int, float] = {}

        def without(seed: int) -> None:
            fixed[seed] = self.play(self.knower(seed, learned[seed].bandit), seed).regret

        def with_learning(seed: int) -> None:
            self.play(self.learner(seed), seed)

        pairs = alternate(without, with_learning, len(self.prepared), timer=self.watch)
        case = f"{self.policy}, {self.prepared[0].label}"
        made = summary("learning / none", case, pairs)
        return replace(made, note=described(made.ratio, learned, list(fixed.values())))


def described(ratio: float, learned: Sequence[Run], fixed: Sequence[float]) -> str:
    """Whether learning costs as little as is aimed at, and what came of the runs."""
    bandits = [run.bandit for run in learned]
    fits = statistics.median(bandit.info.model.fits for bandit in bandits)
    looks = [
        b.state.model.learned.evaluations for b in bandits if b.state.model.learned is not None
    ]
    looked = f" with {statistics.median(looks):g} looks at the evidence" if looks else ""
    regret = statistics.mean(run.regret for run in learned)
    verdict = "kept" if ratio <= MOST else "MISSED"
    return (
        f"ratio = with learning / without, at most {MOST:g}: {verdict}; {fits:g} fits{looked}; average "
        f"regret {regret:.3f}, without {statistics.mean(fixed):.3f}"
    )


def problems() -> tuple[Problem, ...]:
    """Where it is measured."""
    return DriftingBump(horizon=500), ozone_network(days=365)


def rows(repeats: int, tables: Path | None = None) -> list[Row]:  # noqa: ARG001 - reads no tables
    """A row for each problem and policy."""
    made = []
    for problem in problems():
        prepared = [
            prepare(problem.name, problem, seed, problem.horizon) for seed in range(repeats)
        ]
        made += [Contest(policy, prepared).row() for policy in LEARNERS]
    return made
