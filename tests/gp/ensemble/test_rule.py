"""The bank as the posterior of a recipe: what it says is the bank's, and it keeps to the protocol."""

import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Arms, Bandit, Observations, policies
from tvbandits.bandit.state import same_value
from tvbandits.core.arrays import Array
from tvbandits.gp.ensemble.arms import ArmFilters, ArmsPosterior
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.gp.ensemble.models import ModelSpec, SpatialSpec
from tvbandits.gp.ensemble.rule import (
    WINDOW,
    EnsemblePosterior,
    ModelEnsemble,
    Readings,
    Recent,
    faded,
    moved,
)
from tvbandits.gp.kernels.additive import structured_kernel
from tvbandits.gp.posteriors.data import CandidateGrid, Data
from tvbandits.gp.posteriors.protocol import Conditioning, Posterior

POINTS = np.random.default_rng(3).uniform(0, 5, (9, 2))
# As an ensemble holds them: each coordinate in the unit of its range.
RANGES = np.ptp(POINTS, axis=0)
SCALED = POINTS / RANGES
KERNEL = structured_kernel(RBF(1.0))
NONE = Observations.empty(2)


def observations(steps: int = 12, seed: int = 0) -> Observations:
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(POINTS), size=2 * steps)
    t = np.repeat(np.arange(1.0, steps + 1), 2)
    y = 4.0 + np.sin(POINTS[rows].sum(axis=1) + t / 4.0) + 0.1 * rng.standard_normal(len(t))
    return Observations(POINTS[rows], t, y, np.full(len(t), 0.01))


SURFACE = CandidateGrid(KERNEL, POINTS)


def data_of(seen: Observations) -> Data:
    return Data(np.column_stack([seen.X, seen.t]), seen.y[:, None], seen.variance)


def made(
    now: float = 13.0,
    seen: Observations | None = None,
    rule: ModelEnsemble = ModelEnsemble(),  # noqa: B008 - frozen
    previous: Posterior | None = None,
) -> EnsemblePosterior:
    data = data_of(observations() if seen is None else seen)
    return rule.condition(Conditioning(KERNEL, data, SURFACE, now, previous, noise_variance=0.01))


def straight(models: list[ModelSpec] | None = None) -> FilterEnsemble:
    bank, seen = FilterEnsemble.of(SCALED, 0.01, models), observations()
    for t in np.unique(seen.t):
        some = seen.take(seen.t == t)
        rows = [int((x == POINTS).all(axis=1).argmax()) for x in some.X]
        bank = bank.observe(rows, some.y, some.variance, float(t))
    return bank


MIDDLE = SpatialSpec("matern12", 0.5)
MIDDLING = ModelSpec(MIDDLE, MIDDLE, 0.5, 0.5, 0.1, 0.1, np.inf, 5.0, 3.0)


def of_one(model: ModelSpec) -> EnsemblePosterior:
    """As if there were only this model."""
    return replace(made(), recent=Recent(straight([model])))


def inputs(X: Array, t: float = 13.0) -> Array:
    return np.column_stack([X, np.full(len(X), t)])


def test_it_says_what_the_bank_says() -> None:
    posterior: Posterior = made()
    forecast = straight().predict(13.0)
    mean, variance = posterior.on_surface()
    np.testing.assert_array_equal(mean[:, 0], forecast.mean)
    np.testing.assert_array_equal(variance, forecast.learnable**2)
    np.testing.assert_array_equal(posterior.means_on_surface(), mean)
    again = posterior.predict(inputs(POINTS[[4, 1]]))
    np.testing.assert_array_equal(again[0], mean[[4, 1]])
    np.testing.assert_array_equal(again[1], variance[[4, 1]])
    assert posterior.size == 24


def test_what_is_new_at_every_place_is_widened_like_the_rest() -> None:
    known = of_one(MIDDLING)
    wide = replace(known, recent=Recent(replace(known.ensemble, innovation=4.0)))
    _, learnable = wide.on_surface()
    deviation = np.sqrt(learnable + wide.nugget)
    np.testing.assert_allclose(deviation, wide.ensemble.predict(13.0).deviation)


