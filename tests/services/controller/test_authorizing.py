"""Who may ask a controller for what: which right each API requires, and the answer to callers without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kraft.api.alter_configs import AlterConfigsRequest
from kraft.api.create_partitions import CreatePartitionsRequest
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kraft.api.describe_cluster import DescribeClusterRequest
from kraft.api.describe_configs import DescribeConfigsRequest
from kraft.api.describe_topic_partitions import DescribeTopicPartitionsRequest
from kraft.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from quorate.authorizer import StandardAuthorizer
from quorate.controller.commands.alter_configs import alter_configs
from quorate.controller.commands.create_partitions import create_partitions
from quorate.controller.commands.delete_topics import delete_topics
from quorate.controller.commands.describe_cluster import describe_cluster
from quorate.controller.commands.describe_configs import describe_configs
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import Command, Decision, propose
from quorate.controller.engine.deduplication import RequestId
from quorate.controller.engine.engine import Engine
from quorate.controller.refused_items import CHECKS_PER_STEP
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.nouns import ANONYMOUS, ZERO_UUID, Principal
from quorate.records import AccessControlEntryRecord
from services.controller.authorizing import AT_OTHER_SERVICES, Authorizing
from services.controller.call import Call, Caller
from services.controller.handlers import APIS
from tests.controller.clusters import Assignment, Cluster, Topic, uuid

pytestmark = pytest.mark.asyncio

ALICE = Principal("User", "alice")
HOST = "10.1.2.3"
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
CREATE, DELETE, ALTER, DESCRIBE = AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER, AclOperation.DESCRIBE
ALTER_CONFIGS, DESCRIBE_CONFIGS = AclOperation.ALTER_CONFIGS, AclOperation.DESCRIBE_CONFIGS
NONE, REFUSED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
Granted = tuple[AclOperation, ResourceType, str]


class Door:
    """A cluster with the topics `a` and `b`, and what Alice may do there."""

    def __init__(self, *granted: Granted, authorizer: StandardAuthorizer | None = None) -> None:
        self.cluster = Cluster(25).brokers(1)
        self.ids = {name: self.cluster.topic(name, [1]) for name in ("a", "b")}
        self.cluster.apply(entries(granted))
        self.authorizing = Authorizing(engine_of(self.cluster), authorizer or StandardAuthorizer())

    async def ask(self, rpc: str, asked: Any, command: Callable[[Call], Command[Any]], **changes: Any) -> Any:
        """What Alice is answered."""
        call = await self.authorizing.admit(Call(api=APIS[rpc], asked=asked, caller=Caller(ALICE, HOST), **changes))
        made = call.deciding(command(call))
        return self.cluster.decide(propose(made)).response if call.validate_only else self.cluster.write(made)


def engine_of(cluster: Cluster) -> Engine:
    """One that has all that the cluster has, committed."""
    return Engine(cluster.state, next_offset=cluster.next_offset, is_loaded=True)


def entries(granted: Iterable[Granted]) -> Iterable[AccessControlEntryRecord]:
    for number, (operation, kind, name) in enumerate(granted, start=1):
        yield AccessControlEntryRecord(
            uuid(number), kind, name, PatternType.LITERAL, str(ALICE), "*", operation, AclPermission.ALLOW
        )


RIGHTS = [(api.name, api.right) for api in APIS.values() if api.right is not None]


@pytest.mark.parametrize(("rpc", "operation"), RIGHTS)
async def test_what_concerns_the_cluster_is_refused_as_a_whole(rpc: str, operation: AclOperation) -> None:
    """Kafka: ControllerApis, authHelper.authorizeClusterOperation."""
    caller = Caller(ALICE, HOST)
    others = [each for each in list(AclOperation)[3:] if each is not operation]
    if operation is DESCRIBE:
        others = [each for each in others if each not in (AclOperation.READ, AclOperation.WRITE, DELETE, ALTER)]
    if operation is DESCRIBE_CONFIGS:
        others.remove(ALTER_CONFIGS)
    without = Door(*((each, CLUSTER, "kafka-cluster") for each in others))

    with pytest.raises(ApiError) as refused:
        without.authorizing.check(APIS[rpc], caller)
    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED == refused.value.code
    assert f"{rpc} requires {operation.name} on the cluster; User:alice at 10.1.2.3 does not have it" == (
        refused.value.message
    )

    Door((operation, CLUSTER, "kafka-cluster")).authorizing.check(APIS[rpc], caller)


@pytest.mark.parametrize("api", sorted(AT_OTHER_SERVICES))
async def test_what_others_answer_takes_cluster_action(api: str) -> None:
    """Kafka: ControllerApis, authHelper.authorizeClusterOperation; here a gateway asks for it."""
    caller = Caller(ALICE, HOST)
    others = [each for each in list(AclOperation)[3:] if each is not AclOperation.CLUSTER_ACTION]

    with pytest.raises(ApiError, match=f"{api} requires CLUSTER_ACTION on the cluster") as refused:
        Door(*((each, CLUSTER, "kafka-cluster") for each in others)).authorizing.check_elsewhere(api, caller)
    assert ErrorCode.CLUSTER_AUTHORIZATION_FAILED == refused.value.code
    Door((AclOperation.CLUSTER_ACTION, CLUSTER, "kafka-cluster")).authorizing.check_elsewhere(api, caller)
    Authorizing(Engine(Cluster(25).state), None).check_elsewhere(api, caller)


@pytest.mark.parametrize("api", ["", "CreateTopics", "fetch"])
async def test_only_what_others_answer_is_asked_for(api: str) -> None:
    with pytest.raises(ApiError, match=f"api is '{api}'; it is one of BeginQuorumEpoch, ") as refused:
        Door().authorizing.check_elsewhere(api, Caller(ALICE, HOST))
    assert ErrorCode.INVALID_REQUEST == refused.value.code


async def test_without_an_authorizer_everything_is_allowed_but_there_are_no_entries() -> None:
    nobody_decides = Authorizing(Engine(Cluster(25).state), None)
    caller = Caller(ANONYMOUS, "")
    for api in APIS.values():
        if not api.needs_authorizer:
            nobody_decides.check(api, caller)

    for name in ("CreateAcls", "DeleteAcls", "DescribeAcls"):
        with pytest.raises(ApiError) as refused:
            nobody_decides.check(APIS[name], caller)
        assert ErrorCode.SECURITY_DISABLED == refused.value.code


async def test_super_users_need_no_entry() -> None:
    door = Door(authorizer=StandardAuthorizer(super_users=frozenset({"User:ANONYMOUS"})))
    for api in APIS.values():
        door.authorizing.check(api, Caller(ANONYMOUS, HOST))

    with pytest.raises(ApiError, match="CLUSTER_AUTHORIZATION_FAILED"):
        door.authorizing.check(APIS["CreateAcls"], Caller(ALICE, HOST))


CREATED: list[tuple[list[Granted], list[tuple[str, ErrorCode, ErrorCode]]]] = [
    ([], [("twice", ErrorCode.INVALID_REQUEST, NONE), ("new", REFUSED, NONE), ("a", REFUSED, NONE)]),
    (
        [(CREATE, TOPIC, "new")],
        [("new", NONE, REFUSED), ("twice", ErrorCode.INVALID_REQUEST, NONE), ("a", REFUSED, NONE)],
    ),
    (
        [(CREATE, CLUSTER, "kafka-cluster"), (DESCRIBE_CONFIGS, TOPIC, "new")],
        [
            ("new", NONE, NONE),
            ("a", ErrorCode.TOPIC_ALREADY_EXISTS, NONE),
            ("twice", ErrorCode.INVALID_REQUEST, NONE),
        ],
    ),
]
"""Rights, and what is answered: a topic's error, and that of its configs."""


