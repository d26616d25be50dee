"""When each broker was last heard of, and who is late.

What is known of a broker only ever grows: a later contact, a newer broker epoch, a higher metadata offset
within it. So two trackers are merged by taking the larger, in any order and as often as one likes, and a
tracker that takes over from another forgets nothing.

Beside what was heard stands what is presumed: who has just registered, or was registered when this tracker
began, has a full session from that moment. Presumptions are this tracker's own and are never merged.

All times are ms of one monotonic clock, the caller's. A wall clock may jump, and would fence brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush, heapreplace
from types import MappingProxyType
from typing import Final

import msgspec

from quorate.nouns import Epoch, NodeId, Offset

SESSION_TIMEOUT_MS: Final = 9_000
"""Kafka's `broker.session.timeout.ms`."""

UNKNOWN_OFFSET: Final[Offset] = -1
"""The metadata offset of a broker that has not yet told it: below every offset."""


class Contact(msgspec.Struct, frozen=True, gc=False):
    """The last that was heard of a broker.

    `metadata_offset` is the offset of the last record it has applied, inclusive as in
    BrokerHeartbeatRequest.CurrentMetadataOffset, and belongs to `broker_epoch`: a broker that comes
    back with an empty disk starts anew.
    """

    broker_epoch: Epoch
    at_ms: int
    metadata_offset: Offset


def _larger(one: Contact, other: Contact) -> Contact:
    """All that both know. Commutative, associative, idempotent."""
    if one.broker_epoch > other.broker_epoch:
        metadata_offset = one.metadata_offset
    elif one.broker_epoch < other.broker_epoch:
        metadata_offset = other.metadata_offset
    else:
        metadata_offset = max(one.metadata_offset, other.metadata_offset)
    return Contact(max(one.broker_epoch, other.broker_epoch), max(one.at_ms, other.at_ms), metadata_offset)


def merged(*trackers: Mapping[NodeId, Contact]) -> dict[NodeId, Contact]:
    """What several trackers know together, all on one clock."""
    known: dict[NodeId, Contact] = {}
    for contacts in trackers:
        _learn(known, contacts)
    return known


def _learn(known: dict[NodeId, Contact], contacts: Mapping[NodeId, Contact]) -> None:
    for broker_id, contact in contacts.items():
        known[broker_id] = _larger(known[broker_id], contact) if broker_id in known else contact


def on_our_clock(contacts: Mapping[NodeId, Contact], *, theirs_ms: int, ours_ms: int) -> dict[NodeId, Contact]:
    """Contacts as another tracker told them when its clock showed `theirs_ms`, received when ours shows `ours_ms`.

    The time they were under way makes them look that much later, never earlier: it can delay a fencing, but
    it cannot cause one. A contact after `theirs_ms`, which cannot be, counts as of that moment.
    """
    return {
        broker_id: Contact(contact.broker_epoch, min(contact.at_ms - theirs_ms, 0) + ours_ms, contact.metadata_offset)
        for broker_id, contact in contacts.items()
    }


