"""Handlers of the config APIs (topics, brokers, groups and other resources) and of client quotas."""

from __future__ import annotations

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
from services.controller.handlers.kinds import read, read_without_leader, written
from services.controller.resolving import resolvable

__all__ = ["CONFIGS"]


async def _alter_client_quotas(apis: Apis, call: Call) -> Answer:
    known_hosts = await resolvable(wanted_hosts(call.asked))
    return await apis.write(call, alter_client_quotas(call.asked, known_hosts=known_hosts))


CONFIGS: Final = (
    Api(
        name="AlterClientQuotas",
        request=AlterClientQuotasRequest,
        handler=_alter_client_quotas,
        right=AclOperation.ALTER_CONFIGS,
    ),
    Api(
        name="AlterConfigs",
        request=AlterConfigsRequest,
        handler=written(lambda apis, call: alter_configs(call.asked, settings=apis.settings)),
        right=None,
        screen=screening.alter_configs,
    ),
    Api(
        name="DescribeClientQuotas",
        request=DescribeClientQuotasRequest,
        handler=read(lambda _, call: describe_client_quotas(call.asked)),
        right=AclOperation.DESCRIBE_CONFIGS,
        is_read=True,
    ),
    Api(
        name="DescribeConfigs",
        request=DescribeConfigsRequest,
        handler=read_without_leader(lambda apis, call: describe_configs(call.asked, settings=apis.settings)),
        right=None,
        is_read=True,
        needs_leader=False,
        screen=screening.describe_configs,
    ),
    Api(
        name="IncrementalAlterConfigs",
        request=IncrementalAlterConfigsRequest,
        handler=written(lambda apis, call: incremental_alter_configs(call.asked, settings=apis.settings)),
        right=None,
        screen=screening.incremental_alter_configs,
    ),
)
