"""Comparisons: rows, matched seeds, batches, and invalid arguments."""

import math
import re
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.commands import Command
from tests.helpers.refusals import assert_refused
from tvbandits import Bandit, Box, Candidates, policies
from tvbandits.acquisition.widths import Fixed
from tvbandits.bandit.info import Info, QueryInfo
from tvbandits.comparison.compare import Comparison, call_in_parallel, compare, iterate, simulator
from tvbandits.comparison.report import comparison_report
from tvbandits.comparison.run import Conditions, play_run
from tvbandits.comparison.setup import prepare
from tvbandits.comparison.summary import Run, summarise
from tvbandits.datasets import DriftingBump, GPDrift, TableProblem, ozone_network
from tvbandits.domains.problem import Problem, get_added_noise
from tvbandits.experts import SimulatorExpert
from tvbandits.experts.protocol import Answers
from tvbandits.policies import POLICIES, Setting
from tvbandits.policies.registry import NamedPolicy
from tvbandits.validation import Array

COLUMNS = (
    "problem policy width seed t {} reward best regret cumulative_regret average_regret "
    "queries answered cost seconds batch_size dictionary_size beta bound"
)
TEXT = {"problem", "policy", "width"}
WHOLE = {"seed", "t", "queries", "answered", "batch_size"}

BUMP = DriftingBump(candidates=41, horizon=12)
LONGER = DriftingBump(candidates=41, horizon=25)
DRIFT = GPDrift(points_per_axis=4, horizon=10)


@dataclass
class Recorder:
    """Plays `choose(t)` and records its readings."""

    choose: Callable[[float], ArrayLike]
    told: dict[tuple[float, ...], float] = field(default_factory=dict)
    info: Info = field(default_factory=Info)

    def ask(self, t: float | None = None) -> Array:
        return np.atleast_2d(np.asarray(self.choose(t), dtype=float))

    def tell(self, X: ArrayLike, y: ArrayLike, t: ArrayLike | None = None) -> Info:
        times = np.broadcast_to(np.asarray(t, dtype=float), len(np.asarray(X)))
        for x, value, when in zip(np.asarray(X), np.asarray(y), times, strict=True):
            self.told[(float(when), *x)] = float(value)
        return self.info


@dataclass
class Recording:
    """A maker of recorders that keeps the one of each seed."""

    choose: Callable[[float], ArrayLike]
    made: dict[int, Recorder] = field(default_factory=dict)

    def __call__(self, setting: Setting) -> Recorder:
        return self.made.setdefault(setting.seed, Recorder(self.choose))


def at_origin(t: float) -> list[float]:  # noqa: ARG001
    return [0.0]


class Changed:
    """A problem with some of its members replaced."""

    def __init__(self, problem: Problem, **members: object) -> None:
        self.problem = problem
        self.__dict__ |= members

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)


def records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries."""
    return [{str(name): row[name] for name in row} for row in rows.to_dict("records")]


def without_seconds(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows without times, as texts, so that NaN equals itself."""
    plain = rows.drop(columns="seconds").to_dict("records")
    return [{str(key): repr(value) for key, value in row.items()} for row in plain]


def test_compare_returns_rows_with_the_documented_columns_and_types() -> None:
    for problem, coordinates in ((BUMP, "x0"), (DRIFT, "x0 x1")):
        rows = compare(problem, ["uniform", "tv-gp-ucb", "sparq-gp-ucb"], 2, 6)
        assert len(rows) == 3 * 2 * 6
        assert list(rows) == COLUMNS.format(coordinates).split()
        for name, column in rows.items():
            kind = str if name in TEXT else int if name in WHOLE else float
            assert {type(value) for value in column.to_list()} == {kind}, name
        for name in ("beta", "bound"):
            assert rows[name].isna().equals(rows["policy"] == "uniform")
        assert np.isfinite(rows[["reward", "best", "cost", "seconds"]]).all(axis=None)


def test_iterate_computes_regret_and_its_sum_and_mean() -> None:
    for run in iterate(Comparison([BUMP, DRIFT], ["gp-ucb", "uniform"], 2)):
        total = 0.0
        problem: Problem = BUMP if run.problem == "drifting-bump" else DRIFT.realise(run.seed)
        assert run.rows["t"].to_list() == list(range(1, problem.horizon + 1))
        for row in run.rows.to_dict("records"):
            x = np.array([[row[c] for c in ("x0", "x1") if c in row]])
            assert row["reward"] == problem.value(x, row["t"])[0]
            assert row["best"] == problem.best(row["t"])
            assert row["regret"] == row["best"] - row["reward"] >= 0
            total += row["regret"]
            assert row["cumulative_regret"] == total
            assert row["average_regret"] == total / row["t"]


