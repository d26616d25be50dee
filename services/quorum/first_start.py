"""Formats the directory of a node before its first start, once: `python -m services.quorum.first_start --config FILE`.

It is for nodes of a dynamic quorum (KIP-853) whose volumes come by themselves, such as the pods of a StatefulSet. All
have the same `controller.quorum.bootstrap.servers`. The first of these may begin a quorum; all others join the one
that there is. The first, too, joins if its volume was lost: an empty volume alone does not say whether there is a
quorum, so it asks every other node, and begins one only once all of them have said that they have never seen any.
A formatted directory is left as it is; one of another cluster or node is refused.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from kraft.service.quorum_pb2 import FindQuorumRequest, FindQuorumResponse
from kraft.service.quorum_pb2_grpc import QuorumStub
from quorate.cli.failures import Failed, Misused
from quorate.cli.formatting import FormatOptions, plan, write
from quorate.cli.node_config import NodeConfig
from quorate.errors import ApiError, Corrupt
from quorate.runtime.calls.transport_settings import transport_of
from quorate.runtime.clients.client import call, open_channel
from quorate.runtime.event_loop.loop import ServiceLife, run
from quorate.runtime.logging.logs import logger, start_logs
from quorate.runtime.settings.config import ConfigError, load, setting
from quorate.runtime.settings.setting_types import optional, text
from quorate.storage.meta_properties import check_owner, read_meta_properties
from services.quorum.config import QuorumConfig

__all__ = ["FirstStartConfig", "has_seen_a_quorum"]

log = logger(__name__)

ASK_AGAIN_S: Final = 0.5
"""The pause in seconds between two rounds of questions: the other pods start at the same time."""
TELL_S: Final = 10.0
"""How often (s) the log says who is waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStartConfig(QuorumConfig):
    """The settings of a quorum node, and what its directory is formatted with."""

    cluster_id: str = setting("cluster.id", text(), "The cluster's id; a formatted directory must have it.")
    release_version: str | None = setting(
        "format.release.version",
        optional(text()),
        "The release whose features a new cluster has, as `quorate storage format --release-version`.",
        default=None,
    )


class Seen(Enum):
    """The other nodes' answers together: whether any of them has seen a quorum."""

    SOME = "some"
    """At least one has voted, has followed a leader or has voters in its log."""
    NONE = "none"
    """All have answered, and none has."""
    UNCERTAIN = "uncertain"


@dataclass(slots=True)
class Question:
    """Asks the other nodes, `peers` as "host:port", by FindQuorum whether they have seen a quorum."""

    cluster_id: str
    peers: tuple[str, ...]
    silent: dict[str, str] = field(default_factory=dict)
    """Nodes that have not answered in the last round, and why."""

    async def ask(self, stubs: dict[str, QuorumStub], *, timeout_ms: int) -> Seen:
        """Asks all other nodes at once, and returns what they say; `silent` has those that did not answer.

        `timeout_ms` (ms) is how long one may take. Raises ConfigError if one of them is of another cluster.
        """
        answers = await asyncio.gather(*(self._ask(peer, stubs[peer], timeout_ms) for peer in self.peers))
        known = [answer for answer in answers if answer is not None]
        for answer in known:
            if answer.cluster_id != self.cluster_id:
                why = f"node {answer.node_id} is of cluster {answer.cluster_id}, and this one of {self.cluster_id}"
                raise ConfigError([f"controller.quorum.bootstrap.servers: {why}; nothing is changed"])
        if any(map(has_seen_a_quorum, known)):
            return Seen.SOME
        return Seen.NONE if len(known) == len(self.peers) else Seen.UNCERTAIN

    async def _ask(self, peer: str, stub: QuorumStub, timeout_ms: int) -> FindQuorumResponse | None:
        try:
            found: FindQuorumResponse = await call(stub.FindQuorum, FindQuorumRequest(), deadline_ms=timeout_ms)
        except ApiError as failure:
            self.silent[peer] = str(failure)
            return None
        self.silent.pop(peer, None)
        return found


def has_seen_a_quorum(found: FindQuorumResponse) -> bool:
    """Whether a node's answer says that there is, or was, a quorum.

    A node that has never reached one is in epoch 0 and has no voters. One with a part of a log has its first batch, and
    with that the leader's epoch; one that was added to the voters had caught up before.
    """
    return found.leader_epoch > 0 or found.leader_id >= 0 or len(found.voters) > 0 or found.high_watermark > 0


