"""Older versions: requests in the shape of the newest version, as the services expect them, and answers back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from kraft import Message
from kraft.api.end_quorum_epoch import EndQuorumEpochRequest
from kraft.api.fetch import FetchRequest
from kraft.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from quorate.wire.fitting import fitted
from services.gateway.refusals import RepeatedError

__all__ = ["answered_in", "as_newest"]

_Update = UpdateFeaturesRequest.FeatureUpdateKey
_Candidate = EndQuorumEpochRequest.TopicData.PartitionData.ReplicaInfo
UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
REPLICA_STATE_SINCE: Final = 15
"""The version of Fetch from which the replica is in `replica_state`. KIP-903."""
ALL_OR_NONE_SINCE: Final = 2
"""The version of UpdateFeatures from which an answer has no result for each feature. KIP-1022."""


def as_newest(request: Message, version: int) -> Message:
    """Returns the request with the fields of the newest version in place of those that an older one had.

    DeleteTopics by `topic_names` and AlterPartition with `new_isr` are left as they are: the controller reads both.
    """
    change = _REQUESTS.get(type(request))
    newest: Message = request if change is None else change(request, version)
    return newest


def answered_in(version: int, request: Message, response: Message) -> Message:
    """Returns the response as `version` can carry it."""
    if isinstance(response, UpdateFeaturesResponse) and version < ALL_OR_NONE_SINCE:
        assert isinstance(request, UpdateFeaturesRequest), request
        result = UpdateFeaturesResponse.UpdatableFeatureResult
        error = RepeatedError(response.error_code, response.error_message)
        results = tuple(result(each.feature, **error()) for each in request.feature_updates)
        response = replace(response, results=results)
    return fitted(response, version)


def _fetch(request: Any, version: int) -> Any:
    if version >= REPLICA_STATE_SINCE:
        return request
    return replace(request, replica_state=FetchRequest.ReplicaState(request.replica_id))


def _end_quorum_epoch(request: Any, version: int) -> Any:
    if version >= 1:
        return request

    def partition(each: Any) -> Any:
        return replace(each, preferred_candidates=tuple(map(_Candidate, each.preferred_successors)))

    def topic(each: Any) -> Any:
        return replace(each, partitions=tuple(map(partition, each.partitions)))

    return replace(request, topics=tuple(map(topic, request.topics)))


def _update_features(request: Any, version: int) -> Any:
    if version >= 1:
        return request

    def update(each: _Update) -> _Update:
        return replace(each, upgrade_type=SAFE_DOWNGRADE if each.allow_downgrade else UPGRADE)

    return replace(request, feature_updates=tuple(map(update, request.feature_updates)))


_REQUESTS: Final[Mapping[type[Message], Callable[[Any, int], Any]]] = {
    FetchRequest: _fetch,
    EndQuorumEpochRequest: _end_quorum_epoch,
    UpdateFeaturesRequest: _update_features,
}
