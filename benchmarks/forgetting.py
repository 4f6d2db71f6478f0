"""Which forgetting suits weights of features: `python -m benchmarks.forgetting [--seeds 2]`.

On 30 x 30 points, all of whose features are known to it, a bandit plays 60 batches of four by upper
bounds of width 2. Weights w ~ N(m, P) of prior N(0, I), V = P^-1, forget by the share 1 - g at a step:

    still      nothing
    window     all rewards but the latest
    weights    V <- g V + (1 - g) I,  V m <- g V m         (stabilised; W-GP-UCB)
    noise      each reward's variance grows by a rate       (UI-GP-UCB)
    SIFt       V <- V - (1 - g) L Z^T (Z L Z^T)^+ Z L       (directions Z just played; arXiv 2404.10844)
               with L = V, or what is known beyond the prior, L = V - I
    drift      P <- g P + (1 - g) I,  m <- sqrt(g) m        (TV-GP-UCB; `tv_bbkb`)

Prints for each field and kind the regret of a play (in deviations of the field) at its best rate.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from tvbandits import Candidates
from tvbandits.core.arrays import Array
from tvbandits.gp.posteriors.features import Features

SIDE, STEPS, BATCH, LENGTH, BETA, NOISE = 30, 60, 4, 0.15, 2.0, 0.05
X = Candidates.grid([(0.0, 1.0), (0.0, 1.0)], SIDE).X


def circle(rng: np.random.Generator) -> Array:
    """A bump that goes round, on a wave; shape (steps, points)."""
    angle = rng.uniform(0, 6.28) + rng.uniform(0.03, 0.09) * np.arange(STEPS)[:, None]
    centre = 0.5 + 0.3 * np.hstack([np.cos(angle), np.sin(angle)])
    return _bumps(centre, 0.12) + 0.2 * np.sin(3 * X[:, 0])


def walk(rng: np.random.Generator) -> Array:
    """A bump that walks at random."""
    steps = np.vstack([rng.uniform(0.2, 0.8, (1, 2)), 0.025 * rng.standard_normal((STEPS - 1, 2))])
    return _bumps(np.abs(np.mod(steps.cumsum(axis=0) + 1, 2) - 1), 0.15)


def drawn(rng: np.random.Generator) -> Array:
    """A draw of TV-GP-UCB's own model, epsilon 0.03."""
    phi, _ = Features.of(RBF(0.2), X, largest=300)(X)
    w: Array = rng.standard_normal((phi.shape[1],))
    path = []
    for _ in range(STEPS):
        path.append(phi @ w)
        w = 0.97**0.5 * w + 0.03**0.5 * rng.standard_normal(len(w))
    return np.array(path)


def _bumps(centres: Array, width: float) -> Array:
    squares = ((X[None] - centres[:, None]) ** 2).sum(axis=2)
    return np.asarray(np.exp(-0.5 * squares / width**2))


FIELDS: dict[str, Callable[[np.random.Generator], Array]] = {
    "circle": circle,
    "walk": walk,
    "drawn": drawn,
}


