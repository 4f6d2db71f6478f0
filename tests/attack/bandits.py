"""Random bandits played at random: none may crash, and exact ones must say what the dense algebra says.

Every bandit has a random domain, kernel, posterior, aging map, width, batching, expert and plan. Its
calls are drawn too: ask (with n, with availability), tell (at once, late, in parts, with readings that
failed), predict and recommend at any time, drop, and going on from a pickled state. A bad call must be
refused and change nothing; a bandit without an expert that goes on from its state must go on as it would
have; at the end predictions are compared with those of the exact posterior of the same observations.
"""

import inspect
import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

import tvbandits
from tests.attack.dense import by_all, by_dictionary
from tests.attack.parts import Options, example, parts, space_kernels, time_kernels, wrappers
from tests.attack.report import HALF_DONE, WRONG, Count, Found, Trial, in_the_loop, one_of
from tests.helpers.players import decision_deviation
from tvbandits import Answers, Bandit, Box, Candidates, Every, NystromFilter, Recipe
from tvbandits.acquisition.batches import Batching, LocalRatio, One
from tvbandits.acquisition.rules import ThompsonSampling, UpperConfidenceBound
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.forgetting.aging import LogThreshold, has_rate
from tvbandits.forgetting.event_trigger import EventTrigger
from tvbandits.gp.additive import anchors_of, space_kernels as space_kernels_of, structured_kernel
from tvbandits.gp.kernels.space_time import OnSpace, OnTime, space_time
from tvbandits.gp.sparse import markov_term
from tvbandits.queries.plans import QueryConfig
from tvbandits.validation import Array

STEPS = 12


def domain_of(rng: np.random.Generator) -> Any:
    """Candidates or a box, in one to three dimensions, of any size."""
    d = int(rng.integers(1, 4))
    size = float(10.0 ** rng.uniform(-3, 4))
    shift = float(rng.choice([0.0, 0.0, 1e3])) * size
    if rng.random() < 0.7:
        count = int(rng.choice([1, 2, 5, 30, 80]))
        return Candidates(shift + size * rng.random((count, d)))
    low = shift + size * rng.random(d)
    return Box(np.column_stack([low, low + size]))


def extent_of(domain: Any) -> float:
    """Its typical side."""
    points = domain.X if isinstance(domain, Candidates) else domain.bounds.T
    side = float(np.ptp(points, axis=0).max())
    return side if side > 0 else 1.0


def kernel_of(domain: Any, amplitude: float, rng: np.random.Generator) -> tuple[Any, str]:
    """A kernel over points, or over points and times, and which of the two."""
    length = extent_of(domain) * float(10.0 ** rng.uniform(-1.5, 1))
    scales: Options = {
        "length_scale": lambda _: length,
        "nu": lambda rng: float(rng.choice([0.5, 1.5, 2.5])),
        "alpha": lambda rng: float(rng.choice([0.3, 1.0])),
    }
    shape = one_of([*space_kernels().values()], rng)
    space = ConstantKernel(amplitude) * example(shape, scales, rng, more=1.0)
    kind = str(rng.choice(["space", "space", "drift", "in time"]))
    if kind == "drift":
        pace: Options = {"epsilon": lambda rng: float(rng.choice([0.001, 0.03, 0.5]))}
        forgetting = example(one_of([*time_kernels().values()], rng), pace, rng)
        return space_time(space) * forgetting, "drift"
    if kind == "in time":
        smooth = float(rng.choice([0.5, 1.5]))
        return OnSpace(space) * OnTime(Matern(float(rng.choice([1.0, 20.0])), nu=smooth)), "in time"
    return space, "space"


# Numbers of aging maps, by the names of their parameters.
AGING: Options = {
    "every": lambda rng: int(rng.integers(1, 8)),
    "last": lambda rng: int(rng.integers(1, 8)),
    "within": lambda rng: float(10.0 ** rng.uniform(-1, 2)),
    "discount": lambda rng: float(rng.uniform(0.3, 0.99)),
    "rate": lambda rng: float(10.0 ** rng.uniform(-3, 1)),
    "threshold": lambda rng: LogThreshold(float(10.0 ** rng.uniform(-2, 4))),
    "maps": lambda rng: tuple(
        aging_of(rng, ("Composition",)) for _ in range(int(rng.integers(1, 3)))
    ),
}


