"""Topics are created, grown and deleted, and whatever may be wrong about it."""

from __future__ import annotations

from typing import Final

from kraft.api.create_partitions import CreatePartitionsRequest
from kraft.api.delete_topics import DeleteTopicsRequest
from kraft.errors import ErrorCode as E
from tests.interop.operations.names import UNKNOWN_TOPIC_ID
from tests.interop.operations.script.ask import (
    TIMEOUT_MS,
    Topic,
    ask,
    create,
    delete,
    delete_by_id,
    grow,
    laid_out,
    topic,
)
from tests.interop.operations.step import Step, View

Deleted = DeleteTopicsRequest.DeleteTopicState
Grown = CreatePartitionsRequest.CreatePartitionsTopic
LONGEST: Final = "a" * 249


def deletion(*states: Deleted) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS)


def name_and_id(view: View) -> DeleteTopicsRequest:
    return deletion(Deleted(name="orders", topic_id=view.topic_id("orders")))


def one_by_both(view: View) -> DeleteTopicsRequest:
    return deletion(Deleted(name="orders"), Deleted(topic_id=view.topic_id("orders")))


CREATED: Final[tuple[Step, ...]] = (
    create("a topic on three", laid_out("orders", (101, 102, 103), (102, 103, 101))),
    create("the same topic again", laid_out("orders", (101, 102, 103)), errors=[E.TOPIC_ALREADY_EXISTS]),
    create("no topics", errors=[]),
    create("a space in the name", laid_out("or ders", (101,)), errors=[E.INVALID_TOPIC_EXCEPTION]),
    create("a slash in the name", laid_out("or/ders", (101,)), errors=[E.INVALID_TOPIC_EXCEPTION]),
    create("beyond ASCII", laid_out("örders", (101,)), errors=[E.INVALID_TOPIC_EXCEPTION]),
    create("no name", laid_out("", (101,)), errors=[E.INVALID_TOPIC_EXCEPTION]),
    create("one dot", laid_out(".", (101,)), errors=[E.INVALID_TOPIC_EXCEPTION]),
    create("two dots", laid_out("..", (101,)), errors=[E.INVALID_TOPIC_EXCEPTION]),
    create("three dots", laid_out("...", (101,))),
    create("a name too long", laid_out(LONGEST + "a", (101,)), errors=[E.INVALID_TOPIC_EXCEPTION]),
    create("a name as long as may be", laid_out(LONGEST, (101,))),
    create("a dot in the name", laid_out("a.b", (101,))),
    create("a name that collides with it", laid_out("a_b", (101,)), errors=[E.INVALID_TOPIC_EXCEPTION]),
    create("two that collide in one request", laid_out("c.d", (101,)), laid_out("c_d", (101,))),
    create("the log of the metadata", laid_out("__cluster_metadata", (101,)), errors=[E.INVALID_REQUEST]),
    create("an internal topic", laid_out("__consumer_offsets", (101, 102))),
    create("replication factor 0", topic("rf", factor=0), errors=[E.INVALID_REPLICATION_FACTOR]),
    create("replication factor -2", topic("rf", factor=-2), errors=[E.INVALID_REPLICATION_FACTOR]),
    create("more replicas than brokers", topic("rf", factor=5), errors=[E.INVALID_REPLICATION_FACTOR]),
    create("the largest replication factor", topic("rf", factor=32767), errors=[E.INVALID_REPLICATION_FACTOR]),
    create("0 partitions", topic("none", partitions=0), errors=[E.INVALID_PARTITIONS]),
    create("-2 partitions", topic("none", partitions=-2), errors=[E.INVALID_PARTITIONS]),
    create("too many partitions", topic("many", partitions=10_001), errors=[E.POLICY_VIOLATION]),
    create("more records than may be", topic("many", partitions=10_000), errors=[E.POLICY_VIOLATION]),
    create("as many records as may be", topic("many", partitions=9_999), validate_only=True),
    create("the defaults of both", topic("placed", partitions=-1, factor=-1)),
    create("placed by the controller", topic("placed-2", partitions=3, factor=3)),
    create("a topic twice", laid_out("twice", (101,)), laid_out("twice", (102,)), errors=[E.INVALID_REQUEST]),
    create(
        "good and bad ones",
        laid_out("good", (104, 101)),
        laid_out("b@d", (101,)),
        topic("worse", factor=0),
        errors=[E.INVALID_TOPIC_EXCEPTION, E.INVALID_REPLICATION_FACTOR],
    ),
    create("a replica twice", laid_out("bad", (101, 101)), errors=[E.INVALID_REPLICA_ASSIGNMENT]),
    create("a broker unknown", laid_out("bad", (101, 999)), errors=[E.INVALID_REPLICA_ASSIGNMENT]),
    create("a negative broker", laid_out("bad", (101, -1)), errors=[E.INVALID_REPLICA_ASSIGNMENT]),
    create("no replicas", laid_out("bad", ()), errors=[E.INVALID_REPLICA_ASSIGNMENT]),
    create("lists of two lengths", laid_out("bad", (101, 102), (101,)), errors=[E.INVALID_REPLICA_ASSIGNMENT]),
    create(
        "a gap in the numbers",
        Topic(
            name="bad",
            num_partitions=-1,
            replication_factor=-1,
            assignments=(Topic.CreatableReplicaAssignment(0, (101,)), Topic.CreatableReplicaAssignment(2, (101,))),
        ),
        errors=[E.INVALID_REPLICA_ASSIGNMENT],
    ),
    create(
        "a number twice",
        Topic(
            name="bad",
            num_partitions=-1,
            replication_factor=-1,
            assignments=(Topic.CreatableReplicaAssignment(0, (101,)), Topic.CreatableReplicaAssignment(0, (102,))),
        ),
        errors=[E.INVALID_REPLICA_ASSIGNMENT],
    ),
    create(
        "a placement and a count",
        Topic(
            name="bad",
            num_partitions=2,
            replication_factor=-1,
            assignments=(Topic.CreatableReplicaAssignment(0, (101,)),),
        ),
        errors=[E.INVALID_REQUEST],
    ),
    create(
        "a placement and a factor",
        Topic(
            name="bad",
            num_partitions=-1,
            replication_factor=1,
            assignments=(Topic.CreatableReplicaAssignment(0, (101,)),),
        ),
        errors=[E.INVALID_REQUEST],
    ),
    create("with configs", laid_out("compact", (101, 102), cleanup_policy="compact", min_insync_replicas="2")),
    create("a config unknown", laid_out("bad", (101,), no_such_thing="1"), errors=[E.INVALID_CONFIG]),
    create("a config of no good", laid_out("bad", (101,), retention_ms="soon"), errors=[E.INVALID_CONFIG]),
    create("a config without a value", laid_out("bad", (101,), retention_ms=None), errors=[E.INVALID_CONFIG]),
    create("only to see", laid_out("seen", (101, 102)), validate_only=True),
    create("only to see what fails", laid_out("b@d", (101,)), validate_only=True, errors=[E.INVALID_TOPIC_EXCEPTION]),
)

