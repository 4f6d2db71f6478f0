"""Build space-time kernels from scikit-learn kernels, and analyse their structure.

The inputs of a space-time kernel are rows [x_1 .. x_d, t], with the time in the last column. `OnSpace`
and `OnTime` apply a scikit-learn kernel to the point or to the time, `Drift` forgets with time, and sums
and products are those of scikit-learn. A kernel without any of the three is a kernel over points, whose
inputs are points only. In a sum or product with one of the three, a kernel outside of `OnSpace` is
applied to all d + 1 columns.

A kernel is a tree of sums and products. `parts_of` lists its parts, `leaves_of` expands it into a sum of
products, and `rebuild` replaces its leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Exponentiation,
    Hyperparameter,
    Kernel,
    Matern,
    Product,
    StationaryKernelMixin,
    Sum,
)

from tvbandits.validation import (
    Array,
    Index,
    check_instance,
    finite_number,
    is_finite_number,
    require,
)


class _Restricted(Kernel):  # type: ignore[misc]
    """A kernel that is applied to some of the columns; its hyperparameters are the inner kernel's."""

    _part: slice

    def __init__(self, kernel: Kernel) -> None:
        check_instance("kernel", kernel, Kernel, "a scikit-learn kernel")
        self.kernel = kernel

    def _columns(self, X: Array) -> Array:
        """Return the columns of rows `X` (n, d + 1) to which the inner kernel is applied."""
        rows = np.atleast_2d(X)
        if rows.ndim != 2 or rows.shape[1] < 2:
            raise ValueError(f"rows [x_1 .. x_d, t] must have shape (n, d + 1), got {rows.shape}")
        return rows[:, self._part]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the inner kernel and, if `deep`, its parameters as `kernel__<name>`."""
        params = {"kernel": self.kernel}
        if deep:
            params |= {f"kernel__{name}": value for name, value in self.kernel.get_params().items()}
        return params

    # These members of Exponentiation use only its attribute `kernel`, which this class has as well.
    hyperparameters = Exponentiation.hyperparameters
    theta = Exponentiation.theta
    bounds = Exponentiation.bounds
    is_stationary = Exponentiation.is_stationary
    requires_vector_input = Exponentiation.requires_vector_input

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix (n, m), and its gradient (n, n, p) with respect to `theta`."""
        other = None if Y is None else self._columns(Y)
        return self.kernel(self._columns(X), other, eval_gradient=eval_gradient)

    def diag(self, X: Array) -> Array:
        """Return the diagonal of `self(X)`, shape (n,)."""
        return np.asarray(self.kernel.diag(self._columns(X)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kernel!r})"


class OnSpace(_Restricted):
    """A kernel over points: k((x, t), (x', t')) = kernel(x, x').

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits.gp.kernels.space_time import OnSpace
    >>> print(OnSpace(RBF(1.0))(np.array([[0.0, 0.0], [1.0, 10.0]])).round(3))
    [[1.    0.607]
     [0.607 1.   ]]
    """

    _part = slice(None, -1)


class OnTime(_Restricted):
    """A kernel over time, the last column: k((x, t), (x', t')) = kernel(t, t').

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits.gp.kernels.space_time import OnTime
    >>> print(OnTime(RBF(10.0))(np.array([[0.0, 0.0], [1.0, 10.0]])).round(3))
    [[1.    0.607]
     [0.607 1.   ]]
    """

    _part = slice(-1, None)


