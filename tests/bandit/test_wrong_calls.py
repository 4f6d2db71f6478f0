"""Wrong calls of every door: an error that says what is wrong, and a bandit that goes on unharmed."""

import datetime
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF, RationalQuadratic

from tests.helpers.players import INTERVAL, KERNEL, LINE, NOISE, VARIANTS, made, noisy, warmed
from tests.helpers.refusals import refused
from tests.oracles.states import fingerprint
from tvbandits import Bandit, Box, Candidates, Limit, NothingAvailableError, Recipe, Space, policies
from tvbandits.domains.domain import Domain
from tvbandits.domains.space import check_search
from tvbandits.queries import RandomPoints
from tvbandits.queries.plans import QueryConfig
from tvbandits.validation import Array

NAN, INF = math.nan, math.inf
NOON = datetime.datetime(2024, 5, 1, 12)
PLANE = np.stack(np.meshgrid(np.linspace(0, 5, 11), [0.0, 1.0], indexing="ij"), axis=-1)
DOMAINS: dict[str, tuple[Domain, Any]] = {
    "line": (LINE, KERNEL),
    "box": (INTERVAL, KERNEL),
    "plane": (Candidates(PLANE.reshape(-1, 2), context=[1]), RBF([1.5, 1.0])),
    "space": (Space(heat=(10.0, 80.0), mode=["a", "b"]), RBF(10.0)),
}


def nothing(X: Array) -> Array:
    return np.zeros(len(X), dtype=bool)


ONE, TWO = [[2.5]], [[2.5], [5.0]]
Call = Callable[[Bandit], Any]
WRONG: dict[str, list[tuple[str, Call, str]]] = {
    "line": [
        # how many
        ("n too many", lambda b: b.ask(9.0, n=10**9), "n must be at most 100000, got 1000000000"),
        # when
        ("ask beyond", lambda b: b.ask(1e300), r"t must be smaller than 2\^53 in size"),
        (
            "ask for the past",
            lambda b: b.ask(5.0),
            r"cannot ask for t = 5: there is a later reading, at t = 8",
        ),
        ("answer for a date", lambda b: b.answer(LINE.X[:1], [0.1], NOON), "as a Clock"),  # type: ignore[arg-type]
        # what is available
        ("mask short", lambda b: b.ask(9.0, available=np.ones(3, dtype=bool)), r"got shape \(3,\)"),
        (
            "one row",
            lambda b: b.ask(9.0, available=3),
            "mask or row numbers of the candidates, got 3",
        ),
        (
            "function of text",
            lambda b: b.ask(9.0, available=lambda _: "all"),
            r"True or False for each of 41",
        ),
        # what is told, predicted and recommended
        ("one reward for two", lambda b: b.tell(TWO, 1.0), r"y must have shape \(2,\), got \(\)"),
        ("point NaN", lambda b: b.tell([[NAN]], [1.0]), r"X must be finite, got \[nan\] in row 0"),
        ("tell outside", lambda b: b.tell([[2.5], [10.2]], [1, 1]), r"X must .*\[10\.2\] in row 1"),
        ("time infinite", lambda b: b.tell(TWO, [1, 1], [3, -INF]), "t must be finite, got -inf"),
        ("ask for NaN", lambda b: b.ask(NAN), "t must be a finite number, got nan"),
        ("tell too much", lambda b: b.tell(LINE.X[[3]], [1e60]), r"y must be at most 1e\+50"),
        # what is given up
        ("drop what is not out", lambda b: b.drop([[9.75]]), r"\[9\.75\] is not pending; 2 points"),
        ("drop elsewhere", lambda b: b.drop([[0.1]]), "X must be candidates"),
        # what is answered
        ("answers short", lambda b: b.answer(LINE.X[:2], [0.1]), r"values must have shape \(2,\)"),
        (
            "answers without variance",
            lambda b: b.answer(LINE.X[:1], [0.1], noise_variance=0.0),
            r"variance must be positive, got 0\.0",
        ),
        # going on
        (
            "another domain",
            lambda b: Bandit.from_state(Recipe(Candidates([[50.0]]), KERNEL, NOISE), b.state),
            "points played must be candidates",
        ),
        (
            "a state of text",
            lambda b: Bandit.from_state(b.recipe, "state"),  # type: ignore[arg-type]
            "takes a Recipe and then a State, got Recipe and str",
        ),
    ],
    "box": [
        ("rows of a box", lambda b: b.ask(9.0, available=[0, 1]), r"got \[0, 1\]"),
        ("context of a box", lambda b: b.ask(9.0, context=[1.0]), "created with context="),
        (
            "nothing of a box",
            lambda b: b.ask(9.0, available=nothing),
            "none of 65536 random points of Box",
        ),
        ("function of shape", lambda b: b.ask(9.0, available=lambda X: X > 0), "True or False for"),
        ("tell outside", lambda b: b.tell([[2.5], [10.2]], [1, 1]), r"X must .*\[10\.2\] in row 1"),
    ],
    "plane": [
        (
            "context left out",
            lambda b: b.ask(9.0),
            r"has context columns, .*: give their present values",
        ),
        ("context elsewhere", lambda b: b.ask(9.0, context=[0.5]), "the nearest context is"),
        ("context NaN", lambda b: b.ask(9.0, context=[NAN]), "context must be finite"),
        (
            "context and mask",
            lambda b: b.ask(9.0, available=PLANE.reshape(-1, 2)[:, 1] > 0.5, context=[0.0]),
            r"none of the 22 candidates is available in the context \[0\.0\]",
        ),
    ],
    "space": [
        ("mode unknown", lambda b: b.tell([{"heat": 20, "mode": "c"}], [1]), "mode must be one of"),
        ("heat missing", lambda b: b.tell([{"mode": "a"}], [0.1]), "parameter 'heat' is missing"),
        ("hot", lambda b: b.predict([{"heat": 99, "mode": "a"}]), "heat must be from 10 to 80"),
        ("more", lambda b: b.drop([{"heat": 20, "mode": "a", "x": 1}]), "unknown parameter 'x'"),
    ],
}
CALLS = [(kind, *each) for kind, calls in WRONG.items() for each in calls]


