"""A bandit as a sampler of Optuna, against the same bandit told and asked by hand."""

import pickle
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

optuna = pytest.importorskip("optuna", reason="needs the extra tvbandits[optuna]")

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution  # noqa: E402
from optuna.testing import pytest_samplers  # noqa: E402

from tests.helpers.refusals import assert_refused  # noqa: E402
from tvbandits import Bandit, OutlierWarning, Space, policies  # noqa: E402
from tvbandits.integrations.optuna import CodedSpace, TVSampler  # noqa: E402
from tvbandits.integrations.sampling import set_pending  # noqa: E402


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


# Largest difference between searches of a box from different random points.
SEARCH = 1e-4


def quick(space: Any, **options: Any) -> Any:
    """A policy with a fixed noise variance and forgetting rate."""
    return policies.tv_gp_ucb(
        space, kernel=space.kernel(), noise_variance=0.01, forgetting_rate=0.05, **options
    )


def numbered(trial: Any) -> float:
    return float(trial.number)


def sampler(**options: Any) -> TVSampler:
    return TVSampler(**{"policy": quick, "time": numbered, "seed": 0, **options})


KINDS = {
    "plain": FloatDistribution(-2.5, 4.0),
    "log": FloatDistribution(1e-5, 10.0, log=True),
    "step": FloatDistribution(0.1, 1.0, step=0.3),
    "whole": IntDistribution(-3, 4),
    "even": IntDistribution(2, 11, step=3),
    "context": IntDistribution(1, 1024, log=True),  # no context to a `Space`
    "choice": CategoricalDistribution(["a", None, 3, True]),
    "batch": CategoricalDistribution([64, 16, 32.5]),
    "angle": FloatDistribution(-180.0, 180.0),
    "hour": IntDistribution(0, 23),
    "quarter": FloatDistribution(0.0, 0.75, step=0.25),
}
CIRCLES = ("angle", "hour", "quarter")


@settings(deadline=None)
@given(st.data())
def test_coded_space_encode_inverts_decode(data: st.DataObject) -> None:
    coded = CodedSpace(KINDS, periodic=CIRCLES)
    seed = data.draw(st.integers(0, 2**31 - 1))
    for x in coded.space.sample(3, np.random.default_rng(seed)):
        params = coded.decode(x)
        for name, of in KINDS.items():
            assert of._contains(of.to_internal_repr(params[name])), (name, params[name])
        again = coded.decode(coded.encode([params])[0])
        assert again.keys() == params.keys()
        rounded = ("plain", "log", "angle")
        assert all(again[name] == params[name] for name in params.keys() - {*rounded})
        assert [again[each] for each in rounded] == pytest.approx(
            [params[each] for each in rounded]
        )
    lowest = {"log": 1e-5, "context": 1, "step": 0.1, "even": 2}
    highest = {"log": 10.0, "context": 1024, "step": 1.0, "even": 11}
    for ends in (lowest, highest):
        rest = {"plain": 0.0, "whole": 0, "choice": "a", "batch": 16, "angle": 0.0, "hour": 0}
        told = coded.encode([{**rest, "quarter": 0.0, **ends}])[0]
        assert {name: coded.decode(told)[name] for name in ends} == pytest.approx(ends)


def test_coded_space_orders_choices_only_if_all_are_numbers() -> None:
    """Truth values and infinite numbers do not count as numbers."""
    numbers = CodedSpace({"batch": CategoricalDistribution([64, 16, 32])})
    codes = numbers.encode([{"batch": each} for each in (16, 32, 64)])
    assert np.array_equal(
        codes, Space(batch=[16, 32, 64]).encode([{"batch": 16}, {"batch": 32}, {"batch": 64}])
    )
    assert [numbers.decode(each) for each in codes] == [{"batch": each} for each in (16, 32, 64)]
    for choices in (["a", "b"], [True, False], [1, 2, None], [1.0, float("inf")]):
        coded = CodedSpace({"batch": CategoricalDistribution(choices)})
        X = coded.encode([{"batch": each} for each in choices])
        assert np.array_equal(X, np.eye(len(choices)))


