"""DeleteTopics (20)."""

from __future__ import annotations

from typing import Any

from kraft import Uuid
from kraft.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from quorate.controller.commands.delete_topics import delete_topics
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.nouns import ZERO_UUID
from quorate.records import RemoveTopicRecord
from tests.controller.clusters import Cluster, uuid
from tests.controller.tables.table import Row, Table

Asked = DeleteTopicsRequest.DeleteTopicState
Result = DeleteTopicsResponse.DeletableTopicResult
A, B, NOBODY = uuid(1000), uuid(1001), uuid(99)
NONE, INVALID, UNKNOWN_ID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_ID
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def two_topics() -> Cluster:
    """Topics a, with a config, and b."""
    cluster = Cluster(25).brokers(1)
    cluster.topic("a", [1], retention_ms="1000")
    cluster.topic("b", [1])
    return cluster


def a_is_new() -> Cluster:
    """The same, but a was deleted and created again: it has another id."""
    cluster = two_topics()
    cluster.apply([RemoveTopicRecord(A)])
    cluster.topic("a", [1])
    return cluster


def a_is_gone() -> Cluster:
    """The same, but a was deleted."""
    cluster = two_topics()
    cluster.apply([RemoveTopicRecord(A)])
    return cluster


def turned_off() -> Cluster:
    """Topic a. `delete.topic.enable` is false."""
    cluster = Cluster(25, settings=ControllerSettings(delete_topic_enable=False)).brokers(1)
    cluster.topic("a", [1])
    return cluster


def asked(*topics: Asked) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=topics)


def by_id(topic_id: Uuid) -> Asked:
    return Asked(topic_id=topic_id)


def told(*results: Result) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=results)


def result(name: str | None, topic_id: Uuid = ZERO_UUID, code: ErrorCode = NONE) -> Result:
    return Result(name, topic_id, code)


def command(cluster: Cluster, request: DeleteTopicsRequest) -> Command[Any]:
    return delete_topics(request, settings=cluster.settings)


API = "ControllerApis.deleteTopics"
DOUBLE = f"{API}: a name or an id that is there twice is an error, told once, before it is looked up."
EITHER = f"{API}: a topic is meant by its name, or by its id (KIP-516)."

