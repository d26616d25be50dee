"""Calls that were passed on: whose name counts, who may pass on what, and for which node each of them speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest

from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest
from kraft.api.broker_registration import BrokerRegistrationRequest
from quorate.authorizer import StandardAuthorizer
from quorate.controller.engine.engine import Engine
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.nouns import ANONYMOUS, Principal
from quorate.records import AccessControlEntryRecord, RegisterControllerRecord
from quorate.runtime.access.claims import CLAIMS
from quorate.runtime.access.passing_on import (
    CLIENT_HOST,
    CLIENT_PRINCIPAL,
    FORWARDABLE,
    FORWARDED,
    FORWARDER_PRINCIPAL,
    GATEWAY_PRINCIPAL,
    HOP,
    PASSED_ON,
    principal_text,
)
from quorate.runtime.access.process_rights import ProcessRights
from quorate.tls.node_ids import NodeIds
from services.controller.authorizing import Authorizing
from services.controller.call import Call, Caller
from services.controller.handlers import APIS
from tests.controller.clusters import Cluster, uuid

ALICE: Final = Principal("User", "alice")
GATEWAY, BROKER, STANDBY, CLIENT = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.1.2.3"
RPC: Final = "CreateTopics"
REFUSED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NODE_RULES: Final = r"RULE:^(controller|broker)-([0-9]+)$/$2/,RULE:^(gateway|heartbeat)$/*/"
PROCESS_RULES: Final = r"RULE:^(controller)-[0-9]+$/$1/,RULE:^(gateway|heartbeat)$/$1/"
BY_STANDBY: Final = ((FORWARDED, "1"), (CLIENT_HOST, CLIENT))
BY_GATEWAY: Final = ((PASSED_ON, "1"), (CLIENT_HOST, CLIENT))


def authorizing(
    allowed: Sequence[tuple[Principal, str]] = (),
    *,
    supers: Sequence[str] = (),
    nodes: str | None = None,
    processes: str | None = None,
    principal: str | None = None,
) -> Authorizing:
    """Those that are `allowed`, at their addresses, may act for the cluster. Brokers 101 and 102 are registered."""
    cluster = Cluster(25).brokers(101, 102)
    cluster.apply([RegisterControllerRecord(1, incarnation_id=uuid(7))])
    cluster.apply(
        AccessControlEntryRecord(
            uuid(number),
            ResourceType.CLUSTER,
            "kafka-cluster",
            PatternType.LITERAL,
            str(who),
            host,
            AclOperation.CLUSTER_ACTION,
            AclPermission.ALLOW,
        )
        for number, (who, host) in enumerate(allowed, start=1)
    )
    return Authorizing(
        Engine(cluster.state, next_offset=cluster.next_offset, is_loaded=True),
        StandardAuthorizer(super_users=frozenset(f"User:{name}" for name in supers)),
        lambda _: ANONYMOUS if principal is None else Principal("User", principal),
        None if nodes is None else NodeIds(nodes),
        None if processes is None else ProcessRights(processes),
    )


def at(*hosts: str, also: Mapping[Principal, str] | None = None) -> Authorizing:
    """A caller at these addresses may act for the cluster, one that is `also` named at its own, and nobody else."""
    return authorizing([*((ANONYMOUS, host) for host in hosts), *(also or {}).items()])


def call(peer: str, *metadata: tuple[str, str]) -> Any:
    """What gRPC tells of a call."""
    return SimpleNamespace(peer=lambda: f"ipv4:{peer}:5000", invocation_metadata=lambda: metadata)


def named(name: str) -> tuple[str, str]:
    return CLIENT_PRINCIPAL, principal_text(Principal("User", name))


def refusal(door: Authorizing, context: Any, rpc: str = RPC) -> ApiError:
    with pytest.raises(ApiError) as caught:
        door.caller(context, rpc)
    assert REFUSED is caught.value.code
    return caught.value


async def end(door: Authorizing, context: Any, rpc: str, asked: Any) -> ErrorCode:
    """How a request ends where it is authorized: NONE if it may go on."""
    try:
        who = door.caller(context, rpc)
        await door.admit(Call(api=APIS[rpc], asked=asked, caller=who))
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def test_a_controller_that_passes_a_call_on_says_where_it_came_from() -> None:
    """And is believed if it may act for the cluster, as with Kafka's envelopes."""
    passed_on = call(GATEWAY, (FORWARDED, "1"), (CLIENT_HOST, f"::ffff:{CLIENT}"))
    nobody_decides = Authorizing(Engine(Cluster(25).state), None)

    assert Caller(ANONYMOUS, CLIENT) == authorizing(supers=["ANONYMOUS"]).caller(passed_on, RPC)
    assert Caller(ANONYMOUS, CLIENT) == nobody_decides.caller(passed_on, RPC)
    assert "a request that was passed on requires CLUSTER_ACTION on the cluster" in refusal(at(), passed_on).message


