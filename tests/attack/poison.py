"""Numbers that could poison a bandit for good: refused with the limit that they pass, or all works.

Every policy that asks for points (found by itself), on candidates or a box, with constants, scales and
noise of any size in its kernel, is told rewards, variances, times and answers of any size, nodata
values of file formats among them. What is refused changes nothing, and the message says the limit; after
what is taken, every later call has to work and to give finite numbers.
"""

import inspect
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tests.attack.bad_values import NODATA
from tests.attack.report import HALF_DONE, WRONG, Count, Found, Trial, in_the_loop, in_time
from tvbandits import Answers, Bandit, Box, Candidates, ExpertError, Options
from tvbandits.experts import Reading, SensorExpert, Station
from tvbandits.policies import POLICIES

SECONDS = 60

# Sizes at the ends of what can be represented, squared, divided and multiplied.
SIZES = (5e-324, 1e-308, 1e-160, 1e-100, 1e-51, 1e-50, 1e-20, 1e20, 1e49, 1e50, 1e51, 1e100, 1e150)


class AnySize:
    """An expert and a transport whose numbers have any size."""

    def __init__(self, value: float, variance: float) -> None:
        self._value, self._variance = value, variance

    def query(self, X: Any, t: float) -> Answers:  # noqa: ARG002 - one face for all
        """The same for each point."""
        return Answers(np.full(len(X), self._value), np.full(len(X), self._variance))

    def request(self, stations: Any, t: float) -> list[Reading]:
        """The same of each station."""
        return [Reading(name, t, self._value, self._variance) for name in stations]


def some(rng: np.random.Generator) -> float:
    """A number of any size, most of them ordinary."""
    if rng.random() < 0.5:
        return float(rng.normal())
    sign = 1.0 if rng.random() < 0.5 else -1.0
    if rng.random() < 0.3:
        return float(rng.choice(NODATA)) * sign
    return sign * float(rng.choice(SIZES)) * float(rng.uniform(0.5, 2.0))


def kernel_of(side: float, rng: np.random.Generator) -> Any:
    """A kernel whose numbers may have any size."""
    odd = rng.random() < 0.5
    length = side * float(10.0 ** rng.uniform(-160, 160) if odd and rng.random() < 0.5 else 0.3)
    shape = RBF(length) if rng.random() < 0.5 else Matern(length, nu=1.5)
    constant = float(rng.choice([1e300, 1e100, 1e-100, 1e-300, 1e308])) if odd else 1.0
    return ConstantKernel(constant) * shape if rng.random() < 0.5 else shape


def domain_of(rng: np.random.Generator) -> Any:
    """Candidates or a box, of any size and place."""
    odd = rng.random() < 0.3
    side = float(10.0 ** rng.uniform(-149, 149)) if odd else 10.0
    centre = side * float(rng.choice([0.0, 0.0, 1.0, 1e6])) if side < 1e140 else 0.0
    if rng.random() < 0.8:
        return Candidates(centre + side * np.linspace(0.0, 1.0, 9)[:, None]), side
    return Box([(centre, centre + side)]), side


def expert_of(domain: Any, rng: np.random.Generator) -> Any:
    """Nobody, an expert of any size, or stations of any size."""
    value, variance = some(rng), abs(some(rng)) + 5e-324
    if isinstance(domain, Candidates) and rng.random() < 0.5:
        stations = [Station(str(i), tuple(x), 0.01) for i, x in enumerate(domain.X.tolist())]
        return SensorExpert(stations, AnySize(value, variance))
    return AnySize(value, variance)


def policy_of(name: str, seed: int) -> tuple[Any, Any, np.random.Generator]:
    """A policy with odd numbers, its domain and a generator."""
    rng = np.random.default_rng([seed, 77])
    domain, side = domain_of(rng)
    recipe = POLICIES[name].recipe
    known = inspect.signature(recipe).parameters
    given = {
        "kernel": kernel_of(side, rng),
        "noise_variance": float(rng.choice([1e-2, 1e-2, 1e-50, 1e100, 1e-12])),
        "expert": expert_of(domain, rng),
        **dict.fromkeys(("window", "reset_every"), 3),
        **dict.fromkeys(("discount", "delta"), 0.5),
        "queries_per_step": min(abs(some(rng)), 5.0),
        "forgetting_rate": 0.5 if rng.random() < 0.5 else abs(some(rng)),
        "ratio_bound": 1.0 + abs(some(rng)),
        "minimize": bool(rng.random() < 0.3),
        "beta": float(rng.choice([2.0, 0.0, 1e10, 1e100, 1e300])),
        "options": Options(
            mean="online" if rng.random() < 0.6 else some(rng),
            consult="after tell" if rng.random() < 0.5 else "before ask",
        ),
    }
    needed = {name for name, each in known.items() if each.default is inspect.Parameter.empty}
    chosen = [name for name in given if name in needed or (name in known and rng.random() < 0.5)]
    return recipe(domain=domain, **{name: given[name] for name in chosen}), domain, rng


def is_limit(error: Exception) -> bool:
    """Whether a message says what the limit is, or what to do."""
    words = ("must", "at most", "at least", "smaller", "cannot", "needs", "not positive", "try")
    return any(word in str(error) for word in words)


def play(policy: Any, domain: Any, rng: np.random.Generator) -> None:
    """Tell it numbers of any size."""
    t = float(rng.choice([0.0, 1.0, -(2.0**52), 2.0**53 - 40, 1e15]))
    for _ in range(8):
        t += float(rng.choice([1.0, 1.0, 0.25]))
        X = policy.ask(t, n=2) if isinstance(policy, Bandit) else policy.ask(t)
        if not np.isfinite(X).all():
            raise Found(WRONG, f"asks for {X}")
        y = np.array([some(rng) for _ in X])
        options = {} if rng.random() < 0.6 else {"noise_variance": abs(some(rng))}
        before = policy.state if isinstance(policy, Bandit) else None
        try:
            policy.tell(X, y, t, **options)
        except ExpertError:
            raise
        except ValueError as error:
            if not is_limit(error):
                raise
            if isinstance(policy, Bandit) and policy.state is not before:
                raise Found(HALF_DONE, f"refused, and half done: {error}") from error
            policy.tell(X, np.tanh(y / 1e50), t)
        if isinstance(policy, Bandit):
            policy.recommend(t + 1.0)
            mean, deviation = policy.predict(domain.sample(3, rng), t + 1.0)
            good = np.isfinite(mean).all() and np.isfinite(deviation).all()
            if not good or (deviation < 0).any():
                raise Found(WRONG, f"predicts {mean} +- {deviation}")


def poisoned(name: str, seed: int) -> str:
    """Make one policy, and play it."""
    with in_time(SECONDS):
        try:
            policy, domain, rng = policy_of(name, seed)
        except ValueError as error:
            if not is_limit(error):
                raise
            return "refused at the door"
        try:
            play(policy, domain, rng)
        except ExpertError:
            return "refused with a remedy"
    return "taken, and it works"


@in_the_loop(2000, 40)
def attack(_: Count, count: int, seed: int) -> Iterator[Trial]:
    """So many policies."""
    for i, name in zip(range(count), itertools.cycle(sorted(POLICIES)), strict=False):
        yield f"{name}, {i}", partial(poisoned, name, seed * 1_000_003 + i)
