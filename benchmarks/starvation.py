"""Variance starvation of sparse posteriors beside BKB ([B] figure 1).

    python -m benchmarks.starvation DIR [--draws 10]

Figure 1 of Calandriello et al. 2019 (after Wang et al. 2018): f is a draw of a Gaussian process on
[0, 1], and 6, 63 and 215 evaluations lie uniformly in its left half. The paper's "bandwidth sigma^2 =
100" is taken for k(x, x') = exp(-100 (x - x')^2 / 2), a length scale of 0.1; it gives no noise: here the
variance is 0.01. `DIR/starvation.png` has one draw. The table has, over all draws, the variance of
five posteriors over that of the exact one, and how much of f lies beyond mean ± 3 deviations:

- BKB: a dictionary by leverage scores with q = 2, drawn at every evaluation, and the variance of DTC;
- the same with `keep=True`: points stay while they are at most twice as many as a fresh draw has;
- DTC on a fixed dictionary, the first 6 evaluations;
- SoR, the subset of regressors, on that fixed dictionary: the variance of the embedding alone;
- SoR on the dictionary of BKB.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from benchmarks.harness import arguments, heading, line
from tvbandits.gp.linalg import square_root
from tvbandits.gp.posterior import Conditioning, Data
from tvbandits.gp.sparse import Nystrom
from tvbandits.validation import Array

KERNEL, NOISE, OVERSAMPLING = RBF(0.1), 0.01, 2.0
EVALUATIONS = (6, 63, 215)
PLACES = np.linspace(0.0, 1.0, 401)[:, None]
LEFT = PLACES[:, 0] <= 0.5
STARVED = "SoR, fixed dictionary"


class Belief(NamedTuple):
    """Mean and variance at all places (401,), and the inducing points (m, 1)."""

    mean: Array
    variance: Array
    inducing: Array


class Draw(NamedTuple):
    """A function at all places, and noisy evaluations (215,) of it in their left half."""

    f: Array
    X: Array
    y: Array


def draw(seed: int) -> Draw:
    """The function of a seed."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 0.5, (EVALUATIONS[-1], 1))
    root = square_root(np.asarray(KERNEL(np.concatenate([PLACES, X]))))
    f = root @ rng.standard_normal(root.shape[1])
    y = f[len(PLACES) :] + math.sqrt(NOISE) * rng.standard_normal(len(X))
    return Draw(f[: len(PLACES)], X, y)


def sketched(inducing: Array, X: Array, y: Array) -> tuple[Belief, Belief]:
    """DTC and SoR on a dictionary ([B] equations 3 to 5): they differ in the variance."""
    size = len(inducing)
    root = np.linalg.cholesky(np.asarray(KERNEL(inducing)) + 1e-12 * np.eye(size))
    z, Z = (np.linalg.solve(root, np.asarray(KERNEL(inducing, each))) for each in (PLACES, X))
    V = np.eye(size) + Z @ Z.T / NOISE
    mean = z.T @ np.linalg.solve(V, Z @ y) / NOISE
    embedded = np.einsum("ij,ij->j", z, np.linalg.solve(V, z))
    beyond = np.maximum(1.0 - np.einsum("ij,ij->j", z, z), 0.0)
    return Belief(mean, beyond + embedded, inducing), Belief(mean, embedded, inducing)


def exact(X: Array, y: Array) -> Belief:
    """The posterior of Gaussian process regression."""
    K = np.asarray(KERNEL(X)) + NOISE * np.eye(len(X))
    across = np.asarray(KERNEL(X, PLACES))
    weights = np.linalg.solve(K, across)
    variance = 1.0 - np.einsum("ij,ij->j", across, weights)
    return Belief(weights.T @ y, variance, X)


