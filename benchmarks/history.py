"""Regret on networks with and without a history, against a plain filter.

    python -m benchmarks.history FOLDER [--only NAME ...]

prints the table of the page about networks; FOLDER has the files of ozone, wind, light, roads and
temperature. Each network has a complete history, and later steps that are played. `PlainFilter` is a
filter of forty lines that also uses the history.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.harness import heading, line, make_files_parser, select_cases
from benchmarks.networks import ozone_of, temperature, wind
from tvbandits import Answers, Candidates, policies
from tvbandits.bandit.bandit import Bandit
from tvbandits.datasets import TableProblem, sensor_field
from tvbandits.gp.lookahead import ALL_POINTS, JointPosterior
from tvbandits.queries.plans import choose_questions
from tvbandits.validation import Array, Index

ANSWERS = 3
MOST_STEPS = 200
COLUMNS = (
    "network", "places", "best fixed", "adaptive, no history", "adaptive, history",
    "plain filter, 1 reading", "frugal, no history", "frugal, history", "plain filter, 3 answers",
)  # fmt: skip
# The width and the time factors were chosen on these networks, the shrinkage with a look at all.
DEVELOPMENT = "wind 1974-75", "Sweden", "roads", "Georgia", "Arizona", "Indiana"


class Network(NamedTuple):
    """A network with a history.

    Attributes
    ----------
    points : array of shape (A, d)
    history, later : arrays of shape (T, A)
        Readings before the first decision, and those of the steps that are played.
    """

    points: Array
    history: Array
    later: Array

    @classmethod
    def of(cls, problem: TableProblem, later: TableProblem | None = None) -> Network:
        """Return a network: its first half is the history, unless the later steps are given."""
        values, half = problem.values, len(problem.values) // 2
        if later is None:
            return cls(problem.points, values[:half], values[half:][:MOST_STEPS])
        return cls(problem.points, values, later.values[:MOST_STEPS])


def light(folder: str) -> Network:
    """Return light at 41 places of an office (CMU, 2005): 601 steps, and 192 of later days."""
    train, test = (
        sensor_field(Path(folder) / f"light_{part}.csv", Path(folder) / "light_sites.csv")
        for part in ("train", "test")
    )
    return Network.of(train, test)


def roads(folder: str) -> Network:
    """Return the congestion of 40 roads of Los Angeles (METR-LA), in half-hours of a week."""
    files = (Path(folder) / f"roads_{part}.csv" for part in ("halfhourly", "sites"))
    return Network.of(sensor_field(*files))


def ozone_network(folder: str, state: str) -> Network:
    """Return daily ozone of a state, May to September 2021, ppb."""
    return Network.of(ozone_of(state, folder))


def wind_network(folder: str, year: int) -> Network:
    """Return daily wind of Ireland, knots, in a year and in the next one."""
    return Network.of(wind(folder, year), wind(folder, year + 1))


def temperature_network(folder: str) -> Network:
    """Return daily temperature of 45 Swedish towns, October to December 2014, degrees Celsius."""
    return Network.of(temperature(folder))


def networks(folder: str) -> dict[str, Callable[[], Network]]:
    """Return the makers of the networks by name."""
    names = ("Georgia", "Arizona", "Indiana", "North Carolina", "Michigan", "Tennessee", "Illinois")
    states = {name: partial(ozone_network, folder, name) for name in names}
    years = (1974, 1965, 1972)
    winds = {f"wind {year}-{year % 100 + 1}": partial(wind_network, folder, year) for year in years}
    others = {
        "light": partial(light, folder),
        "roads": partial(roads, folder),
        "Sweden": partial(temperature_network, folder),
    }
    return {**others, **winds, **states}


class PlainFilter:
    """A filter of place means, principal components and residuals as autoregressions, and slow levels.

    Parameters
    ----------
    history : array of shape (T, A)
    components : int
    """

    def __init__(self, history: Array, components: int = 3) -> None:
        T, A = history.shape
        self.mean_of_place = history.mean(axis=0)
        above = history - self.mean_of_place
        k = min(components, A - 1)
        left, values, right = np.linalg.svd(above, full_matrices=False)
        scores, loadings = left[:, :k] * values[:k], right[:k].T
        residuals = above - scores @ loadings.T
        series = np.concatenate([scores, residuals], axis=1)
        squares = np.maximum((series[:-1] ** 2).sum(axis=0), 1e-12)
        rho = np.clip((series[1:] * series[:-1]).sum(axis=0) / squares, 0.0, 0.999)
        variance = above.var(axis=0)
        self.observe = np.concatenate([loadings, np.eye(A), np.eye(A)], axis=1)
        self.decay = np.concatenate([rho, np.full(A, np.exp(-1 / 500))])
        self.prior = np.diag(
            np.concatenate([series.var(axis=0), 0.3 * variance]) + 1e-9 * above.var()
        )
        self.noise = 1e-4 * float(above.var())
        self.state, self.covariance = np.zeros(len(self.decay)), self.prior.copy()
        for row in history[-min(T, 30) :]:
            self.update(np.arange(A), row)
            self.step()

    def update(self, rows: Index, values: Array) -> None:
        """Update the state with readings of some places."""
        H = self.observe[rows]
        S = H @ self.covariance @ H.T + self.noise * np.eye(len(rows))
        gain = np.linalg.solve(S, H @ self.covariance).T
        self.state = self.state + gain @ (values - self.mean_of_place[rows] - H @ self.state)
        self.covariance = self.covariance - gain @ H @ self.covariance

    def step(self) -> None:
        """Predict the state of the next step."""
        both = self.decay[:, None] * self.decay
        self.state = self.decay * self.state
        self.covariance = both * self.covariance + (1.0 - both) * self.prior

    @property
    def mean(self) -> Array:
        """Return the means (A,) of this step."""
        return np.asarray(self.mean_of_place + self.observe @ self.state)

    def joint_posterior(self) -> JointPosterior:
        """Return the posterior of the next step, and how readings of this step would change it."""
        H, both = self.observe, self.decay[:, None] * self.decay
        now, cross = H @ self.covariance @ H.T, H @ (self.covariance * self.decay) @ H.T
        later = H @ (both * self.covariance + (1.0 - both) * self.prior) @ H.T
        mean = self.mean_of_place + H @ (self.decay * self.state)
        deviation = np.sqrt(np.maximum(np.diag(later), 0.0))
        return JointPosterior(
            mean, deviation, 2.0, self.noise,
            lambda rows, others=ALL_POINTS: cross[np.asarray(rows)][:, others],
            lambda rows, others: now[np.ix_(np.asarray(rows), np.asarray(others))],
        )  # fmt: skip


def play_filter(network: Network, answers: int) -> float:
    """Return the regret a step of the best mean, with answers chosen by the plan `next`."""
    plain, regret, count = PlainFilter(network.history), 0.0, 0
    for values in network.later:
        row = int(plain.mean.argmax())
        regret += values.max() - values[row]
        plain.update(np.array([row]), values[[row]])
        if answers:
            rows = choose_questions(plain.joint_posterior(), answers, count)
            count += len(rows)
            plain.update(rows, values[rows])
        plain.step()
    return regret / len(network.later)


class TableExpert:
    """An expert that answers from the table of later steps, from t = 1 on."""

    def __init__(self, network: Network) -> None:
        self.domain, self.later = Candidates(network.points), network.later

    def query(self, X: Array, t: float) -> Answers:
        """Return the readings of points at a time."""
        return Answers(self.later[int(t) - 1, self.domain.index(X)])


def play(network: Network, answers: int, with_history: bool) -> float:
    """Return the regret a step of one of our policies."""
    history = network.history if with_history else None
    domain, expert = Candidates(network.points), TableExpert(network)
    bandit: Bandit
    if answers:
        bandit = policies.frugal_gp_ucb(
            domain, expert=expert, queries_per_step=answers, history=history
        )
    else:
        bandit = policies.adaptive_gp_ucb(domain, history=history)
    regret = 0.0
    for t, values in enumerate(network.later, 1):
        X = bandit.ask(t)
        row = domain.index(X)
        regret += values.max() - float(values[row][0])
        bandit.tell(X, values[row], t)
    return regret / len(network.later)


def main() -> None:
    options = make_files_parser(__doc__).parse_args()
    heading(*COLUMNS)
    for name, make in select_cases(networks(options.folder), options.only).items():
        network = make()
        later = network.later
        best_fixed = float((later.max(axis=1)[:, None] - later).mean(axis=0).min())
        regrets = [
            play(network, 0, with_history=False),
            play(network, 0, with_history=True),
            play_filter(network, 0),
            play(network, ANSWERS, with_history=False),
            play(network, ANSWERS, with_history=True),
            play_filter(network, ANSWERS),
        ]
        mark = " *" if name in DEVELOPMENT else ""
        line(
            f"{name}{mark}",
            len(network.points),
            f"{best_fixed:.3g}",
            *(f"{each:.3g}" for each in regrets),
        )


if __name__ == "__main__":
    main()