def test_coded_space_places_the_ends_of_a_periodic_parameter_side_by_side() -> None:
    """The highest float equals the lowest; the highest whole number or step is next to the lowest."""
    values = {"angle": [-180.0, 180.0], "hour": [23, 0, 1], "quarter": [0.75, 0.0, 0.25]}
    for name, listed in values.items():
        coded = CodedSpace({name: KINDS[name]}, periodic=CIRCLES)
        X = coded.encode([{name: each} for each in listed])
        assert X.shape == (len(listed), 2)
        steps = np.linalg.norm(np.diff(X, axis=0), axis=1)
        assert steps == pytest.approx(0.0 if name == "angle" else steps[0], abs=1e-9)
    study = optuna.create_study(sampler=sampler(periodic=["direction"]))

    def loss(trial: Any) -> float:
        return float(-np.cos(np.deg2rad(trial.suggest_float("direction", 0, 360) - 2.0)))

    study.optimize(loss, n_trials=12)
    assert np.cos(np.deg2rad(study.sampler.recommend(study)["direction"] - 2.0)) > 0.95


def test_sampler_refuses_an_invalid_periodic_parameter_and_warns_of_an_unknown_one() -> None:
    for name in ("choice", "batch", "log"):
        assert_refused(ValueError, f"{name} must be .* got .*", CodedSpace, KINDS, periodic=[name])
    assert_refused(ValueError, "periodic must be names", TVSampler, periodic="direction")
    assert_refused(ValueError, "periodic must be names", TVSampler, periodic={"direction": 360})
    assert_refused(ValueError, "periodic must be names", TVSampler, periodic=[360])
    study = optuna.create_study(sampler=sampler(periodic=["directon"]))
    study.tell(study.ask({"direction": KINDS["angle"]}), 1.0)
    with pytest.warns(UserWarning, match="'directon', a parameter of no trial so far.*: direction"):
        study.ask({"direction": KINDS["angle"]})


def test_recommend_refuses_an_invalid_context_by_the_name_of_its_variable() -> None:
    study = optuna.create_study(sampler=sampler(context=WEATHER))
    study.optimize(in_weather, n_trials=3)
    recommend = study.sampler.recommend
    assert_refused(ValueError, "^context 'outside' is missing, got {}$", recommend, study)
    assert_refused(
        ValueError, "^context: outside must be", recommend, study, context={"outside": 99}
    )
    plain = sampler().recommend
    assert_refused(
        ValueError, "the sampler has no context, got", plain, study, context={"outside": 3}
    )


def test_sampler_plays_two_studies_as_a_bandit_asked_and_told_by_hand() -> None:
    shared = sampler()
    for direction in ("maximize", "minimize"):
        study = optuna.create_study(sampler=shared, direction=direction, study_name="one")

        def objective(trial: Any) -> float:
            x = float(trial.suggest_float("x", -1.0, 1.0))
            return (x - 0.3) ** 2 + 0.01 * trial.number

        study.optimize(objective, n_trials=8)
        coded = CodedSpace({"x": FloatDistribution(-1.0, 1.0)})
        bandit = quick(coded.space, minimize=direction == "minimize", seed=0)
        for trial in study.trials:
            if trial.number:
                (x,) = bandit.ask(float(trial.number))
                assert trial.params["x"] == pytest.approx(coded.decode(x)["x"], abs=SEARCH)
            bandit = set_pending(bandit, np.empty((0, 1)), np.empty(0))
            bandit.tell(coded.encode([trial.params]), trial.value, float(trial.number))


def test_sampler_counts_failed_pruned_and_infinite_trials_as_plays_without_reading() -> None:
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
    assert len(bandit.state.rewards) == 2  # trials 0 and 4, as trial 5 is told at the next ask
    assert len(bandit.state.failed) == 3


