"""Kafka's metadata protocol as Python, made from `protos/kraft/` by `make protos`.

Beside each `x_pb2` (the gRPC message) lies a module `x` with the same message as a plain, frozen
struct: what the cores, the codec and the state speak. This file alone is written by hand.
"""

from __future__ import annotations

from typing import ClassVar, NewType

import msgspec

Uuid = NewType("Uuid", bytes)
"""Sixteen bytes, most significant first. Kafka prints them as URL-safe base64 without padding."""

UnknownTags = tuple[tuple[int, bytes], ...]
"""Tagged fields that this schema does not know, as (tag, bytes), ascending by tag."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """A record, or one side of an RPC, with Kafka's field names in snake_case and Kafka's defaults.

    Arrays are tuples, null is None. The collector does not track these objects: they hold nothing
    that could form a cycle. What the schema marks with `debug_redact` is not in the `repr`, so it is in no
    assertion, no log line, no error.
    """

    secret_fields: ClassVar[frozenset[str]] = frozenset()

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={'***' if name in self.secret_fields else repr(getattr(self, name))}"
            for name in self.__struct_fields__
        )
        return f"{type(self).__name__}({shown})"
