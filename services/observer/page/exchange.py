"""The answer to one request at the page: a file, a call as JSON, or a watch as server-sent events."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from google.protobuf.message import Message

from kraft.service.observer_pb2 import WatchImageRequest, WatchImageResponse
from services.observer.page.calls import SERVICE, PageCalls, Refused
from services.observer.page.connection import Connection
from services.observer.page.files import File
from services.observer.page.http import Http, HttpError, Request
from services.observer.page.large import LargeAnswers

__all__ = ["Site"]

JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"
WATCH: Final = "WatchImage"
CALL: Final = re.compile(rf"/{re.escape(SERVICE)}/(\w+)")
OWN_SITES: Final = frozenset({"same-origin", "none"})
"""`Sec-Fetch-Site` of what the page itself asks for, or a person who types the address."""


class Site:
    """Answers browsers' requests: `files` are the page's files; `host` is the listener's, empty for every address."""

    def __init__(self, calls: PageCalls, files: Mapping[str, File], host: str) -> None:
        self._calls = calls
        self._large = LargeAnswers()
        self._files = files
        self._hosts = {"localhost", host.lower(), socket.gethostname().lower()} - {""}

    async def answer(self, connection: Connection, request: Request, let_in: Callable[[], None]) -> None:
        """Answers one request: sends a file of the page, or the answer to a call of the observer's service.

        A watch goes on until it is refused, or the client goes. A call that is refused has an answer, too. `let_in` is
        called once a call of the client is answered, and not refused. Raises HttpError for a request that is none of
        these, and Gone.
        """
        self._check_host(request, is_tls=connection.tls is not None)
        called = CALL.fullmatch(request.path)
        if called is None:
            await self._give_file(connection, request)
            return
        _check_site(request, is_tls=connection.tls is not None)
        message = self._watch(request, called[1]) if request.method == "GET" else self._posted(request, called[1])
        kind = _kind(request, self._calls.is_stream(called[1]))
        answer = _Answer(connection, self._calls, self._large, let_in, kind)
        try:
            await self._calls.call(called[1], message, connection, answer.give)
        except Refused as refused:
            await answer.refuse(refused)
        await answer.end()

    async def _give_file(self, connection: Connection, request: Request) -> None:
        if request.method not in ("GET", "HEAD"):
            why = f"{request.method}: of the page's files there are GET and HEAD alone"
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, why)
        file = self._files.get(request.path)
        if file is None:
            raise HttpError(HTTPStatus.NOT_FOUND, f"{request.path[:80]} is not here; the page is at /")
        http, size = connection.http, len(file.content)
        await connection.send(
            http.head(HTTPStatus.OK, file.content_type, length=size) + http.part(file.content) + http.end()
        )

    def _posted(self, request: Request, name: str) -> Message:
        if request.method != "POST":
            why = f"{request.method}: a call is a POST of its request as JSON; {WATCH} is a GET, too"
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, why)
        # A page of another site may send a POST of text without asking (CORS), but none of this type.
        if request.fields.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise HttpError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type: a call is {JSON}")
        return self._calls.request(name, request.body)

    def _watch(self, request: Request, name: str) -> Message:
        """Returns the request of a watch: a browser says from where on it has lost the connection."""
        if name != WATCH:
            self._calls.blank(name)
            raise HttpError(
                HTTPStatus.METHOD_NOT_ALLOWED, f"GET: a call is a POST of its request; only {WATCH} is both"
            )
        message = WatchImageRequest(subject=request.parameters.get("subject", ""))
        begin = request.fields.get("last-event-id") or request.parameters.get("from_offset")
        if begin is not None:
            if not re.fullmatch(r"[0-9]{1,18}", begin):
                raise HttpError(HTTPStatus.BAD_REQUEST, f"from_offset = {begin[:40]!r}: must be a number, 0 or more")
            message.from_offset = int(begin)
        return message

    def _check_host(self, request: Request, *, is_tls: bool) -> None:
        """Raises HttpError if a page of another site may have had its name point here (DNS rebinding).

        By TLS the browser has found the name in the certificate. In the clear it must be one that nobody else has.
        """
        name = re.sub(r":[0-9]*\Z", "", request.fields["host"]).lower()
        if is_tls or name in self._hosts:
            return
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            known = ", ".join(sorted(self._hosts))
            why = f"Host: {name[:80]}: in the clear it must be an IP address, or one of {known}; by TLS any is taken"
            raise HttpError(HTTPStatus.MISDIRECTED_REQUEST, why) from None


def _check_site(request: Request, *, is_tls: bool) -> None:
    """Raises HttpError for a call that the page of another site makes, with the certificate of its reader."""
    site, origin = request.fields.get("sec-fetch-site", "none"), request.fields.get("origin")
    own = f"{'https' if is_tls else 'http'}://{request.fields['host']}"
    if site not in OWN_SITES or (origin is not None and origin.lower() != own.lower()):
        raise HttpError(HTTPStatus.FORBIDDEN, f"a page of {(origin or 'another site')[:80]} may not call this one")


def _kind(request: Request, is_stream: bool) -> str:
    if request.method == "GET":
        return EVENTS
    return JSON_LINES if is_stream else JSON


class _Answer:
    """The answer to a call, as it is sent: its head goes with the first part."""

    def __init__(
        self, connection: Connection, calls: PageCalls, large: LargeAnswers, let_in: Callable[[], None], kind: str
    ) -> None:
        self.kind = kind
        self._connection = connection
        self._http: Http = connection.http
        self._calls = calls
        self._large = large
        self._let_in = let_in
        self._has_begun = False

    async def give(self, message: Message) -> None:
        """Sends the answer, or a part of it. Raises Gone."""
        self._let_in()
        async with self._large.turn(self._connection.host, message.ByteSize()):
            text = await self._calls.json(message)
            if self.kind == JSON:
                await self._whole(HTTPStatus.OK, text)
            elif self.kind == EVENTS:
                assert isinstance(message, WatchImageResponse), "a GET is a watch"
                await self._part(b"id: %d\ndata: %b\n\n" % (message.next_offset, text))
            else:
                await self._part(text + b"\n")

    async def refuse(self, refused: Refused) -> None:
        """Sends why there is no answer; after the first part as the last one. Raises Gone."""
        text = await self._calls.json(refused.status)
        if not self._has_begun:
            self.kind = JSON
            await self._whole(refused.http_status, text)
        elif self.kind == EVENTS:
            await self._part(b"event: refused\ndata: %b\n\n" % text)
        else:
            await self._part(b'{"error": %b}\n' % text)

    async def end(self) -> None:
        """Ends an answer that came in parts. Raises Gone."""
        if self.kind != JSON:
            await self._connection.send(self._begun() + self._http.end())

    async def _whole(self, status: HTTPStatus, text: bytes) -> None:
        self._has_begun = True
        head = self._http.head(status, self.kind, length=len(text))
        await self._connection.send(head + self._http.part(text) + self._http.end())

    async def _part(self, data: bytes) -> None:
        await self._connection.send(self._begun() + self._http.part(data))

    def _begun(self) -> bytes:
        """Returns the head, if it is not sent yet."""
        if self._has_begun:
            return b""
        self._has_begun = True
        return self._http.head(HTTPStatus.OK, self.kind, closes=self.kind == EVENTS)
