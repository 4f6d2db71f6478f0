"""Many candidates, scored in blocks: the same choices as with all candidates in memory."""

import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from tests.bandit.test_measured_context import required_parameters
from tests.helpers.recipes import build
from tests.helpers.refusals import assert_refused
from tvbandits import Bandit, Candidates, Every, Nystrom, Options, policies
from tvbandits.acquisition import rules
from tvbandits.bandit import recipe
from tvbandits.domains import rows
from tvbandits.gp import top_candidates
from tvbandits.gp.top_candidates import CandidateScorer, Lineage, Movement, TopCandidates
from tvbandits.validation import Array

COUNT = 2000
POINTS = np.random.default_rng(0).random((COUNT, 3)).astype(np.float32).astype(float)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "BLOCK", 300)
    monkeypatch.setattr(recipe, "MOST_EVALUATED", 100)
    monkeypatch.setattr(rules, "CONFIG", replace(rules.CONFIG, largest_exact=100))
    config = replace(top_candidates.CONFIG, smallest_batch=16)
    monkeypatch.setattr(top_candidates, "CONFIG", config)


def value(X: Array) -> Array:
    return np.asarray(np.sin(5 * X).sum(axis=1))


def bbkb(domain: Any, **options: Any) -> Bandit:
    values = {"kernel": RBF(0.6), "noise_variance": 0.01, "seed": 3, **options}
    bandit: Bandit = build(policies.bbkb, domain, **values)
    return bandit


def play(bandit: Bandit, plays: int = 80, **arguments: Any) -> Array:
    """Return all played points, and the recommendation."""
    rng, points = np.random.default_rng(1), np.empty((0, 3))
    while len(points) < plays:
        X = bandit.ask(**arguments)
        bandit.tell(X, value(X) + 0.1 * rng.standard_normal(len(X)))
        points = np.concatenate([points, X])
    return np.concatenate([points, bandit.recommend()[None]])


def in_memory(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Array]) -> Array:
    """Return the result of a run that scores every candidate."""
    with monkeypatch.context() as context:
        context.setattr(recipe, "MOST_EVALUATED", COUNT)
        return run()


def stored_points(place: str, folder: Path) -> Any:
    if place == "array":
        return POINTS
    if place == "dask":
        return pytest.importorskip("dask.array").from_array(POINTS, ((600, 0, COUNT - 600), 2))
    np.save(folder / "points.npy", POINTS.astype(np.float32))
    return folder / "points.npy"


