"""The sets of points a bandit may play, and how to find the best of them."""

from tvbandits.core.domains.box import TOLERANCE, Box, as_bounds
from tvbandits.core.domains.candidates import Candidates
from tvbandits.core.domains.named import space_of
from tvbandits.core.domains.parameters import Category, Integer, Real
from tvbandits.core.domains.space import Space, Table

__all__ = [
    "TOLERANCE",
    "Box",
    "Candidates",
    "Category",
    "Integer",
    "Real",
    "Space",
    "Table",
    "as_bounds",
    "space_of",
]
