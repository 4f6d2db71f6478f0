"""The rules by which a bandit chooses its next points, out of a posterior (`Decision`).

- `UpperConfidenceBound`: the largest upper bound ([Sri] eq. 6; in batches [BB] Algorithm 1);
  `SampledBound`: that of random points.
- `ThompsonSampling`: the best candidates of samples of the posterior, in batches ([Kan]).
- `LastingBound`: an upper bound that does not look for what will soon be gone ([LX]).
- `RandomFirst`, `SpreadFirst`: first plays at random, or where they tell most about all points ([Cohn]).

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
from tvbandits.gp.cholesky import ExactPosterior, by_cholesky
from tvbandits.gp.posterior import CandidateGrid, Data, dictionary_data
from tvbandits.gp.predictions import ScaledPosterior
from tvbandits.gp.top_candidates import Request, TopCandidates
from tvbandits.ties import row_of_largest
from tvbandits.validation import Array, check_part, describe, whole_number


@dataclass(frozen=True)
class RuleConfig:
    """The numbers that the cost of a decision depends on.

    Attributes
    ----------
    spread_candidates : int
        What the first plays tell is reckoned at no more candidates, after no more failed plays.
    fewest_top : int
        So many top candidates are looked for at the least: a batch goes through several of them.
    largest_exact : int
        First plays are the most uncertain by exact variances among so many candidates at the most.
    largest_joint : int
        A joint draw from the exact posterior factors a matrix of so many rows at the most.
    """

    spread_candidates: int = 400
    fewest_top: int = 64
    largest_exact: int = 4096
    largest_joint: int = 2000


CONFIG = RuleConfig()


class UncertaintySampling:
    """The exact variances of [BB] Algorithm 3, for a posterior on a dictionary.

    Variances only fall: once none at the candidates exceeds a bound, given the first plays, none ever
    does, and later plays need not be looked at. This memory changes no result.
    """

    first_look: ClassVar[int] = 64
    """So many plays are looked at first, and then twice as many, until they are enough."""

    def __init__(self) -> None:
        self._enough: tuple[Any, Data, float] | None = None

    def exceeding(
        self, kernel: Any, data: Data, now: float, grid: CandidateGrid, bound: float
    ) -> ExactPosterior | None:
        """Return the exact posterior on data; None if no variance at the candidates exceeds a bound."""
        n = self.first_look
        if self._enough is not None:
            same, first, reached = self._enough
            if same is kernel and data.starts_with(first) and reached <= bound:
                return None
        while True:
            exact = by_cholesky(kernel, data.rows(0, n), grid=grid, now=now)
            if exact.predict(grid)[1].max() <= bound:
                self._enough = kernel, exact.data, bound
                return None
            if n >= len(data):
                return exact
            n *= 2


@dataclass(frozen=True)
class Decision:
    """What is to be decided, and what for.

    Attributes
    ----------
    domain : Domain
    view : ScaledPosterior
        What the posterior says at the time of the decision.
    beta : float
        The width, in deviations.
    noise_variance : float
        Of a reward (unit of reward squared).
    batching : Batching
    n : int or None
        Exactly so many points, distinct where there are as many; None: as the batching says.
    pending, pending_noise : arrays of shape (k, d) and (k,)
        Points that are out, and the noise variance with which their rewards will speak about the time of
        the decision, in prior units.
    same_time : array of shape (m, d)
        Points that are out for this very time: others come first.
    failed : array of shape (f, d)
        Points that were played without a reading.
    available : Available or None
        Only these may be played.
    move : Move or None
        What a move from here costs; None: nothing.
    price : callable, optional
        What else points (m, d) cost, shape (m,).
    top : TopCandidates, optional
        Finds the candidates that lead, where there are too many to look at all of them.
    rest : float
        No candidate that is not in `domain` has an upper bound above this.
    uncertainty : UncertaintySampling, optional
        Has the exact variances of first plays, where the posterior is on a dictionary.
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
        """Return what may be chosen; excluded points, by default those of this time, come last."""
        without = self.same_time if excluded is None else excluded
        return ChoiceSet(self.domain, self.available, without, self.move, self.price)

    @property
    def is_restricted(self) -> bool:
        """Whether some points are not available, or cost something."""
        return any(each is not None for each in (self.available, self.move, self.price))

    def among_top(self, request: Request) -> Decision:
        """Return the decision among the top candidates alone."""
        view, finder = self.view, self.top
        assert finder is not None
        assert isinstance(self.domain, Candidates)
        mask = None if self.available is None else self.available.mask
        columns = np.array([1.0, view.origin - view.prior_mean])
        sparse: Any = view.posterior  # no other is on so many candidates
        scorer = sparse.scorer(columns, view.prior_mean)
        top = finder.select(scorer, sparse, request, mask)
        self.domain._remember(top.rows, top.X)
        domain = from_distinct_rows(top.X)
        grid = CandidateGrid(view.prior.kernel, domain.X)
        posterior = sparse.at_candidates(grid)
        return replace(
            self,
            domain=domain,
            view=replace(view, posterior=posterior, grid=grid),
            available=None,
            top=None,
            rest=top.upper_bound_of_rest,
        )

    def overtakes(self, bound: float) -> bool:
        """Whether a candidate that is not in `domain` may have a larger upper bound, or tie."""
        return -math.inf < self.rest and bound - ties.TOLERANCE * abs(bound) <= self.rest

    @property
    def is_single(self) -> bool:
        """Whether one point is asked for, or as many as the batch rule says, and none is pending."""
        return len(self.pending) == 0 and self.n in (None, 1)

    @property
    def untold(self) -> bool:
        """Whether all of many candidates tie: nothing was told, and nothing is out."""
        if not self.is_single or self.top is None or self.view.posterior.summary.size > 0:
            return False
        return bool(self.view.prior.kernel.is_stationary())

    def fantasy(self, upper: batches.UpperBound) -> batches.FantasyModel:
        """The posterior as if the points that are out had been observed at their means."""
        view, noise = self.view, self.noise_variance / self.view.scale**2
        parts = view.posterior, self.domain, view.grid, view.inputs, noise, upper
        summary = view.posterior.summary
        if self.untold:
            mask = None if self.available is None else self.available.mask
            free = None if mask is None else np.flatnonzero(mask)
            return batches.UntoldFantasy(*parts, view.prior, free)  # type: ignore[arg-type]  # of candidates
        fantasy: batches.FantasyModel
        if not self.is_single and not summary.exact:
            # A batch rule adds its points to what the dictionary spans, and to nothing else ([BB]
            # Algorithm 1): beyond it, what is out and a number that is asked for lower variances, too.
            fantasy = batches.JointFantasy(*parts)
        elif summary.dictionary_size is not None and view.grid is not None:
            fantasy = batches.SparseFantasy(*parts)  # type: ignore[arg-type]  # a grid is of candidates
        else:
            fantasy = batches.PlainFantasy(*parts)
        if len(self.pending):
            fantasy.observe(self.pending, self.pending_noise)
        return fantasy

    def deviation(self) -> Callable[[Array], Array]:
        """Deviations (m,) at points (m, d), in the unit of rewards; points that are out count."""
        return self.fantasy(batches.UpperBound(lambda X: np.zeros(len(X)), self.view.scale)).bounds

    def if_crowded(self) -> Decision | None:
        """Return the decision on all points, if more are asked for than are available; else None."""
        domain = self.domain
        if self.n is None:
            return None
        if not isinstance(domain, Candidates):
            every = domain.every_point
            if every is None:
                return None
            domain = from_distinct_rows(every)
        if len(domain) > CONFIG.largest_joint:
            return None
        free = len(domain) if self.available is None else self.available(domain.X).sum()
        return replace(self, domain=domain) if self.n > free else None


