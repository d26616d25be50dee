"""Where a node is looked for: as it heard last, until the voter set in force says otherwise. KIP-853."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.local.ports import free_ports
from kraft import Uuid
from kraft.service.quorum_pb2_grpc import QuorumStub, add_QuorumServicer_to_server
from quorate.nouns import ReplicaKey
from quorate.raft.history import History
from quorate.raft.messages import BeginQuorumEpochRequest, EndQuorumEpochRequest
from quorate.raft.voters import ListenerEndpoint, Voter, VoterSet
from quorate.runtime.access.passing_on import LISTENER
from quorate.runtime.calls.server import Server
from quorate.runtime.clients.client import open_channel
from quorate.runtime.settings.named_endpoints import NamedVoter
from quorate.runtime.settings.setting_types import ConfiguredVoter as ConfiguredVoter
from quorate.runtime.settings.setting_types import Endpoint as ConfiguredEndpoint
from services.quorum.endpoints import NodeEndpoints
from services.quorum.listeners import ListenerProtocols
from services.quorum.servicer import PeerServicer
from services.quorum.translate import Address
from services.quorum.translate.asking import to_begin, to_end
from tests.services.nodes import Silent, driver_of, open_disk


def at(port: int) -> VoterSet:
    """Node 1, which listens there."""
    listener = ListenerEndpoint("CONTROLLER", "one", port)
    return VoterSet((Voter(key=ReplicaKey(1, Uuid(b"1" * 16)), endpoints=(listener,)),))


def known(voters: History[VoterSet]) -> NodeEndpoints:
    """Node 2 is configured; a bootstrap server, too."""
    return NodeEndpoints((ConfiguredVoter(2, ConfiguredEndpoint("two", 2)),), (ConfiguredEndpoint("boot", 3),), voters)


def test_voters_in_the_log_come_before_the_configuration() -> None:
    endpoints = known(History(at(1)))

    assert [Address("one", 1), Address("two", 2), Address("boot", 3)] == [endpoints[id] for id in (1, 2, -2)]
    with pytest.raises(KeyError):
        endpoints[7]


def test_the_first_listener_of_several_is_the_one() -> None:
    """The first is the default listener of the voters, as `controller.listener.names` has it. KIP-853."""
    listeners = tuple(
        ListenerEndpoint(name, name.lower(), port) for port, name in enumerate(("FIRST", "SECOND", "THIRD"), 1)
    )
    voter = Voter(key=ReplicaKey(1, Uuid(b"1" * 16)), endpoints=listeners)

    assert Address("first", 1) == known(History(VoterSet((voter,))))[1]


def test_who_has_moved_is_found_before_the_record_of_it_is_here() -> None:
    endpoints = known(History(at(1)))
    endpoints.hear(1, Address("one", 10))

    assert Address("one", 10) == endpoints[1]


def test_who_has_become_a_voter_is_found_before_the_record_of_it_is_here() -> None:
    endpoints = known(History(at(1)))
    endpoints.hear(5, Address("five", 5))

    assert Address("five", 5) == endpoints[5]


def test_what_was_heard_is_old_once_the_voter_set_says_otherwise() -> None:
    voters = History(at(1))
    endpoints = known(voters)
    endpoints.hear(1, Address("one", 10))
    voters.append(5, at(20))

    assert Address("one", 20) == endpoints[1]


def test_a_leader_says_where_it_listens() -> None:
    request = BeginQuorumEpochRequest(epoch=3, leader_id=1, voter=ReplicaKey(2), cluster_id="c", reply_to=7)
    (told,) = to_begin(request, at(1).voters[0].endpoints).leader_endpoints

    assert ("CONTROLLER", "one", 1) == (told.name, told.host, told.port)


@pytest.mark.parametrize("cluster_id", ["c", "another"])
async def test_a_leader_that_leaves_says_where_it_listens(tmp_path: Path, cluster_id: str) -> None:
    """Through the RPC: to a voter that has not heard of it before; and nothing is kept of another cluster's leader."""
    driver = driver_of(open_disk(tmp_path, voters=3))
    driver.start(Silent(), pytest.fail)  # type: ignore[arg-type]  # what of Peers is used here
    endpoints, (port,) = NodeEndpoints((), (), driver.core.log.voters), free_ports(1)
    server, peer = Server(), PeerServicer(driver, endpoints, cluster_id="c", node_id=1)
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, peer)
    server.listen(f"127.0.0.1:{port}")
    await server.start()
    leaving = EndQuorumEpochRequest(epoch=7, leader_id=2, cluster_id=cluster_id)
    request = to_end(leaving, [ListenerEndpoint("CONTROLLER", "left.example", 9093)])
    async with open_channel(f"127.0.0.1:{port}") as channel:
        await QuorumStub(channel).EndQuorumEpoch(request, timeout=120)

    assert (Address("left.example", 9093) if cluster_id == "c" else None) == endpoints.get(2)
    await server.stop(grace_s=0)
    driver.stop()