@pytest.mark.parametrize(("granted", "expected"), CREATED)
@pytest.mark.parametrize("validate_only", [False, True])
async def test_creates_what_the_caller_may_create(
    granted: list[Granted], expected: list[tuple[str, ErrorCode, ErrorCode]], validate_only: bool
) -> None:
    """Kafka: ControllerApis.createTopics. A caller that may not see configs does not learn how many partitions there
    are, either."""
    door = Door(*granted)
    placed = (Assignment(0, (1,)),)
    topics = tuple(Topic(name, -1, -1, placed) for name in ("new", "a", "twice", "twice"))
    response = await door.ask(
        "CreateTopics",
        CreateTopicsRequest(topics=topics),
        lambda call: door.cluster.creating(call.asked),
        validate_only=validate_only,
    )
    told = response.response.topics if validate_only else response.topics

    assert expected == [
        (each.name, ErrorCode(each.error_code), ErrorCode(each.topic_config_error_code)) for each in told
    ]
    counts = {each.name: (each.num_partitions, len(each.configs or ()) > 0) for each in told}
    assert counts["new"] == ((1, True) if ("new", NONE, NONE) in expected else (-1, False))


async def test_who_may_not_create_has_nothing_placed() -> None:
    door = Door()
    seen: list[int] = []

    def command(call: Call) -> Command[Any]:
        seen.append(len(call.asked.topics))
        return door.cluster.creating(call.asked)

    await door.ask("CreateTopics", CreateTopicsRequest(topics=(Topic("new", 1, 1),)), command)

    assert [0] == seen


