"""Deduplication: remembers the answers to requests with an id, so that a retry gets the same answer and writes nothing.

The request id and the answer travel in the log, in a tagged field of the first record of the request's last batch,
beside the trace context; so the next leader knows them, too. Snapshots do not contain them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kraft import Message
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.wire.codec import decode, encode
from quorate.wire.schema import layout_of

__all__ = ["ID_BYTES", "KEPT_MAX", "MARK_BYTES_MAX", "RequestDeduplication", "RequestId", "mark"]

ID_BYTES: Final = 16
KEPT_MAX: Final = 10_000
"""The number of ids that are remembered: about 10 s at 1,000 writes a second, longer than a client retries."""
MARK_BYTES_MAX: Final = 256 << 10
"""The largest response in bytes that is kept in the log; a request with a longer one is refused."""


@dataclass(frozen=True, slots=True)
class RequestId:
    """A request id: bytes chosen by the client, and the type of its response, as an id is for one kind of request."""

    value: bytes
    response: type[Message]

    def __post_init__(self) -> None:
        assert len(self.value) == ID_BYTES, self.value


@dataclass(frozen=True, slots=True)
class _Done:
    name: str
    version: int
    body: bytes


class RequestDeduplication:
    """The last `KEPT_MAX` committed answers to requests with an id, and the answers that are not committed yet."""

    def __init__(self) -> None:
        self._done: dict[bytes, _Done] = {}
        self._under_way: dict[bytes, Message] = {}

    def __len__(self) -> int:
        """The number of committed answers that are remembered for retries."""
        return len(self._done)

    @property
    def under_way_count(self) -> int:
        """The number of answers whose records are not committed yet."""
        return len(self._under_way)

    def begin(self, text: bytes, response: Message) -> None:
        """Remembers an answer whose records are not committed yet; `text` is its `mark` in the log.

        A request with this id is not decided again meanwhile, as it gets this answer.
        """
        assert text[:ID_BYTES] not in self._under_way, "the request was decided twice: a retry gets the first answer"
        self._under_way[text[:ID_BYTES]] = response

    def undo(self, text: bytes) -> None:
        """Forgets an answer whose records did not get into the log, so that a retry is decided again."""
        self._under_way.pop(text[:ID_BYTES], None)

    def note(self, text: bytes) -> None:
        """Remembers a committed answer from its `mark` in the log, for retries; malformed bytes are ignored."""
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
        assert len(self._done) <= KEPT_MAX, len(self._done)

    def answer(self, request_id: RequestId) -> Message | None:
        """Returns the answer to an earlier request with this id, committed or not; None if there is none.

        Raises ApiError(INVALID_REQUEST) if the id was used for a request of another kind.
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
            return None  # written in another format by another version: the request is decided again


def mark(request_id: RequestId, response: Message) -> bytes:
    """Encodes a request id and its answer for the log. Raises ApiError(POLICY_VIOLATION) if the answer is too long."""
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
    """Checks the response type of a retry. Raises ApiError(INVALID_REQUEST) if the first request had another type."""
    if request_id.response.__name__ != name:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"request_id {request_id.value.hex()} was given to a request that got a {name}; "
            f"one that gets a {request_id.response.__name__} needs an id of its own",
        )
