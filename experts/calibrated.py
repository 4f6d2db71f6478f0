"""`Calibrated` corrects an expert by its bias and true variance, from its answers and the rewards.

The model. Where an answer a (stated variance v) and a reward y (variance s^2) are of the same point and
time, their difference r = a - y has mean b, the bias, and variance V = ratio v + s^2. To the n pairs an
artificial one is added, with no difference and the median variances; it draws the bias towards zero.
With z_i = (r_i - b) / sqrt(V_i) and g_i = ratio v_i / V_i,

  bias   solves  sum_i psi(z_i) / sqrt(V_i) = 0
  ratio  solves  U(ratio) + (w / 2) (1 / ratio - 1) = 0
         where   U(ratio) = 1/2 sum_i g_i (psi(z_i)^2 / kappa - 1 + h_i).

psi cuts z off at plus and minus `clip`, so that a wild pair counts as a large one and no more
(Huber's Proposal 2); kappa = E psi(Z)^2 for a standard normal Z; h_i is the share of pair i in the
weights 1 / V of the bias, which corrects for its being estimated. Without a clip, U is the derivative
of the log likelihood in log(ratio) once the bias is integrated out, and the term after it that of a
prior worth w pairs from an honest expert. The interval is {ratio: abs(U) <= 1.96 sd(U)}, of
the data alone, without the prior; its coverage is near 95% for few pairs, too.
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
from tvbandits.experts.wrapper import NEEDS, SharedLock, Wrapper, ask
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

# Pairs below which nothing is corrected.
FEWEST = 5


@dataclass(frozen=True)
class Calibration:
    """Estimates of an expert's bias and variance.

    Attributes
    ----------
    pairs : int
        Answers that could be compared with a reward.
    bias, standard_error : float
        Mean of answer minus reward (unit of reward) and its standard error; NaN without pairs.
    ratio : float
        True variance over stated variance, by the data alone; NaN without pairs.
    interval : tuple of float
        95% interval of the ratio, by the data alone; (0, inf) without pairs.
    used : float
        The ratio that answers are corrected by: the prior keeps it nearer to 1 while pairs are few.

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
    """Differences (n,), stated variances (n,) and variances of the rewards (n,)."""

    difference: Array
    stated: Array
    reward: Array


def estimate(
    difference: Array, stated: Array, reward: Array, *, clip: float = 3.0, prior_pairs: float = 10.0
) -> Calibration:
    """Return bias and ratio.

    Parameters
    ----------
    difference : array of shape (n,)
        Answers less rewards.
    stated, reward : array of shape (n,)
        Stated variances of the answers, and variances of the rewards.
    clip : float
        Deviations at which a difference is cut off.
    prior_pairs : float
        Pairs from an honest expert that the prior on the ratio is worth.
    """
    n = len(difference)
    if n == 0:
        return Calibration(0, math.nan, math.nan, math.nan, (0.0, math.inf), 1.0)
    pairs = _Pairs(
        np.append(difference, 0.0),
        np.append(stated, np.median(stated)),
        np.append(reward, np.median(reward)),
    )

    def excess(log_ratio: float, prior: float = 0.0, quantile: float = 0.0) -> float:
        """Return U, plus the term of a prior, less so many of its deviations."""
        value, deviation = _score(pairs, math.exp(log_ratio), clip)
        return value + prior / 2 * math.expm1(-log_ratio) - quantile * deviation

    lowest, highest = RATIOS
    posterior = min(max(_root(partial(excess, prior=prior_pairs)), lowest), highest)
    ratio = _root(excess)
    # A bias must not seem certain because the prior on the ratio takes the expert for honest.
    total = pairs.reward + min(max(posterior, ratio), highest) * pairs.stated
    quantile = float(ndtri(0.975))
    return Calibration(
        pairs=n,
        bias=_location(pairs.difference, total, clip),
        standard_error=float(1.0 / math.sqrt((1.0 / total).sum())),
        ratio=ratio,
        interval=(
            _root(partial(excess, quantile=quantile)),
            _root(partial(excess, quantile=-quantile)),
        ),
        used=posterior,
    )


# The range of ratios.
RATIOS = (1e-8, 1e12)


def _root(function: Callable[[float], float]) -> float:
    """Return the ratio at which a function of its log falls through zero; 0 or inf where it does not."""
    low, high = map(math.log, RATIOS)
    if function(low) <= 0:
        return 0.0
    if function(high) >= 0:
        return math.inf
    return math.exp(brentq(function, low, high, xtol=1e-6))


