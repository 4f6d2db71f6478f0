"""Named suites: problems, policies, seeds and steps of a board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OURS = ("tv-gp-ucb", "frugal-gp-ucb")
"""Policies that this suite proposes itself: a board says first where they are beaten."""

POLICIES = (
    "uniform",
    "gp-ucb",
    "time-gp-ucb",
    "r-gp-ucb",
    "sw-gp-ucb",
    "w-gp-ucb",
    "ui-gp-ucb",
    "et-gp-ucb",
    "mk-gp-ucb",
    "tv-gp-ucb",
    "w-dbo",
    "w-dbo:removal=oldest",
    "w-dbo:removal=random",
    "pe-gp-ucb",
    "hp-gp-ts",
    "predictive-sampling",
    "r-perp",
    "ada-opkb",
    "master",
)


LEFT_OUT = ("r-gp-ucb", "ui-gp-ucb", "w-dbo:removal=random", "master")
"""By the quick suite: like another one, or, as MASTER, made of copies that start anew all the time."""


@dataclass(frozen=True)
class Suite:
    """What a board plays.

    Attributes
    ----------
    problems : mapping of text to int
        Steps of a run of each problem, which is written as on the command line.
    policies : tuple of str
    seeds : int
    """

    problems: Mapping[str, int]
    policies: tuple[str, ...]
    seeds: int


SUITES: Mapping[str, Suite] = {
    "quick": Suite(
        {
            "drifting-bump:candidates=101": 80,
            "gp-drift:epsilon=0.03,points_per_axis=8": 80,
            "switching:every=40,candidates=61": 80,
            "ar-arms:side=6": 80,
            "wearing-arms:arms=40,length_scale=0.1": 80,
            "exoskeleton:candidates=71": 80,
            "lifted:hartmann3,candidates=200": 80,
        },
        tuple(name for name in POLICIES if name not in LEFT_OUT),
        3,
    ),
    "paper": Suite(
        {
            "drifting-bump:candidates=401": 500,
            "gp-drift:epsilon=0.01": 500,
            "gp-drift:epsilon=0.03": 500,
            "bogunovic:epsilon=0.01": 200,
            "mandl:epsilon=0.01": 500,
            "switching": 500,
            "switching-arms": 1000,
            "ar-arms": 500,
            "wearing-arms:length_scale=0.1": 500,
            "exoskeleton": 80,
            "lifted:hartmann3,candidates=500": 120,
            "lifted:ackley4,candidates=500": 120,
            "lifted:shekel4,candidates=500": 120,
            "lifted:hartmann6,candidates=500": 120,
            "ozone-network": 400,
        },
        POLICIES,
        20,
    ),
}
"""By name: "quick" takes minutes on two cores, "paper" a night."""
