"""Who may do what, as a broker tells it: ACLs, quotas, SCRAM users and delegation tokens that it has applied."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kraft import Message, Uuid
from kraft.api.describe_acls import DescribeAclsRequest
from kraft.api.describe_client_quotas import DescribeClientQuotasRequest
from kraft.api.describe_delegation_token import DescribeDelegationTokenRequest
from kraft.api.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kraft.protocol.request_header import RequestHeader
from quorate.authorizer import CLUSTER_NAME, StandardAuthorizer
from quorate.controller.access.delegation_tokens import TokenSettings, token_hmac
from quorate.errors import ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.protocol import Request
from quorate.protocol.apis import api_of
from quorate.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)
from quorate.runtime.event_loop.clock import SystemClock
from services.broker.callers import Caller
from services.broker.cluster import Cluster
from services.broker.reads import NO_TOKENS, Reads
from services.broker.wire import SERVED
from tests.services.broker import test_partitions
from tests.services.broker.calling import LISTENER, USER, caller, user_with
from tests.services.broker.test_partitions import LEVELS, ME, running

disks = test_partitions.disks
ACLS = DescribeAclsRequest(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter=None,
    principal_filter=None,
    host_filter=None,
    pattern_type_filter=PatternType.ANY,
    operation=AclOperation.ANY,
    permission_type=AclPermission.ANY,
)
QUOTAS = DescribeClientQuotasRequest()
USERS = DescribeUserScramCredentialsRequest(users=None)
TOKENS = DescribeDelegationTokenRequest(owners=None)
WITH_TOKENS = TokenSettings(secret_key="of all brokers")

KNOWN = (
    LEVELS,
    AccessControlEntryRecord(
        Uuid(bytes([7]) * 16), ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:bob", "*", 3, 3
    ),
    ClientQuotaRecord(
        entity=(ClientQuotaRecord.EntityData("user", "bob"),), key="producer_byte_rate", value=1024.0, remove=False
    ),
    UserScramCredentialRecord(
        name="bob", mechanism=2, salt=b"s" * 8, stored_key=b"k" * 64, server_key=b"k" * 64, iterations=8192
    ),
    *(
        DelegationTokenRecord(
            owner=owner,
            requester=owner,
            renewers=(),
            issue_timestamp=1,
            max_timestamp=1 << 50,
            expiration_timestamp=1 << 50,
            token_id=token_id,
        )
        for owner, token_id in ((str(USER), "mine"), ("User:bob", "his"))
    ),
)


class Asked:
    """What a broker answers that has applied all of that."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    async def __call__(self, message: Message, who: Caller, *, is_token: bool = False) -> Any:
        api = api_of(type(message))
        header = RequestHeader(api.key, api.versions[-1], 1, "admin")
        request = Request(api=api, header=header, message=message, principal=USER, is_token=is_token)
        return await self._reads.answer(request, who)


@asynccontextmanager
async def broker(disks: list[Path], tokens: TokenSettings = WITH_TOKENS) -> AsyncIterator[Asked]:
    async with running(disks) as scene:
        scene.log.append(*KNOWN)
        await scene.replayed()
        cluster = Cluster(ME, "ours", LISTENER, lambda: scene.replica.state, scene.replicas.table)
        yield Asked(Reads(ME, scene.replica, cluster, SystemClock(), tokens))


def on_cluster(operation: AclOperation) -> Caller:
    return user_with((operation, ResourceType.CLUSTER, CLUSTER_NAME))


async def test_tells_what_the_log_has(disks: list[Path]) -> None:
    async with broker(disks) as ask:
        acls = await ask(ACLS, on_cluster(AclOperation.DESCRIBE))
        quotas = await ask(QUOTAS, on_cluster(AclOperation.DESCRIBE_CONFIGS))
        users = await ask(USERS, on_cluster(AclOperation.DESCRIBE))
        tokens = await ask(TOKENS, caller())

    assert [("orders", ["User:bob"])] == [
        (each.resource_name, [acl.principal for acl in each.acls]) for each in acls.resources
    ]
    assert [("bob", {"producer_byte_rate": 1024.0})] == [
        (each.entity[0].entity_name, {value.key: value.value for value in each.values}) for each in quotas.entries
    ]
    assert [("bob", [(2, 8192)])] == [
        (each.user, [(info.mechanism, info.iterations) for info in each.credential_infos]) for each in users.results
    ]
    assert [(each, token_hmac(WITH_TOKENS, each)) for each in ("his", "mine")] == [
        (each.token_id, each.hmac) for each in tokens.tokens
    ]


@pytest.mark.parametrize("asked", [ACLS, QUOTAS, USERS], ids=["ACLs", "quotas", "SCRAM users"])
async def test_is_told_to_nobody_without_the_right_on_the_cluster(disks: list[Path], asked: Message) -> None:
    async with broker(disks) as ask:
        answer = await ask(asked, on_cluster(AclOperation.CREATE))

    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED == answer.error_code
    assert "is required" in answer.error_message
    assert () == next(
        getattr(answer, name) or () for name in ("resources", "entries", "results") if hasattr(answer, name)
    )


async def test_without_an_authorizer_there_are_no_acls(disks: list[Path]) -> None:
    async with broker(disks) as ask:
        answer = await ask(ACLS, caller())

    assert ErrorCode.SECURITY_DISABLED == answer.error_code


async def test_of_tokens_ones_own_are_told_and_none_to_who_has_logged_in_with_one(disks: list[Path]) -> None:
    """Those of others need DESCRIBE on the token; a secret key is what makes them."""
    async with broker(disks) as ask:
        own = await ask(TOKENS, caller(StandardAuthorizer()))
        by_token = await ask(TOKENS, caller(), is_token=True)
    async with broker(disks, NO_TOKENS) as without:
        off = await without(TOKENS, caller())

    assert ["mine"] == [each.token_id for each in own.tokens]
    assert ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED == by_token.error_code
    assert () == by_token.tokens
    assert ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED == off.error_code


def test_they_are_offered() -> None:
    assert {api_of(type(each)).key for each in (ACLS, QUOTAS, USERS, TOKENS)} <= SERVED.keys()
