from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tvbandits.acquisition.confidence import (
    BBKBProgramWidth,
    BBKBWidth,
    BKBWidth,
    Fixed,
    Logarithmic,
    Situation,
    Srinivas,
    Theory,
    as_confidence,
)
from tvbandits.gp.posteriors.cholesky import Factored
from tvbandits.gp.posteriors.data import Data

SITUATIONS = [Situation(3.5, 9, 50), Situation(0.0, 0, 1), Situation(120.0, 4999, 20640)]


def test_theory_is_theorem_3_1_from_dense_determinants() -> None:
    """sqrt(2 log(2 |Sigma + K|^(1/2) / (delta |Sigma|^(1/2)))) + B, as the theorem writes it."""
    rng = np.random.default_rng(0)
    Z, variance = rng.random((8, 2)), 10 ** rng.uniform(-1, 1, 8)
    posterior = Factored().condition(RBF(0.5), Data(Z, np.zeros((8, 1)), variance))
    K = RBF(0.5)(Z)
    roots = math.sqrt(np.linalg.det(np.diag(variance) + K)) / math.sqrt(np.prod(variance))
    for delta, bound in ((0.05, 1.0), (1.0, 0.0), (1e-6, 7.5)):
        expected = math.sqrt(2 * math.log(2 * roots / delta)) + bound
        given = Theory(delta, bound)(Situation(posterior.log_det_ratio, 8, None))
        assert given == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("delta", [0.05, 1.0, 1e-3])
def test_srinivas_counts_the_next_decision(situation: Situation, delta: float) -> None:
    t = situation.told + 1
    assert situation.candidates is not None
    pi_t = math.pi**2 * t**2 / 6
    expected = math.sqrt(2 * math.log(situation.candidates * pi_t / delta))
    assert Srinivas(delta)(situation) == pytest.approx(expected, rel=1e-12)


def test_srinivas_needs_a_finite_domain() -> None:
    with pytest.raises(ValueError, match="needs a finite domain: give Candidates"):
        Srinivas()(Situation(1.0, 3, None))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_logarithmic(situation: Situation) -> None:
    expected = 0.8 * math.log(4 * (situation.told + 1))
    assert Logarithmic()(situation) == pytest.approx(expected, rel=1e-12)
    assert Logarithmic(square_root=True)(situation) == pytest.approx(math.sqrt(expected))
    other = Logarithmic(2.0, 30.0)(situation)
    assert other == pytest.approx(2 * math.log(30 * (situation.told + 1)))


def test_logarithmic_is_never_negative() -> None:
    assert Logarithmic(c2=0.1)(Situation(0.0, 0, None)) == 0.0
    assert Logarithmic(c2=0.1, square_root=True)(Situation(0.0, 0, None)) == 0.0
    assert Logarithmic(c2=0.1)(Situation(0.0, 20, None)) > 0.0


@pytest.mark.parametrize("noise_variance", [0.01, 1.0, 30.0])
@pytest.mark.parametrize(("delta", "F", "accuracy"), [(0.05, 1.0, 0.5), (0.5, 7.0, 0.2)])
def test_bkb_is_theorem_2_in_its_own_units(
    noise_variance: float, delta: float, F: float, accuracy: float
) -> None:
    """[B] works with sigma~^2 / lambda = variance / lambda and beta~ in units of sqrt(lambda)."""
    lambda_, xi, t = noise_variance, math.sqrt(noise_variance), 40
    variances = np.random.default_rng(0).random(t)
    alpha = (1 + accuracy) / (1 - accuracy)
    theirs = (
        2 * xi * math.sqrt(alpha * math.log(t) * (variances / lambda_).sum() + math.log(1 / delta))
        + (1 + 1 / math.sqrt(1 - accuracy)) * math.sqrt(lambda_) * F
    )
    # Its bound is beta~ sigma~ with sigma~ = deviation / sqrt(lambda).
    situation = Situation(0.0, t, None, effective_dimension=lambda: (variances / lambda_).sum())
    assert BKBWidth(delta, F, accuracy)(situation) == pytest.approx(theirs / math.sqrt(lambda_))


