"""The administrator: has voters added, removed and moved by the doors that there are for it, one step or a whole walk.

It asks the node that it takes for the leader, or any; asks again what was asked before; goes away before it is
answered. A walk that it has begun goes on without it (S-48), and while leaders are killed (S-49).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from grpc.aio import EOF, AioRpcError

from kraft.api.add_raft_voter_pb2 import AddRaftVoterRequest
from kraft.api.remove_raft_voter_pb2 import RemoveRaftVoterRequest
from kraft.service.quorum_pb2 import AlterQuorumRequest, AlterQuorumResponse, UpgradeKRaftVersionRequest
from kraft.service.quorum_pb2_grpc import QuorumStub, RaftClientStub
from quorate.nouns import ReplicaKey, uuid_text
from quorate.raft.roles import Leader
from quorate.raft.voters import VoterSet
from tests.sim_driver.checker import require
from tests.sim_driver.loop import Life, context_of
from tests.sim_driver.wire import Channel

if TYPE_CHECKING:
    from tests.sim_driver.node import Node
    from tests.sim_driver.world import World

HOST: Final = 0
ANSWER_S: Final = 6.0
WALK_STEPS_MAX: Final = 40
"""With so many answers it goes away."""
STAYS: Final = 3
"""Fewer voters are left only where no disk is damaged: of two, one that has lost something can have no leader."""


class Admin:
    """One at a time, and sometimes two at once. `answers` counts what became of them."""

    def __init__(self, world: World) -> None:
        self.host = HOST
        self._world = world
        self._random = world.stream("admin")
        self._life = Life(self, "admin")
        self._additions: list[AddRaftVoterRequest] = []

    def start(self) -> None:
        for _ in range(2):  # two race
            self._world.loop.create_task(self._live(), context=context_of(self._life))

    async def _live(self) -> None:
        try:
            while True:
                await asyncio.sleep(self._random.randrange(2 * self._world.plan.admin_every_ms) / 1000)
                deeds = [self._add] * 3 + [self._remove] * 3 + [self._walk, self._repeat]
                # A node that comes back elsewhere while others are removed may be one that the rest needs and cannot
                # find.
                deeds += [self._walk] * 20 + [self._cancel] * 2 if self._world.plan.walks else [self._move]
                deeds += [self._move] * 20 if self._world.plan.moves else []
                deed: Callable[[], Awaitable[None]] = self._random.choice(deeds)
                if self._world.is_healed:
                    return
                with suppress(AioRpcError):
                    await (self._upgrade if self._is_static() else deed)()
        except Exception as error:
            self._world.failed(self._life, error)

    # What is asked.

    async def _upgrade(self) -> None:
        """The voters go into the log: asked of the leader as its controller would."""
        leader = self._leader()
        if leader is not None:
            stub: Any = RaftClientStub(self._channel(leader))  # type: ignore[arg-type]
            epoch = leader.driver.core.role.epoch if leader.driver is not None else 0
            request = UpgradeKRaftVersionRequest(version=1, epoch=epoch)
            answer = await stub.UpgradeKRaftVersion(request, timeout=ANSWER_S)
            if answer.error_code == 0:
                require("I-41", not self._is_static(), "said to be in the log, and is not committed", answer.end_offset)

    async def _add(self) -> None:
        nodes = [node for node in self._world.nodes.values() if node.id not in self._voters.ids]
        if nodes:
            node = self._random.choice(nodes)
            request = AddRaftVoterRequest(
                timeout_ms=self._random.choice((300, 3_000)),
                voter_id=node.id,
                voter_directory_id=uuid_text(node.key.directory_id),
                listeners=[_listener(node)],
                ack_when_committed=self._random.randrange(4) > 0,
            )
            self._additions.append(request)
            await self._ask_to_add(request)

    async def _repeat(self) -> None:
        """An addition that was asked for before, as if it had been on its way ever since."""
        known = [each for each in self._additions if each.listeners[0].port == self._world.nodes[each.voter_id].port]
        if known:
            await self._ask_to_add(self._random.choice(known))

    async def _ask_to_add(self, request: AddRaftVoterRequest) -> None:
        known = len(self._world.checker.voter_sets)
        answer = await self._stub().AddRaftVoter(request, timeout=ANSWER_S)
        self._note("add", request.voter_id, answer)
        if answer.error_code == 0 and request.ack_when_committed:
            key = self._world.nodes[request.voter_id].key
            self._require_some(known, lambda voters: key in voters.keys, "said to be added, and is not", key)

    async def _remove(self) -> None:
        keys, leader = self._voters.keys, self._leader()
        if len(keys) <= self._least or not self.is_found:
            return
        key = self._random.choice(keys)
        if leader is not None and leader.key in keys and self._random.randrange(3) == 0:
            key = leader.key
        request = RemoveRaftVoterRequest(voter_id=key.id, voter_directory_id=uuid_text(key.directory_id))
        known = len(self._world.checker.voter_sets)
        answer = await self._stub().RemoveRaftVoter(request, timeout=ANSWER_S)
        self._note("remove", key.id, answer)
        if answer.error_code == 0:
            self._require_some(known, lambda voters: key not in voters.keys, "said to be removed, and votes", key)

    async def _walk(self) -> None:
        """To any other set of voters, by whichever node."""
        if not self.is_found:
            return
        nodes = list(self._world.nodes.values())
        target = self._random.sample(nodes, self._random.randrange(max(2, self._least), len(nodes) + 1))
        request = AlterQuorumRequest(
            voters=[
                AlterQuorumRequest.Voter(
                    id=node.id, directory_id=uuid_text(node.key.directory_id), listeners=[_listener(node)]
                )
                for node in target
            ]
        )
        self._world.fired("walks")
        await self._follow(request, {node.key for node in target})

    async def _cancel(self) -> None:
        """Any target is taken back."""
        await self._follow(AlterQuorumRequest(cancel=True), set())

    async def _follow(self, request: AlterQuorumRequest, target: set[ReplicaKey]) -> None:
        """Hears of it to the end, or only for a while: then the target is left to any leader."""
        known = len(self._world.checker.voter_sets)
        self._world.note(HOST, "asks to walk to", sorted(key.id for key in target))
        call = self._stub(anybody=True).AlterQuorum(request)
        try:
            for _ in range(self._random.choice((4, WALK_STEPS_MAX))):
                told = await call.read()
                if told is EOF:
                    return
                self._take(told, known, target)
                is_on_the_way = told.step in (AlterQuorumResponse.STEP_ADDED, AlterQuorumResponse.STEP_REMOVED)
                if is_on_the_way and not self._world.is_healed and self._random.randrange(2):
                    self.kill_leader()
        finally:
            wanted = self._voters.target
            if wanted is not None and set(wanted.keys) == target:
                self._world.fired("S-48 left to itself")
            call.cancel()

    def set_out(self) -> None:
        """Asks once more, in a world that is well, and goes away."""
        self._world.loop.create_task(self._set_out(), context=context_of(self._life))

    async def _set_out(self) -> None:
        with suppress(AioRpcError):
            await self._walk()

    def kill_leader(self) -> None:
        """S-49: in the middle of a walk; the next leader is to go on with it."""
        leader = self._leader()
        if leader is not None and self._voters.target is not None:
            self._world.fired("S-49")
            leader.crash("in the middle of a walk", is_power_cut=False)

    def _take(self, told: AlterQuorumResponse, known: int, target: set[ReplicaKey]) -> None:
        name = AlterQuorumResponse.Step.Name(told.step).removeprefix("STEP_").lower()
        self._world.note(HOST, "walks", name, told.voter_id, told.reason)
        if told.step == AlterQuorumResponse.STEP_ADDED:
            self._require_some(known, lambda voters: told.voter_id in voters.ids, "is not added", told.voter_id)
        elif told.step == AlterQuorumResponse.STEP_REMOVED:
            self._require_some(known, lambda voters: told.voter_id not in voters.ids, "still votes", told.voter_id)
        elif told.step == AlterQuorumResponse.STEP_DONE:
            self._require_some(known, lambda voters: target == set(voters.keys), "is not there", target)
        elif told.step == AlterQuorumResponse.STEP_CANCELLED:
            self._world.fired("S-48 cancelled")
            self._require_some(
                known,
                lambda voters: voters.target is None and set(voters.keys) != target,
                *("is not taken back", target),
                number="I-88",
            )
        elif told.step == AlterQuorumResponse.STEP_REPLACED:
            self._world.fired("S-48 replaced")
            self._require_some(
                known,
                lambda voters: voters.target is not None and set(voters.target.keys) != target,
                *("is not replaced", target),
                number="I-88",
            )

    async def _move(self) -> None:
        """A node comes back with another port, and tells the leader itself.

        Until that is committed no voter is removed. If the leader is lost before, and too few voters are left that know
        where the others are, none can be elected: the requests of an election carry no endpoints (KIP-853).
        """
        nodes = list(self._world.nodes.values())
        node = self._random.choice(nodes)
        is_settled = self.is_found and self._voters.target is None and all(map(self._is_informed, nodes))
        if is_settled and len(self._voters.ids) > 2:
            node.port += 1
            self._world.fired("moves")
            node.crash("for another port", is_power_cut=False)

    def _is_informed(self, node: Node) -> bool:
        """Has it all that is committed of who votes? One that does not know where to ask gets no answer."""
        is_whole = node.driver is not None and not node.is_damaged
        return is_whole and node.driver.core.log.voters.latest == self._voters  # type: ignore[union-attr]

    @property
    def is_found(self) -> bool:
        """Does every node know where each is that votes by its log? If not, one lost more might be one too many.

        The state of a node that is down is not looked at; but what is committed must be right.
        """
        nodes = self._world.nodes
        logs = [node.driver.core.log.voters.latest for node in nodes.values() if node.driver is not None]
        voters = [voter for known in (self._voters, *logs) for voter in known.voters]
        return all(voter.endpoints in ((), (nodes[voter.key.id].endpoint,)) for voter in voters)

    # Of whom.

    @property
    def _voters(self) -> VoterSet:
        return self._world.checker.voter_sets[-1][1]

    @property
    def _least(self) -> int:
        return STAYS if self._world.plan.damages else 1

    def _is_static(self) -> bool:
        return not any(voter.endpoints for voter in self._voters.voters)

    def _leader(self) -> Node | None:
        leads = [
            node
            for node in self._world.nodes.values()
            if node.driver is not None and isinstance(node.driver.core.role, Leader)
        ]
        return self._random.choice(leads) if leads else None

    def _stub(self, *, anybody: bool = False) -> Any:
        leader = None if anybody or self._random.randrange(8) == 0 else self._leader()
        return QuorumStub(self._channel(leader or self._random.choice(list(self._world.nodes.values()))))  # type: ignore[arg-type]

    def _channel(self, node: Node) -> Channel:
        return Channel(self._world.network, self._life, node.address)

    def _note(self, what: str, voter_id: int, answer: Any) -> None:
        self._world.fired("asked" if answer.error_code else "changed")
        self._world.note(HOST, what, voter_id, answer.error_code, answer.error_message)

    def _require_some(self, known: int, is_so: Callable[[VoterSet], bool], *why: object, number: str = "I-41") -> None:
        """It is answered for: some voter set that was committed, or still in force, since it was asked is so."""
        require(number, any(map(is_so, self._world.checker.voters_since(known))), *why)


def _listener(node: Node) -> AddRaftVoterRequest.Listener:
    return AddRaftVoterRequest.Listener(name=node.endpoint.name, host=node.endpoint.host, port=node.port)
