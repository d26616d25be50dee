"""The audit log: every denial, every permission when searching, in Kafka's words; and no more than that."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.delete_topics import DeleteTopicsRequest
from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from quorate.authorizer import AclResource, DefaultRule, Requester, Ruling, StandardAuthorizer
from quorate.controller.commands.delete_topics import delete_topics
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.engine.decision import Command
from quorate.controller.engine.engine import Engine
from quorate.errors import ApiError
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.nouns import ANONYMOUS, Principal
from quorate.records import AccessControlEntryRecord
from quorate.runtime.access import audit
from quorate.runtime.access.audit import LOGGER
from quorate.runtime.access.passing_on import CLIENT_HOST, FORWARDED
from quorate.runtime.logging.logs import start_logs
from services.controller.authorizing import Authorizing
from services.controller.call import Call, Caller
from services.controller.handlers import APIS
from tests.controller.clusters import Assignment, Cluster, Topic, uuid

ALICE = Principal("User", "alice")
HOST = "10.1.2.3"
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
Line = dict[str, Any]


class Audited:
    """A controller with an authorizer, the topics `a` and `b`, and these entries for Alice."""

    def __init__(
        self,
        *entries: tuple[AclOperation, ResourceType, str, AclPermission],
        authorizer: StandardAuthorizer | None = None,
    ) -> None:
        self.cluster = Cluster(25).brokers(1)
        for name in ("a", "b"):
            self.cluster.topic(name, [1])
        self.cluster.apply(
            AccessControlEntryRecord(
                uuid(number), kind, name, PatternType.LITERAL, str(ALICE), "*", operation, permission
            )
            for number, (operation, kind, name, permission) in enumerate(entries, start=1)
        )
        self.authorizing = Authorizing(
            Engine(self.cluster.state, next_offset=self.cluster.next_offset, is_loaded=True),
            authorizer or StandardAuthorizer(),
        )

    async def ask(self, rpc: str, asked: Any, command: Callable[[Call], Command[Any]]) -> None:
        admitted = await self.authorizing.admit(Call(api=APIS[rpc], asked=asked, caller=Caller(ALICE, HOST)))
        self.cluster.write(admitted.deciding(command(admitted)))


class Said:
    """What the audit log has, from a level on."""

    def __init__(self) -> None:
        self._stream = io.StringIO()

    def start(self, level: str) -> None:
        start_logs({"QUORATE_LOG_LEVEL": level, "QUORATE_LOG_FORMAT": "json"}, self._stream)

    def lines(self) -> list[Line]:
        lines = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [{key: line[key] for key in line if key != "time"} for line in lines if line["logger"] == LOGGER]

    def told(self) -> list[tuple[str, str, str]]:
        return [(line["event"], line["operation"], line["resource"]) for line in self.lines()]


@pytest.fixture
def said(restored_logs: None) -> Said:
    return Said()


def line(**changes: str) -> Line:
    """What is expected: Alice was denied to alter the cluster, but for what a test says."""
    plain = {
        "level": "info",
        "logger": "kafka.authorizer.logger",
        "event": "denied",
        "principal": "User:alice",
        "operation": "Alter",
        "host": "10.1.2.3",
        "resource": "Cluster:LITERAL:kafka-cluster",
        "request": "AddRaftVoter",
        "rule": "DefaultDeny",
    }
    return plain | changes


ON_THE_CLUSTER = (ResourceType.CLUSTER, "kafka-cluster")
BY_ENTRY = "MatchingAcl(CLUSTER:LITERAL:kafka-cluster, User:alice, *, ALTER, {})"


@pytest.mark.parametrize(
    ("audited", "expected"),
    [
        (Audited(), line()),
        (Audited((AclOperation.ALTER, *ON_THE_CLUSTER, DENY)), line(rule=BY_ENTRY.format("DENY"))),
        (
            Audited((AclOperation.ALTER, *ON_THE_CLUSTER, ALLOW)),
            line(event="allowed", level="debug", rule=BY_ENTRY.format("ALLOW")),
        ),
        (
            Audited(authorizer=StandardAuthorizer(super_users=frozenset({"User:alice"}))),
            line(event="allowed", level="debug", rule="SuperUser"),
        ),
        (
            Audited(authorizer=StandardAuthorizer(allow_everyone_if_no_acl_found=True)),
            line(event="allowed", level="debug", rule="DefaultAllow"),
        ),
    ],
)
def test_tells_who_what_of_what_whence_and_why(audited: Audited, expected: Line, said: Said) -> None:
    """Kafka: StandardAuthorizerData.buildAuditMessage."""
    for level in ("debug", "info"):
        said.start(level)
        try:
            audited.authorizing.check(APIS["AddRaftVoter"], Caller(ALICE, HOST))
        except ApiError:
            assert "denied" == expected["event"]

    assert [expected] * (2 if expected["level"] == "info" else 1) == said.lines()


def test_without_an_authorizer_there_is_nothing_to_tell(said: Said) -> None:
    said.start("debug")
    Authorizing(Engine(Cluster(25).state), None).check(APIS["AddRaftVoter"], Caller(ALICE, HOST))

    assert [] == said.lines()


class PassedOn:
    """A call that another controller has passed on."""

    def peer(self) -> str:
        return "ipv4:10.0.0.1:5000"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ((FORWARDED, "1"), (CLIENT_HOST, "10.9.9.9"))


def test_an_envelope_is_told_by_who_brought_it(said: Said) -> None:
    said.start("info")
    with pytest.raises(ApiError, match="CLUSTER_AUTHORIZATION_FAILED"):
        Audited().authorizing.caller(PassedOn(), "CreateTopics")

    assert [
        line(principal=str(ANONYMOUS), operation="ClusterAction", host="10.0.0.1", request="Envelope")
    ] == said.lines()


def test_of_one_request_that_is_denied_much_few_lines_are_told(said: Said) -> None:
    """The first hundred denials, and then the 128th, 256th, 512th with their number."""
    said.start("info")
    may = Audited().authorizing.rights(Caller(ALICE, HOST), "DeleteTopics")
    assert not any(may(AclOperation.DELETE, ResourceType.TOPIC, f"t{number}") for number in range(1_000))

    assert [128, 256, 512] == [line["denials"] for line in said.lines()[100:]]


async def test_a_topic_may_be_created_by_its_own_right_and_then_nothing_was_denied(said: Said) -> None:
    """Kafka does not tell of CREATE on the cluster either (ControllerApis.createTopics, logIfDenied)."""
    audited = Audited((AclOperation.CREATE, ResourceType.TOPIC, "new", ALLOW))
    said.start("info")
    topics = tuple(Topic(name, -1, -1, (Assignment(0, (1,)),)) for name in ("new", "other"))
    await audited.ask(
        "CreateTopics", CreateTopicsRequest(topics=topics), lambda call: audited.cluster.creating(call.asked)
    )

    assert [("denied", "Create", "Topic:LITERAL:other")] == said.told()


async def test_a_topic_is_deleted_by_its_own_right_and_what_may_not_be_seen_is_told(said: Said) -> None:
    audited = Audited((AclOperation.DELETE, ResourceType.TOPIC, "a", ALLOW))
    said.start("info")
    asked = DeleteTopicsRequest(topics=tuple(map(DeleteTopicsRequest.DeleteTopicState, ("a", "b"))))
    await audited.ask("DeleteTopics", asked, lambda call: delete_topics(call.asked, settings=audited.cluster.settings))

    assert [
        ("denied", "Describe", "Topic:LITERAL:b"),
        ("denied", "Delete", "Topic:LITERAL:b"),
    ] == said.told()


@pytest.mark.parametrize(("named", "expected"), [((), []), (("b",), [("denied", "Describe", "Topic:LITERAL:b")])])
async def test_what_is_left_out_of_a_list_was_denied_to_nobody(
    named: tuple[str, ...], expected: list[tuple[str, str, str]], said: Said
) -> None:
    audited = Audited((AclOperation.DESCRIBE, ResourceType.TOPIC, "a", ALLOW))
    said.start("info")
    asked = DescribeTopicPartitionsRequest(topics=tuple(map(DescribeTopicPartitionsRequest.TopicRequest, named)))
    await audited.ask(
        "DescribeTopicPartitions", asked, lambda call: describe_topic_partitions(call.asked, allows=call.allows)
    )

    assert expected == said.told()


async def test_what_a_caller_is_told_that_it_may_do_is_no_decision(said: Said) -> None:
    """Kafka: AuthHelper.authorizedOperations logs neither."""
    audited = Audited((AclOperation.DESCRIBE, ResourceType.TOPIC, "a", ALLOW))
    said.start("debug")
    await audited.ask(
        "DescribeTopicPartitions",
        DescribeTopicPartitionsRequest(),
        lambda call: describe_topic_partitions(call.asked, allows=call.allows, would_allow=call.would_allow),
    )

    assert [("allowed", "Describe", "Topic:LITERAL:a")] == said.told()


async def test_a_name_is_one_word_of_one_line_whatever_it_holds(said: Said) -> None:
    """What callers choose must not look like lines of ours."""
    audited = Audited()
    said.start("info")
    name = 'x\n{"event":"allowed"} principal=User:admin'
    asked = DeleteTopicsRequest(topics=(DeleteTopicsRequest.DeleteTopicState(name),))
    await audited.ask("DeleteTopics", asked, lambda call: delete_topics(call.asked, settings=audited.cluster.settings))

    assert [("denied", "Describe", f"Topic:LITERAL:{name}"), ("denied", "Delete", f"Topic:LITERAL:{name}")] == (
        said.told()
    )


@pytest.mark.parametrize(("level", "made"), [("info", 0), ("debug", 1)])
def test_nothing_is_made_of_a_permission_that_nobody_reads(
    level: str, made: int, monkeypatch: pytest.MonkeyPatch, restored_logs: None
) -> None:
    """A request of 10,000 items is decided on 10,000 times, and what was made for its lines took longer than that."""
    start_logs({"QUORATE_LOG_LEVEL": level}, io.StringIO())
    seen: list[AclOperation] = []
    monkeypatch.setattr(audit, "named", lambda each: seen.append(each) or "Read")
    who, resource = Requester(principal=ALICE, host=HOST), AclResource(ResourceType.TOPIC, "a")
    told = audit.Decisions("Fetch", who)
    told.tell(AclOperation.READ, resource, Ruling(True, DefaultRule.SUPER_USER))

    assert made == seen.count(AclOperation.READ)
