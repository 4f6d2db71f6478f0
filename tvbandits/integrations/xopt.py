"""A bandit as a generator of Xopt, for machines that drift: `Xopt(generator=TVGenerator(vocs=vocs))`.

As with Xopt's own time-dependent generator, the function that is evaluated returns the time of its
reading beside the objective. Once this module is imported, Xopt finds the generator by its name,
`tvbandits`.
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
from tvbandits.integrations.playing import (
    as_readings,
    ask_at,
    from_share,
    make_bandit,
    parameter_name,
    set_pending,
    to_share,
)
from tvbandits.validation import Array, describe


class TVGenerator(Generator):
    """A generator that asks a bandit.

    The points depend on the data, the time and the options alone: each call makes a new bandit and tells
    it all the data. Data may be loaded, replaced, completed or reset, and the variables changed, at any
    time. An evaluation that failed is a play without a reading. Rows that lack a value in the range of a
    variable are left out, with a warning.

    As with Xopt's own generators, a contextual variable is observed and not chosen: the points lack it,
    and the function that is evaluated returns it. One without a range of its own has that of the data.

    Parameters
    ----------
    vocs : VOCS
        Variables with a range or with values, perhaps contextual ones, one objective to minimize or
        maximize, no constraints.
    time_column : str
        The column of the data with the time of each reading: numbers, or dates with a time zone.
    added_time : float
        The time from the decision to the reading.
    clock : callable or str
        A function that returns the time now, in the unit of that column; by default seconds since 1970,
        as in Xopt. An object with a time of its own would not do, since Xopt copies its generator.
    context : dict
        The values of contextual variables now, by name, which you may set before each step. A variable
        that is not in it has its value in the latest row of the data, as with Xopt's own generators.
    policy : callable, str or dict
        A recipe of a `Bandit` for a `Space`, or its name: "tv_gp_ucb"; with options as `partial` or as
        {"name": "sw_gp_ucb", "window": 30}. A function of your own is written to a file by its name and
        that of its module, and must be found by them when the file is read.
    seed : int

    Raises
    ------
    ValueError
        If data have no time, or one that is no time; if the context has no value, or a wrong one.

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
    added_time: float = Field(0.0, description="time from the decision to its reading")
    context: dict[str, float] = Field({}, description="contextual variables now")
    # Names, so that Xopt can write the defaults to a file.
    clock: Any = Field("time.time", validate_default=True, description="function: the time now")
    policy: Any = Field("adaptive_gp_ucb", validate_default=True, description="recipe of a bandit")
    seed: int = Field(0, ge=0, description="of the random numbers")

    _bandit: Bandit | None = PrivateAttr(None)
    # Points that were generated and have no reading yet, by their time.
    _pending: pd.DataFrame = PrivateAttr(default_factory=pd.DataFrame)
    _rows: int = PrivateAttr(0)

    @field_validator("vocs", mode="after")
    @classmethod
    def check_vocs(cls, vocs: VOCS) -> VOCS:
        """Raise an error if no point can be generated."""
        if len(_contextual(vocs)) == len(vocs.variables):
            raise VOCSError("every variable is contextual: TVGenerator needs one to choose")
        for name, variable in vocs.variables.items():
            if not isinstance(variable, ContinuousVariable | DiscreteVariable):
                raise VOCSError(f"{name} must have a range or values, got {variable}")
            if isinstance(variable, ContextualVariable):
                continue
            if not np.isfinite(_values(variable)).all():
                raise VOCSError(f"{name} must have a finite range or values, got {variable}")
        for name, objective in vocs.objectives.items():
            if isinstance(objective, ExploreObjective):
                needs = "TVGenerator needs one to MINIMIZE or MAXIMIZE"
                raise VOCSError(f"the objective {name} is one to EXPLORE: {needs}")
        return vocs

    @field_validator("policy", "clock", mode="before")
    @classmethod
    def check_function(cls, value: Any) -> Callable[..., Any]:
        """Return a function from its name, or as it is."""
        return _function(value)

    @field_serializer("policy", "clock")
    def name_function(self, function: Callable[..., Any]) -> Any:
        """Return the name by which the function is found when a file is read."""
        return _name(function)

    @property
    def bandit(self) -> Bandit | None:
        """The bandit of the latest points; at first None.

        It plays on shares of ranges, from 0 to 1, and on the numbers of values in their order.
        """
        return self._bandit

    def generate(self, n_candidates: int | None) -> list[dict[Hashable, Any]]:
        """Tell a new bandit all the data, and return the points that it asks for."""
        vocs = self.check_vocs(self.vocs)  # which users may change in place
        (now,) = _seconds([self.clock()], "the clock")
        data = self._data_with_context(vocs)
        context = self._context_now(vocs, data)
        variables = CodedVariables(vocs, data, context)
        X, y, t = self._plays(variables, data, now)
        self._forget_pending(variables, data)
        play_time = now + self.added_time
        origin = t[0] if len(t) else play_time

        # The seed depends on the data alone, so that a generator with the same data draws the same.
        numbers = self.seed, len(X), len(self._pending)
        seed = int(np.random.SeedSequence(numbers).generate_state(1)[0])
        (objective,) = self.vocs.objectives.values()
        minimize = isinstance(objective, MinimizeObjective)
        bandit = make_bandit(self.policy, variables.space, minimize=minimize, seed=seed)
        if len(X):
            bandit.tell(X, y, t - origin)
        inside, pending = variables.encode(self._pending)
        pending_times = self._pending.index.to_numpy(dtype=float)[inside]
        bandit = set_pending(bandit, pending, pending_times - origin)
        asked = ask_at(bandit, play_time - origin, n_candidates, variables.shares(context))
        points = variables.decode(asked)
        self._bandit = bandit
        new = pd.DataFrame([each | context for each in points], index=[play_time] * len(points))
        self._pending = pd.concat([self._pending, new]) if len(self._pending) else new
        return points

    def _data_with_context(self, vocs: VOCS) -> pd.DataFrame:
        """Return the data, where an evaluation that failed has the context of its neighbours."""
        data = pd.DataFrame() if self.data is None else self.data
        (objective,) = vocs.objectives
        names = [name for name in _contextual(vocs) if name in data]
        if not names or objective not in data:
            return data
        numbers = data[names].apply(pd.to_numeric)
        failed = pd.to_numeric(data[objective]).isna()
        return data.assign(
            **numbers.mask(failed & numbers.isna().any(axis=1), numbers.ffill().bfill())
        )

    def _context_now(self, vocs: VOCS, data: pd.DataFrame) -> dict[str, float]:
        """Return the value of each contextual variable: of the option, or of the latest row."""
        contextual = _contextual(vocs)
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

    def _plays(
        self, variables: CodedVariables, data: pd.DataFrame, now: float
    ) -> tuple[Array, Array, Array]:
        """Return the points (n, d), readings (n,) and times (n,) of the rows that can be used."""
        (objective,) = self.vocs.objectives
        inside, X = variables.encode(data)
        if not inside.all():
            row = data.index[~inside][0]
            values = {name: data[name][row] if name in data else None for name in variables.parts}
            warnings.warn(
                f"{(~inside).sum()} of {len(data)} rows are left out, since a variable has no value in "
                f"its range; the first is row {row} with {values}",
                stacklevel=3,
            )
        rows = data.reindex(columns=[self.time_column, objective])[inside]
        y = pd.to_numeric(rows[objective]).to_numpy(dtype=float, na_value=np.nan)
        t = _seconds(rows[self.time_column], f"the column {self.time_column!r}")
        for bad, problem in (
            (np.isnan(t) & ~np.isnan(y), "none"),
            # Milliseconds that are taken for seconds would make all readings seem new.
            ((t > now + 86_400.0) & (self.clock is time.time), "one more than a day from now"),
        ):
            if bad.any():
                columns = ", ".join(map(str, data.columns))
                raise ValueError(
                    f"the data need the time of each reading in a column {self.time_column!r}, in the "
                    f"unit of the clock, got {columns}, and {problem} in row {rows.index[bad][0]}"
                )
        # A failed evaluation has no time: use that of its neighbours.
        times = pd.Series(t).ffill().bfill().fillna(now).to_numpy()
        return X, as_readings(y), np.asarray(times)

    def _forget_pending(self, variables: CodedVariables, data: pd.DataFrame) -> None:
        """Remove the pending point of each new row: the oldest with its values, in any context."""
        names, chosen = list(variables.parts), variables.chosen
        before, self._rows = self._rows, len(data)
        if len(data) < before or set(self._pending.columns) != set(names):
            self._pending = pd.DataFrame(columns=names, dtype=float)
        for row in data.iloc[before:].reindex(columns=chosen).to_numpy(dtype=float):
            same = np.isclose(self._pending[chosen].to_numpy(), row, atol=0.0).all(axis=1)
            if len(same):
                others = np.arange(len(same)) != same.argmax()
                self._pending = self._pending[others]


