"""What an operator may refuse beyond Kafka's own rules: new topics, and changes of configs. KIP-108, KIP-133.

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
from quorate.metadata.configs import Resource
from quorate.placement import Replicas

__all__ = ["AlterConfigPolicy", "ConfigChange", "CreateTopicPolicy", "NewTopic", "PolicyViolation"]


class PolicyViolation(ApiError):
    """Raised by a policy. Its words go to whoever asked."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.POLICY_VIOLATION, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic that is about to be created: either counted, or with its replicas assigned by hand."""

    topic: str
    num_partitions: int | None
    """None if `replicas_assignments` says it."""
    replication_factor: int | None
    """None if `replicas_assignments` says it."""
    replicas_assignments: Mapping[int, Replicas] | None
    """By partition; None if the placer chooses."""
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """What is about to be set on a resource; None where a config is to be deleted."""

    resource: Resource
    configs: Mapping[str, str | None]


class CreateTopicPolicy(Protocol):
    """Kafka's `create.topic.policy.class.name`. Asked also for what is only to be validated."""

    def validate(self, request: NewTopic) -> None:
        """Raises PolicyViolation."""


class AlterConfigPolicy(Protocol):
    """Kafka's `alter.config.policy.class.name`."""

    def validate(self, request: ConfigChange) -> None:
        """Raises PolicyViolation."""
