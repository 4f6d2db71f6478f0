"""The ensemble as the posterior of a recipe: conditioned on what is new, asked about every candidate.

It observes each reading once, so that a step costs the same however long history is; its models differ
in what they have learned, so its mean is not linear in the rewards, and unit, centre and drift are its
own. Before any reading it is the prior of the recipe's kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import (
    Array,
    Index,
    finite_number,
    not_negative,
    positive_number,
    whole_number,
)
from tvbandits.core.coercion import of_kind, several, shown
from tvbandits.core.observations import changed
from tvbandits.gp.ensemble import seasons
from tvbandits.gp.ensemble.ensemble import CAPACITY, GUESS_OF_A_FUNCTION, FilterEnsemble
from tvbandits.gp.ensemble.filters import Filters, Layout, distances, extent_of
from tvbandits.gp.ensemble.mixture import Forecast
from tvbandits.gp.ensemble.models import (
    ModelSpec,
    function_settings,
    network_settings,
)
from tvbandits.gp.ensemble.recent import Readings, Recent, at_each_time, faded, moved
from tvbandits.gp.ensemble.seasons import SeasonSearch
from tvbandits.gp.posteriors.cholesky import ExactPosterior, by_cholesky
from tvbandits.gp.posteriors.data import CandidateGrid, Data, Groups
from tvbandits.gp.posteriors.features import LARGEST_RANK
from tvbandits.gp.posteriors.lookahead import JointPosterior
from tvbandits.gp.posteriors.protocol import Posterior

# --- which share of what is not known will still matter -------------------------------------------
# [LX] = Y. Liu, B. Van Roy and K. Xu. Nonstationary bandit learning via predictive sampling.
# AISTATS 2023.


# The noise in units of the scale is taken to a tenth: it changes little from step to step.
TENTH = math.log(1.1)

# So many models' futures are remembered.
KEPT = 48


# So many steps after a decision count as its future.
LATER = 32


@dataclass(frozen=True)
class _Model:
    """One model on some points; two are the same that have the same setting on the same points."""

    setting: ModelSpec
    shape: tuple[int, ...]
    points: bytes
    layout: Layout = field(compare=False, repr=False)


def lasting_share(ensemble: FilterEnsemble, t: float) -> Array:
    """Share (A,) of the deviation of what can be learned that rewards after a decision would tell.

    The reward of the next decision is expected anew once all places were read for 32 steps: how far
    that moves it, in deviations of what is not known. It is 0 where the reward is forgotten at once,
    and near 1 where places differ for long. As the model of the largest weight has it; 1 before any
    observation.

    Parameters
    ----------
    ensemble : FilterEnsemble
    t : float
        Time of the decision, not before the latest observation.
    """
    if not ensemble.filters:
        return np.ones(len(ensemble.points))
    one = single(ensemble, int(ensemble.weights.argmax()), t)
    H = one.layout.rows(np.arange(len(ensemble.points)))
    covariances = predictable_part(ensemble, one), one.covariance[0]
    shown, every = (np.einsum("ij,jk,ik->i", H, each, H) for each in covariances)
    share = np.maximum(shown, 0.0) / np.maximum(every, np.finfo(float).tiny)
    return np.asarray(np.sqrt(np.minimum(share, 1.0)))


def single(ensemble: FilterEnsemble, member: int, t: float) -> Filters:
    """One of the models that are awake, alone, moved to a time."""
    for filters in ensemble.filters:
        if member < len(filters):
            break
        member -= len(filters)
    return filters.take(np.array([member])).moved(ensemble.steps_until(t))


def predictable_part(ensemble: FilterEnsemble, one: Filters) -> Array:
    """How far (S, S) rewards after a decision would move what a single model expects of its state then.

    In units of its squared scale; see `predictable`.
    """
    noise = float(one.layout.nugget[0]) + ensemble.noise_variance / float(one.variance[0])
    model = _Model(one.settings[0], ensemble.points.shape, ensemble.points.tobytes(), one.layout)
    return predictable(one.covariance[0], _told(model, round(math.log(noise) / TENTH)))


@lru_cache(maxsize=KEPT)
def _told(model: _Model, tenths: int) -> Array:
    return told_of(model.layout, 1.1**tenths)


def told_of(layout: Layout, noise: float, steps: int = LATER) -> Array:
    """What rewards of the steps after one tell about the state of a single model, with so much noise."""
    H = layout.rows(np.arange(len(layout.basis)))
    F = layout.moved(np.eye(layout.size)[None], 1.0)[0]
    fresh = layout.prior[0] - F @ layout.prior[0] @ F.T
    return told_by_later(F, fresh, H, noise, steps)


def told_by_later(F: Array, fresh: Array, H: Array, noise: float, steps: int = LATER) -> Array:
    """What rewards of the steps after one tell about the state at it, as a precision (S, S).

    From the last step backwards: a reading adds H' H / noise to what is told about a state, and a step
    back with the transition F and fresh covariance Q makes F' (told^-1 + Q)^-1 F of it.

    Parameters
    ----------
    F : array of shape (S, S)
        Moves a state by a step.
    fresh : array of shape (S, S)
        Covariance Q of what is new in a step.
    H : array of shape (A, S)
        What observes a state at all points, which are all read.
    noise : float
        Noise variance of a reading, in the unit of `fresh`.
    steps : int
    """
    reading, told = H.T @ H / noise, np.zeros((len(F), len(F)))
    root = linalg.square_root(fresh)
    for _ in range(steps):
        told = told + reading
        # (told^-1 + Q)^-1 with Q = C C' is told - told C (1 + C' told C)^-1 C' told.
        told = told - _squared(root.T @ told @ root, root.T @ told)
        told = F.T @ told @ F
        told = (told + told.T) / 2
    return np.asarray(told)


def predictable(covariance: Array, told: Array) -> Array:
    """How far (S, S) later rewards would move the expectation of a state: P - (P^-1 + told)^-1.

    It is the covariance of what [LX] sample: what is forgotten at once is not in it.
    """
    root = linalg.square_root(covariance)
    # P^-1 + told with P = C C' is C'^-1 (1 + C' told C) C^-1.
    moved = root @ root.T - _squared(root.T @ told @ root, root.T)
    return np.asarray((moved + moved.T) / 2)


def _squared(M: Array, B: Array) -> Array:
    """B' (1 + M)^-1 B for a positive semidefinite M."""
    factor = linalg.cholesky(np.eye(len(M)) + (M + M.T) / 2, "what later rewards tell").L
    half = linalg.solve_lower(factor, B)
    return np.asarray(half.T @ half)


