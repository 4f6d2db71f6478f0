"""The parts of recipes, and the policies by name."""

import inspect
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from tests.helpers.players import FINITE_RULES
from tests.helpers.refusals import assert_refused
from tvbandits import Bandit, Box, Candidates, Every, Options, Problem, Recipe, Space, policies
from tvbandits.acquisition.widths import (
    BBKBProgramWidth,
    BBKBWidth,
    BKBWidth,
    Fixed,
    Situation,
    Theory,
    ThompsonWidth,
)
from tvbandits.bandit.adapter import PolicyAdapter
from tvbandits.datasets import DriftingBump
from tvbandits.experts import CallableExpert, SimulatorExpert
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.forgetting import aging
from tvbandits.gp.kernels.space_time import Drift, OnSpace
from tvbandits.policies import POLICIES, Setting, theory
from tvbandits.queries.plans import KDPP, LogSchedule
from tvbandits.validation import Array

BUMP = DriftingBump(candidates=101, horizon=150)
PARTS: dict[str, Any] = {"domain": BUMP.domain, "kernel": RBF(3.5), "noise_variance": 0.01}
EXPERT = SimulatorExpert(BUMP)


def setting(**changes: Any) -> Setting:
    return replace(
        Setting(
            **PARTS,
            horizon=150,
            variation=0.1,
            scale=0.5,
            forgetting_rate=0.04,
            information_gain=20.0,
            beta=Fixed(1.5),
            expert=lambda: EXPERT,
            seed=3,
        ),
        **changes,
    )


