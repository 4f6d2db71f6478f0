"""A season found from readings: when it is looked for, what is told again, and what stays as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Answers, Bandit, Candidates, load, policies
from tvbandits.bandit.state import same_value
from tvbandits.core.arrays import Array
from tvbandits.core.keyed_noise import keyed_normal
from tvbandits.gp.ensemble.ensemble import CAPACITY, FilterEnsemble
from tvbandits.gp.ensemble.models import function_settings, settings_for
from tvbandits.gp.ensemble.recent import Readings, Recent
from tvbandits.gp.ensemble.rule import EnsemblePosterior, ModelEnsemble, started
from tvbandits.gp.ensemble.seasons import LOOKED_AT, SeasonSearch, TimedReadings, observed
from tvbandits.gp.kernels.additive import structured_kernel
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.data import Data
from tvbandits.gp.posteriors.protocol import Posterior

POINTS = np.random.default_rng(1).uniform(0, 4, (6, 2))
KERNEL = structured_kernel(RBF(1.0))
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


def timed(times: Array, unit: float = 1.0, seasonal: bool = True) -> TimedReadings:
    parts = [reading(float(t), unit, seasonal) for t in times]
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    return TimedReadings(np.repeat(times, 3), *columns)


def searched(at: At, times: Array, unit: float = 1.0, seasonal: bool = True) -> At:
    """With the readings of the last of the times."""
    t = float(times[-1])
    earlier = lambda: timed(times[:-1], unit, seasonal)  # noqa: E731
    return observed(*at, t, reading(t, unit, seasonal), earlier)


def run(times: Array, unit: float = 1.0, *, seasonal: bool = True) -> list[At]:
    bank = FilterEnsemble.of(POINTS, 0.05)
    at: At = Recent(bank), SeasonSearch.of(bank)
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


def test_the_bank_then_is_the_one_that_always_knew_it() -> None:
    recent, search = run(np.arange(1.0, 70.0))[-1]
    assert search is not None
    knew = Recent(FilterEnsemble.of(POINTS, 0.05, season=search.period))
    for t in np.arange(1.0, 70.0):
        knew = knew.observed(float(t), reading(float(t)))
    assert same_value(recent.latest, knew.latest)


def test_of_both_a_season_takes_a_networks_models() -> None:
    both = started(POINTS, 0.05, "both", CAPACITY, None)
    assert set(function_settings(POINTS.shape[1])) < set(both.settings)
    at: At = Recent(both), SeasonSearch.of(both)
    for n in range(1, 50):
        at = searched(at, np.arange(1.0, n + 1.0))
    recent, search = at
    assert search is not None
    assert search.period == 12.0
    knew = Recent(started(POINTS, 0.05, "both", CAPACITY, 12.0))
    assert knew.before.settings == settings_for(POINTS, 12.0)
    for t in np.arange(1.0, 50.0):
        knew = knew.observed(float(t), reading(float(t)))
    assert same_value(recent.latest, knew.latest)
    # Where it proves to be none, the rivals are back.
    assert (
        replace(search, period=None).replayed(timed(np.arange(1.0, 3.0))).before.settings
        == both.settings
    )


def test_where_there_is_none_the_bank_is_as_it_always_was() -> None:
    recent, search = run(np.arange(1.0, 60.0), seasonal=False)[-1]
    plain = Recent(FilterEnsemble.of(POINTS, 0.05))
    for t in np.arange(1.0, 60.0):
        plain = plain.observed(float(t), reading(float(t), seasonal=False))
    assert search is not None
    assert search.period is None
    assert same_value(recent.latest, plain.latest)


def test_one_that_proves_to_be_none_is_given_up() -> None:
    _, search = run(np.arange(1.0, 40.0), seasonal=False)[-1]
    assert search is not None
    mistaken = replace(search, period=13.0)
    at: At = mistaken.replayed(timed(np.arange(1.0, 40.0), seasonal=False)), mistaken
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
    rule, grid = ModelEnsemble(), CandidateGrid(KERNEL, POINTS)
    posteriors: list[Posterior] = []
    for end in (3 * 20, 3 * 38, 3 * 39):  # the 21st step comes last
        t, rows, y, variance = (column[:end] for column in late)
        data = Data(np.column_stack([POINTS[rows], t]), y[:, None], variance)
        known = posteriors[-1] if posteriors else None
        made = rule.condition(
            KERNEL, data, surface=grid, now=40.0, previous=known, noise_variance=0.05
        )
        posteriors.append(made)
    assert isinstance(posteriors[-1], EnsemblePosterior)
    assert posteriors[-1].search is not None
    assert posteriors[-1].search.latest == 39.0
    np.testing.assert_array_equal(posteriors[-1].data.Z[:, -1], np.repeat(times, 3))
    assert posteriors[-1].search.steps == 38  # a late time is no step of its own


def test_steps_that_are_no_steps_have_no_period() -> None:
    rng = np.random.default_rng(0)
    irregular = np.cumsum(rng.uniform(0.1, 2.0, 60))
    assert all(d is not None and d.period is None for _, d in run(irregular, seasonal=True))
    # Single gaps do no harm.
    gaps = np.delete(np.arange(1.0, 90.0), [10, 30, 31, 50])
    _, search = run(gaps)[-1]
    assert search is not None
    assert search.period == 12.0
    # A gap longer than all that is looked through does.
    far = np.concatenate([np.arange(1.0, 30.0), 1e6 + np.arange(1.0, 20.0)])
    _, search = run(far)[-1]
    assert search is not None
    assert search.period is None


# --- in a bandit ----------------------------------------------------------------------------------


class Station:
    def query(self, X: Array, t: float) -> Answers:
        rows = [int(np.flatnonzero((x == POINTS).all(axis=1))[0]) for x in X]
        return Answers(field(t)[rows] + 0.1 * keyed_normal(0, 5, X, t), 0.01)


def frugal(**more: object) -> Bandit:
    options = {"expert": Station(), "budget": 2.0, **more}
    return policies.frugal_gp_ucb(Candidates(POINTS), None, 0.01, **options)  # type: ignore[arg-type]


def played(bandit: Bandit, first: int, last: int) -> list[Array]:
    out = []
    for t in range(first, last + 1):
        X = bandit.ask(t)
        bandit.tell(X, Station().query(X, t + 0.0).values, t)
        out.append(X)
    return out


def season_of(bandit: Bandit) -> float | None:
    posterior = bandit.state.posterior
    assert isinstance(posterior, EnsemblePosterior)
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
    assert frugal().recipe.posterior == ModelEnsemble("both", season="find")
    assert frugal(season=None).recipe.posterior == ModelEnsemble("both", season=None)
    six = ModelEnsemble(season=6.0)
    assert frugal(posterior=six).recipe.posterior == six
    assert frugal(posterior=six, season=None).recipe.posterior == ModelEnsemble(season=None)
    none = frugal(season=None)
    played(none, 1, 40)
    assert season_of(none) is None
    # A fitted kernel has no season to be found, and says nothing of it.
    assert not isinstance(frugal(learn=True).recipe.posterior, ModelEnsemble)
    with pytest.raises(
        ValueError, match=r"season must be a positive number, .* or None, got 'yearly'"
    ):
        ModelEnsemble(season="yearly")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="or None, got 'none'"):
        frugal(season="none")
