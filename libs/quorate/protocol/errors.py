"""ProtocolError: bytes from a peer that break Kafka's protocol. The connection must be closed."""

from __future__ import annotations

__all__ = ["ProtocolError"]


class ProtocolError(Exception):
    """A peer's bytes break the protocol. The text names the field, the value and the rule.

    Kafka answers such bytes by closing the connection (`SocketServer.processException`), and so do we.
    """
