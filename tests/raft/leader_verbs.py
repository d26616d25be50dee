"""The scripts' commands about who leads, and how leadership is lost; each takes the script and its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from quorate.errors import ErrorCode
from quorate.nouns import NodeId, OffsetAndEpoch, ReplicaKey
from quorate.raft import Presence
from quorate.raft.messages import (
    EPOCH_UNKNOWN,
    ConfirmLeadershipRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Message,
    Response,
    TransferLeadershipRequest,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.roles import ElectionState, Leader
from tests.raft.voter_verbs import ADMIN, administer

if TYPE_CHECKING:
    from tests.raft.scenario import Script

READER = ReplicaKey(-1)
"""A reader of the log that says no id, such as a data pipeline."""


def led(script: Script, *words: str) -> None:
    """led voters=1,2,3 [observers=4]: as `start`, but the first node leads already. The time before is over."""
    script.nodes.clear()
    script.air.clear()
    script.heal()
    script.latency_ms = 0
    script.start(*words)
    if not isinstance(script.nodes[min(script.nodes)].core.role, Leader):
        script.timeout(str(min(script.nodes)))
    script.settle()
    script.advance("600")
    script.output.clear()


def kill(script: Script, id: str) -> None:
    """kill 1: the process dies; its streams are reset, and a peer that connects to it is refused at once."""
    script.crash(id)
    script.killed.add(int(id))
    for peer, node in script.nodes.items():
        if node.raft is not None:
            script.lost(str(peer), id)


def latency(script: Script, ms: str) -> None:
    """latency 2: from now on a message takes 2 ms, and arrives while time goes by."""
    script.latency_ms = int(ms)


def transfer(script: Script, id: str, *words: str) -> None:
    """transfer 1 [2] [timeout=1000] [epoch=1]: an administrator asks node 1 to hand over, to node 2 if it is named."""
    options = dict(word.split("=") for word in words if "=" in word)
    to = [int(word) for word in words if "=" not in word]
    request = TransferLeadershipRequest(
        to=to[0] if to else None,
        epoch=int(options.get("epoch", EPOCH_UNKNOWN)),
        timeout_ms=int(options.get("timeout", 1_000)),
        reply_to=(ADMIN, 0, None),
    )
    administer(script, id, request)


def confirm(script: Script, id: str) -> None:
    """confirm 1: somebody who wants to read asks node 1 whether it still leads."""
    node = script.nodes[int(id)]
    administer(script, id, ConfirmLeadershipRequest(epoch=node.core.role.epoch, reply_to=(ADMIN, 0, None)))


def controller(script: Script, id: str, how: str) -> None:
    """controller 2 away | back: the controller beside node 2 has gone; a node that leads makes way a second later."""
    node = script.nodes[int(id)]
    assert node.raft is not None, id
    now_ms = script.clocks[int(id)]
    presence = Presence() if how == "back" else Presence(is_present=False, resign_at_ms=now_ms + 1_000)
    node.raft.controller_presence(presence, now_ms)
    script.after(node)


def old(script: Script, id: str) -> None:
    """old 2: node 2 runs a Kafka release before 4.0, which has no pre-vote, and says so."""
    script.old.add(int(id))


def file(script: Script, id: str, *words: str) -> None:
    """file 2 epoch=1 [leader=1] [voted=2]: the election state on the disk of node 2, which is down, is this."""
    node = script.nodes[int(id)]
    assert node.raft is None, id
    state = {name: int(value) for name, value in (word.split("=") for word in words)}
    voted = ReplicaKey(state["voted"]) if "voted" in state else None
    node.disk.election = ElectionState(epoch=state["epoch"], leader_id=state.get("leader"), voted=voted)


def released(script: Script) -> None:
    """Which nodes could exit now, as far as the others need them."""
    rows = [f"{id} {'yes' if node.raft.is_released else 'no'}" for id, node in script.nodes.items() if node.raft]
    script.output.append("may go: " + ", ".join(rows))


def rot(script: Script, id: str, offset: str, *words: str) -> None:
    """rot 2 5 [unnoticed]: the disk of node 2, which is down, has lost everything from offset 5 on, though flushed."""
    node = script.nodes[int(id)]
    disk = node.disk
    assert node.raft is None, id
    if "unnoticed" not in words:
        node.recover_to = disk.view(node.voters).last_flushed
    disk.truncate(int(offset))


def read(script: Script, id: str, *words: str) -> None:
    """read 4 from=2 e1 hw=2 [wait=500] [epoch=1]: a reader without an id, which any node may serve, asks node 4."""
    fetch_offset, last_epoch, high_watermark = (int(word.strip("fromehw=")) for word in words[:3])
    options = dict(word.split("=") for word in words[3:])
    request = FetchRequest(
        epoch=int(options.get("epoch", script.nodes[int(id)].core.role.epoch)),
        replica=READER,
        fetch_offset=fetch_offset,
        last_fetched_epoch=last_epoch,
        max_bytes=100,
        max_wait_ms=int(options.get("wait", 0)),
        high_watermark=high_watermark,
        from_any=True,
        reply_to=(ADMIN, 0, None),
    )
    administer(script, id, request)


def download(script: Script, id: str, end: str, epoch: str, start: str) -> None:
    """download 4 end=3 e1 from=20: the same reader asks node 4 for a part of the snapshot that ends at offset 3."""
    end_offset, snapshot_epoch, position = (int(word.strip("fromend=")) for word in (end, epoch, start))
    request = FetchSnapshotRequest(
        epoch=script.nodes[int(id)].core.role.epoch,
        replica=READER,
        snapshot_id=OffsetAndEpoch(epoch=snapshot_epoch, offset=end_offset),
        position=position,
        max_bytes=20,
        from_any=True,
        reply_to=(ADMIN, 0, None),
    )
    administer(script, id, request)


def recovering(script: Script) -> None:
    """Which nodes do not vote because of what they have lost."""
    ids = [str(id) for id, node in script.nodes.items() if node.raft is not None and node.raft.is_recovering]
    script.output.append("recovering: " + (", ".join(ids) or "none"))


def answer_as_old(script: Script, target: NodeId, message: Message) -> Message | None:
    """What an old node says instead of an answer; None if it can answer."""
    if target not in script.old or not isinstance(message, VoteRequest) or not message.pre_vote:
        return None
    return VoteResponse(epoch=EPOCH_UNKNOWN, error=ErrorCode.UNSUPPORTED_VERSION, reply_to=message.reply_to)


def refuse_connection(script: Script, source: NodeId, target: NodeId, message: Message) -> None:
    """The driver of a peer that asks a killed node learns that at once."""
    node = script.nodes.get(source)
    if target not in script.killed or source in script.cut or node is None or node.raft is None:
        return
    if isinstance(message, Response):
        return
    assert isinstance(message.reply_to, tuple)
    _, life, token = message.reply_to
    if life != node.life:
        return
    if isinstance(message, FetchRequest):
        node.raft.peer_lost(target, script.clocks[source])
    else:
        node.raft.request_failed(token, script.clocks[source])
    script.after(node)


VERBS: Mapping[str, Callable[..., None]] = {
    "confirm": confirm,
    "controller": controller,
    "download": download,
    "kill": kill,
    "file": file,
    "latency": latency,
    "led": led,
    "old": old,
    "recovering": recovering,
    "read": read,
    "released": released,
    "rot": rot,
    "transfer": transfer,
}
