"""A bandit as a generator of Xopt, against the same bandit told and asked by hand."""

import json
import runpy
import time
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

xopt = pytest.importorskip("xopt", reason="needs the extra tvbandits[xopt], and with it PyTorch")

from xopt.asynchronous import AsynchronousXopt  # noqa: E402
from xopt.errors import VOCSError  # noqa: E402
from xopt.vocs import ContextualVariable  # noqa: E402

from tvbandits import Integer, Space, policies  # noqa: E402
from tvbandits.integrations.xopt import TVGenerator  # noqa: E402

HOUR = 0.0


def hours() -> float:
    """A clock that a file can refer to by its path."""
    return HOUR


def quick(space: Any, **options: Any) -> Any:
    """A policy with a fixed noise variance and forgetting rate."""
    return policies.tv_gp_ucb(
        space, kernel=space.kernel(), noise_variance=0.01, **{"forgetting_rate": 0.05, **options}
    )


class Clock:
    """A clock whose hour advances at each reading of a machine."""

    def __init__(self) -> None:
        self.hour = 100.0

    def read(self, inputs: dict[str, float]) -> dict[str, float]:
        found = {"y": (inputs["x"] - 0.3) ** 2 + abs(inputs["k"] - 2.5) / 10, "time": self.hour}
        self.hour += 1.5
        return found


def read(inputs: dict[str, float]) -> dict[str, float]:
    """A reading of a machine at the present hour, which a file can refer to by its path."""
    return {"y": (inputs["x"] - 0.3) ** 2, "time": HOUR}


def vocs_of(direction: str = "MINIMIZE", **variables: Any) -> Any:
    known = {"x": [-1.0, 1.0], "k": {1.0, 2.5, 4.0}} | variables
    return xopt.VOCS(variables=known, objectives={"y": direction})


def made(direction: str, **options: Any) -> tuple[Any, Clock]:
    clock = Clock()
    options = {"clock": lambda: clock.hour, "policy": quick, **options}
    generator = TVGenerator(vocs=vocs_of(direction), **options)
    return xopt.Xopt(generator=generator, evaluator=xopt.Evaluator(function=clock.read)), clock


def generator_with(data: Any, vocs: Any = None, **options: Any) -> Any:
    """A generator at hour 10 with these data."""
    options = {"clock": lambda: 10.0, "policy": quick, **options}
    generator = TVGenerator(vocs=vocs_of() if vocs is None else vocs, **options)
    generator.add_data(pd.DataFrame(data))
    return generator


DATA = {
    "x": [0.1, -0.4, 0.7, 0.2],
    "k": [1.0, 2.5, 4.0, 2.5],
    "y": [1.0, 3.0, 2.0, 1.5],
    "time": [1.0, 2.0, 3.0, 4.0],
}


def same_points(some: list[Any], others: list[Any]) -> None:
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        assert one == pytest.approx(other, abs=1e-6)


@pytest.mark.parametrize("direction", ["MINIMIZE", "MAXIMIZE"])
def test_generator_plays_as_a_bandit_told_the_same_data(direction: str) -> None:
    X, _ = made(direction)
    for _ in range(6):
        X.step()
    space = Space(k=Integer(0, 2), x=(0.0, 1.0))
    rows = X.data.to_dict("records")
    for i, row in enumerate(rows):
        seed = int(np.random.SeedSequence((0, i, 0)).generate_state(1)[0])
        bandit = quick(space, minimize=direction == "MINIMIZE", seed=seed)
        if i:
            known = [[[1.0, 2.5, 4.0].index(each["k"]), (each["x"] + 1) / 2] for each in rows[:i]]
            bandit.tell(known, [each["y"] for each in rows[:i]], 1.5 * np.arange(i))
        asked = space.decode(bandit.ask(1.5 * i, n=1)).iloc[0]
        assert row["x"] == pytest.approx(2 * asked["x"] - 1, abs=1e-6)
        assert row["k"] == [1.0, 2.5, 4.0][int(asked["k"])]


def test_generator_continues_the_same_from_loaded_data() -> None:
    whole, before = made("MINIMIZE")
    for _ in range(5):
        whole.step()
    again, clock = made("MINIMIZE")
    again.add_data(whole.data)
    clock.hour = before.hour
    same_points(again.generator.generate(1), whole.generator.generate(1))
    assert len(again.generator.bandit.state.rewards) == 5


