"""Properties that the posterior of every rule must have.

The rules are collected from the package: every class with a method `condition`. A rule without an entry
in MAKERS is constructed without arguments, and must be exact under every kernel.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Kernel, Matern

from tests.helpers.discovery import classes_with
from tests.helpers.refusals import assert_refused
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
    """A way to construct a rule, and the guarantees of that rule.

    Attributes
    ----------
    make : callable
        Returns a rule, given its class.
    exact : bool
        Whether the posterior is exact if all observations are at points of a small domain.
    kernels : tuple of str
        Names of the kernels that the rule supports.
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
    if not cls.self_learning  # other rules do not use the given kernel
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


def oracle_of(posterior: Any, data: Data) -> Dense | Sparse:
    """Return dense algebra for an exact posterior, or for a sparse one on its dictionary."""
    dictionary = getattr(posterior, "dictionary", None)
    if dictionary is None or posterior.filter is not None:
        return Dense(posterior.kernel, *data)
    return Sparse(posterior.kernel, dictionary.rows.Z, *data)


_SPREAD = np.random.default_rng(0).uniform(-0.04, 0.04, (12, 2))
# The points are so far apart that no dictionary leaves one of them out.
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
        arguments = self.kernel, data, self.grid, now, previous, np.random.default_rng(3)
        return self.rule.condition(Conditioning(*arguments))

    def prediction_inputs(self) -> list[Array]:
        """Return inputs on and off the domain, at present, later and earlier."""
        off = np.random.default_rng(1).random((5, 2))
        return [self.at(NOW), self.at(NOW, off), self.at(NOW + 6.0), self.at(LAST, off)]

    def assert_same(self, one: Any, other: Any) -> None:
        """Check that two posteriors agree."""
        for Z in self.prediction_inputs():
            self.assert_close(one.predict(Z), other.predict(Z))
        self.assert_close(one.predict(self.grid), other.predict(self.grid))
        assert one.summary.log_det_ratio == pytest.approx(other.summary.log_det_ratio, rel=1e-7)
        # The first entry includes differences between values at one input; some rules average these.
        np.testing.assert_allclose(
            one.summary.products[:, 1], other.summary.products[:, 1], rtol=1e-6
        )

    def assert_close(self, one: tuple[Array, Array], other: tuple[Array, Array]) -> None:
        """Check means to 1e-6 of the prior deviation, variances to 1e-6 of the prior variance."""
        for a, b, size in zip(one, other, (self.prior**0.5, self.prior), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6 * size)


# --- rules ----------------------------------------------------------------------------------------


def test_makers_name_rules_and_kernels_that_exist() -> None:
    assert {"Exact", "Nystrom", "NystromFilter", "StateSpace"} <= set(RULES)
    assert set(MAKERS) <= set(RULES), "MAKERS names a rule that does not exist"
    named = [name for makers in MAKERS.values() for m in makers.values() for name in m.kernels]
    assert set(named) <= set(KERNELS)


# --- predictions ----------------------------------------------------------------------------------


@every_case_with_an_oracle
def test_posterior_matches_dense_algebra(case: Any) -> None:
    setting = Setting(case)
    posterior = setting.condition(setting.data)
    oracle = oracle_of(posterior, setting.data)
    for Z in setting.prediction_inputs():
        setting.assert_close(posterior.predict(Z), (oracle.mean(Z), oracle.variance(Z)))
    present, future = setting.at(NOW), setting.at(NOW + 6.0, POINTS[:5])
    for Z1, Z2 in ((present, present), (present, future), (future, present)):
        np.testing.assert_allclose(
            posterior.covariance(Z1, Z2), oracle.covariance(Z1, Z2), atol=1e-6 * setting.prior
        )
    assert posterior.summary.log_det_ratio == pytest.approx(oracle.log_det_ratio(), rel=1e-6)
    np.testing.assert_allclose(posterior.summary.products[:, 1], oracle.products()[:, 1], rtol=1e-6)
    # Some rules average values at one input; only the first entry depends on their differences.
    merged_oracle = oracle_of(posterior, Groups.of(setting.data.Z).merge(setting.data))
    products = [each.products()[0, 0] for each in (oracle, merged_oracle)]
    assert np.isclose(posterior.summary.products[0, 0], products, rtol=1e-6).any()


