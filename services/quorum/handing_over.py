"""Handing over: a leader that stops makes way for the voter that was started last, if that one can lead.

In a rolling restart the nodes that are still to be restarted are bad successors: each would have to make way again. The
ones that have been restarted are known by when they opened the stream through which they fetch: voters that were there
at the election open theirs at once, and one that opens it later was away. So with the order of a StatefulSet, which
begins with the highest ordinal, one hand-over is enough, unless the highest leads: then nobody is restarted yet when it
stops, and its successor has to stop later. Not in Kafka, whose leader names the voters by their log ends.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from quorate.errors import ErrorCode
from quorate.nouns import Epoch, NodeId
from quorate.raft.messages import TransferLeadershipRequest
from quorate.raft.roles import Leader, Progress, Resigned
from quorate.runtime.logging.logs import logger
from quorate.runtime.settings.stop_settings import STOP_TIMEOUT
from services.quorum.driver import QuorumDriver

log = logger(__name__)

POLL_S: Final = 0.02


class HandingOver:
    """Ends this node's leadership: transfers it to the voter that was started last (Raft thesis 3.10), or resigns.

    A voter that opens its stream more than `late_ms` (ms) after the election was not there. `patience_ms` is how long
    the successor may take to get the whole log, and then to be elected.
    """

    def __init__(self, driver: QuorumDriver, *, late_ms: int, patience_ms: int) -> None:
        self._driver = driver
        self._late_ms = late_ms
        self._patience_ms = patience_ms
        self._opened_at_ms: dict[NodeId, int] = {}
        self._ending: Epoch = -1

    def opened(self, node_id: NodeId) -> None:
        """Notes that a replica has opened its stream of fetches now."""
        self._opened_at_ms[node_id] = self._driver.now_ms

    def closed(self, node_id: NodeId) -> None:
        """Notes that the replica's stream of fetches has ended: it is no successor until it opens another one."""
        self._opened_at_ms.pop(node_id, None)

    def end(self, epoch: Epoch) -> None:
        """Begins to transfer the leadership of `epoch` to the successor, or resigns if there is none; does not wait.

        No effect if this node does not lead that epoch, or ends it already. If the successor cannot take over in time,
        the leader resigns, and names all voters by their log ends.
        """
        role = self._driver.core.role
        if role.epoch != epoch or not isinstance(role, Leader) or epoch <= self._ending:
            return
        successor = self.successor(role)
        if successor is None:
            self._driver.resign(epoch)
            return
        assert successor != self._driver.core.node.id, successor
        self._ending = epoch
        loop = asyncio.get_running_loop()

        def answered(answer: Any, _: bytes) -> None:
            if answer.error is not ErrorCode.NONE:
                log.info("cannot hand over", to=successor, epoch=epoch, error=answer.error.name, reason=answer.message)
                loop.call_soon(self._driver.resign, epoch)

        log.info("hands over to the voter that was started last", to=successor, epoch=epoch)
        self._driver.hear(
            TransferLeadershipRequest(to=successor, epoch=epoch, timeout_ms=self._patience_ms, reply_to=answered)
        )

    async def released(self, within_s: float) -> None:
        """Waits until all voters know of the resignation or a later epoch has begun, at most `within_s` (s).

        When that time is over it logs the voters that have not answered, such as dead ones, and returns.
        """
        core, loop = self._driver.core, asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while not core.is_released and loop.time() < deadline:  # noqa: ASYNC110  # the core has no events
            await asyncio.sleep(POLL_S)
        if not core.is_released:
            acknowledged = core.role.acknowledged if isinstance(core.role, Resigned) else frozenset()
            log.warning(
                "goes without the answers of voters to its resignation",
                epoch=core.role.epoch,
                voters=sorted(core.log.voters.latest.ids - {core.node.id} - acknowledged),
                waited_s=within_s,
                setting=STOP_TIMEOUT,
            )

    def successor(self, role: Leader) -> NodeId | None:
        """Returns the voter that opened its stream of fetches last, of those in contact that did so late.

        Late is more than `late_ms` after this leader's election. None if no voter did.
        """
        core, now_ms = self._driver.core, self._driver.now_ms
        found = [
            (self._opened_at_ms[voter.key.id], voter.key.id)
            for voter in core.log.voters.latest.voters
            if voter.key.id != core.node.id  # a static voter has no directory id
            and self._opened_at_ms.get(voter.key.id, 0) > role.elected_at_ms + self._late_ms
            and _is_in_contact(role.replicas.get(voter.key, Progress()), since_ms=now_ms - self._patience_ms // 2)
        ]
        return max(found)[1] if found else None


def _is_in_contact(progress: Progress, *, since_ms: int) -> bool:
    contact_at_ms = progress.last_contact_at_ms
    return not progress.is_absent and contact_at_ms is not None and contact_at_ms >= since_ms
