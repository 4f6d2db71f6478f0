"""Limits on further outcomes: the points played, the posteriors of outcomes, and the history."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
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
EACH_PLAY = replace(LOAD, each=True)
SAFE = [[0.0], [1.0]]


def bandit_with_limits(**parts: object) -> Bandit:
    values = {"limits": [LOAD], "safe": SAFE} | parts
    options = Options(**values)  # type: ignore[arg-type]
    return Bandit(Recipe(SITES, RBF(2.0), 0.01, options=options), seed=3)


def reward(X: np.ndarray) -> np.ndarray:
    return np.exp(-((X[:, 0] - 8.0) ** 2) / 18.0)


def load_of(X: np.ndarray, t: float) -> np.ndarray:
    return X[:, 0] - 6.0 + 0.0 * t


def play(bandit: Bandit, steps: int, start: int = 1) -> np.ndarray:
    rows = []
    for t in range(start, start + steps):
        X = bandit.ask(t)
        bandit.tell(X, reward(X), t, outcomes={"load": load_of(X, t)})
        rows.append(X[0])
    return np.array(rows)


def test_with_candidates_keeps_limits_and_safe_points() -> None:
    bandit = policies.gp_ucb(SITES, kernel=RBF(1.0), noise_variance=0.01)
    bandit = bandit.with_options(limits=[Limit("q", at_most=60.0)], safe=SITES.X[9:14])
    bandit = bandit.with_candidates(np.linspace(5.0, 15.0, 21)[:, None])
    assert 5.0 <= bandit.ask(1)[0, 0] <= 6.5  # a safe point that is still a candidate


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
def test_safe_start_with_a_measured_context_has_points_without_context(
    domain: Any, short: bool
) -> None:
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


def test_ask_under_a_drifting_limit_follows_its_boundary() -> None:
    adaptive = policies.adaptive_gp_ucb(
        SITES, noise_variance=0.01, options=Options(posterior=StateSpace())
    )
    bandit, violations, close_plays = adaptive.with_options(limits=[LOAD]), 0, 0
    start = SITES.X[:11:2]
    bandit.tell(start, reward(start), 0, outcomes={"load": load_of(start, 0)})
    for t in range(1, 51):
        wall = 6.0 + np.sin(t / 8.0)
        X = bandit.ask(t)
        violations += bool(X[0, 0] > wall)
        close_plays += bool(X[0, 0] > wall - 1.5)
        bandit.tell(X, reward(X), t, outcomes={"load": X[:, 0] - wall})
    assert violations <= 3
    assert close_plays > 30


def test_ask_under_a_limit_matches_the_plain_restatement() -> None:
    start = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [4.5]])
    bandit = bandit_with_limits(limits=[EACH_PLAY], safe=())
    bandit.tell(start, reward(start), 1, outcomes={"load": load_of(start, 1)})
    expected = plain_trajectory(SITES, LOAD, start, reward, load_of, steps=12, seed=3)
    assert play(bandit, 12, start=2).tolist() == expected.tolist()


def test_ask_under_an_inactive_limit_plays_as_without_it() -> None:
    start = SITES.X[::4]
    inactive = replace(LOAD, at_most=1e6)
    with_limit, without_limit = (
        bandit_with_limits(limits=[inactive], safe=()),
        bandit_with_limits(limits=(), safe=()),
    )
    with_limit.tell(start, reward(start), 1, outcomes={"load": load_of(start, 1)})
    without_limit.tell(start, reward(start), 1)
    for t in range(2, 22):
        X = with_limit.ask(t)
        assert (without_limit.ask(t) == X).all()
        with_limit.tell(X, reward(X), t, outcomes={"load": load_of(X, t)})
        without_limit.tell(X, reward(X), t)
    assert with_limit.state.rewards.y.tolist() == without_limit.state.rewards.y.tolist()


def test_ask_under_a_limit_at_two_known_points_does_not_warn() -> None:
    bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    bandit = bandit.with_options(limits=[replace(EACH_PLAY, at_most=1e6)])
    bandit.tell([[0.0], [1.0]], [0.0, 1.0], 1, outcomes={"load": [0.1, 0.2]})
    assert bandit.ask(2).tolist() == [[1.0]]  # without a warning


@pytest.mark.parametrize(("low", "high"), [(None, 1.0), (-0.5, None), (-0.5, 1.0)])
def test_probability_of_is_that_of_student_t(low: float | None, high: float | None) -> None:
    limit = Limit("load", at_most=high, at_least=low)
    mean, deviation = np.array([0.3, -2.0]), np.array([0.5, 1e-9])
    ends = [np.inf if high is None else high, -np.inf if low is None else low]
    above, below = (stats.t(7).cdf((end - mean) / deviation) for end in ends)
    assert probability_of(limit, mean, deviation, 7.0) == pytest.approx(above - below)


def test_probability_after_matches_sampled_readings() -> None:
    rng, moves = np.random.default_rng(0), 0.6
    mean, deviation = 0.4, 0.8
    remaining = np.sqrt(deviation**2 - moves**2)
    means = mean + moves * rng.standard_normal(200_000)
    holds = probability_of(LOAD, means, np.full(len(means), remaining), 9.0) >= LOAD.probability
    chance = probability_after(
        LOAD, np.array([mean]), np.array([deviation]), np.array([[moves]]), 9.0
    )
    assert chance[0, 0] == pytest.approx(holds.mean(), abs=0.003)


@pytest.mark.parametrize("posterior", [None, StateSpace()])
def test_predict_of_an_outcome_matches_a_bandit_of_the_outcome_alone(
    posterior: StateSpace | None,
) -> None:
    """If the reward has an ensemble, one kernel is fitted to the outcome, as on a box."""
    bandit = policies.adaptive_gp_ucb(
        SITES, noise_variance=0.01, options=Options(posterior=posterior)
    )
    bandit = bandit.with_options(limits=[LOAD])
    for t in range(1, 13):
        X = SITES.X[[t, 20 - t]]
        bandit.tell(X, reward(X), t, outcomes={"load": load_of(X, t)})
    if posterior is None:
        single = Bandit(bandit.recipe.make_outcome_recipe(LOAD))
        assert isinstance(single.recipe.posterior, Exact)
        assert single.recipe.learn is not None
    else:
        single = policies.adaptive_gp_ucb(
            SITES, noise_variance=LOAD.noise_variance, options=Options(posterior=posterior)
        )
    for x, t, y in zip(
        *(vars(bandit.state.outcomes["load"].rewards)[k] for k in "Xty"), strict=True
    ):
        single.tell(x[None], [y], t)
    mean, deviation = bandit.predict(SITES.X, 20, outcome="load")
    assert mean == pytest.approx(single.predict(SITES.X, 20)[0], rel=1e-6, abs=1e-8)
    assert deviation == pytest.approx(single.predict(SITES.X, 20)[1], rel=1e-6)


def test_outcome_of_many_points_has_its_own_length_scales() -> None:
    domain = Candidates(np.linspace(0.0, 10.0, 101)[:, None])
    bandit = policies.tv_gp_ucb(
        domain, kernel=RBF(5.0), noise_variance=0.01, forgetting_rate=0.01
    ).with_options(limits=[LOAD])
    rough = np.sin(3.0 * domain.X[:, 0])
    for t in range(1, 41):
        rows = [7 * t % 101, 31 * t % 101]
        bandit.tell(domain.X[rows], [0.5, 0.5], t, outcomes={"load": rough[rows]})
    mean, _ = bandit.predict(domain.X, 41, outcome="load")
    assert np.abs(mean - rough).mean() < 0.1  # 0.84 with the kernel of the reward


def test_tell_accepts_a_missing_outcome() -> None:
    bandit = bandit_with_limits()
    for i, outcomes in enumerate(({"load": [np.nan]}, {}, None)):
        X = bandit.ask()
        assert X[0].tolist() == SAFE[i % len(SAFE)]
        bandit.tell(X, [0.5], outcomes=outcomes)
    assert len(bandit.state.rewards) == 3
    assert len(bandit.state.outcomes["load"].rewards) == 0


def test_ask_without_safe_points_warns() -> None:
    bandit = bandit_with_limits(safe=())
    with pytest.warns(LimitWarning, match="there is no reading of load yet.*safe=") as caught:
        bandit.ask(1)
    assert [each.filename for each in caught] == [__file__]  # the warning names the line of `ask`


def test_ask_plays_the_likeliest_point_and_warns_if_none_is_safe() -> None:
    bandit = bandit_with_limits()
    bandit.tell(SITES.X, reward(SITES.X), 1, outcomes={"load": 5.0 + 0.1 * SITES.X[:, 0]})
    message = (
        r"no point is known.*most likely to \(the limit on load holds there with a probability of "
        r"[0-9.e-]+, and 0\.5 is needed\)"
    )
    with pytest.warns(LimitWarning, match=message):
        X = bandit.ask(2)
    assert X[0, 0] < 3.0
    assert len(bandit.ask(2, n=3)) == 3  # no second warning of the same outage


def test_ask_under_a_limit_keeps_to_available_points() -> None:
    bandit = bandit_with_limits()
    play(bandit, 25)
    X = bandit.ask(26, available=lambda X: X[:, 0] > 2.0)
    assert 2.0 < X[0, 0] < 7.0
    with pytest.raises(NothingAvailableError):
        bandit.ask(26, available=lambda X: X[:, 0] > 99.0)


def test_ask_under_a_limit_spreads_a_batch_without_more_safe_points() -> None:
    bandit = bandit_with_limits()
    play(bandit, 25)
    before = bandit.predict(SITES.X, 26, outcome="load")[1]
    X = bandit.ask(26, n=4)
    assert len(np.unique(X)) == 4
    assert (load_of(X, 26) <= 0.3).all()
    assert before == pytest.approx(bandit.predict(SITES.X, 26, outcome="load")[1])


def test_history_has_outcomes_and_violations() -> None:
    bandit = bandit_with_limits()
    bandit.tell([[0.0], [9.0]], [0.1, np.nan], 1, outcomes={"load": [-3.0, 2.0]})
    bandit.tell([[1.0]], [0.1], 2)
    bandit.ask(3)
    table = bandit.history
    assert table["violations"].tolist() == [0, 1, 0, 0]
    assert table["load"].tolist()[:2] == [-3.0, 2.0]
    assert table["load"].isna().tolist() == [False, False, True, True]


def test_tell_and_correct_refuse_wrong_outcomes_and_change_nothing() -> None:
    bandit = bandit_with_limits()
    play(bandit, 3)
    before = bandit.state
    for outcomes, message in (
        ({"weight": [1.0]}, "no limit on 'weight'; there are limits on load"),
        ({"load": [1.0, 2.0]}, "load must have shape"),
        ({"load": [np.inf]}, "load"),
        (3.0, "outcomes must be a mapping"),
        ({2: [1.0]}, "each name of outcomes must be a text"),
    ):
        assert_refused(ValueError, message, bandit.tell, [[0.0]], [0.2], 4, outcomes=outcomes)
        assert_refused(
            ValueError, r"no limit|outcomes|load", bandit.correct, [[0.0]], outcomes=outcomes
        )
    unknown_outcome = "unknown outcome: there is no limit on 'weight'"
    assert_refused(ValueError, unknown_outcome, bandit.predict, SITES.X, 4, outcome="weight")
    assert bandit.state == before


@pytest.mark.parametrize(
    ("limits", "safe", "message"),
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
def test_options_refuse_invalid_limits_and_safe_points(
    limits: list[object], safe: object, message: str
) -> None:
    assert_refused(ValueError, message, bandit_with_limits, limits=limits, safe=safe)


@pytest.mark.parametrize(
    ("domain", "name"),
    [(SITES, "site"), (Arms(["a", "b"]), "arm"), (Box([(0, 1)], context={"wind": (0, 1)}), "wind")],
)
def test_limits_refuse_the_name_of_another_column(domain: Candidates | Box, name: str) -> None:
    bandit = policies.gp_ucb(domain, kernel=RBF(1.0), noise_variance=0.01).with_options(
        limits=[replace(LOAD, name="a")]
    )
    assert_refused(ValueError, name, bandit.with_options, limits=[replace(LOAD, name=name)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "at_most or at_least"),
        ({"at_most": 1.0, "at_least": 2.0}, "at_most or at_least"),
        ({"at_most": np.nan}, "at_most"),
        ({"at_most": 1.0, "probability": 1.0}, "probability"),
        ({"at_most": 1.0, "noise_variance": 0.0}, "noise_variance"),
        ({"at_most": 1.0, "name": "two words"}, "must be a word"),
    ],
)
def test_limit_refuses_invalid_bounds(arguments: dict[str, object], message: str) -> None:
    assert_refused(ValueError, message, Limit, **{"name": "load"} | arguments)


def test_correct_and_retract_change_outcomes_with_their_plays() -> None:
    bandit, twin, one_play, fresh = (bandit_with_limits() for _ in range(4))
    one_play.tell([[0.0]], [0.1], 1, outcomes={"load": [-5.0]})
    bandit.tell([[0.0]], [0.1], 1, outcomes={"load": [99.0]})
    twin.tell([[0.0]], [0.1], 1, outcomes={"load": [-5.0]})
    bandit.tell([[1.0], [1.0]], [0.3, 0.3], 2)  # the outcome comes later
    twin.tell([[1.0], [1.0]], [0.3, 0.3], 2, outcomes={"load": [-3.0, -4.0]})
    bandit.correct([[1.0], [1.0], [0.0]], outcomes={"load": [-4.0, -3.0, -5.0]})
    # Of two plays at one point, the latest is corrected first.
    assert bandit.state.outcomes == twin.state.outcomes
    bandit.tell([[1.0]], [0.4], 2)
    bandit.retract([[1.0]], 2)  # this play had no outcome
    assert bandit.state.outcomes == twin.state.outcomes
    bandit.correct([[1.0]], to=3)
    assert bandit.state.outcomes["load"].rewards.t.tolist() == [1.0, 2.0, 3.0]
    bandit.retract([[1.0], [1.0]])
    assert bandit.state.outcomes == one_play.state.outcomes
    bandit.retract([[0.0]])
    assert bandit.state.outcomes == fresh.state.outcomes


def test_correct_keeps_the_risk() -> None:
    bandit = bandit_with_limits()
    play(bandit, 8)
    before = bandit.state
    bandit.correct(before.rewards.X[:1], before.rewards.y[:1], before.rewards.t[:1])
    assert bandit.state.outcomes["load"].model.risk == before.outcomes["load"].model.risk != 0.0


def test_limit_warning_is_given_by_each_bandit() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            bandit_with_limits(safe=()).ask(1)
    assert [each.category for each in caught] == [LimitWarning] * 2


@pytest.mark.parametrize("domain", [SITES, Box([(0.0, 10.0)])])
def test_ask_plays_safe_points_within_near(domain: Candidates | Box) -> None:
    recipe = Recipe(domain, RBF(2.0), 0.01, options=Options([LOAD], safe=[[0.0], [3.0], [9.0]]))
    bandit = Bandit(recipe, seed=0)
    bandit.tell([[4.0]], [0.0], 1, outcomes={"load": [-2.0]})
    assert bandit.ask(2, near=1.5).tolist() == [[3.0]]
    bandit.drop(bandit.pending)
    bandit.tell([[3.0]], [0.0], 2, outcomes={"load": [-3.0]})
    assert abs(bandit.ask(3, near=2.5)[0, 0] - 3.0) <= 2.5


def test_boba_under_a_limit_bounds_the_risk_of_each_play() -> None:
    bandit = policies.boba(SITES, noise_variance=0.01)
    bandit = bandit.with_options(limits=[LOAD], safe=SAFE)
    play(bandit, 12)
    assert [limit.each for limit, _ in bandit._outcome_models._parts.values()] == [True]
    assert bandit.state.outcomes["load"].model.risk == 0.0


def test_ask_warns_once_of_an_outage() -> None:
    bandit = bandit_with_limits(safe=())
    bandit.tell(SITES.X[:3], np.zeros(3), 1, outcomes={"load": [9.0, 9.0, 9.0]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for t in (2, 3):
            bandit.ask(t)
        bandit.tell(SITES.X, np.zeros(21), 4, outcomes={"load": np.full(21, -9.0)})
        bandit.ask(5)
        bandit.tell(SITES.X, np.zeros(21), 6, outcomes={"load": np.full(21, 90.0)})
        bandit.ask(7)
    messages = [str(each.message) for each in caught if each.category is LimitWarning]
    assert [text.partition(":")[0][-5:] for text in messages] == ["t = 2", "t = 7"]


def test_tell_reads_none_as_a_missing_outcome() -> None:
    bandit = bandit_with_limits()
    bandit.tell(SITES.X[:2], [0.1, 0.2], 1, outcomes={"load": [None, -1.0]})
    assert bandit.history["load"].isna().tolist() == [True, False]


@pytest.mark.parametrize("domain", [SITES, Box([(0.0, 10.0)])])
def test_ask_under_a_limit_shares_the_risk_among_plays_at_a_price(domain: Candidates | Box) -> None:
    """The oracle is the best of a grid, by the price of the risk that earlier plays took."""
    bandit = Bandit(Recipe(domain, RBF(2.0), 0.01, options=Options([LOAD], safe=SAFE)), seed=3)
    grid, risk = np.linspace(0.0, 10.0, 21 if domain is SITES else 2001)[:, None], 0.0
    for t in range(1, 31):
        outcomes = bandit._outcome_models.condition(bandit.state, float(t))[1].outcomes
        if t > len(SAFE):
            mean, deviation = bandit.predict(grid, t)
            upper, chance = mean + 2.0 * deviation, 1.0 - outcomes[0].probability(grid)
            count = outcomes[0].violations(grid)
            worth = upper - np.std(upper) * np.exp(outcomes[0].excess) * count
            new = ~np.isin(grid[:, 0], bandit.state.rewards.X[:, 0])
            spread = outcomes[0].view.predict(grid)[1]
            share = 1.0 - (spread / spread.max()) ** 2
            near = ~new | (share >= 0.5 * share[new].max(initial=0.0))
            best = float(worth[near & (chance <= 0.5)].max())
        X = bandit.ask(t)
        if t > len(SAFE):
            assert 1.0 - float(outcomes[0].probability(X)[0]) <= 0.5
            violations = float(outcomes[0].violations(X)[0])
            assert domain is not SITES or worth[grid[:, 0] == X[0]] == best
            assert worth[np.abs(grid - X).argmin()] == pytest.approx(best, abs=0.05)
            risk = max(risk + violations - 0.05, -CONFIG.most_saved)
        assert bandit.state.outcomes["load"].model.risk == pytest.approx(risk)
        bandit.tell(X, reward(X), t, outcomes={"load": load_of(X, t)})
    assert (bandit.history["violations"].sum()) <= 0.05 * 30 + 1
    assert bandit.recommend(31) == pytest.approx(6.0, abs=0.5)
    plain = bandit_with_limits(limits=[EACH_PLAY])
    play(plain, 30)
    assert plain.state.outcomes["load"].model.risk == 0.0


@pytest.mark.parametrize(
    ("risk", "violations", "excess"),
    [
        (-0.3, 0, -0.3),  # unused risk
        (0.2, 0, 0.2),
        (-0.3, 2, -0.05),  # 1.05 +- 1 of 21 readings may violate the limit
        (-0.3, 3, 0.95),
        (0.0, 21, CONFIG.most_excess),
    ],
)
def test_outcome_posterior_has_a_larger_excess_after_more_violations(
    risk: float, violations: int, excess: float
) -> None:
    y = np.where(np.arange(21) < violations, 1.0, -1.0)
    observations = Dataset(np.arange(21.0)[:, None], np.arange(21.0), y, np.ones(21))
    view = joint = None
    posterior = OutcomePosterior(LOAD, SITES, observations, view, joint, risk)  # type: ignore[arg-type]
    assert posterior.excess == pytest.approx(excess, abs=2e-3)
    assert posterior.least == 0.5
    assert replace(posterior, limit=EACH_PLAY).least == EACH_PLAY.probability


def test_outcome_of_counts_has_the_noise_of_the_counts() -> None:
    """Counts have their own variance, and the noise bounds the scale of an outcome from below."""
    bandit = bandit_with_limits(limits=[Limit("load", at_most=0.3)])
    counts = rate([1, 2, 4, 6], [100, 100, 100, 100])
    bandit.tell(SITES.X[:4], reward(SITES.X[:4]), 1, outcomes={"load": counts})
    noise = bandit.state.outcomes["load"].model.noise
    assert noise is not None
    assert noise.variance == pytest.approx(counts.variance.mean())
    deviation = bandit.predict(SITES.X, 2, outcome="load")[1]
    assert deviation.max() < 0.15  # the rates are from 0.01 to 0.06


def test_ask_without_readings_of_an_outcome_plays_all_safe_points_and_says_so() -> None:
    bandit = bandit_with_limits(limits=[LOAD], safe=SITES.X[:2])
    plays = []
    for t in range(1, 5):
        plays.append(bandit.ask(t)[0])
        info = bandit.tell(plays[-1:], reward(plays[-1][None]), t)
    np.testing.assert_array_equal(plays, SITES.X[[0, 1, 0, 1]])
    (sign,) = [each for each in info.health if "load" in each]
    assert "4 plays" in sign
    X = bandit.ask(5)
    info = bandit.tell(X, reward(X), 5, outcomes={"load": [0.0]})
    assert not any("load" in each for each in info.health)
