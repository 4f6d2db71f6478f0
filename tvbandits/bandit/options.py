"""What applies to any bandit: how its reward is modelled, limits, control, moves, outliers, memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

from tvbandits.acquisition.batches import DEFAULT_LARGEST, LARGEST_BATCH
from tvbandits.acquisition.limits import Limit
from tvbandits.domains.moving import MoveCost, check_move_cost
from tvbandits.gp.ensemble.seasons import check_season
from tvbandits.gp.online import Every
from tvbandits.gp.posterior import PosteriorRule
from tvbandits.validation import (
    LARGEST_VALUE,
    as_bool,
    as_list,
    check_choice,
    check_instance,
    check_part,
    describe,
    is_finite_number,
    require,
    set_fields,
    whole_number,
)

NEEDED_POSTERIOR = "Exact(), Nystrom(), StateSpace() or ModelEnsemble()"

# Words for posteriors; `bandit.policy.POSTERIORS` has what they stand for.
PosteriorName: TypeAlias = Literal["exact", "nystrom", "ensemble"]
Posterior: TypeAlias = PosteriorRule | PosteriorName
Mean: TypeAlias = float | Literal["online"]
Refit: TypeAlias = Every | int | bool
Season: TypeAlias = float | Literal["find"] | None
Consult: TypeAlias = Literal["after tell", "before ask"]

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
    """The settings that any bandit has, whatever its policy.

    You may change the first six while a bandit plays (`Bandit.with_options`). The others set how it
    models the reward and plays in batches, and stay as they are from its start.

    Parameters
    ----------
    limits : sequence of Limit
        Limits on outcomes beside the reward. The model of an outcome has the kernel, aging, posterior
        and learning of the policy, in the unit of the outcome.
    safe : array of shape (s, d)
        Points to start from under limits, one or more: the bandit plays those first. Five that differ
        tell how much an outcome varies.
    control : array of shape (d,), optional
        A point that is part of every batch, with which the bandit compares the others. If rewards rise
        and fall for all points together, as by day and night, the bandit then learns how points differ.
        The level of each time is one unknown number, so only differences between readings of one time
        show which point is better: tell the rewards of a batch at one time. It needs the exact posterior
        and your own kernel, or an ensemble on at most 200 candidates.
    move_cost : float or callable, optional
        What it costs, in the unit of reward, to move to another point than that of the last play: a
        number for each unit of distance, or a function of two points (d,), from and to. The bandit
        leaves a point once its regret there has reached the price of the move. See `domains.moving`.
    robust : bool
        Ignore incredible readings until others agree with them (`bandit.outliers`).
    max_history : int, optional
        Bounds the memory of a long run: the bandit keeps this many of the latest rewards, at least 500,
        and up to twice as many; all by default. It drops older ones once no decision needs them: not
        those in a window, or that still count; filters and ensembles have them in their states. Units,
        kernels, and everything after `correct` or a late reward to a filter, are then computed from the
        rewards that remain. A campaign has all of them on its disk.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns mean and scale from the rewards; the kernel describes the standardised reward.
    posterior : Exact, Nystrom, NystromFilter, StateSpace, ModelEnsemble or a word, optional
        How the posterior is computed: "exact"; on a dictionary of inducing points, "nystrom"; by a
        Kalman filter; or by an ensemble of models, "ensemble". None: the policy's own.
    refit : Every, int or bool, optional
        When a policy that learns its kernel fits it: a rule, a number of rewards between two fits, or
        True for the policy's own rule.
    season : float, "find" or None
        The period of a cycle in the reward: where times count hours, 24 for the hour of the day, 168 for
        the weekday. An ensemble then also has models with that season. "find": on up to 64 candidates,
        look for a period in the readings, for 1,024 steps. None: no season (`season=none` on the command
        line, `season = "none"` in campaign.toml).
    consult : "after tell" or "before ask"
        When to ask the expert: when you have told the rewards of a decision, about their time, or before
        a decision, about its own time.
    minimum_batch : int
        P: a policy that plays in batches starts by uncertainty sampling until no batch can be smaller
        ([BB] Algorithm 3, in batches of P). Its variances are exact on a box for `gp_bucb`, and on up to
        4,096 candidates; elsewhere they are those of the dictionary.
    largest_batch : int
        The largest size of a batch; the bandit warns if it cuts one off.

    Raises
    ------
    ValueError
        If an option has the wrong form. The policy checks whether it can use the option.

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
    mean: Mean = "online"
    posterior: Posterior | None = None
    refit: Refit | None = None
    season: Season = "find"
    consult: Consult = "after tell"
    minimum_batch: int = 1
    largest_batch: int = DEFAULT_LARGEST

    if TYPE_CHECKING:  # what may be given is more than what is kept

        def __init__(
            self,
            limits: Sequence[Limit] = (),
            safe: Any = (),
            control: Any = None,
            move_cost: MoveCost | None = None,
            robust: bool = False,
            max_history: int | None = None,
            *,
            mean: Mean = "online",
            posterior: Posterior | None = None,
            refit: Refit | None = None,
            season: Season = "find",
            consult: Consult = "after tell",
            minimum_batch: int = 1,
            largest_batch: int = DEFAULT_LARGEST,
        ) -> None: ...

    def __post_init__(self) -> None:
        limits = tuple(as_list("limits", self.limits, "a sequence of Limit(...)"))
        for limit in limits:
            check_instance("each of limits", limit, Limit, "a Limit(...)")
        names = [limit.name for limit in limits]
        if len(set(names)) < len(names):
            raise ValueError(f"limits must be on different outcomes, got {', '.join(names)}")
        as_bool("robust", self.robust)
        check_move_cost(self.move_cost)
        if self.max_history is not None:
            whole_number("max_history", self.max_history, at_least=SHORTEST_HISTORY)
        if not (self.refit is None or isinstance(self.refit, bool | Every)):
            whole_number("refit", self.refit)
        check_mean(self.mean)
        check_season(self.season)
        if isinstance(self.posterior, str):
            check_choice("posterior", self.posterior, get_args(PosteriorName))
        elif self.posterior is not None:
            check_part("posterior", self.posterior, NEEDED_POSTERIOR, "condition")
        check_choice("consult", self.consult, ("after tell", "before ask"))
        for name in ("minimum_batch", "largest_batch"):
            whole_number(name, getattr(self, name), at_most=LARGEST_BATCH)
        set_fields(self, limits=limits)


def check_changes(changes: Mapping[str, Any]) -> None:
    """Raise a `TypeError` for options that there are not, or that a bandit has from its start."""
    names = OptionChanges.__annotations__
    unknown = sorted(changes.keys() - names.keys())
    if not unknown:
        return
    name = unknown[0]
    if name not in {each.name for each in fields(Options)}:
        raise TypeError(f"unknown option {', '.join(unknown)}; there are: {', '.join(names)}")
    raise TypeError(
        f"{name} stays as it is from the start of a bandit, got {name}={describe(changes[name])}: make "
        f"the bandit with options=Options({name}=...); with_options changes {', '.join(names)}"
    )


def check_mean(mean: object) -> None:
    """Raise a `ValueError` unless this is a prior mean: "online", or a number that a reward may be."""
    is_number = is_finite_number(mean) and abs(mean) <= LARGEST_VALUE  # type: ignore[arg-type]
    needs = f'"online" or a finite number of at most {LARGEST_VALUE:g} in size'
    require(is_number or (isinstance(mean, str) and mean == "online"), "mean", needs, mean)
