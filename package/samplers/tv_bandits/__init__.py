"""The sampler of tvbandits as a package of OptunaHub."""

from tvbandits.integrations.optuna import TVSampler

__all__ = ["TVSampler"]