def recipe(**parts: Any) -> Recipe:
    return Recipe(**PARTS, beta=2.0, **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(("posterior", "step"), [("exact", 0.1), ("nystrom", 1.0), ("exact", 1e4)])
def test_tv_gp_ucb_fits_its_rate_once_to_its_initial_points(posterior: Any, step: float) -> None:
    bandit = policies.tv_gp_ucb(
        **PARTS, initial_points=30, seed=1, options=Options(posterior=posterior)
    )
    epsilons = []
    for t in range(1, 101):
        X = bandit.ask(step * t)
        bandit.tell(X, BUMP.value(X, t) + 0.1 * keyed_normal(0, 1, X, t))
        if t == 20:
            bandit = Bandit.from_state(bandit.recipe, bandit.state)
        epsilons.append(1.0 - (1.0 - bandit.state.model.kernel.k2.epsilon) ** step)
    assert epsilons[1:29] == pytest.approx([0.1] * 28)  # per step, whatever its length
    assert len(set(epsilons[29:])) == 1
    assert bandit.state.model.kernel.k1.kernel.length_scale == 3.5
    # The evidence of the initial points at other rates, in the learned unit.
    first, unit = bandit.state.rewards.take(np.arange(30)), bandit.state.model.scaling

    def evidence(epsilon: float) -> float:
        kernel = OnSpace(RBF(3.5)) * Drift(epsilon) + ConstantKernel(1.0)
        Z, y = np.column_stack([first.X, first.t / step]), (first.y - unit.anchor) / unit.scale
        return float(
            multivariate_normal(None, kernel(Z) + 0.01 / unit.scale**2 * np.eye(30)).logpdf(y)
        )

    grid = np.geomspace(1e-5, 0.9, 100)
    assert evidence(epsilons[-1]) >= max(map(evidence, grid)) - 1e-6


def run(bandit: Bandit | PolicyAdapter, problem: Problem, steps: int, noise_seed: int = 0) -> Array:
    """Return the regret of every step."""
    noise = np.random.default_rng(noise_seed).standard_normal(steps + 1) * 0.1
    regret: list[float] = []
    while len(regret) < steps:
        X = bandit.ask(float(len(regret) + 1))[: steps - len(regret)]
        times = np.arange(len(regret) + 1.0, len(regret) + len(X) + 1.0)
        rewards = [problem.value(x[None, :], t)[0] for x, t in zip(X, times, strict=True)]
        bandit.tell(X, np.array(rewards) + noise[times.astype(int)], times)
        regret += [problem.best(t) - r for t, r in zip(times, rewards, strict=True)]
    return np.array(regret)


def test_policies_without_drift_play_as_gp_ucb() -> None:
    options: dict[str, Any] = {"seed": 4, "beta": 1.5}
    still = run(policies.gp_ucb(**PARTS, **options), BUMP, 60)
    for other in (
        policies.tv_gp_ucb(**PARTS, forgetting_rate=0.0, **options),
        policies.sw_gp_ucb(**PARTS, window=60, **options),
        policies.r_gp_ucb(**PARTS, reset_every=61, **options),
    ):
        np.testing.assert_array_equal(run(other, BUMP, 60), still)


# --- by name --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_policies_by_name_play_reproducibly(name: str) -> None:
    first, second = (POLICIES[name].make(setting()) for _ in range(2))
    regret = run(first, BUMP, 8)
    assert regret.shape == (8,)
    assert (regret >= 0).all()
    np.testing.assert_array_equal(regret, run(second, BUMP, 8))
    assert first.info.readings == 8
    assert not np.array_equal(regret, run(POLICIES[name].make(setting(seed=4)), BUMP, 8))


def recipe_of(name: str, changes: dict[str, Any] | None = None, **parameters: Any) -> Recipe:
    bandit = POLICIES[name].make(setting(**(changes or {})), **parameters)
    assert bandit.recipe.beta == Fixed(1.5)
    built: Recipe = bandit.recipe
    return built


def test_policies_take_default_parameters_from_the_setting() -> None:
    budgets = (150, 15.0, 20.0)  # T, B_T = 150 * 0.1, gamma_T
    assert recipe_of("r-gp-ucb").aging == aging.ResetEvery(theory.window_length(*budgets))
    assert recipe_of("sw-gp-ucb").aging == aging.Window(last=theory.window_length(*budgets))
    assert recipe_of("w-gp-ucb").aging == aging.Exponential(theory.discount(*budgets))
    assert recipe_of("tv-gp-ucb").kernel.k2.epsilon == 0.04
    # Under the drift model, E (f_{t+1} - f_t)^2 = 2 (1 - sqrt(1 - epsilon)) scale^2.
    for scale in (0.5, 1e-9):  # in any unit
        ui = recipe_of("ui-gp-ucb", {"scale": scale}).aging
        assert isinstance(ui, aging.Wiener)
        assert ui.rate == pytest.approx(2 * (1 - math.sqrt(0.96)) * scale**2, abs=0.0)
    assert policies.tv_bbkb(**PARTS).recipe.learn == Every(spread=math.inf, in_steps=True)
    assert recipe_of("sparq-gp-ucb").query_config.plan == KDPP(LogSchedule(6.0))
    assert recipe_of("sparq-gp-ucb").query_config.expert is EXPERT


def test_policies_take_the_widths_of_their_papers() -> None:
    for name, width, expected in (
        ("bkb", "theory", BKBWidth(delta=1 / 150)),
        ("bbkb", "bbkb-program", BBKBProgramWidth(delta=1 / 150)),
        ("gp-ucb", "bbkb-program", BBKBProgramWidth()),
        ("gp-ucb", "Theory", Theory()),
    ):
        player: Any = POLICIES[name].make(setting(), beta=width)
        assert player.recipe.beta == expected
    assert policies.thompson(**PARTS).recipe.beta == ThompsonWidth()
    assert policies.thompson(**PARTS, beta="Theory").recipe.beta == ThompsonWidth()
    as_a_tenth = Situation(log_det_ratio=0.0, count=9, candidates=None, bbkb_information=40.0)
    assert ThompsonWidth(0.1)(as_a_tenth) == BBKBWidth(0.1)(as_a_tenth) / 10


def test_theory_oversampling_takes_the_delta_of_the_width() -> None:
    for make, C in ((policies.bkb, 1.0), (policies.bbkb, 2.0)):
        for beta, delta in ((BBKBWidth(0.01), 0.01), ("theory", 0.05), (2.0, 0.05)):
            posterior = make(**PARTS, oversampling="theory", beta=beta).recipe.posterior
            assert posterior.oversampling(30) == pytest.approx(72 * C * math.log(4 * 30 / delta))
        assert make(**PARTS, oversampling=3.0).recipe.posterior.oversampling == 3.0
    local = policies.bbkb(**PARTS, oversampling="theory", ratio_bound=1.5).recipe.posterior
    assert local.oversampling.factor == 108.0
    assert_refused(ValueError, "more", policies.bkb, **PARTS, oversampling="more")


def test_policies_prefer_given_parameters_to_the_setting() -> None:
    assert recipe_of("r-gp-ucb", reset_every=7).aging == aging.ResetEvery(7)
    assert recipe_of("sw-gp-ucb", window=7).aging == aging.Window(last=7)
    assert recipe_of("w-gp-ucb", discount=0.7).aging == aging.Exponential(0.7)
    assert recipe_of("tv-gp-ucb", forgetting_rate=0.7).kernel.k2.epsilon == 0.7
    assert recipe_of("ui-gp-ucb", forgetting_rate=0.7).aging == aging.Wiener(0.7)
    assert recipe_of("ui-gp-ucb", growth="linear").aging == aging.Linear(1.0)
    sparq = recipe_of("sparq-gp-ucb", queries_per_step=2.0, forgetting_rate=0.7)
    assert sparq.query_config.plan == KDPP(LogSchedule(2.0))
    assert sparq.aging.maps[0] == aging.Linear(0.7)


def test_policies_accept_a_setting_without_variation() -> None:
    still = {"variation": 0.0, "forgetting_rate": 0.0}
    assert recipe_of("r-gp-ucb", still).aging == aging.ResetEvery(150)
    assert recipe_of("sw-gp-ucb", still).aging == aging.Window(last=150)
    assert recipe_of("tv-gp-ucb", still).kernel.k2.epsilon == 0.0
    ui = recipe_of("ui-gp-ucb", still).aging
    assert isinstance(ui, aging.Wiener)
    assert 0 < ui.rate < 1e-9


def test_sparq_gp_ucb_with_every_queries_in_bursts() -> None:
    def query_counts(every: int) -> list[int]:
        domain = Candidates(np.arange(30.0)[:, None])
        expert = CallableExpert(lambda X, _: -np.abs(X[:, 0] - 6.0), 0.01)
        bandit = policies.sparq_gp_ucb(
            domain,
            kernel=RBF(2.0),
            noise_variance=0.01,
            expert=expert,
            queries_per_step=KDPP(LogSchedule(2.0, every=every)),
        )
        numbers = []
        for t in range(1, 13):
            X = domain.X[t : t + 1]
            numbers.append(bandit.tell(X, -np.abs(X[:, 0] - 6.0), t).queries.asked)
        return numbers

    each, bursts = query_counts(1), query_counts(4)
    assert [number if t % 4 == 0 else 0 for t, number in enumerate(each, 1)] == bursts
    assert sum(bursts) > 0
    for wrong in (0, 1.5):
        assert_refused(ValueError, "every", query_counts, wrong)
    for many in (1e51, 2**63):
        with pytest.raises(ValueError, match=r"queries_per_step must lie in \[0, 1e\+?0?9\], got"):
            policies.sparq_gp_ucb(
                Candidates([[0.0]]),
                kernel=RBF(2.0),
                noise_variance=0.01,
                expert=None,
                queries_per_step=many,
            )


@pytest.mark.parametrize("name", POLICIES)
def test_recipes_accept_only_the_domain_by_position(name: str) -> None:
    """A kernel is never mistaken for a noise variance."""
    line = Candidates(np.linspace(0, 1, 5)[:, None])
    with pytest.raises(TypeError, match="position"):
        POLICIES[name].recipe(line, RBF(1.0))


def fourth_play(bandit: Any) -> Array:
    for t in (1.0, 2.0, 3.0):
        X = bandit.ask(t)
        bandit.tell(X, np.sin(X[:, 0]), t)
    return np.asarray(bandit.ask(4.0))


DOMAINS = {
    "line": BUMP.domain,
    "box": Box([[0.0, 1.0], [0.0, 9.0]]),
    "space": Space(dose=(0.0, 1.0), kind=["a", "b"]),
}


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("name", POLICIES)
def test_recipes_need_no_kernel_and_no_noise_variance(name: str, kind: str) -> None:
    domain, policy = DOMAINS[kind], POLICIES[name]
    if kind != "line" and name in (*FINITE_RULES, "thompson", "w-dbo", "evolution"):
        pytest.skip("the policy needs another domain")
    values = {"reset_every": 9, "window": 9, "forgetting_rate": 0.1, "expert": None}
    parameters = inspect.signature(policy.recipe).parameters
    options = {each: value for each, value in values.items() if each in parameters}
    play = fourth_play(policy.recipe(domain, **options))
    assert play.shape[1] == domain.dimension
    if "kernel" in parameters and not policy.learns_kernel:
        options |= {"kernel": policies.default_kernel(domain), "noise_variance": None}
        np.testing.assert_array_equal(play, fourth_play(policy.recipe(domain, **options)))
