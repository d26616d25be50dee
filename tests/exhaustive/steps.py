"""What can happen to one node, and every way in which the real core may take it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias, cast

import msgspec

from kraft import Uuid
from quorate.nouns import ZERO_UUID, NodeId, Offset, ReplicaKey
from quorate.raft import BatchInfo, VoterSet
from quorate.raft.messages import AddRaftVoterRequest, Message, RemoveRaftVoterRequest, Request
from quorate.raft.roles import Leader, Role
from quorate.raft.voters import ListenerEndpoint, Voter
from tests.exhaustive.frozen import NOW_MS, Value, freeze, thaw
from tests.exhaustive.node import (
    SETTINGS,
    Branches,
    Disk,
    Entry,
    Local,
    Node,
    Setting,
    Slot,
    bases,
    is_of_voters,
    require,
    slot_token,
)

Action: TypeAlias = tuple[Value, ...]
"""What happens to a node: a name, and what belongs to it."""

DIRECTORY = Uuid(bytes(15) + b"\xff")
"""Every node's directory id: they differ by their ids."""
NOBODY = ("route", 0, False, 0)
"""The way back to an administrator, who does not listen."""
TIMERS = ("election_deadline_ms", "retry_at_ms", "fetch_deadline_ms", "check_quorum_deadline_ms")
"""Deadlines of the roles. Those of requests and of held fetches are `late` and `held`."""


@dataclass(frozen=True, slots=True)
class View:
    """What the laws look at in one node."""

    id: NodeId
    role: str
    epoch: int
    leader_id: NodeId | None
    high_watermark: Offset
    epoch_start_offset: Offset | None
    is_committing: bool
    """Does it lead, with a high watermark of its own epoch?"""
    log: tuple[Entry, ...]
    flushed: Offset
    ends: tuple[Offset, ...]
    """Where a crash may leave the log to end."""
    voters: tuple[ReplicaKey, ...]
    voters_offset: Offset | None
    """Offset of the record that brought the voters; None if they were there at the beginning."""
    actions: tuple[Action, ...]
    """What may happen to it of its own accord, but for crashes and clients."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A node after a step, and what it has sent. Messages bear no number: at most one a peer is waited for."""

    local: Local
    view: View
    requests: tuple[tuple[NodeId, bool, Value], ...]
    """To whom; whether its answer is still waited for; what."""
    answers: tuple[tuple[NodeId, Value], ...]
    lost: tuple[Slot, ...]
    """Where an answer was waited for before, and is no more."""
    cut: tuple[tuple[Offset, Entry], ...]
    is_new_life: bool


def first(setting: Setting, key: ReplicaKey) -> Iterator[Outcome]:
    """A node with an empty disk starts."""

    def begin(chance: Branches) -> Node:
        return Node.start(setting, key, chance, Disk())

    return _every_way(begin, {}, setting)


def step(setting: Setting, local: Local, action: Action) -> list[Outcome]:
    """Every way in which a node of that value may take `action`."""
    before: dict[Slot, int] = {}
    is_crash = action[0] == "crash"

    def begin(chance: Branches) -> Node:
        node = Node.take_up(setting, local, chance)
        before.update(node.waits())
        return _restart(node, cast(int, action[1]), chance) if is_crash else _act(node, action)

    outcomes = [replace(outcome, is_new_life=is_crash) for outcome in _every_way(begin, before, setting)]
    if setting.is_lean and action == ("timer", "election_deadline_ms"):
        return [outcome for outcome in outcomes if outcome.view.role != "Candidate" or not _is_pausing(outcome.view)]
    return outcomes


def _is_pausing(view: View) -> bool:
    return ("timer", "retry_at_ms") in view.actions


def _every_way(begin: Callable[[Branches], Node], before: dict[Slot, int], setting: Setting) -> Iterator[Outcome]:
    scripts: list[tuple[int, ...]] = [()]
    while scripts:
        chance = Branches(scripts.pop(), setting.is_lean)
        node = begin(chance)
        node.drive()
        scripts += chance.others()
        outcome = _outcome(node, before)
        judge(outcome.view, setting.base)
        yield outcome


def _outcome(node: Node, before: dict[Slot, int]) -> Outcome:
    waits = node.waits()
    awaited = set(waits.values())
    requests = tuple((to, token in awaited, _plain(message)) for to, token, message in node.requests)
    answers = tuple((route[1], _plain(message)) for route, message in node.answers if route[3])
    lost = tuple(slot for slot, token in before.items() if waits.get(slot) != token)
    local = node.put_down()
    return Outcome(local, view(node), requests, answers, lost, tuple(node.cut), is_new_life=False)


def _plain(message: Message) -> Value:
    if isinstance(message, Request):
        return freeze(msgspec.structs.replace(message, reply_to=None, cluster_id=None))
    return freeze(msgspec.structs.replace(message, reply_to=None))


