"""The table of a comparison in texts, which is the same on the terminal and in the report."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from tvbandits.comparison.summary import (
    BEST_OF_BATCH,
    Panel,
    pairwise_differences,
    regret_texts,
    summarise,
)
from tvbandits.datasets.tables.references import References
from tvbandits.text import format_number
from tvbandits.validation import clean

# Columns of regrets by their headings; the column of `difference` contains `ci95`, too.
REGRETS = {
    "average regret": "average_regret",
    "sd": "average_regret_sd",
    "95% ±": "average_regret_ci95",
    "over the best": "difference",
    "last fifth": "last_fifth_regret",
    "best of batch": BEST_OF_BATCH,
}

# Other columns of a summary by their headings, with functions that format their values.
COUNTS: dict[str, tuple[str, Callable[[float], str]]] = {
    "queries": ("queries_per_step", lambda value: format_number(value, 3)),
    "ms": ("seconds_per_step", lambda value: format_number(1e3 * value, 3)),
    "cost": ("cost_per_step", lambda value: f"{value:.3g}" if value else "-"),
    "violations": ("violations_per_step", "{:.1%}".format),
    "move cost": ("move_cost_per_step", "{:.3g}".format),
}

# Columns that are left out if no policy has a value.
OPTIONAL = ("best of batch", "cost", "violations", "move cost")


def panel_table(panel: Panel) -> pd.DataFrame:
    """Return the table of a panel in texts, with a line per policy and regrets with as many digits."""
    summary = summarise(panel.rows)
    pairs = pairwise_differences(panel.rows).set_index("policy")[["difference", "ci95"]]
    names = [*REGRETS.values(), "ci95"]
    values = summary.join(pairs, on="policy").reindex(columns=names).to_numpy(dtype=float)
    texts = np.reshape(regret_texts(values.ravel().tolist()), values.shape)
    regrets: dict[str, Any] = dict(zip(names, texts.T, strict=True))
    intervals = ("" if half == "-" else f" ± {half}" for half in regrets["ci95"])
    regrets["difference"] = [
        difference + interval
        for difference, interval in zip(regrets["difference"], intervals, strict=True)
    ]
    table: dict[str, Any] = {"policy": [clean(str(policy)) for policy in summary["policy"]]}
    if panel.width == "several widths":
        table["width"] = summary["width"]
    table |= {heading: regrets[name] for heading, name in REGRETS.items()}
    for heading, (name, format_value) in COUNTS.items():
        column = summary[name] if name in summary else [math.nan] * len(summary)
        table[heading] = ["-" if math.isnan(value) else format_value(value) for value in column]
    absent = [name for name in OPTIONAL if all(text == "-" for text in table[name])]
    return pd.DataFrame(table).drop(columns=absent)


def reference_text(references: References) -> str:
    """Return a line with the regrets of the model-free references."""
    texts = regret_texts([*references.averages.values()], decimals=2)
    uniform, fixed, last_best, forecast = texts
    n, best_of = references.points, (references.best_of_uniform, references.best_of_fixed)
    if best_of[0] is None or best_of[1] is None:
        return (
            f"references: uniform {uniform}, best fixed point {fixed}, last step's best {last_best}, "
            f"forecast from all readings {forecast}"
        )
    best_uniform, best_fixed = regret_texts(best_of, decimals=2)  # type: ignore[arg-type]
    return (
        f"references: uniform {uniform}, {n} best fixed points {fixed}, last step's {n} best "
        f"{last_best}, "
        f"{n} best of a forecast with all read {forecast}; best of the batch: {n} random points "
        f"{best_uniform}, {n} best fixed points {best_fixed}"
    )
