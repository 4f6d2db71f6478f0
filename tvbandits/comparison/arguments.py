"""Checks of a comparison's arguments (problems, widths and experts) before the first run.

Problems have names such as "drifting-bump:horizon=200", "table:FILE" or "package.module:problem".
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import getattr_static
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tvbandits.acquisition.widths import Confidence, as_confidence
from tvbandits.datasets import FileOptions, table
from tvbandits.datasets.environment import Environment
from tvbandits.datasets.registry import problems
from tvbandits.domains.candidates import Candidates
from tvbandits.domains.problem import HasAddedNoise, Problem
from tvbandits.experts.protocol import Expert
from tvbandits.policies.names import (
    PATH,
    TABLE,
    find_spec,
    instance_of,
    load,
    parameters_of,
    parse_call,
    parse_spec,
    path_of,
)
from tvbandits.policies.registry import POLICIES
from tvbandits.validation import (
    as_variances,
    check_optional,
    describe,
    positive_number,
    require,
    whole_number,
)

# --- widths and experts -------------------------------------------------------------------------------


def as_width(beta: Confidence | float | str | None) -> Confidence | None:
    """Return the confidence width of an argument, which may also be the text "package.module:Width"."""
    if beta is None:
        return None
    if isinstance(beta, str) and PATH.fullmatch(beta):
        beta = instance_of(load(beta))
    return as_confidence(beta)


@dataclass(frozen=True)
class NamedExpert:
    """A maker of experts with the name "package.module:maker", which can be sent to other processes.

    The name may be that of a function of a problem and a seed, or of an expert.
    """

    text: str

    def __post_init__(self) -> None:
        target = load(self.text) if path_of(self.text) == self.text else None
        requirement = "package.module:maker, a function of a problem and a seed"
        is_valid = callable(target) or isinstance(target, Expert)
        require(is_valid, "--expert", requirement, self.text)

    def __call__(self, problem: Problem, seed: int) -> Expert:
        """Return the expert for a problem and a seed."""
        target = instance_of(load(self.text))
        is_maker = isinstance(target, type) or not isinstance(target, Expert)
        try:
            expert = target(problem, seed) if is_maker else target
        except (TypeError, ValueError) as error:
            raise ValueError(f'"{self.text}": {error}') from error
        if not isinstance(expert, Expert):
            raise ValueError(
                f'"{self.text}" must return an object with query(X, t), got {describe(expert)}'
            )
        return expert


# --- problems -----------------------------------------------------------------------------------------


# One or several problems, or their names on the command line.
Problems = Problem | str | Sequence[Problem | str] | Mapping[str, Problem | str]


def label_problems(problems: Problems, horizon: int | None = None) -> dict[str, Problem]:
    """Return checked problems by label; a problem that is given by its name has `horizon` steps."""
    if isinstance(problems, Mapping):
        by_label = {label: _as_problem(problem, horizon) for label, problem in problems.items()}
    else:
        # Texts, classes and arrays can be iterated over, but are not sequences of problems.
        are_several = isinstance(problems, Iterable) and not isinstance(
            problems, str | type | np.ndarray
        )
        items: list[Any] = list(problems) if are_several else [problems]  # type: ignore[arg-type]
        names = [
            problem_label(problem) if isinstance(problem, str) else _check_members(problem).name
            for problem in items
        ]
        by_label = {
            name: _as_problem(problem, horizon) for name, problem in zip(names, items, strict=True)
        }
        if len(by_label) < len(items):
            raise ValueError(
                f"problems must have different names, or labels in a mapping; got {names}"
            )
    if not by_label:
        raise ValueError("problems must contain at least one problem, got none")
    for label, problem in by_label.items():
        _check_problem(label, problem)
    return by_label


def _as_problem(problem: Any, horizon: int | None) -> Problem:
    """Return a problem that is given as such or by its name."""
    return make_problem(problem, [], horizon) if isinstance(problem, str) else problem


def _check_members(problem: Any) -> Problem:
    """Return an object that is a problem; raise a `ValueError` with the members that it lacks."""
    members = [name for name in dir(Problem) if not name.startswith("_")]
    missing = [name for name in members if not _has_member(problem, name)]
    if missing or isinstance(problem, type):
        lacks = f", which has no {', '.join(missing)}" if missing else ""
        raise ValueError(
            "problems must be names, or objects such as tvbandits.datasets.DriftingBump(), got "
            f"{describe(problem)}{lacks}"
        )
    complete: Problem = problem
    return complete


def _has_member(problem: object, name: str) -> bool:
    """Return whether an object has a member, without computing a property of its class."""
    return getattr_static(problem, name, None) is not None or hasattr(problem, name)


def _check_problem(label: str, problem: Problem) -> None:
    """Raise a `ValueError` for an invalid noise variance or kernel; warn of an unknown noise."""
    noise = _check_members(problem).noise_variance
    kernel: Any = problem.kernel
    name = f"{label}: noise_variance"
    if noise is None and not _states_noise(problem):
        warnings.warn(
            f"{name} is None, so that this comparison adds no noise to its rewards: give a number, or "
            "added_noise = 0.0 if the values are measurements, which contain noise",
            RuntimeWarning,
            stacklevel=2,
        )
    if np.ndim(noise) == 0:  # type: ignore[arg-type]
        check_optional(positive_number, name, noise)
    else:
        domain = problem.domain
        is_finite = isinstance(domain, Candidates)
        require(is_finite, name, "a number, since the domain is no Candidates", noise)
        as_variances(noise, len(domain), name)  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        logarithms = kernel.theta if hasattr(kernel, "theta") else np.zeros(0)
    name = f"{label}: the numbers of a kernel"
    require(np.isfinite(logarithms).all(), name, "positive and finite", kernel)


def _states_noise(problem: Problem) -> bool:
    """Return whether a problem states the noise of readings by `added_noise` or `trials`."""
    has_added_noise = isinstance(problem, HasAddedNoise) and problem.added_noise is not None
    return has_added_noise or Environment.of(problem).trials is not None


def steps_of(label: str, problem: Problem, horizon: int | None) -> int:
    """Return the number of steps of a run; raise a `ValueError` if the problem has fewer."""
    steps = problem.horizon if horizon is None else horizon
    whole_number("horizon", steps)
    if steps > problem.horizon:
        raise ValueError(
            f"{label} has {problem.horizon} steps, got horizon = {steps}: "
            "if it is a simulated problem, make a longer one"
        )
    return steps


# --- problems by their names --------------------------------------------------------------------------


PROBLEMS = problems()

READS_FILES = {name for name, problem in PROBLEMS.items() if problem.files != 0}

# Problems whose tables may need options (`FileOptions`).
READS_OPTIONS = {
    name for name, problem in PROBLEMS.items() if "options" in parameters_of(problem.make)
}


def problem_label(text: str) -> str:
    """Return the text of a problem with the usual spelling of its name.

    Raises
    ------
    ValueError
        If it is neither the name of a problem nor "package.module:problem".
    """
    try:
        return find_spec("problem", text, PROBLEMS) or text
    except ValueError as error:
        name = text.partition(":")[0].strip()
        if name.casefold() in POLICIES:
            raise ValueError(f'{error}; "{name}" is a policy: write --policy {text}') from None
        raise


def make_problem(
    text: str,
    files: list[Path],
    horizon: int | None,
    tables: Mapping[str, Any] = MappingProxyType({}),
) -> Problem:
    """Return the problem with the text "name:key=value,...".

    The text "package.module:problem:key=value,..." names the user's own problem, or a function that
    returns one. `tables` are fields of `FileOptions` for a problem whose tables may need them.

    Raises
    ------
    ValueError
        If the name or a parameter is unknown, a value is not valid, or files are missing.
    """
    spec = problem_label(text)
    if (match := TABLE.fullmatch(spec)) is not None:
        return _call_maker(table, f"table{match[2] or ''}", [match[1]], horizon, "horizon")
    if path_of(spec) and spec.partition(":")[0] not in PROBLEMS:
        return _load_problem(spec, horizon)
    spec = _name_first_parameter(spec)
    name, _ = parse_spec(spec)
    problem = PROBLEMS[name]
    count = len(files)
    if problem.may_repeat and problem.files is not None:
        count = min(count, problem.files)
    if name in READS_FILES and (not files or problem.files not in (None, count)):
        more = " or more" if problem.may_repeat else ""
        expected = f"{problem.files or 'some'}{more}"
        raise ValueError(
            f'"{name}" reads files: give {expected} by --data FILE, got {len(files)} '
            f"({problem.summary}); in Python call a function of tvbandits.datasets"
        )
    arguments: list[Any] = [files] if problem.files is None else files[: problem.files]
    if problem.may_repeat and count < len(files):
        arguments = [files[: len(files) - count + 1], *files[len(files) - count + 1 :]]
    make = problem.make
    if name in READS_OPTIONS and tables:
        make = functools.partial(make, options=FileOptions(**tables))
    return _call_maker(make, spec, arguments, horizon, problem.length)


def _name_first_parameter(spec: str) -> str:
    """Turn "lifted:hartmann3" into "lifted:function=hartmann3"; ":key=value" may follow it, too."""
    name, colon, parameters = spec.partition(":")
    leading, second_colon, others = parameters.partition(":")
    if second_colon and "=" not in leading:
        parameters = f"{leading},{others}"
    parameter = PROBLEMS[name].leading if name in PROBLEMS else ""
    if not parameter or not colon or "=" in parameters.partition(",")[0]:
        return spec
    return f"{name}:{parameter}={parameters.strip()}"


def _call_maker(
    make: Callable[..., Problem], text: str, arguments: list[Any], horizon: int | None, length: str
) -> Problem:
    """Return the problem that `make` returns for the parameters in a text, and for a horizon.

    `length` is the name of the parameter that sets the horizon.
    """
    options = settable_parameters(parameters_of(make, skip=len(arguments)))
    parameters = parse_call(options, text)
    if horizon is not None and length in options:
        parameters.setdefault(length, horizon)
    try:
        return make(*arguments, **parameters)
    except TypeError as error:
        raise ValueError(f'"{text}": {error}') from error


def settable_parameters(
    parameters: Mapping[str, inspect.Parameter],
) -> dict[str, inspect.Parameter]:
    """Return the parameters that a text can set, which excludes options of the command."""
    return {
        name: parameter
        for name, parameter in parameters.items()
        if "FileOptions" not in str(parameter)
    }


def _load_problem(text: str, horizon: int | None) -> Problem:
    """Return the problem with the text "package.module:problem:key=value,..."."""
    problem = load(path_of(text))
    if isinstance(problem, type) or inspect.isroutine(problem):
        return _call_maker(problem, text, [], horizon, "horizon")
    parse_call({}, text)  # an object has no parameters
    instance: Problem = problem
    return instance
