"""Our W-DBO beside wdbo-algo as it is published: scores, decisions, trajectories, time.

    make peers                                   # the environment of the peers, once
    python -m benchmarks.peers.removal

1. Removal scores of the same data by the authors' program, by ours, and (in one dimension) by quadrature
   of posteriors that are computed densely with and without each observation, which shares nothing with
   either; and by our formula with the habits of the authors' source, which says what the difference is.
2. wdbo-algo plays; every time it scores its data, ours scores them too with its hyperparameters: whether
   both would remove the same observation, or none.
3. Both play the same problem under the same noise: sizes of their data, regret, processor time a step.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import gamma

from benchmarks.peers.__main__ import Served
from tvbandits import policies
from tvbandits.cli.problems import make_problem
from tvbandits.comparison.setup import REWARD_NOISE, played
from tvbandits.core.arrays import Array
from tvbandits.policies.removing import matern, over_future, over_space, precision, relevance

Case = dict[str, Any]
# Kernels over points and over time.
NUS: dict[str, tuple[float | None, float | None]] = {
    "Matern-5/2, Matern-3/2": (2.5, 1.5),
    "Matern-5/2, Matern-1/2": (2.5, 0.5),
    "Matern-5/2, RBF": (2.5, None),
    "RBF, Matern-3/2": (None, 1.5),
    "RBF, RBF": (None, None),
}


def case_of(kernels: str, n: int, d: int, seed: int = 0) -> Case:
    """Data in the unit cube, times in [0, 1], and hyperparameters."""
    rng = np.random.default_rng([seed, n, d])
    space_nu, time_nu = NUS[kernels]
    return {
        "X": rng.random((n, d)).tolist(),
        "y": rng.standard_normal(n).tolist(),
        "t": np.sort(rng.random(n)).tolist(),
        "now": 1.02,
        "variance": 1.3,
        "noise": 0.05,
        "space": 0.3,
        "time": 0.4,
        "space_nu": space_nu,
        "time_nu": time_nu,
    }


def ours(case: Case) -> Array:
    """The scores of this suite."""
    X, t = np.array(case["X"]), np.array(case["t"])
    nus = [math.inf if case[name] is None else case[name] for name in ("space_nu", "time_nu")]
    K = matern(X, X, case["space"], nus[0]) * matern(t[:, None], t[:, None], case["time"], nus[1])
    C = over_space(X, case["space"], nus[0]) * over_future(t, case["now"], case["time"], nus[1])
    return relevance(precision(case["variance"] * K, case["noise"]), np.array(case["y"]), C)


def at_no_distance(length: float, nu: float, d: int) -> float:
    """The integral of a squared correlation over all of R^d.

    It is that of the squared spectral density, C^2 (a^2 + w^2)^-(2 nu + d), over (2 pi)^d.
    """
    if math.isinf(nu):
        return float(math.pi ** (d / 2) * length**d)
    a = math.sqrt(2 * nu) / length
    C = 2**d * math.pi ** (d / 2) * gamma(nu + d / 2) * a ** (2 * nu) / gamma(nu)
    integral = math.pi ** (d / 2) * gamma(2 * nu + d / 2) / gamma(2 * nu + d) * a ** -(4 * nu + d)
    return float(C**2 * integral / (2 * math.pi) ** d)


def as_they_compute(case: Case) -> Array:
    """Scores with four habits of the authors' source, which make all the difference to ours.

    Distances of Matern kernels are at least 1e-5 (so on the diagonal, but for the observation that is
    looked at), integrals over space at most 1, the noise at least 1e-5, and products of RBF kernels over
    time fall as exp(-r^2 / (2 l^2)), where their integral is exp(-r^2 / (4 l^2)).
    """
    X, t = np.array(case["X"]), np.array(case["t"])
    nus = [math.inf if case[name] is None else case[name] for name in ("space_nu", "time_nu")]
    apart, later = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2)), np.abs(t[:, None] - t)
    floors = [0.0 if math.isinf(nu) else 1e-5 for nu in nus]
    apart, later = np.maximum(apart, floors[0]), np.maximum(later, floors[1])
    K = correlation(case["space_nu"])(apart / case["space"])
    K = K * correlation(case["time_nu"])(later / case["time"])
    C = over_future(t, case["now"], case["time"], nus[1])
    if math.isinf(nus[1]):
        C = C * np.exp(-(later**2) / (4 * case["time"] ** 2))
    size = at_no_distance(case["space"], nus[0], X.shape[1])
    among = np.array([product_at(row, case["space"], nus[0], X.shape[1]) for row in apart])
    C = C * np.minimum(size * among, 1.0)
    K, noise, y = case["variance"] * K, max(case["noise"], 1e-5), np.array(case["y"])
    Q = precision(K, noise)
    whole = y @ Q @ C @ Q @ y + (Q * C).sum()
    found = []
    for i in range(len(y)):
        seen = K.copy()
        seen[i, i] = case["variance"]
        Q = precision(seen, noise)
        u, a, q = Q[:, i], Q[i] @ y, Q[i, i]
        share = float((u @ C @ u) * (a**2 / q + 1) / q / whole)
        found.append(math.sqrt(share) if share >= 0 else -1.0)  # cut at 1, C need not be positive
    return np.array(found)


def product_at(r: Array, length: float, nu: float, d: int) -> Array:
    """The product of two kernels integrated over R^d, by their distance, over that at none."""
    points = np.zeros((len(r) + 1, d))
    points[1:, 0] = r
    return over_space(points, length, nu)[0, 1:]


def correlation(nu: float | None) -> Callable[[Array], Array]:
    """Of a distance over its length scale, written down once more."""
    formulas: dict[float | None, Callable[[Array], Array]] = {
        None: lambda r: np.exp(-(r**2) / 2),
        0.5: lambda r: np.exp(-r),
        1.5: lambda r: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r),
        2.5: lambda r: (1 + 5**0.5 * r + 5 * r**2 / 3) * np.exp(-(5**0.5) * r),
    }
    return formulas[nu]


def legendre(edges: Array, degree: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss and Legendre's rule on every piece between two edges."""
    nodes, weights = np.polynomial.legendre.leggauss(degree)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (nodes + 1)).ravel(), (half * weights).ravel()


