"""Random bandits played at random: none may crash, and exact ones must say what the dense algebra says.

    python -m benchmarks.attack.bandits --count 5000 [--seed 0]

Every bandit has a random domain, kernel, posterior, aging map, width, batching, expert and plan. Its
calls are drawn too: ask (with n, with availability), tell (at once, late, in parts, with readings that
failed), predict and recommend at any time, drop, and going on from a pickled state. A bad call must be
refused and change nothing; a bandit without an expert that goes on from its state must go on as it would
have; at the end predictions are compared with those of the exact posterior of the same observations.
The exit status is 1 if anything was found.
"""

from __future__ import annotations

import pickle
import traceback
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, RationalQuadratic

from benchmarks.attack.report import CRASHED, HALF_DONE, WRONG, Count, Tally, run_one, steps
from tvbandits import Bandit, Box, Candidates, Recipe
from tvbandits.acquisition.batch_rules import Batching, GlobalRatio, LocalRatio, One, ProductRatio
from tvbandits.acquisition.thompson import ThompsonSampling
from tvbandits.acquisition.ucb import UpperConfidenceBound
from tvbandits.core.arrays import Array
from tvbandits.core.linalg import FactorisationError
from tvbandits.core.protocols import ExpertDownWarning
from tvbandits.experts import CallableExpert
from tvbandits.forgetting import aging
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.fitting.online import Every
from tvbandits.gp.kernels.additive import anchors_of, space_kernels, structured_kernel
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.kernels.structure import space_time
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.state_space import StateSpace
from tvbandits.queries import (
    KDPP,
    GreedyVariance,
    OnAverage,
    PlausibleMaximisers,
    QualityKDPP,
    RandomPoints,
    UCBBatch,
)
from tvbandits.queries.asking import Asking

ALLOWED = (FactorisationError,)
"""Named errors with a remedy that an honest use may meet."""


COUNT, QUICK, STEPS = 5000, 20, 12


@dataclass(frozen=True)
class Found:
    """What went wrong with one bandit."""

    kind: str
    seed: int
    what: str


def domain_of(rng: np.random.Generator) -> Any:
    """Candidates or a box, in one to three dimensions, of any size."""
    d = int(rng.integers(1, 4))
    size = float(10.0 ** rng.uniform(-3, 4))
    shift = float(rng.choice([0.0, 0.0, 1e3])) * size
    if rng.random() < 0.7:
        count = int(rng.choice([1, 2, 5, 30, 80]))
        return Candidates(shift + size * rng.random((count, d)))
    low = shift + size * rng.random(d)
    return Box(np.column_stack([low, low + size]), samples=64, starts=2)


def extent_of(domain: Any) -> float:
    """Its typical side."""
    points = domain.X if isinstance(domain, Candidates) else domain.bounds.T
    side = float(np.ptp(points, axis=0).max())
    return side if side > 0 else 1.0


def kernel_of(domain: Any, amplitude: float, rng: np.random.Generator) -> tuple[Any, str]:
    """A kernel over points, or over points and times, and which of the two."""
    length = extent_of(domain) * float(10.0 ** rng.uniform(-1.5, 1))
    kinds = [RBF(length), Matern(length, nu=1.5), Matern(length, nu=0.5)]
    kinds.append(RationalQuadratic(length, alpha=1.0))
    space = ConstantKernel(amplitude) * kinds[int(rng.integers(len(kinds)))]
    kind = str(rng.choice(["space", "space", "drift", "in time"]))
    if kind == "drift":
        return space_time(space) * Drift(float(rng.choice([0.001, 0.03, 0.5]))), "drift"
    if kind == "in time":
        smooth = float(rng.choice([0.5, 1.5]))
        return OnSpace(space) * OnTime(Matern(float(rng.choice([1.0, 20.0])), nu=smooth)), "in time"
    return space, "space"


def aging_of(rng: np.random.Generator) -> Any:
    """Any aging map, or two of them."""
    maps = [
        aging.Constant(),
        aging.ResetEvery(int(rng.integers(1, 8))),
        aging.Window(last=int(rng.integers(1, 8))),
        aging.Exponential(float(rng.uniform(0.3, 0.99))),
        aging.Linear(float(10.0 ** rng.uniform(-2, 1))),
        aging.Wiener(float(10.0 ** rng.uniform(-3, 1))),
    ]
    one, other = (maps[int(i)] for i in rng.integers(len(maps), size=2))
    return one if rng.random() < 0.8 else aging.compose(one, other)


