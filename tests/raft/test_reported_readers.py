"""Readers of whom a leader hears by others: how far they are is known, and acknowledges nothing."""

from __future__ import annotations

from msgspec.structs import replace

from quorate.nouns import ReplicaKey
from quorate.raft import BatchInfo
from quorate.raft.invariants import check
from tests.raft.test_messages import FETCH, ask, flush, leader, take


def test_readers_who_were_answered_elsewhere_are_listed_and_acknowledge_nothing() -> None:
    """A voter's offset counts for a commit: only its own fetches say it. Of others only what is committed counts."""
    made = leader()
    ask(made, replace(FETCH, fetch_offset=11, last_fetched_epoch=6, max_wait_ms=0), 3_000)
    before = made.core.log.high_watermark
    made.core.append([BatchInfo(base_offset=11, last_offset=11, epoch=6)], 3_000)
    flush(made, 3_000)
    take(made)
    ahead, within, nobody = ReplicaKey(102), ReplicaKey(101), ReplicaKey(-1)
    others = {ahead: before + 1, nobody: before, ReplicaKey(2): 12, ReplicaKey(3): 12}
    is_taken = made.core.note_readers({within: before}, 3_000)
    are_taken = [made.core.note_readers({within: before, key: end}, 3_100) for key, end in others.items()]
    check(made.core)
    told = made.core.describe(3_200)

    assert 11 == before == made.core.log.high_watermark
    assert (True, [False] * 4) == (is_taken, are_taken), "who was not taken has to fetch itself"
    assert [(within, before, 3_100)] == [(each.key, each.leo, each.last_fetch_at_ms) for each in told.observers]
    assert 12 not in [each.leo for each in told.voters if each.key.id != 1]