@every_case
def test_posterior_variance_is_at_most_the_prior_and_agrees_with_covariance(case: Any) -> None:
    setting = Setting(case)
    posterior = setting.condition(setting.data)
    for Z in setting.prediction_inputs():
        variance, prior = posterior.predict(Z)[1], setting.kernel.diag(Z)
        assert (variance >= 0.0).all()
        assert (variance <= prior * (1 + 1e-9)).all()
    # The data have lowered some variance.
    assert (posterior.predict(setting.grid)[1] < 0.95 * setting.prior).any()
    assert posterior.summary.log_det_ratio > 0.0
    assert 0.0 < posterior.summary.effective_dimension() < 24.0

    # Predictions on the grid are those at its points, and covariances agree with variances.
    setting.assert_close(posterior.predict(setting.grid), posterior.predict(setting.at(NOW)))
    Z = np.concatenate(setting.prediction_inputs()[:3])
    covariance = posterior.covariance(Z, Z)
    close = {"rtol": 0, "atol": 1e-7 * setting.prior}
    np.testing.assert_allclose(np.diagonal(covariance), posterior.predict(Z)[1], **close)
    np.testing.assert_allclose(covariance, covariance.T, **close)
    np.testing.assert_allclose(posterior.covariance(Z[:7], Z[5:]), covariance[:7, 5:], **close)
    assert np.linalg.eigvalsh(covariance)[0] > -1e-7 * setting.prior


@every_case
def test_posterior_without_observations_is_the_prior(case: Any) -> None:
    setting = Setting(case)
    posterior = setting.condition(setting.data.rows(0, 0))
    for Z in setting.prediction_inputs():
        means, variances = posterior.predict(Z)
        np.testing.assert_array_equal(means, np.zeros((len(Z), 2)))
        np.testing.assert_allclose(variances, setting.kernel.diag(Z), rtol=1e-12)
    np.testing.assert_allclose(
        posterior.predict(setting.grid)[1], setting.kernel.diag(setting.at(NOW))
    )
    assert posterior.summary.log_det_ratio == 0.0
    assert posterior.summary.effective_dimension() == pytest.approx(0.0, abs=1e-12)


# --- updates --------------------------------------------------------------------------------------


@every_exact_case
def test_condition_ignores_the_order_of_observations(case: Any) -> None:
    setting = Setting(case)
    order = np.random.default_rng(5).permutation(24)
    shuffled = Data(*(part[order] for part in setting.data))
    setting.assert_same(setting.condition(shuffled), setting.condition(setting.data))


def _change_data(data: Data, change: str) -> Data:
    if change == "the oldest forgotten":
        return data.rows(5)
    if change == "other weights":
        return Data(data.Z, 0.5 * data.Y, data.variance * np.linspace(3.0, 1.0, 24))
    return data


@every_exact_case
@pytest.mark.parametrize("change", ["one by one", "the oldest forgotten", "other weights"])
def test_condition_from_previous_posterior_equals_a_new_start(case: Any, change: str) -> None:
    setting = Setting(case)
    previous = None
    for n in range(1, 24) if change == "one by one" else [24]:
        previous = setting.condition(setting.data.rows(0, n), previous, now=LAST)
    after = _change_data(setting.data, change)
    setting.assert_same(setting.condition(after, previous), setting.condition(after))


@every_case
def test_condition_and_fantasize_leave_the_previous_posterior_unchanged(case: Any) -> None:
    setting = Setting(case)
    posterior = setting.condition(setting.data.rows(0, 17))

    def all_predictions() -> list[Array]:
        predictions = [part for Z in setting.prediction_inputs() for part in posterior.predict(Z)]
        return [
            part.copy()
            for part in (*predictions, *posterior.predict(setting.grid), posterior.summary.products)
        ]

    before = all_predictions()
    for change in ("appended", "the oldest forgotten", "other weights"):
        after = setting.condition(_change_data(setting.data, change), posterior)
        after.fantasize(setting.at(NOW)[3:4], 0.1, setting.grid).predict(setting.grid)
    posterior.fantasize(setting.at(NOW)[3:4], 0.1, setting.grid).predict(setting.grid)
    assert_alike(all_predictions(), before, rtol=0.0)


@every_case
def test_posterior_predicts_the_same_after_pickling(case: Any) -> None:
    setting = Setting(case)
    posterior = setting.condition(setting.data)
    again = pickle.loads(pickle.dumps(posterior))
    for Z in setting.prediction_inputs():
        assert_alike(posterior.predict(Z), again.predict(Z), rtol=0.0)
    assert_alike(posterior.predict(setting.grid), again.predict(setting.grid), rtol=0.0)


@every_case_with_an_oracle
def test_fantasize_lowers_variance_as_a_real_observation_does(case: Any) -> None:
    setting = Setting(case)
    posterior = setting.condition(setting.data)
    z, noise = setting.at(NOW)[4:5], 0.2 * setting.prior
    extended_data = Data(
        np.vstack([setting.data.Z, z]),
        np.vstack([setting.data.Y, [[0.0, 0.0]]]),
        np.append(setting.data.variance, noise),
    )
    oracle, fantasy = (
        oracle_of(posterior, extended_data),
        posterior.fantasize(z, noise, setting.grid),
    )
    future = setting.at(NOW + 6.0)
    for variance, Z in (
        (fantasy.predict(setting.grid)[1], setting.at(NOW)),
        (fantasy.predict(future)[1], future),
    ):
        np.testing.assert_allclose(variance, oracle.variance(Z), atol=1e-6 * setting.prior)


