"""Runs of the policies, step by step against a plain restatement."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from tests.oracles import plain
from tests.oracles.plain import Plain
from tvbandits import Answers, Bandit, Candidates, Options, policies
from tvbandits.datasets import DriftingBump
from tvbandits.queries import KDPP, LogSchedule, Pool, QueryPlan
from tvbandits.validation import Array, Index

STEPS = 100
Mean = float | Literal["online"]


@dataclass(frozen=True)
class Case:
    """A drifting reward on candidates, and a prior for it."""

    domain: Candidates
    kernel: Any
    noise_variance: float
    fixed_mean: float
    value: Callable[[Array, float], Array]

    def noise(self, seed: int) -> Array:
        """Return the noise of every step and candidate."""
        draws = np.random.default_rng([seed, 99]).standard_normal((STEPS + 1, len(self.domain)))
        return math.sqrt(self.noise_variance) * draws


def valley(X: Array, t: float) -> Array:
    centre = 0.5 + 0.35 * np.array([math.cos(0.07 * t), math.sin(0.05 * t)])
    return np.asarray(12 - 20 * ((X - centre) ** 2).sum(axis=1) + np.sin(9 * X[:, 0] + 0.1 * t))


BUMP = DriftingBump(candidates=201)
SCATTERED = Candidates(np.random.default_rng(3).random((90, 2)))
CASES = {
    "bump": Case(BUMP.domain, RBF(3.5), 0.01, 1.5, BUMP.value),  # type: ignore[arg-type]
    "square": Case(SCATTERED, 4.0 * Matern([0.3, 0.5], nu=2.5), 0.04, 8.0, valley),
}


def assert_figures_agree(bandit: Bandit, figures: plain.Figures, t: int) -> None:
    info = bandit.info
    values = {"beta": info.beta, **vars(info.posterior), **vars(info.model)}
    for name in (column.name for column in fields(figures)):
        value, expected = values[name], getattr(figures, name)
        assert value == pytest.approx(expected, rel=1e-7, abs=1e-7), f"{name} at step {t}"


# --- without an expert ----------------------------------------------------------------------------

Recipe = Callable[..., Bandit]
POLICIES: dict[str, tuple[Recipe, dict[str, Any], plain.Scheme, float]] = {
    "gp": (policies.gp_ucb, {}, plain.never, 0.0),
    "r": (policies.r_gp_ucb, {"reset_every": 17}, plain.resets(17), 0.0),
    "sw": (policies.sw_gp_ucb, {"window": 23}, plain.window(23), 0.0),
    "sw-long": (policies.sw_gp_ucb, {"window": 104}, plain.window(104), 0.0),
    "w": (policies.w_gp_ucb, {"discount": 0.9}, plain.discounts(0.9), 0.0),
    "tv": (policies.tv_gp_ucb, {"forgetting_rate": 0.03}, plain.never, 0.03),
    "ui-wiener": (policies.ui_gp_ucb, {"forgetting_rate": 0.05}, plain.wiener(0.05), 0.0),
    "ui-linear": (
        policies.ui_gp_ucb,
        {"forgetting_rate": 0.3, "growth": "linear"},
        plain.linear(0.3),
        0.0,
    ),
}


def assert_same_choice(x: Array, other: Plain, row: int, t: int) -> int:
    """Return the row of the played point, after a check that it is the expected one."""
    choice = int(np.flatnonzero((other.points == x[0]).all(axis=1))[0])
    assert choice == row, f"{x[0]}, not {other.points[row]} at step {t}"
    return choice


@dataclass
class Run:
    """A bandit and the plain policy, on the same rewards and random numbers."""

    bandit: Bandit
    other: Plain
    case: Case
    seed: int

    def play(self, steps: int) -> list[int]:
        noise, rows = self.case.noise(self.seed), list[int]()
        for t in range(1, steps + 1):
            x = self.bandit.ask()
            expected, figures = self.other.ask()
            assert_figures_agree(self.bandit, figures, t)
            assert self.bandit.info.posterior.jitter == 0.0
            row = assert_same_choice(x, self.other, expected, t)
            y = float(self.case.value(x, t)[0] + noise[t, row])
            self.bandit.tell(x, [y])
            self.other.tell(x[0], y)
            rows.append(row)
        return rows


def side_by_side(case: Case, policy: str, mean: Mean, width: float | str, *, seed: int) -> Run:
    recipe, parameters, scheme, epsilon = POLICIES[policy]
    bandit = recipe(
        case.domain,
        kernel=case.kernel,
        noise_variance=case.noise_variance,
        beta=width,
        options=Options(mean=mean),
        seed=seed,
        **parameters,
    )
    other = Plain(
        case.domain.X,
        case.kernel,
        case.noise_variance,
        scheme,
        np.random.default_rng(seed),
        mean,
        plain.theorem if width == "theory" else plain.two,
        epsilon,
    )
    return Run(bandit, other, case, seed)


@pytest.mark.parametrize(("case", "mean"), [("bump", "online"), ("square", "fixed")])
@pytest.mark.parametrize("policy", POLICIES)
def test_policies_match_the_plain_restatement_step_by_step(
    policy: str, case: str, mean: str
) -> None:
    problem = CASES[case]
    # A constant width is smaller, so that its choices depend more on the means.
    width = "theory" if case == "bump" else 2.0
    start: Mean = "online" if mean == "online" else problem.fixed_mean
    assert len(set(side_by_side(problem, policy, start, width, seed=5).play(STEPS))) > 10


# --- with an expert -------------------------------------------------------------------------------


@dataclass
class RecordingPlan(QueryPlan):
    """A query plan that records its pools, its choices, and the state of the generator."""

    plan: KDPP
    pools: list[Array] = field(default_factory=list)
    choices: list[Index] = field(default_factory=list)
    random: dict[str, Any] = field(default_factory=dict)

    looks_at_posterior: ClassVar[bool] = False

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        choice = self.plan.choose(pool, rng)
        self.pools.append(pool.points.copy())
        self.choices.append(choice)
        self.random = dict(rng.bit_generator.state)
        return choice


@dataclass(frozen=True)
class DeterministicExpert:
    """An expert with deterministic errors, and variances other than those of rewards."""

    case: Case

    def query(self, X: Array, t: float) -> Answers:
        off = 0.1 * np.sin(1e4 * X.sum(axis=1) + 7.0 * t)
        return Answers(self.case.value(X, t) + off, 0.005 + 0.001 * np.cos(X[:, 0]) ** 2, len(X))


@pytest.mark.parametrize(
    ("factor", "case", "mean"),
    [(6.0, "bump", "online"), (6.0, "square", "fixed"), (1.5, "square", "online")],
)
def test_sparq_gp_ucb_matches_algorithm_1_step_by_step(factor: float, case: str, mean: str) -> None:
    problem, seed = CASES[case], 8
    width: float | str = "theory" if factor == 6.0 else 2.0
    start: Mean = "online" if mean == "online" else problem.fixed_mean
    recording, expert = RecordingPlan(KDPP(LogSchedule(factor))), DeterministicExpert(problem)
    bandit = policies.sparq_gp_ucb(
        problem.domain,
        kernel=problem.kernel,
        noise_variance=problem.noise_variance,
        expert=expert,
        queries_per_step=recording,
        beta=width,
        seed=seed,
        options=Options(mean=start),
    )
    other = Plain(
        problem.domain.X,
        problem.kernel,
        problem.noise_variance,
        plain.sparq(problem.noise_variance),
        np.random.default_rng(seed),
        start,
        plain.theorem if width == "theory" else plain.two,
    )
    noise = problem.noise(seed)
    full_queries = partial_queries = total_queries = 0
    for t in range(1, STEPS + 1):
        x = bandit.ask()  # line 8
        expected, figures = other.ask()
        assert_figures_agree(bandit, figures, t)
        row = assert_same_choice(x, other, expected, t)
        y = float(problem.value(x, t)[0] + noise[t, row])  # line 3
        other.tell(x[0], y)
        info = bandit.tell(x, [y])

        # Line 5: ceil(c log t) of the distinct points played so far, or all of them.
        rows = recording.choices[-1]
        np.testing.assert_array_equal(recording.pools[-1], other.visited)
        count = math.ceil(factor * math.log(t))
        assert len(rows) == len(set(rows.tolist())) == min(count, len(other.visited))
        full_queries += count >= len(other.visited)
        partial_queries += count < len(other.visited)
        total_queries += len(rows)
        assert info.queries.asked == info.queries.answered == len(rows)
        assert info.queries.refused == 0
        assert (info.queries.total_asked, info.queries.total_cost) == (total_queries, total_queries)

        # Line 6: answers about this step, and none of any other.
        points = other.visited[rows]
        answers = expert.query(points, t)
        other.answers(points, answers.values, answers.variance)
        np.testing.assert_array_equal(bandit.state.answers.X, points)
        np.testing.assert_array_equal(bandit.state.answers.y, answers.values)
        np.testing.assert_array_equal(bandit.state.answers.t, np.full(len(rows), float(t)))
        other.rng.bit_generator.state = recording.random
    assert full_queries > (10 if factor == 6.0 else 0)
    assert partial_queries > 10
