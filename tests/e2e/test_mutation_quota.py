"""A client with a quota creates topics: it is held to it at every door, and nobody else is. KIP-599."""

from __future__ import annotations

from functools import partial

import pytest

from kraft.api.alter_client_quotas_pb2 import AlterClientQuotasRequest
from kraft.api.create_topics_pb2 import CreateTopicsRequest, CreateTopicsResponse
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.service.admin_pb2 import AdminRequest
from quorate.errors import ErrorCode
from tests.e2e.calls import call_with_retries
from tests.e2e.cluster import PATIENT, VOTERS, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT

NONE, LATE = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
RATE = 0.001
"""Partitions a second: what one topic owes is made good in a quarter of an hour, which no story lasts."""
Entry = AlterClientQuotasRequest.EntryData


async def limit(cluster: Cluster, client_id: str) -> None:
    entity = Entry.EntityData(entity_type="client-id", entity_name=client_id)
    quota = Entry.OpData(key="controller_mutation_rate", value=RATE)
    request = AlterClientQuotasRequest(entries=[Entry(entity=[entity], ops=[quota])])
    answer = await call_with_retries(cluster.controller_stub(1).AlterClientQuotas, request)
    assert [0] == [entry.error_code for entry in answer.response.entries], answer


def topic(name: str) -> CreateTopicsRequest:
    created = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[created])


async def create(cluster: Cluster, name: str, *, client_id: str, door: int) -> CreateTopicsResponse:
    method = partial(cluster.controller_stub(door).CreateTopics, metadata=(("client-id", client_id),))
    response: CreateTopicsResponse = (await call_with_retries(method, topic(name))).response
    return response


async def test_a_client_is_held_to_its_quota_at_every_door(cluster: Cluster) -> None:
    """Two of the three controllers pass its requests on: there is one bucket, at the active one."""
    await limit(cluster, "slow")
    answers = [await create(cluster, f"slow-{door}", client_id="slow", door=door) for door in VOTERS]

    assert [NONE, LATE, LATE] == [ErrorCode(answer.topics[0].error_code) for answer in answers]
    assert 0 == answers[0].throttle_time_ms
    # One partition is owed, less what the bucket began with: 11 windows of a second.
    assert all(0 < answer.throttle_time_ms <= (1 / RATE - 11) * 1000 for answer in answers[1:])
    assert ["slow-1"] == [name for name in await cluster.topics(at=2) if name.startswith("slow")]


async def test_nobody_else_is(cluster: Cluster) -> None:
    await limit(cluster, "held")
    held = [await create(cluster, f"held-{count}", client_id="held", door=1) for count in range(2)]
    other = await create(cluster, "other", client_id="other", door=1)
    nameless = (await cluster.create("nameless", at=2)).topics

    assert [NONE, LATE, NONE, NONE] == [
        ErrorCode(each.error_code) for each in (*held[0].topics, *held[1].topics, *other.topics, *nameless)
    ]


async def test_what_is_only_asked_for_costs_too(cluster: Cluster) -> None:
    await limit(cluster, "careful")
    submit = partial(cluster.controller_stub(3).Submit, metadata=(("client-id", "careful"),))
    asked = AdminRequest(validate_only=True, create_topics=topic("careful"))
    shown = (await call_with_retries(submit, asked)).response.create_topics
    meant = await create(cluster, "careful", client_id="careful", door=3)

    assert [NONE, LATE] == [ErrorCode(each.error_code) for each in (*shown.topics, *meant.topics)]
    assert "careful" not in await cluster.topics(at=1)


async def test_what_goes_costs_too(cluster: Cluster) -> None:
    await limit(cluster, "tidy")
    delete = partial(cluster.controller_stub(3).DeleteTopics, metadata=(("client-id", "tidy"),))
    made = await create(cluster, "tidy", client_id="tidy", door=3)
    gone = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="tidy")])
    deleted = (await call_with_retries(delete, gone)).response

    assert [NONE, LATE] == [ErrorCode(each.error_code) for each in (*made.topics, *deleted.responses)]
    assert "tidy" in await cluster.topics(at=1)