class Sessions:
    """The brokers' sessions at one tracker.

    Watched are the brokers that must be heard of: the unfenced ones. A heartbeat costs two look-ups,
    however many brokers there are: when it is due, a broker is looked at, and put off to when it is due
    then. So each is looked at about once per timeout.
    """

    __slots__ = ("_contacts", "_presumed", "_queue", "_queued", "_shutdowns", "_watched", "timeout_ms")

    def __init__(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        assert timeout_ms > 0, timeout_ms
        self.timeout_ms: Final = timeout_ms
        self._contacts: dict[NodeId, Contact] = {}
        self._presumed: dict[NodeId, Contact] = {}
        self._watched: set[NodeId] = set()
        # A heap of (deadline when last looked at, broker id). Deadlines only move back, so nobody is due before
        # the first entry. Of each broker the entry counts that `_queued` has; all the watched ones have one.
        self._queue: list[tuple[int, NodeId]] = []
        self._queued: dict[NodeId, int] = {}
        self._shutdowns: dict[NodeId, tuple[Epoch, Offset]] = {}

    @property
    def contacts(self) -> Mapping[NodeId, Contact]:
        """What was heard, for another tracker to merge: a view, not a copy."""
        return MappingProxyType(self._contacts)

    @property
    def watched(self) -> frozenset[NodeId]:
        """The brokers that must be heard of."""
        return frozenset(self._watched)

    def touch(self, broker_id: NodeId, *, broker_epoch: Epoch, metadata_offset: Offset, now_ms: int) -> None:
        """A heartbeat arrived. One of an epoch that is over says nothing of the broker that is there now."""
        assert metadata_offset >= UNKNOWN_OFFSET, (broker_id, metadata_offset)
        known = self._contacts.get(broker_id)
        if known is None:
            self._contacts[broker_id] = Contact(broker_epoch, now_ms, metadata_offset)
        elif broker_epoch >= known.broker_epoch:
            self._contacts[broker_id] = _larger(known, Contact(broker_epoch, now_ms, metadata_offset))

    def merge(self, contacts: Mapping[NodeId, Contact]) -> None:
        """Learn what another tracker heard; see `on_our_clock`."""
        _learn(self._contacts, contacts)

    def presume(self, broker_id: NodeId, *, broker_epoch: Epoch, now_ms: int) -> None:
        """Treat a broker as just seen: it has registered, or this tracker has just begun."""
        presumed = Contact(broker_epoch, now_ms, UNKNOWN_OFFSET)
        known = self._presumed.get(broker_id)
        self._presumed[broker_id] = presumed if known is None else _larger(known, presumed)

    def watch(self, broker_id: NodeId, *, broker_epoch: Epoch, now_ms: int) -> None:
        """From now on the broker must be heard of; it is presumed just seen. For each unfenced broker at the start."""
        self.presume(broker_id, broker_epoch=broker_epoch, now_ms=now_ms)
        self._watched.add(broker_id)
        deadline_ms = self._deadline_ms(broker_id)
        if broker_id not in self._queued or deadline_ms < self._queued[broker_id]:
            self._queued[broker_id] = deadline_ms
            heappush(self._queue, (deadline_ms, broker_id))

    def unwatch(self, broker_id: NodeId) -> None:
        """The broker is fenced: it may be silent."""
        self._watched.discard(broker_id)

    def forget(self, broker_id: NodeId) -> None:
        """The broker is no longer registered."""
        self._watched.discard(broker_id)
        self._contacts.pop(broker_id, None)
        self._presumed.pop(broker_id, None)
        self._shutdowns.pop(broker_id, None)

    def first_late(self, now_ms: int) -> NodeId | None:
        """The watched broker that has been silent longest, if that is longer than the timeout; ties by id.

        It is the answer again until it is heard of or no longer watched.
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

    def late(self, now_ms: int) -> tuple[NodeId, ...]:
        """All watched brokers silent for longer than the timeout, the most silent first."""
        taken = []
        while self.first_late(now_ms) is not None:
            taken.append(heappop(self._queue))
        for entry in taken:
            heappush(self._queue, entry)
        return tuple(dict.fromkeys(broker_id for _, broker_id in taken))

    def next_check_ms(self) -> int | None:
        """Until when, inclusive, nobody can be late; None while nobody is queued. May be earlier than need be."""
        return self._queue[0][0] if self._queue else None

    def has_session(self, broker_id: NodeId, *, broker_epoch: Epoch, now_ms: int) -> bool:
        """Was the broker of this epoch seen within the timeout, or is presumed so?

        While it is, another incarnation must not register under its id: DUPLICATE_BROKER_REGISTRATION.
        """
        seen = self._last_seen(broker_id)
        return seen is not None and seen.broker_epoch == broker_epoch and now_ms <= seen.at_ms + self.timeout_ms

    def lowest_metadata_offset(self, active: Iterable[tuple[NodeId, Epoch]]) -> Offset | None:
        """What all of `active` (broker id, broker epoch) have applied; None if there are none.

        A broker not yet heard of in that epoch counts as UNKNOWN_OFFSET.
        """
        return min((self._metadata_offset(broker_id, epoch) for broker_id, epoch in active), default=None)

    def begin_shutdown(self, broker_id: NodeId, *, broker_epoch: Epoch, offset: Offset) -> None:
        """Remember where the broker's shutdown stands in the log: the last record that moved its leaderships.

        Once: later calls for the same epoch change nothing, since the others need not catch up with those.
        """
        known = self._shutdowns.get(broker_id)
        if known is None or known[0] < broker_epoch:
            self._shutdowns[broker_id] = (broker_epoch, offset)

    def shutdown_offset(self, broker_id: NodeId, *, broker_epoch: Epoch) -> Offset | None:
        """The offset given to `begin_shutdown`; None if this tracker was not there."""
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