def _score(pairs: _Pairs, ratio: float, clip: float) -> tuple[float, float]:
    """Return U(ratio), and its standard deviation if that ratio is the true one."""
    total = ratio * pairs.stated + pairs.reward
    bias = _location(pairs.difference, total, clip)
    squares = np.minimum(((pairs.difference - bias) / np.sqrt(total)) ** 2, clip**2)
    precision = 1.0 / total
    share = precision / precision.sum()
    second, fourth = _moments_with_clip(clip)
    weight = ratio * pairs.stated * precision
    value = 0.5 * float((weight * (squares / second - 1.0 + share)).sum())
    # The artificial pair does not scatter.
    spread = 0.5 * math.sqrt((fourth / second**2 - 1.0) * float((weight[:-1] ** 2).sum()))
    return value, spread


def _location(difference: Array, total: Array, clip: float) -> float:
    """Return the mean with weights 1 / variance (n,), in which no pair pulls by more than `clip`."""
    deviation, precision = np.sqrt(total), 1.0 / total
    mean = float((precision * difference).sum() / precision.sum())
    if (np.abs(difference - mean) <= clip * deviation).all():
        return mean  # the objective is convex: this is the only solution

    def pull(centre: float) -> float:
        return float((np.clip((difference - centre) / deviation, -clip, clip) / deviation).sum())

    at_most = 1e-10 * float(deviation.min())
    return float(brentq(pull, difference.min(), difference.max(), xtol=at_most))


def _moments_with_clip(clip: float) -> tuple[float, float]:
    """Return E psi(Z)^2 and E psi(Z)^4 for a standard normal Z."""
    if clip == math.inf:
        return 1.0, 3.0
    density = math.exp(-(clip**2) / 2) / math.sqrt(2 * math.pi)
    beyond = 2 * float(ndtr(-clip))
    inside = 1.0 - beyond
    second = inside - 2 * clip * density
    fourth = 3 * second - 2 * clip**3 * density
    return second + clip**2 * beyond, fourth + clip**4 * beyond


