"""Whether this heartbeat service counts or stands by: each second it claims the sessions at the active controller."""

from __future__ import annotations

import asyncio
from typing import Final

from kraft.service.controller_pb2 import ClaimSessionsRequest, ClaimSessionsResponse
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import CLAIM_EVERY_MS, CLAIM_LAPSES_MS, Claimant
from quorate.runtime.client import Client
from quorate.runtime.logs import logger

__all__ = ["Standing"]

log = logger(__name__)

FOR_GOOD_MS: Final = 1 << 62
"""No controller of this release is active, so that nobody could tell two services apart: it counts, as that one did."""


class Standing:
    """What the active controller said last. Before it has said anything, and after a lapse, nobody is fenced here."""

    def __init__(self, controllers: Client[ControllerStub], claimant: Claimant) -> None:
        self.claimant = claimant
        self.told = asyncio.Event()
        """Set once a controller has answered a claim."""
        self._controllers = controllers
        self._until_ms: int | None = None
        self._other: str | None = None

    @property
    def counts(self) -> bool:
        """Whether this service may have brokers fenced."""
        return self._until_ms is not None and _now_ms() <= self._until_ms

    @property
    def other(self) -> str | None:
        """The address of the service that counts while this one stands by; None while it does not."""
        return self._other

    def check(self) -> None:
        """Raises ApiError(NOT_CONTROLLER), after which a broker asks elsewhere, while this service stands by."""
        if self._other is not None:
            why = f"this heartbeat service ({self.claimant.address}) stands by; the one at {self._other} counts"
            raise ApiError(ErrorCode.NOT_CONTROLLER, why)

    async def run(self) -> None:
        """Claims the sessions again and again, until cancelled."""
        while True:
            await self._claim()
            await asyncio.sleep(CLAIM_EVERY_MS / 1000)

    async def _claim(self) -> None:
        begun_ms, has_counted = _now_ms(), self.counts
        request = ClaimSessionsRequest(tracker_id=self.claimant.id, address=self.claimant.address)
        try:
            answer = await self._controllers.call(lambda stub: stub.ClaimSessions, request, deadline_ms=CLAIM_EVERY_MS)
        except ApiError as refusal:
            self._unanswered(refusal)
        else:
            self._answered(answer, begun_ms=begun_ms, has_counted=has_counted)

    def _answered(self, answer: ClaimSessionsResponse, *, begun_ms: int, has_counted: bool) -> None:
        if answer.counts:
            if not has_counted:
                log.info("counts the brokers' heartbeats", address=self.claimant.address, instead_of=self._other)
            self._until_ms, self._other = begun_ms + CLAIM_LAPSES_MS, None
        else:
            if answer.holder != self._other:
                log.warning("stands by: another heartbeat service counts", counts=answer.holder)
            self._until_ms, self._other = None, answer.holder
        self.told.set()

    def _unanswered(self, refusal: ApiError) -> None:
        if refusal.code is ErrorCode.UNSUPPORTED_VERSION:
            self._until_ms, self._other = FOR_GOOD_MS, None
            self.told.set()
            return
        log.debug("the sessions are not claimed", reason=str(refusal))
        if self._until_ms is not None and not self.counts:
            log.warning("no broker is fenced until a controller answers", reason=str(refusal))
            self._until_ms = None


def _now_ms() -> int:
    """Returns the monotonic time, in ms: it goes on while this process stands still, as the claim does."""
    return int(asyncio.get_running_loop().time() * 1000)
