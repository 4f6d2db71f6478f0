"""NAS-Bench-101 as in [BB]: architectures of networks and their accuracy, from a table of one's own.

No table comes with the package. That of Ying, Klein, Christiansen, Real, Murphy and Hutter (2019),
"NAS-Bench-101: towards reproducible neural architecture search", holds 423,624 cells; [BB] appendix D.2
plays on those with exactly four inner nodes, each a 3x3 convolution or a 3x3 max-pooling. A cell is
known by the 19 digits of [BB]: the upper half of its adjacency matrix (6 x 6: input, four inner nodes,
output), row by row, and a digit for each inner node, 1 for a convolution and 0 for a pooling.

The benchmark has one cell of each isomorphism class, with 9 edges at the most, all of whose nodes lie
between input and output. `cells` enumerates them: there are 12,416, the A of [BB].

References
----------
D. Calandriello, L. Carratino, A. Lazaric, M. Valko and L. Rosasco. Near-linear time Gaussian process
    optimization with adaptive batching and resparsification. ICML 2020. ([BB])
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import RBF

from tvbandits.datasets.finite import noise_within
from tvbandits.datasets.table_problem import TableProblem
from tvbandits.datasets.tables.readings import (
    Form,
    Source,
    finite_column,
    merge_rows,
    naming_source,
    read_table,
)
from tvbandits.domains.problem import NamedProblem
from tvbandits.validation import (
    Array,
    check_optional,
    clean,
    noise_variance_number,
    positive_number,
    whole_number,
)

Digits = NDArray[np.int64]

NODES = 6  # input, four inner nodes, output
ROWS, COLUMNS = np.triu_indices(NODES, 1)
EDGES = len(ROWS)
INNER = NODES - 2
MOST_EDGES = 9  # Ying et al. 2019, section 2.1
CODE = "19 digits 0 or 1: 15 for edges, then 4 for inner nodes"

FORM = Form(
    {
        "architecture": ("architecture", "code", "architecture_code"),
        "accuracy": ("accuracy", "validation_accuracy", "final_validation_accuracy"),
    }
)


def nas_bench(
    source: Source,
    *,
    bandwidth: float = 100.0,
    horizon: int = 10_000,
    noise_variance: float | None = None,
) -> TableProblem:
    """Find the most accurate of the network architectures in a table, as [BB] does among 12,416.

    A row is a training: the code of an architecture and the accuracy that it reached. Rows of one code
    are one candidate, with their mean as reward. ([BB] returns one of three trainings at random; here a
    reward has Gaussian noise of their variance.) Inputs are those of [BB] D.2: the edges without the
    first and the last, which every cell has, and the inner nodes; each of the two parts is divided by
    its largest norm, so that it has at most unit norm.

    Parameters
    ----------
    source : path or DataFrame
        The table, or a CSV or Parquet file of it with a header: architecture (19 digits, see
        `tvbandits.datasets.network_architectures`) and accuracy, from 0 to 1.
    bandwidth : float
        Length scale of the recommended RBF kernel. [BB] has 100, and 125 with an initial sample.
    horizon : int
        Steps of a run.
    noise_variance : float, optional
        That of an accuracy; the variance of trainings of one architecture around their means, and 1e-4
        of the variance of all accuracies where each has one training.

    Raises
    ------
    ValueError
        If the table cannot be read, a column is missing, or a code or an accuracy cannot be one.

    Examples
    --------
    >>> from tvbandits.datasets import nas_bench, simulate_nas_bench
    >>> simulate_nas_bench(seed=0, architectures=200).to_csv("cells.csv", index=False)
    >>> print(nas_bench("cells.csv", horizon=300))
    nas-bench: 200 architectures, 600 trainings; accuracies from 0.790 to 0.947
    """
    positive_number("bandwidth", bandwidth)
    whole_number("horizon", horizon)
    check_optional(noise_variance_number, "noise_variance", noise_variance)
    frame = read_table(source)
    with naming_source(source):
        codes, accuracies = _columns(frame)
        parts = codes[:, 1 : EDGES - 1].astype(float), codes[:, EDGES:].astype(float)
        inputs = [part / max(float(np.linalg.norm(part, axis=1).max()), 1.0) for part in parts]
        points, means, which = merge_rows(np.column_stack(inputs), accuracies)
        low, high = float(means.min()), float(means.max())
        if low == high:
            raise ValueError(
                f"accuracy is {low:g} for every architecture: there is nothing to find"
            )
    noise = noise_within(accuracies, means, which) if noise_variance is None else noise_variance
    return TableProblem(
        values=means[None],
        points=points,
        name="nas-bench",
        unit="accuracy",
        noise_variance=noise,
        kernel=RBF(float(bandwidth)),
        labels=tuple(
            "".join(map(str, code)) for code in codes[np.unique(which, return_index=True)[1]]
        ),
        steps=horizon,
        summary=(
            f"{len(means)} architectures, {len(accuracies)} trainings; "
            f"accuracies from {low:.3f} to {high:.3f}"
        ),
    )


def _columns(frame: pd.DataFrame) -> tuple[Digits, Array]:
    """Return codes (n, 19) and accuracies (n,) of a table."""
    if missing := FORM.missing(frame.columns):
        have = ", ".join(clean(str(name)) for name in frame.columns)
        raise ValueError(
            f"not a nas-bench table: columns missing: {', '.join(missing)}; it needs architecture "
            f"({CODE}) and accuracy (from 0 to 1), got {have}"
        )
    if frame.empty:
        raise ValueError("the table has a header and no rows")
    names = FORM.match(frame.columns)
    codes = _digits(frame[names["architecture"]], names["architecture"])
    accuracies = finite_column(frame[names["accuracy"]], names["accuracy"])
    wrong = (accuracies < 0.0) | (accuracies > 1.0)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{names['accuracy']} must be from 0 to 1, got {accuracies[row]:g} in row {row + 1} of "
            f"{len(wrong)}: divide percentages by 100"
        )
    return codes, accuracies


def _digits(column: pd.Series[Any], name: str) -> Digits:
    """Return the digits (n, 19) of a column of codes."""
    texts = [str(code).strip() for code in column]
    for row, code in enumerate(texts):
        if len(code) != EDGES + INNER or set(code) - {"0", "1"}:
            raise ValueError(
                f"{name} must be {CODE}; got {clean(code)!r} in row {row + 1} of {len(texts)}: write "
                "the column as text, since spreadsheets round long numbers"
            )
    codes = np.array([list(code) for code in texts]).astype(np.int64)
    matrices = _adjacency(codes[:, :EDGES])
    for way, axis in (("into", 1), ("out of", 2)):
        without = matrices.sum(axis=axis)[:, 1:-1] == 0
        if without.any():
            row, node = np.argwhere(without)[0]
            raise ValueError(
                f"{name} must have an edge into and out of each inner node; got {texts[row]} in row "
                f"{row + 1} of {len(texts)}, with none {way} inner node {node + 1}: the first 15 "
                "digits are the upper half of the adjacency matrix, row by row"
            )
    return codes


def _adjacency(edges: Digits) -> Digits:
    """Return adjacency matrices (n, 6, 6) of the upper halves (n, 15)."""
    matrices = np.zeros((len(edges), NODES, NODES), dtype=np.int64)
    matrices[:, ROWS, COLUMNS] = edges
    return matrices


def cells() -> Digits:
    """Return the code of one cell of each isomorphism class, shape (12416, 19), in rising order.

    Examples
    --------
    >>> from tvbandits.datasets.network_architectures import cells
    >>> codes = cells()
    >>> print(len(codes), *codes[0])
    12416 1 0 0 0 0 1 0 0 0 1 0 0 1 0 1 0 0 0 0
    """
    free = np.arange(2 ** (EDGES - 2))
    edges = np.ones((len(free), EDGES), dtype=np.int64)  # the first and the last are always there
    edges[:, 1:-1] = free[:, None] >> np.arange(EDGES - 3, -1, -1) & 1
    matrices = _adjacency(edges)
    degrees = np.concatenate([matrices.sum(axis=axis)[:, 1:-1] for axis in (1, 2)], axis=1)
    inside = (degrees > 0).all(axis=1)
    matrices = matrices[inside & (edges.sum(axis=1) <= MOST_EDGES)]
    nodes = np.arange(2**INNER)[:, None] >> np.arange(INNER - 1, -1, -1) & 1
    digits = 2 ** np.arange(EDGES + INNER - 1, -1, -1)
    least = np.full((len(matrices), len(nodes)), 2 ** (EDGES + INNER))
    for inner in permutations(range(INNER)):
        order = np.array([0, *(1 + node for node in inner), NODES - 1])
        moved = matrices[:, order][:, :, order]
        forward = (np.tril(moved) == 0).all(
            axis=(1, 2)
        )  # edges still go from lower to higher nodes
        key = (moved[:, ROWS, COLUMNS] @ digits[:EDGES])[:, None]
        key = key + nodes[:, list(inner)] @ digits[EDGES:]
        least[forward] = np.minimum(least, key)[forward]
    return np.unique(least)[:, None] >> np.arange(EDGES + INNER - 1, -1, -1) & 1


def simulate_nas_bench(seed: int = 0, architectures: int = 500, trainings: int = 3) -> pd.DataFrame:
    """Return a made-up table of the form that `nas_bench` reads; its accuracies are no measurements.

    The accuracy of a cell is 0.95 - 0.03 exp(-0.7 z), at least 0.1, where z is standardised over all
    cells: normal weights for digits and for pairs of them. A training has a deviation of 0.003.

    Parameters
    ----------
    seed : int
    architectures : int
        How many of the 12,416 cells, drawn without replacement.
    trainings : int
        Rows for each of them.

    Returns
    -------
    table : DataFrame
        Columns architecture and accuracy, of `architectures` times `trainings` rows.

    Examples
    --------
    >>> from tvbandits.datasets import simulate_nas_bench
    >>> print(simulate_nas_bench(architectures=2, trainings=1).shape)
    (2, 2)
    """
    whole_number("seed", seed, at_least=0)
    codes = cells()
    whole_number("architectures", architectures, at_most=len(codes))
    whole_number("trainings", trainings)
    rng = np.random.default_rng(seed)
    size = codes.shape[1]
    linear, pairs = rng.standard_normal(size), rng.standard_normal((size, size)) / size**0.5
    score = codes @ linear + ((codes @ pairs) * codes).sum(axis=1)
    score = (score - score.mean()) / score.std()
    accuracy = np.maximum(0.95 - 0.03 * np.exp(-0.7 * score), 0.1)
    rows = np.repeat(np.sort(rng.permutation(len(codes))[:architectures]), trainings)
    noise = 0.003 * rng.standard_normal(len(rows))
    return pd.DataFrame(
        {
            "architecture": ["".join(map(str, code)) for code in codes[rows]],
            "accuracy": np.clip(accuracy[rows] + noise, 0.0, 1.0),
        }
    )


PROBLEMS = (
    NamedProblem(
        "nas-bench", nas_bench, "a table of network architectures and their accuracy", files=1
    ),
)
