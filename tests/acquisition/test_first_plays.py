"""First plays that tell most, held against dense algebra."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from tests.helpers.refusals import refused
from tests.oracles.dense import Dense
from tvbandits import Bandit, Box, Candidates, Options, Recipe, policies
from tvbandits.acquisition.rules import PersistentBound, SpreadFirst, UpperConfidenceBound
from tvbandits.gp.ensemble.posterior import ModelEnsemble

NOISE = 0.05
SITES = Candidates(np.random.default_rng(3).uniform(0, 1, (40, 2)))
KERNEL = Matern(0.3, nu=2.5)


def bandit(rule: SpreadFirst, **parts: object) -> Bandit:
    recipe = Recipe(SITES, KERNEL, NOISE, mean=0.0, beta=2.0, acquisition=rule)
    return Bandit(replace(recipe, **parts))


def row(made: Bandit, t: float = 99.0, **more: object) -> int:
    return int(SITES.index(made.ask(t, **more))[0])  # type: ignore[arg-type]


def left(rows: list[int], more: int) -> float:
    """Variance at all sites together, once some are read, with a hundredth of the variance as noise."""
    X = SITES.X[[*rows, more]]
    return float(
        Dense(KERNEL, X, np.zeros((len(X), 1)), np.full(len(X), 0.01)).variance(SITES.X).sum()
    )


def test_the_first_plays_leave_the_least_variance_together() -> None:
    made, rows = bandit(SpreadFirst(4)), list[int]()
    for t in range(1, 5):
        x = made.ask(t)
        at = int(SITES.index(x)[0])
        rest = [left(rows, other) for other in range(len(SITES))]
        assert rest[at] == pytest.approx(min(rest), abs=1e-9)
        rows.append(at)
        made.tell(x, [0.3], t)
    assert SITES.index(bandit(SpreadFirst(4)).ask(1, n=4)).tolist() == rows
    out = bandit(SpreadFirst(4))
    assert [row(out, 1.0) for _ in rows] == rows  # points that are out count


def test_what_is_not_available_is_not_played_and_a_batch_is_of_different_points() -> None:
    some = np.arange(5, 20)
    made = bandit(SpreadFirst())
    made.tell(SITES.X[:3], [0.1, 0.9, 0.2], [1, 1, 1])
    batch = SITES.index(made.ask(2, n=8, available=some))
    assert len(set(batch.tolist())) == 8
    assert set(batch.tolist()) <= set(some.tolist())


def test_where_a_reading_failed_others_come_first() -> None:
    made, rows = bandit(SpreadFirst(3)), list[int]()
    for t in range(1, 9):
        rows.append(row(made, t))
        made.tell(SITES.X[rows[-1:]], [np.nan], t)
    assert len(set(rows)) == 8


def test_after_them_an_upper_bound_decides() -> None:
    spread, plain = bandit(SpreadFirst(3)), bandit(UpperConfidenceBound())  # type: ignore[arg-type]
    for made in (spread, plain):
        made.tell(SITES.X[:3], [0.1, 0.9, 0.2], [1, 1, 1])
    assert row(spread, 2.0) == row(plain, 2.0)
    assert row(bandit(SpreadFirst(4)), 2.0) != row(plain, 3.0)


def test_where_a_move_costs_nobody_travels_to_learn() -> None:
    made = bandit(SpreadFirst(), options=Options(move_cost=50.0))
    made.tell(SITES.X[:1], [0.5], 1)
    assert row(made, 2.0) == 0
    free = bandit(SpreadFirst())
    free.tell(SITES.X[:1], [0.5], 1)
    assert row(free, 2.0) != 0


def test_on_an_ensemble_a_function_is_played_so_and_a_network_is_not() -> None:
    line = Candidates(np.linspace(0, 1, 401)[:, None])
    made = policies.adaptive_gp_ucb(line, noise_variance=0.01, seed=1)
    assert made.recipe.acquisition == SpreadFirst()
    assert made.recipe.posterior == ModelEnsemble(both=True)
    assert made.recipe.learn is None
    few = policies.adaptive_gp_ucb(Candidates(line.X[:64]), noise_variance=0.01)
    assert few.recipe.acquisition == PersistentBound()
    first = []
    for t in range(1, 41):
        x = made.ask(t)
        first.append(float(x[0, 0]))
        made.tell(x, 2.0 * np.exp(-0.5 * ((x[:, 0] - 0.37) / 0.05) ** 2), t)
    assert np.diff(sorted([0.0, *first[:5], 1.0])).max() < 0.3
    assert abs(made.recommend()[0] - 0.37) < 0.05


def test_wrong_numbers_and_domains_are_named() -> None:
    refused(ValueError, r"count must be .*0", SpreadFirst, 0)
    with pytest.raises(ValueError, match=r"Candidates, .*Box"):
        Recipe(Box([(0, 1)]), RBF(0.3), 0.01, acquisition=SpreadFirst())
