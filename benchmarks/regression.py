"""The experiments of [BB] on tables: regret, simple regret and time of policies.

    python -m benchmarks.regression --figure 1 --out DIR [--plays 1000] [--seeds 2] [--tables DIR]

Figure 1 has two regression tables with the bandwidths of Table 1, and the times of Figure 2; 5
(Abalone) and 6 (California, Cadata in the paper) have one bandwidth for all policies, from 5 to 17.5.
The paper does not state the scale of inputs: Figure 1 has both deviations of 1, as
`tvbandits.datasets`, and [-1, 1]; Figures 5 and 6 have the latter. Targets are scaled to [0, 1], and
the noise has the deviation 0.01. Figure 3 has the 12,416 cells of NAS-Bench-101 with simulated
accuracies (`simulate_nas_bench`) and a bandwidth of 100, so that it says nothing about networks.
Everywhere lambda = noise variance, prior mean 0, F = 1, delta = 1/T, q = 2, C = 2. Each policy has the
width of its theorem, Thompson sampling a tenth of BBKB's (appendix D.1), unless its name states another
one; 2 is the default of the package. The paper has 10,000 plays and ten repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from PIL import Image
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from benchmarks.harness import DATA, cell, clock, heading, line, make_parser
from tvbandits import Options, policies
from tvbandits.acquisition.widths import BBKBWidth, BKBWidth, Theory, ThompsonWidth
from tvbandits.datasets import TableProblem, abalone, california, nas_bench, simulate_nas_bench
from tvbandits.domains.problem import get_added_noise
from tvbandits.validation import Array

TABLES = {
    "abalone": (abalone, "abalone.csv"),
    "california": (california, "california_housing.parquet"),
}
ARCHITECTURES = "architectures"
BANDWIDTHS = (5.0, 7.5, 10.0, 12.5, 15.0, 17.5)
FIRST = 30  # the first play of a curve, since earlier averages are mostly noise


class PlayedRun(NamedTuple):
    """The regret of every play, the processor seconds until its reward, and the size of its batch."""

    regret: Array
    elapsed: Array
    sizes: Array

    @property
    def batches(self) -> int:
        """Return the number of batches."""
        return round(float((1.0 / self.sizes).sum()))

    @property
    def seconds(self) -> float:
        """Return the processor seconds of all steps."""
        return float(self.elapsed[-1])


def table(name: str, directory: Path | None = None) -> TableProblem | None:
    """Return the problem with a name; None if its file does not exist."""
    if name == ARCHITECTURES:
        return nas_bench(simulate_nas_bench(architectures=12_416))
    make, file = TABLES[name]
    path = (directory or DATA / "tables") / file
    if not path.is_file():
        print(f"{name}: skipped, since {path} does not exist (--tables DIR)")
        return None
    return make(path)


def play(player: Any, problem: TableProblem, horizon: int, seed: int) -> PlayedRun:
    """Return a run of `horizon` plays, which cuts the last batch."""
    rng = np.random.default_rng([seed, 0xB0])
    regret, elapsed, sizes = np.empty((3, horizon))
    total, count = 0.0, 0
    while count < horizon:
        start = clock()
        X = player.ask()[: horizon - count]
        total += clock() - start
        truth = problem.value(X, 1.0)
        y = truth + math.sqrt(get_added_noise(problem)) * rng.standard_normal(len(X))
        start = clock()
        player.tell(X, y)
        total += clock() - start
        batch = slice(count, count + len(X))
        regret[batch], elapsed[batch] = problem.best(1.0) - truth, total
        sizes[batch] = len(X)
        count += len(X)
    return PlayedRun(regret, elapsed, sizes)


def uniform_regret(problem: TableProblem) -> float:
    """Return the mean regret of a random point."""
    return problem.best(1.0) - float(problem.values.mean())


# A function that makes a policy for a problem, a horizon and a seed.
Maker: TypeAlias = Callable[[TableProblem, int, int], Any]


def make_with_model(
    policy: Any, width: Any = None, bandwidth: float | None = None, **values: Any
) -> Maker:
    """Return the maker of a policy with prior mean 0 and the bandwidth of the problem or another."""

    def make(problem: TableProblem, horizon: int, seed: int) -> Any:
        beta = {} if width is None else {"beta": width(delta=1 / horizon)}
        kernel = problem.kernel if bandwidth is None else RBF(bandwidth)
        parts: dict[str, Any] = {"kernel": kernel, "noise_variance": problem.noise_variance}
        parts |= {"options": Options(mean=0.0), "seed": seed, **beta, **values}
        return policy(problem.domain, **parts)

    return make


def make_without_model(policy: Any) -> Maker:
    """Return the maker of a policy without a model."""
    return lambda problem, _, seed: policy(problem.domain, seed=seed)


class Contestant(NamedTuple):
    """A policy, its bandwidths in [BB] Table 1, and the style of its line.

    `make` is a function of a bandwidth, or None for that of the problem.
    """

    make: Callable[[float | None], Maker]
    abalone: float | None
    california: float | None
    line: Any
    grey: str
    weight: float = 1.4

    def bandwidth(self, panel: Panel) -> float | None:
        """Return the bandwidth of the panel or of Table 1; None for that of the problem."""
        table_bandwidths = {"abalone": self.abalone, "california": self.california}
        return panel.bandwidth or table_bandwidths.get(panel.table)


bbkb, thompson = (
    partial(make_with_model, policies.bbkb),
    partial(make_with_model, policies.thompson),
)
CONTESTANTS = {
    "BBKB, global": Contestant(partial(bbkb, BBKBWidth), 17.5, 12.5, "-", "0.65", 4.0),
    "BBKB, local": Contestant(partial(bbkb, BBKBWidth, rule="local"), 17.5, 12.5, "--", "0.0"),
    "BKB": Contestant(partial(make_with_model, policies.bkb, BKBWidth), 17.5, 12.5, ":", "0.0"),
    "GP-UCB": Contestant(partial(make_with_model, policies.gp_ucb, Theory), 5.0, 12.5, "-", "0.45"),
    "GP-BUCB": Contestant(
        partial(make_with_model, policies.gp_bucb, Theory), 12.5, 12.5, "--", "0.45"
    ),
    "Thompson, batch 30": Contestant(partial(thompson, ThompsonWidth), 10.0, 10.0, "-", "0.0"),
    "BBKB, width of Thompson": Contestant(
        partial(bbkb, ThompsonWidth), 17.5, 12.5, "-.", "0.0", 2.2
    ),
    "BBKB, width 2": Contestant(partial(bbkb, None, beta=2.0), None, None, "-.", "0.0", 2.2),
    "regularised evolution": Contestant(
        lambda _: make_without_model(policies.evolution), None, None, (0, (1, 1)), "0.45", 2.2
    ),
    "epsilon-greedy": Contestant(
        lambda _: make_without_model(policies.eps_greedy),
        None,
        None,
        (0, (6, 1, 1, 1, 1, 1)),
        "0.45",
    ),
    "uniform": Contestant(
        lambda _: make_without_model(policies.uniform), None, None, ":", "0.65", 2.2
    ),
}
# The policies with models, those on regression tables, and those on architectures.
MODELS = tuple(CONTESTANTS)[:7]
ON_TABLES = (*MODELS, "regularised evolution", "epsilon-greedy")
ON_ARCHITECTURES = (
    "BBKB, global", "BBKB, local", "BBKB, width 2", "GP-BUCB", "Thompson, batch 30",
    "regularised evolution", "epsilon-greedy", "uniform",
)  # fmt: skip


class Panel(NamedTuple):
    """A table, its policies, whether inputs are in [-1, 1], and one bandwidth for all, or None."""

    table: str
    players: Sequence[str] = ON_TABLES
    in_range: bool = False
    bandwidth: float | None = None

    @property
    def title(self) -> str:
        """Return the title of the panel."""
        if self.table == ARCHITECTURES:
            return "Architectures"
        inputs = "in [-1, 1]" if self.in_range else "of deviation 1"
        shared = "" if self.bandwidth is None else f", bandwidth {self.bandwidth:g}"
        return f"{self.table.capitalize()}, inputs {inputs}{shared}"


def by_bandwidth(name: str) -> tuple[Panel, ...]:
    """Return a panel for each bandwidth."""
    return tuple(Panel(name, MODELS, True, each) for each in BANDWIDTHS)


# The panels of a figure, and the default number of plays, which takes minutes and not hours.
FIGURES: dict[int, tuple[tuple[Panel, ...], int]] = {
    1: (tuple(Panel(name, in_range=each) for each in (False, True) for name in TABLES), 1000),
    3: ((Panel(ARCHITECTURES, ON_ARCHITECTURES),), 1000),
    5: (by_bandwidth("abalone"), 500),
    6: (by_bandwidth("california"), 500),
}


def with_inputs_in_range(problem: TableProblem) -> TableProblem:
    """Return the problem with every input scaled to [-1, 1]."""
    low, high = problem.points.min(axis=0), problem.points.max(axis=0)
    return replace(problem, points=2 * (problem.points - low) / (high - low) - 1)


# The runs of a policy by its name.
Runs: TypeAlias = Mapping[str, Sequence[PlayedRun]]


def contest(panel: Panel, problem: TableProblem, plays: int, seeds: int) -> Runs:
    """Print a row for each policy, and return its runs."""
    runs: dict[str, list[PlayedRun]] = {}
    for name in panel.players:
        bandwidth, sizes = CONTESTANTS[name].bandwidth(panel), []
        make = CONTESTANTS[name].make(bandwidth)
        runs[name] = []
        for seed in range(seeds):
            player = make(problem, plays, seed)
            runs[name].append(play(player, problem, plays, seed))
            sizes.append(player.info.posterior.dictionary_size or np.nan)
        ratio = np.array([run.regret.mean() for run in runs[name]]) / uniform_regret(problem)
        simple = np.mean([run.regret.min() for run in runs[name]])
        batches = np.mean([run.batches for run in runs[name]])
        seconds = np.mean([run.seconds for run in runs[name]])
        points = "" if np.isnan(sizes).any() else f"{np.mean(sizes):.0f}"
        cells = f"{simple:.4f}", f"{batches:.0f}", points, f"{seconds:.1f}"
        line(panel.title, name, bandwidth or "", cell(ratio), *cells)
    return runs


def draw_regret(axes: Axes, problem: TableProblem, runs: Runs) -> None:
    """Draw the cumulative regret over that of random choice, averaged over seeds."""
    for name, each in runs.items():
        regret = np.array([run.regret for run in each])
        plays = np.arange(1, regret.shape[1] + 1)
        ratio = np.cumsum(regret, axis=1).mean(axis=0) / plays / uniform_regret(problem)
        axes.plot(plays[FIRST:], ratio[FIRST:], **style(name))
    axes.set(yscale="log", xlabel="plays", ylabel="regret / that of uniform choice")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(which="major", color="0.93")


def draw_time(axes: Axes, runs: Runs) -> None:
    """Draw processor seconds by plays, averaged over seeds."""
    for name, each in runs.items():
        elapsed = np.array([run.elapsed for run in each]).mean(axis=0)
        axes.plot(np.arange(1, len(elapsed) + 1), elapsed, **style(name))
    # Fixed limits, so that other times do not change the layout of the other panels.
    axes.set(yscale="log", xlabel="plays", ylabel="processor seconds", ylim=(1e-3, 100))
    axes.grid(which="major", color="0.93")


def style(name: str) -> dict[str, Any]:
    """Return the style of the line of a policy."""
    policy = CONTESTANTS[name]
    return {
        "label": name,
        "linestyle": policy.line,
        "color": policy.grey,
        "linewidth": policy.weight,
    }


def draw(results: Sequence[tuple[Panel, TableProblem, Runs]], path: Path) -> None:
    """Draw regret on each panel, and times on each table unless panels differ by their bandwidth."""
    shared = results[0][0].bandwidth is not None
    columns = 3 if shared else 2
    timed = [] if shared else results[:columns]
    rows = math.ceil((len(results) + len(timed)) / columns)
    size = 4.6 * columns, 3.3 * rows + 0.9
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns).ravel()
    for ax, (panel, problem, runs) in zip(axes, results, strict=False):
        draw_regret(ax, problem, runs)
        ax.set_title(panel.title, fontsize=10)
    for ax, (panel, _, runs) in zip(axes[len(results) :], timed, strict=False):
        draw_time(ax, runs)
        ax.set_title(panel.title, fontsize=10)
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False, handlelength=4)
    save_greys(figure, path)


def save_greys(figure: Figure, path: Path) -> None:
    """Save a grey figure with 16 shades, which takes a fifth of the size."""
    figure.savefig(path, dpi=100)
    with Image.open(path) as picture:
        greys = picture.convert("L").quantize(16)
    greys.save(path, optimize=True)


def main() -> None:
    """Play, print the table, and draw the figure."""
    parser = make_parser(__doc__, seeds=2, plays=0)
    parser.add_argument("--figure", type=int, choices=FIGURES, required=True, help="of [BB]")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the picture")
    parser.add_argument("--tables", type=Path, metavar="DIR", help="where the tables are")
    options = parser.parse_args()
    panels, default_plays = FIGURES[options.figure]
    plays, results = options.plays or default_plays, []
    titles = "policy", "bandwidth", "regret / uniform", "simple regret", "batches"
    heading("panel", *titles, "inducing points", "seconds")
    with threadpool_limits(limits=1):
        for panel in panels:
            problem = table(panel.table, options.tables)
            if problem is None:
                continue
            problem = with_inputs_in_range(problem) if panel.in_range else problem
            results.append((panel, problem, contest(panel, problem, plays, options.seeds)))
    if results:
        options.out.mkdir(parents=True, exist_ok=True)
        draw(results, options.out / f"bbkb_figure_{options.figure}.png")


if __name__ == "__main__":
    main()
