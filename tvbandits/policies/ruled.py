"""Ask and tell around a rule: what decides is a small object that knows rewards and plays alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import UnionType
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from tvbandits.acquisition.availability import Allowed
from tvbandits.acquisition.confidence import Fixed
from tvbandits.bandit.state import Info, PosteriorInfo
from tvbandits.core.arrays import Array, finite_number
from tvbandits.core.candidates import Candidates
from tvbandits.core.coercion import check_part, shown
from tvbandits.core.observations import Observations, Plays
from tvbandits.core.protocols import Domain
from tvbandits.policies.player import ModelFree
from tvbandits.policies.setting import Mean

Kinds = Mapping[str, type | UnionType]
"""Of which kind each attribute is."""


class Rule(Protocol):
    """What decides. Larger rewards are better; times go up."""

    @property
    def kept(self) -> int | None:
        """How many rewards it still holds, where that is less than all."""
        ...

    def choose(self, now: float, allowed: Allowed, out: Plays, rng: np.random.Generator) -> Array:
        """The next point (d,), of those that are allowed, while the plays `out` wait for rewards.

        They count: a model takes each as if its mean had been observed, which lowers the variance
        around it; a schedule of plays goes on behind them.
        """
        ...

    def learn(self, rewards: Observations, rng: np.random.Generator) -> None:
        """Take in rewards."""
        ...


class PolicyState:
    """A rule that is saved as what it holds: `holds` names its attributes, and what each may be."""

    holds: ClassVar[Kinds] = {}

    def __saved__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.holds}

    @classmethod
    def __restored__(cls, **parts: Any) -> Self:
        if parts.keys() != cls.holds.keys():
            odd = sorted(parts.keys() ^ cls.holds.keys())
            raise ValueError(
                f"{cls.__name__} holds {sorted(cls.holds)}; too many or missing: {odd}"
            )
        for name, kind in cls.holds.items():
            if not isinstance(parts[name], kind):
                raise ValueError(f"{name} must be {kind}, got {parts[name]!r}")
        made = object.__new__(cls)
        vars(made).update(parts)
        return made


class PolicyAdapter(ModelFree):
    """A player whose choices are those of a rule.

    Parameters
    ----------
    domain : Domain
    rule : Rule
    minimise : bool
    seed : int or numpy.random.Generator
    """

    def __init__(
        self,
        domain: Domain,
        rule: Rule,
        *,
        minimise: bool = False,
        seed: int | np.random.Generator = 0,
    ) -> None:
        super().__init__(domain, seed, minimise)
        self._rule = rule

    @property
    def rule(self) -> Rule:
        """What decides."""
        return self._rule

    @property
    def info(self) -> Info:
        """As of any player; the size of the dictionary is how many rewards the rule holds."""
        found = super().info
        kept = self._rule.kept
        return (
            found if kept is None else replace(found, posterior=PosteriorInfo(dictionary_size=kept))
        )

    @classmethod
    def _alike(cls, parts: Mapping[str, Any]) -> Self:
        check_part("rule", parts["_rule"], "a rule that chooses and learns", "learn")
        return cls(parts["_domain"], parts["_rule"])

    def _chosen(self, allowed: Allowed, now: float, out: Plays) -> Array:
        return self._rule.choose(now, allowed, out, self._rng)

    def _learned(self, rewards: Observations) -> None:
        if len(rewards):
            signed = Observations(rewards.X, rewards.t, self._sign * rewards.y, rewards.variance)
            self._rule.learn(signed, self._rng)

    def _choose(self) -> Array:
        return self._domain.sample(1, self._rng)

    def _learn(self, X: Array, y: Array) -> None:
        """A rule learns from rewards with their times."""


def finite(domain: Domain, name: str) -> Candidates:
    """The domain, if it is finite; a `ValueError` says who needs that."""
    if not isinstance(domain, Candidates):
        raise ValueError(f"{name} needs a finite domain: give Candidates, got {shown(domain)}")
    return domain


def constant(confidence: Any) -> float:
    """A width that is a number, or the value of a constant width."""
    given = confidence.value if isinstance(confidence, Fixed) else confidence
    return finite_number("confidence", given, low=0.0)


def inward(mean: Mean, minimise: bool) -> Mean:
    """The prior mean of what a rule is told: where less is better, that is the negative of rewards."""
    return -mean if minimise and mean != "online" else mean


def numbers_in(text: str, name: str) -> tuple[float, ...]:
    """Numbers in a text, with spaces between them.

    Raises
    ------
    ValueError
        If there are none, or one of them is no finite number.
    """
    try:
        found = tuple(float(part) for part in text.split())
    except (ValueError, AttributeError):  # no number, or no text
        found = ()
    if not isinstance(text, str) or not found or not np.isfinite(found).all():
        raise ValueError(f"{name} must be numbers with spaces between them, got {shown(text)}")
    return found
