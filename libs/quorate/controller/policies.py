"""Policies: classes of the operator that may refuse new topics (KIP-108) and config changes (KIP-133).

A policy is a Python class with Kafka's two methods, named in the configuration as `module:Class`:

    class NoCats:
        def configure(self, configs):            # the controller's own settings, by Kafka's names
            self.word = configs.get("no.cats.word", "cat")

        def validate(self, request):             # a NewTopic
            if self.word in request.topic:
                raise PolicyViolation(f"no {self.word}s")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from quorate.errors import ApiError, ErrorCode
from quorate.metadata.configs import ConfigResource
from quorate.placement import Replicas

__all__ = ["AlterConfigPolicy", "ConfigChange", "CreateTopicPolicy", "NewTopic", "PolicyViolation"]


class PolicyViolation(ApiError):
    """Raised by a policy to refuse a topic or a config change: POLICY_VIOLATION, with this message for the caller."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.POLICY_VIOLATION, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A new topic as a policy sees it, with either partition count and replication factor or assigned replicas."""

    topic: str
    num_partitions: int | None
    """The number of partitions; None if `replicas_assignments` is set."""
    replication_factor: int | None
    """The replication factor; None if `replicas_assignments` is set."""
    replicas_assignments: Mapping[int, Replicas] | None
    """The replicas by partition; None if the placer chooses them."""
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """The new config values of a resource as a policy sees them; None for a config that is deleted."""

    resource: ConfigResource
    configs: Mapping[str, str | None]


class CreateTopicPolicy(Protocol):
    """A policy on new topics: Kafka's `create.topic.policy.class.name`. It is also called for validate_only."""

    def validate(self, request: NewTopic) -> None:
        """Raises PolicyViolation to refuse the new topic."""


class AlterConfigPolicy(Protocol):
    """A policy on config changes: Kafka's `alter.config.policy.class.name`."""

    def validate(self, request: ConfigChange) -> None:
        """Raises PolicyViolation to refuse the config change."""
