"""Acquisition rules, which choose the next points from a posterior (`Decision`).

- `UpperConfidenceBound`: the largest upper bound ([Sri] eq. 6; in batches [BB] Algorithm 1).
- `SampledBound`: the same among random points.
- `ThompsonSampling`: the best candidates of samples of the posterior, in batches ([Kan]).
- `PersistentBound`: an upper bound without the uncertainty that the model soon forgets ([LX]).
- `RandomFirst`, `SpreadFirst`: first plays at random, or where they are most informative ([Cohn]).

[Kan] = Kandasamy, Krishnamurthy, Schneider and Poczos 2018 (docs/references.md).
[LX] = Y. Liu, B. Van Roy and K. Xu. Nonstationary bandit learning via predictive sampling. AISTATS 2023.
[Cohn] = D. Cohn, Z. Ghahramani and M. Jordan. Active learning with statistical models. JAIR 4, 1996.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from tvbandits import ties
from tvbandits.acquisition import batches
from tvbandits.domains.availability import Available, ChoiceSet
from tvbandits.domains.candidates import Candidates, as_finite, from_distinct_rows
from tvbandits.domains.domain import Domain, SmoothAcquisition
from tvbandits.domains.moving import Move
from tvbandits.gp import linalg
from tvbandits.gp.cholesky import ExactPosterior, condition_by_cholesky
from tvbandits.gp.posterior import CandidateGrid, Data, dictionary_data
from tvbandits.gp.predictions import ScaledPosterior
from tvbandits.gp.top_candidates import TopCandidates, TopRequest
from tvbandits.ties import acquisition_argmax
from tvbandits.validation import Array, check_part, describe, whole_number


@dataclass(frozen=True)
class RuleConfig:
    """The constants that limit the cost of a decision.

    Attributes
    ----------
    spread_candidates : int
        Largest number of candidates, and of failed plays, from which the most informative first play is
        computed.
    fewest_top : int
        Smallest number of top candidates, since a batch plays several of them.
    largest_exact : int
        Largest number of candidates whose exact variances decide about first plays.
    largest_joint : int
        Largest number of candidates of a joint draw from the exact posterior.
    """

    spread_candidates: int = 400
    fewest_top: int = 64
    largest_exact: int = 4096
    largest_joint: int = 2000


CONFIG = RuleConfig()


class UncertaintySampling:
    """The exact variances of [BB] Algorithm 3, for a posterior on a dictionary.

    Variances only fall. Once the first plays have lowered all variances below a bound, no later play
    raises one, and the object remembers that; this changes no result.
    """

    first_count: ClassVar[int] = 64
    """Number of plays that are used first; it is doubled until the variances are below the bound."""

    def __init__(self) -> None:
        self._sufficient: tuple[Any, Data, float] | None = None

    def posterior_above(
        self, kernel: Any, data: Data, now: float, grid: CandidateGrid, bound: float
    ) -> ExactPosterior | None:
        """Return the exact posterior given data; None if no candidate's variance exceeds a bound."""
        n = self.first_count
        if self._sufficient is not None:
            same_kernel, first_data, smaller_bound = self._sufficient
            if same_kernel is kernel and data.starts_with(first_data) and smaller_bound <= bound:
                return None
        while True:
            exact = condition_by_cholesky(kernel, data.rows(0, n), grid=grid, now=now)
            if exact.predict(grid)[1].max() <= bound:
                self._sufficient = kernel, exact.data, bound
                return None
            if n >= len(data):
                return exact
            n *= 2


