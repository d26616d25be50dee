"""Which records of a cluster's logs are committed, as far as files can tell.

Files do not have the high watermark. They show two kinds of committed records:

* A checkpoint holds committed records only (KIP-630), so the last record in it is committed.
* A record of epoch e is committed if a majority of the voters has it and each of these voters is still in epoch e (its
  quorum-state says so). This is the leader's own rule, to count only records of its own epoch (KIP-595; Raft 5.4.2),
  seen from the voters: the first leader of a later epoch needs the vote of one of them, which gives it only to a log
  that has the record (Raft 5.4.1), and so on for every later leader. It does not matter at which moment each voter's
  files were copied. A majority that is in a later epoch proves nothing: the records of an earlier epoch may then still
  be overwritten (Raft, figure 8). The voters are those of every voter set from the record on (KIP-853).

Two committed records of which the later one has the earlier epoch cannot be of one log: the files are then of two
clusters, for instance of one and of a copy of its disks that was started under the same cluster id.

With a committed record all records before it in its log are committed (Raft 5.3, log matching). A record is
uncommitted, for ever, if it contradicts a committed one: epochs never go back within a log, and each offset has one
committed record (Raft 5.4.3). About every other record the files do not tell: it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Final, NamedTuple

from quorate.nouns import ZERO_UUID, Epoch, Offset, ReplicaKey

__all__ = ["COMMITTED", "UNCOMMITTED", "UNKNOWN", "Commitment", "EpochRange", "LogReplica", "VoterSet", "commitment"]

COMMITTED: Final = "committed"
UNCOMMITTED: Final = "uncommitted"
UNKNOWN: Final = "unknown"
_FOREVER: Final = (1 << 63) - 1


class EpochRange(NamedTuple):
    """The offsets of one epoch in a log, from `start` to `end` (exclusive)."""

    epoch: Epoch
    start: Offset
    end: Offset


class VoterSet(NamedTuple):
    """The voters from the record at `offset` on; -1 for static voters, which are in no record."""

    offset: Offset
    voters: frozenset[ReplicaKey]


class LogReplica(NamedTuple):
    """One replica's log: its epochs, ascending, and its voter sets.

    `key` is None if the files do not name the replica, `epoch` is that of its quorum-state, None without one.
    """

    key: ReplicaKey | None
    epochs: tuple[EpochRange, ...]
    voter_sets: tuple[VoterSet, ...] = ()
    epoch: Epoch | None = None

    def has(self, offset: Offset, epoch: Epoch) -> bool:
        """Returns whether the log has the record with this offset and epoch."""
        return any(each.epoch == epoch and each.start <= offset < each.end for each in self.epochs)

    def is_in(self, epoch: Epoch) -> bool:
        """Returns whether the replica is known to have been in this epoch and in no later one."""
        return self.epoch is not None and max(self.epoch, self.epochs[-1].epoch) == epoch


class Commitment(NamedTuple):
    """The records known to be committed: for each epoch, ascending, their offsets.

    `problem` says why the files cannot be of one cluster; then nothing is known. None if they can.

    >>> known = Commitment((EpochRange(1, 0, 60), EpochRange(3, 60, 90)))
    >>> [known.of(offset, epoch) for offset, epoch in ((59, 1), (60, 1), (60, 2), (99, 1), (90, 3), (99, 4))]
    ['committed', 'uncommitted', 'uncommitted', 'uncommitted', 'unknown', 'unknown']

    """

    epochs: tuple[EpochRange, ...] = ()
    problem: str | None = None

    def of(self, offset: Offset, epoch: Epoch) -> str:
        """Returns COMMITTED, UNCOMMITTED or UNKNOWN for the record with this offset and epoch."""
        return next(state for end, state in self.limits(epoch) if offset < end)

    def limits(self, epoch: Epoch) -> tuple[tuple[Offset, str], ...]:
        """Returns the states of an epoch's records by ascending offset, each with the offset (exclusive) it ends at.

        >>> Commitment((EpochRange(1, 0, 60), EpochRange(3, 60, 90))).limits(2)[:2]
        ((60, 'uncommitted'), (60, 'unknown'))

        """
        low, high = self.bounds(epoch)
        own = max((each.end for each in self.epochs if each.epoch == epoch), default=None)
        # One leader writes all records of an epoch, so those before a committed one of the same epoch are, too.
        first = (low, UNCOMMITTED) if own is None else (own, COMMITTED)
        return first, (high, UNKNOWN), (_FOREVER + 1, UNCOMMITTED)

    def bounds(self, epoch: Epoch) -> tuple[Offset, Offset]:
        """Returns `low` and `high`: the epoch's records below `low`, and from `high` on, are uncommitted.

        Those between are committed below the end of the epoch's range in `epochs`, and unknown from there on; all are
        unknown if it has no range (`limits`). `low` is 0 if it has one; `high` is 2^63 - 1 without a later epoch.
        """
        before = (each.end for each in self.epochs if each.epoch < epoch)
        after = (each.start for each in self.epochs if each.epoch > epoch)
        is_own = any(each.epoch == epoch for each in self.epochs)
        return 0 if is_own else max(before, default=0), min(after, default=_FOREVER)


def commitment(replicas: Sequence[LogReplica], checkpoints: Iterable[tuple[Offset, Epoch]] = ()) -> Commitment:
    """Returns what is committed, by the logs of one cluster and by its checkpoints' end offsets (exclusive) and epochs.

    If these contradict each other, the result has a `problem` and no epochs.
    """
    logs = [each for each in replicas if each.epochs]
    points = {(end - 1, epoch) for end, epoch in checkpoints if end > 0}
    points.update(_counted(logs))
    problem = _contradiction(points)
    if problem is not None:
        return Commitment(problem=problem)
    found: dict[Epoch, EpochRange] = {}
    pending = sorted(points)
    while pending:
        offset, epoch = pending.pop()
        before = min((each.start for each in found.values()), default=_FOREVER)
        for each in (EpochRange(epoch, offset, offset + 1), *_before(logs, offset, epoch)):
            found[each.epoch] = _joined(found.get(each.epoch, each), each)
        # A log that has the first of these records has those before it.
        first = min(found.values(), key=lambda each: each.start)
        if first.start < before and (first.start, first.epoch) != (offset, epoch):
            pending.append((first.start, first.epoch))
    return Commitment(tuple(found[epoch] for epoch in sorted(found)))


def _contradiction(points: Iterable[tuple[Offset, Epoch]]) -> str | None:
    """Returns why no log has all of these committed records: epochs never go back in it; None if one can have them."""
    for (offset, epoch), (later, later_epoch) in pairwise(sorted(points)):
        if later_epoch < epoch or (later == offset and later_epoch != epoch):
            return f"offset {offset} of epoch {epoch} is committed, and so is offset {later} of epoch {later_epoch}"
    return None


def _counted(logs: Sequence[LogReplica]) -> Iterator[tuple[Offset, Epoch]]:
    """Yields of each epoch the last record that a majority of voters makes committed, if one is known."""
    ranges = {each for log in logs for each in log.epochs if any(one.is_in(each.epoch) for one in logs)}
    done: set[Epoch] = set()
    for each in sorted(ranges, key=lambda one: (one.epoch, one.end), reverse=True):
        if each.epoch in done:
            continue
        offset = each.end - 1
        holders = [log for log in logs if log.has(offset, each.epoch)]
        counting = [log.key for log in holders if log.key is not None and log.is_in(each.epoch)]
        sets = list(_voter_sets(holders, offset))
        if sets and all(_is_majority(counting, voters) for voters in sets):
            done.add(each.epoch)
            yield offset, each.epoch


def _voter_sets(logs: Sequence[LogReplica], offset: Offset) -> Iterator[frozenset[ReplicaKey]]:
    """Yields the voter sets in force at an offset that all these logs have, and those that follow in any of them."""
    for log in logs:
        at = max((each.offset for each in log.voter_sets if each.offset <= offset), default=-1)
        yield from (each.voters for each in log.voter_sets if each.offset >= at and each.voters)


def _is_majority(counting: Sequence[ReplicaKey], voters: frozenset[ReplicaKey]) -> bool:
    return 2 * sum(any(_is_voter(key, voter) for key in counting) for voter in voters) > len(voters)


def _is_voter(key: ReplicaKey, voter: ReplicaKey) -> bool:
    """Returns whether a replica is this voter; a voter without a directory id is known by its node id (KIP-853)."""
    return key.id == voter.id and voter.directory_id in (ZERO_UUID, key.directory_id)


def _before(logs: Sequence[LogReplica], offset: Offset, epoch: Epoch) -> Iterator[EpochRange]:
    """Yields the ranges up to a committed record of every log that has it."""
    prefixes = (log.epochs for log in logs if log.has(offset, epoch))
    for each in chain.from_iterable(prefixes):
        if each.start <= offset:
            yield each._replace(end=min(each.end, offset + 1))


def _joined(one: EpochRange, other: EpochRange) -> EpochRange:
    return EpochRange(one.epoch, min(one.start, other.start), max(one.end, other.end))
