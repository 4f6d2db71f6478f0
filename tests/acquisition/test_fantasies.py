"""Sparse fantasies against plain ones; `PersistentBound`; the widths of upper bounds."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct, Kernel, Matern

from tests.helpers.players import SITES, tides as value
from tests.helpers.recipes import build
from tests.helpers.refusals import assert_refused
from tests.helpers.views import condition
from tests.oracles.dense import Dense
from tests.oracles.sparse import Sparse
from tvbandits import (
    Bandit,
    Candidates,
    Exact,
    Integer,
    Nystrom,
    Options,
    Recipe,
    Space,
    StateSpace,
    policies,
)
from tvbandits.acquisition.batches import PlainFantasy, SparseFantasy, UpperBound
from tvbandits.acquisition.rules import Acquisition, Decision, PersistentBound
from tvbandits.acquisition.widths import (
    BBKBProgramWidth,
    BKBWidth,
    Fixed,
    Logarithmic,
    PlaysAtATime,
    Situation,
    Srinivas,
    Theory,
    as_confidence,
)
from tvbandits.gp.cholesky import condition_by_cholesky
from tvbandits.gp.ensemble.mixture import CONFIG, FilterEnsemble
from tvbandits.gp.ensemble.models import ModelSpec, SpatialSpec, function_models, network_models
from tvbandits.gp.ensemble.posterior import ModelEnsemble
from tvbandits.gp.kernel_matrix import inputs
from tvbandits.gp.kernels.space_time import OnSpace, OnTime
from tvbandits.gp.posterior import CandidateGrid, Conditioning, Data
from tvbandits.gp.sparse import SparsePosterior
from tvbandits.validation import Array

KERNELS: dict[str, Kernel] = {
    "matern": Matern([0.3, 0.5], nu=2.5),
    "rbf": RBF(0.25),
    "moving": OnSpace(Matern(0.3, nu=1.5)) * OnTime(RBF(5.0)),
}
NOISE, NOW = 0.1, 40.0


class Setting:
    """A posterior on candidates, and the other arguments of a fantasy."""

    def __init__(
        self, kernel: Kernel, n: int = 40, candidates: int = 300, seed: int = 0, times: float = 2.0
    ) -> None:
        rng = np.random.default_rng(seed)
        self.domain = Candidates(rng.random((candidates, 2)))
        self.kernel, self.grid = kernel, CandidateGrid(kernel, self.domain.X)
        X = self.domain.X[rng.integers(candidates, size=n)]
        self.data = Data(
            inputs(kernel, X, np.arange(float(n))), rng.standard_normal((n, 2)), np.full(n, NOISE)
        )
        self.part = Nystrom(1.0)
        posterior = self.condition(n)
        height = posterior.predict(self.grid)[0][:, 0]
        self.posterior = posterior
        self.upper_bound = UpperBound(
            lambda X: height if X is self.domain.X else height[self.domain.index(X)], times
        )

    def condition(self, n: int, previous: Any = None) -> SparsePosterior:
        data = self.data.rows(0, n)
        return self.part.condition(Conditioning(self.kernel, data, self.grid, NOW, previous))

    def inputs(self, X: Array) -> Array:
        return inputs(self.kernel, X, np.full(len(X), NOW))

    def fantasy(self, kind: Any, posterior: Any = None) -> Any:
        p = self.posterior if posterior is None else posterior
        return kind(p, self.domain, self.grid, self.inputs, NOISE, self.upper_bound)


def lemma_3_terms(step: Any) -> Array:
    """Return the terms of Lemma 3 for the point of a step, at all candidates."""
    return np.asarray(step.terms(step.z)[0])


def build_batch(fantasy: Any, size: int, seed: int = 0) -> tuple[Array, list[Any]]:
    rng, batch, steps = np.random.default_rng(seed), [], []
    for _ in range(size):
        batch.append(fantasy.best(rng))
        steps.append(fantasy.add(batch[-1]))
    return np.array(batch), steps


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
@pytest.mark.parametrize("seed", range(3))
def test_sparse_fantasy_builds_the_batch_of_a_plain_fantasy(kernel: Kernel, seed: int) -> None:
    setting = Setting(kernel, seed=seed)
    sparse, plain = setting.fantasy(SparseFantasy), setting.fantasy(PlainFantasy)
    (points, steps), (expected, others) = build_batch(sparse, 25), build_batch(plain, 25)
    np.testing.assert_array_equal(points, expected)
    for step, other in zip(steps, others, strict=True):
        assert (step.start, step.now) == pytest.approx((other.start, other.now), rel=1e-9)
        np.testing.assert_allclose(lemma_3_terms(step), lemma_3_terms(other), rtol=1e-7, atol=1e-12)
        Z = setting.inputs(points)
        np.testing.assert_allclose(step.covariances(Z), other.covariances(Z), rtol=1e-7, atol=1e-12)


def test_sparse_fantasy_variances_are_up_to_date() -> None:
    """Few variances are up to date after the first points of a batch."""
    setting = Setting(KERNELS["matern"], candidates=300, times=0.3)
    sparse, plain = setting.fantasy(SparseFantasy), setting.fantasy(PlainFantasy)
    X = setting.domain.X
    np.testing.assert_allclose(sparse.variances(X[7:8]), plain.variances(X[7:8]), rtol=1e-9)
    points, _ = build_batch(sparse, 20)
    assert len(sparse.rows) < 300
    for x in points:
        plain.add(x)
    late = X[[3, 7, 3, 250]]
    np.testing.assert_allclose(sparse.variances(late), plain.variances(late), rtol=1e-9)
    np.testing.assert_allclose(sparse.variances(X), plain.variances(X), rtol=1e-9)


def test_sparse_fantasy_builds_a_batch_longer_than_the_dictionary() -> None:
    setting = Setting(KERNELS["matern"], n=6, times=3.0)
    sparse, plain = setting.fantasy(SparseFantasy), setting.fantasy(PlainFantasy)
    points, steps = build_batch(sparse, 40)
    others, checks = build_batch(plain, 40)
    np.testing.assert_array_equal(points, others)
    for step, check in zip(steps, checks, strict=True):
        assert (step.start, step.now) == pytest.approx((check.start, check.now), rel=1e-9)


@pytest.mark.parametrize("candidates", [1, 2, 3, 33])
def test_sparse_fantasy_works_for_any_number_of_candidates(candidates: int) -> None:
    """Every candidate may be played, too."""
    setting = Setting(KERNELS["matern"], n=6, candidates=candidates, times=50.0)
    sparse, plain = setting.fantasy(SparseFantasy), setting.fantasy(PlainFantasy)
    np.testing.assert_array_equal(build_batch(sparse, 12)[0], build_batch(plain, 12)[0])


def test_sparse_and_plain_fantasies_break_ties_alike() -> None:
    """Before any data all candidates tie, and both fantasies draw among all of them."""
    kernel = RBF(1e-3)  # no candidate is correlated with another
    domain = Candidates(np.arange(60.0)[:, None])
    grid = CandidateGrid(kernel, domain.X)
    empty = Data(np.empty((0, 1)), np.empty((0, 2)), np.empty(0))
    posterior = Nystrom().condition(Conditioning(kernel, empty, grid))
    upper_bound = UpperBound(lambda X: np.zeros(len(X)), 1.0)
    points = set()
    for seed in range(200):
        (sparse, plain) = (
            kind(posterior, domain, grid, lambda X: X, NOISE, upper_bound).best(
                np.random.default_rng(seed)
            )
            for kind in (SparseFantasy, PlainFantasy)
        )
        assert sparse == plain
        points.add(float(sparse[0]))
    assert len(points) > 50


def dense(setting: Setting, p: Any, extra: Array) -> Dense | Sparse:
    """Return the dense posterior with the points `extra` of the domain observed in addition."""
    parts = (
        np.concatenate([p.data.Z, setting.inputs(extra)]),
        np.zeros((len(p.data) + len(extra), 1)),
        np.append(p.data.variance, np.full(len(extra), NOISE)),
    )
    if isinstance(p, SparsePosterior):
        return Sparse(p.kernel, p.dictionary.rows.Z, *parts)
    return Dense(p.kernel, *parts)


@pytest.mark.parametrize("kind", ["sparse", "plain", "exact", "anywhere"])
def test_fantasies_match_steps_and_choices_by_brute_force(kind: str) -> None:
    setting = Setting(KERNELS["matern"], n=15, candidates=40)
    p: Any = setting.posterior
    if kind in ("exact", "anywhere"):
        p = condition_by_cholesky(
            setting.kernel, setting.data, grid=None if kind == "anywhere" else setting.grid
        )
    fantasy = setting.fantasy(SparseFantasy if kind == "sparse" else PlainFantasy, p)
    if kind == "anywhere":
        fantasy.grid = None
    X, rng = setting.domain.X, np.random.default_rng(0)
    height, batch = setting.upper_bound.mean(X), np.empty((0, 2))
    for _ in range(10):
        x = fantasy.best(rng)
        now = dense(setting, p, batch)
        ucb = height + setting.upper_bound.times * np.sqrt(now.variance(setting.inputs(X)))
        assert ucb[setting.domain.index(x)[0]] >= ucb.max() - 1e-9
        step = fantasy.add(x)
        start, z = dense(setting, p, batch[:0]), setting.inputs(x[None, :])
        assert step.start == pytest.approx(start.variance(z)[0] / NOISE, rel=1e-7)
        assert step.now == pytest.approx(now.variance(z)[0] / NOISE, rel=1e-7)
        if kind == "anywhere":
            assert_refused(ValueError, "the local rule needs a finite domain", lemma_3_terms, step)
        else:
            at = setting.inputs(X)
            shares = start.covariance(at, z)[:, 0] ** 2 / (start.variance(at) * NOISE)
            np.testing.assert_allclose(lemma_3_terms(step), shares, rtol=1e-6, atol=1e-10)
        batch = np.concatenate([batch, x[None, :]])


@pytest.mark.parametrize("part", [Exact(), Nystrom(100.0)])
def test_fantasies_have_no_term_at_a_point_of_known_reward(part: Any) -> None:
    """A linear reward is known at the origin."""
    kernel = DotProduct(0.0)
    domain = Candidates(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]))
    grid = CandidateGrid(kernel, domain.X)
    data = Data(domain.X[1:2], np.ones((1, 2)), np.array([0.5]))
    p = part.condition(Conditioning(kernel, data, grid))
    upper_bound = UpperBound(lambda X: np.zeros(len(X)), 1.0)
    kind: Any = PlainFantasy if isinstance(part, Exact) else SparseFantasy
    fantasy = kind(p, domain, grid, lambda X: X, NOISE, upper_bound)
    fantasy.best(np.random.default_rng(0))
    shares = lemma_3_terms(fantasy.add(domain.X[2]))
    assert shares[0] == 0.0
    assert shares[2] == pytest.approx(4.0 / NOISE)


def test_decision_deviation_accounts_for_pending_points() -> None:
    """The deviation with a pending point is that of a bandit that was told the mean there."""
    sites = Candidates(np.linspace(0.0, 4.0, 9)[:, None])
    bandit = policies.gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.1, options=Options(mean=0.0))
    bandit.tell([[1.0]], [0.5], 1.0)
    deviations: list[Array] = []

    @dataclass(frozen=True)
    class MostUncertain(Acquisition):
        def check(self, domain: Any, posterior: Any) -> None:
            """Accept every domain."""

        def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
            deviations.append(decision.deviation()(sites.X))
            x, _ = decision.domain.maximize(decision.deviation(), rng)
            return x[None]

    uncertain = Bandit.from_state(replace(bandit.recipe, acquisition=MostUncertain()), bandit.state)
    first = uncertain.ask(2.0)
    assert not np.array_equal(first, uncertain.ask(2.0))
    mean = bandit.predict(first, 2.0)[0]
    np.testing.assert_allclose(deviations[0], bandit.predict(sites.X, 2.0)[1], rtol=1e-9)
    bandit.tell(first, mean, 2.0)
    np.testing.assert_allclose(deviations[1], bandit.predict(sites.X, 2.0)[1], rtol=1e-6)


# --- the persistent share of variances: against a dense Gaussian process, and in a bandit

POINTS = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 0.9], [0.8, 0.7], [0.1, 0.5]])
NEAR, INDEPENDENT = SpatialSpec("matern12", 0.5), SpatialSpec("identity")
PERSISTENT_NOISE = 0.1
LATER_STEPS = 32
MODELS = {
    "rough": ModelSpec(INDEPENDENT, NEAR, 0.3, 0.5, 0.4, 0.2, 40.0, 2.0, 5.0),
    "smooth": ModelSpec(INDEPENDENT, NEAR, 0.3, 0.5, 0.4, 0.05, 40.0, 4.0, 5.0, smooth=True),
}


@pytest.mark.parametrize("step", [1.0, 0.25])
@pytest.mark.parametrize("name", MODELS)
def test_persistent_share_is_the_deviation_explained_by_future_readings(
    name: str, step: float
) -> None:
    """The oracle reads all places in 32 steps after the decision, jointly."""
    model, rng = MODELS[name], np.random.default_rng(2)
    ensemble, rows = (
        replace(FilterEnsemble.of(POINTS, PERSISTENT_NOISE, [model]), step_length=step),
        rng.integers(0, 5, 14),
    )
    for t, row in enumerate(rows):
        ensemble = ensemble.update([row], rng.normal(size=1), None, t * step)
    (filters,) = ensemble.filters
    own = PERSISTENT_NOISE / float(filters.variance[0])
    H = filters.dynamics.observation(np.arange(5))
    ahead = filters.predict(1.0)
    covariance = H @ ahead.covariance[0] @ H.T
    noise = 1.1 ** round(math.log(model.nugget + own) / math.log(1.1))
    F = np.zeros((LATER_STEPS, *ahead.covariance[0].shape))
    for k in range(LATER_STEPS):
        F[k] = ahead.dynamics.propagate(np.eye(ahead.dynamics.size)[None], k + 1.0)[0]
    across = np.concatenate([H @ f @ ahead.covariance[0] @ H.T for f in F])
    spread = np.block(
        [
            [_future_covariance(ahead, H, i, j) for j in range(1, LATER_STEPS + 1)]
            for i in range(1, LATER_STEPS + 1)
        ]
    )
    explained = across.T @ np.linalg.solve(spread + noise * np.eye(len(spread)), across)
    expected = np.sqrt(np.diag(explained) / np.diag(covariance))
    share = ensemble.persistent_share(14.0 * step)
    np.testing.assert_allclose(share, expected, rtol=1e-5)
    assert (share > 0.05).all()
    assert (share < 1.0).all()


def _future_covariance(ahead: object, H: Array, i: int, j: int) -> Array:
    """Return the covariance of all rewards i steps later with those j steps later."""
    first = min(i, j)
    state = ahead.predict(float(first))  # type: ignore[attr-defined]
    F = state.dynamics.propagate(np.eye(state.dynamics.size)[None], float(abs(i - j)))[0]
    block = H @ F @ state.covariance[0] @ H.T
    return np.asarray(block if i >= j else block.T)


def test_persistent_share_without_observations_is_one() -> None:
    np.testing.assert_array_equal(
        FilterEnsemble.of(POINTS, PERSISTENT_NOISE).persistent_share(3.0), np.ones(5)
    )


def bandit(**more: object) -> Bandit:
    result: Bandit = build(policies.adaptive_gp_ucb, SITES, noise_variance=0.01, **more)
    return result


def play(player: Bandit, steps: int, start: int = 1) -> Array:
    rows = []
    for t in range(start, start + steps):
        X = player.ask(t)
        player.tell(X, value(X, t), t)
        rows.append(X[0])
    return np.array(rows)


def test_persistent_bound_accounts_for_persistent_shares_and_pending_points() -> None:
    player = bandit()
    play(player, 25)
    differs = np.zeros(2, dtype=bool)
    for t in np.arange(26.0, 66.0):
        player.ask(t - 0.5)  # this point stays pending
        view = condition(player, t)[1]
        posterior: Any = view.posterior
        (mean, variance), pending = posterior.predict(view.grid), player.state.pending
        at, rows = np.column_stack([SITES.X, np.full(10, t)]), SITES.index(pending.X)
        C = posterior.covariance(at, at)
        noise = view.prior.effective_noise(at[:0], at[:0], t - pending.t, np.full(len(rows), 0.01))
        pending_covariance = C[np.ix_(rows, rows)] + np.diag(noise + posterior.nugget_variance)
        remaining = variance - np.einsum(
            "ij,ij->j", C[rows], np.linalg.solve(pending_covariance, C[rows])
        )
        share = posterior.ensemble.persistent_share(t)
        best, *others = (
            int((mean[:, 0] + 2.0 * width * np.sqrt(each)).argmax())
            for width, each in ((share, remaining), (1.0, remaining), (share, variance))
        )
        x = player.ask(t)
        assert SITES.index(x)[0] == best
        differs |= np.array(others) != best
        player.tell(x, value(x, t), t)
    assert differs.all()


def test_adaptive_gp_ucb_on_few_candidates_has_an_ensemble_of_both_kinds() -> None:
    recipe = bandit().recipe
    assert isinstance(recipe.acquisition, PersistentBound)
    assert recipe.posterior == ModelEnsemble(both=True)
    assert recipe.learn is None
    assert bandit(beta=1.5).recipe == replace(recipe, beta=1.5)
    for other in ({"posterior": StateSpace()}, {"refit": True}, {"mean": 1.0}):
        assert bandit(**other).recipe.learn is not None
    assert bandit(posterior="ensemble").recipe.posterior == ModelEnsemble()
    for kernel, X in ((RBF(1.0), SITES.X), (None, np.arange(20_001.0)[:, None])):
        assert (
            policies.adaptive_gp_ucb(Candidates(X), kernel=kernel, noise_variance=0.01).recipe.learn
            is not None
        )


def test_ensemble_with_both_has_network_and_function_models() -> None:
    few = bandit()
    play(few, 2)
    posterior = few.state.posterior
    assert posterior.ensemble.models == network_models() + function_models(SITES.dimension)
    assert posterior.ensemble.scale_count == CONFIG.function_scale_count
    many = policies.adaptive_gp_ucb(Candidates(np.arange(97.0)[:, None]), noise_variance=0.01)
    play(many, 2)
    assert many.state.posterior.ensemble.models == function_models()


def test_persistent_bound_needs_an_ensemble() -> None:
    with pytest.raises(ValueError, match=r"ModelEnsemble\(\), .*Exact\(\)"):
        Recipe(SITES, RBF(1.0), 0.01, acquisition=PersistentBound())


# --- confidence

SITUATIONS = [Situation(3.5, 9, 50), Situation(0.0, 0, 1), Situation(120.0, 4999, 20640)]


def test_theory_width_matches_theorem_3_1() -> None:
    """The formula is sqrt(2 log(2 |Sigma + K|^(1/2) / (delta |Sigma|^(1/2)))) + B."""
    rng = np.random.default_rng(0)
    Z, variance = rng.random((8, 2)), 10 ** rng.uniform(-1, 1, 8)
    posterior = condition_by_cholesky(RBF(0.5), Data(Z, np.zeros((8, 1)), variance))
    K = RBF(0.5)(Z)
    roots = math.sqrt(np.linalg.det(np.diag(variance) + K)) / math.sqrt(np.prod(variance))
    for delta, bound in ((0.05, 1.0), (1.0, 0.0), (1e-6, 7.5)):
        expected = math.sqrt(2 * math.log(2 * roots / delta)) + bound
        width = Theory(delta, bound)(Situation(posterior.summary.log_det_ratio, 8, None))
        assert width == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("delta", [0.05, 1.0, 1e-3])
def test_srinivas_width_matches_its_formula_for_the_next_decision(
    situation: Situation, delta: float
) -> None:
    t = situation.count + 1
    expected = math.sqrt(2 * math.log(situation.candidates * (math.pi**2 * t**2 / 6) / delta))
    assert Srinivas(delta)(situation) == pytest.approx(expected, rel=1e-12)


def test_srinivas_width_needs_a_finite_domain() -> None:
    with pytest.raises(ValueError, match="Candidates"):
        Srinivas()(Situation(1.0, 3, None))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_logarithmic_width_is_the_root_of_the_beta_of_its_paper(situation: Situation) -> None:
    expected = math.sqrt(0.8 * math.log(4 * (situation.count + 1)))
    assert Logarithmic()(situation) == pytest.approx(expected, rel=1e-12)
    other = Logarithmic(2.0, 30.0)(situation)
    assert other == pytest.approx(math.sqrt(2 * math.log(30 * (situation.count + 1))))


def test_logarithmic_width_is_never_negative() -> None:
    assert Logarithmic(c2=0.1)(Situation(0.0, 0, None)) == 0.0
    assert Logarithmic(c2=0.1)(Situation(0.0, 20, None)) > 0.0


@pytest.mark.parametrize("delta", [0.05, 1.0, 1e-3])
@pytest.mark.parametrize(("count", "d"), [(0, 0.0), (1, 0.5), (20, 3.0)])
def test_bkb_width_matches_its_theorem(count: int, d: float, delta: float) -> None:
    """The dictionary has the accuracy 1/2, so that alpha = 3."""
    situation = Situation(1.0, count, None, effective_dimension=lambda: d)
    information = 3.0 * math.log(max(count, 1)) * d
    expected = 2 * math.sqrt(information + math.log(1 / delta)) + (1 + math.sqrt(2)) * 1.5
    assert BKBWidth(delta, 1.5)(situation) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("n", "expected"), [(0.0, 0.5), (0.3, 0.5), (1.0, 0.5), (4.0, 1.0), (100.0, 2.0)]
)
def test_plays_at_a_time_width_grows_from_two_plays_up_to_its_limit(
    n: float, expected: float
) -> None:
    situation = Situation(1.0, 20, None, at_a_time=lambda: n)
    assert PlaysAtATime(0.5, most=2.0)(situation) == expected


@pytest.mark.parametrize("value", [2, 2.0, "2", "2.0", np.int64(2), np.float32(2.0)])
def test_as_confidence_reads_numbers_as_constant_widths(value: Any) -> None:
    assert as_confidence(value) == Fixed(2.0)


def test_as_confidence_accepts_names_and_functions() -> None:
    assert as_confidence("theory") == Theory(0.05, 1.0)
    rule = BKBWidth(0.2)
    assert as_confidence(rule) is rule
    assert as_confidence(lambda _: 3.0)(SITUATIONS[0]) == 3.0


def test_bbkb_program_width_matches_its_formula_and_is_below_bkb() -> None:
    situation = Situation(
        log_det_ratio=1.0,
        count=50,
        candidates=9,
        bbkb_information=30.0,
        effective_dimension=lambda: 4.0,
    )
    beta = BBKBProgramWidth(delta=0.02, norm_bound=1.5)(situation)
    assert beta == pytest.approx(1.5 + math.sqrt(math.log(50) * 4.0 + math.log(50)))
    assert beta < BKBWidth(delta=0.02, norm_bound=1.5)(situation)
    assert as_confidence("BBKB-program") == BBKBProgramWidth()


def test_ask_for_a_batch_of_a_finite_space_takes_the_best_of_all_other_points() -> None:
    """Each point has the largest bound given those before it, which [BB] calls a fantasy."""
    space = Space(width=Integer(0, 6), count=[1, 2, 4], mode=["slow", "fast"])
    kernel = space.kernel()
    bandit = Bandit(Recipe(space, kernel, NOISE, mean=0.0, beta=Fixed(2.0)))
    points, rng = space.all_points, np.random.default_rng(2)
    assert points is not None
    rows = rng.choice(len(points), 8, replace=False)
    y = rng.normal(size=8)
    bandit.tell(points[rows], y, 1)
    K = kernel(points)
    mean = K[:, rows] @ np.linalg.solve(K[np.ix_(rows, rows)] + NOISE * np.eye(8), y)
    expected: list[int] = []
    while len(expected) < 30:
        all_rows = [*rows, *expected]
        A = K[np.ix_(all_rows, all_rows)] + NOISE * np.eye(len(all_rows))
        variance = np.diag(K) - (K[all_rows] * np.linalg.solve(A, K[all_rows])).sum(axis=0)
        bound = mean + 2.0 * np.sqrt(variance)
        bound[expected] = -np.inf
        expected.append(int(bound.argmax()))
    np.testing.assert_array_equal(bandit.ask(2, n=30), points[expected])
