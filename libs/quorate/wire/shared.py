"""A tuple that caches its protobuf form, for arrays that are sent in very many messages."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message as ProtobufMessage

__all__ = ["Shared"]

T = TypeVar("T")


class Shared(tuple[T, ...]):
    """A nullable array of structs that is sent again and again; only `convert` treats it differently from a tuple."""

    box: ProtobufMessage | None = None
    """The array's protobuf form, set when it is first sent. It is copied into each message and never changed."""
