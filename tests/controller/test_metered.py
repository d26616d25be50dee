"""CreateTopics, CreatePartitions and DeleteTopics by a client that has a quota. KIP-599, strict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraft.api.create_partitions import CreatePartitionsRequest
from kraft.api.create_topics import CreateTopicsRequest
from kraft.api.delete_topics import DeleteTopicsRequest
from quorate.controller.commands.create_partitions import create_partitions
from quorate.controller.commands.delete_topics import delete_topics
from quorate.controller.engine.decision import Command, Decision, Moment, propose
from quorate.controller.quotas.metered import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS, metered
from quorate.controller.quotas.mutation_quotas import MutationQuotas, Quota, QuotaWindows, RequestTokens
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import ZERO_UUID
from quorate.records import PartitionRecord, RemoveTopicRecord
from tests.controller.clusters import Assignment, Cluster, Topic

NONE, LATE = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
More = CreatePartitionsRequest.CreatePartitionsTopic
Gone = DeleteTopicsRequest.DeleteTopicState
RATE = 1.0
METERS = {"CreatePartitions": CREATE_PARTITIONS, "CreateTopics": CREATE_TOPICS, "DeleteTopics": DELETE_TOPICS}


class Client:
    """One who may do a partition a second, ten at once; and what is left."""

    def __init__(self, tokens: float = 10.0) -> None:
        self.cluster = Cluster(25).brokers(1, 2)
        self.cluster.topic("a", [1], [2])
        self.cluster.topic("b", [1], [2], [1])
        self.quota = Quota(RATE, "alice", None)
        self.quotas = MutationQuotas(QuotaWindows(num=10))
        self.quotas.leave(self.quota, tokens, 0)

    @property
    def tokens(self) -> float:
        return self.quotas.tokens(self.quota, 0)

    def command(self, api: str, asked: Any) -> Command[Any]:
        makes: dict[str, Callable[[Any], Command[Any]]] = {
            "CreateTopics": self.cluster.creating,
            "CreatePartitions": lambda asked: create_partitions(asked, placements={}),
            "DeleteTopics": lambda asked: delete_topics(asked, settings=self.cluster.settings),
        }
        return metered(METERS[api], asked, makes[api], RequestTokens(self.quotas, self.quota))

    def ask(self, api: str, asked: Any) -> Decision[Any]:
        decision = self.cluster.decide(self.command(api, asked))
        self.cluster.apply(decision.records)
        return decision


def new(name: str, count: int) -> Topic:
    return Topic(name, -1, -1, tuple(Assignment(number, (1,)) for number in range(count)))


def more(name: str, count: int, by: int) -> More:
    return More(name, count, (More.CreatePartitionsAssignment((1,)),) * by)


ASKED: dict[str, tuple[float, str, Any, list[tuple[str | None, ErrorCode]], float]] = {
    "within": (10, "CreateTopics", CreateTopicsRequest((new("x", 3), new("y", 7))), [("x", NONE), ("y", NONE)], 0),
    "nothing left, nothing owed": (0, "CreateTopics", CreateTopicsRequest((new("x", 3),)), [("x", NONE)], -3),
    "one too many": (
        1,
        "CreateTopics",
        CreateTopicsRequest((new("x", 5), new("y", 1), new("z", 1))),
        [("x", NONE), ("y", LATE), ("z", LATE)],
        -4,
    ),
    "owed": (-0.5, "CreateTopics", CreateTopicsRequest((new("x", 1),)), [("x", LATE)], -0.5),
    "refused for something else costs nothing": (
        0,
        "CreateTopics",
        CreateTopicsRequest((new("a", 9), new("x", 1), new("$", 1), new("y", 1))),
        [
            ("a", ErrorCode.TOPIC_ALREADY_EXISTS),
            ("x", NONE),
            ("$", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("y", LATE),
        ],
        -1,
    ),
    "twice in the request": (
        0,
        "CreateTopics",
        CreateTopicsRequest((new("x", 1), new("y", 1), new("y", 1))),
        [("x", NONE), ("y", ErrorCode.INVALID_REQUEST)],
        -1,
    ),
    "more partitions": (
        1,
        "CreatePartitions",
        CreatePartitionsRequest((more("a", 4, 2), more("b", 5, 2), more("c", 3, 2))),
        [("a", NONE), ("c", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("b", LATE)],
        -1,
    ),
    "only the new ones count": (3, "CreatePartitions", CreatePartitionsRequest((more("b", 5, 2),)), [("b", NONE)], 1),
    "topics that are only to be validated": (
        1,
        "CreateTopics",
        CreateTopicsRequest((new("x", 5), new("y", 1)), validate_only=True),
        [("x", NONE), ("y", LATE)],
        -4,
    ),
    "partitions that are only to be validated": (
        1,
        "CreatePartitions",
        CreatePartitionsRequest((more("a", 4, 2), more("b", 5, 2)), validate_only=True),
        [("a", NONE), ("b", LATE)],
        -1,
    ),
    "topics go": (
        1,
        "DeleteTopics",
        DeleteTopicsRequest((Gone("a"), Gone("b"), Gone("c"))),
        [("a", NONE), ("c", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("b", LATE)],
        -1,
    ),
    "by name, of old": (0, "DeleteTopics", DeleteTopicsRequest((), ("b", "a")), [("b", NONE), ("a", LATE)], -3),
}
"""Tokens before; what is asked; each topic's error; tokens afterwards."""