def asking_of(truth: Any, noise: float, rng: np.random.Generator) -> Asking | None:
    """An expert, a plan and what becomes of the answers; or nobody."""
    if rng.random() < 0.45:
        return None

    def sometimes(X: Array, t: float) -> Array:
        values = truth(X, t)
        if rng_of_expert.random() < 0.1:
            raise ConnectionError("out of reach")
        return np.where(rng_of_expert.random(len(X)) < 0.1, np.nan, values)

    rng_of_expert = np.random.default_rng(int(rng.integers(2**31)))
    budget = OnAverage(float(rng.choice([0.5, 2.0, 4.0])))
    plans = [
        KDPP(),
        KDPP(budget=budget),
        RandomPoints(budget),
        PlausibleMaximisers(budget),
        GreedyVariance(budget),
        UCBBatch(budget),
        QualityKDPP(budget),
    ]
    return Asking(
        plans[int(rng.integers(len(plans)))],
        CallableExpert(sometimes, noise, nan_means_no_answer=True),
        about=str(rng.choice(["played", "domain"])),  # type: ignore[arg-type]
        reuse_answers=bool(rng.random() < 0.5),
        most_answers=int(rng.choice([3, 50])) if rng.random() < 0.3 else None,
        pool_size=int(rng.choice([2, 10])) if rng.random() < 0.3 else None,
        informed_width=float(rng.choice([0.0, 1.0])) if rng.random() < 0.3 else None,
    )


def recipe_of(seed: int) -> tuple[Recipe, Any, dict[str, Any]]:
    """A random recipe, the truth it plays on, and what it is made of."""
    rng = np.random.default_rng(seed)
    domain = domain_of(rng)
    unit = float(10.0 ** rng.uniform(-4, 5))
    mean: Any = "online" if rng.random() < 0.6 else float(unit * rng.normal())
    amplitude = 1.0 if mean == "online" else unit**2
    kernel, kind = kernel_of(domain, amplitude, rng)
    noise = unit**2 * float(10.0 ** rng.uniform(-12, 0))
    side = extent_of(domain)
    phase, pace = float(rng.uniform(0, 6)), float(rng.choice([0.0, 0.05, 1.0]))
    offset = float(rng.choice([0.0, 100.0])) * unit

    def truth(X: Array, t: float) -> Array:
        return np.asarray(offset + unit * np.sin(3 * X.sum(axis=1) / side + phase + pace * t))

    posterior: Any = Exact()
    choice = rng.random()
    learn = None
    if choice < 0.3:
        posterior = Nystrom(float(rng.choice([0.5, 2.0, 50.0])), bool(rng.random() < 0.5))
    elif choice < 0.5:
        kernel = structured_kernel(space_kernels(domain)[0])
        posterior = StateSpace(None if isinstance(domain, Candidates) else anchors_of(domain))
        kind, mean, learn = "structured", "online", Every(5) if rng.random() < 0.6 else None
    elif rng.random() < 0.2:
        learn = Every(int(rng.choice([3, 7])))
    rules: list[Any] = [One(), One(), GlobalRatio(2.0), ProductRatio(1.5)]
    if isinstance(domain, Candidates):
        rules.append(LocalRatio(2.0))
    thompson = isinstance(domain, Candidates) and rng.random() < 0.15
    recipe = Recipe(
        domain,
        kernel,
        noise,
        aging=aging_of(rng),
        posterior=posterior,
        confidence=float(rng.choice([0.0, 1.0, 2.0])) if rng.random() < 0.8 else "theory",  # type: ignore[arg-type]
        mean=mean,
        acquisition=ThompsonSampling() if thompson else UpperConfidenceBound(),
        batching=Batching(rules[int(rng.integers(len(rules)))], int(rng.choice([1, 1, 3])), 4),
        asking=asking_of(truth, noise, rng),
        consult=str(rng.choice(["after tell", "before ask"])),  # type: ignore[arg-type]
        learn=learn,
        reset=EventTrigger() if rng.random() < 0.15 else None,
        lead=float(rng.choice([0.0, 1.0])),
        minimise=bool(rng.random() < 0.3),
    )
    parts = {"kernel": kind, "posterior": type(posterior).__name__, "noise": noise, "unit": unit}
    return recipe, truth, parts


def played(seed: int, steps: int = STEPS) -> list[Found]:
    """Play one bandit and its twin."""
    recipe, truth, parts = recipe_of(seed)
    rng = np.random.default_rng([seed, 1])
    bandit = Bandit(recipe, seed=seed)
    found: list[Found] = []
    now = float(rng.choice([0.0, 1.0, -50.0, 1e6]))
    out: list[tuple[Array, float]] = []
    for _ in range(steps):
        now += float(rng.choice([0.25, 1.0, 1.0, 7.5]))
        step(bandit, recipe, truth, now, out, rng)
        if rng.random() < 0.15:
            resumed = Bandit.from_state(recipe, pickle.loads(pickle.dumps(bandit.state)))
            if recipe.asking is None and not same_future(bandit, resumed, now):
                found.append(Found(WRONG, seed, "goes on differently from its state"))
            bandit = resumed
        if not bad_call_changes_nothing(bandit, now, rng):
            found.append(Found(HALF_DONE, seed, "a bad call changed the state, or was taken"))
    mean, deviation = bandit.predict(recipe.domain.sample(5, rng), now + 1.0)
    scale = max(abs(parts["unit"]), 1e-300)
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all() and (deviation >= 0).all()):
        found.append(Found(WRONG, seed, f"{mean} +- {deviation}"))
    else:
        found += against_the_exact(bandit, seed, now, scale, rng)
    return found


