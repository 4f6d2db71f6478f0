"""`Calibrated` estimates an expert's bias and true variance from rewards, and corrects its answers.

The model. If an answer a (stated variance v) and a reward y (variance s^2) are at the same point and
time, their difference r = a - y has mean b, the bias, and variance V = ratio v + s^2. An artificial pair
with r = 0 and the median variances is added to the n pairs; it shrinks the bias towards zero.
With z_i = (r_i - b) / sqrt(V_i) and g_i = ratio v_i / V_i,

  bias   solves  sum_i psi(z_i) / sqrt(V_i) = 0
  ratio  solves  U(ratio) + (w / 2) (1 / ratio - 1) = 0
         where   U(ratio) = 1/2 sum_i g_i (psi(z_i)^2 / kappa - 1 + h_i).

psi clips z at plus and minus `clip`, which bounds the influence of an outlier (Huber's Proposal 2);
kappa = E psi(Z)^2 for a standard normal Z; h_i is (1 / V_i) / sum_j (1 / V_j), the leverage of pair i,
which corrects for the estimation of the bias. Without clipping, U is the derivative of the log
likelihood with respect to log(ratio) after the bias is integrated out, and the term after it is that of
a prior worth w pairs from an expert with ratio 1. The interval {ratio: abs(U) <= 1.96 sd(U)} is
computed without the prior; its coverage is near 95% for few pairs, too.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from tvbandits.data import Dataset, Source
from tvbandits.experts.protocol import Answers, Expert, ExpertError, inform, restore_state, state_of
from tvbandits.experts.wrapper import NEEDS, SharedLock, Wrapper, query_and_check
from tvbandits.validation import (
    Array,
    Index,
    as_bool,
    as_points,
    as_time,
    check_part,
    clip_variances,
    finite_number,
    positive_number,
    whole_number,
)

# With fewer pairs, answers are not corrected.
FEWEST = 5


@dataclass(frozen=True)
class Calibration:
    """Estimates of an expert's bias and variance.

    Attributes
    ----------
    pairs : int
        Number of pairs of an answer and a reward at the same point and time.
    bias, standard_error : float
        Mean of answer minus reward (unit of reward) and its standard error; NaN without pairs.
    ratio : float
        True variance / stated variance, estimated without the prior; NaN without pairs.
    interval : tuple of float
        95% interval of the ratio, without the prior; (0, inf) without pairs.
    used : float
        The ratio that answers are corrected by; with few pairs, the prior keeps it near 1.

    Examples
    --------
    >>> from tvbandits.experts import Calibration
    >>> calibration = Calibration(40, 0.0, 0.02, ratio=9.0, interval=(6.0, 14.0), used=7.6)
    >>> print(calibration.has_bias, calibration.verdict)
    False over-confident
    """

    __word__ = "ExpertCalibration"

    pairs: int
    bias: float
    standard_error: float
    ratio: float
    interval: tuple[float, float]
    used: float

    @property
    def has_bias(self) -> bool:
        """Return whether the bias is more than three standard errors from zero."""
        return self.pairs >= FEWEST and abs(self.bias) > 3.0 * self.standard_error

    @property
    def verdict(self) -> str:
        """Return "too few pairs", "over-confident", "too modest" or "honest".

        An over-confident expert states too small a variance, a too modest one too large a variance.
        """
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
        variance = (
            f": true variance about {self.ratio:.3g} ({low:.3g}-{high:.3g}) times the stated one, "
            f"{self.used:.3g} used"
        )
        parts = [
            self.verdict + (variance if self.pairs >= FEWEST else ""),
            f"bias {self.bias:+.3g} (standard error {self.standard_error:.3g})"
            + ", not zero" * self.has_bias,
            f"{self.pairs} pair{'s' * (self.pairs > 1)}",
        ]
        return "; ".join(parts)


class _Pairs(NamedTuple):
    """Pairs of answers and rewards: differences (n,), stated variances (n,), reward variances (n,)."""

    difference: Array
    stated_variance: Array
    reward_variance: Array


def estimate(
    difference: Array,
    stated_variance: Array,
    reward_variance: Array,
    *,
    clip: float = 3.0,
    prior_pairs: float = 10.0,
) -> Calibration:
    """Estimate bias and ratio from pairs of answers and rewards.

    Parameters
    ----------
    difference : array of shape (n,)
        Answers minus rewards.
    stated_variance, reward_variance : array of shape (n,)
        Stated variances of the answers, and variances of the rewards.
    clip : float
        Standard deviations at which a difference is clipped.
    prior_pairs : float
        Number of pairs from an expert with ratio 1 that the prior on the ratio is worth.
    """
    n = len(difference)
    if n == 0:
        return Calibration(0, math.nan, math.nan, math.nan, (0.0, math.inf), 1.0)
    pairs = _Pairs(
        np.append(difference, 0.0),
        np.append(stated_variance, np.median(stated_variance)),
        np.append(reward_variance, np.median(reward_variance)),
    )

    def excess(log_ratio: float, prior: float = 0.0, quantile: float = 0.0) -> float:
        """Return U plus the term of the prior minus `quantile` standard deviations of U."""
        value, deviation = _score(pairs, math.exp(log_ratio), clip)
        return value + prior / 2 * math.expm1(-log_ratio) - quantile * deviation

    lowest, highest = RATIOS
    posterior = min(max(_find_root(partial(excess, prior=prior_pairs)), lowest), highest)
    ratio = _find_root(excess)
    # The larger ratio: the prior on the ratio must not make the bias seem more certain.
    total = pairs.reward_variance + min(max(posterior, ratio), highest) * pairs.stated_variance
    quantile = float(ndtri(0.975))
    return Calibration(
        pairs=n,
        bias=_robust_mean(pairs.difference, total, clip),
        standard_error=float(1.0 / math.sqrt((1.0 / total).sum())),
        ratio=ratio,
        interval=(
            _find_root(partial(excess, quantile=quantile)),
            _find_root(partial(excess, quantile=-quantile)),
        ),
        used=posterior,
    )


# The smallest and the largest ratio.
RATIOS = (1e-8, 1e12)


def _find_root(function: Callable[[float], float]) -> float:
    """Return the ratio at which a decreasing function of log(ratio) is zero.

    It is 0 if the function is negative on the whole range of ratios, and infinite if it is positive.
    """
    low, high = map(math.log, RATIOS)
    if function(low) <= 0:
        return 0.0
    if function(high) >= 0:
        return math.inf
    return math.exp(brentq(function, low, high, xtol=1e-6))


def _score(pairs: _Pairs, ratio: float, clip: float) -> tuple[float, float]:
    """Return U(ratio), and its standard deviation if that ratio is the true one."""
    total = ratio * pairs.stated_variance + pairs.reward_variance
    bias = _robust_mean(pairs.difference, total, clip)
    squares = np.minimum(((pairs.difference - bias) / np.sqrt(total)) ** 2, clip**2)
    precision = 1.0 / total
    leverage = precision / precision.sum()
    second, fourth = _clipped_moments(clip)
    weight = ratio * pairs.stated_variance * precision
    value = 0.5 * float((weight * (squares / second - 1.0 + leverage)).sum())
    # The artificial pair is constant, so it adds nothing to the variance of U.
    deviation = 0.5 * math.sqrt((fourth / second**2 - 1.0) * float((weight[:-1] ** 2).sum()))
    return value, deviation


def _robust_mean(difference: Array, total: Array, clip: float) -> float:
    """Return the mean weighted by 1 / variance (n,), with residuals clipped at `clip` deviations."""
    deviation, precision = np.sqrt(total), 1.0 / total
    mean = float((precision * difference).sum() / precision.sum())
    if (np.abs(difference - mean) <= clip * deviation).all():
        return mean  # the objective is convex: this is the only solution

    def gradient(centre: float) -> float:
        return float((np.clip((difference - centre) / deviation, -clip, clip) / deviation).sum())

    tolerance = 1e-10 * float(deviation.min())
    return float(brentq(gradient, difference.min(), difference.max(), xtol=tolerance))


def _clipped_moments(clip: float) -> tuple[float, float]:
    """Return E psi(Z)^2 and E psi(Z)^4 for a standard normal Z."""
    if clip == math.inf:
        return 1.0, 3.0
    density = math.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
    outside = 2 * float(ndtr(-clip))
    inside = 1.0 - outside
    second = inside - 2 * clip * density
    fourth = 3 * second - 2 * clip**3 * density
    return second + clip**2 * outside, fourth + clip**4 * outside


@dataclass(eq=False)
class Calibrated(Wrapper):
    """A wrapper that corrects an expert's answers for its bias and for a wrong stated variance.

    An answer becomes value - bias, with variance ratio * variance + the variance of the bias. The
    estimates are from the pairs of an answer and a reward before the query, if there are at least
    `FEWEST`; a point and time counts once, however often it is shown or queried. `report()` returns the
    estimates. If they show a bias or a wrong variance, answers have a note about it.

    Parameters
    ----------
    expert : Expert
        An expert whose bias and ratio are about the same at all points and change slowly.
    probe : bool
        Whether each query includes the point of the latest reward, as its first point. If it is not
        among the points anyway, this costs one more answer, which is used for calibration only. Without
        it there are few pairs if a query plan seldom selects the newest point, or a budget inside
        seldom gets to it.
    memory : int
        Number of answers that are stored until their reward arrives; the oldest are dropped first.

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import Calibrated, CallableExpert
    >>> expert = Calibrated(CallableExpert(lambda X, t: X[:, 0] + 1.0, 0.01))  # a bias of 1
    >>> print(expert.query(np.array([[2.0]]), 1.0).values, "|", expert.report())
    [3.] | too few pairs: 0
    """

    expert: Expert
    probe: bool = field(default=False, kw_only=True)
    memory: int = field(default=10_000, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_part("expert", self.expert, NEEDS, "query")
        as_bool("probe", self.probe)
        whole_number("memory", self.memory)
        # The first value and variance of each point and time, and the pairs of an answer and a reward.
        self._answers: dict[_Key, tuple[float, float]] = {}
        self._rewards: dict[_Key, tuple[float, float]] = {}
        self._pairs: dict[_Key, tuple[float, float, float]] = {}
        self._newest: tuple[Array, float] | None = None  # point and time of the latest reward
        # The number of pairs at the last estimation, and its result.
        self._estimates: tuple[int, Calibration] | None = None
        self._lock = SharedLock()

    def report(self) -> Calibration:
        """Return the estimates from all pairs so far, which can be printed."""
        with self._lock.current:
            estimates = self._estimates
            if estimates is None or estimates[0] != len(self._pairs):
                columns = np.array(list(self._pairs.values())).reshape(-1, 3).T
                estimates = self._estimates = (len(self._pairs), estimate(*columns))
            return estimates[1]

    def observe(self, rewards: Dataset) -> None:
        """Pair rewards with answers, and show the rewards to the expert."""
        inform(self.expert, rewards)
        with self._lock.current:
            for row in np.flatnonzero(rewards.source == Source.REWARD):
                point, t = rewards.X[row], float(rewards.t[row])
                if self._newest is None or t >= self._newest[1]:
                    self._newest = (point.copy(), t)
                reward = (float(rewards.y[row]), float(rewards.variance[row]))
                self._add(self._rewards, _key(point, t), reward)

    def query(self, X: Array, t: float) -> Answers:
        """Return the expert's answers, corrected by the estimates from earlier pairs."""
        points, t = as_points(X), as_time(t)
        q = len(points)
        if q == 0:
            return Answers.none(0)
        calibration = self.report()
        query_points, rows = self._add_probe(points, t) if self.probe else (points, np.arange(q))
        answers = query_and_check(self.expert, query_points, t)
        if answers.variance is None:
            raise ExpertError(
                "a calibration needs the variances of answers, and the expert states none: return "
                "Answers(..., variance=...), or use the expert without Calibrated"
            )
        self._add_answers(query_points, t, answers, answers.variance)
        values, variance, notes = answers.values[rows], answers.variance[rows], answers.notes
        if len(query_points) > q:
            point = query_points[0].tolist()
            notes += (f"calibration: also queried {point}, the point of the latest reward",)
        if calibration.pairs >= FEWEST:
            values = values - calibration.bias
            error = calibration.standard_error
            variance = clip_variances(calibration.used * variance + error**2)
            if calibration.has_bias or calibration.verdict in ("over-confident", "too modest"):
                notes += (f"calibration: {calibration}",)
        return Answers(values, variance, answers.cost, notes)

    def _add_probe(self, points: Array, t: float) -> tuple[Array, Index]:
        """Return the points with that of the latest reward as the first, and the rows of `points`.

        It is the first because a budget inside may allow only the first points.
        """
        rows = np.arange(len(points))
        with self._lock.current:
            newest = self._newest
        if newest is None or newest[1] != t or len(newest[0]) != points.shape[1]:
            return points, rows
        point = newest[0]
        is_newest = (points == point).all(axis=1)
        if not is_newest.any():
            return np.vstack([point, points]), rows + 1
        order = np.concatenate([rows[is_newest], rows[~is_newest]])
        return points[order], np.argsort(order)

    def _add_answers(self, points: Array, t: float, answers: Answers, variance: Array) -> None:
        """Store uncorrected answers, pair them with rewards, and drop the oldest ones."""
        with self._lock.current:
            for row in np.flatnonzero(answers.answered):
                answer = (float(answers.values[row]), float(variance[row]))
                self._add(self._answers, _key(points[row], t), answer)
            while len(self._answers) > self.memory:
                del self._answers[next(iter(self._answers))]

    def _add(
        self, values: dict[_Key, tuple[float, float]], key: _Key, value: tuple[float, float]
    ) -> None:
        """Store the first value of a key, and the pair of an answer and a reward with that key.

        After an interrupt the same value may be added again, which then changes nothing.
        """
        values.setdefault(key, value)
        if key in self._answers and key in self._rewards and key not in self._pairs:
            answer, answer_variance = self._answers[key]
            reward, reward_variance = self._rewards[key]
            self._pairs[key] = (answer - reward, answer_variance, reward_variance)

    def state(self) -> dict[str, Any]:
        """Return pairs, answers, rewards, the point of the latest reward, and the expert's state."""
        with self._lock.current:
            newest = self._newest
            return {
                "pairs": [list(pair) for pair in self._pairs.values()],
                "places": [_as_list(key) for key in self._pairs],
                "answers": [[*_as_list(key), *value] for key, value in self._answers.items()],
                "rewards": [[*_as_list(key), *value] for key, value in self._rewards.items()],
                "newest": None if newest is None else [newest[0].tolist(), newest[1]],
                "expert": state_of(self.expert),
            }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Replace the state by that of another calibration."""
        try:
            pairs = {
                _key(*_check_place(*place)): (
                    *_check_moments(difference, answer_variance),
                    _check_moments(0.0, reward_variance)[1],
                )
                for place, (difference, answer_variance, reward_variance) in zip(
                    state["places"], state["pairs"], strict=True
                )
            }
            answers, rewards = (
                {
                    _key(*_check_place(point, t)): _check_moments(*moments)
                    for point, t, *moments in state[name]
                }
                for name in ("answers", "rewards")
            )
            newest = None if state["newest"] is None else _check_place(*state["newest"])
            expert_state = state["expert"]
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"this is not the state of a calibration: {error!r}") from error
        restore_state(self.expert, expert_state)
        with self._lock.current:
            self._pairs, self._answers, self._rewards = pairs, answers, rewards
            self._newest, self._estimates = newest, None

    def __getstate__(self) -> dict[str, Any]:
        """Return a deep copy of the attributes, which no other thread changes meanwhile."""
        with self._lock.current:
            return copy.deepcopy(vars(self))


_Key = tuple[bytes, float]


def _key(point: Array, t: float) -> _Key:
    """Return the dictionary key of a point (d,) and a time."""
    return (point + 0.0).tobytes(), t + 0.0  # -0.0 is the same point as 0.0


def _as_list(key: _Key) -> list[Any]:
    """Return the point and the time of a key as a list and a float."""
    return [np.frombuffer(key[0]).tolist(), key[1]]


def _check_place(point: Any, t: Any) -> tuple[Array, float]:
    """Return a point and a time of a saved state, after checking them."""
    return as_points([point])[0], as_time(t)


def _check_moments(value: Any, variance: Any) -> tuple[float, float]:
    """Return a value and a variance of a saved state, after checking them."""
    return finite_number("value", value), positive_number("variance", variance)
