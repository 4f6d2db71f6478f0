"""A generator for Xopt that asks a bandit: `Xopt(generator=TVGenerator(vocs=vocs))`.

It is for machines that drift. As with Xopt's own time-dependent generator, the evaluated function
returns the time of its reading beside the objective. After this module is imported, Xopt finds the
generator by its name, `tvbandits`.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import datetime
from functools import partial
from numbers import Real
from pkgutil import resolve_name
from typing import Any, ClassVar, cast

import numpy as np
import pandas as pd
from gest_api.vocs import (
    VOCS,
    ContextualVariable,
    ContinuousVariable,
    DiscreteVariable,
    ExploreObjective,
    MinimizeObjective,
)
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr, field_serializer, field_validator
from xopt.errors import VOCSError
from xopt.generator import Generator
from xopt.generators import generators
from xopt.vocs import resolve_contextual_variable_bounds

from tvbandits import policies
from tvbandits.bandit.bandit import Bandit
from tvbandits.domains.parameters import TOLERANCE, Integer
from tvbandits.domains.space import Space
from tvbandits.integrations.sampling import (
    as_readings,
    ask_at,
    build_bandit,
    denormalize,
    normalize,
    parameter_name,
    set_pending,
)
from tvbandits.validation import Array, describe


class TVGenerator(Generator):
    """A generator that asks a bandit for points.

    The points depend only on the data, the time and the options: each call makes a new bandit and
    reports all data to it. So data may be loaded, replaced, extended or reset, and the variables
    changed, at any time. A failed evaluation is a play without a reading. Rows without a value in the
    range of a variable are left out, with a warning.

    As with Xopt's own generators, a contextual variable is observed and not chosen: the points lack it,
    and the evaluated function returns it. If it has no range, the range of the data is used.

    Parameters
    ----------
    vocs : VOCS
        Variables with a range or with values, perhaps contextual ones, one objective to minimize or
        maximize, no constraints.
    time_column : str
        The column of the data with the time of each reading: numbers, or dates with a time zone.
    added_time : float
        The time from a decision to its reading.
    clock : callable or str
        A function that returns the present time, in the unit of that column; by default seconds since
        1970, as in Xopt. An object with a state of its own does not work, as Xopt copies its generator.
    context : dict
        Present values of contextual variables, by name, which you may set before each step. Other
        contextual variables have the value in the latest row of the data, as with Xopt's generators.
    policy : callable, str or dict
        A recipe of a `Bandit` for a `Space`, or its name, such as "tv_gp_ucb"; with options, a `partial`
        or {"name": "sw_gp_ucb", "window": 30}. In a file, Xopt stores the module and name of your own
        function, by which it must be importable when the file is read.
    seed : int

    Raises
    ------
    ValueError
        If a reading has no valid time, or a contextual variable no valid value.

    Examples
    --------
    >>> from xopt import VOCS, Evaluator, Xopt  # doctest: +SKIP
    >>> from tvbandits.integrations.xopt import TVGenerator  # doctest: +SKIP
    >>> vocs = VOCS(variables={"x": [-1, 1]}, objectives={"y": "MINIMIZE"})  # doctest: +SKIP
    >>> generator = TVGenerator(vocs=vocs)  # doctest: +SKIP
    """

    name: ClassVar[str] = "tvbandits"
    supports_single_objective: bool = True
    supports_batch_generation: bool = True
    supports_discrete_variables: bool = True
    supports_contextual_variables: bool = True

    time_column: str = Field("time", description="column with the time of a reading")
    added_time: float = Field(0.0, description="time from a decision to its reading")
    context: dict[str, float] = Field({}, description="present values of contextual variables")
    # The defaults are names, so that Xopt can write them to a file.
    clock: Any = Field(
        "time.time", validate_default=True, description="function that returns the present time"
    )
    policy: Any = Field("adaptive_gp_ucb", validate_default=True, description="recipe of a bandit")
    seed: int = Field(0, ge=0, description="seed of the random numbers")

    _bandit: Bandit | None = PrivateAttr(None)
    # Generated points without a reading, with their times as the index.
    _pending: pd.DataFrame = PrivateAttr(default_factory=pd.DataFrame)
    _rows: int = PrivateAttr(0)

    @field_validator("vocs", mode="after")
    @classmethod
    def check_vocs(cls, vocs: VOCS) -> VOCS:
        """Return the VOCS; raise a `VOCSError` if the generator does not support it."""
        if len(_contextual_names(vocs)) == len(vocs.variables):
            raise VOCSError("every variable is contextual: TVGenerator needs one to choose")
        for name, variable in vocs.variables.items():
            if not isinstance(variable, ContinuousVariable | DiscreteVariable):
                raise VOCSError(f"{name} must have a range or values, got {variable}")
            if isinstance(variable, ContextualVariable):
                continue
            if not np.isfinite(_values_or_range(variable)).all():
                raise VOCSError(f"{name} must have a finite range or values, got {variable}")
        for name, objective in vocs.objectives.items():
            if isinstance(objective, ExploreObjective):
                raise VOCSError(f"the objective {name} must be MINIMIZE or MAXIMIZE, got EXPLORE")
        return vocs

    @field_validator("policy", "clock", mode="before")
    @classmethod
    def check_function(cls, value: Any) -> Callable[..., Any]:
        """Return a function that is given as such or by its name."""
        return _find_function(value)

    @field_serializer("policy", "clock")
    def name_function(self, function: Callable[..., Any]) -> Any:
        """Return the name by which the function is found when a file is read."""
        return _find_name(function)

    @property
    def bandit(self) -> Bandit | None:
        """Return the bandit that chose the latest points, or None before the first.

        Its coordinates are scaled: ranges to [0, 1], and ordered values to their indices.
        """
        return self._bandit

    def generate(self, n_candidates: int | None) -> list[dict[Hashable, Any]]:
        """Report all data to a new bandit, and return the points that it chooses."""
        vocs = self.check_vocs(self.vocs)  # users may have changed it in place
        (present,) = _as_seconds([self.clock()], "the clock")
        data = self._fill_context(vocs)
        context = self._present_context(vocs, data)
        variables = CodedVariables(vocs, data, context)
        X, y, t = self._read_plays(variables, data, present)
        self._forget_pending(variables, data)
        play_time = present + self.added_time
        origin = t[0] if len(t) else play_time

        # The seed depends only on the data, so that a generator with equal data draws equal numbers.
        numbers = self.seed, len(X), len(self._pending)
        seed = int(np.random.SeedSequence(numbers).generate_state(1)[0])
        (objective,) = self.vocs.objectives.values()
        minimize = isinstance(objective, MinimizeObjective)
        bandit = build_bandit(self.policy, variables.space, minimize=minimize, seed=seed)
        if len(X):
            bandit.tell(X, y, t - origin)
        is_valid, pending = variables.encode(self._pending)
        pending_times = self._pending.index.to_numpy(dtype=float)[is_valid]
        bandit = set_pending(bandit, pending, pending_times - origin)
        normalized_context = variables.normalize_context(context)
        choice = ask_at(bandit, play_time - origin, n_candidates, normalized_context)
        points = variables.decode(choice)
        self._bandit = bandit
        new = pd.DataFrame([point | context for point in points], index=[play_time] * len(points))
        self._pending = pd.concat([self._pending, new]) if len(self._pending) else new
        return points

    def _fill_context(self, vocs: VOCS) -> pd.DataFrame:
        """Return the data, with missing contexts of failed evaluations filled from adjacent rows."""
        data = pd.DataFrame() if self.data is None else self.data
        (objective,) = vocs.objectives
        names = [name for name in _contextual_names(vocs) if name in data]
        if not names or objective not in data:
            return data
        numbers = data[names].apply(pd.to_numeric)
        failed = pd.to_numeric(data[objective]).isna()
        return data.assign(
            **numbers.mask(failed & numbers.isna().any(axis=1), numbers.ffill().bfill())
        )

    def _present_context(self, vocs: VOCS, data: pd.DataFrame) -> dict[str, float]:
        """Return the value of each contextual variable, from `context` or the latest row of the data."""
        contextual = _contextual_names(vocs)
        if unknown := [name for name in self.context if name not in contextual]:
            raise ValueError(
                f"context has {', '.join(unknown)}, and the contextual variables of the VOCS are: "
                f"{', '.join(contextual) or 'none'}"
            )
        (objective,) = vocs.objectives
        has_readings = objective in data and bool(data[objective].notna().any())
        if absent := [name for name in contextual if has_readings and name not in data]:
            raise ValueError(
                f"the data have no column of the contextual variable {absent[0]}: the function that is "
                "evaluated must return its value beside the objective"
            )
        latest = {name: data[name].iloc[-1] for name in contextual if name in data and len(data)}
        context = {name: float({**latest, **self.context}.get(name, np.nan)) for name in contextual}
        for name, value in context.items():
            low, high = vocs.variables[name].domain
            if not (np.isfinite(value) and low <= value <= high):
                has_range = np.isfinite([low, high]).all()
                where = f" from {low} to {high}" if has_range else ""
                raise ValueError(
                    f"the contextual variable {name} must have a value{where} in context or in the "
                    f"latest row of the data, got {value}"
                )
        return context

    def _read_plays(
        self, variables: CodedVariables, data: pd.DataFrame, present: float
    ) -> tuple[Array, Array, Array]:
        """Return the points (n, d), readings (n,) and times (n,) of the rows that can be used."""
        (objective,) = self.vocs.objectives
        is_valid, X = variables.encode(data)
        if not is_valid.all():
            row = data.index[~is_valid][0]
            values = {name: data[name][row] if name in data else None for name in variables.scales}
            warnings.warn(
                f"{(~is_valid).sum()} of {len(data)} rows are left out, since a variable has no value "
                f"in its range; the first is row {row} with {values}",
                stacklevel=3,
            )
        rows = data.reindex(columns=[self.time_column, objective])[is_valid]
        y = pd.to_numeric(rows[objective]).to_numpy(dtype=float, na_value=np.nan)
        t = _as_seconds(rows[self.time_column], f"the column {self.time_column!r}")
        for bad, problem in (
            (np.isnan(t) & ~np.isnan(y), "none"),
            # Milliseconds that are taken for seconds would make all readings seem new.
            ((t > present + 86_400.0) & (self.clock is time.time), "one more than a day from now"),
        ):
            if bad.any():
                columns = ", ".join(map(str, data.columns))
                raise ValueError(
                    f"the data need the time of each reading in a column {self.time_column!r}, in the "
                    f"unit of the clock, got {columns}, and {problem} in row {rows.index[bad][0]}"
                )
        # A failed evaluation may have no time; then it gets that of an adjacent row.
        times = pd.Series(t).ffill().bfill().fillna(present).to_numpy()
        return X, as_readings(y), np.asarray(times)

    def _forget_pending(self, variables: CodedVariables, data: pd.DataFrame) -> None:
        """Remove one pending point for each new row: the oldest with equal values, in any context."""
        names, choosable = list(variables.scales), variables.choosable
        before, self._rows = self._rows, len(data)
        if len(data) < before or set(self._pending.columns) != set(names):
            self._pending = pd.DataFrame(columns=names, dtype=float)
        for row in data.iloc[before:].reindex(columns=choosable).to_numpy(dtype=float):
            is_equal = np.isclose(self._pending[choosable].to_numpy(), row, atol=0.0).all(axis=1)
            if len(is_equal):
                remains = np.arange(len(is_equal)) != is_equal.argmax()
                self._pending = self._pending[remains]


class CodedVariables:
    """A `Space` for the variables of a VOCS, with a map between their values.

    Ranges are scaled to [0, 1], and discrete variables are coded by the indices of their sorted values.
    A variable with a single value is not part of the space. Contextual variables are its context; one
    without a range has the range of the data and its present value.
    """

    def __init__(
        self,
        vocs: VOCS,
        data: pd.DataFrame | None = None,
        context: Mapping[str, float] | None = None,
    ) -> None:
        context = context or {}
        # The order of the space is that of the names, in which Xopt writes variables to a file.
        self.choosable = [name for name in sorted(vocs.variables) if name not in context]
        # By variable, its sorted values or the two ends of its range.
        self.scales = {name: _values_or_range(vocs.variables[name]) for name in self.choosable}
        self.context = [*context]
        for name, present in context.items():
            values = [] if data is None or name not in data else [*data[name].dropna()]
            series = pd.Series([*values, present], dtype=float)
            self.scales[name] = [
                *resolve_contextual_variable_bounds(vocs.variables[name], series, name)
            ]
        self.discrete = {
            name
            for name, variable in vocs.variables.items()
            if isinstance(variable, DiscreteVariable)
        }
        self.dimensions = [name for name in self.choosable if len(self.scales[name]) > 1]
        if not self.dimensions:
            raise VOCSError(
                f"at least one variable must have several values or a range, got {self.scales}"
            )
        parameters: dict[str, Any] = {
            parameter_name(name): Integer(0, len(self.scales[name]) - 1)
            if name in self.discrete
            else (0.0, 1.0)
            for name in self.dimensions
        }
        ranges = dict.fromkeys(self.context, (0.0, 1.0))
        self.space = Space(context=ranges, **parameters)

    def normalize_context(self, context: Mapping[str, float]) -> dict[str, float]:
        """Return the values of a context, scaled from their ranges to [0, 1]."""
        return {
            name: float(np.clip(normalize(value, *self.scales[name]), 0.0, 1.0))
            for name, value in context.items()
        }

    def encode(self, rows: pd.DataFrame) -> tuple[NDArray[np.bool_], Array]:
        """Return a mask (n,) of the rows with a valid value of each variable, and their points."""
        codes = {name: self._encode_column(name, rows) for name in self.scales}
        is_valid = np.isfinite(np.column_stack(list(codes.values()))).all(axis=1)
        columns = [codes[name] for name in (*self.dimensions, *self.context)]
        return np.asarray(is_valid), np.column_stack(columns)[is_valid]

    def decode(self, X: Array) -> list[dict[Hashable, Any]]:
        """Return the values of the chosen variables at points (n, d)."""
        rows = [dict(zip((*self.dimensions, *self.context), x, strict=True)) for x in X.tolist()]
        return [{name: self._decode_value(name, row) for name in self.choosable} for row in rows]

    def _encode_column(self, name: str, rows: pd.DataFrame) -> Array:
        """Return the codes (n,) of a variable's values, NaN for values outside its range."""
        if name not in rows:
            return np.full(len(rows), np.nan)
        values = pd.to_numeric(rows[name]).to_numpy(dtype=float, na_value=np.nan)
        scale = self.scales[name]
        if name in self.discrete:
            distance = np.abs(values[:, None] - scale)
            codes = distance.argmin(axis=1).astype(float)
            is_outside = ~(distance.min(axis=1) <= TOLERANCE * (np.ptp(scale) or abs(scale[0])))
        else:
            coordinates = normalize(values, *scale)
            codes = np.clip(coordinates, 0.0, 1.0)
            is_outside = ~(np.abs(coordinates - codes) <= TOLERANCE)
        return np.where(is_outside, np.nan, codes)

    def _decode_value(self, name: str, row: Mapping[str, float]) -> float:
        scale = self.scales[name]
        if name not in row:
            return scale[0]
        return scale[int(row[name])] if name in self.discrete else denormalize(row[name], *scale)


