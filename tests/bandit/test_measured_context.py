"""Measured contexts: coordinates that are not chosen, at which a decision is made."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tvbandits import Bandit, Box, Candidates, Options, Periodic, Recipe, Space, policies
from tvbandits.domains.domain import Domain
from tvbandits.queries import KDPP, LogSchedule
from tvbandits.queries.plans import QueryConfig
from tvbandits.validation import Array

OUTSIDE: dict[str, Any] = {"outside": (-15, 20)}
SPACE = Space(heat=(0.0, 1.0), mode=["eco", "loud"], context=OUTSIDE)
BOX = Box([(0.0, 1.0), (0.0, 1.0)], context=OUTSIDE)
SITES = Candidates(np.linspace(0.0, 1.0, 11)[:, None], context=OUTSIDE)
DOMAINS: dict[str, Domain] = {"space": SPACE, "box": BOX, "candidates": SITES}
KERNEL = RBF(3.0)


def play(domain: Domain, steps: int = 8) -> Bandit:
    """Return a bandit after some steps, told of the chosen coordinates alone."""
    bandit = policies.gp_ucb(domain, kernel=KERNEL, noise_variance=0.01)
    for t in range(1, steps + 1):
        X = bandit.ask(t, context={"outside": t / 2})
        bandit.tell(X[:, :-1], X[:, 0], t)
    return bandit


def required_parameters(recipe: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters that a recipe needs besides a domain."""
    values: dict[str, Any] = {"expert": None, "kernel": KERNEL, "noise_variance": 0.1}
    values |= {"forgetting_rate": 0.05, "window": 20, "reset_every": 10, "batch_size": 2}
    parameters = inspect.signature(recipe).parameters.items()
    return {
        name: values[name]
        for name, each in parameters
        if name in values and (each.default is inspect.Parameter.empty or name == "expert")
    }


FINITE = ("beta-bernoulli", "discounted-thompson", "thompson")


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("name", policies.POLICIES)
def test_policies_play_at_the_measured_context_and_record_it(name: str, kind: str) -> None:
    domain, recipe = DOMAINS[kind], policies.POLICIES[name].recipe
    try:
        bandit = recipe(domain, **required_parameters(recipe), seed=1)
    except ValueError as error:  # some policies need candidates, with a context or without
        assert "Candidates" in str(error)  # noqa: PT017 - the policies are not listed here
        assert kind != "candidates" or name in FINITE
        return
    for t in (1, 2, 3):
        X = bandit.ask(t, context={"outside": t / 2})
        np.testing.assert_array_equal(X[:, -1], t / 2)
        bandit.tell(X if t == 1 else X[:, :-1], X[:, 0], t)
    np.testing.assert_array_equal(bandit.history["outside"], bandit.history["time"] / 2)


@pytest.mark.parametrize("kind", DOMAINS)
def test_gp_ucb_generalizes_over_a_measured_context(kind: str) -> None:
    rng, domain = np.random.default_rng(0), DOMAINS[kind]
    bandit = policies.gp_ucb(
        domain, kernel=RBF([0.3] * (domain.dimension - 1) + [20.0]), noise_variance=0.01
    )
    X = domain.sample(60, rng)
    best = 0.3 + X[:, -1] / 50  # the optimum moves with the context
    bandit.tell(X, -((X[:, 0] - best) ** 2), np.arange(60.0))
    for outside in (-10.0, 3.21, 18.0):  # no observation has these values
        recommended = bandit.recommend(context={"outside": outside})
        assert abs(recommended[0] - (0.3 + outside / 50)) < 0.11
        mean, _ = bandit.predict(recommended[None, :-1], context={"outside": outside})
        np.testing.assert_array_equal(mean, bandit.predict(recommended[None])[0])


def test_tell_takes_the_context_of_the_ask_for_its_point() -> None:
    mill = Candidates([[0.5]], context=OUTSIDE)
    for bandit in (
        policies.uniform(mill),
        policies.gp_ucb(mill, kernel=RBF(1.0), noise_variance=0.01),
    ):
        for t in (1, 2, 3, 4):
            bandit.ask(t, context={"outside": t})
        bandit.tell([[0.5], [0.5]], [0.5, 0.45], [1, 1.5])
        bandit.tell([[0.5], [0.5]], [0.3, 0.4])
        bandit.drop([[0.5]])
        bandit.tell([[0.5]], [0.6], 5, context=[7.0])  # without an `ask`
        rows = bandit.history[["time", "outside", "reward"]].to_numpy().tolist()
        assert rows == [[1, 1, 0.5], [1.5, 1, 0.45], [3, 3, 0.3], [4, 4, 0.4], [5, 7, 0.6]]
    bandit.correct([[0.5]], [0.2], 1)
    bandit.retract([[0.5]])
    assert bandit.state.rewards.y.tolist() == [0.2, 0.45, 0.3, 0.4]