@dataclass(eq=False)
class Calibrated(Wrapper):
    """Corrects an expert's answers by its earlier ones and the rewards of the same points.

    An answer becomes value - bias, with variance ratio * variance + the variance of the bias. Only
    pairs from before a query correct it, and at least `FEWEST` of them; a point and time counts once,
    however often it is shown or asked. `report()` returns the estimates, and while they are of a bias or
    a wrong variance, answers carry them as a note.

    Parameters
    ----------
    expert : Expert
        One whose bias and ratio are about the same everywhere and for long.
    probe : bool
        Whether the point last rewarded is asked about first, even if it is not among the points: that
        is one more answer, paid, for calibration only. Pairs are few without it where a query plan
        seldom picks the newest point, or a budget inside seldom gets to it.
    memory : int
        The number of answers that wait for their reward; the oldest are dropped.

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
        # The first value and variance of each point and time, and the pairs of both.
        self._answers: dict[_Key, tuple[float, float]] = {}
        self._rewards: dict[_Key, tuple[float, float]] = {}
        self._pairs: dict[_Key, tuple[float, float, float]] = {}
        self._newest: tuple[Array, float] | None = None
        self._latest: tuple[int, Calibration] | None = None  # of so many pairs
        self._lock = SharedLock()

    def report(self) -> Calibration:
        """Return the estimates of all pairs so far; printable."""
        with self._lock.now:
            latest = self._latest
            if latest is None or latest[0] != len(self._pairs):
                columns = np.array(list(self._pairs.values())).reshape(-1, 3).T
                latest = self._latest = (len(self._pairs), estimate(*columns))
            return latest[1]

    def observe(self, rewards: Dataset) -> None:
        """Pair rewards with answers, and show them to the expert."""
        inform(self.expert, rewards)
        with self._lock.now:
            for row in np.flatnonzero(rewards.source == Source.REWARD):
                point, t = rewards.X[row], float(rewards.t[row])
                if self._newest is None or t >= self._newest[1]:
                    self._newest = (point.copy(), t)
                reward = (float(rewards.y[row]), float(rewards.variance[row]))
                self._keep(self._rewards, _key(point, t), reward)

    def query(self, X: Array, t: float) -> Answers:
        """Return answers corrected by the pairs from before."""
        points, when = as_points(X), as_time(t)
        q = len(points)
        if q == 0:
            return Answers.none(0)
        calibration = self.report()
        question, rows = self._add_probe(points, when) if self.probe else (points, np.arange(q))
        answers = ask(self.expert, question, when)
        if answers.variance is None:
            raise ExpertError(
                "a calibration holds errors against variances, and the expert states none: give "
                "Answers(..., variance=...), or ask it without a calibration"
            )
        self._remember(question, when, answers, answers.variance)
        values, variance, notes = answers.values[rows], answers.variance[rows], answers.notes
        if len(question) > q:
            point = question[0].tolist()
            notes += (f"calibration: {point}, last rewarded, was asked about too",)
        if calibration.pairs >= FEWEST:
            values = values - calibration.bias
            error = calibration.standard_error
            variance = clip_variances(calibration.used * variance + error**2)
            if calibration.has_bias or calibration.verdict in ("over-confident", "too modest"):
                notes += (f"calibration: {calibration}",)
        return Answers(values, variance, answers.cost, notes)

    def _add_probe(self, points: Array, t: float) -> tuple[Array, Index]:
        """Return points with the one last rewarded first, and the rows of `points` among them.

        It comes first because a budget inside answers the first ones only.
        """
        rows = np.arange(len(points))
        with self._lock.now:
            newest = self._newest
        if newest is None or newest[1] != t or len(newest[0]) != points.shape[1]:
            return points, rows
        point = newest[0]
        same = (points == point).all(axis=1)
        if not same.any():
            return np.vstack([point, points]), rows + 1
        order = np.concatenate([rows[same], rows[~same]])
        return points[order], np.argsort(order)

    def _remember(self, points: Array, t: float, answers: Answers, variance: Array) -> None:
        """Keep the latest answers as the expert gave them, and pair those with rewards."""
        with self._lock.now:
            for row in np.flatnonzero(answers.answered):
                answer = (float(answers.values[row]), float(variance[row]))
                self._keep(self._answers, _key(points[row], t), answer)
            while len(self._answers) > self.memory:
                del self._answers[next(iter(self._answers))]

    def _keep(
        self, values: dict[_Key, tuple[float, float]], key: _Key, value: tuple[float, float]
    ) -> None:
        """Keep a value, unless there is one, and the pair that it makes.

        After an interrupt it may come once more: each step changes nothing the second time.
        """
        values.setdefault(key, value)
        if key in self._answers and key in self._rewards and key not in self._pairs:
            (answer, stated), (reward, variance) = self._answers[key], self._rewards[key]
            self._pairs[key] = (answer - reward, stated, variance)

    def state(self) -> dict[str, Any]:
        """Return pairs, answers and rewards, the point last rewarded, and the expert's state."""
        with self._lock.now:
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
        """Continue where another calibration was."""
        try:
            pairs = {
                _key(*_place(*place)): (*_moments(difference, stated), _moments(0.0, reward)[1])
                for place, (difference, stated, reward) in zip(
                    state["places"], state["pairs"], strict=True
                )
            }
            answers, rewards = (
                {_key(*_place(point, t)): _moments(*moments) for point, t, *moments in state[name]}
                for name in ("answers", "rewards")
            )
            newest = None if state["newest"] is None else _place(*state["newest"])
            inner = state["expert"]
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"not the state of a calibration: {error!r}") from error
        restore_state(self.expert, inner)
        with self._lock.now:
            self._pairs, self._answers, self._rewards = pairs, answers, rewards
            self._newest, self._latest = newest, None

    def __getstate__(self) -> dict[str, Any]:
        """Return a copy of the state at this moment."""
        with self._lock.now:
            return copy.deepcopy(vars(self))


_Key = tuple[bytes, float]


def _key(point: Array, t: float) -> _Key:
    """Return the key of a point (d,) and a time."""
    return (point + 0.0).tobytes(), t + 0.0  # -0.0 is the same point as 0.0


def _as_list(key: _Key) -> list[Any]:
    """Return point and time of a key, as plain values."""
    return [np.frombuffer(key[0]).tolist(), key[1]]


def _place(point: Any, t: Any) -> tuple[Array, float]:
    """Return point and time of a state."""
    return as_points([point])[0], as_time(t)


def _moments(value: Any, variance: Any) -> tuple[float, float]:
    """Return value and variance of a state."""
    return finite_number("value", value), positive_number("variance", variance)
