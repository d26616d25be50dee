"""What the operator has configured for all controllers alike: Kafka's broker configs that decisions depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.controller.topic_configs import CONFIGS, MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION, Effective, effective
from quorate.metadata.configs import TOPIC
from quorate.metadata.state import ClusterState

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Defaults of new topics, and broker configs from the file by Kafka's names, which stand in for topic configs."""

    num_partitions: int = 1
    """Kafka's `num.partitions`."""
    default_replication_factor: int = 1
    """Kafka's `default.replication.factor`."""
    delete_topic_enable: bool = True
    """Kafka's `delete.topic.enable`."""
    static_configs: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.num_partitions >= 1, self.num_partitions
        assert self.default_replication_factor >= 1, self.default_replication_factor

    def effective(self, state: ClusterState, topic_name: str, config: str) -> Effective:
        """The value of a topic config that counts for an existing topic."""
        return effective(
            CONFIGS[config],
            topic=state.configs.of(TOPIC, topic_name),
            configs=state.configs,
            static=self.static_configs,
        )

    def min_insync_replicas(self, state: ClusterState, topic_name: str) -> int:
        """How many replicas a write to the topic needs; may be more than there are."""
        return int(self.effective(state, topic_name, MIN_INSYNC_REPLICAS).value)

    def elects_uncleanly(self, state: ClusterState, topic_name: str) -> bool:
        """May the topic's partitions be led by a replica that lacks committed records?"""
        return self.effective(state, topic_name, UNCLEAN_ELECTION).value.strip().lower() == "true"
