"""What is committed, as the files of several voters tell it: nothing that Raft itself would contradict."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from kraft import Uuid
from quorate.nouns import Epoch, Offset, ReplicaKey
from quorate.pipeline.commitment import (
    COMMITTED,
    UNCOMMITTED,
    UNKNOWN,
    EpochRange,
    LogReplica,
    VoterSet,
    commitment,
)
from quorate.pipeline.log_files import find
from quorate.pipeline.replicas import commitments
from quorate.wire.batch import ControlType, control_batch
from tests.interop.kafka.judge import dumped_batches
from tests.pipeline.conftest import FIXTURES
from tests.pipeline.logs import NOON_MS, batches, history, node, segment

DIVERGED: Final = FIXTURES.parent / "diverged" / "deposed-leader"
PARTITION: Final = "__cluster_metadata-0"
DIRECTORY: Final = Uuid(bytes(range(16)))
RUNS: Final = 1_000
STEPS: Final = 60


def replica(number: int, epochs: Sequence[Epoch], *, in_epoch: Epoch | None, voters: int = 3) -> LogReplica:
    """A voter's log, by the epoch of each record; `in_epoch` is what its quorum-state says."""
    ranges: list[EpochRange] = []
    for offset, epoch in enumerate(epochs):
        if ranges and ranges[-1].epoch == epoch:
            ranges[-1] = ranges[-1]._replace(end=offset + 1)
        else:
            ranges.append(EpochRange(epoch, offset, offset + 1))
    everyone = frozenset(ReplicaKey(each) for each in range(1, voters + 1))
    return LogReplica(ReplicaKey(number), tuple(ranges), (VoterSet(-1, everyone),), in_epoch)


def states(logs: Sequence[LogReplica], of: Sequence[Epoch], checkpoint: tuple[Offset, Epoch] = (0, 0)) -> list[str]:
    """What is said of each record of a log."""
    known = commitment(logs, [checkpoint])
    return [known.of(offset, epoch) for offset, epoch in enumerate(of)]


def test_a_majority_in_the_epoch_of_a_record_commits_it_and_what_is_before_it() -> None:
    logs = [replica(1, [1, 2, 2, 2], in_epoch=2), replica(2, [1, 2, 2], in_epoch=2)]

    assert [COMMITTED] * 3 + [UNKNOWN] == states(logs, [1, 2, 2, 2])


def test_one_voter_of_three_commits_nothing() -> None:
    assert [UNKNOWN, UNKNOWN] == states([replica(1, [1, 1], in_epoch=1)], [1, 1])


def test_a_majority_in_a_later_epoch_says_nothing_of_the_epoch_before() -> None:
    """Raft, figure 8: the record of epoch 2 is on a majority, and the log with epoch 3 may still overwrite it."""
    logs = [replica(1, [1, 2, 4], in_epoch=4, voters=5)]
    logs += [replica(each, [1, 2], in_epoch=4, voters=5) for each in (2, 3, 4)]

    assert [UNKNOWN] * 3 == states([*logs, replica(5, [1, 3], in_epoch=3, voters=5)], [1, 2, 4])


def test_a_voter_without_its_quorum_state_is_not_counted() -> None:
    logs = [replica(1, [1, 1], in_epoch=1), replica(2, [1, 1], in_epoch=None)]

    assert [UNKNOWN, UNKNOWN] == states(logs, [1, 1])


def test_two_copies_of_a_voter_are_one() -> None:
    logs = [replica(1, [1, 1], in_epoch=1), replica(1, [1, 1], in_epoch=1)]

    assert [UNKNOWN, UNKNOWN] == states(logs, [1, 1])


def test_a_replica_with_another_directory_is_not_the_voter() -> None:
    named = frozenset(ReplicaKey(each, DIRECTORY) for each in (1, 2, 3))
    logs = [replica(each, [1, 1], in_epoch=1)._replace(voter_sets=(VoterSet(0, named),)) for each in (1, 2)]
    first, second = logs

    assert [UNKNOWN, UNKNOWN] == states(logs, [1, 1])
    in_place = [each._replace(key=ReplicaKey(number, DIRECTORY)) for number, each in ((1, first), (2, second))]
    assert [COMMITTED, COMMITTED] == states(in_place, [1, 1])


