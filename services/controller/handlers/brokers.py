"""What brokers ask for, and whether they belong to the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorate.controller.commands.allocate_producer_ids import allocate_producer_ids
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.commands.assign_replicas_to_dirs import assign_replicas_to_dirs
from quorate.controller.commands.register_broker import register_ahead, register_unless_alive
from quorate.controller.commands.unregister_broker import unregister_ahead, unregister_broker
from quorate.controller.engine import Answer
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.handlers.kinds import Handler, to_the_end, written

__all__ = ["BROKERS"]


async def _register_broker(apis: Apis, call: Call) -> Answer:
    """The quorum's level is asked for anew when the way is clear: that may have taken a while."""
    state = apis.driver.engine.state

    async def register() -> Answer:
        present = await apis.quorum.kraft_version()
        ahead = register_ahead(
            state, call.asked, cluster_id=apis.cluster_id, kraft_version=present, settings=apis.settings
        )
        if await apis.write_ahead(call, ahead):
            present = await apis.quorum.kraft_version()
        whole = register_unless_alive(
            call.asked, cluster_id=apis.cluster_id, kraft_version=present, settings=apis.settings
        )
        return await apis.write(call, whole)

    return await to_the_end(register())


async def _unregister_broker(apis: Apis, call: Call) -> Answer:
    async def unregister() -> Answer:
        ahead = unregister_ahead(apis.driver.engine.state, call.asked, settings=apis.settings)
        await apis.write_ahead(call, ahead)
        return await apis.write(call, unregister_broker(call.asked, settings=apis.settings))

    return await to_the_end(unregister())


BROKERS: Final[Mapping[str, Handler]] = {
    "AllocateProducerIds": written(lambda _, call: allocate_producer_ids(call.asked)),
    "AlterPartition": written(lambda apis, call: alter_partition(call.asked, settings=apis.settings)),
    "AssignReplicasToDirs": written(lambda apis, call: assign_replicas_to_dirs(call.asked, settings=apis.settings)),
    "BrokerRegistration": _register_broker,
    "UnregisterBroker": _unregister_broker,
}
