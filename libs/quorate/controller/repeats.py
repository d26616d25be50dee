"""What was answered to requests that carry an id, so that one that is sent again is answered alike and written once.

The mark of such a request travels in the log, in a tagged field of the last batch's first record, beside the trace
context: so whoever leads next knows what has been answered. Checkpoints do not carry it: it is forgotten with the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft import Message
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.wire.codec import decode, encode
from quorate.wire.schema import layout_of

__all__ = ["ID_BYTES", "KEPT_MAX", "MARK_BYTES_MAX", "Repeats", "RequestId", "mark"]

ID_BYTES: Final = 16
KEPT_MAX: Final = 10_000
"""Ids are remembered so long: at 1,000 writes a second some 10 s, which is more than a client goes on trying."""
MARK_BYTES_MAX: Final = 256 << 10
"""A response that is longer is not kept in the log: the request must ask for less at once."""


@dataclass(frozen=True, slots=True)
class RequestId:
    """What a client chose, `ID_BYTES` long, and the class that the response has: an id is for one kind of request."""

    value: bytes
    response: type[Message]

    def __post_init__(self) -> None:
        assert len(self.value) == ID_BYTES, self.value


@dataclass(frozen=True, slots=True)
class _Done:
    name: str
    version: int
    body: bytes


class Repeats:
    """The last `KEPT_MAX` answers to requests with an id that are committed, and those that are on their way there."""

    def __init__(self) -> None:
        self._done: dict[bytes, _Done] = {}
        self._under_way: dict[bytes, Message] = {}

    def __len__(self) -> int:
        """Those that are committed."""
        return len(self._done)

    def begin(self, text: bytes, response: Message) -> None:
        """A request is answered with this, and its `mark` handed to the quorum."""
        self._under_way[text[:ID_BYTES]] = response

    def undo(self, text: bytes) -> None:
        """This `mark` has not come to be in the log: the request never was."""
        self._under_way.pop(text[:ID_BYTES], None)

    def note(self, text: bytes) -> None:
        """Remember a `mark` that is committed; what is none is passed over: the log may hold anything."""
        self._under_way.pop(text[:ID_BYTES], None)
        name_end = text.find(b"\0", ID_BYTES)
        if name_end < 0 or len(text) < name_end + 3:
            return
        version = int.from_bytes(text[name_end + 1 : name_end + 3], "big")
        name = text[ID_BYTES:name_end].decode("ascii", "replace")
        self._done.pop(text[:ID_BYTES], None)
        self._done[text[:ID_BYTES]] = _Done(name, version, text[name_end + 3 :])
        if len(self._done) > KEPT_MAX:
            del self._done[next(iter(self._done))]

    def answer(self, request_id: RequestId) -> Message | None:
        """What was or will be answered; None to a request that was not seen yet.

        Raises ApiError(INVALID_REQUEST) if the id was given to a request of another kind.
        """
        response = self._under_way.get(request_id.value)
        if response is not None:
            _check_kind(request_id, type(response).__name__)
            return response
        done = self._done.get(request_id.value)
        if done is None:
            return None
        _check_kind(request_id, done.name)
        try:
            return decode(request_id.response, done.body, done.version)
        except (Corrupt, ApiError):
            return None  # written by software that says it otherwise: decided anew, as without an id


def mark(request_id: RequestId, response: Message) -> bytes:
    """What the log keeps of an answer. Raises ApiError(POLICY_VIOLATION) if it is longer than may be kept."""
    assert isinstance(response, request_id.response), (response, request_id.response)
    version = layout_of(request_id.response).versions[-1]
    body = encode(response, version)
    if len(body) > MARK_BYTES_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"the answer takes {len(body)} bytes; with a request_id it is kept and has at most {MARK_BYTES_MAX}",
        )
    return request_id.value + request_id.response.__name__.encode("ascii") + b"\0" + version.to_bytes(2, "big") + body


def _check_kind(request_id: RequestId, name: str) -> None:
    """Raises ApiError(INVALID_REQUEST) if the first request with this id was answered with another message."""
    if request_id.response.__name__ != name:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"request_id {request_id.value.hex()} was given to a request that got a {name}; "
            f"one that gets a {request_id.response.__name__} needs an id of its own",
        )
