"""The next point by an upper bound that does not look for what will soon be gone.

[LX] = Y. Liu, B. Van Roy and K. Xu. Nonstationary bandit learning via predictive sampling. AISTATS 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvbandits.acquisition.availability import Allowed
from tvbandits.acquisition.ucb import Decision
from tvbandits.core.arrays import Array
from tvbandits.core.coercion import shown
from tvbandits.core.domains import Candidates
from tvbandits.core.protocols import Domain
from tvbandits.gp.bank.posterior import BankPosterior, ModelBank
from tvbandits.gp.bank.posterior.lasting import lasting_share


@dataclass(frozen=True)
class LastingBound:
    """Plays where mean + beta * lasting deviation is largest, on a bank of models.

    The lasting deviation is that of what rewards after the decision would tell about the next reward
    ([LX] draw it, here it is a width): a change that is forgotten at once is not worth a look, a lasting
    difference between places is. Points that are out lower the deviations, as in
    `tvbandits.acquisition.ucb.UpperConfidenceBound`.

    Examples
    --------
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from tvbandits import Bandit, Candidates, Recipe
    >>> from tvbandits.acquisition.lasting import LastingBound
    >>> from tvbandits.gp.bank.posterior import ModelBank
    >>> sites = Candidates([[0.0], [5.0], [10.0]])
    >>> parts = {"posterior": ModelBank(), "acquisition": LastingBound()}
    >>> bandit = Bandit(Recipe(sites, RBF(1.0), 0.01, **parts))
    >>> for t in range(1, 11):
    ...     X = bandit.ask(t)
    ...     info = bandit.tell(X, -((X[:, 0] - 5) ** 2), t)
    >>> print(bandit.recommend())
    [5.]
    """

    def check(self, domain: Domain, posterior: Any) -> None:  # noqa: ARG002 - one face
        """Raise a `ValueError` unless the posterior is a bank of models."""
        if not isinstance(posterior, ModelBank):
            raise ValueError(
                "a lasting deviation is known to a bank of models: give posterior=ModelBank(), "
                f"got {shown(posterior)}"
            )

    def choose(self, decision: Decision, rng: np.random.Generator) -> tuple[Array, int]:
        """The next points (b, d), and how many variances were computed for them."""
        domain, view = decision.domain, decision.view
        known = view.posterior
        assert isinstance(domain, Candidates)
        assert isinstance(known, BankPosterior)  # `check` has seen to it
        width = decision.beta * lasting_share(known.bank, max(known.now, known.bank.time))
        allowed = Allowed(domain, decision.available, decision.taken)
        for x, noise in zip(decision.pending, decision.pending_noise, strict=True):
            known = known.shrunk(view.inputs(x[None, :]), float(noise), view.surface)
        count = decision.batching.smallest if decision.n is None else decision.n
        batch: list[Array] = []
        looks = 0
        while len(batch) < count:
            mean, variance = known.on_surface()
            bound = mean[:, 0] + width * np.sqrt(variance)
            looks += len(bound)
            batch.append(allowed.best(lambda X, bound=bound: bound[domain.index(X)], rng))  # type: ignore[misc]
            if len(batch) < count:
                z = view.inputs(batch[-1][None, :])
                known = known.shrunk(z, decision.noise_variance / view.scale**2, view.surface)
            if decision.n is not None:
                allowed.exclude(batch[-1])
        return np.array(batch), looks
