"""A season found from readings: when it is looked for, what is told again, and what stays as it was."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import f as f_distribution, lognorm, norm, yeojohnson
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import refused
from tvbandits import Answers, Bandit, Candidates, load, policies
from tvbandits.bandit.state import same_value
from tvbandits.core.arrays import Array
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.gp.ensemble import seasons
from tvbandits.gp.ensemble.ensemble import POWERS, FilterEnsemble
from tvbandits.gp.ensemble.mixture import Transform
from tvbandits.gp.ensemble.models import function_settings, settings_for
from tvbandits.gp.ensemble.rule import LOOKED_AT, ModelEnsemble, Readings, Recent, SeasonSearch
from tvbandits.gp.kernels.additive import structured_kernel
from tvbandits.gp.posteriors.data import CandidateGrid, Data
from tvbandits.gp.posteriors.protocol import Conditioning, Posterior

POINTS = np.random.default_rng(1).uniform(0, 4, (6, 2))
KERNEL = structured_kernel(RBF(1.0))
GRID = CandidateGrid(KERNEL, POINTS)
PHASES = np.linspace(0.0, 0.8, len(POINTS))


def field(t: float, day: float = 12.0) -> Array:
    """A sharp rush hour, at each place at a time of its own."""
    wave = np.cos(2 * np.pi * t / day - PHASES)
    return np.asarray(np.exp(2.0 * wave) / 2.0 + 0.3 * keyed_normal(0, 3, POINTS, t))


def reading(t: float, unit: float = 1.0, seasonal: bool = True) -> Readings:
    rows = np.random.default_rng([7, round(t / unit)]).permutation(len(POINTS))[:3]
    values = field(t / unit)[rows] if seasonal else keyed_normal(0, 4, POINTS[rows], t)
    return Readings(rows, values, np.full(3, 0.05))


At = tuple[Recent, SeasonSearch | None]


def timed(times: Array, unit: float = 1.0, seasonal: bool = True) -> Data:
    parts = [reading(float(t), unit, seasonal) for t in times]
    rows, y, variance = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Data(np.column_stack([POINTS[rows], np.repeat(times, 3)]), y[:, None], variance)


def searched(at: At, times: Array, unit: float = 1.0, seasonal: bool = True) -> At:
    """With the readings of the last of the times."""
    t, (recent, search) = float(times[-1]), at
    if search is not None:
        recent, search = search.before(t, recent, timed(times, unit, seasonal), GRID)
    return recent.observed(t, reading(t, unit, seasonal)), search


def run(times: Array, unit: float = 1.0, *, seasonal: bool = True, both: bool = False) -> list[At]:
    bank = FilterEnsemble.of(POINTS, 0.05, both=both)
    at: At = Recent(bank), SeasonSearch(bank)
    out = []
    for n in range(1, len(times) + 1):
        at = searched(at, times[:n], unit, seasonal)
        out.append(at)
    return out


@pytest.mark.parametrize("unit", [1.0, 0.25])
def test_it_is_found_in_the_unit_of_time_and_then_a_part_of_the_models(unit: float) -> None:
    steps = run(unit * np.arange(1, 70), unit)
    periods = [search and search.period for _, search in steps]
    first = next(n for n, each in enumerate(periods) if each is not None)
    # It is looked for once all of a step is told: when the next one comes.
    assert first in LOOKED_AT
    assert all(each is None for each in periods[:first])
    assert all(each == pytest.approx(12.0 * unit) for each in periods[first:])
    before, after = steps[first - 1][0].latest, steps[first][0].latest
    assert all(each.season is None for each in before.members)
    assert {each.season and each.season.period for each in after.settings} == {None, 12.0 * unit}


def test_of_both_a_season_takes_a_networks_models() -> None:
    both = FilterEnsemble.of(POINTS, 0.05, both=True)
    assert set(function_settings(POINTS.shape[1])) < set(both.settings)
    recent, search = run(np.arange(1.0, 50.0), both=True)[-1]
    assert search.period == 12.0
    knew = Recent(FilterEnsemble.of(POINTS, 0.05, both=True, season=12.0))
    assert knew.before.settings == settings_for(POINTS, 12.0)
    for t in np.arange(1.0, 50.0):
        knew = knew.observed(float(t), reading(float(t)))
    assert same_value(recent.latest, knew.latest)
    # Where it proves to be none, the rivals are back.
    without = replace(search, period=None).replayed(timed(np.arange(1.0, 3.0)), GRID)
    assert without.before.settings == both.settings


def test_where_there_is_none_the_bank_is_as_it_always_was() -> None:
    recent, search = run(np.arange(1.0, 60.0), seasonal=False)[-1]
    plain = Recent(FilterEnsemble.of(POINTS, 0.05))
    for t in np.arange(1.0, 60.0):
        plain = plain.observed(float(t), reading(float(t), seasonal=False))
    assert search.period is None
    assert same_value(recent.latest, plain.latest)


def test_one_that_proves_to_be_none_is_given_up() -> None:
    _, search = run(np.arange(1.0, 40.0), seasonal=False)[-1]
    mistaken = replace(search, period=13.0)
    at: At = mistaken.replayed(timed(np.arange(1.0, 40.0), seasonal=False), GRID), mistaken
    for n in range(40, 50):
        at = searched(at, np.arange(1.0, n + 1.0), seasonal=False)
    assert at[1] is not None
    assert at[1].period is None
    assert all(each.season is None for each in at[0].latest.settings)
    always, _ = run(np.arange(1.0, 50.0), seasonal=False)[-1]
    assert same_value(at[0].latest, always.latest)


def test_late_readings_are_replayed_at_their_own_time() -> None:
    times = np.arange(1.0, 40.0)
    late = timed(np.concatenate([times[:20], times[21:], times[20:21]]))
    rule = ModelEnsemble()
    posteriors: list[Posterior] = []
    for end in (3 * 20, 3 * 38, 3 * 39):  # the 21st step comes last
        data = late.rows(0, end)
        known = posteriors[-1] if posteriors else None
        made = rule.condition(Conditioning(KERNEL, data, GRID, 40.0, known, noise_variance=0.05))
        posteriors.append(made)
    assert posteriors[-1].search is not None
    assert posteriors[-1].search.latest == 39.0
    np.testing.assert_array_equal(posteriors[-1].data.Z[:, -1], np.repeat(times, 3))
    assert posteriors[-1].search.steps == 38  # a late time is no step of its own


def test_steps_that_are_no_steps_have_no_period() -> None:
    irregular = np.cumsum(np.random.default_rng(0).uniform(0.1, 2.0, 60))
    assert all(d is not None and d.period is None for _, d in run(irregular, seasonal=True))
    # Single gaps do no harm.
    _, search = run(np.delete(np.arange(1.0, 90.0), [10, 30, 31, 50]))[-1]
    assert search.period == 12.0
    # A gap longer than all that is looked through does.
    far = np.concatenate([np.arange(1.0, 30.0), 1e6 + np.arange(1.0, 20.0)])
    _, search = run(far)[-1]
    assert search.period is None


# --- in a bandit ----------------------------------------------------------------------------------


class Station:
    def query(self, X: Array, t: float) -> Answers:
        rows = [int(np.flatnonzero((x == POINTS).all(axis=1))[0]) for x in X]
        return Answers(field(t)[rows] + 0.1 * keyed_normal(0, 5, X, t), 0.01)


def frugal(**more: object) -> Bandit:
    options = {"expert": Station(), "budget": 2.0, **more}
    return policies.frugal_gp_ucb(Candidates(POINTS), noise_variance=0.01, **options)  # type: ignore[arg-type]


def played(bandit: Bandit, first: int, last: int) -> list[Array]:
    out = []
    for t in range(first, last + 1):
        X = bandit.ask(t)
        bandit.tell(X, Station().query(X, t + 0.0).values, t)
        out.append(X)
    return out


def season_of(bandit: Bandit) -> float | None:
    posterior = bandit.state.posterior
    return None if posterior.search is None else posterior.search.period


def test_a_bandit_that_was_put_away_goes_on_bit_for_bit(tmp_path: object) -> None:
    straight, stopped = frugal(), frugal()
    played(straight, 1, 60)
    played(stopped, 1, 60)
    assert season_of(straight) == 12.0
    file = f"{tmp_path}/bandit.tvb"
    stopped.save(file)
    again = load(file, trusted={f"{Station.__module__}:Station": Station()})
    np.testing.assert_array_equal(played(straight, 61, 75), played(again, 61, 75))
    assert straight.state == again.state


def test_who_names_one_or_none_gets_that() -> None:
    assert frugal().recipe.posterior == ModelEnsemble(both=True)
    assert frugal(season=None).recipe.posterior == ModelEnsemble(both=True, season=None)
    six = ModelEnsemble(season=6.0)
    assert frugal(posterior=six).recipe.posterior == six
    assert frugal(posterior=six, season=None).recipe.posterior == ModelEnsemble(season=None)
    none = frugal(season=None)
    played(none, 1, 40)
    assert season_of(none) is None
    # A fitted kernel has no season to be found, and says nothing of it.
    assert not isinstance(frugal(learn=True).recipe.posterior, ModelEnsemble)
    says = "season must be a positive number, .* or None, got 'yearly'"
    refused(ValueError, says, ModelEnsemble, season="yearly")
    refused(ValueError, "or None, got 'none'", frugal, season="none")
    says = "season must be finite and at least 1e-09, got 5e-324"
    refused(ValueError, says, frugal, season=5e-324)
    refused(ValueError, r"season must be finite .*\[6\.0, 7\.0\]", frugal, season=[6.0, 7.0])
    refused(ValueError, "season must be finite", frugal, season=np.array([6.0, 7.0]))
    refused(ValueError, "budget must lie in .* got 9007199254740992", frugal, budget=2**53)


# --- periods of a series: against a regression stated plainly, and where there is none


def weather(n: int, keeps: float, rng: np.random.Generator) -> Array:
    return np.asarray(lfilter([1.0], [1.0, -keeps], rng.standard_normal(n + 200))[200:])


def by_least_squares(series: Array, period: float) -> float:
    """The same chance by two regressions: with and without the harmonics."""
    harmonics = min(3, math.ceil(period / 2) - 1)
    rows = [t for t in range(3, len(series)) if np.isfinite(series[t - 3 : t + 1]).all()]
    y = series[rows]
    columns = [np.ones(len(rows)), *([series[t - k] for t in rows] for k in (1, 2, 3))]
    waves = [
        wave(2 * np.pi * j * np.array(rows) / period)
        for j in range(1, harmonics + 1)
        for wave in (np.cos, np.sin)
    ]
    without, beside = np.column_stack(columns), np.column_stack(columns + waves)
    left = [
        float(np.sum((y - M @ np.linalg.lstsq(M, y, rcond=None)[0]) ** 2))
        for M in (without, beside)
    ]
    one, other = 2 * harmonics, len(rows) - beside.shape[1]
    return float(f_distribution.logsf((left[0] - left[1]) / one / (left[1] / other), one, other))


@pytest.mark.parametrize("missing", [0.0, 0.05])
@pytest.mark.parametrize("period", [4.0, 5.5, 7.0, 24.0, 31.3])
def test_it_is_the_f_test_of_two_regressions(period: float, missing: float) -> None:
    rng = np.random.default_rng(3)
    series = 5.0 + weather(120, 0.8, rng) + np.cos(2 * np.pi * np.arange(120) / 7.0)
    series[rng.random(120) < missing] = np.nan
    (found,) = seasons.log_chances(series, np.array([period]))
    assert found == pytest.approx(by_least_squares(series, period), rel=1e-5)


@pytest.mark.parametrize("period", [7.0, 12.5, 24.0, 48.0])
@pytest.mark.parametrize("sharp", [False, True])
def test_a_day_under_weather_is_found(period: float, sharp: bool) -> None:
    """A pure wave of a few periods may be taken for twice itself, and its course is right then, too."""
    found, t = [], np.arange(200)
    wave = np.cos(2 * np.pi * t / period)
    day = np.exp(3.0 * wave) / 3.0 if sharp else 4.0 * wave
    for seed in range(5):
        each = seasons.period_in(weather(200, 0.7, np.random.default_rng(seed)) + day)
        assert each is not None
        found.append(each)
    close = [abs(each - period) <= 0.3 * period**2 / 200 for each in found]
    assert sum(close) >= (5 if sharp else 4)


@pytest.mark.parametrize("keeps", [0.0, 0.6, 0.95, 0.999])
def test_weather_has_none(keeps: float) -> None:
    found = [
        seasons.period_in(weather(n, keeps, np.random.default_rng([seed, n])))
        for seed in range(25)
        for n in (48, 96, 192)
    ]
    assert sum(each is not None for each in found) <= 1


def test_one_that_is_known_stays_until_the_series_speaks_against_it() -> None:
    t, rng = np.arange(240), np.random.default_rng(1)
    noise = weather(240, 0.5, rng)
    day = 0.9 * np.cos(2 * np.pi * t / 24.0)
    # What would not be enough to be found is enough to stay.
    short = (0.5 * day + noise)[:96]
    assert seasons.period_in(short) is None
    assert seasons.period_in(short, 24.0) == 24.0
    assert seasons.period_in(noise, 24.0) is None
    # And another that is far likelier takes its place.
    for known in (31.0, 25.0):
        assert seasons.period_in(3.0 * day + noise, known) == 24.0


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
def test_where_nothing_can_be_said_nothing_is(series: Array) -> None:
    assert seasons.period_in(series) is None


def test_the_course_is_a_least_squares_fit_of_steps_and_places() -> None:
    rng = np.random.default_rng(4)
    steps = np.sort(rng.integers(0, 12, 60))
    steps[steps == 5] = 6
    places = rng.integers(0, 4, 60)
    values = 10.0 + rng.standard_normal(12)[steps] + rng.standard_normal(4)[places]
    course = seasons.course(steps, places, values)
    seen = np.unique(steps)
    S = (steps[:, None] == seen).astype(float)
    P = (places[:, None] == np.arange(4)).astype(float)
    # One reading of 0 more at each place.
    left = np.block([[S, P], [np.zeros((4, len(seen))), np.eye(4)]])
    right = np.concatenate([values - values.mean(), np.zeros(4)])
    apart = course[seen] - np.linalg.lstsq(left, right, rcond=None)[0][: len(seen)]
    # Up to what the last sweep leaves.
    np.testing.assert_allclose(apart, apart.mean(), atol=1e-3)
    assert np.isnan(course[5])


def test_ranks_keep_the_order_and_are_normal() -> None:
    ranks = seasons.in_ranks(np.array([3.0, np.nan, -1e9, 7.0, 4.0]))
    assert np.isnan(ranks[1])
    np.testing.assert_allclose(ranks[[2, 0, 4, 3]], norm.ppf([0.125, 0.375, 0.625, 0.875]))


# --- transforms against scipy's, and moments against a fine grid

Y = np.linspace(-9.0, 30.0, 79)
EVERY_POWER = (0.0, 0.5, 1.0, 1.5, 2.0)
EVERYTHING = (-np.inf, np.inf)


@pytest.mark.parametrize("power", EVERY_POWER)
def test_transforms_are_those_of_yeo_and_johnson(power: float) -> None:
    np.testing.assert_allclose(
        Transform(power, 3.0)(Y), 3.0 * yeojohnson(Y / 3.0, power), atol=1e-12
    )


@pytest.mark.parametrize("power", EVERY_POWER)
def test_inverse_and_slope_belong_to_the_transform(power: float) -> None:
    transform = Transform(power, 3.0)
    np.testing.assert_allclose(transform.inverse(transform(Y)), Y, atol=1e-9)
    h = 1e-5
    slope = (transform(Y + h) - transform(Y - h)) / (2 * h)
    np.testing.assert_allclose(np.exp(transform.log_slope(Y)), slope, rtol=1e-4)


@pytest.mark.parametrize("power", EVERY_POWER)
def test_moments_are_those_of_a_fine_grid(power: float) -> None:
    transform, z = Transform(power, 2.0), np.linspace(-8, 8, 20_001)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    for center, variance in ((0.0, 0.3), (1.5, 0.5), (-2.0, 0.2)):
        y = transform.inverse(center + np.sqrt(variance) * z)
        mean, spread, slope = transform.moments(
            np.array([center]), np.array([variance]), EVERYTHING
        )
        assert mean[0] == pytest.approx(weights @ y, rel=2e-3, abs=2e-3)
        assert spread[0] == pytest.approx(weights @ (y - weights @ y) ** 2, rel=0.02)
        assert slope[0] == pytest.approx(weights @ (y * z) / np.sqrt(variance), rel=0.02)


def test_what_no_one_has_seen_does_not_count() -> None:
    mean, variance, _ = Transform(0.0, 1.0).moments(np.array([2.0]), np.array([9.0]), (0.0, 5.0))
    assert mean[0] < 10.0
    assert variance[0] < 36.0


def told(power_of_ten: float, seed: int, flip: float = 1.0) -> tuple[FilterEnsemble, Array]:
    """A bank that has read a skewed field, in some unit, and one step more of the field."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 5, (8, 2))
    site, unit = rng.normal(0, 0.5, 8), 10.0**power_of_ten
    powers = POWERS if flip > 0 else tuple(2.0 - power for power in POWERS)
    bank = replace(FilterEnsemble.of(points, 1e-4 * unit**2), powers=powers)
    fields = lognorm.rvs(0.7, size=(41, 8), random_state=rng) * np.exp(site) * unit * flip
    for t, field in enumerate(fields[:-1]):
        rows = rng.choice(8, 4, replace=False)
        bank = bank.observe(rows, field[rows], None, float(t))
    return bank, fields[-1]


