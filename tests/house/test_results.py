"""The main result at reduced size: an expert is needed to follow the drifting bump."""

import pytest

from tvbandits.comparison.compare import compare
from tvbandits.comparison.summary import summarise
from tvbandits.datasets import DriftingBump

pytestmark = pytest.mark.slow

FORGETFUL = ["r-gp-ucb", "sw-gp-ucb", "w-gp-ucb", "tv-gp-ucb"]


def test_sparq_gp_ucb_follows_the_drifting_bump_and_forgetful_policies_lose_it() -> None:
    names = [*FORGETFUL, "sparq-gp-ucb"]
    bump = compare(DriftingBump(horizon=500), names, 3, 500, beta="theory")
    regret = summarise(bump).set_index("policy")["average_regret"]
    assert (regret[FORGETFUL] > 1.0).all(), regret
    sparq = bump[bump["policy"] == "sparq-gp-ucb"]
    assert sparq.loc[sparq["t"] > 400, "regret"].mean() <= 0.12
