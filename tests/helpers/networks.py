"""A simulated network whose correlations do not depend on distance."""

import numpy as np

from tvbandits.validation import Array


def shared_weather(steps: int, seed: int) -> Array:
    """Return rewards (steps, 6) of two independent weathers, for even and for odd places."""
    rng = np.random.default_rng([seed, 11])
    weather = np.zeros((steps, 2))
    for t in range(1, steps):
        weather[t] = 0.95 * weather[t - 1] + 0.31 * rng.standard_normal(2)
    return np.asarray(weather[:, [0, 1, 0, 1, 0, 1]] + 0.1 * rng.standard_normal((steps, 6)))
