"""A bandit as a generator of Xopt, for machines that drift: `Xopt(generator=TVGenerator(vocs=vocs))`.

As for Xopt's own time-dependent generator, the evaluated function returns the time of its reading beside
the objective. Once this module is imported, Xopt finds the generator by its name, `tvbandits`.
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

from tvbandits import policies
from tvbandits.bandit.bandit import Bandit
from tvbandits.domains.parameters import TOLERANCE, Integer
from tvbandits.domains.space import Space
from tvbandits.integrations.playing import (
    asked,
    bandit_on,
    called,
    readings,
    share_of,
    value_at,
    with_pending,
)
from tvbandits.validation import Array, describe

DAY = 86_400.0


class TVGenerator(Generator):
    """Generates the points that a bandit asks for.

    The points follow from the data, the time and the options alone: each time a new bandit is told all
    the data. Data may be loaded, replaced, completed or reset, and the variables changed, at any time.
    An evaluation that failed was played and has no reading. Rows without a value of each variable in its
    range are left out, with a warning.

    Parameters
    ----------
    vocs : VOCS
        Variables with a range or with values, one objective to minimize or maximize, and no constraints.
    time_column : str
        The column of the data with the time of each reading: numbers, or dates with a time zone.
    added_time : float
        How long after `clock` the points will be played.
    clock : callable or str
        The time now, in the unit of that column; by default seconds since 1970, as Xopt has it. A
        function: Xopt copies its generator, and with it an object that keeps a time of its own.
    policy : callable, str or dict
        A recipe of a `Bandit` for a `Space`, or its name: "tv_gp_ucb"; with options as `partial` or as
        {"name": "sw_gp_ucb", "window": 30}. A function of your own is written to a file by the name of
        its module and its own, by which it must be found when that is read.
    seed : int

    Raises
    ------
    ValueError
        If data have no time, or one that is no time.

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

    time_column: str = Field("time", description="column with the time of a reading")
    added_time: float = Field(0.0, description="time from the decision to its reading")
    # By name, as defaults that Xopt can write to a file.
    clock: Any = Field("time.time", validate_default=True, description="function: the time now")
    policy: Any = Field("adaptive_gp_ucb", validate_default=True, description="recipe of a bandit")
    seed: int = Field(0, ge=0, description="of the random numbers")

    _bandit: Bandit | None = PrivateAttr(None)
    # Points that were generated and not read yet, by the time for which that was.
    _pending: pd.DataFrame = PrivateAttr(default_factory=pd.DataFrame)
    _rows: int = PrivateAttr(0)

    @field_validator("vocs", mode="after")
    @classmethod
    def check_vocs(cls, vocs: VOCS) -> VOCS:
        """Refuse what no point can be generated for."""
        for name, variable in vocs.variables.items():
            if not isinstance(variable, ContinuousVariable | DiscreteVariable):
                raise VOCSError(f"{name} must have a range or values, got {variable}")
            if not np.isfinite(_values(variable)).all():
                raise VOCSError(f"{name} must have a finite range or values, got {variable}")
        for name, objective in vocs.objectives.items():
            if isinstance(objective, ExploreObjective):
                needs = "TVGenerator needs one to MINIMIZE or MAXIMIZE"
                raise VOCSError(f"the objective {name} is one to EXPLORE: {needs}")
        return vocs

    @field_validator("policy", "clock", mode="before")
    @classmethod
    def check_function(cls, given: Any) -> Callable[..., Any]:
        """A function from its name, or as it is."""
        return _function(given)

    @field_serializer("policy", "clock")
    def name_function(self, function: Callable[..., Any]) -> Any:
        """The name by which it is found when a file is read."""
        return _name(function)

    @property
    def bandit(self) -> Bandit | None:
        """The bandit of the latest points; None before them.

        It plays on shares of ranges from 0 to 1, and on the numbers of values in their order.
        """
        return self._bandit

    def generate(self, n_candidates: int | None) -> list[dict[Hashable, Any]]:
        """Tell a bandit all the data, and ask it for so many points."""
        variables = CodedVariables(self.check_vocs(self.vocs))  # which may be changed in place
        (now,) = _seconds([self.clock()], "the clock")
        X, y, t = self._plays(variables, now)
        self._forget_pending(list(variables.parts))
        due = now + self.added_time
        origin = t[0] if len(t) else due

        # Of what is known alone, so that one that is loaded with the same data draws the same numbers.
        numbers = self.seed, len(X), len(self._pending)
        seed = int(np.random.SeedSequence(numbers).generate_state(1)[0])
        (objective,) = self.vocs.objectives.values()
        minimize = isinstance(objective, MinimizeObjective)
        bandit = bandit_on(self.policy, variables.space, minimize=minimize, seed=seed)
        if len(X):
            bandit.tell(X, y, t - origin)
        inside, waiting = variables.encode(self._pending)
        asked_for = self._pending.index.to_numpy(dtype=float)[inside]
        bandit = with_pending(bandit, waiting, asked_for - origin)
        points = variables.decode(asked(bandit, due - origin, n_candidates))
        self._bandit = bandit
        fresh = pd.DataFrame(points, index=[due] * len(points))
        self._pending = pd.concat([self._pending, fresh]) if len(self._pending) else fresh
        return points

    def _plays(self, variables: CodedVariables, now: float) -> tuple[Array, Array, Array]:
        """The points (n, d), readings and times of the data that can be used."""
        (objective,) = self.vocs.objectives
        data = pd.DataFrame() if self.data is None else self.data
        inside, X = variables.encode(data)
        if not inside.all():
            row = data.index[~inside][0]
            values = {name: data[name][row] if name in data else None for name in variables.parts}
            warnings.warn(
                f"{(~inside).sum()} of {len(data)} rows are left out: not every variable has a value "
                f"in its range; the first is row {row} with {values}",
                stacklevel=3,
            )
        read = data.reindex(columns=[self.time_column, objective])[inside]
        y = pd.to_numeric(read[objective]).to_numpy(dtype=float, na_value=np.nan)
        t = _seconds(read[self.time_column], f"the column {self.time_column!r}")
        for bad, says in (
            (np.isnan(t) & ~np.isnan(y), "none"),
            # As of milliseconds: what is read as seconds would make every reading a new one.
            ((t > now + DAY) & (self.clock is time.time), "one more than a day from now"),
        ):
            if bad.any():
                columns = ", ".join(map(str, data.columns))
                raise ValueError(
                    f"the data need the time of each reading in a column {self.time_column!r}, in the "
                    f"unit of the clock, got {columns}, and {says} in row {read.index[bad][0]}"
                )
        # What failed returned no time: it was played about when its neighbours were.
        times = pd.Series(t).ffill().bfill().fillna(now).to_numpy()
        return X, readings(y), np.asarray(times)

    def _forget_pending(self, names: list[str]) -> None:
        """Take each new row as the reading of a point that was asked for: of its own, or the oldest."""
        data = pd.DataFrame() if self.data is None else self.data
        before, self._rows = self._rows, len(data)
        if len(data) < before or list(self._pending.columns) != names:
            self._pending = pd.DataFrame(columns=names, dtype=float)
        for row in data.iloc[before:].reindex(columns=names).to_numpy(dtype=float):
            same = np.isclose(self._pending.to_numpy(), row, atol=0.0).all(axis=1)
            if len(same):
                kept = np.arange(len(same)) != same.argmax()
                self._pending = self._pending[kept]


