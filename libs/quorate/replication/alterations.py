"""The broker's AlterPartition requests: one at a time to the controller, with all partitions that wait (KIP-497)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from quorate.errors import ErrorCode
from quorate.replication.proposals import Altered, Proposal
from quorate.replication.settings import ReplicationSettings

P = TypeVar("P", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterRequest(Generic[P]):
    """One AlterPartition: the sender's broker epoch, and a proposal a partition (R35)."""

    number: int
    broker_epoch: int
    proposals: Mapping[P, Proposal]


@dataclass(frozen=True, slots=True)
class Answered(Generic[P]):
    """The controller's answer to one partition's proposal, for `Leading.take_altered`."""

    partition: P
    proposal: Proposal
    answer: Altered | ErrorCode


class Alterations(Generic[P]):
    """Collects the ISRs that leaders propose, and makes AlterPartition requests of them, one in flight at a time (R36).

    A partition has one proposal that waits. The leader makes no other while that is pending; one of a later
    registration takes the place of one that was not sent yet, and the answer to one that was sent is dropped by the
    leader.
    """

    def __init__(self, settings: ReplicationSettings) -> None:
        self._settings = settings
        self._waiting: dict[P, Proposal] = {}
        self._in_flight: AlterRequest[P] | None = None
        self._last_number = 0
        self._resume_at_ms = 0
        self._refused_epoch: int | None = None
        """The broker epoch that the controller called stale."""

    @property
    def waiting_count(self) -> int:
        """How many proposals wait to be sent."""
        return len(self._waiting)

    def submit(self, partition: P, proposal: Proposal) -> None:
        """Takes a partition's proposal, to go with the next request, in place of an earlier one that was not sent."""
        self._waiting[partition] = proposal

    def withdraw(self, partition: P) -> None:
        """Forgets a proposal that was not sent, of a partition that is not led any more."""
        self._waiting.pop(partition, None)

    def next_request(self, *, broker_epoch: int, now_ms: int) -> AlterRequest[P] | None:
        """Returns a request with all proposals that wait, to be sent; it is in flight until `take_answer`.

        None while another one is in flight, during the pause after a failure, with nothing to ask for, and with a
        broker epoch that the controller has called stale.
        """
        if self._in_flight is not None or not self._waiting or now_ms < self._resume_at_ms:
            return None
        if broker_epoch == self._refused_epoch:  # until the broker has registered again
            return None
        self._last_number += 1
        request = AlterRequest(number=self._last_number, broker_epoch=broker_epoch, proposals=self._waiting)
        self._waiting = {}
        self._in_flight = request
        return request

    def take_answer(
        self, number: int, answers: Mapping[P, Altered | ErrorCode] | ErrorCode, *, now_ms: int
    ) -> list[Answered[P]]:
        """Takes the answer to the request in flight: by partition, or the error of the request as a whole.

        That is NETWORK_EXCEPTION if the answer was lost. Returns the answers with their proposals, for the leaders.
        After an error of the whole all proposals wait again, for a pause; so does a partition that the answer leaves
        out. An answer to another request changes nothing.
        """
        request = self._in_flight
        if request is None or number != request.number:
            return []
        self._in_flight = None
        if isinstance(answers, ErrorCode):
            self._note_failure(request, answers, now_ms)
            answers = {}
        answered = []
        for partition, proposal in request.proposals.items():
            if partition in answers:
                answered.append(Answered(partition, proposal, answers[partition]))
            else:
                self._waiting.setdefault(partition, proposal)
        return answered

    def _note_failure(self, request: AlterRequest[P], error: ErrorCode, now_ms: int) -> None:
        self._resume_at_ms = now_ms + self._settings.alter_partition_backoff_ms
        if error is ErrorCode.STALE_BROKER_EPOCH:
            self._refused_epoch = request.broker_epoch
