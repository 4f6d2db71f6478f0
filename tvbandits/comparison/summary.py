"""Tables of the rows of a comparison, and the references that they are read against.

The rows are one DataFrame, a line for every step of every run, as `compare` returns them. Every table,
picture and page is made from them.

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

# Problem, policy and seed of a run: its label, and the columns that have it.
Key = tuple[str, str, int]
RUN_COLUMNS = ["problem", "policy", "seed"]

# In the column `width`, of a policy that has no width.
NO_WIDTH = "none"

# Columns of `summarise`.
SUMMARY = [
    *("problem", "policy", "width", "seeds", "horizon"),
    *("average_regret", "average_regret_sd", "average_regret_ci95", "last_fifth_regret"),
    *("queries_per_step", "answered_per_step", "cost_per_step", "seconds_per_step"),
]

# Columns of rows of which a summary has the mean over plays; the last two are not always there.
COUNTS = ("queries", "answered", "cost", "seconds", "violations", "move_cost")


# In rows and in the summary, where a comparison sets the size of a batch.
BEST_OF_BATCH = "best_of_batch_regret"


@dataclass(frozen=True)
class Run:
    """One finished run: its label, and a table with a row for every step."""

    problem: str
    policy: str
    seed: int
    rows: pd.DataFrame

    @property
    def key(self) -> Key:
        """The key of the run among all runs."""
        return self.problem, self.policy, self.seed


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one line for each problem and policy, with the columns `SUMMARY`, in the order of the rows.

    `average_regret` is the mean over seeds of R_T / T, `average_regret_sd` its deviation over seeds,
    `average_regret_ci95` the half-width of its 95% t-interval; `last_fifth_regret` is the mean regret
    of the last fifth of the steps. Deviation and interval are NaN for a single seed. Where a step plays
    several points, regret is a mean over plays, and the columns per step count once a step. Where
    a problem has limits, `violations_per_step` says how many of them a play violates on average; where
    moves cost something, `move_cost_per_step` says how much, which is no part of the regret;
    `cost_per_step` is that of questions. Where a comparison sets the size of a batch,
    `best_of_batch_regret` is the mean regret of the best point of each.

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
    place = SUMMARY[:3]
    rows = one_width(rows)
    groups = rows.groupby(place, sort=False)
    horizon = groups["t"].transform("max")
    late = rows[rows["t"] > horizon - np.maximum(horizon // 5, 1)]
    of_seeds = (
        rows.groupby([*place, "seed"], sort=False)["regret"].mean().groupby(place, sort=False)
    )
    table = pd.DataFrame(
        {
            "seeds": of_seeds.size(),
            "horizon": groups["t"].max(),
            "average_regret": of_seeds.mean(),
            "average_regret_sd": of_seeds.std(),
            "average_regret_ci95": of_seeds.agg(half_interval),
            "last_fifth_regret": late.groupby(place, sort=False)["regret"].mean(),
            **{f"{name}_per_step": groups[name].mean() for name in COUNTS if name in rows},
        }
    )
    if BEST_OF_BATCH in rows:
        table[BEST_OF_BATCH] = groups[BEST_OF_BATCH].mean()
    return table.reset_index()


def one_width(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows whose width is "by seed" where a policy finds one for every seed: it is one policy."""
    place = [rows["problem"], rows["policy"]]
    alike = rows["width"].groupby(place).transform("nunique") == 1
    widths = rows["width"].groupby([*place, rows["seed"]]).transform("nunique")
    several_a_seed = widths.groupby(place).transform("max") > 1
    kept = rows["width"].where(alike | several_a_seed, "by seed")
    return rows.assign(width=kept)


def half_interval(values: pd.Series[float]) -> float:
    """Return half of a 95% t-interval of the mean; NaN for one value alone."""
    n = len(values)
    return float(values.std() * student.ppf(0.975, max(n - 1, 1)) / n**0.5)


