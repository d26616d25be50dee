"""`--observer`, `--controller` and `--quorum`: opens a channel to a server of Quorate that an option names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from quorate.cli.failures import Misused
from quorate.network.client_config import parse_bootstrap, read_client_properties
from quorate.pipeline.grpc_nodes import credentials
from quorate.pipeline.grpc_security import StoreFiles, parse_security
from quorate.runtime.transport import WITHOUT_PROXY

__all__ = ["Servers"]

RECEIVED_BYTES_MAX: Final = 16 << 20
"""As much as an observer sends in one message: a single row may be larger than what gRPC takes by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Servers that an option names, `HOST:PORT,…`, and the client's properties for TLS."""

    option: str
    named: str
    command_config: Path | None

    def addresses(self) -> Sequence[str]:
        """Raises Misused."""
        try:
            return [f"{host}:{port}" for host, port in parse_bootstrap(self.named)]
        except ValueError as problem:
            raise Misused(f"{self.option}: {problem}") from None

    def files(self) -> StoreFiles | None:
        """Returns the files for TLS; None for calls in the clear. Raises Misused, OSError."""
        if self.command_config is None:
            return None
        try:
            return parse_security(read_client_properties(self.command_config, parse_security))
        except ValueError as problem:
            raise Misused(f"--command-config {problem}") from None

    @contextmanager
    def channel(self, address: str) -> Iterator[Any]:
        """Yields a channel; its type is Any, since the generated types are those of asyncio's stubs. Raises Misused."""
        options = [*WITHOUT_PROXY, ("grpc.max_receive_message_length", RECEIVED_BYTES_MAX)]
        files = self.files()
        if files is None:
            opened = grpc.insecure_channel(address, options=options)
        else:
            try:
                opened = grpc.secure_channel(address, credentials(files), options=options)
            except ValueError as problem:
                raise Misused(f"--command-config {problem}") from None
        with opened:
            yield opened
