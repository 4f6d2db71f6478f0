"""The sparse posterior on a dictionary of inducing points.

With a dictionary S and any root R R^T = K_S, the embedding is z(x) = R^-1 k_S(x), and with observations
of effective variance v_i ([B] eqs. 3-5, [BB] eqs. 1-3, in Bayesian scaling)

    V          = I + sum_i z_i z_i^T / v_i
    mu(x)      = z(x)^T V^-1 sum_i z_i y_i / v_i
    sigma^2(x) = k(x, x) - z(x)^T z(x) + z(x)^T V^-1 z(x)        (DTC)

It is the exact posterior when the dictionary spans every observed point. New weights of old observations
never touch the embedding.

Resparsification keeps an observed input as an inducing point with probability min(1, q sigma^2(x) sum
1/v), its ridge leverage score times q, with the variances from before the new observations ([B] Alg. 1,
[BB] L11-L16).

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

from tvbandits.gp import linalg
from tvbandits.gp.cholesky import ExactPosterior, by_cholesky, embed
from tvbandits.gp.features import Features, SpaceFeatures
from tvbandits.gp.kernels.structure import is_space_time
from tvbandits.gp.kernels.terms import Term, terms_of
from tvbandits.gp.posterior import (
    UNCONDITIONED,
    Conditioning,
    Expansion,
    KernelPosterior,
    Posterior,
    PosteriorRule,
)
from tvbandits.gp.rows import (
    CandidateGrid,
    Data,
    GridPosterior,
    Groups,
    without_levels,
    without_negligible,
)
from tvbandits.gp.state_space import FeatureRows, Filter, StateSpacePosterior, filtered, recall
from tvbandits.validation import Array, Index, finite_number, flag, positive_number


@dataclass(frozen=True)
class SparsePosterior(KernelPosterior):
    """A conditioned sparse Gaussian process. Made by `Nystrom.condition`.

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
        The time that `on_surface` speaks about.
    variance : array of shape (A,), optional
        At the fixed points, where there are any.
    exact : bool
        Whether the dictionary spans every observed point, by construction: nothing is approximated.
    raised : float
        The most that was added to the noise variance of a row that was too small for the dictionary.
    filter : Filter, optional
        Under a kernel that forgets: what is known at the time of the latest observation.
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

    dense: ClassVar[bool] = False

    @property
    def size(self) -> int:
        """Number of observed inputs."""
        return len(self.rows.Z)

    @property
    def dictionary_size(self) -> int | None:
        """Number of inducing points m; None where they are only a way to the exact posterior."""
        return None if self.exact else self.dictionary.size

    @property
    def jitter(self) -> float:
        """The most that the root needed on its diagonal, or a noise too small for the dictionary."""
        return max(self.dictionary.jitter, self.raised)

    def predict(self, Z: Array) -> tuple[Array, Array]:
        """Means (n, c) and variances (n,) at kernel inputs `Z` of shape (n, p)."""
        if self.filter is not None and not self._follows(Z[:, -1]):
            return self._recalled(self.filter, Z)
        z = embed(self.dictionary, Z)
        return z @ self.coefficients, self.variances_of(Z, z)

    def _follows(self, times: Array) -> bool:
        """Whether what is known of those times is what is known of now, faded by the kernel."""
        latest = self.filter is None or self.now >= self.filter.time
        return bool((times >= self.now).all() if latest else (times == self.now).all())

    def _recalled(self, known: Filter, Z: Array) -> tuple[Array, Array]:
        """`predict` about any time: the same dictionary, with its weights of then."""
        here, told = (
            np.column_stack([each[:, :-1], np.full(len(each), self.now)])
            for each in (Z, self.data.Z)
        )
        z, H = embed(self.dictionary, here), embed(self.dictionary, told)
        left = np.asarray(self.kernel.diag(here)) - np.einsum("ij,ij->i", z, z)
        noise = with_left_out(self.kernel, told, H, self.data.variance)
        rows = FeatureRows(self.data.Z[:, -1], H, self.data.Y, noise, noise, together=True)
        means, spread = recall(Filter.prior(known.model, self.data.Y.shape[1]), rows, Z[:, -1], z)
        return means, np.maximum(left, 0.0) + np.maximum(np.diagonal(spread), 0.0)

    def variances_of(self, Z: Array, z: Array) -> Array:
        """Variances (n,) at kernel inputs `Z` (n, p) whose embedding `z` (n, m) is known."""
        prior = np.asarray(self.kernel.diag(Z))
        return variances(prior - np.einsum("ij,ij->i", z, z), z.T, self.factor)

    def cross_covariance(self, Z1: Array, Z2: Array) -> Array:
        """Posterior covariance (m1, m2) between kernel inputs `Z1` and `Z2`."""
        z1, z2 = embed(self.dictionary, Z1), embed(self.dictionary, Z2)
        half1, half2 = (linalg.solve_lower(self.factor, z.T) for z in (z1, z2))
        return np.asarray(self.kernel(Z1, Z2) - z1 @ z2.T + half1.T @ half2)

    def shrunk(
        self,
        Z: Array,
        noise: float | Array,
        surface: CandidateGrid | None,  # noqa: ARG002 - one face for all
    ) -> SparsePosterior:
        """The same with more observations at inputs `Z` (k, p), their values unknown.

        Variances are those of the larger set; means stay.
        """
        factor = self.factor
        for x, own in zip(embed(self.dictionary, Z), np.full(len(Z), noise), strict=True):
            factor = linalg.rank_one_update(factor, x / np.sqrt(own))
        return replace(self, factor=factor)._with_variance()

    def continued(self, rows: Data, now: float, surface: CandidateGrid | None) -> None:
        """None: more observations take `condition`."""

    def at_points(self, surface: CandidateGrid) -> SparsePosterior:
        """The same with these fixed points, at the time of conditioning."""
        V = embed(self.dictionary, surface.at(self.now)).T
        weights, prior = self.dictionary.weights.array, surface.prior_variance(self.now)
        on = GridPosterior.of(V, weights, prior, self.now)
        return replace(self, dictionary=replace(self.dictionary, surface=on))._with_variance()

    def _with_variance(self) -> SparsePosterior:
        """With the variances at the fixed points, where there are any."""
        if self.dictionary.surface is None:
            return self
        on = self.dictionary.fixed_points
        z = np.ascontiguousarray(on.V.array)
        residual = on.prior - on.explained * on.shrink**2
        z = z if on.shrink == 1.0 else z * on.shrink
        return replace(self, variance=variances(residual, z, self.factor))

    def expansion(self, worst: float) -> Expansion | None:
        """On the dictionary of root R: with R^-T (1 - V^-1) R^-1 and R^-T V^-1 sum_i z_i y_i / v_i."""
        root = self.dictionary
        if self.size == 0 or root.size == 0 or root.condition_number > worst:
            return None
        half = linalg.solve_lower(root.factor.array, np.eye(root.size))
        less = linalg.solve_lower(self.factor, half)
        return Expansion(root.rows.Z, half.T @ half - less.T @ less, half.T @ self.coefficients)

    def effective_dimension(self) -> float:
        """Sum over observations of posterior variance over noise variance.

        The part in the span of the dictionary is tr(V^-1 (V - I)) = m - tr V^-1.
        """
        inverse = linalg.solve_lower(self.factor, np.eye(len(self.factor)))
        prior = np.asarray(self.kernel.diag(self.rows.Z)) if self.size else np.empty(0)
        beyond = np.maximum(prior - (self.embedded**2).sum(axis=1), 0.0) / self.rows.variance
        return float(beyond.sum()) + len(self.factor) - float((inverse**2).sum())

    def on_surface(self) -> tuple[Array, Array]:
        """Means (A, c) and variances (A,) at the fixed points, at the time of conditioning."""
        if self.variance is None:
            raise ValueError(UNCONDITIONED)
        return self.means_on_surface(), self.variance

    def means_on_surface(self) -> Array:
        """Means (A, c) at the fixed points."""
        on = self.dictionary.fixed_points
        return np.asarray(on.V.array.T @ (self.coefficients * on.shrink))

    def times_embedding(self, w: Array) -> Array:
        """w^T z at all fixed points, shape (A,)."""
        on = self.dictionary.fixed_points
        return np.asarray((w * on.shrink) @ on.V.array)

    def embedding_on_surface(self) -> Array:
        """Z of the fixed points, shape (A, m)."""
        on = self.dictionary.fixed_points
        return np.asarray(on.V.array.T * on.shrink)

    def samples(self, surface: CandidateGrid, count: int, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Centred draws at the fixed points, shape (count, A), in O(m A) each.

        f(x) = z(x)^T w + e(x) with w ~ N(0, V^-1), and e(x) ~ N(0, k(x, x) - z(x)^T z(x)) for each point
        on its own.
        """
        normal = rng.standard_normal((self.dictionary.size, count))
        w = linalg.solve_lower(self.factor, normal, transposed=True).T
        _, beyond = self.dictionary.on_surface()
        own = rng.standard_normal((count, len(beyond))) * np.sqrt(beyond)
        return self.times_embedding(w) + own


def with_left_out(kernel: Any, Z: Array, z: Array, variance: Array) -> Array:
    """Noise (n,) of readings at inputs `Z`: what a dictionary leaves out there, where that is more.

    A filter's dictionary drops places that count little now. What was read there is no statement about
    the rest of it, however precise: taken for one it moved means by many prior deviations.
    """
    left_out = np.asarray(kernel.diag(Z)) - np.einsum("ij,ij->i", z, z)
    return np.asarray(np.maximum(variance, left_out))


def variances(residual: Array, z: Array, factor: Array) -> Array:
    """K - z^T z, given, + z^T V^-1 z for z of shape (m, n); shape (n,)."""
    half = linalg.solve_lower(factor, z)
    return np.asarray(np.maximum(residual, 0.0) + np.einsum("ij,ij->j", half, half))


def assemble(
    given: Conditioning,
    groups: Groups,
    dictionary: ExactPosterior,
    *,
    lowest: float,
    exact: bool = False,
) -> SparsePosterior:
    """The sparse posterior of a dictionary: V, its factor and what follows from it.

    `lowest` is the share of its prior variance that a point may keep and yet depend on the dictionary.
    To such a point the model leaves its noise as the only reason for a misfit: one below that share is
    raised to it, since otherwise the misfit would count as many deviations of the noise.
    """
    rows = groups.merge(given.data)
    told = rows.variance
    if len(rows):
        raised = np.maximum(told, lowest * np.asarray(given.kernel.diag(rows.Z)))
        rows = Data(rows.Z, rows.Y, raised, rows.levels)
    embedded = embedding(rows.Z, dictionary, given.previous)
    if rows.levels is not None:  # Z' P Z with the P that is left of the precisions without levels
        embedded = without_levels(rows.levels, embedded, rows.variance)
    weighted = embedded / np.sqrt(rows.variance)[:, None]
    V = np.eye(dictionary.size) + weighted.T @ weighted  # of one array: half of the products
    made = linalg.cholesky(V, "sparse posterior's V")
    precision = 1.0 / rows.variance
    half = linalg.solve_lower(made.L, embedded.T @ (precision[:, None] * rows.Y))
    coefficients = linalg.solve_lower(made.L, half, transposed=True)
    # The smallest value of |y - Z w|^2 / v + |w|^2, which is at the coefficients: a sum of squares.
    # Y^T Y / v - half^T half is the same, but the difference of two numbers of the size of 1 / v.
    misfit = rows.Y - embedded @ coefficients
    return SparsePosterior(
        kernel=given.kernel,
        data=given.data,
        groups=groups,
        rows=rows,
        dictionary=dictionary,
        embedded=embedded,
        V=V,
        factor=made.L,
        coefficients=coefficients,
        products=(precision[:, None] * misfit).T @ misfit + coefficients.T @ coefficients,
        log_det_ratio=linalg.log_determinant(made.L),
        now=given.now,
        exact=exact,
        raised=float((rows.variance - told).max(initial=0.0)),
    )._with_variance()


def embedding(Z: Array, dictionary: ExactPosterior, previous: Posterior | None) -> Array:
    """Z of inputs (u, p) on a root; what a sparse posterior has of the first of them is continued.

    Where the root is that of before and has more rows, the columns of these are all that is new.
    """
    known = 0 if previous is None else previous.size
    if (
        not isinstance(previous, SparsePosterior)
        or not 0 < known <= len(Z)
        or previous.rows.levels is not None
        or not np.array_equal(Z[:known], previous.rows.Z)
        or not dictionary.begins_with(previous.dictionary)
    ):
        return embed(dictionary, Z)
    m, root = previous.dictionary.size, dictionary.factor.array
    z = np.empty((len(Z), dictionary.size))
    z[:known, :m], z[known:] = previous.embedded, embed(dictionary, Z[known:])
    if m < dictionary.size:
        beyond = np.asarray(dictionary.kernel(dictionary.rows.Z[m:], Z[:known]))
        beyond -= root[m:, :m] @ previous.embedded.T
        z[:known, m:] = linalg.solve_lower(np.asfortranarray(root[m:, m:]), beyond).T
    return z


# By what the noise falls from level to level, at the most.
STEP = 2.0


# A level above the last looks at an input with this many times the bound of its score.
CANDIDATES = 8.0


# Such a level looks at this many inputs for each point of the dictionary so far, and for 16 more.
CANDIDATES_EACH = 32


# Oversampling of the dictionaries on the way.
DICTIONARY = 4.0


# Points that keep less than this share of their prior variance add nothing to a dictionary.
DEPENDENT = 1e-9


def leverage_dictionary(
    kernel: Any, Z: Array, variance: Array, oversampling: float, rng: np.random.Generator
) -> Index:
    """Rows of a dictionary, each drawn with probability min(1, oversampling score_i).

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
        probability = _candidates(bound / s, len(inducing))
        seen = _drawn(probability, uniform)
        scores = _scores(kernel, Z, s * variance, inducing, seen, probability[seen])
        kept = seen[_drawn(np.minimum(probability[seen], DICTIONARY * scores), uniform[seen])]
        inducing, uniform = _independent(kernel, Z, kept), rng.random(len(Z))
    scores = _scores(kernel, Z, variance, inducing, np.arange(len(Z)), np.ones(len(Z)))
    return _drawn(oversampling * scores, uniform)


def _levels(total: float) -> Array:
    """The factors s of the noise above 1, in falling order; at the first, the scores sum up to 1."""
    steps = math.ceil(math.log(total, STEP)) if total > 1.0 else 0
    return np.asarray(total ** (np.arange(steps, 0, -1) / max(steps, 1)))


def _candidates(bound: Array, size: int) -> Array:
    """With which probability each input is looked at, on a dictionary of `size` points.

    Where so many have a large bound, as with little noise, some of them are enough.
    """
    probability = np.minimum(1.0, CANDIDATES * bound)
    enough = CANDIDATES_EACH * (size + 16)
    return probability * min(1.0, enough / float(probability.sum()))


def _drawn(probability: Array, uniform: Array) -> Index:
    """Rows drawn with these probabilities, at least one."""
    rows = np.flatnonzero(uniform < probability)
    return rows if len(rows) else np.array([probability.argmax()], dtype=np.int64)


def _scores(
    kernel: Any, Z: Array, variance: Array, inducing: Index, seen: Index, probability: Array
) -> Array:
    """Scores of the inputs seen, as the sparse posterior has them (DTC), shape (n,).

    The information of all inputs is estimated from those seen, each counted 1 / probability times.
    """
    prior, noise = np.asarray(kernel.diag(Z[seen])), variance[seen]
    if len(inducing) == 0:
        return np.asarray(prior / noise)
    root = linalg.cholesky(np.asarray(kernel(Z[inducing]))).L
    z = linalg.solve_lower(root, np.asarray(kernel(Z[inducing], Z[seen])))
    V = np.eye(len(inducing)) + (z / (noise * probability)) @ z.T
    left = prior - np.einsum("ij,ij->j", z, z)
    return np.asarray(variances(left, z, linalg.cholesky(V).L) / noise)


def _independent(kernel: Any, Z: Array, rows: Index) -> Index:
    """The rows whose points do not depend on the others."""
    unit = np.sqrt(np.asarray(kernel.diag(Z[rows])))
    rows, unit = rows[unit > 0], unit[unit > 0]
    if len(rows) == 0:
        return rows
    correlation = np.asarray(kernel(Z[rows])) / np.outer(unit, unit)
    return np.sort(rows[linalg.greedy_pivots(correlation, DEPENDENT)])


# With more new inputs at once than this, and than are known, what was known before says little
# about their leverage: it is found bottom up.
MANY = 500


@dataclass(frozen=True)
class Nystrom(PosteriorRule):
    """The sparse posterior, as a part of a recipe.

    Parameters
    ----------
    oversampling : float
        q of the inclusion probabilities; 2 in the papers' experiments, 8 log(4 t / delta) in theory.
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
    >>> from tvbandits import Box, Nystrom, policies
    >>> bandit = policies.sw_gp_ucb(
    ...     Box([(0, 10)]), kernel=RBF(2.0), noise_variance=0.01, window=50, posterior=Nystrom()
    ... )
    >>> X = np.linspace(0, 10, 40)[:, None]
    >>> info = bandit.tell(X, np.sin(X[:, 0]), 1)
    >>> x = bandit.ask(2)
    >>> print(bandit.info.posterior.dictionary_size < 40)
    True
    """

    in_rows: ClassVar[bool] = True

    oversampling: float = 2.0
    keep: bool = True
    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        positive_number("oversampling", self.oversampling)
        flag("keep", self.keep)
        finite_number("tolerance", self.tolerance, above=0.0, below=1.0)

    def on_dictionary(self, kernel: Any) -> bool:
        """Unless it is a filter over time."""
        return not is_space_time(kernel)

    def condition(self, given: Conditioning) -> SparsePosterior | StateSpacePosterior:
        """Condition on data, from a previous posterior where that is cheaper.

        Under a kernel space * time whose correlation in time is Markov, it is a filter, and nothing is
        drawn: its features are inducing points that leave no point more than `tolerance` of its prior
        variance, taken from the fixed points, or else from those observed, and then made anew for an
        observation beyond them.

        The variances of a previous `SparsePosterior` give the inclusion probabilities, the prior's
        where there is none. The generator draws the dictionary: one uniform number for each observed
        input, in order of first appearance, whenever the inputs of the observations are others than
        before; several where there are many new ones at once (`tvbandits.gp.sparse`).
        """
        kernel, data, surface, now, previous, *_ = given
        data = without_negligible(kernel, data)
        given = given._replace(data=data)
        plain = surface is not None and not surface.space_time
        drift = None if plain else markov(kernel)
        if drift is not None:
            grows = self.tolerance if surface is None else None
            return filtered(given, lambda: self._state(drift, data, surface), grows)
        previous = previous if isinstance(previous, SparsePosterior) else None
        groups = Groups.of(data.Z, None if previous is None else previous.groups)
        rows = groups.merge(data)
        if previous is not None and np.array_equal(data.Z, previous.data.Z):
            # The same inducing points, embedding the fixed points at another time.
            known = previous.dictionary
            dictionary = by_cholesky(kernel, known.data, surface=surface, now=now, previous=known)
        else:
            dictionary = self.drawn(given, rows)
        # [BB] Algorithm 1, L17 and L18.
        return assemble(given, groups, dictionary, lowest=self.tolerance)

    def _state(self, drift: Term, data: Data, surface: CandidateGrid | None) -> SpaceFeatures:
        """Of a filter, on the fixed points or on those observed."""
        if surface is not None:
            return SpaceFeatures.of((drift,), surface.points, self.tolerance)
        features = Features.in_order(drift.space, data.Z[:, :-1], self.tolerance)
        prior = np.full(len(features.pivots), drift.amplitude)
        return SpaceFeatures((drift,), (features,), (0,), prior)

    def drawn(self, given: Conditioning, rows: Data) -> ExactPosterior:
        """Resparsify: the next dictionary, of rows that are merged."""
        if len(rows) == 0:
            # [BB] Algorithm 1, L2.
            return on_points(given, rows.Z)
        kernel, previous = given.kernel, given.previous
        previous = previous if isinstance(previous, SparsePosterior) else None
        rng = np.random.default_rng(0) if given.rng is None else given.rng
        prior = np.asarray(kernel.diag(rows.Z))
        known = 0 if previous is None else previous.size
        if len(rows) - known > max(MANY, known):
            first = leverage_dictionary(kernel, rows.Z, rows.variance, self.oversampling, rng)
            fresh = self._independent(kernel, rows.Z[first], np.empty((len(first), 0)))
            return on_points(given, fresh)
        z, variance = np.empty((len(rows), 0)), prior
        if previous is not None:
            z = embedding(rows.Z, previous.dictionary, previous)
            variance = previous.variances_of(rows.Z, z)
        # A new scale may have raised every noise since those variances: scores go by the lower noise.
        noise = rows.variance.copy()
        if previous is not None and np.array_equal(rows.Z[:known], previous.rows.Z):
            noise[:known] = np.minimum(noise[:known], previous.rows.variance)
        # [BB] Algorithm 1, L13, for each distinct input of L12.
        probability = np.minimum(1.0, self.oversampling * variance / noise)
        # L14.
        kept = rng.random(len(rows)) < probability
        if not kept.any():
            kept[probability.argmax()] = True
        if self.keep and previous is not None:
            start = previous.dictionary
            new = self._independent(kernel, rows.Z[kept], z[kept])
            if start.size + len(new) <= 2 * max(float(probability.sum()), 8.0):
                grown = np.concatenate([start.rows.Z, new])
                return on_points(given, grown, start)
        # L11 and L15: a dictionary of what was drawn, and of nothing else.
        fresh = self._independent(kernel, rows.Z[kept], z[kept, :0])
        return on_points(given, fresh)

    def _independent(self, kernel: Any, Z: Array, z: Array) -> Array:
        """The points, in their order, without those that depend on others or on a dictionary.

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
        made = linalg.pivoted_cholesky(share[far], lambda i: C[i], len(Z), self.tolerance)
        return np.asarray(Z[np.sort(made.pivots)])


def markov(kernel: Any) -> Term | None:
    """A kernel as one term space * time whose state in time is a single number, if it is one."""
    terms = terms_of(kernel) if is_space_time(kernel) else None
    if terms is None or len(terms) > 1:
        return None
    single = terms[0].order == 1 and None not in (terms[0].space, terms[0].time)
    return terms[0] if single else None


def on_points(given: Conditioning, Z: Array, start: ExactPosterior | None = None) -> ExactPosterior:
    """The noise-free process on inducing points; its noise is what a root needs at the least."""
    noise = 1e-12 * np.asarray(given.kernel.diag(Z)) if len(Z) else np.empty(0)
    data = Data(Z, np.empty((len(Z), 0)), noise)
    return by_cholesky(given.kernel, data, surface=given.surface, now=given.now, previous=start)
