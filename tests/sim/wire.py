"""The network: messages are lost, doubled, delayed, held, garbled; links are cut one way or both, and reset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from quorate.nouns import NodeId, OffsetAndEpoch, ReplicaKey
from quorate.raft.messages import FetchRequest, Request, Response, VoteRequest

if TYPE_CHECKING:
    from tests.sim.world import World

OUTSIDE = -1
"""Where administrators are: no partition cuts them off, but their messages are lost and doubled as any."""


@dataclass(eq=False)
class Route:
    """Where the answer to a request goes: which life of which node waits for it, under which number."""

    asker: NodeId
    life: int
    token: object
    request: Request
    is_answered: Callable[[Response], None] | None = None
    """For askers from outside."""
    last: OffsetAndEpoch | None = None
    """How far the log of the asked went when it considered a vote."""


class Wire:
    """Every link of the world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random: Random = world.stream("wire")
        self.cut: set[tuple[NodeId, NodeId]] = set()
        self._clogged: dict[tuple[NodeId, NodeId], int] = {}
        self._resets: dict[tuple[NodeId, NodeId], int] = {}

    def ask(self, route: Route, to: NodeId) -> None:
        """Carries a request."""
        request = replace(route.request, reply_to=route)
        plan, is_garbled = self._world.plan, self._is_garbled()
        if is_garbled and self._random.random() < 0.5:
            request, is_garbled = self._spoilt(request), False

        def arrive() -> None:
            node, stranger = self._world.nodes[to], self._world.nemesis.strangers.get(to)
            if is_garbled or not node.knows(request):
                self._fail(route)
            elif stranger is not None and route.is_answered is None:
                stranger.take(request, route)
            elif node.raft is None:
                if node.is_machine_up:  # the port is closed
                    self._fail(route)
            else:
                node.take_request(request)

        self._carry(route.asker, to, plan.request_loss, arrive)

    def answer(self, source: ReplicaKey, response: Response, route: Route) -> None:
        """Carries the answer back."""
        is_garbled = self._is_garbled()
        answer = replace(response, reply_to=route.token)

        def arrive() -> None:
            if is_garbled:
                self._fail(route)
            elif route.is_answered is not None:
                route.is_answered(answer)
            elif (node := self._world.nodes[route.asker]).raft is not None and node.life == route.life:
                node.take_response(source, route.request, answer)

        self._carry(source.id, route.asker, self._world.plan.reply_loss, arrive)

    def reset(self, a: NodeId, b: NodeId, *, is_half_open: bool) -> None:
        """Messages on the way between two nodes are lost, and both learn it, or one."""
        for link in ((a, b), (b, a)):
            self._resets[link] = self._resets.get(link, 0) + 1
        self._world.nodes[a].lose_peer(b)
        if not is_half_open:
            self._world.nodes[b].lose_peer(a)

    def heal(self) -> None:
        """Every link is whole again; what was held comes in its time."""
        self.cut = set()
        self._clogged.clear()

    def _carry(self, source: NodeId, target: NodeId, loss: float, arrive: Callable[[], None]) -> None:
        world, random, plan = self._world, self._random, self._world.plan
        link = (source, target)
        if link in self.cut:
            world.fired(self._row_of_cut())
            return
        if world.is_healed:
            world.at(1, arrive)
            return
        if loss and random.random() < loss:
            world.fired("S-01")
            return
        copies = 1
        if plan.duplicate and random.random() < plan.duplicate:
            world.fired("S-02")
            copies = 2
        resets = self._resets.get(link, 0)

        def unless_reset() -> None:
            if self._resets.get(link, 0) == resets and link not in self.cut:
                arrive()

        for _ in range(copies):
            world.at(self._delay_ms(link), unless_reset)
        if plan.reset and OUTSIDE not in link and random.random() < plan.reset * 0.2:
            world.fired("S-08")
            half = random.random() < 0.3
            world.at(random.randrange(5), lambda: self.reset(source, target, is_half_open=half))

    def _delay_ms(self, link: tuple[NodeId, NodeId]) -> int:
        world, random, plan = self._world, self._random, self._world.plan
        delay_ms = plan.delay_min_ms + int(random.expovariate(1 / plan.delay_mean_ms))
        if plan.delay_mean_ms > 2 or plan.delay_min_ms > 1:
            world.fired("S-03")
        if plan.tail and random.random() < plan.tail:
            delay_ms *= 20
        now_ms = world.timeline.now_ms
        if plan.clog and random.random() < plan.clog * 0.1:
            world.fired("S-04")
            self._clogged[link] = now_ms + int(random.expovariate(1 / plan.clog_ms))
        held_until = self._clogged.get(link, 0)
        return delay_ms if held_until <= now_ms else held_until - now_ms + random.randrange(3)

    def _is_garbled(self) -> bool:
        plan = self._world.plan
        is_garbled = not self._world.is_healed and plan.garble > 0 and self._random.random() < plan.garble
        if is_garbled:
            self._world.fired("S-09")
        return is_garbled

    def _spoilt(self, request: Request) -> Request:
        """The same request with a field that breaks a rule: it must be refused, and change nothing."""
        if isinstance(request, FetchRequest):
            return replace(request, fetch_offset=-1)
        if isinstance(request, VoteRequest):
            return replace(request, last=replace(request.last, epoch=request.epoch + 1))
        return replace(request, cluster_id="another")

    def _fail(self, route: Route) -> None:
        """The asker's transport says that there will be no answer."""
        node = self._world.nodes.get(route.asker)
        if node is not None and node.raft is not None and node.life == route.life:
            node.fail_request(route.token)

    def _row_of_cut(self) -> str:
        return self._world.nemesis.row_of_cut
