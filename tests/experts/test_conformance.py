"""`check_expert` passes the experts of the package, and fails each broken one with one finding."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.helpers.discovery import classes_with, is_wrapper
from tests.helpers.refusals import assert_refused
from tvbandits import Answers, Dataset, Expert, ExpertUnavailableError
from tvbandits.datasets import DriftingBump, GPDrift, ozone_network
from tvbandits.experts import (
    CachedLogExpert,
    CallableExpert,
    Faults,
    SensorExpert,
    SimulatorExpert,
    StubTransport,
    stations_at,
)
from tvbandits.experts.budgeted import Budgeted
from tvbandits.experts.calibrated import Calibrated
from tvbandits.experts.conformance import Outcome, Report, check_expert
from tvbandits.experts.protocol import Stateful, restore_state, state_of
from tvbandits.experts.retrying import Retrying
from tvbandits.forgetting.aging import Wiener
from tvbandits.validation import Array

BUMP = DriftingBump(candidates=101)
X = BUMP.domain.X[20:60:7]  # type: ignore[union-attr]
SIMULATOR = SimulatorExpert(BUMP, variance=0.3, cost=1.0)


def failures(report: Report | str) -> list[str]:
    return [line[7:].split(":")[0] for line in str(report).splitlines() if line[:4] == "FAIL"]


def remarks(report: Report) -> dict[str, str]:
    return {f.sentence: f.detail for f in report.findings if f.outcome is Outcome.REMARK}


# --- ours -----------------------------------------------------------------------------------------


def test_check_expert_remarks_on_a_budget_that_runs_out() -> None:
    # Six answers for the form, six for a question, and three for the same one again.
    report = check_expert(Budgeted(SIMULATOR, total=15), X, 5.0, deterministic=True)
    assert remarks(report)["gives equal answers to equal queries"] == (
        "repeating the query changed which points were answered, and the expert's note says: "
        "budget: queried 3 of 6 points, 15 of 15 in total"
    )
    assert report.cost == 15.0


def test_check_expert_remarks_on_errors_at_other_times_and_outside_points() -> None:
    drift = GPDrift(points_per_axis=5, horizon=9)
    points = drift.domain.X[:4]
    found = remarks(check_expert(SimulatorExpert(drift), points, 9.0, outside=[[7.0, 7.0]]))
    times = found["answers, refuses or declines other times"]
    assert times.startswith(
        "t = 10 raised ValueError: gp-drift is defined at t = 1, 2, ..., 9; got"
    )
    assert "t = 9.5 raised" in times
    assert "t = 8" not in times
    beyond = found["refuses or declines points outside"]
    assert "X must be candidates, but [7.0, 7.0]" in beyond
    assert beyond.endswith("(a bandit stops, since this is a mistake)")


def test_check_expert_remarks_on_confident_answers_outside() -> None:
    report = check_expert(SIMULATOR, X, 5.0, outside=[[900.0], [901.0]])
    said = "2 of 2 points were answered, 2 of them with no more variance than inside"
    assert remarks(report) == {"refuses or declines points outside": said}
    careful = By(lambda x, _t: Answers(x[:, 0], 0.1 + np.abs(x[:, 0])))
    said = "1 of 1 points were answered, 0 of them with no more variance than inside"
    assert said in str(check_expert(careful, X, 5.0, outside=[[900.0]]))
    refusing = By(lambda x, _t: Answers(np.where(x[:, 0] > 99, np.nan, 1.0), 0.1))
    report = check_expert(refusing, X, 5.0, outside=[[900.0]])
    assert "ok     refuses or declines points outside\n" in str(report)


def test_check_expert_remarks_on_an_expert_that_cannot_be_pickled() -> None:
    report = check_expert(CallableExpert(lambda x, t: x[:, 0] + t, 0.1), X, 5.0)
    assert "a bandit with it cannot be saved" in remarks(report)["can be pickled"]
    report = check_expert(Calibrated(CallableExpert(lambda x, t: x[:, 0] + t, 0.1)), X, 5.0)
    shown = "counts rewards once that are shown twice"
    assert remarks(report)[shown].startswith("skipped: rewards are shown only to copies")


def test_check_expert_remarks_on_an_expert_that_answers_no_point() -> None:
    nobody = By(lambda points, _t: Answers.none(len(points)))
    found = remarks(check_expert(nobody, X, 5.0, deterministic=True))
    assert found["returns valid Answers, one for each point"] == "none of the 6 points was answered"
    times = found["answers, refuses or declines other times"]
    assert times == "t = 6 is refused; t = 4 is refused; t = 5.5 is refused"


def test_report_counts_queries_points_and_cost() -> None:
    asked = []

    def answer(points: Array, _t: float) -> Answers:
        asked.append(len(points))
        return Answers(points[:, 0], 0.1, 2.0)

    report = check_expert(By(answer), X, 5.0, deterministic=True, outside=X, threads=3)
    assert (report.questions, report.points) == (len(asked), sum(asked))
    assert report.cost == 2.0 * len(asked)
    assert str(report).splitlines()[-1] == f"{len(asked)} queries of {sum(asked)} points, " + (
        f"cost {2 * len(asked)}"
    )


class Fresh:
    """Answers with noise of the stated variance, drawn anew for every query."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def query(self, points: Array, t: float) -> Answers:
        return Answers(BUMP.value(points, t) + (0.5 * self.rng.standard_normal(len(points))), 0.25)


