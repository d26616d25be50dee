"""What a leader asks a transaction's coordinator: one request at a time, and what comes of an answer that is none."""

from __future__ import annotations

import asyncio

import pytest

from deploy.local.ports import HOST, free_ports
from quorate.errors import ApiError, ErrorCode
from quorate.partition_log.offset_checkpoints import TopicPartition
from services.broker.cluster import Endpoint
from services.broker.peers import Peers
from services.broker.transaction_coordinators import Errors, Transaction, TransactionCoordinators
from tests.services.broker.coordinating import COORDINATOR, Coordinator, coordinating, partitions_of

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def transaction(name: str = "t", *, epoch: int = 0, adds: bool = True) -> Transaction:
    return Transaction(name, 7, epoch, adds)


LATER = 31_999
"""An error code that is not known."""


class Askers:
    """Calls that are under way."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.coordinator = coordinator
        self.coordinators = TransactionCoordinators(coordinator.find, Peers())

    def ask(self, of: Transaction, *partitions: TopicPartition) -> asyncio.Future[Errors]:
        return asyncio.ensure_future(self.coordinators.ask(of, partitions))

    async def held(self) -> asyncio.Future[Errors]:
        """A call whose answer is held back: what comes now waits for its turn."""
        self.coordinator.may_answer.clear()
        call = self.ask(transaction("first"), A)
        await self.coordinator.is_asked.wait()
        return call


async def test_what_comes_while_a_coordinator_is_asked_is_asked_in_one_request() -> None:
    async with coordinating() as coordinator:
        askers = Askers(coordinator)
        first = await askers.held()
        later = [askers.ask(transaction(name), A) for name in ("x", "y")]
        more = askers.ask(transaction("x"), B)
        await asyncio.sleep(0)
        coordinator.may_answer.set()

        assert [{}] * 4 == await asyncio.gather(first, *later, more)
        assert [["first"], ["x", "y"]] == [[each.transactional_id for each in asked] for asked in coordinator.asked]
        assert [[A, B], [A]] == [partitions_of(each) for each in coordinator.asked[1]]
        await askers.coordinators.close()


async def test_each_hears_of_its_own_partitions() -> None:
    async with coordinating() as coordinator:
        askers = Askers(coordinator)
        first = await askers.held()
        coordinator.refusals = {"orders-1": [ErrorCode.INVALID_TXN_STATE]}
        calls = [askers.ask(transaction(), each) for each in (A, B)]
        await asyncio.sleep(0)
        coordinator.may_answer.set()

        assert [{}, {}, {B: ErrorCode.INVALID_TXN_STATE}] == await asyncio.gather(first, *calls)
        await askers.coordinators.close()


@pytest.mark.parametrize(
    ("epochs", "codes"),
    [
        ((1, 2), (ErrorCode.INVALID_PRODUCER_EPOCH, None)),
        ((2, 1), (None, ErrorCode.INVALID_PRODUCER_EPOCH)),
    ],
)
async def test_of_two_epochs_of_a_producer_the_older_one_is_not_asked_about(
    epochs: tuple[int, int], codes: tuple[ErrorCode | None, ErrorCode | None]
) -> None:
    async with coordinating() as coordinator:
        askers = Askers(coordinator)
        first = await askers.held()
        calls = [askers.ask(transaction(epoch=epoch), A) for epoch in epochs]
        await asyncio.sleep(0)
        coordinator.may_answer.set()
        _, *answers = await asyncio.gather(first, *calls)

        assert list(codes) == [answer.get(A) for answer in answers]
        assert [2] == [each.producer_epoch for each in coordinator.asked[1]]
        await askers.coordinators.close()


async def test_nobody_is_asked_for_a_caller_that_is_gone() -> None:
    async with coordinating() as coordinator:
        askers = Askers(coordinator)
        first = await askers.held()
        gone, there = askers.ask(transaction("gone"), A), askers.ask(transaction("there"), A)
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        coordinator.may_answer.set()

        assert [{}, {}] == await asyncio.gather(first, there)
        assert ["there"] == [each.transactional_id for each in coordinator.asked[1]]
        await askers.coordinators.close()


async def test_those_whose_question_was_sent_with_that_of_a_caller_that_is_gone_are_answered() -> None:
    async with coordinating() as coordinator:
        askers = Askers(coordinator)
        first = await askers.held()
        sends, waits = askers.ask(transaction("sends"), A), askers.ask(transaction("waits"), A)
        await asyncio.sleep(0)
        coordinator.is_asked.clear()
        coordinator.may_answer.set()
        await first
        coordinator.may_answer.clear()
        await coordinator.is_asked.wait()
        later = askers.ask(transaction("later"), A)
        sends.cancel()
        await asyncio.wait([sends])
        coordinator.may_answer.set()

        assert [{}, {}] == await asyncio.gather(waits, later)
        await askers.coordinators.close()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (LATER, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_a_producer_that_is_fenced_is_told_so_in_the_words_of_produce(said: int, told: ErrorCode) -> None:
    async with coordinating() as coordinator:
        coordinator.refusals = {"orders-0": [said]}
        askers = Askers(coordinator)

        assert {A: told} == await askers.ask(transaction(), A, B)
        await askers.coordinators.close()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (LATER, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_an_answer_that_refuses_all_is_that_of_each_partition(said: int, told: ErrorCode) -> None:
    async with coordinating() as coordinator:
        coordinator.error = said
        askers = Askers(coordinator)

        assert {A: told, B: told} == await askers.ask(transaction(), A, B)
        await askers.coordinators.close()


async def test_at_the_end_nobody_is_left_without_an_answer() -> None:
    async with coordinating() as coordinator:
        askers = Askers(coordinator)
        first = await askers.held()
        waits = askers.ask(transaction("waits"), A)
        await asyncio.sleep(0)
        await askers.coordinators.close()

        assert [{A: ErrorCode.NETWORK_EXCEPTION}] * 2 == await asyncio.gather(first, waits)
        coordinator.may_answer.set()


async def test_without_a_coordinator_that_answers_it_is_not_known() -> None:
    (port,) = free_ports(1)
    silent = TransactionCoordinators(lambda _: Endpoint(COORDINATOR, HOST, port, None), Peers())

    assert {A: ErrorCode.NETWORK_EXCEPTION} == await silent.ask(transaction(), [A])


async def test_without_a_coordinator_at_all_it_is_said() -> None:
    def nobody(_transactional_id: str) -> Endpoint:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody")

    assert {A: ErrorCode.COORDINATOR_NOT_AVAILABLE} == await TransactionCoordinators(nobody, Peers()).ask(
        transaction(), [A]
    )
