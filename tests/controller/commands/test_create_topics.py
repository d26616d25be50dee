"""CreateTopics: what the placer is asked, ids, all configs. What is decided: `tables/create_topics.py`."""

from __future__ import annotations

from random import Random

import pytest

from kraft import Uuid
from kraft.api.create_topics import CreateTopicsRequest
from quorate.controller.commands.create_topics import create_topics, wanted_placements
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.configs.values import VALUE_CHARS_MAX
from quorate.controller.partitions.new_partitions import StalePlacement, UsableBrokers, usable_brokers
from quorate.errors import ApiError, ErrorCode
from quorate.liveness import ControlState
from quorate.nouns import MIGRATING_DIRECTORY
from quorate.placement import PlacementSpec, UsableBroker
from quorate.records import BrokerRegistrationChangeRecord, ConfigRecord
from tests.controller.clusters import Cluster, Config, Topic, uuid
from tests.controller.tables.create_topics import asked, by_hand, command, refused, three_of_four, told
from tests.controller.tables.table import without_words


def test_refuses_more_than_ten_thousand_partitions_as_a_whole() -> None:
    cluster = three_of_four()
    request = CreateTopicsRequest(topics=(Topic("x", 9_999, 1), Topic("y", 2, 1)))
    with pytest.raises(ApiError) as raised:
        wanted_placements(cluster.state, request, cluster.settings)

    assert raised.value.code == ErrorCode.POLICY_VIOLATION


def test_refuses_a_config_that_is_too_long() -> None:
    """Kafka: ConfigurationControlManager.validateAlterConfig. The value is too long for a table."""
    cluster = three_of_four()
    assignments = "0:1" + ",0:1" * (VALUE_CHARS_MAX // 4 + 1)
    topic = by_hand("t", [1], leader_replication_throttled_replicas=assignments)
    decision = cluster.decide(command(cluster, asked(topic)))

    assert (told(refused("t", ErrorCode.INVALID_CONFIG)), ()) == (without_words(decision.response), decision.records)


def test_answers_what_is_in_effect() -> None:
    cluster = three_of_four()
    cluster.apply([ConfigRecord(4, "", "min.insync.replicas", "2")])
    result = cluster.create(Topic("t", 2, 3, (), (Config("segment.ms", "9"),)), random=Random(1)).topics[0]
    configs = {row.name: (row.value, row.config_source) for row in result.configs or ()}

    assert (
        result.error_code,
        result.error_message,
        result.num_partitions,
        result.replication_factor,
    ) == (0, None, 2, 3)
    assert cluster.state.topics.id_of("t") == result.topic_id
    assert list(configs) == sorted(configs)
    assert configs["segment.ms"] == ("9", 1)
    assert configs["min.insync.replicas"] == ("2", 3)
    assert configs["cleanup.policy"] == ("delete", 5)


def test_minus_one_is_the_default() -> None:
    cluster = Cluster(settings=ControllerSettings(num_partitions=4, default_replication_factor=2)).brokers(1, 2)
    request = CreateTopicsRequest(topics=(Topic("t", -1, -1),))
    spec = PlacementSpec(partition_count=4, replication_factor=2)

    assert (("t", spec),) == wanted_placements(cluster.state, request, cluster.settings)


def test_asks_for_no_placement_of_what_cannot_be_placed_exists_or_is_placed_by_hand() -> None:
    cluster = three_of_four()
    cluster.topic("there", [1])
    refused_ = (Topic("x", 0, 1), Topic("v", 1, -2), by_hand("y", [1]), Topic("there", 1, 1))
    request = CreateTopicsRequest(topics=(*refused_, Topic("z", 1, 1)))

    assert [name for name, _ in wanted_placements(cluster.state, request, cluster.settings)] == ["z"]


def test_a_broker_from_before_directories_has_replicas_on_the_move() -> None:
    cluster = Cluster(16).brokers(1)
    cluster.topic("t", [1])

    assert cluster.partition("t").directories == (MIGRATING_DIRECTORY,)


def test_usable_are_those_that_stay_and_have_room() -> None:
    """KIP-841: not on the way out. KIP-1066: not with all directories cordoned."""
    cluster = Cluster(33).brokers(1, 2, 3)
    cluster.register(4)
    cluster.topic("t", [2, 1])
    cluster.change(2, ControlState.CONTROLLED_SHUTDOWN)
    third = cluster.state.brokers.get(3)
    assert third is not None
    cluster.apply([BrokerRegistrationChangeRecord(3, third.epoch, cordoned_log_dirs=third.log_dirs)])

    assert (UsableBroker(id=1), UsableBroker(id=4, fenced=True)) == usable_brokers(cluster.state)


def test_the_usable_brokers_are_found_again_when_one_has_changed_and_not_before() -> None:
    cluster = Cluster().brokers(1, 2)
    usable = UsableBrokers(cluster.state)
    first = usable()
    cluster.topic("t", [2, 1])

    assert (UsableBroker(id=1), UsableBroker(id=2)) == first
    assert first is usable()
    cluster.change(2, ControlState.FENCED)
    assert (UsableBroker(id=1), UsableBroker(id=2, fenced=True)) == usable()
    cluster.brokers(3)
    assert usable_brokers(cluster.state) == usable()
    cluster.state.clear()
    assert () == usable()


@pytest.mark.parametrize("target", [ControlState.FENCED, ControlState.CONTROLLED_SHUTDOWN])
def test_a_placement_is_stale_when_its_leader_has_gone_meanwhile(target: ControlState) -> None:
    cluster = Cluster().brokers(1, 2)
    cluster.topic("led", [1, 2])
    request = CreateTopicsRequest(topics=(Topic("t", 1, 2),))
    command = create_topics(
        request, placements={"t": ((1, 2),)}, new_topic_id=lambda: uuid(5), settings=cluster.settings
    )
    cluster.change(1, target)
    refused = cluster.refusal(command)

    assert isinstance(refused, StalePlacement)
    assert refused.code == ErrorCode.REPLICA_NOT_AVAILABLE


def test_a_placement_is_stale_when_there_is_none() -> None:
    """The name was taken when the placer was asked, and is free now."""
    cluster = Cluster().brokers(1)
    request = CreateTopicsRequest(topics=(Topic("t", 1, 1),))
    command = create_topics(request, placements={}, new_topic_id=lambda: uuid(5), settings=cluster.settings)

    assert isinstance(cluster.refusal(command), StalePlacement)


def test_an_answer_of_the_placer_that_does_not_fit_is_the_placers_fault() -> None:
    cluster = Cluster().brokers(1)
    request = CreateTopicsRequest(topics=(Topic("t", 2, 1),))
    command = create_topics(request, placements={"t": ((1,),)}, new_topic_id=lambda: uuid(5), settings=cluster.settings)

    assert cluster.decide(command).response.topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_ids_that_are_taken_or_reserved_are_passed_over() -> None:
    cluster = Cluster().brokers(1)
    taken = cluster.topic("a", [1])
    ids = iter([Uuid(bytes(16)), Uuid(bytes(15) + b"\x01"), taken, uuid(77)])
    request = CreateTopicsRequest(topics=(by_hand("b", [1]),))
    command = create_topics(request, placements={}, new_topic_id=lambda: next(ids), settings=cluster.settings)

    assert uuid(77) == cluster.write(command).topics[0].topic_id
