"""Inputs for an RPC, drawn from its descriptor: edge values, words that a live cluster knows, and plain garbage.

An input is drawn from a `Random` alone, so a seed and a number name it for ever, on the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from quorate.nouns import METADATA_TOPIC, METADATA_TOPIC_ID, uuid_text
from tests.fuzz.rpcs import Rpc

DEPTH_MAX: Final = 6
GIANT: Final = 70_000
"""Bytes of a large text, beyond a 16-bit length."""
MANY: Final = 3_000
"""Items of a long list."""
INPUT_BYTES_MAX: Final = 3 << 20
"""Below what every server takes: what is larger is refused by gRPC."""

INTEGERS: Final = (0, 1, -1, 2, 3, 5, 127, 128, 1000, 65_535, 65_536)
TEXTS: Final = (
    "",
    "a",
    "\0",
    " ",
    ".",
    "..",
    "a/b",
    "ü",
    "\ud7ff",
    "😀",
    "%s",
    "a" * 249,
    "a" * 250,
    "*",
    "-1",
    "1e999",
)
ID_OF_NOBODY: Final = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a live cluster knows, by the end of a field's name: an input with such a word goes further than one without.

    `but` are words that an RPC must not be given, because with them it would do what it is for, to the cluster itself.
    """

    known: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    but: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    instead: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """By a field's name: what is drawn where it is none of the words."""

    def of(self, rpc: str, name: str) -> Sequence[Any]:
        """The words for a field of a request, or none."""
        found = next((words for end, words in self.known.items() if name.endswith(end)), ())
        return [word for word in found if word not in self.but.get(f"{rpc}.{name}", ())]


