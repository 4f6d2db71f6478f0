"""What is measured and not chosen: further coordinates of a point, at which a decision is made."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import refused
from tvbandits import Bandit, Box, Candidates, Options, Periodic, Recipe, Space, policies
from tvbandits.domains.domain import Domain
from tvbandits.queries import KDPP, LogSchedule
from tvbandits.queries.plans import Asking
from tvbandits.validation import Array

OUTSIDE: dict[str, Any] = {"outside": (-15, 20)}
SPACE = Space(heat=(0.0, 1.0), mode=["eco", "loud"], context=OUTSIDE)
BOX = Box([(0.0, 1.0), (0.0, 1.0)], context=OUTSIDE)
SITES = Candidates(np.linspace(0.0, 1.0, 11)[:, None], context=OUTSIDE)
DOMAINS: dict[str, Domain] = {"space": SPACE, "box": BOX, "candidates": SITES}
KERNEL = RBF(3.0)


def played(domain: Domain, steps: int = 8) -> Bandit:
    """A bandit that has played some steps, told of what was chosen alone."""
    bandit = policies.gp_ucb(domain, kernel=KERNEL, noise_variance=0.01)
    for t in range(1, steps + 1):
        X = bandit.ask(t, context={"outside": t / 2})
        bandit.tell(X[:, :-1], X[:, 0], t)
    return bandit


def learnable(recipe: Callable[..., Any]) -> dict[str, Any]:
    """What a recipe needs besides a domain."""
    needed: dict[str, Any] = {"expert": None, "kernel": KERNEL, "noise_variance": 0.1}
    needed |= {"forgetting_rate": 0.05, "window": 20, "reset_every": 10, "batch_size": 2}
    parameters = inspect.signature(recipe).parameters.items()
    return {
        name: needed[name]
        for name, each in parameters
        if name in needed and (each.default is inspect.Parameter.empty or name == "expert")
    }


FINITE = ("beta-bernoulli", "discounted-thompson", "thompson")


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("name", policies.POLICIES)
def test_every_policy_plays_at_the_context_and_remembers_it(name: str, kind: str) -> None:
    domain, recipe = DOMAINS[kind], policies.POLICIES[name].recipe
    try:
        bandit = recipe(domain, **learnable(recipe), seed=1)
    except ValueError as error:  # what has no such domain without a context has none with one
        assert "Candidates" in str(error)  # noqa: PT017 - which policies they are is not the matter
        assert kind != "candidates" or name in FINITE
        return
    for t in (1, 2, 3):
        X = bandit.ask(t, context={"outside": t / 2})
        np.testing.assert_array_equal(X[:, -1], t / 2)
        bandit.tell(X if t == 1 else X[:, :-1], X[:, 0], t)
    np.testing.assert_array_equal(bandit.history["outside"], bandit.history["time"] / 2)


@pytest.mark.parametrize("kind", DOMAINS)
def test_the_model_learns_across_values(kind: str) -> None:
    rng, domain = np.random.default_rng(0), DOMAINS[kind]
    bandit = policies.gp_ucb(
        domain, kernel=RBF([0.3] * (domain.dimension - 1) + [20.0]), noise_variance=0.01
    )
    X = domain.sample(60, rng)
    best = 0.3 + X[:, -1] / 50  # it moves with the context
    bandit.tell(X, -((X[:, 0] - best) ** 2), np.arange(60.0))
    for outside in (-10.0, 3.21, 18.0):  # none of them was met
        found = bandit.recommend(context={"outside": outside})
        assert abs(found[0] - (0.3 + outside / 50)) < 0.11
        mean, _ = bandit.predict(found[None, :-1], context={"outside": outside})
        np.testing.assert_array_equal(mean, bandit.predict(found[None])[0])


def test_a_reward_has_the_context_that_its_point_was_asked_for_in() -> None:
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
        bandit.tell([[0.5]], [0.6], 5, context=[7.0])  # which nobody asked for
        found = bandit.history[["time", "outside", "reward"]].to_numpy().tolist()
        assert found == [[1, 1, 0.5], [1.5, 1, 0.45], [3, 3, 0.3], [4, 4, 0.4], [5, 7, 0.6]]
    bandit.correct([[0.5]], [0.2], 1)
    bandit.retract([[0.5]])
    assert bandit.state.rewards.y.tolist() == [0.2, 0.45, 0.3, 0.4]


def test_names_go_in_and_come_out() -> None:
    bandit = policies.gp_ucb(SPACE, kernel=SPACE.kernel(), noise_variance=0.01)
    frame = SPACE.decode(bandit.ask(1, context={"outside": 3.2}))
    assert list(frame.columns) == ["heat", "mode", "outside"]
    bandit.tell(frame.drop(columns="outside"), [1.0])
    bandit.tell({"heat": 0.5, "mode": "eco"}, [1.0], 2, context={"outside": -3.0})
    bandit.tell({"heat": 0.5, "mode": "loud", "outside": -4.0}, [1.0], 3)
    assert bandit.history["outside"].tolist() == [3.2, -3.0, -4.0]


def test_a_context_of_words() -> None:
    space = Space(heat=(0.0, 1.0), context={"outside": (-15, 20), "tariff": ["day", "night"]})
    bandit = policies.adaptive_gp_ucb(space)
    for t, tariff in enumerate(["day", "night", "day"], start=1):
        bandit.tell(bandit.ask(t, context={"tariff": tariff, "outside": 1.0}), [1.0], t)
    assert bandit.history["tariff"].tolist() == ["day", "night", "day"]


def test_only_what_is_available_is_played_at_a_context() -> None:
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


def test_questions_are_about_the_context_of_the_decision() -> None:
    bandit = Bandit(
        Recipe(
            BOX, KERNEL, 0.01, asking=Asking(KDPP(LogSchedule(4.0)), about="domain"), age_lag=1.0
        )
    )
    for t in range(1, 6):
        X = bandit.ask(t, context={"outside": float(t)})
        asked = bandit.questions()
        np.testing.assert_array_equal(asked[:, -1], float(t))
        bandit.tell(X, X[:, 0], t)
    assert len(asked) == 7


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda b: b.ask(9), r"has a context, say context=\{'outside': ...\}"),
        (lambda b: b.recommend(9), "has a context, say context="),
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
        (lambda b: b.predict(chosen(b)), r"was not asked for, .*: say context=\{'outside': ...\}"),
        (lambda b: b.tell(chosen(b), [1.0], context={"outside": 21.0}), "from -15 to 20, got 21"),
        (lambda b: b.tell(np.zeros((1, 9)), [1.0]), "X must have shape"),
    ],
)
def test_a_wrong_context_is_an_error_and_changes_nothing(
    kind: str, call: Callable[[Bandit], Any], said: str
) -> None:
    bandit = played(DOMAINS[kind], 3)
    before = bandit.state
    refused(ValueError, said, call, bandit)
    assert bandit.state == before


def chosen(bandit: Bandit) -> Array:
    """What was chosen first."""
    return bandit.state.rewards.X[:1, :-1]


@pytest.mark.parametrize("domain", [SPACE.action_domain, BOX.action_domain])
def test_a_context_for_a_domain_without_one(domain: Any) -> None:
    bandit = policies.gp_ucb(domain, kernel=KERNEL, noise_variance=0.01)
    for call in (
        lambda: bandit.ask(1, context={"outside": 1.0}),
        lambda: bandit.tell(domain.sample(1, np.random.default_rng(0)), [1.0], context=[1.0]),
    ):
        refused(ValueError, "context", call)


@pytest.mark.parametrize(
    ("make", "said"),
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
def test_domains_that_cannot_be(make: Callable[[], Any], said: str) -> None:
    refused(ValueError, said, make)


@pytest.mark.parametrize(
    "domain",
    [Box([(0, 1)], context={"out": (-9, 9)}), Space(flow=(0, 2), context={"out": (-9, 9)})],
)
def test_a_recipe_on_a_domain_at_one_context_is_refused_at_once(domain: Domain) -> None:
    says = r"plays on the whole domain, got .* at \[1\.0\]: give .*context= to each ask"
    refused(ValueError, says, Recipe, domain.at_context(np.array([1.0])), RBF(1.0), 0.01)


@pytest.mark.parametrize("kind", ["context", "no context", "available"])
def test_more_plays_than_points_of_a_small_space_get_thompson_shares(kind: str) -> None:
    context = {"hour": Periodic(24)} if kind == "context" else None
    space = Space(banner=["red", "green", "blue"], context=context)
    kernel, hour = space.kernel(), {"hour": 8.0} if context else {}
    bandit = policies.gp_ucb(
        space, kernel=kernel, noise_variance=0.5, options=Options(mean=0.0), seed=2
    )
    X = space.encode([{"banner": name, **hour} for name in ("red", "green", "blue")])
    bandit.tell(X, [0.3, 0.1, 0.0], 1)
    # The posterior of the three by dense algebra, and how often each is the best of a draw of it.
    K = kernel(X)
    gain = np.linalg.solve(K + 0.5 * np.eye(3), K).T
    draws = np.random.default_rng(0).multivariate_normal(
        gain @ [0.3, 0.1, 0.0], K - gain @ K, size=200_000
    )
    is_open = [True, True, kind != "available"]
    best = np.where(is_open, draws, -np.inf).argmax(axis=1)
    expected = np.bincount(best, minlength=3) / len(best)
    asked = bandit.ask(
        2,
        n=10_000,
        context=hour or None,
        available=None if all(is_open) else {"banner": ["red", "green"]},
    )
    shares = [(asked == x).all(axis=1).mean() for x in X]
    np.testing.assert_allclose(shares, expected, atol=4 * 0.5 / 100)


def test_fewer_plays_than_points_of_a_small_space_are_of_different_points() -> None:
    space = Space(banner=["red", "green", "blue"], size=["s", "m"])
    bandit = policies.adaptive_gp_ucb(space)
    bandit.tell(space.sample(4, np.random.default_rng(0)), [0.1, 0.2, 0.3, 0.0], 1)
    assert len(np.unique(bandit.ask(2, n=6), axis=0)) == 6