# --------------------------------------------------------------------------------------------------

T = TypeVar("T")

# The models; None: those that suit the number of points; "both": a network's and a function's.
Models = Sequence[ModelSpec] | Literal["both"] | None


def are_given(settings: object) -> bool:
    """Whether the models are the user's own, rather than those that suit the points."""
    return not (settings is None or isinstance(settings, str))


def check_models(settings: Models, season: float | Literal["find"] | None) -> None:
    """Raise a `ValueError` unless an ensemble can have these models and this season."""
    if isinstance(settings, str) and settings != "both":
        raise ValueError(f'settings must be models, "both" or None, got {shown(settings)}')
    if are_given(settings):
        given = settings if isinstance(settings, Sequence) else ()
        if not given or not all(isinstance(each, ModelSpec) for each in given):
            raise ValueError(
                'settings must be models (ModelSpec), at least one, "both" or None, '
                f"got {shown(settings)}"
            )
    named = isinstance(season, str)
    if named and season != "find":
        raise ValueError(f'season must be a positive number, "find" or None, got {shown(season)}')
    if season is not None and not named:
        positive_number("season", season)
        if are_given(settings):
            raise ValueError(
                f"season is for models that are not given, got season={season} and settings"
            )


def started(
    points: Array, noise_variance: float, settings: Models, capacity: int, season: float | None
) -> FilterEnsemble:
    """Before any observation.

    With "both", up to 96 points, as many as there are features, may be places of a network or lie on a
    smooth function: the models of the two are rivals, and the first guess of the scale is worth as much
    as for a function. What has a season is taken for a network.
    """
    if not isinstance(settings, str):
        return FilterEnsemble.of(points, noise_variance, settings, capacity=capacity, season=season)
    ensemble = FilterEnsemble.of(points, noise_variance, capacity=capacity, season=season)
    if season is not None or len(points) > LARGEST_RANK:
        return ensemble
    rivals = network_settings() + function_settings(points.shape[1])
    return replace(ensemble, settings=rivals, guess=GUESS_OF_A_FUNCTION)


