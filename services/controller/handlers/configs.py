"""Handlers of the config APIs (topics, brokers, groups and other resources) and of client quotas."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Final

from kraft.api.alter_client_quotas_pb2 import AlterClientQuotasRequest
from kraft.api.alter_configs_pb2 import AlterConfigsRequest
from kraft.api.describe_client_quotas_pb2 import DescribeClientQuotasRequest
from kraft.api.describe_configs_pb2 import DescribeConfigsRequest
from kraft.api.incremental_alter_configs_pb2 import IncrementalAlterConfigsRequest
from quorate.controller.access import screening
from quorate.controller.commands.alter_client_quotas import alter_client_quotas, wanted_hosts
from quorate.controller.commands.alter_configs import alter_configs
from quorate.controller.commands.describe_client_quotas import describe_client_quotas
from quorate.controller.commands.describe_configs import describe_configs
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.engine.engine import Answer
from quorate.metadata.acls import AclOperation
from services.controller.api import Api
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.handlers.kinds import Row, read, read_without_leader, written

__all__ = ["CONFIGS", "NAMES_MAX", "resolvable"]

RESOLVE_S: Final = 2.0
"""Time limit (s) of a look-up; a name that takes longer counts as unknown."""
NAMES_MAX: Final = 100
"""Names looked up for one request, as each takes a pool thread; further names count as unknown."""


async def _alter_client_quotas(apis: Apis, call: Call) -> Answer:
    known_hosts = await resolvable(wanted_hosts(call.asked))  # before the decision: a command may run twice
    return await apis.write(call, alter_client_quotas(call.asked, known_hosts=known_hosts))


async def resolvable(names: Iterable[str]) -> frozenset[str]:
    """Returns those of `names` that DNS resolves within `RESOLVE_S`, as Kafka's InetAddress.getByName would.

    Only the first `NAMES_MAX` in the order of the alphabet are looked up.
    """
    async with asyncio.TaskGroup() as lookups:
        found = {name: lookups.create_task(_has_address(name)) for name in sorted(names)[:NAMES_MAX]}
    return frozenset(name for name, lookup in found.items() if lookup.result())


async def _has_address(name: str) -> bool:
    try:
        async with asyncio.timeout(RESOLVE_S):
            return bool(await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError, TimeoutError):
        return False


CONFIGS: Final = (
    Row(
        Api(
            name="AlterClientQuotas",
            request=AlterClientQuotasRequest,
            right=AclOperation.ALTER_CONFIGS,
        ),
        _alter_client_quotas,
    ),
    Row(
        Api(
            name="AlterConfigs",
            request=AlterConfigsRequest,
            right=None,
            screen=screening.alter_configs,
        ),
        written(lambda apis, call: alter_configs(call.asked, settings=apis.settings)),
    ),
    Row(
        Api(
            name="DescribeClientQuotas",
            request=DescribeClientQuotasRequest,
            right=AclOperation.DESCRIBE_CONFIGS,
            is_read=True,
        ),
        read(lambda _, call: describe_client_quotas(call.asked)),
    ),
    Row(
        Api(
            name="DescribeConfigs",
            request=DescribeConfigsRequest,
            right=None,
            is_read=True,
            needs_leader=False,
            screen=screening.describe_configs,
        ),
        read_without_leader(lambda apis, call: describe_configs(call.asked, settings=apis.settings)),
    ),
    Row(
        Api(
            name="IncrementalAlterConfigs",
            request=IncrementalAlterConfigsRequest,
            right=None,
            screen=screening.incremental_alter_configs,
        ),
        written(lambda apis, call: incremental_alter_configs(call.asked, settings=apis.settings)),
    ),
)
