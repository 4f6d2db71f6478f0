"""The value of queries: policies of a frontier, its table, picture and command; other pictures."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib import rcParams, style
from matplotlib.axes import Axes
from matplotlib.colors import rgb_to_hsv, to_rgb
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.lines import Line2D
from sklearn.gaussian_process.kernels import RBF

from tests.cli.campaign.test_campaigns import stopped_after
from tests.helpers.commands import Command
from tests.helpers.refusals import assert_refused
from tvbandits import Box, Candidates
from tvbandits.comparison.arguments import make_problem
from tvbandits.comparison.compare import compare
from tvbandits.comparison.frontier import PAPER, WITHOUT, frontier_policies, frontier_table
from tvbandits.comparison.plots import (
    MARKERS,
    REFERENCES,
    NotebookFigure,
    beliefs,
    frontier_figure,
    rank_figure,
    regret_figure,
    styles_of,
)
from tvbandits.comparison.summary import SUMMARY, mean_ranks
from tvbandits.datasets.tables.references import References
from tvbandits.policies import POLICIES, gp_ucb
from tvbandits.queries.plans import PLANS

SMALL = "ozone-network:stations=5"
HORIZON = 12


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Two plans, two budgets, two seeds."""
    problems = {SMALL: make_problem(SMALL, [], HORIZON)}
    policies = frontier_policies([1, 2], ["plausible", "random"])
    return compare(problems, policies, 2, HORIZON, beta=2.0)


# --- the policies ---------------------------------------------------------------------------------


def test_frontier_policies_combine_plans_and_budgets_without_repeats() -> None:
    assert frontier_policies([4, 0.5, 4], ["random", "kdpp", "random"]) == [
        "adaptive-gp-ucb",
        "sparq-gp-ucb",
        "frugal-gp-ucb:queries_per_step=0.5,plan=random",
        "frugal-gp-ucb:queries_per_step=4,plan=random",
        "frugal-gp-ucb:queries_per_step=0.5,plan=kdpp",
        "frugal-gp-ucb:queries_per_step=4,plan=kdpp",
    ]


# --- the table ------------------------------------------------------------------------------------


def test_frontier_table_summarises_each_plan_and_budget(rows: pd.DataFrame) -> None:
    found = frontier_table(rows)
    assert list(found.columns) == [*SUMMARY, "plan", "budget"]
    assert found["policy"].tolist() == frontier_policies([1, 2], ["plausible", "random"])
    assert found["plan"].tolist()[:2] == [WITHOUT, PAPER]
    assert found["plan"].tolist()[2:] == ["plausible", "plausible", "random", "random"]
    np.testing.assert_array_equal(found["budget"], [np.nan, np.nan, 1.0, 2.0, 1.0, 2.0])
    assert (found["seeds"] == 2).all()
    assert (found["horizon"] == HORIZON).all()
    # By hand, for one of them.
    mine = rows[rows["policy"] == "frugal-gp-ucb:queries_per_step=2,plan=random"]
    assert found["average_regret"].iloc[-1] == pytest.approx(mine["regret"].mean())
    assert found["queries_per_step"].iloc[-1] == pytest.approx(2.0)
    # No policy queries more than its budget, and the first one does not query.
    asked = found[found["budget"].notna()]
    assert (asked["queries_per_step"] <= asked["budget"]).all()
    assert found["queries_per_step"].iloc[0] == 0.0 < found["queries_per_step"].iloc[1]


# --- the picture ----------------------------------------------------------------------------------


def curves(axes: Axes) -> dict[str, ErrorbarContainer]:
    """Curves with intervals, by label."""
    made = [each for each in axes.containers if isinstance(each, ErrorbarContainer)]
    return {str(each.get_label()): each for each in made}


