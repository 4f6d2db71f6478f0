"""Gymnasium environments that play the problems of this package, for agents of other packages.

After this module is imported, `gymnasium.make("tvbandits/drifting-bump-v0")` makes the environment of a
problem by its command-line name. The name "tvbandits.integrations.gymnasium:tvbandits/drifting-bump-v0"
also imports the module.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from tvbandits.datasets.environment import Environment, true_regrets
from tvbandits.datasets.registry import problems
from tvbandits.domains.candidates import as_finite, get_candidates
from tvbandits.domains.problem import Problem
from tvbandits.validation import Array, describe, finite_number

LARGEST_SEED = 2**31 - 1


class ProblemEnv(gymnasium.Env[dict[str, Any], Any]):
    """An environment whose episodes are runs of a problem, with one play in each step.

    A seed has the same realisation and noise as in a comparison, so that the regrets of an agent can be
    compared with those of `compare`.

    Attributes
    ----------
    action_space : Discrete or Box
        Actions are rows of candidates or arms, or points of a box.
    observation_space : Dict
        Observations contain "time" of the next play, shape (1,), and "action" and "reward" of the last
        play (placeholders before the first play). For a problem with limits, they also contain the
        readings "outcomes" of the last play.

    Parameters
    ----------
    problem : Problem
        A problem on candidates, arms or a box, without a context.

    Raises
    ------
    TypeError
        If `problem` is no `Problem`, or has another domain.

    Examples
    --------
    >>> import gymnasium
    >>> import tvbandits.integrations.gymnasium
    >>> env = gymnasium.make("tvbandits/drifting-bump-v0", candidates=101, horizon=3)
    >>> observation, info = env.reset(seed=0)
    >>> for step in range(3):
    ...     observation, reward, terminated, truncated, info = env.step(50)
    >>> print(truncated, info["regret"] == info["best"] - info["value"])
    True True
    """

    def __init__(self, problem: Problem) -> None:
        if not isinstance(problem, Problem):
            raise TypeError(f"problem must be a Problem, got {describe(problem)}")
        domain, candidates = problem.domain, get_candidates(problem.domain)
        if domain.context_parameters or (candidates is None and domain.intervals is None):
            raise TypeError(
                f"a problem must have candidates, arms or a box without a context, got {domain!r}"
            )
        self._environment = Environment.of(problem)
        self._points = None if candidates is None else np.asarray(candidates.X)
        self.action_space = (
            _box(*np.asarray(domain.intervals).T)
            if candidates is None
            else spaces.Discrete(len(candidates))
        )
        parts: dict[str, Any] = {
            "time": _box([1.0], [problem.horizon + 1.0]),
            "action": self.action_space,
            "reward": _box([-np.inf], [np.inf]),
        }
        if self._environment.limits:
            unbounded = np.full(len(self._environment.limits), np.inf)
            parts["outcomes"] = _box(-unbounded, unbounded)
        self.observation_space = spaces.Dict(parts)
        self._run = self._environment
        self._seed, self._time = 0, 0  # before the first reset

    @property
    def problem(self) -> Problem:
        """Return the problem of the current run, which is the realisation of a seed after a reset."""
        return self._run.problem

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin a run.

        Parameters
        ----------
        seed : int, optional
            The seed of the run, as in a comparison. None: a random seed.
        options : dict, optional
            Ignored: there are no options.

        Returns
        -------
        observation, info : dict
            `info` contains the seed.
        """
        super().reset(seed=seed, options=options)
        self._seed = int(self.np_random.integers(LARGEST_SEED)) if seed is None else seed
        self._run, self._time = self._environment.realise(self._seed).begin(), 1
        if self._points is not None:  # some problems have other candidates for each seed
            self._points = as_finite(self._run.problem.domain, "a run").X
        placeholder = self.action_space.low if self._points is None else np.int64(0)  # type: ignore[attr-defined]
        outcomes = np.zeros(len(self._environment.limits))
        return self._observation(placeholder, 0.0, outcomes), {"seed": self._seed}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Play a point.

        Parameters
        ----------
        action : int or array of shape (d,)

        Returns
        -------
        observation : dict
        reward : float
            The reward with noise.
        terminated, truncated : bool
            `terminated` is always False; `truncated` is True at the horizon.
        info : dict
            "value", the noise-free reward of the play; "best", the largest at its time; "regret", their
            difference; "point", the point that was played; with limits also the number of "violations".

        Raises
        ------
        ResetNeeded
            Before the first reset, and after the horizon.
        ValueError
            If the action is not in the action space.
        """
        run, t, problem = self._run, float(self._time), self._run.problem
        if not 1 <= self._time <= problem.horizon:
            raise ResetNeeded(f"reset {problem.name}: it has steps 1 to {problem.horizon}")
        # To a space of numbers True is one.
        if isinstance(action, bool) or not self.action_space.contains(action):
            raise ValueError(f"the action must be in {self.action_space}, got {describe(action)}")
        x = np.array(action if self._points is None else self._points[action], dtype=float)
        X = x[None, :]
        outcomes, violations = run.read_outcomes(X, np.array([t]), self._seed)
        # The best reward is computed before the play, which may change the problem.
        best = finite_number(f"the best of {problem.name}", problem.best(t))
        value, reward = run.play(X, t, self._seed)
        (regret,) = true_regrets(np.array([best]), np.array([value]), violations)
        info = {"value": value, "best": best, "regret": float(regret), "point": x}
        if run.limits:
            info["violations"] = int(violations[0])
        self._time += 1
        readings = np.array([values[0] for values in outcomes.values()])
        truncated = self._time > problem.horizon
        return self._observation(action, reward, readings), reward, False, truncated, info

    def _observation(self, action: Any, reward: float, outcomes: Array) -> dict[str, Any]:
        observation = {
            "time": np.array([float(self._time)]),
            "action": np.array(action, dtype=float) if self._points is None else np.int64(action),
            "reward": np.array([reward]),
        }
        return observation | ({"outcomes": outcomes} if self._environment.limits else {})


def _box(low: Any, high: Any) -> spaces.Box:
    return spaces.Box(np.asarray(low, float), np.asarray(high, float), dtype=np.float64)


def make_env(name: str, **parameters: Any) -> ProblemEnv:
    """Return the environment of a problem by the problem's command-line name.

    Parameters
    ----------
    name : str
    **parameters
        Parameters of the problem, as on the command line: `horizon=100`.

    Examples
    --------
    >>> from tvbandits.integrations.gymnasium import make_env
    >>> print(make_env("switching-arms", arms=5).action_space)
    Discrete(5)
    """
    return ProblemEnv(problems()[name].make(**parameters))


NAMES = {f"tvbandits/{name}-v0": name for name, problem in problems().items() if problem.files == 0}
"""A mapping from the name of each environment to the name of its problem, which reads no file."""

for identifier, problem_name in NAMES.items():
    gymnasium.register(
        identifier, entry_point=f"{__name__}:make_env", kwargs={"name": problem_name}
    )
