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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tvbandits.core.arrays import (
    Array,
    Index,
    as_points,
    as_time,
    finite_number,
    flag,
    is_infinite,
    not_negative,
    positive_number,
    usable_variances,
)
from tvbandits.core.observations import Observations, Source
from tvbandits.core.protocols import Answers, Expert, inform, restored, state_of
from tvbandits.experts.wrappers.asking import ask, checked_expert
from tvbandits.experts.wrappers.calibration import FEWEST, Calibration, estimate
from tvbandits.experts.wrappers.locks import SharedLock

REMEMBERED = 10_000
"""Answers that wait for their reward; the oldest are forgotten."""


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

    Examples
    --------
    >>> import numpy as np
    >>> from tvbandits.experts import Calibrated, CallableExpert
    >>> expert = Calibrated(CallableExpert(lambda X, t: X[:, 0] + 1.0, 0.01))  # a bias of 1
    >>> print(expert.query(np.array([[2.0]]), 1.0).values, "|", expert.report())
    [3.] | too few pairs: 0
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
        self._prior_weight = positive_number("prior_weight", prior_weight)
        self._within = not_negative("within", within)
        self._clip = clip if is_infinite(clip) else finite_number("clip", clip, low=1.5)
        self._probe, self._note = flag("probe", probe), flag("note", note)
        self._answers, self._rewards = _Waiting(), _Waiting()
        self._pairs: list[tuple[float, float, float]] = []
        self._newest: tuple[Array, float] | None = None
        self._latest: tuple[int, Calibration] | None = None  # of so many pairs
        self._lock = SharedLock()

    def __repr__(self) -> str:
        probe = ", probe=True" if self._probe else ""
        return (
            f"Calibrated({self._expert!r}, prior_weight={self._prior_weight:g}, "
            f"within={self._within:g}{probe})"
        )

    def report(self) -> Calibration:
        """What is known by now; printable."""
        with self._lock.now:
            latest = self._latest
            if latest is None or latest[0] != len(self._pairs):
                columns = np.array(self._pairs, dtype=np.float64).reshape(-1, 3).T
                made = estimate(*columns, prior_weight=self._prior_weight, clip=self._clip)
                latest = self._latest = (len(self._pairs), made)
            return latest[1]

    def observe(self, rewards: Observations) -> None:
        """See rewards, and hand them on."""
        inform(self._expert, rewards)
        with self._lock.now:
            for row in np.flatnonzero(rewards.source == Source.REWARD):
                point, t = rewards.X[row], float(rewards.t[row])
                if self._newest is None or t >= self._newest[1]:
                    self._newest = (point.copy(), t)
                reward = (float(rewards.y[row]), float(rewards.variance[row]))
                meet = _Meeting(self._rewards, self._answers, self._within, self._pairs)
                meet(_key(point, t), reward, partial(_rewarded, reward))

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
            variance = usable_variances(known.used * variance + known.standard_error**2)
            if self._note and (known.biased or known.verdict in ("over-confident", "too modest")):
                notes += (f"calibration: {known}",)
        return Answers(values, variance, said.cost, notes)

    def _probed(self, points: Array, t: float) -> tuple[Array, Index]:
        """Points with the one last rewarded first, and in which rows `points` are.

        It comes first because a budget inside answers the first ones only.
        """
        rows = np.arange(len(points))
        with self._lock.now:
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
        with self._lock.now:
            for row in np.flatnonzero(said.answered):
                answer = (float(said.values[row]), float(said.variance[row]))
                meet = _Meeting(self._answers, self._rewards, self._within, self._pairs)
                meet(_key(points[row], t), answer, partial(_pair, answer))
            self._answers.forget(REMEMBERED)

    def state(self) -> dict[str, Any]:
        """Pairs, what waits for its partner, the point last rewarded; what the expert knows."""
        with self._lock.now:
            newest = self._newest
            return {
                "pairs": [list(pair) for pair in self._pairs],
                "answers": self._answers.listed(),
                "rewards": self._rewards.listed(),
                "newest": None if newest is None else [newest[0].tolist(), newest[1]],
                "expert": state_of(self._expert),
            }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Know what another one knew."""
        try:
            pairs = [_triple(pair) for pair in state["pairs"]]
            answers, rewards = _Waiting.of(state["answers"]), _Waiting.of(state["rewards"])
            newest = state["newest"]
            if newest is not None:
                newest = (as_points([newest[0]])[0], as_time(newest[1]))
            inside = state["expert"]
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"not the state of a calibration: {error!r}") from error
        restored(self._expert, inside)
        with self._lock.now:
            self._pairs, self._answers, self._rewards = pairs, answers, rewards
            self._newest, self._latest = newest, None

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock, as it is at this moment."""
        with self._lock.now:
            return copy.deepcopy({n: v for n, v in vars(self).items() if n != "_lock"})

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = SharedLock()


