"""Problems as environments of Gymnasium, against the runs of a comparison."""

import sys
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="needs the extra tvbandits[gymnasium]")

from gymnasium.error import ResetNeeded  # noqa: E402
from gymnasium.spaces import Discrete  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

from tests.helpers.refusals import assert_refused  # noqa: E402
from tvbandits import Space  # noqa: E402
from tvbandits.comparison.compare import compare  # noqa: E402
from tvbandits.datasets import BumpAndWall, DriftingBump, MovingPeaks, SwitchingArms  # noqa: E402
from tvbandits.datasets.arms import WearingArms  # noqa: E402
from tvbandits.domains.candidates import get_candidates  # noqa: E402
from tvbandits.integrations.gymnasium import NAMES, ProblemEnv  # noqa: E402

SMALL = {"horizon": 12}


class Player:
    """Plays points at random, or one point only."""

    def __init__(self, domain: Any, seed: int, fixed: bool) -> None:
        rng = np.random.default_rng(seed)
        self.points = domain.sample(12, rng)
        self.points = np.repeat(self.points[:1], 12, axis=0) if fixed else self.points

    def ask(self, t: float) -> Any:
        return self.points[int(t) - 1][None]

    def tell(self, X: Any, y: Any, t: Any, outcomes: Any = None) -> None:
        del X, y, t, outcomes


@pytest.mark.parametrize("fixed", [False, True], ids=["uniform", "fixed"])
@pytest.mark.parametrize(
    "problem",
    [
        DriftingBump(candidates=31, horizon=12),
        SwitchingArms(arms=10, horizon=12),
        WearingArms(arms=5, horizon=12),
        MovingPeaks(dimension=2, every=5, horizon=12),
        BumpAndWall(horizon=12),
    ],
    ids=lambda problem: str(problem.name),
)
def test_problem_env_gives_the_values_and_regrets_of_a_comparison_bitwise(
    problem: Any, fixed: bool
) -> None:
    rows = compare(problem, {"player": lambda setting: Player(setting.domain, 1, fixed)}, seeds=[3])
    env = ProblemEnv(problem)
    _, info = env.reset(seed=3)
    plays = Player(env.problem.domain, 1, fixed).points  # its arms are drawn for the seed
    assert info["seed"] == 3
    infos, ends = [], []
    for x in plays:
        if isinstance(env.action_space, Discrete):
            candidates = get_candidates(env.problem.domain)
            assert candidates is not None
            action: Any = candidates.index(x[None])[0]
        else:
            action = x
        observation, _, _, truncated, info = env.step(action)
        assert info["point"].tolist() == x.tolist()
        assert np.all(observation["action"] == action)
        infos.append(info)
        ends.append(truncated)
    for column, key in (("reward", "value"), ("best", "best"), ("regret", "regret")):
        assert rows[column].tolist() == [each[key] for each in infos]
    if "violations" in rows:
        assert rows["violations"].tolist() == [each["violations"] for each in infos]
    assert ends == [False] * 11 + [True]
    assert_refused(ResetNeeded, "steps 1 to 12", env.step, action)


def test_problem_env_gives_the_noisy_rewards_of_a_comparison() -> None:
    problem = DriftingBump(candidates=31, horizon=12)
    told: list[float] = []

    class Listener(Player):
        def tell(self, X: Any, y: Any, t: Any, outcomes: Any = None) -> None:
            del X, t, outcomes
            told.extend(np.atleast_1d(y).tolist())

    compare(problem, {"listener": lambda setting: Listener(setting.domain, 1, True)}, seeds=[3])
    env = ProblemEnv(problem)
    env.reset(seed=3)
    (action,) = problem.domain.index(Player(problem.domain, 1, True).points[:1])
    steps = [env.step(action) for _ in range(12)]
    assert [step[1] for step in steps] == told
    assert [step[0]["reward"][0] for step in steps] == told
    assert [step[0]["time"][0] for step in steps] == [float(t) for t in range(2, 14)]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("drifting-bump", {"candidates": 31}),
        ("switching-arms", {"arms": 10}),
        ("banners", {}),
        ("moving-peaks", {"dimension": 2}),
        ("bump-and-wall", {}),
    ],
)
# Rewards and outcomes have no bounds, and boxes are in the units of their problems.
@pytest.mark.filterwarnings("ignore:.*(infinity|symmetric|precision)")
def test_problem_env_passes_the_checks_of_gymnasium(name: str, options: dict[str, Any]) -> None:
    env = gymnasium.make(f"tvbandits/{name}-v0", horizon=12, **options)
    check_env(env.unwrapped)


def test_gymnasium_registers_every_problem_that_reads_no_file() -> None:
    assert len(NAMES) > 15
    for name in NAMES:
        spec = gymnasium.spec(name)
        assert spec.kwargs == {"name": NAMES[name]}
    env = gymnasium.make("tvbandits.integrations.gymnasium:tvbandits/exoskeleton-v0", horizon=2)
    env.reset(seed=0)
    assert [env.step(0)[3] for _ in range(2)] == [False, True]


def test_problem_env_reset_repeats_a_run_only_with_the_same_seed() -> None:
    env = ProblemEnv(SwitchingArms(arms=10, horizon=12))
    values = []
    for seed in (5, None, None, 5, None):
        _, info = env.reset(seed=seed)
        values.append((info["seed"], env.step(4)[1]))
    assert values[0] == values[3]
    assert values[1] == values[4]
    assert len({seed for seed, _ in values}) == 3
    assert len({value for _, value in values}) == 3


@pytest.mark.parametrize("action", [31, -1, 2.0, [1], None, True])
def test_problem_env_step_refuses_an_invalid_action_and_changes_nothing(action: Any) -> None:
    env = ProblemEnv(DriftingBump(candidates=31, horizon=12))
    assert_refused(ResetNeeded, "reset drifting-bump", env.step, 0)
    env.reset(seed=0)
    assert_refused(ValueError, "the action must be in Discrete", env.step, action)
    other = ProblemEnv(DriftingBump(candidates=31, horizon=12))
    other.reset(seed=0)
    assert env.step(7)[1] == other.step(7)[1]


def test_problem_env_refuses_all_but_problems_without_context() -> None:
    assert_refused(TypeError, "must be a Problem, got 'drifting-bump'", ProblemEnv, "drifting-bump")

    class InWeather(DriftingBump):
        domain = Space(context={"outside": (0.0, 1.0)}, x=(0.0, 1.0))

    assert_refused(TypeError, "without a context", ProblemEnv, InWeather(candidates=31))


def test_gymnasium_module_imports_the_package_of_the_same_name() -> None:
    module = sys.modules[ProblemEnv.__module__]
    assert module.gymnasium is gymnasium is not module
    assert issubclass(ProblemEnv, gymnasium.Env)
