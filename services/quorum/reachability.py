"""Says which peers are not reached, and where their addresses are from; and if this node's own entry leads elsewhere.

Kafka's client says it at every attempt ("Connection to node 2 (host/10.0.0.2:9093) could not be established"); here it
is one line at each change, and one a minute while it lasts. Failures of seconds are not logged: all start at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from quorate.nouns import NodeId, ReplicaKey
from quorate.raft.voters import ListenerEndpoint, VoterSet
from quorate.runtime.logging.logs import logger
from quorate.runtime.logging.repeats import AT_START_S, ChangeFilter
from services.quorum.listeners import PeerAddress

__all__ = ["NOT_REACHED", "REACHED", "STALE_ENTRY", "Reachability"]

log = logger(__name__)

NOT_REACHED: Final = "a peer is not reached"
REACHED: Final = "a peer is reached again"
STALE_ENTRY: Final = "this node's entry in the voters record is not where it listens"
OWN: Final = "own entry"


class Reachability:
    """Logs which peers a node does not reach, and whether its own entry among the voters is wrong.

    A peer is logged once it has not been reached for `after_s` (s), and each minute while that lasts. `own` is the
    node's replica key, and `listeners` are those that it announces.
    """

    def __init__(self, own: ReplicaKey, listeners: Sequence[ListenerEndpoint], *, after_s: float = AT_START_S) -> None:
        self._own = own
        self._listeners = tuple(listeners)
        self._peers = ChangeFilter(after_s=after_s)
        self._entries = ChangeFilter()

    def lacks(self, node_id: NodeId, at: PeerAddress | None, *, source: str, error: str) -> None:
        """Notes that a request to a node has failed, and warns if that has lasted for `after_s`.

        `at` is None if no address of the node is known; `source` says where the address is from, in words.
        """
        host, port = (None, None) if at is None else (at.address.host, at.address.port)
        if self._peers.passes(node_id, f"{at} {source} {error}", self._now_s()):
            log.warning(NOT_REACHED, node=node_id, host=host, port=port, address_from=source, error=error)

    def has(self, node_id: NodeId) -> None:
        """Notes that a node has answered, and logs it if there was a warning of the node."""
        if self._peers.settle(node_id):
            log.info(REACHED, node=node_id)

    def look_at(self, voters: VoterSet) -> None:
        """Warns if this node's entry in the voter set has other listeners than it announces: nobody finds it then.

        That ends once a leader has taken the node's UpdateRaftVoter. Static voters have no listeners to compare.
        """
        entry = voters.by_id(self._own.id)
        if entry is None or entry.key != self._own or not entry.endpoints:
            return
        recorded, announced = ", ".join(map(_words, entry.endpoints)), ", ".join(map(_words, self._listeners))
        if set(entry.endpoints) == set(self._listeners):
            self._entries.settle(OWN)
        elif self._entries.passes(OWN, recorded, self._now_s()):
            log.warning(STALE_ENTRY, node=self._own.id, entry=recorded, listeners=announced)

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()


def _words(endpoint: ListenerEndpoint) -> str:
    return f"{endpoint.name}://{endpoint.host}:{endpoint.port}"
