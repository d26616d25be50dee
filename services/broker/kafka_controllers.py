"""A broker's requests to Kafka's own controllers, over Kafka's wire: the leader, which gives the metadata log, is
asked.

A leader answers NOT_CONTROLLER until it is the active controller, and again once it has resigned; then the log soon
comes from another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from kraft import Message
from kraft.api.alter_partition import AlterPartitionRequest
from kraft.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest
from kraft.api.broker_registration import BrokerRegistrationRequest
from quorate.errors import ApiError, ErrorCode
from quorate.network.client_config import Endpoint as Address
from quorate.runtime.requests.statuses import is_retriable
from quorate.runtime.settings.setting_types import Endpoint
from services.broker.controller_connection import ControllerConnection
from services.broker.controllers import Retry, refuse_error
from services.broker.peers import Peers

__all__ = ["KafkaControllers", "LedBy"]

M = TypeVar("M", bound=Message)

PAUSE_S: Final = 0.1
"""Between two tries; Kafka's `retry.backoff.ms`, and the first pause of its registration."""
PAUSE_MAX_S: Final = 1.0
OTHERS: Final = "producer-ids"
HEARTBEAT: Final = "heartbeat"
HEARTBEAT_CONNECT_S: Final = 4.5
"""Half of Kafka's `broker.session.timeout.ms`: who cannot be connected to for a heartbeat is to be left in time."""
CHANNELS: Final[dict[type[Message], str]] = {
    BrokerRegistrationRequest: HEARTBEAT,
    BrokerHeartbeatRequest: HEARTBEAT,
    AlterPartitionRequest: "alter-partition",
    AssignReplicasToDirsRequest: "directory-assignments",
}
"""The connections by what goes over them, nearly as Kafka's brokers have them: a heartbeat waits for nothing else."""


class LedBy:
    """Where Kafka's active controller is asked: at the quorum's leader, as the reader of the metadata log knows it.

    `servers` are the addresses with which that reader began to look, for the log.
    """

    count: Final = 1

    def __init__(self, leader_at: Callable[[], Address | None], servers: Sequence[Endpoint]) -> None:
        self._leader_at = leader_at
        self._servers = ", ".join(map(str, servers))

    def __str__(self) -> str:
        return str(self.now() or f"the leader, by {self._servers}")

    def now(self) -> Endpoint | None:
        """Returns the leader; None if it is not known."""
        at = self._leader_at()
        return None if at is None else Endpoint(*at)

    def turn_from(self, at: Endpoint) -> None:
        """Does nothing: the log says who leads."""


class KafkaControllers:
    """The `Controllers` of a quorum of Kafka's, over Kafka's wire; heartbeats have a connection of their own."""

    def __init__(self, where: LedBy, peers: Peers, *, heartbeat_interval_ms: int) -> None:
        """The connection that leaves one heartbeat without an answer for half of the interval has no further one."""
        self._where = where
        usual = partial(ControllerConnection, where, peers, of="controller")
        self._channels = {name: usual() for name in (*CHANNELS.values(), OTHERS)}
        silent_s = heartbeat_interval_ms / 2_000
        self._channels[HEARTBEAT] = usual(silent_s=silent_s, connect_s=HEARTBEAT_CONNECT_S)

    async def ask(self, answer: type[M], request: Message, *, deadline_ms: int, retry: Retry = is_retriable) -> M:
        """Returns what the active controller answers. `deadline_ms` (ms from now) is the time for all tries together.

        An error for which `retry` returns true, also that of the answer as a whole, is tried again after a pause of 0.1
        s, twice as long each time, up to 1 s. Raises ApiError: any other at once; when the time is over, the last one,
        or REQUEST_TIMED_OUT if there was none.
        """
        channel = self._channels[CHANNELS.get(type(request), OTHERS)]
        last, pause_s = ApiError(ErrorCode.REQUEST_TIMED_OUT, f"no answer within {deadline_ms} ms"), PAUSE_S
        try:
            async with asyncio.timeout(deadline_ms / 1000):
                while True:
                    try:
                        found = await channel.ask(answer, request)
                        refuse_error(found)
                        return found
                    except ApiError as error:
                        if not retry(error):
                            raise
                        last = error
                    await asyncio.sleep(pause_s)
                    pause_s = min(PAUSE_MAX_S, 2 * pause_s)
        except TimeoutError:
            raise last from None

    def asked(self, request: type[Message]) -> str:
        """Returns the address of the quorum's leader, for the log; while it is not known, how it is looked for."""
        return str(self._where)

    def versions(self) -> Mapping[int, range]:
        """Returns the versions, by API key, of the controller that gets the heartbeats; empty before the
        registration."""
        return self._channels[CHANNELS[BrokerHeartbeatRequest]].versions

    async def close(self) -> None:
        """Ends the connections."""
        for channel in self._channels.values():
            await channel.close()
