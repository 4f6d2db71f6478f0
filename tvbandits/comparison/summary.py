"""Tables out of the rows of a comparison, and the references they are read against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student

from tvbandits.comparison.setup import limits_of
from tvbandits.core.candidates import Candidates
from tvbandits.core.protocols import Problem
from tvbandits.datasets.tables.references import References, references
from tvbandits.validation import several, whole_number

Row = dict[str, Any]
# Problem, policy and seed of a run.
Key = tuple[str, str, int]


# In the column `confidence`, of a policy that has no width.
NO_WIDTH = "none"


# Columns of `summarise`.
SUMMARY = [
    *("problem", "policy", "confidence", "seeds", "horizon"),
    *("average_regret", "average_regret_sd", "average_regret_ci95", "last_fifth_regret"),
    *("queries_per_step", "answered_per_step", "seconds_per_step"),
]

# Columns of rows of which it has the mean; the last two are not always there.
A_STEP = ("queries", "answered", "seconds", "violations", "move_cost")


# Of the largest regret of a table, what is no more than rounding.
ROUNDING = 1e-12


def regret_texts(values: Sequence[float], decimals: int = 3) -> list[str]:
    """Regrets of one problem as they are printed, whatever their unit.

    There are decimals where these show enough digits, and three significant digits elsewhere; a dash
    stands for NaN.

    Examples
    --------
    >>> from tvbandits.comparison.summary import regret_texts
    >>> print(*regret_texts([12.3456, 0.5, 0.0123, 0.0]))
    12.346 0.500 0.0123 0.000
    >>> print(*regret_texts([1.234e-6, 5e-8, 0.0, float("nan")]))
    1.23e-06 5e-08 0.000 -
    """
    largest = max((abs(value) for value in values if np.isfinite(value)), default=0.0)
    found = []
    for value in values:
        size = 0.0 if abs(value) <= ROUNDING * largest else abs(value)
        if np.isnan(value):
            found.append("-")
        elif size == 0.0 or 0.1 <= size < 1e6:
            found.append(f"{value if size else 0.0:.{decimals}f}")
        else:
            found.append(f"{value:.3g}")
    return found


def summarise(rows: Iterable[Row] | pd.DataFrame) -> pd.DataFrame:
    """One line for each problem and policy, with the columns `SUMMARY`, in the order of the rows.

    `average_regret` is the mean over seeds of R_T / T, `average_regret_sd` its deviation over seeds,
    `average_regret_ci95` the half-width of its 95% t-interval; `last_fifth_regret` is the mean regret
    of the last fifth of the steps. Deviation and interval are NaN for a single seed. Where a step plays
    several points, regret is a mean over plays, and what is said per step is counted once a step. Where
    a problem has limits, `violations_per_step` says how many of them a play violates on average; where
    moves cost something, `move_cost_per_step` says how much, which is no part of the regret.

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
    table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
    groups = one_width(table).groupby(["problem", "policy", "confidence"], sort=False)
    columns = [*SUMMARY, *[f"{name}_per_step" for name in A_STEP[3:] if name in table]]
    return pd.DataFrame([_summary(key, group) for key, group in groups], columns=columns)


def one_width(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows in which the width is "by seed" where a policy finds one for every seed: it is one policy."""
    place = [rows["problem"], rows["policy"]]
    alike = rows["confidence"].groupby(place).transform("nunique") == 1
    widths = rows["confidence"].groupby([*place, rows["seed"]]).transform("nunique")
    given = widths.groupby(place).transform("max") > 1
    return rows.assign(confidence=rows["confidence"].where(alike | given, "by seed"))


def _summary(key: Any, group: pd.DataFrame) -> Row:
    by_seed = group.groupby("seed")["regret"].mean()
    horizon = int(group["t"].max())
    last = group[group["t"] > horizon - max(horizon // 5, 1)]
    problem, policy, confidence = key
    return {
        "problem": problem,
        "policy": policy,
        "confidence": confidence,
        "seeds": len(by_seed),
        "horizon": horizon,
        "average_regret": float(by_seed.mean()),
        "average_regret_sd": float(by_seed.std(ddof=1)),  # NaN of one value
        "average_regret_ci95": half_interval(by_seed),
        "last_fifth_regret": float(last["regret"].mean()),
        **{f"{name}_per_step": float(group[name].mean()) for name in A_STEP if name in group},
    }


def half_interval(values: pd.Series[float]) -> float:
    """Half of a 95% t-interval of the mean; NaN of one value alone."""
    n = len(values)
    return float(values.std(ddof=1) * student.ppf(0.975, max(n - 1, 1)) / n**0.5)


def by_run(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean regret over steps: a line a problem and seed, a column a policy, in the order of the rows."""
    again = rows.duplicated(["problem", "policy", "seed", "t"])
    if again.any():
        name = rows.loc[again, "policy"].iloc[0]
        raise ValueError(f'"{name}" was played several times with one seed: give rows of one width')
    runs = rows.groupby(["problem", "policy", "seed"], sort=False)["regret"].mean().reset_index()
    table = runs.pivot(index=["problem", "seed"], columns="policy", values="regret")
    return table[list(dict.fromkeys(runs["policy"]))]


def paired(rows: Iterable[Row] | pd.DataFrame, reference: str | None = None) -> pd.DataFrame:
    """Differences in mean regret of each policy to `reference`, paired by seed, with 95% t-intervals.

    What seeds have in common is taken out: an interval that does not reach 0 tells two policies apart,
    also where their own intervals overlap.

    Parameters
    ----------
    rows : rows of a comparison
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
    >>> from tvbandits.comparison.summary import paired
    >>> from tvbandits.datasets import DriftingBump
    >>> rows = compare(DriftingBump(candidates=51, horizon=20), ["uniform", "eps-greedy"], seeds=3)
    >>> print(paired(rows, "uniform")[["policy", "reference", "seeds"]])
           policy reference  seeds
    0  eps-greedy   uniform      3
    """
    table = by_run(rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows))
    if reference is not None and reference not in table:
        raise ValueError(f'"{reference}" was not played; there are: {", ".join(table.columns)}')
    found = []
    for problem, part in table.groupby(level="problem", sort=False):
        beside = str(part.mean().idxmin()) if reference is None else reference
        for policy in table.columns:
            less = (part[policy] - part[beside]).dropna()
            n = len(less)
            if policy == beside or n == 0:
                continue
            found.append((problem, policy, beside, n, float(less.mean()), half_interval(less)))
    columns = ["problem", "policy", "reference", "seeds", "difference", "ci95"]
    return pd.DataFrame(found, columns=columns)


