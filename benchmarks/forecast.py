"""Forecasts of a network with a daily cycle, beside scikit-learn's Gaussian process.

    python -m benchmarks.forecast [--seeds 10]

prints a table: 25 stations are read every hour for eight days; a cycle of 8 is the same at all of them,
and fronts of deviation 6 move across. The network's mean is forecast for the next 25 hours. The peer has
500 of the readings, a kernel with the same parts, and its hyperparameters by maximum likelihood.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Matern,
    WhiteKernel,
)

from benchmarks.harness import arguments, heading, line
from tvbandits import Candidates, Options, policies
from tvbandits.validation import Array

STATIONS, PAST, AHEAD, DAY, CYCLE, FRONT, NOISE = 25, 192, 25, 24.0, 8.0, 6.0, 0.5
PEER_READINGS = 500


class Stations(NamedTuple):
    """A made network.

    Attributes
    ----------
    points : array of shape (A, 2)
        In kilometres.
    truth, readings : arrays of shape (T, A)
    """

    points: Array
    truth: Array
    readings: Array


def stations(seed: int) -> Stations:
    """Return the network of a seed: its fronts move at five kilometres an hour."""
    rng = np.random.default_rng([seed, 25])
    points, hours = rng.uniform(0, 50, (STATIONS, 2)), np.arange(PAST + AHEAD)
    cycle = CYCLE * np.sin(2.0 * np.pi * (hours - 9.0) / DAY)
    wave = np.zeros(len(hours) + 100)
    for i in range(1, len(wave)):
        wave[i] = 0.97 * wave[i - 1] + np.sqrt(1.0 - 0.97**2) * rng.standard_normal()
    delay = points @ np.array([0.96, 0.28]) / 5.0
    front = [np.interp(hours + 50 - each, np.arange(len(wave)), wave) for each in delay]
    truth = 40.0 + rng.normal(0, 2, STATIONS) + cycle[:, None] + FRONT * np.array(front).T
    return Stations(points, truth, truth + NOISE * rng.standard_normal(truth.shape))


class DailyCycle(ExpSineSquared):  # type: ignore[misc]
    """scikit-learn's periodic kernel of the last coordinate alone."""

    def __call__(self, X: Array, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel of the last column."""
        return super().__call__(X[:, -1:], None if Y is None else Y[:, -1:], eval_gradient)


def forecast_of_peer(network: Stations, seed: int) -> Array:
    """Return the forecasts (25,) of the network's mean by scikit-learn."""
    rng = np.random.default_rng([seed, 26])
    readings = rng.choice(PAST * STATIONS, PEER_READINGS, replace=False)
    t, place = readings // STATIONS, readings % STATIONS
    y = network.readings[t, place]
    fronts = ConstantKernel(30.0) * Matern([30.0, 30.0, 10.0], nu=0.5)
    cycle = ConstantKernel(30.0) * DailyCycle(1.0, DAY, periodicity_bounds="fixed")
    places = ConstantKernel(5.0) * RBF([5.0, 5.0, 1e5], [(1, 100), (1, 100), (1e4, 1e6)])
    kernel = fronts + cycle + places + WhiteKernel(NOISE**2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        peer = GaussianProcessRegressor(kernel).fit(
            np.column_stack([network.points[place], t]), y - y.mean()
        )
    later = [np.column_stack([network.points, np.full(STATIONS, PAST + h)]) for h in range(AHEAD)]
    return np.array([peer.predict(Z).mean() + y.mean() for Z in later])


def forecast_of_ours(network: Stations) -> Array:
    """Return the forecasts (25,) of the network's mean by `adaptive_gp_ucb` with a named season."""
    bandit = policies.adaptive_gp_ucb(
        Candidates(network.points),
        noise_variance=NOISE**2,
        options=Options(season=DAY),
        history=pd.DataFrame(network.readings[:PAST], index=np.arange(PAST)),
    )
    times = range(PAST, PAST + AHEAD)
    return np.array([bandit.predict(network.points, t)[0].mean() for t in times])


def main() -> None:
    options = arguments(__doc__, seeds=10).parse_args()
    heading("error of the network's mean, 1 to 25 hours ahead", "mean", "sd over seeds")
    errors = []
    for seed in range(options.seeds):
        network = stations(seed)
        truth = network.truth[PAST:].mean(axis=1)
        last = np.full(AHEAD, network.readings[PAST - 1].mean())
        each = forecast_of_ours(network), forecast_of_peer(network, seed), last
        errors.append([float(np.sqrt(np.mean((one - truth) ** 2))) for one in each])
    names = "adaptive-gp-ucb with season=24", "scikit-learn", "the last hour's mean"
    for name, values in zip(names, np.array(errors).T, strict=True):
        line(name, f"{values.mean():.2f}", f"{values.std(ddof=1):.2f}")


if __name__ == "__main__":
    main()