def test_space_with_a_measured_context_accepts_and_returns_names() -> None:
    bandit = policies.gp_ucb(SPACE, kernel=SPACE.kernel(), noise_variance=0.01)
    frame = SPACE.decode(bandit.ask(1, context={"outside": 3.2}))
    assert list(frame.columns) == ["heat", "mode", "outside"]
    bandit.tell(frame.drop(columns="outside"), [1.0])
    bandit.tell({"heat": 0.5, "mode": "eco"}, [1.0], 2, context={"outside": -3.0})
    bandit.tell({"heat": 0.5, "mode": "loud", "outside": -4.0}, [1.0], 3)
    assert bandit.history["outside"].tolist() == [3.2, -3.0, -4.0]


def test_space_accepts_a_categorical_context() -> None:
    space = Space(heat=(0.0, 1.0), context={"outside": (-15, 20), "tariff": ["day", "night"]})
    bandit = policies.adaptive_gp_ucb(space)
    for t, tariff in enumerate(["day", "night", "day"], start=1):
        bandit.tell(bandit.ask(t, context={"tariff": tariff, "outside": 1.0}), [1.0], t)
    assert bandit.history["tariff"].tolist() == ["day", "night", "day"]


def test_ask_at_a_measured_context_keeps_to_available_points() -> None:
    for domain, n, available in (
        (BOX, 3, lambda X: X[:, 0] + X[:, 2] < 2.5),
        (SPACE, 3, lambda frame: (frame["heat"] + frame["outside"] < 2.5).to_numpy()),
        (SITES, 3, np.arange(11) < 5),
        (SITES, 9, np.arange(11) < 5),
    ):
        bandit = policies.gp_ucb(domain, kernel=KERNEL, noise_variance=0.01)
        X = bandit.ask(1, n=n, available=available, context={"outside": 2.0})
        assert len(X) == n
        assert (X[:, 0] <= 0.5).all()
        assert (X[:, -1] == 2.0).all()


def test_questions_have_the_context_of_the_decision() -> None:
    bandit = Bandit(
        Recipe(
            BOX,
            KERNEL,
            0.01,
            query_config=QueryConfig(KDPP(LogSchedule(4.0)), pool="domain"),
            age_lag=1.0,
        )
    )
    for t in range(1, 6):
        X = bandit.ask(t, context={"outside": float(t)})
        points = bandit.questions()
        np.testing.assert_array_equal(points[:, -1], float(t))
        bandit.tell(X, X[:, 0], t)
    assert len(points) == 7


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.ask(9), r"has a context: give it as context=\{'outside': ...\}"),
        (lambda b: b.recommend(9), "has a context: give it as context="),
        (lambda b: b.ask(9, context={"inside": 3}), "unknown context 'inside'; there are: outside"),
        (lambda b: b.ask(9, context={}), r"context 'outside' is missing, got \{\}"),
        (lambda b: b.ask(9, context={"outside": NAN}), "outside must be a finite number, got nan"),
        (lambda b: b.ask(9, context={"outside": "cold"}), "outside must be a finite number"),
        (lambda b: b.ask(9, context={"outside": [1.0, 2.0]}), r"finite number, got \[1.0, 2.0\]"),
        (lambda b: b.ask(9, context={"outside": 276}), "outside must be from -15 to 20, got 276"),
        (lambda b: b.ask(9, context=[1.0, 2.0]), r"a value for each of outside, got \[1.0, 2.0\]"),
        (lambda b: b.ask(9, context=[INF]), "outside must be a finite number, got inf"),
        (
            lambda b: b.tell(b.state.rewards.X[:1], [1.0], context=[1.0]),
            "the points have a context, got another",
        ),
        (
            lambda b: b.predict(first_action(b)),
            r"is not known, .*: give it as context=\{'outside': ...\}",
        ),
        (
            lambda b: b.tell(first_action(b), [1.0], context={"outside": 21.0}),
            "from -15 to 20, got 21",
        ),
        (lambda b: b.tell(np.zeros((1, 9)), [1.0]), "X must have shape"),
    ],
)
def test_bandit_refuses_a_wrong_context_and_changes_nothing(
    kind: str, call: Callable[[Bandit], Any], message: str
) -> None:
    bandit = play(DOMAINS[kind], 3)
    before = bandit.state
    assert_refused(ValueError, message, call, bandit)
    assert bandit.state == before


