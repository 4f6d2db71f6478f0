"""The ensemble as the posterior of a recipe: conditioned on what is new, asked about every candidate.

It observes each reading once, so that a step costs the same however long history is; its models differ
in what they have learned, so its mean is not linear in the rewards, and unit, centre and drift are its
own. Before any reading it is the prior of the recipe's kernel. What was read lately is kept beside it,
for late readings, and in small networks all that was read is looked through for a season.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index
from tvbandits.core.observations import changed
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.gp.ensemble.filters import distances, extent_of
from tvbandits.gp.ensemble.lasting import lasting_share
from tvbandits.gp.ensemble.mixture import Forecast
from tvbandits.gp.ensemble.models import SMALL_NETWORK, ModelSpec
from tvbandits.gp.ensemble.seasons import course, period_in
from tvbandits.gp.kernels.units import column_units, in_column_units
from tvbandits.gp.posteriors.cholesky import ExactPosterior, by_cholesky
from tvbandits.gp.posteriors.data import CandidateGrid, Data, Groups
from tvbandits.gp.posteriors.lookahead import JointPosterior
from tvbandits.gp.posteriors.protocol import Conditioning, PosteriorRule, as_of_now
from tvbandits.validation import finite_number, not_negative, of_kind, require, several

# --- late readings: at their own time, as far back as is kept --------------------------------------
# A filter only goes forward. What was known before the latest `WINDOW` times is kept, with what was
# observed since: a late observation goes back to its time, and the observations after it are taken once
# more. One from before the window counts at the window's beginning, as the noisier reading of that time
# that it is by then (`faded`).

# A late observation counts at its own time while no more than so many later times were observed.
WINDOW = 8

# A shorter period turns faster than a step of time can be told apart from none.
SHORTEST_SEASON = 1e-9


class Readings(NamedTuple):
    """Values of some points at one time: what one call of `FilterEnsemble.observe` takes.

    Attributes
    ----------
    rows : integer array of shape (n,)
    values, variance : arrays of shape (n,)
    """

    rows: Index
    values: Array
    variance: Array


def at_each_time(surface: CandidateGrid, data: Data) -> Iterator[tuple[float, Readings]]:
    """The different times of observations of candidates, in order of time, and what was read then."""
    start = 0
    for t, same in groupby(data.Z[:, -1].tolist()):
        at = slice(start, start + len(list(same)))
        rows = candidate_rows(surface, data.Z[at])
        yield t, Readings(rows, data.Y[at, 0], data.variance[at])
        start = at.stop


@dataclass(frozen=True)
class Recent:
    """An ensemble, as it was some times ago, and what was observed since.

    Attributes
    ----------
    before : FilterEnsemble
        Without the observations of `times`.
    times : tuple of float
        The latest times observed, in order.
    parts : tuple of tuple of Readings
        What was observed at each of them, in the order it is taken.
    """

    before: FilterEnsemble
    times: tuple[float, ...] = ()
    parts: tuple[tuple[Readings, ...], ...] = ()
    # The ensemble after each of the first times: made where it is needed.
    _after: list[FilterEnsemble] = field(default_factory=list, repr=False, compare=False)

    @property
    def latest(self) -> FilterEnsemble:
        """The ensemble with everything that was observed."""
        return self._after_times(len(self.times))

    def at(self, t: float) -> FilterEnsemble:
        """What was known at a time, as far back as is kept: without what was observed later."""
        return self._after_times(bisect_right(self.times, t))

    def observed(self, t: float, readings: Readings) -> Recent:
        """With readings of a time, late or not."""
        if t < self.before.time and t not in self.times:
            return self._long_ago(t, readings)
        at, same = bisect_left(self.times, t), t in self.times
        times = self.times if same else (*self.times[:at], t, *self.times[at:])
        grown = (*self.parts[at], readings) if same else (readings,)
        parts = (*self.parts[:at], grown, *self.parts[at + same :])
        # Where the latest time goes on, nothing has to be taken twice.
        goes_on = [self.latest.observe(*readings, t)] if same and at == len(times) - 1 else []
        out = Recent(self.before, times, parts, [*self._after[:at], *goes_on])
        surplus = len(times) - WINDOW
        if surplus <= 0:
            return out
        before = out._after_times(surplus)
        return Recent(before, times[surplus:], parts[surplus:], out._after[surplus:])

    def _long_ago(self, t: float, readings: Readings) -> Recent:
        """With readings of a time before what is kept."""
        noise = faded(self.before, self.before.time - t, readings.variance)
        heard = np.isfinite(noise)
        if not heard.any():
            return self
        rows, values, noise = readings.rows[heard], readings.values[heard], noise[heard]
        before = self.before.observe(rows, values, noise, self.before.time)
        return Recent(before, self.times, self.parts)

    def _after_times(self, count: int) -> FilterEnsemble:
        """The ensemble after the first so many of the times; those behind it wait until they are needed.

        Of many late readings each moves all that came later: they are taken once, after the last one.
        """
        known = self._after
        while len(known) < count:
            ensemble = known[-1] if known else self.before
            for each in self.parts[len(known)]:
                ensemble = ensemble.observe(*each, self.times[len(known)])
            known.append(ensemble)
        return known[count - 1] if count else self.before


def moved(ensemble: FilterEnsemble, t: float) -> FilterEnsemble:
    """The ensemble at a later time without an observation, for questions about that time."""
    if not ensemble.filters or t <= ensemble.time:
        return ensemble
    h = ensemble.steps_until(t)
    return replace(ensemble, time=t, filters=tuple(each.moved(h) for each in ensemble.filters))


def faded(ensemble: FilterEnsemble, age: float | Array, variance: Array) -> Array:
    """Noise variances (n,) with which readings of some time ago, or of times (n,) ago, speak about now.

    By `as_of_now`, with the correlation of static and drift together before anything is observed, over
    the members by their weights; infinite where nothing is left.
    """
    given = np.asarray(variance, dtype=np.float64)
    ages = np.broadcast_to(age, given.shape)
    if not ensemble.filters or not (ages > 0).any():
        return given
    steps = ages / ensemble.step if math.isfinite(ensemble.step) else np.ones(ages.shape)
    shared, total = np.zeros(ages.shape), 0.0
    for weight, unit, each in zip(ensemble.weights, ensemble.scales, ensemble.members, strict=True):
        shared += weight * unit * each.covariance(np.zeros(1), steps, 1.0)
        total += weight * unit * (each.static + each.drift)
    r2 = (shared / total) ** 2
    noise = np.where(r2 < 1e-6, np.inf, as_of_now(given, total, r2))
    return np.where(ages > 0, noise, given)


# --- a season that nobody named: found from the readings so far, and then a part of the models ----
# Until so many steps have passed the readings are looked through for a period from time to time
# (`gp.ensemble.seasons`); where one is found, or one that was found proves to be none, another
# ensemble takes the place of the present one, and observes all of them.


# After so many steps the search ends: then a step costs the same.
LAST = 1024

# After so many steps the readings are looked through: four times until they have doubled.
LOOKED_AT = (
    *(octave * quarter // 4 for octave in (32, 64, 128, 256, 512) for quarter in (4, 5, 6, 7)),
    LAST,
)

# With more readings the search ends: what a replay takes is bounded.
MOST_READINGS = 40_000

# A period is looked for where this share of steps is a whole number of the usual one, but for
# `OFF`.
REGULAR, OFF = 0.9, 0.1


@dataclass(frozen=True)
class SeasonSearch:
    """A season that is looked for in the readings so far.

    Attributes
    ----------
    start : FilterEnsemble
        Before any reading, without a season.
    period : float or None
        That was found, in the unit of time.
    steps : int
        Times so far.
    latest : float
        The latest of them.
    """

    start: FilterEnsemble
    period: float | None = None
    steps: int = 0
    latest: float = -math.inf

    def before(
        self, t: float, recent: Recent, data: Data, surface: CandidateGrid
    ) -> tuple[Recent, SeasonSearch | None]:
        """The ensemble and its search before what is read at a time; `data` hold all of before it."""
        if t <= self.latest:
            return recent, self
        search = replace(self, steps=self.steps + 1, latest=t)
        if self.steps not in LOOKED_AT:
            return recent, search
        earlier = data.rows(0, int(np.searchsorted(data.Z[:, -1], t)))
        period = self.period_of(earlier, surface)
        if period != self.period:
            search = replace(search, period=period)
            recent = search.replayed(earlier, surface)
        ends = self.steps >= LAST or len(earlier) > MOST_READINGS
        return recent, None if ends else search

    def period_of(self, data: Data, surface: CandidateGrid) -> float | None:
        """The period that observations, in order of time, show."""
        at = _steps(data.Z[:, -1])
        if at is None:
            return None
        step, steps = at
        series = course(steps, candidate_rows(surface, data.Z), data.Y[:, 0])
        known = None if self.period is None else self.period / step
        found = period_in(series, known)
        return None if found is None else found * step

    def replayed(self, data: Data, surface: CandidateGrid) -> Recent:
        """An ensemble with that season that has observed all of `data`, which are in order of time."""
        empty = self.start
        if self.period is not None:
            empty = FilterEnsemble.of(empty.points, empty.noise_variance, season=self.period)
        recent = Recent(empty)
        for t, readings in at_each_time(surface, data):
            recent = recent.observed(t, readings)
        return recent


def _steps(times: Array) -> tuple[float, Index] | None:
    """The usual time between two of the times (N,), and how many of it each is after the first.

    None where there is no such step, or gaps leave nothing to be compared.
    """
    different = np.unique(times)
    if len(different) < 2:
        return None
    with np.errstate(over="ignore"):
        gaps = np.diff(different)
        step = float(np.median(gaps))
        after = np.round((times - different[0]) / step)
        off = np.abs(gaps / step - np.round(gaps / step))
    regular = math.isfinite(step) and np.mean(off < OFF) >= REGULAR
    return (step, after.astype(np.int64)) if regular and after[-1] <= 2 * LAST else None


# --- the rule, and what it comes to -----------------------------------------------------------------

# Candidates tell another point until this share of the variance is left at each of them.
LEFT = 1e-6

# Candidates that tell another point, of many the ones that say most.
MOST_TELLING = 500

# Models of less weight are left where they were when others are carried over.
CARRIED = 1e-3

# Members of the largest weight that `EnsemblePosterior.learned` names.
SHOWN = 5


@dataclass(frozen=True)
class ModelEnsemble(PosteriorRule):
    """The rule: an ensemble of space-time models on the candidates, weighted by how well they predict.

    Parameters
    ----------
    both : bool
        Up to 96 candidates may be a network's or lie on a smooth function, and the models of the two are
        rivals; by default the models follow from the number of candidates.
    season : float, "find" or None
        Time after which a part of the reward comes again. "find": looked for in what is read of up to 64
        candidates, for 1,024 steps. None: there is no season.
    prior : tuple of pairs (ModelSpec, weight)
        What was learned on similar ground (`Bandit.learn_from`): half of the models' prior weight.
    unit : float
        The prior deviation there, the first guess of that here; 0: there is none.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> from tvbandits.gp.ensemble.rule import ModelEnsemble
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.adaptive_gp_ucb(sites, None, 0.01, posterior=ModelEnsemble())
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.recommend())
    10 [2.]
    """

    both: bool = False
    season: float | Literal["find"] | None = "find"
    prior: tuple[tuple[ModelSpec, float], ...] = ()
    unit: float = 0.0

    def __post_init__(self) -> None:
        season: Any = self.season
        if isinstance(season, str):
            require(season == "find", "season", 'a positive number, "find" or None', season)
        elif season is not None:
            finite_number("season", season, low=SHORTEST_SEASON)
        not_negative("unit", self.unit)
        for pair in several("prior", self.prior, "a tuple of pairs (ModelSpec, weight)"):
            model, weight = pair if isinstance(pair, tuple) and len(pair) == 2 else (pair, None)
            of_kind("each model of prior", model, ModelSpec, "a ModelSpec, with its weight")
            finite_number("each weight of prior", weight, low=0.0, high=1.0)

    self_learning: ClassVar[bool] = True

    def informed_by(self, known: Any) -> ModelEnsemble:
        """With the models' weights as their prior, and the unit as the first guess."""
        ensemble: FilterEnsemble = known.ensemble
        pairs = zip(ensemble.members, ensemble.weights.tolist(), strict=True)
        carried = tuple((each, weight) for each, weight in pairs if weight >= CARRIED)
        return replace(self, prior=carried, unit=ensemble.transform.unit)

    def condition(self, given: Conditioning) -> EnsemblePosterior | ExactPosterior:
        """Condition on rewards of candidates, of which the previous posterior may have observed some.

        They are in their own unit, at inputs [x, t], in any order. The kernel is what points share
        before the first of them; nothing later depends on it.
        """
        kernel, data, surface, now, previous, _, noise_variance = given
        if surface is None:
            raise ValueError("an ensemble of models needs candidates")
        data = data.in_time()
        prior = before_readings(kernel, data, surface, now)
        if prior is not None:
            return prior
        if isinstance(previous, EnsemblePosterior) and (
            (previous.rule, previous.recent.before.noise_variance) == (self, noise_variance)
        ):
            fresh = data.beyond(previous.data)
            if fresh is not None and len(fresh) == 0 and now == previous.now:
                return previous
            if fresh is not None:
                return changed(previous, kernel=kernel, surface=surface).told(fresh, data, now)
        season = None if self.season == "find" else self.season
        points = in_column_units(surface.points)
        ensemble = FilterEnsemble.of(points, noise_variance, both=self.both, season=season)
        ensemble = changed(ensemble, prior=self.prior, unit=self.unit)
        # On a function of many points a season would take more features than a step can afford.
        looks = self.season == "find" and len(surface.points) <= SMALL_NETWORK
        search = SeasonSearch(ensemble) if looks else None
        begun = EnsemblePosterior(kernel, surface, self, data, Recent(ensemble), now, search)
        return begun.told(data, data, now)


