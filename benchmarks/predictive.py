"""What to play by what the future will show: Thompson and predictive sampling on a bank of models.

Predictive sampling (Liu, Van Roy & Xu 2023) draws what all places will give on average at the next
decision if everything after it were known: E[R_t | readings so far, R_{t+1}, R_{t+2}, ...]. What is
forgotten at once is not drawn, so that it is not explored.
"""

from __future__ import annotations

import numpy as np

from benchmarks.bank import Decide
from tvbandits.gp.ensemble.ensemble import FilterEnsemble
from tvbandits.gp.ensemble.lasting import lasting_share, predictable_part, single


def sampling(predictive: bool) -> Decide:
    """The best place of a draw: of one model by its weight, then of what it says.

    Thompson sampling draws the reward without its white part, predictive sampling what is predictable
    of it. What is left to chance counts in the expectation under the model's transform.
    """

    def decide(bank: FilterEnsemble, t: float, rng: np.random.Generator) -> int:
        weights = bank._weights
        at = int(rng.choice(weights.size, p=weights.ravel()))
        member, power = divmod(at, weights.shape[1])
        one = single(bank, member, t)
        squared, sampled = float(one.variance[0, power]), one.covariance[0]
        if predictive:
            sampled = predictable_part(bank, one)
        H = one.layout.rows(np.arange(len(bank.points)))
        left = np.maximum(np.einsum("ij,jk,ik->i", H, one.covariance[0] - sampled, H), 0.0)
        left = squared * (left + float(one.white[0]) + one.layout.left[0])
        zeros, spread = np.zeros(len(H)), bank.widening**2 * squared * (H @ sampled @ H.T)
        draw = H @ one.mean[0, :, power] + rng.multivariate_normal(
            zeros, spread, check_valid="ignore"
        )
        return int(bank.transforms[power].moments(draw, left, bank.seen)[0].argmax())

    return decide


def predictive_width(width: float) -> Decide:
    """As `wide`, with the predictable share of the deviation, as the heaviest model has it."""

    def decide(bank: FilterEnsemble, t: float, rng: np.random.Generator) -> int:  # noqa: ARG001 - one face
        forecast = bank.predict(t)
        return int((forecast.mean + width * lasting_share(bank, t) * forecast.learnable).argmax())

    return decide
