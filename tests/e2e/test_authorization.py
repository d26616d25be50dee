"""A cluster with an authorizer: super users make the first entries, and then the entries decide, at every door."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kraft.api.alter_client_quotas_pb2 import AlterClientQuotasRequest
from kraft.api.create_acls_pb2 import CreateAclsRequest
from kraft.api.delete_acls_pb2 import DeleteAclsRequest
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.describe_acls_pb2 import DescribeAclsRequest
from kraft.api.describe_client_quotas_pb2 import DescribeClientQuotasRequest
from kraft.api.describe_configs_pb2 import DescribeConfigsRequest
from kraft.service.admin_pb2 import AdminRequest
from quorate.authorizer import STANDARD_AUTHORIZER
from quorate.errors import ApiError, ErrorCode
from quorate.metadata import configs
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from tests.e2e.calls import WITHIN_S, call_with_retries, eventually
from tests.e2e.cluster import PATIENT, VOTERS, Cluster

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

QUORUM_SETTINGS = PATIENT

CONTROLLER_SETTINGS = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
NONE, REFUSED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
CLUSTER, TOPIC, GROUP = ResourceType.CLUSTER, ResourceType.TOPIC, ResourceType.GROUP


def entry(
    operation: AclOperation, kind: ResourceType, name: str, pattern: PatternType
) -> CreateAclsRequest.AclCreation:
    """Everybody may, from this machine."""
    return CreateAclsRequest.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal="User:ANONYMOUS",
        host="127.0.0.1",
        operation=operation,
        permission_type=AclPermission.ALLOW,
    )


ENTRIES = [
    # The cluster's own nodes are nobody else than their clients here: everything is in the clear.
    entry(AclOperation.CLUSTER_ACTION, CLUSTER, "kafka-cluster", PatternType.LITERAL),
    entry(AclOperation.DESCRIBE, CLUSTER, "kafka-cluster", PatternType.LITERAL),
    entry(AclOperation.CREATE, TOPIC, "open-", PatternType.PREFIXED),
    entry(AclOperation.DELETE, TOPIC, "open-", PatternType.PREFIXED),
    entry(AclOperation.DESCRIBE_CONFIGS, GROUP, "*", PatternType.LITERAL),
]


async def set_super_users(cluster: Cluster, users: str) -> None:
    """Every controller anew, by other settings."""
    for process in cluster.plan.controllers:
        await cluster.kill(process, signal.SIGTERM)
        process.settings["super.users"] = users
    for process in cluster.plan.controllers:
        await cluster.restart(process)
    await cluster.active()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def decided(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Entries are there, a topic that none is about, and nobody is super."""
    await cluster.create("closed-1", at=1)
    created = (
        await call_with_retries(cluster.controller_stub(2).CreateAcls, CreateAclsRequest(creations=ENTRIES))
    ).response
    assert [NONE] * len(ENTRIES) == [ErrorCode(result.error_code) for result in created.results]
    await set_super_users(cluster, "")
    yield cluster


async def refusal(cluster: Cluster, door: int, rpc: str, request: object) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        await call_with_retries(getattr(cluster.controller_stub(door), rpc), request)
    return refused.value.code


@pytest.mark.parametrize("door", VOTERS)
async def test_topics_are_created_seen_and_deleted_by_whom_entries_allow(decided: Cluster, door: int) -> None:
    name = f"open-{door}"
    created = await decided.create(name, f"closed-{door + 1}", at=door)

    assert {name: NONE, f"closed-{door + 1}": REFUSED} == {
        each.name: ErrorCode(each.error_code) for each in created.topics
    }
    assert [name] == list(await decided.topics(at=door))

    asked = [DeleteTopicsRequest.DeleteTopicState(name=each) for each in (name, "closed-1", "nobody")]
    deleted = await call_with_retries(decided.controller_stub(door).DeleteTopics, DeleteTopicsRequest(topics=asked))

    assert {name: NONE, "closed-1": REFUSED, "nobody": REFUSED} == {
        each.name: ErrorCode(each.error_code) for each in deleted.response.responses
    }
    assert {} == await decided.topics(at=door)


