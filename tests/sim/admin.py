"""The administrators: add, remove, replace and describe voters, at once and twice; repair comes before the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from quorate.errors import ErrorCode
from quorate.nouns import ReplicaKey
from quorate.raft import Voter, VoterSet
from quorate.raft.messages import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    Response,
    VoterChange,
)
from tests.sim.atlas import is_voter
from tests.sim.wire import OUTSIDE, Route

if TYPE_CHECKING:
    from tests.sim.node import Node
    from tests.sim.world import World

VOTERS_MAX = 5
PATIENCE_MS = 8_000
"""An administrator waits so long for an answer."""


@dataclass(eq=False)
class Change:
    """One request, until it is answered or given up."""

    request: VoterChange
    is_over: bool = False


class Admin:
    """Changes voters by requests from outside, as an operator would."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.stream("admin")
        self._open: list[Change] = []
        self._additions: list[AddRaftVoterRequest] = []
        self.answers: dict[str, int] = {}

    @property
    def is_busy(self) -> bool:
        """Is a change under way that was not answered?"""
        self._open = [change for change in self._open if not change.is_over]
        return bool(self._open)

    def describe(self) -> list[str]:
        """What is under way."""
        return [str(change.request) for change in self._open]

    def begin(self) -> None:
        self._world.every(self._world.plan.admin_every_ms, self._act)

    def _act(self) -> None:
        for _ in range(2 if self._random.random() < 0.2 else 1):  # two at once race
            deeds = [self._addition] * 3 + [self._removal] * 3 + [self._update, self._repetition]
            request = self._repair() or self._random.choice(deeds)()
            if request is not None:
                self._ask(request)

    def _ask(self, request: VoterChange) -> None:
        world, change = self._world, Change(request)
        self._open.append(change)
        world.fired("S-23")
        world.note(0, "asks", type(request).__name__, self._name(request))

        def end(response: Response | None) -> None:
            if change.is_over:
                return
            change.is_over = True
            if isinstance(response, AddRaftVoterResponse | RemoveRaftVoterResponse):
                name = ErrorCode(response.error).name
                self.answers[name] = self.answers.get(name, 0) + 1
                world.note(0, "is answered", type(request).__name__, self._name(request), name, response.message)

        leaders = [node.id for node in world.nodes.values() if node.is_leader]
        target = self._random.choice(leaders or list(world.nodes))
        world.wire.ask(Route(OUTSIDE, 0, 0, request, is_answered=end), target)
        world.at(PATIENCE_MS, lambda: end(None))

    def _repair(self) -> VoterChange | None:
        """A voter whose disk is gone must make room."""
        gone = [key for key in self._voters().keys if not self._world.atlas.is_sound(key)]
        return RemoveRaftVoterRequest(voter=gone[0]) if gone else None

    def _addition(self) -> VoterChange | None:
        voters = self._voters()
        if len(voters.keys) >= VOTERS_MAX:
            return None
        nodes = [node for node in self._world.nodes.values() if node.is_up and not is_voter(voters, node.key)]
        if not nodes:
            return None
        node = self._random.choice(nodes)
        voter = Voter(key=node.key, endpoints=node.endpoints)
        request = AddRaftVoterRequest(voter=voter, timeout_ms=self._random.choice([500, 4_000]))
        self._additions.append(request)
        return request

    def _repetition(self) -> VoterChange | None:
        """An addition that was asked for before, as if it had been on its way ever since."""
        sound = [request for request in self._additions if self._world.atlas.is_sound(request.voter.key)]
        return self._random.choice(sound) if sound else None

    def _removal(self) -> VoterChange | None:
        keys = list(self._voters().keys)
        leaders = [node.key for node in self._world.nodes.values() if node.is_leader]
        key = self._random.choice(leaders if leaders and self._random.random() < 0.3 else keys)
        if len(keys) < 2 or not self._world.atlas.may_remove(key):
            return None
        return RemoveRaftVoterRequest(voter=key)

    def _update(self) -> VoterChange | None:
        """A node comes back with another port, and tells the leader itself."""
        nodes = [node for node in self._world.nodes.values() if node.is_up]
        if nodes:
            node: Node = self._random.choice(nodes)
            node.port += 1
            self._world.fired("S-23")
            node.crash("for another port", power=False)
        return None

    def _voters(self) -> VoterSet:
        return self._world.checker.ledger.voters_at_end

    @staticmethod
    def _name(request: VoterChange) -> str:
        key: ReplicaKey = request.voter.key if isinstance(request, AddRaftVoterRequest) else request.voter
        return str(key)
