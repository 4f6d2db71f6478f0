"""What applies to any bandit, whatever its policy: limits, control, cost of moves, outliers, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from tvbandits.acquisition.limits import Limit
from tvbandits.domains.moving import MoveCost, check_move_cost
from tvbandits.validation import flag, of_kind, settle, several, whole_number

# Rewards that are kept at least: as many as anything is learned from at once.
SHORTEST_HISTORY = 500


class OptionChanges(TypedDict, total=False):
    """The options that `Bandit.with_options` changes, by name; see `Options`."""

    limits: Sequence[Limit]
    safe: Any
    control: Any
    move_cost: MoveCost | None
    robust: bool
    max_history: int | None


@dataclass(frozen=True)
class Options:
    """What applies to any bandit, whatever its policy.

    Parameters
    ----------
    limits : sequence of Limit
        Limits on further outcomes: the bandit plays only points that are known to satisfy them. The
        model of an outcome has the kernel, aging, posterior and learning of the policy, in the unit of
        the outcome.
    safe : array of shape (s, d)
        Points to start from under limits, five or more: those that were not played yet come first.
    control : array of shape (d,), optional
        A point that is part of every batch, with which the bandit compares the others. Where rewards go
        up and down for all points together, as by day and night, it learns how points differ. The level
        of each time is one unknown number, so only the differences between readings of one time tell
        which point is better: tell the rewards of a batch at one time. It needs the exact posterior
        and a kernel that is given, or an ensemble on at most 200 candidates.
    move_cost : float or callable, optional
        What it costs, in the unit of reward, to move to another point than that of the last play: a
        number for each unit of distance, or a function of two points (d,), from and to. The bandit
        leaves a point once the regret there would have paid for the move. See `domains.moving`.
    robust : bool
        Set incredible readings aside, until others agree with them (`bandit.outliers`).
    max_history : int, optional
        So many of the latest rewards are kept, and up to twice as many, for a run whose memory is not to
        grow; at least 500, all by default. Older ones leave once no decision needs them: what is in a
        window or not aged away stays, filters and ensembles hold in their states what they observed.
        What is computed anew, such as a unit, a kernel, or all after `correct` and a late reward to a
        filter, comes of what is kept. A campaign has all on its disk.

    Raises
    ------
    ValueError
        If an option is not of its form. Whether it suits the policy is checked with the policy.

    Examples
    --------
    >>> from tvbandits import Arms, Limit, Options, policies
    >>> arms = Arms(["old", "new", "bold"])
    >>> bandit = policies.adaptive_gp_ucb(arms, noise_variance=0.01).with_options(control="old")
    >>> for hour in range(1, 25):
    ...     X = bandit.ask(hour, n=2)
    ...     is_new = arms.decode(X)["arm"].to_numpy() == "new"
    ...     info = bandit.tell(X, 10.0 * (8 < hour < 20) + is_new, hour)
    >>> mean, deviation = bandit.predict(arms.X, relative=True)
    >>> print(mean.round(1), deviation[0])
    [0. 1. 0.] 0.0
    """

    limits: tuple[Limit, ...] = ()
    safe: Any = ()
    control: Any = None
    move_cost: MoveCost | None = None
    robust: bool = False
    max_history: int | None = None

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            limits: Sequence[Limit] = (),
            safe: Any = (),
            control: Any = None,
            move_cost: MoveCost | None = None,
            robust: bool = False,
            max_history: int | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        limits = tuple(several("limits", self.limits, "a sequence of Limit(...)"))
        for limit in limits:
            of_kind("each of limits", limit, Limit, "a Limit(...)")
        names = [limit.name for limit in limits]
        if len(set(names)) < len(names):
            raise ValueError(f"limits must be on different outcomes, got {', '.join(names)}")
        flag("robust", self.robust)
        check_move_cost(self.move_cost)
        if self.max_history is not None:
            whole_number("max_history", self.max_history, at_least=SHORTEST_HISTORY)
        settle(self, limits=limits)
