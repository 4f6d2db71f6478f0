"""Whole runs of seven policies on the drifting bump, against their plain form.

Both sides have the same fixed prior mean and the width of the theory; the time is that of `ask` and
`tell`, less what the simulated expert takes to answer. The plain form decides at every step, but goes
where ours has gone: both see the same observations, and ties that rounding breaks do not part them.
Notes say how far the upper confidence bound of our point ever was below the plain form's best. The two
forms of SparQ-GP-UCB ask the expert about different random sets: there each goes its own way, and notes
give both regrets.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import Pair, Row, clock, course, summary
from benchmarks.plain import Forgetting, PlainSparQ, PlainUCB
from tvbandits import Candidates, Options, policies
from tvbandits.acquisition.widths import Theory
from tvbandits.comparison.compare import simulator
from tvbandits.comparison.setup import prepare
from tvbandits.datasets import DriftingBump
from tvbandits.experts.protocol import Answers, Expert
from tvbandits.policies import theory
from tvbandits.validation import Array

STEPS, MEAN = 500, 1.6
TARGET = 5.0
PROBLEM = DriftingBump(horizon=STEPS)
DOMAIN = Candidates(np.linspace(-50.0, 50.0, PROBLEM.candidates)[:, None])


# Makes a side for a seed.
Make = Callable[[int, Expert], Any]

# The prior mean and the width of both sides.
WIDTH: Any = {"beta": "theory", "options": Options(mean=MEAN)}


@dataclass
class TimedExpert:
    """The simulated expert, and the time of its answers."""

    expert: Expert
    seconds: float = 0.0

    def query(self, X: Array, t: float) -> Answers:
        """Ask it."""
        begun = clock()
        said = self.expert.query(X, t)
        self.seconds += clock() - begun
        return said


@dataclass
class Followed:
    """A player that keeps the points it plays; with `points`, it goes there whatever it chooses."""

    player: Any
    points: list[Array] | None = None
    played: list[Array] = field(default_factory=list)
    bounds: list[Array] = field(default_factory=list)

    def ask(self, t: float) -> Array:
        """Point of step t, shape (1, d)."""
        X = self.player.ask(t)
        if self.points is not None:
            self.bounds.append(self.player.ucb)
            X = self.points[len(self.played)]
        self.played.append(X)
        return np.asarray(X)

    def tell(self, X: Array, y: Array, t: float) -> None:
        """Learn its reward."""
        self.player.tell(X, y, t)

    @property
    def gap(self) -> float:
        """The most that the bound of a point followed was below the best bound."""
        pairs = zip(self.bounds, self.played, strict=False)
        gaps = (float(ucb.max() - ucb[DOMAIN.index(X)[0]]) for ucb, X in pairs)
        return max(gaps, default=0.0)


class Run(NamedTuple):
    """Points played, average regret, and seconds of asking and telling."""

    played: list[Array]
    regret: float
    seconds: float
    gap: float = 0.0


class Contest(NamedTuple):
    """A policy in both forms, each made for a seed and an expert."""

    name: str
    ours: Make
    plain: Make
    follows: bool = True


def play(make: Make, seed: int, points: list[Array] | None = None) -> Run:
    """One run with the noise of `seed`; it goes to the points, if they are given."""
    expert = TimedExpert(simulator(PROBLEM, seed))
    player = Followed(make(seed, expert), points)
    run = course(player, PROBLEM, seed, STEPS)
    taken = float(run.seconds.sum()) - expert.seconds
    return Run(player.played, float(run.regret.mean()), taken, player.gap)


def contests() -> list[Contest]:
    """The seven, with the parameters that their authors recommend.

    In the plain form forgetting is written out: times i of rewards and the last time t -> variances.
    """
    setting = prepare(PROBLEM.name, PROBLEM, 0, STEPS).setting_for(Theory(), None)
    period = window = theory.window_length(*setting.budgets)
    discount, epsilon = theory.discount(*setting.budgets), setting.forgetting_rate
    rate = 2 * (1 - (1 - epsilon) ** 0.5) * setting.scale**2
    s2 = PROBLEM.noise_variance
    parts: Any = {"domain": DOMAIN, "kernel": RBF(3.5), "noise_variance": s2}

    def plain(forgetting: Forgetting, epsilon: float = 0.0) -> PlainUCB:
        return PlainUCB(DOMAIN.X, 3.5, s2, MEAN, forgetting, epsilon)

    def never(i: Array, t: int) -> Array:  # noqa: ARG001
        return np.full(len(i), s2)

    def discarded(i: Array, t: int) -> Array:
        grown = s2 * (1 + (t - i) ** 2)
        return np.where((grown > s2 * np.log(max(t, 1))) & (i < t), np.inf, grown)

    def contest(
        name: str, policy: Any, forgetting: Forgetting, epsilon: float = 0.0, **options: Any
    ) -> Contest:
        return Contest(
            name,
            lambda seed, _: policy(**parts, **WIDTH, seed=seed, **options),
            lambda *_: plain(forgetting, epsilon),
        )

    return [
        contest("gp-ucb", policies.gp_ucb, never),
        contest(
            f"r-gp-ucb, reset every {period}",
            policies.r_gp_ucb,
            lambda i, t: np.where((i - 1) // period == t // period, s2, np.inf),
            reset_every=period,
        ),
        contest(
            f"sw-gp-ucb, window {window}",
            policies.sw_gp_ucb,
            lambda i, t: np.where(i > t - window, s2, np.inf),
            window=window,
        ),
        contest(
            f"w-gp-ucb, discount {discount:.3f}",
            policies.w_gp_ucb,
            lambda i, t: s2 / discount ** (t + 1 - i),
            discount=discount,
        ),
        contest(
            f"tv-gp-ucb, epsilon {epsilon:.3f}",
            policies.tv_gp_ucb,
            never,
            epsilon,
            forgetting_rate=epsilon,
        ),
        contest(
            f"ui-gp-ucb, rate {rate:.4f}",
            policies.ui_gp_ucb,
            lambda i, t: s2 + rate * (t + 1 - i),
            forgetting_rate=rate,
        ),
        Contest(
            "sparq-gp-ucb",
            lambda seed, expert: policies.sparq_gp_ucb(**parts, expert=expert, **WIDTH, seed=seed),
            lambda seed, expert: PlainSparQ(
                DOMAIN.X, 3.5, s2, MEAN, discarded, seed=seed, expert=expert
            ),
            follows=False,
        ),
    ]


def agreement(contest: Contest, ours: Sequence[Run], plain: Sequence[Run]) -> str:
    """How both forms agree."""
    mine, theirs = (statistics.mean(run.regret for run in runs) for runs in (ours, plain))
    if not contest.follows:
        return f"average regret {mine:.3f}, plain {theirs:.3f}"
    within = f"{max(1e-15, *(run.gap for run in plain)):.0e}"
    return f"average regret {mine:.3f}; our points are the plain form's best within {within}"


def rows(repeats: int, tables: Path | None = None) -> list[Row]:  # noqa: ARG001 - one face
    """A row for each policy, and one of all of them."""
    made, every = [], []
    for contest in contests():
        ours = [play(contest.ours, seed) for seed in range(repeats)]
        plain = [
            play(contest.plain, seed, run.played if contest.follows else None)
            for seed, run in enumerate(ours)
        ]
        pairs = [Pair(a.seconds, b.seconds) for a, b in zip(ours, plain, strict=True)]
        note = agreement(contest, ours, plain)
        made.append(summary("policies", contest.name, pairs, note=note))
        every.append(pairs)
    totals = [
        Pair(sum(pair.ours for pair in one), sum(pair.peer for pair in one))
        for one in zip(*every, strict=True)
    ]
    note = f"{STEPS} steps each"
    made.append(summary("policies", "total of the seven", totals, target=TARGET, note=note))
    return made