def test_sampler_warns_once_of_the_loss_of_a_diverged_training() -> None:
    def loss(trial: Any) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        return 1e4 if trial.number == 9 else 0.3 + (x - 0.3) ** 2

    study = optuna.create_study(sampler=sampler())
    with pytest.warns(OutlierWarning, match="10000") as given:
        study.optimize(loss, n_trials=14)
    assert len(given) == 1


def test_sampler_with_the_default_policy_treats_a_diverged_loss_as_an_outlier() -> None:
    def loss(trial: Any) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        return 1e4 if trial.number == 9 else 0.3 + (x - 0.3) ** 2

    study = optuna.create_study(sampler=TVSampler(time=numbered, seed=0))
    study.optimize(loss, n_trials=16)  # without a warning, which would be an error
    bandit = study.sampler.bandit
    assert bandit.history.loc[bandit.history.kind == "outlier", "reward"].tolist() == [1e4]
    assert all(abs(trial.params["x"] - 0.3) < 0.2 for trial in study.trials[-4:])


def test_sampler_treats_trials_that_run_elsewhere_as_pending() -> None:
    storage = optuna.storages.InMemoryStorage()
    here = optuna.create_study(storage=storage, sampler=sampler(), study_name="one")
    there = optuna.load_study(storage=storage, sampler=sampler(seed=1), study_name="one")
    here.tell(here.ask({"x": KINDS["plain"]}), 1.0)
    running = there.ask({"x": KINDS["plain"]})
    trial = here.ask({"x": KINDS["plain"]})
    coded = CodedSpace({"x": KINDS["plain"]})
    expected = coded.encode([running.params, trial.params])
    assert here.sampler.bandit.pending == pytest.approx(expected)
    there.tell(running, 0.5)
    here.ask({"x": KINDS["plain"]})
    assert len(here.sampler.bandit.state.rewards) == 2
    assert here.sampler.bandit.pending[0] == pytest.approx(expected[1])


def test_sampler_reads_the_time_of_a_trial_from_a_user_attribute() -> None:
    study = optuna.create_study(sampler=sampler(time="hour"))

    def objective(trial: Any) -> float:
        trial.set_user_attr("hour", 2.5 * trial.number)
        return float(trial.suggest_float("x", 0.0, 1.0))

    study.optimize(objective, n_trials=3)
    assert study.sampler.bandit.state.rewards.t.tolist() == [0.0, 2.5]
    study.sampler = sampler(time="minute")
    assert_refused(
        ValueError, "has no user attribute 'minute'", study.optimize, objective, n_trials=1
    )


def test_sampler_without_time_uses_seconds_since_the_first_trial() -> None:
    study = optuna.create_study(sampler=sampler(time=None))
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=3)
    starts = [each.datetime_start.timestamp() for each in study.trials]
    told = study.sampler.bandit.state.rewards.t
    assert told == pytest.approx([start - starts[0] for start in starts[:2]])


def test_sampler_with_an_added_parameter_keeps_the_trials_and_their_common_space() -> None:
    one = optuna.create_study(sampler=sampler())
    one.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=3)
    one.optimize(
        lambda trial: trial.suggest_float("x", 0.0, 1.0) + trial.suggest_int("k", 1, 3), n_trials=3
    )
    assert one.sampler.bandit.recipe.domain.names == ("x",)
    assert len(one.sampler.bandit.state.rewards) == 5


def test_sampler_warns_once_of_a_parameter_with_another_range() -> None:
    def objective(trial: Any) -> float:
        width = 1.0 if trial.number < 3 else 2.0
        x = trial.suggest_float("x", 0.0, width)
        return float(x + (trial.suggest_float("y", 0.0, 1.0) if trial.number % 2 else 0.0))

    study = optuna.create_study(sampler=sampler(), study_name="wider")
    study.optimize(objective, n_trials=3)
    with pytest.warns(UserWarning, match=r"^x is chosen at random") as met:
        study.optimize(objective, n_trials=5)
    (said,) = (str(each.message) for each in met)
    assert "high=1.0" in said
    assert "in trial 2" in said
    assert_refused(
        ValueError, "'wider' has no parameter with one range.* x", study.sampler.recommend, study
    )