def test_frontier_figure_draws_the_means_and_intervals_of_the_table(rows: pd.DataFrame) -> None:
    (axes,) = frontier_figure(rows, {SMALL: "ppb"}).axes
    summary = frontier_table(rows).set_index("policy")
    drawn = curves(axes)
    assert set(drawn) == {"plausible", "random", "sparq-gp-ucb"}
    for plan in ("plausible", "random"):
        mine = summary.loc[
            [f"frugal-gp-ucb:queries_per_step={budget},plan={plan}" for budget in (1, 2)]
        ]
        line, _, (bars,) = drawn[plan].lines
        np.testing.assert_allclose(line.get_xdata(orig=False), mine["queries_per_step"])
        np.testing.assert_allclose(line.get_ydata(orig=False), mine["average_regret"])
        heights = [np.ptp(segment[:, 1]) for segment in bars.get_segments()]
        np.testing.assert_allclose(heights, 2.0 * mine["average_regret_ci95"])
    paper = summary.loc["sparq-gp-ucb"]
    line = drawn["sparq-gp-ucb"].lines[0]
    np.testing.assert_allclose(line.get_xdata(orig=False), [paper["queries_per_step"]])
    np.testing.assert_allclose(line.get_ydata(orig=False), [paper["average_regret"]])
    (alone,) = (line for line in axes.lines if line.get_label() == "adaptive-gp-ucb, no questions")
    level = summary.loc["adaptive-gp-ucb", "average_regret"]
    np.testing.assert_allclose(alone.get_ydata(orig=False), level)
    named = {"plausible", "random", "sparq-gp-ucb", "adaptive-gp-ucb, no questions"}
    assert set(listed(axes)) == named
    assert axes.get_xlabel() == "queries per step"
    assert axes.get_ylabel() == "average regret (ppb)"
    assert axes.get_title() == f"{SMALL}, width 2, 2 seeds, 12 steps"
    assert axes.get_xscale() == "log"
    ticks = [float(label.get_text()) for label in axes.get_xticklabels()]
    assert ticks == [2.0**power for power in range(len(ticks))]  # powers of two, and all covered
    assert ticks[-1] >= paper["queries_per_step"]
    assert axes.get_ylim()[0] == 0.0


def test_frontier_figure_draws_each_plan_with_its_own_marker_and_colour(rows: pd.DataFrame) -> None:
    one = rows[rows["policy"].str.endswith("queries_per_step=1,plan=random")]
    many = pd.concat(
        [one.assign(policy=f"frugal-gp-ucb:queries_per_step=1,plan={plan}") for plan in PLANS]
    )
    (axes,) = frontier_figure(many).axes
    lines = [each.lines[0] for each in curves(axes).values()]
    assert len(lines) == len(PLANS)
    looks = [(line.get_marker(), str(line.get_linestyle())) for line in lines]
    assert len({marker for marker, _ in looks}) == len(PLANS)
    assert len({line.get_color() for line in lines}) == len(PLANS)
    assert axes.get_ylabel() == "average regret"  # in a unit that is not known


def test_frontier_figure_of_one_policy_and_one_seed_has_no_curve(
    rows: pd.DataFrame, tmp_path: Path
) -> None:
    # One policy and one seed, which has no interval, and no curve.
    figure = frontier_figure(rows[(rows["policy"] == "adaptive-gp-ucb") & (rows["seed"] == 0)])
    figure.savefig(tmp_path / "some.png", dpi=30)
    assert curves(figure.axes[0]) == {}
    assert "1 seed," in figure.axes[0].get_title()


# --- the command ----------------------------------------------------------------------------------


GIVEN: list[object] = ["frontier", SMALL, "--horizon", HORIZON, "--seeds", 1, "--jobs", 1]