@pytest.mark.parametrize(
    ("policy", "window"),
    [
        ("gp_ucb", None),
        ({"name": "sw_gp_ucb", "window": 7}, 7),
        (partial(policies.sw_gp_ucb, window=7), 7),
        ("tests.integrations.test_xopt.quick", None),
        (partial(quick, forgetting_rate=0.2), None),
    ],
    ids=str,
)
def test_generator_continues_the_same_from_a_saved_file(
    policy: Any, window: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.integrations.test_xopt.HOUR", 1.0)
    path = tmp_path / "run.yml"
    generator = TVGenerator(
        vocs=vocs_of(), clock=hours, policy=policy, added_time=0.5, time_column="time", seed=3
    )
    whole = xopt.Xopt(
        generator=generator, evaluator=xopt.Evaluator(function=read), xopt_dump_file=str(path)
    )
    for hour in (1.0, 2.5, 3.0, 4.5):
        monkeypatch.setattr("tests.integrations.test_xopt.HOUR", hour)
        whole.step()
    for again in (xopt.Xopt.from_yaml(whole.yaml()), xopt.Xopt.from_file(str(path))):
        for name in ("seed", "added_time", "time_column"):
            assert getattr(again.generator, name) == getattr(generator, name)
        assert again.generator.clock is hours
        same_points(again.generator.generate(2), deepcopy(whole.generator).generate(2))
        if window is not None:
            assert again.generator.bandit.recipe.aging.last == window
        again.step()
        assert len(again.data) == 5


def test_generator_from_yaml_refuses_a_function_that_cannot_be_imported() -> None:
    clock = Clock()
    for options, value in (
        ({"clock": lambda: 0.0}, "<lambda>"),
        ({"policy": partial(quick, forgetting_rate=np.float32(0.1))}, "partial"),
        ({"policy": "sw_gp_ucbb"}, "sw_gp_ucbb"),
        ({"clock": "nowhere.now"}, "nowhere.now"),
        ({"policy": 3}, "3"),
        ({"clock": clock.read}, "Clock.read"),
    ):
        with pytest.raises(ValueError, match=value):
            TVGenerator.from_yaml(TVGenerator(vocs=vocs_of(), **options).yaml())


@pytest.mark.filterwarnings("ignore")  # of imports of Xopt for its own generators
def test_generator_is_registered_with_defaults_that_json_can_store() -> None:
    from xopt.generators import get_generator, get_generator_defaults, list_available_generators

    assert "tvbandits" in list_available_generators()
    assert get_generator("tvbandits") is TVGenerator
    defaults = json.loads(json.dumps(get_generator_defaults("tvbandits")))
    generator = TVGenerator(vocs=vocs_of(), **defaults)
    assert generator.policy is policies.adaptive_gp_ucb
    assert generator.clock is time.time


def test_generator_runs_from_a_yaml_text() -> None:
    text = """
    generator:
        name: tvbandits
        policy: {name: sw_gp_ucb, window: 4}
        vocs:
            variables: {x: [-1, 1]}
            objectives: {y: MINIMIZE}
            constants: {gain: 2}
    evaluator: {function: tests.integrations.test_xopt.read}
    """
    run = xopt.Xopt.from_yaml(text)
    run.random_evaluate(2, seed=0)
    run.step()
    assert run.generator.bandit.recipe.aging.last == 4
    assert run.data["gain"].tolist() == [2, 2, 2]


def test_generator_uses_the_present_data_after_they_are_changed() -> None:
    other = pd.DataFrame(DATA).assign(y=[3.0, 1.0, 4.0, 1.0])
    shorter = pd.DataFrame(DATA)[:2]
    incomplete = pd.DataFrame(DATA).assign(y=[1.0, 3.0, 2.0, np.nan])
    for data in (other, shorter, incomplete):
        generator = generator_with(DATA)
        generator.generate(1)
        generator.data = data
        fresh = generator_with(data)
        # A point that was generated before is pending unless its row arrived or the run restarted.
        generator._pending = generator._pending[:0]
        same_points(generator.generate(1), fresh.generate(1))
        assert generator.bandit.state.rewards.y.tolist() == data["y"].dropna().tolist()
    generator = generator_with(incomplete)
    generator.generate(1)
    generator.data.loc[3, "y"] = 1.5
    generator.generate(1)
    assert generator.bandit.state.rewards.y.tolist() == DATA["y"]


def test_generator_restarts_after_its_data_are_reset_or_removed() -> None:
    X, clock = made("MINIMIZE")
    first = deepcopy(X.generator).generate(1)
    for _ in range(3):
        X.step()
    X.remove_data([0])
    X.step()
    assert len(X.generator.bandit.state.rewards) == 2
    X.reset_data()
    clock.hour = 100.0
    same_points(X.generator.generate(1), first)
    X.step()
    X.step()
    assert len(X.data) == 2


def test_generator_omits_rows_outside_the_variables_with_a_warning() -> None:
    more = {"x": [np.nan, 1.5, 0.3, 0.4], "k": [1.0, 1.0, 2.0, np.inf], "y": 9.0, "time": 5.0}
    data = pd.concat([pd.DataFrame(DATA), pd.DataFrame(more)], ignore_index=True)
    generator = generator_with(data)
    with pytest.warns(UserWarning, match="4 of 8 rows .* row 4 "):
        points = generator.generate(1)
    same_points(points, generator_with(DATA).generate(1))
    assert generator.bandit.state.rewards.y.tolist() == DATA["y"]


def test_generator_uses_variables_changed_in_place_or_replaced() -> None:
    narrow = vocs_of(x=[0.0, 0.5])
    for change in ("anew", "in place"):
        generator = generator_with(DATA)
        generator.generate(1)
        if change == "anew":
            generator.vocs = narrow
        else:
            generator.vocs.variables["x"].domain = [0.0, 0.5]
        with pytest.warns(UserWarning, match="2 of 4 rows"):
            points = generator.generate(5)
        assert all(0.0 <= each["x"] <= 0.5 for each in points)
        assert generator.bandit.state.rewards.y.tolist() == [1.0, 1.5]
        generator.vocs = vocs_of(x=[-2.0, 2.0], k=[0.0, 5.0])
        generator.generate(1)
        assert len(generator.bandit.state.rewards) == 4
        generator.vocs = vocs_of(z=[0.0, 1.0])
        with pytest.warns(UserWarning, match="4 of 4 rows"):
            points = generator.generate(2)
        assert [set(each) for each in points] == [{"x", "k", "z"}] * 2


def test_generator_reads_dates_with_a_time_zone_as_seconds_and_refuses_others() -> None:
    dates = pd.to_datetime(DATA["time"], unit="s", utc=True)
    dated = generator_with({**DATA, "time": dates})
    same_points(dated.generate(1), generator_with(DATA).generate(1))
    assert dated.bandit.state.rewards.t.tolist() == [0.0, 1.0, 2.0, 3.0]
    zoned = generator_with({**DATA, "time": dates.tz_convert("Asia/Tokyo").astype(object)})
    same_points(zoned.generate(1), generator_with(DATA).generate(1))
    clocked = generator_with(DATA, clock=lambda: pd.Timestamp(10.0, unit="s", tz="UTC"))
    same_points(clocked.generate(1), generator_with(DATA).generate(1))
    for times in (dates.tz_localize(None), ["1", "2", "3", "noon"], pd.to_timedelta(DATA["time"])):
        with pytest.raises(ValueError, match="time zone"):
            generator_with({**DATA, "time": times}).generate(1)
    # Files of Xopt contain dates in milliseconds.
    later = {**DATA, "time": 1000.0 * (time.time() + np.arange(4.0))}
    with pytest.raises(ValueError, match="one more than a day from now in row 0"):
        generator_with(later, clock=time.time).generate(1)


def test_generator_counts_a_failed_row_without_date_as_played() -> None:
    dates = [pd.Timestamp(1.0, unit="s", tz="UTC"), pd.NaT, pd.Timestamp(3.0, unit="s", tz="UTC")]
    data = {"x": [0.1, 0.2, 0.3], "k": 1.0, "y": [1.0, np.nan, 2.0], "time": dates}
    generator = generator_with(data)
    generator.generate(1)
    assert generator.bandit.state.rewards.t.tolist() == [0.0, 2.0]
    assert generator.bandit.state.failed.t.tolist() == [0.0]


def test_generator_refuses_the_objective_explore_at_any_time() -> None:
    with pytest.raises(VOCSError, match="EXPLORE"):
        TVGenerator(vocs=vocs_of("EXPLORE"))
    generator = generator_with(DATA)
    with pytest.raises(VOCSError, match="EXPLORE"):
        generator.vocs = vocs_of("EXPLORE")
    generator.vocs.objectives["y"] = "EXPLORE"
    with pytest.raises(VOCSError, match="EXPLORE"):
        generator.generate(1)


@pytest.mark.parametrize("ends", [(-1e300, 1e300), (0.0, 1e-300), (1e9, 1e9 + 1.0)])
def test_generator_plays_in_ranges_of_any_size(ends: tuple[float, float]) -> None:
    x = [0.75 * ends[0] + 0.25 * ends[1], ends[1]]
    vocs = xopt.VOCS(variables={"x": list(ends)}, objectives={"y": "MINIMIZE"})
    generator = generator_with({"x": x, "y": [0.5, 0.1], "time": [1.0, 2.0]}, vocs)
    (point,) = generator.generate(1)
    assert ends[0] <= point["x"] <= ends[1]
    assert generator.bandit.state.rewards.X[:, 0] == pytest.approx([0.25, 1.0], abs=1e-6)


def test_generator_refuses_an_infinite_range_and_keeps_a_single_value() -> None:
    with pytest.raises(VOCSError, match="x must have a finite range"):
        TVGenerator(vocs=vocs_of(x=[0.0, np.inf]))
    generator = generator_with({**DATA, "k": 4.0}, vocs_of(k={4.0}))
    assert [each["k"] for each in generator.generate(2)] == [4.0, 4.0]
    with pytest.raises(VOCSError, match="several values or a range"):
        generator_with(DATA, vocs_of(x={0.1}, k={4.0})).generate(1)


def test_generator_keeps_generated_points_pending_until_their_rows_arrive() -> None:
    generator = generator_with(DATA)
    points = generator.generate(2) + generator.generate(2)
    assert len({(each["x"], each["k"]) for each in points}) == 4
    assert len(generator.bandit.pending) == 4
    # Rows arrive out of order, and one of another point replaces the oldest pending point.
    rows = [points[2] | {"y": 1.0, "time": 11.0}, points[0] | {"x": 0.0, "y": 1.0, "time": 12.0}]
    generator.ingest(rows)
    (last,) = generator.generate(1)
    places = [1.0, 2.5, 4.0]
    expected = [
        [places.index(each["k"]), (each["x"] + 1) / 2] for each in (points[1], points[3], last)
    ]
    assert generator.bandit.pending == pytest.approx(np.array(expected))


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # in Xopt, by a newer pandas
def test_generator_in_an_asynchronous_run_repeats_no_point() -> None:
    from concurrent.futures import ThreadPoolExecutor

    clock = Clock()
    generator = TVGenerator(vocs=vocs_of(), clock=lambda: clock.hour, policy=quick)
    with ThreadPoolExecutor(2) as executor:
        evaluator = xopt.Evaluator(function=clock.read, executor=executor, max_workers=2)
        run = AsynchronousXopt(generator=generator, evaluator=evaluator)
        for _ in range(4):
            run.step()
    assert len(run.data) >= 4
    assert run.data.duplicated(["x", "k"]).sum() == 0


def test_generator_suggests_one_point_unless_given_a_number() -> None:
    generator = generator_with(DATA, policy=partial(quick))
    assert len(generator.suggest(None)) == 1
    assert len(generator.suggest(3)) == 3


def test_generator_accepts_data_as_columns_or_a_single_row() -> None:
    options: Any = {"vocs": vocs_of(), "clock": lambda: 10.0, "policy": quick}
    same_points(TVGenerator(data=DATA, **options).generate(1), generator_with(DATA).generate(1))
    single = TVGenerator(data={name: values[0] for name, values in DATA.items()}, **options)
    single.generate(1)
    assert single.bandit.state.rewards.y.tolist() == [1.0]


def test_generator_generates_several_different_points() -> None:
    X, _ = made("MAXIMIZE")
    X.step()
    points = X.generator.generate(3)
    assert len({(each["x"], each["k"]) for each in points}) == 3


def test_generator_refuses_readings_without_a_time() -> None:
    generator = generator_with({"x": [0.0], "k": [1.0], "y": [1.0]})
    with pytest.raises(ValueError, match=r"'time', .* x, k, y, .* row 0"):
        generator.generate(1)


def test_generator_refuses_two_objectives_and_constraints() -> None:
    for more in (
        {"objectives": {"y": "MINIMIZE", "z": "MINIMIZE"}},
        {"constraints": {"c": ["LESS_THAN", 0]}},
    ):
        parts: Any = {"variables": {"x": [0, 1]}, "objectives": {"y": "MINIMIZE"}} | more
        with pytest.raises(Exception, match="does not support"):
            TVGenerator(vocs=xopt.VOCS(**parts))


def test_example_of_xopt_loses_less_than_a_fifth_of_random_points(tmp_path: Path) -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "xopt_run.py"))
    assert example["main"](tmp_path) < 0.072  # a fifth of what points at random lose
    assert (tmp_path / "xopt_run.png").stat().st_size > 0


