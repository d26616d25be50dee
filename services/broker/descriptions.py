"""DescribeLogDirs (35), DescribeProducers (61), ListTransactions (66): what is on the disks, and who writes to it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from kraft.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kraft.api.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from kraft.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from quorate.controller.engine.steps import Steps, slices
from quorate.errors import ApiError, ErrorCode
from quorate.metadata.acls import AclOperation, ResourceType
from quorate.partition_log.producers import Producer
from quorate.wire.items import Items
from services.broker.callers import Caller
from services.broker.cluster import NO_TOPIC_ID, Cluster
from services.broker.directories import LogDirectory
from services.broker.future_replica import FutureReplica
from services.broker.table import Hosted, Table

__all__ = ["describe_log_dirs", "describe_producers", "list_transactions"]

PER_PARTITION: Final = 10
"""The cost of a partition in items: its right is looked up, and 100 are a step."""

_Directory = DescribeLogDirsResponse.DescribeLogDirsResult
_Replica = _Directory.DescribeLogDirsTopic.DescribeLogDirsPartition
_Writers = DescribeProducersResponse.TopicResponse
_Partition = _Writers.PartitionResponse


def describe_log_dirs(
    request: DescribeLogDirsRequest, directories: Sequence[LogDirectory], table: Table, caller: Caller
) -> Steps[DescribeLogDirsResponse]:
    """Answers DescribeLogDirs, in steps: each log directory, and its replicas that are asked for (KIP-113, KIP-827).

    A replica that moves is in both directories. Sizes are in bytes. Without DESCRIBE on the cluster the answer is
    CLUSTER_AUTHORIZATION_FAILED. Raises OSError.
    """
    if not caller.may_on_cluster(AclOperation.DESCRIBE):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    done = Items()
    asked: set[tuple[str, int]] = set()
    for topic in request.topics or ():
        yield from done.one()
        for index in topic.partitions:
            asked.add((topic.topic, index))
            yield from done.one()
    held: dict[LogDirectory, defaultdict[str, list[_Replica]]] = {each: defaultdict(list) for each in directories}
    for hosted in table:
        is_asked = request.topics is None or (hosted.name.topic, hosted.name.partition) in asked
        if is_asked and table.get(hosted.key) is hosted:  # it may have gone between two steps
            held[hosted.directory][hosted.name.topic].append(_replica(hosted))
            if hosted.future is not None:
                held[hosted.future.directory][hosted.name.topic].append(_future(hosted, hosted.future))
        yield from done.one()
    return DescribeLogDirsResponse(results=tuple(_described(each, replicas) for each, replicas in held.items()))


def describe_producers(
    request: DescribeProducersRequest, cluster: Cluster, caller: Caller
) -> Steps[DescribeProducersResponse]:
    """Answers DescribeProducers for the partitions that this broker leads or follows, each once, in steps (KIP-664).

    A partition that is not here, or that the caller may not READ, has its error. `kafka-transactions find-hanging` asks
    one broker about all its replicas.
    """
    asked: dict[str, dict[int, None]] = {}
    done = Items()
    for topic in request.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
        yield from done.many(1 + len(topic.partition_indexes))
    topics = []
    for name, indexes in asked.items():
        partitions = []
        for index in indexes:
            partitions.append((yield from _writers(cluster, name, index, caller)))
            yield from done.many(PER_PARTITION)
        topics.append(_Writers(name, tuple(partitions)))
    return DescribeProducersResponse(topics=tuple(topics))


def list_transactions(_request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Answers ListTransactions with none: this broker coordinates none. Admin clients ask every broker (KIP-664)."""
    return ListTransactionsResponse()


def _described(directory: LogDirectory, replicas: defaultdict[str, list[_Replica]]) -> _Directory:
    volume = os.statvfs(directory.path)
    return _Directory(
        log_dir=str(directory.path.absolute()),
        topics=tuple(
            _Directory.DescribeLogDirsTopic(name=name, partitions=tuple(found)) for name, found in replicas.items()
        ),
        total_bytes=volume.f_frsize * volume.f_blocks,
        usable_bytes=volume.f_frsize * volume.f_bavail,
    )


def _replica(hosted: Hosted) -> _Replica:
    return _Replica(
        partition_index=hosted.name.partition,
        partition_size=hosted.log.size,
        offset_lag=max(hosted.partition.local.high_watermark - hosted.log.leo, 0),
    )


def _future(hosted: Hosted, future: FutureReplica) -> _Replica:
    return _Replica(
        partition_index=hosted.name.partition,
        partition_size=future.log.size,
        offset_lag=max(hosted.log.leo - future.log.leo, 0),
        is_future_key=True,
    )


def _writers(cluster: Cluster, topic: str, index: int, caller: Caller) -> Steps[_Partition]:
    try:
        caller.check(AclOperation.READ, ResourceType.TOPIC, topic)
        hosted = cluster.hosted(NO_TOPIC_ID, topic, index)
    except ApiError as refusal:
        return _Partition(partition_index=index, error_code=refusal.code, error_message=refusal.message)
    known = list(hosted.log.producers)  # some may come while this one waits for its turn
    writers: list[_Partition.ProducerState] = []
    for some in slices(known):
        writers += [_writer(each, producer) for each, producer in some]
        yield
    return _Partition(partition_index=index, active_producers=tuple(writers))


def _writer(producer_id: int, known: Producer) -> _Partition.ProducerState:
    return _Partition.ProducerState(
        producer_id=producer_id,
        producer_epoch=known.epoch,
        last_sequence=known.last_sequence,
        last_timestamp=known.timestamp_ms,
        coordinator_epoch=known.coordinator_epoch,
        current_txn_start_offset=-1 if known.opened_at is None else known.opened_at,
    )
