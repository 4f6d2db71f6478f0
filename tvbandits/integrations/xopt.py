"""A bandit as a generator of Xopt, for machines that drift: `Xopt(generator=TVGenerator(vocs=vocs))`.

As for Xopt's own time-dependent generator, the evaluated function returns the time of its reading beside
the objective.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from gest_api.vocs import DiscreteVariable
from pydantic import Field, PrivateAttr
from xopt.generator import Generator

from tvbandits import policies
from tvbandits.bandit.bandit import Bandit
from tvbandits.core.arrays import Array, refuse
from tvbandits.core.parameters import TOLERANCE, Integer
from tvbandits.core.space import Space
from tvbandits.integrations.playing import asked, bandit_on, called, readings


class TVGenerator(Generator):
    """Generates the points that a bandit asks for.

    An evaluation that failed was played and has no reading. What is known is the data alone: a generator
    that is loaded with its data goes on.

    Parameters
    ----------
    vocs : VOCS
        Variables with a range or with values, one objective, and no constraints.
    time_column : str
        The column of the data with the time of each reading.
    added_time : float
        How long after `clock` the points will be played.
    clock : callable
        The time now, in the unit of that column; by default seconds since 1970, as Xopt has it. A
        function: Xopt copies its generator, and with it an object that keeps a time of its own.
    policy : callable
        A recipe of a `Bandit` for a `Space`.
    seed : int

    Raises
    ------
    ValueError
        If data have no time.

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
    clock: Callable[[], float] = Field(time.time, exclude=True)
    policy: Callable[..., Bandit] = Field(policies.adaptive_gp_ucb, exclude=True)
    seed: int = 0

    _space: Space = PrivateAttr()
    _bandit: Bandit = PrivateAttr()
    _told: int = PrivateAttr(0)
    _origin: float | None = PrivateAttr(None)

    def model_post_init(self, context: Any, /) -> None:
        """Make the bandit, which knows nothing yet."""
        super().model_post_init(context)
        self._space = Space(
            **{called(name): _parameter(each) for name, each in self.vocs.variables.items()}
        )
        (objective,) = self.vocs.objectives.values()
        self._bandit = bandit_on(
            self.policy,
            self._space,
            minimise=type(objective).__name__ == "MinimizeObjective",
            seed=self.seed,
        )

    @property
    def bandit(self) -> Bandit:
        """The bandit, which knows the data that came before the latest points."""
        return self._bandit

    def generate(self, n_candidates: int) -> list[dict[Hashable, Any]]:
        """Tell the bandit what is new, and ask it for so many points."""
        now = float(self.clock())
        self._tell(now)
        if self._origin is None:
            self._origin = now + self.added_time
        X = asked(self._bandit, now + self.added_time - self._origin, n_candidates)
        found = self._space.decode(X)
        for name, variable in self.vocs.variables.items():
            if isinstance(variable, DiscreteVariable):
                values = sorted(variable.values)
                found[called(name)] = [values[row] for row in found[called(name)]]
        return found.set_axis(list(self.vocs.variables), axis=1).to_dict("records")

    def _tell(self, now: float) -> None:
        data = self.data
        if data is None or len(data) == self._told:
            return
        (objective,) = self.vocs.objectives
        read = data.reindex(columns=[self.time_column, objective]).apply(pd.to_numeric)
        times, y = (column.to_numpy(dtype=float, na_value=np.nan) for _, column in read.items())
        if (bad := np.isnan(times) & ~np.isnan(y)).any():
            raise ValueError(
                f"the data need the time of each reading in a column {self.time_column!r}, got "
                f"{', '.join(map(str, data.columns))}, and none in row {data.index[bad][0]}"
            )
        # What failed returned no time: it was played about when its neighbours were.
        times = pd.Series(times).ffill().bfill().fillna(now).to_numpy()
        if self._origin is None:
            self._origin = float(times[0])
        new = slice(self._told, None)
        self._bandit.tell(self._encoded(data[new]), readings(y[new]), times[new] - self._origin)
        self._told = len(data)

    def _encoded(self, rows: pd.DataFrame) -> Array:
        columns = {}
        for name, variable in self.vocs.variables.items():
            column = rows[name].to_numpy(dtype=float)
            if isinstance(variable, DiscreteVariable):
                values = np.sort(list(variable.values))
                apart = np.abs(column[:, None] - values)
                other = ~(apart.min(axis=1) <= TOLERANCE * np.ptp(values))
                refuse(other, column, f"{name} must be one of {values.tolist()}")
                column = apart.argmin(axis=1)
            columns[called(name)] = column
        return self._space.encode(pd.DataFrame(columns))


def _parameter(variable: Any) -> Any:
    if isinstance(variable, DiscreteVariable):
        return Integer(0, len(variable.values) - 1)
    return tuple(variable.domain)
