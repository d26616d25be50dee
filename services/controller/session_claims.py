"""Which heartbeat service counts, as the active controller knows it: ClaimSessions, and the check of each fencing."""

from __future__ import annotations

import asyncio

from kraft.service.controller_pb2 import ClaimSessionsRequest, ClaimSessionsResponse
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import Claimant, SessionClaim
from quorate.runtime.logging.logs import logger
from services.controller.apis import Apis

__all__ = ["SessionClaims"]

log = logger(__name__)


class SessionClaims:
    """Grants the claim of the brokers' sessions to one heartbeat service, in each epoch of this active controller."""

    def __init__(self, apis: Apis) -> None:
        self._apis = apis
        self._claim = SessionClaim()

    async def claim(self, request: ClaimSessionsRequest) -> ClaimSessionsResponse:
        """Grants a claim, or says who has it: one that is not renewed lapses. A majority confirms the leadership first.

        Raises ApiError: INVALID_REQUEST without a tracker id, NOT_CONTROLLER if this controller does not lead.
        """
        if not request.tracker_id:
            why = "tracker_id is empty; it is the id of the heartbeat service's process"
            raise ApiError(ErrorCode.INVALID_REQUEST, why, {"field": "tracker_id"})
        epoch = self._apis.driver.engine.epoch
        if epoch is None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "this controller stands by")
        await self._apis.quorum.confirm(epoch)  # a deposed one would let a second tracker count
        before = self._claim.holder(epoch=epoch, now_ms=_now_ms())
        claimant = Claimant(id=request.tracker_id, address=request.address)
        found = self._claim.claim(claimant, epoch=epoch, now_ms=_now_ms())
        if found.holder != before:
            log.info("a heartbeat service counts", address=found.holder.address, epoch=epoch)
        return ClaimSessionsResponse(
            counts=found.is_granted, holder=found.holder.address, lapses_in_ms=found.lapses_in_ms
        )

    def check(self, tracker_id: str) -> None:
        """Raises ApiError(OPERATION_NOT_ATTEMPTED) if another heartbeat service than `tracker_id` has the claim.

        An empty id is of a heartbeat service of an older release, and passes.
        """
        holder = self._claim.holder(epoch=self._apis.driver.engine.epoch, now_ms=_now_ms())
        if tracker_id and holder is not None and holder.id != tracker_id:
            why = f"the heartbeat service at {holder.address} counts; only the one that counts changes brokers' states"
            raise ApiError(ErrorCode.OPERATION_NOT_ATTEMPTED, why)


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