GROWN: Final[tuple[Step, ...]] = (
    grow("one more by hand", "orders", 3, assignments=[(103, 101, 102)]),
    grow("only to see one more", "orders", 4, assignments=[(103, 101, 102)], validate_only=True),
    grow("as many as there are", "orders", 3, E.INVALID_PARTITIONS),
    grow("fewer than there are", "orders", 2, E.INVALID_PARTITIONS),
    grow("0 of them", "orders", 0, E.INVALID_PARTITIONS),
    grow("-1 of them", "orders", -1, E.INVALID_PARTITIONS),
    grow("of a topic unknown", "nowhere", 3, E.UNKNOWN_TOPIC_OR_PARTITION),
    grow("of a bad name", "n o", 3, E.UNKNOWN_TOPIC_OR_PARTITION),
    grow("of no name", "", 3, E.UNKNOWN_TOPIC_OR_PARTITION),
    grow("too few placed", "orders", 5, E.INVALID_REPLICA_ASSIGNMENT, assignments=[(101, 102, 103)]),
    grow("too many placed", "orders", 4, E.INVALID_REPLICA_ASSIGNMENT, assignments=[(101, 102, 103)] * 2),
    grow("another factor", "orders", 4, E.INVALID_REPLICA_ASSIGNMENT, assignments=[(101, 102)]),
    grow("a replica twice, grown", "orders", 4, E.INVALID_REPLICA_ASSIGNMENT, assignments=[(101, 101, 102)]),
    grow("a broker unknown, grown", "orders", 4, E.INVALID_REPLICA_ASSIGNMENT, assignments=[(101, 102, 999)]),
    grow("none placed", "orders", 4, E.INVALID_REPLICA_ASSIGNMENT, assignments=[]),
    grow("too many at once", "orders", 20_000, E.POLICY_VIOLATION),
    ask(
        "a topic twice, grown",
        CreatePartitionsRequest((Grown("orders", 4, None), Grown("orders", 5, None)), TIMEOUT_MS),
        E.INVALID_REQUEST,
    ),
)

DELETED: Final[tuple[Step, ...]] = (
    delete("by name", "good"),
    delete("the same by name again", "good", errors=[E.UNKNOWN_TOPIC_OR_PARTITION]),
    delete_by_id("by id", "a.b"),
    delete_by_id("an id unknown", "a.b", errors=[E.UNKNOWN_TOPIC_ID]),
    ask("the reserved id", deletion(Deleted()), E.INVALID_REQUEST),
    ask("an empty name", deletion(Deleted(name="")), E.UNKNOWN_TOPIC_OR_PARTITION),
    ask("nothing to delete", deletion()),
    ask("a name and its id", name_and_id, E.INVALID_REQUEST),
    ask("one topic, by name and by id", one_by_both, E.INVALID_REQUEST),
    delete("a topic twice, deleted", "orders", "orders", errors=[E.INVALID_REQUEST]),
    ask(
        "an id twice",
        deletion(Deleted(topic_id=UNKNOWN_TOPIC_ID), Deleted(topic_id=UNKNOWN_TOPIC_ID)),
        E.INVALID_REQUEST,
    ),
    delete("some there, some not", "...", "nowhere", LONGEST, errors=[E.UNKNOWN_TOPIC_OR_PARTITION]),
    delete("a bad name, deleted", "b@d", errors=[E.UNKNOWN_TOPIC_OR_PARTITION]),
    ask(
        "by name, as older clients do",
        DeleteTopicsRequest(topic_names=("c.d",), timeout_ms=TIMEOUT_MS),
        version=5,
        masks=["topicId"],
    ),
    delete("what chance has placed", "placed", "placed-2"),
    create("a deleted name anew", laid_out("good", (101, 104))),
    create("a collision that is gone", laid_out("a_b", (104, 101))),
)

SCRIPT: Final[tuple[Step, ...]] = (*CREATED, *GROWN, *DELETED)
