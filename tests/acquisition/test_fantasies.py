"""The lazy way to build a batch against the plain one: the same points, with fewer looks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, DotProduct, Kernel, Matern

from tests.oracles.dense import Dense
from tests.oracles.sparse import Sparse
from tvbandits import Bandit, Candidates, policies
from tvbandits.acquisition.fantasies import AT_ONCE, LazyFantasy, PlainFantasy, Width, fantasise
from tvbandits.acquisition.rules import Decision
from tvbandits.core.arrays import Array
from tvbandits.gp.kernels.space_time import OnSpace, OnTime
from tvbandits.gp.kernels.structure import inputs
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.cholesky import Factored
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.sparse import NystromPosterior

KERNELS: dict[str, Kernel] = {
    "matern": Matern([0.3, 0.5], nu=2.5),
    "rbf": RBF(0.25),
    "moving": OnSpace(Matern(0.3, nu=1.5)) * OnTime(RBF(5.0)),
}
NOISE, NOW = 0.1, 40.0


class Setting:
    """A posterior on candidates, and what a fantasy needs besides."""

    def __init__(
        self, kernel: Kernel, n: int = 40, candidates: int = 300, seed: int = 0, times: float = 2.0
    ) -> None:
        rng = np.random.default_rng(seed)
        self.domain = Candidates(rng.random((candidates, 2)))
        self.kernel, self.surface = kernel, CandidateGrid(kernel, self.domain.X)
        X = self.domain.X[rng.integers(candidates, size=n)]
        self.data = Data(
            inputs(kernel, X, np.arange(float(n))), rng.standard_normal((n, 2)), np.full(n, NOISE)
        )
        self.part = Nystrom(1.0)
        made = self.condition(n)
        height = made.means_on_surface()[:, 0]
        self.made = made
        self.width = Width(
            lambda X: height if X is self.domain.X else height[self.domain.index(X)], times
        )

    def condition(self, n: int, previous: Any = None) -> NystromPosterior:
        made = self.part.condition(
            self.kernel,
            Data(self.data.Z[:n], self.data.Y[:n], self.data.variance[:n]),
            surface=self.surface,
            now=NOW,
            previous=previous,
        )
        assert isinstance(made, NystromPosterior)
        return made

    def inputs(self, X: Array) -> Array:
        return inputs(self.kernel, X, np.full(len(X), NOW))

    def fantasy(self, kind: Any, posterior: Any = None) -> Any:
        p = self.made if posterior is None else posterior
        return kind(p, self.domain, self.surface, self.inputs, NOISE, self.width)


def built(fantasy: Any, size: int, seed: int = 0) -> tuple[Array, list[Any]]:
    rng, batch, steps = np.random.default_rng(seed), [], []
    for _ in range(size):
        batch.append(fantasy.best(rng))
        steps.append(fantasy.add(batch[-1]))
    return np.array(batch), steps


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
@pytest.mark.parametrize("seed", range(3))
def test_the_lazy_batch_is_the_plain_one_with_fewer_looks(kernel: Kernel, seed: int) -> None:
    setting = Setting(kernel, seed=seed)
    lazy, plain = setting.fantasy(LazyFantasy), setting.fantasy(PlainFantasy)
    (ours, steps), (theirs, others) = built(lazy, 25), built(plain, 25)
    np.testing.assert_array_equal(ours, theirs)
    for step, other in zip(steps, others, strict=True):
        assert (step.start, step.now) == pytest.approx((other.start, other.now), rel=1e-9)
        np.testing.assert_allclose(step.local(), other.local(), rtol=1e-7, atol=1e-12)
    assert plain.looks >= 25 * 300
    assert 25 <= lazy.looks < 100


def test_bounds_that_are_stale_at_the_start_are_looked_at() -> None:
    """A posterior that was shrunk holds upper bounds only, and they lead to the same points."""
    setting = Setting(KERNELS["matern"], n=60)
    setting.part = Nystrom(1e3)
    exact = setting.condition(60)
    z = setting.inputs(setting.domain.X[:1])
    p = exact.shrunk(z, 0.05, None)
    assert not p.upper_variances()[1].any()
    setting.width = Width(lambda _: p.means_on_surface()[:, 0], 1.0)
    lazy = setting.fantasy(LazyFantasy, p)
    plain = setting.fantasy(PlainFantasy, exact.shrunk(z, 0.05, None))
    np.testing.assert_array_equal(built(lazy, 8)[0], built(plain, 8)[0])
    assert lazy.looks > 0


def test_a_batch_longer_than_the_dictionary() -> None:
    """Then a factor of V takes over from the sum of what each point takes."""
    setting = Setting(KERNELS["matern"], n=6, times=3.0)
    lazy, plain = setting.fantasy(LazyFantasy), setting.fantasy(PlainFantasy)
    for each in (lazy, plain):
        each.observe(setting.domain.X[:1], np.full(1, 5 * NOISE))  # out, with a noise of its own
    points, steps = built(lazy, 40)
    assert lazy.factor is not None
    others, checks = built(plain, 40)
    np.testing.assert_array_equal(points, others)
    for step, check in zip(steps, checks, strict=True):
        assert (step.start, step.now) == pytest.approx((check.start, check.now), rel=1e-9)


@pytest.mark.parametrize("candidates", [1, 2, 3, 5, AT_ONCE, AT_ONCE + 1])
def test_any_number_of_candidates(candidates: int) -> None:
    """Even when every one of them must be looked at, one by one."""
    setting = Setting(KERNELS["matern"], n=6, candidates=candidates, times=50.0)
    lazy, plain = setting.fantasy(LazyFantasy), setting.fantasy(PlainFantasy)
    np.testing.assert_array_equal(built(lazy, 12)[0], built(plain, 12)[0])


def test_ties_are_broken_alike() -> None:
    """Before any data all candidates are equal, and both ways draw among all of them."""
    kernel = RBF(1e-3)  # no candidate says anything about another
    domain = Candidates(np.arange(60.0)[:, None])
    surface = CandidateGrid(kernel, domain.X)
    empty = Data(np.empty((0, 1)), np.empty((0, 2)), np.empty(0))
    p = Nystrom().condition(kernel, empty, surface=surface)
    width = Width(lambda X: np.zeros(len(X)), 1.0)
    seen = set()
    for seed in range(200):
        (lazy, plain) = (
            kind(p, domain, surface, lambda X: X, NOISE, width).best(np.random.default_rng(seed))
            for kind in (LazyFantasy, PlainFantasy)
        )
        assert lazy == plain
        seen.add(float(lazy[0]))
    assert len(seen) > 50
    # Observed equally often, two points are tied again.
    pair = Data(domain.X[:2], np.zeros((2, 2)), np.ones(2))
    two = Candidates(domain.X[:2])
    on_two = CandidateGrid(kernel, two.X)
    p = Nystrom(10.0).condition(kernel, pair, surface=on_two)
    batches = set()
    for seed in range(20):
        (lazy, plain) = (
            built(kind(p, two, on_two, lambda X: X, NOISE, width), 6, seed)[0].ravel().tolist()
            for kind in (LazyFantasy, PlainFantasy)
        )
        assert lazy == plain
        assert sorted(lazy) == [0, 0, 0, 1, 1, 1]
        batches.add(tuple(lazy))
    assert len(batches) > 3


def dense(setting: Setting, p: Any, extra: Array) -> Dense | Sparse:
    """With the points `extra` of the domain observed on top, from scratch."""
    parts = (
        np.concatenate([p.data.Z, setting.inputs(extra)]),
        np.zeros((len(p.data) + len(extra), 1)),
        np.append(p.data.variance, np.full(len(extra), NOISE)),
    )
    if isinstance(p, NystromPosterior):
        return Sparse(p.kernel, p.dictionary.rows.Z, *parts)
    return Dense(p.kernel, *parts)


@pytest.mark.parametrize("kind", ["lazy", "plain", "exact", "anywhere"])
def test_steps_and_choices_by_brute_force(kind: str) -> None:
    setting = Setting(KERNELS["matern"], n=15, candidates=40)
    p: Any = setting.made
    if kind in ("exact", "anywhere"):
        p = Factored().condition(
            setting.kernel, setting.data, surface=None if kind == "anywhere" else setting.surface
        )
    fantasy = setting.fantasy(LazyFantasy if kind == "lazy" else PlainFantasy, p)
    if kind == "anywhere":
        fantasy.surface = None
    X, rng = setting.domain.X, np.random.default_rng(0)
    height, batch = setting.width.mean(X), np.empty((0, 2))
    for _ in range(10):
        x = fantasy.best(rng)
        now = dense(setting, p, batch)
        ucb = height + setting.width.times * np.sqrt(now.variance(setting.inputs(X)))
        assert ucb[setting.domain.index(x)[0]] >= ucb.max() - 1e-9
        step = fantasy.add(x)
        start, z = dense(setting, p, batch[:0]), setting.inputs(x[None, :])
        assert step.start == pytest.approx(start.variance(z)[0] / NOISE, rel=1e-7)
        assert step.now == pytest.approx(now.variance(z)[0] / NOISE, rel=1e-7)
        if kind == "anywhere":
            with pytest.raises(ValueError, match="the local rule needs a finite domain"):
                step.local()
        else:
            at = setting.inputs(X)
            shares = start.covariance(at, z)[:, 0] ** 2 / (start.variance(at) * NOISE)
            np.testing.assert_allclose(step.local(), shares, rtol=1e-6, atol=1e-10)
        batch = np.concatenate([batch, x[None, :]])


@pytest.mark.parametrize("part", [Exact(), Nystrom(100.0)])
def test_a_point_whose_reward_is_known_takes_no_share(part: Any) -> None:
    """A linear reward is known at the origin from the start."""
    kernel = DotProduct(0.0)
    domain = Candidates(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]))
    surface = CandidateGrid(kernel, domain.X)
    data = Data(domain.X[1:2], np.ones((1, 2)), np.array([0.5]))
    p = part.condition(kernel, data, surface=surface)
    width = Width(lambda X: np.zeros(len(X)), 1.0)
    fantasy = fantasise(p, domain, surface, lambda X: X, NOISE, width)
    fantasy.best(np.random.default_rng(0))
    shares = fantasy.add(domain.X[2]).local()
    assert shares[0] == 0.0
    assert shares[2] == pytest.approx(4.0 / NOISE)


def test_a_rule_is_told_of_points_that_are_out_by_one_call() -> None:
    """The deviation after a point is out is that of a bandit which was told its mean there."""
    sites = Candidates(np.linspace(0.0, 4.0, 9)[:, None])
    bandit = policies.gp_ucb(sites, RBF(1.0), 0.1, mean=0.0)
    bandit.tell([[1.0]], [0.5], 1.0)
    seen: list[Array] = []

    @dataclass(frozen=True)
    class MostUncertain:
        def check(self, domain: Any, posterior: Any) -> None:
            """Works everywhere."""

        def choose(self, decision: Decision, rng: np.random.Generator) -> tuple[Array, int]:
            seen.append(decision.deviation()(sites.X))
            x, _ = decision.domain.maximise(decision.deviation(), rng)
            return x[None], 0

    looking = Bandit.from_state(replace(bandit.recipe, acquisition=MostUncertain()), bandit.state)
    first = looking.ask(2.0)
    second = looking.ask(2.0)
    assert not np.array_equal(first, second)
    mean = bandit.predict(first, 2.0)[0]
    np.testing.assert_allclose(seen[0], bandit.predict(sites.X, 2.0)[1], rtol=1e-9)
    bandit.tell(first, mean, 2.0)
    np.testing.assert_allclose(seen[1], bandit.predict(sites.X, 2.0)[1], rtol=1e-6)
