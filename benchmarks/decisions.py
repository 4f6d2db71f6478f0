"""Plays and questions of every policy on small problems, to show that a change of the code keeps them.

    python -m benchmarks.decisions before.json
    python -m benchmarks.decisions after.json --against before.json

A problem is a domain and a script of what happens: rewards that come late or not at all, corrections,
pending points, availability, contexts. Decisions are compared up to 1e-6, so that rounding does not
count; the first step that differs is named. `python -m benchmarks.fingerprint` compares the last bit.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF
from threadpoolctl import threadpool_limits

from tvbandits import Arms, Box, Candidates, Space, policies
from tvbandits.experts import CallableExpert
from tvbandits.validation import Array

NOISE = 0.01
STEPS = 24
# Two decisions are the same where no coordinate (most have an extent of 1) differs by more than this.
TOLERANCE = 1e-6


def wave(X: Array, t: float | Array) -> Array:
    """A sum of waves that drift, of points (n, d)."""
    first = np.sin(5 * X[:, 0] + 0.06 * t)
    return np.asarray(first + 0.5 * np.cos(3 * X[:, -1] - 0.02 * t) * (X.shape[1] > 1))


def still(X: Array, _t: float | Array) -> Array:
    """The same wave, which does not drift."""
    return wave(X, 0.0)


def switching(X: Array, t: float | Array) -> Array:
    """The wave turns over at step 12."""
    sign: Array = np.where(np.asarray(t) < 12, 1.0, -1.0)
    return np.asarray(sign * wave(X, 0.0), dtype=float)


@dataclass(frozen=True)
class Problem:
    """A domain, a reward and a script.

    Attributes
    ----------
    domain : callable
        Makes the domain.
    truth : callable
        Rewards (n,) of points (n, d) at a time.
    script : callable
        Plays one step; see `plain`.
    kernel_length : float
    """

    domain: Callable[[], Any]
    truth: Callable[[Array, float], Array] = wave
    script: Callable[[Run, int], None] = field(default=lambda run, t: plain(run, t))
    kernel_length: float = 0.25


@dataclass
class Run:
    """A bandit that plays a problem, and what it has decided."""

    bandit: Any
    problem: Problem
    rng: np.random.Generator
    plays: list[list[list[float]]] = field(default_factory=list)
    late: list[tuple[Array, Array, float]] = field(default_factory=list)

    def ask(self, t: float, **request: Any) -> Array:
        """Ask for points and note them."""
        X = np.atleast_2d(np.asarray(self.bandit.ask(t, **request), dtype=float))
        self.plays.append(X.tolist())
        return X

    def rewards(self, X: Array, t: float) -> Array:
        """Rewards with noise."""
        noise = NOISE**0.5 * self.rng.standard_normal(len(X))
        return np.asarray(self.problem.truth(X, t) + noise)


def plain(run: Run, t: int) -> None:
    """Ask and tell."""
    X = run.ask(t)
    run.bandit.tell(X, run.rewards(X, t), t)


def irregular(run: Run, t: int) -> None:
    """Steps are of different lengths."""
    now = t**1.3
    X = run.ask(now)
    run.bandit.tell(X, run.rewards(X, now), now)


def late(run: Run, t: int) -> None:
    """Every third reward comes two steps later, so its point is pending until then."""
    for X, y, then in [each for each in run.late if each[2] <= t - 2]:
        run.bandit.tell(X, y, then)
    run.late = [each for each in run.late if each[2] > t - 2]
    X = run.ask(t)
    y = run.rewards(X, t)
    if t % 3:
        run.bandit.tell(X, y, t)
    else:
        run.late.append((X, y, t))


def missing(run: Run, t: int) -> None:
    """Every fourth reading fails."""
    X = run.ask(t)
    y = run.rewards(X, t)
    run.bandit.tell(X, np.full(len(X), np.nan) if t % 4 == 0 else y, t)


def corrected(run: Run, t: int) -> None:
    """Every fifth reward is corrected a step later, and every eighth is taken back."""
    X = run.ask(t)
    y = run.rewards(X, t)
    wrong = t % 5 == 0
    run.bandit.tell(X, y + 3.0 * wrong, t)
    if wrong:
        run.bandit.correct(X[:1], y[:1], t)
    elif t % 8 == 0:
        run.bandit.retract(X[:1], t)


def batch(run: Run, t: int) -> None:
    """Three points at a time."""
    X = run.ask(t, n=3)
    run.bandit.tell(X, run.rewards(X, t), t)


def dropped(run: Run, t: int) -> None:
    """Two points at a time; the second is given up."""
    X = run.ask(t, n=2)
    run.bandit.drop(X[1:])
    run.bandit.tell(X[:1], run.rewards(X[:1], t), t)


def available(run: Run, t: int) -> None:
    """A third of the candidates is out of use at each step."""
    size = len(run.problem.domain().X)
    X = run.ask(t, available=(np.arange(size) + t) % 3 > 0)
    run.bandit.tell(X, run.rewards(X, t), t)


def inside(run: Run, t: int) -> None:
    """Half of a box is out of use at each second step."""
    limit = 0.5 if t % 2 else 1.0
    X = run.ask(t, available=lambda X: X[:, 0] <= limit)
    run.bandit.tell(X, run.rewards(X, t), t)


def measured(run: Run, t: int) -> None:
    """A context is measured before each choice."""
    X = run.ask(t, context=[(t % 5) / 4])
    run.bandit.tell(X, run.rewards(X, t), t)


def near(run: Run, t: int) -> None:
    """Moves are short."""
    X = run.ask(t, near=0.3 if t > 1 else None)
    run.bandit.tell(X, run.rewards(X, t), t)


def line(n: int) -> Array:
    """Points (n, 1) on [0, 1]."""
    return np.linspace(0, 1, n)[:, None]


def grid(n: int) -> Array:
    """Points (n * n, 2) on the unit square."""
    return np.stack(np.meshgrid(line(n)[:, 0], line(n)[:, 0]), axis=-1).reshape(-1, 2)


def on_line(n: int = 41) -> Candidates:
    """Candidates on [0, 1]."""
    return Candidates(line(n))


def on_grid() -> Candidates:
    """Candidates on the unit square."""
    return Candidates(grid(9))


def scattered() -> Candidates:
    """Candidates with columns of different ranges."""
    return Candidates(np.random.default_rng(0).random((60, 2)) * [1.0, 3.0])


PROBLEMS: dict[str, Problem] = {
    "line": Problem(on_line),
    "line still": Problem(on_line, still),
    "line switching": Problem(on_line, switching),
    "line irregular": Problem(on_line, script=irregular),
    "line late": Problem(on_line, script=late),
    "line missing": Problem(on_line, script=missing),
    "line corrected": Problem(on_line, script=corrected),
    "line batch": Problem(on_line, script=batch),
    "line dropped": Problem(on_line, script=dropped),
    "line available": Problem(on_line, script=available),
    "line near": Problem(on_line, script=near),
    "six points": Problem(lambda: on_line(6)),
    "grid": Problem(on_grid, kernel_length=0.4),
    "grid late": Problem(on_grid, script=late, kernel_length=0.4),
    "scattered": Problem(scattered, kernel_length=0.6),
    "scattered available": Problem(scattered, script=available, kernel_length=0.6),
    "grid context": Problem(
        lambda: Candidates(grid(5), context=[1]), script=measured, kernel_length=0.4
    ),
    "box": Problem(lambda: Box([(0, 1)])),
    "box inside": Problem(lambda: Box([(0, 1)]), script=inside),
    "square": Problem(lambda: Box([(0, 1), (0, 1)]), kernel_length=0.4),
    "square late": Problem(lambda: Box([(0, 1), (0, 1)]), script=late, kernel_length=0.4),
    "square context": Problem(
        lambda: Box([(0, 1)], context={"outside": (0, 1)}), script=measured, kernel_length=0.4
    ),
    "space": Problem(lambda: Space(power=(0, 1), mode=["a", "b"]), kernel_length=0.4),
    "arms": Problem(lambda: Arms(["a", "b", "c", "d"])),
}

# What a policy needs beside a kernel and the noise.
OPTIONS: dict[str, dict[str, Any]] = {
    "r-gp-ucb": {"reset_every": 8},
    "sw-gp-ucb": {"window": 10},
    "w-gp-ucb": {"discount": 0.95},
    "tv-gp-ucb": {"forgetting_rate": 0.03},
    "ui-gp-ucb": {"forgetting_rate": 0.005},
    "sparq-gp-ucb": {"queries_per_step": 2.0, "forgetting_rate": 0.005},
    "tv-bbkb": {"forgetting_rate": 0.03},
    "predictive-sampling": {"forgetting_rate": 0.03},
    "mk-gp-ucb": {"forgetting_rate": 0.03},
    "thompson": {"batch_size": 3},
}
WITH_EXPERT = ("sparq-gp-ucb", "frugal-gp-ucb")
WITHOUT_KERNEL = ("uniform", "eps-greedy", "evolution")
ONLY_NOISE = ("w-dbo", "boba")


def make(policy: str, problem: Problem) -> Any:
    """A bandit of the policy on the problem."""
    domain, options = problem.domain(), dict(OPTIONS.get(policy, {}))
    if policy in WITH_EXPERT:
        options["expert"] = CallableExpert(problem.truth, NOISE)
    if policy not in WITHOUT_KERNEL:
        options["noise_variance"] = NOISE
        if policy not in ONLY_NOISE:
            length = problem.kernel_length
            options["kernel"] = domain.kernel() if isinstance(domain, Space) else RBF(length)
    return policies.POLICIES[policy].recipe(domain, **options)


def decide(policy: str, problem: Problem) -> dict[str, Any]:
    """Play the script; what was decided, or the kind of error where the policy refuses it."""
    run: Run | None = None
    try:
        run = Run(make(policy, problem), problem, np.random.default_rng(7))
        for t in range(1, STEPS + 1):
            problem.script(run, t)
        asked = questions(run.bandit).tolist() if policy in WITH_EXPERT else []
    except (ValueError, TypeError, AttributeError, NotImplementedError) as error:
        steps = 0 if run is None else len(run.plays)
        return {"refused": f"{type(error).__name__} at step {steps}", "message": str(error)[:200]}
    return {"plays": run.plays, "questions": asked}


def questions(bandit: Any) -> Array:
    """Where the expert was asked, by the answers that count in the end, shape (n, d)."""
    return np.asarray(bandit.state.answers.X)


def cases() -> Iterator[tuple[str, str]]:
    """Names of policies and problems."""
    for policy in policies.POLICIES:
        for problem in PROBLEMS:
            yield policy, problem


def difference(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    """What differs first, in words; None where nothing does."""
    if "refused" in before or "refused" in after:
        said = before.get("refused", "played"), after.get("refused", "played")
        return None if said[0] == said[1] else f"{said[0]}, now {said[1]}"
    for kind in ("plays", "questions"):
        if len(before[kind]) != len(after[kind]):
            return f"{kind}: {len(before[kind])}, now {len(after[kind])}"
        for step, (old, new) in enumerate(zip(before[kind], after[kind], strict=True), start=1):
            equal_shapes = np.shape(old) == np.shape(new)
            if not (equal_shapes and np.allclose(old, new, rtol=0, atol=TOLERANCE)):
                return f"{kind}, row {step}: {str(old)[:60]}, now {str(new)[:60]}"
    return None


def main() -> None:
    """Write the decisions; with --against, name what differs, and fail if anything does."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decisions")
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--policy", action="append", help="only this one; may be repeated")
    arguments = parser.parse_args()
    before = json.loads(arguments.against.read_text()) if arguments.against else None
    decisions: dict[str, Any] = {}
    differing = 0
    for policy, problem in cases():
        if arguments.policy and policy not in arguments.policy:
            continue
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            name = f"{policy} on {problem}"
            decisions[name] = decide(policy, PROBLEMS[problem])
        if before is None:
            print(
                name,
                decisions[name].get("refused", ""),
                decisions[name].get("message", ""),
                flush=True,
            )
        elif name not in before:
            print(f"{name}: new", flush=True)
        else:
            found = difference(before[name], decisions[name])
            differing += found is not None
            if found is not None:
                print(f"{name}: {found}", flush=True)
    arguments.out.write_text(json.dumps(decisions))
    if before is not None:
        print(f"{len(decisions)} runs, {differing} differ")
        sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
