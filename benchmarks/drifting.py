"""What benchmarks on the drifting bump share: a run of a named policy, timed step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import clock
from benchmarks.runs import TimedExpert
from tvbandits import Candidates, policies
from tvbandits.acquisition.confidence import Theory
from tvbandits.bandit.bandit import Bandit
from tvbandits.comparison.compare import simulated
from tvbandits.comparison.setup import REWARD_NOISE, prepare
from tvbandits.core.arrays import Array
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.datasets import DriftingBump
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom

WINDOW, DISCOUNT = 16, 0.935
LENGTH = 3.5


@dataclass(frozen=True)
class Course:
    """A run: regret and processor seconds of every step, and the bandit at its end."""

    regret: Array
    seconds: Array
    bandit: Bandit


def epsilon(problem: DriftingBump) -> float:
    """The drift rate that the log evidence of a first sample gives."""
    return prepare(problem.name, problem, 0, 500).setting(Theory(), None).epsilon


def bandit(
    name: str,
    posterior: Exact | Nystrom,
    seed: int,
    problem: DriftingBump,
    expert: TimedExpert,
    confidence: float | str,
) -> Bandit:
    """The policy of that name."""
    domain = problem.domain
    assert isinstance(domain, Candidates)
    parts = (domain, RBF(LENGTH), problem.noise_variance)
    own: dict[str, Any] = {
        "gp-ucb": dict,
        "sw-gp-ucb": lambda: {"window": WINDOW},
        "w-gp-ucb": lambda: {"discount": DISCOUNT},
        "tv-gp-ucb": lambda: {"epsilon": epsilon(problem)},
        "sparq-gp-ucb": lambda: {"expert": expert},
    }
    make = getattr(policies, name.replace("-", "_"))
    return make(*parts, **own[name](), posterior=posterior, seed=seed, confidence=confidence)  # type: ignore[no-any-return]


def course(
    name: str,
    posterior: Exact | Nystrom,
    seed: int,
    horizon: int,
    *,
    confidence: float | str = "theory",
) -> Course:
    """Play `horizon` steps; the time of the expert's answers is not counted."""
    problem = DriftingBump(horizon=horizon)
    expert = TimedExpert(simulated(problem, seed))
    player = bandit(name, posterior, seed, problem, expert, confidence)
    regret, seconds = np.empty(horizon), np.empty(horizon)
    for step in range(horizon):
        t = step + 1.0
        answering = expert.seconds
        begun = clock()
        X = player.ask(t)
        asked = clock() - begun
        truth = problem.value(X, t)
        y = truth + problem.noise_variance**0.5 * keyed_normal(seed, REWARD_NOISE, X, t)
        begun = clock()
        player.tell(X, y, t)
        seconds[step] = asked + clock() - begun - (expert.seconds - answering)
        regret[step] = problem.best(t) - float(truth[0])
    return Course(regret, seconds, player)