async def test_what_is_allowed_for_every_group_is_not_for_one_that_begins_with_the_wildcard(decided: Cluster) -> None:
    """As with Kafka's StandardAuthorizer."""
    names = ("readers", "*", "*readers", "readers*")
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(resource_type=configs.GROUP, resource_name=name)
        for name in names
    ]
    request = DescribeConfigsRequest(resources=resources)
    described = (await call_with_retries(decided.controller_stub(1).DescribeConfigs, request)).response

    assert dict.fromkeys(names, NONE) | {"*readers": ErrorCode.GROUP_AUTHORIZATION_FAILED} == {
        each.resource_name: ErrorCode(each.error_code) for each in described.results
    }


@pytest.mark.parametrize("door", VOTERS)
async def test_what_concerns_the_cluster_is_refused_at_every_door(decided: Cluster, door: int) -> None:
    entity = AlterClientQuotasRequest.EntryData.EntityData(entity_type="user", entity_name="alice")
    quotas = AlterClientQuotasRequest(entries=[AlterClientQuotasRequest.EntryData(entity=[entity])])
    asked: dict[str, object] = {
        "AlterClientQuotas": quotas,
        "DescribeClientQuotas": DescribeClientQuotasRequest(),
        "CreateAcls": CreateAclsRequest(creations=ENTRIES),
        "DeleteAcls": DeleteAclsRequest(),
        "Submit": AdminRequest(alter_client_quotas=quotas),
    }
    codes = {rpc: await refusal(decided, door, rpc, request) for rpc, request in asked.items()}

    assert dict.fromkeys(asked, ErrorCode.CLUSTER_AUTHORIZATION_FAILED) == codes
    assert asked.keys() - {"Submit"} <= denied(decided)


def denied(cluster: Cluster) -> set[str]:
    """The requests that the controllers have written down as denied to whom everybody is."""
    lines = [line for log in cluster.plan.directory.glob("controller-*.log") for line in log.read_text().splitlines()]
    told = [dict(word.split("=", 1) for word in line.split(" ")) for line in lines if "kafka.authorizer.logger" in line]
    assert {("denied", "User:ANONYMOUS", "127.0.0.1")} == {
        (each["event"], each["principal"], each["host"]) for each in told
    }
    return {each["request"] for each in told}


async def test_what_may_be_described_is_and_the_cluster_goes_on(decided: Cluster) -> None:
    every = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        pattern_type_filter=PatternType.ANY,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    described = (await call_with_retries(decided.controller_stub(3).DescribeAcls, every)).response

    assert [(TOPIC, "open-", 2), (GROUP, "*", 1), (CLUSTER, "kafka-cluster", 2)] == [
        (each.resource_type, each.resource_name, len(each.acls)) for each in described.resources
    ]
    assert 3 == len((await decided.describe_quorum(2)).current_voters)

    # A broker's going and coming, and what the heartbeat service says of it, are let in by CLUSTER_ACTION.
    await asyncio.wait_for(decided.brokers[103].shut_down(), WITHIN_S)
    await decided.join(103)
    created = await decided.create("open-again", at=1)
    assert [NONE] == [ErrorCode(each.error_code) for each in created.topics]


async def test_a_super_user_may_take_entries_back(decided: Cluster) -> None:
    await set_super_users(decided, "User:somebody;User:ANONYMOUS")
    wanted = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=TOPIC,
        pattern_type_filter=PatternType.ANY,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    response = (
        await call_with_retries(decided.controller_stub(1).DeleteAcls, DeleteAclsRequest(filters=[wanted]))
    ).response

    assert ["open-", "open-"] == [match.resource_name for match in response.filter_results[0].matching_acls]
    await eventually(lambda: decided.topics(at=1), lambda topics: "closed-1" in topics)


async def test_quotas_of_hosts_are_for_hosts_that_can_be_looked_up(decided: Cluster) -> None:
    asked = AlterClientQuotasRequest.EntryData
    rate = asked.OpData(key="connection_creation_rate", value=10)
    request = AlterClientQuotasRequest(
        entries=[
            asked(entity=[asked.EntityData(entity_type="ip", entity_name=name)], ops=[rate])
            for name in ("localhost", "nobody.invalid")
        ]
    )
    altered = (await call_with_retries(decided.controller_stub(2).AlterClientQuotas, request)).response

    assert [NONE, ErrorCode.INVALID_REQUEST] == [ErrorCode(entry.error_code) for entry in altered.entries]

    described = (
        await call_with_retries(decided.controller_stub(3).DescribeClientQuotas, DescribeClientQuotasRequest())
    ).response
    told = {entry.entity[0].entity_name: entry.values[0].value for entry in described.entries.items}
    assert {"localhost": 10.0} == told
