"""Mutation quotas on CreateTopics, CreatePartitions and DeleteTopics: topics beyond the quota are refused. KIP-599.

The command first decides as without a quota. Its partitions are then counted, topic by topic in the order of the
response, and taken from the client's token bucket. Once the bucket is below zero the remaining topics are refused, and
the command decides again without them. A topic that is refused for another reason costs nothing. A request with
validate_only costs as much as a real one, as in Kafka's controllers.

This is Kafka's strict quota, which applies from CreateTopics 6, CreatePartitions 3 and DeleteTopics 5 on. Older
versions, whose responses Kafka delays instead, are not supported here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kraft.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kraft.api.create_topics import CreateTopicsResponse
from kraft.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment, steps_of
from quorate.controller.engine.steps import Steps
from quorate.controller.quotas.mutation_quotas import RequestTokens
from quorate.controller.refused_items import PARTITIONS_CREATED, TOPICS_CREATED, TOPICS_DELETED, Items
from quorate.errors import ErrorCode
from quorate.metadata.state import ClusterState

__all__ = ["CREATE_PARTITIONS", "CREATE_TOPICS", "DELETE_TOPICS", "Meter", "metered"]


class Meter(NamedTuple):
    """How the partition mutations of one API are counted and refused. Topics are identified by name."""

    costs: Callable[[ClusterState, Any, Any], Iterator[tuple[str, int]]]
    """Returns each topic that the response grants, with the number of partitions that it creates or deletes."""
    items: Items
    is_one_of: Callable[[ClusterState, Any, Collection[str]], bool]
    """Returns whether an item of the request means a topic with one of these names."""
    refusal: Callable[[ClusterState, str, int, str], Any]
    """Makes the result of a refused topic from its name, an error code and a message."""


def metered(meter: Meter, asked: Any, make: Callable[[Any], Command[Any]], purse: RequestTokens) -> Command[Any]:
    """Returns a command that runs `make(asked)` for as many topics of the request as the token bucket `purse` allows.

    A topic is allowed while the bucket is not below zero. The others get THROTTLING_QUOTA_EXCEEDED, and the response
    has throttle_time_ms. A command that runs twice takes its tokens once. If it raises, the error passes through and no
    tokens are taken.
    """

    @CommandInSteps
    def command(state: ClusterState, moment: Moment) -> Steps[Decision[Any]]:
        begun = tokens = purse.open(moment.now_ms)
        paid: set[str] = set()
        refused: dict[str, None] = {}
        while True:
            left = _without(meter, state, asked, refused) if refused else asked
            decision = yield from steps_of(make(left), state, moment)
            before = len(refused)
            for name, cost in meter.costs(state, asked, decision.response):
                assert name not in refused, f"refused, and decided all the same: {name}"
                if name in paid:
                    continue
                assert cost >= 0, (name, cost)
                if tokens < 0:
                    refused[name] = None
                else:
                    paid.add(name)
                    tokens -= cost
            if len(refused) == before:
                break
        purse.leave(moment.now_ms, tokens, paid=begun - tokens)
        if not refused:
            return decision
        assert tokens < 0, f"refused, with {tokens} tokens left: {list(refused)}"
        assert paid.isdisjoint(refused), f"refused, and paid for all the same: {paid.intersection(refused)}"
        wait_ms = purse.wait_ms(tokens)
        why = _why(purse.quota.rate, wait_ms)
        refusals = tuple(meter.refusal(state, name, int(ErrorCode.THROTTLING_QUOTA_EXCEEDED), why) for name in refused)
        response = meter.items.put_back(decision.response, refusals)
        return replace(decision, response=replace(response, throttle_time_ms=wait_ms))

    return command


def _without(meter: Meter, state: ClusterState, asked: Any, names: Collection[str]) -> Any:
    left, _ = meter.items.take_out(asked, lambda item: meter.is_one_of(state, item, names) or None)
    return left


def _why(rate: float, wait_ms: int) -> str:
    return (
        f"the client's quota controller_mutation_rate of {rate:g} partitions a second is used up; the next one may be "
        f"created or deleted in {wait_ms} ms"
    )


def _created(_: ClusterState, asked: Any, response: CreateTopicsResponse) -> Iterator[tuple[str, int]]:
    for result in response.topics:
        if not result.error_code:
            yield result.name, result.num_partitions


def _grown(
    state: ClusterState, asked: CreatePartitionsRequest, response: CreatePartitionsResponse
) -> Iterator[tuple[str, int]]:
    counts = {topic.name: topic.count for topic in asked.topics}
    for result in response.results:
        topic = state.topics.by_name(result.name)
        if not result.error_code and topic is not None:
            yield result.name, counts[result.name] - len(topic.partitions)


def _deleted(state: ClusterState, asked: Any, response: DeleteTopicsResponse) -> Iterator[tuple[str, int]]:
    for result in response.responses:
        topic = state.topics.by_id(result.topic_id)
        if not result.error_code and topic is not None:
            yield topic.name, len(topic.partitions)


def _is_named(_: ClusterState, topic: Any, names: Collection[str]) -> bool:
    return topic.name in names


def _is_deleted(state: ClusterState, asked: DeleteTopicsRequest.DeleteTopicState | str, names: Collection[str]) -> bool:
    """Returns whether this is one of the topics; a request names a topic by text, or a struct with name or id."""
    if isinstance(asked, str):
        return asked in names
    by_id = state.topics.by_id(asked.topic_id)
    return asked.name in names or (by_id is not None and by_id.name in names)


def _not_deleted(state: ClusterState, name: str, code: int, why: str) -> DeleteTopicsResponse.DeletableTopicResult:
    topic_id = state.topics.id_of(name)
    assert topic_id is not None, name
    return DeleteTopicsResponse.DeletableTopicResult(name, topic_id, code, why)


CREATE_TOPICS: Final = Meter(
    _created,
    TOPICS_CREATED,
    _is_named,
    lambda _, name, code, why: CreateTopicsResponse.CreatableTopicResult(name=name, error_code=code, error_message=why),
)
CREATE_PARTITIONS: Final = Meter(
    _grown,
    PARTITIONS_CREATED,
    _is_named,
    lambda _, name, code, why: CreatePartitionsResponse.CreatePartitionsTopicResult(name, code, why),
)
DELETE_TOPICS: Final = Meter(_deleted, TOPICS_DELETED, _is_deleted, _not_deleted)
