"""What each API asks of the engine: one table, whatever door a request comes through."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Final, TypeAlias

from kraft import Uuid
from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.authorizer import StandardAuthorizer
from quorate.controller.commands.allocate_producer_ids import allocate_producer_ids
from quorate.controller.commands.alter_client_quotas import alter_client_quotas, wanted_hosts
from quorate.controller.commands.alter_configs import alter_configs
from quorate.controller.commands.alter_partition import alter_partition
from quorate.controller.commands.alter_partition_reassignments import alter_partition_reassignments
from quorate.controller.commands.alter_user_scram_credentials import alter_user_scram_credentials
from quorate.controller.commands.assign_replicas_to_dirs import assign_replicas_to_dirs
from quorate.controller.commands.create_acls import create_acls
from quorate.controller.commands.create_delegation_token import create_delegation_token, with_hmac
from quorate.controller.commands.create_partitions import create_partitions, wanted_more
from quorate.controller.commands.create_topics import create_topics, wanted_placements
from quorate.controller.commands.delete_acls import delete_acls
from quorate.controller.commands.delete_topics import delete_topics
from quorate.controller.commands.describe_acls import describe_acls
from quorate.controller.commands.describe_client_quotas import describe_client_quotas
from quorate.controller.commands.describe_cluster import describe_cluster
from quorate.controller.commands.describe_configs import describe_configs
from quorate.controller.commands.describe_delegation_token import describe_delegation_token
from quorate.controller.commands.describe_topic_partitions import describe_topic_partitions
from quorate.controller.commands.describe_user_scram_credentials import describe_user_scram_credentials
from quorate.controller.commands.elect_leaders import elect_leaders
from quorate.controller.commands.expire_delegation_token import expire_delegation_token
from quorate.controller.commands.incremental_alter_configs import incremental_alter_configs
from quorate.controller.commands.list_partition_reassignments import list_partition_reassignments
from quorate.controller.commands.register_broker import register_ahead, register_unless_alive
from quorate.controller.commands.register_controller import register_controller
from quorate.controller.commands.renew_delegation_token import renew_delegation_token
from quorate.controller.commands.unregister_broker import unregister_ahead, unregister_broker
from quorate.controller.commands.unregister_controller import unregister_controller
from quorate.controller.commands.update_features import kraft_version_update, update_features
from quorate.controller.committed import Committed
from quorate.controller.decision import Command, propose
from quorate.controller.engine import Answer, Lane
from quorate.controller.metered import metered
from quorate.controller.mutation_quotas import MutationQuotas, Purse, quota_of
from quorate.controller.new_partitions import Placements, StalePlacement, usable_brokers
from quorate.controller.settings import Settings
from quorate.metadata.state import ClusterState
from quorate.placement import PlacementSpec
from quorate.runtime.client import Client
from services.controller.authorizing import Authorizing
from services.controller.call import Call
from services.controller.driver import Driver
from services.controller.placing import Placing
from services.controller.quorum_node import QuorumNode
from services.controller.resolving import resolvable

PLACEMENTS_TRIED_MAX: Final = 3
"""Brokers come and go while the placer is asked; who meets that so often is told to try again."""

KEEPS_THE_CLUSTER: Final = frozenset(
    {"AllocateProducerIds", "AlterPartition", "AssignReplicasToDirs", "BrokerRegistration", "ControllerRegistration"}
)
"""What brokers and controllers ask for. It has room where admins are told to try again."""

Handler: TypeAlias = Callable[["Apis", Call], Awaitable[Answer]]
"""Raises ApiError to refuse a request as a whole."""

_Wanted: TypeAlias = Callable[[ClusterState], tuple[tuple[str, PlacementSpec], ...]]


class Apis:
    """Everything that a handler may need, on the controller that is active."""

    def __init__(
        self,
        driver: Driver,
        quorum: QuorumNode,
        placers: Client[PlacerStub],
        settings: Settings,
        *,
        cluster_id: str,
        authorizer: StandardAuthorizer | None = None,
    ) -> None:
        self.driver = driver
        self.quorum = quorum
        self.placing = Placing(placers, lambda: usable_brokers(driver.engine.state))
        self.settings = settings
        self.cluster_id = cluster_id
        self.authorizing = Authorizing(driver.engine, authorizer)
        self._quotas = MutationQuotas(settings.quota_windows)
        self._client_quotas = Committed(driver.engine, driver.engine.state.client_quotas)

    async def answer(self, call: Call) -> Answer:
        """The answer to one request, as far as its caller may ask, once all that it rests on is committed."""
        return await self.authorizing.serve(call, lambda granted: HANDLERS[granted.rpc](self, granted))

    async def write(self, call: Call, command: Command[Any]) -> Answer:
        """Decides, and writes unless it was only asked what would be written."""
        return await self.driver.write(
            call.rpc,
            propose(command) if call.validate_only else command,
            lane=_lane(call),
            request_id=call.request_id,
        )

    def within_quota(self, call: Call, command: Callable[[Any], Command[Any]]) -> Command[Any]:
        """The command for what is asked, or for as much of it as the client's quota leaves room for. KIP-599."""
        quota = quota_of(self._client_quotas.now(), user=call.principal.name, client_id=call.client_id)
        if quota is None:
            return command(call.asked)
        return metered(call.rpc, call.asked, command, Purse(self._quotas, quota))

    async def write_ahead(self, call: Call, turns: Iterator[Command[None]]) -> bool:
        """Clears the way for what is to be written, while others write in between; True when that is committed.

        False if there was nothing to do: also where it is only asked what would be written, and for a request that
        has been answered before. Raises ApiError.
        """
        first = None if call.validate_only or self._is_answered(call) else next(turns, None)
        if first is None:
            return False
        await self.driver.write_in_turns(call.rpc, chain((first,), turns), lane=_lane(call))
        return True

    def _is_answered(self, call: Call) -> bool:
        return call.request_id is not None and self.driver.engine.repeats.answer(call.request_id) is not None

    async def place_and_write(
        self, call: Call, wanted: _Wanted, command: Callable[[Placements], Command[Any]]
    ) -> Answer:
        """Places, then writes; places again if the brokers have changed in between."""
        for tried in range(1, PLACEMENTS_TRIED_MAX + 1):
            placements = await self.placing.place(wanted(self.driver.engine.state))
            try:
                return await self.write(call, command(placements))
            except StalePlacement:
                if tried == PLACEMENTS_TRIED_MAX:
                    raise
        raise AssertionError("the loop returns or raises")


