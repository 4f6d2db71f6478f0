"""Compute the sparse posterior on a dictionary of inducing points.

With a dictionary S and any root R R^T = K_S, the embedding is z(x) = R^-1 k_S(x). For observations with
effective noise variances v_i ([B] eqs. 3-5, [BB] eqs. 1-3, in Bayesian scaling)

    V          = I + sum_i z_i z_i^T / v_i
    mu(x)      = z(x)^T V^-1 sum_i z_i y_i / v_i
    sigma^2(x) = k(x, x) - z(x)^T z(x) + z(x)^T V^-1 z(x)        (DTC)

It is the exact posterior when the dictionary spans every observed point. New noise variances of old
observations do not change the embedding.

Resparsification includes the point of each past play s in the dictionary with probability
min(1, q sigma^2(x_s) / v_s): q times its ridge leverage score, with the variances from before the new
observations ([B] Alg. 1, [BB] L11-L16). A point that was played repeatedly is included if any of its
plays is drawn, so with probability 1 - prod_s (1 - min(1, q sigma^2 / v_s)). It is sampled with one
uniform number for each point.

The root of a dictionary is the factor of a noise-free Gaussian process on its points, so the cheap
routes of the exact posterior apply: one more point adds a row to the root and to the embedding, O(m A).
A dictionary may keep its points, since a larger span loses no accuracy; it is sampled anew when it is
twice as large as a new sample.

A bandit that starts with existing data has no posterior yet from which to compute ridge leverage scores.
They are then computed bottom up, as in BLESS (Rudi, Calandriello, Carratino and Rosasco 2018): with
noise variances s v for a large s, posterior variances are nearly those of the prior and few points
matter. A dictionary for s gives approximate scores for s / 2, and so on down to s = 1. Until then only
a random subset of the inputs is evaluated, sampled in proportion to a bound of their scores:

    score_i(s) = variance_s(x_i) / (s v_i) <= k(x_i, x_i) / (s v_i).

Rudi et al. assume one noise variance for all inputs; here each input has its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from tvbandits.data import append_times
from tvbandits.gp import linalg
from tvbandits.gp.cholesky import ExactPosterior, condition_by_cholesky, embed
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
    drop_negligible,
    expand_posterior,
    no_grid_error,
    subtract_level_means,
)
from tvbandits.gp.state_space import (
    FeatureRows,
    Filter,
    StateSpacePosterior,
    condition_filter,
    smooth_values,
)
from tvbandits.gp.top_candidates import CandidateScorer
from tvbandits.ties import first_argmax
from tvbandits.validation import Array, Index, as_bool, finite_number, positive_number


@dataclass(frozen=True)
class SparsePosterior:
    """A sparse posterior on a dictionary, as `Nystrom.condition` returns it.

    Attributes
    ----------
    kernel : scikit-learn kernel
    data : Data
        The observations.
    groups : Groups
        The observations grouped by input.
    rows : Data
        The u rows of `data` with observations of one input merged.
    dictionary : ExactPosterior
        A noise-free process on the m inducing points, whose factor is the root R.
    embedded : array of shape (u, m)
        The embedding z of the rows.
    V : array of shape (m, m)
        The precision of the weights w in f = z^T w.
    factor : array of shape (m, m)
        Lower factor of V.
    coefficients : array of shape (m, c)
        V^-1 sum_i z_i y_i / v_i.
    products : array of shape (c, c)
        Y^T (Q + Sigma)^-1 Y of the value columns of the rows, with Q = Z Z^T.
    log_det_ratio : float
        log det V: twice the information gain of the embedded observations.
    now : float
        The time of predictions at the candidates.
    variance : array of shape (A,), optional
        Posterior variances at the candidates; None without candidates.
    exact : bool
        Whether the dictionary spans every observed point by construction, so that it is exact.
    raised : float
        The largest variance that was added to a noise variance below the tolerance of the dictionary.
    filter : Filter, optional
        Under a kernel that forgets, the weights w at the time of the latest observation.
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
        """Return the number of distinct observed inputs."""
        return len(self.rows.Z)

    @property
    def summary(self) -> PosteriorSummary:
        """Return descriptive values; the jitter is that of the root or `raised`, if that is larger."""
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
        """Return the sum of posterior variance over noise variance of the observations.

        The part in the span of the dictionary is tr(V^-1 (V - I)) = m - tr V^-1.
        """
        inverse = linalg.solve_lower(self.factor, np.eye(len(self.factor)))
        prior = np.asarray(self.kernel.diag(self.rows.Z)) if self.size else np.empty(0)
        residual = np.maximum(prior - (self.embedded**2).sum(axis=1), 0.0) / self.rows.variance
        return float(residual.sum()) + len(self.factor) - float((inverse**2).sum())

    def predict(self, Z: Array | CandidateGrid) -> tuple[Array, Array]:
        """Return means (n, c) and variances (n,) at kernel inputs (n, p), or at candidates."""
        if isinstance(Z, CandidateGrid):
            if self.variance is None:
                raise no_grid_error()
            on_grid = self.dictionary.grid_posterior
            means = on_grid.embedding.array.T @ (self.coefficients * on_grid.shrink)
            return np.asarray(means), self.variance
        if self.filter is not None and not self._applies_at(Z[:, -1]):
            return self._predict_by_smoothing(self.filter, Z)
        z = embed(self.dictionary, Z)
        return z @ self.coefficients, self.variances_of(Z, z)

    def _applies_at(self, times: Array) -> bool:
        """Return whether the coefficients of `now` and the kernel give the posterior at these times.

        They do for later times if there is no observation after `now`, else for `now` only.
        """
        latest = self.filter is None or self.now >= self.filter.time
        return bool((times >= self.now).all() if latest else (times == self.now).all())

    def _predict_by_smoothing(self, latest: Filter, Z: Array) -> tuple[Array, Array]:
        """Return `predict` for inputs of any times, by smoothing the weights of the dictionary."""
        inputs, observed = (append_times(rows[:, :-1], self.now) for rows in (Z, self.data.Z))
        z, H = embed(self.dictionary, inputs), embed(self.dictionary, observed)
        residual = np.asarray(self.kernel.diag(inputs)) - np.einsum("ij,ij->i", z, z)
        noise = raise_noise_to_residual(self.kernel, observed, H, self.data.variance)
        rows = FeatureRows(self.data.Z[:, -1], H, self.data.Y, noise, noise, joint=True)
        prior = Filter.prior(latest.model, self.data.Y.shape[1])
        means, spread = smooth_values(prior, rows, Z[:, -1], z)
        return means, np.maximum(residual, 0.0) + np.maximum(np.diagonal(spread), 0.0)

    def variances_of(self, Z: Array, z: Array) -> Array:
        """Return variances (n,) at kernel inputs `Z` (n, p) with the embedding `z` (n, m)."""
        prior = np.asarray(self.kernel.diag(Z))
        return variances(prior - np.einsum("ij,ij->i", z, z), z.T, self.factor)

    def covariance(self, Z1: Array, Z2: Array | CandidateGrid) -> Array:
        """Return the posterior covariance (n1, n2) of inputs (n1, p) and (n2, p), or candidates."""
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
        grid: CandidateGrid | None,  # noqa: ARG002 - part of the protocol
    ) -> SparsePosterior:
        """Return the posterior given observations whose values are unknown; means do not change."""
        factor = self.factor
        for z, variance in zip(embed(self.dictionary, Z), np.full(len(Z), noise), strict=True):
            factor = linalg.rank_one_update(factor, z / np.sqrt(variance))
        return replace(self, factor=factor)._add_grid_variance()

    def update(self, rows: Data, now: float, grid: CandidateGrid | None) -> None:
        """Return None, because more observations need another dictionary."""

    def add_candidates(self, grid: CandidateGrid) -> SparsePosterior:
        """Return the posterior with its moments at these candidates, at the time of conditioning."""
        z = embed(self.dictionary, grid.at(self.now)).T
        weights, prior = self.dictionary.weights.array, grid.prior_variance(self.now)
        on_grid = GridPosterior.of(z, weights, prior, self.now)
        dictionary = replace(self.dictionary, on_grid=on_grid)
        return replace(self, dictionary=dictionary)._add_grid_variance()

    def _add_grid_variance(self) -> SparsePosterior:
        """Return the posterior with its variances at the candidates, if there are any."""
        on_grid = self.dictionary.on_grid
        if on_grid is None:
            return self
        z = np.ascontiguousarray(on_grid.embedding.array)
        residual = on_grid.prior - on_grid.explained * on_grid.shrink**2
        z = z if on_grid.shrink == 1.0 else z * on_grid.shrink
        return replace(self, variance=variances(residual, z, self.factor))

    def combine_on_grid(self, weights: Array) -> Array:
        """Return weights (count, m) times the embedding of all candidates, (count, A)."""
        on_grid = self.dictionary.grid_posterior
        return np.asarray((weights * on_grid.shrink) @ on_grid.embedding.array)

    def whiten_on_grid(self, rows: Index) -> Array:
        """Return L^-1 z of candidates, shape (m, n), with L the factor of V.

        Products of its columns are posterior covariances in the span of the dictionary.
        """
        on_grid = self.dictionary.grid_posterior
        return linalg.solve_lower(self.factor, on_grid.embedding.array[:, rows] * on_grid.shrink)

    def make_scorer(self, columns: Array, mean: float) -> CandidateScorer:
        """Return a scorer of points at the time of conditioning.

        Its mean is the means of the value columns times `columns` (c,), plus `mean`.
        """
        kernel, Z = self.kernel, self.dictionary.rows.Z
        term = markov_term(kernel)
        if term is not None:  # the factor over time is 1 between inputs of one time
            kernel, Z = term.at_one_time, Z[:, :-1]
        return CandidateScorer(
            kernel, Z, self.dictionary.lower, self.factor, self.V, self.coefficients @ columns, mean
        )

    def sample(self, grid: CandidateGrid, count: int, rng: np.random.Generator) -> Array:
        """Return centred samples (count, A) at the candidates, in O(m A) each.

        f(x) = z(x)^T w + e(x) with w ~ N(0, V^-1), and e(x) ~ N(0, k(x, x) - z(x)^T z(x)) independently
        for each candidate.
        """
        normal = rng.standard_normal((self.dictionary.size, count))
        w = linalg.solve_lower(self.factor, normal, transposed=True).T
        _, residual = self.dictionary.predict(grid)
        e = rng.standard_normal((count, len(residual))) * np.sqrt(residual)
        return self.combine_on_grid(w) + e


