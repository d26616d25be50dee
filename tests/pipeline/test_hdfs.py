"""Logs on HDFS are read as they are from a disk: a NameNode and a DataNode are started, and the logs are put there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deploy.local.ports import HOST, free_ports
from quorate.pipeline.files import modified_ms, opened, size_of
from quorate.pipeline.log_files import NO_ACCESS, find
from quorate.pipeline.stores import store_of
from tests.pipeline.conftest import FIXTURES
from tests.pipeline.hadoop import SPARK_JARS, Hdfs, absent, hdfs, write_settings
from tests.pipeline.logs import batches, history, node, segment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.timeout(1_800), pytest.mark.skipif(absent() is not None, reason=str(absent()))]

LOCAL = FIXTURES / "three-dynamic"
NODES = ("broker-6", "controller-1")
KINDS = (".log", ".checkpoint")
ROOT = Path(__file__).parents[2]
STRANGER = "stranger"
BLOCK_BYTES = 4_096
LIBHDFS = "ARROW_LIBHDFS_DIR"
LIBHDFS_DIRECTORY = os.environ.pop(LIBHDFS, None)
"""For one test alone, and taken before Spark starts: where it is set, nothing is read by hdfs-native."""
WITHIN_S = 900

BATCH = """
import sys
from services.pipeline.session import start
spark = start("local[2]", {"spark.log.level": "ERROR"}, for_few=True)
spark.read.format("kraft").option("maxPartitionBytes", "12000").load(sys.argv[1]).write.parquet(sys.argv[2])
"""
FOUND = """
import json, sys
from quorate.pipeline.log_files import find
try:
    print(json.dumps([place.path for place in find([sys.argv[1]])]))
except Exception as problem:
    print(json.dumps([type(problem).__name__, str(problem)]))
"""
READER = """
import sys
from quorate.pipeline.stores import S3Access, store_of
print(type(store_of("hdfs", sys.argv[1], S3Access())[0]).__name__)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """An HDFS with the logs of two nodes; `/private` is its owner's alone, who is the user of this process."""
    staged = tmp_path_factory.mktemp("staged")
    for name in NODES:
        shutil.copytree(LOCAL / name, staged / "logs" / LOCAL.name / name)
    shutil.copytree(LOCAL / NODES[1], staged / "private" / NODES[1])
    (staged / "private").chmod(0o700)
    with hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        running.shell("-put", "-p", staged / "logs", staged / "private", "/")
        yield running


def url_of(store: Hdfs) -> str:
    return f"{store.url}/logs/three-dynamic"


def rows(frame: DataFrame, root: str) -> set[tuple[object, ...]]:
    """The rows, with the path of each file below `root` as its source."""
    found = frame.drop("raw").collect()
    assert all(row["source"].startswith(root) for row in found), found[0]["source"]
    return {
        (row["source"].removeprefix(root), *(row[name] for name in frame.columns[2:] if name != "raw")) for row in found
    }


def of_disk(spark: SparkSession) -> set[tuple[object, ...]]:
    return rows(spark.read.format("kraft").load([f"file:{LOCAL / name}" for name in NODES]), str(LOCAL))


def streamed(spark: SparkSession, url: str, to: Path) -> DataFrame:
    """What a stream has written after all that is there now; the next call goes on from its checkpoint."""
    query = (
        spark.readStream.format("kraft")
        .option("maxPartitionBytes", "12000")
        .load(url)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(to / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(to / "rows"))
    )
    query.awaitTermination()
    return spark.read.parquet(str(to / "rows"))


def put(store: Hdfs, directory: Path) -> None:
    """The files of a directory, below its name: by the client, as each command of Hadoop's is a JVM of its own."""
    from hdfs_native import Client

    client = Client(store.url)
    for path in sorted(each for each in directory.rglob("*") if each.is_file()):
        with client.create(f"/{path.relative_to(directory.parent)}") as file:
            file.write(path.read_bytes())


def found_by(url: str, **variables: str) -> list[str]:
    """What a process with these environment variables finds below a URL, or its error: the name and the message."""
    answer: list[str] = json.loads(printed(FOUND, url, variables=variables))
    return answer


def printed(script: str, *arguments: str, variables: Mapping[str, str]) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        check=True,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    return ran.stdout


