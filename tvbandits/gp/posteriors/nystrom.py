"""Inducing points by ridge leverage scores, for the sparse posterior.

Resparsification keeps an observed input with probability min(1, q sigma^2(x) sum 1/v), its ridge
leverage score times q, with the variances from before the new observations ([B] Alg. 1, [BB] L11-L16).

The root of a dictionary is the factor of a noise-free Gaussian process on its points, so the exact
posterior's cheap routes serve here too: a point more is a row more of the root and of the embedding,
O(m A). A dictionary may keep the points it has, since a larger span loses no accuracy; it is drawn
afresh when it has twice the size of a fresh draw.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvbandits.core import linalg
from tvbandits.core.arrays import Array, finite_number, flag, positive_number
from tvbandits.gp.fitting.leverage_scores import leverage_dictionary
from tvbandits.gp.kernels.structure import is_space_time, separate
from tvbandits.gp.posteriors.candidate_cache import Surface
from tvbandits.gp.posteriors.cholesky import ExactPosterior, Factored, embed
from tvbandits.gp.posteriors.data import Data, Groups, without_negligible
from tvbandits.gp.posteriors.drifting import DriftPosterior
from tvbandits.gp.posteriors.protocol import Posterior
from tvbandits.gp.posteriors.sparse import NystromPosterior, assemble

AT_ONCE = 32
"""Of more new observations than this, only the last one's effect on the fixed points is computed."""


MANY = 500
"""With more new inputs at once than this, and than are known, what was known before says little about
their leverage: it is found bottom up."""


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
        surface: Surface | None = None,
        now: float = 0.0,
        previous: Posterior | None = None,
        rng: np.random.Generator | None = None,
    ) -> NystromPosterior | DriftPosterior:
        """Condition on `data`, from `previous` where that is cheaper.

        Under a kernel whose correlation in time is Markov, it is a filter
        (`tvbandits.gp.posteriors.drifting`).

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
            there are many new ones at once (`tvbandits.gp.fitting.leverage_scores`).
        """
        data = without_negligible(kernel, data)
        if is_space_time(kernel) and separate(kernel) is not None:
            drawn = np.random.default_rng(0) if rng is None else rng
            filtered = Growing(self.oversampling, self.tolerance)
            return filtered.condition(kernel, data, surface, now, previous, drawn)
        previous = previous if isinstance(previous, NystromPosterior) else None
        groups = Groups.of(data.Z, None if previous is None else previous.groups)
        rows, _ = groups.merge(data)
        if previous is not None and np.array_equal(data.Z, previous.data.Z):
            dictionary = _moved(previous.dictionary, surface, now)
        else:
            rng = np.random.default_rng(0) if rng is None else rng
            dictionary = self._drawn(kernel, rows, surface, now, previous, rng)
        return assemble(kernel, data, groups, dictionary, previous, now, lowest=self.tolerance)

    def _drawn(
        self,
        kernel: Any,
        rows: Data,
        surface: Surface | None,
        now: float,
        previous: NystromPosterior | None,
        rng: np.random.Generator,
    ) -> ExactPosterior:
        """Resparsify: the next dictionary."""
        if len(rows) == 0:
            return _on_points(kernel, rows.Z, surface, now, None)
        prior = np.asarray(kernel.diag(rows.Z))
        known = 0 if previous is None else previous.size
        if len(rows) - known > max(MANY, known):
            first = leverage_dictionary(kernel, rows.Z, rows.variance, self.oversampling, rng)
            fresh = self._independent(kernel, rows.Z[first], np.empty((len(first), 0)))
            return _on_points(kernel, fresh, surface, now, None)
        z = np.empty((len(rows), 0)) if previous is None else previous.embedding_of_rows(rows.Z)
        variance = prior if previous is None else previous.variances_of(rows.Z, z)
        # A new scale may have raised every noise since those variances: scores go by the lower noise.
        noise = rows.variance.copy()
        if previous is not None and np.array_equal(rows.Z[:known], previous.rows.Z):
            noise[:known] = np.minimum(noise[:known], previous.rows.variance)
        probability = np.minimum(1.0, self.oversampling * variance / noise)
        kept = rng.random(len(rows)) < probability
        if not kept.any():
            kept[probability.argmax()] = True
        if self.keep and previous is not None:
            start = previous.dictionary
            new = self._independent(kernel, rows.Z[kept], z[kept])
            if start.size + len(new) <= 2 * max(float(probability.sum()), 8.0):
                grown = np.concatenate([start.rows.Z, new])
                return _on_points(kernel, grown, surface, now, start)
        fresh = self._independent(kernel, rows.Z[kept], z[kept, :0])
        return _on_points(kernel, fresh, surface, now, None)

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