def test_each_that_passes_on_a_request_needs_the_right_to() -> None:
    """A broker sends an Envelope to a gateway, which calls the controller: the client is believed if both may."""
    whose = named("bö,b:x")
    passed_on = call(GATEWAY, *BY_GATEWAY, (CLIENT_HOST, BROKER), whose)

    assert (Principal("User", "bö,b:x"), CLIENT) == at(GATEWAY, BROKER).caller(passed_on, RPC)[:2]
    assert Caller(ANONYMOUS, GATEWAY) == at(GATEWAY, BROKER).caller(call(GATEWAY, whose), RPC)
    for allowed, refused in ((GATEWAY, BROKER), (BROKER, GATEWAY)):
        error = refusal(at(allowed), passed_on)
        assert f" at {refused} does not have it" in error.message
        assert refused == error.metadata[HOP]


@pytest.mark.parametrize("is_forwarded", [False, True], ids=["at the active controller", "through a standby"])
def test_the_broker_that_sends_an_envelope_is_who_the_gateway_says(is_forwarded: bool) -> None:
    """Its right counts, and not that of everybody at its address; those behind it speak gRPC."""
    through = ((FORWARDED, "1"), (CLIENT_HOST, GATEWAY)) if is_forwarded else ()
    broker = (FORWARDER_PRINCIPAL, principal_text(ALICE))
    sender = STANDBY if is_forwarded else GATEWAY
    passed_on = call(sender, *BY_GATEWAY, (CLIENT_HOST, BROKER), broker, named("alice"), *through)
    grpc = (GATEWAY, STANDBY)

    assert (ALICE, CLIENT) == at(*grpc, also={ALICE: BROKER}).caller(passed_on, RPC)[:2]
    for others in (at(*grpc), at(*grpc, BROKER), at(*grpc, also={ALICE: GATEWAY})):
        assert f"User:alice at {BROKER} does not have it" in refusal(others, passed_on).message
    error = refusal(at(STANDBY, also={ALICE: BROKER}), passed_on)
    assert f"User:ANONYMOUS at {GATEWAY} does not have it" in error.message