def test_frontier_command_prints_tables_and_writes_files(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    said = command(
        *GIVEN, "--budgets", 1, 2, "--plan", "plausible", "--plan", "random", "--out", out
    )
    written = "rows.csv.gz, summary.csv, regret.png, run.json, frontier.csv, frontier.png"
    assert (said.status, said.err) == (0, f"wrote {written} in {out}\n")
    assert f"{SMALL}, width 2, 1 seed, 12 steps, regret in ppb" in said.out
    policies = frontier_policies([1, 2], ["plausible", "random"])
    assert imread(out / "frontier.png").shape[0] > 100
    table = pd.read_csv(out / "frontier.csv")
    assert list(table.columns) == [*SUMMARY, "plan", "budget"]
    assert table["policy"].tolist() == policies


def test_frontier_command_keeps_finished_runs_after_an_interruption(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = [*GIVEN, "--budgets", 1, "--plan", "random", "--plan", "kdpp", "--out", tmp_path]
    monkeypatch.setattr("tvbandits.cli.comparing.iterate", stopped_after(0))
    said = command(*given)
    assert (said.status, said.out) == (130, "")
    assert "stopped before the first run was complete: there is nothing to show" in said.err
    assert list(tmp_path.iterdir()) == []
    # Three of four runs are kept.
    monkeypatch.setattr("tvbandits.cli.comparing.iterate", stopped_after(3))
    said = command(*given)
    assert said.status == 130
    assert "interrupted: 3 of 4 runs are complete and saved" in said.err
    assert len(pd.read_csv(tmp_path / "frontier.csv")) == 3
    assert (tmp_path / "frontier.png").exists()


# --- pictures: labelled, legible without colour, and complete in corner cases

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
    width: str = "theory",
) -> pd.DataFrame:
    rng, t, runs = np.random.default_rng(5), np.arange(1, horizon + 1), []
    if levels is None:
        levels = [1.0 + 0.3 * i for i in range(len(policies))]
    for policy, level in zip(policies, np.broadcast_to(levels, len(policies)), strict=True):
        for seed in range(seeds):
            regret = level * rng.uniform(0.9, 1.1, horizon)
            columns = {"problem": problem, "policy": policy, "width": width}
            columns |= {"seed": seed, "t": t, "regret": regret}
            columns |= {"average_regret": np.cumsum(regret) / t}
            columns |= {"queries": 5 if "sparq" in policy else 0}
            columns |= {"bound": np.nan if policy == "uniform" else 30.0 / t**0.5}
            runs.append(pd.DataFrame(columns))
    return pd.concat(runs, ignore_index=True)


def drawn(axes: Axes) -> list[Line2D]:
    """Curves and references."""
    return list(axes.get_lines())


def listed(axes: Axes) -> list[str]:
    """The names in the legend."""
    return [text.get_text() for text in axes.get_legend().get_texts()]


def without_colour(line: Line2D) -> tuple[object, ...]:
    """(dashes, marker, width)."""
    return str(line._unscaled_dash_pattern), line.get_marker(), line.get_linewidth()  # type: ignore[attr-defined]


def looks(policies: Sequence[str]) -> dict[str, tuple[object, ...]]:
    """The style of each policy among the others."""
    (axes,) = regret_figure(make_rows(policies, seeds=1, horizon=9)).axes
    found = drawn(axes)
    assert names(axes) == list(policies)
    return {
        policy: (line.get_color(), line.get_markerfacecolor(), *without_colour(line))
        for policy, line in zip(policies, found, strict=True)
    }


def names(axes: Axes) -> list[str]:
    return [str(line.get_label()) for line in drawn(axes)]


def assert_legible(figure: Figure) -> None:
    """Legends are inside the picture, beside the curves, and in the order of their last values."""
    canvas = figure.canvas
    canvas.draw()
    renderer = canvas.get_renderer()
    for axes in figure.axes:
        legend = axes.get_legend()
        box, plot = legend.get_window_extent(renderer), axes.get_window_extent(renderer)
        assert plot.x1 <= box.x0 + 1
        assert box.x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
        assert plot.width > 0.35 * figure.bbox.width
        ends = {
            str(line.get_label()): float(np.asarray(line.get_ydata())[-1]) for line in drawn(axes)
        }
        assert sorted(listed(axes)) == sorted(names(axes))
        assert [ends[name] for name in listed(axes)] == sorted(ends.values(), reverse=True)


def test_regret_figure_draws_means_over_seeds() -> None:
    rows = make_rows(["a", "b"], seeds=4)
    (axes,) = regret_figure(rows).axes
    for line, policy in zip(drawn(axes), "ab", strict=True):
        of_policy = rows[rows["policy"] == policy]
        expected = [of_policy[of_policy["t"] == t]["average_regret"].mean() for t in range(1, 41)]
        np.testing.assert_allclose(np.asarray(line.get_ydata()), expected)
        np.testing.assert_array_equal(np.asarray(line.get_xdata()), np.arange(1, 41))


def test_regret_figure_draws_references_once_and_within_its_limits() -> None:
    references = {"p": References(1.0, 5.0, 0.2, 0.3)}
    (axes,) = regret_figure(make_rows(["gp-ucb"]), references).axes
    assert set(names(axes)) == {"gp-ucb", *(label for label, _ in REFERENCES.values())}
    assert axes.get_ylim()[1] > 5.0
    (axes,) = regret_figure(make_rows(["uniform"]), references).axes
    assert REFERENCES["uniform"][0] not in names(axes)
    (axes,) = regret_figure(make_rows(["gp-ucb"]), {"other": References(1, 2, 3, 4)}).axes
    assert names(axes) == ["gp-ucb"]


@pytest.mark.parametrize(
    ("horizon", "seeds", "levels"), [(1, 1, None), (1, 2, 0.0), (2, 1, -1.0), (3, 2, None)]
)
def test_regret_figure_is_legible_for_few_steps_few_seeds_or_zero_regret(
    horizon: int, seeds: int, levels: float | None
) -> None:
    rows = make_rows(horizon=horizon, seeds=seeds, levels=levels)
    figure = regret_figure(rows, {"p": References(1, 0.4, 0.1, 0.2)})
    assert_legible(figure)
    (axes,) = figure.axes
    assert np.isfinite([*axes.get_xlim(), *axes.get_ylim()]).all()
    assert sum(line.get_marker() != "None" for line in drawn(axes)) == 8
    for line in drawn(axes):
        assert (axes.get_ylim()[0] <= np.asarray(line.get_ydata(), dtype=float)).all()


def test_regret_figure_has_a_panel_for_each_problem_and_width() -> None:
    rows = pd.concat(
        [make_rows(), make_rows(problem="q" * 300), make_rows(width="2")], ignore_index=True
    )
    figure = regret_figure(rows, None, {"p": "ppb"})
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles[0] == "p, width of the theorem, 3 seeds"
    assert titles[1] == "p, width 2, 3 seeds"
    assert titles[2].replace("\n", "").startswith("q" * 300)
    assert figure.axes[0].get_ylabel() == "average regret $R_t / t$ [ppb]"
    assert figure.axes[2].get_ylabel() == "average regret $R_t / t$"
    assert_legible(figure)
    for axes in figure.axes:
        assert axes.title.get_window_extent().width < figure.bbox.width


def test_regret_figure_shortens_long_names_and_shows_dollars_as_text() -> None:
    policies = ["x" * 300, "sw-gp-ucb:" + "window=40," * 30, "$a_$b", "short"]
    figure = regret_figure(make_rows(policies, problem="$p$_"), None, {"$p$_": "$"})
    assert_legible(figure)
    (axes,) = figure.axes
    found = names(axes)
    assert [len(name) <= 40 for name in found] == [True] * 4
    assert found[2:] == ["$a_$b", "short"]
    assert found[1].startswith("sw-gp-ucb:window=40")


# --- each policy has its own style


def test_styles_of_all_policies_differ_without_colour_and_contrast_with_white() -> None:
    everyone = styles_of([*POLICIES, *(f"policy-{i}" for i in range(60))])
    looks = {
        (str(each["linestyle"]), each["marker"], each["linewidth"]) for each in everyone.values()
    }
    assert len(looks) == len(everyone)
    colours = np.array([to_rgb(style["color"]) for style in everyone.values()])
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    contrast = 1.05 / (linear @ [0.2126, 0.7152, 0.0722] + 0.05)
    assert contrast.min() > 2.9


def test_styles_of_at_most_two_policies_share_a_colour() -> None:
    """Two colours count as one if their distance in RGB is less than 0.1."""
    colours = np.array([to_rgb(style["color"]) for style in styles_of(POLICIES).values()])
    alike = np.linalg.norm(colours[:, None] - colours[None], axis=2) < 0.1
    assert alike.sum(axis=1).max() <= 2


def test_styles_with_one_marker_have_different_hues() -> None:
    """Hues lie on a circle of length 1, and those of one marker differ by more than 0.05."""
    styles = list(styles_of([*POLICIES, *(f"own-{i}" for i in range(15))]).values())
    hues = np.array([rgb_to_hsv(to_rgb(each["color"]))[0] for each in styles])
    for marker in MARKERS:
        mine = hues[[each["marker"] == marker for each in styles]]
        apart = np.abs(mine[:, None] - mine[None])[np.triu_indices(len(mine), 1)]
        assert np.minimum(apart, 1 - apart).min(initial=1.0) > 0.05, marker


def test_styles_on_a_dark_background_contrast_with_it() -> None:
    light = styles_of(POLICIES)
    with style.context(["dark_background", {"axes.facecolor": "#16191a"}]):
        dark = styles_of(POLICIES)
    ground = contrast_base("#16191a")
    for name, each in dark.items():
        assert (contrast_base(each["color"]) + 0.05) / (ground + 0.05) > 4.0
        assert each["markeredgecolor"] == "#16191a"
        same = ("marker", "linestyle", "linewidth")
        assert [each[part] for part in same] == [light[name][part] for part in same]


def test_rank_figure_contrasts_with_light_and_dark_backgrounds() -> None:
    """Points have the text colour of the style, and their band is translucent."""
    ranked = mean_ranks(pd.DataFrame(np.random.default_rng(0).random((6, 3)), columns=[*"abc"]))
    for name in ("default", "dark_background"):
        with style.context(name):
            (axes,) = rank_figure(ranked).axes
            ink, ground = rcParams["text.color"], axes.get_facecolor()[:3]
            (band,) = axes.patches
            *colour, alpha = band.get_facecolor()
            seen = alpha * np.array(colour) + (1 - alpha) * np.array(ground)
            assert axes.lines[0].get_color() == ink
            for each in (ground, seen):
                bases = sorted((contrast_base(ink), contrast_base(tuple(each))))
                assert (bases[1] + 0.05) / (bases[0] + 0.05) > 4.5


def contrast_base(colour: str) -> float:
    """The relative luminance of a colour, as defined for contrast by WCAG."""
    values = np.array(to_rgb(colour))
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_regret_figure_and_beliefs_draw_into_given_axes() -> None:
    figure = Figure()
    first, second = figure.subplots(1, 2)
    rows = make_rows(["gp-ucb", "uniform"])
    whole = regret_figure(rows).axes[0]
    assert regret_figure(rows, ax=first) is first
    assert [line.get_label() for line in first.get_lines()] == [
        line.get_label() for line in whole.get_lines()
    ]
    assert first.get_title("left") == whole.get_title("left")
    bandit = gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.1)
    assert beliefs(bandit, ax=second) is second
    assert second.get_legend() is not None
    assert figure.axes == [first, second]
    figure.savefig("/dev/null", format="png")


