"""What an active controller does by itself, as a table: name, interval, whether there is anything to do, command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from quorate.controller.broker_changes import rules_for
from quorate.controller.decision import Command, Decision, Moment
from quorate.controller.delegation_tokens import is_expired
from quorate.controller.elections import Election
from quorate.controller.partition_change import Wish, partition_change
from quorate.controller.settings import Settings
from quorate.metadata.partitions import NO_LEADER, Partition
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import Found
from quorate.records import NoOpRecord, PartitionChangeRecord, RemoveDelegationTokenRecord

__all__ = ["AGAIN_MS", "CHORES", "ELECTIONS_PER_WRITE_MAX", "Chore"]

ELECTIONS_PER_WRITE_MAX: Final = 1_000
"""Elections in one go, as in Kafka: other requests shall not wait for more."""

EXPIRED_TOKENS_PER_WRITE_MAX: Final = 1_000
"""Kafka's, too."""

AGAIN_MS: Final = 10
"""Until a chore that could not do all in one go goes on, as in Kafka: what others ask for comes in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chore:
    """One thing to be done over and over while active. `command` answers how many records it wrote, `bite` at most.

    `interval_ms` is Kafka's default of `setting`; 0 turns the chore off. `is_due` is cheap and asked first.
    """

    name: str
    setting: str
    interval_ms: int
    is_due: Callable[[ClusterState], bool]
    command: Callable[[Settings], Command[int]]
    bite: int | None = None
    """Records in one go; None if the chore is done with the one that it writes."""

    def pause_ms(self, *, interval_ms: int, written: int) -> int:
        """How long until it is looked after again: after a whole bite there may be more to do."""
        assert self.bite is None or 0 <= written <= self.bite, (self.name, written, self.bite)
        return AGAIN_MS if written == self.bite else interval_ms


def _write_no_op(_: Settings) -> Command[int]:
    """A sign of life: so the high watermark moves, and who is behind can tell. KIP-835."""
    return lambda _state, _moment: Decision(1, (NoOpRecord(),))


def _elect_uncleanly(settings: Settings) -> Command[int]:
    """Elect leaders for partitions without one, where the topic allows one that lacks records."""
    return _elections(
        settings,
        lambda state: (
            found
            for found in state.topics.imbalanced()
            if found.partition.leader == NO_LEADER and settings.elects_uncleanly(state, found.topic.name)
        ),
        Election.UNCLEAN,
    )


def _elect_preferred(settings: Settings) -> Command[int]:
    """Give partitions back to their preferred leader, so that no broker has more than its share."""
    return _elections(
        settings,
        lambda state: (found for found in state.topics.imbalanced() if _may_be_mended(state, found.partition)),
        Election.PREFERRED,
    )


def _may_be_mended(state: ClusterState, partition: Partition) -> bool:
    """Of a broker that is away nothing can be led. That is asked first: it may be away from very many partitions."""
    return partition.leader == NO_LEADER or state.brokers.is_active(partition.preferred_leader)


def _elections(
    settings: Settings, among: Callable[[ClusterState], Iterable[Found]], election: Election
) -> Command[int]:
    def changes(state: ClusterState) -> Iterator[PartitionChangeRecord]:
        for topic, partition_id, partition in among(state):
            rules = rules_for(state, topic.name, partition, settings)
            change = partition_change(partition, topic.id, partition_id, Wish(election=election), rules)
            if change is not None:
                yield change

    def command(state: ClusterState, _: Moment) -> Decision[int]:
        records = tuple(islice(changes(state), ELECTIONS_PER_WRITE_MAX))
        return Decision(len(records), records)

    return command


def _expire_tokens(_: Settings) -> Command[int]:
    """Strike off delegation tokens that are past their time; that takes no secret key. KIP-48."""

    def command(state: ClusterState, moment: Moment) -> Decision[int]:
        expired = (token for token in state.delegation_tokens if is_expired(token, moment.now_ms))
        records = tuple(
            RemoveDelegationTokenRecord(token.token_id) for token in islice(expired, EXPIRED_TOKENS_PER_WRITE_MAX)
        )
        return Decision(len(records), records)

    return command


CHORES: Final = (
    Chore(
        name="write a no-op",
        setting="metadata.max.idle.interval.ms",
        interval_ms=500,
        is_due=lambda state: True,
        command=_write_no_op,
    ),
    Chore(
        name="elect leaders uncleanly",
        setting="unclean.leader.election.interval.ms",
        interval_ms=300_000,
        is_due=lambda state: state.topics.leader_count(NO_LEADER) > 0,
        command=_elect_uncleanly,
        bite=ELECTIONS_PER_WRITE_MAX,
    ),
    Chore(
        name="elect preferred leaders",
        setting="leader.imbalance.check.interval.seconds",
        interval_ms=300_000,
        is_due=lambda state: state.topics.imbalanced_count > 0,
        command=_elect_preferred,
        bite=ELECTIONS_PER_WRITE_MAX,
    ),
    Chore(
        name="expire tokens",
        setting="delegation.token.expiry.check.interval.ms",
        interval_ms=3_600_000,
        is_due=lambda state: len(state.delegation_tokens) > 0,
        command=_expire_tokens,
        bite=EXPIRED_TOKENS_PER_WRITE_MAX,
    ),
)
