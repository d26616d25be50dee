"""UpdateFeatures: who stands in the way, in words; the rest is in its table (KIP-584, KIP-778, KIP-1022)."""

from __future__ import annotations

import pytest

from kraft.api.broker_registration import BrokerRegistrationRequest
from kraft.api.update_features import UpdateFeaturesRequest
from quorate.controller.commands.update_features import UpgradeType, kraft_version_update, update_features
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.features import ELR_VERSION, KRAFT_VERSION
from quorate.metadata.versions import METADATA_VERSION
from tests.controller.clusters import Cluster

UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE

Update = UpdateFeaturesRequest.FeatureUpdateKey
Declared = BrokerRegistrationRequest.Feature


def asked(*updates: tuple[str, int, int]) -> UpdateFeaturesRequest:
    keys = tuple(Update(feature=name, max_version_level=level, upgrade_type=how) for name, level, how in updates)
    return UpdateFeaturesRequest(feature_updates=keys)


def refusal(cluster: Cluster, *updates: tuple[str, int, int], voters: tuple[int, ...] = ()) -> ApiError:
    command = update_features(asked(*updates), kraft_version=1, voters=voters, settings=cluster.settings)
    refused = cluster.refusal(command)
    assert ErrorCode.INVALID_UPDATE_VERSION == refused.code
    return refused


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        ((METADATA_VERSION, 30, SAFE), "a higher level needs upgrade_type UPGRADE"),
        ((METADATA_VERSION, 25, UP), "a lower level needs upgrade_type SAFE_DOWNGRADE or UNSAFE_DOWNGRADE"),
        ((METADATA_VERSION, 22, SAFE), "metadata that 4.0-IV1 brought would be lost"),
        ((METADATA_VERSION, 22, UNSAFE), "metadata that 4.0-IV1 brought would be lost"),
        ((METADATA_VERSION, 99, UP), "this controller supports 7 to 33"),
        ((METADATA_VERSION, 0, SAFE), "this controller supports 7 to 33"),
        (("group.version", -1, SAFE), "must not be below 0"),
        (("group.version", 1, 0), "upgrade_type 0 is none of [1, 2, 3]"),
        (("group.version", 1, 4), "upgrade_type 4 is none of [1, 2, 3]"),
        (("group.versoin", 1, UP), "no feature group.versoin is known; known are eligible.leader.replicas.version, "),
        (("group.versoin", 1, UP), "group.version, kraft.version, metadata.version, share.version, "),
        ((KRAFT_VERSION, 0, SAFE), "kraft.version cannot be lowered"),
        ((KRAFT_VERSION, 2, UP), "this controller supports 0 to 1"),
    ],
)
def test_refuses_and_says_why(update: tuple[str, int, int], reason: str) -> None:
    refused = refusal(Cluster(29), update)

    assert reason in refused.message
    assert update[0] == refused.metadata["feature"]


def test_names_the_node_that_does_not_support_it() -> None:
    cluster = Cluster(29)
    cluster.register(7, features=(Declared(METADATA_VERSION, 7, 29), Declared(KRAFT_VERSION, 0, 1)))

    assert "broker 7 supports 7 to 29" in refusal(cluster, (METADATA_VERSION, 30, UP)).message
    assert "broker 7 supports 0 to 0" in refusal(cluster, ("share.version", 1, UP)).message


def test_names_the_controller_that_has_not_registered() -> None:
    refused = refusal(Cluster(29), ("group.version", 1, UP), voters=(3, 2))

    assert "group.version cannot go to 1: controller 2 has not registered, and may not support it" in refused.message


def test_names_the_feature_that_is_missing() -> None:
    refused = refusal(Cluster(22), (ELR_VERSION, 1, UP))

    assert "it needs metadata.version at 23 or above, which is at 22" in refused.message


def test_of_several_names_the_one_that_cannot_be() -> None:
    assert "99" == refusal(Cluster(29), ("group.version", 1, UP), (METADATA_VERSION, 99, UP)).metadata["level"]


def test_kraft_version_is_the_quorums_to_write() -> None:
    assert 1 == kraft_version_update(asked((KRAFT_VERSION, 1, UP), ("group.version", 1, UP)))
    assert kraft_version_update(asked(("group.version", 1, UP))) is None
