"""The log start may pass what is flushed: a follower knows of commits before its own disk has the records."""

from __future__ import annotations

from quorate.nouns import OffsetAndEpoch
from quorate.raft import BatchInfo, VoterHistory, VoterSet
from quorate.raft.log import LogView

SNAPSHOT = OffsetAndEpoch(epoch=5, offset=55)


def test_a_log_that_starts_beyond_its_flushed_end_counts_as_flushed_up_to_its_start() -> None:
    """The snapshot is on stable storage. A flush that began before it, and ends later, takes nothing back."""
    log = LogView(voters=VoterHistory(VoterSet.of(1)))
    log.append(BatchInfo(base_offset=0, last_offset=59, epoch=5))
    log.flush(52)
    log.commit(57)
    log.snapshots[SNAPSHOT] = 100

    log.start_at(SNAPSHOT)

    assert (SNAPSHOT, 55) == (log.last_flushed, log.flushed)
    log.flush(53)
    assert SNAPSHOT == log.last_flushed
    log.flush(60)
    assert OffsetAndEpoch(epoch=5, offset=60) == log.last_flushed
