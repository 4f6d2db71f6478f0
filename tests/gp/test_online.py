"""Fits of hyperparameters during a run: their schedule, their data, their prior, and use in a bandit."""

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
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime, have_same_form
from tvbandits.gp.online import Learned, refit, scale_times
from tvbandits.gp.standardisation import Scaling
from tvbandits.validation import Array

UNIT = Scaling(0.0, 1.0)

# --- schedule -------------------------------------------------------------------------------------


@given(
    steps=st.integers(1, 12),
    first=st.lists(st.integers(1, 30), max_size=4),
    before=st.integers(0, 60),
    more=st.integers(1, 40),
)
def test_due_if_any_new_reward_completes_a_scheduled_count(
    steps: int, first: list[int], before: int, more: int
) -> None:
    # A fit is due if any of the new rewards completes a scheduled count.
    after = [n in first or n % steps == 0 for n in range(before + 1, before + more + 1)]
    assert Every(steps, tuple(first)).is_due(before, before + more) == any(after)


# --- data -----------------------------------------------------------------------------------------


def select_rows(rule: Every, t: Array) -> NDArray[np.int64]:
    """Return the selected rows, after a check that they are distinct and sorted by time."""
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
    rows = select_rows(Every(observations=observations, recent=recent), t)
    if len(t) <= observations:
        assert len(rows) == len(t)
        return
    assert len(rows) <= observations
    selected_times, counts = np.unique(t[rows], return_counts=True)
    assert (counts == size).all()  # whole steps
    latest = math.ceil(math.ceil(recent * observations) / size)
    np.testing.assert_array_equal(selected_times[-latest:], times[-latest:])
    # The other rows are of earlier steps, evenly spaced: one more step would exceed the limit.
    assert len(rows) > observations - 2 * size
    earlier = np.searchsorted(times, selected_times[:-latest])
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
    rows = select_rows(Every(observations=observations, recent=recent), t)
    assert 0 < len(rows) <= observations
    assert len(rows) == len(t) or len(t) > observations
    assert t[rows[-1]] == t[-1]
    if sizes[-1] > observations:  # evenly spaced rows of the one step that is too large
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


def sample_of(kernel: Any, n: int, seed: int, noise: float = 0.01, per_step: int = 4) -> Dataset:
    """Return a sample of the kernel at random points."""
    rng = np.random.default_rng(seed)
    X, t = rng.uniform(0, 4, (12, 2))[rng.integers(0, 12, n)], np.arange(n) // per_step + 0.0
    K = kernel(np.column_stack([X, t])) + noise * np.eye(n)
    return Dataset(X, t, np.linalg.cholesky(K) @ rng.standard_normal(n), np.full(n, noise))


def spreads(every: Every, kernel: Any) -> Array:
    """Return deviations of the prior, in the order of the hyperparameters."""
    if hasattr(kernel, "k1"):
        return np.concatenate([spreads(every, kernel.k1), spreads(every, kernel.k2)])
    spread = every.space_spread if isinstance(kernel, OnSpace) else every.spread
    return np.full(kernel.n_dims, spread)


def loss(
    every: Every, start: Any, kernel: Any, data: Dataset, centre: float, scale: float
) -> float:
    values, variance = (data.y - centre) / scale, data.variance / scale**2
    evidence = Evidence(start, data, values, variance, start.theta, spreads(every, start))
    return float(evidence(kernel.theta)[0])


@pytest.mark.parametrize("spread", [0.5, math.inf])
@pytest.mark.parametrize("seed", range(4))
def test_refit_never_increases_the_loss(seed: int, spread: float) -> None:
    every, start = Every(iterations=4, spread=spread), smooth(1.0) + level(40.0)
    sample = sample_of(smooth() + level(), 50, seed)
    learned = Learned.initial(start, every)
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
    sample, start = sample_of(smooth(), 50, 0), smooth(1.0)
    long, short = Every(iterations=200), Every(iterations=1)
    fit = refit(long, start, Learned.initial(start, long), sample, UNIT, UNIT)
    warm = refit(short, start, fit, sample, UNIT, UNIT)
    cold = refit(short, start, Learned.initial(start, short), sample, UNIT, UNIT)
    assert warm.losses[0] - fit.losses[0] <= fit.losses[0] + 1e-9
    assert cold.losses[0] > fit.losses[0] + 1.0


