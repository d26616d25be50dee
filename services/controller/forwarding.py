"""Forwarding (KIP-590): runs a call on this controller if it is active, else sends it once to the active one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar, cast

import grpc
from google.protobuf.message import Message as ProtobufMessage

from kraft.service.controller_pb2_grpc import ControllerStub
from quorate.errors import ApiError, ErrorCode
from quorate.nouns import ANONYMOUS, NOBODY, Epoch, NodeId
from quorate.records import RegisterControllerRecord
from quorate.runtime.access.passing_on import (
    CLIENT_HOST,
    CLIENT_ID,
    CLIENT_IS_TOKEN,
    CLIENT_PRINCIPAL,
    FORWARDED,
    FORWARDER_PRINCIPAL,
    GATEWAY_PRINCIPAL,
    principal_text,
    said_in,
)
from quorate.runtime.calls.call_login import caller_of, login_of_call
from quorate.runtime.clients.client import Channels, call, open_channel
from quorate.runtime.connections.peers import host_of
from quorate.runtime.connections.transport import PLAIN, Transport
from quorate.runtime.requests.statuses import BARE, GRPC_STATUS, UNTOUCHED, is_gone
from quorate.runtime.settings.setting_types import Endpoint
from quorate.runtime.telemetry.tracing import Telemetry
from services.controller.api import Api
from services.controller.driver import ControllerDriver

T = TypeVar("T")

DEADLINE_MS: Final = 30_000
"""Deadline (ms) of a forwarded call if the caller has set none."""
HOLD_S: Final = 5.0
"""Longest time (s) for which a call waits for an active controller to be known: longer than an election takes."""
MARGIN_S: Final = 0.1
"""Time (s) before a call's deadline at which it gets NOT_CONTROLLER, so that the reason still reaches the caller."""
ELECTION_S: Final = 1.0
"""How long (s) a read that needs no leader waits for one: longer than an election takes while a majority is there."""
TIMEOUT_MARGIN_S: Final = 1.0
"""How much longer (s) than its own timeout_ms a call that was handed over may take: the active controller's own
REQUEST_TIMED_OUT says more."""
LAST_ANSWER_S: Final = 1.0
"""How long (s) a write still waits for the answer of a leader that was replaced: one that lives answers at once."""
LOOK_AGAIN_S: Final = 0.05
"""Longest pause (s) between two attempts: the active controller may learn later than this one that it leads."""

_OF_THE_CALLER: Final = frozenset({CLIENT_HOST, CLIENT_ID, CLIENT_PRINCIPAL, FORWARDER_PRINCIPAL})


