"""Any requests to a controller, in any order: every record applies, and partitions stay what they may be."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kraft import Message
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.unregister_broker import UnregisterBrokerRequest
from quorate.controller.commands.unregister_broker import unregister_broker
from quorate.controller.partitions.broker_changes import rules_for
from quorate.controller.partitions.partition_change import PartitionTarget, partition_change
from quorate.controller.periodic import CHORES
from quorate.liveness import ControlState
from quorate.metadata.canonical import canonical
from quorate.metadata.partitions import NO_LEADER
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import TopicPartition
from tests.controller.clusters import Cluster, Config, Topic

BROKERS = st.integers(1, 4)


class AnySequence(RuleBasedStateMachine):
    """Brokers come and go, cleanly or not; topics are made; leaders change their ISRs; chores are done."""

    @initialize(elr=st.booleans())
    def begin(self, elr: bool) -> None:
        self.log: list[Message] = []
        self.elr = elr
        self.cluster = _Recorded(self.log, elr)
        self.cluster.brokers(1, 2)
        self.before: dict[tuple[bytes, int], Any] = {}

    @rule(broker_id=BROKERS, incarnation=st.integers(0, 2), clean=st.booleans())
    def register(self, broker_id: int, incarnation: int, clean: bool) -> None:
        known = self.cluster.state.brokers.get(broker_id)
        previous = known.epoch if known and clean else -1
        self.cluster.register(broker_id, incarnation=incarnation, previous_broker_epoch=previous)

    @rule(broker_id=BROKERS, state=st.sampled_from(ControlState))
    def change(self, broker_id: int, state: ControlState) -> None:
        if broker_id in self.cluster.state.brokers:
            self.cluster.change(broker_id, state)

    @rule(broker_id=BROKERS)
    def unregister(self, broker_id: int) -> None:
        if broker_id in self.cluster.state.brokers:
            request = UnregisterBrokerRequest(broker_id)
            self.cluster.write(unregister_broker(request, settings=self.cluster.settings))

    @rule(
        name=st.sampled_from(["a", "b", "a.b", "a_b"]),
        count=st.integers(1, 3),
        factor=st.integers(1, 4),
        min_isr=st.sampled_from(["1", "2"]),
        unclean=st.sampled_from(["false", "false", "true"]),
        seed=st.integers(0, 9),
    )
    def create(self, name: str, count: int, factor: int, min_isr: str, unclean: str, seed: int) -> None:
        configs = (Config("min.insync.replicas", min_isr), Config("unclean.leader.election.enable", unclean))
        request = CreateTopicsRequest(topics=(Topic(name, count, factor, (), configs),))
        self.cluster.write(self.cluster.creating(request, Random(seed)))

    @precondition(lambda self: len(self.cluster.state.topics))
    @rule(data=st.data())
    def alter_isr(self, data: st.DataObject) -> None:
        """As a leader would by AlterPartition: replicas that are active have caught up, others have fallen behind."""
        state = self.cluster.state
        found = data.draw(st.sampled_from(sorted(state.topics.all(), key=lambda f: (f.topic.name, f.partition_id))))
        partition = found.partition
        if partition.leader == NO_LEADER:
            return
        active = [broker for broker in partition.replicas if state.brokers.is_active(broker)]
        isr = {partition.leader, *data.draw(st.sets(st.sampled_from(active)))}
        wish = PartitionTarget(isr=tuple(broker for broker in partition.replicas if broker in isr), recovered=True)
        rules = rules_for(state, found.topic.name, partition, self.cluster.settings)
        change = partition_change(partition, found.topic.id, found.partition_id, wish, rules)
        self.cluster.apply([] if change is None else [change])

    @rule(chore=st.sampled_from(CHORES))
    def do_chore(self, chore: Any) -> None:
        if chore.is_due(self.cluster.state):
            self.cluster.write(chore.command(self.cluster.settings))

    @invariant()
    def partitions_are_what_they_may_be(self) -> None:
        for found in self.cluster.state.topics.all() if hasattr(self, "cluster") else ():
            self.check(found)

    @invariant()
    def epochs_rise_as_they_should(self) -> None:
        if not hasattr(self, "cluster"):
            return
        for topic, partition_id, partition in self.cluster.state.topics.all():
            before = self.before.get((topic.id, partition_id), partition)
            self.before[topic.id, partition_id] = partition

            assert partition.partition_epoch >= before.partition_epoch  # I-50
            assert partition.leader_epoch - before.leader_epoch <= partition.partition_epoch - before.partition_epoch
            assert partition.leader == before.leader or partition.leader_epoch > before.leader_epoch  # I-51

    def check(self, found: TopicPartition) -> None:
        topic, _, partition = found
        state, isr, elr = self.cluster.state, set(partition.isr), set(partition.elr)
        last_known = set(partition.last_known_elr)
        min_isr = min(self.cluster.settings.min_insync_replicas(state, topic.name), len(partition.replicas))

        assert isr | elr | last_known <= set(partition.replicas), partition  # I-46
        assert partition.leader in (NO_LEADER, *isr), partition  # I-47
        assert isr or (self.elr and partition.leader == NO_LEADER), partition  # I-47
        assert isr.isdisjoint(elr | last_known), partition  # I-48
        assert len(isr) < min_isr or not elr | last_known, partition  # I-49
        assert partition.leader == NO_LEADER or state.brokers.is_active(partition.leader), partition  # I-53
        if not (len(isr) == 1 and not self.elr):
            assert all(state.brokers.is_active(broker) for broker in isr), partition  # I-53

    def teardown(self) -> None:
        """The log alone gives the same state."""
        if hasattr(self, "cluster"):
            replayed = ClusterState()
            for offset, record in enumerate(self.log):
                replayed.apply(record, offset)

            assert canonical(replayed) == canonical(self.cluster.state)


class _Recorded(Cluster):
    """A cluster that keeps its log."""

    def __init__(self, log: list[Message], elr: bool) -> None:
        self.log = log
        super().__init__(25, elr=elr)

    def apply(self, records: Any) -> None:
        records = list(records)
        self.log += records
        super().apply(records)


TestAnySequence = AnySequence.TestCase
TestAnySequence.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