def test_observations_may_come_in_any_order_and_each_counts_once() -> None:
    seen = observations()
    turned = made(seen=seen.take(slice(None, None, -1)))
    np.testing.assert_allclose(turned.forecast.mean, made().forecast.mean)
    both = made(seen=seen, previous=made(12.0, seen.take(seen.t < 12.0)))
    assert both.size == 24
    np.testing.assert_array_equal(both.forecast.mean, made().forecast.mean)
    # Also where those that are new are not the last ones.
    gap = made(seen=seen.take(seen.t != 11.0))
    np.testing.assert_array_equal(made(previous=gap).forecast.mean, made().forecast.mean)
    assert made(previous=both) is both
    # About the past it says what was known then.
    known = made(10.0, seen.take(seen.t <= 10.0))
    np.testing.assert_array_equal(made(10.0).forecast.mean, known.forecast.mean)


def test_what_is_not_of_the_same_observations_is_left_aside() -> None:
    others = made(seen=observations(seed=1))
    np.testing.assert_array_equal(made(previous=others).forecast.mean, made().forecast.mean)
    of_more = made(rule=ModelEnsemble(both=True))
    np.testing.assert_array_equal(made(previous=of_more).forecast.mean, made().forecast.mean)


@pytest.mark.parametrize("seen", [NONE, observations()])
def test_before_anything_is_known_it_is_the_prior(seen: Observations) -> None:
    prior = ModelEnsemble().condition(Conditioning(KERNEL, data_of(seen), SURFACE, 0.5))
    mean, variance = prior.on_surface()
    assert (mean == 0).all()
    np.testing.assert_allclose(variance, KERNEL.diag(inputs(POINTS)))
    assert prior.nugget == 0.0
    assert not prior.learned
    less = prior.shrunk(inputs(POINTS[[2]], 0.5), 0.01, SURFACE).on_surface()[1]
    assert (less <= variance + 1e-12).all()
    assert less[2] < 0.1 * variance[2]


def test_covariances_are_those_of_the_beliefs() -> None:
    posterior = made()
    everyone = range(len(POINTS))
    C = posterior.cross_covariance(inputs(POINTS), inputs(POINTS))
    np.testing.assert_allclose(C, C.T, atol=1e-12)
    assert np.linalg.eigvalsh(C).min() > -1e-9
    widening = posterior.ensemble.widening**2
    np.testing.assert_allclose(widening * np.diag(C), posterior.on_surface()[1], rtol=1e-8)
    np.testing.assert_array_equal(C, posterior.beliefs(13.0, 2.0).among(everyone, everyone))


def test_one_more_reading_is_conditioning() -> None:
    posterior = made()
    C = posterior.cross_covariance(inputs(POINTS), inputs(POINTS))
    noise = 0.04 + posterior.own_nugget
    once = posterior.shrunk(inputs(POINTS[[3]]), 0.04, None)
    before, after = posterior.on_surface()[1], once.on_surface()[1]
    np.testing.assert_allclose(after, before - C[3] ** 2 / (C[3, 3] + noise), rtol=1e-9)
    np.testing.assert_array_equal(once.on_surface()[0], posterior.on_surface()[0])
    twice = once.shrunk(inputs(POINTS[[5]]), 0.04, None).on_surface()[1]
    among = C[np.ix_([3, 5], [3, 5])] + noise * np.eye(2)
    left = before - np.einsum("ij,ij->j", C[[3, 5]], np.linalg.solve(among, C[[3, 5]]))
    np.testing.assert_allclose(twice, left, rtol=1e-8)
    np.testing.assert_array_equal(posterior.on_surface()[1], before)  # nothing changed it
    # Together they are one after the other, also where a candidate is read again.
    rows = inputs(POINTS[[3, 5, 3]])
    again = once.shrunk(rows[1:2], 0.2, None).shrunk(rows[2:], 0.1, None)
    together = posterior.shrunk(rows, np.array([0.04, 0.2, 0.1]), None)
    np.testing.assert_allclose(together.on_surface()[1], again.on_surface()[1], rtol=1e-8)


def test_draws_have_the_covariance() -> None:
    posterior = made()
    C = posterior.cross_covariance(inputs(POINTS), inputs(POINTS))
    drawn = posterior.samples(posterior.surface, 40_000, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=0.03 * np.sqrt(C.max()))
    np.testing.assert_allclose(np.cov(drawn.T), C, atol=0.05 * C.max())


