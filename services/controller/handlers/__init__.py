"""The table of all APIs by name, and the one way by which a request gets to its handler.

topics, brokers, cluster, configs, access   the rows of Kafka's APIs, by subject: what each is, and its handler
quorum                                      the APIs that the quorum node answers
own                                         the APIs that the servicer itself answers
kinds                                       a row; how commands become handlers: writes, and linearizable reads
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from quorate.controller.engine.engine import Answer
from services.controller.api import Api
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.deadlines import Deadline
from services.controller.handlers.access import ACCESS
from services.controller.handlers.brokers import BROKERS
from services.controller.handlers.cluster import CLUSTER
from services.controller.handlers.configs import CONFIGS
from services.controller.handlers.kinds import Handler
from services.controller.handlers.own import OWN
from services.controller.handlers.quorum import QUORUM
from services.controller.handlers.topics import TOPICS

__all__ = ["APIS", "HANDLERS", "answer_to"]

ROWS: Final = (*TOPICS, *BROKERS, *CLUSTER, *CONFIGS, *ACCESS)
ALL: Final = (*(row.api for row in ROWS), *QUORUM, *OWN)
APIS: Final[Mapping[str, Api]] = {api.name: api for api in ALL}
"""All APIs of `kraft.service.Controller` by their names."""
HANDLERS: Final[Mapping[str, Handler]] = {row.api.name: row.handler for row in ROWS}
"""The handlers of those that a command answers, by name; others the quorum node or the servicer answers."""

assert len(APIS) == len(ALL), ALL
assert all(APIS[name].quorum_deadline_ms is None for name in HANDLERS), HANDLERS


async def answer_to(apis: Apis, call: Call) -> Answer:
    """Authorizes one request, runs its handler, and returns the answer once all that it has seen is committed.

    Raises ApiError; REQUEST_TIMED_OUT if the decision does not begin within `timeout_ms`.
    """
    deadline = Deadline(call.api, call.timeout_ms, apis.loop)
    with deadline:
        admitted = await apis.authorizing.admit(replace(call, deadline=deadline))
        return await HANDLERS[call.api.name](apis, admitted)