@dictionary_data.register
def _(posterior: SparsePosterior) -> Data | None:
    """Return the data; None for a filter over time and for readings that share levels."""
    plain = posterior.filter is None and posterior.data.levels is None
    return posterior.data if plain else None


@expand_posterior.register
def _(posterior: SparsePosterior, largest_condition: float) -> Expansion | None:
    """Return the expansion on the dictionary, whose root is R.

    Its matrix is R^-T (1 - V^-1) R^-1, its weights are R^-T V^-1 sum_i z_i y_i / v_i.
    """
    root = posterior.dictionary
    if posterior.size == 0 or root.size == 0 or root.condition_number > largest_condition:
        return None
    half = linalg.solve_lower(root.factor.array, np.eye(root.size))
    posterior_half = linalg.solve_lower(posterior.factor, half)
    reduction = half.T @ half - posterior_half.T @ posterior_half
    weights = half.T @ posterior.coefficients
    return Expansion(posterior.kernel, root.rows.Z, reduction, weights)


def raise_noise_to_residual(kernel: Any, Z: Array, z: Array, variance: Array) -> Array:
    """Return noise variances (n,), raised to the variance that the dictionary leaves out of each input.

    A filter's dictionary drops places whose readings are too old to matter. Even a precise reading of
    such a place says little about the inducing points; without the raised noise it moved their means by
    many prior deviations.

    Parameters
    ----------
    kernel : scikit-learn kernel
    Z : array of shape (n, p)
        Inputs of the readings.
    z : array of shape (n, m)
        Their embedding.
    variance : array of shape (n,)
        Their noise variances.
    """
    residual = np.asarray(kernel.diag(Z)) - np.einsum("ij,ij->i", z, z)
    return np.asarray(np.maximum(variance, residual))


