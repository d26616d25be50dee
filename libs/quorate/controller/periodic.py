"""Periodic tasks of the active controller, as a table.

No-op records, leader elections, the ends of reassignments that have waited, token expiry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from quorate.controller.access.delegation_tokens import is_expired
from quorate.controller.configs.broker import default_of
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.engine.decision import (
    RECORDS_PER_WRITE_MAX,
    Command,
    CommandInSteps,
    Decision,
    Moment,
    steps_of,
)
from quorate.controller.engine.failures import PeriodicTaskFailed
from quorate.controller.engine.steps import Steps
from quorate.controller.partitions.broker_changes import Rulebook
from quorate.controller.partitions.elections import Election
from quorate.controller.partitions.partition_change import PartitionTarget, changed_fields
from quorate.errors import ApiError
from quorate.metadata.partitions import NO_LEADER
from quorate.metadata.state import ClusterState
from quorate.metadata.topics import TopicPartition
from quorate.records import NoOpRecord, PartitionChangeRecord, RemoveDelegationTokenRecord

__all__ = ["AGAIN_MS", "CHORES", "ELECTIONS_PER_WRITE_MAX", "LOOKED_AT_PER_STEP", "PeriodicTask"]

ELECTIONS_PER_WRITE_MAX: Final = 1_000
"""The most elections, or ends of reassignments, in one write, as in Kafka, so that other requests do not wait long."""

LOOKED_AT_PER_STEP: Final = 4_000
"""The partitions that are looked at in one step: some 8 ms of CPU."""
LOOKED_AT_PER_CHANGE: Final = 5
"""The cost of a partition that is also changed, beside one that is only looked at."""

EXPIRED_TOKENS_PER_WRITE_MAX: Final = 1_000
"""The most expired delegation tokens that one write removes, as in Kafka."""

AGAIN_MS: Final = 10
"""The pause before a task continues that has written its maximum, as in Kafka: other requests run in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicTask:
    """A periodic task. `command` makes its command, which returns the number of records written: up to `written_max`.

    `interval_ms` is the default of Kafka's config `setting`; a config of 0 turns the task off. If `is_due`, a cheap
    look at the state, is false, this run is left out. A task that Kafka does not have has no setting.
    """

    name: str
    setting: str | None
    interval_ms: int
    is_due: Callable[[ClusterState], bool]
    command: Callable[[ControllerSettings], Command[int]]
    written_max: int | None = None
    """The most records of one run; None if the task never continues at once after a run."""

    def __post_init__(self) -> None:
        assert self.interval_ms > AGAIN_MS, self
        assert self.written_max is None or 1 <= self.written_max <= RECORDS_PER_WRITE_MAX, f"a run is one write: {self}"

    def decide(self, settings: ControllerSettings) -> Command[int]:
        """Returns the task's command: it returns the number of records written.

        An exception in it other than ApiError becomes PeriodicTaskFailed, which does not end the leadership.
        """
        command = self.command(settings)

        @CommandInSteps
        def decide(state: ClusterState, moment: Moment) -> Steps[Decision[int]]:
            try:
                return (yield from steps_of(command, state, moment))
            except ApiError:
                raise
            except Exception as cause:  # as in the engine
                raise PeriodicTaskFailed(f"{self.name}: {type(cause).__name__}: {cause}") from cause

        return decide

    def pause_ms(self, *, interval_ms: int, written: int) -> int:
        """Returns the pause before the next run, in ms: `interval_ms`, or `AGAIN_MS` if `written` is `written_max`."""
        assert self.written_max is None or 0 <= written <= self.written_max, (self.name, written, self.written_max)
        return AGAIN_MS if written == self.written_max else interval_ms


def _write_no_op(_: ControllerSettings) -> Command[int]:
    """Writes a NoOpRecord, so that the high watermark advances and replicas can measure their lag. KIP-835.

    It is written even if there were other records, as in Kafka's QuorumController.registerWriteNoOpRecord, although
    the name of the setting speaks of idleness.
    """
    return lambda _state, _moment: Decision(1, (NoOpRecord(),))


MayHelp: TypeAlias = Callable[[ClusterState, Rulebook, TopicPartition], bool]
"""A cheap look at a partition: whether a task may have to change it."""


def _elect_uncleanly(settings: ControllerSettings) -> Command[int]:
    """Elects leaders for partitions without one, if the topic allows unclean election."""

    def may_help(_: ClusterState, book: Rulebook, found: TopicPartition) -> bool:
        return found.partition.leader == NO_LEADER and book.election(found.topic.name) is Election.UNCLEAN

    return _elections(settings, may_help, Election.UNCLEAN)


def _elect_preferred(settings: ControllerSettings) -> Command[int]:
    """Gives partitions back to their preferred leaders, so that leadership is balanced over the brokers."""

    def may_help(state: ClusterState, _: Rulebook, found: TopicPartition) -> bool:
        leader, preferred = found.partition.leader, found.partition.preferred_leader
        return leader == NO_LEADER or state.brokers.is_active(preferred)

    return _elections(settings, may_help, Election.PREFERRED)


