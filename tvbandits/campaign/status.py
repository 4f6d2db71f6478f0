"""What people want to know of a campaign at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tvbandits.bandit.bandit import Bandit
from tvbandits.core.display import as_html, as_text


@dataclass(frozen=True, repr=False)
class Status:
    """A campaign at a glance.

    Attributes
    ----------
    rows : int
        Of the journal.
    told, failed, pending, answers : int
        Rewards told, points played without a reading, points out, and answers in use.
    questions, cost : int, float
        Asked so far, and what they have cost.
    time : float or None
        The latest time told.
    open : str or None
        An operation that somebody has begun and not ended.
    in_doubt : int
        Questions to the expert of which nobody knows whether they were answered: one that is under
        way, and each that was when a process died. It was asked again, and may have cost twice.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Campaign, Candidates, policies
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), RBF(1.0), 0.01)
    >>> with Campaign.create("campaign.db", bandit) as campaign:
    ...     X = campaign.ask(1)
    ...     print(campaign.status.told, campaign.status.pending)
    0 1
    """

    rows: int
    told: int
    failed: int
    pending: int
    answers: int
    questions: int
    cost: float
    time: float | None
    open: str | None
    in_doubt: int

    @property
    def summary(self) -> list[tuple[str, object]]:
        """Names and values."""
        return list(asdict(self).items())

    def __repr__(self) -> str:
        return as_text("Status", self.summary)

    def _repr_html_(self) -> str:
        return as_html("Status", self.summary)


def status_of(bandit: Bandit, rows: int, under_way: list[Any], in_doubt: int) -> Status:
    """Of a bandit after so many rows, what is under way, and questions in doubt."""
    state = bandit.state
    meant: Mapping[str, Any] = under_way[0].body if under_way else {}
    return Status(
        rows=rows,
        told=len(state.rewards),
        failed=len(state.failed),
        pending=len(state.pending),
        answers=len(state.answers),
        questions=state.info.queries.total_asked,
        cost=state.info.queries.total_cost,
        time=state.time,
        open=meant.get("kind"),
        in_doubt=in_doubt,
    )