@pytest.mark.parametrize(("tokens", "api", "asked", "errors", "left"), ASKED.values(), ids=ASKED)
def test_topics_are_paid_for_in_order(
    tokens: float, api: str, asked: Any, errors: list[tuple[str | None, ErrorCode]], left: float
) -> None:
    """Kafka: ReplicationControlManager asks applyPartitionChangeQuota before it looks at validateOnly;
    StrictControllerMutationQuota.record.
    """
    client = Client(tokens)
    response = client.ask(api, asked).response
    results = getattr(response, {"CreateTopics": "topics", "CreatePartitions": "results"}.get(api, "responses"))

    assert sorted(errors, key=str) == sorted(((each.name, ErrorCode(each.error_code)) for each in results), key=str)
    assert left == client.tokens
    # How long: until what is owed has come in. Nobody waits who was refused nothing.
    expected_ms = -left * 1000 / RATE if LATE in dict(errors).values() else 0
    assert expected_ms == response.throttle_time_ms


def test_what_is_refused_is_not_written() -> None:
    client = Client(0)
    created = client.ask("CreateTopics", CreateTopicsRequest((new("x", 2), new("y", 2))))
    (x,) = (topic.topic_id for topic in created.response.topics if topic.name == "x")

    assert {x} == {record.topic_id for record in created.records if isinstance(record, PartitionRecord)}
    assert client.cluster.state.topics.by_name("y") is None


def test_what_would_be_written_costs_what_it_would_if_it_were_meant() -> None:
    """Ours, for every API: no door has validation for nothing."""
    client = Client(0)
    asked = DeleteTopicsRequest((Gone("a"), Gone("b")))
    shown = client.cluster.decide(propose(client.command("DeleteTopics", asked)))

    assert [("a", NONE), ("b", LATE)] == [(each.name, each.error_code) for each in shown.response.response.responses]
    assert ((), -2.0) == (shown.records, client.tokens)


def test_a_topic_is_refused_by_the_id_that_it_was_asked_for() -> None:
    client = Client(0)
    a, b = (client.cluster.state.topics.id_of(name) for name in ("a", "b"))
    assert a is not None
    assert b is not None
    deleted = client.ask("DeleteTopics", DeleteTopicsRequest((Gone(None, a), Gone(None, b))))

    assert [("a", a, NONE), ("b", b, LATE)] == [
        (each.name, each.topic_id, each.error_code) for each in deleted.response.responses
    ]
    assert (RemoveTopicRecord(a),) == deleted.records


def test_a_topic_that_could_be_because_another_was_refused_is_refused_too() -> None:
    """`x.1` and `x_1` cannot both be (KAFKA-2337): without the one the other could, and would not be paid for."""
    client = Client(-1)
    response = client.ask("CreateTopics", CreateTopicsRequest((new("x.1", 1), new("x_1", 1)))).response

    assert {"x.1": LATE, "x_1": LATE} == {each.name: each.error_code for each in response.topics}
    assert -1 == client.tokens


def test_a_refusal_says_who_is_meant_and_what_it_may() -> None:
    (refused,) = Client(-2.5).ask("CreateTopics", CreateTopicsRequest((new("x", 1),))).response.topics

    assert (
        "the client's quota controller_mutation_rate of 1 partitions a second is used up; "
        "the next one may be created or deleted in 2500 ms" == (refused.error_message)
    )
    assert (ZERO_UUID, -1, ()) == (refused.topic_id, refused.num_partitions, refused.configs or ())


def test_who_is_refused_as_a_whole_pays_nothing() -> None:
    client = Client()
    too_many = CreateTopicsRequest(tuple(new(f"t{number}", 1) for number in range(10_001)))
    error = client.cluster.refusal(client.command("CreateTopics", too_many))

    assert (ErrorCode.POLICY_VIOLATION, 10.0) == (error.code, client.tokens)


def test_deciding_again_costs_nothing_more() -> None:
    """A control record came in between: the same command is decided at another offset, and maybe on another state."""
    client = Client()
    command = client.command("CreateTopics", CreateTopicsRequest((new("x", 4), new("y", 3))))
    first = client.cluster.decide(command)
    left = client.tokens
    client.cluster.topic("x", [1])
    second = command(client.cluster.state, Moment(next_offset=client.cluster.next_offset, now_ms=0))

    assert (3.0, 7.0) == (left, client.tokens)
    assert [NONE, NONE] == [topic.error_code for topic in first.response.topics]
    assert [("x", ErrorCode.TOPIC_ALREADY_EXISTS), ("y", NONE)] == [
        (topic.name, topic.error_code) for topic in second.response.topics
    ]


def test_a_placement_that_is_stale_costs_nothing() -> None:
    client = Client()

    def stale(_: Any) -> Command[Any]:
        def command(*_: Any) -> Decision[Any]:
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE, "a broker has gone")

        return command

    refusing = metered(CREATE_TOPICS, CreateTopicsRequest(), stale, RequestTokens(client.quotas, client.quota))

    assert (ErrorCode.REPLICA_NOT_AVAILABLE, 10.0) == (client.cluster.refusal(refusing).code, client.tokens)