def test_check_expert_passes_fresh_noise_unless_deterministic() -> None:
    expert = Fresh()
    for _ in range(100):
        assert check_expert(expert, X, 5.0, threads=0).success
    with pytest.raises(AssertionError, match="FAIL   gives equal answers to equal querie") as no:
        check_expert(expert, X, 5.0, deterministic=True)
    assert failures(str(no.value)) == ["gives equal answers to equal queries"]


# --- broken ones: each fails its own finding, and no other ------------------------------------------


def plainly(points: Array, t: float) -> Answers:
    return Answers(BUMP.value(points, t), 0.01)


@dataclass(frozen=True)
class By:
    """An expert with the given method."""

    query: Callable[[Array, float], Any]


def mutating(points: Array, t: float) -> Answers:
    said = plainly(points, t)
    points += 1.0
    return said


def too_short(points: Array, t: float) -> Answers:
    return plainly(points[:-1], t)


def down(_points: Array, _t: float) -> Answers:
    raise OSError("no such sensor")


def mistaken(_points: Array, _t: float) -> Answers:
    raise TypeError("no such thing")


def only_many(points: Array, t: float) -> Answers:
    if len(points) < 2:
        raise IndexError("one point is not enough")
    return plainly(points, t)


def distinct(points: Array, t: float) -> Answers:
    return plainly(np.unique(points, axis=0)[::-1] if len(points) > 6 else points, t)


def sorting(points: Array, t: float) -> Answers:
    return Answers(np.sort(BUMP.value(points, t)), 0.01)


def quietly_order_dependent(points: Array, t: float) -> Answers:
    return Answers(BUMP.value(points, t) + 1e-4 * np.arange(len(points)), 0.01)


def refusing_the_last(points: Array, t: float) -> Answers:
    values = BUMP.value(points, t)
    values[-1:] = np.nan
    return Answers(values, 0.01)


def an_array(points: Array, t: float) -> Any:
    return BUMP.value(points, t)


def secretly(points: Array, t: float, **changed: Any) -> Answers:
    said = plainly(points, t)
    vars(said).update(changed)
    return said


def one_table(points: Array, t: float) -> Answers:
    return plainly(points, {5.0: 5.0}[t])


def crashing_outside(points: Array, t: float) -> Answers:
    rows = {float(x): row for row, x in enumerate(X[:, 0])}
    assert all(rows[float(x)] >= 0 for x in points[:, 0])
    return plainly(points, t)


class Sharing:
    """Stores the points of a query where another thread may change them."""

    def query(self, points: Array, t: float) -> Answers:
        self.points = points
        time.sleep(0.05)
        return plainly(self.points, t)


class Busy:
    """Is unavailable while it answers another query."""

    def __init__(self) -> None:
        self.busy = False

    def query(self, points: Array, t: float) -> Answers:
        if self.busy:
            raise ExpertUnavailableError("busy")
        self.busy = True
        time.sleep(0.05)
        self.busy = False
        return plainly(points, t)


