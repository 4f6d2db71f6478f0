"""The headline behaviour, at reduced size: who follows the drift, and who does not."""

import pandas as pd
import pytest

from tests.places import DATA
from tvbandits.comparison.compare import compare
from tvbandits.comparison.summary import summarise
from tvbandits.datasets import DriftingBump, ozone

pytestmark = pytest.mark.slow

REAL = DATA / "ozone"
YEARS = [REAL / "daily_ozone_2008.csv", REAL / "daily_ozone_2009.csv"]
FORGETFUL = ["r-gp-ucb", "sw-gp-ucb", "w-gp-ucb", "tv-gp-ucb"]


@pytest.fixture(scope="module")
def bump() -> pd.DataFrame:
    names = [*FORGETFUL, "sparq-gp-ucb"]
    return pd.DataFrame(compare(DriftingBump(horizon=500), names, 3, 500, confidence="theory"))


def test_forgetting_alone_loses_the_bump(bump: pd.DataFrame) -> None:
    regret = summarise(bump).set_index("policy")["average_regret"]
    assert (regret[FORGETFUL] > 1.0).all(), regret


def test_asking_an_expert_follows_the_bump(bump: pd.DataFrame) -> None:
    sparq = bump[bump["policy"] == "sparq-gp-ucb"]
    assert sparq["seed"].nunique() == 3
    assert sparq.loc[sparq["t"] > 400, "regret"].mean() <= 0.12


def test_a_narrow_width_does_better_still() -> None:
    rows = compare(DriftingBump(horizon=500), ["sparq-gp-ucb"], 3, confidence=2)
    assert summarise(rows)["average_regret"].item() <= 0.09


def test_asking_an_expert_is_best_on_ozone() -> None:
    if not all(path.is_file() for path in YEARS):
        pytest.skip(f"the ozone files are not in {REAL.name}: {[path.name for path in YEARS]}")
    names = ["sparq-gp-ucb", "adaptive-gp-ucb", "uniform"]
    problem = ozone(YEARS, sites=28, state="New York")
    regret = summarise(compare(problem, names, 2, confidence=2)).set_index("policy")
    average = regret["average_regret"]
    assert average["sparq-gp-ucb"] <= 7.4
    assert average.idxmin() == "sparq-gp-ucb"
