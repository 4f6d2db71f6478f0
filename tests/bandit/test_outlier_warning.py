"""`OutlierWarning` for a reward absurdly far outside of all others, and none for heavy tails."""

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import tvbandits
from tvbandits import Bandit, Campaign, Candidates, Options, OutlierWarning, policies
from tvbandits.bandit.extremes import FAR, find_outlier

SITES = Candidates(np.arange(6.0)[:, None])
LOSSES = [0.31, 0.28, 0.35, 0.3, 0.33, 0.29]


def bandit_of(**options: Any) -> Bandit:
    return policies.gp_ucb(
        SITES, kernel=RBF(1.0), noise_variance=0.01, minimize=True, options=Options(**options)
    )


def tell(bandit: Any, y: list[float], t: float) -> list[OutlierWarning]:
    """Tell rewards, and return the outlier warnings of the call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bandit.tell(SITES.X[np.arange(len(y)) % 6], y, t)
    return [each.message for each in caught if isinstance(each.message, OutlierWarning)]


def test_tell_warns_once_of_a_diverged_loss() -> None:
    bandit = bandit_of()
    assert tell(bandit, LOSSES, 1) == []
    (warning,) = tell(bandit, [0.3, np.nan, 1e4], 2)
    assert (warning.row, warning.value, warning.usual) == (2, 1e4, (0.28, 0.35))
    for part in (
        "row 2",
        "10000",
        "0.28 to 0.35",
        "1,000 times their range",
        "retract",
        "robust=True",
    ):
        assert part in str(warning)
    assert tell(bandit, [0.32], 3) == []
    assert tell(bandit, [-9e7], 4)[0].usual == (0.28, 1e4)
    bandit.retract(SITES.X[:1], 4)
    assert tell(bandit, [0.32], 5) == []


def test_outlier_warning_names_the_line_of_tell() -> None:
    bandit = bandit_of()
    bandit.tell(SITES.X, LOSSES, 1)
    with pytest.warns(OutlierWarning) as caught:
        bandit.tell(SITES.X[:1], [1e4], 2)
    assert caught[0].filename == __file__


def test_tell_does_not_warn_of_progress_towards_an_optimum() -> None:
    bandit = bandit_of()
    for t, x in enumerate([3.0, 0.01, 0.003, 0.001, 0.0007, 0.0004, 0.0, 0.0001]):
        assert tell(bandit, [x**2], t) == []


def test_tell_finds_an_outlier_at_any_row_of_one_call() -> None:
    (warning,) = tell(bandit_of(), [1e4, *LOSSES], 1)
    assert (warning.row, warning.usual) == (0, (0.28, 0.35))


def test_tell_does_not_warn_with_four_other_rewards() -> None:
    assert tell(bandit_of(), [*LOSSES[:4], 1e4], 1) == []
    assert len(tell(bandit_of(), [*LOSSES[:5], 1e4], 1)) == 1


def test_tell_of_a_robust_bandit_does_not_warn() -> None:
    bandit = bandit_of(robust=True)
    assert tell(bandit, LOSSES, 1) == []
    assert tell(bandit, [1e4], 2) == []
    assert bandit.info.outliers == 1


def test_tell_changes_nothing_if_outlier_warnings_are_errors() -> None:
    bandit = bandit_of()
    bandit.tell(SITES.X, LOSSES, 1)
    before = bandit.state
    with warnings.catch_warnings():
        warnings.simplefilter("error", OutlierWarning)
        with pytest.raises(OutlierWarning):
            bandit.tell(SITES.X[:1], [1e4], 2)
    assert bandit.state == before


def test_campaign_does_not_repeat_an_outlier_warning_on_load_or_replay(tmp_path: Path) -> None:
    bandit = bandit_of()
    bandit.tell(SITES.X, LOSSES, 1)
    with Campaign.create(tmp_path / "c.db", bandit, snapshot_every=1000) as campaign:
        with pytest.warns(OutlierWarning) as caught:
            campaign.record([{"X": SITES.X[:1], "y": [1e4], "t": 2}])
        assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Campaign.open(tmp_path / "c.db") as reopened:
            reopened.tell(SITES.X[:1], [-9e8], 2.5, sure=True)  # the value has been checked
            assert reopened.verify().consistent
            assert reopened.state.rewards.y.max() == 1e4
            reopened.tell(SITES.X[:1], [0.3], 3)
            reopened.state.rewards  # noqa: B018 - a second replay
            Bandit.from_state(reopened.recipe, reopened.state).save(tmp_path / "saved")
        loaded = tvbandits.load(tmp_path / "saved")
        loaded.tell(SITES.X[:1], [0.3], 4)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tail", ["student", "lognormal"])
def test_find_outlier_finds_none_in_heavy_tails(seed: int, tail: str) -> None:
    rng = np.random.default_rng(seed)
    y = rng.standard_t(2, 10_000) if tail == "student" else rng.lognormal(0.0, 2.0, 10_000)
    assert all(find_outlier(y[:count]) is None for count in range(1, len(y), 7))


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_outlier_warning_ignores_unit_and_sign_of_rewards(scale: float, sign: float) -> None:
    bandit, unit = bandit_of(), sign * scale
    assert tell(bandit, [unit * each for each in LOSSES], 1) == []
    width = 0.35 - 0.28
    assert (
        tell(bandit_of(), [unit * each for each in (*LOSSES, 0.35 + 0.99 * FAR * width)], 1) == []
    )
    (warning,) = tell(bandit, [unit * (0.35 + 1.01 * FAR * width)], 2)
    assert warning.row == 0


@pytest.mark.parametrize("level", [0.0, 0.5, 1e6])
def test_tell_does_not_warn_of_a_change_after_equal_rewards(level: float) -> None:
    """Rewards that are equal, also up to single precision, have no scale to compare with."""
    bandit = bandit_of()
    assert tell(bandit, [level] * 6, 1) == []
    assert tell(bandit, [level + 1.0], 2) == []
    near = (np.float64(np.log(2.0)) + np.arange(6) * 3e-8).tolist()
    bandit = bandit_of()
    assert tell(bandit, near, 1) == []
    assert tell(bandit, [0.5], 2) == []


def test_outlier_warning_keeps_its_values_in_a_pickle() -> None:
    warning = OutlierWarning(3, 1e4, (0.1, 0.2))
    loaded = pickle.loads(pickle.dumps(warning))
    assert (str(loaded), loaded.row, loaded.value, loaded.usual) == (
        str(warning),
        3,
        1e4,
        (0.1, 0.2),
    )
