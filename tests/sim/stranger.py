"""Who is none of ours: S-40, another cluster's node at a voter's address; S-41, false claims; S-42, a removed voter.

The one refuses what it is asked, tells all it can, and asks. The others name an epoch that none can follow, or come in
the id of the very node that they are sent to.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from quorate.errors import ErrorCode
from quorate.nouns import EPOCHS_END, Epoch, NodeId, OffsetAndEpoch, ReplicaKey
from quorate.raft.messages import (
    EPOCH_UNKNOWN,
    RESPONSES,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from tests.sim.wire import OUTSIDE, Route

if TYPE_CHECKING:
    from tests.sim.world import World

CLUSTER_ID: Final = "another"
REMOVED: Final = ReplicaKey(1_000)
"""Nobody has this id any more."""
FAR: Final = (50, 1 << 20, (1 << 31) - 2)
"""Epochs that a cluster of one seed never comes to."""


class Stranger:
    """Takes the requests to one address for a while."""

    def __init__(self, world: World, address: NodeId, random: Random) -> None:
        self._world = world
        self._random = random
        self._key = ReplicaKey(address, world.new_uuid())

    def take(self, request: Request, route: Route) -> None:
        """Answers a request that was meant for the voter."""
        self._world.fired("S-40")
        self._world.wire.answer(self._key, self._answer(request), route)

    def ask_any(self) -> None:
        """Asks a node of ours for a vote, or says that it leads, in its own cluster's name."""
        target = self._random.choice(list(self._world.nodes))
        epoch, last = self._epoch(1), OffsetAndEpoch(epoch=0, offset=1 << 40)
        request = self._random.choice(
            (
                VoteRequest(epoch=epoch, replica=self._key, last=last, cluster_id=CLUSTER_ID),
                VoteRequest(epoch=epoch, replica=self._key, last=last, pre_vote=True, cluster_id=CLUSTER_ID),
                BeginQuorumEpochRequest(epoch=epoch, leader_id=self._key.id, cluster_id=CLUSTER_ID),
                EndQuorumEpochRequest(epoch=epoch, leader_id=self._key.id, cluster_id=CLUSTER_ID),
            )
        )
        self._world.fired("S-40")
        self._world.wire.ask(Route(OUTSIDE, 0, None, request, is_answered=lambda _: None), target)

    def _answer(self, request: Request) -> Response:
        """The bare error, as Kafka has it; or beside it whatever could be believed."""
        response = RESPONSES[type(request)](epoch=EPOCH_UNKNOWN, error=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if self._random.random() < 0.2:
            return response
        leader_id = self._random.choice([None, OUTSIDE - 1, *self._world.nodes])
        response = replace(response, epoch=self._epoch(getattr(request, "epoch", 0)), leader_id=leader_id)
        if isinstance(response, VoteResponse):
            return replace(response, granted=True)
        if isinstance(response, FetchResponse):
            return replace(response, high_watermark=1 << 40, diverging=OffsetAndEpoch(epoch=0, offset=0))
        return response

    def _epoch(self, asked: Epoch) -> Epoch:
        """That of the asker, one soon after, or one from far ahead."""
        return self._random.choice((asked, asked + 1, asked + 2, *FAR))


def claim(world: World, random: Random) -> None:
    """A request in our cluster's name that must be refused, and change nothing."""
    target = random.choice(list(world.nodes))
    twin = ReplicaKey(target, world.new_uuid())
    other = random.choice(list(world.nodes))
    epoch = 1 + max((node.raft.role.epoch for node in world.nodes.values() if node.raft is not None), default=0)
    last = OffsetAndEpoch(epoch=0, offset=1 << 40)
    far = EPOCHS_END - target % 2  # the largest number, or the last epoch, after which there is no other
    request = random.choice(
        (
            VoteRequest(epoch=far, replica=ReplicaKey(other), last=last),
            VoteRequest(epoch=far, replica=ReplicaKey(other), last=last, pre_vote=True),
            BeginQuorumEpochRequest(epoch=far, leader_id=other),
            EndQuorumEpochRequest(epoch=far, leader_id=other),
            VoteRequest(epoch=epoch, replica=twin, last=replace(last, epoch=epoch - 1)),
        )
    )
    world.fired("S-41")
    world.wire.ask(Route(OUTSIDE, 0, None, request, is_answered=lambda _: None), target)


def ask_as_removed(world: World, random: Random, epoch: Epoch) -> None:
    """S-42: a voter that was removed, and has come to a later epoch since, asks all for pre-votes, with a long log."""
    last = OffsetAndEpoch(epoch=epoch, offset=1 << 40)
    for target in world.nodes:
        later = epoch + 1 + random.randrange(5)
        request = VoteRequest(epoch=later, replica=REMOVED, last=last, pre_vote=True)
        world.fired("S-42")
        world.wire.ask(Route(OUTSIDE, 0, None, request, is_answered=lambda _: None), target)
