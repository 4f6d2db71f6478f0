"""A space-time kernel that suits any problem: what all points share, what stays, and what drifts."""

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

# Length scale to start from, as a share of the largest extent of the domain.
SPACE = 0.15


# Shares of the variance to start from.
LEVEL, STATIC, DRIFT, FAST = 0.1, 0.3, 0.3, 0.1


# Time scales to start from, in steps.
LEVEL_SCALE, DRIFT_SCALE, FAST_SCALE = 5.0, 20.0, 2.0


def structured_kernel(smooth: Any, rough: Any | None = None) -> Any:
    """Shared level + static field + drifting field + fast field, of a standardised reward.

    Time scales count in steps: `Every(in_steps=True)` finds out how long one is.

    - level: a Matern-1/2 process in time that all points share,
    - static: over points, never changing,
    - drift: over points, changing smoothly (Matern-3/2 in time),
    - fast: over points, changing abruptly (Matern-1/2 in time).

    Each has an amplitude, length scales and a time scale of its own, all free for
    `gp.evidence.fit` and for `Every`; as given they are a guess to start from.

    Parameters
    ----------
    smooth : scikit-learn kernel
        Over points, of variance 1, of what drifts; its copies are learned apart from each other.
    rough : scikit-learn kernel, optional
        Of what stays and of what is fast: places differ for good, and weather is local. `smooth` by
        default.
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
    """A smooth and a rough kernel over the points of a domain, to choose from.

    Where points have names, each parameter has a length scale of its own. Elsewhere the coordinates of
    points have one length scale in common, each in the unit of its range.
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
    smooth, rough = (InUnits(each, tuple(units.tolist())) for each in kernels)
    return smooth, rough


# Domains of several coordinates with bounds.
Bounded = Box | Space | CandidatesInContext

# Length scale to start from on a box, as a share of each extent.
BOX_SPACE = 0.3

# And where a context is measured: what was learned at one value must carry over to others.
CONTEXT_SPACE = 1.0

# Length scale to start from of a category's columns: what differs in a word alone is much alike.
WORDS = 3.0

# Share of the variance to start from of what is different at every place and time.
BOX_NOISE = 0.0005

# Time scale to start from, in steps.
BOX_TIME = 36.0

# Time scale, in steps, and length scale, as a share of an extent, of what no forecast can know.
AT_ONCE = 1e-3


def box_kernel(box: Bounded) -> Any:
    """A drifting field + a shared level + noise on a box, of a standardised reward.

    The field has a length scale for each coordinate and a part that adds up over coordinates
    (`Coordinates`), and changes smoothly (Matern-3/2 in time). It has no part that never changes: who
    plays one place for long cannot tell that from a drift, and such a part is soon all that is believed.
    The level goes up and down abruptly for all points (Matern-1/2 in time), which says nothing about
    where to play: without it, whatever does so is taken for a field that forgets at once.
    What is different at every place and time, ripples too fine to be learned or a noise above the stated
    one, has an amplitude of its own. Time scales count in steps.
    """
    field, bounds, widths = _on_box(box)
    over_points = OnSpace(Coordinates(field, 1.0, bounds, (1e-3, 1e3), widths))
    return (
        _amplitude(1.0) * over_points * _in_time(BOX_TIME, 1.5)
        + _amplitude(LEVEL) * _in_time(LEVEL_SCALE, 0.5)
        + _ripples(box)
    )


def joint_box_kernel(box: Bounded | Candidates) -> Any:
    """A field whose coordinates and time act together + noise on a box, of a standardised reward.

    Matern-5/2 over points, with a length scale for each coordinate, and in time: nothing adds up over
    coordinates, nothing is shared by all points, and what drifts drifts as smoothly as it differs from
    place to place. It is the rival of `box_kernel`, for rewards that are so.
    """
    field, bounds, widths = _on_box(box)
    joint: Any = Matern(field, bounds, nu=2.5)
    if widths:
        parts = tuple((f"part {i}", width) for i, width in enumerate(widths))
        joint = PerParameter(field, bounds, parts, nu=2.5)
    return _amplitude(1.0) * OnSpace(joint) * _in_time(BOX_TIME, 2.5) + _ripples(box)


def _on_box(box: Bounded | Candidates) -> tuple[Array, Array, tuple[int, ...]]:
    """Length scales (p,) to start from on a box, their bounds (p, 2), and how many columns share each.

    The last is empty where none do: those of a circle do, so that no direction is another one's better.
    """
    extents = box.bounds[:, 1] - box.bounds[:, 0]
    share = CONTEXT_SPACE if box.context_parameters else BOX_SPACE
    scales, bounds = share * extents, np.column_stack([1e-2 * extents, 1e2 * extents])
    if isinstance(box, Space):
        for name, part in zip(box.names, box.parameters, strict=True):
            if isinstance(part, Category):
                scales[box.columns[name]], bounds[box.columns[name]] = WORDS, (0.2, 20.0)
    parts = box.parameters if isinstance(box, Space) else tuple(box.context_parameters.values())
    widths = [1] * (box.dimension - sum(part.width for part in parts))
    for part in parts:
        widths += [part.width] if isinstance(part, Periodic) else [1] * part.width
    if max(widths) == 1:
        return scales, bounds, ()
    first = np.cumsum([0, *widths[:-1]])
    return scales[first], bounds[first], tuple(widths)


def _ripples(box: Bounded | Candidates) -> Any:
    """What is different at every place and time of a box."""
    extents = box.bounds[:, 1] - box.bounds[:, 0]
    at_a_point = OnSpace(RBF(AT_ONCE * extents, "fixed"))
    return _amplitude(BOX_NOISE) * at_a_point * OnTime(Matern(AT_ONCE, "fixed", nu=0.5))


def _amplitude(share: float, least: float = 1e-6) -> Any:
    return ConstantKernel(share, (least, 1e3))


def _in_time(scale: float, nu: float) -> Any:
    return OnTime(Matern(scale, (1e-2 * scale, 1e3 * scale), nu=nu))


def ends_of(domain: Domain) -> Array:
    """Lowest and highest value of each coordinate of a domain, or of its anchors, shape (2, d)."""
    if isinstance(domain, Candidates):
        return np.array(domain.ends)
    X = anchors_of(domain)
    return np.array([X.min(axis=0), X.max(axis=0)])


def anchors_of(domain: Domain, count: int = 512) -> Array:
    """The candidates, or points of a domain that is not finite: corners of a box, and a draw."""
    if isinstance(domain, Candidates):
        return domain.X
    rng = np.random.default_rng(0)
    if isinstance(domain, Space):
        return domain.anchors(count, rng)
    drawn = domain.sample(count, rng)
    return np.concatenate([domain.bounds.T, drawn]) if isinstance(domain, Box) else drawn
