"""HTTP/1.1 as far as the page needs it, without I/O: the head of a request, read strictly, and that of a response.

RFC 9112. What has two readings is refused: a length twice, Transfer-Encoding, a folded line, a bare line feed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

__all__ = ["BODY_BYTES_MAX", "HEAD_BYTES_MAX", "HttpError", "Request", "chunk", "read_head", "response_head"]

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

_REQUEST_LINE: Final = re.compile(r"([A-Z]{1,16}) (/[!-~]*) HTTP/(\d\.\d)")
_FIELD: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*?)[ \t]*")


class HttpError(Exception):
    """A request that is refused; `status` and the message are the answer, and the connection ends with it."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Request(NamedTuple):
    """A request without its body, which has `length` bytes. Names of fields are in small letters."""

    method: str
    path: str
    parameters: Mapping[str, str]
    fields: Mapping[str, str]
    length: int

    @property
    def closes(self) -> bool:
        """Whether the client wants the connection to end with the answer."""
        return "close" in self.fields.get("connection", "").lower()


def read_head(head: bytes) -> Request:
    """Returns the request of a head, which ends before its empty line. Raises HttpError.

    >>> read_head(b"GET /a?b=c HTTP/1.1\\r\\nHost: x").parameters
    {'b': 'c'}
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        raise HttpError(HTTPStatus.BAD_REQUEST, "the first line is no request of HTTP/1.1")
    method, target, version = found.groups()
    if version != "1.1":
        raise HttpError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"HTTP/{version}: HTTP/1.1 is spoken here")
    fields = dict[str, str]()
    for name, value in _fields(lines):
        if name in fields and name in ("host", "content-length", "content-type", "origin"):
            raise HttpError(HTTPStatus.BAD_REQUEST, f"{name} is there twice")
        fields[name] = value
    if "host" not in fields:
        raise HttpError(HTTPStatus.BAD_REQUEST, "Host is missing (RFC 9112, 3.2)")
    if "transfer-encoding" in fields:
        raise HttpError(HTTPStatus.LENGTH_REQUIRED, "Transfer-Encoding: a body is told by Content-Length here")
    path, _, query = target.partition("?")
    return Request(method, unquote(path), _parameters(query), fields, _length(fields.get("content-length", "0")))


def response_head(
    status: HTTPStatus, content_type: str, *, length: int | None, closes: bool, more: Mapping[str, str] | None = None
) -> bytes:
    """Returns the head of a response with its empty line; without a length the body comes in chunks."""
    fields = {
        "Content-Type": content_type,
        **({"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}),
        "Connection": "close" if closes else "keep-alive",
        "Cache-Control": "no-store",
        **SECURITY,
        **(more or {}),
    }
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    """Returns a chunk of a body; empty data is its end (RFC 9112, 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _fields(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise HttpError(HTTPStatus.BAD_REQUEST, "a line of the head is no field of HTTP/1.1")
        yield found[1].lower(), found[2]


def _parameters(query: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX))
    except ValueError:
        rule = f"at most {PARAMETERS_MAX} parameters, in UTF-8"
        raise HttpError(HTTPStatus.BAD_REQUEST, f"the query after ? must have {rule}") from None


def _length(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise HttpError(HTTPStatus.BAD_REQUEST, "Content-Length is no number")
    if int(text) > BODY_BYTES_MAX:
        why = f"Content-Length: {int(text)}: a request has at most {BODY_BYTES_MAX:,} bytes"
        raise HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
    return int(text)
