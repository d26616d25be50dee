"""Opens the listeners of a process, with the same bounds before a login at all of them, and ends them in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from quorate.listeners.config import ListenersConfig
from quorate.listeners.logins import BeginScram
from quorate.listeners.security import ListenerSecurity
from quorate.network.buffers import Buffers
from quorate.network.connections import ConnectionCounts
from quorate.network.fair_turns import LARGE_AT_ONCE, LOGINS_AT_ONCE, FairTurns
from quorate.network.listening import ConnectedClient, Handle, Listening, Take
from quorate.network.server import KafkaServer, serving
from quorate.protocol.api_versions import Versions
from quorate.protocol.server import DescribeVersions
from quorate.runtime.calls.server import warn_of_cut
from quorate.runtime.event_loop.loop import CannotListen
from quorate.runtime.event_loop.turns import in_turns
from quorate.runtime.logging.logs import logger
from quorate.runtime.settings.setting_types import Endpoint, ListenerAddress

__all__ = ["drain", "listening_of", "opened"]

log = logger(__name__)


def listening_of(
    config: ListenersConfig,
    handle: Handle,
    *,
    served: Versions,
    describe_versions: DescribeVersions,
    large_may_wait: bool = False,
    take: Take | None = None,
) -> Listening:
    """Returns what all listeners of a process have in common: who answers, and the limits that they share.

    These are connections, bytes held, large requests at once, and logins at once.
    """
    return Listening(
        handle=handle,
        take=take,
        served=served,
        describe_versions=describe_versions,
        counts=ConnectionCounts(limit=config.connections_max, limit_per_ip=config.connections_per_ip_max),
        buffers=Buffers(config.held_bytes_max),
        large=FairTurns(LARGE_AT_ONCE),
        large_may_wait=large_may_wait,
        in_turns=in_turns,
        logins=FairTurns(LOGINS_AT_ONCE),
        report=_report,
    )


@asynccontextmanager
async def opened(
    config: ListenersConfig,
    security: Mapping[str, ListenerSecurity],
    of_all: Listening,
    begin_scram: BeginScram,
) -> AsyncIterator[dict[str, KafkaServer]]:
    """Listens at each of `config.listeners` until the context exits; yields the servers by name.

    Raises CannotListen. `begin_scram` begins an exchange of SCRAM.
    """
    servers: dict[str, KafkaServer] = {}
    async with AsyncExitStack() as stack:
        for each in config.listeners:
            of_one = security[each.name]
            listening = replace(
                of_all,
                name=each.name,
                settings=config.connection_settings(each.name),
                connections_max=config.of_listeners[each.name].connections_max,
                tls=of_one.tls,
                certified=of_one.certified,
                mechanisms=of_one.mechanisms(begin_scram),
            )
            servers[each.name] = server = await stack.enter_async_context(_served(listening, each))
            log.info(
                "speaking Kafka's protocol",
                listener=f"{each.name}://{Endpoint(each.endpoint.host, server.port)}",
                security_protocol=of_one.protocol,
            )
        yield servers


async def drain(servers: Mapping[str, KafkaServer], graceful_s: float) -> None:
    """Accepts no more connections, and waits up to `graceful_s` (s) until the requests under way are answered.

    It logs a warning of those that are not. They are not ended: the caller's context does that.
    """
    async with asyncio.TaskGroup() as draining:
        for server in servers.values():
            draining.create_task(_drained(server, graceful_s))


async def _drained(server: KafkaServer, graceful_s: float) -> None:
    if cut := await server.drain(graceful_s):
        warn_of_cut(cut, waited_s=graceful_s)


@asynccontextmanager
async def _served(listening: Listening, at: ListenerAddress) -> AsyncIterator[KafkaServer]:
    async with AsyncExitStack() as stack:
        try:
            server = await stack.enter_async_context(serving(listening, at.endpoint.host, at.endpoint.port))
        except OSError as problem:
            raise CannotListen(f"cannot listen on {at}: {problem.strerror}") from None
        yield server


def _report(reason: str, client: ConnectedClient) -> None:
    log.info("a connection was closed", client=f"{client.host}:{client.port}", listener=client.listener, reason=reason)
