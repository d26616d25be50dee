"""Whether this heartbeat service counts or stands by: each second it claims the sessions at the active controller.

One that is cut from all controllers while brokers still reach it refuses their heartbeats, as another may count by now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kraft.service.controller_pb2 import ClaimSessionsRequest, ClaimSessionsResponse
from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import CLAIM_EVERY_MS, CLAIM_LAPSES_MS, SESSION_LEAST_MS, SESSION_TIMEOUT_MS, Claimant
from quorate.runtime.clients.client import Client
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import AT_START_S

__all__ = ["Standing"]

log = logger(__name__)

UNANSWERED_MAX: Final = 2
"""So many claims in a row without an answer, after the lapse: one may have failed by a pause of this process alone."""
FOR_GOOD_MS: Final = 1 << 62
"""No controller of this release is active, so that nobody could tell two services apart: it counts, as that one did."""


class Standing:
    """Claims the brokers' sessions at the active controller, and knows by the answers whether this service counts.

    Before the first answer, and after a claim has lapsed, it has no broker fenced.

    Heartbeats are refused while another one counts, and once the claim has lapsed and two claims in a row were not
    answered: 4 to 5 s after the last one that was granted, or 3 s after a start. A broker is fenced a session after
    another service counts, which is 3 s after that claim at the earliest, so there is time to ask the other one.
    """

    def __init__(
        self,
        controllers: Client[ControllerStub],
        claimant: Claimant,
        *,
        session_ms: int = SESSION_TIMEOUT_MS,
        is_led_elsewhere: Callable[[], bool] = lambda: False,
    ) -> None:
        """`session_ms` is how long a broker may be silent before it is fenced.

        `is_led_elsewhere` says whether a Kafka controller is active: then none of ours answers a claim.
        """
        self.claimant = claimant
        self.told = asyncio.Event()
        """Set once a controller has answered a claim."""
        self._controllers = controllers
        self._session_ms = session_ms
        self._is_led_elsewhere = is_led_elsewhere
        self._until_ms: int | None = None
        self._other: str | None = None
        self._refusal: str | None = None
        self._unanswered_count = 0
        self._begun_ms = 0
        self._is_told_of = False

    @property
    def counts(self) -> bool:
        """Whether this service may have brokers fenced."""
        return self._until_ms is not None and _now_ms() <= self._until_ms

    @property
    def other(self) -> str | None:
        """The address of the service that counts while this one stands by; None while it does not."""
        return self._other

    @property
    def refusal(self) -> str | None:
        """Why no heartbeats are taken: this service stands by, or cannot know whether it does; None while they are."""
        return None if self._is_led_elsewhere() else self._refusal

    def check(self) -> None:
        """Raises ApiError(NOT_CONTROLLER), after which a broker asks elsewhere, while no heartbeats are taken."""
        if (refusal := self.refusal) is not None:
            raise ApiError(ErrorCode.NOT_CONTROLLER, refusal)

    async def run(self) -> None:
        """Claims the sessions each second, until cancelled."""
        self._begun_ms = _now_ms()
        while True:
            await self._claim()
            await asyncio.sleep(CLAIM_EVERY_MS / 1000)

    @property
    def _is_one_or_the_other(self) -> bool:
        """I-92: who refuses heartbeats, so that they go to another one, does not have their brokers fenced."""
        return self._until_ms is None or self._refusal is None

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
        self._unanswered_count, self._is_told_of, name = 0, False, self.claimant.address
        if answer.counts:
            if not has_counted:
                log.info("counts the brokers' heartbeats", address=name, instead_of=self._other)
            self._until_ms, self._other, self._refusal = begun_ms + CLAIM_LAPSES_MS, None, None
        else:
            if answer.holder != self._other:
                self._tell_of(answer.holder)
            self._until_ms, self._other = None, answer.holder
            self._refusal = f"this heartbeat service ({name}) stands by; the one at {answer.holder} counts"
        assert self._is_one_or_the_other, (self._until_ms, self._refusal)
        self.told.set()

    def _tell_of(self, other: str) -> None:
        log.warning("stands by: another heartbeat service counts", counts=other)
        if self._session_ms < SESSION_LEAST_MS:
            log.warning(
                "broker.session.timeout.ms is too short for two heartbeat services: when one takes over from the other,"
                " brokers may be fenced that both can hear",
                session_ms=self._session_ms,
                least_ms=SESSION_LEAST_MS,
            )

    def _unanswered(self, refusal: ApiError) -> None:
        if refusal.code is ErrorCode.UNSUPPORTED_VERSION:
            self._unanswered_count, self._is_told_of = 0, False
            self._until_ms, self._other, self._refusal = FOR_GOOD_MS, None, None
            self.told.set()
            return
        log.debug("the sessions are not claimed", reason=str(refusal))
        self._unanswered_count += 1
        if self._other is not None or self.counts or self._unanswered_count < UNANSWERED_MAX:
            return
        if self._is_led_elsewhere():
            return
        self._until_ms = None
        name = self.claimant.address
        self._refusal = (
            f"no controller has answered the claims of this heartbeat service ({name}), so another one may count"
        )
        assert self._is_one_or_the_other, (self._until_ms, self._refusal)
        # At a start of all at once the controllers are the last to be there.
        if not self._is_told_of and (self.told.is_set() or _now_ms() - self._begun_ms >= 1_000 * AT_START_S):
            self._is_told_of = True
            log.warning("no heartbeat is taken, nor any broker fenced, until a controller answers", reason=str(refusal))


def _now_ms() -> int:
    """Returns the monotonic time, in ms: it goes on while this process stands still, as the claim does."""
    return int(asyncio.get_running_loop().time() * 1000)