@pytest.mark.parametrize("place", ["array", "file", "dask"])
def test_bbkb_plays_the_same_for_candidates_in_memory_file_or_dask(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays = 20 if place == "dask" else 80
    expected = in_memory(monkeypatch, lambda: play(bbkb(Candidates(POINTS)), plays))
    points = play(bbkb(Candidates(stored_points(place, tmp_path))), plays)
    np.testing.assert_array_equal(points, expected)


def test_candidates_read_a_rewritten_file_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    path = stored_points("file", tmp_path)
    before = Candidates(path)
    np.testing.assert_array_equal(before.check(POINTS[:1]), POINTS[:1])
    monkeypatch.setattr(f"{__name__}.POINTS", -POINTS)
    stored_points("file", tmp_path / "other").replace(path)
    after = Candidates(path)
    assert (after.ends[1] <= 0.0).all()
    np.testing.assert_array_equal(after.check(POINTS[:1]), POINTS[:1])


def test_candidates_resolve_a_relative_path_at_construction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored_points("file", tmp_path)
    monkeypatch.chdir(tmp_path)
    domain = Candidates(path.name)
    monkeypatch.chdir("/")
    assert domain == Candidates(path)
    np.testing.assert_array_equal(domain.check(POINTS[:1]), POINTS[:1])


POLICIES: dict[str, Callable[[Candidates], Bandit]] = {
    "fresh dictionaries": lambda domain: bbkb(domain, posterior=Nystrom(keep=False)),
    "a minimum batch": lambda domain: bbkb(domain, options=Options(minimum_batch=5)),
    "a wide bound": lambda domain: bbkb(
        domain, ratio_bound=4.0, minimize=True, options=Options(mean=0.3)
    ),
    "bkb": lambda domain: policies.bkb(
        domain, kernel=Matern(0.5, nu=2.5), noise_variance=0.01, beta="theory"
    ),
    "gp-ucb": lambda domain: policies.gp_ucb(
        domain, kernel=RBF(0.4), noise_variance=0.01, options=Options(posterior="nystrom")
    ),
    "a window": lambda domain: policies.sw_gp_ucb(
        domain,
        kernel=RBF(0.6),
        noise_variance=0.01,
        window=12,
        options=Options(posterior="nystrom"),
    ),
    "forgetting": lambda domain: policies.tv_bbkb(
        domain, kernel=RBF(0.6), noise_variance=0.01, forgetting_rate=0.05
    ),
    "a rate that is learned": lambda domain: policies.tv_bbkb(
        domain, kernel=RBF(0.6), noise_variance=0.01, forgetting_rate=Every(10)
    ),
    "far apart": lambda domain: policies.bkb(domain, kernel=RBF(0.003), noise_variance=0.01),
}


@pytest.mark.parametrize("name", POLICIES)
def test_policies_with_top_candidates_choose_as_with_all_scores(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> Array:
        return play(POLICIES[name](Candidates(POINTS)), 40)

    np.testing.assert_array_equal(run(), in_memory(monkeypatch, run))


@pytest.mark.parametrize(
    ("stored", "block"), [(0, 300), (0, COUNT), (8 * COUNT, 300), (8 * COUNT, COUNT)]
)
def test_top_candidates_choose_the_same_for_any_number_of_stored_features(
    stored: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No features are stored, or those of the first eight inducing points."""
    expected = in_memory(monkeypatch, lambda: play(bbkb(Candidates(POINTS)), 60))
    config = replace(top_candidates.CONFIG, stored_features=stored)
    monkeypatch.setattr(top_candidates, "CONFIG", config)
    monkeypatch.setattr(rows, "BLOCK", block)
    np.testing.assert_array_equal(play(bbkb(Candidates(POINTS)), 60), expected)


def test_bound_means_in_single_precision_returns_upper_bounds() -> None:
    for scorer in scorers_of_run(
        policies.bkb(Candidates(POINTS[:200]), kernel=RBF(2.0), noise_variance=1e-6)
    )[::5]:
        scorer = replace(scorer, weights=scorer.weights * 1e60)  # beyond 32 bits
        mean, z = scorer(POINTS)[0], scorer.features(POINTS).astype(np.float32)
        assert ((above := scorer.bound_means(z, 1.0)) >= mean).all()
        assert (above - mean).max() < 1e57


@pytest.mark.parametrize("arguments", [{"n": 7}, {"available": np.arange(5, COUNT, 3)}, {"n": 150}])
def test_ask_with_arguments_chooses_as_with_all_scores(
    arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> Array:
        return play(bbkb(Candidates(POINTS)), 40, **arguments)

    np.testing.assert_array_equal(run(), in_memory(monkeypatch, run))


def test_ask_with_pending_points_chooses_as_with_all_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run() -> Array:
        bandit = bbkb(Candidates(POINTS))
        bandit.ask()
        play(bandit, 20)
        return np.concatenate([bandit.ask() for _ in range(4)])

    np.testing.assert_array_equal(run(), in_memory(monkeypatch, run))


def scorers_of_run(bandit: Bandit) -> list[CandidateScorer]:
    """Return the scorer of each decision of a run."""
    scorers = []
    for _ in range(30):
        X = bandit.ask()
        posterior: Any = bandit.state.posterior
        scorers.append(posterior.make_scorer(np.array([1.0, 0.2]), 0.1 * len(scorers)))
        bandit.tell(X, value(X))
    return scorers


@pytest.mark.parametrize("wrong", [None, "drift", "growth", "shift"])
def test_lineage_movement_bounds_later_scores(wrong: str | None) -> None:
    """An earlier bound holds at all later decisions, unless a part of the movement is left out."""
    scorers = scorers_of_run(
        policies.bkb(
            Candidates(POINTS[:40]), kernel=RBF(0.6), noise_variance=0.01, oversampling=0.5
        )
    )
    predictions = [scorer(POINTS) for scorer in scorers]
    lineage, violations = Lineage(), 0
    for step, scorer in enumerate(scorers):
        lineage.add(scorer)
        movement = lineage.movement()
        parts = {name: getattr(movement, name) for name in ("drift", "growth", "shift")}
        if wrong is not None:
            parts[wrong] = np.full_like(parts[wrong], wrong == "growth")
        movement = Movement(movement.first, **parts)
        for epoch in range(movement.first, lineage.epoch + 1):
            at = epoch - movement.first
            mean, deviation = predictions[step - lineage.epoch + epoch]
            times = movement.drift[at] + 2 * movement.growth[at]
            above = mean + movement.shift[at] + times * deviation
            truth = predictions[step][0] + 2 * predictions[step][1]
            violations += int((above * (1 + 1e-9) < truth - 1e-9).sum())
    assert len(lineage.live) <= top_candidates.CONFIG.live_posteriors
    assert (violations > 0) == (wrong is not None)


def test_top_candidates_score_few_candidates() -> None:
    scores: list[int] = []
    select = TopCandidates.select

    def record_scores(self: TopCandidates, *args: Any) -> Any:
        selection = select(self, *args)
        scores.append(selection.scores)
        return selection

    with pytest.MonkeyPatch.context() as context:
        context.setattr(TopCandidates, "select", record_scores)
        play(policies.bkb(Candidates(POINTS), kernel=RBF(0.4), noise_variance=0.01, beta=10.0), 60)
    assert np.median(scores[20:]) < COUNT / 4


def test_policies_refuse_candidates_in_a_file_without_nystrom(tmp_path: Path) -> None:
    domain = Candidates(stored_points("file", tmp_path))
    assert len(domain) == COUNT
    assert not domain.in_memory
    assert domain == Candidates(stored_points("file", tmp_path))
    message = r"not in memory .* posterior=Nystrom\(\).* got Candidates"
    assert_refused(
        ValueError, message, policies.gp_ucb, domain, kernel=RBF(1.0), noise_variance=0.01
    )
    message = r"X must be candidates, but \[0\.5, 0\.5, 0\.5\] in row 0"
    assert_refused(ValueError, message, bbkb(domain).tell, [[0.5, 0.5, 0.5]], [1.0])


@pytest.mark.parametrize("place", ["file", "dask"])
@pytest.mark.parametrize("name", ["uniform", "adaptive-gp-ucb", "frugal-gp-ucb", "w-dbo", "boba"])
def test_policies_that_score_all_candidates_refuse_a_file(
    name: str, place: str, tmp_path: Path
) -> None:
    domain, recipe = Candidates(stored_points(place, tmp_path)), policies.POLICIES[name].recipe
    with pytest.raises(ValueError, match=r"got (Candidates|.*Rows)"):
        recipe(domain, **required_parameters(recipe)).ask(1)


def test_candidates_in_a_file_refuse_a_measured_context(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="MappedRows"):
        Candidates(stored_points("file", tmp_path), context={"outside": (0, 1)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("context", "arguments"),
    [
        ((), {"near": 0.4}),
        ((), {"available": lambda X: X[:, 0] > 0.5}),
        ((2,), {"available": np.flatnonzero(POINTS[:, 2] == POINTS[7, 2])}),
    ],
)
def test_ask_of_available_candidates_in_a_file_plays_as_in_memory(
    context: tuple[int, ...], arguments: dict[str, Any], tmp_path: Path
) -> None:
    def run(place: Any) -> Array:
        bandit = bbkb(Candidates(place, context))
        bandit.tell(POINTS[:3], [0.0, 1.0, 2.0])
        return bandit.ask(**arguments)

    np.testing.assert_array_equal(run(stored_points("file", tmp_path)), run(POINTS))


def test_candidates_bound_their_table_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates far apart tie, so that all of them are top candidates."""
    monkeypatch.setattr(Candidates, "largest_table", 90)
    domain = Candidates(POINTS)
    expected = play(policies.bkb(domain, kernel=RBF(0.003), noise_variance=0.01), 12)
    assert len(domain._row_of) <= 90
    monkeypatch.undo()
    unlimited = policies.bkb(Candidates(POINTS), kernel=RBF(0.003), noise_variance=0.01)
    np.testing.assert_array_equal(play(unlimited, 12), expected)


@pytest.mark.parametrize("after", [1, 2, 9])
def test_ask_after_an_interrupt_chooses_the_same(
    after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, calls_left = np.append, [after]

    def append_or_interrupt(*args: Any) -> Array:
        calls_left[0] -= 1
        if calls_left[0] == 0:
            raise KeyboardInterrupt
        return append(*args)

    expected, bandit = play(bbkb(Candidates(POINTS)), 60), bbkb(Candidates(POINTS))
    monkeypatch.setattr(np, "append", append_or_interrupt)
    ask = bandit.ask

    def ask_again() -> Array:
        try:
            return ask()
        except KeyboardInterrupt:
            return ask()

    monkeypatch.setattr(bandit, "ask", ask_again)
    np.testing.assert_array_equal(play(bandit, 60), expected)
    assert calls_left[0] <= 0


def test_candidates_check_the_contents_of_a_file(tmp_path: Path) -> None:
    header = b"{'descr': '<f>', 5for\xaaran_order': False, 'shape': (50, 2), }".ljust(117) + b"\n"
    cut = b"\x93NUMPY\x01\x00\x76\x00" + header
    for content in (b"", b"hello", b"\x93NUMPY", cut):
        (tmp_path / "odd.npy").write_bytes(content)
        with pytest.raises(ValueError, match=r"as np\.save writes them, got .*odd\.npy"):
            Candidates(tmp_path / "odd.npy")  # type: ignore[arg-type]
    for name, reader in (("points.csv", "read_csv"), ("points.parquet", "read_parquet")):
        with pytest.raises(ValueError, match=rf"{re.escape(name)}.* np\.save\(.*{reader}"):
            Candidates(tmp_path / name)  # type: ignore[arg-type]
    np.save(tmp_path / "flat.npy", np.arange(5.0))
    with pytest.raises(ValueError, match=r"numbers of shape \(A, d\), got shape \(5,\)"):
        Candidates(tmp_path / "flat.npy")  # type: ignore[arg-type]
    np.save(tmp_path / "columns.npy", np.asfortranarray(POINTS))
    columns: Any = tmp_path / "columns.npy"
    np.testing.assert_array_equal(
        play(bbkb(Candidates(columns)), 5), play(bbkb(Candidates(POINTS)), 5)
    )
    broken = POINTS.copy()
    broken[1777, 1] = np.nan
    np.save(tmp_path / "broken.npy", broken)
    # The message has no row number, as that would be the row of a block.
    with pytest.raises(ValueError, match=r"candidates must .*\[.*nan, [\d.]*\]$"):
        play(bbkb(Candidates(tmp_path / "broken.npy")))  # type: ignore[arg-type]


def test_candidates_read_a_table_converted_as_the_message_says(tmp_path: Path) -> None:
    table = pd.DataFrame(POINTS, columns=["x", "y", "z"])
    table.to_parquet(tmp_path / "points.parquet")
    np.save(tmp_path / "points.npy", pd.read_parquet(tmp_path / "points.parquet").to_numpy(float))
    path: Any = tmp_path / "points.npy"
    np.testing.assert_array_equal(Candidates(path).check(POINTS[-2:]), POINTS[-2:])


@pytest.mark.slow
def test_bandit_continues_with_another_dask_client() -> None:
    distributed, array = pytest.importorskip("distributed"), pytest.importorskip("dask.array")
    options = {"processes": False, "dashboard_address": None}
    bandit, other = (bbkb(Candidates(array.from_array(POINTS, chunks=(600, 3)))) for _ in "ab")
    play(other, 5)
    with distributed.Client(**options):
        play(bandit, 5)
    np.testing.assert_array_equal(bandit.ask(), other.ask())  # without a client
    with distributed.Client(**options):
        np.testing.assert_array_equal(play(bandit, 5), play(other, 5))


@pytest.mark.slow
def test_bandit_on_dask_workers_chooses_the_same_after_a_worker_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    distributed, array = pytest.importorskip("distributed"), pytest.importorskip("dask.array")
    expected = in_memory(monkeypatch, lambda: play(bbkb(Candidates(POINTS)), 30))
    options = {"processes": True, "dashboard_address": None, "silence_logs": 50}
    cluster = distributed.LocalCluster(2, threads_per_worker=1, memory_limit=0, **options)
    with cluster, distributed.Client(cluster) as client:
        bandit = bbkb(Candidates(array.from_array(POINTS, chunks=(600, 3))))
        rng, points = np.random.default_rng(1), np.empty((0, 3))
        victims = list(client.run(os.getpid).values())[:1]
        while len(points) < 30:
            X = bandit.ask()
            bandit.tell(X, value(X) + 0.1 * rng.standard_normal(len(X)))
            points = np.concatenate([points, X])
            if victims and len(points) >= 10:
                os.kill(victims.pop(), signal.SIGKILL)
        np.testing.assert_array_equal(points, expected[: len(points)])