# Listeners that speak Kafka's wire

MIXED = ListenerProtocols({"CONTROLLER": "PLAINTEXT"})


def mixed(*named: tuple[int, str, str]) -> NodeEndpoints:
    """Voters by id, each with its listeners: (id, name, host). Node 7, a Kafka controller, is configured."""
    listeners: dict[int, list[ListenerEndpoint]] = {}
    for node_id, name, host in named:
        listeners.setdefault(node_id, []).append(ListenerEndpoint(name, host, 1))
    voters = tuple(
        Voter(key=ReplicaKey(node_id, Uuid(b"1" * 16)), endpoints=tuple(each)) for node_id, each in listeners.items()
    )
    kafka = NamedVoter(7, ConfiguredEndpoint("seven", 7), "CONTROLLER")
    return NodeEndpoints((kafka,), (), History(VoterSet(voters)), MIXED)


OURS, KAFKAS = ((1, "CONTROLLER", "gateway"), (1, "QUORUM", "one")), ((3, "CONTROLLER", "three"),)


def test_a_node_that_speaks_both_is_reached_by_grpc_and_a_kafka_by_its_own_wire() -> None:
    endpoints = mixed(*OURS, *KAFKAS)

    assert ["one:1", "PLAINTEXT at three:1", "PLAINTEXT at seven:7"] == [str(endpoints.peer(id)) for id in (1, 3, 7)]
    assert {1: Address("one", 1)} == dict(endpoints)
    assert 3 not in endpoints


def test_who_asks_a_gateway_gets_the_listeners_of_the_gateways_name() -> None:
    on_kafkas_wire = mixed(*OURS, *KAFKAS).on("CONTROLLER")

    assert {1: Address("gateway", 1), 3: Address("three", 1), 7: Address("seven", 7)} == dict(on_kafkas_wire)


@pytest.mark.parametrize("listener", ["QUORUM", "UNKNOWN"])
def test_no_address_for_grpc_is_given_to_who_speaks_kafkas_wire(listener: str) -> None:
    assert {} == dict(mixed(*OURS, *KAFKAS).on(listener))


def test_our_node_is_not_asked_through_its_gateway_because_a_kafka_named_that() -> None:
    endpoints = mixed(*OURS)
    endpoints.hear(1, Address("gateway", 1), "PLAINTEXT")
    endpoints.hear(4, Address("four", 1), "PLAINTEXT")

    assert ["one:1", "PLAINTEXT at four:1"] == [str(endpoints.peer(id)) for id in (1, 4)]
    assert Address("four", 1) == endpoints.on("CONTROLLER")[4]


def test_a_leader_is_reached_at_the_best_of_the_listeners_that_it_announces() -> None:
    endpoints = mixed()
    endpoints.hear_listeners(2, [ListenerEndpoint("CONTROLLER", "gateway", 1), ListenerEndpoint("QUORUM", "two", 2)])
    endpoints.hear_listeners(3, [ListenerEndpoint("CONTROLLER", "three", 3)])
    endpoints.hear_listeners(4, [])

    assert ["two:2", "PLAINTEXT at three:3", "None"] == [str(endpoints.peer(id)) for id in (2, 3, 4)]


@pytest.mark.parametrize(("listener", "lacking"), [("CONTROLLER", []), ("KAFKA", [1, 3]), ("QUORUM", [3])])
def test_the_voters_that_do_not_announce_a_listener_are_known(listener: str, lacking: list[int]) -> None:
    """A static voter announces nothing, and is looked for in the settings."""
    assert lacking == mixed(*OURS, *KAFKAS).unannounced(listener)
    assert [] == NodeEndpoints((), (), History(VoterSet.of(1, 2))).unannounced(listener)


async def test_a_gateway_whose_listener_is_in_no_log_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    driver = driver_of(open_disk(tmp_path, voters=3))
    driver.start(Silent(), pytest.fail)  # type: ignore[arg-type]  # what of Peers is used here
    server, peer = Server(), PeerServicer(driver, known(History(at(1))), cluster_id="c", node_id=1)
    server.add("kraft.service.Quorum", add_QuorumServicer_to_server, peer)
    port = server.listen("127.0.0.1:0")
    await server.start()
    request = to_end(EndQuorumEpochRequest(epoch=7, leader_id=2, cluster_id="c"), [])
    async with open_channel(f"127.0.0.1:{port}") as channel:
        for listener in ("CONTROLLER", "KAFKA", "KAFKA"):
            await QuorumStub(channel).EndQuorumEpoch(request, timeout=120, metadata=((LISTENER, listener),))

    (warning,) = [record for record in caplog.records if record.name == "services.quorum.servicer"]
    assert "look for voters at a listener that these do not announce" in warning.getMessage()
    await server.stop(grace_s=0)
    driver.stop()