class Forgetful:
    """Its copy gives other answers."""

    def __init__(self) -> None:
        self.shift = 0.0

    def query(self, points: Array, t: float) -> Answers:
        return plainly(points, t + self.shift)

    def __getstate__(self) -> dict[str, float]:
        return {"shift": 20.0}


@dataclass
class Counting:
    """Learns from the same reward each time it is shown."""

    seen: list[Array] = field(default_factory=list)

    def query(self, points: Array, t: float) -> Answers:
        said = plainly(points, t)
        return Answers(said.values + sum(float(y.sum()) for y in self.seen), said.variance)

    def observe(self, rewards: Dataset) -> None:
        self.seen.append(rewards.y)


class Blind:
    """Raises if it is shown rewards."""

    def query(self, points: Array, t: float) -> Answers:
        return plainly(points, t)

    def observe(self, rewards: Dataset) -> None:
        raise KeyError(len(rewards))


METHOD = "has a method query(X, t)"
FORM = "returns valid Answers, one for each point"
SAME = "gives equal answers to equal queries"
ORDER = "gives answers that do not depend on the order of points"
TIMES = "answers, refuses or declines other times"
OUTSIDE = "refuses or declines points outside"
THREADS = "answers 4 threads at once"
SHOWN = "counts rewards once that are shown twice"
BROKEN: dict[str, tuple[Any, str, str]] = {
    "no method": (object(), METHOD, "<object object at"),
    "a number": (By(3.0), METHOD, "By(query=3.0) has none"),  # type: ignore[arg-type]
    "a class": (By, METHOD, "By'> has none"),
    "too short": (By(too_short), FORM, "must answer 6 points, got 5 values"),
    "down": (By(down), FORM,
        "raised OSError: no such sensor (a bandit continues without the expert, since"),
    "mistaken": (By(mistaken), FORM,
        "raised TypeError: no such thing (a bandit stops, since this is a mis"),
    "an array": (By(an_array), FORM, "must return Answers, got ndarray"),
    "secret": (By(partial(secretly, variance=np.full(6, -0.01))), FORM,
        "variance must be positive, got -0.01"),
    "cost": (By(partial(secretly, cost=np.inf)), FORM, "cost must be finite and not negative, got inf"),
    "fresh": (Fresh(), SAME, "repeating the query changed the answer for row 0"),
    "mutating": (By(mutating), "does not change X", "X was changed in place"),
    "only many": (By(only_many), "answers a single point", "raised IndexError: one point is not"),
    "distinct": (By(distinct), "answers a query that contains points twice",
        "must answer 12 points, got 6 values"),
    "sorting": (By(sorting), ORDER, "another order of the points changed the answer for row 0"),
    "quietly": (By(quietly_order_dependent), ORDER, "another order of the points changed the answer"),
    "refusing": (By(refusing_the_last), ORDER, "changed which points were answered, and no note"),
    "one table": (By(one_table), TIMES, "raised KeyError: 6.0"),
    "outside": (By(crashing_outside), OUTSIDE, "raised KeyError: 900.0"),
    "sharing": (Sharing(), THREADS, "changed the answer for row"),
    "busy": (Busy(), THREADS, "raised ExpertUnavailableError: busy (a bandit continues without"),
    "forgetful": (Forgetful(), "can be pickled", "a copy changed the answer for row"),
    "counting": (Counting(), SHOWN, "showing the rewards again changed the answer for row 0"),
    "blind": (Blind(), SHOWN, "raised KeyError: 6"),
}  # fmt: skip


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_check_expert_finds_answers_to_every_other_point_only(count: int) -> None:
    def every_other(points: Array, t: float) -> Answers:
        values = plainly(points, t).values.copy()
        values[1::2] = np.nan
        return Answers(values, 0.01)

    with pytest.raises(AssertionError) as caught:
        check_expert(By(every_other), X[:count], 5.0, threads=0)
    assert failures(str(caught.value)) == [ORDER]


