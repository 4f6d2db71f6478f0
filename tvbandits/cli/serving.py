"""What `campaign token` and `campaign serve` do."""

from __future__ import annotations

from typing import Any

from tvbandits.cli.campaign_actions import opened
from tvbandits.cli.options import Change
from tvbandits.cli.terminal import say

try:
    from tvbandits.campaign.service.app import serve as run
    from tvbandits.campaign.service.tokens import Tokens
except ImportError as error:
    packages = ("fastapi", "starlette", "uvicorn", "pydantic", "jinja2", "markupsafe")
    if (error.name or "").partition(".")[0] not in packages:
        raise
    raise ValueError("the service needs more: pip install 'tvbandits[service]'") from error


def token(file: str, name: str, roles: list[str], *, revoke: bool) -> None:
    """Make a token and print it, or revoke it."""
    with Tokens(file) as tokens:
        if revoke:
            tokens.revoke(name)
            say(f"{name} has no token any more")
        else:
            print(tokens.new(name, roles))
            say(f"for {name}, to {', '.join(roles)}; it is shown this once")


def serve(file: str, expert: str | None, **how: Any) -> None:
    """Serve until stopped."""
    with opened(Change(file, expert=expert, who="service")) as campaign, Tokens(file) as tokens:
        run(campaign, tokens, **how)
