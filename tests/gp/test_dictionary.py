"""The random dictionary of BKB and BBKB: inclusion probabilities and sizes."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Kernel, Matern

from tests.oracles.sparse import Sparse
from tvbandits import Nystrom
from tvbandits.gp.posterior import Conditioning, Data
from tvbandits.gp.sparse import (
    SparsePosterior,
    TheoryOversampling,
    leverage_dictionary,
    leverage_scores,
)
from tvbandits.validation import Array

# The largest uniform number: it selects only an input of probability one.
UNLUCKY = np.nextafter(1.0, 0.0)

KERNEL = 1.5 * Matern(0.4, nu=1.5)


class Numbers:
    """A generator that returns given uniform numbers, one for each input."""

    def __init__(self, numbers: Array) -> None:
        self.numbers, self.calls = numbers, 0

    def random(self, n: int) -> Array:
        self.calls += 1
        assert n == len(self.numbers)
        return self.numbers


def scattered(n: int, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    return Data(rng.random((n, 2)), rng.standard_normal((n, 1)), 10 ** rng.uniform(0, 1, n))


def concatenate(*parts: Data) -> Data:
    return Data(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def condition(part: Nystrom, data: Data, rng: Any, previous: Any = None) -> SparsePosterior:
    return part.condition(Conditioning(KERNEL, data, previous=previous, rng=rng))


def position(data: Data, Z: Array) -> list[int]:
    inputs = list(dict.fromkeys(map(bytes, data.Z)))
    return [inputs.index(bytes(z)) for z in Z]


def law_of_plays(score: Array, point: list[int]) -> dict[frozenset[int], float]:
    """Return the law of the dictionary by enumerating the coins of [BB] Algorithm 1, L12 to L15."""
    law: dict[frozenset[int], float] = {}
    for coins in itertools.product([False, True], repeat=len(point)):
        chances = [
            min(1.0, p) if z else 1.0 - min(1.0, p) for z, p in zip(coins, score, strict=True)
        ]
        S = frozenset(x for z, x in zip(coins, point, strict=True) if z)
        law[S] = law.get(S, 0.0) + math.prod(chances)
    return law


@pytest.mark.parametrize("first_draw", [False, True])
def test_dictionary_has_the_law_of_one_coin_for_each_play(first_draw: bool) -> None:
    """The oracle enumerates all coins; if no play is selected, the dictionary has one point."""
    q, first = 0.3, scattered(3)
    more = Data(first.Z[[1, 1, 2, 1]], np.ones((4, 1)), np.array([2.0, 3.0, 5.0, 2.5]))
    data, point = concatenate(first, more, scattered(1, seed=1)), [0, 1, 2, 1, 1, 2, 1, 3]
    p = None if first_draw else condition(Nystrom(q), first, np.random.default_rng(3))
    before = (np.empty((0, 2)), *scattered(0)) if p is None else (p.dictionary.rows.Z, *first)
    score = q * Sparse(KERNEL, *before).variance(data.Z) / data.variance
    law = law_of_plays(score, point)
    assert sum(law.values()) == pytest.approx(1.0)
    included = np.array([sum(law[S] for S in law if x in S) for x in range(4)])
    assert (included < 0.95).all()
    merged = np.minimum(1.0, np.bincount(point, score))
    assert included[1] < merged[1] - 0.05  # one coin for all plays of a point has another law
    for below in itertools.product([False, True], repeat=4):
        numbers = included + np.where(below, -1e-9, 1e-9)
        posterior = condition(Nystrom(q, keep=False), data, Numbers(numbers), p)
        S = frozenset(np.flatnonzero(below).tolist())
        chance = math.prod(np.where(below, included, 1.0 - included).tolist())
        assert chance == pytest.approx(law[S], rel=1e-9)
        expected = S or {int(included.argmax())}
        assert set(position(data, posterior.dictionary.rows.Z)) == expected


def test_dictionary_includes_a_point_with_a_play_of_probability_one() -> None:
    data = Data(np.array([[0.1, 0.1], [0.9, 0.9]]), np.ones((2, 1)), np.array([1e-3, 10.0]))
    posterior = condition(Nystrom(1.0), data, Numbers(np.full(2, UNLUCKY)))
    assert position(data, posterior.dictionary.rows.Z) == [0]


def test_theory_oversampling_grows_with_the_number_of_plays() -> None:
    """[BB] Theorem 2: q = 72 C log(4 t / delta), where t also counts repeated plays of a point."""
    C, delta, noise = 2.0, 0.1, 1e4
    data = Data(scattered(4).Z[[0, 1, 2, 1, 3]], np.ones((5, 1)), np.full(5, noise))
    q = 72 * C * math.log(4 * 5 / delta)
    coin = q * KERNEL.diag(data.Z[:1])[0] / noise
    included = np.array([coin, 1 - (1 - coin) ** 2, coin, coin])
    part = Nystrom(TheoryOversampling(delta, 72 * C), keep=False)
    for i in range(4):
        for side in (-1e-9, 1e-9):
            numbers = np.full(4, UNLUCKY)
            numbers[i], numbers[i - 1] = included[i] + side, 0.0
            posterior = condition(part, data, Numbers(numbers))
            assert (i in position(data, posterior.dictionary.rows.Z)) == (side < 0)


def test_dictionary_keeps_probabilities_as_the_noise_grows() -> None:
    """Posterior variances are from before the noise grew, e.g. by a new unit of reward."""
    q, first = 0.3, scattered(8)
    p = condition(Nystrom(q), first, np.random.default_rng(3))
    old = np.minimum(1.0, q * p.predict(first.Z)[1] / first.variance)
    noisier = concatenate(Data(first.Z, first.Y, 4.0 * first.variance), scattered(1, seed=1))
    for i in np.flatnonzero(old < 1):
        for side in (-1e-9, 1e-9):
            numbers = np.full(9, UNLUCKY)
            numbers[8], numbers[i] = 0.0, old[i] + side
            posterior = condition(Nystrom(q, keep=False), noisier, Numbers(numbers), p)
            assert (i in position(noisier, posterior.dictionary.rows.Z)) == (side < 0)


def test_first_dictionary_uses_prior_variances() -> None:
    data = scattered(6)
    probability = np.minimum(1, 0.5 * 1.5 / data.variance)
    for side, size in ((-1e-12, 6), (1e-12, 1)):
        posterior = condition(Nystrom(0.5), data, Numbers(probability + side))
        assert posterior.summary.dictionary_size == size


def test_dictionary_is_drawn_again_only_if_inputs_change() -> None:
    data, numbers = scattered(6), Numbers(np.zeros(6))
    p = condition(Nystrom(), data, numbers)
    assert numbers.calls == 1
    after = condition(Nystrom(), Data(data.Z, data.Y + 1.0, data.variance * 2), numbers, p)
    assert numbers.calls == 1
    assert after.dictionary.rows.Z is p.dictionary.rows.Z
    np.testing.assert_allclose(after.V, np.eye(6) + (p.V - np.eye(6)) / 2)
    fewer = Numbers(np.zeros(5))
    assert condition(Nystrom(), data.rows(1), fewer, p).dictionary.size >= 5
    assert fewer.calls == 1
    again = concatenate(data, data.row(2))  # a repeated visit is a new observation
    condition(Nystrom(), again, numbers, p)
    assert numbers.calls == 2


def test_dictionary_with_keep_appends_new_points() -> None:
    data = scattered(12)
    marks = np.array([1, 0, 1, 0, 0, 1]) * UNLUCKY
    p = condition(Nystrom(1e-6), data.rows(0, 6), Numbers(marks))
    np.testing.assert_array_equal(p.dictionary.rows.Z, data.Z[[1, 3, 4]])
    numbers = np.full(12, UNLUCKY)
    numbers[[0, 3, 9]] = 0.0  # one of these points is in the dictionary already
    grown_posterior = condition(Nystrom(1e-6), data, Numbers(numbers), p)
    np.testing.assert_array_equal(grown_posterior.dictionary.rows.Z, data.Z[[1, 3, 4, 0, 9]])
    new_posterior = condition(Nystrom(1e-6, keep=False), data, Numbers(numbers), p)
    np.testing.assert_array_equal(new_posterior.dictionary.rows.Z, data.Z[[0, 3, 9]])


def test_dictionary_with_keep_is_drawn_again_at_twice_the_expected_size() -> None:
    """The limit is twice the expected size of a new draw, or 16 points if that size is less than 8."""
    data = scattered(30)
    for small, limit in ((1e-6, 16), (3.0, None)):
        p = condition(Nystrom(1e-6), data.rows(0, 14), Numbers(np.zeros(14)))
        variance = Sparse(KERNEL, p.dictionary.rows.Z, *p.data).variance(data.Z)
        expected = np.minimum(1, small * variance / data.variance).sum()
        bound = 2 * expected if limit is None else limit
        assert limit is None or expected < 8
        for new in range(1, 17):
            numbers = np.full(30, UNLUCKY)
            numbers[14 : 14 + new] = 0.0
            certain = small * variance / data.variance >= 1
            new_rows = np.flatnonzero(certain | (numbers == 0))
            added_rows = [i for i in new_rows if i >= 14]
            points = condition(Nystrom(small), data, Numbers(numbers), p).dictionary.rows.Z
            if 14 + len(added_rows) <= bound:
                np.testing.assert_array_equal(points, data.Z[[*range(14), *added_rows]])
            else:
                np.testing.assert_array_equal(points, data.Z[new_rows])


# --- the first dictionary of many inputs

CASES: dict[str, tuple[Kernel, float]] = {
    "noisy": (RBF(0.2), 1.0),
    "rough": (Matern(0.3, nu=0.5), 1.0),
    "scaled": (ConstantKernel(1e4) * Matern(0.5, nu=1.5), 1e5),
}


def first_posterior(kernel: Kernel, Z: Array, variance: Array, seed: int = 0) -> SparsePosterior:
    data, rng = Data(Z, np.ones((len(Z), 1)), variance), np.random.default_rng(seed)
    posterior = Nystrom().condition(Conditioning(kernel, data, rng=rng))
    assert isinstance(posterior, SparsePosterior)
    return posterior


@pytest.mark.parametrize(("kernel", "noise"), CASES.values(), ids=CASES.keys())
def test_first_dictionary_of_many_inputs_has_the_expected_size(
    kernel: Kernel, noise: float
) -> None:
    """The scores are the diagonal of K (K + Sigma)^-1, and a few inputs lie apart."""
    rng = np.random.default_rng(0)
    Z = rng.random((1100, 2))
    Z[:20] += 3.0
    variance = noise * 10 ** rng.uniform(-0.5, 0.5, len(Z))
    expected = np.minimum(1.0, 2.0 * exact_scores(kernel, Z, variance)).sum()
    sizes = [len(first_posterior(kernel, Z, variance, seed).factor) for seed in range(3)]
    assert abs(np.mean(sizes) - expected) < 0.25 * expected + 3 * np.sqrt(expected)


def test_first_dictionary_of_many_inputs_needs_no_full_matrix() -> None:
    largest = 0

    class Watched(RBF):  # type: ignore[misc]
        def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
            nonlocal largest
            largest = max(largest, len(X) * len(X if Y is None else Y))
            return super().__call__(X, Y, eval_gradient)

    u = 20_000
    posterior = first_posterior(Watched(0.3), np.random.default_rng(0).random((u, 2)), np.ones(u))
    assert len(posterior.factor) < 200
    assert largest < 300 * u


def test_first_dictionary_leaves_out_inputs_without_prior_variance() -> None:
    Z = np.zeros((600, 2))
    Z[:, 1] = 1e-200 * np.arange(600)
    Z[7] = 1.0
    posterior = first_posterior(DotProduct(0.0, "fixed"), Z, np.full(600, 0.1))
    assert posterior.dictionary.rows.Z.tolist() == [[1.0, 1.0]]


def exact_scores(kernel: Kernel, Z: Array, variance: Array) -> Array:
    """Return the diagonal of K (K + Sigma)^-1."""
    K = kernel(Z)
    return np.asarray(np.diagonal(np.linalg.solve(K + np.diag(variance), K)))


def test_leverage_dictionary_includes_a_point_with_its_probability() -> None:
    # The ten inputs are uncorrelated: each has the score 1 / (v + 1).
    Z = np.arange(10.0)[:, None]
    variance = np.linspace(0.5, 20.0, 10)
    counts, draws = np.zeros(10), 1500
    rng = np.random.default_rng(5)
    for _ in range(draws):
        counts[leverage_dictionary(RBF(1e-3), Z, variance, 1.5, rng)] += 1
    # Without the input in the dictionary, its score is up to 1 / v; at the last level, 1 / (v + 1).
    low, high = np.minimum(1, 1.5 / (variance + 1)), np.minimum(1, 1.5 / variance)
    error = 4 * np.sqrt(high * (1 - low) / draws)
    assert (counts / draws >= low - error).all()
    assert (counts / draws <= high + error).all()
    assert counts[0] == draws


def test_leverage_scores_from_a_sample_are_close_to_those_from_all_inputs() -> None:
    """Each sampled input stands for 1 / probability inputs."""
    rng = np.random.default_rng(3)
    Z, variance = rng.random((4000, 1)), rng.uniform(20.0, 60.0, 4000)
    inducing, kernel = np.arange(12), RBF(0.3)
    whole = leverage_scores(kernel, Z, variance, inducing, np.arange(4000), np.ones(4000))
    probability = np.where(Z[:, 0] < 0.5, 0.2, 0.05)
    sampled = np.flatnonzero(rng.random(4000) < probability)
    part = leverage_scores(kernel, Z, variance, inducing, sampled, probability[sampled])
    assert part == pytest.approx(whole[sampled], rel=0.3)
    assert part.mean() == pytest.approx(whole[sampled].mean(), rel=0.1)


def test_leverage_dictionary_splits_a_score_among_repeated_inputs() -> None:
    Z = np.repeat(np.random.default_rng(2).random((40, 2)), 30, axis=0)
    variance = np.full(1200, 3.0)
    merged = exact_scores(RBF(0.3), Z[::30], variance[::30] / 30)
    sizes = [
        len(leverage_dictionary(RBF(0.3), Z, variance, 1.0, np.random.default_rng(seed)))
        for seed in range(5)
    ]
    assert np.mean(sizes) == pytest.approx(merged.sum(), rel=0.3)
    posterior = first_posterior(RBF(0.3), Z, variance)
    assert len(np.unique(posterior.dictionary.rows.Z, axis=0)) == len(posterior.factor) <= 40