class CodedVariables:
    """The variables of Xopt as a `Space`: shares of ranges, and values by their place among the others.

    A variable of a single value is no part of the space.
    """

    def __init__(self, vocs: VOCS) -> None:
        # A file of Xopt has them in the order of their names: one that is read asks for the same points.
        self.parts = {name: _values(vocs.variables[name]) for name in sorted(vocs.variables)}
        self.discrete = {
            name for name, each in vocs.variables.items() if isinstance(each, DiscreteVariable)
        }
        self.free = [name for name, values in self.parts.items() if len(values) > 1]
        if not self.free:
            raise VOCSError(f"every variable has a single value: {self.parts}")
        space: dict[str, Any] = {
            called(name): Integer(0, len(self.parts[name]) - 1)
            if name in self.discrete
            else (0.0, 1.0)
            for name in self.free
        }
        self.space = Space(**space)

    def encode(self, rows: pd.DataFrame) -> tuple[NDArray[np.bool_], Array]:
        """Which rows (n,) have a value in the range of each variable, and their points."""
        codes = {name: self._codes(name, rows) for name in self.parts}
        inside = np.isfinite(np.column_stack(list(codes.values()))).all(axis=1)
        return np.asarray(inside), np.column_stack([codes[name] for name in self.free])[inside]

    def decode(self, X: Array) -> list[dict[Hashable, Any]]:
        """The values of points (n, d)."""
        rows = [dict(zip(self.free, x, strict=True)) for x in X.tolist()]
        return [{name: self._value(name, row) for name in self.parts} for row in rows]

    def _codes(self, name: str, rows: pd.DataFrame) -> Array:
        if name not in rows:
            return np.full(len(rows), np.nan)
        values = pd.to_numeric(rows[name]).to_numpy(dtype=float, na_value=np.nan)
        known = self.parts[name]
        if name in self.discrete:
            apart = np.abs(values[:, None] - known)
            codes = apart.argmin(axis=1).astype(float)
            outside = ~(apart.min(axis=1) <= TOLERANCE * (np.ptp(known) or abs(known[0])))
        else:
            shares = share_of(values, *known)
            codes = np.clip(shares, 0.0, 1.0)
            outside = ~(np.abs(shares - codes) <= TOLERANCE)
        return np.where(outside, np.nan, codes)

    def _value(self, name: str, row: Mapping[str, float]) -> float:
        known = self.parts[name]
        if name not in row:
            return known[0]
        return known[int(row[name])] if name in self.discrete else value_at(row[name], *known)


