"""ApiVersions: what is finalized, and its epoch, which grows with every change and never otherwise (KIP-584)."""

from __future__ import annotations

from quorate.controller.api_versions import api_versions
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import METADATA_VERSION
from quorate.records import FeatureLevelRecord, NoOpRecord


def told(state: ClusterState, kraft_version: int = 0) -> tuple[int, dict[str, int]]:
    answer = api_versions(state.features, kraft_version=kraft_version, served=())
    return answer.finalized_features_epoch, {
        each.name: each.max_version_level for each in answer.finalized_features if each.min_version_level
    }


def test_nothing_is_finalized_before_there_is_a_metadata_version() -> None:
    state = ClusterState()
    assert (-1, {}) == told(state, kraft_version=1)

    state.apply(FeatureLevelRecord("group.version", 1), 4)
    assert (-1, {}) == told(state)


def test_the_epoch_is_where_the_last_level_was_set() -> None:
    state = ClusterState()
    state.apply(FeatureLevelRecord(METADATA_VERSION, 25), 3)
    state.apply(NoOpRecord(), 4)
    assert (3, {METADATA_VERSION: 25}) == told(state)
    assert (3, {METADATA_VERSION: 25, "kraft.version": 1}) == told(state, kraft_version=1)

    state.apply(FeatureLevelRecord("group.version", 1), 5)
    assert (5, {METADATA_VERSION: 25, "group.version": 1}) == told(state)

    state.apply(FeatureLevelRecord("group.version", 0), 6)
    assert (6, {METADATA_VERSION: 25}) == told(state)


def test_what_follows_a_checkpoint_has_a_higher_epoch() -> None:
    """A checkpoint that ends at 100 holds records up to 99: the next may lie at 100."""
    state = ClusterState()
    state.load([FeatureLevelRecord(METADATA_VERSION, 25)], 100)
    assert 99 == told(state)[0]

    state.apply(FeatureLevelRecord(METADATA_VERSION, 26), 100)
    assert (100, {METADATA_VERSION: 26}) == told(state)


def test_who_goes_back_has_the_epoch_of_before() -> None:
    state = ClusterState()
    state.apply(FeatureLevelRecord(METADATA_VERSION, 25), 3)
    state.registry.create(4)
    state.apply(FeatureLevelRecord(METADATA_VERSION, 26), 4)
    assert (3, {METADATA_VERSION: 25}) == told(state.at(4))

    state.registry.revert_to(4)
    assert (3, {METADATA_VERSION: 25}) == told(state)
