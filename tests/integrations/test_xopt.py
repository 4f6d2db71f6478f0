"""A bandit as a generator of Xopt, against the same bandit told and asked by hand."""

import runpy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

xopt = pytest.importorskip("xopt", reason="needs the extra tvbandits[xopt], and with it PyTorch")

from tvbandits import Integer, Space, policies  # noqa: E402
from tvbandits.integrations.xopt import TVGenerator  # noqa: E402


def quick(space: Any, kernel: Any, noise_variance: Any, **options: Any) -> Any:  # noqa: ARG001
    return policies.tv_gp_ucb(space, space.kernel(), 0.01, epsilon=0.05, **options)


class Clock:
    """Hours that pass, and a machine that is read at each."""

    def __init__(self) -> None:
        self.hour = 100.0

    def read(self, inputs: dict[str, float]) -> dict[str, float]:
        found = {"y": (inputs["x"] - 0.3) ** 2 + abs(inputs["k"] - 2.5) / 10, "time": self.hour}
        self.hour += 1.5
        return found


def made(direction: str, **options: Any) -> tuple[Any, Clock]:
    clock = Clock()
    vocs = xopt.VOCS(
        variables={"x": [-1.0, 1.0], "k": {1.0, 2.5, 4.0}}, objectives={"y": direction}
    )
    generator = TVGenerator(vocs=vocs, clock=lambda: clock.hour, policy=quick, **options)
    return xopt.Xopt(generator=generator, evaluator=xopt.Evaluator(function=clock.read)), clock


@pytest.mark.parametrize("direction", ["MINIMIZE", "MAXIMIZE"])
def test_it_plays_what_the_bandit_would(direction: str) -> None:
    X, _ = made(direction)
    for _ in range(6):
        X.step()
    space = Space(x=(-1.0, 1.0), k=Integer(0, 2))
    bandit = quick(space, None, None, minimise=direction == "MINIMIZE", seed=0)
    for i, row in enumerate(X.data.to_dict("records")):
        asked = space.decode(bandit.ask(1.5 * i, n=1)).iloc[0]
        assert row["x"] == pytest.approx(asked["x"], abs=1e-9)
        assert row["k"] == [1.0, 2.5, 4.0][int(asked["k"])]
        bandit.tell(bandit.pending, [row["y"]], 1.5 * i)


def test_it_goes_on_with_data_that_are_loaded() -> None:
    whole, _ = made("MINIMIZE")
    for _ in range(5):
        whole.step()
    again, clock = made("MINIMIZE")
    again.add_data(whole.data)
    clock.hour += 7.5
    (point,) = again.generator.generate(1)
    assert len(again.generator.bandit.state.rewards) == 5
    assert set(point) == {"x", "k"}


def test_several_points_at_once() -> None:
    X, _ = made("MAXIMIZE")
    X.step()
    points = X.generator.generate(3)
    assert len({(each["x"], each["k"]) for each in points}) == 3


def test_readings_without_a_time_and_values_that_there_are_not_are_refused() -> None:
    for row, says in (
        ({"k": [1.0]}, "each reading in a column 'time', got x, y, k, and none in row 0"),
        ({"k": [1.2], "time": [1.0]}, r"k must be one of \[1.0, 2.5, 4.0\], got 1.2 at position 0"),
    ):
        X, _ = made("MINIMIZE")
        X.generator.add_data(pd.DataFrame({"x": [0.0], "y": [1.0], **row}))
        with pytest.raises(ValueError, match=says):
            X.generator.generate(1)


def test_two_objectives_and_constraints_are_refused() -> None:
    for more in (
        {"objectives": {"y": "MINIMIZE", "z": "MINIMIZE"}},
        {"constraints": {"c": ["LESS_THAN", 0]}},
    ):
        parts: Any = {"variables": {"x": [0, 1]}, "objectives": {"y": "MINIMIZE"}} | more
        with pytest.raises(Exception, match="does not support"):
            TVGenerator(vocs=xopt.VOCS(**parts))


def test_the_example_follows_the_machine(tmp_path: Path) -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "xopt_run.py"))
    assert example["main"](tmp_path) < 0.072  # a fifth of what points at random lose
    assert (tmp_path / "xopt_run.png").stat().st_size > 0


def test_what_failed_or_diverged_is_no_reading_and_other_policies_get_a_kernel() -> None:
    vocs = xopt.VOCS(variables={"x": [0.0, 1.0]}, objectives={"y": "MINIMIZE"})
    policy = partial(policies.sw_gp_ucb, window=5)
    generator = TVGenerator(vocs=vocs, clock=lambda: 3.0, policy=policy)
    generator.add_data(pd.DataFrame({"x": [0.3], "xopt_error": [True]}))  # what failed has no time
    generator.generate(1)
    read = {"x": [0.1, 0.2, 0.4], "y": [np.inf, 1.0, np.nan], "time": [4.0, 5.0, np.nan]}
    generator.add_data(pd.DataFrame(read))
    generator.generate(1)
    assert generator.bandit.state.failed.t.tolist() == [0.0, 1.0, 2.0]
    assert generator.bandit.state.rewards.t.tolist() == [2.0]
