"""Thompson sampling on a finite domain, in batches of the best points of samples (Kandasamy 2018)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from tvbandits.acquisition.confidence import Confidence, as_confidence
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State
from tvbandits.core import linalg
from tvbandits.core.arrays import Array
from tvbandits.core.domains import Candidates
from tvbandits.core.protocols import Domain
from tvbandits.gp.kernels.structure import advance
from tvbandits.gp.posteriors.cholesky import ExactPosterior
from tvbandits.gp.posteriors.drift_filter import DriftPosterior
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.gp.posteriors.sparse import NystromPosterior
from tvbandits.gp.posteriors.state_space import StateSpacePosterior

LARGEST_JOINT = 2000
"""A joint draw from the exact posterior factors a matrix of so many rows at the most."""


class Thompson(Bandit):
    """Thompson sampling in batches (Kandasamy 2018).

    Each point of a batch is the best candidate of one sample of the posterior, all samples of a batch
    from the same one: rewards are told at its end, or whenever they come. With batches of one and a
    tell for every reward as it arrives it is the asynchronous form. Everything else is `Bandit`.

    A sample from the exact posterior is a joint draw at all candidates. On a dictionary of inducing
    points, with the embedding z and V of `tvbandits.gp.posteriors.sparse`, it is

        f(x) = z(x)^T w + e(x),   w ~ N(V^-1 b, V^-1),   e(x) ~ N(0, k(x, x) - z(x)^T z(x)),

    in O(m A) for m inducing points and A candidates. The residual e is drawn for each candidate on its
    own: every f(x) has exactly the posterior's mean and variance, so candidates that the dictionary does
    not reach are still explored, whereas what their neighbours would share of e is left out. Of a
    drifting reward w is drawn as of the time of the decision.

    Parameters
    ----------
    domain : Candidates
        For the exact posterior, of at most 2000 points.
    kernel, noise_variance, mean
        As for a `Recipe`.
    batch : int
        Points of an ask; 30 in the experiments of Calandriello et al. 2020.
    width : float, "theory" or Confidence
        Samples deviate from the posterior mean by this multiple: 1 draws from the posterior itself; a
        beta of theory, as in the analysis of Chowdhury & Gopalan 2017, explores more, and helps where
        the kernel is smoother than the reward.
    posterior : Nystrom or Exact, optional
        `Nystrom()` by default.
    seed : int or numpy.random.Generator
        A generator is not advanced: a child is spawned from it.

    Raises
    ------
    ValueError
        If the domain is not finite, or too large for the exact posterior.

    References
    ----------
    K. Kandasamy, A. Krishnamurthy, J. Schneider and B. Poczos. Parallelised Bayesian optimisation via
    Thompson sampling. AISTATS 2018.
    """

    def __init__(
        self,
        domain: Domain,
        kernel: Any,
        noise_variance: float,
        *,
        batch: int = 30,
        width: Confidence | float | str = 1.0,
        posterior: Exact | Nystrom | None = None,
        mean: float | Literal["online"] = "online",
        seed: int | np.random.Generator = 0,
    ) -> None:
        if not isinstance(batch, int | np.integer) or isinstance(batch, bool) or batch < 1:
            raise ValueError(f"batch must be a whole number of at least 1, got {batch!r}")
        recipe = Recipe(
            domain,
            kernel,
            noise_variance,
            posterior=Nystrom() if posterior is None else posterior,
            confidence=as_confidence(width),
            mean=mean,
            largest_batch=int(batch),
        )
        _candidates(recipe)
        super().__init__(recipe, seed=seed)

    @classmethod
    def from_state(cls, recipe: Recipe, state: State) -> Thompson:
        """Continue from `state`; the recipe's `largest_batch` is the batch, its confidence the width.

        Raises
        ------
        ValueError
            If the domain does not fit, or a point that was played lies outside of it.
        """
        _candidates(recipe)
        made = cls.__new__(cls)
        made.__dict__.update(Bandit.from_state(recipe, state).__getstate__())
        return made

    def _chosen(
        self, state: State, now: float, beta: float, rng: np.random.Generator
    ) -> tuple[Array, int]:
        """The best candidate of each of a batch of samples of the posterior."""
        domain = _candidates(self._recipe)
        samples = self._sampled(state, now, beta, self._recipe.largest_batch, rng)
        return domain.X[[domain.best_of(sample, rng) for sample in samples]], 0

    def _sampled(
        self, state: State, now: float, beta: float, count: int, rng: np.random.Generator
    ) -> Array:
        """`count` samples of the reward at all candidates, shape (count, A)."""
        X = _candidates(self._recipe).X
        view = self._model.view(state, now)
        assert state.posterior is not None  # conditioning made one
        assert not isinstance(state.posterior, StateSpacePosterior)  # no such rule is taken
        noise = _noise(state.posterior, view.inputs(X), count, rng)
        return np.asarray(view.mean(X) + beta * view.scale * noise)


def _noise(
    posterior: ExactPosterior | NystromPosterior | DriftPosterior,
    Z: Array,
    count: int,
    rng: np.random.Generator,
) -> Array:
    """Centred samples of a posterior at its fixed points, of inputs `Z` (A, p); shape (count, A)."""
    if isinstance(posterior, ExactPosterior):
        return _joint_noise(posterior, Z, count, rng)
    if isinstance(posterior, NystromPosterior):
        spread = posterior.times_embedding(_weights(posterior, count, rng))
    else:
        spread = _drifted_weights(posterior, count, rng) @ _embedding(posterior.dictionary)
    _, residual = posterior.dictionary.on_surface()
    own = rng.standard_normal((count, len(residual))) * np.sqrt(residual)
    return np.asarray(spread + own)


def _weights(posterior: NystromPosterior, count: int, rng: np.random.Generator) -> Array:
    """Draws of N(0, V^-1), shape (count, m)."""
    normal = rng.standard_normal((posterior.dictionary_size, count))
    return linalg.solve_lower(posterior.factor, normal, transposed=True).T


def _drifted_weights(posterior: DriftPosterior, count: int, rng: np.random.Generator) -> Array:
    """Draws of the centred weights at the time `now`, shape (count, m).

    What is known of them has decayed since the latest observation, by rho, and new variance has come
    in its place: their covariance is rho^2 P + (1 - rho^2) I.
    """
    m, now, last = posterior.dictionary_size, posterior.now, posterior.last
    decay = advance(posterior.kernel, now - last) if np.isfinite(last) else 0.0
    assert decay is not None  # only kernels that decay are filtered
    root = linalg.square_root(decay**2 * posterior.covariance + (1.0 - decay**2) * np.eye(m))
    return np.asarray(rng.standard_normal((count, root.shape[1])) @ root.T)


def _embedding(dictionary: ExactPosterior) -> Array:
    """Z of the fixed points, shape (m, A)."""
    assert dictionary.surface is not None  # a bandit on candidates conditions with a surface
    return dictionary.surface.V.array * dictionary.surface.shrink


def _joint_noise(
    posterior: ExactPosterior, Z: Array, count: int, rng: np.random.Generator
) -> Array:
    """Centred samples of an exact posterior at the inputs `Z` (A, p), shape (count, A)."""
    covariance = posterior.covariance(Z)
    # Where much is known, what is left is near rounding of the prior: that is the yardstick.
    prior = float(np.mean(posterior.kernel.diag(Z)))
    L = linalg.cholesky(covariance, "posterior covariance of the candidates", scale=prior).L
    return np.asarray(rng.standard_normal((count, len(Z))) @ L.T)


def _candidates(recipe: Recipe) -> Candidates:
    """The domain, if samples at all of its points are possible."""
    domain = recipe.domain
    if not isinstance(domain, Candidates):
        raise ValueError(
            f"Thompson sampling needs a finite domain: give Candidates, got {domain!r}"
        )
    if isinstance(recipe.posterior, Exact) and len(domain) > LARGEST_JOINT:
        raise ValueError(
            f"the exact posterior is drawn jointly at no more than {LARGEST_JOINT} candidates, "
            f"got {len(domain)}: give posterior=Nystrom()"
        )
    return domain
