"""The source `kraft` of running Kafka controllers, in Spark: it reads what lies in their files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deploy.kafka.node import tool
from deploy.kafka.release import POM
from quorate.metadata.acls import AclOperation
from quorate.network.client_config import ClientConfig, parse_bootstrap
from quorate.pipeline.kafka_nodes import KafkaNodes
from quorate.pipeline.live import QuorumReader
from quorate.pipeline.log_files import LOG_KIND, find, parts
from quorate.pipeline.rows import RowFilter, read
from tests.interop.kafka.release import OPERATIONS_POM, absent
from tests.interop.kafka.secured import secured_controller
from tests.interop.test_live_readers import CLUSTER_ID, QUORUM, Quorum, with_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(absent() is not None, reason=absent() or ""),
]

COLUMNS = ("offset", "epoch", "type", "payload")
EVERYONE = (1, 2, 3)
PATIENT_S = 120.0


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    """Three controllers that make a checkpoint soon, and delete the log before it."""
    with ExitStack() as stack:
        yield Quorum(tmp_path, POM, stack)


def in_files(directory: Path) -> dict[int, tuple[Any, ...]]:
    """The rows of a stopped node's log by offset, by the reader without Spark."""
    found: list[tuple[Any, ...]] = []
    for place in find([str(directory)]):
        for part in parts(place) if place.kind == LOG_KIND else ():
            for columns in read(part, RowFilter(failfast=True)):
                named = columns.by_name()
                found += zip(*(named[name] for name in COLUMNS), strict=True)
    return {row[0]: row for row in found}


def of_log(source: DataFrameReader) -> list[tuple[Any, ...]]:
    """The rows of the log after its checkpoint. There are none if that ends where the log does: NoOpRecords follow."""
    while True:
        rows = [tuple(row) for row in source.load().where("kind = 'log'").select(*COLUMNS).collect()]
        if rows:
            return rows


def test_a_running_kafka_is_read_as_its_files_are_also_when_its_leader_dies(
    spark: SparkSession, quorum: Quorum
) -> None:
    with_checkpoint(quorum)
    everyone = quorum.addresses(EVERYONE)
    source = spark.read.format("kraft").option("kafka.bootstrap.controllers", everyone)
    before = of_log(source)
    checkpoint = source.load().where("kind = 'checkpoint'").select("cluster_id", "type", "_corrupt").collect()
    described = tool(QUORUM, "--bootstrap-controller", everyone, "describe", "--status")
    leader = int(re.search(r"LeaderId:\s+(\d+)", described)[1])  # type: ignore[index]  # else the test fails here
    quorum.nodes[leader].kill()
    with closing(KafkaNodes(parse_bootstrap(everyone), ClientConfig())) as nodes:
        after = QuorumReader(nodes, retry_s=PATIENT_S).high_watermark()
    more = of_log(source.option("startOffset", before[-1][0]))
    observers = tool(QUORUM, "--bootstrap-controller", everyone, "describe", "--replication")
    for node in quorum.nodes.values():
        node.kill()
    logs = [in_files(node.directory / "data") for node in quorum.nodes.values()]
    whole = {offset: row for log in logs for offset, row in log.items()}

    assert {(CLUSTER_ID, None)} == {(row["cluster_id"], row["_corrupt"]) for row in checkpoint}
    assert "USER_SCRAM_CREDENTIAL_RECORD" in {row["type"] for row in checkpoint}
    assert before
    assert [whole[row[0]] for row in before if row[0] in whole] == [row for row in before if row[0] in whole]
    assert list(range(before[0][0], before[-1][0] + 1)) == sorted(row[0] for row in before)
    assert after > before[-1][0]
    assert [whole[row[0]] for row in more if row[0] in whole] == [row for row in more if row[0] in whole]
    if more[0][0] == before[-1][0]:  # else a checkpoint has replaced what came between
        assert "LEADER_CHANGE" in {row[2] for row in more}
    assert {*map(str, EVERYONE)} >= {line.split()[0] for line in observers.splitlines()[1:] if line.strip()}


def test_over_tls_with_a_login_a_batch_and_a_stream_have_what_its_files_have(
    spark: SparkSession, tmp_path: Path
) -> None:
    with secured_controller(tmp_path, OPERATIONS_POM) as kafka:
        for operation in (AclOperation.CLUSTER_ACTION, AclOperation.ALTER):  # to read, and for the cluster id
            asyncio.run(kafka.allow(operation))

        def options(**more: str) -> dict[str, str]:
            given = {"bootstrap.controllers": kafka.address, **kafka.client(), **more}
            return {f"kafka.{name}": value for name, value in given.items()}

        rows = [tuple(row) for row in spark.read.format("kraft").options(**options()).load().select(*COLUMNS).collect()]
        stream = spark.readStream.format("kraft").options(**options()).load().select(*COLUMNS)
        query = stream.writeStream.format("memory").queryName("secured").trigger(availableNow=True).start()
        query.awaitTermination()
        streamed = [tuple(row) for row in spark.table("secured").collect()]
        guess = kafka.client("guess")
        with pytest.raises(Exception, match="SASL_AUTHENTICATION_FAILED") as refusal:
            spark.read.format("kraft").options(**options(**guess)).load().collect()
        kafka.node.kill()
        whole = in_files(kafka.node_data)

    assert {"USER_SCRAM_CREDENTIAL_RECORD", "ACCESS_CONTROL_ENTRY_RECORD"} <= {row[2] for row in rows}
    for found in (rows, streamed):
        assert [whole[offset] for offset in range(len(found))] == sorted(found)
    assert len(streamed) >= len(rows)
    assert "guess" not in str(refusal.value)
