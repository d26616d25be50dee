"""Older versions: requests in the shape of the newest version, as the services expect them, and answers back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from kraft import Message
from kraft.api.end_quorum_epoch import EndQuorumEpochRequest
from kraft.api.fetch import FetchRequest
from kraft.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from quorate.runtime.event_loop.turns import in_turns
from quorate.runtime.requests.refusals import RepeatedError
from quorate.wire.fitting import fitted, fitted_in_steps, is_whole
from quorate.wire.items import Items, Steps, each_in_steps, has_many_items

__all__ = ["answered_in", "as_newest"]

_Update = UpdateFeaturesRequest.FeatureUpdateKey
_Candidate = EndQuorumEpochRequest.TopicData.PartitionData.ReplicaInfo
UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
REPLICA_STATE_SINCE: Final = 15
"""The version of Fetch from which the replica is in `replica_state`. KIP-903."""
ALL_OR_NONE_SINCE: Final = 2
"""The version of UpdateFeatures from which an answer has no result for each feature. KIP-1022."""


async def as_newest(request: Message, version: int) -> Message:
    """Returns the request with the fields of the newest version in place of those that an older one had.

    DeleteTopics by `topic_names` and AlterPartition with `new_isr` are left as they are: the controller reads both.
    """
    change = _REQUESTS.get(type(request))
    return request if change is None else await in_turns(change(request, version))


async def answered_in(version: int, request: Message, response: Message) -> Message:
    """Returns the response without what `version` cannot carry.

    UpdateFeatures below version 2 gets a result for each feature of `request`, as Kafka's has.
    """
    if isinstance(response, UpdateFeaturesResponse) and version < ALL_OR_NONE_SINCE:
        assert isinstance(request, UpdateFeaturesRequest), request
        result = UpdateFeaturesResponse.UpdatableFeatureResult
        error = RepeatedError(response.error_code, response.error_message)
        each_feature = each_in_steps(lambda each: result(each.feature, **error()), request.feature_updates, Items())
        response = replace(response, results=await in_turns(each_feature))
    if is_whole(response, version):
        return response
    if has_many_items(response):
        return await in_turns(fitted_in_steps(response, version))
    return fitted(response, version)


def _fetch(request: Any, version: int) -> Steps[Any]:
    yield from ()
    if version >= REPLICA_STATE_SINCE:
        return request
    return replace(request, replica_state=FetchRequest.ReplicaState(request.replica_id))


def _end_quorum_epoch(request: Any, version: int) -> Steps[Any]:
    if version >= 1:
        return request
    done, topics = Items(), []
    for topic in request.topics:
        partitions = []
        for each in topic.partitions:
            candidates = yield from each_in_steps(_Candidate, each.preferred_successors, done)
            partitions.append(replace(each, preferred_candidates=candidates))
            yield from done.one()
        topics.append(replace(topic, partitions=tuple(partitions)))
        yield from done.one()
    return replace(request, topics=tuple(topics))


def _update_features(request: Any, version: int) -> Steps[Any]:
    if version >= 1:
        return request

    def update(each: _Update) -> _Update:
        return replace(each, upgrade_type=SAFE_DOWNGRADE if each.allow_downgrade else UPGRADE)

    updates = yield from each_in_steps(update, request.feature_updates, Items())
    return replace(request, feature_updates=updates)


_REQUESTS: Final[Mapping[type[Message], Callable[[Any, int], Steps[Any]]]] = {
    FetchRequest: _fetch,
    EndQuorumEpochRequest: _end_quorum_epoch,
    UpdateFeaturesRequest: _update_features,
}
