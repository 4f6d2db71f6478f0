"""Arrays that are memory maps: what joblib hands to its workers, and what a user maps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tvbandits import Bandit, Candidates, compare, policies
from tvbandits.datasets import TableProblem
from tvbandits.domains import rows
from tvbandits.policies import POLICIES
from tvbandits.validation import Array

# Above 1 MB, from where joblib hands an array to a worker as a memory map.
POINTS = np.random.default_rng(0).random((70_000, 2))
SOME = POINTS[:500]


def value(X: Array) -> Array:
    return np.asarray(np.sin(6 * X[:, 0]) + X[:, 1])


# --- in workers of joblib


def in_workers(call: Callable[..., Any], *given: Any) -> list[Any]:
    found: list[Any] = Parallel(n_jobs=2)(delayed(call)(*given) for _ in range(2))
    return found


def test_joblib_maps_the_points_of_this_file_to_memory() -> None:
    assert in_workers(lambda X: isinstance(X, np.memmap), POINTS) == [True, True]


def _described(given: Any) -> tuple[bool, bool, list[int], Array]:
    domain = given if isinstance(given, Candidates) else Candidates(given)
    found = domain.index(POINTS[[5, 69_999]]).tolist()
    return domain.in_memory, domain.X.flags.writeable, found, domain.X[::1000]


@pytest.mark.parametrize("made_here", [True, False])
def test_candidates_in_a_worker_hold_read_only_points_in_memory(made_here: bool) -> None:
    for held, writeable, index, some in in_workers(
        _described, Candidates(POINTS) if made_here else POINTS
    ):
        assert held
        assert not writeable
        assert index == [5, 69_999]
        np.testing.assert_array_equal(some, POINTS[::1000])


def play(bandit: Bandit) -> Array:
    played = []
    for t in (1.0, 2.0):
        played.append(X := bandit.ask(t))
        bandit.tell(X, value(X), t)
    return np.concatenate([*played, bandit.recommend()[None]])


def test_bandit_plays_the_same_in_a_worker() -> None:
    def made() -> Bandit:
        return policies.gp_ucb(Candidates(POINTS), kernel=RBF(0.3), noise_variance=0.01)

    expected = play(made())
    for found in in_workers(play, made()):
        np.testing.assert_array_equal(found, expected)


def test_compare_gives_equal_results_in_one_and_two_processes() -> None:
    values = value(POINTS)[None]
    problem = TableProblem(values, POINTS, "two waves", "", 0.01, kernel=RBF(0.3), steps=4)
    names = ["uniform", "gp-ucb", "bbkb"]
    here, there = (compare(problem, names, 2, n_jobs=jobs) for jobs in (1, 2))
    assert here.drop(columns="seconds").equals(there.drop(columns="seconds"))


# Few points of many coordinates, which are as large.
WIDE = np.random.default_rng(1).random((180, 780))


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_compare_plays_every_policy_on_memory_mapped_candidates(name: str) -> None:
    values = value(WIDE)[None]
    problem = TableProblem(values, WIDE, "two waves", "", 0.01, kernel=RBF(8.0), steps=3)
    assert len(compare(problem, [name], 2, n_jobs=2)) == 6


# --- of the user's own


def mapped(kind: str, folder: Path) -> Any:
    """The same points in a memory map."""
    path = folder / "points"
    if kind == "npy":
        np.save(path, SOME)
        return np.load(path.with_suffix(".npy"), mmap_mode="r")
    if kind == "columns":
        np.save(path, np.asfortranarray(SOME))
        return np.load(path.with_suffix(".npy"), mmap_mode="r")
    whole = np.memmap(path, float, "w+", shape=(600, 3))
    whole[50:550, :2] = SOME
    if kind == "copy on write":
        whole.flush()
        whole = np.memmap(path, float, "c", shape=(600, 3))
    return whole[50:550, :2]


@pytest.mark.parametrize("kind", ["npy", "columns", "part", "copy on write"])
def test_candidates_treat_a_memory_map_as_an_array(kind: str, tmp_path: Path) -> None:
    X = mapped(kind, tmp_path)
    assert isinstance(X, np.memmap)
    domain = Candidates(X)
    assert domain == Candidates(SOME)
    assert hash(domain) == hash(Candidates(SOME))
    expected = play(policies.gp_ucb(Candidates(SOME), kernel=RBF(0.3), noise_variance=0.01))
    np.testing.assert_array_equal(
        play(policies.gp_ucb(domain, kernel=RBF(0.3), noise_variance=0.01)), expected
    )
    if X.flags.writeable:
        X[:] = 0.0  # what becomes of it afterwards is nothing to the candidates
        np.testing.assert_array_equal(domain.X, SOME)


def test_candidates_copy_a_read_only_array() -> None:
    X = SOME.copy()
    X.setflags(write=False)
    domain = Candidates(X)
    assert domain.X is not X
    assert domain == Candidates(SOME)


def test_candidates_refuse_equal_rows_of_a_memory_map(tmp_path: Path) -> None:
    X = np.memmap(tmp_path / "points", float, "w+", shape=(3, 2))
    assert_refused(ValueError, "row 1 repeats row 0", Candidates, X)


def test_candidates_advise_the_path_for_a_memory_map_too_large_for_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "points.npy", SOME.astype(np.float32))
    X = np.load(tmp_path / "points.npy", mmap_mode="r")
    monkeypatch.setattr(rows, "_get_memory_size", lambda: float(8 * SOME.size - 1))
    assert_refused(ValueError, r"path of their \.npy .*got shape \(500, 2\)", Candidates, X)
    assert len(Candidates(tmp_path / "points.npy")) == len(X)
    monkeypatch.setattr(rows, "_get_memory_size", lambda: float(8 * SOME.size))
    assert Candidates(X).in_memory


def test_get_memory_size_exceeds_the_size_of_the_points() -> None:
    assert rows._get_memory_size() > POINTS.nbytes
