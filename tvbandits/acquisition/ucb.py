"""The points of the next batch."""

from __future__ import annotations

import numpy as np

from tvbandits.acquisition.batch_rules import Batching, FixedSize, Monitor, One
from tvbandits.acquisition.fantasies import Width, imagine
from tvbandits.core.arrays import Array
from tvbandits.core.protocols import Domain
from tvbandits.gp.predictions import View


def choose(
    domain: Domain,
    view: View,
    beta: float,
    noise_variance: float,
    batching: Batching,
    rng: np.random.Generator,
) -> tuple[Array, int]:
    """Where to play next, shape (b, d), and how many variances were computed for it.

    One point is the maximiser of the upper confidence bound. In a batch the width is inflated by the
    rule's bound on the ratio of deviations, and variances shrink from point to point.
    """
    noise = noise_variance / view.scale**2
    uncertain = batching.smallest > 1 and _largest_variance(domain, view, rng) > (
        noise / batching.smallest
    )
    if isinstance(batching.rule, One) and not uncertain and view.posterior.settled:
        x, _ = domain.maximise(lambda X: view.upper_bound(X, beta), rng)
        return x[None, :].copy(), 0 if view.surface is None else len(view.surface.points)
    monitor: Monitor
    if uncertain:
        # Uncertainty sampling ([BB] Algorithm 3): the width of a bound without a mean.
        width, monitor = Width(lambda X: np.zeros(len(X)), 1.0), FixedSize(batching.smallest)
    else:
        width = Width(view.mean, batching.rule.ratio_bound * beta * view.scale)
        monitor = batching.rule.monitor()
    fantasy = imagine(view.posterior, domain, view.surface, view.inputs, noise, width)
    batch: list[Array] = []
    while len(batch) < batching.largest:
        batch.append(fantasy.best(rng))
        if monitor.full(fantasy.add(batch[-1])):
            break
    return np.array(batch), fantasy.looks


def _largest_variance(domain: Domain, view: View, rng: np.random.Generator) -> float:
    """Largest posterior variance over the domain, in prior units."""
    _, largest = domain.maximise(lambda X: (view.predict(X)[1] / view.scale) ** 2, rng)
    return largest
