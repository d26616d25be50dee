"""Operators: topics are created, grown, moved, deleted; leaders elected; configs and levels changed; states read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any

from kraft import Uuid
from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from kraft.api.create_partitions import CreatePartitionsRequest
from kraft.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.delete_topics import DeleteTopicsRequest
from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from kraft.api.elect_leaders import ElectLeadersRequest
from kraft.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from kraft.api.unregister_broker import UnregisterBrokerRequest
from quorate.controller.commands.allocate_producer_ids import allocate_producer_ids
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.create_partitions import create_partitions, wanted_more
from quorate.controller.commands.create_topics import create_topics, wanted_placements
from quorate.controller.commands.delete_topics import delete_topics
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.commands.list_partition_reassignments import list_partition_reassignments
from quorate.controller.commands.unregister_broker import unregister_ahead, unregister_broker
from quorate.controller.engine.decision import Command, Decision
from quorate.controller.engine.deduplication import ID_BYTES, RequestId
from quorate.controller.engine.engine import QueueLimit
from quorate.records import NoOpRecord, TopicRecord
from tests.sim.invariants.base import Ledger, require
from tests.sim_controller.calls import CHUNK_LIMITS, OK, REFUSED, UNKNOWN, Call, told_of
from tests.sim_controller.controller import Controller
from tests.sim_controller.judging import written
from tests.sim_controller.model import Model
from tests.sim_controller.settings_calls import SETTINGS_CALLS

if TYPE_CHECKING:
    from tests.sim_controller.world import ControllerWorld

NAMES = ("alpha", "beta", "gamma", "delta", "eta", "a.b", "a_b")
PREFERRED, UNCLEAN = 0, 1
Topic = CreateTopicsRequest.CreatableTopic
Move = AlterPartitionReassignmentsRequest.ReassignableTopic
Grow = CreatePartitionsRequest.CreatePartitionsTopic


class Admins:
    """Each turn one of them asks for something. They know the state as the last commit has it, more or less."""

    def __init__(self, world: ControllerWorld) -> None:
        self.world = world
        self.random: Random = world.stream("admins")
        self._ids: Random = world.stream("topic ids")
        self._owners: dict[Uuid, Call] = {}
        self._families: dict[bytes, list[Call]] = {}
        deeds: list[tuple[int, Callable[[], None]]] = [
            (6, self._create),
            (2, self._delete),
            (2, self._grow),
            (8, self._move),
            (1, self._call_off),
            (1, lambda: self._elect(PREFERRED)),
            (2, lambda: self._elect(UNCLEAN)),
            (1, self._allocate),
        ]
        deeds += [(weight, lambda make=make: self._settings(make)) for weight, make in SETTINGS_CALLS]  # type: ignore[misc]
        self._deeds = [deed for weight, deed in deeds for _ in range(weight)]

    def act(self) -> None:
        """One request."""
        if self.random.random() < 0.01 and not self.world.is_healed:
            self._strike_off()
        else:
            self.random.choice(self._deeds)()

    def read(self) -> None:
        """A look at everything, or at what is being moved."""
        if self.random.random() < 0.7:
            all_topics = DescribeTopicPartitionsRequest(response_partition_limit=2_000)
            self._ask(
                "DescribeTopicPartitions", all_topics, lambda *_: describe_topic_partitions(all_topics), read=True
            )
        else:
            moves = ListPartitionReassignmentsRequest(topics=None)
            self._ask("ListPartitionReassignments", moves, lambda *_: list_partition_reassignments(moves), read=True)

    def probe(self) -> Call:
        """A write that nobody can refuse."""
        return Call(
            what="probe", request=None, command=lambda *_: lambda _state, _moment: Decision(None, (NoOpRecord(),))
        )

    @property
    def model(self) -> Model:
        """What an operator sees."""
        return self.world.history.model

    @property
    def _settings_of_controllers(self) -> Any:
        return self.world.controller_settings

    # Topics.

    def _create(self) -> None:
        random, ids = self.random, sorted(self.model.members)
        topics = []
        for name in random.sample(NAMES, random.choice([1, 1, 2])):
            count, factor = random.randrange(1, 4), random.choice([1, 2, 3, 3, 4])
            configs = self._configs()
            if ids and random.random() < 0.3:
                chosen = [tuple(random.sample(ids, min(len(ids), factor))) for _ in range(count)]
                by_hand = tuple(Topic.CreatableReplicaAssignment(i, brokers) for i, brokers in enumerate(chosen))
                topics.append(Topic(name, -1, -1, by_hand, configs))
            else:
                topics.append(Topic(name, count, factor, (), configs))
        request = CreateTopicsRequest(topics=tuple(topics))
        self._ask_to_create(request, self._new_request_id())

    def _configs(self) -> tuple[Topic.CreatableTopicConfig, ...]:
        random, config = self.random, Topic.CreatableTopicConfig
        chosen = []
        if random.random() < 0.4:
            chosen.append(config("min.insync.replicas", random.choice(["1", "2", "3"])))
        if random.random() < 0.3:
            chosen.append(config("unclean.leader.election.enable", random.choice(["true", "false"])))
        return tuple(chosen)

    def _ask_to_create(self, request: CreateTopicsRequest, request_id: RequestId | None) -> None:
        world = self.world

        def wanted(state: Any) -> Any:
            return wanted_placements(state, request, world.controller_settings)

        def command(controller: Controller, placements: Any) -> Command[Any]:
            return create_topics(
                request,
                placements=placements,
                new_topic_id=lambda: self._new_topic_id(call),
                settings=world.controller_settings,
            )

        def ended(ended: Call) -> None:
            if request_id is not None and ended.outcome == UNKNOWN and len(self._families[request_id.value]) < 4:
                world.fired("C-11 request repeated")
                self._ask_to_create(request, request_id)

        call = Call(
            what="CreateTopics", request=request, command=command, ended=ended, wanted=wanted, request_id=request_id
        )
        if request_id is not None:
            self._families.setdefault(request_id.value, []).append(call)
            if world.happens(world.cluster_plan.repeat * 0.3, "C-11 request repeated"):
                world.at(self.random.randrange(200), lambda: self._ask_to_create(request, request_id))
        world.oracle.ask(call)

    def _new_request_id(self) -> RequestId | None:
        if self.random.random() >= self.world.cluster_plan.repeat:
            return None
        return RequestId(self.random.randbytes(ID_BYTES), CreateTopicsResponse)

    def _new_topic_id(self, call: Call) -> Uuid:
        topic_id = Uuid(self._ids.randbytes(16))
        self._owners[topic_id] = call
        return topic_id

    def _delete(self) -> None:
        name = self.random.choice(NAMES)
        known = self.model.topics.get(name)
        by_id = known is not None and self.random.random() < 0.5
        state = DeleteTopicsRequest.DeleteTopicState
        asked = state(name=None, topic_id=known) if by_id and known is not None else state(name=name)
        request = DeleteTopicsRequest(topics=(asked,))
        self._ask("DeleteTopics", request, lambda *_: delete_topics(request, settings=self._settings_of_controllers))

    def _grow(self) -> None:
        name = self.random.choice(NAMES)
        known = self.model.topics.get(name)
        count = self.random.randrange(1, 6) if known is None else len(self.model.parts_of(known)) + 1
        if count > 6:
            return
        request = CreatePartitionsRequest(topics=(Grow(name, count, None),))
        call = Call(
            what="CreatePartitions",
            request=request,
            command=lambda _, placements: create_partitions(request, placements=placements),
            wanted=lambda state: wanted_more(state, request),
        )
        self.world.oracle.ask(call)

    # Replicas and leaders.

    def _any_part(self) -> tuple[str, int] | None:
        keys = sorted(self.model.parts)
        if not keys:
            return None
        topic_id, number = self.random.choice(keys)
        return self.model.names[topic_id], number

    def _move(self) -> None:
        found, ids = self._any_part(), sorted(self.model.members)
        if found is None or not ids:
            return
        name, number = found
        part = self.model.parts[self.model.topics[name], number]
        factor = len(part.replicas) if self.random.random() < 0.7 else self.random.randrange(1, 4)
        target = tuple(self.random.sample(ids, min(len(ids), factor)))
        self._ask_to_move(name, number, target)

    def _call_off(self) -> None:
        moving = sorted(key for key, part in self.model.parts.items() if part.adding or part.removing)
        if moving:
            topic_id, number = self.random.choice(moving)
            self._ask_to_move(self.model.names[topic_id], number, None)

    def _ask_to_move(self, name: str, number: int, target: tuple[int, ...] | None) -> None:
        request = AlterPartitionReassignmentsRequest(
            topics=(Move(name, (Move.ReassignablePartition(number, target),)),),
            allow_replication_factor_change=self.random.random() < 0.8,
        )
        self._ask(
            "AlterPartitionReassignments",
            request,
            lambda *_: alter_partition_reassignments(request, settings=self._settings_of_controllers),
        )

    def _elect(self, kind: int) -> None:
        found = self._any_part()
        if kind == UNCLEAN:
            led_by_nobody = sorted(key for key, part in self.model.parts.items() if part.leader == -1)
            if led_by_nobody:
                topic_id, number = self.random.choice(led_by_nobody)
                found = self.model.names[topic_id], number
        if found is None:
            return
        named = (ElectLeadersRequest.TopicPartitions(found[0], (found[1],)),)
        request = ElectLeadersRequest(
            election_type=kind, topic_partitions=None if kind == PREFERRED and self.random.random() < 0.5 else named
        )
        self._ask("ElectLeaders", request, lambda *_: elect_leaders(request, settings=self._settings_of_controllers))

    # Brokers, and all the rest.

    def _allocate(self) -> None:
        if self.model.members:
            id = self.random.choice(sorted(self.model.members))
            request = AllocateProducerIdsRequest(broker_id=id, broker_epoch=self.model.members[id].epoch)
            self._ask(
                "AllocateProducerIds", request, lambda *_: allocate_producer_ids(request), lane=QueueLimit.CLUSTER
            )

    def _strike_off(self) -> None:
        if len(self.model.members) <= 2:
            return
        request = UnregisterBrokerRequest(self.random.choice(sorted(self.model.members)))
        settings = self._settings_of_controllers
        limits = CHUNK_LIMITS[self.model.members[request.broker_id].epoch % len(CHUNK_LIMITS)]

        def chunks(controller: Controller) -> Iterator[Command[Any]]:
            yield from unregister_ahead(controller.engine.state, request, settings=settings, limits=limits)
            yield unregister_broker(request, settings=settings)

        self.world.oracle.ask(Call(what="UnregisterBroker", request=request, chunks=chunks))

    def _settings(self, make: Callable[[Admins], tuple[str, Any, Any] | None]) -> None:
        made = make(self)
        if made is not None:
            self._ask(*made)

    def _ask(
        self, what: str, request: Any, command: Any, *, read: bool = False, lane: QueueLimit = QueueLimit.ADMIN
    ) -> None:
        self.world.oracle.ask(Call(what=what, request=request, command=command, is_read=read, lane=lane))

    # Judging.

    def judge(self, ledger: Ledger) -> None:
        """I-41, I-42: no topic that nobody asked for, none that was refused; and an answer again is the answer."""
        for record in written(ledger, 0, ledger.end):
            if not isinstance(record, TopicRecord):
                continue
            call = self._owners.get(record.topic_id)
            require(call is not None, "I-42", "a topic that nobody asked for", record)
            assert call is not None
            require(call.outcome != REFUSED, "I-41", "a refused request is committed", call.what, call.error, record)
            names = {topic.name for topic in call.request.topics}
            require(record.name in names, "I-42", "a name that nobody asked for", record, names)
        for calls in self._families.values():
            self._judge_family(calls)

    def _judge_family(self, calls: list[Call]) -> None:
        """An answer that was not decided anew is the one that was decided before."""
        drafted = {draft for call in calls for draft in call.answers}
        for call in calls:
            if call.outcome == OK and call.base < 0:
                plain = told_of(call.response)
                require(plain in drafted, "I-42", "a repeated request is answered as the first", plain, drafted)
