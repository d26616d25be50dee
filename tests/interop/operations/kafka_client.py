"""One connection to a node of a released Kafka that speaks its binary protocol: our codec, their server."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final, Self

from kraft import Message
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorate.wire.codec import decode, encode
from quorate.wire.primitives import read_uvarint
from quorate.wire.schema import layout_of
from tests.interop.operations.apis import response_to

DEADLINE_S: Final = 30.0
CLIENT_ID: Final = b"quorate-operations"
API_VERSIONS_KEY: Final = 18
SIZE_BYTES: Final = 4


class NotServed(Exception):
    """The node does not list this API, or no version of it that we can write."""


class KafkaClient:
    """Requests one after the other; each in the newest version that both sides know."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._turn = asyncio.Lock()

    @classmethod
    async def connect(cls, port: int, *, host: str = "127.0.0.1") -> Self:
        """Connect, and ask which versions of which APIs there are."""
        client = cls(*await asyncio.open_connection(host, port))
        asked = ApiVersionsRequest(client_software_name="quorate", client_software_version="1")
        answer = await client.ask(asked, version=3)
        assert isinstance(answer, ApiVersionsResponse), answer
        assert not answer.error_code, answer
        client._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    def version_of(self, request: type[Message]) -> int:
        """The newest version of a request that this node serves and that we can write. Raises NotServed."""
        layout = layout_of(request)
        assert layout.key is not None, request
        lowest, highest = self._versions.get(layout.key, (0, -1))
        common = [version for version in layout.versions if lowest <= version <= highest]
        if not common:
            raise NotServed(f"{request.__name__}: we write {layout.versions}, the node reads {lowest} to {highest}")
        return common[-1]

    async def ask(self, request: Message, *, version: int | None = None) -> Message:
        """The answer to one request. A node that closes the connection instead raises IncompleteReadError."""
        version = self.version_of(type(request)) if version is None else version
        key = layout_of(type(request)).key
        assert key is not None, request
        async with self._turn, asyncio.timeout(DEADLINE_S):
            self._correlation_id += 1
            self._writer.write(_framed(_header(key, version, self._correlation_id) + encode(request, version)))
            await self._writer.drain()
            size = int.from_bytes(await self._reader.readexactly(SIZE_BYTES))
            answer = await self._reader.readexactly(size)
        assert self._correlation_id == int.from_bytes(answer[:4]), (self._correlation_id, answer[:4])
        return decode(response_to(type(request)), answer[_header_size(answer, key) :], version)


def _header(key: int, version: int, correlation_id: int) -> bytes:
    """Request header 2 (KIP-482): the client id is in the old encoding, and there are no tagged fields."""
    numbers = key.to_bytes(2) + version.to_bytes(2) + correlation_id.to_bytes(4)
    return numbers + len(CLIENT_ID).to_bytes(2) + CLIENT_ID + b"\0"


def _header_size(answer: bytes, key: int) -> int:
    """Of response header 1, whose tagged fields nobody uses yet; ApiVersions has header 0 for old clients' sake."""
    if key == API_VERSIONS_KEY:
        return 4
    tag_count, end = read_uvarint(answer, 4)
    assert tag_count == 0, answer[:16]
    return end


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(SIZE_BYTES) + data
