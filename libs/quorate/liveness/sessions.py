"""Broker sessions: tracks each broker's last contact, and finds the brokers whose session has expired.

Knowledge of a broker only grows: a later contact, a newer broker epoch, a higher metadata offset within it. Beside real
contacts there are presumed ones: a broker that becomes unfenced, or was unfenced when this tracker started, has a full
session from that time on.

All times are ms of one monotonic clock, which the caller reads. A wall clock may jump, and would then fence brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush, heapreplace
from types import MappingProxyType
from typing import Final

import msgspec

from quorate.nouns import Epoch, NodeId, Offset

SESSION_TIMEOUT_MS: Final = 9_000
"""How long a broker may be silent before it is fenced: Kafka's `broker.session.timeout.ms`."""

UNKNOWN_OFFSET: Final[Offset] = -1
"""The metadata offset of a broker that has not reported one yet: below every offset."""


class Contact(msgspec.Struct, frozen=True, gc=False):
    """The last contact with a broker, at `at_ms` of the monotonic clock of its `Sessions`.

    `metadata_offset` is the offset of the last record that the broker has applied, inclusive as in
    BrokerHeartbeatRequest.CurrentMetadataOffset. It belongs to `broker_epoch`: a broker that returns with an empty disk
    starts again.
    """

    broker_epoch: Epoch
    at_ms: int
    metadata_offset: Offset


def _larger(one: Contact, other: Contact) -> Contact:
    """Merges two contacts: the newest of each field. Commutative, associative, idempotent."""
    if one.broker_epoch > other.broker_epoch:
        metadata_offset = one.metadata_offset
    elif one.broker_epoch < other.broker_epoch:
        metadata_offset = other.metadata_offset
    else:
        metadata_offset = max(one.metadata_offset, other.metadata_offset)
    return Contact(max(one.broker_epoch, other.broker_epoch), max(one.at_ms, other.at_ms), metadata_offset)


