"""Deduplication: remembers the answers to requests with an id, so that a retry gets the same answer and writes nothing.

A digest of the caller and its request id, and the answer, travel in the log, in a tagged field of the first record of
the request's last batch, beside the trace context; so the next leader knows them, too. Snapshots do not contain them.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from kraft import Message
from quorate.errors import ApiError, Corrupt, ErrorCode
from quorate.wire.codec import decode, encode
from quorate.wire.schema import layout_of

__all__ = ["DONE_BYTES_MAX", "DONE_MAX", "ID_BYTES", "MARK_BYTES_MAX", "RequestDeduplication", "RequestId", "mark"]

ID_BYTES: Final = 16
DIGEST_BYTES: Final = 8
"""The size in bytes of the digest of what a request asks for, kept to tell a retry from another request."""
DONE_MAX: Final = 10_000
"""The number of ids that are remembered: about 10 s at 1,000 writes a second, longer than a client retries."""
DONE_BYTES_MAX: Final = 32 << 20
"""The bytes of the answers that are remembered: 10,000 of the longest would take 2.5 GiB."""
MARK_BYTES_MAX: Final = 256 << 10
"""The largest response in bytes that is kept in the log; a request with a longer one is refused."""
assert MARK_BYTES_MAX <= DONE_BYTES_MAX, "an answer that is kept in the log is remembered, too"


@dataclass(frozen=True, slots=True)
class RequestId:
    """The identity of a request, 16 bytes, and what a retry with it must have in common with the first request.

    That is the type of its response, and `digest`, a digest of what it asks for.
    """

    value: bytes
    response: type[Message]
    digest: bytes = b""

    def __post_init__(self) -> None:
        assert len(self.value) == ID_BYTES, self.value

    @staticmethod
    def of(given: bytes, *, caller: str, asked: bytes, response: type[Message]) -> RequestId:
        """Returns the identity of a request by the id that its caller has given, the caller, and the encoded request.

        Two callers that give the same id have different identities. The id itself is not in it, and so not in the log.
        """
        value = sha256(caller.encode() + b"\0" + given).digest()[:ID_BYTES]
        return RequestId(value, response, sha256(asked).digest()[:DIGEST_BYTES])

    @property
    def kind(self) -> str:
        """The name of the response's type and, after a slash, the digest in hexadecimal: as the log has it."""
        return f"{self.response.__name__}/{self.digest.hex()}"


@dataclass(frozen=True, slots=True)
class _Done:
    kind: str
    version: int
    body: bytes


@dataclass(frozen=True, slots=True)
class _UnderWay:
    kind: str
    response: Message


class RequestDeduplication:
    """The last committed answers to requests with an id, and the answers that are not committed yet.

    Of the committed ones at most `DONE_MAX` are remembered, with at most `DONE_BYTES_MAX`.
    """

    def __init__(self) -> None:
        self._done: dict[bytes, _Done] = {}
        self._done_bytes = 0
        self._under_way: dict[bytes, _UnderWay] = {}

    def __len__(self) -> int:
        """The number of committed answers that are remembered for retries."""
        return len(self._done)

    @property
    def under_way_count(self) -> int:
        """The number of answers whose records are not committed yet."""
        return len(self._under_way)

    def begin(self, text: bytes, response: Message) -> None:
        """Remembers an answer whose records are not committed yet; `text` is what `mark` has returned for it.

        From now on `answer` gives it to retries; `note` or `undo` must follow. The id must not be under way already.
        """
        assert text[:ID_BYTES] not in self._under_way, "the request was decided twice: a retry gets the first answer"
        kind, _, _ = text[ID_BYTES:].partition(b"\0")
        self._under_way[text[:ID_BYTES]] = _UnderWay(kind.decode("ascii"), response)

    def undo(self, text: bytes) -> None:
        """Forgets an answer whose records did not get into the log, so that a retry is decided again."""
        self._under_way.pop(text[:ID_BYTES], None)

    def note(self, text: bytes) -> None:
        """Remembers a committed answer from its `mark` in the log, for retries; it is no longer under way.

        The oldest answers are forgotten to keep the limits. Malformed bytes are ignored.
        """
        self._under_way.pop(text[:ID_BYTES], None)
        kind_end = text.find(b"\0", ID_BYTES)
        if kind_end < 0 or len(text) < kind_end + 3:
            return
        version = int.from_bytes(text[kind_end + 1 : kind_end + 3], "big")
        kind = text[ID_BYTES:kind_end].decode("ascii", "replace")
        self._forget(text[:ID_BYTES])
        done = self._done[text[:ID_BYTES]] = _Done(kind, version, text[kind_end + 3 :])
        self._done_bytes += len(done.body)
        while len(self._done) > DONE_MAX or self._done_bytes > DONE_BYTES_MAX:
            self._forget(next(iter(self._done)))
        assert self._done_bytes >= 0, self._done_bytes
        assert self._done or not self._done_bytes, f"{self._done_bytes} bytes are counted, and none are kept"

    def _forget(self, request_id: bytes) -> None:
        done = self._done.pop(request_id, None)
        self._done_bytes -= 0 if done is None else len(done.body)

    def answer(self, request_id: RequestId) -> Message | None:
        """Returns the answer to an earlier request with this id, committed or not; None if there is none to be read.

        Raises ApiError(INVALID_REQUEST) if the id was used for a request that asks for something else.
        """
        under_way = self._under_way.get(request_id.value)
        if under_way is not None:
            _check_kind(request_id, under_way.kind)
            return under_way.response
        done = self._done.get(request_id.value)
        if done is None:
            return None
        _check_kind(request_id, done.kind)
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
    return request_id.value + request_id.kind.encode("ascii") + b"\0" + version.to_bytes(2, "big") + body


def _check_kind(request_id: RequestId, kind: str) -> None:
    """Raises ApiError(INVALID_REQUEST) if the first request with this id asked for something else."""
    if request_id.kind == kind:
        return
    name, mine = kind.partition("/")[0], request_id.response.__name__
    what = f"that got a {name}; one that gets a {mine}" if name != mine else "that asks for something else; this one"
    raise ApiError(ErrorCode.INVALID_REQUEST, f"request_id: it was given to a request {what} needs an id of its own")
