"""DeleteTopics (20): deletes topics by name or id; each topic succeeds or fails by itself. KIP-4, KIP-516."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from kraft import Uuid
from kraft.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision, Moment
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Topic
from quorate.nouns import ZERO_UUID, uuid_text
from quorate.records import RemoveTopicRecord

__all__ = ["delete_topics"]

_Asked: TypeAlias = DeleteTopicsRequest.DeleteTopicState
_Result: TypeAlias = DeleteTopicsResponse.DeletableTopicResult


def delete_topics(request: DeleteTopicsRequest, *, settings: ControllerSettings) -> Command[DeleteTopicsResponse]:
    """Returns the command that deletes the topics of `request` and their configs.

    Each topic succeeds or fails by itself. A topic that is named twice, also once by name and once by id, is not
    deleted. The command raises ApiError(TOPIC_DELETION_DISABLED) if `delete.topic.enable` is false.
    """

    def command(state: ClusterState, _: Moment) -> Decision[DeleteTopicsResponse]:
        if not settings.delete_topic_enable:
            raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false on this controller")
        asked = tuple(_asked(request))
        doubles = dict.fromkeys(each for each, count in Counter(asked).items() if count > 1 and _means_one(each))
        results = [_result(each, _twice(each)) for each in doubles]
        records = []
        seen: Counter[Uuid] = Counter()
        for each in asked:
            if each in doubles:
                continue
            try:
                topic = _find(state, each)
            except ApiError as refusal:
                results.append(_result(each, refusal))
                continue
            seen[topic.id] += 1
            if seen[topic.id] == 1:
                records.append(RemoveTopicRecord(topic.id))
                results.append(_Result(name=topic.name, topic_id=topic.id))
        twice = {topic_id for topic_id, count in seen.items() if count > 1} | {each.topic_id for each in doubles}
        responses = tuple(_once(result, twice) for result in results)
        removals = tuple(record for record in records if record.topic_id not in twice)
        granted = [result.topic_id for result in responses if not result.error_code]
        assert granted == [record.topic_id for record in removals], (responses, removals)
        assert len(set(granted)) == len(granted), responses
        return Decision(DeleteTopicsResponse(responses=responses), removals)

    return command


def _asked(request: DeleteTopicsRequest) -> Iterator[_Asked]:
    """Yields the requested topics in one form: up to version 5 the request has only names."""
    yield from request.topics
    yield from (_Asked(name=name) for name in request.topic_names)


def _means_one(asked: _Asked) -> bool:
    """Returns whether the item has either a name or an id.

    An item with both or none fails by itself, each time it occurs.
    """
    return (asked.name is None) == (asked.topic_id != ZERO_UUID)


def _find(state: ClusterState, asked: _Asked) -> Topic:
    by_id = asked.topic_id != ZERO_UUID
    if by_id and asked.name is not None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"topic {asked.name!r}: the request names it by its id, too; it must have one of the two",
        )
    if by_id:
        topic = state.topics.by_id(asked.topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with the id {uuid_text(asked.topic_id)}")
        return topic
    if asked.name is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a topic has neither name nor id; it must have one of the two")
    topic = state.topics.by_name(asked.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {asked.name!r}")
    return topic


def _once(result: _Result, twice: set[Uuid]) -> _Result:
    """Turns the result of a topic that was requested both by name and by id into an error."""
    if result.topic_id not in twice or result.error_code:
        return result
    asked = _Asked(result.name, result.topic_id)
    return _result(asked, _twice(asked))


def _twice(asked: _Asked) -> ApiError:
    """Returns the error for a topic that is in the request twice: one may be a mistake, so it is not deleted."""
    named = uuid_text(asked.topic_id) if asked.name is None else repr(asked.name)
    return ApiError(ErrorCode.INVALID_REQUEST, f"topic {named} is in the request more than once")


def _result(asked: _Asked, refusal: ApiError) -> _Result:
    return _Result(asked.name, asked.topic_id, int(refusal.code), refusal.message)
