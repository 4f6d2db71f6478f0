"""mini-GP-UCB: GP-UCB that plays a point several times before it chooses another one.

References
----------
D. Calandriello, L. Carratino, A. Lazaric, M. Valko and L. Rosasco. Scaling Gaussian process optimization
    by evaluating a few unique candidates multiple times. ICML 2022. ([Mini])
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvbandits.acquisition.batches import MOST_RATIO, Batching, One
from tvbandits.acquisition.rules import Decision, UpperConfidenceBound
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.bandit.policy import DEFAULT_WIDTH, Width, make_bandit
from tvbandits.domains.domain import Domain
from tvbandits.validation import Array, Seed, finite_number


@dataclass(frozen=True)
class RepeatedUpperBound(UpperConfidenceBound):
    """A rule that plays the point x of the largest upper bound B times in a row ([Mini]).

        B = max(1, floor((C^2 - 1) v / var(x))),

    with v the noise variance. B plays divide var(x) by 1 + B var(x) / v, which is at most C^2 unless
    B = 1. No deviation anywhere has then shrunk by more than C when the next point is chosen, so that
    the bounds at the batch's start were valid until its end. Before the first reward, when the scale of
    the reward is unknown, B = 1.
    """

    ratio_bound: float = 2.0

    def __post_init__(self) -> None:
        finite_number("ratio_bound", self.ratio_bound, low=1.0, high=MOST_RATIO)

    def choose(self, decision: Decision, rng: np.random.Generator) -> Array:
        """Return one point B times, shape (B, d); or `n` different points, the best ones."""
        X = super().choose(replace(decision, batching=Batching()), rng)
        if decision.n is not None or decision.view.posterior.summary.size == 0:
            return X
        (deviation,) = decision.deviation()(X)
        times = (self.ratio_bound**2 - 1.0) * decision.noise_variance / max(deviation**2, 1e-300)
        return np.repeat(X, int(np.clip(times, 1.0, decision.batching.largest)), axis=0)


def mini_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    ratio_bound: float = 2.0,
    beta: Width = DEFAULT_WIDTH,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """mini-GP-UCB (Calandriello 2022): play a point until its deviation is small enough.

    `ask` returns the point as often as it is to be played.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    ratio_bound : float
        C, the largest factor by which a deviation may have shrunk when the next point is chosen; 1 is
        GP-UCB.
    beta : Confidence, float, "theory" or another name in `WIDTHS`
        The width of mean + beta deviations; a number is a constant width.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        How the reward is modelled, and what applies to any bandit: limits, a control, moves, outliers.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.mini_gp_ucb(sites, kernel=RBF(1.0), noise_variance=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(bandit.recommend(), info.readings > 10)
    [2.] True
    """
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        acquisition=RepeatedUpperBound(ratio_bound),
        batch_rule=One(),
        beta=beta,
        minimize=minimize,
        options=options,
        seed=seed,
    )
