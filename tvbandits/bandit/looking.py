"""What a bandit shows without changing, and what all of its calls share: one at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from tvbandits.acquisition.availability import Allowed, Among, Available, available
from tvbandits.bandit.inference import Model
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.resuming import generator_of
from tvbandits.bandit.state import Info, State, same_value
from tvbandits.core.arrays import Array, as_points, as_time
from tvbandits.core.display import as_html, history_of
from tvbandits.core.domains.parameters import has_names
from tvbandits.core.files.saving import save_value
from tvbandits.core.protocols import state_of
from tvbandits.gp.threads import Turns

P = ParamSpec("P")
S = TypeVar("S", bound="Looking")
T = TypeVar("T")


def in_turn(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """One call at a time: other threads wait, and a call from inside of a call is refused."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._turns.take(method.__name__, partial(method, self, *args, **kwargs))

    return call


class Looking:
    """A recipe and the present state, looked at; a lock around every call, and the random generator.

    Parameters
    ----------
    recipe : Recipe
    state : State
    """

    def __init__(self, recipe: Recipe, state: State) -> None:
        self._recipe, self._state = recipe, state
        self._live: tuple[Mapping[str, Any], np.random.Generator] | None = None
        self._turns = Turns()

    def __repr__(self) -> str:
        state = self._state
        at = "at the start" if state.time is None else f"at t = {state.time:g}"
        out = f", {len(state.pending)} out" if len(state.pending) else ""
        return f"<Bandit on {self._recipe.domain!r}, {len(state.rewards)} rewards told{out}, {at}>"

    def _repr_html_(self) -> str:
        recipe = self._recipe
        parts = [("domain", recipe.domain), ("kernel", self._state.model.kernel)]
        parts += [("aging", self._state.model.aging), ("width", recipe.confidence)]
        return as_html("Bandit", [*parts, *self._state.summary])

    @cached_property
    def _model(self) -> Model:
        return Model(self._recipe)

    @property
    def recipe(self) -> Recipe:
        """The parts this bandit is made of."""
        return self._recipe

    @property
    def state(self) -> State:
        """Everything it has learned, frozen, with what its expert knows where that can be taken."""
        # From inside of a call, such as by its expert: the state from before that call.
        return self._whole() if self._turns.mine else self._turns.take("state", self._whole)

    def _whole(self) -> State:
        expert = None if self._recipe.asking is None else self._recipe.asking.expert
        known = state_of(expert)
        if known is not None and not same_value(known, self._state.expert):
            self._state = replace(self._state, expert=known)
        return self._state

    @property
    def info(self) -> Info:
        """What happened in the last `ask` and `tell`."""
        return self._state.info

    @property
    def pending(self) -> Array:
        """Points asked and not yet told, in the order they were asked, shape (k, d)."""
        return self._state.pending.X.copy()

    @property
    def history(self) -> pd.DataFrame:
        """What was told, answered and asked: time, coordinates, reward, variance, source, kind."""
        state = self._state
        return history_of(state.domain, state.rewards, state.answers, state.failed, state.pending)

    @in_turn
    def predict(self, X: ArrayLike, t: float | None = None) -> tuple[Array, Array]:
        """Posterior mean and deviation of the reward, in its unit; changes nothing.

        A learned kernel that has missed more than it said shows wider deviations (`Calibration`);
        decisions take them as they are.

        Parameters
        ----------
        X : array of shape (m, d)
            Any finite points; on a space also a DataFrame or dictionaries.
        t : float, optional
            The time spoken about; by default the time of the next decision.

        Returns
        -------
        mean, deviation : arrays of shape (m,)

        Raises
        ------
        ValueError
            If a point or the time is not finite.
        """
        domain = self._recipe.domain
        encode = getattr(domain, "encode", None)
        given = encode(X) if encode is not None and has_names(X) else X
        points = as_points(given, domain.dimension)
        state, now, _ = self._conditioned_for(t)
        with self._model.one_thread(state):
            mean, deviation = self._model.view(state, now).reward(points)
        return (-mean if self._recipe.minimise else mean), deviation

    @in_turn
    def recommend(
        self, t: float | None = None, among: Among = None, context: ArrayLike | None = None
    ) -> Array:
        """The point (d,) of the best posterior mean at time `t`, by default the next decision's.

        Parameters
        ----------
        t : float, optional
        among, context
            What is available, as for `ask`.

        Raises
        ------
        ValueError
            As for `ask`; or if nothing was told or answered yet.
        NothingAvailableError
            If nothing is available.
        """
        free = available(self._recipe.domain, among, context)
        if not (len(self._state.rewards) or len(self._state.answers)):
            raise ValueError("there is nothing to recommend: no reward and no answer was told yet")
        return self._best(t, free)

    def _best(self, t: float | None, free: Available | None) -> Array:
        """The point of the best mean, of any context where none is said."""
        domain = self._recipe.domain
        state, now, rng = self._conditioned_for(t)
        with self._model.one_thread(state):
            allowed = Allowed(domain, free, np.empty((0, domain.dimension)))
            return allowed.best(self._model.view(state, now).mean_to_climb(), rng)

    def _conditioned_for(self, t: float | None) -> tuple[State, float, np.random.Generator]:
        """The state conditioned for a look that changes nothing, and a generator for its ties."""
        now, rng = self._decision_time(t), generator_of(self._state.random)
        with self._model.one_thread(self._state):
            return self._model.conditioned(self._state, now, rng), now, rng

    def _decision_time(self, t: float | None) -> float:
        if t is None:
            return 1.0 if self._state.time is None else self._state.time + 1.0
        return as_time(t)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file that no code can be run from; `tvbandits.load` goes on with it.

        The recipe and the state, wholly or not at all: a file of that name stays as it was until the new
        one is on the disk. Parts that are not of this package, such as an expert of your own, are
        written by name, and must be handed over when the file is loaded.

        Raises
        ------
        ValueError
            If a part has no name by which it could be handed over, such as a lambda.
        OSError
            If the file cannot be written.
        """
        save_value(path, self)

    def __saved__(self) -> dict[str, Any]:
        return {"recipe": self._recipe, "state": self.state}

    def _generator(self, state: State) -> np.random.Generator:
        """The generator that continues from `state`: the live one, or one made anew.

        It is taken, not lent: a call that fails does not bring it back by `_stored`, so that the next
        one starts again from the state.
        """
        live, self._live = self._live, None
        if live is not None and live[0] is state.random:
            return live[1]
        return generator_of(state.random)

    def _stored(self, rng: np.random.Generator) -> Mapping[str, Any]:
        """The state of `rng`, which stays live for the next call."""
        self._live = (rng.bit_generator.state, rng)
        return self._live[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"_recipe": self._recipe, "_state": self._state}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept, _live=None, _turns=Turns())
