"""Minimizing is bitwise the mirror image of maximizing."""

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
    RecordingWaveExpert,
    make_player,
    noisy_wave,
)
from tvbandits import Bandit
from tvbandits.policies import POLICIES


def test_policies_all_accept_minimize() -> None:
    assert set(MINIMISING) == set(VARIANTS)


def pair(
    variant: str, domain: Any = LINE, **more: Any
) -> tuple[Any, Any, RecordingWaveExpert, RecordingWaveExpert]:
    """Return a player that maximizes, one that minimizes the negative, and their experts."""
    upper, lower = RecordingWaveExpert(1.0), RecordingWaveExpert(-1.0)
    mirrored = {"mean": -more["mean"]} if isinstance(more.get("mean"), float) else {}
    one = make_player(variant, domain, upper, **more)
    return (
        one,
        make_player(variant, domain, lower, **{**more, **mirrored}, minimize=True),
        upper,
        lower,
    )


def assert_mirrored(one: Any, other: Any, t: float) -> None:
    for name in ("readings", "failed", "beta"):
        np.testing.assert_array_equal(getattr(one.info, name), getattr(other.info, name))
    np.testing.assert_array_equal(one.pending, other.pending)
    np.testing.assert_array_equal(one.history["reward"], -other.history["reward"])
    if not isinstance(one, Bandit):
        return
    mean, deviation = one.predict(LINE.X, t)
    mirrored_mean, mirrored_deviation = other.predict(LINE.X, t)
    np.testing.assert_array_equal(mean, -mirrored_mean)
    np.testing.assert_array_equal(deviation, mirrored_deviation)
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
def test_minimize_plays_the_mirror_image(variant: str, domain: Any, mean: Any) -> None:
    one, other, upper, lower = pair(
        variant, domain, **({"mean": mean} if takes_mean(variant) else {})
    )
    # One player of each kind plays longer; the others differ in no sign.
    steps = 14 if variant in KINDS and domain is LINE else 9
    for t in map(float, range(1, steps)):
        n = 3 if t % 5 == 0 else 1
        X = one.ask(t, n=n)
        np.testing.assert_array_equal(X, other.ask(t, n=n))
        y = noisy_wave(X, t)
        if t % 7 == 0:
            y[0] = np.nan
        one.tell(X, y, t)
        other.tell(X, -y, t)
        if t % 4 == 0:
            assert_mirrored(one, other, t + 1.0)
    assert len(upper.queries) == len(lower.queries)
    for (points, time), (mirrored_points, mirrored_time) in zip(
        upper.queries, lower.queries, strict=True
    ):
        np.testing.assert_array_equal(points, mirrored_points)
        assert time == mirrored_time


@pytest.mark.parametrize("variant", ["sparq-gp-ucb", "frugal-gp-ucb"])
def test_minimize_mirrors_questions_and_answers(variant: str) -> None:
    one, other = (
        Bandit.from_state(
            remove_expert(make_player(variant, minimize=minimize).recipe),
            make_player(variant, minimize=minimize).state,
        )
        for minimize in (False, True)
    )
    for t in map(float, range(1, 12)):
        X = one.ask(t)
        np.testing.assert_array_equal(X, other.ask(t))
        y = noisy_wave(X, t)
        one.tell(X, y, t)
        other.tell(X, -y, t)
        points = one.questions(t)
        np.testing.assert_array_equal(points, other.questions(t))
        if len(points):
            answers = noisy_wave(points, t)
            one.answer(points, answers, t, noise_variance=0.02)
            other.answer(points, -answers, t, noise_variance=0.02)
    assert one.info.queries.total_answered > 5
    assert_mirrored(one, other, 12.0)


def remove_expert(recipe: Any) -> Any:
    return replace(recipe, query_config=replace(recipe.query_config, expert=None))