def test_refit_keeps_parameters_within_bounds() -> None:
    start = ConstantKernel(1.0, (0.9, 1.1)) * OnTime(Matern(3.0, (2.5, 3.5), nu=0.5))
    every = Every(spread=math.inf)
    # The scale falls by half, which takes the amplitude out of its bounds.
    learned = Learned((start,), (0.0,), fits=1)
    sample = sample_of(level(100.0), 40, 2)
    kernel_of_fit = refit(every, start, learned, sample, UNIT, Scaling(0.0, 2.0)).kernel
    for kernel in (kernel_of_fit, rescale_without_fit(start, 2.0), rescale_without_fit(start, 0.5)):
        assert (kernel.theta >= kernel.bounds[:, 0] - 1e-12).all()
        assert (kernel.theta <= kernel.bounds[:, 1] + 1e-12).all()


def test_refit_keeps_a_fixed_kernel() -> None:
    start = ConstantKernel(1.0, "fixed") * OnTime(Matern(3.0, "fixed", nu=0.5))
    every = Every()
    sample = sample_of(level(), 20, 0)
    learned = refit(every, start, Learned.initial(start, every), sample, UNIT, UNIT)
    assert (learned.kernel, learned.fits) == (start, 1)
    assert learned.losses == pytest.approx((loss(every, start, start, sample, 0.0, 1.0),))


@pytest.mark.parametrize("start_name", ["smooth", "rough"])
def test_refit_selects_rival_of_larger_evidence(start_name: str) -> None:
    kernels = {"smooth": smooth(), "rough": rough()}
    start, other = kernels.pop(start_name), next(iter(kernels.values()))
    every = Every(rivals=(other,), iterations=20)
    for truth, best in ((start, 0), (other, 1)):
        sample = sample_of(truth, 120, 3, noise=1e-3)
        learned = refit(every, start, Learned.initial(start, every), sample, UNIT, UNIT)
        assert learned.best == best == int(np.argmin(learned.losses))
        assert learned.kernel is learned.kernels[best]


def test_refit_compares_rivals_on_schedule() -> None:
    every, start = Every(rivals=(rough(), smooth(100.0)), iterations=2), smooth()
    learned, all_changed = Learned.initial(start, every), []
    early, often = online.CONFIG.first_comparisons, online.CONFIG.comparison_period
    last = early + 2 * often
    for fit in range(last):
        fitted = refit(every, start, learned, sample_of(smooth(), 30, fit), UNIT, UNIT)
        changes = [new != old for new, old in zip(fitted.kernels, learned.kernels, strict=True)]
        assert changes[learned.best]
        all_changed.append(all(changes))
        if not all_changed[-1]:
            # The other kernels keep their losses: only losses on the same sample are compared.
            assert changes.count(True) == 1
            assert fitted.best == learned.best
            assert fitted.losses == learned.losses
        else:
            assert fitted.best == int(np.argmin(fitted.losses))
        learned = fitted
    together = [fit < early or (fit + 1) % often == 0 for fit in range(last)]
    assert all_changed == together
    assert not all(together)


# --- a new unit -----------------------------------------------------------------------------------

ROWS = np.column_stack([np.random.default_rng(0).uniform(0, 4, (8, 2)), np.arange(8.0)])


def rescale_without_fit(kernel: Any, ratio: float) -> Any:
    """Return a kernel that is not fitted, after a change of the scale."""
    every = Every(rivals=(kernel,), iterations=1)
    learned = Learned((smooth(), kernel), (0.0, 1.0), best=0, fits=online.CONFIG.first_comparisons)
    while (learned.fits + 1) % online.CONFIG.comparison_period == 0:
        learned = replace(learned, fits=learned.fits + 1)
    sample, scaled = sample_of(smooth(), 12, 0), Scaling(0.0, ratio)
    return refit(every, smooth(), learned, sample, UNIT, scaled).kernels[1]


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
    # scale^2 K, the covariance of the reward, does not change.
    np.testing.assert_allclose(
        rescale_without_fit(kernel, ratio)(ROWS), ratio**2 * kernel(ROWS), rtol=1e-10
    )


