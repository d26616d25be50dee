"""AllocateProducerIds (67)."""

from __future__ import annotations

from typing import Any, Final

from kraft.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kraft.api.unregister_broker import UnregisterBrokerRequest
from quorate.controller.commands.allocate_producer_ids import allocate_producer_ids
from quorate.controller.commands.unregister_broker import unregister_broker
from quorate.controller.engine.decision import Command
from quorate.errors import ErrorCode
from quorate.liveness import ControlState
from quorate.records import ProducerIdsRecord
from tests.controller.clusters import Cluster
from tests.controller.tables.table import Row, Table

LONG_MAX: Final = 2**63 - 1
FIRST, SECOND = 1, 3
"""The broker epochs of 1 and 2."""


def two_brokers() -> Cluster:
    """Brokers 1 (epoch 1) and 2 (epoch 3); nobody has any ids yet."""
    return Cluster(25).brokers(1, 2)


def first_fenced() -> Cluster:
    """The same, broker 1 is fenced."""
    cluster = two_brokers()
    cluster.change(1, ControlState.FENCED)
    return cluster


def first_anew() -> Cluster:
    """The same, another process has registered as broker 1 since, in epoch 5."""
    cluster = two_brokers()
    cluster.register(1, incarnation=1)
    return cluster


def first_gone() -> Cluster:
    """The same, broker 1 is unregistered."""
    cluster = two_brokers()
    cluster.write(unregister_broker(UnregisterBrokerRequest(1), settings=cluster.settings))
    return cluster


def one_block() -> Cluster:
    """The same, broker 1 has the ids up to 999."""
    cluster = two_brokers()
    cluster.write(allocate_producer_ids(asked(1, FIRST)))
    return cluster


def almost_all() -> Cluster:
    """The same, as many ids are left as the last block has."""
    cluster = two_brokers()
    cluster.apply([ProducerIdsRecord(1, FIRST, LONG_MAX - 1_000)])
    return cluster


def too_few() -> Cluster:
    """The same, one less is left."""
    cluster = two_brokers()
    cluster.apply([ProducerIdsRecord(1, FIRST, LONG_MAX - 999)])
    return cluster


def asked(broker_id: int, broker_epoch: int) -> AllocateProducerIdsRequest:
    return AllocateProducerIdsRequest(broker_id, broker_epoch)


def block(first: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=1_000)


def command(_: Cluster, request: AllocateProducerIdsRequest) -> Command[Any]:
    return allocate_producer_ids(request)


STALE = ErrorCode.STALE_BROKER_EPOCH
NEXT = "ProducerIdControlManager.generateNextProducerId"
EPOCH = "ClusterControlManager.checkBrokerEpoch"

TABLE = Table(
    api="AllocateProducerIds",
    kafka="ProducerIdControlManager.generateNextProducerId (KIP-730)",
    command=command,
    given=two_brokers,
    rows=(
        Row(
            case="the first block",
            rule=f"{NEXT}: a thousand from 0 on; the record has the id after them, who has them, and in which epoch.",
            request=asked(1, FIRST),
            records=(ProducerIdsRecord(1, FIRST, 1_000),),
            answer=block(0),
        ),
        Row(
            case="the next block, the same broker",
            rule=f"{NEXT}: asked again it gets others; what was lost on the way is lost.",
            given=one_block,
            request=asked(1, FIRST),
            records=(ProducerIdsRecord(1, FIRST, 2_000),),
            answer=block(1_000),
        ),
        Row(
            case="the next block, another broker",
            rule=f"{NEXT}: begins where the last one ends.",
            given=one_block,
            request=asked(2, SECOND),
            records=(ProducerIdsRecord(2, SECOND, 2_000),),
            answer=block(1_000),
        ),
        Row(
            case="a broker that is fenced",
            rule=f"{EPOCH}: it has to be registered, not more.",
            given=first_fenced,
            request=asked(1, FIRST),
            records=(ProducerIdsRecord(1, FIRST, 1_000),),
            answer=block(0),
        ),
        Row(
            case="the last block",
            rule=f"{NEXT}: as long as the id after it is a long.",
            given=almost_all,
            request=asked(1, FIRST),
            records=(ProducerIdsRecord(1, FIRST, LONG_MAX),),
            answer=block(LONG_MAX - 1_000),
        ),
        Row(
            case="no block is left",
            rule=f"{NEXT}: UnknownServerException.",
            given=too_few,
            request=asked(1, FIRST),
            answer=ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
        Row(
            case="no block is left, for a broker of another epoch",
            rule=f"{NEXT}: the broker is looked at first.",
            given=too_few,
            request=asked(1, SECOND),
            answer=STALE,
        ),
        Row(case="a broker of an earlier epoch", rule=EPOCH, given=first_anew, request=asked(1, FIRST), answer=STALE),
        Row(case="a broker of an epoch to come", rule=EPOCH, request=asked(1, 999), answer=STALE),
        Row(case="a broker that says no epoch", rule=EPOCH, request=asked(1, -1), answer=STALE),
        Row(case="a broker that never was", rule=EPOCH, request=asked(9, FIRST), answer=STALE),
        Row(case="a broker that is struck off", rule=EPOCH, given=first_gone, request=asked(1, FIRST), answer=STALE),
    ),
)