def candidate_rows(surface: CandidateGrid, Z: Array) -> Index:
    """Which candidates inputs (n, p), that begin with a point, are."""
    X = Z[:, : surface.points.shape[1]]
    rows = [surface.index(x) for x in X]
    if None in rows:
        raise ValueError(f"an ensemble observes candidates, got the point {X[rows.index(None)]}")
    return np.array(rows, dtype=np.int64)


def before_readings(
    kernel: Any, data: Data, surface: CandidateGrid, now: float
) -> ExactPosterior | None:
    """The prior, if nothing of `data`, which is in order of time, was read by then."""
    if len(data) and now >= data.Z[0, -1]:
        return None
    none = Data(surface.at(now)[:0], data.Y[:0], data.variance[:0])
    return by_cholesky(kernel, none, surface=surface, now=now)


class CandidatePosterior:
    """What posteriors of candidates answer alike that learn mean and unit of the reward themselves."""

    surface: CandidateGrid
    data: Data
    now: float
    fantasy: JointPosterior | None

    dictionary_size: ClassVar[None] = None
    dense: ClassVar[bool] = False
    jitter: ClassVar[float] = 0.0
    products: ClassVar[Array] = np.full((1, 1), np.nan)
    """Not a number: the mean is not linear in the values."""
    log_det_ratio: ClassVar[float] = math.nan
    """Widths that depend on it belong to theorems about one known kernel."""

    def __getstate__(self) -> dict[str, Any]:
        """All but what can be computed again."""
        kept = {each.name: self.__dict__[each.name] for each in fields(self)}  # type: ignore[arg-type]
        return kept | {"fantasy": None}

    def beliefs(self, about: float, beta: float, noise_variance: Any = None) -> JointPosterior:
        """About all candidates at the time `now`, and what readings of the time `about` would change."""
        raise NotImplementedError

    def on_surface(self) -> tuple[Array, Array]:
        """Means (A, 1) and variances (A,) at the candidates."""
        raise NotImplementedError

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Means (n, 1) and variances (n,) at candidates [x, t], all at the time `now`."""
        rows = candidate_rows(self.surface, Z)
        mean, variance = self.on_surface()
        return mean[rows], variance[rows]

    def means_on_surface(self) -> Array:
        """Means (A, 1) of `on_surface`."""
        return self.on_surface()[0]

    def since(self, t: float) -> Self:
        """The same without the readings from before a time: the models hold what they told."""
        return replace(self, data=self.data.since(t))  # type: ignore[type-var]  # a dataclass

    @property
    def own_nugget(self) -> float:
        """Variance of what is new at every place at every time, as the models have it."""
        return 0.0

    @property
    def size(self) -> int:
        """Number of observations."""
        return len(self.data)

    def lookahead(
        self, points: Array, about: float, beta: float, noise_variance: float
    ) -> JointPosterior:
        """About candidates (n, d) now, and what answers of the time `about` would change."""
        believed = self.beliefs(about, beta, noise_variance)
        if len(points) == len(believed):
            return believed
        return believed.take(candidate_rows(self.surface, points))

    @cached_property
    def _now(self) -> JointPosterior:
        """About the time `now`, and what readings of that time would change."""
        return self.beliefs(self.now, 1.0) if self.fantasy is None else self.fantasy

    def shrunk(self, Z: Array, noise: float | Array, surface: CandidateGrid | None) -> Self:  # noqa: ARG002
        """The same with more readings of candidates `Z` (k, p), their values unknown."""
        readings = Data(Z, np.empty((len(Z), 0)), np.full(len(Z), noise) + self.own_nugget)
        readings = Groups.of(Z).merge(readings)
        rows = candidate_rows(self.surface, readings.Z)
        spread = np.zeros(len(self.surface.points))
        spread[rows] = readings.variance
        known = replace(self._now, noise_variance=spread).after(*rows.tolist())
        return replace(self, fantasy=known)  # type: ignore[type-var]  # a dataclass

    def cross_covariance(self, Z1: Array, Z2: Array) -> Array:
        """Posterior covariance (n1, n2) of candidates [x, t], all at the time `now`."""
        return self._now.among(*(candidate_rows(self.surface, Z).tolist() for Z in (Z1, Z2)))

    def expansion(self, worst: float) -> None:
        """None: it is no sum of kernel rows."""

    def effective_dimension(self) -> float:
        """Not a number, as `log_det_ratio`."""
        return math.nan


@dataclass(frozen=True)
class EnsemblePosterior(CandidatePosterior):
    """What an ensemble says at one time: a `Posterior` of `gp.posteriors.protocol`.

    Means have one column, variances are in the unit of reward squared.

    Attributes
    ----------
    kernel : scikit-learn kernel
    surface : CandidateGrid
    rule : ModelEnsemble
    data : Data
        All that it has observed, in order of time.
    recent : Recent
    now : float
        The time that it speaks about.
    search : SeasonSearch or None
        For a season, while it is looked for.
    fantasy : JointPosterior or None
        About that time, if some points more had been observed.
    """

    kernel: Any
    surface: CandidateGrid
    rule: ModelEnsemble
    data: Data
    recent: Recent
    now: float
    search: SeasonSearch | None = None
    fantasy: JointPosterior | None = field(default=None, repr=False, compare=False)

    def told(self, fresh: Data, data: Data, now: float) -> EnsemblePosterior:
        """At the time `now`, once it has observed those of `data` that are new, time after time."""
        recent, search, surface = self.recent, self.search, self.surface
        for t, readings in at_each_time(surface, fresh):
            if search is not None:
                recent, search = search.before(t, recent, data, surface)
            recent = recent.observed(t, readings)
        return EnsemblePosterior(self.kernel, surface, self.rule, data, recent, now, search)

    def continued(
        self, rows: Data, now: float, surface: CandidateGrid | None
    ) -> EnsemblePosterior | None:
        """With readings more; None where `now` is older than all of its own."""
        if surface is not self.surface or now < self.data.Z[0, -1]:
            return None
        if len(rows.Z) == 0:
            return self if now == self.now else changed(self, now=now)
        return self.told(rows.in_time(), self.data.append(rows).in_time(), now)

    # --- what it believes -----------------------------------------------------------------------------

    @cached_property
    def ensemble(self) -> FilterEnsemble:
        """The ensemble, as it was at the time `now` if that has passed."""
        return self.recent.at(self.now)

    @cached_property
    def forecast(self) -> Forecast:
        """Of all candidates at the time `now`."""
        return self.ensemble.predict(max(self.now, self.ensemble.time))

    def beliefs(
        self, about: float, beta: float, noise_variance: float | None = None
    ) -> JointPosterior:
        """About all candidates at the time `now`, and what readings of the time `about` would change."""
        ensemble = moved(self.recent.at(max(about, self.recent.latest.time)), about)
        believed = ensemble.beliefs(max(self.now, ensemble.time), beta)
        if noise_variance is None:
            return believed
        more = noise_variance - ensemble.noise_variance
        return changed(believed, noise_variance=np.maximum(believed.noise_variance + more, 1e-300))

    # --- the questions of `Posterior` -----------------------------------------------------------------

    @cached_property
    def own_nugget(self) -> float:
        """Variance of what is new at every place at every time, as the models have it."""
        ensemble = self.ensemble
        nuggets = np.concatenate([each.layout.nugget for each in ensemble.filters])
        return float((ensemble.weights * ensemble.scales * nuggets).cumsum()[-1])

    @property
    def nugget(self) -> float:
        """The same, inflated as all variances are; no forecast can know it."""
        return self.ensemble.widening**2 * self.own_nugget

    def prior_covariance(self, Z: Array) -> Array:
        """As the model of the largest weight has it, of static differences and drift."""
        ensemble, X, times = self.ensemble, Z[:, :-1] / self._units, Z[:, -1]
        heaviest = int(ensemble.weights.argmax())
        step = ensemble.step if math.isfinite(ensemble.step) else 1.0
        steps, extent = np.abs(times[:, None] - times) / step, extent_of(ensemble.points)
        covariance = ensemble.members[heaviest].covariance(distances(X, X), steps, extent)
        return np.asarray(ensemble.scales[heaviest] * covariance)

    @property
    def lasting_share(self) -> Array:
        """As `tvbandits.gp.ensemble.lasting.lasting_share` at the time `now`."""
        return lasting_share(self.ensemble, max(self.now, self.ensemble.time))

    @property
    def learned(self) -> Mapping[str, Any]:
        """Where rewards lie, their prior deviation, what is new every time, and who counts most."""
        ensemble, weights = self.ensemble, self.ensemble.weights
        heaviest = (-weights).argsort(kind="stable")[:SHOWN].tolist()
        return {
            "centre": ensemble.origin,
            "scale": math.sqrt(float(weights @ ensemble.scales)),
            "nugget": math.sqrt(self.own_nugget),
            "members": tuple((float(weights[i]), ensemble.members[i]) for i in heaviest),
            "widening": ensemble.widening,
            "coverage": ensemble.coverage,
        }

    def pending_noise(self, here: Array, then: Array, ages: Array, noise: Array) -> Array:  # noqa: ARG002
        """With what noise (n,) values seen some ages ago speak about the time `now`."""
        return faded(self.ensemble, ages, noise)

    def on_surface(self) -> tuple[Array, Array]:
        """Means (A, 1) and variances (A,) of what can be learned, at the candidates."""
        deviation = self.forecast.learnable if self.fantasy is None else self.fantasy.deviation
        return self.forecast.mean[:, None], deviation**2

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Means (n, 1) and variances (n,) at inputs [x, t], all at the time `now`.

        A point that is no candidate is told from the candidates by the correlations of the models
        (simple kriging around the mean of all candidates); what these leave out adds to its variance.
        """
        X = Z[:, : self.surface.points.shape[1]]
        rows = [self.surface.index(x) for x in X]
        if None not in rows:
            return super().predict(Z)
        mean, variance = self.on_surface()
        reach, left = self._reach(X, float(variance.max()))
        everyone = range(len(mean))
        covariance = self._now.among(everyone, everyone)
        spread = np.einsum("ij,jk,ik->i", reach, covariance, reach) + left
        found, spread = reach @ mean, self.ensemble.widening**2 * np.maximum(spread, 0.0)
        for i, row in enumerate(rows):
            if row is not None:
                found[i], spread[i] = mean[row], variance[row]
        return found, spread

    @cached_property
    def _units(self) -> Array:
        """The units (d,) in which the ensemble holds the coordinates of the candidates."""
        points = self.surface.points
        return column_units(points.min(axis=0), points.max(axis=0))

    def samples(self, surface: CandidateGrid, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Centred draws at the candidates at the time `now`, shape (count, A)."""
        everyone = range(len(self.surface.points))
        root = linalg.square_root(self._now.among(everyone, everyone))
        return np.asarray(rng.standard_normal((count, root.shape[1])) @ root.T)

    def _reach(self, X: Array, largest: float) -> tuple[Array, Array]:
        """How the candidates tell points (n, d), (n, A), and the variance (n,) that they leave.

        `largest` is the largest variance of a candidate.
        """
        ensemble = self.ensemble
        points, X = ensemble.points, X / self._units
        extent = extent_of(points)
        members = zip(ensemble.weights, ensemble.scales, ensemble.members, strict=True)
        parts = [
            (weight * unit * share, space)
            for weight, unit, each in members
            for share, space in ((each.static, each.static_space), (each.drift, each.drift_space))
        ]
        total = sum(much for much, _ in parts)

        def covariance(to: Array) -> Array:
            """Of the candidates with other points (m, d)."""
            apart = distances(to, points)
            return np.asarray(sum(much * space.correlation(apart, extent) for much, space in parts))

        # Of many candidates those of which the others can hardly tell anything say what all say.
        span = linalg.pivoted_cholesky(
            np.full(len(points), total),
            lambda i: covariance(points[[i]])[0],
            MOST_TELLING,
            LEFT * total,
        )
        telling, factor = span.pivots, span.G[:, span.pivots].T
        half = linalg.solve_lower(factor, covariance(X)[:, telling].T)
        told = linalg.solve_lower(factor, half, transposed=True).T
        reach = np.zeros((len(X), len(points)))
        reach[:, telling] = told + (1.0 - told.sum(axis=1, keepdims=True)) / len(telling)
        # Under a transform of the rewards the slopes are not 1: nothing is less known than what is far.
        most = largest / ensemble.widening**2
        return reach, np.maximum(total - (half**2).sum(axis=0), 0.0) * max(1.0, most / total)