def test_generator_counts_failed_and_infinite_rows_as_plays_without_reading() -> None:
    vocs = xopt.VOCS(variables={"x": [0.0, 1.0]}, objectives={"y": "MINIMIZE"})
    policy = partial(policies.sw_gp_ucb, window=5)
    generator = TVGenerator(vocs=vocs, clock=lambda: 3.0, policy=policy)
    generator.add_data(pd.DataFrame({"x": [0.3], "xopt_error": [True]}))  # a failed row has no time
    generator.generate(1)
    read = {"x": [0.1, 0.2, 0.4], "y": [np.inf, 1.0, np.nan], "time": [4.0, 5.0, np.nan]}
    generator.add_data(pd.DataFrame(read))
    generator.generate(1)
    assert generator.bandit.state.failed.t.tolist() == [0.0, 0.0, 1.0]
    assert generator.bandit.state.rewards.t.tolist() == [1.0]


# --- contextual variables ---------------------------------------------------------------------------

SEEN = {**DATA, "outside": [-15.0, 20.0, 2.5, 6.0]}


def in_context(domain: Any = (-15.0, 20.0)) -> Any:
    own = {} if domain is None else {"domain": list(domain)}
    return vocs_of(outside=ContextualVariable(**own))


def by_hand(outside: list[float], now: float) -> dict[str, float]:
    """The point of a bandit on scaled parameters, told the data with their context."""
    space = Space(context={"outside": (0.0, 1.0)}, k=Integer(0, 2), x=(0.0, 1.0))
    seed = int(np.random.SeedSequence((0, 4, 0)).generate_state(1)[0])
    bandit = quick(space, minimize=True, seed=seed)
    places = [[1.0, 2.5, 4.0].index(each) for each in DATA["k"]]
    shares = [(each + 1) / 2 for each in DATA["x"]]
    bandit.tell(np.column_stack([places, shares, outside]), DATA["y"], [0.0, 1.0, 2.0, 3.0])
    (x,) = bandit.ask(9.0, n=1, context={"outside": now})
    return {"k": [1.0, 2.5, 4.0][int(x[0])], "x": 2 * x[1] - 1}


