"""What we format and dump beside what the tools of a released Kafka do (`make interop`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.directories import CLUSTER_ID, a_history, run, write_log
from tests.cli.test_format import FIRST, OTHER_VOTER, VOTER, config, static, timeless
from tests.interop.kafka.judge import dump_log
from tests.interop.kafka.node import ToolFailed, tool
from tests.interop.kafka.release import absent

pytestmark = [pytest.mark.interop, pytest.mark.skipif(absent() is not None, reason=str(absent()))]

STORAGE_TOOL = "kafka.tools.StorageTool"
USER = "SCRAM-SHA-512=[name=alice,password=wonderland,iterations=5000,salt=MWx2NHBkbnc0ZndxN25vdGN4bTB5Y2E4Mg==]"


@pytest.mark.parametrize(
    "options",
    [
        *(["-r", release] for release in ("3.3", "3.5-IV2", "3.9", "4.0", "4.0-IV1", "4.1", "4.2", "4.3")),
        [],
        ["-r", "4.0", "-f", "share.version=1", "-f", "group.version=0"],
        ["-f", "metadata.version=25"],
        ["-r", "4.0", "-S", USER],
    ],
    ids=" ".join,
)
def test_kafka_formats_the_same_bytes(tmp_path: Path, options: list[str]) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for place in (ours, theirs):
        place.mkdir()

    said = run("storage", "format", "-c", static(ours), "-t", CLUSTER_ID, *options)
    told = tool(STORAGE_TOOL, "format", "-c", static(theirs), "-t", CLUSTER_ID, *options)

    assert 0 == said.code
    assert timeless(theirs / "data" / "bootstrap.checkpoint") == timeless(ours / "data" / "bootstrap.checkpoint")
    assert told.splitlines()[-1].replace(str(theirs), str(ours)) == said.out.splitlines()[-1]


def test_kafka_writes_the_same_first_voters(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for place in (ours, theirs):
        place.mkdir()
    voters = f"{OTHER_VOTER},{VOTER}"

    said = run("storage", "format", "-c", config(ours), "-t", CLUSTER_ID, "-I", voters)
    told = tool(
        *(STORAGE_TOOL, "format", "-t", CLUSTER_ID, "-I", voters, "-c"),
        config(theirs, controller_quorum_bootstrap_servers="127.0.0.1:19193"),
    )

    assert timeless(theirs / "data" / FIRST) == timeless(ours / "data" / FIRST)
    assert told.splitlines()[-1].replace(str(theirs), str(ours)) == said.out.splitlines()[-1]


def test_kafka_reads_what_we_formatted(tmp_path: Path) -> None:
    path = config(tmp_path, controller_quorum_bootstrap_servers="127.0.0.1:19193")
    run("storage", "format", "-c", path, "-t", CLUSTER_ID, "--standalone")

    told = tool(STORAGE_TOOL, "info", "-c", path)

    assert f"cluster.id={CLUSTER_ID}" in told
    assert run("storage", "info", "-c", path).out == told
    for name in ("bootstrap.checkpoint", FIRST):
        file = tmp_path / "data" / name
        assert dump_log(file) == run("log", "dump", file).out.replace(f"{file.parent}/", "")


def test_kafka_dumps_our_log_as_we_do(tmp_path: Path) -> None:
    partition = write_log(tmp_path, a_history())
    for path in sorted(partition.glob("0*")):
        assert dump_log(path) == run("log", "dump", path).out.replace(f"{partition}/", "")


def test_kafka_refuses_to_format_twice_as_we_do(tmp_path: Path) -> None:
    path = static(tmp_path)
    run("storage", "format", "-c", path, "-t", CLUSTER_ID)

    with pytest.raises(ToolFailed, match="is already formatted"):
        tool(STORAGE_TOOL, "format", "-c", path, "-t", CLUSTER_ID)
    assert 1 == run("storage", "format", "-c", path, "-t", CLUSTER_ID).code
