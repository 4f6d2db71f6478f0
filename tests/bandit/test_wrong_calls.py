"""Wrong calls of a bandit: the error names the mistake, and the bandit continues unharmed."""

import datetime
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF, RationalQuadratic

from tests.helpers.players import (
    INTERVAL,
    KERNEL,
    LINE,
    NOISE,
    VARIANTS,
    make_player,
    noisy_wave,
    warm_up,
)
from tests.helpers.refusals import assert_refused
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
        # availability
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
        # observations and predictions
        ("one reward for two", lambda b: b.tell(TWO, 1.0), r"y must have shape \(2,\), got \(\)"),
        ("point NaN", lambda b: b.tell([[NAN]], [1.0]), r"X must be finite, got \[nan\] in row 0"),
        ("tell outside", lambda b: b.tell([[2.5], [10.2]], [1, 1]), r"X must .*\[10\.2\] in row 1"),
        ("time infinite", lambda b: b.tell(TWO, [1, 1], [3, -INF]), "t must be finite, got -inf"),
        ("ask for NaN", lambda b: b.ask(NAN), "t must be a finite number, got nan"),
        ("tell too much", lambda b: b.tell(LINE.X[[3]], [1e60]), r"y must be at most 1e\+50"),
        # pending points
        ("drop another point", lambda b: b.drop([[9.75]]), r"\[9\.75\] is not pending; 2 points"),
        ("drop elsewhere", lambda b: b.drop([[0.1]]), "X must be candidates"),
        # answers
        ("answers short", lambda b: b.answer(LINE.X[:2], [0.1]), r"values must have shape \(2,\)"),
        (
            "answers without variance",
            lambda b: b.answer(LINE.X[:1], [0.1], noise_variance=0.0),
            r"variance must be positive, got 0\.0",
        ),
        # states
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


def make_bandit(kind: str) -> Bandit:
    """Return a new bandit from the same state."""
    bandit = bandit_after_steps(kind)
    return Bandit.from_state(bandit.recipe, bandit.state)


@cache
def bandit_after_steps(kind: str) -> Bandit:
    """Return a bandit after eight steps and a failed reading, with two pending points and no expert."""
    domain, kernel = DOMAINS[kind]
    query_config = QueryConfig(RandomPoints(2), pool="domain", reuse_answers=True)
    recipe = Recipe(
        domain, kernel, NOISE, query_config=query_config, consult="before ask", beta=2.0
    )
    bandit = Bandit(recipe, seed=4)
    for t in map(float, range(1, 9)):
        play_step(bandit, t)
    bandit.ask(8.5, n=2, context=context_at(bandit, 8.0))
    return bandit


def context_at(bandit: Bandit, t: float) -> list[float] | None:
    """Return the context of a time, if the domain has one."""
    return [t % 2] if getattr(bandit.recipe.domain, "context", ()) else None


def play_step(bandit: Bandit, t: float) -> Array:
    points = bandit.questions(t)
    bandit.answer(points, noisy_wave(points, t), t)
    X = bandit.ask(t, n=2, context=context_at(bandit, t))
    y = noisy_wave(X, t)
    y[1] = NAN if t % 4 == 0 else y[1]
    bandit.tell(X, y, t)
    return np.concatenate([points, X])


@pytest.mark.parametrize(
    ("kind", "call", "match"), [(k, c, m) for k, _, c, m in CALLS], ids=[c[1] for c in CALLS]
)
def test_bandit_names_a_wrong_call_and_changes_nothing(kind: str, call: Call, match: str) -> None:
    bandit, twin = make_bandit(kind), make_bandit(kind)
    state, before = bandit.state, fingerprint(bandit.state)
    error = NothingAvailableError if match.startswith("none of") else ValueError
    assert_refused(error, match, call, bandit)
    assert bandit.state is state
    assert fingerprint(bandit.state) == before
    for t in (9.0, 10.0):
        np.testing.assert_array_equal(play_step(bandit, t), play_step(twin, t))
    assert fingerprint(bandit.state) == fingerprint(twin.state)


# Wrong calls that every policy refuses with the same message.
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
def test_policies_refuse_wrong_calls_with_the_same_messages(variant: str) -> None:
    make_bandit, twin = (warm_up(make_player(variant)) for _ in range(2))
    for call, match in SHARED.values():
        assert_refused(ValueError, match, call, make_bandit)
    for t in (10.0, 11.0):
        X = make_bandit.ask(t, n=3)
        np.testing.assert_array_equal(X, twin.ask(t, n=3))
        for each in (make_bandit, twin):
            each.tell(X, noisy_wave(X, t), t)
    pd.testing.assert_frame_equal(make_bandit.history, twin.history, check_exact=True)


def gp_ucb_on(domain: Domain, kernel: Any = None) -> Bandit:
    return policies.gp_ucb(domain, kernel=kernel or RBF(0.3), noise_variance=0.01)


def cube(d: int) -> Box:
    return Box([(0.0, 1.0)] * d)


MIXED = Space(heat=(0.0, 1.0), mode=["a", "b"])
NUMERIC_SEARCHES: dict[str, tuple[Bandit, dict[str, Any], int]] = {
    "box": (gp_ucb_on(cube(2)), {}, 100),
    "large box": (gp_ucb_on(cube(8)), {}, 100),
    "space": (gp_ucb_on(MIXED, MIXED.kernel()), {}, 100),
    "box with among": (gp_ucb_on(cube(2)), {"available": lambda X: X[:, 0] < 0.5}, 60),
    "line without slopes": (gp_ucb_on(cube(1), RationalQuadratic()), {}, 100),
    "box without slopes": (gp_ucb_on(cube(3), RationalQuadratic()), {}, 30),
    "ensemble": (policies.adaptive_gp_ucb(cube(4), kernel=RBF(0.3)), {}, 15),
    "ensemble on a large box": (policies.adaptive_gp_ucb(cube(8), kernel=RBF(0.3)), {}, 10),
    "dictionary": (policies.bbkb(cube(6), kernel=RBF(0.3), noise_variance=0.01), {}, 10),
    "limits": (gp_ucb_on(cube(4)).with_options(limits=[Limit("load", at_most=1.0)]), {}, 15),
    "moves that cost": (gp_ucb_on(cube(4)).with_options(move_cost=0.1), {}, 15),
}


@pytest.mark.parametrize("name", NUMERIC_SEARCHES)
def test_ask_refuses_more_points_than_the_search_can_return(name: str) -> None:
    bandit, arguments, most = NUMERIC_SEARCHES[name]
    before = bandit.state
    with pytest.raises(ValueError, match=rf"at most {most} .*got {most + 1}.*sample"):
        bandit.ask(1, n=most + 1, **arguments)
    assert bandit.state == before


def test_ask_near_refuses_more_points_than_the_search_can_return() -> None:
    bandit = gp_ucb_on(cube(4))
    bandit.tell([[0.5] * 4], [0.1], 1)
    with pytest.raises(ValueError, match=r"at most 15 .* in 4 dimensions .*near.*got 16"):
        bandit.ask(2, n=16, near=0.2)
    assert len(bandit.ask(2, n=2, near=0.2)) == 2


@pytest.mark.parametrize("domain", [Candidates([[0.0], [1.0]]), Space(mode=["a", "b"])])
def test_check_search_accepts_many_points_on_a_finite_domain(domain: Any) -> None:
    for n in (101, 5_000):
        check_search(n, domain, "under bounds without slopes")