def test_generator_uses_a_contextual_variable_as_context_and_not_as_part_of_points() -> None:
    generator = generator_with(SEEN, in_context(), context={"outside": 9.5})
    told = [0.0, 1.0, 0.5, 0.6]
    same_points(generator.generate(1), [by_hand(told, 0.7)])
    assert generator.bandit.state.rewards.X[:, 2] == pytest.approx(told)
    assert generator.bandit.pending[:, 2] == pytest.approx([0.7])
    # Without a present value, that of the latest row is used.
    same_points(generator_with(SEEN, in_context()).generate(1), [by_hand(told, 0.6)])


def test_generator_takes_a_missing_range_of_a_contextual_variable_from_the_data() -> None:
    generator = generator_with(SEEN, in_context(None), context={"outside": 55.0})
    low, high = -15.0 - 0.05 * 70.0, 55.0 + 0.05 * 70.0
    shares = [(each - low) / (high - low) for each in (*SEEN["outside"], 55.0)]
    same_points(generator.generate(1), [by_hand(shares[:4], shares[4])])


def test_generator_refuses_a_context_that_is_missing_unknown_or_outside() -> None:
    for data, context, message in (
        ({}, {}, "variable outside must have a value from -15.0 to 20.0 in context .* got nan"),
        ({**SEEN, "outside": [1.0, 2.0, 3.0, np.nan]}, {}, "outside must have a value .* got nan"),
        (SEEN, {"outside": 21.0}, "got 21.0"),
        (DATA, {"outside": 1.0}, "no column of the contextual variable outside: the function"),
        (SEEN, {"inside": 1.0}, "context has inside, and the contextual variables .*: outside"),
    ):
        with pytest.raises(ValueError, match=message):
            generator_with(data, in_context(), context=context).generate(1)
    with pytest.raises(ValueError, match="of the VOCS are: none"):
        generator_with(DATA, context={"x": 0.5}).generate(1)


