"""GP-BUCB: GP-UCB in batches, on the exact posterior.

[BB] Algorithm 2 restates it. `acquisition.rules.UpperConfidenceBound` computes the bound and the point
where it is largest, `acquisition.batches.PlainFantasy` the deviations, which shrink with each point of a
batch, `ProductRatio` ends the batch, and `gp.exact.Exact.condition` computes the posterior from the
rewards. The width is multiplied by C (alpha = C beta).

References
----------
T. Desautels, A. Krause and J. Burdick. Parallelizing exploration-exploitation tradeoffs in Gaussian
    process bandit optimization. JMLR 15, 2014.
D. Calandriello, L. Carratino, A. Lazaric, M. Valko and L. Rosasco. Near-linear time Gaussian process
    optimization with adaptive batching and resparsification. ICML 2020. ([BB])
"""

from __future__ import annotations

from typing import Any

from tvbandits.acquisition.batches import ProductRatio
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.bandit.policy import DEFAULT_WIDTH, Width, make_bandit
from tvbandits.domains.domain import Domain
from tvbandits.validation import Seed


def gp_bucb(
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
    """GP-BUCB (Desautels 2014): GP-UCB in batches, on the exact posterior.

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
        C: a batch ends with the point that makes the product of 1 + variance / noise variance over its
        points exceed it.
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
    >>> bandit = policies.gp_bucb(sites, kernel=RBF(1.0), noise_variance=0.01, ratio_bound=2.0)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(bandit.recommend())
    [2.]
    """
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        batch_rule=ProductRatio(ratio_bound),
        beta=beta,
        minimize=minimize,
        options=options,
        seed=seed,
    )
