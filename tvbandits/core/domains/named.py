"""Which domains have points with names."""

from __future__ import annotations

from tvbandits.core.domains.space import Space, Table
from tvbandits.core.protocols import Domain


def space_of(domain: Domain) -> Space | None:
    """The space that a domain's points have names in, if there is one.

    Examples
    --------
    >>> from tvbandits import Candidates, Space
    >>> from tvbandits.core.domains import space_of
    >>> table = Space(dose=["low", "high"]).candidates()
    >>> print(space_of(table).names, space_of(Candidates([[0.0]])))
    ('dose',) None
    """
    if isinstance(domain, Space):
        return domain
    return domain.space if isinstance(domain, Table) else None