def player(kind: str) -> Bandit:
    """One of its own, from the same state."""
    bandit = played(kind)
    return Bandit.from_state(bandit.recipe, bandit.state)


@cache
def played(kind: str) -> Bandit:
    """With a plan and no expert, rewards up to t = 8, a failed reading, and two points out."""
    domain, kernel = DOMAINS[kind]
    query_config = QueryConfig(RandomPoints(2), pool="domain", reuse_answers=True)
    recipe = Recipe(
        domain, kernel, NOISE, query_config=query_config, consult="before ask", beta=2.0
    )
    bandit = Bandit(recipe, seed=4)
    for t in map(float, range(1, 9)):
        go_on(bandit, t)
    bandit.ask(8.5, n=2, context=weather(bandit, 8.0))
    return bandit


def weather(bandit: Bandit, t: float) -> list[float] | None:
    """The context, where there is one."""
    return [t % 2] if getattr(bandit.recipe.domain, "context", ()) else None


def go_on(bandit: Bandit, t: float) -> Array:
    points = bandit.questions(t)
    bandit.answer(points, noisy(points, t), t)
    X = bandit.ask(t, n=2, context=weather(bandit, t))
    y = noisy(X, t)
    y[1] = NAN if t % 4 == 0 else y[1]
    bandit.tell(X, y, t)
    return np.concatenate([points, X])


@pytest.mark.parametrize(
    ("kind", "call", "match"), [(k, c, m) for k, _, c, m in CALLS], ids=[c[1] for c in CALLS]
)
def test_a_wrong_call_is_named_and_changes_nothing(kind: str, call: Call, match: str) -> None:
    bandit, twin = player(kind), player(kind)
    state, kept = bandit.state, fingerprint(bandit.state)
    error = NothingAvailableError if match.startswith("none of") else ValueError
    refused(error, match, call, bandit)
    assert bandit.state is state
    assert fingerprint(bandit.state) == kept
    for t in (9.0, 10.0):
        np.testing.assert_array_equal(go_on(bandit, t), go_on(twin, t))
    assert fingerprint(bandit.state) == fingerprint(twin.state)


