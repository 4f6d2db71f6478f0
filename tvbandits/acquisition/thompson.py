"""Thompson sampling on a finite domain, in batches: the best points of samples of the posterior.

[Kan] = Kandasamy, Krishnamurthy, Schneider and Poczos 2018 (docs/references.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvbandits.acquisition.availability import Allowed
from tvbandits.acquisition.ucb import Decision
from tvbandits.core.arrays import Array
from tvbandits.core.coercion import shown
from tvbandits.core.domains import Candidates
from tvbandits.core.protocols import Domain
from tvbandits.gp.posteriors.exact import Exact

LARGEST_JOINT = 2000
"""A joint draw from the exact posterior factors a matrix of so many rows at the most."""


@dataclass(frozen=True)
class ThompsonSampling:
    """Plays the best candidate of a sample of the posterior ([Kan], batches of the same posterior).

    Each point of a batch is the best of a sample of its own, all from the posterior of the batch's
    start; a batch is as long as `Batching.largest`, the width beta stretches the deviations of a sample.
    Rewards are told at the batch's end, or whenever they come: with batches of one and a tell for every
    reward as it arrives it is the asynchronous form.

    A sample from the exact posterior is a joint draw at all candidates. On a dictionary of inducing
    points, with the embedding z and V of `tvbandits.gp.posteriors.sparse`, it is

        f(x) = z(x)^T w + e(x),   w ~ N(V^-1 b, V^-1),   e(x) ~ N(0, k(x, x) - z(x)^T z(x)),

    in O(m A) for m inducing points and A candidates. The residual e is drawn for each candidate on its
    own: every f(x) has exactly the posterior's mean and variance, so candidates that the dictionary does
    not reach are still explored, whereas what their neighbours would share of e is left out.
    """

    def check(self, domain: Domain, posterior: Any) -> None:
        """Raise a `ValueError` if samples at all points of the domain are not possible."""
        if not isinstance(domain, Candidates):
            raise ValueError(
                f"Thompson sampling needs a finite domain: give Candidates, got {shown(domain)}"
            )
        if isinstance(posterior, Exact) and len(domain) > LARGEST_JOINT:
            raise ValueError(
                f"the exact posterior is drawn jointly at no more than {LARGEST_JOINT} candidates, "
                f"got {len(domain)}: give posterior=Nystrom()"
            )

    def choose(self, decision: Decision, rng: np.random.Generator) -> tuple[Array, int]:
        """The best candidates (b, d) of b samples; no variances are computed for them."""
        domain = decision.domain
        assert isinstance(domain, Candidates)  # `check` has seen to it
        count = decision.batching.largest if decision.n is None else decision.n
        allowed = Allowed(domain, decision.available, decision.taken)
        batch: list[Array] = []
        for sample in samples(decision, count, rng):
            values = allowed.only(lambda _, sample=sample: sample)(domain.X)  # type: ignore[misc]
            batch.append(domain.X[domain.best_of(values, rng)])
            if decision.n is not None:
                allowed.exclude(batch[-1])
        return np.array(batch), 0


def samples(decision: Decision, count: int, rng: np.random.Generator) -> Array:
    """`count` samples of the reward at all candidates, their deviations stretched, shape (count, A)."""
    view = decision.view
    assert view.surface is not None  # the candidates
    noise = view.posterior.samples(view.surface, count, rng)
    return np.asarray(view.mean(view.surface.points) + decision.beta * view.scale * noise)
