"""Handlers of the cluster's APIs: controller registration, DescribeCluster, and UpdateFeatures."""

from __future__ import annotations

from typing import Final

from kraft.api.controller_registration_pb2 import ControllerRegistrationRequest
from kraft.api.describe_cluster_pb2 import DescribeClusterRequest
from kraft.api.unregister_controller_pb2 import UnregisterControllerRequest
from kraft.api.update_features_pb2 import UpdateFeaturesRequest
from quorate.controller.commands.describe_cluster import describe_cluster
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.commands.unregister_controller import unregister_controller
from quorate.controller.commands.update_features import kraft_version_update, update_features
from quorate.controller.engine.engine import Answer, QueueLimit
from quorate.metadata.acls import AclOperation
from quorate.nouns import NOBODY, EndpointType, NodeId
from services.controller.api import Api
from services.controller.apis import Apis
from services.controller.call import Call
from services.controller.handlers.kinds import Row, read_anywhere, written

__all__ = ["CLUSTER"]


async def _update_features(apis: Apis, call: Call) -> Answer:
    """Updates finalized feature levels; the quorum node checks kraft.version first, and writes it after all others.

    It is asked even if its log has the level: that may be of a request before, and not committed yet. If the leadership
    ends before kraft.version is written, the caller gets an error, and the others stay.
    """
    kraft_version, voters = await apis.quorum.quorum()
    wanted = kraft_version_update(call.asked)
    if wanted is not None:
        await apis.quorum.upgrade_kraft_version(wanted, apis.driver.leader_epoch, validate_only=True)
    others = voters - {apis.driver.leader_id}
    command = update_features(call.asked, kraft_version=kraft_version, voters=others, settings=apis.settings)
    answer = await apis.write(call, command)
    if wanted is not None and not (call.validate_only or call.asked.validate_only):
        await apis.quorum.upgrade_kraft_version(wanted, apis.driver.leader_epoch)
    return answer


def _whom_to_ask(apis: Apis) -> NodeId:
    """Returns the leader; without the own quorum node the last one, or another controller if that was this one.

    Kafka's clients turn to whom this answer names, and to nobody else: any controller passes their requests on, for
    which reason a broker of Kafka, too, names any broker as the controller (KIP-590).
    """
    driver, own_id = apis.driver, apis.settings.node_id
    if driver.told_leader_id in (NOBODY, driver.leader_id) or driver.told_leader_id != own_id:
        return driver.told_leader_id
    others = (each.controller_id for each in driver.engine.state.controllers if each.controller_id != own_id)
    return min(others, default=NOBODY)


CLUSTER: Final = (
    Row(
        Api(
            name="ControllerRegistration",
            request=ControllerRegistrationRequest,
            right=AclOperation.CLUSTER_ACTION,
            lane=QueueLimit.CLUSTER,
        ),
        written(lambda _, call: register_controller(call.asked)),
    ),
    Row(
        Api(
            name="DescribeCluster",
            request=DescribeClusterRequest,
            right=None,
            is_read=True,
            is_forwarded=False,
            alters=lambda asked: asked.endpoint_type == EndpointType.CONTROLLERS,
        ),
        read_anywhere(
            lambda apis, call: describe_cluster(
                call.asked,
                cluster_id=apis.cluster_id,
                controller_id=_whom_to_ask(apis),
                allows=call.allows,
                would_allow=call.would_allow,
            )
        ),
    ),
    Row(
        Api(
            name="UnregisterController",
            request=UnregisterControllerRequest,
            right=AclOperation.ALTER,
        ),
        written(lambda apis, call: unregister_controller(call.asked, active_id=apis.driver.leader_id)),
    ),
    Row(
        Api(
            name="UpdateFeatures",
            request=UpdateFeaturesRequest,
            right=AclOperation.ALTER,
        ),
        _update_features,
    ),
)
