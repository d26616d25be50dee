"""What each API asks of the engine: one table, whatever door a request comes through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorate.controller.engine import Answer
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.handlers.access import ACCESS
from services.controller.handlers.brokers import BROKERS
from services.controller.handlers.cluster import CLUSTER
from services.controller.handlers.configs import CONFIGS
from services.controller.handlers.kinds import Handler
from services.controller.handlers.topics import TOPICS

__all__ = ["HANDLERS", "answer_to"]

HANDLERS: Final[Mapping[str, Handler]] = {**TOPICS, **BROKERS, **CLUSTER, **CONFIGS, **ACCESS}
"""By the RPC's name. A read, too, waits until all that it has seen is committed."""


async def answer_to(apis: Apis, call: Call) -> Answer:
    """The answer to one request, as far as its caller may ask, once all that it rests on is committed."""
    return await apis.authorizing.serve(call, lambda granted: HANDLERS[granted.rpc](apis, granted))
