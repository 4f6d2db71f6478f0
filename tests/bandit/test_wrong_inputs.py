"""Whatever is wrong: an error that says so, and the bandit is as it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from tests.oracles.loops import play_without_times
from tests.oracles.states import fingerprint
from tvbandits import Answers, Bandit, Box, Candidates, ExpertError, Recipe, policies
from tvbandits.acquisition.batch_rules import Batching, One
from tvbandits.acquisition.confidence import Fixed, Logarithmic, Srinivas, Theory
from tvbandits.core.arrays import Array
from tvbandits.experts import CallableExpert
from tvbandits.forgetting.aging import Window
from tvbandits.gp.kernels.space_time import Drift, OnSpace, OnTime
from tvbandits.queries.asking import Asking
from tvbandits.queries.plans import KDPP
from tvbandits.queries.pool import Choice, Pool

LINE = Candidates(np.linspace(0.0, 10.0, 41)[:, None])
INTERVAL = Box([[0.0, 10.0]], samples=32, starts=1)
KERNEL = RBF(1.5)
NAN, INF = math.nan, math.inf


def reward(x: Array, t: float) -> Array:
    return np.asarray(np.sin(x[:, 0] + 0.1 * t))


def answer(X: Array, t: float) -> Answers:
    return Answers(reward(X, t), 0.01)


@dataclass
class Moody:
    """An expert that answers well, or by `mood` where one is set."""

    mood: Callable[[Array, float], Any] | None = None

    def query(self, X: Array, t: float) -> Any:
        return answer(X, t) if self.mood is None else self.mood(X, t)


def make(policy: str = "gp-ucb", domain: Any = LINE, expert: Any = None, **options: Any) -> Bandit:
    if policy == "sparq-gp-ucb":
        return policies.sparq_gp_ucb(
            domain, KERNEL, 0.01, expert=expert or Moody(), seed=3, **options
        )
    return policies.gp_ucb(domain, KERNEL, 0.01, seed=3, **options)


def play(bandit: Bandit, steps: int) -> Array:
    return play_without_times(bandit, reward, steps)


def assert_unharmed(
    bandit: Bandit, twin: Bandit, error: type[Exception], match: str, call: Callable[[], Any]
) -> None:
    """`call` fails as it should, and the bandit goes on as its twin that was never bothered."""
    state, kept = bandit.state, fingerprint(bandit.state)
    with pytest.raises(error, match=match):
        call()
    assert bandit.state is state
    assert fingerprint(bandit.state) == kept
    np.testing.assert_array_equal(play(bandit, 4), play(twin, 4))
    assert fingerprint(bandit.state) == fingerprint(twin.state)


# --- what is asked and told -----------------------------------------------------------------------

X = [[2.5]]
XX = [[2.5], [5.0]]
Call = Callable[[Bandit], Any]
WRONG: dict[str, tuple[Call, str]] = {
    "reward infinite": (
        lambda b: b.tell(XX, [0, INF]),
        r"y must be at most 1e\+50 in size, got inf at position 1",
    ),
    "reward missing": (lambda b: b.tell(X, None), "y must "),
    "reward text": (lambda b: b.tell(X, ["high"]), r"y must be numeric, got \['high'\]"),
    "reward complex": (lambda b: b.tell(X, [1j]), "y must be numeric"),
    "rewards ragged": (lambda b: b.tell(X, [[1.0], [1.0, 2.0]]), "y must be numeric"),
    "rewards too many": (
        lambda b: b.tell(X, [1.0, 2.0]),
        r"y must have shape \(1,\), got \(2,\)",
    ),
    "rewards too few": (lambda b: b.tell(XX, [1.0]), r"y must have shape \(2,\), got \(1,\)"),
    "rewards none": (lambda b: b.tell(X, []), r"y must have shape \(1,\), got \(0,\)"),
    "one reward for two": (lambda b: b.tell(XX, 1.0), r"y must have shape \(2,\), got \(\)"),
    "rewards a matrix": (lambda b: b.tell(X, [[1.0]]), r"y must have shape \(1,\), got \(1, 1\)"),
    "point of two numbers": (
        lambda b: b.tell([[2.5, 5.0]], [1.0]),
        r"X must have shape \(n, 1\), got \(1, 2\)",
    ),
    "points flat": (lambda b: b.tell([2.5, 5], [1, 1]), r"X must have shape \(n, 1\), got \(2,\)"),
    "points a number": (lambda b: b.tell(2.5, [1.0]), r"X must have shape \(n, 1\), got \(\)"),
    "points a block": (
        lambda b: b.tell(np.zeros((1, 1, 1)), [1.0]),
        r"X must have shape \(n, 1\), got \(1, 1, 1\)",
    ),
    "points none": (
        lambda b: b.tell(np.empty((0, 1)), []),
        r"X must have at least one point, got shape \(0, 1\)",
    ),
    "point NaN": (lambda b: b.tell([[NAN]], [1.0]), r"X must be finite, got \[nan\] in row 0"),
    "point text": (lambda b: b.tell([["here"]], [1.0]), r"X must be numeric, got \[\['here'\]\]"),
    "point outside": (lambda b: b.tell([[2.5], [10.2]], [1, 1]), r"X must .*\[10\.2\] in row 1"),
    "variance zero": (
        lambda b: b.tell(X, [1.0], variance=0.0),
        r"variance must be positive, got 0\.0 at position 0",
    ),
    "variance negative": (
        lambda b: b.tell(XX, [1, 1], variance=[0.1, -0.2]),
        r"variance must be positive, got -0\.2 at position 1",
    ),
    "variance NaN": (lambda b: b.tell(X, [1.0], variance=NAN), "variance must be finite, got nan"),
    "variance infinite": (lambda b: b.tell(X, 1.0, variance=INF), "variance must be finite"),
    "variance text": (lambda b: b.tell(X, 1.0, variance="low"), "variance must be numeric"),
    "variances too many": (
        lambda b: b.tell(X, [1.0], variance=[0.1, 0.1]),
        r"variance must have shape \(1,\), got \(2,\)",
    ),
    "time NaN": (lambda b: b.tell(X, [1.0], t=NAN), "t must be finite, got nan at position 0"),
    "time infinite": (lambda b: b.tell(XX, [1, 1], [3, -INF]), "t must be finite, got -inf"),
    "time text": (lambda b: b.tell(X, [1.0], t="noon"), "t must be numeric, got 'noon'"),
    "times too many": (
        lambda b: b.tell(X, [1.0], t=[1, 2]),
        r"t must have shape \(1,\), got \(2,\)",
    ),
    "ask for the past": (
        lambda b: b.ask(5.5),
        r"cannot ask for t = 5\.5: a reward at t = 6\.0 is told",
    ),
    "ask for NaN": (lambda b: b.ask(NAN), "t must be a finite number, got nan"),
    "ask for ever": (lambda b: b.ask(INF), "t must be a finite number, got inf"),
    "ask for text": (lambda b: b.ask("noon"), "t must be a finite number, got 'noon'"),  # type: ignore[arg-type]
    "predict two numbers": (
        lambda b: b.predict([[1.0, 2.0]]),
        r"X must have shape \(n, 1\), got \(1, 2\)",
    ),
    "predict NaN": (lambda b: b.predict([[NAN]]), "X must be finite"),
    "predict at NaN": (lambda b: b.predict(X, NAN), "t must be a finite number, got nan"),
    "recommend at NaN": (lambda b: b.recommend(NAN), "t must be a finite number, got nan"),
}


@pytest.mark.parametrize("moment", ["after a tell", "after an ask"])
@pytest.mark.parametrize("policy", ["gp-ucb", "sparq-gp-ucb"])
@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_input(wrong: str, policy: str, moment: str) -> None:
    call, match = WRONG[wrong]
    bandit, twin = make(policy), make(policy)
    for each in (bandit, twin):
        play(each, 6)
        if moment == "after an ask":
            each.ask(8.25)
    assert_unharmed(bandit, twin, ValueError, match, lambda: call(bandit))


@pytest.mark.parametrize("wrong", ["reward infinite", "point outside", "variance zero"])
def test_wrong_input_at_the_very_start_and_in_a_box(wrong: str) -> None:
    call, match = WRONG[wrong]
    for domain, steps in ((LINE, 0), (INTERVAL, 0), (INTERVAL, 3)):
        bandit, twin = make(domain=domain), make(domain=domain)
        for each in (bandit, twin):
            play(each, steps)
        assert_unharmed(bandit, twin, ValueError, match, lambda: call(bandit))  # noqa: B023


def test_the_error_names_what_would_have_been_right() -> None:
    with pytest.raises(ValueError, match=r"nearest candidate is \[10\.0\]"):
        make().tell([[10.2]], [1.0])
    with pytest.raises(ValueError, match=r"inside the box \[\[0\.0, 10\.0\]\], got \[10\.2\]"):
        make(domain=INTERVAL).tell([[10.2]], [1.0])


# --- experts --------------------------------------------------------------------------------------


def failing(error: Exception) -> Callable[[Array, float], Any]:
    def mood(_X: Array, _t: float) -> Any:
        raise error

    return mood


def by(function: Callable[[Array, float], Any]) -> Callable[[Array, float], Any]:
    """The mood of a lifted function."""
    return CallableExpert(function, 0.01).query


def late_nan(X: Array, t: float) -> Array:
    values = reward(X, t)
    values[1] = NAN
    return values


BAD_EXPERTS: dict[str, tuple[Callable[[Array, float], Any], str]] = {
    "down, with warnings as errors": (
        failing(RuntimeError("line is dead")),
        r"the expert cannot be reached at t = 7 \(RuntimeError: line is dead\)",
    ),
    "raises a KeyError": (failing(KeyError("x")), "the expert failed on .*: KeyError: 'x'"),
    "none": (lambda X, t: None, "the expert must return Answers, got NoneType"),  # noqa: ARG005
    "an array": (lambda X, t: reward(X, t), "the expert must return Answers, got ndarray"),
    "too few": (
        lambda X, t: answer(X[1:], t),
        r"the expert must answer (\d) points, got \d values",
    ),
    "too many": (
        lambda X, t: answer(np.vstack([X, X]), t),
        r"the expert must answer \d points, got \d+ values",
    ),
    "infinite": (
        lambda X, t: Answers(reward(X, t) / 0.0, 0.01),
        "ValueError: values must be finite, or NaN for no answer; got -?inf",
    ),
    "variance negative": (
        lambda X, t: Answers(reward(X, t), -0.01),
        r"variance must be positive and finite, got -0\.01",
    ),
    "variance zero": (
        lambda X, t: Answers(reward(X, t), 0.0),
        r"variance must be positive and finite, got 0\.0",
    ),
    "variance NaN": (
        lambda X, t: Answers(reward(X, t), NAN),
        "variance must be positive and finite, got nan",
    ),
    "variance of one": (
        lambda X, t: Answers(reward(X, t), np.full(1, 0.01)),
        r"variance must have shape \(\d,\), got \(1,\)",
    ),
    "cost negative": (lambda X, t: Answers(reward(X, t), 1.0, -1.0), "cost must be finite and not"),
    "cost NaN": (lambda X, t: Answers(reward(X, t), 1.0, NAN), "cost must be finite and not"),
    "a function's NaN": (by(late_nan), r"returned NaN at \[.*\], t = 7\.0; nan_means_no_answer"),
    "a function's number": (by(lambda X, t: 3.0), r"must return \d numbers, got shape \(\)"),  # noqa: ARG005
    "a function's text": (by(lambda X, t: ["a"] * len(X)), "must be numeric, got .*texts"),  # noqa: ARG005
}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("bad", BAD_EXPERTS)
def test_a_bad_expert(bad: str) -> None:
    mood, match = BAD_EXPERTS[bad]
    expert = Moody()
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

    # Among what stays is the time asked for: the same tell may simply be tried again.
    assert_unharmed(bandit, twin, ExpertError, match, tell)


@pytest.mark.parametrize(
    "cause", [RuntimeError("line is dead"), TypeError("line is dead")], ids=repr
)
def test_the_cause_of_a_failing_expert_is_kept(cause: Exception) -> None:
    bandit = make("sparq-gp-ucb", expert=Moody(failing(cause)))
    bandit.tell(X, [1.0])  # log 1 = 0 queries
    with pytest.raises(ExpertError, match="line is dead") as caught:
        bandit.tell(X, [1.0])
    assert caught.value.__cause__ is cause


def test_an_interrupt_while_the_expert_thinks_changes_nothing() -> None:
    def interrupted(_X: Array, _t: float) -> Any:
        raise KeyboardInterrupt("enough")

    expert = Moody()
    bandit = make("sparq-gp-ucb", expert=expert)
    play(bandit, 3)
    state, expert.mood = bandit.state, interrupted
    with pytest.raises(KeyboardInterrupt, match="enough"):
        bandit.tell(X, [1.0])
    assert bandit.state is state


@pytest.mark.parametrize("through", ["answers", "function"])
def test_refusals_are_no_error(through: str) -> None:
    def silence(X: Array, _t: float) -> Array:
        return np.full(len(X), NAN)

    expert: Any = (
        Moody(lambda X, t: Answers(silence(X, t), NAN))
        if through == "answers"
        else CallableExpert(silence, 0.01, nan_means_no_answer=True)
    )
    bandit, alone = make("sparq-gp-ucb", expert=expert), make("sparq-gp-ucb")
    assert alone.recipe.asking.expert is not None
    asked = 0
    for step in range(1, 12):
        info = bandit.tell(LINE.X[step], [math.sin(step)])
        asked += info.queries.asked
        assert info.queries.asked == min(math.ceil(6 * math.log(step)), step)
        assert (info.queries.answered, info.queries.refused) == (0, info.queries.asked)
    assert (info.queries.total_asked, info.queries.total_answered, info.queries.total_refused) == (
        asked,
        0,
        asked,
    )
    assert len(bandit.state.answers) == 0
    assert bandit.ask().shape == (1, 1)
    assert bandit.info.posterior.in_use == 2  # of the rewards, the newest and the one of age 1


# --- plans, thresholds and kernels that fail on the way -------------------------------------------


@dataclass
class Switchable:
    """A schedule that can go wrong."""

    value: Any = None

    def __call__(self, told: int) -> Any:
        return min(told, 3) if self.value is None else self.value


@pytest.mark.parametrize("value", [2.5, -1, NAN, INF])
def test_a_bad_schedule(value: float) -> None:
    schedule = Switchable()
    bandit, twin = (make("sparq-gp-ucb", queries=KDPP(each)) for each in (schedule, Switchable()))
    for each in (bandit, twin):
        play(each, 6)

    def tell() -> None:
        schedule.value = value
        try:
            bandit.tell(X, [1.0])
        finally:
            schedule.value = None

    match = rf"schedule\(7\) must be a whole number of at least 0, got {value}"
    assert_unharmed(bandit, twin, ValueError, match, tell)


@dataclass
class Raising:
    """A plan that fails, after it used up some randomness and spoiled what it could."""

    fails: bool = False

    def choose(self, pool: Pool, rng: np.random.Generator) -> Choice:
        if self.fails:
            rng.random(100)
            pool.covariance()[:] = NAN
            raise RuntimeError("no plan")
        return Choice(np.arange(1))


def test_a_failing_plan() -> None:
    plan = Raising()
    bandit, twin = make("sparq-gp-ucb", queries=plan), make("sparq-gp-ucb", queries=Raising())
    for each in (bandit, twin):
        play(each, 6)

    def tell() -> None:
        plan.fails = True
        try:
            bandit.tell(X, [1.0])
        finally:
            plan.fails = False

    assert_unharmed(bandit, twin, RuntimeError, "no plan", tell)


@dataclass
class Threshold:
    """g(t), or NaN."""

    value: float = field(default=0.02)

    def __call__(self, _told: int) -> float:
        return self.value


def test_a_threshold_that_is_nan() -> None:
    threshold = Threshold()
    bandit, twin = (make("sparq-gp-ucb", threshold=each) for each in (threshold, Threshold()))
    for each in (bandit, twin):
        play(each, 6)

    def ask() -> None:
        threshold.value = NAN
        try:
            bandit.ask()
        finally:
            threshold.value = 0.02

    assert_unharmed(bandit, twin, ValueError, r"threshold\(6\) is NaN", ask)


class Fragile(RBF):  # type: ignore[misc]
    """A kernel that can be made to fail."""

    fails = False

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        if self.fails:
            raise MemoryError("too large")
        return super().__call__(X, Y, eval_gradient)


def test_a_kernel_that_fails_on_the_way() -> None:
    kernel = Fragile(1.5)
    bandit, twin = (policies.gp_ucb(LINE, each, 0.01, seed=3) for each in (kernel, Fragile(1.5)))
    for each in (bandit, twin):
        play(each, 6)

    def ask() -> None:
        kernel.fails = True
        try:
            bandit.ask()
        finally:
            kernel.fails = False

    assert_unharmed(bandit, twin, MemoryError, "too large", ask)


# --- parts that do not fit together ---------------------------------------------------------------


class Indefinite(RBF):  # type: ignore[misc]
    """No covariance: negative at a distance."""

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        return 2 * super().__call__(X, Y, eval_gradient) - 1.0


SQUARE = Candidates(np.random.default_rng(0).random((30, 2)))
PARTS: dict[str, tuple[Callable[[], Any], str]] = {
    "no candidates": (
        lambda: Candidates(np.empty((0, 1))),
        r"candidates must have a row and a column, got shape \(0, 1\)",
    ),
    "kernel not PSD": (
        lambda: policies.gp_ucb(LINE, Indefinite(1.0), 0.01),
        "kernel must be positive semi-definite, but the eigenvalues",
    ),
    "kernel of three lengths": (
        lambda: policies.gp_ucb(SQUARE, RBF([1.0, 1.0, 1.0]), 0.01),
        "has 3 length scales, but sees points of dimension 2",
    ),
    "kernel of three lengths, tv": (
        lambda: policies.tv_gp_ucb(SQUARE, RBF([1.0, 1.0, 1.0]), 0.01, epsilon=0.1),
        "has 3 length scales, but sees points of dimension 2",
    ),
    "kernel a number": (
        lambda: policies.gp_ucb(LINE, 1.0, 0.01),
        r"kernel must be a scikit-learn kernel, got 1\.0",
    ),
    "kernel of noise": (
        lambda: policies.gp_ucb(LINE, KERNEL + WhiteKernel(0.1), 0.01),
        "contains a WhiteKernel: give the noise through noise_variance",
    ),
    "kernel without variance": (
        lambda: policies.gp_ucb(LINE, DotProduct(0.0) * ConstantKernel(0.0), 0.01),
        "kernel must have a positive diagonal",
    ),
    "kernel nested": (
        lambda: policies.gp_ucb(LINE, OnSpace(OnTime(KERNEL)), 0.01),
        "a space-time kernel is nested in another",
    ),
    "noise variance zero": (
        lambda: policies.gp_ucb(LINE, KERNEL, 0.0),
        r"noise_variance must be positive and finite, got 0\.0",
    ),
    "noise variance negative": (
        lambda: policies.sparq_gp_ucb(LINE, KERNEL, -0.5, expert=Moody()),
        r"noise_variance must be positive and finite, got -0\.5",
    ),
    "noise variance NaN": (lambda: policies.gp_ucb(LINE, KERNEL, NAN), "got nan"),
    "noise variance text": (
        lambda: policies.gp_ucb(LINE, KERNEL, "low"),  # type: ignore[arg-type]
        "noise_variance must be positive and finite, got 'low'",
    ),
    "mean text": (
        lambda: policies.gp_ucb(LINE, KERNEL, 0.01, mean="median"),  # type: ignore[arg-type]
        "mean must be \"online\" or a finite number .*, got 'median'",
    ),
    "mean NaN": (
        lambda: policies.gp_ucb(LINE, KERNEL, 0.01, mean=NAN),
        'mean must be "online" or a finite number',
    ),
    "lead negative": (
        lambda: Recipe(LINE, KERNEL, 0.01, lead=-1.0),
        r"lead must be finite and not negative, got -1\.0",
    ),
    "expert without plan": (
        lambda: Asking(None, Moody()),  # type: ignore[arg-type]
        r"plan must be a query plan such as KDPP\(\); got None",
    ),
    "expert instead of what asks it": (
        lambda: Recipe(LINE, KERNEL, 0.01, asking=Moody()),  # type: ignore[arg-type]
        r"asking must be Asking\(...\) or None, got Moody",
    ),
    "expert without query": (
        lambda: policies.sparq_gp_ucb(LINE, KERNEL, 0.01, expert=reward),  # type: ignore[arg-type]
        r"expert must be an object with a method query\(X, t\); got <function reward",
    ),
    "confidence text": (
        lambda: policies.gp_ucb(LINE, KERNEL, 0.01, confidence="teory"),
        "confidence must be \"theory\" or a number, got 'teory'",
    ),
    "confidence negative": (
        lambda: policies.gp_ucb(LINE, KERNEL, 0.01, confidence=-1.0),
        r"confidence must lie in \[0, 1e\+50\], got -1\.0",
    ),
    "confidence NaN": (lambda: Fixed(NAN), r"value must lie in \[0, 1e\+50\], got nan"),
    "delta zero": (lambda: Theory(delta=0.0), r"delta must lie in \(0, 1\], got 0\.0"),
    "norm negative": (lambda: Theory(norm_bound=-1.0), "norm_bound must be finite and not neg"),
    "c2 zero": (lambda: Logarithmic(c2=0.0), r"c2 must be positive.* got 0\.0"),
    "width of no finite domain": (
        lambda: policies.gp_ucb(INTERVAL, KERNEL, 0.01, confidence=Srinivas()).ask(),
        "this width needs a finite domain: give Candidates, or another width",
    ),
    "window zero": (
        lambda: policies.sw_gp_ucb(LINE, KERNEL, 0.01, window=0),
        "window must be a whole number of at least 1, got 0",
    ),
    "window half": (
        lambda: policies.sw_gp_ucb(LINE, KERNEL, 0.01, window=2.5),  # type: ignore[arg-type]
        r"window must be a whole number of at least 1, got 2\.5",
    ),
    "window of nothing": (lambda: Window(), "a window needs last="),
    "window of no time": (lambda: Window(within=0.0), r"within must be positive .* got 0\.0"),
    "discount one": (
        lambda: policies.w_gp_ucb(LINE, KERNEL, 0.01, discount=1.0),
        r"discount must lie in \(0, 1\), got 1\.0",
    ),
    "discount zero": (
        lambda: policies.w_gp_ucb(LINE, KERNEL, 0.01, discount=0.0),
        r"discount must lie in \(0, 1\), got 0\.0",
    ),
    "epsilon one": (
        lambda: policies.tv_gp_ucb(LINE, KERNEL, 0.01, epsilon=1.0),
        r"epsilon must lie in \[0, 1\), got 1\.0",
    ),
    "epsilon negative": (
        lambda: policies.tv_gp_ucb(LINE, KERNEL, 0.01, epsilon=-0.1),
        r"epsilon must lie in \[0, 1\), got -0\.1",
    ),
    "rate zero": (
        lambda: policies.ui_gp_ucb(LINE, KERNEL, 0.01, rate=0.0),
        r"rate must be positive and finite, got 0\.0",
    ),
    "rate zero, linear": (
        lambda: policies.ui_gp_ucb(LINE, KERNEL, 0.01, rate=0.0, growth="linear"),
        r"rate must be positive and finite, got 0\.0",
    ),
    "rate zero, sparq": (
        lambda: policies.sparq_gp_ucb(LINE, KERNEL, 0.01, expert=Moody(), rate=0.0),
        r"rate must be positive and finite, got 0\.0",
    ),
    "growth unknown": (
        lambda: policies.ui_gp_ucb(LINE, KERNEL, 0.01, rate=1.0, growth="cubic"),  # type: ignore[arg-type]
        'growth must be "wiener" or "linear", got \'cubic\'',
    ),
    "reset every zero": (
        lambda: policies.r_gp_ucb(LINE, KERNEL, 0.01, reset_every=0),
        "every must be a whole number of at least 1, got 0",
    ),
    "drift that cannot be fitted": (lambda: Drift(0.0), "epsilon = 0 cannot be fitted"),
}


@pytest.mark.parametrize("parts", PARTS)
def test_parts_that_do_not_fit(parts: str) -> None:
    build, match = PARTS[parts]
    with pytest.raises(ValueError, match=match):
        build()


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("aging", "window", "aging must be an aging map .* got 'window'"),
        (
            "posterior",
            "sparse",
            r"posterior must be Exact\(\), Nystrom\(\), StateSpace\(\) or ModelEnsemble\(\); "
            "got 'sparse'",
        ),
        ("domain", [[0.0], [1.0]], "domain must be a domain such as Candidates"),
        ("batching", 5, r"batching must be Batching\(...\) or Batching\(\), got 5"),
        ("asking", 5, r"asking must be Asking\(...\) or None, got 5"),
        ("acquisition", "ucb", r"acquisition must be UpperConfidenceBound\(\) or .* got 'ucb'"),
        ("consult", "always", 'consult must be "after tell" or "before ask", got \'always\''),
        ("minimise", 1, "minimise must be True or False, got 1"),
    ],
)
def test_a_part_of_the_wrong_kind_is_named(part: str, value: object, message: str) -> None:
    parts = {"domain": Candidates(np.linspace(0, 1, 5)[:, None]), "kernel": RBF(0.3)}
    parts |= {"noise_variance": 0.01, part: value}
    with pytest.raises(ValueError, match=message):
        Recipe(**parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Batching(5), r"rule must be a batch rule such as One\(\)"),  # type: ignore[arg-type]
        (lambda: Batching(One), r"rule must be a batch rule such as One\(\)"),  # type: ignore[arg-type]
        (lambda: Batching(smallest=0), "smallest must be a whole number of at least 1, got 0"),
        (lambda: Batching(largest=3.0), "largest must be a whole number of at least 1, got 3.0"),  # type: ignore[arg-type]
        (lambda: Asking(5), r"plan must be a query plan such as KDPP\(\); got 5"),  # type: ignore[arg-type]
        (
            lambda: Asking(KDPP(), pool_size=2.5),  # type: ignore[arg-type]
            "pool_size must be a whole number of at least 1, got 2.5",
        ),
        (
            lambda: Asking(KDPP(), most_answers=True),
            "most_answers must be a whole number of at least 1, got True",
        ),
        (
            lambda: Asking(KDPP(), informed_width=-1.0),
            r"informed_width must be finite and not negative, got -1\.0",
        ),
        (lambda: Asking(KDPP(), about="all"), 'about must be "played" or "domain", got \'all\''),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_part_of_a_group_is_named(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_class_is_no_expert() -> None:
    class Station:
        def query(self, X: object, t: float) -> None: ...

    domain = Candidates(np.linspace(0, 1, 5)[:, None])
    with pytest.raises(ValueError, match=r"expert must be an object .* got <class .*Station'>"):
        policies.sparq_gp_ucb(domain, RBF(0.3), 0.01, expert=Station)  # type: ignore[arg-type]


def test_a_recipe_takes_a_number_for_its_width() -> None:
    domain = Candidates(np.linspace(0, 1, 5)[:, None])
    assert Recipe(domain, RBF(0.3), 0.01, confidence=2.0).confidence(None) == 2.0  # type: ignore[arg-type]


def test_state_and_recipe_the_wrong_way_round() -> None:
    bandit = policies.gp_ucb(Candidates(np.linspace(0, 1, 5)[:, None]), RBF(0.3), 0.01)
    with pytest.raises(ValueError, match="takes a Recipe and then a State, got State and Recipe"):
        Bandit.from_state(bandit.state, bandit.recipe)  # type: ignore[arg-type]
    assert repr(bandit) == "<Bandit on Candidates(5 points, d=1), 0 rewards told, at the start>"
