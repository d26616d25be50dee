"""Where a node is looked for: as it was told last, until the voter set in force says otherwise. KIP-853."""

from __future__ import annotations

import pytest

from kraft import Uuid
from quorate.nouns import ReplicaKey
from quorate.raft.history import History
from quorate.raft.messages import BeginQuorumEpochRequest
from quorate.raft.voters import Endpoint, Voter, VoterSet
from quorate.runtime.kinds import Endpoint as ConfiguredEndpoint
from quorate.runtime.kinds import Voter as ConfiguredVoter
from services.quorum.endpoints import NodeEndpoints
from services.quorum.translate import Address
from services.quorum.translate.asking import to_begin


def at(port: int) -> VoterSet:
    """Node 1, which listens there."""
    listener = Endpoint("CONTROLLER", "one", port)
    return VoterSet((Voter(key=ReplicaKey(1, Uuid(b"1" * 16)), endpoints=(listener,)),))


def known(voters: History[VoterSet]) -> NodeEndpoints:
    """Node 2 is configured; a bootstrap server, too."""
    return NodeEndpoints((ConfiguredVoter(2, ConfiguredEndpoint("two", 2)),), (ConfiguredEndpoint("boot", 3),), voters)


def test_voters_in_the_log_come_before_the_configuration() -> None:
    endpoints = known(History(at(1)))

    assert [Address("one", 1), Address("two", 2), Address("boot", 3)] == [endpoints[id] for id in (1, 2, -2)]
    with pytest.raises(KeyError):
        endpoints[7]


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
