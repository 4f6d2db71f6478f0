"""What answers would change about the next decision: against conditioning on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tests.oracles.dense import Dense
from tvbandits import Answers, Bandit, Box, Candidates, Recipe
from tvbandits.core.arrays import Array
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.forgetting.aging import Linear
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.posteriors.lookahead import JointPosterior
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.queries.asking import Asking
from tvbandits.queries.pool import Choice, Pool

POINTS = np.random.default_rng(3).uniform(0, 6, (30, 2))
NOISE = 0.05

KERNELS: dict[str, Any] = {
    "space": 2.0 * RBF(1.5),
    "drift": OnSpace(RBF(1.5)) * Drift(0.1),
    "structured": OnSpace(RBF(2.0))
    + ConstantKernel(0.5) * OnTime(Matern(5.0, nu=0.5))
    + OnSpace(RBF(1.0)) * OnTime(Matern(4.0, nu=1.5)),
}


class Looking:
    """A plan that keeps what it is shown, and asks nothing."""

    def __init__(self) -> None:
        self.pools: list[Pool] = []
        self.seen: list[JointPosterior] = []

    def choose(self, pool: Pool, rng: np.random.Generator) -> Choice:  # noqa: ARG002
        self.pools.append(pool)
        self.seen.append(pool.believed())
        return Choice(np.empty(0, dtype=np.int64))


class Silent:
    def query(self, X: Array, t: float) -> Answers:  # noqa: ARG002
        return Answers.none(len(X))


def told_bandit(
    kernel: Any, plan: Any, steps: int = 12, about: Any = "played", **parts: Any
) -> tuple[Bandit, Array]:
    """A bandit told about some points at the times 1, ..., and what it was told about."""
    recipe = Recipe(
        **{"domain": Candidates(POINTS), "mean": 0.0, "confidence": 1.5, **parts},
        kernel=kernel,
        noise_variance=NOISE,
        asking=Asking(plan, Silent(), about=about),
    )
    bandit = Bandit(recipe, seed=0)
    rows = np.random.default_rng(1).integers(0, 30, steps)
    for t, row in enumerate(rows, 1):
        bandit.tell(POINTS[[row]], [float(keyed_normal(0, 0, POINTS[[row]], t)[0])], t)
    return bandit, rows


def inputs(kernel: Any, X: Array, t: Array | float) -> Array:
    return X if kernel is KERNELS["space"] else np.column_stack([X, np.broadcast_to(t, len(X))])


@pytest.mark.parametrize("sparse", [False, True], ids=["exact", "nystrom"])
@pytest.mark.parametrize("name", KERNELS)
def test_asking_is_conditioning(name: str, sparse: bool) -> None:
    if sparse and name == "structured":
        pytest.skip("the sparse posterior filters separable kernels only")
    kernel, plan = KERNELS[name], Looking()
    # With this oversampling every point joins the dictionary, which makes the sparse form exact.
    parts = {"posterior": Nystrom(oversampling=1e9)} if sparse else {}
    bandit, rows = told_bandit(kernel, plan, about="domain", **parts)
    beliefs = plan.seen[-1]
    told = inputs(kernel, POINTS[rows], np.arange(1.0, 13.0))
    later = inputs(kernel, POINTS, 13.0)
    mean, deviation = bandit.predict(POINTS, 13)
    np.testing.assert_allclose(beliefs.mean, mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(beliefs.deviation, deviation, rtol=1e-9)
    asked: list[int] = []
    for row in (4, 17, 4, 29):
        beliefs = beliefs.after(row)
        asked.append(row)
        Z = np.vstack([told, inputs(kernel, POINTS[asked], 12.0)])
        wanted = Dense(kernel, Z, np.zeros((len(Z), 1)), np.full(len(Z), NOISE)).deviation(later)
        np.testing.assert_allclose(beliefs.deviation, wanted, rtol=1e-5)
        np.testing.assert_array_equal(beliefs.mean, plan.seen[-1].mean)


def test_bounds_are_those_of_the_bandit() -> None:
    plan = Looking()
    bandit, _ = told_bandit(KERNELS["structured"], plan, about="domain")
    beliefs = plan.seen[-1]
    assert beliefs.beta == 1.5
    np.testing.assert_allclose(beliefs.upper - beliefs.lower, 3.0 * beliefs.deviation)
    x = bandit.ask()
    np.testing.assert_array_equal(x[0], POINTS[int(np.argmax(beliefs.upper))])


def test_beliefs_are_in_the_unit_of_reward() -> None:
    # With a scale of its own, and aging: what the bandit itself predicts, before and after.
    plan = Looking()
    bandit, _ = told_bandit(2.0 * RBF(1.5), plan, 60, mean="online", aging=Linear(0.1))
    beliefs = plan.seen[-1]
    points = plan.pools[-1].points
    mean, deviation = bandit.predict(points, 61)
    np.testing.assert_allclose(beliefs.mean, mean)
    np.testing.assert_allclose(beliefs.deviation, deviation)
    assert bandit.info.model.scale != 1.0
    known = beliefs.after(3)
    scale = bandit.info.model.scale
    covariance = beliefs.reach([3])[0]
    wanted = deviation**2 - covariance**2 / (covariance[3] + NOISE)
    np.testing.assert_allclose(known.deviation**2, wanted, rtol=1e-8)
    assert covariance[3] == pytest.approx(deviation[3] ** 2)
    assert scale**2 * 2.0 > deviation[3] ** 2


def test_what_may_be_asked_about() -> None:
    played, domain = Looking(), Looking()
    _, rows = told_bandit(KERNELS["space"], played)
    told_bandit(KERNELS["space"], domain, about="domain")
    _, first = np.unique(rows, return_index=True)
    np.testing.assert_array_equal(played.pools[-1].points, POINTS[rows[np.sort(first)]])
    np.testing.assert_array_equal(domain.pools[-1].points, POINTS)
    assert [pool.told for pool in domain.pools] == list(range(1, 13))


def test_a_box_is_drawn_from() -> None:
    plan = Looking()
    box = Box(np.array([[0.0, 6.0], [0.0, 6.0]]))
    _, rows = told_bandit(KERNELS["drift"], plan, domain=box, about="domain")
    points = plan.pools[-1].points
    played = len(np.unique(rows))
    assert len(points) == played + 256
    box.check(points)
    assert not np.array_equal(points[played:], plan.pools[-2].points[-256:])


def test_the_gain_of_an_answer_is_what_it_brings_on_average() -> None:
    # Against simulation: draw the answer, update the means, take the best of them.
    plan = Looking()
    told_bandit(KERNELS["drift"], plan, about="domain")
    beliefs = plan.seen[-1].after(11)  # with a question that is out already
    rows, everywhere = [2, 5, 19], np.arange(30)
    gains = beliefs.gains(rows, everywhere)
    draws = np.random.default_rng(0).standard_normal(200_000)
    for row, gain in zip(rows, gains, strict=True):
        before, after = beliefs.deviation, beliefs.after(row).deviation
        moves = np.sqrt(np.maximum(before**2 - after**2, 0.0))
        signs = np.sign(beliefs.answers([row])[0][0])
        best = (beliefs.mean + draws[:2000, None] * (signs * moves)).max(axis=1)
        for chunk in range(2000, 200_000, 2000):
            z = draws[chunk : chunk + 2000, None]
            best = np.append(best, (beliefs.mean + z * (signs * moves)).max(axis=1))
        error = best.std() / len(best) ** 0.5
        assert gain == pytest.approx(best.mean() - beliefs.mean.max(), abs=4 * error + 3e-3)
        assert gain >= 0.0
    np.testing.assert_array_equal(beliefs.gains(rows, np.array([4])), np.zeros(3))