@pytest.mark.parametrize("broken", BROKEN)
def test_check_expert_fails_a_broken_expert_with_its_own_finding_only(broken: str) -> None:
    expert, sentence, detail = BROKEN[broken]
    before = X.copy()
    with pytest.raises(AssertionError, match="the expert does not follow the protocol:") as caught:
        check_expert(expert, X, 5.0, deterministic=True, outside=[[900.0], [901.0]])
    np.testing.assert_array_equal(X, before)
    lines = str(caught.value).splitlines()
    assert failures(str(caught.value)) == [sentence]
    (failed,) = (line for line in lines if line.startswith("FAIL "))
    assert failed.startswith(f"FAIL   {sentence}: ")
    assert detail in failed
    assert len(lines) in (13, 14)  # a heading, 11 findings or 12, the account
    skipped = [line for line in lines if line.startswith("- ")]
    assert all(
        f'skipped, because of "{sentence}"' in line or sentence in (METHOD,) for line in skipped
    )
    assert len(skipped) == {METHOD: 10, FORM: 9, ORDER: 1}.get(sentence, 0)


def test_check_expert_findings_each_have_a_broken_expert() -> None:
    report = check_expert(Calibrated(SIMULATOR), X, 5.0, deterministic=True, outside=X)
    assert {f.sentence for f in report.findings} == {sentence for _, sentence, _ in BROKEN.values()}


def test_check_expert_refuses_invalid_arguments() -> None:
    with pytest.raises(ValueError, match=r"X must .*shape \(0, 1\)"):
        check_expert(SIMULATOR, np.empty((0, 1)), 1.0)
    assert_refused(ValueError, "t must .*nan", check_expert, SIMULATOR, X, np.nan)
    with pytest.raises(ValueError, match=r"outside must have shape \(n, 1\), got \(1, 2\)"):
        check_expert(SIMULATOR, X, 1.0, outside=[[1.0, 2.0]])
    for threads in (-1, 2.5, True):
        with pytest.raises(ValueError, match="threads must be a whole number of at least 0, got"):
            check_expert(SIMULATOR, X, 1.0, threads=threads)  # type: ignore[arg-type]


# --- every expert of the package keeps to the protocol, alone and wrapped

NETWORK = ozone_network(stations=6, days=20)
POINTS, FAR = NETWORK.points[:4], np.array([[9e3, 9e3]])


def log() -> pd.DataFrame:
    days = np.repeat(np.arange(1.0, 21.0), 6)
    places = np.tile(NETWORK.points, (20, 1))
    return pd.DataFrame(
        {
            "x0": places[:, 0],
            "x1": places[:, 1],
            "t": days,
            "value": NETWORK.values.ravel(),
            "variance": 1.0,
        }
    )


def sensors(faults: Any = ()) -> SensorExpert:
    transport = StubTransport(NETWORK.values, NETWORK.labels, noise_variance=1.0, faults=faults)
    stations = stations_at(NETWORK.points, NETWORK.labels, noise_variance=1.0)
    return SensorExpert(
        stations, transport, tolerance=1.0, staleness=2.0, aging=Wiener(1.0), cost=1.0
    )


def levels(X: Array, t: float) -> Array:
    return np.asarray(X[:, 0] / 100 + t)


OURS: dict[str, Callable[[], Expert]] = {
    "simulator": lambda: SimulatorExpert(NETWORK),
    "callable": lambda: CallableExpert(levels, 1.0),
    "log": lambda: CachedLogExpert(log(), staleness=2.0, aging=Wiener(1.0), tolerance=1.0),
    "sensors": lambda: sensors(),
    "sensors that lose answers": lambda: sensors(Faults(loss=0.4)),
    "retrying": lambda: Retrying(sensors(), attempts=2, sleep=lambda _seconds: None),
    "budgeted": lambda: Budgeted(sensors(), total=10_000, cost=1e6, price=1.0),
    "calibrated": lambda: Calibrated(sensors()),
    "all of them": lambda: Budgeted(
        Retrying(Calibrated(sensors(Faults(bias=1.0))), attempts=2), total=10_000
    ),
}
MADE = {
    name: kind
    for name, kind in classes_with("query", "X", "t").items()
    if kind.__module__.startswith("tvbandits.experts.")
}
WRAPPERS = {name: kind for name, kind in MADE.items() if is_wrapper(kind)}
NEW = {
    name: lambda kind=kind: kind(sensors())
    for name, kind in WRAPPERS.items()
    if name.casefold() not in OURS
}
OURS |= NEW
"""A wrapper that is not in the list is put around sensors with its defaults."""


