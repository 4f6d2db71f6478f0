r"""`Calibrated`: an expert's bias and true variance, from what it said and what came of it.

The model. Where an answer a (stated variance v) and a reward y (variance s^2) speak about the same
point and time, their difference r = a - y has mean b, the bias, and variance V = ratio v + s^2. To
the n pairs one more is added that is made up: no difference, at the median variances; it draws the
bias towards zero. With z_i = (r_i - b) / sqrt(V_i) and g_i = ratio v_i / V_i,

  bias   solves  sum_i psi(z_i) / sqrt(V_i) = 0
  ratio  solves  U(ratio) + (w / 2) (1 / ratio - 1) = 0
         where   U(ratio) = 1/2 sum_i g_i (psi(z_i)^2 / kappa - 1 + h_i).

psi cuts z off at plus and minus `clip`, so that a wild pair counts as a large one and no more
(Huber's Proposal 2); kappa = E psi(Z)^2 for a standard normal Z; h_i is the share of pair i in the
weights 1 / V of the bias, which makes up for its being estimated. Without a clip, U is the derivative
of the log likelihood in log(ratio) once the bias is integrated out, and the term after it that of a
prior worth w pairs from an honest expert. The interval is {ratio: abs(U) <= 1.96 sd(U)}: what the
data say without the prior, near enough to 95% for few pairs too.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from tvbandits.observations import Array, Index, Observations, Source, as_points
from tvbandits.protocols import Answers, Expert, inform

from .wrapping import as_time, ask, checked_expert

FEWEST = 5
"""Pairs below which nothing is corrected."""

REMEMBERED = 10_000
"""Answers that wait for their reward; the oldest are forgotten."""

LOWEST, HIGHEST = 1e-8, 1e12
"""Ratios that are looked at."""

QUANTILE = 1.959963984540054
"""Of the standard normal, for intervals of 95%."""


@dataclass(frozen=True)
class Calibration:
    """What is known of an expert's bias and variance.

    Attributes
    ----------
    pairs : int
        Answers that could be compared with a reward.
    bias, standard_error : float
        Mean of answer minus reward (unit of reward) and its standard error; NaN without pairs.
    ratio : float
        True variance over stated variance, by the data alone; NaN without pairs.
    interval : tuple of float
        95% interval of the ratio, by the data alone; (0, inf) where they say nothing.
    used : float
        The ratio that answers are corrected by: the prior keeps it nearer to 1 while pairs are few.
    """

    pairs: int
    bias: float
    standard_error: float
    ratio: float
    interval: tuple[float, float]
    used: float

    @property
    def biased(self) -> bool:
        """Whether the bias is more than three standard errors from zero."""
        return self.pairs >= FEWEST and abs(self.bias) > 3.0 * self.standard_error

    @property
    def verdict(self) -> str:
        """One of: too few pairs, over-confident, too modest, honest."""
        low, high = self.interval
        if self.pairs < FEWEST or (low <= 1.0 and high == math.inf):
            return "too few pairs"
        if low > 1.0:
            return "over-confident"
        return "too modest" if high < 1.0 else "honest"

    def __str__(self) -> str:
        if self.pairs == 0:
            return "too few pairs: 0"
        low, high = self.interval
        parts = [
            f"{self.verdict}: true variance about {self.ratio:.3g} ({low:.3g}-{high:.3g}) times "
            f"the stated one, {self.used:.3g} used" * (self.pairs >= FEWEST),
            f"bias {self.bias:+.3g} (standard error {self.standard_error:.3g})"
            + ", not zero" * self.biased,
            f"{self.pairs} pair{'s' * (self.pairs > 1)}",
        ]
        return "; ".join(parts)


@dataclass(frozen=True)
class _Pairs:
    """Differences (n,), stated variances (n,) and variances of the rewards (n,)."""

    difference: Array
    stated: Array
    reward: Array


def estimate(
    difference: Array, stated: Array, reward: Array, *, prior_weight: float, clip: float
) -> Calibration:
    """Bias and ratio from differences (n,), stated variances (n,) and reward variances (n,)."""
    n = len(difference)
    if n == 0:
        return Calibration(0, math.nan, math.nan, math.nan, (0.0, math.inf), 1.0)
    pairs = _Pairs(
        np.append(difference, 0.0),
        np.append(stated, np.median(stated)),
        np.append(reward, np.median(reward)),
    )

    def score(log_ratio: float) -> float:
        return _score(pairs, math.exp(log_ratio), clip)[0]

    def with_prior(log_ratio: float) -> float:
        return score(log_ratio) + prior_weight / 2 * math.expm1(-log_ratio)

    def beyond(side: float) -> Callable[[float], float]:
        def excess(log_ratio: float) -> float:
            value, deviation = _score(pairs, math.exp(log_ratio), clip)
            return value - side * QUANTILE * deviation

        return excess

    used = min(max(_root(with_prior), LOWEST), HIGHEST)
    ratio = _root(score)
    # A bias is not called sure because the prior on the ratio calls the expert honest.
    total = pairs.reward + min(max(used, ratio), HIGHEST) * pairs.stated
    return Calibration(
        pairs=n,
        bias=_location(pairs.difference, total, clip),
        standard_error=float(1.0 / math.sqrt((1.0 / total).sum())),
        ratio=ratio,
        interval=(_root(beyond(1.0)), _root(beyond(-1.0))),
        used=used,
    )


def _root(function: Callable[[float], float]) -> float:
    """Ratio at which a function of its log falls through zero; 0 or inf where it does not."""
    low, high = math.log(LOWEST), math.log(HIGHEST)
    if function(low) <= 0:
        return 0.0
    if function(high) >= 0:
        return math.inf
    return math.exp(brentq(function, low, high, xtol=1e-6))


def _score(pairs: _Pairs, ratio: float, clip: float) -> tuple[float, float]:
    """U(ratio), and its standard deviation if that ratio is the true one."""
    total = ratio * pairs.stated + pairs.reward
    bias = _location(pairs.difference, total, clip)
    squares = np.minimum(((pairs.difference - bias) / np.sqrt(total)) ** 2, clip**2)
    precision = 1.0 / total
    share = precision / precision.sum()
    second, fourth = _clipped_moments(clip)
    weight = ratio * pairs.stated * precision
    value = 0.5 * float((weight * (squares / second - 1.0 + share)).sum())
    # The made-up pair does not scatter.
    spread = 0.5 * math.sqrt((fourth / second**2 - 1.0) * float((weight[:-1] ** 2).sum()))
    return value, spread


def _location(difference: Array, total: Array, clip: float) -> float:
    """Mean weighted by 1 / variance (n,), in which no pair pulls by more than `clip` deviations."""
    deviation, precision = np.sqrt(total), 1.0 / total
    mean = float((precision * difference).sum() / precision.sum())
    if (np.abs(difference - mean) <= clip * deviation).all():
        return mean  # what is minimised is convex, so that this is the only solution
    order = np.argsort(difference)
    half = np.searchsorted(np.cumsum(precision[order]), precision.sum() / 2)
    centre = float(difference[order[min(int(half), len(order) - 1)]])  # the weighted median
    for _ in range(100):
        away = np.maximum(np.abs(difference - centre) / deviation, 1e-300)
        weights = precision * np.minimum(1.0, clip / away)
        new = float((weights * difference).sum() / weights.sum())
        if abs(new - centre) <= 1e-10 * float(deviation.min()):
            return new
        centre = new
    return centre


def _clipped_moments(clip: float) -> tuple[float, float]:
    """E psi(Z)^2 and E psi(Z)^4 for a standard normal Z."""
    if clip == math.inf:
        return 1.0, 3.0
    density = math.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
    beyond = 2 * float(ndtr(-clip))
    inside = 1.0 - beyond
    second = inside - 2 * clip * density
    fourth = 3 * second - 2 * clip**3 * density
    return second + clip**2 * beyond, fourth + clip**4 * beyond


class Calibrated:
    """Corrects an expert's answers by how its earlier ones compared with rewards.

    An answer becomes value - bias, with variance ratio * variance + the variance of the bias. Only
    pairs from before a query correct it, and at least `FEWEST` of them; a point and time counts once,
    however often it is shown or asked. `report()` tells what was found.

    Parameters
    ----------
    expert : Expert
        One whose bias and ratio are about the same everywhere and for long.
    prior_weight : float
        How many pairs from an honest expert the prior on the ratio is worth, positive.
    within : float
        A reward counts for answers at most this far from it in time.
    clip : float
        Deviations at which a pair's difference is cut off, at least 1.5; infinite for no cut.
    probe : bool
        Whether the point last rewarded is asked about first, even if it is not among the points: that
        is one more answer, paid, for calibration only. Pairs are few without it where a query plan
        seldom picks the newest point, or a budget inside seldom gets to it.
    note : bool
        Whether answers carry a note while the expert is found over-confident, too modest or biased.
    """

    def __init__(
        self,
        expert: Expert,
        *,
        prior_weight: float = 10.0,
        within: float = 0.0,
        clip: float = 3.0,
        probe: bool = False,
        note: bool = True,
    ) -> None:
        self._expert = checked_expert(expert)
        if not (math.isfinite(prior_weight) and prior_weight > 0):
            raise ValueError(f"prior_weight must be positive and finite, got {prior_weight}")
        if not (math.isfinite(within) and within >= 0):
            raise ValueError(f"within must be finite and not negative, got {within}")
        if not clip >= 1.5:
            raise ValueError(f"clip must be at least 1.5, got {clip}")
        self._prior_weight, self._within, self._clip = prior_weight, within, clip
        self._probe, self._note = bool(probe), bool(note)
        self._answers, self._rewards = _Waiting(), _Waiting()
        self._pairs: list[tuple[float, float, float]] = []
        self._newest: tuple[Array, float] | None = None
        self._latest: Calibration | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        probe = ", probe=True" if self._probe else ""
        return (
            f"Calibrated({self._expert!r}, prior_weight={self._prior_weight:g}, "
            f"within={self._within:g}{probe})"
        )

    def report(self) -> Calibration:
        """What is known by now; printable."""
        with self._lock:
            if self._latest is None:
                columns = np.array(self._pairs, dtype=np.float64).reshape(-1, 3).T
                self._latest = estimate(*columns, prior_weight=self._prior_weight, clip=self._clip)
            return self._latest

    def observe(self, rewards: Observations) -> None:
        """See rewards, and hand them on."""
        inform(self._expert, rewards)
        with self._lock:
            for row in np.flatnonzero(rewards.source == Source.REWARD):
                point, t = rewards.X[row], float(rewards.t[row])
                if self._newest is None or t >= self._newest[1]:
                    self._newest = (point.copy(), t)
                reward = (float(rewards.y[row]), float(rewards.variance[row]))
                answer = self._rewards.met(self._answers, _key(point, t), reward, self._within)
                if answer is not None:
                    self._pair(answer, reward)

    def query(self, X: Array, t: float) -> Answers:
        """Ask, and correct by what was known before."""
        points, when = as_points(X), as_time(t)
        q = len(points)
        if q == 0:
            return Answers.none(0)
        known = self.report()
        asked, rows = self._probed(points, when) if self._probe else (points, np.arange(q))
        said = ask(self._expert, asked, when)
        self._remember(asked, when, said)
        values, variance, notes = said.values[rows], said.variance[rows], said.notes
        if len(asked) > q:
            point = asked[0].tolist()
            notes += (f"calibration: {point}, last rewarded, was asked about too",)
        if known.pairs >= FEWEST:
            values = values - known.bias
            variance = known.used * variance + known.standard_error**2
            if self._note and (known.biased or known.verdict in ("over-confident", "too modest")):
                notes += (f"calibration: {known}",)
        return Answers(values, variance, said.cost, notes)

    def _probed(self, points: Array, t: float) -> tuple[Array, Index]:
        """Points with the one last rewarded first, and in which rows `points` are.

        It comes first because a budget inside answers the first ones only.
        """
        rows = np.arange(len(points))
        with self._lock:
            newest = self._newest
        if newest is None or abs(newest[1] - t) > self._within:
            return points, rows
        point = newest[0]
        if len(point) != points.shape[1]:
            return points, rows
        same = (points == point).all(axis=1)
        if not same.any():
            return np.vstack([point, points]), rows + 1
        order = np.concatenate([rows[same], rows[~same]])
        return points[order], np.argsort(order)

    def _remember(self, points: Array, t: float, said: Answers) -> None:
        """Keep the answers as the expert gave them, and pair those that a reward waits for."""
        with self._lock:
            for row in np.flatnonzero(said.answered):
                answer = (float(said.values[row]), float(said.variance[row]))
                key = _key(points[row], t)
                reward = self._answers.met(self._rewards, key, answer, self._within)
                if reward is not None:
                    self._pair(answer, reward)
            self._answers.forget(REMEMBERED)

    def _pair(self, answer: _Value, reward: _Value) -> None:
        self._pairs.append((answer[0] - reward[0], answer[1], reward[1]))
        self._latest = None

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock, as it is at this moment."""
        with self._lock:
            return copy.deepcopy({n: v for n, v in vars(self).items() if n != "_lock"})

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()


