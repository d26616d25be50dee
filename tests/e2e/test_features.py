"""The levels of features: who stands in the way of a new one, and where they can be read (KIP-584, KIP-919)."""

from __future__ import annotations

import pytest

from kraft.api.api_versions_pb2 import ApiVersionsRequest, ApiVersionsResponse
from kraft.api.unregister_controller_pb2 import UnregisterControllerRequest
from kraft.api.update_features_pb2 import UpdateFeaturesRequest
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.features import default_levels, supported_features
from quorate.metadata.versions import CONTROLLER_UNREGISTRATION, METADATA_VERSION, level_of
from quorate.nouns import NodeId
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster, others
from tests.e2e.writer import caught_up

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT

SHARE = "share.version"
UPGRADE, SAFE_DOWNGRADE = 1, 2
FORMATTED = level_of("4.3")
"""What `quorate storage format` begins with."""
CREATE_TOPICS = 19


def to(feature: str, level: int, how: int, *, validate_only: bool = False) -> UpdateFeaturesRequest:
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=how)
    return UpdateFeaturesRequest(feature_updates=[update], validate_only=validate_only)


async def api_versions(cluster: Cluster, at: NodeId) -> ApiVersionsResponse:
    answer: ApiVersionsResponse = (
        await call_with_retries(cluster.controller_stub(at).ApiVersions, ApiVersionsRequest())
    ).response
    return answer


def finalized(answer: ApiVersionsResponse) -> dict[str, int]:
    assert all(each.min_version_level == each.max_version_level for each in answer.finalized_features)
    return {each.name: each.max_version_level for each in answer.finalized_features}


async def test_every_controller_tells_what_is_finalized_and_what_it_supports(cluster: Cluster) -> None:
    await cluster.create("before", at=1)
    await caught_up(cluster)
    answers = [await api_versions(cluster, node_id) for node_id in VOTERS]

    assert [{METADATA_VERSION: FORMATTED, **default_levels(FORMATTED)}] * 3 == [finalized(answer) for answer in answers]
    assert 1 == len({answer.finalized_features_epoch for answer in answers})
    assert 0 < answers[0].finalized_features_epoch < (await cluster.find(1)).high_watermark
    supported = {each.name: (each.min_version, each.max_version) for each in answers[0].supported_features}
    assert supported_features() == supported
    served = {each.api_key: (each.min_version, each.max_version) for each in answers[0].api_keys}
    assert (2, 7) == served[CREATE_TOPICS]


async def test_a_level_is_not_raised_over_the_head_of_a_voter_that_has_not_registered(cluster: Cluster) -> None:
    active = await cluster.active()
    absent = max(others(active))
    stub = cluster.controller_stub(active)
    await call_with_retries(stub.UpdateFeatures, to(METADATA_VERSION, CONTROLLER_UNREGISTRATION, UPGRADE))
    before = await api_versions(cluster, active)
    assert CONTROLLER_UNREGISTRATION == finalized(before)[METADATA_VERSION]
    await cluster.kill(cluster.controller(absent))
    await call_with_retries(stub.UnregisterController, UnregisterControllerRequest(controller_id=absent))

    for validate_only in (True, False):
        request = to(SHARE, 0, SAFE_DOWNGRADE, validate_only=validate_only)
        with pytest.raises(ApiError, match=f"controller {absent} has not registered") as refused:
            await call_with_retries(stub.UpdateFeatures, request)
        assert ErrorCode.INVALID_UPDATE_VERSION is refused.value.code
    assert before == await api_versions(cluster, active)

    await cluster.restart(cluster.controller(absent))

    async def granted() -> bool:
        """Its registration is on its way."""
        try:
            await call_with_retries(stub.UpdateFeatures, to(SHARE, 0, SAFE_DOWNGRADE))
        except ApiError as refusal:
            assert "has not registered" in refusal.message
            return False
        return True

    await eventually(granted)
    for node_id in VOTERS:  # each tells what it has applied, and may be behind
        after = await eventually(
            lambda at=node_id: api_versions(cluster, at),  # type: ignore[misc]
            lambda told: before.finalized_features_epoch < told.finalized_features_epoch,
        )
        assert SHARE not in finalized(after)
