"""BBKB on many candidates: `python -m benchmarks.scale [--candidates 1e7] [--plays 2000]`.

Points are drawn in blocks into a .npy file (32 bits, 8 coordinates) that is mapped into memory; the
reward is the highest of three bumps. Prints processor time and the peak of this process.
With `--everywhere` the same candidates are played from memory, from the mapped file, from a Dask array,
and on two workers of Dask of which one is killed midway; it says whether all choices were the same.
`--growth` prints seconds for 2,000 to 128,000 plays on 20,640 candidates, and the exponent between.
`--posteriors FILE.png` draws what a step costs each posterior by the number of candidates N, and the
least that a filter of s numbers can take: 16 (s^2 + N s) bytes, as fast as this machine copies memory.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.gaussian_process.kernels import RBF

from benchmarks.harness import clock, seconds
from tvbandits import Bandit, Candidates, StateSpace, policies
from tvbandits.core.arrays import Array

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


def play(
    candidates: Any, plays: int, midway: Callable[[], object] = lambda: None, **options: Any
) -> tuple[Array, str]:
    """What was played, shape (plays, d), and what it took."""
    begun = clock()
    domain = Candidates(candidates)
    bandit = policies.bbkb(domain, RBF(LENGTH_SCALE), NOISE_VARIANCE, mean=0.0, **options)
    rng, played, batches = np.random.default_rng(2), np.empty((0, DIMENSION)), 0
    while len(played) < plays:
        X = bandit.ask()[: plays - len(played)]
        noise = NOISE_VARIANCE**0.5 * rng.standard_normal(len(X))
        bandit.tell(X, value(X) + noise)
        if len(played) < plays // 2 <= len(played) + len(X):
            midway()
        played, batches = np.concatenate([played, X]), batches + 1
    size = bandit.info.posterior.dictionary_size
    took = f"{clock() - begun:.1f} s of processor time, {batches} batches, {size} inducing points"
    return played, f"{took}, average regret {float(1 - value(played).mean()):.4f}"


def peak() -> str:
    """The most memory that this process has had, and what it has read."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return f"peak {size:.2f} GB; {int(counts['rchar']) / 1e9:.2f} GB read beside the mapped file"


@contextmanager
def two_workers() -> Iterator[Callable[[], object]]:
    """A client of two workers; yields what kills one of them."""
    from distributed import Client, LocalCluster

    options = {"processes": True, "dashboard_address": None, "silence_logs": 50}
    cluster = LocalCluster(2, threads_per_worker=1, memory_limit=0, **options)
    with cluster, Client(cluster) as client:
        processes = list(client.run(os.getpid).values())
        yield lambda: os.kill(processes[0], signal.SIGKILL)


def everywhere(path: Path, plays: int) -> None:
    """The same candidates from several places."""
    import dask.array as da

    X = np.load(path, mmap_mode="r")
    chunks = (len(X) // 8, DIMENSION)
    first, took = play(np.asarray(X), plays)
    print(f"in memory: {took}", flush=True)
    for name, source in (("mapped file", path), ("Dask array", da.from_array(X, chunks))):
        played, took = play(source, plays)
        print(f"{name}: {took}; same choices: {np.array_equal(played, first)}", flush=True)
    with two_workers() as kill:
        made = da.map_blocks(
            _mapped,
            chunks=da.core.normalize_chunks(chunks, X.shape),
            path=path,
            dtype=X.dtype,
            meta=X[:0],
        )
        played, took = play(made, plays, kill)
    print(f"two workers, one killed: {took}; same choices: {np.array_equal(played, first)}")


def _mapped(path: Path, block_info: Any = None) -> Any:
    rows, columns = block_info[None]["array-location"]
    return np.array(np.load(path, mmap_mode="r")[slice(*rows), slice(*columns)])


def growth() -> None:
    """Seconds by number of plays."""
    X = np.random.default_rng(0).random((20_640, DIMENSION))
    plays, seconds = [2_000, 8_000, 32_000, 128_000], []
    for count in plays:
        begun = clock()
        _, took = play(X, count, largest_batch=100_000)
        seconds.append(clock() - begun)
        print(f"{count} plays: {took}", flush=True)
    print(f"exponent {log(seconds[-1] / seconds[0]) / log(plays[-1] / plays[0]):.2f}")


POSTERIORS: dict[str, Callable[[Candidates], Bandit]] = {
    "exact": lambda X: policies.gp_ucb(X, RBF(0.3), NOISE_VARIANCE),
    "nystrom": lambda X: policies.gp_ucb(X, RBF(0.3), NOISE_VARIANCE, posterior="nystrom"),
    "state space": lambda X: policies.tv_gp_ucb(
        X, RBF(0.3), NOISE_VARIANCE, epsilon=0.05, posterior=StateSpace()
    ),
    "ensemble": lambda X: policies.adaptive_gp_ucb(X, None, NOISE_VARIANCE),
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
    print("| candidates |", " | ".join(found), "|\n|---|" + "---|" * len(found))
    for row, count in enumerate(SIZES):
        print(f"| {count} |", " | ".join(f"{of[row]:.3g}" for of in found.values()), "|")
    drawn = Figure(figsize=(7.5, 3.6), layout="constrained")
    axes = drawn.subplots()
    for name, line, marker in zip(POSTERIORS, ("-", "--", "-.", ":"), "osD^", strict=True):
        axes.plot(SIZES, found[name], "k", linestyle=line, marker=marker, linewidth=1.2, label=name)
    floor = f"floor: 16 (s² + N s) bytes,\ns = {s}, {16e-9 / each:.0f} GB/s"
    axes.plot(SIZES, found["floor"], color="0.6", linewidth=4, label=floor)
    axes.set(
        xscale="log", yscale="log", xlabel="candidates N", ylabel="processor time of a step (ms)"
    )
    drawn.legend(loc="outside right upper", frameon=False)
    drawn.savefig(path, dpi=120)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale")
    parser.add_argument("--candidates", type=float, default=1e7)
    parser.add_argument("--plays", type=int, default=2000)
    parser.add_argument("--everywhere", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--posteriors", type=Path, metavar="FILE.png")
    given = parser.parse_args()
    if given.posteriors:
        posteriors(given.posteriors)
        return
    if given.growth:
        growth()
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "candidates.npy"
        drawn(path, int(given.candidates))
        print(f"{int(given.candidates)} candidates, {path.stat().st_size / 1e9:.2f} GB")
        if given.everywhere:
            everywhere(path, given.plays)
        else:
            print(play(path, given.plays)[1], peak(), sep="\n")


if __name__ == "__main__":
    main()