class Forwarding:
    """Sends calls to the active controller, whose address is in its registration record (KIP-919).

    A call is tried again only if it has certainly not been executed, or if a second execution does no harm.
    """

    def __init__(
        self,
        driver: ControllerDriver,
        telemetry: Telemetry,
        transport: Transport = PLAIN,
        listener: str | None = None,
    ) -> None:
        """`listener` is the name that the listener for such calls has on all controllers; None: the first one."""
        self._driver = driver
        self._loop = driver.loop
        self._transport = transport
        self._telemetry = telemetry
        self._listener = listener
        self._channels = Channels(lambda address: open_channel(address, transport))
        self._handed_over: dict[_HandedOver, None] = {}  # in their order, which a set has not
        self._in_vain_since_s: float | None = None
        """Since when (by the loop's clock) reads have been forwarded in vain; None if the last one was answered."""
        driver.on_leader = self._hear_of_leader

    async def serve(
        self,
        api: Api,
        request: ProtobufMessage,
        context: Any,
        here: Callable[[], Awaitable[T]],
        *,
        alone: Callable[[], Awaitable[T]] | None = None,
        may_repeat: bool = False,
        timeout_ms: int | None = None,
    ) -> T:
        """Returns the answer of `here` if this controller is active, else forwards the call to the active one.

        Waits until an active controller is known, at most 5 s, and within the caller's deadline and `timeout_ms`.
        Raises ApiError(NOT_CONTROLLER) if there is none by then. `alone` answers by what this controller knows, once no
        leader has been known for longer than an election takes. A call that `may_repeat` is asked anew of the next
        leader; another one ends with NOT_CONTROLLER when the leader that has it is replaced.
        """
        assert api.is_forwarded, api.name
        begun_s, patience = self._loop.time(), None
        while True:
            changed = self._driver.changed
            try:
                if self._driver.is_active:
                    return await here()
                patience = patience or _Patience(self._loop, begun_s, context.time_remaining(), timeout_ms)
                if is_forwarded(context):
                    raise self._refusal(context, "the call was forwarded to this controller, which is not active")
                if self.is_led_by_kafka and alone is None:
                    raise self._refusal(context, "the active controller is one of Kafka's; no call is forwarded to it")
                address = None if self.is_led_by_kafka else active_address(self._driver, self._listener)
                if address is not None and await self._reaches(address, changed, patience):
                    answer = await self._until_replaced(
                        self._hand_over(address, api.name, request, context, patience.ends, may_repeat=may_repeat),
                        context,
                        is_read=alone is not None,
                        may_repeat=may_repeat,
                    )
                    self._in_vain_since_s = None
                    return cast(T, answer)
            except ApiError as refusal:
                if is_forwarded(context) or UNTOUCHED not in refusal.metadata:
                    raise
                if self.is_led_by_kafka and alone is None:
                    raise
            if alone is not None and self._stands_alone(api):
                return await alone()
            patience = patience or _Patience(self._loop, begun_s, context.time_remaining(), timeout_ms)
            left_s = patience.left_s
            if left_s <= 0:
                raise self._refusal(context, "no controller is active, or its endpoint is not known yet")
            await _either(changed.wait(), asyncio.sleep(min(left_s, LOOK_AGAIN_S)))

    def _stands_alone(self, api: Api) -> bool:
        """Whether a read that needs no leader is to be answered here: no leader was found, and a state is known.

        After a start without a majority that is what the quorum node has for committed: its last checkpoint.
        A Kafka controller that leads is never asked. A leader that is not reached, or is none any more, is as good as
        none: a follower names the last one while it seeks another.
        """
        engine = self._driver.engine
        is_known = engine.is_loaded or 0 < engine.next_offset == self._driver.leaderless_at
        if not is_known and api.quorum_deadline_ms is None:
            return False
        now_s = self._loop.time()
        if self._in_vain_since_s is None:
            self._in_vain_since_s = now_s
        without_s = max(now_s - self._in_vain_since_s, self._driver.leaderless_ms / 1000)
        return self.is_led_by_kafka or without_s >= ELECTION_S

    @property
    def is_led_by_kafka(self) -> bool:
        """Whether the active controller is one of Kafka's, to which nothing is forwarded, as it has no gRPC."""
        return is_of_kafka(self._driver, self._listener)

    async def close(self) -> None:
        """Closes the connections to the other controllers."""
        await self._channels.close()

    def _hear_of_leader(self) -> None:
        if self._driver.leader_id != NOBODY:
            self._in_vain_since_s = None
        for each in self._handed_over:
            each.hear(self._driver.leader_id, self._driver.leader_epoch)

    async def _until_replaced(self, answer: Awaitable[T], context: Any, *, is_read: bool, may_repeat: bool) -> T:
        """Returns the answer, unless the active controller is replaced before. Raises ApiError(NOT_CONTROLLER) then."""
        leader_id, epoch = self._driver.leader_id, self._driver.leader_epoch
        handed_over = _HandedOver(leader_id, epoch, is_read=is_read, may_repeat=may_repeat)
        # A task of its own, which alone is cancelled: a timeout around it might cancel the caller's, too, if the answer
        # comes at that moment, and then the caller would hear nothing.
        under_way = asyncio.ensure_future(answer)
        under_way.add_done_callback(_forget)
        self._handed_over[handed_over] = None
        try:
            await asyncio.wait((under_way, handed_over.is_over), return_when=asyncio.FIRST_COMPLETED)
            if under_way.done():
                return under_way.result()
        finally:
            self._handed_over.pop(handed_over, None)
            handed_over.is_over.cancel()
            under_way.cancel()
            del under_way  # else a refusal, whose traceback has this frame, and the request, would keep each other
        why = f"controller {leader_id} led until epoch {epoch}, and has not answered"
        raise self._lost(context, why, may_repeat=may_repeat)

    async def _hand_over(
        self, address: str, rpc: str, request: ProtobufMessage, context: Any, ends: float, *, may_repeat: bool
    ) -> Any:
        try:
            return await call(
                getattr(ControllerStub(self._channels[address]), rpc),
                request,
                deadline_ms=max(1, int((ends - self._loop.time()) * 1000)),
                telemetry=self._telemetry,
                metadata=((FORWARDED, "1"), *self._caller(context), (CLIENT_HOST, host_of(context.peer()))),
                server=address,
                trailing=context.set_trailing_metadata,
            )
        except ApiError as refusal:
            raise self._of_call(refusal, context, may_repeat=may_repeat) from None

    def _of_call(self, refusal: ApiError, context: Any, *, may_repeat: bool) -> ApiError:
        """Returns the caller's error for a call that was handed over: that of the active controller.

        An error of gRPC itself is no refusal of this controller's. A server without the method has executed nothing:
        until the active controller's new process has registered, the log still names the address of its last one,
        where another server may listen by now. One that went away meanwhile may have done it.
        """
        if BARE not in refusal.metadata:
            return refusal
        if refusal.metadata[GRPC_STATUS] == grpc.StatusCode.UNIMPLEMENTED.name:
            return self._refusal(context, f"the controller that should lead serves no such call: {refusal.message}")
        if is_gone(refusal):
            return self._lost(context, f"the active controller has gone: {refusal.message}", may_repeat=may_repeat)
        known = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
        code = refusal.code if refusal.code in known else ErrorCode.UNKNOWN_SERVER_ERROR
        return ApiError(code, f"the active controller: {refusal.message}")

    def _lost(self, context: Any, why: str, *, may_repeat: bool) -> ApiError:
        """Returns the end of a call that was handed over and has no answer."""
        refusal = self._refusal(context, why)
        if may_repeat:
            return refusal
        del refusal.metadata[UNTOUCHED]
        return ApiError(refusal.code, f"{why}; it may have done it", refusal.metadata)

    async def _reaches(self, address: str, changed: asyncio.Event, patience: _Patience) -> bool:
        """Waits for a connection before anything is sent; False if it fails or the driver's state changes meanwhile."""
        channel = self._channels[address]
        while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
            await _either(changed.wait(), channel.wait_for_state_change(state), asyncio.sleep(LOOK_AGAIN_S))
            if changed.is_set() or patience.left_s <= 0 or state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                return False
        return True

    def _caller(self, context: Any) -> tuple[tuple[str, str], ...]:
        """Returns the metadata that names who has made a call and who passed it on: the receiver checks each hop.

        Claims of a sender that passes on nobody's call do not count; they are dropped here, where they would look like
        this controller's.
        """
        metadata = tuple(context.invocation_metadata() or ())
        is_passed_on = said_in(metadata).is_by_gateway
        passed = _OF_THE_CALLER if is_passed_on else frozenset({CLIENT_ID})
        sender, login = caller_of(self._transport, context), login_of_call()
        token = ((CLIENT_IS_TOKEN, "true"),) if login is not None and login.is_token else ()
        key = GATEWAY_PRINCIPAL if is_passed_on else CLIENT_PRINCIPAL
        named = () if sender == ANONYMOUS else ((key, principal_text(sender)),)
        return (*(each for each in metadata if each[0] in passed), *named, *token)

    def _refusal(self, context: Any, why: str) -> ApiError:
        """Returns NOT_CONTROLLER with the leader's id, epoch and endpoint, as far as they are known here.

        The endpoint is that at which controllers call each other, and so for a caller by the same security protocol.
        """
        is_for_caller = self._transport.is_own_protocol(context)
        return ApiError(
            ErrorCode.NOT_CONTROLLER,
            why,
            {
                "leader_id": str(self._driver.leader_id),
                "leader_epoch": str(self._driver.leader_epoch),
                "leader_endpoint": (is_for_caller and active_address(self._driver, self._listener)) or "",
                UNTOUCHED: "true",
            },
        )


