"""NAS-Bench-101 as in [BB]: network architectures and their accuracies, from a table of your own.

No table comes with the package. The table of Ying, Klein, Christiansen, Real, Murphy and Hutter (2019),
"NAS-Bench-101: towards reproducible neural architecture search", contains 423,624 cells. The experiment
of [BB] appendix D.2 uses the cells with exactly four inner nodes, each a 3x3 convolution or a 3x3
max-pooling. As in [BB], the code of a cell has 19 digits: the upper half of its adjacency matrix (6 x 6:
input, four inner nodes, output), row by row, and a digit for each inner node, 1 for a convolution and 0
for a pooling.

The benchmark has one cell of each isomorphism class, with at most 9 edges, all of whose nodes lie on a
path from input to output. `enumerate_cells` returns them: there are 12,416, which is A in [BB].

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

from tvbandits.datasets.finite import variance_within_groups
from tvbandits.datasets.table_problem import TableProblem
from tvbandits.datasets.tables.readings import (
    Form,
    Source,
    finite_column,
    merge_rows,
    name_source_in_errors,
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

    A row is a training run: the code of an architecture and the accuracy that it reached. Rows with the
    same code are one candidate, whose reward is their mean. ([BB] returns one of three trainings at
    random; here a reward has Gaussian noise with the variance of trainings.) Inputs are those of [BB]
    D.2: the edges, without the first and the last, which every cell has, and the inner nodes. Each of
    these two parts is divided by its largest norm over the cells.

    Parameters
    ----------
    source : path or DataFrame
        A table with the columns architecture (19 digits, see `tvbandits.datasets.network_architectures`)
        and accuracy (from 0 to 1), or the path of such a CSV or Parquet file.
    bandwidth : float
        Length scale of the recommended RBF kernel. [BB] uses 100, and 125 with an initial sample.
    horizon : int
        Steps of a run.
    noise_variance : float, optional
        Noise variance of an accuracy. None: the variance of the trainings of an architecture around
        their mean, or 1e-4 of the variance of all accuracies if each architecture has one training.

    Raises
    ------
    ValueError
        If the table cannot be read, a column is missing, or a code or an accuracy is not valid.

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
    with name_source_in_errors(source):
        codes, accuracies = _parse_table(frame)
        parts = codes[:, 1 : EDGES - 1].astype(float), codes[:, EDGES:].astype(float)
        inputs = [part / max(float(np.linalg.norm(part, axis=1).max()), 1.0) for part in parts]
        points, means, groups = merge_rows(np.column_stack(inputs), accuracies)
        low, high = float(means.min()), float(means.max())
        if low == high:
            raise ValueError(
                f"accuracy is {low:g} for every architecture: there is nothing to find"
            )
    if noise_variance is None:
        noise_variance = variance_within_groups(accuracies, means, groups)
    return TableProblem(
        values=means[None],
        points=points,
        name="nas-bench",
        unit="accuracy",
        noise_variance=noise_variance,
        kernel=RBF(float(bandwidth)),
        labels=tuple(
            "".join(map(str, code)) for code in codes[np.unique(groups, return_index=True)[1]]
        ),
        steps=horizon,
        summary=(
            f"{len(means)} architectures, {len(accuracies)} trainings; "
            f"accuracies from {low:.3f} to {high:.3f}"
        ),
    )


def _parse_table(frame: pd.DataFrame) -> tuple[Digits, Array]:
    """Return the codes (n, 19) and accuracies (n,) of a table."""
    if missing := FORM.missing(frame.columns):
        columns = ", ".join(clean(str(name)) for name in frame.columns)
        raise ValueError(
            f"this is not a nas-bench table: columns missing: {', '.join(missing)}; it needs "
            f"architecture ({CODE}) and accuracy (from 0 to 1), got {columns}"
        )
    if frame.empty:
        raise ValueError("the table has a header and no rows")
    names = FORM.match(frame.columns)
    codes = _parse_codes(frame[names["architecture"]], names["architecture"])
    accuracies = finite_column(frame[names["accuracy"]], names["accuracy"])
    wrong = (accuracies < 0.0) | (accuracies > 1.0)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{names['accuracy']} must be from 0 to 1, got {accuracies[row]:g} in row {row + 1} of "
            f"{len(wrong)}: divide percentages by 100"
        )
    return codes, accuracies


def _parse_codes(column: pd.Series[Any], name: str) -> Digits:
    """Return the digits (n, 19) of a column of codes; raise a `ValueError` for an invalid code."""
    texts = [str(code).strip() for code in column]
    for row, code in enumerate(texts):
        if len(code) != EDGES + INNER or set(code) - {"0", "1"}:
            raise ValueError(
                f"{name} must be {CODE}; got {clean(code)!r} in row {row + 1} of {len(texts)}: write "
                "the column as text, since spreadsheets round long numbers"
            )
    codes = np.array([list(code) for code in texts]).astype(np.int64)
    matrices = _adjacency_matrices(codes[:, :EDGES])
    for direction, axis in (("into", 1), ("out of", 2)):
        isolated = matrices.sum(axis=axis)[:, 1:-1] == 0
        if isolated.any():
            row, node = np.argwhere(isolated)[0]
            raise ValueError(
                f"{name} must have an edge into and out of each inner node; got {texts[row]} in row "
                f"{row + 1} of {len(texts)}, with none {direction} inner node {node + 1}: the first 15 "
                "digits are the upper half of the adjacency matrix, row by row"
            )
    return codes


def _adjacency_matrices(edges: Digits) -> Digits:
    """Return the adjacency matrices (n, 6, 6) with the upper halves (n, 15)."""
    matrices = np.zeros((len(edges), NODES, NODES), dtype=np.int64)
    matrices[:, ROWS, COLUMNS] = edges
    return matrices


def enumerate_cells() -> Digits:
    """Return the code of one cell of each isomorphism class, shape (12416, 19), in ascending order.

    Examples
    --------
    >>> from tvbandits.datasets.network_architectures import enumerate_cells
    >>> codes = enumerate_cells()
    >>> print(len(codes), *codes[0])
    12416 1 0 0 0 0 1 0 0 0 1 0 0 1 0 1 0 0 0 0
    """
    numbers = np.arange(2 ** (EDGES - 2))
    edges = np.ones((len(numbers), EDGES), dtype=np.int64)  # every cell has the first and the last
    edges[:, 1:-1] = numbers[:, None] >> np.arange(EDGES - 3, -1, -1) & 1
    matrices = _adjacency_matrices(edges)
    degrees = np.concatenate([matrices.sum(axis=axis)[:, 1:-1] for axis in (1, 2)], axis=1)
    is_connected = (degrees > 0).all(axis=1)
    matrices = matrices[is_connected & (edges.sum(axis=1) <= MOST_EDGES)]
    nodes = np.arange(2**INNER)[:, None] >> np.arange(INNER - 1, -1, -1) & 1
    digits = 2 ** np.arange(EDGES + INNER - 1, -1, -1)
    # The smallest code over all orders of the inner nodes represents an isomorphism class.
    smallest = np.full((len(matrices), len(nodes)), 2 ** (EDGES + INNER))
    for inner in permutations(range(INNER)):
        order = np.array([0, *(1 + node for node in inner), NODES - 1])
        permuted = matrices[:, order][:, :, order]
        # An order is valid if all edges go from lower to higher nodes.
        is_valid = (np.tril(permuted) == 0).all(axis=(1, 2))
        key = (permuted[:, ROWS, COLUMNS] @ digits[:EDGES])[:, None]
        key = key + nodes[:, list(inner)] @ digits[EDGES:]
        smallest[is_valid] = np.minimum(smallest, key)[is_valid]
    return np.unique(smallest)[:, None] >> np.arange(EDGES + INNER - 1, -1, -1) & 1


def simulate_nas_bench(seed: int = 0, architectures: int = 500, trainings: int = 3) -> pd.DataFrame:
    """Return a simulated table that `nas_bench` can read; its accuracies are not measured.

    The accuracy of a cell is 0.95 - 0.03 exp(-0.7 z), at least 0.1, where z is a sum of random normal
    weights of its digits and pairs of digits, standardised over all cells. The noise of a training has
    a standard deviation of 0.003.

    Parameters
    ----------
    seed : int
    architectures : int
        Number of cells, drawn without replacement from the 12,416.
    trainings : int
        Rows for each cell.

    Returns
    -------
    table : DataFrame
        Columns architecture and accuracy, `architectures` times `trainings` rows.

    Examples
    --------
    >>> from tvbandits.datasets import simulate_nas_bench
    >>> print(simulate_nas_bench(architectures=2, trainings=1).shape)
    (2, 2)
    """
    whole_number("seed", seed, at_least=0)
    codes = enumerate_cells()
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
