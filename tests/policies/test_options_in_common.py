"""All recipes check their common parameters, and name the wrong one."""

import inspect
from typing import Any

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from tests.helpers.refusals import assert_refused
from tvbandits import Arms, Box, Candidates, Options, Space, policies
from tvbandits.policies import POLICIES

BAD: dict[str, tuple[Any, ...]] = {
    "domain": (None, "line", 3),
    "kernel": ("RBF", 1.0, lambda X: np.eye(len(X))),
    "noise_variance": ("0.1", True, 0.0, 1e-80, np.inf),
    "mean": ("offline", True, np.nan, 1e60, [1.0]),
    "scale": ("1", True, 1e-300, 1e300),
    "span": ("9", True, 0.0, 1e-300, 1e300),
    "minimize": ("yes", 1, None),
    "options": ("robust", 1, {"robust": True}),
}

GOOD: dict[str, Any] = {
    "domain": Candidates(np.arange(4.0)[:, None]),
    "kernel": RBF(1.0),
    "noise_variance": 0.1,
    "expert": None,
    "reset_every": 5,
    "window": 5,
    "forgetting_rate": 0.1,
}


def cases() -> list[tuple[str, str]]:
    return [
        (name, option)
        for name, policy in POLICIES.items()
        for option in inspect.signature(policy.recipe).parameters
        if option in BAD
    ]


@pytest.mark.parametrize(("name", "option"), cases())
def test_recipes_name_a_bad_parameter(name: str, option: str) -> None:
    recipe = POLICIES[name].recipe
    parameters = inspect.signature(recipe).parameters
    arguments = {each: value for each, value in GOOD.items() if each in parameters}
    for bad in BAD[option]:
        with pytest.raises(ValueError, match=rf"{option}.* (must|needs)"):
            recipe(**{**arguments, option: bad})


@pytest.mark.parametrize("domain", [Box([[0.0, 1.0]]), Space(x=(0.0, 1.0))], ids=["box", "space"])
def test_adaptive_gp_ucb_names_value_and_remedy_for_a_season_without_ensemble(domain: Any) -> None:
    match = "season=7 .*Candidates.grid"
    assert_refused(ValueError, match, policies.adaptive_gp_ucb, domain, options=Options(season=7))


def test_recipes_on_arms_name_a_domain_that_supports_a_season() -> None:
    arms, options = Arms(["a", "b", "c"]), Options(season=7)
    match = r"season=7 .*Candidates\(numpy.eye\(3\)\)"
    for recipe in (policies.adaptive_gp_ucb, policies.gp_ucb):
        assert_refused(ValueError, match, recipe, arms, options=options)
        with pytest.raises(ValueError, match="leave season out") as caught:
            recipe(arms, options=options)
        assert "grid" not in str(caught.value)
    policies.adaptive_gp_ucb(Candidates(np.eye(3)), options=options)  # the remedy works


def test_with_options_names_the_remedy_for_an_option_fixed_at_the_start() -> None:
    bandit = policies.adaptive_gp_ucb(Candidates([[0.0], [1.0]]))
    match = r"season=7: create it with options=Options\(season=...\)"
    assert_refused(TypeError, match, bandit.with_options, season=7)
    assert_refused(
        TypeError, "unknown option seasons; there are: limits", bandit.with_options, seasons=7
    )


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("ui-gp-ucb", "forgetting_rate"),
        ("tv-gp-ucb", "forgetting_rate"),
        ("tv-bbkb", "forgetting_rate"),
        ("sparq-gp-ucb", "forgetting_rate"),
        ("w-gp-ucb", "discount"),
    ],
)
def test_recipes_name_an_invalid_rate_as_the_argument(name: str, option: str) -> None:
    policy = POLICIES[name].recipe
    more = {"expert": None} if name == "sparq-gp-ucb" else {}
    for value, shown in (([[1j]], r"\[\[1j\]\]"), (-1.0, "-1"), ("slow", "'slow'")):
        match = rf"^{option}.* must .*, got {shown}"
        assert_refused(ValueError, match, policy, GOOD["domain"], **{option: value}, **more)
