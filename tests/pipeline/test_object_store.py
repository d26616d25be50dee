"""Logs in an object store are read as they are from a disk: an S3 server is started, and they are copied there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quorate.pipeline.log_files import find
from tests.pipeline.conftest import FIXTURES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(1_800)

LOCAL = FIXTURES / "three-dynamic"
URL = "s3a://logs/three-dynamic"
NODES = ("broker-6", "controller-1")
KINDS = (".log", ".checkpoint")
SECRET = "kept-to-itself"


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """The reader's options for an S3 server on loopback that has the logs of three nodes."""
    server_of = pytest.importorskip("moto.server", reason="no S3 server is installed: `make spark-setup`")
    from pyarrow.fs import LocalFileSystem, S3FileSystem, copy_files

    server = server_of.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "fs.s3a.endpoint": f"{host}:{port}",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": "reader",
        "fs.s3a.secret.key": SECRET,
    }
    system = S3FileSystem(
        endpoint_override=f"{host}:{port}",
        scheme="http",
        region="eu-west-1",
        access_key="reader",
        secret_key=SECRET,
        allow_bucket_creation=True,
    )
    system.create_dir("logs")
    for name in NODES:
        copy_files(
            str(LOCAL / name),
            f"logs/three-dynamic/{name}",
            source_filesystem=LocalFileSystem(),
            destination_filesystem=system,
        )
    yield options
    server.stop()


def rows(frame: DataFrame, root: str) -> set[tuple[object, ...]]:
    """The rows, with the path of each file below `root` as its source."""
    found = frame.drop("raw").collect()
    assert all(row["source"].startswith(root) for row in found), found[0]["source"]
    return {
        (row["source"].removeprefix(root), *(row[name] for name in frame.columns[2:] if name != "raw")) for row in found
    }


def test_a_batch_and_a_stream_of_a_bucket_have_the_rows_of_the_disk(
    spark: SparkSession, tmp_path: Path, store: dict[str, str]
) -> None:
    """Files are cut into parts, of which each task fetches its own bytes only."""
    disk = rows(spark.read.format("kraft").load([f"file:{LOCAL / name}" for name in NODES]), str(LOCAL))
    small = {**store, "maxPartitionBytes": "12000"}
    query = (
        spark.readStream.format("kraft")
        .options(**small)
        .load(URL)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "rows"))
    )
    query.awaitTermination()

    assert len(disk) > 300
    assert disk == rows(spark.read.format("kraft").options(**small).load(URL), URL)
    assert disk == rows(spark.read.parquet(str(tmp_path / "rows")), URL)


def test_globs_find_the_same_files_and_what_is_not_there_is_named(store: dict[str, str]) -> None:
    from services.pipeline.source.options import parse

    access = parse({"path": URL, **store}).access

    def found(pattern: str) -> list[str]:
        return [place.path for place in find([pattern], access=access)]

    every = found(URL)
    of_disk = [str(path) for name in NODES for path in sorted((LOCAL / name).rglob("*/0*")) if path.suffix in KINDS]
    assert sorted(of_disk) == sorted(path.replace(URL, str(LOCAL)) for path in every)
    assert [path for path in every if "controller" in path] == found("s3a://logs/three-*/contr*-[0-9]")
    assert found("s3a://logs/three-*/contr*-[0-9]") == found("s3a://logs/three-*/{contr*-[0-9],nowhere}")
    assert every[:1] == found(every[0])
    assert {place.cluster_id for place in find([str(LOCAL / NODES[0])])} == {
        place.cluster_id for place in find([URL], access=access)
    }
    with pytest.raises(FileNotFoundError, match=r"s3a://logs/\*/other: there is no such file or directory"):
        found("s3a://logs/*/other")
    with pytest.raises(FileNotFoundError, match="s3a://logs/other: there is no such file or directory"):
        found("s3a://logs/other")


def test_the_secret_is_in_no_text_of_what_is_read(store: dict[str, str]) -> None:
    from services.pipeline.source.options import parse

    options = parse({"path": URL, **store})

    assert SECRET == options.access.secret_key
    assert SECRET not in repr((options, find([URL], access=options.access)))
