"""What a comparison estimates about a problem before the first step, once for every seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from tvbandits.acquisition.widths import Confidence
from tvbandits.bandit.observations import fill_variance
from tvbandits.data import Dataset
from tvbandits.datasets.base import mean_change
from tvbandits.datasets.environment import Environment, Stream
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.problem import Problem, noise_at, rewards_at, stated_variation, usual_noise
from tvbandits.experts.protocol import Expert
from tvbandits.gp import standardisation
from tvbandits.gp.evidence import fit, information_gains
from tvbandits.gp.kernels.space_time import Drift, OnSpace, without_bounds
from tvbandits.gp.noise import estimated_noise
from tvbandits.policies import Setting
from tvbandits.validation import Array

# Makes the expert of a problem and a seed.
MakeExpert: TypeAlias = Callable[[Problem, int], Expert]


@dataclass(frozen=True)
class Realisation:
    """One realisation of a problem, and what is estimated about it.

    Attributes
    ----------
    label : str
        The name of the problem in rows.
    environment : Environment
    setting : Setting
        The argument of the makers of policies, without width and expert. Its forgetting rate has the
        largest log evidence on the first sample.
    gains : array of shape (horizon,)
        Maximum information gain of 1, 2, ... observations.
    noise_variance : float
        The noise variance of a reward: the problem's, or an estimate from the first sample, which
        policies do not get.
    """

    label: str
    environment: Environment
    setting: Setting
    gains: Array
    noise_variance: float

    @property
    def problem(self) -> Problem:
        """The problem that is played."""
        return self.environment.problem

    @property
    def seed(self) -> int:
        """The seed of the realisation and of its noise."""
        return self.setting.seed

    @property
    def horizon(self) -> int:
        """The number of steps that are played."""
        return self.setting.horizon

    def begin(self) -> Realisation:
        """Return the realisation for one run: a problem that its player changes is copied."""
        return replace(self, environment=self.environment.begin())

    def setting_for(self, beta: Confidence | None, expert: MakeExpert | None) -> Setting:
        """Return the setting with a width and the maker of an expert."""
        problem, seed = self.problem, self.seed
        make = None if expert is None else lambda: expert(problem, seed)
        return replace(self.setting, domain=problem.domain, beta=beta, expert=make)


def prepare(
    label: str,
    problem: Problem,
    seed: int,
    horizon: int,
    *,
    sample_size: int = 200,
    most_points: int = 1000,
) -> Realisation:
    """Realise `problem` for `seed`, and estimate what it does not recommend itself.

    A uniform sample of noisy rewards, one at each of the first `sample_size` times, gives the scale of
    the reward, and by log evidence the drift rate epsilon of the TV-GP-UCB model and, where the problem
    recommends none, the length scale of an RBF kernel over points. It belongs to no policy's regret.
    Boxes, and domains of more than `most_points` candidates, are represented by so many uniform points.
    """
    environment = Environment.of(problem).realise(seed)
    problem = environment.problem
    sample = _sample(environment, seed, min(sample_size, horizon))
    noise_variance = usual_noise(problem)
    if noise_variance is None:
        noise_variance = estimated_noise(_start(problem, sample), sample).variance
        sample = sample.with_noise(noise_variance)
    kernel, rate = _fit(problem, sample)
    start, every = standardisation.Scaling(0.0, 1.0), np.ones(len(sample), bool)
    scale = standardisation.learn(start, kernel, sample, every, noise_variance).scale
    points = _representatives(problem, seed, most_points)
    variation = stated_variation(problem)
    if variation is None:
        first = range(1, min(problem.horizon, 20) + 1)
        variation = mean_change((rewards_at(problem, points, t) for t in first), len(first))
    gains = information_gains(kernel, points, noise_variance / scale**2, horizon)
    setting = Setting(
        domain=problem.domain,
        kernel=kernel,
        noise_variance=usual_noise(problem),
        horizon=horizon,
        variation=variation / scale,
        scale=scale,
        forgetting_rate=rate,
        information_gain=float(gains[-1]),
        beta=None,
        expert=None,
        seed=seed,
    )
    return Realisation(label, environment, setting, gains, noise_variance)


def _sample(environment: Environment, seed: int, size: int) -> Dataset:
    """Return rewards of uniform points, one at each of the first times."""
    problem, times = environment.problem, np.arange(1.0, size + 1)
    X = problem.domain.sample(size, np.random.default_rng([seed, Stream.FIRST_SAMPLE]))
    points = zip(X[:, None], times.tolist(), strict=True)
    rewards = np.array([environment.play(x, t, seed, Stream.FIRST_SAMPLE)[1] for x, t in points])
    noise = noise_at(problem, X)
    variance = fill_variance(size, None) if noise is None else noise
    return Dataset.from_columns(X, times, rewards, variance)


def _start(problem: Problem, sample: Dataset) -> Any:
    """Return the kernel over points that is recommended, or the one that a fit starts from."""
    if problem.kernel is not None:
        return problem.kernel
    extent = float(np.ptp(sample.X, axis=0).max()) or 1.0
    return RBF(0.3 * extent, (1e-3 * extent, 10 * extent))


def _fit(problem: Problem, sample: Dataset) -> tuple[Any, float]:
    """Return kernel over points and drift rate, by log evidence of amplitude * k * drift."""
    variance = float(np.var(sample.y)) + float(sample.variance[0])
    amplitude = ConstantKernel(variance, (1e-4 * variance, 1e4 * variance))
    recommended, space = problem.kernel, _start(problem, sample)
    fixed = space if recommended is None else without_bounds(space)
    best = fit(amplitude * OnSpace(fixed) * Drift(0.1, (1e-5, 0.9)), sample)
    return (best.k1.k2.kernel if recommended is None else recommended), float(best.k2.epsilon)


def _representatives(problem: Problem, seed: int, most_points: int) -> Array:
    """Return all candidates where they are few, and uniform points elsewhere."""
    domain = problem.domain
    if isinstance(domain, Candidates) and len(domain) <= most_points:
        return domain.X
    return domain.sample(most_points, np.random.default_rng([seed, Stream.REPRESENTATIVES]))
