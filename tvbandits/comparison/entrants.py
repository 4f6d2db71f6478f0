"""Who plays on what: problems and policies as they are given, checked before the first run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import RBF

from tvbandits.bandit.info import Player
from tvbandits.comparison.summary import NO_WIDTH
from tvbandits.domains.candidates import Candidates
from tvbandits.experts.functions import CallableExpert
from tvbandits.policies import POLICIES, Policy, Setting
from tvbandits.policies.names import (
    find_spec,
    instance_of,
    is_needed,
    load,
    parameters_of,
    parse_call,
    parse_spec,
    path_of,
)
from tvbandits.protocols import Expert, Problem
from tvbandits.validation import (
    is_finite_number,
    optional,
    positive_number,
    require,
    several,
    shown,
    whole_number,
)

Maker = Callable[[Setting], Player]


MakeExpert = Callable[[Problem, int], Expert]


@dataclass(frozen=True)
class Named:
    """A maker of a policy by its text, "name:key=value" or "package.module:maker:key=value".

    It can be sent to another process, where it is looked up again.
    """

    text: str

    @property
    def policy(self) -> Policy | None:
        """The record of the policy, unless the text names a maker."""
        name, _ = parse_spec(self.text)
        found = load(name) if path_of(self.text) else POLICIES[name]
        return found if isinstance(found, Policy) else None

    def given(self) -> dict[str, Any]:
        """The parameters in the text.

        Raises
        ------
        ValueError
            If there is no such maker, or it has no such parameters.
        """
        policy = self.policy
        if policy is not None:
            return parse_call(policy.parameters, self.text)
        path = path_of(self.text)
        maker = load(path)
        require(callable(maker), f'"{path}"', "a policy, or a function of a Setting", maker)
        known = parameters_of(maker, given=1)
        given = parse_call(known, self.text)
        lacking = [name for name, each in known.items() if is_needed(each) and name not in given]
        if lacking:
            raise ValueError(
                f'"{self.text}": a maker is called with a Setting, and with what the text gives; '
                f"there is nothing for {', '.join(lacking)}"
            )
        return given

    def __call__(self, setting: Setting) -> Player:
        """Make it; a `ValueError` speaks of the text."""
        policy, given = self.policy, self.given()
        make = load(path_of(self.text)) if policy is None else policy.make
        try:
            made: Player = make(setting, **given)
        except (TypeError, ValueError) as error:
            said = str(error)
            raise ValueError(said if self.text in said else f'"{self.text}": {said}') from error
        return made

    def width_text(self, asked: str | None) -> str | None:
        """What rows call its width, if `asked` is that of the comparison; None: it is not known yet."""
        policy, given = self.policy, parse_spec(self.text)[1]
        if policy is not None and "beta" not in policy.parameters:
            return NO_WIDTH
        width = given.get("beta", asked)
        if width is None and policy is not None:
            width = policy.parameters["beta"].default
        return None if width is None else text_of_width(width)


@dataclass(frozen=True)
class NamedExpert:
    """A maker of the expert "package.module:maker", which can be sent to another process.

    The maker takes a problem and a seed; it may also be an expert itself.
    """

    text: str

    def __post_init__(self) -> None:
        found = load(self.text) if path_of(self.text) == self.text else None
        good = callable(found) or callable(getattr(found, "query", None))
        needs = "package.module:maker, a function of a problem and a seed"
        require(good, "--expert", needs, self.text)

    def __call__(self, problem: Problem, seed: int) -> Expert:
        """Make it; a `ValueError` speaks of the text."""
        found = instance_of(load(self.text))
        makes = isinstance(found, type) or not callable(getattr(found, "query", None))
        try:
            made: Expert = found(problem, seed) if makes else found
        except (TypeError, ValueError) as error:
            raise ValueError(f'"{self.text}": {error}') from error
        good = callable(getattr(made, "query", None))
        require(good, f'what "{self.text}" makes', "an object with query(X, t)", made)
        return made


def text_of_width(width: Any) -> str:
    """A width as rows show it."""
    if isinstance(width, str):
        return width
    return f"{width:g}" if is_finite_number(width) else repr(width)


def makers_of(
    policies: Sequence[str] | Mapping[str, Maker], expert: MakeExpert | None
) -> dict[str, Maker]:
    """The makers of policies by label; a named one is made once for a toy, so that mistakes show."""
    if isinstance(policies, Mapping):
        makers = dict(policies)
        for label, maker in makers.items():
            if not callable(maker):
                raise TypeError(
                    f'policy "{label}" must be a function of a Setting, got {shown(maker)}'
                )
    else:
        makers = {}
        one = isinstance(policies, str | pd.DataFrame) or not isinstance(policies, Iterable)
        needs = "names, or a mapping of labels to makers"
        for text in [policies] if one else several("policies", policies, needs):
            if not isinstance(text, str):
                raise TypeError(f"policies must be {needs}; got {shown(text)}")
            known = find_spec("policy", text, POLICIES)
            label = text if known is None else known
            named = makers[label] = Named(label)
            # Checked here, so that a bad value is met before the first run, not after hours.
            named.given()
            if known is not None:
                named(_toy(expert))
    if not makers:
        raise ValueError("policies must name at least one policy, got none")
    return makers


def _toy(expert: MakeExpert | None) -> Setting:
    """What is known of a problem of two points."""
    return Setting(
        domain=Candidates(np.array([[0.0], [1.0]])),
        kernel=RBF(),
        noise_variance=1.0,
        horizon=10,
        variation=1.0,
        scale=1.0,
        forgetting_rate=0.1,
        information_gain=1.0,
        beta=None,
        expert=None if expert is None else lambda: CallableExpert(lambda X, t: X[:, 0] * t, 1.0),
        seed=0,
    )


_MEMBERS = [name for name in dir(Problem) if not name.startswith("_")]


# What can be gone through, and holds no problems.
NOT_SEVERAL = (str, type, np.ndarray)


def labelled_problems(
    problems: Problem | Sequence[Problem] | Mapping[str, Problem],
) -> dict[str, Problem]:
    """Problems by label, each with all the members of one."""
    if isinstance(problems, Mapping):
        labelled = dict(problems)
    else:
        some = isinstance(problems, Iterable) and not isinstance(problems, NOT_SEVERAL)
        listed: list[Any] = list(problems) if some else [problems]  # type: ignore[arg-type]
        names = [_checked_kind(problem).name for problem in listed]
        labelled = dict(zip(names, listed, strict=True))
        if len(labelled) < len(listed):
            raise ValueError(f"problems must have different names, or labels of yours; got {names}")
    if not labelled:
        raise ValueError("problems must hold at least one problem, got none")
    for label, problem in labelled.items():
        _check_problem(label, problem)
    return labelled


def _checked_kind(problem: Any) -> Problem:
    """Refuse what is not a problem; what makes one may have all of its members."""
    missing = [name for name in _MEMBERS if not _has(problem, name)]
    if missing or isinstance(problem, type):
        lacks = f", which has no {', '.join(missing)}" if missing else ""
        raise ValueError(
            "problems must be objects such as tvbandits.datasets.DriftingBump(), got "
            f"{shown(problem)}{lacks}"
        )
    made: Problem = problem
    return made


def _has(problem: object, name: str) -> bool:
    """Whether there is such a member; what takes work to compute is not computed for this."""
    return getattr_static(problem, name, None) is not None or hasattr(problem, name)


def _check_problem(label: str, problem: Problem) -> None:
    noise = _checked_kind(problem).noise_variance
    optional(positive_number, f"{label}: noise_variance", noise)
    with np.errstate(all="ignore"):
        logarithms = getattr(problem.kernel, "theta", np.zeros(0))
    name = f"{label}: the numbers of a kernel"
    require(np.isfinite(logarithms).all(), name, "positive and finite", problem.kernel)


def steps_of(label: str, problem: Problem, horizon: int | None) -> int:
    """The steps of a run: the horizon asked for, if the problem has as many."""
    steps = problem.horizon if horizon is None else horizon
    whole_number("horizon", steps)
    if steps > problem.horizon:
        raise ValueError(
            f"{label} has {problem.horizon} steps, got horizon = {steps}; "
            "where it is made up, make a longer one"
        )
    return steps