def aging_of(rng: np.random.Generator, but: tuple[str, ...] = ()) -> Any:
    """Any aging map, or several of them."""
    maps = {name: cls for name, cls in parts("aging map").items() if name not in but}
    cls = one_of([*maps.values()], rng)
    # A window needs one of its two limits.
    limits = {"last", "within"} & set(inspect.signature(cls).parameters)
    if limits:
        name = sorted(limits)[int(rng.integers(len(limits)))]
        return cls(**{name: AGING[name](rng)})
    return example(cls, AGING, rng)


def width_of(domain: Any, rng: np.random.Generator) -> Any:
    """Any width that a domain has, by its class or as people write it."""
    short: list[Any] = [0.0, 1.0, 2.0, "theory"]
    if rng.random() < 0.6:
        return one_of(short, rng)
    known = {**parts("width")}
    if not isinstance(domain, Candidates):
        del known["Srinivas"]  # it counts them
    return example(one_of([*known.values()], rng), {}, rng)


# Numbers of budgets, by the names of their parameters.
BUDGETS: Options = {
    "rate": lambda rng: float(rng.choice([0.5, 2.0, 4.0])),
    "number": lambda rng: int(rng.integers(1, 4)),
    "counts": lambda rng: tuple(int(n) for n in rng.integers(0, 4, size=20)),
}

PLANS: Options = {
    "budget": lambda rng: example(one_of([*parts("budget").values()], rng), BUDGETS, rng)
}


@dataclass(frozen=True)
class Truth:
    """A wave that moves."""

    unit: float
    offset: float
    side: float
    phase: float
    pace: float

    def __call__(self, X: Array, t: float) -> Array:
        """Noise-free rewards (n,)."""
        angle = 3 * X.sum(axis=1) / self.side + self.phase + self.pace * t
        return np.asarray(self.offset + self.unit * np.sin(angle))


@dataclass(frozen=True)
class Sometimes:
    """An expert of the truth that refuses a tenth of the points, and fails on a tenth of the times.

    What it says belongs to the point and the time alone: asked twice, it says the same.
    """

    truth: Any
    noise: float
    seed: int

    def query(self, X: Array, t: float) -> Answers:
        """Answer about the truth."""
        if float(keyed_normal(self.seed, 0, np.zeros((1, 1)), t)[0]) > 1.28:
            raise ConnectionError("out of reach")
        off = math.sqrt(self.noise) * keyed_normal(self.seed, 1, X, t)
        silent = keyed_normal(self.seed, 2, X, t) > 1.28
        return Answers(np.where(silent, np.nan, self.truth(X, t) + off), self.noise, 0.25 * len(X))


def wrapped(expert: Any, rng: np.random.Generator) -> Any:
    """An expert in up to two of the package's wrappers, but those that need a file."""
    options: Options = {
        "expert": lambda _: expert,
        "total": lambda rng: int(rng.integers(3, 60)),
        "probe": lambda rng: bool(rng.random() < 0.5),
        "sleep": lambda _: nothing,
    }
    for _ in range(int(rng.integers(0, 3))):
        known = wrappers().values()
        found = [cls for cls in known if "path" not in inspect.signature(cls).parameters]
        cls, inside = one_of(found, rng), expert
        expert = example(cls, {**options, "expert": lambda _, e=inside: e}, rng, more=1.0)
    return expert


def nothing(_: float) -> None:
    """Wait for no time at all."""


def asking_of(truth: Any, noise: float, rng: np.random.Generator) -> QueryConfig | None:
    """An expert, a plan and what becomes of the answers; or nobody."""
    if rng.random() < 0.45:
        return None
    expert = Sometimes(truth, noise, int(rng.integers(2**31)))
    return QueryConfig(
        example(one_of([*parts("plan").values()], rng), PLANS, rng, more=0.5),
        wrapped(expert, rng) if rng.random() < 0.5 else expert,
        pool=str(rng.choice(["played", "domain"])),  # type: ignore[arg-type]
        reuse_answers=bool(rng.random() < 0.5),
        most_answers=int(rng.choice([3, 50])) if rng.random() < 0.3 else None,
        pool_size=int(rng.choice([2, 10])) if rng.random() < 0.3 else None,
        informed_width=float(rng.choice([0.0, 1.0])) if rng.random() < 0.3 else None,
    )


