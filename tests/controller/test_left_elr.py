"""What is left when the ELR is turned off: eligible replicas, and the last known leader of who has none.

Eligible replicas are elected from until something may be committed without them. A last known leader is kept for when
the feature comes back.
"""

from __future__ import annotations

from kraft.api.elect_leaders import ElectLeadersRequest
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from kraft.api.update_features import UpdateFeaturesRequest
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.commands.update_features import UpgradeType, update_features
from quorate.liveness import ControlState
from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.features import ELR_VERSION
from quorate.metadata.partitions import NO_LEADER, RECOVERING
from quorate.records import ClearElrRecord, ConfigRecord, FeatureLevelRecord
from tests.controller.clusters import Cluster, uuid

Update = UpdateFeaturesRequest.FeatureUpdateKey
Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
MIN_ISR = "min.insync.replicas"
ON = UpdateFeaturesRequest(feature_updates=(Update(ELR_VERSION, 1, upgrade_type=UpgradeType.UPGRADE),))
OFF = UpdateFeaturesRequest(feature_updates=(Update(ELR_VERSION, 0, upgrade_type=UpgradeType.SAFE_DOWNGRADE),))


def left(cluster: Cluster) -> Cluster:
    """Broker 1 leads t alone, which needs 2; broker 2 is eligible. Then the feature is turned off."""
    cluster.brokers(1, 2)
    cluster.topic("t", [1, 2])
    cluster.change(2, ControlState.FENCED)
    assert ((1,), (2,)) == (cluster.partition("t").isr, cluster.partition("t").elr)
    turn(cluster, OFF)
    return cluster


def elr_cluster() -> Cluster:
    cluster = Cluster(25, elr=True)
    cluster.apply([ConfigRecord(BROKER, "", MIN_ISR, "2")])
    return cluster


def turn(cluster: Cluster, request: UpdateFeaturesRequest) -> list[type]:
    decision = cluster.decide(update_features(request, kraft_version=1, voters=(), settings=cluster.settings))
    cluster.apply(decision.records)
    return [type(record) for record in decision.records]


def set_min_isr(cluster: Cluster, resource_type: int, name: str, value: str) -> None:
    config = Resource.AlterableConfig(MIN_ISR, 0, value)
    request = IncrementalAlterConfigsRequest(resources=(Resource(resource_type, name, (config,)),))
    cluster.write(incremental_alter_configs(request, settings=cluster.settings))


def when_the_leader_has_gone(cluster: Cluster) -> int:
    cluster.unfence(2)  # it has not caught up yet
    cluster.change(1, ControlState.FENCED)
    return cluster.partition("t").leader


def test_it_is_elected_from() -> None:
    assert 2 == when_the_leader_has_gone(left(elr_cluster()))


def test_it_ends_when_fewer_are_needed_of_the_topic() -> None:
    cluster = left(elr_cluster())
    set_min_isr(cluster, TOPIC, "t", "1")

    assert () == cluster.partition("t").elr
    assert NO_LEADER == when_the_leader_has_gone(cluster)


def test_it_ends_when_one_broker_needs_fewer() -> None:
    cluster = left(elr_cluster())
    set_min_isr(cluster, BROKER, "1", "1")

    assert NO_LEADER == when_the_leader_has_gone(cluster)


def test_it_ends_when_the_feature_comes_back_and_brokers_have_to_agree() -> None:
    cluster = left(elr_cluster())
    cluster.apply([ConfigRecord(BROKER, "1", MIN_ISR, "1")])  # as a Kafka controller leaves it

    assert [ConfigRecord, ClearElrRecord, FeatureLevelRecord] == turn(cluster, ON)
    assert () == cluster.partition("t").elr


def test_it_stays_when_the_feature_comes_back_and_nothing_was_changed() -> None:
    cluster = left(elr_cluster())

    assert [FeatureLevelRecord] == turn(cluster, ON)
    assert (2,) == cluster.partition("t").elr


def lonely() -> Cluster:
    """Broker 1 was alone in sync, and is gone: it is eligible, and remembered. Then 2 goes, and the feature."""
    cluster = elr_cluster().brokers(1, 2)
    cluster.topic("t", [1, 2], min_insync_replicas="1")
    cluster.alter_isr("t", (1,))
    cluster.change(1, ControlState.FENCED)
    assert ((), (1,), (1,)) == told(cluster)
    cluster.change(2, ControlState.FENCED)
    turn(cluster, OFF)
    return cluster


def told(cluster: Cluster) -> tuple[tuple[int, ...], ...]:
    found = cluster.partition("t")
    return found.isr, found.elr, found.last_known_elr


def test_the_last_known_leader_is_kept_and_elected_once_the_feature_is_back() -> None:
    cluster = lonely()
    cluster.unfence(2)
    assert ((), (), (1,)) == told(cluster)
    turn(cluster, ON)
    cluster.unfence(1)

    assert ((1,), (), ()) == told(cluster)
    assert (1, RECOVERING) == (cluster.partition("t").leader, cluster.partition("t").leader_recovery_state)


def led_meanwhile() -> Cluster:
    """While the feature is off, 2 is elected uncleanly. Kafka, too, goes on to remember 1."""
    cluster = lonely()
    cluster.unfence(2)
    asked = ElectLeadersRequest.TopicPartitions("t", (0,))
    cluster.write(
        elect_leaders(ElectLeadersRequest(election_type=1, topic_partitions=(asked,)), settings=cluster.settings)
    )
    assert ((2,), (), (1,)) == told(cluster)
    cluster.alter_isr("t", (2,))
    return cluster


def test_another_that_led_meanwhile_is_remembered_in_its_turn() -> None:
    cluster = led_meanwhile()
    turn(cluster, ON)
    cluster.change(2, ControlState.FENCED)

    assert ((), (2,), (2,)) == told(cluster)


def test_one_that_others_have_followed_is_not_elected_when_their_log_is_lost() -> None:
    cluster = led_meanwhile()
    turn(cluster, ON)
    cluster.unfence(1)
    cluster.register(2, incarnation_id=uuid(77))

    assert (NO_LEADER, ((), (), (2,))) == (cluster.partition("t").leader, told(cluster))


def test_nobody_is_remembered_when_a_leader_is_lost_without_the_feature() -> None:
    cluster = led_meanwhile()
    cluster.change(2, ControlState.FENCED)

    assert (NO_LEADER, ((2,), (), ())) == (cluster.partition("t").leader, told(cluster))


def test_it_is_forgotten_with_the_next_election_once_the_feature_is_back() -> None:
    cluster = led_meanwhile()
    turn(cluster, ON)
    cluster.unfence(1)
    cluster.alter_isr("t", (2, 1))
    assert (1,) == cluster.partition("t").last_known_elr
    cluster.change(2, ControlState.FENCED)

    assert ((1,), (), ()) == told(cluster)
