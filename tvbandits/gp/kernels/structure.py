"""The parts of a kernel: what it sees, how it forgets, and the terms of which it is a sum.

A tree is looked at as its parts (`parts_of`), as the sum of products that it is (`leaves_of`), or made
again from changed leaves (`rebuilt`). Each term is a small state-space model in time.

A term is a product of constants, of kernels over points (`OnSpace`), and of at most one kernel over
time: a Matern kernel of nu = 1/2 or 3/2 (`OnTime`) or `Drift`. What is left out is constant: a term
without a space part is a level that all points share, one without a time part never changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern, Product, Sum

from tvbandits.data import at_times
from tvbandits.gp.kernels.matern import matern32_rate, matern32_transition
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime, _Restricted
from tvbandits.validation import Array

# Kernels of scikit-learn with nothing inside, of which nothing needs to be asked.
PLAIN = (ConstantKernel, Matern, RBF)


def children(kernel: Kernel) -> list[Kernel]:
    """The kernels that a kernel is made of."""
    if type(kernel) in PLAIN:
        return []
    values = kernel.get_params(deep=False).values()
    lists = [value if isinstance(value, list | tuple) else [value] for value in values]
    return [child for some in lists for child in some if isinstance(child, Kernel)]


def parts_of(kernel: Kernel) -> Iterator[Kernel]:
    """A kernel and all that is inside of it, the whole before its parts."""
    yield kernel
    for child in children(kernel):
        yield from parts_of(child)


def rebuilt(kernel: Kernel, change: Callable[[Kernel], Kernel]) -> Kernel:
    """The same sums and products of changed leaves; a leaf is what is neither a sum nor a product."""
    if type(kernel) in (Sum, Product):
        return type(kernel)(rebuilt(kernel.k1, change), rebuilt(kernel.k2, change))
    return change(kernel)


@dataclass(frozen=True)
class Leaf:
    """A part of a kernel that has hyperparameters of its own, and where they are in its theta."""

    kernel: Any
    where: slice

    def at(self, theta: Array) -> Any:
        """The part with its share of the hyperparameters `theta` of the whole."""
        own = theta[self.where]
        return self.kernel.clone_with_theta(own) if len(own) else self.kernel


# A sum of products, each as its factors.
Terms = tuple[tuple[Leaf, ...], ...]


def leaves_of(kernel: Kernel) -> Terms | None:
    """The terms of a kernel, each as its factors; None where it has factors of another kind."""
    expanded = products_of(kernel)
    kinds = (ConstantKernel, OnSpace, OnTime, Drift)
    known = all(type(leaf.kernel) in kinds for term in expanded for leaf in term)
    return tuple(map(tuple, expanded)) if known else None


def products_of(kernel: Kernel) -> list[list[Leaf]]:
    """The products that a kernel is the sum of; a product of sums is the sum of all products."""
    return _expanded(kernel, 0)[0]


def _expanded(kernel: Kernel, at: int) -> tuple[list[list[Leaf]], int]:
    """`products_of`, and where the hyperparameters end."""
    if type(kernel) in (Sum, Product):
        first, middle = _expanded(kernel.k1, at)
        second, end = _expanded(kernel.k2, middle)
        if type(kernel) is Sum:
            return first + second, end
        return [one + other for one in first for other in second], end
    end = at + int(kernel.n_dims)
    return [[Leaf(kernel, slice(at, end))]], end


def same_form(kernel: Any, other: Any) -> bool:
    """Whether two kernels differ in nothing but the numbers of their hyperparameters."""
    return list(map(_form, parts_of(kernel))) == list(map(_form, parts_of(other)))


def _form(part: Kernel) -> tuple[Any, ...]:
    """What a part is besides its numbers: type, free hyperparameters, smoothness, number of parts."""
    names = tuple((each.name, each.n_elements, each.fixed) for each in part.hyperparameters)
    return type(part), names, getattr(part, "nu", None), len(children(part))


@dataclass(frozen=True)
class Term:
    """amplitude * space(x, x') * time(t, t').

    Attributes
    ----------
    amplitude : float
        Product of the constants.
    space : scikit-learn kernel or None
        Over points; None: constant.
    time : scikit-learn kernel or None
        A Matern kernel over times (n, 1), or a `Drift` over [x, t]; None: constant.
    """

    amplitude: float
    space: Any | None
    time: Any | None

    @property
    def order(self) -> int:
        """Numbers that the state of one feature has: 1, or 2 for a Matern-3/2 kernel over time."""
        return 2 if isinstance(self.time, Matern) and self.time.nu == 1.5 else 1

    @property
    def time_scale(self) -> float:
        """Length scale in time, in which a correlation falls to 1/e (nu = 1/2); infinite if static."""
        if self.time is None:
            return math.inf
        if isinstance(self.time, Drift):
            rate = -0.5 * math.log1p(-self.time.epsilon)
            return 1.0 / rate if rate > 0 else math.inf
        return float(np.asarray(self.time.length_scale).item())

    @property
    def at_one_time(self) -> Any:
        """The kernel over points of one time, where there is one over points."""
        return self.space if self.amplitude == 1.0 else ConstantKernel(self.amplitude) * self.space

    def prior(self) -> tuple[float, ...]:
        """Variance of the state of one feature: of its value, and for order 2 of its derivative."""
        if self.order == 1:
            return (self.amplitude,)
        return self.amplitude, self.amplitude * matern32_rate(self.time_scale) ** 2

    def transition(self, h: float) -> Array:
        """Expected state after a time h >= 0, as a matrix (order, order) times the state now."""
        if self.order == 1:
            return np.array([[math.exp(-h / self.time_scale) if h else 1.0]])
        rate = matern32_rate(self.time_scale)
        value, up, down, derivative = matern32_transition(rate, h, math.exp(-rate * h))
        return np.array([[value, up], [down, derivative]])


def terms_of(kernel: Kernel) -> tuple[Term, ...] | None:
    """The terms of a kernel over [x, t], or None where it is not a sum of such terms."""
    found = [_term([leaf.kernel for leaf in product]) for product in products_of(kernel)]
    return None if any(term is None for term in found) else tuple(t for t in found if t is not None)


def _term(factors: list[Kernel]) -> Term | None:
    amplitude, space, time = 1.0, [], []
    for factor in factors:
        # Exact types: a subclass may have redefined the formula that is relied on here.
        if type(factor) is ConstantKernel:
            amplitude *= float(factor.constant_value)
        elif type(factor) is OnSpace:
            space.append(factor.kernel)
        elif type(factor) is Drift:
            time.append(factor)
        elif type(factor) is OnTime and _is_matern(factor.kernel):
            time.append(factor.kernel)
        else:
            return None
    if len(time) > 1:
        return None
    return Term(amplitude, reduce(mul, space) if space else None, time[0] if time else None)


def _is_matern(kernel: Kernel) -> bool:
    return type(kernel) is Matern and kernel.nu in (0.5, 1.5) and np.size(kernel.length_scale) == 1


def is_space_time(kernel: Kernel) -> bool:
    """Whether `OnSpace`, `OnTime` or `Drift` is part of the kernel: its rows are [x, t]."""
    return any(isinstance(part, _Restricted | Drift) for part in parts_of(kernel))


def space_time(kernel: Kernel) -> Kernel:
    """Return a pure-space kernel wrapped in `OnSpace`, a space-time one unchanged."""
    return kernel if is_space_time(kernel) else OnSpace(kernel)


def without_bounds(kernel: Kernel) -> Kernel:
    """The same kernel with no free hyperparameter: nothing in it is fitted."""
    fixed = kernel.clone_with_theta(kernel.theta)
    bounds = {f"{part.name}_bounds": "fixed" for part in kernel.hyperparameters}
    return fixed.set_params(**bounds)


def inputs(kernel: Kernel, X: Array, t: ArrayLike) -> Array:
    """What the kernel sees of points `X` (n, d) at times `t` (n,), or at one time for all.

    It is `X` itself for a pure-space kernel, [X, t] of shape (n, d + 1) for a space-time one.
    """
    if not is_space_time(kernel):
        return X
    times = np.asarray(t, dtype=np.float64)
    if times.shape not in ((), (len(X),)):
        raise ValueError(f"t must be a number or have shape ({len(X)},), got {times.shape}")
    return at_times(X, times)


def advance(kernel: Kernel, h: float) -> float | None:
    """The c with k((x, t + h), (x', t')) = c k((x, t), (x', t')) for all t >= t', if there is one.

    Moving the present on by h >= 0 then only scales the covariance with the past. None where the
    structure of the kernel guarantees no such number.
    """
    return _factor(kernel, float(h), in_time=False) if is_space_time(kernel) else 1.0


def _factor(kernel: Kernel, h: float, in_time: bool) -> float | None:
    """`advance` of a part; `in_time`: inside of `OnTime`, where a plain kernel sees times alone."""
    # Exact types: a subclass may have redefined the formula that is relied on here.
    kind = type(kernel)
    if kind in (OnSpace, ConstantKernel):
        return 1.0
    if kind is Drift:
        return float((1.0 - kernel._rate()) ** (0.5 * h))
    if kind is OnTime:
        return _factor(kernel.kernel, h, in_time=True)
    if kind is Matern and in_time and kernel.nu == 0.5:
        return float(np.exp(-h / np.asarray(kernel.length_scale).item()))
    if kind in (Sum, Product):
        first, second = _factor(kernel.k1, h, in_time), _factor(kernel.k2, h, in_time)
        if first is None or second is None:
            return None
        return first * second if kind is Product else (first if first == second else None)
    return None