@pytest.mark.parametrize(
    "kernel",
    [OnSpace(RBF(1.0)), ConstantKernel(0.4) * ConstantKernel(2.0) * OnSpace(RBF(1.0))],
    ids=["none", "two"],
)
def test_refit_rescales_nothing_unless_each_term_has_one_amplitude(kernel: Any) -> None:
    np.testing.assert_allclose(rescale_without_fit(kernel, 2.0)(ROWS), kernel(ROWS), rtol=1e-10)


# --- the prior ------------------------------------------------------------------------------------


def moves(every: Every, start: Any) -> Array:
    """Return how far a fit moves the logarithms of amplitude, length scale and time scale."""
    sample = sample_of(smooth(time=2.0, amplitude=9.0), 60, 0)
    learned = refit(every, start, Learned.initial(start, every), sample, UNIT, UNIT)
    return np.asarray(np.abs(learned.kernel.theta - start.theta))


def test_refit_applies_space_spread_to_length_scales_only() -> None:
    start = ConstantKernel(0.1, (1e-5, 1e5)) * OnSpace(RBF(0.4)) * OnTime(Matern(30.0, nu=1.5))
    moves_of_free = moves(Every(spread=math.inf, space_spread=math.inf, iterations=50), start)
    assert (moves_of_free > 0.5).all()
    moves_of_tight = moves(Every(spread=math.inf, space_spread=1e-3, iterations=50), start)
    assert moves_of_tight[1] < 0.01
    assert (moves_of_tight[[0, 2]] > 0.5).all()
    moves_of_tight = moves(Every(spread=1e-3, space_spread=math.inf, iterations=50), start)
    assert moves_of_tight[1] > 0.15
    assert (moves_of_tight[[0, 2]] < 0.01).all()


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
def test_median_time_step_is_the_median_positive_gap(times: list[float], step: float) -> None:
    assert median_time_step(np.array(times)) == step


def test_scale_times_converts_time_scales() -> None:
    kernel = structured_kernel(RBF(1.0), Matern(1.0, nu=0.5))
    converted = scale_times(kernel, 60.0)
    assert have_same_form(converted, kernel)
    original_terms, converted_terms = (terms_of(each) or () for each in (kernel, converted))
    assert [term.time_scale for term in converted_terms] == [
        60.0 * term.time_scale for term in original_terms
    ]
    fixed = ConstantKernel(2.0) * OnTime(Matern(5.0, "fixed", nu=1.5)) + OnSpace(Matern(3.0))
    expected = ConstantKernel(2.0) * OnTime(Matern(300.0, "fixed", nu=1.5)) + OnSpace(Matern(3.0))
    assert scale_times(fixed, 60.0) == expected
    assert scale_times(smooth(), 1.0) == smooth()
    slow = scale_times(OnSpace(RBF(1.0)) * Drift(0.1, (0.01, 0.9)), 60.0).k2
    discounts = [1.0 - (1.0 - rate) ** 60 for rate in (slow.epsilon, *slow.epsilon_bounds)]
    assert discounts == pytest.approx([0.1, 0.01, 0.9])


def test_first_refit_learns_the_time_step() -> None:
    tight = Every(spread=1e-6, space_spread=1e-6, rivals=(rough(),), in_steps=True)
    plain, start = sample_of(smooth(), 40, 0), smooth()
    later = Dataset(plain.X, 60.0 * plain.t, plain.y, plain.variance)
    first = refit(tight, start, Learned.initial(start, tight), later, UNIT, UNIT)
    assert first.starts == (scale_times(start, 60.0), scale_times(rough(), 60.0))
    for kernel, median in zip(first.kernels, first.starts, strict=True):
        np.testing.assert_allclose(kernel.theta, median.theta, atol=1e-6)
    # The step is learned once: medians stay, whatever the steps are later.
    second = refit(tight, start, first, plain, UNIT, UNIT)
    assert second.starts is first.starts
    np.testing.assert_allclose(second.kernel.theta, first.kernel.theta, atol=1e-6)
    # Without the rule, time scales are in the unit of time.
    in_time_units = replace(tight, in_steps=False)
    unconverted = refit(
        in_time_units, start, Learned.initial(start, in_time_units), later, UNIT, UNIT
    )
    assert unconverted.starts == (start, rough())
    np.testing.assert_allclose(unconverted.kernel.theta, start.theta, atol=1e-6)


