"""The heartbeat services behind a gateway, of which one counts: the one that answered last is asked first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import grpc

from quorate.errors import ErrorCode
from quorate.runtime.statuses import error_from_call

ELSEWHERE: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION})
"""The errors of a service that stands by, and of one that is not there: the next one may take the heartbeat."""


class HeartbeatServices:
    """Takes the place of a stub of one of them; a heartbeat that two services hear does no harm."""

    def __init__(self, stubs: Sequence[Any]) -> None:
        assert stubs
        self._stubs = tuple(stubs)
        self._at = 0

    async def BrokerHeartbeat(self, request: Any, **limits: Any) -> Any:
        """Asks each service at most once, with the timeout and metadata given. Raises the last one's AioRpcError."""
        for left in reversed(range(len(self._stubs))):
            at = self._at
            try:
                return await self._stubs[at].BrokerHeartbeat(request, **limits)
            except grpc.aio.AioRpcError as failure:
                code = error_from_call(failure).code
                if self._at == at and code in ELSEWHERE | {ErrorCode.REQUEST_TIMED_OUT}:
                    self._at = (at + 1) % len(self._stubs)
                if not left or code not in ELSEWHERE:
                    raise
        raise AssertionError("the last one answers or raises")
