"""Makes a quorum smaller before its nodes go: `python -m services.quorum.resize --config FILE`.

A StatefulSet that is scaled down ends the pods with the highest ids, voters or not. So the voters that are not among
`quorum.node.ids` are removed first, one at a time, by AlterQuorum (`alter_quorum.py`), as far as that is safe: those
that stay must vote already. It ends once the voters are those, and fails after `resize.timeout.ms`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import grpc

from kraft.service.quorum_pb2 import AlterQuorumRequest, AlterQuorumResponse, FindQuorumRequest, FindQuorumResponse
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.errors import ApiError
from quorate.nouns import NodeId
from quorate.runtime.calls.transport_settings import ClientSettings
from quorate.runtime.clients.client import call, open_channel
from quorate.runtime.event_loop.loop import ServiceLife, run
from quorate.runtime.logging.logs import logger, start_logs
from quorate.runtime.requests.statuses import error_from_call, is_retriable
from quorate.runtime.settings.config import load, setting
from quorate.runtime.settings.setting_types import (
    Endpoint,
    endpoint,
    integer,
    list_of,
    milliseconds,
    text,
)

__all__ = ["ResizeConfig", "target_of"]

log = logger(__name__)

ASK_AGAIN_S: Final = 0.5
CALL_TIMEOUT_MS: Final = 5_000
SILENT: Final = "no node answers; if the quorum does not become smaller, `helm rollback --no-hooks` leaves this out"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeConfig(ClientSettings):
    """The settings of this program: which nodes stay voters, whom to ask, and how long it may take."""

    node_ids: tuple[NodeId, ...] = setting(
        "quorum.node.ids", list_of(integer(0, 2**31 - 1)), "The nodes that stay; all other voters are removed."
    )
    servers: tuple[Endpoint, ...] = setting(
        "controller.quorum.bootstrap.servers", list_of(endpoint()), "Quorum nodes; any will do."
    )
    cluster_id: str = setting("cluster.id", text(), "The cluster's id; nodes of another one are left alone.")
    timeout_ms: int = setting(
        "resize.timeout.ms", milliseconds(1, None), "How long the change may take.", default=300_000
    )


class NotYet(Exception):
    """Raised while the change cannot begin or go on; its message says why."""


def target_of(found: FindQuorumResponse, node_ids: Sequence[NodeId]) -> list[FindQuorumResponse.Voter] | None:
    """Returns the voters that stay, for AlterQuorum; None if no voter is to go and no change is under way.

    Raises NotYet if the node that answered knows no leader, or one of `node_ids` does not vote.
    """
    if found.voters and all(voter.id in node_ids for voter in found.voters) and not found.target_voters:
        return None
    if found.leader_id < 0:
        raise NotYet(f"node {found.node_id} knows no leader")
    stay = [voter for voter in found.voters if voter.id in node_ids]
    absent = sorted(set(node_ids) - {voter.id for voter in stay})
    if absent:
        raise NotYet(f"of the nodes that stay, {_text(absent)} do not vote; the quorum would be too small")
    return stay


def takes_away(found: FindQuorumResponse, node_ids: Sequence[NodeId]) -> bool:
    """Returns whether a change of the voters is under way that removes one of `node_ids`, or leaves it out."""
    return bool(found.target_voters) and not set(node_ids) <= {voter.id for voter in found.target_voters}


async def main(life: ServiceLife) -> None:
    """Removes the voters that are not among `quorum.node.ids`, and returns once none is left.

    Raises TimeoutError with the last reason, also if it is asked to stop before; ApiError for a refusal that no retry
    changes; ConfigError, HelpAsked.
    """
    start_logs(os.environ)
    config = load(ResizeConfig, sys.argv[1:], os.environ)
    transport = config.transport()
    nodes = [_Node(open_channel(str(server), transport)) for server in config.servers]
    why = SILENT
    try:
        async with asyncio.timeout(config.timeout_ms / 1000):
            while not life.is_stopping:
                try:
                    if await _change(nodes, config):
                        return
                except (ApiError, NotYet) as reason:
                    if isinstance(reason, ApiError) and not is_retriable(reason):
                        raise
                    why = str(reason)
                    log.info("is tried again", reason=why)
                await asyncio.sleep(ASK_AGAIN_S)
    except TimeoutError:
        raise TimeoutError(f"the voters have not become {_text(config.node_ids)} in time; at last: {why}") from None
    finally:
        for node in nodes:
            await node.channel.close()
    raise TimeoutError(f"was asked to stop before the voters had become {_text(config.node_ids)}; at last: {why}")


class _Node:
    """A quorum node, and what it last said; None if it has not answered."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.stub = QuorumStub(channel)
        self.found: FindQuorumResponse | None = None

    async def ask(self) -> None:
        try:
            self.found = await call(self.stub.FindQuorum, FindQuorumRequest(), deadline_ms=CALL_TIMEOUT_MS)
        except ApiError:
            self.found = None


async def _change(nodes: Sequence[_Node], config: ResizeConfig) -> bool:
    """Returns whether the voters are those that they should be; else has them changed. Raises ApiError, NotYet.

    A node that knows a leader in the latest epoch is believed. While none does, it is enough that nobody has a voter
    that is to go: a quorum that is lost must not keep a rollback from mending it.
    """
    await asyncio.gather(*(node.ask() for node in nodes))
    answered = [(node, node.found) for node in nodes if node.found is not None]
    for _, found in answered:
        if found.cluster_id != config.cluster_id:
            raise NotYet(f"node {found.node_id} is of cluster {found.cluster_id}; {config.cluster_id} is meant")
    if not answered:
        raise NotYet(SILENT)
    led = max(
        (each for each in answered if each[1].leader_id >= 0), key=lambda each: each[1].leader_epoch, default=None
    )
    if led is not None and takes_away(led[1], config.node_ids):
        log.info("cancels the change that is under way", target=_text([each.id for each in led[1].target_voters]))
        await _alter(led[0].stub, AlterQuorumRequest(cluster_id=config.cluster_id, cancel=True))
        return False
    asked = answered if led is None else [led]
    targets = [target_of(found, config.node_ids) for _, found in asked]
    if not any(targets):
        log.info("no voter is to go", voters=_text([voter.id for voter in asked[0][1].voters]))
        return True
    assert led is not None  # without a leader `target_of` returns None or raises
    log.info("removes voters", before=_text([voter.id for voter in led[1].voters]), after=_text(config.node_ids))
    stay = [AlterQuorumRequest.Voter(id=each.id, directory_id=each.directory_id) for each in targets[0] or ()]
    await _alter(led[0].stub, AlterQuorumRequest(cluster_id=config.cluster_id, voters=stay))
    return False


async def _alter(stub: QuorumStub, request: AlterQuorumRequest) -> None:
    """Has the voters changed, and writes each step to the log. Raises ApiError."""
    steps = stub.AlterQuorum(request)
    try:
        async for step in steps:
            name = AlterQuorumResponse.Step.Name(step.step)
            log.info("step", step=name, voter=step.voter_id, reason=step.reason or "none")
    except grpc.aio.AioRpcError as failure:
        raise error_from_call(failure) from None
    finally:
        steps.cancel()


def _text(node_ids: Sequence[NodeId]) -> str:
    return ",".join(map(str, sorted(node_ids)))


if __name__ == "__main__":
    raise SystemExit(run(main))