@dataclass(frozen=True)
class Decision:
    """What an acquisition rule chooses from: the posterior, the available points and the pending ones.

    Attributes
    ----------
    domain : Domain
    view : ScaledPosterior
        The posterior at the time of the decision, in the unit of rewards.
    beta : float
        The width, in deviations.
    noise_variance : float
        Noise variance of a reward (unit of reward squared).
    batching : Batching
    n : int or None
        Number of points, which are distinct if there are enough; None: the batching decides.
    pending, pending_noise : arrays of shape (k, d) and (k,)
        Pending points, and the noise variances of their rewards as of the time of the decision, in prior
        units.
    same_time : array of shape (m, d)
        Pending points for this time; they are chosen last.
    failed : array of shape (f, d)
        Points whose readings failed.
    available : Available or None
        The points that may be played; None: all.
    move : Move or None
        The cost of a move from the present point; None: 0.
    price : callable, optional
        A function of points (m, d) that returns further costs (m,).
    top : TopCandidates, optional
        Finds the top candidates, where the domain is too large to compute all bounds.
    rest : float
        Largest upper bound that a candidate outside of `domain` may have.
    uncertainty : UncertaintySampling, optional
        The exact variances of first plays, where the posterior is on a dictionary.
    """

    domain: Domain
    view: ScaledPosterior
    beta: float
    noise_variance: float
    batching: batches.Batching
    n: int | None
    pending: Array
    pending_noise: Array
    same_time: Array
    failed: Array
    available: Available | None
    move: Move | None = None
    price: Callable[[Array], Array] | None = None
    top: TopCandidates | None = None
    rest: float = -math.inf
    uncertainty: UncertaintySampling | None = None

    def choices(self, excluded: Array | None = None) -> ChoiceSet:
        """Return the points to choose from; excluded ones, by default `same_time`, come last."""
        excluded = self.same_time if excluded is None else excluded
        return ChoiceSet(self.domain, self.available, excluded, self.move, self.price)

    @property
    def is_restricted(self) -> bool:
        """Return whether some points are not available, or have a cost."""
        return any(each is not None for each in (self.available, self.move, self.price))

    def among_top(self, request: TopRequest) -> Decision:
        """Return the decision among the top candidates alone."""
        view, finder = self.view, self.top
        assert finder is not None
        assert isinstance(self.domain, Candidates)
        mask = None if self.available is None else self.available.mask
        columns = np.array([1.0, view.origin - view.prior_mean])
        sparse: Any = view.posterior  # only sparse posteriors work on so many candidates
        scorer = sparse.make_scorer(columns, view.prior_mean)
        top = finder.select(scorer, sparse, request, mask)
        self.domain._remember(top.rows, top.X)
        domain = from_distinct_rows(top.X)
        grid = CandidateGrid(view.prior.kernel, domain.X)
        posterior = sparse.add_candidates(grid)
        return replace(
            self,
            domain=domain,
            view=replace(view, posterior=posterior, grid=grid),
            available=None,
            top=None,
            rest=top.upper_bound_of_rest,
        )

    def overtakes(self, bound: float) -> bool:
        """Return whether a candidate outside of `domain` may have an upper bound of at least `bound`."""
        return -math.inf < self.rest and bound - ties.TOLERANCE * abs(bound) <= self.rest

    @property
    def is_single(self) -> bool:
        """Return whether no point is pending and the request is for one point or one batch."""
        return len(self.pending) == 0 and self.n in (None, 1)

    @property
    def is_first_of_many(self) -> bool:
        """Return whether many candidates all tie, since there are no rewards and no pending points."""
        if not self.is_single or self.top is None or self.view.posterior.summary.size > 0:
            return False
        return bool(self.view.prior.kernel.is_stationary())

    def fantasy(self, upper: batches.UpperBound) -> batches.FantasyModel:
        """Return the posterior as if the rewards of pending points had equalled their means."""
        view, noise = self.view, self.noise_variance / self.view.scale**2
        parts = view.posterior, self.domain, view.grid, view.inputs, noise, upper
        summary = view.posterior.summary
        if self.is_first_of_many:
            mask = None if self.available is None else self.available.mask
            free = None if mask is None else np.flatnonzero(mask)
            return batches.PriorFantasy(*parts, view.prior, free)  # type: ignore[arg-type]  # of candidates
        fantasy: batches.FantasyModel
        if not self.is_single and not summary.exact:
            # In [BB] Algorithm 1 a point of a batch lowers variances within the span of the dictionary
            # alone. Pending points, and the n points of a request, lower them outside of it as well.
            fantasy = batches.JointFantasy(*parts)
        elif summary.dictionary_size is not None and view.grid is not None:
            fantasy = batches.SparseFantasy(*parts)  # type: ignore[arg-type]  # a grid is of candidates
        else:
            fantasy = batches.PlainFantasy(*parts)
        if len(self.pending):
            fantasy.observe(self.pending, self.pending_noise)
        return fantasy

    def deviation(self) -> Callable[[Array], Array]:
        """Return a function of points (m, d): the deviations (m,) of the reward given pending points."""
        return self.fantasy(batches.UpperBound(lambda X: np.zeros(len(X)), self.view.scale)).bounds

    def if_crowded(self) -> Decision | None:
        """Return the decision on all points, if more are requested than are available; else None."""
        domain = self.domain
        if self.n is None:
            return None
        if not isinstance(domain, Candidates):
            points = domain.all_points
            if points is None:
                return None
            domain = from_distinct_rows(points)
        if len(domain) > CONFIG.largest_joint:
            return None
        free = len(domain) if self.available is None else self.available(domain.X).sum()
        return replace(self, domain=domain) if self.n > free else None


