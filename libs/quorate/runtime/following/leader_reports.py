"""Reports to the leader how far an observer has read that fetches from followers, so that DescribeQuorum lists it.

A report is a Fetch that is answered at once and whose records are dropped. A leader sees only the fetches that reach
it (KIP-595), so without reports it would not know of the observer.
"""

from __future__ import annotations

import asyncio
from typing import Final

import grpc

from kraft.service.quorum_pb2 import FindQuorumRequest, FindQuorumResponse
from quorate.errors import Corrupt
from quorate.runtime.following.log_requests import LogPosition
from quorate.runtime.following.log_servers import LogServers
from quorate.runtime.logging.logs import logger
from quorate.runtime.requests.decoding import parsed

__all__ = ["LeaderReports"]

log = logger(__name__)

FIRST_S: Final = 0.1
"""The time (s) from the begin of reading to the first report."""
REPORT_S: Final = 1.0
"""The pause (s) after a report that the leader has taken."""
RETRY_MAX_S: Final = 60.0
"""The longest pause after reports that failed: readers behind a relay may be unable to reach the leader."""
DEADLINE_S: Final = 5.0
"""The deadline (s) of a call."""
NOT_HELD_MS: Final = 0
LEAST_BYTES: Final = 1


class LeaderReports:
    """Sends the leader a Fetch from the present `position` each second; a failure only delays the next report."""

    def __init__(self, servers: LogServers, position: LogPosition) -> None:
        self._servers = servers
        self._position = position
        self._leader: str | None = None

    async def run(self) -> None:
        """Finds the leader and reports to it, each second, until cancelled; after failures it waits up to 60 s."""
        pause_s = FIRST_S
        while True:
            await asyncio.sleep(pause_s)
            try:
                is_sent = await self._report()
            except grpc.aio.AioRpcError as failure:
                log.debug("report failed", leader=self._leader, status=failure.code().name, details=failure.details())
                is_sent = False
            except Corrupt as nonsense:
                log.debug("report failed", leader=self._leader, reason=str(nonsense))
                is_sent = False
            pause_s = REPORT_S if is_sent else min(RETRY_MAX_S, max(REPORT_S, 2 * pause_s))
            if not is_sent:
                self._leader = None

    async def _report(self) -> bool:
        """Returns whether the leader has taken the report."""
        if self._leader is None:
            found = parsed(await self._servers.stub().FindQuorum(FindQuorumRequest(), timeout=DEADLINE_S))
            self._leader = _leader_address(found)
        if self._leader is None:
            return False
        request = self._position.fetch(wait_ms=NOT_HELD_MS, bytes_max=LEAST_BYTES)
        answer = parsed(await self._servers.stub(self._leader).Fetch(request, timeout=DEADLINE_S))
        errors = [each.error_code for topic in answer.responses for each in topic.partitions]
        return not answer.error_code and not any(errors)


def _leader_address(found: FindQuorumResponse) -> str | None:
    """Returns where the leader is reached by gRPC; None if there is no leader, or it has no such address."""
    for voter in found.voters:
        if voter.id == found.leader_id and voter.host and not voter.listener:
            return f"{voter.host}:{voter.port}"
    return None
