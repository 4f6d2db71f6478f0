"""Players of every policy in the register, on a line and on an interval."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Answers, Bandit, Box, Candidates
from tvbandits.acquisition.widths import Fixed
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.policies import POLICIES, Setting
from tvbandits.policies.rivals import opkb
from tvbandits.policies.rivals.opkb import strategy
from tvbandits.validation import Array

_strategies: dict[tuple[Any, ...], Array] = {}


def _strategy_once(features: Array, gaps: Array, weight: float, ridge: float) -> Array:
    """Cache the first design of ADA-OPKB, which takes a second and is the same for every player."""
    key = (features.shape, features.tobytes(), gaps.tobytes(), weight, ridge)
    if key not in _strategies:
        _strategies[key] = strategy(features, gaps, weight, ridge)
    return _strategies[key].copy()


opkb.strategy = _strategy_once

LINE = Candidates(np.linspace(0.0, 10.0, 41)[:, None])
INTERVAL = Box([[0.0, 10.0]])
KERNEL, NOISE = RBF(1.5), 0.01


SITES = Candidates(np.random.default_rng(5).uniform(0, 3, (10, 2)))


def tides(X: Array, t: float) -> Array:
    """Return a drifting reward over the sites."""
    return np.asarray(5.0 + np.sin(2.0 * X[:, 0] + t / 5.0) + 0.3 * np.cos(X.sum(axis=1) + t / 9.0))


def wave(X: Array, t: Any) -> Array:
    """Return a drifting reward."""
    return np.asarray(np.sin(X[:, 0] + 0.1 * np.asarray(t)))


def noisy_wave(X: Array, t: Any) -> Array:
    return wave(X, t) + 0.1 * keyed_normal(0, 3, X, np.broadcast_to(t, len(X)))


@dataclass
class RecordingWaveExpert:
    """An expert that answers `sign * wave`, and records its queries."""

    sign: float = 1.0
    variance: float = 0.02
    queries: list[tuple[Array, float]] = field(default_factory=list)

    def query(self, X: Array, t: float) -> Answers:
        self.queries.append((X.copy(), t))
        return Answers(self.sign * (wave(X, t) + 0.1 * keyed_normal(0, 4, X, t)), self.variance)


def setting(domain: Any = LINE, expert: Any = None, seed: int = 3) -> Setting:
    return Setting(
        domain,
        KERNEL,
        NOISE,
        horizon=60,
        variation=0.1,
        scale=1.0,
        forgetting_rate=0.03,
        information_gain=10.0,
        beta=Fixed(2.0),
        expert=lambda: RecordingWaveExpert() if expert is None else expert,
        seed=seed,
    )


def variants() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return every policy by name, and every one with an option `posterior` on the sparse posterior."""
    selected: dict[str, tuple[str, dict[str, Any]]] = {}
    for name, policy in POLICIES.items():
        # One point an ask, as a batch of samples may repeat pending points.
        options: dict[str, Any] = {"batch_size": 1} if "batch_size" in policy.parameters else {}
        selected[name] = (name, options)
        no_kernel = ("adaptive-gp-ucb", "frugal-gp-ucb")
        if "posterior" in policy.parameters and name not in (*no_kernel, "bkb", "bbkb"):
            selected[f"{name} sparse"] = (name, {**options, "posterior": "nystrom"})
    selected["thompson exact"] = ("thompson", {"batch_size": 1, "posterior": "exact"})
    return selected


VARIANTS = variants()
FINITE_RULES = ("predictive-sampling", "ada-opkb")
# Players without a Gaussian process that accounts for pending points.
RULES = ("uniform", "eps-greedy", "evolution", "w-dbo", "master", "lb-gp-ucb", *FINITE_RULES)
WITH_MODEL = [name for name in VARIANTS if name not in RULES]
FINITE_ONLY = [name for name in VARIANTS if name.startswith(("thompson", *FINITE_RULES))]
ON_INTERVAL = [name for name in VARIANTS if name not in FINITE_ONLY]
MINIMISING = [
    name for name, (policy, _) in VARIANTS.items() if "minimize" in POLICIES[policy].parameters
]


def make_player(
    variant: str, domain: Any = LINE, expert: Any = None, seed: int = 3, **more: Any
) -> Any:
    name, options = VARIANTS[variant]
    return POLICIES[name].make(setting(domain, expert, seed), **{**options, **more})


def kinds() -> list[str]:
    """Return one variant of each kind of player; bandits that differ only in aging are of one kind."""
    selected: dict[tuple[Any, ...], str] = {}
    for variant in VARIANTS:
        player = make_player(variant)
        kind: tuple[Any, ...] = (VARIANTS[variant][0],)
        if isinstance(player, Bandit):
            recipe = player.recipe
            parts = (
                recipe.posterior,
                recipe.acquisition,
                recipe.batching.rule,
                recipe.query_config,
            )
            kind = tuple(type(each) for each in parts)
        selected.setdefault(kind, variant)
    return list(selected.values())


# For tests of how points are selected, told and stored, not of what a model learns from them.
KINDS = kinds()
KINDS_AND_DOMAINS = [
    pytest.param(kind, domain, id=f"{kind}-{name}")
    for kind in KINDS
    for name, domain in (("line", LINE), ("interval", INTERVAL))
    if domain is LINE or kind in ON_INTERVAL
]


def warm_up(player: Any, domain: Any = LINE, steps: int = 9) -> Any:
    """Tell rewards at points in one half of the domain, and return the player."""
    rng = np.random.default_rng(5)
    for t in range(1, steps + 1):
        X = domain.check(np.round(rng.uniform(0, 5, (1, 1)) * 4) / 4)
        player.tell(X, noisy_wave(X, float(t)), float(t))
    return player


def step(player: Any, t: float, n: int | None = None, sign: float = 1.0) -> Array:
    X = player.ask(t, n)
    player.tell(X, sign * noisy_wave(X, t), t)
    return np.asarray(X)


def count_distinct(X: Array) -> int:
    """Return the number of points that differ by more than rounding."""
    return len(np.unique(np.round(X / 1e-6), axis=0))


def decision_deviation(bandit: Bandit, X: Array, t: float) -> Array:
    """Return the deviations (n,) of a decision at points (n, d), narrower than those of `predict`."""
    return bandit._inference.predict(bandit.state, X, t)[2]
