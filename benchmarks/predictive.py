"""What to play by what the future will show: Thompson and predictive sampling on a bank of models.

Predictive sampling (Liu, Van Roy & Xu 2023) draws what all places will give on average at the next
decision if everything after it were known: E[R_t | readings so far, R_{t+1}, R_{t+2}, ...]. What is
forgotten at once is not drawn, so that it is not explored.
"""

from __future__ import annotations

import numpy as np

from benchmarks.bank import Decide
from tvbandits.core.arrays import Array
from tvbandits.gp.bank.bank import Bank
from tvbandits.gp.bank.filters import Filters
from tvbandits.gp.filtering import future
from tvbandits.gp.filtering.future import LATER, predictable


def told_by_later(later: Filters, noise: float, steps: int = LATER) -> Array:
    """What rewards of the steps after one tell about the state of a single model at it.

    As a precision (S, S), in units of the squared scale; all points are read, with noise of that
    variance.
    """
    layout = later.layout
    H = layout.rows(np.arange(len(layout.basis)))
    F = layout.moved(np.eye(layout.size)[None], 1.0)[0]
    fresh = layout.prior[0] - F @ layout.prior[0] @ F.T
    return future.told_by_later(F, fresh, H, noise, steps)


class Future:
    """What the rewards of one model are to become known of; remembers `told_by_later`."""

    def __init__(self) -> None:
        self._told: dict[object, Array] = {}

    def predictable(self, one: Filters, noise_variance: float) -> Array:
        """With the noise to a tenth: the scale changes little from step to step."""
        noise = float(one.white[0]) + noise_variance / float(one.variance[0, 0])
        tenths = round(np.log(noise) / np.log(1.1))
        key = one.group, one.settings, tenths
        if key not in self._told:
            self._told[key] = told_by_later(one, 1.1**tenths)
        return predictable(one.covariance[0], self._told[key])


def single(bank: Bank, member: int, t: float) -> Filters:
    """One of the models that are awake, moved to a time."""
    for filters in bank.filters:
        if member < len(filters):
            break
        member -= len(filters)
    return filters.take(np.array([member])).moved(t - bank.time)


def sampling(predictive: bool) -> Decide:
    """The best place of a draw: of one model by its weight, then of what it says.

    Thompson sampling draws the reward without its white part, predictive sampling what is predictable
    of it. What is left to chance counts in the expectation under the model's transform.
    """
    known = Future()

    def decide(bank: Bank, t: float, rng: np.random.Generator) -> int:
        weights = bank._weights
        at = int(rng.choice(weights.size, p=weights.ravel()))
        member, power = divmod(at, weights.shape[1])
        one = single(bank, member, t)
        squared, sampled = float(one.variance[0, power]), one.covariance[0]
        if predictive:
            sampled = known.predictable(one, bank.noise_variance)
        H = one.layout.rows(np.arange(len(bank.points)))
        left = np.maximum(np.einsum("ij,jk,ik->i", H, one.covariance[0] - sampled, H), 0.0)
        left = squared * (left + float(one.white[0]) + one.layout.left[0])
        zeros, spread = np.zeros(len(H)), bank.widening**2 * squared * (H @ sampled @ H.T)
        draw = H @ one.mean[0, :, power] + rng.multivariate_normal(
            zeros, spread, check_valid="ignore"
        )
        reach = max(bank.seen[1] - bank.seen[0], bank.unit)
        within = bank.seen[0] - reach, bank.seen[1] + reach
        return int(bank.transforms[power].moments(draw, left, within)[0].argmax())

    return decide


def predictive_width(width: float) -> Decide:
    """As `wide`, with the predictable share of the deviation, as the heaviest model has it."""
    known = Future()

    def decide(bank: Bank, t: float, rng: np.random.Generator) -> int:  # noqa: ARG001 - one face
        forecast, one = bank.predict(t), single(bank, int(bank.weights.argmax()), t)
        H = one.layout.rows(np.arange(len(bank.points)))
        shown, every = (
            np.maximum(np.einsum("ij,jk,ik->i", H, each, H), 0.0)
            for each in (known.predictable(one, bank.noise_variance), one.covariance[0])
        )
        share = np.sqrt(shown / every)
        return int((forecast.mean + width * share * forecast.learnable).argmax())

    return decide
