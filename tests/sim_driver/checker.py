"""What must be true of the real services, by the checker's own record of what was committed, promised and answered.

Looked at whenever a turn was carried out, a message leaves a process, or a controller hears of something. Numbers are
those of tests/INVARIANTS.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from kraft.service.quorum_pb2 import ListenResponse
from quorate.nouns import Epoch, NodeId, Offset
from quorate.raft.log import VotersChange
from quorate.raft.ready import Ready
from quorate.raft.voters import VoterSet
from quorate.wire.batch import BatchHeader, batches, data_values
from services.quorum.batches import voters_of
from tests.sim.invariants.base import Violation

if TYPE_CHECKING:
    from tests.sim_driver.disk import WatchedDisk
    from tests.sim_driver.loop import Life
    from tests.sim_driver.node import Node
    from tests.sim_driver.wire import Call
    from tests.sim_driver.world import World

EVERYTHING: Final = 1 << 30


class Checker:
    """The committed log as it came about, and who has promised what."""

    def __init__(self, world: World) -> None:
        self.is_looking = False
        """Reads of the checker's own are no steps of the node."""
        self.told_bytes = 0
        self.install_count = 0
        self.truncation_count = 0
        self.refused: set[bytes] = set()
        self._world = world
        self._bases: list[Offset] = []
        self._batches: list[bytes] = []
        self._headers: list[BatchHeader] = []
        self._digests: list[bytes] = []
        self._checked: dict[NodeId, Offset] = {}
        self._votes: dict[tuple[NodeId, Epoch], NodeId] = {}
        self._leaders: dict[Epoch, NodeId] = {}
        self._claims: dict[Epoch, NodeId] = {}
        self._starts: dict[Epoch, Offset] = {}
        self._opened: dict[Life, Call] = {}
        """Streams of fetches that were opened since their process's last turn was over."""
        self.voter_sets: list[tuple[Offset, VoterSet]] = [
            (-1, VoterSet.of(*(each for each in world.ids if not world.is_spare(each))))
        ]
        """Every committed one, by the offset of its batch; the first are those from before the log."""

    # What is committed.

    @property
    def end(self) -> Offset:
        """Of what any node has said to be committed."""
        return self._headers[-1].next_offset if self._headers else 0

    @property
    def epochs_claimed(self) -> int:
        return len(self._claims)

    def at(self, offset: Offset) -> tuple[BatchHeader, bytes]:
        """The committed batch with `offset`."""
        index = bisect_right(self._bases, offset) - 1
        return self._headers[index], self._batches[index]

    def epoch_before(self, offset: Offset) -> Epoch:
        return self.at(offset - 1)[0].epoch

    def digest_at(self, offset: Offset) -> bytes:
        """Of everything committed below `offset`, where a batch ends."""
        return self._digests[bisect_right(self._bases, offset - 1) - 1] if offset else b""

    def ends_at(self, offset: Offset) -> bool:
        """Does a committed batch end there?"""
        return 0 < offset <= self.end and self.at(offset - 1)[0].next_offset == offset

    def values_between(self, start: Offset, end: Offset) -> list[bytes]:
        """The records of the batches from `start` to `end`."""
        found: list[bytes] = []
        while start < end:
            header, data = self.at(start)
            found += [] if header.is_control else map(bytes, data_values(data))
            start = header.next_offset
        return found

    def opened(self, node: Node, disk: WatchedDisk) -> None:
        """A life begins with this on its disk."""
        self._checked[node.id] = disk.log.start
        if node.promised is not None and disk.last >= node.promised:
            self._recovered(node, disk)  # the damage was below a checkpoint, or in what it had promised nobody
        if node.promised is not None:
            sees = disk.damaged_to is not None
            require("contract", sees, "does not see what it lacks", node.id, node.promised, disk.last)

    def carried_out(self, node: Node, ready: Ready) -> None:
        """A turn is over."""
        driver, disk = node.driver, node.disk
        assert driver is not None
        assert disk is not None
        if node.promised is not None and disk.last >= node.promised:
            self._recovered(node, disk)
        node.is_damaged = node.promised is not None or driver.core.is_recovering
        self.truncation_count += ready.truncate_to is not None
        self._is_asked(node)
        if ready.install is not None:
            self.install_count += 1
            self._checked[node.id] = ready.install.offset
        if ready.high_watermark is not None:
            end = driver.high_watermark
            require("I-23", end <= disk.log.leo, "told to be committed, not in the log", node.id, end, disk.log.leo)
            self._extend(node, disk, end, ready)
            self._compare(node, disk, end)

    def called(self, call: Call) -> None:
        """A call leaves a process."""
        if call.path.endswith("FetchStream"):
            self._opened[call.client] = call

    def _is_asked(self, node: Node) -> None:
        """The last stream of fetches that this turn has opened is open: the core waits for what is asked there."""
        call = None if node.life is None else self._opened.pop(node.life, None)
        require("contract", call is None or not call.is_over, "a Fetch is called off in the turn that asks", node.id)

    def _recovered(self, node: Node, disk: WatchedDisk) -> None:
        self._world.note(node.id, "is what it was", disk.last)
        node.promised = None

    def _extend(self, node: Node, disk: WatchedDisk, end: Offset, ready: Ready) -> None:
        """A node is the first that knows this to be committed."""
        before = self.end
        if end <= before:
            return
        for header, data in self._read(disk, before, end):
            require("I-17", header.base_offset == self.end, node.id, header.base_offset, self.end)
            self._bases.append(header.base_offset)
            self._batches.append(data)
            self._headers.append(header)
            last = self._digests[-1] if self._digests else b""
            self._digests.append(sha256(last + data).digest())
            lost = (
                [] if header.is_control else [value for value in map(bytes, data_values(data)) if value in self.refused]
            )
            require("I-42", not lost, "was refused, and is committed", lost)
            if header.is_control and (voters := voters_of(data, 0, header)) is not None:
                self._voters_changed(header, voters)
        self._world.note(node.id, "commits", end)
        holders = {each.id for each in self._world.nodes.values() if self._holds(each, before, end)}
        sets = self._in_force(disk, end, ready)
        is_kept = any(2 * len(holders & voters.ids) > len(voters.ids) for voters in sets)
        require("I-18", is_kept, "committed, not kept by a majority", end, sorted(holders), sets)

    def _voters_changed(self, header: BatchHeader, voters: VoterSet) -> None:
        """One voter comes, goes or is described anew."""
        _, before = self.voter_sets[-1]
        is_one = len(before.ids - voters.ids) + len(voters.ids - before.ids) <= 1
        require("I-30", is_one, "more than one voter changes at once", header, before, voters)
        if before.voters != voters.voters:
            is_reached = before.target is not None and voters.keys == before.target.keys
            kept = None if is_reached else before.target
            require("I-87", voters.target == kept, "a change of the voters changes the target", header, before, voters)
        if before.ids != voters.ids:
            self._world.fired("S-23")
        for node in self._world.nodes.values():
            if node.key in voters.keys:
                node.wiped_at = None
        target = () if voters.target is None else ("on the way to", *map(str, voters.target.keys))
        self._world.note(0, "voters", header.base_offset, *map(str, voters.keys), *target)
        self.voter_sets.append((header.base_offset, voters))

    def _in_force(self, disk: WatchedDisk, end: Offset, ready: Ready) -> list[VoterSet]:
        """Who votes, by the whole log of the leader that has moved the high watermark; and who did before this turn."""
        tail = [self.voter_sets[-1][1]]
        for header, data in self._read(disk, end, disk.log.leo):
            if header.is_control and (voters := voters_of(data, 0, header)) is not None:
                tail.append(voters)
        changes_now = any(isinstance(entry, VotersChange) for entry in ready.append)
        return tail[-2:] if changes_now else tail[-1:]

    def voters_since(self, number: int) -> list[VoterSet]:
        """Who has voted since there were so many committed sets."""
        return [voters for _, voters in self.voter_sets[number - 1 :]]

    def _holds(self, node: Node, start: Offset, end: Offset) -> bool:
        """Are these, as they are committed, on its disk for good?"""
        if any(each is not None and each.offset >= end for each in (node.promised, node.wiped_at)):
            return True  # until its disk was damaged or lost, as only a minority's may be
        if node.disk is None or node.disk.last.offset < end:
            return node.disk is None and node.durable.offset >= end
        if node.disk.log.start > start:
            return True
        return all(data == self.at(header.base_offset)[1] for header, data in self._read(node.disk, start, end))

    def _compare(self, node: Node, disk: WatchedDisk, end: Offset) -> None:
        """It believes to be committed all that is, and no more."""
        start = max(self._checked[node.id], disk.log.start)
        for header, data in self._read(disk, start, end):
            known = self.at(header.base_offset)
            require("I-17", known[1] == data, "another batch is committed there", node.id, header, known[0])
        self._checked[node.id] = max(start, end)

    def _read(self, disk: WatchedDisk, start: Offset, end: Offset) -> Iterator[tuple[BatchHeader, bytes]]:
        while start < end:
            with self._looking():
                data = disk.log.read(start, EVERYTHING)
            for position, header in batches(data):
                if header.base_offset >= end:
                    return
                yield header, data[position : position + header.size]
                start = header.next_offset

    @contextmanager
    def _looking(self) -> Iterator[None]:
        self.is_looking = True
        try:
            yield
        finally:
            self.is_looking = False

    def agree(self, node: Node) -> None:
        """Everything that this node knows to be committed lies on its disk, from where its log begins."""
        assert node.driver is not None
        assert node.disk is not None
        self._checked[node.id] = node.disk.log.start
        self._compare(node, node.disk, node.driver.high_watermark)

    # What leaves a node.

    def sent(self, node: Node, method: str, request: Any, answer: Any | None) -> None:
        """It leaves now."""
        match method.rpartition("/")[2]:
            case "Vote":
                partition = request.topics[0].partitions[0]
                if not partition.pre_vote and answer is None:
                    self._voted(node, partition.replica_epoch, node.id)
                elif (
                    not partition.pre_vote
                    and answer is not None
                    and answer.topics
                    and answer.topics[0].partitions[0].vote_granted
                ):
                    self._voted(node, partition.replica_epoch, partition.replica_id)
            case "FetchStream" if answer is None:
                asked = request.topics[0].partitions[0].fetch_offset
                assert node.disk is not None
                durable = node.disk.last.offset
                require("I-18", asked <= durable, "says it has what may be lost", node.id, asked, durable)
            case "BeginQuorumEpoch" if answer is None:
                epoch = request.topics[0].partitions[0].leader_epoch
                leader = self._leaders.setdefault(epoch, node.id)
                require("I-01", leader == node.id, "two lead one epoch", epoch, leader, node.id)
            case "Listen" if answer is not None:
                self._told(node, answer)

    def _voted(self, node: Node, epoch: Epoch, candidate: NodeId) -> None:
        """A vote leaves, or the request for one of a candidate, who votes for itself."""
        first = self._votes.setdefault((node.id, epoch), candidate)
        require("I-04", first == candidate, "two votes in one epoch", node.id, epoch, first, candidate)
        assert node.disk is not None
        with self._looking():
            stored = node.disk.election()
        is_kept = stored is not None and stored.epoch >= epoch and (stored.epoch > epoch or stored.voted is not None)
        require("I-04", is_kept, "a vote leaves that is not on the disk", node.id, epoch, stored)
        if node.promised is not None:
            require("contract", node.disk.last >= node.promised, "votes with less than it had", node.id, node.promised)

    def _told(self, node: Node, event: ListenResponse) -> None:
        match event.WhichOneof("event"):
            case "batches":
                self.told_bytes += len(event.batches.records)
                for position, header in batches(event.batches.records):
                    require("I-23", header.next_offset <= self.end, "told before it is committed", node.id, header)
                    data = event.batches.records[position : position + header.size]
                    require("I-23", data == self.at(header.base_offset)[1], "told otherwise", node.id, header)
            case "committed":
                end = event.committed.high_watermark
                require("I-23", end <= self.end, "told before it is committed", node.id, end, self.end)
            case "leadership" if event.leadership.leader_id == node.id:
                self._claimed(node, event.leadership.epoch, event.leadership.next_offset)

    def _claimed(self, node: Node, epoch: Epoch, next_offset: Offset) -> None:
        first = self._claims.setdefault(epoch, node.id)
        is_first = first == node.id and epoch not in self._starts
        require("I-38", is_first, "two controllers are active in one epoch", epoch, first, node.id)
        start = next((header.base_offset for header in self._headers if header.epoch == epoch), None)
        require("I-38", start is not None, "active before anything of its epoch is committed", epoch, node.id)
        assert start is not None
        self._starts[epoch] = start
        require("I-38", next_offset > start, "told to write before its epoch", epoch, next_offset, start)

    # What a controller hears.

    def heard_batches(self, who: object, next_offset: Offset, records: bytes) -> Offset:
        """In order, without a gap; the answer is where it stands then."""
        for _, header in batches(records):
            require("I-23", header.base_offset == next_offset, "told out of order", who, header, next_offset)
            next_offset = header.next_offset
        return next_offset

    def read(self, who: object, next_offset: Offset, base_offset: Offset, data: bytes) -> None:
        """An observer was sent this batch."""
        require("I-39", base_offset == next_offset, "read out of order", who, next_offset, base_offset)
        is_so = base_offset < self.end and self.at(base_offset)[1] == data
        require("I-39", is_so, "read, and not what is committed", who, base_offset, self.end)

    def heard_claim(self, who: object, epoch: Epoch, applied: Offset) -> None:
        """It is active, and must have applied everything before its epoch."""
        start = self._starts[epoch]
        require("I-38", applied > start, "active before it has heard of all before", who, epoch, applied, start)

    def acknowledged(self, who: object, base_offset: Offset, end: Offset, values: list[bytes]) -> None:
        """The controller answers for these now: they are where they were put, for ever."""
        kept = self.values_between(base_offset, end)
        require("I-41", kept == values, "acknowledged, and something else is there", who, base_offset, values, kept)


def require(number: str, is_so: bool, *why: object) -> None:
    """Raises Violation."""
    if not is_so:
        raise Violation(number, str(why[0]), *why[1:])