def test_every_voter_set_from_the_record_on_needs_its_majority() -> None:
    two, four = (frozenset(ReplicaKey(each) for each in range(1, end)) for end in (3, 5))
    grown = (VoterSet(0, two), VoterSet(1, four))
    logs = [replica(each, [1, 1, 1], in_epoch=1)._replace(voter_sets=grown) for each in (1, 2)]

    assert [UNKNOWN] * 3 == states(logs, [1, 1, 1])


def test_a_checkpoint_has_committed_records_only() -> None:
    """The log with the later epoch 2 is the deposed one: epoch 3 went on from epoch 1, and has a checkpoint."""
    assert [COMMITTED, COMMITTED, COMMITTED, UNKNOWN] == states(
        [replica(1, [1, 1, 3, 3], in_epoch=3), replica(2, [1, 2, 2, 2], in_epoch=2)], [1, 1, 3, 3], (3, 3)
    )
    assert [COMMITTED, UNCOMMITTED, UNCOMMITTED, UNCOMMITTED] == states(
        [replica(1, [1, 1, 3, 3], in_epoch=3), replica(2, [1, 2, 2, 2], in_epoch=2)], [1, 2, 2, 2], (3, 3)
    )


def test_a_log_without_its_begin_is_completed_by_others() -> None:
    cut = replica(1, [1, 2, 2, 3], in_epoch=3)
    cut = cut._replace(epochs=(EpochRange(3, 3, 4),))
    whole, deposed = [1, 2, 2, 3], [1, 1, 1]
    logs = [cut, replica(2, whole, in_epoch=None), replica(3, deposed, in_epoch=1)]

    assert [COMMITTED] * 4 == states(logs, whole, (4, 3))
    assert [COMMITTED, UNCOMMITTED, UNCOMMITTED] == states(logs, deposed, (4, 3))


def test_a_copy_that_goes_on_in_a_later_epoch_is_a_second_cluster() -> None:
    """Production goes on in epoch 1, a copy of its disks in epoch 2 from offset 3 on, each with a majority."""
    production = [replica(each, [1] * 8, in_epoch=1) for each in (1, 2, 3)]
    copied = [replica(each, [1, 1, 1, 2], in_epoch=2) for each in (1, 2, 3)]
    known = commitment([*production, *copied])

    assert ((), "offset 3 of epoch 2 is committed, and so is offset 7 of epoch 1") == known
    assert "offset 3 of epoch 2 is committed, and so is offset 6 of epoch 1" == commitment(copied, [(7, 1)]).problem
    assert "offset 3 of epoch 1 is committed, and so is offset 3 of epoch 2" == commitment(copied, [(4, 1)]).problem
    assert commitment(copied, [(3, 1)]).problem is None


# A quorum by the letter of the Raft paper, as a naive twin.


@dataclass
class Voter:
    """Its log by the epoch of each record, and the epoch that it is in."""

    log: list[Epoch] = field(default_factory=list)
    epoch: Epoch = 0


