"""min.insync.replicas as a partition's leader has it: the topic's, else the leader's own, else that of all. KIP-226."""

from __future__ import annotations

from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.configs.topic import CONFIGS, MIN_INSYNC_REPLICAS
from quorate.controller.partitions.broker_changes import Rulebook
from quorate.metadata.configs import BROKER, TOPIC
from quorate.metadata.partitions import Partition
from quorate.metadata.state import ClusterState
from quorate.nouns import NodeId

__all__ = ["MinIsrs"]


class MinIsrs:
    """Looks up `min.insync.replicas` as each partition's leader has it. The state's configs may not change meanwhile.

    The controller goes by the topic's and that of all brokers, which it has for the ELR (KIP-966).
    """

    def __init__(self, state: ClusterState, settings: ControllerSettings) -> None:
        self._state = state
        self._book = Rulebook(state, settings)
        self._own: dict[NodeId, int] = {}
        for broker in state.brokers:
            value = state.configs.get(BROKER, str(broker.id), MIN_INSYNC_REPLICAS)
            if value is not None and CONFIGS[MIN_INSYNC_REPLICAS].values.takes(value):
                self._own[broker.id] = int(value)

    @property
    def any_own(self) -> bool:
        """Whether any broker has a dynamic value for itself alone."""
        return bool(self._own)

    def own(self, broker_id: NodeId) -> int | None:
        """Returns the dynamic value that is set for this broker alone; None if there is none, or it is no valid one."""
        return self._own.get(broker_id)

    def is_of_topic(self, topic: str) -> bool:
        """Whether the topic sets it, so that no broker's own counts."""
        return self._state.configs.get(TOPIC, topic, MIN_INSYNC_REPLICAS) is not None

    def of_topic(self, topic: str) -> int:
        """Returns the `min.insync.replicas` under a leader that has none of its own; replicas may be fewer."""
        return self._book.min_isr(topic)

    def least(self, topic: str, partition: Partition) -> int:
        """Returns `min.insync.replicas` under the partition's leader, at most the number of its replicas."""
        own = None if not self._own or self.is_of_topic(topic) else self._own.get(partition.leader)
        return min(self._book.min_isr(topic) if own is None else own, len(partition.replicas))
