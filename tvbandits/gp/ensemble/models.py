"""The models of an ensemble, side by side: what stays, what drifts, and what no forecast can know.

Each is a reward

    constant + trend(t) + static(x, t) + drift(x, t) + season(x, t) + nugget(x, t)

in units of one prior deviation that the ensemble learns: a constant nobody knows, a trend that all
places share, places that differ for long, weather that comes and goes, a day or a year where there is
one, and
what is new at every place at every time. The nugget is noise of an answer as much as of a forecast;
the noise of the sensor comes on top of it and is never learned away.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import numpy as np
from scipy.special import ive

from tvbandits.core.arrays import Array
from tvbandits.gp.kernels import matern
from tvbandits.gp.posteriors.features import LARGEST_RANK

# Of a correlation over points, as `gp.kernels.matern` calls it; "identity": no two share anything.
Shape = Literal["identity", "matern12", "matern32", "matern52", "rbf"]

# Up to so many points they are taken for places of a network, each with a mean of its own; more of
# them are taken for a grid on a smooth function.
SMALL_NETWORK = 64


@dataclass(frozen=True)
class SpatialSpec:
    """A correlation over points.

    Attributes
    ----------
    shape : Shape
    length : float
        Length scale, as a share of the largest extent of the points; of no meaning to "identity".
    """

    shape: Shape
    length: float = 1.0

    def correlation(self, distance: Array, extent: float) -> Array:
        """At distances (n, m) between points whose largest extent is `extent`."""
        of_distance: Callable[[Array], Array] = getattr(matern, self.shape)
        return of_distance(distance / (self.length * extent))


@dataclass(frozen=True)
class Season:
    """What comes again: a day, a week, a year, with a course of its own at each place.

    Half of its variance is shared by all places. In time it is quasi-periodic: of the kernel
    exp(-2 sin^2(pi lag / period) / l^2) the first harmonics, of weights I_j(1 / l^2) (Solin & Sarkka
    2014), times exp(-lag / (lasts * period)). The mean of a period is left to the lasting differences.

    Attributes
    ----------
    period : float
        In the unit of time of a `FilterEnsemble`, and in steps once that knows how long a step is.
    variance : float
        In units of the squared prior deviation.
    space : SpatialSpec
        Correlation of the half that is not shared.
    harmonics : int
        How many.
    length : float
        The kernel's l: how sharp its peaks may be.
    lasts : float
        Periods after which the course is another one, up to 1/e.
    """

    period: float
    variance: float
    space: SpatialSpec
    harmonics: int = 3
    length: float = 0.7
    lasts: float = 20.0

    @property
    def variances(self) -> Array:
        """Of each harmonic, shape (harmonics,), of sum `variance`."""
        weights = ive(np.arange(1, self.harmonics + 1), self.length**-2)
        return np.asarray(self.variance * weights / weights.sum())


@dataclass(frozen=True)
class ModelSpec:
    """One model of an ensemble; time scales count in steps.

    Attributes
    ----------
    static_space, drift_space : SpatialSpec
    static, drift, trend, nugget : float
        Prior variances of the parts, in units of the squared prior deviation.
    static_scale, drift_scale, trend_scale : float
        Time in which a correlation falls to 1/e (Matern-1/2), or the length scale of a Matern-3/2;
        infinite for what never changes.
    smooth : bool
        The drift is Matern-3/2 in time rather than Matern-1/2.
    hazard : float
        Chance in a step that all but the constant starts afresh: such a member is a rival of its twin
        that never does, and their weights say which of them is right.
    season : Season, optional
        What comes again.
    """

    static_space: SpatialSpec
    drift_space: SpatialSpec
    static: float
    drift: float
    trend: float
    nugget: float
    static_scale: float
    drift_scale: float
    trend_scale: float
    smooth: bool = False
    hazard: float = 0.0
    season: Season | None = None

    def covariance(self, distance: Array, steps: Array, extent: float) -> Array:
        """Of static and drift together, at distances (n, m) and so many steps (n, m) apart."""
        over_time = matern.matern32 if self.smooth else matern.matern12
        static = self.static_space.correlation(distance, extent) * np.exp(
            -steps / self.static_scale
        )
        drift = self.drift_space.correlation(distance, extent)
        return np.asarray(
            self.static * static + self.drift * drift * over_time(steps / self.drift_scale)
        )


# Steps in which what sets the places of a network apart falls to 1/e. With 200 a bandit that reads one
# place a step went back to places that had stayed behind for a year.
FOR_LONG = 2000.0


def network_settings() -> tuple[ModelSpec, ...]:
    """For places of a network: 24 rough models with static means and a nugget, and 6 lasting ones.

    Places differ for good, alone or with their neighbours; weather is local or wide, and forgotten in
    one step or in three; a tenth or a fifth of the variance is new every time.

    Twice the length scales with thrice the variance of the trend had some per cent less regret on four
    networks (within noise), and intervals too wide where all places are read (coverage up to 0.995).

    Models may learn a covariance over places from readings, by expectation maximization from that by
    distance. They had 0.92 times the regret on the 14 networks that they were made on, with three
    answers a step. On 13 others they had 1.00 times (standard error 0.012), so that there are none.

    The lasting ones are for readings more often than the weather changes, as by the half-hour: it lasts
    ten steps, and next to nothing is new every time.
    """
    rough = tuple(
        ModelSpec(
            static, SpatialSpec("matern12", length), mean, drift, 0.7, nugget, FOR_LONG, scale, 3.0
        )
        for static, length, scale, (mean, drift, nugget) in product(
            (SpatialSpec("identity"), SpatialSpec("matern12", 0.1)),
            (0.1, 0.3, 1.0),
            (1.0, 3.0),
            ((0.35, 0.45, 0.2), (0.6, 0.3, 0.1)),
        )
    )
    alone = SpatialSpec("identity")
    lasting = tuple(
        ModelSpec(alone, space, 0.5, drift, 1.0, nugget, FOR_LONG, scale, 20.0, smooth)
        for space, (scale, drift, nugget, smooth) in product(
            (SpatialSpec("matern12", 0.3), SpatialSpec("matern12", 1.0)),
            ((10.0, 0.48, 0.02, False), (10.0, 0.3, 0.2, False), (8.0, 0.49, 0.01, True)),
        )
    )
    return rough + lasting


# Length scales of a smooth function of one coordinate, as shares of the largest extent; of d of
# them, times sqrt(d), as the distances between points grow.
LENGTHS = (0.03, 0.06, 0.12, 0.25)

# Share of the nugget of a function that is known up to the noise of its readings.
NOTHING = 1e-4


def function_settings(dimension: int = 1) -> tuple[ModelSpec, ...]:
    """For many points on a smooth function: 40 models, eight of which hardly drift at all.

    Half of the others hold a static part as large as the drift. The eight come in twins, one of which
    may start afresh.

    They begin with equal weights. Log-normal ones about a length scale of 0.1 and 60 steps had some per
    cent less regret on most of 14 fields, and missed the drifting bump in 10 of 20 runs instead of 6.
    """
    spaces = tuple(SpatialSpec("rbf", math.sqrt(dimension) * length) for length in LENGTHS)
    drifting = tuple(
        ModelSpec(space, space, static, 1.0 - static, 0.1, NOTHING, math.inf, scale, 10.0, smooth)
        for space, (scale, smooth), static in product(
            spaces, ((5.0, True), (20.0, True), (20.0, False), (100.0, False)), (0.5, 0.05)
        )
    )
    lasting = tuple(
        ModelSpec(space, space, 0.95, 0.05, 0.1, NOTHING, math.inf, 20.0, 10.0, hazard=hazard)
        for space, hazard in product(spaces, (0.0, 0.01))
    )
    return drifting + lasting


def may_be_both(points: Array, season: float | None) -> bool:
    """Whether points, as many as there are features at the most, may be a network's or a function's.

    What has a season is taken for a network.
    """
    return season is None and len(points) <= LARGEST_RANK


def settings_for(
    points: Array, season: float | None = None, both: bool = False
) -> tuple[ModelSpec, ...]:
    """`network_settings` for a few points (A, d), `function_settings` for many; or `both` as rivals.

    With a season, a period in the unit of time: eight of them with a season, and the same without. All
    of the others beside them would have the weight until the second period, and the time of a step.
    """
    if both and may_be_both(points, season):
        return network_settings() + function_settings(points.shape[1])
    network = len(points) <= SMALL_NETWORK
    chosen = network_settings() if network else function_settings(points.shape[1])
    if season is None:
        return chosen
    plain = tuple(filter(_holds_a_network if network else _holds_a_function, chosen))
    again = Season(season, 0.5, SpatialSpec("matern32", 0.3))
    return (*(replace(each, season=again) for each in plain), *plain)


def _holds_a_network(setting: ModelSpec) -> bool:
    """Eight of the network's: places differ alone, weather is not the most local and lasts."""
    wide = setting.drift_space.length >= 0.3 and setting.static_space.shape == "identity"
    return wide and setting.drift_scale >= 3.0 and not setting.smooth


def _holds_a_function(setting: ModelSpec) -> bool:
    """Eight of the function's: half of it stays, the other half lasts twenty steps."""
    return setting.static == 0.5 and setting.drift_scale == 20.0
