"""mini-GP-UCB: few points, each played many times.

References
----------
D. Calandriello, L. Carratino, A. Lazaric, M. Valko and L. Rosasco. Scaling Gaussian process optimization
    by evaluating a few unique candidates multiple times. ICML 2022. ([Mini])
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from tvbandits.acquisition.batch_rules import (
    LARGEST_BATCH,
    MOST_RATIO,
    USUAL_LARGEST,
    Batching,
)
from tvbandits.acquisition.rules import Decision, UpperConfidenceBound
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import Array, finite_number, whole_number
from tvbandits.core.protocols import Domain
from tvbandits.policies.setting import Common, assembled, listed


@dataclass(frozen=True)
class RepeatedUpperBound(UpperConfidenceBound):
    """Plays the point x of the largest upper bound B times, before it looks for another one ([Mini]).

        B = max(1, floor((C^2 - 1) v / var(x))),

    with v the noise variance. B plays divide var(x) by 1 + B var(x) / v, which is at most C^2 (but for
    B = 1): no deviation anywhere has shrunk by more than C when the next point is chosen, so that the
    bounds of the batch's start were good until its end. Before the first reward, when no variance has
    a unit, B = 1.
    """

    ratio_bound: float = 2.0

    def __post_init__(self) -> None:
        finite_number("ratio_bound", self.ratio_bound, low=1.0, high=MOST_RATIO)

    def choose(self, decision: Decision, rng: np.random.Generator) -> tuple[Array, int]:
        """One point B times, shape (B, d); of `n` points, each the next best one."""
        X, looks = super().choose(replace(decision, batching=Batching()), rng)
        if decision.n is not None or decision.view.posterior.size == 0:
            return X, looks
        (deviation,) = decision.deviation()(X)
        times = (self.ratio_bound**2 - 1.0) * decision.noise_variance / max(deviation**2, 1e-300)
        return np.repeat(X, int(np.clip(times, 1.0, decision.batching.largest)), axis=0), looks


@listed("few points, each many times", paper="Calandriello 2022")
def mini_gp_ucb(
    domain: Domain,
    kernel: Any,
    noise_variance: float | None,
    *,
    ratio_bound: float = 2.0,
    largest_batch: int = USUAL_LARGEST,
    **common: Unpack[Common],
) -> Bandit:
    """mini-GP-UCB (Calandriello 2022): one point again and again, until its deviation has shrunk enough.

    An ask returns the point as often as it is to be played.

    Parameters
    ----------
    ratio_bound : float
        C, by which no deviation may have shrunk when the next point is chosen; 1 is GP-UCB.
    largest_batch : int
        So many plays of a point at the most, before the next decision.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.mini_gp_ucb(sites, RBF(1.0), 0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(bandit.recommend(), info.told > 10)
    [2.] True
    """
    most = whole_number("largest_batch", largest_batch, at_most=LARGEST_BATCH)
    return assembled(
        domain,
        kernel,
        noise_variance,
        acquisition=RepeatedUpperBound(ratio_bound),
        batching=Batching(largest=most),
        **common,
    )
