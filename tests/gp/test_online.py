"""Learning while playing: when, from what, how far; and what a bandit does with it."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tests.helpers.recipes import build
from tests.oracles import loops
from tvbandits import Bandit, Candidates, Dataset, Every, Exact, StateSpace, policies
from tvbandits.data import median_time_step
from tvbandits.gp import online
from tvbandits.gp.additive import structured_kernel
from tvbandits.gp.evidence import Evidence
from tvbandits.gp.features import Term, terms_of
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime, same_form
from tvbandits.gp.online import Learned, at_step, refit
from tvbandits.gp.standardisation import Scaling
from tvbandits.validation import Array

UNIT = Scaling(0.0, 1.0)

# --- when -----------------------------------------------------------------------------------------


@given(
    steps=st.integers(1, 12),
    first=st.lists(st.integers(1, 30), max_size=4),
    before=st.integers(0, 60),
    more=st.integers(1, 40),
)
def test_due(steps: int, first: list[int], before: int, more: int) -> None:
    # However many rewards come at once: if any of them is one after which to learn.
    after = [n in first or n % steps == 0 for n in range(before + 1, before + more + 1)]
    assert Every(steps, tuple(first)).due(before, before + more) == any(after)


# --- from what ------------------------------------------------------------------------------------


def selected(rule: Every, t: Array) -> NDArray[np.int64]:
    """The rows, once they are seen to be distinct and sorted by time."""
    rows = rule.select(t)
    assert len(np.unique(rows)) == len(rows)
    assert (np.diff(t[rows]) >= 0).all()
    return rows


@given(
    steps=st.integers(1, 60),
    size=st.integers(1, 4),
    observations=st.integers(20, 80),
    recent=st.floats(0.1, 0.8),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_select_takes_whole_steps(
    steps: int, size: int, observations: int, recent: float, seed: int
) -> None:
    times = np.cumsum(np.random.default_rng(seed).uniform(0.1, 3.0, steps))
    t = np.random.default_rng(seed).permutation(np.repeat(times, size))
    rows = selected(Every(observations=observations, recent=recent), t)
    if len(t) <= observations:
        assert len(rows) == len(t)
        return
    assert len(rows) <= observations
    chosen, counts = np.unique(t[rows], return_counts=True)
    assert (counts == size).all()  # whole steps
    latest = math.ceil(math.ceil(recent * observations) / size)
    np.testing.assert_array_equal(chosen[-latest:], times[-latest:])
    # What is left goes to earlier steps, evenly: one more would have been too many.
    assert len(rows) > observations - 2 * size
    earlier = np.searchsorted(times, chosen[:-latest])
    gaps = np.diff(earlier)
    if len(gaps):
        assert np.ptp(gaps) <= 1
        assert (earlier[0], earlier[-1]) == (0, steps - latest - 1)


@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=30),
    observations=st.integers(1, 60),
    recent=st.floats(0.01, 1.0),
)
@settings(deadline=None)
def test_select_is_bounded_for_any_steps(
    sizes: list[int], observations: int, recent: float
) -> None:
    t = np.repeat(np.arange(float(len(sizes))), sizes)
    rows = selected(Every(observations=observations, recent=recent), t)
    assert 0 < len(rows) <= observations
    assert len(rows) == len(t) or len(t) > observations
    assert t[rows[-1]] == t[-1]
    if sizes[-1] > observations:  # of the one step that is too large, evenly many
        assert (t[rows] == t[-1]).all()
        assert len(rows) < 2 or np.ptp(np.diff(rows)) <= 1


# --- a fit ----------------------------------------------------------------------------------------


def smooth(time: float = 8.0, amplitude: float = 1.0) -> Any:
    bounds = (1e-2, 1e4)
    return (
        ConstantKernel(amplitude, (1e-5, 1e5))
        * OnSpace(RBF(1.2, bounds))
        * OnTime(Matern(time, bounds, nu=1.5))
    )


def level(time: float = 3.0, amplitude: float = 0.5) -> Any:
    return ConstantKernel(amplitude, (1e-5, 1e5)) * OnTime(Matern(time, (1e-2, 1e4), nu=0.5))


def rough(time: float = 8.0) -> Any:
    return ConstantKernel(1.0) * OnSpace(Matern(1.2, nu=0.5)) * OnTime(Matern(time, nu=0.5))


def drawn(kernel: Any, n: int, seed: int, noise: float = 0.01, per_step: int = 4) -> Dataset:
    """A sample of the kernel at random points."""
    rng = np.random.default_rng(seed)
    X, t = rng.uniform(0, 4, (12, 2))[rng.integers(0, 12, n)], np.arange(n) // per_step + 0.0
    K = kernel(np.column_stack([X, t])) + noise * np.eye(n)
    return Dataset(X, t, np.linalg.cholesky(K) @ rng.standard_normal(n), np.full(n, noise))


def spreads(every: Every, kernel: Any) -> Array:
    """Deviations of the prior, in the order of the hyperparameters."""
    if hasattr(kernel, "k1"):
        return np.concatenate([spreads(every, kernel.k1), spreads(every, kernel.k2)])
    spread = every.space_spread if isinstance(kernel, OnSpace) else every.spread
    return np.full(kernel.n_dims, spread)


def loss(
    every: Every, start: Any, kernel: Any, seen: Dataset, centre: float, scale: float
) -> float:
    values, variance = (seen.y - centre) / scale, seen.variance / scale**2
    evidence = Evidence(start, seen, values, variance, start.theta, spreads(every, start))
    return float(evidence(kernel.theta)[0])


@pytest.mark.parametrize("spread", [0.5, math.inf])
@pytest.mark.parametrize("seed", range(4))
def test_refit_is_never_worse_than_its_start(seed: int, spread: float) -> None:
    every, start = Every(iterations=4, spread=spread), smooth(1.0) + level(40.0)
    sample = drawn(smooth() + level(), 50, seed)
    learned = Learned.nothing(start, every)
    before, total = loss(every, start, start, sample, 0.2, 1.5), 0.0
    for fits in range(1, 6):
        learned = refit(every, start, learned, sample, Scaling(0.2, 1.5), Scaling(0.2, 1.5))
        after = loss(every, start, learned.kernel, sample, 0.2, 1.5)
        total += after
        assert learned.losses == pytest.approx((total,), rel=1e-9)
        assert learned.fits == fits
        assert after <= before + 1e-9 * abs(before)
        before = after
    assert before < loss(every, start, start, sample, 0.2, 1.5) - 1.0


def test_refit_starts_from_latest_fit() -> None:
    sample, start = drawn(smooth(), 50, 0), smooth(1.0)
    long, short = Every(iterations=200), Every(iterations=1)
    found = refit(long, start, Learned.nothing(start, long), sample, UNIT, UNIT)
    warm = refit(short, start, found, sample, UNIT, UNIT)
    cold = refit(short, start, Learned.nothing(start, short), sample, UNIT, UNIT)
    assert warm.losses[0] - found.losses[0] <= found.losses[0] + 1e-9
    assert cold.losses[0] > found.losses[0] + 1.0


def test_refit_keeps_bounds() -> None:
    start = ConstantKernel(1.0, (0.9, 1.1)) * OnTime(Matern(3.0, (2.5, 3.5), nu=0.5))
    every = Every(spread=math.inf)
    # The scale falls by half, which takes the amplitude out of its bounds.
    learned = Learned((start,), (0.0,), fits=1)
    sample = drawn(level(100.0), 40, 2)
    fitted = refit(every, start, learned, sample, UNIT, Scaling(0.0, 2.0)).kernel
    for kernel in (fitted, carried(start, 2.0), carried(start, 0.5)):
        assert (kernel.theta >= kernel.bounds[:, 0] - 1e-12).all()
        assert (kernel.theta <= kernel.bounds[:, 1] + 1e-12).all()


def test_refit_leaves_fixed_kernel() -> None:
    start = ConstantKernel(1.0, "fixed") * OnTime(Matern(3.0, "fixed", nu=0.5))
    every = Every()
    sample = drawn(level(), 20, 0)
    made = refit(every, start, Learned.nothing(start, every), sample, UNIT, UNIT)
    assert (made.kernel, made.fits) == (start, 1)
    assert made.losses == pytest.approx((loss(every, start, start, sample, 0.0, 1.0),))


@pytest.mark.parametrize("given_", ["smooth", "rough"])
def test_refit_selects_rival_of_larger_evidence(given_: str) -> None:
    kernels = {"smooth": smooth(), "rough": rough()}
    start, other = kernels.pop(given_), next(iter(kernels.values()))
    every = Every(rivals=(other,), iterations=20)
    for truth, best in ((start, 0), (other, 1)):
        sample = drawn(truth, 120, 3, noise=1e-3)
        learned = refit(every, start, Learned.nothing(start, every), sample, UNIT, UNIT)
        assert learned.best == best == int(np.argmin(learned.losses))
        assert learned.kernel is learned.kernels[best]


def test_refit_compares_rivals_on_schedule() -> None:
    every, start = Every(rivals=(rough(), smooth(100.0)), iterations=2), smooth()
    learned, changed = Learned.nothing(start, every), []
    early, often = online.CONFIG.first_comparisons, online.CONFIG.comparison_period
    last = early + 2 * often
    for fit in range(last):
        fitted = refit(every, start, learned, drawn(smooth(), 30, fit), UNIT, UNIT)
        moved = [new != old for new, old in zip(fitted.kernels, learned.kernels, strict=True)]
        assert moved[learned.best]
        changed.append(all(moved))
        if not changed[-1]:
            # The others wait, and so do all losses: those of one sample are compared, or none.
            assert moved.count(True) == 1
            assert fitted.best == learned.best
            assert fitted.losses == learned.losses
        else:
            assert fitted.best == int(np.argmin(fitted.losses))
        learned = fitted
    together = [fit < early or (fit + 1) % often == 0 for fit in range(last)]
    assert changed == together
    assert not all(together)


# --- a new unit -----------------------------------------------------------------------------------

ROWS = np.column_stack([np.random.default_rng(0).uniform(0, 4, (8, 2)), np.arange(8.0)])


def carried(kernel: Any, ratio: float) -> Any:
    """A kernel that is not fitted, after a change of the scale."""
    every = Every(rivals=(kernel,), iterations=1)
    known = Learned((smooth(), kernel), (0.0, 1.0), best=0, fits=online.CONFIG.first_comparisons)
    while (known.fits + 1) % online.CONFIG.comparison_period == 0:
        known = replace(known, fits=known.fits + 1)
    sample, scaled = drawn(smooth(), 12, 0), Scaling(0.0, ratio)
    return refit(every, smooth(), known, sample, UNIT, scaled).kernels[1]


@pytest.mark.parametrize("ratio", [0.25, 1.0, 3.0])
@pytest.mark.parametrize(
    "kernel",
    [
        smooth() + level(),
        ConstantKernel(0.4) * (OnSpace(RBF(1.0)) + OnTime(Matern(2.0, nu=0.5))),
        structured_kernel(RBF(1.0)),
        ConstantKernel(0.4) * ConstantKernel(0.3, "fixed") * OnSpace(RBF(1.0)),
    ],
    ids=["sum", "one amplitude", "structured", "a fixed factor"],
)
def test_refit_rescales_amplitudes(kernel: Any, ratio: float) -> None:
    # scale^2 K is the covariance of the reward: it stays, as the posterior of the reward does.
    np.testing.assert_allclose(carried(kernel, ratio)(ROWS), ratio**2 * kernel(ROWS), rtol=1e-10)


@pytest.mark.parametrize(
    "kernel",
    [OnSpace(RBF(1.0)), ConstantKernel(0.4) * ConstantKernel(2.0) * OnSpace(RBF(1.0))],
    ids=["none", "two"],
)
def test_refit_without_amplitude_for_each_term_rescales_nothing(kernel: Any) -> None:
    np.testing.assert_allclose(carried(kernel, 2.0)(ROWS), kernel(ROWS), rtol=1e-10)


# --- the prior ------------------------------------------------------------------------------------


def moves(every: Every, start: Any) -> Array:
    """How far a fit takes the logarithms of amplitude, length scale and time scale."""
    sample = drawn(smooth(time=2.0, amplitude=9.0), 60, 0)
    made = refit(every, start, Learned.nothing(start, every), sample, UNIT, UNIT)
    return np.asarray(np.abs(made.kernel.theta - start.theta))


def test_refit_has_own_spread_over_points() -> None:
    start = ConstantKernel(0.1, (1e-5, 1e5)) * OnSpace(RBF(0.4)) * OnTime(Matern(30.0, nu=1.5))
    free = moves(Every(spread=math.inf, space_spread=math.inf, iterations=50), start)
    assert (free > 0.5).all()
    held = moves(Every(spread=math.inf, space_spread=1e-3, iterations=50), start)
    assert held[1] < 0.01
    assert (held[[0, 2]] > 0.5).all()
    held = moves(Every(spread=1e-3, space_spread=math.inf, iterations=50), start)
    assert held[1] > 0.15
    assert (held[[0, 2]] < 0.01).all()


# --- the unit of time -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "step"),
    [
        ([3.0], 1.0),
        ([2.0, 2.0], 1.0),
        ([0.0, 10.0], 10.0),
        ([0.0, 0.0, 0.0, 2.0, 5.0, 105.0], 3.0),
        ([7.0, 1.0, 4.0, 4.0], 3.0),
        ([], 1.0),
    ],
)
def test_step_of_is_median_gap(times: list[float], step: float) -> None:
    assert median_time_step(np.array(times)) == step


def test_at_step_converts_time_scales() -> None:
    kernel = structured_kernel(RBF(1.0), Matern(1.0, nu=0.5))
    made = at_step(kernel, 60.0)
    assert same_form(made, kernel)
    given_, moved = (terms_of(each) or () for each in (kernel, made))
    assert [term.time_scale for term in moved] == [60.0 * term.time_scale for term in given_]
    fixed = ConstantKernel(2.0) * OnTime(Matern(5.0, "fixed", nu=1.5)) + OnSpace(Matern(3.0))
    expected = ConstantKernel(2.0) * OnTime(Matern(300.0, "fixed", nu=1.5)) + OnSpace(Matern(3.0))
    assert at_step(fixed, 60.0) == expected
    assert at_step(smooth(), 1.0) == smooth()
    slow = at_step(OnSpace(RBF(1.0)) * Drift(0.1, (0.01, 0.9)), 60.0).k2
    forgotten = [1.0 - (1.0 - rate) ** 60 for rate in (slow.epsilon, *slow.epsilon_bounds)]
    assert forgotten == pytest.approx([0.1, 0.01, 0.9])


def test_first_refit_learns_step() -> None:
    tight = Every(spread=1e-6, space_spread=1e-6, rivals=(rough(),), in_steps=True)
    plain, start = drawn(smooth(), 40, 0), smooth()
    later = Dataset(plain.X, 60.0 * plain.t, plain.y, plain.variance)
    first = refit(tight, start, Learned.nothing(start, tight), later, UNIT, UNIT)
    assert first.starts == (at_step(start, 60.0), at_step(rough(), 60.0))
    for kernel, median in zip(first.kernels, first.starts, strict=True):
        np.testing.assert_allclose(kernel.theta, median.theta, atol=1e-6)
    # It is found out once: medians stay, whatever the steps are later.
    second = refit(tight, start, first, plain, UNIT, UNIT)
    assert second.starts is first.starts
    np.testing.assert_allclose(second.kernel.theta, first.kernel.theta, atol=1e-6)
    # Without the rule, time scales are in the unit of time.
    given_ = replace(tight, in_steps=False)
    unmoved = refit(given_, start, Learned.nothing(start, given_), later, UNIT, UNIT)
    assert unmoved.starts == (start, rough())
    np.testing.assert_allclose(unmoved.kernel.theta, start.theta, atol=1e-6)


@pytest.mark.parametrize("fits", [1, 9])
def test_later_refit_learns_longer_step(fits: int) -> None:
    # As when a first sample was told in close succession, with many fits on the way.
    tight = Every(spread=1e-6, space_spread=1e-6, rivals=(rough(),), in_steps=True)
    sample, start = drawn(smooth(), 40, 0), smooth()
    close = replace(sample, t=0.1 * sample.t)
    learned = Learned.nothing(start, tight)
    for _ in range(fits):
        learned = refit(tight, start, learned, close, UNIT, UNIT)
    assert learned.step == pytest.approx(0.1)
    little = replace(sample, t=0.19 * sample.t)  # no more than a gap here and there
    assert refit(tight, start, learned, little, UNIT, UNIT).step == pytest.approx(0.1)
    later = refit(tight, start, learned, sample, UNIT, UNIT)
    assert later.step == 1.0
    assert later.starts == (at_step(start, 1.0), at_step(rough(), 1.0))
    np.testing.assert_allclose(later.kernel.theta, start.theta, atol=1e-6)


def test_refit_selects_by_sum_of_losses() -> None:
    # The rival suits the next sample better, but has lost more before.
    every, start = Every(rivals=(rough(),), iterations=1), smooth()
    sample = drawn(rough(), 60, 3, noise=1e-3)
    fresh = refit(every, start, Learned.nothing(start, every), sample, UNIT, UNIT)
    lead = fresh.losses[0] - fresh.losses[1]
    assert lead > 1.0
    for before, best in ((0.5 * lead, 1), (2.0 * lead, 0)):
        known = replace(Learned.nothing(start, every), losses=(0.0, before))
        assert refit(every, start, known, sample, UNIT, UNIT).best == best


# --- in a bandit ----------------------------------------------------------------------------------

DOMAIN = Candidates.grid([[0, 4]], 12)
LEARN = Every(steps=6, first=(4, 8), observations=40, iterations=2)
NOISE = 0.01


def reward(x: Array, t: float) -> float:
    wobble = np.random.default_rng([int(t), int(1e6 * x[0, 0])]).standard_normal()
    return float(np.sin(x[0, 0] + t / 6.0) + 0.1 * wobble)


def fitted_bandit(unit: float = 1.0, learn: Any = LEARN, kernel: Any = None, **more: Any) -> Bandit:
    space = RBF(0.8) if kernel is None else kernel
    values = {"kernel": space, "noise_variance": NOISE * unit**2, "refit": learn, **more}
    bandit: Bandit = build(policies.adaptive_gp_ucb, DOMAIN, **values)
    return bandit


def play(bandit: Bandit, times: range, unit: float = 1.0) -> Array:
    return loops.play(bandit, lambda x, t: [unit * reward(x, t)], times)


def terms(bandit: Bandit) -> tuple[Term, ...]:
    return terms_of(bandit.state.model.kernel) or ()


def test_bandit_fits_when_due() -> None:
    bandit = fitted_bandit()
    fits, due = 0, {4, 8, 6, 12, 18}
    assert bandit.info.model.fits == 0
    for t in range(1, 20):
        kernel = bandit.state.model.kernel
        play(bandit, range(t, t + 1))
        fits += t in due
        assert bandit.info.model.fits == fits
        assert (bandit.state.model.kernel is not kernel) == (t in due)
    assert bandit.state.model.kernel is bandit.state.model.fit.kernel
    assert math.isnan(bandit.info.model.forgetting_rate)


def test_rewards_of_one_tell_are_one_fit() -> None:
    bandit = fitted_bandit()
    X = DOMAIN.X[np.arange(20) % 12]
    assert bandit.tell(X, [reward(x[None], 3.0) for x in X], np.arange(20.0)).model.fits == 1
    assert len(bandit.ask()) == 1


def test_rounding_does_not_change_a_form() -> None:
    rng, kernel = np.random.default_rng(0), structured_kernel(RBF(0.8))
    moves = 0.3 * rng.standard_normal((20, len(kernel.theta)))
    assert all(same_form(kernel.clone_with_theta(kernel.theta + move), kernel) for move in moves)


def test_other_recipe_fits_anew() -> None:
    bandit = fitted_bandit()
    play(bandit, range(1, 14))
    for other in (
        fitted_bandit(kernel=Matern(0.8, nu=1.5)),
        policies.gp_ucb(DOMAIN, kernel=RBF(1.0), noise_variance=NOISE),
    ):
        taken = Bandit.from_state(other.recipe, bandit.state)
        assert taken.state.model.kernel is other.recipe.kernel
        assert taken.state.model.fit is None
        assert len(taken.state.rewards) == 13
        play(taken, range(14, 20))  # a fit in it
        assert (taken.state.model.kernel is other.recipe.kernel) == (other.recipe.learn is None)
    # The same kernel with another schedule goes on with what was learned.
    same = Bandit.from_state(fitted_bandit(learn=Every(7)).recipe, bandit.state)
    assert same.state.model.kernel is bandit.state.model.kernel


@pytest.mark.parametrize("unit", [1000.0, 2.0**-10])
def test_unit_of_reward_does_not_matter(unit: float) -> None:
    one, other = fitted_bandit(), fitted_bandit(unit)
    np.testing.assert_array_equal(play(other, range(1, 16), unit), play(one, range(1, 16)))
    for mine, its in zip(terms(other), terms(one), strict=True):
        assert mine.amplitude == pytest.approx(its.amplitude, rel=2e-3)
        assert mine.time_scale == pytest.approx(its.time_scale, rel=1e-3)
    assert other.info.model.scale == pytest.approx(unit * one.info.model.scale, rel=1e-6)


@pytest.mark.parametrize("step", [2.0**10, 2.0**-10])
def test_unit_of_time_does_not_matter(step: float) -> None:
    one, other = fitted_bandit(posterior=Exact()), fitted_bandit(posterior=Exact())
    for t in range(1, 16):  # points of others: before the first fit, scales are in the unit of time
        x = DOMAIN.X[[5 * t % 12]]
        one.tell(x, [reward(x, t)], t)
        other.tell(x, [reward(x, t)], step * t)
    assert one.info.model.fits == other.info.model.fits == 4
    for mine, its in zip(terms(other), terms(one), strict=True):
        assert mine.amplitude == pytest.approx(its.amplitude, rel=2e-6)
        assert mine.time_scale == pytest.approx(step * its.time_scale, rel=1e-6)
    mine, its = other.predict(DOMAIN.X, 16.0 * step), one.predict(DOMAIN.X, 16.0)
    np.testing.assert_allclose(mine, its, rtol=1e-6)


def test_without_variation_the_unit_is_twice_the_noise() -> None:
    bandit = fitted_bandit()
    bandit.tell(DOMAIN.X[:4], [3.0] * 4, np.arange(4.0))
    scaling = bandit.state.model.scaling
    assert (scaling.anchor, scaling.scale) == (3.0, pytest.approx(2.0 * math.sqrt(NOISE)))


def test_refit_of_kernel_without_terms() -> None:
    kernel = OnSpace(RBF(0.8)) * OnTime(RBF(5.0))
    bandit = fitted_bandit(kernel=kernel, posterior=Exact())
    assert bandit.recipe.learn == replace(LEARN, in_steps=False)  # it says itself what it means
    play(bandit, range(1, 9))
    assert bandit.info.model.fits == 3
    assert same_form(bandit.state.model.kernel, kernel)
    assert bandit.state.model.kernel != kernel
    for posterior in ({}, {"posterior": StateSpace()}):
        with pytest.raises(ValueError, match=r"needs a sum of terms .*; got .*RBF"):
            fitted_bandit(kernel=kernel, **posterior)


def test_fixed_mean_keeps_unit() -> None:
    bandit = fitted_bandit(mean=0.25)
    play(bandit, range(1, 14))
    assert (bandit.state.model.scaling.anchor, bandit.state.model.scaling.scale) == (0.25, 1.0)
    assert bandit.info.model.fits > 2
    assert bandit.info.model.mean == 0.25


def test_kept_of_diverse_memory_is_greedy_without_whole_matrix() -> None:
    rng, kernel, sizes = np.random.default_rng(0), RBF(0.3), []

    class Counted(RBF):
        def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
            sizes.append(len(X) * len(X if Y is None else Y))
            return super().__call__(X, Y, eval_gradient)

    n, rule = 400, Every(remembered=40, recent=0.5, diverse=True)
    Z, t = rng.random((n, 2)), np.arange(float(n))
    kept = rule.kept(t, np.ones(n, dtype=bool), Counted(0.3), Z)
    older = Z[: n - 20]
    chosen: list[int] = []
    left = kernel(older)
    for _ in range(20):
        chosen.append(int(np.diagonal(left).argmax()))
        within = kernel(older[chosen]) + 1e-12 * np.eye(len(chosen))
        across = kernel(older[chosen], older)
        left = kernel(older) - across.T @ np.linalg.solve(within, across)
    assert np.flatnonzero(kept).tolist() == [*sorted(chosen), *range(n - 20, n)]
    assert max(sizes) == n - 20
