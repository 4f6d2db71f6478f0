"""The pages of the service besides the campaign's own: sign in, and the reference of its verbs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from html import escape
from typing import Any

from tvbandits._version import __version__
from tvbandits.campaign.report.page import campaign_page
from tvbandits.campaign.watching import Watching
from tvbandits.core.display.page import page, section, table


class Drawn:
    """The campaign's page as it is now: drawn again when something has happened, by one at a time.

    Parameters
    ----------
    campaign : Campaign
    """

    def __init__(self, campaign: Watching) -> None:
        self._campaign, self._drawing = campaign, threading.Lock()
        self._latest: tuple[int, str] | None = None

    def page(self) -> str:
        """HTML."""
        with self._drawing:
            rows = self._campaign.status.rows
            if self._latest is None or self._latest[0] != rows:
                self._latest = (rows, campaign_page(self._campaign, served=True))
            return self._latest[1]


def sign_in_page(complaint: str = "") -> str:
    """A form for the token."""
    said = f'<div class="now warn" role="alert">{escape(complaint)}</div>' if complaint else ""
    form = (
        '<form method="post" action="/session"><p><label for="token">Token</label><br>'
        '<input id="token" name="token" type="password" autocomplete="current-password" required '
        'size="50"></p><p><button>Look</button></p></form>'
    )
    return page(
        "Campaign", "Whoever has a token for reading sees it here.", said + form,
        f"tvbandits {__version__}", drawing=False, served=True,
    )  # fmt: skip


def reference_page(description: Mapping[str, Any]) -> str:
    """The verbs, out of the description in OpenAPI; without code from elsewhere."""
    parts = ["<p>The same for programs: <a href='/openapi.json'>openapi.json</a>. Every request "
             "carries <code>Authorization: Bearer TOKEN</code>.</p>"]  # fmt: skip
    models = description.get("components", {}).get("schemas", {})
    for path, verbs in description["paths"].items():
        for method, verb in verbs.items():
            fields = _fields(verb, models)
            shown = table(["field", "kind", "needed"], fields) if fields else ""
            about = escape(verb.get("description", ""))
            parts.append(section(f"{method.upper()} {path}", f"<p>{about}</p>", shown))
    return page(
        "The service's verbs", "HTTP and JSON.", "".join(parts), f"tvbandits {__version__}",
        drawing=False, served=True,
    )  # fmt: skip


def _fields(verb: Mapping[str, Any], models: Mapping[str, Any]) -> list[list[object]]:
    found: list[list[object]] = [
        [each["name"], _kind(each["schema"]), "yes" if each["required"] else "no"]
        for each in verb.get("parameters", ())
    ]
    body = (
        verb.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    )
    model = models.get(str(body.get("$ref", "")).rpartition("/")[2], {})
    needed = model.get("required", ())
    for name, schema in model.get("properties", {}).items():
        found.append([name, _kind(schema), "yes" if name in needed else "no"])
    return found


def _kind(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(each) for each in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "object"))
