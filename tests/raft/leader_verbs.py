"""The scripts' commands about who leads, and how leadership is lost; each takes the script and its words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from quorate.nouns import NodeId
from quorate.raft.messages import EPOCH_UNKNOWN, FetchRequest, Message, Response, TransferLeadershipRequest
from quorate.raft.roles import Leader
from tests.raft.voter_verbs import ADMIN, administer

if TYPE_CHECKING:
    from tests.raft.scenario import Script


def led(script: Script, *words: str) -> None:
    """led voters=1,2,3 [observers=4]: as `start`, but the first node leads already. What was before is over."""
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
    """kill 1: the process dies; its streams are reset, and whoever connects to it is refused at once."""
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


def released(script: Script) -> None:
    """Which nodes could exit now, as far as the others need them."""
    rows = [f"{id} {'yes' if node.raft.is_released else 'no'}" for id, node in script.nodes.items() if node.raft]
    script.output.append("may go: " + ", ".join(rows))


def refuse_connection(script: Script, source: NodeId, target: NodeId, message: Message) -> None:
    """The driver of whoever asks a killed node learns that at once."""
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
    "kill": kill,
    "latency": latency,
    "led": led,
    "released": released,
    "transfer": transfer,
}
