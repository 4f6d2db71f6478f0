"""Records, recipes and the command line agree for every policy in the register."""

import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.helpers.refusals import assert_refused
from tests.policies.test_recipes import setting
from tvbandits import Bandit, Recipe, compare, policies
from tvbandits.acquisition.widths import DEFAULT_WIDTH
from tvbandits.datasets import DriftingBump
from tvbandits.domains.domain import Domain
from tvbandits.forgetting.aging import Ages
from tvbandits.policies import POLICIES, Policy
from tvbandits.policies.names import load, parameter_text, parse_call
from tvbandits.policies.setting import SET_BY_COMPARISON, TEXT_OPTIONS
from tvbandits.validation import Array


def recipes() -> dict[str, Callable[..., Any]]:
    """Return the public functions of `tvbandits.policies`."""
    named = {name: getattr(policies, name) for name in policies.__all__}
    return {name: each for name, each in named.items() if inspect.isfunction(each)}


def test_register_contains_every_public_policy_function() -> None:
    # discounted_thompson needs rewards in [0, 1], which few problems of a comparison have.
    others = {"discounted_thompson", "default_kernel"}
    assert {name.replace("-", "_") for name in POLICIES} == set(recipes()) - others
    for name, policy in POLICIES.items():
        assert policy.name == name
        assert policy.recipe is getattr(policies, name.replace("-", "_"))


def documented_parameters(recipe: Callable[..., Any]) -> dict[str, str]:
    """Return the parameters of a docstring, with their descriptions."""
    section = (inspect.getdoc(recipe) or "").partition("Parameters\n----------\n")[2]
    section = section.partition("\nExamples\n")[0]
    entries = re.split(r"\n(?=\S)", section.rstrip())
    return {each.partition(" : ")[0]: each.partition("\n")[2].strip() for each in entries}


@pytest.mark.parametrize("name", POLICIES)
def test_policies_agree_in_signature_docstring_and_command_line(name: str) -> None:
    policy = POLICIES[name]
    signature = inspect.signature(policy.recipe).parameters
    assert all(each.kind is not each.VAR_KEYWORD for each in signature.values())
    words = documented_parameters(policy.recipe)
    assert list(words) == list(signature)
    assert all(len(text) > 10 for text in words.values()), words
    for parameter in [*signature][1:]:
        assert signature[parameter].kind is inspect.Parameter.KEYWORD_ONLY
    for parameter in {"kernel", "noise_variance"} & signature.keys():
        assert signature[parameter].default is None
    if "seed" in signature:
        assert signature["seed"].default == 0
    settable = [each for each in signature if each not in SET_BY_COMPARISON]
    of_options = TEXT_OPTIONS if "options" in settable else ()
    assert [*policy.parameters] == [*(each for each in settable if each != "options"), *of_options]
    assert len(settable) <= 10
    names = [
        each.partition("=")[0] for each in parameter_text(policy.parameters).split(", ") if each
    ]
    assert names == list(policy.parameters)
    of_a_model = "kernel" in signature and name != "ada-opkb"  # ADA-OPKB has neither width nor mean
    assert ("beta" in policy.parameters) == of_a_model
    assert ("mean" in policy.parameters) == (of_a_model or name == "boba")  # BOBA has no width


# Texts of parameters whose default has no text, or that are tested with another value.
EXAMPLES = dict(
    each.strip().split("=")
    for each in """
    largest_batch=7, noise_variance=none, beta=1.5, posterior=exact, mean=0.5,
    minimize=true, consult=before ask, refit=7, reset_every=9, window=9, discount=0.9,
    forgetting_rate=0.1, delta=0.2, queries_per_step=2, plan=random, season=24,
    oversampling=3, keep=false, ratio_bound=3, rule=local, minimum_batch=2, batch_size=4,
    decay=20, population=9, tournament=3, initial_points=20, alpha=0.5, removal=oldest,
    span=30, outcome=1, exploration=0.5, scale=2, base=tvbandits.policies:ui_gp_ucb, adaptive=false,
    thresholds=tvbandits.policies.rivals.multi_scale:Thresholds,
    constants=tvbandits.policies.rivals.opkb:Constants
    """.split(",")  # noqa: SIM905 - words, as a text
)