def by_quadrature(case: Case) -> Array:
    """Scores out of posteriors with and without each observation, integrated on a grid; d = 1.

    Over all points of the line and all times from now on: the squared difference of means, and the
    difference of variances (which bounds that of deviations, squared).
    """
    X, t, y = np.array(case["X"])[:, 0], np.array(case["t"]), np.array(case["y"])
    k, h = correlation(case["space_nu"]), correlation(case["time_nu"])
    reach = 25 * case["space"]
    x, wx = legendre(np.concatenate([[X.min() - reach], np.sort(X), [X.max() + reach]]), 40)
    s, ws = legendre(np.linspace(case["now"], case["now"] + 25 * case["time"], 9), 12)
    w = np.outer(wx, ws).ravel()
    at_x = k(np.abs(x[:, None] - X) / case["space"])
    at_s = h(np.abs(s[:, None] - t) / case["time"])
    cross = case["variance"] * (at_x[:, None, :] * at_s[None, :, :]).reshape(-1, len(X))
    K = case["variance"] * (
        k(np.abs(X[:, None] - X) / case["space"]) * h(np.abs(t[:, None] - t) / case["time"])
    )

    def posterior(rows: Any) -> tuple[Array, Array]:
        """Mean, and how much of the prior variance is gone."""
        dense = np.linalg.inv(K[np.ix_(rows, rows)] + case["noise"] * np.eye(len(rows)))
        part = cross[:, rows]
        return part @ dense @ y[rows], np.einsum("ij,ij->i", part @ dense, part)

    everything = np.arange(len(X))
    mean, gone = posterior(everything)
    whole = w @ (mean**2 + gone)
    found = []
    for i in everything:
        other, less = posterior(np.delete(everything, i))
        found.append(math.sqrt(w @ ((mean - other) ** 2 + np.abs(gone - less)) / whole))
    return np.array(found)


def score_table(served: Served, repeats: int = 5) -> pd.DataFrame:
    """Largest differences of scores, a line a kernel and size."""
    lines = []
    for kernels in NUS:
        for n, d in ((10, 1), (10, 2), (60, 1), (60, 4), (200, 2)):
            case = case_of(kernels, n, d)
            theirs, again = (served.call({"scores": case}) for _ in range(2))
            begun = time.process_time()
            for _ in range(repeats):
                mine = ours(case)
            took = (time.process_time() - begun) / repeats
            dense = by_quadrature(case) if d == 1 and n == 10 else np.full(n, np.nan)
            authors = np.array(theirs["scores"])
            lines.append(
                {
                    "kernels": kernels,
                    "n": n,
                    "d": d,
                    "ours - authors": np.abs(mine - authors).max(),
                    "their habits - authors": np.abs(as_they_compute(case) - authors).max(),
                    "two calls": np.abs(np.array(again["scores"]) - authors).max(),
                    "ours - quadrature": np.abs(mine - dense).max(),
                    "authors - quadrature": np.abs(authors - dense).max(),
                    "largest score": mine.max(),
                    "authors ms": 1e3 * theirs["took"],
                    "ours ms": 1e3 * took,
                }
            )
    return pd.DataFrame(lines)


