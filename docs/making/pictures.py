"""The pictures of the concepts page, light and dark: `python docs/making/pictures.py [FOLDER]`."""

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
    """The reward of all pictures: a hill that wanders over [0, 10]."""
    return np.exp(-((X[:, 0] - 5 - 3 * np.sin(t / 15)) ** 2))


def figure() -> Figure:
    """One size for all."""
    return Figure(figsize=(7.5, 3.6), layout="constrained")


def save(drawn: Figure, out: Path, name: str) -> None:
    """Save a picture under its name, which ends in "-dark" where it has dark colours."""
    is_dark = rcParams["figure.facecolor"] != "white"
    drawn.savefig(out / f"{name}{'-dark' if is_dark else ''}.png", dpi=120)


def paint() -> dict[str, Any]:
    """The colours of a band, which lets the ground through."""
    return {"color": rcParams["text.color"], "alpha": 0.1, "linewidth": 0}


def width(out: Path) -> None:
    """Mean, deviation, upper bound at two widths, and the points that they choose."""
    domain = Candidates(PLACES[:, None])
    bandit = Bandit(Recipe(domain, RBF(1.0), 0.01), seed=0)
    rng = np.random.default_rng(3)
    X = domain.X[[30, 60, 72, 95, 140, 170]]
    bandit.tell(X, hill(X, 0.0) + 0.1 * rng.standard_normal(len(X)), 1)
    mean, deviation = bandit.predict(domain.X, 2)
    drawn = figure()
    axes, ink = drawn.subplots(), rcParams["text.color"]
    axes.fill_between(
        PLACES, mean - 2 * deviation, mean + 2 * deviation, **paint(), label="mean ± 2 deviations"
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
    drawn.legend(loc="outside right upper", frameon=False)
    save(drawn, out, "concept-width")


def aging(out: Path) -> None:
    """Effective noise variance against age, for the aging maps."""
    ages = np.arange(60.0, -1.0, -1.0)  # one reward a step, and sixty of them
    seen_as = Ages(ages, ages.astype(np.int64), 61)
    maps = {
        "never forgets": Constant(),
        "linear injection, rate 0.05": Linear(0.05),
        "weights, discount 0.95": Exponential(0.95),
        "window of 45": Window(last=45),
        "reset every 45": ResetEvery(45),
    }
    drawn = figure()
    axes, ink = drawn.subplots(), rcParams["text.color"]
    for (name, aged), line in zip(maps.items(), LINES, strict=True):
        variance = aged(np.full(61, 0.1), seen_as)
        seen = np.isfinite(variance)
        if seen.all():
            axes.plot(ages, variance, color=ink, linestyle=line, label=name)
        else:  # as the first line, and infinite from here on
            oldest = ages[seen][0]
            axes.plot(oldest, variance[seen][0], "x", color=ink, markersize=9)
            axes.annotate(f"{name}:\nforgotten from here on", (oldest, 0.108), fontsize="small")
    axes.set(
        xlabel="age of an observation (steps)",
        ylabel="effective noise variance",
        yscale="log",
        ylim=(0.09, None),
        xlim=(-3, 72),
    )
    drawn.legend(loc="outside right upper", frameon=False)
    save(drawn, out, "concept-aging")


class Station:
    """Answers about any place, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, float]] = []

    def query(self, X: np.ndarray, t: float) -> Answers:
        """The hill itself, with the variance of a good instrument."""
        self.asked += [(t, float(x[0])) for x in X]
        return Answers(hill(X, t), 0.01)


def questions(out: Path) -> None:
    """Where a policy plays, and what it asks."""
    station = Station()
    bandit = policies.frugal_gp_ucb(
        Candidates(PLACES[::2, None]),
        noise_variance=0.01,
        expert=station,
        queries_per_step=2,
        seed=0,
    )
    rng = np.random.default_rng(0)
    played = []
    for t in range(1, 151):
        X = bandit.ask(t)
        bandit.tell(X, hill(X, t) + 0.1 * rng.standard_normal(len(X)), t)
        played.append((t, float(X[0, 0])))
    drawn = figure()
    axes, ink = drawn.subplots(), rcParams["text.color"]
    axes.plot(
        *np.array(station.asked).T, "x", color="0.6", markersize=4, label="asked about (2 a step)"
    )
    axes.plot(*np.array(played).T, ".", color=ink, markersize=4, label="played")
    times = np.arange(1, 151)
    axes.plot(times, 5 + 3 * np.sin(times / 15), "-", color=ink, linewidth=0.8, label="best place")
    axes.set(xlabel="step t", ylabel="place x")
    drawn.legend(loc="outside right upper", frameon=False)
    save(drawn, out, "concept-expert")


def dictionary(out: Path) -> None:
    """Where the inducing points of a sparse posterior stand, and what it believes with them."""
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
    all_mean, all_deviation = exact.predict(domain.X)
    points = sparse.info.posterior.dictionary_size
    drawn = figure()
    axes, ink = drawn.subplots(), rcParams["text.color"]
    axes.plot(X[:, 0], y, ".", color="0.75", markersize=3, label="300 observations")
    axes.fill_between(
        PLACES, mean - 2 * deviation, mean + 2 * deviation, **paint(), label="± 2 deviations"
    )
    axes.plot(PLACES, mean, color=ink, label=f"on {points} inducing points")
    axes.plot(PLACES, all_mean, ":", color=ink, label="on all of them")
    axes.plot(PLACES, all_mean + 2 * all_deviation, ":", color=ink, linewidth=0.7)
    axes.set(xlabel="place x", ylabel="reward")
    drawn.legend(loc="outside right upper", frameon=False)
    save(drawn, out, "concept-dictionary")


def main(out: Path = DOCS) -> None:
    """Draw all."""
    for look in ("default", DARK):
        with style.context(look):
            for draw in (width, aging, questions, dictionary):
                draw(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS)