_Key = tuple[bytes, float]
_Value = tuple[float, float]


class _Waiting:
    """Values of one kind by point and time: which were seen, and which wait for a partner."""

    def __init__(self) -> None:
        self.seen: dict[_Key, None] = {}
        self.by_point: dict[bytes, dict[float, _Value]] = {}

    def met(self, others: _Waiting, key: _Key, value: _Value, within: float) -> _Value | None:
        """Let a new value take its partner, the nearest in time, or wait for one."""
        if key in self.seen:
            return None
        self.seen[key] = None
        point, t = key
        times = others.by_point.get(point, {})
        if within == 0.0:
            nearest = t if t in times else None
        else:
            nearest = min(times, key=lambda other: abs(other - t), default=None)
        if nearest is not None and abs(nearest - t) <= within:
            return times.pop(nearest)
        self.by_point.setdefault(point, {})[t] = value
        return None

    def forget(self, most: int) -> None:
        """Drop the oldest values beyond `most`."""
        while len(self.seen) > most:
            point, t = next(iter(self.seen))
            del self.seen[point, t]
            self.by_point.get(point, {}).pop(t, None)


def _key(point: Array, t: float) -> _Key:
    return (point + 0.0).tobytes(), t + 0.0  # -0.0 is the same point as 0.0
