"""Builds the parts of a controller from its configuration: settings of decisions, broker configs, intervals, a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quorate.controller.access.delegation_tokens import TokenSettings
from quorate.controller.configs.broker import DYNAMIC, file_faults
from quorate.controller.configs.broker_file import FILE_ONLY
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.quotas.mutation_quotas import QuotaWindows
from quorate.controller.secrets import is_secret
from quorate.metadata.configs import BROKER
from quorate.runtime.settings.config import ConfigError, describe, given_texts
from services.controller.config import ControllerConfig
from services.controller.performance import PerformanceLog

NAMES: Final = frozenset(DYNAMIC.keys() | FILE_ONLY.keys())
"""The Kafka broker configs that the file may have beside the controller's own settings."""


def settings_of(config: ControllerConfig, static_configs: Mapping[str, str]) -> ControllerSettings:
    """Returns the settings that commands read; `static_configs` are the broker configs in the same file."""
    return ControllerSettings(
        node_id=config.node_id,
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        delete_topic_enable=config.delete_topic_enable,
        partitions_per_page=config.max_request_partition_size_limit,
        delegation_tokens=TokenSettings(
            secret_key=config.delegation_token_secret_key or "",
            max_lifetime_ms=config.delegation_token_max_lifetime_ms,
            expiry_time_ms=config.delegation_token_expiry_time_ms,
        ),
        quota_windows=QuotaWindows(num=config.quota_window_num, size_s=config.quota_window_size_seconds),
        create_topic_policy=_policy(config.create_topic_policy, config),
        alter_config_policy=_policy(config.alter_config_policy, config),
        static_configs=static_configs,
    )


def static_configs(argv: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the broker configs of the file, the environment or `--set`, which DescribeConfigs reports as STATIC.

    As text, without secrets, which no decision needs. Raises ConfigError.
    """
    given = given_texts(argv, environ, NAMES)
    faults = file_faults(given)
    if faults:
        raise ConfigError(faults)
    return {name: value for name, value in given.items() if not is_secret(BROKER, name)}


def intervals_of(config: ControllerConfig) -> dict[str, int]:
    """Returns the interval of each periodic task in ms, by the name of its setting; 0 turns the task off."""
    rebalances = config.auto_leader_rebalance_enable
    return {
        "metadata.max.idle.interval.ms": config.idle_interval_ms,
        "leader.imbalance.check.interval.seconds": config.imbalance_interval_seconds * 1_000 if rebalances else 0,
        "unclean.leader.election.interval.ms": config.unclean_election_interval_ms,
        "delegation.token.expiry.check.interval.ms": config.delegation_token_expiry_check_interval_ms,
    }


def performance_log_of(config: ControllerConfig) -> PerformanceLog:
    """Returns the log of decision times, with the configured period and threshold."""
    return PerformanceLog(period_ms=config.performance_period_ms, always_from_ms=config.performance_always_log_ms)


def _policy(policy: type | None, config: ControllerConfig) -> Any:
    """Returns an instance of a policy class, configured with all settings if it has `configure`; None for None."""
    made: Any = None if policy is None else policy()
    if hasattr(made, "configure"):
        made.configure(describe(config))
    return made