def posterior_of(domain: Any, rng: np.random.Generator) -> Any:
    """Any posterior that the package shows."""
    shown = {name: cls for name, cls in parts("posterior").items() if hasattr(tvbandits, name)}
    options: Options = {
        "oversampling": lambda rng: float(rng.choice([0.5, 2.0, 50.0])),
        "keep": lambda rng: bool(rng.random() < 0.5),
        "anchors": lambda _: None if isinstance(domain, Candidates) else anchors_of(domain),
    }
    return example(one_of([*shown.values()], rng), options, rng, more=1.0)


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

    truth = Truth(unit, offset, side, phase, pace)
    posterior, learn = posterior_of(domain, rng), None
    # A filter needs a sum of terms.
    if "anchors" in inspect.signature(type(posterior)).parameters:
        kernel = structured_kernel(space_kernels_of(domain)[0])
        kind, mean, learn = "structured", "online", Every(5) if rng.random() < 0.6 else None
    elif isinstance(posterior, NystromFilter) and markov_term(kernel) is None:
        space = ConstantKernel(amplitude) * RBF(side * float(10.0 ** rng.uniform(-1.5, 1)))
        kernel, kind = OnSpace(space) * OnTime(Matern(20.0, nu=0.5)), "in time"
    elif rng.random() < 0.15:
        learn = Every(int(rng.choice([3, 7])))
    aging = aging_of(rng)
    if kind == "space" and not has_rate(aging):
        learn = None  # there is nothing to learn, and it is refused
    rules = [cls() for cls in parts("batch rule").values()]
    if not isinstance(domain, Candidates):
        rules = [rule for rule in rules if not isinstance(rule, LocalRatio)]
    rule = One() if rng.random() < 0.4 else one_of(rules, rng)
    thompson = isinstance(domain, Candidates) and rng.random() < 0.15
    recipe = Recipe(
        domain,
        kernel,
        noise,
        aging=aging,
        posterior=posterior,
        beta=width_of(domain, rng),
        mean=mean,
        acquisition=ThompsonSampling() if thompson else UpperConfidenceBound(),
        batching=Batching(rule, int(rng.choice([1, 1, 3])), 4),
        query_config=asking_of(truth, noise, rng),
        consult=str(rng.choice(["after tell", "before ask"])),  # type: ignore[arg-type]
        learn=learn,
        reset=EventTrigger() if rng.random() < 0.15 else None,
        age_lag=float(rng.choice([0.0, 1.0])),
        minimize=bool(rng.random() < 0.3),
    )
    made_of = {"kernel": kind, "posterior": type(posterior).__name__, "noise": noise, "unit": unit}
    return recipe, truth, made_of


def played(seed: int, steps: int = STEPS) -> None:
    """Play one bandit and its twin."""
    recipe, truth, made_of = recipe_of(seed)
    rng = np.random.default_rng([seed, 1])
    bandit = Bandit(recipe, seed=seed)
    now = float(rng.choice([0.0, 1.0, -50.0, 1e6]))
    for _ in range(steps):
        now += float(rng.choice([0.25, 1.0, 1.0, 7.5]))
        for call in calls_of(bandit, truth, now, rng):
            call.make(bandit)
        if rng.random() < 0.15:
            resumed = Bandit.from_state(recipe, pickle.loads(pickle.dumps(bandit.state)))
            if recipe.query_config is None and not same_future(bandit, resumed, now):
                raise Found(WRONG, "goes on differently from its state")
            bandit = resumed
        if not bad_call_changes_nothing(bandit, now, rng):
            raise Found(HALF_DONE, "a bad call changed the state, or was taken")
    mean, deviation = bandit.predict(recipe.domain.sample(5, rng), now + 1.0)
    if not (np.isfinite(mean).all() and np.isfinite(deviation).all() and (deviation >= 0).all()):
        raise Found(WRONG, f"{mean} +- {deviation}")
    against_the_exact(bandit, now, made_of["unit"], rng)