def test_experts_of_the_package_all_have_a_maker_in_ours() -> None:
    # A campaign's record of an expert is part of its journal, and tested there.
    assert {"SimulatorExpert", "SensorExpert", "Budgeted"} <= set(MADE)
    missing = set(MADE) - {type(make()).__name__ for make in OURS.values()}
    assert not missing, f"{sorted(missing)} need a maker in OURS of this file"


@pytest.mark.parametrize("name", OURS)
def test_experts_of_the_package_pass_check_expert(name: str) -> None:
    outside = None if name == "callable" else FAR  # a function has values everywhere
    report = check_expert(OURS[name](), POINTS, 5.0, deterministic=True, outside=outside)
    assert report.success
    assert len(report.findings) >= 10


# --- every wrapper of the package continues from its saved state

X_STATEFUL = np.array([[0.0], [0.5], [1.0]])


def wrapped(name: str, inside: Expert) -> Any:
    """An expert of the package around another one, with a limit where it needs one."""
    limits = {"per_step": 4, "total": 9, "cost": 40.0} if name == "Budgeted" else {}
    return WRAPPERS[name](inside, **limits)


class Tiring:
    """An expert whose answers depend on the number of points queried before."""

    def __init__(self) -> None:
        self.asked = 0

    def query(self, X: Array, t: float) -> Answers:
        self.asked += len(X)
        return Answers(X[:, 0] + t + 0.1 * self.asked, 0.25, 0.5 * len(X))

    def state(self) -> dict[str, Any]:
        return {"asked": self.asked}

    def restore(self, state: Any) -> None:
        self.asked = state["asked"]


def play(expert: Any, first: int, last: int) -> list[tuple[bytes, bytes, float]]:
    said = []
    for t in range(first, last):
        answers = expert.query(X_STATEFUL, float(t))
        said.append((answers.values.tobytes(), answers.variance.tobytes(), answers.cost))
        expert.observe(
            Dataset(X_STATEFUL, [t] * 3, X_STATEFUL[:, 0] + t, [0.1] * 3)  # type: ignore[arg-type]
        )
    return said


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_continue_the_same_from_a_restored_state(name: str) -> None:
    wanted = play(wrapped(name, Tiring()), 0, 8)
    first = wrapped(name, Tiring())
    assert isinstance(first, Stateful)
    got = play(first, 0, 4)
    kept = json.loads(json.dumps(state_of(first)))
    second = wrapped(name, Tiring())
    restore_state(second, kept)
    assert state_of(second) == state_of(first)
    assert got + play(second, 4, 8) == wanted
    # The state of a wrapper contains the state of its expert.
    assert json.loads(json.dumps(state_of(Retrying(second))))["expert"]["kind"] == name


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("wrong", [{}, {"expert": {"kind": "Other"}}, {"experts": [None]}])
def test_restore_state_refuses_the_state_of_another_expert_and_changes_nothing(
    name: str, wrong: dict[str, Any]
) -> None:
    expert = wrapped(name, Tiring())
    play(expert, 0, 3)
    before = state_of(expert)
    with pytest.raises(ValueError, match=r"not the state of|the state is of"):
        restore_state(expert, {"kind": name, **wrong})
    with pytest.raises(
        ValueError, match=f"the state is of Somebody, and cannot be restored in {name}"
    ):
        restore_state(expert, {"kind": "Somebody"})
    assert_refused(ValueError, "the state is of no expert", restore_state, expert, None)
    assert state_of(expert) == before


def test_state_of_an_expert_without_state_is_none() -> None:
    assert state_of(object()) is None
    restore_state(object(), None)
    with pytest.raises(ValueError, match="restored in object, which has no state"):
        restore_state(object(), {"kind": "Budgeted"})