def _contextual_names(vocs: VOCS) -> list[str]:
    """Return the sorted names of the variables that are observed and not chosen."""
    pairs = sorted(vocs.variables.items())
    return [name for name, variable in pairs if isinstance(variable, ContextualVariable)]


def _values_or_range(variable: Any) -> list[float]:
    """Return the sorted values of a discrete variable, or the ends of another one's range."""
    if isinstance(variable, DiscreteVariable):
        return sorted(float(value) for value in variable.values)
    return [float(end) for end in variable.domain]


def _as_seconds(values: Iterable[Any], name: str) -> Array:
    """Return times as numbers: dates as seconds since 1970, and NaN for a missing one."""
    return np.array([_as_second(value, name) for value in values], dtype=float)


def _as_second(value: Any, name: str) -> float:
    if pd.isna(value):
        return np.nan
    if isinstance(value, datetime | np.datetime64):
        date = pd.Timestamp(value)
        if date.tzinfo is None:
            remedy = "dates need a time zone, such as pd.Timestamp.now('UTC')"
            raise ValueError(f"{name} has {date} without a time zone: {remedy}")
        return date.timestamp()
    if not isinstance(value, Real):
        requirement = "numbers, such as time.time(), or dates with a time zone"
        raise ValueError(f"{name} must have {requirement}, got {describe(value)}")
    return float(value)