def _on_points(
    kernel: Any, Z: Array, surface: Surface | None, now: float, previous: ExactPosterior | None
) -> ExactPosterior:
    """The noise-free process on inducing points; its noise is what a root needs at the least."""
    noise = 1e-12 * np.asarray(kernel.diag(Z)) if len(Z) else np.empty(0)
    data = Data(Z, np.empty((len(Z), 0)), noise)
    return Factored().condition(kernel, data, surface=surface, now=now, previous=previous)


def _moved(dictionary: ExactPosterior, surface: Surface | None, now: float) -> ExactPosterior:
    """The same inducing points, embedding the fixed points at another time."""
    return Factored().condition(
        dictionary.kernel, dictionary.data, surface=surface, now=now, previous=dictionary
    )


@dataclass(frozen=True)
class Growing:
    """Conditions a drifting process, growing its dictionary by leverage scores.

    Parameters
    ----------
    oversampling : float
        A new observation's point joins with probability min(1, oversampling variance / noise).
    tolerance : float
        Share of its prior variance below which a point depends on the dictionary, and does not join.
    """

    oversampling: float
    tolerance: float

    def condition(
        self,
        kernel: Any,
        data: Data,
        surface: Surface | None,
        now: float,
        previous: Posterior | None,
        rng: np.random.Generator,
    ) -> DriftPosterior:
        """Condition on `data`: on its new rows, where none is older than those of `previous`.

        Otherwise all rows are gone through again, in order of time, from an empty dictionary.
        """
        points = None if surface is None else surface.remember(_over_points)
        times = data.Z[:, -1]
        if (
            isinstance(previous, DriftPosterior)
            and (previous.means_at is None) == (points is None)
            and data.starts_with(previous.data)
            and (times[len(previous.data) :] >= previous.last).all()
        ):
            made, start = previous, len(previous.data)
        else:
            made, start = _nothing(kernel, data, points, now), 0
        if len(data) - start > AT_ONCE:
            # What is known at the fixed points follows from the weights at the end.
            made = replace(made, means_at=None, spread_at=None)
        joined = np.append(made.joined[:start], np.zeros(len(data) - start, dtype=np.int64))
        for i in start + np.argsort(times[start:], kind="stable"):
            made = self._observed(made, data.row(int(i)), points, rng)
            joined[i] = made.dictionary.size
        if points is not None and made.means_at is None:
            made = made.with_fixed_points()
        return replace(made, data=data, joined=joined, now=now)

    def _observed(
        self, made: DriftPosterior, row: Data, points: Surface | None, rng: np.random.Generator
    ) -> DriftPosterior:
        """With one observation more, whose point may join the dictionary."""
        x, t = row.Z[:, :-1], float(row.Z[0, -1])
        prior = float(made.kernel.diag(row.Z)[0])
        z = _embedding(made.dictionary, x, points)
        decay = made._decay(t)
        variance = prior - decay**2 * float(z @ z - z @ made.covariance @ z)
        beyond = prior - float(z @ z)
        drawn = rng.random() < self.oversampling * variance / float(row.variance[0])
        if (drawn or made.dictionary.size == 0) and beyond > self.tolerance * prior:
            joined = _joined(made.dictionary, x, points)
            if joined is not None:
                made = made.on_dictionary(joined)
                z = _embedding(joined, x, points)
        return made.observed(row, z)


def _nothing(kernel: Any, data: Data, points: Surface | None, now: float) -> DriftPosterior:
    """Before any observation, with an empty dictionary."""
    space = separate(kernel)
    none = Data(np.empty((0, data.Z.shape[1] - 1)), np.empty((0, 0)), np.empty(0))
    empty = Factored().condition(space, none, surface=points)
    return DriftPosterior.prior(kernel, space, data.Y.shape[1], empty, now)


def _embedding(dictionary: ExactPosterior, x: Array, points: Surface | None) -> Array:
    """z(x) for one point x (1, d), shape (m,): at hand where x is one of the fixed points."""
    where = None if points is None else points.index(x[0])
    if where is None or dictionary.surface is None:
        return np.asarray(embed(dictionary, x)[0])
    return np.ascontiguousarray(dictionary.surface.V.array[:, where])


def _joined(dictionary: ExactPosterior, x: Array, points: Surface | None) -> ExactPosterior | None:
    """The dictionary with one point more; None where its root would not stay the same."""
    noise = 1e-12 * np.asarray(dictionary.kernel.diag(x))
    before = dictionary.data
    data = Data(
        np.concatenate([before.Z, x]),
        np.empty((len(before) + 1, 0)),
        np.concatenate([before.variance, noise]),
    )
    grown = Factored().condition(dictionary.kernel, data, surface=points, previous=dictionary)
    m = dictionary.size
    same = np.array_equal(grown.factor.array[:m, :m], dictionary.factor.array)
    return grown if same and grown.size == m + 1 else None


def _over_points(surface: Surface) -> Surface:
    """The surface of the part over points."""
    return Surface(separate(surface.kernel), surface.points)
