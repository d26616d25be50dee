"""The handler of each API by its RPC name: one table for RPCs, Submit and AdminStream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from quorate.controller.engine.engine import Answer
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.deadlines import Deadline
from services.controller.handlers.access import ACCESS
from services.controller.handlers.brokers import BROKERS
from services.controller.handlers.cluster import CLUSTER
from services.controller.handlers.configs import CONFIGS
from services.controller.handlers.kinds import Handler
from services.controller.handlers.topics import TOPICS

__all__ = ["HANDLERS", "answer_to"]

HANDLERS: Final[Mapping[str, Handler]] = {**TOPICS, **BROKERS, **CLUSTER, **CONFIGS, **ACCESS}
"""Handlers by RPC name. A read, like a write, is answered once the state that it has seen is committed."""


async def answer_to(apis: Apis, call: Call) -> Answer:
    """Authorizes one request, runs its handler, and returns the answer once its state is committed.

    Raises ApiError; REQUEST_TIMED_OUT if the decision does not begin within `timeout_ms`.
    """
    deadline = Deadline(call.rpc, call.timeout_ms)
    timed = replace(call, deadline=deadline)
    return await deadline.over(apis.authorizing.serve(timed, lambda granted: HANDLERS[granted.rpc](apis, granted)))