def test_sampler_refuses_an_invalid_time_and_names_its_trial() -> None:
    for bad in (3, "", ["hour"]):
        assert_refused(ValueError, "time must be the name of a user attribute", TVSampler, time=bad)
    for time, name in (("hour", "the user attribute 'hour'"), (lambda _: "now", r"time\(trial\)")):
        study = optuna.create_study(sampler=TVSampler(time=time))
        trial = study.ask()
        trial.set_user_attr("hour", "now")
        message = f"{name} of trial 0 must be a finite number, got 'now'"
        assert_refused(ValueError, message, trial.suggest_float, "x", 0.0, 1.0)


def test_sampler_refuses_several_objectives() -> None:
    study = optuna.create_study(sampler=sampler(), directions=["minimize", "maximize"])

    def objective(trial: Any) -> tuple[float, float]:
        x = float(trial.suggest_float("x", 0.0, 1.0))
        return x, x

    assert_refused(ValueError, "multi-objective", study.optimize, objective, n_trials=2)
    trial, x = study.get_trials()[0], KINDS["plain"]
    assert_refused(ValueError, "multi-objective", study.sampler.before_trial, study, trial)
    assert_refused(
        ValueError, "multi-objective", study.sampler.infer_relative_search_space, study, trial
    )
    assert_refused(
        ValueError, "multi-objective", study.sampler.sample_relative, study, trial, {"x": x}
    )
    assert_refused(
        ValueError, "multi-objective", study.sampler.sample_independent, study, trial, "x", x
    )


def study_of(n: int, **options: Any) -> Any:
    study = optuna.create_study(sampler=sampler(**options))
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=n)
    return study


def test_sampler_gives_recipes_a_kernel_and_refuses_policies_without_a_bandit() -> None:
    study = study_of(3, policy=partial(policies.sw_gp_ucb, window=5))
    recipe = study.sampler.bandit.recipe
    assert recipe.aging.last == 5
    assert recipe.kernel == recipe.domain.kernel()
    study.sampler = sampler(policy=lambda space, *_, **__: policies.uniform(space))
    assert_refused(TypeError, "policy must be a recipe", TVSampler, "gp-ucb")
    with pytest.raises(TypeError, match="policy must make a Bandit, got <Uniform"):
        study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=1)


def test_sampler_continues_the_same_after_pickling() -> None:
    whole, study = study_of(7), study_of(4)
    study.sampler = pickle.loads(pickle.dumps(study.sampler))
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=3)
    assert [each.params for each in study.trials] == [each.params for each in whole.trials]


def test_sampler_tells_every_trial_once_with_several_threads() -> None:
    study = study_of(2)
    study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=8, n_jobs=2)
    study.ask({"x": FloatDistribution(0.0, 1.0)})
    told = study.sampler.bandit.state.rewards
    assert sorted(told.t) == [float(number) for number in range(10)]


def first_points_of(workers: list[TVSampler]) -> list[float]:
    studies = [optuna.create_study(sampler=each) for each in workers]
    return [study.ask({"x": FloatDistribution(0.0, 1.0)}).params["x"] for study in studies]


def seed_of_policy(seed: int | None) -> Any:
    """Return the seed with which a sampler makes its policy."""
    seeds = []

    def policy(space: Any, *, seed: Any, **options: Any) -> Any:
        seeds.append(seed)
        return quick(space, seed=seed, **options)

    study_of(2, policy=policy, seed=seed)
    (one,) = seeds
    return one


