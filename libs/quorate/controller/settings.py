"""What the operator has configured for all controllers alike: Kafka's broker configs that decisions depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.controller.configs.broker import file_faults
from quorate.controller.configs.topic import CONFIGS, MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION, Effective, effective
from quorate.controller.configs.values import is_true, whole
from quorate.controller.delegation_tokens import TokenSettings
from quorate.controller.mutation_quotas import QuotaWindows
from quorate.controller.policies import AlterConfigPolicy, CreateTopicPolicy
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
    partitions_per_page: int = 2_000
    """Of DescribeTopicPartitions at most. Kafka's `max.request.partition.size.limit`."""
    delegation_tokens: TokenSettings = field(default_factory=TokenSettings)
    """Kafka's `delegation.token.…`; there are none unless a secret key is given."""
    quota_windows: QuotaWindows = field(default_factory=QuotaWindows)
    """Kafka's `controller.quota.window.…`."""
    static_configs: Mapping[str, str] = field(default_factory=dict)
    """By Kafka's names, with values that `file_faults` has nothing against."""
    create_topic_policy: CreateTopicPolicy | None = None
    """Kafka's `create.topic.policy.class.name`."""
    alter_config_policy: AlterConfigPolicy | None = None
    """Kafka's `alter.config.policy.class.name`."""

    def __post_init__(self) -> None:
        assert self.num_partitions >= 1, self.num_partitions
        assert self.default_replication_factor >= 1, self.default_replication_factor
        assert self.partitions_per_page >= 1, self.partitions_per_page
        assert not file_faults(self.static_configs), file_faults(self.static_configs)

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
        return whole(self.effective(state, topic_name, MIN_INSYNC_REPLICAS).value)

    def elects_uncleanly(self, state: ClusterState, topic_name: str) -> bool:
        """May the topic's partitions be led by a replica that lacks committed records?"""
        return is_true(self.effective(state, topic_name, UNCLEAN_ELECTION).value)
