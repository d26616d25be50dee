"""Who may call a service that replays the log: by the entries that its own replica has applied, and never before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from kraft.service.heartbeat_pb2 import BrokerHeartbeatsRequest, BrokerHeartbeatsResponse
from kraft.service.heartbeat_pb2_grpc import HeartbeatServicer, HeartbeatStub, add_HeartbeatServicer_to_server
from quorate.authorizer import StandardAuthorizer
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.nouns import Principal
from quorate.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from quorate.runtime.access.entry_guard import EntryGuard
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.event_loop.clock import SystemClock
from quorate.runtime.following.log_reader import LogReader
from quorate.runtime.following.replica import Replica
from quorate.runtime.requests.statuses import is_retriable
from quorate.runtime.telemetry.tracing import OFF
from tests.controller.clusters import uuid

OPEN, ACTED, READ = "a.Service/Open", "a.Service/Act", "a.Service/Read"
OPERATIONS = {OPEN: None, READ: AclOperation.DESCRIBE}

AUDIT_LOG = "kafka.authorizer.logger"
"""Others may write at any time: asyncio of a task that an earlier test has left."""


class Door:
    """A service whose callers all come from 10.0.0.7, and what is in the log."""

    def __init__(self, *entries: AccessControlEntryRecord, is_open_without_entries: bool = False) -> None:
        self.replica = Replica(LogReader(["127.0.0.1:1"], open_channel), SystemClock(), OFF)
        for offset, entry in enumerate(entries):
            self.replica.state.apply(entry, offset)
        self.replica.applied, self.replica.has_caught_up = len(entries), bool(entries)
        authorizer = StandardAuthorizer(
            super_users=frozenset({"User:root"}), allow_everyone_if_no_acl_found=is_open_without_entries
        )
        self._guard = EntryGuard(lambda context: context.principal, authorizer, self.replica, OPERATIONS)
        self.of_broker = EntryGuard(lambda _: Principal("User", "broker"), authorizer, self.replica, OPERATIONS)
        """The guard as it sees a server's calls: each is of User:broker."""

    def end(self, who: str, method: str) -> ErrorCode:
        context: Any = SimpleNamespace(principal=Principal("User", who), peer=lambda: "ipv4:10.0.0.7:50000")
        try:
            self._guard.check(method, context)
        except ApiError as refusal:
            return refusal.code
        return ErrorCode.NONE


def entry(
    number: int, who: str, operation: AclOperation, *, host: str = "*", permission: AclPermission = AclPermission.ALLOW
) -> AccessControlEntryRecord:
    kind, pattern = ResourceType.CLUSTER, PatternType.LITERAL
    return AccessControlEntryRecord(
        uuid(number), kind, "kafka-cluster", pattern, f"User:{who}", host, operation, permission
    )


NONE, DENIED = ErrorCode.NONE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
ACTION, DESCRIBE, ALTER = AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE, AclOperation.ALTER


@pytest.mark.parametrize(
    ("who", "acted", "read"),
    [
        ("root", NONE, NONE),
        ("broker", NONE, DENIED),
        ("reader", DENIED, NONE),
        ("alterer", DENIED, NONE),  # ALTER includes DESCRIBE
        ("elsewhere", DENIED, DENIED),
        ("denied", DENIED, DENIED),
        ("nobody", DENIED, DENIED),
    ],
)
def test_an_entry_gives_what_it_names_and_no_more(who: str, acted: ErrorCode, read: ErrorCode) -> None:
    door = Door(
        entry(1, "broker", ACTION, host="10.0.0.7"),
        entry(2, "reader", DESCRIBE),
        entry(3, "alterer", ALTER),
        entry(4, "elsewhere", ACTION, host="10.0.0.8"),
        entry(5, "denied", AclOperation.ALL),
        entry(6, "denied", AclOperation.ALL, permission=AclPermission.DENY),
    )

    assert (NONE, acted, read) == tuple(door.end(who, method) for method in (OPEN, ACTED, READ))


def test_before_the_log_is_here_only_super_users_are_let_in_and_others_may_try_again() -> None:
    """Kafka's authorizer before its load: AuthorizerNotReadyException."""
    door = Door(is_open_without_entries=True)
    code = door.end("broker", ACTED)

    assert (NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) == (door.end("root", ACTED), code)
    assert is_retriable(ApiError(code, ""))


def test_a_resource_without_entries_is_open_where_the_setting_says_so() -> None:
    other = AccessControlEntryRecord(
        uuid(1), ResourceType.TOPIC, "a", PatternType.LITERAL, "User:x", "*", DESCRIBE, AclPermission.ALLOW
    )

    assert NONE == Door(other, is_open_without_entries=True).end("nobody", ACTED)
    assert DENIED == Door(other).end("nobody", ACTED)


def test_each_decision_is_in_the_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", AUDIT_LOG)
    Door(entry(1, "broker", ACTION)).end("nobody", ACTED)

    assert ["denied"] == [record.getMessage() for record in caplog.records if record.name == AUDIT_LOG]


class Heartbeats(HeartbeatServicer):
    """Counts the messages that the door lets through."""

    def __init__(self) -> None:
        self.heard = 0

    async def BrokerHeartbeats(
        self, request_iterator: AsyncIterator[BrokerHeartbeatsRequest], context: Any
    ) -> AsyncIterator[BrokerHeartbeatsResponse]:
        async for _ in request_iterator:
            self.heard += 1
            yield BrokerHeartbeatsResponse()


@asynccontextmanager
async def streaming(guard: EntryGuard) -> AsyncIterator[tuple[Heartbeats, HeartbeatStub]]:
    """A server behind the guard, and a caller."""
    served, server = Heartbeats(), Server(guard=guard)
    server.add("kraft.service.Heartbeat", add_HeartbeatServicer_to_server, served)
    port = server.listen("127.0.0.1:0")
    await server.start()
    try:
        async with open_channel(f"127.0.0.1:{port}") as channel:
            yield served, HeartbeatStub(channel)
    finally:
        await server.stop(grace_s=0)


async def test_a_right_that_is_taken_away_ends_an_open_stream_at_its_next_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Kafka authorizes each request, also of a connection that is open."""
    caplog.set_level("INFO", AUDIT_LOG)
    door = Door(entry(1, "broker", ACTION), entry(2, "other", ACTION))
    async with streaming(door.of_broker) as (served, stub):
        stream = stub.BrokerHeartbeats(timeout=60)
        for number in (2, 1):  # that of another, which changes nothing, and then its own
            await stream.write(BrokerHeartbeatsRequest())
            assert BrokerHeartbeatsResponse() == await stream.read()
            door.replica.state.apply(RemoveAccessControlEntryRecord(id=uuid(number)), 2)
        await stream.write(BrokerHeartbeatsRequest())
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stream.read()

    assert (grpc.StatusCode.PERMISSION_DENIED, 2) == (refused.value.code(), served.heard)
    assert "requires CLUSTER_ACTION on the cluster; User:broker at" in str(refused.value.details())
    assert ["denied"] == [record.getMessage() for record in caplog.records if record.name == AUDIT_LOG]
