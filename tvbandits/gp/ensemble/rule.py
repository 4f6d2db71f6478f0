"""The ensemble as the posterior of a recipe: told what is new, asked about every candidate.

Other posteriors are conditioned on all observations at every decision. An ensemble is told each
observation once, so that a step costs the same however long history is; its models differ in what they
have learned, so its mean is not linear in the rewards, and unit, centre and drift are its own.

The ensemble that a rule begins with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index, positive_number, whole_number
from tvbandits.core.coercion import shown
from tvbandits.core.observations import Observations
from tvbandits.gp.ensemble import seasons
from tvbandits.gp.ensemble.ensemble import CAPACITY, GUESS_OF_A_FUNCTION, FilterEnsemble
from tvbandits.gp.ensemble.mixture import Forecast
from tvbandits.gp.ensemble.models import (
    SMALL_NETWORK,
    ModelSpec,
    function_settings,
    network_settings,
)
from tvbandits.gp.ensemble.recent import Readings, Recent, faded, moved
from tvbandits.gp.posteriors.candidate_cache import CandidateGrid
from tvbandits.gp.posteriors.data import Data, Groups
from tvbandits.gp.posteriors.lookahead import JointPosterior
from tvbandits.gp.posteriors.predictions import View

Models = Sequence[ModelSpec] | Literal["both"] | None
"""The models; None: those that suit the number of points; "both": a network's and a function's."""


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
                f'settings must be models (Setting), at least one, "both" or None, got {shown(settings)}'
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

    With "both", up to 64 points may be places of a network or lie on a smooth function: the models of
    the two are rivals, and the first guess of the scale is worth as much as for a function. What has a
    season is taken for a network.
    """
    if not isinstance(settings, str):
        return FilterEnsemble.of(points, noise_variance, settings, capacity=capacity, season=season)
    bank = FilterEnsemble.of(points, noise_variance, capacity=capacity, season=season)
    if season is not None or len(points) > SMALL_NETWORK:
        return bank
    rivals = network_settings() + function_settings()
    return replace(bank, settings=rivals, guess=GUESS_OF_A_FUNCTION)


RIDGE = 1e-6
"""Of the correlations between candidates, where another point is told from them."""

SHOWN = 5
"""Members of the largest weight that `EnsemblePosterior.heaviest` names."""


