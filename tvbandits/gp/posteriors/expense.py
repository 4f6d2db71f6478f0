"""What a dense posterior is going to cost, and what to take instead, said before it does."""

from __future__ import annotations

import warnings

from tvbandits.gp.kernels.structure import is_space_time
from tvbandits.gp.kernels.terms import terms_of
from tvbandits.gp.posteriors.protocol import Posterior

# Arithmetic of one core in a second, at the least.
FLOPS = 5e9


# A warning is due when twice as many rows need as much for one step.
SECONDS, GIGABYTES = 2.0, 1.0


# So many rows are never expensive.
FEW = 1000


class ExpensiveWarning(UserWarning):
    """A bandit goes on, but its steps will take long or much memory; the message says what helps."""


class CostWarning:
    """Warns once, as soon as the cost can be foreseen."""

    def __init__(self) -> None:
        self._given = False

    def given(self, before: bool, posterior: Posterior, finite: bool) -> bool:
        """Whether it has been said, `before` or now, what a dense posterior is going to cost.

        It is said where twice as many rows would cost much. `finite`: the domain has fixed points.
        """
        if before or self._given:
            return True
        rows = 2 * posterior.size
        # A new factor, as when the scale of the reward is estimated again: the slowest of its steps.
        seconds, gigabytes = rows**3 / 3 / FLOPS, 2 * 8 * (1.5 * rows) ** 2 / 1e9
        if seconds < SECONDS and gigabytes < GIGABYTES:
            return False
        take = '"nystrom" (Nystrom())'
        if is_space_time(posterior.kernel) and terms_of(posterior.kernel) is not None:
            filtering = "StateSpace()" if finite else "StateSpace(anchors=points)"
            take = f'{filtering}, whose steps cost the same for ever, or "nystrom"'
        # A warning may be an exception: it shall not come again then either.
        self._given = True
        warnings.warn(
            f"the exact posterior has {posterior.size} rows to factor; with {rows}, a step will take "
            f"up to about {seconds:.0f} s and {gigabytes:.1f} GB, and the time grows with its cube. "
            f"Take posterior={take}, or forget: policies.sw_gp_ucb keeps a window, "
            "policies.w_gp_ucb discounts.",
            ExpensiveWarning,
            stacklevel=2,
        )
        return True
