"""Kafka's protocol on one connection, without I/O: frames, headers, versions, logins, for both sides."""

from quorate.protocol.apis import Api, all_apis, api_of
from quorate.protocol.client import ClientConnection
from quorate.protocol.errors import ProtocolError
from quorate.protocol.events import Close, Evaluate, Ready, Request, Response
from quorate.protocol.server import ServerConnection
from quorate.protocol.settings import ClientSettings, ServerSettings

__all__ = [
    "Api",
    "ClientConnection",
    "ClientSettings",
    "Close",
    "Evaluate",
    "ProtocolError",
    "Ready",
    "Request",
    "Response",
    "ServerConnection",
    "ServerSettings",
    "all_apis",
    "api_of",
]