def test_iterate_orders_runs_by_problem_policy_and_seed() -> None:
    plan = Comparison({"b": BUMP, "a": DRIFT}, ["uniform", "gp-ucb"], [5, 3], 2)
    runs = [run.key for run in iterate(plan)]
    assert runs == [(p, a, s) for p in ("b", "a") for a in ("uniform", "gp-ucb") for s in (5, 3)]


# --- matched seeds


def noise_of(recorder: Recorder, problem: Problem) -> dict[tuple[float, ...], float]:
    return {
        key: value - float(problem.value(np.array([key[1:]]), key[0])[0])
        for key, value in recorder.told.items()
    }


def test_compare_adds_noise_that_depends_only_on_seed_time_and_point() -> None:
    problem = DriftingBump(candidates=101, horizon=200, noise_variance=0.04)
    still = Recording(at_origin)
    meets = Recording(lambda t: [0.0] if t % 3 == 0 else [t % 40])
    both = Recording(lambda t: [[t % 40], [0.0]] if t % 40 else [[-1.0], [0.0]])
    makers = {"still": still, "meets": meets, "both": both}
    compare(problem, makers, 2)
    noises = [
        {name: noise_of(made.made[seed], problem) for name, made in makers.items()}
        for seed in (0, 1)
    ]
    for of_seed in noises:
        shared = 0
        for name in ("meets", "both"):
            for key in of_seed["still"].keys() & of_seed[name].keys():
                assert of_seed["still"][key] == of_seed[name][key]
                shared += 1
        assert shared > 150
        values = [value for found in of_seed.values() for value in found.values()]
        distinct = {key: value for found in of_seed.values() for key, value in found.items()}
        assert len(set(distinct.values())) == len(distinct)
        assert np.std(values) == pytest.approx(0.2, rel=0.1)
        assert np.mean(list(distinct.values())) == pytest.approx(0.0, abs=0.04)
    assert not set(noises[0]["still"].values()) & set(noises[1]["still"].values())


@pytest.mark.slow
def test_compare_gives_equal_rows_with_other_policies_seeds_and_numbers_of_processes() -> None:
    names = ["uniform", "ui-gp-ucb", "sparq-gp-ucb"]
    problems = [BUMP, DRIFT]
    together = without_seconds(compare(problems, names, 2, 8))
    assert together == without_seconds(compare(problems, names, 2, 8, n_jobs=2))
    for name in names:
        alone = without_seconds(compare(problems, [name], 2, 8))
        assert alone == [row for row in together if row["policy"] == repr(name)]
    one_seed = without_seconds(compare(problems, names, [1], 8))
    assert one_seed == [row for row in together if row["seed"] == "1"]


def stopped(text: str) -> str:
    warnings.warn("A worker stopped while some jobs were given to the executor.", stacklevel=1)
    return text