def bkb(X: Array, y: Array, seed: int, *, keep: bool = False) -> Belief:
    """The package's sparse posterior, drawn at every evaluation: [B] Algorithm 1, or kept."""
    rule, rng, posterior = Nystrom(OVERSAMPLING, keep), np.random.default_rng(seed), None
    for count in range(1, len(X) + 1):
        data = Data(X[:count], y[:count, None], np.full(count, NOISE))
        posterior = rule.condition(Conditioning(KERNEL, data, previous=posterior, rng=rng))
    means, variance = posterior.predict(PLACES)  # type: ignore[union-attr]
    return Belief(means[:, 0], variance, posterior.dictionary.rows.Z)  # type: ignore[union-attr]


def beliefs(one: Draw, count: int, seed: int) -> dict[str, Belief]:
    """All posteriors of the first evaluations."""
    X, y = one.X[:count], one.y[:count]
    sampled = bkb(X, y, seed)
    dtc, sor = sketched(one.X[: EVALUATIONS[0]], X, y)
    return {
        "exact": exact(X, y),
        "BKB": sampled,
        "BKB, points kept": bkb(X, y, seed, keep=True),
        "DTC, fixed dictionary": dtc,
        STARVED: sor,
        "SoR, dictionary of BKB": sketched(sampled.inducing, X, y)[1],
    }


def table_of_variances(draws: int) -> None:
    """Print a row for each number of evaluations, posterior and half."""
    columns = "inducing points", "half", "variance / exact", "of f beyond 3 deviations"
    heading("evaluations", "posterior", *columns)
    for count in EVALUATIONS:
        every = [(one := draw(seed), beliefs(one, count, seed)) for seed in range(draws)]
        for name in every[0][1]:
            mine = [found[name] for _, found in every]
            variance = np.array([each.variance for each in mine])
            ratio = variance / [found["exact"].variance for _, found in every]
            off = [np.abs(one.f - found[name].mean) for one, found in every]
            beyond = np.array(off) > 3 * np.sqrt(variance)
            size = f"{np.mean([len(each.inducing) for each in mine]):.1f}"
            for half, places in (("left", LEFT), ("right", ~LEFT)):
                ends = f"{ratio[:, places].min():.2g} to {ratio[:, places].max():.3g}"
                line(count, name, size, half, ends, f"{beyond[:, places].mean():.1%}")


def picture(path: Path, seed: int) -> None:
    """BKB above, the subset of regressors on a fixed dictionary below."""
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    rows = figure.subplots(2, len(EVALUATIONS), sharex=True, sharey=True)
    one, x = draw(seed), PLACES[:, 0]
    for column, count in enumerate(EVALUATIONS):
        found = beliefs(one, count, seed)
        for axes, name in zip(rows[:, column], ("BKB", STARVED), strict=True):
            belief = found[name]
            half = 3 * np.sqrt(belief.variance)
            axes.fill_between(
                x, belief.mean - half, belief.mean + half, color="0.85", label="mean ± 3 deviations"
            )
            axes.plot(x, one.f, "k--", linewidth=1.0, label="f")
            axes.plot(x, belief.mean, color="0.35", linewidth=2.0, label="mean")
            axes.plot(one.X[:count], one.y[:count], "k.", markersize=3, label="evaluations")
            axes.plot(
                belief.inducing[:, 0],
                np.full(len(belief.inducing), -4.6),
                "k|",
                markersize=9,
                label="inducing points",
            )
            axes.set_title(f"{name}, t = {count}", fontsize="medium")
            axes.set(ylim=(-5, 5), xlim=(0, 1))
    for axes in rows[-1]:
        axes.set_xlabel("point x")
    for axes in rows[:, 0]:
        axes.set_ylabel("reward")
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False
    )
    figure.savefig(path, dpi=120)


def main() -> None:
    """Draw the figure, and print the table."""
    parser = arguments(__doc__, draws=10)
    parser.add_argument("out", type=Path, metavar="DIR", help="for the figure")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(limits=1):
        picture(options.out / "starvation.png", seed=0)
        table_of_variances(options.draws)


if __name__ == "__main__":
    main()
