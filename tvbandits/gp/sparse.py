"""The sparse posterior on a dictionary of inducing points.

With a dictionary S and any root R R^T = K_S, the embedding is z(x) = R^-1 k_S(x), and with observations
of effective variance v_i ([B] eqs. 3-5, [BB] eqs. 1-3, in Bayesian scaling)

    V          = I + sum_i z_i z_i^T / v_i
    mu(x)      = z(x)^T V^-1 sum_i z_i y_i / v_i
    sigma^2(x) = k(x, x) - z(x)^T z(x) + z(x)^T V^-1 z(x)        (DTC)

It is the exact posterior when the dictionary spans every observed point. New weights of old observations
never touch the embedding.

Resparsification draws for each play s of the past, also of a point that was played before, whether its
point becomes an inducing point: with probability min(1, q sigma^2(x_s) / v_s), its ridge leverage score
times q, with the variances from before the new observations ([B] Alg. 1, [BB] L11-L16). A point is one
of the dictionary if one of its plays is drawn: probability 1 - prod_s (1 - min(1, q sigma^2 / v_s)), and
one uniform number for each point has that law.

The root of a dictionary is the factor of a noise-free Gaussian process on its points, so the exact
posterior's cheap routes serve here too: a point more is a row more of the root and of the embedding,
O(m A). A dictionary may keep the points it has, since a larger span loses no accuracy; it is drawn
afresh when it has twice the size of a fresh draw.

A bandit that starts with existing data has no posterior yet whose variances would give the ridge
leverage scores. They come bottom up, as in BLESS (Rudi, Calandriello, Carratino and Rosasco 2018): with
noise variances s v, s large, prior variances are nearly those of the posterior and few points matter; a
dictionary for s gives approximate scores for s / 2, and so on down to s = 1. On the way only a random
subset of the inputs is looked at, in proportion to a bound of their scores:

    score_i(s) = variance_s(x_i) / (s v_i) <= k(x_i, x_i) / (s v_i).

Rudi et al. have one noise variance for all; here each input has its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tvbandits.data import append_times
from tvbandits.gp import linalg
from tvbandits.gp.cholesky import ExactPosterior, by_cholesky, embed
from tvbandits.gp.features import Features, SpaceFeatures, Term, terms_of
from tvbandits.gp.kernels.space_time import is_space_time
from tvbandits.gp.posterior import (
    CandidateGrid,
    Conditioning,
    Data,
    Expansion,
    GridPosterior,
    Groups,
    Posterior,
    PosteriorRule,
    PosteriorSummary,
    dictionary_data,
    expand,
    no_grid,
    without_levels,
    without_negligible,
)
from tvbandits.gp.state_space import (
    FeatureRows,
    Filter,
    StateSpacePosterior,
    condition_filter,
    recall,
)
from tvbandits.gp.top_candidates import CandidateScorer
from tvbandits.ties import first_argmax
from tvbandits.validation import Array, Index, as_bool, finite_number, positive_number


@dataclass(frozen=True)
class SparsePosterior:
    """A conditioned sparse Gaussian process, as `Nystrom.condition` returns it.

    Attributes
    ----------
    kernel : scikit-learn kernel
    data : Data
        What it is conditioned on.
    groups : Groups
        Which observations share an input.
    rows : Data
        The same with observations of one input merged, shape (u, ...).
    dictionary : ExactPosterior
        A noise-free process on the m inducing points, whose factor is the root R.
    embedded : array of shape (u, m)
        z of the rows.
    V : array of shape (m, m)
    factor : array of shape (m, m)
        Lower factor of V.
    coefficients : array of shape (m, c)
        V^-1 sum_i z_i y_i / v_i.
    products : array of shape (c, c)
        Y^T (Q + Sigma)^-1 Y of the value columns of the rows, Q = Z Z^T.
    log_det_ratio : float
        log det V: twice the information gain of the embedded observations.
    now : float
        The time of predictions at the candidates.
    variance : array of shape (A,), optional
        At the candidates, where there are any.
    exact : bool
        Whether the dictionary spans every observed point, by construction: nothing is approximated.
    raised : float
        The most that was added to the noise variance of a row that was too small for the dictionary.
    filter : Filter, optional
        Under a kernel that forgets: the weights of the dictionary at the time of the latest observation.
    """

    kernel: Any
    data: Data
    groups: Groups
    rows: Data
    dictionary: ExactPosterior
    embedded: Array
    V: Array
    factor: Array
    coefficients: Array
    products: Array
    log_det_ratio: float
    now: float
    variance: Array | None = field(default=None, repr=False, compare=False)
    exact: bool = False
    raised: float = 0.0
    filter: Filter | None = None

    @property
    def size(self) -> int:
        """Number of distinct observed inputs."""
        return len(self.rows.Z)

    @property
    def summary(self) -> PosteriorSummary:
        """Facts about it; jitter is that of the root, or a noise too small for the dictionary."""
        return PosteriorSummary(
            kernel=self.kernel,
            data=self.data,
            size=self.size,
            products=self.products,
            log_det_ratio=self.log_det_ratio,
            effective_dimension=self._effective_dimension,
            jitter=max(self.dictionary.jitter, self.raised),
            dictionary_size=self.dictionary.size,
            exact=self.exact,
        )

    def _effective_dimension(self) -> float:
        """Sum posterior variance over noise variance of the observations.

        The part in the span of the dictionary is tr(V^-1 (V - I)) = m - tr V^-1.
        """
        inverse = linalg.solve_lower(self.factor, np.eye(len(self.factor)))
        prior = np.asarray(self.kernel.diag(self.rows.Z)) if self.size else np.empty(0)
        beyond = np.maximum(prior - (self.embedded**2).sum(axis=1), 0.0) / self.rows.variance
        return float(beyond.sum()) + len(self.factor) - float((inverse**2).sum())

    def predict(self, Z: Array | CandidateGrid) -> tuple[Array, Array]:
        """Return means (n, c) and variances (n,) at kernel inputs (n, p), or at candidates."""
        if isinstance(Z, CandidateGrid):
            if self.variance is None:
                raise no_grid()
            on_grid = self.dictionary.grid_posterior
            means = on_grid.embedding.array.T @ (self.coefficients * on_grid.shrink)
            return np.asarray(means), self.variance
        if self.filter is not None and not self._fades_to(Z[:, -1]):
            return self._recall(self.filter, Z)
        z = embed(self.dictionary, Z)
        return z @ self.coefficients, self.variances_of(Z, z)

    def _fades_to(self, times: Array) -> bool:
        """Return whether the posterior of those times is that of now, faded by the kernel."""
        latest = self.filter is None or self.now >= self.filter.time
        return bool((times >= self.now).all() if latest else (times == self.now).all())

    def _recall(self, latest: Filter, Z: Array) -> tuple[Array, Array]:
        """Return `predict` of any time: the same dictionary, with its weights of then."""
        here, there = (append_times(each[:, :-1], self.now) for each in (Z, self.data.Z))
        z, H = embed(self.dictionary, here), embed(self.dictionary, there)
        residual = np.asarray(self.kernel.diag(here)) - np.einsum("ij,ij->i", z, z)
        noise = noise_with_residual(self.kernel, there, H, self.data.variance)
        rows = FeatureRows(self.data.Z[:, -1], H, self.data.Y, noise, noise, together=True)
        prior = Filter.prior(latest.model, self.data.Y.shape[1])
        means, spread = recall(prior, rows, Z[:, -1], z)
        return means, np.maximum(residual, 0.0) + np.maximum(np.diagonal(spread), 0.0)

    def variances_of(self, Z: Array, z: Array) -> Array:
        """Return variances (n,) at kernel inputs `Z` (n, p) with the embedding `z` (n, m)."""
        prior = np.asarray(self.kernel.diag(Z))
        return variances(prior - np.einsum("ij,ij->i", z, z), z.T, self.factor)

    def covariance(self, Z1: Array, Z2: Array | CandidateGrid) -> Array:
        """Return the posterior covariance (n1, n2) of inputs (n1, p) with others, or with candidates."""
        z1 = embed(self.dictionary, Z1)
        half1 = linalg.solve_lower(self.factor, z1.T)
        if isinstance(Z2, CandidateGrid):
            weights = linalg.solve_lower(self.factor, half1, transposed=True).T - z1
            return np.asarray(Z2.kernel(Z1, Z2.at(self.now)) + self.combine_on_grid(weights))
        z2 = embed(self.dictionary, Z2)
        half2 = linalg.solve_lower(self.factor, z2.T)
        return np.asarray(self.kernel(Z1, Z2) - z1 @ z2.T + half1.T @ half2)

    def fantasize(
        self,
        Z: Array,
        noise: float | Array,
        grid: CandidateGrid | None,  # noqa: ARG002 - all posteriors have it
    ) -> SparsePosterior:
        """Return the posterior with more observations, whose values are unknown; means stay."""
        factor = self.factor
        for x, own in zip(embed(self.dictionary, Z), np.full(len(Z), noise), strict=True):
            factor = linalg.rank_one_update(factor, x / np.sqrt(own))
        return replace(self, factor=factor)._with_variance()

    def update(self, rows: Data, now: float, grid: CandidateGrid | None) -> None:
        """Return None: more observations need another dictionary."""

    def at_candidates(self, grid: CandidateGrid) -> SparsePosterior:
        """Return the posterior with these candidates, at the time of conditioning."""
        z = embed(self.dictionary, grid.at(self.now)).T
        weights, prior = self.dictionary.weights.array, grid.prior_variance(self.now)
        on_grid = GridPosterior.of(z, weights, prior, self.now)
        dictionary = replace(self.dictionary, on_grid=on_grid)
        return replace(self, dictionary=dictionary)._with_variance()

    def _with_variance(self) -> SparsePosterior:
        """Return the posterior with variances at the candidates, where there are any."""
        on_grid = self.dictionary.on_grid
        if on_grid is None:
            return self
        z = np.ascontiguousarray(on_grid.embedding.array)
        residual = on_grid.prior - on_grid.explained * on_grid.shrink**2
        z = z if on_grid.shrink == 1.0 else z * on_grid.shrink
        return replace(self, variance=variances(residual, z, self.factor))

    def combine_on_grid(self, weights: Array) -> Array:
        """Return weights (count, m) times the embedding of all candidates, shape (count, A)."""
        on_grid = self.dictionary.grid_posterior
        return np.asarray((weights * on_grid.shrink) @ on_grid.embedding.array)

    def half_on_grid(self, rows: Index) -> Array:
        """Return L^-1 z of candidates, L the factor of V, shape (m, n).

        Products of its columns are covariances in the span of the dictionary.
        """
        on_grid = self.dictionary.grid_posterior
        return linalg.solve_lower(self.factor, on_grid.embedding.array[:, rows] * on_grid.shrink)

    def scorer(self, columns: Array, mean: float) -> CandidateScorer:
        """Return what scores points at the time of conditioning, under a kernel over points.

        The mean is that of the value columns times `columns` (c,), plus `mean`.
        """
        kernel, Z = self.kernel, self.dictionary.rows.Z
        term = markov(kernel)
        if term is not None:  # all is of one time, at which the rest of the kernel is 1
            kernel, Z = term.at_one_time, Z[:, :-1]
        return CandidateScorer(
            kernel, Z, self.dictionary.lower, self.factor, self.V, self.coefficients @ columns, mean
        )

    def sample(self, grid: CandidateGrid, count: int, rng: np.random.Generator) -> Array:
        """Return centred draws (count, A) at the candidates, in O(m A) each.

        f(x) = z(x)^T w + e(x) with w ~ N(0, V^-1), and e(x) ~ N(0, k(x, x) - z(x)^T z(x)) for each
        candidate on its own.
        """
        normal = rng.standard_normal((self.dictionary.size, count))
        w = linalg.solve_lower(self.factor, normal, transposed=True).T
        _, residual = self.dictionary.predict(grid)
        own = rng.standard_normal((count, len(residual))) * np.sqrt(residual)
        return self.combine_on_grid(w) + own


@dictionary_data.register
def _(posterior: SparsePosterior) -> Data | None:
    """Return the data, but for a filter over time and for readings that share levels."""
    plain = posterior.filter is None and posterior.data.levels is None
    return posterior.data if plain else None


@expand.register
def _(posterior: SparsePosterior, largest_condition: float) -> Expansion | None:
    """On the dictionary of root R: with R^-T (1 - V^-1) R^-1 and R^-T V^-1 sum_i z_i y_i / v_i."""
    root = posterior.dictionary
    if posterior.size == 0 or root.size == 0 or root.condition_number > largest_condition:
        return None
    half = linalg.solve_lower(root.factor.array, np.eye(root.size))
    rest = linalg.solve_lower(posterior.factor, half)
    less, means = half.T @ half - rest.T @ rest, half.T @ posterior.coefficients
    return Expansion(posterior.kernel, root.rows.Z, less, means)


def noise_with_residual(kernel: Any, Z: Array, z: Array, variance: Array) -> Array:
    """Return the noise (n,) of readings at inputs `Z`: what a dictionary leaves out, where it is more.

    A filter's dictionary drops places that count little now. A reading of such a place is no statement
    about the rest of the dictionary, however precise: as one it moved means by many prior deviations.
    """
    residual = np.asarray(kernel.diag(Z)) - np.einsum("ij,ij->i", z, z)
    return np.asarray(np.maximum(variance, residual))


def variances(residual: Array, z: Array, factor: Array) -> Array:
    """Return the residuals K - z^T z (n,) plus z^T V^-1 z, for z of shape (m, n)."""
    return np.asarray(np.maximum(residual, 0.0) + linalg.quadratic_forms(factor, z))


def assemble(
    conditioning: Conditioning,
    groups: Groups,
    dictionary: ExactPosterior,
    *,
    lowest: float,
    exact: bool = False,
) -> SparsePosterior:
    """Return the sparse posterior of a dictionary: V, its factor and what follows from it.

    `lowest` is the share of its prior variance that a point may keep and yet depend on the dictionary.
    To such a point the model leaves its noise as the only reason for a misfit: one below that share is
    raised to it, since otherwise the misfit would count as many deviations of the noise.
    """
    kernel = conditioning.kernel
    rows = groups.merge(conditioning.data)
    variance = rows.variance
    if len(rows):
        raised = np.maximum(variance, lowest * np.asarray(kernel.diag(rows.Z)))
        rows = Data(rows.Z, rows.Y, raised, rows.levels)
    embedded = embedding(rows.Z, dictionary, conditioning.previous)
    if rows.levels is not None:  # Z' P Z with the P of the precisions without levels
        embedded = without_levels(rows.levels, embedded, rows.variance)
    weighted = embedded / np.sqrt(rows.variance)[:, None]
    V = np.eye(dictionary.size) + weighted.T @ weighted  # of one array: half of the products
    factor = linalg.cholesky(V, "sparse posterior's V").L
    precision = 1.0 / rows.variance
    half = linalg.solve_lower(factor, embedded.T @ (precision[:, None] * rows.Y))
    coefficients = linalg.solve_lower(factor, half, transposed=True)
    # The smallest value of |y - Z w|^2 / v + |w|^2, which is at the coefficients: a sum of squares.
    # Y^T Y / v - half^T half is the same, but the difference of two numbers of the size of 1 / v.
    misfit = rows.Y - embedded @ coefficients
    return SparsePosterior(
        kernel=kernel,
        data=conditioning.data,
        groups=groups,
        rows=rows,
        dictionary=dictionary,
        embedded=embedded,
        V=V,
        factor=factor,
        coefficients=coefficients,
        products=(precision[:, None] * misfit).T @ misfit + coefficients.T @ coefficients,
        log_det_ratio=linalg.log_determinant(factor),
        now=conditioning.now,
        exact=exact,
        raised=float((rows.variance - variance).max(initial=0.0)),
    )._with_variance()


def embedding(Z: Array, dictionary: ExactPosterior, previous: Posterior | None) -> Array:
    """Return z of inputs (u, p) on a root, from that of a previous posterior where it has the first.

    Where the root is that of before and has more rows, the columns of these are all that is new.
    """
    n = previous.size if isinstance(previous, SparsePosterior) else 0
    if (
        not isinstance(previous, SparsePosterior)
        or not 0 < n <= len(Z)
        or previous.rows.levels is not None
        or not np.array_equal(Z[:n], previous.rows.Z)
        or not dictionary.begins_with(previous.dictionary)
    ):
        return embed(dictionary, Z)
    m, root = previous.dictionary.size, dictionary.factor.array
    z = np.empty((len(Z), dictionary.size))
    z[:n, :m], z[n:] = previous.embedded, embed(dictionary, Z[n:])
    if m < dictionary.size:
        beyond = np.asarray(dictionary.kernel(dictionary.rows.Z[m:], Z[:n]))
        beyond -= root[m:, :m] @ previous.embedded.T
        z[:n, m:] = linalg.solve_lower(np.asfortranarray(root[m:, m:]), beyond).T
    return z


@dataclass(frozen=True)
class LeverageConfig:
    """The constants of the search for a dictionary by levels of noise.

    Attributes
    ----------
    step : float
        Factor by which the noise falls from level to level, at the most.
    candidates : float
        A level above the last looks at an input with this many times the bound of its score.
    candidates_each : int
        Such a level looks at this many inputs for each point of the dictionary so far, and for
        `candidates_beyond` more.
    candidates_beyond : int
    oversampling : float
        That of the dictionaries on the way.
    dependent : float
        Points that keep less than this share of their prior variance add nothing to a dictionary.
    many : int
        With more new inputs at once than this, and than there were, the posterior before says little
        about their leverage: the search is for all of them.
    """

    step: float = 2.0
    candidates: float = 8.0
    candidates_each: int = 32
    candidates_beyond: int = 16
    oversampling: float = 4.0
    dependent: float = 1e-9
    many: int = 500


CONFIG = LeverageConfig()

# A smaller share of a prior variance is lost to rounding.
SMALLEST_TOLERANCE = 1e-15


def leverage_dictionary(
    kernel: Any, Z: Array, variance: Array, oversampling: float, rng: np.random.Generator
) -> Index:
    """Draw the rows of a dictionary, each with probability min(1, oversampling score_i).

    O(u m^2) for u inputs and a dictionary of m, without any matrix of u x u.

    Parameters
    ----------
    kernel : scikit-learn kernel
    Z : array of shape (u, p)
        Kernel inputs.
    variance : array of shape (u,)
        Their noise variances; of an input that was observed repeatedly, 1 / sum of 1 / v.
    oversampling : float
        q, by which the scores are multiplied.
    rng : numpy.random.Generator
        One uniform number for each input and level.

    Returns
    -------
    rows : integer array of shape (m,)
        In rising order, never empty where there is an input. Points may depend on each other.
    """
    if len(Z) == 0:
        return np.empty(0, dtype=np.int64)
    bound = np.asarray(kernel.diag(Z)) / variance
    inducing, uniform = np.empty(0, dtype=np.int64), rng.random(len(Z))
    for s in _levels(float(bound.sum())):
        probability = _inclusion_probability(bound / s, len(inducing))
        subset = _draw(probability, uniform)
        scores = leverage_scores(kernel, Z, s * variance, inducing, subset, probability[subset])
        inclusion = np.minimum(probability[subset], CONFIG.oversampling * scores)
        rows = subset[_draw(inclusion, uniform[subset])]
        inducing, uniform = _independent(kernel, Z, rows), rng.random(len(Z))
    everything, certain = np.arange(len(Z)), np.ones(len(Z))
    scores = leverage_scores(kernel, Z, variance, inducing, everything, certain)
    return _draw(oversampling * scores, uniform)


def _levels(total: float) -> Array:
    """Return the factors s of the noise above 1, falling; at the first, the scores sum up to 1."""
    steps = math.ceil(math.log(total, CONFIG.step)) if total > 1.0 else 0
    return np.asarray(total ** (np.arange(steps, 0, -1) / max(steps, 1)))


def _inclusion_probability(bound: Array, size: int) -> Array:
    """Return with which probability each input is looked at, on a dictionary of `size` points.

    Where so many have a large bound, as with little noise, some of them are enough.
    """
    probability = np.minimum(1.0, CONFIG.candidates * bound)
    enough = CONFIG.candidates_each * (size + CONFIG.candidates_beyond)
    return probability * min(1.0, enough / float(probability.sum()))


def _draw(probability: Array, uniform: Array) -> Index:
    """Draw rows with these probabilities, at least one."""
    rows = np.flatnonzero(uniform < probability)
    return rows if len(rows) else np.array([first_argmax(probability)], dtype=np.int64)


def leverage_scores(
    kernel: Any, Z: Array, variance: Array, inducing: Index, subset: Index, probability: Array
) -> Array:
    """Return the ridge leverage scores (n,) of a subset of inputs, by the sparse posterior (DTC).

    The information of all inputs is estimated from the subset, each counted 1 / probability times.
    """
    prior, noise = np.asarray(kernel.diag(Z[subset])), variance[subset]
    if len(inducing) == 0:
        return np.asarray(prior / noise)
    root = linalg.cholesky(np.asarray(kernel(Z[inducing]))).L
    z = linalg.solve_lower(root, np.asarray(kernel(Z[inducing], Z[subset])))
    V = np.eye(len(inducing)) + (z / (noise * probability)) @ z.T
    residual = prior - np.einsum("ij,ij->j", z, z)
    return np.asarray(variances(residual, z, linalg.cholesky(V).L) / noise)


def _independent(kernel: Any, Z: Array, rows: Index) -> Index:
    """Return the rows whose points do not depend on the others."""
    unit = np.sqrt(np.asarray(kernel.diag(Z[rows])))
    rows, unit = rows[unit > 0], unit[unit > 0]
    if len(rows) == 0:
        return rows
    correlation = np.asarray(kernel(Z[rows])) / np.outer(unit, unit)
    return np.sort(rows[linalg.greedy_pivots(correlation, CONFIG.dependent)])


def with_lowest_noise(data: Data, previous: SparsePosterior | None) -> Data:
    """Return data with the noise that they had in a previous posterior, where that was lower.

    A new scale may have raised every noise since; leverage scores are of the variances of then.
    """
    n = 0 if previous is None else len(previous.data)
    if previous is None or not np.array_equal(data.Z[:n], previous.data.Z):
        return data
    noise = data.variance.copy()
    noise[:n] = np.minimum(noise[:n], previous.data.variance)
    return Data(data.Z, data.Y, noise, data.levels)


def inclusion_probabilities(score: Array, group: Index) -> Array:
    """Return with which probability each of u inputs is drawn by one of its plays, shape (u,).

    Every play is drawn on its own, with probability min(1, `score`): 1 - prod_s (1 - min(1, score_s)).

    Parameters
    ----------
    score : array of shape (n,)
        q times the ridge leverage score of each play.
    group : integer array of shape (n,)
        The number of its input.
    """
    with np.errstate(divide="ignore"):  # log 0, of a play that is certain to be drawn
        excluded = np.log1p(-np.minimum(score, 1.0))
    return np.asarray(-np.expm1(np.bincount(group, excluded)))


@dataclass(frozen=True)
class TheoryOversampling:
    """The q with which the theorems hold: factor log(4 t / delta), after t plays.

    [BB] Theorem 2, on the regret, asks for 72 C log(4 t / delta), with C the bound on the ratio of
    deviations in a batch. [B] Theorem 2 asks for 6 a log(4 T / delta) / e^2, a = (1 + e) / (1 - e):
    with e = 1/2, as in `BKBWidth`, that is 72 log(4 T / delta), for the plays so far. For the size of
    the dictionary and the time alone, [BB] Theorem 1 asks for 8 log(4 t / delta).

    Parameters
    ----------
    delta : float
        Probability with which the guarantees may fail, in (0, 1]: that of the width.
    factor : float
        72 C, or 8.

    Examples
    --------
    >>> from tvbandits.gp.sparse import TheoryOversampling
    >>> print(f"{TheoryOversampling(delta=0.05)(100):.1f}")
    647.1
    """

    delta: float = 0.05
    factor: float = 72.0

    def __post_init__(self) -> None:
        finite_number("delta", self.delta, above=0.0, high=1.0)
        positive_number("factor", self.factor)

    def __call__(self, t: int) -> float:
        """Return q after `t` plays."""
        return self.factor * math.log(4 * t / self.delta)


@dataclass(frozen=True)
class Nystrom(PosteriorRule):
    """The sparse posterior, as a part of a recipe.

    Parameters
    ----------
    oversampling : float or TheoryOversampling
        q of the inclusion probabilities; 2 in the experiments of [BB].
    keep : bool
        Keep the inducing points of before while the dictionary is at most twice the size of a fresh
        draw; otherwise every draw is fresh, as in the papers' pseudo-code.
    tolerance : float
        A point whose conditional variance given the dictionary is below this share of its prior
        variance depends on it, and is left out.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Box, Nystrom, Options, policies
    >>> on_dictionary = Options(posterior=Nystrom())
    >>> bandit = policies.sw_gp_ucb(
    ...     Box([(0, 10)]), kernel=RBF(2.0), noise_variance=0.01, window=50, options=on_dictionary
    ... )
    >>> X = np.linspace(0, 10, 40)[:, None]
    >>> info = bandit.tell(X, np.sin(X[:, 0]), 1)
    >>> x = bandit.ask(2)
    >>> print(bandit.info.posterior.dictionary_size < 40)
    True
    """

    in_rows: ClassVar[bool] = True

    oversampling: float | TheoryOversampling = 2.0
    keep: bool = True
    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        if not isinstance(self.oversampling, TheoryOversampling):
            positive_number("oversampling", self.oversampling)
        as_bool("keep", self.keep)
        finite_number("tolerance", self.tolerance, low=SMALLEST_TOLERANCE, below=1.0)

    def on_dictionary(self, kernel: Any) -> bool:
        """Return whether it is no filter over time."""
        return not is_space_time(kernel)

    def condition(self, conditioning: Conditioning) -> SparsePosterior | StateSpacePosterior:
        """Condition on data, from a previous posterior where that is cheaper.

        Under a kernel space * time whose correlation in time is Markov, it is a filter, and nothing is
        drawn: its features are inducing points that leave no point more than `tolerance` of its prior
        variance, from the candidates, or else from the observations, and then computed anew for an
        observation beyond them.

        The variances of a previous `SparsePosterior` give the inclusion probabilities, the prior's
        where there is none. The generator draws the dictionary: one uniform number for each observed
        input, in order of first appearance, whenever the inputs of the observations are others than
        before; several where there are many new ones at once (`tvbandits.gp.sparse`).
        """
        kernel, data, grid, now, previous, *_ = conditioning
        data = without_negligible(kernel, data)
        conditioning = conditioning._replace(data=data)
        plain = grid is not None and not grid.space_time
        drift = None if plain else markov(kernel)
        if drift is not None:
            residual = self.tolerance if grid is None else None
            return condition_filter(conditioning, lambda: self._state(drift, data, grid), residual)
        previous = previous if isinstance(previous, SparsePosterior) else None
        groups = Groups.of(data.Z, None if previous is None else previous.groups)
        if previous is not None and np.array_equal(data.Z, previous.data.Z):
            # The same inducing points, embedding the candidates at another time.
            start = previous.dictionary
            dictionary = by_cholesky(kernel, start.data, grid=grid, now=now, previous=start)
        else:
            dictionary = self.draw(conditioning, with_lowest_noise(data, previous), groups)
        # [BB] Algorithm 1, L18.
        return assemble(conditioning, groups, dictionary, lowest=self.tolerance)

    def _state(self, drift: Term, data: Data, grid: CandidateGrid | None) -> SpaceFeatures:
        """Return the state of a filter, on the candidates or on the observed points."""
        if grid is not None:
            return SpaceFeatures.of((drift,), grid.points, self.tolerance)
        features = Features.in_order(drift.space, data.Z[:, :-1], self.tolerance)
        prior = np.full(len(features.pivots), drift.amplitude)
        return SpaceFeatures((drift,), (features,), (0,), prior)

    def draw(self, conditioning: Conditioning, plays: Data, groups: Groups) -> ExactPosterior:
        """Resparsify: draw the next dictionary, of plays and of which of them share an input."""
        rows = groups.merge(plays)
        if len(rows) == 0:
            # [BB] Algorithm 1, L2.
            return on_points(conditioning, rows.Z)
        kernel, previous, rng = conditioning.kernel, conditioning.previous, conditioning.rng
        previous = previous if isinstance(previous, SparsePosterior) else None
        rng = np.random.default_rng(0) if rng is None else rng
        q = self.oversampling
        q = q(len(plays)) if isinstance(q, TheoryOversampling) else q
        prior = np.asarray(kernel.diag(rows.Z))
        n = 0 if previous is None else previous.size
        if len(rows) - n > max(CONFIG.many, n):
            first = leverage_dictionary(kernel, rows.Z, rows.variance, q, rng)
            fresh = self._independent(kernel, rows.Z[first], np.empty((len(first), 0)))
            return on_points(conditioning, fresh)
        z, variance = np.empty((len(rows), 0)), prior
        if previous is not None:
            z = embedding(rows.Z, previous.dictionary, previous)
            variance = previous.variances_of(rows.Z, z)
        # [BB] Algorithm 1, L12 and L13: a score for each play.
        score = q * variance[groups.group] / plays.variance
        # L14: an input is drawn if one of its plays is.
        probability = inclusion_probabilities(score, groups.group)
        included = rng.random(len(rows)) < probability
        if not included.any():
            included[first_argmax(probability)] = True
        if self.keep and previous is not None:
            start = previous.dictionary
            new = self._independent(kernel, rows.Z[included], z[included])
            if start.size + len(new) <= 2 * max(float(probability.sum()), 8.0):
                grown = np.concatenate([start.rows.Z, new])
                return on_points(conditioning, grown, start)
        # L11 and L15: a dictionary of this draw, and of nothing else.
        fresh = self._independent(kernel, rows.Z[included], z[included, :0])
        return on_points(conditioning, fresh)

    def _independent(self, kernel: Any, Z: Array, z: Array) -> Array:
        """Return the points, in their order, without those that depend on others or on a dictionary.

        `z` is their embedding (n, m) by that dictionary.
        """
        prior = np.asarray(kernel.diag(Z))
        unit = np.sqrt(np.where(prior > 0, prior, 1.0))
        share = (prior - (z**2).sum(axis=1)) / unit**2
        far = np.flatnonzero(share > self.tolerance)
        Z, z, unit = Z[far], z[far], unit[far]
        if len(far) < 2:  # of one alone nothing depends
            return Z
        C = (np.asarray(kernel(Z)) - z @ z.T) / np.outer(unit, unit)
        pivots = linalg.pivoted_cholesky(share[far], lambda i: C[i], len(Z), self.tolerance).pivots
        return np.asarray(Z[np.sort(pivots)])


def markov(kernel: Any) -> Term | None:
    """Return a kernel as one term space * time whose state in time is a single number, if it is one."""
    terms = terms_of(kernel) if is_space_time(kernel) else None
    if terms is None or len(terms) > 1:
        return None
    single = terms[0].order == 1 and None not in (terms[0].space, terms[0].time)
    return terms[0] if single else None


def on_points(
    conditioning: Conditioning, Z: Array, start: ExactPosterior | None = None
) -> ExactPosterior:
    """Return the noise-free process on inducing points; its noise is what a root needs at the least."""
    kernel, grid, now = conditioning.kernel, conditioning.grid, conditioning.now
    noise = 1e-12 * np.asarray(kernel.diag(Z)) if len(Z) else np.empty(0)
    data = Data(Z, np.empty((len(Z), 0)), noise)
    return by_cholesky(kernel, data, grid=grid, now=now, previous=start)
