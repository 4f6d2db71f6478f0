"""Options of any bandit: model of the reward, limits, control, move cost, outliers, memory."""

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

# Names of posteriors; `bandit.policy.POSTERIORS` has the posteriors.
PosteriorName: TypeAlias = Literal["exact", "nystrom", "ensemble"]
Posterior: TypeAlias = PosteriorRule | PosteriorName
Mean: TypeAlias = float | Literal["online"]
Refit: TypeAlias = Every | int | bool
Season: TypeAlias = float | Literal["find"] | None
Consult: TypeAlias = Literal["after tell", "before ask"]

# The least `max_history`: nothing is learned from more rewards than this at once.
SHORTEST_HISTORY = 500


class OptionChanges(TypedDict, total=False):
    """The options that `Bandit.with_options` can change, by name; see `Options`."""

    limits: Sequence[Limit]
    safe: Any
    control: Any
    move_cost: MoveCost | None
    robust: bool
    max_history: int | None


@dataclass(frozen=True)
class Options:
    """Options of any bandit, whatever its policy.

    The first six can be changed while a bandit plays (`Bandit.with_options`). The others determine how
    it models the reward and plays in batches, and cannot be changed.

    Parameters
    ----------
    limits : sequence of Limit
        Limits on outcomes other than the reward. The model of an outcome has the kernel, aging,
        posterior and learning of the policy, in the unit of the outcome.
    safe : array of shape (s, d)
        One or more points with which a bandit with limits starts. Five different points show how much
        an outcome varies.
    control : array of shape (d,), optional
        A point that is part of every batch, with which the bandit compares the others. If the rewards of
        all points rise and fall together, as by day and night, the bandit learns the differences between
        points. The level of each time is one unknown number, so that only differences between readings
        of the same time show which point is better: tell the rewards of a batch with the same time. A
        control needs the exact posterior and your own kernel, or an ensemble on at most 200 candidates.
    move_cost : float or callable, optional
        The cost, in the unit of reward, of moving away from the point of the last play: a number for
        each unit of distance, or a function of two points (d,), start and end. The bandit leaves a point
        once its regret there has reached the cost of the move. See `domains.moving`.
    robust : bool
        Ignore incredible readings until others agree with them (`bandit.outliers`).
    max_history : int, optional
        The number of latest rewards in memory, at least 500, for long runs; all by default. The bandit
        stores up to twice as many. It drops older ones once no decision needs them: not those in a
        window or with weight left; filters and ensembles have them in their states. Units and kernels,
        and everything after `correct` or a late reward to a filter, are then computed from the remaining
        rewards. A campaign has all of them on its disk.
    mean : float or "online"
        A number is the prior mean of the reward, and the kernel is in the unit of reward squared.
        "online" learns mean and scale from the rewards; the kernel describes the standardised reward.
    posterior : Exact, Nystrom, NystromFilter, StateSpace, ModelEnsemble or a name, optional
        How the posterior is computed: "exact"; "nystrom", on a dictionary of inducing points; by a
        Kalman filter; or "ensemble", by an ensemble of models. None: as the policy does by default.
    refit : Every, int or bool, optional
        When a policy that learns its kernel fits it: a rule, the number of rewards between two fits, or
        True for the policy's own rule.
    season : float, "find" or None
        The period of a cycle in the reward: if times count hours, 24 for the hour of the day, 168 for
        the weekday. An ensemble then also has models with that season. "find": on up to 64 candidates,
        search the readings for a period, for 1,024 steps. None: no season (`season=none` on the command
        line, `season = "none"` in campaign.toml).
    consult : "after tell" or "before ask"
        When to query the expert: after the rewards of a decision are told, about their time; or before a
        decision, about its own time.
    minimum_batch : int
        P: a policy that plays in batches starts by uncertainty sampling until no batch can be smaller
        ([BB] Algorithm 3, in batches of P). Its variances are exact on a box for `gp_bucb`, and on up to
        4,096 candidates; otherwise they are those of the dictionary.
    largest_batch : int
        The largest size of a batch; the bandit warns if it limits a batch.

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

    if TYPE_CHECKING:  # the arguments may be of more types than the fields

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
    """Raise a `TypeError` for options that do not exist, or that a bandit cannot change."""
    names = OptionChanges.__annotations__
    invalid = sorted(changes.keys() - names.keys())
    if not invalid:
        return
    name = invalid[0]
    if name not in {option.name for option in fields(Options)}:
        raise TypeError(f"unknown option {', '.join(invalid)}; there are: {', '.join(names)}")
    raise TypeError(
        f"{name} cannot be changed after the start of a bandit, got {name}={describe(changes[name])}: "
        f"create it with options=Options({name}=...); with_options changes {', '.join(names)}"
    )


def check_mean(mean: object) -> None:
    """Raise a `ValueError` unless `mean` is "online" or a number in the range of rewards."""
    is_number = is_finite_number(mean) and abs(mean) <= LARGEST_VALUE  # type: ignore[arg-type]
    needs = f'"online" or a finite number of at most {LARGEST_VALUE:g} in size'
    require(is_number or (isinstance(mean, str) and mean == "online"), "mean", needs, mean)