def test_compare_hides_warnings_of_joblib_about_replaced_workers_only_while_it_runs() -> None:
    """joblib mistakes the memory that a worker keeps for a leak, and replaces the worker."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compare(DriftingBump(candidates=11), ["uniform", "gp-ucb"], 2, 4, n_jobs=2)
        filters = warnings.filters.copy()
        assert [*call_in_parallel(1, stopped, [("a",), ("b",)])] == ["a", "b"]
        assert caught == []
        assert warnings.filters == filters
        stopped("later")
    assert len(caught) == 1


def wait_for(file: Path | None) -> str:
    """Return "last" once the file exists, or "first" at once without a file."""
    while file is not None and not file.exists():
        time.sleep(0.01)
    return "first" if file is None else "last"


@pytest.mark.slow
def test_call_in_parallel_yields_short_calls_before_a_long_one_ends(tmp_path: Path) -> None:
    results = call_in_parallel(2, wait_for, [(tmp_path / "go",), (None,), (None,)])
    assert [next(results), next(results)] == ["first", "first"]
    (tmp_path / "go").touch()
    assert list(results) == ["last"]


# --- problems, policies, batches, widths and experts


def test_compare_accepts_one_problem_a_list_or_a_mapping() -> None:
    one = without_seconds(compare(BUMP, ["uniform"], 1))
    assert without_seconds(compare([BUMP], "uniform", 1)) == one
    mapped = records(compare({"mine": BUMP}, ("uniform",), 1))
    assert {row["problem"] for row in mapped} == {"mine"}
    assert [row["reward"] for row in mapped] == [float(row["reward"]) for row in one]


def test_compare_accepts_policy_names_with_parameters_and_makers() -> None:
    seen: list[Setting] = []

    def mine(setting: Setting) -> Any:
        seen.append(setting)
        return POLICIES["sw-gp-ucb"].make(setting, window=3)

    named = records(compare(BUMP, ["sw-gp-ucb:window=3", "sw-gp-ucb:window=9"], 1))
    own = records(compare(BUMP, {"mine": mine}, 1))
    assert [row["policy"][-1] for row in named] == ["3"] * 12 + ["9"] * 12  # of the window
    rewards = [row["reward"] for row in named]
    assert [row["reward"] for row in own] == rewards[:12] != rewards[12:]
    assert [setting.horizon for setting in seen] == [12]  # makers of users are called for runs only


def test_compare_accepts_names_recipes_makers_and_classes_together() -> None:
    def narrow(setting: Setting) -> Any:
        return POLICIES["gp-ucb"].make(setting, beta=1.0)

    class Fixed:
        def __init__(self, setting: Setting) -> None:
            self.X = setting.domain.sample(1, np.random.default_rng(setting.seed))

        def ask(self, t: float) -> Any:
            return self.X + 0.0 * t

        def tell(self, X: Any, y: Any, t: Any) -> None:
            assert len(X) == len(y) == t / t

    both = compare(BUMP, ["gp-ucb:beta=1", narrow, Fixed, policies.sw_gp_ucb], 1)
    assert list(both["policy"].unique()) == ["gp-ucb:beta=1", "narrow", "Fixed", "sw-gp-ucb"]
    assert list(both["width"].unique()) == ["1", "none", "2"]
    of = dict(tuple(both.groupby("policy")["x0"]))
    assert list(of["gp-ucb:beta=1"]) == list(of["narrow"])
    assert list(of["sw-gp-ucb"]) == list(compare(BUMP, ["sw-gp-ucb"], 1)["x0"])
    assert of["Fixed"].nunique() == 1
    named = compare(BUMP, {"a": "gp-ucb:beta=1", "b": narrow}, 1)
    assert list(named["policy"].unique()) == ["a", "b"]
    assert list(named[named["policy"] == "a"]["x0"]) == list(of["narrow"])
    (one,) = compare(BUMP, narrow, 1)["policy"].unique()
    assert one == "narrow"


def test_compare_counts_each_point_of_a_batch_as_a_step() -> None:
    """Counts of a whole batch are in its first row."""
    grid = np.linspace(-50, 50, 41)
    player = Recording(lambda t: grid[: 1 + int(t) % 3, None])
    info = Info(queries=QueryInfo(asked=4, answered=3, cost=2.0))
    player.made[0] = Recorder(player.choose, info=info)
    rows = records(compare(BUMP, {"b": player}, 1, 8))
    assert [row["t"] for row in rows] == list(range(1, 9))
    assert [row["batch_size"] for row in rows] == [2, 2, 1, 2, 2, 1, 2, 2]
    assert [row["x0"] for row in rows[:4]] == [grid[0], grid[1], grid[0], grid[0]]
    for row in rows:
        X, t = np.array([[row["x0"]]]), float(row["t"])
        assert row["reward"] == BUMP.value(X, t)[0]
        assert row["best"] == BUMP.best(t)
    total = np.cumsum([row["regret"] for row in rows])
    np.testing.assert_allclose([row["cumulative_regret"] for row in rows], total)
    means = [row["average_regret"] for row in rows]
    np.testing.assert_allclose(means, total / np.arange(1, 9), rtol=1e-12)
    assert [row["queries"] for row in rows] == [4, 0, 4, 4, 0, 4, 4, 0]
    assert sum(row["cost"] for row in rows) == 10.0
    summary = summarise(pd.DataFrame(rows)).iloc[0]
    assert (summary["horizon"], summary["queries_per_step"]) == (8, 20 / 8)
    assert summary["answered_per_step"] == 15 / 8
    assert (
        compare(BUMP, {"b": player}, 1, 7)["batch_size"].iloc[-1] == 1
    )  # it ends with the horizon


def test_compare_with_batch_counts_the_mean_of_its_points_as_one_step() -> None:
    """A point played twice in a batch has two readings."""
    domain, problem = np.linspace(-50, 50, 41)[:, None], BUMP
    made: dict[int, Any] = {}

    @dataclass
    class Batches(Recorder):
        def ask(self, t: float | None = None, n: int = 1) -> Array:
            return domain[[int(t)] * (n - 1) + [40]]

        def tell(self, X: ArrayLike, y: ArrayLike, t: ArrayLike | None = None) -> Info:
            (when,) = set(np.broadcast_to(np.asarray(t), len(np.asarray(X))))
            made[int(when)] = np.asarray(y)
            return self.info

    rows = records(compare(problem, {"b": lambda _: Batches(at_origin)}, 1, 8, batch=3))
    assert len(rows) == 8
    for t, row in enumerate(rows, 1):
        assert (row["t"], row["batch_size"], row["x0"]) == (t, 3, domain[t, 0])
        expected = problem.value(domain[[t, t, 40]], float(t)).mean()
        assert row["reward"] == pytest.approx(expected)
        assert row["regret"] == pytest.approx(problem.best(t) - expected)
        assert row["average_regret"] == pytest.approx(np.mean([r["regret"] for r in rows[:t]]))
        assert len(set(made[t])) == 3
    one = records(compare(BUMP, ["gp-ucb"], 1, 5, batch=1))
    plain = records(compare(BUMP, ["gp-ucb"], 1, 5))
    assert [row["reward"] for row in one] == [row["reward"] for row in plain]
    assert one[-1]["bound"] == plain[-1]["bound"]
    match = '"b" plays one point a step: its ask takes no n, got batch=2'
    assert_refused(TypeError, match, compare, BUMP, {"b": Recording(at_origin)}, 1, 5, batch=2)


def test_compare_with_batch_reports_the_regret_of_its_best_point() -> None:
    player = PlaysTwo()
    rows = compare(BUMP, {"two": lambda _: player}, 1, batch=2)  # type: ignore[dict-item, return-value]
    pair = np.array([[0.0], [10.0]])
    for _, row in rows.iterrows():
        values = BUMP.value(pair, row["t"])
        assert row["regret"] == pytest.approx(BUMP.best(row["t"]) - values.mean())
        assert row["best_of_batch_regret"] == pytest.approx(BUMP.best(row["t"]) - values.max())
    line = summarise(rows).iloc[0]
    assert line["best_of_batch_regret"] == pytest.approx(rows["best_of_batch_regret"].mean())
    assert "best_of_batch_regret" not in summarise(compare(BUMP, ["uniform"], 1))


class PlaysTwo:
    """Plays the same two points at every step."""

    def ask(self, t: float, n: int) -> Any:
        return np.array([[0.0], [10.0]])[:n] + 0.0 * t

    def tell(self, X: Any, y: Any, t: Any) -> None:
        assert len(X) == len(y) == len(t)


def test_compare_with_batch_plays_every_policy() -> None:
    rows = compare(BUMP, sorted(POLICIES), 1, 2, batch=2)
    assert set(rows["batch_size"]) == {2}


def test_compare_accepts_widths_as_numbers_texts_and_objects() -> None:
    for width, text, beta in ((2, "2", 2.0), (np.float64(0.5), "0.5", 0.5), ("1.5", "1.5", 1.5)):
        rows = records(compare(BUMP, ["gp-ucb"], 1, 3, beta=width))
        assert {(row["width"], row["beta"]) for row in rows} == {(text, beta)}
    (first, *_) = records(compare(BUMP, ["gp-ucb"], 1, 3, beta=Fixed(3.0)))
    assert (first["width"], first["beta"]) == ("Fixed(value=3.0)", 3.0)


def test_compare_uses_the_simulator_as_expert_by_default() -> None:
    assert simulator(BUMP, 3) == SimulatorExpert(BUMP, seed=3)
    default = without_seconds(compare(BUMP, ["sparq-gp-ucb"], 2))
    spelled = compare(BUMP, ["sparq-gp-ucb"], 2, expert=lambda p, s: SimulatorExpert(p, seed=s))
    assert without_seconds(spelled) == default
    assert sum(int(row["queries"]) for row in default) > 0

    @dataclass
    class Silent:
        def query(self, X: Array, t: float) -> Answers:  # noqa: ARG002
            return Answers(np.full(len(X), np.nan), np.ones(len(X)), cost=0.5)

    asked: list[tuple[str, int]] = []

    def own(problem: Problem, seed: int) -> Silent:
        asked.append((problem.name, seed))
        return Silent()

    rows = records(compare(BUMP, {"s": POLICIES["sparq-gp-ucb"].make}, 2, expert=own))
    assert asked == [("drifting-bump", 0), ("drifting-bump", 1)]
    assert {row["answered"] for row in rows} == {0}
    assert {row["cost"] for row in rows if row["queries"]} == {0.5}
    compare(BUMP, ["gp-ucb"], 1, expert=None)


# --- errors are raised at the call, before any run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policies": ["nope"]}, '"nope"; .*: uniform, gp-ucb, '),
        ({"policies": []}, "policies must"),
        ({"problems": []}, "problems must"),
        ({"problems": [BUMP, BUMP]},
         r"\['drifting-bump', 'drifting-bump'\]"),
        ({"problems": 3}, "got 3, .*best, domain, horizon"),
        ({"problems": Changed(BUMP, kernel=RBF(-1.0))},
         "drifting-bump: .*kernel must"),
        ({"problems": Changed(BUMP, noise_variance=0.0)},
         "drifting-bump: noise_variance must .*0"),
        ({"problems": Changed(BUMP, value=lambda X, _: X[:, 0] * np.nan)},
         "the value of drifting-bump must .*nan"),
        ({"problems": Changed(BUMP, value=lambda X, _: X)},
         r"the value of drifting-bump must have shape \(1,\), .* got \(1, 1\)"),
        ({"problems": Changed(BUMP, value=lambda *_: 1.0)},
         r"the value of drifting-bump must have shape \(1,\), .* got \(\)"),
        ({"problems": Changed(BUMP, best=lambda _: np.nan)},
         "the best of drifting-bump must .*nan"),
        ({"horizon": 13},
         "drifting-bump .*12 .*13"),
        ({"policies": ["sparq-gp-ucb"], "expert": None},
         "sparq-gp-ucb .*expert"),
        ({"equal_information": True}, "uniform"),
        ({"batch": 0}, "batch must .*0"),
        ({"seeds": 0}, "seeds must .*0"),
        ({"n_jobs": 0}, "n_jobs, .* must .* 0"),
        ({"seeds": [[1], [1, 2]]}, r"each of seeds must .*\[1\]"),
        ({"seeds": np.array(3)}, "seeds must"),
        ({"n_jobs": [1, 2]}, r"n_jobs, .* must .*\[1, 2\]"),
        ({"n_jobs": np.array([True, False])}, "n_jobs, .* must .*array"),
        ({"n_jobs": 2**40}, "n_jobs, .* must .*1099511627776"),
        ({"policies": np.array(np.nan)}, "policies must"),
        ({"horizon": 2.5}, "horizon must .*2.5"),
        ({"beta": "wide"}, "beta must .*'wide'"),
        ({"beta": -1}, "^beta must .*-1"),
        ({"problems": "drifting-bumps"}, "drifting-bump"),
        ({"problems": ["ozone"]}, "reads files.*tvbandits.datasets"),
        ({"problems": DriftingBump}, "problems must .*DriftingBump'>"),
        ({"problems": ozone_network}, "<function ozone_network .*best"),
        ({"policies": ["uniform", lambda setting: setting]}, "<lambda>.* has no name"),
        ({"policies": ["gp-ucb", partial(at_origin)]}, "partial.* has no name"),
        ({"policies": [at_origin, Recorder, at_origin, type("Recorder", (Recorder,), {})]},
         '"Recorder"'),
        ({"policies": {"mine": "no-ucb"}}, "no-ucb"),
        ({"policies": {"mine": partial(policies.sw_gp_ucb, window=30)}},
         '"mine": .*"sw-gp-ucb:window=30"'),
        ({"policies": 3}, "policies must .*3"),
        ({"policies": {"mine": 3}}, '"mine" must .*3'),
        ({"policies": [int]}, "makers.*<class 'int'>"),
        ({"policies": ["uniform", lambda: None]}, "makers.*<lambda>"),
    ],
)  # fmt: skip
def test_compare_refuses_invalid_arguments(arguments: Mapping[str, Any], message: str) -> None:
    given: dict[str, Any] = {"problems": BUMP, "policies": ["uniform"], "seeds": 1}
    with pytest.raises((TypeError, ValueError), match=message):
        compare(**{**given, **arguments})


@pytest.mark.parametrize("made", [None, 3, Recorder])
def test_compare_refuses_a_maker_that_returns_no_player(made: object) -> None:
    message = f'"mine" must .*{re.escape(repr(made))}'
    assert_refused(TypeError, message, compare, BUMP, {"mine": lambda _: made}, 1)


class Silent:
    """A player whose `tell` returns None."""

    def ask(self, t: float) -> Any:
        return np.full((1, 1), 0.0 * t)

    def tell(self, X: Any, y: Any, t: Any) -> None:
        assert np.isfinite([*X[0], *y, t]).all()
        X[:] = 9.0  # which changes a copy, and no row


def silent(setting: Any, *, more: float) -> Silent:
    assert setting.domain is not None
    assert more > 0
    return Silent()


def test_compare_plays_an_object_with_only_ask_and_tell() -> None:
    rows = records(compare(DriftingBump(0, horizon=3), {"silent": lambda _: Silent()}, 1))  # type: ignore[dict-item, return-value]
    assert [row["x0"] for row in rows] == [0.0, 0.0, 0.0]
    assert [row["queries"] for row in rows] == [0, 0, 0]


def test_compare_refuses_a_maker_with_a_missing_argument() -> None:
    path = f"{__name__}:silent"
    with pytest.raises(ValueError, match=r"called with a Setting .*there is nothing for more"):
        compare(BUMP, ["uniform", path], 1, 1)
    rows = records(compare(DriftingBump(0, horizon=3), [f"{path}:more=2"], 1, 1))
    assert rows[0]["policy"] == f"{path}:more=2"


def test_compare_refuses_invalid_points_of_a_player_and_names_the_step() -> None:
    for asked, message in (
        ([1.0, 2.0, 3.0], "X must have shape (n, 1), got (1, 3)"),
        ([np.nan], "X must be finite, got [nan]"),
        ([50.1], "X must be inside the box [[-50.0, 50.0]], got [50.1]"),
        (np.empty((0, 1)), "a player must ask for at least one point"),
    ):
        makers = {"odd": Recording(lambda t, asked=asked: asked if t > 1 else 0.0)}  # type: ignore[misc]
        with pytest.raises(ValueError, match=re.escape(message)) as caught:
            compare(DriftingBump(0, horizon=3), makers, 1)
        assert caught.value.__notes__ == ["odd on drifting-bump, seed 0, step 2"]


# --- other processes


@pytest.mark.parametrize(
    ("horizon", "policies", "seeds", "n_jobs", "expected"),
    [
        (12, 1, 3, -1, [1, 1]),
        (12, 2, 2, -1, [-1, -1]),
        (12, 4, 1, -1, [1, -1]),  # one seed to prepare
        (701, 1, 3, -1, [-1, -1]),  # few, but long
        (12, 1, 3, 2, [2, 2]),  # as given
        (12, 2, 2, 1000, [2, 4]),  # no more processes than tasks
    ],
)
def test_iterate_starts_workers_only_for_enough_work(
    monkeypatch: pytest.MonkeyPatch,
    horizon: int,
    policies: int,
    seeds: int,
    n_jobs: int,
    expected: list[int],
) -> None:
    asked: list[int] = []

    def recording(n_jobs: int, return_as: str) -> Any:
        asked.append(n_jobs)
        return Parallel(n_jobs=1, return_as=return_as)

    monkeypatch.setattr("tvbandits.comparison.compare.Parallel", recording)
    makers = {f"policy-{i}": Recording(at_origin) for i in range(policies)}
    plan = Comparison(DriftingBump(11, horizon=horizon), makers, seeds, n_jobs=n_jobs)
    assert len(list(iterate(plan))) == policies * seeds
    assert asked == expected


def test_iterate_yields_each_run_as_soon_as_it_is_played() -> None:
    made = Recording(at_origin)
    runs = iterate(Comparison(BUMP, {"a": made}, 3, 4))
    assert made.made == {}
    first = next(runs)
    assert isinstance(first, Run)
    assert (first.seed, len(first.rows), sorted(made.made)) == (0, 4, [0])
    assert len(list(runs)) == 2


# --- equal information


def test_equal_information_gives_policies_without_an_expert_as_many_answers() -> None:
    sparq = "sparq-gp-ucb:queries_per_step=2"
    policies = ["gp-ucb", "uniform", sparq, "adaptive-gp-ucb"]
    parts: dict[str, Any] = {"seeds": 2, "horizon": 15, "beta": 2.0}
    table = compare(LONGER, policies, **parts, equal_information=True)
    assert list(dict.fromkeys(table["policy"])) == policies
    counts = table.pivot_table(index=["seed", "t"], columns="policy", values="answered")
    assert counts[sparq].sum() > 40
    for policy in ("gp-ucb", "adaptive-gp-ucb"):
        assert counts[policy].to_list() == counts[sparq].to_list()
    assert (counts["uniform"] == 0).all()
    alone = compare(LONGER, [sparq], **parts)
    asks = table["policy"] == sparq
    assert table[asks]["regret"].to_list() == alone["regret"].to_list()  # it is the same run


def test_iterate_with_equal_information_omits_finished_runs() -> None:
    plan = Comparison(BUMP, ["gp-ucb", "sparq-gp-ucb"], 2, 3, equal_information=True)
    assert [run.key for run in iterate(plan, plan.runs[1:])] == plan.runs[:1]


# --- learned noise

POINTS = np.linspace(0.0, 1.0, 12)[:, None]


def measured() -> TableProblem:
    """Measurements of a moving wave, with noise of variance 0.04 that is not stated."""
    t = np.arange(120.0)[:, None]
    noise = 0.2 * np.random.default_rng(0).standard_normal((120, 12))
    values = 10.0 + np.sin(5.0 * POINTS[:, 0] + t / 30.0) + noise
    return TableProblem(values, POINTS, "measured", "", noise_variance=None, added_noise=0.0)


def test_compare_lets_policies_learn_an_unknown_noise_variance() -> None:
    found: list[Bandit] = []

    def maker(setting: Setting) -> Bandit:
        assert setting.noise_variance is None
        found.append(policies.gp_ucb(**setting.parts, seed=setting.seed))
        return found[-1]

    rows = records(compare(measured(), {"mine": maker}, seeds=1, horizon=20))
    assert len(rows) == 20
    assert found[-1].noise.readings == 16
    assert all(math.isfinite(row["bound"]) for row in rows)


def test_prepare_estimates_an_unknown_noise_variance_from_the_first_sample() -> None:
    prepared = prepare("measured", measured(), 0, 100)
    assert prepared.noise_variance == pytest.approx(0.04, rel=0.6)
    assert prepared.setting_for(None, None).noise_variance is None
    assert get_added_noise(prepared.problem) == 0.0


def test_simulator_expert_states_no_variance_for_unknown_noise_unless_given() -> None:
    assert SimulatorExpert(measured()).query(POINTS, 1.0).variance is None
    assert len(SimulatorExpert(measured(), variance=0.1).query(POINTS, 1.0)) == 12


def test_named_policy_with_noise_variance_none_learns_the_noise() -> None:
    setting = prepare("bump", DriftingBump(candidates=11, horizon=6), 0, 6).setting_for(None, None)
    made = POLICIES["gp-ucb"].make(setting, noise_variance=None)
    assert isinstance(made, Bandit)
    assert made.recipe.noise_variance is None
    assert POLICIES["gp-ucb"].make(setting).recipe.noise_variance == 0.01


# --- costs of moves: a column beside the regret, and bandits that consider them


@dataclass(frozen=True)
class Dear(DriftingBump):
    """A bump on which moves have a cost."""

    candidates: int = 21
    horizon: int = 8
    move_cost: float = 0.1


def test_compare_reports_the_move_cost_of_a_problem_and_gp_ucb_avoids_it() -> None:
    rows = compare(Dear(move_cost=100.0), ["gp-ucb", "uniform"], seeds=2)
    table = summarise(rows).set_index("policy")["move_cost_per_step"]
    assert table["gp-ucb"] == 0.0
    assert table["uniform"] > 100.0
    run = rows[(rows["policy"] == "uniform") & (rows["seed"] == 1)]
    way = run["x0"].to_numpy()
    assert run["move_cost"].to_list() == (100 * np.abs(np.diff(way, prepend=way[0]))).tolist()


def test_compare_reports_the_move_cost_of_a_policy_once_per_batch() -> None:
    made = {
        "dear": lambda s: policies.gp_ucb(
            s.domain, kernel=s.kernel, noise_variance=0.01
        ).with_options(move_cost=0.2)
    }
    rows = compare(DriftingBump(candidates=21, horizon=4), made, seeds=1, batch=3)
    assert (rows["move_cost"] > 0).to_list() == [True] * 4
    assert "move_cost" not in compare(DriftingBump(candidates=9, horizon=2), ["uniform"], seeds=1)


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize(
    ("problem", "shown"), [(f"{__name__}:Dear", "move cost"), ("heat-pump", "violations")]
)
def test_compare_command_and_report_show_move_cost_and_violations(
    tmp_path: Path, command: Command, problem: str, shown: str
) -> None:
    plan = ("compare", problem, "drifting-bump:candidates=9", "--policy", "uniform")
    plan = (*plan, "--horizon", "6", "--seeds", "1", "--out", tmp_path / "out")
    for _again in range(2):
        said = command(*plan)
        assert said.status == 0, said.err
        assert said.out.count(shown) == 1
    assert f">{shown}</th>" in comparison_report(tmp_path / "out")


# --- a noise variance for each candidate

LEVELS = np.array([0.5, 0.6, 0.55, 0.4, 0.45])
VARIANCES = np.array([1e-6, 4.0, 1e-6, 0.25, 1e-6])


@dataclass(frozen=True)
class Levels:
    """Constant levels, with a noise variance for each candidate."""

    noise_variance: Any
    horizon: int = 12
    added_noise: float | None = None
    name, unit, kernel, variation = "levels", "", RBF(1.0), 0.1
    domain = Candidates(np.arange(5.0)[:, None])

    def value(self, X: Array, t: float) -> Array:
        return LEVELS[self.domain.index(X)] + 0.0 * t

    def best(self, t: float) -> float:
        return float(LEVELS.max() + 0.0 * t)


class Readings(Recorder):
    """Also records the noise variances that are stated with its readings."""

    stated: list[Any]

    def tell(self, X: Any, y: Any, t: Any, noise_variance: Any = None) -> None:
        super().tell(X, y, t)
        self.stated.append(noise_variance)


def test_compare_adds_and_states_the_noise_variance_of_each_candidate() -> None:
    player = Readings(lambda t: [t % 5])
    player.stated = []
    made = {"player": lambda _: player}
    compare(Levels(VARIANCES, 2000), made, 1, 2000)  # type: ignore[arg-type]
    rows = np.arange(1, 2001) % 5
    assert [each.tolist() for each in player.stated] == [[VARIANCES[row]] for row in rows]
    assert len(player.told) == 2000
    noise = np.array([y - LEVELS[int(x)] for (_, x), y in player.told.items()])
    for row, variance in enumerate(VARIANCES):
        # 400 readings: the deviation of the estimate is 7% of the variance.
        assert noise[rows == row].var() == pytest.approx(variance, rel=0.3)


def test_compare_states_no_noise_variance_that_all_candidates_share() -> None:
    player = Readings(lambda t: [t % 5])
    player.stated = []
    compare(Levels(0.1), {"player": lambda _: player}, 1)  # type: ignore[arg-type, return-value]
    assert player.stated == [None] * 12


@pytest.mark.parametrize("name", ["gp-ucb", "adaptive-gp-ucb", "sw-gp-ucb:window=5"])
def test_policies_use_the_noise_variance_of_each_candidate(name: str) -> None:
    # The same readings in both, and the same mean.
    right, wrong = (
        Levels(VARIANCES[order], 12, 1e-6) for order in ([0, 1, 2, 3, 4], [1, 0, 2, 3, 4])
    )
    assert get_added_noise(Levels(VARIANCES)) == VARIANCES.mean()
    one, same, other = (compare(each, [name], 1)["x0"] for each in (right, right, wrong))
    assert list(one) == list(same) != list(other)


def test_bandit_and_simulator_expert_use_the_noise_variance_of_each_candidate() -> None:
    bandits: list[Bandit] = []

    def made(setting: Setting) -> Bandit:
        assert setting.noise_variance == VARIANCES.mean()
        bandits.append(policies.gp_ucb(**setting.parts))
        return bandits[-1]

    compare(Levels(VARIANCES), {"mine": made}, 1, batch=2)
    (bandit,) = bandits
    data = bandit.state.rewards
    assert data.variance.tolist() == [VARIANCES[int(x)] for x in data.X[:, 0]]
    (said,) = SimulatorExpert(Levels(VARIANCES)).query(np.array([[1.0], [0.0]]), 1.0).variance[None]
    assert said.tolist() == [4.0, 1e-6]


def test_play_run_states_no_noise_variance_to_a_policy_with_its_own() -> None:
    made: list[Any] = []
    spy = Spy("gp-ucb:noise_variance=0.3", made)
    play_run(prepare("flat", Levels(VARIANCES), 0, 12), "own", spy, Conditions(None, None, None))
    assert set(made[0].state.rewards.variance) == {0.3}


@dataclass(frozen=True)
class Spy(NamedPolicy):
    """Keeps the player that it makes."""

    made: list[Any]

    def __call__(self, setting: Setting) -> Any:
        self.made.append(super().__call__(setting))
        return self.made[-1]


@pytest.mark.parametrize("noise", [[0.1] * 4, [0.1] * 4 + [0.0], [0.1] * 4 + [np.nan], [[0.1] * 5]])
def test_compare_refuses_noise_variances_that_do_not_match_the_candidates(noise: Any) -> None:
    assert_refused(
        ValueError, "levels: noise_variance must", compare, Levels(np.array(noise)), ["uniform"], 1
    )
    box = Changed(BUMP, noise_variance=np.ones(2), domain=Box([[0.0, 1.0]]))
    assert_refused(
        ValueError, "drifting-bump: noise_variance must be a number", compare, box, ["uniform"]
    )


# --- warnings: a stated best below a reward, and unknown noise


def test_compare_warns_if_the_best_of_a_problem_is_below_a_reward() -> None:
    class Low(Levels):
        def best(self, t: float) -> float:
            return 0.35 if t == 7 else super().best(t)

    with pytest.warns(
        RuntimeWarning, match=r"levels: best\(7\) is 0.35, .* 0.6 .*in 1 of 12 steps"
    ):
        compare(Low(0.1), {"player": lambda _: Recorder(lambda _: [1.0])}, 1)  # type: ignore[arg-type, return-value]


def test_compare_warns_if_a_problem_of_unknown_noise_gets_no_noise() -> None:
    made: Any = {"player": lambda _: Recorder(lambda t: [t % 5])}
    with pytest.warns(RuntimeWarning, match="levels: noise_variance is None.*added_noise = 0.0"):
        rows = compare(Levels(None), made, 1)  # type: ignore[arg-type]
    assert len(rows) == 12
    compare(Levels(None, added_noise=0.0), made, 1)  # type: ignore[arg-type]