def by_run(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean regrets over steps: a line a problem and seed, a column a policy, in their order."""
    again = rows.duplicated([*RUN_COLUMNS, "t"])
    if again.any():
        name = rows.loc[again, "policy"].iloc[0]
        raise ValueError(f'"{name}" was played several times with one seed: give rows of one width')
    runs = rows.groupby(RUN_COLUMNS, sort=False)["regret"].mean().reset_index()
    table = runs.pivot(index=["problem", "seed"], columns="policy", values="regret")
    return table[list(dict.fromkeys(runs["policy"]))]


def pairwise_differences(rows: pd.DataFrame, reference: str | None = None) -> pd.DataFrame:
    """Return the differences in mean regret to `reference`, paired by seed, with 95% t-intervals.

    What seeds have in common is taken out: an interval that does not reach 0 tells two policies apart,
    also where their own intervals overlap.

    Parameters
    ----------
    rows : DataFrame
        The rows of a comparison.
    reference : str, optional
        A policy; that of the least mean of each problem by default.

    Returns
    -------
    DataFrame
        problem, policy, reference, seeds, difference (of the policy less the reference: positive is
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


def by_problem(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean regrets over steps and seeds, a line a problem and a column a policy.

    Only seeds that all policies of the problem have played count, so that policies are paired.
    """
    return by_run(rows).dropna().groupby(level="problem", sort=False).mean()


def mean_ranks(table: pd.DataFrame) -> Ranks:
    """Rank the policies of a table (problems x policies) on each problem, less being better ([De]).

    The critical difference is q sqrt(k (k + 1) / (6 N)), with the quantile q of the studentised range
    over sqrt 2.
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
    """Return the share of problems on which a policy is within a factor of the best one ([DM])."""
    least = table.min(axis=1)
    ratios = table.div(least.where(least > 0, np.nan), axis=0)
    ratios = ratios.where(table.ne(least, axis=0), 1.0).fillna(math.inf)
    return pd.DataFrame({factor: (ratios <= factor).mean() for factor in factors}).T


def winners(table: pd.DataFrame, ours: Sequence[str]) -> pd.DataFrame:
    """Return who wins where: problem, best policy and its regret, our best one and the ratio of the two.

    The problems where ours is beaten most come first.
    """
    least = table.min(axis=1)
    own = table[[name for name in table.columns if name.partition(":")[0] in ours]]
    lines = pd.DataFrame({"best": table.idxmin(axis=1), "regret": least, "ours": ""})
    if len(own.columns):
        lines["ours"] = own.idxmin(axis=1)
    lines["times_the_best"] = own.min(axis=1) / least.where(least > 0)
    lines = lines.rename_axis("problem").reset_index()
    return lines.sort_values("times_the_best", ascending=False, kind="stable", ignore_index=True)


class Panel(NamedTuple):
    """Rows, or lines of a summary, of one problem, which are shown together."""

    problem: str
    width: str
    """The width of all policies that have one, in words, or "several widths"."""
    rows: pd.DataFrame


def panels_of(table: pd.DataFrame) -> list[Panel]:
    """Return one panel a problem; one a problem and width where a policy was played with several."""
    panels: list[Panel] = []
    table = one_width(table) if "seed" in table else table
    for problem, group in table.groupby("problem", sort=False):
        widths = [width for width in group["width"].unique() if width != NO_WIDTH]
        if (group.groupby("policy")["width"].nunique() > 1).any():
            # Who has no width belongs into every panel.
            parts = [group[group["width"].isin([width, NO_WIDTH])] for width in widths]
            shown = zip([f"width {width}" for width in widths], parts, strict=True)
            panels += [Panel(str(problem), *each) for each in shown]
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
    """Return the average regret of players without a model, as a mean over a problem's realisations.

    They choose so many `points` a step, one by default.

    A box, or a very large domain, is represented by 1000 uniform points, and regret is still measured
    from the best of the whole domain. Under limits the players know where these hold, and keep to them;
    where they hold nowhere, all is allowed.
    """
    environment = Environment.of(problem)
    numbers = as_seeds(seeds) if environment.is_random else [0]
    each = [_references(environment.realise(seed), horizon, points or 1) for seed in numbers]
    means: dict[str, Any] = {
        name: float(np.mean([getattr(one, name) for one in each]))
        for name, value in each[0]._asdict().items()
        if name != "points" and value is not None
    }
    return each[0]._replace(**means)


def _references(environment: Environment, horizon: int | None, count: int) -> References:
    problem, domain = environment.problem, environment.problem.domain
    # A reward that stands still is known after two steps.
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
    """Return numbers for a title: "1 seed", "5 seeds", or "1-5 seeds" where they differ."""
    values = list(numbers)
    low, high = min(values), max(values)
    number = f"{high}" if low == high else f"{low}-{high}"
    return f"{number} {noun}{'' if high == 1 else 's'}"


def regret_texts(
    values: Sequence[float], decimals: int = 3, *, rounding: float = 1e-12
) -> list[str]:
    """Return regrets of one problem as they are printed, whatever their unit.

    There are decimals where these show enough digits, and three significant digits elsewhere; a dash
    stands for NaN. A share of `rounding` of the largest is 0.

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
    """Return the seeds themselves, which are 0, ..., n - 1 for a number n of at most so many."""
    if not isinstance(seeds, Iterable):
        return list(range(whole_number("seeds", seeds, at_most=most)))
    items = as_list("seeds", seeds, "a whole number, or a sequence of whole numbers")
    numbers = [whole_number("each of seeds", seed, at_least=0) for seed in items]
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError(f"seeds must be at least one, and different, got {numbers}")
    return numbers
