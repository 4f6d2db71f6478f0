"""wdbo-algo's removal scores: of data that it is given, and noted while it plays. In its environment."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from adapters import WDBOAlgo


def scores(case: dict[str, Any]) -> dict[str, Any]:
    """The authors' scores of a dataset, and their processor time.

    A case has X (n, d), y, t, now, variance, noise, space, time and nus of both kernels (null: RBF).
    """
    import wdbo_criterion

    def kernel(length: float, nu: float | None) -> Any:
        if nu is None:
            return wdbo_criterion.RBFKernel(length)
        return wdbo_criterion.MaternKernel(length, nu)

    X = np.ascontiguousarray(case["X"], dtype=float)
    y, t = np.array(case["y"], dtype=float), np.array(case["t"], dtype=float)
    begun = time.process_time()
    found = wdbo_criterion.wasserstein_criterion(
        X,
        y,
        t,
        *X.shape,
        case["variance"],
        case["noise"],
        kernel(case["space"], case["space_nu"]),
        kernel(case["time"], case["time_nu"]),
        case["now"],
        0,
        1,
    )
    return {"scores": [float(score) for score in found], "took": time.process_time() - begun}


class Noted(WDBOAlgo):
    """wdbo-algo as it is, with a note of every time that it scores its data, and of its datasets."""

    def __init__(self, bounds: Any, horizon: int, seed: int) -> None:
        super().__init__(bounds, horizon, seed)
        from wdbo_algo import optimizer

        self.notes: list[dict[str, Any]] = []
        self.sizes: list[int] = []
        self.plain = optimizer.wdbo_criterion.wasserstein_criterion
        optimizer.wdbo_criterion = (
            self  # it asks this module for its scores, and for nothing else by now
        )

    def wasserstein_criterion(self, X: Any, y: Any, t: Any, *more: Any) -> Any:
        """Score as it does, and note what was scored."""
        found = self.plain(X, y, t, *more)
        mine = self.optimizer
        self.notes.append(
            {
                "X": X.tolist(),
                "y": y.tolist(),
                "t": t.tolist(),
                "now": float(more[6]),
                "variance": float(mine._lambda),
                "noise": float(mine._noise),
                "space": float(mine._lS),
                "time": float(mine._lT),
                "space_nu": 2.5,
                "time_nu": 1.5,
                "budget": float(mine._budget),
                "scores": found.tolist(),
            }
        )
        return found

    def tell(self, x: Any, y: float, t: float) -> None:
        """As it is."""
        super().tell(x, y, t)
        self.sizes.append(self.optimizer.dataset_size())
