"""A broker's life in the cluster: it registers, shows that it is alive, and leaves in order (KIP-631; R1, R2).

Its leaderships move to others before it stops: it asks for that with heartbeats until one is answered
`should_shut_down`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from kraft.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kraft.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Offset, uuid_text
from quorate.runtime.following.unanswered import Unanswered
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import ChangeFilter
from quorate.runtime.requests.statuses import is_retriable
from services.broker.controllers import Controllers

__all__ = ["Lifecycle"]

log = logger(__name__)

AT_ONCE_S: Final = 0.1
"""The interval (s) of heartbeats whose answers something waits for: the end of the fencing, or of the shutdown."""
NOT_REGISTERED: Final = -1


class Lifecycle:
    """Registers this process, sends its heartbeats, and asks by them to be unfenced, and for a controlled shutdown.

    `published` returns the end (exclusive) of the metadata log as far as the partitions have applied it.
    """

    def __init__(
        self,
        registration: BrokerRegistrationRequest,
        controllers: Controllers,
        *,
        interval_ms: int,
        published: Callable[[], Offset],
        tell_ready: Callable[[bool], Awaitable[None]],
    ) -> None:
        """`tell_ready` hears whether the broker takes part: it is unfenced, and does not leave."""
        self._registration = registration
        self._controllers = controllers
        self._interval_ms = interval_ms
        self._published = published
        self._tell_ready = tell_ready
        self.broker_epoch = NOT_REGISTERED
        self.is_fenced = True
        self._wants_fence = True
        self._wants_shut_down = False
        self._may_stop = asyncio.Event()
        self._news = asyncio.Event()
        """Set when the next heartbeat says something else than the last one."""
        self._told = ChangeFilter()
        self._unanswered = Unanswered(
            log,
            [controllers.asked(BrokerHeartbeatRequest)],
            missing="no heartbeat is answered",
            found="heartbeats are answered again",
        )

    async def register(self, *, timeout_ms: int) -> None:
        """Registers this process, and sets its broker epoch; waits while the session of the process before it lasts.

        Raises ApiError: a refusal at once, the last error after `timeout_ms` (ms from now). A request whose answer was
        lost is sent again with the same incarnation id, and has the same epoch.
        """
        answer = await self._controllers.ask(
            BrokerRegistrationResponse,
            self._registration,
            deadline_ms=timeout_ms,
            retry=self._is_to_try_again,
        )
        if answer.broker_epoch == NOT_REGISTERED:
            at = self._controllers.asked(BrokerRegistrationRequest)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{at}: it answers a registration without a broker epoch")
        self.broker_epoch = answer.broker_epoch
        incarnation_id = uuid_text(self._registration.incarnation_id)
        log.info("registered", broker_epoch=answer.broker_epoch, incarnation_id=incarnation_id)

    async def run(self) -> None:
        """Sends heartbeats until the broker may stop, or until cancelled.

        One begins an interval after the last has begun, however late its answer, and has an interval to be answered.
        """
        assert self.broker_epoch != NOT_REGISTERED, "it registers first"
        now_s = asyncio.get_running_loop().time
        while not self._may_stop.is_set():
            next_s = now_s() + self._interval_ms / 1000
            answer = await self._heartbeat()
            if answer is not None:
                await self._take(answer)
            is_awaited = self._wants_shut_down or (self.is_fenced and not self._wants_fence)
            await self._pause(AT_ONCE_S if answer is not None and is_awaited else next_s - now_s())

    def get_ready(self) -> None:
        """Has the broker ask to be unfenced from now on: it has caught up, its logs are open, and it listens."""
        assert self.broker_epoch != NOT_REGISTERED, "it registers first"
        self._wants_fence = False
        self._news.set()

    async def shut_down(self, *, within_s: float) -> None:
        """Asks for a controlled shutdown by heartbeats, and waits for it, at most `within_s` (s); then it just returns.

        The broker is not ready from now on. `run` sends the heartbeats. One that is not registered has nothing to wait
        for.
        """
        if self.broker_epoch == NOT_REGISTERED:
            return
        self._wants_shut_down = True
        self._news.set()
        await self._tell_ready(False)
        try:
            async with asyncio.timeout(within_s):
                await self._may_stop.wait()
        except TimeoutError:
            log.warning(
                "stops without a controlled shutdown: its leaderships move once it is fenced", waited_s=within_s
            )

    def _is_to_try_again(self, error: ApiError) -> bool:
        is_early = error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        if is_early and self._told.passes("register", error.message, asyncio.get_running_loop().time()):
            log.warning("not registered yet", reason=error.message)
        return is_early or is_retriable(error)

    async def _heartbeat(self) -> BrokerHeartbeatResponse | None:
        """Returns the answer to a heartbeat; None if there is none in time, or a refusal."""
        request = BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._published() - 1,
            want_fence=self._wants_fence,
            want_shut_down=self._wants_shut_down,
        )
        try:
            answer = await self._controllers.ask(BrokerHeartbeatResponse, request, deadline_ms=self._interval_ms)
        except ApiError as error:
            if is_retriable(error):
                self._unanswered.failed(self._controllers.asked(BrokerHeartbeatRequest), str(error))
            elif self._told.passes("heartbeat", error.code.name, asyncio.get_running_loop().time()):
                log.warning("a heartbeat is refused", code=error.code.name, reason=error.message)
            return None
        self._unanswered.answered()
        self._told.settle("heartbeat")
        return answer

    async def _take(self, answer: BrokerHeartbeatResponse) -> None:
        if answer.is_fenced != self.is_fenced:
            self.is_fenced = answer.is_fenced
            log.info("is fenced" if answer.is_fenced else "is unfenced", broker_epoch=self.broker_epoch)
            await self._tell_ready(not answer.is_fenced and not self._wants_shut_down)
        if answer.should_shut_down:
            log.info("may stop: it leads nothing any more")
            self._may_stop.set()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()
