"""Variance starvation of sparse posteriors, and of BKB ([B] figure 1).

    python -m benchmarks.starvation DIR [--draws 10]

Figure 1 of Calandriello et al. 2019 (after Wang et al. 2018): f is a draw of a Gaussian process on
[0, 1], and 6, 63 and 215 evaluations lie uniformly in its left half. The paper's "bandwidth sigma^2 =
100" is read as k(x, x') = exp(-100 (x - x')^2 / 2), a length scale of 0.1. It states no noise; here the
variance is 0.01. `DIR/starvation.png` shows one draw. The table has, over all draws, the ratio of the
variances of five posteriors to the exact one, and the share of f beyond mean ± 3 deviations:

- BKB: a dictionary by leverage scores with q = 2, drawn at every evaluation, and the variance of DTC;
- the same with `keep=True`: points stay while they are at most twice as many as a new draw has;
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

from benchmarks.harness import heading, line, make_parser
from tvbandits.gp.linalg import square_root
from tvbandits.gp.posterior import Conditioning, Data
from tvbandits.gp.sparse import Nystrom
from tvbandits.validation import Array

KERNEL, NOISE, OVERSAMPLING = RBF(0.1), 0.01, 2.0
EVALUATIONS = (6, 63, 215)
POINTS = np.linspace(0.0, 1.0, 401)[:, None]
LEFT = POINTS[:, 0] <= 0.5
STARVED = "SoR, fixed dictionary"


class Moments(NamedTuple):
    """The mean and variance of a posterior at all points (401,), and its inducing points (m, 1)."""

    mean: Array
    variance: Array
    inducing: Array


class Draw(NamedTuple):
    """A function at all points, and noisy evaluations (215,) in their left half."""

    f: Array
    X: Array
    y: Array


def draw(seed: int) -> Draw:
    """Return the function of a seed."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 0.5, (EVALUATIONS[-1], 1))
    root = square_root(np.asarray(KERNEL(np.concatenate([POINTS, X]))))
    f = root @ rng.standard_normal(root.shape[1])
    y = f[len(POINTS) :] + math.sqrt(NOISE) * rng.standard_normal(len(X))
    return Draw(f[: len(POINTS)], X, y)


def fit_sketch(inducing: Array, X: Array, y: Array) -> tuple[Moments, Moments]:
    """Return DTC and SoR on a dictionary ([B] equations 3 to 5), which differ in the variance."""
    size = len(inducing)
    root = np.linalg.cholesky(np.asarray(KERNEL(inducing)) + 1e-12 * np.eye(size))
    z, Z = (np.linalg.solve(root, np.asarray(KERNEL(inducing, each))) for each in (POINTS, X))
    V = np.eye(size) + Z @ Z.T / NOISE
    mean = z.T @ np.linalg.solve(V, Z @ y) / NOISE
    variance = np.einsum("ij,ij->j", z, np.linalg.solve(V, z))
    residual = np.maximum(1.0 - np.einsum("ij,ij->j", z, z), 0.0)
    return Moments(mean, residual + variance, inducing), Moments(mean, variance, inducing)


def fit_exact(X: Array, y: Array) -> Moments:
    """Return the posterior of Gaussian process regression."""
    K = np.asarray(KERNEL(X)) + NOISE * np.eye(len(X))
    covariance = np.asarray(KERNEL(X, POINTS))
    weights = np.linalg.solve(K, covariance)
    variance = 1.0 - np.einsum("ij,ij->j", covariance, weights)
    return Moments(weights.T @ y, variance, X)


def fit_bkb(X: Array, y: Array, seed: int, *, keep: bool = False) -> Moments:
    """Return the sparse posterior of the package with a draw at every evaluation, [B] Algorithm 1."""
    rule, rng, posterior = Nystrom(OVERSAMPLING, keep), np.random.default_rng(seed), None
    for count in range(1, len(X) + 1):
        data = Data(X[:count], y[:count, None], np.full(count, NOISE))
        posterior = rule.condition(Conditioning(KERNEL, data, previous=posterior, rng=rng))
    means, variance = posterior.predict(POINTS)  # type: ignore[union-attr]
    return Moments(means[:, 0], variance, posterior.dictionary.rows.Z)  # type: ignore[union-attr]


def fit_all(one: Draw, count: int, seed: int) -> dict[str, Moments]:
    """Return all posteriors given the first evaluations, by name."""
    X, y = one.X[:count], one.y[:count]
    dictionary = fit_bkb(X, y, seed)
    dtc, sor = fit_sketch(one.X[: EVALUATIONS[0]], X, y)
    return {
        "exact": fit_exact(X, y),
        "BKB": dictionary,
        "BKB, points kept": fit_bkb(X, y, seed, keep=True),
        "DTC, fixed dictionary": dtc,
        STARVED: sor,
        "SoR, dictionary of BKB": fit_sketch(dictionary.inducing, X, y)[1],
    }


def table_of_variances(draws: int) -> None:
    """Print a row for each number of evaluations, posterior and half."""
    columns = "inducing points", "half", "variance / exact", "of f beyond 3 deviations"
    heading("evaluations", "posterior", *columns)
    for count in EVALUATIONS:
        fits = [(one := draw(seed), fit_all(one, count, seed)) for seed in range(draws)]
        for name in fits[0][1]:
            posteriors = [by_name[name] for _, by_name in fits]
            variance = np.array([each.variance for each in posteriors])
            ratio = variance / [by_name["exact"].variance for _, by_name in fits]
            errors = [np.abs(one.f - by_name[name].mean) for one, by_name in fits]
            is_beyond = np.array(errors) > 3 * np.sqrt(variance)
            size = f"{np.mean([len(each.inducing) for each in posteriors]):.1f}"
            for half, places in (("left", LEFT), ("right", ~LEFT)):
                ends = f"{ratio[:, places].min():.2g} to {ratio[:, places].max():.3g}"
                line(count, name, size, half, ends, f"{is_beyond[:, places].mean():.1%}")


def picture(path: Path, seed: int) -> None:
    """Draw BKB above, and the subset of regressors on a fixed dictionary below."""
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    rows = figure.subplots(2, len(EVALUATIONS), sharex=True, sharey=True)
    one, x = draw(seed), POINTS[:, 0]
    for column, count in enumerate(EVALUATIONS):
        posteriors = fit_all(one, count, seed)
        for axes, name in zip(rows[:, column], ("BKB", STARVED), strict=True):
            posterior = posteriors[name]
            half = 3 * np.sqrt(posterior.variance)
            axes.fill_between(
                x,
                posterior.mean - half,
                posterior.mean + half,
                color="0.85",
                label="mean ± 3 deviations",
            )
            axes.plot(x, one.f, "k--", linewidth=1.0, label="f")
            axes.plot(x, posterior.mean, color="0.35", linewidth=2.0, label="mean")
            axes.plot(one.X[:count], one.y[:count], "k.", markersize=3, label="evaluations")
            axes.plot(
                posterior.inducing[:, 0],
                np.full(len(posterior.inducing), -4.6),
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
    parser = make_parser(__doc__, draws=10)
    parser.add_argument("out", type=Path, metavar="DIR", help="for the figure")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(limits=1):
        picture(options.out / "starvation.png", seed=0)
        table_of_variances(options.draws)


if __name__ == "__main__":
    main()