class Acquisition(Protocol):
    """A rule for the next points. Rules of your own inherit from it.

    Attributes
    ----------
    counts_pending : bool
        Whether its choice depends on pending points.
    weighs_reward : bool
        Whether it maximizes a reward, from which the price of a move or a risk can be subtracted.
    """

    counts_pending: ClassVar[bool] = True
    weighs_reward: ClassVar[bool] = True

    def check(self, domain: Domain, posterior: Any) -> None:
        """Raise a `ValueError` if the rule does not support this domain or posterior."""
        return

    def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
        """Return the next points (b, d)."""

    def draw(self, decision: Decision, count: int, rng: np.random.Generator) -> Array:
        """Return draws (count, A) of the reward at all candidates, for requests of many plays."""
        return samples(replace(decision, beta=1.0), count, rng)


def choose_points(rule: Acquisition, decision: Decision, rng: np.random.Generator) -> Array:
    """Return the points of `rule.choose`, or of Thompson sampling if there are fewer than requested.

    With Thompson sampling, each of the n plays goes to the best point of its own joint draw from the
    posterior, so that a point's expected share of the plays is the probability that it is the best one.
    """
    crowded = decision.if_crowded()
    if crowded is None:
        return rule.choose(decision, rng)
    allowed = crowded.choices(np.empty((0, crowded.domain.dimension)))
    assert isinstance(crowded.domain, Candidates)
    assert crowded.n is not None
    draws = rule.draw(crowded, crowded.n, rng)
    X = crowded.domain.X
    values = np.asarray(allowed.restrict(lambda _: draws)(X))
    rows = values.argmax(axis=1)
    for i in np.flatnonzero(ties.may_tie(values)):  # `rng` breaks ties in the order of the plays
        rows[i] = acquisition_argmax(values[i], X, rng)
    return np.asarray(X[rows])