@every_case
def test_fantasize_of_several_points_equals_one_after_the_other(case: Any) -> None:
    setting = Setting(case)
    posterior = one_by_one = setting.condition(setting.data)
    Z, noise = setting.at(NOW)[[3, 7, 3, 1, 7, 3]], np.array([0.2, 0.05, 0.3, 1.0, 0.4, 0.1])
    for row in range(len(Z)):
        one_by_one = one_by_one.fantasize(Z[row : row + 1], float(noise[row]), setting.grid)
    together = posterior.fantasize(Z, noise, setting.grid)
    for result, expected in (
        (together.predict(setting.grid)[1], one_by_one.predict(setting.grid)[1]),
        (together.predict(setting.at(NOW))[1], one_by_one.predict(setting.at(NOW))[1]),
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-7, atol=1e-11)
    before, after = posterior.predict(setting.grid)[1], together.predict(setting.grid)[1]
    assert (after <= before + 1e-9 * setting.prior).all()
    assert (after[[1, 3, 7]] < before[[1, 3, 7]]).all()


# --- numbers --------------------------------------------------------------------------------------


@every_case
def test_posterior_averages_duplicates_under_tiny_noise(case: Any) -> None:
    """Contradictory values at one input are averaged, and nothing is NaN."""
    setting = Setting(case)
    Z = np.repeat(setting.at(LAST), 3, axis=0)
    Y = np.column_stack([np.random.default_rng(2).standard_normal(36), np.ones(36)])
    for noise in (1e-12, 1e-6):
        posterior = setting.condition(Data(Z, Y, np.full(36, noise)))
        results = [
            *posterior.predict(setting.grid),
            posterior.summary.products,
            posterior.summary.log_det_ratio,
        ]
        for place in setting.prediction_inputs():
            results += [*posterior.predict(place), posterior.covariance(place, place)]
        results += [
            posterior.fantasize(setting.at(NOW)[:1], 1e-12, setting.grid).predict(setting.grid)[1]
        ]
        assert all(np.isfinite(part).all() for part in results)
        means, variances = posterior.predict(setting.at(LAST))
        np.testing.assert_allclose(means[:, 0], Y[:, 0].reshape(12, 3).mean(axis=1), atol=1e-3)
        assert (variances <= 1e-5 * setting.prior).all()


@every_case
def test_posterior_scales_with_the_unit_of_reward(case: Any) -> None:
    one, other = Setting(case), Setting(case, scale=1e6)
    posterior, scaled_posterior = one.condition(one.data), other.condition(other.data)
    for prediction, scaled_prediction in zip(
        [posterior.predict(one.grid), *(posterior.predict(Z) for Z in one.prediction_inputs())],
        [
            scaled_posterior.predict(other.grid),
            *(scaled_posterior.predict(Z) for Z in other.prediction_inputs()),
        ],
        strict=True,
    ):
        np.testing.assert_allclose(1e6 * prediction[0], scaled_prediction[0], rtol=1e-6, atol=1e-3)
        np.testing.assert_allclose(1e12 * prediction[1], scaled_prediction[1], rtol=1e-6, atol=1e2)
    assert posterior.summary.log_det_ratio == pytest.approx(
        scaled_posterior.summary.log_det_ratio, rel=1e-7
    )


# --- samples


@every_case_with_an_oracle
def test_sample_has_the_posterior_covariance(case: Any) -> None:
    setting = Setting(case)
    posterior, count, present = setting.condition(setting.data), 20_000, setting.at(NOW)
    samples = posterior.sample(setting.grid, count, np.random.default_rng(2))
    if isinstance(posterior, SparsePosterior) and setting.grid.space_time:
        # The dictionary is of the past: its residual at present is drawn independently at each point.
        np.testing.assert_allclose(
            samples.var(axis=0), posterior.predict(setting.grid)[1], rtol=0.05
        )
        return
    covariance = oracle_of(posterior, setting.data).covariance(present, present)
    variance = np.diag(covariance)
    errors = np.sqrt((np.outer(variance, variance) + covariance**2) / count)
    assert (np.abs(samples.mean(axis=0)) < 4.5 * np.sqrt(variance / count)).all()
    assert (np.abs(samples.T @ samples / count - covariance) < 4.5 * errors).all()
    assert (np.abs(samples.T @ samples / count - 1.1 * covariance) > 6.0 * errors).any()


@every_exact_case
def test_posterior_without_candidates_refuses_a_grid(case: Any) -> None:
    setting = Setting(case)
    rule = StateSpace(anchors=POINTS) if case[0] == "StateSpace" else setting.rule
    posterior = rule.condition(Conditioning(setting.kernel, setting.data, now=NOW))
    for ask in (
        lambda: posterior.predict(setting.grid),
        lambda: posterior.sample(setting.grid, 3, np.random.default_rng(0)),
    ):
        assert_refused(ValueError, "candidates", ask)