# Of the correlations between candidates, where another point is told from them.
RIDGE = 1e-6

# Candidates that tell another point, of many the ones that say most.
MOST_TELLING = 500

# Members of the largest weight that `EnsemblePosterior.learned` names.
SHOWN = 5


@dataclass(frozen=True)
class ModelEnsemble:
    """The rule: an ensemble of space-time models on the candidates, weighted by how well they predict.

    Parameters
    ----------
    settings : tuple of ModelSpec, "both" or None
        The models; those that suit the number of candidates by default. "both": up to 96 candidates
        may be a network's or lie on a smooth function, and the models of the two are rivals.
    capacity : int
        Numbers in the covariances of all models: what a step costs.
    season : float, "find" or None
        Time after which a part of the reward comes again; for models that are not given. "find": looked
        for in what is read of up to 64 candidates, for 1,024 steps. None: there is no season.
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

    settings: tuple[ModelSpec, ...] | Literal["both"] | None = None
    capacity: int = CAPACITY
    season: float | Literal["find"] | None = "find"
    prior: tuple[tuple[ModelSpec, float], ...] = ()
    unit: float = 0.0

    def __post_init__(self) -> None:
        whole_number("capacity", self.capacity)
        check_models(self.settings, self.season)
        not_negative("unit", self.unit)
        for pair in several("prior", self.prior, "a tuple of pairs (ModelSpec, weight)"):
            model, weight = pair if isinstance(pair, tuple) and len(pair) == 2 else (pair, None)
            of_kind("each model of prior", model, ModelSpec, "a ModelSpec, with its weight")
            finite_number("each weight of prior", weight, low=0.0, high=1.0)

    self_learning: ClassVar[bool] = True
    fixed_features: ClassVar[bool] = False
    joint_draws: ClassVar[bool] = False

    def condition(
        self,
        kernel: Any,
        data: Data,
        *,
        surface: CandidateGrid | None = None,
        now: float = 0.0,
        previous: Posterior | None = None,
        rng: np.random.Generator | None = None,  # noqa: ARG002 - one face for all
        noise_variance: float = 0.0,
    ) -> EnsemblePosterior | ExactPosterior:
        """Condition on `data`, of which `previous` has observed the first or some.

        Parameters
        ----------
        kernel : scikit-learn kernel
            What points share before the first observation; nothing later depends on it.
        data : Data
            Rewards of candidates in their own unit, at inputs [x, t], in any order.
        surface : CandidateGrid
            The candidates.
        noise_variance : float
            Of a reading to come.
        """
        if surface is None:
            raise ValueError("an ensemble of models needs candidates")
        data = in_order_of_time(data)
        prior = before_readings(kernel, data, surface, now)
        if prior is not None:
            return prior
        known, fresh = None, None
        if isinstance(previous, EnsemblePosterior) and previous.is_of(self, noise_variance):
            known, fresh = previous, data.beyond(previous.data)
        if known is None or fresh is None:
            season = None if self.season == "find" else self.season
            ensemble = started(surface.points, noise_variance, self.settings, self.capacity, season)
            ensemble = replace(ensemble, prior=self.prior, unit=self.unit)
            looks = self.season == "find" and not are_given(self.settings)
            recent, search = Recent(ensemble), SeasonSearch.of(ensemble) if looks else None
            fresh = data
        elif len(fresh) == 0 and now == known.now:
            return known
        else:
            recent, search = known.recent, known.search
        begun = EnsemblePosterior(kernel, surface, self, data, recent, now, search)
        return begun.told(fresh, data, now)


def of_another_unit(rule: T) -> T:
    """The same rule for values of which no unit is known; another rule as it is."""
    return replace(rule, unit=0.0) if isinstance(rule, ModelEnsemble) else rule


def in_order_of_time(data: Data) -> Data:
    """The same observations, the earlier first; itself where they are so already."""
    times = data.Z[:, -1]
    if len(times) < 2 or (times[1:] >= times[:-1]).all():
        return data
    order = np.argsort(times, kind="stable")
    return Data(data.Z[order], data.Y[order], data.variance[order])


def candidate_rows(surface: CandidateGrid, Z: Array) -> Index:
    """Which candidates inputs (n, p), that begin with a point, are."""
    X = Z[:, : surface.points.shape[1]]
    rows = [surface.index(x) for x in X]
    if None in rows:
        raise ValueError(f"an ensemble observes candidates, got the point {X[rows.index(None)]}")
    return np.array(rows, dtype=np.int64)


def _timed(surface: CandidateGrid, data: Data) -> seasons.TimedReadings:
    """Observations of candidates with their times."""
    rows = candidate_rows(surface, data.Z)
    return seasons.TimedReadings(data.Z[:, -1], rows, data.Y[:, 0], data.variance)


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
    settled: ClassVar[bool] = True
    dense: ClassVar[bool] = False
    jitter: ClassVar[float] = 0.0
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

    def means_on_surface(self) -> Array:
        """Means (A, 1) of `on_surface`."""
        return self.on_surface()[0]

    def continued(self, rows: Data, now: float, surface: CandidateGrid | None) -> Self | None:  # noqa: ARG002
        """None: more observations take `condition`."""
        return None

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

    @property
    def products(self) -> Array:
        """Not a number (1, 1): the mean is not linear in the values."""
        return np.full((1, 1), np.nan)

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

    def is_of(self, rule: ModelEnsemble, noise_variance: float) -> bool:
        """Whether it is what a rule makes of readings of such noise."""
        return (self.rule, self.recent.before.noise_variance) == (rule, noise_variance)

    def told(self, fresh: Data, data: Data, now: float) -> EnsemblePosterior:
        """At the time `now`, once it has observed those of `data` that are new, time after time."""
        recent, search, surface = self.recent, self.search, self.surface
        for t, at in at_each_time(fresh.Z[:, -1]):
            rows = candidate_rows(surface, fresh.Z[at])
            readings = Readings(rows, fresh.Y[at, 0], fresh.variance[at])
            if search is None:
                recent = recent.observed(t, readings)
                continue
            earlier = data.rows(0, int(np.searchsorted(data.Z[:, -1], t)))
            recent, search = seasons.observed(
                recent, search, t, readings, partial(_timed, surface, earlier)
            )
        return EnsemblePosterior(self.kernel, surface, self.rule, data, recent, now, search)

    def continued(
        self, rows: Data, now: float, surface: CandidateGrid | None
    ) -> EnsemblePosterior | None:
        """With readings more; None where some are older than its own, or `now` is older than all."""
        rows, times = in_order_of_time(rows), self.data.Z[:, -1]
        if surface is not self.surface or now < times[0]:
            return None
        if len(rows.Z) == 0:
            return self if now == self.now else changed(self, now=now)
        if rows.Z[0, -1] < times[-1]:
            return None
        return self.told(rows, self.data.append(rows), now)

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
        heaviest = int(self.ensemble.weights.argmax())
        points, times = self.surface.points, Z[:, -1]
        extent = extent_of(points)
        steps = np.abs(times[:, None] - times)
        if math.isfinite(self.ensemble.step):
            steps = steps / self.ensemble.step
        model, X = self.ensemble.members[heaviest], Z[:, : points.shape[1]]
        covariance = model.covariance(distances(X, X), steps, extent)
        return np.asarray(self.ensemble.scales[heaviest] * covariance)

    @property
    def lasting_share(self) -> Array:
        """As `tvbandits.gp.ensemble.rule.lasting_share` at the time `now`."""
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
        mean, variance = self.on_surface()
        reach, left = self._reach(Z[:, : self.surface.points.shape[1]])
        if reach is None:
            rows = candidate_rows(self.surface, Z)
            return mean[rows], variance[rows]
        everyone = range(len(mean))
        covariance = self._now.among(everyone, everyone)
        spread = np.einsum("ij,jk,ik->i", reach, covariance, reach) + left
        return reach @ mean, self.ensemble.widening**2 * np.maximum(spread, 0.0)

    def cross_covariance(self, Z1: Array, Z2: Array) -> Array:
        """Posterior covariance (n1, n2) of inputs [x, t], all at the time `now`."""
        d = self.surface.points.shape[1]
        (one, _), (other, _) = self._reach(Z1[:, :d]), self._reach(Z2[:, :d])
        if one is None and other is None:
            rows, others = (candidate_rows(self.surface, Z) for Z in (Z1, Z2))
            return self._now.among(rows, others)
        everyone = range(len(self.surface.points))
        covariance = self._now.among(everyone, everyone)
        left = covariance[candidate_rows(self.surface, Z1)] if one is None else one @ covariance
        return np.asarray(
            left[:, candidate_rows(self.surface, Z2)] if other is None else left @ other.T
        )

    def samples(self, surface: CandidateGrid, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Centred draws at the candidates at the time `now`, shape (count, A)."""
        everyone = range(len(self.surface.points))
        root = linalg.square_root(self._now.among(everyone, everyone))
        return np.asarray(rng.standard_normal((count, root.shape[1])) @ root.T)

    def _reach(self, X: Array) -> tuple[Array | None, Array]:
        """How the candidates tell points (n, d), (n, A), and the variance (n,) that they leave.

        None where all of them are candidates.
        """
        rows = [self.surface.index(x) for x in X]
        if None not in rows:
            return None, np.zeros(len(X))
        points, ensemble = self.surface.points, self.ensemble
        extent = extent_of(points)
        members = list(zip(ensemble.weights, ensemble.scales, ensemble.members, strict=True))
        parts = [
            (weight * unit * share, space)
            for weight, unit, each in members
            for share, space in ((each.static, each.static_space), (each.drift, each.drift_space))
        ]
        total = sum(much for much, _ in parts)

        def covariance(distance: Array) -> Array:
            found = np.zeros(distance.shape)
            for much, space in parts:
                found += much * space.correlation(distance, extent)
            return found

        telling = np.arange(len(points))
        if len(points) > MOST_TELLING:
            # The models have a few hundred features: those candidates say what all of them say.
            prior = np.full(len(points), total)
            telling = linalg.pivoted_cholesky(
                prior,
                lambda i: covariance(distances(points[i : i + 1], points))[0],
                MOST_TELLING,
                RIDGE * total,
            ).pivots
        near = points[telling]
        K = covariance(distances(near, near))
        K[np.arange(len(K)), np.arange(len(K))] += RIDGE * total
        factor = linalg.cholesky(K, "the correlations between candidates").L
        half = linalg.solve_lower(factor, covariance(distances(X, near)).T)
        told = linalg.solve_lower(factor, half, transposed=True).T
        reach = np.zeros((len(X), len(points)))
        reach[:, telling] = told + (1.0 - told.sum(axis=1, keepdims=True)) / len(telling)
        # Under a transform of the rewards the slopes are not 1: nothing is less known than what is far.
        most = float(self.on_surface()[1].max()) / ensemble.widening**2
        left = np.maximum(total - (half**2).sum(axis=0), 0.0) * max(1.0, most / total)
        for i, row in enumerate(rows):
            if row is not None:
                reach[i], left[i] = np.arange(len(points)) == row, 0.0
        return np.asarray(reach), left