def test_a_batch_and_a_stream_have_the_rows_of_the_disk(spark: SparkSession, tmp_path: Path, store: Hdfs) -> None:
    """With all columns, `commit` among them. Files are cut into parts, of which each task reads its own bytes only."""
    disk = of_disk(spark)
    url = url_of(store)
    batch = spark.read.format("kraft").option("maxPartitionBytes", "12000").load(url)

    assert len(disk) > 300
    assert disk == rows(batch, url)
    assert disk == rows(streamed(spark, url, tmp_path), url)
    assert {"committed", "unknown"} == {row["commit"] for row in batch.select("commit").distinct().collect()}


def test_a_stream_goes_on_where_a_file_has_grown(spark: SparkSession, tmp_path: Path, store: Hdfs) -> None:
    from hdfs_native import Client

    content = batches(history(6))
    directory = node(tmp_path / "grows", "one")
    log = segment(directory, content[:2])
    put(store, tmp_path / "grows")
    url = f"{store.url}/grows"

    first = {row["offset"] for row in streamed(spark, url, tmp_path).collect()}
    with Client(store.url).append(f"/{log.relative_to(tmp_path)}") as file:
        file.write(b"".join(content[2:]))
    every = [row["offset"] for row in streamed(spark, url, tmp_path).collect()]

    assert first < set(every)
    segment(directory, content)
    assert sorted(every) == sorted(
        row["offset"] for row in spark.read.format("kraft").load(str(tmp_path / "grows")).collect()
    )


def test_globs_find_the_same_files_and_what_is_not_there_is_named(store: Hdfs) -> None:
    def found(pattern: str) -> list[str]:
        return [place.path for place in find([pattern])]

    url = url_of(store)
    every = found(url)
    on_disk = [str(path) for name in NODES for path in sorted((LOCAL / name).rglob("*/0*")) if path.suffix in KINDS]
    assert sorted(on_disk) == sorted(path.replace(url, str(LOCAL)) for path in every)
    assert [path for path in every if "controller" in path] == found(f"{store.url}/logs/three-*/contr*-[0-9]")
    assert every == found(f"{store.url}/logs/*/*/*/*")  # a file is no directory where a glob goes on
    assert every[:1] == found(every[0])
    assert {place.cluster_id for place in find([str(LOCAL / NODES[0])])} == {place.cluster_id for place in find([url])}
    for pattern in (f"{store.url}/logs/*/other", f"{store.url}/other", f"{every[0]}/*"):
        with pytest.raises(FileNotFoundError) as raised:
            found(pattern)
        assert f"{pattern}: there is no such file or directory" == str(raised.value)


def test_a_range_is_read_whatever_blocks_it_is_in_and_one_that_is_not_there_is_refused(store: Hdfs) -> None:
    (local,) = (LOCAL / "controller-1").rglob("0*0.log")
    path = f"{url_of(store)}/{local.relative_to(LOCAL)}"
    content = local.read_bytes()
    assert len(content) > 3 * BLOCK_BYTES
    assert len(content) == size_of(path, NO_ACCESS)
    status = store.shell("-stat", "%Y", path.removeprefix(store.url))
    assert int(status) == modified_ms(path, NO_ACCESS)
    for start, end in ((0, len(content)), (BLOCK_BYTES - 1, BLOCK_BYTES + 1), (1, 3 * BLOCK_BYTES), (700, 701)):
        with opened(path, NO_ACCESS, start=start, end=end) as data:
            assert content[start:end] == data[start:end]
            assert bytes(start) == data[:start]

    reader, place = store_of("hdfs", path.removeprefix("hdfs://"), NO_ACCESS)
    with pytest.raises(OSError, match=rf"{place}: the bytes from 8 to {len(content) + 1} .* has {len(content)}:"):
        reader.read(place, 8, len(content) + 1)


def test_a_file_that_is_open_for_writing_does_not_seem_shorter_than_it_is(store: Hdfs) -> None:
    """The client has no last block of it, here the only one. A log that was cut would be read again from its start."""
    from hdfs_native import Client

    writer = Client(store.url)
    writer.mkdirs("/open")
    with writer.create("/open/log") as file:
        file.write(b"closed")
    path = f"{store.url}/open/log"
    with writer.append("/open/log") as file:
        file.write(b", opened")
        file.hsync()
        assert 14 == size_of(path, NO_ACCESS)
        with pytest.raises(OSError, match=r"/open/log: .* hdfs-native has 0: the file is open for writing"):
            opened(path, NO_ACCESS, end=6).__enter__()

    with opened(path, NO_ACCESS) as data:
        assert b"closed, opened" == data[:]