def test_generator_continues_after_a_failed_first_evaluation() -> None:
    data = {"k": [1.0], "x": [0.5], "xopt_error": [True]}
    generator = generator_with(data, in_context(), context={"outside": 9.5})
    with pytest.warns(UserWarning, match="1 of 1 rows are left out"):
        (point,) = generator.generate(1)
    assert {*point} == {"k", "x"}


def test_generator_refuses_variables_that_are_all_contextual() -> None:
    variables = {"outside": ContextualVariable(domain=[0.0, 1.0])}
    with pytest.raises(VOCSError, match="needs one to choose"):
        TVGenerator(vocs=xopt.VOCS(variables=variables, objectives={"y": "MINIMIZE"}))


def test_generator_counts_a_failed_row_without_context_as_played() -> None:
    data = {**SEEN, "y": [1.0, np.nan, 2.0, 1.5], "outside": [-15.0, np.nan, 2.5, 6.0]}
    generator = generator_with(data, in_context())
    generator.generate(1)
    assert len(generator.bandit.state.rewards) == 3
    assert generator.bandit.state.failed.X[0, 2] == pytest.approx(0.0)
    with pytest.warns(UserWarning, match="1 of 4 rows .* row 1 with .*'outside': .*nan"):
        generator_with({**data, "y": DATA["y"]}, in_context()).generate(1)