async def _create_topics(apis: Apis, call: Call) -> Answer:
    def wanted(state: ClusterState) -> tuple[tuple[str, PlacementSpec], ...]:
        return wanted_placements(state, call.asked, apis.settings)

    def command(placements: Placements) -> Command[Any]:
        return apis.within_quota(
            call,
            lambda asked: create_topics(asked, placements=placements, new_topic_id=_random_id, settings=apis.settings),
        )

    return await apis.place_and_write(call, wanted, command)


async def _create_partitions(apis: Apis, call: Call) -> Answer:
    return await apis.place_and_write(
        call,
        lambda state: wanted_more(state, call.asked),
        lambda placements: apis.within_quota(call, lambda asked: create_partitions(asked, placements=placements)),
    )


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

    return await _to_the_end(register())


async def _unregister_broker(apis: Apis, call: Call) -> Answer:
    async def unregister() -> Answer:
        ahead = unregister_ahead(apis.driver.engine.state, call.asked, settings=apis.settings)
        await apis.write_ahead(call, ahead)
        return await apis.write(call, unregister_broker(call.asked, settings=apis.settings))

    return await _to_the_end(unregister())


async def _alter_client_quotas(apis: Apis, call: Call) -> Answer:
    known_hosts = await resolvable(wanted_hosts(call.asked))
    return await apis.write(call, alter_client_quotas(call.asked, known_hosts=known_hosts))


async def _create_delegation_token(apis: Apis, call: Call) -> Answer:
    """The HMAC is added when all else is done: it is in no decision, and in nothing that is kept of one."""
    tokens = apis.settings.delegation_tokens
    command = create_delegation_token(
        call.asked, principal=call.principal, new_token_id=_random_id, settings=tokens, allows=call.allows
    )
    answer = await apis.write(call, command)
    return answer if call.validate_only else replace(answer, response=with_hmac(answer.response, tokens))


def _plain(command: Callable[[Apis, Call], Command[Any]]) -> Handler:
    """Nothing has to be asked of anybody else first."""

    async def handle(apis: Apis, call: Call) -> Answer:
        return await apis.write(call, command(apis, call))

    return handle


