"""Inducing points by ridge leverage scores, for the sparse posterior.

Resparsification keeps an observed input with probability min(1, q sigma^2(x) sum 1/v), its ridge
leverage score times q, with the variances from before the new observations ([B] Alg. 1, [BB] L11-L16).

The root of a dictionary is the factor of a noise-free Gaussian process on its points, so the exact
posterior's cheap routes serve here too: a point more is a row more of the root and of the embedding,
O(m A). A dictionary may keep the points it has, since a larger span loses no accuracy; it is drawn
afresh when it has twice the size of a fresh draw.

A first dictionary for many inputs that are all there already, by leverage scores.

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
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, Index, finite_number, flag, positive_number
from tvbandits.gp.kernels.structure import is_space_time
from tvbandits.gp.kernels.terms import Term, terms_of
from tvbandits.gp.posteriors.cholesky import ExactPosterior, by_cholesky
from tvbandits.gp.posteriors.data import CandidateGrid, Data, Groups, without_negligible
from tvbandits.gp.posteriors.features import Features, SpaceFeatures
from tvbandits.gp.posteriors.protocol import Posterior
from tvbandits.gp.posteriors.sparse import NystromPosterior, assemble, embedding
from tvbandits.gp.posteriors.state_space import StateSpacePosterior, filtered

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
    return _drawn(oversampling * leverage_scores(kernel, Z, variance, inducing), uniform)


def leverage_scores(kernel: Any, Z: Array, variance: Array, inducing: Index) -> Array:
    """Approximate ridge leverage scores (u,) of all inputs, on a dictionary of some of them."""
    everything = np.arange(len(Z))
    return _scores(kernel, Z, variance, inducing, everything, np.ones(len(Z)))


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
    half = linalg.solve_lower(linalg.cholesky(V).L, z)
    beyond = np.maximum(prior - np.einsum("ij,ij->j", z, z), 0.0)
    return np.asarray((beyond + np.einsum("ij,ij->j", half, half)) / noise)


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
class Nystrom:
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
    >>> bandit = policies.sw_gp_ucb(Box([(0, 10)]), RBF(2.0), 0.01, window=50, posterior=Nystrom())
    >>> X = np.linspace(0, 10, 40)[:, None]
    >>> info = bandit.tell(X, np.sin(X[:, 0]), 1)
    >>> x = bandit.ask(2)
    >>> print(bandit.info.posterior.dictionary_size < 40)
    True
    """

    self_learning: ClassVar[bool] = False
    fixed_features: ClassVar[bool] = False
    joint_draws: ClassVar[bool] = False

    oversampling: float = 2.0
    keep: bool = True
    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        positive_number("oversampling", self.oversampling)
        flag("keep", self.keep)
        finite_number("tolerance", self.tolerance, above=0.0, below=1.0)

    def condition(
        self,
        kernel: Any,
        data: Data,
        *,
        surface: CandidateGrid | None = None,
        now: float = 0.0,
        previous: Posterior | None = None,
        rng: np.random.Generator | None = None,
        noise_variance: float = 0.0,  # noqa: ARG002 - one face for all
    ) -> NystromPosterior | StateSpacePosterior:
        """Condition on `data`, from `previous` where that is cheaper.

        Under a kernel space * time whose correlation in time is Markov, it is a filter, and nothing is
        drawn: its features are inducing points that leave no point more than `tolerance` of its prior
        variance, taken from the fixed points, or else from those observed, and then made anew for an
        observation beyond them.

        Parameters
        ----------
        surface : Surface, optional
            Fixed points that `on_surface` will answer for, at the time `now`.
        previous : NystromPosterior, optional
            A posterior of the same kernel and surface on other data: its variances give the inclusion
            probabilities, the prior's where there is none. An exact one is left aside.
        rng : numpy.random.Generator
            Draws the dictionary; one uniform number for each observed input, in order of first
            appearance, whenever the inputs of the observations are others than before; several where
            there are many new ones at once (`tvbandits.gp.posteriors.nystrom`).
        """
        data = without_negligible(kernel, data)
        plain = surface is not None and not surface.space_time
        drift = None if plain else markov(kernel)
        if drift is not None:
            grows = self.tolerance if surface is None else None
            return filtered(
                kernel,
                data,
                surface,
                now,
                previous,
                lambda: self._state(drift, data, surface),
                grows,
            )
        previous = previous if isinstance(previous, NystromPosterior) else None
        groups = Groups.of(data.Z, None if previous is None else previous.groups)
        rows, _ = groups.merge(data)
        if previous is not None and np.array_equal(data.Z, previous.data.Z):
            dictionary = _moved(previous.dictionary, surface, now)
        else:
            rng = np.random.default_rng(0) if rng is None else rng
            dictionary = self.drawn(kernel, rows, surface, now, previous, rng)
        # [BB] Algorithm 1, L17 and L18.
        return assemble(kernel, data, groups, dictionary, previous, now, lowest=self.tolerance)

    def _state(self, drift: Term, data: Data, surface: CandidateGrid | None) -> SpaceFeatures:
        """Of a filter, on the fixed points or on those observed."""
        if surface is not None:
            return SpaceFeatures.of((drift,), surface.points, self.tolerance)
        features = Features.in_order(drift.space, data.Z[:, :-1], self.tolerance)
        prior = np.full(len(features.pivots), drift.amplitude)
        return SpaceFeatures((drift,), (features,), (0,), prior)

    def drawn(
        self,
        kernel: Any,
        rows: Data,
        surface: CandidateGrid | None,
        now: float,
        previous: NystromPosterior | None,
        rng: np.random.Generator,
    ) -> ExactPosterior:
        """Resparsify: the next dictionary."""
        if len(rows) == 0:
            # [BB] Algorithm 1, L2.
            return on_points(kernel, rows.Z, surface, now, None)
        prior = np.asarray(kernel.diag(rows.Z))
        known = 0 if previous is None else previous.size
        if len(rows) - known > max(MANY, known):
            first = leverage_dictionary(kernel, rows.Z, rows.variance, self.oversampling, rng)
            fresh = self._independent(kernel, rows.Z[first], np.empty((len(first), 0)))
            return on_points(kernel, fresh, surface, now, None)
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
                return on_points(kernel, grown, surface, now, start)
        # L11 and L15: a dictionary of what was drawn, and of nothing else.
        fresh = self._independent(kernel, rows.Z[kept], z[kept, :0])
        return on_points(kernel, fresh, surface, now, None)

    def _independent(self, kernel: Any, Z: Array, z: Array) -> Array:
        """The points, in their order, without those that depend on others or on a dictionary.

        `z` is their embedding (n, m) by that dictionary.
        """
        prior = np.asarray(kernel.diag(Z))
        unit = np.sqrt(np.where(prior > 0, prior, 1.0))
        share = (prior - (z**2).sum(axis=1)) / unit**2
        far = np.flatnonzero(share > self.tolerance)
        Z, z, unit = Z[far], z[far], unit[far]
        C = (np.asarray(kernel(Z)) - z @ z.T) / np.outer(unit, unit) if len(far) else share[far]
        made = linalg.pivoted_cholesky(share[far], lambda i: C[i], len(Z), self.tolerance)
        return np.asarray(Z[np.sort(made.pivots)])


def markov(kernel: Any) -> Term | None:
    """A kernel as one term space * time whose state in time is a single number, if it is one."""
    terms = terms_of(kernel) if is_space_time(kernel) else None
    if terms is None or len(terms) > 1:
        return None
    single = terms[0].order == 1 and None not in (terms[0].space, terms[0].time)
    return terms[0] if single else None


def on_points(
    kernel: Any,
    Z: Array,
    surface: CandidateGrid | None,
    now: float,
    previous: ExactPosterior | None,
) -> ExactPosterior:
    """The noise-free process on inducing points; its noise is what a root needs at the least."""
    noise = 1e-12 * np.asarray(kernel.diag(Z)) if len(Z) else np.empty(0)
    data = Data(Z, np.empty((len(Z), 0)), noise)
    return by_cholesky(kernel, data, surface=surface, now=now, previous=previous)


def _moved(dictionary: ExactPosterior, surface: CandidateGrid | None, now: float) -> ExactPosterior:
    """The same inducing points, embedding the fixed points at another time."""
    return by_cholesky(
        dictionary.kernel, dictionary.data, surface=surface, now=now, previous=dictionary
    )
