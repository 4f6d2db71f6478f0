"""Whole runs of seven policies on the drifting bump, against their plain form.

Both sides play the same realisation with a fixed prior mean and the width of the theory; the time is that
of `ask` and `tell`, the expert included. Notes say whether both played the same points.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import Pair, Row, summary
from benchmarks.plain import PlainSparQ, PlainUCB
from tvbandits import policies, recommended
from tvbandits.compare import simulated
from tvbandits.confidence import Theory
from tvbandits.datasets import DriftingBump
from tvbandits.observations import Array, keyed_normal
from tvbandits.prepare import REWARD_NOISE, prepare

STEPS, SEED, MEAN = 500, 0, 1.6
TARGET = 5.0
PROBLEM = DriftingBump(horizon=STEPS)


class Player(Protocol):
    """Either side."""

    def ask(self, t: float) -> Array:
        """Point of step t, shape (1, d)."""
        ...

    def tell(self, X: Array, y: Array, t: float) -> Any:
        """Learn its reward."""
        ...


@dataclass(frozen=True)
class Run:
    """Points played (T,), average regret, and seconds of asking and telling."""

    played: Array
    regret: float
    seconds: float


@dataclass(frozen=True)
class Contest:
    """A policy in both forms."""

    name: str
    ours: Callable[[], Player]
    plain: Callable[[], Player]


def play(player: Player) -> Run:
    """One run."""
    taken, regret = 0.0, 0.0
    played = np.empty(STEPS)
    for step in range(1, STEPS + 1):
        t = float(step)
        begun = time.perf_counter()
        X = player.ask(t)
        taken += time.perf_counter() - begun
        truth = PROBLEM.value(X, t)
        y = truth + PROBLEM.noise_variance**0.5 * keyed_normal(SEED, REWARD_NOISE, X, t)
        begun = time.perf_counter()
        player.tell(X, y, t)
        taken += time.perf_counter() - begun
        regret += PROBLEM.best(t) - float(truth[0])
        played[step - 1] = X[0, 0]
    return Run(played, regret / STEPS, taken)


def contests() -> list[Contest]:
    """The seven, with the parameters that their authors recommend.

    In the plain form forgetting is written out: times i of rewards and the last time t -> variances.
    """
    setting = prepare(PROBLEM.name, PROBLEM, SEED, STEPS).setting(Theory(), None)
    period, window = (
        recommended.reset_period(*setting.budgets),
        recommended.window_length(*setting.budgets),
    )
    discount, epsilon = recommended.discount(*setting.budgets), setting.epsilon
    rate = 2 * (1 - (1 - epsilon) ** 0.5) * setting.scale**2
    s2 = PROBLEM.noise_variance
    parts = (PROBLEM.domain, RBF(3.5), s2)

    def plain(forgetting: Callable[[Array, int], Array], epsilon: float = 0.0) -> PlainUCB:
        return PlainUCB(PROBLEM.domain.X, 3.5, s2, MEAN, forgetting, epsilon, seed=SEED)  # type: ignore[union-attr]

    def never(i: Array, t: int) -> Array:  # noqa: ARG001
        return np.full(len(i), s2)

    def discarded(i: Array, t: int) -> Array:
        grown = s2 * (1 + (t - i) ** 2)
        return np.where((grown > s2 * np.log(max(t, 1))) & (i < t), np.inf, grown)

    return [
        Contest(
            "gp-ucb",
            lambda: policies.gp_ucb(*parts, mean=MEAN, seed=SEED),
            lambda: plain(never),
        ),
        Contest(
            f"r-gp-ucb, reset every {period}",
            lambda: policies.r_gp_ucb(*parts, reset_every=period, mean=MEAN, seed=SEED),
            lambda: plain(lambda i, t: np.where((i - 1) // period == t // period, s2, np.inf)),
        ),
        Contest(
            f"sw-gp-ucb, window {window}",
            lambda: policies.sw_gp_ucb(*parts, window=window, mean=MEAN, seed=SEED),
            lambda: plain(lambda i, t: np.where(i > t - window, s2, np.inf)),
        ),
        Contest(
            f"w-gp-ucb, discount {discount:.3f}",
            lambda: policies.w_gp_ucb(*parts, discount=discount, mean=MEAN, seed=SEED),
            lambda: plain(lambda i, t: s2 / discount ** (t + 1 - i)),
        ),
        Contest(
            f"tv-gp-ucb, epsilon {epsilon:.3f}",
            lambda: policies.tv_gp_ucb(*parts, epsilon=epsilon, mean=MEAN, seed=SEED),
            lambda: plain(never, epsilon),
        ),
        Contest(
            f"ui-gp-ucb, rate {rate:.4f}",
            lambda: policies.ui_gp_ucb(*parts, rate=rate, mean=MEAN, seed=SEED),
            lambda: plain(lambda i, t: s2 + rate * (t + 1 - i)),
        ),
        Contest(
            "sparq-gp-ucb",
            lambda: policies.sparq_gp_ucb(
                *parts, expert=simulated(PROBLEM, SEED), mean=MEAN, seed=SEED
            ),
            lambda: PlainSparQ(
                PROBLEM.domain.X,  # type: ignore[union-attr]
                3.5,
                s2,
                MEAN,
                discarded,
                seed=SEED,
                expert=simulated(PROBLEM, SEED),
            ),
        ),
    ]


def agreement(ours: Run, plain: Run) -> str:
    """Where the two runs part, if they do, and their regrets."""
    differ = np.flatnonzero(ours.played != plain.played)
    if len(differ) == 0:
        return f"same {STEPS} points; average regret {ours.regret:.3f}"
    return (
        f"{STEPS - len(differ)} of {STEPS} points the same, the first that differs at step "
        f"{differ[0] + 1}; average regret {ours.regret:.3f}, plain {plain.regret:.3f}"
    )


def rows(repeats: int) -> list[Row]:
    """A row for each policy, and two totals."""
    both = contests()
    pairs: dict[str, list[Pair]] = {contest.name: [] for contest in both}
    notes: dict[str, str] = {}
    for _ in range(repeats):
        for contest in both:
            ours, plain = play(contest.ours()), play(contest.plain())
            pairs[contest.name].append(Pair(ours.seconds, plain.seconds))
            notes[contest.name] = agreement(ours, plain)
    made = [summary("policies", name, found, note=notes[name]) for name, found in pairs.items()]
    without = [name for name in pairs if not name.startswith("sparq")]
    for case, names, target in [
        ("total of the seven", list(pairs), TARGET),
        ("total without sparq-gp-ucb", without, None),
    ]:
        totals = [
            Pair(sum(pair.ours for pair in one), sum(pair.peer for pair in one))
            for one in zip(*(pairs[name] for name in names), strict=True)
        ]
        made.append(summary("policies", case, totals, target=target, note=f"{STEPS} steps each"))
    return made
