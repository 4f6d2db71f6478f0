"""Summaries and references against plain loops."""

from __future__ import annotations

import base64
import html
import io
import math
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from scipy.stats import t as student
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.browser import open_page
from tests.helpers.refusals import assert_refused
from tvbandits import policies
from tvbandits.acquisition.widths import Fixed
from tvbandits.comparison import files
from tvbandits.comparison.compare import compare
from tvbandits.comparison.report import command_of, comparison_report
from tvbandits.comparison.setup import prepare
from tvbandits.comparison.summary import (
    SUMMARY,
    as_seeds,
    by_problem,
    count_text,
    mean_ranks,
    pairwise_differences,
    performance_profile,
    problem_references,
    summarise,
    winners,
)
from tvbandits.datasets import DriftingBump, GPDrift, HeatPump, Switching
from tvbandits.datasets.tables.references import references
from tvbandits.policies import theory


def make_rows(seeds: int, horizon: int) -> pd.DataFrame:
    rng = np.random.default_rng([seeds, horizon])
    return pd.DataFrame(
        {
            "problem": problem,
            "policy": policy,
            "width": "theory",
            "seed": seed,
            "t": t,
            "regret": float(rng.exponential()),
            "queries": 3 * t,
            "answered": 2 * t,
            "cost": 0.7 * t,
            "seconds": 0.1 * t,
        }
        for problem in ("q", "p")
        for policy in ("b", "a")
        for seed in range(seeds)
        for t in range(1, horizon + 1)
    )


def plainly(rows: list[dict[str, Any]], problem: str, policy: str) -> dict[str, Any]:
    mine = [row for row in rows if (row["problem"], row["policy"]) == (problem, policy)]
    horizon = max(row["t"] for row in mine)
    seeds = sorted({row["seed"] for row in mine})
    averages = []
    for seed in seeds:
        regrets = [row["regret"] for row in mine if row["seed"] == seed]
        averages.append(sum(regrets) / len(regrets))
    mean = sum(averages) / len(averages)
    sd = ci = math.nan
    if len(seeds) > 1:
        sd = math.sqrt(sum((a - mean) ** 2 for a in averages) / (len(seeds) - 1))
        ci = float(student.ppf(0.975, len(seeds) - 1)) * sd / math.sqrt(len(seeds))
    last = [row["regret"] for row in mine if row["t"] > horizon - max(horizon // 5, 1)]
    per_step = {}
    for column in ("queries", "answered", "cost", "seconds"):
        total = 0.0
        for seed in seeds:
            for t in range(1, horizon + 1):
                total += next(r[column] for r in mine if (r["seed"], r["t"]) == (seed, t))
        per_step[f"{column}_per_step"] = total / (len(seeds) * horizon)
    return {
        "problem": problem,
        "policy": policy,
        "width": "theory",
        "seeds": len(seeds),
        "horizon": horizon,
        "average_regret": mean,
        "average_regret_sd": sd,
        "average_regret_ci95": ci,
        "last_fifth_regret": sum(last) / len(last),
        **per_step,
    }


@pytest.mark.parametrize("seeds", [1, 2, 5])
@pytest.mark.parametrize("horizon", [1, 4, 5, 23])
def test_summarise_matches_plain_loops(seeds: int, horizon: int) -> None:
    rows = make_rows(seeds, horizon)
    found = summarise(rows)
    plain = rows.to_dict("records")
    expected = pd.DataFrame([plainly(plain, p, a) for p in "qp" for a in "ba"])
    assert list(found.columns) == SUMMARY == list(expected.columns)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-12)
    assert found["average_regret_sd"].isna().all() == (seeds == 1)
    assert found["average_regret_ci95"].isna().all() == (seeds == 1)


def test_summarise_separates_widths() -> None:
    rows = make_rows(2, 3)
    rows = pd.concat([rows, rows.assign(width="2", regret=0.0)])
    found = summarise(rows)
    assert len(found) == 8
    assert (found["average_regret"] == 0.0).tolist() == (found["width"] == "2").tolist()


def plain_references(problem: Any, points: np.ndarray, horizon: int) -> tuple[float, ...]:
    uniform = followed = 0.0
    fixed = np.zeros(len(points))
    previous = None
    table, missed = [], []
    for t in range(1, horizon + 1):
        values = problem.value(points, float(t))
        regret = problem.best(float(t)) - values
        missed.append(problem.best(float(t)) - values.max())
        table.append(values)
        uniform += regret.mean() / horizon
        fixed += regret / horizon
        if previous is not None:
            followed += regret[previous] / (horizon - 1)
        previous = int(values.argmax())
    forecast = references(np.array(table)).all_read + np.mean(missed)
    return uniform, float(fixed.min()), followed, float(forecast)


def test_problem_references_of_candidates_match_plain_loops() -> None:
    problem = DriftingBump(candidates=60, horizon=40)
    expected = plain_references(problem, problem.domain.X, 40)  # type: ignore[union-attr]
    np.testing.assert_allclose(problem_references(problem)[:4], expected, rtol=1e-12)
    shorter = plain_references(problem, problem.domain.X, 7)  # type: ignore[union-attr]
    np.testing.assert_allclose(problem_references(problem, 5, 7)[:4], shorter, rtol=1e-12)


def test_problem_references_of_a_random_problem_are_means_over_seeds() -> None:
    problem = GPDrift(points_per_axis=4, horizon=30)
    each = [plain_references(problem.realise(s), problem.domain.X, 30) for s in (3, 5, 8)]
    found = problem_references(problem, [3, 5, 8])
    np.testing.assert_allclose(found[:4], np.mean(each, axis=0), rtol=1e-12)
    assert problem_references(problem, 1) != problem_references(problem, 2)


def test_problem_references_of_a_box_are_close_to_those_of_a_fine_grid() -> None:
    fine = problem_references(DriftingBump(candidates=5001, horizon=100))
    box = problem_references(DriftingBump(candidates=0, horizon=100))
    np.testing.assert_allclose(box[:4], fine[:4], atol=0.03)
    assert box != fine


def test_as_seeds_accepts_a_number_or_a_sequence() -> None:
    assert as_seeds(3) == as_seeds(np.int64(3)) == [0, 1, 2]  # type: ignore[arg-type]
    assert as_seeds((7, 2)) == as_seeds(np.array([7, 2])) == [7, 2]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [0, -2, True, 1.5, [1.5], "3", b"3", None, {"a": 1}, [3, -1], [], [1, 1]]
)
def test_as_seeds_refuses_invalid_seeds(wrong: Any) -> None:
    assert_refused(ValueError, "seeds must", as_seeds, wrong)


