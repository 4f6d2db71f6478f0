"""A policy without an expert that learns from its plays how the reward changes; no paper has it."""

from __future__ import annotations

from typing import Any

from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.options import Options
from tvbandits.bandit.policy import History, Width, choose_model, make_bandit
from tvbandits.domains.domain import Domain
from tvbandits.validation import Seed


def adaptive_gp_ucb(
    domain: Domain,
    *,
    kernel: Any | None = None,
    noise_variance: float | None = None,
    beta: Width | None = None,
    minimize: bool = False,
    options: Options | None = None,
    history: History | None = None,
    seed: Seed = 0,
) -> Bandit:
    """Learn how the reward drifts, by an ensemble of models or a fitted kernel.

    On candidates it is an ensemble; on a box, or where you give a kernel, or `refit` or `mean` in the
    options, a kernel that is fitted by log evidence. `docs/which-policy.md` has the table.

    Parameters
    ----------
    domain : Domain
        The points that may be played.
    kernel : scikit-learn kernel, optional
        Over points, to start from; or a sum of space-time terms. None suits any problem.
    noise_variance : float, optional
        Noise variance of a reward for which `tell` gives none (unit of reward squared). None: it is
        learned, and `Bandit.noise` shows it with an interval.
    beta : Confidence, float or str, optional
        2, or 0.5 on a network with a history; on a box of d > 1 coordinates where kernel and posterior
        are not given, 2 sqrt(2 n) / d for a mean of n rewards at a time, and 2 at most.
    minimize : bool
        Whether smaller rewards are better; rewards and predictions keep their sign.
    options : Options, optional
        How the reward is modelled, and what applies to any bandit: limits, a control, moves, outliers.
    history : DataFrame or array of shape (T, A), optional
        Readings before the first decision: a row for each time, a column for each candidate, NaN where
        nothing was read. The index of a frame has the times; the rows of an array end at t = 0. On up
        to 64 candidates that were read together 16 times or more, the bandit learns from it how they
        vary together.
    seed : int or numpy.random.Generator
        Source of all random choices; a generator does not advance, a child of it is spawned.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.adaptive_gp_ucb(sites, noise_variance=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.readings, bandit.recommend())
    10 [2.]
    """
    model = choose_model(domain, kernel, beta, options, asks=False, has_history=history is not None)
    return make_bandit(
        domain,
        noise_variance=noise_variance,
        minimize=minimize,
        options=options,
        refits=True,
        history=history,
        seed=seed,
        **model.parts,
    )
