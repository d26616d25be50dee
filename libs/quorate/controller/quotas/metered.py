"""Mutation quotas on CreateTopics, CreatePartitions and DeleteTopics: topics beyond the quota are refused. KIP-599.

The command first decides as without a quota. Its partitions are then counted, topic by topic in the order of the
response, and taken from the client's token bucket. Once the bucket is below zero the remaining topics are refused, and
the command decides again without them. A topic that is refused for another reason costs nothing. A request with
validate_only costs as much as a real one, as in Kafka's controllers.

This is Kafka's strict quota, which applies from CreateTopics 6, CreatePartitions 3 and DeleteTopics 5 on. Older
versions, whose responses Kafka delays instead, are not supported here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kraft.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kraft.api.create_topics import CreateTopicsResponse
from kraft.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from quorate.controller.engine.decision import Command, CommandInSteps, Decision, Moment, steps_of
from quorate.controller.engine.steps import Steps
from quorate.controller.quotas.mutation_quotas import RequestTokens
from quorate.errors import ErrorCode
from quorate.metadata.state import ClusterState

__all__ = ["METERS", "metered"]


class Meter(NamedTuple):
    """How the partition mutations of one API are counted and refused. Topics are identified by name."""

    costs: Callable[[ClusterState, Any, Any], Iterator[tuple[str, int]]]
    """Returns each topic that the response grants, with the number of partitions that it creates or deletes."""
    without: Callable[[ClusterState, Any, Collection[str]], Any]
    """Returns the request without the topics of these names, which the quota refuses."""
    results: str
    """The name of the response field with one result per topic."""
    refusal: Callable[[ClusterState, str, int, str], Any]
    """Makes the result of a refused topic from its name, an error code and a message."""


def metered(api: str, asked: Any, make: Callable[[Any], Command[Any]], purse: RequestTokens) -> Command[Any]:
    """Returns the command of `make` for as many topics of the request `asked` as the token bucket allows.

    The other topics get THROTTLING_QUOTA_EXCEEDED, and the response has throttle_time_ms. A command that runs twice
    takes its tokens once. If the command raises, the error passes through and no tokens are taken.
    """
    meter = METERS[api]

    @CommandInSteps
    def command(state: ClusterState, moment: Moment) -> Steps[Decision[Any]]:
        begun = tokens = purse.open(moment.now_ms)
        paid: set[str] = set()
        refused: dict[str, None] = {}
        while True:
            left = meter.without(state, asked, refused) if refused else asked
            decision = yield from steps_of(make(left), state, moment)
            before = len(refused)
            for name, cost in meter.costs(state, asked, decision.response):
                if name in paid:
                    continue
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
        wait_ms = purse.wait_ms(tokens)
        why = _why(purse.quota.rate, wait_ms)
        refusals = tuple(meter.refusal(state, name, int(ErrorCode.THROTTLING_QUOTA_EXCEEDED), why) for name in refused)
        results = (*getattr(decision.response, meter.results), *refusals)
        response = replace(decision.response, **{meter.results: results, "throttle_time_ms": wait_ms})
        return dataclasses.replace(decision, response=response)

    return command


def _why(rate: float, wait_ms: int) -> str:
    return (
        f"the client's quota of {rate:g} partitions a second, made or removed, is used up; the next one is in "
        f"{wait_ms} ms"
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


def _without_names(_: ClusterState, asked: Any, names: Collection[str]) -> Any:
    return replace(asked, topics=tuple(topic for topic in asked.topics if topic.name not in names))


def _without_deleted(state: ClusterState, asked: DeleteTopicsRequest, names: Collection[str]) -> DeleteTopicsRequest:
    """Returns the request without these topics, which it may name by topic name or by id."""
    ids = {state.topics.id_of(name) for name in names}
    return replace(
        asked,
        topics=tuple(each for each in asked.topics if each.name not in names and each.topic_id not in ids),
        topic_names=tuple(name for name in asked.topic_names if name not in names),
    )


def _not_deleted(state: ClusterState, name: str, code: int, why: str) -> DeleteTopicsResponse.DeletableTopicResult:
    topic_id = state.topics.id_of(name)
    assert topic_id is not None, name
    return DeleteTopicsResponse.DeletableTopicResult(name, topic_id, code, why)


METERS: Final[Mapping[str, Meter]] = {
    "CreatePartitions": Meter(
        _grown,
        _without_names,
        "results",
        lambda _, name, code, why: CreatePartitionsResponse.CreatePartitionsTopicResult(name, code, why),
    ),
    "CreateTopics": Meter(
        _created,
        _without_names,
        "topics",
        lambda _, name, code, why: CreateTopicsResponse.CreatableTopicResult(
            name=name, error_code=code, error_message=why
        ),
    ),
    "DeleteTopics": Meter(_deleted, _without_deleted, "responses", _not_deleted),
}
"""How each API's partition mutations are counted, by RPC name."""
