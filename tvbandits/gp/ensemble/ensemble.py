"""Space-time models side by side instead of one fit: what is believed is what they say together.

Every model is a Kalman filter, so that a step costs the same however long history is; no model is ever
fitted again. Their weights follow from how well they have predicted lately: half from the density of
what was observed, half from the squared errors of *differences* between places observed at one time,
since a decision depends on which place is best and not on the trend that all share. The gain over the
density alone was within noise on the networks it was tried on.

Models that next to nothing speaks for are inactive: they keep their state as it was, and the steps
since are a backlog. When the turn of their group comes, or a step was far off, they take it in and are
judged by each step like any other model; then those become active that carry weight, and others of
their group inactive. What is believed misses an inactive model for no more than `TURN` steps.

Rewards may be skewed: the models hold a power transform of them. Its power, origin and unit, and the
first guess of the scale, follow from the first steps, which are replayed under each power.

Prior art: dynamic model averaging [Raf], ensembles of Gaussian processes on random features [IE], BONE
[BN]; that a Kalman filter is an exact Gaussian process in space and time is due to [Tod]
(`docs/references.md`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvbandits.core.arrays import Array, Index
from tvbandits.core.observations import changed
from tvbandits.gp.ensemble.catching_up import (
    MOST_TOGETHER,
    Read,
    after,
    in_parts,
    squares_of_differences,
)
from tvbandits.gp.ensemble.filters import Filters, Innovations, filters_of, held
from tvbandits.gp.ensemble.mixture import Components, Forecast, Mixture, Transform
from tvbandits.gp.ensemble.models import SMALL_NETWORK, ModelSpec, may_be_both, settings_for
from tvbandits.gp.fitting.calibration import HALF, LARGEST
from tvbandits.gp.posteriors.lookahead import JointPosterior

# Of the transforms that a network's rewards may need, for a longer upper tail; the first is taken
# unless another one is clearly better. Powers of 3/2 and 2 did harm on ozone.
POWERS = (1.0, 0.5, 0.0)

# Another power than the first has so much more log evidence of the first steps.
CLEARLY = 2.0

# After so many steps an ensemble begins again, in the unit that the readings suggest.
UNIT_LEARNED_AT = (4, 16)

# The unit of a smooth function counts for so many innovations: who plays near a peak alone sees
# little of how far the function varies, and would soon take all of it for as flat as the peak.
GUESS_OF_A_FUNCTION = 30.0

# One time's readings of less variance than so many times the noise are taken for as much; of the first
# steps' readings the noise is taken off then. Some share of it is left: 16 readings tell no less.
LOUD, LEAST_TOLD = 4.0, 0.15

# Numbers in the covariances of all models, once an ensemble has been thinned.
CAPACITY = 300_000

# After so many steps the lighter half of an ensemble above its capacity goes.
THINNED_AT = (16, 32, 64, 128)

# Weight of the latest step in the mean squared standardised innovation, and in the coverage.
WATCHED = 0.05

# Models below this share of the largest weight are left out of what the ensemble says, not of it.
NEGLIGIBLE = 1e-2

# What the weights keep of the evidence at each step.
FORGETTING = 0.99

# A model is inactive below this share of the largest weight.
ACTIVE = 1e-3

# An inactive model catches up after so many steps.
TURN = 16

# After a step with a larger mean squared standardised innovation all models catch up.
STARTLING = 4.0


@dataclass(frozen=True)
class Step:
    """What was observed at one time, and how it judges a model.

    Attributes
    ----------
    expected : tuple of arrays of shape (M, S)
        The states of the active models that were expected.
    read : Read
    log_density : array of shape (sum of M,)
        Of the active models, in the unit of reward.
    innovations : tuple of float
        Squared standardised innovations of the ensemble.
    """

    expected: tuple[Array, ...]
    read: Read
    log_density: Array
    innovations: tuple[float, ...] = ()

    @classmethod
    def before(cls, filters: Sequence[Filters], t: float) -> Step:
        """Before anything is observed at a time."""
        read = Read(t, np.empty(0, np.int64), np.empty(0), np.empty(0))
        return cls(tuple(each.mean for each in filters), read, np.zeros(sum(map(len, filters))))


def evidence_of(log_density: Array, squares: Array, variance: Array | float) -> Array:
    """Half the log density, and half that of the differences between places, (M,).

    The latter as if all members' errors were of the same variance.

    Parameters
    ----------
    log_density : array of shape (M,)
        In the unit of reward.
    squares : array of shape (M,)
        Of differences.
    variance : float or array that suits both
        Of a reading of them.
    """
    return np.asarray(0.5 * (log_density - squares / (2.0 * variance)))


def squared_innovations(
    weights: Array, errors: Array, seen: Sequence[Innovations]
) -> tuple[float, ...]:
    """Squared standardised innovations of the mixture of models, whose errors (M, n) are these."""
    variances = np.concatenate([each.variances for each in seen])
    mean = weights @ errors
    variance = weights @ (variances + (errors - mean) ** 2)
    return tuple(np.minimum(mean**2 / variance, LARGEST).tolist())


def by_group(values: NDArray[Any], filters: Sequence[Filters]) -> list[NDArray[Any]]:
    """A value for each of all models, as those (M,) of each of their groups."""
    return np.split(values, np.cumsum([len(each) for each in filters])[:-1])


@dataclass(frozen=True)
class Group:
    """Models of the same features at the latest time they know, and their scores (M,) then."""

    filters: Filters
    score: Array
    time: float

    def caught_up(self, backlog: Sequence[Read], step: float) -> Group:
        """Once they know all that was read since."""
        filters, score, time = self.filters, self.score, self.time
        for since in _together([each for each in backlog if each.t > self.time]):
            filters, said = after(filters, time, since, step)
            for each in evidence_of(*said, np.array([[read.apart] for read in since])):
                score = FORGETTING * score + each
            time = since[-1].t
        return Group(filters, score, time)


def _together(since: Sequence[Read]) -> Iterator[Sequence[Read]]:
    """Steps in pieces of at most `MOST_TOGETHER` readings, or of one step: their cost is cubic."""
    first, readings = 0, 0
    for i, each in enumerate(since):
        if i > first and readings + len(each.rows) > MOST_TOGETHER:
            yield since[first:i]
            first, readings = i, 0
        readings += len(each.rows)
    if since:
        yield since[first:]


@dataclass(frozen=True)
class Inactive:
    """The inactive models, at most one `Group` of the same features, and what some have not seen."""

    groups: tuple[Group, ...] = ()
    backlog: tuple[Read, ...] = ()

    def turned(
        self, active: Sequence[Filters], score: Array, over: Read, due: int | None, step: float
    ) -> tuple[tuple[Filters, ...], Array, Inactive]:
        """Who is active, their scores, and who is not, after a step.

        Parameters
        ----------
        active : sequence of Filters
            At the end of the step.
        score : array of shape (models that are active,)
        over : Read
            At it.
        due : int, or None
            The group whose turn it is to catch up; None: all.
        step : float
            Time that a step takes.
        """
        backlog = (*self.backlog, over) if self.groups else ()
        groups = {each.group for each in active} | {each.filters.group for each in self.groups}
        turns = [group for group in sorted(groups) if due in (None, group)]
        if not turns:
            return tuple(active), score, Inactive(self.groups, backlog)
        pairs = zip(active, by_group(score, active), strict=True)
        up = {each.group: Group(each, part, over.t) for each, part in pairs}
        down = {each.filters.group: each for each in self.groups}
        woken = {g: down[g].caught_up(backlog, step) for g in turns if g in down}
        down |= woken
        best = max(float(each.score.max()) for each in (*up.values(), *woken.values()))
        for group in turns:
            _split(group, up, down, best + math.log(ACTIVE))
        inactive = tuple(down[group] for group in sorted(down))
        known = min((each.time for each in inactive), default=math.inf)
        backlog = tuple(each for each in backlog if each.t > known)
        on = [up[group] for group in sorted(up)]
        scores = np.concatenate([each.score for each in on])
        return tuple(each.filters for each in on), scores, Inactive(inactive, backlog)


def _split(group: int, up: dict[int, Group], down: dict[int, Group], least: float) -> None:
    """Put the models of a group where they belong by their scores."""
    here = [side[group] for side in (up, down) if group in side]
    stays = group not in up or (up[group].score >= least).all()
    if stays and (group not in down or (down[group].score < least).all()):
        return
    everyone, *others = (each.filters for each in here)
    everyone = everyone.joined(others[0]) if others else everyone
    score = np.concatenate([each.score for each in here])
    carries = score >= least
    for side, mask in ((up, carries), (down, ~carries)):
        side.pop(group, None)
        if mask.any():
            side[group] = Group(everyone.take(mask), score[mask], here[0].time)


def thinned(filters: Sequence[Filters], score: Array) -> tuple[tuple[Filters, ...], Array]:
    """Without the lighter half of the models, if their covariances hold more than `CAPACITY` numbers."""
    numbers = np.concatenate([np.full(len(each), each.layout.size**2) for each in filters])
    if numbers.sum() <= CAPACITY:
        return tuple(filters), score
    order = np.argsort(-score, kind="stable")
    fits = np.cumsum(numbers[order]) <= CAPACITY
    kept = np.zeros(len(order), dtype=bool)
    kept[order[: max((len(order) + 1) // 2, int(fits.sum()), 1)]] = True
    parts = zip(filters, by_group(kept, filters), strict=True)
    return tuple(each.take(part) for each, part in parts if part.any()), score[kept]


@dataclass(frozen=True)
class FilterEnsemble:
    """Weighted Kalman filters on fixed points. `FilterEnsemble.of` makes it; changes make a new one.

    Attributes
    ----------
    points : array of shape (A, d)
    settings : tuple of ModelSpec
        As given; `members` are those that are awake.
    noise_variance : float
        Of a reading that comes without its own: the sensor's, a lower end of what is learned.
    step : float
        Time that the settings count in: by default that between the first two times observed.
    filters : tuple of Filters
    origin : float
        Values are kept relative to it, against cancellation.
    time : float
        Of the latest observation; NaN before the first.
    steps : int
        Times observed before the present one.
    innovation : float
        Mean squared standardised innovation; 1 for a model that knows what it does not know.
    coverage : float
        Share of 95% intervals that held the reading, of the steps that `innovation` is about.
    powers : tuple of float
        Of the transforms that rewards may need: `POWERS` for a network whose models are not given, else
        rewards are taken as they are.
    transform : Transform
        The one that is taken, in the unit that is known so far.
    guess : float
        How many innovations the first guess of the scale is worth.
    prior : tuple of pairs (ModelSpec, weight)
        What others have learned: half of the prior weight is shared so, half evenly.
    unit : float
        The first guess of the scale where one reading says nothing of it; 0: none.
    seen : tuple of 2 float
        Lowest and highest reading, less the origin.
    """

    points: Array
    settings: tuple[ModelSpec, ...]
    noise_variance: float
    step: float = float("nan")
    filters: tuple[Filters, ...] = ()
    origin: float = 0.0
    time: float = float("nan")
    steps: int = 0
    innovation: float = 1.0
    coverage: float = 0.95
    powers: tuple[float, ...] = (1.0,)
    transform: Transform = field(default_factory=lambda: Transform(1.0, 1.0))
    guess: float = 1.0
    prior: tuple[tuple[ModelSpec, float], ...] = ()
    unit: float = 0.0
    seen: tuple[float, float] = (0.0, 0.0)
    _score: Array = field(default_factory=lambda: np.zeros(0))
    _error_variance: float = 0.0
    _present: Step = field(default_factory=lambda: Step.before((), math.nan))
    _early: tuple[tuple[Index, Array, Array, float], ...] = ()
    _inactive: Inactive = field(default_factory=Inactive)

    @classmethod
    def of(
        cls,
        points: Array,
        noise_variance: float,
        settings: Sequence[ModelSpec] | None = None,
        *,
        both: bool = False,
        season: float | None = None,
    ) -> FilterEnsemble:
        """Before any observation.

        Parameters
        ----------
        points : array of shape (A, d)
        noise_variance : float
        settings : sequence of ModelSpec, optional
            None: `settings_for(points)`, if they are `held`.
        both : bool
            As of `settings_for`. The first guess of the scale is worth as much then as for a function.
        season : float, optional
            Time after which a part of the reward comes again, for `settings_for`.
        """
        network = settings is None and len(points) <= SMALL_NETWORK
        rivals = both and may_be_both(points, season)
        guess = 1.0 if settings or (network and not rivals) else GUESS_OF_A_FUNCTION
        chosen = tuple(settings or held(settings_for(points, season, both), points))
        tried = POWERS if network else (1.0,)
        return cls(points, chosen, noise_variance, powers=tried, guess=guess)

    @cached_property
    def members(self) -> tuple[ModelSpec, ...]:
        """The models that are awake, in the order of `weights`."""
        return tuple(each for filters in self.filters for each in filters.settings)

    @cached_property
    def scales(self) -> Array:
        """Squared scales of the members, in units of reward at the origin, where the slope is 1."""
        return np.concatenate([each.variance for each in self.filters])

    @cached_property
    def weights(self) -> Array:
        """Weights of the members, of sum 1."""
        score = FORGETTING * self._score + self._evidence[0]
        weights = np.exp(score - score.max())
        return np.asarray(weights / weights.sum())

    @property
    def widening(self) -> float:
        """Factor on deviations: above 1 where innovations have been larger than they should be."""
        return float(np.sqrt(max(self.innovation, 1.0)))

    def steps_until(self, t: float) -> float:
        """Steps to a time. Before the second one nobody knows how long a step is: one, or none."""
        return (t - self.time) / self.step if math.isfinite(self.step) else float(t > self.time)

    def observe(
        self, rows: Sequence[int] | Index, values: Array, variance: Array | float | None, t: float
    ) -> FilterEnsemble:
        """With readings of some points at a time, not before the latest.

        Parameters
        ----------
        rows : sequence of n int
            Numbers of the points.
        values : array of shape (n,)
        variance : array of shape (n,) or float, optional
            Noise variances of the readings. None: `noise_variance`.
        t : float
        """
        index, y = np.asarray(rows), values
        noise = np.full(y.shape, self.noise_variance if variance is None else variance)
        ensemble = self
        if not self.filters:
            first = max(float(y.var()), LOUD * float(noise.mean()), self.unit**2)
            ensemble = self._in_unit(float(y.mean()), first, self.powers[0])
        if len(y) > MOST_TOGETHER:
            for part in in_parts(len(y)):
                ensemble = ensemble.observe(index[part], y[part], noise[part], t)
            return ensemble
        learns = ensemble._is_early() and ensemble.steps + 1 in UNIT_LEARNED_AT
        if learns and t != ensemble.time:
            ensemble = ensemble._anew()
        ensemble = ensemble._at(t)
        above = y - ensemble.origin
        z, slopes = ensemble.transform(above), float(ensemble.transform.log_slope(above).sum())
        pairs = [each.observed(index, z, noise) for each in ensemble.filters]
        seen, present = [innovations for _, innovations in pairs], ensemble._present
        errors = np.concatenate([each.errors for each in seen])
        squares = squared_innovations(ensemble.weights, errors, seen)
        more = zip(present.read[1:4], (index, z, noise), strict=True)
        places, told, noises = map(np.concatenate, more)
        read = Read(t, places, told, noises, present.read.log_slopes + slopes)
        density = present.log_density + np.concatenate([s.log_density for s in seen]) + slopes
        grown = Step(present.expected, read, density, (*present.innovations, *squares))
        known = (*ensemble.seen, *above.tolist())
        observed = changed(
            ensemble,
            filters=tuple(filters for filters, _ in pairs),
            seen=(min(known), max(known)),
            _present=grown,
            _early=(*ensemble._early, (index, y, noise, t)) if ensemble._is_early() else (),
        )
        if not present.innovations:  # they were expected as the filters have just seen them
            observed.__dict__["_errors"] = errors
        return observed

    def predict(self, t: float) -> Forecast:
        """Of the reward at all points at a time, not before the latest observation."""
        return self._components(t, present=False).forecast()

    def beliefs(self, t: float, beta: float = 2.0) -> JointPosterior:
        """About the decision at the time t, and how readings now would change them.

        The noise of a reading is the sensor's and the nugget: neither tells about the next step.
        """
        return self._components(t, present=True).beliefs(self.noise_variance, beta)

    def _in_unit(self, origin: float, variance: float, power: float) -> FilterEnsemble:
        # Begun again, all models are there with the features that they had.
        guess = variance, self.guess
        filters = tuple(Filters.prior(each.layout, *guess, each.group) for each in self.filters)
        filters = filters or filters_of(self.settings, self.points, *guess)
        return changed(
            self,
            filters=filters,
            origin=origin,
            transform=Transform(power, math.sqrt(variance)),
            seen=(0.0, 0.0),
            _score=self._prior_score(filters),
            _error_variance=0.0,
            _present=Step.before(filters, self.time),
        )

    def _prior_score(self, filters: Sequence[Filters]) -> Array:
        """Logarithms of the prior weights of all models, up to a constant."""
        known = dict(self.prior)
        models = [each for of in filters for each in of.settings]
        shares = np.array([known.get(each, 0.0) for each in models])
        return np.asarray(np.log1p(shares * len(models)))

    def _is_early(self) -> bool:
        learns = len(self.powers) > 1 or self.guess > 1
        return learns and self.steps < UNIT_LEARNED_AT[-1]

    def _anew(self) -> FilterEnsemble:
        """Begun again with the power, in the unit and around the origin that all readings suggest."""
        y = np.concatenate([values for _, values, _, _ in self._early])
        noise = float(np.mean(np.concatenate([noise for _, _, noise, _ in self._early])))
        variance = float(y.var())
        if variance < LOUD * noise:  # next to little noise it does not matter what of them is noise
            variance = max(variance - noise, LEAST_TOLD * noise)
        begun = [self._in_unit(float(np.median(y)), variance, power) for power in self.powers]
        replayed = [each._replayed() for each in begun]
        scores = [FORGETTING * each._score + each._evidence[0] for each in replayed]
        evidence = np.logaddexp.reduce(scores, axis=1)
        evidence[0] += CLEARLY
        return replayed[int(evidence.argmax())]

    def _replayed(self) -> FilterEnsemble:
        """With readings of the first times: those before the last are taken in together.

        One after the other they would take as long as all steps so far.
        """
        early, times = self._early, sorted({t for *_, t in self._early})
        past = [self._early_step([each for each in early if each[3] == t]) for t in times[:-1]]
        made = changed(self, time=times[0], steps=-1, innovation=1.0, coverage=0.95)
        for since in _together(past):
            pairs = [after(each, made.time, since, self.step) for each in made.filters]
            filters, said = zip(*pairs, strict=True)
            judges = (np.concatenate(each, axis=1) for each in zip(*said, strict=True))
            made = changed(made, filters=filters, time=since[-1].t)
            for read, density, off in zip(since, *judges, strict=True):
                made = changed(made, steps=made.steps + 1)
                evidence, variance = made._judged(density, off, len(read.rows))
                score = FORGETTING * made._score + evidence
                made = changed(made, _score=score, _error_variance=variance)
        y = np.concatenate([values for _, values, _, _ in early]) - self.origin
        seen = min(float(y.min()), 0.0), max(float(y.max()), 0.0)
        made = changed(made, seen=seen, _present=Step.before(made.filters, times[-1]))
        for index, values, variances, t in early:
            if t == times[-1]:
                made = made.observe(index, values, variances, t)
        return changed(made, _early=early)

    def _early_step(self, parts: Sequence[tuple[Index, Array, Array, float]]) -> Read:
        """All that was read at one of the first times."""
        rows, y, noise = (np.concatenate([each[i] for each in parts]) for i in range(3))
        above = y - self.origin
        slopes = float(self.transform.log_slope(above).sum())
        return Read(parts[0][3], rows, self.transform(above), noise, slopes)

    def _at(self, t: float) -> FilterEnsemble:
        """Moved to a time; what was observed before becomes evidence."""
        if t == self.time:
            return self
        if np.isnan(self.time):
            return changed(self, time=t)
        step = self.step if np.isfinite(self.step) else t - self.time
        evidence, error_variance = self._evidence
        innovation, coverage = self.innovation, self.coverage
        if self._present.innovations:
            squares = np.array(self._present.innovations)
            inside = squares < min((HALF * self.widening) ** 2, LARGEST)
            coverage += WATCHED * (np.count_nonzero(inside) / len(inside) - coverage)
            innovation += WATCHED * (float(squares.mean()) - innovation)
        filters, score, inactive = self.filters, FORGETTING * self._score + evidence, self._inactive
        if self.steps + 1 in THINNED_AT:
            filters, score = thinned(filters, score)
        if self.steps + 1 >= UNIT_LEARNED_AT[-1]:
            startling = np.array(self._present.innovations).mean() > STARTLING
            due = None if startling else (self.steps + 1) % TURN
            over = self._present.read._replace(apart=error_variance + self.noise_variance)
            filters, score, inactive = inactive.turned(filters, score, over, due, step)
        if not np.isfinite(self.step):
            filters = tuple(each.counted_in(step) for each in filters)
        filters = tuple(each.moved((t - self.time) / step) for each in filters)
        return changed(
            self,
            step=step,
            time=t,
            steps=self.steps + 1,
            innovation=innovation,
            coverage=coverage,
            filters=filters,
            _score=score,
            _error_variance=error_variance,
            _present=Step.before(filters, t),
            _inactive=inactive,
        )

    @cached_property
    def _evidence(self) -> tuple[Array, float]:
        """What the present step says about each member, and the variance of errors that it shows."""
        read = self._present.read
        if not len(read.rows):
            return np.zeros_like(self._score), self._error_variance
        squares = squares_of_differences(self._errors)
        return self._judged(self._present.log_density, squares, len(read.rows))

    @cached_property
    def _errors(self) -> Array:
        """What the readings of the present step are off, (M, n), as each member expected them."""
        read = self._present.read
        expected = [
            np.matmul(each.layout.rows(read.rows), state[:, :, None])[:, :, 0]
            for state, each in zip(self._present.expected, self.filters, strict=True)
        ]
        return np.asarray(read.values - np.concatenate(expected))

    def _judged(self, density: Array, squares: Array, count: int) -> tuple[Array, float]:
        """By log densities (M,) of so many readings of one time, and squares of differences (M,)."""
        weights = np.exp(self._score - self._score.max())
        latest = float(weights @ squares / weights.sum()) / max(count - 1, 1)
        share = max(0.02, 1.0 / (self.steps + 1))
        variance = self._error_variance + share * (latest - self._error_variance)
        return evidence_of(density, squares, variance + self.noise_variance), variance

    def _components(self, t: float, present: bool) -> Components:
        """What the models that count say of the time t, and of now if asked for."""
        h = self.steps_until(t)
        weights = self.weights
        weights = np.where(weights >= NEGLIGIBLE * weights.max(), weights, 0.0)
        weights /= weights.sum()
        alike: dict[str, list[tuple[Filters, Array]]] = {}
        for each, part in zip(self.filters, by_group(weights, self.filters), strict=True):
            if np.count_nonzero(part):
                alike.setdefault(each.layout.basis_key, []).append((each, part))
        mixtures = [Mixture.of(each, h, present) for each in alike.values()]
        return Components(mixtures, self.transform, self.seen, self.origin, self.widening)
