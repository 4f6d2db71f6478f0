"""Draw the pictures of the concepts page, light and dark: `python docs/making/pictures.py [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rcParams, style
from matplotlib.figure import Figure
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Answers, Bandit, Candidates, Nystrom, Recipe, policies
from tvbandits.forgetting.aging import Ages, Constant, Exponential, Linear, ResetEvery, Window

DOCS = Path(__file__).resolve().parents[1]
DARK = Path(__file__).with_name("dark.mplstyle")
PLACES = np.linspace(0, 10, 201)
LINES = ("-", "--", ":", "-.", (0, (5, 1)))


def hill(X: np.ndarray, t: float) -> np.ndarray:
    """Return the reward (n,) at points (n, 1): the height of a hill that wanders over [0, 10]."""
    return np.exp(-((X[:, 0] - 5 - 3 * np.sin(t / 15)) ** 2))


def make_figure() -> Figure:
    """Return an empty figure; all pictures have the same size."""
    return Figure(figsize=(7.5, 3.6), layout="constrained")


def save(figure: Figure, out: Path, name: str) -> None:
    """Save a picture under its name, with "-dark" at the end if it has dark colours."""
    is_dark = rcParams["figure.facecolor"] != "white"
    figure.savefig(out / f"{name}{'-dark' if is_dark else ''}.png", dpi=120)


def band_style() -> dict[str, Any]:
    """Return the style of a band, which is transparent."""
    return {"color": rcParams["text.color"], "alpha": 0.1, "linewidth": 0}


def draw_width(out: Path) -> None:
    """Draw mean, deviation and upper bound at two widths, and the points that these choose."""
    domain = Candidates(PLACES[:, None])
    bandit = Bandit(Recipe(domain, RBF(1.0), 0.01), seed=0)
    rng = np.random.default_rng(3)
    X = domain.X[[30, 60, 72, 95, 140, 170]]
    bandit.tell(X, hill(X, 0.0) + 0.1 * rng.standard_normal(len(X)), 1)
    mean, deviation = bandit.predict(domain.X, 2)
    figure = make_figure()
    axes, ink = figure.subplots(), rcParams["text.color"]
    axes.fill_between(
        PLACES,
        mean - 2 * deviation,
        mean + 2 * deviation,
        **band_style(),
        label="mean ± 2 deviations",
    )
    axes.plot(PLACES, mean, color=ink, label="mean")
    axes.plot(X[:, 0], hill(X, 0.0), "o", color=ink, markersize=4, label="played")
    for beta, line in ((0.5, "--"), (2.0, ":")):
        bound = mean + beta * deviation
        best = int(np.argmax(bound))
        axes.plot(
            PLACES,
            bound,
            color=ink,
            linestyle=line,
            linewidth=1,
            label=f"upper bound, width {beta:g}",
        )
        axes.plot(
            PLACES[best],
            bound[best],
            "^",
            color=ink,
            markersize=9,
            fillstyle="none" if beta > 1 else "full",
        )
    axes.set(xlabel="place x", ylabel="reward")
    figure.legend(loc="outside right upper", frameon=False)
    save(figure, out, "concept-width")


def draw_aging(out: Path) -> None:
    """Draw effective noise variance against age for some aging maps."""
    ages = np.arange(60.0, -1.0, -1.0)  # of 61 rewards, one a step
    counted_ages = Ages(ages, ages.astype(np.int64), 61)
    maps = {
        "never forgets": Constant(),
        "linear injection, rate 0.05": Linear(0.05),
        "weights, discount 0.95": Exponential(0.95),
        "window of 45": Window(last=45),
        "reset every 45": ResetEvery(45),
    }
    figure = make_figure()
    axes, ink = figure.subplots(), rcParams["text.color"]
    for (name, aging_map), line in zip(maps.items(), LINES, strict=True):
        variance = aging_map(np.full(61, 0.1), counted_ages)
        is_used = np.isfinite(variance)
        if is_used.all():
            axes.plot(ages, variance, color=ink, linestyle=line, label=name)
        else:  # until this age the curve is the first line, which covers it
            oldest = ages[is_used][0]
            axes.plot(oldest, variance[is_used][0], "x", color=ink, markersize=9)
            axes.annotate(f"{name}:\nforgotten from here on", (oldest, 0.108), fontsize="small")
    axes.set(
        xlabel="age of an observation (steps)",
        ylabel="effective noise variance",
        yscale="log",
        ylim=(0.09, None),
        xlim=(-3, 72),
    )
    figure.legend(loc="outside right upper", frameon=False)
    save(figure, out, "concept-aging")


class Station:
    """An expert that answers about any place, and records the questions (time, place)."""

    def __init__(self) -> None:
        self.questions: list[tuple[float, float]] = []

    def query(self, X: np.ndarray, t: float) -> Answers:
        """Return the true height of the hill, with the variance of a good instrument."""
        self.questions += [(t, float(x[0])) for x in X]
        return Answers(hill(X, t), 0.01)


def draw_questions(out: Path) -> None:
    """Draw where a policy plays, and what it asks about."""
    station = Station()
    bandit = policies.frugal_gp_ucb(
        Candidates(PLACES[::2, None]),
        noise_variance=0.01,
        expert=station,
        queries_per_step=2,
        seed=0,
    )
    rng = np.random.default_rng(0)
    plays = []
    for t in range(1, 151):
        X = bandit.ask(t)
        bandit.tell(X, hill(X, t) + 0.1 * rng.standard_normal(len(X)), t)
        plays.append((t, float(X[0, 0])))
    figure = make_figure()
    axes, ink = figure.subplots(), rcParams["text.color"]
    label = "asked about (2 a step)"
    axes.plot(*np.array(station.questions).T, "x", color="0.6", markersize=4, label=label)
    axes.plot(*np.array(plays).T, ".", color=ink, markersize=4, label="played")
    times = np.arange(1, 151)
    axes.plot(times, 5 + 3 * np.sin(times / 15), "-", color=ink, linewidth=0.8, label="best place")
    axes.set(xlabel="step t", ylabel="place x")
    figure.legend(loc="outside right upper", frameon=False)
    save(figure, out, "concept-expert")


def draw_dictionary(out: Path) -> None:
    """Draw a sparse posterior, and the exact one for comparison."""
    domain = Candidates(PLACES[:, None])
    rng = np.random.default_rng(1)
    X = domain.X[rng.integers(0, 120, 300)]
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(len(X))
    sparse = Bandit(Recipe(domain, RBF(1.0), 0.09, posterior=Nystrom()), seed=0)
    exact = Bandit(Recipe(domain, RBF(1.0), 0.09), seed=0)
    for bandit in (sparse, exact):
        bandit.tell(X, y, 1)
        bandit.ask(2)
    mean, deviation = sparse.predict(domain.X)
    exact_mean, exact_deviation = exact.predict(domain.X)
    points = sparse.info.posterior.dictionary_size
    figure = make_figure()
    axes, ink = figure.subplots(), rcParams["text.color"]
    axes.plot(X[:, 0], y, ".", color="0.75", markersize=3, label="300 observations")
    axes.fill_between(
        PLACES, mean - 2 * deviation, mean + 2 * deviation, **band_style(), label="± 2 deviations"
    )
    axes.plot(PLACES, mean, color=ink, label=f"on {points} inducing points")
    axes.plot(PLACES, exact_mean, ":", color=ink, label="on all of them")
    axes.plot(PLACES, exact_mean + 2 * exact_deviation, ":", color=ink, linewidth=0.7)
    axes.set(xlabel="place x", ylabel="reward")
    figure.legend(loc="outside right upper", frameon=False)
    save(figure, out, "concept-dictionary")


def main(out: Path = DOCS) -> None:
    """Draw all pictures, in light and in dark colours."""
    for colours in ("default", DARK):
        with style.context(colours):
            for draw in (draw_width, draw_aging, draw_questions, draw_dictionary):
                draw(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS)
