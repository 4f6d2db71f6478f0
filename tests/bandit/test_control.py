"""A control in every batch: the points played, and effects relative to the control."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from tests.helpers.refusals import assert_refused
from tests.oracles.levels import relative_effects
from tvbandits import Arms, Bandit, Box, Candidates, Limit, Nystrom, Options, compare, policies
from tvbandits.datasets import BannersByDay
from tvbandits.errors import PlayError
from tvbandits.gp.ensemble.arms import EffectFilters, GridSpec, contrast_matrix
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime

SITES = Candidates(np.linspace(0.0, 3.0, 7)[:, None])
ARMS = Arms(["old", "new", "bold", "odd"])
KERNEL = RBF(1.0)

POLICIES = {
    "gp_ucb": lambda: policies.gp_ucb(
        SITES, kernel=KERNEL, noise_variance=0.04, options=Options(mean=0.0)
    ),
    "sw_gp_ucb": lambda: policies.sw_gp_ucb(
        SITES, kernel=KERNEL, noise_variance=0.04, window=30, options=Options(mean=0.0)
    ),
    "w_gp_ucb": lambda: policies.w_gp_ucb(SITES, kernel=KERNEL, noise_variance=0.04, discount=0.9),
    "tv_gp_ucb": lambda: policies.tv_gp_ucb(
        SITES, kernel=KERNEL, noise_variance=0.04, forgetting_rate=0.03, options=Options(mean=0.0)
    ),
    "adaptive_gp_ucb": lambda: policies.adaptive_gp_ucb(SITES, noise_variance=0.04),
    "arms": lambda: policies.adaptive_gp_ucb(ARMS),
    "box": lambda: policies.gp_ucb(Box([(0, 3)]), kernel=KERNEL, noise_variance=0.04),
}


def bandit_with_control(name: str) -> Bandit:
    bandit = POLICIES[name]()
    return bandit.with_options(control=bandit.recipe.domain.sample(1, np.random.default_rng(0))[0])


def play(bandit: Bandit, hours: int, levels: float = 0.0, n: int | None = 3) -> list[list[float]]:
    rng, rows = np.random.default_rng(1), []
    for hour in range(1, hours + 1):
        X = bandit.ask(hour, n)
        level = levels * np.sin(hour)
        bandit.tell(X, X[:, -1] + 0.2 * rng.standard_normal(len(X)) + level, hour)
        rows.append(X.ravel().tolist())
    return rows


def readings(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    t = np.sort(rng.integers(1, 8, count)).astype(float)
    y = rng.standard_normal(count) + 50.0 * np.cos(t)
    return rng.integers(0, len(SITES), count), t, y, rng.uniform(0.02, 0.5, count)


def test_contrasts_are_orthogonal_to_levels_with_unit_noise() -> None:
    variance = np.array([0.1, 2.0, 0.5, 1.0])
    C = contrast_matrix(variance)
    assert C.shape == (3, 4)
    assert np.abs(C @ np.ones(4)).max() < 1e-14
    assert C @ np.diag(variance) @ C.T == pytest.approx(np.eye(3))


@pytest.mark.parametrize("count", [2, 12, 90])
@pytest.mark.parametrize("drifts", [False, True])
def test_relative_predictions_match_dense_algebra(count: int, drifts: bool) -> None:
    kernel = OnSpace(KERNEL) * Drift(0.1, "fixed") if drifts else KERNEL
    rows, t, y, variance = readings(count)
    bandit = policies.gp_ucb(
        SITES, kernel=kernel, noise_variance=0.04, options=Options(mean=0.0)
    ).with_options(control=SITES.X[2])
    bandit.tell(SITES.X[rows], y, t, variance)
    mean, covariance = relative_effects(kernel, SITES.X, rows, t, y, variance, 2, now=9.0)
    effect, deviation = bandit.predict(SITES.X, 9.0, relative=True)
    tolerance = 1e-4 if drifts or count < 3 else 1e-7  # the prior of the levels is wide, but proper
    assert effect == pytest.approx(mean, abs=tolerance)
    assert deviation**2 == pytest.approx(np.diagonal(covariance), abs=tolerance)
    assert effect[2] == pytest.approx(0.0, abs=1e-9)


def test_effect_filters_match_dense_algebra() -> None:
    rows, t, y, variance = readings(20)
    size, memory, length = 1.7, 30.0, 0.5
    grid = GridSpec(noise=size * 4.0**6, largest_power=-6, step=memory / 10.0)  # one variance
    filters = EffectFilters.of(SITES.X, 2, (length,), grid)
    for at in np.unique(t):
        now = t == at
        filters = filters.update(at, rows[now], y[now], variance[now])
    filters = filters.predict(9.0)
    kernel = size * OnSpace(RBF(length * 3.0)) * OnTime(Matern(memory, nu=0.5))
    mean, covariance = relative_effects(kernel, SITES.X, rows, t, y, variance, 2, now=9.0)
    assert filters.scale[0] == memory
    assert filters.means[0] == pytest.approx(mean, abs=1e-9)
    assert filters.covariances[0] == pytest.approx(covariance, abs=1e-9)


@pytest.mark.parametrize("name", POLICIES)
def test_bandit_with_control_ignores_levels_of_each_time(name: str) -> None:
    one, other = bandit_with_control(name), bandit_with_control(name)
    for first, second in zip(play(one, 12), play(other, 12, levels=100.0), strict=True):
        assert first == pytest.approx(second, abs=1e-4)  # a box is searched numerically
    X = one.recipe.domain.sample(5, np.random.default_rng(3))
    first, second = (each.predict(X, relative=True) for each in (one, other))
    np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-5)
    control = other.recipe.options.control
    assert other.predict([control], relative=True) == (0.0, 0.0)  # exactly


def test_ask_returns_the_control_first_and_once() -> None:
    bandit = policies.adaptive_gp_ucb(ARMS, noise_variance=0.01).with_options(control="new")
    names = ARMS.decode(bandit.ask(1, n=3))["arm"].tolist()
    assert names[0] == "new"
    assert len(set(names)) == 3
    assert "new" not in ARMS.decode(bandit.ask(1, n=1))["arm"].tolist()
    assert len(bandit.ask(2)) == 2
    assert ARMS.decode(bandit.ask(3, n=40))["arm"].tolist()[:10] == ["new"] * 10
    assert_refused(ValueError, "at least 2 points, got n=1 at t = 4", bandit.ask, 4, n=1)
    assert "new" not in ARMS.decode(bandit.ask(4, n=2, available=[0, 2]))["arm"].tolist()


def test_predict_adds_the_uncertainty_of_the_level() -> None:
    bandit = policies.gp_ucb(
        SITES, kernel=RBF(2.0), noise_variance=0.01, options=Options(control=SITES.X[0])
    )
    both = SITES.X[[0, 3]]
    (_, relative), (mean, deviation) = bandit.predict(both, relative=True), bandit.predict(both)
    assert mean.tolist() == [0.0, 0.0]
    assert deviation.tolist() == np.hypot(relative, 1.0).tolist()  # the prior deviation
    bandit.tell(both[1:], [20.0], 1)  # the level at this time is unknown
    mean, deviation = bandit.predict(both)
    assert mean[0] == 20.0
    assert deviation.min() > 0.0
    bandit.tell(both[:1], [19.0], 2)
    mean, deviation = bandit.predict(both)
    assert mean[0] == 19.0
    assert deviation.min() > 0.0
    bandit.tell(both[:1], [21.0], 3)
    mean, deviation = bandit.predict(both[:1])
    assert (mean[0], deviation[0]) == (20.0, 1.0)


def test_history_and_predict_are_relative_to_the_control() -> None:
    bandit = policies.gp_ucb(SITES, kernel=KERNEL, noise_variance=0.01, minimize=True).with_options(
        control=[0.0]
    )
    bandit.tell(SITES.X[[0, 3]], [10.0, 8.0], 1)
    bandit.tell(SITES.X[[0, 3]], [20.0, 18.0], 2)
    bandit.tell(SITES.X[[3]], [5.0], 3)
    assert bandit.history["relative"].fillna(-1.0).tolist() == [0.0, -2.0, 0.0, -2.0, -1.0]
    relative, _ = bandit.predict(SITES.X[[0, 3]], relative=True)
    mean, deviation = bandit.predict(SITES.X[[0, 3]])
    assert relative == pytest.approx([0.0, -2.0], abs=0.1)
    assert mean == pytest.approx(relative + 15.0)
    assert deviation[0] == pytest.approx(5.0)
    bandit = policies.adaptive_gp_ucb(SITES).with_options(control=[0.0])
    bandit.tell(SITES.X[[0, 0]], [10.0, 20.0], [1, 2])
    assert bandit.predict(SITES.X[[0, 3]], relative=True)[1].tolist()[0] == 0.0  # without a warning


def test_control_works_with_limits_and_must_stay_among_candidates() -> None:
    bandit = bandit_with_control("gp_ucb").with_options(
        limits=[Limit("load", at_most=30.0)], safe=SITES.X[:5]
    )
    X = bandit.ask(1, n=3)
    bandit.tell(X, X[:, 0], 1, outcomes={"load": X[:, 0]})
    control = np.array(bandit.recipe.options.control)
    assert (X[0] == control).all()
    assert (bandit.with_candidates([[5.0], control]).ask(2)[0] == control).all()
    with pytest.raises(PlayError, match="must be a candidate that is not retired") as caught:
        bandit.with_candidates([[5.0], [6.0]])
    assert caught.value.message(lambda x: f"site {x[0]:g}", str).endswith(
        f"got site {control[0]:g}"
    )


MANY = Candidates(np.arange(300.0)[:, None])
WITH_CONTEXT = Candidates([[0.0, 1.0], [1.0, 1.0]], context=[1])
WITH_MEASURED_CONTEXT = Candidates([[0.0], [1.0]], context={"load": (0, 1)})


@pytest.mark.parametrize(
    ("bandit", "control", "match"),
    [
        (policies.gp_ucb(SITES, kernel=KERNEL, noise_variance=0.04), [0.3], "control must"),
        (
            policies.gp_ucb(
                SITES, kernel=KERNEL, noise_variance=0.04, options=Options(posterior=Nystrom())
            ),
            [0.0],
            "needs posterior=Exact",
        ),
        (policies.adaptive_gp_ucb(Box([(0, 1)])), [0.0], "neither fits a kernel nor resets"),
        (policies.adaptive_gp_ucb(MANY), [0.0], "at most 200 candidates"),
        (
            policies.gp_ucb(WITH_CONTEXT, kernel=KERNEL, noise_variance=0.04),
            [0.0, 1.0],
            "without context",
        ),
        (policies.adaptive_gp_ucb(WITH_MEASURED_CONTEXT), [0.0], "without context"),
        (policies.adaptive_gp_ucb(ARMS), "red", "red"),
    ],
)
def test_with_options_refuses_an_invalid_control(
    bandit: Bandit, control: object, match: str
) -> None:
    assert_refused(ValueError, match, bandit.with_options, control=control)


def test_predict_relative_needs_a_control() -> None:
    bandit = policies.gp_ucb(SITES, kernel=KERNEL, noise_variance=0.04)
    before = bandit.state
    with pytest.raises(ValueError, match="control"):
        bandit.predict(SITES.X, relative=True)
    assert bandit.state == before


def test_compare_plays_the_control_of_a_problem() -> None:
    problem_with_control, adaptive = BannersByDay(horizon=96), ["adaptive-gp-ucb"]
    assert_refused(
        ValueError, "give batch=2 or more", compare, problem_with_control, adaptive, seeds=1
    )
    regret = [
        compare(problem, adaptive, seeds=2, batch=16)["regret"].mean()
        for problem in (problem_with_control, BannersByDay(horizon=96, with_control=False))
    ]
    assert regret[0] != regret[1]


def test_ask_with_control_keeps_near_and_continues_a_tour_from_the_control() -> None:
    bandit = bandit_with_control("adaptive_gp_ucb")
    control = np.array(bandit.recipe.options.control)
    far_site = SITES.X[[6 if control[0] < 1.5 else 0]]
    bandit.tell([control, far_site[0]], [0.0, 1.0], 1)
    assert (abs(bandit.ask(2, n=2, near=1.0) - far_site) <= 1.0).all()
    assert (bandit.ask(3, n=3, near=9.0)[0] == control).all()
    X = bandit.with_options(move_cost=0.1).ask(4, n=5)
    assert (X[0] == control).all()
    distance = abs(X[1:] - control).ravel()
    assert distance[0] == distance.min()


def test_predict_relative_refuses_an_outcome_or_another_type() -> None:
    bandit = bandit_with_control("gp_ucb").with_options(limits=[Limit("load", at_most=30.0)])
    with pytest.raises(ValueError, match="outcome='load'"):
        bandit.predict(SITES.X, relative=True, outcome="load")
    with pytest.raises(ValueError, match=r"relative must .*'yes'"):
        bandit.predict(SITES.X, relative="yes")  # type: ignore[arg-type]