class Drift(StationaryKernelMixin, Kernel):  # type: ignore[misc]
    """A kernel over time that forgets at a constant rate.

    k((x, t), (x', t')) = (1 - epsilon)^(|t - t'| / 2) is the time kernel of TV-GP-UCB (Bogunovic,
    Scarlett and Cevher 2016, section 3).

    Parameters
    ----------
    epsilon : float
        Forgetting rate per unit of time, 0 <= epsilon < 1; 0 only with fixed bounds.
    epsilon_bounds : pair of floats or "fixed"
        The interval in which a fit searches for epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits.gp.kernels.space_time import Drift, OnSpace
    >>> kernel = OnSpace(RBF(1.0)) * Drift(0.1)
    >>> print(kernel(np.array([[0.0, 0.0], [0.0, 10.0]])).round(3))  # one place, ten steps apart
    [[1.   0.59]
     [0.59 1.  ]]
    """

    def __init__(
        self, epsilon: float = 0.03, epsilon_bounds: tuple[float, float] | str = (1e-5, 0.9)
    ) -> None:
        self.epsilon = epsilon
        self.epsilon_bounds = epsilon_bounds
        _check_bounds(epsilon_bounds)
        self._rate()

    @property
    def hyperparameter_epsilon(self) -> Hyperparameter:
        """Return the hyperparameter of the rate."""
        return Hyperparameter("epsilon", "numeric", self.epsilon_bounds)

    def _rate(self) -> float:
        """Return epsilon; it is checked at each use, since scikit-learn may set it without checks."""
        epsilon = finite_number("epsilon", self.epsilon, low=0.0, below=1.0)
        if epsilon == 0.0 and not self.hyperparameter_epsilon.fixed:
            raise ValueError('epsilon = 0 cannot be fitted: give epsilon_bounds="fixed" with it')
        return epsilon

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix (n, m), and its gradient (n, n, p) with respect to log epsilon.

        dk / dlog(epsilon) = -epsilon / (1 - epsilon) |t - t'| / 2 k
        """
        if Y is not None and eval_gradient:
            raise ValueError("the gradient can only be evaluated when Y is None")
        times = np.atleast_2d(X)[:, -1]
        others = times if Y is None else np.atleast_2d(Y)[:, -1]
        epsilon = self._rate()
        half_age = 0.5 * np.abs(times[:, None] - others)
        K = (1.0 - epsilon) ** half_age
        if not eval_gradient:
            return K
        if self.hyperparameter_epsilon.fixed:
            return K, np.empty((*K.shape, 0))
        return K, (-epsilon / (1.0 - epsilon) * half_age * K)[:, :, None]

    def diag(self, X: Array) -> Array:
        """Return ones, shape (n,)."""
        return np.ones(len(np.atleast_2d(X)))

    def __repr__(self) -> str:
        return f"Drift(epsilon={self.epsilon:.3g})"


def _check_bounds(bounds: object) -> None:
    """Raise a `ValueError` unless these are valid bounds of a rate."""
    if isinstance(bounds, str) and bounds == "fixed":
        return
    needs = '"fixed" or a pair of numbers 0 < low <= high < 1'
    numbers = bounds.ravel().tolist() if isinstance(bounds, np.ndarray) else bounds
    good = (
        isinstance(numbers, list | tuple)
        and len(numbers) == 2
        and all(map(is_finite_number, numbers))
        and 0 < numbers[0] <= numbers[1] < 1
    )
    require(good, "epsilon_bounds", needs, bounds)


class Beside(Kernel):  # type: ignore[misc]
    """The kernel of the difference f(x, t) - f(c, t) to a control c, for an f of another kernel.

    It has no free hyperparameters.

    Parameters
    ----------
    kernel : scikit-learn kernel
        The kernel of f, over points or over [point, time].
    control : tuple of float
        The point c.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits.gp.kernels.space_time import Beside
    >>> print(Beside(RBF(0.1), (0.0,))(np.array([[0.0], [1.0], [2.0]])).round(3))
    [[0. 0. 0.]
     [0. 2. 1.]
     [0. 1. 2.]]
    """

    def __init__(self, kernel: Kernel, control: tuple[float, ...]) -> None:
        self.kernel, self.control = kernel, control

    hyperparameters: ClassVar[list[Hyperparameter]] = []
    theta: ClassVar[Array] = np.empty(0)
    bounds: ClassVar[Array] = np.empty((0, 2))

    def is_stationary(self) -> bool:
        """Return False, because the control is a fixed place."""
        return False

    def _controls(self, X: Array) -> tuple[Array, Index]:
        """Return the control at the distinct times of inputs (n, p), and the row for each input (n,)."""
        control = np.array([self.control])
        if X.shape[1] == control.shape[1]:
            return control, np.zeros(len(X), dtype=np.int64)
        times, index = np.unique(X[:, -1], return_inverse=True)
        return np.column_stack([np.repeat(control, len(times), axis=0), times]), index

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix (n, m)."""
        if eval_gradient:
            raise ValueError("a kernel beside a control cannot be fitted: it has no gradient")
        Y = X if Y is None else Y
        (CX, i), (CY, j) = self._controls(X), self._controls(Y)
        k = self.kernel
        cross = k(X, CY)[:, j] + k(CX, Y)[i]
        return k(X, Y) - cross + k(CX, CY)[i][:, j]

    def diag(self, X: Array) -> Array:
        """Return the diagonal of `self(X)`, shape (n,)."""
        controls, index = self._controls(X)
        cross = np.empty(len(X))
        for i in range(len(controls)):
            rows = index == i
            cross[rows] = self.kernel(X[rows], controls[i : i + 1])[:, 0]
        total = np.asarray(self.kernel.diag(X)) + np.asarray(self.kernel.diag(controls))[index]
        return np.asarray(np.maximum(total - 2.0 * cross, 0.0))

    def __repr__(self) -> str:
        return f"Beside({self.kernel!r}, {self.control})"


# --- the structure of a kernel --------------------------------------------------------------------


# Kernels of scikit-learn without inner kernels; listing them saves time.
WITHOUT_CHILDREN = (ConstantKernel, Matern, RBF)


