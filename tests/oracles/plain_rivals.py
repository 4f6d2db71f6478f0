"""Rivals restated plainly: dense algebra and a loop for every sum, without the package."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def matern52(r: Any) -> Any:
    s = math.sqrt(5) * np.abs(r)
    return (1 + s + s**2 / 3) * np.exp(-s)


def matern32(r: Any) -> Any:
    s = math.sqrt(3) * np.abs(r)
    return (1 + s) * np.exp(-s)


def relevances_by_leaving_out(K: Array, noise: float, y: Array, C: Array) -> Array:
    """Return the criterion of W-DBO, with an inverse for every observation that is left out.

    With weights w(z) = k(z)^T A y and A the inverse, the squared difference of means integrates to
    d^T C d for d = A y - (A_i y_i, 0), and the difference of variances to the sum of (A - A_i) o C.
    """
    n = len(y)
    whole = np.linalg.inv(K + noise * np.eye(n))
    size = (whole @ y) @ C @ (whole @ y) + (whole * C).sum()
    relevances = []
    for i in range(n):
        others = [j for j in range(n) if j != i]
        without = np.zeros((n, n))
        without[np.ix_(others, others)] = np.linalg.inv(
            K[np.ix_(others, others)] + noise * np.eye(n - 1)
        )
        d = whole @ y - without @ y
        relevances.append(math.sqrt((d @ C @ d + ((whole - without) * C).sum()) / size))
    return np.array(relevances)


def drift_posterior(
    K: Array,
    epsilon: float,
    rows: list[int],
    t: list[float],
    y: list[float],
    noise: float,
    now: float,
) -> tuple[Array, Array]:
    """Return mean and covariance of all candidates at `now` under the model of TV-GP-UCB."""
    if not rows:
        return np.zeros(len(K)), K
    times = np.array(t)
    between = (1 - epsilon) ** (np.abs(times[:, None] - times) / 2)
    G = K[np.ix_(rows, rows)] * between + noise * np.eye(len(rows))
    cross = K[rows] * ((1 - epsilon) ** ((now - times) / 2))[:, None]
    return cross.T @ np.linalg.solve(G, np.array(y)), K - cross.T @ np.linalg.solve(G, cross)


def variance_explained_by_future(V: float, gamma: float, noise: float, steps: int) -> float:
    """Return the variance of E[theta_{t+1} | later rewards] of an AR(1) arm, with `steps` rewards."""
    delta = 1 - gamma**2
    times = np.arange(1, steps + 1)
    # theta_{t+1+k} = gamma^k theta_{t+1} + innovations.
    innovations = np.zeros((steps, steps))
    for i, a in enumerate(times):
        for j, b in enumerate(times):
            low = min(a, b)
            innovations[i, j] = delta * sum(
                gamma ** (a - m) * gamma ** (b - m) for m in range(1, low + 1)
            )
    loads = gamma**times
    G = V * np.outer(loads, loads) + innovations + noise * np.eye(steps)
    return float(V * loads @ np.linalg.solve(G, V * loads))


def plain_master(
    K: Array,
    reward: Callable[[int, int], float],
    rng: np.random.Generator,
    *,
    steps: int,
    horizon: int,
    noise: float,
    width: float,
    delta: float,
    regret: float,
    factor: float,
) -> tuple[list[int], list[int]]:
    """Return rows and restart steps of MASTER (Wei & Luo 2021, Alg. 1 to 3) around GP-UCB."""

    def rho(t: int) -> float:
        return min(1.0, regret / math.sqrt(t))

    def rho_hat(t: int) -> float:
        return factor * (math.log2(horizon) + 1) * math.log(horizon / delta) * rho(t)

    rows_played: list[int] = []
    restarts: list[int] = []
    n, copies, optimistic, rewards = 0, [], [], []  # type: ignore[var-annotated]
    for step in range(1, steps + 1):
        s = len(rewards)
        for m in range(n, -1, -1):  # start copies of order m at the slots of length 2^m
            if s % 2**m == 0 and (m == n or rng.random() < rho(2**n) / rho(2**m)):
                rng.integers(2**31)  # the seed of the copy
                copies.append({"order": m, "start": s, "end": s + 2**m - 1, "rows": [], "y": []})
        active = min((c for c in copies if c["start"] <= s <= c["end"]), key=lambda c: c["order"])
        rows = active["rows"]
        G = K[np.ix_(rows, rows)] + noise * np.eye(len(rows))
        mean = K[:, rows] @ np.linalg.solve(G, np.array(active["y"]))
        variance = np.diag(K) - np.einsum("ai,ia->a", K[:, rows], np.linalg.solve(G, K[rows]))
        bound = mean + width * np.sqrt(variance)
        row = int(np.argmax(bound))
        y = reward(row, step)
        rows_played.append(row)
        active["rows"].append(row)
        active["y"].append(y)
        optimistic.append(float(bound[row]))
        rewards.append(y)
        lowest = min(optimistic)
        first = any(
            c["end"] == s
            and np.mean(rewards[c["start"] :]) >= lowest + 9 * rho_hat(2 ** c["order"])
            for c in copies
        )
        second = np.mean(np.array(optimistic) - np.array(rewards)) >= 3 * rho_hat(s + 1)
        if first or second:
            restarts.append(step)
            n, copies, optimistic, rewards = 0, [], [], []
        elif s + 1 == 2**n:
            n, copies, optimistic, rewards = n + 1, [], [], []
    return rows_played, restarts


def plain_length_scale_balancing(
    kernel: Callable[[float], Array],
    reward: Callable[[int, int], float],
    *,
    steps: int,
    longest: float,
    noise: float,
    width: float,
    growth: float,
    delta: float,
    window: int | None = None,
) -> tuple[list[int], list[float], list[tuple[int, float]]]:
    """Return rows, length scales and rejections of LB-GP-UCB (Ziomek 2024) on an interval of length 1.

    `kernel` returns the matrix of all candidates for a length scale. At most one length scale is added
    in a step, as in the authors' program.
    """

    def g(t: int) -> float:
        return max(math.exp(5 / 6), (t if window is None else min(t, window)) ** growth)

    def regret(n: int, theta: float) -> float:
        size = 1 / theta * math.log(n) ** 2
        return math.sqrt(n * size) * (math.sqrt(size) + 1)

    def is_due(theta: float, t: int) -> bool:
        return theta > longest / g(t) * (
            1 + 1e-9
        )  # an equal length counts as not longer, despite rounding

    length_scales = [longest]
    while is_due(length_scales[-1] * math.exp(-1 / 6), 1):
        length_scales.append(length_scales[-1] * math.exp(-1 / 6))
    rejected: dict[float, int] = {}
    rows: list[int] = []
    thetas: list[float] = []
    rewards: list[float] = []
    widths: list[float] = []
    rejections: list[tuple[int, float]] = []
    for t in range(1, steps + 1):
        past = range(0 if window is None else max(t - 1 - window, 0), t - 1)
        remaining = [each for each in length_scales if each not in rejected]
        n = {each: sum(thetas[s] == each for s in past) for each in remaining}
        theta = min(remaining, key=lambda each: regret(n[each] + 1, each))
        K = kernel(theta)
        mean, variance = np.zeros(len(K)), np.diag(K).copy()
        if len(past):
            past_rows, y = [rows[s] for s in past], np.array([rewards[s] for s in past])
            inverse = np.linalg.inv(
                K[np.ix_(past_rows, past_rows)] + noise * np.eye(len(past_rows))
            )
            mean = y.mean() + K[:, past_rows] @ inverse @ (y - y.mean())
            variance = variance - np.diag(K[:, past_rows] @ inverse @ K[past_rows])
        deviation = np.sqrt(np.maximum(variance, 0))
        row = int(np.argmax(mean + width * deviation))
        rows.append(row)
        thetas.append(theta)
        rewards.append(reward(row, t))
        widths.append(width * float(deviation[row]))
        first = 0 if window is None else max(t - window, 0)
        if window is not None:
            rejected = {each: at for each, at in rejected.items() if at > t - window}
        remaining = [each for each in length_scales if each not in rejected]
        plays = {each: [s for s in range(first, t) if thetas[s] == each] for each in remaining}
        if all(plays.values()):
            clock = t if window is None else min(t, window)
            xi = 2 * noise * math.log(len(remaining) * math.pi**2 * clock**2 / (6 * delta))
            means = {each: np.mean([rewards[s] for s in plays[each]]) for each in remaining}
            spread = {each: math.sqrt(xi / len(plays[each])) for each in remaining}
            floor = max(means[each] - spread[each] for each in remaining)
            for each in remaining:
                upper = means[each] + np.mean([widths[s] for s in plays[each]]) + spread[each]
                if upper < floor:
                    rejected[each] = t
                    rejections.append((t, each))
        if is_due(length_scales[-1] * math.exp(-1 / 6), t + 1):
            length_scales.append(length_scales[-1] * math.exp(-1 / 6))
    return rows, thetas, rejections