_Key = tuple[bytes, float]


_Value = tuple[float, float]


class _Waiting:
    """Values of one kind by point and time: which were seen, and which wait for a partner."""

    def __init__(self) -> None:
        self.seen: dict[_Key, None] = {}
        self.by_point: dict[bytes, dict[float, _Value]] = {}

    def listed(self) -> list[list[Any]]:
        """Plain values: point and time of all that were seen, with the value of those that wait."""
        return [
            [np.frombuffer(point).tolist(), t, list(self.by_point.get(point, {}).get(t, ()))]
            for point, t in self.seen
        ]

    @classmethod
    def of(cls, listed: Iterable[Any]) -> _Waiting:
        """From what `listed` gave."""
        made = cls()
        for point, t, value in listed:
            key = _key(as_points([point])[0], as_time(t))
            made.seen[key] = None
            if value:
                made.by_point.setdefault(key[0], {})[key[1]] = (
                    finite_number("value", value[0]),
                    positive_number("variance", value[1]),
                )
        return made

    def forget(self, most: int) -> None:
        """Drop the oldest values beyond `most`."""
        while len(self.seen) > most:
            point, t = next(iter(self.seen))
            self.by_point.get(point, {}).pop(t, None)
            del self.seen[point, t]


@dataclass(frozen=True)
class _Meeting:
    """How a new value meets those of the other kind: wholly or not at all, for it may be shown again."""

    mine: _Waiting
    others: _Waiting
    within: float
    pairs: list[tuple[float, float, float]]

    def __call__(
        self, key: _Key, value: _Value, pair: Callable[[_Value], tuple[float, float, float]]
    ) -> None:
        """Let it take its partner, the nearest in time, or wait for one; it counts once."""
        mine, pairs, known = self.mine, self.pairs, len(self.pairs)
        if key in mine.seen:
            return
        point, t = key
        times = self.others.by_point.get(point, {})
        nearest = self._nearest(times, t)
        partner = None if nearest is None else times[nearest]
        try:
            mine.seen[key] = None
            if nearest is None or partner is None:
                mine.by_point.setdefault(point, {})[t] = value
            else:
                del times[nearest]
                pairs.append(pair(partner))
        except BaseException:  # an interrupt: as if it had not come
            del pairs[known:]
            if nearest is not None and partner is not None:
                times[nearest] = partner
            mine.by_point.get(point, {}).pop(t, None)
            mine.seen.pop(key, None)
            raise

    def _nearest(self, times: Mapping[float, _Value], t: float) -> float | None:
        if self.within == 0.0:
            return t if t in times else None
        nearest = min(times, key=lambda other: abs(other - t), default=None)
        return nearest if nearest is not None and abs(nearest - t) <= self.within else None


def _pair(answer: _Value, reward: _Value) -> tuple[float, float, float]:
    """Difference, stated variance, variance of the reward."""
    return answer[0] - reward[0], answer[1], reward[1]


def _rewarded(reward: _Value, answer: _Value) -> tuple[float, float, float]:
    """The same, of what came in the other order."""
    return _pair(answer, reward)


def _triple(pair: Any) -> tuple[float, float, float]:
    difference, stated, reward = pair
    return (
        finite_number("difference", difference),
        positive_number("variance", stated),
        positive_number("variance", reward),
    )


def _key(point: Array, t: float) -> _Key:
    return (point + 0.0).tobytes(), t + 0.0  # -0.0 is the same point as 0.0
