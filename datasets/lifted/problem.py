"""Problems on boxes of several dimensions: a test function whose last coordinate is time."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from tvbandits.core.arrays import Array, positive_number, whole_number
from tvbandits.core.coercion import text
from tvbandits.core.domains import Box, Candidates
from tvbandits.datasets.lifted.functions import DIMENSIONS, FUNCTIONS, Function

DESCENTS = 4
"""Of the points near a minimum, so many of the lowest are descended from."""


@dataclass(frozen=True)
class Lifted:
    """A test function f(z) of d coordinates, the last of which is time, turned so that more is better.

    The reward at a point x (d - 1,) of the cube, at step t = 1, ..., horizon, is -f(x, last), where
    `last` goes evenly from one end of the last coordinate's interval to the other: the protocol of
    W-DBO (Bardou, Thiran and Ranieri 2024) and BOBA (Kelly et al. 2026), a step instead of a time.
    Whether the best point moves is `moves`: that of Ackley's, Levy's, Rastrigin's, Schwefel's and
    Styblinski's does not.

    Parameters
    ----------
    function : str
        A name of `tvbandits.datasets.lifted.functions.FUNCTIONS`, with or without the dimension:
        "hartmann3", "ackley4", "griewank6".
    horizon : int
    noise_share : float
        Noise variance as a share of the variance of f over the box and time.
    candidates : int
        So many scattered points (of a scrambled Sobol sequence) instead of the cube, for policies that
        need a finite domain; 0: the cube.

    Raises
    ------
    ValueError
        If there is no function of that name and dimension, or a number cannot be used.

    Notes
    -----
    `best` is found by descents from points near the minima, to 1e-6 of the deviation; among candidates
    it is the largest of their values. `moves` speaks of the cube.

    Examples
    --------
    >>> from tvbandits.datasets import Lifted
    >>> problem = Lifted("hartmann3", horizon=20)
    >>> print(problem.name, problem.domain.dimension)
    lifted-hartmann3 2
    """

    function: str = "hartmann3"
    horizon: int = 200
    noise_share: float = 0.025
    unit: str = ""
    candidates: int = 0

    def __post_init__(self) -> None:
        function_of(text("function", self.function))
        text("unit", self.unit)
        whole_number("horizon", self.horizon, at_most=1_000_000)
        positive_number("noise_share", self.noise_share)
        whole_number("candidates", self.candidates, at_least=0, at_most=1_000_000)

    @property
    def name(self) -> str:
        """It is "lifted-" and the function."""
        return f"lifted-{self.function}"

    @cached_property
    def domain(self) -> Box | Candidates:
        """The cube of all coordinates but the last, or points that are scattered over it."""
        known, d = function_of(self.function)
        low, high = known.bounds
        if self.candidates == 0:
            return Box(np.array([[low, high]] * (d - 1)))
        power = (self.candidates - 1).bit_length()
        found = qmc.Sobol(d - 1, scramble=True, seed=0).random_base2(power)
        return Candidates(low + (high - low) * found[: self.candidates])

    @property
    def kernel(self) -> None:
        """None: fitted on a sample."""
        return None

    @property
    def moves(self) -> bool:
        """Whether the best point moves."""
        return function_of(self.function)[0].moves

    @property
    def deviation(self) -> float:
        """Standard deviation of the function over the box and time."""
        return _deviation(self.function)

    @property
    def noise_variance(self) -> float:
        """Of a told reward."""
        return self.noise_share * self.deviation**2

    @cached_property
    def variation(self) -> float:
        """Mean of max_x abs(f(x, t+1) - f(x, t)) over the horizon, on 1,024 points."""
        bits = qmc.Sobol(self.domain.dimension, scramble=False).random_base2(10)
        low, high = function_of(self.function)[0].bounds
        X = low + bits * (high - low)
        path = np.array([self.value(X, t) for t in range(1, self.horizon + 1)])
        return float(np.abs(np.diff(path, axis=0)).max(axis=1).mean()) if len(path) > 1 else 0.0

    def value(self, X: Array, t: float) -> Array:
        """Noise-free reward at points (n, d - 1), shape (n,); 1 <= t <= horizon."""
        known, _ = function_of(self.function)
        X = np.asarray(X, dtype=np.float64)
        return -known.formula(np.column_stack([X, np.full(len(X), self._last(t))]))

    def best(self, t: float) -> float:
        """Largest reward over the domain at time `t`."""
        if isinstance(self.domain, Candidates):
            return float(self.value(self.domain.X, t).max())
        return -_minimum(self.function, self._last(t))

    def _last(self, t: float) -> float:
        """The last coordinate at time `t`."""
        if not 1 <= t <= self.horizon:
            raise ValueError(f"{self.name} is known for 1 <= t <= {self.horizon}; got t = {t}")
        low, high = function_of(self.function)[0].bounds
        return low + (high - low) * (t - 1) / max(self.horizon - 1, 1)


@lru_cache(maxsize=256)
def function_of(text: str) -> tuple[Function, int]:
    """The function of a name, and its dimension."""
    name, digits = text, ""
    if text not in FUNCTIONS:
        found = re.fullmatch(r"([a-z]+)(\d+)", text)
        name, digits = found.groups() if found else (text, "")
    if name not in FUNCTIONS:
        close = difflib.get_close_matches(text, FUNCTIONS, n=1)
        meant = f'did you mean "{close[0]}"? ' if close else ""
        raise ValueError(f'function must be one of {", ".join(FUNCTIONS)}; {meant}got "{text}"')
    known = FUNCTIONS[name]
    only = known.dimension
    d = int(digits) if digits else only or DIMENSIONS.get(name, 4)
    if d < 2 or (only is not None and d != only):
        raise ValueError(f"{name} has {only or 'at least 2'} dimensions, got {text!r}")
    return known, d


@lru_cache(maxsize=256)
def _deviation(text: str) -> float:
    """Standard deviation on 2^15 points of a Sobol sequence."""
    known, d = function_of(text)
    low, high = known.bounds
    Z = low + (high - low) * qmc.Sobol(d, scramble=True, seed=0).random_base2(15)
    return float(known.formula(Z).std())


@lru_cache(maxsize=100_000)
def _minimum(text: str, last: float) -> float:
    """Least value over the first coordinates where the last one is known."""
    known, d = function_of(text)
    low, high = known.bounds

    def formula(x: Array) -> float:
        return float(known.formula(np.append(x, last)[None])[0])

    near = np.clip(known.near(last, d), low, high)
    values = known.formula(np.column_stack([near, np.full(len(near), last)]))
    found = float(values.min())
    for start in near[np.argsort(values, kind="stable")[:DESCENTS]]:
        ended = minimize(
            formula,
            start,
            method="L-BFGS-B",
            bounds=[(low, high)] * (d - 1),
            options={"ftol": 1e-14, "gtol": 1e-9, "maxiter": 500},
        )
        found = min(found, float(ended.fun))
    return found
