"""What each record does to a state, and which records cannot follow: a table of both."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kraft import Message, Uuid
from quorate.metadata.canonical import canonical
from quorate.metadata.faults import ReplayFault, UnsupportedLevel
from quorate.metadata.partitions import Partition, default_directory
from quorate.metadata.replay import ROWS
from quorate.metadata.state import ClusterState
from quorate.nouns import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, uuid_text
from quorate.records import (
    RECORDS,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnknownRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)

A, B, C, D = (Uuid(bytes([200 + n]) * 16) for n in range(4))

BROKER_1 = RegisterBrokerRecord(broker_id=1, incarnation_id=A, broker_epoch=5, rack=None, log_dirs=(A,))
ORDERS = TopicRecord("orders", A)
ORDERS_0 = PartitionRecord(
    0, A, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=4, partition_epoch=9, directories=(A, B, C)
)
ELR_OF_0 = PartitionChangeRecord(0, A, isr=(1,), eligible_leader_replicas=(2,), last_known_elr=(3,))


def state_after(*records: Message) -> ClusterState:
    state = ClusterState()
    for offset, record in enumerate(records):
        state.apply(record, offset)
    return state


def orders_0(state: ClusterState) -> Partition:
    partition = state.topics.partition(A, 0)
    assert partition is not None
    return partition


def test_every_record_of_the_schema_has_exactly_one_row() -> None:
    protos = Path(__file__).parents[2] / "protos" / "kraft" / "metadata"
    named = {"".join(word.capitalize() for word in proto.stem.split("_")) for proto in protos.glob("*.proto")}
    rows = [row.record.__name__ for row in ROWS if row.record is not UnknownRecord]

    assert named == set(rows)
    assert len(named) == len(rows) == len(RECORDS)


SEES: list[tuple[str, list[Message], Message, Callable[[ClusterState], object], object]] = [
    # what is shown, before, record, what is looked at, after
    ("a level is set", [], FeatureLevelRecord("metadata.version", 25), lambda s: s.features.metadata_version, 25),
    ("level 0 is off", [FeatureLevelRecord("f", 2)], FeatureLevelRecord("f", 0), lambda s: s.features.finalized(), {}),
    (
        "kraft.version is the quorum's",
        [],
        FeatureLevelRecord("kraft.version", 1),
        lambda s: s.features.finalized(),
        {},
    ),
    ("zk is over", [], ZkMigrationStateRecord(3), lambda s: s.features.zk_migration_state, 3),
    ("nothing happens", [BROKER_1], NoOpRecord(), lambda s: canonical(s) == canonical(state_after(BROKER_1)), True),
    (
        "a broker comes fenced",
        [],
        BROKER_1,
        lambda s: [(b.id, b.fenced, b.is_active) for b in s.brokers],
        [(1, True, False)],
    ),
    ("it knows where it registered", [NoOpRecord()], BROKER_1, lambda s: s.brokers.get(1).registration_offset, 1),
    ("its directories are its own", [], BROKER_1, lambda s: s.brokers.owner_of(A), 1),
    (
        "a broker goes",
        [BROKER_1],
        UnregisterBrokerRecord(1, 5),
        lambda s: (len(s.brokers), s.brokers.owner_of(A)),
        (0, None),
    ),
    (
        "unfenced",
        [BROKER_1],
        BrokerRegistrationChangeRecord(1, 5, fenced=-1),
        lambda s: [b.id for b in s.brokers.active()],
        [1],
    ),
    ("unfenced, long ago", [BROKER_1], UnfenceBrokerRecord(1, 5), lambda s: s.brokers.is_active(1), True),
    (
        "fenced, long ago",
        [BROKER_1, UnfenceBrokerRecord(1, 5)],
        FenceBrokerRecord(1, 5),
        lambda s: s.brokers.is_active(1),
        False,
    ),
    (
        "on its way out it is not active",
        [BROKER_1, UnfenceBrokerRecord(1, 5)],
        BrokerRegistrationChangeRecord(1, 5, in_controlled_shutdown=1),
        lambda s: (s.brokers.get(1).fenced, s.brokers.get(1).in_controlled_shutdown, s.brokers.is_active(1)),
        (False, True, False),
    ),
    (
        "a lost directory is free again",
        [BROKER_1],
        BrokerRegistrationChangeRecord(1, 5, log_dirs=(B,)),
        lambda s: (s.brokers.get(1).log_dirs, s.brokers.owner_of(A), s.brokers.owner_of(B)),
        ((B,), None, 1),
    ),
    (
        "cordoned, and no longer",
        [BROKER_1, BrokerRegistrationChangeRecord(1, 5, cordoned_log_dirs=(A,))],
        BrokerRegistrationChangeRecord(1, 5, cordoned_log_dirs=()),
        lambda s: s.brokers.get(1).cordoned_log_dirs,
        (),
    ),
    (
        "a controller comes",
        [],
        RegisterControllerRecord(3000, A),
        lambda s: [c.controller_id for c in s.controllers],
        [3000],
    ),
    (
        "a controller goes",
        [RegisterControllerRecord(3000, A)],
        UnregisterControllerRecord(3000),
        lambda s: len(s.controllers),
        0,
    ),
    ("a topic comes", [], ORDERS, lambda s: (s.topics.by_name("orders").id, s.topics.by_id(A).name), (A, "orders")),
    (
        "alike",
        [TopicRecord("a.b", A)],
        TopicRecord("a_b", B),
        lambda s: (s.topics.alike("a.b"), s.topics.alike("ab")),
        (("a.b", "a_b"), ()),
    ),
    (
        "no longer alike",
        [TopicRecord("a.b", A), TopicRecord("a_b", B)],
        RemoveTopicRecord(A),
        lambda s: s.topics.alike("a.b"),
        ("a_b",),
    ),
    (
        "a partition comes",
        [ORDERS],
        ORDERS_0,
        lambda s: (orders_0(s).directory_of(2), s.topics.leader_count(1), s.topics.isr_count(3)),
        (B, 1, 1),
    ),
    (
        "laid down again",
        [ORDERS, ORDERS_0],
        PartitionRecord(0, A, (4,), (4,), leader=4, leader_epoch=0, partition_epoch=0),
        lambda s: (orders_0(s).replicas, s.topics.leader_count(1), s.topics.leader_count(4), s.topics.partition_count),
        ((4,), 0, 1, 1),
    ),
    (
        "without directories it is migrating",
        [ORDERS],
        PartitionRecord(0, A, (1, 2), (1,)),
        lambda s: orders_0(s).directories,
        (MIGRATING_DIRECTORY,) * 2,
    ),
    (
        "a topic goes with all that was its",
        [ORDERS, ORDERS_0, ConfigRecord(2, "orders", "retention.ms", "1")],
        RemoveTopicRecord(A),
        lambda s: (len(s.topics), s.topics.by_name("orders"), s.topics.leader_count(1), len(s.configs)),
        (0, None, 0, 0),
    ),
    (
        "a shrinking ISR keeps the leader epoch",
        [ORDERS, ORDERS_0],
        PartitionChangeRecord(0, A, isr=(1, 2)),
        lambda s: (orders_0(s).isr, orders_0(s).leader, orders_0(s).leader_epoch, orders_0(s).partition_epoch),
        ((1, 2), 1, 4, 10),
    ),
    (
        "a leader raises it, even the same one",
        [ORDERS, ORDERS_0],
        PartitionChangeRecord(0, A, leader=1),
        lambda s: (orders_0(s).leader, orders_0(s).leader_epoch, orders_0(s).partition_epoch),
        (1, 5, 10),
    ),
    (
        "and so does none",
        [ORDERS, ORDERS_0],
        PartitionChangeRecord(0, A, leader=-1),
        lambda s: (orders_0(s).has_leader, orders_0(s).leader_epoch, s.topics.leader_count(-1)),
        (False, 5, 1),
    ),
    (
        "an empty list is not null",
        [ORDERS, ORDERS_0, PartitionChangeRecord(0, A, adding_replicas=(4,), removing_replicas=(3,))],
        PartitionChangeRecord(0, A, adding_replicas=()),
        lambda s: (orders_0(s).adding_replicas, orders_0(s).removing_replicas, orders_0(s).is_reassigning),
        ((), (3,), True),
    ),
    (
        "reassignment is over",
        [ORDERS, ORDERS_0, PartitionChangeRecord(0, A, adding_replicas=(4,))],
        PartitionChangeRecord(0, A, adding_replicas=(), replicas=(1, 2, 4), directories=(A, B, D)),
        lambda s: (list(s.topics.reassigning()), orders_0(s).directory_of(4)),
        ([], D),
    ),
    (
        "unclean, and recovered",
        [ORDERS, ORDERS_0, PartitionChangeRecord(0, A, leader_recovery_state=1)],
        PartitionChangeRecord(0, A, leader_recovery_state=0),
        lambda s: orders_0(s).leader_recovery_state,
        0,
    ),
    (
        "more replicas still migrating",
        [ORDERS, PartitionRecord(0, A, (1, 2), (1,))],
        PartitionChangeRecord(0, A, replicas=(1, 2, 3)),
        lambda s: orders_0(s).directories,
        (MIGRATING_DIRECTORY,) * 3,
    ),
    (
        "eligible",
        [ORDERS, ORDERS_0],
        ELR_OF_0,
        lambda s: (orders_0(s).elr, orders_0(s).last_known_elr, s.topics.elr_count(2)),
        ((2,), (3,), 1),
    ),
    (
        "no longer eligible is a change",
        [ORDERS, ORDERS_0, ELR_OF_0],
        ClearElrRecord("orders"),
        lambda s: (orders_0(s).elr, orders_0(s).last_known_elr, orders_0(s).partition_epoch, s.topics.elr_count(2)),
        ((), (), 11, 0),
    ),
    ("of all topics", [ORDERS, ORDERS_0, ELR_OF_0], ClearElrRecord(""), lambda s: orders_0(s).elr, ()),
    (
        "nothing to clear is no change",
        [ORDERS, ORDERS_0],
        ClearElrRecord(""),
        lambda s: orders_0(s).partition_epoch,
        9,
    ),
    ("a config is set", [], ConfigRecord(4, "", "a", ""), lambda s: s.configs.get(4, "", "a"), ""),
    ("null deletes", [ConfigRecord(2, "t", "a", "1")], ConfigRecord(2, "t", "a", None), lambda s: list(s.configs), []),
    ("what is not set can be deleted", [], ConfigRecord(2, "t", "a", None), lambda s: list(s.configs), []),
    (
        "a quota is set",
        [],
        ClientQuotaRecord((ClientQuotaRecord.EntityData("user", None),), "rate", 2.5),
        lambda s: dict(s.client_quotas.of((("user", None),))),
        {"rate": 2.5},
    ),
    (
        "an entity is what it consists of, in any order",
        [
            ClientQuotaRecord(
                (ClientQuotaRecord.EntityData("user", "u"), ClientQuotaRecord.EntityData("client-id", "c")), "rate", 1.0
            )
        ],
        ClientQuotaRecord(
            (ClientQuotaRecord.EntityData("client-id", "c"), ClientQuotaRecord.EntityData("user", "u")),
            "rate",
            remove=True,
        ),
        lambda s: len(s.client_quotas),
        0,
    ),
    ("ids are given out", [], ProducerIdsRecord(1, 5, 1000), lambda s: s.producer_ids.next_producer_id, 1000),
    ("an entry comes", [], AccessControlEntryRecord(A), lambda s: s.acls.get(A) is not None, True),
    ("an entry goes", [AccessControlEntryRecord(A)], RemoveAccessControlEntryRecord(A), lambda s: len(s.acls), 0),
    (
        "a credential comes",
        [],
        UserScramCredentialRecord("u", 1, b"s", b"k", b"v", 4096),
        lambda s: s.scram.get(1, "u").iterations,
        4096,
    ),
    (
        "a credential goes",
        [UserScramCredentialRecord("u", 1)],
        RemoveUserScramCredentialRecord("u", 1),
        lambda s: len(s.scram),
        0,
    ),
    (
        "a token comes",
        [],
        DelegationTokenRecord(owner="User:u", token_id="t"),
        lambda s: s.delegation_tokens.get("t").owner,
        "User:u",
    ),
    (
        "a token goes",
        [DelegationTokenRecord(token_id="t")],
        RemoveDelegationTokenRecord("t"),
        lambda s: len(s.delegation_tokens),
        0,
    ),
    (
        "nobody knows the token",
        [],
        RemoveDelegationTokenRecord("t"),
        lambda s: len(s.delegation_tokens),
        0,
    ),
    ("begun", [NoOpRecord()], BeginTransactionRecord("b"), lambda s: s.transactions.open, (1, "b")),
    (
        "ended",
        [BeginTransactionRecord(), BROKER_1],
        EndTransactionRecord(),
        lambda s: (s.transactions.open, len(s.brokers)),
        (None, 1),
    ),
    (
        "aborted",
        [BeginTransactionRecord(), BROKER_1],
        AbortTransactionRecord(),
        lambda s: (s.transactions.open, len(s.brokers)),
        (None, 0),
    ),
    ("unknown is kept", [], UnknownRecord(99, 7, b"x"), lambda s: list(s.unknown), [UnknownRecord(99, 7, b"x")]),
]


@pytest.mark.parametrize(("before", "record", "look", "after"), [case[1:] for case in SEES], ids=[c[0] for c in SEES])
def test_a_record_does(
    before: list[Message], record: Message, look: Callable[[ClusterState], object], after: object
) -> None:
    assert after == look(state_after(*before, record))


def test_every_row_is_in_the_table() -> None:
    assert {row.record for row in ROWS} == {type(case[2]) for case in SEES}


FAULTS: list[tuple[str, list[Message], Message]] = [
    # what the reason says, before, the record that cannot follow
    (f"topic 'orders' exists with id {uuid_text(A)}", [ORDERS], TopicRecord("orders", B)),
    ("belongs to topic 'orders'", [ORDERS], TopicRecord("payments", A)),
    (f"there is no topic with id {uuid_text(A)}", [], ORDERS_0),
    (f"there is no topic with id {uuid_text(A)}", [], PartitionChangeRecord(0, A)),
    ("topic 'orders' has no partition 7", [ORDERS, ORDERS_0], PartitionChangeRecord(7, A)),
    ("topic 'orders' has no partition -1", [ORDERS, ORDERS_0], PartitionChangeRecord(-1, A)),
    ("there is no topic with id", [], RemoveTopicRecord(A)),
    ("there is no topic 'orders'", [], ClearElrRecord("orders")),
    ("partition -1 of a topic", [ORDERS], PartitionRecord(-1, A)),
    ("partition 2147483647 of a topic", [ORDERS], PartitionRecord((1 << 31) - 1, A)),
    ("has 1 replicas and 2 directories", [ORDERS], PartitionRecord(0, A, (1,), directories=(A, B))),
    (
        "has 2 replicas and 1 directories",
        [ORDERS, ORDERS_0],
        PartitionChangeRecord(0, A, replicas=(1, 2), directories=(A,)),
    ),
    ("leader recovery state 2", [ORDERS], PartitionRecord(0, A, leader_recovery_state=2)),
    ("leader recovery state 2", [ORDERS, ORDERS_0], PartitionChangeRecord(0, A, leader_recovery_state=2)),
    ("belongs to broker 1", [BROKER_1], RegisterBrokerRecord(broker_id=2, log_dirs=(A,))),
    (
        "belongs to broker 1",
        [BROKER_1, RegisterBrokerRecord(broker_id=2, broker_epoch=6)],
        BrokerRegistrationChangeRecord(2, 6, log_dirs=(A,)),
    ),
    (
        "without a name",
        [],
        RegisterBrokerRecord(broker_id=1, end_points=(RegisterBrokerRecord.BrokerEndpoint("", "h", 1, 0),)),
    ),
    ("broker 1 is not registered", [], UnregisterBrokerRecord(1, 5)),
    ("in epoch 5, not in epoch 6", [BROKER_1], UnregisterBrokerRecord(1, 6)),
    ("broker 2 is not registered", [BROKER_1], BrokerRegistrationChangeRecord(2, 5)),
    ("in epoch 5, not in epoch 4", [BROKER_1], BrokerRegistrationChangeRecord(1, 4)),
    ("in epoch 5, not in epoch 4", [BROKER_1], FenceBrokerRecord(1, 4)),
    ("in epoch 5, not in epoch 4", [BROKER_1], UnfenceBrokerRecord(1, 4)),
    ("fenced=2", [BROKER_1], BrokerRegistrationChangeRecord(1, 5, fenced=2)),
    ("inControlledShutdown=-1", [BROKER_1], BrokerRegistrationChangeRecord(1, 5, in_controlled_shutdown=-1)),
    ("controller 3000 is not registered", [], UnregisterControllerRecord(3000)),
    ("broker 'one'", [], ConfigRecord(4, "one", "a", "1")),
    ("must lie above 1000", [ProducerIdsRecord(1, 5, 1000)], ProducerIdsRecord(1, 5, 1000)),
    ("must lie above 1000", [ProducerIdsRecord(1, 5, 1000)], ProducerIdsRecord(1, 5, 999)),
    (f"no access control entry with id {uuid_text(A)}", [], RemoveAccessControlEntryRecord(A)),
    ("user 'u' has no credential for SCRAM-SHA-512", [], RemoveUserScramCredentialRecord("u", 2)),
    ("open since offset 0", [BeginTransactionRecord()], BeginTransactionRecord()),
    ("no transaction is open that could end", [], EndTransactionRecord()),
    ("no transaction is open that could be aborted", [], AbortTransactionRecord()),
]


@pytest.mark.parametrize(("reason", "before", "record"), FAULTS)
def test_a_record_cannot_follow_and_changes_nothing(reason: str, before: list[Message], record: Message) -> None:
    state = state_after(*before)

    with pytest.raises(ReplayFault, match=reason) as caught:
        state.apply(record, 77)

    assert (record, 77) == (caught.value.record, caught.value.offset)
    assert str(caught.value).startswith(f"{type(record).__name__} at offset 77: ")
    assert canonical(state_after(*before)) == canonical(state)


@pytest.mark.parametrize("record", [BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()])
def test_a_checkpoint_holds_no_part_of_a_transaction(record: Message) -> None:
    with pytest.raises(ReplayFault, match="no part of a transaction"):
        ClusterState().load([record], 10)


def test_a_level_that_is_not_supported_is_a_fault_to_a_controller_and_news_to_a_reader() -> None:
    """It says which releases these are, and what to do."""
    known = "known here are 7 to 33 (3.3-IV3 to 4.4-IV2)"
    advice = "a Kafka release that knows both, 3.3 to 3.9 (kafka-features.sh upgrade --metadata 3.9)"
    for level, said in ((34, f"at level 34; {known}"), (4, f"at level 4 (3.3-IV0); {known}"), (1, advice)):
        record = FeatureLevelRecord("metadata.version", level)

        with pytest.raises(UnsupportedLevel, match=re.escape(said)):
            ClusterState(supported_features={"metadata.version": (7, 33)}).apply(record, 0)
        assert state_after(record).features.metadata_version == level


def test_the_past_takes_no_records() -> None:
    state = state_after(ORDERS)
    state.registry.create(1)

    with pytest.raises(AssertionError, match="past state"):
        state.at(1).apply(ORDERS_0, 1)


def test_loading_forgets_what_was() -> None:
    state = state_after(BROKER_1, ORDERS, ORDERS_0, BeginTransactionRecord())
    state.load([TopicRecord("payments", B)], 20)

    assert [topic.name for topic in state.topics] == ["payments"]
    assert (len(state.brokers), state.topics.isr_count(1), state.transactions.open) == (0, 0, None)


def test_settling_keeps_the_start_of_an_open_transaction() -> None:
    state = state_after(ORDERS)
    state.registry.create(1)
    state.apply(BeginTransactionRecord(), 2)
    state.settle()
    assert state.registry.offsets == (2,)

    state.apply(EndTransactionRecord(), 3)
    state.settle()
    assert state.registry.offsets == ()


def test_a_topic_that_went_comes_back_whole_with_the_snapshot() -> None:
    state = state_after(ORDERS, ORDERS_0, PartitionRecord(1, A, (4,), (4,), leader=4))
    before = canonical(state)
    state.registry.create(3)
    changes = [PartitionChangeRecord(1, A, leader=-1), RemoveTopicRecord(A), TopicRecord("orders", A)]
    for offset, record in enumerate([*changes, PartitionRecord(0, A, (9,), (9,), leader=9)], 3):
        state.apply(record, offset)
    assert (state.topics.leader_count(9), state.topics.leader_count(4)) == (1, 0)

    state.registry.revert_to(3)

    assert before == canonical(state)
    assert [state.topics.leader_count(broker) for broker in (9, 4, 1)] == [0, 1, 1]


def test_a_topic_with_far_numbers_comes_back_too() -> None:
    far = 1 << 20
    state = state_after(ORDERS, ORDERS_0, PartitionRecord(far, A, (4,), (4,), leader=4))
    state.registry.create(3)
    state.apply(PartitionChangeRecord(far, A, leader=-1), 3)
    state.apply(RemoveTopicRecord(A), 4)

    state.registry.revert_to(3)

    orders = state.topics.by_id(A)
    assert orders is not None
    assert [0, far] == list(orders.partitions)
    assert len(orders.partitions) == 2


def test_a_new_replica_lies_in_the_only_directory_there_is() -> None:
    assert default_directory(()) == MIGRATING_DIRECTORY
    assert default_directory((LOST_DIRECTORY,)) == LOST_DIRECTORY
    assert default_directory((A, B)) == UNASSIGNED_DIRECTORY