def test_candidates_among_other_points_are_what_they_are() -> None:
    posterior = made()
    mean, variance = posterior.on_surface()
    some = np.concatenate([POINTS[[2, 6]], POINTS[[2]] + 1e-7, [[1e4, 1e4]]])
    found, spread = posterior.predict(inputs(some))
    np.testing.assert_allclose(found[:2], mean[[2, 6]])
    np.testing.assert_allclose(found[3, 0], mean.mean(), rtol=1e-6)
    assert spread[3] > variance.max() > spread[2] > 0


def test_points_are_told_by_dense_kriging() -> None:
    """One model, one shape: the textbook's simple kriging around the mean of the candidates."""
    posterior = of_one(MIDDLING)
    X = np.array([[1.0, 1.0], [2.5, 4.0]])
    distance = lambda A, B: np.linalg.norm(A[:, None] - B[None], axis=2)  # noqa: E731
    K = np.exp(-distance(SCALED, SCALED) / 0.5)
    k = np.exp(-distance(X / RANGES, SCALED) / 0.5)
    W = k @ np.linalg.inv(K)
    mean, middle = posterior.on_surface()[0][:, 0], posterior.on_surface()[0].mean()
    found, variance = posterior.predict(inputs(X))
    np.testing.assert_allclose(found[:, 0], middle + W @ (mean - middle), rtol=1e-4)
    C = posterior.cross_covariance(inputs(POINTS), inputs(POINTS))
    left = posterior.learned["scale"] ** 2 * (1.0 - np.einsum("ij,ij->i", W, k))
    W = W + (1.0 - W.sum(axis=1, keepdims=True)) / len(POINTS)
    expected = posterior.ensemble.widening**2 * (np.diag(W @ C @ W.T) + left)
    np.testing.assert_allclose(variance, expected, rtol=1e-3)


def test_its_prior_is_that_of_the_model_of_the_largest_weight() -> None:
    space = SpatialSpec("matern12", 0.5)
    one = ModelSpec(SpatialSpec("identity"), space, 0.4, 0.5, 0.1, 0.1, 50.0, 5.0, 3.0)
    Z = np.column_stack([POINTS[[0, 3, 3]], [2.0, 2.0, 8.0]])
    posterior = of_one(one)
    apart = np.linalg.norm(SCALED[0] - SCALED[3]) / 0.5
    near, later = np.exp(-apart), 0.4 * np.exp(-6.0 / 50.0) + 0.5 * np.exp(-6.0 / 5.0)
    across = 0.5 * near * np.exp(-6.0 / 5.0)
    expected = [[0.9, 0.5 * near, across], [0.5 * near, 0.9, later], [across, later, 0.9]]
    unit = posterior.learned["scale"] ** 2
    np.testing.assert_allclose(posterior.prior_covariance(Z), unit * np.array(expected))


def test_it_observes_candidates_alone() -> None:
    elsewhere = Observations([[9.0, 9.0]], [1.0], [1.0], [1.0])
    with pytest.raises(ValueError, match=r"\[9"):
        made(seen=elsewhere)


# --- scalar filters for arms that resemble nothing: against the dense Gaussian process of every model

ARMS = Arms([f"arm {i}" for i in range(5)])
# Prior variance of the level in the dense process: all but flat, which is worth 1e-4 of a weight.
FLAT = 1e5