@dataclass
class Quorum:
    """Voters that elect, append, and fetch at random; `committed` is what some leader has committed."""

    chance: random.Random
    voters: list[Voter]
    leader: int | None = None
    away: int | None = None
    unrest: int = 1
    committed: list[Epoch] = field(default_factory=list)

    def elect(self) -> None:
        """A candidate asks for votes: one an epoch, and none for a log behind the voter's. The leader may be away."""
        self.away = self.chance.choice((None, self.leader))
        there = [each for each in range(len(self.voters)) if each != self.away]
        candidate = self.chance.choice(there)
        asked = self.chance.sample(there, self.chance.randint(len(there) // 2, len(there)))
        epoch = max(each.epoch for each in self.voters) + 1
        mine = self.voters[candidate].log
        granted = {candidate}
        self.voters[candidate].epoch = epoch
        if self.leader == candidate:
            self.leader = None
        for each in set(asked) - {candidate}:
            voter = self.voters[each]
            if voter.epoch < epoch:
                voter.epoch = epoch
                if self.leader == each:
                    self.leader = None
                if (mine[-1:], len(mine)) >= (voter.log[-1:], len(voter.log)):
                    granted.add(each)
        if 2 * len(granted) > len(self.voters):
            self.leader = candidate
            mine.append(epoch)

    def append(self) -> None:
        if self.leader is not None:
            leader = self.voters[self.leader]
            leader.log += [leader.epoch] * self.chance.randint(1, 3)

    def fetch(self) -> None:
        """A follower goes into the leader's epoch, truncates what diverges, takes some records; the leader counts."""
        if self.leader is None:
            return
        leader = self.voters[self.leader]
        there = [each for number, each in enumerate(self.voters) if number != self.away]
        follower = self.chance.choice([each for each in there if each is not leader])
        if follower.epoch > leader.epoch:
            self.leader = None
            return
        follower.epoch = leader.epoch
        same = 0
        while same < min(len(follower.log), len(leader.log)) and follower.log[same] == leader.log[same]:
            same += 1
        del follower.log[same:]
        follower.log += leader.log[same : same + self.chance.randint(0, 3)]
        for end in range(len(leader.log), len(self.committed), -1):
            having = [each for each in self.voters if each.log[:end] == leader.log[:end] and each.epoch == leader.epoch]
            if leader.log[end - 1] == leader.epoch and 2 * len(having) > len(self.voters):
                assert self.committed == leader.log[: len(self.committed)], "the naive twin is Raft"
                self.committed = leader.log[:end]
                break

    def end(self) -> None:
        """Goes on until everything in the leader's log is committed."""
        self.away = None
        while self.leader is None or self.voters[self.leader].log != self.committed:
            self.fetch() if self.leader is not None else self.elect()
            self.away = None

    def step(self) -> None:
        self.chance.choice((*[self.elect] * self.unrest, *[self.append] * 4, *[self.fetch] * 8))()


@pytest.mark.parametrize("voters", [3, 5])
def test_nothing_is_said_that_raft_contradicts(voters: int) -> None:
    """Each voter's files are copied at a moment of its own, some not at all; then the quorum goes on."""
    told = {COMMITTED: 0, UNCOMMITTED: 0, UNKNOWN: 0}
    for seed in range(RUNS):
        chance = random.Random(f"{voters} {seed}")
        quorum = Quorum(chance, [Voter() for _ in range(voters)], unrest=chance.choice((1, 6)))
        copies: list[LogReplica] = []
        first, later = chance.randrange(STEPS), chance.choice((1, 5, STEPS))
        moments = {
            number: (first + chance.randrange(later)) % STEPS for number in range(voters) if chance.random() < 0.9
        }
        for step in range(STEPS):
            quorum.step()
            copied = [number for number, at in moments.items() if at == step and quorum.voters[number].log]
            copies += [
                replica(each + 1, quorum.voters[each].log, in_epoch=quorum.voters[each].epoch, voters=voters)
                for each in copied
            ]
        for _ in range(STEPS):
            quorum.step()
        quorum.end()
        known = commitment(copies)
        assert known.problem is None, (seed, known.problem)
        truth = quorum.committed
        records = {(at, each.epoch) for log in copies for each in log.epochs for at in range(each.start, each.end)}
        for offset, epoch in records:
            said = known.of(offset, epoch)
            told[said] += 1
            if said == COMMITTED:
                assert truth[offset : offset + 1] == [epoch], (seed, offset, epoch)
            if said == UNCOMMITTED:
                assert truth[offset : offset + 1] != [epoch], (seed, offset, epoch)

    assert min(told.values()) > 40, told


# Files.


def said_of(directory: Path, node_id: int) -> dict[str, list[Offset]]:
    """The offsets of a node's records by what is said of them; the records are those that Kafka's own tool prints."""
    (known,) = commitments(find([str(directory)])).values()
    (dump,) = (DIVERGED / f"controller-{node_id}" / PARTITION).glob("*.log.dump.txt")
    found: dict[str, list[Offset]] = {}
    for batch in dumped_batches(dump.read_text()):
        for offset in range(batch.base_offset, batch.last_offset + 1):
            found.setdefault(known.of(offset, batch.epoch), []).append(offset)
    return found


def deposed_id() -> int:
    """The leader that was killed with records that nobody else had."""
    (killed,) = [
        json.loads(line) for line in (DIVERGED / "timeline.json").read_text().splitlines() if '"do": "kill"' in line
    ]
    node_id: int = killed["node"]
    return node_id


def ends(node_id: int) -> tuple[Offset, Epoch]:
    """A node's log end (exclusive) and the epoch of its last record, by Kafka's own tool."""
    (dump,) = (DIVERGED / f"controller-{node_id}" / PARTITION).glob("*.log.dump.txt")
    last = dumped_batches(dump.read_text())[-1]
    return last.last_offset + 1, last.epoch


def test_a_deposed_kafka_leaders_records_are_uncommitted_and_all_others_committed() -> None:
    deposed = deposed_id()
    others = {1, 2, 3} - {deposed}
    (end,) = {ends(each) for each in others}
    alone, epoch = ends(deposed)
    told = said_of(DIVERGED, deposed)

    assert epoch < end[1]
    assert [COMMITTED, UNCOMMITTED] == list(told)
    assert 40 < len(told[UNCOMMITTED]) == alone - told[UNCOMMITTED][0]
    for each in others:
        assert {COMMITTED: list(range(end[0]))} == said_of(DIVERGED, each)


def test_of_one_log_alone_nothing_is_known(tmp_path: Path) -> None:
    shutil.copytree(DIVERGED / f"controller-{deposed_id()}", tmp_path / "one")

    assert [UNKNOWN] == list(said_of(tmp_path, deposed_id()))


def test_without_a_quorum_state_a_majority_is_not_counted(tmp_path: Path) -> None:
    shutil.copytree(DIVERGED, tmp_path / "all")
    for each in (tmp_path / "all").rglob("quorum-state"):
        each.unlink()

    assert [UNKNOWN] == list(said_of(tmp_path, deposed_id()))


@pytest.mark.parametrize(
    "state",
    ["", "nonsense\n", "[]", '{"leaderId":1}', '{"leaderEpoch":"x"}', '{"leaderEpoch":1e400}', "[" * 100_000],
    ids=lambda state: state[:20],
)
def test_a_quorum_state_that_cannot_be_read_says_nothing(tmp_path: Path, state: str) -> None:
    shutil.copytree(DIVERGED, tmp_path / "all")
    for each in (tmp_path / "all").rglob("quorum-state"):
        each.write_text(state)

    assert [UNKNOWN] == list(said_of(tmp_path, deposed_id()))


def test_under_a_voter_set_of_a_later_version_nothing_is_counted(tmp_path: Path) -> None:
    """Of records before it neither: every voter set from a record on needs its majority."""
    known = []
    unknown = [(ControlType.KRAFT_VOTERS, b"\0\1\0\0")]
    for name, more in (
        ("static", []),
        ("later", [control_batch(base_offset=6, epoch=1, timestamp_ms=NOON_MS, records=unknown)]),
    ):
        partition = node(tmp_path / name, name)
        segment(partition, [*batches(history(4)), *more])
        (partition / "quorum-state").write_text('{"leaderEpoch":1,"currentVoters":[{"voterId":1}]}')
        known += commitments(find([str(tmp_path / name)])).values()

    assert [(EpochRange(1, 0, 6),), ()] == [each.epochs for each in known]


STOPPED: Final = {"combined-static": 79, "three-dynamic": 239, "voters-changed": 48, "three-dynamic/controller-1": 171}


@pytest.mark.parametrize(("name", "end"), STOPPED.items())
def test_of_quorums_that_were_stopped_everything_is_committed(name: str, end: Offset) -> None:
    """One voter, three, two of three; of one voter's log alone what its last checkpoint has."""
    (known,) = commitments(find([str(FIXTURES / name)])).values()

    assert end == known.epochs[-1].end
    assert all(one.end == other.start for one, other in zip(known.epochs, known.epochs[1:], strict=False))


def test_segments_below_a_checkpoint_are_known_by_their_first_headers(tmp_path: Path) -> None:
    """Epoch 1 has two segments, of which the first's second batch is damaged: nobody reads it to know the epochs."""
    partition = node(tmp_path, "c")
    whole = batches(history(4))
    segment(partition, [whole[0], b"\0" * len(whole[1])])
    segment(partition, whole[2:3], base_offset=3)
    segment(partition, batches(history(4)[3:], base_offset=4, epoch=2), base_offset=4)
    (partition / "00000000000000000005-0000000002.checkpoint").touch()
    (known,) = commitments(find([str(tmp_path)])).values()

    assert (EpochRange(1, 0, 4), EpochRange(2, 4, 5)) == known.epochs
