"""SparQ-GP-UCB: GP-UCB that injects noise into old rewards, and asks an expert about points played.

The comments in `sparq_gp_ucb` are the lines of [S] Algorithm 1; docs/papers.md names the function that
computes each. It differs from the pseudo-code in this:

- Line 4 at t = 1 and t = 2. There sigma^2 log t is 0 and 0.69 sigma^2, below the noise sigma^2 of the
  newest reward, so that the pseudo-code discards it; at t = 1 no data are left then. The proof counts
  the newest reward among the data, with noise sigma^2 (above eq. 51). Here it is never discarded; from
  t = 3 on both rules are the same.
- Line 5. Proposition 2 asks for a set whose distribution is within O(eta / t) of the k-DPP. The default
  chain is much shorter, and its set is nearly the greedy one, which has less regret.
  `KDPP(steps="theory")` is that of the proposition; docs/printed-tables.md compares them.
- Line 8. beta is 2 by default. That of Theorem 3.1, `beta="theory"`, explores so much that the choice is
  almost uniform where the reward drifts.
- The prior mean of section 2 is 0, and the kernel is in the unit of the reward. Here mean and scale are
  learned from the rewards, since users rarely know them; `Options(mean=0.0)` is the paper's choice.

References
----------
E. Mauduit, E. Berthier and A. Simonetto. Time-varying Gaussian process bandit optimization with
    experts: no-regret in logarithmically-many side queries. arXiv 2510.21274, 2025. ([S])
"""

from __future__ import annotations

from typing import Any

from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.bandit.policy import (
    DEFAULT_WIDTH,
    Rate,
    Width,
    kernel_or_default,
    make_bandit,
    parse_rate,
    resolve_posterior,
)
from tvbandits.domains.domain import Domain
from tvbandits.experts.protocol import Expert
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import LogThreshold
from tvbandits.gp.exact import Exact
from tvbandits.queries.plans import KDPP, MOST_QUESTIONS, LogSchedule, QueryConfig, QueryPlan
from tvbandits.validation import (
    Seed,
    check_optional,
    check_part,
    finite_number,
    is_finite_number,
    noise_variance_number,
    positive_number,
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
        The expert; None: you ask it yourself (`Bandit.questions`, `Bandit.answer`).
    queries_per_step : float or QueryPlan
        c: it asks about an approximate k-DPP of ceil(c log t) of the points played; the paper has 6. Or
        another plan: `KDPP(LogSchedule(6.0), steps="theory")` runs the slow chain of Proposition 2, and
        `KDPP(LogSchedule(6.0), sampler="exact")` draws exactly.
    forgetting_rate : float, Every or "learn"
        Rate of the linear injection s^2 (1 + (rate age)^2): 1 as in [S] eq. 15, or the bandit learns it.
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
    # Line 1: the domain D and the kernel k.
    kernel = kernel_or_default(domain, kernel)
    check_optional(noise_variance_number, "noise_variance", noise_variance)
    # Line 3: observe y_t; the noise variance of a reward grows with its age (eq. 15).
    rate, rule = parse_rate("forgetting_rate", forgetting_rate)
    growth = aging.Linear(
        check_optional(positive_number, "forgetting_rate", rate) or aging.SMALLEST_RATE
    )
    # Line 4: discard rewards whose noise variance exceeds sigma^2 log t, except the newest.
    discard = aging.DiscardAbove(LogThreshold(noise_variance))
    # Line 5: draw X^E, an approximate k-DPP of ceil(c log t) of the points played (Algorithms 2 and 3).
    plan = query_plan(queries_per_step)
    # Line 6: ask the expert about f_t at X^E. A posterior on a dictionary has no more information than
    # its inducing points, so that a pool of as many is enough to draw from.
    posterior = resolve_posterior(options) or Exact()
    pool_size = 256 if posterior.on_dictionary(kernel) else None
    query_config = QueryConfig(plan, expert, pool="played", pool_size=pool_size)
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        aging=aging.compose(growth, discard),
        learn=rule,
        query_config=query_config,
        # Line 7: the posterior at step t + 1 (eqs. 16 and 17) uses the noise variances of step t.
        age_lag=1.0,
        # Line 8: play x_{t+1}, where mu + beta sigma is largest (eq. 18).
        beta=beta,
        minimize=minimize,
        options=options,
        seed=seed,
    )


def query_plan(queries_per_step: QueryPlan | float) -> QueryPlan:
    """Return a k-DPP of ceil(c log t) points for a number c, and a plan unchanged."""
    if is_finite_number(queries_per_step):
        c = finite_number("queries_per_step", queries_per_step, low=0.0, high=MOST_QUESTIONS)
        return KDPP(LogSchedule(c))
    needs = "a number, or a query plan such as KDPP()"
    check_part("queries_per_step", queries_per_step, needs, "choose")
    plan: Any = queries_per_step
    return plan  # type: ignore[no-any-return]  # it has been checked
