"""The experiments of [BB] on tables: regret, simple regret and time of its policies.

    python -m benchmarks.regression --figure 1 --out DIR [--plays 1000] [--seeds 2] [--tables DIR]

Figure 1 has two regression tables with the bandwidths of Table 1, and the times of Figure 2; 5 (Abalone)
and 6 (California, which the paper calls Cadata) have one bandwidth for all, from 5 to 17.5. The paper
does not say how inputs are scaled: Figure 1 has both, deviations of 1 as `tvbandits.datasets` has them,
and [-1, 1]; 5 and 6 have the latter. Targets are scaled to [0, 1], rewards have noise of deviation 0.01.
Figure 3 has the 12,416 cells of NAS-Bench-101 with made-up accuracies (`simulate_nas_bench`) and a
bandwidth of 100, so that it says nothing about networks.
Everywhere lambda = noise variance, prior mean 0, F = 1, delta = 1/T, q = 2, C = 2. Each policy has the
width of its theorem, Thompson sampling a tenth of BBKB's (appendix D.1), unless its name says another
one; 2 is the width that the package plays by default. The paper plays 10,000 times, in ten repetitions.
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

from benchmarks.harness import DATA, arguments, cell, clock, heading, line
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
FIRST = 30  # curves begin there: before, they are noise


class Played(NamedTuple):
    """Of every play its regret, the processor seconds until it was told, and the size of its batch."""

    regret: Array
    elapsed: Array
    sizes: Array

    @property
    def batches(self) -> int:
        """How many batches there were."""
        return round(float((1.0 / self.sizes).sum()))

    @property
    def seconds(self) -> float:
        """Processor seconds of asking and telling."""
        return float(self.elapsed[-1])


def table(name: str, directory: Path | None = None) -> TableProblem | None:
    """The problem of that name, or None where its file is absent."""
    if name == ARCHITECTURES:
        return nas_bench(simulate_nas_bench(architectures=12_416))
    make, file = TABLES[name]
    path = (directory or DATA / "tables") / file
    if not path.is_file():
        print(f"{name}: skipped, its table is not there (--tables DIR)")
        return None
    return make(path)


def play(player: Any, problem: TableProblem, horizon: int, seed: int) -> Played:
    """Play `horizon` times; a batch that would go beyond it is cut."""
    rng = np.random.default_rng([seed, 0xB0])
    regret, elapsed, sizes = np.empty((3, horizon))
    taken, done = 0.0, 0
    while done < horizon:
        begun = clock()
        X = player.ask()[: horizon - done]
        taken += clock() - begun
        truth = problem.value(X, 1.0)
        y = truth + math.sqrt(get_added_noise(problem)) * rng.standard_normal(len(X))
        begun = clock()
        player.tell(X, y)
        taken += clock() - begun
        batch = slice(done, done + len(X))
        regret[batch], elapsed[batch] = problem.best(1.0) - truth, taken
        sizes[batch] = len(X)
        done += len(X)
    return Played(regret, elapsed, sizes)


def uniform_regret(problem: TableProblem) -> float:
    """Mean regret of a uniform point."""
    return problem.best(1.0) - float(problem.values.mean())


# Makes a policy for a problem, a horizon and a seed.
Maker: TypeAlias = Callable[[TableProblem, int, int], Any]


def modelled(
    policy: Any, width: Any = None, bandwidth: float | None = None, **values: Any
) -> Maker:
    """Return what makes a policy with prior mean 0, with the problem's bandwidth or another."""

    def make(problem: TableProblem, horizon: int, seed: int) -> Any:
        beta = {} if width is None else {"beta": width(delta=1 / horizon)}
        kernel = problem.kernel if bandwidth is None else RBF(bandwidth)
        parts: dict[str, Any] = {"kernel": kernel, "noise_variance": problem.noise_variance}
        parts |= {"options": Options(mean=0.0), "seed": seed, **beta, **values}
        return policy(problem.domain, **parts)

    return make


def free(policy: Any) -> Maker:
    """Return what makes a policy without a model."""
    return lambda problem, _, seed: policy(problem.domain, seed=seed)


class Contestant(NamedTuple):
    """Makes a policy for a bandwidth, or for the problem's; those of [BB] Table 1; how it is drawn."""

    make: Callable[[float | None], Maker]
    abalone: float | None
    california: float | None
    line: Any
    grey: str
    weight: float = 1.4

    def bandwidth(self, panel: Panel) -> float | None:
        """That of the panel or of Table 1; none where the policy or the problem has its own."""
        of_table = {"abalone": self.abalone, "california": self.california}
        return panel.bandwidth or of_table.get(panel.table)


