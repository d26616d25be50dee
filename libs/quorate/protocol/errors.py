"""ProtocolError: bytes from a peer that break Kafka's protocol. The connection must be closed."""

from __future__ import annotations

from quorate.errors import ErrorCode

__all__ = ["ProtocolError", "code_of"]


class ProtocolError(Exception):
    """A peer's bytes break the protocol. The text names the field, the value and the rule.

    Kafka answers such bytes by closing the connection (`SocketServer.processException`), and so do we.
    """


def code_of(number: int) -> ErrorCode:
    """Returns the error of a number from the wire; UNKNOWN_SERVER_ERROR for an unknown one, as `Errors.forCode`.

    >>> code_of(35).name, code_of(31999).name
    ('UNSUPPORTED_VERSION', 'UNKNOWN_SERVER_ERROR')
    """
    return ErrorCode(number) if number in _KNOWN else ErrorCode.UNKNOWN_SERVER_ERROR


_KNOWN = frozenset(ErrorCode)
