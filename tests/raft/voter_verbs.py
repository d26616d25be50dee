"""The scripts' commands about who votes (KIP-853); each takes the script and its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from quorate.nouns import NodeId
from quorate.raft import RaftSettings, VoterSet
from quorate.raft.messages import AddRaftVoterRequest, AlterQuorumRequest, RemoveRaftVoterRequest, Request
from quorate.raft.roles import Leader
from quorate.raft.voters import ListenerEndpoint, VersionRange
from tests.raft.cluster import Node
from tests.raft.telling import names, voter_on

if TYPE_CHECKING:
    from tests.raft.scenario import Script

ADMIN: NodeId = 0
"""The operator who asks for voters to be added and removed."""


def format_all(script: Script, *words: str) -> None:
    """format kraft=1 voters=1,2,3 [leader=1]: fresh nodes, each on its disk a, with listeners.

    At kraft.version 1 the voters are in the bootstrap checkpoint, at 0 in the configuration. With a leader, the
    first election is over, and of no interest.
    """
    options = dict(word.split("=") for word in words)
    ids = [int(id) for id in options["voters"].split(",")]
    kraft_version = int(options["kraft"])
    voters = VoterSet(tuple(voter_on(f"{id}a") for id in ids)) if kraft_version else VoterSet.of(*ids)
    for id in ids:
        place(script, f"{id}a", voters, kraft_version)
    for id in ids:
        script.restart(str(id))
    if "leader" in options:
        script.timeout(options["leader"])
        script.settle()
        script.output.clear()


def place(script: Script, name: str, voters: VoterSet, kraft_version: int, *words: str) -> None:
    """Puts a formatted disk into a machine."""
    me = voter_on(name)
    settings = RaftSettings(fetch_max_bytes=100, auto_join_enable="joins" in words)
    script.nodes[me.key.id] = Node(
        me.key,
        voters,
        settings,
        Random(me.key.id),
        kraft_version=kraft_version,
        endpoints=me.endpoints,
        bootstrap=frozenset(script.nodes),
    )
    script.clocks.setdefault(me.key.id, max(script.clocks.values(), default=0))


def newcomer(script: Script, name: str, *words: str) -> None:
    """newcomer 4a [joins] [supports=0-0]: a node that was formatted without any voters starts."""
    place(script, name, VoterSet(()), 1, *words)
    for word in words:
        if word.startswith("supports="):
            lowest, highest = word.removeprefix("supports=").split("-")
            script.nodes[int(name[:-1])].kraft_versions = VersionRange(int(lowest), int(highest))
    script.restart(name[:-1])


def wipe(script: Script, name: str, *words: str) -> None:
    """wipe 3b [joins]: node 3, which is down, gets an empty disk b, formatted without any voters."""
    life = script.nodes[int(name[:-1])].life
    place(script, name, VoterSet(()), 1, *words)
    script.nodes[int(name[:-1])].life = life


def move(script: Script, id: str, host: str) -> None:
    """move 2 there: node 2 listens elsewhere from its next start on."""
    script.nodes[int(id)].endpoints = (ListenerEndpoint("CONTROLLER", host, 9093),)


def add(script: Script, id: str, name: str, *words: str) -> None:
    """add 1 4a [early] [timeout=1000] [listener=CONTROLLER]: an administrator asks node 1 to add the voter."""
    options = dict(word.split("=") for word in words if "=" in word)
    voter = voter_on(name)
    if "listener" in options:
        voter = replace(voter, endpoints=(ListenerEndpoint(options["listener"], f"host{voter.key.id}", 9092),))
    request = AddRaftVoterRequest(
        voter=voter,
        timeout_ms=int(options.get("timeout", 1_000)),
        ack_when_committed="early" not in words,
        reply_to=(ADMIN, 0, None),
    )
    administer(script, id, request)


def remove(script: Script, id: str, name: str) -> None:
    """remove 1 4a: an administrator asks node 1 to remove the voter."""
    administer(script, id, RemoveRaftVoterRequest(voter=voter_on(name).key, reply_to=(ADMIN, 0, None)))


def alter(script: Script, id: str, target: str, *words: str) -> None:
    """alter 1 2a,3a,4a [check]: an administrator asks node 1 for these voters; `alter 1 none` takes that back."""
    voters = None if target == "none" else VoterSet(tuple(map(voter_on, target.split(","))))
    request = AlterQuorumRequest(target=voters, validate_only="check" in words, reply_to=(ADMIN, 0, None))
    administer(script, id, request)


def walk(script: Script, id: str) -> None:
    """walk 1: the step to the target that node 1, which leads, could not take."""
    role = script.nodes[int(id)].core.role
    assert isinstance(role, Leader), role
    failed, step = role.walk, role.walk.step
    what = "none" if step is None else f"{type(step).__name__.lower()} {step.key}"
    script.output.append(f"{id} failed {failed.failures} times: {what}, {failed.error.name} ({failed.message})")


def administer(script: Script, id: str, request: Request) -> None:
    node = script.nodes[int(id)]
    node.core.step(request, script.clocks[node.id])
    script.after(node)


def upgrade(script: Script, id: str, version: str, *words: str) -> None:
    """upgrade 1 1 [check]: has node 1 raise kraft.version to 1, or say whether it could."""
    node = script.nodes[int(id)]
    done = node.core.upgrade_kraft_version(
        int(version), script.clocks[node.id], epoch=node.core.role.epoch, validate_only="check" in words
    )
    outcome = "possible" if "check" in words else f"done, end={done.end_offset}"
    if done.error:
        outcome = f"{done.error.name} ({done.message})"
    script.output.append(f"{id}: upgrade to {version}: {outcome}")
    script.after(node)


def voters(script: Script) -> None:
    """Who votes, as far as each node knows."""
    for id, node in script.nodes.items():
        if node.raft is not None:
            log = node.raft.log
            where = "" if log.voters.latest_offset is None else f" since={log.voters.latest_offset}"
            script.output.append(f"{id} kraft.version={log.kraft_version} voters={names(log.voters.latest)}{where}")


VERBS: Mapping[str, Callable[..., None]] = {
    "format": format_all,
    "newcomer": newcomer,
    "wipe": wipe,
    "move": move,
    "add": add,
    "remove": remove,
    "alter": alter,
    "walk": walk,
    "upgrade": upgrade,
    "voters": voters,
}
