"""Handlers of the config APIs (topics, brokers, groups and other resources) and of client quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorate.controller.commands.alter_client_quotas import alter_client_quotas, wanted_hosts
from quorate.controller.commands.alter_configs import alter_configs
from quorate.controller.commands.describe_client_quotas import describe_client_quotas
from quorate.controller.commands.describe_configs import describe_configs
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.engine.engine import Answer
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.handlers.kinds import Handler, read, written
from services.controller.resolving import resolvable

__all__ = ["CONFIGS"]


async def _alter_client_quotas(apis: Apis, call: Call) -> Answer:
    known_hosts = await resolvable(wanted_hosts(call.asked))
    return await apis.write(call, alter_client_quotas(call.asked, known_hosts=known_hosts))


CONFIGS: Final[Mapping[str, Handler]] = {
    "AlterClientQuotas": _alter_client_quotas,
    "AlterConfigs": written(lambda apis, call: alter_configs(call.asked, settings=apis.settings)),
    "DescribeClientQuotas": read(lambda _, call: describe_client_quotas(call.asked)),
    "DescribeConfigs": read(lambda apis, call: describe_configs(call.asked, settings=apis.settings)),
    "IncrementalAlterConfigs": written(
        lambda apis, call: incremental_alter_configs(call.asked, settings=apis.settings)
    ),
}
