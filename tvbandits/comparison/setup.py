"""What a comparison finds out about a problem before the first step, once for every seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from tvbandits.acquisition.limits import Limit
from tvbandits.acquisition.widths import Confidence
from tvbandits.bandit.observations import usual_variance
from tvbandits.data import Dataset
from tvbandits.datasets.tables.problem import mean_change
from tvbandits.domains.candidates import Candidates
from tvbandits.experts.keyed_noise import keyed_normal
from tvbandits.gp.fitting import standardisation
from tvbandits.gp.fitting.evidence import fit, information_gains
from tvbandits.gp.fitting.noise import estimated_noise
from tvbandits.gp.kernels.space_time import Drift, OnSpace
from tvbandits.gp.kernels.structure import without_bounds
from tvbandits.policies import Setting
from tvbandits.protocols import Expert, Problem, added_noise
from tvbandits.validation import Array, finite_number

# Uniform plays, one at each of the first times, that scale, kernel and drift are estimated from.
FIRST_SAMPLE = 200


# Domains larger than this, and boxes, are represented by so many uniform points.
MOST_POINTS = 1000


# Noise streams: the first sample, the rewards of a run, and the first of its outcomes under limits.
SAMPLE_NOISE, REWARD_NOISE, OUTCOME_NOISE = 0xF1, 0x01, 0x11


# Between the noise streams of the first and the second reading of one point in one step.
STREAMS = 0x100


@dataclass(frozen=True)
class Prepared:
    """One realisation of a problem, and what is known of it.

    Attributes
    ----------
    label : str
        What rows call the problem.
    problem : Problem
    known : Setting
        What the makers of policies are given, but for width and expert. Its epsilon is by log evidence
        on the first sample.
    gains : array of shape (horizon,)
        Maximum information gain of 1, 2, ... observations.
    noise_variance : float
        Of a reward: the problem's, or the estimate out of the first sample. Policies are told the
        problem's alone.
    """

    label: str
    problem: Problem
    known: Setting
    gains: Array
    noise_variance: float

    def setting(
        self, beta: Confidence | None, expert: Callable[[Problem, int], Expert] | None
    ) -> Setting:
        """What the makers of policies are given."""
        problem, seed = self.problem, self.known.seed
        asked = None if expert is None else lambda: expert(problem, seed)
        return replace(self.known, domain=problem.domain, beta=beta, expert=asked)


def begun(prepared: Prepared) -> Prepared:
    """The same, for one run: a problem that is moved by its player (`begin`) is copied for it."""
    begin = getattr(prepared.problem, "begin", None)
    return prepared if begin is None else replace(prepared, problem=begin())


def prepare(label: str, problem: Problem, seed: int, horizon: int) -> Prepared:
    """Realise `problem` for `seed`, and estimate what it does not recommend itself.

    A uniform sample of noisy rewards, one at each of the first `FIRST_SAMPLE` times, gives the scale of
    the reward, and by log evidence the drift rate epsilon of the TV-GP-UCB model and, where the problem
    recommends none, the length scale of an RBF kernel over points. It belongs to no policy's regret.
    """
    realise = getattr(problem, "realise", None)
    if realise is not None:
        problem = realise(seed)
    sample = _first_sample(problem, seed, horizon)
    noise_variance = problem.noise_variance
    if noise_variance is None:
        noise_variance = estimated_noise(_start(problem, sample), sample).variance
        sample = sample.with_noise(noise_variance)
    kernel, rate = _fitted(problem, sample)
    start, every = standardisation.Scaling(0.0, 1.0), np.ones(len(sample), bool)
    scale = standardisation.learn(start, kernel, sample, every, noise_variance).scale
    points, variation = _representatives(problem, seed), problem.variation
    if variation is None:
        first = range(1, min(problem.horizon, 20) + 1)
        variation = mean_change((problem.value(points, t) for t in first), len(first))
    gains = information_gains(kernel, points, noise_variance / scale**2, horizon)
    known = Setting(
        domain=problem.domain,
        kernel=kernel,
        noise_variance=problem.noise_variance,
        horizon=horizon,
        variation=variation / scale,
        scale=scale,
        forgetting_rate=rate,
        information_gain=float(gains[-1]),
        beta=None,
        expert=None,
        seed=seed,
    )
    return Prepared(label, problem, known, gains, noise_variance)


def played(problem: Problem, x: Array, t: float, seed: int, stream: int) -> tuple[float, float]:
    """True reward of a point (1, d) at a time, and the reward with noise.

    The noise depends on (seed, stream, point, time) alone (`tvbandits.experts.keyed_noise`). A
    problem that is moved by its player (`wear`) is moved. Of a problem with `trials` the reward is a
    chance to succeed, and what is read is the share of so many trials that did.
    """
    reward = finite_number(f"the value of {problem.name}", problem.value(x, t)[0])
    wear = getattr(problem, "wear", None)
    if wear is not None:
        wear(x)
    noise = float(keyed_normal(seed, stream, x, t)[0])
    trials = getattr(problem, "trials", None)
    if trials is not None:
        return reward, float(binom.ppf(ndtr(noise), trials, reward)) / trials
    return reward, reward + added_noise(problem) ** 0.5 * noise


def outcomes_of(
    problem: Problem, X: Array, times: Array, seed: int
) -> tuple[dict[str, Array], Array]:
    """Readings (n,) of each outcome that has a limit, by name, and how many limits each point violates.

    The noise depends on what that of rewards does, and on the outcome.
    """
    readings, broken = {}, np.zeros(len(X))
    for k, limit in enumerate(limits_of(problem)):
        true, noise = np.empty((2, len(X)))
        for i, t in enumerate(times.tolist()):
            x = X[i : i + 1]
            true[i] = problem.outcomes(x, t)[limit.name][0]  # type: ignore[attr-defined]
            noise[i] = keyed_normal(seed, OUTCOME_NOISE + k, x, t)[0]
        broken += ~limit.holds(true)
        readings[limit.name] = true + (limit.noise_variance or 0.0) ** 0.5 * noise
    return readings, broken


def limits_of(problem: Problem) -> Sequence[Limit]:
    """The limits of a problem, which has `safe` and `outcomes(X, t)` then."""
    return getattr(problem, "limits", ())


def _first_sample(problem: Problem, seed: int, horizon: int) -> Dataset:
    times = np.arange(1.0, min(FIRST_SAMPLE, horizon) + 1)
    X = problem.domain.sample(len(times), np.random.default_rng([seed, SAMPLE_NOISE]))
    points = zip(X[:, None], times.tolist(), strict=True)
    rewards = np.array([played(problem, x, t, seed, SAMPLE_NOISE)[1] for x, t in points])
    variance = usual_variance(len(times), problem.noise_variance)
    return Dataset.checked(X, times, rewards, variance)


def _start(problem: Problem, sample: Dataset) -> Any:
    """The kernel over points that is recommended, or the one that a fit starts from."""
    if problem.kernel is not None:
        return problem.kernel
    extent = float(np.ptp(sample.X, axis=0).max()) or 1.0
    return RBF(0.3 * extent, (1e-3 * extent, 10 * extent))


def _fitted(problem: Problem, sample: Dataset) -> tuple[Any, float]:
    """Kernel over points and drift rate, by log evidence of amplitude * k * drift."""
    variance = float(np.var(sample.y)) + float(sample.variance[0])
    amplitude = ConstantKernel(variance, (1e-4 * variance, 1e4 * variance))
    recommended, space = problem.kernel, _start(problem, sample)
    held = space if recommended is None else without_bounds(space)
    fitted = fit(amplitude * OnSpace(held) * Drift(0.1, (1e-5, 0.9)), sample)
    return ((fitted.k1.k2.kernel if recommended is None else recommended), float(fitted.k2.epsilon))


def _representatives(problem: Problem, seed: int) -> Array:
    domain = problem.domain
    if isinstance(domain, Candidates) and len(domain) <= MOST_POINTS:
        return domain.X
    return domain.sample(MOST_POINTS, np.random.default_rng([seed, 0xF2]))