def test_count_text_shows_one_number_or_a_range() -> None:
    for numbers, text in (([1], "1 seed"), ([5, 5], "5 seeds"), ([5, 1, 3], "1-5 seeds")):
        assert count_text(iter(numbers), "seed") == text


def test_pairwise_differences_match_the_means_of_summarise() -> None:
    rows = compare(DriftingBump(candidates=41, horizon=5), ["uniform", "gp-ucb"], 2)
    assert rows["t"].to_list() == [1, 2, 3, 4, 5] * 4
    (pair,) = pairwise_differences(rows, "uniform").to_dict(orient="records")
    means = summarise(rows).set_index("policy")["average_regret"]
    assert pair["difference"] == pytest.approx(means["gp-ucb"] - means["uniform"])


def test_problem_references_of_a_problem_with_limits_satisfy_them() -> None:
    problem = HeatPump(horizon=30)
    allowed = np.array([problem.limit.holds(problem.outcome_at(t)) for t in range(1, 31)])
    values = np.array([problem.rewards_at(t) for t in range(1, 31)])
    assert not allowed.all()
    expected = references(values, allowed)
    np.testing.assert_allclose(problem_references(problem, [0])[:4], expected[:4], atol=1e-12)
    assert min(expected[:4]) >= 0.0


# --- metrics against hand calculations, tables of the literature, and plain loops

TABLE = pd.DataFrame(
    {"a": [1.0, 2.0, 3.0, 0.0], "b": [2.0, 2.0, 1.0, 1.0], "c": [3.0, 6.0, 2.0, 2.0]},
    index=["p", "q", "r", "s"],
)


