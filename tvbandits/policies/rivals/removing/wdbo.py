"""W-DBO, the controls that remove other data than it does, and BOLT's size of the data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tvbandits.core.arrays import not_negative, whole_number
from tvbandits.core.coercion import choice
from tvbandits.core.protocols import Domain
from tvbandits.policies.rivals.removing.dataset import FEWEST, Relevant, Removal
from tvbandits.policies.rivals.ruled import ByRule
from tvbandits.policies.setting import Look, Policy, Seed, Setting, described


def _checked(alpha: float, removal: str, first: int, refit_every: int) -> None:
    not_negative("alpha", alpha)
    whole_number("first", first)
    whole_number("refit_every", refit_every)
    choice("removal", removal, ("relevance", "oldest", "random"))


@described
def w_dbo(
    domain: Domain,
    *,
    noise_variance: float,
    alpha: float = 0.25,
    removal: Removal = "relevance",
    first: int = 15,
    refit_every: int = 1,
    minimise: bool = False,
    seed: Seed = 0,
) -> ByRule:
    """W-DBO (Bardou 2024): observations go that the posterior of the future can do without.

    A Matern-5/2 kernel over points, scaled to the unit cube, and a Matern-3/2 one over time, with fitted
    variance and scales; all relevances are computed at once. Within one cleaning the hyperparameters
    stay, where the authors' program fits after every removal; and no time scale is fitted below five
    mean times between rewards, where it has no bound, and can be left with two points for good.

    Parameters
    ----------
    alpha : float
        The budget of removal grows by (1 + alpha) in one time scale.
    removal : "relevance", "oldest" or "random"
        What goes: the least relevant; or, for a control, as many of the oldest, or of any.
    first : int
        So many points are uniform. A comparison takes the share of the authors' experiments, a fortieth
        of the run.
    refit_every : int
        Rewards between two fits.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.w_dbo(sites, noise_variance=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.ask(11).shape)
    10 (1, 1)
    """
    _checked(alpha, removal, first, refit_every)
    rule = Relevant(domain, noise_variance, alpha, removal, first, refit_every)
    return ByRule(domain, rule, minimise=minimise, seed=seed)


@described
def bolt(
    domain: Domain,
    *,
    noise_variance: float,
    response: float = 1.0,
    alpha: float = 0.25,
    first: int = 15,
    refit_every: int = 1,
    minimise: bool = False,
    seed: Seed = 0,
) -> ByRule:
    """W-DBO with BOLT's largest size of the data (Bardou & Thiran 2025).

    Parameters
    ----------
    response : float
        Time that a decision takes with 100 observations, in the unit of time; it grows as n^3. The paper
        measures it, so that its runs depend on the machine.
    alpha : float
        As for W-DBO.
    first : int
        So many points are uniform. A comparison takes the share of the authors' experiments, a fortieth
        of the run.
    refit_every : int
        Rewards between two fits.

    Examples
    --------
    >>> from tvbandits import Candidates, policies
    >>> sites = Candidates([[0.0], [2.0], [4.0]])
    >>> bandit = policies.bolt(sites, noise_variance=0.01)
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 2) ** 2), t)
    >>> print(info.told, bandit.ask(11).shape)
    10 (1, 1)
    """
    not_negative("response", response)
    _checked(alpha, "relevance", first, refit_every)
    rule = Relevant(domain, noise_variance, alpha, "relevance", first, refit_every, response)
    return ByRule(domain, rule, minimise=minimise, seed=seed)


def recommended(setting: Setting, first: int | None = None) -> Mapping[str, Any]:
    """Uniform points for a fortieth of the run, as in [WD] H.1, and 15 at the most."""
    share = min(15, max(FEWEST, math.ceil(setting.horizon / 40)))
    return {"first": share if first is None else first}


POLICIES = (
    Policy(
        "w-dbo",
        w_dbo,
        "removes what the future can do without, removal=relevance|oldest|random",
        paper="Bardou 2024",
        look=Look("#8c2d04", (0, (2, 1)), 1.8, "$\\clubsuit$"),
        recommended=recommended,
    ),
    Policy(
        "bolt",
        bolt,
        "W-DBO with the size of the data that its response time allows",
        paper="Bardou & Thiran 2025",
        look=Look("#cc4c02", (0, (5, 2, 1, 2)), 1.8, "+"),
        recommended=recommended,
    ),
)
