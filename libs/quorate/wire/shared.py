"""What very many messages have in common, so that it is made into protobuf once."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message as ProtobufMessage

__all__ = ["Shared"]

T = TypeVar("T")


class Shared(tuple[T, ...]):
    """An array of structs, nullable, that is sent again and again: a tuple like any other to all but `convert`."""

    box: ProtobufMessage | None = None
    """Its form in protobuf, once it has been sent. Never changed: it is copied into each message."""