class CodedVariables:
    """The variables of Xopt as a `Space`: shares of ranges, and numbers of values in their order.

    A variable with a single value is not part of the space. A contextual one is its context; without a
    range it has that of the data and of its value now.
    """

    def __init__(
        self,
        vocs: VOCS,
        data: pd.DataFrame | None = None,
        context: Mapping[str, float] | None = None,
    ) -> None:
        context = context or {}
        # Xopt writes them to a file in the order of their names.
        self.chosen = [name for name in sorted(vocs.variables) if name not in context]
        self.parts = {name: _values(vocs.variables[name]) for name in self.chosen}
        self.context = [*context]
        for name, now in context.items():
            values = [] if data is None or name not in data else [*data[name].dropna()]
            series = pd.Series([*values, now], dtype=float)
            self.parts[name] = [
                *resolve_contextual_variable_bounds(vocs.variables[name], series, name)
            ]
        self.discrete = {
            name for name, each in vocs.variables.items() if isinstance(each, DiscreteVariable)
        }
        self.free = [name for name in self.chosen if len(self.parts[name]) > 1]
        if not self.free:
            raise VOCSError(f"every variable has a single value: {self.parts}")
        space: dict[str, Any] = {
            parameter_name(name): Integer(0, len(self.parts[name]) - 1)
            if name in self.discrete
            else (0.0, 1.0)
            for name in self.free
        }
        ranges = dict.fromkeys(self.context, (0.0, 1.0))
        self.space = Space(context=ranges, **space)

    def shares(self, context: Mapping[str, float]) -> dict[str, float]:
        """Return the context of a decision, as shares of its ranges."""
        return {
            name: float(np.clip(to_share(value, *self.parts[name]), 0.0, 1.0))
            for name, value in context.items()
        }

    def encode(self, rows: pd.DataFrame) -> tuple[NDArray[np.bool_], Array]:
        """Return which rows (n,) have a value in the range of each variable, and their points."""
        codes = {name: self._codes(name, rows) for name in self.parts}
        inside = np.isfinite(np.column_stack(list(codes.values()))).all(axis=1)
        columns = [codes[name] for name in (*self.free, *self.context)]
        return np.asarray(inside), np.column_stack(columns)[inside]

    def decode(self, X: Array) -> list[dict[Hashable, Any]]:
        """Return the values of points (n, d)."""
        rows = [dict(zip((*self.free, *self.context), x, strict=True)) for x in X.tolist()]
        return [{name: self._value(name, row) for name in self.chosen} for row in rows]

    def _codes(self, name: str, rows: pd.DataFrame) -> Array:
        if name not in rows:
            return np.full(len(rows), np.nan)
        values = pd.to_numeric(rows[name]).to_numpy(dtype=float, na_value=np.nan)
        part = self.parts[name]
        if name in self.discrete:
            distance = np.abs(values[:, None] - part)
            codes = distance.argmin(axis=1).astype(float)
            outside = ~(distance.min(axis=1) <= TOLERANCE * (np.ptp(part) or abs(part[0])))
        else:
            shares = to_share(values, *part)
            codes = np.clip(shares, 0.0, 1.0)
            outside = ~(np.abs(shares - codes) <= TOLERANCE)
        return np.where(outside, np.nan, codes)

    def _value(self, name: str, row: Mapping[str, float]) -> float:
        part = self.parts[name]
        if name not in row:
            return part[0]
        return part[int(row[name])] if name in self.discrete else from_share(row[name], *part)