@pytest.mark.parametrize("fits", [1, 9])
def test_later_refit_learns_a_longer_time_step(fits: int) -> None:
    # The first sample may be reported in close succession, with many fits on the way.
    tight = Every(spread=1e-6, space_spread=1e-6, rivals=(rough(),), in_steps=True)
    sample, start = sample_of(smooth(), 40, 0), smooth()
    close = replace(sample, t=0.1 * sample.t)
    learned = Learned.initial(start, tight)
    for _ in range(fits):
        learned = refit(tight, start, learned, close, UNIT, UNIT)
    assert learned.step == pytest.approx(0.1)
    little = replace(sample, t=0.19 * sample.t)  # hardly a longer step
    assert refit(tight, start, learned, little, UNIT, UNIT).step == pytest.approx(0.1)
    later = refit(tight, start, learned, sample, UNIT, UNIT)
    assert later.step == 1.0
    assert later.starts == (scale_times(start, 1.0), scale_times(rough(), 1.0))
    np.testing.assert_allclose(later.kernel.theta, start.theta, atol=1e-6)


def test_refit_selects_by_sum_of_losses() -> None:
    # The rival fits the next sample better, but has larger losses so far.
    every, start = Every(rivals=(rough(),), iterations=1), smooth()
    sample = sample_of(rough(), 60, 3, noise=1e-3)
    fresh = refit(every, start, Learned.initial(start, every), sample, UNIT, UNIT)
    lead = fresh.losses[0] - fresh.losses[1]
    assert lead > 1.0
    for before, best in ((0.5 * lead, 1), (2.0 * lead, 0)):
        learned = replace(Learned.initial(start, every), losses=(0.0, before))
        assert refit(every, start, learned, sample, UNIT, UNIT).best == best


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


def test_bandit_fits_once_for_the_rewards_of_one_tell() -> None:
    bandit = fitted_bandit()
    X = DOMAIN.X[np.arange(20) % 12]
    assert bandit.tell(X, [reward(x[None], 3.0) for x in X], np.arange(20.0)).model.fits == 1
    assert len(bandit.ask()) == 1


def test_have_same_form_ignores_values_of_hyperparameters() -> None:
    rng, kernel = np.random.default_rng(0), structured_kernel(RBF(0.8))
    moves = 0.3 * rng.standard_normal((20, len(kernel.theta)))
    assert all(
        have_same_form(kernel.clone_with_theta(kernel.theta + move), kernel) for move in moves
    )


def test_from_state_with_another_kernel_discards_the_fit() -> None:
    bandit = fitted_bandit()
    play(bandit, range(1, 14))
    for other in (
        fitted_bandit(kernel=Matern(0.8, nu=1.5)),
        policies.gp_ucb(DOMAIN, kernel=RBF(1.0), noise_variance=NOISE),
    ):
        continued_bandit = Bandit.from_state(other.recipe, bandit.state)
        assert continued_bandit.state.model.kernel is other.recipe.kernel
        assert continued_bandit.state.model.fit is None
        assert len(continued_bandit.state.rewards) == 13
        play(continued_bandit, range(14, 20))  # a fit in it
        assert (continued_bandit.state.model.kernel is other.recipe.kernel) == (
            other.recipe.learn is None
        )
    # A recipe with the same kernel and another schedule keeps the fit.
    same = Bandit.from_state(fitted_bandit(learn=Every(7)).recipe, bandit.state)
    assert same.state.model.kernel is bandit.state.model.kernel


