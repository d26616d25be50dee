"""Answers what a gateway can answer without a task: Fetches from its own end of the log, to callers who may ask.

A crowd of brokers asks little else. Whatever is unusual about a request or its caller is left to the handler, which
answers the same, and refuses what is to be refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kraft.api.fetch import FetchRequest
from quorate.network.listening import ConnectedClient, Reply
from quorate.protocol import Request
from quorate.runtime.claims import CLAIMS
from quorate.tls.node_ids import NodeIds
from services.gateway.fetch_form import Served
from services.gateway.guard import ClusterActionGuard
from services.gateway.metrics import TIME
from services.gateway.older import REPLICA_STATE_SINCE
from services.gateway.reader_fetches import ReaderFetches

__all__ = ["AtOnce"]

NAME_MAX: Final = 100
"""The longest name of a principal here, in letters: the handler tells whether a longer one can be passed on."""


class AtOnce:
    """`guard` and `nodes` are those of the handler."""

    def __init__(self, readers: ReaderFetches, guard: ClusterActionGuard | None, nodes: NodeIds | None) -> None:
        self._readers = readers
        self._guard = guard
        self._nodes = nodes

    def __call__(self, request: Request, client: ConnectedClient, reply: Reply) -> bool:
        """Returns whether `reply` gets the answer; `quorate.network.listening.Take`."""
        message, version = request.message, request.header.request_api_version
        if isinstance(message, FetchRequest) and version >= REPLICA_STATE_SINCE and self._may_ask(request):
            return self._readers.take(message, client.listener, _told(request, version, reply))
        return False

    def _may_ask(self, request: Request) -> bool:
        """Whether it is known here that the caller may send this; if not, the handler asks or refuses."""
        principal = request.principal
        if self._guard is not None and not self._guard.lets_in(principal):
            return False
        if len(principal.name) > NAME_MAX:
            return False
        nodes = self._nodes
        return nodes is None or all(nodes.allows(principal, each) for each in CLAIMS[request.api.name](request.message))


def _told(request: Request, version: int, reply: Reply) -> Callable[[Served | None], None]:
    """Returns what takes the answer, and notes how long it took."""
    now_s = asyncio.get_running_loop().time
    began_s = now_s()

    def told(served: Served | None) -> None:
        if served is None:
            reply(None)
            return
        TIME.record(now_s() - began_s, {"kraft.api": request.api.name})
        reply(served.body(version))

    return told
