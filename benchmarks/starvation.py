"""Variance starvation of sparse posteriors beside BKB, and dictionaries that grow ([B] figure 1).

    python -m benchmarks.starvation DIR [--draws 10] [--horizon 300]

Figure 1 of Calandriello et al. 2019 (after Wang et al. 2018): f is a draw of a Gaussian process on
[0, 1], and 6, 63 and 215 evaluations lie uniformly in its left half. The paper's "bandwidth sigma^2 =
100" is taken for k(x, x') = exp(-100 (x - x')^2 / 2), a length scale of 0.1; it gives no noise: here the
variance is 0.01. `DIR/starvation.png` has one draw. The first table has, over all draws, the variance of
five posteriors over that of the exact one, and how much of f lies beyond mean ± 3 deviations:

- BKB: a dictionary by leverage scores with q = 2, drawn at every evaluation, and the variance of DTC;
- the same with `keep=True`: points stay while they are at most twice as many as a fresh draw has;
- DTC on a fixed dictionary, the first 6 evaluations;
- SoR, the subset of regressors, on that fixed dictionary: the variance of the embedding alone;
- SoR on the dictionary of BKB.

The second table plays the same functions on 401 points, at width 2: GP-UCB, BKB with a fresh dictionary
at every step and with `keep=True`, and the incremental dictionary of [B] section 3.2, in which a play
stays with probability p(t + 1) / p(t) and which has no theorem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from benchmarks.harness import arguments, cell, heading, line
from tvbandits import Candidates, Options, policies
from tvbandits.gp.linalg import square_root
from tvbandits.gp.posterior import Conditioning, Data
from tvbandits.gp.sparse import Nystrom
from tvbandits.validation import Array, Index

KERNEL, NOISE, OVERSAMPLING, WIDTH = RBF(0.1), 0.01, 2.0, 2.0
EVALUATIONS = (6, 63, 215)
PLACES = np.linspace(0.0, 1.0, 401)[:, None]
LEFT = PLACES[:, 0] <= 0.5
SHOWN_AT = (20, 100)
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
    """Print a row for each number of evaluations and posterior."""
    heading(
        "evaluations",
        "posterior",
        "inducing points",
        "variance / exact, left half",
        "right half",
        "of f beyond 3 deviations, left",
        "right",
    )
    for count in EVALUATIONS:
        every = [(one := draw(seed), beliefs(one, count, seed)) for seed in range(draws)]
        for name in every[0][1]:
            ratios = np.array([each[name].variance / each["exact"].variance for _, each in every])
            beyond = np.array(
                [
                    np.abs(one.f - each[name].mean) > 3 * np.sqrt(each[name].variance)
                    for one, each in every
                ]
            )
            sizes = [len(each[name].inducing) for _, each in every]
            cells = [f"{np.mean(sizes):.1f}"]
            cells += [
                f"{'< 1e-6' if r.min() < 1e-6 else f'{r.min():.2g}'} to {r.max():.3g}"
                for r in (ratios[:, LEFT], ratios[:, ~LEFT])
            ]
            cells += [f"{100 * b.mean():.1f}%" for b in (beyond[:, LEFT], beyond[:, ~LEFT])]
            line(count, name, *cells)


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


# --- dictionaries in play --------------------------------------------------------------------------


class Run(NamedTuple):
    """Regret and size of the dictionary of each step, shape (T,)."""

    regret: Array
    sizes: Array


def play(policy: Callable[..., Any], one: Draw, horizon: int, seed: int, **options: Any) -> Run:
    """A policy of the package on a function, at width 2 and with its prior."""
    model: dict[str, Any] = {"kernel": KERNEL, "noise_variance": NOISE, "beta": WIDTH}
    player = policy(Candidates(PLACES), seed=seed, options=Options(mean=0.0), **model, **options)
    noise = math.sqrt(NOISE) * np.random.default_rng([seed, 1]).standard_normal(horizon)
    regret, sizes = np.empty(horizon), np.empty(horizon)
    for step in range(horizon):
        X = player.ask()
        chosen = int(np.abs(PLACES[:, 0] - X[0, 0]).argmin())
        player.tell(X, one.f[chosen] + noise[step : step + 1])
        regret[step] = one.f.max() - one.f[chosen]
        sizes[step] = player.info.posterior.dictionary_size or np.nan
    return Run(regret, sizes)


def incremental(one: Draw, horizon: int, seed: int) -> Run:
    """[B] section 3.2: plays enter with probability p(t), and stay with p(t + 1) / p(t)."""
    noise = math.sqrt(NOISE) * np.random.default_rng([seed, 1]).standard_normal(horizon)
    rng = np.random.default_rng([seed, 2])
    plays, rewards = np.empty(horizon, dtype=np.int64), np.empty(horizon)
    regret, sizes = np.empty(horizon), np.empty(horizon)
    members, probability = np.empty(0, dtype=np.int64), np.empty(0)
    belief = Belief(np.zeros(len(PLACES)), np.ones(len(PLACES)), PLACES[:0])
    for step in range(horizon):
        plays[step] = int((belief.mean + WIDTH * np.sqrt(belief.variance)).argmax())
        rewards[step] = one.f[plays[step]] + noise[step]
        regret[step] = one.f.max() - one.f[plays[step]]
        now = np.minimum(1.0, OVERSAMPLING * belief.variance[plays[: step + 1]] / NOISE)
        members, probability = thinned(members, probability, now, rng)
        inducing = PLACES[np.unique(plays[members])]
        X, y = PLACES[plays[: step + 1]], rewards[: step + 1]
        belief, sizes[step] = sketched(inducing, X, y)[0], len(inducing)
    return Run(regret, sizes)


def thinned(
    members: Index, probability: Array, now: Array, rng: np.random.Generator
) -> tuple[Index, Array]:
    """The plays that stay in a dictionary or enter it, rising, and the probability of each.

    Parameters
    ----------
    members : integer array of shape (m,)
        Numbers of plays in the dictionary.
    probability : array of shape (m,)
        p(t) of each.
    now : array of shape (n,)
        p(t + 1) of all plays, of which the last is new.
    rng : numpy.random.Generator
    """
    # A probability that rises again brings no play back: it was in with the lower one.
    lowest = np.append(np.minimum(probability, now[members]), now[-1])
    share = np.append(lowest[:-1] / probability, now[-1])
    stays = rng.random(len(share)) < share
    return np.append(members, len(now) - 1)[stays], lowest[stays]


DICTIONARIES: dict[str, Callable[[Draw, int, int], Run]] = {
    "GP-UCB, exact": lambda one, horizon, seed: play(policies.gp_ucb, one, horizon, seed),
    "BKB, fresh (`keep=False`)": lambda one, horizon, seed: play(
        policies.bkb, one, horizon, seed, keep=False
    ),
    "BKB, kept while few (`keep=True`)": lambda one, horizon, seed: play(
        policies.bkb, one, horizon, seed, keep=True
    ),
    "BKB, incremental": incremental,
}


def table_of_dictionaries(draws: int, horizon: int) -> None:
    """Print a row for each rule: regret of a step, and sizes of the dictionary."""
    steps = [step for step in SHOWN_AT if step < horizon]
    heads = [f"points at {step}" for step in (*steps, horizon)]
    heading("dictionary", "average regret", f"last {horizon // 5}", *heads, "most")
    for name, run in DICTIONARIES.items():
        every = [run(draw(seed), horizon, seed) for seed in range(draws)]
        regret, sizes = (np.array([one[i] for one in every]) for i in (0, 1))
        cells = [
            cell(regret.mean(axis=1), ".4f"),
            cell(regret[:, -(horizon // 5) :].mean(axis=1), ".4f"),
        ]
        if np.isfinite(sizes).any():
            cells += [f"{sizes[:, step - 1].mean():.1f}" for step in (*steps, horizon)]
            cells += [f"{np.nanmax(sizes):.0f}"]
        else:
            cells += [""] * (len(steps) + 2)
        line(name, *cells)


def main() -> None:
    """Draw the figure, and print both tables."""
    parser = arguments(__doc__, draws=10, horizon=300)
    parser.add_argument("out", type=Path, metavar="DIR", help="for the figure")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(limits=1):
        picture(options.out / "starvation.png", seed=0)
        table_of_variances(options.draws)
        print()
        table_of_dictionaries(options.draws, options.horizon)


if __name__ == "__main__":
    main()
