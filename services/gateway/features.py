"""A gateway's answer to ApiVersions: its APIs, and the features as the controller beside it has them. KIP-584."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec.structs import replace

from kraft.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorate.errors import ApiError
from quorate.protocol.api_versions import Versions
from quorate.runtime.following.unanswered import Unanswered
from quorate.runtime.logging.logs import logger

__all__ = ["ApiVersionsCache"]

log = logger(__name__)

REFRESH_S: Final = 0.5
"""How often the controller is asked; a standby of Kafka's learns of a new level as late."""


class ApiVersionsCache:
    """Keeps the controller's last answer to ApiVersions; asks for it each `REFRESH_S`, and after each UpdateFeatures.

    ApiVersions is the first request of every connection, so it is answered without a call; while the controller cannot
    be reached, or has started again and finalizes nothing before it has read the log, with what it said last.
    """

    def __init__(
        self, ask: Callable[[], Awaitable[ApiVersionsResponse]], served: Versions, *, controller: str = ""
    ) -> None:
        """`controller` is the address that `ask` asks, for the log."""
        self._ask = ask
        self._controller = controller
        self._unanswered = Unanswered(
            log, [controller], missing="the controller does not answer", found="the controller answers again"
        )
        self._keys = tuple(ApiVersionsResponse.ApiVersion(key, each[0], each[-1]) for key, each in served.items())
        self._answer: ApiVersionsResponse | None = None
        self._asked = 0
        self._answered = 0
        """The number of the question that the answer is to."""
        self.known = asyncio.Event()
        """Set once the controller has answered."""

    def describe(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        """Returns the answer to ApiVersions, with the gateway's own APIs; only to be called once `known` is set."""
        assert self._answer is not None, "it listens before the controller has answered"
        return self._answer

    async def run(self) -> None:
        """Asks the controller until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(REFRESH_S)

    async def refresh(self) -> None:
        """Asks the controller now; what is known stays if it cannot be reached, or if a later question is answered."""
        self._asked += 1
        number = self._asked
        try:
            answer = await self._ask()
        except ApiError as refusal:
            self._unanswered.failed(self._controller, str(refusal))
            return
        self._unanswered.answered()
        if number < self._answered or (self._answer is not None and answer.finalized_features_epoch < 0):
            return  # it is no newer, or of a controller that has started again and not read the log yet
        self._answer, self._answered = replace(answer, api_keys=self._keys), number
        self.known.set()
