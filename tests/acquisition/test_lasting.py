"""The width of what lasts: against a dense Gaussian process, and as a part of a bandit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.players import SITES
from tests.helpers.players import tides as value
from tvbandits import Bandit, Candidates, Recipe, policies
from tvbandits.acquisition.rules import LastingBound, UpperConfidenceBound
from tvbandits.core.arrays import Array
from tvbandits.gp.ensemble.ensemble import GUESS_OF_A_FUNCTION, FilterEnsemble
from tvbandits.gp.ensemble.models import (
    ModelSpec,
    SpatialSpec,
    function_settings,
    network_settings,
)
from tvbandits.gp.ensemble.rule import LATER, TENTH, EnsemblePosterior, ModelEnsemble, lasting_share
from tvbandits.gp.posteriors.state_space import StateSpace

POINTS = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 0.9], [0.8, 0.7], [0.1, 0.5]])
NEAR, ALONE = SpatialSpec("matern12", 0.5), SpatialSpec("identity")
NOISE = 0.1
MODELS = {
    "rough": ModelSpec(ALONE, NEAR, 0.3, 0.5, 0.4, 0.2, 40.0, 2.0, 5.0),
    "smooth": ModelSpec(ALONE, NEAR, 0.3, 0.5, 0.4, 0.05, 40.0, 4.0, 5.0, smooth=True),
}


@pytest.mark.parametrize("step", [1.0, 0.25])
@pytest.mark.parametrize("name", MODELS)
def test_the_share_is_what_the_future_would_show(name: str, step: float) -> None:
    """All places read in 32 steps after the decision, in one joint normal variable."""
    model, rng = MODELS[name], np.random.default_rng(2)
    bank, rows = FilterEnsemble.of(POINTS, NOISE, [model], step=step), rng.integers(0, 5, 14)
    for t, row in enumerate(rows):
        bank = bank.observe([row], rng.normal(size=1), None, t * step)
    (filters,) = bank.filters
    own = NOISE / float(filters.variance[0])
    every = np.arange(5)
    H = filters.layout.rows(every)
    ahead = filters.moved(1.0)
    given = H @ ahead.covariance[0] @ H.T
    told = model.nugget + own
    rounded = math.exp(TENTH * round(math.log(told) / TENTH))
    F = np.zeros((LATER, *ahead.covariance[0].shape))
    for k in range(LATER):
        F[k] = ahead.layout.moved(np.eye(ahead.layout.size)[None], k + 1.0)[0]
    across = np.concatenate([H @ f @ ahead.covariance[0] @ H.T for f in F])
    spread = np.block(
        [[_later(ahead, H, i, j) for j in range(1, LATER + 1)] for i in range(1, LATER + 1)]
    )
    moved = across.T @ np.linalg.solve(spread + rounded * np.eye(len(spread)), across)
    expected = np.sqrt(np.diag(moved) / np.diag(given))
    found = lasting_share(bank, 14.0 * step)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert (found > 0.05).all()
    assert (found < 1.0).all()


def _later(ahead: object, H: Array, i: int, j: int) -> Array:
    """Covariance of all rewards i steps later with those j steps later."""
    first = min(i, j)
    state = ahead.moved(float(first))  # type: ignore[attr-defined]
    F = state.layout.moved(np.eye(state.layout.size)[None], float(abs(i - j)))[0]
    block = H @ F @ state.covariance[0] @ H.T
    return np.asarray(block if i >= j else block.T)


def test_what_is_forgotten_at_once_has_no_share_and_what_stays_has_all() -> None:
    gone = ModelSpec(ALONE, ALONE, 0.0, 1.0, 0.0, 0.1, 1.0, 0.05, 1.0)
    stays = ModelSpec(ALONE, ALONE, 1.0, 0.0, 0.0, 1e-4, math.inf, 1.0, 1.0)
    shares = []
    for model in (gone, stays):
        bank, rng = FilterEnsemble.of(POINTS, 1e-4, [model]), np.random.default_rng(1)
        for t in range(40):
            bank = bank.observe([0, 1], rng.normal(size=2), None, float(t))
        shares.append(lasting_share(bank, 40.0))
    # Of place 0 the constant is known; the constant of all is what the others still have to tell.
    assert shares[0][0] < 0.3
    assert (shares[1][2:] > 0.99).all()


def test_before_any_observation_everything_lasts() -> None:
    np.testing.assert_array_equal(lasting_share(FilterEnsemble.of(POINTS, NOISE), 3.0), np.ones(5))


def bandit(**more: object) -> Bandit:
    return policies.adaptive_gp_ucb(SITES, None, 0.01, **more)  # type: ignore[arg-type]


def played(made: Bandit, steps: int, start: int = 1) -> Array:
    rows = []
    for t in range(start, start + steps):
        X = made.ask(t)
        made.tell(X, value(X, t), t)
        rows.append(X[0])
    return np.array(rows)


def test_it_plays_the_largest_bound_of_what_lasts_and_is_not_out() -> None:
    made = bandit()
    played(made, 25)
    mattered = np.zeros(2, dtype=bool)
    for t in np.arange(26.0, 66.0):
        made.ask(t - 0.5)  # and its reward is never told
        known = made._model.conditioned(made.state, t, np.random.default_rng(0)).posterior
        assert isinstance(known, EnsemblePosterior)
        (mean, variance), out = known.on_surface(), made.state.pending
        at, rows = np.column_stack([SITES.X, np.full(10, t)]), SITES.index(out.X)
        C = known.cross_covariance(at, at)
        noise = known.pending_noise(at[:0], at[:0], t - out.t, np.full(len(rows), 0.01))
        among = C[np.ix_(rows, rows)] + np.diag(noise + known.own_nugget)
        left = variance - np.einsum("ij,ij->j", C[rows], np.linalg.solve(among, C[rows]))
        share = lasting_share(known.ensemble, t)
        best, *others = (
            int((mean[:, 0] + 2.0 * width * np.sqrt(each)).argmax())
            for width, each in ((share, left), (1.0, left), (share, variance))
        )
        x = made.ask(t)
        assert SITES.index(x)[0] == best
        mattered |= np.array(others) != best
        made.tell(x, value(x, t), t)
    assert mattered.all()


def test_a_few_candidates_are_played_with_rival_models() -> None:
    recipe = bandit().recipe
    assert isinstance(recipe.acquisition, LastingBound)
    assert recipe.posterior == ModelEnsemble("both", season="find")
    assert recipe.learn is None
    assert bandit(confidence=1.5).recipe == replace(recipe, confidence=1.5)
    for other in ({"posterior": StateSpace()}, {"learn": True}, {"mean": 1.0}):
        assert bandit(**other).recipe.learn is not None
    assert bandit(posterior="ensemble").recipe.posterior == ModelEnsemble()
    for kernel, X in ((RBF(1.0), SITES.X), (None, np.arange(20_001.0)[:, None])):
        made = policies.adaptive_gp_ucb(Candidates(X), kernel, 0.01)
        assert made.recipe.learn is not None


def test_many_candidates_are_played_with_a_functions_models_and_the_whole_deviation() -> None:
    made = policies.adaptive_gp_ucb(Candidates(np.arange(65.0)[:, None]), None, 0.01)
    assert made.recipe.posterior == ModelEnsemble("both", season="find")
    assert isinstance(made.recipe.acquisition, UpperConfidenceBound)
    assert made.recipe.learn is None


def test_both_are_a_networks_models_and_a_functions() -> None:
    made = bandit()
    played(made, 2)
    known = made.state.posterior
    assert isinstance(known, EnsemblePosterior)
    assert known.ensemble.settings == network_settings() + function_settings(SITES.dimension)
    assert known.ensemble.powers == FilterEnsemble.of(SITES.X, 0.01).powers
    assert known.ensemble.guess == GUESS_OF_A_FUNCTION
    many = policies.adaptive_gp_ucb(Candidates(np.arange(97.0)[:, None]), None, 0.01)
    played(many, 2)
    assert isinstance(many.state.posterior, EnsemblePosterior)
    assert many.state.posterior.ensemble.settings == function_settings()


def test_it_needs_a_bank() -> None:
    with pytest.raises(ValueError, match=r"give posterior=ModelEnsemble\(\), got Exact\(\)"):
        Recipe(SITES, RBF(1.0), 0.01, acquisition=LastingBound())


def test_models_are_a_word_or_a_list() -> None:
    with pytest.raises(ValueError, match="settings must be models, \"both\" or None, got 'each'"):
        ModelEnsemble("each")  # type: ignore[arg-type]
    for wrong in ((), ("both",), 5, [1.0], network_settings()[0]):
        with pytest.raises(
            ValueError, match=r"settings must be models \(ModelSpec\), at least one"
        ):
            ModelEnsemble(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="season=24 and settings"):
        ModelEnsemble(network_settings(), season=24)