def weather(inputs: dict[str, float]) -> dict[str, float]:
    """A reading of a machine whose best setting depends on the weather, and of the weather."""
    outside = 2.0 * HOUR - 10.0
    return {"y": (inputs["x"] - outside / 10.0) ** 2, "outside": outside, "time": HOUR}


def test_generator_with_context_continues_the_same_from_yaml(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vocs = xopt.VOCS(
        variables={"x": [-1.0, 1.0], "outside": ContextualVariable(domain=[-10.0, 10.0])},
        objectives={"y": "MINIMIZE"},
    )
    options = {"clock": hours, "policy": {"name": "tv_gp_ucb", "noise_variance": 0.01}}
    run = xopt.Xopt(
        generator=TVGenerator(vocs=vocs, **options), evaluator=xopt.Evaluator(function=weather)
    )
    for hour in range(5):
        monkeypatch.setattr("tests.integrations.test_xopt.HOUR", float(hour))
        run.generator.context = {"outside": 2.0 * hour - 10.0}
        run.step()
    again = xopt.Xopt.from_yaml(run.yaml())
    assert again.generator.context == {"outside": -2.0}
    same_points(again.generator.generate(1), run.generator.generate(1))
    assert len(again.generator.bandit.state.rewards) == 5


# --- the checks of Xopt for each generator --------------------------------------------------------


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch, when it is imported
def test_generator_passes_the_checks_of_xopt() -> None:
    """The problem of these checks is used without constraints, which this generator refuses."""
    from xopt.resources import testing

    vocs = deepcopy(testing.TEST_VOCS_BASE)
    vocs.constraints = {}
    generator = TVGenerator(vocs=vocs, clock=hours, policy="tv_gp_ucb")
    times = HOUR - np.arange(len(testing.TEST_VOCS_DATA), 0, -1.0)
    generator.add_data(testing.TEST_VOCS_DATA.assign(time=times))
    again = testing.reload_gen_from_yaml(generator)
    points = testing.generate_without_warnings(generator, 2)
    same_points(again.generate(2), points)
    for name, ends in zip(vocs.variable_names, vocs.bounds, strict=True):
        assert all(ends[0] <= point[name] <= ends[1] for point in points)
