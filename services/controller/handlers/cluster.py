"""The cluster as a whole: its controllers, and the levels of its features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorate.controller.commands.describe_cluster import describe_cluster
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.commands.unregister_controller import unregister_controller
from quorate.controller.commands.update_features import kraft_version_update, update_features
from quorate.controller.engine import Answer
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.handlers.kinds import Handler, read, written

__all__ = ["CLUSTER"]


async def _update_features(apis: Apis, call: Call) -> Answer:
    """All of it is checked first; kraft.version, which is the quorum's to write, comes last."""
    present = await apis.quorum.kraft_version()
    wanted = kraft_version_update(call.asked)
    is_new = wanted is not None and wanted != present
    if is_new:
        await apis.quorum.upgrade_kraft_version(wanted or 0, apis.driver.leader_epoch, validate_only=True)
    answer = await apis.write(call, update_features(call.asked, kraft_version=present, settings=apis.settings))
    if is_new and not (call.validate_only or call.asked.validate_only):
        await apis.quorum.upgrade_kraft_version(wanted or 0, apis.driver.leader_epoch)
    return answer


CLUSTER: Final[Mapping[str, Handler]] = {
    "ControllerRegistration": written(lambda _, call: register_controller(call.asked)),
    "DescribeCluster": read(
        lambda apis, call: describe_cluster(
            call.asked,
            cluster_id=apis.cluster_id,
            controller_id=apis.driver.leader_id,
            allows=call.allows,
            would_allow=call.would_allow,
        )
    ),
    "UnregisterController": written(
        lambda apis, call: unregister_controller(call.asked, active_id=apis.driver.leader_id)
    ),
    "UpdateFeatures": _update_features,
}
