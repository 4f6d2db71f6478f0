"""`SpreadFirst`, the rule for informative first plays, against dense algebra."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from tests.helpers.refusals import assert_refused
from tests.oracles.dense import Dense
from tvbandits import Bandit, Box, Candidates, Options, Recipe, policies
from tvbandits.acquisition.rules import PersistentBound, SpreadFirst, UpperConfidenceBound
from tvbandits.gp.ensemble.posterior import ModelEnsemble

NOISE = 0.05
SITES = Candidates(np.random.default_rng(3).uniform(0, 1, (40, 2)))
KERNEL = Matern(0.3, nu=2.5)


def bandit_with(rule: SpreadFirst, **parts: object) -> Bandit:
    recipe = Recipe(SITES, KERNEL, NOISE, mean=0.0, beta=2.0, acquisition=rule)
    return Bandit(replace(recipe, **parts))


def row_of_ask(bandit: Bandit, t: float = 99.0, **more: object) -> int:
    return int(SITES.index(bandit.ask(t, **more))[0])  # type: ignore[arg-type]


def remaining_variance(rows: list[int], more: int) -> float:
    """Return the total variance at all sites after readings of noise variance 0.01."""
    X = SITES.X[[*rows, more]]
    return float(
        Dense(KERNEL, X, np.zeros((len(X), 1)), np.full(len(X), 0.01)).variance(SITES.X).sum()
    )


def test_spread_first_minimizes_the_total_variance() -> None:
    bandit, rows = bandit_with(SpreadFirst(4)), list[int]()
    for t in range(1, 5):
        x = bandit.ask(t)
        best = int(SITES.index(x)[0])
        totals = [remaining_variance(rows, other) for other in range(len(SITES))]
        assert totals[best] == pytest.approx(min(totals), abs=1e-9)
        rows.append(best)
        bandit.tell(x, [0.3], t)
    assert SITES.index(bandit_with(SpreadFirst(4)).ask(1, n=4)).tolist() == rows
    other_bandit = bandit_with(SpreadFirst(4))
    assert [row_of_ask(other_bandit, 1.0) for _ in rows] == rows  # pending points count


def test_spread_first_plays_distinct_available_points() -> None:
    available = np.arange(5, 20)
    bandit = bandit_with(SpreadFirst())
    bandit.tell(SITES.X[:3], [0.1, 0.9, 0.2], [1, 1, 1])
    batch = SITES.index(bandit.ask(2, n=8, available=available))
    assert len(set(batch.tolist())) == 8
    assert set(batch.tolist()) <= set(available.tolist())


def test_spread_first_plays_other_points_after_failed_readings() -> None:
    bandit, rows = bandit_with(SpreadFirst(3)), list[int]()
    for t in range(1, 9):
        rows.append(row_of_ask(bandit, t))
        bandit.tell(SITES.X[rows[-1:]], [np.nan], t)
    assert len(set(rows)) == 8


def test_spread_first_hands_over_to_an_upper_bound() -> None:
    spread, plain = bandit_with(SpreadFirst(3)), bandit_with(UpperConfidenceBound())  # type: ignore[arg-type]
    for each in (spread, plain):
        each.tell(SITES.X[:3], [0.1, 0.9, 0.2], [1, 1, 1])
    assert row_of_ask(spread, 2.0) == row_of_ask(plain, 2.0)
    assert row_of_ask(bandit_with(SpreadFirst(4)), 2.0) != row_of_ask(plain, 3.0)


def test_spread_first_stays_if_moves_are_costly() -> None:
    costly = bandit_with(SpreadFirst(), options=Options(move_cost=50.0))
    costly.tell(SITES.X[:1], [0.5], 1)
    assert row_of_ask(costly, 2.0) == 0
    free = bandit_with(SpreadFirst())
    free.tell(SITES.X[:1], [0.5], 1)
    assert row_of_ask(free, 2.0) != 0


def test_adaptive_gp_ucb_spreads_first_plays_on_many_candidates_only() -> None:
    line = Candidates(np.linspace(0, 1, 401)[:, None])
    bandit = policies.adaptive_gp_ucb(line, noise_variance=0.01, seed=1)
    assert bandit.recipe.acquisition == SpreadFirst()
    assert bandit.recipe.posterior == ModelEnsemble(both=True)
    assert bandit.recipe.learn is None
    few = policies.adaptive_gp_ucb(Candidates(line.X[:64]), noise_variance=0.01)
    assert few.recipe.acquisition == PersistentBound()
    first = []
    for t in range(1, 41):
        x = bandit.ask(t)
        first.append(float(x[0, 0]))
        bandit.tell(x, 2.0 * np.exp(-0.5 * ((x[:, 0] - 0.37) / 0.05) ** 2), t)
    assert np.diff(sorted([0.0, *first[:5], 1.0])).max() < 0.3
    assert abs(bandit.recommend()[0] - 0.37) < 0.05


def test_spread_first_refuses_a_count_of_zero_and_a_box() -> None:
    assert_refused(ValueError, r"count must be .*0", SpreadFirst, 0)
    with pytest.raises(ValueError, match=r"Candidates, .*Box"):
        Recipe(Box([(0, 1)]), RBF(0.3), 0.01, acquisition=SpreadFirst())
