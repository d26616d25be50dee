"""Reads the metric values of a node at each export: from the core, the disk, and the counters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.nouns import NOBODY, ZERO_UUID, NodeId, uuid_text
from quorate.raft.core import Raft
from quorate.raft.roles import Follower, Leader, Unattached, known_leader
from quorate.raft.voters import VoterSet
from quorate.runtime.event_loop.clock import Clock
from quorate.runtime.telemetry.metrics import Value
from services.quorum.disk import Disk

STATES: Final = ("leader", "candidate", "prospective", "follower", "unattached", "resigned", "observer")
"""Kafka's names of the states. A node that is no voter is an observer, whether it knows a leader or not."""


@dataclass(slots=True)
class NodeCounters:
    """The counters of a node, which only rise."""

    appended: int = 0
    """Count of records that this node appended as leader."""
    fetched: int = 0
    """Count of records that this node fetched from a leader."""
    refused: int = 0
    """Count of peers' answers that were malformed or broke a rule."""
    denied: int = 0
    """Count of requests that peers refused with CLUSTER_AUTHORIZATION_FAILED."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredNode:
    """The objects that metric values are read from; `static` is the configured voter set."""

    core: Raft
    disk: Disk
    clock: Clock
    counts: NodeCounters
    static: VoterSet
    endpoints: Mapping[NodeId, object]


Read = Callable[[MeasuredNode], Iterable[Value]]


def state_of(core: Raft) -> str:
    """Returns the node's state, one of `STATES`."""
    is_voter = core.log.voters.latest.has(core.node)
    is_passive = isinstance(core.role, Follower | Unattached)
    return "observer" if is_passive and not is_voter else type(core.role).__name__.lower()


def states(node: MeasuredNode) -> Iterable[Value]:
    """Returns 1 for the node's present state and 0 for every other, with the state as label."""
    now = state_of(node.core)
    return [(int(state == now), {"kraft.role": state}) for state in STATES]


def voted(node: MeasuredNode) -> Iterable[Value]:
    """Returns the node id that this node voted for, -1 for none, with the directory id as label."""
    voted = node.core.role.voted
    directory = ZERO_UUID if voted is None else voted.directory_id
    return [(NOBODY if voted is None else voted.id, {"kraft.directory.id": uuid_text(directory)})]


def leader(node: MeasuredNode) -> int:
    """Returns the leader's id, or -1 if it is not known."""
    leader_id = known_leader(node.core.role)
    return NOBODY if leader_id is None else leader_id


def high_watermark(node: MeasuredNode) -> int:
    """Returns the high watermark that this node knows; the log start offset before it knows a later one."""
    return node.core.log.high_watermark


def unreached(node: MeasuredNode) -> int:
    """Returns the number of other voters without a known address."""
    others = node.core.log.voters.latest.ids - {node.core.node.id}
    return sum(voter not in node.endpoints for voter in others)


def observers(node: MeasuredNode) -> int | None:
    """Returns the number of observers that the leader tracks; None on another node."""
    return len(node.core.describe(node.clock.monotonic_ms()).observers) if isinstance(node.core.role, Leader) else None


def is_changing(node: MeasuredNode) -> int | None:
    """Returns 1 if a voter change is not committed yet, else 0; None if this node does not lead."""
    return int(not node.core.log.is_voter_change_committed) if isinstance(node.core.role, Leader) else None


def ignores_static(node: MeasuredNode) -> int:
    """Returns 1 if static voters are configured but ignored, as the log has the voter set; else 0."""
    return int(bool(node.static.voters) and node.core.log.kraft_version > 0)


def lags(node: MeasuredNode) -> Iterable[Value]:
    """Yields the lag in records of each replica that fetches from this leader; nothing on another node."""
    if not isinstance(node.core.role, Leader):
        return
    leo, quorum = node.core.log.leo, node.core.describe(node.clock.monotonic_ms())
    for kind, replicas in (("voter", quorum.voters), ("observer", quorum.observers)):
        for replica in replicas:
            if replica.leo is not None:
                yield leo - replica.leo, {"kraft.node.id": replica.key.id, "kraft.replica.kind": kind}


def busy(_: MeasuredNode) -> float:
    """Returns the CPU time of the event loop's thread in seconds; it runs on that thread."""
    return time.thread_time()


def snapshot_bytes(node: MeasuredNode) -> int:
    """Returns the size of the latest snapshot in bytes; 0 without one."""
    latest = node.core.log.latest_snapshot
    return 0 if latest is None else node.core.log.snapshots[latest]


def snapshot_age(node: MeasuredNode) -> float | None:
    """Returns the seconds since the last record in the latest snapshot was appended; None without a snapshot."""
    latest = node.core.log.latest_snapshot
    if latest is None:
        return None
    return max(0, node.clock.wall_ms() - node.disk.last_timestamp_ms(latest)) / 1000