def test_samplers_repeat_each_other_only_with_the_same_seed() -> None:
    assert len(set(first_points_of([TVSampler() for _ in range(12)]))) == 12
    assert len(set(first_points_of([TVSampler(seed=7) for _ in range(3)]))) == 1
    assert len({seed_of_policy(None) for _ in range(3)}) == 3
    assert seed_of_policy(7) == 7
    assert_refused(ValueError, "seed must be a whole number", TVSampler, seed=-1)
    assert_refused(ValueError, "seed must be a whole number", TVSampler, seed=0.5)


def test_reseed_rng_changes_the_points_of_a_copied_sampler() -> None:
    """A forked worker calls it, before or after its first point."""
    first = sampler(seed=0)
    second, third = (pickle.loads(pickle.dumps(first)) for _ in range(2))
    second.reseed_rng()
    points = first_points_of([first, second, third])
    assert points[0] == points[2] != points[1]
    first = study_of(3).sampler
    second, third = (pickle.loads(pickle.dumps(first)) for _ in range(2))
    second.reseed_rng()
    study = optuna.create_study(direction="minimize")
    study.add_trials(study_of(3).trials)
    for each in (first, second, third):
        each.recommend(study)
        each.sample_relative(study, study.trials[-1], {"x": FloatDistribution(0.0, 1.0)})
    before, other, same = (each.bandit.state for each in (first, second, third))
    assert before.random == same.random != other.random
    assert len(other.rewards) == 3


def test_new_samplers_with_one_seed_continue_a_study_as_a_single_sampler() -> None:
    by_night, whole = optuna.create_study(), optuna.create_study(sampler=sampler())
    states = []
    for _ in range(4):
        by_night.sampler = sampler()
        for study in (by_night, whole):
            study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=1)
        bandits = [study.sampler.bandit for study in (by_night, whole)]
        if all(bandits):
            night, day = (each.state.random for each in bandits)
            assert night == day
            states.append(night["state"]["state"])
    points = [[each.params["x"] for each in study.trials] for study in (by_night, whole)]
    assert points[0] == pytest.approx(points[1], abs=SEARCH)
    assert len(set(states)) == 3


def test_new_samplers_with_one_seed_repeat_no_random_point() -> None:
    study = optuna.create_study()
    for number in range(4):
        study.sampler = sampler()
        trial = study.ask()
        trial.suggest_float(f"x{number}", 0.0, 1.0)  # no parameter that all trials have
        trial.suggest_float("z" * (number + 1), 0.0, 1.0)
        study.tell(trial, 1.0)
    points = [value for each in study.trials for value in each.params.values()]
    assert len(set(points)) == 8


@pytest.mark.parametrize(
    "of",
    [
        FloatDistribution(-1e300, 1e300),
        FloatDistribution(-8e307, 8e307),  # Optuna's own sampler draws from no larger range
        FloatDistribution(0.0, 1e-300),
        FloatDistribution(1e15, 1e15 + 1.0),
        FloatDistribution(1e-300, 1e300, log=True),
        FloatDistribution(-1e300, 1e300, step=1e293),  # Optuna rounds no finer ones exactly
        FloatDistribution(-1e300, 1e300, step=1e280),
        IntDistribution(-(10**17), 10**17),
        IntDistribution(0, 2**53, step=2),
        IntDistribution(1, 10**18, log=True),
    ],
    ids=str,
)
def test_sampler_plays_and_learns_in_ranges_of_any_size(of: Any) -> None:
    """Large values are good, and most of the later points are large."""
    study = optuna.create_study(sampler=sampler(), direction="maximize")
    points = []
    for _ in range(8):
        trial = study.ask({"x": of})
        assert of._contains(trial.params["x"])
        (share,) = CodedSpace({"x": of}).encode([trial.params])[0]
        points.append(share / max(CodedSpace({"x": of}).space.bounds[0, 1], 1.0))
        study.tell(trial, points[-1])
    assert np.mean(points[4:]) > 0.6
    assert len(study.sampler.bandit.state.rewards) == 7


