"""Predictions of a campaign at its sites, with remarks on sites that may be wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tvbandits.campaign.campaign import Campaign
from tvbandits.campaign.status import HALF_WIDTH
from tvbandits.domains.candidates import get_candidates
from tvbandits.domains.domain import Context
from tvbandits.domains.parameters import Named


class Prediction(NamedTuple):
    """The prediction at one place.

    Attributes
    ----------
    site : str
        The name of the place.
    mean, deviation : float
        Posterior mean and standard deviation, in the unit of the reward or outcome.
    interval_95 : list of float
        The ends of the interval that has the value with 95%.
    """

    site: str
    mean: float
    deviation: float
    interval_95: list[float]

    @property
    def half(self) -> float:
        """Return half of the width of the interval."""
        return HALF_WIDTH * self.deviation


def doubts_about(campaign: Campaign, sites: Iterable[str]) -> dict[str, str]:
    """Return a remark for each of some sites that may be wrong, by name."""
    doubts = campaign.doubtful_sites
    return {name: doubts[name] for name in sorted({*sites} & doubts.keys())}


def forecast(
    campaign: Campaign,
    places: ArrayLike | Named | None,
    t: float | str | None,
    outcome: str | None = None,
    context: Context = None,
    *,
    relative: bool = False,
) -> list[Prediction]:
    """Return predictions at places, or at all sites that are not retired, the best first.

    The parameters are those of `Campaign.predict`; places are names of sites, or points.

    Raises
    ------
    ValueError
        If there are no places and the campaign does not play on sites, or `Campaign.predict` refuses.
    """
    if places is None:
        candidates = get_candidates(campaign.domain)
        if candidates is None:
            raise ValueError(
                f"the campaign plays on {campaign.domain!r}, not on sites: name the places"
            )
        places = candidates.active
    X = campaign.resolve_points(places, context)
    mean, deviation = campaign.predict(X, t, outcome, relative=relative)
    half = HALF_WIDTH * deviation
    bounds = np.column_stack([mean - half, mean + half])
    order = np.argsort(mean if campaign.recipe.minimize else -mean, kind="stable")
    return [
        Prediction(
            campaign.names.name(X[i]), float(mean[i]), float(deviation[i]), bounds[i].tolist()
        )
        for i in order
    ]