def children(kernel: Kernel) -> list[Kernel]:
    """Return the kernels that are parameters of a kernel."""
    if type(kernel) in WITHOUT_CHILDREN:
        return []
    values = kernel.get_params(deep=False).values()
    lists = [value if isinstance(value, list | tuple) else [value] for value in values]
    return [child for entries in lists for child in entries if isinstance(child, Kernel)]


def parts_of(kernel: Kernel) -> Iterator[Kernel]:
    """Yield a kernel and all kernels inside of it, each before its own parts."""
    yield kernel
    for child in children(kernel):
        yield from parts_of(child)


def rebuild(kernel: Kernel, change: Callable[[Kernel], Kernel]) -> Kernel:
    """Return the same sums and products with `change` applied to each leaf.

    A leaf is a part that is neither a sum nor a product.
    """
    if type(kernel) in (Sum, Product):
        return type(kernel)(rebuild(kernel.k1, change), rebuild(kernel.k2, change))
    return change(kernel)


@dataclass(frozen=True)
class Leaf:
    """A leaf of a kernel, and the slice of the whole kernel's theta with its hyperparameters."""

    kernel: Any
    where: slice

    def at(self, theta: Array) -> Any:
        """Return the leaf with its hyperparameters from `theta`, which is that of the whole kernel."""
        own = theta[self.where]
        return self.kernel.clone_with_theta(own) if len(own) else self.kernel


# The terms of a sum of products, each as the tuple of its factors.
Terms = tuple[tuple[Leaf, ...], ...]


def leaves_of(kernel: Kernel) -> Terms | None:
    """Return the terms of a kernel, each as its factors; None if a factor is of another kind.

    Supported factors are `ConstantKernel`, `OnSpace`, `OnTime` and `Drift`.
    """
    products = products_of(kernel)
    kinds = (ConstantKernel, OnSpace, OnTime, Drift)
    supported = all(type(leaf.kernel) in kinds for term in products for leaf in term)
    return tuple(map(tuple, products)) if supported else None


def products_of(kernel: Kernel) -> list[list[Leaf]]:
    """Return the kernel as a sum of products of leaves, in which products of sums are expanded."""
    return _expand(kernel, 0)[0]


def _expand(kernel: Kernel, start: int) -> tuple[list[list[Leaf]], int]:
    """Return the products of a kernel whose theta begins at `start`, and where its theta ends."""
    if type(kernel) in (Sum, Product):
        first, middle = _expand(kernel.k1, start)
        second, end = _expand(kernel.k2, middle)
        if type(kernel) is Sum:
            return first + second, end
        return [left + right for left in first for right in second], end
    end = start + int(kernel.n_dims)
    return [[Leaf(kernel, slice(start, end))]], end


def have_same_form(kernel: Any, other: Any) -> bool:
    """Return whether two kernels differ in the values of their hyperparameters only."""
    return list(map(_form, parts_of(kernel))) == list(map(_form, parts_of(other)))


def _form(part: Kernel) -> tuple[Any, ...]:
    """Return type, free hyperparameters, smoothness and number of children of a part."""
    names = tuple((h.name, h.n_elements, h.fixed) for h in part.hyperparameters)
    return type(part), names, getattr(part, "nu", None), len(children(part))


def is_space_time(kernel: Kernel) -> bool:
    """Return whether the inputs of the kernel are [x, t]: `OnSpace`, `OnTime` or `Drift` is in it."""
    return any(isinstance(part, _Restricted | Drift) for part in parts_of(kernel))


def space_time(kernel: Kernel) -> Kernel:
    """Return a kernel over points wrapped in `OnSpace`, and a space-time kernel unchanged."""
    return kernel if is_space_time(kernel) else OnSpace(kernel)


def fix_hyperparameters(kernel: Kernel) -> Kernel:
    """Return the kernel with all hyperparameters fixed, so that a fit does not change it."""
    fixed = kernel.clone_with_theta(kernel.theta)
    bounds = {f"{part.name}_bounds": "fixed" for part in kernel.hyperparameters}
    return fixed.set_params(**bounds)


def advance(kernel: Kernel, h: float) -> float | None:
    """Return the c with k((x, t + h), (x', t')) = c k((x, t), (x', t')) for all t >= t'.

    Advancing the present by h >= 0 then scales the covariance with the past by c. None if the structure
    of the kernel does not guarantee such a number.
    """
    return _factor(kernel, float(h), in_time=False) if is_space_time(kernel) else 1.0


def _factor(kernel: Kernel, h: float, in_time: bool) -> float | None:
    """Return `advance` for a part, which is inside of `OnTime` if `in_time`."""
    # Subclasses are not accepted, since they may have another formula.
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
