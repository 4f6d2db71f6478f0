"""The points of the next batch."""

from __future__ import annotations

import numpy as np

from tvbandits.batching import FixedSize, Monitor, One
from tvbandits.fantasy import Width, imagine
from tvbandits.observations import Array
from tvbandits.recipe import Recipe
from tvbandits.sparse_posterior import NystromPosterior
from tvbandits.view import View


def choose(recipe: Recipe, view: View, beta: float, rng: np.random.Generator) -> tuple[Array, int]:
    """Where to play next, shape (b, d), and how many variances were computed for it.

    One point is the maximiser of the upper confidence bound. In a batch the width is inflated by the
    rule's bound on the ratio of deviations, and variances shrink from point to point.
    """
    domain = recipe.domain
    noise = recipe.noise_variance / view.scale**2
    uncertain = recipe.minimum_batch > 1 and _largest_variance(recipe, view, rng) > (
        noise / recipe.minimum_batch
    )
    lazy = isinstance(view.posterior, NystromPosterior) and not view.posterior.settled
    if isinstance(recipe.batch, One) and not uncertain and not lazy:
        x, _ = domain.maximise(lambda X: view.upper_bound(X, beta), rng)
        return x[None, :].copy(), 0 if view.surface is None else len(view.surface.points)
    monitor: Monitor
    if uncertain:
        # Uncertainty sampling ([BB] Algorithm 3): the width of a bound without a mean.
        width, monitor = Width(lambda X: np.zeros(len(X)), 1.0), FixedSize(recipe.minimum_batch)
    else:
        width = Width(view.mean, recipe.batch.ratio_bound * beta * view.scale)
        monitor = recipe.batch.monitor()
    fantasy = imagine(view.posterior, domain, view.surface, view.inputs, noise, width)
    batch: list[Array] = []
    while len(batch) < recipe.largest_batch:
        batch.append(fantasy.best(rng))
        if monitor.full(fantasy.add(batch[-1])):
            break
    return np.array(batch), fantasy.looks


def _largest_variance(recipe: Recipe, view: View, rng: np.random.Generator) -> float:
    """Largest posterior variance over the domain, in prior units."""
    _, largest = recipe.domain.maximise(lambda X: (view.predict(X)[1] / view.scale) ** 2, rng)
    return largest
