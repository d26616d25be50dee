"""A broker that producers with ids and their coordinators write to, as `services.broker` does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quorate.errors import ApiError, ErrorCode
from quorate.nouns import Offset
from quorate.partition_log import TransactionEnd, Verification
from quorate.replication import (
    ACKS_ALL,
    FetchPosition,
    Isolation,
    ProduceDone,
    ProduceWait,
    admission,
    admit_consumer,
    admit_produce,
)
from tests.sim_replication.broker import PRODUCE_TIMEOUT_MS, Broker
from tests.sim_replication.producer_log import ProducerLog
from tests.sim_replication.sent import Kind, Sent
from tests.sim_replication.stored_producer_log import StoredProducerLog

if TYPE_CHECKING:
    from tests.sim_replication.producer_world import ProducerWorld

Answer = Offset | ErrorCode
"""The first offset of what was appended, or why not."""
Reply = Callable[[Answer], None]


@dataclass
class ProducerBroker(Broker):
    """Its log knows the producers."""

    world: ProducerWorld
    log: ProducerLog | StoredProducerLog

    def opened(self) -> None:
        self.log.commit(self.partition.local.high_watermark)

    def answer(self, answers: list[object]) -> None:
        for done in answers:
            assert isinstance(done, ProduceDone), done
            reply: Callable[[ErrorCode], None] = done.wait.reply_to  # type: ignore[assignment]
            reply(done.outcomes["p"])

    # Produce

    def produce_from(self, sent: Sent, reply: Reply, *, bumps_epochs: bool) -> None:
        """Appends a producer's batch; the first of a transaction once its coordinator has said yes (KIP-890)."""
        if sent.kind is Kind.PLAIN:
            self._append(sent, None, reply)
            return
        try:
            admission.leader_of(self.partition, None)
            verification = self.log.begin_verification(sent, bumps_epochs=bumps_epochs)
        except ApiError as refused:
            reply(refused.code)
            return
        if verification is None:
            self._append(sent, None, reply)
            return
        begun = verification

        def verified(code: object) -> None:
            if code is ErrorCode.NONE:
                self._append(sent, begun, reply)
                return
            if code is ErrorCode.INVALID_TXN_STATE:
                self.log.drop_verification(sent.producer_id, begun)
            reply(ErrorCode.INVALID_TXN_STATE if code is ErrorCode.INVALID_TXN_STATE else ErrorCode.NOT_ENOUGH_REPLICAS)

        coordinator = self.world.producers[sent.producer_id].coordinator
        self.world.call(self, 0, lambda: coordinator.verify(sent), verified, lost=ErrorCode.REQUEST_TIMED_OUT)

    def _append(self, sent: Sent, verification: Verification | None, reply: Reply) -> None:
        referee = self.world.referee
        try:
            role = admit_produce(self.partition, ACKS_ALL)
            expected = referee.expects(self.log, sent)
        except ApiError as refused:
            reply(refused.code)
            return
        try:
            appended = self.log.produce(sent, epoch=role.leader_epoch, verification=verification)
        except ApiError as refused:
            referee.refused(self, sent, refused.code, expected)
            reply(refused.code)
            return
        referee.appended(self, sent, appended, expected)
        if not appended.was_there:
            self.carry_out(role.advance(self.world.now_ms))
        self._acknowledge(appended.base_offset, appended.last_offset + 1, reply)

    def end_transaction(self, end: TransactionEnd, reply: Reply) -> None:
        """Appends a coordinator's marker."""
        try:
            role = admit_produce(self.partition, ACKS_ALL)
            leo = self.log.append_marker(end, epoch=role.leader_epoch)
        except ApiError as refused:
            reply(refused.code)
            return
        self.carry_out(role.advance(self.world.now_ms))
        self._acknowledge(leo - 1, leo, reply)

    def _acknowledge(self, base: Offset, end: Offset, reply: Reply) -> None:
        wait: ProduceWait[str] = ProduceWait(
            required={"p": end},
            deadline_ms=self.world.now_ms + PRODUCE_TIMEOUT_MS,
            reply_to=lambda code: reply(base if code is ErrorCode.NONE else code),
        )
        done = self.waits.hold(wait, now_ms=self.world.now_ms)
        if done is not None:
            self.answer([done])

    # Fetch

    def read_committed(self, offset: Offset) -> None:
        """A consumer with isolation.level read_committed: it leaves out what the answer names as aborted."""
        try:
            grant = admit_consumer(self.partition, FetchPosition(offset=offset, isolation=Isolation.READ_COMMITTED))
        except ApiError:
            return
        aborted = sorted(self.log.aborted(offset, grant.end), key=lambda each: each.first_offset)
        ending: set[int] = set()
        for batch in self.log.read(offset, grant.end):
            while aborted and aborted[0].first_offset < batch.end_offset:
                ending.add(aborted.pop(0).producer_id)
            sent = batch.data
            assert isinstance(sent, Sent), batch
            if sent.kind is Kind.ABORT:
                ending.discard(sent.producer_id)
            elif not sent.kind.is_marker:
                is_skipped = sent.kind is Kind.TRANSACTIONAL and sent.producer_id in ending
                self.world.referee.read(self, batch.base_offset, sent, is_skipped=is_skipped)