class Sessions:
    """Tracks the sessions of brokers by their heartbeats, and finds those that have expired. KIP-631.

    It watches the unfenced brokers: those that must send heartbeats. A heartbeat takes constant time, however many
    brokers there are: it updates only the contact. A broker's deadline in the queue is corrected when it is reached, so
    that each broker is checked about once per timeout. All times are ms of one monotonic clock.
    """

    __slots__ = ("_contacts", "_presumed", "_queue", "_queued", "_shutdowns", "_watched", "timeout_ms")

    def __init__(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        assert timeout_ms > 0, timeout_ms
        self.timeout_ms: Final = timeout_ms
        self._contacts: dict[NodeId, Contact] = {}
        self._presumed: dict[NodeId, Contact] = {}
        self._watched: set[NodeId] = set()
        # A heap of (deadline when last checked, broker id). Deadlines only move back, so no session ends before the
        # first entry. A broker's entry is valid if `_queued` has the same deadline; each watched broker has one.
        self._queue: list[tuple[int, NodeId]] = []
        self._queued: dict[NodeId, int] = {}
        self._shutdowns: dict[NodeId, tuple[Epoch, Offset]] = {}

    @property
    def contacts(self) -> Mapping[NodeId, Contact]:
        """The last heartbeat of each broker, by broker id: a view, not a copy."""
        return MappingProxyType(self._contacts)

    @property
    def watched(self) -> frozenset[NodeId]:
        """The unfenced brokers, whose sessions may expire."""
        return frozenset(self._watched)

    @property
    def known(self) -> frozenset[NodeId]:
        """The brokers of which anything is kept: also of a fenced one, which is not watched."""
        return frozenset().union(self._watched, self._contacts, self._presumed, self._shutdowns)

    def touch(self, broker_id: NodeId, *, broker_epoch: Epoch, metadata_offset: Offset, now_ms: int) -> None:
        """Records a heartbeat; one of an older broker epoch is ignored."""
        assert metadata_offset >= UNKNOWN_OFFSET, (broker_id, metadata_offset)
        known = self._contacts.get(broker_id)
        if known is None:
            self._contacts[broker_id] = Contact(broker_epoch, now_ms, metadata_offset)
        elif broker_epoch >= known.broker_epoch:
            self._contacts[broker_id] = _larger(known, Contact(broker_epoch, now_ms, metadata_offset))

    def presume(self, broker_id: NodeId, *, broker_epoch: Epoch, now_ms: int) -> None:
        """Starts a full session for a broker, as if a heartbeat had arrived now."""
        presumed = Contact(broker_epoch, now_ms, UNKNOWN_OFFSET)
        known = self._presumed.get(broker_id)
        self._presumed[broker_id] = presumed if known is None else _larger(known, presumed)

    def watch(self, broker_id: NodeId, *, broker_epoch: Epoch, now_ms: int) -> None:
        """Starts to watch a broker, with a full session from now; also called for each unfenced broker at the start."""
        self.presume(broker_id, broker_epoch=broker_epoch, now_ms=now_ms)
        self._watched.add(broker_id)
        deadline_ms = self._deadline_ms(broker_id)
        if broker_id not in self._queued or deadline_ms < self._queued[broker_id]:
            self._queued[broker_id] = deadline_ms
            heappush(self._queue, (deadline_ms, broker_id))
        assert self._queued[broker_id] <= deadline_ms, broker_id  # or it would be found late (I-65)

    def put_off(self, ms: int, *, now_ms: int) -> None:
        """Lets the session of each watched broker end `ms` later, and at most a full session from now."""
        for broker_id in self._watched:
            seen = self._last_seen(broker_id)
            assert seen is not None, broker_id
            self.presume(broker_id, broker_epoch=seen.broker_epoch, now_ms=min(now_ms, seen.at_ms + ms))
            assert self._queued[broker_id] <= self._deadline_ms(broker_id), broker_id  # I-65

    def unwatch(self, broker_id: NodeId) -> None:
        """Stops watching a broker that was fenced. Its last contact is kept."""
        self._watched.discard(broker_id)

    def end(self, broker_id: NodeId) -> None:
        """Ends the session of a broker that may shut down now, so that its next process can register at once.

        Kafka's tracker keeps the session, so that a broker that restarts at once is refused until the session expires.
        """
        self._watched.discard(broker_id)
        self._contacts.pop(broker_id, None)
        self._presumed.pop(broker_id, None)

    def forget(self, broker_id: NodeId) -> None:
        """Forgets all of a broker that is no longer registered: its session, contacts and shutdown offset."""
        self.end(broker_id)
        self._shutdowns.pop(broker_id, None)

    def first_late(self, now_ms: int) -> NodeId | None:
        """Returns the watched broker whose session expired first; None if none has expired. Ties are broken by id.

        It stays the same broker until that one sends a heartbeat or is no longer watched: the caller has it fenced.
        """
        while self._queue and self._queue[0][0] < now_ms:
            due_ms, broker_id = self._queue[0]
            if due_ms != self._queued.get(broker_id):
                heappop(self._queue)
            elif broker_id not in self._watched:
                heappop(self._queue)
                del self._queued[broker_id]
            elif due_ms < (deadline_ms := self._deadline_ms(broker_id)):
                self._queued[broker_id] = deadline_ms
                heapreplace(self._queue, (deadline_ms, broker_id))
            else:
                assert due_ms == deadline_ms, (broker_id, due_ms, deadline_ms)
                return broker_id
        return None

    def has_session(self, broker_id: NodeId, *, broker_epoch: Epoch, now_ms: int) -> bool:
        """Returns whether this broker epoch has a valid session: a real or presumed contact within the timeout.

        Meanwhile another process must not register with its id: DUPLICATE_BROKER_REGISTRATION.
        """
        seen = self._last_seen(broker_id)
        return seen is not None and seen.broker_epoch == broker_epoch and now_ms <= seen.at_ms + self.timeout_ms

    def lowest_metadata_offset(self, active: Iterable[tuple[NodeId, Epoch]]) -> Offset | None:
        """Returns the lowest offset that the brokers in `active` (id, epoch) have applied; None if `active` is empty.

        A broker without a contact in that epoch counts as UNKNOWN_OFFSET.
        """
        return min((self._metadata_offset(broker_id, epoch) for broker_id, epoch in active), default=None)

    def begin_shutdown(self, broker_id: NodeId, *, broker_epoch: Epoch, offset: Offset) -> None:
        """Remembers the offset of the last record that moved the leaderships of a broker in controlled shutdown.

        Only the first call for an epoch counts: other brokers need not catch up with later records.
        """
        known = self._shutdowns.get(broker_id)
        if known is None or known[0] < broker_epoch:
            self._shutdowns[broker_id] = (broker_epoch, offset)

    def shutdown_offset(self, broker_id: NodeId, *, broker_epoch: Epoch) -> Offset | None:
        """Returns the offset given to `begin_shutdown` for this broker epoch; None if this tracker has none."""
        epoch, offset = self._shutdowns.get(broker_id, (None, None))
        return offset if epoch == broker_epoch else None

    def _last_seen(self, broker_id: NodeId) -> Contact | None:
        heard, presumed = self._contacts.get(broker_id), self._presumed.get(broker_id)
        if heard is None or presumed is None:
            return heard or presumed
        return _larger(heard, presumed)

    def _deadline_ms(self, broker_id: NodeId) -> int:
        seen = self._last_seen(broker_id)
        assert seen is not None, broker_id
        return seen.at_ms + self.timeout_ms

    def _metadata_offset(self, broker_id: NodeId, broker_epoch: Epoch) -> Offset:
        contact = self._contacts.get(broker_id)
        return contact.metadata_offset if contact and contact.broker_epoch == broker_epoch else UNKNOWN_OFFSET
