"""Random kernels and data, by a seed."""

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Kernel,
    Matern,
    RationalQuadratic,
)

Array = NDArray[np.float64]


def random_kernel(rng: np.random.Generator, d: int, depth: int = 2) -> Kernel:
    scale = 10 ** rng.uniform(-0.7, 0.7)
    simple = [
        RBF(scale),
        RBF(10 ** rng.uniform(-0.7, 0.7, d)),
        Matern(scale, nu=0.5),
        Matern(10 ** rng.uniform(-0.7, 0.7, d), nu=1.5),
        Matern(scale, nu=2.5),
        RationalQuadratic(scale, 10 ** rng.uniform(-0.5, 1.0)),
        ConstantKernel(10 ** rng.uniform(-1, 1)),
        DotProduct(1.0),
    ]
    if depth == 0 or rng.random() < 0.4:
        return simple[rng.integers(6 if depth == 2 else 8)]
    a, b = random_kernel(rng, d, depth - 1), random_kernel(rng, d, depth - 1)
    return (a + b, a * b, ConstantKernel(10 ** rng.uniform(-1, 1)) * a)[rng.integers(3)]


def random_case(seed: int) -> tuple[Kernel, Array, Array, Array, Array]:
    """Return kernel, inputs (duplicated in half of the cases), values, variances, test inputs."""
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 4)), int(rng.integers(1, 41))
    Z = rng.random((n, d))
    if seed % 2:
        Z = Z[rng.integers(0, max(1, n // 2), n)]
    variance = 10 ** rng.uniform(-4, 2, n)
    test_inputs = np.vstack([rng.random((10, d)), Z[:3]])
    return random_kernel(rng, d), Z, rng.standard_normal(n), variance, test_inputs