class Panel(NamedTuple):
    """What is shown together: rows, or lines of a summary, of one problem."""

    problem: str
    width: str
    """In words: that of all policies that have one, or "several widths"."""
    rows: pd.DataFrame


def panels_of(table: pd.DataFrame) -> list[Panel]:
    """One panel a problem; one a problem and width where a policy was played with several of them."""
    found: list[Panel] = []
    table = one_width(table) if "seed" in table else table
    for problem, group in table.groupby("problem", sort=False):
        compared = bool((group.groupby("policy")["confidence"].nunique() > 1).any())
        widths = [width for width in group["confidence"].unique() if width != NO_WIDTH]
        # Who has no width belongs into every panel.
        parts = [group[group["confidence"].isin([width, NO_WIDTH])] for width in widths]
        parts = parts if compared else [group]
        found += [Panel(str(problem), _width_of(part), part) for part in parts]
    return found


def _width_of(table: pd.DataFrame) -> str:
    widths = [width for width in table["confidence"].unique() if width != NO_WIDTH]
    if len(widths) > 1:
        return "several widths"
    return f"width {widths[0]}" if widths else "no width"


def problem_references(
    problem: Problem, seeds: int | Sequence[int] = 1, horizon: int | None = None
) -> References:
    """Average regret of players without a model on a problem, as a mean over its realisations.

    A box, or a very large domain, is represented by 1000 uniform points, and regret is still measured
    from the best of the whole domain. Under limits they know where these hold, and keep to it; where
    they hold nowhere, all is allowed.
    """
    realise = getattr(problem, "realise", None)
    chosen = as_seeds(seeds) if realise is not None else [0]
    found = np.array([_references(realise(s) if realise else problem, horizon) for s in chosen])
    return References(*found.mean(axis=0).tolist())


def _references(problem: Problem, horizon: int | None) -> References:
    # A reward that stands still is known after two steps.
    length = 2 if problem.variation == 0.0 else horizon or problem.horizon
    steps = range(1, min(length, horizon or length) + 1)
    domain = problem.domain
    if isinstance(domain, Candidates) and len(domain) * len(steps) <= 20_000_000:
        points = domain.X
    else:
        points = domain.sample(1000, np.random.default_rng(0))
    values = np.array([problem.value(points, float(t)) for t in steps])
    allowed = np.ones(values.shape, dtype=bool)
    limits = limits_of(problem)
    for row, t in zip(allowed, steps, strict=True):
        for limit in limits:
            row &= limit.holds(problem.outcomes(points, float(t))[limit.name])  # type: ignore[attr-defined]
        row |= not row.any()
    best = np.where(allowed, values, -np.inf).max(axis=1)
    missed = float(np.mean([problem.best(float(t)) for t in steps]) - best.mean())
    found = references(values, allowed)
    return References(*(value + missed for value in found))


def counted(numbers: Iterable[int], noun: str) -> str:
    """Numbers in a title: "1 seed", "5 seeds", or "1-5 seeds" where they differ."""
    found = list(numbers)
    low, high = min(found), max(found)
    number = f"{high}" if low == high else f"{low}-{high}"
    return f"{number} {noun}{'' if high == 1 else 's'}"


# Most seeds of a comparison.
MOST_SEEDS = 1_000_000


def as_seeds(seeds: int | Sequence[int]) -> list[int]:
    """The seeds themselves: 0, ..., n - 1 for a number n."""
    if not isinstance(seeds, Iterable):
        return list(range(whole_number("seeds", seeds, at_most=MOST_SEEDS)))
    listed = several("seeds", seeds, "a whole number, or a sequence of whole numbers")
    chosen = [whole_number("each of seeds", seed, at_least=0) for seed in listed]
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"seeds must be at least one, and different, got {chosen}")
    return chosen