def _find_function(value: Any) -> Callable[..., Any]:
    """Return a function that is given as such, by its name, or by its name and options."""
    function = value
    if isinstance(value, str):
        try:
            function = resolve_name(value if "." in value else f"{policies.__name__}.{value}")
        except (ValueError, ImportError, AttributeError) as error:
            raise ValueError(
                f"there is no function with the name {value!r} ({error}): write a policy as in Python, "
                "such as adaptive_gp_ucb, and another function as package.module.function"
            ) from error
    elif isinstance(value, Mapping) and "name" in value:
        options = {key: option for key, option in value.items() if key != "name"}
        function = partial(_find_function(value["name"]), **options)
    if not callable(function):
        requirement = "a function, its name, or a dict of its name and options"
        raise ValueError(f"policy and clock must be {requirement}, got {describe(value)}")
    return cast("Callable[..., Any]", function)


def _find_name(function: Any) -> Any:
    """Return a value by which `_find_function` finds a function, or else a text that it refuses."""
    if isinstance(function, partial) and not function.args:
        try:
            json.dumps(function.keywords)
        except TypeError:
            return repr(function)
        return {"name": _find_name(function.func), **function.keywords}
    try:
        name = function.__qualname__
        if vars(policies).get(name) is function:
            return name
        path = f"{function.__module__}.{name}"
        return path if resolve_name(path) is function else repr(function)
    except (ValueError, ImportError, AttributeError):
        return repr(function)


# Xopt finds a generator by the name in a file only if it is in this dictionary.
generators[TVGenerator.name] = TVGenerator
