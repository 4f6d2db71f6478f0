"""Models of an ensemble that differ in every part, on a few places of a plane."""

import math

import numpy as np

from tvbandits.gp.ensemble.models import ModelSpec, Season, SpatialSpec

POINTS = np.random.default_rng(0).uniform(0, 5, (9, 2))

ROUGH = ModelSpec(
    SpatialSpec("identity"), SpatialSpec("matern12", 0.3), 0.5, 0.4, 0.6, 0.1, 50.0, 2.0, 3.0
)
WIDE = SpatialSpec("rbf", 0.4)
SMOOTH = ModelSpec(WIDE, WIDE, 0.4, 0.6, 0.1, 0.05, math.inf, 6.0, 8.0, smooth=True)
MIXED = ModelSpec(
    SpatialSpec("matern52", 0.2), SpatialSpec("matern32", 0.5), 0.3, 0.7, 0.0, 0.2, 80.0, 4.0, 9.0
)
DAY = Season(7.3, 0.6, SpatialSpec("matern32", 0.4), harmonics=2, lasts=3.0)
