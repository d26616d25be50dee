"""An HDFS on loopback: Hadoop's own NameNode and DataNode, of the release whose client Spark has.

    python -m tests.pipeline.hadoop

(`make hdfs-setup`) fetches the one jar that Spark does not bring with it to `build/hadoop-<version>/`, outside git.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from urllib.request import urlopen

from deploy.local.ports import HOST, free_ports
from deploy.spark import HOW_TO_GET, environment, is_installed

ROOT: Final = Path(__file__).parents[2]
SPARK_JARS: Final = Path(sysconfig.get_path("purelib")) / "pyspark" / "jars"
CLIENT: Final = "hadoop-client-api-"
COPY_ONE: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
MAVEN_TIMEOUT_S: Final = 600
WITHIN_S: Final = 900.0
JVM: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
NAME_NODE: Final = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATA_NODE: Final = "org.apache.hadoop.hdfs.server.datanode.DataNode"
SHELL: Final = "org.apache.hadoop.fs.FsShell"
TOKENS: Final = "org.apache.hadoop.hdfs.tools.DelegationTokenFetcher"


def version() -> str:
    """The release of Hadoop's client in the PySpark that is installed, such as "3.5.0"."""
    (jar,) = SPARK_JARS.glob(f"{CLIENT}*.jar")
    return jar.stem.removeprefix(CLIENT)


def absent() -> str | None:
    """Why no HDFS can be started here, or None when one can."""
    if not is_installed():
        return HOW_TO_GET
    if not _servers().exists():
        return (
            f"no HDFS {version()} in build/: nothing says that logs on HDFS are read. This test is SKIPPED and shows "
            "nothing. `make hdfs-setup` fetches it; it needs Maven."
        )
    return None


def fetch() -> Path:
    """The jar with Hadoop's servers, fetched when it is not there yet."""
    jar = _servers()
    if not jar.exists():
        if shutil.which("mvn") is None:
            raise SystemExit("not on PATH: mvn (Debian, Ubuntu: `apt-get install maven`)")
        artifact = f"org.apache.hadoop:hadoop-client-minicluster:{version()}"
        command = ["mvn", "-q", "-B", COPY_ONE, f"-Dartifact={artifact}", f"-DoutputDirectory={jar.parent}"]
        subprocess.run(command, check=True, timeout=MAVEN_TIMEOUT_S)
    return jar


class Hdfs:
    """One that runs: the URL of its root, and what Hadoop's own programs do with it."""

    def __init__(self, directory: Path, url: str) -> None:
        self.url = url
        self._directory = directory

    def shell(self, *arguments: object) -> str:
        """What `hdfs dfs` prints with these arguments."""
        return self._run(SHELL, *arguments)

    def fetch_token(self, file: Path) -> None:
        """Writes a delegation token of this user to a file, as `hdfs fetchdt` does, and YARN for its containers."""
        self._run(TOKENS, "--renewer", "nobody", file)

    def _run(self, main: str, *arguments: object) -> str:
        command = _java(self._directory, main, *arguments)
        ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=WITHIN_S, env=_variables())
        assert 0 == ran.returncode, (arguments, ran.stdout, ran.stderr)
        return ran.stdout


@contextmanager
def hdfs(directory: Path) -> Iterator[Hdfs]:
    """An HDFS of one DataNode, with its files, settings and output in a directory, until the block ends.

    A reader says who he is, as in a cluster without Kerberos; and delegation tokens are given and taken.
    """
    rpc, http = free_ports(2)
    url = f"hdfs://{HOST}:{rpc}"
    _configure(directory, url, f"{HOST}:{http}")
    subprocess.run(
        _java(directory, NAME_NODE, "-format", "-nonInteractive"),
        check=True,
        capture_output=True,
        timeout=WITHIN_S,
        env=_variables(),
    )
    with ExitStack() as stack:
        nodes = [stack.enter_context(_running(directory, main)) for main in (NAME_NODE, DATA_NODE)]
        _wait_until_it_serves(directory, f"http://{HOST}:{http}", nodes)
        yield Hdfs(directory, url)


@contextmanager
def _running(directory: Path, main: str) -> Iterator[subprocess.Popen[bytes]]:
    with (directory / f"{main.rpartition('.')[2]}.log").open("wb") as output:
        node = subprocess.Popen(_java(directory, main), stdout=output, stderr=output, env=_variables())
    try:
        yield node
    finally:
        node.kill()
        node.wait()


def _wait_until_it_serves(directory: Path, address: str, nodes: list[subprocess.Popen[bytes]]) -> None:
    end = time.monotonic() + WITHIN_S
    while not _serves(address):
        logs = "".join(file.read_text() for file in sorted(directory.glob("*.log")))
        assert [None] * len(nodes) == [node.poll() for node in nodes], logs
        assert time.monotonic() < end, logs
        time.sleep(0.2)


def _serves(address: str) -> bool:
    """Whether the NameNode is out of its safe mode and has its DataNode."""
    try:
        with urlopen(f"{address}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState", timeout=10) as answer:
            beans = json.load(answer)["beans"]
    except OSError:
        return False
    return [("Operational", 1)] == [(bean["FSState"], bean["NumLiveDataNodes"]) for bean in beans]


def _configure(directory: Path, url: str, http: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    write_settings(directory / "core-site.xml", {"fs.defaultFS": url})
    settings = {
        "dfs.namenode.name.dir": directory / "name",
        "dfs.datanode.data.dir": directory / "data",
        "dfs.namenode.http-address": http,
        "dfs.datanode.address": f"{HOST}:0",
        "dfs.datanode.http.address": f"{HOST}:0",
        "dfs.datanode.ipc.address": f"{HOST}:0",
        "dfs.replication": 1,
        "dfs.namenode.delegation.token.always-use": "true",
        # Many blocks a file, so that ranges begin and end within them; 512 bytes have a checksum.
        "dfs.namenode.fs-limits.min-block-size": 512,
        "dfs.blocksize": 4_096,
    }
    write_settings(directory / "hdfs-site.xml", settings)


def write_settings(file: Path, settings: Mapping[str, object]) -> None:
    """Writes a file of settings as Hadoop reads them."""
    properties = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    file.write_text(f"<configuration>{''.join(properties)}</configuration>")


def _servers() -> Path:
    return ROOT / "build" / f"hadoop-{version()}" / f"hadoop-client-minicluster-{version()}.jar"


def _java(directory: Path, main: str, *arguments: object) -> list[str]:
    java = Path(environment()["JAVA_HOME"]) / "bin" / "java"
    classpath = os.pathsep.join(map(str, (directory, _servers(), SPARK_JARS / "*")))
    return [str(java), *JVM, "-cp", classpath, main, *map(str, arguments)]


def _variables() -> dict[str, str]:
    hadoops = ("HADOOP_USER_NAME", "HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_TOKEN_FILE_LOCATION")
    return {**{name: value for name, value in os.environ.items() if name not in hadoops}, **environment()}


if __name__ == "__main__":
    print(f"an HDFS: {fetch()}")