def variances(residual: Array, z: Array, factor: Array) -> Array:
    """Return residual variances (n,) plus z^T V^-1 z, for z of shape (m, n) and the factor of V."""
    return np.asarray(np.maximum(residual, 0.0) + linalg.quadratic_forms(factor, z))


def assemble(
    conditioning: Conditioning,
    groups: Groups,
    dictionary: ExactPosterior,
    *,
    lowest: float,
    exact: bool = False,
) -> SparsePosterior:
    """Return the sparse posterior on a dictionary.

    `lowest` is the fraction of its prior variance that the dictionary may leave out of a point without
    the point being added to it. The model explains a misfit at such a point by its noise only. A noise
    variance below that fraction is raised to it, so that a misfit of that size is not taken for many
    deviations of the noise.
    """
    kernel = conditioning.kernel
    rows = groups.merge(conditioning.data)
    variance = rows.variance
    if len(rows):
        raised = np.maximum(variance, lowest * np.asarray(kernel.diag(rows.Z)))
        rows = Data(rows.Z, rows.Y, raised, rows.levels)
    embedded = extend_embedding(rows.Z, dictionary, conditioning.previous)
    if rows.levels is not None:  # this gives V and the coefficients of readings minus their levels
        embedded = subtract_level_means(rows.levels, embedded, rows.variance)
    weighted = embedded / np.sqrt(rows.variance)[:, None]
    V = np.eye(dictionary.size) + weighted.T @ weighted  # BLAS computes A^T A at half the cost
    factor = linalg.cholesky(V, "sparse posterior's V").L
    precision = 1.0 / rows.variance
    half = linalg.solve_lower(factor, embedded.T @ (precision[:, None] * rows.Y))
    coefficients = linalg.solve_lower(factor, half, transposed=True)
    # The products are the minimum over w of |y - Z w|^2 / v + |w|^2, here as a sum of squares. The equal
    # form Y^T Y / v - half^T half is a difference of two numbers of size 1 / v and loses digits.
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
    )._add_grid_variance()


