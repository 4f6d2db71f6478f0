"""The search for a season, its F test against two regressions, and its use in a posterior."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter
from scipy.stats import f as f_distribution, norm
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.recipes import build
from tests.helpers.refusals import assert_refused
from tvbandits import Answers, Bandit, Candidates, Options, load, policies
from tvbandits.bandit.state import is_same_value
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.gp.additive import structured_kernel
from tvbandits.gp.ensemble import posterior as posterior_module, seasons
from tvbandits.gp.ensemble.candidate_posterior import Readings
from tvbandits.gp.ensemble.empirical import EmpiricalSpace
from tvbandits.gp.ensemble.mixture import FilterEnsemble
from tvbandits.gp.ensemble.models import function_models, models_for
from tvbandits.gp.ensemble.posterior import EnsemblePosterior, ModelEnsemble, ReplayBuffer
from tvbandits.gp.kernels.units import scale_columns
from tvbandits.gp.posterior import CandidateGrid, Conditioning, Data, Posterior
from tvbandits.validation import Array

POINTS = np.random.default_rng(1).uniform(0, 4, (6, 2))
SCALED = scale_columns(POINTS)
KERNEL = structured_kernel(RBF(1.0))
GRID = CandidateGrid(KERNEL, POINTS)
PHASES = np.linspace(0.0, 0.8, len(POINTS))


def field(t: float, day: float = 12.0) -> Array:
    """Return a field with a sharp daily peak, at each place at its own time."""
    wave = np.cos(2 * np.pi * t / day - PHASES)
    return np.asarray(np.exp(2.0 * wave) / 2.0 + 0.3 * keyed_normal(0, 3, POINTS, t))


def reading(t: float, unit: float = 1.0, seasonal: bool = True) -> Readings:
    rows = np.random.default_rng([7, round(t / unit)]).permutation(len(POINTS))[:3]
    values = field(t / unit)[rows] if seasonal else keyed_normal(0, 4, POINTS[rows], t)
    return Readings(rows, values, np.full(3, 0.05))


def data_at(times: Array, unit: float = 1.0, seasonal: bool = True) -> Data:
    parts = [reading(float(t), unit, seasonal) for t in times]
    rows, y, variance = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Data(np.column_stack([POINTS[rows], np.repeat(times, 3)]), y[:, None], variance)


def posterior_from(
    data: Data, previous: Posterior | None = None, rule: ModelEnsemble | None = None
) -> EnsemblePosterior:
    now = float(data.Z[:, -1].max())
    conditioning = Conditioning(KERNEL, data, GRID, now, previous, noise_variance=0.05)
    return (rule or ModelEnsemble()).condition(conditioning)


def posteriors_at(
    times: Array, unit: float = 1.0, *, seasonal: bool = True, both: bool = False
) -> list[EnsemblePosterior]:
    """Return the posteriors after each of the times, each from the previous one."""
    posteriors: list[EnsemblePosterior] = []
    for n in range(1, len(times) + 1):
        previous = posteriors[-1] if posteriors else None
        data = data_at(times[:n], unit, seasonal)
        posteriors.append(posterior_from(data, previous, ModelEnsemble(both=both)))
    return posteriors


def buffer_at(times: Array, ensemble: FilterEnsemble, seasonal: bool = True) -> ReplayBuffer:
    buffer = ReplayBuffer(ensemble)
    for t in times:
        buffer = buffer.add(float(t), reading(float(t), seasonal=seasonal))
    return buffer


def period_of(posterior: EnsemblePosterior) -> float | None:
    assert posterior.search is not None
    return posterior.search.period


@pytest.mark.parametrize("unit", [1.0, 0.25])
def test_season_search_finds_the_period_and_puts_it_into_the_models(unit: float) -> None:
    posteriors = posteriors_at(unit * np.arange(1, 70), unit)
    periods = [period_of(each) for each in posteriors]
    first = next(n for n, each in enumerate(periods) if each is not None)
    # The search runs once the next time begins, as more readings of a time may follow.
    assert first in seasons.CONFIG.search_steps
    assert all(each is None for each in periods[:first])
    assert all(each == pytest.approx(12.0 * unit) for each in periods[first:])
    before, after = posteriors[first - 1].buffer.latest, posteriors[first].buffer.latest
    assert all(each.season is None for each in before.current_models)
    assert {each.season and each.season.period for each in after.models} == {12.0 * unit}


def test_season_replaces_rival_models_by_network_models() -> None:
    rivals = FilterEnsemble.of(SCALED, 0.05, both=True)
    assert set(function_models(POINTS.shape[1])) < set(rivals.models)
    posterior = posteriors_at(np.arange(1.0, 50.0), both=True)[-1]
    assert period_of(posterior) == 12.0
    seasonal = FilterEnsemble.of(SCALED, 0.05, both=True, season=12.0)
    assert seasonal.models == models_for(POINTS, 12.0)
    assert is_same_value(posterior.buffer.latest, buffer_at(np.arange(1.0, 50.0), seasonal).latest)
    # A rejected period brings the rivals back.
    rejected = posterior.replay(posterior.buffer.start, None, 3.0, data_at(np.arange(1.0, 3.0)))
    assert rejected.start.models == rivals.models


def test_season_search_without_result_changes_nothing() -> None:
    times = np.arange(1.0, 60.0)
    posterior = posteriors_at(times, seasonal=False)[-1]
    assert period_of(posterior) is None
    plain = buffer_at(times, FilterEnsemble.of(SCALED, 0.05), seasonal=False)
    assert is_same_value(posterior.buffer.latest, plain.latest)


def test_season_search_rejects_a_wrong_period_after_later_readings() -> None:
    times = np.arange(1.0, 40.0)
    posterior = posteriors_at(times, seasonal=False)[-1]
    assert posterior.search is not None
    wrong = posterior.replay(posterior.buffer.start, 13.0, 40.0, data_at(times, seasonal=False))
    posterior = replace(posterior, buffer=wrong, search=replace(posterior.search, period=13.0))
    for n in range(40, 50):
        data = data_at(np.arange(1.0, n + 1.0), seasonal=False)
        posterior = posterior_from(data, posterior)
    assert period_of(posterior) is None
    assert all(each.season is None for each in posterior.buffer.latest.models)
    never = posteriors_at(np.arange(1.0, 50.0), seasonal=False)[-1]
    assert is_same_value(posterior.buffer.latest, never.buffer.latest)


def test_season_search_uses_all_of_a_long_history(monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(posterior_module.CONFIG, latest_times=12, latest_readings=1)
    monkeypatch.setattr(posterior_module, "CONFIG", few)
    data = data_at(np.arange(1.0, 101.0))
    posterior = posterior_from(data)
    assert period_of(posterior) == 12.0
    # All models of the ensemble have it from its first reading on.
    assert posterior.buffer.latest.steps == few.latest_times - 1
    assert {each.season and each.season.period for each in posterior.buffer.latest.models} == {12.0}
    # The search continues as if it had read all times.
    assert posterior.search is not None
    assert (posterior.search.steps, posterior.search.latest) == (100, 100.0)
    later = posterior_from(data_at(np.arange(1.0, 116.0)), posterior)
    assert period_of(later) == 12.0


def test_season_search_counts_late_readings_at_their_own_time() -> None:
    times = np.arange(1.0, 40.0)
    late = data_at(np.concatenate([times[:20], times[21:], times[20:21]]))
    posterior: EnsemblePosterior | None = None
    for end in (3 * 20, 3 * 38, 3 * 39):  # the 21st step comes last
        posterior = posterior_from(late.rows(0, end), posterior)
    assert posterior is not None
    assert posterior.search is not None
    assert posterior.search.latest == 39.0
    np.testing.assert_array_equal(posterior.data.Z[:, -1], np.repeat(times, 3))
    assert posterior.search.steps == 38  # a late time is not counted as a step


def test_season_search_finds_no_period_at_irregular_times() -> None:
    irregular = np.cumsum(np.random.default_rng(0).uniform(0.1, 2.0, 60))
    assert all(period_of(each) is None for each in posteriors_at(irregular))
    # Single gaps do no harm.
    gaps = np.delete(np.arange(1.0, 90.0), [10, 30, 31, 50])
    assert period_of(posteriors_at(gaps)[-1]) == 12.0
    # A gap longer than the searched window leaves no readings to compare.
    far = np.concatenate([np.arange(1.0, 30.0), 1e6 + np.arange(1.0, 20.0)])
    assert period_of(posteriors_at(far)[-1]) is None


class WaveExpert:
    def query(self, X: Array, t: float) -> Answers:
        rows = [int(np.flatnonzero((x == POINTS).all(axis=1))[0]) for x in X]
        return Answers(field(t)[rows] + 0.1 * keyed_normal(0, 5, X, t), 0.01)


def frugal(**more: object) -> Bandit:
    values = {"expert": WaveExpert(), "queries_per_step": 2.0, "noise_variance": 0.01, **more}
    bandit: Bandit = build(policies.frugal_gp_ucb, Candidates(POINTS), **values)
    return bandit


def play(bandit: Bandit, first: int, last: int) -> list[Array]:
    points = []
    for t in range(first, last + 1):
        X = bandit.ask(t)
        bandit.tell(X, WaveExpert().query(X, t + 0.0).values, t)
        points.append(X)
    return points


def season_of(bandit: Bandit) -> float | None:
    posterior = bandit.state.posterior
    return None if posterior.search is None else posterior.search.period


def test_loaded_bandit_with_a_season_plays_bitwise_the_same(tmp_path: object) -> None:
    uninterrupted, saved = frugal(), frugal()
    play(uninterrupted, 1, 60)
    play(saved, 1, 60)
    assert season_of(uninterrupted) == 12.0
    file = f"{tmp_path}/bandit.tvb"
    saved.save(file)
    loaded = load(file, trusted={f"{WaveExpert.__module__}:WaveExpert": WaveExpert()})
    np.testing.assert_array_equal(play(uninterrupted, 61, 75), play(loaded, 61, 75))
    assert uninterrupted.state == loaded.state


def test_policies_accept_a_season_or_refuse_an_invalid_one() -> None:
    assert frugal().recipe.posterior == ModelEnsemble(both=True)
    assert frugal(season=None).recipe.posterior == ModelEnsemble(both=True, season=None)
    six = ModelEnsemble(season=6.0)
    assert frugal(posterior=six).recipe.posterior == six
    assert frugal(posterior=six, season=None).recipe.posterior == ModelEnsemble(season=None)
    without_season = frugal(season=None)
    play(without_season, 1, 40)
    assert season_of(without_season) is None
    # A fitted kernel has no season, and `season="find"` is no error.
    assert not isinstance(frugal(refit=True).recipe.posterior, ModelEnsemble)
    message = "season must be a positive number, .* or None, got 'yearly'"
    assert_refused(ValueError, message, ModelEnsemble, season="yearly")
    assert_refused(ValueError, "or None, got 'none'", frugal, season="none")
    message = "season must be finite and at least 1e-09, got 5e-324"
    assert_refused(ValueError, message, frugal, season=5e-324)
    assert_refused(ValueError, r"season must be finite .*\[6\.0, 7\.0\]", frugal, season=[6.0, 7.0])
    assert_refused(ValueError, "season must be finite", frugal, season=np.array([6.0, 7.0]))
    assert_refused(
        ValueError,
        "queries_per_step must lie in .* got 9007199254740992",
        frugal,
        queries_per_step=2**53,
    )


def autoregression(n: int, keeps: float, rng: np.random.Generator) -> Array:
    return np.asarray(lfilter([1.0], [1.0, -keeps], rng.standard_normal(n + 200))[200:])


def by_least_squares(series: Array, period: float) -> float:
    """Return the same log probability by two regressions, with and without the harmonics."""
    harmonics = min(3, math.ceil(period / 2) - 1)
    rows = [t for t in range(3, len(series)) if np.isfinite(series[t - 3 : t + 1]).all()]
    y = series[rows]
    columns = [np.ones(len(rows)), *([series[t - k] for t in rows] for k in (1, 2, 3))]
    waves = [
        wave(2 * np.pi * j * np.array(rows) / period)
        for j in range(1, harmonics + 1)
        for wave in (np.cos, np.sin)
    ]
    base, full = np.column_stack(columns), np.column_stack(columns + waves)
    squares = [
        float(np.sum((y - M @ np.linalg.lstsq(M, y, rcond=None)[0]) ** 2)) for M in (base, full)
    ]
    one, other = 2 * harmonics, len(rows) - full.shape[1]
    return float(
        f_distribution.logsf((squares[0] - squares[1]) / one / (squares[1] / other), one, other)
    )


@pytest.mark.parametrize("missing", [0.0, 0.05])
@pytest.mark.parametrize("period", [4.0, 5.5, 7.0, 24.0, 31.3])
def test_log_p_values_match_the_f_test_of_two_regressions(period: float, missing: float) -> None:
    rng = np.random.default_rng(3)
    series = 5.0 + autoregression(120, 0.8, rng) + np.cos(2 * np.pi * np.arange(120) / 7.0)
    series[rng.random(120) < missing] = np.nan
    (log_p,) = seasons.log_p_values(series, np.array([period]))
    assert log_p == pytest.approx(by_least_squares(series, period), rel=1e-5)


@pytest.mark.parametrize("period", [7.0, 12.5, 24.0, 48.0])
@pytest.mark.parametrize("sharp", [False, True])
def test_find_period_finds_the_period_under_autocorrelated_noise(
    period: float, sharp: bool
) -> None:
    """A few periods of a pure wave may be mistaken for one of twice the length, which fits as well."""
    periods, t = [], np.arange(200)
    wave = np.cos(2 * np.pi * t / period)
    day = np.exp(3.0 * wave) / 3.0 if sharp else 4.0 * wave
    for seed in range(5):
        each = seasons.find_period(autoregression(200, 0.7, np.random.default_rng(seed)) + day)
        assert each is not None
        periods.append(each)
    close = [abs(each - period) <= 0.3 * period**2 / 200 for each in periods]
    assert sum(close) >= (5 if sharp else 4)


@pytest.mark.parametrize("keeps", [0.0, 0.6, 0.95, 0.999])
def test_find_period_finds_none_in_autocorrelated_noise(keeps: float) -> None:
    periods = [
        seasons.find_period(autoregression(n, keeps, np.random.default_rng([seed, n])))
        for seed in range(12)
        for n in (48, 96, 192)
    ]
    assert sum(each is not None for each in periods) <= 1


def test_find_period_keeps_a_period_until_it_is_rejected() -> None:
    t, rng = np.arange(240), np.random.default_rng(1)
    noise = autoregression(240, 0.5, rng)
    day = 0.9 * np.cos(2 * np.pi * t / 24.0)
    # Evidence too weak to accept a period is enough to keep it.
    short = (0.5 * day + noise)[:96]
    assert seasons.find_period(short) is None
    assert seasons.find_period(short, 24.0) == 24.0
    assert seasons.find_period(noise, 24.0) is None
    # A far more likely period replaces it.
    for accepted in (31.0, 25.0):
        assert seasons.find_period(3.0 * day + noise, accepted) == 24.0


@pytest.mark.parametrize(
    "series",
    [
        np.zeros(0),
        np.ones(3),
        np.ones(100),
        np.arange(100.0),
        np.full(100, np.nan),
        np.where(np.arange(100) % 2 == 0, np.nan, 1.0),
    ],
    ids=["empty", "three", "constant", "line", "nothing read", "every second"],
)
def test_find_period_of_a_degenerate_series_is_none(series: Array) -> None:
    assert seasons.find_period(series) is None


def test_common_series_is_the_least_squares_fit() -> None:
    rng = np.random.default_rng(4)
    steps = np.sort(rng.integers(0, 12, 60))
    steps[steps == 5] = 6
    places = rng.integers(0, 4, 60)
    values = 10.0 + rng.standard_normal(12)[steps] + rng.standard_normal(4)[places]
    series = seasons.common_series(steps, places, values)
    present = np.unique(steps)
    S = (steps[:, None] == present).astype(float)
    P = (places[:, None] == np.arange(4)).astype(float)
    # One reading of 0 more at each place.
    matrix = np.block([[S, P], [np.zeros((4, len(present))), np.eye(4)]])
    right = np.concatenate([values - values.mean(), np.zeros(4)])
    apart = series[present] - np.linalg.lstsq(matrix, right, rcond=None)[0][: len(present)]
    # The sweeps end at this tolerance.
    np.testing.assert_allclose(apart, apart.mean(), atol=1e-3)
    assert np.isnan(series[5])


def test_normal_scores_are_quantiles_of_ranks() -> None:
    ranks = seasons.normal_scores(np.array([3.0, np.nan, -1e9, 7.0, 4.0]))
    assert np.isnan(ranks[1])
    np.testing.assert_allclose(ranks[[2, 0, 4, 3]], norm.ppf([0.125, 0.375, 0.625, 0.875]))


@pytest.mark.parametrize("seed", range(2))
def test_forecast_of_a_network_with_fronts_follows_the_given_season(seed: int) -> None:
    """Fronts predict the next hour, and the daily cycle the later ones."""
    rng, hours = np.random.default_rng([seed, 5]), np.arange(192 + 24)
    cycle = 8.0 * np.sin(2.0 * np.pi * (hours - 9.0) / 24.0)
    front = np.zeros(len(hours))
    for t in hours[1:]:
        front[t] = 0.9 * front[t - 1] + 1.3 * rng.standard_normal()
    places = np.array([5.0 * rng.standard_normal(10), rng.uniform(0, 20, 10)]).T
    values = 40.0 + places[:, 0] + cycle[:, None] + front[:, None]
    values = values + 0.5 * rng.standard_normal(values.shape)
    bandit = policies.adaptive_gp_ucb(
        Candidates(places), noise_variance=0.25, options=Options(season=24),
        history=pd.DataFrame(values[:192], index=hours[:192]),
    )  # fmt: skip
    forecasts = [bandit.predict(places, t)[0].mean() for t in hours[192:]]
    truth = 40.0 + places[:, 0].mean() + cycle[192:]  # a front is unknown after some hours
    error = np.sqrt(np.mean((np.array(forecasts) - truth) ** 2))
    flat = np.sqrt(np.mean((values[191].mean() - truth) ** 2))
    assert error < 0.6 * flat
    assert np.ptp(forecasts) > 10.0


def test_ensemble_keeps_its_season_as_empirical_models_join() -> None:
    """One place is read from step 40 on: from then on every pair is, after a season was detected."""
    rng, t = np.random.default_rng(7), np.arange(100.0)
    values = np.exp(1.5 * np.sin(2.0 * np.pi * t / 12.0))[:, None] * rng.lognormal(
        0.0, 0.3, (100, 6)
    )
    values[:40, 0] = np.nan
    bandit = policies.adaptive_gp_ucb(
        Candidates(np.arange(6.0)[:, None]), noise_variance=1e-4,
        history=pd.DataFrame(values, index=t),
    )  # fmt: skip
    bandit.ask(100)
    posterior = bandit.state.posterior
    assert isinstance(posterior, EnsemblePosterior)
    assert any(
        isinstance(each.drift_space, EmpiricalSpace) for each in posterior.ensemble.current_models
    )
    assert posterior.search is not None
    assert posterior.search.period == pytest.approx(12.0)
    assert all(each.season is not None for each in posterior.ensemble.current_models)
