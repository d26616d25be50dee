"""Kafka's protocol at the broker's listener: which APIs are served, and with which features (KIP-584)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from kraft import Message
from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorate.controller.api_versions import api_versions
from quorate.network.server import ConnectedClient, KafkaServer, Listening, Unanswerable, serving
from quorate.protocol import Request
from quorate.protocol.api_versions import Versions
from quorate.protocol.apis import API_VERSIONS, all_apis
from quorate.runtime.logs import logger
from quorate.runtime.loop import CannotListen
from quorate.runtime.replica import Replica
from quorate.runtime.setting_types import ListenerAddress

__all__ = ["Wire"]

log = logger(__name__)

SERVED: Final[Versions] = {API_VERSIONS: all_apis()[API_VERSIONS].versions}
"""ApiVersions alone: the connection answers it by itself, and the other APIs are not here yet."""
KRAFT_VERSION_OF_BROKERS: Final = 0
"""Brokers list no kraft.version: it is the quorum's."""


class Wire:
    """What a broker answers at its listener, by the state that it has applied."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._keys = tuple(ApiVersionsResponse.ApiVersion(key, each[0], each[-1]) for key, each in SERVED.items())

    @asynccontextmanager
    async def serving(self, at: ListenerAddress) -> AsyncIterator[KafkaServer]:
        """Listens until the context exits. Raises CannotListen."""
        listening = Listening(handle=self._answer, served=SERVED, describe_versions=self._versions, name=at.name)
        try:
            async with serving(listening, at.endpoint.host, at.endpoint.port) as server:
                yield server
        except OSError as problem:
            raise CannotListen(f"cannot listen on {at}: {problem.strerror}") from None

    def _versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        features = self._replica.state.features
        return api_versions(features, kraft_version=KRAFT_VERSION_OF_BROKERS, served=self._keys)

    async def _answer(self, request: Request, client: ConnectedClient) -> Message | None:
        raise Unanswerable(f"{request.api.name} is not served")
