"""CreateTopics, CreatePartitions, DeleteTopics within a client's quota: what is too much is refused by topic. KIP-599.

The command decides as it would for anybody. What it would do is counted, topic by topic in the order of its answer,
and paid for; once the bucket owes something the other topics are refused, and the command decides again on the rest.
What is refused for another reason costs nothing. What is only to be validated costs what it would if it were meant, as
with Kafka's controllers: it is decided like any other, and who has no room for it hears so before it is meant.

This is Kafka's strict quota, which holds from CreateTopics 6, CreatePartitions 3 and DeleteTopics 5 on; older requests,
which were delayed instead, are not spoken here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kraft.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kraft.api.create_topics import CreateTopicsResponse
from kraft.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from quorate.controller.decision import Command, Decision, Moment
from quorate.controller.mutation_quotas import Purse
from quorate.errors import ErrorCode
from quorate.metadata.state import ClusterState

__all__ = ["METERS", "metered"]


class Meter(NamedTuple):
    """How the mutations of one API are counted. Topics go by their names."""

    costs: Callable[[ClusterState, Any, Any], Iterator[tuple[str, int]]]
    """Each topic of the request that the response grants, and how many partitions that makes or removes."""
    without: Callable[[ClusterState, Any, Collection[str]], Any]
    """The request without these topics."""
    results: str
    """The field of the response that has one result a topic."""
    refusal: Callable[[ClusterState, str, int, str], Any]
    """The result of a topic that is refused, by its name, with this error code and message."""


def metered(api: str, asked: Any, make: Callable[[Any], Command[Any]], purse: Purse) -> Command[Any]:
    """The command of `make` for as much of the request `asked` as can be paid for; the rest is refused by topic.

    Refused are topics with THROTTLING_QUOTA_EXCEEDED, and the response says for how long. It may be decided twice, and
    is paid once. Raises what the command raises, and then costs nothing.
    """
    meter = METERS[api]

    def command(state: ClusterState, moment: Moment) -> Decision[Any]:
        begun = tokens = purse.open(moment.now_ms)
        paid: set[str] = set()
        refused: dict[str, None] = {}
        while True:
            decision = make(meter.without(state, asked, refused) if refused else asked)(state, moment)
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
    """They may be there by name or by id."""
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
"""By the RPC's name: what a quota counts."""
