"""Limits on further outcomes: what is played, what is believed, and what is kept of it."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import refused
from tests.oracles.limits import plain_trajectory
from tvbandits import (
    Arms,
    Bandit,
    Box,
    Candidates,
    Dataset,
    Limit,
    LimitWarning,
    Options,
    Recipe,
    Space,
    policies,
    rate,
)
from tvbandits.acquisition.constraints import (
    CONFIG,
    OutcomePosterior,
    probability_after,
    probability_of,
)
from tvbandits.domains.availability import NothingAvailableError
from tvbandits.gp.exact import Exact
from tvbandits.gp.state_space import StateSpace

SITES = Candidates(np.linspace(0.0, 10.0, 21)[:, None])
LOAD = Limit("load", at_most=0.0, noise_variance=0.01)
SURE = replace(LOAD, each=True)
SAFE = [[0.0], [1.0]]


def limited(**parts: object) -> Bandit:
    given = {"limits": [LOAD], "safe": SAFE} | parts
    options = Options(**given)  # type: ignore[arg-type]
    return Bandit(Recipe(SITES, RBF(2.0), 0.01, options=options), seed=3)


def reward(X: np.ndarray) -> np.ndarray:
    return np.exp(-((X[:, 0] - 8.0) ** 2) / 18.0)


def load_of(X: np.ndarray, t: float) -> np.ndarray:
    return X[:, 0] - 6.0 + 0.0 * t


def played(bandit: Bandit, steps: int, start: int = 1) -> np.ndarray:
    rows = []
    for t in range(start, start + steps):
        X = bandit.ask(t)
        bandit.tell(X, reward(X), t, outcomes={"load": load_of(X, t)})
        rows.append(X[0])
    return np.array(rows)


def test_candidates_come_and_go_under_limits() -> None:
    bandit = policies.gp_ucb(SITES, kernel=RBF(1.0), noise_variance=0.01)
    bandit = bandit.with_options(limits=[Limit("q", at_most=60.0)], safe=SITES.X[9:14])
    bandit = bandit.with_candidates(np.linspace(5.0, 15.0, 21)[:, None])
    assert 5.0 <= bandit.ask(1)[0, 0] <= 6.5  # of the safe ones, those that are left


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize(
    "domain",
    [
        Candidates([[0.0], [1.0], [2.0]], context={"outside": (-9, 9)}),
        Box([(0, 2)], context={"outside": (-9, 9)}),
        Space(flow=(0, 2), context={"outside": (-9, 9)}),
    ],
    ids=str,
)
def test_where_a_context_is_measured_the_start_is_of_places(domain: Any, short: bool) -> None:
    start = np.array([[1.0, 3.0], [2.0, 3.0]])[:, : 1 if short else 2]
    limit = Limit("load", at_most=9.0, noise_variance=1.0)
    bandit = policies.adaptive_gp_ucb(domain, noise_variance=0.01).with_options(
        limits=[limit], safe=start
    )
    for t, place in ((1, 1.0), (2, 2.0)):
        X = bandit.ask(t, context={"outside": 4.0 + t})
        assert X.tolist() == [[place, 4.0 + t]]
        bandit.tell(X, [0.2], t, outcomes={"load": [1.0]})
    assert bandit.ask(3, context={"outside": -8.0})[0, 1] == -8.0


def test_a_limit_that_wanders_is_followed() -> None:
    adaptive = policies.adaptive_gp_ucb(
        SITES, noise_variance=0.01, options=Options(posterior=StateSpace())
    )
    bandit, wrong, near = adaptive.with_options(limits=[LOAD]), 0, 0
    start = SITES.X[:11:2]
    bandit.tell(start, reward(start), 0, outcomes={"load": load_of(start, 0)})
    for t in range(1, 51):
        wall = 6.0 + np.sin(t / 8.0)
        X = bandit.ask(t)
        wrong += bool(X[0, 0] > wall)
        near += bool(X[0, 0] > wall - 1.5)
        bandit.tell(X, reward(X), t, outcomes={"load": X[:, 0] - wall})
    assert wrong <= 3
    assert near > 30


def test_two_plain_bandits_and_a_mask_play_the_same() -> None:
    told = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [4.5]])
    bandit = limited(limits=[SURE], safe=())
    bandit.tell(told, reward(told), 1, outcomes={"load": load_of(told, 1)})
    expected = plain_trajectory(SITES, LOAD, told, reward, load_of, steps=12, seed=3)
    assert played(bandit, 12, start=2).tolist() == expected.tolist()


def test_a_limit_that_always_holds_changes_nothing() -> None:
    told = SITES.X[::4]
    far = replace(LOAD, at_most=1e6)
    with_limit, without = limited(limits=[far], safe=()), limited(limits=(), safe=())
    with_limit.tell(told, reward(told), 1, outcomes={"load": load_of(told, 1)})
    without.tell(told, reward(told), 1)
    for t in range(2, 22):
        X = with_limit.ask(t)
        assert (without.ask(t) == X).all()
        with_limit.tell(X, reward(X), t, outcomes={"load": load_of(X, t)})
        without.tell(X, reward(X), t)
    assert with_limit.state.rewards.y.tolist() == without.state.rewards.y.tolist()


def test_where_all_of_few_points_were_read_limits_are_known_to_hold() -> None:
    bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    bandit = bandit.with_options(limits=[replace(SURE, at_most=1e6)])
    bandit.tell([[0.0], [1.0]], [0.0, 1.0], 1, outcomes={"load": [0.1, 0.2]})
    assert bandit.ask(2).tolist() == [[1.0]]  # and no warning


@pytest.mark.parametrize(("low", "high"), [(None, 1.0), (-0.5, None), (-0.5, 1.0)])
def test_probabilities_are_students(low: float | None, high: float | None) -> None:
    limit = Limit("load", at_most=high, at_least=low)
    mean, deviation = np.array([0.3, -2.0]), np.array([0.5, 1e-9])
    ends = [np.inf if high is None else high, -np.inf if low is None else low]
    above, below = (stats.t(7).cdf((end - mean) / deviation) for end in ends)
    assert probability_of(limit, mean, deviation, 7.0) == pytest.approx(above - below)


def test_the_chance_to_open_is_that_of_readings_drawn() -> None:
    rng, moves = np.random.default_rng(0), 0.6
    mean, deviation = 0.4, 0.8
    left = np.sqrt(deviation**2 - moves**2)
    drawn = mean + moves * rng.standard_normal(200_000)
    known = probability_of(LOAD, drawn, np.full(len(drawn), left), 9.0) >= LOAD.probability
    said = probability_after(
        LOAD, np.array([mean]), np.array([deviation]), np.array([[moves]]), 9.0
    )
    assert said[0, 0] == pytest.approx(known.mean(), abs=0.003)


@pytest.mark.parametrize("posterior", [None, StateSpace()])
def test_outcomes_have_beliefs_of_their_own_that_forget(posterior: StateSpace | None) -> None:
    """Where an ensemble believes the reward, one kernel is fitted to the outcome, as on a box."""
    bandit = policies.adaptive_gp_ucb(
        SITES, noise_variance=0.01, options=Options(posterior=posterior)
    )
    bandit = bandit.with_options(limits=[LOAD])
    for t in range(1, 13):
        X = SITES.X[[t, 20 - t]]
        bandit.tell(X, reward(X), t, outcomes={"load": load_of(X, t)})
    if posterior is None:
        alone = Bandit(bandit.recipe.make_outcome_recipe(LOAD))
        assert isinstance(alone.recipe.posterior, Exact)
        assert alone.recipe.learn is not None
    else:
        alone = policies.adaptive_gp_ucb(
            SITES, noise_variance=LOAD.noise_variance, options=Options(posterior=posterior)
        )
    for x, t, y in zip(
        *(vars(bandit.state.outcomes["load"].rewards)[k] for k in "Xty"), strict=True
    ):
        alone.tell(x[None], [y], t)
    mean, deviation = bandit.predict(SITES.X, 20, outcome="load")
    assert mean == pytest.approx(alone.predict(SITES.X, 20)[0], rel=1e-6, abs=1e-8)
    assert deviation == pytest.approx(alone.predict(SITES.X, 20)[1], rel=1e-6)


def test_an_outcome_of_many_points_has_length_scales_of_its_own() -> None:
    domain = Candidates(np.linspace(0.0, 10.0, 101)[:, None])
    bandit = policies.tv_gp_ucb(
        domain, kernel=RBF(5.0), noise_variance=0.01, forgetting_rate=0.01
    ).with_options(limits=[LOAD])
    rough = np.sin(3.0 * domain.X[:, 0])
    for t in range(1, 41):
        rows = [7 * t % 101, 31 * t % 101]
        bandit.tell(domain.X[rows], [0.5, 0.5], t, outcomes={"load": rough[rows]})
    mean, _ = bandit.predict(domain.X, 41, outcome="load")
    assert np.abs(mean - rough).mean() < 0.1  # with the kernel of the reward 0.84


def test_an_outcome_that_was_not_read_is_told_as_nan_or_not_at_all() -> None:
    bandit = limited()
    for outcomes in ({"load": [np.nan]}, {}, None):
        X = bandit.ask()
        assert X.tolist() == SAFE[:1]
        bandit.tell(X, [0.5], outcomes=outcomes)
    assert len(bandit.state.rewards) == 3
    assert len(bandit.state.outcomes["load"].rewards) == 0


def test_without_a_start_it_says_that_it_guesses() -> None:
    bandit = limited(safe=())
    with pytest.warns(LimitWarning, match="there is no reading of load yet.*safe=") as given:
        bandit.ask(1)
    assert [each.filename for each in given] == [__file__]  # it speaks of the line that asked


def test_where_no_point_is_known_to_hold_the_likeliest_is_played() -> None:
    bandit = limited()
    bandit.tell(SITES.X, reward(SITES.X), 1, outcomes={"load": 5.0 + 0.1 * SITES.X[:, 0]})
    says = (
        r"no point is known.*most likely to \(the limit on load holds there with a probability of "
        r"[0-9.e-]+, and 0\.5 is needed\)"
    )
    with pytest.warns(LimitWarning, match=says):
        X = bandit.ask(2)
    assert X[0, 0] < 3.0
    assert len(bandit.ask(2, n=3)) == 3  # of the same outage nobody is warned again


def test_what_is_available_is_kept_to_as_well() -> None:
    bandit = limited()
    played(bandit, 25)
    X = bandit.ask(26, available=lambda X: X[:, 0] > 2.0)
    assert 2.0 < X[0, 0] < 7.0
    with pytest.raises(NothingAvailableError):
        bandit.ask(26, available=lambda X: X[:, 0] > 99.0)


def test_points_that_are_out_spread_a_batch_and_make_nothing_safer() -> None:
    bandit = limited()
    played(bandit, 25)
    before = bandit.predict(SITES.X, 26, outcome="load")[1]
    X = bandit.ask(26, n=4)
    assert len(np.unique(X)) == 4
    assert (load_of(X, 26) <= 0.3).all()
    assert before == pytest.approx(bandit.predict(SITES.X, 26, outcome="load")[1])


def test_history_has_readings_and_violations() -> None:
    bandit = limited()
    bandit.tell([[0.0], [9.0]], [0.1, np.nan], 1, outcomes={"load": [-3.0, 2.0]})
    bandit.tell([[1.0]], [0.1], 2)
    bandit.ask(3)
    table = bandit.history
    assert table["violations"].tolist() == [0, 1, 0, 0]
    assert table["load"].tolist()[:2] == [-3.0, 2.0]
    assert table["load"].isna().tolist() == [False, False, True, True]


def test_what_is_wrong_is_refused_and_nothing_moves() -> None:
    bandit = limited()
    played(bandit, 3)
    before = bandit.state
    for outcomes, says in (
        ({"weight": [1.0]}, "no limit on 'weight'; there are limits on load"),
        ({"load": [1.0, 2.0]}, "load must have shape"),
        ({"load": [np.inf]}, "load"),
        (3.0, "outcomes must be a mapping"),
        ({2: [1.0]}, "each name of outcomes must be a text"),
    ):
        refused(ValueError, says, bandit.tell, [[0.0]], [0.2], 4, outcomes=outcomes)
        refused(ValueError, r"no limit|outcomes|load", bandit.correct, [[0.0]], outcomes=outcomes)
    said = "unknown outcome: there is no limit on 'weight'"
    refused(ValueError, said, bandit.predict, SITES.X, 4, outcome="weight")
    assert bandit.state == before


@pytest.mark.parametrize(
    ("limits", "safe", "says"),
    [
        ([LOAD, LOAD], (), "different outcomes"),
        (["load"], (), "each of limits must"),
        ([replace(LOAD, name="x0")], (), "got x0"),
        ([], SAFE, "safe"),
        ([LOAD], [[99.0]], "safe"),
        ([LOAD], 3, "safe"),
        ([LOAD], [[1.0], [1.0, 2.0]], "safe must"),
        (3, (), "limits must"),
    ],
)
def test_recipes_refuse_what_is_no_limit(limits: list[object], safe: object, says: str) -> None:
    refused(ValueError, says, limited, limits=limits, safe=safe)


@pytest.mark.parametrize(
    ("domain", "name"),
    [(SITES, "site"), (Arms(["a", "b"]), "arm"), (Box([(0, 1)], context={"wind": (0, 1)}), "wind")],
)
def test_no_outcome_is_called_as_another_column(domain: Candidates | Box, name: str) -> None:
    bandit = policies.gp_ucb(domain, kernel=RBF(1.0), noise_variance=0.01).with_options(
        limits=[replace(LOAD, name="a")]
    )
    refused(ValueError, name, bandit.with_options, limits=[replace(LOAD, name=name)])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "at_most or at_least"),
        ({"at_most": 1.0, "at_least": 2.0}, "at_most or at_least"),
        ({"at_most": np.nan}, "at_most"),
        ({"at_most": 1.0, "probability": 1.0}, "probability"),
        ({"at_most": 1.0, "noise_variance": 0.0}, "noise_variance"),
        ({"at_most": 1.0, "name": "two words"}, "must be a word"),
    ],
)
def test_limits_refuse_what_is_no_bound(given: dict[str, object], says: str) -> None:
    refused(ValueError, says, Limit, **{"name": "load"} | given)


def test_readings_are_corrected_and_taken_back_with_their_plays() -> None:
    bandit, twin, less, none = (limited() for _ in range(4))
    less.tell([[0.0]], [0.1], 1, outcomes={"load": [-5.0]})
    bandit.tell([[0.0]], [0.1], 1, outcomes={"load": [99.0]})
    twin.tell([[0.0]], [0.1], 1, outcomes={"load": [-5.0]})
    bandit.tell([[1.0], [1.0]], [0.3, 0.3], 2)  # the outcome comes later
    twin.tell([[1.0], [1.0]], [0.3, 0.3], 2, outcomes={"load": [-3.0, -4.0]})
    bandit.correct([[1.0], [1.0], [0.0]], outcomes={"load": [-4.0, -3.0, -5.0]})
    assert bandit.state.outcomes == twin.state.outcomes  # of two there, the latest comes first
    bandit.tell([[1.0]], [0.4], 2)
    bandit.retract([[1.0]], 2)  # nothing else was read with it
    assert bandit.state.outcomes == twin.state.outcomes
    bandit.correct([[1.0]], to=3)
    assert bandit.state.outcomes["load"].rewards.t.tolist() == [1.0, 2.0, 3.0]
    bandit.retract([[1.0], [1.0]])
    assert bandit.state.outcomes == less.state.outcomes
    bandit.retract([[0.0]])
    assert bandit.state.outcomes == none.state.outcomes


def test_a_correction_takes_back_no_risk() -> None:
    bandit = limited()
    played(bandit, 8)
    before = bandit.state
    bandit.correct(before.rewards.X[:1], before.rewards.y[:1], before.rewards.t[:1])
    assert bandit.state.outcomes["load"].model.risk == before.outcomes["load"].model.risk != 0.0


def test_each_bandit_warns_of_its_own() -> None:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("default")
        for _ in range(2):
            limited(safe=()).ask(1)
    assert [each.category for each in given] == [LimitWarning] * 2


@pytest.mark.parametrize("domain", [SITES, Box([(0.0, 10.0)])])
def test_a_safe_start_is_within_reach_too(domain: Candidates | Box) -> None:
    recipe = Recipe(domain, RBF(2.0), 0.01, options=Options([LOAD], safe=[[0.0], [3.0], [9.0]]))
    bandit = Bandit(recipe, seed=0)
    bandit.tell([[4.0]], [0.0], 1, outcomes={"load": [-2.0]})
    assert bandit.ask(2, near=1.5).tolist() == [[3.0]]
    bandit.drop(bandit.pending)
    bandit.tell([[3.0]], [0.0], 2, outcomes={"load": [-3.0]})
    assert abs(bandit.ask(3, near=2.5)[0, 0] - 3.0) <= 2.5


def test_a_rule_that_weighs_no_rewards_is_sure_of_each_play() -> None:
    bandit = policies.boba(SITES, noise_variance=0.01)
    bandit = bandit.with_options(limits=[LOAD], safe=SAFE)
    played(bandit, 12)
    assert [limit.each for limit, _ in bandit._outcome_models._parts.values()] == [True]
    assert bandit.state.outcomes["load"].model.risk == 0.0


def test_an_outage_is_warned_of_once() -> None:
    bandit = limited(safe=())
    bandit.tell(SITES.X[:3], np.zeros(3), 1, outcomes={"load": [9.0, 9.0, 9.0]})
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for t in (2, 3):
            bandit.ask(t)
        bandit.tell(SITES.X, np.zeros(21), 4, outcomes={"load": np.full(21, -9.0)})
        bandit.ask(5)
        bandit.tell(SITES.X, np.zeros(21), 6, outcomes={"load": np.full(21, 90.0)})
        bandit.ask(7)
    said = [str(each.message) for each in given if each.category is LimitWarning]
    assert [text.partition(":")[0][-5:] for text in said] == ["t = 2", "t = 7"]


def test_none_was_not_read() -> None:
    bandit = limited()
    bandit.tell(SITES.X[:2], [0.1, 0.2], 1, outcomes={"load": [None, -1.0]})
    assert bandit.history["load"].isna().tolist() == [True, False]


@pytest.mark.parametrize("domain", [SITES, Box([(0.0, 10.0)])])
def test_all_plays_share_the_risk_at_a_price(domain: Candidates | Box) -> None:
    """The oracle: the best of a grid a step away, by the price of what plays before risked."""
    bandit = Bandit(Recipe(domain, RBF(2.0), 0.01, options=Options([LOAD], safe=SAFE)), seed=3)
    grid, risk = np.linspace(0.0, 10.0, 21 if domain is SITES else 2001)[:, None], 0.0
    for t in range(1, 31):
        believed = bandit._outcome_models.condition(bandit.state, float(t))[1].outcomes
        if t > len(SAFE):
            mean, deviation = bandit.predict(grid, t)
            upper, chance = mean + 2.0 * deviation, 1.0 - believed[0].probability(grid)
            count = believed[0].violations(grid)
            worth = upper - np.std(upper) * np.exp(believed[0].excess) * count
            new = ~np.isin(grid[:, 0], bandit.state.rewards.X[:, 0])
            spread = believed[0].view.predict(grid)[1]
            share = 1.0 - (spread / spread.max()) ** 2
            near = ~new | (share >= 0.5 * share[new].max(initial=0.0))
            best = float(worth[near & (chance <= 0.5)].max())
        X = bandit.ask(t)
        if t > len(SAFE):
            assert 1.0 - float(believed[0].probability(X)[0]) <= 0.5
            there = float(believed[0].violations(X)[0])
            assert domain is not SITES or worth[grid[:, 0] == X[0]] == best
            assert worth[np.abs(grid - X).argmin()] == pytest.approx(best, abs=0.05)
            risk = max(risk + there - 0.05, -CONFIG.most_saved)
        assert bandit.state.outcomes["load"].model.risk == pytest.approx(risk)
        bandit.tell(X, reward(X), t, outcomes={"load": load_of(X, t)})
    assert (bandit.history["violations"].sum()) <= 0.05 * 30 + 1
    assert bandit.recommend(31) == pytest.approx(6.0, abs=0.5)
    plain = limited(limits=[SURE])
    played(plain, 30)
    assert plain.state.outcomes["load"].model.risk == 0.0


@pytest.mark.parametrize(
    ("risk", "violations", "excess"),
    [
        (-0.3, 0, -0.3),  # what is saved
        (0.2, 0, 0.2),
        (-0.3, 2, -0.05),  # of 21 readings 1.05 +- 1 may violate it
        (-0.3, 3, 0.95),
        (0.0, 21, CONFIG.most_excess),
    ],
)
def test_a_violation_costs_more_after_many(risk: float, violations: int, excess: float) -> None:
    y = np.where(np.arange(21) < violations, 1.0, -1.0)
    seen = Dataset(np.zeros((21, 1)), np.arange(21.0), y, np.ones(21))
    view = joint = None
    beliefs = OutcomePosterior(LOAD, SITES, seen, view, joint, risk)  # type: ignore[arg-type]
    assert beliefs.excess == pytest.approx(excess, abs=2e-3)
    assert beliefs.least == 0.5
    assert replace(beliefs, limit=SURE).least == SURE.probability


def test_an_outcome_that_is_counted_is_as_noisy_as_its_counts() -> None:
    """Counts have a variance of their own; the noise sets the least unit of an outcome."""
    bandit = limited(limits=[Limit("load", at_most=0.3)])
    counts = rate([1, 2, 4, 6], [100, 100, 100, 100])
    bandit.tell(SITES.X[:4], reward(SITES.X[:4]), 1, outcomes={"load": counts})
    noise = bandit.state.outcomes["load"].model.noise
    assert noise is not None
    assert noise.variance == pytest.approx(counts.variance.mean())
    deviation = bandit.predict(SITES.X, 2, outcome="load")[1]
    assert deviation.max() < 0.15  # of shares from 0.01 to 0.06
