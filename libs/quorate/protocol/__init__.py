"""Kafka's protocol on one connection, without I/O: frames, headers, versions, logins, for both sides.

server, client          the two sides of a connection
events, errors          what a connection says of the bytes that it received
frames, messages        a stream cut into frames; a message with its header as one frame
apis, api_versions      the APIs by key; which version of one is spoken
settings                the limits of a connection
security_protocols      what each security protocol adds: TLS, a login
sasl                    logins: PLAIN, SCRAM, delegation tokens
"""

from quorate.protocol.apis import ApiMessageType, all_apis, api_of
from quorate.protocol.client import ClientConnection
from quorate.protocol.errors import ProtocolError
from quorate.protocol.events import Close, ConnectionReady, Evaluate, LargeRequest, Request, Response, Taken
from quorate.protocol.server import ServerConnection
from quorate.protocol.settings import ClientSettings, ServerSettings

__all__ = [
    "ApiMessageType",
    "ClientConnection",
    "ClientSettings",
    "Close",
    "ConnectionReady",
    "Evaluate",
    "LargeRequest",
    "ProtocolError",
    "Request",
    "Response",
    "ServerConnection",
    "ServerSettings",
    "Taken",
    "all_apis",
    "api_of",
]
