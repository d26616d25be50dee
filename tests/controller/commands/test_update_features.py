"""UpdateFeatures: up, down, and who stands in the way (KIP-584, KIP-778, KIP-1022)."""

from __future__ import annotations

import pytest

from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.update_features import UpdateFeaturesRequest
from quorate.controller.commands.update_features import UpgradeType, kraft_version_update, update_features
from quorate.errors import ErrorCode
from quorate.metadata.configs import BROKER
from quorate.metadata.features import ELR_VERSION, KRAFT_VERSION
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import ConfigRecord, FeatureLevelRecord
from tests.controller.clusters import Cluster

UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE
MIN_ISR = "min.insync.replicas"

Update = UpdateFeaturesRequest.FeatureUpdateKey
Declared = BrokerRegistrationRequest.Feature


def asked(*updates: tuple[str, int, int], validate_only: bool = False) -> UpdateFeaturesRequest:
    keys = tuple(Update(feature=name, max_version_level=level, upgrade_type=how) for name, level, how in updates)
    return UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)


def cluster(level: int = 29, **levels: int) -> Cluster:
    made = Cluster(level)
    made.apply([FeatureLevelRecord(name.replace("_", "."), at) for name, at in levels.items()])
    return made


def write(made: Cluster, request: UpdateFeaturesRequest, kraft_version: int = 0) -> dict[str, int]:
    made.write(update_features(request, kraft_version=kraft_version, settings=made.settings))
    return made.state.features.finalized()


@pytest.mark.parametrize(
    ("before", "update", "after"),
    [
        ({}, (METADATA_VERSION, 30, UP), {METADATA_VERSION: 30}),
        ({}, (METADATA_VERSION, 25, SAFE), {METADATA_VERSION: 25}),
        ({}, ("group.version", 1, UP), {METADATA_VERSION: 29, "group.version": 1}),
        ({"group_version": 1}, ("group.version", 0, SAFE), {METADATA_VERSION: 29}),
        ({"group_version": 1}, ("group.version", 0, UNSAFE), {METADATA_VERSION: 29}),
        ({}, (METADATA_VERSION, 29, UP), {METADATA_VERSION: 29}),
    ],
    ids=["metadata.version up", "down where nothing is lost", "on", "off", "off, unsafely", "as it is"],
)
def test_a_feature_changes(before: dict[str, int], update: tuple[str, int, int], after: dict[str, int]) -> None:
    assert after == write(cluster(**before), asked(update))


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        ((METADATA_VERSION, 30, SAFE), "a downgrade raises nothing"),
        ((METADATA_VERSION, 25, UP), "upgrade_type UPGRADE lowers nothing"),
        ((METADATA_VERSION, 22, SAFE), "metadata that 4.0-IV1 brought would be lost"),
        ((METADATA_VERSION, 25, UNSAFE), "an unsafe downgrade of it is not supported"),
        ((METADATA_VERSION, 99, UP), "this controller supports 7 to 33"),
        ((METADATA_VERSION, 0, SAFE), "this controller supports 7 to 33"),
        (("group.version", -1, SAFE), "not below 0"),
        (("group.version", 1, 0), "upgrade_type 0 is none of [1, 2, 3]"),
        (("group.version", 1, 4), "upgrade_type 4 is none of [1, 2, 3]"),
        (("group.versoin", 1, UP), "this controller supports 0 to 0"),
        ((KRAFT_VERSION, 0, SAFE), "the quorum cannot go back"),
        ((KRAFT_VERSION, 2, UP), "this controller supports 0 to 1"),
    ],
)
def test_refuses_and_says_why(update: tuple[str, int, int], reason: str) -> None:
    made = cluster()
    refused = made.refusal(update_features(asked(update), kraft_version=1, settings=made.settings))

    assert ErrorCode.INVALID_UPDATE_VERSION == refused.code
    assert reason in refused.message
    assert update[0] == refused.metadata["feature"]


def test_every_registered_node_must_support_it() -> None:
    made = cluster()
    made.register(
        7, features=(Declared(METADATA_VERSION, 7, 29), Declared(KRAFT_VERSION, 0, 1), Declared("group.version", 0, 1))
    )
    newer = made.refusal(update_features(asked((METADATA_VERSION, 30, UP)), kraft_version=0, settings=made.settings))
    unknown = made.refusal(update_features(asked(("share.version", 1, UP)), kraft_version=0, settings=made.settings))

    assert "broker 7 supports 7 to 29" in newer.message
    assert "broker 7 supports 0 to 0" in unknown.message
    assert {METADATA_VERSION: 29, "group.version": 1} == write(made, asked(("group.version", 1, UP)))


def test_one_that_needs_another_may_come_with_it() -> None:
    alone = cluster(22)
    refused = alone.refusal(update_features(asked((ELR_VERSION, 1, UP)), kraft_version=0, settings=alone.settings))

    assert "it needs metadata.version at 23 or above, which is at 22" in refused.message
    assert {METADATA_VERSION: 23, ELR_VERSION: 1} == write(
        cluster(22), asked((ELR_VERSION, 1, UP), (METADATA_VERSION, 23, UP))
    )


def test_one_bad_update_keeps_the_good_ones_from_being_made() -> None:
    made = cluster()
    request = asked(("group.version", 1, UP), (METADATA_VERSION, 99, UP))

    assert made.refusal(update_features(request, kraft_version=0, settings=made.settings)).metadata["level"] == "99"
    assert {METADATA_VERSION: 29} == made.state.features.finalized()


def test_validate_only_writes_nothing() -> None:
    assert {METADATA_VERSION: 29} == write(cluster(), asked(("group.version", 1, UP), validate_only=True))


def test_kraft_version_is_checked_here_and_written_by_the_quorum() -> None:
    request = asked((KRAFT_VERSION, 1, UP), ("group.version", 1, UP))

    assert 1 == kraft_version_update(request)
    assert {METADATA_VERSION: 29, "group.version": 1} == write(cluster(), request)
    assert kraft_version_update(asked(("group.version", 1, UP))) is None


def test_with_elr_the_cluster_and_no_broker_says_how_many_must_be_in_sync() -> None:
    made = cluster()
    made.apply([ConfigRecord(BROKER, "3", MIN_ISR, "2"), ConfigRecord(BROKER, "3", "log.segment.bytes", "1024")])
    write(made, asked((ELR_VERSION, 1, UP)))

    assert {MIN_ISR: "1"} == made.state.configs.of(BROKER, "")
    assert {"log.segment.bytes": "1024"} == made.state.configs.of(BROKER, "3")
