"""The servers that a reader of the log may ask, in turn: quorum nodes, or relays. It holds a channel to each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import sample

import grpc

from kraft.service.quorum_pb2 import FindQuorumResponse
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.runtime.clients.client import Channels
from quorate.runtime.following.unanswered import Unanswered
from quorate.runtime.logging.logs import logger

__all__ = ["LogServers"]

log = logger(__name__)


class LogServers:
    """The servers that a reader may ask, one at a time (`at`); failed ones are left in turn.

    With `from_any` a follower is preferred, and each reader has an order of its own, so that readers spread.
    """

    def __init__(self, servers: Sequence[str], connect: Callable[[str], grpc.aio.Channel], *, from_any: bool) -> None:
        assert servers
        self._servers = deque(sample(servers, len(servers)) if from_any else servers)
        self._channels = Channels(connect)
        self._from_any = from_any
        self._left = 0
        """How many servers were left in a row, for want of an answer or as they lead."""
        self._next: str | None = None
        self.at = self._servers[0]
        self._unanswered = Unanswered(
            log, servers, missing="no quorum node gives its log", found="the log is followed again"
        )

    @property
    def is_sole(self) -> bool:
        """Whether there is no other server."""
        return len(self._servers) == 1

    @property
    def is_next_known(self) -> bool:
        """Whether `turn_to` has named the next server; else it is the next in turn."""
        return self._next is not None

    def stub(self, server: str | None = None) -> QuorumStub:
        """Returns the stub of a server's Quorum service, by default of the present one; its channel opens at need."""
        return QuorumStub(self._channels[server or self.at])

    def turn_to(self, server: str) -> None:
        """Names the server that `advance` goes to, such as the leader; it need not be among the configured ones."""
        self._next = server

    def advance(self) -> None:
        """Leaves the present server for the one that `turn_to` has named, or else for the next in turn."""
        self._left += 1
        if self._next is not None:
            self.at, self._next = self._next, None
        else:
            self._servers.rotate(-1)
            self.at = self._servers[0]

    def answered(self) -> None:
        """Notes that the present server has given a useful answer; says so in the log if none had for long."""
        self._left = 0
        self._unanswered.answered()

    def failed(self, reason: str) -> None:
        """Notes that the present server has given no useful answer; warns once a minute if that lasts."""
        self._unanswered.failed(self.at, reason)

    def skip_leader(self, found: FindQuorumResponse) -> bool:
        """Returns whether the present server is to be left, as it leads (by `found`) and another may be a follower.

        If so, the next call of `advance` goes to the next server. It is False without `from_any`, and if all other
        servers were left since the last useful answer: then the leader is read.
        """
        if not self._from_any or found.leader_id != found.node_id or self._left >= len(self._servers) - 1:
            return False
        self._servers.rotate(-1)
        self._next = self._servers[0]
        return True

    async def close(self) -> None:
        """Closes every channel."""
        await self._channels.close()