class Acquisition(Protocol):
    """A rule for the next points; a rule of your own inherits what is usual.

    Attributes
    ----------
    counts_pending : bool
        Whether pending points change what it chooses.
    weighs_reward : bool
        Whether it weighs rewards, so that the price of a move or a risk can be taken off them.
    """

    counts_pending: ClassVar[bool] = True
    weighs_reward: ClassVar[bool] = True

    def check(self, domain: Domain, posterior: Any) -> None:  # noqa: ARG002
        """Raise a `ValueError` if it cannot work on such a domain or posterior rule; usually it can."""
        return

    def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
        """Return the next points (b, d)."""

    def draw(self, decision: Decision, count: int, rng: np.random.Generator) -> Array:
        """Return draws (count, A) of the reward at all candidates, by which plays are shared out."""
        return samples(replace(decision, beta=1.0), count, rng)


def choose_points(rule: Acquisition, decision: Decision, rng: np.random.Generator) -> Array:
    """Return points as `rule.choose` does; where fewer exist than are asked for, by Thompson shares.

    Each of the n plays goes to the best point of a joint draw of its own from the posterior. A point's
    expected share is then the probability that it is the best one, whatever the rule.
    """
    crowded = decision.if_crowded()
    if crowded is None:
        return rule.choose(decision, rng)
    allowed = crowded.choices(np.empty((0, crowded.domain.dimension)))
    assert isinstance(crowded.domain, Candidates)
    assert crowded.n is not None
    draws = rule.draw(crowded, crowded.n, rng)
    X = crowded.domain.X
    worth = np.asarray(allowed.restrict(lambda _: draws)(X))
    rows = worth.argmax(axis=1)
    for i in np.flatnonzero(ties.may_tie(worth)):  # one by one: `rng` breaks ties in order
        rows[i] = row_of_largest(worth[i], X, rng)
    return np.asarray(X[rows])