# What every policy has in common, with a model or without one.
SHARED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "n zero": (lambda p: p.ask(10.0, n=0), "n must be a whole number of at least 1, got 0"),
    "n a float": (lambda p: p.ask(10.0, n=2.0), "n must be a whole number .* got 2.0"),
    "rows outside": (
        lambda p: p.ask(10.0, available=[41]),
        "row numbers in available must be from 0 to 40, got 41",
    ),
    "nothing": (lambda p: p.ask(10.0, available=[]), "none of the 41 candidates is available"),
    "context": (lambda p: p.ask(10.0, context=[1.0]), "have no context columns"),
    "a date": (lambda p: p.ask(NOON), "as a Clock"),
    "tell a date": (lambda p: p.tell(LINE.X[[3]], [0.1], NOON), "as a Clock"),
    "tell None": (lambda p: p.tell(LINE.X[[3]], None), "y must be numeric, got None"),
    "tell elsewhere": (lambda p: p.tell([[0.1]], [NAN]), "the nearest candidate is"),
    "drop": (lambda p: p.drop(LINE.X[[3]]), "is not pending; 0 points are"),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_policy_names_them_alike(variant: str) -> None:
    wronged, twin = (warmed(made(variant)) for _ in range(2))
    for call, match in SHARED.values():
        refused(ValueError, match, call, wronged)
    for t in (10.0, 11.0):
        X = wronged.ask(t, n=3)
        np.testing.assert_array_equal(X, twin.ask(t, n=3))
        for each in (wronged, twin):
            each.tell(X, noisy(X, t), t)
    pd.testing.assert_frame_equal(wronged.history, twin.history, check_exact=True)


def fixed(domain: Domain, kernel: Any = None) -> Bandit:
    return policies.gp_ucb(domain, kernel=kernel or RBF(0.3), noise_variance=0.01)


def cube(d: int) -> Box:
    return Box([(0.0, 1.0)] * d)


MIXED = Space(heat=(0.0, 1.0), mode=["a", "b"])
SEARCHED: dict[str, tuple[Bandit, dict[str, Any], int]] = {
    "box": (fixed(cube(2)), {}, 100),
    "large box": (fixed(cube(8)), {}, 100),
    "space": (fixed(MIXED, MIXED.kernel()), {}, 100),
    "box with among": (fixed(cube(2)), {"available": lambda X: X[:, 0] < 0.5}, 60),
    "line without slopes": (fixed(cube(1), RationalQuadratic()), {}, 100),
    "box without slopes": (fixed(cube(3), RationalQuadratic()), {}, 30),
    "ensemble": (policies.adaptive_gp_ucb(cube(4), kernel=RBF(0.3)), {}, 15),
    "ensemble on a large box": (policies.adaptive_gp_ucb(cube(8), kernel=RBF(0.3)), {}, 10),
    "dictionary": (policies.bbkb(cube(6), kernel=RBF(0.3), noise_variance=0.01), {}, 10),
    "limits": (fixed(cube(4)).with_options(limits=[Limit("load", at_most=1.0)]), {}, 15),
    "moves that cost": (fixed(cube(4)).with_options(move_cost=0.1), {}, 15),
}


@pytest.mark.parametrize("name", SEARCHED)
def test_ask_refuses_more_points_than_can_be_searched_for(name: str) -> None:
    bandit, more, most = SEARCHED[name]
    before = bandit.state
    with pytest.raises(ValueError, match=rf"at most {most} .*got {most + 1}.*sample"):
        bandit.ask(1, n=most + 1, **more)
    assert bandit.state == before


def test_ask_refuses_more_points_near_the_last_than_can_be_searched_for() -> None:
    bandit = fixed(cube(4))
    bandit.tell([[0.5] * 4], [0.1], 1)
    with pytest.raises(ValueError, match=r"at most 15 .* in 4 dimensions .*near.*got 16"):
        bandit.ask(2, n=16, near=0.2)
    assert len(bandit.ask(2, n=2, near=0.2)) == 2


@pytest.mark.parametrize("domain", [Candidates([[0.0], [1.0]]), Space(mode=["a", "b"])])
def test_ask_takes_many_points_where_all_are_looked_at(domain: Any) -> None:
    for n in (101, 5_000):
        check_search(n, domain, "under bounds without slopes")