def test_mean_ranks_match_hand_calculation_and_published_critical_differences() -> None:
    found = mean_ranks(TABLE)
    # Ranks: (1 2 3), (1.5 1.5 3), (3 1 2), (1 2 3).
    assert found.mean.to_dict() == {"a": 1.625, "b": 1.625, "c": 2.75}
    # Demsar 2006, table 5: q of 0.05 for 3 classifiers is 2.343.
    assert found.critical_difference == pytest.approx(2.343 * math.sqrt(3 * 4 / (6 * 4)), rel=1e-3)
    ten = mean_ranks(pd.DataFrame(np.random.default_rng(0).random((14, 10))))
    assert ten.critical_difference == pytest.approx(3.164 * math.sqrt(110 / 84), rel=1e-3)
    assert 0 <= found.p_value <= 1
    alone = mean_ranks(TABLE.iloc[:1])
    assert math.isnan(alone.critical_difference)
    assert alone.mean["a"] == 1.0


def test_performance_profile_is_the_share_of_problems() -> None:
    found = performance_profile(TABLE, [1.0, 2.0, 3.0])
    assert found["a"].to_list() == [0.75, 0.75, 1.0]
    assert found["b"].to_list() == [0.5, 0.75, 0.75]  # nothing is near a regret of 0
    assert found["c"].to_list() == [0.0, 0.25, 0.75]


def test_winners_sort_problems_by_the_regret_of_ours_over_the_best() -> None:
    found = winners(TABLE, ["b"])
    assert found["problem"].to_list() == ["p", "q", "r", "s"]
    assert found["times_the_best"].to_list()[:3] == [2.0, 1.0, 1.0]
    assert found["ours"].eq("b").all()
    assert winners(TABLE, ["nobody"])["times_the_best"].isna().all()


def rows_of(runs: dict[tuple[str, str, int], list[float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"problem": p, "policy": q, "seed": s, "t": t, "regret": regret}
            for (p, q, s), found in runs.items()
            for t, regret in enumerate(found, start=1)
        ]
    )


def test_by_problem_and_pairwise_differences_pair_policies_by_seed() -> None:
    runs = {("p", "x", 0): [1.0, 3.0], ("p", "x", 1): [2.0, 2.0], ("p", "y", 0): [1.0, 1.0]}
    rows = rows_of(runs | {("p", "y", 1): [4.0, 4.0], ("p", "y", 2): [9.0, 9.0]})
    table = by_problem(rows)
    assert table.loc["p"].to_dict() == {"x": 2.0, "y": 2.5}  # seed 2 has no partner
    found = pairwise_differences(rows, "x")
    assert found.loc[0, ["policy", "seeds", "difference"]].to_list() == ["y", 2, 0.5]
    # Differences -1 and 2: deviation 3 / sqrt 2, and t of one degree is 12.706.
    assert found.loc[0, "ci95"] == pytest.approx(12.706 * 3 / math.sqrt(2) / math.sqrt(2), rel=1e-3)
    best = pairwise_differences(rows[rows["seed"] < 2]).iloc[0]
    assert (best["policy"], best["reference"], best["difference"]) == ("y", "x", 0.5)
    assert_refused(
        ValueError, '"z" was not played; there are: x, y', pairwise_differences, rows, "z"
    )
    twice = pd.concat([rows, rows[rows["policy"] == "y"].assign(regret=0.0)])  # at another width
    assert_refused(
        ValueError, '"y" was played several times with one seed', pairwise_differences, twice
    )


# --- report

