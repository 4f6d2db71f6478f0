"""The next points by upper confidence bounds ([Sri] eq. 6; in batches [BB] Algorithm 1)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tvbandits.acquisition.availability import Allowed, Available
from tvbandits.acquisition.batch_rules import (
    Batching,
    BatchLimitWarning,
    FixedSize,
    Monitor,
    One,
)
from tvbandits.acquisition.fantasies import Fantasy, Width, imagine
from tvbandits.core.arrays import Array
from tvbandits.core.protocols import Domain
from tvbandits.gp.views.predictions import View


@dataclass(frozen=True)
class Decision:
    """What is to be decided, and what for.

    Attributes
    ----------
    domain : Domain
    view : View
        What the posterior says at the time of the decision.
    beta : float
        The width, in deviations.
    noise_variance : float
        Of a reward (unit of reward squared).
    batching : Batching
    n : int or None
        Exactly so many points, distinct where there are as many; None: as the batching says.
    pending, pending_noise : arrays of shape (k, d) and (k,)
        Points that are out, and the noise variance with which their rewards will speak about the time of
        the decision, in prior units.
    taken : array of shape (m, d)
        Points that are out for this very time: others come first.
    available : Available or None
        Only these may be played.
    """

    domain: Domain
    view: View
    beta: float
    noise_variance: float
    batching: Batching
    n: int | None
    pending: Array
    pending_noise: Array
    taken: Array
    available: Available | None


class Acquisition(Protocol):
    """A rule for the next points."""

    def check(self, domain: Domain, posterior: Any) -> None:
        """Raise a `ValueError` if it cannot work on such a domain or posterior rule."""
        ...

    def choose(self, decision: Decision, rng: np.random.Generator) -> tuple[Array, int]:
        """The next points (b, d), and how many variances were computed for them."""
        ...


@dataclass(frozen=True)
class UpperConfidenceBound:
    """Plays where mean + beta deviation is largest.

    One point is the maximiser. In a batch the width is inflated by the rule's bound on the ratio of
    deviations, and variances shrink from point to point; so they do around points that are out.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.ucb import UpperConfidenceBound
    >>> sites = Candidates([[0.0], [5.0], [10.0]])
    >>> bandit = Bandit(Recipe(sites, RBF(1.0), 0.01, mean=0.0, acquisition=UpperConfidenceBound()))
    >>> info = bandit.tell([[0.0], [5.0]], [0.1, -0.1], 1)
    >>> print(bandit.ask(2))  # where least is known
    [[10.]]
    """

    def check(self, domain: Domain, posterior: Any) -> None:
        """Works everywhere."""

    def choose(self, decision: Decision, rng: np.random.Generator) -> tuple[Array, int]:
        """The next points (b, d), and how many variances were computed for them."""
        domain, view, batching = decision.domain, decision.view, decision.batching
        noise = decision.noise_variance / view.scale**2
        uncertain = batching.smallest > 1 and _largest_variance(domain, view, rng) > (
            noise / batching.smallest
        )
        lazy = not view.posterior.settled
        plain = len(decision.pending) == 0 and decision.n in (None, 1)
        allowed = Allowed(domain, decision.available, decision.taken)
        if plain and isinstance(batching.rule, One) and not uncertain and not lazy:
            x = allowed.best(view.bound(decision.beta), rng)
            return x[None, :], 0 if view.surface is None else len(view.surface.points)
        monitor: Monitor
        if uncertain:
            # Uncertainty sampling ([BB] Algorithm 3): the width of a bound without a mean.
            width, monitor = Width(lambda X: np.zeros(len(X)), 1.0), FixedSize(batching.smallest)
        else:
            times = batching.rule.ratio_bound * decision.beta * view.scale
            width = Width(view.mean, times, view.smooth_bound)
            monitor = batching.rule.monitor()
        if decision.n is not None:
            monitor = FixedSize(decision.n)
        return self._batch(decision, allowed, width, monitor, noise, rng)

    def _batch(
        self,
        decision: Decision,
        allowed: Allowed,
        width: Width,
        monitor: Monitor,
        noise: float,
        rng: np.random.Generator,
    ) -> tuple[Array, int]:
        """Point after point, each as if those before it had been observed."""
        view, most = decision.view, decision.batching.largest if decision.n is None else decision.n
        # What is taken has its variance lowered; what is not available has no slope.
        smooth = width.smooth if decision.available is None else None
        masked = Width(allowed.only(width.mean), width.times, smooth)
        fantasy: Fantasy = imagine(
            view.posterior,
            decision.domain,
            view.surface,
            view.inputs,
            noise,
            masked,
            joint=len(decision.pending) > 0 or decision.n not in (None, 1),
        )
        for x, its_noise in zip(decision.pending, decision.pending_noise, strict=True):
            fantasy.observe(x, float(its_noise))
        batch: list[Array] = []
        while len(batch) < most:
            batch.append(allowed.checked(fantasy.best(rng), fantasy.bounds, rng))
            if monitor.full(fantasy.add(batch[-1])):
                break
            if len(batch) == most:
                warnings.warn(
                    f"the batch ended at its limit of {most} points, and {decision.batching.rule!r} "
                    f"would go on: the noise variance {decision.noise_variance:g} is large beside the "
                    "posterior variances; give n=, or a limit by largest_batch= or Batching(largest=)",
                    BatchLimitWarning,
                    stacklevel=2,
                )
            if decision.n is not None:
                allowed.exclude(batch[-1])
                fantasy.means_changed()
        return np.array(batch), fantasy.looks


def _largest_variance(domain: Domain, view: View, rng: np.random.Generator) -> float:
    """Largest posterior variance over the domain, in prior units."""
    _, largest = domain.maximise(lambda X: (view.predict(X)[1] / view.scale) ** 2, rng)
    return largest