def test_regret_figure_and_beliefs_refuse_axes_that_cannot_hold_them() -> None:
    ax = Figure().add_subplot()
    several = pd.concat([make_rows(["a"]), make_rows(["a"], problem="q")])
    assert_refused(
        ValueError,
        "ax holds one panel, and 2 .* one problem and width",
        regret_figure,
        several,
        ax=ax,
    )
    plane = gp_ucb(Box([[0, 1], [0, 1]]), kernel=RBF(1.0), noise_variance=0.1)
    assert_refused(ValueError, "ax holds one panel, and 2 ", beliefs, plane, ax=ax)
    assert_refused(
        ValueError, "ax must be matplotlib Axes", regret_figure, make_rows(["a"]), ax=Figure()
    )
    assert not ax.has_data()


def test_regret_figure_refuses_invalid_references_before_it_draws() -> None:
    ax, numbers = Figure().add_subplot(), References(1, 2, 3, 4)._asdict()
    rows = make_rows(["a"])
    match = r"references of p .*References\(\*\*values\).*'uniform': 1"
    assert_refused(ValueError, match, regret_figure, rows, {"p": numbers}, ax=ax)
    assert not ax.has_data()
    assert ax.get_title(loc="left") == ""


def test_regret_figure_draws_a_policy_alike_among_any_others() -> None:
    everyone = looks(list(POLICIES))
    assert looks(list(POLICIES)[::-1]) == everyone
    for company in (["thompson", "uniform"], ["mine", "bkb", "sw-gp-ucb:window=4"]):
        for policy, look in looks(company).items():
            if policy != "mine":
                assert look == everyone[policy.partition(":")[0]], policy


