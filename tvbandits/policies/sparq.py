"""SparQ-GP-UCB: GP-UCB that injects noise into old rewards, and asks an expert about points played.

[S] Algorithm 1 says for each step t:

    3   observe y_t at x_t                                 `Bandit.tell`
    4   discard what has aged beyond sigma^2 log t         `forgetting.aging.DiscardAbove`
    5   draw X^E out of X_t with a k-DPP                   `queries.k_dpp.sample_mcmc`
    6   ask the expert about f_t at X^E                    `bandit.querying`
    7   condition on both, for the time t + 1              `gp.exact.Exact.condition`
    8   x_{t+1} = argmax mu + beta sigma                   `acquisition.rules.UpperConfidenceBound`

References
----------
E. Mauduit, E. Berthier and A. Simonetto. Time-varying Gaussian process bandit optimization with
    experts: no-regret in logarithmically-many side queries. arXiv 2510.21274, 2025. ([S])
"""

from __future__ import annotations

from typing import Any

from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.domains.domain import Domain
from tvbandits.experts.protocol import Expert
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import LogThreshold
from tvbandits.gp.exact import Exact
from tvbandits.policies.common import (
    DEFAULT_WIDTH,
    Rate,
    Seed,
    Width,
    learning_rule,
    make_bandit,
    posterior_of,
    prior_kernel,
)
from tvbandits.queries.plans import KDPP, MOST_QUESTIONS, Asking, LogSchedule, QueryPlan
from tvbandits.validation import (
    check_part,
    finite_number,
    is_finite_number,
    noise_variance_number,
    optional,
)


def sparq_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    expert: Expert | None,
    queries_per_step: QueryPlan | float = 6.0,
    forgetting_rate: Rate = 1.0,
    beta: Width = DEFAULT_WIDTH,
    minimize: bool = False,
    options: Options | None = None,
    seed: Seed = 0,
) -> Bandit:
    """SparQ-GP-UCB (Mauduit 2025): ask an expert about some of the points played, [S] Algorithm 1.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Prior covariance of the standardised reward over points. None: `default_kernel`.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    expert : Expert or None
        Who is asked; None: you carry the questions (`Bandit.questions`, `Bandit.answer`).
    queries_per_step : float or QueryPlan
        c: an approximate k-DPP of ceil(c log t) of the points played; 6 is the paper's. Or another plan:
        `KDPP(LogSchedule(6.0), sampler="exact")` draws that set exactly.
    forgetting_rate : float, Every or "learn"
        Of the linear injection s^2 (1 + (rate age)^2): 1 as in [S] eq. 15, or the bandit learns it.
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
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> from tvbandits.experts import CallableExpert
    >>> sites = Candidates(np.arange(9.0)[:, None])
    >>> station = CallableExpert(lambda X, t: -np.abs(X[:, 0] - 6.0), 0.01)
    >>> bandit = policies.sparq_gp_ucb(sites, kernel=RBF(2.0), noise_variance=0.01, expert=station)
    >>> for t in range(1, 31):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -np.abs(X[:, 0] - 6.0), t)
    >>> print(bandit.recommend(), info.queries.total_asked > 0)
    [6.] True
    """
    kernel = prior_kernel(domain, kernel)
    optional(noise_variance_number, "noise_variance", noise_variance)
    # Line 5: X^E, an approximate k-DPP of ceil(c log t) of the points played (Algorithms 2 and 3).
    plan = query_plan(queries_per_step)
    # A dictionary of inducing points knows no more than its points do: the pool stays as small.
    posterior = posterior_of(options) or Exact()
    pool = 256 if posterior.on_dictionary(kernel) else None
    # Line 4: a reward's noise grows with its age (eq. 15), and beyond sigma^2 log t it is discarded.
    rate, rule = learning_rule(forgetting_rate)
    growth = aging.Linear(1.0 if rate is None else rate)
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        aging=aging.compose(growth, aging.DiscardAbove(LogThreshold(noise_variance))),
        learn=rule,
        # Lines 3 and 6: y_t is told, and then the expert is asked about f_t at X^E.
        asking=Asking(plan, expert, about="played", pool_size=pool),
        # Lines 7 and 8: from both the posterior at t + 1, and x_{t+1} where its bound is largest.
        lead=1.0,
        beta=beta,
        minimize=minimize,
        options=options,
        seed=seed,
    )


def query_plan(queries_per_step: QueryPlan | float) -> QueryPlan:
    """Return a k-DPP of ceil(c log t) points for a number c, and any plan as it is."""
    if is_finite_number(queries_per_step):
        c = finite_number("queries_per_step", queries_per_step, low=0.0, high=MOST_QUESTIONS)
        return KDPP(LogSchedule(c))
    needs = "a number, or a query plan such as KDPP()"
    check_part("queries_per_step", queries_per_step, needs, "choose")
    plan: Any = queries_per_step
    return plan  # type: ignore[no-any-return]  # it has been checked
