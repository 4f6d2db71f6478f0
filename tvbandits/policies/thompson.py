"""Thompson sampling on a finite domain, in batches: play the best points of posterior samples."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from tvbandits.acquisition.confidence import BBKBWidth, Confidence, as_confidence
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State
from tvbandits.core.arrays import Array
from tvbandits.core.domains import Candidates
from tvbandits.core.protocols import Domain
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.policies.setting import Setting


def make_thompson(setting: Setting, batch: int = 30) -> Thompson:
    common = setting.with_width(BBKBWidth(delta=1 / max(setting.horizon, 2)))
    return Thompson(
        *setting.parts,
        batch=batch,
        width=common["confidence"],
        seed=setting.seed,
    )


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
        assert view.surface is not None  # the domain is finite
        noise = state.posterior.samples(view.surface, count, rng)
        return np.asarray(view.mean(X) + beta * view.scale * noise)


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
