"""Commands and decisions: a command reads the state and decides which records to write and what to answer."""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from kraft import Message
from quorate.controller.engine.steps import Steps, finished, over
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.state import ClusterState
from quorate.nouns import Offset

T = TypeVar("T")

RECORDS_PER_WRITE_MAX = 10_000
"""The most records in one batch, which is written atomically; Kafka's controller refuses a larger request."""


class Moment(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A command's input beside the state: the offset of its first record, and the time in ms since 1970.

    Decisions depend on offsets because a broker epoch is the offset of the broker's registration record (KIP-631).
    """

    next_offset: Offset
    now_ms: int


class Decision(msgspec.Struct, Generic[T], frozen=True):
    """The result of a command: the records to write, in order, and the response once they are committed.

    A decision without records is a read, or refuses each item. An atomic decision is one batch: all or nothing. A
    non-atomic one may take several batches, as when a broker with very many partitions is fenced: the state is valid
    after each batch, and the same command run again does the rest.
    """

    response: T
    records: tuple[Message, ...] = ()
    atomic: bool = True


def check_size(decision: Decision[Any]) -> None:
    """Checks an atomic decision's size. Raises ApiError(POLICY_VIOLATION), as Kafka does, if it exceeds one batch."""
    if decision.atomic and len(decision.records) > RECORDS_PER_WRITE_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"the request takes {len(decision.records)} records; one write has at most {RECORDS_PER_WRITE_MAX}",
        )


def check_room(records: Sized) -> None:
    """Checks the size while a long command still runs. Raises ApiError(POLICY_VIOLATION) if it exceeds one batch.

    The early check keeps a request that will be refused anyway from blocking others.
    """
    if len(records) > RECORDS_PER_WRITE_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"the request takes more than {RECORDS_PER_WRITE_MAX} records, which is the most that one write has",
        )


def dry(decision: Decision[T]) -> Decision[T]:
    """Returns the decision without its records, for validate_only. Raises ApiError as `check_size` does."""
    check_size(decision)
    return Decision(decision.response)


Command = Callable[[ClusterState, Moment], Decision[T]]
"""A function that reads the state and decides. It changes nothing, may run twice, and raises ApiError to refuse."""


class CommandInSteps(Generic[T]):
    """A command that decides on very many items in steps; a decorator of the generator that returns the Decision.

    Between two steps other commands may read the state, but none may write. If the state changes all the same, because
    it is reverted, the engine drops the steps and begins the decision anew. Called, the command decides at once.
    """

    def __init__(self, steps: Callable[[ClusterState, Moment], Steps[Decision[T]]]) -> None:
        self.steps = steps

    def __call__(self, state: ClusterState, moment: Moment) -> Decision[T]:
        """Runs all steps at once and returns the decision."""
        return finished(self.steps(state, moment))


def steps_of(command: Command[T], state: ClusterState, moment: Moment) -> Steps[Decision[T]]:
    """Returns the steps of a command. One that is no CommandInSteps is run in this call, and has no step left."""
    return command.steps(state, moment) if isinstance(command, CommandInSteps) else over(command(state, moment))


def finishing(command: Command[T], finish: Callable[[T], T]) -> Command[T]:
    """Wraps a command: its response is passed through `finish`, before it is stored for retries."""

    @CommandInSteps
    def decide(state: ClusterState, moment: Moment) -> Steps[Decision[T]]:
        decision = yield from steps_of(command, state, moment)
        return Decision(finish(decision.response), decision.records, atomic=decision.atomic)

    return decide


@dataclass(frozen=True, slots=True)
class Proposal(Generic[T]):
    """The response and the records of a command that is run as a trial and not written."""

    response: T
    records: tuple[Message, ...]


def propose(command: Command[T]) -> Command[Proposal[T]]:
    """Wraps a command so that its decision is returned as a Proposal and nothing is written.

    It raises the ApiError of the command, and POLICY_VIOLATION if the records exceed one write.
    """

    @CommandInSteps
    def proposal(state: ClusterState, moment: Moment) -> Steps[Decision[Proposal[T]]]:
        decision = yield from steps_of(command, state, moment)
        check_size(decision)
        return Decision(Proposal(decision.response, decision.records))

    return proposal
