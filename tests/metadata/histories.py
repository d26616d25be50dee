"""Metadata logs that could have been: each record fits the state that the records before it made.

`write(chance, count)` takes any `random.Random`: a seeded one for fixtures, Hypothesis' own for properties
(`histories`), so that both speak of the same logs.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

from kraft import Message, Uuid
from quorate.metadata.partitions import NO_LEADER
from quorate.metadata.state import ClusterState
from quorate.nouns import UNASSIGNED_DIRECTORY
from quorate.records import (
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
    with_trace,
)

NAMES = ("orders", "orders.eu", "orders_eu", "payments", "größe", "t")
BROKERS = range(1, 6)
LISTENERS = ("PLAINTEXT", "INTERNAL", "CONTROLLER", "TLS")
USERS = ("alice", "bob")

E = TypeVar("E")
Step = Callable[[Random, ClusterState], Message | None]


def histories(*, max_size: int = 60) -> st.SearchStrategy[list[Message]]:
    """Logs for properties, transactions and unknown records among them; none is open at the end."""

    def make(chance: Random, count: int) -> list[Message]:
        return write(chance, count, (*STEPS, begin, end, abort, unknown, zk_migration_state), traced=True)

    return st.builds(make, st.randoms(use_true_random=False), st.integers(0, max_size))


def write(chance: Random, count: int, steps: tuple[Step, ...] | None = None, *, traced: bool = False) -> list[Message]:
    """A log of `count` steps; a step that has nothing to act on writes nothing."""
    state = ClusterState()
    log: list[Message] = []
    for _ in range(count):
        record = chance.choice(steps or STEPS)(chance, state)
        if record is not None:
            if traced and not isinstance(record, UnknownRecord) and chance.random() < 0.1:
                record = with_trace(record, b"00-trace")
            state.apply(record, len(log))
            log.append(record)
    if state.transactions.open:
        log.append(EndTransactionRecord())
    return log


def uuid(chance: Random) -> Uuid:
    """An id that is not reserved."""
    return Uuid(b"\x01" + bytes(chance.randrange(256) for _ in range(3)) + bytes(11) + bytes([chance.randrange(256)]))


def feature_level(chance: Random, state: ClusterState) -> Message:
    level = state.features.metadata_version or 0
    if level == 0 or chance.random() < 0.3:
        return FeatureLevelRecord("metadata.version", max(level, chance.choice([7, 14, 17, 22, 25, 30, 33])))
    if level >= 23 and chance.random() < 0.5:
        return FeatureLevelRecord("eligible.leader.replicas.version", 1)
    return FeatureLevelRecord(
        chance.choice(["group.version", "transaction.version", "kraft.version"]), chance.randrange(2)
    )


def register_broker(chance: Random, state: ClusterState) -> Message:
    broker = chance.choice(BROKERS)
    mine = bytes([broker])
    return RegisterBrokerRecord(
        broker_id=broker,
        incarnation_id=uuid(chance),
        broker_epoch=chance.randrange(1000),
        end_points=_end_points(chance, RegisterBrokerRecord.BrokerEndpoint),
        features=tuple(
            RegisterBrokerRecord.BrokerFeature(name, 0, chance.randrange(3))
            for name in chance.sample(["metadata.version", "group.version", "kraft.version"], chance.randrange(4))
        ),
        rack=chance.choice([None, "", "rack-a"]),
        fenced=chance.random() < 0.5,
        in_controlled_shutdown=chance.random() < 0.2,
        log_dirs=_directories(chance, mine),
        cordoned_log_dirs=chance.choice([None, (), _directories(chance, mine)]),
    )


def _directories(chance: Random, mine: bytes) -> tuple[Uuid, ...]:
    return tuple(Uuid(bytes([first]) + mine * 15) for first in chance.sample([1, 127, 128, 255], chance.randrange(4)))


def _end_points(chance: Random, kind: Callable[[str, str, int, int], E]) -> tuple[E, ...]:
    names = chance.sample(LISTENERS, chance.randrange(1, 4))
    return tuple(kind(name, chance.choice(["localhost", "10.0.0.1"]), chance.randrange(1 << 16), 0) for name in names)


def _a_broker(chance: Random, state: ClusterState) -> tuple[int, int] | None:
    brokers = list(state.brokers)
    broker = chance.choice(brokers) if brokers else None
    return (broker.id, broker.epoch) if broker else None


def unregister_broker(chance: Random, state: ClusterState) -> Message | None:
    broker = _a_broker(chance, state)
    return UnregisterBrokerRecord(*broker) if broker else None


def fence_broker(chance: Random, state: ClusterState) -> Message | None:
    broker = _a_broker(chance, state)
    return FenceBrokerRecord(*broker) if broker else None


def unfence_broker(chance: Random, state: ClusterState) -> Message | None:
    broker = _a_broker(chance, state)
    return UnfenceBrokerRecord(*broker) if broker else None


def change_registration(chance: Random, state: ClusterState) -> Message | None:
    broker = _a_broker(chance, state)
    if broker is None:
        return None
    mine = bytes([broker[0]])
    return BrokerRegistrationChangeRecord(
        *broker,
        fenced=chance.choice([-1, 0, 1]),
        in_controlled_shutdown=chance.randrange(2),
        log_dirs=_directories(chance, mine),
        cordoned_log_dirs=chance.choice([None, (), _directories(chance, mine)]),
    )


def register_controller(chance: Random, state: ClusterState) -> Message:
    return RegisterControllerRecord(
        controller_id=chance.randrange(3000, 3003),
        incarnation_id=uuid(chance),
        end_points=_end_points(chance, RegisterControllerRecord.ControllerEndpoint),
        features=(RegisterControllerRecord.ControllerFeature("metadata.version", 7, 33),),
    )


def unregister_controller(chance: Random, state: ClusterState) -> Message | None:
    ids = [controller.controller_id for controller in state.controllers]
    return UnregisterControllerRecord(chance.choice(ids)) if ids else None


def create_topic(chance: Random, state: ClusterState) -> Message | None:
    free = [name for name in NAMES if state.topics.by_name(name) is None]
    topic_id = uuid(chance)
    return TopicRecord(chance.choice(free), topic_id) if free and state.topics.by_id(topic_id) is None else None


def _a_topic(chance: Random, state: ClusterState) -> tuple[Uuid, list[int]] | None:
    names = [name for name in NAMES if state.topics.by_name(name)]
    topic = state.topics.by_name(chance.choice(names)) if names else None
    return (topic.id, list(topic.partitions)) if topic else None


def remove_topic(chance: Random, state: ClusterState) -> Message | None:
    topic = _a_topic(chance, state)
    return RemoveTopicRecord(topic[0]) if topic else None


def lay_down_partition(chance: Random, state: ClusterState) -> Message | None:
    topic = _a_topic(chance, state)
    if topic is None:
        return None
    replicas = _ids(chance, at_least=1)
    return PartitionRecord(
        partition_id=len(topic[1]) if chance.random() < 0.8 else chance.randrange(8),
        topic_id=topic[0],
        replicas=replicas,
        isr=replicas[: chance.randrange(len(replicas) + 1)],
        removing_replicas=chance.choice([(), _ids(chance)]),
        adding_replicas=chance.choice([(), _ids(chance)]),
        leader=chance.choice([NO_LEADER, replicas[0]]),
        leader_recovery_state=chance.randrange(2),
        leader_epoch=chance.randrange(1000),
        partition_epoch=chance.randrange(1000),
        directories=chance.choice([(), tuple(_directory(chance) for _ in replicas)]),
        eligible_leader_replicas=_elr(chance, state),
        last_known_elr=_elr(chance, state),
    )


def change_partition(chance: Random, state: ClusterState) -> Message | None:
    topic = _a_topic(chance, state)
    if topic is None or not topic[1]:
        return None
    replicas = chance.choice([None, _ids(chance, at_least=1)])
    partition_id = chance.choice(topic[1])
    partition = state.topics.partition(topic[0], partition_id)
    assert partition is not None
    count = len(partition.replicas if replicas is None else replicas)
    # Kafka does not look whether as many directories are left as replicas; its own change records see to it.
    placed = tuple(_directory(chance) for _ in range(count))
    return PartitionChangeRecord(
        partition_id=partition_id,
        topic_id=topic[0],
        isr=chance.choice([None, _ids(chance)]),
        leader=chance.choice([-2, NO_LEADER, *BROKERS]),
        replicas=replicas,
        removing_replicas=chance.choice([None, (), _ids(chance)]),
        adding_replicas=chance.choice([None, (), _ids(chance)]),
        leader_recovery_state=chance.choice([-1, 0, 1]),
        directories=placed if count != len(partition.directories) else chance.choice([None, (), placed]),
        eligible_leader_replicas=_elr(chance, state),
        last_known_elr=_elr(chance, state),
    )


def _directory(chance: Random) -> Uuid:
    return UNASSIGNED_DIRECTORY if chance.random() < 0.3 else Uuid(bytes([chance.randrange(1, 5)]) * 16)


def _ids(chance: Random, *, at_least: int = 0) -> tuple[int, ...]:
    return tuple(chance.sample(BROKERS, chance.randrange(at_least, 4)))


def _elr(chance: Random, state: ClusterState) -> tuple[int, ...] | None:
    return chance.choice([None, (), _ids(chance)]) if state.features.elr_enabled else None


def clear_elr(chance: Random, state: ClusterState) -> Message | None:
    names = ["", *(name for name in NAMES if state.topics.by_name(name))]
    return ClearElrRecord(chance.choice(names))


def set_config(chance: Random, state: ClusterState) -> Message:
    resource_type, name = chance.choice(
        [(2, "orders"), (2, "payments"), (4, ""), (4, "1"), (8, "1"), (16, "sub"), (32, "g")]
    )
    config = chance.choice(["retention.ms", "min.insync.replicas"])
    return ConfigRecord(resource_type, name, config, chance.choice([None, "", "1", "10"]))


def set_quota(chance: Random, state: ClusterState) -> Message:
    kinds = chance.choice([("user",), ("client-id",), ("user", "client-id"), ("ip",)])
    entity = tuple(ClientQuotaRecord.EntityData(kind, chance.choice([None, "a", "b"])) for kind in kinds)
    key = chance.choice(["producer_byte_rate", "request_percentage"])
    return ClientQuotaRecord(entity, key, chance.choice([0.5, 1e6]), chance.random() < 0.3)


def give_out_producer_ids(chance: Random, state: ClusterState) -> Message:
    return ProducerIdsRecord(chance.choice(BROKERS), 7, state.producer_ids.next_producer_id + chance.choice([1, 1000]))


def add_acl(chance: Random, state: ClusterState) -> Message:
    return AccessControlEntryRecord(
        uuid(chance), chance.randrange(2, 6), chance.choice(NAMES), chance.choice([3, 4]), "User:alice", "*", 3, 3
    )


def remove_acl(chance: Random, state: ClusterState) -> Message | None:
    ids = [entry.id for entry in state.acls]
    return RemoveAccessControlEntryRecord(chance.choice(ids)) if ids else None


def set_credential(chance: Random, state: ClusterState) -> Message:
    return UserScramCredentialRecord(
        chance.choice(USERS), chance.choice([1, 2]), b"salt", b"stored", bytes([chance.randrange(9)]), 4096
    )


def remove_credential(chance: Random, state: ClusterState) -> Message | None:
    keys = [(credential.name, credential.mechanism) for credential in state.scram]
    return RemoveUserScramCredentialRecord(*chance.choice(keys)) if keys else None


def set_token(chance: Random, state: ClusterState) -> Message:
    owner = f"User:{chance.choice(USERS)}"
    return DelegationTokenRecord(owner, owner, ("User:bob",), 1, 3, 2, chance.choice(["token-1", "token-2"]))


def remove_token(chance: Random, state: ClusterState) -> Message | None:
    ids = [token.token_id for token in state.delegation_tokens]
    return RemoveDelegationTokenRecord(chance.choice(ids)) if ids else None


def no_op(chance: Random, state: ClusterState) -> Message:
    return NoOpRecord()


def begin(chance: Random, state: ClusterState) -> Message | None:
    return None if state.transactions.open else BeginTransactionRecord("chore")


def end(chance: Random, state: ClusterState) -> Message | None:
    return EndTransactionRecord() if state.transactions.open else None


def abort(chance: Random, state: ClusterState) -> Message | None:
    return AbortTransactionRecord("failover") if state.transactions.open else None


def unknown(chance: Random, state: ClusterState) -> Message:
    return UnknownRecord(chance.choice([29 + 100, 3]), 99, b"\x01\x02")


def zk_migration_state(chance: Random, state: ClusterState) -> Message:
    return ZkMigrationStateRecord(chance.choice([0, 3]))


STEPS: tuple[Step, ...] = (
    feature_level,
    feature_level,
    register_broker,
    register_broker,
    change_registration,
    change_registration,
    unregister_broker,
    fence_broker,
    unfence_broker,
    register_controller,
    unregister_controller,
    *(create_topic,) * 3,
    *(lay_down_partition,) * 6,
    *(change_partition,) * 8,
    remove_topic,
    clear_elr,
    set_config,
    set_config,
    set_quota,
    set_quota,
    give_out_producer_ids,
    add_acl,
    remove_acl,
    set_credential,
    remove_credential,
    set_token,
    remove_token,
    no_op,
)
"""The steps that Kafka takes too."""