def _read(command: Callable[[Apis, Call], Command[Any]]) -> Handler:
    """What is acknowledged is seen: of a leader that has been replaced unheard nothing is told."""

    async def handle(apis: Apis, call: Call) -> Answer:
        await apis.quorum.confirm(apis.driver.leader_epoch)
        if call.as_of is not None:
            return apis.driver.read(command(apis, call), as_of=call.as_of)
        return await apis.driver.write(call.rpc, command(apis, call), lane=Lane.ADMIN)

    return handle


_PLAIN: Final[Mapping[str, Callable[[Apis, Call], Command[Any]]]] = {
    "AllocateProducerIds": lambda _, call: allocate_producer_ids(call.asked),
    "AlterConfigs": lambda apis, call: alter_configs(call.asked, settings=apis.settings),
    "AlterPartition": lambda apis, call: alter_partition(call.asked, settings=apis.settings),
    "AlterPartitionReassignments": lambda apis, call: alter_partition_reassignments(call.asked, settings=apis.settings),
    "AlterUserScramCredentials": lambda _, call: alter_user_scram_credentials(call.asked),
    "AssignReplicasToDirs": lambda apis, call: assign_replicas_to_dirs(call.asked, settings=apis.settings),
    "ControllerRegistration": lambda _, call: register_controller(call.asked),
    "CreateAcls": lambda _, call: create_acls(call.asked, new_acl_id=_random_id),
    "DeleteAcls": lambda _, call: delete_acls(call.asked),
    "DeleteTopics": lambda apis, call: apis.within_quota(
        call, lambda asked: delete_topics(asked, settings=apis.settings)
    ),
    "ElectLeaders": lambda apis, call: elect_leaders(call.asked, settings=apis.settings),
    "ExpireDelegationToken": lambda apis, call: expire_delegation_token(
        call.asked, principal=call.principal, settings=apis.settings.delegation_tokens
    ),
    "IncrementalAlterConfigs": lambda apis, call: incremental_alter_configs(call.asked, settings=apis.settings),
    "RenewDelegationToken": lambda apis, call: renew_delegation_token(
        call.asked, principal=call.principal, settings=apis.settings.delegation_tokens
    ),
    "UnregisterController": lambda apis, call: unregister_controller(call.asked, active_id=apis.driver.leader_id),
}

_READS: Final[Mapping[str, Callable[[Apis, Call], Command[Any]]]] = {
    "DescribeAcls": lambda _, call: describe_acls(call.asked),
    "DescribeClientQuotas": lambda _, call: describe_client_quotas(call.asked),
    "DescribeCluster": lambda apis, call: describe_cluster(
        call.asked, cluster_id=apis.cluster_id, controller_id=apis.driver.leader_id
    ),
    "DescribeConfigs": lambda apis, call: describe_configs(call.asked, settings=apis.settings),
    "DescribeDelegationToken": lambda apis, call: describe_delegation_token(
        call.asked, principal=call.principal, settings=apis.settings.delegation_tokens, allows=call.allows
    ),
    "DescribeTopicPartitions": lambda apis, call: describe_topic_partitions(
        call.asked, partitions_per_page=apis.settings.partitions_per_page, allows=call.allows
    ),
    "DescribeUserScramCredentials": lambda _, call: describe_user_scram_credentials(call.asked),
    "ListPartitionReassignments": lambda _, call: list_partition_reassignments(call.asked),
}

HANDLERS: Final[Mapping[str, Handler]] = {
    "AlterClientQuotas": _alter_client_quotas,
    "BrokerRegistration": _register_broker,
    "CreateDelegationToken": _create_delegation_token,
    "CreatePartitions": _create_partitions,
    "CreateTopics": _create_topics,
    "UnregisterBroker": _unregister_broker,
    "UpdateFeatures": _update_features,
    **{rpc: _plain(command) for rpc, command in _PLAIN.items()},
    **{rpc: _read(command) for rpc, command in _READS.items()},
}
"""By the RPC's name. A read, too, waits until all that it has seen is committed."""


async def _to_the_end(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Also when nobody waits for the answer any more: half of a change in turns helps nobody."""
    return await asyncio.shield(asyncio.ensure_future(work))


def _lane(call: Call) -> Lane:
    return Lane.CLUSTER if call.rpc in KEEPS_THE_CLUSTER else Lane.ADMIN


def _random_id() -> Uuid:
    return Uuid(secrets.token_bytes(16))
