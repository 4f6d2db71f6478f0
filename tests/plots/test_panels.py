"""Plots of beliefs: their panels for each kind of domain, their unit and their sign."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.figure import Figure
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Bandit, Box, Candidates, Integer, Space, plots, policies
from tvbandits.experts import CallableExpert
from tvbandits.validation import Array

OVEN = Space(temperature=(10, 80), count=Integer(1, 5), mode=["a", "b"])
SITES = Candidates(np.random.default_rng(0).uniform(0, 1, (12, 2)))
GRID = Candidates.grid([[0, 1], [0, 2]], [5, 4])
LINE = Box([[0.0, 1.0]])


def reward(X: Array, t: float) -> Array:
    return np.asarray(np.sin(3 * X[:, 0]) + 0.1 * X.sum(axis=1) + 0.01 * t)


def played(domain: Any, rewards: int = 6, **options: Any) -> Bandit:
    """A bandit with an expert, some rewards, and two pending points."""
    kernel = domain.kernel() if isinstance(domain, Space) else RBF(0.3)
    if domain.dimension > 2 and isinstance(domain, Candidates):
        kernel = OVEN.kernel()
    expert = CallableExpert(reward, variance=0.1)
    bandit = policies.sparq_gp_ucb(
        domain, kernel=kernel, noise_variance=0.1, expert=expert, beta=2.0
    )
    if options:
        bandit = Bandit(replace(bandit.recipe, **options))
    for t in range(1, rewards + 1):
        X = bandit.ask(float(t))
        bandit.tell(X, reward(X, t))
    bandit.ask()
    bandit.ask()
    return bandit


def panels(figure: Figure) -> list[Axes]:
    """All axes but those of colour bars."""
    return [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_beliefs_on_a_line_draws_mean_band_rewards_and_legend() -> None:
    bandit = played(LINE)
    figure = plots.beliefs(bandit, 9.0, unit="mg/l")
    (ax,) = panels(figure)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "reward (mg/l)")
    assert legend(figure) == ["mean ± 2 deviations", "reward", "answer", "pending", "recommended"]
    curve = ax.lines[0]
    mean, deviation = bandit.predict(np.asarray(curve.get_xdata())[:, None], 9.0)
    np.testing.assert_allclose(curve.get_ydata(), mean)
    band = ax.collections[0].get_paths()[0].vertices
    assert np.max(band[:, 1]) == pytest.approx(np.max(mean + 2.0 * deviation))
    rewards = next(part for part in ax.collections if isinstance(part, PathCollection))
    shown = {tuple(row) for row in np.asarray(rewards.get_offsets()).tolist()}
    assert shown == set(zip(*(bandit.state.rewards.X[:, 0], bandit.state.rewards.y), strict=True))


def test_beliefs_marks_pending_and_recommended_points() -> None:
    bandit = played(LINE)
    (ax,) = panels(plots.beliefs(bandit))
    marked = {part.get_label(): np.asarray(part.get_offsets()) for part in ax.collections}
    np.testing.assert_allclose(marked["_pending"][:, 0], bandit.pending[:, 0])
    best = bandit.recommend()
    np.testing.assert_allclose(
        marked["_recommended"], [[best[0], bandit.predict(best[None, :])[0][0]]]
    )


@pytest.mark.parametrize(
    ("domain", "filled"), [(Box([[0, 1], [0, 2]]), True), (GRID, True), (SITES, False)]
)
def test_beliefs_in_a_plane_draws_mean_and_deviation_as_maps_or_points(
    domain: Any, filled: bool
) -> None:
    bandit = played(domain)
    ax, other = panels(plots.beliefs(bandit, unit="ppb"))
    for panel, which in ((ax, 0), (other, 1)):
        drawn: Any = panel.collections[0]
        assert isinstance(drawn, QuadMesh) is filled
        values = np.asarray(drawn.get_array()).ravel()
        if isinstance(domain, Candidates):
            np.testing.assert_allclose(np.sort(values), np.sort(bandit.predict(domain.X)[which]))
    if domain is GRID:  # each value is in its cell
        mesh: Any = ax.collections[0]
        values = np.asarray(mesh.get_array()).reshape(4, 5)
        np.testing.assert_allclose(values.T.ravel(), bandit.predict(GRID.X)[0])


def test_beliefs_on_a_space_draws_a_slice_for_each_parameter() -> None:
    bandit = played(OVEN)
    axes = panels(plots.beliefs(bandit))
    assert [ax.get_xlabel() for ax in axes] == ["temperature", "count", "mode"]
    assert [text.get_text() for text in axes[2].get_xticklabels()] == ["a", "b"]
    best = OVEN.decode(bandit.recommend()).to_dict("records")[0]
    points = [{**best, "count": count} for count in range(1, 6)]
    whiskers = axes[1].lines[0]
    np.testing.assert_array_equal(whiskers.get_xdata(), [1, 2, 3, 4, 5])
    np.testing.assert_allclose(whiskers.get_ydata(), bandit.predict(OVEN.encode(points))[0])
    points = [{**best, "mode": mode} for mode in "ab"]
    np.testing.assert_allclose(axes[2].lines[0].get_ydata(), bandit.predict(OVEN.encode(points))[0])


@pytest.mark.parametrize(
    ("domain", "count"),
    [
        (Space(a=(0, 1)), 1),
        (Space(a=Integer(0, 9)), 1),
        (Space(a=(0, 1), b=Integer(0, 9)), 2),
        (Space(a=["x", "y"]), 1),
        (Space(a=["x", "y"], b=(0, 1)), 2),
        (Box([[0, 1]] * 4), 4),
        (Candidates([[0.0], [0.5], [2.0]]), 1),
        (Candidates([[1.0]]), 1),
        (Candidates([[1.0, 2.0]]), 2),
    ],
)
def test_beliefs_has_the_right_number_of_panels_for_other_domains(domain: Any, count: int) -> None:
    figure = plots.beliefs(played(domain, 3))
    assert len(panels(figure)) - sum(not ax.axison for ax in figure.axes) == count
    figure.canvas.draw()


def test_beliefs_on_a_table_lists_the_25_candidates_with_the_best_means() -> None:
    table = OVEN.table(OVEN.decode(OVEN.sample(40, np.random.default_rng(0))))
    bandit = played(table, mean=0.0)
    (ax,) = panels(plots.beliefs(bandit))
    mean, _ = bandit.predict(table.X)
    order = np.argsort(-mean, kind="stable")[:25]
    np.testing.assert_allclose(ax.lines[0].get_xdata(), mean[order])
    first = table.decode(table.X[order[:1]]).iloc[0]
    label = f"{first['temperature']:.4g}, {first['count']}, {first['mode']}"
    assert ax.get_yticklabels()[0].get_text() == label


def test_beliefs_on_a_table_lists_the_smallest_mean_first_if_minimizing() -> None:
    table = OVEN.table(OVEN.decode(OVEN.sample(10, np.random.default_rng(0))))
    (ax,) = panels(plots.beliefs(played(table, minimize=True)))
    means = np.asarray(ax.lines[0].get_xdata())
    assert (np.diff(means) >= 0).all()
    star = next(part for part in ax.collections if part.get_label() == "_recommended")
    np.testing.assert_allclose(star.get_offsets()[:, 0], [means[0]])


def test_beliefs_leaves_the_bandit_unchanged() -> None:
    bandit, twin = played(OVEN), played(OVEN)
    plots.beliefs(bandit)
    assert bandit.state == twin.state
    np.testing.assert_array_equal(bandit.ask(), twin.ask())


def test_beliefs_refuses_an_invalid_time() -> None:
    with pytest.raises(ValueError, match=r"t must .*nan"):
        plots.beliefs(policies.gp_ucb(LINE, kernel=RBF(0.3), noise_variance=0.1), np.nan)