DELETED: list[tuple[list[Granted], list[tuple[str | None, bool, ErrorCode]]]] = [
    ([], [("a", False, REFUSED), (None, True, REFUSED), ("nobody", False, REFUSED)]),
    ([(DESCRIBE, TOPIC, "*")], [("nobody", False, UNKNOWN), ("a", False, REFUSED), ("b", True, REFUSED)]),
    ([(DELETE, TOPIC, "a")], [("a", True, NONE), (None, True, REFUSED), ("nobody", False, REFUSED)]),
    ([(DELETE, TOPIC, "*")], [("a", True, NONE), ("b", True, NONE), ("nobody", False, UNKNOWN)]),
    ([(DELETE, CLUSTER, "kafka-cluster")], [("a", True, NONE), ("b", True, NONE), ("nobody", False, UNKNOWN)]),
]
"""Rights, and what is answered: a name, whether an id is in the answer, an error."""


@pytest.mark.parametrize(("granted", "expected"), DELETED)
@pytest.mark.parametrize("by_old_name", [False, True])
async def test_deletes_what_the_caller_may_delete_and_hides_what_it_may_not_see(
    granted: list[Granted], expected: list[tuple[str | None, bool, ErrorCode]], by_old_name: bool
) -> None:
    """`a` and `nobody` are asked for by name, `b` by its id. Kafka: ControllerApis.deleteTopics."""
    door, asked = Door(*granted), DeleteTopicsRequest.DeleteTopicState
    by_id = asked(topic_id=door.ids["b"])
    request = (
        DeleteTopicsRequest(topics=(by_id,), topic_names=("a", "nobody"))
        if by_old_name
        else DeleteTopicsRequest(topics=(asked("a"), by_id, asked("nobody")))
    )
    response = await door.ask(
        "DeleteTopics", request, lambda call: delete_topics(call.asked, settings=door.cluster.settings)
    )
    told = {(each.name, any(each.topic_id), ErrorCode(each.error_code)) for each in response.responses}

    assert set(expected) == told
    gone = {name for name, _, error in expected if error is NONE}
    assert {"a", "b"} - gone == {topic.name for topic in door.cluster.state.topics}


async def test_an_id_that_nobody_has_is_unknown_to_everybody() -> None:
    door = Door()
    request = DeleteTopicsRequest(topics=(DeleteTopicsRequest.DeleteTopicState(topic_id=uuid(99)),))
    response = await door.ask(
        "DeleteTopics", request, lambda call: delete_topics(call.asked, settings=door.cluster.settings)
    )

    assert [ErrorCode.UNKNOWN_TOPIC_ID] == [ErrorCode(each.error_code) for each in response.responses]


async def test_a_name_beside_an_id_tells_nothing_of_the_topic_with_that_id() -> None:
    door = Door()
    request = DeleteTopicsRequest(topics=(DeleteTopicsRequest.DeleteTopicState("guess", door.ids["b"]),))
    response = await door.ask(
        "DeleteTopics", request, lambda call: delete_topics(call.asked, settings=door.cluster.settings)
    )

    assert [("guess", REFUSED)] == [(each.name, ErrorCode(each.error_code)) for each in response.responses]


async def test_only_topics_that_may_be_altered_grow() -> None:
    door = Door((ALTER, TOPIC, "a"))
    more = CreatePartitionsRequest.CreatePartitionsTopic
    placed = (CreatePartitionsRequest.CreatePartitionsTopic.CreatePartitionsAssignment((1,)),)
    request = CreatePartitionsRequest(topics=(more("b", 2, placed), more("nobody", 2, placed), more("a", 2, placed)))
    response = await door.ask("CreatePartitions", request, lambda call: create_partitions(call.asked, placements={}))

    assert [("a", NONE), ("b", REFUSED), ("nobody", REFUSED)] == [
        (each.name, ErrorCode(each.error_code)) for each in response.results
    ]
    assert {"a": 2, "b": 1} == {topic.name: len(topic.partitions) for topic in door.cluster.state.topics}


RESOURCES = [(2, "a"), (2, "b"), (4, "1"), (8, "1"), (16, "metrics"), (32, "g")]
"""By type: topics, broker, broker's logger, client metrics, group."""
CONFIGURED: list[tuple[list[Granted], list[int]]] = [
    ([], [29, 29, 31, 31, 31, 30]),
    ([(ALTER_CONFIGS, TOPIC, "a")], [0, 29, 31, 31, 31, 30]),
    ([(ALTER_CONFIGS, GROUP, "g")], [29, 29, 31, 31, 31, 0]),
    ([(ALTER_CONFIGS, CLUSTER, "kafka-cluster")], [29, 29, 0, 0, 0, 30]),
]
"""Rights, and who is refused by what: topic, cluster and group authorization."""
AUTHORIZATION_FAILED = {29, 30, 31}


