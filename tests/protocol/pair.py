"""Two connections that speak to each other over a pretended wire, cut into pieces as a test likes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kraft import Message
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorate.protocol import (
    ClientConnection,
    ClientSettings,
    Close,
    ConnectionReady,
    Request,
    Response,
    ServerConnection,
)
from quorate.protocol import ServerSettings as Settings
from quorate.protocol.apis import all_apis
from quorate.protocol.sasl.client import Begin
from quorate.protocol.sasl.server import Mechanisms

SERVED: Mapping[int, range] = {key: api.versions for key, api in all_apis().items()}


def describe(_: ApiVersionsRequest, version: int, *, served: Mapping[int, range] = SERVED) -> ApiVersionsResponse:
    """All that there is, or that is served."""
    keys = (ApiVersionsResponse.ApiVersion(key, each[0], each[-1]) for key, each in served.items())
    return ApiVersionsResponse(api_keys=tuple(keys))


def nonce() -> str:
    return secrets.token_hex(16)


@dataclass
class Pair:
    """A client and a server; `exchange` lets both speak until neither has anything left to say."""

    begin: Begin | None = None
    mechanisms: Mechanisms | None = None
    settings: Settings = field(default_factory=Settings)
    served: Mapping[int, range] = field(default_factory=lambda: SERVED)
    ask_version: int | None = None
    piece_bytes: int = 1 << 20
    now_ms: int = 0
    wall_ms: int = 0

    def __post_init__(self) -> None:
        self.client = ClientConnection(ClientSettings(), begin=self.begin, api_versions_version=self.ask_version)
        self.server = ServerConnection(
            self.settings,
            served=self.served,
            describe_versions=describe,
            mechanisms=self.mechanisms,
            now_ms=self.now_ms,
            wall_ms=lambda: self.wall_ms,
        )
        self.requests: list[Request] = []
        self.events: list[ConnectionReady | Response | Close] = []
        self.server_close: Close | None = None

    def exchange(self, answer: Callable[[Request], Message] | None = None) -> None:
        """Until both are silent; requests are answered at once if there is an `answer`, else kept in `requests`."""
        while True:
            up = self.client.data_to_send()
            for piece in self._pieces(up):
                self.server.receive_data(piece, self.now_ms)
                self._serve(answer)
            self._serve(answer)
            down = self.server.data_to_send(self.now_ms)
            for piece in self._pieces(down):
                self.client.receive_data(piece)
                while (event := self.client.next_event()) is not None:
                    self.events.append(event)
            if not up and not down:
                return

    def _serve(self, answer: Callable[[Request], Message] | None) -> None:
        while (event := self.server.next_event(self.now_ms)) is not None:
            match event:
                case Close():
                    self.server_close = event
                case Request():
                    self.requests.append(event)
                    if answer is not None:
                        self.server.respond(event, answer(event))

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        return (data[at : at + self.piece_bytes] for at in range(0, len(data), self.piece_bytes))