class _Patience:
    """How long one call may wait for an active controller, and until when it may take, by the loop's clock (s)."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, begun_s: float, left_s: float | None, timeout_ms: int | None
    ) -> None:
        """`begun_s` is when the call came, from which its `timeout_ms` counts; it has `left_s` until its deadline."""
        self._now_s = loop.time
        own_s = HOLD_S if timeout_ms is None else max(0, timeout_ms) / 1000
        self.ends = begun_s + DEADLINE_MS / 1000 if left_s is None else loop.time() + left_s
        if timeout_ms is not None:
            self.ends = min(self.ends, begun_s + own_s + TIMEOUT_MARGIN_S)
        self._holds_until = min(begun_s + min(HOLD_S, own_s), self.ends - MARGIN_S)

    @property
    def left_s(self) -> float:
        """How long it still waits for an active controller."""
        return self._holds_until - self._now_s()


class _HandedOver:
    """A call that the active controller has; `is_over` once it is given up because another leads."""

    def __init__(self, leader_id: NodeId, epoch: Epoch, *, is_read: bool, may_repeat: bool) -> None:
        self.is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_given_up = False
        self._leader_id = leader_id
        self._epoch = epoch
        self._is_read = is_read
        self._may_repeat = may_repeat

    def hear(self, leader_id: NodeId, epoch: Epoch) -> None:
        """Ends the wait, if its leader is none any more; where nobody is known to lead it may still be one."""
        is_replaced = epoch > self._epoch or leader_id not in (self._leader_id, NOBODY)
        if self._is_given_up or not (is_replaced or (self._is_read and leader_id == NOBODY)):
            return
        self._is_given_up = True
        if self._may_repeat:
            self._end()
        else:
            asyncio.get_running_loop().call_later(LAST_ANSWER_S, self._end)

    def _end(self) -> None:
        if not self.is_over.done():
            self.is_over.set_result(None)


def _forget(call: asyncio.Future[Any]) -> None:
    """Takes the outcome of a call for which nobody may wait any more; else asyncio reports its error."""
    if not call.cancelled():
        call.exception()


def active_address(driver: ControllerDriver, listener: str | None = None) -> str | None:
    """Returns the `host:port` of the active controller; None if unknown or its registration is not replayed yet.

    It is its listener of this name; without a name its first one.
    """
    found = next((each for each in _active_listeners(driver) if listener in (None, each.name)), None)
    return None if found is None else str(Endpoint(found.host, found.port))


def is_of_kafka(driver: ControllerDriver, listener: str | None) -> bool:
    """Returns whether the active controller is Kafka's own: it has registered without a listener of this name."""
    listeners = _active_listeners(driver)
    return listener is not None and bool(listeners) and listener not in {each.name for each in listeners}


def _active_listeners(driver: ControllerDriver) -> Sequence[RegisterControllerRecord.ControllerEndpoint]:
    active = None if driver.leader_id == NOBODY else driver.engine.state.controllers.get(driver.leader_id)
    return () if active is None else active.end_points


def is_forwarded(context: Any) -> bool:
    """Whether another controller has forwarded this call."""
    return said_in(context.invocation_metadata()).is_forwarded


async def _either(*waits: Awaitable[Any]) -> None:
    """Waits until the first of `waits` is done, and cancels the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