@pytest.mark.parametrize("by", [BY_STANDBY, BY_GATEWAY], ids=["as a standby", "as a gateway"])
@pytest.mark.parametrize("nodes", [None, NODE_RULES])
def test_who_may_act_for_the_cluster_passes_on_what_is_forwardable_alone(
    by: tuple[tuple[str, str], ...], nodes: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker's certificate, which names the heartbeat service in the metadata of a call. KIP-590."""
    caplog.set_level("INFO", "kafka.authorizer.logger")
    broker = Principal("User", "broker-101")
    door = authorizing([(broker, "*")], principal="broker-101", nodes=nodes)
    forged = call(BROKER, *by, named("heartbeat"))
    for name in APIS.keys() - FORWARDABLE:
        error = refusal(door, forged, name)
        assert f"{name} is not forwardable (KIP-590): User:broker-101 may not pass it on for another" in error.message
        assert BROKER == error.metadata[HOP]
    for name in FORWARDABLE:
        assert "heartbeat" == door.caller(forged, name).principal.name

    told = [record for record in caplog.records if record.name == "kafka.authorizer.logger"]
    assert len(APIS.keys() - FORWARDABLE) == len(told)
    assert FORWARDABLE <= APIS.keys()


ASKED: Final = {
    "AllocateProducerIds": AllocateProducerIdsRequest(broker_id=102),
    "BrokerRegistration": BrokerRegistrationRequest(broker_id=102),
}
"""For node 102: one that is forwardable, and one that is not."""


@pytest.mark.parametrize(
    ("sender", "expected"),
    [
        ("broker-101", {"AllocateProducerIds": REFUSED, "BrokerRegistration": REFUSED}),
        ("broker-102", {"AllocateProducerIds": ErrorCode.NONE, "BrokerRegistration": REFUSED}),
        ("controller-1", dict.fromkeys(ASKED, ErrorCode.NONE)),
        ("gateway", dict.fromkeys(ASKED, ErrorCode.NONE)),
    ],
)
@pytest.mark.parametrize("by", [BY_STANDBY, BY_GATEWAY], ids=["as a standby", "as a gateway"])
async def test_the_certificate_that_sends_a_call_speaks_for_no_other_node_either(
    by: tuple[tuple[str, str], ...], sender: str, expected: dict[str, ErrorCode]
) -> None:
    """Even a super user's. The one that it names may speak for that node."""
    door = authorizing(
        supers=["broker-101", "broker-102", "controller-1", "gateway"], nodes=NODE_RULES, principal=sender
    )
    found = {rpc: await end(door, call(BROKER, *by, named("broker-102")), rpc, asked) for rpc, asked in ASKED.items()}
    misnamed = {
        rpc: await end(door, call(BROKER, *by, named("broker-103")), rpc, asked) for rpc, asked in ASKED.items()
    }

    assert expected == found
    assert dict.fromkeys(ASKED, REFUSED) == misnamed


async def test_a_broker_with_an_envelope_speaks_for_its_own_node(caplog: pytest.LogCaptureFixture) -> None:
    """Though it came by a gateway, which passes on the calls of all; the refusal says of whom."""
    caplog.set_level("INFO", "kafka.authorizer.logger")
    door = authorizing(supers=["gateway", "broker-101", "broker-102"], nodes=NODE_RULES, principal="gateway")
    found = {}
    for broker in ("broker-101", "broker-102"):
        forwarder = (FORWARDER_PRINCIPAL, principal_text(Principal("User", broker)))
        passed_on = call(GATEWAY, *BY_GATEWAY, (CLIENT_HOST, BROKER), forwarder, named("broker-102"))
        found[broker] = {rpc: await end(door, passed_on, rpc, asked) for rpc, asked in ASKED.items()}

    assert {
        "broker-101": {"AllocateProducerIds": REFUSED, "BrokerRegistration": REFUSED},
        "broker-102": {"AllocateProducerIds": ErrorCode.NONE, "BrokerRegistration": REFUSED},
    } == found
    told = [record for record in caplog.records if record.name == "kafka.authorizer.logger"]
    assert 3 == len(told)


@pytest.mark.parametrize(
    ("sender", "is_believed"),
    [("controller-1", True), ("gateway", True), ("heartbeat", False), ("broker-101", False), ("admin", False)],
)
def test_with_rules_for_processes_a_controller_and_a_gateway_alone_pass_everything_on(
    sender: str, is_believed: bool
) -> None:
    """With any other rights: here all are super users, but for the first two."""
    door = authorizing(supers=["heartbeat", "broker-101", "admin"], processes=PROCESS_RULES, principal=sender)
    forged = call(BROKER, *BY_STANDBY, named("heartbeat"))

    if is_believed:
        assert (Principal("User", "heartbeat"), CLIENT, "", False, ()) == door.caller(forged, "ChangeBrokerState")
    else:
        refusal(door, forged, "ChangeBrokerState")


@pytest.mark.parametrize("is_forwarded", [False, True], ids=["at the active controller", "through a standby"])
def test_with_rules_for_processes_a_broker_needs_no_entry_for_its_envelopes(is_forwarded: bool) -> None:
    """Those that a gateway passes on; what it sends itself in another's name it needs one for, and so do others."""
    through = ((FORWARDED, "1"), (CLIENT_HOST, GATEWAY)) if is_forwarded else ()
    between = (GATEWAY_PRINCIPAL, principal_text(Principal("User", "gateway")))
    rules = rf"{PROCESS_RULES},RULE:^(broker)-[0-9]+$/$1/"
    ends = {}
    for forwarder in ("broker-101", "heartbeat", "broker"):
        door = authorizing(processes=rules, principal="controller-1" if is_forwarded else "gateway")
        told = (FORWARDER_PRINCIPAL, principal_text(Principal("User", forwarder)))
        passed_on = call(STANDBY, *BY_GATEWAY, (CLIENT_HOST, BROKER), told, between, named("alice"), *through)
        try:
            ends[forwarder] = door.caller(passed_on, RPC).principal.name
        except ApiError as error:
            ends[forwarder] = error.metadata[HOP]
        refusal(door, passed_on, "ChangeBrokerState")
    refusal(authorizing(processes=rules, principal="broker-101"), call(BROKER, *BY_GATEWAY, named("alice")))

    assert {"broker-101": "alice", "heartbeat": BROKER, "broker": BROKER} == ends


def test_a_gateway_behind_a_standby_is_judged_by_the_name_that_the_standby_tells() -> None:
    door = authorizing(processes=PROCESS_RULES, principal="controller-1")
    ends = {}
    for gateway in ("gateway", "broker-101"):
        told = (GATEWAY_PRINCIPAL, principal_text(Principal("User", gateway)))
        passed_on = call(STANDBY, (FORWARDED, "1"), (CLIENT_HOST, CLIENT), (CLIENT_HOST, GATEWAY), told)
        try:
            ends[gateway] = door.caller(passed_on, "BrokerRegistration").host
        except ApiError as error:
            ends[gateway] = error.metadata[HOP]

    assert {"gateway": CLIENT, "broker-101": GATEWAY} == ends


def test_each_api_in_which_a_node_speaks_is_known_to_be_forwardable_or_not() -> None:
    """One of them is: so the node rule has to hold for a broker that passes it on."""
    assert {"AllocateProducerIds"} == CLAIMS.keys() & FORWARDABLE
