"""Thompson sampling ([Kan], docs/references.md)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from tvbandits.acquisition.batch_rules import Batching
from tvbandits.acquisition.confidence import BBKBWidth, Confidence, as_confidence
from tvbandits.acquisition.thompson import ThompsonSampling
from tvbandits.bandit.bandit import Bandit
from tvbandits.bandit.recipe import Recipe
from tvbandits.core.protocols import Domain
from tvbandits.gp.posteriors.exact import Exact
from tvbandits.gp.posteriors.nystrom import Nystrom
from tvbandits.policies.setting import Setting


def thompson(
    domain: Domain,
    kernel: Any,
    noise_variance: float,
    *,
    batch: int = 30,
    confidence: Confidence | float | str = 1.0,
    posterior: Exact | Nystrom | None = None,
    mean: float | Literal["online"] = "online",
    seed: int | np.random.Generator = 0,
) -> Bandit:
    """Thompson sampling in batches (Kandasamy 2018)."""
    recipe = Recipe(
        domain,
        kernel,
        noise_variance,
        posterior=Nystrom() if posterior is None else posterior,
        confidence=as_confidence(confidence),
        mean=mean,
        acquisition=ThompsonSampling(),
        batching=Batching(largest=batch),
    )
    return Bandit(recipe, seed=seed)


def make_thompson(setting: Setting, batch: int = 30) -> Bandit:
    """For a comparison."""
    common = setting.with_width(BBKBWidth(delta=1 / max(setting.horizon, 2)))
    return thompson(*setting.parts, batch=batch, confidence=common["confidence"], seed=setting.seed)
