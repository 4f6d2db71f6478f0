"""time-GP-UCB, mk-GP-UCB and BOBA: kernels, widths and acquisitions against their formulas."""

from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from tests.helpers.players import decision_deviation
from tests.helpers.refusals import assert_refused
from tvbandits import Box, Candidates, Options, policies
from tvbandits.policies.rivals.time_as_input import DesiredOutcome, constant_width, time_as_input

LINE = Candidates(np.linspace(0, 1, 12)[:, None])


def test_time_gp_ucb_has_time_as_an_input_of_its_kernel() -> None:
    Z = np.random.default_rng(0).random((9, 3)) * [1.0, 4.0, 100.0]
    space = Matern([0.3, 1.2], nu=2.5)(Z[:, :2])
    time = Matern(30.0, nu=2.5)(Z[:, 2:])
    np.testing.assert_allclose(time_as_input(Box([[0, 1], [0, 4]]), 100.0)(Z), space * time)
    bandit = policies.time_gp_ucb(LINE, noise_variance=0.01, span=50.0)
    for t in range(1, 30):
        x = bandit.ask(float(t))
        bandit.tell(x, np.sin(6 * x[:, 0]), float(t))
    assert bandit.state.model.fit is not None
    assert bandit.state.model.kernel != bandit.recipe.kernel


def test_mk_gp_ucb_takes_the_width_of_the_best_constants() -> None:
    for epsilon, beta in ((0.1, 2.12), (0.01, 4.34), (0.001, 6.36)):
        assert constant_width(epsilon) == pytest.approx(beta**0.5, abs=0.1)
    assert constant_width(0.1) == pytest.approx(1.46)
    assert constant_width(0.999) >= 0.0
    bandit = policies.mk_gp_ucb(LINE, kernel=RBF(0.2), noise_variance=0.01, forgetting_rate=0.01)
    bandit.ask()
    assert bandit.info.beta == pytest.approx(1.99)
    twin = policies.tv_gp_ucb(
        LINE, kernel=RBF(0.2), noise_variance=0.01, forgetting_rate=0.01, beta=1.99
    )
    for t in range(1, 15):
        x = bandit.ask(float(t)) if t > 1 else bandit.pending
        np.testing.assert_array_equal(x, twin.ask(float(t)))
        for each in (bandit, twin):
            each.tell(x, np.sin(6 * x[:, 0] + 0.1 * t), float(t))
    assert_refused(
        ValueError,
        "forgetting_rate",
        policies.mk_gp_ucb,
        LINE,
        kernel=RBF(0.2),
        noise_variance=0.01,
        forgetting_rate=1.0,
    )


def test_time_gp_ucb_and_mk_gp_ucb_maximize_the_dense_bound() -> None:
    """The policies are GP-UCB with time as an input, and TV-GP-UCB with the width of [MK]."""
    rivals: Any = {
        "time": policies.time_gp_ucb(
            LINE, noise_variance=0.01, span=50.0, options=Options(mean=0.0)
        ),
        "mk": policies.mk_gp_ucb(
            LINE,
            kernel=RBF(0.2),
            noise_variance=0.01,
            forgetting_rate=0.01,
            options=Options(mean=0.0),
        ),
    }
    for name, bandit in rivals.items():
        Z, y = np.zeros((0, 2)), np.zeros(0)
        for t in range(1, 31):
            x, kernel = bandit.ask(float(t)), bandit.state.model.kernel
            inputs = np.column_stack([LINE.X, np.full(len(LINE), float(t))])
            k, G = kernel(inputs, Z) if t > 1 else np.zeros((12, 0)), np.zeros((0, 0))
            if t > 1:
                G = kernel(Z) + 0.01 * np.eye(t - 1)
            mean = k @ np.linalg.solve(G, y)
            variance = kernel.diag(inputs) - np.einsum("ij,ji->i", k, np.linalg.solve(G, k.T))
            bound = mean + (2.0 if name == "time" else 1.99) * np.sqrt(variance)
            assert bound[LINE.index(x)[0]] >= bound.max() - 1e-6
            Z, y = np.vstack([Z, [x[0, 0], t]]), np.append(y, np.sin(6 * x[0, 0] + 0.1 * t))
            bandit.tell(x, y[-1:], float(t))


def plain_boba(m: Any, sd: Any, o: float, s2: float, beta: float) -> Any:
    first = 0.5 * np.log(1 + sd**2 / s2)
    second = np.log(np.sqrt(s2) / sd) + (sd**2 + (m - o) ** 2) / (2 * s2) - 0.5
    return -beta * first + second


@pytest.mark.parametrize("minimize", [False, True])
def test_boba_minimizes_its_formula(minimize: bool) -> None:
    sign = -1.0 if minimize else 1.0
    bandit = policies.boba(
        LINE, noise_variance=0.04, outcome=sign, exploration=0.7, minimize=minimize
    )
    rng = np.random.default_rng(0)
    for t in range(1, 20):
        if t > 1:
            m, sd = (
                bandit.predict(LINE.X, float(t))[0],
                decision_deviation(bandit, LINE.X, float(t)),
            )
            G = plain_boba(sign * m, sd, 1.0, 0.04, 0.7)
        x = bandit.ask(float(t))
        if t > 1:
            assert G[LINE.index(x)[0]] == pytest.approx(G.min(), rel=1e-6, abs=1e-9)
        y = sign * np.sin(6 * x[:, 0] + 0.1 * t) + 0.2 * rng.standard_normal(1)
        bandit.tell(x, y, float(t))


def test_boba_refuses_an_invalid_outcome() -> None:
    assert_refused(ValueError, "outcome must lie in", DesiredOutcome, float("nan"))
    assert len(policies.boba(LINE, noise_variance=1.0, outcome=0.0).ask(n=3)) == 3