bbkb, thompson = partial(modelled, policies.bbkb), partial(modelled, policies.thompson)
CONTESTANTS = {
    "BBKB, global": Contestant(partial(bbkb, BBKBWidth), 17.5, 12.5, "-", "0.65", 4.0),
    "BBKB, local": Contestant(partial(bbkb, BBKBWidth, rule="local"), 17.5, 12.5, "--", "0.0"),
    "BKB": Contestant(partial(modelled, policies.bkb, BKBWidth), 17.5, 12.5, ":", "0.0"),
    "GP-UCB": Contestant(partial(modelled, policies.gp_ucb, Theory), 5.0, 12.5, "-", "0.45"),
    "GP-BUCB": Contestant(partial(modelled, policies.gp_bucb, Theory), 12.5, 12.5, "--", "0.45"),
    "Thompson, batch 30": Contestant(partial(thompson, ThompsonWidth), 10.0, 10.0, "-", "0.0"),
    "BBKB, width of Thompson": Contestant(
        partial(bbkb, ThompsonWidth), 17.5, 12.5, "-.", "0.0", 2.2
    ),
    "BBKB, width 2": Contestant(partial(bbkb, None, beta=2.0), None, None, "-.", "0.0", 2.2),
    "regularised evolution": Contestant(
        lambda _: free(policies.evolution), None, None, (0, (1, 1)), "0.45", 2.2
    ),
    "epsilon-greedy": Contestant(
        lambda _: free(policies.eps_greedy), None, None, (0, (6, 1, 1, 1, 1, 1)), "0.45"
    ),
    "uniform": Contestant(lambda _: free(policies.uniform), None, None, ":", "0.65", 2.2),
}
# Who plays: models at the widths of their theorems, all on regression tables, and on architectures.
MODELS = tuple(CONTESTANTS)[:7]
ON_TABLES = (*MODELS, "regularised evolution", "epsilon-greedy")
ON_ARCHITECTURES = (
    "BBKB, global", "BBKB, local", "BBKB, width 2", "GP-BUCB", "Thompson, batch 30",
    "regularised evolution", "epsilon-greedy", "uniform",
)  # fmt: skip


class Panel(NamedTuple):
    """A table, who plays on it, whether inputs are in [-1, 1], and one bandwidth for all, if any."""

    table: str
    players: Sequence[str] = ON_TABLES
    in_range: bool = False
    bandwidth: float | None = None

    @property
    def title(self) -> str:
        """What it shows, in words."""
        if self.table == ARCHITECTURES:
            return "Architectures"
        inputs = "in [-1, 1]" if self.in_range else "of deviation 1"
        shared = "" if self.bandwidth is None else f", bandwidth {self.bandwidth:g}"
        return f"{self.table.capitalize()}, inputs {inputs}{shared}"


def by_bandwidth(name: str) -> tuple[Panel, ...]:
    """A panel for each bandwidth."""
    return tuple(Panel(name, MODELS, True, each) for each in BANDWIDTHS)


# The panels of a figure, and how often each policy plays by default: in minutes, not in hours.
FIGURES: dict[int, tuple[tuple[Panel, ...], int]] = {
    1: (tuple(Panel(name, in_range=each) for each in (False, True) for name in TABLES), 1000),
    3: ((Panel(ARCHITECTURES, ON_ARCHITECTURES),), 1000),
    5: (by_bandwidth("abalone"), 500),
    6: (by_bandwidth("california"), 500),
}


def with_inputs_in_range(problem: TableProblem) -> TableProblem:
    """The same problem with every input scaled to [-1, 1]."""
    low, high = problem.points.min(axis=0), problem.points.max(axis=0)
    return replace(problem, points=2 * (problem.points - low) / (high - low) - 1)


# The runs of a policy by its name.
Runs: TypeAlias = Mapping[str, Sequence[Played]]


def contest(panel: Panel, problem: TableProblem, plays: int, seeds: int) -> Runs:
    """Print a row for each policy, and return its runs."""
    runs: dict[str, list[Played]] = {}
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
        rest = f"{simple:.4f}", f"{batches:.0f}", points, f"{seconds:.1f}"
        line(panel.title, name, bandwidth or "", cell(ratio), *rest)
    return runs


def draw_regret(axes: Axes, problem: TableProblem, runs: Runs) -> None:
    """Cumulative regret over that of uniform choice, means over seeds."""
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
    """Processor seconds of asking and telling, means over seeds."""
    for name, each in runs.items():
        elapsed = np.array([run.elapsed for run in each]).mean(axis=0)
        axes.plot(np.arange(1, len(elapsed) + 1), elapsed, **style(name))
    # Fixed limits: the times of another day leave the other panels where they are.
    axes.set(yscale="log", xlabel="plays", ylabel="processor seconds", ylim=(1e-3, 100))
    axes.grid(which="major", color="0.93")


def style(name: str) -> dict[str, Any]:
    """Return how the line of a policy is drawn."""
    one = CONTESTANTS[name]
    return {"label": name, "linestyle": one.line, "color": one.grey, "linewidth": one.weight}


def draw(results: Sequence[tuple[Panel, TableProblem, Runs]], path: Path) -> None:
    """Regret on each panel; then times on each table, unless the bandwidth is what varies."""
    shared = results[0][0].bandwidth is not None
    columns = 3 if shared else 2
    timed = [] if shared else results[:columns]
    rows = math.ceil((len(results) + len(timed)) / columns)
    size = 4.6 * columns, 3.3 * rows + 0.9
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns).ravel()
    for at, (panel, problem, runs) in zip(axes, results, strict=False):
        draw_regret(at, problem, runs)
        at.set_title(panel.title, fontsize=10)
    for at, (panel, _, runs) in zip(axes[len(results) :], timed, strict=False):
        draw_time(at, runs)
        at.set_title(panel.title, fontsize=10)
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False, handlelength=4)
    save_greys(figure, path)


def save_greys(figure: Figure, path: Path) -> None:
    """Save a figure that is all grey, in a fifth of the size."""
    figure.savefig(path, dpi=100)
    with Image.open(path) as picture:
        greys = picture.convert("L").quantize(16)
    greys.save(path, optimize=True)


def main() -> None:
    """Play, print the table, draw the figure."""
    parser = arguments(__doc__, seeds=2, plays=0)
    parser.add_argument("--figure", type=int, choices=FIGURES, required=True, help="of [BB]")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the picture")
    parser.add_argument("--tables", type=Path, metavar="DIR", help="where the tables are")
    options = parser.parse_args()
    panels, usual = FIGURES[options.figure]
    plays, results = options.plays or usual, []
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
