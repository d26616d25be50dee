"""The services that handlers use on the active controller: writes, chunked writes, placement, and mutation quotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

from kraft.service.placer_pb2_grpc import PlacerStub
from quorate.authorizer import StandardAuthorizer
from quorate.controller.access.delegation_tokens import index_tokens
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.committed import Committed
from quorate.controller.engine.decision import Command, propose
from quorate.controller.engine.engine import Answer
from quorate.controller.partitions.new_partitions import StalePlacement, UsableBrokers
from quorate.controller.quotas.metered import metered
from quorate.controller.quotas.mutation_quotas import MutationQuotas, RequestTokens, quota_of
from quorate.errors import ApiError
from quorate.metadata.state import ClusterState
from quorate.placement import PlacementSpec
from quorate.runtime.access.process_rights import ProcessRights
from quorate.runtime.calls.call_login import caller_of
from quorate.runtime.clients.client import Client
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.event_loop.clock import Clock, SystemClock
from quorate.tls.node_ids import NodeIds
from services.controller.authorizing import Authorizing
from services.controller.call import Call
from services.controller.chunked_writes import write_in_chunks
from services.controller.driver import ControllerDriver
from services.controller.logins import logins_of
from services.controller.metrics import IsrUpdates
from services.controller.pending import OFFSET
from services.controller.placement_requests import Placing
from services.controller.quorum_node import QuorumNode
from services.controller.sessions import SessionLookup

__all__ = ["Apis"]

PLACEMENTS_TRIED_MAX: Final = 3
"""Placements are requested anew this often if brokers change meanwhile; then the caller gets a retriable error."""

_Wanted: TypeAlias = Callable[[ClusterState], tuple[tuple[str, PlacementSpec], ...]]


class Apis:
    """The driver, clients, settings, quotas and authorizer of one controller, for its handlers."""

    def __init__(
        self,
        driver: ControllerDriver,
        quorum: QuorumNode,
        placers: Client[PlacerStub],
        settings: ControllerSettings,
        *,
        cluster_id: str,
        sessions: SessionLookup | None = None,
        authorizer: StandardAuthorizer | None = None,
        nodes: NodeIds | None = None,
        processes: ProcessRights | None = None,
        clock: Clock | None = None,
        transport: Transport = PLAIN,
    ) -> None:
        self.driver = driver
        self.loop = driver.loop
        self.sessions = sessions or SessionLookup(None)
        self.quorum = quorum
        self.placing = Placing(placers, UsableBrokers(driver.engine.state), due=driver.until_committed)
        self.settings = settings
        self.cluster_id = cluster_id
        self.isr_updates = IsrUpdates()
        self.authorizing = Authorizing(driver.engine, authorizer, partial(caller_of, transport), nodes, processes)
        self._quotas = MutationQuotas(settings.quota_windows)
        self._client_quotas = Committed(driver.engine, driver.engine.state.client_quotas)
        self.features = Committed(driver.engine, driver.engine.state.features)
        index_tokens(driver.engine.state, settings.delegation_tokens)
        self.logins = logins_of(driver.engine, settings.delegation_tokens, (clock or SystemClock()).wall_ms)

    async def write(self, call: Call, command: Command[Any], *, has_written: bool = False) -> Answer:
        """Runs the command and writes its records; with `validate_only` it writes none. Raises ApiError.

        REQUEST_TIMED_OUT if the call's deadline has passed before the decision begins. An answer without records, and
        a refusal that rests on the state, are reads: leadership is confirmed before they are returned (ReadIndex,
        Raft thesis 6.4), or a deposed leader would answer from a stale state. Kafka answers them unconfirmed.
        `has_written` says that `write_ahead` has committed records of this call, which confirms the leadership too.
        """
        epoch, command = self.driver.leader_epoch, call.deciding(command)
        try:
            answer = await self.driver.write(
                call.api.name,
                propose(command) if call.validate_only else command,
                lane=call.api.lane,
                request_id=call.request_id,
                begin=None if call.deadline is None else call.deadline.begin,
                by=call.caller.principal,
            )
        except ApiError as refusal:
            if OFFSET in refusal.metadata and not has_written:
                await self.quorum.confirm(epoch)
            raise
        if not (answer.wrote or has_written):
            await self.quorum.confirm(epoch)
        return answer

    def within_quota(self, call: Call, command: Callable[[Any], Command[Any]]) -> Command[Any]:
        """Returns the command that `command` makes of the request's topics within the client's mutation quota. KIP-599.

        The response refuses the other topics with THROTTLING_QUOTA_EXCEEDED, and has throttle_time_ms.
        """
        assert call.api.meter is not None, call.api.name
        quota = quota_of(self._client_quotas.now(), user=call.caller.principal.name, client_id=call.caller.client_id)
        if quota is None:
            return command(call.asked)
        return metered(call.api.meter, call.asked, command, RequestTokens(self._quotas, quota))

    async def write_ahead(self, call: Call, turns: Iterator[Command[None]]) -> bool:
        """Writes a chunked change that has to come before the call's own write; True once it is committed.

        Other requests run between its chunks. False if there is nothing to write: `turns` is empty, the call is
        `validate_only`, or its request id was answered before. Raises ApiError; the chunks that were written before
        stay. The change goes on to its end even if the caller has gone.
        """
        first = None if call.validate_only or self._is_answered(call) else next(turns, None)
        if first is None:
            return False
        await write_in_chunks(self.driver, call.api.name, chain((first,), turns), lane=call.api.lane)
        return True

    def _is_answered(self, call: Call) -> bool:
        return call.request_id is not None and self.driver.engine.repeats.answer(call.request_id) is not None

    async def place_and_write(self, call: Call, wanted: _Wanted, command: Callable[..., Command[Any]]) -> Answer:
        """Requests the placements that are `wanted`, then writes what `command(asked, placements=…)` decides.

        Within the client's quota. If the brokers changed meanwhile, it places again, `PLACEMENTS_TRIED_MAX` times in
        all. Raises ApiError; StalePlacement, which is retriable, after the last of these.
        """
        for tried in range(1, PLACEMENTS_TRIED_MAX + 1):
            with self.driver.write_coming():
                placements = await self.placing.place(wanted(self.driver.engine.state))
            try:
                return await self.write(call, self.within_quota(call, partial(command, placements=placements)))
            except StalePlacement:
                if tried == PLACEMENTS_TRIED_MAX:
                    raise
        raise AssertionError("the loop returns or raises")
