"""What a handler may need on the controller that is active: to write, at once or in turns, to place, to meter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final, TypeAlias

from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.authorizer import StandardAuthorizer
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

__all__ = ["KEEPS_THE_CLUSTER", "Apis"]

PLACEMENTS_TRIED_MAX: Final = 3
"""Brokers come and go while the placer is asked; who meets that so often is told to try again."""

KEEPS_THE_CLUSTER: Final = frozenset(
    {"AllocateProducerIds", "AlterPartition", "AssignReplicasToDirs", "BrokerRegistration", "ControllerRegistration"}
)
"""What brokers and controllers ask for. It has room where admins are told to try again."""

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


def _lane(call: Call) -> Lane:
    return Lane.CLUSTER if call.rpc in KEEPS_THE_CLUSTER else Lane.ADMIN
