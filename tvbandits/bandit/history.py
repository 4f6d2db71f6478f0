"""The history of a bandit as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.acquisition.limits import Limit
from tvbandits.data import Dataset, Plays, append_times
from tvbandits.domains.domain import Domain
from tvbandits.domains.moving import MoveCost, costs_along
from tvbandits.validation import Array

# Nothing was read but rewards.
NO_OUTCOMES: Mapping[Limit, Dataset] = {}

# Of a history; what an outcome is called stands beside them.
COLUMNS = {"time", "reward", "variance", "source", "kind", "violations", "relative", "move_cost"}


def make_history_columns(
    domain: Domain,
    rewards: Dataset,
    answers: Dataset,
    failed: Plays,
    pending: Plays,
    outcomes: Mapping[Limit, Dataset] = NO_OUTCOMES,
    control: ArrayLike | None = None,
    move_cost: MoveCost | None = None,
    outliers: Dataset | None = None,
) -> dict[str, Any]:
    """Return columns with a row for each reward, failed reading, answer and pending point, by time.

    - time;
    - the coordinates, by name where the domain has names ("x_kind" where one is called as another
      column is);
    - reward (NaN where there is none) and variance;
    - source, "bandit" or "expert"; kind, "reward", "outlier", "failed", "answer" or "pending";
    - with limits, what was read of each outcome (NaN: nothing), how many limits that violates, and by
      how much, in the unit of the outcome, under its name with "_excess" (0: it holds);
    - with a control (d,), `relative`: the reward less the mean of the control's at that time (NaN: none
      was read);
    - where moves cost something, `move_cost`: of going there from the play before.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    >>> info = bandit.tell([[0.0], [1.0]], [0.2, float("nan")], 1)
    >>> print(bandit.history[["time", "x0", "reward", "kind"]])  # made of `history_columns`
       time   x0  reward    kind
    0   1.0  0.0     0.2  reward
    1   1.0  1.0     NaN  failed
    """
    parts: list[tuple[Dataset | Plays, str, str]] = [
        (rewards, "bandit", "reward"),
        *([] if outliers is None else [(outliers, "bandit", "outlier")]),
        (failed, "bandit", "failed"),
        (answers, "expert", "answer"),
        (pending, "bandit", "pending"),
    ]
    columns: dict[str, Any] = {"time": np.concatenate([rows.t for rows, _, _ in parts])}
    points = np.concatenate([rows.X for rows, _, _ in parts])
    values = domain.values_by_name(points)
    columns |= {f"x_{name}" if name in COLUMNS else name: each for name, each in values.items()}
    columns["reward"], columns["variance"] = np.concatenate(
        [_values_and_variances(rows) for rows, _, _ in parts]
    ).T
    counts = [len(rows) for rows, _, _ in parts]
    columns["source"] = np.repeat(np.array([each for _, each, _ in parts], dtype=object), counts)
    columns["kind"] = np.repeat(np.array([each for _, _, each in parts], dtype=object), counts)
    if control is not None:
        columns["relative"] = columns["reward"] - _control_levels(rewards, control, columns["time"])
    plays = append_times(points, columns["time"])
    plays[columns["source"] == "expert"] = np.nan  # nobody was there
    read = {limit: rows.look_up_values(plays) for limit, rows in outcomes.items()}
    columns |= {limit.name: values for limit, values in read.items()}
    if read:
        broken = [~limit.holds(values) for limit, values in read.items()]
        columns["violations"] = np.sum(broken, axis=0)
        for limit, level in read.items():
            columns[name_excess_column(limit)] = np.where(
                np.isnan(level), np.nan, limit.excess(level)
            )
    if move_cost is not None:
        played = np.flatnonzero(columns["source"] == "bandit")
        played = played[np.argsort(columns["time"][played], kind="stable")]
        columns["move_cost"] = np.full(len(points), np.nan)
        columns["move_cost"][played] = costs_along(move_cost, domain, points[played])
    return sort_by_time(columns)


def name_excess_column(limit: Limit) -> str:
    """Name the column of how far readings violate a limit."""
    return f"{limit.name}_excess"


def _values_and_variances(rows: Dataset | Plays) -> Array:
    """Return both of each row (n, 2); NaN for plays without a reading."""
    if isinstance(rows, Dataset):
        return np.column_stack([rows.y, rows.variance])
    return np.full((len(rows), 2), np.nan)


def _control_levels(rewards: Dataset, control: ArrayLike, times: Array) -> Array:
    """Mean reward (n,) of the control at each of some times, NaN where it was not read."""
    mine = (np.asarray(control) == rewards.X).all(axis=1)
    levels, which = np.unique(rewards.t[mine], return_inverse=True)
    means = np.bincount(which, rewards.y[mine]) / np.bincount(which)
    level = dict(zip(levels.tolist(), means.tolist(), strict=True))
    return np.array([level.get(t, np.nan) for t in times.tolist()])


def sort_by_time(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns in the order of their times."""
    order = np.argsort(columns["time"], kind="stable")
    return {name: column[order] for name, column in columns.items()}
