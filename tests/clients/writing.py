"""What each client writes and reads of one partition, as steps: the client of a library is a `Client` of it.

All write the same records, so that what is read back is the same for each. Timestamps are set, and a second apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from tests.clients.steps import Step

__all__ = ["CODECS", "PARTITION", "WAIT_S", "Client", "Record", "steps"]

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITION: Final = 0
EACH: Final = 20
"""Records of each kind."""
BEGAN_MS: Final = 1_700_000_000_000
EVERY_MS: Final = 1_000
LARGE: Final = 500_000
TOO_LARGE: Final = 2_000_000
"""Bytes; a broker takes batches up to 1,048,588."""
FAR: Final = 100_000
WAIT_S: Final = 30.0


class Record(NamedTuple):
    """A record; each has one header, whose value says what it is."""

    key: bytes | None
    value: bytes | None
    what: bytes
    timestamp_ms: int


class Client(Protocol):
    """A library's producer and consumer of PARTITION. Its errors are named by the program that has it."""

    def write(
        self, records: Sequence[Record], *, codec: str = "none", acks: int = -1, idempotent: bool = False
    ) -> list[int]:
        """The offsets that the producer gets; with `acks` 0 whatever it says instead."""

    def bounds(self) -> tuple[int, int]:
        """The first offset, and that of the next record."""

    def offset_at(self, timestamp_ms: int) -> int:
        """The offset of the first record of this time or a later one; -1 if there is none."""

    def read(self, offset: int, count: int) -> list[tuple[int, Record]]:
        """So many records from an offset on, by assignment, with their offsets. Raises if the offset is not there."""

    def in_group(self, count: int) -> int:
        """Reads so many as the only member of a group, and commits; what the group has committed then."""


def steps(client: Client) -> Iterator[Step]:
    """All that a client does; each codec, each acks, then reads."""

    def written(first: int, what: str, *, codec: str = "none", acks: int = -1, idempotent: bool = False) -> Step:
        records = [_record(first + number, what) for number in range(EACH)]
        return what, lambda: _span(client.write(records, codec=codec, acks=acks, idempotent=idempotent)), None

    def one(number: int, value: bytes | None) -> str:
        return _span(client.write([_record(number, "one")._replace(value=value)]))

    for place, codec in enumerate(CODECS):
        yield written(place * EACH, f"write with {codec}", codec=codec)
    at = len(CODECS) * EACH
    yield "write with acks=0", lambda: client.write(_records(at, "acks=0"), acks=0) and None, None
    yield "where it ends", client.bounds, lambda said: str(at + EACH) in said
    yield written(at + EACH, "write with acks=1", acks=1)
    yield written(at + 2 * EACH, "write idempotently", idempotent=True)
    end = at + 3 * EACH
    yield "write a large one", lambda: one(end, b"y" * LARGE), None
    yield "write one that is too large", lambda: one(end + 1, b"z" * TOO_LARGE), None
    yield "write one without a value", lambda: one(end + 1, None), None
    yield "where it ends", client.bounds, lambda said: str(end + 2) in said
    yield "the offset of a time", lambda: client.offset_at(BEGAN_MS + 30 * EVERY_MS - 1), None
    yield "the offset of a time to come", lambda: client.offset_at(BEGAN_MS + FAR * EVERY_MS), None
    yield "read from the start", lambda: _digest(client.read(0, end + 2)), None
    yield "read from the middle of a batch", lambda: _digest(client.read(47, 60)), None
    yield "read past the end", lambda: client.read(FAR, 1), None
    yield "read what comes at the end", lambda: _at_the_end(client, end + 2), None
    yield "read in a group", lambda: client.in_group(end + 3), None


def _record(number: int, what: str) -> Record:
    value = f"{what} {number} {'x' * 100}".encode()
    return Record(f"key {number}".encode(), value, what.encode(), BEGAN_MS + number * EVERY_MS)


def _records(first: int, what: str) -> list[Record]:
    return [_record(first + number, what) for number in range(EACH)]


def _at_the_end(client: Client, end: int) -> str:
    client.write([_record(end, "the last")])
    return _digest(client.read(end, 1))


def _span(offsets: Sequence[int]) -> str:
    """Offsets in words.

    >>> _span([3, 4, 5]), _span([3, 5])
    ('3 to 5', 'not in a row: [3, 5]')

    """
    in_a_row = list(range(offsets[0], offsets[0] + len(offsets))) == list(offsets)
    return f"{offsets[0]} to {offsets[-1]}" if in_a_row else f"not in a row: {list(offsets)}"


def _digest(read: Iterable[tuple[int, Record]]) -> str:
    """A digest over all that was read, each a line of its fields."""
    lines = [b"%d %d %s %s %s\n" % (at, r.timestamp_ms, r.key or b"", r.value or b"", r.what) for at, r in read]
    return f"{len(lines)} records, {hashlib.sha256(b''.join(lines)).hexdigest()[:12]}"