@dataclass(frozen=True)
class ModelEnsemble:
    """The rule: an ensemble of space-time models on the candidates, weighted by how well they predict.

    Parameters
    ----------
    settings : tuple of Setting, "both" or None
        The models; those that suit the number of candidates by default. "both": up to 64 candidates
        may be a network's or lie on a smooth function, and the models of the two are rivals.
    capacity : int
        Numbers in the covariances of all models: what a step costs.
    season : float, "find" or None
        Time after which a part of the reward comes again; for models that are not given. "find": looked
        for in what is read of up to 64 candidates, for 1,024 steps. None: there is no season.

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

    def __post_init__(self) -> None:
        whole_number("capacity", self.capacity)
        check_models(self.settings, self.season)

    def start(
        self, kernel: Any, surface: CandidateGrid, noise_variance: float, sign: float = 1.0
    ) -> EnsemblePosterior:
        """Before any observation.

        Parameters
        ----------
        kernel : scikit-learn kernel
            What points share before the first observation; nothing later depends on it.
        surface : Surface
            The candidates.
        noise_variance : float
            Of a reading that comes without its own.
        sign : float
            -1 where the values it will be told are rewards turned round.
        """
        season = None if self.season == "find" else self.season
        bank = started(surface.points, noise_variance, self.settings, self.capacity, season)
        looks = self.season == "find" and not are_given(self.settings)
        diary = seasons.diary_of(bank) if looks else None
        made_for = self, noise_variance, sign
        return EnsemblePosterior(kernel, surface, Recent(bank), made_for, diary=diary)


@dataclass(frozen=True)
class EnsemblePosterior:
    """What an ensemble says at one time: a `Posterior` of `gp.posteriors.protocol`.

    Means have one column, variances are in the unit of reward squared.

    Attributes
    ----------
    kernel : scikit-learn kernel
    surface : Surface
    recent : Recent
    made_for : tuple
        The rule, noise variance and sign that it was started with.
    told : pair of int
        How many rewards and how many answers it knows.
    now : float
        The time that it speaks about.
    diary : Diary or None
        What was read so far, while a season is looked for in it.
    imagined : Beliefs or None
        About that time, if some points more had been observed.
    """

    kernel: Any
    surface: CandidateGrid
    recent: Recent
    made_for: tuple[ModelEnsemble, float, float]
    told: tuple[int, int] = (0, 0)
    now: float = 0.0
    diary: seasons.Diary | None = None
    imagined: JointPosterior | None = field(default=None, repr=False, compare=False)

    dictionary_size: ClassVar[None] = None
    settled: ClassVar[bool] = True
    dense: ClassVar[bool] = False
    jitter: ClassVar[float] = 0.0
    condition_number: ClassVar[float] = 1.0
    log_det_ratio: ClassVar[float] = math.nan
    """Widths that depend on it belong to theorems about one known kernel."""

    def __getstate__(self) -> dict[str, Any]:
        """All but what can be computed again."""
        kept = ("kernel", "surface", "recent", "made_for", "told", "now", "diary")
        return {name: self.__dict__[name] for name in kept} | {"imagined": None}

    # --- what it learns -------------------------------------------------------------------------------

    def at(self, now: float) -> EnsemblePosterior:
        """The same about another time."""
        return self if now == self.now else self._with(self.recent, self.diary, self.told, now)

    def _with(
        self, recent: Recent, diary: seasons.Diary | None, told: tuple[int, int], now: float
    ) -> EnsemblePosterior:
        return EnsemblePosterior(self.kernel, self.surface, recent, self.made_for, told, now, diary)

    def observed(
        self, rewards: Observations, answers: Observations, now: float
    ) -> EnsemblePosterior:
        """With rewards and answers that it does not know yet, about the time `now`."""
        fresh = rewards.append(answers)
        recent, diary = self.recent, self.diary
        count = self.told[0] + len(rewards), self.told[1] + len(answers)
        for t in np.unique(fresh.t):
            some = fresh.take(fresh.t == t)
            readings = Readings(self.rows(some.X), some.y, some.variance)
            recent, diary = seasons.told(recent, diary, float(t), readings)
        return self._with(recent, diary, count, now)

    def rows(self, X: Array) -> Index:
        """Which candidates points (n, d) are."""
        rows = [self.surface.index(x) for x in X]
        if None in rows:
            raise ValueError(
                f"an ensemble observes candidates, got the point {X[rows.index(None)]}"
            )
        return np.array(rows, dtype=np.int64)

    # --- what it believes -----------------------------------------------------------------------------

    @cached_property
    def bank(self) -> FilterEnsemble:
        """The ensemble, as it was at the time `now` if that has passed."""
        return self.recent.at(self.now)

    @cached_property
    def forecast(self) -> Forecast:
        """Of all candidates at the time `now`, before anything is observed the prior of the kernel."""
        bank = self.bank
        if bank.filters:
            return bank.predict(max(self.now, bank.time))
        deviation = np.sqrt(self.surface.prior_variance(0.0))
        return Forecast(np.zeros(len(deviation)), deviation, deviation)

    @property
    def white(self) -> float:
        """Variance of what is new at every place at every time, which no forecast can know."""
        members, weights, units = self._weighted
        if not self.bank.filters:
            return 0.0
        return float(sum(w * u * m.white for m, w, u in zip(members, weights, units, strict=True)))

    @property
    def scale(self) -> float:
        """Prior deviation of the reward, as it is learned."""
        _, weights, units = self._weighted
        return math.sqrt(float(weights @ units))

    def beliefs(
        self, about: float, beta: float, noise_variance: float | None = None
    ) -> JointPosterior:
        """About all candidates at the time `now`, and what readings of the time `about` would change."""
        bank = self.recent.at(max(about, self.recent.latest.time))
        if not bank.filters:
            return self._unread(beta, bank.noise_variance)
        seen = moved(bank, about)
        believed = seen.beliefs(max(self.now, seen.time), beta)
        if noise_variance is None:
            return believed
        more = noise_variance - bank.noise_variance
        return replace(believed, noise_variance=np.maximum(believed.noise_variance + more, 1e-300))

    def _unread(self, beta: float, noise: float) -> JointPosterior:
        """Before any observation."""
        points, kernel = self.surface.at(0.0), self.kernel

        def among(rows: Sequence[int], others: Sequence[int]) -> Array:
            return np.asarray(kernel(points[list(rows)], points[list(others)]))

        def reach(rows: Sequence[int]) -> Array:
            return np.asarray(kernel(points[list(rows)], points))

        forecast = self.forecast
        return JointPosterior(forecast.mean, forecast.learnable, beta, noise, reach, among)

    @cached_property
    def _now(self) -> JointPosterior:
        """About the time `now`, and what readings of that time would change."""
        return self.beliefs(self.now, 1.0) if self.imagined is None else self.imagined

    def view(self, surface: CandidateGrid | None, inputs: Callable[[Array], Array]) -> View:
        """Itself in the unit of reward, which is its own."""
        white = self.bank.widening**2 * self.white
        return View(self, surface, inputs, centre=0.0, scale=1.0, origin=0.0, white=white)

    def noise_of(self, t: Array, variance: float) -> Array:
        """With what noise (n,) readings of times (n,) will speak about the time `now`."""
        return faded(self.bank, np.maximum(self.now - t, 0.0), np.full(len(t), variance))

    # --- the questions of `Posterior` -----------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of observations that it was told."""
        return sum(self.told)

    @property
    def data(self) -> Data:
        """What was observed lately; what came before it is in the filters alone."""
        recent, points = self.recent, self.surface.points
        parts = [(t, each) for t, of in zip(recent.times, recent.parts, strict=True) for each in of]
        none = np.empty(0)
        rows = np.concatenate([np.empty(0, np.int64), *(each.rows for _, each in parts)])
        t = np.concatenate([none, *(np.full(len(each.rows), t) for t, each in parts)])
        y = np.concatenate([none, *(each.values for _, each in parts)])
        variance = np.concatenate([none, *(each.variance for _, each in parts)])
        return Data(np.column_stack([points[rows], t]), y[:, None], variance)

    @property
    def products(self) -> Array:
        """Not a number (1, 1): the mean is not linear in the values."""
        return np.full((1, 1), np.nan)

    def on_surface(self) -> tuple[Array, Array]:
        """Means (A, 1) and variances (A,) of what can be learned, at the candidates."""
        deviation = self.forecast.learnable if self.imagined is None else self.imagined.deviation
        return self.forecast.mean[:, None], deviation**2

    def means_on_surface(self) -> Array:
        """Means (A, 1) of `on_surface`."""
        return self.forecast.mean[:, None]

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Means (n, 1) and variances (n,) at inputs [x, t], all at the time `now`.

        A point that is no candidate is told from the candidates by the correlations of the models
        (simple kriging around the mean of all candidates); what these leave out adds to its variance.
        """
        mean, variance = self.on_surface()
        reach, left = self._reach(Z[:, : self.surface.points.shape[1]])
        if reach is None:
            rows = self.rows(Z[:, : self.surface.points.shape[1]])
            return mean[rows], variance[rows]
        everyone = range(len(mean))
        covariance = self._now.among(everyone, everyone)
        spread = np.einsum("ij,jk,ik->i", reach, covariance, reach) + left
        return reach @ mean, self.bank.widening**2 * np.maximum(spread, 0.0)

    def cross_covariance(self, Z1: Array, Z2: Array) -> Array:
        """Posterior covariance (n1, n2) of inputs [x, t], all at the time `now`."""
        d = self.surface.points.shape[1]
        (one, _), (other, _) = self._reach(Z1[:, :d]), self._reach(Z2[:, :d])
        if one is None and other is None:
            return self._now.among(self.rows(Z1[:, :d]).tolist(), self.rows(Z2[:, :d]).tolist())
        everyone = range(len(self.surface.points))
        covariance = self._now.among(everyone, everyone)
        left = covariance[self.rows(Z1[:, :d])] if one is None else one @ covariance
        return np.asarray(left[:, self.rows(Z2[:, :d])] if other is None else left @ other.T)

    def shrunk(
        self,
        Z: Array,
        noise: float | Array,
        surface: CandidateGrid | None,  # noqa: ARG002 - one face for all
    ) -> EnsemblePosterior:
        """The same with more readings of candidates `Z` (k, p), their values unknown."""
        readings = Data(Z, np.empty((len(Z), 0)), np.full(len(Z), noise) + self.white)
        readings, _ = Groups.of(Z).merge(readings)
        rows = self.rows(readings.Z[:, : self.surface.points.shape[1]])
        spread = np.zeros(len(self.surface.points))
        spread[rows] = readings.variance
        known = replace(self._now, noise_variance=spread).after(*rows.tolist())
        return replace(self, imagined=known)

    def samples(self, surface: CandidateGrid, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Centred draws at the candidates at the time `now`, shape (count, A)."""
        everyone = range(len(self.surface.points))
        root = linalg.square_root(self._now.among(everyone, everyone))
        return np.asarray(rng.standard_normal((count, root.shape[1])) @ root.T)

    def expansion(self, worst: float) -> None:
        """None: it is no sum of kernel rows."""

    @property
    def continued(self) -> None:
        """None: more observations take `condition`."""

    def effective_dimension(self) -> float:
        """Not a number, as `log_det_ratio`."""
        return math.nan

    @property
    def heaviest(self) -> tuple[tuple[float, ModelSpec], ...]:
        """Weight and setting of the members that count most."""
        members, weights, _ = self._weighted
        if not self.bank.filters:
            return ()
        order = np.argsort(-weights, kind="stable")[:SHOWN]
        return tuple((float(weights[i]), members[i]) for i in order)

    def _reach(self, X: Array) -> tuple[Array | None, Array]:
        """How the candidates tell points (n, d), (n, A), and the variance (n,) that they leave.

        None where all of them are candidates.
        """
        rows = [self.surface.index(x) for x in X]
        if None not in rows:
            return None, np.zeros(len(X))
        points, (members, weights, units) = self.surface.points, self._weighted
        extent = float(np.ptp(points, axis=0).max()) or 1.0
        to, apart = _distances(X, points), _distances(points, points)
        shared, K, total = np.zeros(to.shape), np.zeros(apart.shape), 0.0
        for weight, unit, each in zip(weights, units, members, strict=True):
            for share, space in ((each.slow, each.slow_space), (each.drift, each.drift_space)):
                shared += weight * unit * share * space.correlation(to, extent)
                K += weight * unit * share * space.correlation(apart, extent)
                total += weight * unit * share
        K[np.arange(len(K)), np.arange(len(K))] += RIDGE * total
        factor = linalg.cholesky(K, "the correlations between candidates").L
        half = linalg.solve_lower(factor, shared.T)
        reach = linalg.solve_lower(factor, half, transposed=True).T
        reach = reach + (1.0 - reach.sum(axis=1, keepdims=True)) / len(points)
        # Under a transform of the rewards the slopes are not 1: nothing is less known than what is far.
        most = float(self.on_surface()[1].max()) / self.bank.widening**2
        left = np.maximum(total - (half**2).sum(axis=0), 0.0) * max(1.0, most / total)
        for i, row in enumerate(rows):
            if row is not None:
                reach[i], left[i] = np.arange(len(points)) == row, 0.0
        return np.asarray(reach), left

    @cached_property
    def _weighted(self) -> tuple[tuple[ModelSpec, ...], Array, Array]:
        """Members, their weights and squared scales; before any observation all alike."""
        bank = self.bank
        if not bank.filters:
            n = len(bank.settings)
            return bank.settings, np.full(n, 1.0 / n), np.ones(n)
        return bank.members, bank.weights, bank.scales


def _distances(X: Array, Y: Array) -> Array:
    return np.asarray(np.sqrt(((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)))
