"""The answers to Fetch that differ in records and high watermark alone, as bytes: all else is encoded once."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from kraft.api.fetch import FetchResponse
from quorate.nouns import Offset
from quorate.wire.codec import encode
from quorate.wire.fitting import fitted
from quorate.wire.primitives import uvarint

__all__ = ["VERSION_MIN", "FetchForm", "Served"]

VERSION_MIN: Final = 12
"""The first flexible version of Fetch: from it on the length of records is an unsigned varint (KIP-482)."""
PLACE: Final = 0x5EED_F00D_5EED_F00D
"""A high watermark that stands where one is put; no log has so many records."""
RECORDS: Final = b"\xf5records go here\xf5"
"""A text that stands where records are put: fewer than 127 bytes, so that its length is one byte."""


class FetchForm:
    """An answer of the quorum node's to one reader, in which records and high watermark are put in place of its own."""

    def __init__(self, response: FetchResponse) -> None:
        """`response` has one partition, without an error."""
        self._response = _with(response, RECORDS, PLACE)
        self._encoded: dict[int, tuple[bytes, bytes, bytes]] = {}

    def is_of(self, response: FetchResponse) -> bool:
        """Whether another answer differs from this one in records and high watermark alone."""
        return self._response == _with(response, RECORDS, PLACE)

    def response(self, records: bytes, high_watermark: Offset) -> FetchResponse:
        """Returns the answer with these records and this high watermark, as a struct."""
        return _with(self._response, records, high_watermark)

    def body(self, version: int, records: bytes, high_watermark: Offset) -> tuple[bytes, bytes, bytes]:
        """Returns the answer as encoded in `version`, in three pieces, of which the second one is `records`."""
        assert version >= VERSION_MIN, version
        start, between, end = self._encoded.get(version) or self._split(version)
        return start + high_watermark.to_bytes(8) + between + uvarint(len(records) + 1), records, end

    def _split(self, version: int) -> tuple[bytes, bytes, bytes]:
        """Returns what is before the high watermark, between it and the length of the records, and after these."""
        encoded = encode(fitted(self._response, version), version)
        start, place, rest = encoded.partition(PLACE.to_bytes(8))
        between, found, end = rest.partition(bytes([len(RECORDS) + 1]) + RECORDS)
        assert place, encoded
        assert found, encoded
        self._encoded[version] = start, between, end
        return start, between, end


class Served(NamedTuple):
    """The answer to one fetch."""

    form: FetchForm
    records: bytes
    high_watermark: Offset

    @property
    def response(self) -> FetchResponse:
        """The answer as a struct."""
        return self.form.response(self.records, self.high_watermark)

    def body(self, version: int) -> tuple[bytes, bytes, bytes]:
        """Returns the answer as encoded in `version`, in three pieces; the second one is the records."""
        return self.form.body(version, self.records, self.high_watermark)


def _with(response: FetchResponse, records: bytes, high_watermark: Offset) -> FetchResponse:
    (topic,) = response.responses
    (partition,) = topic.partitions
    answered = replace(partition, records=records, high_watermark=high_watermark)
    return replace(response, responses=(replace(topic, partitions=(answered,)),))
