"""Answers without a task what most requests ask: Fetches from the end of the log, and heartbeats, many together.

A crowd of brokers asks little else. An unusual request, or one of an unusual caller, is left to the handler, which
answers the same, and refuses what is to be refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Final

from kraft.api.broker_heartbeat import BrokerHeartbeatRequest
from kraft.api.fetch import FetchRequest
from quorate.network.listening import ConnectedClient, Reply
from quorate.protocol import Request
from quorate.runtime.access.claims import CLAIMS
from quorate.tls.node_ids import NodeIds
from quorate.wire.codec import encode
from services.gateway.guard import ClusterActionGuard
from services.gateway.keep_alives import PLAIN, KeepAlives
from services.gateway.metrics import TIME
from services.gateway.older import REPLICA_STATE_SINCE
from services.gateway.reader_fetches import ReaderFetches

__all__ = ["AtOnce"]

NAME_MAX: Final = 100
"""The longest name of a principal here, in letters: the handler tells whether a longer one can be passed on."""


class AtOnce:
    """Answers Fetches from the end of the log, and heartbeats that change nothing, without a task for each.

    An instance is called with each request, and returns False for any other, which the handler then answers. `guard`
    and `nodes` are those of the handler.
    """

    def __init__(
        self,
        readers: ReaderFetches | None,
        keep_alives: KeepAlives,
        guard: ClusterActionGuard | None,
        nodes: NodeIds | None,
    ) -> None:
        self._readers = readers
        self._keep_alives = keep_alives
        self._guard = guard
        self._nodes = nodes

    def __call__(self, request: Request, client: ConnectedClient, reply: Reply) -> bool:
        """Returns whether `reply` gets the answer; `quorate.network.listening.Take`."""
        message, version = request.message, request.header.request_api_version
        if isinstance(message, FetchRequest):
            if self._readers is None or not self.reads(request):
                return False
            told = _timed(request, reply)
            return self._readers.take(
                message, client.listener, lambda served: told(None if served is None else served.body(version))
            )
        if isinstance(message, BrokerHeartbeatRequest) and self._may_ask(request):
            told = _timed(request, reply)
            return self._keep_alives.take(message, lambda is_kept: told(_kept(version) if is_kept else None))
        return False

    def reads(self, request: Request) -> bool:
        """Whether a Fetch is offered to the readers here: its version and its caller are known to be fit for it.

        One that they do not answer then is the quorum node's: the handler must not offer it to them again.
        """
        return request.header.request_api_version >= REPLICA_STATE_SINCE and self._may_ask(request)

    def _may_ask(self, request: Request) -> bool:
        """Whether it is known here that the caller may send this; if not, the handler asks or refuses."""
        principal = request.principal
        if self._guard is not None and not self._guard.lets_in(principal):
            return False
        if len(principal.name) > NAME_MAX:
            return False
        nodes = self._nodes
        return nodes is None or all(nodes.allows(principal, each) for each in CLAIMS[request.api.name](request.message))


def _timed(request: Request, reply: Reply) -> Reply:
    """Returns a reply that notes how long the answer took, unless it is left to the handler, which does."""
    now_s = asyncio.get_running_loop().time
    began_s = now_s()

    def told(body: Sequence[bytes] | None) -> None:
        if body is not None:
            TIME.record(now_s() - began_s, {"kraft.api": request.api.name})
        reply(body)

    return told


@cache
def _kept(version: int) -> tuple[bytes]:
    """Returns the answer to a heartbeat that changes nothing, encoded."""
    return (encode(PLAIN, version),)
