"""The columns of a bandit's history table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.acquisition.limits import Limit
from tvbandits.data import Dataset, Plays, append_times
from tvbandits.domains.domain import Domain
from tvbandits.domains.moving import MoveCost, compute_path_costs
from tvbandits.validation import Array

# The readings of outcomes of a bandit without limits.
NO_OUTCOMES: Mapping[Limit, Dataset] = {}

# The names of columns, which no outcome may have: outcomes are columns, too.
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
    - the coordinates, by name if the domain has names ("x_kind" if a coordinate has the name of another
      column);
    - reward (NaN if there is none) and variance;
    - source, "bandit" or "expert"; kind, "reward", "outlier", "failed", "answer" or "pending";
    - with limits, the reading of each outcome (NaN: none), the number of limits that the readings
      violate, and the violation of each limit in the unit of the outcome, as the outcome's name with
      "_excess" (0: no violation);
    - with a control (d,), `relative`: the reward minus the control's mean reward at that time (NaN: the
      control was not read);
    - with a move cost, `move_cost`: the cost of the move from the previous play.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), kernel=RBF(1.0), noise_variance=0.01)
    >>> info = bandit.tell([[0.0], [1.0]], [0.2, float("nan")], 1)
    >>> print(bandit.history[["time", "x0", "reward", "kind"]])  # from `make_history_columns`
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
    coordinates = domain.values_by_name(points)
    columns |= {f"x_{name}" if name in COLUMNS else name: x for name, x in coordinates.items()}
    columns["reward"], columns["variance"] = np.concatenate(
        [_values_and_variances(rows) for rows, _, _ in parts]
    ).T
    counts = [len(rows) for rows, _, _ in parts]
    sources = np.array([source for _, source, _ in parts], dtype=object)
    kinds = np.array([kind for _, _, kind in parts], dtype=object)
    columns["source"], columns["kind"] = np.repeat(sources, counts), np.repeat(kinds, counts)
    if control is not None:
        columns["relative"] = columns["reward"] - _control_levels(rewards, control, columns["time"])
    plays = append_times(points, columns["time"])
    plays[columns["source"] == "expert"] = np.nan  # an answer is not a play
    readings = {limit: rows.look_up_values(plays) for limit, rows in outcomes.items()}
    columns |= {limit.name: values for limit, values in readings.items()}
    if readings:
        violations = [~limit.holds(values) for limit, values in readings.items()]
        columns["violations"] = np.sum(violations, axis=0)
        for limit, values in readings.items():
            excess = np.where(np.isnan(values), np.nan, limit.excess(values))
            columns[name_excess_column(limit)] = excess
    if move_cost is not None:
        rows = np.flatnonzero(columns["source"] == "bandit")
        rows = rows[np.argsort(columns["time"][rows], kind="stable")]
        columns["move_cost"] = np.full(len(points), np.nan)
        columns["move_cost"][rows] = compute_path_costs(move_cost, domain, points[rows])
    return sort_by_time(columns)


def name_excess_column(limit: Limit) -> str:
    """Return the name of the column with the violations of a limit."""
    return f"{limit.name}_excess"


def _values_and_variances(rows: Dataset | Plays) -> Array:
    """Return values and noise variances (n, 2); NaN for plays without a reading."""
    if isinstance(rows, Dataset):
        return np.column_stack([rows.y, rows.variance])
    return np.full((len(rows), 2), np.nan)


def _control_levels(rewards: Dataset, control: ArrayLike, times: Array) -> Array:
    """Return the control's mean reward (n,) at each of some times, NaN if it was not read then."""
    is_control = (np.asarray(control) == rewards.X).all(axis=1)
    distinct, groups = np.unique(rewards.t[is_control], return_inverse=True)
    means = np.bincount(groups, rewards.y[is_control]) / np.bincount(groups)
    level_by_time = dict(zip(distinct.tolist(), means.tolist(), strict=True))
    return np.array([level_by_time.get(t, np.nan) for t in times.tolist()])


def sort_by_time(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns with their rows in the order of time."""
    order = np.argsort(columns["time"], kind="stable")
    return {name: column[order] for name, column in columns.items()}
