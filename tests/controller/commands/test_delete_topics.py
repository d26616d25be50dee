"""DeleteTopics: by name, by id, and what is not done."""

from __future__ import annotations

import pytest

from kraft import Uuid
from kraft.api.delete_topics import DeleteTopicsRequest
from quorate.controller.commands.delete_topics import delete_topics
from quorate.controller.settings import Settings
from quorate.errors import ErrorCode
from quorate.metadata.configs import TOPIC
from quorate.nouns import ZERO_UUID
from quorate.records import RemoveTopicRecord
from tests.controller.clusters import Cluster, uuid

Asked = DeleteTopicsRequest.DeleteTopicState


def two_topics() -> tuple[Cluster, Uuid, Uuid]:
    cluster = Cluster(25).brokers(1)
    return cluster, cluster.topic("a", [1], retention_ms="1000"), cluster.topic("b", [1])


def deleted(cluster: Cluster, *asked: Asked) -> list[tuple[str | None, Uuid, ErrorCode]]:
    response = cluster.write(delete_topics(DeleteTopicsRequest(topics=asked), settings=cluster.settings))
    return [(each.name, each.topic_id, ErrorCode(each.error_code)) for each in response.responses]


def names(cluster: Cluster) -> list[str]:
    return sorted(topic.name for topic in cluster.state.topics)


def test_deletes_by_name_and_by_id_and_the_configs_go_too() -> None:
    cluster, a, b = two_topics()

    assert [("a", a, ErrorCode.NONE), ("b", b, ErrorCode.NONE)] == deleted(cluster, Asked("a"), Asked(topic_id=b))
    assert [] == names(cluster)
    assert {} == cluster.state.configs.of(TOPIC, "a")


def test_names_alone_are_how_old_clients_ask() -> None:
    cluster, _, _ = two_topics()
    decision = cluster.decide(delete_topics(DeleteTopicsRequest(topic_names=("b",)), settings=cluster.settings))

    assert [RemoveTopicRecord] == [type(record) for record in decision.records]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (Asked("nobody"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Asked(topic_id=uuid(99)), ErrorCode.UNKNOWN_TOPIC_ID),
        (Asked(), ErrorCode.INVALID_REQUEST),
        (Asked("a", uuid(1000)), ErrorCode.INVALID_REQUEST),
    ],
    ids=["no such name", "no such id", "neither", "both"],
)
def test_one_that_cannot_be_does_not_keep_the_others(asked: Asked, code: ErrorCode) -> None:
    cluster, _, b = two_topics()

    assert [code, ErrorCode.NONE] == [told for _, _, told in deleted(cluster, asked, Asked(topic_id=b))]
    assert ["a"] == names(cluster)


def test_a_topic_that_is_asked_for_twice_stays() -> None:
    cluster, a, _ = two_topics()

    assert [("a", a, ErrorCode.INVALID_REQUEST)] == deleted(cluster, Asked("a"), Asked(topic_id=a))
    assert ["a", "b"] == names(cluster)


@pytest.mark.parametrize(
    "asked",
    [Asked("a"), Asked("nobody"), Asked(topic_id=uuid(1000)), Asked(topic_id=uuid(99)), Asked(""), Asked()],
    ids=["name", "no such name", "id", "no such id", "empty name", "neither"],
)
def test_what_is_in_the_request_twice_is_told_of_once_whether_it_is_there_or_not(asked: Asked) -> None:
    """Kafka looks for doubles before it looks for topics, and answers with what was asked."""
    cluster, _, _ = two_topics()

    assert [(asked.name, asked.topic_id, ErrorCode.INVALID_REQUEST)] == deleted(cluster, asked, asked)
    assert ["a", "b"] == names(cluster)


def test_deletion_can_be_turned_off() -> None:
    cluster = Cluster(25, settings=Settings(delete_topic_enable=False)).brokers(1)
    cluster.topic("a", [1])
    request = DeleteTopicsRequest(topics=(Asked("a", ZERO_UUID),))

    assert ErrorCode.TOPIC_DELETION_DISABLED == cluster.refusal(delete_topics(request, settings=cluster.settings)).code
