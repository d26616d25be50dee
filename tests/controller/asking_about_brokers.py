"""Requests of brokers, controllers and their operators, most of it such as the state can grant."""

from __future__ import annotations

from random import Random
from typing import Any

from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.controller_registration import ControllerRegistrationRequest
from kraft.api.describe_cluster import DescribeClusterRequest
from kraft.api.unregister_broker import UnregisterBrokerRequest
from kraft.api.unregister_controller import UnregisterControllerRequest
from kraft.api.update_features import UpdateFeaturesRequest
from quorate.controller.commands.allocate_producer_ids import allocate_producer_ids
from quorate.controller.commands.change_broker_state import change_broker_state
from quorate.controller.commands.describe_cluster import describe_cluster
from quorate.controller.commands.register_broker import register_broker
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.commands.unregister_broker import unregister_broker
from quorate.controller.commands.unregister_controller import unregister_controller
from quorate.controller.commands.update_features import UpgradeType, update_features
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command
from quorate.liveness import ControlState
from quorate.metadata.features import ELR_VERSION
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION
from tests.controller.clusters import CLUSTER_ID, registration, uuid

BROKERS = range(1, 5)


def epoch_of(chance: Random, state: ClusterState, broker_id: int) -> int:
    """Mostly the one that it has."""
    broker = state.brokers.get(broker_id)
    return -1 if broker is None else broker.epoch - (chance.random() < 0.05)


def registering(request: BrokerRegistrationRequest, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    """A broker is alive as far as the log says: not fenced."""
    broker = state.brokers.get(request.broker_id)
    return register_broker(
        request,
        cluster_id=CLUSTER_ID,
        session_epoch=None if broker is None or broker.fenced else broker.epoch,
        kraft_version=1,
        settings=settings,
    )


def unfencing(broker_id: int, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    """It has caught up."""
    broker = state.brokers.get(broker_id)
    assert broker is not None, broker_id
    return change_broker_state(
        broker_id=broker_id, broker_epoch=broker.epoch, target=ControlState.UNFENCED, settings=settings
    )


def ask_register_broker(chance: Random, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    broker_id = chance.choice(BROKERS)
    broker = state.brokers.get(broker_id)
    request = registration(
        broker_id,
        incarnation=chance.choice([0, 0, 0, 1]),
        rack=chance.choice([None, "r1", "r2"]),
        previous_broker_epoch=broker.epoch if broker and chance.random() < 0.5 else -1,
    )
    return registering(request, state, settings)


def ask_change_broker_state(chance: Random, state: ClusterState, settings: ControllerSettings) -> Command[Any]:
    broker_id = chance.choice(BROKERS)
    target = ControlState.UNFENCED if chance.random() < 0.8 else chance.choice(list(ControlState))
    return change_broker_state(
        broker_id=broker_id, broker_epoch=epoch_of(chance, state, broker_id), target=target, settings=settings
    )


def ask_unregister_broker(chance: Random, _: ClusterState, settings: ControllerSettings) -> Command[Any]:
    return unregister_broker(UnregisterBrokerRequest(chance.choice(BROKERS)), settings=settings)


def ask_register_controller(chance: Random, _: ClusterState, __: ControllerSettings) -> Command[Any]:
    controller_id = chance.randrange(1, 4)
    listeners = [
        ControllerRegistrationRequest.Listener(name, f"c{controller_id}", port, 0)
        for name, port in (("CONTROLLER", 9093), ("TLS", 9094))
    ]
    features = [
        ControllerRegistrationRequest.Feature(METADATA_VERSION, 7, 33),
        ControllerRegistrationRequest.Feature(ELR_VERSION, 0, 1),
    ]
    return register_controller(
        ControllerRegistrationRequest(
            controller_id,
            uuid(controller_id * 10 + chance.randrange(2)),
            listeners=tuple(chance.sample(listeners, chance.randrange(1, 3))),
            features=tuple(chance.sample(features, 2)),
        )
    )


def ask_unregister_controller(chance: Random, _: ClusterState, __: ControllerSettings) -> Command[Any]:
    return unregister_controller(UnregisterControllerRequest(chance.randrange(1, 4)), active_id=1)


def ask_allocate_producer_ids(chance: Random, state: ClusterState, _: ControllerSettings) -> Command[Any]:
    broker_id = chance.choice(BROKERS)
    return allocate_producer_ids(AllocateProducerIdsRequest(broker_id, epoch_of(chance, state, broker_id)))


def ask_update_features(chance: Random, _: ClusterState, settings: ControllerSettings) -> Command[Any]:
    update = UpdateFeaturesRequest.FeatureUpdateKey
    levels = {
        METADATA_VERSION: chance.randrange(25, 34),
        ELR_VERSION: chance.randrange(2),
        "group.version": chance.randrange(2),
        "transaction.version": chance.randrange(3),
    }
    updates = tuple(
        update(name, levels[name], upgrade_type=chance.choice(list(UpgradeType)))
        for name in chance.sample(sorted(levels), chance.randrange(1, 3))
    )
    request = UpdateFeaturesRequest(feature_updates=updates)
    return update_features(request, kraft_version=1, voters=(), settings=settings)


def ask_describe_cluster(chance: Random, _: ClusterState, __: ControllerSettings) -> Command[Any]:
    request = DescribeClusterRequest(endpoint_type=chance.randrange(1, 3), include_fenced_brokers=chance.random() < 0.5)
    return describe_cluster(request, cluster_id=CLUSTER_ID, controller_id=1)
