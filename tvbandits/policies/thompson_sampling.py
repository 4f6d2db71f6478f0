"""Thompson sampling in batches: each point is the best one of a draw from the posterior.

`acquisition.rules.ThompsonSampling` draws. It differs from the papers in two respects: the posterior is
that on a dictionary (`gp.sparse.SparsePosterior.sample`), since a joint draw from the exact one is
O(A^3); and a whole batch is played before the next one, whereas the asynchronous version of [Kan]
chooses a new point with each reward.

References
----------
K. Kandasamy, A. Krishnamurthy, J. Schneider and B. Poczos. Parallelised Bayesian optimisation via
    Thompson sampling. AISTATS 2018. ([Kan])
D. Calandriello, L. Carratino, A. Lazaric, M. Valko and L. Rosasco. Near-linear time Gaussian process
    optimization with adaptive batching and resparsification. ICML 2020. ([BB]; Async-TS, its batches of
    30 and its width: appendix D.1)
"""

from __future__ import annotations

from typing import Any

from tvbandits.acquisition.batches import LARGEST_BATCH, Batching
from tvbandits.acquisition.rules import ThompsonSampling
from tvbandits.acquisition.widths import ThompsonWidth
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.bandit.policy import Width, make_bandit, resolve_width
from tvbandits.domains.domain import Domain
from tvbandits.gp.sparse import Nystrom
from tvbandits.validation import Seed, whole_number


def thompson(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    batch_size: int = 30,
    beta: Width = "theory",
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """Thompson sampling in batches (Kandasamy 2018): play the best points of posterior samples.

    Parameters
    ----------
    domain : Domain
        Candidates; for the exact posterior, at most 2000 points.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    batch_size : int
        Number of points that `ask` returns; 30 in the experiments of [BB].
    beta : Confidence, float or "theory"
        Factor of the deviations of a sample from the posterior mean. "theory" is that of [BB], appendix
        D.1: a tenth of BBKB's width. 1 draws from the posterior itself, as Kandasamy et al. do.
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
    >>> bandit = policies.thompson(sites, kernel=RBF(1.0), noise_variance=0.01, batch_size=2)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.recommend())
    20 [2.]
    """
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        acquisition=ThompsonSampling(),
        batching=Batching(largest=whole_number("batch_size", batch_size, at_most=LARGEST_BATCH)),
        beta=resolve_width(beta, {"theory": ThompsonWidth}),
        posterior=Nystrom(),
        minimize=minimize,
        options=options,
        seed=seed,
    )