@dataclass
class Weights:
    """Weights (m,) that forget in one of the ways; `rows` are batches of (Z, y, variance)."""

    kind: str
    rate: float
    m: Array
    P: Array
    rows: list[tuple[Array, Array, float]] = field(default_factory=list)

    def wait(self) -> None:
        """A step of time passes."""
        g, identity = np.exp(-self.rate), np.eye(len(self.m))
        if self.kind == "drift":
            self.m, self.P = np.sqrt(g) * self.m, g * self.P + (1 - g) * identity
        elif self.kind == "weights":
            V = np.linalg.inv(self.P)
            self.P = np.linalg.inv(g * V + (1 - g) * identity)
            self.m = self.P @ (g * V @ self.m)
        elif self.kind == "noise":
            self._again([(Z, y, v + self.rate) for Z, y, v in self.rows])
        elif self.kind == "window":
            self._again(self.rows[-max(round(1 / self.rate) - 1, 1) :])

    def tell(self, Z: Array, y: Array, variance: float) -> None:
        """Rewards (b,) seen through Z (b, m)."""
        if self.kind.startswith("SIFt"):
            self._forget_directions(Z)
        self.rows.append((Z, y, variance))
        self._correct(Z, y, variance)

    def _forget_directions(self, Z: Array) -> None:
        V = np.linalg.inv(self.P)
        L = V if self.kind == "SIFt, V" else V - np.eye(len(V))
        values, vectors = np.linalg.eigh(Z @ L @ Z.T)
        large = values > 1e-8 * max(values[-1], 1e-12)
        B = L @ Z.T @ vectors[:, large] / np.sqrt(values[large])
        self.P = np.linalg.inv(V - (1 - np.exp(-self.rate)) * B @ B.T)

    def _correct(self, Z: Array, y: Array, variance: float) -> None:
        gain = np.linalg.solve(Z @ self.P @ Z.T + variance * np.eye(len(y)), Z @ self.P).T
        self.m, self.P = self.m + gain @ (y - Z @ self.m), self.P - gain @ Z @ self.P
        self.P = (self.P + self.P.T) / 2

    def _again(self, rows: list[tuple[Array, Array, float]]) -> None:
        self.rows, self.m, self.P = rows, np.zeros_like(self.m), np.eye(len(self.m))
        for row in rows:
            self._correct(*row)


RATES = {
    "still": (1.0,),
    "window": (0.05, 0.15, 0.4, 0.8),
    "weights": (0.02, 0.06, 0.2, 0.6),
    "noise": (0.003, 0.01, 0.03, 0.1),
    "SIFt, V": (0.1, 0.3, 0.7, 1.5),
    "SIFt, V - I": (0.1, 0.3, 0.7, 1.5),
    "drift": (0.003, 0.01, 0.03, 0.1),
}


def played(name: str, kind: str, rate: float, seed: int) -> float:
    """Mean regret of a play after the first five steps."""
    F = FIELDS[name](np.random.default_rng([seed, 1]))
    F = (F - F.mean()) / F.std()
    phi, left = Features.of(RBF(LENGTH), X, largest=220)(X)
    weights = Weights(kind, rate, np.zeros(phi.shape[1]), np.eye(phi.shape[1]))
    rng, regret = np.random.default_rng([seed, 2]), []
    for truth in F:
        weights.wait()
        mean, P, batch = phi @ weights.m, weights.P.copy(), list[int]()
        variance = np.einsum("ij,ij->i", phi @ P, phi) + left
        for _ in range(BATCH):
            upper = mean + BETA * np.sqrt(np.maximum(variance, 0)) + 1e-9 * rng.random(len(X))
            upper[batch] = -np.inf
            batch.append(int(upper.argmax()))
            reach = P @ phi[batch[-1]]
            spread = phi[batch[-1]] @ reach + NOISE**2 + left[batch[-1]]
            variance = variance - (phi @ reach) ** 2 / spread
            P -= np.outer(reach, reach) / spread
        noise = NOISE * rng.standard_normal(BATCH)
        weights.tell(phi[batch], truth[batch] + noise, NOISE**2 + 1e-3)
        regret.append(truth.max() - truth[batch].mean())
    return float(np.mean(regret[5:]))


def main() -> None:
    """Play, and print a line for each field and kind."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forgetting", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    seeds = range(parser.parse_args().seeds)
    for name in FIELDS:
        for kind, rates in RATES.items():
            found = {rate: [played(name, kind, rate, seed) for seed in seeds] for rate in rates}
            best = min(found, key=lambda rate, found=found: float(np.mean(found[rate])))  # type: ignore[misc]
            mean, error = np.mean(found[best]), np.std(found[best], ddof=1) / len(seeds) ** 0.5
            print(f"{name:8s} {kind:12s} {mean:.3f} +- {error:.3f} at {best:g}", flush=True)


if __name__ == "__main__":
    main()
