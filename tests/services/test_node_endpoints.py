"""Where a node is looked for: as it was told last, until the voter set in force says otherwise. KIP-853."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deploy.local.ports import free_ports
from kraft import Uuid
from kraft.service.quorum_pb2_grpc import QuorumStub, add_QuorumServicer_to_server
from quorate.nouns import ReplicaKey
from quorate.raft.history import History
from quorate.raft.messages import BeginQuorumEpochRequest, EndQuorumEpochRequest
from quorate.raft.voters import ListenerEndpoint, Voter, VoterSet
from quorate.runtime.client import open_channel
from quorate.runtime.server import Server
from quorate.runtime.setting_types import ConfiguredVoter as ConfiguredVoter
from quorate.runtime.setting_types import Endpoint as ConfiguredEndpoint
from services.quorum.endpoints import NodeEndpoints
from services.quorum.servicer import PeerServicer
from services.quorum.translate import Address
from services.quorum.translate.asking import to_begin, to_end
from tests.services.nodes import driver_of, open_disk


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


class Silent:
    """Peers that nobody reaches."""

    def send(self, send: Any) -> None:
        """Lost on the way."""

    def stop_fetching(self, *, unless_from: int | None) -> None:
        """Nothing to stop."""


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