def decisions(notes: list[Case]) -> dict[str, float]:
    """How often ours would have done what the authors' program did, with its hyperparameters.

    Apart for the times that it had a score of -1: where the integral that is cut at 1 makes a squared
    distance negative, its source gives -1, and takes it for the least relevance.
    """
    found = {"scored": len(notes), "same decision": 0, "with a -1": 0, "same of those": 0}
    apart = explained = 0.0
    for note in notes:
        mine, theirs, habits = ours(note), np.array(note["scores"]), as_they_compute(note)
        whole = theirs >= 0
        apart = max(apart, float(np.abs(mine - theirs)[whole].max(initial=0.0)))
        both = whole & (habits >= 0)
        explained = max(explained, float(np.abs(habits - theirs)[both].max(initial=0.0)))
        first, second = (
            int(score.argmin()) if score.min() + 1 < note["budget"] else -1
            for score in (mine, theirs)
        )
        found["same decision"] += first == second
        found["with a -1"] += not whole.all()
        found["same of those"] += first == second and not whole.all()
    return {**found, "largest difference": apart, "with their habits": explained}


def by_theirs(python: str, problem: Any, seed: int, horizon: int) -> Case:
    """A run of wdbo-algo, with its notes."""
    served = Served(python, "wdbo-algo, noted", problem.domain.bounds.tolist(), horizon, seed)
    regrets, worked = [], []
    for t in range(1, horizon + 1):
        asked = served.call({"ask": float(t)})
        X = np.array([asked["x"]])
        reward, told = played(problem, X, float(t), seed, REWARD_NOISE)
        regrets.append(problem.best(float(t)) - reward)
        answer = served.call({"tell": [X[0].tolist(), told, float(t)]})
        worked.append(asked["worked"] + answer["worked"])
    found = served.call({"notes": True})
    served.close()
    return {
        "regrets": regrets,
        "worked": worked,
        "sizes": found["sizes"],
        "decisions": decisions(found["notes"]),
    }


def by_ours(problem: Any, seed: int, horizon: int) -> Case:
    """The same of ours."""
    player: Any = policies.w_dbo(problem.domain, noise_variance=problem.noise_variance, seed=seed)
    regrets, worked, sizes = [], [], []
    for t in range(1, horizon + 1):
        begun = time.process_time()
        X = player.ask(float(t))
        worked.append(time.process_time() - begun)
        reward, told = played(problem, X, float(t), seed, REWARD_NOISE)
        regrets.append(problem.best(float(t)) - reward)
        begun = time.process_time()
        player.tell(X, told, float(t))
        worked[-1] += time.process_time() - begun
        sizes.append(player.rule.kept)
    return {"regrets": regrets, "worked": worked, "sizes": sizes}


def trajectory_table(runs: list[tuple[int, Case, Case]], after: int = 20) -> pd.DataFrame:
    """A line a seed: sizes and regrets of both, processor time a step after the first `after`."""
    lines = []
    for seed, theirs, mine in runs:
        late = [1e3 * statistics.median(run["worked"][after:]) for run in (theirs, mine)]
        lines.append(
            {
                "seed": seed,
                "regret theirs": np.mean(theirs["regrets"]),
                "regret ours": np.mean(mine["regrets"]),
                "mean size theirs": np.mean(theirs["sizes"]),
                "mean size ours": np.mean(mine["sizes"]),
                "last size theirs": theirs["sizes"][-1],
                "last size ours": mine["sizes"][-1],
                "theirs ms": late[0],
                "ours ms": late[1],
                "ratio": late[0] / late[1],
                **theirs["decisions"],
            }
        )
    return pd.DataFrame(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--problem", default="lifted:hartmann3")
    parser.add_argument("--horizon", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--python", default=".venv-peers/bin/python", help="of their environment")
    parser.add_argument("--only", choices=["scores", "runs"], help="one of the two tables")
    given = parser.parse_args()
    if given.only != "runs":
        served = Served(given.python, "wdbo-algo", [[0, 1]], 1, 0)
        print(f"wdbo-algo {served.version}")
        print(score_table(served).to_string(index=False, float_format=lambda v: f"{v:.3g}"))
        served.close()
    if given.only == "scores":
        return
    problem = make_problem(given.problem, [], given.horizon)
    runs = []
    for seed in range(given.seeds):
        theirs = by_theirs(given.python, problem, seed, given.horizon)
        runs.append((seed, theirs, by_ours(problem, seed, given.horizon)))
        print(trajectory_table(runs[-1:]).to_json(orient="records"), flush=True)
    print(f"\n{given.problem}, {given.horizon} steps; processor time, medians of later steps")
    print(trajectory_table(runs).to_string(index=False, float_format=lambda v: f"{v:.3g}"))


if __name__ == "__main__":
    main()
