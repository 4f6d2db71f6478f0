"""What a sparse posterior says, by dense algebra alone: the oracle of random bandits."""

import numpy as np
from scipy import linalg

from tvbandits import Bandit
from tvbandits.core.arrays import Array
from tvbandits.gp.posteriors.nystrom import NystromPosterior


def by_dictionary(bandit: Bandit, X: Array, t: float) -> tuple[Array, Array] | None:
    """Mean and deviation at `X` of the prior that a dictionary stands for; None where there is none.

    With the features phi(z) = L^-1 k(D, z) of the dictionary D, L L^T = k(D, D), the weights of the
    observations are the least squares of [phi / s; I] w = [y / s; 0], by an orthogonal factorisation: no
    normal equations, and nothing that is carried on from the step before.
    """
    state, now, _ = bandit._conditioned_for(t)
    posterior, scaling = state.posterior, state.model.scaling
    if not isinstance(posterior, NystromPosterior) or posterior.filter or len(posterior.data) == 0:
        return None
    kernel, data, words = posterior.kernel, posterior.data, posterior.dictionary.data
    L = linalg.cholesky(kernel(words.Z) + np.diag(words.variance), lower=True)

    def features(Z: Array) -> Array:
        return np.asarray(linalg.solve_triangular(L, kernel(words.Z, Z), lower=True).T)

    weight = 1.0 / np.sqrt(data.variance)[:, None]
    A = np.vstack([features(data.Z) * weight, np.eye(len(words.Z))])
    b = np.vstack([data.Y * weight, np.zeros((len(words.Z), 2))])
    Q, R = linalg.qr(A, mode="economic")
    w = linalg.solve_triangular(R, Q.T @ b)
    left = b - A @ w
    origin = bandit._model._origin(state)
    centre = scaling.centre(left.T @ left, origin)
    here = bandit._model.inputs(X, now)
    phi = features(here)
    mean = centre + phi @ (w[:, 0] - (centre - origin) * w[:, 1])
    rest = np.maximum(kernel.diag(here) - (phi**2).sum(axis=1), 0.0)
    known = (linalg.solve_triangular(R, phi.T, trans="T") ** 2).sum(axis=0)
    sign = -1.0 if bandit.recipe.minimise else 1.0
    return sign * mean, scaling.scale * np.sqrt(rest + known)
