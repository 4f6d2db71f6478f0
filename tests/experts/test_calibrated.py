"""`Calibrated`: its estimates, their coverage over seeds, and pairs of answers and rewards."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import norm

from tests.helpers.refusals import assert_refused
from tvbandits import Answers, Dataset, Expert, ExpertError
from tvbandits.data import Source
from tvbandits.experts import calibrated
from tvbandits.experts.calibrated import FEWEST, Calibrated, Calibration, estimate
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.validation import Array

RNG = np.random.default_rng


def drawn(seed: int, n: int, *, bias: float, ratio: float) -> tuple[Array, Array, Array]:
    """Differences, stated variances and reward variances of n pairs."""
    rng = RNG(seed)
    stated, reward = rng.uniform(0.5, 2.0, n), rng.uniform(0.2, 1.0, n)
    return bias + np.sqrt(ratio * stated + reward) * rng.standard_normal(n), stated, reward


# --- the estimate ---------------------------------------------------------------------------------


def with_the_made_up_pair(columns: tuple[Array, Array, Array]) -> list[Array]:
    extras = (0.0, *map(np.median, columns[1:]))
    return [np.append(column, extra) for column, extra in zip(columns, extras, strict=True)]


def log_likelihood(columns: tuple[Array, Array, Array], ratio: float) -> float:
    """Of the ratio, with the made-up pair, the bias integrated out over a fine grid."""
    difference, stated, reward = with_the_made_up_pair(columns)
    deviation = np.sqrt(ratio * stated + reward)
    bias = np.linspace(-12, 12, 801)
    return float(logsumexp(norm.logpdf(difference[:, None] - bias, 0, deviation[:, None]).sum(0)))


@pytest.mark.parametrize("ratio", [0.5, 1.0, 10.0])
@pytest.mark.parametrize("n", [1, 4, 40])
def test_estimate_without_a_clip_maximizes_the_likelihood(n: int, ratio: float) -> None:
    columns = drawn(3, n, bias=0.7, ratio=ratio)
    found = estimate(*columns, clip=math.inf)
    grid = np.linspace(math.log(0.02), math.log(60), 400)
    likelihood = np.array([log_likelihood(columns, math.exp(log)) for log in grid])
    posterior = likelihood - 5.0 * (grid + np.exp(-grid))  # ten pairs at a ratio of 1
    assert math.log(found.used) == pytest.approx(grid[posterior.argmax()], abs=0.012)
    if likelihood.argmax() > 0:
        assert math.log(found.ratio) == pytest.approx(grid[likelihood.argmax()], abs=0.012)
    else:
        assert found.ratio < 0.021


def restated_score(columns: tuple[Array, Array, Array], ratio: float, clip: float) -> float:
    """The left side of the equation of the ratio, by minimizing and integrating."""
    difference, stated, reward = with_the_made_up_pair(columns)
    variance = ratio * stated + reward

    def huber(bias: float) -> float:
        z = np.abs(difference - bias) / np.sqrt(variance)
        return float(np.where(z < clip, z**2 / 2, clip * z - clip**2 / 2).sum())

    bias = minimize_scalar(huber, bounds=(-50, 50), method="bounded", options={"xatol": 1e-10}).x
    z = np.clip((difference - bias) / np.sqrt(variance), -clip, clip)
    kappa = quad(
        lambda x: np.clip(x, -clip, clip) ** 2 * norm.pdf(x), -12, 12, points=[-clip, clip]
    )
    share = (1 / variance) / (1 / variance).sum()
    return float((ratio * stated / variance * (z**2 / kappa[0] - 1 + share)).sum() / 2)


@pytest.mark.parametrize("clip", [1.5, 3.0])
@pytest.mark.parametrize("ratio", [1.0, 10.0])
def test_estimate_with_a_clip_solves_the_robust_equations(clip: float, ratio: float) -> None:
    columns = drawn(5, 30, bias=2.0, ratio=ratio)
    columns[0][4] = 40.0
    found = estimate(*columns, clip=clip)
    assert restated_score(columns, found.ratio, clip) == pytest.approx(0, abs=1e-4)
    prior = 5.0 * (1 / found.used - 1)
    assert restated_score(columns, found.used, clip) == pytest.approx(-prior, abs=1e-4)


CASES = [(0.0, 1.0), (1.0, 1.0), (0.0, 10.0), (3.0, 10.0)]


@pytest.mark.slow
@pytest.mark.parametrize(("bias", "ratio"), CASES)
@pytest.mark.parametrize("n", [10, 60])
def test_estimate_intervals_have_their_nominal_coverage(n: int, bias: float, ratio: float) -> None:
    found = [estimate(*drawn(seed, n, bias=bias, ratio=ratio)) for seed in range(200)]
    held = np.mean([each.interval[0] <= ratio <= each.interval[1] for each in found])
    assert 0.90 <= held <= 0.995  # 95% of 200, within 3 deviations
    near = np.mean([abs(each.bias - bias) <= 1.96 * each.standard_error for each in found])
    assert 0.89 <= near <= 0.99


@pytest.mark.slow
def test_estimate_verdicts_are_right_for_most_seeds() -> None:
    def share(verdict: str, ratio: float, bias: float = 0.0) -> float:
        found = [estimate(*drawn(s, 80, bias=bias, ratio=ratio)) for s in range(100)]
        return float(np.mean([each.verdict == verdict for each in found]))

    assert share("honest", 1.0) >= 0.88
    assert share("honest", 1.0, bias=3.0) >= 0.88
    assert share("over-confident", 10.0) == 1.0
    assert share("too modest", 0.02) >= 0.95
    biased = [
        estimate(*drawn(s, 80, bias=b, ratio=1.0)).has_bias for b in (0, 1) for s in range(100)
    ]
    assert sum(biased[:100]) <= 3
    assert sum(biased[100:]) == 100


def test_estimate_changes_little_with_one_outlier() -> None:
    columns = drawn(0, 50, bias=0.0, ratio=1.0)
    clean = estimate(*columns)
    columns[0][7] = 1e6
    spoilt = estimate(*columns)
    assert spoilt.verdict == "honest"
    assert spoilt.used < 1.5 * clean.used
    assert abs(spoilt.bias - clean.bias) < 1.5 * clean.standard_error
    assert estimate(*columns, clip=math.inf).ratio > 1e6


def test_calibration_has_bias_beyond_three_standard_errors_of_either_sign() -> None:
    def biased(bias: float, pairs: int = FEWEST) -> bool:
        return Calibration(pairs, bias, 0.1, 1.0, (0.5, 2.0), 1.0).has_bias

    assert [biased(bias) for bias in (0.0, 0.29, 0.31, -0.29, -0.31)] == [
        False,
        False,
        True,
        False,
        True,
    ]
    assert not biased(9.0, FEWEST - 1)


def test_estimate_finds_a_bias_of_either_sign() -> None:
    columns = drawn(3, 60, bias=0.0, ratio=1.0)
    difference = columns[0] - columns[0].mean()
    error = estimate(difference, *columns[1:]).standard_error
    for by, biased in ((2.0, False), (-2.0, False), (4.5, True), (-4.5, True)):
        found = estimate(difference + by * error, *columns[1:])
        assert found.has_bias == biased
        assert ("not zero" in str(found)) == biased


def test_estimate_gives_no_verdict_on_too_few_pairs() -> None:
    none = estimate(*drawn(0, 0, bias=0.0, ratio=1.0))
    assert (none.pairs, none.used, none.interval) == (0, 1.0, (0.0, math.inf))
    assert str(none) == "too few pairs: 0"
    four = estimate(*drawn(0, 4, bias=50.0, ratio=1.0))
    assert four.verdict == "too few pairs"
    assert not four.has_bias
    one = str(estimate(*drawn(0, 1, bias=0.0, ratio=1.0)))
    assert one.startswith("too few pairs; bias ")
    assert one.endswith("; 1 pair")


@given(
    scale=st.floats(1e-6, 1e6),
    stated=st.floats(1e-9, 1e9),
    n=st.integers(1, 12),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=30)
def test_estimate_is_finite_and_positive_at_any_scale(
    scale: float, stated: float, n: int, seed: int
) -> None:
    found = estimate(scale * RNG(seed).standard_normal(n), np.full(n, stated), np.full(n, 1e-4))
    low, high = found.interval
    assert 0 < found.used < math.inf
    assert np.isfinite([found.bias, found.standard_error]).all()
    assert 0 <= low <= high


# --- the wrapper ----------------------------------------------------------------------------------


class Off:
    """Answers 10 + x + t with a bias and more noise than stated, and refuses x < 0."""

    def __init__(self, bias: float = 0.0, ratio: float = 1.0, stated: float = 0.25) -> None:
        self.bias, self.ratio, self.stated = bias, ratio, stated
        self.asked: list[tuple[list[float], float]] = []
        self.shown: list[Dataset] = []

    def query(self, points: Array, t: float) -> Answers:
        x = points[:, 0]
        self.asked.append((x.tolist(), t))
        noise = math.sqrt(self.ratio * self.stated) * keyed_normal(0, 5, points, t)
        values = np.where(x < 0, np.nan, 10 + x + t + self.bias + noise)
        return Answers(values, self.stated, float(len(x)), ("inner",))

    def observe(self, rewards: Dataset) -> None:
        self.shown.append(rewards)


def reward(x: float, t: float, variance: float = 0.04) -> Dataset:
    noise = math.sqrt(variance) * keyed_normal(0, 6, np.array([[x]]), t)[0]
    return Dataset([[x]], [t], [10 + x + t + noise], [variance])  # type: ignore[arg-type]


POINTS = np.arange(6.0)[:, None]


def taught(expert: Calibrated, steps: int) -> Calibrated:
    for t in range(1, steps + 1):
        expert.observe(reward(float(t % 6), float(t)))
        expert.query(POINTS, float(t))
    return expert


def test_calibrated_corrects_bias_and_variance_of_answers() -> None:
    expert = taught(Calibrated(Off(bias=2.0, ratio=9.0)), 120)
    found = expert.report()
    assert found.verdict == "over-confident"
    assert found.pairs == 120
    fresh = [expert.query(POINTS, 1000.0 + k) for k in range(100)]
    truth = np.array([10 + POINTS[:, 0] + 1000.0 + k for k in range(100)])
    z = (np.array([s.values for s in fresh]) - truth) / np.sqrt([s.variance for s in fresh])
    assert abs(z.mean()) < 0.2
    assert z.std() == pytest.approx(1.0, abs=0.1)
    assert fresh[0].notes == ("inner", f"calibration: {found}")
    np.testing.assert_allclose(fresh[0].variance, found.used * 0.25 + found.standard_error**2)


def test_calibrated_changes_answers_of_an_honest_expert_little() -> None:
    expert = taught(Calibrated(Off()), 120)
    said, plain = expert.query(POINTS, 999.0), Off().query(POINTS, 999.0)
    assert np.abs(said.values - plain.values).max() < 0.15
    np.testing.assert_allclose(said.variance, plain.variance, rtol=0.35)
    assert said.notes == ("inner",)


def test_calibrated_corrects_a_query_by_earlier_pairs_only() -> None:
    expert = Calibrated(Off(bias=5.0))
    for t in range(1, 12):
        expert.observe(reward(0.0, float(t)))
        assert expert.report().pairs == t - 1
        before = expert.report()
        said, raw = expert.query(POINTS, float(t)), Off(bias=5.0).query(POINTS, float(t))
        shift = before.bias if t > calibrated.FEWEST else 0.0
        np.testing.assert_allclose(raw.values - said.values, shift)
    assert said.variance[0] > 0.25


@given(
    events=st.lists(st.tuples(st.booleans(), st.integers(-1, 3), st.integers(0, 3)), max_size=30)
)
@settings(deadline=None)
def test_calibrated_pairs_answers_and_rewards_of_equal_point_and_time(
    events: list[tuple[bool, int, int]],
) -> None:
    expert = Calibrated(Off())
    asked, told = set(), set()
    for is_query, x, t in events:
        if is_query:
            expert.query(np.array([[float(x)], [float(x)]]), float(t))
            asked |= {(x, t)} if x >= 0 else set()
        else:
            expert.observe(reward(float(x), float(t)))
            expert.observe(reward(float(x), float(t), variance=9.0))  # the first one counts
            told.add((x, t))
    pairs = sorted(asked & told)
    assert expert.report().pairs == len(pairs)
    differences = [
        float(Off().query(np.array([[float(x)]]), float(t)).values[0]) - reward(x, t).y[0]
        for x, t in pairs
    ]
    np.testing.assert_allclose(
        sorted(row[0] for row in expert._pairs.values()), sorted(differences), atol=1e-12
    )
    assert all(row[1:] == (0.25, 0.04) for row in expert._pairs.values())


def test_calibrated_ignores_observations_that_are_answers_of_experts() -> None:
    expert = Calibrated(Off())
    expert.query(POINTS, 1.0)
    seen = reward(0.0, 1.0)
    expert.observe(Dataset(seen.X, seen.t, seen.y, seen.variance, np.array([Source.EXPERT])))
    assert expert.report().pairs == 0
    expert.observe(seen)
    assert expert.report().pairs == 1


def test_calibrated_treats_both_signs_of_zero_as_equal() -> None:
    expert = Calibrated(Off())
    expert.query(np.array([[-0.0]]), 1.0)
    expert.observe(reward(0.0, 1.0))
    assert expert.report().pairs == 1


def test_calibrated_forgets_answers_beyond_its_memory() -> None:
    expert = Calibrated(Off(), memory=10)
    for t in range(1, 5):
        expert.query(POINTS, float(t))
    assert len(expert._answers) == 10
    expert.observe(reward(0.0, 1.0))
    expert.observe(reward(0.0, 4.0))
    assert expert.report().pairs == 1


# --- the probe ------------------------------------------------------------------------------------


def test_calibrated_with_probe_also_queries_the_point_of_the_latest_reward() -> None:
    off = Off()
    expert = Calibrated(off, probe=True)
    expert.observe(reward(9.0, 3.0))
    said = expert.query(POINTS[:2], 3.0)
    assert off.asked == [([9.0, 0.0, 1.0], 3.0)]
    assert (len(said), said.cost) == (2, 3.0)
    assert said.notes == (
        "inner",
        "calibration: also queried [9.0], the point of the latest reward",
    )
    assert expert.report().pairs == 1
    np.testing.assert_array_equal(said.values, Off().query(POINTS[:2], 3.0).values)


def test_calibrated_with_probe_adds_no_point_if_queried_or_of_another_time() -> None:
    off = Off()
    expert = Calibrated(off, probe=True)
    expert.query(POINTS[:2], 3.0)  # nothing rewarded yet
    expert.observe(reward(1.0, 3.0))
    said = expert.query(POINTS[:2], 3.0)  # among the points
    assert off.asked[-1] == ([1.0, 0.0], 3.0)
    np.testing.assert_array_equal(said.values, Off().query(POINTS[:2], 3.0).values)
    expert.observe(reward(9.0, 3.0))
    expert.query(POINTS[:2], 4.0)  # the latest reward is of another time
    expert.observe(reward(5.0, 2.0))  # late: the newest is still that of t = 3
    expert.query(POINTS[:2], 3.0)
    assert [len(x) for x, _ in off.asked] == [2, 2, 2, 3]
    Calibrated(off).query(POINTS[:2], 3.0)
    assert len(off.asked[-1][0]) == 2


# --- the rest -------------------------------------------------------------------------------------


def test_calibrated_passes_rewards_on_and_continues_the_same_after_pickling() -> None:
    off = Off(bias=1.0)
    expert = taught(Calibrated(Calibrated(off), probe=True), 8)
    assert len(off.shown) == 8
    again = pickle.loads(pickle.dumps(expert))
    assert again.report() == expert.report()
    for one in (expert, again):
        one.observe(reward(2.0, 9.0))
    np.testing.assert_array_equal(again.query(POINTS, 9.0).values, expert.query(POINTS, 9.0).values)
    assert again.report() == expert.report()
    assert repr(expert).endswith("), probe=True)")
    assert isinstance(expert, Expert)


def test_calibrated_leaves_refused_points_unanswered() -> None:
    expert = taught(Calibrated(Off(bias=2.0, ratio=9.0)), 50)
    said = expert.query(np.array([[-1.0], [1.0]]), 99.0)
    np.testing.assert_array_equal(said.answered, [False, True])
    assert len(expert.query(np.empty((0, 1)), 99.0)) == 0


def test_calibrated_makes_no_pair_from_a_failed_query() -> None:
    class Short:
        def query(self, points: Array, _t: float) -> Answers:
            return Answers(points[1:, 0], 1.0)

    expert = Calibrated(Short())
    expert.observe(reward(0.0, 1.0))
    assert_refused(
        ExpertError, "Short must answer 6 points, got 5 values", expert.query, POINTS, 1.0
    )
    assert expert.report().pairs == 0
