"""P12: from the bytes of a log to a state: batches, values, records, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Final

from kraft import Message
from quorate.metadata.state import ClusterState
from quorate.metadata.versions import LATEST, record_version
from quorate.records import PartitionChangeRecord, PartitionRecord, decode_record, encode_record
from quorate.wire.batch import batches, check_batch, data_batch, data_values
from tests.bench.measure import Figure, Table, rate, rates_table
from tests.bench.synthetic import SEED, Shape, cluster

COUNT: Final = 200_000
TIMESTAMP_MS: Final = 1_790_000_000_000
SIZES: Final = (1, 10, 1000)
"""Records a batch: one change, a small topic, a large one."""


def run() -> list[Table]:
    """Logs of creations and of changes, in batches of three sizes; then what each step takes by itself."""
    created = [encode_record(record, record_version(record, LATEST)) for record in _creations()]
    changed = [encode_record(record, record_version(record, LATEST)) for record in _changes()]
    figures = [
        rate(f"creations, {size} a batch", _replay(_log(created, size)), target=250e3, stretch=1e6) for size in SIZES
    ]
    figures.append(rate("ISR changes, 100 a batch", _replay(_log(changed, 100)), target=250e3, stretch=1e6))
    return [
        rates_table(f"P12: replay of {COUNT:,} records", figures),
        rates_table("P12 by steps, creations, 1,000 a batch", _steps(created)),
    ]


def _steps(values: list[bytes]) -> list[Figure]:
    log = _log(values, 1000)
    records = [decode_record(value) for value in values]

    def read() -> int:
        return sum(len(data_values(log, position, header)) for position, header in batches(log))

    def check() -> int:
        return sum(check_batch(log, position).count for position, _ in batches(log))

    def decode() -> int:
        return sum(1 for value in values if decode_record(value) is not None)

    def apply() -> int:
        state = ClusterState()
        for offset, record in enumerate(records):
            state.apply(record, offset)
        return len(records)

    return [rate(work.__name__, work) for work in (check, read, decode, apply)]


def _replay(log: bytes) -> Callable[[], int]:
    def work() -> int:
        state = ClusterState()
        offset = position = 0
        while position < len(log):
            header = check_batch(log, position)
            for value in data_values(log, position, header):
                state.apply(decode_record(value), offset)
                offset += 1
            state.settle()
            position += header.size
        return offset

    return work


def _log(values: list[bytes], size: int) -> bytes:
    return b"".join(
        data_batch(base_offset=first, epoch=1, timestamp_ms=TIMESTAMP_MS, values=values[first : first + size])
        for first in range(0, len(values), size)
    )


def _creations() -> Iterator[Message]:
    return islice(cluster(Shape(partitions=COUNT)), COUNT)


def _changes() -> Iterator[Message]:
    """A tenth as many partitions, and then one replica after the other out of an ISR and back in."""
    partitions = []
    laid_down = 0
    for record in cluster(Shape(partitions=COUNT // 10)):
        yield record
        laid_down += 1
        if isinstance(record, PartitionRecord):
            partitions.append(record)
    chance = Random(SEED)
    for _ in range((COUNT - laid_down) // 2):
        whole = chance.choice(partitions)
        yield PartitionChangeRecord(whole.partition_id, whole.topic_id, isr=whole.isr[:-1])
        yield PartitionChangeRecord(whole.partition_id, whole.topic_id, isr=whole.isr)