@dataclass(frozen=True)
class UpperConfidenceBound(Acquisition):
    """A rule that plays the point where mean + beta deviation is largest.

    In a batch the width is multiplied by the batch rule's bound on the ratio of deviations, and the
    variances shrink with each of its points, and with pending points.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.rules import UpperConfidenceBound
    >>> sites = Candidates([[0.0], [5.0], [10.0]])
    >>> bandit = Bandit(Recipe(sites, RBF(1.0), 0.01, mean=0.0, acquisition=UpperConfidenceBound()))
    >>> info = bandit.tell([[0.0], [5.0]], [0.1, -0.1], 1)
    >>> print(bandit.ask(2))  # the point of the largest deviation
    [[10.]]
    """

    def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
        """Return the next points (b, d)."""
        first = self._first_plays(decision, rng) if decision.batching.smallest > 1 else None
        uncertain = first is not None
        decision = decision if first is None else first
        if decision.top is None or decision.is_first_of_many:
            return self._choose_from(decision, uncertain, rng)
        times = 1.0 if uncertain else decision.batching.rule.ratio_bound * decision.beta
        scaled = times * (1.0 if uncertain else decision.view.scale)
        rng_state = rng.bit_generator.state
        count = max(decision.top.count, 2 * (len(decision.same_time) + (decision.n or 1)))
        while True:
            top_decision = decision.among_top(TopRequest(not uncertain, scaled, count))
            try:
                points = self._choose_from(top_decision, uncertain, rng)
            except TooFewTopCandidatesError:
                rng.bit_generator.state = rng_state
                count *= 4
            else:
                decision.top.count = max(count // 2, CONFIG.fewest_top)
                return points

    def _first_plays(self, decision: Decision, rng: np.random.Generator) -> Decision | None:
        """Return the decision about a batch of the most uncertain points ([BB], section 4).

        Returns None if no variance exceeds the bound. The variances are exact, as in Algorithm 3; among
        many candidates and on a box they are those of the dictionary ([BB] Lemma 2).
        """
        view, grid, sampling = decision.view, decision.view.grid, decision.uncertainty
        bound = decision.noise_variance / view.scale**2 / decision.batching.smallest
        few = grid is not None and len(grid.points) <= CONFIG.largest_exact
        data = dictionary_data(view.posterior) if few else None
        if data is not None and sampling is not None:
            assert grid is not None
            exact = sampling.posterior_above(view.prior.kernel, data, view.now, grid, bound)
            return None if exact is None else replace(decision, view=replace(view, posterior=exact))
        if decision.is_first_of_many:
            point = decision.domain.sample(1, rng)  # all variances are equal
            largest = float(view.prior.kernel.diag(view.inputs(point))[0])
        else:
            domain = decision.domain
            if decision.top is not None:
                top_decision = decision.among_top(TopRequest(with_mean=False, width=1.0, size=1))
                domain, view = top_decision.domain, top_decision.view
            _, largest = domain.maximize(lambda X: (view.predict(X)[1] / view.scale) ** 2, rng)
        return decision if largest > bound else None

    def _choose_from(self, decision: Decision, uncertain: bool, rng: np.random.Generator) -> Array:
        """Return the next points (b, d)."""
        view, batching = decision.view, decision.batching
        simple = decision.is_single and isinstance(batching.rule, batches.One) and not uncertain
        if simple and not decision.is_first_of_many:
            # [S] Algorithm 1, line 8; before any reward all bounds tie, and the choice is random.
            bound = view.bound(decision.beta)
            if len(decision.same_time) > 0 or decision.is_restricted:
                x = decision.choices().find_best(bound, rng)
            else:
                x, _ = decision.domain.maximize(bound, rng)
            if decision.rest > -math.inf:
                restricted = decision.choices().restrict(bound)
                if decision.overtakes(float(restricted(x[None, :])[0])):
                    raise TooFewTopCandidatesError
            return np.array([x])
        allowed = decision.choices()
        monitor: batches.Monitor
        if uncertain:
            # Uncertainty sampling ([BB] Algorithm 3): a bound without a mean.
            upper = batches.UpperBound(lambda X: np.zeros(len(X)), 1.0)
            monitor = batches.count_to(batching.smallest)
        else:
            times = batching.rule.ratio_bound * decision.beta * view.scale
            upper = batches.UpperBound(view.mean, times, view.smooth_bound)
            monitor = batching.rule.monitor()
        if decision.n is not None:
            monitor = batches.count_to(decision.n)
        return self._batch(decision, allowed, upper, monitor, rng)

    def _batch(
        self,
        decision: Decision,
        allowed: ChoiceSet,
        upper: batches.UpperBound,
        monitor: batches.Monitor,
        rng: np.random.Generator,
    ) -> Array:
        """Return points (b, d), each chosen as if those before it had been observed."""
        most = decision.batching.largest if decision.n is None else decision.n
        # A restricted bound jumps where points are not available, and has no slopes. Nor does a search
        # of all points need them, which has to leave out the points before.
        is_smooth = not decision.is_restricted and decision.domain.all_points is None
        smooth = upper.smooth if is_smooth else None
        fantasy = decision.fantasy(
            batches.UpperBound(allowed.restrict(upper.mean), upper.times, smooth)
        )
        everything = allowed.is_everything and decision.n is None
        is_partial = decision.rest > -math.inf  # `domain` has the top candidates alone
        batch: list[Array] = []
        while len(batch) < most:
            # [BB] Algorithm 1, L4 (and L1: before any reward all bounds tie, and the choice is random).
            x = fantasy.best(rng)
            if is_partial and decision.overtakes(fantasy.largest):
                raise TooFewTopCandidatesError
            batch.append(x if everything else allowed.repair(x, fantasy.bounds, rng))
            # L5 to L8: the variances shrink, and the batch continues until its rule ends it (L9).
            if monitor(fantasy.add(batch[-1])):
                break
            if len(batch) == most:
                warnings.warn(
                    f"the batch ended at its limit of {most} points, and {decision.batching.rule!r} "
                    f"would continue: the noise variance {decision.noise_variance:g} is far above the "
                    "posterior variances; give n=, largest_batch= or Batching(largest=)",
                    batches.BatchLimitWarning,
                    stacklevel=2,
                )
            if decision.n is not None:
                allowed.exclude(batch[-1])
        return np.array(batch)


@dataclass(frozen=True)
class SampledBound(Acquisition):
    """A rule that plays the largest upper bound among thousands of random points (`Domain.by_sample`).

    On candidates, where all bounds are computed, it is `UpperConfidenceBound`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Box, Recipe
    >>> from tvbandits.acquisition.rules import SampledBound
    >>> bandit = Bandit(Recipe(Box([(0, 1)]), RBF(0.3), 0.01, mean=0.0, acquisition=SampledBound()))
    >>> info = bandit.tell([[0.1], [0.9]], [1.0, 0.0], 1)
    >>> bool(bandit.ask(2)[0, 0] < 0.5)
    True
    """

    def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
        """Return the next points (b, d)."""
        if isinstance(decision.domain, Candidates):
            return UpperConfidenceBound().choose(decision, rng)
        bound = decision.view.bound(decision.beta)
        centres = np.empty((0, decision.domain.dimension))
        if isinstance(bound, SmoothAcquisition):
            centres = bound.near
        if decision.available is not None:
            centres = centres[decision.available(centres)]
        decision = replace(decision, domain=decision.domain.by_sample(centres))
        return UpperConfidenceBound().choose(decision, rng)


@dataclass(frozen=True)
class RandomFirst(Acquisition):
    """A rule that plays at random until there are `count` observations, and then by another rule.

    With a narrow width a bandit may stay at the first good point, and never learn how the reward varies
    elsewhere. A few random points prevent that.

    Parameters
    ----------
    count : int
        Number of observations, with pending points.
    then : Acquisition
        The rule after that.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Box, Recipe
    >>> from tvbandits.acquisition.rules import RandomFirst
    >>> bandit = Bandit(Recipe(Box([(0, 1)]), RBF(0.3), 0.01, acquisition=RandomFirst(count=3)))
    >>> print(len(bandit.ask(1, n=3)))
    3
    """

    count: int = 8
    then: Acquisition = field(default_factory=UpperConfidenceBound)

    def __post_init__(self) -> None:
        whole_number("count", self.count)
        check_part("then", self.then, "an acquisition such as UpperConfidenceBound()", "choose")

    def check(self, domain: Domain, posterior: Any) -> None:
        """Raise a `ValueError` if the rule `then` does not support this domain or posterior."""
        self.then.check(domain, posterior)

    def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
        """Return the next points (b, d)."""
        if decision.view.posterior.summary.size + len(decision.pending) >= self.count:
            return self.then.choose(decision, rng)
        allowed = ChoiceSet(decision.domain, decision.available, decision.same_time)
        batch: list[Array] = []
        for _ in range(decision.n or 1):
            batch.append(allowed.sample(rng))
            allowed.exclude(batch[-1])
        return np.array(batch)


@dataclass(frozen=True)
class SpreadFirst(Acquisition):
    """A rule for `count` first plays that are most informative, and then for upper bounds.

    A play at x lowers the sum of the variances of all points y by sum_y c(x, y)^2 / c(x, x) ([Cohn]),
    with the covariance c given the points before. At first the upper bounds nearly tie, and are largest
    at the corners, which are least informative. A bandit that learns its scale from low rewards there
    may never explore the rest.

    Where moves or risks have a price, the rule uses upper bounds from the start.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.rules import SpreadFirst
    >>> sites = Candidates([[0.0], [4.0], [5.0], [10.0]])
    >>> bandit = Bandit(Recipe(sites, RBF(3.0), 0.01, acquisition=SpreadFirst()))
    >>> print(bandit.ask(1))  # this point has two neighbours
    [[4.]]
    """

    count: int = 8

    def __post_init__(self) -> None:
        whole_number("count", self.count)

    def check(self, domain: Domain, posterior: Any) -> None:
        """Raise a `ValueError` unless the domain is finite."""
        as_finite(domain, "the choice of the most informative plays")

    def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
        """Return the next points (b, d)."""
        domain, view = decision.domain, decision.view
        count = view.posterior.summary.size + len(decision.pending)
        if count >= self.count or decision.move is not None or decision.price is not None:
            return UpperConfidenceBound().choose(decision, rng)
        visited = view.posterior.summary.data.Z[:, : domain.dimension]
        # Where a reading failed, the next one may fail as well, so that other points are preferred.
        failed = decision.failed[-CONFIG.spread_candidates :]
        points = np.concatenate([failed, visited, decision.pending])
        allowed, before = decision.choices(), len(points)
        for _ in range(decision.n or 1):
            x = most_informative(decision, points, allowed, rng)
            points = np.vstack([points, x])
            allowed.exclude(x)
        return points[before:]


def most_informative(
    decision: Decision, observed: Array, allowed: ChoiceSet, rng: np.random.Generator
) -> Array:
    """Return the candidate (d,) that lowers the sum of variances most, given observations at (k, d).

    The noise variance is a hundredth of the prior variance. Of many candidates a random subset is
    compared.
    """
    domain, view = decision.domain, decision.view
    assert isinstance(domain, Candidates)  # as of `check`
    free = np.flatnonzero(allowed(domain.X))
    if len(free) > CONFIG.spread_candidates:
        free = np.sort(rng.choice(free, CONFIG.spread_candidates, replace=False))
    K = view.prior.covariance(view.inputs(np.concatenate([observed, domain.X[free]])))
    noise, k = 0.01 * float(np.diagonal(K).mean()), len(observed)
    if k:
        root = linalg.cholesky(K[:k, :k] + noise * np.eye(k), "observed points").L
        explained = linalg.solve_lower(root, K[:k])
        K = K - explained.T @ explained
    K = K[k:, k:]
    reduction = (K**2).sum(axis=0) / (np.diagonal(K) + noise)
    X = domain.X[free]
    return np.array(X[acquisition_argmax(reduction, X, rng)])


class TooFewTopCandidatesError(Exception):
    """The largest bound may be that of a candidate outside of the top candidates."""


@dataclass(frozen=True)
class ThompsonSampling(Acquisition):
    """A rule that plays the best candidate of a sample of the posterior ([Kan]).

    Each point of a batch of `Batching.largest` points is the best one of its own sample, from the
    posterior at the batch's start. The deviations of a sample from the mean are multiplied by the width
    beta. Batches of one point, with a `tell` for each reward, are the asynchronous form.

    A sample from the exact posterior is a joint draw at all candidates. On a dictionary of inducing
    points, with the embedding z and V of `tvbandits.gp.sparse`, it is

        f(x) = z(x)^T w + e(x),   w ~ N(V^-1 b, V^-1),   e(x) ~ N(0, k(x, x) - z(x)^T z(x)),

    in O(m A) for m inducing points and A candidates. The residual e is drawn independently for each
    candidate: every f(x) has exactly the posterior's mean and variance, so that candidates far from the
    dictionary are explored, but the correlation of e between neighbours is left out.

    Parameters
    ----------
    persistent : bool
        Whether draws have the persistent part of the deviations alone, as in [LX]: a change that is soon
        forgotten is not worth exploring.
    sharing_width : float
        The width beta of the draws for a request of more plays than candidates.
    """

    persistent: bool = False
    sharing_width: float = 1.0

    counts_pending: ClassVar[bool] = False

    def check(self, domain: Domain, posterior: Any) -> None:
        """Raise a `ValueError` if samples at all points of the domain are not possible."""
        count = len(as_finite(domain, "Thompson sampling"))
        if posterior.dense and count > CONFIG.largest_joint:
            raise ValueError(
                "the exact posterior is drawn jointly at no more than "
                f"{CONFIG.largest_joint} candidates, got {count}: give posterior=Nystrom()"
            )

    def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
        """Return the best candidates (b, d) of b samples."""
        domain = decision.domain
        assert isinstance(domain, Candidates)  # as of `check`
        count = decision.batching.largest if decision.n is None else decision.n
        allowed = decision.choices()
        batch: list[Array] = []
        for sample in samples(decision, count, rng, persistent=self.persistent):
            values = allowed.restrict(lambda _, sample=sample: sample)(domain.X)  # type: ignore[misc]
            batch.append(domain.X[acquisition_argmax(values, domain.X, rng)])
            if decision.n is not None:
                allowed.exclude(batch[-1])
        return np.array(batch)

    def draw(self, decision: Decision, count: int, rng: np.random.Generator) -> Array:
        """Return draws (count, A) of the reward at all candidates, with the width `sharing_width`."""
        shared = replace(decision, beta=self.sharing_width)
        return samples(shared, count, rng, persistent=self.persistent)


def samples(
    decision: Decision, count: int, rng: np.random.Generator, *, persistent: bool = False
) -> Array:
    """Return samples (count, A) of the reward at all candidates, with beta times their deviations."""
    view, domain = decision.view, decision.domain
    assert isinstance(domain, Candidates)  # as of the callers
    X = domain.X if view.grid is None else view.grid.points
    if view.grid is None:  # the candidates depend on the measured context of this decision
        Z = view.inputs(X)
        root = linalg.square_root(view.posterior.covariance(Z, Z))
        noise = rng.standard_normal((count, root.shape[1])) @ root.T
    else:
        noise = view.posterior.sample(view.grid, count, rng)
    if persistent:
        noise = noise * view.prior.persistent_share
    return np.asarray(view.mean(X) + decision.beta * view.scale * noise)


@dataclass(frozen=True)
class PersistentBound(Acquisition):
    """A rule that plays the largest mean + beta * persistent deviation, on an ensemble of models.

    The persistent deviation is that of the part of the next reward that later rewards would reveal. [LX]
    draws this part, here it is a width: a persistent difference between points is worth exploring, and a
    change that is soon forgotten is not. Pending points lower the deviations, as in
    `UpperConfidenceBound`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.rules import PersistentBound
    >>> from tvbandits.gp.ensemble.posterior import ModelEnsemble
    >>> sites = Candidates([[0.0], [5.0], [10.0]])
    >>> parts = {"posterior": ModelEnsemble(), "acquisition": PersistentBound()}
    >>> bandit = Bandit(Recipe(sites, RBF(1.0), 0.01, **parts))
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 5) ** 2), t)
    >>> print(bandit.recommend())
    [5.]
    """

    def check(self, domain: Domain, posterior: Any) -> None:
        """Raise a `ValueError` unless the posterior is an ensemble of models."""
        if not posterior.self_learning:
            raise ValueError(
                "a persistent deviation needs an ensemble of models: give "
                f"posterior=ModelEnsemble(), got {describe(posterior)}"
            )

    def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
        """Return the next points (b, d)."""
        domain, view = decision.domain, decision.view
        posterior, grid = view.posterior, view.grid
        assert isinstance(domain, Candidates)  # an ensemble is on candidates alone
        assert grid is not None
        width = decision.beta * view.prior.persistent_share
        allowed = decision.choices()
        if len(decision.pending):
            Z = view.inputs(decision.pending)
            posterior = posterior.fantasize(Z, decision.pending_noise, grid)
        count = decision.batching.smallest if decision.n is None else decision.n
        batch: list[Array] = []
        while len(batch) < count:
            mean, variance = posterior.predict(grid)
            bound = mean[:, 0] + width * np.sqrt(variance)
            batch.append(allowed.find_best_candidate(bound, rng))
            if len(batch) < count:
                z = view.inputs(batch[-1][None, :])
                posterior = posterior.fantasize(z, decision.noise_variance / view.scale**2, grid)
            if decision.n is not None:
                allowed.exclude(batch[-1])
        return np.array(batch)