def readings(n: int, seed: int = 0) -> tuple[Array, Any, Array, Array]:
    """Times with repetitions and gaps, arms, values and noise variances."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.choice(np.arange(1.0, 40.0), n))
    rows = rng.integers(4, size=n)  # of the fifth nothing is known
    noise = rng.uniform(0.5, 2.0, n)
    return t, rows, rng.standard_normal(n) + 3.0 + rows, noise


def dense(
    signal: float, scale: float, now: float, t: Array, rows: Any, y: Array, noise: Array
) -> tuple[Array, Array, float]:
    """Mean and covariance of the arms at a time, and the log evidence, of one model."""

    def k(t1: Array, a1: Any, t2: Array, a2: Any) -> Array:
        own = signal * np.exp(-np.abs(t1[:, None] - t2) / scale) * (a1[:, None] == a2)
        return np.asarray(FLAT + own)

    at, arms = np.full(5, now), np.arange(5)
    K, cross = k(t, rows, t, rows) + np.diag(noise), k(at, arms, t, rows)
    inverse = np.linalg.inv(K)
    evidence = -0.5 * (y @ inverse @ y + np.linalg.slogdet(K)[1])
    return cross @ inverse @ y, k(at, arms, at, arms) - cross @ inverse @ cross.T, float(evidence)


def told(bandit: Any, order: Any = None, n: int = 20) -> Any:
    t, rows, y, noise = readings(n)
    for i in np.arange(n) if order is None else order:
        bandit.tell(ARMS.X[rows[[i]]], y[[i]], t[i], noise[[i]])
    bandit.recommend(45.0)
    return bandit


def conditioned(bandit: Any, now: float) -> ArmsPosterior:
    return bandit._conditioned_for(now)[1].posterior


def new() -> Any:
    return policies.adaptive_gp_ucb(ARMS, None, 1.0)


def test_beliefs_are_those_of_dense_processes_weighted_by_evidence() -> None:
    now = 45.0
    posterior = conditioned(told(new()), now)
    filters, data = posterior.filters, readings(20)
    priors = 0.25 * np.log(filters.scale / filters.signal)
    each = [dense(s, c, now, *data) for s, c in zip(filters.signal, filters.scale, strict=True)]
    log = np.array([evidence for _, _, evidence in each]) + priors
    weights = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    np.testing.assert_allclose(filters.weights, weights, rtol=1e-3, atol=1e-9)
    mean = sum(w * m for w, (m, _, _) in zip(weights, each, strict=True))
    covariance = sum(
        w * (C + np.outer(m - mean, m - mean)) for w, (m, C, _) in zip(weights, each, strict=True)
    )
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-4)
    np.testing.assert_allclose(filters.covariance(), covariance, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(posterior.variance, np.diagonal(covariance), rtol=1e-4, atol=1e-4)
    Z = np.column_stack([ARMS.X[[4, 1]], [now, now]])
    np.testing.assert_allclose(posterior.predict(Z)[0][:, 0], mean[[4, 1]], atol=1e-4)
    np.testing.assert_allclose(
        posterior.cross_covariance(Z, Z), covariance[np.ix_([4, 1], [4, 1])], rtol=1e-4, atol=1e-4
    )


def test_late_readings_count_at_their_own_time() -> None:
    rng = np.random.default_rng(3)
    in_order = told(new())
    for order in (np.arange(20)[::-1], rng.permutation(20), np.roll(np.arange(20), 3)):
        other = told(new(), order)
        np.testing.assert_allclose(
            other.predict(ARMS.X, 45), in_order.predict(ARMS.X, 45), rtol=1e-9
        )


def test_a_look_at_the_past_knows_nothing_of_later() -> None:
    t, rows, y, noise = readings(20)
    early = new()
    early.tell(ARMS.X[rows[:8]], y[:8], t[:8], noise[:8])
    late = conditioned(told(new()), float(t[7]))
    both = late.filters.time, conditioned(early, float(t[7])).mean
    assert both[0] == t[7] < t[8]
    np.testing.assert_allclose(late.mean, both[1], rtol=1e-9)


def test_draws_have_the_covariance_of_the_mixture() -> None:
    posterior = conditioned(told(new()), 45.0)
    drawn = posterior.samples(posterior.surface, 200_000, np.random.default_rng(0))
    error = 4 * np.sqrt(posterior.variance / 200_000)
    assert (np.abs(drawn.mean(axis=0)) < error).all()
    np.testing.assert_allclose(np.cov(drawn.T), posterior.filters.covariance(), rtol=0.1, atol=0.1)


def test_readings_to_come_lower_variances_as_conditioning_does() -> None:
    posterior = conditioned(told(new()), 45.0)
    Z = np.column_stack([ARMS.X[[2, 2, 4]], np.full(3, 45.0)])
    shrunk = posterior.shrunk(Z, 0.7, posterior.surface)
    C = posterior.filters.covariance()
    G = C[:, [2, 2, 4]]
    left = C - G @ np.linalg.solve(C[np.ix_([2, 2, 4], [2, 2, 4])] + 0.7 * np.eye(3), G.T)
    np.testing.assert_allclose(shrunk.variance, np.diagonal(left), rtol=1e-8)
    one = posterior.shrunk(Z[:1], 0.7, posterior.surface).shrunk(Z[1:2], 0.7, posterior.surface)
    both = posterior.shrunk(Z[:2], 0.7, posterior.surface)
    np.testing.assert_allclose(one.variance, both.variance, rtol=1e-8)


def test_what_lasts_is_what_later_readings_would_tell() -> None:
    """Brute force: the dense variance that 4,000 readings of all later steps take away."""
    filters = ArmFilters.of(1, 2.0, 0, 1.0).observed(
        0.0, np.array([0]), np.zeros(1), np.full(1, 9.0)
    )
    for m in (0, 7, 20):
        signal, scale = filters.signal[m], filters.scale[m]
        kept = math.exp(-1.0 / scale)
        known = filters.variance[m, 0]  # of now; what comes is an AR(1) from there
        precision = 0.0
        for _ in range(4000):
            precision += 1 / 2.0
            precision = kept**2 * precision / (1 + signal * (1 - kept**2) * precision)
        expected = known**2 / (known + 1 / precision)
        one = np.where(np.arange(len(filters.signal)) == m, 0.0, -np.inf)
        certain, none = np.ones_like(filters.share), np.zeros(len(one))
        alone = replace(filters, share=certain, precision=none + 1.0, product=none, evidence=one)
        np.testing.assert_allclose(alone.lasting(2.0, 0, 1.0), [expected], rtol=1e-6)


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e4])
def test_the_unit_of_rewards_and_of_time_do_not_matter(unit: float) -> None:
    t, rows, y, noise = readings(20)
    plain, scaled = told(new()), new()
    for i in range(20):
        scaled.tell(ARMS.X[rows[[i]]], unit * y[[i]], 60 * t[i], unit**2 * noise[[i]])
    mean, deviation = plain.predict(ARMS.X, 45.0)
    its, wide = scaled.predict(ARMS.X, 60 * 45.0)
    np.testing.assert_allclose(its, unit * mean, rtol=1e-8)
    np.testing.assert_allclose(wide, unit * deviation, rtol=1e-8)


def test_a_step_goes_on_to_the_bits_of_conditioning_on_all() -> None:
    """With readings of one time in parts, late ones, two times at once, and a value that is huge."""
    bandit, rng, went_on = told(new()), np.random.default_rng(0), 0
    for t in range(46, 186):
        before = bandit.state
        X = bandit.ask(t)
        fresh = Bandit.from_state(bandit.recipe, before)
        np.testing.assert_array_equal(fresh.ask(t), X)
        assert same_value(conditioned(fresh, t).mean, conditioned(bandit, t).mean)
        went_on += conditioned(bandit, t).data.room is not None
        y = 50.0 if t == 160 else rng.standard_normal()
        bandit.tell(X, [y], t - {4: 0.5, 7: 3}.get(t % 20, 0))
        if t % 20 in (4, 5, 15):
            bandit.tell(ARMS.X[:1], [y], t)
    assert went_on > 60


# --- a bank and its recent past: late observations count at their own time, and what is kept is bounded

POINTS_RECENTLY = np.random.default_rng(1).uniform(0, 4, (6, 2))
EVERYWHERE = SpatialSpec("matern12", 0.4)


def reading(rng: np.random.Generator, n: int = 2) -> Readings:
    rows = rng.permutation(len(POINTS_RECENTLY))[:n]
    return Readings(rows, rng.standard_normal(n), rng.uniform(0.05, 0.2, n))


def history(steps: int, seed: int = 0) -> list[tuple[float, Readings]]:
    rng = np.random.default_rng(seed)
    return [(float(t), reading(rng)) for t in range(1, steps + 1)]


def told_recently(seen: list[tuple[float, Readings]], start: Recent | None = None) -> Recent:
    recent = Recent(FilterEnsemble.of(POINTS_RECENTLY, 0.1)) if start is None else start
    for t, each in seen:
        recent = recent.observed(t, each)
    return recent


def straight_recently(seen: list[tuple[float, Readings]]) -> FilterEnsemble:
    bank = FilterEnsemble.of(POINTS_RECENTLY, 0.1)
    for t, each in seen:
        bank = bank.observe(*each, t)
    return bank


def test_late_readings_count_at_their_own_time_there_too() -> None:
    seen = history(WINDOW + 5)
    late = [*seen[:-4], *seen[-3:], seen[-4]]  # the fourth last comes at the end
    assert same_value(told_recently(late).latest, straight_recently(seen))
    # Also in the first steps, where the second time says how long a step is.
    assert same_value(
        told_recently([seen[0], seen[2], seen[1]]).latest, straight_recently(seen[:3])
    )
    # The earliest of all may come last.
    assert same_value(told_recently([seen[1], seen[0]]).latest, straight_recently(seen[:2]))


def test_two_readings_of_one_time_are_taken_one_after_the_other() -> None:
    seen, rng = history(5), np.random.default_rng(9)
    more = [(3.0, reading(rng)), (5.0, reading(rng))]
    expected = straight_recently([*seen[:3], more[0], *seen[3:], more[1]])
    assert same_value(told_recently([*seen, *more]).latest, expected)
    assert same_value(told_recently([*seen, *more[::-1]]).latest, expected)


def test_what_was_known_before() -> None:
    seen = history(6)
    recent = told_recently(seen)
    for t in (1.0, 3.0, 3.5, 6.0, 9.0):
        known = [each for each in seen if each[0] <= t]
        assert same_value(recent.at(t), straight_recently(known))
    assert not recent.at(0.5).filters  # nothing was known


def test_what_is_kept_is_bounded() -> None:
    sizes = []
    for steps in (WINDOW + 5, WINDOW + 30, WINDOW + 60):
        recent = told_recently(history(steps))
        assert len(recent.times) == WINDOW
        sizes.append(len(pickle.dumps(recent)))
    assert max(sizes) <= 1.1 * min(sizes)  # who sleeps is told later


def test_a_reading_from_long_ago_counts_as_a_noisier_one() -> None:
    recent = told_recently(history(WINDOW + 9))
    begins = recent.before.time
    old = Readings(np.array([2]), np.array([3.0]), np.array([0.1]))
    after = recent.observed(begins - 1.5, old)
    noise = faded(recent.before, 1.5, old.variance)
    assert noise > 0.1
    assert same_value(after.before, recent.before.observe(old.rows, old.values, noise, begins))
    assert after.latest.predict(20.0).mean[2] > recent.latest.predict(20.0).mean[2]
    # So old that it says nothing: nothing changes.
    assert (
        recent.observed(begins - 1e9, old) is recent
        or not np.isfinite(faded(recent.before, 1e9, old.variance)).any()
    )


@pytest.mark.parametrize("smooth", [False, True])
def test_fading_is_the_conditional_variance(smooth: bool) -> None:
    one = ModelSpec(EVERYWHERE, EVERYWHERE, 0.0, 1.0, 0.0, 0.0, np.inf, 4.0, 3.0, smooth)
    bank = replace(FilterEnsemble.of(POINTS_RECENTLY, 0.1, (one,)), step=1.0)
    bank = bank.observe([0], np.array([1.0]), None, 0.0)
    (unit,) = bank.filters[0].variance
    x = 3.0 / 4.0 * (np.sqrt(3.0) if smooth else 1.0)
    r = (1.0 + x if smooth else 1.0) * np.exp(-x)  # Matern-3/2 or -1/2 over three steps
    noise = faded(bank, 3.0, np.array([0.2]))
    # f_now given a reading of f_then, and given one of f_now with that noise.
    then = unit - (r * unit) ** 2 / (unit + 0.2)
    np.testing.assert_allclose(unit - unit**2 / (unit + noise), then, rtol=1e-12)


def test_moving_on_changes_no_forecast() -> None:
    bank = told_recently(history(6)).latest
    later = moved(bank, 7.5)
    ahead, again = bank.predict(9.0), later.predict(9.0)
    for name in ("mean", "deviation", "learnable"):
        np.testing.assert_allclose(getattr(ahead, name), getattr(again, name), rtol=1e-9)
    assert moved(bank, bank.time) is bank
    none = FilterEnsemble.of(POINTS_RECENTLY, 0.1)
    assert moved(none, 3.0) is none


def test_nothing_changes_the_one_before() -> None:
    seen = history(6)
    recent = told_recently(seen)
    before: Array = recent.latest.predict(8.0).mean.copy()
    recent.observed(4.5, seen[0][1])
    recent.observed(6.0, seen[1][1])
    recent.observed(7.0, seen[2][1])
    np.testing.assert_array_equal(recent.latest.predict(8.0).mean, before)
