"""What the committed log says, read once by the checker: who was registered where, and which topics there were when.

An answer is held against the log up to the offset that it names, and its offset against those of earlier answers.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from quorate.metadata.canonical import canonical
from quorate.metadata.features import supported_features
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId, Offset
from quorate.records import (
    NoOpRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode_record,
)
from quorate.wire.batch import data_values
from tests.sim_driver.checker import require

if TYPE_CHECKING:
    from tests.sim_services.world import ServicesWorld

Topics = dict[str, tuple[bytes, int]]
"""By name: the id, and how many partitions."""
IDLE_MS: Final = 500


class Ledger:
    """It is read as far as the checker has it, whenever something is asked of it."""

    def __init__(self, world: ServicesWorld) -> None:
        self.state = ClusterState(supported_features())
        """Replayed by the code under test, to be compared with what the controllers have."""
        self.told: Offset = 0
        """The largest offset that a client got with an answer."""
        self.no_op_count = 0
        self._world = world
        self._next: Offset = 0
        self._registrations: dict[tuple[NodeId, bytes], int] = {}
        self._created: dict[str, int] = {}
        self._names: dict[bytes, str] = {}
        self._ends: list[Offset] = [0]
        self._topics: list[Topics] = [{}]

    def catch_up(self) -> None:
        """Read what was committed since."""
        checker = self._world.checker
        while self._next < checker.end:
            header, data = checker.at(self._next)
            records = () if header.is_control else tuple(map(decode_record, data_values(data)))
            for offset, record in enumerate(records, start=header.base_offset):
                topics = dict(self._topics[-1])
                self._read(record, offset, topics)
                if topics != self._topics[-1]:  # what was decided one after the other may share a batch
                    self._ends.append(offset + 1)
                    self._topics.append(topics)
                self.state.apply(record, offset)
            self.state.settle()
            self._next = header.next_offset

    def _read(self, record: object, offset: Offset, topics: Topics) -> None:
        match record:
            case TopicRecord(name=name, topic_id=topic_id):
                self._created[name] = self._created.get(name, 0) + 1
                require("I-42", self._created[name] == 1, "was asked for once, and is created again", name, offset)
                topics[name], self._names[bytes(topic_id)] = (bytes(topic_id), 0), name
            case PartitionRecord(topic_id=topic_id):
                name = self._names[bytes(topic_id)]
                topics[name] = bytes(topic_id), topics[name][1] + 1
            case RemoveTopicRecord(topic_id=topic_id):
                del topics[self._names[bytes(topic_id)]]
            case RegisterBrokerRecord(broker_id=broker_id, incarnation_id=incarnation, broker_epoch=epoch):
                self._registrations[broker_id, bytes(incarnation)] = epoch
            case NoOpRecord():
                self.no_op_count += 1

    def topics_at(self, offset: Offset) -> Topics:
        """After all records below `offset`."""
        self.catch_up()
        return self._topics[bisect_right(self._ends, offset) - 1]

    def was_created(self, name: str) -> bool:
        """Ever?"""
        self.catch_up()
        return name in self._created

    def registration(self, broker_id: NodeId, incarnation: bytes) -> int:
        """Where it is; -1 if nowhere."""
        self.catch_up()
        return self._registrations.get((broker_id, incarnation), -1)

    def hear(self, offset: Offset, *, asked_at: Offset) -> None:
        """An answer came that speaks of `offset`; when it was asked for, `asked_at` was in somebody's answer."""
        end = self._world.checker.end
        require("I-39", offset <= end, "answered with what is not committed", offset, end)
        require("I-40", offset >= asked_at, "answered with a state from before what was told already", offset, asked_at)
        self.told = max(self.told, offset)

    def agree(self) -> None:
        """Every controller has come to the same end, and has the state that the log makes."""
        self.catch_up()
        self._world.hashes.note("the log", self._next, 0, canonical(self.state), "I-37")
        for each in self._world.controllers:
            if each.driver is not None and each.next == self._next:
                each.driver.compare_now()
