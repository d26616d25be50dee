"""One connection of a browser as HTTP/1.1 speaks it, without I/O: h11 reads and writes it, the page's bounds are here.

A request is taken whole, its body with it; RFC 9112.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

import h11

__all__ = ["BODY_BYTES_MAX", "HEAD_BYTES_MAX", "Http", "HttpError", "Request"]

HEAD_BYTES_MAX: Final = 16 << 10
"""The bytes of a request's head, cookies of other pages of the same host in it."""
BODY_BYTES_MAX: Final = 256 << 10
"""The bytes of a request's body: a question in SQL is the longest."""
PARAMETERS_MAX: Final = 16

SECURITY: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of each response: the browser takes scripts and styles from this listener alone, and shows the page in no frame."""


class HttpError(Exception):
    """A request that is refused; `status` and the message are the answer, and the connection ends with it."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Request(NamedTuple):
    """A request. Names of fields are in small letters; of a field that comes twice the last one counts."""

    method: str
    path: str
    parameters: Mapping[str, str]
    fields: Mapping[str, str]
    body: bytes


class Http:
    """HTTP/1.1 of one connection: takes the bytes received, and returns the bytes to send."""

    def __init__(self) -> None:
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._is_head = False

    @property
    def has_begun(self) -> bool:
        """Whether a part of a request is there."""
        return self._head is not None or bool(self._h11.trailing_data[0])

    @property
    def goes_on(self) -> bool:
        """Whether the connection may have another request, after the answer to this one."""
        return self._h11.our_state not in (h11.MUST_CLOSE, h11.CLOSED, h11.ERROR)

    def receive(self, data: bytes) -> None:
        """Takes the bytes that were received; none if the peer has closed its side."""
        self._h11.receive_data(data)

    def request(self) -> Request | None:
        """Returns the next request once it is whole, else None. Raises HttpError, and EOFError when none will come."""
        try:
            if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
                self._h11.start_next_cycle()
                self._is_head = False
            while True:
                event = self._h11.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED:
                    return None
                if isinstance(event, h11.ConnectionClosed):
                    raise EOFError
                if isinstance(event, h11.Request):
                    self._head, self._is_head = event, event.method == b"HEAD"
                    _check_size(int(dict(event.headers).get(b"content-length", b"0")))
                elif isinstance(event, h11.Data):
                    self._add(event.data)
                else:
                    return self._whole()
        except h11.RemoteProtocolError as problem:
            raise HttpError(HTTPStatus(problem.error_status_hint), f"{problem} (HTTP/1.1, RFC 9112)") from None

    def head(self, status: HTTPStatus, content_type: str, *, length: int | None = None, closes: bool = False) -> bytes:
        """Returns the head of a response; without a length the body comes in chunks. RFC 9112, 7.1."""
        fields = {
            "Content-Type": content_type,
            **({} if length is None else {"Content-Length": str(length)}),
            **({"Connection": "close"} if closes else {}),
            "Cache-Control": "no-store",
            **SECURITY,
        }
        return self._send(h11.Response(status_code=status.value, headers=[*fields.items()], reason=status.phrase))

    def go_on(self) -> bytes:
        """Returns the 100 that the other side waits for before it sends its body; else nothing. RFC 9110, 10.1.1."""
        if not self._h11.they_are_waiting_for_100_continue:
            return b""
        status = HTTPStatus.CONTINUE
        return self._send(h11.InformationalResponse(status_code=status.value, headers=[], reason=status.phrase))

    def part(self, data: bytes) -> bytes:
        """Returns the bytes of a part of the body; none in the answer to a HEAD (RFC 9110, 9.3.2)."""
        return b"" if self._is_head else self._send(h11.Data(data=data))

    def end(self) -> bytes:
        """Returns the end of the body."""
        return self._send(h11.EndOfMessage())

    def refusal(self, error: HttpError) -> bytes:
        """Returns the whole answer to a request that is refused before any call: after it the connection ends."""
        text = f"{error}\n".encode("utf-8", "replace")
        head = self.head(error.status, "text/plain; charset=utf-8", length=len(text), closes=True)
        return head + self.part(text) + self.end()

    def _send(self, event: h11.Event) -> bytes:
        return self._h11.send(event) or b""

    def _add(self, data: bytes | bytearray) -> None:
        self._body += data
        _check_size(len(self._body))

    def _whole(self) -> Request:
        assert self._head is not None, "the end of a message comes after its head"
        head, body = self._head, bytes(self._body)
        self._head, self._body = None, bytearray()
        path, _, query = head.target.decode("latin-1").partition("?")
        fields = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        if "host" not in fields:
            raise HttpError(HTTPStatus.BAD_REQUEST, "Host is missing (RFC 9112, 3.2)")
        return Request(head.method.decode("latin-1"), unquote(path), _parameters(query), fields, body)


def _check_size(length: int) -> None:
    if length > BODY_BYTES_MAX:
        why = f"the body has {length:,} bytes or more: there may be {BODY_BYTES_MAX:,} at most"
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)


def _parameters(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX))
    except ValueError:
        rule = f"at most {PARAMETERS_MAX} parameters, in UTF-8"
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the query after ? must have {rule}") from None
