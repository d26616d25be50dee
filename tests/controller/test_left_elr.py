"""An ELR that is left when the feature is turned off: elected from, until something may be committed without it."""

from __future__ import annotations

from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from kraft.api.update_features import UpdateFeaturesRequest
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.commands.update_features import UpgradeType, update_features
from quorate.liveness import ControlState
from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.features import ELR_VERSION
from quorate.metadata.partitions import NO_LEADER
from quorate.records import ClearElrRecord, ConfigRecord, FeatureLevelRecord
from tests.controller.clusters import Cluster

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
