"""What is measured besides regret at plays: the held action, ranks over problems, profiles, pairs.

[De] = J. Demsar. Statistical comparisons of classifiers over multiple data sets. JMLR 7, 2006. (mean
ranks, the critical difference of Nemenyi)
[DM] = E. Dolan and J. More. Benchmarking optimization software with performance profiles. Mathematical
Programming 91, 2002.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, rankdata, studentized_range
from scipy.stats import t as student

from tvbandits.comparison.summary import Row
from tvbandits.core.arrays import Array, whole_number
from tvbandits.core.protocols import Problem


def held_regret(
    problem: Problem, rows: Sequence[Row], *, delay: float = 0.0, parts: int = 4
) -> float:
    """Time-average regret of the action that is held, over the time of a run.

    The point of step s is held from s + `delay` until that of the next step takes its place; before the
    first one nothing is charged. The integral of best(t) - value(x_held, t) over time is taken by
    `parts` midpoints a step. Where a problem is known at whole steps alone, it stands still between
    them.

    Parameters
    ----------
    problem : Problem
        The realisation that was played.
    rows : sequence of dict
        Of one run, with the columns t and x0, ....
    delay : float
        Time from an ask to its application, at least 0 and below 1.
    parts : int

    Raises
    ------
    ValueError
        If the delay is out of its range.
    """
    whole_number("parts", parts)
    if not 0.0 <= delay < 1.0:
        raise ValueError(f"delay must be at least 0 and below 1, got {delay}")
    begin = getattr(problem, "begin", None)
    world = problem if begin is None else begin()
    wear = getattr(world, "wear", None)
    points = np.array([[row[f"x{j}"] for j in range(problem.domain.dimension)] for row in rows])
    times = [float(row["t"]) for row in rows]
    moves = wear is None and _is_known_between(world, points[:1], times)
    total, charged = 0.0, 0.0
    for i, start in enumerate(times):
        end = times[i + 1] if i + 1 < len(times) else start + 1.0
        for k in range(parts):
            now = start + (end - start) * (k + 0.5) / parts
            held = i if now >= start + delay else i - 1
            if held < 0:
                continue
            when = now if moves and now <= times[-1] else start
            width = (end - start) / parts
            value = float(world.value(points[held : held + 1], when)[0])
            total, charged = total + width * (world.best(when) - value), charged + width
        if wear is not None:
            wear(points[i : i + 1])
    return total / charged if charged else math.nan


def _is_known_between(problem: Problem, X: Array, times: Sequence[float]) -> bool:
    """Whether a problem says what happens between two steps."""
    if len(times) < 2:
        return False
    try:
        problem.value(X, (times[0] + times[1]) / 2)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Ranks:
    """Ranks of k policies over N problems; 1 is the best.

    Attributes
    ----------
    mean : Series
        By policy, the best first.
    critical_difference : float
        Mean ranks that differ by less do not differ at the 5% level (Nemenyi); NaN for one problem or
        policy.
    p_value : float
        That all are alike (Friedman); NaN for fewer than 3 policies or 2 problems.
    problems : int
    """

    mean: pd.Series[float]
    critical_difference: float
    p_value: float
    problems: int


def by_problem(rows: pd.DataFrame, column: str = "regret") -> pd.DataFrame:
    """Mean over steps and seeds, a line a problem and a column a policy.

    Only seeds that all policies of the problem have played count, so that policies are paired.
    """
    runs = rows.groupby(["problem", "policy", "seed"], sort=False)[column].mean().reset_index()
    table = runs.pivot(index=["problem", "seed"], columns="policy", values=column).dropna()
    found = table.groupby(level="problem", sort=False).mean()
    return found[list(dict.fromkeys(runs["policy"]))]


def ranks(table: pd.DataFrame, level: float = 0.05) -> Ranks:
    """Mean ranks over the problems of a table (problems x policies), less being better ([De]).

    The critical difference is q sqrt(k (k + 1) / (6 N)), with the quantile q of the studentised range
    over sqrt 2.
    """
    values = np.asarray(table, dtype=np.float64)
    N, k = values.shape
    each = np.array([rankdata(line) for line in values])
    mean = pd.Series(each.mean(axis=0), index=table.columns).sort_values(kind="stable")
    difference = p_value = math.nan
    if N > 1 and k > 1:
        quantile = float(studentized_range.ppf(1 - level, k, np.inf)) / math.sqrt(2)
        difference = quantile * math.sqrt(k * (k + 1) / (6 * N))
    if N > 1 and k > 2:
        p_value = float(friedmanchisquare(*values.T).pvalue)
    return Ranks(mean, difference, p_value, N)


def profile(table: pd.DataFrame, factors: Sequence[float]) -> pd.DataFrame:
    """Share of problems on which a policy's regret is within a factor of the best one's ([DM])."""
    least = table.min(axis=1)
    ratios = table.div(least.where(least > 0, np.nan), axis=0)
    ratios = ratios.where(table.ne(least, axis=0), 1.0).fillna(math.inf)
    return pd.DataFrame({factor: (ratios <= factor).mean() for factor in factors}).T


def paired(rows: pd.DataFrame, reference: str, column: str = "regret") -> pd.DataFrame:
    """Differences of each policy to `reference`, paired by seed, with 95% t-intervals.

    Returns
    -------
    DataFrame
        problem, policy, seeds, difference (of the policy less the reference: positive is worse), ci95.

    Raises
    ------
    ValueError
        If the reference was not played.
    """
    runs = rows.groupby(["problem", "policy", "seed"], sort=False)[column].mean().reset_index()
    table = runs.pivot(index=["problem", "seed"], columns="policy", values=column)
    if reference not in table:
        raise ValueError(f'"{reference}" was not played; there are: {", ".join(table.columns)}')
    found = []
    for problem, part in table.groupby(level="problem", sort=False):
        for policy in dict.fromkeys(runs["policy"]):
            less = (part[policy] - part[reference]).dropna()
            n = len(less)
            if policy == reference or n == 0:
                continue
            spread = float(less.std(ddof=1)) if n > 1 else math.nan
            half = spread * float(student.ppf(0.975, max(n - 1, 1))) / math.sqrt(n)
            found.append((problem, policy, n, float(less.mean()), half))
    return pd.DataFrame(found, columns=["problem", "policy", "seeds", "difference", "ci95"])


def winners(table: pd.DataFrame, ours: Sequence[str]) -> pd.DataFrame:
    """Who wins where: problem, the best policy and its regret, our best one and how much more it has.

    What speaks against ours comes first.
    """
    own = [name for name in table.columns if name.partition(":")[0] in ours]
    lines = []
    for problem, line in table.iterrows():
        best = str(line.idxmin())
        mine = str(line[own].idxmin()) if own else ""
        ratio = float(line[mine] / line[best]) if mine and line[best] > 0 else math.nan
        lines.append((problem, best, float(line[best]), mine, ratio))
    columns = ["problem", "best", "regret", "ours", "times_the_best"]
    found = pd.DataFrame(lines, columns=columns)
    return found.sort_values("times_the_best", ascending=False, kind="stable", ignore_index=True)


def held_table(
    rows: pd.DataFrame, problems: Mapping[str, Problem], *, parts: int = 2
) -> pd.DataFrame:
    """Time-average regret of the held action of each run: problem, policy, seed, held_regret."""
    keys = ["problem", "policy", "seed"]
    runs = dict(iter(rows.groupby(keys, sort=False)))
    found: dict[object, float] = {}
    # A realisation may cost more than all that is done with it: those of one seed follow each other.
    for (problem, seed), part in rows.groupby(["problem", "seed"], sort=False):
        played = problems[str(problem)]
        realise = getattr(played, "realise", None)
        realised = played if realise is None else realise(int(str(seed)))
        for policy in part["policy"].unique():
            records: list[Row] = [
                {str(name): value for name, value in row.items()}
                for row in runs[problem, policy, seed].to_dict(orient="records")
            ]
            found[problem, policy, seed] = held_regret(realised, records, parts=parts)
    lines = [(*key, found[key]) for key in runs]
    return pd.DataFrame(lines, columns=[*keys, "held_regret"])