def test_bbkb_is_theorem_2() -> None:
    shares = np.random.default_rng(0).random(30) * 2
    spent = np.log(1 + 3 * shares).sum()
    expected = 2 * math.sqrt(spent + math.log(1 / 0.01)) + (1 + math.sqrt(2)) * 1.5
    situation = Situation(7.0, 30, None, spent=spent, effective_dimension=lambda: 99.0)
    assert BBKBWidth(0.01, 1.5)(situation) == pytest.approx(expected, rel=1e-12)


def test_budgeted_widths_before_any_reward() -> None:
    start = Situation(0.0, 0, 10)
    for width in (BKBWidth(0.1, 2.0), BBKBWidth(0.1, 2.0)):
        expected = 2 * math.sqrt(math.log(10)) + (1 + math.sqrt(2)) * 2.0
        assert width(start) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("value", [2, 2.0, "2", "2.0", np.int64(2), np.float32(2.0)])
def test_numbers_are_constant_widths(value: Any) -> None:
    assert as_confidence(value) == Fixed(2.0)


def test_words_and_rules_are_widths_too() -> None:
    assert as_confidence("theory") == Theory(0.05, 1.0)
    rule = Srinivas(0.2)
    assert as_confidence(rule) is rule
    assert as_confidence(lambda _: 3.0)(SITUATIONS[0]) == 3.0


BAD: list[tuple[Any, str]] = [
    (lambda: Theory(delta=0.0), "delta must lie in (0, 1], got 0.0"),
    (lambda: Theory(delta=1.5), "delta must lie in (0, 1], got 1.5"),
    (lambda: Theory(norm_bound=-1.0), "norm_bound must be finite and not negative, got -1.0"),
    (lambda: Srinivas(math.nan), "delta must lie in (0, 1], got nan"),
    (lambda: Logarithmic(c1=-0.1), "c1 must be finite and not negative, got -0.1"),
    (lambda: Logarithmic(c2=0.0), "c2 must be positive and finite, got 0.0"),
    (lambda: Logarithmic(c2=math.inf), "c2 must be positive and finite, got inf"),
    (lambda: BKBWidth(delta=0.0), "delta must lie in (0, 1], got 0.0"),
    (lambda: BKBWidth(norm_bound=-1.0), "norm_bound must be finite and not negative, got -1.0"),
    (lambda: BKBWidth(accuracy=1.0), "accuracy must lie in (0, 1), got 1.0"),
    (lambda: BKBWidth(accuracy=0.0), "accuracy must lie in (0, 1), got 0.0"),
    (lambda: BBKBWidth(delta=2.0), "delta must lie in (0, 1], got 2.0"),
    (lambda: BBKBWidth(norm_bound=math.nan), "norm_bound must be finite and not negative, got nan"),
    (lambda: Fixed(-1.0), "value must lie in [0, 1e+50], got -1.0"),
    (lambda: Fixed(math.inf), "value must lie in [0, 1e+50], got inf"),
    (lambda: as_confidence("wide"), "confidence must be \"theory\" or a number, got 'wide'"),
    (lambda: as_confidence("nan"), "confidence must lie in [0, 1e+50], got nan"),
    (lambda: as_confidence(-2), "confidence must lie in [0, 1e+50], got -2"),
    (
        lambda: as_confidence(None),  # type: ignore[arg-type]
        'confidence must be "theory", a number or a Confidence, got None',
    ),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_parameters_are_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_the_width_of_the_program_is_below_that_of_the_theorem() -> None:
    situation = Situation(
        log_det_ratio=1.0, told=50, candidates=9, spent=30.0, effective_dimension=lambda: 4.0
    )
    beta = BBKBProgramWidth(delta=0.02, norm_bound=1.5)(situation)
    assert beta == pytest.approx(1.5 + math.sqrt(math.log(50) * 4.0 + math.log(50)))
    assert beta < BKBWidth(delta=0.02, norm_bound=1.5)(situation)
    assert as_confidence("BBKB-program") == BBKBProgramWidth()