@pytest.mark.parametrize(("granted", "expected"), CONFIGURED)
@pytest.mark.parametrize("rpc", ["AlterConfigs", "IncrementalAlterConfigs", "DescribeConfigs"])
async def test_configs_take_the_right_on_what_they_are_of(
    rpc: str, granted: list[Granted], expected: list[int]
) -> None:
    """Kafka: ControllerApis.authorizeAlterResource, ConfigHelper. Altering includes describing."""
    door = Door(*granted)
    settings = door.cluster.settings
    resources: dict[str, Callable[..., Any]] = {
        "AlterConfigs": AlterConfigsRequest.AlterConfigsResource,
        "IncrementalAlterConfigs": IncrementalAlterConfigsRequest.AlterConfigsResource,
        "DescribeConfigs": DescribeConfigsRequest.DescribeConfigsResource,
    }
    asked = tuple(resources[rpc](kind, name) for kind, name in RESOURCES)
    requests: dict[str, tuple[Any, Callable[[Call], Command[Any]]]] = {
        "AlterConfigs": (AlterConfigsRequest(asked), lambda call: alter_configs(call.asked, settings=settings)),
        "IncrementalAlterConfigs": (
            IncrementalAlterConfigsRequest(asked),
            lambda call: incremental_alter_configs(call.asked, settings=settings),
        ),
        "DescribeConfigs": (
            DescribeConfigsRequest(asked),
            lambda call: describe_configs(call.asked, settings=settings),
        ),
    }
    response = await door.ask(rpc, *requests[rpc])
    told = {
        (each.resource_type, each.resource_name): each.error_code
        for each in (response.results if rpc == "DescribeConfigs" else response.responses)
    }

    assert len(RESOURCES) == len(told)
    assert expected == [told[each] if told[each] in AUTHORIZATION_FAILED else 0 for each in RESOURCES]


@pytest.mark.parametrize(
    ("granted", "named", "expected"),
    [
        ([], (), []),
        ([(DESCRIBE, TOPIC, "b")], (), [("b", NONE, 1)]),
        ([(AclOperation.READ, TOPIC, "*")], (), [("a", NONE, 1), ("b", NONE, 1)]),
        ([], ("a", "nobody"), [("a", REFUSED, 0), ("nobody", REFUSED, 0)]),
        ([(DESCRIBE, TOPIC, "b")], ("a", "b"), [("b", NONE, 1), ("a", REFUSED, 0)]),
        ([(DESCRIBE, TOPIC, "*")], ("a", "nobody"), [("a", NONE, 1), ("nobody", UNKNOWN, 0)]),
    ],
)
async def test_describes_topics_that_may_be_seen(
    granted: list[Granted], named: tuple[str, ...], expected: list[tuple[str, ErrorCode, int]]
) -> None:
    """Kafka: DescribeTopicPartitionsRequestHandler."""
    door = Door(*granted)
    request = DescribeTopicPartitionsRequest(
        topics=tuple(DescribeTopicPartitionsRequest.TopicRequest(name) for name in named)
    )
    response = await door.ask(
        "DescribeTopicPartitions", request, lambda call: describe_topic_partitions(call.asked, allows=call.allows)
    )

    assert expected == [(each.name, ErrorCode(each.error_code), len(each.partitions)) for each in response.topics]
    assert {ZERO_UUID} >= {each.topic_id for each in response.topics if each.error_code}


async def test_tells_a_caller_what_it_may_do() -> None:
    """KIP-430; WRITE implies DESCRIBE (KIP-11)."""
    door = Door((AclOperation.WRITE, TOPIC, "a"), (DESCRIBE, TOPIC, "b"), (ALTER, CLUSTER, "kafka-cluster"))
    topics = await door.ask(
        "DescribeTopicPartitions",
        DescribeTopicPartitionsRequest(),
        lambda call: describe_topic_partitions(call.asked, allows=call.allows, would_allow=call.would_allow),
    )
    cluster = await door.ask(
        "DescribeCluster",
        DescribeClusterRequest(include_cluster_authorized_operations=True),
        lambda call: describe_cluster(
            call.asked, cluster_id="", controller_id=1, allows=call.allows, would_allow=call.would_allow
        ),
    )

    assert [1 << AclOperation.WRITE | 1 << DESCRIBE, 1 << DESCRIBE] == [
        each.topic_authorized_operations for each in topics.topics
    ]
    assert 1 << ALTER | 1 << DESCRIBE == cluster.cluster_authorized_operations