def against_the_exact(bandit: Bandit, now: float, unit: float, rng: np.random.Generator) -> None:
    """Find predictions that the exact posterior of the same observations contradicts."""
    recipe, state = bandit.recipe, bandit.state
    X = recipe.domain.sample(20, rng)
    mean, deviation = bandit.predict(X, now + 1.0)
    found = []
    dense = by_dictionary(bandit, X, now + 1.0)
    if dense:
        # The prior that the dictionary stands for, whatever it leaves out: the very same numbers.
        right, its = min(dense, key=lambda each: float(np.abs(mean - each[0]).max()))
        size = unit + float(np.abs(state.rewards.y).max(initial=0.0))
        decides = decision_deviation(bandit, X, now + 1.0)
        far = np.abs(mean - right) > 1e-3 * size
        far |= np.abs(decides - its) > 1e-3 * unit + 0.1 * its
        found.append(("dense", right, far))
    if not dense or recipe.mean == "online":
        # What is left out may move a mean, but no further than it admits of data that suit the prior.
        right, its, defied = by_all(bandit, X, now + 1.0)
        beyond = 4.0 * max(defied, 1.0) * np.maximum(deviation, its)
        found.append(("exact", right, (np.abs(mean - right) > 0.5 * unit + beyond)))
    for name, right, far in found:
        if far.any():
            worst = int(np.where(far, np.abs(mean - right), -1.0).argmax())
            said = f"mean {mean[worst]:.4g} +- {deviation[worst]:.2g}, {name} {right[worst]:.4g}"
            raise Found(WRONG, f"{said}, {type(recipe.posterior).__name__}")


@dataclass(frozen=True)
class Call:
    """One call of a bandit, by its name."""

    name: str
    make: Callable[[Bandit], Any]


def not_before_first(bandit: Bandit, t: float) -> float:
    """Return `t`, or the time of the first observation if that is later."""
    times = np.concatenate([bandit.state.rewards.t, bandit.state.answers.t])
    return max(t, float(times.min())) if len(times) else t


def calls_of(bandit: Bandit, truth: Any, now: float, rng: np.random.Generator) -> Iterator[Call]:
    """What an honest user may call at one time; `bandit` is one that has done all before."""
    domain = bandit.recipe.domain
    n = int(rng.choice([2, 3])) if rng.random() < 0.2 else None
    available = None
    if rng.random() < 0.2 and isinstance(domain, Candidates):
        available = rng.random(len(domain)) < 0.7
        available[int(rng.integers(len(available)))] = True
    points, ahead = domain.sample(3, rng), now + float(rng.choice([-3.0, 0.0, 2.0]))
    looks = [
        Call("predict", lambda b: b.predict(points, not_before_first(b, ahead))),
        Call("history", lambda b: b.history.to_csv()),
        Call("state", lambda b: len(pickle.dumps(b.state)) > 0),
        Call("from_state", lambda b: Bandit.from_state(b.recipe, b.state).pending),
    ]
    if len(bandit.state.rewards) or len(bandit.state.answers):
        looks.append(Call("recommend", lambda b: b.recommend(not_before_first(b, now))))
    yield one_of(looks, rng)
    yield Call("ask", lambda b: b.ask(now, n, available))
    if bandit.recipe.query_config is not None and rng.random() < 0.6:
        yield Call("questions", lambda b: b.questions())
        answers = truth(points, now)
        yield Call("answer", lambda b: b.answer(points, answers, now))
    yield one_of(looks, rng)
    out = bandit.pending
    if len(out) > 2 and rng.random() < 0.3:
        yield Call("drop", lambda b: b.drop(out[:1]))
        out = bandit.pending
    if len(out) == 0:  # an ask that was not made again
        return
    told = out[: max(1, int(rng.integers(len(out) + 1)))]
    noise = np.sqrt(bandit.recipe.noise_variance or 0.0)
    y = truth(told, now) + noise * rng.standard_normal(len(told))
    if rng.random() < 0.1:
        y[0] = np.nan
    late = now - 1.5 if rng.random() < 0.15 else None
    yield Call("tell", lambda b: b.tell(told, y, late))


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
        lambda: bandit.tell(x, [1.0], now, noise_variance=-1.0),
        lambda: bandit.drop(x + 1e9),
        lambda: bandit.predict(x * np.nan),
    ]
    try:
        one_of(calls, rng)()
    except ValueError:
        return bandit.state is before
    return False


@in_the_loop(5000)
def attack(_: Count, count: int, seed: int) -> Iterator[Trial]:
    """Attack so many bandits, of seeds from `seed` on."""
    for each in range(seed, seed + count):
        yield f"seed {each}", partial(played, each)
