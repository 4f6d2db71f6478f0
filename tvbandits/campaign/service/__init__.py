"""A campaign over HTTP: the service, its tokens, and a client with the face of a bandit."""

from tvbandits.campaign.service.remote import Remote, RemoteError
from tvbandits.campaign.service.tokens import Tokens

__all__ = ["Remote", "RemoteError", "Tokens"]
