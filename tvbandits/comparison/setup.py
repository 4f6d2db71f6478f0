"""The preparation of a problem before the first step, once for every seed of a comparison."""

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
from tvbandits.domains.problem import (
    Problem,
    get_mean_noise,
    get_noise_at,
    get_stated_variation,
    rewards_at,
)
from tvbandits.experts.protocol import Expert
from tvbandits.gp import standardisation
from tvbandits.gp.evidence import fit, information_gains
from tvbandits.gp.kernels.space_time import Drift, OnSpace, fix_hyperparameters
from tvbandits.gp.noise import infer_noise
from tvbandits.policies import Setting
from tvbandits.validation import Array

# A function that returns the expert for a problem and a seed.
MakeExpert: TypeAlias = Callable[[Problem, int], Expert]


@dataclass(frozen=True)
class Realisation:
    """A realisation of a problem, with estimates of its scale, drift and noise.

    Attributes
    ----------
    label : str
        The name of the problem in rows.
    environment : Environment
    setting : Setting
        The argument of the makers of policies, without width and expert. Its forgetting rate maximizes
        the log evidence of the initial sample.
    gains : array of shape (horizon,)
        Maximum information gains of 1, 2, ... observations.
    noise_variance : float
        Noise variance of a reward: the problem's, or an estimate from the initial sample, which policies
        do not get.
    """

    label: str
    environment: Environment
    setting: Setting
    gains: Array
    noise_variance: float

    @property
    def problem(self) -> Problem:
        """Return the problem that is played."""
        return self.environment.problem

    @property
    def seed(self) -> int:
        """Return the seed of the realisation and of its noise."""
        return self.setting.seed

    @property
    def horizon(self) -> int:
        """Return the number of steps of a run."""
        return self.setting.horizon

    def begin(self) -> Realisation:
        """Return the realisation for one run, with a copy of the problem if plays change it."""
        return replace(self, environment=self.environment.begin())

    def setting_for(self, beta: Confidence | None, expert: MakeExpert | None) -> Setting:
        """Return the setting with a confidence width and a function that makes the expert."""
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
    """Realise `problem` for `seed`, and estimate the quantities that it does not recommend itself.

    The estimates are from a uniform initial sample of noisy rewards, one at each of the first
    `sample_size` times: the scale of the reward and, by log evidence, the forgetting rate epsilon of the
    TV-GP-UCB model, and the length scale of an RBF kernel if the problem recommends no kernel. The
    sample does not count in any policy's regret. Information gains on boxes, and on domains of more than
    `most_points` candidates, are computed on so many uniform points.
    """
    environment = Environment.of(problem).realise(seed)
    problem = environment.problem
    sample = _draw_sample(environment, seed, min(sample_size, horizon))
    noise_variance = get_mean_noise(problem)
    if noise_variance is None:
        noise_variance = infer_noise(_initial_kernel(problem, sample), sample).variance
        sample = sample.with_noise(noise_variance)
    kernel, rate = _fit_kernel(problem, sample)
    start, every = standardisation.Scaling(0.0, 1.0), np.ones(len(sample), bool)
    scale = standardisation.learn_scaling(start, kernel, sample, every, noise_variance).scale
    points = _representative_points(problem, seed, most_points)
    variation = get_stated_variation(problem)
    if variation is None:
        steps = range(1, min(problem.horizon, 20) + 1)
        variation = mean_change((rewards_at(problem, points, t) for t in steps), len(steps))
    gains = information_gains(kernel, points, noise_variance / scale**2, horizon)
    setting = Setting(
        domain=problem.domain,
        kernel=kernel,
        noise_variance=get_mean_noise(problem),
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


def _draw_sample(environment: Environment, seed: int, size: int) -> Dataset:
    """Return noisy rewards of uniform points, one at each of the times 1, ..., size."""
    problem, times = environment.problem, np.arange(1.0, size + 1)
    X = problem.domain.sample(size, np.random.default_rng([seed, Stream.FIRST_SAMPLE]))
    points = zip(X[:, None], times.tolist(), strict=True)
    rewards = np.array([environment.play(x, t, seed, Stream.FIRST_SAMPLE)[1] for x, t in points])
    noise = get_noise_at(problem, X)
    variance = fill_variance(size, None) if noise is None else noise
    return Dataset.from_columns(X, times, rewards, variance)


def _initial_kernel(problem: Problem, sample: Dataset) -> Any:
    """Return the kernel that the problem recommends, or else an RBF kernel to start a fit from."""
    if problem.kernel is not None:
        return problem.kernel
    extent = float(np.ptp(sample.X, axis=0).max()) or 1.0
    return RBF(0.3 * extent, (1e-3 * extent, 10 * extent))


def _fit_kernel(problem: Problem, sample: Dataset) -> tuple[Any, float]:
    """Return the kernel k over points and the forgetting rate.

    They maximize the log evidence of amplitude * k * drift; a kernel that the problem recommends is not
    changed.
    """
    variance = float(np.var(sample.y)) + float(sample.variance[0])
    amplitude = ConstantKernel(variance, (1e-4 * variance, 1e4 * variance))
    recommendation, initial = problem.kernel, _initial_kernel(problem, sample)
    kernel = initial if recommendation is None else fix_hyperparameters(initial)
    best = fit(amplitude * OnSpace(kernel) * Drift(0.1, (1e-5, 0.9)), sample)
    kernel = best.k1.k2.kernel if recommendation is None else recommendation
    return kernel, float(best.k2.epsilon)


def _representative_points(problem: Problem, seed: int, most_points: int) -> Array:
    """Return all candidates if there are at most `most_points`, else so many uniform points."""
    domain = problem.domain
    if isinstance(domain, Candidates) and len(domain) <= most_points:
        return domain.X
    return domain.sample(most_points, np.random.default_rng([seed, Stream.REPRESENTATIVES]))