def first_action(bandit: Bandit) -> Array:
    """Return the chosen coordinates of the first reward."""
    return bandit.state.rewards.X[:1, :-1]


@pytest.mark.parametrize("domain", [SPACE.action_domain, BOX.action_domain])
def test_bandit_on_a_domain_without_context_refuses_one(domain: Any) -> None:
    bandit = policies.gp_ucb(domain, kernel=KERNEL, noise_variance=0.01)
    for call in (
        lambda: bandit.ask(1, context={"outside": 1.0}),
        lambda: bandit.tell(domain.sample(1, np.random.default_rng(0)), [1.0], context=[1.0]),
    ):
        assert_refused(ValueError, "context", call)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Space(x=(0, 1), context={"x": (0, 1)}), "'x' "),
        (lambda: Space(x=(0, 1), context=["x"]), "context must"),
        (lambda: Box([(0, 1)], context=np.array([0.0, 1.0])), "context must"),
        (lambda: Space(x=(0, 1), context={"y": (1, 0)}), "y: low must .*1 and 0"),
        (lambda: Space(x=(0, 1), context={1: (0, 1)}), "context must .*1"),
        (lambda: Space(context={"y": (0, 1)}), "parameter"),
        (lambda: Box([(0, 1)], context={"y": ["a", "b"]}), "interval .*Space"),
        (lambda: Candidates([[0]], context={"y": ["a", "b"]}), "numbers.*Table|numbers.*Space"),
        (lambda: Candidates([[0.0]], context={"y": 3}), "y must"),
    ],
)
def test_domains_refuse_invalid_contexts(make: Callable[[], Any], message: str) -> None:
    assert_refused(ValueError, message, make)


@pytest.mark.parametrize(
    "domain",
    [Box([(0, 1)], context={"out": (-9, 9)}), Space(flow=(0, 2), context={"out": (-9, 9)})],
)
def test_recipe_refuses_a_domain_at_a_fixed_context(domain: Domain) -> None:
    message = r"must be that of all contexts, got .* at \[1\.0\]: give .*context= to each ask"
    assert_refused(ValueError, message, Recipe, domain.at_context(np.array([1.0])), RBF(1.0), 0.01)


@pytest.mark.parametrize("kind", ["context", "no context", "available"])
def test_ask_on_a_small_space_follows_the_probability_of_being_best(kind: str) -> None:
    context = {"hour": Periodic(24)} if kind == "context" else None
    space = Space(banner=["red", "green", "blue"], context=context)
    kernel, hour = space.kernel(), {"hour": 8.0} if context else {}
    bandit = policies.gp_ucb(
        space, kernel=kernel, noise_variance=0.5, options=Options(mean=0.0), seed=2
    )
    X = space.encode([{"banner": name, **hour} for name in ("red", "green", "blue")])
    bandit.tell(X, [0.3, 0.1, 0.0], 1)
    # The oracle draws from the dense posterior of the three points.
    K = kernel(X)
    gain = np.linalg.solve(K + 0.5 * np.eye(3), K).T
    draws = np.random.default_rng(0).multivariate_normal(
        gain @ [0.3, 0.1, 0.0], K - gain @ K, size=200_000
    )
    is_open = [True, True, kind != "available"]
    best = np.where(is_open, draws, -np.inf).argmax(axis=1)
    expected = np.bincount(best, minlength=3) / len(best)
    points = bandit.ask(
        2,
        n=10_000,
        context=hour or None,
        available=None if all(is_open) else {"banner": ["red", "green"]},
    )
    shares = [(points == x).all(axis=1).mean() for x in X]
    np.testing.assert_allclose(shares, expected, atol=4 * 0.5 / 100)


def test_ask_on_a_small_space_returns_distinct_points() -> None:
    space = Space(banner=["red", "green", "blue"], size=["s", "m"])
    bandit = policies.adaptive_gp_ucb(space)
    bandit.tell(space.sample(4, np.random.default_rng(0)), [0.1, 0.2, 0.3, 0.0], 1)
    assert len(np.unique(bandit.ask(2, n=6), axis=0)) == 6