@pytest.mark.parametrize("unit", [1000.0, 2.0**-10])
def test_bandit_with_refit_ignores_the_unit_of_reward(unit: float) -> None:
    one, other = fitted_bandit(), fitted_bandit(unit)
    np.testing.assert_array_equal(play(other, range(1, 16), unit), play(one, range(1, 16)))
    for term, expected_term in zip(terms(other), terms(one), strict=True):
        assert term.amplitude == pytest.approx(expected_term.amplitude, rel=2e-3)
        assert term.time_scale == pytest.approx(expected_term.time_scale, rel=1e-3)
    assert other.info.model.scale == pytest.approx(unit * one.info.model.scale, rel=1e-6)


@pytest.mark.parametrize("step", [2.0**10, 2.0**-10])
def test_bandit_with_refit_ignores_the_unit_of_time(step: float) -> None:
    one, other = fitted_bandit(posterior=Exact()), fitted_bandit(posterior=Exact())
    # The points are not those of `ask`: before the first fit, time scales are in the unit of time.
    for t in range(1, 16):
        x = DOMAIN.X[[5 * t % 12]]
        one.tell(x, [reward(x, t)], t)
        other.tell(x, [reward(x, t)], step * t)
    assert one.info.model.fits == other.info.model.fits == 4
    for term, expected in zip(terms(other), terms(one), strict=True):
        assert term.amplitude == pytest.approx(expected.amplitude, rel=2e-6)
        assert term.time_scale == pytest.approx(step * expected.time_scale, rel=1e-6)
    term, expected = other.predict(DOMAIN.X, 16.0 * step), one.predict(DOMAIN.X, 16.0)
    np.testing.assert_allclose(term, expected, rtol=1e-6)


def test_scaling_of_constant_rewards_is_twice_the_noise_deviation() -> None:
    bandit = fitted_bandit()
    bandit.tell(DOMAIN.X[:4], [3.0] * 4, np.arange(4.0))
    scaling = bandit.state.model.scaling
    assert (scaling.anchor, scaling.scale) == (3.0, pytest.approx(2.0 * math.sqrt(NOISE)))


def test_refit_of_a_kernel_without_terms_needs_the_exact_posterior() -> None:
    kernel = OnSpace(RBF(0.8)) * OnTime(RBF(5.0))
    bandit = fitted_bandit(kernel=kernel, posterior=Exact())
    # The scales of this kernel are in the unit of time.
    assert bandit.recipe.learn == replace(LEARN, in_steps=False)
    play(bandit, range(1, 9))
    assert bandit.info.model.fits == 3
    assert have_same_form(bandit.state.model.kernel, kernel)
    assert bandit.state.model.kernel != kernel
    for posterior in ({}, {"posterior": StateSpace()}):
        with pytest.raises(ValueError, match=r"needs a sum of terms .*; got .*RBF"):
            fitted_bandit(kernel=kernel, **posterior)


def test_bandit_with_a_fixed_mean_keeps_the_unit() -> None:
    bandit = fitted_bandit(mean=0.25)
    play(bandit, range(1, 14))
    assert (bandit.state.model.scaling.anchor, bandit.state.model.scaling.scale) == (0.25, 1.0)
    assert bandit.info.model.fits > 2
    assert bandit.info.model.mean == 0.25


def test_remember_of_a_diverse_memory_is_greedy_without_the_whole_matrix() -> None:
    rng, kernel, sizes = np.random.default_rng(0), RBF(0.3), []

    class Counted(RBF):
        def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
            sizes.append(len(X) * len(X if Y is None else Y))
            return super().__call__(X, Y, eval_gradient)

    n, rule = 400, Every(remembered=40, recent=0.5, diverse=True)
    Z, t = rng.random((n, 2)), np.arange(float(n))
    mask = rule.remember(t, np.ones(n, dtype=bool), Counted(0.3), Z)
    older = Z[: n - 20]
    greedy: list[int] = []
    residual = kernel(older)
    for _ in range(20):
        greedy.append(int(np.diagonal(residual).argmax()))
        within = kernel(older[greedy]) + 1e-12 * np.eye(len(greedy))
        across = kernel(older[greedy], older)
        residual = kernel(older) - across.T @ np.linalg.solve(within, across)
    assert np.flatnonzero(mask).tolist() == [*sorted(greedy), *range(n - 20, n)]
    assert max(sizes) == n - 20