def test_a_skewed_field_is_known_for_one_whatever_its_unit_and_sign() -> None:
    bank, _ = told(0.0, 0)
    assert bank.transform.power < 1
    scaled, _ = told(3.0, 0)
    np.testing.assert_allclose(scaled.predict(40.0).mean, 1e3 * bank.predict(40.0).mean, rtol=1e-6)
    turned, _ = told(0.0, 0, flip=-1.0)
    assert turned.transform.power == 2.0 - bank.transform.power
    np.testing.assert_allclose(turned.predict(40.0).mean, -bank.predict(40.0).mean, rtol=1e-6)
    np.testing.assert_allclose(
        turned.predict(40.0).deviation, bank.predict(40.0).deviation, rtol=1e-6
    )


def test_beliefs_of_a_skewed_field_are_in_the_unit_of_reward() -> None:
    bank, _ = told(2.0, 1)
    beliefs, forecast = bank.beliefs(40.0), bank.predict(40.0)
    np.testing.assert_allclose(beliefs.mean, forecast.mean, rtol=1e-9)
    np.testing.assert_allclose(beliefs.deviation, forecast.learnable, rtol=1e-9)
    every = list(range(8))
    among, reach = beliefs.among(every, every), beliefs.reach(every)
    assert np.linalg.eigvalsh(among).min() > -1e-8 * np.abs(among).max()
    # What an answer about a point tells about the point itself is less than what it does not know.
    assert (np.abs(np.diag(reach)) < np.diag(among) + forecast.learnable**2).all()