def _values(variable: Any) -> list[float]:
    """The values of a variable in their order, or the ends of its range."""
    if isinstance(variable, DiscreteVariable):
        return sorted(float(each) for each in variable.values)
    return [float(each) for each in variable.domain]


def _seconds(values: Iterable[Any], what: str) -> Array:
    """Times as numbers: of dates the seconds since 1970; NaN where there is none."""
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


def _function(given: Any) -> Callable[..., Any]:
    """A function from its name, from its name and options, or as it is."""
    found = given
    if isinstance(given, str):
        try:
            found = resolve_name(given if "." in given else f"{policies.__name__}.{given}")
        except (ValueError, ImportError, AttributeError) as error:
            raise ValueError(f"found no function of the name {given!r}: {error}") from error
    elif isinstance(given, Mapping) and "name" in given:
        options = {key: value for key, value in given.items() if key != "name"}
        found = partial(_function(given["name"]), **options)
    if not callable(found):
        needs = "a function, its name, or a dict of its name and options"
        raise ValueError(f"policy and clock must be {needs}, got {describe(given)}")
    return cast("Callable[..., Any]", found)


def _name(function: Any) -> Any:
    """What `_function` finds a function by; or what says why it cannot."""
    if isinstance(function, partial) and not function.args:
        try:
            json.dumps(function.keywords)
        except TypeError:
            return repr(function)
        return {"name": _name(function.func), **function.keywords}
    own = getattr(function, "__qualname__", "")
    if getattr(policies, own, None) is function:
        return own
    name = f"{getattr(function, '__module__', '')}.{own}"
    try:
        return name if resolve_name(name) is function else repr(function)
    except (ValueError, ImportError, AttributeError):
        return repr(function)


# As Xopt's own: it knows no other way to find a generator by the name that stands in a file.
generators[TVGenerator.name] = TVGenerator
