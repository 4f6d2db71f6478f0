"""Tables of the rows of a comparison, and the regrets of model-free references.

The rows are one DataFrame with a line for every step of every run, as `compare` returns them. Every
table, picture and report is made from them.

[De] = J. Demsar. Statistical comparisons of classifiers over multiple data sets. JMLR 7, 2006. (mean
ranks, the critical difference of Nemenyi)
[DM] = E. Dolan and J. More. Benchmarking optimization software with performance profiles. Mathematical
Programming 91, 2002.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import friedmanchisquare, studentized_range, t as student

from tvbandits.datasets.environment import Environment
from tvbandits.datasets.tables.references import References, references
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.problem import Problem, rewards_at
from tvbandits.text import format_number
from tvbandits.validation import as_list, whole_number

# The key of a run, problem, policy and seed, and the columns with these.
Key = tuple[str, str, int]
RUN_COLUMNS = ["problem", "policy", "seed"]

# The text in the column `width` for a policy without a width.
NO_WIDTH = "none"

# The columns of `summarise`.
SUMMARY = [
    *("problem", "policy", "width", "seeds", "horizon"),
    *("average_regret", "average_regret_sd", "average_regret_ci95", "last_fifth_regret"),
    *("queries_per_step", "answered_per_step", "cost_per_step", "seconds_per_step"),
]

# Columns of rows whose means over plays are in a summary; the last two are optional.
COUNTS = ("queries", "answered", "cost", "seconds", "violations", "move_cost")


# A column of rows and summary that exists if a comparison sets the size of a batch.
BEST_OF_BATCH = "best_of_batch_regret"


@dataclass(frozen=True)
class Run:
    """A finished run, with a table that has a row for every step."""

    problem: str
    policy: str
    seed: int
    rows: pd.DataFrame

    @property
    def key(self) -> Key:
        """Return the key of the run: problem, policy and seed."""
        return self.problem, self.policy, self.seed


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one line for each problem and policy, with the columns `SUMMARY`, in the order of the rows.

    `average_regret` is the mean over seeds of R_T / T, `average_regret_sd` its standard deviation over
    seeds, `average_regret_ci95` the half-width of its 95% t-interval; `last_fifth_regret` is the mean
    regret of the last fifth of the steps. Deviation and interval are NaN for a single seed. If a step
    has several points, regret is a mean over them, and the columns per step count the step once. For a
    problem with limits, `violations_per_step` is the mean number of limits that a play violates. If
    moves cost something, `move_cost_per_step` is their mean cost, which is no part of the regret.
    `cost_per_step` is the cost of expert queries. If a comparison sets the size of a batch,
    `best_of_batch_regret` is the mean regret of the best point of each batch.

    `summarise(rows).to_latex(escape=True, float_format="%.3g")` is a table for LaTeX, by pandas, which
    needs `tvbandits[report]`.

    Examples
    --------
    >>> from tvbandits import compare
    >>> from tvbandits.comparison.summary import summarise
    >>> from tvbandits.datasets import DriftingBump
    >>> rows = compare(DriftingBump(candidates=51, horizon=20), ["uniform"], seeds=2)
    >>> print(summarise(rows)[["policy", "seeds", "queries_per_step"]])
        policy  seeds  queries_per_step
    0  uniform      2               0.0
    """
    keys = SUMMARY[:3]
    rows = merge_widths(rows)
    groups = rows.groupby(keys, sort=False)
    horizon = groups["t"].transform("max")
    last_fifth = rows[rows["t"] > horizon - np.maximum(horizon // 5, 1)]
    regrets = rows.groupby([*keys, "seed"], sort=False)["regret"].mean().groupby(keys, sort=False)
    table = pd.DataFrame(
        {
            "seeds": regrets.size(),
            "horizon": groups["t"].max(),
            "average_regret": regrets.mean(),
            "average_regret_sd": regrets.std(),
            "average_regret_ci95": regrets.agg(half_interval),
            "last_fifth_regret": last_fifth.groupby(keys, sort=False)["regret"].mean(),
            **{f"{name}_per_step": groups[name].mean() for name in COUNTS if name in rows},
        }
    )
    if BEST_OF_BATCH in rows:
        table[BEST_OF_BATCH] = groups[BEST_OF_BATCH].mean()
    return table.reset_index()


def merge_widths(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the width "by seed" for a policy that has one width for each seed.

    Otherwise such a policy would count as several policies.
    """
    keys = [rows["problem"], rows["policy"]]
    is_single = rows["width"].groupby(keys).transform("nunique") == 1
    widths_per_seed = rows["width"].groupby([*keys, rows["seed"]]).transform("nunique")
    are_several = widths_per_seed.groupby(keys).transform("max") > 1
    return rows.assign(width=rows["width"].where(is_single | are_several, "by seed"))


def half_interval(values: pd.Series[float]) -> float:
    """Return half the width of a 95% t-interval of the mean; NaN for a single value."""
    n = len(values)
    return float(values.std() * student.ppf(0.975, max(n - 1, 1)) / n**0.5)


def by_run(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean regrets over steps: a line for each problem and seed, a column for each policy."""
    is_repeated = rows.duplicated([*RUN_COLUMNS, "t"])
    if is_repeated.any():
        name = rows.loc[is_repeated, "policy"].iloc[0]
        raise ValueError(f'"{name}" was played several times with one seed: give rows of one width')
    runs = rows.groupby(RUN_COLUMNS, sort=False)["regret"].mean().reset_index()
    table = runs.pivot(index=["problem", "seed"], columns="policy", values="regret")
    return table[list(dict.fromkeys(runs["policy"]))]


def pairwise_differences(rows: pd.DataFrame, reference: str | None = None) -> pd.DataFrame:
    """Return the differences in mean regret to `reference`, paired by seed, with 95% t-intervals.

    Pairing removes the variation between seeds: if an interval does not contain 0, the two policies
    differ, even if their own intervals overlap.

    Parameters
    ----------
    rows : DataFrame
        The rows of a comparison.
    reference : str, optional
        A policy. None: on each problem, the policy with the smallest mean regret.

    Returns
    -------
    DataFrame
        Columns problem, policy, reference, seeds, difference (policy minus reference: positive is
        worse), ci95.

    Raises
    ------
    ValueError
        If the reference was not played.

    Examples
    --------
    >>> from tvbandits import compare
    >>> from tvbandits.comparison.summary import pairwise_differences
    >>> from tvbandits.datasets import DriftingBump
    >>> rows = compare(DriftingBump(candidates=51, horizon=20), ["uniform", "eps-greedy"], seeds=3)
    >>> print(pairwise_differences(rows, "uniform")[["policy", "reference", "seeds"]])
           policy reference  seeds
    0  eps-greedy   uniform      3
    """
    table = by_run(rows)
    if reference is not None and reference not in table:
        raise ValueError(f'"{reference}" was not played; there are: {", ".join(table.columns)}')
    lines = []
    for problem, part in table.groupby(level="problem", sort=False):
        best = str(part.mean().idxmin()) if reference is None else reference
        differences = part.drop(columns=best).sub(part[best], axis=0)
        for policy, column in differences.items():
            values = column.dropna()
            if len(values):
                mean, half = float(values.mean()), half_interval(values)
                lines.append((problem, policy, best, len(values), mean, half))
    columns = ["problem", "policy", "reference", "seeds", "difference", "ci95"]
    return pd.DataFrame(lines, columns=columns)


@dataclass(frozen=True)
class Ranks:
    """Ranks of k policies over N problems; 1 is the best.

    Attributes
    ----------
    mean : Series
        Mean ranks by policy, the best first.
    critical_difference : float
        Mean ranks that differ by less do not differ at the 5% level (Nemenyi); NaN for one problem or
        policy.
    p_value : float
        P-value of the hypothesis that all policies are equal (Friedman); NaN for fewer than 3 policies
        or 2 problems.
    problems : int
    """

    mean: pd.Series[float]
    critical_difference: float
    p_value: float
    problems: int


def by_problem(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean regrets over steps and seeds, problems x policies.

    Only seeds that all policies have played on a problem count, so that policies are paired.
    """
    return by_run(rows).dropna().groupby(level="problem", sort=False).mean()


def mean_ranks(table: pd.DataFrame) -> Ranks:
    """Rank the policies of a table of regrets (problems x policies) on each problem ([De]).

    The critical difference is q sqrt(k (k + 1) / (6 N)), where q is the quantile of the studentised
    range divided by sqrt 2.
    """
    N, k = table.shape
    mean = table.rank(axis=1).mean().sort_values(kind="stable")
    difference = p_value = math.nan
    if N > 1 and k > 1:
        quantile = float(studentized_range.ppf(0.95, k, np.inf)) / math.sqrt(2)
        difference = quantile * math.sqrt(k * (k + 1) / (6 * N))
    if N > 1 and k > 2:
        p_value = float(friedmanchisquare(*table.to_numpy().T).pvalue)
    return Ranks(mean, difference, p_value, N)


def performance_profile(table: pd.DataFrame, factors: Sequence[float]) -> pd.DataFrame:
    """Return the fraction of problems on which a policy is within a factor of the best one ([DM]).

    `table` has regrets (problems x policies); the result has shape (factors, policies).
    """
    least = table.min(axis=1)
    ratios = table.div(least.where(least > 0, np.nan), axis=0)
    ratios = ratios.where(table.ne(least, axis=0), 1.0).fillna(math.inf)
    return pd.DataFrame({factor: (ratios <= factor).mean() for factor in factors}).T


def winners(table: pd.DataFrame, own_policies: Sequence[str]) -> pd.DataFrame:
    """Return the best policy of each problem, and the best of our own policies.

    The columns are problem, best, regret, ours, times_the_best (the ratio of our regret to the best).
    The problems with the largest ratios come first.
    """
    least = table.min(axis=1)
    own = table[[name for name in table.columns if name.partition(":")[0] in own_policies]]
    lines = pd.DataFrame({"best": table.idxmin(axis=1), "regret": least, "ours": ""})
    if len(own.columns):
        lines["ours"] = own.idxmin(axis=1)
    lines["times_the_best"] = own.min(axis=1) / least.where(least > 0)
    lines = lines.rename_axis("problem").reset_index()
    return lines.sort_values("times_the_best", ascending=False, kind="stable", ignore_index=True)


class Panel(NamedTuple):
    """Rows, or lines of a summary, of one problem that are shown together."""

    problem: str
    width: str
    """A text with the common width of the policies, or "several widths"."""
    rows: pd.DataFrame


def panels_of(table: pd.DataFrame) -> list[Panel]:
    """Return a panel for each problem, or, if a policy has several widths, for each of them."""
    panels: list[Panel] = []
    table = merge_widths(table) if "seed" in table else table
    for problem, group in table.groupby("problem", sort=False):
        widths = [width for width in group["width"].unique() if width != NO_WIDTH]
        if (group.groupby("policy")["width"].nunique() > 1).any():
            # Policies without a width are in every panel.
            panels += [
                Panel(str(problem), f"width {width}", group[group["width"].isin([width, NO_WIDTH])])
                for width in widths
            ]
        else:
            texts = [f"width {width}" for width in widths] or ["no width"]
            width = texts[0] if len(texts) == 1 else "several widths"
            panels.append(Panel(str(problem), width, group))
    return panels


def problem_references(
    problem: Problem,
    seeds: int | Sequence[int] = 1,
    horizon: int | None = None,
    points: int | None = None,
) -> References:
    """Return the average regret of model-free players, as a mean over a problem's realisations.

    They play `points` points in each step, one by default. On a box, or a very large domain, they choose
    among 1000 uniform points, and their regret is relative to the best of the whole domain. On a problem
    with limits, they know which points satisfy them, and play only these; if none does, they play any.
    """
    environment = Environment.of(problem)
    numbers = as_seeds(seeds) if environment.is_random else [0]
    results = [
        _compute_references(environment.realise(seed), horizon, points or 1) for seed in numbers
    ]
    means: dict[str, Any] = {
        name: float(np.mean([getattr(result, name) for result in results]))
        for name, value in results[0]._asdict().items()
        if name != "points" and value is not None
    }
    return results[0]._replace(**means)


def _compute_references(environment: Environment, horizon: int | None, count: int) -> References:
    problem, domain = environment.problem, environment.problem.domain
    # Two steps of a constant reward have the same averages as any longer run.
    length = 2 if problem.variation == 0.0 else horizon or problem.horizon
    steps = range(1, min(length, horizon or length) + 1)
    if isinstance(domain, Candidates) and len(domain) * len(steps) <= 20_000_000:
        points = domain.X
    else:
        points = domain.sample(1000, np.random.default_rng(0))
    values = np.array([rewards_at(problem, points, float(t)) for t in steps])
    allowed = np.ones(values.shape, dtype=bool)
    for row, t in zip(allowed, steps, strict=True):
        outcomes = environment.outcomes(points, float(t))
        for limit in environment.limits:
            row &= limit.holds(outcomes[limit.name])
        row |= not row.any()
    best = np.where(allowed, values, -np.inf).max(axis=1)
    excess = float(np.mean([problem.best(float(t)) for t in steps]) - best.mean())
    return references(values, allowed, count).plus(excess)


def count_text(numbers: Iterable[int], noun: str) -> str:
    """Return the text of counts for a title: "1 seed", "5 seeds", or "1-5 seeds" if they differ."""
    values = list(numbers)
    low, high = min(values), max(values)
    number = f"{high}" if low == high else f"{low}-{high}"
    return f"{number} {noun}{'' if high == 1 else 's'}"


def regret_texts(
    values: Sequence[float], decimals: int = 3, *, rounding: float = 1e-12
) -> list[str]:
    """Return the texts of regrets of one problem, with enough digits whatever their unit.

    Regrets from 0.1 to 1e6 have `decimals` decimals, others three significant digits; a dash stands for
    NaN. Values up to `rounding` times the largest are rounded to 0.

    Examples
    --------
    >>> from tvbandits.comparison.summary import regret_texts
    >>> print(*regret_texts([12.3456, 0.5, 0.0123, 0.0]))
    12.346 0.500 0.0123 0.000
    >>> print(*regret_texts([1.234e-6, 5e-8, 0.0, float("nan")]))
    1.23e-06 5e-08 0.000 -
    """
    largest = max((abs(value) for value in values if np.isfinite(value)), default=0.0)
    texts = []
    for value in values:
        size = 0.0 if abs(value) <= rounding * largest else abs(value)
        if np.isnan(value):
            texts.append("-")
        elif size == 0.0 or 0.1 <= size < 1e6:
            texts.append(f"{value if size else 0.0:.{decimals}f}")
        else:
            texts.append(format_number(value, 3))
    return texts


def as_seeds(seeds: int | Sequence[int], most: int = 1_000_000) -> list[int]:
    """Return the seeds of an argument, which are 0, ..., n - 1 for a number n <= `most`."""
    if not isinstance(seeds, Iterable):
        return list(range(whole_number("seeds", seeds, at_most=most)))
    items = as_list("seeds", seeds, "a whole number, or a sequence of whole numbers")
    numbers = [whole_number("each of seeds", seed, at_least=0) for seed in items]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError(f"seeds must be at least one number, all different, got {numbers}")
    return numbers
