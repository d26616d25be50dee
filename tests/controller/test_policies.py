"""An operator's own rules: what a policy sees of a request, and that a refusal writes nothing. KIP-108, KIP-133."""

from __future__ import annotations

from random import Random

import pytest

from kraft.api.alter_configs import AlterConfigsRequest
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from quorate.controller.commands.alter_configs import alter_configs
from quorate.controller.commands.incremental_alter_configs import ConfigOperation, incremental_alter_configs
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.policies import ConfigChange, NewTopic, PolicyViolation
from quorate.errors import ErrorCode
from quorate.metadata.configs import TOPIC, ConfigResource
from quorate.runtime.settings.setting_types import python_class
from tests.controller.clusters import Assignment, Cluster, Config, Topic


class Watchful:
    """Notes what it is asked, and refuses what has to do with cats."""

    def __init__(self) -> None:
        self.seen: list[NewTopic | ConfigChange] = []

    def validate(self, request: NewTopic | ConfigChange) -> None:
        self.seen.append(request)
        name = request.topic if isinstance(request, NewTopic) else request.resource.name
        if "cat" in name:
            raise PolicyViolation(f"{name!r} is about cats")


def watched() -> tuple[Cluster, Watchful]:
    policy = Watchful()
    cluster = Cluster(settings=ControllerSettings(create_topic_policy=policy, alter_config_policy=policy)).brokers(1, 2)
    return cluster, policy


def test_a_policy_sees_new_topics_as_they_will_be() -> None:
    cluster, policy = watched()
    counted = Topic("counted", -1, -1, (), (Config("segment.ms", "5"),))
    by_hand = Topic("by-hand", -1, -1, (Assignment(1, (2,)), Assignment(0, (1,))))
    cluster.write(cluster.creating(CreateTopicsRequest(topics=(counted, by_hand)), Random(1)))

    assert [
        ConfigChange(resource=ConfigResource(TOPIC, "counted"), configs={"segment.ms": "5"}),
        NewTopic(
            topic="counted",
            num_partitions=1,
            replication_factor=1,
            replicas_assignments=None,
            configs={"segment.ms": "5"},
        ),
        NewTopic(
            topic="by-hand",
            num_partitions=None,
            replication_factor=None,
            replicas_assignments={0: (1,), 1: (2,)},
            configs={},
        ),
    ] == policy.seen


@pytest.mark.parametrize("validate_only", [False, True])
def test_it_refuses_one_topic_and_not_the_others(validate_only: bool) -> None:
    cluster, _ = watched()
    request = CreateTopicsRequest(topics=(Topic("cat", 1, 1), Topic("dog", 1, 1)), validate_only=validate_only)
    results = cluster.write(cluster.creating(request, Random(1))).topics

    assert [("cat", ErrorCode.POLICY_VIOLATION, "'cat' is about cats"), ("dog", 0, None)] == [
        (each.name, each.error_code, each.error_message) for each in results
    ]
    assert ["dog"] * (not validate_only) == [topic.name for topic in cluster.state.topics]


def test_what_kafka_refuses_it_does_not_see() -> None:
    cluster, policy = watched()
    cluster.write(cluster.creating(CreateTopicsRequest(topics=(Topic("a/b", 1, 1), Topic("t", 1, 9))), Random(1)))

    assert [] == policy.seen


def test_it_sees_what_a_request_says_of_configs() -> None:
    """Of a legacy request not what goes because it is not named: Kafka's validateAlterConfig."""
    cluster, policy = watched()
    cluster.topic("dog", [1])
    asked = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = asked.AlterableConfig
    configs = (config("segment.ms", ConfigOperation.SET, "5"), config("retention.ms", ConfigOperation.SET, "6"))
    request = IncrementalAlterConfigsRequest(resources=(asked(TOPIC, "dog", configs),))
    cluster.write(incremental_alter_configs(request, settings=cluster.settings))
    whole = AlterConfigsRequest.AlterConfigsResource
    named = (whole.AlterableConfig("segment.ms", "7"),)
    cluster.write(
        alter_configs(AlterConfigsRequest(resources=(whole(TOPIC, "dog", named),)), settings=cluster.settings)
    )

    assert [
        ConfigChange(resource=ConfigResource(TOPIC, "dog"), configs={"segment.ms": "5", "retention.ms": "6"}),
        ConfigChange(resource=ConfigResource(TOPIC, "dog"), configs={"segment.ms": "7"}),
    ] == policy.seen[1:]
    assert {"segment.ms": "7"} == cluster.state.configs.of(TOPIC, "dog")


def test_a_refused_change_writes_nothing() -> None:
    cluster, policy = watched()
    cluster.settings = ControllerSettings(alter_config_policy=policy)
    cluster.topic("cat", [1])
    asked = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = asked.AlterableConfig("segment.ms", ConfigOperation.SET, "5")
    request = IncrementalAlterConfigsRequest(resources=(asked(TOPIC, "cat", (config,)),))
    (answer,) = cluster.write(incremental_alter_configs(request, settings=cluster.settings)).responses

    assert (ErrorCode.POLICY_VIOLATION, "'cat' is about cats") == (answer.error_code, answer.error_message)
    assert {} == cluster.state.configs.of(TOPIC, "cat")


@pytest.mark.parametrize(
    "text",
    ["", "nowhere:Watchful", "tests.controller.test_policies", "tests.controller.test_policies:Nobody", "json:loads"],
)
def test_what_is_no_class_with_the_method_is_no_policy(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # a kind has nothing to say beyond its rule
        python_class("validate").parse(text)
