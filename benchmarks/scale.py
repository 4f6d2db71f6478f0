"""BBKB on many candidates: `python -m benchmarks.scale [--candidates 1e7] [--plays 2000]`.

Points are drawn in blocks into a .npy file (32 bits, 8 coordinates) that is mapped into memory; the
reward is the highest of three bumps. Prints processor time and the peak of this process.
`--growth` prints seconds for 2,000 to 128,000 plays on 20,640 candidates, and the exponent between.
`--posteriors FILE.png` draws what a step costs each posterior by the number of candidates N, and the
least that a filter of s numbers can take: 16 (s^2 + N s) bytes, as fast as this machine copies memory.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import arguments, clock, heading, line, seconds
from tvbandits import Bandit, Candidates, Options, StateSpace, policies
from tvbandits.validation import Array

DIMENSION, BLOCK = 8, 1_000_000
NOISE_VARIANCE, LENGTH_SCALE, BUMP = 0.01, 2.0, 0.8


def drawn(path: Path, count: int) -> None:
    """Write the candidates, block by block."""
    shape = (count, DIMENSION)
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=shape)
    rng = np.random.default_rng(0)
    for start in range(0, count, BLOCK):
        X[start : start + BLOCK] = rng.random(X[start : start + BLOCK].shape, dtype=np.float32)
    X.flush()


def value(X: Array) -> Array:
    """The highest of three bumps, shape (n,)."""
    centres = np.random.default_rng(1).random((3, DIMENSION))
    squares = ((X[:, None] - centres) ** 2).sum(axis=2)
    return np.asarray(np.exp(-0.5 * squares / BUMP**2).max(axis=1))


def play(candidates: Any, plays: int, largest_batch: int = 1_000) -> str:
    """What so many plays took."""
    begun = clock()
    domain = Candidates(candidates)
    bandit = policies.bbkb(
        domain,
        kernel=RBF(LENGTH_SCALE),
        noise_variance=NOISE_VARIANCE,
        options=Options(mean=0.0, largest_batch=largest_batch),
    )
    rng, lost, batches = np.random.default_rng(2), 0.0, 0
    while bandit.info.readings < plays:
        X = bandit.ask()[: plays - bandit.info.readings]
        y = value(X)
        bandit.tell(X, y + NOISE_VARIANCE**0.5 * rng.standard_normal(len(X)))
        lost, batches = lost + float((1 - y).sum()), batches + 1
    size = bandit.info.posterior.dictionary_size
    took = f"{clock() - begun:.1f} s of processor time, {batches} batches, {size} inducing points"
    return f"{took}, average regret {lost / plays:.4f}"


def growth() -> None:
    """Seconds by number of plays."""
    X = np.random.default_rng(0).random((20_640, DIMENSION))
    plays, seconds = [2_000, 8_000, 32_000, 128_000], []
    for count in plays:
        begun = clock()
        took = play(X, count, largest_batch=100_000)
        seconds.append(clock() - begun)
        print(f"{count} plays: {took}", flush=True)
    print(f"exponent {log(seconds[-1] / seconds[0]) / log(plays[-1] / plays[0]):.2f}")


POSTERIORS: dict[str, Callable[[Candidates], Bandit]] = {
    "exact": lambda X: policies.gp_ucb(X, kernel=RBF(0.3), noise_variance=NOISE_VARIANCE),
    "nystrom": lambda X: policies.gp_ucb(
        X, kernel=RBF(0.3), noise_variance=NOISE_VARIANCE, options=Options(posterior="nystrom")
    ),
    "state space": lambda X: policies.tv_gp_ucb(
        X,
        kernel=RBF(0.3),
        noise_variance=NOISE_VARIANCE,
        forgetting_rate=0.05,
        options=Options(posterior=StateSpace()),
    ),
    "ensemble": lambda X: policies.adaptive_gp_ucb(X, noise_variance=NOISE_VARIANCE),
}
SIZES, TOLD, TIMED = (100, 300, 1000, 3000, 10_000), 100, 51


def step_of(bandit: Bandit) -> float:
    """Median seconds of an ask and a tell, after 100 others."""
    rng = np.random.default_rng(0)

    def step() -> None:
        X = bandit.ask()
        bandit.tell(
            X, np.sin(5 * X).sum(axis=1) + NOISE_VARIANCE**0.5 * rng.standard_normal(len(X))
        )

    return statistics.median([seconds(step) for _ in range(TOLD + TIMED)][TOLD:])


def copying() -> float:
    """Seconds for a number that is read and written, 16 bytes, as in 128 MB of them."""
    source = np.ones(2**23)
    target = np.ones_like(source)
    return min(seconds(lambda: np.copyto(target, source)) for _ in range(9)) / len(source)


def posteriors(path: Path) -> None:
    """The table, and the picture."""
    found: dict[str, list[float]] = {name: [] for name in POSTERIORS}
    each, s = copying(), 0
    for count in SIZES:
        X = Candidates(np.random.default_rng(1).random((count, 2)))
        for name, make in POSTERIORS.items():
            bandit = make(X)
            found[name].append(1e3 * step_of(bandit))
            if name == "state space":
                s = max(s, len(bandit.state.posterior.mean))  # type: ignore[union-attr]
    found["floor"] = [1e3 * each * (s**2 + count * s) for count in SIZES]
    print(f"copies {16e-9 / each:.1f} GB/s; a filter of s = {s} numbers", "", sep="\n")
    heading("candidates", *found)
    for row, count in enumerate(SIZES):
        line(count, *(f"{of[row]:.3g}" for of in found.values()))
    drawn = Figure(figsize=(7.5, 3.6), layout="constrained")
    axes = drawn.subplots()
    for name, style in zip(POSTERIORS, ("o-k", "s--k", "D-.k", "^:k"), strict=True):
        axes.plot(SIZES, found[name], style, linewidth=1.2, label=name)
    floor = f"floor: 16 (s² + N s) bytes,\ns = {s}, {16e-9 / each:.0f} GB/s"
    axes.plot(SIZES, found["floor"], color="0.6", linewidth=4, label=floor)
    axes.set(
        xscale="log", yscale="log", xlabel="candidates N", ylabel="processor time of a step (ms)"
    )
    drawn.legend(loc="outside right upper", frameon=False)
    drawn.savefig(path, dpi=120)


def main() -> None:
    """Measure, and print."""
    parser = arguments(__doc__, candidates=1e7, plays=2000)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--posteriors", type=Path, metavar="FILE.png")
    options = parser.parse_args()
    if options.posteriors:
        posteriors(options.posteriors)
    elif options.growth:
        growth()
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "candidates.npy"
            drawn(path, int(options.candidates))
            print(f"{int(options.candidates)} candidates, {path.stat().st_size / 1e9:.2f} GB")
            print(play(path, options.plays))
            print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
