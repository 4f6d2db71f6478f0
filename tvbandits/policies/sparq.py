"""SparQ-GP-UCB: GP-UCB that injects noise into old rewards, and asks an expert about points played.

The comments of `sparq_gp_ucb` have the lines of [S] Algorithm 1; docs/papers.md says where each of them
is computed. What differs from the letter, and why:

- Line 4 at t = 1 and t = 2. There sigma^2 log t is 0 and 0.69 sigma^2, below the noise sigma^2 of a
  reward that was just observed, so the letter discards it; at t = 1, with no question asked yet, that
  is all there is. The proof counts the latest reward among the data, with noise sigma^2 (above eq. 51).
  So the newest reward is never discarded; from t = 3 on the two rules are one.
- Line 5. Proposition 2 asks for a set whose law is within O(eta / t) of the k-DPP. The default chain is
  much shorter and its set nearly the greedy one, which does better; `KDPP(steps="theory")` is the
  proposition's, and docs/printed-tables.md compares them.
- Line 8. beta is 2 by default: that of Theorem 3.1, `beta="theory"`, explores so much that its play is
  close to uniform choice where the reward drifts.
- The prior mean of section 2 is 0, and the kernel is in the unit of the reward. Here mean and scale are
  learned from the rewards, whose mean and unit nobody knows before; `Options(mean=0.0)` is the paper's.

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
    learning_rule,
    make_bandit,
    posterior_of,
    prior_kernel,
)
from tvbandits.domains.domain import Domain
from tvbandits.experts.protocol import Expert
from tvbandits.forgetting import aging
from tvbandits.forgetting.aging import LogThreshold
from tvbandits.gp.exact import Exact
from tvbandits.queries.plans import KDPP, MOST_QUESTIONS, Asking, LogSchedule, QueryPlan
from tvbandits.validation import (
    SMALLEST_VARIANCE,
    Seed,
    check_part,
    finite_number,
    is_finite_number,
    noise_variance_number,
    optional,
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
        Who is asked; None: you carry the questions (`Bandit.questions`, `Bandit.answer`).
    queries_per_step : float or QueryPlan
        c: an approximate k-DPP of ceil(c log t) of the points played; 6 is the paper's. Or another plan:
        `KDPP(LogSchedule(6.0), steps="theory")` draws that set as Proposition 2 asks, slowly, and
        `sampler="exact"` in its place exactly.
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
    # Line 1: the domain D and the kernel k.
    kernel = prior_kernel(domain, kernel)
    optional(noise_variance_number, "noise_variance", noise_variance)
    # Line 3: y_t is told, and its noise grows with its age (eq. 15).
    rate, rule = learning_rule("forgetting_rate", forgetting_rate)
    # Before a rate is learned next to nothing ages, whatever the unit of time.
    growth = aging.Linear(optional(positive_number, "forgetting_rate", rate) or SMALLEST_VARIANCE)
    # Line 4: beyond sigma^2 log t it is discarded, but for the newest.
    discard = aging.DiscardAbove(LogThreshold(noise_variance))
    # Line 5: X^E, an approximate k-DPP of ceil(c log t) of the points played (Algorithms 2 and 3).
    plan = query_plan(queries_per_step)
    # Line 6: the expert is asked about f_t at X^E. A dictionary of inducing points knows no more than
    # its points do, so there the pool to draw from stays as small.
    posterior = posterior_of(options) or Exact()
    pool = 256 if posterior.on_dictionary(kernel) else None
    asking = Asking(plan, expert, about="played", pool_size=pool)
    return make_bandit(
        domain,
        kernel,
        noise_variance,
        aging=aging.compose(growth, discard),
        learn=rule,
        asking=asking,
        # Line 7: the posterior at step t + 1 (eqs. 16 and 17) takes variances as they are at step t.
        age_lag=1.0,
        # Line 8: x_{t+1} is where mu + beta sigma is largest (eq. 18).
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
