"""What a bad caller asks over gRPC: every method of a service with the largest messages, and with the dearest.

Of each method there are three requests: the largest honest one (`largest_honest`: as many items as a gateway lets
through), as many empty items as its bytes have room for, and one unknown field that fills all of them. A caller without
a right to a method is refused; who has a right, asks what it has a right to.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

import grpc

from kraft.api.create_topics_pb2 import CreateTopicsRequest
from kraft.api.delete_topics_pb2 import DeleteTopicsRequest
from kraft.api.describe_configs_pb2 import DescribeConfigsRequest
from kraft.api.describe_topic_partitions_pb2 import DescribeTopicPartitionsRequest
from kraft.api.incremental_alter_configs_pb2 import IncrementalAlterConfigsRequest
from quorate.runtime.calls.wrapped_server import ServerLimits
from quorate.runtime.requests.caps import LIST_MAX
from services.quorum.__main__ import RECEIVE_BYTES_MAX as QUORUM_BYTES_MAX
from tests.bench.bad_neighbours import BAD, BROKER, USER, Ends, Kind
from tests.fuzz.attacks import Door
from tests.fuzz.rpcs import Rpc, rpcs_of
from tests.runtime.test_decoded_cost import largest_honest

BYTES_MAX: Final = ServerLimits().receive_bytes_max
PATIENCE_S: Final = 30.0
AT_ONCE: Final = 4
TOPICS: Final = LIST_MAX // 2 - 100
"""As many as a write has records for: of a topic there are two."""
REFUSED, TOO_LARGE, NO_DOOR = "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"
ANSWERED: Final = "OK"
DEAREST: Final = ("RegisterWithKafka", "DeleteAcls", "BrokerHeartbeats", "Place", "Export")
"""The dearest honest requests of services, as the page on security has them (`test_costs_page`)."""
OPTIONS: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)


_ATTEMPTS: Final = itertools.count()


class Call(NamedTuple):
    """One request: its bytes are `part`, so many times."""

    rpc: Rpc
    part: bytes
    times: int


def calls_of(service: str, names: Sequence[str] = ()) -> Iterator[Call]:
    """The requests of all methods of a program, or of those that are named."""
    bytes_max = (QUORUM_BYTES_MAX if service == "quorum" else BYTES_MAX) - 64
    for rpc in rpcs_of(service):
        if names and rpc.name not in names:
            continue
        _, data, times, _ = largest_honest(rpc.path[1:])
        yield Call(rpc, data, times)
        lists = [each for each in rpc.request.fields if each.is_repeated and each.message_type is not None]
        for field in lists[:1]:
            empty = _varint(field.number << 3 | 2) + b"\x00"
            yield Call(rpc, empty, bytes_max // len(empty))
        yield Call(rpc, _varint(4_095 << 3 | 2) + _varint(bytes_max - 16) + bytes(bytes_max - 16), 1)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*written, value))


def ended(channel: grpc.Channel, call: Call) -> str:
    """The status with which one request ends; of a stream, at its first answer."""
    forms = {True: "stream", False: "unary"}
    ask: Any = getattr(channel, f"{forms[call.rpc.sends_stream]}_{forms[call.rpc.answers_stream]}")(call.rpc.path)
    data = call.part * call.times
    try:
        answer = ask(iter([data]) if call.rpc.sends_stream else data, timeout=PATIENCE_S)
        if call.rpc.answers_stream:
            next(answer, None)
            answer.cancel()
    except grpc.RpcError as error:
        return str(error.code().name)  # type: ignore[attr-defined]  # of a call it has one
    return ANSWERED


def open_channel(door: Door) -> grpc.Channel:
    """A channel with the certificate of the door; without one if there is no such file."""
    pem = door.keystore.read_bytes() if door.keystore.exists() else None
    credentials = grpc.ssl_channel_credentials(door.truststore.read_bytes(), pem, pem)
    return grpc.secure_channel(f"{door.host}:{door.port}", credentials, OPTIONS)


async def ask_each(make: Callable[[], Sequence[Call]], door: Door, ends: Ends) -> None:
    """All requests one after the other, on one connection. Each attempt begins with another one."""
    channel, calls = open_channel(door), make()
    first = next(_ATTEMPTS) * len(calls) // AT_ONCE % len(calls)
    try:
        for call in (*calls[first:], *calls[:first]):
            ends[await asyncio.to_thread(ended, channel, call)] += 1
    finally:
        channel.close()


def every_method(service: str, who: str, *names: str, ends: Sequence[str], at_once: int = AT_ONCE) -> Kind:
    """The kind of caller `who` that asks every method of a service, or those that are named, as dearly as it can."""
    make = cache(lambda: list(calls_of(service, names)))
    return Kind(once=partial(ask_each, make), at_once=at_once, prepare=make, at=service, who=who, ends=frozenset(ends))


def _at_the_limit() -> list[tuple[str, Any]]:
    """Requests of a user who has a right to all of it, as large as they may be; nothing is written."""
    names = [f"topic-{each}" for each in range(LIST_MAX)]
    topic, resource = CreateTopicsRequest.CreatableTopic, IncrementalAlterConfigsRequest.AlterConfigsResource
    config = resource.AlterableConfig(name="retention.ms", config_operation=0, value="1")
    state, described = DeleteTopicsRequest.DeleteTopicState, DescribeConfigsRequest.DescribeConfigsResource
    asked = DescribeTopicPartitionsRequest.TopicRequest
    topics = [topic(name=name, num_partitions=1, replication_factor=1) for name in names[:TOPICS]]
    altered = [resource(resource_type=2, resource_name=name, configs=[config]) for name in names]
    return [
        ("CreateTopics", CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=True)),
        ("DeleteTopics", DeleteTopicsRequest(topics=[state(name=name) for name in names], timeout_ms=10_000)),
        ("IncrementalAlterConfigs", IncrementalAlterConfigsRequest(resources=altered, validate_only=True)),
        (
            "DescribeConfigs",
            DescribeConfigsRequest(resources=[described(resource_type=2, resource_name=name) for name in names]),
        ),
        ("DescribeTopicPartitions", DescribeTopicPartitionsRequest(topics=[asked(name=name) for name in names])),
    ]


def _calls_at_the_limit() -> list[Call]:
    known = {rpc.name: rpc for rpc in rpcs_of("controller")}
    return [Call(known[name], message.SerializeToString(), 1) for name, message in _at_the_limit()]


def user_at_the_limit(at_once: int = AT_ONCE) -> Kind:
    """The kind of a user who asks for as much as a request may."""
    make = cache(_calls_at_the_limit)
    return Kind(
        once=partial(ask_each, make),
        at_once=at_once,
        prepare=make,
        at="controller",
        who=USER,
        ends=frozenset({ANSWERED}),
    )


NOBODY: Final = "nobody"
"""Whose certificate is not there."""
SERVICES: Final = {
    "controller": "the controller's methods",
    "quorum": "a quorum node's methods",
    "heartbeat": "the heartbeat service's methods",
    "placer": "the placer's methods",
    "observer": "the observer's methods",
}


def kinds() -> Mapping[str, Kind]:
    """All of them."""
    found = {"the controller's methods, from nobody": every_method("controller", NOBODY, ends=(NO_DOOR,))}
    for service, what in SERVICES.items():
        for who, name in ((BAD, "who has no right"), (USER, "a user"), (BROKER, "a broker")):
            found[f"{what}, from {name}"] = every_method(service, who, ends=(REFUSED,))
    return found | {"10,000 items of each method, from a user": user_at_the_limit()}
