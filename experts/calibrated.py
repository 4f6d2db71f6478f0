"""`Calibrated`: an expert's bias and true variance, from what it said and what came of it.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from tvbandits.data import Dataset, Source
from tvbandits.experts.asking import NEEDS, SharedLock, Wrapper, ask
from tvbandits.experts.protocol import Answers, Expert, inform, restore_state, state_of
from tvbandits.validation import (
    Array,
    Index,
    as_points,
    as_time,
    check_part,
    finite_number,
    flag,
    positive_number,
    usable_variances,
)

# Pairs below which nothing is corrected.
FEWEST = 5


# Pairs from an honest expert that the prior on the ratio is worth, and deviations at which a pair's
# difference is cut off.
PRIOR_WEIGHT, CLIP = 10.0, 3.0


# Ratios that are looked at.
LOWEST, HIGHEST = 1e-8, 1e12


# Of the standard normal, for intervals of 95%.
QUANTILE = 1.959963984540054


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

    Examples
    --------
    >>> from tvbandits.experts import Calibration
    >>> known = Calibration(40, 0.0, 0.02, ratio=9.0, interval=(6.0, 14.0), used=7.6)
    >>> print(known.biased, known.verdict)
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
        variance = (
            f": true variance about {self.ratio:.3g} ({low:.3g}-{high:.3g}) times the stated one, "
            f"{self.used:.3g} used"
        )
        parts = [
            self.verdict + (variance if self.pairs >= FEWEST else ""),
            f"bias {self.bias:+.3g} (standard error {self.standard_error:.3g})"
            + ", not zero" * self.biased,
            f"{self.pairs} pair{'s' * (self.pairs > 1)}",
        ]
        return "; ".join(parts)


class _Pairs(NamedTuple):
    """Differences (n,), stated variances (n,) and variances of the rewards (n,)."""

    difference: Array
    stated: Array
    reward: Array


def estimate(difference: Array, stated: Array, reward: Array, *, clip: float = CLIP) -> Calibration:
    """Bias and ratio from differences (n,), stated variances (n,) and reward variances (n,)."""
    n = len(difference)
    if n == 0:
        return Calibration(0, math.nan, math.nan, math.nan, (0.0, math.inf), 1.0)
    pairs = _Pairs(
        np.append(difference, 0.0),
        np.append(stated, np.median(stated)),
        np.append(reward, np.median(reward)),
    )

    def excess(log_ratio: float, prior: float = 0.0, quantile: float = 0.0) -> float:
        """U, with what a prior adds, less so many of its deviations."""
        value, deviation = _score(pairs, math.exp(log_ratio), clip)
        return value + prior / 2 * math.expm1(-log_ratio) - quantile * deviation

    used = min(max(_root(partial(excess, prior=PRIOR_WEIGHT)), LOWEST), HIGHEST)
    ratio = _root(excess)
    # A bias is not called sure because the prior on the ratio calls the expert honest.
    total = pairs.reward + min(max(used, ratio), HIGHEST) * pairs.stated
    return Calibration(
        pairs=n,
        bias=_location(pairs.difference, total, clip),
        standard_error=float(1.0 / math.sqrt((1.0 / total).sum())),
        ratio=ratio,
        interval=(
            _root(partial(excess, quantile=QUANTILE)),
            _root(partial(excess, quantile=-QUANTILE)),
        ),
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
        return mean  # what is minimized is convex, so that this is the only solution

    def pull(centre: float) -> float:
        return float((np.clip((difference - centre) / deviation, -clip, clip) / deviation).sum())

    at_most = 1e-10 * float(deviation.min())
    return float(brentq(pull, difference.min(), difference.max(), xtol=at_most))


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


# Answers that are kept for their reward; the oldest are forgotten.
REMEMBERED = 10_000


@dataclass(eq=False)
class Calibrated(Wrapper):
    """Corrects an expert's answers by how its earlier ones compared with rewards.

    An answer becomes value - bias, with variance ratio * variance + the variance of the bias. Only
    pairs from before a query correct it, and at least `FEWEST` of them; a point and time counts once,
    however often it is shown or asked. `report()` tells what was found, and while that is bias or a
    wrong variance, answers carry it as a note.

    Parameters
    ----------
    expert : Expert
        One whose bias and ratio are about the same everywhere and for long.
    probe : bool
        Whether the point last rewarded is asked about first, even if it is not among the points: that
        is one more answer, paid, for calibration only. Pairs are few without it where a query plan
        seldom picks the newest point, or a budget inside seldom gets to it.

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

    def __post_init__(self) -> None:
        check_part("expert", self.expert, NEEDS, "query")
        flag("probe", self.probe)
        # Value and variance by point and time, and the pairs: what the first one of each came to.
        self._answers: dict[_Key, tuple[float, float]] = {}
        self._rewards: dict[_Key, tuple[float, float]] = {}
        self._pairs: dict[_Key, tuple[float, float, float]] = {}
        self._newest: tuple[Array, float] | None = None
        self._latest: tuple[int, Calibration] | None = None  # of so many pairs
        self._lock = SharedLock()

    def report(self) -> Calibration:
        """What is known by now; printable."""
        with self._lock.now:
            latest = self._latest
            if latest is None or latest[0] != len(self._pairs):
                columns = np.array(list(self._pairs.values())).reshape(-1, 3).T
                made = estimate(*columns)
                latest = self._latest = (len(self._pairs), made)
            return latest[1]

    def observe(self, rewards: Dataset) -> None:
        """See rewards, and hand them on."""
        inform(self.expert, rewards)
        with self._lock.now:
            for row in np.flatnonzero(rewards.source == Source.REWARD):
                point, t = rewards.X[row], float(rewards.t[row])
                if self._newest is None or t >= self._newest[1]:
                    self._newest = (point.copy(), t)
                reward = (float(rewards.y[row]), float(rewards.variance[row]))
                self._keep(self._rewards, _key(point, t), reward)

    def query(self, X: Array, t: float) -> Answers:
        """Ask, and correct by what was known before."""
        points, when = as_points(X), as_time(t)
        q = len(points)
        if q == 0:
            return Answers.none(0)
        known = self.report()
        asked, rows = self._probed(points, when) if self.probe else (points, np.arange(q))
        said = ask(self.expert, asked, when)
        self._remember(asked, when, said)
        values, variance, notes = said.values[rows], said.variance[rows], said.notes
        if len(asked) > q:
            point = asked[0].tolist()
            notes += (f"calibration: {point}, last rewarded, was asked about too",)
        if known.pairs >= FEWEST:
            values = values - known.bias
            variance = usable_variances(known.used * variance + known.standard_error**2)
            if known.biased or known.verdict in ("over-confident", "too modest"):
                notes += (f"calibration: {known}",)
        return Answers(values, variance, said.cost, notes)

    def _probed(self, points: Array, t: float) -> tuple[Array, Index]:
        """Points with the one last rewarded first, and in which rows `points` are.

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

    def _remember(self, points: Array, t: float, said: Answers) -> None:
        """Keep the answers as the expert gave them, and pair those that a reward waits for."""
        with self._lock.now:
            for row in np.flatnonzero(said.answered):
                answer = (float(said.values[row]), float(said.variance[row]))
                self._keep(self._answers, _key(points[row], t), answer)
            while len(self._answers) > REMEMBERED:
                del self._answers[next(iter(self._answers))]

    def _keep(
        self, mine: dict[_Key, tuple[float, float]], key: _Key, value: tuple[float, float]
    ) -> None:
        """Keep a value, unless there is one, and the pair that it makes.

        After an interrupt it may come once more: each step changes nothing the second time.
        """
        mine.setdefault(key, value)
        if key in self._answers and key in self._rewards and key not in self._pairs:
            (answer, stated), (reward, variance) = self._answers[key], self._rewards[key]
            self._pairs[key] = (answer - reward, stated, variance)

    def state(self) -> dict[str, Any]:
        """Pairs, answers and rewards, the point last rewarded; what the expert knows."""
        with self._lock.now:
            newest = self._newest
            return {
                "pairs": [list(pair) for pair in self._pairs.values()],
                "paired": [_listed(key) for key in self._pairs],
                "answers": [[*_listed(key), *value] for key, value in self._answers.items()],
                "rewards": [[*_listed(key), *value] for key, value in self._rewards.items()],
                "newest": None if newest is None else [newest[0].tolist(), newest[1]],
                "expert": state_of(self.expert),
            }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Know what another one knew."""
        try:
            pairs = {
                _key(*_place(*place)): (*_moments(difference, stated), _moments(0.0, reward)[1])
                for place, (difference, stated, reward) in zip(
                    state["paired"], state["pairs"], strict=True
                )
            }
            answers, rewards = (
                {_key(*_place(point, t)): _moments(*moments) for point, t, *moments in state[name]}
                for name in ("answers", "rewards")
            )
            newest = None if state["newest"] is None else _place(*state["newest"])
            inside = state["expert"]
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"not the state of a calibration: {error!r}") from error
        restore_state(self.expert, inside)
        with self._lock.now:
            self._pairs, self._answers, self._rewards = pairs, answers, rewards
            self._newest, self._latest = newest, None

    def __getstate__(self) -> dict[str, Any]:
        """Everything, as it is at this moment."""
        with self._lock.now:
            return copy.deepcopy(vars(self))


_Key = tuple[bytes, float]


def _key(point: Array, t: float) -> _Key:
    return (point + 0.0).tobytes(), t + 0.0  # -0.0 is the same point as 0.0


def _listed(key: _Key) -> list[Any]:
    """Point and time, as plain values."""
    return [np.frombuffer(key[0]).tolist(), key[1]]


def _place(point: Any, t: Any) -> tuple[Array, float]:
    """Point and time, out of a state."""
    return as_points([point])[0], as_time(t)


def _moments(value: Any, variance: Any) -> tuple[float, float]:
    """Value and variance, out of a state."""
    return finite_number("value", value), positive_number("variance", variance)
