"""A broker of Kafka's writes a partition, we go on with its directory, and it goes on with ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.kafka.node import Node
from deploy.local.ports import free_ports
from kraft import Uuid
from quorate.nouns import parse_uuid
from quorate.partition_log import LogSettings, PartitionLog
from quorate.partition_log.names import HIGH_WATERMARKS, RECOVERY_POINTS
from quorate.partition_log.offset_checkpoints import TopicPartition, read_offsets, write_offsets
from tests.interop.kafka import release
from tests.interop.kafka.quorum import CLUSTER_ID, Voters, combined, data_of
from tests.partition_log.batches import produced

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(release.absent() is not None, reason=str(release.absent())),
]
PARTITION = TopicPartition("orders", 0)
PATIENCE_S = 120.0
COMPLAINT = re.compile(r"ERROR (?!\[ControllerApis )|WARN .*orders-0")
"""A line about logs. That its own controller refuses a registration which comes too early at a start is none."""


@contextmanager
def running(node: Node) -> Iterator[None]:
    node.start().wait_ready()
    try:
        yield
    finally:
        node.stop()


def produce(servers: str) -> None:
    """Ten records of an idempotent producer, and two transactions of three, of which the first one is aborted."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(PATIENCE_S)
    plain = confluent_kafka.Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "compression.type": "lz4"}
    )
    for number in range(10):
        plain.produce("orders", f"plain {number}")
    assert 0 == plain.flush(PATIENCE_S)
    transactional = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": "t"})
    transactional.init_transactions(PATIENCE_S)
    for outcome in (transactional.abort_transaction, transactional.commit_transaction):
        transactional.begin_transaction()
        for number in range(3):
            transactional.produce("orders", f"{outcome.__name__} {number}")
        transactional.flush(PATIENCE_S)
        outcome(PATIENCE_S)


def consumed(servers: str, count: int) -> list[str]:
    """What a consumer that reads only what is committed sees."""
    settings = {"bootstrap.servers": servers, "group.id": "any", "isolation.level": "read_committed"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    found = [str(each.value(), "utf-8") for each in consumer.consume(count, PATIENCE_S)]
    consumer.close()
    return found


def topic_id_in(directory: Path) -> Uuid:
    return parse_uuid((directory / "partition.metadata").read_text().split()[-1])


def test_a_broker_of_kafkas_and_we_go_on_with_each_others_directories(tmp_path: Path) -> None:
    port, controller_port = free_ports(2)
    voters = Voters(addresses={1: f"127.0.0.1:{controller_port}"}, are_static=False)
    data, servers = data_of(tmp_path, 1), f"127.0.0.1:{port}"
    with combined(data, 1, voters, port) as node:
        node.configure({"transaction.state.log.replication.factor": 1, "transaction.state.log.min.isr": 1})
        node.format(CLUSTER_ID, "--standalone")
        with running(node):
            produce(servers)
        directory = data / str(PARTITION)
        stopped_at = read_offsets(data / RECOVERY_POINTS)[PARTITION]
        log = PartitionLog(directory, topic_id_in(directory), LogSettings(), clean=True)
        found = (log.leo, log.start, log.torn, log.first_open_offset, len(log.producers))
        aborted = [(each.first_offset, each.last_offset) for each in log.aborted(0, log.leo)]
        now_ms = log.find_time(0)[2].max_timestamp  # type: ignore[index]  # there are records
        for size in (3, 5):
            log.append_as_leader(produced(size=size, timestamp_ms=now_ms), epoch=log.epochs.last_epoch, now_ms=now_ms)
        log.close()
        for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
            write_offsets(data / name, {**read_offsets(data / name), PARTITION: log.leo})
        with running(node):
            values = consumed(servers, 15)
        said = node.says.read_text()

    committed = [*(f"plain {number}" for number in range(10)), *(f"commit_transaction {number}" for number in range(3))]
    assert (stopped_at, 0, None, None, 2) == found
    assert [(10, 13)] == aborted
    assert [*committed, "AAA", "AAAAA"] == values
    assert [] == [line for line in said.splitlines() if COMPLAINT.search(line)]
