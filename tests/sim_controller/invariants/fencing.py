"""I-64, I-66, I-67: who is fenced was silent for a session; who is let in has caught up; who goes leads nothing.

And a directory that a broker has lost is taken from it; `cluster.judge_directories` is about what lay there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraft import Uuid
from kraft.api.broker_heartbeat import BrokerHeartbeatRequest
from quorate.liveness import ControlState
from quorate.nouns import NodeId, Offset
from tests.sim.invariants.base import require

if TYPE_CHECKING:
    from tests.sim_controller.tracker import Tracker
    from tests.sim_controller.world import ControllerWorld


class Fencing:
    """When each broker was last heard of, by the monotonic clock of the tracker that heard it."""

    def __init__(self, world: ControllerWorld) -> None:
        self._world = world
        self._heard: dict[tuple[int, NodeId], int] = {}
        self.expiry_count = 0
        self._trackers = 0

    def next_tracker(self) -> int:
        """A number for a new one."""
        self._trackers += 1
        return self._trackers

    def after_heartbeat(self, tracker: Tracker, broker_id: NodeId, epoch: int) -> None:
        """A valid heartbeat has arrived."""
        self._heard[tracker.number, broker_id] = tracker.clock.now_ms

    def after_watch(self, tracker: Tracker, broker_id: NodeId) -> None:
        """From now on it has a full session."""
        self._heard[tracker.number, broker_id] = tracker.clock.now_ms

    def before_expiry(self, tracker: Tracker, broker_id: NodeId) -> None:
        """The tracker is about to have it fenced for its silence."""
        self.expiry_count += 1
        silent_ms = tracker.clock.now_ms - self._heard[tracker.number, broker_id]
        session_ms = self._world.cluster_plan.session_ms
        require(silent_ms >= session_ms, "I-64", "fenced only after a whole session", broker_id, silent_ms, session_ms)

    def after_struck_off(self, broker_id: NodeId, epoch: int, directories: tuple[Uuid, ...], end: Offset) -> None:
        """A broker has said that these have failed, and it is committed below `end`. KIP-858."""
        model = self._world.history.model_at(end)
        member = model.members.get(broker_id)
        if member is None or member.epoch != epoch:
            return  # another process has registered since
        self._world.tally["directories struck off"] += len(directories)
        require(not set(member.directories) & set(directories), "I-46", "a failed directory is gone", broker_id, member)

    def before_change(
        self, tracker: Tracker, broker_id: NodeId, target: ControlState, request: BrokerHeartbeatRequest
    ) -> None:
        """A heartbeat is about to change what the broker may do."""
        model = self._world.history.model_at(tracker.replica.next)
        member = model.members[broker_id]
        if target is ControlState.UNFENCED:
            known = request.current_metadata_offset
            require(known >= member.epoch, "I-66", "let in once it knows of its registration", broker_id, known, member)
        if target is ControlState.SHUTDOWN_NOW and member.leaving:
            self._world.tally["brokers let go after a controlled shutdown"] += 1
            led = [key for key, _ in model.led_by(broker_id)]
            require(not led, "I-67", "who may go leads nothing", broker_id, led)
