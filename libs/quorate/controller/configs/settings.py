"""Settings of the controllers: Kafka's broker configs on which the controller's decisions depend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.controller.configs.broker import file_faults
from quorate.controller.configs.topic import CONFIGS, MIN_INSYNC_REPLICAS, UNCLEAN_ELECTION, Effective, effective
from quorate.controller.configs.values import is_true, whole
from quorate.controller.policies import AlterConfigPolicy, CreateTopicPolicy
from quorate.controller.quotas.mutation_quotas import QuotaWindows
from quorate.metadata.configs import TOPIC
from quorate.metadata.state import ClusterState
from quorate.nouns import NOBODY, NodeId

__all__ = ["ControllerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The controllers' settings: defaults of new topics, limits, policies and static configs, by Kafka's names."""

    num_partitions: int = 1
    """The partition count of a new topic that does not name one: Kafka's `num.partitions`."""
    default_replication_factor: int = 1
    """The replication factor of a new topic that does not name one: Kafka's `default.replication.factor`."""
    delete_topic_enable: bool = True
    """Whether topics can be deleted: Kafka's `delete.topic.enable`."""
    partitions_per_page: int = 2_000
    """The most partitions in one DescribeTopicPartitions response. Kafka's `max.request.partition.size.limit`."""
    delegation_tokens: TokenSettings = field(default_factory=TokenSettings)
    """Kafka's `delegation.token.…` configs; delegation tokens are off unless a secret key is set."""
    quota_windows: QuotaWindows = field(default_factory=QuotaWindows)
    """The sizes of mutation quotas' token buckets: Kafka's `controller.quota.window.…`."""
    node_id: NodeId = NOBODY
    """The id of this controller, whose own configs `static_configs` are; -1 for none."""
    static_configs: Mapping[str, str] = field(default_factory=dict)
    """Broker configs from the properties file, by Kafka's names; `file_faults` has found no fault in them."""
    create_topic_policy: CreateTopicPolicy | None = None
    """The operator's policy on new topics, None for no policy: Kafka's `create.topic.policy.class.name`."""
    alter_config_policy: AlterConfigPolicy | None = None
    """The operator's policy on config changes, None for no policy: Kafka's `alter.config.policy.class.name`."""

    def __post_init__(self) -> None:
        assert self.num_partitions >= 1, self.num_partitions
        assert self.default_replication_factor >= 1, self.default_replication_factor
        assert self.partitions_per_page >= 1, self.partitions_per_page
        assert not file_faults(self.static_configs), file_faults(self.static_configs)

    def effective(self, state: ClusterState, topic_name: str, config: str) -> Effective:
        """The effective value of a topic config: set on the topic, for brokers, in the file, or Kafka's default."""
        return effective(
            CONFIGS[config],
            topic=state.configs.of(TOPIC, topic_name),
            configs=state.configs,
            static=self.static_configs,
        )

    def min_insync_replicas(self, state: ClusterState, topic_name: str) -> int:
        """The topic's effective `min.insync.replicas`; it may exceed the number of replicas."""
        return whole(self.effective(state, topic_name, MIN_INSYNC_REPLICAS).value)

    def elects_uncleanly(self, state: ClusterState, topic_name: str) -> bool:
        """Returns the topic's effective `unclean.leader.election.enable`."""
        return is_true(self.effective(state, topic_name, UNCLEAN_ELECTION).value)
