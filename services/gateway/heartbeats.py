"""The heartbeat services behind a gateway, of which one counts: the one that answered last is asked first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

import grpc

from quorate.errors import ErrorCode
from quorate.runtime.requests.statuses import error_from_call

__all__ = ["HeartbeatServices"]

ELSEWHERE: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION})
"""The errors of a service that stands by, and of one that is not there: the next one may take the heartbeat."""
PATIENCE_S: Final = 1.0
"""A service that has not answered for so long may stand still, and another one may count by now."""
NO_ANSWER: Final = frozenset({grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE})
"""How a call ends of a service that stands still, or that is not there."""


class HeartbeatServices:
    """Sends heartbeats to the one of several heartbeat services that counts; used in place of the stub of one.

    A heartbeat that two services hear does no harm.
    """

    def __init__(self, stubs: Sequence[Any]) -> None:
        assert stubs
        self._stubs = tuple(stubs)
        self._at = 0

    async def BrokerHeartbeat(self, request: Any, **limits: Any) -> Any:
        """Asks one service after the other, each of them once; the first answer counts.

        While one is silent, the others are asked again each second, as one that stands by may count a little later.
        Raises the last one's AioRpcError.
        """
        if len(self._stubs) == 1:
            return await self._stubs[0].BrokerHeartbeat(request, **limits)
        now_s, order = asyncio.get_running_loop().time, self._order()
        timeout_s = limits.pop("timeout", None)
        ends_s = None if timeout_s is None else now_s() + timeout_s
        silent: dict[asyncio.Future[Any], int] = {}
        try:
            for turn in count():
                at = order[turn % len(order)]
                if at not in silent.values():
                    left_s = None if ends_s is None else max(0.001, ends_s - now_s())
                    silent[asyncio.ensure_future(self._ask(at, request, timeout=left_s, **limits))] = at
                done, _ = await asyncio.wait(silent, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
                refusals = [each for each in done if self._is_refused(each, silent.pop(each))]
                for answered in done.difference(refusals):
                    return answered.result()
                if not silent and turn + 1 >= len(order):
                    return refusals[-1].result()  # which raises
        finally:
            for call in silent:
                call.cancel()
        raise AssertionError("the last one answers or raises")

    async def KeepAlive(self, request: Any, **limits: Any) -> Any:
        """Asks the service that answered last, and no other. Raises AioRpcError; then each heartbeat goes by itself.

        If the service is silent or gone, the next one is asked first from then on; after a refusal it stays, also that
        of a service of an earlier release, which does not know the call.
        """
        at = self._at
        try:
            return await self._stubs[at].KeepAlive(request, **limits)
        except grpc.aio.AioRpcError as failure:
            if failure.code() in NO_ANSWER and self._at == at:
                self._at = (at + 1) % len(self._stubs)
            raise

    def _order(self) -> list[int]:
        """Returns all of them, beginning with the one that answered last."""
        return [(self._at + step) % len(self._stubs) for step in range(len(self._stubs))]

    async def _ask(self, at: int, request: Any, **limits: Any) -> Any:
        return await self._stubs[at].BrokerHeartbeat(request, **limits)

    def _is_refused(self, call: asyncio.Future[Any], at: int) -> bool:
        """Returns whether another one may take the heartbeat. The one that answers is asked first from now on."""
        failure = call.exception()
        code = error_from_call(failure).code if isinstance(failure, grpc.aio.AioRpcError) else ErrorCode.NONE
        if code in ELSEWHERE:
            return True
        if code is not ErrorCode.REQUEST_TIMED_OUT:
            self._at = at
        elif self._at == at:
            self._at = (at + 1) % len(self._stubs)
        return False