async def main(life: ServiceLife) -> None:
    """Formats `metadata.log.dir` if it is not formatted: as the only voter, or as a node that joins a quorum.

    A node that may begin a quorum first waits until all others have answered, or one has seen a quorum. Raises Corrupt
    for the directory of another node or cluster, TimeoutError if asked to stop; ConfigError, HelpAsked, OSError.
    """
    start_logs(os.environ)
    config = load(FirstStartConfig, sys.argv[1:], os.environ)
    directory = config.metadata_log_dir
    if directory.is_dir() and read_meta_properties(directory) is not None:
        check_owner(directory, node_id=config.node_id, cluster_id=config.cluster_id)
        log.info("is formatted already", directory=str(directory), cluster_id=config.cluster_id)
        return
    begins = await _begins(config, life)
    if begins is None:
        raise TimeoutError("was asked to stop before the other nodes had answered; nothing is changed")
    _format(config, standalone=begins)
    log.info("formatted", directory=str(directory), cluster_id=config.cluster_id, begins_a_quorum=begins)


async def _begins(config: FirstStartConfig, life: ServiceLife) -> bool | None:
    """Returns whether this node begins a quorum; None if it was asked to stop. Raises ConfigError."""
    if not config.bootstrap_servers or not config.auto_join or config.voters:
        raise ConfigError(
            [
                "controller.quorum.bootstrap.servers: must name the nodes, the one that may begin a quorum first, with "
                "controller.quorum.auto.join.enable = true and without controller.quorum.voters"
            ]
        )
    own = str(config.own_controller_listener.endpoint)
    named = [str(each.endpoint) for each in config.bootstrap_servers]
    if own not in named:
        raise ConfigError(
            [f"controller.quorum.bootstrap.servers = {','.join(named)}: must name this node too, as it announces {own}"]
        )
    if named[0] != own:
        return False
    question = Question(config.cluster_id, tuple(each for each in named if each != own))
    seen = await _ask_until_certain(question, config, life) if question.peers else Seen.NONE
    return None if seen is Seen.UNCERTAIN else seen is Seen.NONE


async def _ask_until_certain(question: Question, config: FirstStartConfig, life: ServiceLife) -> Seen:
    transport, loop = transport_of(config), asyncio.get_running_loop()
    tell_at = loop.time()
    async with AsyncExitStack() as stack:
        stubs = {}
        for peer in question.peers:
            channel = open_channel(peer, transport)
            stack.push_async_callback(channel.close)
            stubs[peer] = QuorumStub(channel)
        while not life.is_stopping:
            seen = await question.ask(stubs, timeout_ms=config.request_timeout_ms)
            if seen is not Seen.UNCERTAIN:
                return seen
            if loop.time() >= tell_at:
                tell_at = loop.time() + TELL_S
                silent = [f"{peer}: {why}" for peer, why in question.silent.items()]
                log.warning("waits for nodes that may know a quorum; none is begun before they answer", nodes=silent)
            await asyncio.sleep(ASK_AGAIN_S)
    return Seen.UNCERTAIN


def _format(config: FirstStartConfig, *, standalone: bool) -> None:
    """Formats the directory, as the only voter or as a node that joins. Raises ConfigError, Corrupt, OSError."""
    node = NodeConfig(
        path=config.metadata_log_dir,
        node_id=config.node_id,
        is_controller=True,
        directories=(config.metadata_log_dir,),
        has_static_voters=False,
        values={
            "controller.listener.names": config.own_controller_listener.name,
            "advertised.listeners": str(config.own_controller_listener),
        },
    )
    asked = FormatOptions(
        cluster_id=config.cluster_id,
        standalone=standalone,
        no_initial_controllers=not standalone,
        release_version=config.release_version,
    )
    try:
        write(plan(asked, node), timestamp_ms=time.time_ns() // 1_000_000)
    except Misused as problem:
        raise ConfigError([str(problem)]) from None
    except Failed as problem:
        raise Corrupt(str(problem), path=config.metadata_log_dir) from None


if __name__ == "__main__":
    raise SystemExit(run(main))