TABLE = Table(
    api="DeleteTopics",
    kafka="ControllerApis.deleteTopics, ReplicationControlManager.deleteTopics (KIP-4, KIP-516)",
    command=command,
    given=two_topics,
    rows=(
        Row(
            case="by name",
            rule="ReplicationControlManager.deleteTopic: one record; the topic's configs end with it.",
            request=asked(Asked("a")),
            records=(RemoveTopicRecord(A),),
            answer=told(result("a", A)),
        ),
        Row(
            case="by id",
            rule="KIP-516: the answer has the name as well.",
            request=asked(by_id(B)),
            records=(RemoveTopicRecord(B),),
            answer=told(result("b", B)),
        ),
        Row(
            case="by name and by id",
            rule=EITHER,
            request=asked(Asked("a"), by_id(B)),
            records=(RemoveTopicRecord(A), RemoveTopicRecord(B)),
            answer=told(result("a", A), result("b", B)),
        ),
        Row(
            case="by names alone",
            rule=f"{API}: up to version 5 a request has topicNames and no topics (KIP-516).",
            request=DeleteTopicsRequest(topic_names=("b",)),
            records=(RemoveTopicRecord(B),),
            answer=told(result("b", B)),
        ),
        Row(
            case="none",
            rule=f"{API}: nothing is asked for.",
            request=asked(),
            answer=told(),
        ),
        Row(
            case="no such name",
            rule="ReplicationControlManager.findTopicIds",
            request=asked(Asked("nobody")),
            answer=told(result("nobody", code=UNKNOWN)),
        ),
        Row(
            case="no such id",
            rule="ReplicationControlManager.findTopicNames",
            request=asked(by_id(NOBODY)),
            answer=told(result(None, NOBODY, UNKNOWN_ID)),
        ),
        Row(
            case="the id of a topic that has been created anew",
            rule="KIP-516: an id is never used again, so the newer topic is not meant.",
            given=a_is_new,
            request=asked(by_id(A)),
            answer=told(result(None, A, UNKNOWN_ID)),
        ),
        Row(
            case="once more, by name",
            rule="ReplicationControlManager.findTopicIds: what has been deleted is unknown.",
            given=a_is_gone,
            request=asked(Asked("a")),
            answer=told(result("a", code=UNKNOWN)),
        ),
        Row(
            case="once more, by id",
            rule="ReplicationControlManager.findTopicNames: what has been deleted is unknown.",
            given=a_is_gone,
            request=asked(by_id(A)),
            answer=told(result(None, A, UNKNOWN_ID)),
        ),
        Row(
            case="an empty name",
            rule="ReplicationControlManager.findTopicIds: it is a name like any other, and no topic has it.",
            request=asked(Asked("")),
            answer=told(result("", code=UNKNOWN)),
        ),
        Row(
            case="neither name nor id",
            rule=EITHER,
            request=asked(Asked()),
            answer=told(result(None, code=INVALID)),
        ),
        Row(
            case="neither name nor id, twice",
            rule=f"{API}: each is answered by itself; only names and ids can be there twice.",
            request=asked(Asked(), Asked()),
            answer=told(result(None, code=INVALID), result(None, code=INVALID)),
        ),
        Row(
            case="name and id in one",
            rule=EITHER,
            request=asked(Asked("a", A)),
            answer=told(result("a", A, INVALID)),
        ),
        Row(
            case="name and id in one, twice, and the name once",
            rule=f"{API}: each is answered by itself, and what is wrong does not count for the others.",
            request=asked(Asked("a", A), Asked("a"), Asked("a", A)),
            records=(RemoveTopicRecord(A),),
            answer=told(result("a", A, INVALID), result("a", A), result("a", A, INVALID)),
        ),
        Row(
            case="name and id in one, and neither is there",
            rule=f"{API}: that it has both is told before it is looked up.",
            request=asked(Asked("nobody", NOBODY)),
            answer=told(result("nobody", NOBODY, INVALID)),
        ),
        Row(
            case="those that cannot be, beside one that can",
            rule="KIP-4: each topic succeeds or fails by itself.",
            request=asked(Asked("nobody"), by_id(NOBODY), Asked(), Asked("a", A), by_id(B)),
            records=(RemoveTopicRecord(B),),
            answer=told(
                result("nobody", code=UNKNOWN),
                result(None, NOBODY, UNKNOWN_ID),
                result(None, code=INVALID),
                result("a", A, INVALID),
                result("b", B),
            ),
        ),
        Row(
            case="a name twice, and another",
            rule=DOUBLE,
            request=asked(Asked("a"), Asked("b"), Asked("a")),
            records=(RemoveTopicRecord(B),),
            answer=told(result("a", code=INVALID), result("b", B)),
        ),
        Row(
            case="an id twice",
            rule=DOUBLE,
            request=asked(by_id(A), by_id(A)),
            answer=told(result(None, A, INVALID)),
        ),
        Row(
            case="a name three times that is not there",
            rule=DOUBLE,
            request=asked(Asked("nobody"), Asked("nobody"), Asked("nobody")),
            answer=told(result("nobody", code=INVALID)),
        ),
        Row(
            case="an empty name twice",
            rule=DOUBLE,
            request=asked(Asked(""), Asked("")),
            answer=told(result("", code=INVALID)),
        ),
        Row(
            case="an id twice that is not there",
            rule=DOUBLE,
            request=asked(by_id(NOBODY), by_id(NOBODY)),
            answer=told(result(None, NOBODY, INVALID)),
        ),
        Row(
            case="a name in both lists",
            rule=f"{API}: topicNames and topics are taken together.",
            request=DeleteTopicsRequest(topics=(Asked("a"),), topic_names=("a",)),
            answer=told(result("a", code=INVALID)),
        ),
        Row(
            case="one topic by name and again by id",
            rule=f"{API}: a name that leads to an id which is there as well deletes nothing.",
            request=asked(Asked("a"), by_id(A)),
            answer=told(result("a", A, INVALID)),
        ),
        Row(
            case="an id twice, and its name once",
            rule=f"{API}: a name that leads to an id which is there as well deletes nothing (duplicateProvidedIds).",
            request=asked(by_id(A), by_id(A), Asked("a"), by_id(B)),
            records=(RemoveTopicRecord(B),),
            answer=told(result(None, A, INVALID), result("a", A, INVALID), result("b", B)),
        ),
        Row(
            case="a name twice, and its id once",
            rule=f"{API}: the names are out, the id is meant.",
            request=asked(Asked("a"), Asked("a"), by_id(A)),
            records=(RemoveTopicRecord(A),),
            answer=told(result("a", code=INVALID), result("a", A)),
        ),
        Row(
            case="turned off",
            rule=f"{API}: delete.topic.enable.",
            given=turned_off,
            request=asked(Asked("a")),
            answer=ErrorCode.TOPIC_DELETION_DISABLED,
        ),
        Row(
            case="turned off, and the request is wrong as well",
            rule=f"{API}: delete.topic.enable comes before all else.",
            given=turned_off,
            request=asked(Asked("nobody"), Asked(), Asked()),
            answer=ErrorCode.TOPIC_DELETION_DISABLED,
        ),
    ),
)