ARGUMENTS = {
    "command": "compare",
    "problems": ["drifting-bump:candidates=31"],
    "policies": ["uniform", "tv-gp-ucb:forgetting_rate=0.1"],
    "beta": None,
    "horizon": 12,
    "seeds": 2,
    "data": [],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("comparison")
    problem = DriftingBump(horizon=12, candidates=31)
    makers = {
        "uniform": lambda setting: policies.uniform(setting.domain, seed=setting.seed),
        "</script><b>odd": lambda setting: policies.uniform(setting.domain, seed=setting.seed + 9),
    }
    rows = compare([problem], makers, seeds=2)
    found = {problem.name: problem_references(problem)}
    files.write(out, rows, found, {problem.name: "m/s"}, ARGUMENTS)
    return out


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return comparison_report(folder)


def test_comparison_report_shows_the_summary_as_its_table(folder: Path, text: str) -> None:
    lines = summarise(files.read(folder).rows).sort_values("average_regret")
    rows = [re.findall(r"<t[dh][^>]*>([^<]+)", row) for row in text.split("<tr")[1:]]
    shown = {html.unescape(row[0]): row for row in reversed(rows) if row}
    for _, line in lines.iterrows():
        row = shown[line["policy"]]
        assert row[1] == f"{line['average_regret']:.3f}"
        assert row[5] == f"{line['last_fifth_regret']:.3f}"
    names = [name for name in shown if name in {*lines["policy"]}]
    assert names[::-1] == lines["policy"].to_list()


def test_comparison_report_contains_its_picture(text: str) -> None:
    (drawn,) = re.findall(r'<img src="data:image/png;base64,([^"]+)" alt="[^"]+"', text)
    assert base64.b64decode(drawn).startswith(b"\x89PNG")


def test_comparison_report_contains_a_dark_picture_for_dark_pages(text: str) -> None:
    form = '<source srcset="data:image/png;base64,([^"]+)" media="[(]prefers-color-scheme: dark[)]"'
    (dark,) = re.findall(form, text)
    (light,) = re.findall(r'<img src="data:image/png;base64,([^"]+)" alt="[^"]+"', text)
    corners = [imread(io.BytesIO(base64.b64decode(each)))[0, 0, :3] for each in (light, dark)]
    np.testing.assert_allclose(corners, [[1, 1, 1], np.array([0x16, 0x19, 0x1A]) / 255], atol=0.003)


@pytest.mark.slow
def test_comparison_report_of_many_problems_is_smaller_than_a_megabyte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "write_picture", lambda *_: None)  # the page has pictures of its own
    names = ["uniform", "eps-greedy"]
    problems = {f"bump {i}": DriftingBump(horizon=60, candidates=31) for i in range(12)}
    rows = compare(problems, names, seeds=2)
    rows = pd.concat([rows.assign(policy=rows["policy"] + f" {i}") for i in range(6)])
    found = {name: problem_references(each) for name, each in problems.items()}
    files.write(tmp_path, rows, found, {}, ARGUMENTS)
    assert len(comparison_report(tmp_path)) < 1_000_000


def test_comparison_report_names_the_unit_of_regrets(text: str) -> None:
    headings = re.findall(r'<th scope="col"[^>]*>([^<]+)', text)
    assert {"average regret [m/s]", "95% ± [m/s]", "last fifth [m/s]", "ms"} < {*headings}


def test_comparison_report_escapes_names(text: str) -> None:
    assert "<b>odd" not in text
    assert "&lt;b&gt;odd" in text


def test_comparison_report_names_its_command_seeds_and_versions(text: str) -> None:
    assert "tvbandits compare drifting-bump:candidates=31 --policy uniform" in text
    assert "Seeds: 0, 1." in text
    assert "scikit-learn" in text


def test_command_of_returns_a_command_for_the_same_comparison() -> None:
    more = {"data": ["a b.csv"], "equal_information": True, "beta": "theory"}
    arguments = {**ARGUMENTS, **more, "command": "frontier"}  # a comparison of such policies
    assert shlex.split(command_of(arguments))[1:] == [
        "compare", "drifting-bump:candidates=31", "--policy", "uniform", "--policy",
        "tv-gp-ucb:forgetting_rate=0.1", "--beta", "theory", "--horizon", "12", "--seeds", "2",
        "--data", "a b.csv", "--equal-information",
    ]  # fmt: skip


def test_comparison_report_has_no_external_resource(text: str) -> None:
    assert not re.findall(r'(?:src|href)="(?!#|data:)', text)
    assert "default-src 'none'" in text


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(390, False), (1200, True)])
def test_comparison_report_fits_the_browser_and_raises_no_error(
    text: str, tmp_path: Path, width: int, dark: bool
) -> None:
    place = tmp_path / "report.html"
    place.write_text(text, encoding="utf-8")
    with open_page(place.as_uri(), width, dark=dark) as looked:
        looked.page.wait_for_selector("figure img")
        assert looked.fits
        assert looked.hidden("div.scroll, pre") == []
        assert looked.complaints == []
        assert looked.requests == [place.as_uri()]


# --- estimates from a problem before the first step


@dataclass(frozen=True)
class Unrecommended:
    """A problem that recommends no kernel and states no variation."""

    problem: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    kernel = None
    variation = None

    def realise(self, seed: int) -> Unrecommended:
        return Unrecommended(self.problem.realise(seed))