def _elections(settings: ControllerSettings, may_help: MayHelp, election: Election) -> Command[int]:
    """Returns the command that runs an election in each imbalanced partition where it may help.

    While a broker is away, very many are imbalanced, and none can be helped.
    """
    return _changes(settings, lambda state: state.topics.imbalanced(), may_help, lambda _book, _name: election)


def _complete_reassignments(settings: ControllerSettings) -> Command[int]:
    """Completes reassignments that waited for more copies, once fewer are enough.

    A reassignment ends with the change of its partition that makes it complete (KIP-455). Ours also waits until enough
    replicas have all committed records (`keeps_copies`), and what is enough falls without a change of the partition: a
    lower min.insync.replicas, a cleared ELR, a lower eligible.leader.replicas.version.
    """

    def may_help(_: ClusterState, __: Rulebook, found: TopicPartition) -> bool:
        return set(found.partition.adding_replicas) <= set(found.partition.isr)

    return _changes(settings, lambda state: state.topics.reassigning(), may_help, Rulebook.election)


def _changes(
    settings: ControllerSettings,
    among: Callable[[ClusterState], Iterable[TopicPartition]],
    may_help: MayHelp,
    election_of: Callable[[Rulebook, str], Election],
) -> Command[int]:
    """Returns the command that changes those partitions to what they should be now. It looks at all of them in steps.

    `election_of` has the election by the topic's name.
    """

    @CommandInSteps
    def command(state: ClusterState, _: Moment) -> Steps[Decision[int]]:
        book = Rulebook(state, settings)
        known: dict[object, Mapping[str, Any]] = {}
        records: list[PartitionChangeRecord] = []
        since_step = 0
        for found in among(state):
            since_step += 1
            if since_step >= LOOKED_AT_PER_STEP:
                since_step = 0
                yield
            if not may_help(state, book, found):
                continue
            since_step += LOOKED_AT_PER_CHANGE
            topic, partition_id, partition = found
            election = election_of(book, topic.name)
            kind = partition.shape, book.min_isr(topic.name), election
            if kind not in known:
                rules = book.rules(topic.name, partition)
                known[kind] = changed_fields(partition, PartitionTarget(election=election), rules)
            if known[kind]:
                records.append(PartitionChangeRecord(partition_id, topic.id, **known[kind]))
            if len(records) == ELECTIONS_PER_WRITE_MAX:
                break
        changed = {(record.topic_id, record.partition_id) for record in records}
        assert len(changed) == len(records), f"a partition changes twice: {records}"
        return Decision(len(records), tuple(records))

    return command


def _expire_tokens(_: ControllerSettings) -> Command[int]:
    """Removes expired delegation tokens; this needs no secret key. KIP-48."""

    @CommandInSteps
    def command(state: ClusterState, moment: Moment) -> Steps[Decision[int]]:
        records = []
        for looked_at, token in enumerate(state.delegation_tokens.in_any_order(), start=1):
            if is_expired(token, moment.now_ms):
                records.append(RemoveDelegationTokenRecord(token.token_id))
            if len(records) == EXPIRED_TOKENS_PER_WRITE_MAX:
                break
            if looked_at % LOOKED_AT_PER_STEP == 0:
                yield
        return Decision(len(records), tuple(records))

    return command


CHORES: Final = (
    PeriodicTask(
        name="write a no-op",
        setting="metadata.max.idle.interval.ms",
        interval_ms=500,
        is_due=lambda state: True,
        command=_write_no_op,
    ),
    PeriodicTask(
        name="elect leaders uncleanly",
        setting="unclean.leader.election.interval.ms",
        interval_ms=300_000,
        is_due=lambda state: state.topics.leader_count(NO_LEADER) > 0,
        command=_elect_uncleanly,
        written_max=ELECTIONS_PER_WRITE_MAX,
    ),
    PeriodicTask(
        name="elect preferred leaders",
        setting="leader.imbalance.check.interval.seconds",
        interval_ms=300_000,
        is_due=lambda state: state.topics.imbalanced_count > 0,
        command=_elect_preferred,
        written_max=ELECTIONS_PER_WRITE_MAX,
    ),
    PeriodicTask(
        name="complete reassignments",
        setting=None,
        interval_ms=5_000,
        is_due=lambda state: state.topics.reassigning_count > 0,
        command=_complete_reassignments,
        written_max=ELECTIONS_PER_WRITE_MAX,
    ),
    PeriodicTask(
        name="expire tokens",
        setting="delegation.token.expiry.check.interval.ms",
        interval_ms=3_600_000,
        is_due=lambda state: len(state.delegation_tokens) > 0,
        command=_expire_tokens,
        written_max=EXPIRED_TOKENS_PER_WRITE_MAX,
    ),
)

assert len({chore.name for chore in CHORES}) == len(CHORES), "one row a task"
_settings = [chore.setting for chore in CHORES if chore.setting is not None]
assert len(set(_settings)) == len(_settings), _settings
for _chore in CHORES:
    _unit_ms = 1_000 if (_chore.setting or "").endswith(".seconds") else 1
    _default = str(_chore.interval_ms // _unit_ms)
    assert _chore.setting is None or default_of(_chore.setting) == _default, (_chore, _default)
