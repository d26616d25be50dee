"""What a URL of HDFS is refused for before anything is asked of a server."""

from __future__ import annotations

import sys

import pytest

from quorate.pipeline.log_files import find

pytest.importorskip("pyarrow", reason="Spark and what it reads with are not installed: `make spark-setup`")


@pytest.mark.parametrize("url", ["hdfs:///logs", "hdfs://kafka@namenode:8020/logs"])
def test_the_url_of_an_hdfs_says_which_one_and_no_user(url: str) -> None:
    with pytest.raises(ValueError, match=r"/…: a URL of HDFS has a NameNode's host:port, or .* HADOOP_USER_NAME says"):
        find([url])


def test_without_a_port_it_is_a_name_service_that_has_to_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hdfs_native", reason="`make spark-setup`")
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(ValueError, match=r"hdfs://nobody has no port .*, and is no name service of hdfs-site.xml"):
        find(["hdfs://nobody/logs"])


def test_without_a_client_it_is_said_what_to_install_or_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The directory has no libhdfs.so. PyArrow's own error is fifty lines of paths that it has tried."""
    monkeypatch.setitem(sys.modules, "hdfs_native", None)  # an import of it raises ImportError
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", str(tmp_path_factory.mktemp("empty")))

    with pytest.raises(OSError, match="hdfs://namenode:8020: there is no client for HDFS") as raised:
        find(["hdfs://namenode:8020/logs"])

    said = str(raised.value)
    for name in ("hdfs-native", "ARROW_LIBHDFS_DIR", "JAVA_HOME", "CLASSPATH", "PyArrow says: Unable to load lib"):
        assert name in said
    assert 1 == len(said.splitlines())
