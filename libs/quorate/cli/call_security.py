"""How the command calls a server of Quorate by `--command-config`: TLS, and at a controller a login of each call.

The login is that of `security.protocol=SASL_SSL`, by the names that a Kafka client has: the controller compares a
password with the user's SCRAM credentials, or knows a delegation token (KIP-48).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import grpc

from quorate.network.client_config import ClientLogin, parse_login
from quorate.pipeline.grpc_nodes import credentials
from quorate.pipeline.grpc_security import StoreFiles, parse_security

__all__ = ["CallSecurity", "channel_credentials", "parse_call_security"]

PROTOCOL = "security.protocol"
SASL_SSL = "SASL_SSL"
_OF_LOGIN = ("sasl.mechanism", "sasl.jaas.config")


class CallSecurity(NamedTuple):
    """How a server is called: the files for TLS, and the metadata `authorization` of a login; None for no login."""

    files: StoreFiles
    authorization: str | None = None


def parse_call_security(properties: Mapping[str, str]) -> CallSecurity | None:
    """Returns the TLS files and the login that a client's properties name; None for calls in the clear.

    Raises ValueError, which names the property and has no secret.
    """
    if properties.get(PROTOCOL, "").upper() != SASL_SSL:
        files = parse_security(properties)
        return None if files is None else CallSecurity(files)
    login = parse_login(properties)
    if login.scram is None:
        raise ValueError("sasl.mechanism is 'PLAIN'; over gRPC it is one of SCRAM-SHA-256, SCRAM-SHA-512")
    rest = {name: value for name, value in properties.items() if name not in _OF_LOGIN}
    files = parse_security({**rest, PROTOCOL: "SSL"})
    assert files is not None, "SSL has files"
    return CallSecurity(files, _authorization(login))


def channel_credentials(security: CallSecurity) -> grpc.ChannelCredentials:
    """Returns gRPC's credentials of a channel: TLS, and the login of each call if there is one.

    Raises ValueError with property and file.
    """
    by_tls = credentials(security.files)
    if security.authorization is None:
        return by_tls
    of_calls = grpc.metadata_call_credentials(_Authorization(security.authorization))
    return grpc.composite_channel_credentials(by_tls, of_calls)


class _Authorization(grpc.AuthMetadataPlugin):
    """Puts the login beside each call; gRPC does that by TLS alone."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __call__(self, context: Any, callback: Callable[[Any, None], None]) -> None:  # Any: gRPC's own types
        callback((("authorization", self._value),), None)


def _authorization(login: ClientLogin) -> str:
    if login.is_token:
        return f"DelegationToken {login.user}:{login.password}"
    if ":" in login.user:
        raise ValueError("sasl.jaas.config has a username with a colon; over gRPC a password takes none (RFC 7617)")
    return "Basic " + base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
