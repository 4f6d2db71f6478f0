"""What an acquisition is asked: the beliefs, what is out, what is available, and where one is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvbandits.acquisition.availability import Available, NothingAvailableError, narrowed
from tvbandits.acquisition.batch_rules import One
from tvbandits.acquisition.rules import Decision
from tvbandits.bandit.inference import Model
from tvbandits.bandit.recipe import Recipe
from tvbandits.bandit.state import State
from tvbandits.core.moving import Move, Position, check_near, distances, nearby


def decision_of(
    recipe: Recipe,
    model: Model,
    state: State,
    now: float,
    beta: float,
    n: int | None = None,
    free: Available | None = None,
    near: float | None = None,
) -> Decision:
    """The decision of a conditioned state at the time `now`; the rest as of `Bandit.ask`."""
    out = state.pending
    most = None if recipe.asking is None else recipe.asking.informed_width
    informed = state.questions.informed and most is not None
    noise = model.pending_noise(state, now) if len(out.t) else np.empty(0)
    heard = np.isfinite(noise)
    # Without a unit of the reward, a batch rule has nothing to compare the noise with.
    known = recipe.mean != "online" or len(state.rewards.y) + len(state.answers.y) > 0
    batching = recipe.batching if known else replace(recipe.batching, rule=One())
    decision = Decision(
        domain=recipe.domain,
        view=model.view(state, now),
        beta=min(beta, most) if informed and most is not None else beta,
        noise_variance=model.noise_variance(state),
        batching=batching,
        n=n,
        pending=out.X[heard],
        pending_noise=noise[heard],
        taken=out.X[out.t == now],
        available=free,
    )
    if near is None and recipe.move_cost is None:
        return decision
    plays = (state.rewards, state.failed, out)
    X, t = (np.concatenate([getattr(each, name) for each in plays]) for name in ("X", "t"))
    start = Position.after(recipe.domain, X, t)
    if start is not None and recipe.move_cost is not None:
        decision = replace(decision, move=Move(recipe.domain, recipe.move_cost, start))
    return decision if near is None else _within(decision, check_near(near, start), start)


def _within(decision: Decision, reach: float, start: Position | None) -> Decision:
    """The decision among the points that are no farther than `reach` from where one is."""
    assert start is not None  # a reach is from somewhere
    domain, here = decision.domain, start.x
    free = narrowed(domain, decision.available, lambda X: distances(domain, here, X) <= reach)
    if free is not None and free.mask is not None and not free.mask.any():
        raise NothingAvailableError(
            f"nothing that is available is within near={reach:g} of {here.tolist()}"
        )
    return replace(decision, domain=nearby(domain, here, reach), available=free)
