"""Gives a cluster its voters back after a burst in which a drawn request was a sound operator's one."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc

from kraft.api.add_raft_voter_pb2 import AddRaftVoterRequest
from kraft.service.quorum_pb2 import AlterQuorumRequest, FindQuorumResponse
from quorate.nouns import Epoch, OffsetAndEpoch
from quorate.raft.messages import VoteRequest
from quorate.runtime.requests.statuses import error_from_call, is_retriable
from services.quorum.translate import to_vote
from services.quorum.translate.envelope import key_of
from tests.e2e.calls import attempt, call_once, eventually
from tests.e2e.cluster import VOTERS, Cluster

WALK_S: Final = 5.0
"""How long a walk may take. One that waits longer waits for a drawn voter that never comes."""


async def restore_voters(cluster: Cluster, *, within_s: float) -> None:
    """Until the nodes of the plan are the voters again, and none is in a later epoch than the leader.

    A node that is no voter goes into any epoch that a drawn BeginQuorumEpoch names, and cannot move the voters there;
    a target voter set that was accepted is walked to by any leader. Both are the rules, and what an operator would
    mend; so it is no fault.
    AssertionError if that cannot be had in time.
    """
    await eventually(lambda: _restored(cluster), within_s=within_s)


async def _restored(cluster: Cluster) -> bool:
    """Is all as it was? If not, one more step is done."""
    views = [view for node_id in VOTERS if (view := await attempt(cluster.find_once(node_id))) is not None]
    leaders = [view for view in views if view.role == "Leader"]
    if not leaders:
        return False
    leader = max(leaders, key=lambda view: view.leader_epoch)
    latest = max(view.leader_epoch for view in views)
    if leader.leader_epoch < latest:
        await _lift(cluster, leader, latest)
        return False
    is_planned = {(voter.id, voter.directory_id) for voter in leader.voters} == set(cluster.plan.directory_ids.items())
    if is_planned and not leader.target_voters:
        return True
    if not await _alter(cluster, leader):
        await _lift(cluster, leader, latest + 1)  # a change that is under way ends with its leader
    return False


async def _lift(cluster: Cluster, leader: FindQuorumResponse, epoch: Epoch) -> None:
    """Move the leader into an epoch in which it does not lead, as a candidate does; every elected leader is beyond
    it."""
    directory_ids = cluster.plan.directory_ids
    candidate = next(node_id for node_id in VOTERS if node_id != leader.node_id)
    request = VoteRequest(
        epoch=epoch,
        replica=key_of(candidate, directory_ids[candidate]),
        last=OffsetAndEpoch(epoch=0, offset=0),
        voter=key_of(leader.node_id, directory_ids[leader.node_id]),
    )
    await attempt(call_once(cluster.quorum_stub(leader.node_id).Vote, to_vote(request)))


async def _alter(cluster: Cluster, leader: FindQuorumResponse) -> bool:
    """Have the leader add and remove; False if it does not get to the end."""
    try:
        async with asyncio.timeout(WALK_S):
            async for _ in cluster.quorum_stub(leader.node_id).AlterQuorum(_target(cluster)):
                pass
    except TimeoutError:
        return False
    except grpc.aio.AioRpcError as error:
        if not is_retriable(refusal := error_from_call(error)):
            raise refusal from None
        return False
    return True


def _target(cluster: Cluster) -> AlterQuorumRequest:
    """The voters of the plan, each where it listens."""
    voters = [
        AlterQuorumRequest.Voter(
            id=node_id,
            directory_id=directory_id,
            listeners=[
                AddRaftVoterRequest.Listener(
                    name="CONTROLLER", host=cluster.quorum(node_id).place.host, port=cluster.quorum(node_id).port
                )
            ],
        )
        for node_id, directory_id in cluster.plan.directory_ids.items()
    ]
    return AlterQuorumRequest(voters=voters)
