"""Every named policy as it comes, on what the world is made of: none may crash, or predict no number.

A world is a network, a grid or a box, on which the reward is a sum of lasting differences, seasons,
tides, random walks and jumps, in any unit, read with noise, late or not at all, for 100 to 2,000 steps;
half of them are played by what learns by itself. A world ends early when it has taken its seconds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from tests.attack.bandits import Sometimes, extent_of
from tests.attack.report import WRONG, Count, Found, Trial, in_the_loop
from tvbandits import Box, Candidates
from tvbandits.policies import POLICIES, Setting
from tvbandits.validation import Array

COUNT, QUICK = 300, 6
SECONDS, QUICK_SECONDS = 30.0, 1.0
FEATURES = 12
# Policies that take no kernel, and learn one or hold models of their own.
LEARN = ("adaptive-gp-ucb", "frugal-gp-ucb", "time-gp-ucb")


@dataclass(frozen=True)
class World:
    """A reward phi(x)' c(t), whose coefficients (T, features) have all that the world is made of."""

    waves: Array
    phases: Array
    courses: Array
    unit: float
    offset: float
    start: float

    @classmethod
    def drawn(cls, domain: Any, length: int, start: float, rng: np.random.Generator) -> World:
        """A random one, for times from `start` on."""
        rough = float(rng.choice([0.5, 2.0, 8.0]))
        waves = rough / extent_of(domain) * rng.standard_normal((FEATURES, domain.dimension))
        at, size = np.arange(length + 1.0)[:, None], (length + 1, FEATURES)
        courses = np.tile(rng.standard_normal(FEATURES), (length + 1, 1)) * (rng.random() < 0.7)
        for period in rng.choice([6.0, 24.0, 12.42, 23.93, 168.0], int(rng.integers(0, 4))):
            turn = 2 * np.pi * at / period + rng.uniform(0, 6, FEATURES)
            courses += float(rng.choice([0.3, 2.0])) * np.sin(turn)
        if rng.random() < 0.5:  # places that walk, or weather
            courses += float(rng.choice([0.01, 0.2])) * rng.standard_normal(size).cumsum(axis=0)
        for moment in rng.integers(0, length, int(rng.choice([0, 0, 1, 5]))):
            courses[moment:] += float(rng.choice([1.0, 100.0])) * rng.standard_normal(FEATURES)
        if rng.random() < 0.1:
            courses[:] = 0.0
        unit, offset = 10.0 ** rng.uniform(-3, 4), float(rng.choice([0.0, 100.0]))
        return cls(waves, rng.uniform(0, 6, FEATURES), courses, unit, unit * offset, start)

    def __call__(self, X: Array, t: float) -> Array:
        """Noise-free rewards (n,)."""
        field = np.cos(X @ self.waves.T + self.phases) / math.sqrt(FEATURES)
        course = self.courses[int(np.clip(t - self.start, 0, len(self.courses) - 1))]
        return np.asarray(self.offset + self.unit * (field @ course))


def domain_of(rng: np.random.Generator) -> Any:
    """A network of up to 64 places, a grid, or a box."""
    kind, side = rng.random(), float(rng.choice([1.0, 1000.0]))
    if kind < 0.6:
        return Candidates(side * rng.random((int(rng.choice([2, 7, 30, 64])), 2)))
    if kind < 0.8:
        return Candidates.grid([[0, side], [0, side]], int(rng.choice([9, 15])))
    return Box([[0.0, side]] * int(rng.integers(1, 4)))


def played(seed: int, seconds: float) -> str | None:
    """Play one world; what was wrong. A policy that does not play on such a domain says so at once."""
    rng = np.random.default_rng([seed, 21])
    domain, length = domain_of(rng), round(100 * 20 ** rng.random())
    start = float(rng.choice([0.0, 1e6]))
    world = World.drawn(domain, length, start, rng)
    noise = world.unit**2 * 10.0 ** rng.uniform(-8, 1)
    name = str(rng.choice(LEARN if rng.random() < 0.5 else list(POLICIES)))
    kernel = None if name in LEARN else RBF(0.3 * extent_of(domain))
    expert = Sometimes(world, noise, seed)
    about = (length, 0.1, world.unit, 0.01, 10.0, None, lambda: expert, seed)
    try:
        player = POLICIES[name].make(Setting(domain, kernel, noise, *about))
    except ValueError as error:
        return f"refused: {name}: {error}"
    out: list[tuple[Array, float]] = []
    began, t = time.process_time(), start
    while t < start + length and time.process_time() - began < seconds:
        out.append((player.ask(t), t))
        while out and rng.random() < 0.9:
            X, at = out.pop(int(rng.integers(len(out))))
            y = world(X, at) + math.sqrt(noise) * rng.standard_normal(len(X))
            player.tell(X, np.where(rng.random(len(X)) < 0.03, np.nan, y), at)
        t += float(rng.choice([1.0, 1.0, 1.0, 0.5, 30.0], p=[0.5, 0.2, 0.2, 0.09, 0.01]))
        if hasattr(player, "predict") and rng.random() < 0.05:
            mean, deviation = player.predict(domain.sample(5, rng), t)
            if not (np.isfinite(mean).all() and (deviation >= 0).all() and deviation.max() < 1e300):
                raise Found(WRONG, f"{name} at {t}: {mean} +- {deviation}")
    return None


@in_the_loop(COUNT, QUICK, allowed=())  # an honest world is played, whatever its matrices
def attack(_: Count, count: int, seed: int) -> Iterator[Trial]:
    """Play so many worlds, of seeds from `seed` on; a few of them for a second each."""
    seconds = SECONDS if count > QUICK else QUICK_SECONDS
    for each in range(seed, seed + count):
        yield f"seed {each}", partial(played, each, seconds)
