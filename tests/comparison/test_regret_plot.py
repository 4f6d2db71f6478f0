"""Pictures: labelled, legible without colour, and whole in the corner cases."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Candidates
from tvbandits.comparison.board import rank_figure, ranks
from tvbandits.comparison.regret_plot import (
    REFERENCE_NAMES,
    _apart,
    regret_figure,
    styles_of,
)
from tvbandits.datasets.tables.references import References
from tvbandits.plots import beliefs
from tvbandits.plots.figure import NotebookFigure
from tvbandits.policies import POLICIES, gp_ucb

STYLES = {name: policy.look for name, policy in POLICIES.items() if policy.look is not None}
EIGHT = [
    *("uniform", "gp-ucb", "r-gp-ucb", "sw-gp-ucb"),
    *("w-gp-ucb", "tv-gp-ucb", "ui-gp-ucb", "sparq-gp-ucb"),
]


def make_rows(
    policies: Sequence[str] = EIGHT,
    *,
    levels: Sequence[float] | float | None = None,
    horizon: int = 40,
    seeds: int = 3,
    problem: str = "p",
    confidence: str = "theory",
) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    if levels is None:
        levels = [1.0 + 0.3 * i for i in range(len(policies))]
    each = np.broadcast_to(np.asarray(levels, dtype=float), (len(policies),))
    rows = []
    for policy, level in zip(policies, each, strict=True):
        asks = "sparq" in policy
        for seed in range(seeds):
            regret = level * rng.uniform(0.9, 1.1, horizon)
            average = np.cumsum(regret) / np.arange(1, horizon + 1)
            rows += [
                {
                    "problem": problem,
                    "policy": policy,
                    "confidence": confidence,
                    "seed": seed,
                    "t": t,
                    "regret": regret[t - 1],
                    "average_regret": average[t - 1],
                    "queries": 5 if asks else 0,
                    "bound": 30.0 / t**0.5 if policy != "uniform" else np.nan,
                }
                for t in range(1, horizon + 1)
            ]
    return pd.DataFrame(rows)


def drawn(axes: Axes) -> list[Line2D]:
    """Curves and references, without what belongs to the labels."""
    return [line for line in axes.get_lines() if line.get_gid() not in ("key", "leader")]


def keys(axes: Axes) -> list[Line2D]:
    return [line for line in axes.get_lines() if line.get_gid() == "key"]


def without_colour(line: Line2D) -> tuple[object, ...]:
    """(dashes, marker, width)."""
    return str(line._unscaled_dash_pattern), line.get_marker(), line.get_linewidth()  # type: ignore[attr-defined]


def curves(axes: Axes) -> list[tuple[object, ...]]:
    """(dashes, marker, width) of the lines that have markers: one for each policy."""
    return [without_colour(line) for line in drawn(axes) if line.get_marker() != "None"]


def looks(policies: Sequence[str]) -> dict[str, tuple[object, ...]]:
    """How each policy is drawn among the others."""
    (axes,) = regret_figure(make_rows(policies, seeds=1, horizon=9)).axes
    found = drawn(axes)
    assert names(axes) == list(policies)
    return {
        policy: (line.get_color(), line.get_markerfacecolor(), *without_colour(line))
        for policy, line in zip(policies, found, strict=True)
    }


def darkness(colour: object) -> float:
    """0 for white, 1 for black, as a printer without colour has it."""
    return float(1 - np.dot(to_rgb(colour), [0.299, 0.587, 0.114]))  # type: ignore[arg-type]


def labels(axes: Axes) -> list[Annotation]:
    return [text for text in axes.texts if isinstance(text, Annotation)]


def names(axes: Axes) -> list[str]:
    return [label.get_text() for label in labels(axes)]


def extent(key: Line2D, figure: Figure) -> Bbox:
    """The line from end to end, as high as its marker."""
    (left, y), _, (right, _) = key.get_transform().transform(key.get_xydata())
    half = key.get_markersize() / 2 * figure.dpi / 72
    return Bbox([[left, y - half], [right, y + half]])


def assert_legible(figure: Figure) -> None:
    """Labels lie within the picture and on no other; all of it can be drawn."""
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()
    renderer = canvas.get_renderer()
    for axes in figure.axes:
        boxes = [super(Annotation, label).get_window_extent(renderer) for label in labels(axes)]
        plot = axes.get_window_extent(renderer)
        pieces = [extent(key, figure) for key in keys(axes)]
        assert len(pieces) == len(boxes)
        for i, (piece, box) in enumerate(zip(pieces, boxes, strict=True)):
            assert plot.x1 < piece.x0 < piece.x1 < box.x0
            assert box.y0 < (piece.y0 + piece.y1) / 2 < box.y1
            assert not any(piece.overlaps(other) for other in pieces[:i])
        assert plot.width > 0.35 * figure.bbox.width
        for i, box in enumerate(boxes):
            assert box.x0 >= plot.x1
            assert figure.bbox.x0 <= box.x0
            assert box.x1 <= figure.bbox.x1 + 1
            assert figure.bbox.y0 <= box.y0
            assert box.y1 <= figure.bbox.y1 + 1
            for other in boxes[:i]:
                assert not box.overlaps(other), (i, box, other)


def test_axes_have_names_and_the_unit() -> None:
    figure = regret_figure(make_rows(), None, {"p": "ppb"})
    (axes,) = figure.axes
    assert axes.get_xlabel() == "step t"
    assert axes.get_ylabel() == "average regret $R_t / t$ [ppb]"
    assert axes.get_title("left") == "p, width of the theorem, 3 seeds"
    (axes,) = regret_figure(make_rows(confidence="2", seeds=1)).axes
    assert axes.get_ylabel() == "average regret $R_t / t$"
    assert axes.get_title("left") == "p, width 2, 1 seed"


def test_it_says_what_the_band_is() -> None:
    assert "Band: one standard deviation" in regret_figure(make_rows(seeds=2)).get_supxlabel()
    assert regret_figure(make_rows(seeds=1)).get_supxlabel() == ""


@pytest.mark.parametrize("count", [1, 8, 20])
def test_one_line_a_policy_told_apart_without_colour(count: int) -> None:
    policies = [f"policy-{i}" for i in range(count)]
    (axes,) = regret_figure(make_rows(policies, seeds=2)).axes
    found = curves(axes)
    assert len(found) == len(set(found)) == count
    assert len({pair[:2] for pair in found}) == count
    assert names(axes) == policies


def test_lines_are_means_over_seeds() -> None:
    rows = make_rows(["a", "b"], seeds=4)
    (axes,) = regret_figure(rows).axes
    for line, policy in zip(drawn(axes), "ab", strict=True):
        of_policy = rows[rows["policy"] == policy]
        expected = [of_policy[of_policy["t"] == t]["average_regret"].mean() for t in range(1, 41)]
        np.testing.assert_allclose(np.asarray(line.get_ydata()), expected)
        np.testing.assert_array_equal(np.asarray(line.get_xdata()), np.arange(1, 41))


def test_bound_only_when_asked_and_only_for_who_asks() -> None:
    (without,) = regret_figure(make_rows()).axes
    assert not any("bound" in name for name in names(without))
    assert without.get_yscale() == "linear"
    (with_bound,) = regret_figure(make_rows(), bound=True).axes
    assert [name for name in names(with_bound) if "bound" in name] == ["bound for sparq-gp-ucb"]
    (line,) = [line for line in drawn(with_bound) if line.get_marker() == "None"]
    np.testing.assert_allclose(np.asarray(line.get_ydata()), 30.0 / np.arange(2, 41) ** 0.5)
    low, high = with_bound.get_ylim()
    assert low < 30.0 / 40**0.5 < high
    (silent,) = regret_figure(make_rows(EIGHT[:3]), bound=True).axes
    assert names(silent) == EIGHT[:3]


def test_references_within_sight_and_not_twice() -> None:
    references = {"p": References(1.0, 5.0, 0.2, 0.3)}
    (axes,) = regret_figure(make_rows(["gp-ucb"]), references).axes
    assert set(names(axes)) == {"gp-ucb", *REFERENCE_NAMES.values()}
    assert axes.get_ylim()[1] > 5.0
    (axes,) = regret_figure(make_rows(["uniform"]), references).axes
    assert REFERENCE_NAMES["uniform"] not in names(axes)
    (axes,) = regret_figure(make_rows(["sparq-gp-ucb"]), references, bound=True).axes
    assert REFERENCE_NAMES["last_best"] not in names(axes)  # far below a logarithmic axis
    (axes,) = regret_figure(make_rows(["gp-ucb"]), {"other": References(1, 2, 3, 4)}).axes
    assert names(axes) == ["gp-ucb"]


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize(
    ("horizon", "seeds", "levels"), [(1, 1, None), (1, 2, 0.0), (2, 1, 0.0), (3, 2, None)]
)
def test_few_steps_few_seeds_no_regret(
    horizon: int, seeds: int, levels: float | None, bound: bool
) -> None:
    rows = make_rows(horizon=horizon, seeds=seeds, levels=levels)
    figure = regret_figure(rows, {"p": References(1, 0.4, 0.1, 0.2)}, bound=bound)
    assert_legible(figure)
    (axes,) = figure.axes
    assert np.isfinite([*axes.get_xlim(), *axes.get_ylim()]).all()
    assert len(curves(axes)) == 8
    for line in drawn(axes):
        assert np.isfinite(np.asarray(line.get_ydata(), dtype=float)).all()


def test_a_panel_for_each_problem_and_width() -> None:
    rows = pd.concat(
        [make_rows(), make_rows(problem="q" * 300), make_rows(confidence="2")], ignore_index=True
    )
    figure = regret_figure(rows, None, {"p": "ppb"})
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles[0] == "p, width of the theorem, 3 seeds"
    assert titles[1] == "p, width 2, 3 seeds"
    assert titles[2].replace("\n", "").startswith("q" * 300)
    assert_legible(figure)
    for axes in figure.axes:
        box = axes.title.get_window_extent()
        assert box.width < figure.bbox.width


def test_long_names_and_dollars() -> None:
    policies = ["x" * 300, "sw-gp-ucb:" + "window=40," * 30, "$a_$b", "short"]
    figure = regret_figure(make_rows(policies, problem="$p$_"), None, {"$p$_": "$"})
    assert_legible(figure)
    (axes,) = figure.axes
    found = names(axes)
    assert [len(name) <= 40 for name in found] == [True] * 4
    assert found[2:] == ["$a_$b", "short"]
    assert found[1].startswith("sw-gp-ucb:window=40")


# --- a style belongs to the policy


def test_every_name_has_a_style_that_is_told_apart_without_colour() -> None:
    assert set(STYLES) == set(POLICIES)
    found = looks(list(POLICIES))
    assert len({look[2:] for look in found.values()}) == len(POLICIES)
    assert len({look[3] for look in found.values()}) == len(POLICIES)  # markers alone


def test_styles_are_readable_in_grey() -> None:
    dark = {name: darkness(style.colour) for name, style in STYLES.items()}
    assert min(dark.values()) >= 0.45
    assert 0.45 <= dark["uniform"] <= 0.65
    assert len(set(to_rgb(STYLES["uniform"].colour))) == 1
    assert dark.pop("sparq-gp-ucb") == 1.0
    assert max(dark.values()) < 0.9
    widths = {name: style.width for name, style in STYLES.items()}
    assert widths.pop("sparq-gp-ucb") > max(widths.values())
    others = styles_of([f"policy-{i}" for i in range(30)]).values()
    assert min(darkness(style.colour) for style in others) >= 0.45
    assert max(style.width for style in others) < 3.0


def test_three_policies_never_share_a_colour() -> None:
    """Nor colours that look alike: of RGB, less than a tenth apart."""
    everyone = styles_of([*POLICIES, *(f"policy-{i}" for i in range(36))])
    colours = np.array([to_rgb(style.colour) for style in everyone.values()])
    alike = np.linalg.norm(colours[:, None] - colours[None], axis=2) < 0.1
    assert alike.sum(axis=1).max() <= 2
    assert len({(style.dashes, style.marker) for style in everyone.values()}) == len(everyone)


def test_a_policy_looks_the_same_in_all_company() -> None:
    everyone = looks(list(POLICIES))
    assert looks(list(POLICIES)[::-1]) == everyone
    for company in (["thompson", "uniform"], ["mine", "bkb", "sw-gp-ucb:window=4"]):
        for policy, look in looks(company).items():
            if policy != "mine":
                assert look == everyone[policy.partition(":")[0]], policy


@pytest.mark.parametrize("plain", [0, 2, None])
def test_other_settings_of_a_policy_get_free_styles(plain: int | None) -> None:
    policies = ["sw-gp-ucb:window=40", "sw-gp-ucb:window=80", "mine"]
    if plain is not None:
        policies.insert(plain, "sw-gp-ucb")
    found = looks([*policies, *(name for name in POLICIES if name != "sw-gp-ucb")])
    known = looks(list(POLICIES))
    bearer = "sw-gp-ucb:window=40" if plain is None else "sw-gp-ucb"
    assert found[bearer] == known["sw-gp-ucb"]
    assert len({look[2:] for look in found.values()}) == len(found)
    free = [found[policy] for policy in policies if policy != bearer]
    assert not {look[2] for look in free} & {look[2] for look in known.values()}


@pytest.mark.parametrize(
    ("count", "level"),
    [(3, None), (3, 1.0), (8, 0.0), (8, 1e-9), (8, 1e6), (14, None), (24, None), (24, 1.0)],
)
@pytest.mark.parametrize("bound", [False, True])
def test_labels_show_their_curves(count: int, level: float | None, bound: bool) -> None:
    policies = [*POLICIES, *(f"own-{i}" for i in range(10))][:count]
    rows = make_rows(policies, levels=level)
    figure = regret_figure(rows, {"p": References(1.05, 0.99, 0.98, 0.97)}, bound=bound)
    assert_legible(figure)
    (axes,) = figure.axes
    by_height = [without_colour(line) for line in drawn(axes)]
    assert sorted(map(str, map(without_colour, keys(axes)))) == sorted(map(str, by_height))
    shown = dict(zip(names(axes), keys(axes), strict=True))
    styles = styles_of(policies)
    for policy in policies:
        assert shown[policy].get_marker() == styles[policy].marker
        assert shown[policy].get_color() == styles[policy].colour


# --- comparisons that were cut short


def test_titles_say_how_many_seeds_there_are() -> None:
    whole, part = make_rows(["a"], seeds=5), make_rows(["b"], seeds=1)
    rows = pd.concat([make_rows(problem="first"), whole, part], ignore_index=True)
    cut = regret_figure(rows, interrupted=True)
    assert [axes.get_title("left") for axes in cut.axes] == [
        "first, width of the theorem, 3 seeds",
        "p, width of the theorem, 1-5 seeds, interrupted",
    ]
    (axes,) = regret_figure(part, interrupted=True).axes
    assert axes.get_title("left") == "p, width of the theorem, 1 seed, interrupted"


# --- labels pushed apart


heights = st.lists(st.floats(-0.5, 1.5) | st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=25)


@given(heights, st.floats(0.0, 0.2))
def test_apart_keeps_order_and_distance(places: list[float], gap: float) -> None:
    wanted = np.array(places)
    found = _apart(wanted, gap)
    assert found.shape == wanted.shape
    order = np.argsort(wanted, kind="stable")
    assert (np.diff(found[order]) >= gap - 1e-12).all()
    if gap * (len(places) - 1) <= 1:
        assert found.min() >= -1e-12
        assert found.max() <= 1 + 1e-12


@given(heights)
def test_apart_moves_nothing_that_has_room(places: list[float]) -> None:
    wanted = np.unique(np.clip(places, 0, 1))
    gap = float(np.diff(wanted).min()) if len(wanted) > 1 else 0.1
    np.testing.assert_allclose(_apart(wanted, gap), wanted, atol=1e-12)


@given(st.lists(st.floats(0.3, 0.7), min_size=2, max_size=4))
def test_apart_is_the_nearest(places: list[float]) -> None:
    wanted = np.array(places)
    found = _apart(wanted, 0.1)
    moved = float(((found - wanted) ** 2).sum())
    rng = np.random.default_rng(0)
    order = np.argsort(wanted, kind="stable")
    for _ in range(50):
        other = found + 0.02 * rng.standard_normal(len(found))
        if (np.diff(other[order]) >= 0.1).all():
            assert float(((other - wanted) ** 2).sum()) >= moved - 1e-12


def test_a_figure_is_a_picture_in_a_notebook() -> None:
    ranked = ranks(pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 3.0]}))
    bandit = gp_ucb(Candidates([[0.0], [1.0]]), RBF(1.0), 0.1)
    for figure in (regret_figure(make_rows()), rank_figure(ranked), beliefs(bandit)):
        assert isinstance(figure, NotebookFigure)
        assert imread(BytesIO(figure._repr_png_())).std() > 0