async def test_where_controllers_listen_is_for_administrators() -> None:
    brokers, controllers = DescribeClusterRequest(), DescribeClusterRequest(endpoint_type=2)
    door = Door()
    await door.authorizing.admit(Call(api=APIS["DescribeCluster"], asked=brokers, caller=Caller(ALICE, HOST)))

    with pytest.raises(ApiError, match="CLUSTER_AUTHORIZATION_FAILED"):
        await door.authorizing.admit(Call(api=APIS["DescribeCluster"], asked=controllers, caller=Caller(ALICE)))


MANY_NEW = CreateTopicsRequest(
    topics=tuple(CreateTopicsRequest.CreatableTopic(f"new-{number}") for number in range(5 * CHECKS_PER_STEP))
)
MANY_GONE = DeleteTopicsRequest(
    topics=tuple(DeleteTopicsRequest.DeleteTopicState(f"no-{number}") for number in range(5 * CHECKS_PER_STEP))
)


@pytest.mark.parametrize(("rpc", "asked"), [("CreateTopics", MANY_NEW), ("DeleteTopics", MANY_GONE)])
async def test_many_items_are_checked_in_turns(rpc: str, asked: Any) -> None:
    """A caller without any right does not hold the controller, though each refusal is a line of the audit log."""
    call = Call(api=APIS[rpc], asked=asked, caller=Caller(ALICE, HOST))
    admitting = asyncio.ensure_future(Door().authorizing.admit(call))
    turn_count = 0
    while not admitting.done():
        await asyncio.sleep(0)
        turn_count += 1

    assert turn_count >= 5
    assert () == admitting.result().asked.topics


async def test_a_retry_is_answered_as_at_first_whatever_rights_have_changed_since() -> None:
    engine = engine_of(Door((DELETE, TOPIC, "a"), (DESCRIBE, TOPIC, "b")).cluster)
    engine.claim(1, engine.next_offset)
    authorizing = Authorizing(engine, StandardAuthorizer())
    topics = tuple(map(DeleteTopicsRequest.DeleteTopicState, ("a", "b")))
    request_id = RequestId.of(bytes(16), caller=str(ALICE), asked=b"", response=DeleteTopicsResponse)

    def written(command: Command[Any], request_id: RequestId | None = None) -> Any:
        engine.write(None, command, now_ms=0, request_id=request_id)
        engine.note_appended(engine.next_offset)
        engine.commit(engine.next_offset)
        return engine.ready().answers[0].response

    async def ask() -> list[tuple[str | None, int]]:
        asked = DeleteTopicsRequest(topics=topics)
        call = await authorizing.admit(Call(api=APIS["DeleteTopics"], asked=asked, caller=Caller(ALICE, HOST)))
        answer = written(call.deciding(delete_topics(call.asked, settings=ControllerSettings())), request_id)
        return [(each.name, each.error_code) for each in answer.responses]

    assert [("a", NONE), ("b", REFUSED)] == await ask()
    for instead in (CREATE, TOPIC, "c"), (DELETE, TOPIC, "b"):  # of DELETE on a
        changed = tuple(entries([instead]))
        written(lambda _state, _moment, records=changed: Decision(None, records))  # type: ignore[misc]
        assert [("a", NONE), ("b", REFUSED)] == await ask()


class Connection:
    """What gRPC tells of a call."""

    def __init__(self, peer: str, **metadata: str) -> None:
        self._peer = peer
        self._metadata = tuple((key.replace("_", "-"), value) for key, value in metadata.items())

    def peer(self) -> str:
        return self._peer

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.1.2.3:5000", "10.1.2.3"),
        ("ipv6:[::1]:5000", "0:0:0:0:0:0:0:1"),
        ("ipv6:%5B2001:db8::5%5D:5000", "2001:db8:0:0:0:0:0:5"),
        ("ipv6:%5B::ffff:10.1.2.3%5D:5000", "10.1.2.3"),
        ("unix:/run/controller", ""),
    ],
)
async def test_a_caller_is_where_its_connection_ends(peer: str, host: str) -> None:
    forged = Connection(peer, kraft_client_host="10.9.9.9")

    assert Caller(ANONYMOUS, host) == Door().authorizing.caller(Connection(peer), "CreateTopics")
    assert Caller(ANONYMOUS, host) == Door().authorizing.caller(forged, "CreateTopics")
