"""M23 … M29, C1 … C8 and C20 (tests/sim_controller/README.md): what is right in a wrong form, while a patch holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec

from quorate.controller.commands import (
    alter_partition,
    alter_partition_reassignments,
    change_broker_state,
    register_broker,
    unregister_broker,
)
from quorate.controller.engine.engine import Engine
from quorate.controller.engine.steps import finished
from quorate.controller.partitions import broker_changes, partition_change
from quorate.metadata import topics
from quorate.metadata.partitions import Partition, merged
from quorate.nouns import NodeId, Offset
from quorate.records import PartitionChangeRecord
from tests.seeds.planting import Mutant, Patch
from tests.sim.faults import MEMBERSHIP
from tests.sim_controller.tracker import Tracker


def _m23(patch: Patch) -> None:
    """The order of a set of ids, which are bytes, hangs on PYTHONHASHSEED."""
    right = broker_changes.leaving

    def leaving(*arguments: Any) -> Iterator[PartitionChangeRecord]:
        changes = {(change.topic_id, change.partition_id): change for change in right(*arguments)}
        for topic_id in {topic_id for topic_id, _ in changes}:
            yield from (change for key, change in changes.items() if key[0] == topic_id)

    for module in (register_broker, change_broker_state, unregister_broker):
        patch.setattr(module, "leaving", leaving)


def _m24(patch: Patch) -> None:
    patch.setattr(Tracker, "now_ms", property(lambda tracker: tracker.wall_ms))


def _m25(patch: Patch) -> None:
    def is_eligible(state: Any, member: NodeId, epoch: int) -> bool:
        return state.brokers.get(member) is not None

    patch.setattr(alter_partition, "_is_eligible", is_eligible)


def _m25_epoch(patch: Patch) -> None:
    def is_eligible(state: Any, member: NodeId, epoch: int) -> bool:
        broker = state.brokers.get(member)
        return broker is not None and bool(broker.is_active)

    patch.setattr(alter_partition, "_is_eligible", is_eligible)


def _m26(patch: Patch) -> None:
    right = partition_change._choose_eligible

    def choose(partition: Partition, coming: Any, wish: Any, rules: Any) -> None:
        right(partition, coming, wish, rules)
        if rules.elr_enabled and len(coming.isr) >= rules.min_isr:
            gone = set(coming.isr) | wish.unclean_shutdown
            coming.elr = tuple(id for id in partition.elr if id in coming.replicas and id not in gone)

    patch.setattr(partition_change, "_choose_eligible", choose)


def _leaving(state: Any, broker_id: NodeId, settings: Any, among: Any = None) -> Iterator[PartitionChangeRecord]:
    """What is done to a broker that stopped in order, among partitions that may have it in their ELR only."""
    if among is not None:
        among = [found for found in among if broker_id in found.partition.isr]
    return broker_changes.leaving(state, broker_id, settings, among)


def _m27(patch: Patch) -> None:
    patch.setattr(register_broker, "unclean_stop", _leaving)


def _m28(patch: Patch) -> None:
    def check(partition: Partition, leader: NodeId, asked: Any) -> None:
        present = partition.partition_epoch
        right(partition, leader, _with_partition_epoch(asked, present))

    right = alter_partition._check_epochs
    patch.setattr(alter_partition, "_check_epochs", check)


def _with_partition_epoch(asked: Any, epoch: int) -> Any:
    fields = {name: getattr(asked, name) for name in asked.__struct_fields__}
    return type(asked)(**{**fields, "partition_epoch": epoch})


def _m29(patch: Patch) -> None:
    def without_epoch(partition: Partition, change: PartitionChangeRecord) -> Partition:
        after = merged(partition, change)
        fields = {name: getattr(after, name) for name in after.__struct_fields__}
        return Partition(**{**fields, "leader_epoch": partition.leader_epoch})

    patch.setattr(topics, "merged", without_epoch)


def _m29_record(patch: Patch) -> None:
    right = partition_change._raises_epoch

    def raises(partition: Partition, coming: Any, rules: Any) -> bool:
        return right(partition, coming, rules) and set(partition.replicas) <= set(coming.replicas)

    patch.setattr(partition_change, "_raises_epoch", raises)


# What this simulator has found, put back.


def _c1(patch: Patch) -> None:
    patch.setattr(Engine, "_go_before_control_records", lambda engine: None)


def _c2(patch: Patch) -> None:
    def hold(engine: Engine) -> Offset | None:
        offset, registry = engine.first_uncommitted(), engine.state.registry
        if not offset:
            return None
        if offset not in registry:
            registry.create(offset)
        if engine.state.at(offset).transactions.open is not None:
            return None
        registry.hold(offset)
        return offset

    patch.setattr(Engine, "hold_stable", hold)


def _c3(patch: Patch) -> None:
    right = Engine.decide_again

    def wanted(engine: Engine, offset: Offset) -> bool:
        again = [waiting for waiting in engine._pending if waiting.end_offset > engine.appended]
        if not right(engine, offset):
            engine._pending = deque(waiting for waiting in engine._pending if waiting.end_offset <= engine.appended)
            engine._appends.clear()
            engine.next_offset = engine.appended = offset
            for each in again:
                finished(engine._run(each.asked))
        return True

    patch.setattr(Engine, "decide_again", wanted)


def _c4(patch: Patch) -> None:
    right = broker_changes.unclean_stop

    def unclean_stop(
        state: Any, broker_id: NodeId, settings: Any, among: Any = None
    ) -> Iterator[PartitionChangeRecord]:
        how = right if state.features.elr_enabled else _leaving
        yield from how(state, broker_id, settings, among)

    patch.setattr(register_broker, "unclean_stop", unclean_stop)


def _c5(patch: Patch) -> None:
    right = alter_partition_reassignments._back

    def back(*arguments: Any) -> Any:
        wish = right(*arguments)
        return wish if wish.isr else msgspec.structs.replace(wish, isr=(wish.replicas or ())[:1])

    patch.setattr(alter_partition_reassignments, "_back", back)


def _c6(patch: Patch) -> None:
    patch.setattr(change_broker_state, "losing", lambda *_: iter(()))


def _c7(patch: Patch) -> None:
    right = partition_change._remember_leader

    def remember(partition: Partition, coming: Any, rules: Any) -> None:
        right(partition, coming, rules)
        if not rules.elr_enabled:
            coming.last_known_elr = ()

    patch.setattr(partition_change, "_remember_leader", remember)


def _c8(patch: Patch) -> None:
    right = partition_change._remember_leader

    def remember(partition: Partition, coming: Any, rules: Any) -> None:
        known = coming.last_known_elr
        right(partition, coming, rules)
        if rules.elr_enabled and coming.leader != partition_change.NO_LEADER:
            coming.last_known_elr = known

    patch.setattr(partition_change, "_remember_leader", remember)


def _c20(patch: Patch) -> None:
    right = Engine._go_back_to

    def go_back_to(engine: Engine, offset: Offset) -> None:
        if engine._partial is None:
            right(engine, offset)
            return
        engine._partial = None
        engine.next_offset = offset
        while engine._in_flight and engine._in_flight[-1].base_offset >= offset:
            engine._in_flight.pop()

    patch.setattr(Engine, "_go_back_to", go_back_to)


MUTANTS = (
    Mutant("M23", "the order of a set reaches the records", _m23, needs_two=True),
    Mutant("M24", "sessions are kept by the wall clock", _m24),
    Mutant("M25", "a broker joins an ISR, fenced or not, by whatever broker epoch", _m25),
    Mutant("M25e", "a broker joins an ISR by a stale broker epoch", _m25_epoch),
    Mutant("M26", "an ISR that suffices does not end the ELR", _m26),
    Mutant("M27", "who stopped uncleanly stays in the ELR", _m27),
    Mutant("M28", "AlterPartition is taken at any partition epoch", _m28),
    Mutant("M29", "a new leader begins no new leader epoch", _m29),
    Mutant("M29r", "a replica's end begins no new leader epoch", _m29_record),
    Mutant("C1", "a deposed controller stands behind control records that were not committed", _c1),
    Mutant("C2", "a checkpoint holds an Abort that is not committed", _c2),
    Mutant("C3", "an Abort is decided again on an empty state", _c3, profile=MEMBERSHIP),
    Mutant("C4", "an unclean stop leaves an ELR of before as it is", _c4),
    Mutant("C5", "a move called off has its first replica lead as if it lacked nothing", _c5),
    Mutant("C7", "the last known leader is forgotten while the ELR is off", _c7),
    Mutant("C8", "the last known leader stays remembered when another is elected", _c8),
    Mutant("C20", "half a batch stays applied whose second record cannot be", _c20),
    Mutant("C6", "what lies in a directory that has failed stays with its leader", _c6),
)
