"""What a node's metrics are read off, when somebody asks: the core, the disk, and what was counted meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.nouns import ZERO_UUID, NodeId, uuid_text
from quorate.raft.core import Raft
from quorate.raft.roles import Follower, Leader, Unattached, known_leader
from quorate.raft.voters import VoterSet
from quorate.runtime.clock import Clock
from quorate.runtime.metrics import Value
from services.quorum.disk import Disk

NOBODY: Final = -1
STATES: Final = ("leader", "candidate", "prospective", "follower", "unattached", "resigned", "observer")
"""Kafka's words. A node that does not vote is an observer, whether it knows a leader or not."""


@dataclass(slots=True)
class Counts:
    """What only rises."""

    appended: int = 0
    """Records appended as leader."""
    fetched: int = 0
    """Records taken over from a leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What the values are read off. `static` are the voters of the configuration."""

    core: Raft
    disk: Disk
    clock: Clock
    counts: Counts
    static: VoterSet
    endpoints: Mapping[NodeId, object]


Read = Callable[[Node], Iterable[Value]]


def one(read: Callable[[Node], float | None]) -> Callable[[Node], Iterable[Value]]:
    """A single value without labels; nothing while it is None."""

    def values(node: Node) -> Iterable[Value]:
        value = read(node)
        return () if value is None else ((value, {}),)

    return values


def state_of(core: Raft) -> str:
    """One of `STATES`."""
    is_voter = core.log.voters.latest.has(core.node)
    is_passive = isinstance(core.role, Follower | Unattached)
    return "observer" if is_passive and not is_voter else type(core.role).__name__.lower()


def states(node: Node) -> Iterable[Value]:
    """Each state, and whether it is this node's."""
    now = state_of(node.core)
    return [(int(state == now), {"kraft.role": state}) for state in STATES]


def voted(node: Node) -> Iterable[Value]:
    """Whom this node voted for, with the directory."""
    voted = node.core.role.voted
    directory = ZERO_UUID if voted is None else voted.directory_id
    return [(NOBODY if voted is None else voted.id, {"kraft.directory.id": uuid_text(directory)})]


def leader(node: Node) -> int:
    """Who leads, or `NOBODY`."""
    leader_id = known_leader(node.core.role)
    return NOBODY if leader_id is None else leader_id


def high_watermark(node: Node) -> int:
    """As FindQuorum says it."""
    return node.core.log.high_watermark


def unreached(node: Node) -> int:
    """How many other voters nobody says where to reach."""
    others = node.core.log.voters.latest.ids - {node.core.node.id}
    return sum(voter not in node.endpoints for voter in others)


def observers(node: Node) -> int | None:
    """How many observers the leader tracks; None if another leads."""
    return len(node.core.describe(node.clock.monotonic_ms()).observers) if isinstance(node.core.role, Leader) else None


def is_changing(node: Node) -> int | None:
    """Is a change of the voters under way? None if another leads."""
    return int(not node.core.log.is_voter_change_committed) if isinstance(node.core.role, Leader) else None


def ignores_static(node: Node) -> int:
    """Are voters configured, and others in force?"""
    return int(bool(node.static.voters) and node.core.log.kraft_version > 0)


def lags(node: Node) -> Iterable[Value]:
    """Of all that fetch from this leader, by what its describe says of them."""
    if not isinstance(node.core.role, Leader):
        return
    leo, quorum = node.core.log.leo, node.core.describe(node.clock.monotonic_ms())
    for kind, replicas in (("voter", quorum.voters), ("observer", quorum.observers)):
        for replica in replicas:
            if replica.leo is not None:
                yield leo - replica.leo, {"kraft.node.id": replica.key.id, "kraft.replica.kind": kind}


def busy(_: Node) -> float:
    """Seconds of a processor that the event loop's thread has had; metrics are read on it."""
    return time.thread_time()


def snapshot_bytes(node: Node) -> int:
    """Of the latest snapshot."""
    latest = node.core.log.latest_snapshot
    return 0 if latest is None else node.core.log.snapshots[latest]


def snapshot_age(node: Node) -> float | None:
    """Seconds since the last record in the latest snapshot was appended; None without one."""
    latest = node.core.log.latest_snapshot
    if latest is None:
        return None
    return max(0, node.clock.wall_ms() - node.disk.last_timestamp_ms(latest)) / 1000
