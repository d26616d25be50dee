"""Records of the metadata log as the texts that the simulated log holds, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache

from kraft import Message
from quorate.records import decode_record, encode_record

_DATA = "="
"""Before each record's bytes: control records of the quorum are plain words."""


def text_of(value: bytes) -> str:
    """One framed value of an append, as the log keeps it."""
    return _DATA + value.decode("latin-1")


def is_data(text: str) -> bool:
    """Is it a record of a controller, and none of the quorum's own?"""
    return text.startswith(_DATA)


@lru_cache(maxsize=50_000)
def record_of(text: str) -> Message:
    """The record behind `text`; many nodes read each."""
    return decode_record(text[len(_DATA) :].encode("latin-1"))


def packed(records: Iterable[tuple[Message, int]]) -> str:
    """What a checkpoint holds of a state."""
    return json.dumps([text_of(encode_record(record, version)) for record, version in records])


def unpacked(state: str) -> list[Message]:
    """The records of a checkpoint."""
    return [record_of(text) for text in json.loads(state)]
