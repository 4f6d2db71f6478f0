"""How values show themselves: small tables, lines, and the history of what was told."""

from tvbandits.core.display.history import history_of
from tvbandits.core.display.tables import as_html, as_text

__all__ = ["as_html", "as_text", "history_of"]
