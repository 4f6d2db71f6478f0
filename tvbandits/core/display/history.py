"""Everything that was told, answered and asked, as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tvbandits.core.observations import Observations, Plays
from tvbandits.core.protocols import Domain


def history_of(
    domain: Domain,
    rewards: Observations,
    answers: Observations,
    failed: Plays,
    pending: Plays,
) -> pd.DataFrame:
    """A row for each reward, failed reading, answer and point that is out, sorted by time.

    Columns: time; the coordinates, by name where the domain has names; reward (NaN where there is none)
    and variance; source, "bandit" or "expert"; kind, "reward", "failed", "answer" or "pending".

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Candidates, policies
    >>> bandit = policies.gp_ucb(Candidates([[0.0], [1.0]]), RBF(1.0), 0.01)
    >>> info = bandit.tell([[0.0], [1.0]], [0.2, float("nan")], 1)
    >>> print(bandit.history[["time", "x0", "reward", "kind"]])  # made by history_of
       time   x0  reward    kind
    0   1.0  0.0     0.2  reward
    1   1.0  1.0     NaN  failed
    """
    parts = [
        _seen(rewards, "bandit", "reward"),
        _played(failed, "failed"),
        _seen(answers, "expert", "answer"),
        _played(pending, "pending"),
    ]
    d = domain.dimension
    columns: dict[str, Any] = {"time": np.concatenate([part["time"] for part in parts])}
    points = np.concatenate([part["X"] for part in parts])
    decode = getattr(domain, "decode", None)
    if callable(decode):
        named = decode(points)
        columns |= {str(name): named[name].to_numpy() for name in named.columns}
    else:
        columns |= {f"x{j}": points[:, j] for j in range(d)}
    for name in ("reward", "variance", "source", "kind"):
        columns[name] = np.concatenate([part[name] for part in parts])
    return pd.DataFrame(columns).sort_values("time", kind="stable", ignore_index=True)


def _seen(seen: Observations, source: str, kind: str) -> dict[str, Any]:
    n = len(seen)
    return {
        "time": seen.t,
        "X": seen.X,
        "reward": seen.y,
        "variance": seen.variance,
        "source": np.full(n, source, dtype=object),
        "kind": np.full(n, kind, dtype=object),
    }


def _played(plays: Plays, kind: str) -> dict[str, Any]:
    n = len(plays)
    return {
        "time": plays.t,
        "X": plays.X,
        "reward": np.full(n, np.nan),
        "variance": np.full(n, np.nan),
        "source": np.full(n, "bandit", dtype=object),
        "kind": np.full(n, kind, dtype=object),
    }