def test_prepare_keeps_a_recommended_kernel() -> None:
    kernel = RBF(0.123, (0.1, 0.2))

    @dataclass(frozen=True)
    class Own(GPDrift):
        @property
        def kernel(self) -> Any:
            return kernel

    made = prepare("own", Own(points_per_axis=4, horizon=20), 0, 20)
    assert made.setting.kernel is kernel
    assert made.setting.kernel == RBF(0.123, (0.1, 0.2))
    assert made.label == "own"


@pytest.mark.parametrize("truth", [0.12, 0.2, 0.4])
@pytest.mark.parametrize("seed", [0, 1])
def test_prepare_fits_a_kernel_if_none_is_recommended(truth: float, seed: int) -> None:
    problem = Unrecommended(GPDrift(length_scale=truth, points_per_axis=10, horizon=200))
    made = prepare("p", problem, seed, 200)
    assert made.setting.kernel.length_scale == pytest.approx(truth, rel=0.25)


@pytest.mark.parametrize("epsilon", [0.01, 0.05, 0.2])
def test_prepare_estimates_a_forgetting_rate_close_to_the_truth(epsilon: float) -> None:
    problem = GPDrift(epsilon=epsilon, points_per_axis=10, horizon=200)
    found = [prepare("p", problem, seed, 200).setting.forgetting_rate for seed in range(4)]
    assert all(epsilon / 2 < one < 2 * epsilon for one in found), found
    assert np.median(found) == pytest.approx(epsilon, rel=0.35)


def test_prepare_estimates_a_scale_close_to_the_standard_deviation() -> None:
    still = GPDrift(epsilon=0.1, points_per_axis=8, length_scale=0.1, horizon=200)
    found = [prepare("p", still, seed, 200).setting.scale for seed in range(4)]
    assert all(0.7 < one < 1.4 for one in found), found
    assert np.mean(found) == pytest.approx(1.0, abs=0.15)


def test_prepare_uses_the_stated_variation_or_estimates_it() -> None:
    problem = GPDrift(epsilon=0.05, points_per_axis=6, horizon=60)
    stated = prepare("p", problem, 2, 60).setting
    assert stated.variation == problem.realise(2).variation / stated.scale
    unstated = prepare("p", Unrecommended(problem), 2, 60).setting
    seen = unstated.variation * unstated.scale
    path = problem.realise(2).path[:20]
    assert seen == pytest.approx(np.abs(np.diff(path, axis=0)).max(axis=1).mean(), rel=1e-12)


def test_prepare_measures_the_variation_of_the_bump_in_its_rkhs_norm() -> None:
    problem = DriftingBump()
    setting = prepare("p", problem, 0, 500).setting
    assert setting.variation == problem.rkhs_variation / setting.scale
    # 108 prior deviations in 500 steps.
    assert 105 < 499 * setting.variation < 112
    assert theory.window_length(*setting.budgets) == 7
    assert theory.discount(*setting.budgets) == pytest.approx(0.847, abs=0.005)


def test_prepare_depends_only_on_the_seed() -> None:
    problem = Switching(every=20, candidates=40, horizon=60)
    one, again, other = (prepare("p", problem, seed, 60) for seed in (4, 4, 5))
    for name in ("scale", "variation", "forgetting_rate"):
        assert (
            getattr(one.setting, name)
            == getattr(again.setting, name)
            != getattr(other.setting, name)
        )
    np.testing.assert_array_equal(one.gains, again.gains)
    assert one.problem.value(one.problem.domain.sample(1, np.random.default_rng(0)), 1.0) != (
        other.problem.value(other.problem.domain.sample(1, np.random.default_rng(0)), 1.0)
    )


def test_prepare_computes_increasing_gains_up_to_the_horizon() -> None:
    problem = DriftingBump(candidates=51, horizon=30)
    made = prepare("p", problem, 0, 12)
    assert made.setting.horizon == 12
    assert made.gains.shape == (12,)
    assert (np.diff(made.gains) > 0).all()
    assert prepare("p", problem, 0, 1).gains.shape == (1,)


def test_prepare_computes_finite_gains_for_large_domains_and_boxes() -> None:
    for problem in (DriftingBump(candidates=1500, horizon=5), DriftingBump(0, horizon=5)):
        made = prepare("p", problem, 0, 5)
        assert np.isfinite(made.gains).all()
        assert made.setting_for(Fixed(1.0), None).expert is None
