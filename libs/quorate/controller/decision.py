"""What a command answers: records to be written, and the response once they are committed."""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from kraft import Message
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset

T = TypeVar("T")

RECORDS_PER_WRITE_MAX = 10_000
"""In one batch, which is all or nothing; Kafka's controller refuses a request that takes more."""


class Moment(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a command may know beside the state: where its first record will lie, and what time it is.

    A broker's epoch is the offset of its registration, so offsets matter to decisions (KIP-631).
    """

    next_offset: Offset
    now_ms: int


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """The records that a command wants written, in order, and its response.

    A decision without records is a read, or a refusal item by item. An atomic one is a single batch, all or
    nothing. One that is not may take several: each prefix of them leaves the state sound, and deciding again does
    the rest, as with all the partitions of a broker that is fenced.
    """

    response: T
    records: tuple[Message, ...] = ()
    atomic: bool = True


def check_size(decision: Decision[Any]) -> None:
    """Raises ApiError(POLICY_VIOLATION), as Kafka does, for more than one batch holds of what must be one."""
    if decision.atomic and len(decision.records) > RECORDS_PER_WRITE_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"the request takes {len(decision.records)} records; one write has at most {RECORDS_PER_WRITE_MAX}",
        )


def check_room(records: Sized) -> None:
    """The same for a command that goes on for long, as soon as it is certain: what it wants decided keeps others."""
    if len(records) > RECORDS_PER_WRITE_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"the request takes more than {RECORDS_PER_WRITE_MAX} records, which is the most that one write has",
        )


def dry(decision: Decision[T]) -> Decision[T]:
    """The same answer with nothing written, or the refusal that writing it would meet: for Kafka's validate_only."""
    check_size(decision)
    return Decision(decision.response)


Command = Callable[[ClusterState, Moment], Decision[T]]
"""Reads the state and decides. It changes nothing, and may run twice. Raises ApiError to refuse as a whole."""


@dataclass(frozen=True, slots=True)
class Proposal(Generic[T]):
    """What a command would answer and write if it were meant."""

    response: T
    records: tuple[Message, ...]


def propose(command: Command[T]) -> Command[Proposal[T]]:
    """The command that decides as `command` does, and writes nothing."""

    def proposal(state: ClusterState, moment: Moment) -> Decision[Proposal[T]]:
        decision = command(state, moment)
        check_size(decision)
        return Decision(Proposal(decision.response, decision.records))

    return proposal