def _act(node: Node, action: Action) -> Node:
    raft = node.raft
    match action:
        case ("take", sender, is_waited_for, value):
            _take(node, cast(NodeId, sender), bool(is_waited_for), cast(Message, thaw(value)))
        case ("timer", str(name)):
            setattr(raft.role, name, NOW_MS)
            raft.tick(NOW_MS)
        case ("late", int(peer), bool(about_voters)):
            node.give_up((peer, about_voters))
            raft.tick(NOW_MS)
        case ("change late",):
            assert isinstance(raft.role, Leader)
            assert raft.role.pending is not None
            raft.role.pending.deadline_ms = NOW_MS
            raft.tick(NOW_MS)
        case ("held", key):
            _end_wait(raft.role, cast(ReplicaKey, thaw(key)))
            raft.tick(NOW_MS)
        case ("flush",):
            node.flushed = len(node.log)
            raft.flushed(node.flushed, NOW_MS)
        case ("append",):
            _append(node)
        case ("add", int(id)):
            endpoint = ListenerEndpoint("CONTROLLER", "node", 1)
            voter = Voter(key=key_of(node.setting, id), endpoints=(endpoint,))
            _ask(node, AddRaftVoterRequest(voter=voter, timeout_ms=SETTINGS.request_timeout_ms, reply_to=NOBODY))
        case ("remove", int(id)):
            _ask(node, RemoveRaftVoterRequest(voter=key_of(node.setting, id), reply_to=NOBODY))
        case _:
            raise AssertionError(action)
    return node


def _take(node: Node, sender: NodeId, is_waited_for: bool, message: Message) -> None:
    """A request carries the way back; an answer, the token of what it answers, which is the peer's id."""
    slot = sender, is_of_voters(type(message).__name__)
    if isinstance(message, Request):
        node.request = message
        node.raft.step(msgspec.structs.replace(message, reply_to=("route", *slot, int(is_waited_for))), NOW_MS)
    else:
        node.raft.step(msgspec.structs.replace(message, reply_to=slot_token(slot)), NOW_MS)


def _end_wait(role: Role, key: ReplicaKey) -> None:
    assert isinstance(role, Leader), role
    role.parked[key].deadline_ms = role.parked_deadline_ms = NOW_MS


def key_of(setting: Setting, id: NodeId) -> ReplicaKey:
    """The node on its disk; without a directory id where voters are configured. KIP-853."""
    return ReplicaKey(id, DIRECTORY if setting.kraft_version else ZERO_UUID)


def _append(node: Node) -> None:
    log, role = node.raft.log, node.raft.role
    data = ("value", node.raft.node.id)
    refusal = node.raft.append(
        [BatchInfo(base_offset=log.leo, last_offset=log.leo, epoch=role.epoch, data=data)], NOW_MS
    )
    assert refusal is None, refusal


def _ask(node: Node, request: AddRaftVoterRequest | RemoveRaftVoterRequest) -> None:
    node.raft.step(request, NOW_MS)


def _restart(node: Node, kept: Offset, chance: Branches) -> Node:
    """The process dies; of what was not flushed, the part below `kept` has reached the disk."""
    assert node.flushed <= kept <= len(node.log), (node.flushed, kept, len(node.log))
    return Node.start(node.setting, node.raft.node, chance, Disk(node.log[:kept], node.durable, node.grant))


def view(node: Node) -> View:
    """What the laws look at, once the node is put down."""
    raft = node.raft
    role, log = raft.role, raft.log
    leader = role if isinstance(role, Leader) else None
    return View(
        id=raft.node.id,
        role=type(role).__name__,
        epoch=role.epoch,
        leader_id=role.leader_id,
        high_watermark=log.high_watermark,
        epoch_start_offset=None if leader is None else leader.epoch_start_offset,
        is_committing=leader is not None and leader.high_watermark is not None,
        log=tuple(node.log),
        flushed=node.flushed,
        ends=tuple(end for end in (*bases(node.log), len(node.log)) if end >= node.flushed),
        voters=log.voters.latest.keys,
        voters_offset=log.voters.latest_offset,
        actions=tuple(_own_actions(node)),
    )


def _own_actions(node: Node) -> Iterator[Action]:
    role = node.raft.role
    for name in TIMERS:
        at_ms = getattr(role, name, None)
        if at_ms is not None and at_ms > NOW_MS:
            yield "timer", name
    for slot in sorted(node.waits()):
        yield "late", *slot
    if isinstance(role, Leader):
        for key in sorted(role.parked):
            yield "held", freeze(key)
        if role.pending is not None:
            yield ("change late",)
    if node.flushed < len(node.log):
        yield ("flush",)


def judge(view: View, base: VoterSet) -> None:
    """The laws of a log alone."""
    sets = [base, *(cast(VoterSet, thaw(entry[2])) for entry in view.log if entry[2] is not None)]
    for before, after in pairwise(sets):
        require(len(set(after.keys)) >= 1, "I-36 the voter set is never empty", view.id, after)
        apart = set(before.keys) ^ set(after.keys)
        require(len(apart) <= 1, "I-30 voter sets differ by one voter", view.id, before.keys, after.keys)
    require(view.voters == sets[-1].keys, "I-32 the latest voters record is in force", view.id, view.voters, sets[-1])
    epochs = [entry[0] for entry in view.log]
    require(epochs == sorted(epochs), "I-09 epochs do not fall along a log", view.id, epochs)
    require(not epochs or epochs[-1] <= view.epoch, "I-03 no epoch is behind its log", view.id, epochs, view.epoch)
    require(view.high_watermark <= len(view.log), "I-20 high watermark within the log", view.id, view.high_watermark)