def extend_embedding(Z: Array, dictionary: ExactPosterior, previous: Posterior | None) -> Array:
    """Return the embedding of inputs (u, p), reusing that of a previous posterior for its inputs.

    If the new root only has more rows than the previous one, only their columns are computed.
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
        cross = np.asarray(dictionary.kernel(dictionary.rows.Z[m:], Z[:n]))
        cross -= root[m:, :m] @ previous.embedded.T
        z[:n, m:] = linalg.solve_lower(np.asfortranarray(root[m:, m:]), cross).T
    return z


@dataclass(frozen=True)
class LeverageConfig:
    """Constants of the sampling of a dictionary for data without a posterior, as in BLESS.

    Attributes
    ----------
    step : float
        The largest factor between the noise levels of successive steps.
    candidates : float
        Before the last step, an input is evaluated with this many times the bound of its score as the
        probability.
    candidates_each : int
        Such a step evaluates at most this many inputs for each point of the dictionary so far.
    candidates_beyond : int
        The number of points that are added to the size of the dictionary in that limit.
    oversampling : float
        The oversampling q of the dictionaries before the last.
    dependent : float
        A point that keeps less than this fraction of its prior variance is left out of a dictionary.
    many : int
        With more new inputs than this, and more than there were before, the previous posterior says
        little about their leverage, and the dictionary is sampled for all inputs as in BLESS.
    """

    step: float = 2.0
    candidates: float = 8.0
    candidates_each: int = 32
    candidates_beyond: int = 16
    oversampling: float = 4.0
    dependent: float = 1e-9
    many: int = 500


CONFIG = LeverageConfig()

# A smaller fraction of a prior variance is lost to rounding.
SMALLEST_TOLERANCE = 1e-15


def leverage_dictionary(
    kernel: Any, Z: Array, variance: Array, oversampling: float, rng: np.random.Generator
) -> Index:
    """Sample the rows of a dictionary, each with probability min(1, oversampling score_i).

    It takes O(u m^2) for u inputs and a dictionary of m points, without any u x u matrix.

    Parameters
    ----------
    kernel : scikit-learn kernel
    Z : array of shape (u, p)
        Kernel inputs.
    variance : array of shape (u,)
        Noise variances of the inputs; 1 / sum(1 / v) for an input that was observed repeatedly.
    oversampling : float
        The factor q on the scores.
    rng : numpy.random.Generator
        Draws one uniform number for each input and step.

    Returns
    -------
    rows : integer array of shape (m,)
        Row numbers in rising order, at least one if there is an input. The points may be dependent.
    """
    if len(Z) == 0:
        return np.empty(0, dtype=np.int64)
    bound = np.asarray(kernel.diag(Z)) / variance
    inducing, uniform = np.empty(0, dtype=np.int64), rng.random(len(Z))
    for s in _noise_factors(float(bound.sum())):
        probability = _subset_probabilities(bound / s, len(inducing))
        subset = _sample_rows(probability, uniform)
        scores = leverage_scores(kernel, Z, s * variance, inducing, subset, probability[subset])
        inclusion = np.minimum(probability[subset], CONFIG.oversampling * scores)
        rows = subset[_sample_rows(inclusion, uniform[subset])]
        inducing, uniform = _drop_dependent_rows(kernel, Z, rows), rng.random(len(Z))
    everything, certain = np.arange(len(Z)), np.ones(len(Z))
    scores = leverage_scores(kernel, Z, variance, inducing, everything, certain)
    return _sample_rows(oversampling * scores, uniform)


def _noise_factors(total: float) -> Array:
    """Return the falling factors s > 1 on the noise; at the first, the bounds of the scores sum to 1."""
    steps = math.ceil(math.log(total, CONFIG.step)) if total > 1.0 else 0
    return np.asarray(total ** (np.arange(steps, 0, -1) / max(steps, 1)))


def _subset_probabilities(bound: Array, size: int) -> Array:
    """Return the probabilities with which inputs are evaluated on a dictionary of `size` points.

    If many inputs have large bounds, as with little noise, the probabilities are scaled down, because
    a limited number of inputs suffices.
    """
    probability = np.minimum(1.0, CONFIG.candidates * bound)
    most = CONFIG.candidates_each * (size + CONFIG.candidates_beyond)
    return probability * min(1.0, most / float(probability.sum()))


def _sample_rows(probability: Array, uniform: Array) -> Index:
    """Sample rows with these probabilities, at least one row."""
    rows = np.flatnonzero(uniform < probability)
    return rows if len(rows) else np.array([first_argmax(probability)], dtype=np.int64)


def leverage_scores(
    kernel: Any, Z: Array, variance: Array, inducing: Index, subset: Index, probability: Array
) -> Array:
    """Return the ridge leverage scores (n,) of a subset of inputs under the sparse posterior (DTC).

    The information of all inputs is estimated from the subset, in which each input has the weight
    1 / probability.
    """
    prior, noise = np.asarray(kernel.diag(Z[subset])), variance[subset]
    if len(inducing) == 0:
        return np.asarray(prior / noise)
    root = linalg.cholesky(np.asarray(kernel(Z[inducing]))).L
    z = linalg.solve_lower(root, np.asarray(kernel(Z[inducing], Z[subset])))
    V = np.eye(len(inducing)) + (z / (noise * probability)) @ z.T
    residual = prior - np.einsum("ij,ij->j", z, z)
    return np.asarray(variances(residual, z, linalg.cholesky(V).L) / noise)


def _drop_dependent_rows(kernel: Any, Z: Array, rows: Index) -> Index:
    """Return the rows without those whose points depend on the others."""
    scale = np.sqrt(np.asarray(kernel.diag(Z[rows])))
    rows, scale = rows[scale > 0], scale[scale > 0]
    if len(rows) == 0:
        return rows
    correlation = np.asarray(kernel(Z[rows])) / np.outer(scale, scale)
    return np.sort(rows[linalg.greedy_pivots(correlation, CONFIG.dependent)])


def restore_lower_noise(data: Data, previous: SparsePosterior | None) -> Data:
    """Return the data with the noise variances of a previous posterior where those were lower.

    A new scale may have raised all noise variances since then, but the variances in the leverage scores
    are those of the previous posterior.
    """
    n = 0 if previous is None else len(previous.data)
    if previous is None or not np.array_equal(data.Z[:n], previous.data.Z):
        return data
    noise = data.variance.copy()
    noise[:n] = np.minimum(noise[:n], previous.data.variance)
    return Data(data.Z, data.Y, noise, data.levels)


def inclusion_probabilities(score: Array, group: Index) -> Array:
    """Return the probability (u,) that at least one play of each input is drawn.

    Plays are drawn independently, each with probability min(1, score_s), so that the probability of an
    input is 1 - prod_s (1 - min(1, score_s)).

    Parameters
    ----------
    score : array of shape (n,)
        q times the ridge leverage score of each play.
    group : integer array of shape (n,)
        The number of each play's input.
    """
    with np.errstate(divide="ignore"):  # log 0, for a play that is certain to be drawn
        log_excluded = np.log1p(-np.minimum(score, 1.0))
    return np.asarray(-np.expm1(np.bincount(group, log_excluded)))


@dataclass(frozen=True)
class TheoryOversampling:
    """The oversampling q for which the theorems are proven: factor log(4 t / delta), after t plays.

    [BB] Theorem 2, on the regret, requires 72 C log(4 t / delta), with C the bound on the ratio of
    deviations in a batch. [B] Theorem 2 requires 6 a log(4 T / delta) / e^2, a = (1 + e) / (1 - e); with
    e = 1/2, as in `BKBWidth`, that is 72 log(4 T / delta). [BB] Theorem 1, on the size of the dictionary
    and the run time only, requires 8 log(4 t / delta).

    Parameters
    ----------
    delta : float
        Probability with which the guarantees may fail, in (0, 1]; the same as that of the width.
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
    """A posterior rule that computes the sparse posterior on a sampled dictionary.

    Parameters
    ----------
    oversampling : float or TheoryOversampling
        The factor q in the inclusion probabilities; 2 in the experiments of [BB].
    keep : bool
        Keep the previous inducing points as long as the dictionary is at most twice as large as a new
        sample. If False, every dictionary is sampled anew, as in the papers' pseudo-code.
    tolerance : float
        A point whose conditional variance given the dictionary is below this fraction of its prior
        variance depends on the dictionary, and is not added to it.

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

    needs_all_rows: ClassVar[bool] = True

    oversampling: float | TheoryOversampling = 2.0
    keep: bool = True
    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        if not isinstance(self.oversampling, TheoryOversampling):
            positive_number("oversampling", self.oversampling)
        as_bool("keep", self.keep)
        finite_number("tolerance", self.tolerance, low=SMALLEST_TOLERANCE, below=1.0)

    def on_dictionary(self, kernel: Any) -> bool:
        """Return True, unless the kernel is a space-time kernel, under which it may be a filter."""
        return not is_space_time(kernel)

    def condition(self, conditioning: Conditioning) -> SparsePosterior | StateSpacePosterior:
        """Return the posterior given the data, computed from the previous one if that is cheaper.

        Under a kernel space * time whose correlation in time is Markov, the posterior is a filter, and
        no dictionary is sampled: its features are inducing points that leave no point more than
        `tolerance` of its prior variance. They are chosen among the candidates; without candidates among
        the observed points, and then again when an observation is not spanned.

        Inclusion probabilities come from the variances of a previous `SparsePosterior`, or else from
        those of the prior. Whenever the observed inputs have changed, the generator samples the
        dictionary with one uniform number for each input, in order of first appearance; with several if
        there are many new inputs (`tvbandits.gp.sparse`).
        """
        kernel, data, grid, now, previous, *_ = conditioning
        data = drop_negligible(kernel, data)
        conditioning = conditioning._replace(data=data)
        plain = grid is not None and not grid.space_time
        drift = None if plain else markov_term(kernel)
        if drift is not None:
            residual = self.tolerance if grid is None else None
            return condition_filter(conditioning, lambda: self._state(drift, data, grid), residual)
        previous = previous if isinstance(previous, SparsePosterior) else None
        groups = Groups.of(data.Z, None if previous is None else previous.groups)
        if previous is not None and np.array_equal(data.Z, previous.data.Z):
            # The inducing points stay; the candidates may be embedded for another time.
            start = previous.dictionary
            dictionary = condition_by_cholesky(
                kernel, start.data, grid=grid, now=now, previous=start
            )
        else:
            dictionary = self.draw(conditioning, restore_lower_noise(data, previous), groups)
        # [BB] Algorithm 1, L18.
        return assemble(conditioning, groups, dictionary, lowest=self.tolerance)

    def _state(self, drift: Term, data: Data, grid: CandidateGrid | None) -> SpaceFeatures:
        """Return the state of a filter, with features on the candidates or the observed points."""
        if grid is not None:
            return SpaceFeatures.of((drift,), grid.points, self.tolerance)
        features = Features.in_order(drift.space, data.Z[:, :-1], self.tolerance)
        prior = np.full(len(features.pivots), drift.amplitude)
        return SpaceFeatures((drift,), (features,), (0,), prior)

    def draw(self, conditioning: Conditioning, plays: Data, groups: Groups) -> ExactPosterior:
        """Sample the next dictionary from the plays, which `groups` groups by input."""
        rows = groups.merge(plays)
        if len(rows) == 0:
            # [BB] Algorithm 1, L2.
            return make_dictionary(conditioning, rows.Z)
        kernel, previous, rng = conditioning.kernel, conditioning.previous, conditioning.rng
        previous = previous if isinstance(previous, SparsePosterior) else None
        rng = np.random.default_rng(0) if rng is None else rng
        q = self.oversampling
        q = q(len(plays)) if isinstance(q, TheoryOversampling) else q
        prior = np.asarray(kernel.diag(rows.Z))
        n = 0 if previous is None else previous.size
        if len(rows) - n > max(CONFIG.many, n):
            first = leverage_dictionary(kernel, rows.Z, rows.variance, q, rng)
            points = self._drop_dependent(kernel, rows.Z[first], np.empty((len(first), 0)))
            return make_dictionary(conditioning, points)
        z, variance = np.empty((len(rows), 0)), prior
        if previous is not None:
            z = extend_embedding(rows.Z, previous.dictionary, previous)
            variance = previous.variances_of(rows.Z, z)
        # [BB] Algorithm 1, L12 and L13: the score of each play.
        score = q * variance[groups.group] / plays.variance
        # L14: an input is included if one of its plays is drawn.
        probability = inclusion_probabilities(score, groups.group)
        included = rng.random(len(rows)) < probability
        if not included.any():
            included[first_argmax(probability)] = True
        if self.keep and previous is not None:
            start = previous.dictionary
            new = self._drop_dependent(kernel, rows.Z[included], z[included])
            if start.size + len(new) <= 2 * max(float(probability.sum()), 8.0):
                points = np.concatenate([start.rows.Z, new])
                return make_dictionary(conditioning, points, start)
        # L11 and L15: the dictionary consists of the points of this sample only.
        points = self._drop_dependent(kernel, rows.Z[included], z[included, :0])
        return make_dictionary(conditioning, points)

    def _drop_dependent(self, kernel: Any, Z: Array, z: Array) -> Array:
        """Return the points, in their order, without those that depend on others or on a dictionary.

        `z` is the embedding (n, m) of the points by that dictionary.
        """
        prior = np.asarray(kernel.diag(Z))
        scale = np.sqrt(np.where(prior > 0, prior, 1.0))
        residual = (prior - (z**2).sum(axis=1)) / scale**2
        rows = np.flatnonzero(residual > self.tolerance)
        Z, z, scale = Z[rows], z[rows], scale[rows]
        if len(rows) < 2:  # a single point cannot depend on others
            return Z
        C = (np.asarray(kernel(Z)) - z @ z.T) / np.outer(scale, scale)
        pivots = linalg.pivoted_cholesky(
            residual[rows], lambda i: C[i], len(Z), self.tolerance
        ).pivots
        return np.asarray(Z[np.sort(pivots)])


def markov_term(kernel: Any) -> Term | None:
    """Return the kernel as one term space * time that is Markov in time; None if it is not of this form.

    The state in time of such a term is a single number.
    """
    terms = terms_of(kernel) if is_space_time(kernel) else None
    if terms is None or len(terms) > 1:
        return None
    single = terms[0].order == 1 and None not in (terms[0].space, terms[0].time)
    return terms[0] if single else None


def make_dictionary(
    conditioning: Conditioning, Z: Array, start: ExactPosterior | None = None
) -> ExactPosterior:
    """Return the process on inducing points, with only as much noise as the root needs."""
    kernel, grid, now = conditioning.kernel, conditioning.grid, conditioning.now
    noise = 1e-12 * np.asarray(kernel.diag(Z)) if len(Z) else np.empty(0)
    data = Data(Z, np.empty((len(Z), 0)), noise)
    return condition_by_cholesky(kernel, data, grid=grid, now=now, previous=start)
