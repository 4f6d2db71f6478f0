"""Runs of the budgeted policies, step by step against a plain restatement."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from tests.oracles import plain_budgeted
from tests.oracles.plain_budgeted import (
    PlainBatchPolicy,
    at_once,
    bbkb_width,
    bkb_width,
    lemma_1,
    lemma_3,
    product,
)
from tvbandits import Bandit, Candidates, Exact, Nystrom, Recipe
from tvbandits.acquisition.batches import (
    Batching,
    BatchRule,
    GlobalRatio,
    LocalRatio,
    One,
    ProductRatio,
)
from tvbandits.acquisition.widths import BBKBWidth, BKBWidth, Confidence, Fixed
from tvbandits.gp.sparse import SparsePosterior
from tvbandits.validation import Array

STEPS, DELTA = 120, 1 / 200


@dataclass(frozen=True)
class Case:
    """A reward on candidates, and a prior for it."""

    domain: Candidates
    kernel: Any
    noise_variance: float
    value: Array


def line() -> Case:
    domain = Candidates.grid([(0.0, 1.0)], 61)
    x = domain.X[:, 0]
    return Case(domain, RBF(0.025), 0.5, np.sin(9 * x) * x + 0.3 * np.cos(31 * x))


def square() -> Case:
    domain = Candidates.grid([(0.0, 1.0), (-1.0, 1.0)], [13, 11])
    a, b = domain.X.T
    return Case(domain, Matern([0.3, 0.5], nu=2.5), 1.0, 1 - (a - 0.3) ** 2 - (b - 0.2) ** 2)


def table() -> Case:
    X = np.random.default_rng(8).random((500, 4))
    value = np.exp(-4 * ((X - 0.4) ** 2).sum(axis=1)) + 0.2 * np.sin(7 * X[:, 0])
    return Case(Candidates(X), RBF(0.5), 1.0, value)


CASES = {"line": line(), "square": square(), "table": table()}

Policy = tuple[
    BatchRule, Confidence, float, plain_budgeted.BatchEnd, Callable[[PlainBatchPolicy], float]
]
POLICIES: dict[str, Policy] = {
    "bkb": (One(), BKBWidth(DELTA), 1.0, at_once, bkb_width(DELTA)),
    "bbkb-global": (GlobalRatio(2.0), BBKBWidth(DELTA), 2.0, lemma_1(2.0), bbkb_width(DELTA)),
    "gp-bucb": (ProductRatio(2.0), Fixed(2.0), 2.0, product(2.0), lambda _: 2.0),
    "bbkb-local": (LocalRatio(1.5), BBKBWidth(DELTA), 1.5, lemma_3(1.5), bbkb_width(DELTA)),
}


@dataclass
class Run:
    """A bandit and the plain policy, on the same rewards and random numbers."""

    bandit: Bandit
    plain: PlainBatchPolicy
    case: Case
    seed: int
    shares: list[float] = field(default_factory=list)  # of the visited points in the dictionary

    def play(self, steps: int) -> list[int]:
        """Return the sizes of the batches; the plain policy plays the bandit's points if some tie."""
        noise = np.random.default_rng([self.seed, 7]).standard_normal(steps + 1000)
        sizes: list[int] = []
        while len(self.plain.rows) < steps:
            rng = np.random.default_rng()
            rng.bit_generator.state = self.bandit.state.random
            batch = self.bandit.ask()
            self.plain.begin(rng)
            count = len(self.plain.rows)
            assert self.bandit.info.beta == pytest.approx(self.plain.beta, rel=1e-7), f"{count=}"
            self.assert_same_dictionary()
            rows = self.case.domain.index(batch).tolist()
            for place, row in enumerate(rows):
                ucb = self.plain.ucb()
                where = f"point {place} of the batch with {count=}"
                assert ucb[row] >= ucb.max() - 1e-9 * abs(ucb.max()), where
                ends = self.plain.add(row)
                assert ends == (place == len(rows) - 1), where
            y = self.case.value[rows] + np.sqrt(self.case.noise_variance) * np.array(
                [noise[count + place] for place in range(len(rows))]
            )
            self.bandit.tell(batch, y)
            self.plain.tell(y)
            sizes.append(len(rows))
        return sizes

    def assert_same_dictionary(self) -> None:
        posterior, S = self.bandit.state.posterior, self.plain.S
        if S is not None:
            assert isinstance(posterior, SparsePosterior)
            np.testing.assert_array_equal(posterior.dictionary.rows.Z, S)
            self.shares.append(len(S) / len(set(self.plain.rows)))


def side_by_side(
    case: Case, policy: str, posterior: Nystrom | Exact, *, mean: float = 0.0, seed: int = 0
) -> Run:
    batch, beta, C, ends, width = POLICIES[policy]
    recipe = Recipe(
        case.domain,
        case.kernel,
        case.noise_variance,
        posterior=posterior,
        batching=Batching(batch),
        beta=beta,
        mean=mean,
    )
    plain = PlainBatchPolicy(case.domain.X, case.kernel, case.noise_variance, width, ends, C, mean)
    if isinstance(posterior, Nystrom):
        plain.oversampling = posterior.oversampling
        plain.keep = posterior.keep
        plain.tolerance = posterior.tolerance
    return Run(Bandit(recipe, seed=seed), plain, case, seed)


PAPERS = Nystrom(2.0, keep=False)


@pytest.mark.parametrize("policy", ["bkb", "bbkb-global", "bbkb-local"])
@pytest.mark.parametrize("case", CASES)
def test_bkb_and_bbkb_match_their_pseudo_code(case: str, policy: str) -> None:
    run = side_by_side(CASES[case], policy, PAPERS, seed=4)
    assert (max(run.play(STEPS)) > 2) == (policy != "bkb")
    assert min(run.shares) < 0.8  # dictionaries are proper subsets


def test_gp_bucb_matches_its_pseudo_code() -> None:
    for case in ("line", "square"):
        assert max(side_by_side(CASES[case], "gp-bucb", Exact(), seed=5).play(STEPS)) > 3


def test_bbkb_with_a_prior_mean_matches_its_pseudo_code() -> None:
    run = side_by_side(CASES["square"], "bbkb-global", PAPERS, mean=0.8, seed=6)
    assert len(run.play(150)) > 10


@pytest.mark.parametrize("policy", ["bkb", "bbkb-global"])
def test_bkb_and_bbkb_that_keep_dictionaries_match_their_pseudo_code(policy: str) -> None:
    """Points are compared in value; a coarse tolerance lets many new points drop out."""
    run = side_by_side(CASES["square"], policy, Nystrom(0.7, tolerance=0.005), seed=7)
    new_draws = extensions = 0
    for _ in range(STEPS):
        if len(run.plain.rows) >= STEPS:
            break
        before = run.plain.S
        run.play(len(run.plain.rows) + 1)
        S = run.plain.S
        if before is not None and S is not None:
            same = np.array_equal(S[: len(before)], before)
            new_draws, extensions = new_draws + (not same), extensions + same
    assert min(new_draws, extensions) >= 10
