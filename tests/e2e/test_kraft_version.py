"""A quorum with configured voters takes them into its log, and goes on (KIP-853)."""

from __future__ import annotations

import pytest

from kraft.api.update_features_pb2 import UpdateFeaturesRequest
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import uuid_text
from quorate.storage.meta_properties import read_meta_properties
from tests.e2e.calls import call_with_retries, eventually
from tests.e2e.cluster import VOTERS, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

UPGRADE, SAFE_DOWNGRADE = 1, 2


def to(level: int, *, upgrade_type: int = UPGRADE, validate_only: bool = False) -> UpdateFeaturesRequest:
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="kraft.version", max_version_level=level, upgrade_type=upgrade_type
    )
    return UpdateFeaturesRequest(feature_updates=[update], validate_only=validate_only)


async def update(cluster: Cluster, request: UpdateFeaturesRequest) -> ErrorCode:
    """What becomes of it; a voter that has not reported itself yet is waited for."""

    async def tried() -> ErrorCode:
        try:
            await call_with_retries(cluster.controller_stub(2).UpdateFeatures, request)
        except ApiError as refusal:
            return refusal.code
        return ErrorCode.NONE

    return await eventually(tried, lambda code: code is ErrorCode.NONE)


async def test_the_voters_go_into_the_log(cluster: Cluster) -> None:
    await cluster.create("before", at=1)
    assert [0, 0, 0] == [(await cluster.find(node_id)).kraft_version for node_id in VOTERS]

    await update(cluster, to(1, validate_only=True))
    assert [0, 0, 0] == [(await cluster.find(node_id)).kraft_version for node_id in VOTERS]

    await update(cluster, to(1))
    await cluster.create("after", at=3)

    wanted = [(node_id, directory_id(cluster, node_id)) for node_id in VOTERS]

    async def voters() -> list[list[tuple[int, str]]]:
        views = [await cluster.find(node_id) for node_id in VOTERS]
        return [[(voter.id, voter.directory_id) for voter in view.voters] for view in views]

    assert [wanted] * 3 == await eventually(voters, lambda seen: seen == [wanted] * 3)
    assert [1, 1, 1] == [(await cluster.find(node_id)).kraft_version for node_id in VOTERS]


async def test_there_is_no_way_back(cluster: Cluster) -> None:
    with pytest.raises(ApiError, match="cannot be lowered to 0") as refused:
        await call_with_retries(cluster.controller_stub(1).UpdateFeatures, to(0, upgrade_type=SAFE_DOWNGRADE))

    assert ErrorCode.INVALID_UPDATE_VERSION == refused.value.code


async def test_the_voters_of_the_log_outlive_a_restart(cluster: Cluster) -> None:
    await cluster.end_voters()
    await cluster.heal()
    await cluster.create("restarted", at=2)

    assert [1, 1, 1] == [(await cluster.find(node_id)).kraft_version for node_id in VOTERS]
    assert {"before", "after", "restarted"} <= (await cluster.topics(at=1)).keys()


def directory_id(cluster: Cluster, node_id: int) -> str:
    meta = read_meta_properties(cluster.plan.log_dir(node_id))
    assert meta is not None
    assert meta.directory_id is not None, meta
    return uuid_text(meta.directory_id)
