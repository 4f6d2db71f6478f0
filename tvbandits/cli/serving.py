"""What `campaign token` and `campaign serve` do."""

from __future__ import annotations

from typing import Any

from tvbandits.cli.campaign_actions import opened
from tvbandits.cli.options import Change
from tvbandits.cli.terminal import say

try:
    from tvbandits.campaign.service.app import default_tokens, serve as run
    from tvbandits.campaign.service.tokens import Tokens
except ImportError as error:
    if (error.name or "").partition(".")[0] not in ("fastapi", "starlette", "uvicorn", "pydantic"):
        raise
    raise ValueError("the service needs more: pip install 'tvbandits[service]'") from error


def token(file: str, name: str, roles: list[str], tokens: str | None, *, take_back: bool) -> None:
    """Make a token and print it, or take it back."""
    kept = Tokens.at(tokens or default_tokens(file))
    if take_back:
        kept.take_back(name)
        say(f"{name} has no token any more")
    else:
        print(kept.new(name, roles))
        say(f"for {name}, to {', '.join(roles)}; it is shown this once")


def serve(file: str, tokens: str | None, expert: str | None, **how: Any) -> None:
    """Serve until stopped."""
    with opened(Change(file, expert=expert, who="service")) as campaign:
        run(campaign, tokens or default_tokens(file), **how)