def against_the_exact(
    bandit: Bandit, seed: int, now: float, unit: float, rng: np.random.Generator
) -> list[Found]:
    """Predictions that the exact posterior of the same observations contradicts."""
    recipe, state = bandit.recipe, bandit.state
    plain = replace(recipe, posterior=Exact(), acquisition=UpperConfidenceBound())
    exact = Bandit.from_state(plain, replace(state, posterior=None))
    X = recipe.domain.sample(20, rng)
    (mean, deviation), (right, its) = (b.predict(X, now + 1.0) for b in (bandit, exact))
    off = np.abs(mean - right)
    # What a dictionary or features leave out may move a mean, but no further than it admits.
    if (off > 0.5 * unit + 4.0 * np.maximum(deviation, its)).any():
        worst = int(off.argmax())
        what = f"mean {mean[worst]:.4g} +- {deviation[worst]:.2g}, exact {right[worst]:.4g}"
        return [Found(WRONG, seed, f"{what}, unit {unit:.2g}, {type(recipe.posterior).__name__}")]
    return []


def step(
    bandit: Bandit,
    recipe: Recipe,
    truth: Any,
    now: float,
    out: list[tuple[Array, float]],
    rng: np.random.Generator,
) -> None:
    """A few calls that an honest user might make."""
    n = int(rng.choice([2, 3])) if rng.random() < 0.2 else None
    among = None
    if rng.random() < 0.2 and isinstance(recipe.domain, Candidates):
        among = rng.random(len(recipe.domain)) < 0.7
        among[int(rng.integers(len(among)))] = True
    if rng.random() < 0.9:
        X = bandit.ask(now, n=n, among=among)
        out.append((X, now))
    if rng.random() < 0.3:
        bandit.predict(recipe.domain.sample(3, rng), now + float(rng.choice([-3.0, 0.0, 2.0])))
    while out and rng.random() < 0.85:
        X, t = out.pop(int(rng.integers(len(out))) if rng.random() < 0.3 else 0)
        y = truth(X, t) + np.sqrt(recipe.noise_variance) * rng.standard_normal(len(X))
        if rng.random() < 0.1:
            y[int(rng.integers(len(y)))] = np.nan
        if len(X) > 1 and rng.random() < 0.4:
            for i in range(len(X)):
                bandit.tell(X[i : i + 1], y[i : i + 1], t)
        else:
            bandit.tell(X, y, t)
    if rng.random() < 0.2:
        bandit.recommend(now + 1.0)
    if len(bandit.pending) and rng.random() < 0.1:
        bandit.drop(bandit.pending[:1])
        out.clear()
        bandit.drop(bandit.pending)


def same_future(one: Bandit, other: Bandit, now: float) -> bool:
    """Whether copies of two bandits ask the same, and believe the same."""
    copies = [pickle.loads(pickle.dumps(each)) for each in (one, other)]
    asked = [copy.ask(now + 1.0) for copy in copies]
    believed = [copy.predict(asked[0], now + 2.0) for copy in copies]
    return np.array_equal(*asked) and all(map(np.array_equal, *believed))


def bad_call_changes_nothing(bandit: Bandit, now: float, rng: np.random.Generator) -> bool:
    """A call that must be refused, and leave everything as it was."""
    before = bandit.state
    x = bandit.recipe.domain.sample(1, rng)
    calls: list[Any] = [
        lambda: bandit.ask(np.nan),
        lambda: bandit.ask(now, n=0),
        lambda: bandit.tell(x, [np.inf], now),
        lambda: bandit.tell(x, [1.0, 2.0], now),
        lambda: bandit.tell(x + 1e9, [1.0], now),
        lambda: bandit.tell(x, [1.0], now, variance=-1.0),
        lambda: bandit.drop(x + 1e9),
        lambda: bandit.predict(x * np.nan),
    ]
    try:
        calls[int(rng.integers(len(calls)))]()
    except ValueError:
        return bandit.state is before
    return False


def attack(count: int, seed: int) -> Tally:
    """Attack so many bandits, of seeds from `seed` on, and count what was found."""
    counts = Count("random bandits")
    for each in steps(range(seed, seed + count), "random bandits"):
        counts.tried()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", ExpertDownWarning)
                found = played(each)
        except ALLOWED as error:
            found = []
            counts.also(f"refused with a remedy: {type(error).__name__}")
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{where.filename.rsplit('/', 1)[-1]}:{where.lineno}"
            found = [Found(CRASHED, each, f"{type(error).__name__}: {error} ({place})"[:300])]
        for fault in found:
            counts.fault(fault.kind, f"seed {fault.seed}: {fault.what}")
    return counts.tally


if __name__ == "__main__":
    run_one(attack, "benchmarks.attack.bandits", COUNT)