def _contextual(vocs: VOCS) -> list[str]:
    """Return the names of the variables that are observed and not chosen, in order."""
    pairs = sorted(vocs.variables.items())
    return [name for name, each in pairs if isinstance(each, ContextualVariable)]


def _values(variable: Any) -> list[float]:
    """Return the values of a variable in their order, or the ends of its range."""
    if isinstance(variable, DiscreteVariable):
        return sorted(float(each) for each in variable.values)
    return [float(each) for each in variable.domain]


def _seconds(values: Iterable[Any], what: str) -> Array:
    """Return times as numbers, dates as seconds since 1970; NaN if there is none."""
    return np.array([_second(each, what) for each in values], dtype=float)


def _second(value: Any, what: str) -> float:
    if pd.isna(value):
        return np.nan
    if isinstance(value, datetime | np.datetime64):
        date = pd.Timestamp(value)
        if date.tzinfo is None:
            needs = "dates need a time zone, such as pd.Timestamp.now('UTC')"
            raise ValueError(f"{what} has {date} without a time zone: {needs}")
        return date.timestamp()
    if not isinstance(value, Real):
        needs = "numbers, such as time.time(), or dates with a time zone"
        raise ValueError(f"{what} must have {needs}, got {describe(value)}")
    return float(value)


def _function(value: Any) -> Callable[..., Any]:
    """Return a function from its name, from its name and options, or as it is."""
    function = value
    if isinstance(value, str):
        try:
            function = resolve_name(value if "." in value else f"{policies.__name__}.{value}")
        except (ValueError, ImportError, AttributeError) as error:
            raise ValueError(
                f"there is no function of the name {value!r} ({error}): policies are called as in "
                "Python, such as adaptive_gp_ucb, and others package.module.function"
            ) from error
    elif isinstance(value, Mapping) and "name" in value:
        options = {key: each for key, each in value.items() if key != "name"}
        function = partial(_function(value["name"]), **options)
    if not callable(function):
        needs = "a function, its name, or a dict of its name and options"
        raise ValueError(f"policy and clock must be {needs}, got {describe(value)}")
    return cast("Callable[..., Any]", function)


def _name(function: Any) -> Any:
    """Return what `_function` finds a function by, or a text that it refuses."""
    if isinstance(function, partial) and not function.args:
        try:
            json.dumps(function.keywords)
        except TypeError:
            return repr(function)
        return {"name": _name(function.func), **function.keywords}
    try:
        own = function.__qualname__
        if vars(policies).get(own) is function:
            return own
        name = f"{function.__module__}.{own}"
        return name if resolve_name(name) is function else repr(function)
    except (ValueError, ImportError, AttributeError):
        return repr(function)


# Xopt has no other way to find a generator by the name in a file.
generators[TVGenerator.name] = TVGenerator
