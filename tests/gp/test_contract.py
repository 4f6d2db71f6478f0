"""What every posterior keeps to, whatever rule makes it.

The rules are found in the package: any class that can `condition` on data. One that MAKERS says nothing
about is made without arguments and held to be exact under every kernel.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Kernel, Matern

from tests.helpers.discovery import classes_with
from tests.helpers.refusals import refused
from tests.oracles.dense import Dense, assert_alike
from tests.oracles.sparse import Sparse
from tvbandits import StateSpace
from tvbandits.gp.kernel_matrix import inputs
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.gp.posterior import CandidateGrid, Conditioning, Data, Groups
from tvbandits.gp.sparse import SparsePosterior
from tvbandits.validation import Array

KERNELS: dict[str, Kernel] = {
    "smooth": 2.0 * RBF([0.35, 0.6]),
    "rough": Matern(0.5, nu=0.5) + 0.3 * DotProduct(1.0),
    "drift": ConstantKernel(1.5) * OnSpace(Matern(0.4, nu=1.5)) * Drift(0.1),
    "sum of terms": OnSpace(RBF(0.4))
    + ConstantKernel(0.4) * OnTime(Matern(6.0, nu=0.5))
    + ConstantKernel(1.3) * OnSpace(RBF(0.4)) * OnTime(Matern(8.0, nu=1.5)),
    "smooth in time": OnSpace(Matern(0.4, nu=1.5)) * OnTime(RBF(4.0)),
}


@dataclass(frozen=True)
class Maker:
    """How to make a rule, and what it promises.

    Attributes
    ----------
    make : callable
        The class -> a rule.
    exact : bool
        Whether it is the exact posterior where all observations are at points of a small domain.
    kernels : tuple of str
        Those it is for.
    """

    make: Callable[[Any], Any]
    exact: bool = True
    kernels: tuple[str, ...] = tuple(KERNELS)


MAKERS: dict[str, dict[str, Maker]] = {
    "Nystrom": {
        "every point": Maker(
            lambda cls: cls(1e12, tolerance=1e-12),
            kernels=("smooth", "rough", "drift", "smooth in time"),
        ),
        "few points": Maker(
            lambda cls: cls(0.5), exact=False, kernels=("smooth", "drift", "smooth in time")
        ),
        "few fresh points": Maker(
            lambda cls: cls(0.5, keep=False), exact=False, kernels=("smooth",)
        ),
    },
    "NystromFilter": {
        "every point": Maker(lambda cls: cls(1e12, tolerance=1e-12), kernels=("drift",)),
        "few points": Maker(lambda cls: cls(0.5), exact=False, kernels=("drift",)),
    },
    "StateSpace": {"": Maker(lambda cls: cls(), kernels=("drift", "sum of terms"))},
}
RULES = {
    name: cls
    for name, cls in classes_with("condition", "conditioning").items()
    if not cls.self_learning  # what has a unit of its own is no process of `kernel`
}
CASES = [
    (rule, variant, kernel)
    for rule in RULES
    for variant, maker in MAKERS.get(rule, {"": Maker(lambda cls: cls())}).items()
    for kernel in maker.kernels
]
EXACT = [c for c in CASES if c[0] not in MAKERS or MAKERS[c[0]][c[1]].exact]
WITH_ORACLE = EXACT + [c for c in CASES if c not in EXACT and c[0] == "Nystrom" and c[2] != "drift"]


def _over(cases: list[tuple[str, str, str]]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=["-".join(filter(None, c)) for c in cases])


every_case, every_exact_case = _over(CASES), _over(EXACT)
every_case_with_an_oracle = _over(WITH_ORACLE)


def oracle_of(made: Any, data: Data) -> Dense | Sparse:
    """Dense algebra for the exact posterior, or for the sparse one on its dictionary."""
    dictionary = getattr(made, "dictionary", None)
    if dictionary is None or made.filter is not None:
        return Dense(made.kernel, *data)
    return Sparse(made.kernel, dictionary.rows.Z, *data)


_SPREAD = np.random.default_rng(0).uniform(-0.04, 0.04, (12, 2))
# So far apart that none of them is left out of any features.
POINTS = (
    np.stack(np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 1, 3)), -1).reshape(-1, 2) + _SPREAD
)

LAST, NOW = 20.0, 21.5


class Setting:
    """A rule, a kernel, and observations at points of a domain."""

    def __init__(self, case: tuple[str, str, str], scale: float = 1.0) -> None:
        rule, variant, kernel = case
        maker = MAKERS.get(rule, {"": Maker(lambda cls: cls())})[variant]
        try:
            self.rule = maker.make(RULES[rule])
        except TypeError as error:
            pytest.fail(f"{rule} needs a maker in MAKERS of this file: {error}")
        self.kernel = (
            KERNELS[kernel] if scale == 1.0 else ConstantKernel(scale**2) * KERNELS[kernel]
        )
        self.grid = CandidateGrid(self.kernel, POINTS)
        rng = np.random.default_rng(7)
        # Every point once, some of them again, and again at the same time.
        rows = np.r_[rng.permutation(12), rng.integers(12, size=10)]
        rows = np.r_[rows, rows[-2:]]
        t = np.r_[np.sort(rng.uniform(0, LAST, 21)), LAST, LAST, LAST]
        t[-4:-2] = t[-2:] = LAST
        Y = np.column_stack([rng.standard_normal(24), np.ones(24)])
        variance = 10 ** rng.uniform(-2, 0.5, 24)
        self.data = Data(inputs(self.kernel, POINTS[rows], t), scale * Y, scale**2 * variance)
        self.prior = float(self.kernel.diag(self.at(NOW)).max())

    def at(self, t: float, points: Array = POINTS) -> Array:
        return inputs(self.kernel, points, np.full(len(points), t))

    def condition(self, data: Data, previous: Any = None, now: float = NOW) -> Any:
        given = self.kernel, data, self.grid, now, previous, np.random.default_rng(3)
        return self.rule.condition(Conditioning(*given))

    def places(self) -> list[Array]:
        """Inputs that every posterior can speak about: on the domain and off it, now and later."""
        off = np.random.default_rng(1).random((5, 2))
        return [self.at(NOW), self.at(NOW, off), self.at(NOW + 6.0), self.at(LAST, off)]

    def assert_same(self, one: Any, other: Any) -> None:
        """Two posteriors that tell the same."""
        for Z in self.places():
            self.assert_close(one.predict(Z), other.predict(Z))
        self.assert_close(one.predict(self.grid), other.predict(self.grid))
        assert one.summary.log_det_ratio == pytest.approx(other.summary.log_det_ratio, rel=1e-7)
        # The first entry holds what values at one input differ by, which some rules average away.
        np.testing.assert_allclose(
            one.summary.products[:, 1], other.summary.products[:, 1], rtol=1e-6
        )

    def assert_close(self, one: tuple[Array, Array], other: tuple[Array, Array]) -> None:
        """Means to 1e-6 of the prior deviation, variances to 1e-6 of the prior variance."""
        for a, b, size in zip(one, other, (self.prior**0.5, self.prior), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6 * size)


# --- who is tested --------------------------------------------------------------------------------


def test_rules_are_found() -> None:
    assert {"Exact", "Nystrom", "NystromFilter", "StateSpace"} <= set(RULES)
    assert set(MAKERS) <= set(RULES), "a maker of a rule that is no more"
    named = [name for makers in MAKERS.values() for m in makers.values() for name in m.kernels]
    assert set(named) <= set(KERNELS)


# --- what it says ---------------------------------------------------------------------------------


@every_case_with_an_oracle
def test_it_is_what_dense_algebra_says(case: Any) -> None:
    setting = Setting(case)
    made = setting.condition(setting.data)
    oracle = oracle_of(made, setting.data)
    for Z in setting.places():
        setting.assert_close(made.predict(Z), (oracle.mean(Z), oracle.variance(Z)))
    here, later = setting.at(NOW), setting.at(NOW + 6.0, POINTS[:5])
    for Z1, Z2 in ((here, here), (here, later), (later, here)):
        np.testing.assert_allclose(
            made.covariance(Z1, Z2), oracle.covariance(Z1, Z2), atol=1e-6 * setting.prior
        )
    assert made.summary.log_det_ratio == pytest.approx(oracle.log_det_ratio(), rel=1e-6)
    np.testing.assert_allclose(made.summary.products[:, 1], oracle.products()[:, 1], rtol=1e-6)
    # Values at one input are averaged by some rules; what they differ by is in the first entry alone.
    averaged = oracle_of(made, Groups.of(setting.data.Z).merge(setting.data))
    wholes = [each.products()[0, 0] for each in (oracle, averaged)]
    assert np.isclose(made.summary.products[0, 0], wholes, rtol=1e-6).any()


@every_case
def test_what_it_says_agrees_and_is_below_the_prior(case: Any) -> None:
    setting = Setting(case)
    made = setting.condition(setting.data)
    for Z in setting.places():
        variance, prior = made.predict(Z)[1], setting.kernel.diag(Z)
        assert (variance >= 0.0).all()
        assert (variance <= prior * (1 + 1e-9)).all()
    assert (made.predict(setting.grid)[1] < 0.95 * setting.prior).any()  # something was learned
    assert made.summary.log_det_ratio > 0.0
    assert 0.0 < made.summary.effective_dimension() < 24.0

    # The domain is like any other place, and covariances agree with variances.
    setting.assert_close(made.predict(setting.grid), made.predict(setting.at(NOW)))
    Z = np.concatenate(setting.places()[:3])
    covariance = made.covariance(Z, Z)
    close = {"rtol": 0, "atol": 1e-7 * setting.prior}
    np.testing.assert_allclose(np.diagonal(covariance), made.predict(Z)[1], **close)
    np.testing.assert_allclose(covariance, covariance.T, **close)
    np.testing.assert_allclose(made.covariance(Z[:7], Z[5:]), covariance[:7, 5:], **close)
    assert np.linalg.eigvalsh(covariance)[0] > -1e-7 * setting.prior


@every_case
def test_before_any_observation_it_is_the_prior(case: Any) -> None:
    setting = Setting(case)
    made = setting.condition(setting.data.rows(0, 0))
    for Z in setting.places():
        means, variances = made.predict(Z)
        np.testing.assert_array_equal(means, np.zeros((len(Z), 2)))
        np.testing.assert_allclose(variances, setting.kernel.diag(Z), rtol=1e-12)
    np.testing.assert_allclose(made.predict(setting.grid)[1], setting.kernel.diag(setting.at(NOW)))
    assert made.summary.log_det_ratio == 0.0
    assert made.summary.effective_dimension() == pytest.approx(0.0, abs=1e-12)


# --- how it changes -------------------------------------------------------------------------------


@every_exact_case
def test_the_order_of_observations_does_not_matter(case: Any) -> None:
    setting = Setting(case)
    order = np.random.default_rng(5).permutation(24)
    shuffled = Data(*(part[order] for part in setting.data))
    setting.assert_same(setting.condition(shuffled), setting.condition(setting.data))


def _next(data: Data, what: str) -> Data:
    if what == "the oldest forgotten":
        return data.rows(5)
    if what == "other weights":
        return Data(data.Z, 0.5 * data.Y, data.variance * np.linspace(3.0, 1.0, 24))
    return data


@every_exact_case
@pytest.mark.parametrize("what", ["one by one", "the oldest forgotten", "other weights"])
def test_going_on_is_starting_again(case: Any, what: str) -> None:
    setting = Setting(case)
    previous = None
    for n in range(1, 24) if what == "one by one" else [24]:
        previous = setting.condition(setting.data.rows(0, n), previous, now=LAST)
    after = _next(setting.data, what)
    setting.assert_same(setting.condition(after, previous), setting.condition(after))


@every_case
def test_going_on_leaves_the_posterior_before_as_it_was(case: Any) -> None:
    setting = Setting(case)
    made = setting.condition(setting.data.rows(0, 17))

    def everything() -> list[Array]:
        said = [part for Z in setting.places() for part in made.predict(Z)]
        return [part.copy() for part in (*said, *made.predict(setting.grid), made.summary.products)]

    before = everything()
    for what in ("appended", "the oldest forgotten", "other weights"):
        after = setting.condition(_next(setting.data, what), made)
        after.fantasize(setting.at(NOW)[3:4], 0.1, setting.grid).predict(setting.grid)
    made.fantasize(setting.at(NOW)[3:4], 0.1, setting.grid).predict(setting.grid)
    assert_alike(everything(), before, rtol=0.0)


@every_case
def test_pickled_it_is_the_same(case: Any) -> None:
    setting = Setting(case)
    made = setting.condition(setting.data)
    again = pickle.loads(pickle.dumps(made))
    for Z in setting.places():
        assert_alike(made.predict(Z), again.predict(Z), rtol=0.0)
    assert_alike(made.predict(setting.grid), again.predict(setting.grid), rtol=0.0)


@every_case_with_an_oracle
def test_an_imagined_observation_shrinks_as_a_real_one(case: Any) -> None:
    setting = Setting(case)
    made = setting.condition(setting.data)
    z, noise = setting.at(NOW)[4:5], 0.2 * setting.prior
    more = Data(
        np.vstack([setting.data.Z, z]),
        np.vstack([setting.data.Y, [[0.0, 0.0]]]),
        np.append(setting.data.variance, noise),
    )
    oracle, shrunk = oracle_of(made, more), made.fantasize(z, noise, setting.grid)
    later = setting.at(NOW + 6.0)
    for variance, Z in (
        (shrunk.predict(setting.grid)[1], setting.at(NOW)),
        (shrunk.predict(later)[1], later),
    ):
        np.testing.assert_allclose(variance, oracle.variance(Z), atol=1e-6 * setting.prior)


@every_case
def test_several_without_their_values_are_one_after_the_other(case: Any) -> None:
    setting = Setting(case)
    made = one_by_one = setting.condition(setting.data)
    Z, noise = setting.at(NOW)[[3, 7, 3, 1, 7, 3]], np.array([0.2, 0.05, 0.3, 1.0, 0.4, 0.1])
    for row in range(len(Z)):
        one_by_one = one_by_one.fantasize(Z[row : row + 1], float(noise[row]), setting.grid)
    together = made.fantasize(Z, noise, setting.grid)
    for found, expected in (
        (together.predict(setting.grid)[1], one_by_one.predict(setting.grid)[1]),
        (together.predict(setting.at(NOW))[1], one_by_one.predict(setting.at(NOW))[1]),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-11)
    before, after = made.predict(setting.grid)[1], together.predict(setting.grid)[1]
    assert (after <= before + 1e-9 * setting.prior).all()
    assert (after[[1, 3, 7]] < before[[1, 3, 7]]).all()


# --- numbers --------------------------------------------------------------------------------------


@every_case
def test_hardly_any_noise_and_duplicates(case: Any) -> None:
    """Values at one input that disagree far beyond their noise average, and nothing is NaN."""
    setting = Setting(case)
    Z = np.repeat(setting.at(LAST), 3, axis=0)
    Y = np.column_stack([np.random.default_rng(2).standard_normal(36), np.ones(36)])
    for noise in (1e-12, 1e-6):
        made = setting.condition(Data(Z, Y, np.full(36, noise)))
        said = [*made.predict(setting.grid), made.summary.products, made.summary.log_det_ratio]
        for place in setting.places():
            said += [*made.predict(place), made.covariance(place, place)]
        said += [made.fantasize(setting.at(NOW)[:1], 1e-12, setting.grid).predict(setting.grid)[1]]
        assert all(np.isfinite(part).all() for part in said)
        means, variances = made.predict(setting.at(LAST))
        np.testing.assert_allclose(means[:, 0], Y[:, 0].reshape(12, 3).mean(axis=1), atol=1e-3)
        assert (variances <= 1e-5 * setting.prior).all()


@every_case
def test_another_unit_of_reward_is_another_unit_and_nothing_else(case: Any) -> None:
    one, other = Setting(case), Setting(case, scale=1e6)
    made, scaled = one.condition(one.data), other.condition(other.data)
    for mine, its in zip(
        [made.predict(one.grid), *(made.predict(Z) for Z in one.places())],
        [scaled.predict(other.grid), *(scaled.predict(Z) for Z in other.places())],
        strict=True,
    ):
        np.testing.assert_allclose(1e6 * mine[0], its[0], rtol=1e-6, atol=1e-3)
        np.testing.assert_allclose(1e12 * mine[1], its[1], rtol=1e-6, atol=1e2)
    assert made.summary.log_det_ratio == pytest.approx(scaled.summary.log_det_ratio, rel=1e-7)


# --- samples


@every_case_with_an_oracle
def test_samples_have_the_covariance(case: Any) -> None:
    setting = Setting(case)
    made, count, here = setting.condition(setting.data), 20_000, setting.at(NOW)
    drawn = made.sample(setting.grid, count, np.random.default_rng(2))
    if isinstance(made, SparsePosterior) and setting.grid.space_time:
        # The dictionary is of the past: what it leaves out now is drawn for each point on its own.
        np.testing.assert_allclose(drawn.var(axis=0), made.predict(setting.grid)[1], rtol=0.05)
        return
    covariance = oracle_of(made, setting.data).covariance(here, here)
    variance = np.diag(covariance)
    errors = np.sqrt((np.outer(variance, variance) + covariance**2) / count)
    assert (np.abs(drawn.mean(axis=0)) < 4.5 * np.sqrt(variance / count)).all()
    assert (np.abs(drawn.T @ drawn / count - covariance) < 4.5 * errors).all()
    assert (np.abs(drawn.T @ drawn / count - 1.1 * covariance) > 6.0 * errors).any()


@every_exact_case
def test_without_candidates_it_answers_for_none(case: Any) -> None:
    setting = Setting(case)
    rule = StateSpace(anchors=POINTS) if case[0] == "StateSpace" else setting.rule
    made = rule.condition(Conditioning(setting.kernel, setting.data, now=NOW))
    for ask in (
        lambda: made.predict(setting.grid),
        lambda: made.sample(setting.grid, 3, np.random.default_rng(0)),
    ):
        refused(ValueError, "candidates", ask)
