"""What we format and dump beside what the tools of a Kafka release do (`make interop`)."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest

from deploy.kafka.node import ToolFailed, tool
from quorate.records import ClientQuotaRecord
from quorate.storage.meta_properties import read_meta_properties
from tests.cli.directories import CLUSTER_ID, END_OFFSET, LOG_NAME, a_history, batch, run, write_log
from tests.cli.test_dump import BATCHES, OUT_OF_ORDER
from tests.cli.test_format import FIRST, OTHER_VOTER, VOTER, config, static, timeless
from tests.interop.kafka.judge import dump_log
from tests.interop.kafka.release import OPERATIONS_POM, absent, java

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


@pytest.mark.parametrize("how", ["static", "-s", "-N", "-I", "broker"])
def test_kafka_4_4_formats_the_same_bytes(tmp_path: Path, how: str) -> None:
    """Bootstrap records and first voters are in one checkpoint, and a broker gets none."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    roles = {"process_roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:19192"} if how == "broker" else {}
    servers = {"controller_quorum_bootstrap_servers": "127.0.0.1:19193"}
    options = {"static": (), "broker": (), "-I": ("-I", f"{OTHER_VOTER},{VOTER}")}.get(how, (how,))
    paths = []
    for place in (ours, theirs):
        place.mkdir()
        dirs = {"log_dirs": f"{place}/data,{place}/more"}
        paths.append(static(place, **dirs) if how == "static" else config(place, **servers, **roles, **dirs))

    said = run("storage", "format", "-c", paths[0], "-t", CLUSTER_ID, "-r", "4.4", "-S", USER, *options)
    tool(
        *(STORAGE_TOOL, "format", "-t", CLUSTER_ID, "-r", "4.4", "-S", USER, *options, "-c", paths[1]),
        pom=OPERATIONS_POM,
    )

    assert (0, "") == (said.code, said.err)
    assert files_below(theirs) == files_below(ours)
    if how != "broker":
        assert untold(theirs / "data" / FIRST) == untold(ours / "data" / FIRST)


def files_below(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.name != ".lock")


def untold(path: Path) -> bytes:
    """A checkpoint without times, and without the directory id that a standalone voter draws."""
    data = timeless(path)
    meta = read_meta_properties(path.parents[1])
    assert meta is not None
    assert meta.directory_id is not None
    return data.replace(meta.directory_id, bytes(16))


def test_kafka_reads_what_we_formatted(tmp_path: Path) -> None:
    path = config(tmp_path, controller_quorum_bootstrap_servers="127.0.0.1:19193")
    run("storage", "format", "-c", path, "-t", CLUSTER_ID, "--standalone")

    told = tool(STORAGE_TOOL, "info", "-c", path)

    assert f"cluster.id={CLUSTER_ID}" in told
    assert run("storage", "info", "-c", path).out == told
    for name in ("bootstrap.checkpoint", FIRST):
        file = tmp_path / "data" / name
        assert dump_log(file) == run("log", "dump", "--show-secrets", file).out.replace(f"{file.parent}/", "")


def test_kafka_dumps_our_log_as_we_do(tmp_path: Path) -> None:
    partition = write_log(tmp_path, a_history())
    for path in sorted(partition.glob("0*")):
        assert dump_log(path) == run("log", "dump", "--show-secrets", path).out.replace(f"{partition}/", "")


def test_kafka_prints_doubles_as_we_do(tmp_path: Path) -> None:
    """Its Java prints some in more digits than the shortest; these are not among them."""
    values = (0.0, -0.0, 1.0, 1e7, 1234567.25, 123456789.0, 0.001, 0.0005, 5e-324, math.inf, -math.inf, math.nan)
    who = (ClientQuotaRecord.EntityData("user", "alice"),)
    quotas = [(ClientQuotaRecord(entity=who, key="rate", value=value), 0) for value in values]
    path = write_log(tmp_path, [*a_history(), batch(2, END_OFFSET, *quotas)]) / LOG_NAME

    assert dump_log(path) == run("log", "dump", "--show-secrets", path).out.replace(f"{path.parent}/", "")


@pytest.mark.parametrize("what", OUT_OF_ORDER)
def test_kafka_names_what_does_not_follow_as_we_do(tmp_path: Path, what: str) -> None:
    path = tmp_path / LOG_NAME
    path.write_bytes(b"".join(BATCHES[at] for at in OUT_OF_ORDER[what][0]))
    command = java("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", path)
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)

    assert told.stderr.split("\n")[:-1] == run("log", "dump", path).err.splitlines()[:-1]


def test_kafka_refuses_to_format_twice_as_we_do(tmp_path: Path) -> None:
    path = static(tmp_path)
    run("storage", "format", "-c", path, "-t", CLUSTER_ID)

    with pytest.raises(ToolFailed, match="is already formatted"):
        tool(STORAGE_TOOL, "format", "-c", path, "-t", CLUSTER_ID)
    assert 1 == run("storage", "format", "-c", path, "-t", CLUSTER_ID).code
