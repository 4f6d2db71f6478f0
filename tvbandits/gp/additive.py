"""Build space-time kernels that suit any problem, as sums of shared, static and drifting parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from tvbandits.domains.box import Box
from tvbandits.domains.candidates import Candidates, CandidatesInContext
from tvbandits.domains.domain import Domain
from tvbandits.domains.parameters import Category, Periodic
from tvbandits.domains.space import Space, get_space
from tvbandits.domains.space_kernel import PerParameter
from tvbandits.gp.kernels.matern import Coordinates
from tvbandits.gp.kernels.space_time import OnSpace, OnTime
from tvbandits.gp.kernels.units import InUnits, column_units
from tvbandits.validation import Array

# Initial length scale, as a fraction of the largest extent of the domain.
SPACE = 0.15


# Initial variances of the parts.
LEVEL, STATIC, DRIFT, FAST = 0.1, 0.3, 0.3, 0.1


# Initial time scales of the parts, in steps.
LEVEL_SCALE, DRIFT_SCALE, FAST_SCALE = 5.0, 20.0, 2.0


def structured_kernel(smooth: Any, rough: Any | None = None) -> Any:
    """Return a kernel level + static field + drifting field + fast field of a standardised reward.

    Time scales are in steps, whose duration `Every(in_steps=True)` estimates.

    - level: a Matern-1/2 process in time that all points share,
    - static: a field over points that never changes,
    - drift: a field over points that changes smoothly (Matern-3/2 in time),
    - fast: a field over points that changes abruptly (Matern-1/2 in time).

    Each part has its own amplitude, length scales and time scale, all of which `gp.evidence.fit` and
    `Every` can fit. Their values here are initial guesses.

    Parameters
    ----------
    smooth : scikit-learn kernel
        The kernel over points of the drifting field, of variance 1.
    rough : scikit-learn kernel, optional
        The kernel over points of the static and the fast field, because permanent differences between
        places and fast changes are local. By default `smooth`; copies are fitted independently.
    """

    def over_points(space: Any) -> Any:
        return OnSpace(space.clone_with_theta(space.theta))

    rough = smooth if rough is None else rough
    return (
        _amplitude(LEVEL, 1e-5) * _in_time(LEVEL_SCALE, 0.5)
        + _amplitude(STATIC, 1e-5) * over_points(rough)
        + _amplitude(DRIFT, 1e-5) * over_points(smooth) * _in_time(DRIFT_SCALE, 1.5)
        + _amplitude(FAST, 1e-5) * over_points(rough) * _in_time(FAST_SCALE, 0.5)
    )


def space_kernels(domain: Domain) -> tuple[Any, Any]:
    """Return a smooth and a rough kernel over the points of a domain.

    With named parameters each parameter has its own length scale. Otherwise all coordinates, each
    divided by its range, have one length scale in common.
    """
    space = get_space(domain)
    if space is not None:
        return space.kernel(np.inf, share=SPACE), space.kernel(0.5, share=SPACE)
    low, high = ends_of(domain)
    units = column_units(low, high)
    extent = float(((high - low) / units).max()) or 1.0
    scale, bounds = SPACE * extent, (1e-3 * extent, 10.0 * extent)
    kernels = RBF(scale, bounds), Matern(scale, bounds, nu=0.5)
    if (units == 1.0).all():
        return kernels
    smooth, rough = (InUnits(kernel, tuple(units.tolist())) for kernel in kernels)
    return smooth, rough


# Domains of several coordinates with bounds.
Bounded = Box | Space | CandidatesInContext

# Initial length scale on a box, as a fraction of each extent.
BOX_SPACE = 0.3

# The same with a measured context. It is larger, so that observations at one value inform others.
CONTEXT_SPACE = 1.0

# Initial length scale of a category's columns. Points that differ in a category only are correlated.
CATEGORY_SCALE = 3.0

# Initial variance of the part that is independent at each place and time.
BOX_NOISE = 0.0005

# Initial time scale on a box, in steps.
BOX_TIME = 36.0

# Time scale in steps, and length scale as a fraction of an extent, of the unpredictable part.
RIPPLE_SCALE = 1e-3


def box_kernel(box: Bounded) -> Any:
    """Return a kernel drifting field + shared level + noise on a box, of a standardised reward.

    The field has a length scale for each coordinate and an additive part (`Coordinates`), and changes
    smoothly (Matern-3/2 in time). There is no static part: a bandit that plays one place for long cannot
    distinguish it from drift, and a fit would soon explain everything by it. The level changes abruptly
    for all points at once (Matern-1/2 in time), which does not affect where to play. Without it such
    changes would be taken for a field with a very short time scale. A part that is independent at each
    place and time, for ripples that are too fine to be learned and for noise beyond the stated variance,
    has an amplitude of its own. Time scales are in steps.
    """
    field, bounds, widths = _box_scales(box)
    over_points = OnSpace(Coordinates(field, 1.0, bounds, (1e-3, 1e3), widths))
    return (
        _amplitude(1.0) * over_points * _in_time(BOX_TIME, 1.5)
        + _amplitude(LEVEL) * _in_time(LEVEL_SCALE, 0.5)
        + _ripples(box)
    )


def joint_box_kernel(box: Bounded | Candidates) -> Any:
    """Return a kernel field + noise on a box, of a standardised reward, without additive parts.

    The field is Matern-5/2 over points, with a length scale for each coordinate, times Matern-5/2 in
    time. Unlike `box_kernel`, whose rival it is, it has no additive part over coordinates and no shared
    level, and is as smooth in time as over points.
    """
    field, bounds, widths = _box_scales(box)
    joint: Any = Matern(field, bounds, nu=2.5)
    if widths:
        parts = tuple((f"part {i}", width) for i, width in enumerate(widths))
        joint = PerParameter(field, bounds, parts, nu=2.5)
    return _amplitude(1.0) * OnSpace(joint) * _in_time(BOX_TIME, 2.5) + _ripples(box)


def _box_scales(box: Bounded | Candidates) -> tuple[Array, Array, tuple[int, ...]]:
    """Return initial length scales (p,) on a box, their bounds (p, 2), and the columns of each.

    The last is the number of columns that share each length scale; it is empty if none are shared. The
    two columns of a circle share one, so that all directions are equivalent.
    """
    extents = box.bounds[:, 1] - box.bounds[:, 0]
    fraction = CONTEXT_SPACE if box.context_parameters else BOX_SPACE
    scales, bounds = fraction * extents, np.column_stack([1e-2 * extents, 1e2 * extents])
    if isinstance(box, Space):
        for name, part in zip(box.names, box.parameters, strict=True):
            if isinstance(part, Category):
                scales[box.columns[name]], bounds[box.columns[name]] = CATEGORY_SCALE, (0.2, 20.0)
    parts = box.parameters if isinstance(box, Space) else tuple(box.context_parameters.values())
    widths = [1] * (box.dimension - sum(part.width for part in parts))
    for part in parts:
        widths += [part.width] if isinstance(part, Periodic) else [1] * part.width
    if max(widths) == 1:
        return scales, bounds, ()
    first = np.cumsum([0, *widths[:-1]])
    return scales[first], bounds[first], tuple(widths)


def _ripples(box: Bounded | Candidates) -> Any:
    """Return the kernel of the part that is independent at each place and time of a box."""
    extents = box.bounds[:, 1] - box.bounds[:, 0]
    over_points = OnSpace(RBF(RIPPLE_SCALE * extents, "fixed"))
    over_time = OnTime(Matern(RIPPLE_SCALE, "fixed", nu=0.5))
    return _amplitude(BOX_NOISE) * over_points * over_time


def _amplitude(variance: float, smallest: float = 1e-6) -> Any:
    """Return a constant kernel with this initial variance."""
    return ConstantKernel(variance, (smallest, 1e3))


def _in_time(scale: float, nu: float) -> Any:
    """Return a Matern kernel over time with this initial time scale."""
    return OnTime(Matern(scale, (1e-2 * scale, 1e3 * scale), nu=nu))


def ends_of(domain: Domain) -> Array:
    """Return the lowest and the highest value of each coordinate of a domain, shape (2, d).

    A domain that is neither finite nor a box is represented by its anchors.
    """
    if isinstance(domain, Candidates):
        return np.array(domain.ends)
    X = anchors_of(domain)
    return np.array([X.min(axis=0), X.max(axis=0)])


def anchors_of(domain: Domain, count: int = 512) -> Array:
    """Return the candidates, or a sample of `count` points of a domain that is not finite.

    For a box the corners of lowest and highest values are added.
    """
    if isinstance(domain, Candidates):
        return domain.X
    rng = np.random.default_rng(0)
    if isinstance(domain, Space):
        return domain.anchors(count, rng)
    sample = domain.sample(count, rng)
    return np.concatenate([domain.bounds.T, sample]) if isinstance(domain, Box) else sample