@dataclass(frozen=True)
class UpperConfidenceBound(Acquisition):
    """Plays where mean + beta deviation is largest.

    One point is the maximizer. In a batch the width is inflated by the rule's bound on the ratio of
    deviations, and variances shrink from point to point; so they do around points that are out.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.rules import UpperConfidenceBound
    >>> sites = Candidates([[0.0], [5.0], [10.0]])
    >>> bandit = Bandit(Recipe(sites, RBF(1.0), 0.01, mean=0.0, acquisition=UpperConfidenceBound()))
    >>> info = bandit.tell([[0.0], [5.0]], [0.1, -0.1], 1)
    >>> print(bandit.ask(2))  # where least is known
    [[10.]]
    """

    def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
        """Return the next points (b, d)."""
        first = self._first_plays(decision, rng) if decision.batching.smallest > 1 else None
        uncertain = first is not None
        decision = decision if first is None else first
        if decision.top is None or decision.untold:
            return self._choose_from(decision, uncertain, rng)
        times = 1.0 if uncertain else decision.batching.rule.ratio_bound * decision.beta
        scaled = times * (1.0 if uncertain else decision.view.scale)
        before = rng.bit_generator.state
        count = max(decision.top.count, 2 * (len(decision.same_time) + (decision.n or 1)))
        while True:
            leading = decision.among_top(Request(not uncertain, scaled, count))
            try:
                chosen = self._choose_from(leading, uncertain, rng)
            except OvertakenError:
                rng.bit_generator.state = before
                count *= 4
            else:
                decision.top.count = max(count // 2, CONFIG.fewest_top)
                return chosen

    def _first_plays(self, decision: Decision, rng: np.random.Generator) -> Decision | None:
        """Return the decision by which the batch is of the most uncertain points ([BB], section 4).

        None: no point is uncertain enough. For a posterior on a dictionary it is by the exact one, as
        Algorithm 3 has it; among many candidates, and on a box, by the dictionary's ([BB] Lemma 2).
        """
        view, grid, sampling = decision.view, decision.view.grid, decision.uncertainty
        bound = decision.noise_variance / view.scale**2 / decision.batching.smallest
        few = grid is not None and len(grid.points) <= CONFIG.largest_exact
        data = dictionary_data(view.posterior) if few else None
        if data is not None and sampling is not None:
            assert grid is not None
            exact = sampling.exceeding(view.prior.kernel, data, view.now, grid, bound)
            return None if exact is None else replace(decision, view=replace(view, posterior=exact))
        if decision.untold:
            drawn = decision.domain.sample(1, rng)  # they tie
            largest = float(view.prior.kernel.diag(view.inputs(drawn))[0])
        else:
            domain = decision.domain
            if decision.top is not None:
                leading = decision.among_top(Request(with_mean=False, times=1.0, size=1))
                domain, view = leading.domain, leading.view
            _, largest = domain.maximize(lambda X: (view.predict(X)[1] / view.scale) ** 2, rng)
        return decision if largest > bound else None

    def _choose_from(self, decision: Decision, uncertain: bool, rng: np.random.Generator) -> Array:
        """Return the next points (b, d)."""
        view, batching = decision.view, decision.batching
        simple = decision.is_single and isinstance(batching.rule, batches.One) and not uncertain
        if simple and not decision.untold:
            # [S] Algorithm 1, line 8; before any reward all bounds tie, and it is a draw.
            bound = view.bound(decision.beta)
            if len(decision.same_time) > 0 or decision.is_restricted:
                x = decision.choices().best(bound, rng)
            else:
                x, _ = decision.domain.maximize(bound, rng)
            if decision.rest > -math.inf:
                worth = decision.choices().restrict(bound)
                if decision.overtakes(float(worth(x[None, :])[0])):
                    raise OvertakenError
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
        """Point after point, each as if those before it had been observed."""
        most = decision.batching.largest if decision.n is None else decision.n
        # What is taken has its variance lowered; what is not available has no slope.
        smooth = None if decision.is_restricted else upper.smooth
        fantasy = decision.fantasy(
            batches.UpperBound(allowed.restrict(upper.mean), upper.times, smooth)
        )
        everything = allowed.is_everything and decision.n is None
        leads = decision.rest > -math.inf
        batch: list[Array] = []
        while len(batch) < most:
            # [BB] Algorithm 1, L4 (and L1: before any reward all bounds tie, and it is a draw).
            x = fantasy.best(rng)
            if leads and decision.overtakes(fantasy.largest):
                raise OvertakenError
            batch.append(x if everything else allowed.repair(x, fantasy.bounds, rng))
            # L5 to L8: the variances shrink, and the batch goes on until its rule is broken (L9).
            if monitor(fantasy.add(batch[-1])):
                break
            if len(batch) == most:
                warnings.warn(
                    f"the batch ended at its limit of {most} points, and {decision.batching.rule!r} "
                    f"would go on: the noise variance {decision.noise_variance:g} is large beside the "
                    "posterior variances; give n=, or a limit by largest_batch= or Batching(largest=)",
                    batches.BatchLimitWarning,
                    stacklevel=2,
                )
            if decision.n is not None:
                allowed.exclude(batch[-1])
        return np.array(batch)


@dataclass(frozen=True)
class SampledBound(Acquisition):
    """Plays the largest upper bound among some thousand random points (`Domain.by_sample`).

    On candidates, where every bound is known, it is `UpperConfidenceBound`.

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
    """Plays points at random until there are `count` observations, and then by another rule.

    A narrow width stays where it finds something good at once, and never learns how the reward varies
    elsewhere: a few points anywhere tell it.

    Parameters
    ----------
    count : int
    then : Acquisition

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
        """Raise a `ValueError` if the other rule cannot work on such a domain or posterior rule."""
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
    """Plays where a reward tells most until there are `count` observations, and then by an upper bound.

    A play at x takes sum_y c(x, y)^2 / c(x, x) off the variances of all points y together ([Cohn]). Here
    c is the covariance of the differences between points, once the points before are known. Bounds that
    tie, or nearly, would send the first plays to the corners, which tell little about the rest: a bandit
    that learns its scale may then take low ground for all there is, and never look again.

    Where a move costs something, an upper bound decides from the start.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.rules import SpreadFirst
    >>> sites = Candidates([[0.0], [4.0], [5.0], [10.0]])
    >>> bandit = Bandit(Recipe(sites, RBF(3.0), 0.01, acquisition=SpreadFirst()))
    >>> print(bandit.ask(1))  # it has two neighbours
    [[4.]]
    """

    count: int = 8

    def __post_init__(self) -> None:
        whole_number("count", self.count)

    def check(self, domain: Domain, posterior: Any) -> None:  # noqa: ARG002 - one face
        """Raise a `ValueError` unless the domain is finite."""
        as_finite(domain, "the choice of plays that tell most")

    def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
        """Return the next points (b, d)."""
        domain, view = decision.domain, decision.view
        count = view.posterior.summary.size + len(decision.pending)
        if count >= self.count or decision.move is not None or decision.price is not None:
            return UpperConfidenceBound().choose(decision, rng)
        played = view.posterior.summary.data.Z[:, : domain.dimension]
        # Where a reading failed, the next one may fail as well: others come first.
        failed = decision.failed[-CONFIG.spread_candidates :]
        points = np.concatenate([failed, played, decision.pending])
        allowed, before = decision.choices(), len(points)
        for _ in range(decision.n or 1):
            x = most_informative(decision, points, allowed, rng)
            points = np.vstack([points, x])
            allowed.exclude(x)
        return points[before:]


def most_informative(
    decision: Decision, observed: Array, allowed: ChoiceSet, rng: np.random.Generator
) -> Array:
    """Return the candidate (d,) that leaves the least variance, once points (k, d) are observed.

    Readings are taken to be nearly exact, with a hundredth of the variance as noise. Among many
    candidates, at some drawn of them.
    """
    domain, view = decision.domain, decision.view
    assert isinstance(domain, Candidates)  # `check` has seen to it
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
    return np.array(X[row_of_largest(reduction, X, rng)])


class OvertakenError(Exception):
    """Another candidate than the top ones may have the largest bound by now."""


@dataclass(frozen=True)
class ThompsonSampling(Acquisition):
    """Plays the best candidate of a sample of the posterior ([Kan], batches of the same posterior).

    Each point of a batch is the best of a sample of its own, all from the posterior of the batch's
    start; a batch is as long as `Batching.largest`, the width beta stretches the deviations of a sample.
    Rewards are told at the batch's end, or whenever they come: with batches of one and a tell for every
    reward as it arrives it is the asynchronous form.

    A sample from the exact posterior is a joint draw at all candidates. On a dictionary of inducing
    points, with the embedding z and V of `tvbandits.gp.sparse`, it is

        f(x) = z(x)^T w + e(x),   w ~ N(V^-1 b, V^-1),   e(x) ~ N(0, k(x, x) - z(x)^T z(x)),

    in O(m A) for m inducing points and A candidates. The residual e is drawn for each candidate on its
    own: every f(x) has exactly the posterior's mean and variance, so candidates that the dictionary does
    not reach are still explored, whereas what their neighbours would share of e is left out.

    Parameters
    ----------
    lasting : bool
        A draw deviates from the mean by the lasting share alone, as that of [LX] does: a change that is
        forgotten at once is not worth a look.
    sharing : float
        The width beta of the draws by which more plays than candidates are shared out.
    """

    lasting: bool = False
    sharing: float = 1.0

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
        """The best candidates (b, d) of b samples."""
        domain = decision.domain
        assert isinstance(domain, Candidates)  # `check` has seen to it
        count = decision.batching.largest if decision.n is None else decision.n
        allowed = decision.choices()
        batch: list[Array] = []
        for sample in samples(decision, count, rng, lasting=self.lasting):
            values = allowed.restrict(lambda _, sample=sample: sample)(domain.X)  # type: ignore[misc]
            batch.append(domain.X[row_of_largest(values, domain.X, rng)])
            if decision.n is not None:
                allowed.exclude(batch[-1])
        return np.array(batch)

    def draw(self, decision: Decision, count: int, rng: np.random.Generator) -> Array:
        """Return draws (count, A) of the reward at all candidates, with a width of their own."""
        return samples(replace(decision, beta=self.sharing), count, rng, lasting=self.lasting)


def samples(
    decision: Decision, count: int, rng: np.random.Generator, *, lasting: bool = False
) -> Array:
    """`count` samples of the reward at all candidates, their deviations stretched, shape (count, A)."""
    view, domain = decision.view, decision.domain
    assert isinstance(domain, Candidates)  # whoever asks has seen to it
    X = domain.X if view.grid is None else view.grid.points
    if view.grid is None:  # its points are at the measured context of this decision alone
        Z = view.inputs(X)
        root = linalg.square_root(view.posterior.covariance(Z, Z))
        noise = rng.standard_normal((count, root.shape[1])) @ root.T
    else:
        noise = view.posterior.sample(view.grid, count, rng)
    if lasting:
        noise = noise * view.prior.persistent_share
    return np.asarray(view.mean(X) + decision.beta * view.scale * noise)


@dataclass(frozen=True)
class LastingBound(Acquisition):
    """Plays where mean + beta * lasting deviation is largest, on an ensemble of models.

    The lasting deviation is that of what rewards after the decision would tell about the next reward
    ([LX] draw it, here it is a width): a change that is forgotten at once is not worth a look, a lasting
    difference between places is. Points that are out lower the deviations, as in
    `tvbandits.acquisition.rules.UpperConfidenceBound`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.rules import LastingBound
    >>> from tvbandits.gp.ensemble.posterior import ModelEnsemble
    >>> sites = Candidates([[0.0], [5.0], [10.0]])
    >>> parts = {"posterior": ModelEnsemble(), "acquisition": LastingBound()}
    >>> bandit = Bandit(Recipe(sites, RBF(1.0), 0.01, **parts))
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 5) ** 2), t)
    >>> print(bandit.recommend())
    [5.]
    """

    def check(self, domain: Domain, posterior: Any) -> None:  # noqa: ARG002 - one face
        """Raise a `ValueError` unless the posterior is an ensemble of models."""
        if not posterior.self_learning:
            raise ValueError(
                "a lasting deviation is known to an ensemble of models: give posterior=ModelEnsemble(), "
                f"got {describe(posterior)}"
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
            batch.append(allowed.best_of(bound, rng))
            if len(batch) < count:
                z = view.inputs(batch[-1][None, :])
                posterior = posterior.fantasize(z, decision.noise_variance / view.scale**2, grid)
            if decision.n is not None:
                allowed.exclude(batch[-1])
        return np.array(batch)