@pytest.mark.parametrize("plain", [0, 2, None])
def test_regret_figure_gives_other_settings_of_a_policy_unused_styles(plain: int | None) -> None:
    policies = ["sw-gp-ucb:window=40", "sw-gp-ucb:window=80", "mine"]
    if plain is not None:
        policies.insert(plain, "sw-gp-ucb")
    found = looks([*policies, *(name for name in POLICIES if name != "sw-gp-ucb")])
    known = looks(list(POLICIES))
    bearer = "sw-gp-ucb:window=40" if plain is None else "sw-gp-ucb"
    assert found[bearer] == known["sw-gp-ucb"]
    assert len({look[2:] for look in found.values()}) == len(found)
    hollow = {policy for policy, look in found.items() if look[1] == "white"}
    assert hollow == set(policies) - {bearer}


@pytest.mark.parametrize(("count", "level"), [(3, 1.0), (8, 0.0), (8, 1e6), (24, None)])
def test_regret_figure_legend_shows_the_style_of_each_curve(
    count: int, level: float | None
) -> None:
    policies = [*POLICIES, *(f"own-{i}" for i in range(10))][:count]
    rows = make_rows(policies, levels=level)
    figure = regret_figure(rows, {"p": References(1.05, 0.99, 0.98, 0.97)})
    assert_legible(figure)
    (axes,) = figure.axes
    by_height, keys = map(without_colour, drawn(axes)), axes.get_legend().legend_handles
    assert sorted(map(str, map(without_colour, keys))) == sorted(map(str, by_height))
    shown = dict(zip(listed(axes), keys, strict=True))
    styles = styles_of(policies)
    for policy in policies:
        assert shown[policy].get_marker() == styles[policy]["marker"]
        assert shown[policy].get_color() == styles[policy]["color"]


# --- figures in notebooks


def test_figures_show_themselves_as_png_in_a_notebook() -> None:
    ranked = mean_ranks(pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 3.0]}))
    bandit = gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.1)
    for figure in (regret_figure(make_rows()), rank_figure(ranked), beliefs(bandit)):
        assert isinstance(figure, NotebookFigure)
        assert imread(BytesIO(figure._repr_png_())).std() > 0
