"""A bandit as a sampler of Optuna, against the same bandit told and asked by hand."""

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

optuna = pytest.importorskip("optuna", reason="needs the extra tvbandits[optuna]")

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution  # noqa: E402

from tests.helpers.refusals import refused  # noqa: E402
from tvbandits import policies  # noqa: E402
from tvbandits.integrations.optuna import Coded, TVSampler  # noqa: E402


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def quick(space: Any, kernel: Any, noise_variance: Any, **options: Any) -> Any:  # noqa: ARG001
    """Fixed numbers: what is tested is who tells what, and when."""
    return policies.tv_gp_ucb(space, space.kernel(), 0.01, epsilon=0.05, **options)


def numbered(trial: Any) -> float:
    return float(trial.number)


def sampler(**options: Any) -> TVSampler:
    return TVSampler(**{"policy": quick, "time": numbered, **options})


KINDS = {
    "plain": FloatDistribution(-2.5, 4.0),
    "log": FloatDistribution(1e-5, 10.0, log=True),
    "step": FloatDistribution(0.1, 1.0, step=0.3),
    "whole": IntDistribution(-3, 4),
    "even": IntDistribution(2, 11, step=3),
    "context": IntDistribution(1, 1024, log=True),  # no context to a `Space`
    "choice": CategoricalDistribution(["a", None, 3, True]),
}


@given(st.data())
def test_what_is_encoded_is_decoded(data: st.DataObject) -> None:
    coded = Coded(KINDS)
    seed = data.draw(st.integers(0, 2**31 - 1))
    for x in coded.space.sample(3, np.random.default_rng(seed)):
        params = coded.decode(x)
        for name, of in KINDS.items():
            assert of._contains(of.to_internal_repr(params[name])), (name, params[name])
        again = coded.decode(coded.encode(params)[0])
        assert again.keys() == params.keys()
        assert all(again[name] == params[name] for name in params.keys() - {"plain", "log"})
        assert [again["plain"], again["log"]] == pytest.approx([params["plain"], params["log"]])
    lowest = {"log": 1e-5, "context": 1, "step": 0.1, "even": 2}
    highest = {"log": 10.0, "context": 1024, "step": 1.0, "even": 11}
    for ends in (lowest, highest):
        told = coded.encode({"plain": 0.0, "whole": 0, "choice": "a", **ends})[0]
        assert {name: coded.decode(told)[name] for name in ends} == pytest.approx(ends)


def test_a_study_plays_what_the_bandit_would_also_with_the_sampler_of_another_one() -> None:
    shared = sampler()
    for direction in ("maximize", "minimize"):
        study = optuna.create_study(sampler=shared, direction=direction, study_name="one")

        def objective(trial: Any) -> float:
            x = float(trial.suggest_float("x", -1.0, 1.0))
            return (x - 0.3) ** 2 + 0.01 * trial.number

        study.optimize(objective, n_trials=8)
        coded = Coded({"x": FloatDistribution(-1.0, 1.0)})
        bandit = quick(coded.space, None, None, minimise=direction == "minimize", seed=0)
        for trial in study.trials:
            if trial.number:
                (x,) = bandit.ask(float(trial.number))
                assert trial.params["x"] == pytest.approx(float(x[0]), abs=1e-6)
            bandit.tell([[trial.params["x"]]], trial.value, float(trial.number))


def test_failed_pruned_and_diverged_trials_were_played_and_not_read() -> None:
    study = optuna.create_study(sampler=sampler(), direction="maximize")

    def objective(trial: Any) -> float:
        x = float(trial.suggest_float("x", 0.0, 1.0))
        if trial.number == 1:
            raise optuna.TrialPruned
        if trial.number == 2:
            raise RuntimeError("the machine stopped")
        return np.inf if trial.number == 3 else x

    study.optimize(objective, n_trials=6, catch=RuntimeError)
    bandit = study.sampler.bandit
    assert len(bandit.state.rewards) == 2  # trials 0 and 4: the fifth's reward comes with the next
    assert len(bandit.state.failed) == 3


def test_what_runs_elsewhere_is_pending() -> None:
    storage = optuna.storages.InMemoryStorage()
    here = optuna.create_study(storage=storage, sampler=sampler(), study_name="one")
    there = optuna.load_study(storage=storage, sampler=sampler(seed=1), study_name="one")
    here.tell(here.ask({"x": KINDS["plain"]}), 1.0)
    running = there.ask({"x": KINDS["plain"]})
    trial = here.ask({"x": KINDS["plain"]})
    pending = here.sampler.bandit.pending[:, 0]
    assert pending == pytest.approx([running.params["x"], trial.params["x"]])
    there.tell(running, 0.5)
    here.ask({"x": KINDS["plain"]})
    assert len(here.sampler.bandit.state.rewards) == 2
    assert here.sampler.bandit.pending[0, 0] == pytest.approx(trial.params["x"])


def test_a_user_attribute_is_the_time() -> None:
    study = optuna.create_study(sampler=sampler(time="hour"))

    def objective(trial: Any) -> float:
        trial.set_user_attr("hour", 2.5 * trial.number)
        return float(trial.suggest_float("x", 0.0, 1.0))

    study.optimize(objective, n_trials=3)
    assert study.sampler.bandit.state.rewards.t.tolist() == [0.0, 2.5]
    study.sampler = sampler(time="minute")
    refused(ValueError, "has no user attribute 'minute'", study.optimize, objective, n_trials=1)


def test_seconds_since_the_first_trial_are_the_time() -> None:
    study = optuna.create_study(sampler=sampler(time=None))
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=3)
    starts = [each.datetime_start.timestamp() for each in study.trials]
    told = study.sampler.bandit.state.rewards.t
    assert told == pytest.approx([start - starts[0] for start in starts[:2]])


def test_another_space_begins_another_bandit_with_the_trials_that_have_it() -> None:
    one = optuna.create_study(sampler=sampler())
    one.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=3)
    one.optimize(
        lambda trial: trial.suggest_float("x", 0.0, 1.0) + trial.suggest_int("k", 1, 3), n_trials=3
    )
    assert one.sampler.bandit.recipe.domain.names == ("x",)
    assert len(one.sampler.bandit.state.rewards) == 5


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(sampler=sampler(), directions=["minimize", "maximize"])

    def objective(trial: Any) -> tuple[float, float]:
        x = float(trial.suggest_float("x", 0.0, 1.0))
        return x, x

    refused(ValueError, "multi-objective", study.optimize, objective, n_trials=2)


def study_of(n: int, **options: Any) -> Any:
    study = optuna.create_study(sampler=sampler(**options))
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=n)
    return study


def test_other_policies_get_the_kernel_of_the_space() -> None:
    study = study_of(3, policy=partial(policies.sw_gp_ucb, window=5))
    assert study.sampler.bandit.recipe.aging.last == 5
    study.sampler = sampler(policy=lambda space, *_, **__: policies.uniform(space))
    refused(TypeError, "policy must be a recipe", TVSampler, "gp-ucb")
    with pytest.raises(TypeError, match="policy must make a Bandit, got <Uniform"):
        study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=1)


def test_it_goes_on_from_a_pickle() -> None:
    whole, study = study_of(7), study_of(4)
    study.sampler = pickle.loads(pickle.dumps(study.sampler))
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=3)
    assert [each.params for each in study.trials] == [each.params for each in whole.trials]


def test_threads_tell_every_trial_once() -> None:
    study = study_of(2)
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=8, n_jobs=2)
    study.ask({"x": FloatDistribution(0.0, 1.0)})
    told = study.sampler.bandit.state.rewards
    assert sorted(told.t) == [float(number) for number in range(10)]
