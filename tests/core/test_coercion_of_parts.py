"""What is no number: texts, choices, sequences, paths and parts, each refused by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from tvbandits import Candidates, policies
from tvbandits.core.coercion import file_path, several, text

LINE = Candidates(np.linspace(0.0, 1.0, 5)[:, None])


@pytest.mark.parametrize("bad", [None, 3, b"a", "a\x1b[31m", "a\0", "\ud800", np.str_("a\n")])
def test_a_text_is_one_that_can_be_shown(bad: Any) -> None:
    with pytest.raises(ValueError, match="name must be a text"):
        text("name", bad)
    assert text("name", "ozone (µg/m³)") == "ozone (µg/m³)"


@pytest.mark.parametrize(
    "bad", ["ab", b"ab", {"a": 1}, {1}, 3, None, np.array(1.0), pd.DataFrame()]
)
def test_several_are_a_sequence(bad: Any) -> None:
    with pytest.raises(ValueError, match="ids must be names, got"):
        several("ids", bad, "names")
    assert several("ids", ("a", "b"), "names") == ["a", "b"]


@pytest.mark.parametrize("bad", [None, 3, b"a.csv", "", "  ", "a\0b", "a\x1b[31m.csv", ["a.csv"]])
def test_a_path_can_be_shown(bad: Any) -> None:
    with pytest.raises(ValueError, match="file must be the path of a file, got"):
        file_path("file", bad)
    assert file_path("file", "a.csv") == Path("a.csv")
    for address in ("file:///etc/passwd", "s3://bucket/a.csv", "http://host/a.csv"):
        with pytest.raises(ValueError, match=rf"file must be the path of a file, not .*{address}"):
            file_path("file", address)
    assert file_path("file", "a:b//c") == Path("a:b/c")


# --- recipes speak of their own parameters --------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "options", "message"),
    [
        ("sw_gp_ucb", {"window": "ten"}, "window must be a whole number of at least 1, got 'ten'"),
        ("sw_gp_ucb", {"window": 10**400}, "window must be at most"),
        ("r_gp_ucb", {"reset_every": 2.5}, "reset_every must be a whole number"),
        ("gp_bucb", {"minimum_batch": 0}, "minimum_batch must be a whole number"),
        ("w_gp_ucb", {"learn": 0}, "learn must be a whole number of at least 1, got 0"),
        ("ui_gp_ucb", {"noise_variance": "x"}, "noise_variance must be positive and finite"),
        ("sparq_gp_ucb", {"expert": None, "queries": "x"}, "queries must be a number, or a query"),
        ("frugal_gp_ucb", {"expert": None, "plan": "best"}, 'plan must be "next", "plausible"'),
        ("gp_ucb", {"confidence": 1e300}, r"confidence must lie in \[0, 1e\+50\], got 1e\+300"),
    ],
)
def test_recipes_name_their_own_parameters(
    recipe: str, options: dict[str, Any], message: str
) -> None:
    given = {"noise_variance": 0.01, **options}
    with pytest.raises(ValueError, match=message):
        getattr(policies, recipe)(LINE, RBF(1.0), **given)


def test_a_typo_says_what_may_be_meant() -> None:
    with pytest.raises(
        TypeError, match="sw_gp_ucb has no parameter 'windw'; did you mean \"window\""
    ):
        policies.sw_gp_ucb(LINE, RBF(1.0), 0.01, windw=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("constant", [1e101, 1e300, 1e-51, 1e-300])
def test_a_kernel_has_limits(constant: float) -> None:
    with pytest.raises(ValueError, match=r"kernel must give variances of at (most|least) 1e"):
        policies.gp_ucb(LINE, ConstantKernel(constant) * RBF(1.0), 0.01)
