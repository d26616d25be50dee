"""`--observer`, `--controller` and `--quorum`: opens a channel to a server of Quorate that an option names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from quorate.cli.call_security import CallSecurity, channel_credentials, parse_call_security
from quorate.cli.failures import Misused
from quorate.network.client_config import parse_bootstrap, read_client_properties
from quorate.runtime.connections.transport import WITHOUT_PROXY

__all__ = ["Servers"]

LOGINS: Final = "--controller"
"""The option of those who take a login with a call."""
RECEIVED_BYTES_MAX: Final = 16 << 20
"""As much as an observer sends in one message: a single row may be larger than what gRPC takes by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Servers that `option` names as `HOST:PORT,…`, and the client's properties for TLS and a login."""

    option: str
    named: str
    command_config: Path | None

    def addresses(self) -> Sequence[str]:
        """Returns `host:port` of each of the servers. Raises Misused."""
        try:
            return [f"{host}:{port}" for host, port in parse_bootstrap(self.named)]
        except ValueError as problem:
            raise Misused(f"{self.option}: {problem}") from None

    def security(self) -> CallSecurity | None:
        """Returns what TLS needs, and the login; None for calls in the clear. Raises Misused, OSError."""
        if self.command_config is None:
            return None
        try:
            properties = read_client_properties(self.command_config, parse_call_security)
        except ValueError as problem:
            raise Misused(f"--command-config {problem}") from None
        security = parse_call_security(properties)
        if security is not None and security.authorization is not None and self.option != LOGINS:
            why = f"a login is for controllers, and {self.option} calls none"
            raise Misused(f"--command-config {self.command_config}: security.protocol is SASL_SSL; {why}")
        return security

    @contextmanager
    def channel(self, address: str) -> Iterator[Any]:
        """Yields a channel to one of the addresses, and closes it after the block. Raises Misused, OSError.

        Its type is Any, since the generated types are those of asyncio's stubs.
        """
        options = [*WITHOUT_PROXY, ("grpc.max_receive_message_length", RECEIVED_BYTES_MAX)]
        security = self.security()
        if security is None:
            opened = grpc.insecure_channel(address, options=options)
        else:
            try:
                opened = grpc.secure_channel(address, channel_credentials(security), options=options)
            except ValueError as problem:
                raise Misused(f"--command-config {problem}") from None
        with opened:
            yield opened