# Options that only some policies support: the others refuse them by name.
PARTIALLY_SUPPORTED = ("refit", "season", "minimum_batch", "largest_batch")


@pytest.mark.parametrize("name", POLICIES)
def test_policies_accept_every_parameter_as_text(name: str) -> None:
    policy = POLICIES[name]
    for parameter in policy.parameters:
        example = EXAMPLES.get(parameter, f"{policy.parameters[parameter].default}".lower())
        text = f"{name}:{parameter}={example}"
        values = parse_call(policy.parameters, text)
        try:
            player = policy.make(setting(), **values)
        except ValueError as error:
            if parameter not in PARTIALLY_SUPPORTED or parameter not in str(error):
                raise
            continue
        assert player.ask(1.0).shape[1] == 1, text
    if {"mean", "beta"} <= policy.parameters.keys():
        both = parse_call(policy.parameters, f"{name}:mean=0,beta=1.25")
        player = policy.make(setting(), **both)
        if not isinstance(player, Bandit):
            return
        recipe: Any = player.recipe
        assert (recipe.mean, recipe.beta.value) == (0.0, 1.25)


def test_policies_refuse_options_that_they_do_not_support() -> None:
    follow = {
        "refit": {"adaptive-gp-ucb", "frugal-gp-ucb", "time-gp-ucb"},
        "season": {"adaptive-gp-ucb", "frugal-gp-ucb"},
        "largest_batch": {"bbkb", "tv-bbkb", "gp-bucb", "mini-gp-ucb"},
    }
    for option, names in follow.items():
        for name, policy in POLICIES.items():
            if option not in policy.parameters:
                continue
            values = parse_call(policy.parameters, f"{name}:{option}={EXAMPLES[option]}")
            if name in names:
                assert policy.make(setting(), **values).info.readings == 0
            else:
                assert_refused(ValueError, option, policy.make, setting(), **values)


def test_modules_of_policies_name_their_papers() -> None:
    without_paper = {"uniform", "tv-bbkb", "frugal-gp-ucb", "adaptive-gp-ucb"}
    for policy in POLICIES.values():
        module = importlib.import_module(policy.recipe.__module__)
        papers = re.findall(r"[A-Z]\w+(?: & [A-Z]\w+)? \d{4}", policy.title)
        assert bool(papers) is (policy.name not in without_paper)
        for word in re.findall(r"[A-Z]\w+|\d{4}", " ".join(papers)):
            assert word in (module.__doc__ or ""), f"{policy.name}: {papers}"


# --- a new policy with a custom forgetting rule ----------------------------------------------------


@dataclass(frozen=True)
class Halving:
    """A forgetting rule that doubles the noise variance every `life` units of time."""

    life: float

    def __call__(self, variance: Array, ages: Ages) -> Array:
        return np.asarray(variance * 2.0 ** (ages.age / self.life))


def halving(
    domain: Domain,
    *,
    kernel: Any = None,
    noise_variance: float | None = None,
    life: float = 20.0,
    beta: float = DEFAULT_WIDTH,
    seed: int = 0,
) -> Bandit:
    """Return GP-UCB with a noise variance that doubles every `life` units of time."""
    recipe = Recipe(domain, kernel, noise_variance, aging=Halving(life), beta=beta)
    return Bandit(recipe, seed=seed)


HALVING = Policy(halving)


def test_policy_with_a_custom_forgetting_rule_can_be_compared() -> None:
    problem = DriftingBump(candidates=21, horizon=8)
    name = f"{__name__}:HALVING"
    rows = compare(problem, [name, f"{name}:life=3,beta=1", "gp-ucb"], 1).to_dict("records")
    regret = {row["policy"]: row["average_regret"] for row in rows}
    assert len(regret) == 3
    assert {row["width"] for row in rows} == {f"{DEFAULT_WIDTH:g}", "1"}
    assert load(name) is HALVING
    assert list(HALVING.parameters) == ["noise_variance", "life", "beta"]
