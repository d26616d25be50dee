"""Planted bugs: each breaks one rule in the core, and the oracle has to see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from quorate.controller.commands import alter_partition, alter_partition_reassignments, register_broker
from quorate.controller.configs.settings import ControllerSettings
from quorate.controller.partitions import elections, partition_change
from quorate.errors import ErrorCode
from quorate.metadata.partitions import NO_LEADER, RECOVERED, RECOVERING
from quorate.partition_log import Marker, TransactionEnd
from quorate.partition_log.producer_files import ProducerFiles
from quorate.partition_log.producers import Producers
from quorate.partition_log.verifications import Verifications
from quorate.replication import Committed, Isolation, Leading, Truncate, admission, leading
from quorate.replication import following as follower
from quorate.replication import high_watermark as marks
from quorate.replication import partition as roles
from quorate.replication.following import Following
from quorate.replication.isr_state import committed_of, proposed_isr
from quorate.replication.local_replica import LocalReplica
from quorate.replication.log import read_bound
from quorate.replication.partition import Partition
from quorate.replication.registration import is_eligible
from quorate.replication.waits import ProduceWait
from tests.seeds.planting import Killed, Mutant, Patch
from tests.seeds.planting import kill as kill_by
from tests.sim_replication.runner import ENGINE, FILES, PRODUCERS, REASSIGNED, UNCLEAN, run

Plant = Callable[[Patch], None]
BUGS: list[tuple[str, str, Plant]] = []


def bug(rule: str, what: str) -> Callable[[Plant], Plant]:
    """Registers a planted bug."""

    def register(plant: Plant) -> Plant:
        BUGS.append((rule, what, plant))
        return plant

    return register


def _nobody_is_about_to_join(patch: Patch) -> None:
    """Takes R22 away, which hides what R34 is for: most that join are waited for anyway."""
    patch.setattr(Leading, "_is_about_to_join", lambda self, replica, progress, now_ms: False)


@bug("R34", "a joining replica counts once the controller has confirmed (without R22)")
def _(patch: Patch) -> None:
    _nobody_is_about_to_join(patch)
    patch.setattr(leading, "maximal_isr", lambda state: committed_of(state).isr)


@bug("R34", "a leaving replica does not count from the proposal on")
def _(patch: Patch) -> None:
    def minimal(state: Any) -> frozenset[int]:
        return state.isr if isinstance(state, Committed) else proposed_isr(state)

    patch.setattr(leading, "maximal_isr", minimal)


@bug("R27", "a replica below the start of the epoch is proposed")
def _(patch: Patch) -> None:
    _expand_from(patch, lambda role: role.local.high_watermark)


@bug("R27", "a replica is proposed at whatever offset")
def _(patch: Patch) -> None:
    _expand_from(patch, lambda role: 0)


def _expand_from(patch: Patch, least: Callable[[Leading], int]) -> None:
    def may_expand(self: Leading, replica: int) -> bool:
        progress, state = self.replicas[replica], self.state
        if not isinstance(state, Committed) or replica in state.isr or progress.leo is None:
            return False
        return progress.leo >= least(self) and is_eligible(self.brokers, replica, progress)

    patch.setattr(Leading, "may_expand", may_expand)


@bug("R54", "a follower truncates to its high watermark before it fetches (before KIP-101)")
def _(patch: Patch) -> None:
    right = Partition._become_follower

    def become(self: Partition, leader: int | None) -> list[Any]:
        effects = right(self, leader)
        return [*effects, Truncate(self.local.high_watermark)]

    patch.setattr(Partition, "_become_follower", become)


@bug("R54", "a follower truncates to the leader's end of the epoch alone (before KIP-279)")
def _(patch: Patch) -> None:
    patch.setattr(follower, "truncation_for", lambda log, diverging: min(log.leo, diverging.offset))


@bug("R53", "the leader does not look for divergence")
def _(patch: Patch) -> None:
    patch.setattr(admission, "divergence", lambda log, **fetch: None)


@bug("R53", "a fetch that diverges is recorded")
def _(patch: Patch) -> None:
    right = admission._place

    def place(role: Leading, position: Any) -> Any:
        found = right(role, position)
        if found is not None and position.isolation is Isolation.LOG_END:
            for progress in role.replicas.values():
                progress.leo = min(position.offset, role.local.log.leo)
        return found

    patch.setattr(admission, "_place", place)


@bug("R21", "the high watermark rises below min ISR")
def _(patch: Patch) -> None:
    patch.setattr(Leading, "advance", _advance_anyway)


def _advance_anyway(self: Leading, now_ms: int) -> list[Any]:
    end = marks.committed_end(self.local.log.leo, self._awaited(now_ms))
    if end is not None and self.local.raise_to(end, leo=self.local.log.leo):
        return [leading.HighWatermarkRaised(self.local.high_watermark)]
    return []


@bug("R21", "a member that has not fetched in this epoch does not count")
def _(patch: Patch) -> None:
    right = leading.committed_end
    patch.setattr(leading, "committed_end", lambda leo, ends: right(leo, [end for end in ends if end is not None]))


@bug("R45", "acks=all is answered before the high watermark is there")
def _(patch: Patch) -> None:
    _answer_acks_by(patch, lambda partition, required: ErrorCode.NONE)


def _answer_acks_by(patch: Patch, outcome_of: Callable[[Partition, int], ErrorCode | None]) -> None:
    patch.setitem(ProduceWait.__init__.__kwdefaults__, "outcome_of", outcome_of)


@bug("R49", "a consumer reads to the log's end")
def _(patch: Patch) -> None:
    def bound(self: LocalReplica, isolation: Isolation) -> int:
        return read_bound(self.log, self.high_watermark, Isolation.LOG_END)

    patch.setattr(LocalReplica, "bound", bound)


@bug("R16", "a leader that follows keeps its held requests, and answers them when it leads again")
def _(patch: Patch) -> None:
    right = Partition._leave_role
    patch.setattr(
        Partition, "_leave_role", lambda self: [each for each in right(self) if not isinstance(each, roles.EndWaits)]
    )
    outcome = admission.acks_outcome
    _answer_acks_by(
        patch, lambda partition, required: outcome(partition, required) if isinstance(partition.role, Leading) else None
    )


@bug("R54", "an epoch without records stays in the follower's cache")
def _(patch: Patch) -> None:
    right = Following._cut
    patch.setattr(Following, "_cut", lambda self, to: [] if to == self.local.log.leo else right(self, to))


@bug("R60", "a follower below the leader's log start truncates nothing, and fetches on at its own end")
def _(patch: Patch) -> None:
    def take(self: Following, answer: Any, now_ms: int) -> list[Any]:
        self.phase = follower.Phase.FETCHING
        return []

    patch.setattr(Following, "_take_range", take)


OF_BROKERS: Final = len(BUGS)
"""Those before are of brokers, those that follow of the controller."""


@bug("R67", "a broker that stopped uncleanly stays in the ISR and in the ELR (before KIP-966)")
def _(patch: Patch) -> None:
    patch.setattr(register_broker, "_was_clean", lambda request, existing: True)


@bug("R64", "any replica that is alive may be elected")
def _(patch: Patch) -> None:
    patch.setattr(elections.Candidates, "may_lead", lambda self, replica: self.is_acceptable(replica))


@bug("R39", "the controller takes an ISR of an earlier partition epoch")
def _(patch: Patch) -> None:
    right = alter_partition._check_epochs

    def check(partition: Any, leader: int, asked: Any) -> None:
        right(partition, leader, replace(asked, partition_epoch=partition.partition_epoch))

    patch.setattr(alter_partition, "_check_epochs", check)


@bug("R38", "the controller takes an ISR of an earlier leader epoch, from the leader of that time")
def _(patch: Patch) -> None:
    patch.setattr(alter_partition, "_check_epochs", lambda partition, leader, asked: None)


OF_CONTROLLERS: Final = len(BUGS)


@bug("KIP-98", "of a producer only the last batch is known")
def _(patch: Patch) -> None:
    right = Producers.note

    def note(self: Producers, header: Any) -> None:
        right(self, header)
        for _, known in self:
            while len(known.batches) > 1:
                known.batches.popleft()

    patch.setattr(Producers, "note", note)


@bug("KIP-98", "a leader does not look whether a sequence follows")
def _(patch: Patch) -> None:
    patch.setattr(Producers, "check", Producers.check_epoch)


@bug("KIP-98", "a coordinator that another one has replaced ends transactions")
def _(patch: Patch) -> None:
    right = Producers.check_end

    def check(self: Producers, end: TransactionEnd) -> None:
        latest = Marker(end.marker.aborts, 1 << 30)
        right(self, end._replace(marker=latest))

    patch.setattr(Producers, "check_end", check)


@bug("KIP-890", "a marker that comes late ends the transaction after its own")
def _(patch: Patch) -> None:
    right = Producers.check_end
    patch.setattr(Producers, "check_end", lambda self, end: right(self, end._replace(transaction_version=1)))


@bug("KIP-890", "a batch that comes late opens a transaction that nobody ends")
def _(patch: Patch) -> None:
    patch.setattr(Verifications, "check", lambda self, producers, header, verification: None)


OF_PRODUCERS: Final = len(BUGS)
"""Those that follow are in the files of their logs."""


@bug("R54", "a truncation keeps what producers have sent")
def _(patch: Patch) -> None:
    def load(self: ProducerFiles, segments: Any, **until: int) -> None:
        if not len(self.state):
            right(self, segments, **until)

    right = ProducerFiles.load
    patch.setattr(ProducerFiles, "load", load)


OF_FILES: Final = len(BUGS)


@bug("R55", "a follower never truncates below its high watermark")
def _(patch: Patch) -> None:
    right = Following._cut
    patch.setattr(Following, "_cut", lambda self, to: right(self, max(to, self.local.high_watermark)))


@bug("R65", "an uncleanly elected leader keeps the others in the ISR")
def _(patch: Patch) -> None:
    right = partition_change._choose_leader

    def choose(partition: Any, coming: Any, wish: Any, rules: Any) -> None:
        members = coming.isr or partition.isr
        right(partition, coming, wish, rules)
        if coming.leader != NO_LEADER and coming.recovery_state == RECOVERING:
            coming.isr = tuple(sorted({*members, coming.leader}))
            coming.recovery_state = RECOVERED

    patch.setattr(partition_change, "_choose_leader", choose)


@bug("R65", "any replica is elected though the topic does not allow it")
def _(patch: Patch) -> None:
    patch.setattr(ControllerSettings, "elects_uncleanly", lambda self, state, topic_name: True)


OF_ELECTIONS: Final = len(BUGS)


@bug("KIP-455", "a reassignment ends with fewer copies than min ISR, and than before, as in Kafka 4.3")
def _(patch: Patch) -> None:
    patch.setattr(partition_change, "keeps_copies", lambda partition, wish, rules, *, joining: True)


@bug("KIP-455", "a reassignment is cancelled with fewer copies than min ISR, and than before, as in Kafka")
def _(patch: Patch) -> None:
    patch.setattr(alter_partition_reassignments, "keeps_copies", lambda partition, wish, rules: True)


@bug("KIP-455", "a reassignment ends before those that come are in the ISR")
def _(patch: Patch) -> None:
    right = partition_change._complete_reassignment

    def complete(partition: Any, coming: Any, wish: Any, rules: Any) -> None:
        adding, coming.adding = coming.adding, ()
        removing = coming.removing
        coming.removing = removing if any(each not in removing for each in coming.isr) else ()
        if coming.removing:
            stays = tuple(each for each in coming.replicas if each not in removing)
            coming.replicas, coming.isr = stays, tuple(each for each in coming.isr if each in stays)
            coming.removing = ()
        elif removing:
            coming.adding, coming.removing = adding, removing
            right(partition, coming, wish, rules)

    patch.setattr(partition_change, "_complete_reassignment", complete)


@bug("KIP-455", "a reassignment ends with as many copies as before, though another has come")
def _(patch: Patch) -> None:
    right = partition_change.keeps_copies

    def keeps(partition: Any, wish: Any, rules: Any, *, joining: object) -> bool:
        return right(partition, wish, rules)

    patch.setattr(partition_change, "keeps_copies", keeps)


SOONER_FROM: Final = {
    1: 100_000,
    3: 100_000,
    5: 100_000,
    13: 100_000,
    16: 200_000,
    22: 200_000,
    23: 100_000,
    32: 400_000,
}
"""The base from which a bug is found much sooner than from 0 (README.md)."""


def _profile_of(number: int) -> str | None:
    if number <= OF_BROKERS:
        return None
    if number <= OF_CONTROLLERS:
        return ENGINE
    if number <= OF_PRODUCERS:
        return PRODUCERS
    if number <= OF_FILES:
        return FILES
    return UNCLEAN if number <= OF_ELECTIONS else REASSIGNED


MUTANTS: Final = [
    Mutant(
        f"B{number}",
        f"{rule}: {what}",
        plant,
        profile=_profile_of(number),
        base=SOONER_FROM.get(number, 0),
    )
    for number, (rule, what, plant) in enumerate(BUGS, 1)
]


def kill(mutant: Mutant, *, base: int, limit: int) -> Killed | None:
    """How many seeds it takes, from `base` on."""
    return kill_by(run, mutant, base=base, limit=limit)
