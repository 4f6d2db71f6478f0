"""Smaller is better: the mirror image of maximizing, to the last bit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers.players import (
    INTERVAL,
    KINDS,
    LINE,
    MINIMISING,
    ON_INTERVAL,
    VARIANTS,
    Known,
    made,
    noisy,
)
from tvbandits import Bandit
from tvbandits.policies import POLICIES


def test_every_policy_can() -> None:
    assert set(MINIMISING) == set(VARIANTS)


def pair(variant: str, domain: Any = LINE, **more: Any) -> tuple[Any, Any, Known, Known]:
    """One that maximizes, and one that minimizes the negative, each with an expert of its own."""
    upper, lower = Known(1.0), Known(-1.0)
    mirrored = {"mean": -more["mean"]} if isinstance(more.get("mean"), float) else {}
    one = made(variant, domain, upper, **more)
    return one, made(variant, domain, lower, **{**more, **mirrored}, minimize=True), upper, lower


def assert_mirrored(one: Any, other: Any, t: float) -> None:
    for name in ("readings", "failed", "beta"):
        np.testing.assert_array_equal(getattr(one.info, name), getattr(other.info, name))
    np.testing.assert_array_equal(one.pending, other.pending)
    np.testing.assert_array_equal(one.history["reward"], -other.history["reward"])
    if not isinstance(one, Bandit):
        return
    mean, deviation = one.predict(LINE.X, t)
    below, spread = other.predict(LINE.X, t)
    np.testing.assert_array_equal(mean, -below)
    np.testing.assert_array_equal(deviation, spread)
    np.testing.assert_array_equal(one.recommend(t), other.recommend(t))
    assert one.info.model.mean == -other.info.model.mean
    assert one.info.model.scale == other.info.model.scale
    assert one.info.posterior == other.info.posterior
    assert one.info.queries.total_asked == other.info.queries.total_asked


def takes_mean(variant: str) -> bool:
    return "mean" in POLICIES[VARIANTS[variant][0]].parameters


MIRRORED = [
    *((variant, LINE, "online") for variant in MINIMISING),
    *((variant, INTERVAL, "online") for variant in KINDS if variant in ON_INTERVAL),
    *((variant, LINE, 0.3) for variant in ("gp-ucb", "bkb", "adaptive-gp-ucb", "sparq-gp-ucb")),
]


@pytest.mark.parametrize(("variant", "domain", "mean"), MIRRORED)
def test_it_is_the_mirror_image(variant: str, domain: Any, mean: Any) -> None:
    one, other, upper, lower = pair(
        variant, domain, **({"mean": mean} if takes_mean(variant) else {})
    )
    # Of players of one kind one plays for long: the others have the same sign in the same place.
    steps = 14 if variant in KINDS and domain is LINE else 9
    for t in map(float, range(1, steps)):
        n = 3 if t % 5 == 0 else 1
        X = one.ask(t, n=n)
        np.testing.assert_array_equal(X, other.ask(t, n=n))
        y = noisy(X, t)
        if t % 7 == 0:
            y[0] = np.nan
        one.tell(X, y, t)
        other.tell(X, -y, t)
        if t % 4 == 0:
            assert_mirrored(one, other, t + 1.0)
    assert len(upper.asked) == len(lower.asked)
    for (points, about), (mirrored, then) in zip(upper.asked, lower.asked, strict=True):
        np.testing.assert_array_equal(points, mirrored)
        assert about == then


@pytest.mark.parametrize("variant", ["sparq-gp-ucb", "frugal-gp-ucb"])
def test_questions_to_carry_are_mirrored_too(variant: str) -> None:
    one, other = (
        Bandit.from_state(
            _without_expert(made(variant, minimize=minimize).recipe),
            made(variant, minimize=minimize).state,
        )
        for minimize in (False, True)
    )
    for t in map(float, range(1, 12)):
        X = one.ask(t)
        np.testing.assert_array_equal(X, other.ask(t))
        y = noisy(X, t)
        one.tell(X, y, t)
        other.tell(X, -y, t)
        points = one.questions(t)
        np.testing.assert_array_equal(points, other.questions(t))
        if len(points):
            said = noisy(points, t)
            one.answer(points, said, t, noise_variance=0.02)
            other.answer(points, -said, t, noise_variance=0.02)
    assert one.info.queries.total_answered > 5
    assert_mirrored(one, other, 12.0)


def _without_expert(recipe: Any) -> Any:
    return replace(recipe, query_config=replace(recipe.query_config, expert=None))