def test_a_query_of_a_log_that_is_open_for_writing_says_so_and_a_stream_goes_on_once_it_is_closed(
    spark: SparkSession, tmp_path: Path, store: Hdfs
) -> None:
    from hdfs_native import Client
    from pyspark.errors import PySparkException

    content = batches(history(6))
    log = segment(node(tmp_path / "opens", "one"), content[:2])
    put(store, tmp_path / "opens")
    url, path = f"{store.url}/opens", f"/{log.relative_to(tmp_path)}"
    first = {row["offset"] for row in streamed(spark, url, tmp_path).collect()}
    with Client(store.url).append(path) as file:
        file.write(b"".join(content[2:]))
        file.hsync()
        with pytest.raises(PySparkException, match=rf"{path}: .* the file is open for writing"):
            streamed(spark, url, tmp_path)
        with pytest.raises(PySparkException, match=rf"{path}: .* the file is open for writing"):
            spark.read.format("kraft").load(url).collect()
    every = [row["offset"] for row in streamed(spark, url, tmp_path).collect()]

    assert first < set(every)
    assert sorted(every) == sorted(row["offset"] for row in spark.read.format("kraft").load(url).collect())


def test_who_may_not_read_is_told_so_and_a_delegation_token_says_who_reads(store: Hdfs, tmp_path: Path) -> None:
    url = f"{store.url}/private"
    token = tmp_path / "token"
    store.fetch_token(token)
    # As on a secured cluster: the client then asks the NameNode which ways to authenticate there are.
    write_settings(tmp_path / "core-site.xml", {"hadoop.security.authentication": "kerberos"})
    secured = {"HADOOP_CONF_DIR": str(tmp_path), "HADOOP_USER_NAME": STRANGER}

    kind, message = found_by(url, HADOOP_USER_NAME=STRANGER)
    assert "PermissionError" == kind
    assert message.startswith(f"{url}: ")
    assert f"Permission denied: user={STRANGER}" in message
    assert "\tat " not in message
    assert 1 == message.count("\n") + 1

    owned = found_by(url)
    assert 3 <= len(owned)
    assert owned[0].startswith(f"{url}/controller-1/")
    assert "PermissionError" == found_by(url, **secured)[0]
    assert owned == found_by(url, **secured, HADOOP_TOKEN_FILE_LOCATION=str(token))


def test_of_a_name_service_the_name_node_that_answers_is_asked(store: Hdfs, tmp_path: Path) -> None:
    settings = {
        "dfs.ha.namenodes.service": "gone,there",
        "dfs.namenode.rpc-address.service.gone": f"{HOST}:{free_ports(1)[0]}",
        "dfs.namenode.rpc-address.service.there": store.url.removeprefix("hdfs://"),
    }
    write_settings(tmp_path / "hdfs-site.xml", settings)
    expected = [path.replace(store.url, "hdfs://service") for path in found_by(url_of(store))]

    assert 4 <= len(expected)
    assert expected == found_by("hdfs://service/logs", HADOOP_CONF_DIR=str(tmp_path))


@pytest.mark.skipif(LIBHDFS_DIRECTORY is None, reason=f"{LIBHDFS} is not set: no registry has Hadoop's libhdfs.so")
def test_libhdfs_reads_the_same(spark: SparkSession, tmp_path: Path, store: Hdfs) -> None:
    """In a process of its own, as JAVA_HOME has to be a JDK's: Spark's Java from pip is only a launcher's."""
    java = shutil.which("java")
    assert java is not None, "libhdfs needs a JDK"
    variables = {
        LIBHDFS: str(LIBHDFS_DIRECTORY),
        "JAVA_HOME": str(Path(java).resolve().parents[1]),
        "CLASSPATH": os.pathsep.join(map(str, SPARK_JARS.glob("*.jar"))),
    }
    url, to = url_of(store), tmp_path / "rows"
    printed(BATCH, url, str(to), variables=variables)
    expected = [place.path for place in find([f"{store.url}/logs/three-*/contr*-[0-9]"])]

    assert "ArrowStore" == printed(READER, url.removeprefix("hdfs://"), variables=variables).strip()
    assert of_disk(spark) == rows(spark.read.parquet(str(to)), url)
    assert expected == found_by(f"{store.url}/logs/three-*/contr*-[0-9]", **variables)
    assert "FileNotFoundError" == found_by(f"{expected[0]}/*", **variables)[0]
    assert "PermissionError" == found_by(f"{store.url}/private", **variables, HADOOP_USER_NAME=STRANGER)[0]