def test_samplers_on_one_storage_tell_every_trial_and_keep_running_ones_pending(
    tmp_path: Any,
) -> None:
    """Two samplers, as of two processes, take turns on one file."""
    storages = [optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'study.db'}") for _ in range(2)]
    workers = [
        optuna.create_study(
            storage=each, study_name="one", load_if_exists=True, sampler=sampler(seed=i)
        )
        for i, each in enumerate(storages)
    ]
    x = FloatDistribution(0.0, 1.0)
    for turn in range(4):
        running = [each.ask({"x": x}) for each in workers]
        if turn:
            expected = CodedSpace({"x": x}).encode([each.params for each in running])
            assert workers[1].sampler.bandit.pending == pytest.approx(expected)
        for trial, each in zip(
            running, reversed(workers), strict=True
        ):  # each tells the trial of the other
            each.tell(trial.number, trial.params["x"])
    for each in workers:
        each.ask({"x": x})
    for each in workers:
        assert sorted(each.sampler.bandit.state.rewards.t) == [float(i) for i in range(8)]
    for storage in storages:  # open connections are a warning from Python 3.13 on
        storage.remove_session()
        storage.engine.dispose()


def test_sampler_tells_a_thousand_trials_without_their_whole_kernel_matrix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Time and memory grow linearly with the number of trials."""
    from tvbandits.domains.space_kernel import PerParameter

    sizes = []
    call = PerParameter.__call__

    def counted(self: Any, X: Any, Y: Any = None, **options: Any) -> Any:
        sizes.append(len(X) * len(X if Y is None else Y))
        return call(self, X, Y, **options)

    monkeypatch.setattr(PerParameter, "__call__", counted)
    study = optuna.create_study(sampler=TVSampler(time=numbered, seed=0))
    x = FloatDistribution(0.0, 1.0)
    values = np.random.default_rng(0).random(1000)
    study.add_trials(
        optuna.create_trial(params={"x": each}, distributions={"x": x}, value=(each - 0.3) ** 2)
        for each in values
    )
    study.ask({"x": x})
    assert len(study.sampler.bandit.state.rewards) == 1000
    assert 0 < max(sizes) < 1000 * 500


def play_by_hand(trials: Any, space: Any) -> Any:
    """A bandit that plays the trials one by one, with the context and noise variance of each."""
    bandit = quick(space, minimize=True, seed=0)
    for trial in trials:
        t, own = float(trial.number), trial.user_attrs.get("noise_variance")
        context = {name: trial.user_attrs[name] for name in space.context}
        if trial.number:
            (x,) = bandit.ask(t, context=context or None)
            assert trial.params["x"] == pytest.approx(x[0], abs=SEARCH)
        bandit = set_pending(bandit, np.empty((0, space.dimension)), np.empty(0))
        point = [trial.params["x"], *context.values()]
        bandit.tell([point], [trial.value], t, None if own is None else [own])
    return bandit


def test_sampler_reads_the_noise_variance_of_a_trial_from_a_user_attribute() -> None:
    def objective(trial: Any) -> float:
        x = float(trial.suggest_float("x", 0.0, 1.0))
        if trial.number % 3:
            trial.set_user_attr("noise_variance", 0.1 * trial.number)
        return (x - 0.3) ** 2

    study = optuna.create_study(sampler=sampler())
    study.optimize(objective, n_trials=6)
    by_hand = play_by_hand(study.trials, Space(x=(0.0, 1.0)))
    # A sampler that reads all trials at once learns the same.
    later = sampler()
    assert later.recommend(study)["x"] == pytest.approx(by_hand.recommend(5.0)[0], abs=1e-2)
    told = later.bandit.state.rewards.with_noise(0.01)
    assert told.variance == pytest.approx([0.01, 0.1, 0.2, 0.01, 0.4, 0.5])


@pytest.mark.parametrize("value", [0.0, -1.0, "loud", float("inf")])
def test_sampler_refuses_an_invalid_noise_variance_and_names_its_trial(value: Any) -> None:
    study = optuna.create_study(sampler=sampler())
    trial = study.ask({"x": FloatDistribution(0.0, 1.0)})
    trial.set_user_attr("noise_variance", value)
    study.tell(trial, 1.0)
    with pytest.raises(ValueError, match=f"'noise_variance' of trial 0 .*{value}"):
        study.ask({"x": FloatDistribution(0.0, 1.0)})


WEATHER = {"outside": (-15.0, 20.0)}


def in_weather(trial: Any) -> float:
    outside = 5.0 * (trial.number % 5) - 10.0
    trial.set_user_attr("outside", outside)
    x = float(trial.suggest_float("x", 0.0, 1.0))
    return (x - (outside + 15.0) / 35.0) ** 2


def test_sampler_reads_the_context_of_a_trial_from_user_attributes() -> None:
    study = optuna.create_study(sampler=sampler(context=WEATHER))
    study.optimize(in_weather, n_trials=12)
    play_by_hand(study.trials, Space(context=WEATHER, x=(0.0, 1.0)))
    cold, warm = (
        study.sampler.recommend(study, context={"outside": each})["x"] for each in (-10.0, 10.0)
    )
    assert cold + 0.2 < warm


def test_sampler_reads_the_context_of_enqueued_trials_of_any_process(tmp_path: Any) -> None:
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    options: Any = {"storage": storage, "study_name": "one", "load_if_exists": True}
    context = {**WEATHER, "shift": ["day", "night"]}
    here, there = (
        optuna.create_study(sampler=sampler(context=context, seed=i), **options) for i in range(2)
    )
    x = {"x": FloatDistribution(0.0, 1.0)}
    weathers: Any = [
        {"outside": 4, "shift": "day"},
        {"outside": -3.5, "shift": "night"},
        {"outside": 9.0, "shift": "day"},
    ]
    for weather in weathers[:2]:
        here.enqueue_trial({}, user_attrs=weather)
        here.tell(here.ask(x), 1.0)
    there.enqueue_trial({}, user_attrs=weathers[2])
    there.ask(x)
    bandit = there.sampler.bandit
    contexts = [bandit.recipe.domain.context_values(each) for each in weathers]
    assert bandit.state.rewards.X[:, 1:] == pytest.approx(np.array(contexts[:2]))
    assert bandit.pending[:, 1:] == pytest.approx(np.array(contexts[2:]))


def test_sampler_refuses_a_trial_without_valid_context_and_continues_with_others() -> None:
    study = optuna.create_study(sampler=sampler(context=WEATHER))

    def forgetful(trial: Any) -> float:
        return float(trial.suggest_float("x", 0.0, 1.0))

    def outside(trial: Any) -> float:
        trial.set_user_attr("outside", 21.0)
        return forgetful(trial)

    assert_refused(
        ValueError, "trial 0 has no user attribute 'outside'", study.optimize, forgetful, 1
    )
    assert_refused(ValueError, "trial 1: .*outside.*21", study.optimize, outside, 1)
    study.optimize(in_weather, n_trials=3)
    assert_refused(
        ValueError, "trial 5 has no user attribute 'outside'", study.optimize, forgetful, 1
    )
    study.optimize(in_weather, n_trials=2)
    assert len(study.sampler.bandit.state.rewards) == 4
    assert_refused(ValueError, "'x' is a parameter and in the context", context_named_x)
    assert_refused(ValueError, "context", TVSampler, context=["outside"])


def context_named_x() -> None:
    study = optuna.create_study(sampler=sampler(context={"x": (0.0, 1.0)}))
    for _ in range(2):
        study.enqueue_trial({}, user_attrs={"x": 0.5})
        study.tell(study.ask({"x": FloatDistribution(0.0, 1.0)}), 1.0)


def test_recommend_returns_the_present_best_mean_in_the_form_of_best_params() -> None:
    def objective(trial: Any) -> float:
        x = float(trial.suggest_float("x", 0.0, 1.0))
        k, mode = trial.suggest_int("k", 1, 3), trial.suggest_categorical("mode", ["a", "b"])
        trial.suggest_int("fixed", 4, 4)
        best = 0.2 if trial.number < 15 else 0.8
        early = (
            -0.2 if trial.number < 15 else 0.0
        )  # so that the best early value is below any later one
        return (x - best) ** 2 + 0.3 * (k != 2) + 0.3 * (mode != "b") + early

    study = optuna.create_study(sampler=sampler())
    study.optimize(objective, n_trials=30)
    recommended = study.sampler.recommend(study)
    assert recommended.keys() == study.best_params.keys()
    assert [type(recommended[each]) for each in ("x", "k", "mode", "fixed")] == [
        float,
        int,
        str,
        int,
    ]
    assert (recommended["k"], recommended["mode"], recommended["fixed"]) == (2, "b", 4)
    assert abs(study.best_params["x"] - 0.2) < 0.1
    assert abs(recommended["x"] - 0.8) < 0.1
    # Another sampler recommends the same for this study.
    assert sampler().recommend(study) == pytest.approx(recommended, abs=1e-3)


def test_recommend_changes_no_later_trial() -> None:
    plain, watched = study_of(0), study_of(0)
    for study in (plain, watched):
        for _ in range(6):
            study.optimize(lambda trial: trial.suggest_float("x", 0.0, 1.0), n_trials=1)
            if study is watched:
                study.sampler.recommend(study)
    assert [each.params for each in plain.trials] == [each.params for each in watched.trials]


def test_recommend_uses_the_present_time_if_the_sampler_has_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times: list[float] = []
    recommend = Bandit.recommend

    def recorded(bandit: Bandit, t: float, **options: Any) -> Any:
        times.append(t)
        return recommend(bandit, t, **options)

    monkeypatch.setattr(Bandit, "recommend", recorded)
    study = optuna.create_study(sampler=sampler(time=None))
    study.optimize(lambda trial: (trial.suggest_float("x", 0.0, 1.0) - 0.4) ** 2, n_trials=8)
    start = study.trials[0].datetime_start
    before = (datetime.now() - start).total_seconds()
    study.sampler.recommend(study)
    after = (datetime.now() - start).total_seconds()
    assert study.sampler.bandit.state.time < before
    (time,) = times
    assert before - 1e-5 <= time <= after + 1e-5


def test_recommend_refuses_a_study_without_values_and_returns_single_values() -> None:
    study = optuna.create_study(sampler=sampler(), study_name="new")
    assert_refused(
        ValueError, "nothing to recommend: the study 'new'", study.sampler.recommend, study
    )
    study.tell(study.ask({"k": IntDistribution(3, 3)}), 1.0)
    assert study.sampler.recommend(study) == {"k": 3}
    two = optuna.create_study(directions=["minimize", "minimize"])
    assert_refused(ValueError, "multi-objective", study.sampler.recommend, two)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is chosen at random:UserWarning")
class TestSamplersOfOptuna(
    pytest_samplers.BasicSamplerTestCase,
    pytest_samplers.RelativeSamplerTestCase,
    pytest_samplers.SingleOnlySamplerTestCase,
):
    """The tests of Optuna for every sampler, and for samplers of one objective."""

    @pytest.fixture
    def sampler(self) -> Any:
        return partial(TVSampler, seed=0)


@pytest.mark.xfail(raises=ValueError, reason="a bandit has one objective", strict=True)
class TestSeveralObjectivesOfOptuna(pytest_samplers.MultiObjectiveSamplerTestCase):
    """The tests of Optuna for samplers of several objectives, all of which must fail."""

    @pytest.fixture
    def sampler(self) -> Any:
        return partial(TVSampler, seed=0)