class Inputs:
    """Draws inputs of one RPC."""

    def __init__(self, rpc: Rpc, words: Words, random: Random) -> None:
        self._rpc = rpc
        self._words = words
        self._random = random
        self._class = GetMessageClass(rpc.request)

    def draw(self) -> bytes:
        """One message as it goes over the wire: well-formed, damaged or garbage."""
        random = self._random
        kind = random.random()
        if kind < 0.08:
            return random.randbytes(random.choice((0, 1, 2, 7, 30, 300)))
        data = bytes(self.message().SerializeToString())
        if kind < 0.25 and data:
            data = self._damaged(data)
        return data if len(data) <= INPUT_BYTES_MAX else data[:INPUT_BYTES_MAX]

    def message(self) -> Any:
        """A well-formed one."""
        return self._filled(self._class(), 0)

    def _filled(self, message: Any, depth: int) -> Any:
        share = self._random.choice((0.3, 0.9, 1.0, 1.0))
        chosen = {oneof.fields[self._random.randrange(len(oneof.fields))].name for oneof in _oneofs(message)}
        for each in message.DESCRIPTOR.fields:
            if each.containing_oneof is not None and len(each.containing_oneof.fields) > 1:
                if each.name not in chosen:
                    continue
            elif self._random.random() > share:
                continue
            self._fill(message, each, depth)
        return message

    def _fill(self, message: Any, each: Any, depth: int) -> None:
        is_message = each.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
        if is_message and depth >= DEPTH_MAX:
            return
        if each.is_repeated and is_message and each.message_type.GetOptions().map_entry:
            return
        if each.is_repeated:
            items = getattr(message, each.name)
            for _ in range(self._count(is_message=is_message)):
                if is_message:
                    self._filled(items.add(), depth + 1)
                else:
                    items.append(self._value(each))
            if len(items) and self._random.random() < 0.03:
                self._repeat(items, is_message=is_message)
        elif is_message:
            child = getattr(message, each.name)
            child.SetInParent()
            self._filled(child, depth + 1)
        else:
            setattr(message, each.name, self._value(each))

    def _count(self, *, is_message: bool) -> int:
        return self._random.choices((0, 1, 2, 5, 40), (1, 8 if is_message else 5, 2, 1, 0.1))[0]

    def _repeat(self, items: Any, *, is_message: bool) -> None:
        """The same item very often: a caller need not be clever to send much."""
        count = self._random.choice((2, 2, 10, MANY))
        size = items[0].ByteSize() if is_message else len(str(items[0]))
        count = min(count, max(1, INPUT_BYTES_MAX // 2 // (size + 8)))
        items.extend([items[0]] * count)

    def _value(self, each: Any) -> Any:
        words = self._words.of(self._rpc.name, each.name)
        if words and self._random.random() < 0.75:
            return _fitting(self._random.choice(words), each)
        if each.name in self._words.instead and each.cpp_type == FieldDescriptor.CPPTYPE_INT32:
            return self._random.choice(self._words.instead[each.name])
        return _DRAWS[each.cpp_type](self._random, each)

    def _damaged(self, data: bytes) -> bytes:
        random = self._random
        damaged = bytearray(data)
        for _ in range(random.choice((1, 1, 3, 10))):
            at = random.randrange(len(damaged)) if damaged else 0
            match random.randrange(4):
                case 0 if damaged:
                    damaged[at] ^= 1 << random.randrange(8)
                case 1:
                    damaged[at:at] = random.randbytes(random.choice((1, 4, 40)))
                case 2:
                    del damaged[at : at + random.choice((1, 4, 40))]
                case _:
                    damaged[at:] = damaged[at:][:1000] * 2
        return bytes(damaged)


def _oneofs(message: Any) -> list[Any]:
    return [oneof for oneof in message.DESCRIPTOR.oneofs if len(oneof.fields) > 1]


def _fitting(word: Any, each: Any) -> Any:
    """A word that this type of field can hold."""
    match each.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if each.type == FieldDescriptor.TYPE_BYTES:
            return word if isinstance(word, bytes) else str(word).encode()
        case FieldDescriptor.CPPTYPE_STRING:
            return word.decode("latin-1") if isinstance(word, bytes) else str(word)
        case FieldDescriptor.CPPTYPE_UINT32 | FieldDescriptor.CPPTYPE_UINT64:
            return abs(int(word)) if isinstance(word, int) else 0
        case FieldDescriptor.CPPTYPE_BOOL:
            return bool(word)
        case _:
            return word if isinstance(word, int | float) else 0


def _integer(low: int, high: int) -> Callable[[Random, Any], int]:
    def draw(random: Random, _: Any) -> int:
        kind = random.random()
        if kind < 0.6:
            return min(max(random.choice(INTEGERS), low), high)
        if kind < 0.85:
            return random.choice((low, low + 1, high - 1, high))
        return random.randint(low, high)

    return draw


def _enum(random: Random, each: Any) -> int:
    known = [value.number for value in each.enum_type.values]
    return int(random.choice([*known, *known, -1, 99, 9_999, 2**31 - 1, -(2**31)]))


def _text(random: Random, each: Any) -> Any:
    kind = random.random()
    if each.type == FieldDescriptor.TYPE_BYTES:
        if kind < 0.02:
            return random.randbytes(16) * (GIANT // 16)
        return random.choice((b"", b"\0", b"\1", b"\1\2\0", random.randbytes(16), random.randbytes(60), b"\xff" * 9))
    if kind < 0.03:
        return random.choice(("x", "ä", "\0")) * random.choice((3_000, 9_000, GIANT))
    if kind < 0.3:
        return random.choice((ID_OF_NOBODY, METADATA_TOPIC, uuid_text(METADATA_TOPIC_ID), "127.0.0.1", "1", "true"))
    return random.choice(TEXTS)


_DRAWS: Final[Mapping[int, Callable[[Random, Any], Any]]] = {
    FieldDescriptor.CPPTYPE_INT32: _integer(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: _integer(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: _integer(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: _integer(0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: lambda random, _: random.choice(
        (0.0, -0.0, 1.5, -1.0, 1e308, float("inf"), float("-inf"), float("nan"))
    ),
    FieldDescriptor.CPPTYPE_FLOAT: lambda random, _: random.choice((0.0, 1.5, -1.0, float("inf"), float("nan"))),
    FieldDescriptor.CPPTYPE_BOOL: lambda random, _: random.random() < 0.5,
    FieldDescriptor.CPPTYPE_ENUM: _enum,
    FieldDescriptor.CPPTYPE_STRING: _text,
}
