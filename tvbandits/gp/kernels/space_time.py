"""Space-time kernels, built from scikit-learn's and usable as such.

The rows that a space-time kernel sees are [x_1 .. x_d, t]: the time is the last column. `OnSpace`
and `OnTime` restrict a scikit-learn kernel to the one or the other, `Drift` forgets with time, and
sums and products are scikit-learn's own. A kernel with none of the three is a pure-space kernel
and sees points alone; beside one of them, a plain kernel sees all d + 1 columns (or use `OnSpace`).

A kernel is a tree. It is looked at as its parts (`parts_of`), as the sum of products that it is
(`leaves_of`), or made again from changed leaves (`rebuilt`).
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
    """A kernel applied to some of the columns; all hyperparameters are the inner kernel's."""

    _part: slice

    def __init__(self, kernel: Kernel) -> None:
        check_instance("kernel", kernel, Kernel, "a scikit-learn kernel")
        self.kernel = kernel

    def _columns(self, X: Array) -> Array:
        rows = np.atleast_2d(X)
        if rows.ndim != 2 or rows.shape[1] < 2:
            raise ValueError(f"rows [x_1 .. x_d, t] must have shape (n, d + 1), got {rows.shape}")
        return rows[:, self._part]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the inner kernel and, where `deep`, its parameters as `kernel__<name>`."""
        params = {"kernel": self.kernel}
        if deep:
            params |= {f"kernel__{name}": value for name, value in self.kernel.get_params().items()}
        return params

    # Exponentiation wraps one kernel in an attribute of that name, too: these ask nothing else.
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
    """k((x, t), (x', t')) = kernel(x, x'): a kernel on all columns but the last.

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
    """k((x, t), (x', t')) = kernel(t, t'): a kernel on the last column, as points (n, 1).

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
    """k((x, t), (x', t')) = (1 - epsilon)^(|t - t'| / 2): forgetting at a constant rate.

    The time kernel of TV-GP-UCB (Bogunovic, Scarlett and Cevher 2016, section 3).

    Parameters
    ----------
    epsilon : float
        Rate of forgetting for a unit of time, 0 <= epsilon < 1; 0 only with fixed bounds.
    epsilon_bounds : pair of floats or "fixed"
        Where a fit may look for epsilon.

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
        """The one hyperparameter."""
        return Hyperparameter("epsilon", "numeric", self.epsilon_bounds)

    def _rate(self) -> float:
        """Return epsilon; checked at every use, since scikit-learn sets parameters as it likes."""
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
    """Raise a `ValueError` unless these are bounds that a fit can look between."""
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
    """Of f(x, t) - f(c, t) for an f of another kernel: what points are beside a control c, then.

    Nothing of it is fitted.

    Parameters
    ----------
    kernel : scikit-learn kernel
        Over points, or over [point, time].
    control : tuple of float
        c.

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
        """It is not: the control is a place."""
        return False

    def _controls(self, X: Array) -> tuple[Array, Index]:
        """The control at the times of inputs (n, p), each once, and which of them is whose."""
        control = np.array([self.control])
        if X.shape[1] == control.shape[1]:
            return control, np.zeros(len(X), dtype=np.int64)
        times, which = np.unique(X[:, -1], return_inverse=True)
        return np.column_stack([np.repeat(control, len(times), axis=0), times]), which

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """Return the kernel matrix (n, m)."""
        if eval_gradient:
            raise ValueError("a kernel beside a control is not fitted: it has no gradient")
        Y = X if Y is None else Y
        (one, mine), (other, theirs) = self._controls(X), self._controls(Y)
        k = self.kernel
        across = k(X, other)[:, theirs] + k(one, Y)[mine]
        return k(X, Y) - across + k(one, other)[mine][:, theirs]

    def diag(self, X: Array) -> Array:
        """Return the diagonal of `self(X)`, shape (n,)."""
        rows, which = self._controls(X)
        across = np.empty(len(X))
        for i in range(len(rows)):
            mine = which == i
            across[mine] = self.kernel(X[mine], rows[i : i + 1])[:, 0]
        own = np.asarray(self.kernel.diag(X)) + np.asarray(self.kernel.diag(rows))[which]
        return np.asarray(np.maximum(own - 2.0 * across, 0.0))

    def __repr__(self) -> str:
        return f"Beside({self.kernel!r}, {self.control})"


# --- what the structure of a kernel says --------------------------------------------------------------


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
