"""Experts, plans and parts that fail: the error names the cause, and the bandit is unchanged."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.players import KERNEL, LINE
from tests.helpers.recipes import build
from tests.helpers.refusals import assert_refused
from tests.oracles.loops import play_without_times
from tests.oracles.states import fingerprint
from tvbandits import Answers, Arms, Bandit, Candidates, ExpertError, Options, count, policies, rate
from tvbandits.bandit.options import PosteriorName
from tvbandits.bandit.policy import POSTERIORS
from tvbandits.experts import CallableExpert
from tvbandits.forgetting.aging import DiscardAbove
from tvbandits.queries import KDPP, Pool, QueryPlan
from tvbandits.validation import Array, Index

NAN = math.nan


def reward(x: Array, t: float) -> Array:
    return np.asarray(np.sin(x[:, 0] + 0.1 * t))


def answer(X: Array, t: float) -> Answers:
    return Answers(reward(X, t), 0.01)


@dataclass
class UnreliableExpert:
    """An expert that answers well, or as the function `mood` if one is set."""

    mood: Callable[[Array, float], Any] | None = None

    def query(self, X: Array, t: float) -> Any:
        return answer(X, t) if self.mood is None else self.mood(X, t)


def make(policy: str = "gp-ucb", domain: Any = LINE, expert: Any = None, **options: Any) -> Bandit:
    if policy == "sparq-gp-ucb":
        options["expert"] = expert or UnreliableExpert()
    recipe: Any = policies.sparq_gp_ucb if policy == "sparq-gp-ucb" else policies.gp_ucb
    values = {"kernel": KERNEL, "noise_variance": 0.01, "seed": 3, **options}
    bandit: Bandit = build(recipe, domain, **values)
    return bandit


def play(bandit: Bandit, steps: int) -> Array:
    return play_without_times(bandit, reward, steps)


def assert_unharmed(
    bandit: Bandit, twin: Bandit, error: type[Exception], match: str, call: Callable[[], Any]
) -> None:
    """Check that a call fails as expected, and that the bandit continues as its twin."""
    state, before = bandit.state, fingerprint(bandit.state)
    assert_refused(error, match, call)
    assert bandit.state is state
    assert fingerprint(bandit.state) == before
    np.testing.assert_array_equal(play(bandit, 4), play(twin, 4))
    assert fingerprint(bandit.state) == fingerprint(twin.state)


X = [[2.5]]
Call = Callable[[Bandit], Any]


# --- experts --------------------------------------------------------------------------------------


def fail_with(error: Exception) -> Callable[[Array, float], Any]:
    def mood(_X: Array, _t: float) -> Any:
        raise error

    return mood


BAD_EXPERTS: dict[str, tuple[Callable[[Array, float], Any], str]] = {
    "down, with warnings as errors": (
        fail_with(RuntimeError("line is dead")),
        r"the expert cannot be reached at t = 7 \(RuntimeError: line is dead\)",
    ),
    "none": (lambda X, t: None, "the expert must return Answers, got NoneType"),  # noqa: ARG005
    "too few": (lambda X, t: answer(X[1:], t), r"expert must answer (\d) points, got \d values"),
    "infinite": (
        lambda X, t: Answers(reward(X, t) / 0.0, 0.01),
        r"ValueError: values must be at most 1e\+50 in size, got -?inf",
    ),
    "variance 0": (lambda X, t: Answers(reward(X, t), 0.0), r"variance must be positive, got 0\.0"),
    "variance of one": (
        lambda X, t: Answers(reward(X, t), np.full(1, 0.01)),
        r"variance must have shape \(\d,\), got \(1,\)",
    ),
    "cost negative": (lambda X, t: Answers(reward(X, t), 1.0, -1.0), "cost must be finite and not"),
    "a function's number": (
        CallableExpert(lambda _X, _t: 3.0, 0.01).query,
        r"must return \d numbers, got shape \(\)",
    ),
}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("bad", BAD_EXPERTS)
def test_tell_names_an_expert_that_fails_and_changes_nothing(bad: str) -> None:
    mood, match = BAD_EXPERTS[bad]
    expert = UnreliableExpert()
    bandit, twin = make("sparq-gp-ucb", expert=expert), make("sparq-gp-ucb")
    for each in (bandit, twin):
        play(each, 6)
    x = bandit.ask()
    np.testing.assert_array_equal(twin.ask(), x)

    def tell() -> None:
        expert.mood = mood
        try:
            bandit.tell(x, reward(x, 7.0))
        finally:
            expert.mood = None

    # The pending time stays, so that the same `tell` can be repeated.
    assert_unharmed(bandit, twin, ExpertError, match, tell)


# --- plans, thresholds and kernels that fail during a call ----------------------------------------


@dataclass
class Switchable:
    """A budget or a threshold that can be made to return a wrong value."""

    good: float
    bad: Any = None

    def __call__(self, count: int, *_: int) -> Any:
        return min(count, self.good) if self.bad is None else self.bad


@dataclass
class RaisingPlan(QueryPlan):
    """A plan that fails after it has drawn random numbers and changed its arguments."""

    bad: Any = None

    def choose(self, pool: Pool, rng: np.random.Generator) -> Index:
        if self.bad is not None:
            rng.random(100)
            pool.covariance()[:] = NAN
            raise RuntimeError("no plan")
        return np.arange(1)


class FragileKernel(RBF):  # type: ignore[misc]
    """A kernel that can be made to fail."""

    bad: Any = None

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        if self.bad is not None:
            raise MemoryError("too large")
        return super().__call__(X, Y, eval_gradient)


def tell(bandit: Bandit) -> None:
    bandit.tell(X, [1.0])


FAILING: dict[str, tuple[Any, str, Any, Call, type[Exception], str]] = {
    **{
        f"budget of {bad}": (
            lambda: Switchable(3),
            "queries_per_step",
            bad,
            tell,
            ValueError,
            f"budget must be a whole number of at least 0, got {bad}",
        )
        for bad in (2.5, -1, NAN, math.inf)
    },
    "plan": (RaisingPlan, "queries_per_step", True, tell, RuntimeError, "no plan"),
    "threshold": (
        lambda: Switchable(0.02),
        "threshold",
        NAN,
        lambda b: b.ask(),
        ValueError,
        r"threshold\(6\) must be .*nan",
    ),
    "kernel": (
        lambda: FragileKernel(1.5),
        "kernel",
        True,
        lambda b: b.ask(),
        MemoryError,
        "too large",
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_bandit_changes_nothing_if_a_part_fails(name: str) -> None:
    make_part, option, bad, call, error, match = FAILING[name]
    part, other = make_part(), make_part()

    def make_with(value: Any) -> Bandit:
        if option == "kernel":
            return policies.gp_ucb(LINE, kernel=value, noise_variance=0.01, seed=3)
        if option == "threshold":
            return Bandit(replace(make("sparq-gp-ucb").recipe, aging=DiscardAbove(value)))
        return make("sparq-gp-ucb", **{option: KDPP(value) if "budget" in name else value})

    bandit, twin = make_with(part), make_with(other)
    for each in (bandit, twin):
        play(each, 6)

    def failing_call() -> None:
        part.bad = bad
        try:
            call(bandit)
        finally:
            part.bad = None

    assert_unharmed(bandit, twin, error, match, failing_call)


# --- options and counts --------------------------------------------------------------------------


def test_options_refuse_an_unknown_posterior() -> None:
    for bad in ("no such", "Exact", ""):
        assert_refused(ValueError, rf'posterior must be "exact".*{bad!r}', Options, posterior=bad)


def test_options_accept_the_posteriors_that_policies_know() -> None:
    assert get_args(PosteriorName) == tuple(POSTERIORS)
    for name in POSTERIORS:
        assert Options(posterior=name).posterior == name


def test_rate_and_count_refuse_lists_of_different_lengths() -> None:
    for make, names in ((rate, "successes and trials"), (count, "events and exposure")):
        for one, other in (([1], [100, 90]), ([1, 2], [100])):
            message = f"{names} must be of one length, got {len(one)} and {len(other)}"
            assert_refused(ValueError, message, make, one, other)
        for bad in (1e-300, -1.0):
            assert_refused(ValueError, "must be 0, or from 1e-50", make, bad, 5)
        assert make([1, 2], 100).values.tolist() == [0.01, 0.02]
        assert make(1, [100, 50]).values.tolist() == [0.01, 0.02]
        assert make(1, 100).values.tolist() == make([1], [100]).values.tolist() == [0.01]


def test_ask_on_arms_without_context_refuses_one() -> None:
    bandit = make(domain=Arms(["a", "b"]))
    assert_refused(
        ValueError,
        "unknown context 'outside'; there is none",
        bandit.ask,
        1,
        context={"outside": 3},
    )


def test_at_context_names_ragged_values() -> None:
    for domain in (
        Candidates([[0.0, 5.0]], context=[1]),
        Candidates([[0.0]], context={"a": (0, 1)}),
    ):
        assert_refused(ValueError, "values must be numeric", domain.at_context, [[1.0], [1.0, 2.0]])


def test_tell_names_ragged_rewards() -> None:
    bandit = make()
    for bad in ([[1.0], [1.0, 2.0]], [[[1.0]], 2.0]):
        assert_refused(ValueError, "y must be numeric", bandit.tell, [[2.5], [5.0]], bad)
    assert_refused(
        ValueError, r"y must have shape \(2,\), got \(\)", bandit.tell, [[2.5], [5.0]], 1.0
    )


# --- parts that do not fit together ---------------------------------------------------------------


def test_tv_gp_ucb_refuses_a_kernel_of_another_dimension() -> None:
    """Other errors of kernels are tested in tests/gp/kernels."""
    make = policies.tv_gp_ucb
    assert_refused(
        ValueError,
        "has 3 length scales",
        make,
        LINE,
        kernel=RBF([1.0] * 3),
        noise_variance=0.01,
        forgetting_rate=0.1,
    )


def test_tv_gp_ucb_refuses_initial_points_with_a_given_rate() -> None:
    assert_refused(
        ValueError,
        r"initial_points .*forgetting_rate=0\.1",
        policies.tv_gp_ucb,
        LINE,
        kernel=KERNEL,
        noise_variance=0.01,
        forgetting_rate=0.1,
        initial_points=9,
    )
